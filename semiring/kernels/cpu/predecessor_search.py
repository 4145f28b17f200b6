"""Find predecessors on the CPU, on threads, by the method that `semiring.algorithms.predecessors` states and proves.

Every kernel works on a range of rows or of columns and writes no other entry. So threads can take ranges, and the
result does not depend on their number. Entries of a row or column that are used often are copied into a tile first. A
column of a large matrix costs a cache line an element. A tile of columns costs that line once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.numba_internals import entry_point
from semiring.kernels.cpu.codegen.scalars import scalars_for
from semiring.kernels.cpu.direct_edges import edges_from, edges_into, extremes, last_edges
from semiring.kernels.cpu.order import MAX_DIRECT_EDGES
from semiring.kernels.cpu.predecessor_trees import COLUMNS, follow_intermediates, grow_trees, settle_rows
from semiring.kernels.cpu.small_predecessors import search_each
from semiring.kernels.cpu.thread_pool import run_on_ranges
from semiring.kernels.machines import cpu_speed
from semiring.kernels.tolerance import Tolerance, unattained_distance

_PARALLEL_ENTRIES = 1 << 15  # of a stack: from here on the search takes longer than waking a second thread


class _KernelOperands:
    """The operands that the kernels share in one call."""

    def __init__(self, plan: KernelPlan, D: Array, adjacency: Array, tolerance: Tolerance) -> None:
        self.plan, self.D, self.adjacency, self.tolerance = plan, D, adjacency, tolerance
        self.sr, self.sums = scalars_for(plan)
        self.zero = plan.dtype.type(plan.zero)
        #: The type in which paths are added up, and 1̄ of that type.
        self.wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
        self.one = self.wide.type(plan.one)
        self.tight, self.loose = self.tolerance_pair("tight"), self.tolerance_pair("loose")

    def tolerance_pair(self, name: str, dtype: np.dtype[Any] | None = None) -> tuple[Any, ...]:
        kind = (dtype or self.plan.dtype).type
        return tuple(kind(value) for value in getattr(self.tolerance, name))

    def run_on_ranges(self, function: Any, parts: int, unit: int) -> None:
        """Call ``function(start, stop)`` on ranges of 0 … n - 1, with borders at multiples of ``unit``."""
        n, threads = self.D.shape[0], self.plan.threads
        if self.D.nbytes < cpu_speed().copy_bytes:  # less work than waking a second thread
            function(0, n)
            return
        step = max(1, -(-n // (unit * parts * threads))) * unit
        run_on_ranges(function, n, step, threads, unit=unit)


def find_predecessors(plan: KernelPlan, D: Array, tolerance: Tolerance | list[Tolerance], adjacency: Array) -> Array:
    """Return the predecessors int32 of D (n, n), or of each matrix of a stack (count, n, n), D = ``adjacency``*."""
    if is_small(D.shape[-1]):
        return _search_small(plan, D, tolerance, adjacency)
    if D.ndim == 2:
        assert isinstance(tolerance, Tolerance)
        return _search_large(plan, D, tolerance, adjacency)
    pred = np.empty(D.shape, np.int32)
    limits = tolerance if isinstance(tolerance, list) else [tolerance] * len(D)
    for number, (closed, limit, edges) in enumerate(zip(D, limits, adjacency, strict=True)):
        pred[number] = _search_large(plan, closed, limit, edges)
    return pred


def is_small(n: int) -> bool:
    """Return whether a `StackSearch` searches matrices of n rows: no vertex has more direct edges than are tried."""
    return n <= MAX_DIRECT_EDGES


def _search_small(plan: KernelPlan, D: Array, tolerance: Tolerance | list[Tolerance], adjacency: Array) -> Array:
    """Find the predecessors of matrices of few rows, each by one thread."""
    search = StackSearch(plan, np.ascontiguousarray(D), tolerance, adjacency)
    if search.count == 1 or D.size < _PARALLEL_ENTRIES:
        search.run(0, search.count)
    else:
        run_on_ranges(search.run, search.count, max(1, search.count // (4 * plan.threads)), plan.threads)
    return search.settle()


class StackSearch:
    """A search for the predecessors of a stack of matrices of at most `MAX_DIRECT_EDGES` rows. D is C-contiguous.

    The tolerances of the matrices differ only in their absolute parts.
    """

    def __init__(self, plan: KernelPlan, D: Array, tolerance: Tolerance | list[Tolerance], adjacency: Array) -> None:
        n, self.predecessors = D.shape[-1], np.empty(D.shape, np.int32)
        stack = (-1, n, n)
        Ds, As, preds = (
            D.reshape(stack),
            np.ascontiguousarray(adjacency).reshape(stack),
            self.predecessors.reshape(stack),
        )
        self.count = len(Ds)
        self._matrices, self._flagged_rows = (Ds, As, preds), np.zeros((self.count, n), np.bool_)
        self._plan, self._tolerance = plan, tolerance
        self._limits: Any = ((0, 0), (0, 0), np.empty((0, 2), plan.dtype))  # nothing is rounded
        if isinstance(tolerance, list):
            absolutes = np.array([(each.tight[1], each.loose[1]) for each in tolerance], plan.dtype)
            self._limits = tolerance[0].tight, tolerance[0].loose, absolutes
        elif plan.dtype.kind == "f":
            self._limits = tolerance.tight, tolerance.loose, self._limits[2]
        self._entry, self._constants = plan.memo.get("small predecessors") or _compile_small(
            plan, Ds, As, preds, self._flagged_rows
        )

    def run(self, start: int, stop: int) -> None:
        """Search the matrices from ``start`` to ``stop``, which must be closed."""
        constants = self._constants
        self._entry(*constants[:2], *self._matrices, *constants[2:], *self._limits, start, stop, self._flagged_rows)

    def settle(self) -> Array:
        """Repair the rows that rounding may have damaged, and return the predecessors."""
        flagged_rows = self._flagged_rows
        if flagged_rows.any():
            for number in np.flatnonzero(flagged_rows.any(axis=1)):
                closed, edges, trees = (each[number] for each in self._matrices)
                limit = self._tolerance[number] if isinstance(self._tolerance, list) else self._tolerance
                _settle_rows(_KernelOperands(self._plan, closed, edges, limit), trees, flagged_rows[number])
        return self.predecessors


def _compile_small(plan: KernelPlan, Ds: Array, As: Array, preds: Array, flagged_rows: Array) -> tuple[Any, ...]:
    """Return the entry of `search_each`, which dispatches on no types, and its constants; keep them for the plan."""
    case = _KernelOperands(plan, Ds, As, Tolerance())
    constants = case.sr, case.sums, case.zero, plan.dtype.type(plan.one), case.one
    limits = case.tight, case.loose, np.empty((0, 2), plan.dtype)
    arguments = *constants[:2], Ds, As, preds, *constants[2:], *limits, 0, 0, flagged_rows
    plan.memo["small predecessors"] = entry_point(search_each, tuple(map(typeof, arguments))), constants
    entry: tuple[Any, ...] = plan.memo["small predecessors"]
    return entry


def _search_large(plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array) -> Array:
    """Find the predecessors of one matrix, by ranges of its rows and columns."""
    n = D.shape[0]
    case = _KernelOperands(plan, np.ascontiguousarray(D), np.ascontiguousarray(adjacency), tolerance)
    edges = _direct_edges(case)
    pred = np.empty((n, n), np.int32)
    pending_columns, open_rows, doubtful_rows = np.zeros((3, n), np.bool_)
    _fill_direct_edges(case, edges, pred, pending_columns, open_rows, doubtful_rows)
    if edges.is_monotone and pending_columns.any():
        _follow_intermediates(case, edges, pred, pending_columns, doubtful_rows)
    if open_rows.any():
        _grow_trees(case, edges, pred, open_rows)
    _settle_rows(case, pred, open_rows | doubtful_rows)
    return pred


class _IncomingEdges(NamedTuple):
    """The direct edges into every vertex, as `edges_into` leaves them."""

    tails: Array  # (n, width) int32
    weights: Array  # (n, width)
    counts: Array  # (n) int32: how many edges there are, which may exceed the width
    best: Array  # (n), as worst: the `extremes`, or empty if no vertex has more edges than the width
    worst: Array
    is_monotone: bool  # whether no edge improves on 1̄


def _direct_edges(case: _KernelOperands) -> _IncomingEdges:
    """Find the direct edges into every vertex.

    If a vertex has more than `MAX_DIRECT_EDGES` and no edge improves on 1̄, search again and exclude edges by a bound
    (`edges_into`).
    """
    D, plan, tight = case.D, case.plan, case.tight
    n, width = D.shape[0], min(D.shape[0], MAX_DIRECT_EDGES)
    tails, weights = np.empty((n, width), np.int32), np.empty((n, width), D.dtype)
    counts, improves = np.zeros(n, np.int32), np.zeros(n, np.bool_)
    best, worst = np.empty((2, 0), D.dtype)

    def scan(j0: int, j1: int) -> None:
        improves[j0] = not edges_into(
            *(case.sr, D, case.adjacency, case.zero, plan.dtype.type(plan.one), tight, best, worst),
            *(j0, j1, tails, weights, counts),
        )

    case.run_on_ranges(scan, 1, 16)
    is_monotone = not improves.any()
    if is_monotone and counts.max(initial=0) > width:
        best, worst = np.full((2, n), case.zero)
        case.run_on_ranges(lambda j0, j1: extremes(case.sr, D, case.zero, j0, j1, best, worst), 1, 16)
        counts[:] = 0
        case.run_on_ranges(scan, 1, 16)
    return _IncomingEdges(tails, weights, counts, best, worst, is_monotone)


def _fill_direct_edges(
    case: _KernelOperands,
    edges: _IncomingEdges,
    pred: Array,
    pending_columns: Array,
    open_rows: Array,
    doubtful_rows: Array,
) -> None:
    """Fill pred from direct edges by `last_edges`, which marks the remaining work."""
    D, counts, width = case.D, edges.counts, edges.tails.shape[1]
    promising = _columns_with_nearer(case.plan, edges.best, edges.worst)
    tried = np.where(promising, np.minimum(counts, width), 0) if edges.is_monotone else 0 * counts
    is_crowded = counts > width
    # 64 rows at a time if they fit into half of the second-level cache, else 32. At n = 2048, on one Zen 4 core, 64
    # rows take 20 ms, 32 rows 27 ms and 16 rows 34 ms. At n = 4096 the times of 64 rows vary by half.
    lanes = 64 if 64 * D.shape[0] * D.itemsize <= cpu_speed().turned else 32

    def fill_rows(r0: int, r1: int) -> None:
        last_edges(
            *(lanes, case.sr, case.sums, D, case.adjacency, pred, case.zero, case.one, edges.tails, edges.weights),
            *(tried, is_crowded, case.tight, case.loose, r0, r1, pending_columns, open_rows, doubtful_rows),
        )

    case.run_on_ranges(fill_rows, 4, lanes)


def _follow_intermediates(
    case: _KernelOperands, edges: _IncomingEdges, pred: Array, pending_columns: Array, doubtful_rows: Array
) -> None:
    """Decide the remaining entries of the ``pending_columns`` by trying all intermediate vertices."""

    def follow(j0: int, j1: int) -> None:
        limits = case.tight, case.loose
        follow_intermediates(
            case.sr, case.D, pred, case.zero, edges.best, *limits, j0, j1, pending_columns, doubtful_rows
        )

    case.run_on_ranges(follow, 4, COLUMNS)


def _grow_trees(case: _KernelOperands, edges: _IncomingEdges, pred: Array, open_rows: Array) -> None:
    """Complete the ``open_rows``, each by one search from its source."""
    D, adjacency, zero, tight = case.D, case.adjacency, case.zero, case.tight
    heads, lengths = np.empty_like(edges.tails), np.empty_like(edges.weights)
    outdegree = np.empty_like(edges.counts)

    def grow(r0: int, r1: int) -> None:
        grow_trees(
            *(case.sr, D, adjacency, pred, zero, edges.is_monotone, edges.tails, edges.weights, edges.counts),
            *(heads, lengths, outdegree, tight, r0, r1, open_rows),
        )

    case.run_on_ranges(lambda r0, r1: edges_from(D, adjacency, zero, tight, r0, r1, heads, lengths, outdegree), 4, 1)
    case.run_on_ranges(grow, 8, 1)


def _columns_with_nearer(plan: KernelPlan, best: Array, worst: Array) -> Any:
    """Return a mask of the columns j that some vertex can be strictly nearer to than another, from the `extremes`.

    Without extremes the mask is True.
    """
    if not best.size:
        return True
    add = plan.semiring.add.expression
    nearest = best[0]
    for value in np.unique(best):
        nearest = add.evaluate({"x": nearest, "y": value}, plan.dtype)
    return add.evaluate({"x": nearest, "y": worst}, plan.dtype) != worst


def _settle_rows(case: _KernelOperands, pred: Array, rows: Array) -> int:
    """Validate the marked rows of pred, and repair each row that is not a tree of best paths.

    Return how many rows were repaired. pred may be any int32 matrix, because wrong entries in a marked row are
    replaced.
    """
    if not rows.any():
        return 0
    wide = np.empty(0, case.wide)
    bound = case.tolerance_pair("bound", case.wide)
    repaired, failed = np.zeros((2, rows.size), np.int64)

    def check(r0: int, r1: int) -> None:
        repaired[r0], failed[r0] = settle_rows(
            *(case.sr, case.sums, case.D, case.adjacency, pred, case.zero, case.one, case.tight, bound),
            *(case.tolerance.is_relative, r0, r1, rows, wide),
        )

    case.run_on_ranges(check, 8, 1)
    if failed.any():
        raise unattained_distance(case.plan)
    return int(repaired.sum())
