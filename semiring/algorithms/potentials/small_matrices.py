"""Compute potentials of small matrices of floats by one elimination in float64, which is cheaper than sweeps.

The potentials are used if the elimination meets no negative pivot, and every reweighted entry is ≥ 0 up to the rounding
of sums. Otherwise `potentials` computes them by a thorough search. The cases are a negative or a zero-weight cycle, an
infinite gain, NaN, several strong components, and potentials that would drown a weight. Every closure of a small
component begins with this elimination, so all give bitwise identical results. A backend may compute it in a loop of its
own (`close_gaining`).

Source: Johnson 1977, as in `potentials`. Cost: n³ pairs on one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.rounding import least_magnitude, shift_bound
from semiring.algorithms.potentials.tropical_weights import negligible_amount
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan
from semiring.namespaces import Array

__all__ = ["SMALL", "small_potentials"]

SMALL = 160  # rows up to which no method is faster than one block on one thread

_FLOAT64 = np.dtype(np.float64)
_least, _greatest = np.minimum.reduce, np.maximum.reduce  # the methods of an array cost more than the scan itself
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def small_potentials(A: Any) -> Array | None:
    """Return potentials (n,) float64 of finite weights and ∞, or None where `potentials` must compute them."""
    plan = make_plan(min_plus, _FLOAT64)
    D = A.astype(_FLOAT64, order="C")
    backend_for(D, min_plus, _FLOAT64).close_block(plan, D)
    if plan.status.diverged >= 0 or not _greatest(D, None) < np.inf:  # each component has its own potentials
        return None
    h: Array = _least(D, 0)
    low = float(_least(h, None))
    if not low > -negligible_amount(A.dtype):  # sums may leave the range of the dtype
        return None
    np.add(A, h[:, np.newaxis] - h, out=D)
    if not _least(D, None) >= _ROUNDING * low:
        return None
    return h if shift_bound(len(h), -low) < least_magnitude(A) else None
