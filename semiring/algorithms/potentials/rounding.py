"""Bound the rounding error of a distance that was computed under potentials, and compare it with the weights.

docs/rounding.md proves the bound of `distance_bound`. Its part that grows with the spread of the potentials, not with
the distance, is `shift_bound`. `covers` returns whether that part is below every weight, so that no edge drowns. If it
is not, `semiring.algorithms.potentials.exact_arithmetic` computes the potentials.

Cost: one pass over the matrix, with some operations on integers of its width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.potentials.weights import Weights
from semiring.algorithms.views import Array
from semiring.namespaces import array_namespace

__all__ = ["covers", "distance_bound", "least_magnitude", "least_weight", "shift_bound"]

_BITS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_EPSILON = 2.0**-52  # the machine epsilon of float64


def least_magnitude(A: Array) -> Any:
    """Return the least |w| ≠ 0 of every matrix of floats in A (..., m, n), (...); ∞ where there is none."""
    if A.ndim == 2 and type(A) is np.ndarray and (first := np.minimum.reduce(np.abs(A), axis=None)) != 0:
        return first  # in half the time
    if A.dtype.itemsize not in _BITS:  # long doubles
        return np.abs(A).min(axis=(-2, -1), initial=np.inf, where=A != 0)
    sizes = A.view(_BITS[A.dtype.itemsize]) << 1  # without the sign
    sizes -= 1  # and 0 becomes the largest
    least = sizes.min(axis=(-2, -1))
    magnitude = ((least >> 1) + 1).view(A.dtype)  # -0.0 where all are 0
    if A.ndim == 2 and type(A) is np.ndarray:
        return magnitude if magnitude != 0 else np.inf
    return array_namespace(A).where(magnitude == 0, A.dtype.type(np.inf), magnitude)


def least_weight(weights: Weights) -> float:
    """Return the `least_magnitude` of the weights of a graph in floats.

    The weights are read a piece of rows at a time, and the function waits for a device once.
    """
    magnitudes = [least_magnitude(weights.part(rows)) for rows in weights.pieces()]
    xp = array_namespace(weights.A)
    return float(xp.stack([xp.asarray(one) for one in magnitudes]).min()) if magnitudes else np.inf


def shift_bound(n: int, spread: Any) -> Any:
    """Return how far the rounding of n potentials may move a distance.

    ``spread`` is the difference between the greatest and the least potential.
    """
    return 16 * n * _EPSILON * spread


def covers(h: Array, least: Any) -> bool:
    """Return whether the rounding of potentials h (..., n) is below every weight, so that no weight drowns.

    ``least`` (...) is the least |w| ≠ 0 of each component. Each row of h belongs to one component.
    """
    return bool((shift_bound(h.shape[-1], h.max(axis=-1, initial=0) - h.min(axis=-1, initial=0)) < least).all())


def distance_bound(n: int, epsilon: float, spread: float, there: Any, back: Any, weights: Any = 0.0) -> Any:
    """Return the bound on the error of a distance that docs/rounding.md proves, entry by entry.

    ``there`` and ``back`` are the distances D[i, j] and D[j, i]. ``weights`` is Σ |w| along a best path from i to j.
    """
    return 2 * n * epsilon * (np.abs(there) + np.abs(back)) + epsilon * weights + shift_bound(n, spread)
