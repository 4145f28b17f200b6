"""Measure cycle means, eigenvectors and residuation beside a closure and a product of the same size.

python -m benchmarks.spectral [sparse] [dense] [residuals]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import semiring as sr
from benchmarks.common import Table, format_seconds, ours, random_matrix, run

__all__ = ["main"]


def sparse(options: argparse.Namespace) -> Table:
    """Measure the least cycle mean of a strongly connected random graph."""
    import scipy.sparse as sp

    n, m, rng = options.vertices, 4 * options.vertices, np.random.default_rng(0)
    tails = np.concatenate([np.arange(n), rng.integers(0, n, m - n)])
    heads = np.concatenate([(np.arange(n) + 1) % n, rng.integers(0, n, m - n)])
    rows: list[list[Any]] = []
    for name, weights in (("whole numbers", rng.integers(1, 1000, m)), ("floats", rng.random(m))):
        A = sp.coo_array((weights, (tails, heads)), shape=(n, n)).tocsr()
        seconds = ours(f"cycle_mean, {name}", lambda: sr.spectral.cycle_mean(A, check=False))  # noqa: B023
        rows.append([name, f"{n:,}", f"{A.nnz:,}", format_seconds(seconds)])
    return Table("Least cycle mean of a sparse graph", ["weights", "vertices", "edges", "time"], rows)


def dense(options: argparse.Namespace) -> Table:
    """Measure an eigenvector of a dense matrix beside its closure."""
    n = options.size
    rows: list[list[Any]] = []
    whole = random_matrix(n, np.float64) + 1
    for name, A in (("whole numbers", whole), ("floats", np.random.default_rng(0).random((n, n)))):
        closed = ours(f"closure, {name}", lambda: sr.closure(A, check=False))  # noqa: B023
        mean = ours(f"cycle_mean, dense {name}", lambda: sr.spectral.cycle_mean(A, check=False))  # noqa: B023
        both = ours(f"eigen, {name}", lambda: sr.spectral.eigen(A, check=False))  # noqa: B023
        rows.append([name, n, *map(format_seconds, (closed, mean, both)), f"{both / closed:.2f}"])
    columns = ["weights", "n", "closure", "cycle_mean", "eigen", "eigen / closure"]
    return Table("Eigenvector of a dense matrix, float64", columns, rows)


def residuals(options: argparse.Namespace) -> Table:
    """Measure residuation beside the product of the same matrices."""
    n = options.size
    rows: list[list[Any]] = []
    for dtype in ("float32", "float64"):
        A, B = (random_matrix(n, np.dtype(dtype), seed=seed) - 500 for seed in (0, 1))  # both signs
        product = ours(f"product, {dtype}", lambda: sr.matmul(A, B, "max_plus"))  # noqa: B023
        residual = ours(f"residuate, {dtype}", lambda: sr.spectral.residuate(A, B, "max_plus"))  # noqa: B023
        rows.append([dtype, n, *map(format_seconds, (product, residual)), f"{residual / product:.2f}"])
    columns = ["dtype", "n", "product", "residuate", "residuate / product"]
    return Table("Residuation beside the product", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=250_000, help="vertices of the sparse graph")
        parser.add_argument("--size", type=int, default=2048, help="rows of the dense matrices")

    tables = {"sparse": sparse, "dense": dense, "residuals": residuals}
    return run("benchmarks.spectral", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
