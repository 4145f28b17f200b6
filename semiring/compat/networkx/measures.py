"""The functions of NetworkX that sum up the distances between all pairs of vertices in a number, or one for each."""

from __future__ import annotations

from math import fsum, inf, nan
from typing import Any

import numpy as np

from semiring.compat.networkx.graph import Array, ConvertedGraph
from semiring.compat.networkx.pairs import floyd_warshall_numpy
from semiring.compat.networkx.solve import Distances, distances, floyd_warshall_by_edges, hops, named

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


def _exactly(G: ConvertedGraph, weight: Any) -> Distances:
    """Distances whose sums have no rounding that depends on an order."""
    found = distances(G, weight)
    if not found.whole:
        raise NotImplementedError("distances of floats may differ from NetworkX's in the last bit")
    return found


# ----------------------------------------------------------------------------------------------------- extremes


def eccentricity(G: ConvertedGraph, v: Any = None, sp: Any = None, weight: Any = None) -> dict[Any, Any]:
    """As `networkx.eccentricity`, of all vertices."""
    if v is not None or sp is not None or not len(G):  # no vertex: an error from NetworkX 3.7 on
        raise NotImplementedError("the eccentricity of all vertices, from no distances that are given")
    found = distances(G, weight, searched=True)
    if not found.connected:
        graph = "digraph is not strongly connected" if G.directed else "graph is not connected"
        raise _network_error(f"Found infinite path length because the {graph}")
    farthest = found.matrix.max(axis=1, initial=0)
    return {node: found.as_number(value) for node, value in zip(G.nodes, farthest.tolist(), strict=True)}


def diameter(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> Any:
    """As `networkx.diameter`."""
    return max(_eccentricities(G, e, usebounds, weight).values())


def radius(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> Any:
    """As `networkx.radius`."""
    return min(_eccentricities(G, e, usebounds, weight).values())


def periphery(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> list[Any]:
    """As `networkx.periphery`."""
    found = _eccentricities(G, e, usebounds, weight)
    most = max(found.values())
    return [node for node, value in found.items() if value == most]


def center(G: ConvertedGraph, e: Any = None, usebounds: bool = False, weight: Any = None) -> list[Any]:
    """As `networkx.center`."""
    if weight is None:
        _no_tree(G)
    found = _eccentricities(G, e, usebounds, weight)
    least = min(found.values())
    return [node for node, value in found.items() if value == least]


def _eccentricities(G: ConvertedGraph, e: Any, usebounds: bool, weight: Any) -> dict[Any, Any]:
    if e is not None or (usebounds and not G.directed) or not len(G):
        raise NotImplementedError("from eccentricities that are given, or by bounds, NetworkX has the better way")
    return eccentricity(G, weight=weight)


def _no_tree(G: ConvertedGraph) -> None:
    if not G.directed and G.rows.size <= 2 * (len(G) - 1):
        raise NotImplementedError("of a tree NetworkX finds it in linear time, in another order")


# --------------------------------------------------------------------------------------------------------- sums


def _total(found: Distances) -> int | float:
    if found.whole:
        return int(found.matrix.sum(dtype=np.int64))
    return fsum(found.matrix.reshape(-1).tolist())


def wiener_index(G: ConvertedGraph, weight: Any = None) -> int | float:
    """As `networkx.wiener_index`."""
    if not len(G):
        raise NotImplementedError("NetworkX has an error for the graph without vertices")
    found = distances(G, weight)
    if not found.connected:
        return inf
    total = _total(found)
    if not G.directed:
        return total / 2
    return int(total) if len(G) == 1 else total  # without edges a sum of nothing, which is the int 0


_METHODS = (None, "unweighted", "dijkstra", "bellman-ford", "floyd-warshall", "floyd-warshall-numpy")


def average_shortest_path_length(G: ConvertedGraph, weight: Any = None, method: Any = None) -> float:
    """As `networkx.average_shortest_path_length`."""
    n = len(G)
    if n < 2 or method not in _METHODS:
        raise NotImplementedError("NetworkX has an answer without paths")
    if method == "floyd-warshall-numpy":
        found = Distances(G, floyd_warshall_numpy(G, weight=weight), np.inf, False)
        if not found.connected:
            raise NotImplementedError("edges of weight ∞ may connect what distances do not")
    elif method == "floyd-warshall":
        named(weight)
        found = distances(G, weight, missing=float if floyd_warshall_by_edges() else int, negative=True)
    else:
        found = distances(G, None if method == "unweighted" else weight, negative=method == "bellman-ford")
    if not found.connected:
        raise _network_error(f"Graph is not {'strongly ' if G.directed else ''}connected.")
    total = float(found.matrix.sum()) if method == "floyd-warshall-numpy" else _total(found)
    return total / (n * (n - 1))


def _reciprocals(found: Distances, i: int) -> Array:
    """1 / d (n,) of all d > 0 that vertex i has, and 0.0 for others, which no sum notices."""
    row = found.matrix[i]
    proper = (row > 0) & (row != found.none)
    reciprocals: Array = np.divide(1.0, row, out=np.zeros(row.size), where=proper)
    return reciprocals


def _sum_of_reciprocals(found: Distances) -> float:
    """Σ 1 / d, added up as NetworkX does: vertex by vertex, by ascending distance. The same rounding, bit for bit."""
    total = 0.0
    for i in range(len(found)):
        terms = np.sort(_reciprocals(found, i))[::-1]
        total = float(np.add.accumulate(np.concatenate([[total], terms]))[-1])
    return total


def global_efficiency(G: ConvertedGraph) -> float:
    """As `networkx.global_efficiency`."""
    n = len(G)
    if n < 2:
        return 0
    return _sum_of_reciprocals(hops(G)) / (n * (n - 1))


def harmonic_diameter(G: ConvertedGraph, sp: Any = None, *, weight: Any = None) -> float:
    """As `networkx.harmonic_diameter`."""
    if sp is not None:
        raise NotImplementedError("from distances that are given there is nothing to close")
    n, total = len(G), _sum_of_reciprocals(_exactly(G, weight))
    if total != 0:
        return n * (n - 1) / total
    return inf if n > 1 else nan


def closeness_centrality(
    G: ConvertedGraph, u: Any = None, distance: Any = None, wf_improved: bool = True, *, sp: Any = None
) -> dict[Any, float]:
    """As `networkx.closeness_centrality`, of all vertices; ``sp`` is there from NetworkX 3.7 on."""
    if u is not None or sp is not None:
        raise NotImplementedError("from one vertex a search is enough, and given distances need none")
    found = _exactly(G, distance)
    n, reached = len(G), found.matrix != found.none
    sums = found.matrix.sum(axis=0, dtype=np.int64, where=reached).tolist()  # distances to it
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
    """As `networkx.harmonic_centrality`, of all vertices."""
    if nbunch is not None or sources is not None:
        raise NotImplementedError("of some vertices, or from some, searches are enough")
    found = _exactly(G, distance)
    index = {node: i for i, node in enumerate(G.nodes)}
    everyone = set(G.nodes)  # the order in which NetworkX adds up, so that the rounding is the same
    sums = np.zeros(len(G))
    for node in everyone:
        sums += _reciprocals(found, index[node])
    return {node: sums[index[node]].item() or 0 for node in everyone}
