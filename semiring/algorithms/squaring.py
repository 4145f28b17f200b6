"""Close a matrix by repeated squaring: A* = (I ⊕ A)ᵐ for any m ≥ n - 1, if no cycle improves a path.

Source: A. V. Aho, J. E. Hopcroft, J. D. Ullman, "The Design and Analysis of Computer Algorithms" (1974), section 5.9.

Cost: at most ⌈log₂ n⌉ products of n³ pairs, and a workspace of n². The method stops as soon as a squaring changes
nothing, so it needs fewer products if the longest path has few edges. Every product has the full size, so the kernels
run at their peak rate. The method is useful for paths of few edges, and as an independent check of the eliminations.

If ⊕ is selective (a choice of the best), or 1 ⊕ a = 1, a best path has no cycle, and so at most n - 1 edges. An
idempotent ⊕ is not enough: for relations, the union of walks around a cycle may be more than 1̄.

The module does not compute closures of any other ⊕, nor pivots, nor A⁺ (see `irreflexive_closure`). Hazards: a cycle
that improves on 1̄ shows on the diagonal after the last squaring and not before.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.stars import vertex_without_star
from semiring.algorithms.views import WORD
from semiring.arrays.parts import any_true, pieces, to_host_array
from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import Engine
from semiring.namespaces import Array, array_namespace

__all__ = ["max_pairs", "seed_diagonal", "squaring"]


def squaring(engine: Engine, A: Array) -> None:
    """Compute A ← A* in place for A (n, n) of the plan's dtype and storage.

    A diagonal entry without a star sets ``plan.status.diverged`` to its vertex. If the engine may not wait for its
    device, all squarings are computed without a test for convergence.

    Raises `AlgebraError` where ⊕ is neither selective nor absorptive (1 ⊕ a = 1), and where a cycle improves on 1̄ and
    has a star.
    """
    plan, n = engine.plan, A.shape[0]
    if not plan.semiring.idempotent:
        raise AlgebraError(f"squaring needs an idempotent ⊕, which {plan.semiring.name} does not have: use rkleene")
    if not (plan.semiring.selective or plan.semiring.absorptive):
        raise AlgebraError(
            f"squaring needs a selective ⊕ or 1 ⊕ a = 1, and {plan.semiring.name} has neither: use rkleene"
        )
    seed_diagonal(engine, A)
    square = A.copy()
    length = 1  # A holds the best of all paths of at most this many edges
    while length < n:
        engine.multiply(square, A, A)
        if engine.may_synchronize and not any_true((square[rows] != A[rows]).any() for rows in pieces(A)):
            break
        A[...] = square
        length *= 2
    if engine.may_synchronize:
        _check_diagonal(plan, A)


def max_pairs(n: int, width: int) -> int:
    """Return the pairs of all squarings for n rows of ``width`` entries; most matrices need fewer."""
    return max(0, n - 1).bit_length() * n * n * width


def _check_diagonal(plan: KernelPlan, A: Array) -> None:
    """Raise an error where the diagonal of a closed matrix shows a cycle that improves on 1̄."""
    divergence = plan.semiring.divergence
    if plan.storage == "bits" or (divergence is None and plan.semiring.absorptive):
        return
    plan.status.diverged = vertex_without_star(plan, A)
    if plan.status.diverged >= 0:
        return
    diagonal = to_host_array(A.diagonal())
    if not plan.semiring.absorptive and bool((diagonal != plan.one).any()):
        vertex = int((diagonal != plan.one).argmax())
        raise AlgebraError(
            f"a cycle through vertex {vertex} improves on the one of {plan.semiring.name}, and squaring does not "
            "compute its star: use rkleene"
        )


def seed_diagonal(engine: Engine, A: Array) -> None:
    """Compute A ← A ⊕ I in place."""
    plan, xp = engine.plan, array_namespace(A)
    vertices = xp.arange(A.shape[0])
    if plan.storage == "bits":  # an idempotent ⊕ on truths is "or" or "and", for which 1̄ ⊕ a = 1̄
        bits = xp.left_shift(np.uint32(1), (vertices % WORD).astype(np.uint32))
        words = A[vertices, vertices // WORD]
        A[vertices, vertices // WORD] = words | bits if plan.one else words & ~bits
    else:
        add = plan.semiring.add.expression
        A[vertices, vertices] = add.evaluate({"x": A[vertices, vertices], "y": plan.one}, plan.dtype, xp)
