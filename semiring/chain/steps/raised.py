"""Integers below 0 under potentials, whole numbers too: nothing is rounded, whatever the components.

Cost: some sweeps over the matrix to find them, or one elimination; no pass of their own. The bits are exact. Source and
proof: `semiring.algorithms.potentials`.
"""

from __future__ import annotations

from semiring.algorithms.reweighting import reweighting
from semiring.chain.problem import No, Problem, Reduction
from semiring.chain.steps.shifted import is_signed, under, weights_of

__all__ = ["raised"]


def raised(p: Problem) -> No | Reduction:
    """The integers under potentials.

    Raises `NegativeCycleError`; `IntegerOverflowError` where sums of weights may leave the range of int64.
    """
    m = p.matrix
    if not is_signed(p) or m.array.dtype.kind != "i":
        return No("no integer is below 0")
    return under(p, reweighting(weights_of(p), p.request.threads, in_memory=not p.strips))
