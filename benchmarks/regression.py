"""Compare the times of public calls of every kind on a CPU with those of an earlier library.

    python -m benchmarks.regression [TABLE ...] --compare REV [--sizes 256 512 ...] [--threads 2]

Products and closures from n = 256 on may take 1.02 times as long as with the earlier library, small calls 1.25 times.
The exit status is 1 where a call takes longer beyond doubt. The benchmark calls only the public interface, so that a
revision of any layout can be compared. `benchmarks.gpu.regression` does the same on a GPU.

    python -m benchmarks.regression shared [--threads 2]

While another process keeps the last core busy, every call is timed with one thread and with ``--threads``, in bursts
that alternate. No call may take more than 1.1 times as long with the threads. A row ends as soon as its ratio is beyond
doubt below or above 1.1, and is printed at once. The table has one row for each kind of call. Without ``--sizes`` and
``--small`` it has two sizes of each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Clock, Table, at_most, by_clock, comparing, format_seconds, ours, run

__all__ = ["KINDS", "Call", "main", "max_ratio_for", "tables_of"]

KINDS = (
    *((name, dtype) for name in ("min_plus", "max_plus", "max_min") for dtype in ("float32", "float64", "int32")),
    *(("plus_times", "float32"), ("plus_times", "float64"), ("boolean", "bool")),
    *(("min_plus", "int16"), ("min_plus", "int64")),
)
SIGNED = tuple((name, dtype) for name in ("min_plus", "max_plus") for dtype in ("float32", "float64", "int32"))
SIZES, SMALL_SIZES = (256, 512, 1024, 2048), (4, 16, 64, 128)
SHARED_SIZES, SHARED_SMALL_SIZES, SHARED_RATIO = (256, 1024), (16, 128), 1.1
STACK = (1000, 32)  # matrices, and their rows
Call = tuple[str, float, Callable[[], Any]]  # its label, `max_ratio_for` it, and itself


def max_ratio_for(n: int) -> float:
    """Return the ratio to the time of the earlier library that a call may take."""
    return 1.02 if n >= 256 else 1.25


def operand(semiring: str, dtype: str, shape: tuple[int, ...], *, signed: bool = False) -> np.ndarray:
    """Return random entries (..., n, n) that have a closure. With ``signed`` they have both signs, and no cycle gains.

    Whole numbers, but for plus_times: there entries of which a row adds up to about ½.
    """
    rng, n = np.random.default_rng(shape[-1]), shape[-1]
    if dtype == "bool":
        return rng.random(shape) < 2 / n
    if semiring == "plus_times":
        return (rng.random(shape) / n).astype(dtype)
    weights = rng.integers(1, 1000, shape)
    if signed:  # plus differences of heights, which add up to 0 around a cycle
        heights = rng.integers(0, 2000, shape[:-1])
        weights = weights + heights[..., :, None] - heights[..., None, :]
    return (-weights if semiring == "max_plus" else weights).astype(dtype)


def _operands(*shape: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield every kind of operand: its label, the semiring, and a matrix or a stack."""
    for signed, kinds in ((False, KINDS), (True, SIGNED)):
        for name, dtype in kinds:
            yield f"{name}, {dtype}{', both signs' * signed}", name, operand(name, dtype, shape, signed=signed)


def products(options: argparse.Namespace) -> Iterator[Call]:
    for n in options.sizes:
        for name, dtype in KINDS:
            A = operand(name, dtype, (n, n))
            B, C = A[::-1].copy(), np.empty_like(A)
            label = f"matmul, {name}, {dtype}, n = {n}"
            yield label, max_ratio_for(n), lambda A=A, B=B, C=C, name=name: sr.matmul(A, B, name, out=C)


def closures(options: argparse.Namespace) -> Iterator[Call]:
    for n in options.sizes:
        for said, name, A in _operands(n, n):
            D = np.empty_like(A)
            yield f"closure, {said}, n = {n}", max_ratio_for(n), lambda A=A, D=D, name=name: sr.closure(A, name, out=D)


def small(options: argparse.Namespace) -> Iterator[Call]:
    for n in options.small:
        for said, name, A in _operands(n, n):
            yield f"closure, {said}, n = {n}", max_ratio_for(n), lambda A=A, name=name: sr.closure(A, name)
            yield f"matmul, {said}, n = {n}", max_ratio_for(n), lambda A=A, name=name: sr.matmul(A, A, name)


def stacks(options: argparse.Namespace) -> Iterator[Call]:
    count, n = options.stack
    for said, name, A in _operands(count, n, n):
        yield f"closure, {said}, {count:,} of n = {n}", max_ratio_for(n), lambda A=A, name=name: sr.closure(A, name)


def paths(options: argparse.Namespace) -> Iterator[Call]:
    for n in (*options.small, *options.sizes):
        for said, name, A in _operands(n, n):
            if name == "min_plus":
                yield f"shortest_paths, {said}, n = {n}", max_ratio_for(n), lambda A=A: sr.shortest_paths(A)


