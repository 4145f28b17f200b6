"""Test the paths of acyclic graphs, counted exactly in integers of ordinary sums and products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import semiring as sr
from semiring.errors import DTypeError, IntegerOverflowError

STAR = "where(x == 1, nan, 1 / (1 - x))"
OWN = sr.Semiring("own", "x + y", "x * y", 0, 1, STAR, "(-inf, inf)", dtypes=("float64", "int32", "int64"))
FORMS = [lambda A: A, np.asfortranarray, sp.csr_array]
CALLS = [
    lambda A, name: sr.closure(A, name),
    lambda A, name: sr.factor(A, name).table(range(A.shape[0]), range(A.shape[0])),
    lambda A, name: sr.factor(A, name).solve(np.eye(A.shape[0], dtype=A.dtype)),
    lambda A, name: sr.fixed_point(A, np.eye(A.shape[0], dtype=A.dtype), name),
    lambda A, name: sr.fixed_point(A, np.eye(A.shape[0], dtype=A.dtype), name, transpose=True).T,
]


def sums_over_paths(A):
    """Return A* in Python's integers."""
    total = power = np.eye(len(A), dtype=object)
    for _ in range(len(A)):
        power = power.dot(A.astype(object))
        total = total + power
    return total


@pytest.mark.parametrize("name", ["plus_times", OWN], ids=["plus_times", "own"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("call", CALLS)
def test_counts_are_exact(rng, call, dtype, name):
    for n in (1, 2, 20, 70):
        order = rng.permutation(n)
        A = np.triu(rng.integers(-3, 4, (n, n)) * (rng.random((n, n)) < 3 / n), 1)[np.ix_(order, order)].astype(dtype)
        for form in FORMS:
            found = call(form(A), name)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, sums_over_paths(A))
    if call is CALLS[0]:
        np.testing.assert_array_equal(sr.closure(np.stack([A, A.T]), name)[1], sums_over_paths(A.T))
        np.testing.assert_array_equal(sr.closure(A, name, reflexive=False), sums_over_paths(A) - np.eye(n, dtype=int))


def test_counts_are_an_encoding_of_arrays_of_every_library():
    A = np.triu(np.arange(16).reshape(4, 4), 1)
    D, said = sr.closure(pytest.importorskip("torch").from_numpy(A), "plus_times", explain=True)
    np.testing.assert_array_equal(D, sums_over_paths(A))
    assert next(answer.applies for answer in said.answers if answer.name == "counts of paths")


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4), (2, 1, 3, 3)])
def test_empty_matrices_and_stacks_have_counts(shape):
    expected = np.broadcast_to(np.eye(shape[-1], dtype=np.int16), shape)
    np.testing.assert_array_equal(sr.closure(np.zeros(shape, np.int16), "plus_times"), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", CALLS)
def test_cycles_and_long_sums_are_refused(call, form):
    for dtype, n in (("int16", 17), ("int32", 33), ("int64", 65)):  # 2ⁿ⁻² paths from the first vertex to the last
        A = np.triu(np.ones((n, n), dtype), 1)
        with pytest.raises(IntegerOverflowError, match=f"and {dtype} ends at"):
            call(form(A), "plus_times")
        kept = A.copy()
        A[n - 1, 0] = 1
        with pytest.raises(
            DTypeError, match=f"does not exist on {dtype}, and A has a cycle, which needs it: use float64"
        ):
            call(form(A), "plus_times")
        np.testing.assert_array_equal(call(form(kept[:10, :10]), "plus_times"), sums_over_paths(kept[:10, :10]))
