"""Read the edges of graphs of NetworkX, igraph and rustworkx.

The module imports none of these libraries, because an object of a library exists only if the library is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from semiring.advice import plain_text, quote
from semiring.arrays.labels import WEIGHTS, choose_weight, is_row_number_title, unit_of
from semiring.errors import FormatError
from semiring.io.edge_tables import ambiguous_weights, is_weight_list, listed_weights, weights_as_array
from semiring.io.network import Edges

__all__ = ["Graph", "Weight", "collect_titles", "edges_of", "edges_of_graph", "guess_title"]

#: The weights of edges: the name of an attribute, a function, or one number for each edge.
Weight: TypeAlias = str | Callable[..., Any] | Sequence[float] | None

#: Attributes that name edges. Their texts may begin with a digit.
_NAMES = ("key", "label", "name")


@dataclass(frozen=True)
class Graph:
    """A graph in the form that all libraries convert to, whose vertices are numbers.

    ``ends`` are the tail and the head of each edge. ``weights`` are the weight of each edge, or None without a weight.
    """

    names: tuple[Hashable, ...]
    directed: bool
    ends: Sequence[tuple[int, int]]
    weights: Sequence[Any]


def edges_of_graph(x: Any, weight: Weight = None, directed: bool | None = None) -> Edges:
    """Return the edges of a graph of NetworkX, igraph or rustworkx, with the options of `as_network`."""
    library = _find_library(x)
    titles = _attribute_values(x, library)
    title, candidates = guess_title(titles) if weight is None or is_weight_list(weight) else (weight, ())
    graph = _READERS[library](x, title)
    if directed and not graph.directed:
        raise ValueError("the graph is undirected: leave directed=True out")
    if is_weight_list(weight):
        listed = listed_weights(weight, len(graph.ends))
        graph, title, candidates = Graph(graph.names, graph.directed, graph.ends, listed), "", ()
    return edges_of(graph, title, needs_weights=weight is not None, candidates=candidates, titles=titles)


def edges_of(
    graph: Graph,
    title: Any,
    *,
    needs_weights: bool,
    candidates: Sequence[str] = (),
    titles: Iterable[str] = (),
    source: str = "",
    unit: str = "",
) -> Edges:
    """Return the edges of a graph whose weights have the given title.

    If no edge has a weight, each edge weighs 1. With ``needs_weights`` it is an error. Messages name ``titles``, the
    titles of the attributes of edges.
    """

    def locate(edge: int) -> str:
        i, j = graph.ends[edge % len(graph.ends)]
        return f"{source}the edge {plain_text(graph.names[i])} → {plain_text(graph.names[j])}"

    n, ends = len(graph.names), np.array(graph.ends, np.int64).reshape(-1, 2)
    titles = tuple(titles)
    is_named = isinstance(title, str) and title != ""
    has_weights = (is_named and title in titles) or any(value is not None for value in graph.weights)
    if needs_weights and is_named and graph.ends and not has_weights:
        others = ", ".join(map(quote, titles))
        attributes = f"the attributes of edges are {others}" if others else "edges have no attributes"
        raise FormatError(f"{source}no edge has a weight {quote(title)}: {attributes}")
    values, ambiguity = None, ambiguous_weights("attributes", candidates) if candidates else ""
    if needs_weights or (has_weights and not candidates):
        try:
            values = weights_as_array(graph.weights, locate, f" {quote(title)}" if is_named else "")
        except FormatError as error:  # no error over truth values, for which each edge is True
            if needs_weights:
                raise
            ambiguity = str(error)
    return Edges(
        n,
        ends[:, 0],
        ends[:, 1],
        values,
        locate,
        names=None if graph.names == tuple(range(n)) else graph.names,
        unit=unit or (unit_of(title) if values is not None and is_named else ""),
        directed=graph.directed,
        names_weights=needs_weights,
        ambiguity=ambiguity,
    )


def _attribute_values(x: Any, library: str) -> dict[str, list[Any]]:
    """Return the attributes of the edges of a graph, with their values."""
    if library == "igraph":
        return {title: x.es[title] for title in x.es.attributes()}
    payloads = (x.weighted_edge_list() if library == "rustworkx" else x.edges(data=True)) if len(x) else ()
    return collect_titles(payload for *_, payload in payloads)


def collect_titles(payloads: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the titles in the payloads of edges that are mappings, with the values of each title."""
    titles: dict[str, list[Any]] = {}
    for payload in payloads:
        for title, value in payload.items() if isinstance(payload, Mapping) else ():
            if isinstance(title, str):
                titles.setdefault(title, []).append(value)
    return titles


