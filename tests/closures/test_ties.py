"""Test numbers and lists of best paths against the enumeration of all simple paths, NetworkX and igraph."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring.paths import best_paths, ties

inf = np.inf


def simple_paths(A, zero, path):
    """Yield all simple paths that continue a path, in lexicographic order, the path itself first."""
    yield path
    for head in np.flatnonzero(A[path[-1]] != zero).tolist():
        if head not in path:
            yield from simple_paths(A, zero, [*path, head])


def best_simple_paths(A, semiring):
    """Return {(i, j): best simple paths in lexicographic order}."""
    zero, one = semiring.zero_for(A.dtype), semiring.one_for(A.dtype)
    found = {}
    for i in range(len(A)):
        for path in simple_paths(A, zero, [i]):
            weight = reduce(semiring.mul, [A[u, v] for u, v in pairwise(path)], one)
            best, paths = found.get((i, path[-1]), (weight, []))
            if semiring.add(best, weight) == weight and best != weight:
                best, paths = weight, []
            found[i, path[-1]] = best, [*paths, path] if weight == best else paths
    return {pair: sorted(paths) for pair, (_, paths) in found.items()}


def graphs(rng, count, least=0):
    """Yield matrices of whole weights with ties, several components and, from ``least`` 0 on, weights of 0."""
    for _ in range(count):
        n = int(rng.integers(1, 9))
        A = np.where(rng.random((n, n)) < rng.choice([0.15, 0.3, 0.5, 0.8]), rng.integers(least, 4, (n, n)), inf)
        if rng.random() < 0.3:
            A = np.minimum(A, A.T)
        yield A


def check(A, semiring, names):
    best = best_simple_paths(A, semiring)
    n, zero = len(A), semiring.zero_for(A.dtype)
    edges = zero != A
    if not names:
        sparse = scipy.sparse.csr_array((A[edges], np.nonzero(edges)), shape=A.shape)
    results = [sr.best_paths(A, semiring, names=names or None, check=False)]
    if not names:
        results += [sr.best_paths(sparse, semiring, sources=range(n), check=False)]
        results += [sr.best_paths(A, semiring, predecessors=False, check=False)]
    label = names or list(range(n))
    W = np.arange(float(n * n)).reshape(n, n) % 7 - 2
    for P in results:
        counts, hops, totals = {}, P.hops(), P.total(W)
        for i in range(n):
            for j in range(n):
                paths = best.get((i, j), [])
                assert list(P.all_paths(label[i], label[j])) == [[label[v] for v in path] for path in paths]
                if paths:
                    path = [label.index(v) for v in P.path(label[i], label[j])]
                    assert path in paths
                    assert hops[i, j] == len(path) - 1
                    assert totals[i, j] == sum(W[edge] for edge in pairwise(path))
                else:
                    assert hops[i, j] == -1
                    assert np.isnan(totals[i, j])
                on_paths = sorted({edge for path in paths for edge in pairwise(path)})
                try:
                    counts[i, j] = P.count(label[i], label[j])
                    assert counts[i, j] == len(paths)
                    if i != j:
                        tight = P.tight_edges(label[i], label[j]).tocoo()
                        assert sorted(zip(tight.row.tolist(), tight.col.tolist(), strict=True)) == on_paths
                except sr.DivergenceError as error:
                    cycle = [*error.cycle, error.cycle[0]]
                    assert reduce(semiring.mul, [A[u, v] for u, v in pairwise(cycle)]) == semiring.one_for(A.dtype)
        if len(counts) == n * n:
            expected = np.array([[counts[i, j] for j in range(n)] for i in range(n)])
            np.testing.assert_array_equal(P.counts(), expected)
            np.testing.assert_array_equal(P.counts("float64"), expected)
        else:
            with pytest.raises(sr.DivergenceError, match="infinitely many walks"):
                P.counts()


@pytest.mark.parametrize("least", [0, 1])
def test_ties_are_those_of_an_enumeration(least, rng):
    for number, A in enumerate(graphs(rng, 30, least)):
        check(A, sr.min_plus, [f"v{v}" for v in range(len(A))] if number % 3 == 0 else [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(50))
def test_ties_of_many_graphs(seed):
    rng = np.random.default_rng(seed)
    for number, A in enumerate(graphs(rng, 100, seed % 2)):
        check(A, sr.min_plus, [f"v{v}" for v in range(len(A))] if number % 3 == 0 else [])


@pytest.mark.parametrize("name", ["max_plus", "max_times", "int32", "int64"])
def test_ties_in_other_semirings_and_dtypes(name, rng):
    for A in graphs(rng, 12, 1):
        if name.startswith("int"):
            whole = np.where(inf == A, 0, A).astype(name)
            check(np.where(inf == A, np.iinfo(name).max, whole), sr.min_plus, [])
        elif name == "max_times":
            check(np.where(inf == A, 0, 0.5**A), sr.max_times, [])
        else:
            check(-A, sr.max_plus, [])


@pytest.mark.parametrize("name", ["max_min", "min_max"])
def test_paths_are_listed_but_not_counted_where_edges_may_be_better(name, rng):
    semiring = sr.as_semiring(name)
    for A in graphs(rng, 25, 1):
        A = np.where(inf == A, semiring.zero_for(A.dtype), A)
        best, P = best_simple_paths(A, semiring), sr.best_paths(A, semiring, check=False)
        for i in range(len(A)):
            for j in range(len(A)):
                assert list(P.all_paths(i, j)) == best.get((i, j), [])
    for call in (lambda: P.count(0, 0), P.counts):
        with pytest.raises(sr.AlgebraError, match="all_paths lists them"):
            call()


def grid(side):
    """Return a directed grid of weight 1, whose corners have binomially many shortest paths."""
    n = side * side
    A = np.full((n, n), inf)
    for v in range(n):
        if v % side < side - 1:
            A[v, v + 1] = 1
        if v + side < n:
            A[v, v + side] = 1
    return A


def test_numbers_beyond_int64():
    side = 40
    P, n = sr.shortest_paths(grid(side)), side * side
    exact = 27217014869199032015600  # 78 over 39
    assert P.count(0, n - 1) == exact
    with pytest.raises(sr.IntegerOverflowError, match="float64"):
        P.counts()
    assert P.counts("float64")[0, n - 1] == pytest.approx(exact, rel=1e-12)
    first = next(P.all_paths(0, n - 1))
    assert first == [*range(side), *range(2 * side - 1, n, side)]
    with pytest.raises(sr.DTypeError, match="int64 or float64"):
        P.counts("int8")


def test_large_graphs_agree_with_networkx_and_igraph(rng):
    import igraph
    import networkx as nx

    A = np.where(rng.random((60, 60)) < 0.1, rng.integers(1, 4, (60, 60)), inf)
    np.fill_diagonal(A, inf)
    G = nx.from_numpy_array(np.where(inf == A, 0, A), create_using=nx.DiGraph)
    graph = igraph.Graph([(u, v) for u, v in G.edges], n=60, directed=True)
    weights = [G.edges[e]["weight"] for e in G.edges]
    P = sr.shortest_paths(A)
    counts = P.counts()
    for i, j in rng.integers(0, 60, (40, 2)).tolist():
        if counts[i, j] == 0:
            continue
        expected = sorted(nx.all_shortest_paths(G, i, j, weight="weight"))
        assert list(P.all_paths(i, j)) == expected
        assert counts[i, j] == len(expected) == len(graph.get_all_shortest_paths(i, j, weights=weights))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_of_floats_are_equal_within_their_rounding(dtype):
    A = np.full((5, 5), inf, dtype)
    A[0, 1], A[1, 2], A[0, 2], A[2, 3], A[0, 4], A[4, 3] = 0.1, 0.2, 0.3, 0.7, 0.65, 0.35
    for P in (sr.shortest_paths(A), sr.shortest_paths(A, sources=[0])):
        assert P.count(0, 3) == 3
        assert P.counts()[0, 3] == 3
        exact = P.count(0, 3, rtol=0)
        assert exact == len(list(P.all_paths(0, 3, rtol=0))) == P.counts(rtol=0)[0, 3] <= 3
        assert P.count(0, 3, rtol=1e-1) == 3
    for rtol, error in (("x", TypeError), (True, TypeError), (-1, ValueError), (1, ValueError), (np.nan, ValueError)):
        for call in (P.count, P.all_paths, P.tight_edges):
            with pytest.raises(error, match="rtol"):
                call(0, 3, rtol=rtol)


def test_a_backend_without_the_kernel_and_stacks(rng, monkeypatch):
    A = np.stack([np.where(rng.random((8, 8)) < 0.5, rng.integers(1, 4, (8, 8)), inf) for _ in range(3)])
    counts = sr.shortest_paths(A).counts()
    np.testing.assert_array_equal(counts, [sr.shortest_paths(each).counts() for each in A])
    np.testing.assert_array_equal(
        sr.shortest_paths(A, sources=[1], targets=[2, 0]).counts(), counts[:, [1]][..., [2, 0]]
    )
    monkeypatch.setattr(ties, "has_operation", lambda *_: False)
    np.testing.assert_array_equal(sr.shortest_paths(A).counts(), counts)
    with pytest.raises(sr.ShapeError, match=r"paths\[0\]"):
        sr.shortest_paths(A).count(0, 1)


def test_tight_edges_from_and_to_a_vertex(rng):
    with pytest.raises(sr.ShapeError, match="between all pairs"):
        sr.shortest_paths([[inf, 1.0], [inf, inf]], sources=[0]).tight_edges()
    A = np.where(rng.random((9, 9)) < 0.4, rng.integers(0, 3, (9, 9)), inf)
    P, D = sr.shortest_paths(A), sr.shortest_paths(A).matrix
    for v in range(9):
        for ends, tight in (
            ((v, None), D[v][:, None] + A == D[v]),
            ((None, v), A + D[:, v] == D[:, v][:, None]),
            ((None, None), A == D),
        ):
            found = P.tight_edges(*ends)
            expected = tight & np.isfinite(A) & ~np.eye(9, dtype=bool)
            expected &= np.isfinite(D[v])[:, None] if ends[0] is not None else True
            expected &= np.isfinite(D[:, v]) if ends[1] is not None else True
            rows = np.repeat(np.arange(9), np.diff(found.indptr))
            np.testing.assert_array_equal(np.stack([rows, found.indices]), np.nonzero(expected))
            np.testing.assert_array_equal(found.data, A[expected])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_pair_with_a_path_has_a_best_one_whatever_the_rounding(dtype, rng):
    A = np.where(rng.random((40, 40)) < 0.2, rng.random((40, 40)) ** 5 * 1e6, inf).astype(dtype)
    longest = sr.longest_paths(np.where(np.triu(inf > A, 1), A, -inf))
    for P in (sr.shortest_paths(A), sr.shortest_paths(A, sources=range(40)), longest):
        for rtol in (0, None):
            counts = P.counts(rtol=rtol)
            np.testing.assert_array_equal(counts > 0, P.reachable)
            for i, j in rng.integers(0, 40, (30, 2)).tolist():
                assert counts[i, j] == P.count(i, j, rtol=rtol) == len(list(P.all_paths(i, j, rtol=rtol)))
                for ends in ((i, None), (None, j)):
                    edges = P.tight_edges(*ends, rtol=rtol).tocoo()
                    far = edges.row if ends[0] is None else edges.col
                    reached = P.reachable[:, j] if ends[0] is None else P.reachable[i]
                    assert {*far.tolist(), i, j} >= {*np.flatnonzero(reached).tolist()}


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_only_equal_numbers_tie_except_floats(dtype):
    A = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    A = A.astype(bool) if dtype == "bool" else np.where(A, 100 * A, np.iinfo(dtype).max)
    P = sr.best_paths(A, "boolean" if dtype == "bool" else "min_plus")
    expected = [[0, 1, 2], [0, 2]] if dtype == "bool" else [[0, 2]]
    assert list(P.all_paths(0, 2, rtol=0.6)) == expected == list(P.all_paths(0, 2))


def test_cycles_that_rounding_closes_are_named():
    """Weights of 1 vanish beside 1e8 in float32."""
    A = np.full((4, 4), inf, np.float32)
    A[0, 1], A[1, 2], A[2, 1], A[3, 0] = 1e8, 1, 1, 0.5
    for P in (sr.shortest_paths(A), sr.shortest_paths(A, sources=[3, 0])):
        for call in (P.counts, lambda: P.count(0, 2), lambda: P.counts(rtol=0)):  # noqa: B023
            with pytest.raises(sr.DivergenceError, match=r"the cycle 1 → 2 → 1 leaves") as caught:
                call()
            assert sorted(caught.value.cycle) == [1, 2]
    assert sr.shortest_paths(A).count(1, 2) == 1


def test_ties_take_one_pass_and_one_search(monkeypatch, rng):
    A = np.where(rng.random((20, 20)) < 0.3, rng.random((20, 20)), inf)
    calls, P, S = [], sr.shortest_paths(A), sr.shortest_paths(A, targets=[3, 4], sources=range(10))
    hops = P.hops
    monkeypatch.setattr(type(P), "hops", lambda self: calls.append("hops") or hops())
    assert [P.count(0, 1), P.count(0, 2)] == P.counts()[0, [1, 2]].tolist()
    assert calls == ["hops"]
    P.update(0, 1, 1e-3)
    assert P.count(0, 1) == 1
    assert calls == ["hops", "hops"]
    monkeypatch.setattr(S, "_search", lambda *a, **k: calls.append("search") or best_paths(*a, **k))
    np.testing.assert_array_equal(S.counts(), sr.shortest_paths(A).counts()[:10, [3, 4]])
    assert calls.count("search") == 1
