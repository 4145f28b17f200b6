"""How far rounding may take a distance that was found under potentials, and whether that disturbs a weight.

The bound of `distance_bound` is proven in the docs (docs/rounding.md). Its part that grows with the spread of the
potentials, not with the distance, is `shift_bound`; `covers` says whether that part is below every weight, so that no
edge drowns. Where it says no, `semiring.algorithms.exact` is asked.

Cost: one pass over the matrix, some operations on integers of its width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.views import Array
from semiring.algorithms.weights import Weights
from semiring.namespaces import array_namespace

__all__ = ["covers", "distance_bound", "least_magnitude", "least_weight", "shift_bound"]

_BITS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_EPSILON = 2.0**-52  # of float64


def least_magnitude(A: Array) -> Any:
    """The least |w| that is not 0 of every matrix of floats in A (..., m, n), (...); ∞ where there is none."""
    sizes = A.view(_BITS[A.dtype.itemsize]) << 1  # without the sign
    sizes -= 1  # and 0 becomes the largest
    least = sizes.min(axis=(-2, -1))
    found = ((least >> 1) + 1).view(A.dtype)  # -0.0 where all are 0
    if A.ndim == 2 and type(A) is np.ndarray:
        return found if found != 0 else np.inf
    return array_namespace(A).where(found == 0, A.dtype.type(np.inf), found)


def least_weight(weights: Weights) -> float:
    """The same of weights in floats, a piece at a time; waits for a device once."""
    found = [least_magnitude(weights.part(rows)) for rows in weights.pieces()]
    xp = array_namespace(weights.A)
    return float(xp.stack([xp.asarray(one) for one in found]).min()) if found else np.inf


def shift_bound(n: int, spread: Any) -> Any:
    """What potentials of n vertices that are ``spread`` apart, in float64, may do to a distance."""
    return 16 * n * _EPSILON * spread


def covers(h: Array, least: Any) -> bool:
    """Whether potentials h (..., n) of components disturb no weight: ``least`` (...) is the least not 0, in size."""
    return bool((shift_bound(h.shape[-1], h.max(axis=-1, initial=0) - h.min(axis=-1, initial=0)) < least).all())


def distance_bound(n: int, epsilon: float, spread: float, there: Any, back: Any, weights: Any = 0.0) -> Any:
    """The bound above, entry by entry: of distances D[i, j] and D[j, i], and Σ |w| of best paths from i to j."""
    return 2 * n * epsilon * (np.abs(there) + np.abs(back)) + epsilon * weights + shift_bound(n, spread)
