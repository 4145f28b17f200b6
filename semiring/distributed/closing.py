"""Blocked Floyd-Warshall by ranks that hold tiles: what one of them does.

Sources: the tasks are those of `semiring.algorithms.blocked_floyd_warshall`. The grid and its broadcasts are those of
LU in ScaLAPACK (see `grid`) and of E. Solomonik, A. Buluç, J. Demmel, "Minimizing communication in all-pairs shortest
paths", IPDPS 2013, without replication; to go ahead by one block, of A. Petitet and others, "HPL" (2004).

For every block of pivots K three panels travel: A_KK* along its row of the grid, the columns of K, as they stood
before, along every row, and the rows of K, closed, down every column. Then each rank has what its tiles need. With L
the next block, each rank does, in this order of urgency::

    ahead   the rows and columns of L meet K    A_LL ← A_LL*    A_LJ ← A_LL A_LJ
    travel  the panels of L
    rest    all others meet K; where A_LL comes from another rank, half of them before it is waited for

So the panels of L travel while the rest is computed, and no rank waits for them but for the first. Every entry meets
every pivot in the order that it has in one memory, by the same products: equal bits, whatever the grid. (Where a GPU
cuts k into parts by the size of C, and ⊕ rounds, bits may differ.)

Cost: n³ / (P · Q) pairs and, for a rank, n² (1/P + 1/Q) entries received; workspace 2 · block · (n/P + n/Q) entries.
Where a pivot has no star, all ranks learn it with the panels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.blocked_floyd_warshall import Elimination, Rows, workspace
from semiring.algorithms.views import columns_of
from semiring.distributed.grid import Grid, Range
from semiring.distributed.transports import AHEAD, REST, TRAVEL, Links
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace

__all__ = ["close_tiles", "multiply_tiles"]

Array: TypeAlias = Any


def close_tiles(
    engine: Engine,
    links: Links,
    grid: Grid,
    A: Array,
    *,
    diverges: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """A ← the tiles of the closure that belong to this rank, in place; all ranks of the grid call it together.

    A: rows and columns that the rank holds, side by side in the order of the vertices, where the engine computes;
    ``diverges``: whether a pivot may have no star. Returns the first vertex whose
    pivot has none, the same on all ranks, -1 without one; A is undefined then.
    """
    blocks = [block for block in grid.blocks if block[0] < block[1]]
    if not blocks:
        return -1
    tiles = _Tiles(engine, links, grid, A)
    word = _Word(engine, A) if diverges else None
    speed = closure_speed(engine.backend.name, engine.plan.dtype)
    elimination = Elimination(tiles, grid.n, 0, speed.strip)
    widest = max(stop - start for start, stop in blocks)
    with links.lanes(engine, beside=len(blocks) > 1) as lanes:
        for number in (AHEAD, REST):
            lanes.reserve(number, max(workspace(engine, A.shape[1], 0, widest)))
        rank = _Rank(lanes, links, grid, elimination, tiles, word)
        rest, arrived, middle = None, rank.finish(blocks[0], rank.begin(blocks[0])), blocks[len(blocks) // 2][0]
        for number, K in enumerate(blocks):
            L = blocks[number + 1] if number + 1 < len(blocks) else None
            if word is not None and word.seen(arrived):
                break
            leaving, following, closes = _around(K, L, grid.n), None, L is not None and rank.closes(L)
            if L is not None:
                rank.go_ahead(K, leaving, arrived, rest)
                across = rank.begin(L)
                if closes:
                    following = rank.finish(L, across)
            rest = rank.eliminate_rest(K, leaving, (0, middle), arrived)
            if L is not None and not closes:
                following = rank.finish(L, across)
            rest = rank.eliminate_rest(K, leaving, (middle, grid.n), arrived)
            arrived = following
            if progress is not None:
                lanes.wait(rest)
                progress(K[1] * grid.n**2, grid.n**3)
    return -1 if word is None else word.read()


def _around(K: Range, L: Range | None, n: int) -> tuple[Range, Range]:
    """The rows and columns that meet K ahead of the rest: those of L, and where one vertex would be left, it as well.

    A single column is never alone in a product, for its bits may be others.
    """
    if L is None:
        return (n, n), (n, n)
    rows = L if n - L[1] != 1 else (L[0], n)
    return rows, ((0, n) if L[1] - L[0] == 1 else rows)


class _ReceivedPanels:
    """What arrived of a block of pivots."""

    def __init__(self, pivots: Range, closed: Array | None, rows: Array | None, columns: Array) -> None:
        self.pivots, self.closed, self.rows, self.columns = pivots, closed, rows, columns


class _Tiles(Rows):
    """The tiles of a rank, and the panels that have arrived: of the block that is worked with, and of the next."""

    def __init__(self, engine: Engine, links: Links, grid: Grid, A: Array) -> None:
        self._A, self._plan = A, engine.plan
        self._rows, self._columns = grid.rows(links.rank), grid.columns(links.rank)
        self.place, xp = grid.place(links.rank), array_namespace(A)
        widest = max(stop - start for start, stop in grid.blocks)
        width = columns_of(engine.plan, 0, widest).stop
        here = (len(self._rows), len(self._columns))
        self._memory = [
            (
                xp.empty(widest * width, A.dtype),
                xp.empty(widest * A.shape[1], A.dtype),
                xp.empty(here[0] * width, A.dtype),
            )
            for _ in range(min(2, len(grid.blocks)))
        ]
        self._arrived: dict[Range, _ReceivedPanels] = {}
        self._count = 0

    def own_rows(self, vertices: Range) -> Range:
        return self._rows.own(vertices)

    def own_columns(self, vertices: Range) -> Range:
        return self._columns.own(vertices)

    def strip(self, rows: Range) -> tuple[Array, Array | None]:
        return self._A[slice(*rows)], None

    def pivots(self, pivots: Range) -> Array:
        rows = self._arrived[pivots].rows
        return self._A[slice(*self.own_rows(pivots))] if rows is None else rows

    def closed(self, pivots: Range) -> Array | None:
        return self._arrived[pivots].closed

    def through(self, pivots: Range, rows: slice) -> Array:
        return self._arrived[pivots].columns[rows]

    def expect(self, pivots: Range, holder: tuple[int, int]) -> _ReceivedPanels:
        """Memory for the panels of a block, in place of those of the block before the last."""
        closed, rows, columns = self._memory[self._count % len(self._memory)]
        self._count += 1
        for old in [old for old in self._arrived if old[1] < pivots[0]]:
            del self._arrived[old]
        height, width = pivots[1] - pivots[0], columns_of(self._plan, 0, pivots[1] - pivots[0]).stop
        mine = (self.place[0] == holder[0], self.place[1] == holder[1])
        across, down = self._A.shape[1], self._A.shape[0]
        panels = self._arrived[pivots] = _ReceivedPanels(
            pivots,
            closed[: height * width].reshape(height, width) if mine[0] else None,
            None if mine[0] else rows[: height * across].reshape(height, across),
            columns[: down * width].reshape(down, width),
        )
        return panels

    def columns_here(self, pivots: Range) -> Array:
        """The columns of a block, as they are now."""
        return self._A[:, columns_of(self._plan, *self.own_columns(pivots))]


class _Word:
    """The first vertex whose pivot has no star, which travels with the panels: of a device, its status word."""

    def __init__(self, engine: Engine, A: Array) -> None:
        self._status, self._there = engine.plan.status, array_namespace(A) is not np
        if self._there and self._status.word is None:
            self._status.word = array_namespace(A).full(1, -1, np.int32)
        self.value = self._status.word if self._there else np.full(1, -1, np.int32)

    def note(self) -> None:
        """What the closure of a block left."""
        if not self._there and self.value[0] < 0:
            self.value[0] = self._status.diverged

    def seen(self, arrived: Any) -> bool:
        """Whether there is one, where that can be told without waiting for a device."""
        if self._there:
            return False
        arrived.result()
        return bool(self.value[0] >= 0)

    def read(self) -> int:
        return int(self.value[0])


class _Rank:
    """The tasks of one rank, each behind those it must not overtake."""

    def __init__(
        self, lanes: Any, links: Links, grid: Grid, elimination: Elimination, tiles: _Tiles, word: _Word | None
    ) -> None:
        self._lanes, self._links, self._grid, self._word = lanes, links, grid, word
        self._elimination, self._tiles, self._n = elimination, tiles, grid.n

    def _do(self, lane: int, tasks: list[tuple[Callable[..., None], tuple[Any, ...]]], *after: Any) -> Any:
        def run(engine: Engine) -> None:
            for task, ranges in tasks:
                task(engine, *ranges)

        return self._lanes.run(lane, run, *after)

    def closes(self, L: Range) -> bool:
        """Whether this rank closes a block."""
        return self._grid.holder(L) == self._tiles.place

    def begin(self, L: Range) -> Any:
        """Close a block; it and its columns travel. Returns the mark of their arrival."""
        tiles, links, lanes, word = self._tiles, self._links, self._lanes, self._word
        p, q = self._grid.holder(L)
        mine = (tiles.place[0] == p, tiles.place[1] == q)
        panels = tiles.expect(L, (p, q))

        def close(engine: Engine) -> None:
            if mine[1]:
                engine.copy_panel(tiles.columns_here(L), panels.columns)
            if all(mine):
                self._elimination.close(engine, L)
                block = tiles.columns_here(L)[slice(*tiles.own_rows(L))]
                engine.copy_panel(block, panels.closed)
                if word is not None:
                    word.note()

        def across(engine: Engine) -> None:
            if mine[0]:
                links.broadcast(panels.closed, q, "row")
            if word is not None:
                links.broadcast(word.value, p * self._grid.shape[1] + q, "all")
            links.broadcast(panels.columns, q, "row")

        return lanes.run(TRAVEL, across, lanes.run(AHEAD, close))

    def finish(self, L: Range, across: Any) -> Any:
        """Close the rows of a block, which travel. Returns the mark of the arrival of all its panels."""
        tiles, links, p = self._tiles, self._links, self._grid.holder(L)[0]
        closed = across
        if tiles.place[0] == p:
            others = [(self._elimination.panel, (L, rest)) for rest in ((0, L[0]), (L[1], self._n))]
            closed = self._do(AHEAD, others, across)
        return self._lanes.run(TRAVEL, lambda lane: links.broadcast(tiles.pivots(L), p, "column"), closed)

    def go_ahead(self, K: Range, leaving: tuple[Range, Range], arrived: Any, rest: Any) -> Any:
        """The rows and columns that meet K first."""
        (rows, columns), eliminate = leaving, self._elimination.eliminate
        tasks = [
            (eliminate, (K, rows, (0, self._n))),
            (eliminate, (K, (0, K[0]), columns)),
            (eliminate, (K, (rows[1], self._n), columns)),
        ]
        return self._do(AHEAD, tasks, arrived, rest)

    def eliminate_rest(self, K: Range, leaving: tuple[Range, Range], within: Range, arrived: Any) -> Any:
        """All others, of some rows."""
        (rows, columns), eliminate = leaving, self._elimination.eliminate
        tasks = [
            (eliminate, (K, (max(others[0], within[0]), min(others[1], within[1])), beside))
            for others in ((0, K[0]), (max(K[1], rows[1]), self._n))
            for beside in ((0, columns[0]), (columns[1], self._n))
        ]
        return self._do(REST, [task for task in tasks if task[1][1][0] < task[1][1][1]], arrived)


def multiply_tiles(engine: Engine, links: Links, grid: Grid, C: Array, A: Array, B: Array) -> None:
    """C ← the tiles of A ⊗ B that belong to this rank; all ranks of the grid call it together, where engines compute.

    Source: R. van de Geijn, J. Watts, "SUMMA: scalable universal matrix multiplication algorithm", Concurrency:
    Practice and Experience 9 (1997). The panels of a block of k travel while those of the block before are multiplied.
    """
    blocks = [block for block in grid.blocks if block[0] < block[1]]
    place, rows, columns, xp = (
        grid.place(links.rank),
        grid.rows(links.rank),
        grid.columns(links.rank),
        array_namespace(A),
    )
    widest = max((stop - start for start, stop in blocks), default=0)
    memory = [
        (xp.empty(len(A) * widest, A.dtype), xp.empty(widest * B.shape[1], B.dtype)) for _ in range(min(2, len(blocks)))
    ]
    with links.lanes(engine) as lanes:

        def begin(number: int, multiplied: Any) -> tuple[Array, Array, Any]:
            K, (left, right) = blocks[number], memory[number % 2]
            (p, q), width = grid.holder(K), K[1] - K[0]
            left, right = (
                left[: len(A) * width].reshape(len(A), width),
                right[: width * B.shape[1]].reshape(width, B.shape[1]),
            )

            def travel(engine: Engine) -> None:
                if place[1] == q:
                    left[...] = A[:, slice(*columns.own(K))]
                if place[0] == p:
                    right[...] = B[slice(*rows.own(K))]
                links.broadcast(left, q, "row")
                links.broadcast(right, p, "column")

            return left, right, lanes.run(TRAVEL, travel, multiplied)

        following, multiplied = begin(0, None) if blocks else None, None
        for number in range(len(blocks)):
            assert following is not None
            left, right, arrived = following
            # In the memory of the block before, which has been multiplied.
            following = begin(number + 1, multiplied) if number + 1 < len(blocks) else None

            def multiply(engine: Engine, left: Array = left, right: Array = right, first: bool = not number) -> None:
                if C.size:
                    (engine.multiply if first else engine.multiply_add)(C, left, right)

            multiplied = lanes.run(REST, multiply, arrived)
