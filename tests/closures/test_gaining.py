"""Test that the loop of the CPU backend for small matrices that gain has the bits and errors of the chain's steps."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from mixed import judgement, mixed_matrix
from tiers import full, quick

import semiring as sr
from semiring.errors import DivergenceError, NegativeCycleError
from semiring.kernels.cpu import CpuBackend

KINDS = ("dense", "acyclic", "blocks", "sparse", "scattered")
CASES = quick(
    lambda name, _: name == "min_plus",
    full(
        lambda *case: case in (("min_plus", "float64"), ("max_plus", "float32"), ("max_times", "float64")),
        [
            *(("min_plus", "float64"), ("max_plus", "float32"), ("max_times", "float64")),
            *(("min_plus", "float32"), ("max_plus", "float64"), ("max_times", "float32"), ("min_times", "float64")),
        ],
    ),
)
SIZES = quick(
    lambda n: n in (2, 24, 33, 65),
    full(lambda n: n not in (5, 100, 129), [1, 2, 5, 24, 25, 33, 64, 65, 100, 129, 160]),
)


def graph(rng, kind, n):
    """Return weights of min-plus of both signs, without cycles below 0, with ∞ for no edge."""
    heights = 5 * rng.random(n)
    A = rng.random((n, n)) + heights - heights[:, None]
    order = rng.permutation(n)
    if kind == "acyclic":
        A[order[:, None] <= order] = np.inf
    elif kind == "blocks":
        A[order[:, None] // max(1, n // 4) > order // max(1, n // 4)] = np.inf
    elif kind != "dense":
        A[rng.random((n, n)) > (2.5 if kind == "sparse" else 1) / n] = np.inf
    return A


def weights(A, name, dtype):
    """Return the weights of a min-plus matrix as weights of another semiring."""
    ways = {"min_plus": A, "max_plus": -A, "max_times": np.exp(-A), "min_times": np.exp(A)}
    return ways[name].astype(dtype)


@pytest.fixture
def closed_at_once(monkeypatch):
    """Return a list with the number of matrices that the loop has closed."""
    count, close = [0], CpuBackend.close_gaining

    def count_closed(self, plan, A, found, out):
        count[0] += len(A)
        close(self, plan, A, found, out)

    monkeypatch.setattr(CpuBackend, "close_gaining", count_closed)
    return count


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("n", SIZES)
def test_the_bits_of_the_chain(rng, closed_at_once, name, dtype, n):
    stack = np.array([weights(graph(rng, kind, n), name, dtype) for kind in KINDS for _ in range(3)])
    expected = np.array([sr.closure(A, name, explain=True)[0] for A in stack])
    closed_at_once[0] = 0
    for A, D in zip(stack, expected, strict=True):
        kept = A.copy()
        for given in (A, np.asfortranarray(A)):
            assert sr.closure(given, name, threads=1).tobytes() == D.tobytes()
        np.testing.assert_array_equal(A, kept)
        assert sr.closure(A, name, out=kept).tobytes() == D.tobytes()
    assert closed_at_once[0] >= 3 * len(stack) - 3 * sum(not gains(A, name) for A in stack)
    for threads in (1, 3):
        assert sr.closure(stack, name, threads=threads).tobytes() == expected.tobytes()
    there = np.empty((n, n, len(stack)), dtype).transpose(2, 0, 1)
    assert sr.closure(stack[::-1], name, out=there) is there
    np.testing.assert_array_equal(there, expected[::-1])
    assert sr.closure(stack, name, out=stack) is stack
    np.testing.assert_array_equal(stack, expected)


def gains(A, name):
    edges = A[np.isfinite(A)] if name.endswith("plus") else A[(A > 0) & np.isfinite(A)]
    worst = {"min_plus": -edges, "max_plus": edges, "max_times": edges - 1, "min_times": 1 - edges}[name]
    return bool((worst > 0).any())


@pytest.mark.parametrize(
    ("name", "dtype"),
    quick(
        lambda name, _: name == "min_plus",
        full(
            lambda *case: case in (("min_plus", "int32"), ("max_plus", "int64")),
            [("min_plus", "int32"), ("min_plus", "int64"), ("max_plus", "int32"), ("max_plus", "int64")],
        ),
    ),
)
def test_integers_against_exact_distances(rng, closed_at_once, name, dtype):
    none = sr.as_semiring(name).zero_for(np.dtype(dtype))
    stack, sign = [], 1 if name == "min_plus" else -1
    for n in (1, 2, 7, 40):
        for kind in KINDS:
            A = graph(rng, kind, n)
            edges = np.isfinite(A)
            whole = np.where(edges, np.rint(np.where(edges, A, 0) * 1000), 0)
            np.fill_diagonal(whole, np.where(np.diag(whole) < 0, 0, np.diag(whole)))
            A = np.full((n, n), none, dtype)
            A[edges] = sign * whole[edges]
            exact = np.where(edges, whole, np.inf)
            try:
                D = sr.closure(A, name)
            except NegativeCycleError:  # by rounding to whole numbers
                with pytest.raises(NegativeCycleError):
                    sr.closure(A, name, explain=True)
                assert oracles.negative_cycle(exact)
                continue
            expected = oracles.exact_distances(exact)
            np.testing.assert_array_equal(
                D, np.where(expected == np.inf, none, sign * np.where(expected == np.inf, 0, expected))
            )
            if n == 7:
                stack.append(A)
    assert closed_at_once[0] > 5
    expected = np.array([sr.closure(A, name) for A in stack])
    np.testing.assert_array_equal(sr.closure(np.array(stack), name), expected)


def test_what_does_not_fit_is_left_to_the_chain(closed_at_once):
    """Distances near "no path", which float64 does not hold either, are left to the chain."""
    A = np.full((3, 3), np.iinfo(np.int64).max)
    A[0, 1], A[1, 2] = -(2**53) - 1, 3
    assert sr.closure(A)[0].tolist() == [0, -(2**53) - 1, -(2**53) + 2]
    assert closed_at_once[0] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixed_magnitudes_within_the_stated_bound(rng, dtype):
    for _ in range(60):
        A = mixed_matrix(rng, dtype)
        try:
            D, cycle = sr.closure(A), ()
        except NegativeCycleError as error:
            D, cycle = None, error.cycle
        except sr.DomainError:
            continue
        assert judgement(A, D, cycle) == ""


def test_components_on_other_scales():
    inf = np.inf
    A = np.array([[inf, -1, inf], [1.5, inf, inf], [-1e17, inf, inf]])
    assert sr.closure(A)[0, 1] == sr.closure(A[None])[0, 0, 1] == -1
    A[1, 0] = 0.5
    for given in (A, A[None]):
        with pytest.raises(NegativeCycleError) as caught:
            sr.closure(given)
        assert caught.value.cycle == (0, 1)


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times", "min_times"])
def test_errors_are_those_of_the_chain(rng, name):
    for kind in KINDS:
        A = graph(rng, kind, 12)
        A[4, 9], A[9, 7], A[7, 4] = -9, 2, 3
        A = weights(A, name, "float64")
        kept, said = A.copy(), []
        for options in ({}, {"explain": True}):
            with pytest.raises(DivergenceError) as caught:
                sr.closure(A, name, **options)
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
        stack = np.array([weights(graph(rng, kind, 12), name, "float64"), A])
        with pytest.raises(DivergenceError) as caught:
            sr.closure(stack, name, out=stack)
        assert caught.value.matrix == (1,)
        np.testing.assert_array_equal(stack[1], kept)


def test_signed_zeros_infinities_and_cycles_of_weight_0():
    inf = np.inf
    for A in (
        [[inf, -0.0, inf], [inf, inf, -0.0], [inf, 3.0, inf]],
        [[inf, -0.1, inf], [0.1, inf, -5.0], [inf, inf, inf]],
        [[0.0, -1.0, 4.0], [1.0, 0.0, inf], [inf, inf, -0.0]],
    ):
        A = np.array(A)
        expected = sr.closure(A, explain=True)[0]
        for found in (sr.closure(A), sr.closure(A[None])[0], -sr.closure(-A, "max_plus")):
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found + 0.0), np.signbit(expected + 0.0))


@pytest.mark.parametrize("name", ["max_times", "min_times"])
def test_ratios_do_not_diverge_by_rounding(rng, name):
    for _ in range(20):
        rates = np.exp(rng.normal(size=9))
        D = sr.closure(rates[:, None] / rates, name)
        np.testing.assert_allclose(D, rates[:, None] / rates, rtol=1e-13)
        np.testing.assert_array_equal(D, sr.closure(rates[:, None] / rates, name, explain=True)[0])
