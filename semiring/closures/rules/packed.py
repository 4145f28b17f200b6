"""Close a bool matrix as packed bits, 32 truth values to a word: the rule `packed`.

Cost: two passes, n² / 8 bytes. The result is identical.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import method_named
from semiring.algorithms.schedule import dense_operations
from semiring.closures.costs import CostEstimate
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.kernels import can_pack
from semiring.kernels.machines import closure_speed

__all__ = ["packed"]


@rule("packed")
def packed(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close a bool matrix as packed bits, 32 truth values to a word."""
    m, n = d.matrix, q.n
    if m.dtype != np.bool_ or m.storage == "bits":
        return NotApplicable("not truth values of one byte each")
    if not q.may_choose_method or len(q.kind.shape) != 2 or m.maps:
        return NotApplicable("a method was named, or the input is a stack")
    is_requested = q.has_structural_method and "bits" in method_named(q.method).storages
    if not is_requested and n < closure_speed(q.backend(d.semiring, m.dtype).name, m.dtype).pack:
        return NotApplicable("too few vertices for packing to be faster")
    if not can_pack(d.semiring, q.on_device):
        return NotApplicable("the backend has no packed bits for this semiring and dtype")
    method = d.method if "bits" in method_named(d.method).storages else "rkleene"
    costs = CostEstimate({"bits": dense_operations(n, 1 / 8), "bytes": dense_operations(n, 1)})
    bits = d.replace(storage="bits", method=method, nonnegative=False, at_least_zero=False)
    return Rewrite("a bool matrix of this size: 32 entries to a word", bits, costs=lambda call: costs)
