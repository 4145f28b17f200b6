"""Close a matrix by blocked Floyd-Warshall: each round closes a pivot block, its panels and the remainder.

Sources: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM JEA 8 (2003);
G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008.

With K the pivot block and R all other vertices, in the order that also serves a ⊕ that is not idempotent::

    A_KK ← A_KK*    A_KR ← A_KK A_KR    A_RR ← A_RR ⊕ A_RK A_KR    A_RK ← A_RK A_KK

The last two steps are one product: the columns K are copied and set to 0̄. Then (copy of A_RK) ⊗ A_K* is added to the
rows R. The columns K of A_K* hold A_KK*.

*Look-ahead.* The closure of one block leaves nearly all of a device idle. An engine therefore has lanes, for concurrent
work. A round consists of tasks. A task waits only for the tasks that write its operands, and for the tasks that still
read its output. L is the next pivot block. "Right" and "left" are the columns of all other vertices. "Below" are the
rows of later pivots, and "above" are the rows of earlier pivots::

    chain  A_KL ← A_KK A_KL    A_LL ← A_LL ⊕ A_LK A_KL    A_LL ← A_LL*
    right  A_KR ← A_KK A_KR    A_LR ← A_LR ⊕ A_LK A_KR
    left   the same for the columns up to K, and finally for A_LK
    below  the rows after L                  above  the rows before K

The chain from one pivot block to the next is two products of blocks and a closure. No task waits for the rows above,
so they fill the idle parts of the device. The order of the pivots of an entry does not change. A round of packed bits
may end before its tasks are enqueued, so it has fewer tasks: chain, right and left are one. The same holds for a block
triangular matrix, where the rows of a block do not wait for an earlier block.

Cost: n³ pairs in n / block rounds, and a workspace of O(n × block). The algorithm reads the matrix n / block times,
R-Kleene O(log n) times.

*Strips and tiles.* A task updates some rows. It reads the rows of the pivots after their block was closed, and the
columns of the pivots before it was closed. `Rows` is this interface. Rows, or tiles of rows, may therefore be
distributed, and only the rows and columns of the pivots are communicated.

Pivots: every entry meets every pivot exactly once, and meets the blocks of pivots in increasing order.

It computes neither A⁺ (see `irreflexive_closure`) nor predecessors (see `predecessors`). Hazards: those of `rkleene`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import WORD, columns_of, zero_item
from semiring.kernels.engine import Engine, StreamLanes, split_range
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace

__all__ = ["Elimination", "Range", "Rows", "blocked_floyd_warshall", "workspace"]

Range: TypeAlias = tuple[int, int]

_CHAIN, _RIGHT, _LEFT, _BELOW, _ABOVE = range(5)  # lanes, by descending priority


def blocked_floyd_warshall(
    engine: Engine,
    A: Array,
    *,
    width: int | None = None,
    start: int = 0,
    blocks: Sequence[Range] | None = None,
    bounds: Any = None,
) -> None:
    """Compute A ← A* in place; A, start and divergence are as in `rkleene`.

    Parameters
    ----------
    engine, A, start
        As in `rkleene`.
    width
        Pivots to a block.
    bounds
        (count + 1,), on the host: where the blocks on the diagonal of a block upper triangular matrix begin, and n.
        Pivots then meet the rows up to the end of their block, and the columns from its start on. The cost is n³/6
        pairs where all blocks are small.
    blocks
        The pivots, as ranges that begin at multiples of 32 where A is packed. An omitted vertex must have the row and
        the column of one of the pivots in A*.
    """
    plan, n = engine.plan, A.shape[0]
    name, dtype = engine.backend.name, plan.dtype
    schedule, speed = schedule_for(name, dtype, plan.storage), closure_speed(name, dtype, plan.storage)
    packed = plan.storage == "bits"
    if packed and width:
        width = -(-width // WORD) * WORD
    elimination = Elimination(_InMemoryRows(A), n, start, speed.strip, bounds=bounds)
    blocks = schedule.blocks(n, width) if blocks is None else blocks
    widest = max((stop - start for start, stop in blocks), default=0)
    lanes = engine.lanes() if len(blocks) > 1 else None
    if lanes is not None:
        across, _ = workspace(engine, n, n, widest)
        by_rows = packed or bounds is not None
        tasks = _look_ahead_by_rows if by_rows else _look_ahead
        for number, entries in {_CHAIN: across if by_rows else widest**2, _RIGHT: across, _LEFT: across}.items():
            lanes.reserve(number, entries)
        shape = n, columns_of(plan, 0, widest).stop
        if not engine.can_overlap(n, A.shape[1], widest):  # parts that are too small to overlap have small copies
            elimination = replace(elimination, panels=array_namespace(A).empty(shape, A.dtype))
        with lanes:
            tasks(lanes, elimination, blocks)
        return
    engine.reserve(max(workspace(engine, n, min(n, speed.strip), widest)))
    for pivots in blocks:
        rkleene(engine, elimination.block(engine, pivots), start=start + pivots[0])
        if plan.status.diverged >= 0:
            return
        elimination.update_panels(engine, pivots)
        first, last = elimination.reach(pivots)
        for others in ((0, pivots[0]), (pivots[1], last)):
            elimination.eliminate(engine, pivots, others, (first, n))


def _look_ahead(lanes: StreamLanes, elimination: Elimination, blocks: Sequence[Range]) -> None:
    """Run all rounds, where each task waits for the tasks that write its operands or still read its output."""
    n = blocks[-1][1]
    panel, eliminate = elimination.update_panel, elimination.eliminate
    closed = lanes.run(_CHAIN, lambda lane: elimination.close(lane, blocks[0]))
    right_task: Any = None
    below_task: Any = None
    for K, L in zip(blocks, (*blocks[1:], (n, n)), strict=True):

        def task(function: Callable[..., None], *ranges: Range, K: Range = K) -> Callable[[Engine], None]:
            return lambda lane: function(lane, K, *ranges)

        before, after = (0, K[0]), (L[1], n)
        corner = lanes.run(_CHAIN, task(panel, L), right_task)
        updated = lanes.run(_CHAIN, task(eliminate, L, L), below_task)
        following = lanes.run(_CHAIN, lambda lane, L=L: elimination.close(lane, L))  # type: ignore[misc]
        beside = lanes.run(_RIGHT, task(panel, after), closed)
        right_task = lanes.run(_RIGHT, task(eliminate, L, after), below_task)
        across = lanes.run(_LEFT, task(panel, before), closed)
        lanes.run(_LEFT, task(eliminate, L, (0, K[1])), updated, right_task)
        earlier = below_task
        below_task = lanes.run(_BELOW, task(eliminate, after, (0, n)), corner, beside, across)
        lanes.run(_ABOVE, task(eliminate, before, (0, n)), corner, beside, across, earlier)
        closed = following


def _look_ahead_by_rows(lanes: StreamLanes, elimination: Elimination, blocks: Sequence[Range]) -> None:
    """Run all rounds as in `_look_ahead`, with all rows of the next pivot block as one task."""
    n = elimination.n
    closed = lanes.run(_CHAIN, lambda lane: elimination.close_rows(lane, blocks[0]))
    below_task: Any = None
    for K, L in zip(blocks, (*blocks[1:], (n, n)), strict=True):
        first, last = elimination.reach(K)

        def close_next(lane: Engine, K: Range = K, L: Range = L, first: int = first, last: int = last) -> None:
            elimination.eliminate(lane, K, (L[0], min(L[1], last)), (first, n))
            elimination.close_rows(lane, L)

        def update_rows(*rows: Range, K: Range = K, first: int = first) -> Callable[[Engine], None]:
            def task(lane: Engine) -> None:
                for part in rows:
                    elimination.eliminate(lane, K, part, (first, n))

            return task

        following, earlier = lanes.run(_CHAIN, close_next, below_task), below_task
        below_task = lanes.run(_BELOW, update_rows((K[1], min(L[0], last)), (L[1], last)), closed)
        lanes.run(_ABOVE, update_rows((0, K[0])), closed, earlier)
        closed = following


class Rows:
    """The rows of a matrix that one process or device holds while the matrix is closed.

    By default the rows have all columns. Ranges of pivots and of vertices are positions in the whole matrix. Ranges of
    rows and of columns are local positions, counted from the first local row and column.
    """

    def local_rows(self, vertices: Range) -> Range:
        """Return the local rows of some vertices; the range is empty without local rows."""
        return vertices

    def local_columns(self, vertices: Range) -> Range:
        """Return the local columns of some vertices."""
        return vertices

    def strip(self, rows: Range) -> Array:
        """Return some local rows, which a task reads and writes."""
        raise NotImplementedError

    def pivots(self, pivots: Range) -> Array:
        """Return the rows of a block of pivots after the block was closed; tasks read them."""
        raise NotImplementedError

    def closed_pivots(self, pivots: Range) -> Array | None:
        """Return A_KK after it was closed, or None if the local rows of the pivots contain it."""
        return None

    def pivot_columns(self, pivots: Range, rows: slice) -> Array | None:
        """Return the columns of a block of pivots in some local rows, before the block was closed.

        None means that the rows still hold these columns.
        """
        return None


class _InMemoryRows(Rows):
    """Rows of one array, where the rows of pivots stay unchanged until the next block is closed."""

    def __init__(self, A: Array) -> None:
        self._A = A

    def strip(self, rows: Range) -> Array:
        return self._A[slice(*rows)]

    def pivots(self, pivots: Range) -> Array:
        return self._A[slice(*pivots)]


def workspace(engine: Engine, n: int, rows: int, widest: int) -> tuple[int, int]:
    """Return the numbers of entries of the largest copies of pivot rows, and of pivot columns in ``rows`` rows."""
    plan = engine.plan
    return widest * columns_of(plan, 0, min(n, engine.panel)).stop, rows * columns_of(plan, 0, widest).stop


@dataclass(frozen=True)
class Elimination:
    """The tasks of an elimination, whose ranges are vertices, counted from the first row of the matrix."""

    matrix: Rows
    n: int
    start: int
    rows: int  # rows of the remainder that one product updates
    #: The workspace for copies of column panels, shared by the tasks of all lanes. Row i of a copy is in row i. A task
    #: that copies the panel of a row reads no copy of another row. It runs after all earlier tasks on that row, and
    #: before all later tasks on it, so no two copies overlap in time. With a workspace for each lane, copies would grow
    #: from round to round, and an allocator would keep all sizes.
    panels: Array | None = None
    bounds: Any = None  # bounds of the blocks on the diagonal of a block upper triangular matrix

    def reach(self, pivots: Range) -> Range:
        """Return the first column in which rows of the pivots have entries, and the end of the rows that reach them."""
        if self.bounds is None:
            return 0, self.n
        first, last = np.searchsorted(self.bounds, pivots[0], "right") - 1, np.searchsorted(self.bounds, pivots[1])
        return int(self.bounds[first]) // WORD * WORD, int(self.bounds[last])

    def close(self, engine: Engine, pivots: Range) -> None:
        """Compute A_KK ← A_KK* in place."""
        if pivots[0] < pivots[1]:
            rkleene(engine, self.block(engine, pivots), start=self.start + pivots[0])

    def block(self, engine: Engine, pivots: Range) -> Array:
        """Return A_KK."""
        return self._pivot_rows(engine, pivots, pivots)

    def close_rows(self, engine: Engine, pivots: Range) -> None:
        """Compute A_KK ← A_KK* and the remaining columns of its rows, unless a pivot has no star."""
        self.close(engine, pivots)
        if engine.plan.status.diverged < 0:
            self.update_panels(engine, pivots)

    def update_panels(self, engine: Engine, pivots: Range) -> None:
        """Multiply the rows of the pivots by A_KK, except for the columns of A_KK itself."""
        for columns in ((self.reach(pivots)[0], pivots[0]), (pivots[1], self.n)):
            self.update_panel(engine, pivots, columns)

    def update_panel(self, engine: Engine, pivots: Range, columns: Range) -> None:
        """Compute A_KR ← A_KK A_KR for some columns of the rows of the pivots."""
        own_range = self.matrix.local_columns(columns)
        if pivots[0] < pivots[1] and own_range[0] < own_range[1]:
            A_KK = self.matrix.closed_pivots(pivots)
            if A_KK is None:
                A_KK = self.block(engine, pivots)
            engine.multiply_left(A_KK, self._pivot_rows(engine, pivots, columns))

    def _pivot_rows(self, engine: Engine, pivots: Range, columns: Range) -> Array:
        """Return some columns of the rows of the pivots."""
        A_K, own_range = self.matrix.strip(self.matrix.local_rows(pivots)), self.matrix.local_columns(columns)
        return A_K[:, columns_of(engine.plan, *own_range)]

    def eliminate(self, engine: Engine, pivots: Range, rows: Range, columns: Range) -> None:
        """Update the remainder in some rows and columns, a few rows at a time.

        The column panel is updated too if the columns include it.
        """
        own_range = self.matrix.local_columns(columns)
        if own_range[0] < own_range[1]:
            for strip in split_range(*self.matrix.local_rows(rows), self.rows):
                self._eliminate(engine, pivots, strip, own_range)

    def _eliminate(self, engine: Engine, pivots: Range, rows: slice, columns: Range) -> None:
        """Multiply by the rows of the pivots once, in some local rows and columns."""
        plan, J, K = engine.plan, columns_of(engine.plan, *columns), self.matrix.local_columns(pivots)
        A_R, A_K = self.matrix.strip((rows.start, rows.stop)), self.matrix.pivots(pivots)
        panel, pivot_columns = A_R[:, columns_of(plan, *K)], self.matrix.pivot_columns(pivots, rows)
        replaced = columns[0] < K[1] and K[0] < columns[1]
        if pivot_columns is None:
            pivot_columns = panel
            if replaced and not engine.can_overlap(A_R.shape[0], J.stop - J.start, pivots[1] - pivots[0]):
                out = None if self.panels is None else self.panels[rows, : panel.shape[1]]
                pivot_columns = engine.copy_panel(panel, out)
        if replaced and not plan.semiring.idempotent:  # for an idempotent ⊕, A_RK does not improve on A_RK A_KK*
            panel[...] = zero_item(plan)
        engine.multiply_add(A_R[:, J], pivot_columns, A_K[:, J])
