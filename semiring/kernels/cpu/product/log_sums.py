"""Products of log_plus by products of numbers: c = log Σₖ exp(a + b) at the speed of plus_times.

With whole numbers u, v and w, one for each row of A, each k and each column of B,

    c[i, j] = log(2)·(u[i] + w[j]) + log Σₖ (exp a[i, k]·2^−(u[i] + v[k])) · (exp b[k, j]·2^(v[k] − w[j])),

and the sum is a product of plus_times in float64. Every exponential is a power of two times exp r, |r| ≤ log(2)/2, so
its error does not grow with the exponent, and shifts cost no bit. They bring the greatest entry of each row and column
near 1; v first brings each row of B there, so that greatest entries meet. An exponential below 2^`_LEAST` counts as 0:
then no product is subnormal, and the caller's floating-point state does not matter. The sums below which such zeros
might be noticed are computed again, in float32 by exponents and mantissas apart (`_add_up`), in float64 by the kernel
of the definition; and so by that are rows and columns with entries above `_HIGH`. Where exactly one path exists, c is
its ⊗, to the bit: a second product finds these entries.

A row of the result depends on that row of A and on all of B, and so on no cut of A by rows, nor on threads.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import log_plus, max_plus, plus_times
from semiring.kernels.contract import Backend, Plan
from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.memory import bits_of, number_of, scaled
from semiring.kernels.cpu.compiled import Kernels
from semiring.kernels.cpu.threads.pool import run_tasks

__all__ = ["Right", "exponential", "is_log_plus", "multiply", "multiply_by", "takes"]

Array: TypeAlias = NDArray[Any]

_LOW, _HIGH = -float(1 << 20), float(1 << 19)  # entries whose exponentials are taken; their exponents have 21 bits
_LEAST = -510  # exponents below: products of two exponentials stay normal numbers
_SMALLEST = 48  # rows and columns of B: with fewer, what a call costs outweighs the gain
_LARGEST = 1 << 22  # rows of B: float32 tells 2²² + k from twice that
_BLOCK = 1024  # rows and columns of C at a time: 8 MiB of sums
_DEPTH = {"f": 512, "d": 256}  # steps of k at a time: float64 adds sums of so few, whose rounding stays small
_SPARE = {"f": 26, "d": 54}  # bits by which a sum must exceed all that was taken for 0
_AT_ONCE = 1 << 20  # entries of the small products that are computed side by side
_STRIP = 512  # rows whose sums are computed again together
_COARSE = 32  # the unit of exponents whose maximum is taken first
_COLUMNS, _RUN = 128, 32  # of a right operand with its exponents, that stay in the first-level cache
_WIDE, _TWO, _THREE, _FOUR = (np.uint64(value) for value in (_COLUMNS, 2, 3, 4))  # indices that are never negative
_MAGIC = float(3 << 22)  # n + this holds n, a whole number below 2²², in its last bits
_NOWHERE = -4e6  # in the place of the exponent of exp -∞
_FAINT = -125.0  # the least exponent of what is added up: a normal number in float32

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 32 bits
_SQRT2 = 1.4142135623730951
_FRACTION, _ONE = (1 << 52) - 1, 1023 << 52


def _kernel(function: Any) -> Any:
    return cached(njit(function, nogil=True, error_model="numpy", fastmath={"contract"}))


_inline = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"contract"})


@_inline
def exponential(x):
    """The number n and the double y ∈ [√½, √2] with eˣ = y · 2ⁿ, x within `_LOW` and `_HIGH`."""
    n = np.floor(x * _LOG2_E + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
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


@_inline
def _logarithm(x, n):
    """The logarithm of x · 2ⁿ, x a positive normal double."""
    bits = bits_of(x)
    exponent, y = (bits >> 52) - 1023, number_of((bits & _FRACTION) | _ONE)
    above = y > _SQRT2
    y = 0.5 * y if above else y
    n += np.float64(exponent + 1 if above else exponent)
    z = (y - 1.0) / (y + 1.0)
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


@_kernel
def _scale(X, rows, columns, out, start, stop):
    """Out ← eˣ · 2^−(rows + columns) for X (b, m, n), rows (b, m) and columns (b, n), of rows start … stop - 1."""
    height = X.shape[1]
    for p in range(start, stop):
        b, i = p // height, p % height
        shift = rows[b, i]
        for j in range(X.shape[2]):
            x = np.float64(X[b, i, j])
            inside = (x >= _LOW) & (x <= _HIGH)
            n, y = exponential(x if inside else 0.0)
            n -= shift + columns[b, j]
            value = number_of(bits_of(y) + (np.int64(n) << 52))
            out[b, i, j] = value if inside & (n >= _LEAST) else 0.0


@_kernel
def _finish(S, rows, columns, C, accumulate, tiny, least, again, start, stop):
    """C ← [C ⊕] log(S · 2^(rows + columns)), of rows start … stop - 1; ``again`` becomes 1 where that is no result.

    There S is below ``tiny``, the logarithm to base 2 below ``least``, or C too large; C stays, or becomes -∞.
    """
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
            y = number_of((bits & _FRACTION) | _ONE)
            if accumulate:
                c = np.float64(C[b, i, j])
                inside = (c >= _LOW) & (c <= _HIGH)
                bad |= not (inside | (c == -np.inf))
                d, x = exponential(c if inside else 0.0)
                x = x if inside else 0.0
                d = d if inside else n
                difference = n - d
                ahead = difference >= 0
                distance = min(abs(difference), 1000.0)
                power = number_of((1023 - np.int64(distance)) << 52)
                y = y + x * power if ahead else y * power + x
                n = n if ahead else d
                value = _logarithm(y, n)
                C[b, i, j] = c if bad else value
            else:
                value = _logarithm(y, n)
                C[b, i, j] = -np.inf if bad else value
            again[b, i, j] = bad


@_kernel
def _split(X, y, n, coarse):
    """X = log(y · 2ⁿ) for X (m, n) within `_LOW` and `_HIGH`, or -∞; n and ⌊n / `_COARSE`⌋ are -∞ there, and y is 1."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            inside = x >= _LOW
            exponent, mantissa = exponential(x if inside else 0.0)
            y[i, j] = mantissa
            n[i, j] = exponent if inside else _NOWHERE
            coarse[i, j] = np.floor(exponent / _COARSE) if inside else -np.inf


