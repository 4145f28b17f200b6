"""Products of log_plus by products of numbers: c = log Σₖ exp(a + b) at the speed of plus_times.

With whole numbers u, v and w, one for each row of A, each k and each column of B,

    c[i, j] = log(2)·(u[i] + w[j]) + log Σₖ (exp a[i, k]·2^−(u[i] + v[k])) · (exp b[k, j]·2^(v[k] − w[j])),

and the sum is a product of plus_times in float64. Every exponential is a power of two times exp r, |r| ≤ log(2)/2. So
its error does not grow with the exponent, and shifts do not round. They bring the greatest entry of each row and column
near 1. The v are computed first: they bring the greatest entry of each row of B near 1, so that greatest entries meet.

Only exponentials of entries within `LOW` and `HIGH` are computed, and the greatest entry is one of these. For these
entries u ≥ a − v and w ≥ b + v. So no exponential exceeds 2², even if there are larger entries. No shift exceeds 2.5 ·
2²⁰, where float32 has steps of a quarter. An exponential below 2^`_LEAST_EXPONENT` counts as 0. Then no product is
subnormal, and the caller's floating-point state does not matter.

Sums that are too small beside such zeros are computed again: in float32 from separate exponents and mantissas
(`_add_products`), in float64 line by line (`log_lines`). Rows and columns with entries above `HIGH` are computed line
by line too. If exactly one path exists, c is exactly its ⊗. Bits that mark the entries of B other than -∞ distinguish
these cases.

One loop, `multiply_rows`, computes some rows of C from exponentials of B in panels. `_multiply_all` calls it for small
matrices, alone or in stacks, within the second-level cache. Threads that share a large B (`RightOperand`) call it for
blocks of rows. `log_walks` calls it for every step.

A row of the result depends only on that row of A and on B. So it depends neither on a cut of A by rows nor on threads.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from semiring.algebra.catalogue import adds_exponentials, max_plus
from semiring.kernels.contract import Array, Backend, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner
from semiring.kernels.cpu.codegen.memory_intrinsics import (
    address,
    assume_no_nan,
    bits_of,
    is_single,
    number_of,
    scale_by_power,
    trailing_zeros,
    use_wide_vectors,
)
from semiring.kernels.cpu.product import log_lines
from semiring.kernels.cpu.product.log_lines import (
    FRACTION,
    HIGH,
    LOG2_E,
    LOW,
    ONE,
    exponential,
    inline,
    kernel,
    logarithm,
)
from semiring.kernels.cpu.product.panels import PAD, PackedPanels, add_steps, tile_for
from semiring.kernels.cpu.product.panels import multiply as multiply_numbers
from semiring.kernels.cpu.thread_pool import run_on_ranges
from semiring.progress import in_parts

#: Exponentials below 2^_LEAST_EXPONENT count as 0, so that products of two exponentials stay normal numbers.
_LEAST_EXPONENT = -510
FEWEST = 8  # rows of B: fewer are added pair by pair, each with a rounding of at most half a unit
_BLOCK = 1024  # rows and columns of C at a time
#: Entries of B whose exponentials are in memory: 64 MiB, or `_FIRST_COLUMNS` columns if these have more entries.
_PACKED_ENTRIES = 1 << 23
_FIRST_COLUMNS = 256  # columns of C that show which rows underflow, if C is wider than a block
_DEPTH = 64  # steps of k that are added up at a time in float64: the rounding of such short sums stays small
_SPARE_BITS = {"f": 26, "d": 54}  # bits by which a sum must exceed all terms that count as 0
_ROWS = 64  # rows that are computed together: more would not stay in the second-level cache
_MAX_ENTRIES = 1 << 21  # the most entries of these rows: 16 MiB
_MAX_SMALL_ENTRIES = 3 << 13  # entries of a small matrix: five such matrices in float64 are in the second-level cache
_MIN_THREAD_PAIRS = 1 << 20  # pairs of the least work of a thread: 50 µs
_WIDE = np.dtype(np.float64)
_COPIED_ENTRIES = 1 << 21  # entries that are copied at a time if rows are not adjacent
_NO_BITS = np.empty((0, 0), np.uint64)
_STRIP = 512  # rows whose sums are computed again together
_COLUMNS, _RUN = 64, 64  # columns and rows of a right operand that stay in the first-level cache with their exponents
_PANEL_COLUMNS = np.uint64(_COLUMNS)  # unsigned, so that Numba need not test for negative indices
_KEPT_BITS = 50  # terms below 2^-50 of the greatest may be omitted: even 2²⁴ of them are negligible in float32
_MAGIC = float(3 << 22)  # n + this holds n, a whole number below 2²², in its last bits
_LEAST_MAGIC = np.float32(_MAGIC - _KEPT_BITS)  # `_MAGIC` + the exponent of the least term that counts
_FAINT = np.float32(_MAGIC - 125)  # `_MAGIC` + the least exponent, so that terms are normal numbers in float32
_LEAST_SUM = (LOW + HIGH) * LOG2_E + 200  # a logarithm to base 2: omitted terms are 2^-180 below such a sum
_SKIPPED = 2.0**40  # the exponent of a row that is skipped: its exponentials are 0
_NO_EXPONENT = np.float32(-4e6)  # the sentinel for the exponent of exp -∞


@inline
def _shift_exponential(x, shift, single):
    """Return eˣ · 2^−shift, or 0 if that is too small, or if x is not within `LOW` and `HIGH`."""
    x = np.float64(x)
    in_range = (x >= LOW) & (x <= HIGH)
    n, y = exponential(x if in_range else 0.0, single)
    n -= shift
    value = number_of(bits_of(y) + (np.int64(n) << 52))
    return value if in_range & (n >= _LEAST_EXPONENT) else 0.0


@kernel
def _scale(X, rows, columns, out):
    """Write eˣ · 2^−(rows + columns) to ``out``, for X (m, n), rows (m,) and columns (n,)."""
    use_wide_vectors()
    for i in range(X.shape[0]):
        row, out_row, shift = X[i], out[i], rows[i]
        for j in range(row.size):
            out_row[j] = _shift_exponential(row[j], shift + columns[j], is_single(X))


@kernel
def _scale_packed(B, rows, columns, packed, start, stop):
    """Write eˣ · 2^(rows − columns) to ``packed`` (panels, k, width) for B (k, n), in panels start … stop - 1.

    Columns beyond n are zero.
    """
    use_wide_vectors()
    width = packed.shape[2]
    for p in range(start, stop):
        shifts = columns[p * width : (p + 1) * width]
        for k in range(B.shape[0]):
            row, place, shift = B[k, p * width : (p + 1) * width], packed[p, k], -rows[k]
            for j in range(row.size):
                place[j] = _shift_exponential(row[j], shift + shifts[j], is_single(B))


@kernel
def _finish_logarithms(S, rows, columns, C, accumulate, tiny, least_logarithm, is_lost):
    """Compute C ← [C ⊕] log(S · 2^(rows + columns)).

    ``is_lost`` becomes 1 for entries without a result. For these S is below ``tiny``, the logarithm to base 2 is below
    ``least_logarithm``, or C is out of range. C then stays, or becomes -∞ without ``accumulate``.
    """
    use_wide_vectors()
    for i in range(C.shape[0]):
        shift = rows[i]
        for j in range(C.shape[1]):
            s = S[i, j]
            small = not (s >= tiny)
            s = 1.0 if small else s
            bits = bits_of(s)
            n = np.float64((bits >> 52) - 1023) + (shift + columns[j])
            bad = small | (n < least_logarithm)
            y = number_of((bits & FRACTION) | ONE)
            if accumulate:
                c = np.float64(C[i, j])
                in_range = (c >= LOW) & (c <= HIGH)
                bad |= not (in_range | (c == -np.inf))
                d, x = exponential(c if in_range else 0.0, is_single(C))
                x = x if in_range else 0.0
                d = d if in_range else n
                difference = n - d
                is_larger = difference >= 0
                distance = min(abs(difference), 1000.0)
                power = number_of((1023 - np.int64(distance)) << 52)
                y = y + x * power if is_larger else y * power + x
                n = n if is_larger else d
                value = logarithm(y, n, is_single(C))
                C[i, j] = c if bad else value
            else:
                value = logarithm(y, n, is_single(C))
                C[i, j] = -np.inf if bad else value
            is_lost[i, j] = bad


@kernel
def _split_exponentials(X, y, n):
    """Split X = log(y · 2ⁿ) for X (m, n) within `LOW` and `HIGH`, or -∞, for which n is `_NO_EXPONENT`, and y is 1."""
    use_wide_vectors()
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            in_range = x >= LOW
            exponent, mantissa = exponential(x if in_range else 0.0, True)
            y[i, j] = mantissa
            n[i, j] = exponent if in_range else _NO_EXPONENT


@kernel
def _add_products(x, m, y, n, least_exponents, S, start, stop):
    """Compute S ← Σₖ x · y · 2^(m + n − least_exponents − 50) in rows start … stop - 1, without special functions.

    x and m are (rows, k), k a multiple of 8. y and n are (panels, k, 64). ``least_exponents`` and S are (panels, rows,
    64). S is float64, all other arrays are float32. Terms of exponents below ``least_exponents`` may be omitted. If all
    terms of a row of 64 are omitted, each takes only an addition and a comparison. Eight terms are added in float32,
    and these sums in float64.
    """
    use_wide_vectors()
    room = np.zeros(2 * _COLUMNS, np.float32)
    T = room[(-address(room) & 63) >> 2 :][:_COLUMNS]
    for p in range(y.shape[0]):
        for first in range(0, x.shape[1], _RUN):
            for i in range(start, stop):
                for group in range(first, min(x.shape[1], first + _RUN), 8):
                    has_terms = False
                    for step in range(8):
                        k = np.uint64(group) + np.uint64(step)
                        exponent, has_term = m[i, k], False
                        for j in range(_PANEL_COLUMNS):
                            has_term |= exponent + n[p, k, j] > least_exponents[p, i, j]
                        if has_term:
                            has_terms = True
                            for j in range(_PANEL_COLUMNS):
                                d = ((exponent + n[p, k, j]) - least_exponents[p, i, j]) + _LEAST_MAGIC
                                T[j] += x[i, k] * scale_by_power(y[p, k, j], d if d > _FAINT else _FAINT)
                    if has_terms:
                        for j in range(_PANEL_COLUMNS):
                            S[p, i, j] += T[j]
                            T[j] = 0


@kernel
def _write_logarithms(S, least_exponents, out, start, stop):
    """Write the logarithms of the sums of `_add_products` to ``out`` (rows, columns), in rows start … stop - 1."""
    use_wide_vectors()
    for i in range(start, stop):
        for first in range(0, out.shape[1], _COLUMNS):
            sums, exponents = S[first // _COLUMNS, i], least_exponents[first // _COLUMNS, i]
            results = out[i, first : first + _COLUMNS]
            for j in range(results.size):
                s = sums[j]
                value = logarithm(s if s > 0 else 1.0, np.float64(exponents[j]) + _KEPT_BITS, True)
                results[j] = value if s > 0 else -np.inf


@kernel
def _write_single_paths(A, bits, B, high_marks, result, C, is_lost, accumulate):
    """Write [C ⊕] the only path, or "no path", to the entries of the result with at most one path; clear ``is_lost``.

    A is (m, k), B (k, n). C, result and ``is_lost`` are (m, n) or larger. ``bits`` (k, words) mark the entries of B
    that are not -∞. Rows with ``high_marks`` (m,) above 1 are skipped.
    """
    inner, words, width = A.shape[1], bits.shape[1], B.shape[1]
    once, more, first = np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(width, B.dtype)
    for i in range(A.shape[0]):
        if high_marks[i] > 1:
            continue
        once[:], more[:] = 0, 0
        first[:] = -np.inf
        for k in range(inner):
            a = A[i, k]
            if a > -np.inf:
                for w in range(words):
                    word = bits[k, w]
                    new = word & ~once[w]
                    more[w] |= word & once[w]
                    once[w] |= word
                    while new:
                        j = (w << 6) + trailing_zeros(new)
                        first[j] = a + B[k, j]
                        new &= new - np.uint64(1)
        for j in range(width):
            if not more[j >> 6] >> np.uint64(j & 63) & np.uint64(1):
                value = first[j]
                if accumulate:
                    c = C[i, j]
                    high, low = np.float64(max(c, value)), np.float64(min(c, value))
                    value = high + np.log1p(np.exp(low - high)) if low > -np.inf else high
                result[i, j] = value
                is_lost[i, j] = False


@kernel
def _add_sums(S, T, left, step):
    """Add T to the columns of S from ``left`` on, or copy it if ``step`` is 0."""
    use_wide_vectors()
    for i in range(S.shape[0]):
        sums, more = S[i, left : left + T.shape[1]], T[i]
        for j in range(more.size):
            sums[j] = more[j] + (sums[j] if step else 0.0)


@kernel
def copy_row(row, target):
    """Copy the first entries of a row to ``target``, as many as it has."""
    use_wide_vectors()
    for j in range(target.size):
        target[j] = row[j]


@inline
def multiply_rows(
    tile, B, v, w, packed, bits, X, S, y, is_lost, x, u, high_marks, C, accumulate, has_few, tiny, least_logarithm
):
    """Compute y ← [C ⊕] x ⊗ B for x (m, k) of exponents u.

    ``is_lost`` becomes 1 for entries of y without a result. B (k, n) has the exponents v and w, its exponentials in
    panels at the address ``packed``, and ``bits``. ``has_few``: whether a row and a column may meet in at most one
    path; only then the bits are read. ``high_marks`` are the second marks of the rows. X and S are workspace for the
    exponentials of x and the sums. S, y and ``is_lost`` are as wide as all panels. Results have a sum of at least
    ``tiny`` and a logarithm to base 2 of at least ``least_logarithm``.
    """
    inner, lost = x.shape[1], 0
    while lost < u.size and u[lost] == _SKIPPED:
        lost += 1
    _scale(x, u, v, X)
    if lost == u.size:
        S[:] = 0
    elif is_single(x) or inner <= _DEPTH:
        multiply_numbers(tile, X, packed, S)
    else:
        T = np.empty((S.shape[0], tile[2]))
        for column in range(0, S.shape[1], tile[2]):
            for first in range(0, inner, _DEPTH):
                add_steps(tile, X, packed + column * inner * 8, T, first, min(_DEPTH, inner - first), 0)
                _add_sums(S, T, column, first)
    if accumulate:
        for i in range(x.shape[0]):
            copy_row(C[i], y[i, : B.shape[1]])
    _finish_logarithms(S, u, w, y, accumulate, tiny, least_logarithm, is_lost)
    if has_few:
        _write_single_paths(x, bits, B, high_marks, y, C, is_lost, accumulate)


@kernel
def _multiply_block(tile, B, right, workspace, x, u, high_marks, C, accumulate, has_few, tiny, least_logarithm):
    """Call `multiply_rows` from Python."""
    multiply_rows(tile, B, *right, *workspace, x, u, high_marks, C, accumulate, has_few, tiny, least_logarithm)


# -------------------------------------------------------------------------------------------------- surveys of operands


@inline
def _is_within(x):
    return (x >= LOW) & (x <= HIGH)


@kernel
def _compute_exponents(top, exponents):
    """Compute the exponents of the greatest entries, and set each entry that is -∞ to 0."""
    use_wide_vectors()
    for j in range(top.size):
        top[j] = top[j] if top[j] > -np.inf else 0
        exponents[j] = np.rint(np.float64(top[j]) * LOG2_E)


@inner
def _survey_row(row):
    """Return both marks of a row, as in `survey_rows`."""
    use_wide_vectors()
    assume_no_nan()
    count, flags = np.int32(0), np.int32(0)
    for j in range(row.size):
        x = row[j]
        count += np.int32(x > -np.inf)
        flags |= np.int32((x < LOW) & (x > -np.inf)) | np.int32(x > HIGH) << np.int32(1)
    return count, flags


@inner
def _greatest_within(row, offset):
    greatest = offset.dtype.type(-np.inf)
    for j in range(row.size):
        if _is_within(row[j]):
            greatest = max(greatest, row[j] - offset[j])
    return greatest


@inner
def _mark_rows(X, offset, top, marks, start, stop):
    """Compute the marks of the rows that have an entry outside `LOW` … `HIGH`, and the greatest entry within."""
    for i in range(start, stop):
        if marks[1, i]:
            marks[0, i], marks[1, i] = _survey_row(X[i])
            top[i] = _greatest_within(X[i], offset) if marks[1, i] else top[i]


@kernel
def survey_rows(X, offset, top, exponents, marks, start, stop):
    """Find the greatest x - offset of rows start … stop - 1 of X (m, n), and its exponents.

    Entries outside `LOW` … `HIGH` do not count. ``top`` is 0 if no entry is within. The first of the ``marks`` (2, m)
    counts the entries of a row that are not -∞. Bit 0 of the second mark is 1 if a finite entry is below `LOW`,
    and bit 1 is 1 if an entry is above `HIGH`.
    """
    use_wide_vectors()
    assume_no_nan()
    all_flags = np.int32(0)
    for i in range(start, stop):
        row, greatest, flag = X[i], X[i, 0] - offset[0], np.int32(0)
        for j in range(row.size):
            x = row[j]
            t = x - offset[j]
            greatest = t if t > greatest else greatest
            flag |= np.int32(x < LOW) | np.int32(x > HIGH)
        top[i], marks[0, i], marks[1, i] = greatest, row.size, flag
        all_flags |= flag
    if all_flags:
        _mark_rows(X, offset, top, marks, start, stop)
    _compute_exponents(top[start:stop], exponents[start:stop])


@kernel
def _survey_columns(X, offset, top, marks):
    """Find the greatest x - offset of all columns, and their marks. Entries outside `LOW` … `HIGH` count here."""
    use_wide_vectors()
    count, flags = marks[0], marks[1]
    top[:], count[:], flags[:] = -np.inf, 0, 0
    for i in range(X.shape[0]):
        row, shift = X[i], offset[i]
        for j in range(row.size):
            x = row[j]
            t = x - shift
            top[j] = t if t > top[j] else top[j]
            count[j] += np.int32(x > -np.inf)
            flags[j] |= np.int32((x < LOW) & (x > -np.inf)) | np.int32(x > HIGH) << np.int32(1)


@kernel
def _greatest_of_columns(X, top):
    use_wide_vectors()
    top[:] = -np.inf
    for i in range(X.shape[0]):
        row = X[i]
        for j in range(row.size):
            top[j] = row[j] if row[j] > top[j] else top[j]


@kernel
def _greatest_of_rows(X, offset, top):
    use_wide_vectors()
    assume_no_nan()
    for i in range(X.shape[0]):
        row, greatest = X[i], X[i, 0] - offset[0]
        for j in range(row.size):
            t = row[j] - offset[j]
            greatest = t if t > greatest else greatest
        top[i] = greatest


@kernel
def _compute_shifts(B, offset, v, top, w, marks):
    """Compute the results of `_survey_right` for a B without entries outside `LOW` … `HIGH`."""
    _greatest_of_columns(B, top)
    _compute_exponents(top, w)
    _greatest_of_rows(B, top, offset)
    _compute_exponents(offset, v)
    _survey_columns(B, offset, top, marks)
    _compute_exponents(top, w)
    for k in range(offset.size):
        offset[k], v[k] = -offset[k], -v[k]


@kernel
def _survey_right(B, offset, v, top, w, marks):
    """Compute the exponents v of the rows and w of the columns of B (k, n), and the ``offset`` (k,) of rows of A.

    ``marks`` (2, n) are the marks of the columns, as in `survey_rows`.
    """
    _compute_shifts(B, offset, v, top, w, marks)
    all_flags = np.int32(0)
    for j in range(top.size):
        all_flags |= marks[1, j]
    if all_flags:  # the greatest entry may be outside `LOW` … `HIGH`
        within = np.empty(B.shape, B.dtype)
        for k in range(B.shape[0]):
            for j in range(top.size):
                within[k, j] = B[k, j] if _is_within(B[k, j]) else -np.inf
        _compute_shifts(within, offset, v, top, w, np.empty_like(marks))


@kernel
def _mark_bits(B, bits):
    """Set the bits (k, words) of the entries of B (k, n) that are not -∞."""
    bits[:] = 0
    for k in range(B.shape[0]):
        row, words = B[k], bits[k]
        for j in range(row.size):
            words[j >> 6] |= np.uint64(row[j] > -np.inf) << np.uint64(j & 63)


def run_on_threads(threads: int, loop: Any, arguments: tuple[Any, ...], rows: int, size: int) -> None:
    """Run a compiled loop over rows, in pieces on threads if the size pays for them."""
    if threads == 1 or size < 1 << 15:
        loop(*arguments, 0, rows)
        return
    step = -(-rows // (4 * threads))
    run_on_ranges(lambda start, stop: loop(*arguments, start, stop), rows, step, threads)


# ------------------------------------------------------------------------------------------------------------ products


def can_multiply(plan: KernelPlan, k: int) -> bool:
    """Return whether `multiply` supports products by B (k, n), for every n, so that a cut of B changes no bit."""
    return (
        plan.storage == "elements"
        and plan.dtype.char in _SPARE_BITS
        and k >= FEWEST
        and plan.zero == -np.inf
        and adds_exponentials(plan.semiring)
    )


def tiny_sum(plan: KernelPlan, k: int) -> float:
    """Return a bound of shifted sums of k terms: beside larger sums, all terms that count as 0 are negligible."""
    return 2.0 ** (_LEAST_EXPONENT + 3 + _SPARE_BITS[plan.dtype.char]) * k


@kernel
def _multiply_all(tile, C, A, B, accumulate, tiny, has_failed):
    """Compute C ← [C ⊕] A ⊗ B of stacks (b, m, n), (b, m, k) and (b, k, n).

    ``has_failed`` becomes 1 for the matrices that `multiply_by` must compute. ``tile`` holds its address, rows and
    columns, for `panels.multiply`.
    """
    (m, n), k, (_, rows, width) = C.shape[1:], A.shape[2], tile
    whole, panels = -(-m // rows) * rows, -(-n // width)
    columns, size = panels * width, panels * k * width
    room = np.zeros(size + 8)
    packed = room[(-address(room) & 63) >> 3 :][:size].reshape((panels, k, width))
    place = address(packed)
    X, S = np.empty((whole, k + PAD)), np.empty((whole, columns))
    X[m:] = 0
    y, is_lost = np.empty((m, columns), C.dtype), np.empty((m, columns), np.bool_)
    by_row, offset, top = np.empty(m, A.dtype), np.empty(k, A.dtype), np.empty(n, A.dtype)
    u, v, w = np.empty(m), np.empty(k), np.zeros(columns)
    left_marks, marks = np.empty((2, m), np.int32), np.empty((2, n), np.int32)
    bits = np.empty((k, (n + 63) >> 6), np.uint64)
    operand, workspace = (v, w, place, bits), (X, S, y, is_lost)
    for b in range(C.shape[0]):
        a, right, c = A[b], B[b], C[b]
        _survey_right(right, offset, v, top, w[:n], marks)
        survey_rows(a, offset, by_row, u, left_marks, 0, m)
        all_flags = np.int32(0)
        for i in range(m):
            all_flags |= left_marks[1, i]
        for j in range(n):
            all_flags |= marks[1, j]
        if all_flags > 1:
            has_failed[b] = 1
            continue
        _scale_packed(right, v, w, packed, 0, panels)
        has_few = left_marks[0].min() + marks[0].min() < k + 2
        if has_few:
            _mark_bits(right, bits)
        least_logarithm = _LEAST_SUM if all_flags else -np.inf
        left = a, u, left_marks[1]
        multiply_rows(tile, right, *operand, *workspace, *left, c, accumulate, has_few, tiny, least_logarithm)
        lost = np.uint8(0)  # LLVM vectorizes loops over these, but not over truth values
        for i in range(m):
            flags = is_lost[i]
            for j in range(n):
                lost |= np.uint8(flags[j])
        has_failed[b] = lost > 0
        if not lost:
            for i in range(m):
                copy_row(y[i], c[i])


def multiply(backend: Backend, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> None:
    """Compute C ← [C ⊕] A ⊗ B for stacks C (b, m, n), A (b, m, k) and B (b, k, n), no size 0.

    C may be B if m = k. Each thread multiplies some of the small matrices, one after the other, within the second-level
    cache. `multiply_by` multiplies large matrices, and matrices in which a sum underflows or an entry is out of range.
    """
    (count, m, n), k = C.shape, A.shape[2]
    if max(m * k, k * n, m * n) > _MAX_SMALL_ENTRIES:
        rest = np.arange(count)
    else:
        is_open, tiny, tile = np.zeros(count, np.bool_), tiny_sum(plan, k), tile_for(_WIDE, n)

        def multiply_part(start: int, stop: int) -> None:
            part = C[start:stop]
            c, a, b = (np.ascontiguousarray(X) for X in (part, A[start:stop], B[start:stop]))
            _multiply_all(tile, c, a, b, accumulate, tiny, is_open[start:stop])
            if c is not part:
                part[...] = c

        # Tasks are large enough to pay for a thread, four for each thread, and their operands may be copied.
        step = max(
            -(-_MIN_THREAD_PAIRS // (m * k * n)),
            min(-(-count // (4 * plan.threads)), _COPIED_ENTRIES // (m * k + k * n + m * n)),
        )
        run_on_ranges(multiply_part, count, step, plan.threads)
        rest = is_open.nonzero()[0]
    for b in rest:
        multiply_by(backend, plan, C[b], A[b], RightOperand(B[b], plan.threads), accumulate, in_place=C is B)


class RightOperand:
    """A right operand B (k, n) with its shifts and marks, which do not depend on A.

    With ``keeps_blocks`` the exponentials stay in memory for all products by B, 8 bytes for each entry.
    """

    def __init__(self, B: Array, threads: int, *, keeps_blocks: bool = False) -> None:
        k, n = B.shape
        self.B, self.threads = B, threads
        self.offset, self.v, self.w, top = np.empty(k, B.dtype), np.empty(k), np.empty(n), np.empty(n, B.dtype)
        marks = np.empty((2, n), np.int32)
        _survey_right(B, self.offset, self.v, top, self.w, marks)
        self.paths, flags = marks
        all_flags = int(np.bitwise_or.reduce(flags))
        self.has_low_entries = bool(all_flags & 1)  # whether a finite entry is below `LOW`
        self.high_columns = (
            flags > 1 if all_flags > 1 else None
        )  # a mask of columns with an entry above `HIGH`, or None
        self.cached_blocks: dict[int, RightBlock] | None = {} if keeps_blocks else None

    def block(self, start: int, stop: int, *, copies: bool = False) -> RightBlock:
        """Return some columns of B with their exponentials, from memory if they are stored."""
        block = None if self.cached_blocks is None else self.cached_blocks.get(start)
        if block is None:
            block = RightBlock(self, start, stop, copies)
            if self.cached_blocks is not None:
                self.cached_blocks[start] = block
        return block


class RightBlock:
    """Columns of a `RightOperand` and their exponentials in panels, for `multiply_rows`."""

    def __init__(self, right: RightOperand, start: int, stop: int, copies: bool = False) -> None:
        B = right.B[:, start:stop]
        self.B = np.array(B, order="C") if copies else np.ascontiguousarray(B)
        self.right, self.n, self.fewest = right, stop - start, int(right.paths[start:stop].min())
        self.panels = PackedPanels(len(self.B), self.n, _WIDE)
        self.w = np.zeros(self.panels.columns)
        self.w[: self.n] = right.w[start:stop]
        packed = self.panels.packed
        run_on_threads(right.threads, _scale_packed, (self.B, right.v, self.w, packed), packed.shape[0], packed.size)

    @cached_property
    def bits(self) -> Array:
        """The bits of the entries that are not -∞, in words of 64 along the rows."""
        bits = np.empty((self.B.shape[0], -(-self.n // 64)), np.uint64)
        _mark_bits(self.B, bits)
        return bits

    def has_few(self, fewest: int) -> bool:
        """Return whether a row with ``fewest`` entries may meet a column in at most one path."""
        return fewest + self.fewest < len(self.B) + 2

    def kernel_operands(self, has_few: bool) -> tuple[Any, ...]:
        """Return v, w, the address of the panels and the bits, for `multiply_rows`."""
        return self.right.v, self.w, self.panels.address, self.bits if has_few else _NO_BITS

    def workspace(self, m: int) -> tuple[Array, ...]:
        """Return X, S, y and ``is_lost`` for m rows, for `multiply_rows`."""
        X, S = self.panels.allocate_operands(m)
        shape = m, S.shape[1]
        return X, S, np.empty(shape, self.B.dtype), np.empty(shape, np.bool_)


def multiply_by(
    backend: Backend,
    plan: KernelPlan,
    C: Array,
    A: Array,
    right: RightOperand,
    accumulate: int = 0,
    in_place: bool = False,
) -> None:
    """Compute C ← [C ⊕] A ⊗ B for C (m, n) and A (m, k), no size 0.

    Workspace: 12 bytes for each entry of 1024 columns of B, and of 64 rows of A on each thread. If the columns have
    over 2²³ entries there are fewer, but at least 256. The workspace for C is 5 bytes for each entry of 1024 × 1024 of
    it.
    """
    with np.errstate(all="ignore"):
        _LogProduct(backend, plan, A, right).write(C, accumulate, in_place)


class _LogProduct:
    """A product by a `RightOperand`, with the shifts and the marks of the rows of its left operand."""

    def __init__(self, backend: Backend, plan: KernelPlan, A: Array, right: RightOperand) -> None:
        self.backend, self.plan, self.A, self.right, m = backend, plan, A, right, A.shape[0]
        self.u, self.marks, self.skipped_rows = np.empty(m), np.empty((2, m), np.int32), np.zeros(m, np.bool_)
        surveyed = A, right.offset, np.empty(m, A.dtype), self.u, self.marks
        run_on_threads(plan.threads, survey_rows, surveyed, m, A.size)
        all_flags = int(np.bitwise_or.reduce(self.marks[1]))
        self.high_rows = self.marks[1] > 1 if all_flags > 1 else None
        dropped = right.has_low_entries or bool(all_flags & 1)
        self.limits = tiny_sum(plan, A.shape[1]), _LEAST_SUM if dropped else -np.inf
        self.splits_exponents = plan.dtype.char == "f" and not dropped

    def write(self, C: Array, accumulate: int, in_place: bool) -> None:
        """Compute C ← [C ⊕] A ⊗ B. Skip columns of rows whose first columns mostly underflow."""
        m, n = C.shape
        width = max(_FIRST_COLUMNS, min(_BLOCK, _PACKED_ENTRIES // self.A.shape[1]))
        cuts = [0, n] if n <= width else [0, *range(_FIRST_COLUMNS, n, width), n]
        for first, stop in in_parts([*pairwise(cuts)]):
            right_block = self.right.block(first, stop, copies=in_place)
            for top in in_parts(range(0, m, _BLOCK)):
                rows = slice(top, min(m, top + _BLOCK))
                is_lost = self._write_block(C[rows, first:stop], rows, right_block, first, accumulate)
                if first == 0 and stop < n:
                    self.skipped_rows[rows] = is_lost.mean(1) > 0.5

    def _write_block(self, C: Array, rows: slice, right_block: RightBlock, left: int, accumulate: int) -> Array:
        """Write the rows ``rows`` of C, of the columns of ``right_block``, which begin at column ``left``.

        Return a mask of the entries that were computed pair by pair.
        """
        A, B, result, is_lost = self.A[rows], right_block.B, np.empty(C.shape, C.dtype), np.empty(C.shape, np.bool_)
        u, marks, threads = self.u[rows], self.marks[:, rows], self.plan.threads
        if left:
            u[self.skipped_rows[rows]] = _SKIPPED
        has_few, tile, high = right_block.has_few(int(marks[0].min())), right_block.panels.tile, right_block.panels.rows
        right = right_block.kernel_operands(has_few)
        pieces = 4 * threads if threads > 1 and C.size >= 1 << 15 else 1
        share = -(-C.shape[0] // (pieces * high)) * high
        step = max(high, min(share, _ROWS, _MAX_ENTRIES // A.shape[1] // high * high))

        def multiply_part(start: int, stop: int) -> None:
            X, S, y, flags = right_block.workspace(min(step, stop - start))
            for first in range(start, stop, step):
                part = slice(first, min(stop, first + step))
                m = part.stop - first
                x, c = (np.ascontiguousarray(Z[part]) for Z in (A, C if accumulate else result))
                workspace = X, S, y[:m], flags[:m]
                operands = x, u[part], marks[1, part], c, accumulate, has_few, *self.limits
                _multiply_block(tile, B, right, workspace, *operands)
                result[part], is_lost[part] = y[:m, : right_block.n], flags[:m, : right_block.n]

        run_on_ranges(multiply_part, C.shape[0], share, threads, unit=high)
        rest = is_lost
        if self.high_rows is not None:
            lines = self.high_rows[rows]
            rest, is_lost = rest & ~lines[:, None], is_lost | lines[:, None]
            self._compute_lines(accumulate, lines, result, C, A, B)
        if self.right.high_columns is not None:
            lines = self.right.high_columns[left : left + right_block.n]
            rest, is_lost = rest & ~lines, is_lost | lines
            self._compute_lines(accumulate, lines, *(X.T for X in (result, C, B, A)))
        if rest.any():
            self._compute_again(result, rest, C, A, B, accumulate)
        C[...] = result
        return is_lost

    def _compute_lines(self, accumulate: int, lines: Array, result: Array, C: Array, A: Array, B: Array) -> None:
        """Compute the rows of the result that ``lines`` (m,) marks, pair by pair."""
        if lines.any():
            result[lines] = self._compute_pair_by_pair(C[lines], A[lines], B, None, accumulate)

    def _compute_again(self, result: Array, is_lost: Array, C: Array, A: Array, B: Array, accumulate: int) -> None:
        """Compute the marked entries pair by pair, for the rows of a strip and the columns with marks in them."""
        all_exponents: _Exponents | None = None
        for top in range(0, is_lost.shape[0], _STRIP):
            strip = slice(top, top + _STRIP)
            rows, columns = is_lost[strip].any(1), is_lost[strip].any(0)
            if 2 * np.count_nonzero(rows) * np.count_nonzero(columns) > is_lost[strip].size:
                if self.splits_exponents and all_exponents is None:
                    all_exponents = _Exponents(B)
                values = self._compute_pair_by_pair(C[strip], A[strip], B, all_exponents, accumulate)
                np.copyto(result[strip], values, where=is_lost[strip])
            elif rows.any():
                place = np.ix_(np.flatnonzero(rows) + top, np.flatnonzero(columns))
                right = B[:, columns]
                exponents = _Exponents(right) if self.splits_exponents else None
                values = self._compute_pair_by_pair(C[place], A[strip][rows], right, exponents, accumulate)
                result[place] = np.where(is_lost[place], values, result[place])

    def _compute_pair_by_pair(self, C: Array, A: Array, B: Array, right: _Exponents | None, accumulate: int) -> Array:
        """Return [C ⊕] A ⊗ B, by exponents and mantissas apart if ``right`` holds those of B, else line by line."""
        if right is None:
            value = log_lines.multiply(A, B, self.plan.threads)
            return np.logaddexp(C, value, dtype=np.float64) if accumulate else value
        rows, inner, panels = A.shape[0], right.n.shape[0], right.panels[0].shape[0]
        x, m = _split_matrix(_pad_matrix(A, rows, inner))
        least = np.empty((rows, panels * _COLUMNS), np.float32)
        zero, one = np.float32(-np.inf), np.float32(0)
        maxima = KernelPlan(max_plus, least.dtype, zero, one, threads=self.plan.threads)
        self.backend.multiply(maxima, least, m, right.n)
        least -= _KEPT_BITS
        least, S, value = _arrange_in_panels(least), np.zeros((panels, rows, _COLUMNS)), np.empty(C.shape)
        run_on_threads(self.plan.threads, _add_products, (x, m, *right.panels, least, S), rows, S.size * inner)
        run_on_threads(self.plan.threads, _write_logarithms, (S, least, value), rows, S.size)
        return np.logaddexp(C, value, dtype=np.float64) if accumulate else value


class _Exponents:
    """The exponents and mantissas of a right operand, for `_add_products`."""

    def __init__(self, B: Array) -> None:
        y, self.n = _split_matrix(_pad_matrix(B, -(-B.shape[0] // 8) * 8, -(-B.shape[1] // _COLUMNS) * _COLUMNS))
        self.panels = _arrange_in_panels(y), _arrange_in_panels(self.n)


def _split_matrix(X: Array) -> tuple[Array, Array]:
    """Return the mantissas and exponents of X."""
    y, n = np.empty(X.shape, np.float32), np.empty(X.shape, np.float32)
    _split_exponentials(X, y, n)
    return y, n


def _pad_matrix(X: Array, rows: int, columns: int) -> Array:
    """Return X with -∞ beyond its rows and columns, in C order."""
    if X.shape == (rows, columns):
        return np.ascontiguousarray(X)
    result = np.full((rows, columns), -np.inf, X.dtype)
    result[: X.shape[0], : X.shape[1]] = X
    return result


def _arrange_in_panels(X: Array) -> Array:
    """Return X (rows, columns) as (panels, rows, 64), aligned to cache lines.

    A load across the border of two cache lines would take twice as long.
    """
    panels = X.reshape(X.shape[0], -1, _COLUMNS).swapaxes(0, 1)
    room = np.empty(X.size + 16, np.float32)
    result = room[-room.ctypes.data % 64 // 4 :][: X.size].reshape(panels.shape)
    result[...] = panels
    return result
