"""Small products of log_plus, and stacks of them, in one compiled loop: each is computed within the second-level cache.

A product is that of `log_sums`, with its bits: shifts, exponentials, a product of plus_times in float64, logarithms.
Each thread takes some of the matrices of a stack, one after the other, in memory of its own. Those in which a sum
underflows, or an entry is out of range, are left to `log_sums`.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.cpu.codegen.memory import address, is_single, wide, without_nan
from semiring.kernels.cpu.product import log_sums
from semiring.kernels.cpu.product.log_lines import HIGH, LOG2_E, LOW, kernel
from semiring.kernels.cpu.product.log_sums import (
    DEPTH,
    few_paths,
    finish,
    scale,
    shifted,
    survey_columns,
    survey_rows,
    tiny_sum,
)
from semiring.kernels.cpu.product.panels import PAD, tile_for
from semiring.kernels.cpu.product.panels import multiply as multiply_numbers
from semiring.kernels.cpu.threads.pool import run_tasks

__all__ = ["multiply"]

Array: TypeAlias = NDArray[Any]

_LARGEST = 1 << 14  # entries of a matrix: five such matrices in float64 are in the second-level cache
_LEAST = 1 << 20  # pairs that pay for a thread: 50 µs
_WIDE = np.dtype(np.float64)
_COPIED = 1 << 21  # entries that are copied at a time where rows do not lie side by side


@kernel
def _shift(greatest, exponents):
    """Greatest (1, n) as a shift, and its whole number of powers of two."""
    for j in range(greatest.shape[1]):
        top = greatest[0, j]
        top = min(max(top, 2 * LOW), 2 * HIGH) if abs(top) < np.inf else 0.0
        greatest[0, j] = top
        exponents[0, j] = np.rint(np.float64(greatest[0, j]) * LOG2_E)


@kernel
def _greatest_of_columns(B, greatest):
    wide()
    top = greatest[0]
    top[:] = -np.inf
    for k in range(B.shape[1]):
        row = B[0, k]
        for j in range(row.size):
            top[j] = row[j] if row[j] > top[j] else top[j]


@kernel
def _greatest_of_rows(B, shift, greatest):
    """Greatest ← those of the rows of B (1, k, n) plus a shift (1, n)."""
    wide()
    without_nan()
    for k in range(B.shape[1]):
        row, added = B[0, k], shift[0]
        top = row[0] + added[0]
        for j in range(row.size):
            t = row[j] + added[j]
            top = t if t > top else top
        greatest[0, k] = top


@kernel
def _negated(X):
    wide()
    for j in range(X.shape[1]):
        X[0, j] = -X[0, j]


@kernel
def _scale_packed(B, rows, columns, packed):
    """Packed, panels (panels, k, width), ← what `scale` makes of B (1, k, n)."""
    wide()
    width = packed.shape[2]
    for p in range(packed.shape[0]):
        left = p * width
        shifts = columns[0, left : left + width]
        for k in range(B.shape[1]):
            row, place, shift = B[0, k, left : left + width], packed[p, k], rows[0, k]
            for j in range(row.size):
                place[j] = shifted(row[j], shift + shifts[j], is_single(B))


@kernel
def _survey(X, shift, greatest, lows, highs):
    """Greatest ← those of the rows of X (1, m, n) plus a shift (1, n); whether all are numbers that are taken."""
    wide()
    without_nan()
    lows[:], highs[:] = 0, 0
    for i in range(X.shape[1]):
        row, added = X[0, i], shift[0]
        top = row[0] + added[0]
        for j in range(row.size):
            t = row[j] + added[j]
            top = t if t > top else top
            lows[j] = row[j] if row[j] < lows[j] else lows[j]
            highs[j] = row[j] if row[j] > highs[j] else highs[j]
        greatest[0, i] = top
    low, high = lows[0], highs[0]
    for j in range(lows.size):
        low, high = lows[j] if lows[j] < low else low, highs[j] if highs[j] > high else high
    return low >= LOW and high <= HIGH


@kernel
def _bits(B, bits):
    """Bits (1, k, words) ← where B (1, k, n) has an entry."""
    bits[:] = 0
    for k in range(B.shape[1]):
        row, words = B[0, k], bits[0, k]
        for j in range(row.size):
            words[j >> 6] |= np.uint64(row[j] > -np.inf) << np.uint64(j & 63)


@kernel
def _copied(row, to):
    wide()
    for j in range(to.size):
        to[j] = row[j]


@kernel
def _multiply_all(tile, C, A, B, accumulate, tiny, left):
    """C ← [C ⊕] A ⊗ B of all matrices of stacks (b, m, n), (b, m, k), (b, k, n) but those that are ``left``: 1 there.

    ``tile``: its address, rows and columns, for `panels.multiply`.
    """
    (m, n), k, (_, rows, width) = C.shape[1:], A.shape[2], tile
    whole, panels = -(-m // rows) * rows, -(-n // width)
    columns, size = panels * width, panels * k * width
    room = np.zeros(size + 8)
    packed = room[(-address(room) & 63) >> 3 :][:size].reshape((panels, k, width))
    X, S = np.empty((1, whole, k + PAD)), np.empty((1, whole, columns))
    X[:, m:] = 0
    lows, highs = np.empty(k, A.dtype), np.empty(k, A.dtype)
    by_row, by_step, by_column = np.empty((1, m), A.dtype), np.empty((1, k), A.dtype), np.empty((1, n), A.dtype)
    u, v, w = np.empty((1, m)), np.empty((1, k)), np.zeros((1, columns))
    left_paths, left_seen = np.empty((1, m), np.int32), np.empty((1, m), np.int32)
    paths, seen = np.empty((1, n), np.int32), np.empty((1, n), np.int32)
    y, again = np.empty((1, m, columns), C.dtype), np.empty((1, m, columns), np.bool_)
    bits, odd = np.empty((1, k, (n + 63) >> 6), np.uint64), np.zeros((1, m), np.bool_)
    for b in range(C.shape[0]):
        a, right, c = A[b : b + 1], B[b : b + 1], C[b : b + 1]
        _greatest_of_columns(right, by_column)
        _shift(by_column, w)
        _negated(by_column)
        _greatest_of_rows(right, by_column, by_step)
        _shift(by_step, v)
        _negated(by_step)
        survey_columns(right, by_step, by_column, paths, seen, 0, 1)
        _shift(by_column, w)
        _negated(by_step)
        if _survey(a, by_step, by_row, lows, highs):
            left_paths[:], left_seen[:] = k, 0
        else:
            survey_rows(a, by_step, by_row, left_paths, left_seen, 0, m)
        _shift(by_row, u)
        found = np.int32(0)
        for i in range(m):
            found |= left_seen[0, i]
        for j in range(n):
            found |= seen[0, j]
        if found:
            left[b] = 1
            continue
        _negated(v)
        scale(a, u, v, X, 0, m)
        _negated(v)
        _scale_packed(right, v, w, packed)
        multiply_numbers(tile, X, address(packed), S)
        if accumulate:
            for i in range(m):
                _copied(c[0, i], y[0, i, :n])
        finish(S, u, w, y, accumulate, tiny, -np.inf, again, 0, m)
        if left_paths.min() + paths.min() < k + 2:
            _bits(right, bits)
            few_paths(a, bits, right, odd, y, c, again, accumulate, 0, m)
        lost = np.uint8(0)  # vectors of these, but not of truth values
        for i in range(m):
            marks = again[0, i]
            for j in range(n):
                lost |= np.uint8(marks[j])
        left[b] = lost > 0
        if not lost:
            for i in range(m):
                _copied(y[0, i], c[0, i])


def multiply(backend: Backend, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> None:
    """C ← [C ⊕] A ⊗ B for stacks as `log_sums.multiply` takes them."""
    (count, m, n), k = C.shape, A.shape[2]
    if k > DEPTH[plan.dtype.char] or max(m * k, k * n, m * n) > _LARGEST:
        log_sums.multiply(backend, plan, C, A, B, accumulate)
        return
    left, tiny, tile = np.zeros(count, np.bool_), tiny_sum(plan, k), tile_for(_WIDE, n)

    def some(start: int, stop: int) -> None:
        part = C[start:stop]
        c, a, b = (np.ascontiguousarray(X) for X in (part, A[start:stop], B[start:stop]))
        _multiply_all(tile, c, a, b, accumulate, tiny, left[start:stop])
        if c is not part:
            part[...] = c

    # As much as pays for a thread, in four pieces for each thread, of which copies may be made.
    step = max(-(-_LEAST // (m * k * n)), min(-(-count // (4 * plan.threads)), _COPIED // (m * k + k * n + m * n)))
    run_tasks(some, [(start, min(count, start + step)) for start in range(0, count, step)], plan.threads)
    if count == 1:
        if left[0]:
            log_sums.multiply(backend, plan, C, A, B, accumulate)
    elif left.any():
        rest = C[left]
        log_sums.multiply(backend, plan, rest, A[left], B[left], accumulate)
        C[left] = rest
