"""Test closures that avoid work where the graph allows it, against closures that do not, and against oracles."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import oracles
import pytest
import structured
from tiers import full, quick

import semiring as sr
from semiring.algorithms import schedule
from semiring.algorithms.methods import ALGORITHMS
from semiring.algorithms.schedule import dense_operations, search_operations
from semiring.algorithms.supernodal import predict_operations
from semiring.closures.choose import encode, reason_against
from semiring.closures.problem import STRUCTURES, Facts, Options, Problem
from semiring.errors import (
    DivergenceError,
    IntegerOverflowError,
    NegativeCycleError,
    SemiringError,
    UnknownNameError,
)
from semiring.graphs import graph_structure as structure_module
from semiring.graphs import strongly_connected as algorithm
from semiring.graphs.graph_structure import analyze_sparse, structure_of
from semiring.graphs.strongly_connected import strong_components


@pytest.fixture
def of_few(monkeypatch):
    """Scan graphs of few vertices as if they were large, and close them in small blocks."""
    monkeypatch.setattr(sys.modules["semiring.closures.problem"], "LEAST", 0)
    step = sys.modules["semiring.algorithms.components"]
    monkeypatch.setattr(step, "SMALL", 8)
    monkeypatch.setattr(algorithm, "_RUN", 4)
    monkeypatch.setattr(algorithm, "_LEAF", 6)
    monkeypatch.setattr(algorithm, "_FACTOR", 6)
    monkeypatch.setattr(algorithm, "_CHAINS", 3)
    monkeypatch.setattr(sys.modules["semiring.algorithms.supernodal"], "predict_operations", lambda *_: 0.0)
    monkeypatch.setattr(sys.modules["semiring.graphs.graph_structure"], "FEW", 5)
    monkeypatch.setattr(sys.modules["semiring.algorithms.supernodal"], "_WIDTHS", 1)
    monkeypatch.setattr(sys.modules["semiring.algorithms.undirected"], "_LEAST", 0)
    small = {name: replace(each, triangle=5) for name, each in schedule._TABLE.items()}
    monkeypatch.setattr(schedule, "_TABLE", small)


def applied_steps(A, name, **options):
    """Return the steps that an explanation says applied."""
    _, explanation = sr.closure(A, name, explain=True, **options)
    return [link.name for link in explanation.answers if link.applies]


@pytest.mark.full
@pytest.mark.parametrize("seed", full(lambda seed: seed == 0, range(2)))
def test_random_cases(seed, of_few):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        structured.compare(structured.random_case(rng, 40))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 5))
def test_more_random_cases(seed, of_few):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        structured.compare(structured.random_case(rng))


# --------------------------------------------------------------------------------------------------------- the look


def test_what_a_look_finds(rng):
    for n in (0, 1, 2, 7, 40, 130):
        for _ in range(6):
            edges = structured.edges_of(rng, n, str(rng.choice(structured.KINDS)))
            A = np.where(edges, np.float32(rng.choice([1.0, 2.5])), np.inf).astype(np.float32)
            if rng.random() < 0.5:
                A[edges] = rng.random(int(edges.sum()))
            found = structure_of(A, np.inf, 2)
            off = A[~np.eye(n, dtype=bool) & edges]
            assert found.is_symmetric == np.array_equal(A, A.T)
            assert found.edges == (edges.sum() if structure_module.FEW * edges.sum() <= n * n else None)
            one = np.unique(off)
            dense = found.edges is None
            if one.size == 1:
                assert found.weight == one[0]
            else:
                assert found.weight is None
            assert dense or found.edges >= 0
            words = structure_of(sr.pack(edges), False, 2)
            assert words.is_symmetric == np.array_equal(edges, edges.T)
            assert len(words.components) == len(found.components)


def test_names_of_structure():
    A = np.zeros((3, 3))
    with pytest.raises(UnknownNameError, match="components"):
        sr.closure(A, structure="component")
    for structure in (True, False, (), "components", ["components"]):
        np.testing.assert_array_equal(sr.closure(A, structure=structure), A)


# ------------------------------------------------------------------------------------------------------- components


def test_components_spare_products(rng, of_few):
    edges = structured.edges_of(rng, 60, "acyclic")
    A = np.where(edges, rng.integers(1, 9, (60, 60)), np.inf)
    assert "components" in applied_steps(A, "min_plus")
    assert "components" not in applied_steps(A, "min_plus", structure=False)
    assert "components" not in applied_steps(A, "min_plus", structure=())
    assert "components" not in applied_steps(A, "min_plus", method="rkleene")


def test_a_pivot_without_a_star_is_named_in_the_vertices_of_the_caller(rng, of_few):
    edges = structured.edges_of(rng, 40, "acyclic") & ~np.eye(40, dtype=bool)
    A = np.where(edges, 0.01, 0.0)
    A[17, 17] = 1.0
    with pytest.raises(DivergenceError) as caught:
        sr.closure(A, "plus_times")
    assert caught.value.vertex == 17
    apart = np.zeros((40, 40))
    apart[:20, :20] = apart[20:, 20:] = 0.001
    apart[25, 25] = 1.0  # the first pivot that is 1 but for what led over those before it
    apart[25, :25] = 0.0
    order = np.arange(40).reshape(2, 20).T.ravel()
    with pytest.raises(DivergenceError) as caught:
        sr.closure(apart[np.ix_(order, order)], "plus_times")
    assert order[caught.value.vertex] == 25


def test_progress_of_components_ends(rng, of_few):
    edges = structured.edges_of(rng, 60, "apart")
    A = np.where(edges, rng.integers(1, 9, (60, 60)), np.inf)
    reports = []
    sr.closure(A, progress=lambda done, total: reports.append((done, total)))
    assert reports[-1][0] == reports[-1][1]
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


def test_predecessors_of_components(rng, of_few):
    for kind in ("acyclic", "apart", "tail"):
        edges = structured.edges_of(rng, 50, kind)
        A = np.where(edges, rng.integers(1, 9, (50, 50)), np.inf)
        found = sr.shortest_paths(A)
        np.testing.assert_array_equal(found.matrix, oracles.closure(A, "min_plus"))
        for i in range(0, 50, 7):
            for j in np.flatnonzero(np.isfinite(found.matrix[i]))[::5]:
                path = found.path(i, int(j))
                assert sum(A[a, b] for a, b in itertools.pairwise(path)) == found.matrix[i, j]


@pytest.mark.full
def test_components_of_many_vertices(rng):
    """Components are found by default at these sizes, with several blocks of every kind."""
    for kind in ("acyclic", "apart", "tail"):
        edges = structured.edges_of(rng, 1600, kind)
        A = np.where(edges, rng.integers(1, 50, edges.shape), np.inf).astype(np.float32)
        assert "components" in applied_steps(A, "min_plus")
        np.testing.assert_array_equal(sr.closure(A), sr.closure(A, structure=False))


# ------------------------------------------------------------------------------------------------ undirected graphs


def symmetric(rng, n, density=0.3):
    W = np.where(rng.random((n, n)) < density, rng.integers(1, 50, (n, n)), np.inf)
    return np.minimum(W, W.T)


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "plus_times", "log_plus", "max_times"])
def test_one_triangle_is_closed(rng, of_few, name):
    for n in (1, 4, 5, 6, 23):
        A = symmetric(rng, n, 0.6)
        if name != "min_plus":
            W = A / (100 * n)
            scaled = {"max_plus": -A, "log_plus": -A, "plus_times": W, "max_times": W}[name]
            A = np.where(np.isfinite(A), scaled, oracles.zero(name, np.float64))
        assert "undirected" in applied_steps(A, name, structure="undirected")
        D = sr.closure(A, name, structure="undirected")
        np.testing.assert_array_equal(D, D.T)
        np.testing.assert_allclose(D, sr.closure(A, name, structure=False), rtol=1e-12, atol=1e-300)


def test_what_is_no_undirected_graph(rng, of_few):
    A = symmetric(rng, 30)
    assert "undirected" not in applied_steps(A, "min_plus", structure="components")
    A[3, 4], A[4, 3] = 1.0, 2.0
    assert "undirected" not in applied_steps(A, "min_plus")
    A[3, 4] = A[4, 3] = -1.0
    with pytest.raises(DivergenceError):
        sr.closure(A)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda *case: case in (("max_min", "float32"), ("min_max", "float32"), ("max_min", "uint8")),
        itertools.product(["max_min", "min_max"], ["float32", "float64", "int16", "uint8"]),
    ),
)
def test_bottlenecks_of_a_spanning_tree(rng, of_few, name, dtype):
    for n in (1, 2, 7, 40):
        for density in (0.0, 0.05, 0.3, 1.0):
            W = symmetric(rng, n, density)
            A = np.where(np.isfinite(W), np.where(np.isfinite(W), W, 0).astype(dtype), oracles.zero(name, dtype))
            A = A.astype(dtype)
            assert "spanning_tree" in applied_steps(A, name, structure="bottleneck")
            np.testing.assert_array_equal(sr.closure(A, name), oracles.closure(A, name))
            for reflexive in (True, False):
                expected = sr.closure(A, name, structure=False, reflexive=reflexive)
                np.testing.assert_array_equal(sr.closure(A, name, reflexive=reflexive), expected)


@pytest.mark.full
def test_paths_through_bottlenecks(rng, of_few):
    A = np.where(np.isfinite(W := symmetric(rng, 40)), W, -np.inf)
    found = sr.widest_paths(A)
    np.testing.assert_array_equal(found.matrix, oracles.closure(A, "max_min"))
    for i, j in ((0, 5), (7, 3), (39, 1)):
        path = found.path(i, j)
        assert min(A[a, b] for a, b in itertools.pairwise(path)) == found.matrix[i, j]


# ----------------------------------------------------------------------------------------------------- reachability


@pytest.mark.full
@pytest.mark.parametrize(
    ("part", "words_per_edge"), quick(lambda part, _: part == 0.1, [(0.0, 16), (0.1, 16), (1e9, 16), (0.1, 1)])
)
def test_rows_of_bits_are_joined(rng, of_few, part, words_per_edge, monkeypatch):
    """R-Kleene closes every row if no joins are allowed, and none if all are, also with edges in lists."""
    monkeypatch.setattr(sys.modules["semiring.algorithms.purdom"], "_MAX_JOINS", part)
    monkeypatch.setattr(algorithm, "_WORDS_PER_EDGE", words_per_edge)
    dual = sr.Semiring("dual", "x & y", "x | y", True, False, dtypes=("bool",))
    for kind in ("sparse", "acyclic", "apart", "tail", "undirected sparse", "empty", "dense"):
        for n in (1, 32, 33, 200):
            edges = structured.edges_of(rng, n, kind)
            reach = oracles.reachable(edges)
            assert "purdom" in applied_steps(sr.pack(edges), "boolean")
            assert np.array_equal(sr.closure(sr.pack(edges), "boolean").unpack(), reach)
            assert np.array_equal(sr.closure(edges, "boolean"), reach)
            assert np.array_equal(sr.closure(sr.pack(~edges), dual).unpack(), ~reach)
            cycles = sr.closure(sr.pack(edges), "boolean", reflexive=False, structure=False)
            assert sr.closure(sr.pack(edges), "boolean", reflexive=False) == cycles
    assert "reachability" not in applied_steps(sr.pack(np.triu(edges, 1)), "xor_and")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["acyclic", "any"])
def test_rows_of_few_edges_are_joined_for_many_targets(rng, kind, threads):
    """There are more targets than are searched at a time. The caller's words stay, and ``out`` need not be empty."""
    n = 1601
    edges = np.zeros((n, n), bool)
    tails, heads = rng.integers(0, n, (2, n + n // 4))
    if kind == "acyclic":
        tails, heads = rng.permutation(n)[np.sort([tails, heads], axis=0)]
    edges[tails, heads] = True
    A = sr.pack(edges)
    assert strong_components(A, False).lists is not None
    before, out = A.copy(), sr.pack(np.ones((n, n), bool))
    reach = sr.closure(A, "boolean", threads=threads, out=out)
    assert reach is out
    assert before == A
    assert out == sr.closure(A, "boolean", structure=False)
    assert sr.closure(before, "boolean", threads=threads, out=before) == out


# ------------------------------------------------------------------------------------------------------------- hops


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("min_plus", "float32"),
        *(pytest.param("min_plus", name, marks=pytest.mark.exhaustive) for name in ("float64", "int16", "int64")),
        pytest.param("max_plus", "float32", marks=pytest.mark.exhaustive),
        pytest.param("max_plus", "int16", marks=pytest.mark.full),
    ],
)
def test_hops_of_edges_of_one_weight(rng, of_few, name, dtype):
    for n in (1, 2, 40, 70):
        for kind in ("sparse", "dense", "tail", "apart", "empty", "undirected sparse"):
            edges = structured.edges_of(rng, n, kind)
            weight = 3 if name == "min_plus" else -3
            A = np.where(edges, np.dtype(dtype).type(weight), oracles.zero(name, dtype)).astype(dtype)
            loops = np.arange(n)[rng.random(n) < 0.5]
            A[loops, loops] = 0  # of any weight that does not gain
            if edges[~np.eye(n, dtype=bool)].any():
                assert "breadth_first_search" in applied_steps(A, name)
            np.testing.assert_array_equal(sr.closure(A, name), oracles.closure(A, name))
            plus = sr.closure(A, name, structure=False, reflexive=False)
            np.testing.assert_array_equal(sr.closure(A, name, reflexive=False), plus)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_hops_and_a_loop_that_gains(of_few, name, dtype):
    sign = 1 if name == "min_plus" else -1
    A = np.where(np.eye(50, k=1, dtype=bool), sign, oracles.zero(name, dtype)).astype(dtype)
    A[7, 7] = -sign
    with pytest.raises(NegativeCycleError) as caught:
        sr.closure(A, name)
    assert caught.value.cycle == (7,)


