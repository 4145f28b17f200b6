"""A⁺ from A*: the paths of at least one edge.

Where ⊕ is idempotent they differ on the diagonal alone, which is found when the method is done (`Node.work`); else A is
kept, and A⁺ = A ⊗ A* is one more product. See
`semiring.algorithms.irreflexive` for cost and source.
"""

from __future__ import annotations

from typing import Any

from semiring.algorithms.irreflexive import irreflexive_product
from semiring.algorithms.packed import clear_tail
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.operands import memory_of
from semiring.chain.planner import Node
from semiring.chain.prices import Prices
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.kernels.engine import engine_of
from semiring.strips.last import LastRound

__all__ = ["plus"]


@step
def plus(p: Problem) -> Look:
    """A*, and what makes A⁺ of it."""
    yield not p.plus, "A* is wanted"
    if p.semiring.idempotent:
        last_round = None if p.strips is None else LastRound(p.matrix.diagonal())
        return Reduction("A⁺ differs from A* on the diagonal alone", p, last_round=last_round, quiet=True)
    why = f"⊕ of {p.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    star = p.but(p.facts, plus=False)
    return Reduction(why, p, [star], run=_product, prices=Prices(product=float(p.n**3)))


def _product(node: Node, D: Any) -> Any:
    p = node.inner
    A = p.matrix.array
    if p.matrix.storage == "bits" and not isinstance(A, BitMatrix):
        A = pack(A)
    elif p.in_place:
        A = A.copy()
    closed = node.children[0].run(D)
    D = memory_of(closed)
    irreflexive_product(engine_of(p.kernel_plan(), D), memory_of(A), D)
    if isinstance(closed, BitMatrix):
        clear_tail(p.semiring, closed)
    return closed
