"""Close one triangle of a symmetric matrix, and mirror it, if ⊗ commutes: the rule `undirected`.

Cost: n³/2 pairs; workspace two panels of pivots. The result is bitwise identical to that of ``structure=False`` where
⊗ and ⊕ are exact. Otherwise a path may be added up in another order, with the same bound (docs/rounding.md). Source:
`semiring.algorithms.undirected`.
"""

from __future__ import annotations

from semiring.algorithms.undirected import UNDIRECTED
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.closures.questions import is_symmetric

__all__ = ["undirected"]

_LEAST = 768  # vertices: for fewer, half of the blocks is no less work, because there are so few blocks


@rule("undirected", structure=True, methods=("undirected",))
def undirected(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close one triangle of a symmetric matrix, and mirror it."""
    if d.structural_method:
        return NotApplicable(f"closed by its {d.structural_method}")
    if d.matrix.storage == "bits":
        return NotApplicable("packed bits have no triangles")
    if not d.semiring.commutative:
        return NotApplicable("⊗ does not commute")
    if q.n < _LEAST and q.method != "undirected":
        return NotApplicable("too few vertices for one triangle to be faster")
    if not q.ask(is_symmetric):
        return NotApplicable("not known to be undirected")
    costs = compare_costs("undirected", q.n, d.dtype)
    why = "undirected: one triangle is closed and mirrored"
    return Rewrite(why, d.replace(method=UNDIRECTED, structural_method="undirected"), costs=lambda call: costs)
