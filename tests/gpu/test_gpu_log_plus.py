"""Test products of log_plus on a GPU: right on data of every kind, identical bits again, and -∞ where no path leads."""

from __future__ import annotations

import numpy as np
import pytest
from log_kinds import KINDS, exactly

import semiring as sr
from semiring.kernels.engine import make_plan

pytestmark = pytest.mark.gpu
INF = np.inf
M, K, N = 150, 600, 530
BOUND = {"float32": 4, "float64": 16}


@pytest.fixture
def by_cublas(monkeypatch):
    """Send products of this size the way of large ones."""
    from semiring.kernels.cuda.product import log_sums

    monkeypatch.setattr(log_sums, "_PAIRS", dict.fromkeys("fd", 0))
    return log_sums


def exact(A, B, C=None):
    return exactly(A, B, C)[2]


def log_product(plan, A, B, C=None):
    import cupy as cp

    from semiring.kernels import device_backend

    backend, result = device_backend(plan.semiring, plan.dtype), cp.empty((A.shape[0], B.shape[1]), A.dtype)
    if C is None:
        backend.multiply(plan, result, cp.asarray(A), cp.asarray(B))
    else:
        result = cp.asarray(C)
        backend.multiply_add(plan, result, cp.asarray(A), cp.asarray(B))
    return cp.asnumpy(result)


def assert_right(actual, expected, dtype):
    infinite = ~np.isfinite(expected)
    np.testing.assert_array_equal(actual[infinite], expected[infinite].astype(dtype))
    difference = np.abs(actual[~infinite] - expected[~infinite])
    units = difference / np.maximum(1, np.abs(expected[~infinite])) / np.finfo(dtype).eps
    assert units.max(initial=0) <= BOUND[dtype], float(units.max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KINDS)
