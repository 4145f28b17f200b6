"""The scalar chain of a closure: eliminate the pivots of a small block, one after the other.

Sources: Lehmann, "Algebraic structures for transitive closure", Theoretical Computer Science 4 (1977); Floyd and
Warshall if ⊕ is idempotent. C interface, 64-bit integers, strides in bytes:

    eliminate(n, a, a_row) -> the first pivot without a star, or -1

The block is (n, n). Its rows are padded to a group of vectors, which are read and written too. The pivot's row is kept
in registers. ``a`` is aligned to vectors.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.numba_internals import for_range
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import I1, I32, I64, ElementType, Value, Vectors
from semiring.kernels.cpu.product.micro_kernel import Pair
from semiring.kernels.definition import KernelDefinition

__all__ = ["ELIMINATE_ARGUMENTS", "build_eliminate"]

ELIMINATE_ARGUMENTS = ("n", "a", "a_row")


def build_eliminate(module: Any, name: str, definition: KernelDefinition, target: Target, group: int) -> None:
    """Add the function to an LLVM module, for rows of ``group`` vectors.

    The definition must have a star.
    """
    function = ir.Function(module, ir.FunctionType(I64, [I64] * len(ELIMINATE_ARGUMENTS)), name)
    for argument, label in zip(function.args, ELIMINATE_ARGUMENTS, strict=True):
        argument.name = label
    _EliminationBuilder(function, definition, target, group).build()


class _EliminationBuilder:
    def __init__(self, function: Any, definition: KernelDefinition, target: Target, group: int) -> None:
        self.definition, self.target, self.group = definition, target, group
        self.arguments = {argument.name: argument for argument in function.args}
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.element = ElementType(definition.dtype)
        self.lanes = target.vector_bytes // self.element.size
        self.vectors = Vectors(self.builder, self.element, self.lanes)
        self.pair = Pair(self.vectors, definition, target)

    # ------------------------------------------------------------------------------------------------- addressing

    def address(self, base: str, row: Value, column: Value, size: int) -> Value:
        b = self.builder
        offset = b.add(b.mul(row, self.arguments[f"{base}_row"]), b.mul(column, ir.Constant(I64, size)))
        return b.add(self.arguments[base], offset)

    def load(self, address: Value, kind: Any, align: int) -> Value:
        value = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        value.align = align
        return value

    def store(self, value: Value, address: Value, align: int) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer())).align = align

    def entry_address(self, i: Value, j: Value) -> Value:
        return self.address("a", i, j, self.element.size)

    # ------------------------------------------------------------------------------------------------------- code

    def build(self) -> None:
        b, n = self.builder, self.arguments["n"]
        _ = self.pair.one
        with for_range(b, n) as pivots:
            k = pivots.index
            corner = self.entry_address(k, k)
            pivot = self.vectors.splat(self.load(corner, self.element.ir, self.element.size))
            self.emit_divergence_exit(pivot, k)
            star = self.lower_unary(self.definition.star, pivot)
            row = self.update_pivot_row(k, star, corner)
            with for_range(b, n) as rows, b.if_then(b.icmp_signed("!=", rows.index, k)):
                self.update_row(rows.index, k, row)
        b.ret(ir.Constant(I64, -1))

    def lower_unary(self, expression: Any, x: Value) -> Value:
        return lower(self.vectors, self.target, expression, {"x": Operand(x)}).value

    def emit_divergence_exit(self, pivot: Value, k: Value) -> None:
        """Emit the code that returns k if the pivot has no star."""
        if self.definition.divergence is None:
            return
        truth = self.lower_unary(self.definition.divergence, pivot)
        if truth.type != ir.VectorType(I1, self.lanes):
            return
        with self.builder.if_then(self.builder.extract_element(truth, ir.Constant(I32, 0)), likely=False):
            self.builder.ret(k)

    def update_pivot_row(self, k: Value, star: Value, corner: Value) -> list[Value]:
        """Replace row k by star ⊗ row k, and its diagonal entry by the star, and return the row."""
        for column in self.columns:
            address, old = self.load_vector(k, column)
            product = self.pair.product(star, old)
            new = self.pair.sum(old, product) if self.definition.idempotent else product.value
            self.store(new, address, self.target.vector_bytes)
        self.store(self.builder.extract_element(star, ir.Constant(I32, 0)), corner, self.element.size)
        return [self.load_vector(k, column)[1] for column in self.columns]

    def update_row(self, i: Value, k: Value, row: list[Value]) -> None:
        """Replace row i by row i ⊕ A[i, k] ⊗ row k.

        Its entry in column k starts from 0̄ unless ⊕ is idempotent.
        """
        address = self.entry_address(i, k)
        scalar = self.load(address, self.element.ir, self.element.size)
        factor = self.vectors.splat(scalar)
        if not self.definition.idempotent:
            self.store(self.element.constant(self.definition.zero.leaf), address, self.element.size)
        for vector, column in zip(row, self.columns, strict=True):
            target, old = self.load_vector(i, column)
            self.store(self.pair.accumulate(old, factor, vector), target, self.target.vector_bytes)

    @property
    def columns(self) -> list[Value]:
        """The first columns of the vectors of a row."""
        return [ir.Constant(I64, n * self.lanes) for n in range(self.group)]

    def load_vector(self, i: Value, column: Value) -> tuple[Value, Value]:
        address = self.entry_address(i, column)
        return address, self.load(address, self.vectors.type, self.target.vector_bytes)
