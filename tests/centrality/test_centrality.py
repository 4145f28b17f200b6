"""Centrality against NetworkX and an enumeration of paths, on every kind of graph, and the errors of its arguments."""

from __future__ import annotations

import math
import random
from threading import Thread
from time import process_time

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from tiers import full

import semiring as sr
from semiring import centrality
from semiring.kernels.cpu import dependency_loops

INF = np.inf


def random_graph(rng):
    """Return a graph with or without directions, of some components, with loops, ties, and floats or whole numbers."""
    n = int(rng.choice([0, 1, 2, 3, 5, 9, 17, 30], p=[0.02, 0.04, 0.06, 0.08, 0.2, 0.3, 0.2, 0.1]))
    G = nx.DiGraph() if rng.random() < 0.5 else nx.Graph()
    names = [f"v{i}" for i in range(n)] if rng.random() < 0.3 else list(range(n))
    G.add_nodes_from(names)
    kinds = (
        lambda: 1,
        lambda: int(rng.integers(1, 4)),
        lambda: float(rng.choice([0.1, 0.2, 0.3, 0.7])),
        lambda: float(rng.random()) + 0.01,
        lambda: int(rng.integers(1, 4)) * 2**52,
    )
    draw = kinds[rng.integers(len(kinds))]
    for _ in range(int(n * rng.choice([0.5, 1, 2, 6]))):
        u, v = rng.integers(0, n, 2)
        G.add_edge(names[u], names[v], weight=draw())
    return G


class Chosen(random.Random):
    """The seed with which NetworkX samples given vertices."""

    def __init__(self, vertices):
        super().__init__(0)
        self.vertices = vertices

    def sample(self, population, k):
        return self.vertices


