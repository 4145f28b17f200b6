"""Compute potentials of products, factors for all vertices under which no weight gains, or a cycle that forbids them.

In max-times a weight above 1 gains, in min-times a weight below 1. A cycle whose weights have a product beyond 1 gains
with every round. Exchange rates and other ratios have cycles of product exactly 1, which rounding makes 1 ± some ulp.
An elimination would treat such cycles as gains, and multiply the rounding errors.

The factors p > 0 are the greatest (in min-times the least) products of paths that end in each vertex. The reweighted
entry w[i, j] · p[i] / p[j] is then at most (at least) 1, and an entry that rounding moves beyond 1 is set to 1. The
product of every path from i to j is multiplied by p[i] / p[j], and every cycle keeps its product.

Source: Johnson 1977, as in `potentials`, with products for sums. **Rounding.** If a cycle gains by rounding alone, the
sweeps lower each weight by its possible rounding error ε. A cycle of k edges gains if and only if its product is beyond
(1 + ε)ᵏ. An exact product confirms this before the cycle is reported. No sums cancel, so weights of different
magnitudes do not interfere: the relative error of products is about 4 n ε.

Cost: a few sweeps of one pass over the matrix each, a pass that scales the matrix, and a pass that scales the result.
Workspace: some rows. Hazard: a product below the least normal float times max p / min p is rounded to a subnormal or to
0, the "no path" of max-times.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, min_times
from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.potentials.tropical_weights import relative_rounding, weight_rounding
from semiring.algorithms.stars import exact_product
from semiring.arrays.parts import pieces, to_host_array
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan
from semiring.namespaces import Array, array_namespace

__all__ = ["cycle_weights", "has_factors", "may_gain", "scales"]


@lru_cache(maxsize=256)
def has_factors(semiring: Semiring) -> bool:
    """Return whether the semiring is max_times or min_times, whose weights factors can scale."""
    return semiring in (max_times, min_times)


def may_gain(semiring: Semiring, lowest: Any, highest: Any) -> bool:
    """Return whether a weight from ``lowest`` to ``highest`` may gain in max-times or min-times.

    The result is False for all other semirings, which have no potentials of products.
    """
    if semiring == max_times:
        return highest is not None and bool(highest > 1)
    return semiring == min_times and lowest is not None and bool(lowest < 1)


def scales(A: Array, semiring: Semiring, rounded_to: Any = None) -> Any | list[int] | None:
    """Return factors p (n,) float64 on the device of the matrix A (n, n) of floats, or a cycle that gains.

    The cycle is a list of its vertices. The result is None where the product of some path leaves the range of float64;
    it then says nothing about cycles. ``rounded_to`` is the dtype to which the entries were rounded, by default that of
    A.
    """
    xp, n, is_maximum = array_namespace(A), A.shape[0], semiring == max_times
    closures, plan = backend_for(A, semiring, A.dtype).capabilities.closures, make_plan(semiring, A.dtype)
    if closures is not None and rounded_to is None and n <= closures.gaining_rows(plan):
        factors = closures.survey_gaining(plan, A[:][np.newaxis])  # the slice gathers the rows of all ranks
        if factors is not None:
            return factors[0]
    epsilon = weight_rounding(A.dtype, rounded_to)
    p, margin, lowered = np.ones(n), 2 * relative_rounding(np.float64), 0.0
    step = next(pieces(A)).stop

    def relax(tails: Array) -> tuple[Array, Array]:
        own = p[tails] * (1 - lowered if is_maximum else 1 + lowered)
        best, offered_by = np.full(n, 0.0 if is_maximum else np.inf), np.full(n, -1)
        for start in range(0, len(tails), step):
            part = tails[start : start + step]
            products = A[xp.asarray(part)] * xp.asarray(own[start : start + step, np.newaxis])
            first = products.argmax(axis=0) if is_maximum else products.argmin(axis=0)
            offers = to_host_array(products[first, xp.arange(n)])
            better = offers > best if is_maximum else offers < best
            best[better], offered_by[better] = offers[better], part[to_host_array(first)[better]]
        return best, offered_by

    while True:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            cycle = bellman_ford(Labels(p, relax, np.greater if is_maximum else np.less))
        if cycle and _is_beyond(A, cycle, epsilon, is_maximum):
            return cycle
        if not (np.isfinite(p).all() and p.all()):
            return None
        if not cycle:
            return xp.asarray(p)
        lowered = epsilon + margin  # only rounding makes this cycle gain
        margin *= 16
        p[:] = 1


def _is_beyond(A: Array, cycle: list[int], epsilon: float, is_maximum: bool) -> bool:
    """Return whether the exact product around a cycle is beyond the rounding of its entries."""
    from fractions import Fraction

    product, allowed = exact_product(cycle_weights(A, cycle)), (1 + Fraction(epsilon)) ** len(cycle)
    return product > allowed if is_maximum else product * allowed < 1


def cycle_weights(A: Array, cycle: list[int]) -> list[float]:
    """Return the weights of the edges of a cycle, in order."""
    xp = array_namespace(A)
    values = to_host_array(A[xp.asarray(cycle), xp.asarray([*cycle[1:], cycle[0]])])
    return [float(value) for value in values.astype(np.float64)]
