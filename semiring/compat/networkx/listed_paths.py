"""Compute the functions of NetworkX that list several paths between two vertices: all shortest ones, or all in order.

An edge u → v is tight from a source s if d(s, u) + w(u, v) = d(s, v). Distances are sums from the source on, as
NetworkX's searches add them, so floats tie there and here. The shortest paths are the simple paths of tight edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from semiring.arrays.zero_conventions import trust_zeros
from semiring.compat.networkx.distances import check_weights, distances, search_distances
from semiring.compat.networkx.graph import ConvertedGraph, EdgeWeights
from semiring.namespaces import Array
from semiring.paths.k_shortest import k_shortest_paths
from semiring.paths.ties import list_paths, make_edges
from semiring.sparse.edge_inputs import SparseEntries

__all__ = [
    "all_pairs_all_shortest_paths",
    "all_shortest_paths",
    "shortest_simple_paths",
    "single_source_all_shortest_paths",
]

_METHODS = ("unweighted", "dijkstra", "bellman-ford")


def all_shortest_paths(
    G: ConvertedGraph, source: Any, target: Any, weight: Any = None, method: Any = "dijkstra"
) -> Iterator[list[Any]]:
    """Compute `networkx.all_shortest_paths` of a converted graph; paths are in lexicographic order of positions."""
    method = _check_method(weight, method)
    i, weights = _index_source(G, source, method), _read_weights(G, weight, method, may_be_zero=True)
    row = search_distances(len(G), weights.values, weights.rows, weights.columns, [i])[0]
    order = np.lexsort((weights.columns, weights.rows))
    tails, heads, values = (each[order] for each in (weights.rows, weights.columns, weights.values))
    mask = _find_tight(row, np.inf, tails, heads, values)
    return _name_paths(G, make_edges(len(G), tails[mask], heads[mask], values[mask]), i, target)


def _name_paths(G: ConvertedGraph, edges: SparseEntries, i: int, target: Any) -> Iterator[list[Any]]:
    """Yield the paths to the target. Raises NetworkX's error if there is none when the first is requested."""
    j, nodes, is_reached = _index(G, target), G.nodes, False
    for path in list_paths(edges, i, j) if j is not None else ():
        is_reached = True
        yield [nodes[vertex] for vertex in path]
    if not is_reached:
        from networkx import NetworkXNoPath

        raise NetworkXNoPath(f"Target {target} cannot be reached from given sources")


def single_source_all_shortest_paths(
    G: ConvertedGraph, source: Any, weight: Any = None, method: Any = "dijkstra"
) -> Iterator[tuple[Any, list[list[Any]]]]:
    """Compute `networkx.single_source_all_shortest_paths` of a converted graph, the nearest vertices first."""
    method = _check_method(weight, method)
    i, weights = _index_source(G, source, method), _read_weights(G, weight, method)
    into = _EdgesByHead(G, weights, weights.values)
    row = search_distances(len(G), weights.values, weights.rows, weights.columns, [i])[0]
    return into.list_paths(i, row, np.inf)


def all_pairs_all_shortest_paths(
    G: ConvertedGraph, weight: Any = None, method: Any = "dijkstra"
) -> Iterator[tuple[Any, dict[Any, list[list[Any]]]]]:
    """Compute `networkx.all_pairs_all_shortest_paths` of a converted graph."""
    weights = _read_weights(G, weight, _check_method(weight, method))
    found = distances(G, weight, uses_searches=True, may_hide_edges=True)
    into = _EdgesByHead(G, weights, weights.values.astype(found.matrix.dtype))
    rows = zip(G.nodes, found.matrix, strict=True)
    return ((node, dict(into.list_paths(i, row, found.none))) for i, (node, row) in enumerate(rows))


def _check_method(weight: Any, method: Any) -> str:
    """Return the search that NetworkX uses. Raises its `ValueError` for another one."""
    if weight is None:
        return "unweighted"
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(f"method not supported: {method}")
    return method


def _index(G: ConvertedGraph, node: Any) -> int | None:
    """Return the number of a vertex, or None if the graph does not have it."""
    if node not in G.source:
        return None
    return next(i for i, each in enumerate(G.nodes) if each is node or each == node)


def _index_source(G: ConvertedGraph, source: Any, method: str) -> int:
    i = _index(G, source)
    if i is None:
        from networkx import NodeNotFound

        text = "Source {} not in G" if method == "unweighted" else "Node {} is not found in the graph"
        raise NodeNotFound(text.format(source))
    return i


