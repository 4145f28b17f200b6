"""The caller's values and the kernels' values: the look at the data, and integers that hold "no path".

*Outside*, "no path" in an integer min-plus matrix is the largest value of its dtype (in max-plus the smallest).
*Inside* a call it is half of that, S = iinfo.max // 2, so that no sum of two values wraps: S + S ≤ iinfo.max.

What makes one product safe (min-plus; max-plus is its mirror image). Let the numbers of A lie in [a, a'], those of B in
[b, b'], all below S. A candidate A[i, k] + B[k, j] is

* number + number:  in [a + b, a' + b'];
* S + number:       at least S + min(a, b), for a negative number pulls the sentinel down;
* S + S:            2·S.

So with L = S + min(0, a, b) every candidate without a path is ≥ L, and where a' + b' < L every number is < L: the two
never mix, in a minimum a number wins over every "no path", and a result is "no path" exactly if it is ≥ L. An
accumulator that starts at S, and tiles padded with S, are candidates without a path. With a + b ≥ iinfo.min nothing
wraps below either. These are the inequalities of `product_encoding`; where they fail, the next wider dtype takes over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isinf, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.errors import DomainError, DTypeError, IntegerOverflowError

__all__ = [
    "Encoding",
    "Scan",
    "check_entries",
    "convert",
    "decode",
    "encode",
    "has_inner_zero",
    "inner_zero",
    "product_encoding",
    "promised",
    "widen",
]

Array: TypeAlias = NDArray[Any]

# A look at the data reads the matrix in pieces that stay in the second-level cache, so that its second question about a
# piece costs no memory traffic, and a temporary is never larger than a piece.
_PIECE = 1 << 19  # bytes


@dataclass(frozen=True)
class Scan:
    """What one look at an array found.

    ``low`` and ``high`` are the least and greatest entries; on integers of min-plus and max-plus those of the
    *numbers*, "no path" left out. They are None where there is no such entry, and ``high`` also where nobody asked.
    """

    low: Any = None
    high: Any = None
    has_zero: bool = False  # integers of min-plus and max-plus only: some entry is "no path"
    nonnegative: bool = False  # no entry is below zero and no sign bit is set

    def __or__(self, other: Scan) -> Scan:
        """What holds of the entries of both arrays together."""
        lows = [scan.low for scan in (self, other) if scan.low is not None]
        highs = [scan.high for scan in (self, other) if scan.high is not None]
        return Scan(
            min(lows, default=None),
            max(highs, default=None),
            self.has_zero or other.has_zero,
            self.nonnegative and other.nonnegative,
        )


# ------------------------------------------------------------------------------------------------- the look at the data


@dataclass(frozen=True)
class _Rule:
    """Which questions the look asks of a semiring's arrays of one dtype."""

    tropical: str | None  # "min" or "max": integers with a value for "no path"
    ask_nothing: bool
    ask_high: bool
    restricted: bool  # the domain is not everything
    sign_view: np.dtype[Any] | None  # the integers that show a float's sign bit


@lru_cache(maxsize=1024)
def _rule(semiring: Semiring, dtype: np.dtype[Any]) -> _Rule:
    tropical = semiring.tropical if dtype.kind == "i" else None
    restricted = not semiring.domain.everything and dtype.kind != "b"
    bounded_above = restricted and (semiring.domain.upper != np.inf or semiring.domain.upper_open)
    return _Rule(
        tropical,
        ask_nothing=dtype.kind in "bu" and not restricted,
        ask_high=bounded_above or semiring.tropical == "max",
        restricted=restricted,
        sign_view=np.dtype(f"i{dtype.itemsize}") if dtype.kind == "f" else None,
    )


