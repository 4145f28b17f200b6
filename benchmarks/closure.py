"""Measure closures against the limit of the machine, SciPy, NetworkX, igraph and the loops of the papers, in one run.

    python -m benchmarks.closure [TABLE ...] [--sizes 1024 2048 4096] [--threads 1 2] [--peers 512]

All-pairs shortest paths of the same dense graph, distances checked against each other before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, comparing, format_number, ours, random_matrix, run, theirs
from benchmarks.limits import limit
from benchmarks.packages import has

__all__ = ["main"]


def graph(n: int, dtype: Any) -> np.ndarray:
    """Return a dense random graph with whole-numbered weights and a zero diagonal."""
    A = random_matrix(n, dtype, seed=n)
    np.fill_diagonal(A, 0)
    return A


def closures(options: argparse.Namespace) -> Table:
    """Compare closures with the limit of the machine."""
    rows: list[list[Any]] = []
    for count in options.threads:
        for dtype in ("float32", "float64", "int32"):
            most = limit("min_plus", dtype, count) / 1e9
            for n in options.sizes:
                A = graph(n, dtype)
                D = np.empty_like(A)
                label = f"closure, {dtype}, n = {n}, threads: {count}"
                seconds = ours(label, lambda: sr.closure(A, out=D, threads=count))  # noqa: B023
                rate = n**3 / seconds / 1e9
                rows.append(
                    [
                        dtype,
                        n,
                        count,
                        format_number(seconds * 1e3, 1),
                        rate,
                        most,
                        f"{format_number(100 * rate / most, 0)} %",
                    ]
                )
    columns = ["dtype", "n", "threads", "ms", "G pairs/s", "limit", "of the limit"]
    return Table("Closures, min_plus, checks included", columns, rows)


def scipy(options: argparse.Namespace) -> Table:
    """Compare closures with SciPy's Floyd-Warshall, whose distances must be the same."""
    from scipy.sparse.csgraph import floyd_warshall

    n = options.scipy
    A = graph(n, np.float64)
    before = theirs(lambda: floyd_warshall(A), repeats=3, seconds=1.0)
    rows = [["scipy floyd_warshall", n, "float64", 1, format_number(before * 1e3, 0), "1"]]
    expected = None if comparing() else floyd_warshall(A)
    for count in options.threads:
        for dtype in ("float32", "float64"):
            B = A.astype(dtype)
            assert comparing() or np.array_equal(sr.closure(B, threads=count), expected), "the two disagree"
            label = f"closure, {dtype}, n = {n}, threads: {count}"
            seconds = ours(label, lambda: sr.closure(B, threads=count))  # noqa: B023
            rows.append(
                ["semiring", n, dtype, count, format_number(seconds * 1e3, 1), f"{format_number(before / seconds, 1)}×"]
            )
    return Table(f"Against SciPy, n = {n}", ["who", "n", "dtype", "threads", "ms", "faster by"], rows)


def peers(options: argparse.Namespace) -> Table:
    """Compare closures with the papers' loops, SciPy, NetworkX and igraph, all in float64."""
    n, threads = options.peers, max(options.threads)
    A = graph(n, np.float64)
    rows: list[tuple[str, float]] = []
    for count in dict.fromkeys((threads, 1)):
        label = f"semiring, {count} thread{'s' * (count > 1)}"
        rows.append((label, ours(label, lambda: sr.closure(A, threads=count), repeats=10, seconds=0.5)))  # noqa: B023
    expected = sr.closure(A)
    for label, call, repeats in () if comparing() else _peers(A):
        assert np.array_equal(np.asarray(call()), expected), f"{label} disagrees"
        rows.append((label, theirs(call, repeats=repeats, seconds=0.5)))
    fastest = rows[0][1]
    table = [
        [label, format_number(seconds * 1e3, 1), f"{format_number(seconds / fastest, 1)}×"] for label, seconds in rows
    ]
    return Table(f"Against peers, float64, dense graph of {n} vertices", ["who", "ms", "times ours"], table)


def _peers(A: np.ndarray) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """Yield the label, the call and the number of repetitions of each installed library."""
    from scipy.sparse.csgraph import floyd_warshall

    from benchmarks.classical import LOOPS, on_a_copy

    for name, loop in LOOPS.items():
        yield name, on_a_copy(loop, A), 3
    yield "scipy floyd_warshall", lambda: floyd_warshall(A), 3
    n = len(A)
    if has("networkx"):
        import networkx as nx

        network = nx.from_numpy_array(A, create_using=nx.DiGraph)
        yield "networkx floyd_warshall_numpy", lambda: nx.floyd_warshall_numpy(network), 1
    if has("igraph"):
        import igraph

        edges = [(i, j) for i in range(n) for j in range(n) if i != j]
        ways = igraph.Graph(n, edges, directed=True)
        weights = A[~np.eye(n, dtype=bool)].tolist()
        yield "igraph distances (Dijkstra)", lambda: ways.distances(weights=weights), 1


def predecessors(options: argparse.Namespace) -> Table:
    """Compare the time of distances with predecessors to the time of distances alone."""
    rows: list[list[Any]] = []
    for count in options.threads:
        for n in options.paths:
            A = graph(n, np.float32)
            alone, both = (
                ours(
                    f"shortest_paths{', predecessors' * wanted}, n = {n}, threads: {count}",
                    lambda: sr.shortest_paths(A, predecessors=wanted, threads=count),  # noqa: B023
                )
                for wanted in (False, True)
            )
            rows.append(
                [
                    n,
                    count,
                    format_number(alone * 1e3, 1),
                    format_number(both * 1e3, 1),
                    f"{format_number(both / alone, 2)}×",
                ]
            )
    columns = ["n", "threads", "distances, ms", "with predecessors, ms", "ratio"]
    return Table("shortest_paths, float32", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096])
        parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, sr.get_threads()}))
        parser.add_argument("--paths", type=int, nargs="+", default=[2048, 4096], help="the sizes with predecessors")
        parser.add_argument("--scipy", type=int, default=2048, help="the size of the comparison with SciPy")
        parser.add_argument("--peers", type=int, default=512, help="the size of the other comparisons")

    tables = {"closures": closures, "scipy": scipy, "peers": peers, "predecessors": predecessors}
    return run("benchmarks.closure", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
