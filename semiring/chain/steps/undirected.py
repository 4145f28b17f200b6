"""An undirected graph, where ⊗ commutes: one triangle of the matrix is closed, and mirrored.

Cost: n³/2 pairs; workspace two panels of pivots. The bits are those of ``structure=False`` where ⊗ and ⊕ are exact;
else a path may be added up in another order, with the same bound (docs/rounding.md). Source:
`semiring.graphs.undirected`.
"""

from __future__ import annotations

from semiring.algorithms.methods import Method
from semiring.chain.problem import No, Problem, Reduction
from semiring.graphs.undirected import UNDIRECTED

__all__ = ["undirected"]

_LEAST = 768  # vertices: fewer are so few blocks that half of them is no less work


def undirected(p: Problem) -> No | Reduction:
    """The matrix, of which one triangle is to be closed."""
    if p.seen is None or not p.seen.symmetric:
        return No("not known to be undirected")
    if isinstance(p.method, Method):
        return No(f"closed by its {p.method.name.replace('_', ' ')}")
    if not p.semiring.commutative or p.matrix.storage == "bits":
        return No("⊗ does not commute" if p.matrix.storage != "bits" else "words have no triangles")
    if p.n < _LEAST:
        return No("too few vertices for two triangles")
    return Reduction("undirected: one triangle is closed, and mirrored", p.but(p.facts, method=UNDIRECTED))
