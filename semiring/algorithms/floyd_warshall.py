"""Close a matrix by Floyd-Warshall, one pivot at a time, with the star at the pivot.

Sources: R. W. Floyd, "Algorithm 97: Shortest path", CACM 5 (1962); S. Warshall, "A theorem on Boolean matrices", JACM 9
(1962); with stars, for every semiring that has them: D. J. Lehmann, "Algebraic structures for transitive closure",
Theoretical Computer Science 4 (1977).

For each pivot k: a ← A[k, k]*, and A[i, j] ← A[i, j] ⊕ A[i, k] a A[k, j] for all i ≠ k and j ≠ k. Then
row k ← a ⊗ row k, and column k ← column k ⊗ a. Cost: n³ pairs in n rank-one products. Each product reads and writes the
whole matrix, so the method is bound by memory bandwidth. The workspace is 2 n entries. The module is the textbook
form for comparisons, and it resolves pivots to single vertices.

It computes neither A⁺ (see `irreflexive_closure`) nor predecessors (see `predecessors`). Hazards: those of `rkleene`.
"""

from __future__ import annotations

from semiring.algorithms.blocked_floyd_warshall import blocked_floyd_warshall
from semiring.errors import AlgebraError
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["floyd_warshall"]


def floyd_warshall(engine: Engine, A: Array) -> None:
    """Compute A ← A* in place; A and divergence are as in `rkleene`.

    The implementation is the blocked form with blocks of one vertex, so the closure of a block is the star of its only
    entry. Packed bits have no single columns, and raise `AlgebraError`.
    """
    if engine.plan.storage == "bits":
        raise AlgebraError("floyd_warshall takes one pivot at a time, and packed bits hold 32: use rkleene")
    blocked_floyd_warshall(engine, A, width=1)
