"""Measure the next best paths beside SciPy and igraph, and ties, hops and totals beside the closure.

python -m benchmarks.other_paths [ranked] [passes]

The grid is directed in four directions, with weights of 1 to 9. Matrices are random, in float32.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_seconds, ours, run, theirs
from benchmarks.packages import has

__all__ = ["main"]


def grid(side: int) -> Any:
    """Return the edges of a grid as a sparse matrix."""
    from scipy.sparse import csr_array

    n = side * side
    vertices = np.arange(n).reshape(side, side)
    right, down = (vertices[:, :-1], vertices[:, 1:]), (vertices[:-1], vertices[1:])
    tails, heads = (np.concatenate([right[k].ravel(), down[k].ravel()]) for k in (0, 1))
    weights = np.random.default_rng(0).integers(1, 10, 2 * tails.size).astype(float)
    ends = np.concatenate([tails, heads]).astype(np.int32), np.concatenate([heads, tails]).astype(np.int32)
    return csr_array((weights, ends), shape=(n, n))


def _time(seconds: float) -> str:
    return "—" if math.isnan(seconds) else format_seconds(seconds)


def ranked(options: argparse.Namespace) -> Table:
    """Measure the shortest simple paths between two corners of a grid."""
    A, count = grid(options.grid), options.paths
    n, peer, yen = A.shape[0], float("nan"), float("nan")
    closed = sr.shortest_paths(A)
    once = ours("shortest simple paths", lambda: list(sr.k_shortest_paths(A, 0, n - 1, count)))
    again = ours("shortest simple paths from Paths", lambda: list(closed.k_shortest(0, n - 1, count)))
    if has("igraph"):
        import igraph

        edges = A.tocoo()
        graph = igraph.Graph(list(zip(edges.row.tolist(), edges.col.tolist(), strict=True)), n=n, directed=True)
        peer = theirs(lambda: graph.get_k_shortest_paths(0, n - 1, k=count, weights=edges.data.tolist()), repeats=3)
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import yen as scipy_yen

    B = csr_matrix((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)
    yen = theirs(lambda: scipy_yen(B, 0, n - 1, count), repeats=3)
    row = [f"{n:,}", count, *map(_time, (once, again, yen, peer)), f"{once / yen:.3f}"]
    names = ["n", "paths", "semiring", "from Paths", "SciPy", "igraph", "ratio to SciPy"]
    return Table(f"Shortest simple paths, {sr.get_threads()} threads (peers: 1)", names, [row])


def passes(options: argparse.Namespace) -> Table:
    """Measure counts, hops and totals of all pairs beside the closure and the search for predecessors."""
    from semiring.algorithms.predecessors import predecessors
    from semiring.kernels import backend_for
    from semiring.kernels.engine import make_plan

    rows = []
    for n in options.sizes:
        rng = np.random.default_rng(0)
        A, W = rng.random((n, n), np.float32), rng.random((n, n), np.float32)
        P, plan = sr.shortest_paths(A), make_plan(sr.min_plus, A.dtype, nonnegative=True, threads=sr.get_threads())
        backend: Any = backend_for(A, sr.min_plus, A.dtype)
        closing = ours("closure", lambda: sr.closure(A))  # noqa: B023
        search = ours("predecessors", lambda: predecessors(backend, plan, P.matrix, A))  # noqa: B023
        counts = ours("counts", lambda: P.counts())  # noqa: B023
        hops = ours("hops", lambda: P.hops())  # noqa: B023
        total = ours("total", lambda: P.total(W))  # noqa: B023
        times = map(format_seconds, (closing, search, counts, hops, total))
        ratios = counts / closing, hops / search, total / search
        rows.append([f"{n:,}", *times, *(f"{ratio:.2f}" for ratio in ratios)])
    names = ["n", "closure", "predecessors", "counts", "hops", "total", "counts / closure"]
    names += ["hops / predecessors", "total / predecessors"]
    return Table(f"Passes over all pairs, float32, {sr.get_threads()} threads", names, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--grid", type=int, default=40, help="vertices on a side of the grid")
        parser.add_argument("--paths", type=int, default=100, help="paths to list")
        parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048], help="vertices of the matrices")

    return run("benchmarks.other_paths", str(__doc__), {"ranked": ranked, "passes": passes}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
