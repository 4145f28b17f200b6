"""Strong components in topological order, and the closure of a block triangular matrix from those of its blocks."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from tiers import full, quick

import semiring as sr
from semiring.algebra.catalogue import min_plus
from semiring.graphs import strongly_connected
from semiring.graphs.strongly_connected import (
    Components,
    join_components,
    permute,
    strong_components,
    strong_components_of_lists,
    strong_components_of_sparse,
    strong_components_of_words,
)
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.graphs.edge_scan import list_edges


def random_edges(rng, n):
    """Return a random graph, from no edges to many, sometimes a chain of components."""
    edges = rng.random((n, n)) < rng.random() * 4 / n
    if rng.random() < 0.3:
        edges = np.triu(edges)
    order = rng.permutation(n)
    return edges[np.ix_(order, order)]


def check_numbering(edges, components):
    """Check that components are contiguous, in order, hold every vertex once, and no edge leads to a lower one."""
    n = len(edges)
    assert sorted(components.order.tolist()) == list(range(n))
    assert components.bounds[0] == 0
    assert components.bounds[-1] == n
    number = np.empty(n, int)
    for k in range(len(components)):
        vertices = components.order[components.bounds[k] : components.bounds[k + 1]]
        assert vertices.size
        assert (np.diff(vertices) > 0).all()
        number[vertices] = k
    reach = oracles.reachable(edges)
    np.testing.assert_array_equal(reach & reach.T, number[:, np.newaxis] == number)
    tails, heads = np.nonzero(edges)
    assert (number[tails] <= number[heads]).all()


@pytest.mark.parametrize("form", ["dense", "unconnected", "words", "packed", "listed", "sparse"])
def test_components_are_numbered_in_topological_order(rng, form, monkeypatch):
    from scipy.sparse import csr_array

    if form == "unconnected":  # both quick answers are refused
        monkeypatch.setattr(strongly_connected, "_ROUNDS", 0)
        monkeypatch.setattr(strongly_connected, "_SWEEPS", 0)
    for n in [*range(1, 12), 33, 64, 100]:
        for _ in range(6):
            edges = random_edges(rng, n)
            A = np.where(edges, 1.0, np.inf)
            if form == "words":
                found = strong_components_of_words(sr.pack(edges).words, n)
            elif form == "packed":
                found = strong_components(sr.pack(~edges), True)
            elif form == "listed":
                found = strong_components_of_lists(*list_edges(sr.pack(edges).words, edges.sum()))
            elif form == "sparse":
                found = strong_components_of_sparse(csr_array(edges))
            else:
                found = strong_components(A, np.inf)
            check_numbering(edges, found)
            check_apart(edges, found)


def check_apart(edges, components):
    """Check that every weak component begins where it says, and no edge leads from one to another."""
    weak = np.empty(len(edges), int)
    ends = components.bounds[components.weak]
    for k in range(len(components.weak) - 1):
        weak[components.order[ends[k] : ends[k + 1]]] = k
    both = oracles.reachable(edges | edges.T)
    np.testing.assert_array_equal(both, weak[:, np.newaxis] == weak)


def test_components_of_nothing():
    from scipy.sparse import csr_array

    for found in (
        strong_components(np.empty((0, 0)), np.inf),
        strong_components_of_words(np.empty((0, 0), np.uint32), 0),
        strong_components_of_sparse(csr_array((0, 0))),
    ):
        assert len(found) == 0
        assert found.groups() == []


def test_one_component_is_left_in_its_order(rng):
    for n in (1, 2, 40, 300):
        A = np.full((n, n), np.inf)
        ring = rng.permutation(n)
        A[ring, np.roll(ring, 1)] = 1.0
        found = strong_components(A, np.inf)
        assert len(found) == 1
        np.testing.assert_array_equal(found.order, np.arange(n))


def test_groups_hold_the_components_of_each_size():
    ones, threes = Components(np.arange(9), np.array([0, 1, 4, 5, 6, 9]), np.array([0, 5])).groups()
    assert ones.tolist() == [[0], [4], [5]]
    assert threes.tolist() == [[1, 2, 3], [6, 7, 8]]


@pytest.mark.parametrize(
    "dtype",
    quick(
        lambda dtype: dtype == "float64",
        full(lambda dtype: dtype in ("uint8", "float64"), ["uint8", "int16", "float32", "float64"]),
    ),
)
def test_permuting_moves_chains_of_rows(rng, dtype):
    for n in (1, 6, 7, 30, 65):
        for order in (rng.permutation(n), np.arange(n), np.roll(np.arange(n), 1)):
            A = rng.integers(0, 100, (n, n)).astype(dtype)
            expected = A[np.ix_(order, order)]
            D = A.copy()
            permute(D, order)
            np.testing.assert_array_equal(D, expected)
            permute(D, np.argsort(order))
            np.testing.assert_array_equal(D, A)
            strided = np.zeros((n, 2 * n), dtype)[:, :n]
            permute(strided, order, source=A.T)
            np.testing.assert_array_equal(strided, expected.T)


def test_edges_of_words_are_listed(rng):
    """Edges in whole vectors of words and in the end of a row are listed, and more than the limit gives none."""
    for n in (1, 31, 32, 90, 1024, 1100):
        edges = rng.random((n, n)) < 2 / n
        starts, heads = list_edges(sr.pack(edges).words, n * n)
        tails, expected = np.nonzero(edges)
        np.testing.assert_array_equal(heads, expected)
        np.testing.assert_array_equal(np.repeat(np.arange(n), np.diff(starts)), tails)
        if tails.size:
            assert list_edges(sr.pack(edges).words, tails.size - 1)[0][-1] == -1


@pytest.mark.parametrize("block", [1, 8, 64])
def test_closed_blocks_are_joined(rng, block, monkeypatch):
    """Whole numbers of both signs give exactly the closure, and leave the closed blocks bit for bit as they were."""
    monkeypatch.setattr(strongly_connected, "_RUN", block)
    monkeypatch.setattr(strongly_connected, "_LEAF", block)
    monkeypatch.setattr(strongly_connected, "_FACTOR", block)
    for n in (1, 2, 5, 20, 60):
        for _ in range(5):
            edges = random_edges(rng, n)
            found = strong_components(np.where(edges, 1.0, np.inf), np.inf)
            number = np.empty(n, int)
            number[found.order] = np.repeat(np.arange(len(found)), np.diff(found.bounds))
            same = number[:, np.newaxis] == number
            weights = np.where(same, rng.integers(0, 9, (n, n)), rng.integers(-9, 9, (n, n)))
            A = np.where(edges, weights, np.inf).astype(np.float32)
            A[np.diag_indices(n)] = np.where(
                np.repeat(found.sizes, found.sizes)[np.argsort(found.order)] > 1, A.diagonal(), 0
            )
            D = A.copy()
            permute(D, found.order)
            for low, high in zip(found.bounds, found.bounds[1:], strict=False):
                D[low:high, low:high] = oracles.closure(D[low:high, low:high], "min_plus")
            blocks = D.copy()
            plan = make_plan(min_plus, D.dtype)
            join_components(Engine(backend_for(D, min_plus, D.dtype), plan), D, found, found.sizes > 1)
            inside = same[np.ix_(found.order, found.order)]
            np.testing.assert_array_equal(D[inside], blocks[inside])
            permute(D, np.argsort(found.order))
            np.testing.assert_array_equal(D, oracles.closure(A, "min_plus"))
