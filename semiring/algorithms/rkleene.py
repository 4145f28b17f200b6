"""Close a matrix by R-Kleene: recursive elimination in place, with nearly all of its work in products.

Sources: A. Buluç, J. R. Gilbert, C. Budak, "Solving path problems on the GPU", Parallel Computing 36 (2010), figure 3;
P. D'Alberto, A. Nicolau, "R-Kleene: a high-performance divide-and-conquer algorithm for the all-pair shortest path for
densely connected networks", Algorithmica 47 (2007).

The order of lines 7-8 and 11-12 of figure 3 is swapped within each pair, so that A₂₂ ⊕ A₂₁ A₁₁* A₁₂ meets A₁₁* once and
not twice. For an idempotent ⊕ the result is the same. With the swap one algorithm serves every semiring that has a
star::

    A₁₁ ← A₁₁*    A₁₂ ← A₁₁ A₁₂    A₂₂ ← A₂₂ ⊕ A₂₁ A₁₂    A₂₁ ← A₂₁ A₁₁
    A₂₂ ← A₂₂*    A₂₁ ← A₂₂ A₂₁    A₁₁ ← A₁₁ ⊕ A₁₂ A₂₁    A₁₂ ← A₁₂ A₂₂

Cost: n³ pairs, of which all but n·leaf² are in products of blocks of at least about leaf / 2 rows. The workspace is
n/2 × panel of the engine.

The module computes neither A⁺ (see `irreflexive_closure`) nor predecessors (see `predecessors`). Hazards: a pivot
without a star stops the recursion and leaves A undefined. With mixed signs in floating point, rounding makes some
zero-weight cycles negative (see `potentials`).
"""

from __future__ import annotations

from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import WORD, block, columns_of, has_diverged
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["middle_row", "rkleene"]


def rkleene(engine: Engine, A: Array, *, leaf: int | None = None, start: int = 0) -> bool:
    """Compute A ← A* in place, and return whether every pivot has a star.

    Parameters
    ----------
    engine
        The operations of a backend, and the plan of the closure.
    A
        (n, n) of the plan's dtype and storage, with any row stride.
    leaf
        Blocks of at most this many rows are closed by `close_block`; by default the leaf of the schedule. Larger blocks
        are closed by the backend's closure of whole matrices, if it has one and no leaf is given.
    start
        The position of A in the matrix of the call.

    Notes
    -----
    A pivot without a star sets ``plan.status.diverged`` to start + its row; A is then undefined.
    """
    plan, n = engine.plan, A.shape[0]
    schedule = schedule_for(engine.backend.name, plan.dtype, plan.storage, plan.semiring)
    packed = plan.storage == "bits"
    if n <= max(1, leaf or schedule.leaf) or (packed and n <= WORD):
        engine.close_block(A, start)
        return not has_diverged(plan, start, plan.semiring.divergence is None)
    if not leaf and n <= schedule.max_whole_matrix_rows and engine.can_close(n):
        engine.close(A, start)
        return not has_diverged(plan, start, plan.semiring.divergence is None)

    h = middle_row(n, WORD if packed else schedule.grain)
    engine.reserve(min(h, engine.panel) * columns_of(plan, 0, h).stop)
    first, second = (0, h), (h, n)
    A11, A12 = block(plan, A, first, first), block(plan, A, first, second)
    A21, A22 = block(plan, A, second, first), block(plan, A, second, second)

    if not rkleene(engine, A11, leaf=leaf, start=start):
        return False
    engine.multiply_left(A11, A12)
    engine.multiply_add(A22, A21, A12)
    engine.multiply_right(A21, A11)
    if not rkleene(engine, A22, leaf=leaf, start=start + h):
        return False
    engine.multiply_left(A22, A21)
    engine.multiply_add(A11, A12, A21)
    engine.multiply_right(A12, A22)
    return True


def middle_row(n: int, grain: int) -> int:
    """Return the row near the middle at which the recursion splits n rows.

    It is a multiple of the kernels' tiles if n is large, and otherwise a multiple of a word.
    """
    half = -(-n // 2)
    unit = grain if n >= 4 * grain else WORD
    rounded = -(-half // unit) * unit
    return rounded if rounded < n else half
