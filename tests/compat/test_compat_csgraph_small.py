"""Test graphs of few vertices in `semiring.compat.csgraph`, from every form, each way, with SciPy as the oracle."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
import scipy.sparse.csgraph as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compat_csgraph import NAMES, backend_choice, check_paths, compare
from tiers import full

import semiring.compat.csgraph as ours

__all__ = ["backend_choice"]  # a fixture

inf, nan = np.inf, np.nan


def weighted_graph(n, edges, seed, *, signed):
    """Return (n, n) float64, 0 for no edge: random edges without a negative cycle, and a chain against the order."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, n, (2, edges * n))
    A = np.zeros((n, n))
    A[rows, columns] = rng.uniform(1, 9, rows.size)
    A[np.arange(1, n), np.arange(n - 1)] = 0.5
    np.fill_diagonal(A, 0)
    h = 3 * rng.standard_normal(n) if signed else np.zeros(n)
    return np.where(A != 0, A + h[:, np.newaxis] - h, 0.0)


FORMS = [np.asarray, np.asfortranarray, lambda A: np.ma.masked_equal(A, 0), np.ndarray.tolist]
FORMS += [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array]


@pytest.mark.full
@pytest.mark.parametrize("signed", [False, True], ids=["positive", "signed"])
@pytest.mark.parametrize(
    ("n", "edges"),
    full(lambda n, edges: (n, edges) not in ((2, 1), (64, 60)), [(1, 1), (2, 1), (3, 2), (17, 3), (64, 3), (64, 60)]),
)
def test_graphs_of_few_vertices_are_those_of_scipy(backend_choice, n, edges, signed):
    A = weighted_graph(n, edges, n, signed=signed)
    for form in FORMS:
        graph = form(A)
        for name in NAMES[:2]:
            if name == "floyd_warshall" and getattr(graph, "format", "csr") == "coo":
                continue  # an error of SciPy
            for pointers in (False, True):
                found = getattr(ours, name)(graph, return_predecessors=pointers)
                D, P = found if pointers else (found, None)
                np.testing.assert_allclose(D, theirs.johnson(A), rtol=1e-12, atol=1e-12)
                if pointers:
                    check_paths(D, P, np.where(A != 0, A, inf), range(n))


@pytest.mark.parametrize(
    "options", [{}, {"directed": False}, {"overwrite": True}, {"return_predecessors": True}, {"indices": [0]}]
)
@pytest.mark.parametrize("n", [4, 40])
def test_frames_are_closed(backend_choice, n, options):
    """Frames have memory in Fortran's order, in which SciPy 1.17 returns the graph unchanged."""
    A = weighted_graph(n, 2, n, signed=False)
    frame = pd.DataFrame(A)
    expected = theirs.johnson(A, options.get("directed", True), options.get("indices"))
    for function in (ours.shortest_path, *([ours.floyd_warshall] if "indices" not in options else [])):
        found = function(frame, **options)
        np.testing.assert_allclose(found[0] if "return_predecessors" in options else found, expected, rtol=1e-12)
        assert (frame.to_numpy() == A).all()


@pytest.mark.parametrize("signed", [False, True], ids=["positive", "signed"])
@pytest.mark.parametrize("n", [2, 40, 65, 130])
@pytest.mark.parametrize("directed", [True, False])
def test_a_few_sources_are_those_of_scipy(backend_choice, n, signed, directed):
    A = weighted_graph(n, 2, n, signed=signed and directed)
    for indices in (0, np.int64(n - 1), [-1, 0], np.arange(max(1, n // 8))[:, np.newaxis]):
        expected = theirs.johnson(A, directed, indices)
        sources = np.atleast_1d(indices).reshape(-1) % n
        edges = np.where(A != 0, A, inf)
        for graph in (A, sparse.csr_array(A), sparse.csc_array(A)):
            D, P = ours.johnson(graph, directed, indices, return_predecessors=True)
            assert D.shape == P.shape == expected.shape
            np.testing.assert_allclose(D, expected, rtol=1e-12, atol=1e-12)
            check_paths(D.reshape(-1, n), P.reshape(-1, n), edges if directed else np.minimum(edges, edges.T), sources)
            np.testing.assert_allclose(ours.johnson(graph, directed, indices), D, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", [st.floats(1e-3, 1e3), st.integers(0, 3).map(float)], ids=["floats", "zeros"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sums_of_weights_from_a_few_sources_are_those_of_dijkstra_to_the_last_bit(weights, data):
    n = data.draw(st.integers(8, 20))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = data.draw(st.dictionaries(pairs, weights, max_size=60))
    rows, columns = np.array(list(edges), dtype=np.int32).reshape(-1, 2).T
    graph = sparse.coo_array((np.array(list(edges.values()), dtype=float), (rows, columns)), shape=(n, n)).tocsr()
    found = ours.johnson(graph, indices=1)
    np.testing.assert_array_equal(found, theirs.dijkstra(graph, indices=1))
    np.testing.assert_array_equal(ours.johnson(graph, indices=1, return_predecessors=True)[0], found)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rounding_makes_no_cycle_of_predecessors(backend_choice, form, name):
    graph = np.zeros((3, 3))
    graph[0, 1], graph[1, 2], graph[2, 1] = 0.9, 1, -1  # (0.9 + 1) - 1 is less than 0.9
    D, P = getattr(ours, name)(form(graph), return_predecessors=True)
    check_paths(D, P, np.where(graph != 0, graph, inf), range(3))
    D, P = ours.johnson(form(graph), indices=[0], return_predecessors=True)
    check_paths(D, P, np.where(graph != 0, graph, inf), range(1))


def csr_of(weights, columns, first, n):
    graph = sparse.csr_array((n, n))
    graph.data, graph.indices, graph.indptr = np.array(weights), np.array(columns, np.int32), np.array(first, np.int32)
    return graph


ODD = {
    "a stored NaN": csr_of([1.0, nan], [1, 0], [0, 1, 2], 2),
    "a stored ∞": csr_of([1.0, inf], [1, 0], [0, 1, 2], 2),
    "a negative cycle": csr_of([1.0, -2.0], [1, 0], [0, 1, 2], 2),
    "64-bit indices": sparse.csr_array((np.array([1.0]), (np.array([0]), np.array([1]))), shape=(2, 2)),
    "parallel edges": sparse.coo_array((np.array([1.0, 2.0]), ([0, 0], [1, 1])), shape=(2, 2)),
}
ODD["64-bit indices"].indices = ODD["64-bit indices"].indices.astype(np.int64)


@pytest.mark.parametrize("graph", ODD)
def test_what_is_not_plain_is_what_scipy_makes_of_it(backend_choice, graph):
    for indices in (None, 0):
        compare(
            "johnson",
            ODD[graph],
            None if indices is None else [0],
            indices=indices,
            directed=True,
            unweighted=False,
            return_predecessors=True,
        )


def test_one_small_graph_does_not_start_the_compiler():
    code = """
import sys, numpy as np, semiring.compat.csgraph as csgraph
from scipy.sparse import csr_array
A = np.array([[0, 3.0], [1.0, 0]])
for graph in (A, csr_array(A), A.astype(int)):
    for name in ("floyd_warshall", "johnson", "shortest_path"):
        assert getattr(csgraph, name)(graph)[0, 1] == 3
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
