"""Read and write matrix rows in a file by position, past the page cache where the file system allows it.

A closure by strips computes while it reads and writes, and copies to the page cache take processor time from it. On a
virtual machine of two cores a write through the cache takes 3 s of processor time for each GiB, at 0.4 GB/s. A write
past the cache takes 0.02 s, at 2.3 GB/s. Reads take 0.2 s at 2.0 GB/s through the cache, and 0.02 s at 1.5 GB/s past
it.

A transfer past the cache needs whole pages, and memory whose address is congruent to the position in the file. The
partial pages at both ends go through the cache, which the system keeps coherent. If a file system does not allow direct
transfers, all bytes go through the cache.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from semiring.arrays.bits import BitMatrix, pack
from semiring.namespaces import Array

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "PAGE",
    "File",
    "FileRows",
    "HostRows",
    "Memory",
    "PackedRows",
    "RowStore",
    "ShiftedRows",
    "System",
    "rows_of_truths",
]


PAGE = 4096  # bytes: the granularity of transfers past the page cache

TRUTHS = 1 << 20  # the truth values that are packed or unpacked at a time
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def rows_of_truths(n: int) -> int:
    """Return how many rows of n truth values are packed or unpacked at a time."""
    return max(1, TRUTHS // n)


class System:
    """The calls to the operating system, one method each. Tests replace it to inject faults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # without preadv and pwrite a seek and a transfer are two calls

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, memory: memoryview, position: int) -> int:
        """Read at least one byte into the memory, and return the number of bytes read, 0 at the end of the file."""
        if hasattr(os, "preadv"):
            return os.preadv(file, [memory], position)
        with self._lock:
            os.lseek(file, position, os.SEEK_SET)
            data = os.read(file, len(memory))
        memory[: len(data)] = data
        return len(data)

    def write(self, file: int, memory: memoryview, position: int) -> int:
        """Write at least one byte of the memory, and return the number of bytes written."""
        if hasattr(os, "pwrite"):
            return os.pwrite(file, memory, position)
        with self._lock:
            os.lseek(file, position, os.SEEK_SET)
            return os.write(file, memory)

    def sync(self, file: int) -> None:
        """Force all written bytes of the file to the disk."""
        whole = getattr(fcntl, "F_FULLFSYNC", None)
        if fcntl is not None and whole is not None:  # on macOS the other calls leave data in the disk's own cache
            fcntl.fcntl(file, whole)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(file)
        else:
            os.fsync(file)

    def allocate(self, file: int, size: int) -> None:
        """Extend the file to a size in bytes, and reserve the disk space if the file system supports that."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file, 0, size)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
            else:
                return
        os.ftruncate(file, size)

    def truncate(self, file: int, size: int) -> None:
        """Truncate the file to a size in bytes."""
        os.ftruncate(file, size)

    def lock(self, file: int) -> bool:
        """Lock the file against other processes until it is closed. Return False if another process has the lock.

        On Windows, and on file systems without locks, nothing is locked and the result is True.
        """
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in (*_UNSUPPORTED, errno.ENOLCK):  # network file systems may have no locks
                    raise
        return True

    def replace(self, old: str, new: str) -> None:
        """Rename a file, and replace a file that has the new name."""
        os.replace(old, new)

    def sync_folder(self, path: str) -> None:
        """Force the entries of a folder to the disk. Windows cannot open a folder, so there it does nothing."""
        if sys.platform == "win32":
            return
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: str) -> None:
        os.unlink(path)


class RowStore(Protocol):
    """The storage of the rows of a matrix, from which they are read and to which they are written."""

    def page_offset(self, row: int) -> int:
        """Return the address modulo `PAGE` of the memory to and from which a row is transferred fastest."""
        ...

    def read(self, row: int, memory: Array) -> None:
        """Read the rows from ``row`` on into memory (m, n)."""
        ...

    def write(self, row: int, memory: Array) -> None:
        """Write memory (m, n) to the rows from ``row`` on."""
        ...

    def columns(self, start: int, stop: int) -> RowStore:
        """Return the storage of the columns ``start`` … ``stop`` - 1 of all rows."""
        ...


class File:
    """An open file, which transfers bytes by position, past the page cache where the file system allows it.

    Its methods raise the `OSError` of the system. At the end of the file `read` raises an `OSError` with its length.
    """

    def __init__(self, system: System, path: str, flags: int) -> None:
        self._system, self.path = system, path
        self.descriptor = system.open(path, flags)
        self._direct_descriptor, self._is_direct = -1, hasattr(os, "O_DIRECT")
        if self._is_direct:
            with contextlib.suppress(OSError):
                self._direct_descriptor = system.open(path, (flags & ~(os.O_CREAT | os.O_TRUNC)) | os.O_DIRECT)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, position: int, memory: Array) -> None:
        """Fill the memory with the bytes from ``position`` on."""
        self._move(self._system.read, memory, position)

    def write(self, position: int, memory: Array) -> None:
        """Write all of the memory to the bytes from ``position`` on."""
        self._move(self._system.write, memory, position)

    def sync(self) -> None:
        """Force all written bytes to the disk."""
        with self._name_errors():
            self._system.sync(self.descriptor)

    def allocate(self, size: int) -> None:
        """Extend the file to a size in bytes."""
        with self._name_errors():
            self._system.allocate(self.descriptor, size)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        files, self.descriptor, self._direct_descriptor = (self._direct_descriptor, self.descriptor), -1, -1
        for file in files:
            if file >= 0:
                self._system.close(file)

    def _move(self, call: Any, memory: Array, position: int) -> None:
        if memory.size:
            with self._name_errors():
                self._move_all(call, memory, position)

    @contextlib.contextmanager
    def _name_errors(self) -> Iterator[None]:
        """Add the name of the file to the system's errors inside the context."""
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = self.path
            raise

    def _move_all(self, call: Any, memory: Any, position: int) -> None:
        """Transfer all bytes of the memory, and the whole pages between its ends past the cache."""
        view, address = memoryview(memory).cast("B"), memory.ctypes.data
        size, head = len(view), -position % PAGE
        body = (size - head) // PAGE * PAGE
        file = self._direct_descriptor if self._is_direct else -1  # several threads may transfer at the same time
        if file < 0 or (address - position) % PAGE or body <= 0:
            self._move_part(call, view, position)
            return
        self._move_part(call, view[:head], position)
        count = 0
        while count < body and count % PAGE == 0:
            try:
                step = call(file, view[head + count : head + body], position + head + count)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._is_direct = False
                break
            if not step:
                break
            count += step
        self._move_part(call, view[head + count :], position + head + count)

    def _move_part(self, call: Any, view: memoryview, position: int) -> None:
        count = 0
        while count < len(view):
            step = call(self.descriptor, view[count:], position + count)
            if not step:
                raise OSError(
                    errno.EIO, f"the file ends at byte {position + count}, {len(view) - count} too soon", self.path
                )
            count += step


