"""Run Dijkstra's algorithm from every vertex of a dense matrix with few edges, if it is faster: the rule `searches`.

It adds the weights of a path in float64 from the first edge on, and rounds once. The result is bitwise identical to
that of ``structure=False`` where sums of weights are exact, else within the same bound. Weights below 0 are searched
under potentials of the whole graph: then the spread in the bound is that of the graph (docs/rounding.md).

Cost: O(n (m + n) log n) for m edges. The prediction needs the components, which the next rule reads too.
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
from semiring.closures.rules.separators import edges_are_listed, has_few_edges, may_separate
from semiring.threads import threads

__all__ = ["dijkstra", "graph_of", "searches"]


def graph_of(call: Call, entries: Any) -> tuple[SparseGraph, Any]:
    """Return the edges of a SciPy sparse matrix, and potentials, or None if these must be exact.

    Potentials must be exact if some weights are below 0 and the weights differ so much in size that float64 would lose
    one.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the range of floats.
    """
    sign = 1 if call.semiring.tropical == "min" else -1
    graph = replace(sparse_graph(entries, sign, call.kind.rounded_to), is_reversed=call.kind.is_transposed)
    return graph, graph_potentials(graph, call.kind.dtype)


def dijkstra(d: Draft, find: Callable[[Call], tuple[SparseGraph, Any]], **rewrite_fields: Any) -> Rewrite:
    """Return the rewrite that searches a graph from every vertex; ``find(call)`` returns the graph."""
    return Rewrite(
        "Dijkstra from every vertex",
        d.replace(close=partial(_search, find), needs_out_buffer=True),
        True,
        **rewrite_fields,
    )


def _search(find: Callable[[Call], tuple[SparseGraph, Any]], work: Work, out_buffer: Any) -> Any:
    call, d, k = work.call, work.draft, work.plan.kind
    graph, h = call.result_of(find)
    method = method_named(d.method)
    if call.explanation is not None:
        call.explanation.set_method(method.name, "cpu")
    D = np.empty(k.shape, k.dtype) if out_buffer is None else out_buffer
    with threads(k.options.threads):
        method.close(graph, h, D, reflexive=not k.plus, progress=call.progress)
    return D


def _predict_costs(call: Call) -> CostEstimate:
    graph, k = call.structure, call.kind
    rivals = {
        "undirected": lambda: graph.is_symmetric,
        "components": lambda: graph.search is not None,
        "separators": lambda: (
            has_few_edges(graph, call.n) and not call.least_weight < 0 and may_separate(graph, call.n)
        ),
    }
    pattern: Any = graph.pattern
    edges = pattern.indices.size
    return compare_costs("searches", call.n, k.dtype, graph, edges=edges, allowed_rules=k.options.structure, **rivals)


def _make_graph(call: Call) -> tuple[SparseGraph, Any]:
    from scipy.sparse import csr_array

    pattern: Any = call.structure.pattern
    values = np.asarray(call.A)[pattern.rows, pattern.indices]
    return graph_of(call, csr_array((values, pattern.indices, pattern.starts), shape=call.A.shape))


@question()
def searches_are_cheapest(call: Call) -> bool:
    """Return whether Dijkstra's algorithm from every vertex is predicted to be faster than all rivals."""
    return call.result_of(_predict_costs).cheapest == "searches"


@question()
def listed_edges_have_potentials(call: Call) -> bool:
    """Return whether the edges have floating-point potentials, as Dijkstra's algorithm requires.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the range of floats.
    """
    return call.result_of(_make_graph)[1] is not None


@rule("searches", structure=True)
def searches(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Search from every vertex by Dijkstra's algorithm, if a dense matrix of floats has few edges.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the range of floats.
    """
    m, k = d.matrix, q.kind
    if d.structural_method:
        return NotApplicable("not known to have few edges, or already closed by them")
    floats = m.dtype in (np.float32, np.float64) and m.dtype == k.dtype
    if not floats or not is_tropical(q.semiring):
        return NotApplicable("only distances in float32 and float64")
    if q.on_device:
        return NotApplicable("searches run on the CPU, and the matrix is on a GPU")
    if k.needs_predecessors or m.may_change_numbers:
        return NotApplicable("a rule has changed the weights, or predecessors were requested")
    if not q.ask(edges_are_listed):
        return NotApplicable("not known to have few edges, or already closed by them")
    costs = _predicted_costs
    if not q.ask(searches_are_cheapest):
        return NotApplicable("Dijkstra from every vertex is predicted to be slower", costs)
    if not q.ask(listed_edges_have_potentials):
        return NotApplicable("weights of very different size: each component gets potentials of its own")
    return dijkstra(d.replace(method="johnson"), _make_graph, costs=costs)


def _predicted_costs(call: Call) -> CostEstimate:
    return call.result_of(_predict_costs)
