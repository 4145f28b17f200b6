"""Dijkstra's algorithm from some vertices: SciPy's bits, closures in every semiring, trees, limits, targets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import dijkstra as scipys
from tiers import full

import semiring as sr
from semiring.algebra.catalogue import as_semiring
from semiring.algorithms import johnson as algorithm
from semiring.algorithms.dijkstra import Searches, never_improves
from semiring.kernels.engine import make_plan

WEIGHTS = {
    "min_plus": ("float64", lambda rng, m: rng.choice([0.0, 1.0, 2.0, 0.1, 0.7], m)),
    "max_plus": ("float32", lambda rng, m: -rng.integers(0, 5, m)),
    "max_min": ("int16", lambda rng, m: rng.integers(-5, 5, m)),
    "min_max": ("uint8", lambda rng, m: rng.integers(0, 5, m)),
    "max_times": ("float64", lambda rng, m: rng.choice([0.5, 1.0, 0.25], m)),
    "boolean": ("bool", lambda rng, m: np.ones(m, bool)),
}
#: ⊕ by an expression of its own, so that it is not known for a minimum or a maximum.
OWN = sr.Semiring("own", "where(x <= y, x, y)", "x + y", float("inf"), 0, domain="[0, inf]")


def random_searches(rng, n, m, name):
    """Return distinct edges as Searches, the dense matrix, and the semiring."""
    semiring = OWN if name == "own" else as_semiring(name)
    dtype, weights = WEIGHTS["min_plus" if name == "own" else name]
    cells = np.sort(rng.choice(n * n, min(m, n * n), replace=False)) if n else np.empty(0, np.int64)
    tails, heads = cells // max(1, n), cells % max(1, n)
    values = weights(rng, cells.size).astype(dtype)
    A = np.full((n, n), semiring.zero_for(dtype), dtype)
    A[tails, heads] = values
    assert never_improves(semiring, values)
    starts = np.searchsorted(tails, np.arange(n + 1)).astype(np.int64)
    plan = make_plan(semiring, dtype, threads=int(rng.integers(1, 4)))
    return Searches(plan, starts, heads.astype(np.int32), values), A, semiring


def close(A, semiring):
    """Compute A*, pivot by pivot, where every star is 1̄."""
    D = A.copy()
    np.fill_diagonal(D, semiring.add(D.diagonal(), semiring.one_for(D.dtype)))
    for k in range(len(D)):
        D = semiring.add(D, semiring.mul(D[:, k : k + 1], D[k]))
    return D.astype(A.dtype)


def check_trees(values, trees, A, semiring, sources):
    """Check that every value is that of the vertex before, one edge on, and that paths end in the source."""
    n = len(A)
    for source, row, before in zip(sources, values, trees, strict=True):
        reached = row != semiring.zero_for(row.dtype)
        np.testing.assert_array_equal(before >= 0, reached & (np.arange(n) != source))
        steps = np.flatnonzero(before >= 0)
        np.testing.assert_array_equal(semiring.mul(row[before[steps]], A[before[steps], steps]), row[steps])
        at = np.arange(n)[reached]
        for _ in range(n):
            at = np.where(before[at] >= 0, before[at], at)
        assert (at == source).all()


@pytest.mark.full
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", full(lambda name: name in ("min_plus", "own"), [*WEIGHTS, "own"]))
def test_every_semiring_against_its_closure(rng, name, backend, monkeypatch):
    monkeypatch.setenv("SEMIRING_BACKEND", backend)
    for n, m in ((0, 0), (1, 0), (1, 1), (2, 2), (5, 9), (17, 40), (33, 33), (40, 1600)):
        graph, A, semiring = random_searches(rng, n, m, name)
        expected = close(A, semiring)
        sources = rng.integers(0, n, 2 * n) if n else np.empty(0, np.int64)
        values, trees = graph.search_table(sources, trees=True)
        np.testing.assert_allclose(values.astype(float), expected[sources].astype(float), rtol=1e-12)
        check_trees(values, trees, A, semiring, sources)
        targets = rng.integers(0, n, 3) if n else sources
        some, none = graph.search_table(sources, targets)
        assert none is None
        np.testing.assert_array_equal(some, values[:, targets])
        if n:
            limit = rng.choice(values.ravel())
            for ends in (None, targets):
                starts, heads, near = graph.search_near(sources, limit, ends)
                for i, row in enumerate(values):
                    within = semiring.add(row, limit) == row
                    wanted = np.flatnonzero(within & (row != semiring.zero_for(row.dtype)))
                    wanted = wanted if ends is None else np.intersect1d(wanted, ends)
                    part = slice(starts[i], starts[i + 1])
                    np.testing.assert_array_equal(np.sort(heads[part]), wanted)
                    np.testing.assert_array_equal(near[part], row[heads[part]])


@pytest.mark.full
def test_an_own_product_that_does_not_commute_is_combined_from_either_end():
    first = sr.Semiring("last", "max(x, y)", "where(x == 0, 0, where(y == 0, 0, min(x, y)))", 0, 9, domain="[0, 9]")
    plan = make_plan(first, "float64")
    graph = Searches(plan, np.array([0, 1, 2, 2]), np.array([1, 2], np.int32), np.array([3.0, 7.0]))
    turned = Searches(plan, np.array([0, 0, 1, 2]), np.array([0, 1], np.int32), np.array([3.0, 7.0]), is_reversed=True)
    np.testing.assert_array_equal(graph.search_table(np.arange(3))[0], turned.search_table(np.arange(3))[0].T)


@pytest.mark.full
def test_the_bits_are_those_of_scipy(rng):
    for n, each in ((30, 1.5), (200, 3), (150, 60)):
        A = sparse.random_array((n, n), density=each / n, rng=rng, format="csr")
        A.data *= 10.0 ** rng.integers(-3, 4, A.nnz)
        np.testing.assert_array_equal(sr.closure(A, method="johnson"), scipys(A))
        float32 = A.astype(np.float32)
        expected = scipys(float32.astype(float)).astype(np.float32)
        for out in (None, np.empty((n, n), np.float32), np.empty((n, n), np.float32, order="F")):
            np.testing.assert_array_equal(sr.closure(float32, method="johnson", out=out), expected)
            np.testing.assert_array_equal(sr.closure(-float32, "max_plus", method="johnson", out=out), -expected)
        np.testing.assert_array_equal(sr.closure(-A, "max_plus", method="johnson"), -scipys(A))


def test_sums_beyond_the_floats_are_no_path():
    A = sparse.coo_array(([1.5e308, 1.5e308, 1.0], ([0, 1, 2], [1, 2, 3])), shape=(4, 4))
    found = sr.closure(A, method="johnson")
    np.testing.assert_array_equal(found[0], [0, 1.5e308, np.inf, np.inf])


@pytest.mark.full
def test_what_a_search_touched_is_forgotten(rng):
    """A thread uses one workspace for all sources, and searches that end early leave a queue in it."""
    graph, A, semiring = random_searches(rng, 40, 160, "min_plus")
    D = close(A, semiring)
    for source in range(40):
        order = np.full(40, source)
        order[::2] = rng.integers(0, 40, 20)
        np.testing.assert_allclose(graph.search_table(order, np.array([source]))[0][:, 0], D[order, source])
        starts, _, _ = graph.search_near(order, 1.0)
        np.testing.assert_array_equal(np.diff(starts), (D[order] <= 1.0).sum(axis=1))


def test_which_weights_it_is_for():
    inf = np.inf
    for name, good, bad in (
        ("min_plus", [0.0, 3.0, inf], -1e-300),
        ("max_plus", [0.0, -3.0, -inf], 1e-300),
        ("max_times", [0.0, 0.5, 1.0], 1.0000001),
        ("min_times", [1.0, 2.0, inf], 0.5),
    ):
        semiring = as_semiring(name)
        assert never_improves(semiring, np.array(good))
        assert not never_improves(semiring, np.array([*good, bad]))
    assert never_improves(as_semiring("max_min"), np.array([-5.0, 5.0]))
    assert not never_improves(as_semiring("plus_times"), np.array([0.5]))
    assert not never_improves(as_semiring("log_plus"), np.array([-0.5]))


def test_an_acyclic_graph_settles_in_one_sweep_and_every_other_at_the_same_potentials(monkeypatch, rng):
    """The graph is a plan of many tasks in a row, for which sweeps alone would be as many as tasks."""
    swept = []
    sweep = algorithm.Labels.sweep
    monkeypatch.setattr(algorithm.Labels, "sweep", lambda self: swept.append(1) or sweep(self))
    n = 2500
    place, later = rng.permutation(n), rng.integers(0, n, (2, 2 * n))
    later = later[:, later[0] < later[1]]
    ends = np.concatenate([[np.arange(n - 1), np.arange(1, n)], later], axis=1)
    weights = -rng.random(ends.shape[1])
    plan = algorithm.sparse_graph(sparse.coo_array((weights, place[ends]), shape=(n, n)), 1)
    h = algorithm.edge_potentials(plan)
    assert len(swept) == 1
    expected = np.zeros(n)
    order = np.argsort(ends[0], kind="stable")
    for i, j, w in zip(*ends[:, order].tolist(), weights[order].tolist(), strict=True):
        expected[j] = min(expected[j], expected[i] + w)
    np.testing.assert_allclose(h[place], expected, rtol=1e-12)
    tails, heads = rng.integers(0, n, (2, 3 * n))
    heights = rng.normal(size=n)
    given = sparse.coo_array(
        (heights[heads] - heights[tails] + rng.integers(0, 2, 3 * n), (tails, heads)), shape=(n, n)
    )
    graph = algorithm.sparse_graph(given, 1)
    found = algorithm.edge_potentials(graph)
    monkeypatch.setattr(algorithm, "_MIN_ORDERED", n + 1)
    assert algorithm.edge_potentials(graph).tobytes() == found.tobytes()
