"""Write a file completely or not at all.

The bytes go to a new file in the same folder, are forced to the disk, and only then take the place of the old file in
one step. A failure before that step (a full disk, Ctrl-C, a bug) leaves the old file unchanged.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_file", "sync_folder"]


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary binary file for writing, and rename it to ``path`` when the context ends without an error.

    Parameters
    ----------
    path : str or path-like
        The name of the file. The function follows links, so that they stay links, and keeps the permissions of an
        existing file. It writes directly to a pipe, /dev/stdout or another file that is not regular.

    Yields
    ------
    BinaryIO
        The stream to which the block writes.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    PermissionError
        If the file is read-only.
    OSError
        If the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with target.open("wb") as stream:
            yield stream
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied: the file is read-only", str(path))
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        # O_EXCL refuses a link under this name. With 0o666 the umask determines the permissions of a new file.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except FileNotFoundError:
        raise FileNotFoundError(2, "No such folder", str(target.parent)) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if old is not None:
                _copy_owner_and_mode(temporary, old)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(target.parent)


def _copy_owner_and_mode(path: Path, old: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):  # only root may give a file away
            os.chown(path, old.st_uid, old.st_gid)
    path.chmod(stat.S_IMODE(old.st_mode))


def sync_folder(folder: Path) -> None:
    """Force the entries of a folder to the disk; Windows cannot open a folder, so there it does nothing."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