@pytest.mark.full
def test_hops_of_integers_that_nearly_fill_their_range(of_few):
    """Weights of which half the range holds no path are computed in wider integers, and a loop may be as large."""
    none = np.iinfo(np.int16).max
    for weight, loop in ((25_000, 25_000), (16_000, 16_000), (500, 30_000), (500, 16_300), (250, 250)):
        A = np.where(np.eye(60, k=1, dtype=bool), weight, none).astype(np.int16)
        A[3, 3] = loop
        results = []
        for structure in (True, False):
            try:
                results.append(sr.closure(A, structure=structure))
            except IntegerOverflowError as error:
                results.append(np.array(type(error).__name__))
        np.testing.assert_array_equal(*results)


@pytest.mark.full
def test_hops_along_a_path_longer_than_its_digits(of_few):
    """A search of 16 rounds and more, and of 256 and more, takes more planes of digits."""
    for n in (16, 17, 300):
        A = np.where(np.eye(n, k=1, dtype=bool), np.float32(0.5), np.float32(np.inf))
        expected = np.where(np.tri(n, dtype=bool).T, (np.arange(n) - np.arange(n)[:, None]) / 2, np.inf)
        assert "breadth_first_search" in applied_steps(A, "min_plus")
        np.testing.assert_array_equal(sr.closure(A), expected)


