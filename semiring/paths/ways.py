"""Some of the best paths, in the cheapest of three ways.

*johnson*: Dijkstra's algorithm from every source, or from every target along edges that are turned round, whichever are
fewer; under potentials where weights have the wrong sign. It ends where the last vertex that was asked for is reached,
and costs what lies within a limit. *factor*: a sparse elimination, then a sweep a source, or what sources and targets
have in common in its tree. *dense*: the closure of all pairs, of which some are kept. Which is chosen follows from the
operations that each is predicted to take (`semiring.algorithms.schedule`), so from the graph and the question alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.algorithms.dijkstra import Searches, never_improves
from semiring.algorithms.johnson import SparseGraph, edge_graph, graph_potentials, searches
from semiring.algorithms.schedule import (
    analysis_operations,
    dense_operations,
    factor_operations,
    search_operations,
    sweep_operations,
)
from semiring.arrays.encoding import decode, encode, has_inner_zero, rounded
from semiring.arrays.memory import demand_memory, free_memory
from semiring.closures.costs import CostEstimate
from semiring.closures.explanation import Explanation
from semiring.errors import AlgebraError, DivergenceError, NegativeCycleError, NoPathError
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace
from semiring.paths.result import Paths
from semiring.paths.selected_sources import Answer
from semiring.sparse.factorization import Factor, inner_dtype, largest_size
from semiring.sparse.inputs import SparseEntries
from semiring.sparse.symbolic import Analysis, analyse, widest_level

__all__ = ["answer", "some_of"]

Array = NDArray[Any]
#: A matrix (p, q), predecessors (p, n) or None, and what finds a path.
_Found: TypeAlias = tuple[Any, Any, Callable[[int, int], list[int]]]

_EXACT = 2**49  # whole numbers whose sums, under potentials too, are exact in float64
_ENTRIES = 1 << 24  # in which a limit is looked for at a time


@dataclass(frozen=True, eq=False)
class _Graph:
    """Edges for Dijkstra's algorithm in both directions, and how values come back."""

    edges: SparseEntries
    semiring: Semiring
    forward: Searches
    shift: Array | None = None  # potentials h (n,): w[i, j] + h[i] - h[j] is searched, of weights w in min-plus

    @property
    def backward(self) -> Searches:
        """The same from the ends of edges to their beginnings."""
        first, rows, entries = _turned(self.forward)
        s = self.forward
        return Searches(s.plan, first, rows, s.weights[entries], turned=True)

    def given(self, values: Array, sources: Array, targets: Array) -> Array:
        """Values of paths between pairs of vertices (broadcast), as the caller holds them."""
        dtype = self.edges.values.dtype
        if self.shift is None:
            inner = has_inner_zero(self.semiring, values.dtype)
            return np.asarray(decode(values, self.semiring, dtype)) if inner else rounded(values, dtype)
        values = values + (self.shift[targets] - self.shift[sources])
        values = values if self.semiring.tropical == "min" else 0.0 - values
        if is_floating(dtype):
            return np.asarray(rounded(values, dtype))
        none = np.isinf(values)
        found: Array = np.where(none, 0, values).astype(dtype)
        found[none] = self.semiring.zero_for(dtype)
        return found

    def bound(self, limit: Any, sources: Array, targets: Array | None) -> Any:
        """What a search may stop at so that nothing within a limit is missed."""
        if self.shift is None:
            held = _held(limit, self.edges.values.dtype, self.semiring)
            return encode(np.array([held]), self.semiring, self.forward.plan.dtype)[0]
        ends = self.shift if targets is None else self.shift[targets]
        size = limit if self.semiring.tropical == "min" else -limit
        most = float(size) + max(self.shift[sources].tolist(), default=0.0) - min(ends.tolist(), default=0.0)
        return most + 1e-9 * (abs(float(size)) + abs(most) + float(np.abs(self.shift).max(initial=0.0)))

    def find(self, i: int, j: int) -> list[int]:
        """The vertices of a best path, by one search."""
        values, trees = self.forward.table(np.array([i]), np.array([j]), trees=True)
        assert trees is not None
        return _followed(trees[0], i, j) if values[0, 0] != self.forward.plan.zero else []


