"""Convert a NetworkX graph to arrays, which NetworkX passes to the backend and keeps in its cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["ConvertedGraph", "EdgeWeights"]

Array: TypeAlias = NDArray[Any]

_INTS = {int, bool, np.int64}
_FLOATS = {float, np.float64}


class _Missing:
    """The weight of an edge without that attribute."""


_MISSING = _Missing()


@dataclass(frozen=True)
class EdgeWeights:
    """The weights (m,) of all pairs of neighbours, rows → columns, in both directions if the graph is undirected.

    ``kind`` says what Python's own sums of them would be: "int", "float", "mixed" or "other", which has no values.
    ``has_hidden``: whether edges were left out for having the weight None.
    """

    kind: str
    rows: Array
    columns: Array
    values: Array
    has_hidden: bool = False

    def matrix(self, n: int, dtype: Any, none: Any) -> Array:
        """Return a dense matrix (n, n) of the weights, with ``none`` where there is no edge."""
        dense = np.full((n, n), none, dtype)
        dense[self.rows, self.columns] = self.values
        return dense


class ConvertedGraph:
    """The vertices and edges of a NetworkX graph, numbered in its order.

    Weights are read when NetworkX converts the graph, and are cached. As its documentation says, code that changes
    attributes of a graph directly has to clear ``G.__networkx_cache__``.
    """

    __networkx_backend__ = "semiring"

    def __init__(self, source: Any) -> None:
        self.source, self.used = source, False
        self.nodes: list[Any] = list(source)
        self.directed: bool = source.is_directed()
        self.multigraph: bool = source.is_multigraph()
        index = {node: i for i, node in enumerate(self.nodes)}
        ends = [[index[node] for node in each] for each in self._neighbours()]
        counts = [len(each) for each in ends]
        self.columns: Array = np.fromiter(chain.from_iterable(ends), np.intp, sum(counts))
        self.rows: Array = np.repeat(np.arange(len(index)), counts)
        self._weights: dict[Any, tuple[set[type], EdgeWeights]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.nodes)

    def is_directed(self) -> bool:
        """Return whether the edges have a direction."""
        return self.directed

    def is_multigraph(self) -> bool:
        """Return whether there may be several edges between two vertices."""
        return self.multigraph

    @cached_property
    def names(self) -> Array:
        """The vertices as an object array (n,), which arrays can index."""
        names = np.empty(len(self.nodes), object)
        for i, node in enumerate(self.nodes):  # one by one: a tuple would be taken for a row
            names[i] = node
        return names

    def _neighbours(self) -> list[Mapping[Any, Any]]:
        """Return for each vertex its neighbours with the attributes of the edge, or in a multigraph of each key."""
        adjacency = dict(self.source.adjacency())
        return [adjacency[node] for node in self.nodes]

    # ------------------------------------------------------------------------------------------------- weights

    def read(self, attribute: Any) -> None:
        """Read the weights of that name now."""
        if attribute is not None and attribute not in self._weights:
            kinds, weights = self._read(attribute)
            self._weights[attribute] = kinds, weights

    def weights(self, weight: Any, missing: type = int) -> EdgeWeights:
        """Return the weights by an attribute's name, or a function (u, v, attributes) → weight; 1 each for None.

        An edge without the attribute weighs 1, of the type ``missing``. Hidden edges, of weight None, are left out; of
        parallel edges the lightest counts.
        """
        if weight is None:
            return EdgeWeights(missing.__name__, self.rows, self.columns, np.ones(self.rows.size, np.int64))
        if callable(weight):
            return self._called(weight)
        self.read(weight)
        kinds, weights = self._weights[weight]
        if _Missing not in kinds or weights.kind == "other":
            return weights
        kind = missing.__name__ if kinds == {_Missing} else _kind((kinds - {_Missing}) | {missing})
        return replace(weights, kind=kind)

    def _called(self, weight: Callable[[Any, Any, Any], Any]) -> EdgeWeights:
        raw = [
            weight(node, neighbour, attributes)
            for node, neighbours in zip(self.nodes, self._neighbours(), strict=True)
            for neighbour, attributes in neighbours.items()
        ]
        return _as_weights(set(map(type, raw)), raw, self.rows, self.columns)

    def _read(self, attribute: Any) -> tuple[set[type], EdgeWeights]:
        entries: Iterable[Any] = chain.from_iterable(each.values() for each in self._neighbours())
        rows, columns = self.rows, self.columns
        stored = isinstance(getattr(self.source, "_adj", None), dict)  # not a view, of which both ways may differ
        once_only = not self.directed and stored
        if once_only:
            once = rows <= columns
            entries = compress(entries, once.tolist())
            rows, columns = rows[once], columns[once]
        if self.multigraph:
            raw, first = _parallel(entries, attribute)
        else:
            raw, first = [attributes.get(attribute, _MISSING) for attributes in entries], None
        kinds = set(map(type, raw))
        numbers = [1 if value is _MISSING else value for value in raw] if _Missing in kinds else raw
        weights = _as_weights(kinds - {_Missing}, numbers, rows, columns, first)
        if once_only:
            return kinds, _both_ways(weights)
        if self.directed:
            return kinds, weights
        return kinds, weights if _symmetric(weights) else replace(weights, kind="other", values=np.empty(0))


def _parallel(entries: Iterable[Any], attribute: Any) -> tuple[list[Any], Array]:
    """Return the weights of all edges of a multigraph, and where those of each pair of neighbours begin."""
    raw: list[Any] = []
    first: list[int] = []
    for edges in entries:
        first.append(len(raw))
        raw.extend(attributes.get(attribute, _MISSING) for attributes in edges.values())
    return raw, np.array(first, np.intp)


def _kind(kinds: set[type]) -> str:
    if kinds <= _INTS:
        return "int"
    if kinds <= _FLOATS:
        return "float"
    return "mixed" if kinds <= _INTS | _FLOATS else "other"


def _as_weights(
    kinds: set[type], raw: list[Any], rows: Array, columns: Array, first: Array | None = None
) -> EdgeWeights:
    """Return the weights of edges; ``first``: the start of the weights of each pair, if there may be several."""
    hidden = type(None) in kinds and first is None
    if hidden:
        has_value = np.fromiter((value is not None for value in raw), np.bool_, len(raw))
        rows, columns, raw, kinds = (
            rows[has_value],
            columns[has_value],
            [x for x in raw if x is not None],
            kinds - {type(None)},
        )
    kind = _kind(kinds)
    try:
        values = np.fromiter(raw if kind != "other" else [], np.int64 if kind == "int" else np.float64)
    except OverflowError:
        kind, values = "other", np.empty(0)
    if first is not None and kind != "other" and first.size:
        values = np.minimum.reduceat(values, first)
    return EdgeWeights(kind, rows, columns, values, hidden)


def _symmetric(weights: EdgeWeights) -> bool:
    """Return whether both directions have equal weights, which an undirected view of a directed graph may not have."""
    if weights.kind == "other":
        return True
    by_row, by_column = np.lexsort((weights.columns, weights.rows)), np.lexsort((weights.rows, weights.columns))
    return np.array_equal(weights.values[by_row], weights.values[by_column])


def _both_ways(weights: EdgeWeights) -> EdgeWeights:
    if weights.kind == "other":
        return weights
    rows, columns, values = weights.rows, weights.columns, weights.values
    other = rows != columns
    return EdgeWeights(
        weights.kind,
        np.concatenate([rows, columns[other]]),
        np.concatenate([columns, rows[other]]),
        np.concatenate([values, values[other]]),
        weights.has_hidden,
    )
