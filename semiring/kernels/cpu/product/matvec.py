"""Products of a matrix and a vector, which read every element once and are limited by memory.

A tile would pad and pack the vector. So there are two native functions for these products.

C interface, 64-bit integers, ``a_row`` in bytes, all other operands with adjacent elements:

    dots(rows, steps, a, a_row, x, c):      c[i] ← c[i] ⊕ (⊕ₖ a[i, k] ⊗ x[k]), ``steps`` a multiple of the lanes
    updates(columns, steps, a, a_row, x, c): c[j] ← c[j] ⊕ (⊕ₖ a[k, j] ⊗ x[k]), ``columns`` a multiple of the lanes
    witness_dots(rows, steps, a, a_row, x, c, w): c[i] ← ⊕ₖ a[i, k] ⊗ x[k], w[i] the smallest k that attains it, or -1

The first is for contiguous rows, with partial sums in the lanes of four vectors. The second is for rows along c, eight
of them at a time. If the vector is the left factor, the term is x[k] ⊗ a. The end of a row beyond the last whole vector
is copied and padded with 0̄. Every c[i] is computed in one order, independently of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np

from semiring.kernels.contract import Array
from semiring.kernels.cpu.codegen.lowering import Operand, lower
from semiring.kernels.cpu.codegen.numba_internals import alloca_once, for_range, for_range_slice
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import I32, I64, Value, splat
from semiring.kernels.cpu.product.micro_kernel import NativeBuilder
from semiring.kernels.cpu.thread_pool import run_on_ranges
from semiring.kernels.definition import KernelDefinition

ARGUMENTS = ("count", "steps", "a", "a_row", "x", "c")
WITNESS_ARGUMENTS = (*ARGUMENTS, "w")  # w is int32
_PARTIAL = 4  # vectors of partial sums of a row
_ROWS = 8  # rows that are added in one pass over c

_prototype: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(ARGUMENTS))
_witness_prototype: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(WITNESS_ARGUMENTS))


class _VectorProductBuilder(NativeBuilder):
    def __init__(
        self,
        module: Any,
        name: str,
        definition: KernelDefinition,
        target: Target,
        *,
        vector_first: bool,
        labels: Sequence[str] = ARGUMENTS,
    ) -> None:
        super().__init__(module, name, labels, definition, target)
        self.zero, self.vector_first = self.vectors.constant(definition.zero.leaf), vector_first
        _ = self.pair.one  # built in the first block, so that all blocks can use it

    def line_address(self, base: str, index: Value) -> Value:
        """Return the address of an element of an operand without rows."""
        return self.builder.add(self.arguments[base], self.builder.mul(index, ir.Constant(I64, self.element.size)))

    def accumulate(self, c: Value, a: Value, x: Value) -> Value:
        return self.pair.accumulate(c, x, a) if self.vector_first else self.pair.accumulate(c, a, x)

    def join(self, left: Value, right: Value) -> Value:
        """Return the ⊕ of two vectors of sums, which is NaN only if ⊕ itself makes NaN of other numbers."""
        add = self.definition.add
        result = lower(self.vectors, self.target, add, {"x": Operand(left), "y": Operand(right)})
        if result.may_be_nan:
            variables = {"x": Operand(left, True), "y": Operand(right, True)}
            result = lower(self.vectors, self.target, add, variables)
        return result.value

    def reduce_lanes(self, sums: Value) -> Value:
        """Return the ⊕ of all lanes, by adding the upper half of the lanes to the lower half repeatedly."""
        lanes = self.vectors.lanes
        while lanes > 1:
            lanes //= 2
            places = [min(lane + lanes, self.vectors.lanes - 1) for lane in range(self.vectors.lanes)]
            mask = ir.Constant(ir.VectorType(I32, self.vectors.lanes), places)
            sums = self.join(sums, self.builder.shuffle_vector(sums, sums, mask))
        return self.builder.extract_element(sums, ir.Constant(I32, 0))

    def build_dots(self) -> None:
        b, steps, lanes = self.builder, self.arguments["steps"], self.vectors.lanes
        partial = [alloca_once(b, self.vectors.type) for _ in range(_PARTIAL)]
        group = ir.Constant(I64, lanes * _PARTIAL)
        whole = b.mul(b.sdiv(steps, group), group)
        with for_range(b, self.arguments["count"]) as rows:
            i = rows.index
            for sums in partial:
                b.store(self.zero, sums)
            for start, stop, used in ((ir.Constant(I64, 0), whole, partial), (whole, steps, partial[:1])):
                step = ir.Constant(I64, lanes * len(used))
                with for_range_slice(b, start, stop, step, I64) as (k, _):
                    for place, sums in enumerate(used):
                        position = b.add(k, ir.Constant(I64, place * lanes))
                        a = self.load(self.element_address("a", i, position))
                        x = self.load(self.line_address("x", position))
                        b.store(self.accumulate(b.load(sums), a, x), sums)
            total = b.load(partial[0])
            for sums in partial[1:]:
                total = self.join(total, b.load(sums))
            address = self.line_address("c", i)
            before = self.vectors.splat(self.load(address, self.element.ir))
            total = self.join(before, self.vectors.splat(self.reduce_lanes(total)))
            self.store(b.extract_element(total, ir.Constant(I32, 0)), address)
        b.ret_void()

    def build_updates(self) -> None:
        b, steps = self.builder, self.arguments["steps"]
        group = ir.Constant(I64, _ROWS)
        whole = b.mul(b.sdiv(steps, group), group)
        for start, stop, rows in ((ir.Constant(I64, 0), whole, _ROWS), (whole, steps, 1)):
            with for_range_slice(b, start, stop, ir.Constant(I64, rows), I64) as (k, _):
                self.add_rows([b.add(k, ir.Constant(I64, row)) for row in range(rows)])
        b.ret_void()

    def add_rows(self, rows: list[Value]) -> None:
        b, lanes = self.builder, ir.Constant(I64, self.vectors.lanes)
        factors = [self.vectors.splat(self.load(self.line_address("x", k), self.element.ir)) for k in rows]
        with for_range_slice(b, ir.Constant(I64, 0), self.arguments["count"], lanes, I64) as (j, _):
            address = self.line_address("c", j)
            sums = self.load(address)
            for k, x in zip(rows, factors, strict=True):
                sums = self.accumulate(sums, self.load(self.element_address("a", k, j)), x)
            self.store(sums, address)


class _WitnessDotsBuilder(_VectorProductBuilder):
    """The builder of products of rows and a vector, with the greatest lanes and their places beside each other."""

    def build(self) -> None:
        b, steps, lanes = self.builder, self.arguments["steps"], self.vectors.lanes
        numbers = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        none = ir.Constant(numbers.type, [-1] * lanes)
        partial = [(alloca_once(b, self.vectors.type), alloca_once(b, numbers.type)) for _ in range(_PARTIAL)]
        group, one = ir.Constant(I64, lanes * _PARTIAL), ir.Constant(I64, lanes)
        whole, vectors = b.mul(b.sdiv(steps, group), group), b.mul(b.sdiv(steps, one), one)
        mask = self.mask_of(b.sub(steps, vectors))

        def add(place: int, i: Value, position: Value, *, is_masked: bool = False) -> None:
            addresses = self.element_address("a", i, position), self.line_address("x", position)
            a, x = (self.load_masked(one, mask, self.zero) if is_masked else self.load(one) for one in addresses)
            term = self.pair.product(x, a) if self.vector_first else self.pair.product(a, x)
            best, where = partial[place]
            better = self.pair.is_better(term, b.load(best))
            better = b.and_(better, mask) if is_masked else better
            b.store(b.select(better, term.value, b.load(best)), best)
            places = b.add(splat(b, b.trunc(position, I32), lanes), numbers)
            b.store(b.select(better, places, b.load(where)), where)

        with for_range(b, self.arguments["count"]) as rows:
            i = rows.index
            for best, where in partial:
                b.store(self.zero, best)
                b.store(none, where)
            for start, stop, used in ((ir.Constant(I64, 0), whole, _PARTIAL), (whole, vectors, 1)):
                with for_range_slice(b, start, stop, ir.Constant(I64, lanes * used), I64) as (k, _):
                    for place in range(used):
                        add(place, i, b.add(k, ir.Constant(I64, place * lanes)))
            with b.if_then(b.icmp_signed("<", vectors, steps)):
                add(0, i, vectors, is_masked=True)
            total = tuple(b.load(slot) for slot in partial[0])
            for slots in partial[1:]:
                total = self.join_places(total, tuple(b.load(slot) for slot in slots))
            while lanes > 1:
                lanes //= 2
                shifted = [min(lane + lanes, self.vectors.lanes - 1) for lane in range(self.vectors.lanes)]
                order = ir.Constant(numbers.type, shifted)
                total = self.join_places(total, tuple(b.shuffle_vector(each, each, order) for each in total))
            value, witness = (b.extract_element(each, ir.Constant(I32, 0)) for each in total)
            self.store(value, self.line_address("c", i))
            self.store(witness, b.add(self.arguments["w"], b.mul(i, ir.Constant(I64, 4))))
        b.ret_void()

    def join_places(self, left: tuple[Value, ...], right: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the better of two values in each lane, or of equal ones that with the smaller place, -1 last."""
        b = self.builder
        is_earlier = b.icmp_unsigned("<", right[1], left[1])
        is_equal = b.and_(self.vectors.compare("==", right[0], left[0]), is_earlier)
        takes_right = b.or_(self.pair.is_better(Operand(right[0]), left[0]), is_equal)
        return tuple(b.select(takes_right, *pair) for pair in zip(right, left, strict=True))


