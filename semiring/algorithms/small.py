"""Small min-plus matrices of floats: a kernel call or two and nothing else, for a check costs as much as the work.

Non-negative weights are closed at once. Others go through potentials from one elimination in float64, if it comes
through and leaves every reweighted entry ≥ 0 up to the rounding of sums; whatever is not that simple (a negative or a
zero-weight cycle, an infinite gain, NaN) is left to `tropical`, which is thorough.

Source: Johnson 1977, as in `potentials`. Cost: n³ or 2 n³ pairs on one thread.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.reweighting import negligible
from semiring.algorithms.views import Array
from semiring.catalogue import min_plus
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

__all__ = ["SMALL", "close_small", "small_potentials"]

SMALL = 160  # rows up to which one thread and one block are as fast as anything

_FLOAT64 = np.dtype(np.float64)
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def close_small(A: Array) -> Array | None:
    """A* of a float matrix (n, n), 0 < n ≤ `SMALL`, in a new array; None where it takes more care."""
    low = A.min()
    if low >= 0:  # and no NaN
        return _close(np.add(A, 0.0, out=np.empty(A.shape, A.dtype)))  # -0.0 becomes 0.0
    if not low > -np.inf:
        return None
    h = small_potentials(A)
    if h is None:
        return None
    shift = h[:, np.newaxis] - h
    D = np.add(A, shift)
    np.maximum(D, 0.0, out=D)
    D += 0.0
    D = _close(D if A.dtype == _FLOAT64 else D.astype(A.dtype))
    np.subtract(D, shift, out=D, casting="same_kind")
    return D


def small_potentials(A: Array) -> Array | None:
    """Potentials (n,) float64 of a matrix of finite weights and ∞ by one elimination; None where it takes more care.

    Every closure of a small matrix begins with them, whichever way it goes on, so that all give the same bits.
    """
    plan = make_plan(min_plus, _FLOAT64)
    D = A.astype(np.float64, order="C")
    backend_for(D, min_plus, _FLOAT64).close_block(plan, D)
    if plan.status.diverged >= 0:
        return None
    h: Array = D.min(axis=0)
    if not h.min() > -negligible(A.dtype):  # sums might leave the range of the dtype
        return None
    np.add(A, h[:, np.newaxis] - h, out=D)
    return h if D.min() >= _ROUNDING * h.min() else None


def _close(D: Array) -> Array:
    plan = make_plan(min_plus, D.dtype, nonnegative=True)
    backend_for(D, min_plus, D.dtype).close_block(plan, D)
    return D
