"""Few edges of a dense matrix of floats: Dijkstra from every vertex, where that is predicted to be faster.

Dijkstra adds the weights of a path in float64 from its beginning on, and rounds once. The bits are those of
``structure=False`` where sums of weights are exact; else within the same bound, and under potentials of the whole
graph where weights are below 0: then its spread is that of the graph (docs/rounding.md). Cost: O(n (m + n) log n) for m
edges; the choice asks for the components, which the next rule wants too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from semiring.algorithms.johnson import SparseGraph, graph_potentials, sparse_graph
from semiring.algorithms.methods import method_named
from semiring.closures.call import Call, is_tropical
from semiring.closures.costs import CostEstimate, compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.separators import edges_are_listed, few_enough, may_separate
from semiring.threads import threads

__all__ = ["dijkstra", "graph_of", "searches"]


def graph_of(call: Call, entries: Any) -> tuple[SparseGraph, Any]:
    """The edges of a SciPy sparse matrix, and potentials; None for weights below 0 of very different size.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    sign = 1 if call.semiring.tropical == "min" else -1
    graph = replace(sparse_graph(entries, sign, call.kind.rounded_to), turned=call.kind.turned)
    return graph, graph_potentials(graph, call.kind.dtype)


def dijkstra(d: Draft, find: Callable[[Call], tuple[SparseGraph, Any]], **more: Any) -> Rewrite:
    """Search the graph that ``find`` finds from every vertex."""
    return Rewrite("Dijkstra from every vertex", d.but(close=partial(_search, find), in_home=True), True, **more)


def _search(find: Callable[[Call], tuple[SparseGraph, Any]], work: Work, home: Any) -> Any:
    call, d, k = work.call, work.draft, work.plan.kind
    graph, h = call.found(find)
    method = method_named(d.method)
    if call.explanation is not None:
        call.explanation.closed_by(method.name, "cpu")
    D = np.empty(k.shape, k.dtype) if home is None else home
    with threads(k.options.threads):
        method.close(graph, h, D, reflexive=not k.plus, progress=call.progress)
    return D


def _costs(call: Call) -> CostEstimate:
    seen, k = call.structure, call.kind
    rivals = {
        "undirected": lambda: seen.is_symmetric,
        "components": lambda: seen.search is not None,
        "separators": lambda: few_enough(seen, call.n) and not call.least < 0 and may_separate(seen, call.n),
    }
    pattern: Any = seen.pattern
    edges = pattern.indices.size
    return compare_costs("searches", call.n, k.dtype, seen, edges=edges, allowed=k.options.structure, **rivals)


def _graph(call: Call) -> tuple[SparseGraph, Any]:
    from scipy.sparse import csr_array

    pattern: Any = call.structure.pattern
    values = np.asarray(call.A)[pattern.rows, pattern.indices]
    return graph_of(call, csr_array((values, pattern.indices, pattern.starts), shape=call.A.shape))


@question()
def searches_are_cheapest(call: Call) -> bool:
    """Whether Dijkstra's algorithm from every vertex is predicted to be faster than what else closes the matrix."""
    return call.found(_costs).cheapest == "searches"


@question()
def listed_edges_have_potentials(call: Call) -> bool:
    """Whether Dijkstra's algorithm takes the edges. Raises `NegativeCycleError`, and `DomainError` for large sums."""
    return call.found(_graph)[1] is not None


@rule("searches", structure=True)
def searches(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Search the edges from every vertex.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    m, k = d.matrix, q.kind
    if d.chosen:
        return NotApplicable("not known to have few edges, or already closed by them")
    floats = m.dtype in (np.float32, np.float64) and m.dtype == k.dtype
    if not floats or not is_tropical(q.semiring):
        return NotApplicable("only distances in float32 and float64")
    if q.on_device:
        return NotApplicable("searches run on the CPU, and the matrix is on a GPU")
    if k.traced or m.has_changed_numbers:
        return NotApplicable("an edge has unbounded gain, or predecessors were requested")
    if not q.ask(edges_are_listed):
        return NotApplicable("not known to have few edges, or already closed by them")
    costs = _found_costs
    if not q.ask(searches_are_cheapest):
        return NotApplicable("Dijkstra from every vertex is predicted to be slower", costs)
    if not q.ask(listed_edges_have_potentials):
        return NotApplicable("weights of very different size: each component gets potentials of its own")
    return dijkstra(d.but(method="johnson"), _graph, costs=costs)


def _found_costs(call: Call) -> CostEstimate:
    return call.found(_costs)
