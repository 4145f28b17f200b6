"""A⁺ from A*: the paths of at least one edge.

Where ⊕ is idempotent they differ on the diagonal alone; else A is kept, and A⁺ = A ⊗ A* is one more product. See
`semiring.algorithms.irreflexive` for cost and source.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from semiring.algorithms.irreflexive import cycles_from_closure, diagonal, irreflexive_product
from semiring.algorithms.packed import clear_tail, set_cycles
from semiring.arrays.bits import BitMatrix, pack
from semiring.chain.leaf import engine_of
from semiring.chain.problem import No, Problem, Reduction

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["loops_of", "plus"]


def plus(p: Problem) -> No | Reduction:
    """A*, and what makes A⁺ of it."""
    if not p.plus:
        return No("A* is wanted")
    star = p.but(p.facts, plus=False)
    if p.semiring.idempotent:
        return Reduction(
            "A⁺ differs from A* on the diagonal alone", p, [star], partial(_cycles, loops_of(p)), quiet=True
        )
    why = f"⊕ of {p.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    return Reduction(why, p, [star], _product)


def loops_of(p: Problem) -> Any:
    """The diagonal of A, as the kernels see it."""
    m = p.matrix
    if isinstance(m.array, BitMatrix):
        return diagonal(m.array.words, "bits")
    return m.diagonal()


def _cycles(loops: Any, node: Node, D: Any) -> Any:
    p, closed = node.inner, node.children[0].run(D)
    if isinstance(closed, BitMatrix):
        set_cycles(p.semiring, closed, loops)
    else:
        cycles_from_closure(engine_of(p.kernel_plan(), closed), loops, closed)
    return closed


def _product(node: Node, D: Any) -> Any:
    p = node.inner
    A = p.matrix.array
    if p.matrix.storage == "bits" and not isinstance(A, BitMatrix):
        A = pack(A)
    elif p.in_place:
        A = A.copy()
    closed = node.children[0].run(D)
    if isinstance(closed, BitMatrix):
        irreflexive_product(engine_of(p.kernel_plan(), closed.words), A.words, closed.words)
        clear_tail(p.semiring, closed)
    else:
        irreflexive_product(engine_of(p.kernel_plan(), closed), A, closed)
    return closed