def check_entries(array: Array, semiring: Semiring, name: str = "A") -> Scan:
    """One look at every entry: `DomainError` names the first that is NaN or outside the domain, position and value.

    The zero and the one of the semiring are always inside. Costs about as long as reading the array once, and a
    workspace of half a MiB.
    """
    rule = _rule(semiring, array.dtype)
    if rule.ask_nothing or array.size == 0:
        return Scan(nonnegative=True)
    if rule.tropical:
        return _scan_tropical(array, rule.tropical)
    if array.nbytes <= _PIECE:
        return _scan_piece(array, rule, array, semiring, name)
    found: Scan | None = None
    for piece in _pieces(array):
        scan = _scan_piece(piece, rule, array, semiring, name)
        found = scan if found is None else found | scan
    assert found is not None
    return found


def _scan_piece(piece: Array, rule: _Rule, array: Array, semiring: Semiring, name: str) -> Scan:
    low = piece.min()  # NaN where there is one
    high = piece.max() if rule.ask_high else None
    if low != low:
        _refuse(array, np.isnan, semiring, name)
    if rule.restricted and not (semiring.domain.contains(low) and (high is None or semiring.domain.contains(high))):
        _refuse(array, lambda rows: _outside(rows, semiring), semiring, name)
    if low == 0 and rule.sign_view is not None:  # -0.0 has a sign bit too
        return Scan(low, high, nonnegative=bool(piece.view(rule.sign_view).min() >= 0))
    return Scan(low, high, nonnegative=bool(low >= 0))


def _outside(values: Array, semiring: Semiring) -> Array:
    zero, one = semiring.zero_for(values.dtype), semiring.one_for(values.dtype)
    outside: Array = ~semiring.domain.contains(values) & (values != zero) & (values != one)
    return outside


def _refuse(array: Array, predicate: Any, semiring: Semiring, name: str) -> None:
    """Raise `DomainError` for the first entry of which ``predicate`` holds; return if there is none."""
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, _PIECE // max(1, rows[0].nbytes))
    for start in range(0, rows.shape[0], step):
        bad = predicate(rows[start : start + step])
        if bad.any():
            first = np.unravel_index(int(np.argmax(bad)), bad.shape)
            position = (start + int(first[0]), *(int(index) for index in first[1:]))
            value = rows[position]
            where = f"{name}[{', '.join(map(str, position))}]" if array.ndim else name
            if value != value:
                zero = semiring.zero_for(array.dtype)
                raise DomainError(
                    f"{where} is nan, which is no element of any semiring; the zero of {semiring.name} is {zero}"
                )
            raise DomainError(f"{where} is {value}, outside the domain {semiring.domain} of {semiring.name}")


def _scan_tropical(array: Array, tropical: str) -> Scan:
    """The range of the numbers, in Python integers, and whether "no path" occurs."""
    limits = np.iinfo(array.dtype)
    low, high = limits.max, limits.min
    has_zero = False
    for piece in _pieces(array):
        least, greatest = int(piece.min()), int(piece.max())
        # "no path" is the extreme value: one step further it wraps around to the other end, out of the way.
        if tropical == "min" and greatest == limits.max:
            has_zero, greatest = True, int((piece + piece.dtype.type(1)).max()) - 1
        elif tropical == "max" and least == limits.min:
            has_zero, least = True, int((piece - piece.dtype.type(1)).min()) + 1
        # A piece without any number gives limits.min - 1 or limits.max + 1 for its wrapped end.
        if limits.min <= greatest and least <= limits.max and least <= greatest:
            low, high = min(low, least), max(high, greatest)
    if low > high:
        return Scan(has_zero=has_zero, nonnegative=tropical == "min")
    return Scan(low, high, has_zero, nonnegative=low >= 0 and not (has_zero and tropical == "max"))


def _pieces(array: Array) -> Iterator[Array]:
    """Views that cover the array once, of at most about `_PIECE` bytes, in the order in which it lies in memory."""
    if array.nbytes <= _PIECE:
        yield array
        return
    if array.flags.c_contiguous or array.flags.f_contiguous:
        flat = array.ravel("K")
        step = _PIECE // array.itemsize
        for start in range(0, flat.size, step):
            yield flat[start : start + step]
        return
    outer = int(
        np.argmax([abs(stride) if size > 1 else -1 for stride, size in zip(array.strides, array.shape, strict=True)])
    )
    array = np.moveaxis(array, outer, 0)
    row = array.itemsize * prod(array.shape[1:])
    if row > _PIECE and array.ndim > 1:
        for row_view in array:
            yield from _pieces(row_view)
        return
    step = max(1, _PIECE // row)
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]


