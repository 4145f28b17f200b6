"""Close undirected bottlenecks, with ⊕ and ⊗ minimum and maximum, by a spanning tree: the rule `bottleneck`.

Cost: O(n²). The entries equal those of ``structure=False``; only the sign of a 0 may differ where 0.0 and -0.0 meet.
Source: `semiring.algorithms.spanning_tree`.
"""

from __future__ import annotations

from semiring.algorithms.ordered_integers import has_min_and_max
from semiring.algorithms.spanning_tree import SPANNING_TREE
from semiring.closures.costs import compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, rule
from semiring.closures.questions import is_symmetric

__all__ = ["bottleneck"]


@rule("bottleneck", structure=True, methods=("spanning_tree",))
def bottleneck(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close an undirected bottleneck matrix by the paths of a spanning tree."""
    if not has_min_and_max(d.semiring) or d.matrix.storage == "bits":
        return NotApplicable("⊕ and ⊗ are not minimum and maximum of numbers")
    if not q.ask(is_symmetric):
        return NotApplicable("not known to be undirected")
    costs = compare_costs("bottleneck", q.n, d.dtype)
    why = "undirected bottlenecks: read from a spanning tree"
    return Rewrite(why, d.replace(method=SPANNING_TREE, structural_method="spanning tree"), costs=lambda call: costs)
