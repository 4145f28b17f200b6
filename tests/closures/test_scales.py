"""Test products around cycles that are 1 except for rounding: potentials, and gains that are real or rounding."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

import semiring as sr
from semiring.algebra.catalogue import max_min, max_times, min_times
from semiring.algorithms.potentials.scales import may_gain, scales
from semiring.errors import DivergenceError
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

SEMIRINGS = [max_times, min_times]


def in_columns(A, semiring):
    D = np.asfortranarray(A)
    return sr.closure(D, semiring, out=D)


def close(A, semiring):
    """Return the closure, or the vertices of a cycle that gains."""
    try:
        return sr.closure(A, semiring)
    except DivergenceError as error:
        cycle = scales(A, semiring)
        return cycle if error.vertex in cycle else []


def exact_closure(A, semiring):
    """Return best products as fractions by Floyd's algorithm, 0 for no path, or None if a cycle gains exactly."""
    n, most = len(A), semiring is max_times
    D = [[Fraction(0) if x in (0, np.inf) else Fraction(x) for x in row] for row in A.astype(float).tolist()]
    for i in range(n):
        D[i][i] = max(D[i][i], Fraction(1)) if most or not D[i][i] else min(D[i][i], Fraction(1))
    for k in range(n):
        for i in range(n):
            for j in range(n):
                through = D[i][k] * D[k][j]
                if through and (not D[i][j] or (through > D[i][j] if most else through < D[i][j])):
                    D[i][j] = through
        if any(D[i][i] != 1 for i in range(n)):
            return None
    return D


@pytest.mark.full
@pytest.mark.parametrize("semiring", SEMIRINGS, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ratios_gain_nothing(rng, semiring, dtype):
    """The product of r[i] / r[j] along every cycle is 1, up to the rounding of each factor."""
    for _ in range(40):
        n = int(rng.integers(2, 40))
        ratios = 1 + 9 * rng.random(n)
        A = (ratios / ratios[:, np.newaxis]).astype(dtype)
        for D in (
            sr.closure(A, semiring),
            sr.closure(np.stack([A, A]), semiring)[1],
            sr.closure(A, semiring, reflexive=False),
            in_columns(A, semiring),
        ):
            np.testing.assert_allclose(D.astype(float), A.astype(float), rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gains_are_told_from_rounding_exactly(rng, semiring, dtype):
    """Fractions decide which sparse random weights about 1, and ratios with an advantage of some ulp, gain."""
    verdicts, epsilon = set(), Fraction(float(np.finfo(dtype).eps)) * (2 if dtype is np.float64 else 1)
    none, most = semiring.zero_for(np.dtype(dtype)), semiring is max_times
    for trial in range(150):
        n = int(rng.integers(2, 8))
        ratios = np.exp2(rng.integers(-9, 10, n) if trial % 2 else rng.random(n) * 20)
        advantage = 1 + (rng.random((n, n)) - 0.97) * (1 if trial % 3 else 2.0**-20)
        A = ratios / ratios[:, np.newaxis] * (advantage if most else 2 - advantage)
        A = np.where(rng.random((n, n)) < 0.6, A, none).astype(dtype)
        found, expected = close(A, semiring), exact_closure(A, semiring)
        verdicts.add(isinstance(found, list))
        if isinstance(found, list):
            around = [Fraction(float(A[i, j])) for i, j in zip(found, [*found[1:], found[0]], strict=True)]
            beyond = prod(around) if most else 1 / prod(around)
            assert beyond > (1 + epsilon) ** len(found)
            continue
        if expected is None:  # none of its cycles gains more than rounding explains
            lowered = A * (1 - float(epsilon)) if most else A * (1 + float(epsilon))
            assert exact_closure(lowered, semiring) is not None
            continue
        for i in range(n):
            for j in range(n):
                exact = expected[i][j]
                assert (found[i, j] == none) == (exact == 0)
                if exact:
                    assert abs(Fraction(float(found[i, j])) - exact) <= 4 * n * epsilon * exact
    assert verdicts == {True, False}


def test_a_gain_names_its_cycle():
    A = np.array([[0, 3, 0, 0], [0, 0, 0.5, 0], [0.6667, 0, 0, 0], [9, 0, 0, 1]])
    assert sorted(scales(A, max_times)) == [0, 1, 2]
    A[2, 0] = 0.6666
    assert isinstance(scales(A, max_times), np.ndarray)
    A[3, 3] = 1.5
    assert scales(A, max_times) == [3]
    with np.errstate(divide="ignore"):
        assert scales(1 / A, min_times) == [3]


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=str)
def test_products_beyond_the_range_say_nothing(semiring):
    none, large = semiring.zero_for(np.dtype(float)), 1e200 if semiring is max_times else 1e-200
    A = np.full((3, 3), none)
    A[0, 1], A[1, 2] = large, large
    assert scales(A, semiring) is None
    A[1, 0] = large
    assert sorted(scales(A, semiring)) == [0, 1]


def test_which_weights_gain():
    assert may_gain(max_times, 0.0, 1.5)
    assert not may_gain(max_times, 0.0, 1.0)
    assert not may_gain(max_times, 0.0, None)
    assert may_gain(min_times, 0.5, None)
    assert not may_gain(min_times, 1.0, np.inf)
    assert not may_gain(min_times, None, None)
    assert not may_gain(max_min, 0.0, 9.0)


def test_weights_that_do_not_gain_are_closed_as_they_are(rng):
    """No factor scales probabilities, which get the bits of the kernels alone."""
    A = rng.random((50, 50))
    D, said = sr.closure(A, "max_times", explain=True)
    closed = A.copy()
    plan = make_plan(max_times, A.dtype, nonnegative=True)
    backend_for(closed, max_times, A.dtype).close_block(plan, closed)
    np.testing.assert_array_equal(D, closed)
    assert "scaled by potentials" not in str(said).split("chain")[0]
    gaining = np.where(np.triu(np.ones((50, 50)), 1) > 0, 4 * A, 0)
    _, said = sr.closure(gaining, "max_times", explain=True)
    assert "weights that gain" in str(said)


def test_a_matrix_of_a_stack_does_not_depend_on_one_that_gains(rng):
    A = rng.random((20, 20))
    ratios = 1 + rng.random(20)
    D = sr.closure(np.stack([A, ratios / ratios[:, np.newaxis]]), "max_times")
    np.testing.assert_array_equal(D[0], sr.closure(A, "max_times"))
    with pytest.raises(DivergenceError) as caught:
        sr.closure(np.stack([A, 2 * ratios / ratios[:, np.newaxis]]), "max_times")
    assert caught.value.matrix == (1,)
