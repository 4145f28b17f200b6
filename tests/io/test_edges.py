"""Test lists of edges, truth values and sparse tensors as operands: one rule for each kind."""

from __future__ import annotations

import math
import pickle
import warnings

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import rustworkx as rx
from scipy.sparse import coo_array, csr_array

import semiring as sr
from semiring.errors import DomainError, DTypeError, FormatError, ShapeError

INF = math.inf
ROWS = [("a", "b", 4.0), ("b", "c", 6.0), ("a", "c", 11.0)]
GRAPH = nx.DiGraph([(tail, head, {"weight": weight}) for tail, head, weight in ROWS])
TRIPLES = [(0, 1, 4), (1, 2, 6), (0, 2, 11)]
FUNCTIONS = [
    *(sr.closure, sr.shortest_paths, sr.transitive_closure, sr.factor, sr.condensation),
    *(sr.transitive_reduction, lambda A: sr.shortest_paths(A, sources=[0])),
]

LISTED = {
    "tuples": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
    "view": lambda: GRAPH.edges(data=True),
    "view of weights": lambda: GRAPH.edges(data="weight"),
    "dictionaries": lambda: {"a": {"b": 4.0, "c": 11.0}, "b": {"c": 6.0}, "c": {}},
    "attributes": lambda: nx.to_dict_of_dicts(GRAPH),
    "pairs": lambda: {(tail, head): weight for tail, head, weight in ROWS},
}


@pytest.mark.parametrize("kind", LISTED)
def test_lists_of_edges_are_read_by_one_function(kind):
    found = sr.shortest_paths(sr.as_network(LISTED[kind]()))
    assert found.path("a", "c") == ["a", "b", "c"]
    assert sr.as_network(LISTED[kind](), directed=False).matrix[1, 0] == 4
    if kind != "tuples":
        for function in FUNCTIONS:
            with pytest.raises(DTypeError, match=r"not a matrix: if it lists edges, pass semiring.as_network\("):
                function(LISTED[kind]())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "given", [TRIPLES, [(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 3)], np.array([*TRIPLES, (2, 0, 1)]), ROWS[:2]]
)
def test_refusals_name_the_function_that_reads_edges(function, given):
    with pytest.raises((FormatError, ShapeError), match=r"semiring.as_network\(A, columns=\(0, 1\)\)"):
        function(given)


@pytest.mark.parametrize(
    "given", [TRIPLES, np.array(TRIPLES), np.array(TRIPLES, float), [list(row) for row in TRIPLES]]
)
def test_columns_say_that_rows_are_edges(given):
    assert sr.as_network(given, columns=(0, 1)).matrix.tolist() == [[INF, 4, 11], [INF, INF, 6], [INF, INF, INF]]
    assert sr.shortest_paths(given, columns=(0, 1), sources=[0]).distance(0, 2) == 10
    assert sr.closure(given, columns=(1, 0), weight=2).matrix[2, 0] == 10
    with pytest.raises(FormatError, match="the columns of the edges are 0 … 2, and not 3"):
        sr.as_network(given, columns=(0, 3))


def test_views_of_undirected_graphs_go_both_ways():
    graph = nx.Graph([("a", "b", {"weight": 4.0})])
    for view in (graph.edges, graph.edges(data=True), graph.edges(data="weight")):
        assert sr.as_network(view).matrix[1, 0] == sr.as_network(view).matrix[0, 1] < INF


def test_a_list_of_weights_has_one_for_each_edge():
    flows = igraph.Graph(3, [(0, 1), (1, 2), (0, 2)], directed=True, edge_attrs={"w": [4.0, 6.0, 11.0]})
    lines = rx.PyDiGraph()
    lines.add_nodes_from("abc")
    lines.add_edges_from([(0, 1, None), (1, 2, None), (0, 2, None)])
    frame = pd.DataFrame({"from": ["a", "b", "a"], "to": ["b", "c", "c"]})
    bare = [row[:2] for row in ROWS]
    for given in (flows, lines, frame, pl.DataFrame(frame.to_dict("list")), bare, nx.DiGraph(bare).edges, bare):
        order = [4.0, 11.0, 6.0] if isinstance(given, nx.classes.reportviews.OutEdgeView) else [4.0, 6.0, 11.0]
        for weights in (order, np.array(order)):
            assert sr.shortest_paths(sr.as_network(given, weight=weights)).distance(0, 2) == 10
        with pytest.raises(ShapeError, match=r"for 3 edges: give one number for each"):
            sr.as_network(given, weight=[1.0, 2.0])
    assert sr.shortest_paths(flows, weight=flows.es["w"], sources=[0]).distance(0, 2) == 10
    for given in (np.ones((2, 2)), coo_array(np.ones((2, 2)))):
        with pytest.raises(TypeError, match="weight= is not an option for a"):
            sr.closure(given, weight=[1.0])
    with pytest.raises(TypeError, match="pass its title, as weight='km', and not "):
        sr.closure("x.csv", weight=[1.0])


