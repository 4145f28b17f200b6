"""Measure small graphs from two vertices up, stacks of small graphs, sequences, and the cost of starting.

python -m benchmarks.small [closures] [paths] [stacks] [searches] [starting] [memory] [TABLE of benchmarks.sequences]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks import sequences
from benchmarks.closure import graph
from benchmarks.common import Table, at_most, comparing, format_number, fresh, ours, run, theirs

__all__ = ["GRAPHS", "graph_stack", "main"]

_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def _compare_with_scipy(
    title: str, sizes: Sequence[int], call: Callable[[Any], Any], keywords: dict[str, Any]
) -> Table:
    from scipy.sparse.csgraph import floyd_warshall

    rows = []
    for n in sizes:
        A = graph(n, np.float64)
        rounds = 1 if at_most(1) == 0 else max(1, 20_000 // n**2)

        def repeat(function: Callable[[Any], Any], A: Any = A, rounds: int = rounds) -> Callable[[], None]:
            def calls() -> None:
                for _ in range(rounds):
                    function(A)

            return calls

        mine = ours(f"{title}, n = {n}", repeat(call), seconds=0.3) / rounds
        other = theirs(repeat(lambda A: floyd_warshall(A, **keywords)), seconds=0.3) / rounds
        rows.append(
            [n, format_number(mine * 1e6, 1), format_number(other * 1e6, 1), f"{format_number(other / mine, 1)}×"]
        )
    return Table(f"{title}, float64, against scipy floyd_warshall", ["n", "ours, µs", "SciPy, µs", "faster by"], rows)


def closures(options: argparse.Namespace) -> Table:
    """Compare closures without predecessors with SciPy."""
    return _compare_with_scipy("closure", options.sizes, sr.closure, {})


def paths(options: argparse.Namespace) -> Table:
    """Compare shortest paths with predecessors with SciPy."""
    return _compare_with_scipy("shortest_paths", options.sizes, sr.shortest_paths, {"return_predecessors": True})


def graph_stack(count: int, n: int, edges: int | None) -> np.ndarray:
    """Return graphs (count, n, n) float32 with whole weights from 1 to 1000, and ``edges`` a vertex; None: complete."""
    rng = np.random.default_rng(n)
    A = rng.integers(1, 1000, (count, n, n)).astype(np.float32)
    if edges is not None:
        A[rng.random(A.shape) >= edges / n] = np.inf
    A[:, np.arange(n), np.arange(n)] = 0
    return A


#: The graphs of the tables of stacks, and their edges a vertex.
GRAPHS = {"4 edges a vertex": 4, "complete": None}


def stacks(options: argparse.Namespace) -> Table:
    """Compare one call for many graphs, up to all paths as one array, with a loop over SciPy."""
    from scipy.sparse.csgraph import floyd_warshall

    count, n = options.stack
    rows = []
    for kind, edges in GRAPHS.items():
        A = graph_stack(count, n, edges)
        wide = A.astype(np.float64)
        if not comparing():
            expected = np.stack([floyd_warshall(each) for each in wide])
            assert np.array_equal(sr.closure(A), expected), "the two disagree"

        def loop(wide: np.ndarray = wide, **keywords: Any) -> list[Any]:
            return [floyd_warshall(each, **keywords) for each in wide]

        calls: tuple[tuple[str, Callable[[], Any], dict[str, Any]], ...] = (
            ("distances", lambda A=A: sr.closure(A), {}),  # type: ignore[misc]
            ("and predecessors", lambda A=A: sr.shortest_paths(A), {"return_predecessors": True}),  # type: ignore[misc]
            ("and the array of all paths", lambda A=A: sr.shortest_paths(A).to_array(), {}),  # type: ignore[misc]
        )
        for what, call, keywords in calls:
            mine = ours(f"{kind}: {what}", call, repeats=15)
            other = theirs(lambda keywords=keywords: loop(**keywords), repeats=3)  # type: ignore[misc]
            rows.append(
                [
                    kind,
                    what,
                    format_number(mine * 1e3, 2),
                    format_number(other * 1e3, 1),
                    f"{format_number(other / mine, 1)}×",
                ]
            )
    title = f"{count} graphs of {n} vertices, float32, {sr.get_threads()} threads; a loop over SciPy, without the array"
    return Table(title, ["graphs", "what", "ours, ms", "SciPy, ms", "faster by"], rows)


def searches(options: argparse.Namespace) -> Table:
    """Compare distances with predecessors with the distances alone."""
    count, n = options.searched
    rows = []
    for kind, edges in GRAPHS.items():
        A = graph_stack(count, n, edges)
        alone = ours(f"{kind}: distances", lambda: sr.closure(A), repeats=9)  # noqa: B023
        both = ours(f"{kind}: predecessors", lambda: sr.shortest_paths(A), repeats=9)  # noqa: B023
        milliseconds = (format_number(1e3 * seconds, 1) for seconds in (alone, both))
        rows.append([kind, *milliseconds, f"{format_number(both / alone, 2)}×"])
    title = f"{count} graphs of {n} vertices, float32, {sr.get_threads()} threads"
    return Table(title, ["graphs", "distances, ms", "with predecessors, ms", "ratio"], rows)


def starting(_: argparse.Namespace) -> Table:
    """Measure the start of processes whose kernels are in the disk cache."""
    clock = "import time; import {}; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    product = "import semiring as sr; A = numpy.ones((64, 64), numpy.float32); sr.matmul(A, A)"
    rows = [
        ["import semiring, beyond NumPy", format_number(1e3 * fresh(clock.format("numpy", "import semiring")), 0)],
        [
            "import and first product, beyond Numba",
            format_number(1e3 * fresh(clock.format("numpy, numba", product)), 0),
        ],
    ]
    return Table("Starting, kernels in the cache", ["what", "ms"], rows)


def memory(options: argparse.Namespace) -> Table:
    """Measure the memory of a closure in place beside its matrix."""
    lengths = "rng.random(({n}, {n}), dtype=np.float32)"
    # Lengths and differences of heights are made row by row, so that the operand takes no memory beyond its own.
    mixed = f"{lengths}; h = rng.random({{n}}, dtype=np.float32)\nfor i in range({{n}}): A[i] += h[i] - h"
    bits = "np.empty(({n}, {n}), bool)\nfor i in range({n}): A[i] = rng.random({n}) < 2 / {n}"
    rows = []
    for what, n, size, operand, given in (
        ("float32", options.matrix, 4, lengths, ""),
        ("float32, weights of both signs", options.matrix, 4, mixed, ""),
        ("float32, A⁺", options.matrix, 4, lengths, "reflexive=False"),
        ("bool", 2 * options.matrix, 1, bits, "semiring='boolean'"),
        ("bool, A⁺", 2 * options.matrix, 1, bits, "semiring='boolean', reflexive=False"),
    ):
        code = (
            "import numpy as np, resource, semiring as sr\n"
            "rng = np.random.default_rng(0)\n"
            f"A = {operand.format(n=min(n, 600))}\nsr.closure(A, out=A, {given})\n"  # compiled kernels stay
            f"A = {operand.format(n=n)}\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            f"sr.closure(A, out=A, {given})\n"
            "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)"
        )
        extra, matrix = fresh(code, 1), size * n * n
        rows.append(
            [
                what,
                n,
                format_number(matrix / 2**20, 0),
                format_number(extra / 2**20, 0),
                f"{format_number(1 + extra / matrix, 3)}×",
            ]
        )
    columns = ["what", "n", "matrix, MiB", "beyond it, MiB", "peak"]
    return Table("Peak memory of closure(A, out=A)", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES)
        parser.add_argument("--stack", type=int, nargs=2, default=(512, 24), help="graphs and vertices for `stacks`")
        parser.add_argument("--searched", type=int, nargs=2, default=(1000, 100), help="the same for `searches`")
        sequences.configure(parser)
        parser.add_argument("--matrix", type=int, default=8192, help="rows for `memory`, of truth values twice as many")

    tables: dict[str, Callable[[argparse.Namespace], Table]] = {
        "closures": closures,
        "paths": paths,
        "stacks": stacks,
        "searches": searches,
        "starting": starting,
        "memory": memory,
        **sequences.TABLES,
    }
    return run("benchmarks.small", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
