"""Sums of exponentials in vector registers: the inner loops of products of log_plus and a vector.

A term is 2^(L·a) · 2ʷ · y for a float32 a, a whole number w, a factor y, and L, the float32 next to log₂e. It is 2ʳ ·
2ⁿ · y with

    n = fma(L, a, w)      the nearest multiple of 2^-`_BITS`, in the last bits of a float about `MAGIC`, as w is
    r = fma(L, a, w − n)  the remainder, at most half of that: w − n is exact, and so is r but for its last rounding

2ʳ is a polynomial. 2ⁿ is composed of bits: those of a whole number, and a table of 2^`_BITS` powers if two registers
hold such a table. This takes 12 vector instructions with a table, or 14 without, and no rounding grows with a or w.
Terms are those of (1 + `EXCESS`)·(a + x) instead of a + x, because L is not log₂e. The logarithm of their sum is
corrected afterwards. Sums are relative to 2ᵍ. Terms below 2^−126 of it count as 0, and so does −∞. A NaN makes the sum
NaN. At most sixteen terms are added in float32, and these sums in float64.

If all |a| are below some 44, and the numbers 2ʷ · y are normal floats X, the terms are *plain*. A plain term is 2ʳ · 2ⁿ
· X with n near L·a alone. It needs no comparison and no greatest n, and takes 11 instructions. The bits of n show
whether the condition held: then the bits before the last `_BITS` + 7 are the same in all n.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numba import types

from semiring.kernels.cpu.codegen.memory_intrinsics import intrinsic, load, store
from semiring.kernels.cpu.codegen.numba_internals import alloca_once, for_range, for_range_slice, void
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.codegen.vector import I8, I32, I64, ElementType, Value, Vectors, declare_function, prefetch

Context = Any
Code = Any

_BITS = 5 if host().has_avx512 else 0  # bits of a fraction in a table: one instruction looks up 32 numbers
MAGIC = float(3 << (22 - _BITS))  # n + this holds n, a multiple of 2^-_BITS below RANGE, in its last bits
RANGE = float(1 << (22 - _BITS))
FLOATS = host().vector_bytes // 4  # float32 numbers in a vector
_SIDE, CHAIN = 2, 8  # registers in which a line is added up, and how many vectors each adds before a sum in float64
_PREFETCH_BYTES = 1 << 12  # bytes of a line that are prefetched
_LOG2_E = float(np.float32(np.log2(np.e)))
EXCESS = _LOG2_E * np.log(2) - 1  # the relative excess of exponents
#: Coefficients, the highest first, within 5.4e-8 (with the table) or 7.5e-8 of 2ʳ relative to it: by Remez's algorithm.
_POWER = {
    0: (1.32764717616e-3, 9.67554143641e-3, 5.55071327503e-2, 2.40221197221e-1, 6.93146967063e-1, 1.00000007166),
    5: (2.40226507187e-1, 6.93157374859e-1, 1.0),
}[_BITS]
#: The bits of 2^(j / 2^_BITS) minus the bits of j in the place of an exponent.
_TABLE = [
    (int(np.exp2(np.float64(j) / (1 << _BITS)).astype(np.float32).view(np.uint32)) - (j << (23 - _BITS)))
    for j in range(1 << _BITS)
]

_HALF = 64  # plain terms have exponents from -64 to 63
PLAIN = 60  # the factors of plain terms have exponents from -60 to 0, so that products of both are normal floats

_DOUBLES = ir.VectorType(ir.DoubleType(), FLOATS)


class _Terms:
    """The builder of vectors of terms, and of their sums."""

    def __init__(self, builder: Any, reference: Value | None = None) -> None:
        """Bind the reference of the sums.

        ``reference``: `MAGIC` + g, a whole number, in a vector; without it g is 0.
        """
        self.vectors, self.builder = Vectors(builder, ElementType(np.dtype(np.float32)), FLOATS), builder
        v = self.vectors
        self.least_exponent, self.origin = v.constant(MAGIC - 126), None
        if reference is not None:
            self.least_exponent = builder.fsub(reference, v.constant(126))
            self.origin = builder.sub(v.as_bits(reference), v.bits(int(np.float32(MAGIC).view(np.int32))))

    def load(self, address: Value) -> Value:
        return load(self.builder, self.vectors.type, address)

    def add_term(self, total: Value, top: Value, a: Value, w: Value, y: Value) -> tuple[Value, Value]:
        """Return the total plus the term, and the greater of ``top`` and n."""
        v, b = self.vectors, self.builder
        n = v.fma(a, v.constant(_LOG2_E), w)
        r = v.fma(a, v.constant(_LOG2_E), b.fsub(w, n))
        power = v.constant(_POWER[0])
        for coefficient in _POWER[1:]:
            power = v.fma(power, r, v.constant(coefficient))
        more = v.fma(b.fmul(power, y), self._unit(n), total)
        total = b.select(b.fcmp_unordered(">", n, self.least_exponent), more, total)
        return total, v.select(v.compare(">", n, top), n, top)

    def add_plain_term(self, total: Value, range_bits: Value, a: Value, factor: Value) -> tuple[Value, Value]:
        """Return the total plus a plain term, and the bits that differ in n if n is out of range, joined by "or"."""
        v, b = self.vectors, self.builder
        origin = v.constant(MAGIC + _HALF)
        n = v.fma(a, v.constant(_LOG2_E), origin)
        r = v.fma(a, v.constant(_LOG2_E), b.fsub(origin, n))
        power = v.constant(_POWER[0])
        for coefficient in _POWER[1:]:
            power = v.fma(power, r, v.constant(coefficient))
        bits = v.as_bits(n)
        unit = b.add(b.shl(bits, v.bits(23 - _BITS)), self._look_up(bits, _HALF))
        difference = b.xor(bits, v.bits(int(np.float32(MAGIC).view(np.int32))))
        return v.fma(power, b.fmul(v.from_bits(unit), factor), total), b.or_(range_bits, difference)

    def _unit(self, n: Value) -> Value:
        """Return the power of two, relative to 2ᵍ."""
        v, b = self.vectors, self.builder
        bits = v.as_bits(n) if self.origin is None else b.sub(v.as_bits(n), self.origin)
        return v.from_bits(b.add(b.shl(bits, v.bits(23 - _BITS)), self._look_up(bits)))

    def _look_up(self, bits: Value, exponent_shift: int = 0) -> Value:
        """Return the numbers of the table that the last bits select, with exponents lowered by ``exponent_shift``."""
        v, table = self.vectors, [number - (exponent_shift << 23) for number in _TABLE]
        if _BITS == 0:
            return v.bits(table[0])
        halves = [ir.Constant(v.bits_type, table[start : start + FLOATS]) for start in (0, FLOATS)]
        kind = ir.FunctionType(v.bits_type, [v.bits_type] * 3)
        return self.builder.call(
            declare_function(self.builder.module, "llvm.x86.avx512.vpermi2var.d.512", kind),
            [halves[0], bits, halves[1]],
        )


def _prefetch(builder: Any, address: Value) -> None:
    prefetch(builder, builder.inttoptr(address, I8.as_pointer()))


def _reduce_lanes(builder: Any, lanes: Value, join: Any) -> Value:
    """Join all lanes, by joining the upper half of the lanes to the lower half repeatedly."""
    count = lanes.type.count
    half = count // 2
    while half:
        mask = ir.Constant(ir.VectorType(I32, count), [min(lane + half, count - 1) for lane in range(count)])
        lanes = join(lanes, builder.shuffle_vector(lanes, lanes, mask))
        half //= 2
    return builder.extract_element(lanes, ir.Constant(I32, 0))


def _add_line(
    terms: _Terms,
    add: Callable[..., tuple[Value, Value]],
    marks: list[Value],
    arrays: tuple[Value, ...],
    count: Value,
    condition: Callable[[], Value] | None = None,
) -> Value:
    """Build the sum of ``count`` vectors of terms, whose operands are adjacent from the addresses ``arrays`` on.

    ``add`` returns the sums of a register and its mark, from both and the operands of a term. ``marks`` are slots for
    the marks of the `_SIDE` registers. Groups are skipped while the ``condition`` does not hold.
    """
    builder, v, width = terms.builder, terms.vectors, 4 * FLOATS
    sums, total = [alloca_once(builder, v.type) for _ in range(_SIDE)], alloca_once(builder, _DOUBLES)
    builder.store(ir.Constant(_DOUBLES, [0.0] * FLOATS), total)

    def add_vectors(start: Value, stop: Value, side: int) -> None:
        """Add the vectors start … stop - 1 in float32, ``side`` of them side by side."""
        for one in sums:
            builder.store(v.constant(0), one)
        with for_range_slice(builder, start, stop, ir.Constant(I64, side), I64) as (index, _):
            offset = builder.mul(index, ir.Constant(I64, width))
            for place in range(side):
                position = builder.add(offset, ir.Constant(I64, width * place))
                ahead = builder.add(position, ir.Constant(I64, _PREFETCH_BYTES))
                _prefetch(builder, builder.add(arrays[0], ahead))
                operands = [terms.load(builder.add(base, position)) for base in arrays]
                added = add(builder.load(sums[place]), builder.load(marks[place]), *operands)
                builder.store(added[0], sums[place])
                builder.store(added[1], marks[place])
        one = builder.load(sums[0])
        for other in sums[1:]:
            one = builder.fadd(one, builder.load(other))
        builder.store(builder.fadd(builder.load(total), builder.fpext(one, _DOUBLES)), total)

    group = ir.Constant(I64, _SIDE * CHAIN)
    whole = builder.mul(builder.sdiv(count, group), group)
    with (
        for_range_slice(builder, ir.Constant(I64, 0), whole, group, I64) as (index, _),
        builder.if_then(condition()) if condition is not None else nullcontext(),
    ):
        add_vectors(index, builder.add(index, group), _SIDE)
    with builder.if_then(builder.icmp_signed("<", whole, count)):
        add_vectors(whole, count, 1)
    return _reduce_lanes(builder, builder.load(total), builder.fadd)


@intrinsic
def terms_along(typing: Context, a: Any, w: Any, y: Any, count: Any) -> Code:
    """Return the sum of ``count`` vectors of terms, and the greatest n; a, w and y are adjacent, by address."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        terms = _Terms(builder)
        top = alloca_once(builder, terms.vectors.type)
        builder.store(terms.vectors.constant(-np.inf), top)
        total = _add_line(terms, terms.add_term, [top] * _SIDE, args[:3], args[3])
        maximum = _reduce_lanes(
            builder, builder.load(top), lambda x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y)
        )
        return context.make_tuple(builder, signature.return_type, (total, maximum))

    pair = types.Tuple((types.float64, types.float32))
    return pair(types.intp, types.intp, types.intp, types.intp), code


