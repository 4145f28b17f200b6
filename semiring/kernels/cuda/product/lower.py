"""Lower an expression tree to MLIR inside a CuTe kernel: the same tree, the same order of operations, no contraction.

A register *word* is a scalar (one lane), or a 32-bit register that holds two 16-bit elements or 32 packed truth values.
NVPTX has packed instructions for vectors of two 16-bit elements (HADD2, VHMNMX, VIADDMNMX.S16x2), so the same lowering
at a vector type serves them. `Registers` packs and unpacks the words of a `specification.WordFormat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Float32, Int32
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm
from cutlass._mlir.dialects import math as mlir_math

from semiring.algebra.expressions import Expression, typed_constant
from semiring.algebra.expressions.tree import is_floating
from semiring.kernels.cuda.product.specification import WordFormat

_ORDERED = {"lt": "OLT", "le": "OLE", "gt": "OGT", "ge": "OGE", "eq": "OEQ", "ne": "UNE"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_PTX_TYPES = {
    "f16": ("f16", "h", 16),
    "f32": ("f32", "f", 32),
    "f64": ("f64", "d", 64),
    "bf16": ("bf16", "h", 16),
    "vector<2xf16>": ("f16x2", "r", 32),
    "vector<2xbf16>": ("bf16x2", "r", 32),
}


def _constant(type_: ir.Type, value: Any, dtype: np.dtype[Any]) -> ir.Value:
    """Return ``value`` in every lane of an MLIR scalar or vector type."""
    scalar = ir.VectorType(type_).element_type if ir.VectorType.isinstance(type_) else type_
    typed = typed_constant(value, dtype)
    if is_floating(dtype):
        attribute: Any = ir.FloatAttr.get(scalar, float(typed))
    else:
        attribute = ir.IntegerAttr.get(scalar, int(typed))
    if scalar is not type_:
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return arith.constant(type_, attribute)


def lower(
    expression: Expression, values: Mapping[str, ir.Value], dtype: np.dtype[Any], nan_variables: str = ""
) -> ir.Value:
    """Lower ``expression`` to MLIR, on operands of one scalar or vector type with elements of ``dtype``.

    ``nan_variables`` are the names of the variables that may be NaN, one letter each. Other variables are never NaN.
    """
    lowering = _Lowering(values, dtype, nan_variables)
    return expression.fold(lowering.leaf, lowering.node)


class _Lowering:
    """Emits the instructions for the nodes of an expression tree from the values of its variables."""

    def __init__(self, values: Mapping[str, ir.Value], dtype: np.dtype[Any], nan_variables: str) -> None:
        self.values, self.dtype, self.nan_variables = values, dtype, nan_variables
        self.type = next(iter(values.values())).type
        self.floating, self.signed = is_floating(dtype), dtype.kind == "i"

    def leaf(self, node: Expression) -> ir.Value:
        return self.values[str(node.leaf)] if node.op == "var" else _constant(self.type, node.leaf, self.dtype)

    def node(self, expression: Expression, args: list[ir.Value]) -> ir.Value:
        op, floating = expression.op, self.floating
        if op in _ORDERED:
            return self.compare(op, *args)
        if op in ("min", "max"):
            return self.extremum(op, expression.never_nan_argument(self.nan_variables), *args)
        if op == "where":
            return arith.select(*args)
        if op in ("and", "or", "xor"):
            return getattr(arith, op + "i")(*args)
        if op == "invert":
            ones = 1 if expression.kind == "truth" or self.dtype.kind == "b" else -1
            bits = args[0].type
            return arith.xori(args[0], arith.constant(bits, ir.IntegerAttr.get(bits, ones)))
        if op == "mul" and floating:
            return _rounded_product(*args)
        if op in ("add", "sub", "mul"):
            return getattr(arith, op + ("f" if floating else "i"))(*args)
        if op == "div":
            return arith.divf(*args)
        if op == "neg":
            return arith.negf(args[0]) if floating else arith.subi(_constant(self.type, 0, self.dtype), args[0])
        if op == "abs":
            return (mlir_math.absf if floating else mlir_math.absi)(args[0])
        return getattr(mlir_math, op)(args[0])

    def compare(self, op: str, x: ir.Value, y: ir.Value) -> ir.Value:
        if self.floating:
            return arith.cmpf(getattr(arith.CmpFPredicate, _ORDERED[op]), x, y)
        return arith.cmpi(getattr(arith.CmpIPredicate, (_SIGNED if self.signed else _UNSIGNED)[op]), x, y)

    def extremum(self, op: str, never_nan_argument: int | None, x: ir.Value, y: ir.Value) -> ir.Value:
        """Emit a minimum or maximum. ``never_nan_argument`` is the index of an operand that is never NaN, or None."""
        if not self.floating:
            return getattr(arith, op + ("si" if self.signed else "ui"))(x, y)
        if x.type == ir.F32Type.get():
            # On sm_90a arith.minnumf becomes FSETP and FSEL, and nvvm.fmin becomes FMNMX alone. Both drop a NaN.
            function = cute.arch.fmin if op == "min" else cute.arch.fmax
            return function(Float32(x), Float32(y)).ir_value()
        if ir.VectorType.isinstance(x.type):
            # ptxas compiles this to HMNMX2, and two consecutive ones to VHMNMX.
            word = ir.IntegerType.get_signless(32)
            operands = [llvm.bitcast(word, value) for value in (x, y)]
            text = f"{op}.{_PTX_TYPES[str(x.type)][0]} $0, $1, $2;"
            return llvm.bitcast(x.type, llvm.inline_asm(word, operands, text, "=r,r,r", has_side_effects=False))
        if x.type == ir.F64Type.get() and never_nan_argument is not None:
            # arith.minnumf takes twice the instructions: DSETP, FSEL, SEL, a LOP3 that makes a NaN quiet, and moves.
            first, other = (x, y) if never_nan_argument == 0 else (y, x)
            return arith.select(self.compare("lt" if op == "min" else "gt", other, first), other, first)
        return getattr(arith, op + "numf")(x, y)


def _rounded_product(x: ir.Value, y: ir.Value) -> ir.Value:
    """Emit a product that rounds, as inline PTX, because LLVM fuses a mulf with an addf whatever its flags are."""
    name, letter, bits = _PTX_TYPES[str(x.type)]
    type_ = ir.IntegerType.get_signless(bits) if letter in "hr" else x.type  # 16-bit floats are passed as integers
    operands = [llvm.bitcast(type_, value) if type_ != x.type else value for value in (x, y)]
    text, constraint = f"mul.rn.{name} $0, $1, $2;", f"={letter},{letter},{letter}"
    if name.startswith("bf16"):  # mul.bf16 needs sm_90; fma with -0 gives the same product on all targets
        zero = f"0x{'8000' * (bits // 16)}"
        text = f"{{.reg .b{bits} z; mov.b{bits} z, {zero}; fma.rn.{name} $0, $1, $2, z;}}"
    product = llvm.inline_asm(type_, operands, text, constraint, has_side_effects=False)
    return llvm.bitcast(x.type, product) if type_ != x.type else product


# ------------------------------------------------------------------------------------------ register words

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
