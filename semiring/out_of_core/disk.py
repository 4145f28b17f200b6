"""Rows of a matrix in a file: whole ones, read and written by position, past the page cache where that can be.

A closure by strips computes while it reads and writes, and what a copy to the page cache takes of the processors is
lost for it: on a virtual machine of two cores 3 s of them for each GiB that is written, at 0.4 GB/s; past the cache
0.02 s, at 2.3 GB/s (reads: 0.2 s at 2.0 GB/s, and 0.02 s at 1.5). That takes memory whose address is congruent to the
place in the file, and whole pages of it: what is left at both ends goes through the cache, which the system keeps
coherent. Where a file system does not allow it, everything does.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

import numpy as np

from semiring.arrays.bits import BitMatrix, pack

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "PAGE",
    "File",
    "FileRows",
    "Held",
    "Memory",
    "MemoryWithPivots",
    "Moved",
    "Packed",
    "Place",
    "PlaceWithPivots",
    "PlaceWithoutPivots",
    "RowsWithPivots",
    "System",
    "rows_of_truths",
    "values_of",
]

Array: TypeAlias = Any

#: Threads that copy at the same time. H200, a host of 64 cores, 2026-11-22: a closure by strips of an array of 16 GiB
#: took 20.1 s with 8 of them, 21.3 s with 16 and 34.6 s with 64, where each has four rows of a stage.
_COPIERS = 8
PAGE = 4096  # bytes: the granularity of what goes past the page cache

TRUTHS = 1 << 20  # that are packed or unpacked at a time
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def rows_of_truths(n: int) -> int:
    """How many rows of n truth values are packed or unpacked at a time."""
    return max(1, TRUTHS // n)


class System:
    """What is asked of the operating system, one call each. Tests put others in its place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # where a position and a transfer are two calls

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, memory: memoryview, position: int) -> int:
        """Some bytes, at least one; 0 at the end of the file."""
        if hasattr(os, "preadv"):
            return os.preadv(file, [memory], position)
        with self._lock:
            os.lseek(file, position, os.SEEK_SET)
            found = os.read(file, len(memory))
        memory[: len(found)] = found
        return len(found)

    def write(self, file: int, memory: memoryview, position: int) -> int:
        """Some bytes, at least one."""
        if hasattr(os, "pwrite"):
            return os.pwrite(file, memory, position)
        with self._lock:
            os.lseek(file, position, os.SEEK_SET)
            return os.write(file, memory)

    def sync(self, file: int) -> None:
        """Force what was written to the disk."""
        whole = getattr(fcntl, "F_FULLFSYNC", None)
        if fcntl is not None and whole is not None:  # macOS, whose other calls leave it in the disk's own cache
            fcntl.fcntl(file, whole)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(file)
        else:
            os.fsync(file)

    def allocate(self, file: int, size: int) -> None:
        """Make the file as large, with room on the disk for all of it where the file system can promise that."""
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
        """Let the file end there."""
        os.ftruncate(file, size)

    def lock(self, file: int) -> bool:
        """Keep others from it until it is closed; whether none does."""
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in (*_UNSUPPORTED, errno.ENOLCK):  # file systems of other machines may have no locks
                    raise
        return True

    def replace(self, old: str, new: str) -> None:
        """Give a file another name, that of another or not."""
        os.replace(old, new)

    def sync_folder(self, path: str) -> None:
        """Force the names of a folder to the disk, where the system can (Windows cannot open a folder)."""
        if sys.platform == "win32":
            return
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: str) -> None:
        os.unlink(path)


class Place(Protocol):
    """Where the rows of a matrix live."""

    def phase(self, row: int) -> int:
        """The address of memory for a row, modulo `PAGE`, from which it moves fastest."""
        ...

    def read(self, row: int, memory: Array) -> None:
        """Memory (m, n) ← the rows from ``row`` on."""
        ...

    def write(self, row: int, memory: Array) -> None:
        """The rows from ``row`` on ← memory (m, n)."""
        ...

    def columns(self, start: int, stop: int) -> Place:
        """Some columns of the rows."""
        ...