@pytest.mark.full
@pytest.mark.parametrize("batch", [1, 8])
def test_hops_of_more_targets_than_a_word_has(rng, of_few, monkeypatch, batch):
    monkeypatch.setattr(sys.modules["semiring.algorithms.breadth_first_search"], "_CONCURRENT_SEARCHES", batch)
    for density in (0.001, 0.004, 0.05, 0.7):
        edges = rng.random((1030, 1030)) < density
        A = np.where(edges, np.float32(0.5), np.float32(np.inf))
        assert "breadth_first_search" in applied_steps(A, "min_plus", threads=2)
        np.testing.assert_array_equal(sr.closure(A), sr.closure(A, structure=False))


@pytest.mark.full
def test_hops_only_where_sums_are_exact(of_few):
    A = np.where(np.eye(40, k=1, dtype=bool), 1.0, np.inf)
    for weight, exact in (
        (1.0, True),
        (0.375, True),
        (0.1, False),
        (2.0**1000, True),
        (2.0**1020, False),
        (0.0, False),
    ):
        W = np.where(A == 1, weight, np.inf)
        assert ("breadth_first_search" in applied_steps(W, "min_plus", structure="hops")) == exact, weight
    narrow = np.where(np.isfinite(A), 500, np.iinfo(np.int16).max).astype(np.int16)  # 39 of them leave half the range
    np.testing.assert_array_equal(sr.closure(narrow), sr.closure(narrow, structure=False))
    assert "breadth_first_search" not in applied_steps(A, "min_plus", structure="components")


