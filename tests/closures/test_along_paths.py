"""Test `Paths.hops` and `Paths.total`: they are those of the paths that `Paths.path` returns."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring.paths import along_paths
from semiring.paths.vertex_arrays import count_path_vertices

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
@pytest.mark.parametrize("cycle", [[1, 2], [1, 2, 3], [1]])
def test_changed_predecessors_are_refused(cycle, has_kernel, monkeypatch):
    P = sr.shortest_paths(np.ones((5, 5)))
    for vertex, before in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        P.predecessors[0, vertex] = before
    if not has_kernel:
        monkeypatch.setattr(along_paths, "has_operation", lambda *_: False)
    for call in (P.hops, lambda: P.total(np.ones((5, 5)))):
        with pytest.raises(ValueError, match="lead in a cycle"):
            call()


@pytest.mark.parametrize("options", [{}, {"limit": 9.0}, {"targets": [2]}, {"sources": [0]}])
@pytest.mark.parametrize("as_given", [np.asarray, scipy.sparse.csr_array])
def test_some_paths_read_weights_as_all_paths_do(options, as_given):
    P, W = sr.shortest_paths([[inf, 1, inf], [inf, inf, 1], [inf, inf, inf]], **options), np.full((3, 3), 2**62)

    def total(W, *operation):
        result = P.total(as_given(W), *operation)
        return (result.toarray() if "limit" in options else result)[0, -1]

    for operation in ("sum", "product"):
        with pytest.raises(sr.IntegerOverflowError, match=f"a {operation} of the absolute values"):
            total(W, operation)
    with pytest.raises(sr.IntegerOverflowError, match="beyond int64"):
        total(np.full((3, 3), 2**63, np.uint64))
    with pytest.raises(sr.DTypeError, match="complex"):
        total(W * 1j)
    for dtype, kind in (("float32", "float32"), ("int8", "int64"), ("float64", "float64")):
        assert total(np.ones((3, 3), dtype)).dtype == kind
    for values, operations in (
        ((1, np.nan), "sum min max product"),
        ((np.inf, -np.inf), "sum"),
        ((np.inf, 0), "product"),
    ):
        W = np.ones((3, 3))
        W[[0, 1], [1, 2]] = values
        for operation in operations.split():
            with pytest.raises(sr.DomainError, match=f"the {operation} of W along a best path has no value"):
                total(W, operation)


def test_weights_have_the_shape_of_the_matrix_or_of_the_stack(rng):
    P, S = sr.shortest_paths(rng.random((3, 3))), sr.shortest_paths(rng.random((2, 3, 3)))
    for paths, shape in ((P, (2, 3, 3)), (S, (5, 3, 3)), (S, (1, 2, 3, 3)), (S, (3,))):
        with pytest.raises(sr.ShapeError, match="a weight for each edge"):
            paths.total(np.ones(shape))
    W = rng.random((1, 3, 3))
    np.testing.assert_array_equal(S.total(W), S.total(W[0]))


@pytest.mark.parametrize("n", [2**15 - 3, 2**15 - 2, 2**15 - 1, 2**15 + 40])
def test_paths_of_many_vertices(n):
    """Links between vertices change their width near 2¹⁵ vertices, and have room for the longest path."""
    before = np.arange(-1, n - 1, dtype=np.int32)
    before[0], before[7] = -9999, -9999
    before[8] = 0
    roots = np.zeros(1, np.int32)
    hops = np.r_[np.arange(7), -1, 1 + np.arange(n - 8)]
    np.testing.assert_array_equal(count_path_vertices(before[None, None], roots, None)[0][0, 0], hops + 1)
    before[n - 9] = n - 1
    with pytest.raises(ValueError, match="cycle"):
        count_path_vertices(before[None, None], roots, None)


def test_values_that_would_be_wrong_are_refused():
    P, W = sr.shortest_paths([[inf, 1, inf], [inf, inf, 1], [inf, inf, inf]]), np.full((3, 3), 2**62)
    with pytest.raises(sr.IntegerOverflowError, match="a sum of the abs"):
        P.total(W)
    with pytest.raises(sr.IntegerOverflowError, match="a product of the abs"):
        P.total(W // 2**20, "product")
    assert P.total(W // 2)[0, 2] == 2**62
    W = np.full((3, 3), np.nan)
    with pytest.raises(sr.DomainError, match="W is NaN at an edge"):
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
