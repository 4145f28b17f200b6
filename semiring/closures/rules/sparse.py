"""Close a sparse matrix by Dijkstra's algorithm or by hops if these are faster, else densely: the rule `sparse`.

Entries that the matrix does not store are no edges. `semiring.algorithms.breadth_first_search` counts hops from the
stored edges. Cost: O(n (m + n) log n) for m edges, or n³. Rounding and bounds are those of `searches` and `hops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.breadth_first_search import NAME, is_exact, write_hops
from semiring.algorithms.methods import takes_edges
from semiring.algorithms.stars import check_star
from semiring.arrays.operands import as_array
from semiring.arrays.sparse import stored_entries, warn_of_duplicates
from semiring.arrays.zero_conventions import warn_of_other_zeros
from semiring.closures.call import Call, is_tropical
from semiring.closures.costs import CostEstimate, compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule, solve
from semiring.closures.rules.searches import dijkstra, graph_of
from semiring.closures.rules.separators import has_few_edges, may_separate
from semiring.closures.rules.structure import may_analyze
from semiring.graphs.graph_structure import NO_STRUCTURE, Structure, analyze_sparse
from semiring.graphs.strongly_connected import has_compiled_loops, run_strips

__all__ = ["sparse"]

_LEAST = 256  # vertices: from here on, counting hops takes at most half the time of closing the dense matrix


def _find_structure(call: Call) -> Structure:
    """Return the structure of the graph; for few vertices only if all stored weights are equal."""
    A, options = call.A, call.kind.options
    has_kernels = A.dtype.kind in "fiub" and has_compiled_loops(A.dtype)
    if options.method != "auto" or not options.structure or not has_kernels:
        return NO_STRUCTURE
    if not may_analyze(A.shape[0]):
        stored = stored_entries(A)[2]
        if A.shape[0] < _LEAST or not stored.size or not (stored == stored[0]).all():
            return NO_STRUCTURE
    return analyze_sparse(A) or NO_STRUCTURE


def _has_shortest_paths(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether Dijkstra's algorithm computes closures of this semiring and dtype."""
    return is_tropical(semiring) and dtype.kind == "f" and has_compiled_loops(dtype) and semiring.supports(dtype)


def _sign(call: Call) -> int:
    return 1 if call.semiring.tropical == "min" else -1


def _predict_costs(call: Call) -> CostEstimate:
    """Predict the costs of Dijkstra's algorithm, and of the rules that might close the dense matrix."""
    k, graph, n = call.kind, call.result_of(_find_structure), call.n
    weight = 0.0 if graph.weight is None else float(graph.weight) * _sign(call)
    exact = weight > 0 and is_exact(weight, n, k.dtype, np.inf)
    rivals = {
        "hops": lambda: exact,
        "undirected": lambda: graph.is_symmetric,
        "components": lambda: graph.search is not None,
        "separators": lambda: has_few_edges(graph, n) and may_separate(graph, n),
    }
    return compare_costs("searches", n, k.dtype, graph, edges=call.A.nnz, allowed_rules=k.options.structure, **rivals)


def _make_graph(call: Call) -> Any:
    """Return the edges and their potentials; None if an entry is infinite, and the dense matrix must be closed."""
    rows, columns, stored = stored_entries(call.A)
    if np.isinf(stored).any():
        return None
    if np.unique(rows.astype(np.int64) * call.A.shape[1] + columns).size < stored.size:
        warn_of_duplicates(call.semiring)
    return graph_of(call, call.A)


@question()
def searches_of_stored_edges_are_cheapest(call: Call) -> bool:
    """Return whether Dijkstra's algorithm from every vertex is predicted to be faster than the dense matrix."""
    return call.result_of(_predict_costs).cheapest == "searches"


@question()
def stored_edges_have_potentials(call: Call) -> str:
    """Return "infinite" if an edge has no finite weight, else whether the edges have floating-point potentials."""
    result = call.result_of(_make_graph)
    return "infinite" if result is None else "no" if result[1] is None else "yes"


@question()
def stored_edges_have_one_exact_weight(call: Call) -> bool:
    """Return whether all edges have one weight above 0 whose sums are exact, and no loop is below 0."""
    A, weight, dtype = call.A, call.result_of(_find_structure).weight, call.kind.dtype
    if weight is None or not (weight > 0 and stored_entries(A)[2].min() >= 0):
        return False
    return bool(is_exact(weight.item(), A.shape[0], dtype, min_plus.zero_for(dtype)))


