"""Blocked Floyd-Warshall: a pivot block, its panels, the remainder; once for every block of pivots.

Sources: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM JEA 8 (2003);
G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008.

With K the pivot block and R all other vertices, in the order that also serves a ⊕ that is not idempotent::

    A_KK ← A_KK*    A_KR ← A_KK A_KR    A_RR ← A_RR ⊕ A_RK A_KR    A_RK ← A_RK A_KK

The last two are one product: the columns K are copied and set to 0̄, and then R's rows take (copy of A_RK) ⊗ A_K*,
whose columns K hold A_KK*.

*Look-ahead.* The rows of the next pivot block come first in every round: they are all that the next round needs before
it can begin, so they are closed while the other rows, which are independent of them, are worked on (on a device, where
the closure of a block leaves nearly all of it idle; elsewhere in turn). The order of the pivots of an entry stays.

Cost: n³ pairs in n / block rounds; workspace O(n × block). It reads the matrix n / block times where R-Kleene reads it
O(log n) times.

Pivots: every entry meets every pivot exactly once, and the blocks of pivots in increasing order.

What it does not compute: A⁺ (see `irreflexive`), predecessors (see `predecessors`). Hazards: those of `rkleene`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from semiring.algorithms.parameters import closure_parameters
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.views import WORD, Array, block, columns_of, zero_item
from semiring.kernels.engine import Engine

__all__ = ["blocked_floyd_warshall"]

Range: TypeAlias = tuple[int, int]


def blocked_floyd_warshall(
    engine: Engine, A: Array, P: Array | None = None, k0: int = 0, *, width: int | None = None, start: int = 0
) -> None:
    """A ← A* in place; A, P, k0, start and divergence as in `rkleene`. ``width``: pivots to a block."""
    plan, n = engine.plan, A.shape[0]
    parameters = closure_parameters(engine.backend.name, plan.dtype, plan.storage)
    if plan.storage == "bits" and width:
        width = -(-width // WORD) * WORD
    elimination = _Elimination(A, P, k0, start, parameters.rows, parameters.at_once)
    blocks = parameters.blocks(n, width)
    for position, pivots in enumerate(blocks):
        if position == 0:
            elimination.close_rows(engine, pivots)
        if plan.status.diverged >= 0:
            return
        following = blocks[position + 1] if position + 1 < len(blocks) else (n, n)

        def ahead(lane: Engine, pivots: Range = pivots, following: Range = following) -> None:
            elimination.eliminate(lane, pivots, following)
            elimination.close_rows(lane, following)

        def above(lane: Engine, pivots: Range = pivots) -> None:
            elimination.eliminate(lane, pivots, (0, pivots[0]))

        def below(lane: Engine, pivots: Range = pivots, following: Range = following) -> None:
            elimination.eliminate(lane, pivots, (following[1], n))

        present = (following[0] < n, pivots[0] > 0, following[1] < n)
        engine.together(*(task for task, there in zip((ahead, above, below), present, strict=True) if there))


@dataclass(frozen=True)
class _Elimination:
    """One matrix while it is closed; ranges are those of vertices, counted from its first row."""

    A: Array
    P: Array | None
    k0: int
    start: int
    rows: int  # of the remainder at a time
    at_once: bool  # whether the rows of the pivots are one product

    def close_rows(self, engine: Engine, pivots: Range) -> None:
        """A_KK ← A_KK* and A_KR ← A_KK A_KR: the rows of the pivots."""
        plan, A, P, K = engine.plan, self.A, self.P, slice(*pivots)
        A_KK = block(plan, A, pivots, pivots)
        k = self.k0 + pivots[0]
        rkleene(engine, A_KK, None if P is None else P[K, K], k, start=self.start + pivots[0])
        if plan.status.diverged >= 0:
            return
        if self.at_once and P is None:
            closed, panel = engine.copied(A_KK), engine.copied(A[K])
            engine.multiply(A[K], closed, panel)
            A_KK[...] = closed
            return
        for others in ((0, pivots[0]), (pivots[1], A.shape[0])):
            if others[0] < others[1]:
                A_KR = block(plan, A, pivots, others)
                engine.multiply_left(A_KK, A_KR, None if P is None else P[K, slice(*others)], k)

    def eliminate(self, engine: Engine, pivots: Range, rows: Range) -> None:
        """The remainder and the column panel of some rows, a piece of them at a time."""
        for top in range(*rows, self.rows):
            self._eliminate(engine, pivots, slice(top, min(top + self.rows, rows[1])))

    def _eliminate(self, engine: Engine, pivots: Range, rows: slice) -> None:
        """One product with the rows of the pivots."""
        A, P, columns = self.A, self.P, columns_of(engine.plan, *pivots)
        through = engine.copied(A[rows, columns])
        if P is None:
            if not engine.plan.semiring.idempotent:  # otherwise A_RK is not better than A_RK A_KK*
                A[rows, columns] = zero_item(engine.plan)
            engine.multiply_add(A[rows], through, A[slice(*pivots)])
        else:  # an idempotent ⊕: what stands in the columns stays, so that only an improvement counts as one
            engine.multiply_add_pivots(A[rows], P[rows], through, A[slice(*pivots)], self.k0 + pivots[0])
