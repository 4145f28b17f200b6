"""The methods of the papers, compiled, to compare with: the serial triple loop and Bertoldi's row-parallel loop.

Floyd 1962; Bertoldi, "Parallelization of Floyd–Warshall", OpenMP chapter: pivots in sequence, the rows of one pivot
shared out among the threads. (The comparison in the paper's listings is inverted; here it is the one that is meant.)
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["row_parallel", "serial"]


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