class File:
    """An open file, whose bytes are moved by position, past the page cache where that can be.

    Raises `OSError` as the system does; one that says how far the file goes where it ends too soon.
    """

    def __init__(self, system: System, path: str, flags: int) -> None:
        self._system, self.path = system, path
        self.number = system.open(path, flags)
        self._past_cache = -1
        if hasattr(os, "O_DIRECT"):
            with contextlib.suppress(OSError):
                self._past_cache = system.open(path, (flags & ~(os.O_CREAT | os.O_TRUNC)) | os.O_DIRECT)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, position: int, memory: Array) -> None:
        """All of the memory ← the bytes from there on."""
        self._move(self._system.read, memory, position)

    def write(self, position: int, memory: Array) -> None:
        """The bytes from there on ← all of the memory."""
        self._move(self._system.write, memory, position)

    def sync(self) -> None:
        """Force all that was written to the disk."""
        with self._named():
            self._system.sync(self.number)

    def allocate(self, size: int) -> None:
        """Make the file that large."""
        with self._named():
            self._system.allocate(self.number, size)

    def close(self) -> None:
        """Let go of the file; more than once does no harm."""
        files, self.number, self._past_cache = (self._past_cache, self.number), -1, -1
        for file in files:
            if file >= 0:
                self._system.close(file)

    def _move(self, call: Any, memory: Array, position: int) -> None:
        if memory.size:
            with self._named():
                self._move_all(call, memory, position)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """The name of the file in the system's errors."""
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = self.path
            raise

    def _move_all(self, call: Any, memory: Array, position: int) -> None:
        """All bytes of the memory, the pages in the middle past the cache."""
        view, address = memoryview(memory).cast("B"), memory.ctypes.data
        size, head = len(view), -position % PAGE
        body = (size - head) // PAGE * PAGE
        if self._past_cache < 0 or (address - position) % PAGE or body <= 0:
            self._move_part(call, view, position)
            return
        self._move_part(call, view[:head], position)
        done = 0
        while done < body and done % PAGE == 0 and self._past_cache >= 0:
            try:
                now = call(self._past_cache, view[head + done : head + body], position + head + done)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                file, self._past_cache = self._past_cache, -1
                self._system.close(file)
                break
            if not now:
                break
            done += now
        self._move_part(call, view[head + done :], position + head + done)

    def _move_part(self, call: Any, view: memoryview, position: int) -> None:
        done = 0
        while done < len(view):
            now = call(self.number, view[done:], position + done)
            if not now:
                raise OSError(
                    errno.EIO, f"the file ends at byte {position + done}, {len(view) - done} too soon", self.path
                )
            done += now


class FileRows:
    """Rows of one size in a file, from some position on. `Place` is what they are."""

    def __init__(self, file: File, start: int, row: int, n: int) -> None:
        self.file, self._start, self._row, self._n = file, start, row, n

    def phase(self, row: int) -> int:
        return (self._start + row * self._row) % PAGE

    def read(self, row: int, memory: Array) -> None:
        self.file.read(self._start + row * self._row, memory)

    def write(self, row: int, memory: Array) -> None:
        self.file.write(self._start + row * self._row, memory)

    def columns(self, start: int, stop: int) -> FileColumns:
        itemsize = self._row // self._n
        return FileColumns(self.file, self._start + start * itemsize, self._row, self._n)


class FileColumns(FileRows):
    """Some columns of such rows, which do not lie side by side."""

    def read(self, row: int, memory: Array) -> None:
        for number, part in enumerate(memory, row):
            super().read(number, part)

    def write(self, row: int, memory: Array) -> None:
        for number, part in enumerate(memory, row):
            super().write(number, part)


class Moved:
    """Rows that stand some rows further down than in ``rows``, the last of them in ``beyond``, which goes on there."""

    def __init__(self, rows: FileRows, beyond: FileRows, n: int, by: int) -> None:
        self._rows, self._beyond, self._n, self._by = rows, beyond, n, by

    def phase(self, row: int) -> int:
        return self._rows.phase(row + self._by)

    def read(self, row: int, memory: Array) -> None:
        for rows, first, part in self._parts(row, memory):
            rows.read(first, part)

    def write(self, row: int, memory: Array) -> None:
        for rows, first, part in self._parts(row, memory):
            rows.write(first, part)

    def columns(self, start: int, stop: int) -> Moved:
        return Moved(self._rows.columns(start, stop), self._beyond.columns(start, stop), self._n, self._by)

    def _parts(self, row: int, memory: Array) -> Iterator[tuple[FileRows, int, Array]]:
        """Where which of the rows from there on are: those of ``rows``, and those beyond."""
        row += self._by
        kept = min(len(memory), max(0, self._n - row))
        if kept:
            yield self._rows, row, memory[:kept]
        if kept < len(memory):
            yield self._beyond, row + kept - self._n, memory[kept:]


class Packed:
    """Rows of truth values in ``truths``, one to a byte, as words of 32: a `Place`.

    ``stages``: memory of `TRUTHS` entries, or a row, for one thread that reads and for one that writes.
    """

    def __init__(self, truths: Place, n: int, stages: tuple[Memory, Memory]) -> None:
        self.truths, self._step = truths, rows_of_truths(n)
        self._coming, self._going = stages

    @classmethod
    def all(cls, places: Sequence[Place], n: int) -> list[Place]:
        """Places as those of words, with the same stages."""
        coming, going = (Memory(rows_of_truths(n), n, np.dtype(np.bool_)) for _ in range(2))
        return [cls(place, n, (coming, going)) for place in places]

    def phase(self, row: int) -> int:
        return 0

    def read(self, row: int, memory: Array) -> None:
        for first, words in self._parts(row, memory):
            truths = self._coming.at(self.truths.phase(first), len(words))
            self.truths.read(first, truths)
            words[...] = pack(truths).words

    def write(self, row: int, memory: Array) -> None:
        for first, words in self._parts(row, memory):
            truths = self._going.at(self.truths.phase(first), len(words))
            truths[...] = BitMatrix._view(words, truths.shape).unpack()  # bits beyond the last column may be set
            self.truths.write(first, truths)

    def columns(self, start: int, stop: int) -> Place:
        raise NotImplementedError("words are read by whole rows")

    def _parts(self, row: int, memory: Array) -> Iterator[tuple[int, Array]]:
        for start in range(0, len(memory), self._step):
            yield row + start, memory[start : start + self._step]