def test_errors_are_small_on_data_of_every_kind(rng, name, dtype, by_cublas):
    plan = make_plan(sr.log_plus, dtype)
    assert by_cublas.may_use_cublas(plan)
    A, B = (X.astype(dtype) for X in KINDS[name](rng, M, K, N))
    rows, columns = np.r_[0:12, 60:64], np.r_[0:16, 500:530]
    expected = exact(A[rows], B[:, columns])
    found = log_product(plan, A, B)
    assert_right(found[np.ix_(rows, columns)], expected, dtype)
    assert log_product(plan, A, B).tobytes() == found.tobytes()
    C = np.where(rng.random(found.shape) < 0.2, -INF, found + rng.normal(size=found.shape)).astype(dtype)
    total = log_product(plan, A, B, C)
    assert_right(total[np.ix_(rows, columns)], exact(A[rows], B[:, columns], C[np.ix_(rows, columns)]), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(8, 8, 8), (33, 64, 100), (200, 300, 511), (64, 4096, 64), (1, 600, 300), (600, 511, 1), (7, 900, 700)],
)
def test_errors_of_small_products_are_as_small(rng, m, k, n, dtype):
    import cupy as cp

    plan = make_plan(sr.log_plus, dtype)
    kinds = {**KINDS, "equal": lambda _, m, k, n: (np.full((m, k), 7e5), np.full((k, n), 0.25))}
    for kind in kinds.values():
        side = max(m, n, 16)
        A, B = kind(rng, side, max(k, 64), side)
        A, B = A[:m, :k].astype(dtype), B[:k, :n].astype(dtype)
        C = rng.normal(size=(m, n)).astype(dtype)
        rows, columns = slice(0, 16), slice(max(0, n - 16), n)
        expected, total = (exact(A[rows], B[:, columns], X) for X in (None, C[rows, columns]))
        found = log_product(plan, A, B)
        assert_right(found[rows, columns], expected, dtype)
        assert log_product(plan, A, B).tobytes() == found.tobytes()
        assert_right(log_product(plan, A, B, C)[rows, columns], total, dtype)
        stack = sr.matmul(cp.asarray(np.stack([A, A])), cp.asarray(np.asfortranarray(B)), "log_plus")
        assert_right(cp.asnumpy(stack[1])[rows, columns], expected, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_float32_rounded_once(rng, dtype):
    import cupy as cp
    import ml_dtypes

    half = np.dtype(dtype if dtype == "float16" else ml_dtypes.bfloat16)
    A, B, C = (rng.normal(size=shape).astype(half) for shape in ((40, 700), (700, 50), (40, 50)))
    A[3], C[::2] = -INF, -INF
    wide = [X.astype(np.float32) for X in (A, B, C)]
    plan = make_plan(sr.log_plus, half)
    for given, before in (((A, B), wide[:2]), ((A, B, C), wide)):
        found = log_product(plan, *given).astype(np.float32)
        np.testing.assert_array_equal(
            found, log_product(make_plan(sr.log_plus, "float32"), *before).astype(half).astype(np.float32)
        )
    A, B = (np.full(shape, 0.25, half) for shape in ((33, 3000), (3000, 40)))
    found = cp.asnumpy(log_product(plan, A, B)).astype(float)
    np.testing.assert_array_equal(found, np.full((33, 40), np.log(3000) + 0.5).astype(half).astype(float))


@pytest.mark.parametrize("pairs", [0, 1 << 29])
def test_a_single_path_is_exact_and_none_is_none(rng, by_cublas, monkeypatch, pairs):
    monkeypatch.setitem(by_cublas._PAIRS, "f", pairs)
    A, B = (X.astype(np.float32) for X in KINDS["hidden_markov_models"](rng, M, K, N))
    paths = np.isfinite(A).astype(int) @ np.isfinite(B).astype(int)
    found = log_product(make_plan(sr.log_plus, "float32"), A, B)
    best = sr.matmul(A, B, "max_plus")
    np.testing.assert_array_equal(found[paths == 1], best[paths == 1])
    np.testing.assert_array_equal(found == -INF, paths == 0)


def test_strides_stacks_infinities_and_panels(rng, monkeypatch, by_cublas):
    import cupy as cp

    A, B = (cp.asarray(X, np.float32) for X in KINDS["maxima_that_never_meet"](rng, M, K, N))
    A[5], A[6, ::7], B[:, 8] = -INF, -INF, -INF
    expected = sr.matmul(A, B, "log_plus")
    assert_right(cp.asnumpy(expected[:12]), exact(cp.asnumpy(A[:12]), cp.asnumpy(B)), "float32")
    for view in (cp.asfortranarray, lambda X: cp.repeat(X, 2, 1)[:, ::2], lambda X: X[::-1, ::-1].copy()[::-1, ::-1]):
        cp.testing.assert_array_equal(sr.matmul(view(A), view(B), "log_plus"), expected)
    stack = cp.stack([A, A[::-1]])
    cp.testing.assert_allclose(sr.matmul(stack, B, "log_plus")[1], expected[::-1], rtol=5e-7, atol=5e-7)
    cp.testing.assert_array_equal(sr.matmul(stack, cp.stack([B, B]), "log_plus")[0], expected)
    host_A, host_B = cp.asnumpy(A), cp.asnumpy(B)
    host_A[3, 4], host_B[7, 8] = INF, INF
    found = log_product(make_plan(sr.log_plus, "float32"), host_A, host_B)
    assert_right(found[:12], exact(host_A[:12], host_B), "float32")
    monkeypatch.setattr(by_cublas, "_ROWS", 64)
    monkeypatch.setattr(by_cublas, "_COLUMNS", 200)
    monkeypatch.setattr(by_cublas, "_DEPTH", 256)
    monkeypatch.setattr(by_cublas, "_SPLIT", (128 * K, 200 * K))
    panels = sr.matmul(A, B, "log_plus")
    cp.testing.assert_allclose(panels, expected, rtol=5e-7, atol=5e-7)


def test_closures_go_through_it(rng):
    import cupy as cp

    n = 1100
    A = np.where(rng.random((n, n)) < 0.5, rng.normal(-12, 1, (n, n)), -INF)
    expected = np.log(np.linalg.inv(np.eye(n) - np.exp(A)))
    found = sr.closure(cp.asarray(A), "log_plus")
    cp.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    again = sr.closure(cp.asarray(A), "log_plus")
    cp.testing.assert_array_equal(found, again)
