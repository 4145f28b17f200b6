"""Test `semiring.compat.csgraph` by SciPy's own tests of shortest paths, and by SciPy as the oracle of edge cases."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sparse
import scipy.sparse.csgraph as theirs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph.tests import test_shortest_path as suite
from tiers import full

import semiring.compat.csgraph as ours
from semiring.algorithms import schedule
from semiring.closures import closure
from semiring.testing import height_difference_grid

NAMES = ("floyd_warshall", "johnson", "shortest_path")
inf, nan = np.inf, np.nan

#: Tests of SciPy's module that call none of our functions: they are about these, which are SciPy's own here too.
OF_OTHER_FUNCTIONS = {
    "dijkstra": {
        "test_20904",
        "test_dijkstra_indices_min_only",
        "test_dijkstra_limit",
        "test_dijkstra_min_only_random",
        "test_dijkstra_random",
        "test_gh_17782_segfault",
    },
    "yen": {
        "test_yen_dense",
        "test_yen_directed",
        "test_yen_negative_weights",
        "test_yen_no_paths",
        "test_yen_source_sink_validation",
        "test_yen_undirected",
        "test_yen_unweighted",
    },
}
_OTHERS = set.union(*OF_OTHER_FUNCTIONS.values())


@pytest.fixture(autouse=True)
def call_log(request, monkeypatch):
    """Give SciPy's module of tests our functions, and return the names of the calls."""
    calls: list[str] = []

    def counting(name):
        def function(*args, **kwargs):
            calls.append(name)
            return getattr(ours, name)(*args, **kwargs)

        return function

    for name in NAMES:
        monkeypatch.setattr(suite, name, counting(name), raising=False)
    yield calls
    name = request.function.__name__
    if name in vars(suite):
        assert bool(calls) != (name in _OTHERS), "OF_OTHER_FUNCTIONS is to name the tests that call none of ours"


def test_no_name_of_the_list_is_stale():
    assert {name for name in vars(suite) if name.startswith("test_")} >= _OTHERS


globals().update({name: function for name, function in vars(suite).items() if name.startswith("test_")})


def test_every_name_of_csgraph_is_there():
    assert set(theirs.__all__) == set(ours.__all__)
    for name in theirs.__all__:
        assert (getattr(ours, name) is getattr(theirs, name)) != (name in NAMES), name
    assert ours.NegativeCycleError is theirs.NegativeCycleError
    assert ours._validation is theirs._validation


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_scipy(name):
    from inspect import signature

    def shape(function):
        return [(p.name, p.default, p.kind) for p in signature(function).parameters.values()]

    assert shape(getattr(ours, name)) == shape(getattr(theirs, name))


NULLS = [0.0, 0.0, 0.0, -0.0, inf, -inf, nan, 5e-324, 1e-8, -1e-9]
WEIGHTS = st.sampled_from([*NULLS, 1.0, 2.0, 3.5, 0.25, 7.0, 2.0**-26, 1.0, 5.0])
SIGNED = st.one_of(WEIGHTS, st.sampled_from([-0.5, -1.0, 4.0, 9.0, 30.0, 30.0]))


@st.composite
def graphs(draw, max_vertices=6):
    """Draw a graph in any form that csgraph takes: dense of any dtype and strides, masked, sparse with stored zeros."""
    n = draw(st.integers(0, max_vertices))
    entries = draw(st.lists(draw(st.sampled_from([WEIGHTS, SIGNED])), min_size=n * n, max_size=n * n))
    A = np.array(entries, dtype=np.float64).reshape(n, n)
    form = draw(st.sampled_from(["dense", "dense", "strides", "ints", "float32", "masked", "csr", "csc", "lil", "coo"]))
    if form == "dense":
        return A
    if form == "strides":
        return draw(st.sampled_from([np.asfortranarray(A), A.T, np.repeat(A, 2, axis=1)[:, ::2], A[::-1, ::-1]]))
    if form == "ints":
        return np.nan_to_num(A, nan=0, posinf=0, neginf=0).astype(draw(st.sampled_from([np.int64, np.int8, bool])))
    if form == "float32":
        return A.astype(np.float32)
    keep = np.array(draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n)), dtype=bool).reshape(n, n)
    A = np.where(np.isneginf(A), inf, A)
    if form == "masked":
        return np.ma.MaskedArray(A, mask=~keep)
    rows, columns = np.nonzero(keep)
    return sparse.coo_array((A[keep], (rows, columns)), shape=(n, n)).asformat(form)


