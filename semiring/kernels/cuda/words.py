"""How the elements of a product lie in the registers of a kernel: as words of one, two or thirty-two elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Int32
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm

__all__ = ["WordFormat"]

_SCALARS = {
    "float32": cutlass.Float32,
    "float64": cutlass.Float64,
    "int32": cutlass.Int32,
    "int64": cutlass.Int64,
    "int16": cutlass.Int16,
    "float16": cutlass.Float16,
}


@dataclass(frozen=True)
class WordFormat:
    """One element a word, two (int16, float16), or 32 truth values.

    A word runs along the columns of B and C. An element of A meets whole words, so where there are two or 32 it is
    *splatted*: repeated in every lane while it is staged. One element narrower than a word is *wide*: it lies in memory
    as a float32 or an int32, and is computed on in its own type.
    """

    dtype: str  # what the expressions compute on; int32 for packed truth values, all of whose operations are bitwise
    lanes: int = 1

    @property
    def bits(self) -> bool:
        """Whether a word holds 32 truth values."""
        return self.lanes == 32

    @property
    def wide(self) -> bool:
        """Whether a word holds one element narrower than itself."""
        return self.lanes == 1 and np.dtype(self.dtype).itemsize < 4

    @property
    def numpy_word(self) -> np.dtype[Any]:
        """The dtype of a word in memory."""
        if self.wide:
            return np.dtype(np.float32 if self.dtype == "float16" else np.int32)
        return np.dtype(np.int32 if self.lanes > 1 else self.dtype)

    @property
    def word(self) -> Any:
        """The type of a word in the kernel."""
        return _SCALARS[self.numpy_word.name]

    @property
    def element(self) -> Any:
        """The type of an element of A in memory; for truth values the word that holds 32 of a row."""
        return _SCALARS[self.dtype] if self.lanes == 2 else self.word

    def constant(self, value: Any) -> int | float:
        """A word all of whose lanes are ``value``, as a Python number."""
        if self.bits:
            return -1 if value else 0
        if self.lanes == 2:
            pattern = int(np.asarray(value, self.dtype).view(np.uint16))
            return int(np.asarray(pattern << 16 | pattern, np.uint32).view(np.int32))
        number: int | float = self.numpy_word.type(np.dtype(self.dtype).type(value)).item()
        return number

    def splat(self, element: Any) -> Any:
        """A word with an element of A in every lane."""
        if self.lanes != 2:
            return element
        half, word = _integer(16), _integer(32)
        value = element.ir_value()
        low = Int32(llvm.zext(word, value if value.type == half else llvm.bitcast(half, value)))
        return low | (low << 16)

    def lane(self, word: Any, index: int) -> Any:
        """A word with lane ``index`` of a word of two in both lanes: one byte permutation."""
        pattern = 0x1010 if index == 0 else 0x3232
        return Int32(cute.arch.prmt(word, word, pattern))

    def unpack(self, word: ir.Value) -> ir.Value:
        """The word as the value that expressions are lowered on: itself, an element of it, or a vector of two."""
        if self.wide:
            if self.dtype == "float16":
                return arith.truncf(ir.F16Type.get(), word)
            return arith.trunci(_integer(1 if self.dtype == "bool" else 8 * np.dtype(self.dtype).itemsize), word)
        if self.lanes != 2:
            return word
        half = ir.F16Type.get() if self.dtype == "float16" else _integer(16)
        return llvm.bitcast(ir.VectorType.get([2], half), word)

    def pack(self, value: ir.Value) -> ir.Value:
        """The inverse of `unpack`."""
        if self.wide:
            if self.dtype == "float16":
                return arith.extf(ir.F32Type.get(), value)
            return (arith.extsi if self.dtype.startswith("int") else arith.extui)(_integer(32), value)
        return llvm.bitcast(_integer(32), value) if self.lanes == 2 else value


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)
