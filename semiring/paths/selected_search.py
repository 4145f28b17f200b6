"""Search for the best paths between some vertices by the cheapest of three algorithms.

*johnson*: Dijkstra's algorithm from every source, or on the reversed edges from every target, whichever are fewer.
Weights of the wrong sign are searched under potentials. A search ends when it has reached all requested vertices, or
the limit. *factor*: a sparse elimination, then one sweep for each source, or one over the common part of the
elimination tree of sources and targets. *dense*: the closure of all pairs, of which some are selected. The predicted
operations decide (`semiring.algorithms.schedule`), so the choice depends only on the graph, the vertices and the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.algorithms.algorithm import AUTO, Algorithm
from semiring.algorithms.dijkstra import Searches, never_improves
from semiring.algorithms.johnson import SparseGraph, edge_graph, graph_potentials, make_searches
from semiring.algorithms.schedule import (
    analysis_operations,
    dense_operations,
    factor_operations,
    search_operations,
    sweep_operations,
)
from semiring.arrays.encoding import decode, encode, has_inner_zero, round_to_dtype
from semiring.arrays.memory import demand_memory, free_memory
from semiring.arrays.zero_conventions import trust_zeros
from semiring.closures.choose import cheapest
from semiring.closures.explain import Answer, Explanation
from semiring.closures.problem import Options
from semiring.errors import AlgebraError, DivergenceError, NoPathError
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace
from semiring.paths.result import Paths
from semiring.paths.selected_sources import SearchResult
from semiring.progress import in_parts, portion
from semiring.sparse.edge_inputs import SparseEntries, choose_work_dtype, largest_magnitude
from semiring.sparse.symbolic_factor import Analysis, analyse, widest_level

__all__ = ["PathTable", "find_paths", "select_paths"]

Array = NDArray[Any]

_EXACT = 2**49  # whole numbers below this bound have exact sums in float64, also under potentials
_ENTRIES = 1 << 24  # entries that are compared with a limit at a time


class PathTable(NamedTuple):
    """The best paths from p sources to q targets among n vertices."""

    matrix: Any  # (p, q): the weights
    predecessors: Any  # (p, n), or None
    find: Callable[[int, int], list[int]]  # returns the vertices of a best path, [] if there is none


@dataclass(frozen=True, eq=False)
class _DijkstraGraph:
    """The edges for Dijkstra's algorithm in both directions, and the conversion of its results."""

    edges: SparseEntries
    semiring: Semiring
    forward: Searches
    shift: Array | None = None  # potentials h (n,) for weights w of min-plus: the search reads w[i, j] + h[i] - h[j]

    @property
    def backward(self) -> Searches:
        """The search along the reversed edges."""
        first, rows, entries = _transpose(self.forward)
        s = self.forward
        return Searches(s.plan, first, rows, s.weights[entries], is_reversed=True)

    def to_caller_weights(self, values: Array, sources: Array, targets: Array) -> Any:
        """Convert values of paths between pairs of vertices (broadcast) to the caller's dtype and weights."""
        dtype = self.edges.values.dtype
        if self.shift is None:
            inner = has_inner_zero(self.semiring, values.dtype)
            return np.asarray(decode(values, self.semiring, dtype)) if inner else round_to_dtype(values, dtype)
        values = values + (self.shift[targets] - self.shift[sources])
        values = values if self.semiring.tropical == "min" else 0.0 - values
        if is_floating(dtype):
            return np.asarray(round_to_dtype(values, dtype))
        none = np.isinf(values)
        integers: Array = np.where(none, 0, values).astype(dtype)
        integers[none] = self.semiring.zero_for(dtype)
        return integers

    def search_bound(self, limit: Any, sources: Array, targets: Array | None) -> Any:
        """Return the value at which a search may stop without missing a path within the limit."""
        if self.shift is None:
            rounded_limit = _convert_limit(limit, self.edges.values.dtype, self.semiring)
            return encode(np.array([rounded_limit]), self.semiring, self.forward.plan.dtype)[0]
        ends = self.shift if targets is None else self.shift[targets]
        size = limit if self.semiring.tropical == "min" else -limit
        most = float(size) + max(self.shift[sources].tolist(), default=0.0) - min(ends.tolist(), default=0.0)
        return most + 1e-9 * (abs(float(size)) + abs(most) + float(np.abs(self.shift).max(initial=0.0)))

    def find(self, i: int, j: int) -> list[int]:
        """Return the vertices of a best path, by one search."""
        values, trees = self.forward.search_table(np.array([i]), np.array([j]), trees=True)
        assert trees is not None
        return _trace(trees[0], i, j) if values[0, 0] != self.forward.plan.zero else []