# ------------------------------------------------------------------------------------------------- conversion of dtypes


@lru_cache(maxsize=1024)
def _extremes(semiring: Semiring, source: np.dtype[Any], target: np.dtype[Any]) -> tuple[tuple[Any, Any], ...]:
    """Which values of the source mean ±∞ (as zero or one of the semiring), and what they are in the target."""
    if not (semiring.supports(source) and semiring.supports(target)):
        return ()
    pairs = []
    for element, typed in ((semiring.zero, semiring.zero_for), (semiring.one, semiring.one_for)):
        if element.op == "const" and isinf(element.leaf or 0) and typed(source) != typed(target):  # type: ignore[arg-type]
            pairs.append((typed(source), typed(target)))
    return tuple(pairs)


def convert(array: Array, semiring: Semiring, dtype: Any, name: str = "A") -> Array:
    """The array in another dtype; the array itself where it has that dtype already.

    Where the zero or the one of the semiring is ±∞, an integer's extreme value stands for it: it is turned into the
    target's ±∞ or extreme value, never into a number. Raises `DTypeError` where an entry has no exact value in an
    integer target.
    """
    dtype = np.dtype(dtype)
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    pairs = _extremes(semiring, array.dtype, dtype)
    for before, after in pairs:
        result[array == before] = after
    if dtype.kind in "iub" and not np.can_cast(array.dtype, dtype, "safe"):
        lost = result != array
        for before, _ in pairs:
            lost &= array != before
        if np.any(lost):
            position = tuple(int(index) for index in np.unravel_index(int(np.argmax(lost)), lost.shape))
            raise DTypeError(
                f"{name}[{', '.join(map(str, position))}] is {array[position]}, which {dtype} does not hold"
            )
    return result


# --------------------------------------------------------------------------------------------- integers with "no path"


def widen(dtype: Any) -> np.dtype[Any] | None:
    """The next wider signed integer: int16 → int32 → int64 → None."""
    size = np.dtype(dtype).itemsize
    return np.dtype(f"i{2 * size}") if size < 8 else None


