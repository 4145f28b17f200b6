"""Test custom calls of XLA: `semiring.autodiff.xla`, on the host. tests/gpu/test_gpu_jax.py has the tests on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="semiring.jax needs JAX: pip install '.[jax]'")

import semiring as sr  # noqa: E402
import semiring.jax as differentiable  # noqa: E402
from semiring.autodiff import primitives, xla  # noqa: E402

pytestmark = pytest.mark.full


@pytest.mark.parametrize("is_available", [True, False])
def test_a_product_is_a_custom_call_or_else_a_callback(rng, monkeypatch, is_available):
    assert xla.is_available()
    monkeypatch.setattr(xla, "is_available", lambda: is_available)
    A = rng.random((6, 6), np.float32)
    text = jax.jit(lambda A: differentiable.matmul(A, A)).lower(A).as_text()
    assert ("semiring.autodiff.call" in text, "callback" in text) == (is_available, not is_available)
    np.testing.assert_array_equal(differentiable.matmul(A, A), sr.matmul(A, A))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "uint8", "float16", "float32"])
def test_every_dtype_keeps_its_bits(rng, dtype):
    A = (rng.random((3, 4, 5)) * 2).astype(dtype)
    name = "boolean" if dtype == "bool" else "max_min"
    out = jax.ShapeDtypeStruct((3, 4, 4), A.dtype)
    found = jax.jit(lambda A, B: xla.call(primitives.product, out, (A, B), sr.CATALOGUE[name], True))(
        A, A.swapaxes(1, 2)
    )
    np.testing.assert_array_equal(found, sr.matmul(A, A.swapaxes(1, 2), name))


def test_empty_arrays():
    A = np.zeros((0, 3), np.float32)
    assert differentiable.matmul(A, A.T).shape == (0, 0)
    np.testing.assert_array_equal(differentiable.matmul(A.T, A), np.full((3, 3), np.inf))


def test_a_semiring_of_ones_own_survives_the_text(rng):
    own = sr.Semiring("own", "max(x, y)", "x + y + 1", "-inf", -1)
    A = rng.random((5, 5), np.float32)
    np.testing.assert_array_equal(jax.jit(lambda A: differentiable.matmul(A, A, own))(A), sr.matmul(A, A, own))


def test_an_error_inside_names_its_type(rng):
    A = rng.random((4, 4), np.float32)
    A[1, 2] = np.nan
    with pytest.raises(Exception, match=r"DomainError: A\[1, 2\] is nan"):
        jax.jit(differentiable.matmul)(A, A).block_until_ready()
    assert np.isnan(differentiable.matmul(A, A, "plus_times", check=False)).any()


def test_inside_a_loop_and_a_batch(rng):
    A = rng.random((4, 6, 6), np.float32)
    stepped = jax.jit(lambda A: jax.lax.scan(lambda X, _: (differentiable.matmul(X, A), None), A, None, length=3)[0])
    expected = A
    for _ in range(3):
        expected = sr.matmul(expected, A)
    np.testing.assert_array_equal(stepped(A), expected)
    np.testing.assert_array_equal(jax.vmap(stepped)(A), expected)