class FileRows:
    """A `RowStore` of adjacent rows of n entries in a file: ``row_bytes`` bytes each, from the byte ``start`` on."""

    def __init__(self, file: File, start: int, row_bytes: int, n: int) -> None:
        self.file, self._start, self._row_bytes, self._n = file, start, row_bytes, n

    def page_offset(self, row: int) -> int:
        return (self._start + row * self._row_bytes) % PAGE

    def read(self, row: int, memory: Array) -> None:
        self.file.read(self._start + row * self._row_bytes, memory)

    def write(self, row: int, memory: Array) -> None:
        self.file.write(self._start + row * self._row_bytes, memory)

    def columns(self, start: int, stop: int) -> FileColumns:
        itemsize = self._row_bytes // self._n
        return FileColumns(self.file, self._start + start * itemsize, self._row_bytes, self._n)


class FileColumns(FileRows):
    """A `RowStore` of some columns of rows in a file, whose parts are not adjacent."""

    def read(self, row: int, memory: Array) -> None:
        for number, part in enumerate(memory, row):
            super().read(number, part)

    def write(self, row: int, memory: Array) -> None:
        for number, part in enumerate(memory, row):
            super().write(number, part)


class ShiftedRows:
    """A `RowStore` of n rows that are shifted down by ``shift`` rows.

    Row i is row i + ``shift`` of ``rows`` if that row exists. Otherwise it is row i + ``shift`` - n of
    ``continuation``, which continues ``rows``.
    """

    def __init__(self, rows: FileRows, continuation: FileRows, n: int, shift: int) -> None:
        self._rows, self._continuation, self._n, self._shift = rows, continuation, n, shift

    def page_offset(self, row: int) -> int:
        return self._rows.page_offset(row + self._shift)

    def read(self, row: int, memory: Array) -> None:
        for rows, first, part in self._parts(row, memory):
            rows.read(first, part)

    def write(self, row: int, memory: Array) -> None:
        for rows, first, part in self._parts(row, memory):
            rows.write(first, part)

    def columns(self, start: int, stop: int) -> ShiftedRows:
        return ShiftedRows(
            self._rows.columns(start, stop), self._continuation.columns(start, stop), self._n, self._shift
        )

    def _parts(self, row: int, memory: Array) -> Iterator[tuple[FileRows, int, Array]]:
        """Yield the store, its first row and the memory of the parts in ``rows`` and in ``continuation``."""
        row += self._shift
        inside = min(len(memory), max(0, self._n - row))
        if inside:
            yield self._rows, row, memory[:inside]
        if inside < len(memory):
            yield self._continuation, row + inside - self._n, memory[inside:]


