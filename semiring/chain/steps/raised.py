"""Integers below 0 under potentials, whole numbers too: nothing is rounded, whatever the components.

Cost: some sweeps over the matrix to find them, or one elimination; no pass of their own. The bits are exact. Source and
proof: `semiring.algorithms.potentials`.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.weights import Weights
from semiring.chain.problem import No, Problem, Reduction
from semiring.chain.steps.shifted import is_signed, potentials_of, under

__all__ = ["raised"]


def raised(p: Problem) -> No | Reduction:
    """The integers under potentials.

    Raises `NegativeCycleError`; `IntegerOverflowError` where sums of weights may leave the range of int64.
    """
    m = p.matrix
    if not is_signed(p) or m.array.dtype.kind != "i":
        return No("no integer is below 0")
    low, high = (p.known.least, p.known.greatest) if m.sign > 0 else (-p.known.greatest, -p.known.least)
    weights = Weights.of(m.array, m.sign, m.none, low, high)
    return under(p, potentials_of(p, weights).astype(np.int64))  # whole numbers in any case
