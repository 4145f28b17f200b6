"""Compute the transitive reduction of an acyclic graph, the fewest edges with the same closure: A without A ⊗ A⁺.

Source: A. V. Aho, M. R. Garey, J. D. Ullman, "The transitive reduction of a directed graph", SIAM J. Comput. 1 (1972).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from semiring.algebra.catalogue import boolean
from semiring.algorithms.packed_bits import diagonal_bits
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.labels import may_name_vertices, require_square
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.closures import closure
from semiring.errors import AlgebraError, ShapeError
from semiring.io.inputs import Reading, convert_input, open_graph
from semiring.linalg import matmul

__all__ = ["transitive_reduction"]


def transitive_reduction(
    A: Any,
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    threads: int | None = None,
) -> Any:
    """Return the transitive reduction of an acyclic graph: the least graph of the same closure.

    Its edges are those that no longer path replaces.

    Parameters
    ----------
    A : array_like, shape (n, n)
        An array of truth values, or of integers that are all 0 or 1, or a `BitMatrix`, on the host or on a GPU. Or a
        frame, a graph of NetworkX, igraph or rustworkx, a `Network`, or the name of a file, with any weights of its
        edges.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.

    Returns
    -------
    array, BitMatrix, frame or Network, shape (n, n)
        A new bool array on the device of A, a `BitMatrix`, or a square frame, as A is. For a graph, a list of edges or
        a file it is a `Network`.

    Raises
    ------
    ShapeError, DTypeError
        For a matrix that is not square, or not of truth values.
    AlgebraError
        For a graph with a cycle, whose reduction is not unique: reduce the graph of its `condensation`.

    Notes
    -----
    Cost: the closure, one product of n³ bit pairs, and four matrices of n² bits.

    Examples
    --------
    >>> import numpy as np
    >>> transitive_reduction(np.triu(np.ones((4, 4), bool), 1)).astype(int)
    array([[0, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1],
           [0, 0, 0, 0]])
    """
    A, reading = open_graph(A, boolean, Reading(weight, directed, columns))
    if may_name_vertices(A) or not reading.is_default:
        labelled = convert_input(A, boolean, reading)
        matrix = labelled.matrix
        if is_sparse(matrix):
            matrix = BitMatrix.from_edges(*stored_entries(matrix)[:2], matrix.shape)
        reduced = _reduce(matrix if isinstance(matrix, BitMatrix) else pack(matrix), labelled.names, threads)
        return labelled.restore(reduced.unpack())
    require_square(A)
    reduced = _reduce(A if isinstance(A, BitMatrix) else pack(A), None, threads)
    return reduced if isinstance(A, BitMatrix) else reduced.unpack()


def _reduce(edges: BitMatrix, names: Sequence[Hashable] | None, threads: int | None) -> BitMatrix:
    if edges.shape[0] != edges.shape[1]:
        raise ShapeError(f"A is {edges.shape}: a graph needs a square matrix")
    reached = closure(edges, boolean, reflexive=False, threads=threads)
    cycles = diagonal_bits(reached)
    if bool(cycles.any()):
        first = int(cycles.argmax())
        vertex = first if names is None else names[first]
        raise AlgebraError(
            f"vertex {vertex} lies on a cycle, and a transitive reduction needs an acyclic graph: reduce "
            "semiring.condensation(A).graph"
        )
    return edges & ~matmul(edges, reached, boolean, threads=threads)
