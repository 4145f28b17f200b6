"""Close one matrix on several GPUs of a host: a thread for each GPU, with whole rows, and copies between them.

The matrix stays in the caller's memory. All threads copy its rows to the GPUs at the same time, close them there
(`semiring.distributed.closing`) and copy them back. The matrix may therefore be as large as the memory of all GPUs
together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from semiring.advice import option
from semiring.algorithms.algorithm import Method
from semiring.algorithms.reporting_engine import ReportingEngine
from semiring.algorithms.schedule import BLOCKED, schedule_for
from semiring.arrays.device import load_cupy
from semiring.arrays.memory import format_bytes
from semiring.distributed.closing import close_tiles
from semiring.distributed.gpu_transports import DeviceTransport, broadcast_by_copies
from semiring.distributed.grid import Grid, Share
from semiring.distributed.transports import Groups, ThreadRanks, agree, run_ranks
from semiring.errors import ShapeError, TooLargeError
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan, Status
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.out_of_core.buffer_pools import DeviceBufferPool
from semiring.out_of_core.disk import HostRows

__all__ = ["close_stack_on_devices", "method_on_devices"]


_STAGE_BYTES = 128 << 20  # half of the pinned bytes with which a GPU reads or writes
_UNLIMITED = 0  # the argument for no limit on the bytes of a GPU's memory


def method_on_devices(devices: tuple[int, ...]) -> Method:
    """Return the method that closes a matrix on these GPUs, in the order of blocked Floyd-Warshall on one."""
    close, pairs = partial(_close, devices), _count_pairs
    return Method(BLOCKED, close, storages=("elements", "bits"), pairs=pairs)


def _count_pairs(n: int, width: int) -> int:
    return n * n * width


_threads: dict[tuple[int, ...], tuple[ThreadPoolExecutor, threading.Lock]] = {}
_threads_lock = threading.Lock()


def _close(devices: tuple[int, ...], engine: Engine, A: Array) -> None:
    """Compute A ← A* in place, and record a pivot without a star in the status."""
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
            outcomes = run_ranks(len(devices), partial(_close_rank, devices, plan, grid, A, report), pool)
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
    A: Array,
    report: Callable[[int, int], None] | None,
    ranks: ThreadRanks,
) -> int:
    """Run the thread of one GPU. The thread of the first GPU reports progress."""
    cupy, rows = load_cupy(), grid.rows(ranks.rank)
    cupy.cuda.Device(devices[ranks.rank]).use()  # no reset is needed, because the thread belongs to the library
    threads = max(1, plan.threads // ranks.size)

    def load_rows() -> Any:
        local = cupy.empty((len(rows), A.shape[1]), A.dtype)
        _copy_rows(rows, A, local, threads)
        return local

    tiles = agree(ranks, load_rows)
    own = replace(plan, status=Status())
    engine = Engine(get_backend("cuda"), own, closure_speed("cuda", plan.dtype, plan.storage).panel)
    transport, progress = DeviceTransport(Groups(ranks, grid), broadcast_by_copies), None if ranks.rank else report
    failed = close_tiles(engine, transport, grid, tiles, diverges=own.may_diverge, progress=progress)
    agree(ranks, lambda: _copy_rows(rows, A, tiles, threads, to_matrix=True))
    return failed


def _copy_rows(rows: Share, A: Array, device_rows: Array, threads: int, *, to_matrix: bool = False) -> None:
    """Copy the rows of a rank from A to ``device_rows``, or with ``to_matrix`` back, and wait for the copies."""
    stream = load_cupy().cuda.get_current_stream()
    stream.synchronize()  # earlier work on the stream may use both arrays
    if is_device_array(A):
        for part, block in rows.parts():
            (_copy_to if to_matrix else _copy_from)(A[part], device_rows[block], stream)
        stream.synchronize()
        return
    row, tallest = max(1, A.shape[1] * A.itemsize), max((stop - start for start, stop in rows.blocks), default=1)
    stage = max(1, min(tallest, _STAGE_BYTES // row))
    with DeviceBufferPool(A.shape[1], A.dtype, _UNLIMITED, stage, threads) as pool:
        for part, block in rows.parts():
            (pool.write if to_matrix else pool.read)(HostRows(A), part.start, device_rows[block])


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