def _transpose(s: Searches) -> tuple[Array, Array, Array]:
    from semiring.kernels.cpu.elimination import elimination_trees

    reversed_edges: tuple[Array, Array, Array] = elimination_trees.transpose_rows(s.starts, s.heads)
    return reversed_edges


def _convert_limit(limit: Any, dtype: np.dtype[Any], semiring: Semiring) -> Any:
    """Convert a limit to a dtype; to the nearest integer that is no worse, or to the end of the range."""
    if dtype.kind not in "iu":
        return dtype.type(limit)
    ends, small_is_better = np.iinfo(dtype), semiring.zero_for(dtype) > semiring.one_for(dtype)
    least, most = int(ends.min), int(ends.max)
    if not least <= limit <= most:
        return dtype.type(least if limit < least else most)
    return dtype.type(math.floor(limit) if small_is_better else math.ceil(limit))


def _trace(tree: Array, i: int, j: int) -> list[int]:
    """Return the vertices of the path from i to j in a tree of predecessors."""
    path = [j]
    while path[-1] != i:
        path.append(int(tree[path[-1]]))
    return path[::-1]


def _graph_for_dijkstra(edges: SparseEntries, semiring: Semiring, threads: int) -> _DijkstraGraph | None:
    """Return the edges for Dijkstra's algorithm, or None if it is not correct for them.

    Raises `NegativeCycleError`, `IntegerOverflowError`.
    """
    values, n, dtype = edges.values, edges.pattern.n, edges.values.dtype
    starts, heads = edges.pattern.starts, edges.pattern.indices
    if never_improves(semiring, values):
        inner = choose_work_dtype(semiring, dtype, n, largest_magnitude(values, edges.scan))
        if is_floating(dtype) and semiring.supports(np.float64):
            inner = np.dtype(np.float64)  # paths are added up in float64, and rounded once
        nonnegative = edges.scan.nonnegative and semiring.tropical == "min"
        plan = make_plan(semiring, inner, nonnegative=bool(nonnegative), threads=threads)
        weights = encode(values, semiring, inner) if has_inner_zero(semiring, inner) else values.astype(inner)
        return _DijkstraGraph(edges, semiring, Searches(plan, starts, heads, weights))
    graph = _graph_for_potentials(edges, semiring)
    h = None if graph is None else graph_potentials(graph, np.dtype(np.float64) if dtype.kind == "i" else dtype)
    return None if graph is None or h is None else _DijkstraGraph(edges, semiring, make_searches(graph, h, threads), h)


def _graph_for_potentials(edges: SparseEntries, semiring: Semiring) -> SparseGraph | None:
    """Return the edges in float64 for potentials; None if they are not of min-plus or max-plus, or not exact."""
    values, n = edges.values, edges.pattern.n
    if semiring.tropical is None:
        return None
    if values.dtype.kind == "i" and largest_magnitude(values, edges.scan) * (n + 1) >= _EXACT:
        return None
    sign = 1 if semiring.tropical == "min" else -1
    return edge_graph(n, edges.pattern.rows, edges.pattern.indices, values, sign)


# ------------------------------------------------------------------------------------------------------- the choice


