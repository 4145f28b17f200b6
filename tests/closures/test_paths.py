"""Test `Paths` and the functions that make it."""

from __future__ import annotations

import math
import pickle
import sys
from inspect import signature
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import trees
from oracles import closure as slow_closure
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra

import semiring as sr
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DomainError,
    DTypeError,
    NegativeCycleError,
    NoPathError,
    ShapeError,
    UnknownNameError,
    VertexError,
)

INF = math.inf
TOWNS = ("Ulm", "Bonn", "Kiel", "Jena")
ROADS = np.array([[INF, 7, 1, INF], [INF, INF, INF, INF], [INF, 2, INF, 4], [3, INF, INF, INF]])


def random_graph(rng, n, density, dtype=np.float64):
    A = rng.random((n, n)).astype(dtype)
    A[rng.random((n, n)) >= density] = INF
    return A


@pytest.mark.parametrize("predecessors", [True, False])
def test_the_example(predecessors):
    found = sr.shortest_paths(ROADS, names=TOWNS, predecessors=predecessors)
    assert found.distance("Ulm", "Bonn") == 3
    assert found.path("Ulm", "Bonn") == ["Ulm", "Kiel", "Bonn"]
    assert found.path("Ulm", "Ulm") == ["Ulm"]
    assert found.path(0, 1) == ["Ulm", "Kiel", "Bonn"], "numbers do where no name is a number"
    assert found.paths_from("Kiel") == {
        "Ulm": ["Kiel", "Jena", "Ulm"],
        "Bonn": ["Kiel", "Bonn"],
        "Kiel": ["Kiel"],
        "Jena": ["Kiel", "Jena"],
    }
    assert found.paths_from("Bonn") == {"Bonn": ["Bonn"]}
    with pytest.raises(NoPathError, match="no path leads from Bonn to Ulm"):
        found.path("Bonn", "Ulm")
    with pytest.raises(VertexError, match="no vertex is named 'Bon': did you mean Bonn"):
        found.path("Bon", "Ulm")
    with pytest.raises(VertexError, match=f"no vertex is named 'Xyz': they are {', '.join(map(repr, TOWNS))}$"):
        found.path("Xyz", "Ulm")
    with pytest.raises(VertexError, match="no vertex is named 0: they are '10', '20', '30'; where names are integers"):
        sr.shortest_paths(np.ones((3, 3)), names=["10", "20", "30"]).path(0, "20")
    with pytest.raises(VertexError, match="vertex 4 is not one of the 4"):
        found.distance(0, 4)
    assert len(found) == 4
    kept = "with" if predecessors else "without"
    assert repr(found) == f"<Paths of 4 vertices in min_plus, float64: 9 of 12 pairs connected, {kept} predecessors>"


def test_without_names_vertices_are_numbers():
    found = sr.shortest_paths(ROADS)
    assert found.names is None
    assert found.path(2, 0) == [2, 3, 0]
    assert found.path(np.int64(2), np.int32(0)) == [2, 3, 0]
    assert all(type(vertex) is int for vertex in found.path(2, 0))
    for wrong in (-1, 4, "Ulm", 1.0, True, None, [1]):
        with pytest.raises(VertexError):
            found.path(wrong, 0)


def test_names_that_are_numbers_are_not_positions():
    found = sr.shortest_paths(ROADS, names=[10, 20, 30, 0])
    assert found.path(10, 20) == [10, 30, 20]
    assert found.path(30, 10) == [30, 0, 10]
    with pytest.raises(VertexError):
        found.path(10, 1)


def test_names_must_fit():
    with pytest.raises(ShapeError, match="3 names were given for 4"):
        sr.shortest_paths(ROADS, names="abc")
    with pytest.raises(ShapeError, match="'a' was given to two"):
        sr.shortest_paths(ROADS, names="abca")
    with pytest.raises(TypeError, match="hashable, such as a string or a number: unhashable type: 'list'"):
        sr.shortest_paths(ROADS, names=["a", ["b"], "c", "d"])