def guess_title(titles: Mapping[str, list[Any]]) -> tuple[str, tuple[str, ...]]:
    """Return the title of the weights, and if it is ambiguous the candidates: see `choose_weight`."""
    columns = {t: v for t, v in titles.items() if not (is_row_number_title(t) or t.casefold() in _NAMES)}
    title, candidates = choose_weight(columns, WEIGHTS[:1])
    return title or "", candidates


def _find_library(x: Any) -> str:
    """Return the library of a graph, which is the library of its class or of a base class."""
    return next(name for kind in type(x).__mro__ if (name := kind.__module__.partition(".")[0]) in _READERS)


def _read_networkx(graph: Any, weight: Any) -> Graph:
    names = tuple(graph)
    place = {name: vertex for vertex, name in enumerate(names)}
    if callable(weight):  # a function may return different weights for the two directions of an edge
        pairs = [(i, j, weight(i, j, attributes)) for i, row in graph.adjacency() for j, attributes in row.items()]
        edges, directed = [edge for edge in pairs if edge[2] is not None], True
    else:
        edges, directed = list(graph.edges(data=weight or None)), graph.is_directed()
    ends = [(place[i], place[j]) for i, j, *_ in edges]
    return Graph(names, directed, ends, [value[2] if len(value) > 2 else None for value in edges])


def _read_igraph(graph: Any, weight: Any) -> Graph:
    if callable(weight):
        raise TypeError("weight is a function, which igraph does not support: pass the name of an attribute")
    names: tuple[Hashable, ...] = tuple(range(graph.vcount()))
    if "name" in graph.vs.attributes():
        names = _choose_names(tuple(graph.vs["name"]), names, "igraph")
    weights = graph.es[weight] if weight in graph.es.attributes() else [None] * graph.ecount()
    return Graph(names, graph.is_directed(), graph.get_edgelist(), weights)


def _read_rustworkx(graph: Any, weight: Any) -> Graph:
    indices = list(graph.node_indices())  # indices of removed vertices are missing
    place = {index: vertex for vertex, index in enumerate(indices)}
    edges = list(graph.weighted_edge_list())
    ends = [(place[i], place[j]) for i, j, _ in edges]
    directed = isinstance(graph, sys.modules["rustworkx"].PyDiGraph)
    weights = [weight(payload) if callable(weight) else _payload_weight(payload, weight) for *_, payload in edges]
    return Graph(_choose_names(tuple(graph.nodes()), indices, "rustworkx"), directed, ends, weights)


def _payload_weight(payload: Any, title: str) -> Any:
    """Return the weight in a payload of rustworkx: its entry or attribute of that title, or the payload itself."""
    if isinstance(payload, Mapping):
        return payload.get(title)
    return getattr(payload, title or "weight", None if payload is None or hasattr(payload, "__dict__") else payload)


def _choose_names(names: tuple[Any, ...], indices: Sequence[Hashable], library: str) -> tuple[Hashable, ...]:
    """Return the names, or the ``indices`` if a name is None or not hashable.

    Raises `FormatError` if two names are equal. Payloads of rustworkx that are not texts may be data, so they are names
    only if they differ.
    """
    try:
        unique = len(set(names))
    except TypeError:
        return tuple(indices)
    if None in names:
        return tuple(indices)
    if unique < len(names):
        if library == "rustworkx" and not all(isinstance(name, str) for name in names):
            return tuple(indices)  # payloads that hold data and no names
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise FormatError(f"two vertices of the graph are named {quote(twice)}: give each vertex a name of its own")
    return names


_READERS: dict[str, Callable[[Any, Any], Graph]] = {
    "networkx": _read_networkx,
    "igraph": _read_igraph,
    "rustworkx": _read_rustworkx,
}
