"""The closure of one block: the loops over its pivots, and the native elimination that they call.

Sources: Lehmann, "Algebraic structures for transitive closure", Theoretical Computer Science 4 (1977); Floyd and
Warshall if ⊕ is idempotent.

The loops are compiled once for each size of an element. They use the packing and the jobs of
`semiring.kernels.cpu.product.macro_kernel` and write the words of C. Five words follow the words of a product:

    ELIMINATE           the address of the native elimination
    PADDED              the columns of its block
    PIVOTS_AT_A_TIME    the pivots that it eliminates at a time
    ONE                 the bits of 1̄
    IDEMPOTENT          1 if ⊕ is idempotent, else 0

The elimination of some pivots, one after the other, has a C interface of 64-bit integers, strides in bytes:

    eliminate(n, a, a_row) -> the first pivot without a star, or -1

The block is (n, n). Its rows are padded to a group of vectors, which are read and written too. The pivot's row is kept
in registers. ``a`` is aligned to vectors.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.memory_intrinsics import LANE_BYTES, address, close3, fetch, put
from semiring.kernels.cpu.codegen.numba_internals import for_range
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import I1, I32, I64, Value
from semiring.kernels.cpu.product.macro_kernel import (
    C_COLUMN,
    C_ROW,
    ROWS,
    WIDTH,
    WORDS,
    ZERO,
    move_tile,
    pack_columns,
    pack_rows,
    tiles_in_row,
    word,
)
from semiring.kernels.cpu.product.micro_kernel import NativeBuilder
from semiring.kernels.definition import KernelDefinition

Array = Any  # inside a kernel: Numba's own types

ELIMINATE, PADDED, PIVOTS_AT_A_TIME, ONE, IDEMPOTENT = range(WORDS, WORDS + 5)
CLOSING_WORDS = WORDS + 5

ELIMINATE_ARGUMENTS = ("n", "a", "a_row")


@kernel
def close(A: Array, job: int, workspace: int) -> int:
    """Compute A ← A* in place, A (n, n), n > 0, with contiguous rows.

    Return the first pivot without a star, or -1. The native elimination closes the pivot block D. Then the rows K of
    the block become D* ⊗ (these rows). Every other row i becomes A[i, :] ⊕ A[i, K] ⊗ (the new rows K). Its entries A[i,
    K] start from 0̄ unless ⊕ is idempotent. This is block elimination, for every semiring with a star.
    """
    n, size, zero = A.shape[0], A.itemsize, fetch(A[0, 0], job + 8 * ZERO)
    one, idempotent = fetch(zero, job + 8 * ONE), word(job, IDEMPOTENT)
    rows, width, padded, pivots = word(job, ROWS), word(job, WIDTH), word(job, PADDED), word(job, PIVOTS_AT_A_TIME)
    unit = max(size, LANE_BYTES)
    a, row = address(A), A.strides[0]
    put(row, job + 8 * (C_ROW))
    put(size, job + 8 * (C_COLUMN))
    block = workspace
    panel = block + pivots * padded * size
    packed = panel + pivots * ((n + width - 1) // width * width) * size
    corner = packed + (pivots + rows) * pivots * unit
    for start in range(0, n, pivots):
        count = min(pivots, n - start)
        top = a + start * row
        failed_pivot: int = close_diagonal(
            top + start * size, row, count, word(job, ELIMINATE), block, padded, zero, size
        )
        if failed_pivot >= 0:
            return start + failed_pivot
        if count == n:
            break
        pack_columns(top, row, size, count, n, width, size, zero, panel)
        put_identity(panel, start, count, width, zero, one, size)
        pack_rows(block, padded * size, size, count, count, rows, size, 1, zero, packed)
        multiply_rows(job, top, count, n, packed, panel, count, zero, size, idempotent, corner)
        pack_columns(top, row, size, count, n, width, size, zero, panel)
        for first, last in ((0, start), (start + count, n)):
            for i in range(first, last, rows):
                m, line = min(rows, last - i), a + i * row
                pack_rows(line + start * size, row, size, m, count, rows, size, 1, zero, packed)
                if not idempotent:
                    fill(zero, m, count, line + start * size, row, size)
                multiply_rows(job, line, m, n, packed, panel, count, zero, size, 1, corner)
    return -1


@kernel
def close_each(As: Array, job: int, workspace: int) -> int:
    """Call `close` for every matrix of a stack (count, n, n).

    Return the first pivot without a star, or -1. Pivot k of matrix i has the number i·n + k.
    """
    for i in range(As.shape[0]):
        failed = int(close(As[i], job, workspace))
        if failed >= 0:
            return int(i * As.shape[1] + failed)
    return -1


@inner
def close_diagonal(
    diagonal: int, row: int, count: int, eliminate: int, block: int, padded: int, zero: Any, size: int
) -> int:
    """Close the pivot block in place and in ``block``.

    Return the first pivot without a star, or -1. The rows of ``block`` have ``padded`` elements.
    """
    block_row = padded * size
    fill(zero, count, padded - count, block + count * size, block_row, size)
    move_tile(zero, count, count, diagonal, row, size, block, block_row, size)
    failed_pivot = int(close3(eliminate, (count, block, block_row)))
    if failed_pivot < 0:
        move_tile(zero, count, count, block, block_row, size, diagonal, row, size)
    return failed_pivot


@inner
def put_identity(panel: int, start: int, count: int, width: int, zero: Any, one: Any, size: int) -> None:
    """Set columns from ``start`` on of a packed panel of ``count`` rows to the identity, because D* times it is D*."""
    for j in range(start, start + count):
        target = panel + j // width * width * count * size + j % width * size
        for i in range(count):
            put(one if j - start == i else zero, target + i * width * size)


@inner
def fill(value: Any, m: int, n: int, target: int, row: int, size: int) -> None:
    """Store ``value`` in m × n elements. The elements of a row are adjacent."""
    for i in range(m):
        for j in range(n):
            put(value, target + i * row + j * size)


@inner
def multiply_rows(
    job: int, c: int, m: int, n: int, packed: int, panel: int, steps: int, zero: Any, size: int, load: int, corner: int
) -> None:
    """Compute m rows of C, at the address ``c``, from packed rows of A and packed columns of B."""
    unit, rows, row = max(size, LANE_BYTES), word(job, ROWS), word(job, C_ROW)
    for i in range(0, m, rows):
        tiles_in_row(
            *(job, steps, packed + i * steps * unit, steps * unit, unit, panel, c + i * row, 0, min(rows, m - i), n),
            *(zero, size, load, 0, corner, 0, steps),
        )


# ---------------------------------------------------------------------------------------------- the native elimination


def build_eliminate(module: Any, name: str, definition: KernelDefinition, target: Target, group: int) -> None:
    """Add the function to an LLVM module, for rows of ``group`` vectors. The definition must have a star."""
    _EliminationBuilder(module, name, definition, target, group).build()


class _EliminationBuilder(NativeBuilder):
    def __init__(self, module: Any, name: str, definition: KernelDefinition, target: Target, group: int) -> None:
        super().__init__(module, name, ELIMINATE_ARGUMENTS, definition, target, result=I64)
        self.group = group

    def build(self) -> None:
        b, n = self.builder, self.arguments["n"]
        _ = self.pair.one
        with for_range(b, n) as pivots:
            k = pivots.index
            corner = self.element_address("a", k, k)
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
        if truth.type != ir.VectorType(I1, self.vectors.lanes):
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
        """Replace row i by row i ⊕ A[i, k] ⊗ row k. Its entry in column k starts from 0̄ unless ⊕ is idempotent."""
        address = self.element_address("a", i, k)
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
        return [ir.Constant(I64, n * self.vectors.lanes) for n in range(self.group)]

    def load_vector(self, i: Value, column: Value) -> tuple[Value, Value]:
        address = self.element_address("a", i, column)
        return address, self.load(address, self.vectors.type, self.target.vector_bytes)