def close(ours, theirs):
    ours = dict(enumerate(ours.tolist())) if isinstance(ours, np.ndarray) else ours
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose(list(ours.values()), [theirs[key] for key in ours], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("seed", full(lambda seed: seed < 8, range(100)))
@pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning")
def test_values_are_those_of_networkx(seed, monkeypatch):
    """20 random graphs each: vertices, edges, ends, sources, scaling, and the three sums of distances."""
    rng = np.random.default_rng([57, seed])
    if seed % 2:
        monkeypatch.setattr(centrality, "_DENSE_GAIN", 0.0)  # close every graph first, and search its direct edges
    if seed % 4 > 1:
        monkeypatch.setattr(centrality, "_CLOSED_VERTICES", 0)
        monkeypatch.setattr(centrality, "_ENTRIES", 40)
    for _ in range(20):
        G, flags = random_graph(rng), {"normalized": bool(rng.random() < 0.5)}
        options = {**flags, "threads": int(rng.integers(1, 4))}
        nodes, some, k = list(G), None, None
        if G and rng.random() < 0.4:
            k = int(rng.integers(1, len(G) + 1))
            some = [nodes[i] for i in rng.choice(len(G), k, replace=False)]
        ends = bool(rng.random() < 0.5)

        raw = {"k": k, "seed": Chosen(some), "weight": "weight"}
        theirs = nx.betweenness_centrality(G, endpoints=ends, **flags, **raw)
        close(sr.centrality.betweenness(G, endpoints=ends, sources=some, **options), theirs)
        of_edges = nx.edge_betweenness_centrality(G, **flags, **raw) if G else {}
        found = sr.centrality.edge_betweenness(G, sources=some, **options)
        if not isinstance(found, dict):
            ends_of = zip(*(axis.tolist() for axis in found.tocoo().coords), strict=True)
            found = dict(zip(ends_of, found.data, strict=True))
        if not G.is_directed():
            found = {edge if edge in of_edges else edge[::-1]: value for edge, value in found.items()}  # each once
        close(found, of_edges)
        close(sr.centrality.closeness(G), nx.closeness_centrality(G, distance="weight"))
        close(sr.centrality.closeness(G, wf_improved=False), nx.closeness_centrality(G, None, "weight", False))
        close(sr.centrality.harmonic(G), nx.harmonic_centrality(G, distance="weight"))
        if not G.is_directed():
            hops = nx.Graph(G.edges) if G.number_of_edges() else nx.Graph()
            hops.add_nodes_from(G)
            nx.set_edge_attributes(hops, 1, "weight")
            assert sr.centrality.efficiency(hops) == pytest.approx(nx.global_efficiency(hops), rel=1e-12)


def dag_with_zero_edges(rng, n):
    """Return weights (n, n) of a graph whose edges of weight 0 have no cycle, with many ties."""
    order, A = rng.permutation(n), np.full((n, n), INF)
    for _ in range(4 * n):
        i, j = np.sort(rng.integers(0, n, 2))
        A[order[i], order[j]] = rng.integers(0, 3)
        A[order[j], order[i]] = rng.integers(1, 4) if rng.random() < 0.5 else INF
    np.fill_diagonal(A, np.where(rng.random(n) < 0.5, 0, INF))
    return A


def enumerated(A, endpoints):
    """Return the sums on vertices and edges by all shortest paths, one by one."""
    n, D = len(A), sr.closure(A)
    G = nx.DiGraph([(i, j) for i, j in np.argwhere(np.isfinite(A)).tolist() if i != j])
    on_vertices, on_edges = np.zeros(n), np.zeros((n, n))
    for s in range(n):
        for t in set(range(n)) & set(G) - {s} if s in G else ():
            lengths = [
                (path, sum(A[edge] for edge in nx.utils.pairwise(path))) for path in nx.all_simple_paths(G, s, t)
            ]
            shortest = [path for path, length in lengths if length == D[s, t]]
            for path in shortest:
                for v in path if endpoints else path[1:-1]:
                    on_vertices[v] += 1 / len(shortest)
                for edge in nx.utils.pairwise(path):
                    on_edges[edge] += 1 / len(shortest)
    return on_vertices, on_edges


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("seed", full(lambda seed: seed < 4, range(25)))
@pytest.mark.filterwarnings("ignore:entries of A:semiring.errors.SuspiciousWeightsWarning")
def test_edges_of_weight_0_are_counted_in_their_order(seed, backend, monkeypatch):
    monkeypatch.setenv("SEMIRING_BACKEND", backend)
    rng = np.random.default_rng([58, seed])
    A = dag_with_zero_edges(rng, 7)
    for dtype in (float, np.int64):
        weights = A if dtype is float else np.full(A.shape, 2**63 - 1)
        weights[A < INF] = A[A < INF] * 2.0 ** (55 if dtype is np.int64 else 0)
        for endpoints in (False, True):
            on_vertices, on_edges = enumerated(A, endpoints)
            found = sr.centrality.betweenness(weights, normalized=False, endpoints=endpoints)
            np.testing.assert_allclose(found, on_vertices, rtol=1e-12, atol=1e-12)
        found = sr.centrality.edge_betweenness(weights, normalized=False).toarray()
        np.testing.assert_allclose(found, on_edges, rtol=1e-12, atol=1e-12)


def test_counts_of_paths_beyond_the_floats():
    """1,200 diamonds in a row: 2^1200 shortest paths, half of them through each side."""
    count = 1200
    first = 3 * np.arange(count)
    tails = np.concatenate([first, first, first + 1, first + 2])
    heads = np.concatenate([first + 1, first + 2, first + 3, first + 3])
    n = 3 * count + 1
    expected = np.empty(n)
    expected[::3] = 3.0 * np.arange(count + 1) * (n - 1 - 3.0 * np.arange(count + 1))
    before, after = 3.0 * np.arange(count) + 1, 3.0 * np.arange(count)[::-1] + 1
    expected[1::3] = expected[2::3] = before * after / 2
    for weights in (np.ones(tails.size), np.where(heads % 3 == 0, 1.0, 2.0)):
        A = sp.csr_array((weights, (tails, heads)), shape=(n, n))
        np.testing.assert_allclose(sr.centrality.betweenness(A, normalized=False), expected, rtol=1e-12)


@pytest.mark.parametrize("whole", [False, True], ids=["floats", "ties"])
def test_threads_and_progress_change_no_bit(whole, rng):
    n, m = 3000, 9000
    weights = rng.integers(1, 5, m).astype(float) if whole else rng.random(m)
    cells = rng.choice(n * n, m, replace=False)
    A = sp.csr_array((weights, (cells // n, cells % n)), shape=(n, n))
    reports = []
    found = [
        sr.centrality.betweenness(A, sources=range(700), threads=threads, progress=progress)
        for threads, progress in ((1, None), (2, None), (3, lambda *done: reports.append(done)))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int64), other.view(np.int64))
    assert reports == sorted(reports)
    assert len(reports) > 1
    assert reports[-1] == (10_000, 10_000)
    edges = [sr.centrality.edge_betweenness(A, sources=range(99), threads=threads).data for threads in (1, 3)]
    np.testing.assert_array_equal(*edges)


def test_a_callback_that_raises_ends_the_sums(rng):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sr.centrality.betweenness(rng.random((40, 40)), progress=stop)
    with pytest.raises(KeyboardInterrupt):
        sr.centrality.closeness(rng.random((40, 40)), progress=stop)


@pytest.mark.parametrize("function", ["betweenness", "edge_betweenness", "closeness", "harmonic", "efficiency"])
def test_wrong_arguments(function):
    call = getattr(sr.centrality, function)
    with pytest.raises(sr.DomainError, match=r"A\[0, 1\] is -1.0: lengths are at least 0"):
        call([[INF, -1.0], [2.0, INF]], check=False)
    with pytest.raises(sr.DomainError, match="is nan"):
        call([[INF, np.nan], [2.0, INF]])
    with pytest.raises(sr.AlgebraError, match="max_min"):
        call(sr.as_network([("a", "b", 2.0)], "max_min"))
    with pytest.raises(sr.DeviceError, match="runs on one GPU"):
        call([[INF]], device=("cuda:0", "cuda:1"))
    if "betweenness" not in function:
        call([[0.0, 0.0], [0.0, 0.0]], check=False)
        return
    with pytest.raises(sr.DomainError, match="the cycle a → b → a has the weight 0"):
        call(sr.as_network([("a", "b", 0.0), ("b", "c", 1.0)], directed=False))
    with pytest.raises(sr.DomainError, match="the cycle 1 → 2 → 3 → 1 has the weight 0"):
        call(sp.csr_array(([2, 0, 0, 0], ([0, 1, 2, 3], [1, 2, 3, 1])), shape=(4, 4)), check=False)
    with pytest.raises(sr.VertexError):
        call([[INF]], sources=[1])
    absorbed = np.full((4, 4), INF)  # 2⁶⁰ + 1 is 2⁶⁰, so vertices 1, 2 and 3 are at one distance
    absorbed[0, 2], absorbed[2, 1], absorbed[1, 3] = 2.0**60, 1.0, 0.0
    for weight, tail in ((2.0**60, 0), (0.0, 2)):
        absorbed[tail, 3] = weight
        with pytest.raises(sr.DomainError, match="some weights are 0, and some are so small"):
            call(absorbed, check=False)
    with pytest.raises(sr.IntegerOverflowError, match="use float64"):
        call(np.full((5, 5), 2**60))


def test_sparse_arrays_of_jax(monkeypatch):
    pytest.importorskip("jax")
    from jax.experimental.sparse import BCOO, BCSR
    from jax.numpy import asarray

    A = asarray([[0.0, 1.0, 5.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    given = BCOO.fromdense(A, nse=5)  # two entries lie beyond the shape
    np.testing.assert_array_equal(sr.centrality.betweenness(given, normalized=False), [0, 1, 0])
    with pytest.raises(sr.DTypeError, match="to_bcoo"):
        sr.centrality.harmonic(BCSR.fromdense(A))
    monkeypatch.setattr(centrality, "is_device_array", lambda _: True)  # its edges are read as those of the host
    edges = centrality._edges_on_host(given, True)
    np.testing.assert_array_equal(edges.toarray(), A)


def test_names_and_directions():
    edges = [("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)]
    roads = sr.as_network(edges, directed=False)
    assert sr.centrality.betweenness(roads, normalized=False) == {"Ulm": 0.0, "Kiel": 1.0, "Jena": 0.0}
    assert sr.centrality.edge_betweenness(roads, normalized=False) == {("Ulm", "Kiel"): 2.0, ("Kiel", "Jena"): 2.0}
    assert sr.centrality.betweenness(sr.as_network(edges), sources=["Ulm", "Ulm", "Jena"], endpoints=True) == {
        "Ulm": 0.5,
        "Kiel": 0.5,
        "Jena": 0.25,
    }
    A = np.array([[INF, 1, INF], [INF, INF, 1], [INF, INF, INF]])
    assert sr.centrality.betweenness(A, normalized=False, directed=False).tolist() == [0, 1, 0]
    assert sr.centrality.betweenness(np.where(A == A.T, A, 1), normalized=False).tolist() == [0, 2, 0]
    assert sr.centrality.edge_betweenness(A, directed=False, normalized=False).toarray().tolist() == [
        [0, 2, 0],
        [2, 0, 2],
        [0, 2, 0],
    ]
    assert math.isnan(sr.centrality.betweenness(A, sources=[1])[1])


def test_one_edge_of_weight_0_does_not_order_all_ties_one_by_one(rng):
    """Each of 60,000 vertices at one distance was compared with those of a higher rank."""
    half = 60_000
    first, (tails, heads) = np.arange(1, half + 1), rng.integers(1, half + 1, (2, 2 * half))
    ends = np.r_[np.repeat(0, half), tails], np.r_[first, half + heads]
    A = sp.csr_array((np.ones(3 * half), ends), shape=(2 * half + 1,) * 2)
    A.data[:] = 1
    A.data[-1] = 0
    took = []
    for _ in range(2):
        began = process_time()
        sr.centrality.betweenness(A, sources=[0], normalized=False, check=False)
        took.append(process_time() - began)
    assert min(took) < 0.5


def test_blocks_ahead_of_the_next_one_wait(rng):
    """The sums of blocks are added in order, and few of them wait in memory."""
    totals, held = (np.zeros(2),), []
    ordered = dependency_loops._OrderedSum(totals, 2)
    parts = rng.random((20, 2))

    def add(numbers):
        for number in numbers:
            ordered.add(number, (parts[number],))
            held.append(len(ordered.waiting))

    threads = [Thread(target=add, args=(range(first, 20, 2),)) for first in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = np.zeros(2)
    for part in parts:
        expected += part
    np.testing.assert_array_equal(totals[0], expected)
    assert max(held) <= 3
