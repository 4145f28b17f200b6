"""Test inputs: frames with labels, lists of edges, graphs of other libraries, and inputs that raise."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import rustworkx as rx
from scipy.sparse import coo_array

import semiring as sr
from semiring.arrays.folds import scatter
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DomainError,
    DTypeError,
    FormatError,
    NegativeCycleError,
    ShapeError,
    UnknownNameError,
)
from semiring.io.network import symmetrize

INF = math.inf


# ------------------------------------------------------------------------------------------- what is listed twice


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "plus_times", "max_min", "log_plus", "boolean", "xor_and"])
@pytest.mark.parametrize("edges", [0, 1, 7, 300])
@pytest.mark.parametrize("cells", [1, 3, 40])
def test_entries_listed_again_are_added(rng, name, edges, cells):
    semiring = sr.as_semiring(name)
    dtype = np.dtype("bool") if name in ("boolean", "xor_and") else np.dtype("float64")
    rows, columns = rng.integers(0, cells, edges), rng.integers(0, cells + 1, edges)
    values = rng.integers(0, 2 if dtype.kind == "b" else 9, edges).astype(dtype)
    expected = np.full((cells, cells + 1), semiring.zero_for(dtype), dtype)
    for i, j, value in zip(rows, columns, values, strict=True):
        expected[i, j] = semiring.add(expected[i, j], value)
    found = np.full(expected.shape, semiring.zero_for(dtype), dtype)
    given = [array.copy() for array in (rows, columns, values)]
    scatter(found, *given, semiring)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    for before, after in zip((rows, columns, values), given, strict=True):
        np.testing.assert_array_equal(before, after)


def test_entries_are_added_in_their_order():
    """The order is visible where sums round: neighbours first, so the two large entries cancel."""
    matrix = np.zeros((1, 1))
    scatter(matrix, np.zeros(4, int), np.zeros(4, int), np.array([1e30, -1e30, 1.0, 2.0]), sr.plus_times)
    assert matrix == 3


# ------------------------------------------------------------------------------------------- what is no matrix

STRANGE = [
    (None, "A is of type NoneType"),
    ("max_min", r"A is of type str.*'max_min' is given for A: pass it as semiring='max_min'"),
    ({1: 2}, "A is of type dict"),
    (np.array([["1", "2"], ["3", "4"]]), "A holds text .<U1., not real numbers"),
    ([["a", "b"], ["c", "d"]], "A holds text"),
    ([[1, None], [2, 3]], r"A\[0, 1\] is None, not a real number"),
    (np.array([[1, 2], [3, "x"]], object), r"A\[1, 1\] is 'x', not a real number"),
    ([[Decimal(1), 2], [3, 4]], "A holds numbers as Python objects: convert them"),
    (np.array([[1, 2], [3, 4]], object), "A holds numbers as Python objects: convert them"),
    (np.zeros((2, 2), complex), "A holds complex128"),
    (np.zeros((2, 2), "M8[s]"), "A holds datetime64"),
]


@pytest.mark.parametrize(("value", "message"), STRANGE, ids=[str(given)[:20] for given, _ in STRANGE])
def test_what_is_no_matrix_is_named(value, message):
    functions = [
        sr.closure,
        sr.shortest_paths,
        sr.transitive_closure,
        lambda A: sr.matmul(A, A),
        lambda A: sr.add(A, A),
    ]
    for function in functions:
        with pytest.raises(DTypeError, match=message):
            function(value)
    for function in functions[:3]:
        with pytest.raises(ShapeError, match="rows differ in length"):
            function([[1, 2], [3]])
    with pytest.raises(DTypeError, match=r"A is of type str.*semiring.read\('network.csv'\)"):
        sr.matmul("network.csv", "network.csv")


# ------------------------------------------------------------------------------------------- undirected


def test_an_edge_from_a_vertex_to_itself_has_one_direction():
    matrix = np.array([[5.0, 1.0], [2.0, 0.0]])
    np.testing.assert_array_equal(symmetrize(matrix, sr.plus_times), [[5, 3], [3, 0]])
    np.testing.assert_array_equal(matrix, [[5, 1], [2, 0]])


def test_the_command_takes_a_network_of_the_library_as_undirected(monkeypatch, capsys):
    from semiring import cli
    from semiring.cli import common

    loops = np.array([[0.5, 0.25], [0.0, 0.125]])
    monkeypatch.setattr(common, "load_network", lambda name, semiring, dtype=None: sr.Network(loops, title=name))
    assert cli.main(["closure", "us-flights", "-s", "plus_times", "--undirected"]) == 0
    both = np.array([[0.5, 0.25], [0.25, 0.125]])
    assert f"{np.linalg.inv(np.eye(2) - both).max():.4f}" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------- labels

TOWNS = ["Ulm", "Bonn", "Kiel", "Jena"]
ROADS = np.array([[INF, 7, 1, INF], [INF, INF, INF, INF], [INF, 2, INF, 4], [3, INF, INF, INF]])
CLOSED = np.array([[0, 3, 1, 5], [INF, 0, INF, INF], [7, 2, 0, 4], [3, 6, 4, 0]])


@pytest.fixture
def frame():
    return pd.DataFrame(ROADS, index=pd.Index(TOWNS, name="town"), columns=TOWNS)


def test_the_closure_of_a_frame_is_a_frame(frame):
    before = frame.copy()
    found = sr.closure(frame)
    pd.testing.assert_frame_equal(found, pd.DataFrame(CLOSED, index=frame.index, columns=TOWNS))
    pd.testing.assert_frame_equal(frame, before)
    found, explanation = sr.closure(frame, explain=True)
    assert isinstance(found, pd.DataFrame)
    assert explanation.shape == (4, 4)
    out = np.empty((4, 4))
    assert sr.closure(frame, out=out) is out
    np.testing.assert_array_equal(out, CLOSED)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_numbers_held_as_objects_in_a_square_frame_are_to_be_converted(n):
    names = TOWNS[:n]
    frame = pd.DataFrame(np.ones((n, n)), index=names, columns=names).astype(object)
    with pytest.raises(DTypeError, match="holds numbers as Python objects: convert them"):
        sr.closure(frame)
    texts = pd.DataFrame({"x": ["a", "b"], "y": ["b", "c"]}, dtype=object)
    with pytest.raises(FormatError, match="a frame that holds texts"):
        sr.closure(texts)


def test_columns_are_put_into_the_order_of_the_rows(frame):
    for shuffled in (frame[TOWNS[::-1]], frame.loc[["Kiel", "Ulm", "Jena", "Bonn"]]):
        found = sr.closure(shuffled)
        assert list(found.index) == list(found.columns) == list(shuffled.index)
        pd.testing.assert_frame_equal(found.loc[TOWNS, TOWNS], sr.closure(frame))
        assert sr.shortest_paths(shuffled).path("Kiel", "Ulm") == ["Kiel", "Jena", "Ulm"]
    numbered = pd.DataFrame([[INF, 1.0], [5.0, INF]], columns=[1, 0])  # from 0: to 1 with 1, to 0 with ∞
    assert sr.closure(numbered).loc[0, 1] == INF, "labels 0 … n - 1 in another order are labels"
    assert sr.closure(numbered).loc[1, 0] == INF


def test_labels_of_one_side_alone_serve_both(frame):
    for half in (pd.DataFrame(ROADS, columns=TOWNS), pd.DataFrame(ROADS, index=TOWNS)):
        found = sr.closure(half)
        assert list(found.index) == list(found.columns) == TOWNS
    assert list(sr.closure(pd.DataFrame(ROADS)).columns) == [0, 1, 2, 3]


def test_labels_that_do_not_fit_are_refused(frame):
    with pytest.raises(ShapeError, match=r"different labels .'Ulm' is on one side alone.*A\.reindex"):
        sr.closure(frame.rename(columns={"Ulm": "Köln"}))
    with pytest.raises(ShapeError, match="the label 'Bonn' occurs twice"):
        sr.closure(frame.rename(columns={"Ulm": "Bonn"}, index={"Ulm": "Bonn"}))
    with pytest.raises(ShapeError, match="4 rows and 3 columns"):
        sr.closure(frame[TOWNS[:3]])


@pytest.mark.parametrize("predecessors", [True, False])
def test_paths_of_a_frame(frame, predecessors):
    found = sr.shortest_paths(frame, predecessors=predecessors)
    assert found.names == tuple(TOWNS)
    assert found.path("Ulm", "Bonn") == ["Ulm", "Kiel", "Bonn"]
    pd.testing.assert_frame_equal(found.matrix, sr.closure(frame))
    cycle = frame.copy()
    cycle.loc["Kiel", "Ulm"] = -3.0
    with pytest.raises(NegativeCycleError, match=r"by name, it is (Ulm → Kiel → Ulm|Kiel → Ulm → Kiel)"):
        sr.shortest_paths(cycle, predecessors=predecessors)
    with pytest.raises(NegativeCycleError, match=r"by name, it is (Ulm → Kiel → Ulm|Kiel → Ulm → Kiel)") as caught:
        sr.closure(cycle)
    assert set(caught.value.names) == {"Ulm", "Kiel"}
    cycle.loc["Kiel", "Ulm"] = math.nan
    place = TOWNS.index("Kiel"), TOWNS.index("Ulm")
    said = rf"^A\[{place[0]}, {place[1]}\] is nan, .*; by name, it is the edge Kiel → Ulm$"
    for solve in (sr.closure, partial(sr.shortest_paths, predecessors=predecessors), sr.factor):
        with pytest.raises(DomainError, match=said) as missing:
            solve(cycle)
        assert missing.value.position == place
        copied = pickle.loads(pickle.dumps(missing.value))
        assert (str(copied), copied.position) == (str(missing.value), place)
    with pytest.raises(DivergenceError, match=r"a cycle through vertex (Ulm|Kiel), "):
        sr.closure(pd.DataFrame([[0.0, 2.0], [1.0, 0.0]], index=["Ulm", "Kiel"], columns=["Ulm", "Kiel"]), "max_times")


@pytest.mark.parametrize("reflexive", [True, False])
def test_reachability_of_a_frame(frame, reflexive):
    found = sr.transitive_closure(frame < INF, reflexive=reflexive)
    expected = CLOSED < INF
    if not reflexive:
        expected[1, 1] = False
    pd.testing.assert_frame_equal(found.matrix, pd.DataFrame(expected, index=frame.index, columns=TOWNS))


def test_products_of_frames_match_columns_with_rows(frame):
    two = sr.matmul(frame, frame)
    pd.testing.assert_frame_equal(two, pd.DataFrame(sr.matmul(ROADS, ROADS), index=frame.index, columns=TOWNS))
    pd.testing.assert_frame_equal(sr.matmul(frame, frame.loc[TOWNS[::-1]]), two)
    pd.testing.assert_frame_equal(sr.power(frame, 2), two)
    pd.testing.assert_frame_equal(sr.matmul(frame, ROADS), two.set_axis(range(4), axis=1))
    pd.testing.assert_frame_equal(sr.matmul(ROADS, frame), two.reset_index(drop=True))
    parts = pd.DataFrame([[1.0, 2.0], [0.5, 4.0]], index=["a", "b"], columns=["x", "y"])
    prices = pd.Series([10.0, 20.0], index=["y", "x"])
    pd.testing.assert_series_equal(sr.matmul(parts, prices, "plus_times"), pd.Series([40.0, 50.0], index=["a", "b"]))
    pd.testing.assert_series_equal(sr.matmul(prices, parts.T, "plus_times"), pd.Series([40.0, 50.0], index=["a", "b"]))
    assert sr.matmul(prices, prices, "plus_times") == 500
    with pytest.raises(ShapeError, match="columns of A and the rows of B have different labels"):
        sr.matmul(parts, frame)


def test_frames_of_nullable_numbers():
    whole = pd.DataFrame({"a": pd.array([0, 3], "Int64"), "b": pd.array([2, 0], "Int32")}, index=["a", "b"])
    assert sr.closure(whole).to_numpy().tolist() == [[0, 2], [3, 0]]
    assert sr.closure(whole).to_numpy().dtype == np.float64
    whole.loc["a", "b"] = pd.NA
    with pytest.raises(DTypeError, match="A has missing entries"):
        sr.closure(whole)
    with pytest.raises(DTypeError, match="A has missing entries"):
        sr.closure(pl.DataFrame({"a": [0, None], "b": [2, 0]}))


def test_a_square_polars_frame():
    square = pl.DataFrame(dict(zip(TOWNS, ROADS.T, strict=True)))
    found = sr.closure(square)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == TOWNS
    np.testing.assert_array_equal(found.to_numpy(), CLOSED)
    assert sr.shortest_paths(square).path("Ulm", "Bonn") == ["Ulm", "Kiel", "Bonn"]
    with pytest.raises(ShapeError, match="4 rows and 3 columns"):
        sr.closure(square[TOWNS[:3]])


# ------------------------------------------------------------------------------------------- lists of edges

# Two roads from Ulm to Kiel, of which the shorter is the second, and a loop at Bonn.
EDGES = {
    "source": ["Ulm", "Ulm", "Ulm", "Kiel", "Kiel", "Jena", "Bonn"],
    "target": ["Bonn", "Kiel", "Kiel", "Bonn", "Jena", "Ulm", "Bonn"],
    "weight": [7.0, 5.0, 1.0, 2.0, 4.0, 3.0, 9.0],
}
LOOPED = ROADS.copy()
LOOPED[1, 1] = 9
TRIPLES = list(zip(*EDGES.values(), strict=True))


def networkx_graph(kind):
    graph = kind()
    graph.add_nodes_from(TOWNS)
    graph.add_weighted_edges_from(TRIPLES)
    return graph


def igraph_graph(directed):
    graph = igraph.Graph(directed=directed)
    graph.add_vertices(TOWNS)
    graph.add_edges(zip(EDGES["source"], EDGES["target"], strict=True), {"weight": EDGES["weight"]})
    return graph


def rustworkx_graph(kind, payload=lambda weight: weight):
    graph = kind()
    graph.add_node("gone")
    graph.add_nodes_from(TOWNS)
    graph.remove_node(0)
    graph.add_edges_from([(1 + TOWNS.index(i), 1 + TOWNS.index(j), payload(w)) for i, j, w in TRIPLES])
    return graph


DIRECTED = {
    "pandas": lambda: pd.DataFrame(EDGES),
    "polars": lambda: pl.DataFrame(EDGES),
    "polars, other titles": lambda: pl.DataFrame(EDGES).rename({"source": "From", "target": "To", "weight": "km"}),
    "pandas, other order": lambda: pd.DataFrame(EDGES, index=range(5, 12))[["weight", "target", "source"]],
    "networkx": lambda: networkx_graph(nx.MultiDiGraph),
    "igraph": lambda: igraph_graph(True),
    "rustworkx": lambda: rustworkx_graph(rx.PyDiGraph),
    "rustworkx, mappings": lambda: rustworkx_graph(rx.PyDiGraph, lambda weight: {"weight": weight}),
    "rustworkx, objects": lambda: rustworkx_graph(rx.PyDiGraph, lambda weight: SimpleNamespace(weight=weight)),
}
UNDIRECTED = {
    "networkx": lambda: networkx_graph(nx.MultiGraph),
    "igraph": lambda: igraph_graph(False),
    "rustworkx": lambda: rustworkx_graph(rx.PyGraph),
}


@pytest.mark.parametrize("library", DIRECTED)
def test_lists_of_edges(library):
    given = DIRECTED[library]()
    network = sr.as_network(given)
    order = [network.names.index(town) for town in TOWNS]
    np.testing.assert_array_equal(network.matrix[np.ix_(order, order)], LOOPED)
    assert network.unit == ("km" if "other titles" in library else "")
    found = sr.shortest_paths(given)
    assert found.names == network.names
    assert found.path("Kiel", "Ulm") == ["Kiel", "Jena", "Ulm"]
    assert found.distance("Ulm", "Bonn") == 3
    closed = sr.closure(given)
    assert isinstance(closed, sr.Network)
    assert closed.names == network.names
    np.testing.assert_array_equal(closed.matrix[np.ix_(order, order)], CLOSED)
    assert sr.transitive_closure(given).distance("Kiel", "Ulm")
    assert sr.transitive_closure(given, reflexive=False).distance("Ulm", "Ulm")
    wide = sr.widest_paths(given)
    assert wide.distance("Ulm", "Kiel") == 5, "of two edges from Ulm to Kiel the wider one counts here"
    total = sr.as_network(given, "plus_times").matrix[np.ix_(order, order)]
    assert total[0, 2] == 6
    assert total[1, 1] == 9


@pytest.mark.parametrize("library", UNDIRECTED)
def test_undirected_graphs_go_both_ways_and_loops_once(library):
    given = UNDIRECTED[library]()
    for semiring in ("min_plus", "plus_times"):
        matrix = sr.as_network(given, semiring).matrix
        both = sr.as_network(DIRECTED[library](), semiring, directed=False)
        np.testing.assert_array_equal(matrix, both.matrix)
        np.testing.assert_array_equal(matrix, matrix.T)
        assert matrix[1, 1] == 9
    assert sr.shortest_paths(given).path("Bonn", "Ulm") == ["Bonn", "Kiel", "Ulm"]
    with pytest.raises(ValueError, match="undirected"):
        sr.as_network(given, directed=True)


def test_names_of_vertices():
    assert sr.as_network(pd.DataFrame({"u": [2, 0], "v": [1, 2]})).names is None, "0, 1, 2 are numbers as they are"
    assert sr.as_network(pd.DataFrame({"u": [30, 10], "v": [20, 30]})).names == (10, 20, 30)
    mixed = sr.as_network(pd.DataFrame({"u": ["b", 1], "v": [1, "a"]}, dtype=object))
    assert mixed.names == ("b", 1, "a")
    assert sr.as_network(nx.path_graph(3)).names is None
    assert sr.as_network(nx.Graph([((0, 1), (0, 2))])).names == ((0, 1), (0, 2)), "a name may be any node"
    assert sr.as_network(igraph.Graph.Ring(3)).names is None
    isolated = igraph.Graph(2, vertex_attrs={"name": ["a", "b"]}, edge_attrs={"weight": []})
    assert sr.as_network(isolated).names == ("a", "b")
    graph = rx.PyGraph()
    graph.add_nodes_from([{"not": "hashable"}, None, "x"])
    assert sr.as_network(graph).names is None
    graph.remove_node(1)
    assert sr.as_network(graph).names == (0, 2), "the indices that are left"
    assert (
        sr.as_network(pl.DataFrame({"from": [], "to": []}, schema={"from": pl.Int64, "to": pl.Int64})).matrix.size == 0
    )


def test_weights_that_are_chosen():
    graph = nx.DiGraph([("a", "b", {"km": 3, "weight": 1}), ("b", "c", {"km": 4})])
    assert sr.as_network(graph, weight="km").matrix[0, 1] == 3
    assert sr.as_network(nx.path_graph(3)).matrix[0, 1] == 1, "no weights at all: every edge weighs 1"
    lines = rustworkx_graph(rx.PyDiGraph, lambda weight: ("road", weight))
    assert sr.as_network(lines, weight=lambda payload: payload[1]).matrix[0, 2] == 1
    frame = pd.DataFrame({"u": ["a"], "v": ["b"], "km": [5], "toll": [2]})
    assert sr.as_network(frame, weight="toll").matrix[0, 1] == 2
    assert sr.as_network(frame, weight="toll").matrix.dtype == np.float64
    assert sr.as_network(frame, weight="toll", dtype="int64").matrix.dtype == np.int64
    noted = pd.DataFrame({"from": ["a"], "to": ["b"], "ID": [9], "road": ["A 8"], "note": ["dry"], "km": [3.0]})
    for given in (noted, pl.DataFrame(noted.to_dict("list"))):  # texts and ids are no weights
        assert (sr.as_network(given).matrix[0, 1], sr.as_network(given).unit) == (3, "km")
    assert sr.transitive_closure(noted[["from", "to", "road"]]).matrix[0].all()
    assert sr.as_network(nx.DiGraph([("a", "b", {"label": "7"})])).matrix[0, 1] == 1
    large = sr.as_network(nx.DiGraph([("a", "b", {"weight": 10**40})]))
    assert large.matrix[0, 1] == 1e40


TWO, ONE = {"u": ["a"], "v": ["b"], "km": [5], "toll": [2]}, {"from": ["a"], "to": ["b"], "km": [3.0]}
LEFT = {"left": [0], "right": [1], "w": [2.0]}
UNTITLED = {"Absender": ["a"], "Empfaenger": ["b"], "hours": [2], "cost": [3]}


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (TWO, {}, FormatError, "'km', 'toll': name one by weight="),
        (TWO, {"weight": "tol"}, UnknownNameError, r"no column is named 'tol'. Did you mean 'toll'"),
        ({**ONE, "weights": [1.0]}, {}, FormatError, "may be any of the columns 'km', 'weights'"),
        ({"from": ["a"], "to": ["b"], "road": ["A 8"]}, {}, FormatError, "the columns 'road' holds numbers: name the"),
        (LEFT, {}, ShapeError, r"1 rows and 3 columns: .*columns=\(SOURCE, TARGET\)"),
        ({**LEFT, "left": ["a"]}, {}, FormatError, r"holds texts.* columns=\(SOURCE, TARGET\)"),
        ({"from": [1], "right": [2]}, {"weight": "right"}, FormatError, "titled like a target"),
        (UNTITLED, {"weight": "hours"}, FormatError, r"titled like a source .*: pass columns=\(SOURCE, TARGET\)"),
        ({**ONE, "u": ["y"], "v": ["z"]}, {}, FormatError, r"'from' and 'u' are both titled like a source: pass colu"),
        (ONE, {"columns": ("from", "from")}, FormatError, "source and target are both the column 'from'"),
        (ONE, {"columns": ("to", "to"), "weight": "km"}, FormatError, "source and target are both the column 'to'"),
        (ONE, {"weight": "to"}, FormatError, r"the column 'to' holds vertices: .*weight="),
        *((ONE, {"columns": wrong}, TypeError, "the titles of two columns") for wrong in ("ab", 3, ("from",), [*ONE])),
        ({"u": ["a", "b"], "v": ["b", None]}, {}, FormatError, "row 1 of the frame has no vertex in the column 'v'"),
        (
            {"from": [10, None], "to": [20, 30]},
            {},
            FormatError,
            "row 1 of the frame has no vertex in the column 'from'",
        ),
        ({"u": [0.5, 1.0], "v": [1, 2]}, {}, DTypeError, "the column 'u' holds float64: vertices are integers or nam"),
        ({**ONE, "km": ["1,500"]}, {"weight": "km"}, FormatError, "row 0 of the frame: .* column 'km' is '1,500'"),
        (
            {"u": [0, 1], "v": [1, 0], "w": [1.0, -3.0]},
            {"semiring": "max_times"},
            DomainError,
            "row 1 .* weight -3 lies",
        ),
    ],
)
def test_frames_that_are_refused(library, table, options, error, message):
    with pytest.raises(error, match=message):
        sr.as_network(library.DataFrame(table), **options)


@pytest.mark.parametrize(
    ("attributes", "options", "error", "message"),
    [
        ({"km": 4}, {}, FormatError, r"b → c has no weight 'weight', .* one: give it one \(NetworkX assumes 1"),
        ({"km": 4}, {"weight": "miles"}, FormatError, r"no edge has a weight 'miles': .* edges are 'km', 'weight'\Z"),
        ({"weight": "far"}, {}, FormatError, "the edge b → c: the weight 'weight' is 'far', not a real number"),
        ({"weight": "3"}, {"weight": "weight"}, FormatError, "the weight 'weight' is '3', not a real number: convert"),
        ({"weight": math.nan}, {}, DomainError, "the edge b → c: the weight is not a number"),
        ({"weight": 10**400}, {}, FormatError, "the edge b → c: the weight is too large for float64"),
    ],
)
def test_graphs_that_are_refused(attributes, options, error, message):
    graph = nx.DiGraph([("a", "b", {"km": 3, "weight": 1}), ("b", "c", attributes)])
    with pytest.raises(error, match=message):
        sr.as_network(graph, **options)
    with pytest.raises(FormatError, match="the weight 'km' is '3', not a real number: convert"):
        sr.shortest_paths(nx.DiGraph([("a", "b", {"km": "3", "label": "7"})]))


@pytest.mark.parametrize("graph", [nx.path_graph(2), igraph.Graph.Ring(3), rx.generators.path_graph(2)])
def test_products_refuse_graphs(graph):
    """A product of a graph of NetworkX raises, because NumPy would take the graph for the list of its nodes."""
    for call in (lambda: sr.matmul(graph, graph), lambda: sr.add(graph, 1), lambda: sr.power(graph, 2)):
        with pytest.raises(DTypeError, match=r"A is .*Graph, .*as_network\(A, the semiring\)\.matrix"):
            call()
    network = sr.as_network(graph)
    with pytest.raises(DTypeError, match=r"A is .*Network, .*pass its \.matrix"):
        sr.matmul(network, network)
    with pytest.raises(DTypeError, match=r"A is of type Paths, .*pass its \.matrix"):
        sr.matmul(sr.shortest_paths(graph), network.matrix)


def test_columns_that_are_chosen():
    frame = pl.DataFrame({"left": ["a"], "right": ["b"], "w": [2.0]})
    assert sr.as_network(frame, columns=("right", "left")).names == ("b", "a")
    with pytest.raises(DTypeError, match=r"A is of type LazyFrame.*: A\.collect\(\) makes a frame"):
        sr.closure(frame.lazy())
    for x in ({**ONE, "source": "x"}, {**ONE, "target": "x"}, {"source": "x", **ONE}):
        assert sr.as_network(pd.DataFrame(x)).names == ("a", "b"), "the ends are columns that belong together"
    two, untitled = pd.DataFrame({**ONE, "u": "y", "v": "z"}), pd.DataFrame(UNTITLED)
    assert sr.as_network(two, columns=("u", "to")).names == ("y", "b")
    assert sr.shortest_paths(untitled, weight="hours", columns=("Absender", "Empfaenger")).distance("a", "b") == 2
    with pytest.raises(ShapeError, match="a frame that lists edges, and this function needs a matrix"):
        sr.power(two, 2, "min_plus")


@pytest.mark.parametrize("weights", [pd.Series([None], dtype="Int64"), pl.Series([None], dtype=pl.Int64)])
def test_missing_weights_are_refused(weights):
    library = pd if isinstance(weights, pd.Series) else pl
    with pytest.raises(DTypeError, match="the column 'w' has missing entries"):
        sr.as_network(library.DataFrame({"u": [0], "v": [1], "w": weights}))


# ------------------------------------------------------------------------------------------- networks


def test_a_network_that_was_read(tmp_path):
    path = tmp_path / "roads.csv"
    pd.DataFrame(EDGES).to_csv(path, index=False)
    found = sr.shortest_paths(sr.read(path))
    assert found.path("Ulm", "Bonn") == ["Ulm", "Kiel", "Bonn"]
    assert sr.closure(sr.read(path)).title == "roads"
    assert sr.widest_paths(sr.read(path, "max_min")).distance("Ulm", "Kiel") == 5
    with pytest.raises(AlgebraError, match=r"added by the ⊕ of min_plus.*read it with semiring='max_min'"):
        sr.widest_paths(sr.read(path))
    assert sr.transitive_closure(sr.read(path)).distance("Ulm", "Jena")


def test_no_edge_becomes_no_edge_of_the_other_semiring():
    network = sr.Network(ROADS, names=tuple(TOWNS), semiring=sr.min_plus)
    for name in ("max_plus", "max_min", "plus_times"):
        semiring = sr.as_semiring(name)
        expected = np.where(ROADS < INF, ROADS, semiring.zero_for(np.dtype("float64")))
        np.testing.assert_array_equal(sr.as_network(network, semiring).matrix, expected)
    np.testing.assert_array_equal(sr.as_network(network, "boolean").matrix, ROADS < INF)
    np.testing.assert_array_equal(sr.as_network(network, dtype="int32").matrix == 2**31 - 1, ROADS == INF)
    unsaid = sr.Network(ROADS)
    assert sr.as_network(unsaid).matrix is ROADS
    with pytest.raises(DomainError, match="the edge Ulm → Bonn: the weight 7 lies outside the domain"):
        sr.as_network(network, "lukasiewicz")


def test_plain_matrices_make_networks_too():
    for given in (ROADS, ROADS.tolist(), coo_array(np.nan_to_num(ROADS, posinf=0)), pd.DataFrame(ROADS)):
        np.testing.assert_array_equal(sr.as_network(given).matrix, ROADS)
    both = sr.as_network(ROADS, directed=False).matrix
    np.testing.assert_array_equal(both, np.minimum(ROADS, ROADS.T))
    np.testing.assert_array_equal(sr.as_network(sr.pack(ROADS < INF), "boolean").matrix, ROADS < INF)
    with pytest.raises(TypeError, match="weight= is not an option for a ndarray"):
        sr.as_network(ROADS, weight="x")
    for given in (nx.path_graph(2), coo_array(ROADS), sr.Network(ROADS)):
        with pytest.raises(TypeError, match="columns= is not an option for a"):
            sr.as_network(given, columns=("x", "y"))


def test_networks_with_names_of_any_kind_are_drawn_and_written(tmp_path):
    from semiring import plot

    network = sr.as_network(nx.relabel_nodes(nx.path_graph(4), {0: 10, 1: 11, 2: (1, 2), 3: "x"}))
    plot.plot_network(network, path=[10, 11, (1, 2)])
    sr.write(tmp_path / "path.csv", network.matrix, names=network.names)
    assert sr.read(tmp_path / "path.csv").names == ("10", "11", "(1, 2)", "x")


@pytest.mark.full
def test_a_network_is_computed_in_its_own_semiring_unless_another_is_named():
    pipes = nx.DiGraph()
    pipes.add_weighted_edges_from([("a", "b", 5.0), ("b", "c", 3.0), ("a", "c", 1.0)])
    wide, short = sr.as_network(pipes, "max_min"), sr.as_network(pipes)
    assert sr.closure(wide).matrix[0, 2] == 3
    assert sr.best_paths(wide).distance("a", "c") == 3
    assert sr.best_paths(wide, targets=["c"]).distance("a", "c") == 3
    assert sr.factor(wide).table(["a"], ["c"]) == 3
    assert sr.fixed_point(wide, [-np.inf, -np.inf, np.inf]).tolist() == [3, 3, np.inf]
    assert sr.as_network(wide).semiring is sr.max_min
    for named in ("min_plus", sr.min_plus):
        assert sr.closure(wide, named).matrix[0, 2] == 1
        assert sr.best_paths(wide, named, targets=["c"]).distance("a", "c") == 1
        assert sr.factor(wide, named).table(["a"], ["c"]) == 1
        assert sr.fixed_point(wide, [np.inf, np.inf, 0], named).tolist() == [1, 3, 0]
    assert sr.shortest_paths(wide).distance("a", "c") == 1
    assert sr.closure(short, "max_min").matrix[0, 2] == 3
    assert sr.closure(sr.Network(short.matrix)).matrix[0, 2] == 1, "where nobody said, it is min-plus"


def with_attributes(library: str, tmp_path, **attributes):
    graph = nx.Graph()
    graph.add_edge("a", "b", **attributes)
    if library == "igraph":
        return igraph.Graph.from_networkx(graph, vertex_attr_hashable="name")
    if library == "rustworkx":
        return rx.networkx_converter(graph)
    if library == "json":
        path = tmp_path / "graph.json"
        path.write_text(json.dumps(nx.node_link_data(nx.MultiGraph(graph), edges="edges")))
        return path
    return graph


@pytest.mark.parametrize("library", ["networkx", "igraph", "rustworkx", "json"])
def test_the_weights_of_unknown_titles(library, tmp_path):
    def network(semiring="min_plus", weight=None, **attributes):
        given = with_attributes(library, tmp_path, **attributes)
        return (sr.read if library == "json" else sr.as_network)(given, semiring, weight=weight)

    alone = network(miles=5, road="A 8", toll=True)
    assert alone.matrix[0, 1] == alone.matrix[1, 0] == 5
    assert "in miles" in repr(alone)
    with pytest.raises(
        FormatError, match=r"any of the attributes '(miles', 'lanes|lanes', 'miles)': name one by weight="
    ):
        network(miles=5, lanes=2)
    assert network(miles=5, lanes=2, weight="lanes").matrix[0, 1] == 2
    assert network("boolean", miles=5, lanes=2).matrix[0, 1], "an edge is an edge"
    assert network(miles=5, weight_of_choice="dear", id=3).matrix[0, 1] == 5
    assert network(road="A 8").matrix[0, 1] == 1


def test_a_column_of_the_title_weight_holds_the_weights(tmp_path):
    frame = pd.DataFrame({"from": ["a"], "to": ["b"], "cost": [2.0], "capacity": [7.0], "Weight": 9.0})
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert sr.read(tmp_path / "x.csv").matrix[0, 1] == sr.shortest_paths(frame).distance("a", "b") == 9
    (tmp_path / "x.csv").write_text("from,to,id,distance\n" + "a,b,1,\n" * 70)
    with pytest.raises(FormatError, match="the weight is missing"):
        sr.read(tmp_path / "x.csv")


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("function", [sr.longest_paths, lambda A: sr.closure(A, "max_plus"), sr.factor])
def test_a_frame_of_edges_without_usual_titles_says_which_to_name(rows, function):
    frame = pd.DataFrame({"task": list("abc")[:rows], "next": list("bcd")[:rows], "days": [3, 4, 5][:rows]})
    with pytest.raises(sr.errors.FormatError, match=r"holds texts.* columns=\(SOURCE, TARGET\)"):
        function(frame)
    found = sr.longest_paths(frame, columns=("task", "next"))
    assert found.distance("a", "b") == 3


def test_of_truths_every_edge_is_one_whatever_its_weights(tmp_path):
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [3.0, 4.0], "lanes": [2, 2]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    edges = [[False, True, False], [False, False, True], [False, False, False]]
    for given in (frame, pl.DataFrame(frame.to_dict("list")), sr.read(tmp_path / "x.csv", "boolean")):
        assert sr.as_network(given, "boolean").matrix.tolist() == edges
    assert sr.transitive_closure(frame).matrix.tolist() == [[True] * 3, [False, True, True], [False, False, True]]
    assert sr.condensation(frame).reaches("a", "c")
    with pytest.raises(FormatError, match="the weights may be any of the columns 'km', 'lanes': name one by weight="):
        sr.closure(frame)


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        *(("km", "km"), ("weight", ""), ("Distance", ""), ("dist", ""), ("dist_km", "km"), ("length_m", "m")),
        *(("distance (km)", "km"), ("cost [€]", "€"), ("travel_time_min", "min"), ("toll_eur", "toll_eur")),
        *(("length_", "length_"), ("seconds", "seconds")),
    ],
)
def test_units_in_titles(tmp_path, title, unit):
    frame = pd.DataFrame({"from": ["a"], "to": ["b"], title: [3.0]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    graph = nx.DiGraph([("a", "b", {title: 3.0})])
    assert [sr.as_network(x).unit for x in (frame, graph)] == [unit] * 2
    assert sr.read(tmp_path / "x.csv").unit == unit
    sr.write(tmp_path / "y.csv", sr.as_network(frame))
    assert sr.read(tmp_path / "y.csv").unit == unit


def test_how_edges_are_read_is_said_to_closures_too(tmp_path, monkeypatch):
    frame = pd.DataFrame({"p": ["a", "b"], "q": ["b", "c"], "km": [3.0, 4.0], "lanes": [2.0, 2.0]})
    graph = nx.DiGraph()
    graph.add_edges_from([("a", "b", {"km": 3.0, "lanes": 2.0}), ("b", "c", {"km": 4.0, "lanes": 2.0})])
    distances = [[0, 3, 7], [INF, 0, 4], [INF, INF, 0]]
    assert sr.closure(graph, weight="km").matrix.tolist() == distances
    found, explanation = sr.closure(frame, weight="km", columns=("p", "q"), explain=True)
    assert (found.matrix.tolist(), found.names, explanation.backend) == (distances, ("a", "b", "c"), "cpu")
    both = sr.closure(graph, weight="km", directed=False)
    assert (both.matrix[2, 0], both.directed) == (7, False)
    A = np.array([[INF, 3.0], [INF, INF]])
    assert sr.closure(A, directed=False).tolist() == [[0, 3], [3, 0]]
    assert A[1, 0] == INF
    square = pd.DataFrame(A, index=["a", "b"], columns=["a", "b"])
    assert sr.closure(square, directed=False).loc["b", "a"] == 3
    np.save(tmp_path / "a.npy", A)
    assert sr.closure(tmp_path / "a.npy", directed=False).tolist() == [[0, 3], [3, 0]]
    by_strips = {"directed": False, "journal": tmp_path / "j", "out": tmp_path / "b.npy"}
    with pytest.raises(sr.errors.StorageError, match="directed=False is for a matrix in memory"):
        sr.closure(tmp_path / "a.npy", **by_strips)
    with pytest.raises(TypeError, match=r"weight= is not an option for a ndarray"):
        sr.closure(A, weight="km")
    with pytest.raises(FormatError, match=r"the columns of the edges are 0 … 1, and not 'p'"):
        sr.closure(A, columns=("p", "q"))
    with pytest.raises(FileNotFoundError, match="no such file"):
        sr.closure(tmp_path / "none.csv", memory="1 GiB")


def test_results_with_names_become_frames_and_files(tmp_path):
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "capacity": [3.0, 4.0]})
    closed = sr.closure(frame, "max_min")
    assert closed.to_frame().loc["a", "c"] == 3
    assert list(sr.Network(np.zeros((2, 2))).to_frame().columns) == [0, 1]
    found = sr.widest_paths(frame)
    for name in ("x.csv", "x.json", "x.npz"):
        for what in (found, found.to_frame(), closed):
            sr.write(tmp_path / name, what, "max_min" if what is not found and what is not closed else None)
            again = sr.read(tmp_path / name, "max_min")
            assert again.names == ("a", "b", "c")
            assert again.matrix.tolist() == found.matrix.tolist()
    with pytest.raises(ShapeError, match="these are paths between some vertices"):
        sr.write(tmp_path / "x.csv", sr.widest_paths(frame, sources=["c", "a", "b"]))


@pytest.mark.parametrize(
    "titles",
    [
        *(("latency_ms", "capacity"), ("minutes", "cost"), ("distance", "capacity"), ("latency_ms", "jitter")),
        ("cost", "capacity"),
    ],
)
def test_a_usual_title_is_no_better_than_another(titles, tmp_path):
    """Two columns with usual titles raise, because either may hold the weights, and a capacity is no cost."""
    one, other = titles
    frame = pd.DataFrame({"src": ["a", "b"], "dst": ["b", "c"], one: [3, 4], other: [90, 80], "open": [True, False]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    graph = nx.from_pandas_edgelist(frame, "src", "dst", [one, other, "open"], create_using=nx.DiGraph)
    polars = pl.DataFrame(frame.to_dict("list"))
    for ask in (sr.shortest_paths, sr.as_network, sr.widest_paths, sr.factor):
        for given in (frame, polars, graph):
            with pytest.raises(FormatError, match=f"any of the .* '{one}', '{other}': name one by weight="):
                ask(given)
            assert sr.shortest_paths(given, weight=one).distance("a", "c") == 7
            assert sr.widest_paths(given, weight=other).distance("a", "c") == 80
    with pytest.raises(FormatError, match=f"any of the .* '{one}', '{other}': name one by weight="):
        sr.read(tmp_path / "x.csv")
    assert sr.read(tmp_path / "x.csv", weight=one).matrix[0, 1] == 3
    assert sr.as_network(frame.drop(columns=other)).matrix[0, 1] == 3, "truths are no weights beside numbers"


def test_a_network_that_names_no_semiring_is_of_min_plus_everywhere():
    """A matrix without a semiring is of min_plus, so its ∞ is no edge of condensation, no weight and no width."""
    matrix = np.array([[INF, 1, 2], [INF, INF, 3], [INF, INF, INF]])
    unsaid, said = (sr.Network(matrix, names=("a", "b", "c"), semiring=own) for own in (None, sr.min_plus))
    assert repr(sr.condensation(unsaid)) == "Condensation(3 vertices, 3 components, 3 edges between)"
    assert sorted(unsaid.to_networkx().edges) == [("a", "b"), ("a", "c"), ("b", "c")]
    for function in (
        lambda network: sr.transitive_closure(network).matrix,
        lambda network: sr.transitive_reduction(network).matrix,
        lambda network: sr.widest_paths(network).matrix,
        lambda network: sr.longest_paths(network).matrix,
        lambda network: sr.shortest_paths(network).matrix,
        lambda network: sr.closure(network, "max_min").matrix,
    ):
        np.testing.assert_array_equal(function(unsaid), function(said))
    truths = sr.Network(np.array([[False, True], [False, False]]), names=("a", "b"))
    assert list(truths.to_networkx().edges) == [("a", "b")]
    assert len(sr.condensation(truths)) == 2
    assert sr.closure(truths).matrix.tolist() == [[True, True], [False, True]]


def test_a_network_checks_what_it_is_made_of():
    matrix = np.zeros((2, 2))
    for names, said in ((("a",), "1 names were given for 2"), (("a", "a"), "the name 'a' was given to two vertices")):
        with pytest.raises(ShapeError, match=said):
            sr.Network(matrix, names=names)
    with pytest.raises(ShapeError, match="3 × 2: the matrix of a network is square"):
        sr.Network(np.zeros((3, 2)))
    with pytest.raises(ShapeError, match="3 labels for 2 vertices"):
        sr.Network(matrix, labels=("a", "b", "c"))
    listed = sr.Network([[INF, 1.0], [INF, INF]], names=["a", "b"])
    assert repr(listed) == "<Network: 2 vertices with names, float64>"
    assert list(listed.to_networkx().edges) == [("a", "b")]


def test_bad_limits_and_endless_weights_say_what_was_asked():
    for limit, error in ((math.nan, ValueError), ([1, 2], TypeError), ("x", TypeError)):
        with pytest.raises(error, match="limit is"):
            sr.shortest_paths(ROADS, limit=limit)
    frame = pd.DataFrame({"from": ["A"], "to": ["B"], "km": [-INF]})
    for options in ({}, {"sources": ["A"], "method": "johnson"}):
        with pytest.raises(DomainError, match=r"an edge of unbounded gain, .*; by name, it is the edge A → B"):
            sr.shortest_paths(frame, **options)


# ------------------------------------------------------------------------------------------- first tries


def test_a_table_of_edges_that_is_square_by_chance_is_reported():
    table = {"bus1": [1, 2, 1], "bus2": [2, 3, 3], "x": [5, 6, 20]}
    for given in (pd.DataFrame(table), pd.DataFrame(table).to_numpy(), list(zip(*table.values(), strict=True))):
        kind = FormatError if isinstance(given, list) else sr.errors.SuspiciousWeightsWarning
        with warnings.catch_warnings(action="error"), pytest.raises(kind, match=r"as_network\(A, columns="):
            sr.shortest_paths(given)
    assert sr.shortest_paths(pd.DataFrame(table), columns=("bus1", "bus2")).distance(1, 3) == 11
    hollow = pd.DataFrame({"a": [0, 1, 4], "b": [1, 0, 2], "c": [4, 2, 0]})
    assert sr.closure(hollow).loc["a", "c"] == 3


@pytest.mark.parametrize("columns", [{}, {"km": [3.0, 4.0]}])
def test_rows_that_pandas_counts_are_no_weights(tmp_path, columns):
    """Row numbers of pandas are no weights, with and without a column of weights."""
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], **columns})
    frame.to_csv(tmp_path / "x.csv")
    frame.rename_axis("index").to_csv(tmp_path / "y.csv")
    for name in ("x.csv", "y.csv"):
        for given in (sr.read(tmp_path / name), pd.read_csv(tmp_path / name)):
            assert sr.shortest_paths(given).distance("a", "c") == (7 if columns else 2)


def test_times_are_no_weights_of_a_frame():
    """A column of timedeltas raises, because its numbers would be nanoseconds."""
    frame = pd.DataFrame({"from": ["a"], "to": ["b"], "trip": pd.to_timedelta([2], "h")})
    for more in ({}, {"weight": "trip"}):
        with pytest.raises(FormatError, match=r"in the column 'trip' are timedelta64.*: convert .*total_seconds"):
            sr.shortest_paths(frame, **more)
    frame["trip"] = frame["trip"].dt.total_seconds()
    assert sr.shortest_paths(frame).distance("a", "b") == 7200


def test_first_tries_that_say_what_to_do():
    with pytest.raises(TypeError, match="names are in the order of the vertices, and a dict has none: give a list"):
        sr.shortest_paths(np.ones((2, 2)), names={0: "a", 1: "b"})
    with pytest.raises(TypeError, match="and a set has none"):
        sr.shortest_paths(np.ones((2, 2)), names={"a", "b"})
    with pytest.raises(DomainError, match=r"A\[0, 1\] is inf, outside the domain .* \(no edge in max_times is 0.0\)"):
        sr.most_reliable_paths([[0, INF], [0.5, 0]])
    with pytest.raises(AttributeError) as caught:
        sr.shortest_path  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("shortest_path", sr), "so that the interpreter names those near"


def test_frames_of_edges_and_graphs_are_written(tmp_path):
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [3.0, 4.0]})
    graph = nx.from_pandas_edgelist(frame, "from", "to", ["km"], create_using=nx.DiGraph)
    for given in (frame, graph):
        for name in ("x.csv", "x.json"):
            sr.write(tmp_path / name, given)
            back = sr.read(tmp_path / name)
            assert (back.names, back.unit, back.matrix[0, 1]) == (("a", "b", "c"), "km", 3)


def test_frames_of_edges_that_are_empty_or_hold_floats_and_fractions():
    assert len(sr.shortest_paths(pd.DataFrame({"from": [], "to": [], "km": []}))) == 0
    assert sr.shortest_paths(pd.DataFrame({"from": [1.0, 2.0], "to": [2.0, 3.0]})).distance(1, 3) == 2
    halves = pd.DataFrame({"from": ["a"], "to": ["b"], "km": pd.Series([Fraction(1, 2)], dtype=object)})
    assert sr.shortest_paths(halves).distance("a", "b") == 0.5
    twice = pd.DataFrame([["a", "b", 1, 2]], columns=["from", "to", "km", "km"])
    with pytest.raises(FormatError, match="two columns of the frame are titled 'km'"):
        sr.shortest_paths(twice, weight="km")


def test_over_truths_every_edge_is_one_unless_its_weight_is_asked_for():
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "paved": [False, True]})
    assert sr.transitive_closure(frame).matrix[0].tolist() == [True, True, True]
    assert sr.transitive_closure(frame, weight="paved").matrix[0].tolist() == [True, False, False]
    graph = nx.DiGraph([("a", "b", {"weight": False}), ("b", "c", {"weight": True})])
    assert sr.transitive_closure(graph).matrix[0].tolist() == [True, True, True]
    assert sr.transitive_reduction(graph).matrix.sum() == 2


def test_integers_that_floats_do_not_hold_are_refused():
    graph = nx.DiGraph([("x", "y", {"weight": 2**53 + 1})])
    with pytest.raises(FormatError, match=r"x → y: the weight 9007199254740993 is not exact in float64"):
        sr.shortest_paths(graph)
    exact = sr.as_network(graph, dtype="int64")
    assert sr.shortest_paths(exact, predecessors=False).distance("x", "y") == 2**53 + 1
    square = pd.DataFrame([[0, 2**53 + 1], [2**60, 0]])
    for ask in (sr.closure, sr.shortest_paths, sr.as_network):
        for given in (square, pl.DataFrame({"0": [0, 2**53 + 1], "1": [2**60, 0]})):
            with pytest.raises(
                FormatError, match="the frame holds 9007199254740993, which is not exact in float64: pass"
            ):
                ask(given)
    assert sr.as_network(square, dtype="int64").matrix[0, 1] == 2**53 + 1
    assert sr.closure(square // 2 * 2).loc[1, 0] == 2**60
    graph["x"]["y"]["weight"] = 2**60
    assert sr.shortest_paths(graph).distance("x", "y") == 2**60


def test_a_weight_that_is_a_function_is_called_as_networkx_calls_it():
    graph = nx.Graph([(1, 2), (2, 3, {"weight": 5}), (1, 3, {"weight": 2})])
    weight = lambda u, v, held: held.get("weight", 1) + (v == 3)  # noqa: E731
    ours = sr.shortest_paths(graph, weight=weight)
    for source, distances in nx.all_pairs_dijkstra_path_length(graph, weight=weight):
        assert {target: ours.distance(source, target) for target in graph} == distances
    hidden = sr.shortest_paths(graph, sources=[1], weight=lambda u, v, held: held.get("weight"))
    assert hidden.matrix.tolist() == [[0, 7, 2]]
    doubled = nx.MultiDiGraph([(0, 1, {"km": 2}), (0, 1, {"km": 1})])
    shortest = sr.shortest_paths(doubled, weight=lambda u, v, keys: min(edge["km"] for edge in keys.values()))
    assert shortest.distance(0, 1) == 1


def test_pictures_of_graphs_and_frames():
    from semiring.plot import plot_matrix, plot_network

    graph = nx.DiGraph([("hut", "top", {"km": 5})])
    assert "hut" in {text.get_text() for axes in plot_network(graph).axes for text in axes.texts}
    assert "hut" in {label.get_text() for label in plot_matrix(graph).axes[0].get_yticklabels()}