def _turned(s: Searches) -> tuple[Array, Array, Array]:
    from semiring.kernels.cpu.elimination import structure

    found: tuple[Array, Array, Array] = structure.transposed(s.starts, s.heads)
    return found


def _held(limit: Any, dtype: np.dtype[Any], semiring: Semiring) -> Any:
    """A limit as the dtype holds it: of integers the last one that is no worse, or the last that there is."""
    if dtype.kind not in "iu":
        return dtype.type(limit)
    ends, small_is_better = np.iinfo(dtype), semiring.zero_for(dtype) > semiring.one_for(dtype)
    least, most = int(ends.min), int(ends.max)
    if not least <= limit <= most:
        return dtype.type(least if limit < least else most)
    return dtype.type(math.floor(limit) if small_is_better else math.ceil(limit))


def _followed(tree: Array, i: int, j: int) -> list[int]:
    found = [j]
    while found[-1] != i:
        found.append(int(tree[found[-1]]))
    return found[::-1]


def _searched(edges: SparseEntries, semiring: Semiring, threads: int) -> _Graph | None:
    """The edges for Dijkstra's algorithm; None where it is not right for them.

    Raises `NegativeCycleError`, `IntegerOverflowError`.
    """
    values, n, dtype = edges.values, edges.pattern.n, edges.values.dtype
    starts, heads = edges.pattern.starts, edges.pattern.indices
    if never_improves(semiring, values):
        inner = inner_dtype(semiring, dtype, n, largest_size(values, edges.scan))
        if is_floating(dtype) and semiring.supports(np.float64):
            inner = np.dtype(np.float64)  # added up in it, and rounded once
        nonnegative = edges.scan.nonnegative and semiring.tropical == "min"
        plan = make_plan(semiring, inner, nonnegative=bool(nonnegative), threads=threads)
        held = encode(values, semiring, inner) if has_inner_zero(semiring, inner) else values.astype(inner)
        return _Graph(edges, semiring, Searches(plan, starts, heads, held))
    graph = _signed(edges, semiring)
    h = None if graph is None else graph_potentials(graph, np.dtype(np.float64) if dtype.kind == "i" else dtype)
    return None if graph is None or h is None else _Graph(edges, semiring, searches(graph, h, threads), h)


def _signed(edges: SparseEntries, semiring: Semiring) -> SparseGraph | None:
    """The edges for potentials, in float64; None where that is not theirs."""
    values, n = edges.values, edges.pattern.n
    if semiring.tropical is None:
        return None
    if values.dtype.kind == "i" and largest_size(values, edges.scan) * (n + 1) >= _EXACT:
        return None
    sign = 1 if semiring.tropical == "min" else -1
    return edge_graph(n, edges.pattern.rows, edges.pattern.indices, values, sign)


# ------------------------------------------------------------------------------------------------------- the choice


def answer(
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
    all_paths: Callable[[Any, str], Paths],
) -> Answer:
    """What was asked for. ``all_paths(A, method)`` finds those of all pairs of a dense matrix.

    ``method``: a way, a method of closure, or ``"auto"``. Raises as `closure`, and `TooLargeError`.
    """
    try:
        return _WaySearch(edges, semiring, sources, targets, limit, method, predecessors, threads, all_paths).answer()
    except NegativeCycleError as error:
        raise error.of_paths().named(names) from None
    except DivergenceError as error:
        raise error.named(names) from None


def _sparse_rows(values: Array, heads: Array, starts: Array, columns: int) -> Any:
    """A SciPy sparse matrix by its compressed rows; of halves in float32, for SciPy has no routines for them."""
    from scipy.sparse import csr_array

    stored = values.astype(np.float32) if is_half(values.dtype) else values
    return csr_array((stored, heads, starts), shape=(starts.size - 1, columns))


