"""Test arrays of JAX: values, gradients against finite differences and dense expressions, under jit, vmap and grad."""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
import pytest
from gradient_cases import draw_weights
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DTypeError

jax = pytest.importorskip("jax", reason="JAX is not installed")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import semiring.jax as differentiable  # noqa: E402

pytestmark = pytest.mark.full  # these libraries alone take seconds to import

INF = math.inf
HALVES = full(
    lambda name, dtype: (name, dtype) in (("min_plus", jnp.float16), ("log_plus", jnp.bfloat16)),
    [(name, dtype) for name in ("min_plus", "log_plus", "max_plus") for dtype in (jnp.float16, jnp.bfloat16)],
)
OWN = sr.Semiring("own", add="max(x, y)", mul="x * y * 1.0", zero=0, one=1, domain=(0, 1))


@pytest.fixture(autouse=True)
def _in_float64():
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def weights(rng, name, shape, *, has_closure=False):
    return jnp.asarray(draw_weights(rng, name, shape, has_closure=has_closure))


def assert_alike(actual, expected, tolerance=1e-10):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), actual, expected)


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring",
    full(
        lambda semiring: semiring == "log_plus",
        ["min_plus", "max_min", "max_times", "log_plus", "plus_times", "lukasiewicz", OWN],
    ),
    ids=str,
)
def test_first_and_second_derivatives_by_finite_differences(semiring, rng):
    name = semiring if isinstance(semiring, str) else "max_times"
    A, B = weights(rng, name, (2, 3, 4)), weights(rng, name, (4, 2))
    check_grads(jax.jit(lambda A, B: differentiable.matmul(A, B, semiring)), (A, B), order=2, modes=["rev"], eps=1e-6)
    Q = weights(rng, name, (4, 4), has_closure=True)
    finite = np.triu_indices(4, 1) if name in ("max_min", "min_max") else slice(None)
    for reflexive in (True, False):

        @jax.jit
        def close(Q, reflexive=reflexive):
            return differentiable.closure(Q, semiring, reflexive=reflexive)[finite]

        check_grads(close, (Q,), order=2, modes=["rev"], eps=1e-6)


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring", full(lambda semiring: semiring == OWN, ["min_plus", "log_plus", "plus_times", OWN]), ids=str
)
def test_under_jit_and_vmap_and_grad_of_each_other(semiring, rng):
    name = semiring if isinstance(semiring, str) else "max_times"
    A, B, Q = (weights(rng, name, shape, has_closure=True) for shape in [(3, 5, 4), (4, 5), (3, 5, 5)])

    def loss(A, B, Q):
        loops = jnp.diagonal(differentiable.closure(Q, semiring, reflexive=False))
        product = differentiable.matmul(A, B, semiring)
        return (product * differentiable.closure(Q, semiring)).sum() + (loops**2).sum()

    gradient = jax.jit(jax.grad(loss, (0, 1, 2)))
    each = [gradient(a, B, q) for a, q in zip(A, Q, strict=True)]
    expected = jax.tree.map(lambda *parts: jnp.stack(parts), *each)
    assert_alike(jax.vmap(gradient, in_axes=(0, None, 0))(A, B, Q), expected)
    assert_alike(jax.vmap(gradient, in_axes=(2, None, 1))(A.transpose(1, 2, 0), B, Q.swapaxes(0, 1)), expected)
    hessian = jax.jit(jax.jacrev(jax.grad(lambda Q: loss(A[0], B, Q))))(Q[0])
    np.testing.assert_allclose(hessian, hessian.transpose(2, 3, 0, 1), atol=1e-8)  # derivatives commute
    static = jax.jit(differentiable.closure, static_argnames=("semiring", "reflexive"))
    assert_alike(static(Q, semiring=semiring, reflexive=False), differentiable.closure(Q, semiring, reflexive=False))


def test_negative_weights_and_paths_of_many_edges():
    A = np.full((40, 40), INF)
    A[np.arange(39), np.arange(1, 40)] = -1.0
    gradient = jax.grad(lambda A: differentiable.closure(A)[0, 39])(jnp.asarray(A))
    np.testing.assert_array_equal(gradient, np.eye(40, k=1))


def test_errors_name_what_is_wrong():
    with pytest.raises(DTypeError, match=r"A has dtype float64, B float32"):
        differentiable.matmul(jnp.zeros((2, 3)), jnp.zeros((3, 2), "float32"))
    with pytest.raises(TypeError, match="custom_vjp"):  # reverse mode only, as JAX says
        jax.jvp(differentiable.closure, (jnp.zeros((2, 2)),), (jnp.zeros((2, 2)),))


