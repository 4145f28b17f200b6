"""Vector intrinsics of the graph loops, in LLVM IR, which LLVM splits for machines with shorter vectors.

Addresses are 64-bit integers, in bytes, without any alignment. Words are 512 bits: <8 x i64>.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba import types

from semiring.kernels.cpu.codegen.memory_intrinsics import intrinsic, load, store
from semiring.kernels.cpu.codegen.numba_internals import abi_size, alloca_once_value, for_range, raw_memcpy, void
from semiring.kernels.cpu.codegen.vector import splat

TILE = 16  # rows and columns of `transpose_tile`

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_WORD = ir.VectorType(_I64, 8)
_ZERO = ir.Constant(_WORD, None)


def _is_any_set(builder: Any, word: Any) -> Any:
    """Return whether any of 512 bits is set."""
    bits = builder.bitcast(builder.icmp_unsigned("!=", word, _ZERO), ir.IntType(8))
    return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(8), 0))


@intrinsic
def copy_line(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy ``size`` bytes to a target that does not overlap them, as memcpy does."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(where, byte) for where in args[:2])
        raw_memcpy(builder, target, source, args[2], ir.Constant(_I64, 1))
        return void(context)

    return types.void(types.intp, types.intp, types.intp), code


@intrinsic
def mark_differences(typing: Any, where: Any, value: Any) -> Any:
    """Return a bit for each of 32 adjacent entries, set if the entry differs from the value."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        entries = load(builder, ir.VectorType(args[1].type, 32), args[0])
        return builder.bitcast(builder.icmp_unsigned("!=", entries, splat(builder, args[1], 32)), _I32)

    return types.uint32(types.intp, value), code


def _transpose_registers(builder: Any, entry: Any, source: Any, stride: Any) -> list[Any]:
    """Return the columns of 16 rows of 16 entries, ``stride`` bytes apart.

    Four rounds exchange blocks, all in registers (J. O. Eklundh, IEEE Trans. Comput. C-21, 1972).
    """
    kind, numbers = ir.VectorType(entry, TILE), ir.VectorType(_I32, TILE)
    rows = [load(builder, kind, _row_address(builder, source, stride, k)) for k in range(TILE)]
    for size in (8, 4, 2, 1):
        upper = ir.Constant(numbers, [TILE + c - size if c & size else c for c in range(TILE)])
        lower = ir.Constant(numbers, [TILE + c if c & size else c + size for c in range(TILE)])
        for k in range(TILE):
            if not k & size:
                a, b = rows[k], rows[k + size]
                rows[k], rows[k + size] = builder.shuffle_vector(a, b, upper), builder.shuffle_vector(a, b, lower)
    return rows


def _row_address(builder: Any, first: Any, stride: Any, k: int) -> Any:
    return builder.add(first, builder.mul(stride, ir.Constant(_I64, k)))


@intrinsic
def transpose_tile(typing: Any, like: Any, source: Any, stride: Any, target: Any, step: Any) -> Any:
    """Write the columns of 16 rows of 16 entries, ``stride`` bytes apart, as 16 rows, ``step`` bytes apart.

    Entries are of the type of ``like``.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        like, source, stride, target, step = args
        for k, column in enumerate(_transpose_registers(builder, like.type, source, stride)):
            store(builder, column, _row_address(builder, target, step, k))
        return void(context)

    return types.void(like, *(types.intp,) * 4), code


@intrinsic
def tiles_differ(typing: Any, like: Any, source: Any, stride: Any, other_tile: Any) -> Any:
    """Return whether 16 rows of 16 entries differ from the columns of 16 other rows, of the same stride.

    Entries are unsigned integers as ``like`` is.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        like, source, stride, other_tile = args
        kind, bits = ir.VectorType(like.type, TILE), ir.IntType(TILE * like.type.width)
        different = ir.Constant(kind, None)
        for k, column in enumerate(_transpose_registers(builder, like.type, source, stride)):
            row = load(builder, kind, _row_address(builder, other_tile, stride, k))
            different = builder.or_(different, builder.xor(row, column))
        return builder.icmp_unsigned("!=", builder.bitcast(different, bits), ir.Constant(bits, 0))

    return types.boolean(like, *(types.intp,) * 3), code


