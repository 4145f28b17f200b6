"""Run passes over the elements of CuPy arrays at memory bandwidth: y ← a C++ statement of x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch
from semiring.logs import CACHED_SECONDS, Compilation
from semiring.namespaces import Array

__all__ = ["SIZES", "Pass", "source"]


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