# ------------------------------------------------------------------------------------------------------- separators


def grid(rng, side, dtype=float):
    """Return a grid of streets, some of them one-way."""
    n = side * side
    A = np.full((n, n), np.inf)
    place = np.arange(n).reshape(side, side)
    for a, b in ((place[:, :-1], place[:, 1:]), (place[:-1], place[1:])):
        A[a.ravel(), b.ravel()] = rng.integers(1, 30, a.size)
        A[b.ravel(), a.ravel()] = np.where(rng.random(a.size) < 0.7, rng.integers(1, 30, a.size), np.inf)
    return A.astype(dtype)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", full(lambda name: name != "max_times", ["min_plus", "max_plus", "max_min", "max_times"])
)
def test_small_separators(rng, of_few, name):
    for side in (2, 3, 7, 9):
        A = grid(rng, side)
        scaled = {"max_plus": -A, "max_times": 1 / (1 + A), "max_min": -A}
        A = scaled.get(name, A)
        for W in (A, np.where(A == A.T, A, oracles.zero(name, np.float64))):
            if len(W) > 20:
                assert "supernodal" in applied_steps(W, name, structure="separators")
            D = sr.closure(W, name, structure="separators")
            np.testing.assert_allclose(D, sr.closure(W, name, structure=False), rtol=1e-12, atol=1e-300)
    integers = np.where(np.isfinite(grid(rng, 8)), grid(rng, 8), 2**31 - 1).clip(max=2**31 - 1).astype(np.int32)
    np.testing.assert_array_equal(sr.closure(integers), sr.closure(integers, structure=False))


