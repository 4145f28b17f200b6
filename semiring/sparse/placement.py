"""Select where a factor is stored and solved: in the memory of the host, or on a GPU (`sparse.device_factor`).

`join_pairs` computes entries of A* for a list of pairs, by products of the labels of both ends at the supernodes above
both.

If there are few ends, the label of each end is computed by a climb up the tree. Many ends share the supernodes above
them, and their labels are computed from the root down, with the pivots of a supernode adjacent in memory
(`semiring.kernels.cpu.elimination.hub_labels`). The operations of both algorithms are counted first, and the cheaper
one runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.arrays.memory import demand_memory, free_memory
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.namespaces import is_device_array
from semiring.sparse.factor_solve import TriangularSolves, table
from semiring.sparse.numeric_factor import FactorNumbers, eliminate
from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["HostPlacement", "join_pairs", "placement_of", "select_placement"]


Array = NDArray[Any]


class HostPlacement:
    """The operations of factors in the memory of the host.

    `sparse.device_factor.DevicePlacement` has the same operations on a GPU. ``xp`` is the array library. ``eliminate``
    computes a factor, ``demand`` raises `TooLargeError` if memory is short, and ``sweeps`` is the solver of x ⊗ A*.
    """

    xp = np
    eliminate = staticmethod(eliminate)
    demand = staticmethod(demand_memory)
    sweeps = TriangularSolves

    def context(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing. On a GPU, the context selects the device."""
        return nullcontext()

    def empty_rows(self, count: int, n: int, dtype: Any) -> Array:
        """Return an uninitialized array for rows of A*, (count, n)."""
        return np.empty((count, n), dtype)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Do nothing, because an elimination on the host needs no copy of its structure."""

    def all_rows(self, numbers: FactorNumbers, plan: KernelPlan, out: Array) -> None:
        """Write A* to ``out`` (n, n)."""
        TriangularSolves(numbers, plan).rows_into(np.arange(len(out)), out)

    def table(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Write the entries of A* from p sources to q targets to ``out`` (p, q)."""
        table(sweeps(), sweeps(columns=True), sources, targets, out)

    def pairs(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Write the entries of A* from p sources to p targets to ``out`` (p,), pair by pair."""
        join_pairs(sweeps(), sweeps(columns=True), sources, targets, out)


def select_placement(device: Any) -> Any:
    """Return the placement on the host for None, else on the GPU of that name.

    Raises `ValueError` and `DeviceError`.
    """
    if device is None:
        return HostPlacement()
    from semiring.arrays.device import device_number
    from semiring.sparse.device_factor import DevicePlacement

    return DevicePlacement(device_number(device))


def placement_of(array: Any) -> Any:
    """Return the placement on the host, or on the GPU that holds an array."""
    return select_placement(f"cuda:{array.device.id}" if is_device_array(array) else None)


# The following constants decide bits, so they may depend on the pairs and the pattern alone.
_LINE_BYTES = 256  # bytes of the labels that are computed together from the root down: four vectors of AVX-512
_CHEAP_OPERATIONS = 20_000_000  # so many operations of climbs take less time than counting those from the root down
_MAX_PARTIAL_SUMS = 1 << 25  # the most partial sums that are held at a time
# The following constants decide only the time and the memory.
_ENDS_PER_TASK = 32  # ends whose labels one task computes by climbs
_PAIRS_PER_TASK = 256  # pairs whose labels one task joins
_MAX_LABEL_BYTES = 1 << 28  # the bytes of labels that are held at a time without a query of the free memory
_MIN_GROUP_OPERATIONS = 4_000_000  # the least operations of a group of items, which is one task
_ITEM_OPERATIONS = 1000  # the overhead of an item, in operations


def join_pairs(rows: TriangularSolves, columns: TriangularSolves, sources: Array, targets: Array, out: Array) -> None:
    """Write to ``out`` (p,) the entries of A* from p sources to p targets, both int arrays of vertices."""
    a = rows.analysis
    tails, heads = a.place[sources], a.place[targets]
    loops = rows.loops(0, 100 * tails.size)
    common = loops.kernels.find_lowest_common(tails, heads, a.supernode_of, a.parents)
    order = np.lexsort((heads, tails, common))
    first_common = int(np.searchsorted(common[order], 0))
    out[order[:first_common]] = rows.plan.zero  # the two ends are in different trees
    parts = elimination_trees.sums_from_roots(a.parents, -(-a.pivots // _line_entries(rows)))
    step = max(1, _MAX_PARTIAL_SUMS // int(parts.max()))
    for start in range(first_common, order.size, step):
        some = order[start : start + step]
        values = np.empty(some.size, out.dtype)
        _PairJoin(rows, columns, tails[some], heads[some], common[some]).join(values)
        out[some] = values


def _line_entries(rows: TriangularSolves) -> int:
    """Return the number of entries of a line of `_LINE_BYTES`."""
    return _LINE_BYTES // rows.plan.dtype.itemsize


class _PairJoin:
    """Pairs of places, sorted by the lowest supernode that is above both."""

    def __init__(
        self, rows: TriangularSolves, columns: TriangularSolves, tails: Array, heads: Array, common: Array
    ) -> None:
        self.rows, self.columns, self.analysis, self.plan = rows, columns, rows.analysis, rows.plan
        self.tails, self.heads, self.common = tails, heads, common
        self.shares_labels = bool(rows.numbers.layout.symmetric and rows.plan.semiring.selective)

    def join(self, out: Array) -> None:
        """Write to ``out`` (p,) the entry of A* for each pair."""
        a = self.analysis
        climbs = self.count_climbs()
        if climbs > _CHEAP_OPERATIONS:
            nodes = np.flatnonzero(a.ancestors(a.pivot_starts[self.common]))
            starts = np.searchsorted(self.common, a.lows[nodes])
            stops = np.searchsorted(self.common, nodes, "right")
            tree = a.lows, a.pivot_starts, a.row_starts, a.rows
            from semiring.kernels.cpu.elimination import hub_labels

            work = hub_labels.count_operations(nodes, starts, stops, self.tails, self.heads, self.shares_labels, *tree)
            if int(work.sum()) < climbs:
                with self.span(int(work.sum()), "from the roots"):
                    self.join_columns(nodes, starts, stops, work, out)
                return
        with self.span(climbs, "from the ends"):
            self.join_labels(out)

    def span(self, operations: int, labels: str) -> Any:
        """Return a span of the open profile for so many operations."""
        return profiling.span("method", "pairs", pairs=operations, shape=self.tails.shape, labels=labels)

    # ------------------------------------------------------------------------------------------------ up the tree

    def count_climbs(self) -> int:
        """Return the operations of `join_labels`."""
        a = self.analysis
        tails, heads = np.unique(self.tails), np.unique(self.heads)
        climbs = a.climbs[a.supernode_of[tails]].sum() + a.climbs[a.supernode_of[heads]].sum()
        return int(climbs + a.squares[self.common].sum())

    def join_labels(self, out: Array) -> None:
        """Write the entries to ``out`` by the labels of the distinct ends, some pairs at a time."""
        a, zero = self.analysis, self.plan.zero
        longest = int((a.heights + a.pivots).max())
        step = max(1, _MAX_LABEL_BYTES // (2 * longest * out.itemsize))
        for start in range(0, out.size, step):
            part = slice(start, start + step)
            common, values = self.common[part], out[part]
            x, x_at = self.compute_labels(self.rows, self.tails[part], common)
            y, y_at = self.compute_labels(self.columns, self.heads[part], common)
            lengths = a.heights[common] + a.pivots[common]
            loops = self.rows.loops(values.size // 10, int(lengths.sum()))
            tasks = [
                (loops.sr, x, x_at[piece], y, y_at[piece], lengths[piece], zero, values[piece])
                for piece in _pieces(values.size, _PAIRS_PER_TASK)
            ]
            run_tasks(loops.kernels.join_labels, tasks, self.plan.threads)

    def compute_labels(self, sweeps: TriangularSolves, places: Array, common: Array) -> tuple[Array, Array]:
        """Return the labels of the distinct places, and the offset of the label of each place."""
        a, plan = self.analysis, self.plan
        distinct, which = np.unique(places, return_inverse=True)
        limits = np.full(distinct.size, a.count, np.int64)
        np.minimum.at(limits, which, common)
        ends = np.cumsum(a.heights[limits] + a.pivots[limits])
        starts = np.concatenate([[0], ends[:-1]])
        label = np.empty(int(ends[-1]), plan.dtype)
        levels = a.heights[a.supernode_of[distinct]]  # at least as many as the supernodes above a place
        loops = sweeps.loops(int(np.minimum(levels + 1, a.count).sum()), int(a.climbs[a.supernode_of[distinct]].sum()))
        folds = loops.fold_across, loops.fold_along, loops.ordinals
        blocks = sweeps.numbers.layout.blocks
        numbers = sweeps.numbers.memory, sweeps.up_panels, blocks, a.heights, plan.zero, plan.one
        tree, close = (a.supernode_of, a.parents, *sweeps.tree), not sweeps.columns
        tasks = [
            (*folds, distinct[part], limits[part], close, tree, *numbers, starts[part], label)
            for part in _pieces(distinct.size, _ENDS_PER_TASK)
        ]
        run_tasks(loops.kernels.climb, tasks, plan.threads)
        return label, starts[which]

    # ---------------------------------------------------------------------------------------------- down the tree

    def join_columns(self, nodes: Array, starts: Array, stops: Array, work: Array, out: Array) -> None:
        """Write the entries to ``out`` by the labels at the supernodes ``nodes``.

        ``starts`` and ``stops``: the range of the pairs of each supernode. ``work``: the operations of each supernode.
        """
        from semiring.kernels.cpu.elimination import compiled_loops, hub_labels
        from semiring.kernels.cpu.elimination.gathered_rows import dots_for

        a, plan, rows, columns = self.analysis, self.plan, self.rows, self.columns
        width = _line_entries(rows)
        pivots = a.pivots[nodes]
        slices = -(-pivots // width)
        which = np.repeat(np.arange(nodes.size), slices)
        left = (np.arange(which.size) - np.repeat(np.cumsum(slices) - slices, slices)) * width
        right = np.minimum(left + width, pivots[which])
        start, stop = starts[which], stops[which]
        ends = np.cumsum(stop - start)
        items = np.stack([nodes[which], left, right, start, stop, ends - (stop - start)], axis=1)
        parts = np.empty(int(ends[-1]), plan.dtype)

        cost = work[which] * (right - left) // pivots[which] + _ITEM_OPERATIONS
        heavy = np.argsort(-cost, kind="stable")  # long items first, so that threads finish at about the same time
        group = np.cumsum(cost[heavy]) // _MIN_GROUP_OPERATIONS
        groups = np.split(heavy, np.flatnonzero(np.diff(group)) + 1)
        places = int((a.pivot_starts[nodes + 1] - a.pivot_starts[a.lows[nodes]]).max())
        depth = int(a.depths.max())
        sr, left, right, _ = compiled_loops.operands(plan, 0)
        native = (left, right), *dots_for(plan)  # the factors lie along the vectors
        tree = a.lows, a.pivot_starts, a.row_starts, a.rows
        numbers = rows.numbers.memory, rows.numbers.layout.blocks, (rows.up_panels, columns.up_panels)
        facts = self.shares_labels, plan.zero, plan.one
        lines = places * _LINE_BYTES * (1 if self.shares_labels else 2)
        threads = plan.threads
        if lines * threads > _MAX_LABEL_BYTES and (memory := free_memory()) is not None:
            threads = max(1, min(threads, memory // lines))
        free: list[tuple[Array, ...]] = []  # workspaces for later groups; append and pop are atomic

        def join_group(group: Array) -> None:
            if free:
                number, index, X, Y = space = free.pop()
            else:
                X = np.empty((places, width), plan.dtype)  # uninitialized, because only lines of labels are accessed
                Y = X if self.shares_labels else np.empty_like(X)
                number, index, X, Y = space = np.empty((2, a.n), np.int32), np.empty(depth, np.int32), X, Y
            hub_labels.join_columns(
                items[group], *native, self.tails, self.heads, number, index, tree, *numbers, *facts, X, Y, parts
            )
            free.append(space)

        run_tasks(join_group, [(group,) for group in groups], threads)
        hub_labels.add_parts(sr, items, parts, plan.zero, out)


def _pieces(count: int, size: int) -> list[slice]:
    return [slice(start, min(count, start + size)) for start in range(0, count, size)]
