"""Test whole numbers closed in narrower integers on a GPU, by the kernels that measure entries and relax them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest

import semiring as sr
from semiring.closures import closure, closure_with_predecessors
from semiring.kernels.cuda.entries.entry_passes import largest_whole
from semiring.kernels.machines import tables
from semiring.testing import check_predecessors

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_whole_number(cupy, dtype):
    for row, expected in (([1, 1.5, -0.0, 8], np.inf), ([1, 2, -7, -0.0], 7), ([np.inf, -np.inf], 0), ([0.25], np.inf)):
        for rows in (1, 3, 33):
            given = cupy.asarray(np.array([row] * rows, dtype))
            assert largest_whole(given) == largest_whole(given.T) == expected


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_whole_numbers_in_narrower_integers(rng, cupy, monkeypatch, dtype, name):
    """The results are bitwise identical, in a new array and in place."""
    for speed, dtypes in (("_CLOSURES", ["int16"]), ("_OF_8_BYTES", ["int16", "int32"])):
        always = tuple((inner, 0) for inner in dtypes)
        monkeypatch.setattr(tables, speed, replace(getattr(tables, speed), narrow=always))
    sign, none = 1 if name == "min_plus" else -1, oracles.zero(name, np.dtype(dtype))
    for n, heaviest in ((130, 100), (700, 100), (300, 100_000)):
        A = np.full((n, n), none, dtype)
        edges, order = rng.random((n, n)) < 8 / n, rng.permutation(n)
        edges[order, np.roll(order, -1)] = True
        A[edges] = (sign * rng.integers(0, heaviest, (n, n)))[edges].astype(dtype)
        for reflexive in (True, False):
            expected, work = closure(A, name, reflexive=reflexive), cupy.asarray(A)
            result, explanation = closure(work, name, reflexive=reflexive, explain=True)
            assert heaviest > 100 or "in int16" in explanation.encodings
            closure(work, name, reflexive=reflexive, out=work)
            for found in (result, work):
                assert found.dtype == expected.dtype
                assert found.get().tobytes() == expected.tobytes()
        if name == "min_plus":
            D, pred = closure_with_predecessors(cupy.asarray(A), sr.min_plus)
            check_predecessors(A, D.get(), pred.get())
    if dtype.startswith("float"):
        A[order[0], order[-1]] = 0.5 * sign
        result, explanation = closure(cupy.asarray(A), name, explain=True)
        np.testing.assert_array_equal(result.get(), closure(A, name))
        assert not any(each.startswith("in int") for each in explanation.encodings)