@pytest.mark.full
def test_an_order_is_looked_for_where_the_levels_of_a_search_are_narrow(rng):
    from scipy.sparse import coo_array

    n = 1600

    def graph(tails, heads):
        weights = rng.random(len(tails)).astype(np.float32) + 1
        return coo_array((weights, (tails, heads)), shape=(n, n)).tocsr()

    _, why = sr.closure(graph(*rng.integers(0, n, (2, 3 * n))), explain=True)
    assert "one search found no small separators" in why.details
    at = np.arange(n).reshape(40, 40)
    streets = graph(np.r_[at[:, 1:].ravel(), at[1:].ravel()], np.r_[at[:, :-1].ravel(), at[:-1].ravel()])
    star = graph(np.zeros(n - 1, int), np.arange(1, n))
    for A in (streets, star):
        even = A + A.T
        uneven = even.copy()  # two edges between neighbours, of different weights
        uneven.data += rng.random(uneven.nnz).astype(np.float32)
        for both_ways in (even, uneven):
            assert "supernodal" in applied_steps(both_ways, "min_plus")
            np.testing.assert_allclose(sr.closure(both_ways), sr.closure(both_ways, method="johnson"), rtol=1e-5)


def test_paths_by_separators(rng, of_few):
    A = grid(rng, 7)
    found = sr.shortest_paths(A)
    np.testing.assert_array_equal(found.matrix, oracles.closure(A, "min_plus"))
    for i, j in ((0, 48), (6, 42), (20, 3)):
        path = found.path(i, j)
        assert sum(A[a, b] for a, b in itertools.pairwise(path)) == found.matrix[i, j]


def test_no_separators_where_the_order_decides_about_stars(rng, of_few):
    A = np.where(np.isfinite(W := grid(rng, 6)), 0.001, 0.0)
    assert "supernodal" not in applied_steps(A, "plus_times", structure="separators")
    gaining = np.triu(np.where(np.isfinite(W), 2.0, 0.0))
    assert "supernodal" not in applied_steps(gaining, "max_times", structure="separators")


# --------------------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_few_edges_of_a_dense_matrix_are_searched(rng, of_few, name, monkeypatch):
    monkeypatch.setattr(sys.modules["semiring.algorithms.johnson"], "search_operations", lambda *_, **__: -1)
    for signed in (False, True):
        h = rng.integers(-9, 9, 60) if signed else np.zeros(60)
        for kind in ("sparse", "apart", "undirected sparse"):
            edges = structured.edges_of(rng, 60, kind) & (rng.random((60, 60)) < 0.3)
            W = rng.integers(1, 20, (60, 60)) + h[:, None] - h
            A = np.where(edges, W if name == "min_plus" else -W, oracles.zero(name, np.float64))
            A[0, 1], A[1, 2] = (3, 2) if name == "min_plus" else (-3, -2)  # not all of one weight
            for options in ({}, {"reflexive": False}, {"out": np.empty_like(A)}):
                if "out" not in options:
                    assert "johnson" in applied_steps(A, name, structure="searches", **options)
                found = sr.closure(A, name, structure="searches", **options)
                np.testing.assert_array_equal(found, sr.closure(A, name, structure=False, **options))
    A[1, 0] = -A[0, 1] - 1 if name == "min_plus" else -A[0, 1] + 1
    with pytest.raises(NegativeCycleError):
        sr.closure(A, name, structure="searches")
    assert "johnson" not in applied_steps(np.where(edges, 0.5, 0.0), "max_times", structure="searches")
    half = np.abs(np.where(edges, W, np.inf)).astype(np.float16)  # SciPy has no sparse matrices of these
    np.testing.assert_array_equal(sr.closure(half, structure="searches"), sr.closure(half, structure=False))


def test_an_explanation_has_the_costs_of_all_that_apply(rng, of_few):
    from scipy.sparse import csr_array

    A = np.where(rng.random((300, 300)) < 0.006, rng.random((300, 300)), np.inf)
    share = np.isfinite(sr.closure(A, structure=False)).mean()
    for given in (A, csr_array(np.where(np.isfinite(A), A, 0))):
        _, why = sr.closure(given, explain=True, structure="searches")
        dense, searches = dense_operations(300, 8), search_operations(300, int(np.isfinite(A).sum()), share=share)
        assert why.costs == {"dense": dense, "johnson": pytest.approx(searches)}
        assert {answer.name: answer.cost for answer in why.answers if answer.cost} == why.costs
    assert f"cost     {min(why.costs.values()):.2g} pairs" in str(why)


