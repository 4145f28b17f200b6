"""How far rounding may take a distance that was found under potentials, and whether that disturbs a weight.

The bound of `distance_bound` is proven in the docs (docs/rounding.md). Its part that grows with the spread of the
potentials, not with the distance, is `shift_bound`; `covers` says whether that part is below every weight, so that no
edge drowns. Where it says no, `semiring.algorithms.exact` is asked.

Cost: one pass over the matrix, some operations on integers of its width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.views import Array, on_host, pieces
from semiring.namespaces import array_namespace

__all__ = ["covers", "distance_bound", "least_magnitude", "shift_bound"]


def least_magnitude(A: Array) -> float:
    """The least |w| of a matrix of floats that is not 0; ∞ without one. On a device, waits for it once."""
    xp = array_namespace(A)
    bits = np.dtype(f"u{A.dtype.itemsize}")
    ends = xp.full(1, np.iinfo(bits).max, bits)
    for rows in pieces(A):
        magnitudes = xp.ascontiguousarray(A[rows]).view(bits) << bits.type(1)  # without the sign
        magnitudes -= bits.type(1)  # and 0 becomes the largest
        ends = xp.minimum(ends, magnitudes.min())
    least = on_host(ends) + bits.type(1) >> bits.type(1)
    return float(least.view(A.dtype)[0]) if least[0] else np.inf


def shift_bound(n: int, spread: float) -> float:
    """What potentials of n vertices that are ``spread`` apart, in float64, may do to a distance."""
    return 16 * n * float(np.finfo(np.float64).eps) * spread


def covers(h: Array, least: float) -> bool:
    """Whether potentials h (n,) of one component disturb no weight: ``least`` is the least that is not 0, in size."""
    return not h.size or shift_bound(h.size, float(h.max() - h.min())) < least


def distance_bound(n: int, epsilon: float, spread: float, there: Any, back: Any, weights: Any = 0.0) -> Any:
    """The bound above, entry by entry: of distances D[i, j] and D[j, i], and Σ |w| of best paths from i to j."""
    return 2 * n * epsilon * (np.abs(there) + np.abs(back)) + epsilon * weights + shift_bound(n, spread)
