"""Define the operations of kernels on the words of `words.WordFormat`: MLIR types, packing and unpacking."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm

from semiring.kernels.cuda.product.words import WordFormat

__all__ = ["Registers"]

_SCALARS = {
    "float32": cutlass.Float32,
    "float64": cutlass.Float64,
    "int32": cutlass.Int32,
    "int64": cutlass.Int64,
    "int16": cutlass.Int16,
    "float16": cutlass.Float16,
    "bfloat16": cutlass.BFloat16,
}


class Registers:
    """The register words of one format inside a kernel."""

    def __init__(self, words: WordFormat) -> None:
        self.words = words
        self.word = _SCALARS[words.numpy_word.name]  # the type of a word
        #: The type of an element of A in memory. For truth values it is the type of a word, which holds 32 of them.
        self.element = _SCALARS[words.dtype] if words.lanes == 2 else self.word

    def splat(self, element: Any) -> Any:
        """Return a word with an element of A in every lane."""
        if self.words.lanes != 2:
            return element
        half, word = _integer(16), _integer(32)
        value = element.ir_value()
        low = Int32(llvm.zext(word, value if value.type == half else llvm.bitcast(half, value)))
        return low | (low << 16)

    def lane(self, word: Any, index: int) -> Any:
        """Return a word with lane ``index`` of a word of two in both lanes, by one byte permutation."""
        pattern = 0x1010 if index == 0 else 0x3232
        return Int32(cute.arch.prmt(word, word, pattern))

    def unpack(self, word: ir.Value) -> ir.Value:
        """Return the word as the value that expressions are lowered on: a scalar, or a vector of two."""
        if self.words.is_wide:
            if self.words.is_floating:
                return arith.truncf(_half(self.words), word)
            bits = 1 if self.words.dtype == "bool" else 8 * self.words.element_dtype.itemsize
            return arith.trunci(_integer(bits), word)
        if self.words.lanes != 2:
            return word
        half = _half(self.words) if self.words.is_floating else _integer(16)
        return llvm.bitcast(ir.VectorType.get([2], half), word)

    def pack(self, value: ir.Value) -> ir.Value:
        """Return the word of a value, the inverse of `unpack`."""
        if self.words.is_wide:
            if self.words.is_floating:
                return arith.extf(ir.F32Type.get(), value)
            return (arith.extsi if self.words.dtype.startswith("int") else arith.extui)(_integer(32), value)
        return llvm.bitcast(_integer(32), value) if self.words.lanes == 2 else value


def _half(words: WordFormat) -> ir.Type:
    return ir.BF16Type.get() if words.dtype == "bfloat16" else ir.F16Type.get()


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)
