"""What a look at the graph finds, for the steps that spare work: symmetry, few edges, one weight, components.

Cost: a sixteenth of the matrix is read where there is nothing to find, else some passes. Nothing is changed.
"""

from __future__ import annotations

from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.graphs.structure import UNSEEN, structure_of

__all__ = ["structure", "worth_a_look"]

_LEAST = 1536  # vertices: of fewer, a plan for each matrix and the look take more than 3 % of a dense closure


def worth_a_look(n: int) -> bool:
    """Whether a graph of so many vertices is looked at."""
    return n >= _LEAST


@step
def structure(p: Problem) -> Look:
    """The same problem, with what was found."""
    m, request = p.matrix, p.request
    yield not request.structure, "nobody may ask for it"
    yield request.method != "auto", "a method was named"
    yield len(m.shape) != 2 or p.strips or m.on_device, "only of one matrix in the memory of the host"
    yield not worth_a_look(p.n), "too few vertices to be worth a look"
    yield p.blank, "the entries decide", "data"
    found = structure_of(m.array, m.none, request.threads) if p.seen is UNSEEN else p.seen
    why = str(found) or "neither undirected nor of few edges, nor all of one weight"
    return Reduction(why, p.but(p.facts, seen=found), quiet=True)
