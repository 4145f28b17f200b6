"""One closure on several GPUs of a host: a thread for each, with whole rows, and copies between them.

The matrix lives where the caller has it. Its rows are moved to the GPUs, closed there (`semiring.distributed.closing`)
and moved back, by all threads at the same time; so it may be as large as all of them together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

from semiring.advice import option
from semiring.algorithms.methods import Method
from semiring.algorithms.progress import ReportingEngine
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import may_diverge
from semiring.arrays.device import load_cupy
from semiring.arrays.memory import format_bytes
from semiring.distributed.closing import close_tiles
from semiring.distributed.gpu_transports import DeviceLinks, by_copies
from semiring.distributed.grid import Grid, Share
from semiring.distributed.thread_communicator import ThreadRanks, run_ranks
from semiring.distributed.transports import Groups, agreed
from semiring.errors import ShapeError, TooLargeError
from semiring.kernels import get_backend
from semiring.kernels.contract import KernelPlan, Status
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array
from semiring.out_of_core.buffer_pools import DeviceBufferPool
from semiring.out_of_core.disk import HostRows

__all__ = ["by_devices", "closed_stack"]

Array: TypeAlias = Any

_STAGE = 64 << 20  # bytes of pinned memory, of which there are four for each GPU
_UNLIMITED = 0  # bytes of a GPU's memory


@lru_cache(maxsize=64)  # equal devices give one method, by which plans are kept
def by_devices(devices: tuple[int, ...]) -> Method:
    """The method that closes a matrix on these GPUs, in the order of blocked Floyd-Warshall on one."""
    close, pairs = partial(_close, devices), _pairs
    return Method("blocked_floyd_warshall", close, storages=("elements", "bits"), pairs=pairs)


def _pairs(n: int, width: int) -> int:
    return n * n * width


_threads: dict[tuple[int, ...], tuple[ThreadPoolExecutor, threading.Lock]] = {}
_guard = threading.Lock()


def _close(devices: tuple[int, ...], engine: Engine, A: Array) -> None:
    """A ← A* in place; the status gets a pivot without a star."""
    plan = engine.plan
    blocks = schedule_for("cuda", plan.dtype, plan.storage).blocks(A.shape[0])
    grid = Grid(tuple(blocks), (len(devices), 1))
    if is_device_array(A):
        array_namespace(A).cuda.get_current_stream().synchronize()
    with _guard:  # threads that stay, for streams and their memory are those of a thread
        if devices not in _threads:
            _threads[devices] = ThreadPoolExecutor(len(devices), "GPU"), threading.Lock()
    pool, alone = _threads[devices]
    report = engine.report if isinstance(engine, ReportingEngine) else None
    try:
        with alone:
            found = run_ranks(len(devices), partial(_rank, devices, plan, grid, A, report), pool)
    except MemoryError:
        share = format_bytes(A.nbytes // len(devices))
        raise TooLargeError(
            f"one of the GPUs {', '.join(map(str, devices))} has too little free memory for its share, {share} and two "
            f"panels of {max(stop - start for start, stop in blocks)} rows. Name more GPUs, or use strips on one "
            f"GPU, {option('device', 'cuda')}, {option('memory', '100 GiB')}"
        ) from None
    plan.status.diverged = found[0]


def _rank(
    devices: tuple[int, ...],
    plan: KernelPlan,
    grid: Grid,
    A: Array,
    report: Callable[[int, int], None] | None,
    ranks: ThreadRanks,
) -> int:
    """What the thread of one GPU does; the first one reports."""
    cupy, rows = load_cupy(), grid.rows(ranks.rank)
    cupy.cuda.Device(devices[ranks.rank]).use()  # the thread is ours
    threads = max(1, plan.threads // ranks.size)

    def moved() -> Array:
        here = cupy.empty((len(rows), A.shape[1]), A.dtype)
        _move(rows, A, here, threads)
        return here

    tiles = agreed(ranks, moved)
    own = replace(plan, status=Status(), stream=None)
    engine = Engine(get_backend("cuda"), own, closure_speed("cuda", plan.dtype, plan.storage).panel)
    links, progress = DeviceLinks(Groups(ranks, grid), by_copies), None if ranks.rank else report
    found = close_tiles(engine, links, grid, tiles, diverges=may_diverge(own), progress=progress)
    agreed(ranks, lambda: _move(rows, A, tiles, threads, back=True))
    return found


def _move(rows: Share, A: Array, here: Array, threads: int, *, back: bool = False) -> None:
    """The rows of a rank from their places in A to memory of the current GPU, or back. Waits."""
    stream = load_cupy().cuda.get_current_stream()
    stream.synchronize()  # what was enqueued may use both
    if is_device_array(A):
        for part, block in rows.parts():
            (_store if back else _fetch)(A[part], here[block], stream)
        stream.synchronize()
        return
    row, tallest = max(1, A.shape[1] * A.itemsize), max((stop - start for start, stop in rows.blocks), default=1)
    held = HostRows(A, threads)
    try:
        with DeviceBufferPool(A.shape[1], A.dtype, _UNLIMITED, max(1, min(tallest, _STAGE // row))) as room:
            for part, block in rows.parts():
                (room.write if back else room.read)(held, part.start, here[block])
    finally:
        held.close()


def _fetch(source: Array, there: Array, stream: Any) -> None:
    """There, dense and on the current GPU ← an array of any GPU."""
    dense = _dense(source)
    _copied(there, dense, stream)
    if dense is not source:
        stream.synchronize()  # before its memory is another's


def _store(target: Array, there: Array, stream: Any) -> None:
    """Target, an array of any GPU ← a dense array of the current one."""
    if target.flags.c_contiguous:
        _copied(target, there, stream)
        return
    with target.device:
        whole = array_namespace(target).empty(target.shape, target.dtype)
    _copied(whole, there, stream)
    stream.synchronize()
    with target.device:
        target[...] = whole
        array_namespace(target).cuda.get_current_stream().synchronize()


def _dense(A: Array) -> Array:
    if A.flags.c_contiguous:
        return A
    with A.device:
        dense = array_namespace(A).ascontiguousarray(A)
        array_namespace(A).cuda.get_current_stream().synchronize()
    return dense


def _copied(target: Array, source: Array, stream: Any) -> None:
    """Target ← source, dense arrays on two GPUs."""
    target.data.copy_from_device_async(source.data, source.nbytes, stream)


def closed_stack(devices: tuple[int, ...], A: Any, out: Any, close: Callable[..., Any]) -> Any:
    """The closures of a stack of arrays, some matrices on each GPU: ``close(A, out=out, device=...)`` of one part."""
    xp = array_namespace(A)
    with A.device if is_device_array(A) else nullcontext():
        result = xp.empty(A.shape, A.dtype) if out is None else out
    flat, target = (x.reshape(-1, *A.shape[-2:]) for x in (A, result))
    if not xp.may_share_memory(target, result):
        raise ShapeError("out is a stack whose matrices are not at equal distances in memory: pass a contiguous array")
    if is_device_array(A):
        xp.cuda.get_current_stream().synchronize()
    bounds = [len(flat) * which // len(devices) for which in range(len(devices) + 1)]

    def part(ranks: ThreadRanks) -> None:
        low, high = bounds[ranks.rank], bounds[ranks.rank + 1]
        if low == high:
            return
        cupy, device = load_cupy(), devices[ranks.rank]
        cupy.cuda.Device(device).use()
        if not is_device_array(A):
            close(flat[low:high], out=target[low:high], device=f"cuda:{device}")
            return
        stream, there = cupy.cuda.get_current_stream(), cupy.empty(flat[low:high].shape, A.dtype)
        stream.synchronize()
        _fetch(flat[low:high], there, stream)
        close(there, out=there)
        _store(target[low:high], there, stream)
        stream.synchronize()

    run_ranks(len(devices), part)
    return result