@pytest.mark.parametrize(
    "function",
    [
        sr.shortest_paths,
        sr.longest_paths,
        sr.widest_paths,
        sr.most_reliable_paths,
        sr.transitive_closure,
    ],
)
def test_options_are_spelled_out(function):
    """The signature names every option, so that an editor shows them and a misspelt one raises in that function."""
    shared = {name: option for name, option in signature(sr.best_paths).parameters.items() if name != "semiring"}
    mine = {name: option for name, option in signature(function).parameters.items() if name != "reflexive"}
    if function is sr.transitive_closure:  # which has another default
        del mine["predecessors"], shared["predecessors"]
    assert mine == shared
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\).*predecesors"):
        function(ROADS, predecesors=False)


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize(
    ("threads", "error"), [(2.5, TypeError), ("2", TypeError), (0, ValueError), (-1, ValueError), (1.0, TypeError)]
)
def test_a_number_of_threads_is_an_integer(n, threads, error):
    A = np.zeros((n, n))
    for function in (sr.closure, sr.shortest_paths, lambda A, **more: sr.shortest_paths(A, predecessors=False, **more)):
        with pytest.raises(error, match="a number of threads is"):
            function(A, threads=threads)


def test_a_frame_brings_its_names():
    frame = pd.DataFrame(ROADS, index=TOWNS, columns=TOWNS)
    assert sr.shortest_paths(frame).path("Kiel", "Ulm") == ["Kiel", "Jena", "Ulm"]
    assert sr.shortest_paths(frame, names="wxyz").path("y", "w") == ["y", "z", "w"]
    assert sr.shortest_paths(pd.DataFrame(ROADS)).names == (0, 1, 2, 3)
    assert sr.shortest_paths(pd.DataFrame(ROADS, columns=TOWNS)).names == TOWNS
    with pytest.raises(ShapeError, match="different labels"):
        sr.shortest_paths(frame.rename(columns={"Ulm": "Köln"}))


def test_lists_and_sparse_matrices():
    assert sr.shortest_paths(ROADS.tolist()).path(0, 1) == [0, 2, 1]
    rows, columns = np.nonzero(ROADS < INF)
    sparse = coo_array((ROADS[rows, columns], (rows, columns)), shape=ROADS.shape)
    for predecessors in (True, False):
        for matrix in (sparse, csr_array(sparse)):
            assert sr.shortest_paths(matrix, predecessors=predecessors).path(2, 0) == [2, 3, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 33, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_dijkstra(rng, n, dtype):
    A = random_graph(rng, n, 0.2, dtype)
    found, later = (sr.shortest_paths(A, predecessors=kept) for kept in (True, False))
    if n:
        rows, columns = np.nonzero(A < INF)
        graph = csr_array((A[rows, columns].astype(float), (rows, columns)), shape=A.shape)
        np.testing.assert_allclose(found.matrix, dijkstra(graph), rtol=n * np.finfo(dtype).eps)
    assert found.matrix.dtype == dtype
    np.testing.assert_array_equal(found.matrix, later.matrix)
    for paths in (found, later):
        for i in range(min(n, 5)):
            for j in range(n):
                if found.reachable[i, j]:
                    path = paths.path(i, j)
                    assert len(set(path)) == len(path)
                    total = math.fsum(float(A[a, b]) for a, b in pairwise(path))
                    assert abs(total - found.matrix[i, j]) <= n * np.finfo(dtype).eps * total


@pytest.mark.parametrize("n", [2, 40])
def test_paths_without_predecessors_through_zeros_and_negative_edges(rng, n):
    heights = rng.integers(-9, 9, n)
    for A in (
        (heights - heights[:, None] + rng.integers(0, 2, (n, n))).astype(np.int32),
        heights - heights[:, None] + rng.random((n, n)),
        np.zeros((n, n)),
        np.add.outer(-heights, heights) * 0.1,
    ):
        found = sr.shortest_paths(A, predecessors=False)
        for i in range(n):
            for j in range(n):
                path = found.path(i, j)
                assert len(set(path)) == len(path)
                assert sum(A[a, b] for a, b in pairwise(path)) == pytest.approx(found.matrix[i, j], abs=1e-12)


LONG = pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="long doubles are float64 here")


