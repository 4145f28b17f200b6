"""Convert between the caller's values and the kernels' values: dtypes, and integers that hold "no path".

*Outside*, "no path" in an integer min-plus matrix is the largest value of its dtype (in max-plus the smallest).
*Inside* a call it is half of that, S = iinfo.max // 2, so that no sum of two values wraps: S + S ≤ iinfo.max.

The conditions for one product (in min-plus; max-plus is its mirror image): let the numbers of A lie in [a, a'], those
of B in [b, b'], all below S. A candidate A[i, k] + B[k, j] is

* number + number:  in [a + b, a' + b'];
* S + number:       at least S + min(a, b), because a negative number decreases the sentinel;
* S + S:            2·S.

Let L = S + min(0, a, b). Every candidate without a path is ≥ L then, and if a' + b' < L every number is < L. So
numbers and "no path" never mix: in a minimum every number is less than every "no path", and a result is "no path"
exactly if it is ≥ L. An accumulator that starts at S, and tiles padded with S, are candidates without a path. With 0 <
L the numbers lie above -S, so nothing wraps below either. These are the inequalities of `product_encoding`. If they
fail, the next wider dtype is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isinf
from typing import Any

import numpy as np

from semiring.advice import truth_values_advice
from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_half
from semiring.arrays.entries import check_entries, check_operands
from semiring.arrays.scans import PIECE, Scan, limits_of
from semiring.errors import DomainError, DTypeError, IntegerOverflowError
from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = [
    "Encoding",
    "Scan",
    "assumed_range",
    "check_entries",
    "check_operands",
    "clamp",
    "convert",
    "decode",
    "encode",
    "first_unrepresentable",
    "has_inner_zero",
    "inner_zero",
    "is_rounded",
    "next_wider_integer",
    "product_encoding",
    "round_to_dtype",
    "to_compute_dtype",
]


# ------------------------------------------------------------------------------------------------- conversion of dtypes


def is_rounded(array: Array, semiring: Semiring) -> bool:
    """Return whether an array of float16 or bfloat16 is computed in float32 and rounded once.

    It is on the host, which has no kernels for these dtypes, because a sum of many terms would lose most of its digits
    in them. A semiring without float32 computes in the array's dtype.
    """
    return type(array) is np.ndarray and is_half(array.dtype) and semiring.supports(np.float32)


def to_compute_dtype(array: Array, semiring: Semiring) -> Any:
    """Return the array in the dtype in which sums of its entries are computed: float32 if the array `is_rounded`."""
    return array.astype(np.float32) if is_rounded(array, semiring) else array


def round_to_dtype(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return a result in the caller's dtype, which is at most as wide. Values beyond its range become ∞."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


@lru_cache(maxsize=1024)
def _infinite_values(semiring: Semiring, source: np.dtype[Any], target: np.dtype[Any]) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of the source's and the target's values for each of the semiring's zero and one that is ±∞."""
    if not (semiring.supports(source) and semiring.supports(target)):
        return ()
    pairs = []
    for element, typed in ((semiring.zero, semiring.zero_for), (semiring.one, semiring.one_for)):
        infinite = element.op == "const" and isinf(element.leaf or 0)  # type: ignore[arg-type]  # a Constant
        if infinite and typed(source) != typed(target):
            pairs.append((typed(source), typed(target)))
    return tuple(pairs)


def convert(array: Array, semiring: Semiring, dtype: Any, name: str = "A", *, check: bool = True) -> Any:
    """Return the array in another dtype, or the array itself if it has that dtype already.

    If the zero or the one of the semiring is ±∞, the extreme value of an integer dtype represents it. It becomes the
    ±∞ or the extreme value of the target, never a number. Raises `DTypeError` if an entry has no exact value in an
    integer target. If the target is bool, integers that are all 0 or 1 are truth values, and arrays of floats raise
    `DTypeError`. Of truth values that become numbers, True is 1, the weight of an edge, and False is the zero, no edge;
    `DomainError` is raised if 1 lies outside the domain. Without ``check`` no entry is scanned.
    """
    dtype = np.dtype(dtype)
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "b":
        if not semiring.domain.contains(dtype.type(1)):
            raise DomainError(
                f"{name} holds truth values, of which True is an edge of weight 1, outside the domain "
                f"{semiring.domain} of {semiring.name}"
            )
        return array_namespace(array).where(array, dtype.type(1), semiring.zero_for(dtype))
    if dtype.kind == "b" and array.ndim and array.dtype.kind not in "iu":
        raise DTypeError(f"{name} holds {array.dtype}, which {dtype} does not hold. {truth_values_advice()}")
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    pairs = _infinite_values(semiring, array.dtype, dtype)
    for before, after in pairs:
        _replace(result, array == before, after)
    if check and dtype.kind in "iub" and not np.can_cast(array.dtype, dtype, "safe"):
        is_lost = result != array
        for before, _ in pairs:
            is_lost &= array != before
        # On a GPU the call waits here. Of all promotions, only that of integers to truth values needs this test.
        if is_lost.any():
            position = tuple(int(index) for index in np.unravel_index(int(is_lost.argmax()), is_lost.shape))
            place = f"{name}[{', '.join(map(str, position))}]" if position else name
            entry = array[position].item() if is_device_array(array) else array[position]
            rule = f": truth values are True and False, or integers that are all 0 or 1. {truth_values_advice()}"
            raise DTypeError(f"{place} is {entry}, which {dtype} does not hold{rule if dtype.kind == 'b' else ''}")
    return result


