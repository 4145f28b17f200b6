"""Allocate buffers for strips of rows in the memory of the host or of a GPU, and transfer rows from and to storage.

A GPU reaches the memory of the host at full speed, 55 GB/s each way on an H200, only if that memory is pinned. So rows
pass through *stages*, which are buffers of pinned memory. Each direction has two stages. While one stage is filled
from or emptied into a file or an array, the other is copied to or from the GPU. The rates were measured on an H200 with
8 threads, 2026-11-22, for an array in ordinary memory. Stages of 32 MiB read at 26 GB/s and write at 23 GB/s, and move
26 GB/s in both directions together. Stages of 128 MiB reach 27, 26 and 31 GB/s.

Different strips are read, computed and written at the same time. `read` returns when its copies have ended. `write`
waits for its copies, and its caller waits for the enqueued work that computes the rows. So a later reader of the
buffer or of the storage sees complete rows, on any stream.

All memory of a GPU comes from a pool whose limit is the memory that the caller allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.kernels.contract import Mark
from semiring.namespaces import Array
from semiring.out_of_core.disk import Memory, RowStore

__all__ = ["BufferPool", "DeviceBufferPool", "HostBufferPool"]


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
        The rows of a stage. The four stages take pinned memory of the host for four times as many rows.
    """

    def __init__(self, n: int, dtype: np.dtype[Any], limit: int, piece: int) -> None:
        self._cupy = load_cupy()
        self._n, self._dtype, self._limit, self._piece = n, dtype, limit, piece
        self._row_bytes = n * dtype.itemsize
        self._device = self._cupy.cuda.runtime.getDevice()

    def __enter__(self) -> DeviceBufferPool:
        cuda, self._contexts = self._cupy.cuda, ExitStack()
        self.pool = cuda.MemoryPool()
        self.pool.set_limit(size=self._limit)
        self._contexts.enter_context(cuda.using_allocator(self.pool.malloc))
        self._main_stream = cuda.get_current_stream()
        self._read_stages, self._write_stages = (
            _Stages(self._cupy, self._piece, self._n, self._dtype) for _ in range(2)
        )
        return self

    def __exit__(self, *error: Any) -> None:
        for stream in (self._main_stream, self._read_stages.stream, self._write_stages.stream):
            stream.synchronize()  # the exit below frees the memory that these streams use
        self._contexts.close()

    def memory(self, rows: int) -> RowBuffer:
        return _DeviceRows(self._cupy.empty((rows, self._n), self._dtype))

    def mark(self) -> Mark:
        mark: Mark = self._main_stream.record(self._cupy.cuda.Event(disable_timing=True))
        return mark

    def read(self, store: Any, first_row: int, rows: Any) -> None:
        stages = self._read_stages
        with self._cupy.cuda.Device(self._device):
            for stage_number, part in self._parts(rows):
                stages.events[stage_number].synchronize()  # the copy of the previous rows out of this stage has ended
                stage = stages.rows_at(stage_number, store, first_row + part.start, rows[part])
                store.read(first_row + part.start, stage)
                rows[part].data.copy_from_host_async(stage.ctypes.data, stage.nbytes, stages.stream)
                stages.record_copy(stage_number)
            stages.stream.synchronize()

    def write(self, store: Any, first_row: int, rows: Any) -> None:
        stages = self._write_stages
        with self._cupy.cuda.Device(self._device):
            copies: list[tuple[int, slice, Any]] = []
            for stage_number, part in self._parts(rows):
                stage = stages.rows_at(stage_number, store, first_row + part.start, rows[part])
                rows[part].data.copy_to_host_async(stage.ctypes.data, stage.nbytes, stages.stream)
                stages.record_copy(stage_number)
                copies.append((stage_number, part, stage))
                if len(copies) == 2:
                    self._store_stage(store, first_row, *copies.pop(0))
            for copy in copies:
                self._store_stage(store, first_row, *copy)

    def _store_stage(self, store: RowStore, first_row: int, stage_number: int, part: slice, stage: Any) -> None:
        """Write a stage to the store when its copy from the GPU has ended."""
        self._write_stages.events[stage_number].synchronize()
        store.write(first_row + part.start, stage)

    def _parts(self, rows: Array) -> Iterator[tuple[int, slice]]:
        """Yield the number of a stage, alternately 0 and 1, and the rows that pass through it."""
        row = rows.shape[1] * rows.itemsize
        step = self._piece if row == self._row_bytes else max(1, self._piece * self._row_bytes // max(1, row))
        for number, start in enumerate(range(0, len(rows), step)):
            yield number % 2, slice(start, min(len(rows), start + step))


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

    def record_copy(self, stage_number: int) -> None:
        """Record that a copy from or to stage ``stage_number`` was enqueued."""
        self.events[stage_number].record(self.stream)


def _pinned_allocator(cuda: Any) -> Callable[[int], Array]:
    """Return an allocator of pinned memory outside CuPy's pool, which never returns memory to the system."""
    return lambda size: np.frombuffer(cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0), np.uint8, size)
