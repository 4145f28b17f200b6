"""A sparse matrix: Dijkstra from every vertex or hops where that is predicted to be faster, else the dense matrix.

What the matrix does not store is no edge. Hops are counted from what it stores, by `semiring.graphs.hops`. Cost:
O(n (m + n) log n) for m edges, or n³. Dijkstra adds the weights of a path in float64 from its beginning on, and rounds
once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.johnson import SparseGraph, graph_potentials, sparse_graph
from semiring.algorithms.methods import method_named, takes_edges
from semiring.algorithms.schedule import dense_operations, search_operations
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_array, as_output, is_sparse
from semiring.chain.matrix import Matrix
from semiring.chain.planner import Node
from semiring.chain.problem import Look, Problem, Reduction, is_tropical, step
from semiring.chain.steps.separators import few_enough
from semiring.chain.steps.structure import worth_a_look
from semiring.errors import ShapeError
from semiring.graphs.hops import NAME, is_exact, write_hops
from semiring.graphs.separators import operations
from semiring.graphs.structure import UNSEEN, Structure, structure_of_sparse
from semiring.io.network import SOME
from semiring.threads import threads

__all__ = ["dijkstra", "sparse"]


def dijkstra(p: Problem, entries: Any) -> Reduction | None:
    """The distances in a graph, from every vertex; None for weights below 0 of very different size.

    ``entries``: a SciPy sparse matrix. Raises `NegativeCycleError`, and `DomainError` for sums beyond the floats.
    """
    graph = replace(sparse_graph(entries, 1 if p.semiring.tropical == "min" else -1), turned=p.matrix.turned)
    h = graph_potentials(graph, p.dtype)
    if h is None:
        return None
    p.request.explanation.closed_by(method_named(p.method).name, "cpu", p.matrix)
    return Reduction("Dijkstra from every vertex", p, run=partial(_dijkstra, graph, h), in_home=True, quiet=True)


def _dijkstra(graph: SparseGraph, h: Any, node: Node, D: Any) -> Any:
    p = node.inner
    D = p.home if D is None else D  # None where a sparse matrix was given
    if D is None:
        D = np.empty(p.matrix.shape, p.matrix.array.dtype)
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
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"A is {A.shape}: a closure needs a square matrix")
    n, edges, dtype = A.shape[0], A.nnz, np.dtype(A.dtype)
    if request.out is None:
        demand_memory(n * n * dtype.itemsize, f"the closure of {n:,} vertices", SOME)
    shortest = is_tropical(p.semiring) and dtype.kind == "f" and p.semiring.supports(dtype)
    method, seen = request.method, UNSEEN
    if method == "auto" and request.structure and worth_a_look(n) and dtype.kind in "fiub":
        seen = structure_of_sparse(A) or UNSEEN
    if method == "auto" and shortest:
        dense, by_edges = _dense_operations(p, seen, n, dtype), search_operations(n, edges)
        method = "auto" if dense <= by_edges else "johnson"
        request.explanation.note(
            f"{edges:,} edges: the work of {by_edges:.2g} pairs by Dijkstra from every vertex, of {dense:.2g} dense"
        )
    if takes_edges(method) and shortest and not np.isinf(A.tocoo().data).any():
        home = np.empty(A.shape, dtype) if request.out is None else as_output(request.out, A.shape, dtype)
        found = dijkstra(p.but(method=method, matrix=Matrix.of(home, p.semiring), home=home), A)
        if found is not None:
            return found
        request.explanation.note("weights of very different size: closed dense, each strong component on its own")
    if p.semiring is min_plus and (found := _hops(p, seen, dtype)) is not None:
        return found
    asked = "auto" if takes_edges(request.method) and shortest else request.method
    array = as_array(A, p.semiring)
    # The dense matrix is ours, and is closed in place; but integers may have to begin again in a wider dtype.
    home = array if array.dtype.kind != "i" else None
    seen = seen if array.dtype == dtype else UNSEEN
    q = replace(p, given=array, home=home, seen=seen, request=replace(request, method=asked))
    return Reduction("entries that are not stored are no edges", None, [q], quiet=True)


def _hops(p: Problem, seen: Structure, dtype: np.dtype[Any]) -> Reduction | None:
    """The hops of edges in lists, as the step `hops` counts them, without a dense matrix that nobody would read."""
    A, n, none = p.given, p.given.shape[0], min_plus.zero_for(dtype)
    if "hops" not in p.request.structure or p.plus or p.inspect is not None or not min_plus.supports(dtype):
        return None
    if dtype.kind not in "fi" or seen.weight is None or not (seen.weight > 0 and A.tocoo().data.min() >= 0):
        return None
    if not is_exact(seen.weight.item(), n, dtype, none):
        return None
    home = np.empty(A.shape, dtype) if p.request.out is None else as_output(p.request.out, A.shape, dtype)
    q = p.but(matrix=Matrix.of(home, p.semiring), home=home)
    p.request.explanation.closed_by(NAME, "cpu", q.matrix)
    why = f"all edges have the weight {seen.weight}: hops, by breadth-first search"
    return Reduction(why, q, run=partial(_counted, seen), in_home=True)


def _counted(seen: Structure, node: Node, home: Any) -> Any:
    p = node.inner
    D = p.home if home is None else home
    write_hops(seen.weight, p.matrix.none, seen.pattern, None, D, p.request.threads)
    if p.progress is not None:
        p.progress(p.n**3, p.n**3)
    return D


def _dense_operations(p: Problem, seen: Structure, n: int, dtype: np.dtype[Any]) -> float:
    """What the dense closure costs, or at most where a step spares work, in pairs of float64."""
    names, best = p.request.structure, dense_operations(n, dtype.itemsize)
    weight = 0.0 if seen.weight is None else float(seen.weight) * (1 if p.semiring.tropical == "min" else -1)
    if "hops" in names and weight > 0 and is_exact(weight, n, dtype, np.inf):
        best = min(best, 500.0 * n * n)
    if "separators" in names and few_enough(seen, n):
        best = min(best, operations(seen.analysis, seen.symmetric))
    return best