def find_paths(
    edges: SparseEntries,
    semiring: Semiring,
    sources: Array | None,
    targets: Array | None,
    limit: Any,
    *,
    names: tuple[Hashable, ...] | None,
    method: str,
    predecessors: bool,
    threads: int,
    find_all_paths: Callable[[Any, str], Paths],
) -> SearchResult:
    """Find the best paths between some vertices, or within a limit.

    Parameters
    ----------
    edges, semiring
        The graph.
    sources, targets
        The numbers of vertices, None for all.
    limit
        The worst weight of a path, or None.
    names
        The names of the vertices for errors, or None.
    method
        "johnson", "factor", a method of `closure`, or "auto".
    predecessors
        Whether the predecessors of all sources are useful, if the method finds them.
    threads
        The number of threads.
    find_all_paths
        ``find_all_paths(A, method)`` finds the paths of all pairs of a dense matrix.

    Raises the errors of `closure`, and `TooLargeError`.
    """
    options = Options(semiring, method, threads)
    p = _PathProblem(edges, semiring, sources, targets, limit, options, predecessors, find_all_paths)
    explanation = p.explanation()
    try:
        table: PathTable = _choose(p, explanation).run(p, None, None, None)  # type: ignore[arg-type]
    except DivergenceError as error:
        raise error.of_paths().named(names) from None
    return SearchResult(
        sources=sources,
        targets=targets,
        limit=limit,
        **table._asdict(),
        explanation=explanation,
        edges=edges.pattern,
        weights=edges.values,
    )


def _sparse_rows(values: Array, heads: Array, starts: Array, columns: int) -> Any:
    """Make a SciPy sparse matrix of compressed rows; in float32 for float16 and bfloat16, which SciPy lacks."""
    from scipy.sparse import csr_array

    stored = values.astype(np.float32) if is_half(values.dtype) else values
    return csr_array((stored, heads, starts), shape=(starts.size - 1, columns))


@dataclass(eq=False)
class _PathProblem:
    """Paths to find between some vertices: the graph, the vertices, and facts that are found when they are read."""

    edges: SparseEntries
    semiring: Semiring
    sources: Array | None
    targets: Array | None
    limit: Any
    options: Options
    predecessors: bool
    find_all_paths: Callable[[Any, str], Paths]

    def __post_init__(self) -> None:
        self.n, self.dtype = self.edges.pattern.n, self.edges.values.dtype
        self.rows = np.arange(self.n) if self.sources is None else self.sources
        self.columns = np.arange(self.n) if self.targets is None else self.targets

    @cached_property
    def graph(self) -> _DijkstraGraph | None:
        """The edges for Dijkstra's algorithm, or None if it is not correct for them."""
        return _graph_for_dijkstra(self.edges, self.semiring, self.options.threads)

    @cached_property
    def analysis(self) -> Analysis:
        """The symbolic analysis of an elimination."""
        return analyse(self.edges.pattern)

    @property
    def dense_memory(self) -> int:
        """The bytes of a closure of all pairs with predecessors."""
        return self.n**2 * (2 * self.dtype.itemsize + 4)

    def explanation(self) -> Explanation:
        """Return the explanation that says what was asked."""
        p, q, threads = self.rows.size, self.columns.size, self.options.threads
        within = "" if self.limit is None else f", none worse than {self.limit}"
        subject = f"paths from {p:,} to {q:,} of {self.n:,} vertices{within}"
        shape = (self.n, self.n)
        return Explanation(self.semiring.name, shape, self.dtype, backend="cpu", threads=threads, subject=subject)

    def is_within_limit(self, values: Array) -> Array:
        """Return a mask of the values that are weights of paths, and no worse than the limit."""
        limit = _convert_limit(self.limit, values.dtype, self.semiring)
        zero = self.semiring.zero_for(values.dtype)
        return np.asarray((self.semiring.add(values, limit) == values) & (values != zero))

    def limit_rows(self, block: Array) -> Any:
        """Return some rows as a sparse matrix of the weights within the limit."""
        mask = self.is_within_limit(block)
        starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return _sparse_rows(block[mask], np.nonzero(mask)[1], starts, block.shape[1])


