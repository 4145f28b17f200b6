"""Convert frames, graphs, lists of edges and networks to a matrix with names, and convert results back."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.arguments import check_flags
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import (
    LabelledArray,
    is_edge_frame,
    is_frame,
    is_graph,
    labelled_square,
    may_name_vertices,
    require_square,
)
from semiring.arrays.operands import as_host_operand, as_matrix
from semiring.arrays.sparse import is_sparse
from semiring.io.edge_tables import edges_of_frame, edges_of_rows, holds_rows, is_weight_list
from semiring.io.files import names_file
from semiring.io.network import Edges, Network, assemble, convert_network, dtype_of_frame, semiring_of, symmetrize

if TYPE_CHECKING:
    from semiring.io.graphs import Weight

__all__ = [
    "DEFAULT_READING",
    "Reading",
    "as_network",
    "convert_input",
    "list_edges",
    "open_graph",
    "return_unchanged",
]


class Reading(NamedTuple):
    """The options with which `as_network` reads edges; ``columns`` are source and target."""

    weight: Any = None
    directed: bool | None = None
    columns: tuple[Any, Any] | None = None

    @property
    def is_default(self) -> bool:
        """Whether no option was given."""
        return self.weight is None and self.directed is None and self.columns is None

    def check(self, x: Any) -> None:
        """Raise `TypeError` if the options name columns or weights, and x has none of this kind."""
        if names_file(x) and not os.fspath(x).endswith(".npy"):  # the reader of the file checks its titles
            return
        if self.columns is None:
            require_square(x)
        if type(x) is np.ndarray and self.is_default:
            return
        graph = is_graph(x) and not isinstance(x, Network)
        table = not is_graph(x) and not is_sparse(x) and not isinstance(x, BitMatrix)
        if self.columns is not None and not table:
            raise TypeError(f"columns= is not an option for a {type(x).__name__}: nothing in it has such a title")
        if self.weight is not None and not (graph or self.lists_edges(x)):
            raise TypeError(f"weight= is not an option for a {type(x).__name__}: nothing in it has such a title")
        if callable(self.weight) and not graph:
            raise TypeError("weight is a function, and the weights of a table are a column: pass its title")

    def read_network_file(
        self, path: str | os.PathLike[str], semiring: Semiring, *, dtype: Any = None, sparse: bool | None = None
    ) -> Network:
        """Return the network of a file, as `semiring.read` reads it with these options.

        Raises `TypeError` for a ``weight`` that is no title, and as `semiring.read`.
        """
        if callable(self.weight) or is_weight_list(self.weight):
            raise TypeError(
                f"the weights of a file are a column: pass its title, as weight='km', and not {quote(self.weight)}"
            )
        options: dict[str, Any] = {"directed": self.directed, "weight": self.weight, "columns": self.columns}
        from semiring.io.reading import read  # its parsers load csv, gzip and zipfile

        return read(path, semiring, dtype=dtype, sparse=sparse, **options)

    def lists_edges(self, x: Any) -> bool:
        """Return whether x is a table of edges, by its titles or because the options name columns."""
        if self.columns is not None or is_edge_frame(x):
            return True
        return is_frame(x) and self.weight is not None


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


def as_network(
    x: Any,
    semiring: Semiring | str | None = None,
    *,
    weight: Weight = None,
    columns: tuple[Any, Any] | None = None,
    directed: bool | None = None,
    dtype: Any = None,
) -> Network:
    """Return the `Network` of a graph, of a list of edges, or of a matrix, over ``semiring``.

    Parameters
    ----------
    x : graph, frame, iterable, array_like or Network
        * A graph of NetworkX (also a multigraph), igraph or rustworkx. Names of vertices are the nodes of NetworkX, or
          the attribute ``name`` of igraph. For rustworkx they are the payloads if they differ, else the indices.
        * A frame of edges, of pandas or Polars, with an edge in each row.
        * Rows (source, target) or (source, target, weight) from a list of tuples, a generator, or a view of edges such
          as ``G.edges(data=True)``. With ``columns`` they may also be an array (m, 2) or (m, 3), or a list of lists.
        * A dictionary {source: {target: weight}}, {source: [target, …]} or {(source, target): weight}.
        * A square frame (labels of rows and columns are the names), an array, a sparse matrix.
        * A `Network`, whose "no edge" becomes that of ``semiring``.
        * The name of a file, as `read` reads it.
    semiring : Semiring or str, optional
        A `Semiring` or the name of one. Its zero fills the entries without an edge. The default is the semiring of a
        `Network`, else min-plus.
    weight : str, int, callable or sequence of float, optional
        The attribute, column or key that holds the weights, for rows a position or the key of an attribute. The default
        is ``weight``, else the only one that holds numbers (except ``id``). Several are a `FormatError`. Without
        weights every edge weighs 1. A list or an array has the weight of each edge, in the order of the rows, of
        ``G.edges``, ``G.es`` or ``edge_list()``. For rustworkx it may be a function of the payload, and by default a
        payload that is a number is the weight. For NetworkX it may be a function of both ends and the attributes, as in
        NetworkX's own functions, which returns None for no edge.
    columns : tuple, optional
        The two columns (source, target): titles of a frame, by default the usual ones, source, from, u, …, and target,
        to, v, …; or positions in rows, by default (0, 1). With columns= an array or a list is a list of edges.
    directed : bool, optional
        False takes each edge in both directions, and a loop once. The default is the direction of the graph. Tables of
        edges are directed.
    dtype : dtype, optional
        The dtype of the matrix. The default is the dtype of the column of weights or of the matrix. For graphs and for
        tables of integers, which have no ∞ for "no path", it is float64 or the nearest dtype.

    Returns
    -------
    Network
        The matrix, and the names that the vertices have in x.

    Raises
    ------
    DomainError, FormatError, DTypeError
        A weight or a vertex is not valid. The message names the edge.
    ShapeError
        A matrix is not square, or a list of weights has not one weight for each edge.
    TypeError
        The object is none of the above, or an option does not apply to it.

    Notes
    -----
    Vertices that are integers come in numerical order, and others in the order of first occurrence. An edge that is not
    listed is the semiring's zero. A listed edge is an edge, also of weight 0, and parallel edges combine by ⊕. Of truth
    values as weights, True is an edge of weight 1 and False no edge; a column of truth values is read only if
    ``weight`` names it. Time and memory O(n² + edges).

    Examples
    --------
    >>> network = as_network([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)], directed=False)
    >>> network.names
    ('Ulm', 'Kiel', 'Jena')
    >>> network.matrix
    array([[inf,  7., inf],
           [ 7., inf,  4.],
           [inf,  4., inf]])
    """
    check_flags({"directed": directed})
    reading = Reading(weight, directed, columns)
    algebra = as_semiring(semiring_of(x, semiring))
    if names_file(x):
        reading.check(x)
        return reading.read_network_file(x, algebra, dtype=dtype)
    if not is_graph(x) and holds_rows(x):
        edges: Edges | None = edges_of_rows(x, columns, weight)
    else:
        reading.check(x)
        edges = list_edges(x, reading)
    if edges is not None:
        return assemble(edges, algebra, dtype, directed=directed)
    if isinstance(x, Network):
        network = convert_network(x, algebra, dtype)
    elif is_frame(x):
        labelled = labelled_square(x)
        dtype = dtype_of_frame(labelled.matrix, algebra) if dtype is None else dtype
        network = Network(as_matrix(labelled.matrix, algebra, dtype, square=True), labelled.names, semiring=algebra)
    else:
        values = x.unpack() if isinstance(x, BitMatrix) else x
        network = Network(as_matrix(values, algebra, dtype, square=True), semiring=algebra)
    if directed is not False:
        return network
    return replace(network, matrix=symmetrize(network.matrix, algebra), combined=True, directed=False)


def return_unchanged(result: Any) -> Any:
    """Return the result unchanged, as `LabelledArray.restore` does for a matrix."""
    return result


def convert_input(x: Any, semiring: Semiring, reading: Reading = DEFAULT_READING) -> LabelledArray:
    """Return the matrix and the names of x, and a function that converts a result back to the kind of x.

    x may be the name of a file. For a square frame results are frames. For edges, a graph, a `Network` or a file they
    are networks. For any other matrix they stay as computed. Errors are those of `as_network`.
    """
    if type(x) is np.ndarray and reading.is_default:
        return LabelledArray(x, None, return_unchanged)
    x, reading = open_graph(x, semiring, reading)
    if is_graph(x) or reading.lists_edges(x):
        network = as_network(x, semiring, **reading._asdict())
        return LabelledArray(network.matrix, network.names, lambda result: replace(network, matrix=result), network)
    if not may_name_vertices(x):
        matrix = x if reading.is_default else as_network(x, semiring, **reading._asdict()).matrix
        return LabelledArray(matrix, None, return_unchanged)
    labelled = labelled_square(x)
    if not reading.is_default:
        labelled = labelled._replace(matrix=as_network(x, semiring, **reading._asdict()).matrix)
    dtype = dtype_of_frame(labelled.matrix, semiring)
    same = dtype == labelled.matrix.dtype
    return labelled if same else labelled._replace(matrix=as_matrix(labelled.matrix, semiring, dtype))


def list_edges(x: Any, reading: Reading = DEFAULT_READING) -> Edges | None:
    """Return the edges of a graph or of a table of edges, without a matrix of all pairs.

    The result is None for an object that holds a matrix, such as a square frame or a `Network`.
    """
    if reading.lists_edges(x):
        if is_frame(x):
            return edges_of_frame(x, reading.columns, reading.weight)
        return edges_of_rows(as_host_operand(x), reading.columns, reading.weight)
    if is_graph(x) and not isinstance(x, Network):
        from semiring.io.graphs import edges_of_graph

        return edges_of_graph(x, reading.weight, reading.directed)
    return None
