"""One closure on several GPUs of a host: a thread for each, with whole rows, and copies between them.

The matrix lives where the caller has it. Its rows are moved to the GPUs, closed there (`semiring.ranks.closing`) and
moved back, by all threads at the same time; so it may be as large as all of them together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.progress import ReportingEngine
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.stars import may_diverge
from semiring.arrays.device.memory import load_cupy
from semiring.errors import ShapeError
from semiring.kernels import get_backend
from semiring.kernels.contract import Plan, Status
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array
from semiring.ranks.closing import close_tiles
from semiring.ranks.device import DeviceLinks, by_copies
from semiring.ranks.grid import Grid, Share
from semiring.ranks.links import Groups, agreed
from semiring.ranks.threads import ThreadRanks, run_ranks

__all__ = ["by_devices", "closed_stack"]

Array: TypeAlias = Any

_COPIERS = 4  # threads for each GPU that copy from and to ordinary memory of the host


def by_devices(devices: tuple[int, ...]) -> Method:
    """The method that closes a matrix on these GPUs, in the order of blocked Floyd-Warshall on one."""
    close, pairs = partial(_close, devices), _pairs
    return Method("blocked_floyd_warshall", close, keeps_pivots=True, storages=("elements", "bits"), pairs=pairs)


def _pairs(n: int, width: int) -> int:
    return n * n * width


_threads: dict[tuple[int, ...], tuple[ThreadPoolExecutor, threading.Lock]] = {}
_guard = threading.Lock()


def _close(devices: tuple[int, ...], engine: Engine, A: Array, P: Array | None = None) -> None:
    """A ← A* in place, with pivots as `blocked_floyd_warshall` has them; the status gets a pivot without a star."""
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
    with alone:
        found = run_ranks(len(devices), partial(_rank, devices, plan, grid, A, P, report), pool)
    plan.status.diverged = found[0]


def _rank(
    devices: tuple[int, ...],
    plan: Plan,
    grid: Grid,
    A: Array,
    P: Array | None,
    report: Callable[[int, int], None] | None,
    ranks: ThreadRanks,
) -> int:
    """What the thread of one GPU does; the first one reports."""
    cupy, number, rows = load_cupy(), devices[ranks.rank], grid.rows(ranks.rank)
    cupy.cuda.Device(number).use()  # the thread is ours

    def moved(x: Array | None) -> Array | None:
        if x is None:
            return None
        here = cupy.empty((len(rows), x.shape[1]), x.dtype)
        cupy.cuda.get_current_stream().synchronize()  # it may still be used by work of whoever had it before
        _by_blocks(number, rows, x, here, _fetch)
        return here

    tiles, pivots = agreed(ranks, lambda: (moved(A), moved(P)))
    own = replace(plan, status=Status(), stream=None)
    engine = Engine(get_backend("cuda"), own, closure_speed("cuda", plan.dtype, plan.storage).panel)
    links = DeviceLinks(Groups(ranks, grid), by_copies)
    progress = None if ranks.rank else report
    found = close_tiles(engine, links, grid, tiles, pivots, diverges=may_diverge(own), progress=progress)
    cupy.cuda.get_current_stream().synchronize()

    def back() -> None:
        for here, x in (tiles, A), (pivots, P):
            if x is not None:
                _by_blocks(number, rows, x, here, _store)

    agreed(ranks, back)
    return found


def _by_blocks(device: int, rows: Share, A: Array, here: Array, move: Callable[[Array, Array, Any], None]) -> None:
    """``move`` each block of a rank's rows between its place in A and the one that it has here, and wait.

    Ordinary memory of the host is copied by several threads: one moves less than a seventh of what a GPU is sent.
    """
    cuda, blocks = load_cupy().cuda, list(rows.parts())
    threads = 1 if is_device_array(A) else max(1, min(_COPIERS, len(blocks)))

    def some(first: int) -> None:
        cuda.Device(device).use()
        stream = cuda.Stream(non_blocking=True)
        for part, block in blocks[first::threads]:
            move(A[part], here[block], stream)
        stream.synchronize()

    if threads == 1:
        some(0)
        return
    with ThreadPoolExecutor(threads, "copier") as pool:
        list(pool.map(some, range(threads)))


def _fetch(source: Array, there: Array, stream: Any) -> None:
    """There ← an array of the host or of any GPU; ``there`` is dense, on the current one."""
    if not is_device_array(source):
        there.set(np.ascontiguousarray(source), stream)
        return
    dense = _dense(source)
    _copied(there, dense, stream)
    if dense is not source:
        stream.synchronize()  # before its memory is another's


def _store(target: Array, there: Array, stream: Any) -> None:
    """Target, an array of the host or of any GPU ← a dense array of the current one; waits."""
    dense = target.flags.c_contiguous
    if not is_device_array(target):
        if dense:
            there.get(stream, out=target)
        else:
            target[...] = there.get(stream)
        stream.synchronize()
        return
    with target.device:
        whole = target if dense else array_namespace(target).empty(target.shape, target.dtype)
    _copied(whole, there, stream)
    stream.synchronize()
    if not dense:
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
    result = xp.empty(A.shape, A.dtype) if out is None else out
    flat, target = (x.reshape(-1, *A.shape[-2:]) for x in (A, result))
    if not xp.may_share_memory(target, result):
        raise ShapeError("out is a stack whose matrices lie at no equal distances: give one that is dense")
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
        _fetch(flat[low:high], there, stream)
        close(there, out=there)
        _store(target[low:high], there, stream)

    run_ranks(len(devices), part)
    return result
