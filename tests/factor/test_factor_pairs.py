"""Test entries of A* for lists of pairs against the closure, tables and Dijkstra."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from test_factor import CASES, agree, grid, random_matrix

import semiring as sr
from semiring.errors import DivergenceError, ShapeError, VertexError
from semiring.sparse import placement as pairs_module


@pytest.fixture(params=["from the ends", "from the roots"])
def label_method(request, monkeypatch):
    """Find labels in the way of that name, whatever they cost."""
    monkeypatch.setattr(pairs_module, "_CHEAP_OPERATIONS", -1 if request.param == "from the roots" else 1 << 62)
    if request.param == "from the roots":
        monkeypatch.setattr(pairs_module._PairJoin, "count_climbs", lambda self: 1 << 62)
    return request.param


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize(("semiring", "dtype"), CASES)
def test_pairs_against_the_dense_closure(rng, semiring, dtype, label_method, monkeypatch):
    algebra = sr.as_semiring(semiring)
    exact = dtype not in ("float64", "float32") or algebra.name in ("min_plus", "max_plus", "max_min", "min_max")
    for case in range(2):
        monkeypatch.setattr(pairs_module, "_MAX_PARTIAL_SUMS", (1 << 25, 40)[case])
        monkeypatch.setattr(pairs_module, "_MAX_LABEL_BYTES", (1 << 28, 2000)[case])
        for n in (1, 2, 7, 33, 70, 150):
            A = random_matrix(rng, semiring, dtype, n)
            try:
                D, F = sr.closure(A, semiring), sr.factor(A, semiring)
            except DivergenceError:
                continue
            for count in (1, 3, 400):
                sources, targets = rng.integers(0, n, (2, count))
                agree(F.distances(sources, targets), D[sources, targets], exact)


@pytest.mark.parametrize("directed", [False, True])
def test_pairs_of_a_grid(rng, directed, label_method):
    A = grid(rng, 40, "float32", directed=directed)
    F = sr.factor(A)
    some = np.unique(rng.integers(0, 1600, 300))  # few, because SciPy searches from each of them
    sources, targets = rng.choice(some, 3000), rng.integers(0, 1600, 3000)
    expected = dijkstra(A.astype(float), indices=some)[np.searchsorted(some, sources), targets]
    with sr.profile() as profile:
        found = F.distances(sources, targets)
    assert np.array_equal(found, expected)
    assert found.dtype == np.float32
    assert np.array_equal(F.distances(sources[:40], targets[:40]), F.table(sources[:40], targets[:40]).diagonal())
    assert f"pairs 3000 {label_method}" in str(profile)
    with sr.threads(1):
        assert np.array_equal(F.distances(sources, targets), found)


def test_the_cheaper_way_is_taken(rng):
    A = grid(rng, 60)
    F = sr.factor(A)
    for count, way in ((10, "from the ends"), (30_000, "from the roots")):
        with sr.profile() as profile:
            F.distances(*rng.integers(0, 3600, (2, count)))
        assert way in str(profile)


def test_a_wide_pivot_block_comes_in_slices(rng, label_method):
    """Labels of 32 pivots are computed together in float64. The last supernode of a dense graph has 90."""
    A = rng.integers(1, 99, (90, 90)).astype(float)
    sources, targets = rng.integers(0, 90, (2, 500))
    assert np.array_equal(sr.factor(A).distances(sources, targets), sr.closure(A)[sources, targets])
    small = rng.random((90, 90)) / 100
    inverse = np.linalg.inv(np.eye(90) - small)
    np.testing.assert_allclose(
        sr.factor(small, "plus_times").distances(sources, targets), inverse[sources, targets], rtol=1e-12
    )


def test_other_trees_are_not_reached(label_method):
    A = csr_array(([5, 7, 7], ([0, 2, 3], [1, 3, 2])), shape=(5, 5), dtype=np.int32)
    none = np.iinfo(np.int32).max
    F = sr.factor(A)
    assert F.distances([0, 1, 0, 2, 4, 4, 3], [1, 0, 3, 3, 4, 0, 2]).tolist() == [5, none, none, 7, 0, none, 7]
    assert F.distances([0], [4]).tolist() == [none]


def test_negative_weights(rng, label_method):
    """Distances of pairs are right under potentials, exact ones too."""
    A = grid(rng, 15, high=3, directed=True).tocoo()
    h = 9 * rng.normal(size=225)
    A.data = A.data + h[A.col] - h[A.row]
    sources, targets = rng.integers(0, 225, (2, 300))
    F = sr.factor(A)
    assert F._shift is not None
    np.testing.assert_allclose(F.distances(sources, targets), F.closure()[sources, targets], rtol=1e-12)
    drowned = np.full((4, 4), np.inf)
    drowned[0, 1], drowned[1, 2], drowned[2, 3], drowned[3, 0] = 1e17, -1, -1e17, 0.5
    exact = sr.factor(drowned)
    assert exact._exact is not None
    sources, targets = np.divmod(rng.permutation(16), 4)
    assert np.array_equal(exact.distances(sources, targets), exact.closure()[sources, targets])


def test_names_and_errors():
    nx = pytest.importorskip("networkx")
    G = nx.Graph()
    G.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
    F = sr.factor(G)
    assert F.distances(["Ulm", "Jena", "Ulm"], ["Jena", "Kiel", "Ulm"]).tolist() == [11, 4, 0]
    assert F.distances([], []).shape == (0,)
    with pytest.raises(VertexError, match="did you mean Kiel"):
        F.distances(["Ulm"], ["Kile"])
    with pytest.raises(TypeError, match=r"give \['Ulm'\]"):
        F.distances("Ulm", ["Kiel"])
    with pytest.raises(ShapeError, match="2 sources and 1 target: give two lists of one length, or call table"):
        F.distances(["Ulm", "Jena"], ["Kiel"])
    with pytest.raises(VertexError, match="vertex 9"):
        sr.factor(np.zeros((2, 2), np.float32) + 1).distances([0], np.array([9]))


def test_queries_share_their_solvers(rng, monkeypatch):
    """Making a solver takes longer than a query of some pairs, so a factor keeps those that it has made."""
    made, sweeps = [], pairs_module.HostPlacement.sweeps
    monkeypatch.setattr(pairs_module.HostPlacement, "sweeps", lambda _, *a, **k: made.append(k) or sweeps(*a, **k))
    A = grid(rng, 9, "float64", directed=True)
    F = sr.factor(A, threads=2)
    expected = sr.closure(A)
    for start in range(3):
        np.testing.assert_allclose(F.distances([start, 4], [50, 8]), expected[[start, 4], [50, 8]])
        np.testing.assert_allclose(F.distance(start, 7), expected[start, 7])
        np.testing.assert_allclose(F.solve(expected[:, start]), expected[:, start])
    assert len(made) == 2
    again = pickle.loads(pickle.dumps(F))
    assert again.distance(0, 7) == F.distance(0, 7)
