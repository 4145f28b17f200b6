"""Blocked Floyd-Warshall of a symmetric matrix: one triangle is computed, and mirrored at the end.

Where A = Aᵀ and ⊗ commutes, every matrix on the way is symmetric. So of a block of pivots K the row panel A_KR is
gathered from both sides of the diagonal, and of the remainder only what lies on or above it is multiplied: strips of
columns, each down to its own diagonal block. Source: that of `blocked_floyd_warshall`.

Cost: n³/2 pairs, and half a strip for every column; workspace two panels of pivots. A pivot without a star is the same
as in the whole matrix. What it does not compute: pivots for predecessors.
"""

from __future__ import annotations

from semiring.algorithms.methods import Method
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import Array
from semiring.graphs.components import as_unsigned, in_strips
from semiring.kernels.engine import Engine, cut
from semiring.namespaces import array_namespace

__all__ = ["UNDIRECTED", "undirected"]

_PIVOTS = 384  # that are closed at a time: fewer than of a whole matrix, for their panels are not halved
_STRIP = 256  # columns of the remainder that are multiplied down to their diagonal block


def undirected(engine: Engine, A: Array) -> None:
    """A ← A* in place, A (n, n) symmetric; divergence as in `rkleene`."""
    plan, n, xp = engine.plan, A.shape[0], array_namespace(A)
    blocks = schedule_for(engine.backend.name, plan.dtype).blocks(n, _PIVOTS)
    widest = max((stop - start for start, stop in blocks), default=0)
    across, along = xp.empty((n, widest), A.dtype), xp.empty((widest, n), A.dtype)
    for start, stop in blocks:
        K = slice(start, stop)
        pivots, before, closed = A[K, K], across[:, : stop - start], along[: stop - start]
        _mirror(engine, pivots)
        # The column panel before its pivots are closed; what is below them lies in their rows.
        engine.copied(A[:start, K], before[:start])
        _transpose(engine, A[K, stop:], before[stop:])
        if not rkleene(engine, pivots, start=start):
            return
        engine.copied(pivots, before[K])
        engine.copied(pivots, closed[:, K])
        if start:
            engine.multiply(closed[:, :start], pivots, before[:start].T)
        if stop < n:
            engine.multiply(closed[:, stop:], pivots, A[K, stop:])
        _transpose(engine, closed[:, :start], A[:start, K])
        for columns in cut(0, start, _STRIP):
            engine.multiply_add(A[: columns.stop, columns], before[: columns.stop], closed[:, columns])
        for columns in cut(stop, n, _STRIP):
            for rows in (slice(start), slice(stop, columns.stop)):
                engine.multiply_add(A[rows, columns], before[rows], closed[:, columns])
        engine.copied(closed[:, stop:], A[K, stop:])
    _mirror(engine, A)


def _transpose(engine: Engine, A: Array, out: Array) -> None:
    from semiring.kernels.graphs.permute import transpose_entries

    given, to = as_unsigned(A), as_unsigned(out)
    in_strips(lambda rows: transpose_entries(given, to, rows.start, rows.stop), len(out), engine.plan.threads, unit=16)


def _mirror(engine: Engine, A: Array) -> None:
    """What lies below the diagonal ← what lies above it."""
    from semiring.kernels.graphs.permute import mirror_entries

    entries = as_unsigned(A)
    in_strips(lambda rows: mirror_entries(entries, rows.start, rows.stop), len(A), engine.plan.threads, unit=16)


def _pairs(n: int, width: int) -> int:
    return n * n * width


UNDIRECTED = Method("undirected", undirected, pairs=_pairs)