class _Searches(Algorithm):
    """Dijkstra's algorithm from the sources, or from the targets if these are fewer."""

    name = "johnson"
    is_encoded = False

    def reason_against(self, p: Any) -> str | None:
        p.edges.require_eliminable()
        return None if p.graph is not None else "it needs a selective ⊕, and weights that do not gain, or potentials"

    def least_cost(self, p: Any) -> float:
        return 0.0

    def cost(self, p: Any) -> float:
        if p.limit is not None:  # a search visits only what lies within it
            return 0.0
        return search_operations(p.n, p.edges.values.size, min(p.rows.size, p.columns.size))

    def run(self, p: Any, *_: Any) -> PathTable:
        graph, sources, targets = p.graph, p.sources, p.targets
        is_backward = p.columns.size < p.rows.size
        search = graph.backward if is_backward else graph.forward
        begins, ends = (p.columns, sources) if is_backward else (p.rows, targets)
        others = p.rows if is_backward else p.columns
        if p.limit is not None:
            bound = graph.search_bound(p.limit, p.rows, targets)
            starts, heads, values = search.search_near(begins, bound, ends)
            return PathTable(_sparse_table(p, starts, heads, values, is_backward), None, graph.find)
        has_trees = p.predecessors and targets is None and not is_backward
        values, trees = search.search_table(begins, ends, trees=has_trees)
        pairs = (others, begins[:, None]) if is_backward else (begins[:, None], others)
        weights = graph.to_caller_weights(values, *pairs)
        return PathTable(np.ascontiguousarray(weights.T) if is_backward else weights, trees, graph.find)


def _sparse_table(p: _PathProblem, starts: Array, heads: Array, values: Array, is_backward: bool) -> Any:
    """Return the rows (backward: columns) of a search as a sparse matrix of weights within the limit."""
    graph = p.graph
    assert graph is not None
    tails = np.repeat(p.columns if is_backward else p.rows, np.diff(starts))
    ends = (heads, tails) if is_backward else (tails, heads)
    weights = graph.to_caller_weights(values, *ends)
    if graph.shift is not None:
        mask = p.is_within_limit(weights)
        weights, heads = weights[mask], heads[mask]
        starts = np.concatenate([[0], np.cumsum(mask)])[starts]
    table = _sparse_rows(weights, heads, starts, p.n)
    table = table.T.tocsr()[p.rows] if is_backward else table
    table = table if is_backward or p.targets is None else table[:, p.targets]
    table.sort_indices()
    return table


