"""Compute the functions of NetworkX that return distances, paths, or a graph of the pairs with a path between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from semiring.algebra.catalogue import boolean
from semiring.arrays.bits import BitMatrix
from semiring.closures import closure
from semiring.compat.networkx.distances import (
    Distances,
    close_in_place,
    distances,
    floyd_warshall_by_edges,
    hops,
    reject_function,
    weighted_matrix,
)
from semiring.compat.networkx.graph import ConvertedGraph, device_for
from semiring.errors import NegativeCycleError
from semiring.namespaces import Array

__all__ = [
    "all_pairs_bellman_ford_path",
    "all_pairs_bellman_ford_path_length",
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path",
    "all_pairs_dijkstra_path_length",
    "all_pairs_shortest_path_length",
    "floyd_warshall",
    "floyd_warshall_numpy",
    "floyd_warshall_predecessor_and_distance",
    "johnson",
    "transitive_closure",
    "transitive_closure_dag",
]


def _infinity() -> float:
    return float("inf")


def floyd_warshall_numpy(G: ConvertedGraph, nodelist: Any = None, weight: Any = "weight") -> Array:
    """Compute `networkx.floyd_warshall_numpy` of a converted graph."""
    reject_function(weight)
    D = weighted_matrix(G, weight)
    if nodelist is not None:
        if not (len(nodelist) == len(G) == len(set(nodelist))) or set(nodelist) != set(G.nodes):
            raise NotImplementedError("nodelist is not a permutation of the vertices")
        index = {node: i for i, node in enumerate(G.nodes)}
        order = [index[node] for node in nodelist]
        D = D[np.ix_(order, order)]
    try:
        return close_in_place(D)
    except NegativeCycleError as error:
        raise NotImplementedError("there is a negative cycle: NetworkX returns the result of its loop") from error


def floyd_warshall(G: ConvertedGraph, weight: Any = "weight") -> dict[Any, Any]:
    """Compute `networkx.floyd_warshall`: {source: {target: distance}}, ∞ where there is no path."""
    return _distance_dicts(_floyd_warshall_distances(G, weight, needs_paths=False), weight)


def floyd_warshall_predecessor_and_distance(G: ConvertedGraph, weight: Any = "weight") -> tuple[dict[Any, Any], ...]:
    """Compute `networkx.floyd_warshall_predecessor_and_distance`: {source: {target: predecessor}}, then distances."""
    result = _floyd_warshall_distances(G, weight, needs_paths=True)
    assert result.predecessors is not None
    nodes, before = G.nodes, result.predecessors
    loops = set(G.rows[G.rows == G.columns].tolist())  # where an edge v → v is a path from v to v
    predecessors = {}
    ends = G.rows if G.directed else np.column_stack([G.rows, G.columns]).reshape(-1)
    order = ends if floyd_warshall_by_edges() else np.unique(ends)
    for i in dict.fromkeys(order.tolist()):  # outer keys in NetworkX's order
        node, reached = nodes[i], np.flatnonzero(before[i] >= 0).tolist()
        row = {nodes[j]: nodes[p] for j, p in zip(reached, before[i, reached].tolist(), strict=True)}
        if i in loops:
            row[node] = node
        if row:
            predecessors[node] = row
    return predecessors, _distance_dicts(result, weight)


def _floyd_warshall_distances(G: ConvertedGraph, weight: Any, *, needs_paths: bool) -> Distances:
    reject_function(weight)
    return distances(
        G,
        weight,
        default_type=float if floyd_warshall_by_edges() else int,
        may_be_negative=True,
        needs_paths=needs_paths,
    )


def _distance_dicts(result: Distances, weight: Any) -> dict[Any, Any]:
    """Return {source: {target: distance}} with ∞ for no path. As in NetworkX, a missing key has the value ∞."""
    nodes, infinity = result.graph.nodes, float("inf")
    own = [0 if result.is_whole else 0.0] * len(nodes)
    for i in _vertices_without_zero_loop(result.graph, weight):
        own[i] = 0
    rows = {}
    unreached = result.is_whole and not result.is_connected
    for i, (node, values) in enumerate(zip(nodes, result.matrix.tolist(), strict=True)):
        if unreached:
            for j in np.flatnonzero(result.matrix[i] == result.none).tolist():
                values[j] = infinity
        values[i] = own[i]
        rows[node] = defaultdict(_infinity, zip(nodes, values, strict=True))
    return rows


def _vertices_without_zero_loop(G: ConvertedGraph, weight: Any) -> list[int]:
    """Return the vertices whose distance from themselves is the int 0, because they have no loop of weight 0.0."""
    if not floyd_warshall_by_edges():
        return list(range(len(G)))
    weights = G.weights(weight, float)
    loop = (weights.rows == weights.columns) & (weights.values == 0)
    if not loop.any():
        return list(range(len(G)))
    vertices: list[int] = np.setdiff1d(np.arange(len(G)), weights.rows[loop]).tolist()
    return vertices


def all_pairs_shortest_path_length(G: ConvertedGraph, cutoff: Any = None) -> Iterator[tuple[Any, dict[Any, int]]]:
    """Compute `networkx.all_pairs_shortest_path_length` of a converted graph."""
    # NetworkX enters a level if the cutoff is above the preceding level, so 2.5 admits the third level.
    return hops(G).rows(None if cutoff is None else np.ceil(cutoff))  # type: ignore[return-value]


def all_pairs_dijkstra_path_length(
    G: ConvertedGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Compute `networkx.all_pairs_dijkstra_path_length` of a converted graph."""
    result = distances(G, weight, may_hide_edges=True)
    if cutoff is not None and not result.is_whole:
        raise NotImplementedError("rounding might put a distance on the other side of the cutoff")
    return result.rows(cutoff)


