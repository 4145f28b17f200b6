"""Test stacks of matrices on a GPU, closed together: every size, dtype and layout, against the CPU and repeated."""

from __future__ import annotations

import numpy as np
import pytest
from devices import assert_same
from matrices import matrix

import semiring as sr
from semiring.algorithms.schedule import schedule_for
from semiring.closures import closure
from semiring.errors import DivergenceError, DomainError, IntegerOverflowError, NegativeCycleError

pytestmark = pytest.mark.gpu

SHAPES = [(1, 129), (2, 1), (2, 129), (7, 255), (100, 256), (3, 257), (7, 300), (2, 513), (100, 2), (20, 129)]
SHAPES += [(7, 31), (7, 64), (7, 100), (7, 200)]  # by one thread block each, or in stages
KINDS = [
    *(("min_plus", dtype) for dtype in ("float16", "float32", "float64", "int16", "int32", "int64")),
    *(("max_plus", dtype) for dtype in ("float32", "int32")),
    *(("max_min", dtype) for dtype in ("float16", "float32", "int16", "int32", "uint8")),
    *(("max_times", "float64"), ("lukasiewicz", "float32"), ("boolean", "bool"), ("min_max", "bool")),
]


def stack_of(rng, count, n, name, dtype):
    """Return few matrices, repeated, each of which the CPU closes once."""
    some = [matrix(rng, n, name, dtype, density=min(1, 4 / n)) for _ in range(min(count, 3))]
    expected = [closure(A, name) for A in some]
    return tuple(np.stack([each[i % len(some)] for i in range(count)]) for each in (some, expected))


@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_every_size_and_dtype(rng, cupy, name, dtype):
    for count, n in SHAPES:
        A, expected = stack_of(rng, count, n, name, dtype)
        given = cupy.asarray(A)
        for check in (True, False):
            closed, why = closure(given, name, check=check, explain=True)
            assert_same(closed, expected)
            assert ("closed together" in str(why) or "side by side" in str(why)) == (count > 1 or n < 129)
        assert_same(given, A)


def test_layouts(rng, cupy):
    for n in (192, 257):
        A, expected = stack_of(rng, 6, n, "min_plus", "float32")
        turned = cupy.asarray(A.swapaxes(1, 2).copy()).swapaxes(1, 2)
        spread = cupy.asarray(np.repeat(np.repeat(A, 2, axis=1), 3, axis=2))[:, ::2, ::3]
        backwards = cupy.asarray(A[::-1, ::-1, ::-1].copy())[::-1, ::-1, ::-1]
        outer = cupy.asarray(A.transpose(1, 2, 0).copy()).transpose(2, 0, 1)
        within = cupy.zeros((6, 300, 300), np.float32)[:, 7 : n + 7, 5 : n + 5]
        within[...] = cupy.asarray(A)
        for view in (turned, spread, backwards, outer, within):
            assert_same(closure(view), expected)
            for check in (True, False):
                work = view.copy() if check else view  # the second time in place, strides and all
                assert closure(work, out=work, check=check) is work
                assert_same(work, expected)
        joined = cupy.asarray(A).reshape(2, 3, n, n)
        assert_same(closure(joined), expected.reshape(2, 3, n, n))
        out = cupy.empty((n, n, 3, 2), np.float32).transpose(3, 2, 0, 1)  # no reshape joins its stack
        for check in (True, False):
            assert closure(joined, out=out, check=check) is out
            assert_same(out, expected.reshape(2, 3, n, n))


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
def test_the_users_own_ties_infinities_and_fractions(rng, cupy):
    own = sr.Semiring("own", add="max(x, y)", mul="max(0, x + y - 1)", zero=0, one=1, domain=(0, 1))
    A = np.where(rng.random((5, 150, 150)) < 0.05, rng.integers(56, 64, (5, 150, 150)) / 64, 0).astype(np.float32)
    assert_same(closure(cupy.asarray(A), own), closure(A, own))
    ties = np.where(rng.random((5, 260, 260)) < 0.03, rng.integers(0, 3, (5, 260, 260)), np.inf)
    assert_same(closure(cupy.asarray(ties)), closure(ties))
    none = np.full((3, 140, 140), np.inf, np.float32)
    assert_same(closure(cupy.asarray(none)), closure(none))
    signed = rng.standard_normal((4, 140, 140)).astype(np.float32)
    signed[0, 5, 6], signed[1, 7, 8] = -0.0, np.inf
    for name in ("max_min", "min_max"):
        for check in (True, False):
            assert_same(closure(cupy.asarray(signed), name, check=check), closure(signed, name))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_whatever_is_beside_them(rng, cupy, dtype):
    for n in (200, 320):
        A = cupy.asarray(rng.random((9, n, n)).astype(dtype))
        first = closure(A).get()
        for _ in range(3):
            assert closure(A, check=False).get().tobytes() == first.tobytes()
        assert closure(A[::-1]).get()[::-1].tobytes() == first.tobytes()
        assert closure(A[4:6]).get().tobytes() == first[4:6].tobytes()
        np.testing.assert_allclose(first, closure(A.get()), rtol=1e-5)


def test_weights_of_both_signs_and_errors(rng, cupy):
    A = np.where(rng.random((3, 200, 200)) < 0.05, rng.integers(5, 9, (3, 200, 200)), np.inf).astype(np.float32)
    A[1, 3, 4] = -2
    assert_same(closure(cupy.asarray(A)), closure(A))
    assert np.isnan(closure(cupy.asarray(A), check=False).get()).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(closure(cupy.asarray(-A), "max_plus", check=False).get()).all()
    A[2, 8, 9], A[2, 9, 8] = -4, 3
    with pytest.raises(NegativeCycleError) as caught:
        closure(cupy.asarray(A))
    assert set(caught.value.cycle) == {8, 9}
    A[2, 8, 9] = np.nan
    with pytest.raises(DomainError, match=r"A\[2, 8, 9\]"):
        closure(cupy.asarray(A))
    for n, vertex in ((100, 60), (300, 160)):
        gains = np.zeros((40, n, n), np.float32)
        gains[7, vertex, 1] = gains[7, 1, vertex] = gains[20, 1, 2] = gains[20, 2, 1] = 2
        with pytest.raises(DivergenceError, match=f"vertex {vertex}"):
            closure(cupy.asarray(gains), "max_times")
    long = np.full((2, 300, 300), np.iinfo(np.int16).max, np.int16)
    long[:, np.arange(299), np.arange(1, 300)] = 100
    assert_same(closure(cupy.asarray(long[:, :150, :150])), closure(long[:, :150, :150]))
    assert_same(closure(cupy.asarray(long)), closure(long))
    work = cupy.asarray(long)
    with pytest.raises(IntegerOverflowError):
        closure(work, out=work)


def test_large_matrices_go_one_by_one(rng, cupy, monkeypatch):
    A, expected = stack_of(rng, 3, 150, "min_plus", "float32")
    monkeypatch.setattr(type(schedule_for("cuda", A.dtype)), "min_stack", lambda self, n: 4)
    for count in (3, 5):
        closed, why = closure(cupy.asarray(A.repeat(2, axis=0)[:count]), explain=True)
        assert_same(closed, expected.repeat(2, axis=0)[:count])
        assert ("closed together" in str(why)) == (count == 5)
