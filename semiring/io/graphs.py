"""Convert objects to networks: graphs of NetworkX, igraph and rustworkx, frames of edges, and matrices.

The module imports none of these libraries, because an object of a library exists only if the library is loaded.
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
from semiring.arrays.labels import WEIGHTS, guess_weight, is_edge_frame, is_frame, is_graph, labelled_square, unit_of
from semiring.arrays.operands import as_matrix
from semiring.errors import DTypeError, FormatError
from semiring.io.edge_frames import edges_of_frame
from semiring.io.network import Edges, Network, assemble, convert_network, dtype_of_frame, semiring_of, symmetrize
from semiring.io.text import as_array, is_number

__all__ = ["Graph", "as_network", "collect_titles", "edges_of", "edges_of_graph", "guess_title"]

Weight = str | Callable[[Any], Any] | None
_NAMES = ("id", "key", "label", "name")  # attributes that name edges, and whose texts may be digits


def as_network(
    x: Any,
    semiring: Semiring | str | None = None,
    *,
    weight: Weight = None,
    source: str | None = None,
    target: str | None = None,
    directed: bool | None = None,
    dtype: Any = None,
) -> Network:
    """Return the `Network` of a graph, a frame of edges, or a matrix, over ``semiring``.

    Parameters
    ----------
    x : graph, frame, array_like or Network
        * A graph of NetworkX (also a multigraph), igraph or rustworkx. Names of vertices are the nodes of NetworkX, or
          the attribute ``name`` of igraph. For rustworkx they are the payloads if they differ, else the indices.
        * A frame of edges, of pandas or Polars. Each row is an edge from the column ``source`` to the column
          ``target``. Vertices that are integers come in numerical order, and others in the order of first occurrence.
        * A square frame (labels of rows and columns are the names), an array, a sparse matrix.
        * A `Network`, whose "no edge" becomes that of ``semiring``.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one. Its zero fills the entries without an edge. The default is the semiring of a
        `Network`, else min-plus.
    weight : str or callable, optional
        The attribute, column or key that holds the weights. The default is ``weight``, else the only one that holds
        numbers (except ``id``). Several are a `FormatError`. Without weights every edge weighs 1. For rustworkx it may
        be a function of the payload, and by default a payload that is a number is the weight. For NetworkX it may be a
        function of both ends and the attributes, as in NetworkX's own functions, which returns None for no edge.
    source, target : str, optional
        The columns of a frame of edges, by default the usual titles: source, from, u, …, target, to, v, …
    directed : bool, optional
        False takes each edge in both directions, and a loop once. The default is the direction of the graph. Frames of
        edges are directed.
    dtype : dtype, optional
        The dtype of the matrix. The default is the dtype of the column of weights or of the matrix. For graphs and for
        frames of integers, which have no ∞ for "no path", it is float64 or the nearest dtype.

    Returns
    -------
    Network
        The matrix, and the names that the vertices have in x.

    Raises
    ------
    DomainError, FormatError, DTypeError
        A weight is not valid. The message names the edge.
    ShapeError
        A matrix is not square.
    TypeError
        The object is none of the above, or an option does not apply to it.

    Notes
    -----
    An edge that is not listed is the semiring's zero. A listed edge is an edge, also of weight 0, and parallel edges
    combine by ⊕. Time and memory O(n² + edges).

    Examples
    --------
    >>> import networkx as nx
    >>> roads = nx.Graph()
    >>> roads.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
    >>> network = as_network(roads)
    >>> network.names
    ('Ulm', 'Kiel', 'Jena')
    >>> network.matrix
    array([[inf,  7., inf],
           [ 7., inf,  4.],
           [inf,  4., inf]])
    """
    algebra = as_semiring(semiring_of(x, semiring))
    columns = {"source": source, "target": target, "weight": weight}
    if is_graph(x):
        _reject_options(x, {"source": source, "target": target})
        if isinstance(x, Network):
            _reject_options(x, {"weight": weight})
            return _apply_direction(convert_network(x, algebra, dtype), algebra, directed)
        return _assemble_graph(x, algebra, weight, directed, dtype)
    if is_edge_frame(x) or (is_frame(x) and any(title is not None for title in columns.values())):
        if callable(weight):
            raise TypeError(
                "weight is a function, and the weights of a frame are a column: pass the title of the column"
            )
        return assemble(edges_of_frame(x, source, target, weight), algebra, dtype, directed=directed)
    _reject_options(x, columns)
    if is_frame(x):
        labelled = labelled_square(x)
        dtype = dtype_of_frame(labelled.matrix, algebra) if dtype is None else dtype
        network = Network(as_matrix(labelled.matrix, algebra, dtype, square=True), labelled.names, semiring=algebra)
    else:
        values = x.unpack() if isinstance(x, BitMatrix) else x
        network = Network(as_matrix(values, algebra, dtype, square=True), semiring=algebra)
    return _apply_direction(network, algebra, directed)


def _reject_options(x: Any, options: Mapping[str, Any]) -> None:
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise TypeError(f"{names[0]}= is not an option for a {type(x).__name__}: nothing in it has such a title")


def _apply_direction(network: Network, semiring: Semiring, directed: bool | None) -> Network:
    if directed is not False:
        return network
    return replace(network, matrix=symmetrize(network.matrix, semiring), combined=True, directed=False)


# ------------------------------------------------------------------------------------------------- graphs


@dataclass(frozen=True)
class Graph:
    """A graph in the form that all libraries convert to, whose vertices are numbers.

    ``ends`` are the tail and the head of each edge. ``weights`` are the weight of each edge, or None without a weight.
    """

    names: tuple[Hashable, ...]
    directed: bool
    ends: Sequence[tuple[int, int]]
    weights: Sequence[Any]


def _assemble_graph(x: Any, semiring: Semiring, weight: Weight, directed: bool | None, dtype: Any) -> Network:
    return assemble(edges_of_graph(x, weight, directed), semiring, dtype, directed=directed)


def edges_of_graph(x: Any, weight: Weight = None, directed: bool | None = None) -> Edges:
    """Return the edges of a graph of NetworkX, igraph or rustworkx, with the options of `as_network`."""
    library = _find_library(x)
    titles = _attribute_values(x, library)
    title, candidates = guess_title(titles) if weight is None else (weight, ())
    graph = _READERS[library](x, title)
    if directed and not graph.directed:
        raise ValueError("the graph is undirected: leave directed=True out")
    return edges_of(graph, title, needs_weights=weight is not None, candidates=candidates, titles=titles)


def edges_of(
    graph: Graph,
    title: Weight,
    *,
    needs_weights: bool,
    candidates: tuple[str, ...] = (),
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
        return f"{source}the edge {graph.names[i]} → {graph.names[j]}"

    name_list = ", ".join(map(repr, candidates))
    ambiguity = (
        f"the weights may be any of the attributes {name_list}: name one by "
        f"{option('weight')}{advice(', here or in semiring.as_network', '')}, or "
        "leave these attributes out"
    )
    if len(candidates) == 1:
        texts = f"{source}the attribute {name_list} of the edges holds texts of numbers"
        ambiguity = f"{texts}: convert them to numbers, or leave it out"
    n, ends = len(graph.names), np.array(graph.ends, np.int64).reshape(-1, 2)
    has_weights = _has_weight(graph.weights)
    titles = tuple(titles)
    if graph.ends and isinstance(title, str) and title in titles and not has_weights:
        ambiguity = f"{locate(0)} and all other edges have None as {title!r}: give them weights, or leave {title!r} out"
        candidates = (title,)
        if needs_weights:
            raise FormatError(ambiguity)
    if needs_weights and isinstance(title, str) and graph.weights and not has_weights:
        others = ", ".join(repr(other) for other in titles if other != title)
        attributes = f"the attributes of edges are {others}" if others else "edges have no attributes"
        raise FormatError(f"{source}no edge has a weight {title!r}: {attributes}")
    values = _weight_array(graph.weights, locate, title) if needs_weights or has_weights else None
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
        names_weights=needs_weights,
        ambiguity=ambiguity if candidates else "",
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
    """Return the title of the weights, and if it is ambiguous the candidates.

    The title is "weight" if that exists. Otherwise it is the only title that has a number among its values and does
    not number rows (`counts_rows`: id, index). A title whose values are all truth values or None counts only if it is a
    usual title of weights, and no other title is left. Without such a title the candidates are those whose values are
    all texts of numbers.
    """
    if "weight" in titles:
        return "weight", ()
    numbers = [title for title, values in titles.items() if any(isinstance(value, Real) for value in values)]
    usual = [title for title in numbers if title.casefold() in WEIGHTS]
    others = [title for title in numbers if not all(isinstance(value, bool | None) for value in titles[title])]
    title, candidates = guess_weight(others or usual)
    texts = [] if numbers else [title for title, values in titles.items() if _are_numbers(title, values)]
    return title or "weight", candidates or tuple(texts)


def _are_numbers(title: str, values: Sequence[Any]) -> bool:
    """Return whether all values except None are texts of numbers, and the title does not mean names of edges."""
    texts = [value for value in values if value is not None]
    return bool(texts) and title.casefold() not in _NAMES and all(isinstance(x, str) and is_number(x) for x in texts)


def _has_weight(weights: Sequence[Any]) -> bool:
    return any(value is not None for value in weights)


def _weight_array(weights: Sequence[Any], locate: Callable[[int], str], title: Weight) -> np.ndarray[Any, Any]:
    for edge, value in enumerate(weights):
        if value is None:
            called = "" if callable(title) else f" {title!r}"
            mixed = ", and other edges have one: give it one (NetworkX assumes 1)" if _has_weight(weights) else ""
            raise FormatError(f"{locate(edge)} has no weight{called}{mixed}")
        if not isinstance(value, Real | np.bool_):
            raise DTypeError(f"{locate(edge)}: the weight {value!r} is not a real number")
    array = as_array(weights, locate)
    return array if array.dtype.kind in "fiub" else _as_float64(weights, locate)


def _as_float64(weights: Sequence[Any], locate: Callable[[int], str]) -> np.ndarray[Any, Any]:
    """Return weights that are fractions or very large integers as an array of float64."""
    for edge, value in enumerate(weights):
        try:
            float(value)
        except OverflowError:
            raise DTypeError(f"{locate(edge)}: the weight is too large for float64") from None
    return np.array([float(value) for value in weights])


def _find_library(x: Any) -> str:
    """Return the library of a graph, which is the library of its class or of a base class."""
    return next(name for kind in type(x).__mro__ if (name := kind.__module__.partition(".")[0]) in _READERS)


def _read_networkx(graph: Any, weight: str | Callable[..., Any]) -> Graph:
    names = tuple(graph)
    place = {name: vertex for vertex, name in enumerate(names)}
    if callable(weight):  # a function may return different weights for the two directions of an edge
        pairs = [(i, j, weight(i, j, attributes)) for i, row in graph.adjacency() for j, attributes in row.items()]
        edges, directed = [edge for edge in pairs if edge[2] is not None], True
    else:
        edges, directed = list(graph.edges(data=weight)), graph.is_directed()
    ends = [(place[i], place[j]) for i, j, _ in edges]
    return Graph(names, directed, ends, [value for *_, value in edges])


def _read_igraph(graph: Any, weight: str | Callable[[Any], Any]) -> Graph:
    title, n = _require_title(weight), graph.vcount()
    names = _choose_names(tuple(graph.vs["name"]), range(n)) if "name" in graph.vs.attributes() else tuple(range(n))
    weights = graph.es[title] if title in graph.es.attributes() else [None] * graph.ecount()
    return Graph(names, graph.is_directed(), graph.get_edgelist(), weights)


def _read_rustworkx(graph: Any, weight: str | Callable[[Any], Any]) -> Graph:
    indices = list(graph.node_indices())  # indices of removed vertices are missing
    place = {index: vertex for vertex, index in enumerate(indices)}
    edges = list(graph.weighted_edge_list())
    ends = [(place[i], place[j]) for i, j, _ in edges]
    directed = isinstance(graph, sys.modules["rustworkx"].PyDiGraph)
    weights = [weight(payload) if callable(weight) else _payload_weight(payload, weight) for *_, payload in edges]
    return Graph(_choose_names(tuple(graph.nodes()), indices), directed, ends, weights)


def _require_title(weight: str | Callable[[Any], Any]) -> str:
    if callable(weight):
        raise TypeError("weight is a function, which igraph does not support: pass the name of an attribute")
    return weight


def _payload_weight(payload: Any, title: str) -> Any:
    """Return the weight in a payload of rustworkx: its entry or attribute of that title, or the payload itself."""
    if isinstance(payload, Mapping):
        return payload.get(title)
    return getattr(payload, title, None if payload is None or hasattr(payload, "__dict__") else payload)


def _choose_names(names: tuple[Any, ...], indices: Sequence[int]) -> tuple[Hashable, ...]:
    """Return the names, or the ``indices`` if a name is None or unhashable, or two names are equal."""
    try:
        usable = None not in names and len(set(names)) == len(names)
    except TypeError:
        usable = False
    return names if usable else tuple(indices)


_READERS: dict[str, Callable[[Any, Any], Graph]] = {
    "networkx": _read_networkx,
    "igraph": _read_igraph,
    "rustworkx": _read_rustworkx,
}
