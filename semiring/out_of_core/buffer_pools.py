"""Allocate buffers for strips of rows in the memory of the host or of a GPU, and transfer rows from and to storage.

A GPU reaches the memory of the host at full speed, 55 GB/s each way on an H200, only if that memory is pinned. So rows
pass through *stages*, which are buffers of pinned memory. Each direction has some *copiers*, which are threads. A
copier has two stages. While one stage is filled from or emptied into a file or an array, the other is copied to or from
the GPU. A file has one copier, because one thread saturates a disk. An array in the memory of the host has several,
because a core copies more slowly than the link to a GPU. No copier waits for another.

The rates were measured on a host with two H200s, 2026-11-28, for an array in ordinary memory, both GPUs together. Eight
copiers with stages of 16 MiB read 34 GB/s and write 30 GB/s; with stages of 8 MiB 26 and 29 GB/s, of 1 MiB 6 GB/s.

Different strips are read, computed and written at the same time. `read` returns when its copies have ended. `write`
waits for its copies, and its caller waits for the enqueued work that computes the rows. So a later reader of the
buffer or of the storage sees complete rows, on any stream.

All memory of a GPU comes from a pool whose limit is the memory that the caller allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.kernels.contract import Mark
from semiring.namespaces import Array
from semiring.out_of_core.disk import Memory, RowStore
from semiring.progress import wait_to_end

__all__ = ["BufferPool", "DeviceBufferPool", "HostBufferPool"]

#: The most copiers of a GPU in one direction. A closure by strips of an array of 16 GiB on an H200, whose host has 64
#: cores, took 20.1 s with 8 threads, 21.3 s with 16 and 34.6 s with 64, 2026-11-22, when they shared a stage.
_MAX_COPIERS = 8


class RowBuffer(Protocol):
    """A block of memory that holds a number of rows."""

    def rows_at(self, page_offset: Any, rows: int) -> Any:
        """Return an array (rows, n) in the buffer, aligned for fast transfers from and to a `RowStore`.

        ``page_offset`` is the `RowStore.page_offset` of the first of these rows.
        """
        ...


class BufferPool(Protocol):
    """Allocates the buffers of strips, and copies rows between them and storage.

    A pool is a context manager. Buffers are allocated inside its context.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def memory(self, rows: int) -> RowBuffer:
        """Allocate a buffer for a number of rows."""
        ...

    def mark(self) -> Mark:
        """Return a mark behind the work that was enqueued so far."""
        ...

    def read(self, store: RowStore, first_row: int, rows: Array) -> None:
        """Copy the rows from ``first_row`` on out of the store into a buffer. Only one thread may read."""
        ...

    def write(self, store: RowStore, first_row: int, rows: Array) -> None:
        """Copy a buffer to the rows of the store from ``first_row`` on.

        Only one thread may write, and it may write while another thread reads.
        """
        ...


class _CompletedMark:
    """A mark behind synchronous work, which has ended before the mark exists."""

    done = True

    def synchronize(self) -> None: ...


class HostBufferPool:
    """Buffers in the memory of the host, for rows of n entries."""

    def __init__(self, n: int, dtype: np.dtype[Any]) -> None:
        self._n, self._dtype = n, dtype

    def __enter__(self) -> HostBufferPool:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def memory(self, rows: int) -> RowBuffer:
        return Memory(rows, self._n, self._dtype)

    def mark(self) -> Mark:
        return _CompletedMark()

    def read(self, store: RowStore, first_row: int, rows: Array) -> None:
        store.read(first_row, rows)

    def write(self, store: RowStore, first_row: int, rows: Array) -> None:
        store.write(first_row, rows)


