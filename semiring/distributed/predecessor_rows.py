"""Find the predecessors of a closed matrix of the host on some GPUs, each of which searches some of its rows.

The method is that of `semiring.algorithms.predecessors`. It needs the direct edges, which are few, and one row of the
closure at a time. So each GPU reads some rows of the closure and of the weights, and finds the direct edges in them.
All GPUs receive all of these edges. Then each GPU reads its rows of the closure again, and writes their predecessors.
While a strip of rows is searched, the next one is read and the previous one is written.

Cost: 16 n² bytes between the memory of the host and the GPUs for elements of 4 bytes, and the search of
`semiring.kernels.cuda.predecessor_kernels`. A GPU holds three strips, and the direct edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.distributed.transports import ThreadRanks, agree, run_ranks
from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.tolerance import Tolerance, depends_on_distances, tolerance_for
from semiring.namespaces import is_device_array
from semiring.out_of_core.buffer_pools import DeviceBufferPool
from semiring.out_of_core.disk import HostRows

__all__ = ["predecessors_on_devices"]

_LEAST_ROWS = 4096  # fewer rows are searched sooner by the host
_STRIP_BYTES, _STAGE_BYTES = 256 << 20, 128 << 20
_BUFFERS = 3


def predecessors_on_devices(devices: tuple[int, ...], plan: KernelPlan, D: Array, weights: Array) -> Array | None:
    """Return the predecessors int32 of D (n, n) = A*, as `semiring.algorithms.predecessors` does, or None.

    D and ``weights``, which is A before the closure, are in the memory of the host. The result is None where this
    search does not apply: if the matrix is small, or if the rounding error depends on the distances (weights of both
    signs). It is also None if direct edges abound, if a row needs a repair, or if a GPU has too little free memory.
    """
    is_applicable = D.ndim == 2 and len(D) >= _LEAST_ROWS and D.dtype == plan.dtype
    if not is_applicable or is_device_array(D) or depends_on_distances(plan):
        return None
    n, tolerance = len(D), tolerance_for(plan, D)
    pred = np.empty((n, n), np.int32)

    def search(ranks: ThreadRanks) -> bool:
        load_cupy().cuda.Device(devices[ranks.rank]).use()  # the thread ends with the search
        threads = max(1, plan.threads // ranks.size)
        rows = range(n * ranks.rank // ranks.size, n * (ranks.rank + 1) // ranks.size)
        return _search_rows(ranks, plan, tolerance, (D, weights, pred), rows, threads)

    try:
        return pred if all(run_ranks(len(devices), search)) else None
    except MemoryError:
        return None


def _search_rows(
    ranks: ThreadRanks,
    plan: KernelPlan,
    tolerance: Tolerance,
    matrices: tuple[Array, Array, Array],
    rows: range,
    threads: int,
) -> bool:
    """Find the predecessors of some rows on the current GPU; return whether none needs a repair."""
    from semiring.kernels.cuda.predecessor_kernels import RowSearch

    cupy, (D, weights, pred), n = load_cupy(), matrices, len(matrices[0])
    cupy.get_default_memory_pool().free_all_blocks()  # the closure may have left its memory there
    row_bytes = n * max(D.itemsize, pred.itemsize)
    height = max(1, min(_STRIP_BYTES // row_bytes, len(rows)))
    stage = max(1, min(_STAGE_BYTES // row_bytes, height))
    wider = np.dtype(max(D.dtype, pred.dtype, key=lambda dtype: dtype.itemsize))
    with DeviceBufferPool(n, wider, 0, stage, threads) as pool, ThreadPoolExecutor(1, "writer") as writer:
        kernels, stream = RowSearch(plan, tolerance, n), cupy.cuda.get_current_stream()
        buffers = [[cupy.empty((height, n), dtype) for dtype in (D.dtype, D.dtype, np.int32)] for _ in range(_BUFFERS)]
        marks: list[Any] = [None] * _BUFFERS

        def collect() -> tuple[Any, ...] | None:
            for number, (first, count) in enumerate(_strips(rows, height)):
                closed, edges, _ = (buffer[:count] for buffer in buffers[number % _BUFFERS])
                if marks[number % _BUFFERS] is not None:
                    marks[number % _BUFFERS].synchronize()
                pool.read(HostRows(D), first, closed)
                pool.read(HostRows(weights), first, edges)
                kernels.collect(closed, edges, first)
                marks[number % _BUFFERS] = pool.mark()
            return kernels.collected()

        parts = ranks.allgather(agree(ranks, collect))
        if any(part is None for part in parts):
            return False
        tails, heads, lengths, has_gain = zip(*parts, strict=True)
        kernels.use(*(np.concatenate(each) for each in (tails, heads, lengths)), has_gain=any(has_gain))
        flags = cupy.empty(len(rows), np.uint8)

        def search() -> bool:
            writes: dict[int, Future[None]] = {}  # the last write from each buffer

            def write(first: int, trees: Any, mark: Any) -> None:
                mark.synchronize()
                pool.write(HostRows(pred), first, trees)

            for number, (first, count) in enumerate(_strips(rows, height)):
                which = number % _BUFFERS
                if which in writes:
                    writes[which].result()
                closed, _, trees = (buffer[:count] for buffer in buffers[which])
                pool.read(HostRows(D), first, closed)
                kernels.search(closed, first, trees, flags[first - rows.start :][:count])
                writes[which] = writer.submit(write, first, trees, pool.mark())
            for each in writes.values():
                each.result()
            return not bool(flags.any())

        stream.synchronize()
        finds_all: bool = agree(ranks, search)
        return finds_all


def _strips(rows: range, height: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the number of rows of each strip."""
    for first in range(rows.start, rows.stop, height):
        yield first, min(height, rows.stop - first)
