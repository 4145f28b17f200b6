"""Compute A⁺, the sum of paths of at least one edge, from A*: the rule `plus`.

If ⊕ is idempotent, A⁺ and A* differ only on the diagonal. Otherwise A is kept, and A⁺ = A ⊗ A* is one more product.
`MethodRun.drop_empty_paths` runs after the method. Cost and source: `semiring.algorithms.irreflexive_closure`.
"""

from __future__ import annotations

from semiring.closures.call import Call
from semiring.closures.costs import CostEstimate
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.out_of_core.last_round import LastRound

__all__ = ["plus"]


@rule("plus")
def plus(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Compute A⁺ from A*, if the caller requested paths of at least one edge."""
    if not d.plus:
        return NotApplicable("A* is wanted")
    if d.semiring.idempotent:
        matrix = d.matrix

        def loops(call: Call) -> LastRound:
            return LastRound(matrix.bind(call).diagonal(call.A))

        why = "A⁺ differs from A* on the diagonal alone"
        last_round = None if q.kind.strips is None else loops
        return Rewrite(why, d, quiet=True, is_rowwise=False, last_round=last_round)
    why = f"⊕ of {d.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    costs = CostEstimate(product=float(q.n**3))
    return Rewrite(why, d, is_rowwise=False, costs=lambda call: costs)
