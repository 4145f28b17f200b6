"""Test paths of some sources, to some targets, within a limit: every method agrees with the paths of all pairs."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sparse
from tiers import full

import semiring as sr
from semiring.algebra.catalogue import as_semiring
from semiring.arrays import memory
from semiring.errors import DivergenceError, NoPathError, VertexError
from semiring.io import as_network

# Weights that gain are no probabilities, and are meant here.
pytestmark = pytest.mark.filterwarnings("ignore:the most reliable of these paths")

inf = np.inf
#: Functions, dtypes, and weights under which nothing gains, or some edges gain.
KINDS = {
    "shortest": ("shortest_paths", "min_plus", "float64", [0.0, 1.0, 0.5, 7.25]),
    "shortest of integers": ("shortest_paths", "min_plus", "int32", [0, 1, 2, 9]),
    "shortest, both signs": ("shortest_paths", "min_plus", "float64", [-0.5, 0.25, 1.0, 3.0, 7.5]),
    "shortest of integers, both signs": ("shortest_paths", "min_plus", "int32", [-1, 1, 4, 9]),
    "longest": ("longest_paths", "max_plus", "float32", [-1.0, -0.5, -3.0]),
    "widest": ("widest_paths", "max_min", "float64", [1.0, 2.0, 3.0, -4.0]),
    "reliable": ("most_reliable_paths", "max_times", "float64", [0.5, 0.25, 1.0]),
    "reliable, some gain": ("most_reliable_paths", "max_times", "float64", [0.125, 0.25, 1.5]),
    "reached": ("transitive_closure", "boolean", "bool", [True]),
}
WAYS = ("auto", "johnson", "factor", "rkleene")


def random_graph(rng, kind):
    """Return a matrix without cycles that gain, as an array, a sparse matrix or a frame of edges."""
    function, name, dtype, weights = KINDS[kind]
    semiring = as_semiring(name)
    n = int(rng.integers(1, 14))
    A = np.full((n, n), semiring.zero_for(dtype), dtype)
    edges = rng.random((n, n)) < rng.choice([0.1, 0.3, 0.8])
    A[edges] = rng.choice(weights, int(edges.sum())).astype(dtype)
    if "sign" in kind or "gain" in kind:  # towards higher numbers alone they may gain
        good = (A >= 0) if semiring is as_semiring("min_plus") else (A <= 1)
        A = np.where(good | np.triu(np.ones((n, n), bool), 1), A, semiring.zero_for(dtype)).astype(dtype)
        if "sign" in kind:
            A = (
                np.where(np.triu(np.ones((n, n), bool), 1) | (A > 1), A * 8, semiring.zero_for(dtype))
                if dtype == "float64"
                else A
            )
            A = np.where(np.tril(np.ones((n, n), bool)), semiring.zero_for(dtype), A).astype(dtype)
    return getattr(sr, function), semiring, A


def as_given(A, semiring, form):
    if form == "array":
        return A
    rows, columns = np.nonzero(semiring.zero_for(A.dtype) != A)
    return sparse.coo_array((A[rows, columns], (rows, columns)), shape=A.shape).asformat("csr")


def weight_of(path, A, semiring):
    value = semiring.one_for(A.dtype)
    for i, j in pairwise(path):
        value = semiring.mul(value, A[i, j])
    return value


def check(rng, kind):
    function, semiring, A = random_graph(rng, kind)
    n, zero = len(A), semiring.zero_for(A.dtype)
    try:
        every = function(A)
    except sr.errors.DivergenceError:
        for method in ("auto", "factor", *(["johnson"] if "gain" not in kind else [])):
            with pytest.raises(sr.errors.DivergenceError):
                function(as_given(A, semiring, "sparse"), sources=[0], method=method)
        return
    D = every.matrix
    sources = None if rng.random() < 0.3 else rng.integers(0, n, rng.integers(0, 4))
    targets = None if rng.random() < 0.3 else rng.integers(0, n, rng.integers(0, 4))
    if sources is None and targets is None:
        sources = np.array([0])
    limit = None if rng.random() < 0.6 else D[zero != D][rng.integers((zero != D).sum())]
    rows = np.arange(n) if sources is None else sources
    columns = np.arange(n) if targets is None else targets
    part = D[np.ix_(rows, columns)]
    if limit is not None:
        part = np.where(semiring.add(part, limit) == part, part, zero)
    given = as_given(A, semiring, rng.choice(["array", "sparse"]))
    for method in WAYS:
        if method == "johnson" and "gain" in kind:
            continue
        found = function(
            given, sources=sources, targets=targets, limit=limit, method=method, predecessors=bool(rng.integers(2))
        )
        matrix = found.matrix
        if limit is not None:
            assert sparse.issparse(matrix)
            dense = np.full(matrix.shape, zero)
            entries = matrix.tocoo()
            dense[entries.row, entries.col] = entries.data
            assert matrix.has_sorted_indices
            matrix = dense
        assert matrix.dtype == A.dtype
        np.testing.assert_allclose(matrix.astype(float), part.astype(float), rtol=1e-6, atol=1e-9, err_msg=method)
        for r in range(min(2, rows.size)):
            for c in range(min(3, columns.size)):
                i, j = int(rows[r]), int(columns[c])
                if part[r, c] == zero:
                    with pytest.raises(NoPathError):
                        found.path(i, j)
                    continue
                path = found.path(i, j)
                assert (path[0], path[-1], len(set(path))) == (i, j, len(path))
                np.testing.assert_allclose(float(weight_of(path, A, semiring)), float(part[r, c]), rtol=1e-6, atol=1e-9)
                np.testing.assert_allclose(float(found.distance(i, j)), float(part[r, c]), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::semiring.errors.SuspiciousWeightsWarning")
@pytest.mark.full
@pytest.mark.parametrize("kind", full(lambda kind: kind in ("shortest, both signs", "widest"), KINDS))
def test_some_paths_are_those_of_all_pairs(rng, kind):
    for _ in range(6):
        check(rng, kind)


def roads(n=40):
    """Return a grid of n × n crossings as a sparse matrix."""
    at = np.arange(n * n).reshape(n, n)
    tails, heads = np.r_[at[:, :-1].ravel(), at[:-1].ravel()], np.r_[at[:, 1:].ravel(), at[1:].ravel()]
    lengths = np.random.default_rng(0).integers(1, 9, tails.size).astype(float)
    ends = np.r_[tails, heads], np.r_[heads, tails]
    return sparse.coo_array((np.r_[lengths, lengths], ends), shape=(n * n, n * n)).tocsr()


@pytest.mark.full
def test_the_way_is_the_cheapest_and_is_explained(monkeypatch):
    A, few, many = roads(), [3], range(0, 1600, 2)
    for options, way in (
        ({"sources": few}, "johnson"),
        ({"targets": few}, "johnson"),
        ({"limit": 3.0}, "johnson"),
        ({"sources": many, "targets": many}, "factor"),
    ):
        found = sr.shortest_paths(A, **options)
        assert found.explanation.method == way
        assert way in str(found.explanation) or "limit" in str(found.explanation)
        assert "of 1,600 vertices" in str(found.explanation)
    random = sparse.random_array((300, 300), density=0.2, rng=np.random.default_rng(0), format="csr")
    assert sr.shortest_paths(random, sources=range(200)).explanation.method == "dense"
    grows = sparse.random_array((900, 900), density=0.01, rng=np.random.default_rng(0), format="csr")
    assert sr.shortest_paths(grows, sources=range(200)).explanation.method == "johnson"
    for _ in range(2):  # compiled first: the compiler looks for these functions of NumPy
        for options in ({"sources": few}, {"targets": few}, {"limit": 3.0}, {"sources": many, "targets": few}):
            for method in ("auto", "johnson", "factor") if "limit" not in options else ("auto",):
                sr.shortest_paths(A, **options, method=method)
        monkeypatch.setattr(np, "full", refuse_large(np.full, 1600 * 1600))
        monkeypatch.setattr(np, "empty", refuse_large(np.empty, 1600 * 1600))


def refuse_large(make, limit):
    def checked_make(shape, *arguments, **options):
        assert np.prod(shape) < limit, f"an array of {shape}"
        return make(shape, *arguments, **options)

    return checked_make


def test_what_was_not_asked_for_is_said_to_be_unknown():
    P = sr.shortest_paths(roads(5), sources=[3, 7], names=[f"v{i}" for i in range(25)])
    with pytest.raises(
        VertexError, match=r"v4 was not asked for as a source: these are the paths of v3, v7. Name it in"
    ):
        P.distance("v4", "v3")
    for name in ("diameter", "radius", "center", "periphery", "mean_distance"):
        with pytest.raises(sr.errors.ShapeError, match="all pairs"):
            getattr(P, name)
    np.testing.assert_array_equal(P.eccentricity(), P.matrix.max(axis=1))
    assert P.eccentricity("v7") == P.matrix[1].max()
    assert len(P) == 25
    assert P.paths_from("v3")["v3"] == ["v3"]
    assert len(P.paths_from("v3")) == 25
    within = sr.shortest_paths(roads(5), sources=[3], limit=4)
    with pytest.raises(sr.errors.ShapeError, match=r"all vertices, and these are the paths from 1 sources .* within 4"):
        within.eccentricity()
    with pytest.raises(NoPathError, match="no path within 4 leads from 3 to 20"):
        within.path(3, 20)
    assert within.distance(3, 20) == inf
    assert repr(within) == "<Paths from 1 to 25 of 25 vertices in min_plus, float64: 8 of 25 pairs connected within 4>"
    assert within.reachable.nnz == within.matrix.nnz
    assert set(within.paths_from(3)) == set(within.matrix.indices.tolist())


def test_both_signs_of_very_different_size_are_closed_densely():
    A = np.full((4, 4), inf)
    A[0, 1], A[1, 2], A[2, 0], A[2, 3] = 1e30, -1e30, 1e-3, 5.0
    given = as_given(A, as_semiring("min_plus"), "sparse")
    P = sr.shortest_paths(given, sources=[0], targets=[3])
    assert P.explanation.method == "dense"
    assert P.path(0, 3) == [0, 1, 2, 3]
    with pytest.raises(sr.errors.AlgebraError, match="needs a selective"):
        sr.shortest_paths(given, sources=[0], method="johnson")


@pytest.mark.full
@pytest.mark.parametrize("function", [sr.shortest_paths, sr.widest_paths, sr.longest_paths])
@pytest.mark.parametrize("limit", [inf, -inf, 1e30, 2**70, -(2**70), 2.5, -2.5, 3])
def test_limits_of_integers(function, limit):
    none = int(function([[0.0]]).semiring.zero_for(np.int32))
    A = np.array([[none, 2, none], [none, none, 1], [none, none, none]], np.int32)
    everything = function(A, predecessors=False)
    better = np.less_equal if none > 0 else np.greater_equal
    reached, endless = everything.matrix != none, everything.matrix == -none - 1  # the width of an empty path is ∞
    expected = reached & better(np.where(endless, inf, np.where(reached, everything.matrix, 0)), limit)
    found = function(A, limit=limit).matrix
    shown = np.zeros((3, 3), bool)
    shown[found.tocoo().row, found.tocoo().col] = True
    assert shown.tolist() == expected.tolist()


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("sign", [1, -1])
def test_halves_of_both_signs_whose_cycles_gain_by_rounding_alone(rng, dtype, sign):
    """Cycles of height differences weigh 0, except for rounding, by every sparse method and by factors."""
    name, n = "min_plus" if sign > 0 else "max_plus", 9
    height = 9 * rng.random(n)
    A = (sign * (height[:, None] - height)).astype(dtype)
    D = A.astype(float)
    allowed = 2 * n * np.abs(D).max() * 2.0 ** (-10 if dtype is np.float16 else -7)
    every, far = range(n), sign * 100
    for found in (
        *(sr.best_paths(A, name, sources=every, method=way).matrix for way in WAYS),
        sr.best_paths(A, name, sources=every, limit=far).matrix.toarray(),
        sr.closure(A, name, method="johnson"),
        np.array([sr.factor(A, name).solve(row) for row in sr.identity(n, name, dtype)]).T,
        sr.fixed_point(A, sr.identity(n, name, dtype), name),
    ):
        assert np.abs(found.astype(float) - D).max() <= allowed
    A[0, 1] -= dtype(sign)  # and no rounding explains this
    for way in WAYS:
        with pytest.raises(DivergenceError):
            sr.best_paths(A, name, sources=every, method=way)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_within_a_limit_are_stored_in_float32(rng, dtype):
    """Dijkstra's algorithm from both ends, a closure and a factor find the same distances, stored in float32."""
    A = np.where(rng.random((40, 40)) < 0.3, rng.integers(1, 9, (40, 40)), np.inf).astype(dtype)
    D = sr.closure(A).astype(np.float32)
    for options in ({}, {"targets": [3]}, {"sources": [1, 2]}, {"method": "factor"}, {"method": "rkleene"}):
        found = sr.shortest_paths(A, limit=6, **options).matrix
        expected = D[options.get("sources", slice(None))][:, options.get("targets", slice(None))]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.toarray(), np.where(expected <= 6, expected, 0))


