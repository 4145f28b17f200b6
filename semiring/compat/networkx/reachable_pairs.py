"""Compute the functions of NetworkX that return a graph of the pairs with a path between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.catalogue import boolean
from semiring.arrays.bits import BitMatrix
from semiring.closures import closure
from semiring.compat.networkx.graph import ConvertedGraph, device_for
from semiring.namespaces import Array

__all__ = ["transitive_closure", "transitive_closure_dag"]

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
