"""Close a symmetric matrix by blocked Floyd-Warshall on one triangle, which is mirrored at the end.

Where A = Aᵀ and ⊗ commutes, every intermediate matrix is symmetric. For a block of pivots K, the row panel A_KR is
gathered from both sides of the diagonal. Of the remainder, only the entries on and above the diagonal are multiplied.
The source is that of `blocked_floyd_warshall`. Where the engine has lanes, the rows and columns of the next pivots are
multiplied first. The next pivots are closed while the remainder is multiplied.

Cost: n³/2 pairs, and half a tile for every column. The workspace is two panels of pivots, four where there are lanes.
A pivot has no star here if and only if it has none in the closure of the whole matrix. The module does not compute
pivots for predecessors.
"""

from __future__ import annotations

from typing import Any

from semiring.algorithms.methods import Method
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import Array
from semiring.graphs.components import as_unsigned, run_strips
from semiring.kernels.engine import Engine, StreamLanes
from semiring.namespaces import array_namespace

__all__ = ["UNDIRECTED", "undirected"]

_CHAIN, _REST = 0, 3  # lanes; the lower number has the higher priority


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
    """Run all rounds; the next pivots and their panels are closed while the remainder is multiplied."""
    closed: Any = None
    rest: Any = None
    for each, following in zip((None, *panels), (*panels, None), strict=True):

        def close_next(
            lane: Engine, each: _PivotPanels | None = each, following: _PivotPanels | None = following
        ) -> None:
            if following is not None:
                if each is not None:
                    each.prepare(lane, following.stop)
                following.close(lane)

        def remainder(
            lane: Engine, each: _PivotPanels | None = each, following: _PivotPanels | None = following
        ) -> None:
            if each is not None:
                each.eliminate(lane, each.stop if following is None else following.stop)

        after = lanes.run(_CHAIN, close_next, rest)
        rest = lanes.run(_REST, remainder, closed)
        closed = after


class _PivotPanels:
    """A block of pivots K = ``start`` … ``stop`` - 1, and the panels that multiply the remainder."""

    def __init__(self, A: Array, start: int, stop: int, across: Array, along: Array) -> None:
        self.A, self.start, self.stop = A, start, stop
        self.before, self.closed = across[:, : stop - start], along[: stop - start]

    def close(self, engine: Engine) -> bool:
        """Compute both panels, and the final rows and columns of the pivots.

        Returns whether every pivot has a star.
        """
        A, before, closed, K = self.A, self.before, self.closed, slice(self.start, self.stop)
        pivots, start, stop = A[K, K], self.start, self.stop
        _mirror(engine, pivots)
        # Gather the column panel before its pivots are closed. Its part below the pivots is stored in their rows.
        engine.copy_panel(A[:start, K], before[:start])
        _transpose(engine, A[K, stop:], before[stop:])
        if not rkleene(engine, pivots, start=start):
            return False
        if start:
            engine.multiply(closed[:, :start], pivots, before[:start].T)
            _transpose(engine, closed[:, :start], A[:start, K])
        if stop < len(A):
            engine.multiply(closed[:, stop:], pivots, A[K, stop:])
            engine.copy_panel(closed[:, stop:], A[K, stop:])
        return True

    def prepare(self, engine: Engine, end: int) -> None:
        """Multiply the rows and columns of the next pivots, up to ``end``."""
        L, stop = slice(self.stop, end), self.stop
        if self.start:
            self._multiply(engine, slice(self.start), L)
        engine.multiply_add(self.A[L, stop:], self.before[L], self.closed[:, stop:])

    def eliminate(self, engine: Engine, end: int) -> None:
        """Multiply the upper triangle of the remainder, before the pivots and from ``end`` on."""
        before, after = slice(self.start), slice(end, len(self.A))
        for part in (before, after):
            engine.multiply_add_upper(self.A[part, part], self.before[part], self.closed[:, part])
        self._multiply(engine, before, after)

    def _multiply(self, engine: Engine, rows: slice, columns: slice) -> None:
        engine.multiply_add(self.A[rows, columns], self.before[rows], self.closed[:, columns])


def _transpose(engine: Engine, A: Array, out: Array) -> None:
    if (graphs := engine.capabilities.graphs) is not None:
        graphs.transpose(A, out)
        return
    from semiring.kernels.graphs.permutation import transpose_entries

    source, target = as_unsigned(A), as_unsigned(out)
    run_strips(
        lambda rows: transpose_entries(source, target, rows.start, rows.stop), len(out), engine.plan.threads, unit=16
    )


def _mirror(engine: Engine, A: Array) -> None:
    """Copy the entries above the diagonal to their mirror images below it."""
    if (graphs := engine.capabilities.graphs) is not None:
        graphs.mirror(A)
        return
    from semiring.kernels.graphs.permutation import mirror_entries

    entries = as_unsigned(A)
    run_strips(lambda rows: mirror_entries(entries, rows.start, rows.stop), len(A), engine.plan.threads, unit=16)


def _pairs(n: int, width: int) -> int:
    return n * n * width


UNDIRECTED = Method("undirected", undirected, pairs=_pairs)