def test_best_paths_of_sequences_under_jit_and_vmap(rng):
    A = rng.normal(size=(6, 4, 4)).astype(np.float32)
    x = rng.normal(size=(3, 4)).astype(np.float32)
    weights = rng.normal(size=(6, 3, 4)).astype(np.float32)
    lengths = np.array([6, 0, 2])
    score, states = sr.multi_dot(A, x, "max_plus", weights=weights, lengths=lengths, return_witness=True)
    found = jax.jit(partial(differentiable.multi_dot, semiring="max_plus", return_witness=True))(
        A, x, weights=weights, lengths=lengths
    )
    np.testing.assert_array_equal(found[0], score)
    np.testing.assert_array_equal(found[1], states)
    each = jax.vmap(
        lambda x, w, k: differentiable.multi_dot(A, x, "max_plus", weights=w, lengths=k, return_witness=True),
        (0, 1, 0),
        (0, 1),
    )
    for own, expected in zip(each(x, weights, lengths), (score, states), strict=True):
        np.testing.assert_array_equal(own, expected)
    slope = jax.grad(lambda A: differentiable.multi_dot(A, x[0], "max_plus", return_witness=True)[0].max())(
        jnp.asarray(A)
    )
    score, states = sr.multi_dot(A, x[0], "max_plus", return_witness=True)
    path = [*states[:, score.argmax()], score.argmax()]
    assert np.argwhere(np.asarray(slope)).tolist() == [[t, path[t], path[t + 1]] for t in range(6)]
    with pytest.raises(AlgebraError, match="no witnesses"):
        differentiable.multi_dot(A, x, "log_plus", return_witness=True)


@pytest.mark.parametrize(("name", "dtype"), HALVES)
def test_halves_are_rounded_once(rng, name, dtype):
    """Sequences and products are computed in float32, and so are the gradients."""
    As, x = jnp.asarray(rng.normal(size=(60, 20, 20)), dtype), jnp.asarray(rng.normal(size=20), dtype)
    wide, start = np.asarray(As, np.float32), np.asarray(x, np.float32)
    for found, expected in (
        (differentiable.multi_dot(As, None, name), sr.multi_dot(wide, None, name)),
        (differentiable.scan(As, x, name), sr.scan(wide, start, name)),
        (differentiable.matmul(As[0], As[1], name), sr.matmul(wide[0], wide[1], name)),
    ):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, jnp.asarray(expected).astype(dtype))

    def total(A):
        return differentiable.multi_dot(A, x.astype(A.dtype), name).astype(jnp.float32).sum()

    slope = jax.grad(total)(As)
    np.testing.assert_array_equal(slope, jax.grad(total)(jnp.asarray(wide)).astype(dtype))


@pytest.mark.parametrize(("name", "dtype"), HALVES[:4])
def test_closures_of_halves_are_rounded_once_and_have_gradients(rng, name, dtype):
    heights = 8 * rng.random(30)
    weights = heights[:, np.newaxis] - heights + 0.5 + 4 * rng.random((30, 30))
    A = jnp.asarray(weights if name == "min_plus" else -8 - 4 * rng.random((30, 30)), dtype)
    for reflexive in (True, False):

        def total(A, reflexive=reflexive):
            return differentiable.closure(A, name, reflexive=reflexive).astype(jnp.float32).sum()

        found, whole = (differentiable.closure(X, name, reflexive=reflexive) for X in (A, A.astype(jnp.float32)))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, whole.astype(dtype))
        slope = jax.grad(total)(A)
        assert slope.dtype == dtype
        expected = jax.grad(total)(A.astype(jnp.float32))
        # What comes back through the rounding of the result is rounded too.
        np.testing.assert_allclose(slope.astype(float), expected, rtol=4 * float(jnp.finfo(dtype).eps), atol=1e-3)


def test_axes_that_cannot_be_reduced_are_refused_as_in_numpy():
    for axis, error in ((5, np.exceptions.AxisError), ("x", TypeError), ((0, -2), ValueError)):
        with pytest.raises(error, match="axis") as said:
            sr.reduce(np.ones((3, 3)), axis=axis)
        with pytest.raises(error) as own:
            differentiable.reduce(np.ones((3, 3)), axis=axis)
        assert str(own.value) == str(said.value)


@pytest.mark.parametrize("dtype", full(lambda dtype: dtype == jnp.bfloat16, [jnp.float16, jnp.bfloat16]))
def test_cycles_that_gain_by_the_rounding_of_halves_are_none(rng, dtype):
    heights = 8 * rng.random(40)
    A = jnp.asarray(heights[:, np.newaxis] - heights + rng.random((40, 40)) / 50, dtype)
    apart = ~np.eye(40, dtype=bool)
    for reflexive in (True, False):
        found = np.asarray(differentiable.closure(A, reflexive=reflexive))
        np.testing.assert_array_equal(found[apart], sr.closure(np.asarray(A), reflexive=reflexive)[apart])
    assert jax.grad(lambda A: differentiable.closure(A, reflexive=False)[1, 2])(A).dtype == dtype


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("A", lambda A: sr.matmul(A, A)),
        ("A", sr.closure),
        ("A", sr.shortest_paths),
        ("A", sr.factor),
        (".*", lambda A: sr.multi_dot([A, A])),
    ],
)
def test_functions_that_read_numbers_refuse_tracers(name, function):
    said = f"^{name} is traced by JAX .*: call the function of semiring.jax, which has (.*)"
    A = jnp.ones((3, 3))
    for traced, argument in ((jax.jit(function), A), (jax.grad(function), A), (jax.vmap(function), A[None])):
        with pytest.raises(DTypeError, match=said) as caught:
            traced(argument)
        names = re.search(said, str(caught.value))[1].replace(" and ", ", ").split(", ")
        assert names == differentiable.__all__


def test_errors_in_the_entries_are_errors_of_jax():
    for close in (differentiable.closure, jax.jit(differentiable.closure)):
        with pytest.raises(jax.errors.JaxRuntimeError, match="DomainError: A") as caught:
            close(jnp.array([[0.0, jnp.nan], [0.0, 0.0]])).block_until_ready()
        assert not isinstance(caught.value, sr.errors.DomainError)
