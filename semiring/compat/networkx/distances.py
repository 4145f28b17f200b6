"""Compute distances between all pairs of a converted graph, and NetworkX's dictionaries of them.

Cases that are not supported raise NotImplementedError. NetworkX then runs its own function, which may raise its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.predecessors import predecessors
from semiring.arrays.encoding import inner_zero
from semiring.arrays.zero_conventions import trust_zeros
from semiring.closures import closure, closure_with_predecessors
from semiring.compat.networkx.graph import ConvertedGraph, EdgeWeights, device_for
from semiring.errors import DTypeError, IntegerOverflowError, NegativeCycleError
from semiring.kernels.engine import engine_of, make_plan
from semiring.namespaces import Array
from semiring.thread_counts import get_threads

__all__ = [
    "Distances",
    "check_weights",
    "close_in_place",
    "distances",
    "floyd_warshall_by_edges",
    "hops",
    "reject_function",
    "search_distances",
    "weighted_matrix",
]

_EXACT_FLOAT = 2**53  # whole numbers below it are exact in float64


@dataclass(frozen=True)
class Distances:
    """All distances (n, n) of a graph, as Python's ints if ``is_whole``, else as floats.

    ``none`` means no path, and is greater than every distance. ``predecessors``: None if not requested, or (n, n)
    int32, the vertex before j on the path from i, negative for none.
    """

    graph: ConvertedGraph
    matrix: Array
    none: Any
    is_whole: bool
    predecessors: Array | None = None

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def is_connected(self) -> bool:
        """Whether every vertex reaches every other vertex."""
        return not self.matrix.size or bool(self.matrix.max() != self.none)

    def as_number(self, value: Any) -> int | float:
        """Return a distance as Python's number; for floats, a path without edges has the int 0."""
        return int(value) if self.is_whole or value == 0 else float(value)

    def rows(self, cutoff: Any = None) -> Iterator[tuple[Any, dict[Any, int | float]]]:
        """Yield (vertex, {reached: distance}) for every vertex; keys ascend by distance, the vertex itself first."""
        for i, node in enumerate(self.graph.nodes):
            yield node, self._lengths(i, self._vertices_by_distance(i, cutoff))

    def paths(self) -> Iterator[tuple[Any, dict[Any, int | float], dict[Any, list[Any]]]]:
        """Yield (vertex, {reached: distance}, {reached: path}) for every vertex, in the order of `rows`."""
        assert self.predecessors is not None
        nodes = self.graph.nodes
        for i, node in enumerate(nodes):
            order = self._vertices_by_distance(i)
            reached = order.tolist()
            result = self._paths(i, reached, self.predecessors[i].tolist())
            yield node, self._lengths(i, order), {nodes[j]: result[j] for j in reached}

    def _lengths(self, i: int, order: Array) -> dict[Any, int | float]:
        values = self.matrix[i, order].tolist()
        values[0] = 0
        return dict(zip(self.graph.names[order].tolist(), values, strict=True))

    def _vertices_by_distance(self, i: int, cutoff: Any = None) -> Array:
        """Return the vertices that vertex i reaches within the ``cutoff``, by distance, and vertex i first."""
        row = self.matrix[i]
        order: Array = row.argsort()
        sorted_row = row[order]
        reached = int(sorted_row.searchsorted(self.none))
        if cutoff is not None:
            reached = min(reached, int(sorted_row.searchsorted(cutoff, side="right")))
        order = order[:reached]
        if reached and order[0] == i:
            return order
        # The vertex i is not the first one for ties, for negative distances and for a cutoff below 0.
        return np.concatenate([[i], order[order != i]])

    def _paths(self, i: int, order: list[int], predecessors: list[int]) -> dict[int, list[Any]]:
        nodes = self.graph.nodes
        result = {i: [nodes[i]]}
        for j in order:
            waiting = []
            while j not in result:  # edges of weight 0 lead to vertices that are no farther
                waiting.append(j)
                j = predecessors[j]
            for j in reversed(waiting):
                result[j] = [*result[predecessors[j]], nodes[j]]
        return result


