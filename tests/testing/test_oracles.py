"""Test the oracles themselves: against answers worked out by hand, against SciPy, and against each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracles
import pytest
from scipy.sparse.csgraph import shortest_path

INF = np.inf

#: One product of each semiring, worked out by hand: A, B, and A ⊗ B, where the first row of A meets B in full.
BY_HAND = {
    "min_plus": ([[1, INF], [4, -2]], [[3, 0], [-1, 7]], [[4, 1], [-3, 4]]),
    "max_plus": ([[-5, -INF], [-9, -7]], [[-3, -4], [-1, -8]], [[-8, -9], [-8, -13]]),
    "boolean": ([[True, False], [True, True]], [[False, True], [True, False]], [[False, True], [True, True]]),
    "max_min": ([[1, 5], [-INF, 2]], [[3, INF], [-1, 7]], [[1, 5], [-1, 2]]),
    "min_max": ([[1, 5], [INF, 2]], [[3, -INF], [-1, 7]], [[3, 1], [2, 7]]),
    "max_times": ([[0.5, 0.25], [0, 1]], [[0.5, 0], [1, 0.5]], [[0.25, 0.125], [1, 0.5]]),
    "min_times": ([[2, 3], [INF, 1]], [[4, INF], [2, 8]], [[6, 24], [2, 8]]),
    "plus_times": ([[1, 2], [3, 4]], [[5, 6], [7, -8]], [[19, -10], [43, -14]]),
    "log_plus": ([[0, 0], [-INF, 0]], [[0, 1], [0, -INF]], [[np.log(2), 1], [0, -INF]]),
    "xor_and": ([[3, 5], [6, 0]], [[1, 7], [4, 2]], [[5, 3], [0, 6]]),
    "lukasiewicz": ([[0.5, 1], [0.25, 0]], [[0.75, 0.5], [0.25, 0]], [[0.25, 0], [0, 0]]),
}


@pytest.mark.parametrize("name", oracles.ORACLES)
def test_products_worked_out_by_hand(name):
    dtype = {"boolean": bool, "xor_and": np.uint8}.get(name, np.float64)
    A, B, expected = (np.array(matrix, dtype) for matrix in BY_HAND[name])
    for product in (oracles.product, oracles.product_by_scalars):
        result = product(A, B, name)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("name", "dtype", "zero", "one"), [
    ("min_plus", "float32", INF, 0), ("min_plus", "int16", 32767, 0), ("max_plus", "int64", -(2**63), 0),
    ("max_min", "uint8", 0, 255), ("min_max", "int32", 2**31 - 1, -(2**31)), ("max_min", "bool", False, True),
    ("min_max", "bool", True, False), ("xor_and", "int16", 0, -1), ("xor_and", "bool", False, True),
    ("max_times", "float64", 0, 1), ("lukasiewicz", "float32", 0, 1), ("log_plus", "float64", -INF, 0),
])  # fmt: skip
def test_zero_and_one_of_a_dtype(name, dtype, zero, one):
    assert oracles.zero(name, dtype) == zero
    assert oracles.one(name, dtype) == one
    np.testing.assert_array_equal(oracles.identity(2, name, dtype), [[one, zero], [zero, one]])


def test_integers_that_mean_no_path_stay():
    A = np.array([[32767, 5]], np.int16)
    B = np.array([[-7], [32767]], np.int16)
    assert oracles.product(A, B, "min_plus").tolist() == [[32767]]


def test_shortest_paths_agree_with_scipy_and_each_other(rng):
    A = rng.integers(1, 100, (30, 30)).astype(np.float64)
    A[rng.random(A.shape) < 0.8] = INF
    expected = shortest_path(np.where(np.isinf(A), 0, A), method="D")
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(oracles.all_pairs_dijkstra(A), expected)
    np.testing.assert_array_equal(oracles.closure(A, "min_plus"), expected)
    np.testing.assert_array_equal(oracles.exact_distances(A).astype(float), expected)
    np.testing.assert_array_equal(oracles.reachable(np.isfinite(A)), np.isfinite(expected))


def test_a_negative_cycle_is_found_and_weighed():
    A = np.full((5, 5), INF)
    A[0, 1], A[1, 2], A[2, 3], A[3, 1], A[2, 4] = 1, 2, -4, 1.5, 7
    cycle = oracles.negative_cycle(A)
    assert sorted(cycle) == [1, 2, 3]
    assert oracles.cycle_weight(A, cycle) == Fraction(-1, 2)
    A[3, 1] = 2
    assert oracles.negative_cycle(A) == []


def test_closures_outside_the_idempotent_semirings(rng):
    assert oracles.inverse_closure(np.array([[0.5, 0.25], [0, 0.5]])) == [[2, 1], [0, 2]]
    np.testing.assert_allclose(
        np.exp(oracles.log_closure(np.log([[0.5, 0.25], [1e-300, 0.5]])).astype(float)), [[2, 1], [0, 2]], atol=1e-15
    )
    A = rng.integers(0, 256, (5, 5)).astype(np.uint8)
    np.fill_diagonal(A, 0)
    A = np.triu(A)
    X = oracles.gf2_closure(A)
    unit = oracles.identity(5, "xor_and", np.uint8)
    np.testing.assert_array_equal(oracles.product(A, X, "xor_and") ^ unit, X)
    assert oracles.gf2_closure(np.array([[1]], np.uint8)) is None


def test_a_reflexive_closure_and_its_irreflexive_form():
    A = np.array([[False, True, False], [False, False, True], [False, False, False]])
    assert oracles.closure(A, "boolean").tolist() == [[True, True, True], [False, True, True], [False, False, True]]
    assert oracles.closure(A, "boolean", reflexive=False).tolist() == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
    np.testing.assert_array_equal(oracles.reachable(A, reflexive=False), oracles.closure(A, "boolean", reflexive=False))


def test_a_witness_is_the_first_that_attains():
    A, B = np.array([[1.0, 1.0, 2.0]]), np.array([[3.0, INF], [3.0, INF], [0.0, INF]])
    assert oracles.witness(A, B, "min_plus").tolist() == [[2, -1]]
    assert oracles.witness(A[:, :2], B[:2], "min_plus").tolist() == [[0, -1]]
