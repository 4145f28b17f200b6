"""Undirected bottlenecks, where ⊕ and ⊗ are minimum and maximum: those of paths in a spanning tree.

Cost: O(n²). The entries equal those of ``structure=False``, where 0.0 and -0.0 meet but for the sign. Source:
`semiring.graphs.spanning_tree`.
"""

from __future__ import annotations

from semiring.algorithms.ordered import selects
from semiring.chain.problem import No, Problem, Reduction
from semiring.graphs.spanning_tree import SPANNING_TREE

__all__ = ["bottleneck"]


def bottleneck(p: Problem) -> No | Reduction:
    """The matrix, to be closed by its spanning tree."""
    if p.seen is None or not p.seen.symmetric:
        return No("not known to be undirected")
    if not selects(p.semiring) or p.matrix.storage == "bits":
        return No("⊕ and ⊗ are no minimum and maximum of numbers")
    return Reduction("undirected bottlenecks: those of a spanning tree", p.but(p.facts, method=SPANNING_TREE))
