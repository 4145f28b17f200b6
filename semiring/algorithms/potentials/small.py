"""Potentials of small matrices of floats by one elimination in float64: cheaper there than the sweeps of `potentials`.

They are taken if the elimination comes through and leaves every reweighted entry ≥ 0 up to the rounding of sums.
Whatever is not that simple (a negative or a zero-weight cycle, an infinite gain, NaN, several strong components, or
potentials that would drown a weight) is left to `potentials`, which is thorough. Every closure of a small component
begins with them, so that all give the same bits; a backend may have them in a loop of its own (`GainingClosures`).

Source: Johnson 1977, as in `potentials`. Cost: n³ pairs on one thread.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.rounding import least_magnitude, shift_bound
from semiring.algorithms.potentials.weights import negligible
from semiring.algorithms.views import Array
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan

__all__ = ["SMALL", "small_potentials"]

SMALL = 160  # rows up to which one thread and one block are as fast as anything

_FLOAT64 = np.dtype(np.float64)
_least, _greatest = np.minimum.reduce, np.maximum.reduce  # a matrix's own methods cost more than its look
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def small_potentials(A: Array) -> Array | None:
    """Potentials (n,) float64 of a matrix of finite weights and ∞, or None: then `potentials` has to find them."""
    plan = make_plan(min_plus, _FLOAT64)
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
    return h if shift_bound(len(h), -low) < least_magnitude(A) else None
