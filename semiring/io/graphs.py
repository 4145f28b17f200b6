"""Networks from objects: graphs of NetworkX, igraph and rustworkx, frames of edges, labelled and plain matrices.

None of these libraries is imported: an object of one of them shows that it is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from semiring.advice import advice, option
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import WEIGHTS, guessed_weight, is_edge_frame, is_frame, is_graph, labelled_square, unit_of
from semiring.arrays.operands import as_matrix
from semiring.errors import DTypeError, FormatError
from semiring.io.edge_frames import edges_of_frame
from semiring.io.network import Edges, Network, assemble, both_directions, dtype_of_frame, over, semiring_of
from semiring.io.text import as_array, is_number

__all__ = ["Graph", "edges_of", "edges_of_graph", "guessed_title", "network_of", "titles_of"]

Weight = str | Callable[[Any], Any] | None
_NAMES = ("id", "key", "label", "name")  # of edges, that may be texts of digits


def network_of(
    x: Any,
    semiring: Semiring | str | None = None,
    *,
    weight: Weight = None,
    source: str | None = None,
    target: str | None = None,
    directed: bool | None = None,
    dtype: Any = None,
) -> Network:
    """The `Network` of a graph, a frame of edges, or a matrix, over ``semiring``; vertices keep their names.

    Parameters
    ----------
    x
        * a graph of NetworkX (multigraphs too), igraph or rustworkx. Vertices are named by the nodes of NetworkX, the
          attribute ``name`` of igraph, the payloads of rustworkx where they differ (else its indices);
        * a frame of edges, of pandas or Polars: one edge a row, from the column ``source`` to the column ``target``.
          Vertices that are integers come in numerical order, others in the order in which they occur;
        * a square frame (labels of rows and columns are the names), an array, a sparse matrix;
        * a `Network`, whose "no edge" becomes that of ``semiring``.
    semiring
        A `Semiring` or the name of one: its zero fills the matrix where there is no edge. By default that of a
        `Network`, else min-plus.
    weight
        The attribute, column or key that holds the weights. By default ``weight``, else the only one that holds
        numbers (but ``id``), and `FormatError` where there are several; without any every edge weighs 1.
        Of rustworkx also a function of the payload, where a payload that is a number is the weight; of NetworkX one of
        both ends and the attributes, as its own functions take, whose None is no edge.
    source, target
        The columns of a frame of edges, by default the usual titles: source, from, u, …, target, to, v, …
    directed
        False takes each edge in both directions, a loop once. By default what the graph says; lists are directed.
    dtype
        Of the matrix, by default that of a column of weights or of the matrix; of graphs, and of frames of integers,
        which have no ∞ for "no path", float64 or the nearest.

    What is not listed is no edge; what is listed is an edge, of weight 0 too; parallel edges are added by ⊕.
    Raises `DomainError`, `FormatError` and `DTypeError` that name the edge; `ShapeError`; `TypeError` for what is none
    of these. Time and memory O(n² + edges).

    >>> import networkx as nx
    >>> roads = nx.Graph()
    >>> roads.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
    >>> found = network_of(roads)
    >>> found.names
    ('Ulm', 'Kiel', 'Jena')
    >>> found.matrix
    array([[inf,  7., inf],
           [ 7., inf,  4.],
           [inf,  4., inf]])
    """
    algebra = as_semiring(semiring_of(x, semiring))
    columns = {"source": source, "target": target, "weight": weight}
    if is_graph(x):
        _refuse(x, {"source": source, "target": target})
        if isinstance(x, Network):
            _refuse(x, {"weight": weight})
            return _directed(over(x, algebra, dtype), algebra, directed)
        return _of_graph(x, algebra, weight, directed, dtype)
    if is_edge_frame(x) or (is_frame(x) and any(title is not None for title in columns.values())):
        if callable(weight):
            raise TypeError(
                "weight is a function, and the weights of a frame are a column: pass the title of the column"
            )
        return assemble(edges_of_frame(x, source, target, weight), algebra, dtype, directed=directed is not False)
    _refuse(x, columns)
    if is_frame(x):
        labelled = labelled_square(x)
        dtype = dtype_of_frame(labelled.matrix, algebra) if dtype is None else dtype
        network = Network(as_matrix(labelled.matrix, algebra, dtype, square=True), labelled.names, semiring=algebra)
    else:
        values = x.unpack() if isinstance(x, BitMatrix) else x
        network = Network(as_matrix(values, algebra, dtype, square=True), semiring=algebra)
    return _directed(network, algebra, directed)


def _refuse(x: Any, options: Mapping[str, Any]) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise TypeError(f"{given[0]}= is not an option for a {type(x).__name__}: nothing in it has such a title")


def _directed(network: Network, semiring: Semiring, directed: bool | None) -> Network:
    if directed is not False:
        return network
    return replace(network, matrix=both_directions(network.matrix, semiring), combined=True, directed=False)


# ------------------------------------------------------------------------------------------------- graphs


@dataclass(frozen=True)
class Graph:
    """What the libraries of graphs have in common; vertices are numbers here."""

    names: tuple[Hashable, ...]
    directed: bool
    ends: Sequence[tuple[int, int]]
    weights: Sequence[Any]  # of each edge, None where it has none


def _of_graph(x: Any, semiring: Semiring, weight: Weight, directed: bool | None, dtype: Any) -> Network:
    return assemble(edges_of_graph(x, weight, directed), semiring, dtype, directed=directed is not False)


def edges_of_graph(x: Any, weight: Weight = None, directed: bool | None = None) -> Edges:
    """The edges of a graph of NetworkX, igraph or rustworkx; see `network_of`."""
    library = _library(x)
    titles = _titles(x, library)
    title, candidates = guessed_title(titles) if weight is None else (weight, ())
    graph = _READERS[library](x, title)
    if directed and not graph.directed:
        raise ValueError("the graph is undirected: leave directed=True out")
    return edges_of(graph, title, required=weight is not None, candidates=candidates, titles=titles)


def edges_of(
    graph: Graph,
    title: Weight,
    *,
    required: bool,
    candidates: tuple[str, ...] = (),
    titles: Iterable[str] = (),
    source: str = "",
    unit: str = "",
) -> Edges:
    """The edges of a graph whose weights have that title; unless ``required``, each weighs 1 where none has any.

    ``titles`` are those of the attributes that edges have, for an error to name.
    """

    def locate(edge: int) -> str:
        i, j = graph.ends[edge % len(graph.ends)]
        return f"{source}the edge {graph.names[i]} → {graph.names[j]}"

    shown = ", ".join(map(repr, candidates))
    unclear = (
        f"the weights may be any of the attributes {shown}: name one by "
        f"{option('weight')}{advice(', here or in semiring.network_of', '')}, or "
        "leave these attributes out"
    )
    if len(candidates) == 1:
        held = f"{source}the attribute {shown} of the edges holds texts of numbers"
        unclear = f"{held}: convert them to numbers, or leave it out"
    n, ends = len(graph.names), np.array(graph.ends, np.int64).reshape(-1, 2)
    there = _any_weight(graph.weights)
    titles = tuple(titles)
    if isinstance(title, str) and title in titles and not there:
        unclear = f"{locate(0)} and all other edges have None as {title!r}: give them weights, or leave {title!r} out"
        candidates = (title,)
        if required:
            raise FormatError(unclear)
    if required and isinstance(title, str) and graph.weights and not there:
        others = ", ".join(repr(other) for other in titles if other != title)
        held = f"the attributes of edges are {others}" if others else "edges have no attributes"
        raise FormatError(f"{source}no edge has a weight {title!r}: {held}")
    values = _weights(graph.weights, locate, title) if required or there else None
    names = None if graph.names == tuple(range(n)) else graph.names
    if values is not None and isinstance(title, str):
        unit = unit or unit_of(title)
    return Edges(
        n,
        ends[:, 0],
        ends[:, 1],
        values,
        locate,
        names=names,
        unit=unit,
        directed=graph.directed,
        asked=required,
        unclear=unclear if candidates else "",
    )


def _titles(x: Any, library: str) -> dict[str, list[Any]]:
    """The attributes of the edges of a graph, with their values."""
    if library == "igraph":
        return {title: x.es[title] for title in x.es.attributes()}
    payloads = (x.weighted_edge_list() if library == "rustworkx" else x.edges(data=True)) if len(x) else ()
    return titles_of(payload for *_, payload in payloads)


def titles_of(payloads: Iterable[Any]) -> dict[str, list[Any]]:
    """The titles that the payloads of edges have, those that are mappings, with the values under each."""
    found: dict[str, list[Any]] = {}
    for payload in payloads:
        for title, value in payload.items() if isinstance(payload, Mapping) else ():
            if isinstance(title, str):
                found.setdefault(title, []).append(value)
    return found


def guessed_title(titles: Mapping[str, list[Any]]) -> tuple[str, tuple[str, ...]]:
    """The title of the weights, and the titles that they may have where that is not known.

    It is "weight" where that is a title, else the only one under which there is a number; of truths alone a usual one.
    Where there is none it may be one whose texts are all numbers.
    """
    if "weight" in titles:
        return "weight", ()
    numbers = [title for title, values in titles.items() if any(isinstance(value, Real) for value in values)]
    usual = [title for title in numbers if title.casefold() in WEIGHTS]
    others = [title for title in numbers if not all(isinstance(value, bool | None) for value in titles[title])]
    title, candidates = guessed_weight(others or usual)
    texts = [] if numbers else [title for title, values in titles.items() if _are_numbers(title, values)]
    return title or "weight", candidates or tuple(texts)


def _are_numbers(title: str, values: Sequence[Any]) -> bool:
    """Whether all that is not missing are texts of numbers, and no names of edges."""
    texts = [value for value in values if value is not None]
    return bool(texts) and title.casefold() not in _NAMES and all(isinstance(x, str) and is_number(x) for x in texts)


def _any_weight(weights: Sequence[Any]) -> bool:
    return any(value is not None for value in weights)


def _weights(weights: Sequence[Any], locate: Callable[[int], str], title: Weight) -> np.ndarray[Any, Any]:
    for edge, value in enumerate(weights):
        if value is None:
            called = "" if callable(title) else f" {title!r}"
            mixed = ", and other edges have one: give it one (NetworkX assumes 1)" if _any_weight(weights) else ""
            raise FormatError(f"{locate(edge)} has no weight{called}{mixed}")
        if not isinstance(value, Real | np.bool_):
            raise DTypeError(f"{locate(edge)}: the weight {value!r} is not a real number")
    array = as_array(weights, locate)
    return array if array.dtype.kind in "fiub" else _rounded(weights, locate)


def _rounded(weights: Sequence[Any], locate: Callable[[int], str]) -> np.ndarray[Any, Any]:
    """Fractions and very large integers as float64."""
    for edge, value in enumerate(weights):
        try:
            float(value)
        except OverflowError:
            raise DTypeError(f"{locate(edge)}: the weight is too large for float64") from None
    return np.array([float(value) for value in weights])


def _library(x: Any) -> str:
    """The library that a graph belongs to: that of the class it is derived from, whoever derived it."""
    return next(name for kind in type(x).__mro__ if (name := kind.__module__.partition(".")[0]) in _READERS)


def _networkx(graph: Any, weight: str | Callable[..., Any]) -> Graph:
    names = tuple(graph)
    place = {name: vertex for vertex, name in enumerate(names)}
    if callable(weight):  # it may tell the directions of an edge apart
        pairs = [(i, j, weight(i, j, held)) for i, row in graph.adjacency() for j, held in row.items()]
        edges, directed = [edge for edge in pairs if edge[2] is not None], True
    else:
        edges, directed = list(graph.edges(data=weight)), graph.is_directed()
    ends = [(place[i], place[j]) for i, j, _ in edges]
    return Graph(names, directed, ends, [value for *_, value in edges])


def _igraph(graph: Any, weight: str | Callable[[Any], Any]) -> Graph:
    title, n = _title(weight), graph.vcount()
    names = _usable(tuple(graph.vs["name"]), range(n)) if "name" in graph.vs.attributes() else tuple(range(n))
    weights = graph.es[title] if title in graph.es.attributes() else [None] * graph.ecount()
    return Graph(names, graph.is_directed(), graph.get_edgelist(), weights)


def _rustworkx(graph: Any, weight: str | Callable[[Any], Any]) -> Graph:
    indices = list(graph.node_indices())  # with holes where vertices were removed
    place = {index: vertex for vertex, index in enumerate(indices)}
    edges = list(graph.weighted_edge_list())
    ends = [(place[i], place[j]) for i, j, _ in edges]
    directed = isinstance(graph, sys.modules["rustworkx"].PyDiGraph)
    weights = [weight(payload) if callable(weight) else _inside(payload, weight) for *_, payload in edges]
    return Graph(_usable(tuple(graph.nodes()), indices), directed, ends, weights)


def _title(weight: str | Callable[[Any], Any]) -> str:
    if callable(weight):
        raise TypeError("weight is a function, which igraph does not support: pass the name of an attribute")
    return weight


def _inside(payload: Any, title: str) -> Any:
    """The weight in a payload of rustworkx: the entry or the attribute of that title, or the payload itself."""
    if isinstance(payload, Mapping):
        return payload.get(title)
    return getattr(payload, title, None if payload is None or hasattr(payload, "__dict__") else payload)


def _usable(names: tuple[Any, ...], otherwise: Sequence[int]) -> tuple[Hashable, ...]:
    """The names, or numbers where these are no names: missing, unhashable, or not different."""
    try:
        usable = None not in names and len(set(names)) == len(names)
    except TypeError:
        usable = False
    return names if usable else tuple(otherwise)


_READERS: dict[str, Callable[[Any, Any], Graph]] = {"networkx": _networkx, "igraph": _igraph, "rustworkx": _rustworkx}
