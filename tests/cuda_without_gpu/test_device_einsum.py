"""Test `einsum` of arrays on a GPU without a GPU: `fake_cupy` replaces CuPy. `test_gpu_linalg` runs it on a device."""

from __future__ import annotations

import expressions
import fake_cupy
import numpy as np
import pytest

import semiring as sr
from semiring.errors import DeviceError


@pytest.fixture
def cp(monkeypatch):
    return fake_cupy.install(monkeypatch)[0]


KINDS = [("min_plus", "float64"), ("max_plus", "int32"), ("plus_times", "int64"), ("boolean", "bool")]


@pytest.mark.parametrize("count", [20, pytest.param(150, marks=pytest.mark.full)])
def test_results_stay_on_the_device(cp, count):
    rng = np.random.default_rng(count)
    for place in range(count):
        name, dtype = KINDS[place % len(KINDS)]
        one = expressions.expression(rng)
        arrays = [np.ascontiguousarray(expressions.entries(rng, name, dtype, shape)) for shape in one.shapes]
        arrays = [array.reshape(shape) for array, shape in zip(arrays, one.shapes, strict=True)]
        found = sr.einsum(one.subscripts, *map(cp.asarray, arrays), semiring=name)
        assert isinstance(found, fake_cupy.Array), one
        expected = expressions.value(name, one.subscripts, arrays)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), one
        np.testing.assert_array_equal(found.inner, expected, err_msg=str(one))


def test_without_a_check_nothing_waits(cp, rng):
    arrays = [cp.asarray(rng.random((4, 4))) for _ in range(3)]
    found = sr.einsum("ij,jk,kl->il", *arrays, check=False)
    assert fake_cupy.Array.wait_count == 0
    np.testing.assert_array_equal(found.inner, sr.einsum("ij,jk,kl->il", *(array.inner for array in arrays)))


def test_numbers_join_arrays_and_arrays_of_the_host_do_not(cp, rng):
    A = rng.random((3, 3))
    found = sr.einsum(",ij->ji", 2.0, cp.asarray(A))
    np.testing.assert_array_equal(found.inner, A.T + 2)
    with pytest.raises(DeviceError, match="operand 1 is in the memory of the host"):
        sr.einsum("ij,jk->ik", cp.asarray(A), A)


def test_a_witness_stays_on_the_device(cp, rng):
    arrays = [rng.integers(0, 9, (3, 3)).astype(float) for _ in range(3)]
    C, where = sr.einsum("ij,jk,kl->il", *map(cp.asarray, arrays), return_witness=True)
    expected, places = sr.einsum("ij,jk,kl->il", *arrays, return_witness=True)
    np.testing.assert_array_equal(C.inner, expected)
    for label, array in where.items():
        assert isinstance(array, fake_cupy.Array)
        np.testing.assert_array_equal(array.inner, places[label])


def test_blocks_on_the_device(cp, rng):
    arrays = [rng.random((12, 12)) for _ in range(3)]
    whole = sr.einsum_path("ai,bi,ci->abc", *arrays).memory
    found = sr.einsum("ai,bi,ci->abc", *map(cp.asarray, arrays), memory=whole - 8)
    np.testing.assert_allclose(found.inner, sr.einsum("ai,bi,ci->abc", *arrays), rtol=1e-12)