def test_no_cost_is_below_its_bound(of_few, monkeypatch):
    """A bound above the cost would hide an algorithm without a trace."""
    monkeypatch.setattr(sys.modules["semiring.algorithms.supernodal"], "predict_operations", predict_operations)
    seen = set()
    for seed in range(60):
        case = structured.random_case(np.random.default_rng(seed), 40)
        facts = Facts(case.A, Options(sr.as_semiring(case.name), structure=frozenset(STRUCTURES)))
        p = Problem(facts)
        try:
            encoded = encode(p, [])
        except SemiringError:
            continue
        asked = [a for a in ALGORITHMS if a.reason_by_options(p.circumstances) is None]
        for a in asked:
            q = encoded if a.is_encoded else p
            with suppress(SemiringError):
                if reason_against(a, q) is None:
                    assert a.least_cost(p) <= a.cost(q), (a.name, str(case))
                    seen.add(a.name)
    assert seen >= {"dense", "johnson", "components", "undirected", "breadth_first_search", "supernodal"}


def _structure_of_sparse(n, tails, heads):
    """Return the structure of a sparse matrix of such edges, of several weights."""
    from scipy.sparse import coo_array

    tails, heads = np.unique(np.stack([tails, heads]), axis=1)
    return analyze_sparse(coo_array((1.0 + np.arange(tails.size), (tails, heads)), shape=(n, n)).tocsr())


@pytest.mark.parametrize("n", [2, 33, 512, 700])
def test_how_much_a_vertex_reaches(rng, n):
    for each in (0.5, 1.2, 3):
        edges = rng.integers(0, n, (2, int(each * n)))
        seen = _structure_of_sparse(n, *edges)
        reached = np.zeros((n, n), bool)
        reached[edges[0], edges[1]] = True
        share = sr.closure(reached, "boolean", structure=False).mean()
        assert seen.mean_reach == pytest.approx(share, abs=1e-12 if n <= 512 else 0.05)
        assert seen.mean_reach == _structure_of_sparse(n, *edges).mean_reach
    assert structure_of(np.ones((n, n)), np.inf, 1).mean_reach == 1


def test_the_cost_of_searches_is_that_of_what_is_reached(rng):
    from scipy.sparse import coo_array

    n = 2025
    place = np.arange(n).reshape(45, 45)
    streets = np.c_[[place[:, :-1].ravel(), place[:, 1:].ravel()], [place[:-1].ravel(), place[1:].ravel()]]

    def explained(tails, heads):
        tails, heads = np.unique(np.stack([tails, heads]), axis=1)
        weights = 1.0 + np.arange(tails.size, dtype=np.float32)
        return sr.closure(coo_array((weights, (tails, heads)), shape=(n, n)), explain=True)[1]

    one_way = explained(*streets).costs
    assert sorted(one_way, key=one_way.get) == ["supernodal", "johnson"]
    assert explained(*np.sort(rng.integers(0, n, (2, 2 * n)), axis=0)).method == "johnson"
    assert explained(*rng.integers(0, n, (2, 3 * n))).method == "components"


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("method", ["auto", "johnson"])
def test_searches_name_a_cycle_as_it_is_walked(of_few, name, method, monkeypatch):
    monkeypatch.setattr(sys.modules["semiring.algorithms.johnson"], "search_operations", lambda *_, **__: -1)
    sign = 1.0 if name == "min_plus" else -1.0
    A = np.full((12, 12), sign * np.inf)
    A[np.arange(12), np.roll(np.arange(12), -1)] = 1.5 * sign
    A[0, 1] = -30.25 * sign
    for order in "CF":
        given = A.copy(order=order)
        with pytest.raises(NegativeCycleError) as caught:
            sr.closure(given, name, out=given, method=method)
        assert caught.value.cycle == tuple(range(12))
        np.testing.assert_array_equal(given, A)


@pytest.mark.parametrize("reflexive", [True, False])
def test_searches_let_long_distances_be_infinite(of_few, reflexive, monkeypatch):
    monkeypatch.setattr(sys.modules["semiring.algorithms.johnson"], "search_operations", lambda *_, **__: -1)
    A = np.full((12, 12), np.inf, np.float32)
    A[0, 1] = A[1, 2] = A[2, 0] = 3e38
    expected = sr.closure(A, structure=False, reflexive=reflexive)
    np.testing.assert_array_equal(sr.closure(A, structure="searches", reflexive=reflexive), expected)
    np.testing.assert_array_equal(sr.closure(A, method="johnson", reflexive=reflexive), expected)


# -------------------------------------------------------------------------------------------------- sparse matrices