def test_one_vertex_is_no_list_of_them():
    import networkx as nx

    grid = nx.grid_2d_graph(3, 4)
    with pytest.raises(TypeError, match=r"\(1, 2\) is one: give \[\(1, 2\)\]"):
        sr.shortest_paths(grid, sources=(1, 2))
    assert sr.shortest_paths(grid, sources=[(1, 2)]).distance((1, 2), (0, 0)) == 3
    assert sr.shortest_paths(roads(3), sources=(1, 2)).matrix.shape == (2, 9)
    with pytest.raises(TypeError, match=r"this is a mask: give numpy\.flatnonzero of it"):
        sr.shortest_paths(roads(3), sources=np.ones(9, bool))
    for vertex in (-1, 1.0):
        with pytest.raises(sr.errors.VertexError, match=f"vertex {vertex} is not"):
            sr.shortest_paths(roads(3), targets=vertex)


def test_all_paths_say_who_explains_them():
    found = sr.shortest_paths(roads(3))
    assert not hasattr(found, "explanation")
    with pytest.raises(AttributeError, match=r"pass explain=True, which returns \(paths, explanation\)"):
        found.explanation  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'explain'"):
        found.explain  # noqa: B018


def test_a_cycle_that_gains_is_named():
    with pytest.raises(sr.errors.NegativeCycleError) as caught:
        sr.shortest_paths([[inf, 1.0], [-2.0, inf]], sources=["a"], names=["a", "b"])
    assert set(caught.value.names) == {"a", "b"}


