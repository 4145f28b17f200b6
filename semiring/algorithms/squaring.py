"""The closure by repeated squaring: A* = (I ⊕ A)ᵐ for any m ≥ n - 1, for an idempotent ⊕.

Source: A. V. Aho, J. E. Hopcroft, J. D. Ullman, "The Design and Analysis of Computer Algorithms" (1974), section 5.9.

Cost: at most ⌈log₂ n⌉ products of n³ pairs, fewer when the longest path has few edges, because it stops as soon as a
squaring changes nothing; workspace n². Every product is of the full size, so the kernels run at their best rate:
worth it where paths have few edges, and as an independent check of the eliminations.

What it does not compute: closures of a ⊕ that is not idempotent, pivots, A⁺ (see `irreflexive`). Hazards: a cycle that
improves on 1̄ shows on the diagonal after the last squaring and not before.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.views import WORD, Array
from semiring.errors import AlgebraError
from semiring.kernels.engine import Engine

__all__ = ["seed_diagonal", "squaring"]


def squaring(engine: Engine, A: Array) -> None:
    """A ← A* in place, A (n, n) of the plan's dtype and storage.

    A diagonal entry without a star sets ``plan.status.diverged`` to its vertex. Raises `AlgebraError` where ⊕ is not
    idempotent.
    """
    plan, n = engine.plan, A.shape[0]
    if not plan.semiring.idempotent:
        raise AlgebraError(f"squaring needs an idempotent ⊕, and that of {plan.semiring.name} is not: use rkleene")
    seed_diagonal(engine, A)
    square = A.copy()
    length = 1  # A holds the best of all paths of at most this many edges
    while length < n:
        engine.multiply(square, A, A)
        if bool((square == A).all()):
            break
        A[...] = square
        length *= 2
    divergence = plan.semiring.divergence
    if divergence is not None:
        bad = np.broadcast_to(divergence.evaluate({"x": A.diagonal()}, plan.dtype), (n,))
        if bad.any():
            plan.status.diverged = int(bad.argmax())


def seed_diagonal(engine: Engine, A: Array) -> None:
    """A ← A ⊕ I in place."""
    plan, n = engine.plan, A.shape[0]
    vertices = np.arange(n)
    if plan.storage == "bits":
        A[vertices, vertices // WORD] |= np.left_shift(np.uint32(1), (vertices % WORD).astype(np.uint32))
    else:
        add = plan.semiring.add.expression
        A[vertices, vertices] = add.evaluate({"x": A[vertices, vertices], "y": plan.one}, plan.dtype)