class DeviceBufferPool:
    """Buffers in the memory of the current GPU, for rows of n entries.

    Parameters
    ----------
    n
        The entries of a row.
    dtype
        The dtype of the entries.
    limit
        The most bytes of the GPU's memory that the buffers may take.
    piece
        The rows of one stage of each copier of one direction. So each direction pins the memory of twice as many rows.
    copiers
        The threads that transfer rows in one direction. If they are several, threads may read and write different rows
        of a store at the same time.
    alternates
        Whether no rows are read and written at the same time. One set of stages then serves both directions.
    """

    def __init__(
        self, n: int, dtype: np.dtype[Any], limit: int, piece: int, copiers: int = 1, *, alternates: bool = False
    ) -> None:
        self._cupy = load_cupy()
        self._n, self._dtype, self._limit = n, dtype, limit
        self._count = max(1, min(copiers, piece, _MAX_COPIERS))
        self._piece = piece // self._count
        self._row_bytes, self._alternates = n * dtype.itemsize, alternates
        self._device = self._cupy.cuda.runtime.getDevice()

    def __enter__(self) -> DeviceBufferPool:
        cuda, self._contexts = self._cupy.cuda, ExitStack()
        self.pool = cuda.MemoryPool()
        self.pool.set_limit(size=self._limit)
        self._contexts.enter_context(cuda.using_allocator(self.pool.malloc))
        self._main_stream = cuda.get_current_stream()
        self._copiers: dict[Callable[..., None] | None, list[_Stages]] = {}
        self._threads = ThreadPoolExecutor(2 * self._count, "copier")
        return self

    def __exit__(self, *error: Any) -> None:
        with self._contexts:  # its exit frees the memory that these streams use
            try:
                wait_to_end(self._threads.shutdown)
            finally:
                for stages in itertools.chain(*self._copiers.values()):
                    stages.stream.synchronize()
                self._main_stream.synchronize()

    def memory(self, rows: int) -> RowBuffer:
        return _DeviceRows(self._cupy.empty((rows, self._n), self._dtype))

    def mark(self) -> Mark:
        mark: Mark = self._main_stream.record(self._cupy.cuda.Event(disable_timing=True))
        return mark

    def read(self, store: Any, first_row: int, rows: Any) -> None:
        self._run(_read_parts, store, first_row, rows)

    def write(self, store: Any, first_row: int, rows: Any) -> None:
        self._run(_write_parts, store, first_row, rows)

    def _run(self, transfer: Callable[..., None], store: RowStore, first_row: int, rows: Array) -> None:
        """Let each copier transfer every ``self._count``-th part of the rows, and wait for all of them."""
        direction = None if self._alternates else transfer
        if direction not in self._copiers:  # a pool that only reads, or only writes, pins half of the memory
            with self._cupy.cuda.Device(self._device):
                self._copiers[direction] = [
                    _Stages(self._cupy, self._piece, self._n, self._dtype) for _ in range(self._count)
                ]
        copiers = self._copiers[direction]
        row = rows.shape[1] * rows.itemsize
        step = self._piece if row == self._row_bytes else max(1, self._piece * self._row_bytes // max(1, row))
        parts = [slice(start, min(len(rows), start + step)) for start in range(0, len(rows), step)]

        def run(number: int) -> None:
            with self._cupy.cuda.Device(self._device):
                transfer(copiers[number], store, first_row, rows, parts[number :: self._count])

        if self._count == 1:
            run(0)
            return
        running = [self._threads.submit(run, number) for number in range(min(self._count, len(parts)))]
        wait(running)
        for each in running:
            each.result()


def _read_parts(stages: _Stages, store: RowStore, first_row: int, rows: Any, parts: Sequence[slice]) -> None:
    """Copy parts of the rows from ``first_row`` on out of the store into a buffer, through two stages."""
    for number, part in enumerate(parts):
        event = stages.events[number % 2]
        event.synchronize()  # the copy of the previous rows out of this stage has ended
        stage = stages.rows_at(number % 2, store, first_row + part.start, rows[part])
        store.read(first_row + part.start, stage)
        rows[part].data.copy_from_host_async(stage.ctypes.data, stage.nbytes, stages.stream)
        event.record(stages.stream)
    stages.stream.synchronize()


def _write_parts(stages: _Stages, store: RowStore, first_row: int, rows: Any, parts: Sequence[slice]) -> None:
    """Copy parts of a buffer to the rows of the store from ``first_row`` on, through two stages."""
    copies: list[tuple[slice, Any, Any]] = []
    for number, part in enumerate(parts):
        event = stages.events[number % 2]
        stage = stages.rows_at(number % 2, store, first_row + part.start, rows[part])
        rows[part].data.copy_to_host_async(stage.ctypes.data, stage.nbytes, stages.stream)
        event.record(stages.stream)
        copies.append((part, stage, event))
        if len(copies) == 2:
            _store_stage(store, first_row, *copies.pop(0))
    for copy in copies:
        _store_stage(store, first_row, *copy)


def _store_stage(store: RowStore, first_row: int, part: slice, stage: Any, event: Any) -> None:
    """Write a stage to the store when its copy from the GPU has ended."""
    event.synchronize()
    store.write(first_row + part.start, stage)


class _DeviceRows:
    """A buffer in the memory of a GPU, where every alignment transfers equally fast."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def rows_at(self, page_offset: int, rows: int) -> Array:
        return self._array[:rows]


class _Stages:
    """Two stages of pinned memory, the stream of their copies, and an event behind the last copy of each stage."""

    def __init__(self, cupy: Any, rows: int, n: int, dtype: np.dtype[Any]) -> None:
        cuda = cupy.cuda
        self._memories = [Memory(rows, n, dtype, _pinned_allocator(cuda)) for _ in range(2)]
        self.stream = cuda.Stream(non_blocking=True)
        self.events = [cuda.Event(disable_timing=True) for _ in range(2)]

    def rows_at(self, stage_number: int, store: RowStore, first_row: int, rows: Array) -> Any:
        """Return memory in stage ``stage_number`` for rows of the store from ``first_row`` on."""
        return self._memories[stage_number].array_at(store.page_offset(first_row), rows.shape, rows.dtype)


def _pinned_allocator(cuda: Any) -> Callable[[int], Array]:
    """Return an allocator of pinned memory outside CuPy's pool, which never returns memory to the system."""
    return lambda size: np.frombuffer(cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0), np.uint8, size)
