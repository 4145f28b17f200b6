"""Test paths in the order of their weights against the enumeration of all simple paths, NetworkX and igraph."""

from __future__ import annotations

from functools import reduce
from itertools import islice, pairwise

import numpy as np
import pytest
import scipy.sparse

import semiring as sr
from semiring.kernels.cpu import spur_searches
from semiring.kernels.reference import ReferenceBackend
from semiring.paths import path_order

inf = np.inf
KINDS = ("min_plus", "negative", "decimal", "int32", "max_plus", "max_min", "min_max", "max_times")


def simple_paths(A, zero, path, target):
    if path[-1] == target:
        yield path
        return
    for head in np.flatnonzero(A[path[-1]] != zero).tolist():
        if head not in path:
            yield from simple_paths(A, zero, [*path, head], target)


def weight(A, path, semiring):
    one = float(semiring.one_for(np.dtype(float)))
    return reduce(lambda x, edge: float(semiring.mul(x, float(A[edge]))), pairwise(path), one)


def make_graph(kind, rng):
    """Return a matrix with ties, weights of 0 and several components, its semiring, and the sign of its order."""
    n = int(rng.integers(1, 9))
    A = np.where(rng.random((n, n)) < rng.choice([0.2, 0.4, 0.7]), rng.integers(0, 4, (n, n)), inf)
    name = kind if kind in sr.algebra.catalogue.CATALOGUE else "min_plus"
    if kind == "negative":
        shift = rng.integers(-3, 4, n)
        A = A + shift[:, None] - shift
    elif kind == "decimal":
        A = A * 0.1
    elif kind == "int32":
        A = np.where(inf == A, np.iinfo("int32").max, np.where(inf == A, 0, A).astype("int32"))
    elif kind in ("max_plus", "max_min"):
        A = -A
    elif kind == "max_times":
        A = np.where(inf == A, 0, 0.5**A)
    return A, sr.as_semiring(name), -1 if kind.startswith("max") else 1


def check(kind, rng):
    A, semiring, sign = make_graph(kind, rng)
    source, target = rng.integers(0, len(A), 2).tolist()
    zero = semiring.zero_for(A.dtype)
    expected = sorted((sign * weight(A, p, semiring), p) for p in simple_paths(A, zero, [source], target))
    options = {"semiring": semiring, "check": False}
    edges = zero != A
    sparse = scipy.sparse.csr_array((A[edges], np.nonzero(edges)), shape=A.shape)
    P = sr.best_paths(A, semiring, check=False)
    for found in (
        sr.k_shortest_paths(A, source, target, **options),
        sr.k_shortest_paths(sparse, source, target, **options),
        P.k_shortest(source, target),
        sr.best_paths(sparse, semiring, sources=[source], check=False, targets=[target]).k_shortest(source, target),
    ):
        listed = list(found)
        assert [path for _, path in listed] == [path for _, path in expected]
        values = [sign * float(distance) for distance, _ in listed]
        assert values == [value for value, _ in expected]
    named = sr.best_paths(A, semiring, names=[f"v{v}" for v in range(len(A))], check=False)
    listed = list(named.k_shortest(f"v{source}", f"v{target}", 3))
    assert [path for _, path in listed] == [[f"v{v}" for v in path] for _, path in expected[:3]]
    if source == target or not expected:
        return
    best = expected[0][1]
    losses = {}
    for edge in pairwise(best):
        rest = [each for each in expected if edge not in pairwise(each[1])]
        losses[edge] = rest[0][0] if rest else inf
        if rest:
            assert P.path_without(source, target, edge=edge) == rest[0][1]
        else:
            with pytest.raises(sr.NoPathError, match="without it"):
                P.path_without(source, target, edge=edge)
    for vertex in best[1:-1]:
        rest = [each for each in expected if vertex not in each[1]]
        if rest:
            assert P.path_without(source, target, vertex=vertex) == rest[0][1]
    edge, distance = P.most_vital_edge(source, target)
    assert losses[edge] == max(losses.values())
    if losses[edge] < inf:
        assert sign * float(distance) == losses[edge]