def long_doubles(rng, shape):
    """Draw numbers in [0, 1) with more digits than float64 has."""
    return rng.random(shape).astype(np.longdouble) + rng.random(shape).astype(np.longdouble) * np.longdouble(2) ** -55


@pytest.mark.full
@LONG
@pytest.mark.parametrize("predecessors", [True, False])
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_min", "max_times", "min_times"])
def test_paths_of_long_doubles_have_all_of_their_digits(rng, name, predecessors):
    semiring = sr.as_semiring(name)
    for n in (3, 30):
        A = {"max_plus": -1, "min_times": 1}.get(name, 0) + long_doubles(rng, (n, n))
        A[rng.random((n, n)) < 0.5] = semiring.zero_for(A.dtype)
        found = sr.best_paths(A, name, predecessors=predecessors)
        np.testing.assert_array_equal(found.matrix, sr.closure(A, name))
        for i, j in np.argwhere(found.reachable & ~np.eye(n, dtype=bool)).tolist():
            total = A.dtype.type(semiring.one_for(A.dtype))
            for edge in pairwise(found.path(i, j)):
                total = semiring.mul(total, A[edge])
            assert abs(total - found.matrix[i, j]) <= n * np.finfo(A.dtype).eps * abs(total)


@LONG
@pytest.mark.parametrize("predecessors", [True, False])
def test_long_doubles_under_potentials_are_as_exact_as_float64(rng, predecessors):
    heights = long_doubles(rng, 20)
    for A, name in (
        (heights - heights[:, None], "min_plus"),  # all cycles have the weight 0, up to rounding
        (heights - heights[:, None] + long_doubles(rng, (20, 20)), "min_plus"),
        (np.exp(heights - heights[:, None]) * long_doubles(rng, (20, 20)), "max_times"),
    ):
        found = sr.best_paths(A, name, predecessors=predecessors)
        np.testing.assert_allclose(found.matrix, slow_closure(A, name), rtol=0, atol=1e-13)
        for j in range(1, 20):
            weights = [A[edge] for edge in pairwise(found.path(0, j))]
            total = np.sum(weights) if name == "min_plus" else np.prod(weights)
            assert abs(total - found.matrix[0, j]) <= 1e-13


@LONG
def test_long_doubles_are_refused_where_only_a_closure_takes_them():
    A = np.full((3, 3), INF, np.longdouble)
    A[0, 1], A[1, 2] = 1 + np.longdouble(2) ** -60, 1
    S = csr_array(np.where(A < INF, A, 0))
    for given in (A, S):
        found = sr.shortest_paths(given, sources=[0])
        assert (found.matrix[0, 2], found.path(0, 2)) == (A[0, 1] + 1, [0, 1, 2])
        assert "16 bytes" in str(found.explanation)
        for method in ("johnson", "factor"):
            with pytest.raises(DTypeError, match=r"astype\(np\.float64\)"):
                sr.shortest_paths(given, sources=[0], method=method)
        with pytest.raises(DTypeError, match=r"astype\(np\.float64\)"):
            sr.factor(given)
    with pytest.raises(DTypeError, match="sparse elimination"):
        sr.fixed_point(S, np.zeros(3))
    with pytest.raises(AlgebraError, match="johnson"):
        sr.closure(S, method="johnson")


@LONG
def test_stored_long_doubles_keep_their_digits(rng, monkeypatch):
    monkeypatch.setattr(sys.modules["semiring.closures.problem"], "LEAST", 2)  # as if they were many
    n = 100
    weights = long_doubles(rng, n - 1)
    D = sr.closure(coo_array((weights, (np.arange(n - 1), np.arange(1, n))), shape=(n, n)))
    assert abs(D[0, n - 1] - weights.sum()) < 1e-16


