"""Blocked Floyd-Warshall: a pivot block, its panels, the remainder; once for every block of pivots.

Sources: G. Venkataraman, S. Sahni, S. Mukhopadhyaya, "A blocked all-pairs shortest-paths algorithm", ACM JEA 8 (2003);
G. J. Katz, J. T. Kider, "All-pairs shortest-paths for large graphs on the GPU", Graphics Hardware 2008.

With K the pivot block and R all other vertices, in the order that also serves a ⊕ that is not idempotent::

    A_KK ← A_KK*    A_KR ← A_KK A_KR    A_RR ← A_RR ⊕ A_RK A_KR    A_RK ← A_RK A_KK

The last two are one product: the columns K are copied and set to 0̄, and then R's rows take (copy of A_RK) ⊗ A_K*,
whose columns K hold A_KK*. Cost: n³ pairs in n / block rounds; workspace O(n × block). Fewer, larger launches than
R-Kleene for small n on a device; it reads the matrix n / block times where R-Kleene reads it O(log n) times.

Pivots: every entry meets every pivot exactly once, and the blocks of pivots in increasing order.

What it does not compute: A⁺ (see `irreflexive`), predecessors (see `predecessors`). Hazards: those of `rkleene`.
"""

from __future__ import annotations

from semiring.algorithms.parameters import closure_parameters
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.views import WORD, Array, block, columns_of, has_diverged, zero_item
from semiring.kernels.engine import Engine

__all__ = ["blocked_floyd_warshall"]

_ROWS = 2048  # of the remainder at a time: the copy of their pivot columns stays small beside the matrix


def blocked_floyd_warshall(
    engine: Engine, A: Array, P: Array | None = None, k0: int = 0, *, width: int | None = None
) -> None:
    """A ← A* in place; A, P, k0 and divergence as in `rkleene`. ``width``: pivots to a block."""
    plan, n = engine.plan, A.shape[0]
    step = width or closure_parameters(engine.backend.name, plan.dtype, plan.storage).width(n)
    if plan.storage == "bits":
        step = -(-step // WORD) * WORD
    for start in range(0, n, step):
        pivots = (start, min(n, start + step))
        A_KK = block(plan, A, pivots, pivots)
        P_KK = None if P is None else P[slice(*pivots), slice(*pivots)]
        rkleene(engine, A_KK, P_KK, k0 + start)
        if has_diverged(plan, start, plan.semiring.divergence is None):
            return
        for others in ((0, pivots[0]), (pivots[1], n)):
            A_KR = block(plan, A, pivots, others)
            engine.multiply_left(A_KK, A_KR, None if P is None else P[slice(*pivots), slice(*others)], k0 + start)
        for others in ((0, pivots[0]), (pivots[1], n)):
            for top in range(others[0], others[1], _ROWS):
                _eliminate(engine, A, P, k0, pivots, (top, min(top + _ROWS, others[1])))


def _eliminate(
    engine: Engine, A: Array, P: Array | None, k0: int, pivots: tuple[int, int], rows: tuple[int, int]
) -> None:
    """The remainder and the column panel of the rows ``rows``: one product with the rows of the pivots."""
    columns = columns_of(engine.plan, *pivots)
    through = A[slice(*rows), columns].copy()
    if P is None:
        A[slice(*rows), columns] = zero_item(engine.plan)
        engine.multiply_add(A[slice(*rows)], through, A[slice(*pivots)])
    else:  # an idempotent ⊕: what stands in the columns stays, so that only an improvement counts as one
        engine.multiply_add_pivots(A[slice(*rows)], P[slice(*rows)], through, A[slice(*pivots)], k0 + pivots[0])
