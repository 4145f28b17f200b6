"""Ask the NetworkX backend for answers about random graphs, on a device that its configuration names."""

from __future__ import annotations

from typing import Any

import networkx as nx

from _semiring_networkx import interface

#: Functions that read weights, and whole numbers of all sizes for them.
WEIGHTED = [
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path_length",
    "all_pairs_bellman_ford_path",
    "floyd_warshall",
    "floyd_warshall_predecessor_and_distance",
    "johnson",
]
WEIGHTS = [[1], [3, 1, 2], [0, 7, 40_000, 2], [2**40, 2**41]]


def graph(n: int, degree: float, directed: bool, weights: list[Any]) -> nx.Graph:
    """Return a random graph, whose edges have the weights in turn."""
    G = nx.gnp_random_graph(n, degree / n, seed=n, directed=directed)
    for at, (_, _, attributes) in enumerate(G.edges(data=True)):
        attributes["weight"] = weights[at % len(weights)]
    return G


def answer(name: str, G: nx.Graph, device: Any, **options: Any) -> Any:
    """Return what a function answers, generators as lists and graphs as sorted edges."""
    keys = {"weight": 1} if "weight" in options else None
    with nx.config.backends.semiring(device=device):
        found = getattr(interface, name)(interface.convert_from_nx(G, edge_attrs=keys), **options)
        found = list(found) if hasattr(found, "__next__") else found
    return sorted(found.edges) if isinstance(found, nx.Graph) else found
