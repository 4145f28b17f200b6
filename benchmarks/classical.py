"""Compile the methods of the papers to compare with: the serial triple loop and Bertoldi's row-parallel loop.

    python -m benchmarks.classical [loops] [--sizes 512 1024]

`loops`: float64, the same dense graph, whose distances are compared with those of `semiring.closure`. What other
libraries take: `benchmarks.closure`.

Floyd 1962; D. Bertoldi, "Parallelization of the Floyd-Warshall algorithm", algorithm 3, which is the method
`bertoldi_openmp` of the library: see `semiring.algorithms.papers.bertoldi`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numba
import numpy as np

import semiring as sr
from benchmarks.common import Table, comparing, format_number, ours, random_matrix, run, theirs
from semiring.algorithms.papers.bertoldi import bertoldi_openmp, bertoldi_openmp_static
from semiring.kernels import get_backend
from semiring.kernels.engine import Engine, make_plan

__all__ = ["LOOPS", "main", "on_a_copy", "row_parallel", "serial"]


@numba.njit(cache=True, error_model="numpy")
def serial(D: np.ndarray) -> None:
    """Compute D ← D* in place for min-plus by three loops on one thread, as the compiler makes them."""
    n = D.shape[0]
    for k in range(n):
        for i in range(n):
            through = D[i, k]
            for j in range(n):
                candidate = through + D[k, j]
                if candidate < D[i, j]:
                    D[i, j] = candidate


def row_parallel(D: np.ndarray, schedule: str = "dynamic", **options: bool) -> None:
    """Share the rows of each pivot out among the threads, by a ``"dynamic"`` or a ``"static"`` schedule.

    ``options`` are those of the method `bertoldi_openmp`.
    """
    plan = make_plan(sr.min_plus, D.dtype, nonnegative=True, threads=sr.get_threads())
    close = bertoldi_openmp if schedule == "dynamic" else bertoldi_openmp_static
    close(Engine(get_backend("cpu"), plan), D, **options)


LOOPS: Mapping[str, Callable[[Any], None]] = {
    "serial triple loop, compiled": serial,
    "row-parallel loop (Bertoldi), dynamic": row_parallel,
    "row-parallel loop (Bertoldi), static": partial(row_parallel, schedule="static"),
}


def on_a_copy(loop: Callable[[Any], None], A: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a call that closes a copy of A by a loop, and returns the copy."""

    def call() -> np.ndarray:
        D = A.copy()
        loop(D)
        return D

    return call


def loops(options: argparse.Namespace) -> Table:
    """Measure both loops beside `semiring.closure`."""
    rows = []
    for n in options.sizes:
        A = random_matrix(n, np.float64, seed=n)
        np.fill_diagonal(A, 0)
        own = ours(f"closure, n = {n}", lambda: sr.closure(A))  # noqa: B023
        rows.append(["semiring", n, format_number(own * 1e3, 1), n**3 / own / 1e9, "1.0×"])
        expected = sr.closure(A)
        for name, loop in LOOPS.items():
            call = on_a_copy(loop, A)
            assert comparing() or np.array_equal(call(), expected), f"{name} finds other distances"
            took = theirs(call, repeats=3)
            rows.append([name, n, format_number(took * 1e3, 1), n**3 / took / 1e9, f"{format_number(took / own, 1)}×"])
    columns = ["who", "n", "ms", "G pairs/s", "times ours"]
    return Table(f"Loops of the papers, float64, threads: {sr.get_threads()}", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])

    return run("benchmarks.classical", str(__doc__), {"loops": loops}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
