"""A⁺ from A*: the paths of at least one edge.

Where ⊕ is idempotent they differ on the diagonal alone; else A is kept, and A⁺ = A ⊗ A* is one more product. See
`semiring.algorithms.irreflexive` for cost and source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semiring.algorithms.irreflexive import cycles_from_closure, diagonal, irreflexive_product
from semiring.algorithms.packed import clear_tail, set_cycles
from semiring.arrays.bits import BitMatrix, pack
from semiring.chain.problem import No, Problem, Reduction
from semiring.kernels import backend_for
from semiring.kernels.engine import Engine, make_plan
from semiring.kernels.machines import closure_speed

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["plus"]


def plus(p: Problem) -> No | Reduction:
    """A*, and what makes A⁺ of it."""
    if not p.plus:
        return No("A* is wanted")
    star = p.but(p.facts, plus=False)
    if p.semiring.idempotent:
        return _Cycles("A⁺ differs from A* on the diagonal alone", p, [star], True, _loops(p))
    why = f"⊕ of {p.semiring.name} is not idempotent: A⁺ = A ⊗ A*, and A is kept until then"
    return _Product(why, p, [star])


def _loops(p: Problem) -> Any:
    """The diagonal of A, as the kernels see it."""
    m = p.matrix
    if isinstance(m.array, BitMatrix):
        return diagonal(m.array.words, "bits")
    return m.diagonal()


def _engine(p: Problem, A: Any) -> Engine:
    """The products of the problem's kernels."""
    m = p.matrix
    backend = backend_for(A, p.semiring, m.dtype, m.storage)
    return Engine(backend, p.plan_of(make_plan), closure_speed(backend.name, m.dtype).panel)


@dataclass
class _Cycles(Reduction):
    loops: Any = None

    def run(self, node: Node, D: Any) -> Any:
        assert self.mapped is not None
        closed = node.children[0].run(D)
        if isinstance(closed, BitMatrix):
            set_cycles(self.mapped.semiring, closed, self.loops)
        else:
            cycles_from_closure(_engine(self.mapped, closed), self.loops, closed)
        return closed


class _Product(Reduction):
    def run(self, node: Node, D: Any) -> Any:
        p = self.mapped
        assert p is not None
        A = p.matrix.array
        if p.matrix.storage == "bits" and not isinstance(A, BitMatrix):
            A = pack(A)
        elif p.in_place:
            A = A.copy()
        closed = node.children[0].run(D)
        if isinstance(closed, BitMatrix):
            irreflexive_product(_engine(p, closed.words), A.words, closed.words)
            clear_tail(p.semiring, closed)
        else:
            irreflexive_product(_engine(p, closed), A, closed)
        return closed
