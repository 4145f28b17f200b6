"""Measure closures on a GPU that avoid work where the graph allows it, and the dense closure of the same matrix.

    python -m benchmarks.gpu.structure [closures] [looks] [--vertices 16384]

`closures`: each step where it is right, three times or more, by the clock of the host, which waits for the GPU, against
``structure=False``. Scans of the matrix are part of both times. "At most": what the remaining work, or writing the
result, would allow at the rate of the dense closure, or of a copy, of this run. Every result is compared with the dense
one. `looks`: what the search for structure costs where it finds nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, by_synchronized_clock, format_number, ours, run, theirs
from benchmarks.factor import planar_graph

__all__ = ["main"]

_SYNCHRONIZED = by_synchronized_clock


def _cases(n: int) -> Iterator[tuple[str, Callable[[], Any], str, float]]:
    """Yield a graph's name, its matrix, the semiring, and the part of n³ pairs that remains."""
    import cupy

    def weights() -> Any:
        return cupy.random.RandomState(1).randint(1, 1 << 20, (n, n)).astype(np.float32) * np.float32(0.37)

    def symmetric() -> Any:
        W = cupy.triu(weights(), 1)
        W += W.T.copy()
        return W

    def acyclic() -> Any:
        W = weights()
        W[cupy.tri(n, dtype=bool)] = np.inf
        return W

    def permuted_acyclic() -> Any:
        order = cupy.random.RandomState(2).permutation(n)
        return acyclic()[order][:, order].copy()

    def few_edges() -> Any:
        edges = cupy.random.RandomState(3).randint(0, n, (2, 6 * n))
        A = cupy.full((n, n), np.inf, np.float32)
        A[edges[0], edges[1]] = 1
        return A

    def planar() -> Any:
        entries = planar_graph(n)[0].tocoo()
        A = cupy.full((n, n), np.inf, np.float32)
        A[cupy.asarray(entries.row), cupy.asarray(entries.col)] = cupy.asarray(entries.data.astype(np.float32))
        return A

    yield "undirected", symmetric, "min_plus", 1 / 2
    yield "acyclic, in topological order", acyclic, "min_plus", 1 / 6
    yield "acyclic, hidden by a permutation", permuted_acyclic, "min_plus", 1 / 6
    yield "one weight, 6 edges a vertex", few_edges, "min_plus", 0.0
    yield "undirected, widest paths", symmetric, "max_min", 0.0
    yield "Delaunay triangulation", planar, "min_plus", 0.0


def closures(options: argparse.Namespace) -> Table:
    """Measure closures with structure and without, the scans of the matrix included in both."""
    import cupy

    n, rows = options.vertices, []
    for name, matrix, semiring, left in _cases(n):
        A = matrix()
        D, E = cupy.empty_like(A), cupy.empty_like(A)
        call = lambda: sr.closure(A, semiring, out=D)  # noqa: B023, E731
        taken = ours(name, call, clock=_SYNCHRONIZED, repeats=3, seconds=1.0)
        dense_call = lambda: sr.closure(A, semiring, out=E, structure=False)  # noqa: B023, E731
        dense = theirs(dense_call, clock=_SYNCHRONIZED, repeats=3, seconds=1.0)
        written = theirs(lambda: E.fill(0), clock=_SYNCHRONIZED, repeats=3, seconds=0.1)  # noqa: B023
        dense_call()
        apart = float(cupy.nanmax(cupy.where(D == E, 0, cupy.abs(D - E) / E)))
        assert apart < 1e-6, f"{name}: {apart}"
        most = 1 / left if left else dense / written
        explanation = sr.closure(A, semiring, out=D, explain=True)[1]
        rows.append(
            [
                name,
                explanation.method,
                taken * 1e3,
                dense * 1e3,
                format_number(dense / taken, 2),
                format_number(most, 0, ","),
            ]
        )
    columns = ["graph", "method", "with structure, ms", "dense, ms", "times as fast", "at most"]
    return Table(f"Closures of {n} vertices on a GPU", columns, rows)


def looks(options: argparse.Namespace) -> Table:
    """Measure the search for structure in complete digraphs, which have none."""
    import cupy

    rows = []
    for n in (*options.complete, options.vertices):
        A = cupy.random.RandomState(1).rand(n, n, dtype=np.float32)
        D = cupy.empty_like(A)
        given = {"clock": _SYNCHRONIZED, "repeats": 7, "seconds": 0.5}
        with_ = ours(f"n = {n}", lambda: sr.closure(A, out=D), **given)  # type: ignore[arg-type] # noqa: B023
        without = theirs(lambda: sr.closure(A, out=D, structure=False), **given)  # type: ignore[arg-type] # noqa: B023
        rows.append([n, with_ * 1e3, without * 1e3, f"{format_number(100 * (with_ / without - 1), 1)} %"])
    return Table("Complete digraphs", ["n", "with structure, ms", "without, ms", "more"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=16384)
        parser.add_argument("--complete", type=int, nargs="*", default=[4096, 6144, 8192], help="of `looks`, before it")

    tables = {"closures": closures, "looks": looks}
    return run("benchmarks.gpu.structure", str(__doc__), tables, arguments, configure, needs=["cupy"])


if __name__ == "__main__":
    sys.exit(main())
