"""Convert frames, graphs and networks to a matrix and the names of its vertices, and convert results back."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

from semiring.algebra import Semiring
from semiring.arrays.labels import (
    LabelledArray,
    is_edge_frame,
    is_frame,
    is_graph,
    labelled_square,
    may_name_vertices,
    parse_title_pair,
)
from semiring.arrays.operands import as_matrix
from semiring.io.edge_frames import edges_of_frame
from semiring.io.files import names_file
from semiring.io.graphs import as_network, edges_of_graph
from semiring.io.network import Edges, Network, dtype_of_frame
from semiring.io.reading import read

__all__ = ["DEFAULT_READING", "Reading", "convert_input", "list_edges", "open_graph", "return_unchanged"]


class Reading(NamedTuple):
    """The options with which `as_network` reads a frame of edges or a graph; ``columns`` are source and target."""

    weight: Any = None
    directed: bool | None = None
    columns: tuple[str, str] | None = None

    def check(self, x: Any) -> None:
        """Raise `TypeError` if the options name titles, and x has no titles of this kind."""
        name = "weight" if self.columns is None else "columns"
        if names_file(x) and not os.fspath(x).endswith(".npy"):  # the reader of the file checks its titles
            return
        if getattr(self, name) is not None and not is_frame(x) and not (name == "weight" and is_graph(x)):
            raise TypeError(f"{name}= is not an option for a {type(x).__name__}: nothing in it has such a title")

    def read_network(self, x: Any, semiring: Semiring) -> Network:
        """Return the network of x that `as_network` reads with these options."""
        source, target = self.ends
        return as_network(x, semiring, weight=self.weight, source=source, target=target, directed=self.directed)

    def read_network_file(
        self, path: str | os.PathLike[str], semiring: Semiring, *, sparse: bool | None = None
    ) -> Network:
        """Return the network of a file, as `semiring.read` reads it with these options.

        Raises `TypeError` for a function as ``weight``, and as `semiring.read`.
        """
        if callable(self.weight):
            raise TypeError("weight is a function, and the weights of a file are a column: pass its title")
        options: dict[str, Any] = {"directed": self.directed, "weight": self.weight, "columns": self.columns}
        return read(path, semiring, sparse=sparse, **options)

    @property
    def ends(self) -> tuple[str | None, str | None]:
        """The titles of the columns where edges begin and end; it raises `TypeError` if they are no pair."""
        return (None, None) if self.columns is None else parse_title_pair(self.columns)

    def lists_edges(self, x: Any) -> bool:
        """Return whether x is a frame of edges, by the titles of its columns or because the options name columns."""
        return is_edge_frame(x) or (is_frame(x) and (self.weight is not None or self.columns is not None))


DEFAULT_READING = Reading()


def open_graph(
    x: Any, semiring: Semiring, reading: Reading = DEFAULT_READING, *, sparse: bool | None = None
) -> tuple[Any, Reading]:
    """Return x and its options, or for the name of a file its `Network`, which needs no options any more.

    Every function that takes a graph opens files here. Raises the errors of `semiring.read`, and `TypeError` for
    options that do not apply to x.
    """
    reading.check(x)
    if not names_file(x):
        return x, reading
    return reading.read_network_file(x, semiring, sparse=sparse), DEFAULT_READING


def return_unchanged(result: Any) -> Any:
    """Return the result unchanged, as `LabelledArray.restore` does for a matrix."""
    return result


def convert_input(x: Any, semiring: Semiring, reading: Reading = DEFAULT_READING) -> LabelledArray:
    """Return the matrix and the names of x, and a function that converts a result back to the kind of x.

    x may be the name of a file. For a square frame results are frames. For a frame of edges, a graph, a `Network` or a
    file they are networks. For any other matrix they stay as computed. Errors are those of `as_network`.
    """
    x, reading = open_graph(x, semiring, reading)
    if not may_name_vertices(x):
        return LabelledArray(
            x if reading == DEFAULT_READING else reading.read_network(x, semiring).matrix, None, return_unchanged
        )
    if not (is_graph(x) or reading.lists_edges(x)):
        labelled = labelled_square(x)
        if reading != DEFAULT_READING:
            labelled = labelled._replace(matrix=reading.read_network(x, semiring).matrix)
        dtype = dtype_of_frame(labelled.matrix, semiring)
        same = dtype == labelled.matrix.dtype
        return labelled if same else labelled._replace(matrix=as_matrix(labelled.matrix, semiring, dtype))
    network = reading.read_network(x, semiring)
    return LabelledArray(network.matrix, network.names, lambda result: replace(network, matrix=result), network)


def list_edges(x: Any, reading: Reading = DEFAULT_READING) -> Edges | None:
    """Return the edges of a graph or of a frame of edges, without a matrix of all pairs.

    The result is None for an object that holds a matrix, such as a square frame or a `Network`.
    """
    if reading.lists_edges(x):
        if callable(reading.weight):
            raise TypeError("weight is a function, and the weights of a frame are a column: pass its title")
        return edges_of_frame(x, *reading.ends, reading.weight)
    if is_graph(x) and not isinstance(x, Network):
        return edges_of_graph(x, reading.weight, reading.directed)
    return None
