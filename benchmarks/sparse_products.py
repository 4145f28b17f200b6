"""Measure sparse products beside SciPy and GraphBLAS.

python -m benchmarks.sparse_products [products] [masks] [dense] [triangles]

GraphBLAS needs `pip install '.[bench]'`. Random entries are of [0, 1), and no matrix has an entry twice.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_seconds, ours, run, theirs
from benchmarks.packages import has

__all__ = ["main"]


def random_sparse(n: int, degree: int) -> Any:
    """Return a random matrix of n rows with about ``degree`` entries each."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(n), degree), rng.integers(0, n, n * degree)
    A = csr_array((rng.random(n * degree), (rows, columns)), shape=(n, n))
    A.sum_duplicates()
    return A


def graph_of_rmat(scale: int, factor: int) -> Any:
    """Return the lower triangle of an undirected R-MAT graph (0.57, 0.19, 0.19, 0.05), vertices by ascending degree."""
    from scipy.sparse import csr_array, tril

    rng, n = np.random.default_rng(0), 1 << scale
    ends = np.zeros((2, n * factor), np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], rng.random(ends.shape[1]))
        ends = 2 * ends + np.stack([quadrant >> 1, quadrant & 1])
    A: Any = csr_array((np.ones(ends.shape[1], np.int64), tuple(ends)), shape=(n, n))
    A = A + A.T
    order = np.argsort(np.diff(A.indptr), kind="stable")
    L: Any = tril(A[order][:, order], -1).tocsr()
    L.sum_duplicates()
    L.data[:] = 1
    return csr_array(L)


def _peer(call: Callable[[Any, Any], Any], A: Any) -> float:
    """Return the seconds of a call of GraphBLAS with its matrix, or NaN without the package."""
    if not has("graphblas"):
        return float("nan")
    import graphblas as gb

    matrix = gb.io.from_scipy_sparse(A)
    return theirs(lambda: call(gb, matrix), repeats=7)


def _finish(gb: Any, result: Any) -> None:
    """Wait until GraphBLAS has computed a result."""
    result.wait("materialize")


def _row(title: str, seconds: float, peers: dict[str, float]) -> list[Any]:
    """Times and the ratio to the fastest peer; a dash where a peer is not installed (nan)."""
    measured = [peer for peer in peers.values() if not math.isnan(peer)]
    ratio = f"{seconds / min(measured):.2f}" if measured else "—"
    return [title, *("—" if math.isnan(t) else format_seconds(t) for t in (seconds, *peers.values())), ratio]


def products(options: argparse.Namespace) -> Table:
    """Measure the product of a sparse matrix with itself."""
    rows = []
    for n, degree in zip(options.vertices, (8, 32), strict=True):
        A = random_sparse(n, degree)

        def sorted_product() -> None:
            (A @ A).sort_indices()  # noqa: B023

        seconds = ours(f"A ⊗ A, n = {n}", lambda: sr.matmul(A, A, "min_plus"), repeats=7)  # noqa: B023
        peers = {
            "SciPy, unsorted": theirs(lambda: A @ A, repeats=7),  # noqa: B023
            "SciPy, sorted": theirs(sorted_product, repeats=7),
            "GraphBLAS": _peer(lambda gb, G: _finish(gb, gb.semiring.min_plus(G @ G).new()), A),
        }
        rows.append(_row(f"n = {n:,}, {degree} a row", seconds, peers))
    names = ["min_plus", "SciPy, unsorted", "SciPy, sorted", "GraphBLAS", "ratio to the best"]
    return Table("A ⊗ A, float64 (SciPy: plus_times)", ["matrix", *names], rows)


def masks(options: argparse.Namespace) -> Table:
    """Measure products at the positions of a mask."""
    rows = []
    for n, degree in zip(options.vertices, (8, 32), strict=True):
        A = random_sparse(n, degree)
        seconds = ours(f"A ⊗ A ⟨A⟩, n = {n}", lambda: sr.matmul(A, A, "min_plus", mask=A), repeats=7)  # noqa: B023
        peer = _peer(lambda gb, G: _finish(gb, gb.semiring.min_plus(G @ G).new(mask=G.S)), A)
        rows.append(_row(f"n = {n:,}, {degree} a row", seconds, {"GraphBLAS": peer}))
    return Table("A ⊗ A with the mask A, float64", ["matrix", "min_plus", "GraphBLAS", "ratio to the best"], rows)


def dense(options: argparse.Namespace) -> Table:
    """Measure products with a dense matrix and with a vector."""
    rows = []
    for n, degree in zip(options.vertices, (8, 32), strict=True):
        A, rng = random_sparse(n, degree), np.random.default_rng(1)
        X, x = rng.random((n, 64)), rng.random(n)

        def multiply(gb: Any, G: Any) -> None:
            _finish(gb, gb.semiring.min_plus(G @ gb.Matrix.from_dense(X)).new())  # noqa: B023

        def apply(gb: Any, G: Any) -> None:
            _finish(gb, gb.semiring.min_plus(G @ gb.Vector.from_dense(x)).new())  # noqa: B023

        for title, right, peer in ((" by 64 columns", X, multiply), (" by a vector", x, apply)):
            title = f"n = {n:,}, {degree} a row,{title}"
            seconds = ours(title, lambda: sr.matmul(A, right, "min_plus"), repeats=9)  # noqa: B023
            peers = {"SciPy": theirs(lambda: A @ right, repeats=9), "GraphBLAS": _peer(peer, A)}  # noqa: B023
            rows.append(_row(title, seconds, peers))
    names = ["min_plus", "SciPy", "GraphBLAS", "ratio to the best"]
    return Table("Products with dense operands, float64 (SciPy: plus_times)", ["product", *names], rows)


def triangles(options: argparse.Namespace) -> Table:
    """Measure L ⊗ L at the entries of L, whose sum is the number of triangles."""
    L = graph_of_rmat(options.scale, 16)
    seconds = ours("triangles", lambda: sr.matmul(L, L, "plus_times", mask=L), repeats=5, seconds=20)
    peer = _peer(lambda gb, G: _finish(gb, gb.semiring.plus_times(G @ G).new(mask=G.S)), L)
    count = int(sr.matmul(L, L, "plus_times", mask=L).sum())
    row = [*_row(f"R-MAT, scale {options.scale}, {L.nnz:,} edges", seconds, {"GraphBLAS": peer}), f"{count:,}"]
    return Table("L ⊗ L with the mask L, int64", ["graph", "plus_times", "GraphBLAS", "ratio", "triangles"], [row])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        vertices = "vertices of the matrices of 8 and of 32 entries a row"
        parser.add_argument("--vertices", type=int, nargs=2, default=(100_000, 20_000), help=vertices)
        parser.add_argument("--scale", type=int, default=17, help="log₂ of the vertices of the R-MAT graph")

    tables = {"products": products, "masks": masks, "dense": dense, "triangles": triangles}
    return run("benchmarks.sparse_products", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
