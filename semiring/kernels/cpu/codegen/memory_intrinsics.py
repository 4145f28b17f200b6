"""Intrinsics that Numba lacks: addresses, loads and stores, atomics, and calls of native functions by address.

The arrays of a kernel are typed by the unsigned integer of their element's size. Only the native functions behind an
address interpret the bits. So one compiled kernel serves every semiring and every dtype of that size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir
from numba import extending, types

from semiring.kernels.cpu.codegen.numba_internals import add_attribute, array_at, data_of, void
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import I8, prefetch

# Numba gives an intrinsic its typing context, the types of its arguments, and later the code generator's context.
Context = Any
Code = Any

intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)
_CHUNK = 32
#: The narrowest piece that one broadcast can read: shorter elements of A are repeated to fill it when they are packed.
LANE_BYTES = 4
WIDENED = 16  # elements that `widen` copies


def load(builder: Any, kind: Any, where: Any) -> Any:
    """Build a load of an LLVM value of type ``kind`` from an address, aligned or not."""
    value = builder.load(builder.inttoptr(where, kind.as_pointer()))
    value.align = 1
    return value


def store(builder: Any, value: Any, where: Any) -> None:
    """Build a store of an LLVM value to an address, aligned or not."""
    builder.store(value, builder.inttoptr(where, value.type.as_pointer())).align = 1


@intrinsic
def address(typing: Context, array: Any) -> Code:
    """Return the address of the first element of an array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(data_of(context, builder, signature.args[0], args[0]), I64)

    return types.intp(array), code


@intrinsic
def float_line(typing: Context, where: Any, size: Any) -> Code:
    """Return ``size`` adjacent float32 from an address on, as an array."""
    kind = types.Array(types.float32, 1, "C")

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, width = builder.inttoptr(args[0], ir.FloatType().as_pointer()), ir.Constant(I64, 4)
        return array_at(context, builder, kind, data, [args[1]], [width], width)

    return kind(types.intp, types.intp), code


@intrinsic
def is_single(typing: Context, array: Any) -> Code:
    """Return whether an array holds float32, as a constant, so that the compiler removes branches for other dtypes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(array.dtype == types.float32))

    return types.boolean(array), code


@intrinsic
def bits_of(typing: Context, value: Any) -> Code:
    """Return the bits of a double as a 64-bit integer."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], I64)

    return types.int64(types.float64), code


@intrinsic
def number_of(typing: Context, bits: Any) -> Code:
    """Return the double whose bits a 64-bit integer holds."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), code


@intrinsic
def scale_by_power(typing: Context, value: Any, exponent: Any) -> Code:
    """Return the float32 value · 2ⁿ for the float32 ``exponent`` n + 3 · 2²², if value and result are normal."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits, last = (builder.bitcast(argument, I32) for argument in args)
        return builder.bitcast(builder.add(bits, builder.shl(last, ir.Constant(I32, 23))), ir.FloatType())

    return types.float32(types.float32, types.float32), code


@intrinsic
def trailing_zeros(typing: Context, word: Any) -> Code:
    """Return the number of the lowest bit that is set in a 64-bit integer, which is not 0."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@intrinsic
def count_bits(typing: Context, word: Any) -> Code:
    """Return how many bits of a 64-bit integer are set."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), code


@intrinsic
def match_eight(typing: Context, numbers: Any, place: Any, wanted: Any) -> Code:
    """Return a word whose bit l tells whether numbers[place + l] is one of eight ``wanted`` numbers, l = 0 … 7.

    Both are vectors of integers of one type. No place is checked.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane, lanes = ir.IntType(numbers.dtype.bitwidth), ir.VectorType(ir.IntType(numbers.dtype.bitwidth), 8)
        first, many = (
            data_of(context, builder, kind, array) for kind, array in zip(signature.args[::2], args[::2], strict=True)
        )
        x = load(builder, lanes, builder.ptrtoint(builder.gep(first, [args[1]]), I64))
        nothing, everywhere = ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(I32, 8), [0] * 8)
        found: Any = ir.Constant(ir.VectorType(ir.IntType(1), 8), [0] * 8)
        for number in range(8):
            one = load(builder, lane, builder.ptrtoint(builder.gep(many, [ir.Constant(I64, number)]), I64))
            repeated = builder.insert_element(nothing, one, ir.Constant(I32, 0))
            repeated = builder.shuffle_vector(repeated, nothing, everywhere)
            found = builder.or_(found, builder.icmp_signed("==", x, repeated))
        return builder.zext(builder.bitcast(found, I8), I64)

    return types.uint64(numbers, types.intp, wanted), code


@intrinsic
def prefetch_element(typing: Context, array: Any, place: Any) -> Code:
    """Start to load the cache line of an element of a vector, which may lie outside the vector."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.gep(data_of(context, builder, signature.args[0], args[0]), [args[1]])
        prefetch(builder, builder.bitcast(pointer, I8.as_pointer()))
        return void(context)

    return types.void(array, types.intp), code