@_inline
def _term(x, m, y, n, greatest):
    """The number x · y · 2^(m + n − greatest); nothing to notice where that is small."""
    exponent, least = (m + n) - greatest, np.float32(_MAGIC + _FAINT)
    return x * scaled(y, exponent if exponent > least else least)


@_kernel
def _add_up(x, m, y, n, greatest, S, start, stop):
    """S ← Σₖ x · y · 2^(m + n − greatest) in rows start … stop - 1: no special function for a pair.

    x and m (rows, k), y and n (k, columns) float32, ``greatest`` less `_MAGIC` in float32, S float64. Thirty-two terms
    are added in float32, as sums of eight in pairs, and these sums in float64. What runs is of fixed size: panels of y
    and n, a row of ``greatest`` and one of sums.
    """
    inner, width = y.shape
    ys, ns = np.empty(_RUN * _COLUMNS, np.float32), np.empty(_RUN * _COLUMNS, np.float32)
    g, T = np.zeros(_COLUMNS, np.float32), np.empty(_COLUMNS, np.float32)
    xs, ms = np.zeros(_RUN, np.float32), np.zeros(_RUN, np.float32)
    for left in range(0, width, _COLUMNS):
        columns = min(_COLUMNS, width - left)
        for first in range(0, inner, _RUN):
            steps = min(_RUN, inner - first)
            ys[:], ns[:], xs[:], ms[:] = 1, _NOWHERE, 0, 0
            for k in range(steps):
                for j in range(columns):
                    ys[k * _COLUMNS + j], ns[k * _COLUMNS + j] = y[first + k, left + j], n[first + k, left + j]
            for i in range(start, stop):
                for k in range(steps):
                    xs[k], ms[k] = x[i, first + k], m[i, first + k]
                above, sums = greatest[i, left : left + columns], S[i, left : left + columns]
                for j in range(columns):
                    g[j] = above[j]
                T[:] = 0
                for k in range(0, steps, 8):
                    x0, x1, x2, x3 = xs[k], xs[k + 1], xs[k + 2], xs[k + 3]
                    x4, x5, x6, x7 = xs[k + 4], xs[k + 5], xs[k + 6], xs[k + 7]
                    m0, m1, m2, m3 = ms[k], ms[k + 1], ms[k + 2], ms[k + 3]
                    m4, m5, m6, m7 = ms[k + 4], ms[k + 5], ms[k + 6], ms[k + 7]
                    at = np.uint64(k * _COLUMNS)
                    for j in range(_WIDE):
                        c = at + j
                        s0 = _term(x0, m0, ys[c], ns[c], g[j])
                        s1 = _term(x1, m1, ys[c + _WIDE], ns[c + _WIDE], g[j])
                        s2 = _term(x2, m2, ys[c + _WIDE * _TWO], ns[c + _WIDE * _TWO], g[j])
                        s3 = _term(x3, m3, ys[c + _WIDE * _THREE], ns[c + _WIDE * _THREE], g[j])
                        c += _WIDE * _FOUR
                        s4 = _term(x4, m4, ys[c], ns[c], g[j])
                        s5 = _term(x5, m5, ys[c + _WIDE], ns[c + _WIDE], g[j])
                        s6 = _term(x6, m6, ys[c + _WIDE * _TWO], ns[c + _WIDE * _TWO], g[j])
                        s7 = _term(x7, m7, ys[c + _WIDE * _THREE], ns[c + _WIDE * _THREE], g[j])
                        T[j] += ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
                for j in range(columns):
                    sums[j] += T[j]