def has_inner_zero(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether "no path" is another value inside a call than for the caller: integers of min-plus and max-plus."""
    return dtype.kind == "i" and semiring.tropical is not None


def inner_zero(semiring: Semiring, dtype: Any) -> Any:
    """0̄ inside a call: half of the caller's value on integers of min-plus and max-plus, else the zero itself."""
    dtype = np.dtype(dtype)
    zero = semiring.zero_for(dtype)
    if not has_inner_zero(semiring, dtype):
        return zero
    return dtype.type(int(zero) // 2)  # iinfo.max // 2 and iinfo.min / 2: their doubles still fit


@dataclass(frozen=True)
class Encoding:
    """How one product holds integers inside: the dtype, and the value from which on a result is "no path"."""

    dtype: np.dtype[Any]
    limit: int


def promised(semiring: Semiring, dtype: np.dtype[Any]) -> Scan:
    """What ``check=False`` takes for granted of integers: numbers of at most a third of half the range."""
    third = abs(int(inner_zero(semiring, dtype))) // 3 - 1
    return Scan(-third, third, has_zero=True)


def product_encoding(semiring: Semiring, dtype: np.dtype[Any], a: Scan, b: Scan, c: Scan | None = None) -> Encoding:
    """The narrowest dtype, from the operands' own on, in which C ⊕ A ⊗ B neither wraps nor mixes up "no path".

    Raises `IntegerOverflowError` where not even int64 does; the message names float64, which holds every sum, rounded.
    """
    sign = 1 if semiring.tropical == "min" else -1
    (a_low, a_high), (b_low, b_high) = _mirrored(a, sign), _mirrored(b, sign)
    c_low, c_high = _mirrored(c or Scan(), sign)
    inner: np.dtype[Any] | None = dtype
    while inner is not None:
        half = abs(int(inner_zero(semiring, inner)))
        limit = half + min(0, a_low, b_low)
        if (
            max(a_high + b_high, c_high) < limit
            and max(a_high, b_high) < half
            and min(a_low + b_low, a_low, b_low, c_low) >= -np.iinfo(inner).max
        ):
            return Encoding(inner, sign * limit)
        inner = widen(inner)
    raise IntegerOverflowError(
        f"sums of entries between {min(a_low, b_low) * sign} and {max(a_high, b_high) * sign} could leave the half "
        f"of the range of int64 that {semiring.name} computes in: use float64, which holds every sum, rounded"
    )


def _mirrored(scan: Scan, sign: int) -> tuple[int, int]:
    """The range of the numbers as min-plus sees it; (0, 0) where there are none."""
    if scan.low is None or scan.high is None:
        return 0, 0
    return (int(scan.low), int(scan.high)) if sign > 0 else (-int(scan.high), -int(scan.low))


def encode(array: Array, semiring: Semiring, dtype: Any = None, *, out: Array | None = None) -> Array:
    """The caller's integers as the kernels hold them, in ``dtype`` (by default the array's own).

    Into ``out`` (which may be the array itself), or a new array. The numbers must lie inside half the dtype's range:
    see `product_encoding`. On other semirings and dtypes a copy.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if out is None:
        out = np.empty(array.shape, dtype)
    if not has_inner_zero(semiring, dtype):
        out[...] = array
        return out
    outer, inner = semiring.zero_for(array.dtype), inner_zero(semiring, dtype)
    if array.dtype == dtype:
        # "no path" is the only entry beyond half the range, so a minimum (in max-plus a maximum) replaces it.
        (np.minimum if semiring.tropical == "min" else np.maximum)(array, inner, out=out)
        return out
    for source, target in _paired_rows(array, out):
        target[...] = source
        np.putmask(target, source == outer, inner)
    return out


def decode(
    array: Array,
    semiring: Semiring,
    dtype: Any = None,
    *,
    limit: int | None = None,
    out: Array | None = None,
    name: str = "the result",
) -> Array:
    """The kernels' integers as the caller holds them: what reaches ``limit`` (by default the inner zero) is "no path".

    In place where ``dtype`` is the array's own and no ``out`` is given. Raises `IntegerOverflowError`, naming the dtype
    that would hold it, where a number does not fit ``dtype`` or is its "no path".
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if out is None:
        out = array if dtype == array.dtype else np.empty(array.shape, dtype)
    if not has_inner_zero(semiring, array.dtype):
        if out is not array:
            out[...] = array
        return out
    outer = semiring.zero_for(dtype)
    if limit is None:
        limit = int(inner_zero(semiring, array.dtype))
    bound = array.dtype.type(limit)
    for source, target in _paired_rows(array, out):
        absent = source >= bound if semiring.tropical == "min" else source <= bound
        if dtype != array.dtype:
            _check_fit(source, absent, outer, dtype, semiring, name)
            target[...] = source.astype(dtype)
        elif target is not source:
            target[...] = source
        np.putmask(target, absent, outer)
    return out


def _check_fit(source: Array, absent: Array, outer: Any, dtype: np.dtype[Any], semiring: Semiring, name: str) -> None:
    limits = np.iinfo(dtype)
    bad = ((source < limits.min) | (source > limits.max) | (source == int(outer))) & ~absent
    if bad.any():
        value = int(source[bad][0])
        raise IntegerOverflowError(
            f"{name} holds {value}, which {dtype} does not hold beside {int(outer)} for the zero of {semiring.name}: "
            f"pass {source.dtype} operands"
        )


def _paired_rows(source: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """The same rows of two arrays of one shape, some hundred KiB at a time, so that temporaries stay small."""
    if source.ndim == 0 or source.nbytes <= _PIECE:
        yield source, target
        return
    step = max(1, _PIECE * source.shape[0] // source.nbytes)
    for start in range(0, source.shape[0], step):
        yield source[start : start + step], target[start : start + step]