@pytest.mark.parametrize(
    ("name", "dtype", "least", "most"),
    [
        ("min_plus", "float64", 0, 9),
        ("min_plus", "float16", 0, 9),
        ("min_plus", "float64", -1, 9),
        ("min_plus", "int32", -1, 9),
        ("max_plus", "int16", -9, 0),
        ("max_min", "uint8", 0, 9),
        ("min_plus", "int8", 60, 63),  # beyond half of the range, so each source is searched alone
    ],
)
def test_array_hops_and_total_search_all_sources_at_once(name, dtype, least, most, rng, monkeypatch):
    n, semiring = 12, sr.as_semiring(name)
    zero = semiring.zero_for(np.dtype(dtype))
    A = np.full((n, n), zero, dtype)
    tails, heads = rng.integers(0, n, (2, 2 * n)) if most < 60 else (np.arange(2), np.arange(1, 3))
    A[tails, heads] = rng.integers(least, most, tails.size)
    try:
        found = sr.best_paths(A, semiring, predecessors=False, check=False)
    except sr.NegativeCycleError:
        pytest.skip("a cycle gains")
    early = found.paths_from(0)
    if most < 60:
        monkeypatch.setattr(sr.Paths, "_search_tree", None)
    numbers, lengths = found.to_array()
    pred = found._all_trees(np.arange(n))
    trees.check(name, A, found.matrix, np.asarray(pred))
    for i, j in np.ndindex(n, n):
        listed = numbers[i, j, : lengths[i, j]].tolist()
        assert listed == (found.path(i, j) if lengths[i, j] else [])
        assert found.hops()[i, j] == lengths[i, j] - 1
        assert i or listed == early.get(j, [])
    with monkeypatch.context() as patch:
        patch.setattr(type(found), "_searched_trees", None)  # kept trees are not searched again
        assert (found.total(np.ones((n, n), int)).filled(-1) == found.hops()).all()


def test_unbounded_walks_have_no_place_in_trees_of_all_sources():
    A = np.full((5, 5), INF)
    A[0, 1], A[1, 2], A[2, 1], A[3, 4], A[4, 3] = 1, -2, 1, 2, 2
    found = sr.shortest_paths(A, predecessors=False, on_cycle="unbounded")
    assert found.hops().tolist()[3] == [-1, -1, -1, 0, 1]
    assert found.to_array()[1].tolist()[0] == [1, 0, 0, 0, 0]


def test_weights_that_changed_are_noticed(rng):
    A = random_graph(rng, 20, 0.5)
    found = sr.shortest_paths(A, predecessors=False)
    assert found.path(0, 1)
    A += 1
    with pytest.raises(ValueError, match="changed"):
        found.path(2, 3)
    assert found.path(0, 2), "the run from a source is kept"
    with pytest.raises(ValueError, match="changed"):
        found.hops()


def test_paths_made_by_hand():
    D = np.array([[0.0, 1.0], [INF, 0.0]])
    with pytest.raises(AlgebraError, match="neither predecessors nor weights"):
        sr.Paths(D, sr.min_plus).path(0, 1)
    cycle = np.array([[-9999, 1], [0, -9999]], np.int32)
    with pytest.raises(ValueError, match="cycle"):
        sr.Paths(D, sr.min_plus, cycle).path(0, 1)
    with pytest.raises(ShapeError):
        sr.Paths(D[:1], sr.min_plus)


# ------------------------------------------------------------------------------------------------------- the facts


def test_eccentricities():
    ring = np.full((5, 5), INF)
    for v in range(5):
        ring[v, (v + 1) % 5] = v + 1
    found = sr.shortest_paths(ring, names="abcde")
    expected = slow_closure(ring, "min_plus").max(axis=1)
    np.testing.assert_array_equal(found.eccentricity(), expected)
    assert found.eccentricity("b") == expected[1]
    assert (found.diameter, found.radius) == (expected.max(), expected.min()) == (14, 10)
    assert found.center == ["a"]
    assert found.periphery == ["b"]
    assert found.mean_distance == pytest.approx(slow_closure(ring, "min_plus").sum() / 20)
    assert found.reachable.all()


@pytest.mark.full
@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_eccentricities_of_every_size(rng, n):
    A = random_graph(rng, n, 0.8)
    found = sr.shortest_paths(A)
    D = slow_closure(A, "min_plus")
    np.testing.assert_allclose(found.eccentricity(), D.max(axis=1))
    widest = sr.widest_paths(-A, predecessors=False)
    np.testing.assert_array_equal(widest.eccentricity(), slow_closure(-A, "max_min").min(axis=1))
    assert widest.diameter == widest.eccentricity().min()
    assert widest.radius == widest.eccentricity().max()


