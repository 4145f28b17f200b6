"""An undirected graph, where ⊗ commutes: one triangle of the matrix is closed, and mirrored.

Cost: n³/2 pairs; workspace two panels of pivots. The bits are those of ``structure=False`` where ⊗ and ⊕ are exact;
else a path may be added up in another order, with the same bound (docs/rounding.md). Source:
`semiring.algorithms.undirected`.
"""

from __future__ import annotations

from semiring.algorithms.undirected import UNDIRECTED
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.closures.questions import is_symmetric

__all__ = ["undirected"]

_LEAST = 768  # vertices: fewer are so few blocks that half of them is no less work


@rule("undirected", structure=True, methods=("undirected",))
def undirected(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close one triangle of the matrix."""
    if d.chosen:
        return NotApplicable(f"closed by its {d.chosen}")
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
    return Rewrite(why, d.but(method=UNDIRECTED, chosen="undirected"), costs=lambda call: costs)
