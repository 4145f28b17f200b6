"""What names its vertices (frames, graphs, networks), taken apart into a matrix and names, and results put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from semiring.algebra import Semiring
from semiring.arrays.labels import Taken, is_edge_frame, is_graph, labelled_square
from semiring.arrays.operands import as_matrix
from semiring.io.edge_frames import edges_of_frame
from semiring.io.graphs import edges_of_graph, network_of
from semiring.io.network import Edges, Network, dtype_of_frame

__all__ = ["take", "take_edges"]


def take(x: Any, semiring: Semiring) -> Taken:
    """A square frame gives frames back; what lists edges (a frame of them, a graph, a `Network`) gives a `Network`.

    Errors as in `network_of`.
    """
    if not (is_graph(x) or is_edge_frame(x)):
        taken = labelled_square(x)
        dtype = dtype_of_frame(taken.matrix, semiring)
        same = dtype == taken.matrix.dtype
        return taken if same else taken._replace(matrix=as_matrix(taken.matrix, semiring, dtype))
    network = network_of(x, semiring)
    return Taken(network.matrix, network.names, lambda result: replace(network, matrix=result), network)


def take_edges(x: Any) -> tuple[Edges, bool] | None:
    """The edges of a graph or of a frame of edges, and whether they are directed: without a matrix of all pairs.

    None for what holds a matrix: a square frame, a `Network`.
    """
    if is_edge_frame(x):
        return edges_of_frame(x, None, None, None), True
    if is_graph(x) and not isinstance(x, Network):
        return edges_of_graph(x)
    return None
