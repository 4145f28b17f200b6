"""Test weights of very different size in one matrix, which lose no more than docs/rounding.md states."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import mixed
import numpy as np
import oracles
import pytest
from scipy.sparse import coo_array
from tiers import full, quick

import semiring as sr
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.exact_arithmetic import ExactComponentPotentials
from semiring.algorithms.potentials.rounding import (
    distance_bound,
    is_shift_accurate,
    least_magnitude,
    least_weight,
    shift_bound,
)
from semiring.algorithms.potentials.sweeps import potentials
from semiring.algorithms.potentials.tropical_weights import Weights
from semiring.errors import DomainError, NegativeCycleError
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

INF = np.inf
ISSUE = np.array([[INF, -1, INF], [1.5, INF, INF], [-1e17, INF, INF]])  # rows 0 and 1 do not reach 2


def in_place(A, name):
    D = A.copy()
    return sr.closure(D, name, out=D)


def in_columns(A, name):
    D = np.asfortranarray(A)
    return sr.closure(D, name, out=D)


def distances_of(paths):
    return np.array([[paths.distance(i, j) for j in range(len(paths))] for i in range(len(paths))])


def as_sparse(A):
    rows, columns = np.nonzero(np.isfinite(A))
    return coo_array((A[rows, columns], (rows, columns)), shape=A.shape)


WAYS = {
    "new": sr.closure,
    "in place": in_place,
    "columns": in_columns,
    "stack": lambda A, name: sr.closure(np.stack([A, A]), name)[1],
    "blocked": lambda A, name: sr.closure(A, name, method="blocked_floyd_warshall"),
    "johnson": lambda A, name: sr.closure(A, name, method="johnson"),
    "sparse": lambda A, name: sr.closure(as_sparse(A), name, method="johnson"),
    "paths": lambda A, name: np.array(
        [[sr.best_paths(A, name).distance(i, j) for j in range(len(A))] for i in range(len(A))]
    ),
}


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("form", quick(lambda form: form != "paths", WAYS))
def test_what_is_out_of_reach_disturbs_nothing(form, name):
    sign = 1 if name == "min_plus" else -1
    D = sign * WAYS[form](sign * ISSUE, name)
    np.testing.assert_array_equal(D, [[0, -1, INF], [1.5, 0, INF], [-1e17, -1e17, 0]])
    A = ISSUE.copy()
    A[1, 0] = 0.5
    with pytest.raises(NegativeCycleError) as caught:
        WAYS[form](sign * A, name)
    assert sorted(caught.value.cycle) == [0, 1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("form", "dtype"),
    full(
        lambda form, dtype: (dtype is np.float64) == (form in ("new", "stack")),
        product(["new", "in place", "columns", "stack"], [np.float64, np.float32]),
    ),
)
def test_no_closure_leaves_the_stated_bound(rng, form, dtype):
    """Distances of random matrices of mixed magnitudes, and negative cycles, agree with exact arithmetic."""
    cycles = count = 0
    while count < 200:
        A = mixed.mixed_matrix(rng, dtype)
        sign, name = (1, "min_plus") if count % 3 else (-1, "max_plus")
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                D, cycle = dtype(sign) * WAYS[form](dtype(sign) * A, name), ()
        except NegativeCycleError as error:
            D, cycle, cycles = None, error.cycle, cycles + 1
        except DomainError:
            continue
        count += 1
        assert not (wrong := mixed.judgement(A, D, cycle)), f"{wrong}, of\n{A!r}"
    assert 0 < cycles < 150


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_paths_have_the_lengths_of_the_distances(rng, dtype):
    """The exact length of a path exceeds the exact distance by at most 8 n ε · (|d[i, k]| + |d[k, j]|), for some vertex
    k between its ends."""
    epsilon, paths = Fraction(float(np.finfo(dtype).eps)), 0
    for _ in range(60):
        A = mixed.mixed_matrix(rng, dtype)
        weights, lengths = mixed.whole_weights(A)[0], mixed.shortest(mixed.whole_weights(A)[0])
        if lengths is None:
            continue
        d = [[None if pair is None else pair[0] for pair in row] for row in lengths]
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = sr.best_paths(A)
        except DomainError:
            continue
        for i, j in np.argwhere(np.not_equal(d, None)).tolist():
            path = found.path(i, j)
            error = sum(weights[u][v] for u, v in pairwise(path)) - d[i][j]
            between = [k for k in range(len(A)) if d[i][k] is not None and d[k][j] is not None]
            assert error <= 8 * len(A) * epsilon * max(abs(d[i][k]) + abs(d[k][j]) for k in between)
            paths += 1
    assert paths > 500


@pytest.mark.full
def test_a_path_is_not_mistaken_for_one_that_is_close_on_another_scale():
    A = np.full((4, 4), INF)
    A[0, 1], A[1, 0], A[0, 3], A[3, 1], A[2, 0] = -1, 1.5, 5, 7, -1e17
    assert sr.shortest_paths(A).path(0, 1) == [0, 1]
    A[0, 2] = 2e17
    assert sr.shortest_paths(A).path(0, 1) == [0, 1]


def test_closures_without_empty_paths():
    D = sr.closure(ISSUE, reflexive=False)
    np.testing.assert_array_equal(D, [[0.5, -1, INF], [1.5, 0.5, INF], [-1e17, -1e17, INF]])
    A = ISSUE.copy()
    A[2, 2] = 3.0
    assert sr.closure(A, reflexive=False)[2, 2] == 3.0
    A[2, 2] = -3.0
    with pytest.raises(NegativeCycleError) as caught:
        sr.closure(A, reflexive=False)
    assert caught.value.cycle == (2,)


def test_a_negative_cycle_is_found_before_anything_is_written():
    A = ISSUE.copy()
    A[1, 0] = 0.5
    before = A.copy()
    with pytest.raises(NegativeCycleError):
        sr.closure(A, out=A)
    np.testing.assert_array_equal(A, before)


@pytest.mark.full
def test_an_acyclic_graph_is_products_alone(rng):
    """Paths of whole numbers are exact, and many components are summarized in the explanation."""
    n = 200
    order = rng.permutation(n)
    A = np.where(np.triu(rng.random((n, n)) < 0.1, 1), rng.integers(-9, 9, (n, n)), INF)[np.ix_(order, order)]
    D, said = sr.closure(A, explain=True)
    np.testing.assert_array_equal(D, oracles.closure(A, "min_plus"))
    assert "200 strong components, 0 of more than one vertex" in str(said)


def test_progress_never_falls(rng):
    n, seen = 260, []
    A = np.where(np.triu(np.ones((n, n))), rng.random((n, n)) - 0.5 / n, INF)
    A[100:200, 100:200] = rng.random((100, 100)) + 1
    np.fill_diagonal(A, 0)
    sr.closure(A, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (n**3, n**3)


# ------------------------------------------------------------------------------------------------- one component


def close_nonnegative(R):
    backend_for(R, min_plus, R.dtype).close_block(make_plan(min_plus, R.dtype, nonnegative=True), R)


def exact_distances(W, h, epsilon=2.0**-51, close=close_nonnegative):
    return ExactComponentPotentials(W, epsilon, h).distances(W, close)


def test_exact_distances_where_float64_drowns_a_weight():
    """Small and large edges lie on cycles, so that there is only one component."""
    W = np.array([[INF, -1, -1e17], [1.5, INF, INF], [2e17, INF, INF]])
    D = exact_distances(W, np.array([0.0, -1.0, -1e17]))
    np.testing.assert_array_equal(D, [[0, -1, -1e17], [1.5, 0, 1.5 - 1e17], [2e17, 2e17 - 1, 0]])
    W[1, 0] = 0.5
    with pytest.raises(NegativeCycleError) as caught:
        exact_distances(W, np.array([0.0, -1.0, -1e17]))
    assert caught.value.cycle == (0, 1)
    assert "-0.5" in str(caught.value)


def test_a_row_whose_way_there_is_short_and_whose_way_back_is_long():
    """The kernels hold D[0, 1] + 1e17, so the row is computed again, exactly."""
    W = np.array([[INF, 1, 3e17], [1e17, INF, 2e17], [1, -1e17, INF]])
    D = exact_distances(W, np.zeros(3))
    assert D[0, 1] == 1.0


def test_exact_distances_over_the_whole_range_of_floats(rng):
    """Units range from the least subnormal to 10³⁰⁰. Where nothing is rounded, distances are exact and rounded once."""
    for _ in range(20):
        n = int(rng.integers(2, 7))
        heights = rng.choice([0, 5e-324, 1.0, 1e200, -1e300], n)
        climbs = heights - heights[:, np.newaxis]
        W = np.where(climbs == np.rint(climbs), climbs + rng.integers(0, 3, (n, n)) * 5e-324, climbs)
        np.fill_diagonal(W, INF)
        D = exact_distances(W, np.zeros(n), 0.0 if n < 3 else 2.0**-51)
        assert not mixed.judgement(W, D), repr(W)


def test_loops_stay_what_the_kernels_leave(rng):
    """Loops stay what the kernels leave, so the closure without empty paths has its cycles on the diagonal."""
    W = rng.random((5, 5)) + 1

    def close(R):
        cycles = R.diagonal().copy()
        close_nonnegative(R)
        np.fill_diagonal(R, cycles)

    D = exact_distances(W, np.zeros(5), close=close)
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
    np.testing.assert_array_equal(least_magnitude(np.stack([A, A + A])), [tiny, 2 * tiny])
    part = Weights(A[:50, :50], 1, INF, np.dtype(float), 0.1, vertices=np.array([3, 4, 5]))
    assert least_weight(part) == np.abs(A[3:6, 3:6])[A[3:6, 3:6] != 0].min()


def test_ordinary_data_is_covered(rng):
    """Height differences, and weights of both signs and one magnitude, need no exact search of a component."""
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
                weights = Weights.from_matrix(A, 1, INF, finite.min(), finite.max())
                assert is_shift_accurate(potentials(weights), least_weight(weights))


def test_bounds():
    assert is_shift_accurate(np.zeros(0), 1.0)
    assert is_shift_accurate(np.zeros(5), 1e-300)
    assert is_shift_accurate(np.array([0.0, -1e10]), 1.0)
    assert not is_shift_accurate(np.array([0.0, -1e17]), 1.0)
    assert shift_bound(3, 1e17) > 1
    assert distance_bound(10, 0.0, 0.0, 3.0, -4.0) == 0
    assert distance_bound(10, 0.5, 0.0, 3.0, -4.0, 2.0) == 71
