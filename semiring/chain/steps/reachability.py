"""Reachability in packed bits: rows joined along the edges between components, instead of products.

Cost: a pass over n bits for every edge that no other path replaces; where these are too many, that of a closure. The
bits are exact. Source: `semiring.graphs.reachability`.
"""

from __future__ import annotations

from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.reachability import by_components

__all__ = ["reachability"]


@step
def reachability(p: Problem) -> Look:
    """The words, to be joined row by row."""
    yield p.matrix.storage != "bits" or p.seen.search is None, "no packed bits, or nobody looked for components"
    yield not p.semiring.idempotent, "⊕ is not idempotent: it counts paths"
    found = p.seen.components
    if len(found) <= 1:
        why = "one strong component: every vertex reaches every other"
    else:
        why = f"{len(found)} strong components: rows are joined along the edges between them"
    return Reduction(why, p.but(p.facts, method=by_components(found)))
