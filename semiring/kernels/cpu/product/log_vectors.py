"""Products of a matrix and a vector in log_plus: c = log Σₖ exp(m + x), each exponential taken once.

There is nothing to share between exponentials, as in a product of matrices (`log_sums`): they and the reading of the
matrix are all that counts. In float32 a line is read once (`codegen.powers`): its sum is relative to the power of two
near one of its first terms, and is formed again where that turns out to be far from the greatest. What is not finite,
or too large for that, is left to the loops for float64. They read each entry twice, for the greatest m + x, and for the
sum of exp(m + x − greatest), the second time from the cache. Where a single path exists, the result is its m + x, to
the bit. A line with a NaN, or any line where the vector has one, becomes NaN: nobody needs to look for them before.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semiring.kernels.contract import Plan
from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.memory import address, bits_of, number_of, wide
from semiring.kernels.cpu.codegen.powers import (
    EXCESS,
    FLOATS,
    MAGIC,
    RANGE,
    terms_along,
    terms_beside,
)
from semiring.kernels.cpu.product.log_sums import LOG2_E, exponential, is_log_plus, logarithm
from semiring.kernels.cpu.threads.pool import run_tasks

__all__ = ["multiply", "takes"]

Array: TypeAlias = NDArray[Any]

_PAIRS = 1 << 7  # a matrix of fewer entries is left to the kernel of the definition
_SIDE = 128  # steps of k side by side
_LINES = 256  # columns that are added up side by side: their sums stay in the first-level cache
_RUN = 64  # steps of k after which sums are brought to a greater maximum
_PART = 1 << 18  # pairs that pay for a thread: 50 µs
_LEAST = -700.0  # the exponentials of what is less count as its: they are nothing

_LN2 = 0.6931471805599453
_LARGE = RANGE / 4  # float32: entries of a vector above, and exponents of twice that, are left to float64
_SHIFT = np.float32(2 * _LARGE)
_BELOW, _ABOVE = -40, 90  # how far the greatest exponent of a sum may be from what the sum is relative to
_ALONE = 1.01  # a logarithm to base 2 that is more above the greatest exponent is one of several terms
_TRIED = 8  # rows that show what the sums of columns should be relative to

_inline = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"contract"})


def _kernel(function: Any) -> Any:
    return cached(njit(function, nogil=True, error_model="numpy", fastmath={"contract"}))


# --------------------------------------------------------------------------------------------------------- float64


@_inline
def _power(d):
    """The exponential of a float64 d ≤ 0, or NaN."""
    n, y = exponential(_LEAST if d < _LEAST else d, False)
    return number_of(bits_of(y) + (np.int64(n) << 52)) if d == d else d


@_inline
def _finite(top):
    """What exponentials are relative to."""
    return top if top > -np.inf else 0.0


@njit(nogil=True, error_model="numpy")
def _one_by_one(line, x):
    """The result of a line with infinities or NaN: ∞ − ∞ is no path, NaN stays."""
    top = -np.inf
    for k in range(line.size):
        if line[k] != line[k] or x[k] != x[k]:
            return np.nan
        t = line[k] + x[k]
        top = t if t > top else top
    if not (top > -np.inf and top < np.inf):
        return top
    total = 0.0
    for k in range(line.size):
        t = line[k] + x[k]
        total += np.exp(t - top) if t == t else 0.0
    return top + np.log(total)


@_kernel
def _along(M, x, C, start, stop):
    """C (b, lines) from M (b, lines, k) with adjacent k and x (b, k), of lines start … stop - 1 of all."""
    wide()
    lines, inner = M.shape[1], M.shape[2]
    top, part, total = np.empty(_SIDE), np.empty(_SIDE), np.empty(_SIDE)
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
        base = _finite(greatest)
        total[:] = 0
        for first in range(0, whole, 8 * _SIDE):
            part[:] = 0
            for k in range(first, min(whole, first + 8 * _SIDE), _SIDE):
                m, w = row[k : k + _SIDE], v[k : k + _SIDE]
                for j in range(_SIDE):
                    part[j] += _power((m[j] + w[j]) - base)
            for j in range(_SIDE):
                total[j] += part[j]
        for k in range(whole, inner):
            total[0] += _power((row[k] + v[k]) - base)
        for half in (64, 32, 16):
            total[:half] += total[half : 2 * half]
        value = total[:16].sum()
        if value != value:
            C[b, i] = _one_by_one(row, v)
        else:
            C[b, i] = greatest + np.log(value) if greatest > -np.inf else greatest


@_kernel
def _beside(M, x, C, start, stop):
    """The same for M (b, k, lines) with adjacent lines, of blocks of `_LINES` from start … stop - 1 of all."""
    wide()
    inner, lines = M.shape[1], M.shape[2]
    blocks = -(-lines // _LINES)
    top, part, total = np.empty(_LINES), np.empty(_LINES), np.empty(_LINES)
    before = np.empty(_LINES)
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
                total[j] *= _power(_finite(before[j]) - _finite(top[j])) if before[j] > -np.inf else 0.0
            for first in range(run, min(inner, run + _RUN), 8):
                part[:] = 0
                for k in range(first, min(inner, first + 8)):
                    v, row = x[b, k], M[b, k, left : left + width]
                    for j in range(width):
                        part[j] += _power((row[j] + v) - _finite(top[j]))
                for j in range(width):
                    total[j] += part[j]
        for j in range(width):
            if total[j] != total[j]:
                C[b, left + j] = _one_by_one(M[b, :, left + j], x[b])
            else:
                C[b, left + j] = top[j] + np.log(total[j]) if top[j] > -np.inf else top[j]


# --------------------------------------------------------------------------------------------------------- float32


@_inline
def _within(n):
    return min(max(n, np.float32(MAGIC) - _SHIFT), np.float32(MAGIC) + _SHIFT)


@_inline
def _far(top, reference):
    """Whether a sum relative to ``reference`` is to be formed again, relative to ``top``."""
    d = top - reference
    return top == _within(top) and not (d >= _BELOW and d <= _ABOVE)


@_kernel
def _shifted(w, shift, v):
    """V ← w less a whole number."""
    wide()
    for k in range(v.size):
        v[k] = w[k] - shift


@_kernel
def _logarithms(total, top, reference, floor, values, alone):
    """The logarithms of sums, NaN where float64 is to look; and whether there may be a single term, or none.

    Terms are those of exponents too large by `EXCESS` of them, and so is their mean, which is about the greatest.
    """
    wide()
    for j in range(values.size):
        t, n = total[j], np.float64(top[j])
        some = (t > 0) & (t < np.inf) & (n >= floor[j]) & (n == _within(top[j]))
        value = logarithm(t if some else 1.0, np.float64(reference[j]) - MAGIC, True)
        greatest = (n - MAGIC) * _LN2
        none = (t == 0) & (n == -np.inf) & (floor[j] < np.inf)  # no term, or all of them beyond the range of n
        alone[j] = none | (some & (value < greatest + _ALONE * _LN2))
        values[j] = value - EXCESS * greatest if some else np.nan


@njit(nogil=True, error_model="numpy")
def _single(line, x, value):
    """The only m + x that is no -∞, -∞ where there is none, else ``value``."""
    found = np.float32(-np.inf)
    for k in range(line.size):
        t = line[k] + x[k]
        if t > -np.inf:
            if found > -np.inf:
                return value
            found = t
    return np.float64(found)


@_kernel
def _floats_along(M, x, W, Y, least, C, start, stop):
    """As `_along`, by the parts W and Y (b, whole vectors) of x; NaN where float64 is to look."""
    wide()
    lines, inner = M.shape[1], M.shape[2]
    vectors, last = inner // FLOATS, np.zeros(FLOATS, np.float32)
    whole, past = FLOATS * vectors, 4 * FLOATS * vectors
    room = np.empty(W.shape[1] + FLOATS, np.float32)
    v = room[(-address(room) & (4 * FLOATS - 1)) >> 2 :][: W.shape[1]]
    references, top, total = np.empty(_LINES, np.float32), np.empty(_LINES, np.float32), np.empty(_LINES)
    floor, values, alone = np.empty(_LINES), np.empty(_LINES), np.empty(_LINES, np.bool_)
    held, reference = -1, np.float32(MAGIC)
    for first in range(start, stop, _LINES):
        count = min(_LINES, stop - first)
        for p in range(first, first + count):
            b, i = p // lines, p % lines
            row, w, y = address(M[b, i]), address(v), address(Y[b])
            if held != b:
                _shifted(W[b], reference - np.float32(MAGIC), v)
                held = b
            for k in range(whole, inner):
                last[k - whole] = M[b, i, k]
            highest = M[b, i, 0] * np.float32(LOG2_E) + W[b, 0]
            while True:
                if _far(highest, reference):  # else that of the line before
                    reference = np.rint(highest)
                    _shifted(W[b], reference - np.float32(MAGIC), v)
                sums, highest = terms_along(row, w, y, vectors)
                if whole < inner:
                    rest, other = terms_along(address(last), w + past, y + past, 1)
                    sums += rest
                    highest = max(highest, other)
                highest += reference - np.float32(MAGIC)
                if not _far(highest, reference):
                    break
            q = p - first
            total[q], top[q], references[q], floor[q] = sums, highest, reference, least[b]
        _logarithms(total, top, references, floor, values[:count], alone)
        for q in range(count):
            b, i = (first + q) // lines, (first + q) % lines
            C[b, i] = _single(M[b, i], x[b], values[q]) if alone[q] else values[q]


@_kernel
def _floats_beside(M, x, W, Y, least, C, start, stop):
    """As `_beside`, by the parts W and Y (b, whole vectors) of x; NaN where float64 is to look."""
    wide()
    inner, lines = M.shape[1], M.shape[2]
    blocks = -(-lines // _LINES)
    references, top, total = np.empty(_LINES, np.float32), np.empty(_LINES, np.float32), np.empty(_LINES)
    floor, values, alone = np.empty(_LINES), np.empty(_LINES), np.empty(_LINES, np.bool_)
    for p in range(start, stop):
        b, left = p // blocks, p % blocks * _LINES
        width = min(_LINES, lines - left)
        vectors, row = width // FLOATS, M.strides[1]
        whole = vectors * FLOATS
        last = np.zeros((inner if whole < width else 0, FLOATS), np.float32)
        for k in range(last.shape[0]):
            for j in range(whole, width):
                last[k, j - whole] = M[b, k, left + j]
        references[:], floor[:] = -np.inf, least[b]
        for k in range(min(inner, _TRIED)):
            for j in range(width):
                n = np.rint(M[b, k, left + j] * np.float32(LOG2_E) + W[b, k])
                references[j] = n if n > references[j] else references[j]
        for j in range(_LINES):
            references[j] = _within(references[j])
        again = True
        while again:
            top[:], total[:], again = -np.inf, 0, False
            for k in range(0, inner, 8):
                steps, w, y = min(8, inner - k), address(W[b, k:]), address(Y[b, k:])
                sums = address(references), address(total), address(top)
                terms_beside(address(M[b, k, left:]), row, w, y, steps, vectors, *sums)
                if whole < width:
                    place = 4 * whole
                    ends = sums[0] + place, sums[1] + 2 * place, sums[2] + place
                    terms_beside(address(last[k]), 4 * FLOATS, w, y, steps, 1, *ends)
            for j in range(width):
                if _far(top[j], references[j]):
                    references[j], again = np.rint(top[j]), True
        _logarithms(total, top, references, floor, values[:width], alone)
        for j in range(width):
            C[b, left + j] = _single(M[b, :, left + j], x[b], values[j]) if alone[j] else values[j]


@_kernel
def _parts(x, W, Y, least):
    """W and Y (b, whole vectors) with e^(x + x · `EXCESS`) = Y · 2^(W − `MAGIC`), and the ``least`` exponents (b,).

    Sums below are left to float64: -∞; or `MAGIC` − `_LARGE` / 4 where x below -`_LARGE` count as -∞; or ∞, for x above
    `_LARGE` or NaN.
    """
    for b in range(x.shape[0]):
        for k in range(x.shape[1], W.shape[1]):
            W[b, k], Y[b, k] = -np.inf, 1
        below = above = False
        for k in range(x.shape[1]):
            t = np.float64(x[b, k])
            if not t <= _LARGE:
                above = True
            elif t < -_LARGE and t > -np.inf:
                below = True
            inside = t >= -_LARGE and t <= _LARGE
            n, y = exponential(t * (1 + EXCESS) if inside else 0.0, True)
            W[b, k] = n + MAGIC if inside else -np.inf
            Y[b, k] = y
        least[b] = np.inf if above else MAGIC - _LARGE / 4 if below else -np.inf


# -------------------------------------------------------------------------------------------------------- products


def takes(plan: Plan, m: int, k: int, n: int) -> bool:
    """Whether `multiply` computes products (m, k) by (k, n): one row or one column, of elements that it knows."""
    if plan.dtype.char not in "fd" or plan.storage != "elements" or not is_log_plus(plan.semiring):
        return False
    return 1 in (m, n) and plan.zero == -np.inf and m * k * n >= _PAIRS


def multiply(plan: Plan, C: Array, A: Array, B: Array) -> None:
    """C ← A ⊗ B for stacks C (b, m, n), A (b, m, k), B (b, k, n), no size 0, with m = 1 or n = 1."""
    if C.shape[2] == 1:
        M, x, c = A, B[:, :, 0], C[:, :, 0]
    else:
        M, x, c = B.swapaxes(1, 2), A[:, 0], C[:, 0]  # (b, lines, k)
    x = np.ascontiguousarray(x)
    if plan.dtype.char == "d":
        _on_threads(plan, _along, _beside, M, (x,), c)
        return
    W, Y = _lines((2, x.shape[0], -(-x.shape[1] // FLOATS) * FLOATS))
    least = np.empty(x.shape[0])
    _parts(x, W, Y, least)
    _on_threads(plan, _floats_along, _floats_beside, M, (x, W, Y, least), c)
    if least.max() > -np.inf:  # an entry that counts as -∞ may meet one that makes up for it
        c[(least > -np.inf)[:, None] & ~(M.max(2) <= _LARGE / 2)] = np.nan
    if not np.isnan(c).any():
        return
    for b in np.flatnonzero(np.isnan(c).any(1)):
        lines = np.flatnonzero(np.isnan(c[b]))
        for some in np.split(lines, range(_LINES, lines.size, _LINES)):
            result = np.empty((1, some.size))
            _on_threads(
                plan, _along, _beside, M[b, some].astype(np.float64)[None], (x[b : b + 1].astype(np.float64),), result
            )
            with np.errstate(over="ignore"):  # of float32 it is ∞
                c[b, some] = result[0]


def _lines(shape: tuple[int, ...]) -> Array:
    """An array of floats that begins with a line of the cache: vectors that lie in two are read in two pieces."""
    size = prod(shape)
    room = np.empty(size + 16, np.float32)
    return room[-room.ctypes.data % 64 // 4 :][:size].reshape(shape)


def _on_threads(plan: Plan, along: Any, beside: Any, M: Array, given: tuple[Any, ...], c: Array) -> None:
    """The loop for lines that lie along k, or for lines that lie side by side, in pieces."""
    count, lines, inner = M.shape
    if M.strides[1] == M.itemsize and lines > 1:
        loop, matrices, pieces = beside, M.swapaxes(1, 2), count * -(-lines // _LINES)
    else:
        loop, matrices, pieces = along, M if M.strides[2] == M.itemsize else np.ascontiguousarray(M), count * lines
    threads = min(plan.threads, pieces, max(1, count * lines * inner // _PART))
    step = -(-pieces // (4 * threads)) if threads > 1 else pieces
    tasks = [(start, min(pieces, start + step)) for start in range(0, pieces, step)]
    run_tasks(lambda start, stop: loop(matrices, *given, c, start, stop), tasks, threads)
