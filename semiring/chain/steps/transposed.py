"""Columns for rows: (Aᵀ)* = (A*)ᵀ where ⊗ commutes, and kernels like the entries of a row to lie side by side.

Cost: nothing. The bits are those of the closure of the transpose.
"""

from __future__ import annotations

from typing import Any

from semiring.arrays.operands import adjacent
from semiring.chain.planner import Node
from semiring.chain.problem import Look, Problem, Reduction, step

__all__ = ["transposed"]


@step
def transposed(p: Problem) -> Look:
    """The transpose, where the result has adjacent columns and not rows."""
    home = p.home
    yield home is None or p.matrix.storage == "bits" or adjacent(home), "the rows of the result are adjacent"
    turns = home.ndim == 2 and p.semiring.commutative and adjacent(home.T)
    yield not turns, "neither rows nor columns of the result are adjacent"
    q = p.but(p.facts, array=p.matrix.array.T, turned=not p.matrix.turned, home=home.T)
    return Reduction("the transpose, whose rows are adjacent", p, [q], close=_transposed, in_home=True, quiet=True)


def _transposed(node: Node, D: Any) -> Any:
    node.children[0].solve(D.T)
    return D
