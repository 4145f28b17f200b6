"""Condensations, transitive reductions, and matrices of bits from edges and back, against NetworkX and NumPy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import semiring as sr
from semiring import BitMatrix, pack


def reachable(A):
    found = A | np.eye(len(A), dtype=bool)
    for _ in range(len(A).bit_length()):
        found = found.astype(np.float32) @ found.astype(np.float32) > 0
    return found


@pytest.mark.parametrize("degree", [1.2, *(pytest.param(degree, marks=pytest.mark.full) for degree in (0.5, 3))])
@pytest.mark.parametrize("form", [np.asarray, pack, csr_array])
def test_components_and_questions(degree, form, rng):
    for n in (1, 2, 20, 90):
        A = rng.random((n, n)) < degree / n
        found, expected = sr.condensation(form(A)), reachable(A)
        parts = {frozenset(found.members(k).tolist()) for k in range(len(found))}
        graph = nx.from_numpy_array(A, create_using=nx.DiGraph)
        assert parts == {frozenset(part) for part in nx.strongly_connected_components(graph)}
        assert all((found.component[found.members(k)] == k).all() for k in range(len(found)))
        tails, heads = found.graph.nonzero()
        assert (tails < heads).all()
        between = np.zeros((len(found), len(found)), bool)
        i, j = np.nonzero(A)
        between[found.component[i], found.component[j]] = True
        np.fill_diagonal(between, False)
        np.testing.assert_array_equal(found.graph.toarray(), between)
        np.testing.assert_array_equal(found.reaches(np.arange(n), np.arange(n)), expected)
        assert found.reaches(0, n - 1) == expected[0, n - 1]
        np.testing.assert_array_equal(found.reaches([n - 1], 0), expected[[n - 1], 0])
        assert found.reaches([], [0]).shape == (0, 1)


@pytest.mark.full
def test_more_sources_than_are_followed_at_once(rng):
    A = rng.random((700, 700)) < 0.002
    found = sr.condensation(A)
    np.testing.assert_array_equal(found.reaches(np.arange(700), [3, 600]), reachable(A)[:, [3, 600]])


def test_stored_entries_are_edges_and_stored_false_is_none():
    numbers = csr_array((np.zeros(1), ([0], [1])), shape=(2, 2))
    assert sr.condensation(numbers).reaches(0, 1)
    assert not sr.condensation(csr_array((np.zeros(1, bool), ([0], [1])), shape=(2, 2))).reaches(0, 1)
    assert len(sr.condensation(csr_array((0, 0)))) == 0


def test_what_names_its_vertices_is_asked_by_name():
    graph = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    frame = pd.DataFrame({"from": ["a", "b", "b"], "to": ["b", "a", "c"], "km": [0.0, 1.0, 2.0]})
    for given in (graph, frame, sr.as_network(graph), sr.as_network(graph, "max_min")):
        found = sr.condensation(given)
        assert found.names == ("a", "b", "c")
        assert (found.members(0), found.members(1)) == (["a", "b"], ["c"])
        assert found.reaches("a", "c")
        assert found.reaches(["c", "b"], ["a", "c"]).tolist() == [[False, True], [True, True]]
        with pytest.raises(sr.errors.VertexError, match="no vertex is named 'z'"):
            found.reaches("z", "a")
    undirected = sr.condensation(nx.Graph([((0, 1), (1, 1)), ((2, 2), (3, 3))]))
    assert (len(undirected), undirected.graph.nnz) == (2, 0)
    assert undirected.reaches((1, 1), [(0, 1), (3, 3)]).tolist() == [True, False]


def test_what_condensation_refuses():
    with pytest.raises(sr.errors.DTypeError, match="say which entries are edges"):
        sr.condensation(np.ones((2, 2)))
    with pytest.raises(sr.errors.ShapeError, match=r"\(2, 3\)"):
        sr.condensation(np.ones((2, 3), bool))
    found = sr.condensation(np.eye(3, dtype=bool))
    for question in ((3, 0), (0, -1), ([0.5], 0), ([[0]], 0)):
        with pytest.raises(sr.errors.VertexError):
            found.reaches(*question)
    with pytest.raises(sr.errors.VertexError, match="component 3"):
        found.members(3)


@pytest.mark.parametrize("n", [0, 1, 33, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 70))])
def test_transitive_reductions(n, rng):
    for density in (0.03, 0.3, 1):
        order = rng.permutation(n)
        A = np.triu(rng.random((n, n)) < density, 1)[np.ix_(order, order)]
        found = sr.transitive_reduction(A)
        expected = nx.transitive_reduction(nx.from_numpy_array(A, create_using=nx.DiGraph))
        np.testing.assert_array_equal(found, nx.to_numpy_array(expected, nodelist=range(n), dtype=bool) if n else A)
        assert sr.transitive_reduction(pack(A)) == pack(found)
        assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_reductions_of_graphs_with_cycles(n, rng):
    """A reduction has the closure of its graph, and loses it with any edge. A component keeps one cycle."""
    for density in (0.5, 1, 2):
        A = rng.random((n, n)) < density / n
        found = sr.transitive_reduction(A)
        reached = sr.closure(A, "boolean", reflexive=False)
        np.testing.assert_array_equal(sr.closure(found, "boolean", reflexive=False), reached)
        for edge in map(tuple, np.argwhere(found)):
            fewer = found.copy()
            fewer[edge] = False
            assert (sr.closure(fewer, "boolean", reflexive=False) != reached).any()
        assert sr.transitive_reduction(pack(A)) == pack(found)
    cycle = np.roll(np.eye(n, dtype=bool), 1, axis=1)
    np.testing.assert_array_equal(sr.transitive_reduction(np.ones((n, n), bool)), cycle)


def test_the_reduction_of_a_rectangle_is_refused():
    with pytest.raises(sr.errors.ShapeError, match="square"):
        sr.transitive_reduction(np.ones((2, 3), bool))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (5, 33), (70, 64)])
def test_bits_from_edges_and_back(shape, rng):
    A = rng.random(shape) < 0.2
    tails, heads = np.nonzero(A)
    order = rng.permutation(np.repeat(np.arange(len(tails)), 2))
    found = BitMatrix.from_edges(tails[order].astype(np.int32), heads[order].astype(np.uint16), shape)
    assert found == pack(A)
    for entries in (1, 100, 1 << 20):
        parts = list(found.edges(entries))
        for ends, expected in zip(zip(*parts, strict=True), (tails, heads), strict=False):
            np.testing.assert_array_equal(np.concatenate(ends), expected)


def test_what_from_edges_refuses():
    with pytest.raises(sr.errors.VertexError, match="tails have 2"):
        BitMatrix.from_edges([2], [0], (2, 2))
    with pytest.raises(sr.errors.VertexError, match="heads have -1"):
        BitMatrix.from_edges([0], [-1], (2, 2))
    with pytest.raises(sr.errors.DTypeError, match="float64"):
        BitMatrix.from_edges([0.0], [0], (2, 2))
    with pytest.raises(sr.errors.ShapeError, match="one length"):
        BitMatrix.from_edges([0, 1], [0], (2, 2))


def test_the_reduction_of_what_names_its_vertices():
    edges = [("a", "b", 7), ("b", "c", 0), ("a", "c", 1)]
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges)
    frame = pd.DataFrame(edges, columns=["from", "to", "km"])
    square = pd.DataFrame(np.triu(np.ones((3, 3), bool), 1), index=list("abc"), columns=list("abc"))
    for given in (graph, frame, sr.as_network(graph, "min_plus")):
        found = sr.transitive_reduction(given)
        assert isinstance(found, sr.Network)
        assert {(found.names[i], found.names[j]) for i, j in np.argwhere(found.matrix)} == {("a", "b"), ("b", "c")}
    expected = pd.DataFrame([[0, 1, 0], [0, 0, 1], [0, 0, 0]], list("abc"), list("abc")) > 0
    pd.testing.assert_frame_equal(sr.transitive_reduction(square), expected)
    graph.add_edge("c", "a", weight=1)
    found = sr.transitive_reduction(graph)
    assert {(found.names[i], found.names[j]) for i, j in np.argwhere(found.matrix)} == {*zip("abc", "bca", strict=True)}


def test_frames_of_truths_and_what_is_none():
    square = pd.DataFrame(np.triu(np.ones((3, 3), bool), 1), index=list("abc"), columns=list("abc"))
    found = sr.condensation(square)
    assert found.reaches("a", "c")
    assert not found.reaches("c", "a")
    with pytest.raises(sr.errors.FormatError, match=r"columns=\(SOURCE, TARGET\)"):
        sr.condensation(pd.DataFrame({"x": ["p"], "y": ["q"]}))
    with pytest.raises(sr.errors.FormatError, match="abc: the ending names no known format"):
        sr.condensation("abc")
