"""Compute the transitive reduction of a graph, the fewest edges with the same closure: A without A ⊗ A⁺.

If the graph has cycles, its strong components are reduced, and each is one cycle.

Source: A. V. Aho, M. R. Garey, J. D. Ullman, "The transitive reduction of a directed graph", SIAM J. Comput. 1 (1972).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algebra.catalogue import boolean
from semiring.algorithms.packed_bits import diagonal_bits
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.labels import may_name_vertices, require_square
from semiring.arrays.operands import run_on_operand_device, truth_values
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.closures import closure
from semiring.errors import ShapeError
from semiring.graphs.condensation import Condensation
from semiring.io.inputs import Reading, convert_input, open_graph
from semiring.linalg import matmul
from semiring.thread_counts import check_threads

__all__ = ["transitive_reduction"]


@run_on_operand_device
def transitive_reduction(
    A: Any,
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the transitive reduction of a graph: the fewest edges with the same closure.

    Without cycles, these are the edges that no longer path replaces. With cycles, each strong component is one cycle
    through its vertices in ascending order, whose edges need not be edges of A. Of the edges between two components,
    that with the first tail, and then the first head, is kept, unless a longer path replaces it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        An array of truth values, or of integers that are all 0 or 1, or a `BitMatrix`, on the host or on a GPU. Or a
        frame, a graph of NetworkX, igraph or rustworkx, a `Network`, or the name of a file, with any weights of its
        edges.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    check : bool, default True
        Scan integers for entries other than 0 and 1. Without the scan, every integer but 0 is an edge.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, where the result of an array stays.

    Returns
    -------
    array, BitMatrix, frame or Network, shape (n, n)
        A new bool array on the device of A, a `BitMatrix`, or a square frame, as A is. For a graph, a list of edges or
        a file it is a `Network`.

    Raises
    ------
    ShapeError, DTypeError
        For a matrix that is not square, or not of truth values.
    DeviceError
        If there is no such GPU, or CuPy is not installed.

    Notes
    -----
    Cost: the closure, one product of n³ bit pairs, and four matrices of n² bits. With cycles, also a list of all edges
    in the memory of the host, and the reduction of the graph of the strong components.

    Examples
    --------
    >>> import numpy as np
    >>> transitive_reduction(np.triu(np.ones((4, 4), bool), 1)).astype(int)
    array([[0, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1],
           [0, 0, 0, 0]])
    """
    if threads is not None:
        check_threads(threads)
    A, reading = open_graph(A, boolean, Reading(weight, directed, columns))
    if may_name_vertices(A) or not reading.is_default:
        labelled = convert_input(A, boolean, reading)
        matrix = labelled.matrix
        if is_sparse(matrix):
            matrix = BitMatrix.from_edges(*stored_entries(matrix)[:2], matrix.shape)
        packed = matrix if isinstance(matrix, BitMatrix) else pack(matrix)
        reduced = _reduce(packed if device is None else packed.to_device(), threads)
        return labelled.restore(reduced.to_host().unpack())
    require_square(A)
    packed = A if isinstance(A, BitMatrix) else pack(A if check else truth_values(A))
    reduced = _reduce(packed if device is None else packed.to_device(), threads)
    return reduced if isinstance(A, BitMatrix) else reduced.unpack()


def _reduce(edges: BitMatrix, threads: int | None) -> BitMatrix:
    if edges.shape[0] != edges.shape[1]:
        raise ShapeError(f"A is {edges.shape}: a graph needs a square matrix")
    reached = closure(edges, boolean, reflexive=False, threads=threads)
    is_on_cycle = to_host_array(diagonal_bits(reached))
    if is_on_cycle.any():
        return _reduce_cyclic(edges, is_on_cycle, threads)
    return edges & ~matmul(edges, reached, boolean, threads=threads)


def _reduce_cyclic(edges: BitMatrix, is_on_cycle: Any, threads: int | None) -> BitMatrix:
    """Return the reduction of a graph with cycles, by that of its strong components."""
    n = len(edges)
    host = edges.to_host() if edges.on_device else edges
    tails, heads = (np.concatenate(parts) for parts in zip(*host.edges(), strict=True))
    components = Condensation(n, tails, heads)
    count = len(components)
    graph = components.graph.tocoo()
    kept = _reduce(BitMatrix.from_edges(graph.row, graph.col, (count, count)), threads)
    pairs = components.component[tails] * count + components.component[heads]
    pairs, first = np.unique(pairs, return_index=True)  # the edges are listed by tails, and then by heads
    first = first[to_host_array(kept.unpack()).reshape(-1)[pairs]]
    cycles = [components.members(number) for number in range(count)]
    cycles = [members for members in cycles if is_on_cycle[members[0]]]
    result = BitMatrix.from_edges(
        np.concatenate([tails[first], *cycles]),
        np.concatenate([heads[first], *(np.roll(members, -1) for members in cycles)]),
        (n, n),
    )
    return result.to_device() if edges.on_device else result
