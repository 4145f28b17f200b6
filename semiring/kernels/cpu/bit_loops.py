"""The packed-boolean kernels: functions on addresses, compiled by Numba, called without it, stored on disk.

They have a C interface: every argument is a 64-bit integer, strides in bytes. Words of matrices are uint32 at any
strides, and buffers are aligned to `VECTOR_BYTES`. ``flip`` (all ones or none) complements words when they are read and
written. ``tail`` masks the last word of a row when it is written. ``exclusive`` chooses ⊕ = xor instead of or; ⊗ is
and. `bit_matrices` describes the method.

Their instructions are Numba intrinsics on addresses, in LLVM IR on <16 x i32>, which is 512 columns. LLVM splits the
vector if the machine's vectors are shorter (two on AVX2, four on NEON). It fuses two steps of and, or, xor into one
instruction if the machine has three-input logic. Addresses are 64-bit integers, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.extending import intrinsic

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.numba_internals import for_range, void
from semiring.kernels.cpu.codegen.vector import splat

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
        value = builder.xor(_load(builder, args[1], 4), splat(builder, builder.trunc(args[2], _I32), LANES))
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


PIECE = 64  # rows of B in one table, bits of A in one look-up
CHUNK = 64  # pieces of a row gathered at once: 4096 rows of them are 2 MB


@inner
def _gather(buffer, source, row, column, rows, first, words, flip):  # type: ignore[no-untyped-def]  # compiled
    """Copy the words of each row from ``first`` on, up to ``words``, to one vector of the buffer, padded with zeros."""
    width = min(LANES, words - first)
    source += first * column
    for i in range(rows):
        if width == LANES and column == 4:
            move(buffer + i * VECTOR_BYTES, source + i * row, flip)
        else:
            fill(buffer + i * VECTOR_BYTES, 1)
            for w in range(width):
                word = load32(source + i * row + w * column) ^ np.uint32(flip)
                store32(buffer + i * VECTOR_BYTES + 4 * w, word)


@inner
def _scatter(target, row, column, rows, first, words, buffer, flip, tail):  # type: ignore[no-untyped-def]  # compiled
    """Copy one vector of the buffer to the words of each row, which is the inverse of `_gather`."""
    width = min(LANES, words - first)
    target += first * column
    for i in range(rows):
        if width == LANES and column == 4:
            move(target + i * row, buffer + i * VECTOR_BYTES, flip)
        else:
            for w in range(width):
                word = load32(buffer + i * VECTOR_BYTES + 4 * w) ^ np.uint32(flip)
                store32(target + i * row + w * column, word)
        if first + width == words:
            last = target + i * row + (width - 1) * column
            store32(last, load32(last) & np.uint32(tail))


@inner
def _gather_pieces(pieces, a, row, column, rows, first, count, words, flip):  # type: ignore[no-untyped-def]  # compiled
    """Set pieces[q, i] to piece first + q of row i, a transpose in tiles as wide and high as a cache line."""
    mask = np.uint64(np.uint32(flip)) | np.uint64(np.uint32(flip)) << np.uint64(32)
    for i0 in range(0, rows, 8):
        for q0 in range(0, count, 8):
            for q in range(q0, min(q0 + 8, count)):
                word = 2 * (first + q)
                for i in range(i0, min(i0 + 8, rows)):
                    source = a + i * row + word * column
                    if word + 1 == words:
                        piece = np.uint64(load32(source))
                    elif column == 4:
                        piece = load64(source)
                    else:
                        piece = np.uint64(load32(source)) | np.uint64(load32(source + column)) << np.uint64(32)
                    store64(pieces + 8 * (q * rows + i), piece ^ mask)


@kernel
def multiply(  # type: ignore[no-untyped-def]  # compiled
    m, k, c, c_row, c_column, a, a_row, a_column, b, b_row, b_column, words, word0, word1, flip, tail, exclusive,
    accumulate, panel, rows, table, pieces,
):  # fmt: skip
    """Compute C[:, word0:word1] ← (C or 0̄) ⊕ A ⊗ B for m rows of ``words`` words; k > 0.

    word0 is a multiple of `LANES`. Buffers, in bytes: panel 64·m, rows 64·64, table 64·`TABLE_VECTORS`, pieces
    8·m·min(⌈k/64⌉, `CHUNK`).
    """
    total = (k + PIECE - 1) // PIECE
    for first in range(0, total, CHUNK):
        count = min(CHUNK, total - first)
        _gather_pieces(pieces, a, a_row, a_column, m, first, count, (k + 31) // 32, flip)
        for word in range(word0, word1, LANES):
            if accumulate != 0 or first > 0:
                _gather(panel, c, c_row, c_column, m, word, words, flip)
            else:
                fill(panel, m)
            for q in range(count):
                k0 = (first + q) * PIECE
                have = min(PIECE, k - k0)
                _gather(rows, b + k0 * b_row, b_row, b_column, have, word, words, flip)
                fill(rows + have * VECTOR_BYTES, PIECE - have)  # A's tail bits select rows of zeros
                build_table(table, rows, exclusive)
                look_up(panel, pieces + 8 * q * m, table, m, exclusive)
            _scatter(c, c_row, c_column, m, word, words, panel, flip, tail)
    return 0


@inner
def _close_pieces(block, n, star0, star1, exclusive):  # type: ignore[no-untyped-def]  # compiled
    """Close n × n bits, n ≤ 64, each row a 64-bit number. Return the first pivot without a star, or -1."""
    for k in range(n):
        bit = np.uint64(1) << np.uint64(k)
        pivot = load64(block + 8 * k)
        star = star1 if pivot & bit else star0
        if star > 1:
            return k
        # Row k becomes s ⊗ row k, with s as its own entry. Column k of another row is removed and becomes a ⊗ s.
        pivot = pivot | bit if star else np.uint64(0)
        for i in range(n):
            old = load64(block + 8 * i)
            change = pivot & (np.uint64(0) - (old >> np.uint64(k) & np.uint64(1)))
            rest = old & ~bit
            store64(block + 8 * i, rest ^ change if exclusive != 0 else rest | change)
        store64(block + 8 * k, pivot)
    return -1


@kernel
def eliminate(  # type: ignore[no-untyped-def]  # compiled
    n, a, a_row, a_column, flip, tail, exclusive, star0, star1, matrix, rows, solved_rows, table, pieces, block
):
    """Compute A ← A* (n, n) by blocked elimination, 64 pivots at a time.

    Return the first pivot without a star, or -1. With D the pivots' diagonal block and R their rows, R becomes D* ⊗ R.
    Then the entries d of every other row in the pivots' columns are removed, and d ⊗ R is added to the row, where R has
    D* in those columns. Both products use tables. In linear algebra this is the inversion of Gauss and Jordan in place.
    Here it is Lehmann's elimination with a block for a pivot.

    ``star0``, ``star1``: the star of 0̄ and of 1̄, as 0 for 0̄, 1 for 1̄, 2 if there is none. Buffers: matrix
    64·n·⌈n/512⌉, rows and solved_rows 64·64, table 64·`TABLE_VECTORS`, pieces 8·n, block 8·64.
    """
    words = (n + 31) // 32
    panels = (words + LANES - 1) // LANES
    size = n * VECTOR_BYTES
    for p in range(panels):
        _gather(matrix + p * size, a, a_row, a_column, n, p * LANES, words, flip)
    for k0 in range(0, n, PIECE):
        count = min(PIECE, n - k0)
        keep = ~np.uint64(0) >> np.uint64(PIECE - count)
        own = k0 // 32 // LANES  # the panel that holds the pivots' columns, and their position in its vectors
        word_offset = 4 * (k0 // 32 % LANES)
        for i in range(n):
            cell = matrix + own * size + i * VECTOR_BYTES + word_offset
            piece = load64(cell)
            store64(cell, piece & ~keep)
            is_pivot = k0 <= i < k0 + count
            if is_pivot:
                store64(block + 8 * (i - k0), piece & keep)
            store64(pieces + 8 * i, np.uint64(0) if is_pivot else piece & keep)
        pivot = _close_pieces(block, count, star0, star1, exclusive)
        if pivot >= 0:
            return k0 + pivot
        for p in range(panels):
            panel = matrix + p * size
            _gather(rows, panel + k0 * VECTOR_BYTES, VECTOR_BYTES, 4, count, 0, LANES, 0)
            fill(rows + count * VECTOR_BYTES, PIECE - count)
            fill(solved_rows, PIECE)
            build_table(table, rows, exclusive)
            look_up(solved_rows, block, table, count, exclusive)
            if p == own:
                for r in range(count):
                    cell = solved_rows + r * VECTOR_BYTES + word_offset
                    store64(cell, load64(cell) | load64(block + 8 * r))
            build_table(table, solved_rows, exclusive)
            look_up(panel, pieces, table, n, exclusive)
            _gather(panel + k0 * VECTOR_BYTES, solved_rows, VECTOR_BYTES, 4, count, 0, LANES, 0)
    for p in range(panels):
        _scatter(a, a_row, a_column, n, p * LANES, words, matrix + p * size, flip, tail)
    return -1
