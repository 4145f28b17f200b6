"""Names of vertices: a frame, a graph or a network is its matrix; the result gets the names back.

Cost: what it takes to read the edges. The bits are those of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semiring.arrays.labels import Taken, names_vertices
from semiring.chain.problem import No, Problem, Reduction
from semiring.errors import DivergenceError, SemiringError

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["names"]


_NOTHING = Taken(None, None, lambda result: result)


@dataclass
class _Named(Reduction):
    taken: Taken = _NOTHING
    out: Any = None

    def blame(self, error: SemiringError, which: int) -> SemiringError:
        return error.named(self.taken.names) if isinstance(error, DivergenceError) else error

    def give(self, child: Node) -> Any:
        found = super().give(child)
        return self.taken.back(found) if self.out is None else self.out


def names(p: Problem) -> No | Reduction:
    """The matrix of what names its vertices."""
    if not names_vertices(p.given):
        return No("the vertices are numbers")
    from semiring.io.inputs import take

    taken = take(p.given, p.semiring)
    q = replace(p, given=taken.matrix)
    return _Named("a matrix, whose vertices have names", None, [q], True, taken, p.request.out)
