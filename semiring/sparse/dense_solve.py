"""Compute least solutions with a dense matrix by elimination in blocks, without its closure.

Source: B. A. Carré, "An algebra for network routing problems", J. Inst. Maths. Applics. 7 (1971), Gauss's elimination.
The elimination proceeds by blocks of pivots, as in LAPACK. Cost: n³/3 pairs, a third of a closure, and n² for every
right-hand side. The matrix A is overwritten. Hazard: rounded weights of both signs, see `signs`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from semiring.algorithms.rkleene import rkleene
from semiring.kernels.engine import Engine
from semiring.sparse.numeric import PivotError

__all__ = ["solve_dense"]

Array = NDArray[Any]

_BLOCK = 256  # the pivots of a block, a constant because it decides the bits of the results


def solve_dense(engine: Engine, A: Array, X: Array) -> None:
    """Replace X by A* ⊗ X, for A (n, n), which is overwritten, and X (n, r), both of the plan's dtype.

    Raises `PivotError` at the first pivot without a star; A and X are then undefined.
    """
    n = len(A)
    starts = range(0, n, _BLOCK)
    for start in starts:
        own, rest = slice(start, min(n, start + _BLOCK)), slice(min(n, start + _BLOCK), n)
        S = A[own, own]
        if not rkleene(engine, S, start=start):
            raise PivotError(engine.plan.status.diverged)
        engine.multiply(X[own], S, X[own].copy())
        if rest.start == n:
            break
        engine.multiply_add(X[rest], A[rest, own], X[own])
        engine.multiply(A[own, rest], S, A[own, rest].copy())
        engine.multiply_add(A[rest, rest], A[rest, own], A[own, rest])
    for start in reversed(starts):
        own, rest = slice(start, min(n, start + _BLOCK)), slice(min(n, start + _BLOCK), n)
        if rest.start < n:
            engine.multiply_add(X[own], A[own, rest], X[rest])
