"""Compute A⁺ = A ⊗ A*, the sum over paths of at least one edge.

A⁺ differs from A* on the diagonal alone, because A* = I ⊕ A⁺. If ⊕ is idempotent, a cycle through i either repeats the
loop at i or meets another vertex j, so that::

    A⁺[i, i] = A[i, i] ⊗ A[i, i]*  ⊕  ⊕_{j ≠ i} A*[i, j] ⊗ A*[j, i]

This formula reads only the old diagonal of A: O(n²) pairs after the closure, in place. If ⊕ is not idempotent, the sum
over j would count a cycle once for every vertex on it. The caller then keeps A, and A⁺ is one more product, in place.

Cost: n² pairs and a workspace of one piece of rows; or n³ pairs, a copy of A and a panel of columns. Hazard: in
floating point, the diagonal is a sum of two rounded halves of a cycle. A ⊗ A* would add the first edge to the rounded
remainder.
"""

from __future__ import annotations

from typing import Any

from semiring.algorithms.packed_bits import set_cycles
from semiring.algorithms.views import columns_of
from semiring.arrays.bits import BitMatrix
from semiring.arrays.parts import pieces
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import Array, array_namespace

__all__ = ["add_cycles", "close_loops", "irreflexive_product", "make_irreflexive", "make_irreflexive_from_loops"]


_ENTRIES = 1 << 19  # entries of a piece of rows, whose products are added together
_COLUMNS = 1024  # columns of a panel that one step of an in-place product copies


def make_irreflexive(plan: KernelPlan, loops: Array, D: Array | BitMatrix) -> Array | BitMatrix:
    """Turn A* into A⁺ in place for an idempotent ⊕, and return it.

    ``loops`` (n,) is the diagonal of A before it was closed.
    """
    if isinstance(D, BitMatrix):
        set_cycles(plan.semiring, D, loops)
        return D
    best, vertices = close_loops(plan, loops), array_namespace(D).arange(D.shape[0])
    for piece in pieces(D, _ENTRIES):
        rows = vertices[piece]
        best[rows] = add_cycles(plan, best[rows], D[piece], D[:, piece].T, piece.start)
    D[vertices, vertices] = best
    return D


def make_irreflexive_from_loops(engine: Engine, A: Array) -> None:
    """Apply `make_irreflexive` to a matrix A (n, n) whose diagonal still holds the loops."""
    make_irreflexive(engine.plan, A.diagonal().copy(), A)


def close_loops(plan: KernelPlan, loops: Array) -> Any:
    """Return the cycles (n,) that repeat the loops (n,) of A."""
    xp, star = array_namespace(loops), plan.semiring.star_expression
    stars = loops
    if star is not None:
        stars = xp.broadcast_to(xp.asarray(star.evaluate({"x": loops}, plan.dtype, xp)), loops.shape)
    return _product(plan, loops, stars)


def add_cycles(plan: KernelPlan, best: Array, outgoing: Array, incoming: Array, diagonal: int | None = None) -> Array:
    """Add to ``best`` (m,) the cycles of m vertices through k other vertices, and return the sums.

    outgoing[i, j] leads from vertex i to j, and incoming[i, j] from j to i. If the k vertices include the m vertices,
    ``diagonal`` is the column of the first of the m vertices. The entries of a vertex with itself are then ignored.
    """
    xp, add = array_namespace(outgoing), plan.semiring.add.expression
    terms = _product(plan, outgoing, incoming)
    if diagonal is not None:
        rows = xp.arange(len(terms))
        terms[rows, rows + diagonal] = plan.zero
    return _fold(lambda x, y: add.evaluate({"x": x, "y": y}, plan.dtype, xp), best, terms)


def _product(plan: KernelPlan, x: Array, y: Array) -> Any:
    xp = array_namespace(x)
    product = plan.semiring.mul.expression.evaluate({"x": x, "y": y}, plan.dtype, xp)
    return xp.where((x == plan.zero) | (y == plan.zero), plan.zero, product)


def _fold(add: Any, initial: Array, terms: Array) -> Array:
    """Return ``initial`` ⊕ the sum of each row of ``terms``, added by halves in log n array operations."""
    width = terms.shape[1]
    while width > 1:
        half = width // 2
        folded, xp = add(terms[:, :half], terms[:, half : 2 * half]), array_namespace(terms)
        terms = xp.concatenate([folded, terms[:, 2 * half : width]], axis=1) if width % 2 else folded
        width = terms.shape[1]
    return add(initial, terms[:, 0]) if width else initial


def irreflexive_product(engine: Engine, A: Array, D: Array) -> None:
    """Turn A* into A ⊗ A* in place, for every semiring; ``A`` is the matrix before it was closed."""
    n = D.shape[0]
    for start in range(0, n, _COLUMNS):  # on a GPU the panels are wider, and have fewer rows
        engine.multiply_left(A, D[:, columns_of(engine.plan, start, min(n, start + _COLUMNS))])