def test_frames_and_graphs_are_read_as_all_functions_are_told():
    import networkx as nx
    import pandas as pd

    frame = pd.DataFrame({"x": ["a", "b"], "y": ["b", "c"], "km": [3.0, 4.0], "toll": [1.0, 1.0]})
    G = nx.DiGraph()
    G.add_edge("a", "b", km=3.0, toll=1.0)
    G.add_edge("b", "c", km=4.0, toll=1.0)
    for function, expected in (("shortest_paths", 7.0), ("widest_paths", 3.0), ("longest_paths", 7.0)):
        for asked in ({}, {"sources": ["a"]}):
            found = getattr(sr, function)(frame, weight="km", columns=("x", "y"), **asked)
            assert found.distance("a", "c") == expected
            assert getattr(sr, function)(G, weight="km", **asked).distance("a", "c") == expected
    for asked in ({}, {"sources": ["c"]}):
        back = sr.shortest_paths(frame, weight="toll", columns=("x", "y"), directed=False, **asked)
        assert back.distance("c", "a") == 2.0
        assert sr.shortest_paths(G, weight="toll", directed=False, **asked).distance("c", "a") == 2.0
        assert sr.transitive_closure(frame, weight="km", columns=("x", "y"), directed=False, **asked).distance("c", "a")
        A = [[inf, 2.0], [inf, inf]]
        names = {"names": ["a", "c"]}
        assert sr.shortest_paths(A, directed=False, **names, **asked).distance("c", "a") == 2.0
        assert (
            sr.shortest_paths(
                sparse.csr_array(([2.0], ([0], [1])), shape=(2, 2)), directed=False, **names, **asked
            ).distance("c", "a")
            == 2.0
        )
        with pytest.raises(TypeError, match="weight"):
            sr.shortest_paths(A, weight="km", **names, **asked)
        with pytest.raises(TypeError, match="columns"):
            sr.shortest_paths(G, columns=("x", "y"), **asked)
        with pytest.raises(TypeError, match="two columns"):
            sr.shortest_paths(frame, columns="xy", **asked)


