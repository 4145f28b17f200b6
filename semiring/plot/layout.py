"""Compute positions of vertices without coordinates by NetworkX's layouts, from the edges alone."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.errors import MissingExtraError

__all__ = ["layout"]

Array: TypeAlias = np.ndarray[Any, Any]

_STRESS = 150  # the vertices up to which distances in the plane follow numbers of hops, which takes some seconds
_FORCES = 30_000_000  # pairs of vertices of all iterations of a larger layout, but of ten at least
_COMPONENT_GAP = 2  # hops between components, beyond the longest path


def layout(edges: Array) -> Array:
    """Return positions in the plane for the vertices of a graph without coordinates.

    Parameters
    ----------
    edges : array of bool, shape (n, n)
        Whether an edge leads from i to j. Directions are ignored.

    Returns
    -------
    array of float64, shape (n, 2)
        The positions x and y. The result is the same each time.

    Raises
    ------
    MissingExtraError
        If NetworkX is not installed.

    Notes
    -----
    The positions are those of `networkx.spring_layout` with a seed. Up to 150 vertices `networkx.kamada_kawai_layout`
    then brings distances in the plane near the numbers of hops, which takes some seconds.
    """
    try:
        import networkx as nx
    except ImportError:
        raise MissingExtraError("NetworkX", "plot", "a layout") from None
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n = len(edges)
    graph = nx.empty_graph(n)
    graph.add_edges_from(np.argwhere(edges).tolist())
    positions = nx.spring_layout(graph, seed=0, iterations=min(50, max(10, _FORCES // max(1, n) ** 2)))
    if n <= _STRESS:
        hops = np.asarray(shortest_path(csr_array(edges), method="D", directed=False, unweighted=True))
        reached = np.isfinite(hops)
        hops[~reached] = hops.max(initial=0, where=reached) + _COMPONENT_GAP
        rows: Any = {i: dict(enumerate(row)) for i, row in enumerate(hops.tolist())}
        positions = nx.kamada_kawai_layout(graph, dist=rows, pos=positions)
    return np.array([positions[vertex] for vertex in range(n)], float).reshape(n, 2)
