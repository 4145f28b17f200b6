"""Describe the backend ``semiring`` to NetworkX without loading NumPy.

NetworkX reads `get_info` of every installed backend when it is imported, and calls `interface.should_run` before every
call. Scripts that gain nothing must not pay for that. So this package is separate from `semiring`, and imports the
standard library only. The computations are in `semiring.compat.networkx`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FUNCTIONS", "get_info"]

_EXACT = "Equal to NetworkX's result"
_DISTANCES = "Weights of one type, all int or all float, finite; floats are right within n·ε."
_EXTREMES = f"{_EXACT}, to the last bit. Hops, or weights ≥ 0 of one type, all int or all float, finite."
_PATHS = f"{_DISTANCES} Of several shortest paths it may be another one."
_TIES = "The same paths. Hops, or finite weights above 0, int, float or both; with Bellman-Ford int."
_SHARES = "Hops or finite weights above 0, int, float or both; sums of the shares are right within n·ε."
_BY_DISTANCE = f"{_DISTANCES} Inner keys ascend by distance; `cutoff` is taken for int weights."

#: The functions of the backend, and the documentation that NetworkX adds to each.
FUNCTIONS: dict[str, str] = {
    "floyd_warshall": f"{_DISTANCES} Missing weights are 1.0, as there. Inner keys have the order of the graph.",
    "floyd_warshall_predecessor_and_distance": f"{_PATHS} Inner keys have the order of the graph.",
    "floyd_warshall_numpy": "Weights int, float or both, without NaN and -inf; right within n·ε.",
    "all_pairs_dijkstra": f"{_PATHS} Weights ≥ 0.",
    "all_pairs_dijkstra_path": f"{_PATHS} Weights ≥ 0.",
    "all_pairs_dijkstra_path_length": f"{_BY_DISTANCE} Weights ≥ 0.",
    "all_pairs_bellman_ford_path": _PATHS,
    "all_pairs_bellman_ford_path_length": _BY_DISTANCE,
    "all_pairs_shortest_path_length": f"{_EXACT}; inner keys ascend by distance.",
    "johnson": _PATHS,
    "all_shortest_paths": f"{_TIES} 0 is a valid weight. Paths are in lexicographic order of positions in the graph.",
    "single_source_all_shortest_paths": f"{_TIES} Keys ascend by distance, and the lists may have another order.",
    "all_pairs_all_shortest_paths": f"{_TIES} Inner keys ascend by distance, and the lists may have another order.",
    "shortest_simple_paths": "Weights ≥ 0, int, float or both, finite. Paths of equal weight may be in another order.",
    "transitive_closure": f"{_EXACT}. NetworkX counts it among the generators: NETWORKX_BACKEND_PRIORITY_GENERATORS.",
    "transitive_closure_dag": f"{_EXACT}. NetworkX counts it among the generators, as above.",
    "eccentricity": f"{_EXTREMES} Of all vertices, without `sp`.",
    "diameter": f"{_EXTREMES} Without `e` and `usebounds`.",
    "radius": f"{_EXTREMES} Without `e` and `usebounds`.",
    "center": f"{_EXTREMES} Without `e` and `usebounds`; by hops not of trees.",
    "periphery": f"{_EXTREMES} Without `e` and `usebounds`.",
    "harmonic_diameter": f"{_EXACT}. Hops or int weights; without `sp`.",
    "wiener_index": _DISTANCES,
    "average_shortest_path_length": f"{_DISTANCES} By every method.",
    "global_efficiency": f"{_EXACT}, to the last bit.",
    "closeness_centrality": f"{_EXTREMES} Of all vertices.",
    "harmonic_centrality": f"{_EXTREMES} Of all vertices.",
    "barycenter": f"{_EXTREMES} Without `attr` and `sp`; by hops not of trees.",
    "betweenness_centrality": f"{_SHARES} The same vertices are sampled.",
    "edge_betweenness_centrality": f"{_SHARES} The same vertices are sampled; not of multigraphs.",
}


def get_info() -> dict[str, Any]:
    """Return the entry point ``networkx.backend_info``."""
    return {
        "backend_name": "semiring",
        "project": "semiring",
        "package": "semiring",
        "short_summary": "Distances between all pairs and betweenness, compiled for this machine.",
        "description": "All pairs of vertices at once, as linear algebra over the (min, +) semiring.",
        # "auto", "cpu", "cuda", "cuda:1" or "cuda:*", see semiring.compat.networkx.graph.
        "default_config": {"device": "auto"},
        "functions": {name: {"additional_docs": text} for name, text in FUNCTIONS.items()},
    }
