"""Where strips are worked on: in the memory of the host, or in that of a GPU.

A GPU reaches the memory of the host at full speed only where that is pinned, 55 GB/s each way on an H200. So rows go
through *stages*, pinned memory for some of them, two for each direction: while one is filled from a file or an array,
or emptied into it, the other is on its way. (H200, 8 threads, 2026-11-22: from and to an array in ordinary memory 26
and 23 GB/s through stages of 32 MiB, 26 in both directions together; 27, 26 and 31 through such of 128 MiB.)

What is read, computed and written at the same time are different strips. Both directions wait for their own copies, and
writing for the work that was enqueued: who reads after them, on whatever stream, reads what is there.

All memory of a GPU comes from a pool whose limit is what the caller allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol, TypeAlias

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.kernels.contract import Mark
from semiring.out_of_core.disk import Memory, MemoryWithPivots, Place, RowsWithPivots

__all__ = ["DeviceRoom", "HostRoom", "Room"]

Array: TypeAlias = Any

_PIVOT = np.dtype(np.int32)


class RowBuffer(Protocol):
    """Memory for some rows."""

    def at(self, phase: Any, rows: int) -> Any:
        """An array (rows, n) in it, where rows of that `Place.phase` move fastest."""
        ...


class Room(Protocol):
    """Memory in which strips are worked on, and the ways there and back. A context, in which memory is taken."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...

    def memory(self, rows: int) -> RowBuffer:
        """Memory for so many rows."""
        ...

    def mark(self) -> Mark:
        """A mark behind the work that was enqueued so far."""
        ...

    def read(self, place: Place, first: int, rows: Array) -> None:
        """Rows here ← those of the place from ``first`` on. Of one thread."""
        ...

    def write(self, place: Place, first: int, rows: Array) -> None:
        """The rows of the place from ``first`` on ← rows here. Of one thread, another one."""
        ...


class _Done:
    """The mark behind work that is done when it is called."""

    done = True

    def synchronize(self) -> None: ...


class HostRoom:
    """The memory of the host, for rows of n entries, and for their pivots if ``keeps_pivots``."""

    def __init__(self, n: int, dtype: np.dtype[Any], keeps_pivots: bool = False) -> None:
        self._n, self._dtype, self._keeps_pivots = n, dtype, keeps_pivots

    def __enter__(self) -> HostRoom:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def memory(self, rows: int) -> RowBuffer:
        values = Memory(rows, self._n, self._dtype)
        return MemoryWithPivots(values, Memory(rows, self._n, _PIVOT)) if self._keeps_pivots else values

    def mark(self) -> Mark:
        return _Done()

    def read(self, place: Place, first: int, rows: Array) -> None:
        place.read(first, rows)

    def write(self, place: Place, first: int, rows: Array) -> None:
        place.write(first, rows)


