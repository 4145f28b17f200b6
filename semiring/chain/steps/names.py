"""Names of vertices: a frame, a graph or a network is its matrix; the result gets the names back.

Cost: what it takes to read the edges. The bits are those of the matrix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from semiring.arrays.labels import Taken, names_vertices
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.errors import DivergenceError, DomainError, SemiringError
from semiring.io.inputs import AS_IT_IS, take

__all__ = ["names"]


@step
def names(p: Problem) -> Look:
    """The matrix of what names its vertices."""
    reading = p.request.reading
    yield reading == AS_IT_IS and not names_vertices(p.given), "the matrix comes without names"
    taken = take(p.given, p.semiring, reading)
    q = replace(p, given=taken.matrix)
    back = taken.back if p.request.out is None else None
    return Reduction("a matrix, whose vertices have names", None, [q], back, blame=partial(_named, taken), quiet=True)


def _named(taken: Taken, error: SemiringError, which: int) -> SemiringError:
    return error.named(taken.names) if isinstance(error, DivergenceError | DomainError) else error
