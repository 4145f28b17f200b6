"""Test steps of log_plus by one matrix against single products, and their gradients against those in float64."""

from __future__ import annotations

import numpy as np
import pytest
from log_kinds import KINDS
from tiers import quick

import semiring as sr
from semiring.autodiff import sequence_gradients as gradients
from semiring.kernels.cpu.product import log_walks
from semiring.linalg.sequences import ChainArrays

pytestmark = pytest.mark.full  # each test compiles kernels of its own

INF = np.inf


def random_chain(rng, m, n, steps):
    shapes = (n, n), (m, n), (steps, m, n)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def stepwise(A, x, w, lengths=None):
    states = []
    for t in range(len(w)):
        y = sr.matmul(x, A, "log_plus", threads=1)
        after = sr.multiply(y, w[t], "log_plus")
        x = after if lengths is None else np.where((lengths > t)[:, None], after, x)
        states.append(x)
    return np.array(states)


@pytest.mark.full
@pytest.mark.parametrize("kind", quick(lambda kind: kind == "scores", KINDS))
def test_states_have_the_bits_of_products_on_any_threads(kind, rng):
    x, A = (array.astype(np.float32) for array in KINDS[kind](rng, 21, 64, 64))
    x = x[:21]
    w = rng.normal(size=(3, 21, 64)).astype(np.float32)
    w[1, :, 5], w[2, 4] = -INF, -INF
    expected = stepwise(A, x, w)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(sr.scan(A, x, "log_plus", weights=w, threads=threads), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [8, 64])
def test_states_overflow_as_products_one_by_one_do(n, dtype, rng):
    """States overflow to ∞ without a warning, and ∞ beside -∞ is NaN in the next step, as in single products."""
    A, x, w = (array.astype(dtype) for array in random_chain(rng, 3, n, 5))
    great = np.finfo(dtype).max
    A[:, 2], A[rng.random((n, n)) < 0.7], x[0, 1], w[1, 1, 4], w[1:3, 2] = -INF, -INF, great, great, great
    A[1, 3], A[4, :2] = great, 0.5
    x, w = x[[0, 1, 2, 1]], w[:, [0, 1, 2, 1]]
    expected, state = [], x
    for weights in w:
        y = sr.matmul(state, A, "log_plus", check=False)
        with np.errstate(over="ignore", invalid="ignore"):
            state = np.where(np.isneginf(y) | np.isneginf(weights), -INF, y + weights)
        expected.append(state)
    assert np.isposinf(expected).any()
    for threads in (1, 2):
        found = sr.scan(A, x, "log_plus", weights=w, threads=threads)
        if dtype == "float32":
            np.testing.assert_array_equal(found, expected)
        else:  # its steps are rounded in another order, and ∞ beside -∞ is NaN in each of them
            is_finite = ~np.cumsum(np.isposinf(expected).any(-1), axis=0).astype(bool)
            np.testing.assert_allclose(found[is_finite], np.array(expected)[is_finite], rtol=1e-13)
            assert np.isposinf(found).any()


@pytest.mark.full
@pytest.mark.parametrize(("m", "n"), [(2, 48), (70, 65), (130, 100), (9, 530)])
def test_shapes_lengths_and_weights_of_all_kinds(m, n, rng):
    A, x, w = random_chain(rng, m, n, 4)
    lengths = rng.integers(0, 5, m)
    for weights in (w, w[:, :1], w[:, :, ::-1], np.asfortranarray(w)):
        expected = stepwise(A, x, np.broadcast_to(weights, w.shape), lengths)
        for threads in (1, 2):
            found = sr.scan(A, x, "log_plus", weights=weights, lengths=lengths, threads=threads)
            np.testing.assert_array_equal(found, expected)
            end = sr.multi_dot(A, x, "log_plus", weights=weights, lengths=lengths, threads=threads)
            np.testing.assert_array_equal(end, expected[-1])
    powers = sr.multi_dot(A, None, "log_plus", steps=3)
    np.testing.assert_array_equal(
        powers, stepwise(A, sr.identity(n, "log_plus", np.float32), np.zeros((3, n, n), np.float32))[-1]
    )


def test_weights_and_states_out_of_range_are_repaired(rng):
    A, x, w = random_chain(rng, 20, 60, 4)
    w[0, 3, 7], w[1, 4] = 1e6, -2e6
    np.testing.assert_array_equal(sr.scan(A, x, "log_plus", weights=w), stepwise(A, x, w))
    A[5, 6] = 1e6
    np.testing.assert_array_equal(sr.scan(A, x, "log_plus", weights=w), stepwise(A, x, w))


# --------------------------------------------------------------------------------------------------------- gradients


