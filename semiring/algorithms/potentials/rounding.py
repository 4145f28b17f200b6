"""Bound the rounding error of a distance that was computed under potentials, and compare it with the weights.

docs/rounding.md proves the bound of `distance_bound`. Its part that grows with the spread of the potentials, not with
the distance, is `shift_bound`. `is_shift_accurate` returns whether that part is below every weight, so that no edge
drowns. Otherwise `semiring.algorithms.potentials.exact_arithmetic` computes the potentials.

Cost: one pass over the matrix, with some operations on integers of its width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.potentials.tropical_weights import Weights
from semiring.namespaces import Array, array_namespace

__all__ = ["distance_bound", "is_shift_accurate", "least_magnitude", "least_weight", "shift_bound"]

_BITS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_EPSILON = 2.0**-52  # the machine epsilon of float64


def least_magnitude(A: Array) -> Any:
    """Return the least |w| ≠ 0 of each matrix of floats in A (..., m, n) as an array (...), ∞ if all entries are 0."""
    if A.ndim == 2 and type(A) is np.ndarray and (first := np.minimum.reduce(np.abs(A), axis=None)) != 0:
        return first  # a matrix without zeros takes half the time
    if A.dtype.itemsize not in _BITS:  # long doubles
        return np.abs(A).min(axis=(-2, -1), initial=np.inf, where=A != 0)
    sizes = A.view(_BITS[A.dtype.itemsize]) << 1  # the shift drops the sign
    sizes -= 1  # 0 wraps to the largest integer
    least = sizes.min(axis=(-2, -1))
    magnitude = ((least >> 1) + 1).view(A.dtype)  # -0.0 if all entries are 0
    if A.ndim == 2 and type(A) is np.ndarray:
        return magnitude if magnitude != 0 else np.inf
    return array_namespace(A).where(magnitude == 0, A.dtype.type(np.inf), magnitude)


def least_weight(weights: Weights) -> float:
    """Return the `least_magnitude` of the float weights of a graph.

    The function reads one piece of rows after the other, and waits for a device once.
    """
    magnitudes = [least_magnitude(weights.entries(rows)) for rows in weights.pieces()]
    xp = array_namespace(weights.A)
    return float(xp.stack([xp.asarray(one) for one in magnitudes]).min()) if magnitudes else np.inf


def shift_bound(n: int, spread: Any) -> Any:
    """Return a bound on the error of a distance that the rounding of n potentials causes.

    ``spread`` is the difference between the greatest and the least potential.
    """
    return 16 * n * _EPSILON * spread


def is_shift_accurate(h: Array, min_weight: Any) -> bool:
    """Return whether the rounding of potentials h (..., n) is below every weight, so that no weight drowns.

    ``min_weight`` (...) is the least |w| ≠ 0 of each component. Each row of h belongs to one component.
    """
    return bool((shift_bound(h.shape[-1], h.max(axis=-1, initial=0) - h.min(axis=-1, initial=0)) < min_weight).all())


def distance_bound(n: int, epsilon: float, spread: float, forward: Any, backward: Any, weights: Any = 0.0) -> Any:
    """Return the bound on the error of a distance that docs/rounding.md proves, entry by entry.

    ``forward`` and ``backward`` are the distances D[i, j] and D[j, i]. ``weights`` is Σ |w| along a best path from i to
    j.
    """
    return 2 * n * epsilon * (np.abs(forward) + np.abs(backward)) + epsilon * weights + shift_bound(n, spread)