def test_names_that_mean_two_vertices_are_refused():
    with pytest.raises(FormatError, match="the vertices 2 and '2' are an integer and a text"):
        sr.as_network(pd.DataFrame({"from": [1, 2], "to": ["2", 1]}, dtype=object))
    with pytest.raises(FormatError, match="two vertices of the graph are named 'a'"):
        sr.as_network(igraph.Graph(2, [(0, 1)], vertex_attrs={"name": ["a", "a"]}))
    lines = rx.PyGraph()
    lines.add_nodes_from(["a", "a"])
    with pytest.raises(FormatError, match="two vertices of the graph are named 'a'"):
        sr.as_network(lines)


@pytest.mark.parametrize(
    "titles",
    [("from_node_id", "to_node_id"), ("fromId", "toId"), ("From_Station", "To_Station"), ("OriginID", "DestID")],
)
def test_titles_with_a_kind_of_vertex(titles):
    assert sr.as_network(pd.DataFrame([["a", "b", 3.0]], columns=[*titles, "km"])).matrix[0, 1] == 3


EDGES = np.array([[False, True, False], [False, False, True], [False, False, False]])
HOPS = np.where(EDGES, 1.0, INF)


def _save(tmp_path, name):
    path = tmp_path / name
    (np.save if name.endswith("npy") else np.savez)(path, EDGES)
    return path


@pytest.mark.parametrize("kind", ["array", "list", "sparse", "pandas", "x.npy", "x.npz"])
def test_true_is_an_edge_of_weight_1(tmp_path, kind):
    given = {
        "array": lambda: EDGES,
        "list": EDGES.tolist,
        "sparse": lambda: csr_array(EDGES),
        "pandas": lambda: pd.DataFrame(EDGES),
    }.get(kind, lambda: _save(tmp_path, kind))()
    for name in ("min_plus", "max_plus", "log_plus", "plus_times"):
        semiring = sr.as_semiring(name)
        expected = sr.closure(np.where(EDGES, 1.0, semiring.zero_for(np.dtype("f8"))), semiring)
        found = sr.closure(sr.read(given, semiring) if kind.startswith("x.") else given, semiring)
        np.testing.assert_array_equal(getattr(found, "matrix", found), expected)
    assert sr.shortest_paths(given if kind != "x.npy" else sr.read(given), sources=[0]).distance(0, 2) == 2
    half = sr.Semiring("half", "max(x, y)", "x * y", 0, 0.5, domain=(0, 0.5))
    with pytest.raises(DomainError):
        sr.closure(sr.read(given, half) if kind.startswith("x.") else given, half)


def test_truth_values_beside_numbers():
    for truths in (EDGES, csr_array(EDGES)):
        np.testing.assert_array_equal(sr.matmul(truths, HOPS), sr.matmul(HOPS, HOPS))
    np.testing.assert_array_equal(sr.einsum("ij,jk->ik", EDGES, HOPS), sr.matmul(HOPS, HOPS))
    np.testing.assert_array_equal(sr.add(EDGES, HOPS), HOPS)
    assert sr.fixed_point(EDGES, [INF, INF, 0.0]).tolist() == [2, 1, 0]


