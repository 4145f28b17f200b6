"""The fewest edges of an acyclic graph from which its vertices reach the same: A without A ⊗ A⁺.

Source: A. V. Aho, M. R. Garey, J. D. Ullman, "The transitive reduction of a directed graph", SIAM J. Comput. 1 (1972).
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import boolean
from semiring.algorithms.packed import loops
from semiring.arrays.bits import BitMatrix, pack
from semiring.closures import closure
from semiring.errors import AlgebraError, ShapeError
from semiring.linalg import matmul

__all__ = ["transitive_reduction"]


def transitive_reduction(A: Any, *, threads: int | None = None) -> Any:
    """The edges of an acyclic graph that no longer path goes round: the least graph of the same closure.

    Parameters
    ----------
    A
        (n, n): a bool array, or a `BitMatrix`, on the host or on a GPU.
    threads
        As in `closure`.

    Returns what was given: a new bool array where A lives, or a `BitMatrix`. Raises `ShapeError`, `DTypeError`, and
    `AlgebraError` for a graph with a cycle, whose reduction is not unique: reduce the graph of its `condensation`.

    Cost: the closure, one product of n³ bit pairs, and four matrices of n² bits.

    >>> import numpy as np
    >>> transitive_reduction(np.triu(np.ones((4, 4), bool), 1)).astype(int)
    array([[0, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1],
           [0, 0, 0, 0]])
    """
    edges = A if isinstance(A, BitMatrix) else pack(A)
    if edges.shape[0] != edges.shape[1]:
        raise ShapeError(f"A is {edges.shape}: a graph needs a square matrix")
    reached = closure(edges, boolean, reflexive=False, threads=threads)
    cycles = loops(reached)
    if bool(cycles.any()):
        raise AlgebraError(
            f"vertex {int(cycles.argmax())} lies on a cycle, and only an acyclic graph has one least graph of the same "
            "closure: reduce condensation(A).graph"
        )
    reduced = edges & ~matmul(edges, reached, boolean, threads=threads)
    return reduced if isinstance(A, BitMatrix) else reduced.unpack()
