"""Passes over the elements of CuPy arrays at the speed of memory: y ← a statement of C++ about x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from semiring.arrays.device.memory import load_cupy
from semiring.logs import KEPT, Compilation

__all__ = ["SIZES", "Pass", "source"]

Array: TypeAlias = Any  # a CuPy array

_THREADS = 256  # as in pass.cu
_BLOCKS = 1056  # eight for each multiprocessor of an H200
_UNROLL = 4  # as in pass.cu
#: Integers of C++ by their bytes.
SIZES = {1: "char", 2: "short", 4: "int", 8: "long long"}


@dataclass(frozen=True)
class Pass:
    """One statement about every element, compiled once for a size of elements.

    ``statement`` gives ``y`` a value from ``x``, which it has before; both are integers of the elements' size, ``T``,
    with a sign or without. ``parameters`` are of type T too. ``word``: whether there is, after them, an array of one
    int32, ``word``. ``idle``: a condition, of the word alone, under which no element changes.
    """

    name: str
    kind: Literal["i", "u"]
    statement: str
    parameters: tuple[str, ...] = ()
    word: bool = False
    idle: str = "false"

    def __call__(self, A: Array, out: Array, *values: Any) -> None:
        """Out ← the statement of A, of the same shape and dtype; out is A, or shares no memory with it.

        ``values``: of the parameters, and the word.
        """
        assert (A.dtype, A.shape) == (out.dtype, out.shape)
        if not A.size:
            return
        integer = np.dtype(f"{self.kind}{A.itemsize}")
        numbers, word = [integer.type(x) for x in values[: len(self.parameters)]], values[len(self.parameters) :]
        shape = _Shape.of(A, out)
        if shape is None:
            self._elementwise(A.view(integer), *numbers, out.view(integer), *word)
            return
        packs = shape.rows * shape.columns * A.itemsize // 16
        blocks = max(1, min(_BLOCKS, -(-packs // (_THREADS * _UNROLL))))
        sizes = (np.uint64(size) for size in shape)
        _dense(self, integer)((blocks,), (_THREADS,), (A.data.ptr, out.data.ptr, *sizes, *numbers, *word))

    @cached_property
    def _elementwise(self) -> Any:
        """The same for any strides."""
        inputs = ", ".join(("T x", *(f"T {name}" for name in self.parameters)))
        code = f"if (!({self.idle})) {{ y = x; {self.statement}; }}"
        return load_cupy().ElementwiseKernel(inputs, "T y, raw int32 word" if self.word else "T y", code, self.name)


class _Shape(NamedTuple):
    """Two arrays of one shape as rows of elements that lie beside each other; strides in elements."""

    rows: int
    columns: int
    stride: int
    out_stride: int

    @classmethod
    def of(cls, A: Array, out: Array) -> _Shape | None:
        """None where rows are not dense, or do not all begin at addresses that 16 divides."""
        if (A.flags.c_contiguous and out.flags.c_contiguous) or (A.flags.f_contiguous and out.flags.f_contiguous):
            found = cls(1, A.size, 0, 0)
        elif A.ndim == 2 and A.strides[1] == out.strides[1] == A.itemsize and min(A.strides[0], out.strides[0]) > 0:
            found = cls(A.shape[0], A.shape[1], A.strides[0] // A.itemsize, out.strides[0] // A.itemsize)
        else:
            return None
        starts = A.data.ptr, out.data.ptr, found.stride * A.itemsize, found.out_stride * A.itemsize
        return found if all(start % 16 == 0 for start in starts) else None


def source(which: Pass, integer: np.dtype[Any]) -> str:
    """The text of pass.cu for one statement and one size of elements."""
    text = Path(__file__).with_name("pass.cu").read_text("utf-8")
    parameters = "".join(f", T {name}" for name in which.parameters) + (", int *word" if which.word else "")
    before = "" if which.idle == "false" else f"if ({which.idle}) return;"
    for place, content in (("PARAMETERS", parameters), ("BEFORE", before), ("STATEMENT", which.statement)):
        head, _, rest = text.rpartition(place)  # the last one: the comment has some of them too
        text = head + content + rest
    return f"typedef {'signed' if which.kind == 'i' else 'unsigned'} {SIZES[integer.itemsize]} T;\n{text}"


@lru_cache(maxsize=128)
def _dense(which: Pass, integer: np.dtype[Any]) -> Any:
    under_way = Compilation(f"the pass {which.name}", "this GPU")
    module = load_cupy().RawModule(code=source(which, integer), options=("-std=c++17",))
    function = module.get_function("pass")
    under_way.done(KEPT)
    return function