class PackedRows:
    """A `RowStore` of words of 32 truth values, over a store ``truths`` that has one truth value to a byte.

    A transfer passes the truth values through a buffer of `TRUTHS` entries, or of a row.
    """

    def __init__(self, truths: RowStore, n: int) -> None:
        self.truths, self._n, self._step = truths, n, rows_of_truths(n)

    def page_offset(self, row: int) -> int:
        return 0

    def read(self, row: int, memory: Array) -> None:
        stage = self._stage(memory)
        for first, words in self._parts(row, memory):
            truths = stage.rows_at(self.truths.page_offset(first), len(words))
            self.truths.read(first, truths)
            words[...] = pack(truths).words

    def write(self, row: int, memory: Array) -> None:
        stage = self._stage(memory)
        for first, words in self._parts(row, memory):
            truths = stage.rows_at(self.truths.page_offset(first), len(words))
            truths[...] = BitMatrix._view(words, truths.shape).unpack()  # bits beyond the last column may be set
            self.truths.write(first, truths)

    def columns(self, start: int, stop: int) -> RowStore:
        raise NotImplementedError("words are read by whole rows")

    def _stage(self, memory: Array) -> Memory:
        return Memory(min(len(memory), self._step), self._n, np.dtype(np.bool_))

    def _parts(self, row: int, memory: Array) -> Iterator[tuple[int, Array]]:
        for start in range(0, len(memory), self._step):
            yield row + start, memory[start : start + self._step]


class HostRows:
    """A `RowStore` of an array in the memory of the host. Several threads may copy different rows."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def page_offset(self, row: int) -> int:
        return 0

    def read(self, row: int, memory: Array) -> None:
        memory[...] = self._array[row : row + len(memory)]

    def write(self, row: int, memory: Array) -> None:
        self._array[row : row + len(memory)] = memory

    def columns(self, start: int, stop: int) -> HostRows:
        return HostRows(self._array[:, start:stop])


class Memory:
    """A buffer for a number of rows, allocated once, with a page of slack to align the rows for transfers.

    ``allocate(size)`` returns a number of bytes as an array of uint8.
    """

    def __init__(self, rows: int, n: int, dtype: np.dtype[Any], allocate: Callable[[int], Array] | None = None) -> None:
        size = rows * n * dtype.itemsize + PAGE
        self._bytes: Any = np.empty(size, np.uint8) if allocate is None else allocate(size)
        self._n, self._dtype = n, dtype

    def rows_at(self, page_offset: int, rows: int) -> Any:
        """Return an array (rows, n) at an address congruent to ``page_offset`` modulo `PAGE`.

        If that address is not aligned for the dtype, the array begins at the start of the buffer.
        """
        return self.array_at(page_offset, (rows, self._n), self._dtype)

    def array_at(self, page_offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an array of a shape and dtype that fit in the buffer, at the address that `rows_at` describes."""
        skip = (page_offset - self._bytes.ctypes.data) % PAGE
        if skip % dtype.itemsize:
            skip = 0
        return self._bytes[skip : skip + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
