"""A⁺ from A*: the paths of at least one edge.

Where ⊕ is idempotent they differ on the diagonal alone; else A is kept, and A⁺ = A ⊗ A* is one more product. Either is
done when the method is (`Leaf.close`). See `semiring.algorithms.irreflexive` for cost and source.
"""

from __future__ import annotations

from semiring.chain.prices import Prices
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.strips.last import LastRound

__all__ = ["plus"]


@step
def plus(p: Problem) -> Look:
    """A*, and what makes A⁺ of it."""
    yield not p.plus, "A* is wanted"
    if p.semiring.idempotent:
        last_round = None if p.strips is None else LastRound(p.matrix.diagonal())
        why = "A⁺ differs from A* on the diagonal alone"
        return Reduction(why, p, by_rows=False, last_round=last_round, quiet=True)
    why = f"⊕ of {p.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    return Reduction(why, p, by_rows=False, prices=Prices(product=float(p.n**3)))
