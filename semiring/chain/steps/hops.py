"""Edges of one weight: distances are hops, counted by breadth-first search of 512 vertices at a time.

Only where every sum of the weight is exact, so that the bits are those of ``structure=False``. Cost: a pass over the
edges for every level of the search, and 512 vertices; 4 bytes of memory an edge, or a bit an entry. Source:
`semiring.graphs.hops`.
"""

from __future__ import annotations

from semiring.algebra.catalogue import min_plus
from semiring.chain.problem import No, Problem, Reduction
from semiring.graphs.hops import by_hops, is_exact

__all__ = ["hops"]


def hops(p: Problem) -> No | Reduction:
    """The matrix, to be closed by counting edges."""
    m = p.matrix
    if p.seen is None or p.seen.weight is None or p.semiring is not min_plus:
        return No("no edges of one weight, in min-plus")
    if "hops" not in p.request.structure:
        return No("not among what may be spared")
    weight = m.sign * p.seen.weight.item()
    if not weight > 0 or any(map_.moves for map_ in m.maps):
        return No("the weight is not above 0")
    if not is_exact(weight, p.n, m.dtype, m.inner):
        return No(f"sums of {weight} are rounded")
    why = f"all edges have the weight {weight}: hops, by breadth-first search"
    return Reduction(why, p.but(p.facts, method=by_hops(weight, p.seen.edges)))
