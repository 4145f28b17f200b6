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
    """Measure eigenvectors of dense matrices beside their closures."""
    n, rng = options.size, np.random.default_rng(0)
    floats, whole = rng.random((n, n)), random_matrix(n, np.float64) + 1
    planted, reducible = floats + 1, floats.copy()
    cycle = rng.permutation(n)[: max(1, n // 40)]
    planted[cycle, np.roll(cycle, -1)] = 0.5
    reducible[n // 2 :, : n // 2] = np.inf
    kinds = {
        "floats": floats,
        "whole numbers": whole,
        "int64": whole.astype(np.int64),
        "one long critical cycle": planted,
        "two components, floats": reducible,
        "two components, whole": np.where(reducible < np.inf, whole, np.inf),
    }
    rows: list[list[Any]] = []
    for name, A in kinds.items():
        closed = ours(f"closure, {name}", lambda: sr.closure(A, check=False))  # noqa: B023
        mean = ours(f"cycle_mean, dense {name}", lambda: sr.spectral.cycle_mean(A, check=False))  # noqa: B023
        both = ours(f"eigen, {name}", lambda: sr.spectral.eigen(A, check=False))  # noqa: B023
        rows.append([name, n, *map(format_seconds, (closed, mean, both)), f"{both / closed:.2f}"])
    columns = ["weights", "n", "closure", "cycle_mean", "eigen", "eigen / closure"]
    return Table("Eigenvectors of dense matrices, min_plus", columns, rows)


def residuals(options: argparse.Namespace) -> Table:
    """Measure residuation beside the product of the same matrices."""
    n = options.size
    rows: list[list[Any]] = []
    for dtype, empty in (("float32", 0.0), ("float64", 0.0), ("int32", 0.0), ("float32", 0.3), ("float64", 0.3)):
        A, B = (random_matrix(n, np.dtype(dtype), seed=seed) - 500 for seed in (0, 1))  # both signs
        if empty:
            A[np.random.default_rng(0).random((n, n)) < empty] = -np.inf
        product = ours(f"product, {dtype}, {empty}", lambda: sr.matmul(A, B, "max_plus"))  # noqa: B023
        residual = ours(f"residuate, {dtype}, {empty}", lambda: sr.spectral.residuate(A, B, "max_plus"))  # noqa: B023
        ratio = f"{residual / product:.2f}"
        rows.append([dtype, f"{1 - empty:.0%}", n, *map(format_seconds, (product, residual)), ratio])
    columns = ["dtype", "edges of A", "n", "product", "residuate", "residuate / product"]
    return Table("Residuation beside the product, max_plus", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--vertices", type=int, default=250_000, help="vertices of the sparse graph")
        parser.add_argument("--size", type=int, default=2048, help="rows of the dense matrices")

    tables = {"sparse": sparse, "dense": dense, "residuals": residuals}
    return run("benchmarks.spectral", str(__doc__), tables, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