def _numeric_weights(G: ConvertedGraph, weight: Any, *, may_hide_edges: bool) -> EdgeWeights:
    weights = G.weights(weight)
    if weights.text is not None:
        raise NotImplementedError("a weight is text, which a search may not reach")
    check_weights(G, weight, weights, may_hide_edges=may_hide_edges)
    return weights


def _read_weights(G: ConvertedGraph, weight: Any, method: str, *, may_be_zero: bool = False) -> EdgeWeights:
    """Return weights whose tight edges are those of NetworkX; raise `NotImplementedError` for others."""
    weights = _numeric_weights(G, weight, may_hide_edges=method == "dijkstra")
    low = weights.values.min(initial=1)
    rounding = 0 if weights.kind == "int" else weights.values.max(initial=0) * len(G) * 2.0**-52
    if low <= rounding and not (may_be_zero and method == "dijkstra"):
        raise NotImplementedError("an edge that does not change a distance may lie on cycles of shortest paths")
    if method == "bellman-ford" and weights.kind != "int":
        raise NotImplementedError("the Bellman-Ford algorithm may round sums of floats on the way to the shortest")
    return weights


def _find_tight(row: Array, none: Any, tails: Array, heads: Array, weights: Array) -> Array:
    """Return a mask of the edges that are tight for the distances ``row`` (n,) from a source."""
    before = row[tails]
    tight: Array = (before != none) & (before + weights == row[heads])
    return tight


class _EdgesByHead:
    """Edges of weights above 0, sorted by their heads, which list the shortest paths from a source."""

    def __init__(self, G: ConvertedGraph, weights: EdgeWeights, values: Array) -> None:
        order = np.lexsort((weights.rows, weights.columns))
        self.tails, self.heads, self.values = weights.rows[order], weights.columns[order], values[order]
        self.nodes = G.nodes

    def list_paths(self, i: int, row: Array, none: Any) -> Iterator[tuple[Any, list[list[Any]]]]:
        """Yield (vertex, its shortest paths) for all vertices that vertex i reaches, by ascending distance.

        The paths to a vertex are those to the tails of its tight edges, which are nearer, each with the vertex added.
        """
        nodes = self.nodes
        tight = _find_tight(row, none, self.tails, self.heads, self.values)
        tails = self.tails[tight].tolist()
        ends = np.cumsum(np.bincount(self.heads[tight], minlength=len(nodes))).tolist()
        order = np.argsort(row, kind="stable")
        reached = order[: np.count_nonzero(row != none)].tolist()
        paths = {i: [[nodes[i]]]}
        yield nodes[i], [[nodes[i]]]
        for j in reached:
            if j == i:
                continue
            node = nodes[j]
            before = tails[ends[j - 1] if j else 0 : ends[j]]
            paths[j] = [[*path, node] for u in before for path in paths[u]]
            yield node, [*paths[j]]


def shortest_simple_paths(G: ConvertedGraph, source: Any, target: Any, weight: Any = None) -> Iterator[list[Any]]:
    """Compute `networkx.shortest_simple_paths` of a converted graph, with weights."""
    if weight is None:
        raise NotImplementedError("the order of paths with equally many edges is that of NetworkX's searches")
    return _list_in_order(G, source, target, _numeric_weights(G, weight, may_hide_edges=True))


def _list_in_order(G: ConvertedGraph, source: Any, target: Any, weights: EdgeWeights) -> Iterator[list[Any]]:
    """Yield the simple paths in order. Raises NetworkX's errors when the first is requested."""
    from networkx import NetworkXNoPath, NodeNotFound
    from scipy.sparse import csr_array

    i, j, nodes, is_reached = _index(G, source), _index(G, target), G.nodes, False
    if i is None or j is None:
        end, node = ("source", source) if i is None else ("target", target)
        raise NodeNotFound(f"{end} node {node} not in graph")
    A = csr_array((weights.values.astype(np.float64), (weights.rows, weights.columns)), shape=(len(G),) * 2)
    with trust_zeros():
        found = k_shortest_paths(A, i, j, check=False)
    for _, path in found:
        is_reached = True
        yield [nodes[vertex] for vertex in path]
    if not is_reached:
        raise NetworkXNoPath(f"No path between {source} and {target}.")
