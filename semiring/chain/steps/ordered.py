"""Floats as integers in the same order, on a GPU, for a semiring that does nothing but select.

Cost: a pass there and one back. The bits are the same. See `semiring.algorithms.ordered`.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.ordered import has_order
from semiring.chain.maps import Ordered
from semiring.chain.problem import Facts, Look, Problem, Reduction, step

__all__ = ["ordered"]


@step
def ordered(p: Problem) -> Look:
    """The same matrix as int32, unless all sign bits are clear: then kernels compare floats as integers anyway."""
    m = p.matrix
    yield m.storage == "bits" or not has_order(p.semiring, m.dtype), "⊕ and ⊗ do not only select one of two floats"
    capabilities = p.backend.capabilities
    yield capabilities.passes is None, "integers are not faster here"
    plan = p.kernel_plan()
    yield plan.facts.nonnegative, "no sign bit is set: floats are compared as integers as they are"
    stacks = capabilities.stack_closures
    small = len(m.shape) == 3 and stacks is not None and p.n <= stacks.stack_rows(plan)
    yield small, "two extra passes would cost more than they save"
    dtype = np.dtype(np.int32)
    q = p.mapped(Ordered(p.semiring), Facts(), dtype=dtype, inner=p.semiring.zero_for(dtype))
    return Reduction("⊕ and ⊗ only select: closed as integers in the order of the floats", q)
