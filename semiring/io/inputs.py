"""What names its vertices (frames, graphs, networks), taken apart into a matrix and names, and results put back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from semiring.algebra import Semiring
from semiring.arrays.labels import Taken, is_edge_frame, is_graph, labelled_square
from semiring.io.graphs import network_of

__all__ = ["take"]


def take(x: Any, semiring: Semiring) -> Taken:
    """A square frame gives frames back; what lists edges (a frame of them, a graph, a `Network`) gives a `Network`.

    Errors as in `network_of`.
    """
    if not (is_graph(x) or is_edge_frame(x)):
        return labelled_square(x)
    network = network_of(x, semiring)
    return Taken(network.matrix, network.names, lambda result: replace(network, matrix=result), network)