def build_dots(module: Any, name: str, definition: KernelDefinition, target: Target, *, vector_first: bool) -> None:
    """Add ``dots`` to an LLVM module."""
    _VectorProductBuilder(module, name, definition, target, vector_first=vector_first).build_dots()


def build_updates(module: Any, name: str, definition: KernelDefinition, target: Target, *, vector_first: bool) -> None:
    """Add ``updates`` to an LLVM module."""
    _VectorProductBuilder(module, name, definition, target, vector_first=vector_first).build_updates()


def build_witness_dots(
    module: Any, name: str, definition: KernelDefinition, target: Target, *, vector_first: bool
) -> None:
    """Add ``witness_dots`` to an LLVM module."""
    labels = WITNESS_ARGUMENTS
    _WitnessDotsBuilder(module, name, definition, target, vector_first=vector_first, labels=labels).build()


def matrix_vector_witness(native: int, A: Array, x: Array, threads: int) -> tuple[Array, Array]:
    """Return A ⊗ x for A (m, k) of contiguous rows, no size 0, and the smallest k that attain it, int32.

    ``native`` is the address of ``witness_dots``.
    """
    m, k = A.shape
    c, w, x = np.empty(m, A.dtype), np.empty(m, np.int32), np.ascontiguousarray(x)
    function = _witness_prototype(native)

    def multiply_part(start: int, stop: int) -> None:
        a, row = A.ctypes.data + start * A.strides[0], A.strides[0]
        out = c.ctypes.data + start * c.itemsize, w.ctypes.data + start * 4
        function(stop - start, k, a, row, x.ctypes.data, *out)

    step = -(-m // (threads if threads == 1 else 4 * threads))
    run_on_ranges(multiply_part, m, step, threads, unit=step)
    return c, w


def matrix_vector(
    native: Callable[[str], int], c: Array, A: Array, x: Array, zero: Any, lanes: int, accumulate: int, threads: int
) -> bool:
    """Compute c ← [c ⊕] A ⊗ x for c (m,), A (m, k), x (k,).

    Return False if neither rows nor columns are contiguous. ``native`` returns the address of ``"dots"`` or
    ``"updates"``, compiled for the vector as the left or the right factor.
    """
    m, k = A.shape
    size = A.itemsize
    by_rows = A.strides[1] == size
    if not by_rows and A.strides[0] != size:
        return False
    result = np.array(c) if accumulate else np.full(m, zero, c.dtype)
    x = np.ascontiguousarray(x)
    function = _prototype(native("dots" if by_rows else "updates"))
    length = k if by_rows else m
    whole_length = length // lanes * lanes
    stride = A.strides[0 if by_rows else 1]

    def multiply_part(start: int, stop: int) -> None:
        first, out = A.ctypes.data + start * (stride if by_rows else size), result.ctypes.data + start * size
        function(stop - start, whole_length if by_rows else k, first, stride, x.ctypes.data, out)

    lines = m if by_rows else whole_length
    if whole_length:
        # Threads take rows in small pieces. Across rows each thread has one wide piece, which suits the memory.
        pieces = threads if threads == 1 or not by_rows else 4 * threads
        step = -(-lines // (pieces * lanes)) * lanes
        run_on_ranges(multiply_part, lines, step, threads, unit=step)
    if whole_length < length:
        _compute_remainder(function, result, A, x, zero, lanes, whole_length, by_rows)
    c[...] = result
    return True


def _compute_remainder(
    function: Any, result: Array, A: Array, x: Array, zero: Any, lanes: int, whole_length: int, by_rows: bool
) -> None:
    """Compute the part beyond the last whole vector, in a copy padded with 0̄."""
    m, k = A.shape
    if by_rows:
        rows, factors = np.full((m, lanes), zero, A.dtype), np.full(lanes, zero, A.dtype)
        rows[:, : k - whole_length], factors[: k - whole_length] = A[:, whole_length:], x[whole_length:]
        function(m, lanes, rows.ctypes.data, rows.strides[0], factors.ctypes.data, result.ctypes.data)
        return
    rows, sums = np.full((k, lanes), zero, A.dtype), np.full(lanes, zero, A.dtype)
    rows[:, : m - whole_length], sums[: m - whole_length] = A[whole_length:].T, result[whole_length:]
    function(lanes, k, rows.ctypes.data, rows.strides[0], x.ctypes.data, sums.ctypes.data)
    result[whole_length:] = sums[: m - whole_length]
