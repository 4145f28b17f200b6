"""Weights of very different size in one matrix: nothing is lost beyond the bounds that docs/rounding.md states."""

from __future__ import annotations

import mixed
import numpy as np
import pytest

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.components import join_components, strong_components
from semiring.algorithms.exact import exact_distances
from semiring.algorithms.potentials import potentials
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.rounding import covers, distance_bound, least_magnitude, shift_bound
from semiring.algorithms.weights import Weights
from semiring.chain.maps import Shifted
from semiring.errors import NegativeCycleError
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan

INF = np.inf


def close_nonnegative(R):
    rkleene(Engine(backend_for(R, min_plus, R.dtype), make_plan(min_plus, R.dtype, nonnegative=True)), R)


def by_components(A):
    """The closure of a min-plus matrix from the pure functions alone; `NegativeCycleError` in its vertices."""
    found = strong_components(A, INF)
    finite = A[np.isfinite(A)]
    epsilon = Weights.of(A, 1, INF, finite.min(initial=0), finite.max(initial=0)).epsilon
    D = A[np.ix_(found.order, found.order)]
    for low, high in zip(found.bounds, found.bounds[1:], strict=False):
        block = D[low:high, low:high]
        W = block.copy()
        weights = Weights(W, 1, INF, np.dtype(np.float64), epsilon)
        try:
            h = potentials(weights)
            if not epsilon or covers(h, least_magnitude(W)):
                shift, rows = Shifted(h), (slice(None),)
                R = shift.encode(W, rows).astype(W.dtype)
                close_nonnegative(R)
                block[...] = shift.decode(R, rows)
            else:
                block[...] = exact_distances(W.astype(np.float64), epsilon, h, close_nonnegative)
        except NegativeCycleError as error:
            raise NegativeCycleError(str(error), found.order[low + np.array(error.cycle)].tolist()) from None
    join_components(Engine(backend_for(D, min_plus, D.dtype), make_plan(min_plus, D.dtype)), D, found.bounds)
    out = np.empty_like(D)
    out[np.ix_(found.order, found.order)] = D
    return out


def outcome(calculate, A):
    """(D, ()), or (None, the cycle)."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return calculate(A), ()
    except NegativeCycleError as error:
        return None, error.cycle


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_closure_leaves_the_stated_bound(rng, dtype):
    """Random matrices of mixed magnitudes against exact arithmetic: distances, and which cycles are negative."""
    cycles = 0
    for _ in range(500):
        A = mixed.mixed_matrix(rng, dtype)
        D, cycle = outcome(by_components, A)
        cycles += D is None
        assert not (wrong := mixed.judgement(A, D, cycle)), f"{wrong}, of\n{A!r}"
    assert 0 < cycles < 400


# ------------------------------------------------------------------------------------------------- one component


def test_exact_distances_where_float64_drowns_a_weight():
    """The same edges with the large ones on a cycle, so that there is but one component."""
    W = np.array([[INF, -1, -1e17], [1.5, INF, INF], [2e17, INF, INF]])
    D = exact_distances(W, 2.0**-51, np.array([0.0, -1.0, -1e17]), close_nonnegative)
    np.testing.assert_array_equal(D, [[0, -1, -1e17], [1.5, 0, 1.5 - 1e17], [2e17, 2e17 - 1, 0]])
    W[1, 0] = 0.5
    with pytest.raises(NegativeCycleError) as caught:
        exact_distances(W, 2.0**-51, np.array([0.0, -1.0, -1e17]), close_nonnegative)
    assert caught.value.cycle == (0, 1)
    assert "-0.5" in str(caught.value)


def test_a_row_whose_way_there_is_short_and_whose_way_back_is_long():
    """The kernels hold D[0, 1] + 1e17: the row is found again, exactly."""
    W = np.array([[INF, 1, 3e17], [1e17, INF, 2e17], [1, -1e17, INF]])
    D = exact_distances(W, 2.0**-51, np.zeros(3), close_nonnegative)
    assert D[0, 1] == 1.0


def test_exact_distances_over_the_whole_range_of_floats(rng):
    """Units from the least subnormal to 10³⁰⁰; where nothing is rounded, the exact distances rounded once."""
    for _ in range(20):
        n = int(rng.integers(2, 7))
        heights = rng.choice([0, 5e-324, 1.0, 1e200, -1e300], n)
        climbs = heights - heights[:, np.newaxis]
        W = np.where(climbs == np.rint(climbs), climbs + rng.integers(0, 3, (n, n)) * 5e-324, climbs)
        np.fill_diagonal(W, INF)
        D = exact_distances(W, 0.0 if n < 3 else 2.0**-51, np.zeros(n), close_nonnegative)
        assert not mixed.judgement(W, D), repr(W)


def test_loops_stay_what_the_kernels_leave(rng):
    """So the closure without empty paths has its cycles on the diagonal."""
    W = rng.random((5, 5)) + 1

    def close(R):
        cycles = R.diagonal().copy()
        close_nonnegative(R)
        np.fill_diagonal(R, cycles)

    D = exact_distances(W, 2.0**-51, np.zeros(5), close)
    np.testing.assert_array_equal(D.diagonal(), W.diagonal())


# ------------------------------------------------------------------------------------------------- the bound


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_least_magnitude(rng, dtype):
    A = rng.standard_normal((50, 70)).astype(dtype)
    A[rng.random(A.shape) < 0.3] = INF
    A[3, 4], A[5, 6], A[7, 8] = 0.0, -0.0, -INF
    expected = np.abs(A[np.isfinite(A) & (A != 0)]).min()
    assert least_magnitude(A) == expected
    assert least_magnitude(A.T) == expected
    tiny = np.finfo(dtype).smallest_subnormal
    A[9, 9] = -tiny
    assert least_magnitude(A) == tiny
    assert least_magnitude(np.full((3, 3), INF, dtype)) == INF
    assert least_magnitude(np.zeros((3, 3), dtype)) == INF


def test_ordinary_data_is_covered(rng):
    """Height differences, and weights of both signs and one magnitude: no component of theirs is searched exactly."""
    for n in (5, 100, 300):
        for dtype in (np.float64, np.float32):
            heights = rng.random(n) * 1000
            for A in (
                heights - heights[:, np.newaxis],
                rng.random((n, n)) + heights - heights[:, np.newaxis],
                rng.random((n, n)) * 1.05 - 0.05 / n,
                np.where(rng.random((n, n)) < 0.9, rng.random((n, n)) + heights - heights[:, np.newaxis], INF),
            ):
                A = A.astype(dtype)
                finite = A[np.isfinite(A)]
                h = potentials(Weights.of(A, 1, INF, finite.min(), finite.max()))
                assert covers(h, least_magnitude(A))


def test_bounds():
    assert covers(np.zeros(0), 1.0)
    assert covers(np.zeros(5), 1e-300)
    assert covers(np.array([0.0, -1e10]), 1.0)
    assert not covers(np.array([0.0, -1e17]), 1.0)
    assert shift_bound(3, 1e17) > 1
    assert distance_bound(10, 0.0, 0.0, 3.0, -4.0) == 0
    assert distance_bound(10, 0.5, 0.0, 3.0, -4.0, 2.0) == 71
