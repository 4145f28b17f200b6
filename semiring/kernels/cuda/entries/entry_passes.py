"""Run passes over the elements of CuPy arrays in one kernel at memory bandwidth, where array operations take several.

A `Pass` is a C++ statement that assigns y from x. Folds along axes are reductions of CuPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.device import load_cupy
from semiring.arrays.float_order import MAGNITUDE_BITS
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch
from semiring.logs import CACHED_SECONDS, Compilation
from semiring.namespaces import Array

_THREADS = 256  # as in pass.cu
_BLOCKS = 1056  # eight blocks for each multiprocessor of an H200
_UNROLL = 4  # as in pass.cu
#: The integer types of C++ by their size in bytes.
SIZES = {1: "char", 2: "short", 4: "int", 8: "long long"}


@dataclass(frozen=True, eq=False)
class Pass:
    """One statement about every element, compiled once for a size of elements.

    ``statement`` assigns ``y`` from ``x``, the previous value of the element. Both are signed or unsigned integers of
    the elements' size, of type ``T``. ``parameters`` are of type T too. ``word``: whether an array of one int32,
    ``word``, follows the parameters. ``idle``: a condition on the word alone, under which no element changes.
    """

    name: str
    kind: Literal["i", "u"]
    statement: str
    parameters: tuple[str, ...] = ()
    word: bool = False
    idle: str = "false"

    def __call__(self, A: Array, out: Array, *values: Any) -> None:
        """Apply the statement to A, and write the result into out, of the same shape and dtype.

        Out is A, or shares no memory with it. ``values`` are the values of the parameters, and the word if there is
        one.
        """
        assert (A.dtype, A.shape) == (out.dtype, out.shape)
        if not A.size:
            return
        numbers, word = values[: len(self.parameters)], values[len(self.parameters) :]
        start, end = A.data.ptr, out.data.ptr
        if not (start | end) & 15:
            device = load_cupy().cuda.runtime.getDevice()
            launch = _prepare_launch(self, A.itemsize, A.shape, A.strides, out.strides, numbers, device)
            if launch is not None:
                launch(start, end, *(one.data.ptr for one in word))
                return
        integer = np.dtype(f"{self.kind}{A.itemsize}")
        self._elementwise(A.view(integer), *map(integer.type, numbers), out.view(integer), *word)

    @cached_property
    def _elementwise(self) -> Any:
        """Return the statement as a kernel of CuPy, for any strides."""
        inputs = ", ".join(("T x", *(f"T {name}" for name in self.parameters)))
        code = f"if (!({self.idle})) {{ y = x; {self.statement}; }}"
        return load_cupy().ElementwiseKernel(inputs, "T y, raw int32 word" if self.word else "T y", code, self.name)


@lru_cache(maxsize=4096)
def _prepare_launch(
    operation: Pass,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    out_strides: tuple[int, ...],
    numbers: tuple[Any, ...],
    device: int,
) -> PreparedLaunch | None:
    """Return the launch for two arrays aligned to 16 bytes, or None if rows are unaligned or not contiguous."""
    rows = _contiguous_rows(itemsize, shape, strides, out_strides)
    if rows is None:
        return None
    integer = np.dtype(f"{operation.kind}{itemsize}")
    packs = rows[0] * rows[1] * itemsize // 16
    blocks = max(1, min(_BLOCKS, -(-packs // (_THREADS * _UNROLL))))
    parameters = [None, None, *map(np.uint64, rows), *map(integer.type, numbers), *[None] * operation.word]
    return PreparedLaunch(_dense_kernel(operation, integer, device), (blocks,), (_THREADS,), parameters)


def _contiguous_rows(
    itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...], out_strides: tuple[int, ...]
) -> tuple[int, int, int, int] | None:
    """Return the layout of two arrays as rows of contiguous elements, in either order of dimensions.

    The result is the number of rows, their length, and the row strides of the first and of the second array in
    elements. It is None if there are no such rows, or if a row does not begin at a multiple of 16 bytes.
    """
    axes = [axis for axis in zip(shape, strides, out_strides, strict=True) if axis[0] > 1]
    axes.sort(key=lambda axis: -axis[1])
    loops: list[tuple[int, int, int]] = []
    for size, stride, out_stride in axes:
        if loops and loops[-1][1:] == (size * stride, size * out_stride):
            loops[-1] = loops[-1][0] * size, stride, out_stride
        else:
            loops.append((size, stride, out_stride))
    columns, *steps = loops.pop() if loops else (1, itemsize, itemsize)
    if steps != [itemsize, itemsize] or len(loops) > 1:
        return None
    count, stride, out_stride = loops[0] if loops else (1, 0, 0)
    if loops and (min(stride, out_stride) <= 0 or stride % 16 or out_stride % 16):
        return None
    return count, columns, stride // itemsize, out_stride // itemsize


def source(operation: Pass, integer: np.dtype[Any]) -> str:
    """Return the text of pass.cu for one statement and one element size."""
    text = Path(__file__).with_name("pass.cu").read_text("utf-8")
    parameters = "".join(f", T {name}" for name in operation.parameters) + (", int *word" if operation.word else "")
    before = "" if operation.idle == "false" else f"if ({operation.idle}) return;"
    for place, content in (("PARAMETERS", parameters), ("BEFORE", before), ("STATEMENT", operation.statement)):
        head, _, rest = text.rpartition(place)  # the last occurrence, because the comment has some of these words too
        text = head + content + rest
    return f"typedef {'signed' if operation.kind == 'i' else 'unsigned'} {SIZES[integer.itemsize]} T;\n{text}"


@lru_cache(maxsize=128)
def _dense_kernel(operation: Pass, integer: np.dtype[Any], device: int) -> Any:
    """Return the function on the current device, which is ``device``."""
    under_way = Compilation("conversion of entries", "this GPU")
    module = load_cupy().RawModule(code=source(operation, integer), options=("-std=c++17",))
    function = module.get_function("pass").kernel
    under_way.finish(CACHED_SECONDS)
    return function


# --------------------------------------------------------------------------------------------- the passes


@cache
def _select_kernel() -> Any:
    return load_cupy().ElementwiseKernel("bool absent, T number, T extreme", "T y", "y = absent ? extreme : number")


def select(target: Array, absent: Array, numbers: Array, extreme: float) -> None:
    """Write ``extreme`` into the target where ``absent``, and the number elsewhere. The target may be ``numbers``."""
    _select_kernel()(absent, numbers, target.dtype.type(extreme), target)


#: The C++ expression that folds two terms, by the name of ⊕. A minimum drops a NaN, as NumPy's fmin does.
_FOLDS = {
    "min": "(b != b || a < b) ? a : b",
    "max": "(b != b || a > b) ? a : b",
    "add": "a + b",
    "or": "a | b",
    "and": "a & b",
    "xor": "a ^ b",
}


@cache
def reduction(op: str, dtype: np.dtype[Any]) -> Any:
    """Return the kernel that folds an array of ``dtype`` along axes by ⊕, one of min, max, add, or, and, xor.

    It is called with the array and ``axis=``. float16 and bfloat16 are added in single precision.
    """
    wide = "float" if op == "add" and dtype.itemsize == 2 and is_floating(dtype) else None
    return load_cupy().ReductionKernel(
        "T x", "T y", "x", _FOLDS[op], "y = a", _neutral_literal(op, dtype), f"semiring_reduce_{op}_{dtype.name}", wide
    )


def _neutral_literal(op: str, dtype: np.dtype[Any]) -> str:
    """Return the C++ literal of the neutral element of ⊕."""
    if op in ("add", "or", "xor"):
        return "0"
    least = op == "max"  # "and" starts with all bits set, as a minimum of unsigned integers does
    if is_floating(dtype):
        return f"{'-' if least else ''}__int_as_float(0x7f800000)"
    if dtype.kind == "b" or op == "and":
        return "0" if least else "1" if dtype.kind == "b" else "-1"
    limits = np.iinfo(dtype)
    return f"{limits.min + 1}ll - 1" if least else f"{limits.max}ll"


_COPY = Pass("copy", "u", "y = x")


def copy(A: Array, out: Array) -> None:
    """Copy A to out, of the same dtype and without overlap, always by a kernel."""
    _COPY(A, out)


_SIGN = "T(T(1) << (8 * sizeof(T) - 1))"
_NONNEGATIVE = Pass(
    "nonnegative",
    "u",
    f"if (x >= {_SIGN}) {{ if (x == {_SIGN} || x > T({_SIGN} | infinity)) y = T(x ^ {_SIGN}); else word[0] = 1; }}",
    ("infinity",),
    word=True,
)


def copy_nonnegative(A: Array, out: Array) -> Any:
    """Write A, the sign bits of -0.0 and of NaN cleared, into ``out`` (which may be A).

    Returns a word (1,) int32, which is 1 if an entry was below 0. A NaN with a sign would sort before all numbers.
    """
    word = load_cupy().empty(1, np.int32)
    word.data.memset_async(0, word.nbytes)
    _NONNEGATIVE(A, out, _bits(np.inf, A.dtype), word)
    return word


_CLEAR = Pass("clear_zeros", "u", f"if (x == {_SIGN}) y = 0")


def clear_zeros(A: Array, out: Array) -> None:
    """Write the floats A into out, with 0.0 for -0.0. Out may be A."""
    _CLEAR(A, out)


_SPOIL = Pass("spoil", "u", "y = nan", ("nan",), word=True, idle="word[0] == 0")


def spoil(A: Array, word: Array) -> None:
    """Set all entries of A to NaN if the word is not 0.

    A caller that does not wait for the device then sees the error in the result.
    """
    _SPOIL(A, A, _bits(np.nan, A.dtype), word)


@cache
def _bits(value: float, dtype: np.dtype[Any]) -> int:
    return int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))


_NEGATE = Pass("negate", "u", f"y = T(x << 1) == 0 ? T(0) : T(x ^ {_SIGN})")


def negate(A: Array, out: Array) -> None:
    """Write 0 - A of floats into out, so that there is no -0.0. Out may be A."""
    _NEGATE(A, out)


_REPLACE = Pass(
    "replace_beyond",
    "i",
    "y = (least ? x >= bound : x <= bound) ? replacement : T(sign * x)",
    ("bound", "replacement", "least", "sign"),
)


def replace_beyond(A: Array, bound: Any, replacement: Any, out: Array, *, is_least: bool = True, sign: int = 1) -> None:
    """Write ``sign`` · A of integers into out, with the replacement for entries ≥ the bound.

    If ``is_least`` is false, entries ≤ the bound are replaced. ``sign`` is 1 or -1. Out may be A.
    """
    _REPLACE(A, out, bound, replacement, is_least, sign)


def _flip_source(x: str) -> str:
    """Return `semiring.arrays.float_order.flip_negative_bits` in CUDA C++."""
    return f"{x} ^ (({x} >> 31) & {MAGNITUDE_BITS:#x})"


_FLIP = Pass("flip", "i", f"y = {_flip_source('x')}")


def flip(bits: Array, out: Array) -> None:
    """Write the bits (int32) of floats into out as integers in the same order, or inversely, for any strides."""
    _FLIP(bits, out)


_ORDERED = Pass(
    "in_order",
    "i",
    f"const T from = back ? x : {_flip_source('x')};"
    "const T to = from == before_one ? after_one : from == before_two ? after_two : from;"
    f"y = back ? {_flip_source('to')} : to",
    ("back", "before_one", "after_one", "before_two", "after_two"),
)


def in_order(bits: Array, out: Array, replacements: Sequence[tuple[Any, Any]], is_inverse: bool) -> None:
    """Write the bits (int32) of floats into out as integers in the same order, or the inverse, in one pass.

    Out may be the bits. The map is that of `semiring.arrays.float_order.flip_negative_bits`. ``replacements`` has two
    pairs (before, after) of integers. They are replaced after the map, or before the inverse map if ``is_inverse``.
    """
    _ORDERED(bits, out, is_inverse, *replacements[0], *replacements[1])


_INFINITE = "__longlong_as_double(0x7ff0000000000000ll)"
_RELAXED = """
__device__ double relaxed(double w, double h, double low, double high) {
    return isinf(w) ? __longlong_as_double(0x7ff0000000000000ll) : fmax(w * low, w * high) + h;
}
"""


@cache
def _relax_kernel() -> Any:
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


def relax(A: Array, h: Array, sign: int, epsilon: float) -> Any:
    """Return the minimum over i of h[i] + w[i, j], (n,) float64, for weights w = ± A raised by ε |w|.

    ∞ of either sign is no edge. The function reads A (m, n) of floats once, without a temporary. h is (m,).
    """
    return _relax_kernel()(A, h[:, None], float(sign), 1 - epsilon, 1 + epsilon, axis=0)


_WHOLE = """
__device__ double graded(double w) {
    if (isinf(w)) return 0.0;
    return rint(w) == w ? fabs(w) : __longlong_as_double(0x7ff0000000000000ll);
}
"""


@cache
def _largest_whole_kernel() -> Any:
    return load_cupy().ReductionKernel(
        "T entry", "float64 y", "graded(double(entry))", "a > b ? a : b", "y = a", "0", "largest_whole", preamble=_WHOLE
    )


def largest_whole(A: Array) -> float:
    """Return the greatest magnitude of the finite entries of A (m, n), or ∞ if one of them is no whole number.

    The result is 0 if no entry is finite. The function waits for the device.
    """
    return float(_largest_whole_kernel()(A, axis=1).max())
