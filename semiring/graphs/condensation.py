"""Condensation of a graph: its strong components and the acyclic graph of the edges between them.

A condensation answers reachability for graphs whose closure, n² bits, is too large.

Source: R. E. Tarjan, SIAM J. Comput. 1 (1972), in SciPy's implementation. Cost: O(n + m log m) for m edges. A query
from 64 sources takes O(c + d) for c components with d edges between them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra.catalogue import boolean
from semiring.arguments import check_flags
from semiring.arrays.bits import BitMatrix
from semiring.arrays.labels import is_frame, is_graph, labelled_square, require_square
from semiring.arrays.operands import as_host_operand, as_matrix, truth_values
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.arrays.tensors import is_sparse_tensor
from semiring.arrays.vertices import Vertices
from semiring.errors import VertexError, square_error
from semiring.graphs.strongly_connected import strong_components_of_sparse
from semiring.io.inputs import Reading, list_edges, open_graph
from semiring.io.network import convert_network, network_edges, weighted_edges
from semiring.thread_counts import check_threads

__all__ = ["Condensation", "condensation"]

_WORDS = 8  # words of 64 sources that one pass over the edges follows


class Condensation:
    """The strong components of a graph of n vertices, numbered in a topological order.

    Every edge between two components leads from the lower number to the higher number. `condensation` returns one.

    Parameters
    ----------
    n : int
        The number of vertices.
    tails, heads : array of int64, shape (edges,)
        The ends of the edges.
    names : tuple, or None
        n names of the vertices, or None if the vertices are 0 … n - 1.

    Attributes
    ----------
    component
        int64 (n,): the component of each vertex.
    graph
        A csr_array (c, c) bool of SciPy: the edges between the c components.
    names
        A tuple of n names, or None.
    """

    component: NDArray[np.int64]
    graph: Any
    names: tuple[Hashable, ...] | None

    def __init__(self, n: int, tails: Any, heads: Any, names: tuple[Hashable, ...] | None = None) -> None:
        from scipy.sparse import csr_array

        self._vertices = Vertices(n, names)
        self.names = self._vertices.names
        components = strong_components_of_sparse(csr_array((np.ones(len(tails)), (tails, heads)), shape=(n, n)))
        count = len(components)
        self._order, self._bounds = components.order, components.bounds
        self.component = np.empty(n, np.int64)
        self.component[components.order] = np.repeat(np.arange(count), np.diff(components.bounds))
        tails, heads = self.component[tails], self.component[heads]
        between = np.unique(tails[tails != heads] * count + heads[tails != heads])
        ends = between // max(1, count), between % max(1, count)
        self.graph = csr_array((np.ones(len(between), np.bool_), ends), shape=(count, count))

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self._bounds) - 1

    def __repr__(self) -> str:
        n, parts, edges = len(self.component), len(self), self.graph.nnz
        counts = f"{n} {'vertex' if n == 1 else 'vertices'}, {parts} component{'s' * (parts != 1)}"
        return f"Condensation({counts}, {edges} edge{'s' * (edges != 1)} between)"

    def members(self, component: int) -> Any:
        """Return the vertices of a component.

        Parameters
        ----------
        component : int
            The number of the component, 0 … c - 1.

        Returns
        -------
        numpy.ndarray or list
            The vertices, int64 in ascending order, or the list of their names if the graph names its vertices.

        Raises
        ------
        VertexError
            There is no component of that number.
        """
        if not 0 <= component < len(self):
            raise VertexError(f"there is no component {component} among {len(self)}")
        members: NDArray[np.int64] = self._order[self._bounds[component] : self._bounds[component + 1]]
        return members if self.names is None else [self.names[vertex] for vertex in members]

    def reaches(self, sources: Any, targets: Any) -> Any:
        """Return whether each source reaches each target; every vertex reaches itself.

        Parameters
        ----------
        sources, targets : vertex or sequence
            A vertex, or a sequence of p or q vertices: numbers, or names if the graph names its vertices.

        Returns
        -------
        numpy.ndarray or numpy.bool
            bool (p, q), without the axis of an argument that is one vertex.

        Raises
        ------
        VertexError
            A vertex is not in the graph.
        """
        from semiring.kernels.graphs.edge_scan import carry_along

        starts, heads = self.graph.indptr.astype(np.int64), self.graph.indices.astype(np.int64)
        rows, columns = self._components_of(sources), self._components_of(targets)
        result = np.empty((rows.size, columns.size), np.bool_)
        for first in range(0, rows.size, 64 * _WORDS):
            some = rows.ravel()[first : first + 64 * _WORDS]
            reached = np.zeros((len(self), -(-len(some) // 64)), np.uint64)
            own = np.arange(len(some))
            np.bitwise_or.at(reached, (some, own // 64), np.left_shift(np.uint64(1), (own % 64).astype(np.uint64)))
            carry_along(starts, heads, reached)
            columns_reached = np.unpackbits(
                reached[columns.ravel()].view(np.uint8), axis=1, bitorder="little", count=len(some)
            )
            result[first : first + len(some)] = columns_reached.T
        return result.reshape(rows.shape + columns.shape)[()]

    def _components_of(self, vertices: Any) -> NDArray[np.int64]:
        if self.names is not None:
            one = isinstance(vertices, str | int | np.integer) or (
                isinstance(vertices, Hashable) and vertices in self.names
            )
            return np.asarray(
                self.component[self._vertices.index(vertices) if one else self._vertices.indices(vertices)]
            )
        numbers, n = np.asarray(vertices), len(self.component)
        if numbers.ndim > 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise VertexError(f"vertices are integers (count,), or one, not {numbers.dtype} of shape {numbers.shape}")
        outside = numbers[(numbers < 0) | (numbers >= n)]
        if outside.size:
            raise VertexError(f"there is no vertex {outside.flat[0]} among {n}")
        return self.component[numbers.astype(np.int64)] if numbers.ndim else np.asarray(self.component[int(numbers)])


def condensation(
    A: Any,
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Condensation:
    """Return the condensation of a graph: its strong components and the edges between them.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A SciPy sparse matrix or array, whose stored entries except False are edges. Or an array of truth values or of
        integers 0 and 1, or a `BitMatrix`, on the host or on a GPU. Or an object with names of vertices: a square frame
        of truth values, a frame of edges, a graph, a `Network`, or the name of a file. A graph is one of NetworkX,
        igraph or rustworkx. Weights are ignored. The function lists the edges on the host, with 40 bytes each.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    check : bool, default True
        Scan integers for entries other than 0 and 1. Without the scan, every integer but 0 is an edge.
    threads : int, optional
        The number of threads. The search of components uses one.
    device : str, optional
        ``"cpu"``, where components are searched. Arrays on a GPU are accepted without it.

    Returns
    -------
    Condensation
        The components, their edges, and the names of the vertices.

    Raises
    ------
    ShapeError
        The matrix is not square.
    DTypeError
        A dense matrix has entries other than truth values, 0 and 1.
    ValueError
        For another device.

    Examples
    --------
    >>> import semiring as sr
    >>> components = sr.condensation([[False, True, False], [True, False, True], [False, False, False]])
    >>> components
    Condensation(3 vertices, 2 components, 1 edge between)
    >>> components.members(0), components.reaches(0, 2), components.reaches(2, [0, 1, 2])
    (array([0, 1]), np.True_, array([False, False,  True]))
    """
    check_flags({"check": check, "directed": directed})
    if threads is not None:
        check_threads(threads)
    if device is not None and (not isinstance(device, str) or device != "cpu"):
        raise ValueError(f"device is {quote(device)}: components are searched on the CPU, device='cpu'")
    A, reading = open_graph(A, boolean, Reading(weight, directed, columns), sparse=True)
    listed, names = list_edges(A, reading), None
    shape: tuple[int, ...]
    if listed is not None:
        tails, heads = listed.rows, listed.columns
        if weight is not None:  # of truth values
            is_edge = weighted_edges(replace(listed, directed=True), boolean)[2]
            tails, heads = tails[is_edge], heads[is_edge]
        directed = directed if listed.directed else False
        shape, names = (listed.size, listed.size), tuple(listed.names) if listed.names else None
    elif is_graph(A):  # a Network
        tails, heads, _ = network_edges(convert_network(A, boolean))
        shape, names = A.matrix.shape, A.names
    else:
        A, names = labelled_square(A)[:2] if is_frame(A) else (A, None)
        require_square(A)
        tails, heads, shape = _list_edges(A if check else truth_values(A))
    if len(shape) != 2 or shape[0] != shape[1]:
        raise square_error(shape)
    if directed is False:
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    return Condensation(shape[0], tails.astype(np.int64), heads.astype(np.int64), names)


def _list_edges(A: Any) -> tuple[Any, Any, tuple[int, ...]]:
    if is_sparse_tensor(A):
        A = as_host_operand(A)
    if is_sparse(A):
        rows, columns, stored = stored_entries(as_host_operand(A))
        edges = stored if stored.dtype == np.bool_ else slice(None)
        return rows[edges].astype(np.int64), columns[edges].astype(np.int64), A.shape
    if isinstance(A, BitMatrix):
        parts = [(to_host_array(tails), to_host_array(heads)) for tails, heads in A.edges()]
        empty = np.empty(0, np.int64)
        tails, heads = (np.concatenate([empty, *ends]) for ends in (zip(*parts, strict=True) if parts else ((), ())))
        return tails, heads, A.shape
    entries = to_host_array(as_matrix(A, boolean))
    tails, heads = np.nonzero(entries)
    return tails, heads, entries.shape
