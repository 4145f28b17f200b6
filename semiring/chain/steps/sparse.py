"""A sparse matrix: Dijkstra from every vertex or hops where that is predicted to be faster, else the dense matrix.

What the matrix does not store is no edge. Hops are counted from what it stores, by `semiring.graphs.hops`. Cost:
O(n (m + n) log n) for m edges, or n³. Bits and bounds are those of `searches` and `hops`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from semiring.advice import fewer_paths
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.johnson import SparseGraph, graph_potentials, sparse_graph
from semiring.algorithms.methods import method_named, takes_edges
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_array, as_output
from semiring.arrays.sparse import check_sparse, is_sparse, stored_entries, warn_of_duplicates
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node
from semiring.chain.prices import Prices, compared
from semiring.chain.problem import Look, Problem, Reduction, is_tropical, step
from semiring.chain.steps.separators import few_enough, may_separate
from semiring.chain.steps.structure import worth_a_look
from semiring.errors import ShapeError
from semiring.graphs.components import has_loops, in_strips
from semiring.graphs.hops import NAME, is_exact, write_hops
from semiring.graphs.structure import UNSEEN, Structure, structure_of_sparse
from semiring.threads import threads

__all__ = ["dijkstra", "sparse"]

_LEAST = 256  # vertices: hops of so many are counted in half the time of a closure of what is stored, or less


def dijkstra(p: Problem, entries: Any, prices: Prices | None = None) -> Reduction | None:
    """The distances in a graph, from every vertex; None for weights below 0 of very different size.

    ``entries``: a SciPy sparse matrix. Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    sign = 1 if p.semiring.tropical == "min" else -1
    graph = replace(sparse_graph(entries, sign, p.matrix.rounded_to), turned=p.matrix.turned)
    h = graph_potentials(graph, p.dtype)
    if h is None:
        return None
    p.request.explanation.closed_by(method_named(p.method).name, "cpu", p.matrix)
    close = partial(_dijkstra, graph, h)
    return Reduction("Dijkstra from every vertex", p, close=close, in_home=True, quiet=True, prices=prices)


def _dijkstra(graph: SparseGraph, h: Any, node: Node, D: Any) -> Any:
    p = node.inner
    D = p.home if D is None else D  # None where a sparse matrix was given
    with threads(p.request.threads):
        method_named(p.method).close(graph, h, D, reflexive=not p.plus, progress=p.progress)
    return D


@step
def sparse(p: Problem) -> Look:
    """Its edges, or its dense matrix.

    Raises `ShapeError`, `TooLargeError`; for edges `NegativeCycleError`, and `DomainError` for NaN and for sums beyond
    the floats.
    """
    A, request = p.given, p.request
    yield request.device is not None or not is_sparse(A), "every entry is stored"
    check_sparse(A)
    if A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    n, dtype = A.shape[0], np.dtype(A.dtype)
    if request.out is None:
        demand_memory(n * n * dtype.itemsize, f"the closure of {n:,} vertices", fewer_paths())
    shortest = is_tropical(p.semiring) and dtype.kind == "f" and has_loops(dtype) and p.semiring.supports(dtype)
    seen = _look(p)
    prices = _prices(p, seen) if shortest and request.method == "auto" else None
    found = (_searches(p, prices) if shortest else None) or _hops(p, seen)
    if found is not None:
        return found
    if not worth_a_look(n):
        seen = UNSEEN
    array = _dense(p, seen)
    # The dense matrix is ours, and is closed in place; but integers may have to begin again in a wider dtype.
    home = array if array.dtype.kind != "i" else None
    asked = replace(request, method="auto") if takes_edges(request.method) and shortest else request
    q = p.but(given=array, home=home, seen=seen if array.dtype == dtype else UNSEEN, request=asked)
    return Reduction("entries that are not stored are the zero of the semiring", None, [q], quiet=True, prices=prices)


def _look(p: Problem) -> Structure:
    """What its graph spares. Of few vertices only where all that is stored is one weight, which is quickly seen."""
    A, request = p.given, p.request
    looked_at = A.dtype.kind in "fiub" and has_loops(A.dtype)
    if request.method != "auto" or not request.structure or not looked_at:
        return UNSEEN
    if not worth_a_look(A.shape[0]):
        stored = stored_entries(A)[2]
        if A.shape[0] < _LEAST or not stored.size or not (stored == stored[0]).all():
            return UNSEEN
    return structure_of_sparse(A) or UNSEEN


