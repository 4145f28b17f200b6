"""Passes over the elements of CuPy arrays that are one kernel where array operations would be several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from semiring.device.memory import load_cupy
from semiring.expressions.tree import is_floating

__all__ = ["copy", "copy_nonnegative", "in_order", "largest_whole", "reduction", "relax", "select", "spoil"]

Array: TypeAlias = Any  # a CuPy array


@cache
def _select() -> Any:
    return load_cupy().ElementwiseKernel("bool absent, T number, T extreme", "T y", "y = absent ? extreme : number")


def select(target: Array, absent: Array, numbers: Array, extreme: float) -> None:
    """Write ``extreme`` into the target where ``absent``, and the number elsewhere; the target may be ``numbers``."""
    _select()(absent, numbers, target.dtype.type(extreme), target)


#: How two terms fold, by ⊕. A minimum drops a NaN, as NumPy's fmin does.
_FOLDS = {
    "min": "(b != b || a < b) ? a : b",
    "max": "(b != b || a > b) ? a : b",
    "add": "a + b",
    "or": "a | b",
    "and": "a & b",
    "xor": "a ^ b",
}


def reduction(op: str, dtype: np.dtype[Any]) -> Any:
    """The kernel that folds an array of ``dtype`` along axes by ⊕, one of min, max, add, or, and, xor.

    It is called with the array and ``axis=``. Half-precision numbers are added in single precision.
    """
    return _reduction(op, dtype)


@cache
def _reduction(op: str, dtype: np.dtype[Any]) -> Any:
    wide = "float" if op == "add" and dtype.itemsize == 2 and is_floating(dtype) else None
    return load_cupy().ReductionKernel(
        "T x", "T y", "x", _FOLDS[op], "y = a", _start(op, dtype), f"semiring_reduce_{op}_{dtype.name}", wide
    )


def _start(op: str, dtype: np.dtype[Any]) -> str:
    """The C++ literal of a term that changes nothing."""
    if op in ("add", "or", "xor"):
        return "0"
    least = op == "max"  # "and" starts with all bits, as a minimum of unsigned integers does
    if is_floating(dtype):
        return f"{'-' if least else ''}__int_as_float(0x7f800000)"
    if dtype.kind == "b" or op == "and":
        return "0" if least else "1" if dtype.kind == "b" else "-1"
    limits = np.iinfo(dtype)
    return f"{limits.min + 1}ll - 1" if least else f"{limits.max}ll"


@cache
def _copy() -> Any:
    return load_cupy().ElementwiseKernel("T x", "T y", "y = x", "copied")


def copy(A: Array, out: Array) -> None:
    """Out ← A, of the same dtype and apart from it, always by a kernel."""
    _copy()(A, out)


@cache
def _copy_nonnegative() -> Any:
    code = "y = x + T(0); if (x < T(0)) word[0] = 1"
    return load_cupy().ElementwiseKernel("T x", "T y, raw int32 word", code, "copy_nonnegative")


def copy_nonnegative(A: Array, out: Array) -> Array:
    """Write A, -0.0 as 0.0, into ``out`` (which may be A). Returns an int32 word: 1 where an entry was below 0."""
    word = load_cupy().zeros(1, np.int32)
    _copy_nonnegative()(A, out, word)
    return word


@cache
def _spoil() -> Any:
    code = "if (word[0]) y = T(0) / T(0); else y = x"  # no conditional expression: half precision divides in single
    return load_cupy().ElementwiseKernel("T x, raw int32 word", "T y", code, "spoil")


def spoil(A: Array, word: Array) -> None:
    """Make every float of A a NaN where the word says so: nobody may wait to be told."""
    _spoil()(A, word, A)


_IN_ORDER = """
int inverted = x ^ ((x >> 31) & 0x7fffffff);
int from = back ? x : inverted;
int to = from == before_one ? after_one : from == before_two ? after_two : from;
y = back ? to ^ ((to >> 31) & 0x7fffffff) : to;
"""


@cache
def _in_order() -> Any:
    names = "int32 x, bool back, int32 before_one, int32 after_one, int32 before_two, int32 after_two"
    return load_cupy().ElementwiseKernel(names, "int32 y", _IN_ORDER, "in_order")


def in_order(bits: Array, replaced: Sequence[tuple[Any, Any]], back: bool) -> None:
    """Make the bits (int32) of floats integers in the same order, or go ``back``; in place, one pass over memory.

    Of a negative float all bits but the sign are inverted. Two integers are ``replaced``, each (before, after): behind
    the map, or ahead of the way back.
    """
    numbers = [np.int32(number) for pair in replaced for number in pair]
    _in_order()(bits, np.bool_(back), *numbers, bits)


_INFINITE = "__longlong_as_double(0x7ff0000000000000ll)"
_RELAXED = """
__device__ double relaxed(double w, double h, double low, double high) {
    return isinf(w) ? __longlong_as_double(0x7ff0000000000000ll) : fmax(w * low, w * high) + h;
}
"""


@cache
def _relax() -> Any:
    return load_cupy().ReductionKernel(
        "T w, float64 h, float64 sign, float64 low, float64 high",
        "float64 y",
        "relaxed(double(w) * sign, h, low, high)",
        "a < b ? a : b",
        "y = a",
        _INFINITE,
        "relax",
        preamble=_RELAXED,
    )


def relax(A: Array, h: Array, sign: int, epsilon: float) -> Array:
    """The minimum over i of h[i] + w[i, j], (n,) float64, for weights w = ± A raised by ε |w|; ∞ of any sign is none.

    One pass over A (m, n) of floats, without a temporary; h is (m,).
    """
    return _relax()(A, h[:, None], float(sign), 1 - epsilon, 1 + epsilon, axis=0)


_WHOLE = """
__device__ double graded(double w) {
    if (isinf(w)) return 0.0;
    return rint(w) == w ? fabs(w) : __longlong_as_double(0x7ff0000000000000ll);
}
"""


@cache
def _largest_whole() -> Any:
    return load_cupy().ReductionKernel(
        "T entry", "float64 y", "graded(double(entry))", "a > b ? a : b", "y = a", "0", "largest_whole", preamble=_WHOLE
    )


def largest_whole(A: Array) -> float:
    """The greatest size of a finite entry of A (m, n), 0 without one; ∞ where one is no whole number. Waits for it."""
    return float(_largest_whole()(A, axis=1).max())