@intrinsic
def use_wide_vectors(typing: Context) -> Code:
    """Let the loops of a function use the widest vectors of the machine, which LLVM avoids by default.

    The call must be the first statement of the function.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        add_attribute(builder.function, "prefer-vector-width", "512")
        return void(context)

    return types.void(), code


@intrinsic
def assume_no_nan(typing: Context) -> Code:
    """Let LLVM assume that a function computes no NaN, so that it vectorizes the maximum of a line.

    The call must be among the first statements of the function.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for name in ("no-nans-fp-math", "no-signed-zeros-fp-math"):
            add_attribute(builder.function, name, "true")
        return void(context)

    return types.void(), code


@intrinsic
def fetch(typing: Context, like: Any, where: Any) -> Code:
    """Return the element at an address, of the type of ``like``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return load(builder, context.get_value_type(like), args[1])

    return like(like, types.intp), code


@intrinsic
def put(typing: Context, value: Any, where: Any) -> Code:
    """Store an element at an address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store(builder, args[0], args[1])
        return void(context)

    return types.void(value, types.intp), code


@intrinsic
def put_repeated(typing: Context, value: Any, where: Any) -> Code:
    """Store an element, repeated as often as fits into ``LANE_BYTES``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element, size = args[0], value.bitwidth // 8
        if size < LANE_BYTES:
            ones = sum(1 << (8 * size * i) for i in range(LANE_BYTES // size))
            element = builder.mul(builder.zext(element, I32), ir.Constant(I32, ones))
        store(builder, element, args[1])
        return void(context)

    return types.void(value, types.intp), code


@intrinsic
def widen(typing: Context, like: Any, target: Any, source: Any) -> Code:
    """Copy 16 adjacent elements of the type of ``like``, each repeated as often as fits into ``LANE_BYTES``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = like.bitwidth // 8
        kind = ir.VectorType(ir.IntType(like.bitwidth), WIDENED)
        value = load(builder, kind, args[2])
        if size < LANE_BYTES:
            ones = sum(1 << (8 * size * i) for i in range(LANE_BYTES // size))
            wide = ir.VectorType(I32, WIDENED)
            value = builder.mul(builder.zext(value, wide), ir.Constant(wide, [ones] * WIDENED))
        store(builder, value, args[1])
        return void(context)

    return types.void(like, types.intp, types.intp), code


@intrinsic
def copy_bytes(typing: Context, target: Any, source: Any, count: Any) -> Code:
    """Copy a positive multiple of 32 bytes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), _CHUNK)
        before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        offset = builder.phi(I64)
        store(builder, load(builder, kind, builder.add(args[1], offset)), builder.add(args[0], offset))
        following = builder.add(offset, ir.Constant(I64, _CHUNK))
        offset.add_incoming(ir.Constant(I64, 0), before)
        offset.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[2]), loop, after)
        builder.position_at_end(after)
        return void(context)

    return types.void(types.intp, types.intp, types.intp), code


def _make_caller(count: int, result: Any) -> Any:
    """Return an intrinsic that calls a native function of ``count`` 64-bit integers, its address first."""

    def generic(typing: Context, function: Any, args: Any) -> Code:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returned = I64 if result == types.intp else ir.VoidType()
            kind = ir.FunctionType(returned, [I64] * count)
            items = [builder.extract_value(values[1], i) for i in range(count)]
            called = builder.call(builder.inttoptr(values[0], kind.as_pointer()), items)
            return called if result == types.intp else void(context)

        return result(types.intp, types.UniTuple(types.intp, count)), code

    return intrinsic(generic)


call3 = _make_caller(3, types.void)
call6 = _make_caller(6, types.void)
call8 = _make_caller(8, types.void)
call9 = _make_caller(9, types.void)
call13 = _make_caller(13, types.void)
close3 = _make_caller(3, types.intp)


@intrinsic
def atomic_load(typing: Context, where: Any) -> Code:
    """Return a 64-bit integer that other threads write, and acquire all that they wrote before it."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.intp(types.intp), code


@intrinsic
def atomic_store(typing: Context, value: Any, where: Any) -> Code:
    """Write a 64-bit integer for other threads, and release all that was written before it."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[0], builder.inttoptr(args[1], I64.as_pointer()), "release", 8)
        return void(context)

    return types.void(types.intp, types.intp), code


@intrinsic
def atomic_add(typing: Context, value: Any, where: Any) -> Code:
    """Add to a 64-bit integer that other threads add to as well. Return its value before."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(args[1], I64.as_pointer()), args[0], "acq_rel")

    return types.intp(types.intp, types.intp), code


@intrinsic
def atomic_replace(typing: Context, where: Any, old: Any, new: Any) -> Code:
    """Replace a 64-bit integer if it still is ``old``. Return whether it was."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], I64.as_pointer())
        return builder.extract_value(builder.cmpxchg(pointer, args[1], args[2], "acq_rel", "acquire"), 1)

    return types.boolean(types.intp, types.intp, types.intp), code


@intrinsic
def pause(typing: Context) -> Code:
    """Pause the core in a loop that waits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = "pause" if host().is_x86 else "yield" if host().is_arm64 else ""
        asm = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), text, "~{memory}", side_effect=True)
        builder.call(asm, [])
        return void(context)

    return types.void(), code
