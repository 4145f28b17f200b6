"""A⁺ from A*: the paths of at least one edge.

Where ⊕ is idempotent they differ on the diagonal alone; else A is kept, and A⁺ = A ⊗ A* is one more product. Either is
done when the method is (`MethodRun.drop_empty_paths`). See `semiring.algorithms.irreflexive` for cost and source.
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
    """Close A*, and make A⁺ of it."""
    if not d.plus:
        return NotApplicable("A* is wanted")
    if d.semiring.idempotent:
        matrix = d.matrix

        def loops(call: Call) -> LastRound:
            return LastRound(matrix.bound(call).diagonal(call.A))

        why = "A⁺ differs from A* on the diagonal alone"
        last_round = None if q.kind.strips is None else loops
        return Rewrite(why, d, quiet=True, by_rows=False, last_round=last_round)
    why = f"⊕ of {d.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    costs = CostEstimate(product=float(q.n**3))
    return Rewrite(why, d, by_rows=False, costs=lambda call: costs)