@rule("sparse")
def sparse(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Search the stored edges of a sparse matrix, or close the dense matrix.

    Raises `TooLargeError`. For edges it raises `NegativeCycleError`, and `DomainError` for NaN and for sums beyond the
    range of floats.
    """
    k, options = q.kind, q.kind.options
    if k.storage != "sparse":
        return NotApplicable("every entry is stored")
    dtype, semiring = k.dtype, q.semiring
    shortest = _has_shortest_paths(semiring, dtype)
    costs, notes = None, []
    if shortest:
        method = q.method
        if method == "auto":
            costs = _predicted_costs
            cheapest = q.ask(searches_of_stored_edges_are_cheapest)
            method = "johnson" if cheapest else method
            notes.append(_note_of_prediction(cheapest))
        if takes_edges(method):
            potentials = q.ask(stored_edges_have_potentials)
            if potentials == "yes":
                return dijkstra(d.replace(method=method), _make_graph, costs=costs, notes=_combine(notes))
            if potentials == "no":
                why = "weights of very different size: closed as a dense matrix, each strong component by itself"
                notes.append(lambda call: why)
    counts = semiring is min_plus and "hops" in options.structure and not d.plus and not k.needs_predecessors
    counts = counts and dtype.kind in "fi" and min_plus.supports(dtype) and options.method == "auto"
    if counts and q.ask(stored_edges_have_one_exact_weight):
        hops = compare_costs("hops", q.n, dtype)
        return Rewrite(
            _hops_reason,
            d.replace(close=_close_by_hops, needs_out_buffer=True),
            costs=lambda call: hops,
            notes=_combine(notes),
        )
    why = "entries that are not stored are the zero of the semiring"
    return Rewrite(
        why, d.replace(close=_close_dense, needs_out_buffer=True), quiet=True, costs=costs, notes=_combine(notes)
    )


def _predicted_costs(call: Call) -> CostEstimate:
    return call.result_of(_predict_costs)


def _note_of_prediction(cheapest: bool) -> Any:
    text = "is predicted to be fastest" if cheapest else "is predicted to be slower than a closure of the dense matrix"
    return lambda call: f"{call.A.nnz:,} edges: Dijkstra's algorithm from every vertex {text}"


def _combine(notes: list[Any]) -> Any:
    return lambda call: [note(call) for note in notes]


def _hops_reason(call: Call) -> str:
    return f"all edges have the weight {call.result_of(_find_structure).weight}: hops, by breadth-first search"


def _close_by_hops(work: Work, out_buffer: Any) -> Any:
    """Count the hops of stored edges, without a dense matrix of the weights."""
    call, k = work.call, work.plan.kind
    if call.explanation is not None:
        call.explanation.set_method(NAME, "cpu")
    D, graph = np.empty(k.shape, k.dtype) if out_buffer is None else out_buffer, call.result_of(_find_structure)
    write_hops(graph.weight, call.none, graph.pattern, None, D, call.threads)
    if call.progress is not None:
        call.progress(call.n**3, call.n**3)
    return D


def _close_dense(work: Work, out_buffer: Any) -> Any:
    """Close the dense matrix, in place except for integers, which may be read again in a wider dtype."""
    call, options = work.call, work.plan.kind.options
    graph = call.result_of(_find_structure) if may_analyze(call.n) else NO_STRUCTURE
    array = _make_dense(call, graph)
    if takes_edges(options.method) and _has_shortest_paths(call.semiring, call.kind.dtype):
        options = options._replace(method="auto")
    check_star(call.semiring, array.dtype)
    if options.check:
        warn_of_other_zeros(array, call.semiring)
    results = {} if graph is NO_STRUCTURE or array.dtype != call.kind.dtype else {"structure": graph}
    inner = call.part(array, storage="elements", options=options, **results)
    if out_buffer is None and array.dtype.kind != "i":
        out_buffer = array
    return solve(inner, out_buffer)


def _make_dense(call: Call, graph: Structure) -> Any:
    """Return the dense array of a sparse matrix, written in groups of rows by all threads if the edges are sorted.

    On one thread the page faults of new memory would take longer than the scan of the structure.
    """
    A, semiring, dtype = call.A, call.semiring, call.kind.dtype
    if graph.pattern is None or not semiring.supports(dtype):
        return as_array(A, semiring)
    array, none = np.empty(A.shape, dtype), semiring.zero_for(dtype)
    starts, tails, heads = graph.pattern.starts, graph.pattern.rows, graph.pattern.indices

    def write(rows: slice) -> None:
        edges, part = slice(starts[rows.start], starts[rows.stop]), array[rows]
        part[...] = none
        places = (tails[edges].astype(np.int64) - rows.start) * A.shape[1] + heads[edges]
        part.reshape(-1)[places] = graph.values[edges]

    run_strips(write, A.shape[0], call.threads)
    return array
