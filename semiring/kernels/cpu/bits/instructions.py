"""The instructions of the packed-boolean kernels, as Numba intrinsics on addresses: LLVM IR on <16 x i32>, 512 columns.

LLVM splits the vector if the machine's vectors are shorter (two on AVX2, four on NEON). It fuses two steps of and, or,
xor into one instruction if the machine has three-input logic. Addresses are 64-bit integers, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

from semiring.kernels.cpu.codegen.numba_internals import for_range, void

__all__ = [
    *("LANES", "TABLE_VECTORS", "VECTOR_BYTES", "build_table", "fill", "load32", "load64"),
    *("look_up", "move", "store32", "store64"),
]

LANES = 16  # words of a vector
VECTOR_BYTES = 4 * LANES
#: How the 64 rows of a table fall into groups. Measured on Zen 4 at 4096 rows, T bit pairs a second, one core:
#: 12×5+4 7.2; 6×6 7.2, 7×6 7.5, 4×7 7.4 (these split words unevenly); 16×4 6.0; 2×8 4.6 (fills the 32 KB cache).
GROUPS = (5,) * 12 + (4,)
TABLE_VECTORS = sum(1 << bits for bits in GROUPS)

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I32, LANES)
Value: TypeAlias = Any  # an llvmlite value: the package has no types
Builder: TypeAlias = Any
IntrinsicCode: TypeAlias = "tuple[Any, Callable[..., Value]]"  # the signature and the code of an intrinsic


def _int64(value: int) -> Value:
    return ir.Constant(_I64, value)


def _offset_address(builder: Builder, base: Value, offset: int) -> Value:
    return builder.add(base, _int64(offset)) if offset else base


def _load(builder: Builder, address: Value, align: int, kind: Any = _VECTOR) -> Value:
    loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
    loaded.align = align
    return loaded


def _store(builder: Builder, value: Value, address: Value, align: int) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = align


def _splat(builder: Builder, word: Value) -> Value:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), word, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_VECTOR, None))


def _add(builder: Builder, exclusive: bool, x: Value, y: Value) -> Value:
    return builder.xor(x, y) if exclusive else builder.or_(x, y)


def _build_table(builder: Builder, exclusive: bool, table: Value, rows: Value) -> None:
    """Store the sums of every subset of each group of the 64 vectors in ``rows``."""
    first, start = 0, table
    for bits in GROUPS:
        group = [
            _load(builder, _offset_address(builder, rows, (first + r) * VECTOR_BYTES), VECTOR_BYTES)
            for r in range(bits)
        ]
        sums = [ir.Constant(_VECTOR, None)]
        for row in group[:3]:  # eight sums fit in registers beside the rows
            sums += [row, *(_add(builder, exclusive, subset_sum, row) for subset_sum in sums[1:])]
        for entry, value in enumerate(sums):
            _store(builder, value, _offset_address(builder, start, entry * VECTOR_BYTES), VECTOR_BYTES)
        for r in range(3, bits):
            for entry in range(1 << r):
                subset_sum = sums[entry] if entry < len(sums) else None
                if subset_sum is None:
                    subset_sum = _load(builder, _offset_address(builder, start, entry * VECTOR_BYTES), VECTOR_BYTES)
                total = _add(builder, exclusive, subset_sum, group[r])
                _store(builder, total, _offset_address(builder, start, (entry + (1 << r)) * VECTOR_BYTES), VECTOR_BYTES)
        first, start = first + bits, _offset_address(builder, start, VECTOR_BYTES << bits)


def _look_up(builder: Builder, exclusive: bool, panel: Value, pieces: Value, table: Value, rows: Value) -> None:
    shift = VECTOR_BYTES.bit_length() - 1
    with for_range(builder, rows) as loop:
        piece = _load(builder, builder.add(pieces, builder.mul(loop.index, _int64(8))), 8, _I64)
        target = builder.add(panel, builder.mul(loop.index, _int64(VECTOR_BYTES)))
        value = _load(builder, target, VECTOR_BYTES)
        first, start = 0, table
        for bits in GROUPS:
            distance = first - shift  # this shift multiplies the index in the group's bits by the size of a vector
            index = builder.lshr(piece, _int64(distance)) if distance >= 0 else builder.shl(piece, _int64(-distance))
            index = builder.and_(index, _int64(((1 << bits) - 1) << shift))
            value = _add(builder, exclusive, value, _load(builder, builder.add(start, index), VECTOR_BYTES))
            first, start = first + bits, _offset_address(builder, start, VECTOR_BYTES << bits)
        _store(builder, value, target, VECTOR_BYTES)


def _branch_on_exclusive(builder: Builder, exclusive: Value, body: Callable[[bool], None]) -> None:
    """Build the body for ⊕ = xor and for ⊕ = or, with a branch at run time, so that one kernel is compiled for both."""
    with builder.if_else(builder.icmp_unsigned("!=", exclusive, _int64(0))) as (then, otherwise):
        with then:
            body(True)
        with otherwise:
            body(False)


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def build_table(typing: Any, table: Any, rows: Any, exclusive: Any) -> IntrinsicCode:
    """Build the table of `look_up` from 64 aligned vectors of B, by 400 stores."""

    def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
        _branch_on_exclusive(builder, args[2], lambda xor: _build_table(builder, xor, args[0], args[1]))
        return void(context)

    return types.void(*(types.int64,) * 3), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def look_up(typing: Any, panel: Any, pieces: Any, table: Any, rows: Any, exclusive: Any) -> IntrinsicCode:
    """Add to panel[i] the sum of the rows of the table that the 64 bits of pieces[i] select, for every i < rows."""

    def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
        _branch_on_exclusive(builder, args[4], lambda xor: _look_up(builder, xor, *args[:4]))
        return void(context)

    return types.void(*(types.int64,) * 5), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def move(typing: Any, target: Any, source: Any, flip: Any) -> IntrinsicCode:
    """Copy one vector from source to target, both aligned to words, complemented where ``flip`` has ones."""

    def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
        value = builder.xor(_load(builder, args[1], 4), _splat(builder, builder.trunc(args[2], _I32)))
        _store(builder, value, args[0], 4)
        return void(context)

    return types.void(*(types.int64,) * 3), code


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def fill(typing: Any, target: Any, count: Any) -> IntrinsicCode:
    """Store zeros in ``count`` vectors."""

    def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
        with for_range(builder, args[1]) as loop:
            address = builder.add(args[0], builder.mul(loop.index, _int64(VECTOR_BYTES)))
            _store(builder, ir.Constant(_VECTOR, None), address, 4)
        return void(context)

    return types.void(types.int64, types.int64), code


def _scalar(kind: Any, number: Any) -> tuple[Any, Any]:
    def load(typing: Any, address: Any) -> IntrinsicCode:
        def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
            return _load(builder, args[0], 4, kind)

        return number(types.int64), code

    def store(typing: Any, address: Any, value: Any) -> IntrinsicCode:
        def code(context: Any, builder: Builder, signature: Any, args: Any) -> Value:
            _store(builder, args[1], args[0], 4)
            return void(context)

        return types.void(types.int64, number), code

    return intrinsic(load), intrinsic(store)


#: One word; and two adjacent words as one number, the first one low (Numba's targets are little-endian).
load32, store32 = _scalar(_I32, types.uint32)
load64, store64 = _scalar(_I64, types.uint64)