@pytest.mark.full
def test_what_does_not_fit_is_refused_before_work_begins(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1 << 30)
    n = 20_000
    A = sparse.coo_array(([1.0], ([0], [n - 1])), shape=(n, n)).tocsr()
    for function in (sr.closure, sr.shortest_paths, lambda A: sr.shortest_paths(A, predecessors=False)):
        with pytest.raises(MemoryError, match=r"of 20,000 vertices takes .* [GM]iB, and .* free: .*sources=.*factor"):
            function(A)
    for function in (sr.closure, sr.shortest_paths):
        import networkx as nx

        G = nx.empty_graph(n)
        with pytest.raises(sr.errors.TooLargeError, match=r"of 20,000 vertices takes .* [GM]iB"):
            function(G)
    F = sr.factor(A)
    with pytest.raises(sr.errors.TooLargeError, match=r"20,000 rows of A\* takes"):
        F.table(range(n))
    with pytest.raises(sr.errors.TooLargeError, match=r"a table of 20,000 × 20,000 takes"):
        F.table(np.arange(n), np.arange(n))
    assert sr.shortest_paths(A, sources=[0], targets=[n - 1]).matrix == 1.0


@pytest.mark.full
def test_reachability_that_does_not_fit_is_refused_before_work_begins(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1 << 28)
    n = 20_000
    A = sparse.coo_array(([True], ([0], [n - 1])), shape=(n, n)).tocsr()
    bits = sr.BitMatrix.from_edges([0], [n - 1], (n, n))
    for given in (A, bits, np.broadcast_to(False, (n, n))):
        with pytest.raises(sr.errors.TooLargeError, match=r"20,000 vertices, .*, call condensation"):
            sr.transitive_closure(given)
    assert sr.transitive_closure(A, sources=[0], targets=[n - 1]).matrix


