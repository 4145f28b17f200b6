"""Close a symmetric matrix by blocked Floyd-Warshall on one triangle, which is mirrored at the end.

If A = Aᵀ and ⊗ commutes, every intermediate matrix is symmetric. For a block of pivots K, the row panel A_KR is
gathered from both sides of the diagonal. Of the remainder, only the entries on and above the diagonal are multiplied.
The source is that of `blocked_floyd_warshall`. If the engine has lanes, the rows and columns of the next pivots are
multiplied first. The next pivots are closed while the remainder is multiplied.

Cost: n³/2 pairs, and half a tile for every column. The workspace is two panels of pivots, or four panels with lanes.
A pivot has no star here if and only if it has no star in the closure of the whole matrix. The module does not compute
pivots for predecessors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from semiring.algorithms.algorithm import Algorithm
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.graphs.strongly_connected import as_unsigned, run_strips
from semiring.kernels.engine import Engine, StreamLanes
from semiring.namespaces import Array, array_namespace

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["Undirected", "undirected"]

_LEAST = 768  # vertices: for fewer, half of the blocks is no less work, because there are so few blocks
_SHARE = 0.6  # the share of the time of n³ pairs that one triangle takes

_CHAIN, _REST = 0, 3  # lanes, of which the lower number has the higher priority


def undirected(engine: Engine, A: Array) -> None:
    """Compute A ← A* in place for a symmetric A (n, n); divergence is as in `rkleene`."""
    n, xp = A.shape[0], array_namespace(A)
    schedule = schedule_for(engine.backend.name, engine.plan.dtype)
    blocks = schedule.blocks(n, schedule.triangle)
    widest = max((stop - start for start, stop in blocks), default=0)
    lanes = engine.lanes() if len(blocks) > 1 else None
    sets = [(xp.empty((n, widest), A.dtype), xp.empty((widest, n), A.dtype)) for _ in range(1 + (lanes is not None))]
    panels = [_PivotPanels(A, *block, *sets[i % len(sets)]) for i, block in enumerate(blocks)]
    if lanes is not None:
        with lanes:
            _look_ahead(lanes, panels)
    else:
        for each in panels:
            if not each.close(engine):
                return
            each.eliminate(engine, each.stop)
    _mirror(engine, A)


def _look_ahead(lanes: StreamLanes, panels: list[_PivotPanels]) -> None:
    """Run all rounds, where the next pivots and their panels are closed while the remainder is multiplied."""
    closing: Any = None
    elimination: Any = None
    for current, following in zip((None, *panels), (*panels, None), strict=True):

        def close_next(
            lane: Engine, current: _PivotPanels | None = current, following: _PivotPanels | None = following
        ) -> None:
            if following is not None:
                if current is not None:
                    current.eliminate_next(lane, following.stop)
                following.close(lane)

        def eliminate_remainder(
            lane: Engine, current: _PivotPanels | None = current, following: _PivotPanels | None = following
        ) -> None:
            if current is not None:
                current.eliminate(lane, current.stop if following is None else following.stop)

        next_closing = lanes.run(_CHAIN, close_next, elimination)
        elimination = lanes.run(_REST, eliminate_remainder, closing)
        closing = next_closing


class _PivotPanels:
    """A block of pivots K = ``start`` … ``stop`` - 1, and the panels that multiply the remainder."""

    def __init__(self, A: Array, start: int, stop: int, column_buffer: Array, row_buffer: Array) -> None:
        self.A, self.start, self.stop = A, start, stop
        self.column_panel, self.row_panel = column_buffer[:, : stop - start], row_buffer[: stop - start]

    def close(self, engine: Engine) -> bool:
        """Compute both panels and the final rows and columns of the pivots, and return whether every pivot has a star.

        The result is False at the first pivot without a star; the matrix is then undefined.
        """
        A, column_panel, row_panel, K = self.A, self.column_panel, self.row_panel, slice(self.start, self.stop)
        pivots, start, stop = A[K, K], self.start, self.stop
        _mirror(engine, pivots)
        # Gather the column panel before its pivots are closed. Its part below the pivots is stored in their rows.
        engine.copy_panel(A[:start, K], column_panel[:start])
        _transpose(engine, A[K, stop:], column_panel[stop:])
        if not rkleene(engine, pivots, start=start):
            return False
        if start:
            engine.multiply(row_panel[:, :start], pivots, column_panel[:start].T)
            _transpose(engine, row_panel[:, :start], A[:start, K])
        if stop < len(A):
            engine.multiply(row_panel[:, stop:], pivots, A[K, stop:])
            engine.copy_panel(row_panel[:, stop:], A[K, stop:])
        return True

    def eliminate_next(self, engine: Engine, end: int) -> None:
        """Multiply the rows and columns of the next pivots, up to ``end``."""
        L, stop = slice(self.stop, end), self.stop
        if self.start:
            self._multiply(engine, slice(self.start), L)
        engine.multiply_add(self.A[L, stop:], self.column_panel[L], self.row_panel[:, stop:])

    def eliminate(self, engine: Engine, end: int) -> None:
        """Multiply the upper triangle of the remainder, before the pivots and from ``end`` on."""
        before, after = slice(self.start), slice(end, len(self.A))
        for part in (before, after):
            engine.multiply_add_upper(self.A[part, part], self.column_panel[part], self.row_panel[:, part])
        self._multiply(engine, before, after)

    def _multiply(self, engine: Engine, rows: slice, columns: slice) -> None:
        engine.multiply_add(self.A[rows, columns], self.column_panel[rows], self.row_panel[:, columns])


def _transpose(engine: Engine, A: Array, out: Array) -> None:
    """Write the transpose of A into out."""
    if (graphs := engine.capabilities.graphs) is not None:
        graphs.transpose(A, out)
        return
    from semiring.kernels.graphs.permutation import transpose_entries

    entries, transposed = as_unsigned(A), as_unsigned(out)

    def write(rows: slice) -> None:
        transpose_entries(entries, transposed, rows.start, rows.stop)

    run_strips(write, len(out), engine.plan.threads, unit=16)


def _mirror(engine: Engine, A: Array) -> None:
    """Copy the entries above the diagonal to their mirror images below it."""
    if (graphs := engine.capabilities.graphs) is not None:
        graphs.mirror(A)
        return
    from semiring.kernels.graphs.permutation import mirror_entries

    entries = as_unsigned(A)
    run_strips(lambda rows: mirror_entries(entries, rows.start, rows.stop), len(A), engine.plan.threads, unit=16)


class Undirected(Algorithm):
    """One triangle of a symmetric matrix, which is then mirrored.

    The result is bitwise identical to that of ``structure=False`` where ⊗ and ⊕ are exact. Otherwise a path may be
    added up in another order, with the same bound (docs/rounding.md).
    """

    name, structure = "undirected", "undirected"
    requires = "an undirected graph, and ⊗ that commutes"
    closes_parts = True
    source = "blocked Floyd-Warshall on one triangle"
    complexity = "n³/2 pairs"

    def reason_against(self, p: Problem) -> str | None:
        if not p.semiring.commutative:
            return "⊗ does not commute"
        if p.n < _LEAST and p.options.method != self.name:
            return f"{p.n:,} vertices, fewer than {_LEAST:,}: one triangle is not faster"
        return None if p.facts.structure.is_symmetric else "not known to be undirected"

    def least_cost(self, p: Problem) -> float:
        return _SHARE * p.least_dense_cost

    def cost(self, p: Problem) -> float:
        return _SHARE * p.dense_cost

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        undirected(engine, D)
        return D

    def describe(self, p: Problem) -> str:
        return "undirected: one triangle is closed and mirrored"
