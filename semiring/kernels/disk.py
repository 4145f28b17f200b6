"""Compiled code on disk, from one process to the next, for every backend.

One file an entry, named by a hash of everything the code depends on: the backend's fingerprint (the kernel's sources,
versions, the processor) and the key of the kernel. So an entry is never stale: an upgrade or a changed definition has
another name. A kernel whose fingerprint is None has no entry.
Whatever goes wrong with a file, on loading or saving, is a miss: the code is compiled.

An entry is unpickled and run, so whoever can write to the folder can run code as its user. A folder, or an entry, that
belongs to another user than this one or root, or that group or others may write to, is refused: nothing is read from it
or kept in it, and the logger ``semiring`` says so once, as a warning. Folders made here are open to their owner alone.
On Windows nothing is checked, as owner and mode do not tell there who may write; the user's cache folder is private.

The folder is ``SEMIRING_CACHE_DIR`` (empty: nothing is kept), else ``NUMBA_CACHE_DIR``/semiring, else the user's cache
folder. It holds at most `LIMIT` bytes: what was not used for longest goes first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from semiring.logs import logger

__all__ = ["DIGESTS", "cache_folder", "holds", "is_enabled", "load", "prune", "refusal", "save", "user_folder"]

KERNEL, DIGESTS = "kernel", "digests"  # the kinds of entries, and the ends of their names

#: Bytes of a folder from which on entries are removed: some thousands of kernels, of 10 to 200 KB.
LIMIT = 256 << 20
_KEPT = 0.75  # of the limit that remains, so that not every entry beyond it counts the folder
_LOOK = 16  # entries that a process saves from one look at the size to the next, beginning with the first
_RECENT = 3600.0  # seconds for which an entry counts as used without being touched again

_MAGIC = b"semiring kernel 1\n"


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels; None if ``SEMIRING_CACHE_DIR`` is empty.

    Raises `RuntimeError` if the user has no home folder.
    """
    own = os.environ.get("SEMIRING_CACHE_DIR")
    if own is not None:
        return Path(own) if own else None
    numba_folder = os.environ.get("NUMBA_CACHE_DIR")
    if numba_folder:
        return Path(numba_folder) / "semiring"
    return user_folder("cache")


def user_folder(kind: Literal["cache", "config"]) -> Path:
    """Return the folder that this system has for the user's cache or settings of this library.

    Raises `RuntimeError` if the user has no home folder.
    """
    from platformdirs import PlatformDirs

    folders = PlatformDirs("semiring", appauthor=False, roaming=True)
    folder = folders.user_cache_path if kind == "cache" else folders.user_config_path
    if not folder.is_absolute():  # older versions leave "~" in the path if there is no home folder
        raise RuntimeError("the user has no home folder")
    return folder


def is_enabled() -> bool:
    """Return whether there is a folder to keep entries in, which may not exist yet."""
    return _folder() is not None


def _folder() -> Path | None:
    try:
        return cache_folder()
    except RuntimeError:  # no home folder
        return None


def _path(fingerprint: str | None, key: str, kind: str) -> Path | None:
    folder = _folder()
    if folder is None or fingerprint is None:
        return None
    name = hashlib.sha256(f"{fingerprint}\n{key}".encode()).hexdigest()
    return folder / f"{name[:40]}.{kind}"


def holds(fingerprint: str | None, key: str) -> bool:
    """Return whether there is a kernel, without a look at what it holds."""
    path = _path(fingerprint, key, KERNEL)
    return path is not None and path.exists()


def load(fingerprint: str | None, key: str, rebuild: Callable[[Any], Any], *, kind: str = KERNEL) -> Any:
    """Return what ``rebuild`` makes of the saved state; None where there is none or it is damaged."""
    path = _path(fingerprint, key, kind)
    if path is None:
        return None
    try:
        content = _read(path)
        start = len(_MAGIC) + 32
        if not content.startswith(_MAGIC) or hashlib.sha256(content[start:]).digest() != content[len(_MAGIC) : start]:
            return None
        rebuilt = rebuild(pickle.loads(content[start:]))
        _touch(path)
        return rebuilt
    except Exception:  # anything at all: the entry is as good as not there
        return None


def _read(path: Path) -> bytes:
    """The content of an entry; `PermissionError` where others could have written it."""
    if sys.platform == "win32":
        return path.read_bytes()
    # Folder and entry are looked at once they are open: what is put in their place meanwhile is not read.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if reason := _suspicion(os.lstat(path.parent), os.fstat(folder)):
            _say_once(path.parent, reason)
            raise PermissionError(reason)
        entry = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(entry, "rb") as file:
        if reason := _suspicion(os.fstat(entry)):
            raise PermissionError(reason)
        return file.read()


def refusal(folder: Path) -> str:
    """Why a folder is refused, in words; "" where it is not. Raises `OSError` where there is none."""
    return _suspicion(folder.lstat(), folder.stat())


def _suspicion(*found: os.stat_result) -> str:
    """Why others may have made what was found: a folder, before it the link that leads there, or a file."""
    if sys.platform == "win32":
        return ""
    for status in found:
        if status.st_uid not in (os.geteuid(), 0):
            return f"it belongs to another user ({status.st_uid})"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode):
            return "users other than its owner may write to it"
    return ""


_told: set[Path] = set()


def _say_once(folder: Path, reason: str) -> None:
    if folder not in _told:
        _told.add(folder)
        logger().warning("compiled kernels are not cached in %s: %s", folder, reason)


def save(fingerprint: str | None, key: str, state: Any, *, kind: str = KERNEL) -> None:
    """Keep a state for `load`. Failing to is no error: a read-only or full folder only costs time."""
    path = _path(fingerprint, key, kind)
    if path is None:
        return
    temporary = None
    try:
        payload = pickle.dumps(state, protocol=5)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := refusal(path.parent):
            _say_once(path.parent, reason)
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)  # at once: another process sees the whole entry or none
        _count_and_prune(path.parent)
    except (OSError, pickle.PicklingError):
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _touch(path: Path) -> None:
    """Let the entry's time say that it is in use."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _RECENT:
            os.utime(path)


_saved = 0


def _count_and_prune(folder: Path) -> None:
    global _saved
    if _saved % _LOOK == 0:
        prune(folder)
    _saved += 1


def prune(folder: Path, limit: int | None = None) -> None:
    """Remove the entries that were not used for longest, and what crashed processes left, once ``limit`` is exceeded.

    Several processes may do so at once: a file that another has removed is none, and who was about to read it compiles.
    An entry being written has another name until it is complete, and is left alone for an hour.
    """
    limit = LIMIT if limit is None else limit
    files: list[tuple[float, int, Path]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((f".{KERNEL}", f".{DIGESTS}", ".part")):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, Path(entry.path)))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    now = time.time()
    for modified, size, path in sorted(files):
        if total <= _KEPT * limit:
            break
        if path.suffix == ".part" and now - modified < _RECENT:
            continue
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
