"""The scalar chain of a closure: eliminate the pivots of a small block, one after the other.

Sources: Lehmann, "Algebraic structures for transitive closure", Theoretical Computer Science 4 (1977); Floyd and
Warshall if ⊕ is idempotent. C interface, 64-bit integers, strides in bytes:

    eliminate(n, a, a_row) -> the first pivot without a star, or -1
    eliminate_pivots(n, a, a_row, p, p_row, first, groups)

The block is (n, n). Its rows are padded to whole groups of vectors, which are read and written too. The first function
has one group and keeps the pivot's row in registers; the second has ``groups`` groups. ``a`` is aligned to vectors. If
pivot k changes an entry, P (int32, padded likewise) becomes ``first + k``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir

from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.numba_internals import for_range
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import I1, I32, I64, ElementType, Value, Vectors
from semiring.kernels.cpu.product.micro_kernel import Pair, constant_marks
from semiring.kernels.definition import KernelDefinition

__all__ = ["ELIMINATE_ARGUMENTS", "build_eliminate"]

ELIMINATE_ARGUMENTS = ("n", "a", "a_row")
PIVOT_ARGUMENTS = (*ELIMINATE_ARGUMENTS, "p", "p_row", "first", "groups")


def build_eliminate(
    module: Any, name: str, definition: KernelDefinition, target: Target, group: int, *, pivots: bool
) -> None:
    """Add the function to an LLVM module, for groups of ``group`` vectors.

    The definition must have a star.
    """
    arguments = PIVOT_ARGUMENTS if pivots else ELIMINATE_ARGUMENTS
    function = ir.Function(module, ir.FunctionType(I64, [I64] * len(arguments)), name)
    for argument, label in zip(function.args, arguments, strict=True):
        argument.name = label
    _EliminationBuilder(function, definition, target, group, pivots).build()


class _EliminationBuilder:
    def __init__(self, function: Any, definition: KernelDefinition, target: Target, group: int, pivots: bool) -> None:
        self.definition, self.target, self.group, self.pivots = definition, target, group, pivots
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
            mark = b.trunc(b.add(self.arguments["first"], k), I32) if self.pivots else None
            row = self.update_pivot_row(k, pivot, star, corner, mark)
            with for_range(b, n) as rows, b.if_then(b.icmp_signed("!=", rows.index, k)):
                self.update_row(rows.index, k, row, mark)
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

    def update_pivot_row(self, k: Value, pivot: Value, star: Value, corner: Value, mark: Value | None) -> list[Value]:
        """Replace row k by star ⊗ row k, and its diagonal entry by the star.

        Return the row if registers hold it.
        """
        b, v = self.builder, self.vectors
        first = ir.Constant(I32, 0)
        mark_address = self.address("p", k, k, 4) if mark is not None else None
        old_mark = self.load(mark_address, I32, 4) if mark is not None else None
        with self.columns() as columns:
            for column in columns:
                address, old = self.load_vector(k, column)
                product = self.pair.product(star, old)
                new = self.pair.sum(old, product) if self.definition.idempotent else product.value
                self.store_change(new, old, address, k, column, mark)
        self.store(b.extract_element(star, first), corner, self.element.size)
        if mark is not None:
            changed = b.extract_element(v.compare("!=", star, pivot), first)
            self.store(b.select(changed, mark, old_mark), mark_address, 4)
            return []
        with self.columns() as columns:
            return [self.load_vector(k, column)[1] for column in columns]

    def update_row(self, i: Value, k: Value, row: list[Value], mark: Value | None) -> None:
        """Replace row i by row i ⊕ A[i, k] ⊗ row k.

        Its entry in column k starts from 0̄ unless ⊕ is idempotent.
        """
        address = self.entry_address(i, k)
        scalar = self.load(address, self.element.ir, self.element.size)
        factor = self.vectors.splat(scalar)
        if not self.definition.idempotent:
            self.store(self.element.constant(self.definition.zero.leaf), address, self.element.size)
        with self.columns() as columns:
            for n, column in enumerate(columns):
                vector = row[n] if row else self.load_vector(k, column)[1]
                target, old = self.load_vector(i, column)
                self.store_change(self.pair.accumulate(old, factor, vector), old, target, i, column, mark)

    @contextmanager
    def columns(self) -> Iterator[list[Value]]:
        """Yield the first columns of the vectors of a row: of its one group, or of each group in a loop."""
        b, lanes = self.builder, self.lanes
        if not self.pivots:
            yield [ir.Constant(I64, n * lanes) for n in range(self.group)]
            return
        with for_range(b, self.arguments["groups"]) as loop:
            start = b.mul(loop.index, ir.Constant(I64, self.group * lanes))
            yield [b.add(start, ir.Constant(I64, n * lanes)) for n in range(self.group)]

    def load_vector(self, i: Value, column: Value) -> tuple[Value, Value]:
        address = self.entry_address(i, column)
        return address, self.load(address, self.vectors.type, self.target.vector_bytes)

    def store_change(self, new: Value, old: Value, address: Value, i: Value, column: Value, mark: Value | None) -> None:
        self.store(new, address, self.target.vector_bytes)
        if mark is not None:
            marks = constant_marks(self.builder, mark, self.lanes)
            p = self.address("p", i, column, 4)
            changed = self.vectors.compare("!=", new, old)
            self.store(self.builder.select(changed, marks, self.load(p, marks.type, 4)), p, 4)
