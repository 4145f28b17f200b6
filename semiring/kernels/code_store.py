"""Store compiled code on disk, from one process to the next, for every backend.

An entry is one file. Its name is a hash of everything that the code depends on: the backend's fingerprint (the kernel's
sources, versions, the processor) and the key of the kernel. So an entry is never stale, because an upgrade or a changed
definition has another name. A kernel whose fingerprint is None has no entry. An entry that cannot be loaded counts as
absent, and an entry that cannot be written is not saved. In both cases the code is compiled.

An entry is unpickled and run, so a user with write access to the folder can run code as the owner of the process. A
folder or an entry is refused if it belongs to a user other than this one or root, or if its group or all users may
write to it. Nothing is read from a refused folder or stored in it, and the logger ``semiring`` warns about it once.
Folders that this module makes are open to their owner alone. On Windows nothing is checked, because owner and mode do
not say there which users may write. The user's cache folder is private.

The folder is ``SEMIRING_CACHE_DIR`` (empty: nothing is stored), else ``NUMBA_CACHE_DIR``/semiring, else the user's
cache folder. A process measures it at its first save, and then at every sixteenth. If the folder has more than `LIMIT`
bytes, the least recently used entries are removed, down to three quarters of the limit. Between two measurements the
folder may exceed the limit by the entries that processes save meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import stat
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from semiring.logs import logger

if TYPE_CHECKING:
    from pathlib import Path

#: The kinds of entries, and the ends of their names. `prune` removes a reservation as an entry that is being written.
KERNEL, DIGESTS, RESERVATION = "kernel", "digests", "part"

#: The bytes of a folder above which `prune` removes entries: some thousands of kernels, of 10 to 200 KB.
LIMIT = 256 << 20
_SHARE_AFTER_PRUNING = 0.75  # of the limit: pruning removes more than needed, so that the next entries need no pruning
_SAVES_PER_PRUNING = 16  # entries that a process saves between two measurements of the folder, beginning with the first
_RECENT_SECONDS = 3600.0  # seconds for which an entry counts as used without being touched again

_MAGIC = b"semiring kernel 1\n"


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels; None if ``SEMIRING_CACHE_DIR`` is empty.

    Raises `RuntimeError` if the user has no home folder.
    """
    from pathlib import Path  # 5 ms, which the first calls of a process need not pay

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
    """Return whether there is a folder for entries, which may not exist yet."""
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
    import hashlib  # it loads OpenSSL

    name = hashlib.sha256(f"{fingerprint}\n{key}".encode()).hexdigest()
    return folder / f"{name[:40]}.{kind}"


def has_entry(fingerprint: str | None, key: str) -> bool:
    """Return whether the file of a kernel exists, without reading it. `load` may still refuse it, or its folder."""
    path = _path(fingerprint, key, KERNEL)
    try:
        return path is not None and path.exists()
    except OSError as error:  # a folder that may not be entered, or whose name is too long, counts as no cache
        assert path is not None
        _warn_once(path.parent, str(error.strerror))
        return False


def load(fingerprint: str | None, key: str, rebuild: Callable[[Any], Any], *, kind: str = KERNEL) -> Any:
    """Return the result of ``rebuild`` for the saved state, or None if the entry is absent or damaged."""
    path = _path(fingerprint, key, kind)
    if path is None:
        return None
    try:
        content = _read_entry(path)
        start = len(_MAGIC) + 32
        if not content.startswith(_MAGIC) or _checksum(path, content[start:]) != content[len(_MAGIC) : start]:
            return None
        rebuilt = rebuild(pickle.loads(content[start:]))
        with contextlib.suppress(OSError):  # the modification time says when an entry was used last
            if time.time() - path.stat().st_mtime > _RECENT_SECONDS:
                os.utime(path)
        return rebuilt
    except Exception:  # any failure counts as a missing entry
        return None