@intrinsic
def lacks_bits(typing: Any, targets: Any, reached_word: Any) -> Any:
    """Return whether the word at ``reached_word`` lacks a bit of the word at ``targets``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, part = (load(builder, _WORD, where) for where in args)
        return _is_any_set(builder, builder.and_(word, builder.not_(part)))

    return types.boolean(types.intp, types.intp), code


@intrinsic
def join_word(typing: Any, target: Any, source: Any) -> Any:
    """Join the word at ``source`` to the word at ``target`` by "or"."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store(builder, builder.or_(load(builder, _WORD, args[0]), load(builder, _WORD, args[1])), args[0])
        return void(context)

    return types.void(types.intp, types.intp), code


def _join_loop(unroll: int) -> Any:
    """Return the code of a loop that joins the words with listed numbers (int32), ``unroll`` at a time."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, words, numbers, count = args
        total = alloca_once_value(builder, _ZERO)
        with for_range(builder, count) as loop:
            word = builder.load(total)
            for k in range(unroll):
                place = builder.mul(loop.index, ir.Constant(_I64, 4 * unroll))
                number = load(builder, _I32, builder.add(numbers, builder.add(place, ir.Constant(_I64, 4 * k))))
                source = builder.add(words, builder.mul(builder.sext(number, _I64), ir.Constant(_I64, 64)))
                word = builder.or_(word, load(builder, _WORD, source))
            builder.store(word, total)
        store(builder, builder.load(total), target)
        return void(context)

    return code


@intrinsic
def join_listed(typing: Any, target: Any, words: Any, numbers: Any, count: Any) -> Any:
    """Write the "or" of the words with ``count`` listed numbers (int32) to the word at ``target``."""
    return types.void(*(types.intp,) * 4), _join_loop(1)


@intrinsic
def join_fours(typing: Any, target: Any, words: Any, numbers: Any, count: Any) -> Any:
    """Write the "or" of the words with 4 · ``count`` listed numbers (int32) to the word at ``target``.

    Fewer different counts occur than in `join_listed`, so branches are predicted better.
    """
    return types.void(*(types.intp,) * 4), _join_loop(4)


@intrinsic
def keep_new(typing: Any, candidates: Any, targets: Any, reached_word: Any) -> Any:
    """Keep the bits of ``candidates`` that are in ``targets`` and not in ``reached_word``, and add them to the latter.

    Return whether any bit remains in ``candidates``.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        candidates, targets, reached_word = (load(builder, _WORD, where) for where in args)
        new = builder.and_(builder.and_(candidates, targets), builder.not_(reached_word))
        store(builder, new, args[0])
        store(builder, builder.or_(reached_word, new), args[2])
        return _is_any_set(builder, new)

    return types.boolean(types.intp, types.intp, types.intp), code


@intrinsic
def spread_levels(
    typing: Any, none: Any, steps: Any, planes: Any, stride: Any, count: Any, reached_word: Any, target: Any
) -> Any:
    """Write 64 entries at ``target``: the sum of the steps of the planes in which an entry has a bit, or ``none``.

    ``planes``: the address of the first of ``count`` words of 64 bits, ``stride`` bytes apart. ``steps``: a number for
    each plane. ``reached_word``: the address of the word of reached entries.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none, steps, planes, stride, count, reached_word, target = args
        kind, marks = ir.VectorType(none.type, 64), ir.VectorType(_I1, 64)
        zero, size = ir.Constant(kind, None), abi_size(context, none.type)
        add = builder.fadd if isinstance(none.type, ir.FloatType | ir.DoubleType) else builder.add
        sums = alloca_once_value(builder, zero)
        with for_range(builder, count) as loop:
            step = load(builder, none.type, builder.add(steps, builder.mul(loop.index, ir.Constant(_I64, size))))
            bits = load(builder, _I64, builder.add(planes, builder.mul(loop.index, stride)))
            part = builder.select(builder.bitcast(bits, marks), splat(builder, step, 64), zero)
            builder.store(add(builder.load(sums), part), sums)
        reached_word = builder.bitcast(load(builder, _I64, reached_word), marks)
        result = builder.select(reached_word, builder.load(sums), splat(builder, none, 64))
        store(builder, result, target)
        return void(context)

    return types.void(none, *(types.intp,) * 6), code
