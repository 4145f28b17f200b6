"""Find a narrower integer dtype that provably holds every distance of a whole-number min-plus matrix.

On a GPU the cost of a product depends on its dtype: float64 costs some nine times as much as int16. If the edges are
whole numbers ≥ 0, and no distance exceeds a bound below the "no path" of a narrower dtype, the closure in that dtype is
identical. Two bounds are computed, the cheaper one first. The first bound is n times the greatest edge. The second, for
one vertex v, is the longest distance to v plus the longest distance from v. docs/narrow.md has the proof and the gain.

The encoding `narrow_integers` (`semiring.closures.encodings`) closes the matrix in that dtype, in the memory of the
result, row by row at the start of its rows. So there is no second matrix.

Cost: one pass over floats, or over `_SAMPLE` rows if these hold a fraction. The second bound takes a few sweeps of
Bellman-Ford in either direction. The module does not treat weights below 0, nor graphs of several components whose
edges are too large for the first bound. The matrix is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.bellman_ford import sweep_lengths
from semiring.algorithms.potentials.tropical_weights import Weights
from semiring.arrays.encoding import inner_zero
from semiring.arrays.parts import pieces, to_host_array
from semiring.kernels import backend_for
from semiring.kernels.contract import PassKernels
from semiring.namespaces import Array, array_namespace

__all__ = ["find_narrow_dtype"]

_SWEEPS = 8  # sweeps in one direction; random graphs of n = 16384 with 60, 16 and 8 edges a vertex take 3, 5 and 6
_SAMPLE = 32  # rows that are scanned first, because they show a fraction in most matrices with fractions


def find_narrow_dtype(
    A: Array, sign: int, largest: int | None, candidates: Sequence[np.dtype[Any]]
) -> tuple[np.dtype[Any], int] | None:
    """Return the narrowest integer dtype that provably holds every distance, and a bound on the distances.

    A (n, n) holds weights ≥ 0 (≤ 0 for max-plus, sign -1) and "no path". ``candidates`` are integer dtypes, the
    narrowest first. ``largest`` is the greatest edge of integers, and None for floats. The result is None if an edge is
    not a whole number, or no dtype is proved to suffice. The function waits for a device twice for floats, twice before
    the first sweep, and once after each sweep.
    """
    if not candidates or A.shape[0] < 2:  # a single vertex has no path to another vertex
        return None
    passes = backend_for(A, min_plus, A.dtype).capabilities.passes
    if largest is None:
        for part in (A[:_SAMPLE], A):
            magnitude = _largest_whole(part, passes)
            if magnitude == np.inf:
                return None
        largest = int(magnitude)
    n, ends = A.shape[0], None
    for dtype in candidates:
        limit = int(inner_zero(min_plus, dtype)) - 1
        if n * largest <= limit:
            return dtype, n * largest
        if ends is None:  # the transpose comes first, because its sweeps read rows
            ends = _Lengths(A.T, sign, passes), _Lengths(A, sign, passes)
        bound = 0.0
        for lengths in ends:
            if bound <= limit:
                bound += lengths.find_greatest_length(limit)
        if bound <= limit:
            return dtype, int(bound)
    return None


def _largest_whole(A: Array, passes: PassKernels | None) -> float:
    """Return the greatest magnitude of a finite entry, or ∞ where an entry is no whole number."""
    if passes is not None:
        return passes.largest_whole(A)
    xp, largest = array_namespace(A), 0.0
    for rows in pieces(A):
        part = A[rows]
        if not bool((part == xp.rint(part)).all()):
            return np.inf
        largest = max(largest, float(xp.where(xp.isfinite(part), xp.abs(part), 0).max()))
    return largest


class _Lengths:
    """Lengths (n,) float64 of walks from vertex 0, which every sweep of Bellman-Ford improves."""

    def __init__(self, A: Array, sign: int, passes: PassKernels | None) -> None:
        self._weights = Weights(A, sign, sign * inner_zero(min_plus, A.dtype), np.dtype(np.float64), 0.0)
        self._passes = passes
        self._lengths = A[0].astype(np.float64) * sign
        self._lengths[0] = 0.0

    def find_greatest_length(self, limit: int) -> float:
        """Return the greatest length, after sweeps until it is at most half the ``limit``.

        The sweeps stop early if they make too little progress. Every sweep must double the vertices within the limit,
        or halve the vertices beyond it. Once all vertices are within the limit, every sweep must reduce the greatest
        length.
        """
        n, near, farthest = self._weights.n, 0, np.inf
        for sweep in range(_SWEEPS + 1):
            if sweep:
                self.sweep()
            lengths = to_host_array(self._lengths)
            before, last = near, farthest
            near, farthest = int(np.count_nonzero(lengths <= limit)), float(lengths.max())
            gaining = farthest < last if near == n else near >= 2 * before or 2 * (n - near) <= n - before
            if 2 * farthest <= limit or not gaining:
                break
        return farthest

    def sweep(self) -> None:
        """Improve the lengths by one sweep."""
        self._lengths = sweep_lengths(self._lengths, self._weights, self._passes)
