"""Compute the functions of NetworkX that reduce all distances to one number, or to a number for each vertex."""

from __future__ import annotations

from math import fsum, inf, nan
from typing import Any

import numpy as np

from semiring import centrality
from semiring.advice import quote
from semiring.arrays.zero_conventions import trust_zeros
from semiring.compat.networkx.all_pairs import floyd_warshall_numpy
from semiring.compat.networkx.distances import Distances, distances, floyd_warshall_by_edges, hops, reject_function
from semiring.compat.networkx.graph import ConvertedGraph
from semiring.namespaces import Array

__all__ = [
    "average_shortest_path_length",
    "barycenter",
    "betweenness_centrality",
    "center",
    "closeness_centrality",
    "diameter",
    "eccentricity",
    "edge_betweenness_centrality",
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


def barycenter(G: ConvertedGraph, weight: Any = None, attr: Any = None, sp: Any = None) -> list[Any]:
    """Compute `networkx.barycenter` of a converted graph."""
    if attr is not None or sp is not None or not len(G):
        raise NotImplementedError("with given distances or an attribute there is nothing to close")
    if weight is None:
        _reject_tree(G)
    result = distances(G, weight, uses_searches=True)
    if not result.is_connected:
        raise NotImplementedError("NetworkX raises its error for a graph that is not connected")
    sums = _sums_of_rows(result)
    least = min(sums)
    return [node for node, total in zip(G.nodes, sums, strict=True) if total == least]


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
    result = distances(G, distance, uses_searches=True, reverse=G.directed)
    n, counts = len(G), np.count_nonzero(result.matrix != result.none, axis=1).tolist()
    centralities = {}
    for node, total, count in zip(G.nodes, _sums_of_rows(result), counts, strict=True):
        closeness = 0.0
        if total > 0 and n > 1:
            closeness = (count - 1.0) / total
            if wf_improved:
                closeness *= (count - 1.0) / (n - 1)
        centralities[node] = closeness
    return centralities


def _sums_of_rows(result: Distances) -> list[Any]:
    """Return the sum of the distances in each row, of floats in NetworkX's order: bitwise identical to its result."""
    reached = result.matrix != result.none
    if result.is_whole:
        sums: list[Any] = result.matrix.sum(axis=1, dtype=np.int64, where=reached).tolist()
        return sums
    return [sum(np.sort(row[mask]).tolist()) for row, mask in zip(result.matrix, reached, strict=True)]


def harmonic_centrality(
    G: ConvertedGraph, nbunch: Any = None, distance: Any = None, sources: Any = None
) -> dict[Any, float]:
    """Compute `networkx.harmonic_centrality` of all vertices."""
    if nbunch is not None or sources is not None:
        raise NotImplementedError("for some vertices or sources, searches are enough")
    result = distances(G, distance, uses_searches=True)
    index = {node: i for i, node in enumerate(G.nodes)}
    everyone = set(G.nodes)  # the order in which NetworkX adds up, so that the rounding is the same
    sums = np.zeros(len(G))
    for node in everyone:
        sums += _reciprocals(result, index[node])
    return {node: sums[index[node]].item() or 0 for node in everyone}


# -------------------------------------------------------------------------------------------------- betweenness


def betweenness_centrality(
    G: ConvertedGraph,
    k: Any = None,
    normalized: bool = True,
    weight: Any = None,
    endpoints: bool = False,
    seed: Any = None,
) -> dict[Any, float]:
    """Compute `networkx.betweenness_centrality` of a converted graph."""
    A, _ = _lengths(G, weight, k)
    sources = _sample(G, None if k == len(G) else k, seed)
    normalized = bool(normalized)
    with trust_zeros():
        values = centrality.betweenness(A, normalized=normalized, endpoints=bool(endpoints), sources=sources)
    if not (normalized or G.directed) and len(G) - (not endpoints) >= 2:  # the matrix counted both directions
        values = values / 2
    return dict(zip(G.nodes, values.tolist(), strict=True))


def edge_betweenness_centrality(
    G: ConvertedGraph, k: Any = None, normalized: bool = True, weight: Any = None, seed: Any = None
) -> dict[Any, float]:
    """Compute `networkx.edge_betweenness_centrality` of a converted graph."""
    if G.multigraph:
        raise NotImplementedError("NetworkX divides the values among parallel edges")
    A, order = _lengths(G, weight, k)
    normalized = bool(normalized)
    with trust_zeros():
        found = centrality.edge_betweenness(A, normalized=normalized, sources=_sample(G, k, seed))
    sums = found.data if G.directed else found.data + found.T.tocsr().data
    values = np.empty(order.size)
    values[order] = sums / 2 if not (normalized or G.directed) and len(G) >= 2 else sums
    once = slice(None) if G.directed else G.rows <= G.columns
    ends = zip(G.rows[once].tolist(), G.columns[once].tolist(), values[once].tolist(), strict=True)
    return {(G.nodes[i], G.nodes[j]): value for i, j, value in ends}


def _lengths(G: ConvertedGraph, weight: Any, k: Any) -> tuple[Any, Array]:
    """Return the weights as a sparse matrix with sorted rows, and the order that sorts the edges of the graph."""
    from scipy.sparse import csr_array

    if not len(G) or (k is not None and not (isinstance(k, int) and 0 < k <= len(G))):
        raise NotImplementedError("NetworkX has an answer, or an error, without paths")
    weights = G.weights(weight)
    if weights.text is not None:
        raise NotImplementedError("the weights are text")
    values = weights.values
    if weights.kind == "other" or weights.has_hidden or values.size != G.rows.size:
        raise NotImplementedError(f"the weights {quote(weight)} are not all int or float")
    if not (values.size == 0 or (values.min() > 0 and values.max() * float(len(G)) < 2.0**60)):
        raise NotImplementedError(f"a weight {quote(weight)} is not above 0, or too large: NetworkX adds them")
    order = np.lexsort((weights.columns, weights.rows))  # weights list both directions in another order than the graph
    starts = np.searchsorted(weights.rows[order], np.arange(len(G) + 1))
    A = csr_array((values[order], weights.columns[order], starts), shape=(len(G), len(G)))
    return A, np.lexsort((G.columns, G.rows))


def _sample(G: ConvertedGraph, k: Any, seed: Any) -> list[int] | None:
    """Return the numbers of k vertices that NetworkX samples, or None for all."""
    if k is None:
        return None
    from networkx.utils import create_py_random_state

    index = {node: i for i, node in enumerate(G.nodes)}
    return [index[node] for node in create_py_random_state(seed).sample(list(G.nodes), k)]