def _checksum(path: Path, payload: bytes) -> bytes:
    """Return the checksum of an entry, which is another one if the entry is copied under another name."""
    import hashlib  # it loads OpenSSL

    return hashlib.sha256(path.name.encode() + payload).digest()


def _read_entry(path: Path) -> bytes:
    """Return the content of an entry. Raise `PermissionError` if another user could have written it."""
    if sys.platform == "win32":
        return path.read_bytes()
    # Folder and entry are checked after they are opened, so that a replacement is not read.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if reason := _refusal_of(os.lstat(path.parent), os.fstat(folder)):
            _warn_once(path.parent, reason)
            raise PermissionError(reason)
        entry = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(entry, "rb") as file:
        if reason := _refusal_of(os.fstat(entry)):
            raise PermissionError(reason)
        return file.read()


def refusal(folder: Path) -> str:
    """Return the reason why a folder is refused, or "" if it is not. Raise `OSError` if there is no folder."""
    return _refusal_of(folder.lstat(), folder.stat())


def _refusal_of(*statuses: os.stat_result) -> str:
    """Return the reason why a file, a folder, or a link that leads to it may have been made by another user."""
    if sys.platform == "win32":
        return ""
    for status in statuses:
        if status.st_uid not in (os.geteuid(), 0):
            return f"it belongs to another user ({status.st_uid})"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode):
            return "users other than its owner may write to it"
    return ""


_warned_folders: set[Path] = set()


def _warn_once(folder: Path, reason: str) -> None:
    if folder not in _warned_folders:
        _warned_folders.add(folder)
        logger().warning("compiled kernels are not cached in %s: %s", folder, reason)


def save(fingerprint: str | None, key: str, state: Any, *, kind: str = KERNEL) -> None:
    """Save a state for `load`, and measure the folder at every sixteenth save of the process.

    A folder that is refused, read-only or full (`OSError`) and a state that raises `pickle.PicklingError` are no
    errors: the entry is not saved. Any other exception of `pickle.dumps` propagates.
    """
    path = _path(fingerprint, key, kind)
    if path is None:
        return
    temporary = None
    try:
        payload = pickle.dumps(state, protocol=5)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := refusal(path.parent):
            _warn_once(path.parent, reason)
            return
        import tempfile

        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(path, payload) + payload)
        os.replace(temporary, path)  # atomic: another process sees the whole entry or none
        _count_and_prune(path.parent)
    except (OSError, pickle.PicklingError):
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def reserve(fingerprint: str | None, key: str, seconds: float) -> bool:
    """Return whether this process is the one to make an entry, until it calls `release` or ``seconds`` have passed.

    Several processes may make an entry, which costs time only. It happens if they find an old reservation at the same
    moment, or if the clock of the folder's computer differs.

    Raises `OSError` if the entry could not be stored.
    """
    path = _path(fingerprint, key, RESERVATION)
    if path is None:
        raise OSError("kernels are not stored")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := refusal(path.parent):
        _warn_once(path.parent, reason)
        raise PermissionError(reason)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > seconds:
            path.unlink()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def release(fingerprint: str | None, key: str) -> None:
    """End a reservation, also that of another process."""
    path = _path(fingerprint, key, RESERVATION)
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


_save_count = 0


def _count_and_prune(folder: Path) -> None:
    global _save_count
    if _save_count % _SAVES_PER_PRUNING == 0:
        prune(folder)
    _save_count += 1


def prune(folder: Path, limit: int | None = None) -> None:
    """Remove the least recently used entries if the folder has more than ``limit`` bytes, by default `LIMIT`.

    An entry that is being written has a name with the ending ``.part`` until it is complete. If a process has crashed,
    such a file remains. It counts as an entry once it is an hour old, so that it too is removed only if the limit is
    exceeded.

    Several processes may call the function at once. If another process has removed a file, a process that was about to
    read it compiles instead.
    """
    from pathlib import Path

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
        if total <= _SHARE_AFTER_PRUNING * limit:
            break
        if path.suffix == ".part" and now - modified < _RECENT_SECONDS:
            continue
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