@intrinsic
def plain_terms(typing: Context, a: Any, x: Any, count: Any) -> Code:
    """Return the sum of ``count`` vectors of plain terms of adjacent a and x; NaN if an a is out of range.

    ``a`` and ``x`` are addresses.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        terms = _Terms(builder)
        v = terms.vectors
        marks = [alloca_once(builder, v.bits_type) for _ in range(_SIDE)]
        for range_bits in marks:
            builder.store(v.bits(0), range_bits)

        def are_in_range() -> Value:
            """Return whether all a are in their range."""
            range_bits = builder.load(marks[0])
            for other in marks[1:]:
                range_bits = builder.or_(range_bits, builder.load(other))
            outside = builder.icmp_unsigned("!=", builder.lshr(range_bits, v.bits(_BITS + 7)), v.bits(0))
            mask = builder.bitcast(outside, ir.IntType(FLOATS))
            return builder.icmp_unsigned("==", mask, ir.Constant(mask.type, 0))

        # Once an a is out of range, the remaining groups are skipped.
        total = _add_line(terms, terms.add_plain_term, marks, args[:2], args[2], are_in_range)
        return builder.select(are_in_range(), total, ir.Constant(ir.DoubleType(), np.nan))

    return types.float64(types.intp, types.intp, types.intp), code


@intrinsic
def terms_across(
    typing: Context, a: Any, row: Any, w: Any, y: Any, steps: Any, vectors: Any, references: Any, totals: Any, tops: Any
) -> Code:
    """Add ``steps`` rows of terms to float64 ``totals`` of ``vectors`` vectors of columns.

    ``tops`` receive the greatest exponents. All parameters but the counts are addresses, and ``row`` is the stride of
    rows in bytes; w and y have an entry for each row.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, row, w, y, steps, vectors, references, totals, tops = args
        v = Vectors(builder, ElementType(np.dtype(np.float32)), FLOATS)
        scalar = ir.FloatType()

        def columns(start: Value, ws: Value, ys: Value, count: int) -> None:
            """Add some rows, from addresses of their first a, w and y on."""
            with for_range(builder, vectors) as loop:
                position = builder.mul(loop.index, ir.Constant(I64, 4 * FLOATS))
                terms = _Terms(builder, load(builder, v.type, builder.add(references, position)))
                top, sums = load(builder, v.type, builder.add(tops, position)), [v.constant(0)] * min(_SIDE, count)
                place = builder.add(start, position)
                for step in range(count):
                    # Loaded here, w and y are operands in memory. Loaded before the loop, they would exceed the
                    # registers.
                    w, y = (
                        v.splat(load(builder, scalar, builder.add(base, ir.Constant(I64, 4 * step))))
                        for base in (ws, ys)
                    )
                    _prefetch(builder, builder.add(place, ahead))
                    sums[step % _SIDE], top = terms.add_term(sums[step % _SIDE], top, terms.load(place), w, y)
                    place = builder.add(place, row)
                one = builder.fadd(*sums) if count > 1 else sums[0]
                total = builder.add(totals, builder.mul(position, ir.Constant(I64, 2)))
                before = load(builder, _DOUBLES, total)
                store(builder, builder.fadd(before, builder.fpext(one, _DOUBLES)), total)
                store(builder, top, builder.add(tops, position))

        group = ir.Constant(I64, CHAIN)
        ahead = builder.mul(row, group)
        whole = builder.mul(builder.sdiv(steps, group), group)
        for begin, stop, count in ((ir.Constant(I64, 0), whole, CHAIN), (whole, steps, 1)):
            with for_range_slice(builder, begin, stop, ir.Constant(I64, count), I64) as (k, _):
                offset = builder.mul(k, ir.Constant(I64, 4))
                columns(builder.add(first, builder.mul(k, row)), builder.add(w, offset), builder.add(y, offset), count)
        return void(context)

    return types.void(*[types.intp] * 9), code
