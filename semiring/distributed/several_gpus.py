"""Close one matrix on several GPUs of a host: a thread for each GPU, with whole rows, and copies between them.

The matrix stays in the caller's memory. All threads copy its rows to the GPUs at the same time, close them there
(`semiring.distributed.closing`) and copy them back. The matrix may therefore be as large as the memory of all GPUs
together. Rows of the host are copied while the first and the last pivots are eliminated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

from semiring.advice import option
from semiring.algorithms.algorithm import Method
from semiring.algorithms.reporting_engine import ReportingEngine
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.algorithms.views import columns_of
from semiring.arrays.device import available_device_memory, load_cupy
from semiring.arrays.memory import format_bytes
from semiring.distributed.closing import close_tiles
from semiring.distributed.gpu_transports import DeviceTransport, broadcast_by_copies
from semiring.distributed.grid import Grid, Range, Share
from semiring.distributed.transports import Groups, ThreadRanks, agree, run_ranks
from semiring.errors import ShapeError, TooLargeError
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan, Status
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.out_of_core.buffer_pools import DeviceBufferPool
from semiring.out_of_core.disk import HostRows
from semiring.progress import wait_to_end

__all__ = ["close_stack_on_devices", "method_on_devices"]


#: The threads that copy rows to all GPUs, and half of the pinned bytes of each.
_COPIERS, _STAGE_BYTES = 16, 16 << 20
_UNLIMITED = 0  # the argument for no limit on the bytes of a GPU's memory
#: The pivots that a GPU eliminates from a row while it reads the row from the host, where four H200s read 20 GB/s
#: together: 15.3 T pairs a second of 4 bytes, and 6,200 T bit pairs, 2026-11-28.
_PIVOTS_PER_READ = {"elements": 12_000, "bits": 155_000}


def method_on_devices(devices: tuple[int, ...]) -> Method:
    """Return the method that closes a matrix on these GPUs, in the order of blocked Floyd-Warshall on one."""
    close, pairs = partial(_close, devices), _count_pairs
    return Method(BLOCKED, close, storages=("elements", "bits"), apart=True, pairs=pairs)


def _count_pairs(n: int, width: int) -> int:
    return n * n * width


_threads: dict[tuple[int, ...], tuple[ThreadPoolExecutor, threading.Lock]] = {}
_threads_lock = threading.Lock()


def _close(devices: tuple[int, ...], engine: Engine, D: Array, A: Array) -> None:
    """Compute D ← A*, where D may be A, and record a pivot without a star in the status."""
    plan = engine.plan
    blocks = schedule_for("cuda", plan.dtype, plan.storage).blocks(A.shape[0])
    grid = Grid(tuple(blocks), (len(devices), 1))
    if is_device_array(A):
        array_namespace(A).cuda.get_current_stream().synchronize()
    with _threads_lock:  # threads are reused, because streams and their memory belong to a thread
        if devices not in _threads:
            _threads[devices] = ThreadPoolExecutor(len(devices), "GPU"), threading.Lock()
    pool, exclusive = _threads[devices]
    report = engine.report if isinstance(engine, ReportingEngine) else None
    try:
        with exclusive:
            outcomes = run_ranks(len(devices), partial(_close_rank, devices, plan, grid, D, A, report), pool)
    except MemoryError:
        share = format_bytes(A.nbytes // len(devices))
        raise TooLargeError(
            f"one of the GPUs {', '.join(map(str, devices))} has too little free memory for its share, {share} and two "
            f"panels of {max(stop - start for start, stop in blocks)} rows. Name more GPUs, or use strips on one "
            f"GPU, {option('device', 'cuda')}, {option('memory', '100 GiB')}"
        ) from None
    plan.status.diverged = outcomes[0]


def _close_rank(
    devices: tuple[int, ...],
    plan: KernelPlan,
    grid: Grid,
    D: Array,
    A: Array,
    report: Callable[[int, int], None] | None,
    ranks: ThreadRanks,
) -> int:
    """Run the thread of one GPU. The thread of the first GPU reports progress."""
    cupy, rows = load_cupy(), grid.rows(ranks.rank)
    cupy.cuda.Device(devices[ranks.rank]).use()  # no reset is needed, because the thread belongs to the library
    copiers = max(1, min(plan.threads, _COPIERS) // ranks.size)

    tiles = agree(ranks, lambda: cupy.empty((len(rows), A.shape[1]), A.dtype))
    own = replace(plan, status=Status())
    engine = Engine(get_backend("cuda"), own, closure_speed("cuda", plan.dtype, plan.storage).panel)
    transport, progress = DeviceTransport(Groups(ranks, grid), broadcast_by_copies), None if ranks.rank else report
    close = partial(close_tiles, engine, transport, grid, tiles, diverges=own.may_diverge, progress=progress)
    cupy.cuda.get_current_stream().synchronize()  # earlier work on the stream may use both arrays
    if is_device_array(A):
        agree(ranks, lambda: _copy_rows(rows, A, tiles))
        failed = close()
        agree(ranks, lambda: _copy_rows(rows, D, tiles, to_matrix=True))
        return failed
    rounds = int(min(ranks.allgather(_rounds_in_memory(plan, grid, tiles))))
    with _HostTransfers((A, D), rows, tiles, devices[ranks.rank], copiers, rounds) as transfers:
        return close(transfers=transfers)


def _rounds_in_memory(plan: KernelPlan, grid: Grid, tiles: Any) -> int:
    """Return `RowTransfers.rounds` for rows of the host: enough to hide the copies, if the panels fit into the GPU.

    The memory of two rounds is left to the workspace of kernels.
    """
    widest = max((stop - start for start, stop in grid.blocks), default=1)
    wanted, width = 1 + -(-_PIVOTS_PER_READ[plan.storage] // widest), columns_of(plan, 0, widest).stop
    panels: int = (widest * tiles.shape[1] + (widest + len(tiles)) * width) * tiles.itemsize
    return max(1, min(wanted, available_device_memory() // max(1, panels) - 2))


class _HostTransfers:
    """The `RowTransfers` of one GPU: a thread copies its rows from a matrix of the host, and to another or the same.

    A context manager. Its exit waits until all rows that were sent are written, or after an error, until no thread uses
    the matrices. It raises an error of the thread.
    """

    def __init__(
        self, matrices: tuple[Array, Array], rows: Share, tiles: Array, device: int, copiers: int, rounds: int
    ) -> None:
        self._source, self._target = map(HostRows, matrices)
        self._tiles, self._device, self._copiers, self.rounds = tiles, device, copiers, rounds
        self._parts = dict(zip(rows.blocks, rows.parts(), strict=True))
        self._arrivals: dict[Range, Future[None]] = {block: Future() for block in rows.blocks}
        self._departures: SimpleQueue[tuple[Range, Any] | None] = SimpleQueue()
        self._is_stopped = False
        self._pool = ThreadPoolExecutor(1, "rows")

    def __enter__(self) -> _HostTransfers:
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._is_stopped = error is not None
        self._departures.put(None)
        wait_to_end(self._pool.shutdown)
        if error is None:
            self._running.result()

    def wait_for(self, block: Range) -> None:
        """Wait until the rows of a block are on the GPU. Raises an error of the thread that reads them."""
        self._arrivals[block].result()

    def send(self, block: Range, mark: Any) -> None:
        """Write the rows of a block to the matrix after the work before a mark. The call does not wait."""
        cuda = load_cupy().cuda
        mark = cuda.get_current_stream().record(cuda.Event(disable_timing=True)) if mark is None else mark
        self._departures.put((block, mark))

    def _run(self) -> None:
        """Read the rows of all blocks, then write the rows of each block that is sent."""
        load_cupy().cuda.Device(self._device).use()  # no reset is needed, because the thread belongs to this object
        n, dtype, remaining = self._tiles.shape[1], self._tiles.dtype, list(self._parts)
        tallest = max((stop - start for start, stop in self._parts), default=1)
        stage = max(1, min(tallest, self._copiers * _STAGE_BYTES // max(1, n * dtype.itemsize)))
        try:
            with DeviceBufferPool(n, dtype, _UNLIMITED, stage, self._copiers, alternates=True) as buffers:
                while remaining and not self._is_stopped:
                    part, local = self._parts[remaining[0]]
                    buffers.read(self._source, part.start, self._tiles[local])
                    self._arrivals[remaining.pop(0)].set_result(None)
                while (departure := self._departures.get()) is not None and not self._is_stopped:
                    block, mark = departure
                    part, local = self._parts[block]
                    mark.synchronize()
                    buffers.write(self._target, part.start, self._tiles[local])
        except BaseException as error:
            for block in remaining:
                self._arrivals[block].set_exception(error)
            raise


def _copy_rows(rows: Share, A: Array, device_rows: Array, *, to_matrix: bool = False) -> None:
    """Copy the rows of a rank from a matrix on a GPU, or with ``to_matrix`` back, and wait for the copies."""
    stream = load_cupy().cuda.get_current_stream()
    stream.synchronize()
    for part, block in rows.parts():
        (_copy_to if to_matrix else _copy_from)(A[part], device_rows[block], stream)
    stream.synchronize()


def _copy_from(source: Array, target: Array, stream: Any) -> None:
    """Copy an array of any GPU to a dense array on the current GPU."""
    dense = _as_dense(source)
    _copy_dense(target, dense, stream)
    if dense is not source:
        stream.synchronize()  # before the memory of the temporary array is reused


def _copy_to(target: Any, source: Array, stream: Any) -> None:
    """Copy a dense array of the current GPU to an array of any GPU."""
    if target.flags.c_contiguous:
        _copy_dense(target, source, stream)
        return
    with target.device:
        whole = array_namespace(target).empty(target.shape, target.dtype)
    _copy_dense(whole, source, stream)
    stream.synchronize()
    with target.device:
        target[...] = whole
        array_namespace(target).cuda.get_current_stream().synchronize()


def _as_dense(A: Any) -> Any:
    """Return an array itself if it is C-contiguous, else a copy on the same GPU."""
    if A.flags.c_contiguous:
        return A
    with A.device:
        dense = array_namespace(A).ascontiguousarray(A)
        array_namespace(A).cuda.get_current_stream().synchronize()
    return dense


def _copy_dense(target: Array, source: Array, stream: Any) -> None:
    """Copy a dense array to a dense array on another GPU."""
    target.data.copy_from_device_async(source.data, source.nbytes, stream)


def close_stack_on_devices(devices: tuple[int, ...], A: Any, out: Any, close: Callable[..., Any]) -> Any:
    """Compute the closures of a stack of arrays, some matrices on each GPU.

    ``close(A, out=out, device=...)`` closes one part of the stack.
    """
    xp = array_namespace(A)
    with A.device if is_device_array(A) else nullcontext():
        result = xp.empty(A.shape, A.dtype) if out is None else out
    flat, target = (x.reshape(-1, *A.shape[-2:]) for x in (A, result))
    if not xp.may_share_memory(target, result):
        raise ShapeError("out is a stack whose matrices are not at equal distances in memory: pass a contiguous array")
    if is_device_array(A):
        xp.cuda.get_current_stream().synchronize()
    bounds = [len(flat) * which // len(devices) for which in range(len(devices) + 1)]

    def close_part(ranks: ThreadRanks) -> None:
        low, high = bounds[ranks.rank], bounds[ranks.rank + 1]
        if low == high:
            return
        cupy, device = load_cupy(), devices[ranks.rank]
        cupy.cuda.Device(device).use()
        if not is_device_array(A):
            close(flat[low:high], out=target[low:high], device=f"cuda:{device}")
            return
        stream, local = cupy.cuda.get_current_stream(), cupy.empty(flat[low:high].shape, A.dtype)
        stream.synchronize()
        _copy_from(flat[low:high], local, stream)
        close(local, out=local)
        _copy_to(target[low:high], local, stream)
        stream.synchronize()

    run_ranks(len(devices), close_part)
    return result