def test_what_a_look_finds_in_a_sparse_matrix(rng):
    from scipy.sparse import coo_array, csr_array

    for kind in structured.KINDS:
        edges = structured.edges_of(rng, 40, kind)
        A = np.where(edges, 2.0, np.inf)
        stored = csr_array((np.full(edges.sum(), 2.0), np.nonzero(edges)), shape=(40, 40))
        dense, found = structure_of(A, np.inf, 1), analyze_sparse(stored)
        assert (found.is_symmetric, found.edges, found.weight) == (dense.is_symmetric, dense.edges, dense.weight)
        np.testing.assert_array_equal(found.components.sizes.sum(), 40)
        assert len(found.components) == len(dense.components)
    twice = coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(40, 40))
    assert analyze_sparse(twice) is None  # its entries are added by ⊕, not by +
    zeros = analyze_sparse(csr_array((np.zeros(2), ([0, 1], [1, 0])), shape=(40, 40)))
    assert len(zeros.components) == 39


@pytest.mark.full
@pytest.mark.parametrize(
    "dtype", full(lambda dtype: dtype in ("int16", "float32"), ["int16", "int64", "float32", "float64"])
)
def test_hops_of_what_a_sparse_matrix_stores(rng, of_few, monkeypatch, dtype):
    """No dense matrix is made to read one weight, and loops that do not gain change nothing."""
    from scipy.sparse import coo_array

    none = oracles.zero("min_plus", dtype)
    for n, form in ((1, "csr"), (40, "csc"), (130, "coo"), (600, "lil")):
        edges = rng.random((n, n)) < 3 / n
        A = np.where(edges, 3, none).astype(dtype)
        loops = np.flatnonzero(rng.random(n) < 0.3)
        A[loops, loops] = np.arange(loops.size) % 5
        kept = np.nonzero(none != A)
        S = coo_array((A[kept], kept), shape=A.shape).asformat(form)
        expected, plus = (sr.closure(A, structure=False, reflexive=reflexive) for reflexive in (True, False))
        np.testing.assert_array_equal(sr.closure(S, reflexive=False), plus)
        out = np.empty((n, n), dtype)
        with monkeypatch.context() as patched:
            if (edges & ~np.eye(n, dtype=bool)).any():
                assert applied_steps(S, "min_plus", structure="hops")[-1] == "breadth_first_search"
                patched.setattr(sys.modules["semiring.closures.problem"], "as_array", None)
            for options in ({}, {"out": out}, {"threads": 2, "progress": lambda done, total: None}):
                found = sr.closure(S, structure="hops", **options)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(out, expected)
    S = coo_array(([2, 2, -2], ([0, 1, 1], [1, 2, 1])), shape=(3, 3)).astype(dtype)
    with pytest.raises(NegativeCycleError):
        sr.closure(S)


