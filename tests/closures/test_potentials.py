"""Test mixed signs: potentials, negative cycles found and never invented, rounding, integers near "no path"."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from tiers import full

import semiring as sr
from semiring.algorithms.potentials import sweeps as algorithm
from semiring.algorithms.potentials.tropical_weights import Weights
from semiring.closures import closure
from semiring.errors import NegativeCycleError


def height_grid(rng, side, dtype, scale=1.0):
    """Return a grid of differences of heights: every cycle weighs 0, except for rounding."""
    n = side * side
    heights = rng.random(n) * scale
    A = np.full((n, n), np.inf)
    for i in range(side):
        for j in range(side):
            for p, q in ((i + 1, j), (i, j + 1)):
                if p < side and q < side:
                    u, v = i * side + j, p * side + q
                    A[u, v], A[v, u] = heights[v] - heights[u], heights[u] - heights[v]
    return A.astype(dtype), heights


@pytest.mark.full
@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("side", [10, 30])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 4e-14), ("float32", 1e-5)])
def test_height_differences_on_a_grid(rng, side, dtype, bound, scale):
    A, heights = height_grid(rng, side, dtype, scale)
    expected = heights[np.newaxis, :] - heights[:, np.newaxis]
    for method in ("auto", "blocked_floyd_warshall"):
        D = closure(A, method=method)
        assert np.abs(D - expected).max() <= bound * scale
        assert (np.diagonal(D) == 0).all()
    D = closure(-A, "max_plus")
    assert np.abs(D + expected).max() <= bound * scale


def test_dense_height_differences_and_float_ties(rng):
    for n, dtype, bound in ((100, "float64", 4e-14), (400, "float32", 1e-5)):
        heights = rng.random(n)
        A = (heights - heights[:, np.newaxis]).astype(dtype)
        assert np.abs(closure(A) - (heights - heights[:, np.newaxis])).max() <= bound


def test_tenths_around_a_cycle():
    """The sum 0.1 + 0.2 - 0.3 is 5.6e-17 in floats, which is rounding, neither a gain nor a loss."""
    inf = np.inf
    for signs in (1, -1):
        A = np.full((3, 3), inf)
        A[0, 1], A[1, 2], A[2, 0] = 0.1 * signs, 0.2 * signs, -0.3 * signs
        D = closure(A)
        assert np.abs(D[0, 2] - 0.3 * signs) < 1e-15


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "dtype"),
    full(
        lambda n, dtype: dtype in {2: ("int64", "int16"), 110: ("float32", "int32")}.get(n, ("float64",)),
        product([2, 30, 110, 170], ["float32", "float64", "int16", "int32", "int64"]),
    ),
)
def test_mixed_signs_exactly(rng, n, dtype):
    heights = rng.integers(0, 40, n)
    weights = rng.integers(0, 9, (n, n)) + heights - heights[:, np.newaxis]
    present = rng.random((n, n)) < 3 / n
    A = np.where(present, weights, oracles.zero("min_plus", dtype)).astype(dtype)
    reduced = np.where(present, (weights - heights + heights[:, np.newaxis]).astype(float), np.inf)
    distances = oracles.all_pairs_dijkstra(reduced)
    gone = np.isinf(distances)
    expected = np.where(gone, 0, distances).astype(int) + heights - heights[:, np.newaxis]
    wanted = np.where(gone, oracles.zero("min_plus", dtype), expected).astype(dtype)
    for method in ("auto", "rkleene", "blocked_floyd_warshall", "floyd_warshall", "squaring"):
        np.testing.assert_array_equal(closure(A, method=method), wanted)
    mirrored = np.where(present, -weights, oracles.zero("max_plus", dtype)).astype(dtype)
    wanted = np.where(gone, oracles.zero("max_plus", dtype), -expected).astype(dtype)
    np.testing.assert_array_equal(closure(mirrored, "max_plus"), wanted)


def test_irreflexive_with_mixed_signs(rng):
    n = 60
    heights = rng.integers(0, 40, n)
    A = np.where(rng.random((n, n)) < 0.1, rng.integers(0, 9, (n, n)) + heights - heights[:, np.newaxis], np.inf)
    np.testing.assert_array_equal(closure(A, reflexive=False), oracles.closure(A, "min_plus", reflexive=False))


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_longest_paths_of_an_acyclic_graph(rng, dtype):
    """Positive weights of max-plus make paths of as many hops as vertices, in an order that is unknown to the
    sweeps."""
    for n in (40, 400):
        A = np.triu(rng.integers(1, 9, (n, n)), 1)
        order = rng.permutation(n)
        A = np.where(A > 0, A, oracles.zero("max_plus", dtype)).astype(dtype)[np.ix_(order, order)]
        expected = oracles.closure(A, "max_plus") if n < 100 else None
        D = closure(A, "max_plus")
        if expected is not None:
            np.testing.assert_array_equal(D, expected)
        none = oracles.zero("max_plus", dtype)
        weights, distances = (np.where(none == X, -np.inf, X.astype(float)) for X in (A, D))
        for i in range(0, n, 7):  # the best last edge attains every distance
            last = (distances[i][:, np.newaxis] + weights).max(axis=0)
            last[i] = 0
            np.testing.assert_array_equal(distances[i], last)


def test_all_negative_max_plus(rng):
    A = -rng.integers(1, 50, (70, 70)).astype(np.float32)
    np.testing.assert_array_equal(closure(A, "max_plus"), oracles.closure(A, "max_plus"))
    assert closure(A, "max_plus", reflexive=False).max() < 0


# ------------------------------------------------------------------------------------------------- negative cycles


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("n", "length"), [(1, 1), (2, 2), (30, 3), (120, 1), (300, 300), (300, 7)])
def test_negative_cycles_are_named(rng, n, length, dtype):
    A = rng.integers(20, 60, (n, n)).astype(dtype)
    cycle = rng.permutation(n)[:length]
    for u, v in zip(cycle, np.roll(cycle, -1), strict=True):
        A[u, v] = -1
    kept = A.copy()
    for sign, name in ((1, "min_plus"), (-1, "max_plus")):
        given = A * np.dtype(dtype).type(sign)
        before = given.copy()
        with pytest.raises(sr.errors.NegativeCycleError) as caught:
            closure(given, name, out=given)
        np.testing.assert_array_equal(given, before)  # found before anything is written
        found = list(caught.value.cycle)
        assert len(set(found)) == len(found)
        assert oracles.cycle_weight(kept, found) < 0
        assert str(found[0]) in str(caught.value)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_random_graphs_agree_with_exact_bellman_ford(rng, dtype):
    """Exact arithmetic decides whether graphs on the verge of a negative cycle have one."""
    verdicts = set()
    for _ in range(30):
        n = int(rng.integers(2, 25))
        A = np.where(rng.random((n, n)) < 2.5 / n, rng.integers(-4, 16, (n, n)), np.inf).astype(dtype)
        cycle = oracles.negative_cycle(A)
        verdicts.add(bool(cycle))
        if cycle:
            with pytest.raises(sr.errors.NegativeCycleError) as caught:
                closure(A)
            assert oracles.cycle_weight(A, list(caught.value.cycle)) < 0
        else:
            np.testing.assert_array_equal(closure(A), oracles.exact_distances(A).astype(float))
    assert verdicts == {True, False}


def test_zero_weight_cycles_are_no_negative_cycles(rng):
    for n in (2, 50, 300):
        A = np.full((n, n), np.inf)
        order = rng.permutation(n)
        weights = rng.integers(-9, 10, n).astype(float)
        weights[-1] = -weights[:-1].sum()
        for k in range(n):
            A[order[k], order[(k + 1) % n]] = weights[k]
        D = closure(A)
        assert (np.diagonal(D) == 0).all()
        position = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        expected = np.empty((n, n))
        expected[np.ix_(order, order)] = position[np.newaxis, :] - position[:, np.newaxis]
        np.testing.assert_array_equal(D, expected)


def test_small_true_cycles_among_large_weights(rng):
    """A negative cycle far above its own rounding is found however large other weights are."""
    n = 200
    A = rng.random((n, n)).astype(np.float32) * 1e6 + 1e6
    A[5, 90], A[90, 41], A[41, 5] = 0.25, 0.3, -0.5501
    with pytest.raises(sr.errors.NegativeCycleError) as caught:
        closure(A)
    assert set(caught.value.cycle) == {5, 90, 41}


@pytest.mark.parametrize("method", ["auto", "johnson"])
@pytest.mark.parametrize("n", [4, 300])
def test_a_cycle_beside_a_part_on_another_scale(n, method):
    """Rounding in one part of a network hides no cycle in a part that it does not lead to."""
    A = np.full((n, n), np.inf)
    A[0, 1], A[1, 0], A[2, 3] = -1, 0.5, -1e20
    with pytest.raises(sr.errors.NegativeCycleError) as caught:
        closure(A, method=method)
    assert list(caught.value.cycle) == [0, 1]


@pytest.mark.parametrize("method", ["auto", "johnson"])
@pytest.mark.parametrize("n", [3, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_that_leave_the_range_of_a_float(n, dtype, method):
    """A sum out of range is an error, not a NaN and not "no path". A sum just inside is a distance."""
    largest = np.finfo(dtype).max
    A = np.full((n, n), np.inf, dtype)
    A[0, 1], A[1, 2] = -largest, -largest
    with pytest.raises(sr.errors.DomainError, match=f"leave the range of {dtype}"):
        closure(A, method=method)
    with pytest.raises(sr.errors.DomainError, match=f"leave the range of {dtype}"):
        closure(-A, "max_plus", method=method)
    A[0, 1], A[1, 2] = -largest / 4, -largest / 4
    D = closure(A, method=method)
    np.testing.assert_allclose(D[0, 2], -largest / 2, rtol=8 * np.finfo(dtype).eps)
    assert D[2, 0] == np.inf


def test_a_cycle_of_many_edges_in_a_dense_matrix():
    n = 320
    rng = np.random.default_rng(5)
    A = np.full((n, n), float(n))
    order = rng.permutation(n)
    for k in range(n):
        A[order[k], order[(k + 1) % n]] = -1 if k else n - 2
    with pytest.raises(sr.errors.NegativeCycleError) as caught:
        closure(A)
    assert oracles.cycle_weight(A, list(caught.value.cycle)) < 0


# ------------------------------------------------------------------------------------------------- integers


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_long_paths_widen(dtype):
    """A path longer than half the range is computed in a wider dtype, and one that fits no more raises."""
    limits = np.iinfo(dtype)
    n, step = 6, limits.max // 8
    none = limits.max
    A = np.full((n, n), none, dtype)
    for i in range(n - 1):
        A[i, i + 1] = step
    D = closure(A)
    for i in range(n):
        for j in range(n):
            assert D[i, j] == (none if j < i else (j - i) * step), (i, j)
    _, explanation = closure(A, explain=True)
    assert "closed again in" in str(explanation)
    with pytest.raises(sr.errors.IntegerOverflowError, match="int"):
        closure(A, out=A)  # in place the input is gone
    A = np.full((12, 12), none, dtype)
    for i in range(11):
        A[i, i + 1] = step
    with pytest.raises(sr.errors.IntegerOverflowError, match="int64"):
        closure(A)
    mirrored = np.where(none == A, limits.min, -A).astype(dtype)
    with pytest.raises(sr.errors.IntegerOverflowError):
        closure(mirrored, "max_plus")


def test_weights_next_to_no_path():
    for dtype in ("int16", "int32", "int64"):
        none = np.iinfo(dtype).max
        A = np.array([[none, none - 1], [none, none]], dtype)
        if dtype == "int64":
            with pytest.raises(sr.errors.IntegerOverflowError, match="float64"):
                closure(A)
        else:
            assert closure(A).tolist() == [[0, none - 1], [none, 0]]
        B = np.array([[none, none // 2], [none, none]], dtype)
        if dtype != "int64":
            assert closure(B).tolist() == [[0, none // 2], [none, 0]]


@pytest.mark.full
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_the_longest_weight_is_no_missing_edge(dtype, name):
    """A weight next to "no path" on either side is a distance or an error, alone, among others and in a stack."""
    none = int(oracles.zero(name, dtype))
    longest = none + (1 if none < 0 else -1)
    A = np.full((3, 3), none, dtype)
    A[0, 1] = longest
    B = A.copy()
    B[1, 2] = -1 if none < 0 else 1
    calls = [
        lambda: closure(A, name),
        lambda: closure(A, name, reflexive=False),
        lambda: closure(np.stack([A, A]), name)[1],
        lambda: np.full((1, 2), sr.best_paths(A, name).distance(0, 1)),
        lambda: sr.matmul(A, np.where(np.eye(3), 0, none).astype(dtype), name),
        lambda: closure(B, name),
    ]
    for call in calls:
        try:
            D = call()
        except sr.errors.IntegerOverflowError:
            assert dtype == "int64" or call is calls[-1]
        else:
            assert D[0, 1] == longest


def test_unreachable_stays_unreachable(rng):
    for dtype in ("int16", "int32", "int64"):
        none = np.iinfo(dtype).max
        A = np.full((200, 200), none, dtype)
        A[:100, :100] = rng.integers(0, 50, (100, 100))
        A[100:, 100:] = rng.integers(-3, 0, (100, 100)) + 3
        D = closure(A)
        assert (D[:100, 100:] == none).all()
        assert (D[100:, :100] == none).all()


def test_int64_beyond_floats():
    """Sums of int64 that float64 would round are exact."""
    none = np.iinfo(np.int64).max
    big = 2**53
    A = np.full((4, 4), none)
    A[0, 1], A[1, 2], A[2, 3] = big + 1, -big, 1
    D = closure(A)
    assert D[0, 2] == 1
    assert D[0, 3] == 2
    assert D[0, 1] == big + 1
    A[2, 0] = -2
    with pytest.raises(sr.errors.NegativeCycleError) as caught:
        closure(A)
    assert sorted(caught.value.cycle) == [0, 1, 2]
    assert Fraction(oracles.cycle_weight(A, list(caught.value.cycle))) == -1


def test_negative_sums_that_leave_the_dtype():
    none = np.iinfo(np.int16).max
    A = np.full((4, 4), none, np.int16)
    A[0, 1], A[1, 2], A[2, 3] = -20_000, -20_000, 5
    with pytest.raises(sr.errors.IntegerOverflowError, match="-40000"):
        closure(A)


class OnePass:
    """A sweep as a backend of a device computes it."""

    def relax(self, A, h, sign, epsilon):
        W = A.astype(np.float64) * sign
        return (W + epsilon * np.abs(W) + h[:, np.newaxis]).min(axis=0)


@pytest.mark.parametrize("passes", [None, OnePass()], ids=["pieces", "one kernel"])
@pytest.mark.parametrize("eliminating", [False, True])
def test_sweeps_over_whole_matrices_do_what_sweeps_over_rows_do(rng, monkeypatch, passes, eliminating):
    """A device sweeps over all rows, and this test makes the host do so."""
    capabilities = SimpleNamespace(streams=object(), passes=passes)
    monkeypatch.setattr(algorithm, "backend_for", lambda *_: SimpleNamespace(capabilities=capabilities))
    monkeypatch.setattr(algorithm, "_PATIENCE", 1)
    asked = []

    def close(D):
        asked.append(len(D))
        D[...] = oracles.closure(D, "min_plus")
        return bool((D.diagonal() >= 0).all())

    for n, dtype in ((1, "float32"), (7, "float64"), (40, "float32"), (40, "int32"), (90, "float64")):
        heights = rng.integers(0, 50, n) if dtype == "int32" else 50 * rng.random(n)
        A = np.where(rng.random((n, n)) < 4 / n, rng.integers(0, 9, (n, n)) + heights - heights[:, np.newaxis], np.inf)
        none = np.iinfo(dtype).max if dtype == "int32" else np.inf
        A = np.where(np.isinf(A), none, A).astype(dtype)
        edges = none != A
        for sign in (1, -1):
            shown = A if sign > 0 else np.where(edges, -A, -none)
            low, high = (A[edges].min(), A[edges].max()) if edges.any() else (0, 0)
            weights = Weights.from_matrix(shown, sign, sign * none, low, high)
            h = algorithm.potentials(weights, close if eliminating else None)
            tails, heads = np.nonzero(edges)
            W = A[tails, heads].astype(np.float64)
            slack = 2 * weights.epsilon * np.abs(W) + 1e-14 * np.abs(h).max(initial=0)
            assert (W + h[tails] - h[heads] >= -slack).all()
            if n > 1 and dtype != "int32":
                cycle = shown.copy()
                cycle[0, 1], cycle[1, 0] = -200 * sign, 199 * sign
                with pytest.raises(NegativeCycleError) as error:
                    algorithm.potentials(Weights.from_matrix(cycle, sign, sign * none, -200, 200))
                around = [*error.value.cycle, error.value.cycle[0]]
                assert sum(Fraction(float(cycle[pair])) * sign for pair in pairwise(around)) < 0
    assert bool(asked) == eliminating