@dataclass
class _WaySearch:
    edges: SparseEntries
    semiring: Semiring
    sources: Array | None
    targets: Array | None
    limit: Any
    method: str
    predecessors: bool
    threads: int
    all_paths: Callable[[Any, str], Paths]

    def __post_init__(self) -> None:
        self.n = self.edges.pattern.n
        self.rows = np.arange(self.n) if self.sources is None else self.sources
        self.columns = np.arange(self.n) if self.targets is None else self.targets
        self.explanation = Explanation(self.semiring.name, method=self.method, backend="cpu", threads=self.threads)
        self.explanation.shape, self.explanation.dtype = (self.n, self.n), self.edges.values.dtype
        p, q = self.rows.size, self.columns.size
        within = "" if self.limit is None else f", none worse than {self.limit}"
        self.explanation.subject = f"paths from {p:,} to {q:,} of {self.n:,} vertices{within}"

    def answer(self) -> Answer:
        way = self.way()
        self.explanation.method = way
        found = {"johnson": self.by_searches, "factor": self.by_factor}.get(way, self.by_closure)()
        return Answer(
            self.sources, self.targets, self.limit, *found, self.explanation, self.edges.pattern, self.edges.values
        )

    def way(self) -> str:
        """The method: as it was named, or that of the fewest operations."""
        note = self.explanation.note
        self.graph: _Graph | None = None
        self.analysis: Analysis | None = None
        if self.method in ("johnson", "factor"):
            self.edges.require_eliminable()
        elif self.edges.closure_only_reason:
            note(self.edges.closure_only_reason)
            return "dense" if self.method == "auto" else self.method
        if self.method in ("auto", "johnson"):
            self.graph = _searched(self.edges, self.semiring, self.threads)
            if self.graph is None and self.method == "johnson":
                raise AlgebraError(
                    f"method='johnson' needs a selective ⊕ and weights that do not gain, or potentials for them, which "
                    f"{self.semiring.name} does not have here: leave method= out"
                )
        if self.method != "auto":
            note(f"method={self.method!r} was given")
            return self.method
        if self.limit is not None and self.graph is not None:
            note("limit= was given: Dijkstra's algorithm visits only what lies within it")
            return "johnson"
        return self.cheapest()

    def cheapest(self) -> str:
        p, q = self.rows.size, self.columns.size
        n, m, size = self.n, self.edges.values.size, self.edges.values.dtype.itemsize
        costs = CostEstimate({} if self.graph is None else {"johnson": search_operations(n, m, min(p, q))})
        needed, free = n * n * (2 * size + 4), free_memory()
        if free is None or needed < free:
            costs["dense"] = dense_operations(n, size)
        least = min(costs.values(), default=np.inf)
        drowned = self.graph is None and _is_rounded(self.edges, self.semiring)
        # (Exact potentials take microseconds an entry: only what fits no other way.)
        # The analysis tells operations exactly, but costs some searches itself: a bound says whether it is worth it.
        worth = not (drowned and costs) and 2 * analysis_operations(n, m) < least
        if worth and 2 * analysis_operations(n, m, widest_level(self.edges.pattern)) < least:
            self.analysis = analyse(self.edges.pattern)
            pairs, numbers = float(self.analysis.pairs(False).sum()), self.analysis.layout(False).size
            asked = sweep_operations(n, numbers, p, None if self.targets is None else q)
            costs["factor"] = factor_operations(n, pairs) + asked
        if not costs:
            demand_memory(
                needed,
                f"the matrix of all {n:,} vertices",
                "no sparse method supports these weights: name fewer vertices",
            )
            costs["dense"] = 0.0
        self.explanation.predict({**costs, "dense": dense_operations(n, size)})
        self.explanation.note(f"{costs.cheapest} has the lowest predicted cost: {costs}")
        return costs.cheapest

    # --------------------------------------------------------------------------------------------------- the ways

    def by_searches(self) -> _Found:
        graph, sources, targets = self.graph, self.sources, self.targets
        assert graph is not None
        turned = self.columns.size < self.rows.size
        search = graph.backward if turned else graph.forward
        begins, ends = (self.columns, sources) if turned else (self.rows, targets)
        others = self.rows if turned else self.columns
        if self.limit is not None:
            found = search.near(begins, graph.bound(self.limit, self.rows, targets), ends)
            return self.sparse(graph, *found, turned), None, graph.find
        keeps = self.predecessors and targets is None and not turned
        values, trees = search.table(begins, ends, trees=keeps)
        pairs = (others, begins[:, None]) if turned else (begins[:, None], others)
        given = graph.given(values, *pairs)
        return np.ascontiguousarray(given.T) if turned else given, trees, graph.find

    def sparse(self, graph: _Graph, starts: Array, heads: Array, values: Array, turned: bool) -> Any:
        """The rows (columns) that a search found, as a sparse matrix of those that are no worse than the limit."""
        tails = np.repeat(self.columns if turned else self.rows, np.diff(starts))
        ends = (heads, tails) if turned else (tails, heads)
        given = graph.given(values, *ends)
        if graph.shift is not None:
            kept = self.within(given)
            given, heads = given[kept], heads[kept]
            starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        found = _sparse_rows(given, heads, starts, self.n)
        found = found.T.tocsr()[self.rows] if turned else found
        found = found if turned or self.targets is None else found[:, self.targets]
        found.sort_indices()
        return found

    def within(self, values: Array) -> Array:
        """Which values are paths, and no worse than the limit."""
        limit = _held(self.limit, values.dtype, self.semiring)
        zero = self.semiring.zero_for(values.dtype)
        return np.asarray((self.semiring.add(values, limit) == values) & (values != zero))

    def by_factor(self) -> _Found:
        edges = SparseEntries(self.edges.pattern, self.edges.values, None, self.edges.scan)  # vertices are numbers here
        analysis = self.analysis or analyse(edges.pattern)
        factor = Factor(self.semiring, edges, analysis, self.threads)

        def find(i: int, j: int) -> list[int]:
            if self.graph is not None:
                return self.graph.find(i, j)
            try:
                return [int(vertex) for vertex in factor.path(i, j)]
            except NoPathError:
                return []

        if self.limit is None:
            p, q, size = self.rows.size, self.columns.size, self.edges.values.dtype.itemsize
            demand_memory(p * q * size, f"a table of {p:,} × {q:,}", "name fewer vertices, or call factor(A).rows")
            return factor.table(self.rows, self.targets), None, find
        step = max(1, _ENTRIES // max(1, self.n))
        blocks = (factor.table(self.rows[at : at + step], self.targets) for at in range(0, self.rows.size, step))
        parts = [self.limited(block) for block in blocks]
        return self.stacked(parts), None, find

    def limited(self, block: Array) -> Any:
        """Some rows as a sparse matrix of what is no worse than the limit."""
        kept = self.within(block)
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return _sparse_rows(block[kept], np.nonzero(kept)[1], starts, block.shape[1])

    def stacked(self, parts: list[Any]) -> Any:
        from scipy.sparse import csr_array, vstack

        none = np.zeros(0, np.int64)
        empty = _sparse_rows(self.edges.values[:0], none, np.zeros(1, np.int64), self.columns.size)
        return csr_array(vstack([empty, *parts], format="csr"))

    def by_closure(self) -> _Found:
        pattern, values = self.edges.pattern, self.edges.values
        needed = self.n**2 * (2 * values.itemsize + 4)
        demand_memory(needed, f"the closure of {self.n:,} vertices", "leave out method=")
        A = np.full((self.n, self.n), self.semiring.zero_for(values.dtype), values.dtype)
        A[pattern.rows, pattern.indices] = values
        found = self.all_paths(A, self.method)
        matrix, trees, find = some_of(found, self.sources, self.targets)
        return (matrix, trees, find) if self.limit is None else (self.limited(matrix), None, find)


def some_of(found: Paths, sources: Array | None, targets: Array | None) -> _Found:
    """The rows and columns of all paths that were asked for, where they live."""

    def chosen(array: Any, vertices: Array | None, axis: int) -> Any:
        xp = array_namespace(array)
        return array if vertices is None else xp.take(array, xp.asarray(vertices), axis=axis)

    def find(i: int, j: int) -> list[int]:
        try:
            return [int(vertex) for vertex in found.path(i, j)]
        except NoPathError:
            return []

    trees = None if found.predecessors is None or targets is not None else chosen(found.predecessors, sources, 0)
    return chosen(chosen(found.matrix, sources, 0), targets, 1), trees, find


def _is_rounded(edges: SparseEntries, semiring: Semiring) -> bool:
    """Whether floats are added up: then both signs need potentials."""
    return semiring.tropical is not None and is_floating(edges.values.dtype)
