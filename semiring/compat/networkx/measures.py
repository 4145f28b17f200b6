"""Compute the functions of NetworkX that reduce all distances to one number, or to a number for each vertex."""

from __future__ import annotations

from math import fsum, inf, nan
from typing import Any

import numpy as np

from semiring.compat.networkx.all_pairs import floyd_warshall_numpy
from semiring.compat.networkx.distances import Distances, distances, floyd_warshall_by_edges, hops, reject_function
from semiring.compat.networkx.graph import ConvertedGraph
from semiring.namespaces import Array

__all__ = [
    "average_shortest_path_length",
    "center",
    "closeness_centrality",
    "diameter",
    "eccentricity",
    "global_efficiency",
    "harmonic_centrality",
    "harmonic_diameter",
    "periphery",
    "radius",
    "wiener_index",
]


def _network_error(message: str) -> Exception:
    from networkx import NetworkXError

    error: Exception = NetworkXError(message)
    return error


def _exact_distances(G: ConvertedGraph, weight: Any) -> Distances:
    """Return distances whose sums have no rounding; raise `NotImplementedError` for distances of floats."""
    result = distances(G, weight)
    if not result.is_whole:
        raise NotImplementedError("distances of floats may differ from NetworkX's in the last bit")
    return result


# ----------------------------------------------------------------------------------------------------- extremes


def eccentricity(G: ConvertedGraph, v: Any = None, sp: Any = None, weight: Any = None) -> dict[Any, Any]:
    """Compute `networkx.eccentricity` of all vertices."""
    if v is not None or sp is not None or not len(G):  # no vertex: an error from NetworkX 3.7 on
        raise NotImplementedError("only the eccentricity of all vertices is computed, without given distances")
    result = distances(G, weight, uses_searches=True)
    if not result.is_connected:
        graph = "digraph is not strongly connected" if G.directed else "graph is not connected"
        raise _network_error(f"Found infinite path length because the {graph}")
    farthest = result.matrix.max(axis=1, initial=0)
    return {node: result.as_number(value) for node, value in zip(G.nodes, farthest.tolist(), strict=True)}