@pytest.mark.parametrize(
    "dtype",
    quick(
        lambda dtype: dtype == "uint64",
        full(lambda dtype: dtype in ("uint8", "uint64"), ["uint8", "uint16", "uint32", "uint64"]),
    ),
)
def test_tiles_and_their_edges(rng, dtype):
    """Kernels for tiles of 16 rows and columns, or of 32 entries, are right at sizes that these do not divide."""
    from semiring.kernels.graphs.edge_scan import is_mirrored, mark_edges
    from semiring.kernels.graphs.permutation import mirror_entries, transpose_entries

    for n in (1, 15, 16, 17, 32, 33, 50):
        wide = rng.integers(0, 3, (2 * n, 2 * n)).astype(dtype)
        for A in (wide[:n, :n], wide[::2, ::2], wide[:n, :n].T, np.ascontiguousarray(wide[:n, :n])):
            words = np.zeros((n, -(-n // 32)), np.uint32)
            others = mark_edges(A, A.dtype.type(0), A.dtype.type(1), words, 0, n)
            bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :n]
            np.testing.assert_array_equal(bits, A != 0)
            assert others == ((A == 2) & ~np.eye(n, dtype=bool)).any()
            turned = np.zeros((n, n + 3), dtype)[:, :n]
            transpose_entries(A, turned, 0, n)
            np.testing.assert_array_equal(turned, A.T)
            even = np.maximum(A, A.T)
            assert is_mirrored(even, 0, n)
            for i, j in rng.integers(0, n, (4, 2)):
                odd = even.copy()
                odd[i, j] += 1
                assert is_mirrored(odd, 0, n) == (i == j)
            whole = A.copy()
            mirror_entries(whole, 0, n)
            np.testing.assert_array_equal(whole, np.triu(A) + np.triu(A, 1).T)


@pytest.mark.parametrize(("name", "dtype"), [("min_plus", "float64"), ("max_min", "int16"), ("boolean", "bool")])
def test_what_is_stored_is_made_dense_by_strips(rng, of_few, name, dtype):
    from scipy.sparse import coo_array

    for n, threads in ((0, 2), (1, 1), (7, 3), (130, 2)):
        edges = rng.random((n, n)) < 0.3
        A = np.where(edges, rng.integers(0, 9, (n, n)), oracles.zero(name, dtype)).astype(dtype)
        expected = sr.closure(A, name, structure=False)
        for form in ("csr", "csc", "coo"):
            S = coo_array((A[edges], np.nonzero(edges)), shape=A.shape).asformat(form)
            found = sr.closure(S, name, structure="undirected", threads=threads)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.full
def test_sparse_matrices_are_spared_work_too(rng, of_few):
    from scipy.sparse import csr_array

    def to_sparse(A):
        rows, columns = np.nonzero(np.isfinite(A))
        return csr_array((A[rows, columns], (rows, columns)), shape=A.shape)

    streets = grid(rng, 9)
    ones = np.where(np.isfinite(streets), 1.0, np.inf)
    for A, use, step in ((streets, "separators", "supernodal"), (ones, "hops", "breadth_first_search")):
        np.testing.assert_array_equal(sr.closure(to_sparse(A)), oracles.closure(A, "min_plus"))
        assert step in applied_steps(to_sparse(A), "min_plus", structure=use) or len(A) < 1000
    edges = structured.edges_of(rng, 90, "tail")
    found = sr.closure(csr_array(edges), "boolean")
    np.testing.assert_array_equal(found, oracles.reachable(edges))


@pytest.mark.full
def test_reasons_are_those_of_the_way_that_was_taken(rng):
    A = np.where(rng.random((1600, 1600)) < 0.004, 1.0, np.inf)
    _, why = sr.closure(A, explain=True)
    assert why.method == "breadth_first_search"
    assert [reason for reason in why.reasons if "blocked_floyd_warshall" in reason] == []
    assert "all edges have the weight 1.0" in str(why)


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name == "max_min", ["max_min", "min_max"]))
def test_bottlenecks_in_float16(name, of_few, rng):
    """The compiler of the host does not know float16, so there they are found in float32."""
    for n in (1, 2, 33):
        A = rng.integers(-9, 9, (n, n)).astype(np.float16)
        A = np.where(rng.random((n, n)) < 0.4, A, sr.as_semiring(name).zero_for(A.dtype)).astype(np.float16)
        A = np.where(np.tri(n, k=-1, dtype=bool), A.T, A)
        assert "spanning_tree" in applied_steps(A, name, structure="bottleneck")
        found = sr.closure(A, name)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, oracles.closure(A, name))


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_hops_use_the_whole_range_of_integers(name, dtype):
    """Sums of the one weight are written directly, so they may lie beyond half the range."""
    from scipy.sparse import coo_array

    n, weight = 300, np.iinfo(dtype).max // 301 * (1 if name == "min_plus" else -1)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)])
    stored = coo_array((np.full(n - 1, weight, dtype), edges), shape=(n, n))
    D, why = sr.closure(stored, name, explain=True)
    assert why.method == "breadth_first_search"
    assert D[0].tolist() == [weight * hops for hops in range(n)]


@pytest.mark.full
@pytest.mark.parametrize("form", ["csr", "coo", "lil"])
def test_hops_of_few_vertices_are_counted_from_what_is_stored(rng, form):
    """A graph of so few vertices is not scanned for other structure."""
    from scipy.sparse import coo_array

    n, even = 300, np.arange(300)
    edges = np.stack([even, np.roll(even, 1)])
    edges = np.unique(np.hstack([edges, edges[::-1], rng.integers(0, n, (2, 500))]), axis=1)
    for weights, name, expected in (
        (np.full(edges.shape[1], 2), "min_plus", "breadth_first_search"),
        (np.full(edges.shape[1], -2), "max_plus", "breadth_first_search"),
        (np.arange(edges.shape[1]) + 1, "min_plus", None),
    ):
        A = coo_array((weights.astype(np.float64), edges), shape=(n, n)).asformat(form)
        steps = applied_steps(A, name)
        assert steps[-1] == (expected or "blocked_floyd_warshall")
        assert not {"undirected", "components"} & set(steps)
        np.testing.assert_array_equal(sr.closure(A, name), sr.closure(A, name, structure=False))
        np.testing.assert_array_equal(
            sr.closure(A, name, reflexive=False), sr.closure(A, name, structure=False, reflexive=False)
        )
