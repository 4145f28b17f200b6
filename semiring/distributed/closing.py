"""Compute the part of one rank in a blocked Floyd-Warshall whose tiles are distributed.

Sources: the tasks are those of `semiring.algorithms.blocked_floyd_warshall`. The grid and its broadcasts are those of
LU in ScaLAPACK (see `grid`) and of E. Solomonik, A. Buluç, J. Demmel, "Minimizing communication in all-pairs shortest
paths", IPDPS 2013, without replication. The look-ahead of one block is that of A. Petitet and others, "HPL" (2004).

For every block of pivots K three panels are broadcast. A_KK* is sent along its row of the grid. The columns of K,
before they are closed, are sent along every row. The closed rows of K are sent down every column. Each rank then has
the operands of its tiles. L is the next block. Each rank performs these tasks, by descending priority::

    panels         eliminate K from the rows and columns of L    A_LL ← A_LL*    A_LJ ← A_LL A_LJ
    communication  send the panels of L
    remainder      eliminate K from the remaining tiles; half of them before a wait, if another rank closes A_LL

The panels of L are sent while the remainder is computed, so ranks wait only for the first panels. The pivots are
eliminated from every entry in the same order as in one memory, by the same products. Results are bitwise identical on
every grid. (If a GPU splits k by the size of C, and ⊕ rounds, bits may differ.)

Rows of a matrix in the memory of a host are transferred while the GPUs compute (`RowTransfers`). Each row meets the
pivots in the same order, but two rows need not be at the same pivot. The first pivots, a *group*, are eliminated from
their own rows first, and from each further row when it has arrived. The last pivots, another group, are eliminated from
their own rows first too. Then they are eliminated from the remaining rows, a few at a time, which are transferred back
at once. The panels of a group are kept until all rows have met its pivots.

Cost: n³ / (P · Q) pairs and, for a rank, n² (1/P + 1/Q) entries received; workspace 2 · block · (n/P + n/Q) entries, or
with transfers of rows, the panels of a group. A pivot without a star is broadcast with the panels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from semiring.algorithms.blocked_floyd_warshall import Elimination, Rows, workspace
from semiring.algorithms.views import columns_of
from semiring.distributed.grid import Grid, Range
from semiring.distributed.transports import COMMUNICATION, PANELS, REMAINDER, Transport
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array, array_namespace

#: The parts in which a rank eliminates a group of pivots from its remaining rows. More parts would hide more of the
#: transfers. But each product of packed bits transposes the rows of the pivots.
_CHUNKS = 16

__all__ = ["RowTransfers", "close_tiles", "multiply_tiles"]


class RowTransfers(Protocol):
    """Transfers rows to the engine while the first pivots are eliminated, and back while the last pivots are."""

    @property
    def rounds(self) -> int:
        """The number of the first, and of the last, pivot blocks whose panels are kept; the same on all ranks."""
        ...

    def wait_for(self, block: Range) -> None:
        """Wait until the rows of a block of this rank have arrived."""
        ...

    def send(self, block: Range, mark: Any) -> None:
        """Transfer the rows of a block of this rank back after the work before a mark. The call does not wait."""
        ...


class _ResidentRows:
    """The `RowTransfers` of rows that stay in the memory of the engine."""

    rounds = 0

    def wait_for(self, block: Range) -> None: ...

    def send(self, block: Range, mark: Any) -> None: ...


def close_tiles(
    engine: Engine,
    transport: Transport,
    grid: Grid,
    A: Array,
    *,
    diverges: bool = True,
    transfers: RowTransfers | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Compute the tiles of the closure that belong to this rank, in place, and return the first pivot without a star.

    All ranks of the grid must call the function together.

    Parameters
    ----------
    engine, transport, grid
        The engine of this rank, its transport, and the distribution of the matrix.
    A
        The rows and columns that the rank holds, contiguous in the order of the vertices, on the engine's device.
    diverges
        Whether a pivot may have no star.
    transfers
        The transfers of rows to A and from A, for a grid with one column; None if the rows stay in A.
    progress
        ``progress(done, total)``, called after each block of pivots, and after each part of the remaining rows.

    Returns
    -------
    int
        The first vertex whose pivot has no star, the same on all ranks; -1 without one. A is undefined if it is not -1.
    """
    blocks = [block for block in grid.blocks if block[0] < block[1]]
    if not blocks:
        return -1
    transfers = _ResidentRows() if transfers is None else transfers
    rounds = min(transfers.rounds, len(blocks) // 2)
    tiles = _Tiles(engine, transport, grid, A, max(2, rounds))
    word = _DivergenceWord(engine, A) if diverges else None
    own_blocks, done = grid.rows(transport.rank).blocks, 0
    speed = closure_speed(engine.backend.name, engine.plan.dtype)
    elimination = Elimination(tiles, grid.n, 0, speed.strip)
    widest = max(map(_length, blocks))
    with transport.lanes(engine, has_concurrent_work=len(blocks) > 1) as lanes:
        for number in (PANELS, REMAINDER):
            lanes.reserve(number, max(workspace(engine, A.shape[1], 0, widest)))
        rank = _RankTasks(lanes, transport, grid, elimination, tiles, word)

        def report(rows: Sequence[Range], pivots: Sequence[Range], mark: Any) -> None:
            nonlocal done
            done += sum(map(_length, pivots)) * sum(map(_length, rows))
            if progress is not None:
                lanes.wait(mark)
                progress(done * grid.n**2 // max(1, len(A)), grid.n**3)

        remainder = None
        for group, active in _group(blocks, rounds):
            rows, is_last = _blocks_in(own_blocks, active), group[-1] == blocks[-1]
            for block in rows:
                transfers.wait_for(block)
            arrived, remainder = rank.close_group(group, active, remainder, partial(report, rows))
            if word is not None and word.is_set(arrived):
                break
            for block in rows if is_last else ():
                transfers.send(block, remainder)
            for chunk in _chunks([block for block in own_blocks if block not in rows]):
                for block in chunk:
                    transfers.wait_for(block)
                mark = rank.eliminate_group(group, (chunk[0][0], chunk[-1][1]), arrived, remainder)
                for block in chunk if is_last else ():
                    transfers.send(block, mark)
                report(chunk, group, mark)
    return -1 if word is None else word.read()


def _group(blocks: Sequence[Range], rounds: int) -> list[tuple[Sequence[Range], Range]]:
    """Return groups of pivot blocks, each with its active rows, from which a block is eliminated in its round.

    All blocks of a group are eliminated from the remaining rows after its last round.
    """
    n = blocks[-1][1]
    if rounds == 0:
        return [(blocks, (0, n))]
    first, middle, last = blocks[:rounds], blocks[rounds:-rounds], blocks[-rounds:]
    groups = [(first, (0, first[-1][1])), (middle, (0, n)), (last, (last[0][0], n))]
    return [(group, active) for group, active in groups if group]


def _blocks_in(blocks: Sequence[Range], vertices: Range) -> list[Range]:
    """Return the blocks that begin in a range of vertices."""
    return [block for block in blocks if vertices[0] <= block[0] < vertices[1]]


def _chunks(blocks: Sequence[Range]) -> list[Sequence[Range]]:
    """Return blocks in parts of equally many: about `_CHUNKS` parts, or one part for each block."""
    size = max(1, len(blocks) // _CHUNKS)
    return [blocks[start : start + size] for start in range(0, len(blocks), size)]


def _length(block: Range) -> int:
    return block[1] - block[0]


def _next_ranges(K: Range, L: Range | None, n: int) -> tuple[Range, Range]:
    """Return the rows and the columns from which K is eliminated before the remainder: those of L.

    If one vertex would remain, it is included. A single column is never a separate product, because its bits may
    differ.
    """
    if L is None:
        return (n, n), (n, n)
    rows = L if n - L[1] != 1 else (L[0], n)
    return rows, ((0, n) if L[1] - L[0] == 1 else rows)


class _ReceivedPanels:
    """The panels of a block of pivots that a rank has received."""

    def __init__(self, pivots: Range, closed: Any, rows: Any, columns: Array) -> None:
        self.pivots, self.closed, self.rows, self.columns = pivots, closed, rows, columns


class _Tiles(Rows):
    """The tiles of a rank, and the panels of the current and of the next block, or of a group of blocks."""

    def __init__(self, engine: Engine, transport: Transport, grid: Grid, A: Array, count: int) -> None:
        """Allocate memory for the panels of ``count`` blocks."""
        self._A, self._plan = A, engine.plan
        self._rows, self._columns = grid.rows(transport.rank), grid.columns(transport.rank)
        self.place, xp = grid.place(transport.rank), array_namespace(A)
        widest = max(map(_length, grid.blocks))
        width = columns_of(engine.plan, 0, widest).stop
        shape = (len(self._rows), len(self._columns))
        self._memory = [
            (
                xp.empty(widest * width, A.dtype),
                xp.empty(widest * A.shape[1], A.dtype),
                xp.empty(shape[0] * width, A.dtype),
            )
            for _ in range(min(count, len(grid.blocks)))
        ]
        self._panels: dict[Range, _ReceivedPanels] = {}
        self._count = 0

    def local_rows(self, vertices: Range) -> Range:
        return self._rows.held_range(vertices)

    def local_columns(self, vertices: Range) -> Range:
        return self._columns.held_range(vertices)

    def strip(self, rows: Range) -> Array:
        return self._A[slice(*rows)]

    def pivots(self, pivots: Range) -> Array:
        rows = self._panels[pivots].rows
        return self._A[slice(*self.local_rows(pivots))] if rows is None else rows

    def closed_pivots(self, pivots: Range) -> Any | None:
        return self._panels[pivots].closed

    def pivot_columns(self, pivots: Range, rows: slice) -> Array:
        return self._panels[pivots].columns[rows]

    def allocate(self, pivots: Range, holder: tuple[int, int], keeps_rows: bool) -> _ReceivedPanels:
        """Return memory for the panels of a block, which replace the oldest panels.

        With ``keeps_rows`` the holder of the rows has memory for a copy, because later pivots change its rows.
        """
        closed, rows, columns = self._memory[self._count % len(self._memory)]
        self._count += 1
        while len(self._panels) >= len(self._memory):
            del self._panels[next(iter(self._panels))]
        height, width = pivots[1] - pivots[0], columns_of(self._plan, 0, pivots[1] - pivots[0]).stop
        is_holder = (self.place[0] == holder[0], self.place[1] == holder[1])
        across, down = self._A.shape[1], self._A.shape[0]
        panels = self._panels[pivots] = _ReceivedPanels(
            pivots,
            closed[: height * width].reshape(height, width) if is_holder[0] else None,
            None if is_holder[0] and not keeps_rows else rows[: height * across].reshape(height, across),
            columns[: down * width].reshape(down, width),
        )
        return panels

    def column_panel(self, pivots: Range, vertices: Range) -> Array:
        """Return the columns of a block in the rows of some vertices, with their current entries."""
        rows = slice(*self.local_rows(vertices))
        return self._A[rows, columns_of(self._plan, *self.local_columns(pivots))]

    def keep_columns(self, engine: Engine, pivots: Range, vertices: Range) -> None:
        """Copy the columns of a block in the rows of some vertices, before the block is eliminated from them."""
        panel = self.column_panel(pivots, vertices)
        if len(panel):
            engine.copy_panel(panel, self.pivot_columns(pivots, slice(*self.local_rows(vertices))))

    def keep_rows(self, engine: Engine, pivots: Range) -> None:
        """Copy the closed rows of a block, if there is memory for it."""
        rows = self._panels[pivots].rows
        if rows is not None:
            engine.copy_panel(self._A[slice(*self.local_rows(pivots))], rows)


class _DivergenceWord:
    """The first vertex whose pivot has no star, which is broadcast with the panels.

    On a device it is the status word.
    """

    def __init__(self, engine: Engine, A: Array) -> None:
        self._status, self._is_on_device = engine.plan.status, array_namespace(A) is not np
        if self._is_on_device and self._status.word is None:
            self._status.word = array_namespace(A).full(1, -1, np.int32)
        self.value = self._status.word if self._is_on_device else np.full(1, -1, np.int32)

    def record(self) -> None:
        """Record the pivot that the closure of a block reported."""
        if not self._is_on_device and self.value[0] < 0:
            self.value[0] = self._status.diverged

    def is_set(self, arrival: Any) -> bool:
        """Return whether a pivot has no star. On a device the result is False, because the test would need a wait."""
        if self._is_on_device:
            return False
        arrival.result()
        return bool(self.value[0] >= 0)

    def read(self) -> int:
        return int(self.value[0])


#: A function of an engine and of some ranges, and these ranges.
_Task: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]


class _RankTasks:
    """The tasks of one rank, each enqueued after the tasks that it depends on."""

    def __init__(
        self,
        lanes: Any,
        transport: Transport,
        grid: Grid,
        elimination: Elimination,
        tiles: _Tiles,
        word: _DivergenceWord | None,
    ) -> None:
        self._lanes, self._transport, self._grid, self._word = lanes, transport, grid, word
        self._elimination, self._tiles, self._n = elimination, tiles, grid.n

    def _run_tasks(self, lane: int, tasks: Sequence[_Task], *marks: Any) -> Any:
        """Enqueue tasks on a lane after some marks, and return the mark of their end."""

        def run(engine: Engine) -> None:
            for task, ranges in tasks:
                task(engine, *ranges)

        return self._lanes.run(lane, run, *marks)

    def is_closing(self, L: Range) -> bool:
        """Return whether this rank closes a block."""
        return self._grid.holder(L) == self._tiles.place

    def begin(self, L: Range, active: Range, keeps_rows: bool, *marks: Any) -> Any:
        """Close a block, broadcast it and its columns in some rows, and return the mark of their arrival.

        ``keeps_rows`` is that of `_Tiles.allocate`.
        """
        tiles, transport, lanes, word = self._tiles, self._transport, self._lanes, self._word
        p, q = self._grid.holder(L)
        is_holder = (tiles.place[0] == p, tiles.place[1] == q)
        panels = tiles.allocate(L, (p, q), keeps_rows)

        def close(engine: Engine) -> None:
            if is_holder[1]:
                tiles.keep_columns(engine, L, active)
            if all(is_holder):
                self._elimination.close(engine, L)
                engine.copy_panel(tiles.column_panel(L, L), panels.closed)
                if word is not None:
                    word.record()

        def send_across(engine: Engine) -> None:
            if is_holder[0]:
                transport.broadcast(panels.closed, q, "row")
            if word is not None:
                transport.broadcast(word.value, p * self._grid.shape[1] + q, "all")
            transport.broadcast(panels.columns, q, "row")

        return lanes.run(COMMUNICATION, send_across, lanes.run(PANELS, close, *marks))

    def finish(self, L: Range, begun: Any) -> Any:
        """Close the rows of a block, broadcast them, and return the mark of the arrival of all panels.

        ``begun`` is the result of `begin`.
        """
        tiles, transport, p = self._tiles, self._transport, self._grid.holder(L)[0]
        closed = begun
        if tiles.place[0] == p:
            tasks: list[_Task] = [
                *((self._elimination.update_panel, (L, rest)) for rest in ((0, L[0]), (L[1], self._n))),
                (tiles.keep_rows, (L,)),
            ]
            closed = self._run_tasks(PANELS, tasks, begun)
        return self._lanes.run(COMMUNICATION, lambda lane: transport.broadcast(tiles.pivots(L), p, "column"), closed)

    def close_group(
        self, group: Sequence[Range], active: Range, remainder: Any, report: Callable[[Sequence[Range], Any], None]
    ) -> tuple[Any, Any]:
        """Close the blocks of a group, and eliminate each from the active rows, while the next block is closed.

        ``remainder`` is the mark of the end of the preceding group. ``report(pivots, mark)`` is called after each
        block. The results are the marks of the arrival of the last panels, and of the end of the eliminations. If a
        pivot has no star, the call may return before the last block.
        """
        keeps_rows, halves = active != (0, self._n), _blocks_in(self._grid.blocks, active)
        middle = halves[len(halves) // 2][0]
        arrived = self.finish(group[0], self.begin(group[0], active, keeps_rows, remainder))
        for K, L in zip(group, (*group[1:], None), strict=True):
            if self._word is not None and self._word.is_set(arrived):
                break
            next_ranges, following = _next_ranges(K, L, self._n), arrived
            closes = L is not None and self.is_closing(L)
            if L is not None:
                self.eliminate_next(K, next_ranges, active, arrived, remainder)
                across = self.begin(L, active, keeps_rows)
                if closes:
                    following = self.finish(L, across)
            remainder = self.eliminate_rest(K, next_ranges, (active[0], middle), arrived)
            if L is not None and not closes:
                following = self.finish(L, across)
            remainder = self.eliminate_rest(K, next_ranges, (middle, active[1]), arrived)
            arrived = following
            report([K], remainder)
        return arrived, remainder

    def eliminate_next(
        self, K: Range, next_ranges: tuple[Range, Range], active: Range, arrival: Any, remainder: Any
    ) -> Any:
        """Eliminate K from the rows of the next block, and from its columns in the active rows."""
        (rows, columns), eliminate = next_ranges, self._elimination.eliminate
        tasks = [
            (eliminate, (K, rows, (0, self._n))),
            (eliminate, (K, (active[0], K[0]), columns)),
            (eliminate, (K, (rows[1], active[1]), columns)),
        ]
        return self._run_tasks(PANELS, [task for task in tasks if _length(task[1][1]) > 0], arrival, remainder)

    def eliminate_rest(self, K: Range, next_ranges: tuple[Range, Range], row_range: Range, arrival: Any) -> Any:
        """Eliminate K from the remaining tiles in some rows."""
        (rows, columns), eliminate = next_ranges, self._elimination.eliminate
        tasks = [
            (eliminate, (K, (max(others[0], row_range[0]), min(others[1], row_range[1])), beside))
            for others in ((0, K[0]), (max(K[1], rows[1]) if rows[0] < self._n else K[1], self._n))
            for beside in ((0, columns[0]), (columns[1], self._n))
        ]
        return self._run_tasks(REMAINDER, [task for task in tasks if _length(task[1][1]) > 0], arrival)

    def eliminate_group(self, group: Sequence[Range], vertices: Range, *marks: Any) -> Any:
        """Eliminate all blocks of a group, in their order, from the local rows of vertices that were not active."""
        tasks: list[_Task] = [
            task
            for K in group
            for task in (
                (self._tiles.keep_columns, (K, vertices)),
                (self._elimination.eliminate, (K, vertices, (0, self._n))),
            )
        ]
        return self._run_tasks(PANELS, tasks, *marks)


def multiply_tiles(engine: Engine, transport: Transport, grid: Grid, C: Array, A: Array, B: Array) -> None:
    """Compute the tiles of C = A ⊗ B that belong to this rank. All ranks of the grid must call it together.

    The arrays are on the engine's device. Source: R. van de Geijn, J. Watts, "SUMMA: scalable universal matrix
    multiplication algorithm", Concurrency: Practice and Experience 9 (1997). The panels of a block of k are sent while
    the panels of the preceding block are multiplied.
    """
    blocks = [block for block in grid.blocks if block[0] < block[1]]
    place, rows, columns, xp = (
        grid.place(transport.rank),
        grid.rows(transport.rank),
        grid.columns(transport.rank),
        array_namespace(A),
    )
    widest = max((stop - start for start, stop in blocks), default=0)
    memory = [
        (xp.empty(len(A) * widest, A.dtype), xp.empty(widest * B.shape[1], B.dtype)) for _ in range(min(2, len(blocks)))
    ]
    with transport.lanes(engine) as lanes:

        def begin(number: int, ready: Any) -> tuple[Array, Array, Any]:
            K, (left, right) = blocks[number], memory[number % 2]
            (p, q), width = grid.holder(K), K[1] - K[0]
            left, right = (
                left[: len(A) * width].reshape(len(A), width),
                right[: width * B.shape[1]].reshape(width, B.shape[1]),
            )

            def send(engine: Engine) -> None:
                if place[1] == q:
                    left[...] = A[:, slice(*columns.held_range(K))]
                if place[0] == p:
                    right[...] = B[slice(*rows.held_range(K))]
                transport.broadcast(left, q, "row")
                transport.broadcast(right, p, "column")

            return left, right, lanes.run(COMMUNICATION, send, ready)

        following, multiplied = begin(0, None) if blocks else None, None
        for number in range(len(blocks)):
            assert following is not None
            left, right, arrived = following
            # The panels reuse the memory of the preceding block, which has been multiplied.
            following = begin(number + 1, multiplied) if number + 1 < len(blocks) else None

            def multiply(engine: Engine, left: Array = left, right: Array = right, first: bool = not number) -> None:
                if C.size:
                    (engine.multiply if first else engine.multiply_add)(C, left, right)

            multiplied = lanes.run(REMAINDER, multiply, arrived)
