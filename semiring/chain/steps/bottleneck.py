"""Undirected bottlenecks, where ⊕ and ⊗ are minimum and maximum: those of paths in a spanning tree.

Cost: O(n²). The entries equal those of ``structure=False``, where 0.0 and -0.0 meet but for the sign. Source:
`semiring.graphs.spanning_tree`.
"""

from __future__ import annotations

from semiring.algorithms.ordered import selects
from semiring.chain.prices import compared
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.spanning_tree import SPANNING_TREE

__all__ = ["bottleneck"]


@step
def bottleneck(p: Problem) -> Look:
    """The matrix, to be closed by its spanning tree."""
    yield not p.seen.symmetric, "not known to be undirected"
    yield not selects(p.semiring) or p.matrix.storage == "bits", "⊕ and ⊗ are not minimum and maximum of numbers"
    q, prices = p.but(p.facts, method=SPANNING_TREE), compared("bottleneck", p.n, p.dtype)
    return Reduction("undirected bottlenecks: read from a spanning tree", q, prices=prices)