@pytest.mark.full
def test_what_is_not_connected():
    found = sr.shortest_paths(ROADS)
    assert found.eccentricity(1) == INF
    assert found.diameter == INF
    assert found.radius == 5
    assert found.center == [0]
    assert found.periphery == [1]
    assert found.mean_distance == pytest.approx(found.matrix[found.reachable & ~np.eye(4, dtype=bool)].mean())
    integers = sr.shortest_paths(np.array([[9, 3], [np.iinfo(np.int32).max, 9]], np.int32))
    np.testing.assert_array_equal(integers.reachable, [[True, True], [False, True]])
    assert integers.diameter == INF
    alone = sr.shortest_paths(np.full((2, 2), INF))
    assert math.isnan(alone.mean_distance)
    assert "0 of 2 pairs" in repr(alone)
    assert "1 vertex in" in repr(sr.shortest_paths([[0.0]]))


def test_no_vertices():
    found = sr.shortest_paths(np.empty((0, 0)))
    assert len(found) == 0
    assert found.predecessors.shape == found.matrix.shape == (0, 0)
    assert found.eccentricity().shape == (0,)
    assert math.isnan(found.mean_distance)
    for fact in ("diameter", "radius", "center", "periphery"):
        with pytest.raises(ShapeError, match="without vertices"):
            getattr(found, fact)


def test_pickled_paths_are_paths():
    found = pickle.loads(pickle.dumps(sr.shortest_paths(ROADS, names=TOWNS)))
    assert found.path("Kiel", "Ulm") == ["Kiel", "Jena", "Ulm"]


# --------------------------------------------------------------------------------------------------- other semirings


@pytest.mark.full
def test_widest_paths():
    A = np.array([[-INF, 9, 3], [-INF, -INF, 4], [-INF, -INF, -INF]])
    found = sr.widest_paths(A)
    assert found.path(0, 2) == [0, 1, 2]
    assert found.distance(0, 2) == 4
    assert found.distance(0, 0) == INF
    with pytest.raises(NoPathError):
        found.path(2, 0)


@pytest.mark.full
def test_most_reliable_paths():
    A = np.array([[0, 0.5, 0.2], [0, 0, 0.5], [0, 0, 0]])
    found = sr.most_reliable_paths(A, names="abc")
    assert found.path("a", "c") == ["a", "b", "c"]
    assert found.distance("a", "c") == 0.25
    with pytest.raises(DivergenceError):
        sr.most_reliable_paths([[0, 2.0], [2.0, 0]])
    with pytest.raises(DomainError):
        sr.most_reliable_paths([[0, -0.5], [0, 0]])


@pytest.mark.parametrize("predecessors", [True, False])
def test_a_cycle_that_gains_is_told_by_name(predecessors):
    options = {"names": "ab", "predecessors": predecessors}
    with pytest.raises(DivergenceError, match=r"cycle through vertex b, .* product above 1, .* in \[0, 1\]") as caught:
        sr.most_reliable_paths([[0, 2], [1, 0]], **options)
    assert caught.value.vertex == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.vertex) == (str(caught.value), 1)
    with pytest.raises(DivergenceError, match=r"vertex b, .* product below 1"):
        sr.best_paths([[np.inf, 0.5], [1, np.inf]], "min_times", **options)
    with pytest.raises(DivergenceError, match=r"vertex 1, .* product above 1"):
        sr.most_reliable_paths([[0, 2], [1, 0]], names="a", predecessors=predecessors)


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")  # which is said beside the error
@pytest.mark.parametrize(
    ("function", "wrong", "none"),
    [(sr.longest_paths, INF, "max_plus is -inf"), (sr.shortest_paths, -INF, "min_plus is inf")],
)
def test_the_wrong_no_edge_is_told_the_right_one(function, wrong, none):
    for dtype in (np.float32, np.float64):
        with pytest.raises(DomainError, match=rf"is {wrong}, an edge of unbounded gain.*\(no edge in {none}\)"):
            function(np.array([[wrong, 1], [wrong, wrong]], dtype))