def diameter(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> Any:
    """Compute `networkx.diameter` of a converted graph."""
    return max(_find_eccentricities(G, e, usebounds, weight).values())


def radius(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> Any:
    """Compute `networkx.radius` of a converted graph."""
    return min(_find_eccentricities(G, e, usebounds, weight).values())


def periphery(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> list[Any]:
    """Compute `networkx.periphery` of a converted graph."""
    result = _find_eccentricities(G, e, usebounds, weight)
    most = max(result.values())
    return [node for node, value in result.items() if value == most]


def center(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> list[Any]:
    """Compute `networkx.center` of a converted graph."""
    if weight is None:
        _reject_tree(G)
    result = _find_eccentricities(G, e, usebounds, weight)
    least = min(result.values())
    return [node for node, value in result.items() if value == least]


def _find_eccentricities(G: ConvertedGraph, e: Any, usebounds: bool, weight: Any) -> dict[Any, Any]:
    if e is not None or (usebounds and not G.directed) or not len(G):
        raise NotImplementedError("NetworkX is faster with given eccentricities, or by bounds")
    return eccentricity(G, weight=weight)


def _reject_tree(G: ConvertedGraph) -> None:
    if not G.directed and G.rows.size <= 2 * (len(G) - 1):
        raise NotImplementedError("NetworkX finds the center of a tree in linear time, in another order")


# --------------------------------------------------------------------------------------------------------- sums


def _sum_distances(result: Distances) -> int | float:
    if result.is_whole:
        return int(result.matrix.sum(dtype=np.int64))
    return fsum(result.matrix.reshape(-1).tolist())


def wiener_index(G: ConvertedGraph, weight: Any = None) -> int | float:
    """Compute `networkx.wiener_index` of a converted graph."""
    if not len(G):
        raise NotImplementedError("NetworkX has an error for the graph without vertices")
    result = distances(G, weight)
    if not result.is_connected:
        return inf
    total = _sum_distances(result)
    if not G.directed:
        return total / 2
    return int(total) if len(G) == 1 else total  # without edges NetworkX sums nothing, which is the int 0


_METHODS = (None, "unweighted", "dijkstra", "bellman-ford", "floyd-warshall", "floyd-warshall-numpy")


def average_shortest_path_length(G: ConvertedGraph, weight: Any = None, method: Any = None) -> float:
    """Compute `networkx.average_shortest_path_length` of a converted graph."""
    n = len(G)
    if n < 2 or method not in _METHODS:
        raise NotImplementedError("NetworkX has an answer without paths")
    if method == "floyd-warshall-numpy":
        result = Distances(G, floyd_warshall_numpy(G, weight=weight), np.inf, False)
        if not result.is_connected:
            raise NotImplementedError("edges of weight ∞ may connect what distances do not")
    elif method == "floyd-warshall":
        reject_function(weight)
        result = distances(G, weight, default_type=float if floyd_warshall_by_edges() else int, may_be_negative=True)
    else:
        result = distances(G, None if method == "unweighted" else weight, may_be_negative=method == "bellman-ford")
    if not result.is_connected:
        raise _network_error(f"Graph is not {'strongly ' if G.directed else ''}connected.")
    total = float(result.matrix.sum()) if method == "floyd-warshall-numpy" else _sum_distances(result)
    return total / (n * (n - 1))


def _reciprocals(result: Distances, i: int) -> Array:
    """Return 1 / d (n,) for all distances d > 0 of vertex i, and 0.0 for other vertices, which changes no sum."""
    row = result.matrix[i]
    proper = (row > 0) & (row != result.none)
    reciprocals: Array = np.divide(1.0, row, out=np.zeros(row.size), where=proper)
    return reciprocals


def _sum_of_reciprocals(result: Distances) -> float:
    """Return Σ 1 / d in NetworkX's order, vertex by vertex, by ascending distance: bitwise identical to its result."""
    total = 0.0
    for i in range(len(result)):
        terms = np.sort(_reciprocals(result, i))[::-1]
        total = float(np.add.accumulate(np.concatenate([[total], terms]))[-1])
    return total


def global_efficiency(G: ConvertedGraph) -> float:
    """Compute `networkx.global_efficiency` of a converted graph."""
    n = len(G)
    if n < 2:
        return 0
    return _sum_of_reciprocals(hops(G)) / (n * (n - 1))


def harmonic_diameter(G: ConvertedGraph, sp: Any = None, *, weight: Any = None) -> float:
    """Compute `networkx.harmonic_diameter` of a converted graph."""
    if sp is not None:
        raise NotImplementedError("with given distances there is nothing to close")
    n, total = len(G), _sum_of_reciprocals(_exact_distances(G, weight))
    if total != 0:
        return n * (n - 1) / total
    return inf if n > 1 else nan


def closeness_centrality(
    G: ConvertedGraph, u: Any = None, distance: Any = None, wf_improved: bool = True, *, sp: Any = None
) -> dict[Any, float]:
    """Compute `networkx.closeness_centrality` of all vertices; NetworkX has ``sp`` from 3.7 on."""
    if u is not None or sp is not None:
        raise NotImplementedError("from one vertex a search is enough, and given distances need no search")
    result = _exact_distances(G, distance)
    n, reached = len(G), result.matrix != result.none
    sums = result.matrix.sum(axis=0, dtype=np.int64, where=reached).tolist()  # distances to each vertex
    counts = np.count_nonzero(reached, axis=0).tolist()
    centralities = {}
    for node, total, count in zip(G.nodes, sums, counts, strict=True):
        closeness = 0.0
        if total > 0 and n > 1:
            closeness = (count - 1.0) / total
            if wf_improved:
                closeness *= (count - 1.0) / (n - 1)
        centralities[node] = closeness
    return centralities


def harmonic_centrality(
    G: ConvertedGraph, nbunch: Any = None, distance: Any = None, sources: Any = None
) -> dict[Any, float]:
    """Compute `networkx.harmonic_centrality` of all vertices."""
    if nbunch is not None or sources is not None:
        raise NotImplementedError("for some vertices or sources, searches are enough")
    result = _exact_distances(G, distance)
    index = {node: i for i, node in enumerate(G.nodes)}
    everyone = set(G.nodes)  # the order in which NetworkX adds up, so that the rounding is the same
    sums = np.zeros(len(G))
    for node in everyone:
        sums += _reciprocals(result, index[node])
    return {node: sums[index[node]].item() or 0 for node in everyone}
