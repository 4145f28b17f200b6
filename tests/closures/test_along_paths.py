"""Test `Paths.hops` and `Paths.total`: they are those of the paths that `Paths.path` returns."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring.paths import along_paths

inf = np.inf
FOLDS = {"sum": sum, "product": prod, "min": min, "max": max}


def walk(P, i, j):
    try:
        return P.path(i, j)
    except sr.NoPathError:
        return None


def check(P, W, rows, columns):
    """Compare hops and every fold of W with the edges of each path."""
    hops, totals = P.hops(), {name: P.total(W, name) for name in FOLDS}
    for i, source in enumerate(rows):
        for j, target in enumerate(columns):
            path = walk(P, source, target)
            assert hops[i, j] == (-1 if path is None else len(path) - 1)
            edges = [] if path is None else [W[u, v] * 1 for u, v in pairwise(path)]
            for name, fold in FOLDS.items():
                value = totals[name][i, j]
                if edges or (path is not None and name in ("sum", "product")):
                    assert value == pytest.approx(fold(edges), rel=1e-6)
                else:
                    assert value is np.ma.masked or value != value


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("name", ["min_plus", "max_min", "boolean"])
def test_hops_and_totals_are_those_of_the_paths(name, dtype, rng):
    for n in (1, 2, 5, 8, 40):
        A = np.where(rng.random((n, n)) < 3 / (n + 2), rng.integers(0, 4, (n, n)), inf)
        A = {"min_plus": A, "max_min": np.where(inf == A, -inf, A), "boolean": inf > A}[name]
        W = rng.integers(-3, 5, (n, n)).astype(dtype)
        for options in ({}, {"predecessors": False}, {"sources": range(n)}, {"sources": [0], "targets": [n - 1, 0]}):
            ends = options.get("sources", range(n)), options.get("targets", range(n))
            check(sr.best_paths(A, name, **options), W, *ends)
        if name == "boolean":
            check(sr.transitive_closure(A, reflexive=False), W, range(n), range(n))


def test_other_forms_of_the_weights(rng):
    import pandas as pd

    A, W = rng.random((6, 6)), rng.integers(1, 9, (6, 6))
    P = sr.shortest_paths(pd.DataFrame(A, list("abcdef"), list("abcdef")))
    expected, order = P.total(W), [3, 1, 0, 5, 4, 2]
    frame = pd.DataFrame(W, list("abcdef"), list("abcdef")).iloc[order, order]
    for other in (scipy.sparse.csr_array(W), W.tolist(), frame):
        np.testing.assert_array_equal(P.total(other), expected)
    limited = sr.shortest_paths(A, limit=0.4)
    stored = limited.matrix.tocoo()
    whole = sr.shortest_paths(A)
    for sparse, dense in ((limited.hops(), whole.hops()), (limited.total(W), whole.total(W))):
        np.testing.assert_array_equal(sparse.toarray()[stored.row, stored.col], dense[stored.row, stored.col])
        assert sparse.nnz == stored.nnz


def test_a_backend_without_the_kernel_doubles_pointers(rng, monkeypatch):
    A = np.where(rng.random((70, 70)) < 0.05, rng.random((70, 70)), inf)
    A[np.arange(69), np.arange(1, 70)] = 1.0
    P, W = sr.shortest_paths(A), rng.integers(0, 9, (70, 70))
    expected = P.hops(), P.total(W), P.total(W / 7, "max")
    monkeypatch.setattr(along_paths, "has_operation", lambda *_: False)
    for found, value in zip((P.hops(), P.total(W), P.total(W / 7, "max")), expected, strict=True):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("has_kernel", [True, False])
@pytest.mark.parametrize("circle", [[1, 2], [1, 2, 3], [1]])
def test_changed_predecessors_are_refused(circle, has_kernel, monkeypatch):
    P = sr.shortest_paths(np.ones((5, 5)))
    for vertex, before in zip(circle, circle[1:] + circle[:1], strict=True):
        P.predecessors[0, vertex] = before
    if not has_kernel:
        monkeypatch.setattr(along_paths, "has_operation", lambda *_: False)
    for call in (P.hops, lambda: P.total(np.ones((5, 5)))):
        with pytest.raises(ValueError, match="lead in a circle"):
            call()


def test_values_that_would_be_wrong_are_refused():
    P, W = sr.shortest_paths([[inf, 1, inf], [inf, inf, 1], [inf, inf, inf]]), np.full((3, 3), 2**62)
    with pytest.raises(sr.IntegerOverflowError, match="a sum of W"):
        P.total(W)
    with pytest.raises(sr.IntegerOverflowError, match="a product of W"):
        P.total(W // 2**20, "product")
    assert P.total(W // 2)[0, 2] == 2**62
    W = np.full((3, 3), np.nan)
    with pytest.raises(sr.DomainError, match="NaN at an edge"):
        P.total(W)
    W[0, 1] = W[1, 2] = 2.0  # other entries are not read
    assert P.total(W)[0, 2] == 4
    for wrong, error in ((W[:2], sr.ShapeError), ("abc", sr.ShapeError), (W * 1j, sr.DTypeError)):
        with pytest.raises(error):
            P.total(wrong)
    with pytest.raises(sr.UnknownNameError, match="max, min, product, sum"):
        P.total(W, "mean")


def test_the_matrices_of_brain_networks(rng):
    """Distances, hops and the next vertices are those of bctpy's ``distance_wei_floyd``, whose loop is below."""
    n = 60
    weights = np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), 0)
    A = np.where(weights > 0, 1 / np.maximum(weights, 1e-9), inf)
    lengths, edges, following = A.copy(), (weights != 0).astype(float), np.tile(np.arange(n), (n, 1))
    for k in range(n):
        through = lengths[:, [k]] + lengths[[k], :]
        i, j = np.nonzero(lengths > through)
        edges[i, j] = edges[i, k] + edges[k, j]
        following[i, j] = following[i, k]
        lengths = np.minimum(lengths, through)
    for matrix in (lengths, edges, following):
        np.fill_diagonal(matrix, 0)
    P = sr.shortest_paths(A)
    np.testing.assert_allclose(P.matrix, lengths)
    connected = P.reachable
    np.testing.assert_array_equal(P.hops()[connected], edges[connected])
    backwards = sr.shortest_paths(A.T).predecessors.T  # the vertex after i on the path to j
    pairs = connected & ~np.eye(n, dtype=bool)
    np.testing.assert_array_equal(backwards[pairs], following[pairs])


@pytest.mark.parametrize("options", [{}, {"predecessors": False}, {"sources": [2, 0]}, {"targets": [1]}])
def test_stacks_give_the_results_of_their_matrices(options, rng):
    A = np.where(rng.random((2, 3, 7, 7)) < 0.3, rng.random((2, 3, 7, 7)), inf)
    P, W = sr.shortest_paths(A, **options), rng.integers(0, 9, (2, 3, 7, 7))
    hops, common, own = P.hops(), P.total(W[0, 0] / 7), P.total(W)
    for index in np.ndindex(2, 3):
        one = sr.shortest_paths(A[index], **options)
        np.testing.assert_array_equal(hops[index], one.hops())
        np.testing.assert_array_equal(common[index], one.total(W[0, 0] / 7))
        np.testing.assert_array_equal(own[index].filled(-1), one.total(W[index]).filled(-1))