def check_paths(D, P, edges, sources) -> None:
    """Check that each row of predecessors is a tree whose paths weigh what D says, without paths where D is ∞."""
    for source, distances, before in zip(sources, D, P, strict=True):
        for vertex in range(len(before)):
            weight, at, steps = 0.0, vertex, 0
            while before[at] != -9999:
                weight, at, steps = weight + edges[before[at], at], before[at], steps + 1
                assert steps <= len(before), "a cycle"
            if np.isfinite(distances[vertex]):
                assert at == source
                assert weight == pytest.approx(distances[vertex], abs=1e-9)
            else:
                assert before[vertex] == -9999


def edges_of(graph, directed, unweighted, *, zeros_of_masked) -> np.ndarray:
    """Return the weights (n, n) of the edges i → j by SciPy's own conversions, ∞ for none."""
    graph = graph.tocsr() if sparse.issparse(graph) else graph
    if unweighted and sparse.issparse(graph):
        graph = sparse.csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    elif unweighted and isinstance(graph, np.ma.MaskedArray):
        graph = np.ma.MaskedArray(np.ones(graph.shape), mask=graph.mask)
    dense = ours._validation.validate_graph(graph, True, csr_output=False, copy_if_dense=True)
    if isinstance(graph, np.ma.MaskedArray) and not zeros_of_masked:
        dense = np.where(dense == 0, inf, dense)
    if unweighted:
        dense = np.where(np.isinf(dense), inf, 1.0)
    return dense if directed else np.fmin(dense, dense.T)


