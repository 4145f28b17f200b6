"""Products of log_plus by products of numbers: c = log Σₖ exp(a + b) at the speed of plus_times.

With whole numbers u, v and w, one for each row of A, each k and each column of B,

    c[i, j] = log(2)·(u[i] + w[j]) + log Σₖ (exp a[i, k]·2^−(u[i] + v[k])) · (exp b[k, j]·2^(v[k] − w[j])),

and the sum is a product of plus_times in float64. Every exponential is a power of two times exp r, |r| ≤ log(2)/2, so
its error does not grow with the exponent, and shifts cost no bit. They bring the greatest entry of each row and column
near 1; v first brings each row of B there, so that greatest entries meet. That is the greatest of the entries within
`LOW` and `HIGH`, whose exponentials are taken, and of no others: since u ≥ a − v and w ≥ b + v for all of these, no
exponential exceeds 2², however large an entry elsewhere, and no shift exceeds 2.5 · 2²⁰, where float32 has steps of a
quarter. An exponential below 2^`_LEAST` counts as 0: then no product is subnormal, and the caller's floating-point
state does not matter. The sums below which such zeros might be noticed are computed again, in float32 by exponents and
mantissas apart (`_add_up`), in float64 line by line (`log_lines`); and so by that are rows and columns with entries
above `HIGH`. Where exactly one path exists, c is its ⊗, to the bit: bits, where operands have entries, tell
these from others.

A row of the result depends on that row of A and on all of B, and so on no cut of A by rows, nor on threads.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import adds_exponentials, max_plus, plus_times
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.cpu.codegen.memory import (
    address,
    bits_of,
    is_single,
    number_of,
    scaled,
    trailing_zeros,
    wide,
    without_nan,
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
from semiring.kernels.cpu.threads.pool import run_tasks

__all__ = [
    "DEPTH",
    "FEWEST",
    "Right",
    "few_paths",
    "finish",
    "multiply",
    "multiply_by",
    "on_threads",
    "scale",
    "shifted",
    "survey_columns",
    "survey_rows",
    "takes",
    "tiny_sum",
]

Array: TypeAlias = NDArray[Any]

_LEAST = -510  # exponents below: products of two exponentials stay normal numbers
FEWEST = 8  # rows of B: fewer are added pair by pair, each with a rounding of at most half a unit
_BLOCK = 1024  # rows and columns of C at a time: 8 MiB of sums
_FIRST = 256  # columns of C, where there are more than of a block, that show which rows underflow
DEPTH = {"f": 512, "d": 64}  # steps of k at a time: float64 adds sums of so few, whose rounding stays small
_SPARE = {"f": 26, "d": 54}  # bits by which a sum must exceed all that was taken for 0
_AT_ONCE = 1 << 19  # entries of the small products that are computed side by side: near the second-level cache
_STRIP = 512  # rows whose sums are computed again together
_COLUMNS, _RUN = 64, 64  # of a right operand with its exponents, that stay in the first-level cache
_WIDE = np.uint64(_COLUMNS)  # an index that is never negative
_KEPT = 50  # terms by a factor of 2^-50 below the greatest may be left out: even 2²⁴ of them are nothing in float32
_MAGIC = float(3 << 22)  # n + this holds n, a whole number below 2²², in its last bits
_FROM_LEAST, _FAINT = np.float32(_MAGIC - _KEPT), np.float32(_MAGIC - 125)  # the least is a normal number in float32
_NOWHERE = np.float32(-4e6)  # in the place of the exponent of exp -∞


@inline
def shifted(x, shift, single):
    """The number eˣ · 2^−shift, 0 where that is too small, or x not within `LOW` and `HIGH`."""
    x = np.float64(x)
    inside = (x >= LOW) & (x <= HIGH)
    n, y = exponential(x if inside else 0.0, single)
    n -= shift
    value = number_of(bits_of(y) + (np.int64(n) << 52))
    return value if inside & (n >= _LEAST) else 0.0


@kernel
def scale(X, rows, columns, out, start, stop):
    """Out ← eˣ · 2^−(rows + columns) for X (b, m, n), rows (b, m) and columns (b, n), of rows start … stop - 1."""
    wide()
    height = X.shape[1]
    for p in range(start, stop):
        b, i = p // height, p % height
        shift = rows[b, i]
        for j in range(X.shape[2]):
            out[b, i, j] = shifted(X[b, i, j], shift + columns[b, j], is_single(X))


@kernel
def finish(S, rows, columns, C, accumulate, tiny, least, again, start, stop):
    """C ← [C ⊕] log(S · 2^(rows + columns)), of rows start … stop - 1; ``again`` becomes 1 where that is no result.

    There S is below ``tiny``, the logarithm to base 2 below ``least``, or C too large; C stays, or becomes -∞.
    """
    wide()
    height = S.shape[1]
    for p in range(start, stop):
        b, i = p // height, p % height
        shift = rows[b, i]
        for j in range(S.shape[2]):
            s = S[b, i, j]
            small = not (s >= tiny)
            s = 1.0 if small else s
            bits = bits_of(s)
            n = np.float64((bits >> 52) - 1023) + (shift + columns[b, j])
            bad = small | (n < least)
            y = number_of((bits & FRACTION) | ONE)
            if accumulate:
                c = np.float64(C[b, i, j])
                inside = (c >= LOW) & (c <= HIGH)
                bad |= not (inside | (c == -np.inf))
                d, x = exponential(c if inside else 0.0, is_single(C))
                x = x if inside else 0.0
                d = d if inside else n
                difference = n - d
                ahead = difference >= 0
                distance = min(abs(difference), 1000.0)
                power = number_of((1023 - np.int64(distance)) << 52)
                y = y + x * power if ahead else y * power + x
                n = n if ahead else d
                value = logarithm(y, n, is_single(C))
                C[b, i, j] = c if bad else value
            else:
                value = logarithm(y, n, is_single(C))
                C[b, i, j] = -np.inf if bad else value
            again[b, i, j] = bad


@kernel
def _split(X, y, n):
    """X = log(y · 2ⁿ) for X (m, n) within `LOW` and `HIGH`, or -∞: there n is `_NOWHERE`, and y is 1."""
    wide()
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            inside = x >= LOW
            exponent, mantissa = exponential(x if inside else 0.0, True)
            y[i, j] = mantissa
            n[i, j] = exponent if inside else _NOWHERE


@kernel
def _add_up(x, m, y, n, least, S, start, stop):
    """S ← Σₖ x · y · 2^(m + n − least − 50) in rows start … stop - 1: no special function for a pair.

    x and m (rows, k), k a multiple of 8; y and n (panels, k, 64), ``least`` and S (panels, rows, 64); S float64, all
    others float32. Terms of exponents below ``least`` may be left out: where all of a row of 64 are, they take no more
    than an addition and a comparison. Eight terms are added in float32, and these sums in float64.
    """
    wide()
    room = np.zeros(2 * _COLUMNS, np.float32)
    T = room[(-address(room) & 63) >> 2 :][:_COLUMNS]
    for p in range(y.shape[0]):
        for first in range(0, x.shape[1], _RUN):
            for i in range(start, stop):
                for group in range(first, min(x.shape[1], first + _RUN), 8):
                    found = False
                    for step in range(8):
                        k = np.uint64(group) + np.uint64(step)
                        exponent, some = m[i, k], False
                        for j in range(_WIDE):
                            some |= exponent + n[p, k, j] > least[p, i, j]
                        if some:
                            found = True
                            for j in range(_WIDE):
                                d = ((exponent + n[p, k, j]) - least[p, i, j]) + _FROM_LEAST
                                T[j] += x[i, k] * scaled(y[p, k, j], d if d > _FAINT else _FAINT)
                    if found:
                        for j in range(_WIDE):
                            S[p, i, j] += T[j]
                            T[j] = 0


@kernel
def _logarithms(S, least, out, start, stop):
    """Out (rows, columns) ← the logarithms of what `_add_up` found, in rows start … stop - 1."""
    wide()
    for i in range(start, stop):
        for left in range(0, out.shape[1], _COLUMNS):
            sums, exponents = S[left // _COLUMNS, i], least[left // _COLUMNS, i]
            results = out[i, left : left + _COLUMNS]
            for j in range(results.size):
                s = sums[j]
                value = logarithm(s if s > 0 else 1.0, np.float64(exponents[j]) + _KEPT, True)
                results[j] = value if s > 0 else -np.inf


@kernel
def few_paths(A, bits, B, odd, result, C, again, accumulate, start, stop):
    """Result ← [C ⊕] the ⊗ of the one path, or "no path", and ``again`` 0, where rows start … stop - 1 have no more.

    A (b, m, k) and B (b, k, n), C, result and ``again`` (b, m, n); ``bits`` (b, k, words): where B has an entry. Rows
    in which ``odd`` (b, m) is 1 are left alone.
    """
    height, inner, words, width = A.shape[1], A.shape[2], bits.shape[2], B.shape[2]
    once, more, first = np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(width, B.dtype)
    for p in range(start, stop):
        b, i = p // height, p % height
        if odd[b, i]:
            continue
        once[:], more[:] = 0, 0
        first[:] = -np.inf
        for k in range(inner):
            a = A[b, i, k]
            if a > -np.inf:
                for w in range(words):
                    there = bits[b, k, w]
                    new = there & ~once[w]
                    more[w] |= there & once[w]
                    once[w] |= there
                    while new:
                        j = (w << 6) + trailing_zeros(new)
                        first[j] = a + B[b, k, j]
                        new &= new - np.uint64(1)
        for j in range(width):
            if not more[j >> 6] >> np.uint64(j & 63) & np.uint64(1):
                value = first[j]
                if accumulate:
                    c = C[b, i, j]
                    high, low = np.float64(max(c, value)), np.float64(min(c, value))
                    value = high + np.log1p(np.exp(low - high)) if low > -np.inf else high
                result[b, i, j] = value
                again[b, i, j] = False


# ------------------------------------------------------------------------------------------------- what is in operands


@kernel
def survey_rows(X, shift, greatest, paths, seen, start, stop):
    """Of rows start … stop - 1 of X (b, m, n): the greatest x + shift (b, n), how many entries are no -∞, what is seen.

    That is in bit 0 a finite entry below `LOW`, in bit 1 one above `HIGH`.
    """
    wide()
    without_nan()
    height = X.shape[1]
    for p in range(start, stop):
        b, i = p // height, p % height
        row, added, top, count, found = X[b, i], shift[b], X[b, i, 0] + shift[b, 0], np.int32(0), np.int32(0)
        for j in range(row.size):
            x = row[j]
            t = x + added[j]
            top = t if t > top else top
            count += np.int32(x > -np.inf)
            found |= np.int32((x < LOW) & (x > -np.inf)) | np.int32(x > HIGH) << np.int32(1)
        greatest[b, i], paths[b, i], seen[b, i] = top, count, found


@kernel
def survey_columns(X, shift, greatest, paths, seen, start, stop):
    """The same of the columns of matrices start … stop - 1, for ``shift`` (b, m)."""
    wide()
    for b in range(start, stop):
        top, count, found = greatest[b], paths[b], seen[b]
        top[:], count[:], found[:] = -np.inf, 0, 0
        for i in range(X.shape[1]):
            row, added = X[b, i], shift[b, i]
            for j in range(row.size):
                x = row[j]
                t = x + added
                top[j] = t if t > top[j] else top[j]
                count[j] += np.int32(x > -np.inf)
                found[j] |= np.int32((x < LOW) & (x > -np.inf)) | np.int32(x > HIGH) << np.int32(1)


@dataclass(frozen=True)
class _Look:
    """What one side of a product holds: of each row of A, or of each column of B."""

    greatest: Array  # (b, rows) the greatest entries that are taken plus a shift, 0 where there is none
    paths: Array  # (b, rows) how many entries are no -∞
    odd: Array | None  # (b, rows) whether one of them is above `HIGH`
    dropped: bool  # whether a finite one is below `LOW`


def _look(X: Array, shift: Array, axis: int, threads: int) -> _Look:
    """Look at X (b, m, n) along an axis, at whose entries ``shift`` is added for the greatest."""
    shape = X.shape[:axis] + X.shape[axis + 1 :]
    greatest, paths, seen = np.empty(shape, X.dtype), np.empty(shape, np.int32), np.empty(shape, np.int32)
    loop, pieces = (survey_rows, greatest.size) if axis == 2 else (survey_columns, X.shape[0])
    on_threads(threads, loop, (X, shift, greatest, paths, seen), pieces, X.size)
    every = int(np.bitwise_or.reduce(seen, axis=None))
    if every:  # the greatest may be an entry that is not taken
        taken = np.where((X >= LOW) & (X <= HIGH), X, -np.inf).astype(X.dtype, copy=False)
        on_threads(threads, loop, (taken, shift, greatest, np.empty_like(paths), np.empty_like(seen)), pieces, X.size)
    greatest[~np.isfinite(greatest)] = 0
    return _Look(greatest, paths, seen > 1 if every > 1 else None, bool(every & 1))


def on_threads(threads: int, function: Any, arguments: tuple[Any, ...], rows: int, size: int) -> None:
    """Run a compiled loop over rows, in pieces where that is worth it."""
    pieces = min(rows, 4 * threads) if threads > 1 and size >= 1 << 15 else 1
    step = -(-rows // pieces)
    tasks = [(start, min(rows, start + step)) for start in range(0, rows, step)]
    run_tasks(lambda start, stop: function(*arguments, start, stop), tasks, threads)


def _exponents(shift: Array) -> Array:
    return np.rint(shift.astype(np.float64) * LOG2_E)


# ------------------------------------------------------------------------------------------------------------ products


def takes(plan: KernelPlan, k: int) -> bool:
    """Whether `multiply` computes products by B (k, n), whatever n: how a product is cut must change no bit."""
    return (
        plan.storage == "elements"
        and plan.dtype.char in DEPTH
        and k >= FEWEST
        and plan.zero == -np.inf
        and adds_exponentials(plan.semiring)
    )


def tiny_sum(plan: KernelPlan, k: int) -> float:
    """What a shifted sum of k terms exceeds if all that was taken for 0 is nothing beside it."""
    return 2.0 ** (_LEAST + 3 + _SPARE[plan.dtype.char]) * k


def multiply(backend: Backend, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> None:
    """C ← [C ⊕] A ⊗ B for stacks C (b, m, n), A (b, m, k) and B (b, k, n), no size 0; C may be B where m = k.

    Workspace: 8 bytes for each entry of blocks of C, A and B of at most 1024 × 1024, twice that where -∞ occurs; with C
    in the place of B a copy of 1024 columns.
    """
    count, (m, n), inner = C.shape[0], C.shape[1:], A.shape[2]
    step = max(1, _AT_ONCE // (m * inner + inner * n + m * n))
    with np.errstate(all="ignore"):
        for start in range(0, count, step):
            some = slice(start, start + step)
            product = _Product(backend, plan, A[some], Right(B[some], plan.threads))
            product.write(C[some], accumulate, in_place=C is B)


def multiply_by(backend: Backend, plan: KernelPlan, C: Array, A: Array, right: Right) -> None:
    """C ← A ⊗ B for C (m, n), A (m, k), no size 0 or m = 1, and a B (1, k, n) that is kept."""
    with np.errstate(all="ignore"):
        _Product(backend, plan, A[None], right).write(C[None], 0, in_place=False)


class Right:
    """Right operands B (b, k, n), and what does not depend on A: shifts, exponentials, and what was seen.

    With ``keeps`` the exponentials stay, 8 bytes for each entry, for all products by the same B.
    """

    def __init__(self, B: Array, threads: int, *, keeps: bool = False) -> None:
        self.B = B
        columns = _look(B, np.zeros(B.shape[:2], B.dtype), 1, threads)
        self.inner = -_look(B, -columns.greatest, 2, threads).greatest
        self.look = _look(B, self.inner, 1, threads)
        self.v, self.w = _exponents(self.inner), _exponents(self.look.greatest)
        self.kept: dict[tuple[int, int, str], Array] | None = {} if keeps else None

    def of(self, row: int, columns: slice, what: str, make: Callable[[], Array]) -> Array:
        """What ``make`` gives for a block of B from a row on; where it is kept, what it gave."""
        if self.kept is None:
            return make()
        key = row, columns.start, what
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def bits(self, B: Array, columns: slice) -> Array:
        """Where a block of B, or a copy of it, has an entry: bits in words of 64 along its rows."""

        def make() -> Array:
            bytes_ = np.packbits(np.greater(B, -np.inf), axis=2, bitorder="little")
            words = np.zeros((*B.shape[:2], -(-B.shape[2] // 64) * 8), np.uint8)
            words[:, :, : bytes_.shape[2]] = bytes_
            return words.view(np.uint64)

        return self.of(0, columns, "bits", make)


class _Product:
    """Products of some matrices, their shifts, and what was seen in them."""

    def __init__(self, backend: Backend, plan: KernelPlan, A: Array, by: Right) -> None:
        self.backend, self.plan, self.A, self.by = backend, plan, A, by
        self.inner, self.lost = A.shape[2], np.zeros(A.shape[:2], np.bool_)
        self.left, self.right = _look(A, -by.inner, 2, plan.threads), by.look
        self.u, self.v, self.w = _exponents(self.left.greatest), by.v, by.w
        self.tiny = tiny_sum(plan, self.inner)
        # What was dropped stays 2^-180 below sums that are above this.
        dropped = self.left.dropped or self.right.dropped
        self.least = (LOW + HIGH) * LOG2_E + 200 if dropped else -np.inf
        self.numbers = KernelPlan(plus_times, np.dtype(np.float64), 0.0, 1.0, threads=plan.threads)
        self.maxima = KernelPlan(
            max_plus, np.dtype(np.float32), np.float32(-np.inf), np.float32(0), threads=plan.threads
        )
        self.splits = plan.dtype.char == "f" and not dropped

    def write(self, C: Array, accumulate: int, in_place: bool) -> None:
        """C ← [C ⊕] A ⊗ B. Rows whose first columns mostly are lost to underflow have others not tried."""
        m, n = C.shape[1:]
        edges = [0, n] if n <= _BLOCK else [0, *range(_FIRST, n, _BLOCK), n]
        for left, right in pairwise(edges):
            columns = slice(left, right)
            B = self.by.B[:, :, columns]
            if in_place:
                B = B.copy()
            for top in range(0, m, _BLOCK):
                rows = slice(top, min(m, top + _BLOCK))
                again = self._write_block(C[:, rows, columns], self.A[:, rows], B, rows, columns, accumulate)
                if left == 0:
                    self.lost[:, rows] = again.mean(2) > 0.5

    def _write_block(self, C: Array, A: Array, B: Array, rows: slice, columns: slice, accumulate: int) -> Array:
        """The block of C; and what was computed pair by pair."""
        result = np.array(C, order="C") if accumulate else np.empty(C.shape, C.dtype)
        again, lost = np.ones(C.shape, np.bool_), self.lost[:, rows]
        if not lost.all():
            shifts = self.u[:, rows], self.w[:, columns]
            found = (
                self._sums(A, B, self.u[:, rows], columns),
                *shifts,
                result,
                accumulate,
                self.tiny,
                self.least,
                again,
            )
            on_threads(self.plan.threads, finish, found, C.shape[0] * C.shape[1], C.size)
            again |= lost[:, :, None]
        if int(self.left.paths[:, rows].min() + self.right.paths[:, columns].min()) < self.inner + 2:
            odd = np.zeros(C.shape[:2], np.bool_) if self.left.odd is None else self.left.odd[:, rows]
            given = A, self.by.bits(B, columns), B, odd, result, C, again, accumulate
            on_threads(self.plan.threads, few_paths, given, C.shape[0] * C.shape[1], C.size)
        rest = again
        if self.left.odd is not None:
            lines = self.left.odd[:, rows]
            rest, again = rest & ~lines[:, :, None], again | lines[:, :, None]
            self._by_lines(accumulate, lines, result, C, A, B)
        if self.right.odd is not None:
            lines = self.right.odd[:, columns]
            rest, again = rest & ~lines[:, None], again | lines[:, None]
            self._by_lines(accumulate, lines, *(X.swapaxes(1, 2) for X in (result, C, B, A)))
        if rest.any():
            self._compute_again(result, rest, C, A, B, accumulate)
        C[...] = result
        return again

    def _by_lines(self, accumulate: int, lines: Array, result: Array, C: Array, A: Array, B: Array) -> None:
        """The rows of the result that ``lines`` (b, m) marks."""
        for b in np.flatnonzero(lines.any(1)):
            rows = lines[b]
            result[b][rows] = self._pair_by_pair(C[b][rows], A[b][rows], B[b], None, accumulate)

    def _sums(self, A: Array, B: Array, u: Array, columns: slice) -> Array:
        """The shifted sums of a block."""
        shape = A.shape[0], A.shape[1], B.shape[2]
        sums, depth = np.empty(shape), DEPTH[self.plan.dtype.char]
        partial = np.empty(shape) if self.inner > depth and self.plan.dtype.char == "d" else sums
        for start in range(0, self.inner, depth):
            steps = slice(start, min(self.inner, start + depth))
            left, right = self._operands(A, B, u, steps, columns)
            if start == 0:
                self.backend.multiply(self.numbers, sums, left, right)
            elif partial is sums:
                self.backend.multiply_add(self.numbers, sums, left, right)
            else:
                self.backend.multiply(self.numbers, partial, left, right)
                sums += partial
        return sums

    def _operands(self, A: Array, B: Array, u: Array, steps: slice, columns: slice) -> tuple[Array, Array]:
        """The exponentials of some columns of A, and of those rows of a block of B."""
        v = self.v[:, steps]

        def make() -> Array:
            return self._scaled(np.ascontiguousarray(B[:, steps]), -v, self.w[:, columns])

        left = self._scaled(np.ascontiguousarray(A[:, :, steps]), u, v)
        return left, self.by.of(steps.start, columns, "exponentials", make)

    def _scaled(self, X: Array, rows: Array, columns: Array) -> Array:
        out = np.empty(X.shape)
        on_threads(self.plan.threads, scale, (X, rows, columns, out), X.shape[0] * X.shape[1], X.size)
        return out

    def _compute_again(self, result: Array, again: Array, C: Array, A: Array, B: Array, accumulate: int) -> None:
        """The entries that are marked, rows of a strip with the columns they need: pair by pair."""
        for b in np.flatnonzero(again.any((1, 2))):
            whole: _Exponents | None = None
            for top in range(0, again.shape[1], _STRIP):
                strip = slice(top, top + _STRIP)
                rows, columns = again[b, strip].any(1), again[b, strip].any(0)
                if 2 * np.count_nonzero(rows) * np.count_nonzero(columns) > again[b, strip].size:
                    if self.splits and whole is None:
                        whole = _Exponents(B[b])
                    one = result[b, strip], C[b, strip], A[b, strip], B[b]
                    np.copyto(one[0], self._pair_by_pair(*one[1:], whole, accumulate), where=again[b, strip])
                elif rows.any():
                    place = np.ix_(np.flatnonzero(rows) + top, np.flatnonzero(columns))
                    right = B[b][:, columns]
                    some = _Exponents(right) if self.splits else None
                    found = self._pair_by_pair(C[b][place], A[b, strip][rows], right, some, accumulate)
                    result[b][place] = np.where(again[b][place], found, result[b][place])

    def _pair_by_pair(self, C: Array, A: Array, B: Array, right: _Exponents | None, accumulate: int) -> Array:
        """[C ⊕] A ⊗ B, by exponents and mantissas apart where ``right`` has those of B, else line by line."""
        if right is None:
            value = log_lines.multiply(A, B, self.plan.threads)
            return np.logaddexp(C, value, dtype=np.float64) if accumulate else value
        rows, inner, panels = A.shape[0], right.n.shape[0], right.panels[0].shape[0]
        x, m = _halves(_padded(A, rows, inner))
        least = np.empty((rows, panels * _COLUMNS), np.float32)
        self.backend.multiply(self.maxima, least, m, right.n)
        least -= _KEPT
        least, S, value = _in_panels(least), np.zeros((panels, rows, _COLUMNS)), np.empty(C.shape)
        on_threads(self.plan.threads, _add_up, (x, m, *right.panels, least, S), rows, S.size * inner)
        on_threads(self.plan.threads, _logarithms, (S, least, value), rows, S.size)
        return np.logaddexp(C, value, dtype=np.float64) if accumulate else value


class _Exponents:
    """A right operand as `_add_up` takes it."""

    def __init__(self, B: Array) -> None:
        y, self.n = _halves(_padded(B, -(-B.shape[0] // 8) * 8, -(-B.shape[1] // _COLUMNS) * _COLUMNS))
        self.panels = _in_panels(y), _in_panels(self.n)


def _halves(X: Array) -> tuple[Array, Array]:
    """Mantissas and exponents."""
    y, n = np.empty(X.shape, np.float32), np.empty(X.shape, np.float32)
    _split(X, y, n)
    return y, n


def _padded(X: Array, rows: int, columns: int) -> Array:
    """X with -∞ beyond its rows and columns, in the order of C."""
    if X.shape == (rows, columns):
        return np.ascontiguousarray(X)
    result = np.full((rows, columns), -np.inf, X.dtype)
    result[: X.shape[0], : X.shape[1]] = X
    return result


def _in_panels(X: Array) -> Array:
    """X (rows, columns) as (panels, rows, 64), its lines those of the cache: others are read in two pieces."""
    panels = X.reshape(X.shape[0], -1, _COLUMNS).swapaxes(0, 1)
    room = np.empty(X.size + 16, np.float32)
    result = room[-room.ctypes.data % 64 // 4 :][: X.size].reshape(panels.shape)
    result[...] = panels
    return result