def all_pairs_bellman_ford_path_length(
    G: ConvertedGraph, weight: Any = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Compute `networkx.all_pairs_bellman_ford_path_length` of a converted graph."""
    return _signed_distances(G, weight).rows()


def all_pairs_dijkstra(
    G: ConvertedGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, tuple[dict[Any, Any], dict[Any, list[Any]]]]]:
    """Compute `networkx.all_pairs_dijkstra` of a converted graph."""
    result = _distances_with_paths(G, weight, cutoff)
    return ((node, (lengths, paths)) for node, lengths, paths in result.paths())


def all_pairs_dijkstra_path(
    G: ConvertedGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, dict[Any, list[Any]]]]:
    """Compute `networkx.all_pairs_dijkstra_path` of a converted graph."""
    result = _distances_with_paths(G, weight, cutoff)
    return ((node, paths) for node, _, paths in result.paths())


def all_pairs_bellman_ford_path(
    G: ConvertedGraph, weight: Any = "weight"
) -> Iterator[tuple[Any, dict[Any, list[Any]]]]:
    """Compute `networkx.all_pairs_bellman_ford_path` of a converted graph."""
    return ((node, paths) for node, _, paths in _signed_distances(G, weight, needs_paths=True).paths())


def johnson(G: ConvertedGraph, weight: Any = "weight") -> dict[Any, dict[Any, list[Any]]]:
    """Compute `networkx.johnson` of a converted graph."""
    return {node: paths for node, _, paths in _signed_distances(G, weight, needs_paths=True).paths()}


def _signed_distances(G: ConvertedGraph, weight: Any, *, needs_paths: bool = False) -> Distances:
    """Return the distances by weights of both signs.

    Raises the error of NetworkX for a negative cycle, with its vertices.
    """
    try:
        return distances(G, weight, may_be_negative=True, needs_paths=needs_paths)
    except NotImplementedError as error:
        if not isinstance(error.__cause__, NegativeCycleError):
            raise
        from networkx import NetworkXUnbounded

        result = error.__cause__
        around = " → ".join(str(node) for node in (*result.names, *result.names[:1]))
        raise NetworkXUnbounded(f"Negative cycle detected: {around or result}") from None


def _distances_with_paths(G: ConvertedGraph, weight: Any, cutoff: Any) -> Distances:
    if cutoff is not None:
        raise NotImplementedError("paths within a cutoff are found by searches that stop there")
    return distances(G, weight, may_hide_edges=True, needs_paths=True)


_ENTRIES = 1 << 20  # entries of the matrix that are listed at a time


def transitive_closure(G: ConvertedGraph, reflexive: Any = False) -> Any:
    """Compute `networkx.transitive_closure`: a copy of the graph, with an edge wherever there is a path.

    ``reflexive``: loops at all vertices (True), at those on a directed cycle (False), or no new ones (None).
    """
    if reflexive is not None and type(reflexive) is not bool:
        raise NotImplementedError("NetworkX raises its own error for this value of reflexive")
    reachable = _close_edges(G, cycles=reflexive is False and G.directed)
    if reflexive is None or not G.directed:
        reachable = reachable & ~_loop_matrix(G)
    return _add_edges(G, reachable | _loop_matrix(G) if reflexive is True else reachable)


def transitive_closure_dag(G: ConvertedGraph, topo_order: Any = None) -> Any:
    """Compute `networkx.transitive_closure_dag` of a converted graph."""
    if topo_order is not None:
        _check_order(G, list(topo_order))
    reachable = _close_edges(G, cycles=True)
    if (reachable & _loop_matrix(G)).count():
        raise NotImplementedError("there is a cycle, for which NetworkX raises its own error")
    return _add_edges(G, reachable)


def _check_order(G: ConvertedGraph, order: list[Any]) -> None:
    """Raise `NotImplementedError` unless the order lists every vertex once, before the heads of its edges."""
    position = {node: i for i, node in enumerate(order)}
    if len(order) != len(G) or position.keys() != set(G.nodes):
        raise NotImplementedError("topo_order does not list the vertices")
    positions = np.array([position[node] for node in G.nodes], np.intp)
    if (positions[G.rows] >= positions[G.columns]).any():
        raise NotImplementedError("topo_order is not a topological order")


def _close_edges(G: ConvertedGraph, *, cycles: bool) -> BitMatrix:
    """Return a matrix (n, n) of the pairs with a path; with ``cycles``, a path from i to i must be a cycle."""
    device = device_for("reachability", len(G))
    return closure(_edge_matrix(G, G.rows, G.columns), boolean, reflexive=not cycles, device=device)


def _loop_matrix(G: ConvertedGraph) -> BitMatrix:
    vertices = np.arange(len(G))
    return _edge_matrix(G, vertices, vertices)


def _edge_matrix(G: ConvertedGraph, tails: Array, heads: Array) -> BitMatrix:
    return BitMatrix.from_edges(tails, heads, (len(G), len(G)))


def _add_edges(G: ConvertedGraph, reachable: BitMatrix) -> Any:
    """Return a copy of the NetworkX graph with the missing edges added."""
    copy, names = G.source.copy(), G.names
    for tails, heads in (reachable & ~_edge_matrix(G, G.rows, G.columns)).edges(_ENTRIES):
        if not G.directed:
            upper = tails <= heads
            tails, heads = tails[upper], heads[upper]
        copy.add_edges_from(zip(names[tails].tolist(), names[heads].tolist(), strict=True))
    return copy
