"""Products of a matrix and a vector in log_plus: c = log Σₖ exp(m + x), each exponential computed once.

Exponentials are not shared, unlike in a product of matrices (`log_sums`). They and the reading of the matrix are the
whole cost. In float32 a line is read once (`codegen.exponential_sums`). Its sum is relative to the power of two near
one of its first terms, and is computed again if that is far from the greatest term. Lines of entries of moderate size,
times a vector of such entries, are added up by fewer instructions, as plain terms. Lines with entries that are not
finite, or too large, are computed by the loops for float64 (`log_lines`). If a single path exists, the result is
exactly its m + x. A line with a NaN becomes NaN, and so do all lines if the vector has a NaN. So the operands need no
scan for NaN.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import adds_exponentials
from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.exponential_sums import (
    CHAIN,
    EXCESS,
    FLOATS,
    MAGIC,
    PLAIN,
    RANGE,
    plain_terms,
    terms_across,
    terms_along,
)
from semiring.kernels.cpu.codegen.jit import inner
from semiring.kernels.cpu.codegen.memory_intrinsics import address, assume_no_nan, number_of, use_wide_vectors
from semiring.kernels.cpu.product.log_lines import (
    LINES,
    LOG2_E,
    add_lines,
    exponential,
    inline,
    kernel,
    logarithm,
    run_on_lines,
)
from semiring.kernels.cpu.product.log_products import FEWEST

_LN2 = 0.6931471805599453
_LARGE = RANGE / 4  # in float32, larger entries of a vector, and exponents above twice that, are computed in float64
_SHIFT = np.float32(2 * _LARGE)
_BELOW, _ABOVE = -40, 90  # how far the greatest exponent of a sum may be below and above the reference of the sum
_SINGLE_TERM = 1.01  # a logarithm to base 2 exceeds the greatest exponent by more than this only for several terms
_MODERATE = 4096.0  # entries of a vector whose terms may be plain
_REFERENCE_ROWS = 8  # rows whose greatest exponents are the first references of the sums of columns


@inline
def _clamp_exponent(n):
    return min(max(n, np.float32(MAGIC) - _SHIFT), np.float32(MAGIC) + _SHIFT)


@inline
def _is_far(top, reference):
    """Return whether a sum relative to ``reference`` must be computed again, relative to ``top``."""
    d = top - reference
    return (top == _clamp_exponent(top)) & ((d < _BELOW) | (d > _ABOVE))


@kernel
def _shift_exponents(w, shift, v):
    """Write w minus a whole number to v."""
    use_wide_vectors()
    for k in range(v.size):
        v[k] = w[k] - shift


@kernel
def _update_references(top, references):
    """Set the references of sums that must be computed again to the greatest exponents, and return whether any is."""
    use_wide_vectors()
    flag = np.int32(0)
    for j in range(top.size):
        far = _is_far(top[j], references[j])
        references[j] = np.rint(top[j]) if far else references[j]
        flag |= np.int32(far)
    return flag > 0


@kernel
def _write_logarithms(total, top, reference, floor, middle, values, single_terms):
    """Write the logarithms of sums, or NaN if float64 must compute them, and mark the sums of at most one term.

    Return whether there is such a sum, or an x that counts as -∞ or is above `_LARGE`. The exponents of terms are too
    large by the factor 1 + `EXCESS`, and so is their mean, which is about the greatest exponent. ``middle`` is NaN, or
    the logarithm of the sum of eˣ for plain terms. For plain terms only the exponents of the matrix are too large. They
    are about the logarithm of the sum minus the middle.
    """
    use_wide_vectors()
    flag = np.int32(0)
    for j in range(values.size):
        t, n = total[j], np.float64(top[j])
        plain = middle[j] == middle[j]
        sure = plain | ((t > 0) & (t < np.inf) & (n >= floor[j]) & (n == _clamp_exponent(top[j])))
        value = logarithm(t if sure else 1.0, np.float64(reference[j]) - MAGIC, True)
        greatest = value - middle[j] if plain else (n - MAGIC) * _LN2
        none = (t == 0) & (n == -np.inf) & (floor[j] < np.inf)  # no term, or all of them beyond the range of n
        single = none | (sure & (not plain) & (value < greatest + _SINGLE_TERM * _LN2))
        single_terms[j] = single
        values[j] = value - EXCESS * greatest if sure else np.nan
        flag |= np.int32(single | (floor[j] > -np.inf))
    return flag > 0


@inner
def _single_term(line, x, value):
    """Return the only m + x that is not -∞, -∞ if there is none, else ``value``."""
    single = np.float32(-np.inf)
    for k in range(line.size):
        t = line[k] + x[k]
        if t > -np.inf:
            if single > -np.inf:
                return value
            single = t
    return np.float64(single)


@kernel
def _measure_range(w, x):
    """Return the range of the whole numbers w that are not -∞, the greatest magnitude of their x, and their count.

    No number may be NaN.
    """
    use_wide_vectors()
    assume_no_nan()
    top, lowest, size, count = np.float32(-np.inf), np.float32(np.inf), np.float32(0), np.int32(0)
    for k in range(x.size):
        is_finite = w[k] > -np.inf
        least, number = w[k] if is_finite else np.float32(np.inf), abs(x[k]) if is_finite else np.float32(0)
        top, lowest = w[k] if w[k] > top else top, least if least < lowest else lowest
        size, count = number if number > size else size, count + np.int32(is_finite)
    return top, lowest, size, count


@kernel
def _write_factors(w, y, x, top, X):
    """Write eˣ · 2^−top to X, with zeros after the last x, and return the sum."""
    use_wide_vectors()
    for k in range(x.size):
        is_finite = w[k] > -np.inf
        power = number_of(np.int64((w[k] if is_finite else top) - top + 1023) << 52)
        X[k] = y[k] * (1 - EXCESS * x[k]) * power if is_finite else 0.0
    X[x.size :] = 0
    total = np.zeros(FLOATS)
    for k in range(0, X.size, FLOATS):
        for j in range(FLOATS):
            total[j] += X[k + j]
    return total.sum()


@kernel
def _split_vector(x, w, y):
    """Write the exponents w and factors y of x.

    Return whether an x is above `_LARGE` or NaN, and whether a finite x counts as -∞.
    """
    use_wide_vectors()
    above, below = np.int32(0), np.int32(0)
    for k in range(x.size):
        t = np.float64(x[k])
        in_range = (t >= -_LARGE) & (t <= _LARGE)
        above |= np.int32(not t <= _LARGE)
        below |= np.int32((t < -_LARGE) & (t > -np.inf))
        n, number = exponential(t * (1 + EXCESS) if in_range else 0.0, True)
        w[k] = n + MAGIC if in_range else -np.inf
        y[k] = number
    w[x.size :], y[x.size :] = -np.inf, 1
    return above, below


@kernel
def _prepare_vector(x, W, Y, X):
    """Write W and Y, whole vectors, with e^(x + x · `EXCESS`) = Y · 2^(W − `MAGIC`).

    Return ``least``, ``origin`` and ``logarithm``. Sums with an exponent below ``least`` are computed in float64. It is
    -∞, or `MAGIC` − `_LARGE` / 4 if x below -`_LARGE` count as -∞, or ∞ if an x is above `_LARGE` or NaN. If terms may
    be plain, eˣ = X · 2^(origin − `MAGIC`), and ``logarithm`` is that of the sum of eˣ, else NaN. Terms may be plain if
    at least two x are not -∞, all these x are of moderate size, and the exponents of X span less than `PLAIN`.
    """
    above, below = _split_vector(x, W, Y)
    if above or below:
        return np.inf if above else MAGIC - _LARGE / 4, MAGIC, np.nan
    top, lowest, size, count = _measure_range(W, x)
    if count > 1 and size <= _MODERATE and top - lowest < PLAIN:
        total = _write_factors(W, Y, x, top, X)
        return -np.inf, np.float64(top), np.log(total) + (top - MAGIC) * _LN2
    return -np.inf, MAGIC, np.nan


@kernel
def _has_large(line):
    """Return whether an entry of a line is NaN, or so large that its term counts although its x counts as -∞."""
    large = np.int32(0)
    for k in range(line.size):
        large |= np.int32(not line[k] <= _LARGE / 2)
    return large > 0


@inline
def _aligned_lines(count, width):
    """Return ``count`` lines of float32, aligned to cache lines, so that no vector is loaded in two pieces."""
    room = np.empty(count * width + 16, np.float32)
    return room[(-address(room) & 63) >> 2 :][: count * width].reshape((count, width))


@kernel
def _add_floats_along(M, x, C, start, stop):
    """Write M (b, lines, k) ⊗ x (b, k) to C (b, lines), k adjacent, or NaN if float64 must compute an entry.

    Lines are numbered through all b, from ``start`` on. Every piece of the work splits x again, which takes as long as
    some twenty lines.
    """
    use_wide_vectors()
    lines, inner = M.shape[1], M.shape[2]
    vectors, last = inner // FLOATS, np.zeros(FLOATS, np.float32)
    whole, past = FLOATS * vectors, 4 * FLOATS * vectors
    room = _aligned_lines(4, -(-inner // FLOATS) * FLOATS)
    W, Y, X, v = room[0], room[1], room[2], room[3]
    references, top, total = np.empty(LINES, np.float32), np.empty(LINES, np.float32), np.empty(LINES)
    floor, values, alone = np.empty(LINES), np.empty(LINES), np.empty(LINES, np.bool_)
    middle = np.empty(LINES)
    batch, ready, reference = -1, False, np.float32(MAGIC)
    least, origin, plain = 0.0, 0.0, 0.0
    for first in range(start, stop, LINES):
        count, b, i = min(LINES, stop - first), first // lines, first % lines - 1
        for q in range(count):
            b, i = (b, i + 1) if i + 1 < lines else (b + 1, 0)  # a division takes as long as a vector of terms
            if batch != b:
                least, origin, plain = _prepare_vector(x[b], W, Y, X)
                batch, ready = b, False
            row, w, y = address(M[b, i]), address(v), address(Y)
            for k in range(whole, inner):
                last[k - whole] = M[b, i, k]
            floor[q], middle[q] = least, plain
            if plain == plain:
                sums = plain_terms(row, address(X), vectors)
                if whole < inner:
                    sums += plain_terms(address(last), address(X) + past, 1)
                if sums == sums:
                    total[q], references[q] = sums, origin
                    continue
                middle[q] = np.nan
            if not ready:
                _shift_exponents(W, reference - np.float32(MAGIC), v)
                ready = True
            highest = M[b, i, 0] * np.float32(LOG2_E) + W[0]
            while True:
                if _is_far(highest, reference):  # otherwise the reference of the preceding line is used
                    reference = np.rint(highest)
                    _shift_exponents(W, reference - np.float32(MAGIC), v)
                sums, highest = terms_along(row, w, y, vectors)
                if whole < inner:
                    rest, other = terms_along(address(last), w + past, y + past, 1)
                    sums += rest
                    highest = max(highest, other)
                highest += reference - np.float32(MAGIC)
                if not _is_far(highest, reference):
                    break
            total[q], top[q], references[q] = sums, highest, reference
        has_path = _write_logarithms(total, top, references, floor, middle, values[:count], alone)
        b, i = first // lines, first % lines - 1
        for q in range(count):
            b, i = (b, i + 1) if i + 1 < lines else (b + 1, 0)
            C[b, i] = values[q]
            if has_path:
                value = _single_term(M[b, i], x[b], values[q]) if alone[q] else values[q]
                C[b, i] = np.nan if floor[q] > -np.inf and _has_large(M[b, i]) else value


@kernel
def _update_exponents(row, w, greatest):
    """Replace the greatest exponents of columns by the exponents of the terms of a row if these are greater."""
    use_wide_vectors()
    for j in range(greatest.size):
        n = np.rint(row[j] * np.float32(LOG2_E) + w)
        greatest[j] = n if n > greatest[j] else greatest[j]


@kernel
def _add_floats_across(M, x, C, start, stop):
    """Write M (b, k, lines) ⊗ x to C for adjacent lines, in blocks of `LINES` from start … stop - 1."""
    use_wide_vectors()
    inner, lines = M.shape[1], M.shape[2]
    blocks = -(-lines // LINES)
    room = _aligned_lines(3, -(-inner // FLOATS) * FLOATS)
    W, Y, X = room[0], room[1], room[2]
    references, top, total = np.empty(LINES, np.float32), np.empty(LINES, np.float32), np.empty(LINES)
    floor, values, alone = np.empty(LINES), np.empty(LINES), np.empty(LINES, np.bool_)
    middle = np.full(LINES, np.nan)
    batch = -1
    for p in range(start, stop):
        b, first = p // blocks, p % blocks * LINES
        if batch != b:
            floor[:] = _prepare_vector(x[b], W, Y, X)[0]
            batch = b
        width = min(LINES, lines - first)
        vectors, row = width // FLOATS, M.strides[1]
        whole = vectors * FLOATS
        last = np.zeros((inner if whole < width else 0, FLOATS), np.float32)
        for k in range(last.shape[0]):
            for j in range(whole, width):
                last[k, j - whole] = M[b, k, first + j]
        references[:] = -np.inf
        for k in range(min(inner, _REFERENCE_ROWS)):
            _update_exponents(M[b, k, first : first + width], W[k], references[:width])
        for j in range(LINES):
            references[j] = _clamp_exponent(references[j])
        needs_pass = True
        while needs_pass:
            top[:], total[:] = -np.inf, 0
            for k in range(0, inner, CHAIN):
                steps, w, y = min(CHAIN, inner - k), address(W[k:]), address(Y[k:])
                sums = address(references), address(total), address(top)
                terms_across(address(M[b, k, first:]), row, w, y, steps, vectors, *sums)
                if whole < width:
                    place = 4 * whole
                    ends = sums[0] + place, sums[1] + 2 * place, sums[2] + place
                    terms_across(address(last[k]), 4 * FLOATS, w, y, steps, 1, *ends)
            needs_pass = _update_references(top[:width], references[:width])
        has_path = _write_logarithms(total, top, references, floor, middle, values[:width], alone)
        for j in range(width):
            C[b, first + j] = values[j]
        for j in range(width if has_path else 0):
            line = M[b, :, first + j]
            value = _single_term(line, x[b], values[j]) if alone[j] else values[j]
            C[b, first + j] = np.nan if floor[j] > -np.inf and _has_large(line) else value


# -------------------------------------------------------------------------------------------------------- products


def can_multiply(plan: KernelPlan, m: int, k: int, n: int) -> bool:
    """Return whether `multiply` supports products (m, k) by (k, n): one row or one column, of a supported dtype."""
    if plan.dtype.char not in "fd" or plan.storage != "elements" or not adds_exponentials(plan.semiring):
        return False
    return 1 in (m, n) and plan.zero == -np.inf and k >= FEWEST


def multiply(plan: KernelPlan, C: Array, A: Array, B: Array) -> None:
    """Compute C ← A ⊗ B for stacks C (b, m, n), A (b, m, k), B (b, k, n), no size 0, with m = 1 or n = 1."""
    if C.shape[2] == 1:
        M, x, c = A, B[:, :, 0], C[:, :, 0]
    else:
        M, x, c = B.swapaxes(1, 2), A[:, 0], C[:, 0]  # (b, lines, k)
    x = np.ascontiguousarray(x)
    if plan.dtype.char == "d":
        add_lines(M, x, c, plan.threads)
        return
    run_on_lines(plan.threads, _add_floats_along, _add_floats_across, M, x, c)
    if np.maximum.reduce(c, axis=None) < np.inf or not np.isnan(c).any():
        return
    for b in np.flatnonzero(np.isnan(c).any(1)):
        lines = np.flatnonzero(np.isnan(c[b]))
        for part in np.split(lines, range(LINES, lines.size, LINES)):
            result = np.empty((1, part.size))
            add_lines(M[b, part].astype(np.float64)[None], x[b : b + 1].astype(np.float64), result, plan.threads)
            with np.errstate(over="ignore"):  # a number beyond float32 becomes ∞
                c[b, part] = result[0]
