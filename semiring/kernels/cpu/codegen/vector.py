"""Operators on vectors of LLVM IR, so that a code generator reads like arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir
import numpy as np

from semiring.kernels.cpu.codegen.target import Target

Value = Any  # an llvmlite value: llvmlite has no types

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)


@dataclass(frozen=True)
class ElementType:
    """An element type: its names in NumPy and LLVM, and its comparisons."""

    dtype: np.dtype[Any]

    @property
    def ir(self) -> Any:
        if self.dtype.kind == "f":
            return ir.FloatType() if self.size == 4 else ir.DoubleType()
        return ir.IntType(8 * self.size)

    @property
    def size(self) -> int:
        return self.dtype.itemsize

    @property
    def is_floating(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def is_signed(self) -> bool:
        return self.dtype.kind == "i"

    def constant(self, value: Any) -> Value:
        """Return a scalar constant, rounded to the element type."""
        return ir.Constant(self.ir, float(self.dtype.type(value)) if self.is_floating else int(value))


def constant_vector(element: ir.Type, value: Any, lanes: int) -> Value:
    """Return a constant vector whose lanes all hold one value."""
    return ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def splat(builder: Any, scalar: Value, lanes: int) -> Value:
    """Return a vector with a value in every lane."""
    seed = builder.insert_element(
        ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined), scalar, ir.Constant(I32, 0)
    )
    return builder.shuffle_vector(seed, seed, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


class Vectors:
    """The builder of instructions on vectors of ``lanes`` elements. Truth values are vectors of i1."""

    def __init__(self, builder: Any, element: ElementType, lanes: int) -> None:
        self.builder, self.element, self.lanes = builder, element, lanes
        self.suffix = f"v{lanes}"  # in the names of intrinsics
        self.type = ir.VectorType(element.ir, lanes)
        self.bits_type = ir.VectorType(ir.IntType(8 * element.size), lanes)

    # -------------------------------------------------------------------------------------------------- constants

    def constant(self, value: Any) -> Value:
        typed = float(self.element.dtype.type(value)) if self.element.is_floating else int(value)
        return constant_vector(self.element.ir, typed, self.lanes)

    def bits(self, value: int) -> Value:
        """Return a vector of integers as wide as the elements."""
        return constant_vector(ir.IntType(8 * self.element.size), value, self.lanes)

    def splat(self, scalar: Value) -> Value:
        return splat(self.builder, scalar, self.lanes)

    # ------------------------------------------------------------------------------------------- calls of intrinsics

    def call(self, name: str, *args: Value) -> Value:
        """Call the LLVM intrinsic ``llvm.<name>`` on vectors of one type."""
        kind = args[0].type
        element = getattr(kind, "element", kind)
        letter = "f" if isinstance(element, (ir.FloatType, ir.DoubleType)) else "i"
        full = f"llvm.{name}.{self.suffix}{letter}{8 * self.element.size}"
        return self.builder.call(
            declare_function(self.builder.module, full, ir.FunctionType(kind, [kind] * len(args))), args
        )

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self.call("fma", x, y, z)

    def less_than(self, x: Value, y: Value) -> Value:
        return self.compare("<", x, y)

    def compare(self, op: str, x: Value, y: Value) -> Value:
        builder = self.builder
        if self.element.is_floating:
            return (builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered)(op, x, y)
        return (builder.icmp_signed if self.element.is_signed else builder.icmp_unsigned)(op, x, y)

    def select(self, truth: Value, x: Value, y: Value) -> Value:
        return self.builder.select(truth, x, y)

    def as_bits(self, x: Value) -> Value:
        return self.builder.bitcast(x, self.bits_type)

    def from_bits(self, x: Value) -> Value:
        return self.builder.bitcast(x, self.type)


class Scalars(Vectors):
    """The builder of instructions on single elements, with the interface of `Vectors`. Truth values are i1."""

    def __init__(self, builder: Any, element: ElementType) -> None:
        super().__init__(builder, element, 1)
        self.suffix = ""
        self.type, self.bits_type = element.ir, ir.IntType(8 * element.size)

    def constant(self, value: Any) -> Value:
        return self.element.constant(value)

    def bits(self, value: int) -> Value:
        return ir.Constant(self.bits_type, value)

    def splat(self, scalar: Value) -> Value:
        return scalar


def make_opaque(builder: Any, value: Value, target: Target) -> Value:
    """Return the same vector, hidden from the optimiser.

    This takes no instruction. Between a select and the store of its result, it prevents LLVM from merging the two into
    one masked store. On Zen 4 such a store cannot be forwarded to a load, and an early load waits for it.
    """
    bits = value.type.count * (value.type.element.width if hasattr(value.type.element, "width") else 0)
    bits = bits or value.type.count * (32 if isinstance(value.type.element, ir.FloatType) else 64)
    if bits > 8 * target.vector_bytes or not (target.is_x86 or target.is_arm64):
        return value  # several registers
    constraint = "=v,0" if target.has_avx512 else "=x,0" if target.is_x86 else "=w,0"
    return builder.call(ir.InlineAsm(ir.FunctionType(value.type, [value.type]), "", constraint), [value])


def declare_function(module: Any, name: str, kind: Any) -> Any:
    """Return the function ``name`` of a module, and declare it if the module lacks it."""
    return module.globals[name] if name in module.globals else ir.Function(module, kind, name)


def prefetch(builder: Any, pointer: Value, *, write: bool = False, second_level: bool = False) -> None:
    """Prefetch a cache line into the first-level cache, or with ``second_level`` into the second."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    function = declare_function(builder.module, "llvm.prefetch.p0", kind)
    how = [int(write), 2 if second_level else 3, 1]
    builder.call(function, [pointer, *(ir.Constant(I32, number) for number in how)])