@pytest.mark.parametrize(
    ("room", "takes", "options"),
    [
        (1.25, {"sparse", "packed", "array"}, {}),
        (2.25, {"sparse", "packed", "array", "numbers"}, {"reflexive": False}),
        (5.25, {"array"}, {"predecessors": True}),
        (6.25, {"sparse", "packed", "array", "numbers"}, {"predecessors": True}),
    ],
)
def test_what_reachability_takes_is_known_before(monkeypatch, room, takes, options):
    n, free = 64, memory.free_memory
    A = sparse.csr_array(np.eye(n, k=1, dtype=bool))
    monkeypatch.setattr(memory, "_SMALL", 0)
    given = {"sparse": A, "packed": sr.pack(A), "array": A.toarray(), "numbers": A.toarray().astype(int)}
    for name, matrix in given.items():
        monkeypatch.setattr(memory, "free_memory", lambda: int(room * n * n) + 1)
        try:
            found = sr.transitive_closure(matrix, **options)
        except sr.errors.TooLargeError:
            assert name not in takes
            continue
        assert name in takes
        monkeypatch.setattr(memory, "free_memory", free)
        np.testing.assert_array_equal(found.matrix, np.triu(np.ones((n, n), bool), 1 - options.get("reflexive", True)))
        assert found.path(0, n - 1) == list(range(n))


def test_paths_of_what_is_packed_or_sparse_ask_for_their_memory(monkeypatch):
    A = sparse.csr_array(np.eye(64, k=1, dtype=bool))
    monkeypatch.setattr(memory, "_SMALL", 0)
    for given in (A, sr.pack(A)):
        found = sr.transitive_closure(given)
        with monkeypatch.context() as tight:
            tight.setattr(memory, "free_memory", lambda: 0)
            with pytest.raises(sr.errors.TooLargeError, match="sources="):
                found.path(0, 1)
        assert found.path(0, 1) == [0, 1]


def test_the_edges_of_a_sparse_matrix_are_what_it_stores():
    """The advice of the error works: a stored entry of weight 0 is an edge."""
    A = sparse.csr_array(([0.0, 2.5], ([0, 1], [1, 2])), shape=(4, 4))
    calls = (sr.transitive_closure, lambda A: sr.transitive_closure(A, sources=[0]), lambda A: as_network(A, "boolean"))
    for call in calls:
        with pytest.raises(sr.errors.SemiringError, match=r"set A\.data = np\.ones\(A\.nnz, bool\)"):
            call(A)
    with pytest.raises(sr.errors.SemiringError, match=r"A\.data = np\.ones"):
        sr.condensation(A.toarray())
    H = A.copy()
    H.data = np.ones(H.nnz, bool)
    expected = np.eye(4, dtype=bool)
    expected[[0, 0, 1], [1, 2, 2]] = True
    np.testing.assert_array_equal(sr.transitive_closure(H).matrix, expected)
    np.testing.assert_array_equal(sr.transitive_closure(H, sources=range(4)).matrix, expected)
    np.testing.assert_array_equal(sr.condensation(H).reaches(range(4), range(4)), expected)
    np.testing.assert_array_equal(as_network(H, "boolean").matrix, H.toarray())


