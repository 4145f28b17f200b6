"""Test what a notebook shows, the exports to frames, graphs and pictures, and results without an edge."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import semiring as sr
from semiring.errors import NoPathError, VertexError
from semiring.plot import plot_network

INF = np.inf
A = [[INF, 7, 1], [INF, INF, INF], [INF, 2, INF]]
NAMES = ("a", "b<", "c")


def test_everything_has_a_face_in_notebooks():
    P = sr.shortest_paths(A, names=NAMES)
    _, why = sr.closure(np.array(A), explain=True)
    for thing, part in (
        (P, "<td>3</td>"),
        (sr.as_network(nx.path_graph(3)), "<td>1</td>"),
        (sr.max_times, "<td>⊕</td><td>max(x, y)</td>"),
        (why, "<pre>closure of a 3 × 3"),
    ):
        assert part in thing._repr_html_()
    assert "b&lt;" in P._repr_html_(), "names are text"
    assert "<td>True</td>" in sr.transitive_closure(np.eye(3, dtype=bool))._repr_html_()
    assert "<td>2</td>" in sr.shortest_paths(np.array([[0, 2], [3, 0]]), predecessors=False)._repr_html_()
    large = sr.shortest_paths(np.ones((40, 40)))._repr_html_()
    assert large.count("<tr>") == 12
    assert "…" in large


def test_paths_become_frames():
    frame = sr.shortest_paths(A, names=NAMES).to_frame()
    assert list(frame.index) == list(frame.columns) == list(NAMES)
    assert frame.loc["a", "b<"] == 3
    assert sr.shortest_paths(A).to_frame().loc[0, 1] == 3


ROADS = (("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0), ("Jena", "Bonn", 2.0), ("Ulm", "Bonn", 20.0))


def some_paths(**options) -> sr.Paths:
    roads = nx.Graph()
    roads.add_weighted_edges_from(ROADS)
    return sr.shortest_paths(roads, sources=["Jena", "Bonn"], targets=["Kiel", "Ulm", "Jena"], **options)


def test_tables_of_some_paths_name_sources_and_targets():
    cells = "<tr><td>Jena</td><td>4</td><td>11</td><td>0</td></tr><tr><td>Bonn</td><td>6</td><td>13</td><td>2</td></tr>"
    heads = "<th></th><th>Kiel</th><th>Ulm</th><th>Jena</th>"
    assert cells in some_paths()._repr_html_().replace("\n", "")
    assert heads in some_paths()._repr_html_()
    limited = some_paths(limit=6)._repr_html_().replace("\n", "")
    assert cells.replace("11", "inf").replace("13", "inf") in limited, "worse than the limit is told as distance() does"
    assert heads in limited
    wide = sr.shortest_paths(np.ones((40, 40)), sources=[3, 0])._repr_html_()
    assert wide.count("<tr>") == 3
    assert "<td>3</td>" in wide


def test_some_paths_become_frames():
    frame = some_paths().to_frame()
    assert (list(frame.index), list(frame.columns)) == (["Jena", "Bonn"], ["Kiel", "Ulm", "Jena"])
    assert frame.to_numpy().tolist() == [[4, 11, 0], [6, 13, 2]]
    stored = some_paths(limit=6).to_frame()
    assert sorted(stored.itertuples(index=False, name=None)) == [
        ("Bonn", "Jena", 2.0),
        ("Bonn", "Kiel", 6.0),
        ("Jena", "Jena", 0.0),
        ("Jena", "Kiel", 4.0),
    ]


@pytest.mark.parametrize("options", [{}, {"limit": 20}, {"predecessors": False}])
def test_some_paths_are_drawn(options):
    P = some_paths(**options)
    words = {text.get_text() for text in P.plot("Bonn", "Ulm").findobj(lambda x: hasattr(x, "get_text"))}
    assert {"Bonn", "Jena", "Kiel", "Ulm", "7", "20"} <= words
    with pytest.raises(VertexError, match="not asked for as a target"):
        P.plot("Bonn", "Bonn")
    assert sr.shortest_paths(A, sources=[0]).plot(0, 1).axes


def test_paths_are_drawn():
    P = sr.shortest_paths(A, names=NAMES)
    assert P.plot("a", "b<").axes
    assert P.plot().axes
    assert sr.shortest_paths(A, predecessors=False).plot(0, 1).axes
    with pytest.raises(NoPathError):
        P.plot("b<", "a")


def test_a_path_is_given_by_names_or_by_numbers():
    network = sr.data.load_network("us-flights")
    for path in (["BGR", "DEN", "HNL"], [network.names.index(name) for name in ("BGR", "DEN", "HNL")]):
        texts = {text.get_text() for text in plot_network(network, path=path).findobj(lambda x: hasattr(x, "get_text"))}
        assert any(text.startswith("DEN") for text in texts)
    with pytest.raises(VertexError, match="NOWHERE"):
        plot_network(network, path=["BGR", "NOWHERE"])


def test_networks_become_graphs():
    flights = sr.data.load_network("us-flights")
    graph = flights.to_networkx()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (352, 6022)
    assert graph.nodes["BOS"]["label"] == "Boston"
    assert len(graph.nodes["BOS"]["pos"]) == 2
    assert nx.shortest_path(graph, "BGR", "GUM", weight="weight") == ["BGR", "DEN", "HNL", "GUM"]
    back = sr.as_network(graph)
    np.testing.assert_array_equal(back.matrix, flights.matrix)
