"""A sparse matrix: Dijkstra from every vertex or hops where that is predicted to be faster, else the dense matrix.

What the matrix does not store is no edge. Hops are counted from what it stores, by
`semiring.algorithms.breadth_first_search`. Cost: O(n (m + n) log n) for m edges, or n³. Bits and bounds are those of
`searches` and `hops`.
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
from semiring.closures.rules.separators import few_enough, may_separate
from semiring.closures.rules.structure import worth_a_look
from semiring.graphs.components import has_loops, run_strips
from semiring.graphs.structure import NO_STRUCTURE, Structure, structure_of_sparse

__all__ = ["sparse"]

_LEAST = 256  # vertices: hops of so many are counted in half the time of a closure of what is stored, or less


def _structure(call: Call) -> Structure:
    """What its graph spares. Of few vertices only where all that is stored is one weight, which is quickly seen."""
    A, options = call.A, call.kind.options
    looked_at = A.dtype.kind in "fiub" and has_loops(A.dtype)
    if options.method != "auto" or not options.structure or not looked_at:
        return NO_STRUCTURE
    if not worth_a_look(A.shape[0]):
        stored = stored_entries(A)[2]
        if A.shape[0] < _LEAST or not stored.size or not (stored == stored[0]).all():
            return NO_STRUCTURE
    return structure_of_sparse(A) or NO_STRUCTURE


def _has_shortest_paths(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether Dijkstra's algorithm computes such closures."""
    return is_tropical(semiring) and dtype.kind == "f" and has_loops(dtype) and semiring.supports(dtype)


def _sign(call: Call) -> int:
    return 1 if call.semiring.tropical == "min" else -1


def _costs(call: Call) -> CostEstimate:
    """What Dijkstra's algorithm costs, and what the dense matrix would be closed by, as far as that is known."""
    k, seen, n = call.kind, call.found(_structure), call.n
    weight = 0.0 if seen.weight is None else float(seen.weight) * _sign(call)
    exact = weight > 0 and is_exact(weight, n, k.dtype, np.inf)
    rivals = {
        "hops": lambda: exact,
        "undirected": lambda: seen.is_symmetric,
        "components": lambda: seen.search is not None,
        "separators": lambda: few_enough(seen, n) and may_separate(seen, n),
    }
    return compare_costs("searches", n, k.dtype, seen, edges=call.A.nnz, allowed=k.options.structure, **rivals)


def _graph(call: Call) -> Any:
    """The edges and their potentials; None where an entry is infinite: then the dense matrix is closed."""
    rows, columns, stored = stored_entries(call.A)
    if np.isinf(stored).any():
        return None
    if np.unique(rows.astype(np.int64) * call.A.shape[1] + columns).size < stored.size:
        warn_of_duplicates(call.semiring)
    return graph_of(call, call.A)


@question()
def searches_of_stored_edges_are_cheapest(call: Call) -> bool:
    """Whether Dijkstra's algorithm from every vertex is predicted to be faster than what closes the dense matrix."""
    return call.found(_costs).cheapest == "searches"


@question()
def stored_edges_have_potentials(call: Call) -> str:
    """Whether Dijkstra's algorithm takes the edges: "yes", "no", or "infinite" where one has no finite weight."""
    found = call.found(_graph)
    return "infinite" if found is None else "no" if found[1] is None else "yes"


@question()
def stored_edges_have_one_exact_weight(call: Call) -> bool:
    """Whether all edges have one weight above 0 whose sums are exact, and no loop is below 0."""
    A, weight, dtype = call.A, call.found(_structure).weight, call.kind.dtype
    if weight is None or not (weight > 0 and stored_entries(A)[2].min() >= 0):
        return False
    return bool(is_exact(weight.item(), A.shape[0], dtype, min_plus.zero_for(dtype)))


