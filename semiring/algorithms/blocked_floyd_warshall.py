"""Blocked Floyd-Warshall: a pivot block, its panels, the remainder; once for every block of pivots.

Sources: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM JEA 8 (2003);
G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008.

With K the pivot block and R all other vertices, in the order that also serves a ⊕ that is not idempotent::

    A_KK ← A_KK*    A_KR ← A_KK A_KR    A_RR ← A_RR ⊕ A_RK A_KR    A_RK ← A_RK A_KK

The last two are one product: the columns K are copied and set to 0̄, and then R's rows take (copy of A_RK) ⊗ A_K*,
whose columns K hold A_KK*.

*Look-ahead.* On a device the closure of a block leaves nearly all of it idle, so it has lanes, for work side by side. A
round is cut into tasks that wait for no more than what they read, and for those who still read what they replace. With
L the next pivot block, right and left of it the columns of all others, below it the rows of later pivots, above K those
of earlier ones::

    chain  A_KL ← A_KK A_KL    A_LL ← A_LL ⊕ A_LK A_KL    A_LL ← A_LL*
    right  A_KR ← A_KK A_KR    A_LR ← A_LR ⊕ A_LK A_KR
    left   the same of the columns up to K, and of A_LK last of all
    below  the rows after L                  above  the rows before K

So the chain from one pivot block to the next is two products of blocks and a closure, and the rows above, which nothing
waits for, fill what the others leave idle. The order of the pivots of an entry stays. Of packed bits a round may be
over before its tasks are enqueued, so there they are fewer: chain, right and left are one.

Cost: n³ pairs in n / block rounds; workspace O(n × block). It reads the matrix n / block times where R-Kleene reads it
O(log n) times.

Pivots: every entry meets every pivot exactly once, and the blocks of pivots in increasing order.

What it does not compute: A⁺ (see `irreflexive`), predecessors (see `predecessors`). Hazards: those of `rkleene`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import WORD, Array, block, columns_of, zero_item
from semiring.kernels.contract import Plan
from semiring.kernels.engine import Engine, Lanes, cut
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace

__all__ = ["blocked_floyd_warshall"]

Range: TypeAlias = tuple[int, int]

_CHAIN, _RIGHT, _LEFT, _BELOW, _ABOVE = range(5)  # lanes, the most urgent first


def blocked_floyd_warshall(
    engine: Engine, A: Array, P: Array | None = None, k0: int = 0, *, width: int | None = None, start: int = 0
) -> None:
    """A ← A* in place; A, P, k0, start and divergence as in `rkleene`. ``width``: pivots to a block."""
    plan, n = engine.plan, A.shape[0]
    name, dtype = engine.backend.name, plan.dtype
    schedule, speed = schedule_for(name, dtype), closure_speed(name, dtype)
    if plan.storage == "bits" and width:
        width = -(-width // WORD) * WORD
    elimination = _Elimination(A, P, k0, start, speed.strip)
    blocks = schedule.blocks(n, width)
    widest = max((stop - start for start, stop in blocks), default=0)
    across = widest * columns_of(plan, 0, min(n, engine.panel)).stop  # the largest copy of rows of pivots
    lanes = engine.lanes() if len(blocks) > 1 else None
    if lanes is not None:
        packed = plan.storage == "bits"
        tasks = _rows_ahead if packed else _look_ahead
        for number, entries in {_CHAIN: across if packed else widest**2, _RIGHT: across, _LEFT: across}.items():
            lanes.reserve(number, entries)
        elimination = elimination.side_by_side(plan, widest)
        with lanes:
            tasks(lanes, elimination, blocks)
        return
    engine.reserve(max(across, min(n, speed.strip) * columns_of(plan, 0, widest).stop))
    for pivots in blocks:
        rkleene(engine, *elimination.pivot_block(engine, pivots), start=start + pivots[0])
        if plan.status.diverged >= 0:
            return
        for others in ((0, pivots[0]), (pivots[1], n)):
            elimination.panel(engine, pivots, others)
        for others in ((0, pivots[0]), (pivots[1], n)):
            elimination.eliminate(engine, pivots, others, (0, n))


def _look_ahead(lanes: Lanes, elimination: _Elimination, blocks: Sequence[Range]) -> None:
    """All rounds, each task behind those it must not overtake."""
    n = blocks[-1][1]
    panel, eliminate = elimination.panel, elimination.eliminate
    closed = lanes.run(_CHAIN, lambda lane: elimination.close(lane, blocks[0]))
    right: Any = None
    below: Any = None
    for K, L in zip(blocks, (*blocks[1:], (n, n)), strict=True):

        def task(do: Callable[..., None], *ranges: Range, K: Range = K) -> Callable[[Engine], None]:
            return lambda lane: do(lane, K, *ranges)

        before, after = (0, K[0]), (L[1], n)
        corner = lanes.run(_CHAIN, task(panel, L), right)
        updated = lanes.run(_CHAIN, task(eliminate, L, L), below)
        following = lanes.run(_CHAIN, lambda lane, L=L: elimination.close(lane, L))  # type: ignore[misc]
        beside = lanes.run(_RIGHT, task(panel, after), closed)
        right = lanes.run(_RIGHT, task(eliminate, L, after), below)
        across = lanes.run(_LEFT, task(panel, before), closed)
        lanes.run(_LEFT, task(eliminate, L, (0, K[1])), updated, right)
        earlier = below
        below = lanes.run(_BELOW, task(eliminate, after, (0, n)), corner, beside, across)
        lanes.run(_ABOVE, task(eliminate, before, (0, n)), corner, beside, across, earlier)
        closed = following


def _rows_ahead(lanes: Lanes, elimination: _Elimination, blocks: Sequence[Range]) -> None:
    """The same with all rows of the next pivot block as one task."""
    n = blocks[-1][1]
    closed = lanes.run(_CHAIN, lambda lane: elimination.close_rows(lane, blocks[0]))
    below: Any = None
    for K, L in zip(blocks, (*blocks[1:], (n, n)), strict=True):

        def ahead(lane: Engine, K: Range = K, L: Range = L) -> None:
            elimination.eliminate(lane, K, L, (0, n))
            elimination.close_rows(lane, L)

        def others(rows: Range, K: Range = K) -> Callable[[Engine], None]:
            return lambda lane: elimination.eliminate(lane, K, rows, (0, n))

        following, earlier = lanes.run(_CHAIN, ahead, below), below
        below = lanes.run(_BELOW, others((L[1], n)), closed)
        lanes.run(_ABOVE, others((0, K[0])), closed, earlier)
        closed = following


@dataclass(frozen=True)
class _Elimination:
    """One matrix while it is closed; ranges are those of vertices, counted from its first row."""

    A: Array
    P: Array | None
    k0: int
    start: int
    rows: int  # of the remainder at a time
    panels: Array | None = None  # copies of column panels, each row of them where it is in A

    def side_by_side(self, plan: Plan, widest: int) -> _Elimination:
        """The same for tasks in lanes, with one memory for the copies of the column panels of all of them.

        A task that copies the panel of a row, and reads no copy of another, comes behind all that was done to the row
        before, and all that is done to the row next comes behind it; so no two of them meet. In a memory for each lane
        copies would grow from round to round, and an allocator would keep all sizes.
        """
        shape = self.A.shape[0], columns_of(plan, 0, widest).stop
        return replace(self, panels=array_namespace(self.A).empty(shape, self.A.dtype))

    def pivot_block(self, engine: Engine, pivots: Range) -> tuple[Array, Array | None, int]:
        """A_KK, its pivots, and the vertex of its first row."""
        P_KK = None if self.P is None else self.P[slice(*pivots), slice(*pivots)]
        return block(engine.plan, self.A, pivots, pivots), P_KK, self.k0 + pivots[0]

    def close(self, engine: Engine, pivots: Range) -> None:
        """A_KK ← A_KK*."""
        if pivots[0] < pivots[1]:
            rkleene(engine, *self.pivot_block(engine, pivots), start=self.start + pivots[0])

    def close_rows(self, engine: Engine, pivots: Range) -> None:
        """The same, and the rest of their rows; not if a pivot has no star."""
        self.close(engine, pivots)
        if engine.plan.status.diverged < 0:
            for others in ((0, pivots[0]), (pivots[1], self.A.shape[0])):
                self.panel(engine, pivots, others)

    def panel(self, engine: Engine, pivots: Range, others: Range) -> None:
        """A_KR ← A_KK A_KR: some columns of the rows of the pivots."""
        if pivots[0] < pivots[1] and others[0] < others[1]:
            A_KK, A_KR = (block(engine.plan, self.A, pivots, columns) for columns in (pivots, others))
            P_KR = None if self.P is None else self.P[slice(*pivots), slice(*others)]
            engine.multiply_left(A_KK, A_KR, P_KR, self.k0 + pivots[0])

    def eliminate(self, engine: Engine, pivots: Range, rows: Range, columns: Range) -> None:
        """The remainder in some rows and columns, with the column panel where it is among them; some rows at a time."""
        if columns[0] < columns[1]:
            for strip in cut(*rows, self.rows):
                self._eliminate(engine, pivots, strip, columns)

    def _eliminate(self, engine: Engine, pivots: Range, rows: slice, columns: Range) -> None:
        """One product with the rows of the pivots."""
        plan, A, P, K, J = engine.plan, self.A, self.P, slice(*pivots), columns_of(engine.plan, *columns)
        through = A[rows, columns_of(plan, *pivots)]
        if columns[0] < pivots[1] and pivots[0] < columns[1]:
            panel = through
            through = engine.copied(panel, None if self.panels is None else self.panels[rows, : panel.shape[1]])
            if not plan.semiring.idempotent:  # otherwise A_RK is not better than A_RK A_KK*
                panel[...] = zero_item(plan)
        if P is None:
            engine.multiply_add(A[rows, J], through, A[K, J])
        else:  # an idempotent ⊕: what stands in the columns stays, so that only an improvement counts as one
            engine.multiply_add_pivots(A[rows, J], P[rows, slice(*columns)], through, A[K, J], self.k0 + pivots[0])
