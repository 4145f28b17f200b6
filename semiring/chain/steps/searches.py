"""Few edges of a dense matrix of floats: Dijkstra from every vertex, where that is predicted to be faster.

Dijkstra adds the weights of a path in float64 from its beginning on, and rounds once. The bits are those of
``structure=False`` where sums of weights are exact; else within the same bound, and under potentials of the whole
graph where weights are below 0: then its spread is that of the graph (docs/rounding.md). Cost: O(n (m + n) log n) for m
edges; the choice asks for the components, which the next step wants too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.chain.prices import compared
from semiring.chain.problem import Look, No, Problem, is_tropical, step
from semiring.chain.steps.reweighted import is_signed
from semiring.chain.steps.separators import few_enough, may_separate
from semiring.chain.steps.sparse import dijkstra

__all__ = ["searches"]


@step
def searches(p: Problem) -> Look:
    """The edges, to be searched from every vertex.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    m = p.matrix
    pattern: Any = p.seen.pattern
    yield pattern is None or p.chosen, "not known to have few edges, or already closed by them"
    floats = m.dtype in (np.float32, np.float64) and m.dtype == m.array.dtype
    yield not floats or not is_tropical(p.request.semiring), "only distances in float32 and float64"
    yield m.on_device, "searches run on the CPU, and the matrix is on a GPU"
    yield p.inspect is not None or m.moved, "an edge has unbounded gain, or predecessors were requested"
    rivals = {
        "undirected": lambda: p.seen.symmetric,
        "components": lambda: p.seen.search is not None,
        "separators": lambda: few_enough(p.seen, p.n) and not is_signed(p) and may_separate(p.seen, p.n),
    }
    edges, spared = pattern.indices.size, p.request.structure
    prices = compared("searches", p.n, m.dtype, p.seen, edges=edges, spared=spared, **rivals)
    yield prices.cheapest != "searches", "Dijkstra from every vertex is predicted to be slower", prices
    from scipy.sparse import csr_array

    values = np.asarray(p.entries)[pattern.rows, pattern.indices]
    entries = csr_array((values, pattern.indices, pattern.starts), shape=(p.n, p.n))
    given = p.but(p.facts, method="johnson", semiring=p.request.semiring)
    why = "weights of very different size: each component gets potentials of its own"
    return dijkstra(given, entries, prices) or No(why)
