"""The methods of the papers, compiled, to compare with: the serial triple loop and Bertoldi's row-parallel loop.

    python -m benchmarks.classical [loops] [--sizes 512 1024]

`loops`: float64, the same dense graph, whose distances are compared with those of `semiring.closure`. What other
libraries take: `benchmarks.closure`.

Floyd 1962; Bertoldi, "Parallelization of Floyd–Warshall", OpenMP chapter: pivots in sequence, the rows of one pivot
shared out among the threads. (The comparison in the paper's listings is inverted; here it is the one that is meant.)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np

import semiring as sr
from benchmarks.common import Table, comparing, ours, random_matrix, rounded, run, theirs

__all__ = ["LOOPS", "main", "on_a_copy", "row_parallel", "serial"]


@numba.njit(cache=True, error_model="numpy")
def serial(D: np.ndarray) -> None:
    """D ← D* in place for min-plus: three loops, one thread, as the compiler makes them."""
    n = D.shape[0]
    for k in range(n):
        for i in range(n):
            through = D[i, k]
            for j in range(n):
                candidate = through + D[k, j]
                if candidate < D[i, j]:
                    D[i, j] = candidate


@numba.njit(cache=True, parallel=True, error_model="numpy")
def row_parallel(D: np.ndarray) -> None:
    """The same, the rows of each pivot split among Numba's threads."""
    n = D.shape[0]
    for k in range(n):
        for i in numba.prange(n):
            through = D[i, k]
            for j in range(n):
                candidate = through + D[k, j]
                if candidate < D[i, j]:
                    D[i, j] = candidate


LOOPS: Mapping[str, Callable[[Any], None]] = {
    "serial triple loop, compiled": serial,
    "row-parallel loop (Bertoldi), compiled": row_parallel,
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
        rows.append(["semiring", n, rounded(own * 1e3, 1), n**3 / own / 1e9, "1.0×"])
        expected = sr.closure(A)
        for name, loop in LOOPS.items():
            call = on_a_copy(loop, A)
            assert comparing() or np.array_equal(call(), expected), f"{name} finds other distances"
            took = theirs(call, repeats=3)
            rows.append([name, n, rounded(took * 1e3, 1), n**3 / took / 1e9, f"{rounded(took / own, 1)}×"])
    columns = ["who", "n", "ms", "G pairs/s", "times ours"]
    return Table(f"Loops of the papers, float64, threads: {sr.get_threads()}", columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])

    return run("benchmarks.classical", str(__doc__), {"loops": loops}, arguments, configure)


if __name__ == "__main__":
    sys.exit(main())