def test_truths_of_zeros_and_ones():
    A = np.eye(4, k=1, dtype=np.int64)
    expected = np.triu(np.ones((4, 4), bool))
    for given in (A, sparse.csr_array(A), A.astype(bool)):
        np.testing.assert_array_equal(sr.transitive_closure(given, sources=[2, 0]).matrix, expected[[2, 0]])
    with pytest.raises(sr.errors.DTypeError, match=r"A\[0, 1\] is 2, which bool does not hold"):
        sr.transitive_closure(2 * A, sources=[0])


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (1, 9, 40), [1, 2, 9, 40]))
def test_some_paths_of_at_least_one_edge(n, rng):
    for density in (0.5 / n, 1.5 / n, 4 / n):
        A = rng.random((n, n)) < density
        everything = sr.transitive_closure(A, reflexive=False)
        sources, targets = rng.integers(0, n, (2, 6))
        for method in ("johnson", "factor", "rkleene", "auto"):
            for given in (A, sparse.csr_array(A)):
                for asked, limit in ((None, None), (targets, None), (None, True), (targets, True)):
                    some = sr.transitive_closure(
                        given, reflexive=False, sources=sources, targets=asked, limit=limit, method=method
                    )
                    columns = np.arange(n) if asked is None else asked
                    matrix = some.matrix if limit is None else some.matrix.toarray()
                    np.testing.assert_array_equal(matrix, everything.matrix[np.ix_(sources, columns)])
                    for i, j in ((i, i) for i in sources if i in columns):
                        if not everything.matrix[i, j]:
                            with pytest.raises(sr.errors.NoPathError):
                                some.path(i, j)
                            continue
                        cycle = some.path(i, j)
                        assert cycle[0] == cycle[-1] == i
                        assert len(cycle) > 1
                        assert all(A[a, b] for a, b in pairwise(cycle))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_some_paths_are_those_of_all_pairs_in_many_cases(rng, kind):
    for _ in range(40):
        check(rng, kind)


#: A function of paths and its matrix: the weights are edges in every semiring.
_EXPLAINED = {
    "best_paths": lambda A: A,
    "longest_paths": lambda A: np.where(np.triu(np.ones(A.shape, bool), 1), A, -np.inf),
    "most_reliable_paths": lambda A: A / 10,
    "shortest_paths": lambda A: A,
    "transitive_closure": lambda A: A > 3,
    "widest_paths": lambda A: A,
}


@pytest.mark.parametrize("options", [{}, {"predecessors": False}, {"sources": [0, 2]}, {"targets": [1], "threads": 1}])
@pytest.mark.parametrize("name", _EXPLAINED)
def test_paths_are_returned_with_their_explanation(name, options):
    """``explain=True`` returns (paths, explanation), with the method that computed the result."""
    A = _EXPLAINED[name](np.random.default_rng(3).integers(1, 9, (12, 12)).astype(np.float64))
    function = getattr(sr, name)
    paths, explanation = function(A, **options, explain=True)
    expected = function(A, **options)
    assert type(paths) is type(expected)
    assert np.array_equal(paths.matrix, expected.matrix)
    assert (paths.predecessors is None) == (expected.predecessors is None)
    some = "sources" in options or "targets" in options
    assert str(explanation).startswith(f"paths {'from' if some else 'between all 12'}")
    assert explanation.method not in ("", "auto")
    assert explanation.semiring == paths.semiring.name
    assert explanation.threads == options.get("threads", sr.get_threads())
    assert function(A, **options, explain="full")[1].full


def test_explain_is_a_flag_or_full():
    with pytest.raises(TypeError, match="explain is True, False or 'full'"):
        sr.shortest_paths(np.zeros((2, 2)), explain="rules")
