"""Floyd-Warshall with the rows scattered, and the pivot row broadcast for every k: a baseline to compare with.

Source: D. Bertoldi, "Parallelization of the Floyd-Warshall algorithm". With one thread a rank it is his algorithm 2
(MPI), with several his algorithm 6 (MPI and OpenMP), on GPUs his algorithm 7 (MPI and CUDA): what differs is the engine
that does ``C ← C ⊕ A_RK ⊗ A_K`` for one k. His comparison ``M_ij < M_ik + K_j`` is the wrong way round; ⊕ compares.

Cost: n³ / ranks pairs, each entry read and written n times, and n broadcasts, for which everybody waits.
What it does not close: semirings whose ⊕ is not idempotent, for a pivot needs no star here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from semiring.distributed.grid import Grid
from semiring.distributed.transports import REST, Links
from semiring.errors import AlgebraError
from semiring.kernels.engine import Engine
from semiring.namespaces import array_namespace

__all__ = ["close_rows"]

Array: TypeAlias = Any


def close_rows(
    engine: Engine,
    links: Links,
    grid: Grid,
    A: Array,
    *,
    diverges: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """A ← the rows of the closure that belong to this rank, in place; as `close_tiles`, on a grid of one column.

    Raises `AlgebraError` where ⊕ is not idempotent, or a pivot may have no star.
    """
    plan, n = engine.plan, grid.n
    if not plan.semiring.idempotent or diverges:
        raise AlgebraError(f"method='row_broadcast' needs pivots without a star, and {plan.semiring.name} may need one")
    rows, xp = grid.rows(links.rank), array_namespace(A)
    pivot, column = xp.empty((1, n), A.dtype), xp.empty((len(A), 1), A.dtype)
    here = xp.arange(len(A))
    loops = (here, xp.asarray(rows.vertices))
    A[loops] = plan.semiring.add(A[loops], plan.dtype.type(plan.one))
    with links.lanes(engine) as lanes:
        for p, block in enumerate(grid.blocks):
            for k in range(*block):

                def relax(lane: Engine, k: int = k, p: int = p) -> None:
                    low, high = rows.own((k, k + 1))
                    if low < high:
                        pivot[...] = A[low:high]
                    links.broadcast(pivot, p, "column")
                    if len(A):
                        column[...] = A[:, k : k + 1]
                        lane.multiply_add(A, column, pivot)

                lanes.run(REST, relax)
            if progress is not None:
                progress(block[1] * n**2, n**3)
    return -1
