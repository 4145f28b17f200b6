"""Dijkstra's algorithm on a dense matrix, where the caller asks for a method that takes edges.

Edges of unbounded gain are none of its business: then R-Kleene closes the others.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import takes_edges
from semiring.chain.problem import Look, Problem, Reduction, step
from semiring.chain.steps.minplus import as_min_plus
from semiring.chain.steps.sparse import dijkstra

__all__ = ["edges"]


@step
def edges(p: Problem) -> Look:
    """The graph of a matrix. Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats."""
    yield not takes_edges(p.method), "the method takes a matrix"
    m = p.matrix
    if as_min_plus(p)[0] == -np.inf:
        why = "an edge has unbounded gain: rkleene closes the matrix without such edges, and they are inserted last"
        return Reduction(why, p.but(p.facts, method="rkleene"))
    from scipy.sparse import coo_array

    rows, columns = np.nonzero(m.none != p.entries)
    why = "weights of very different size: rkleene closes each strong component with potentials of its own"
    found = dijkstra(p, coo_array((m.array[rows, columns], (rows, columns)), shape=m.shape))
    return found or Reduction(why, p.but(p.facts, method="rkleene"))
