"""Multiply a row by gathered rows of a matrix: the inner loop of triangular solves and fronts.

A native function, C interface, 64-bit integers, addresses and strides in bytes, any alignment:

    fold(c, width, base, stride, index, count, factors, step)
        c[e] ← c[e] ⊕ ⊕ over a < count of factor[a] ⊗ x[a, e],  e < width

Here factor[a] is at factors + a·step and x[a] at base + index[a]·stride, with int32 index. ``vector_first``: with x ⊗
factor. The candidates of an entry come in the order of a. Entries stay in registers while a runs: four vectors of them
at a time, then two, one, and halves of one, so that no row is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numpy.typing import NDArray

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.native import compile_native
from semiring.kernels.cpu.codegen.numba_internals import alloca_once_value, for_range
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.cpu.codegen.vector import I32, I64, Scalars, Value, Vectors
from semiring.kernels.cpu.product.matvec import build_dots
from semiring.kernels.cpu.product.micro_kernel import NativeBuilder, Pair
from semiring.kernels.definition import KernelDefinition, define

ARGUMENTS = ("c", "width", "base", "stride", "index", "count", "factors", "step")
_ABREAST = 4  # vectors of a row that stay in registers together


@dataclass(frozen=True)
class FoldFunctions:
    """The addresses of the native functions c ⊕ factor ⊗ x and c ⊕ x ⊗ factor, and the indices of adjacent rows.

    Both addresses are equal if ⊗ is commutative.
    """

    left: int  # of c ⊕ factor ⊗ x
    right: int  # of c ⊕ x ⊗ factor
    ordinals: NDArray[Any]  # int32, 0, 1, …

    @property
    def addresses(self) -> tuple[int, int, int]:
        """The addresses of both functions and of the indices."""
        return self.left, self.right, self.ordinals.ctypes.data


def folds_for(plan: KernelPlan, rows: int) -> FoldFunctions:
    """Return the functions for a plan, compiled if they are new, and the indices of ``rows`` adjacent rows."""
    left = _address(plan, vector_first=False)
    right = left if plan.semiring.commutative else _address(plan, vector_first=True)
    return FoldFunctions(left, right, np.arange(rows, dtype=np.int32))


def dots_for(plan: KernelPlan) -> tuple[int, int]:
    """Return the address of ``dots`` (`semiring.kernels.cpu.product.matvec`), and the lanes of a vector."""
    what, target = f"{plan.semiring.name} {plan.dtype} sparse factorization", host()
    function = compile_native(build_dots, define(plan), target, purpose=what, vector_first=False)
    return function, target.vector_bytes // plan.dtype.itemsize


def _address(plan: KernelPlan, *, vector_first: bool) -> int:
    what = f"{plan.semiring.name} {plan.dtype} sparse factorization"
    return compile_native(build_fold, define(plan), host(), purpose=what, vector_first=vector_first)


def build_fold(
    module: Any, name: str, definition: KernelDefinition, target: Target, *, vector_first: bool = False
) -> None:
    """Add the function to an LLVM module."""
    _FoldBuilder(module, name, definition, target, vector_first).build()


class _PlainPair(Pair):
    """A pair whose sums are not written as multiply-adds, because those need whole registers and change no bit."""

    one = None


class _FoldBuilder(NativeBuilder):
    def __init__(
        self, module: Any, name: str, definition: KernelDefinition, target: Target, vector_first: bool
    ) -> None:
        super().__init__(module, name, ARGUMENTS, definition, target)
        self.vector_first = vector_first

    def build(self) -> None:
        b, lanes = self.builder, self.vectors.lanes
        offset_slot = alloca_once_value(b, ir.Constant(I64, 0))
        pieces = [(lanes, _ABREAST), (lanes, 2), *((lanes >> half, 1) for half in range(lanes.bit_length()))]
        kinds = [
            (Vectors(b, self.element, lanes) if lanes > 1 else Scalars(b, self.element), count)
            for lanes, count in pieces
        ]
        pairs = [
            (Pair if vectors.lanes == lanes else _PlainPair)(vectors, self.definition, self.target)
            for vectors, _ in kinds
        ]
        for pair in pairs:
            _ = pair.one  # built in the first block, so that all blocks can use it
        for (vectors, count), pair in zip(kinds, pairs, strict=True):
            self.build_loop(offset_slot, vectors, count, pair)
        b.ret_void()

    def build_loop(self, offset_slot: Value, vectors: Vectors, count: int, pair: Pair) -> None:
        """Build the loop over all remaining pieces of ``count`` vectors."""
        b, width = self.builder, self.arguments["width"]
        size = ir.Constant(I64, vectors.lanes * count)
        check, body, after = (b.append_basic_block() for _ in range(3))
        b.branch(check)
        b.position_at_end(check)
        start = b.load(offset_slot)
        end = b.add(start, size)
        b.cbranch(b.icmp_signed("<=", end, width), body, after)
        b.position_at_end(body)
        self.build_piece(b.mul(start, ir.Constant(I64, self.element.size)), vectors, count, pair)
        b.store(end, offset_slot)
        b.branch(check)
        b.position_at_end(after)

    def build_piece(self, offset: Value, vectors: Vectors, count: int, pair: Pair) -> None:
        b, arguments = self.builder, self.arguments
        bytes_each = vectors.lanes * self.element.size
        cells = [b.add(arguments["c"], b.add(offset, ir.Constant(I64, bytes_each * i))) for i in range(count)]
        sums = [alloca_once_value(b, self.load(cell, vectors.type)) for cell in cells]
        with for_range(b, arguments["count"]) as loop:
            a = loop.index
            row = b.sext(self.load(b.add(arguments["index"], b.mul(a, ir.Constant(I64, 4))), I32), I64)
            line = b.add(b.add(arguments["base"], b.mul(row, arguments["stride"])), offset)
            scalar = self.load(b.add(arguments["factors"], b.mul(a, arguments["step"])), self.element.ir)
            factor = vectors.splat(scalar)
            for i, accumulator in enumerate(sums):
                x = self.load(b.add(line, ir.Constant(I64, bytes_each * i)), vectors.type)
                left, right = (x, factor) if self.vector_first else (factor, x)
                b.store(pair.accumulate(b.load(accumulator), left, right), accumulator)
        for accumulator, cell in zip(sums, cells, strict=True):
            self.store(b.load(accumulator), cell)