def _replace(array: Array, where: Array, value: Any) -> None:
    array_namespace(array).copyto(array, value, where=where)


# --------------------------------------------------------------------------------------------- integers with "no path"


def next_wider_integer(dtype: Any) -> np.dtype[Any] | None:
    """Return the next wider signed integer: int16 → int32 → int64 → None."""
    size = np.dtype(dtype).itemsize
    return np.dtype(f"i{2 * size}") if size < 8 else None


def has_inner_zero(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether "no path" has another value inside a call, as it has for integers of min-plus and max-plus."""
    return dtype.kind == "i" and semiring.tropical is not None


def inner_zero(semiring: Semiring, dtype: Any) -> Any:
    """Return 0̄ inside a call: half of the caller's value for integers of min-plus and max-plus, else the zero."""
    dtype = np.dtype(dtype)
    zero = semiring.zero_for(dtype)
    if not has_inner_zero(semiring, dtype):
        return zero
    return dtype.type(int(zero) // 2)  # iinfo.max // 2 or iinfo.min / 2, so that the sum of two zeros fits the dtype


@dataclass(frozen=True)
class Encoding:
    """The encoding of entries inside a product: the dtype, and for integers the least (greatest) value of "no path"."""

    dtype: np.dtype[Any]
    limit: int | None = None


def assumed_range(semiring: Semiring, dtype: np.dtype[Any]) -> Scan:
    """Return the range of integers that ``check=False`` assumes: at most a third of half the range of the dtype."""
    third = limits_of(dtype).half // 3 - 1
    return Scan(-third, third, has_zero=True)


def product_encoding(semiring: Semiring, dtype: np.dtype[Any], a: Scan, b: Scan, c: Scan | None = None) -> Encoding:
    """Return the encoding in the narrowest dtype in which C ⊕ A ⊗ B cannot wrap, and numbers differ from "no path".

    The dtype is at least as wide as that of the operands. Raises `IntegerOverflowError` if int64 is too narrow. The
    message names float64, which holds every sum, rounded.
    """
    sign = 1 if semiring.tropical == "min" else -1
    (a_low, a_high), (b_low, b_high) = _signed_range(a, sign), _signed_range(b, sign)
    c_low, c_high = _signed_range(c or Scan(), sign)
    inner: np.dtype[Any] | None = dtype
    while inner is not None:
        half = limits_of(inner).half
        limit = half + min(0, a_low, b_low)
        # If 0 < limit, the numbers of A and B are above -half, so the sum of two numbers does not wrap. As limit ≤
        # half + b_low, they are below half, and the encoding does not change them.
        if max(0, a_high + b_high, c_high) < limit and c_low >= -limits_of(inner).max:
            return Encoding(inner, sign * limit)
        inner = next_wider_integer(inner)
    raise IntegerOverflowError(
        f"sums of entries between {min(a_low, b_low) * sign} and {max(a_high, b_high) * sign} could leave half "
        f"the range of int64, in which {semiring.name} computes: use float64, which holds every sum, rounded"
    )


def _signed_range(scan: Scan, sign: int) -> tuple[int, int]:
    """Return the least and the greatest number of ``sign`` times the entries; (0, 0) if there are no numbers."""
    if scan.low is None or scan.high is None:
        return 0, 0
    return (int(scan.low), int(scan.high)) if sign > 0 else (-int(scan.high), -int(scan.low))


def encode(array: Array, semiring: Semiring, dtype: Any = None, *, out: Array | None = None) -> Any:
    """Return the caller's integers in the kernels' encoding, in ``dtype`` (by default the array's own).

    The result is written into ``out``, which may be the array itself, or into a new array. The numbers must lie within
    half the range of the dtype: see `product_encoding`. Semirings and dtypes without a sentinel get a copy.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if out is None:
        out = array_namespace(array).empty(array.shape, dtype)
    if not has_inner_zero(semiring, dtype):
        out[...] = array
        return out
    outer, inner = semiring.zero_for(array.dtype), inner_zero(semiring, dtype)
    if array.dtype == dtype:
        # "no path" is the only entry beyond half the range, so a minimum (in max-plus a maximum) replaces it.
        clamp(array, inner, semiring.tropical == "min", out)
        return out
    for source, target in _paired_rows(array, out):
        target[...] = source
        _replace(target, source == outer, inner)
    return out


def clamp(array: Any, bound: Any, is_minimum: bool, out: Any, sign: int = 1) -> None:
    """Write ``sign`` · min(array, bound) to ``out``, or ``sign`` · max(array, bound) unless ``is_minimum``.

    The array holds signed integers, or whole numbers in floats, in any shape; ``sign`` is 1 or -1. ``out`` has the same
    shape. It may be the array itself, or have another dtype that holds the results.
    """
    if array.dtype != out.dtype:
        xp = array_namespace(array)
        out[...] = xp.minimum(array, bound) if sign > 0 else xp.negative(xp.maximum(array, bound))
        return
    if is_device_array(array):
        from semiring.kernels.cuda.entries import entry_passes as kernels

        kernels.replace_beyond(array, bound, sign * bound, out, is_least=is_minimum, sign=sign)
        return
    (np.minimum if is_minimum else np.maximum)(array, bound, out=out)
    if sign < 0:
        np.subtract(out.dtype.type(0), out, out=out)  # np.negative of NumPy 2.4 in place is wrong for some strides


def decode(
    array: Array,
    semiring: Semiring,
    dtype: Any = None,
    *,
    limit: int | None = None,
    out: Array | None = None,
    name: str = "the result",
) -> Array:
    """Return the kernels' entries in the caller's encoding. Integers that reach ``limit`` become "no path".

    ``limit`` is by default the inner zero. The result overwrites the array if ``dtype`` is the array's own and no
    ``out`` is given. Raises `IntegerOverflowError` if a number does not fit ``dtype`` or is its "no path"; the message
    names the dtype that would hold it.
    """
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if out is None:
        out = array if dtype == array.dtype else array_namespace(array).empty(array.shape, dtype)
    if not has_inner_zero(semiring, array.dtype):
        if out is not array:
            out[...] = round_to_dtype(array, out.dtype)
        return out
    outer = semiring.zero_for(dtype)
    if limit is None:
        limit = int(inner_zero(semiring, array.dtype))
    bound = array.dtype.type(limit)
    if is_device_array(array) and dtype == array.dtype:
        from semiring.kernels.cuda.entries import entry_passes as kernels

        kernels.replace_beyond(array, bound, outer, out, is_least=semiring.tropical == "min")
        return out
    for source, target in _paired_rows(array, out):
        absent = source >= bound if semiring.tropical == "min" else source <= bound
        if dtype != array.dtype:
            if (value := first_unrepresentable(source, absent, outer, dtype)) is not None:
                raise IntegerOverflowError(
                    f"{name} holds {value}, which {dtype} does not hold beside {int(outer)} for the zero of "
                    f"{semiring.name}: pass {source.dtype} operands"
                )
            source = source.astype(dtype)
        _select(target, absent, source, semiring.tropical == "min")
    return out


def _select(target: Any, absent: Array, numbers: Any, is_largest: bool) -> None:
    """Write an extreme value of its dtype to ``target`` where ``absent``, and the numbers elsewhere.

    The extreme value is the largest if ``is_largest``, else the smallest. No entry has a branch, which would be
    mispredicted for an irregular mask: the function is five times as fast as np.where.
    """
    low, high, _ = limits_of(target.dtype)
    if is_device_array(target):
        from semiring.kernels.cuda.entries.entry_passes import select

        select(target, absent, numbers, high if is_largest else low)
        return
    # The product is -1 (all bits 1) where absent, else 0. "xor" with one extreme value makes the other of -1, and
    # itself of 0.
    extremes = np.empty_like(target)
    np.multiply(absent, target.dtype.type(-1), out=extremes)
    np.bitwise_xor(extremes, low if is_largest else high, out=extremes)
    (np.maximum if is_largest else np.minimum)(numbers, extremes, out=target)


def first_unrepresentable(source: Array, absent: Array, outer: Any, dtype: np.dtype[Any]) -> int | None:
    """Return the first number that ``dtype`` cannot hold or that equals its "no path" ``outer``, or None."""
    limits = limits_of(dtype)
    bad = ((source < limits.min) | (source > limits.max) | (source == int(outer))) & ~absent
    return int(source[bad][:1].max()) if bad.any() else None


def _paired_rows(source: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the same rows of two arrays of one shape, some hundred KiB at a time, so that temporaries stay small."""
    if source.ndim == 0 or source.nbytes <= PIECE or is_device_array(source):
        yield source, target
        return
    step = max(1, PIECE * source.shape[0] // source.nbytes)
    for start in range(0, source.shape[0], step):
        yield source[start : start + step], target[start : start + step]
