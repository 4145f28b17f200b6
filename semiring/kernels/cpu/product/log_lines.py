"""Sums of exponentials line by line in float64, c = log Σₖ exp(m + x), for any entries.

Each entry is read twice: for the greatest m + x, and for the sum of exp(m + x − greatest). The second time it comes
from the cache. ∞ − ∞ is no path, and NaN stays. If there is a single path, the result is exactly its m + x. The order
in which a line is added up depends on no other line. `log_sums` and `log_vectors` use the exponentials and logarithms
of this module too.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from semiring.kernels.contract import Array
from semiring.kernels.cpu.codegen.jit import cache_on_disk, inner
from semiring.kernels.cpu.codegen.memory_intrinsics import bits_of, number_of, use_wide_vectors
from semiring.kernels.cpu.codegen.numba_internals import INLINED, OUTER
from semiring.kernels.cpu.thread_pool import run_on_ranges

LOW, HIGH = -float(1 << 20), float(1 << 19)  # only exponentials of entries in this range are computed: 21-bit exponents
LINES = 256  # lines that are added up side by side: their sums stay in the first-level cache
_LANES = 128  # steps of k that are added up side by side
_RUN = 64  # steps of k after which sums are rescaled to a greater maximum
_MIN_THREAD_PAIRS = 1 << 18  # pairs of the least work of a thread: 50 µs
_LEAST_ARGUMENT = -700.0  # smaller arguments count as this one: their exponentials are negligible

LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 32 bits
_NEAREST = 1.5 * 2.0**52  # adding and subtracting it rounds a number of moderate size to the nearest whole number
_SQRT2 = 1.4142135623730951
FRACTION, ONE = (1 << 52) - 1, 1023 << 52


def kernel(function: Any) -> Any:
    """Compile a loop that Python calls, and keep its code on disk."""
    return cache_on_disk(njit(function, **OUTER, fastmath={"contract"}))


inline = njit(**INLINED, fastmath={"contract"})


@inline
def exponential(x, single):
    """Return the number n and the double y ∈ [√½, √2] with eˣ = y · 2ⁿ, x within `LOW` and `HIGH`.

    For results that are ``single``, y is within 4.1e-11 of it, relatively, by a polynomial that Remez's algorithm
    found.
    """
    n = (x * LOG2_E + _NEAREST) - _NEAREST
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    if single:
        y = 1.9775172970321086e-4
        y = y * r + 1.3948183320226695e-3
        y = y * r + 8.333561087398854e-3
        y = y * r + 4.166622542563472e-2
        y = y * r + 1.6666665126153235e-1
        y = y * r + 5.000000104536161e-1
        y = y * r + 1.0000000002430944
        return n, y * r + 0.999999999961682
    y = 1 / 6227020800.0
    y = y * r + 1 / 479001600.0
    y = y * r + 1 / 39916800.0
    y = y * r + 1 / 3628800.0
    y = y * r + 1 / 362880.0
    y = y * r + 1 / 40320.0
    y = y * r + 1 / 5040.0
    y = y * r + 1 / 720.0
    y = y * r + 1 / 120.0
    y = y * r + 1 / 24.0
    y = y * r + 1 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    return n, y * r + 1.0


@inline
def logarithm(x, n, single):
    """Return the logarithm of x · 2ⁿ, x a positive normal double; if ``single``, within 1.2e-10."""
    bits = bits_of(x)
    exponent, y = (bits >> 52) - 1023, number_of((bits & FRACTION) | ONE)
    above = y > _SQRT2
    y = 0.5 * y if above else y
    n += np.float64(exponent + 1 if above else exponent)
    z = y - 1.0
    if single:
        s = 6.718493409499791e-2
        s = s * z - 1.1891005877051904e-1
        s = s * z + 1.2034378102070731e-1
        s = s * z - 1.2376079583867869e-1
        s = s * z + 1.4190552838645606e-1
        s = s * z - 1.6668702792919168e-1
        s = s * z + 2.0004098652394972e-1
        s = s * z - 2.500003999336041e-1
        s = s * z + 3.33332618402504e-1
        s = s * z - 4.999999918837748e-1
        s = s * z + 1.0000000034389642
        return n * _LN2_HIGH + (n * _LN2_LOW + z * s)
    z = z / (y + 1.0)
    q = z * z
    s = 1 / 21.0
    s = s * q + 1 / 19.0
    s = s * q + 1 / 17.0
    s = s * q + 1 / 15.0
    s = s * q + 1 / 13.0
    s = s * q + 1 / 11.0
    s = s * q + 1 / 9.0
    s = s * q + 1 / 7.0
    s = s * q + 1 / 5.0
    s = s * q + 1 / 3.0
    return n * _LN2_HIGH + (n * _LN2_LOW + (2.0 * z * q * s + 2.0 * z))


@inline
def _power(d):
    """Return the exponential of a float64 d ≤ 0, or NaN."""
    n, y = exponential(_LEAST_ARGUMENT if d < _LEAST_ARGUMENT else d, False)
    return number_of(bits_of(y) + (np.int64(n) << 52)) if d == d else d


@inline
def _finite_reference(top):
    """Return a finite reference for exponentials, near the greatest term of a line."""
    return top if top > -np.inf else 0.0


@inner
def _add_special_line(line, x):
    """Return the result of a line with infinities or NaN, in which ∞ − ∞ is no path, and NaN stays."""
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


@kernel
def _add_along(M, x, C, start, stop):
    """Write C (b, lines) from M (b, lines, k) with adjacent k and x (b, k), for lines start … stop - 1.

    Lines are numbered through all b.
    """
    use_wide_vectors()
    lines, inner = M.shape[1], M.shape[2]
    top, part, total = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    for p in range(start, stop):
        b, i = p // lines, p % lines
        row, v = M[b, i], x[b]
        top[:] = -np.inf
        whole = inner // _LANES * _LANES
        for k in range(0, whole, _LANES):
            m, w = row[k : k + _LANES], v[k : k + _LANES]
            for j in range(_LANES):
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
        base = _finite_reference(greatest)
        total[:] = 0
        for first in range(0, whole, 8 * _LANES):
            part[:] = 0
            for k in range(first, min(whole, first + 8 * _LANES), _LANES):
                m, w = row[k : k + _LANES], v[k : k + _LANES]
                for j in range(_LANES):
                    part[j] += _power((m[j] + w[j]) - base)
            for j in range(_LANES):
                total[j] += part[j]
        for k in range(whole, inner):
            total[0] += _power((row[k] + v[k]) - base)
        for half in (64, 32, 16):
            total[:half] += total[half : 2 * half]
        value = total[:16].sum()
        if value != value:
            C[b, i] = _add_special_line(row, v)
        else:
            C[b, i] = greatest + np.log(value) if greatest > -np.inf else greatest


@kernel
def _add_across(M, x, C, start, stop):
    """Write C (b, lines) from M (b, k, lines) with adjacent lines, for the blocks start … stop - 1 of `LINES` lines.

    M may be one matrix for all b.
    """
    use_wide_vectors()
    inner, lines = M.shape[1], M.shape[2]
    blocks = -(-lines // LINES)
    top, part, total = np.empty(LINES), np.empty(LINES), np.empty(LINES)
    before = np.empty(LINES)
    for p in range(start, stop):
        b, first_line = p // blocks, p % blocks * LINES
        matrix, width = M[b if M.shape[0] > 1 else 0], min(LINES, lines - first_line)
        top[:], total[:] = -np.inf, 0
        for run in range(0, inner, _RUN):  # the lines of a run stay in the second-level cache, so memory is read once
            before[:] = top
            for k in range(run, min(inner, run + _RUN)):
                v, row = x[b, k], matrix[k, first_line : first_line + width]
                for j in range(width):
                    t = row[j] + v
                    top[j] = t if t > top[j] else top[j]
            for j in range(width):
                total[j] *= (
                    _power(_finite_reference(before[j]) - _finite_reference(top[j])) if before[j] > -np.inf else 0.0
                )
            for first in range(run, min(inner, run + _RUN), 8):
                part[:] = 0
                for k in range(first, min(inner, first + 8)):
                    v, row = x[b, k], matrix[k, first_line : first_line + width]
                    for j in range(width):
                        part[j] += _power((row[j] + v) - _finite_reference(top[j]))
                for j in range(width):
                    total[j] += part[j]
        for j in range(width):
            if total[j] != total[j]:
                C[b, first_line + j] = _add_special_line(matrix[:, first_line + j], x[b])
            else:
                C[b, first_line + j] = top[j] + np.log(total[j]) if top[j] > -np.inf else top[j]


def add_lines(M: Array, x: Array, c: Array, threads: int) -> None:
    """Write log Σₖ exp(m + x) to c (b, lines), for float64 M (b, lines, k) and x (b, k)."""
    run_on_lines(threads, _add_along, _add_across, M, x, c)


def multiply(A: Array, B: Array, threads: int) -> Array:
    """Return A ⊗ B in float64 for A (m, k) and B (k, n); the order of an entry depends on no other row or column."""
    if A.shape[0] > B.shape[1]:  # lines are the longer side
        return multiply(B.T, A.T, threads).T
    result = np.empty((A.shape[0], B.shape[1]))
    arrays = np.ascontiguousarray(B, np.float64)[None], np.ascontiguousarray(A, np.float64), result
    _run_in_pieces(threads, _add_across, arrays, A.shape[0] * -(-B.shape[1] // LINES), A.size * B.shape[1])
    return result


def run_on_lines(threads: int, along_loop: Any, across_loop: Any, M: Array, x: Array, c: Array) -> None:
    """Run ``along_loop`` if k is adjacent within a line, or ``across_loop`` if lines are adjacent, on threads."""
    count, lines, _ = M.shape
    if M.strides[1] == M.itemsize and lines > 1:
        _run_in_pieces(threads, across_loop, (M.swapaxes(1, 2), x, c), count * -(-lines // LINES), M.size)
    else:
        matrices = M if M.strides[2] == M.itemsize else np.ascontiguousarray(M)
        _run_in_pieces(threads, along_loop, (matrices, x, c), count * lines, M.size)


def _run_in_pieces(threads: int, loop: Any, arguments: tuple[Any, ...], pieces: int, pairs: int) -> None:
    threads = min(threads, pieces, max(1, pairs // _MIN_THREAD_PAIRS))
    step = -(-pieces // (4 * threads)) if threads > 1 else pieces
    run_on_ranges(lambda start, stop: loop(*arguments, start, stop), pieces, step, threads)
