"""What a look at the graph finds, for the steps that spare work: symmetry, few edges, one weight, components.

Cost: a sixteenth of the matrix is read where there is nothing to find, else some passes. Nothing is changed.
"""

from __future__ import annotations

from semiring.chain.problem import No, Problem, Reduction
from semiring.graphs.structure import structure_of

__all__ = ["structure", "worth_a_look"]

_LEAST = 1536  # vertices: of fewer, a plan for each matrix and the look take more than 3 % of a dense closure


def worth_a_look(n: int) -> bool:
    """Whether a graph of so many vertices is looked at."""
    return n >= _LEAST


def structure(p: Problem) -> No | Reduction:
    """The same problem, with what was found."""
    m, request = p.matrix, p.request
    if not request.structure:
        return No("nobody may ask for it")
    if request.method != "auto":
        return No("a method was named")
    if len(m.shape) != 2 or p.strips or m.on_device:
        return No("only of one matrix in the memory of the host")
    if not worth_a_look(p.n):
        return No("too few vertices to be worth a look")
    if p.blank:
        return No("the entries decide", "data")
    found = p.seen or structure_of(m.array, m.none, request.threads)
    return Reduction(
        str(found) or "neither undirected nor of few edges, nor all of one weight",
        p.but(p.facts, seen=found),
        quiet=True,
    )