# ------------------------------------------------------------------------------------------------- what is in operands


@dataclass(frozen=True)
class _Look:
    """What one side of a product holds: of each row of A, or of each column of B."""

    paths: Array  # (b, rows) how many entries are no -∞
    odd: Array | None  # (b, rows) whether one of them is above `_HIGH` or NaN
    dropped: bool  # whether a finite one is below `_LOW`


def _look(X: Array, axis: int) -> _Look:
    """Look at X (b, m, n) along an axis."""
    lines = X.shape[:axis] + X.shape[axis + 1 :]
    if X.min() >= _LOW and X.max() <= _HIGH:
        return _Look(np.full(lines, X.shape[axis]), None, False)
    paths, odd, dropped = np.zeros(lines, np.int64), np.zeros(lines, np.bool_), False
    for rows in _chunks(X):
        part = X[:, rows]
        above = part > -np.inf
        strange = ~(part <= _HIGH)
        dropped = dropped or bool(((part < _LOW) & above).any())
        if axis == 2:
            paths[:, rows], odd[:, rows] = np.count_nonzero(above, 2), strange.any(2)
        else:
            paths += np.count_nonzero(above, 1)
            odd |= strange.any(1)
    return _Look(paths, odd if odd.any() else None, dropped)


def _chunks(X: Array) -> Iterator[slice]:
    """The rows of X (b, m, n), so many at a time that they stay in the cache."""
    step = max(1, (1 << 16) // max(1, X.shape[0] * X.shape[2]))
    for start in range(0, X.shape[1], step):
        yield slice(start, min(X.shape[1], start + step))


def _greatest(X: Array, shift: Array, axis: int) -> Array:
    """The maxima of X (b, m, n) plus ``shift`` along an axis, 0 where there is none, within the range of entries."""
    if axis == 2:
        found = np.empty(X.shape[:2], X.dtype)
        for rows in _chunks(X):
            (X[:, rows] + shift[:, None, :]).max(axis=2, out=found[:, rows])
    else:
        found = np.full((X.shape[0], X.shape[2]), -np.inf, X.dtype)
        for rows in _chunks(X):
            np.maximum(found, (X[:, rows] + shift[:, rows, None]).max(axis=1), out=found)
    found[~np.isfinite(found)] = 0
    return np.clip(found, 2 * _LOW, 2 * _HIGH)


def _exponents(shift: Array) -> Array:
    return np.rint(shift.astype(np.float64) * _LOG2_E)


# ------------------------------------------------------------------------------------------------------------ products


@lru_cache(maxsize=64)
def is_log_plus(semiring: Semiring) -> bool:
    """Whether ⊕ and ⊗ are those of `log_plus`, whatever the name."""
    texts = [[half.expression.text for half in (each.add, each.mul)] for each in (semiring, log_plus)]
    return texts[0] == texts[1]


def takes(plan: Plan, k: int, n: int) -> bool:
    """Whether `multiply` computes products by B (k, n). A's rows do not count: how they are cut must change no bit."""
    return (
        plan.storage == "elements"
        and plan.dtype.char in _DEPTH
        and min(k, n) >= _SMALLEST
        and k < _LARGEST
        and plan.zero == -np.inf
        and is_log_plus(plan.semiring)
    )


def multiply(backend: Backend, plan: Plan, kernels: Kernels, C: Array, A: Array, B: Array, accumulate: int) -> None:
    """C ← [C ⊕] A ⊗ B for stacks C (b, m, n), A (b, m, k) and B (b, k, n), no size 0; C may be B where m = k.

    Workspace: 8 bytes for each entry of blocks of C, A and B of at most 1024 × 1024, twice that where -∞ occurs; with C
    in the place of B a copy of 1024 columns.
    """
    count, (m, n), inner = C.shape[0], C.shape[1:], A.shape[2]
    step = max(1, _AT_ONCE // (m * inner + inner * n + m * n))
    with np.errstate(all="ignore"):
        for start in range(0, count, step):
            some = slice(start, start + step)
            product = _Product(backend, plan, kernels, A[some], Right(B[some]))
            product.write(C[some], accumulate, in_place=C is B)


def multiply_by(backend: Backend, plan: Plan, kernels: Kernels, C: Array, A: Array, right: Right) -> None:
    """C ← A ⊗ B for C (m, n), A (m, k), no size 0 or m = 1, and a B (1, k, n) that is kept."""
    with np.errstate(all="ignore"):
        _Product(backend, plan, kernels, A[None], right).write(C[None], 0, in_place=False)


class Right:
    """Right operands B (b, k, n), and what does not depend on A: shifts, exponentials, and what was seen.

    With ``keeps`` the exponentials stay, 8 bytes for each entry, for all products by the same B.
    """

    def __init__(self, B: Array, *, keeps: bool = False) -> None:
        self.B, self.look = B, _look(B, 1)
        with np.errstate(all="ignore"):
            columns = _greatest(B, np.zeros(B.shape[:2], B.dtype), 1)
            self.inner = -_greatest(B, -columns, 2)
            self.v = _exponents(self.inner)
            self.w = _exponents(_greatest(B, self.inner, 1))
        self.kept: dict[tuple[int, int, str], Array] | None = {} if keeps else None

    def of(self, steps: slice, columns: slice, what: str, make: Callable[[], Array]) -> Array:
        """What ``make`` gives for a block of B; where it is kept, what it gave."""
        if self.kept is None:
            return make()
        key = steps.start, columns.start, what
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]


class _Product:
    """Products of some matrices, their shifts, and what was seen in them."""

    def __init__(self, backend: Backend, plan: Plan, kernels: Kernels, A: Array, by: Right) -> None:
        self.backend, self.plan, self.kernels, self.A, self.by = backend, plan, kernels, A, by
        self.inner = A.shape[2]
        self.left, self.right = _look(A, 2), by.look
        self.u, self.v, self.w = _exponents(_greatest(A, -by.inner, 2)), by.v, by.w
        self.tiny = 2.0 ** (_LEAST + 3 + _SPARE[plan.dtype.char]) * self.inner
        # What was dropped stays 2^-180 below sums that are above this.
        dropped = self.left.dropped or self.right.dropped
        self.least = (_LOW + _HIGH) * _LOG2_E + 200 if dropped else -np.inf
        self.numbers = Plan(plus_times, np.dtype(np.float64), 0.0, 1.0, threads=plan.threads)
        self.marks = Plan(plus_times, np.dtype(np.float32), np.float32(0), np.float32(1), threads=plan.threads)
        self.maxima = Plan(max_plus, np.dtype(np.float32), np.float32(-np.inf), np.float32(0), threads=plan.threads)
        self.splits = plan.dtype.char == "f" and not dropped and self.left.odd is None and self.right.odd is None
        self.base = 1 << self.inner.bit_length()  # above every k

    def write(self, C: Array, accumulate: int, in_place: bool) -> None:
        """C ← [C ⊕] A ⊗ B."""
        m, n = C.shape[1:]
        for left in range(0, n, _BLOCK):
            columns = slice(left, min(n, left + _BLOCK))
            B = self.by.B[:, :, columns]
            if in_place:
                B = B.copy()
            for top in range(0, m, _BLOCK):
                rows = slice(top, min(m, top + _BLOCK))
                self._write_block(C[:, rows, columns], self.A[:, rows], B, rows, columns, accumulate)

    def _write_block(self, C: Array, A: Array, B: Array, rows: slice, columns: slice, accumulate: int) -> None:
        fewest = int(self.left.paths[:, rows].min() + self.right.paths[:, columns].min())
        sums, paths = self._sums(A, B, self.u[:, rows], columns, fewest < self.inner + 2)
        result = np.array(C, order="C") if accumulate else np.empty(C.shape, C.dtype)
        again = np.empty(C.shape, np.bool_)
        shifts = self.u[:, rows], self.w[:, columns]
        rest = sums, *shifts, result, accumulate, self.tiny, self.least, again
        self._on_threads(_finish, rest, C.shape[0] * C.shape[1], C.size)
        odd = _outer(self.left.odd, rows, self.right.odd, columns)
        if paths is not None:
            single = (paths >= self.base) & (paths < 2 * self.base)
            if odd is not None:
                single &= ~odd
            again &= paths >= 2 * self.base
            b, i, j = np.nonzero(single)
            k = paths[b, i, j].astype(np.int64) - self.base
            value = A[b, i, k] + B[b, k, j]
            result[b, i, j] = np.logaddexp(C[b, i, j], value, dtype=np.float64) if accumulate else value
        if odd is not None:
            again |= odd
        if again.any():
            self._compute_again(result, again, C, A, B, accumulate)
        C[...] = result

    def _sums(self, A: Array, B: Array, u: Array, columns: slice, mark: bool) -> tuple[Array, Array | None]:
        """The shifted sums of a block; with ``mark`` its paths: 0 for none, `base` + k for one, else more."""
        shape = A.shape[0], A.shape[1], B.shape[2]
        sums, paths = np.empty(shape), np.empty(shape, np.float32) if mark else None
        depth = _DEPTH[self.plan.dtype.char]
        partial = np.empty(shape) if self.inner > depth and self.plan.dtype.char == "d" else sums
        for start in range(0, self.inner, depth):
            steps = slice(start, min(self.inner, start + depth))
            X, left, right = self._operands(A, B, u, steps, columns)
            if start == 0:
                self.backend.multiply(self.numbers, sums, left, right)
            elif partial is sums:
                self.backend.multiply_add(self.numbers, sums, left, right)
            else:
                self.backend.multiply(self.numbers, partial, left, right)
                sums += partial
            if paths is not None:
                ones, places = np.greater(X, -np.inf).astype(np.float32), self._places(B, steps, columns)
                mark_product = self.backend.multiply_add if start else self.backend.multiply
                mark_product(self.marks, paths, ones, places)
        return sums, paths

    def _operands(self, A: Array, B: Array, u: Array, steps: slice, columns: slice) -> tuple[Array, Array, Array]:
        """Some columns of A, and the exponentials of them and of those rows of a block of B."""
        X, v = np.ascontiguousarray(A[:, :, steps]), self.v[:, steps]

        def make() -> Array:
            return self._scaled(np.ascontiguousarray(B[:, steps]), -v, self.w[:, columns])

        return X, self._scaled(X, u, v), self.by.of(steps, columns, "exponentials", make)

    def _places(self, B: Array, steps: slice, columns: slice) -> Array:
        """`base` + k where there is an entry in row k of B, else 0."""

        def make() -> Array:
            k = np.arange(self.base + steps.start, self.base + steps.stop, dtype=np.float32)
            return np.asarray(np.greater(B[:, steps], -np.inf) * k[:, None])

        return self.by.of(steps, columns, "places", make)

    def _scaled(self, X: Array, rows: Array, columns: Array) -> Array:
        out = np.empty(X.shape)
        self._on_threads(_scale, (X, rows, columns, out), X.shape[0] * X.shape[1], X.size)
        return out

    def _on_threads(self, function: Any, arguments: tuple[Any, ...], rows: int, size: int) -> None:
        """Run a compiled loop over rows, in pieces where that is worth it."""
        pieces = min(rows, 4 * self.plan.threads) if self.plan.threads > 1 and size >= 1 << 15 else 1
        step = -(-rows // pieces)
        tasks = [(start, min(rows, start + step)) for start in range(0, rows, step)]
        run_tasks(lambda start, stop: function(*arguments, start, stop), tasks, self.plan.threads)

    def _compute_again(self, result: Array, again: Array, C: Array, A: Array, B: Array, accumulate: int) -> None:
        """The entries that are marked, by the kernel of the definition: rows of a strip with the columns they need."""
        none = np.empty((0, 0), np.int32)
        for b in np.flatnonzero(again.any((1, 2))):
            for top in range(0, again.shape[1], _STRIP):
                strip = again[b, top : top + _STRIP]
                rows, columns = np.flatnonzero(strip.any(1)) + top, np.flatnonzero(strip.any(0))
                if rows.size:
                    place = np.ix_(rows, columns)
                    found, left, right = C[b][place], A[b][rows], B[b][:, columns]
                    if self.splits:
                        value = self._by_exponents(left, right)
                        found = np.logaddexp(found, value, dtype=np.float64) if accumulate else value
                    else:
                        self.kernels.product(found, left, right, none, accumulate, 0, 0, self.plan.threads)
                    result[b][place] = np.where(again[b][place], found, result[b][place])

    def _by_exponents(self, A: Array, B: Array) -> Array:
        """A ⊗ B in float64 for float32: the coarse exponent of every sum by max-plus, then mantissas added up."""
        (x, m, p), (y, n, q) = _halves(A), _halves(B)
        greatest = np.empty((A.shape[0], B.shape[1]), np.float32)
        self.backend.multiply(self.maxima, greatest, p, q)
        greatest[np.isneginf(greatest)] = 0
        greatest *= _COARSE
        S = np.zeros(greatest.shape)
        self._on_threads(_add_up, (x, m, y, n, greatest - np.float32(_MAGIC), S), A.shape[0], S.size * A.shape[1])
        return np.asarray(np.log(S) + greatest * (_LN2_HIGH + _LN2_LOW))


def _halves(X: Array) -> tuple[Array, Array, Array]:
    """Mantissas, exponents and coarse exponents."""
    y, n, coarse = (np.empty(X.shape, np.float32) for _ in range(3))
    _split(np.ascontiguousarray(X), y, n, coarse)
    return y, n, coarse


def _outer(left: Array | None, rows: slice, right: Array | None, columns: slice) -> Array | None:
    """Where the row of A or the column of B is odd; None where neither ever is."""
    if left is None and right is None:
        return None
    one = False if left is None else left[:, rows, None]
    return np.logical_or(one, False if right is None else right[:, None, columns])