@pytest.mark.parametrize("predecessors", [True, False])
def test_longest_paths_of_a_schedule(predecessors):
    A = np.full((5, 5), -INF)
    A[0, 1], A[1, 2], A[0, 2], A[2, 4], A[0, 3], A[3, 4] = 3, 2, 4, 1, 1, 4
    found = sr.longest_paths(A, predecessors=predecessors)
    assert found.distance(0, 4) == 6
    assert found.path(0, 4) == [0, 1, 2, 4]
    assert found.path(0, 2) == [0, 1, 2]


def test_statistics_of_longest_paths_are_those_of_the_longest(rng):
    """Unreachable pairs do not count in the statistics, which agree with NetworkX."""
    A = np.triu(np.where(rng.random((12, 12)) < 0.4, rng.integers(1, 9, (12, 12)), -INF), 1)
    A[np.tril_indices(12)] = -INF
    graph = nx.DiGraph([(int(i), int(j), {"weight": A[i, j]}) for i, j in np.argwhere(A > -INF)])
    found = sr.longest_paths(A, predecessors=False)
    assert found.diameter == nx.dag_longest_path_length(graph) == found.matrix.max()
    np.testing.assert_array_equal(found.eccentricity(), found.matrix.max(axis=1))
    assert found.radius == 0
    assert found.center == [v for v in range(12) if not (A[v] > -INF).any()]
    integers = np.where(A > -INF, A, np.iinfo(np.int32).min).astype(np.int32)
    whole = sr.longest_paths(integers, predecessors=False)
    assert (whole.diameter, whole.eccentricity(0)) == (found.diameter, found.eccentricity(0))


@pytest.mark.full
def test_some_longest_paths_and_those_of_a_factor_have_the_same_statistics(rng):
    A = np.triu(np.where(rng.random((12, 12)) < 0.4, rng.integers(1, 9, (12, 12)), -INF), 1)
    A[np.tril_indices(12)] = -INF
    expected = sr.longest_paths(A).eccentricity()
    np.testing.assert_array_equal(expected, sr.closure(A, "max_plus").max(axis=1))
    some = sr.longest_paths(A, sources=[0, 5])
    np.testing.assert_array_equal(some.eccentricity(), expected[[0, 5]])
    np.testing.assert_array_equal(sr.factor(A, "max_plus").rows(reduce="eccentricity"), expected)


def test_a_positive_cycle_is_named():
    A = np.full((4, 4), -INF)
    A[0, 1], A[1, 3], A[3, 1] = 1, 2, -1
    with pytest.raises(NegativeCycleError) as numbered:
        sr.longest_paths(A)
    assert set(numbered.value.cycle) == {1, 3}
    with pytest.raises(NegativeCycleError, match=r"by name, it is (b → d → b|d → b → d)") as named:
        sr.longest_paths(A, names="abcd")
    assert set(named.value.cycle) == {1, 3}
    with pytest.raises(NegativeCycleError, match="by name"):
        sr.shortest_paths(-A, names="abcd", predecessors=False)


@pytest.mark.full
def test_transitive_closure(rng):
    A = rng.random((50, 50)) < 0.04
    expected = slow_closure(A, "boolean")
    found = sr.transitive_closure(A, predecessors=True)
    assert found.matrix.dtype == np.bool_
    np.testing.assert_array_equal(found.matrix, expected)
    np.testing.assert_array_equal(found.predecessors >= 0, expected & ~np.eye(50, dtype=bool))
    for given in (A.astype(np.uint8), A.astype(int).tolist(), csr_array(A), csr_array(A.astype(float)), sr.pack(A)):
        np.testing.assert_array_equal(sr.transitive_closure(given, predecessors=False).matrix, expected)
    np.testing.assert_array_equal(
        sr.transitive_closure(A, reflexive=False).matrix, slow_closure(A, "boolean", reflexive=False)
    )
    for i in range(50):
        for j in np.flatnonzero(expected[i]):
            path = found.path(i, j)
            assert all(A[a, b] for a, b in pairwise(path))
            assert len(set(path)) == len(path)