@pytest.mark.parametrize("kind", KINDS)
def test_paths_are_those_of_an_enumeration_in_order(kind, rng):
    for _ in range(15):
        check(kind, rng)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_paths_of_many_graphs_in_order(kind, seed):
    rng = np.random.default_rng(seed)
    for _ in range(63):
        check(kind, rng)


def check_walks(rng):
    """Weights of at least 1 bound the edges of a walk, so an enumeration of short walks has all light ones."""
    n = int(rng.integers(1, 9))
    A = np.where(rng.random((n, n)) < 2 / (n + 1), rng.integers(1, 4, (n, n)), inf)
    source, target = rng.integers(0, n, 2).tolist()
    walks, front = [], [([source], 0.0)]
    while front:
        walks += [(value, len(path), path) for path, value in front if path[-1] == target]
        front = [
            ([*path, head], value + float(A[path[-1], head]))
            for path, value in front
            for head in np.flatnonzero(value + A[path[-1]] < 8).tolist()
        ]
    expected = sorted(walks)
    edges = np.nonzero(np.isfinite(A))
    sparse = scipy.sparse.csr_array((A[edges], edges), shape=A.shape)
    for found in (
        sr.k_shortest_paths(A, source, target, simple=False, check=False),
        sr.shortest_paths(A, check=False).k_shortest(source, target, simple=False),
        sr.shortest_paths(sparse, sources=[source]).k_shortest(source, target, simple=False),
    ):
        listed = [(float(value), len(path), path) for value, path in islice(found, len(expected) + 1)]
        assert listed[: len(expected)] == expected
        assert all(value >= 8 for value, _, _ in listed[len(expected) :])


def test_walks_are_all_walks_in_order(rng):
    for _ in range(40):
        check_walks(rng)


@pytest.mark.exhaustive
def test_walks_of_many_graphs_in_order(rng):
    for _ in range(5000):
        check_walks(rng)


def test_cycles_of_weight_0_give_walks_by_their_edges():
    A = np.array([[inf, 0, inf], [0, inf, 1], [inf, inf, inf]])
    found = [path for _, path in sr.k_shortest_paths(A, 0, 2, 3, simple=False)]
    assert found == [[0, 1, 2], [0, 1, 0, 1, 2], [0, 1, 0, 1, 0, 1, 2]]


@pytest.mark.parametrize(("name", "gain", "loss"), [("min_plus", -2.0, 1.0), ("max_times", 2.0, 1.0)])
def test_a_cycle_that_improves_is_named(name, gain, loss):
    net = sr.as_network([("a", "b", gain), ("b", "a", loss)], name)
    with pytest.raises(sr.DivergenceError, match=r"a → b → a|b → a → b|vertex .*[ab]"):
        list(sr.k_shortest_paths(net, "a", "b", 2, semiring=name))


def test_large_graphs_agree_with_networkx_and_igraph():
    import igraph
    import networkx as nx

    G = nx.grid_2d_graph(12, 12).to_directed()
    rng = np.random.default_rng(5)
    for edge in G.edges:
        G.edges[edge]["weight"] = float(rng.random()) + 0.1
    ends = (0, 0), (11, 11)
    ours = list(sr.k_shortest_paths(G, *ends, 40))
    theirs = list(islice(nx.shortest_simple_paths(G, *ends, weight="weight"), 40))
    assert [path for _, path in ours] == theirs
    number = {vertex: place for place, vertex in enumerate(G)}
    graph = igraph.Graph([(number[u], number[v]) for u, v in G.edges], n=len(G), directed=True)
    weights = [G.edges[edge]["weight"] for edge in G.edges]
    listed = graph.get_k_shortest_paths(number[ends[0]], number[ends[1]], k=40, weights=weights)
    assert [[number[v] for v in path] for _, path in ours] == listed


def test_names_files_and_numbers_of_paths(tmp_path):
    (tmp_path / "roads.csv").write_text("from,to,km\na,b,1\nb,c,1\na,c,3\nc,a,1\n")
    found = list(sr.k_shortest_paths(tmp_path / "roads.csv", "a", "c", weight="km"))
    assert found == [(2.0, ["a", "b", "c"]), (3.0, ["a", "c"])]
    assert found[0].distance == 2
    assert [len(list(sr.k_shortest_paths(tmp_path / "roads.csv", "a", "c", k))) for k in (0, 1, 5)] == [0, 1, 2]
    assert list(sr.k_shortest_paths([[inf, inf], [1, inf]], 0, 1)) == []