@cache
def floyd_warshall_by_edges() -> bool:
    """Return whether NetworkX is older than 3.7, so that floyd_warshall goes edge by edge, with default weight 1.0.

    From 3.7 on it goes from vertex to vertex, an edge without a weight counts the int 1, and no loop is a distance.
    """
    from networkx import __version__

    return tuple(int(number) for number in re.findall(r"\d+", __version__)[:2]) < (3, 7)


def hops(graph: ConvertedGraph) -> Distances:
    """Return the distances where every edge counts 1."""
    n = len(graph)
    dtype = np.dtype(np.int16 if n < 1 << 13 else np.int32)  # paths fit the half of the range that closures use
    none = min_plus.zero_for(dtype)
    D = np.full((n, n), none, dtype)
    D[graph.rows, graph.columns] = 1
    return Distances(graph, close_in_place(D), none, True)


def close_in_place(D: Array) -> Array:
    """Overwrite D with D* in min-plus, on a GPU if `device_for` says so, and return it."""
    with trust_zeros():
        result: Array = closure(D, out=D, device=device_for("distances", len(D)))
    return result


def _close_with_predecessors(A: Array) -> tuple[Array, Array]:
    """Return A* in min-plus and the predecessors, (n, n) each.

    A GPU finds distances only. The CPU finds the predecessors from them, so both devices return the same one of several
    paths of equal length. Weights below 0 are compared under potentials, so then a CPU closes the matrix.
    """
    device = device_for("predecessors", len(A))
    with trust_zeros():
        if device is None or A.min(initial=0) < 0:
            return closure_with_predecessors(A, min_plus)
        D, none = closure(A, device=device), inner_zero(min_plus, A.dtype)  # no sum of two such integers wraps
    plan = make_plan(min_plus, A.dtype, nonnegative=True, threads=get_threads())
    return D, predecessors(engine_of(plan, D).backend, plan, np.minimum(D, none), np.minimum(A, none))


def distances(
    graph: ConvertedGraph,
    weight: Any,
    *,
    default_type: type = int,
    may_be_negative: bool = False,
    may_hide_edges: bool = False,
    needs_paths: bool = False,
    uses_searches: bool = False,
    reverse: bool = False,
) -> Distances:
    """Return the distances by a weight, as NetworkX names it.

    ``may_be_negative``: weights of both signs are supported. ``may_hide_edges``: the weight None may hide edges, which
    only Dijkstra's algorithm supports. ``default_type``: the type of the 1 that an edge without a weight counts.
    ``needs_paths``: predecessors are found too. ``uses_searches``: weights are ≥ 0, and sums of floats are those of
    NetworkX's searches to the last bit. ``reverse``, without paths: row i has the distances to vertex i. Raises
    `DTypeError` for weights that are text.
    """
    if weight is None and default_type is int and not needs_paths:
        found = hops(graph)
        return replace(found, matrix=found.matrix.T) if reverse else found
    weights = graph.weights(weight, default_type)
    if weights.kind == "mixed":
        raise NotImplementedError(f"the weights {quote(weight)} are not of one type, all int or all float")
    largest = check_weights(graph, weight, weights, may_be_negative=may_be_negative, may_hide_edges=may_hide_edges)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if weights.kind == "int" and largest < 2**30:
        dtype = np.dtype(np.int16 if largest < 2**14 else np.int32)
    if uses_searches and not (largest < _EXACT_FLOAT and bool((weights.values == np.rint(weights.values)).all())):
        ends = (weights.columns, weights.rows) if reverse else (weights.rows, weights.columns)
        return Distances(graph, search_distances(len(graph), weights.values, *ends), np.inf, False)
    try:
        found = _solve(graph, weights, dtype, needs_paths)
        return replace(found, matrix=found.matrix.T) if reverse else found
    except NegativeCycleError as error:
        named_cycle = error.named(graph.nodes)
        raise NotImplementedError(f"NetworkX computes the result for this graph: {named_cycle}") from named_cycle