def outcome(function, *args, **options):
    """Return the result of a call, or its exception. SciPy's warning of negative weights is ignored."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Graph has negative weights")
            return function(*args, **options)
    except Exception as error:
        return error


def compare(name, graph, sources=None, **options) -> None:
    """Compare our function with SciPy's on input that SciPy gets right: its loops take rows in C's order alone."""
    straight = np.ascontiguousarray(graph) if type(graph) is np.ndarray else graph
    expected = outcome(getattr(theirs, name), straight, **options)
    found = outcome(getattr(ours, name), graph, **options)
    if isinstance(expected, Exception):
        assert type(found) is type(expected), (found, expected)
        if isinstance(found, theirs.NegativeCycleError):  # which vertices it names depends on the order of its loops
            assert str(found).rstrip("0123456789[] ") == str(expected).rstrip("0123456789[] ")
        else:
            assert str(found) == str(expected)
        return
    if isinstance(found, Exception):
        raise found
    if not options["return_predecessors"]:
        found, expected = (found, None), (expected, None)
    (D, P), (D0, P0) = found, expected
    assert D.dtype == np.float64
    assert D.flags.c_contiguous
    np.testing.assert_allclose(D, D0, rtol=1e-12, atol=1e-9)
    if P is not None:
        assert P.dtype == P0.dtype
        assert P.shape == P0.shape
        np.testing.assert_array_equal(P[np.isnan(D)], P0[np.isnan(D)])
        if not np.isnan(D).any():
            edges = edges_of(
                graph, options["directed"], options["unweighted"], zeros_of_masked=name != "floyd_warshall"
            )
            rows = (D.size // max(1, len(edges)), len(edges))
            check_paths(D.reshape(rows), P.reshape(rows), edges, range(len(edges)) if sources is None else sources)


@pytest.fixture(params=["closures", "scipy"])
def backend_choice(request, monkeypatch):
    """Close graphs of every size in the way that the parameter names."""
    monkeypatch.setattr(ours, "FEW", 0 if request.param == "closures" else 1 << 10)


def test_scipy_is_asked_by_the_size_alone(monkeypatch):
    asked = []
    monkeypatch.setattr(ours, "closure", lambda D, **options: asked.append(len(D)) or closure(D, **options))
    rng = np.random.default_rng(1)
    for n in (1, ours.FEW, ours.FEW + 1, ours.FEW, 2 * ours.FEW):
        A = rng.uniform(1, 9, (n, n))
        np.testing.assert_allclose(ours.floyd_warshall(A), theirs.floyd_warshall(A), rtol=1e-12)
    assert asked == [ours.FEW + 1, 2 * ours.FEW]


OPTIONS = st.fixed_dictionaries(
    {"directed": st.booleans(), "unweighted": st.booleans(), "return_predecessors": st.booleans()}
)
property_test = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.full
@property_test
@given(graphs(), OPTIONS)
def test_floyd_warshall_is_that_of_scipy(backend_choice, graph, options):
    compare("floyd_warshall", graph, **options)


@pytest.mark.full
@property_test
@given(graphs(), OPTIONS, st.data())
def test_johnson_is_that_of_scipy(backend_choice, monkeypatch_context, graph, options, data):
    n = graph.shape[0]
    indices, sources = data.draw(indices_of(n))
    sparse_always, dense_always = (0.0, 1.0) if data.draw(st.booleans()) else (1.0, 0.0)
    with monkeypatch_context() as patch:
        patch.setattr(schedule, "dense_operations", lambda *sizes: dense_always)
        patch.setattr(schedule, "search_operations", lambda *sizes: sparse_always)
        compare("johnson", graph, sources, indices=indices, **options)


@pytest.mark.full
@property_test
@given(graphs(), OPTIONS, st.sampled_from(["auto", "FW", "J", "D", "BF", "X"]), st.booleans(), st.data())
def test_shortest_path_is_that_of_scipy(backend_choice, graph, options, method, overwrite, data):
    indices, sources = data.draw(indices_of(graph.shape[0]))
    if method == "D" or overwrite:
        graph = abs(graph)
    kept = graph.copy()
    compare("shortest_path", graph, sources, method=method, indices=indices, **options)
    if not sparse.issparse(graph):
        np.testing.assert_array_equal(np.asarray(graph), np.asarray(kept))  # not overwritten


@st.composite
def indices_of(draw, n):
    """Draw a value of ``indices=`` and its sources: None, one, several, repeated, from the end, out of range."""
    if draw(st.booleans()):
        return None, None
    vertex = st.integers(-n, n - 1) if n else st.just(0)
    form = draw(st.sampled_from(["one", "list", "empty", "matrix", "outside"]))
    if form == "one":
        index = draw(vertex)
        return index, [index % max(1, n)]
    if form == "outside":
        return [n + 1], [0]
    if form == "empty":
        return [], []
    several = draw(st.lists(vertex, min_size=2, max_size=4))
    sources = [index % max(1, n) for index in several]
    return (np.array(several)[:, np.newaxis], sources) if form == "matrix" else (several, sources)


@pytest.fixture
def monkeypatch_context(monkeypatch):
    return monkeypatch.context


@pytest.mark.full
@pytest.mark.parametrize(
    ("side", "form", "name"),
    full(
        lambda side, form, name: side == 3 or (side == 10 and (form is np.asarray) == (name == "floyd_warshall")),
        itertools.product(
            [2, 3, 10, 20],
            [np.asarray, sparse.csr_array, sparse.lil_array],
            ["floyd_warshall", "johnson", "shortest_path"],
        ),
    ),
)
def test_cycles_of_weight_zero_are_no_negative_cycles(side, form, name):
    slopes, heights = height_difference_grid(side, side)
    graph = form(np.where(np.isfinite(slopes), slopes, 0.0))
    np.fill_diagonal(slopes, 0)
    D, P = getattr(ours, name)(graph, return_predecessors=True)
    np.testing.assert_allclose(D, heights - heights[:, np.newaxis], atol=1e-12)
    check_paths(D, P, slopes, range(side**2))
    np.testing.assert_allclose(getattr(ours, name)(graph), D, atol=1e-12)


@pytest.mark.parametrize("n", [4, 30, 200])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["floyd_warshall", "johnson", "shortest_path"])
def test_a_negative_cycle_is_named(n, form, name):
    graph = np.zeros((n, n))
    graph[0, 1], graph[1, 2], graph[2, 0], graph[2, 3] = 1, 1, -2.5, 4
    with pytest.raises(theirs.NegativeCycleError, match=r"^Negative cycle (in nodes|detected on node)") as caught:
        getattr(ours, name)(form(graph))
    assert sorted(caught.value.cycle) == [0, 1, 2]


@pytest.mark.parametrize("backend_choice", ["floyd_warshall", "shortest_path"])
@pytest.mark.parametrize(("directed", "error"), [(None, TypeError), ("yes", ValueError)])
def test_what_is_no_number_says_nothing_of_directions(backend_choice, directed, error):
    for library in (theirs, ours):
        with pytest.raises(error, match=r"int\(\)"):
            getattr(library, backend_choice)(np.ones((3, 3)), directed=directed)
    np.testing.assert_array_equal(ours.floyd_warshall([[0, 1], [0, 0]], directed=0), [[0, 1], [1, 0]])


def test_what_is_documented_as_different():
    graph = sparse.csr_array(([-1.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of negative weights
        expected = theirs.johnson(graph, unweighted=True)
    np.testing.assert_array_equal(ours.johnson(graph, unweighted=True), expected)
    np.testing.assert_array_equal(ours.floyd_warshall([[0, 1], [0, 0]], overwrite=True), [[0, 1], [inf, 0]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_overwrite_uses_the_memory_of_arrays_in_c_order(order):
    graph = np.array(suite.directed_G, order=order)
    D = ours.floyd_warshall(graph, overwrite=True)
    np.testing.assert_array_equal(D, suite.directed_SP)
    assert np.shares_memory(D, graph) == (order == "C")
