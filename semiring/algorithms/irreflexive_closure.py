"""Compute A⁺ = A ⊗ A*, the sum over paths of at least one edge.

A⁺ differs from A* on the diagonal alone, because A* = I ⊕ A⁺. If ⊕ is idempotent, a cycle through i either repeats the
loop at i or meets another vertex j, so that::

    A⁺[i, i] = A[i, i] ⊗ A[i, i]*  ⊕  ⊕_{j ≠ i} A*[i, j] ⊗ A*[j, i]

This formula reads only the old diagonal of A: O(n²) pairs after the closure, in place. If ⊕ is not idempotent, the sum
over j would count a cycle once for every vertex on it. In that case A is kept, and A⁺ is one more product, in place.

Cost: n² pairs and a workspace of one piece of rows; or n³ pairs, a copy of A and a panel of columns. Hazard: in
floating point, the diagonal is a sum of two rounded halves of a cycle. A ⊗ A* would add the first edge to the rounded
remainder.
"""

from __future__ import annotations

from typing import Any

from semiring.algorithms.packed_bits import set_cycles
from semiring.algorithms.views import Array, columns_of
from semiring.arrays.bits import BitMatrix
from semiring.arrays.parts import pieces
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import array_namespace

__all__ = ["cycles_from_closure", "cycles_in_place", "cycles_of_loops", "cycles_through", "irreflexive_product"]


_ENTRIES = 1 << 19  # entries folded at a time
_COLUMNS = 1024  # columns of an in-place product that are copied at a time


def cycles_from_closure(plan: KernelPlan, loops: Array, closed: Array | BitMatrix) -> Array | BitMatrix:
    """Turn A* into A⁺ in place for an idempotent ⊕, and return it.

    ``loops`` (n,) is the diagonal of A before it was closed.
    """
    if isinstance(closed, BitMatrix):
        set_cycles(plan.semiring, closed, loops)
        return closed
    best, vertices = cycles_of_loops(plan, loops), array_namespace(closed).arange(closed.shape[0])
    for piece in pieces(closed, _ENTRIES):
        rows = vertices[piece]
        best[rows] = cycles_through(plan, best[rows], closed[piece], closed[:, piece].T, piece.start)
    closed[vertices, vertices] = best
    return closed


def cycles_in_place(engine: Engine, A: Array) -> None:
    """Apply `cycles_from_closure` to a matrix A (n, n) whose diagonal still holds the loops."""
    cycles_from_closure(engine.plan, A.diagonal().copy(), A)


def cycles_of_loops(plan: KernelPlan, loops: Array) -> Array:
    """Return the cycles (n,) that repeat the loops (n,) of A."""
    xp, star = array_namespace(loops), plan.semiring.star_expression
    stars = loops
    if star is not None:
        stars = xp.broadcast_to(xp.asarray(star.evaluate({"x": loops}, plan.dtype, xp)), loops.shape)
    return _product(plan, loops, stars)


def cycles_through(plan: KernelPlan, best: Array, out: Array, back: Array, own: int | None = None) -> Array:
    """Add to ``best`` (m,) the cycles of m vertices through k other vertices, and return the sums.

    out[i, j] leads from vertex i to j, and back[i, j] from j to i. ``own`` is the j of the first vertex, where the k
    vertices include all m; the entries with j = i then do not count.
    """
    xp, add = array_namespace(out), plan.semiring.add.expression
    terms = _product(plan, out, back)
    if own is not None:
        rows = xp.arange(len(terms))
        terms[rows, rows + own] = plan.zero
    return _fold(lambda x, y: add.evaluate({"x": x, "y": y}, plan.dtype, xp), best, terms)


def _product(plan: KernelPlan, x: Array, y: Array) -> Array:
    xp = array_namespace(x)
    product = plan.semiring.mul.expression.evaluate({"x": x, "y": y}, plan.dtype, xp)
    return xp.where((x == plan.zero) | (y == plan.zero), plan.zero, product)


def _fold(add: Any, first: Array, terms: Array) -> Array:
    """Return ``first`` ⊕ the sum of each row of ``terms``, added by halves in log n array operations."""
    width = terms.shape[1]
    while width > 1:
        half = width // 2
        folded, xp = add(terms[:, :half], terms[:, half : 2 * half]), array_namespace(terms)
        terms = xp.concatenate([folded, terms[:, 2 * half : width]], axis=1) if width % 2 else folded
        width = terms.shape[1]
    return add(first, terms[:, 0]) if width else first


def irreflexive_product(engine: Engine, A: Array, closed: Array) -> None:
    """Turn A* into A ⊗ A* in place, for every semiring; ``A`` is the matrix before it was closed."""
    n = closed.shape[0]
    for start in range(0, n, _COLUMNS):  # on a GPU the panels are wider, and have fewer rows
        engine.multiply_left(A, closed[:, columns_of(engine.plan, start, min(n, start + _COLUMNS))])
