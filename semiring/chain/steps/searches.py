"""Few edges of a dense matrix of floats: Dijkstra from every vertex, where that is predicted to be faster.

Dijkstra adds the weights of a path in float64 from its beginning on, and rounds once. Cost: O(n (m + n) log n) for m
edges; the choice asks for the components, which the next step wants too.
"""

from __future__ import annotations

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.schedule import dense_operations, search_operations
from semiring.chain.problem import No, Problem, Reduction, is_tropical
from semiring.chain.steps.sparse import dijkstra

__all__ = ["searches"]

_HALF = 0.6  # of the time of n³ pairs that one triangle takes


def searches(p: Problem) -> No | Reduction:
    """The edges, to be searched from every vertex.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    m, names = p.matrix, p.request.structure
    if p.seen is None or p.seen.pattern is None or isinstance(p.method, Method):
        return No("not known to have few edges, or closed by them already")
    if not is_tropical(p.request.semiring) or m.dtype not in (np.float32, np.float64) or m.dtype != m.array.dtype:
        return No("only of distances in float32 and float64")
    if p.inspect is not None or any(map_.moves for map_ in m.maps):
        return No("no edge of unbounded gain, and no predecessors")
    pattern = p.seen.pattern
    by_edges, dense = search_operations(p.n, pattern.indices.size), dense_operations(p.n, m.dtype.itemsize)
    if by_edges < dense and p.seen.symmetric and "undirected" in names:
        dense *= _HALF
    if by_edges < dense and "components" in names and p.seen.search is not None:
        dense = min(dense, dense_operations(p.n, m.dtype.itemsize) * max(0.1, p.seen.components.pairs() / p.n**3))
    if dense <= by_edges:
        return No(f"the work of {by_edges:.2g} pairs by Dijkstra from every vertex, of {dense:.2g} otherwise", "data")
    from scipy.sparse import csr_array

    values = np.asarray(m.array)[pattern.rows, pattern.indices]
    entries = csr_array((values, pattern.indices, pattern.starts), shape=(p.n, p.n))
    given = p.but(p.facts, method="johnson", semiring=p.request.semiring)
    return dijkstra(given, entries) or No("weights of very different size: each component under its own potentials")