class Held:
    """Rows of an array in the memory of the host, copied by several threads, at most `_COPIERS`: a `Place`.

    One core moves less than a GPU is sent.
    """

    def __init__(self, array: Array, threads: int, pool: ThreadPoolExecutor | None = None) -> None:
        self._array, self._threads = array, min(threads, _COPIERS)
        self._pool = pool or ThreadPoolExecutor(self._threads, "copier")

    def phase(self, row: int) -> int:
        return 0

    def read(self, row: int, memory: Array) -> None:
        self._copy(memory, self._array[row : row + len(memory)])

    def write(self, row: int, memory: Array) -> None:
        self._copy(self._array[row : row + len(memory)], memory)

    def columns(self, start: int, stop: int) -> Held:
        return Held(self._array[:, start:stop], self._threads, self._pool)

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown()

    def _copy(self, target: Array, source: Array) -> None:
        step = max(1, -(-len(target) // self._threads))
        parts = [slice(start, start + step) for start in range(0, len(target), step)]
        list(self._pool.map(lambda part: np.copyto(target[part], source[part]), parts))


class RowsWithPivots:
    """Rows in memory: their values (m, n), and the pivots (m, n) int32 that improved them last."""

    def __init__(self, values: Array, pivots: Array) -> None:
        self.values, self.pivots = values, pivots

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> RowsWithPivots:
        return RowsWithPivots(self.values[rows], self.pivots[rows])

    def __setitem__(self, rows: Any, other: RowsWithPivots) -> None:
        self.values[rows], self.pivots[rows] = other.values, other.pivots


def values_of(rows: Array | RowsWithPivots) -> Array:
    """The values of some rows, whose pivots are kept or not."""
    return rows.values if isinstance(rows, RowsWithPivots) else rows


class PlaceWithPivots:
    """Where values and pivots of the same rows live, each by itself: a `Place` of `RowsWithPivots`."""

    def __init__(self, values: Place, pivots: Place) -> None:
        self.values, self.pivots = values, pivots

    def phase(self, row: int) -> Any:
        """Of each."""
        return self.values.phase(row), self.pivots.phase(row)

    def read(self, row: int, memory: RowsWithPivots) -> None:
        self.values.read(row, memory.values)
        self.pivots.read(row, memory.pivots)

    def write(self, row: int, memory: RowsWithPivots) -> None:
        self.values.write(row, memory.values)
        self.pivots.write(row, memory.pivots)

    def columns(self, start: int, stop: int) -> Place:
        return PlaceWithPivots(self.values.columns(start, stop), self.pivots.columns(start, stop))


class PlaceWithoutPivots:
    """The pivots of rows that no pivot has improved: a `Place` that is only read."""

    def phase(self, row: int) -> int:
        return 0

    def read(self, row: int, memory: Array) -> None:
        memory[...] = -1

    def write(self, row: int, memory: Array) -> None:
        raise NotImplementedError("rows before the first round are not written")

    def columns(self, start: int, stop: int) -> PlaceWithoutPivots:
        return self


class Memory:
    """Memory for some rows, taken once; a `Place` says where in it rows move fastest.

    ``take(size)``: so many bytes, as an array of uint8.
    """

    def __init__(self, rows: int, n: int, dtype: np.dtype[Any], take: Callable[[int], Array] | None = None) -> None:
        size = rows * n * dtype.itemsize + PAGE
        self._bytes = np.empty(size, np.uint8) if take is None else take(size)
        self._n, self._dtype = n, dtype

    def at(self, phase: int, rows: int) -> Array:
        """An array (rows, n) at an address congruent to ``phase``; at any place where that would not be aligned."""
        return self.like(phase, (rows, self._n), self._dtype)

    def like(self, phase: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The same for an array of another shape and dtype that needs no more."""
        skip = (phase - self._bytes.ctypes.data) % PAGE
        if skip % dtype.itemsize:
            skip = 0
        return self._bytes[skip : skip + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


class MemoryWithPivots:
    """Memory for values and pivots of some rows."""

    def __init__(self, values: Any, pivots: Any) -> None:
        """``values`` and ``pivots``: each as `Memory`, or of a GPU."""
        self._values, self._pivots = values, pivots

    def at(self, phase: Any, rows: int) -> RowsWithPivots:
        """As `Memory.at`, by a `PlaceWithPivots.phase`."""
        return RowsWithPivots(self._values.at(phase[0], rows), self._pivots.at(phase[1], rows))
