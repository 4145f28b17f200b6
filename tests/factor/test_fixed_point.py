"""Test the least x = A ⊗ x ⊕ b of dense matrices, graphs with cycles and without, against closures and products."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
from tiers import full, quick

import semiring as sr
from semiring.sparse import least_solution

pytestmark = pytest.mark.full  # each test compiles kernels of its own


def random_matrix(rng, semiring, dtype, n):
    """Return a dense matrix of few edges."""
    zero = sr.as_semiring(semiring).zero_for(np.dtype(dtype))
    A = np.full((n, n), zero, dtype)
    tails, heads = rng.integers(0, n, (2, int(rng.integers(0, 4 * n))))
    low, high = (-6, -3) if semiring == "log_plus" else (-2 if rng.random() < 0.4 else 0, 60)
    A[tails, heads] = (
        rng.uniform(low, high, tails.size) if semiring == "log_plus" else rng.integers(low, high, tails.size)
    )
    return A


@pytest.mark.parametrize("block", [256, 5])
@pytest.mark.parametrize(
    ("semiring", "dtype"),
    quick(
        lambda _, dtype: dtype == "float32",
        full(
            lambda semiring, _: semiring == "min_plus",
            [("min_plus", "float32"), ("min_plus", "int32"), ("log_plus", "float64")],
        ),
    ),
)
def test_against_the_closure(rng, semiring, dtype, block, monkeypatch):
    monkeypatch.setattr(least_solution, "_BLOCK", block)
    zero = sr.as_semiring(semiring).zero_for(np.dtype(dtype))
    for n in (1, 2, 6, 19, 40):
        for columns in (None, 1, 4):
            A = random_matrix(rng, semiring, dtype, n)
            b = random_matrix(rng, semiring, dtype, max(n, 4))[:n, :columns] if columns else A[:, 0].copy()
            rows, entries = np.nonzero(zero != A)
            sparse = sp.coo_array((A[rows, entries], (rows, entries)), shape=A.shape)
            try:
                D = sr.closure(A, semiring)
            except sr.DivergenceError:
                for given in (A, sparse):
                    with contextlib.suppress(sr.DivergenceError):
                        found = sr.fixed_point(given, b, semiring)  # no walk joins the cycle and the entries of b
                        again = sr.add(sr.matmul(A, found, semiring), b, semiring)
                        np.testing.assert_allclose(found, again, rtol=1e-4)
                continue
            B = b.reshape(n, -1)
            there, back = sr.matmul(D, B, semiring), sr.matmul(B.T, D, semiring).T
            for given in (A, sparse):
                for transposed, expected in ((False, there), (True, back)):
                    found = sr.fixed_point(given, b, semiring, transpose=transposed)
                    assert found.shape == b.shape
                    assert found.dtype == A.dtype
                    if dtype == "float64":
                        np.testing.assert_allclose(found, expected.reshape(b.shape), rtol=1e-10)
                    else:
                        assert np.array_equal(found, expected.reshape(b.shape))


def test_several_blocks_of_a_dense_matrix(rng):
    A = rng.integers(1, 1000, (600, 600)).astype(np.float32)
    b = rng.integers(0, 5000, (600, 3)).astype(np.float32)
    assert np.array_equal(sr.fixed_point(A, b), sr.matmul(sr.closure(A), b))
    assert np.array_equal(sr.fixed_point(A, b[:, 0], transpose=True), sr.matmul(b[:, :1].T, sr.closure(A))[0])
    small = A / 1e6
    x = sr.fixed_point(small, b, "plus_times")
    np.testing.assert_allclose(x, small @ x + b, rtol=1e-4)


def test_a_graph_without_cycles_takes_one_sweep_in_any_semiring(rng):
    """Numbers of paths are computed in a semiring without a star."""
    n = 60
    A = np.triu(rng.random((n, n)) < 0.1, 1).astype(np.int64)
    p = rng.permutation(n)
    A = A[np.ix_(p, p)]
    count = sr.Semiring("count", "x + y", "x * y", 0, 1, domain="[0, inf)", dtypes=("int64",))
    b = rng.integers(0, 5, n)
    x = sr.fixed_point(sp.csr_array(A), b, count)
    assert np.array_equal(x, A @ x + b)
    y = sr.fixed_point(sp.csr_array(A), b, count, transpose=True)
    assert np.array_equal(y, A.T @ y + b)
    A[5, 5] = 1
    with pytest.raises(sr.AlgebraError, match="count has no star, and A may have cycles"):
        sr.fixed_point(sp.csr_array(A), b, count)
    tasks = sp.coo_array((np.array([3.0, 5.0, -4.0]), ([0, 1, 0], [1, 2, 2])), shape=(3, 3))
    assert sr.fixed_point(tasks, [0.0, 0.0, 1.0], "max_plus").tolist() == [9, 6, 1]


@pytest.mark.full
def test_signs(rng):
    heights = rng.random(30)
    A = heights - heights[:, np.newaxis]
    b = rng.random(30)
    expected = (A + b).min(axis=1)
    assert np.abs(sr.fixed_point(A, b) - expected).max() < 1e-13
    assert np.abs(sr.fixed_point(sp.csr_array(A), b) - np.minimum(expected, b)).max() < 1e-13
    for dtype in (np.float64, np.int32):
        W = np.array([[5, 1, 9], [9, 9, -4], [2, 9, 9]], dtype)
        for given in (W, sp.csr_array(W)):
            with pytest.raises(sr.NegativeCycleError, match="0 → 1 → 2"):
                sr.fixed_point(given, W[0])


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_no_vertices(shape):
    for A in (np.zeros((0, 0)), sp.csr_array((0, 0))):
        assert sr.fixed_point(A, np.zeros(shape)).shape == shape
        F = sr.factor(A)
        assert F.solve(np.zeros(shape)).shape == shape
        assert F.rows(reduce="eccentricity").shape == (0,)


def test_names():
    nx, pd = pytest.importorskip("networkx"), pytest.importorskip("pandas")
    G = nx.DiGraph()
    G.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0)])
    end = pd.Series({"c": 0.0, "a": np.inf, "b": np.inf})
    assert sr.fixed_point(G, end).tolist() == [5, 3, 0]
    G.add_edge("c", "a", weight=1.0)
    assert sr.fixed_point(G, end).tolist() == [5, 3, 0]
    with pytest.raises(sr.ShapeError, match="the labels of b"):
        sr.fixed_point(G, end.rename({"a": "z"}))


@pytest.mark.parametrize(
    ("A", "b", "semiring", "error", "message"),
    [
        (np.zeros((2, 3)), np.zeros(2), "min_plus", sr.ShapeError, "square"),
        (np.zeros((2, 2)), np.zeros(3), "min_plus", sr.ShapeError, r"b is \(3,\)"),
        (sp.csr_array((2, 2), dtype=np.float32), np.zeros(2), "min_plus", sr.DTypeError, "convert one of them"),
        (np.full((3, 3), 2**61), np.zeros(3, np.int64), "min_plus", sr.IntegerOverflowError, None),
        ([[1.0]], [1.0], "plus_times", sr.DivergenceError, "vertex 0"),
    ],
)
def test_bad_input_is_refused(A, b, semiring, error, message):
    with pytest.raises(error, match=message):
        sr.fixed_point(A, b, semiring)
