"""What NetworkX loads when it first dispatches to this backend: the functions, the conversions, and who should run."""

from __future__ import annotations

from typing import Any

from semiring.compat.networkx.choice import can_run, should_run
from semiring.compat.networkx.graph import ConvertedGraph
from semiring.compat.networkx.measures import (
    average_shortest_path_length,
    center,
    closeness_centrality,
    diameter,
    eccentricity,
    global_efficiency,
    harmonic_centrality,
    harmonic_diameter,
    periphery,
    radius,
    wiener_index,
)
from semiring.compat.networkx.pairs import (
    all_pairs_bellman_ford_path,
    all_pairs_bellman_ford_path_length,
    all_pairs_dijkstra,
    all_pairs_dijkstra_path,
    all_pairs_dijkstra_path_length,
    all_pairs_shortest_path_length,
    floyd_warshall,
    floyd_warshall_numpy,
    floyd_warshall_predecessor_and_distance,
    johnson,
)
from semiring.compat.networkx.reachability import transitive_closure, transitive_closure_dag

__all__ = [
    "all_pairs_bellman_ford_path",
    "all_pairs_bellman_ford_path_length",
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path",
    "all_pairs_dijkstra_path_length",
    "all_pairs_shortest_path_length",
    "average_shortest_path_length",
    "can_run",
    "center",
    "closeness_centrality",
    "convert_from_nx",
    "convert_to_nx",
    "diameter",
    "eccentricity",
    "floyd_warshall",
    "floyd_warshall_numpy",
    "floyd_warshall_predecessor_and_distance",
    "global_efficiency",
    "harmonic_centrality",
    "harmonic_diameter",
    "johnson",
    "periphery",
    "radius",
    "should_run",
    "transitive_closure",
    "transitive_closure_dag",
    "wiener_index",
]


def convert_from_nx(
    graph: Any,
    *,
    edge_attrs: dict[str, Any] | None = None,
    node_attrs: dict[str, Any] | None = None,
    preserve_edge_attrs: bool = False,
    preserve_node_attrs: bool = False,
    preserve_graph_attrs: bool = False,
    name: str | None = None,
    graph_name: str | None = None,
) -> ConvertedGraph:
    """The vertices, the edges and the weights ``edge_attrs`` of a NetworkX graph as arrays; O(n + m) in Python."""
    if isinstance(graph, ConvertedGraph):
        return graph
    if not hasattr(graph, "adjacency"):
        raise NotImplementedError(f"{type(graph).__name__} is no graph")
    converted = ConvertedGraph(graph)
    for attribute in edge_attrs or ():
        converted.read(attribute)
    return converted


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """The NetworkX graph that a graph was converted from; results are NetworkX's already."""
    return result.source if isinstance(result, ConvertedGraph) else result
