"""Compute shortest paths of one strong component in exact arithmetic, where float64 sums would drown some weights.

Weights of very different size may occur in one component. Potentials in float64 then round the small weights away, so
edges are lost, and so are negative cycles. In this module weights are whole numbers of a common unit, of any length:

1. Potentials are computed by Bellman-Ford, exactly. If every weight w is raised to w + ε |w|, a cycle becomes negative
   if and only if the rounding of its own weights does not explain its sum. Every such cycle is found, and no other.
2. Under these potentials h the weights are ≥ 0. They are rounded once to float64 and closed by the kernels. The result
   has a relative error of at most n 2⁻⁵² in r[i, j] = D[i, j] + h[i] - h[j]. Then r is shifted back exactly to D, and
   rounded once.
3. Where r[i, j] is more than `SPREAD` times |D[i, j]|, its rounding could be visible in D. Row i is then recomputed by
   Dijkstra's algorithm on the exact weights.

The relative error of every distance is at most n 2⁻³², and some ulp for most. The exact value is the length of a path
whose edges are longer by at most the rounding ε |w| of their own weights.

Sources: D. B. Johnson, JACM 24 (1977); E. W. Dijkstra, Numer. Math. 1 (1959). Cost: n² operations on Python's integers
for every sweep and every row of step 3, about 0.1 µs each, and one closure of float64; some 200 bytes an entry. Such
components are rare; `semiring.algorithms.potentials.rounding` detects them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log2
from typing import Any

import numpy as np

from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.potentials.sweeps import cycle_error
from semiring.algorithms.potentials.tropical_weights import roundings
from semiring.namespaces import Array

__all__ = ["SPREAD", "ExactComponentPotentials", "common_unit", "from_units", "to_units"]

SPREAD = 2.0**20  # a ratio of shift and distance, beyond which the rounding of the shift could show in the distance


class ExactComponentPotentials:
    """The exact potentials of one strong component, under which it is closed."""

    def __init__(self, W: Array, epsilon: float, h: Array) -> None:
        """Compute exact potentials for min-plus weights W (n, n) of one strong component, in float64, ∞ for no edge.

        ``epsilon`` is the relative rounding of a weight, a power of two or 0. h (n,) are the float64 potentials, from
        which the search starts. Raises `NegativeCycleError` with the vertices of a cycle for which Σ w < -ε Σ |w|.
        """
        edges = np.isfinite(W)
        shifts = [-int(log2(fine)) if fine else 0 for fine in roundings(epsilon)]
        self._unit = common_unit(W[edges]) - shifts[0]  # ε w is a whole number of units too
        weights, no_edge = self._weights_in_units(W, edges)
        for bits in shifts:
            raised = np.where(edges, weights + (np.abs(weights) >> bits) if bits else weights, no_edge)
            self.h = to_units(h, self._unit)
            cycle = bellman_ford(Labels(self.h, _relaxation(raised, self.h)))
            if not cycle:
                break
        if cycle:
            from fractions import Fraction

            error = cycle_error(cycle, lambda i, j: Fraction(float(W[i, j])), 1, epsilon)
            assert error is not None  # sums are exact, so the rounding of the weights does not explain this cycle
            raise error

    def _weights_in_units(self, W: Array, edges: Array) -> tuple[Array, int]:
        """Return the weights in units, 0 for an absent edge, and a number that exceeds the length of every path."""
        weights = to_units(np.where(edges, W, 0.0), self._unit)
        return weights, 4 * (len(W) + 1) * (1 + max(-weights.min(), weights.max()))

    def distances(self, W: Array, close: Callable[[Array], object]) -> Array:
        """Return the distances (n, n) in float64.

        W is the matrix that was given to the constructor; it is not changed. ``close(R)`` closes a float64 matrix ≥ 0
        in place. The diagonal of the result is the one that ``close`` computes.
        """
        edges = np.isfinite(W)
        weights, no_edge = self._weights_in_units(W, edges)
        shift = self.h[:, np.newaxis] - self.h
        reduced = np.where(edges, np.maximum(weights + shift, 0), no_edge)
        R = np.where(edges, from_units(reduced, self._unit), inf)
        close(R)
        D = from_units(to_units(R, self._unit) - shift, self._unit)
        far = SPREAD * np.abs(D) < R
        np.fill_diagonal(far, False)
        for row in np.flatnonzero(far.any(axis=1)):
            loop = D[row, row]
            D[row] = from_units(_single_source(reduced, int(row)) - shift[row], self._unit)
            D[row, row] = loop
        return D


def _relaxation(weights: Array, labels: Array) -> Callable[[Array], tuple[Array, Array]]:
    """Return the function that relaxes edges with weights (n, n) from the labels (n,), for `Labels`."""

    def relax(tails: Array) -> tuple[Array, Array]:
        candidates = weights[tails] + labels[tails, np.newaxis]
        first = candidates.argmin(axis=0)
        return candidates[first, np.arange(len(first))], tails[first]

    return relax


def common_unit(values: Array) -> int:
    """Return an exponent e such that every value is a whole multiple of 2ᵉ."""
    mantissas, exponents = np.frexp(values)
    return int(exponents.min(initial=1024, where=mantissas != 0)) - 53


def to_units(values: Array, unit: int) -> Any:
    """Convert floats to Python integers in units of 2ᵉ, truncated below a unit; ``unit`` is e."""
    mantissas, exponents = np.frexp(values)
    numbers = (mantissas * 2.0**53).astype(np.int64).astype(object)
    shifts = np.where(mantissas == 0, 0, exponents.astype(np.int64) - 53 - unit)
    return (numbers << np.maximum(shifts, 0).astype(object)) >> np.maximum(-shifts, 0).astype(object)


def from_units(numbers: Array, unit: int) -> Array:
    """Convert Python integers in units of 2ᵉ to floats, each rounded once, and ±∞ beyond the range of floats."""
    scale = 1 << abs(unit)

    def as_float(number: int) -> float:
        try:
            return number / scale if unit < 0 else float(number * scale)
        except OverflowError:
            return inf if number > 0 else -inf

    return np.asarray(np.frompyfunc(as_float, 1, 1)(numbers), np.float64)


def _single_source(weights: Array, source: int) -> Array:
    """Return the distances (n,) from one vertex, over weights ≥ 0."""
    distances = weights[source].copy()
    distances[source] = 0
    is_unsettled = np.ones(len(weights), np.bool_)
    is_unsettled[source] = False
    for _ in range(len(weights) - 1):
        unsettled = np.flatnonzero(is_unsettled)
        vertex = unsettled[distances[unsettled].argmin()]
        is_unsettled[vertex] = False
        distances = np.minimum(distances, distances[vertex] + weights[vertex])
    return distances