@pytest.mark.full
def test_the_transitive_closure_asks_what_an_edge_is():
    for A in ([[0, 2.5], [0, 0]], [[INF, 0.0], [1.0, INF]], np.eye(2)):
        with pytest.raises(DTypeError, match=r"boolean is not defined on float64.*say which entries are edges"):
            sr.transitive_closure(A)
    with pytest.raises(DTypeError, match=r"A\[0, 1\] is 2, .* integers that are all 0 or 1\. .*say which"):
        sr.transitive_closure(np.array([[0, 2], [0, 0]]))
    for stored in (0, 0.0, INF, np.nan):
        A = csr_array(([3, stored], ([0, 1], [1, 2])), shape=(3, 3))
        for more in ({}, {"sources": [0]}):
            with pytest.raises(
                DomainError, match=r"A stores .* at \[1, 2\], which may be an edge .* or no edge\. A.elim"
            ):
                sr.transitive_closure(A, **more)
    for dtype in (float, np.int8, bool):
        A = csr_array(np.array([[0, 3, 0], [0, 0, -1], [0, 0, 0]], dtype))
        assert sr.transitive_closure(A).matrix.tolist() == np.triu(np.ones((3, 3), bool)).tolist()
        assert sr.transitive_closure(A, sources=[1]).matrix.tolist() == [[False, True, True]]
    frame = pd.DataFrame([[False, True], [False, False]], index=["a", "b"], columns=["a", "b"])
    assert sr.transitive_closure(frame).path("a", "b") == ["a", "b"]


@pytest.mark.full
def test_any_selective_semiring_and_no_other():
    found = sr.best_paths([[INF, 4, 1], [INF, INF, INF], [INF, 2, INF]], "min_max")
    assert found.path(0, 1) == [0, 2, 1]
    assert found.distance(0, 1) == 2
    with pytest.raises(AlgebraError, match="no best paths"):
        sr.best_paths(np.eye(2), "plus_times")
    with pytest.raises(ShapeError):
        sr.shortest_paths(np.zeros((2, 3)))
    for predecessors in (True, False):
        with pytest.raises(UnknownNameError):
            sr.shortest_paths(ROADS, method="magic", predecessors=predecessors)
    with pytest.raises(DomainError, match=r"NaN|nan"):
        sr.shortest_paths([[0, math.nan], [1, 0]])


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.full)])
@pytest.mark.parametrize("predecessors", [pytest.param(True, marks=pytest.mark.full), False])
def test_the_input_is_left_alone(rng, predecessors, dtype):
    A = random_graph(rng, 40, 0.3, dtype)
    A[A < 0.1] *= -0.0
    before = A.copy()
    for view in (A, np.asfortranarray(A), A[::-1, ::-1], A.T):
        view.flags.writeable = False
        kept = view.copy()
        found = sr.shortest_paths(view, predecessors=predecessors)
        np.testing.assert_array_equal(view, kept)
        np.testing.assert_allclose(found.matrix, slow_closure(kept, "min_plus"), rtol=1e-5)
        assert found.path(1, 1) == [1]
    np.testing.assert_array_equal(A, before)


def test_progress_is_reported(rng):
    calls = []
    sr.shortest_paths(random_graph(rng, 300, 0.1), progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.full
def test_paths_without_predecessors_of_rounded_height_differences():
    """Distances of mixed signs carry the rounding of the potentials, and paths that are found later still fit them."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        n = int(rng.integers(2, 12))
        heights = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
        A = heights[:, None] - heights + rng.random((n, n)) * rng.integers(0, 2, (n, n))
        A = np.where(rng.random((n, n)) < 0.5, A, np.inf)
        found = sr.shortest_paths(A, predecessors=False)
        bound = 4 * n * np.finfo(float).eps * np.abs(found.matrix[found.reachable]).max()
        for i in range(n):
            for j, path in found.paths_from(i).items():
                assert abs(sum(A[u, v] for u, v in pairwise(path)) - found.matrix[i, j]) <= bound


@pytest.mark.parametrize(
    ("semiring", "dtype", "wider"), [("min_plus", np.uint8, "int16"), ("max_times", np.int16, "float32")]
)
def test_a_dtype_that_holds_all_entries_is_named(semiring, dtype, wider):
    with pytest.raises(DTypeError, match=rf"as by A\.astype\(np\.{wider}\)"):
        sr.closure(np.ones((2, 2), dtype), semiring)