def check_weights(
    graph: ConvertedGraph,
    weight: Any,
    weights: EdgeWeights,
    *,
    may_be_negative: bool = False,
    may_hide_edges: bool = False,
) -> float:
    """Return a bound of the length of any path, below which sums of whole numbers are exact.

    Raises `DTypeError` for weights that are text, and `NotImplementedError` for others that are not supported.
    """
    if weights.text is not None:  # NetworkX fails too, without a name of the weights
        raise _text_error(weight, weights.text)
    if weights.kind == "other" or (weights.has_hidden and not may_hide_edges):
        raise NotImplementedError(f"the weights {quote(weight)} are not all int or float")
    low, high = (weights.values.min(), weights.values.max()) if weights.values.size else (0, 0)
    if low < 0 and not may_be_negative:
        raise NotImplementedError(f"a weight {quote(weight)} is negative, or NaN")
    largest = max(abs(float(low)), abs(float(high))) * (len(graph) + 1) * (4 if low < 0 else 1)  # 4: with potentials
    if not largest < (1e300 if weights.kind == "float" else _EXACT_FLOAT):
        raise NotImplementedError(f"a weight {quote(weight)} is not finite, or too large for exact sums")
    return largest


def search_distances(n: int, weights: Array, tails: Array, heads: Array, sources: Any = None) -> Array:
    """Return the distances (p, n) from sources, or from all vertices, by Dijkstra's algorithm.

    It adds up each path from its source on, as NetworkX. A closure adds the parts of a path in another order. Rounding
    never makes a sum of weights ≥ 0 less than its first term, and it never reverses the order of two sums. So the least
    sum does not depend on the order of the vertices.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    result: Array = dijkstra(csr_array((weights, (tails, heads)), shape=(n, n)), indices=sources)
    return result


def _solve(graph: ConvertedGraph, weights: EdgeWeights, dtype: np.dtype[Any], needs_paths: bool) -> Distances:
    n, is_whole = len(graph), weights.kind == "int"
    none = min_plus.zero_for(dtype)
    P = None
    if needs_paths:
        A = weights.matrix(n, dtype, none)
        loops = np.arange(n)
        A[loops, loops] = np.minimum(A[loops, loops], 0)
        D, P = _close_with_predecessors(A)
    elif dtype.kind == "f" and device_for("distances", n) is None:
        from scipy.sparse import coo_array

        stored = coo_array((weights.values.astype(dtype), (weights.rows, weights.columns)), shape=(n, n))
        with trust_zeros():
            D = closure(stored, min_plus)
    else:
        D = weights.matrix(n, dtype, none)
        try:
            D = close_in_place(D)
        except IntegerOverflowError as error:
            raise NotImplementedError("distances too long for their dtype") from error
    if is_whole and dtype.kind == "f":
        unreached, none = np.isinf(D), np.iinfo(np.int64).max
        D[unreached] = 0
        D = D.astype(np.int64)
        D[unreached] = none
    return Distances(graph, D, none, is_whole, P)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_error(weight: Any, text: str) -> DTypeError:
    return DTypeError(
        f"the weights {quote(weight)} of the graph hold text, such as {quote(text, 40)}; expected numbers: "
        f"convert each by float(attributes[{quote(weight)}]), or pass the name of another weight"
    )


def reject_function(weight: Any) -> None:
    """Raise `NotImplementedError` for a function, which floyd_warshall reads as an attribute that no edge has."""
    if callable(weight):
        raise NotImplementedError("floyd_warshall reads a function as the name of an attribute")


def weighted_matrix(graph: ConvertedGraph, weight: Any) -> Array:
    """Return the weights as float64 (n, n), with 0 on the diagonal and ∞ for no edge, for numbers of any type."""
    weights = graph.weights(weight, float)
    if weights.text is not None and not _is_number(weights.text):  # NumPy converts numbers, and fails for other text
        raise _text_error(weight, weights.text)
    if weights.kind == "other" or weights.has_hidden:
        raise NotImplementedError(f"the weights {quote(weight)} are not all int or float")
    D = weights.matrix(len(graph), np.float64, np.inf)
    if D.diagonal().min(initial=0) < 0:
        raise NotImplementedError("a loop of negative weight: an error from NetworkX 3.7 on, and ignored before")
    D.reshape(-1)[:: len(graph) + 1] = 0
    if not D.min(initial=0) > -np.inf:
        raise NotImplementedError(f"a weight {quote(weight)} is NaN or -inf")
    return D
