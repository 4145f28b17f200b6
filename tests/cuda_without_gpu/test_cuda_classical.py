"""Test the calls of cuBLAS, against a cuBLAS that NumPy plays on the memory of the host."""

from __future__ import annotations

import ctypes
import sys
import types

import numpy as np
import pytest

import semiring as sr
from semiring.kernels.cuda.product import classical
from semiring.kernels.engine import make_plan

TYPES = {0: np.float32, 1: np.float64, 2: np.float16}


class HostArray:
    """An array of the host with the address where CuPy has it."""

    def __init__(self, values):
        self.values, self.data = values, types.SimpleNamespace(ptr=values.ctypes.data)

    shape = property(lambda self: self.values.shape)
    strides = property(lambda self: self.values.strides)
    itemsize = property(lambda self: self.values.itemsize)
    size = property(lambda self: self.values.size)
    ndim = property(lambda self: self.values.ndim)

    def swapaxes(self, one, other):
        return HostArray(self.values.swapaxes(one, other))


def columns(address, dtype, rows, width, leading, batch, count):
    """Return a stack of column-major matrices in memory, as cuBLAS reads it."""
    assert leading >= max(1, rows)
    extent = (count - 1) * batch + (width - 1) * leading + rows
    dtype = np.dtype(dtype)
    memory = np.frombuffer((ctypes.c_uint8 * (extent * dtype.itemsize)).from_address(address), dtype)
    size = dtype.itemsize
    strides = (batch * size, size, leading * size)
    return np.lib.stride_tricks.as_strided(memory, (count, rows, width), strides)


def gemm(handle, ta, tb, m, n, k, alpha, A, a, lda, sa, B, b, ldb, sb, beta, C, c, ldc, sc, count, arithmetic, _):
    scalar = ctypes.c_double if arithmetic == 70 else ctypes.c_float
    alpha, beta = (scalar.from_address(x).value for x in (alpha, beta))
    left = columns(A, TYPES[a], *((k, m) if ta else (m, k)), lda, sa, count)
    right = columns(B, TYPES[b], *((n, k) if tb else (k, n)), ldb, sb, count)
    left, right = left.swapaxes(1, 2) if ta else left, right.swapaxes(1, 2) if tb else right
    result = columns(C, TYPES[c], m, n, ldc, sc, count)
    product = alpha * (left.astype(float) @ right.astype(float))
    result[...] = product if beta == 0 else product + beta * result


@pytest.fixture
def cublas(monkeypatch):
    library = types.SimpleNamespace(gemmStridedBatchedEx=gemm)
    for name in ("cupy", "cupy.cuda", "cupy_backends", "cupy_backends.cuda"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy.cuda.device", types.SimpleNamespace(get_cublas_handle=lambda: 1))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", types.SimpleNamespace(cublas=library))
    classical._is_classical.cache_clear()
    yield
    classical._is_classical.cache_clear()


TAKEN = {
    "rows": lambda X: X[..., :-1, :-1].copy(),
    "columns": lambda X: X.swapaxes(-1, -2).copy().swapaxes(-1, -2)[..., :-1, :-1],
    "a part of the rows": lambda X: X[..., 1:, 1:],
}
REFUSED = {
    "every second column": lambda X: X[..., :-1, ::2],
    "backwards": lambda X: X[..., :0:-1, :-1],
    "one row repeated": lambda X: np.broadcast_to(X[..., :1, 1:], (*X.shape[:-2], X.shape[-2] - 1, X.shape[-1] - 1)),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("stack", [(), (3,)])
def test_every_layout(dtype, stack, cublas, rng):
    plan = make_plan(sr.plus_times, dtype)
    for m, k, n in [(4, 5, 6), (1, 1, 1), (1, 7, 3), (5, 1, 2), (3, 4, 1)]:
        wide = [rng.integers(0, 5, (*stack, r + 1, c + 1)).astype(dtype) for r, c in ((m, k), (k, n), (m, n))]
        for a in TAKEN.values():
            for b in TAKEN.values():
                for c in TAKEN.values():
                    A, B, C = (layout(x.copy()) for layout, x in zip((a, b, c), wide, strict=True))
                    before = C.copy()
                    assert classical.multiply(plan, HostArray(C), HostArray(A), HostArray(B), accumulate=True)
                    np.testing.assert_array_equal(C, before + A @ B)
                    C[...] = np.nan
                    assert classical.multiply(plan, HostArray(C), HostArray(A), HostArray(B), accumulate=False)
                    np.testing.assert_array_equal(C, A @ B)


def test_a_matrix_is_repeated_for_a_stack(cublas, rng):
    A, B, C = rng.integers(0, 5, (3, 4, 5)).astype(float), rng.integers(0, 5, (5, 2)).astype(float), np.empty((3, 4, 2))
    repeated = np.broadcast_to(B, (3, 5, 2))
    assert classical.multiply(
        make_plan(sr.plus_times, "float64"), HostArray(C), HostArray(A), HostArray(repeated), accumulate=False
    )
    np.testing.assert_array_equal(C, A @ B)


@pytest.mark.parametrize("layout", REFUSED)
def test_other_layouts_are_left_to_our_kernels(layout, cublas):
    X = REFUSED[layout](np.zeros((5, 5)))
    plan, Y, C = make_plan(sr.plus_times, "float64"), np.zeros((X.shape[1], 4)), np.zeros((X.shape[0], 4))
    assert not classical.multiply(plan, HostArray(C), HostArray(X), HostArray(Y), accumulate=False)


def test_what_is_not_classical(cublas):
    X = np.zeros((4, 4))
    for semiring, dtype in (("min_plus", "float64"), ("plus_times", "int32")):
        plan, array = make_plan(sr.CATALOGUE[semiring], dtype), X.astype(dtype)
        assert not classical.multiply(
            plan, HostArray(array.copy()), HostArray(array), HostArray(array), accumulate=False
        )
    plan = make_plan(sr.plus_times, "float64")
    assert not classical.multiply(plan, HostArray(X), HostArray(X[:, :0]), HostArray(X[:0]), accumulate=False), (
        "k = 0: cuBLAS is not asked"
    )


def test_a_stream_that_is_captured_takes_no_cublas(cublas, monkeypatch):
    def refuse(*_):
        raise NotImplementedError

    monkeypatch.setattr(sys.modules["cupy_backends.cuda.libs"].cublas, "gemmStridedBatchedEx", refuse)
    X = HostArray(np.zeros((4, 4)))
    assert not classical.multiply(make_plan(sr.plus_times, "float64"), X, X, X, accumulate=False)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy_backends", None)
    classical._is_classical.cache_clear()
    X = HostArray(np.zeros((4, 4)))
    assert not classical.multiply(make_plan(sr.plus_times, "float64"), X, X, X, accumulate=False)
    classical._is_classical.cache_clear()
