"""Integers below 0 under potentials, whole numbers too: nothing is rounded, whatever the components.

Cost: some sweeps over the matrix to find them, or one elimination; no pass of their own. The bits are exact. Source and
proof: `semiring.algorithms.potentials.sweeps`.
"""

from __future__ import annotations

from semiring.algorithms.potentials.reweighting import reweighting
from semiring.chain.problem import Look, Problem, step
from semiring.chain.steps.shifted import is_signed, under, weights_of

__all__ = ["raised"]


@step
def raised(p: Problem) -> Look:
    """The integers under potentials.

    Raises `NegativeCycleError`; `IntegerOverflowError` where sums of weights may leave the range of int64.
    """
    m = p.matrix
    yield not is_signed(p) or m.array.dtype.kind != "i", "no integer is below 0"
    return under(p, reweighting(weights_of(p), p.request.threads, in_memory=not p.strips))