class DeviceRoom:
    """The memory of the current GPU, at most ``limit`` bytes, for rows of n entries; ``piece`` of them to a stage.

    The stages take four times that of the host's memory. ``keeps_pivots``: for the pivots of the rows too.
    """

    def __init__(self, n: int, dtype: np.dtype[Any], limit: int, piece: int, keeps_pivots: bool = False) -> None:
        self._cupy = load_cupy()
        self._n, self._dtype, self._limit, self._piece, self._keeps_pivots = n, dtype, limit, piece, keeps_pivots
        self._widest = max(dtype, _PIVOT, key=lambda each: each.itemsize) if keeps_pivots else dtype
        self._row = n * self._widest.itemsize
        self._device = self._cupy.cuda.runtime.getDevice()

    def __enter__(self) -> DeviceRoom:
        cuda, self._open = self._cupy.cuda, ExitStack()
        self.pool = cuda.MemoryPool()
        self.pool.set_limit(size=self._limit)
        self._open.enter_context(cuda.using_allocator(self.pool.malloc))
        self._main = cuda.get_current_stream()
        self._coming, self._going = (_Stages(self._cupy, self._piece, self._n, self._widest) for _ in range(2))
        return self

    def __exit__(self, *error: Any) -> None:
        for stream in (self._main, self._coming.stream, self._going.stream):
            stream.synchronize()  # what they use may be freed then
        self._open.close()

    def memory(self, rows: int) -> RowBuffer:
        values = _OnDevice(self._cupy.empty((rows, self._n), self._dtype))
        if not self._keeps_pivots:
            return values
        return MemoryWithPivots(values, _OnDevice(self._cupy.empty((rows, self._n), _PIVOT)))

    def mark(self) -> Mark:
        mark: Mark = self._main.record(self._cupy.cuda.Event(disable_timing=True))
        return mark

    def read(self, place: Any, first: int, rows: Array) -> None:
        if isinstance(rows, RowsWithPivots):
            self.read(place.values, first, rows.values)
            self.read(place.pivots, first, rows.pivots)
            return
        stages = self._coming
        with self._cupy.cuda.Device(self._device):
            for which, part in self._parts(rows):
                stages.events[which].synchronize()  # what was in it has left
                held = stages.at(which, place, first + part.start, rows[part])
                place.read(first + part.start, held)
                rows[part].data.copy_from_host_async(held.ctypes.data, held.nbytes, stages.stream)
                stages.sent(which)
            stages.stream.synchronize()

    def write(self, place: Any, first: int, rows: Array) -> None:
        if isinstance(rows, RowsWithPivots):
            self.write(place.values, first, rows.values)
            self.write(place.pivots, first, rows.pivots)
            return
        stages = self._going
        with self._cupy.cuda.Device(self._device):
            waiting: list[tuple[int, slice, Array]] = []
            for which, part in self._parts(rows):
                held = stages.at(which, place, first + part.start, rows[part])
                rows[part].data.copy_to_host_async(held.ctypes.data, held.nbytes, stages.stream)
                stages.sent(which)
                waiting.append((which, part, held))
                if len(waiting) == 2:
                    self._arrived(place, first, *waiting.pop(0))
            for one in waiting:
                self._arrived(place, first, *one)

    def _arrived(self, place: Place, first: int, which: int, part: slice, held: Array) -> None:
        self._going.events[which].synchronize()
        place.write(first + part.start, held)

    def _parts(self, rows: Array) -> Iterator[tuple[int, slice]]:
        """The rows of one stage after the other, which take turns."""
        row = rows.shape[1] * rows.itemsize
        step = self._piece if row == self._row else max(1, self._piece * self._row // max(1, row))
        for number, start in enumerate(range(0, len(rows), step)):
            yield number % 2, slice(start, min(len(rows), start + step))


class _OnDevice:
    """Memory of a GPU, where all rows move alike."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def at(self, phase: int, rows: int) -> Array:
        return self._array[:rows]


class _Stages:
    """Two stages, the stream of their copies, and an event behind the last copy of each."""

    def __init__(self, cupy: Any, rows: int, n: int, dtype: np.dtype[Any]) -> None:
        cuda = cupy.cuda
        self._memories = [Memory(rows, n, dtype, _pinned(cuda)) for _ in range(2)]
        self.stream = cuda.Stream(non_blocking=True)
        self.events = [cuda.Event(disable_timing=True) for _ in range(2)]

    def at(self, which: int, place: Place, first: int, rows: Array) -> Array:
        """Memory for some rows of the place, in one of the two."""
        return self._memories[which].like(place.phase(first), rows.shape, rows.dtype)

    def sent(self, which: int) -> None:
        """A copy from or to that one was enqueued."""
        self.events[which].record(self.stream)


def _pinned(cuda: Any) -> Callable[[int], Array]:
    """Memory that does not come from CuPy's pool, which keeps all it had."""
    return lambda size: np.frombuffer(cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0), np.uint8, size)