def _dense(p: Problem, seen: Structure) -> Any:
    """What is stored, as an array: some rows at a time where the edges are in order, on all threads.

    One thread waits longer for new memory than for all that is looked at before.
    """
    A, semiring, dtype = p.given, p.semiring, np.dtype(p.given.dtype)
    if seen.pattern is None or not semiring.supports(dtype):
        return as_array(A, semiring)
    array, none = np.empty(A.shape, dtype), semiring.zero_for(dtype)
    starts, tails, heads = seen.pattern.starts, seen.pattern.rows, seen.pattern.indices

    def write(rows: slice) -> None:
        some, part = slice(starts[rows.start], starts[rows.stop]), array[rows]
        part[...] = none
        part.reshape(-1)[(tails[some].astype(np.int64) - rows.start) * A.shape[1] + heads[some]] = seen.values[some]

    in_strips(write, A.shape[0], p.request.threads)
    return array


def _in_home(p: Problem, **changes: Any) -> Problem:
    """The problem whose result is written at once."""
    shape, dtype, out = p.given.shape, np.dtype(p.given.dtype), p.request.out
    home = np.empty(shape, dtype) if out is None else as_output(out, shape, dtype)
    return p.but(matrix=Matrix.of(home, p.semiring), home=home, **changes)


def _prices(p: Problem, seen: Structure) -> Prices:
    """What Dijkstra's algorithm costs, and what the dense matrix would be closed by, as far as that is known."""
    n, dtype, edges = p.given.shape[0], np.dtype(p.given.dtype), p.given.nnz
    weight = 0.0 if seen.weight is None else float(seen.weight) * (1 if p.semiring.tropical == "min" else -1)
    exact = weight > 0 and is_exact(weight, n, dtype, np.inf)
    rivals = {
        "hops": lambda: exact,
        "undirected": lambda: seen.symmetric,
        "components": lambda: seen.search is not None,
        "separators": lambda: few_enough(seen, n) and may_separate(seen, n),
    }
    prices = compared("searches", n, dtype, seen, edges=edges, spared=p.request.structure, **rivals)
    if p.request.explanation.told:
        found = "is predicted to be fastest"
        if prices.cheapest != "searches":
            found = "is predicted to be slower than a closure of the dense matrix"
        p.request.explanation.note(f"{edges:,} edges: Dijkstra's algorithm from every vertex {found}")
    return prices


def _searches(p: Problem, prices: Prices | None) -> Reduction | None:
    """Dijkstra from every vertex, where that was asked for or is predicted to be faster than what is dense."""
    method = "johnson" if prices and prices.cheapest == "searches" else p.request.method
    if not takes_edges(method):
        return None
    rows, columns, stored = stored_entries(p.given)
    if np.isinf(stored).any():
        return None
    if np.unique(rows.astype(np.int64) * p.given.shape[1] + columns).size < stored.size:
        warn_of_duplicates(p.semiring)
    found = dijkstra(_in_home(p, method=method), p.given, prices)
    if found is None:
        p.request.explanation.note(
            "weights of very different size: closed as a dense matrix, each strong component by itself"
        )
    return found


def _hops(p: Problem, seen: Structure) -> Reduction | None:
    """The hops of edges in lists, as the step `hops` counts them, without a dense matrix that nobody would read."""
    A, weight, dtype = p.given, seen.weight, np.dtype(p.given.dtype)
    if p.semiring is not min_plus or "hops" not in p.request.structure or p.plus or p.inspect is not None:
        return None
    if dtype.kind not in "fi" or weight is None or not (weight > 0 and stored_entries(A)[2].min() >= 0):
        return None
    if not min_plus.supports(dtype) or not is_exact(weight.item(), A.shape[0], dtype, min_plus.zero_for(dtype)):
        return None
    q = _in_home(p)
    p.request.explanation.closed_by(NAME, "cpu", q.matrix)
    why = f"all edges have the weight {weight}: hops, by breadth-first search"
    return Reduction(why, q, close=partial(_counted, seen), in_home=True, prices=compared("hops", q.n, dtype))


def _counted(seen: Structure, node: Node, home: Any) -> Any:
    p = node.inner
    D = p.home if home is None else home
    write_hops(seen.weight, p.matrix.none, seen.pattern, None, D, p.request.threads)
    if p.progress is not None:
        p.progress(p.n**3, p.n**3)
    return D
