"""Close floats on a GPU as integers in the same order, if ⊕ and ⊗ only select: the rule `ordered`.

Cost: one pass to encode and one to decode. The result is bitwise identical. See `semiring.algorithms.ordered_integers`.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.ordered_integers import has_integer_order
from semiring.closures.entry_maps import OrderedIntegers
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule

__all__ = ["ordered"]


@rule("ordered")
def ordered(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close floats as int32 in the same order, if ⊕ and ⊗ only select and a sign bit is set."""
    if d.matrix.storage == "bits" or not has_integer_order(d.semiring, d.dtype):
        return NotApplicable("⊕ and ⊗ do not only select one of two floats")
    if q.kind.strips is not None:
        return NotApplicable("the matrix is closed by strips, which keep its dtype")
    capabilities = q.backend(d.semiring, d.dtype).capabilities
    if capabilities.passes is None:
        return NotApplicable("integers are not faster here")
    plan = d.kernel_plan(q.kind.options.threads)
    if plan.facts.nonnegative:
        return NotApplicable("no sign bit is set: floats are compared as integers as they are")
    closures = capabilities.closures
    if len(q.kind.shape) == 3 and closures is not None and q.n <= closures.stack_rows(plan):
        return NotApplicable("two extra passes would cost more than they save")
    dtype = np.dtype(np.int32)
    inner = d.semiring.zero_for(dtype)
    mapped = d.with_map(OrderedIntegers(d.semiring), dtype=dtype, inner=inner, nonnegative=False, at_least_zero=False)
    return Rewrite("⊕ and ⊗ only select: closed as integers in the order of the floats", mapped)
