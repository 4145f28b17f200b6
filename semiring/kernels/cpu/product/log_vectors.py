"""Products of a matrix and a vector in log_plus: c = log Σₖ exp(m + x), each exponential taken once.

There is nothing to share between exponentials, as in a product of matrices (`log_sums`): every entry of the matrix is
read twice, for the greatest m + x, and for the sum of exp(m + x − greatest), the second time from the cache. Terms of
float32 are added by eight in float32, and these sums in float64. Where a single path exists, the result is its m + x,
to the bit.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semiring.kernels.contract import Plan
from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.memory import bits_of, number_of, scaled, wide
from semiring.kernels.cpu.product.log_sums import exponential, is_log_plus
from semiring.kernels.cpu.threads.pool import run_tasks

__all__ = ["multiply", "takes"]

Array: TypeAlias = NDArray[Any]

_PAIRS = 1 << 7  # a matrix of fewer entries is left to the kernel of the definition
_SIDE = 128  # steps of k side by side
_LINES = 256  # columns that are added up side by side: their sums stay in the first-level cache
_RUN = 64  # steps of k after which sums are brought to a greater maximum
_PART = 1 << 16  # pairs that pay for a thread
_MAGIC = np.float32(3 << 22)  # n + this holds n, a whole number below 2²², in its last bits
_LEAST_32, _LEAST_64 = np.float32(-87), -700.0  # the exponentials of what is less count as theirs: they are nothing

_LOG2_E, _LN2_HIGH, _LN2_LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(1 / f) for f in (2, 6, 24, 120, 720, 5040))
_ONE, _HALF = np.float32(1), np.float32(0.5)

_inline = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"contract"})


def _kernel(function: Any) -> Any:
    return cached(njit(function, nogil=True, error_model="numpy", fastmath={"contract"}))


@_inline
def _small(d):
    """The exponential of a float32 d ≤ 0."""
    d = d if d > _LEAST_32 else _LEAST_32
    n = np.floor(d * _LOG2_E + _HALF)
    r = (d - n * _LN2_HIGH) - n * _LN2_LOW
    y = _C7
    y = y * r + _C6
    y = y * r + _C5
    y = y * r + _C4
    y = y * r + _C3
    y = y * r + _C2
    y = y * r + _ONE
    return scaled(y * r + _ONE, n + _MAGIC)


@_inline
def _large(d):
    """The exponential of a float64 d ≤ 0."""
    n, y = exponential(d if d > _LEAST_64 else _LEAST_64)
    return number_of(bits_of(y) + (np.int64(n) << 52))


@_inline
def _finished(c, greatest, total, accumulate):
    """C, or c ⊕ the logarithm of the sum."""
    if not (greatest > -np.inf and greatest < np.inf):
        value = np.float64(greatest)
    else:
        value = np.float64(greatest) + np.log(total)
    if accumulate and c > -np.inf:
        high, low = max(np.float64(c), value), min(np.float64(c), value)
        value = high + np.log1p(np.exp(low - high)) if high < np.inf else high
    return value


def _loops(power: Any) -> tuple[Any, Any]:
    """The two loops, for lines that lie along k and for lines that lie side by side, by an exponential."""

    @_kernel
    def along(M, x, C, accumulate, start, stop):
        """C (b, lines) from M (b, lines, k) with adjacent k and x (b, k), of lines start … stop - 1 of all."""
        wide()
        lines, inner = M.shape[1], M.shape[2]
        top, part, total = np.empty(_SIDE, M.dtype), np.empty(_SIDE, M.dtype), np.empty(_SIDE)
        for p in range(start, stop):
            b, i = p // lines, p % lines
            row, v = M[b, i], x[b]
            top[:] = -np.inf
            whole = inner // _SIDE * _SIDE
            for k in range(0, whole, _SIDE):
                m, w = row[k : k + _SIDE], v[k : k + _SIDE]
                for j in range(_SIDE):
                    t = m[j] + w[j]
                    top[j] = t if t > top[j] else top[j]
            for k in range(whole, inner):
                t = row[k] + v[k]
                top[0] = t if t > top[0] else top[0]
            for half in (64, 32, 16):
                left, right = top[:half], top[half : 2 * half]
                for j in range(half):
                    left[j] = right[j] if right[j] > left[j] else left[j]
            greatest = top[:16].max()
            total[:] = 0
            for first in range(0, whole, 8 * _SIDE):
                part[:] = 0
                for k in range(first, min(whole, first + 8 * _SIDE), _SIDE):
                    m, w = row[k : k + _SIDE], v[k : k + _SIDE]
                    for j in range(_SIDE):
                        part[j] += power((m[j] + w[j]) - greatest)
                for j in range(_SIDE):
                    total[j] += part[j]
            for k in range(whole, inner):
                total[0] += power((row[k] + v[k]) - greatest)
            for half in (64, 32, 16):
                total[:half] += total[half : 2 * half]
            C[b, i] = _finished(C[b, i], greatest, total[:16].sum(), accumulate)

    @_kernel
    def beside(M, x, C, accumulate, start, stop):
        """The same for M (b, k, lines) with adjacent lines, of blocks of `_LINES` from start … stop - 1 of all."""
        wide()
        inner, lines = M.shape[1], M.shape[2]
        blocks = -(-lines // _LINES)
        top, part, total = np.empty(_LINES, M.dtype), np.empty(_LINES, M.dtype), np.empty(_LINES)
        before = np.empty(_LINES, M.dtype)
        for p in range(start, stop):
            b, left = p // blocks, p % blocks * _LINES
            width = min(_LINES, lines - left)
            top[:], total[:] = -np.inf, 0
            for run in range(0, inner, _RUN):  # its lines stay in the second-level cache, and so memory is read once
                before[:] = top
                for k in range(run, min(inner, run + _RUN)):
                    v, row = x[b, k], M[b, k, left : left + width]
                    for j in range(width):
                        t = row[j] + v
                        top[j] = t if t > top[j] else top[j]
                for j in range(width):
                    total[j] *= power(before[j] - top[j])
                for first in range(run, min(inner, run + _RUN), 8):
                    part[:] = 0
                    for k in range(first, min(inner, first + 8)):
                        v, row = x[b, k], M[b, k, left : left + width]
                        for j in range(width):
                            part[j] += power((row[j] + v) - top[j])
                    for j in range(width):
                        total[j] += part[j]
            for j in range(width):
                C[b, left + j] = _finished(C[b, left + j], top[j], total[j], accumulate)

    return along, beside


_OF = {"f": _loops(_small), "d": _loops(_large)}


def takes(plan: Plan, C: Array, A: Array) -> bool:
    """Whether `multiply` computes C = A ⊗ B: one row or one column, of elements that it knows."""
    if plan.dtype.char not in _OF or plan.storage != "elements" or not is_log_plus(plan.semiring):
        return False
    return 1 in C.shape[-2:] and plan.zero == -np.inf and C.shape[-2] * C.shape[-1] * A.shape[-1] >= _PAIRS


def multiply(plan: Plan, C: Array, A: Array, B: Array, accumulate: int) -> None:
    """C ← [C ⊕] A ⊗ B for stacks C (b, m, n), A (b, m, k), B (b, k, n), no size 0, with m = 1 or n = 1."""
    if C.shape[2] == 1:
        M, x, c = A, B[:, :, 0], C[:, :, 0]
    else:
        M, x, c = B.swapaxes(1, 2), A[:, 0], C[:, 0]  # (b, lines, k)
    count, lines, inner = M.shape
    along, beside = _OF[plan.dtype.char]
    if M.strides[1] == M.itemsize and lines > 1:
        loop, matrices, pieces = beside, M.swapaxes(1, 2), count * -(-lines // _LINES)
    else:
        loop, matrices, pieces = along, M if M.strides[2] == M.itemsize else np.ascontiguousarray(M), count * lines
    threads = min(plan.threads, pieces, max(1, count * lines * inner // _PART))
    step = -(-pieces // (4 * threads)) if threads > 1 else pieces
    tasks = [(start, min(pieces, start + step)) for start in range(0, pieces, step)]
    arguments = matrices, np.ascontiguousarray(x), c, bool(accumulate)
    run_tasks(lambda start, stop: loop(*arguments, start, stop), tasks, threads)