@rule("sparse")
def sparse(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Search the stored edges, or close the dense matrix.

    Raises `TooLargeError`; for edges `NegativeCycleError`, and `DomainError` for NaN and for sums beyond the floats.
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
            costs = _found_costs
            cheapest = q.ask(searches_of_stored_edges_are_cheapest)
            method = "johnson" if cheapest else method
            notes.append(_predicted(cheapest))
        if takes_edges(method):
            potentials = q.ask(stored_edges_have_potentials)
            if potentials == "yes":
                return dijkstra(d.but(method=method), _graph, costs=costs, notes=_said(notes))
            if potentials == "no":
                why = "weights of very different size: closed as a dense matrix, each strong component by itself"
                notes.append(lambda call: why)
    counts = semiring is min_plus and "hops" in options.structure and not d.plus and not k.traced
    counts = counts and dtype.kind in "fi" and min_plus.supports(dtype) and options.method == "auto"
    if counts and q.ask(stored_edges_have_one_exact_weight):
        hops = compare_costs("hops", q.n, dtype)
        return Rewrite(_why_hops, d.but(close=_count, in_home=True), costs=lambda call: hops, notes=_said(notes))
    why = "entries that are not stored are the zero of the semiring"
    return Rewrite(why, d.but(close=_close_dense, in_home=True), quiet=True, costs=costs, notes=_said(notes))


def _found_costs(call: Call) -> CostEstimate:
    return call.found(_costs)


def _predicted(cheapest: bool) -> Any:
    found = "is predicted to be fastest" if cheapest else "is predicted to be slower than a closure of the dense matrix"
    return lambda call: f"{call.A.nnz:,} edges: Dijkstra's algorithm from every vertex {found}"


def _said(notes: list[Any]) -> Any:
    return lambda call: [note(call) for note in notes]


def _why_hops(call: Call) -> str:
    return f"all edges have the weight {call.found(_structure).weight}: hops, by breadth-first search"


def _count(work: Work, home: Any) -> Any:
    """The hops of edges in lists, without a dense matrix that nobody would read."""
    call, k = work.call, work.plan.kind
    if call.explanation is not None:
        call.explanation.closed_by(NAME, "cpu")
    D, seen = np.empty(k.shape, k.dtype) if home is None else home, call.found(_structure)
    write_hops(seen.weight, call.none, seen.pattern, None, D, call.threads)
    if call.progress is not None:
        call.progress(call.n**3, call.n**3)
    return D


def _close_dense(work: Work, home: Any) -> Any:
    """Close the dense matrix, in place where nobody needs it again: integers may begin again in a wider dtype."""
    call, options = work.call, work.plan.kind.options
    seen = call.found(_structure) if worth_a_look(call.n) else NO_STRUCTURE
    array = _dense(call, seen)
    if takes_edges(options.method) and _has_shortest_paths(call.semiring, call.kind.dtype):
        options = options._replace(method="auto")
    check_star(call.semiring, array.dtype)
    if options.check:
        warn_of_other_zeros(array, call.semiring)
    known = {} if seen is NO_STRUCTURE or array.dtype != call.kind.dtype else {"structure": seen}
    inner = call.part(array, storage="elements", options=options, **known)
    if home is None and array.dtype.kind != "i":
        home = array
    return solve(inner, home)


def _dense(call: Call, seen: Structure) -> Any:
    """What is stored, as an array: some rows at a time where the edges are in order, on all threads.

    One thread waits longer for new memory than for all that is looked at before.
    """
    A, semiring, dtype = call.A, call.semiring, call.kind.dtype
    if seen.pattern is None or not semiring.supports(dtype):
        return as_array(A, semiring)
    array, none = np.empty(A.shape, dtype), semiring.zero_for(dtype)
    starts, tails, heads = seen.pattern.starts, seen.pattern.rows, seen.pattern.indices

    def write(rows: slice) -> None:
        some, part = slice(starts[rows.start], starts[rows.stop]), array[rows]
        part[...] = none
        part.reshape(-1)[(tails[some].astype(np.int64) - rows.start) * A.shape[1] + heads[some]] = seen.values[some]

    run_strips(write, A.shape[0], call.threads)
    return array
