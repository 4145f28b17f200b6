"""Close small files by strips as large ones are closed: small blocks of pivots, and little memory."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import matrices
import numpy as np
import pytest

import semiring as sr
from semiring.algorithms import schedule
from semiring.algorithms.blocked_floyd_warshall import Elimination, Rows
from semiring.out_of_core import layout

METHOD = "blocked_floyd_warshall"


def make_small(patch):
    """Use blocks of 32 pivots, no overhead of memory, and no closure in memory."""
    for name in ("cpu", "reference"):
        patch.setitem(schedule._TABLE, name, replace(schedule._TABLE[name], pivots=((0, 32),)))
    for name in ("HOST", "DEVICE"):
        patch.setattr(
            layout,
            name,
            replace(getattr(layout, name), min_rows=2, overhead=0, bytes_per_thread=0, bit_bytes_per_thread=0),
        )
    patch.setattr(import_module("semiring.closures.files"), "_WORKSPACE", 1 << 60)


class _RowsWithPivots(Rows):
    """The rows of a matrix in memory, and of their pivots."""

    def __init__(self, A, P):
        self.A, self.P = A, P

    def strip(self, rows):
        return self.A[slice(*rows)], self.P[slice(*rows)]

    def pivots(self, pivots):
        return self.A[slice(*pivots)]


def close_with_pivots(engine, A, width=32):
    """Compute A ← A* by blocks of pivots, all rows at a time, and return P (n, n), the pivots of its paths."""
    n, P = len(A), np.full(A.shape, -1, np.int32)
    elimination = Elimination(_RowsWithPivots(A, P), n, 0, n)
    for start in range(0, n, width):
        K = start, min(n, start + width)
        elimination.close_rows(engine, K)
        for others in ((0, K[0]), (K[1], n)):
            elimination.eliminate(engine, K, others, (0, n))
    return P


def rounding_matrix(rng, n, name, dtype):
    """Return entries whose closures round, if they are floats."""
    if np.dtype(dtype).kind != "f" and name != "xor_and":
        return matrices.matrix(rng, n, name, dtype)
    values = rng.random((n, n)) ** 3  # sums of random multiples of 2⁻⁵³ below 1 would not be rounded
    if name == "xor_and":
        return np.triu(matrices.matrix(rng, n, name, dtype), 1)
    if name == "plus_times":
        return (values / (2 * n)).astype(dtype)
    if name == "log_plus":
        return (np.log(values) - np.log(2 * n)).astype(dtype)
    if name == "max_plus":
        values = -values
    if name == "min_times":
        values = 1 / values
    values[rng.random((n, n)) < 0.5] = sr.as_semiring(name).zero_for(np.dtype(dtype))
    return values.astype(dtype)


def least_memory(path, name="min_plus", **options):
    """Return the least memory for the closure of a file, as the error says."""
    with pytest.raises(ValueError, match="too small") as caught:
        sr.closure(path, name, out=path.with_name("none.npy"), memory=1, **options)
    size, unit = str(caught.value).rsplit("takes ", 1)[1].split()
    return int(size.replace(",", "")) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and np.asarray(x).tobytes() == np.asarray(y).tobytes()
