"""Matrices and vectors, and stacks of matrices, on the CPU backend, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from tiers import full, quick

import semiring as sr
from semiring.kernels.cpu import CpuBackend, kernels
from semiring.kernels.engine import make_plan
from semiring.kernels.reference import ReferenceBackend

UNEVEN = sr.Semiring("uneven", "max(x, y)", "x * y + y", 0, 1, domain=(0, 1e6))  # ⊗ is not commutative
QUICK = [("min_plus", "float32"), ("plus_times", "float64"), (UNEVEN, "float32")]
OTHERS = [
    *[("min_plus", "float64"), ("plus_times", "float32")],
    *((name, dtype) for name in ("min_plus", "plus_times") for dtype in ("int32", "int16")),
    *[("max_min", "float32"), ("max_times", "float64"), ("log_plus", "float64"), ("boolean", "bool")],
    *[("xor_and", "bool"), ("max_min", "uint8")],
]
FULL = [("min_plus", "int32"), ("boolean", "bool"), ("max_min", "uint8")]
CASES = quick(lambda *case: case in QUICK, full(lambda *case: case in FULL or case in QUICK, [*QUICK, *OTHERS]))


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    monkeypatch.setattr(kernels, "VECTOR_PAIRS", 0)


def matrices(rng, semiring, dtype, m, k):
    A = rng.integers(0, 2 if dtype == "bool" else 5, (m, k)).astype(dtype)
    x = rng.integers(0, 2 if dtype == "bool" else 5, k).astype(dtype)
    if dtype.startswith("float") and semiring is not UNEVEN:
        A[rng.random((m, k)) < 0.3] = semiring.zero_for(np.dtype(dtype))
    return A, x


@pytest.mark.filterwarnings("ignore:uneven is no semiring:semiring.errors.AlgebraWarning")
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
@pytest.mark.parametrize(("m", "k"), [(1, 200), (200, 1), (63, 65), (130, 257), (5, 129), (129, 5)])
def test_against_the_reference(rng, name, dtype, m, k):
    semiring = sr.as_semiring(name)
    A, x = matrices(rng, semiring, dtype, m, k)
    plan = make_plan(semiring, np.dtype(dtype), separate=True)
    start = rng.integers(0, 2, m).astype(dtype)
    layouts = (A, np.asfortranarray(A), np.repeat(A, 2, 0)[::2], np.repeat(A, 2, 1)[:, ::2], A[::-1, ::-1][::-1, ::-1])
    for operation in ("multiply", "multiply_add"):
        for column in (True, False):
            operands = (lambda M: (M, x[:, None])) if column else (lambda M: (x[None, :], M.T))
            expected = (start[:, None] if column else start[None, :]).copy()
            getattr(ReferenceBackend(), operation)(plan, expected, *operands(A))
            for M in layouts:
                found = np.repeat(start, 3)[::3][:, None] if column else start[None, :].copy()
                getattr(CpuBackend(), operation)(plan, found, *operands(M))
                np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_threads_change_no_bit(rng, monkeypatch):
    A, x = rng.standard_normal((2100, 2050)), rng.standard_normal(2050)
    for M in (A, np.asfortranarray(A)):
        one, three = (sr.blas.gemv(M, x, None, "plus_times", threads=threads) for threads in (1, 3))
        np.testing.assert_array_equal(one, three)
        np.testing.assert_allclose(one, A @ x, rtol=1e-9, atol=1e-11)


def test_the_vector_may_be_any_view(rng):
    A = rng.random((70, 90))
    wide = rng.random((90, 4))
    np.testing.assert_array_equal(sr.blas.gemv(A, wide[:, 2]), (A + wide[:, 2]).min(1))
    np.testing.assert_array_equal(sr.matmul(wide[::-1, 1], A[:, ::-1].T), (A[:, ::-1] + wide[::-1, 1]).min(1))
    out = np.zeros((70, 2))
    sr.blas.gemv(A, wide[:, 0], None, out=out[:, 1])
    np.testing.assert_array_equal(out[:, 1], (A + wide[:, 0]).min(1))
    square = A[:, :70]
    vector = wide[:70, 3].copy()
    expected = (square + vector).min(1)
    assert sr.blas.gemv(square, vector, None, out=vector) is vector
    np.testing.assert_array_equal(vector, expected)


def test_infinities_and_nan_are_dropped():
    A = np.full((3, 70), np.inf)
    A[0, 69], A[1, 3] = 5.0, -np.inf
    x = np.zeros(70)
    x[3] = np.inf
    for M in (A, np.asfortranarray(A)):
        np.testing.assert_array_equal(sr.blas.gemv(M, x), [5.0, np.inf, np.inf])


# ------------------------------------------------------------------------------------------------- stacks


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float32"), ("plus_times", "float64"), ("boolean", "bool")])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (7, 4, 4, 4), (40, 3, 70, 5), (3, 80, 75, 81), (2, 5, 0, 3), (0, 2, 2, 2)]
)
def test_stacks_against_one_at_a_time(rng, monkeypatch, name, dtype, shape):
    count, m, k, n = shape
    limit = 2 if dtype == "bool" else 9
    A, B = rng.integers(0, limit, (count, m, k)).astype(dtype), rng.integers(0, limit, (count, k, n)).astype(dtype)
    start = rng.integers(0, limit, (count, m, n)).astype(dtype)
    backend, plan = CpuBackend(), make_plan(sr.as_semiring(name), np.dtype(dtype), separate=True, threads=3)
    views = ((A, B), (np.asfortranarray(A), B[::-1][::-1]), (np.broadcast_to(A[:1], A.shape) if count else A, B))
    for small in (0, 1 << 18):
        monkeypatch.setattr("semiring.kernels.cpu._STACKED_PAIRS", small)
        for left, right in views:
            for operation in ("multiply", "multiply_add"):
                expected, found = start.copy(), start.copy()
                for C, X, Y in zip(expected, left, right, strict=True):
                    getattr(ReferenceBackend(), operation)(plan, C, X, Y)
                getattr(backend, operation)(plan, found, left, right)
                np.testing.assert_array_equal(found, expected)
    whole, one = backend_product(plan, A, B), make_plan(sr.as_semiring(name), np.dtype(dtype), separate=True)
    np.testing.assert_array_equal(whole, backend_product(one, A, B))


def backend_product(plan, A, B):
    C = np.empty((*A.shape[:2], B.shape[2]), A.dtype)
    CpuBackend().multiply(plan, C, A, B)
    return C


@pytest.mark.full
def test_a_large_stack_of_small_products_on_threads(rng):
    A = rng.random((70_000, 4, 4))
    one, two = (sr.matmul(A, A, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one[::9999], (A[::9999, :, :, None] + A[::9999, None]).min(2))
