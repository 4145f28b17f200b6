"""An undirected graph, where ⊗ commutes: one triangle of the matrix is closed, and mirrored.

Cost: n³/2 pairs; workspace two panels of pivots. The bits are those of ``structure=False`` where ⊗ and ⊕ are exact;
else a path may be added up in another order, with the same bound (docs/rounding.md). Source:
`semiring.graphs.undirected`.
"""

from __future__ import annotations

from semiring.chain.prices import compared
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.undirected import UNDIRECTED

__all__ = ["undirected"]

_LEAST = 768  # vertices: fewer are so few blocks that half of them is no less work


@step
def undirected(p: Problem) -> Look:
    """The matrix, of which one triangle is to be closed."""
    yield not p.seen.symmetric, "not known to be undirected"
    yield p.chosen, f"closed by its {p.chosen}"
    yield p.matrix.storage == "bits", "packed bits have no triangles"
    yield not p.semiring.commutative, "⊗ does not commute"
    yield p.n < _LEAST, "too few vertices for one triangle to be faster"
    q, prices = p.but(p.facts, method=UNDIRECTED), compared("undirected", p.n, p.dtype)
    return Reduction("undirected: one triangle is closed and mirrored", q, prices=prices)
