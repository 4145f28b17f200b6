"""Test the loop of sweeps and fronts against its definition: every width, any stride, both orders of ⊗."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import semiring as sr
from semiring.kernels.cpu.elimination.gathered_rows import folds_for
from semiring.kernels.engine import make_plan

LEFT = sr.Semiring(  # ⊗ that does not commute: words over one letter, of which the last is kept
    "left",
    add="x | y",
    mul="where(x == 0, 0, where(y == 0, 0, where(y == 1, x, where(x == 1, y, y))))",
    zero=0,
    one=1,
    dtypes=("uint8",),
)


@pytest.mark.parametrize(
    ("semiring", "dtype"),
    [
        ("min_plus", "float32"),
        ("min_plus", "float64"),
        ("plus_times", "float64"),
        ("max_min", "int16"),
        ("boolean", "bool"),
        (LEFT, "uint8"),
    ],
)
def test_rows_that_lie_here_and_there(rng, semiring, dtype):
    algebra = sr.as_semiring(semiring)
    folds = folds_for(make_plan(algebra, dtype), 40)
    assert folds.ordinals.tolist() == list(range(40))
    for address, vector_first in ((folds.left, False), (folds.right, True)):
        fold = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(address)
        for width in (1, 2, 3, 7, 16, 31, 64, 65, 130, 200):
            count = int(rng.integers(0, 12))
            x = rng.integers(0, 3, (40, width + 3)).astype(dtype)
            factors = rng.integers(0, 3, (count, 2)).astype(dtype)
            index = rng.integers(0, 40, count).astype(np.int32)
            c = rng.integers(0, 3, width + 2).astype(dtype)
            expected = c.copy()
            for a in range(count):
                row, factor = x[index[a], :width], np.full(width, factors[a, 0])
                product = algebra.mul(row, factor) if vector_first else algebra.mul(factor, row)
                expected[:width] = algebra.add(expected[:width], product)
            at = (c.ctypes.data, width, x.ctypes.data, x.strides[0])
            fold(*at, index.ctypes.data, count, factors.ctypes.data, factors.strides[0])
            assert np.array_equal(c, expected), (width, count)