class _Elimination(Algorithm):
    """A sparse elimination, and a sweep through its factors for each source."""

    name = "factor"
    is_encoded = False

    def reason_against(self, p: Any) -> str | None:
        p.edges.require_eliminable()
        return None

    def least_cost(self, p: Any) -> float:
        # The analysis counts operations exactly, but takes as long as some searches. A bound shows whether it pays.
        return 2 * analysis_operations(p.n, p.edges.values.size)

    def tighter_bound(self, p: Any) -> float:
        if p.graph is None and _is_rounded(p.edges, p.semiring):
            return np.inf  # exact potentials take microseconds for each entry: only if no other method fits
        return 2 * analysis_operations(p.n, p.edges.values.size, widest_level(p.edges.pattern))

    def cost(self, p: Any) -> float:
        pairs, numbers = float(p.analysis.pairs(False).sum()), p.analysis.layout(False).size
        sweeps = sweep_operations(p.n, numbers, p.rows.size, None if p.targets is None else p.columns.size)
        return factor_operations(p.n, pairs) + sweeps

    def run(self, p: Any, *_: Any) -> PathTable:
        from semiring.sparse.factorization import Factor  # it loads Numba

        edges = SparseEntries(p.edges.pattern, p.edges.values, None, p.edges.scan)  # without names of vertices
        with portion(0, 1, 2):
            factor = Factor(p.semiring, edges, p.analysis, p.options.threads)

        def find(i: int, j: int) -> list[int]:
            if "graph" in p.__dict__ and p.graph is not None:
                return list(p.graph.find(i, j))
            try:
                return [int(vertex) for vertex in factor.path(i, j)]
            except NoPathError:
                return []

        count, size = p.rows.size, p.dtype.itemsize
        if p.limit is None:
            place = f"a table of {count:,} × {p.columns.size:,}"
            demand_memory(count * p.columns.size * size, place, "name fewer vertices, or call factor(A).rows")
            with portion(1, 2, 2):
                return PathTable(factor.table(p.rows, p.targets), None, find)
        step = max(1, _ENTRIES // max(1, p.n))
        blocks = (factor.table(p.rows[i : i + step], p.targets) for i in in_parts(range(0, count, step)))
        with portion(1, 2, 2):
            return PathTable(_stack_rows(p, [p.limit_rows(block) for block in blocks]), None, find)


def _stack_rows(p: _PathProblem, parts: list[Any]) -> Any:
    """Return groups of rows as one sparse matrix, which is empty if there are none."""
    from scipy.sparse import csr_array, vstack

    none = np.zeros(0, np.int64)
    empty = _sparse_rows(p.edges.values[:0], none, np.zeros(1, np.int64), p.columns.size)
    return csr_array(vstack([empty, *parts], format="csr"))


class _AllPairs(Algorithm):
    """The closure of the dense matrix of all pairs, of which the wanted ones are selected."""

    name = "dense"
    is_encoded = False

    def reason_against(self, p: Any) -> str | None:
        free = free_memory()
        has_room = p.options.method != AUTO or free is None or p.dense_memory < free
        return None if has_room else "the matrix of all pairs does not fit into memory"

    def cost(self, p: Any) -> float:
        return dense_operations(p.n, p.dtype.itemsize)

    def run(self, p: Any, *_: Any) -> PathTable:
        pattern, values = p.edges.pattern, p.edges.values
        demand_memory(p.dense_memory, f"the closure of {p.n:,} vertices", "leave out method=")
        A = np.full((p.n, p.n), p.semiring.zero_for(values.dtype), values.dtype)
        A[pattern.rows, pattern.indices] = values
        method = AUTO if p.options.method == self.name else p.options.method
        with trust_zeros():  # the reader of the edges has warned of a dense matrix
            found = select_paths(p.find_all_paths(A, method), p.sources, p.targets)
        return found if p.limit is None else PathTable(p.limit_rows(found.matrix), None, found.find)


_CANDIDATES = {method.name: method for method in (_Searches(), _AllPairs(), _Elimination())}


def _choose(p: _PathProblem, explanation: Explanation) -> Algorithm:
    """Return the algorithm of the lowest cost, or the one that the caller named.

    Raises `AlgebraError` for a named method that does not find the paths, and `TooLargeError` if only the closure of
    all pairs remains, and does not fit into memory.
    """
    method, only_closure = p.options.method, p.edges.closure_only_reason
    candidates: Sequence[Algorithm] = tuple(_CANDIDATES.values())
    if method != AUTO or only_closure:
        candidates = [_CANDIDATES[method if method in _CANDIDATES else "dense"]]
        explanation.note(only_closure or f"method={method!r} was given")
    answers: list[Answer] = []
    best = cheapest(candidates, p, answers)
    explanation.answers += answers
    explanation.costs = {answer.name: answer.cost for answer in answers if answer.cost is not None}
    if best is not None:
        explanation.method = best[0].name if method == AUTO or method in _CANDIDATES else method
        if method == AUTO and not only_closure:
            limited = p.limit is not None and isinstance(best[0], _Searches)
            why = "limit= was given: Dijkstra's algorithm visits only what lies within it"
            explanation.note(why if limited else f"{best[0].name} has the lowest predicted cost")
        return best[0]
    if method != AUTO:
        raise AlgebraError(
            f"method={method!r} needs a selective ⊕ and weights that do not gain, or potentials for them, which "
            f"{p.semiring.name} does not have here: leave method= out"
        )
    demand_memory(
        p.dense_memory,
        f"the matrix of all {p.n:,} vertices",
        "no sparse method supports these weights: name fewer vertices",
    )
    return _CANDIDATES["dense"]


def select_paths(paths: Paths, sources: Array | None, targets: Array | None) -> PathTable:
    """Select the rows of the sources and the columns of the targets from the paths of all pairs, on their device."""

    def select_rows(array: Any) -> Any:
        return array if sources is None else array[..., array_namespace(array).asarray(sources), :]

    matrix = select_rows(paths.matrix)
    if targets is not None:
        matrix = matrix[..., array_namespace(matrix).asarray(targets)]
    trees = None if paths.predecessors is None else select_rows(paths.predecessors)
    return PathTable(matrix, trees, paths._find_numbers)


def _is_rounded(edges: SparseEntries, semiring: Semiring) -> bool:
    """Return whether sums of floats are rounded, so that weights of both signs need potentials."""
    return semiring.tropical is not None and is_floating(edges.values.dtype)