@pytest.mark.parametrize("name", [name for name in sr.CATALOGUE if name != "lukasiewicz"])
def test_a_file_of_truth_values_is_closed_as_the_array(tmp_path, name):
    acyclic = np.triu(np.ones((3, 3), bool), 1)
    np.save(tmp_path / "b.npy", acyclic)
    expected = sr.closure(acyclic, name)
    np.testing.assert_array_equal(sr.closure(tmp_path / "b.npy", name), expected)
    closed = sr.closure(tmp_path / "b.npy", name, out=str(tmp_path / "c.npy"))
    assert closed.dtype == np.load(tmp_path / "c.npy").dtype == expected.dtype
    np.testing.assert_array_equal(closed, expected)
    if name == "min_plus":
        with pytest.raises(sr.StorageError, match="holds truth values"):
            sr.closure(tmp_path / "b.npy", name, out=str(tmp_path / "d.npy"), memory="1 GiB")


def test_paths_are_arrays_of_their_matrix():
    for paths in (sr.shortest_paths(HOPS), sr.shortest_paths(HOPS, sources=[0]), sr.transitive_closure(EDGES)):
        assert np.array_equal(np.asarray(paths), np.asarray(paths.matrix))
        assert np.asarray(paths, np.float32).dtype == np.float32
    with pytest.raises(TypeError, match=r"take \.matrix"):
        np.asarray(sr.shortest_paths(HOPS, limit=1))


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist], ids=["arrays", "lists"])
def test_truth_values_in_a_list_beside_numbers(form):
    mixed, numbers = [form(EDGES), HOPS], np.stack([HOPS, HOPS])
    for call in (sr.multi_dot, sr.scan, sr.closure):
        np.testing.assert_array_equal(call(mixed), call(numbers))
        np.testing.assert_array_equal(call(mixed[::-1]), call(numbers))


def test_a_column_of_truth_values_is_a_weight_if_it_is_named():
    columns = {"from": ["a", "b"], "to": ["b", "c"], "oneway": [True, False]}
    for given in (pd.DataFrame(columns), pl.DataFrame(columns)):
        assert sr.shortest_paths(given).distance("a", "c") == 2
        assert sr.shortest_paths(given, weight="oneway").distance("a", "b") == 1
        assert sr.shortest_paths(given, weight="oneway").distance("b", "c") == INF


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_list_edges(layout):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings(action="ignore"):  # PyTorch calls the layouts beta
        tensor = getattr(torch.tensor([[0, 7.0, 1], [0, 0, 0], [0, 2, 0]]), layout)()
    expected = [[0, 3, 1], [INF, 0, INF], [INF, 2, 0]]
    assert sr.closure(tensor).tolist() == sr.shortest_paths(tensor).matrix.tolist() == expected
    assert (
        sr.shortest_paths(tensor, sources=[0]).matrix.tolist() == sr.factor(tensor).table([0]).tolist() == [[0, 3, 1]]
    )
    assert sr.condensation(tensor).reaches(0, 1)
    with pytest.raises(ShapeError, match="only matrices are accepted"):
        sr.closure(torch.ones(2, 2, 2).to_sparse())


def test_messages_quote_arguments_escaped_and_shortened():
    wild = "\u202e\x1b[31m" + "x" * 10_000
    for call in (
        lambda: sr.shortest_paths(HOPS, names=["a", "b", "c"]).distance(wild, "a"),
        lambda: sr.as_network([("a", "b", wild), ("b", "c", wild)], weight=2),
        lambda: sr.closure([[0, wild], [1, 2]]),
        lambda: sr.as_network(pd.DataFrame([["a", "b", 1.0]], columns=["from", "to", "km"]), weight=[[wild]]),
        lambda: sr.as_network(nx.DiGraph([(wild, "b", {"weight": math.nan})])),
    ):
        with pytest.raises((sr.errors.SemiringError, TypeError, ValueError)) as caught:
            call()
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isprintable()


def test_arguments_of_another_kind_are_named():
    with pytest.raises(TypeError, match="names are a list with a name for each vertex, and not 1"):
        sr.shortest_paths(HOPS, names=1)
    with pytest.raises(ShapeError, match="rows differ in length"):
        sr.pack([[True], [True, False]])


def test_paths_of_some_sources_can_be_pickled():
    found = sr.shortest_paths(HOPS, sources=[0])
    assert pickle.loads(pickle.dumps(found)).path(0, 2) == [0, 1, 2]