def test_what_has_no_order_is_refused():
    A = np.array([[inf, 1.0, inf], [-2.0, inf, 1.0], [inf, inf, inf]])
    with pytest.raises(sr.NegativeCycleError):
        sr.k_shortest_paths(A, 0, 2)
    assert len(list(sr.k_shortest_paths(A, 2, 2))) == 1  # the cycle is on no walk between the ends
    with pytest.raises(sr.AlgebraError, match="log_plus"):
        sr.k_shortest_paths(A, 0, 2, semiring="log_plus")
    with pytest.raises(sr.IntegerOverflowError, match="2⁵³"):
        sr.k_shortest_paths(np.full((3, 3), 2**52), 0, 2)
    for wrong, error in ((-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="k is"):
            sr.k_shortest_paths(A, 0, 2, wrong)
    P = sr.shortest_paths(np.abs(A))
    for call in (
        lambda: P.path_without(0, 2),
        lambda: P.path_without(0, 2, vertex=2),
        lambda: P.path_without(0, 2, edge=3),
        lambda: P.most_vital_edge(1, 1),
    ):
        with pytest.raises(ValueError, match=r"pass edge=|an end|a pair|no edge"):
            call()


def grid(side, weights):
    """Return a grid of two directions as a sparse matrix."""
    v = np.arange(side * side).reshape(side, side)
    tails = np.concatenate([v[:, :-1].ravel(), v[:-1].ravel()])
    heads = np.concatenate([v[:, 1:].ravel(), v[1:].ravel()])
    ends = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    return scipy.sparse.csr_array((weights(2 * tails.size), ends), shape=(v.size, v.size))


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_and_searches_that_continue_list_the_same(kind, rng, monkeypatch):
    for _ in range(8):
        A, semiring, _ = make_graph(kind, rng)
        ends = rng.integers(0, len(A), 2).tolist()
        found = list(sr.k_shortest_paths(A, *ends, semiring=semiring, check=False))
        with monkeypatch.context() as context:
            context.setattr(spur_searches, "_STEPS", 2)
            assert list(sr.k_shortest_paths(A, *ends, semiring=semiring, check=False)) == found
        with monkeypatch.context() as context:
            context.setattr(path_order, "backend_for", lambda *_: ReferenceBackend())
            assert list(sr.k_shortest_paths(A, *ends, semiring=semiring, check=False)) == found


@pytest.mark.parametrize("name", ["max_times", "min_times"])
def test_products_have_a_margin_relative_to_their_size(name, rng, monkeypatch):
    """Products of some 10⁻²⁵ are far below any margin that the factors have."""
    A = grid(16, lambda m: rng.uniform(0.05, 0.2, m) if name == "max_times" else rng.uniform(1, 50, m))
    calls, search = [], spur_searches._search
    monkeypatch.setattr(spur_searches, "_STEPS", 1000)
    monkeypatch.setattr(spur_searches, "_search", lambda *a: calls.append(1) or search(*a))
    found = list(sr.k_shortest_paths(A, 0, 255, 20, semiring=name, check=False))
    sums = A.copy()
    sums.data = np.log(A.data) if name == "min_times" else -np.log(A.data)
    expected = list(sr.k_shortest_paths(sums, 0, 255, 20))
    assert [path for _, path in found] == [path for _, path in expected]
    assert len(calls) < 200


def test_paths_of_float32_have_the_margin_of_float64(rng):
    A = grid(20, lambda m: rng.uniform(1, 1.001, m).astype(np.float32))
    P = sr.shortest_paths(A)
    assert P.matrix.dtype == np.float32
    assert P._in_order("k_shortest", 0, 399).margin[1] < 1e-8
    assert list(P.k_shortest(0, 399, 10)) == list(sr.k_shortest_paths(A, 0, 399, 10))
