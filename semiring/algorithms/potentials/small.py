"""Potentials of small matrices of floats by one elimination in float64: cheaper there than the sweeps of `potentials`.

They are taken if the elimination comes through and leaves every reweighted entry ≥ 0 up to the rounding of sums.
Whatever is not that simple (a negative or a zero-weight cycle, an infinite gain, NaN, several strong components, or
potentials that would drown a weight) is left to `potentials`, which is thorough. Every closure of a small matrix begins
with them, alone or in a stack, so that all give the same bits.

Source: Johnson 1977, as in `potentials`. Cost: n³ pairs on one thread.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.rounding import covers, least_magnitude, shift_bound
from semiring.algorithms.potentials.weights import negligible
from semiring.algorithms.views import Array
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.engine import make_plan

__all__ = ["SMALL", "small_potentials", "stack_potentials"]

SMALL = 160  # rows up to which one thread and one block are as fast as anything

_FLOAT64 = np.dtype(np.float64)
_least, _greatest = np.minimum.reduce, np.maximum.reduce  # a matrix's own methods cost more than its look
_PIECE = 1 << 19  # bytes of a stack in float64 at a time: temporaries stay in the second-level cache
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def small_potentials(A: Array) -> Array | None:
    """Potentials (n,) float64 of a matrix of finite weights and ∞, or None: then `potentials` has to find them."""
    plan = _plan().renewed(min_plus)
    D = A.astype(_FLOAT64, order="C")
    backend_for(D, min_plus, _FLOAT64).close_block(plan, D)
    if plan.status.diverged >= 0 or not _greatest(D, None) < np.inf:  # of several components each has its own
        return None
    h: Array = _least(D, 0)
    low = float(_least(h, None))
    if not low > -negligible(A.dtype):  # sums might leave the range of the dtype
        return None
    np.add(A, h[:, np.newaxis] - h, out=D)
    if not _least(D, None) >= _ROUNDING * low:
        return None
    least = float(_least(np.abs(A), None)) or least_magnitude(A)
    return h if shift_bound(len(h), -low) < least else None


@cache
def _plan() -> Plan:
    return make_plan(min_plus, _FLOAT64)


def stack_potentials(A: Array, threads: int) -> Array | None:
    """Potentials (count, n) float64 of the matrices of A (count, n, n), n > 0; None where one needs `potentials`.

    A lies on the host, and its backend closes stacks.
    """
    count, n = A.shape[:2]
    step = max(1, _PIECE // (8 * n * n))
    h = np.empty((count, n))
    for start in range(0, count, step):
        part = slice(start, start + step)
        if not _find(A[part], h[part], threads):
            return None
    return h


def _find(A: Array, h: Array, threads: int) -> bool:
    """Write the potentials of every matrix into h (count, n), as `small_potentials` finds them; False if one fails."""
    plan = make_plan(min_plus, _FLOAT64, threads=threads)
    D = A.astype(_FLOAT64, order="C")
    backend: Any = backend_for(D, min_plus, _FLOAT64)
    backend.capabilities.stack_closures.close_stack(plan, D)
    if plan.status.diverged >= 0:
        return False
    if not D.max() < np.inf:
        return False
    np.min(D, axis=1, out=h)
    if not h.min() > -negligible(A.dtype):
        return False
    np.add(A, h[:, :, np.newaxis] - h[:, np.newaxis], out=D)
    if not (D.min(axis=(1, 2)) >= _ROUNDING * h.min(axis=1)).all():
        return False
    return covers(h, least_magnitude(A))