def csgraph(options: argparse.Namespace) -> Iterator[Call]:
    from scipy.sparse import random_array

    import semiring.compat.csgraph as compat

    sr.closure(np.ones((300, 300)))  # loads the compiler, because the first small calls would run without it
    for n in options.graphs or (10, 30, 100, *options.sizes):
        rng = np.random.default_rng(n)
        dense = rng.uniform(1, 10, (n, n))
        sparse: Any = random_array((n, n), density=min(1.0, 6 / n), rng=rng, format="csr")
        entries, heights, signed = sparse.tocoo(), rng.uniform(-1, 1, n), sparse.copy()
        signed.data = entries.data + 0.01 + heights[entries.row] - heights[entries.col]
        for label, function, graph, keywords in (
            ("floyd_warshall, dense", compat.floyd_warshall, dense, {}),
            ("floyd_warshall, with predecessors", compat.floyd_warshall, dense, {"return_predecessors": True}),
            ("floyd_warshall, sparse", compat.floyd_warshall, sparse, {}),
            ("shortest_path, sparse", compat.shortest_path, sparse, {}),
            ("shortest_path, not directed", compat.shortest_path, sparse, {"directed": False}),
            ("johnson, both signs", compat.johnson, signed, {}),
            ("johnson, from one source", compat.johnson, signed, {"indices": 0}),
            ("dijkstra, sparse", compat.dijkstra, sparse, {}),
        ):
            call = lambda function=function, graph=graph, keywords=keywords: function(graph, **keywords)  # noqa: E731
            yield f"{label}, n = {n}", max_ratio_for(n), call


def tables_of(
    kinds: Sequence[Callable[[argparse.Namespace], Iterator[Call]]], clock: Clock = by_clock
) -> dict[str, Callable[[argparse.Namespace], Table]]:
    """Return the tables for `run`: for each function, by its name, the table of its calls."""

    def measure(calls: Callable[[argparse.Namespace], Iterator[Call]], options: argparse.Namespace) -> Table:
        if "threads" in options:
            sr.set_threads(options.threads)
        rows = [
            (label, format_seconds(ours(label, call, clock=clock, max_ratio=bound)))
            for label, bound, call in calls(options)
            if options.calls in label
        ]
        return Table(calls.__name__.replace("_", " "), ["call", "time"], rows)

    return {calls.__name__: lambda options, calls=calls: measure(calls, options) for calls in kinds}  # type: ignore[misc]


def shared(options: argparse.Namespace) -> Table | None:
    """Compare several threads with one while another process keeps a core busy; None if the table is not named."""
    if "shared" not in options.tables or comparing():
        return None
    if options.sizes is SIZES:
        options.sizes = SHARED_SIZES
    if options.small is SMALL_SIZES:
        options.small = SHARED_SMALL_SIZES
    rows = []
    with _busy_core():
        for kind in (products, closures, small, stacks, paths, csgraph):
            ratios: dict[str, float] = {}
            for label, _, call in kind(options):
                if options.calls in label:
                    alone, together = _bursts(call, options.threads, at_most(6.0))
                    ratios[label] = together / alone
                    row = f"{ratios[label]:.2f} × {format_seconds(alone):>8} of one thread: {label}"
                    print(f"{row}{', too slow' * (ratios[label] > SHARED_RATIO)}", flush=True)
            if ratios:
                worst = max(ratios, key=lambda label: ratios[label])
                spread = [f"{ratio:.2f}" for ratio in (statistics.median(ratios.values()), ratios[worst])]
                rows.append([kind.__name__, len(ratios), *spread, worst])
    columns = ["table", "calls", f"{options.threads} threads / one, median", "largest", "call"]
    return Table("Threads beside a process that keeps a core busy", columns, rows)


@contextmanager
def _busy_core() -> Iterator[None]:
    """Keep the last core busy by another process."""
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    pin = "" if core is None else f"import os; os.sched_setaffinity(0, {{{core}}})\n"
    busy = subprocess.Popen([sys.executable, "-c", f"{pin}while True: sum(range(10**5))"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def _bursts(call: Callable[[], Any], threads: int, seconds: float) -> tuple[float, float]:
    """Return the mean seconds of a call with one thread, and with several, in alternating bursts of about 40 ms.

    The bursts end after ``seconds``, or when the ratio is below or above `SHARED_RATIO` by three standard errors.
    """
    times: dict[int, list[float]] = {1: [], threads: []}
    for count in times:  # compiles the kernels, and starts the threads
        sr.set_threads(count)
        call()
    calls = max(1, int(0.04 / max(1e-6, min(by_clock(call), by_clock(call)))))
    end = time.perf_counter() + seconds
    while not times[threads] or (time.perf_counter() < end and not _is_settled(*times.values())):
        for count, taken in times.items():
            sr.set_threads(count)
            taken.append(by_clock(lambda: [call() for _ in range(calls)]) / calls)
    return statistics.fmean(times[1]), statistics.fmean(times[threads])


def _is_settled(alone: Sequence[float], together: Sequence[float]) -> bool:
    """Return whether the ratio of the sums is beyond doubt below or above `SHARED_RATIO`."""
    if len(alone) < 5:
        return False
    excess = np.subtract(together, np.multiply(SHARED_RATIO, alone))
    return bool(abs(excess.mean()) > 3 * excess.std(ddof=1) / len(excess) ** 0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or compare."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the large calls")
        parser.add_argument("--small", type=int, nargs="+", default=SMALL_SIZES, help="of the small calls")
        parser.add_argument("--graphs", type=int, nargs="+", help="of csgraph: 10, 30, 100 and the sizes")
        parser.add_argument(
            "--stack", type=int, nargs=2, default=STACK, metavar=("COUNT", "N"), help="matrices in one call"
        )
        parser.add_argument("--threads", type=int, default=sr.get_threads(), help="at most, of every call")
        parser.add_argument("--calls", default="", metavar="TEXT", help="those whose name has it")

    tables: dict[str, Callable[[argparse.Namespace], Table | None]] = {
        **tables_of([products, closures, small, stacks, paths, csgraph]),
        "shared": shared,
    }
    return run("benchmarks.regression", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