def chain_gradients(A, x, w, lengths, g, dtype, saved_states=None):
    """Return the gradients of a function with gradient g by the ends (m, n), or by all states (steps, m, n)."""
    A, x, g = A[None, None].astype(dtype), x.astype(dtype), g.astype(dtype)
    steps, w = len(w), w.swapaxes(0, 1).astype(dtype)
    given = ChainArrays(A, x, w, lengths)
    if saved_states is None:
        saved_states = gradients.count_saved_vectors(
            sr.log_plus, A.shape, x.shape[:1], x.shape[1], steps, np.dtype(dtype).name, True
        )
    _, borders = gradients.final_state(given, steps, sr.log_plus, True, saved_states)
    g = g[:, None] if g.ndim == 2 else g.swapaxes(0, 1)
    return gradients.pull_back(given, borders, g, steps, sr.log_plus)


def agree(actual, expected, bound=3e-6):
    for ours, true in zip(actual, expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, true, rtol=0, atol=bound * np.abs(true).max())


@pytest.fixture
def segment_results(monkeypatch):
    """Whether each run of steps went backwards in one call."""
    results, pull = [], log_walks.pull
    monkeypatch.setattr(log_walks, "pull", lambda *given: results.append(pull(*given)) or results[-1])
    return results


@pytest.mark.full
@pytest.mark.parametrize("ends", quick(lambda ends: ends, [True, False]))
@pytest.mark.parametrize(("m", "n", "steps"), quick(lambda m, *_: m == 2, [(2, 48, 2), (21, 65, 9), (150, 52, 20)]))
def test_gradients_are_those_in_float64(m, n, steps, ends, rng, segment_results):
    A, x, w = random_chain(rng, m, n, steps)
    A[rng.random(A.shape) < 0.5], x[:, ::3], w[-1, :, 1] = -INF, -INF, -INF
    g = rng.normal(size=(m, n) if ends else (steps, m, n))
    for lengths in (None, rng.integers(0, steps + 1, m)):
        expected = chain_gradients(A, x, w, lengths, g, np.float64)
        agree(chain_gradients(A, x, w, lengths, g, np.float32), expected)
        agree(chain_gradients(A, x, w, lengths, g, np.float32, saved_states=len(gradients.segments(steps))), expected)
    assert segment_results
    assert all(segment_results)


@pytest.mark.full
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_gradients_of_any_size(size, rng, segment_results):
    A, x, w = random_chain(rng, 5, 50, 6)
    g = size * rng.normal(size=(5, 50))
    agree(chain_gradients(A, x, w, None, g, np.float32), chain_gradients(A, x, w, None, g, np.float64))
    assert all(segment_results)


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", ["maxima_that_never_meet", "scores_to_1000", "one_path", "one_huge_entry", "barely_lost"]
)
def test_gradients_where_exponentials_underflow(kind, rng, segment_results):
    x, A = (array.astype(np.float32) for array in KINDS[kind](rng, 21, 64, 64))
    x = x[:21]
    w = rng.normal(size=(3, 21, 64)).astype(np.float32)
    g = rng.normal(size=(21, 64))
    agree(chain_gradients(A, x, w, None, g, np.float32), chain_gradients(A, x, w, None, g, np.float64), 1e-3)
    assert not all(segment_results) or kind in ("one_path", "barely_lost", "maxima_that_never_meet")


@pytest.mark.full
def test_gradients_do_not_depend_on_threads(rng):
    A, x, w = random_chain(rng, 40, 70, 9)
    g, results = rng.normal(size=(40, 70)), []
    for threads in (1, 2, 3):
        with sr.threads(threads):
            results.append(chain_gradients(A, x, w, None, g, np.float32))
    for more in results[1:]:
        for one, other in zip(results[0], more, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.full
def test_torch_and_jax_have_these_gradients(rng):
    torch, jax = (pytest.importorskip(name, reason=f"{name} is not installed") for name in ("torch", "jax"))
    import semiring.jax
    import semiring.torch

    A, x, w = random_chain(rng, 6, 50, 7)
    lengths = rng.integers(0, 8, 6)
    g = np.ones((7, 6, 50))
    for function, factor in (("multi_dot", g[-1]), ("scan", g)):
        expected = chain_gradients(A, x, w, lengths, factor, np.float64)
        expected = expected[0][0, 0], expected[1], expected[2].swapaxes(0, 1)
        leaves = [torch.from_numpy(array).requires_grad_() for array in (A, x, w)]
        value = getattr(semiring.torch, function)(*leaves[:2], "log_plus", weights=leaves[2], lengths=lengths)
        agree([d.numpy() for d in torch.autograd.grad(value.sum(), leaves)], expected)

        def loss(A, x, w, lengths, function=function):
            return getattr(semiring.jax, function)(A, x, "log_plus", weights=w, lengths=lengths).sum()

        agree(map(np.asarray, jax.grad(loss, (0, 1, 2))(A, x, w, lengths)), expected)
        halves = [np.stack(np.split(array, 2, axis)) for array, axis in ((x, 0), (w, 1), (lengths, 0))]
        dA, dx, dw = jax.vmap(jax.grad(loss, (0, 1, 2)), in_axes=(None, 0, 0, 0))(A, *halves)
        found = np.asarray(dA).sum(0), np.concatenate(np.asarray(dx)), np.concatenate(np.asarray(dw), axis=1)
        agree(found, expected)
