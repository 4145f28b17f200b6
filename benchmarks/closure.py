"""Closures against the limit of the machine, SciPy, NetworkX, igraph and the loops of the papers, in one run.

    python -m benchmarks.closure [--sizes 1024 2048 4096] [--threads 1 2] [--peers 1024]

All-pairs shortest paths of the same dense graph, distances checked against each other before anything is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.classical import row_parallel, serial
from benchmarks.common import environment, median_seconds, print_table, random_matrix
from benchmarks.limits import limit

__all__ = ["main"]


def graph(n: int, dtype: Any) -> np.ndarray:
    """A dense random graph with whole-numbered weights and a zero diagonal."""
    A = random_matrix(n, dtype, seed=n)
    np.fill_diagonal(A, 0)
    return A


def _against_the_limit(sizes: Sequence[int], threads: Sequence[int]) -> None:
    rows: list[list[Any]] = []
    for count in threads:
        for dtype in ("float32", "float64", "int32"):
            most = limit("min_plus", dtype, count) / 1e9
            for n in sizes:
                A = graph(n, dtype)
                D = np.empty_like(A)
                seconds = median_seconds(lambda: sr.closure(A, out=D, threads=count))  # noqa: B023
                rate = n**3 / seconds / 1e9
                rows.append([dtype, n, count, f"{seconds * 1e3:.1f}", rate, most, f"{100 * rate / most:.0f} %"])
    header = ["dtype", "n", "threads", "ms", "G pairs/s", "limit", "of the limit"]
    print_table("Closures, min_plus, checks included", header, rows)


def _against_scipy(n: int, threads: Sequence[int]) -> None:
    from scipy.sparse.csgraph import floyd_warshall

    A = graph(n, np.float64)
    expected = floyd_warshall(A)
    theirs = median_seconds(lambda: floyd_warshall(A), repeats=3, seconds=1.0)
    rows = [["scipy floyd_warshall", "float64", 1, f"{theirs * 1e3:.0f}", "1"]]
    for count in threads:
        for dtype in ("float32", "float64"):
            B = A.astype(dtype)
            assert np.array_equal(sr.closure(B, threads=count), expected), "the two disagree"
            seconds = median_seconds(lambda: sr.closure(B, threads=count))  # noqa: B023
            rows.append(["semiring", dtype, count, f"{seconds * 1e3:.1f}", f"{theirs / seconds:.1f}×"])
    print_table(f"Against SciPy, n = {n}", ["who", "dtype", "threads", "ms", "faster by"], rows)


def _against_peers(n: int, threads: int) -> None:
    A = graph(n, np.float64)
    expected = sr.closure(A)
    rows: list[list[Any]] = []

    def compare(label: str, call: Any, repeats: int = 3) -> None:
        assert np.array_equal(np.asarray(call()), expected), f"{label} disagrees"
        seconds = median_seconds(call, repeats=repeats, seconds=0.5)
        rows.append([label, seconds * 1e3])

    compare(f"semiring, {threads} threads", lambda: sr.closure(A, threads=threads), 10)
    compare("semiring, 1 thread", lambda: sr.closure(A, threads=1), 10)

    def loop(function: Any) -> Any:
        def call() -> np.ndarray:
            D = A.copy()
            function(D)
            return D

        return call

    compare("serial triple loop, compiled", loop(serial))
    compare("row-parallel loop (Bertoldi), compiled", loop(row_parallel))
    from scipy.sparse.csgraph import floyd_warshall

    compare("scipy floyd_warshall", lambda: floyd_warshall(A))
    try:
        import networkx as nx

        network = nx.from_numpy_array(A, create_using=nx.DiGraph)
        compare("networkx floyd_warshall_numpy", lambda: nx.floyd_warshall_numpy(network), 1)
    except ImportError:
        print("networkx is not installed (pip install 'semiring[bench]')")
    try:
        import igraph

        edges = [(i, j) for i in range(n) for j in range(n) if i != j]
        network = igraph.Graph(n, edges, directed=True)
        weights = A[~np.eye(n, dtype=bool)].tolist()
        compare("igraph distances (Dijkstra)", lambda: network.distances(weights=weights), 1)
    except ImportError:
        print("igraph is not installed (pip install 'semiring[bench]')")
    fastest = rows[0][1]
    table = [[label, f"{ms:.1f}", f"{ms / fastest:.1f}×"] for label, ms in rows]
    print_table(f"Against peers, float64, dense graph of {n} vertices", ["who", "ms", "times ours"], table)


def _predecessors(sizes: Sequence[int], threads: Sequence[int]) -> None:
    rows: list[list[Any]] = []
    for count in threads:
        for n in sizes:
            A = graph(n, np.float32)
            alone = median_seconds(lambda: sr.shortest_paths(A, predecessors=False, threads=count))  # noqa: B023
            both = median_seconds(lambda: sr.shortest_paths(A, predecessors=True, threads=count))  # noqa: B023
            rows.append([n, count, f"{alone * 1e3:.1f}", f"{both * 1e3:.1f}", f"{both / alone:.2f}×"])
    header = ["n", "threads", "distances, ms", "with predecessors, ms", "ratio"]
    print_table("shortest_paths, float32", header, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, sr.get_threads()])
    parser.add_argument(
        "--scipy", type=int, default=2048, help="the size of the comparison with SciPy; 0 leaves it out"
    )
    parser.add_argument("--peers", type=int, default=512, help="the size of the other comparisons; 0 leaves them out")
    options = parser.parse_args(arguments)
    threads = list(dict.fromkeys(options.threads))
    print(environment())
    _against_the_limit(options.sizes, threads)
    if options.scipy:
        _against_scipy(options.scipy, threads)
    if options.peers:
        _against_peers(options.peers, max(threads))
    _predecessors([n for n in options.sizes if n > 1024], threads)


if __name__ == "__main__":
    main()
