"""Small min-plus matrices of floats: a kernel call or two and nothing else, for a check costs as much as the work.

Non-negative weights are closed at once. Others go through potentials from one elimination in float64, if it comes
through and leaves every reweighted entry ≥ 0 up to the rounding of sums; whatever is not that simple (a negative or a
zero-weight cycle, an infinite gain, NaN) is left to `tropical`, which is thorough.

Source: Johnson 1977, as in `potentials`. Cost: n³ or 2 n³ pairs on one thread.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.predecessors import predecessors
from semiring.algorithms.reweighting import negligible
from semiring.algorithms.views import Array
from semiring.kernels import backend_for
from semiring.kernels.contract import Backend, Plan, StackClosures
from semiring.kernels.engine import make_plan

__all__ = ["SMALL", "close_small", "close_small_stack", "close_small_with_predecessors", "small_potentials"]

SMALL = 160  # rows up to which one thread and one block are as fast as anything

_FLOAT64 = np.dtype(np.float64)
_PIECE = 1 << 19  # bytes of a stack in float64 at a time: temporaries stay in the second-level cache
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def close_small(A: Array) -> Array | None:
    """A* of a float matrix (n, n), 0 < n ≤ `SMALL`, in a new array; None where it takes more care."""
    D, shift = _reweighted(A)
    if D is None:
        return None
    _close(D)
    return D if shift is None else np.subtract(D, shift, out=D, casting="same_kind")


def close_small_stack(A: Array, out: Array, threads: int) -> bool:
    """Close: out ← A* of every matrix of A (count, n, n), 0 < n ≤ `SMALL`, of finite floats and ∞, of any signs.

    Potentials of all are found before anything is written; False where a matrix takes more care, and nothing is then.
    The same bits as from `close_small`, on a host whose backend closes stacks. ``out`` may be A.
    """
    count, n = A.shape[:2]
    closures = backend_for(A, min_plus, A.dtype).capabilities.stack_closures
    wide = backend_for(A, min_plus, _FLOAT64).capabilities.stack_closures
    if closures is None or wide is None:
        return False
    step = max(1, _PIECE // (8 * n * n))
    parts = [slice(start, start + step) for start in range(0, count, step)]
    h = np.empty((count, n))
    for part in parts:
        if not _find_potentials(A[part], h[part], wide, threads):
            return False
    plan = make_plan(min_plus, A.dtype, nonnegative=True, threads=threads)
    for part in parts:
        shift = _shift(h[part])
        D = np.add(A[part], shift)
        np.maximum(D, 0.0, out=D)
        D += 0.0
        D = D.astype(A.dtype, copy=False)
        closures.close_stack(plan, D)
        np.subtract(D, shift, out=out[part], casting="same_kind")
    return True


def _find_potentials(A: Array, h: Array, closures: StackClosures, threads: int) -> bool:
    """Potentials: h (count, n) ← those of every matrix, as `small_potentials` finds them; whether that was possible."""
    plan = make_plan(min_plus, _FLOAT64, threads=threads)
    D = A.astype(_FLOAT64, order="C")
    closures.close_stack(plan, D)
    if plan.status.diverged >= 0:
        return False
    np.min(D, axis=1, out=h)
    if not h.min() > -negligible(A.dtype):
        return False
    np.add(A, _shift(h), out=D)
    return bool((D.min(axis=(1, 2)) >= _ROUNDING * h.min(axis=1)).all())


def _shift(h: Array) -> Array:
    """What potentials (count, n) add to weights."""
    return h[:, :, np.newaxis] - h[:, np.newaxis]


def close_small_with_predecessors(A: Array) -> tuple[Array, Array] | None:
    """(A*, predecessors (n, n) int32) of the same matrices; None where it takes more care."""
    D, shift = _reweighted(A)
    if D is None:
        return None
    before = D.copy()
    found = predecessors(*_close(D), D, before=before)
    return (D if shift is None else np.subtract(D, shift, out=D, casting="same_kind")), found


def _reweighted(A: Array) -> tuple[Array | None, Array | None]:
    """(A ≥ 0 in a new array, None), or (A ≥ 0 under potentials, what they added); no array where that takes care."""
    low = A.min()
    if low >= 0:  # and no NaN
        return np.add(A, 0.0, out=np.empty(A.shape, A.dtype)), None  # -0.0 becomes 0.0
    h = small_potentials(A) if low > -np.inf else None
    if h is None:
        return None, None
    shift = h[:, np.newaxis] - h
    D = np.add(A, shift)
    np.maximum(D, 0.0, out=D)
    D += 0.0
    return D if A.dtype == _FLOAT64 else D.astype(A.dtype), shift


def small_potentials(A: Array) -> Array | None:
    """Potentials (n,) float64 of a matrix of finite weights and ∞ by one elimination; None where it takes more care.

    Every closure of a small matrix begins with them, whichever way it goes on, so that all give the same bits.
    """
    plan = make_plan(min_plus, _FLOAT64)
    D = A.astype(np.float64, order="C")
    backend_for(D, min_plus, _FLOAT64).close_block(plan, D)
    if plan.status.diverged >= 0:
        return None
    h: Array = D.min(axis=0)
    if not h.min() > -negligible(A.dtype):  # sums might leave the range of the dtype
        return None
    np.add(A, h[:, np.newaxis] - h, out=D)
    return h if D.min() >= _ROUNDING * h.min() else None


def _close(D: Array) -> tuple[Backend, Plan]:
    """D ← D* in place; by what that was done."""
    plan = make_plan(min_plus, D.dtype, nonnegative=True)
    backend = backend_for(D, min_plus, D.dtype)
    backend.close_block(plan, D)
    return backend, plan
