"""Lower expressions to LLVM vector instructions.

Every backend translates the same tree with `Expression.fold`. This backend builds vectors of LLVM IR. No operation is
contracted or reassociated. Two choices make the code fast and change no bit of the result. The operands of a minimum
are ordered so that one instruction drops a NaN. Sums are written as multiply-adds (`Target.sums_by_fma`).

exp, expm1, log and log1p are accurate to about one unit in the last place. No mathematical library is called. So
results are identical on every machine with a fused multiply-add, and the code stays vectorized. The reduction by
multiples of log 2 in two pieces follows W. J. Cody and W. Waite, *Software Manual for the Elementary Functions* (1980).
The logarithm's polynomial in s = f / (2 + f), and the correction of log1p by the rounding of 1 + x, are those of
FreeBSD's msun (K. C. Ng, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.ir as ir

from semiring.algebra.expressions import Expression, typed_constant
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import Value, Vectors


@dataclass(frozen=True)
class Operand:
    """A vector, and whether one of its lanes may be NaN."""

    value: Value
    may_be_nan: bool = False


_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul"}
_BITS = {"and": "and_", "or": "or_", "xor": "xor"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CALLS = {"sqrt": "sqrt", "floor": "floor"}
#: Operations that make NaN from operands that are not NaN.
_NEW_NAN = frozenset({"add", "sub", "mul", "div", "log", "log1p", "sqrt"})


@lru_cache(maxsize=1024)
def sums_to_fuse(add: Expression, mul: Expression) -> frozenset[Expression]:
    """Return the sums inside ⊗ that become multiply-adds, so that both kinds of pipe get equally many instructions.

    Multiplications run on one pair of pipes, comparisons and minima on the other pair, and sums on both pairs.
    """
    multiplications = minima = 0
    sums = []
    for node in (*dict.fromkeys(add.walk()), *dict.fromkeys(mul.walk())):
        if node.op in ("mul", "div"):
            multiplications += 1
        elif node.op in ("min", "max", *_COMPARE):
            minima += 1
    minima += sum(node.op in ("add", "sub") for node in set(add.walk()))
    for node in dict.fromkeys(mul.walk()):
        if node.op in ("add", "sub"):
            if multiplications <= minima:
                sums.append(node)
                multiplications += 1
            else:
                minima += 1
    return frozenset(sums)


def instructions(*expressions: Expression) -> int:
    """Return the approximate number of instructions of expressions, which limits the size of a tile."""
    cost = {"exp": 20, "expm1": 25, "log": 25, "log1p": 30, "div": 3, "sqrt": 4, "where": 1, "floor": 1}
    return sum(cost.get(node.op, 1) for expression in expressions for node in set(expression.walk()) if node.args)


def lower(
    v: Vectors,
    target: Target,
    expression: Expression,
    variables: Mapping[str, Operand],
    *,
    fuse: frozenset[Expression] = frozenset(),
    one: Value = None,
) -> Operand:
    """Return the vector instructions of an expression.

    ``fuse``: the sums to write as multiply-adds with the factor ``one``.
    """
    translation = _Translation(v, target, variables, fuse if one is not None else frozenset(), one)
    result: Operand = expression.fold(translation.leaf, translation.node)
    return result


class _Translation:
    def __init__(
        self, v: Vectors, target: Target, variables: Mapping[str, Operand], fuse: frozenset[Expression], one: Value
    ) -> None:
        self.v, self.target, self.variables, self.fuse, self.one = v, target, variables, fuse, one

    def leaf(self, expression: Expression) -> Operand:
        if expression.op == "var":
            return self.variables[str(expression.leaf)]
        value = typed_constant(expression.leaf, self.v.element.dtype)  # type: ignore[arg-type]  # a const's leaf
        return Operand(self.v.constant(value), bool(value != value))

    def node(self, expression: Expression, args: list[Operand]) -> Operand:
        op, floating = expression.op, self.v.element.is_floating
        if op in ("min", "max"):
            return self.extremum(op, *args)
        values = [arg.value for arg in args]
        nan = floating and expression.kind == "value" and (op in _NEW_NAN or any(arg.may_be_nan for arg in args))
        if op == "where":
            return Operand(self.v.select(*values), args[1].may_be_nan or args[2].may_be_nan)
        if op in _COMPARE:
            return Operand(self.v.compare(_COMPARE[op], *values))
        if op in _BITS:
            return Operand(getattr(self.v.builder, _BITS[op])(*values))
        if op == "invert":
            return Operand(self.invert(values[0]))
        if expression in self.fuse:
            return Operand(self.multiply_add(op, *values), nan)
        return Operand(self.arithmetic(op, values), nan)

    def arithmetic(self, op: str, values: list[Value]) -> Value:
        v, b = self.v, self.v.builder
        if op in _FUNCTIONS:
            return _FUNCTIONS[op](v, *values)
        if op in _CALLS:
            return v.call(_CALLS[op], *values)
        if not v.element.is_floating:
            if op == "neg":
                return b.sub(v.constant(0), values[0])
            if op == "abs":
                return v.select(v.less_than(values[0], v.constant(0)), b.sub(v.constant(0), values[0]), values[0])
            return getattr(b, _INTEGER[op])(*values)
        if op == "neg":
            return b.fneg(values[0])
        return v.call("fabs", values[0]) if op == "abs" else getattr(b, _FLOAT[op])(*values)

    def multiply_add(self, op: str, x: Value, y: Value) -> Value:
        return self.v.fma(x, self.one, y if op == "add" else self.v.builder.fneg(y))

    def invert(self, x: Value) -> Value:
        truth = getattr(x.type, "element", x.type) == ir.IntType(1)
        whole = truth or self.v.element.dtype.kind != "b"
        return self.v.builder.not_(x) if whole else self.v.builder.xor(x, self.v.constant(1))

    def extremum(self, op: str, x: Operand, y: Operand) -> Operand:
        """Return a minimum or maximum that drops a NaN.

        ``select(x < y, x, y)`` is one instruction, whose result is y if x or y is NaN.
        """
        v = self.v
        nan = x.may_be_nan and y.may_be_nan
        if v.element.is_floating and self.target.has_minnum:
            return Operand(v.call("minnum" if op == "min" else "maxnum", x.value, y.value), nan)
        default, other = (x, y) if y.may_be_nan or not x.may_be_nan else (y, x)
        if y.may_be_nan and x.may_be_nan:
            default, other = x, y
        better = v.compare("<" if op == "min" else ">", other.value, default.value)
        result = v.select(better, other.value, default.value)
        if nan:
            result = v.select(v.builder.fcmp_unordered("uno", default.value, default.value), other.value, result)
        return Operand(result, nan)


# ------------------------------------------------------------------------------------------ elementary functions


# log 2 in two pieces: the first has enough trailing zeros for its product with an exponent to be exact.
_LN2 = {4: (0.693359375, -2.12194440e-4), 8: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
_MANTISSA_BITS = {4: 23, 8: 52}
_BIAS = {4: 127, 8: 1023}
_TERMS = {4: 8, 8: 14}  # terms of the series of expm1 on ±log(2)/2: the first omitted term is below half a unit
# (log(1 + f) - f) as a polynomial in s² (msun's Lg1, Lg2, ...)
_LOG = {
    4: (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
    8: (
        *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01),
        *(2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01),
    ),
}


def _reduce(v: Vectors, x: Value) -> tuple[Value, Value]:
    """Reduce x = k·log 2 + r with |r| at most about log(2)/2. Return k as a float, and expm1(r)."""
    size, b = v.element.size, v.builder
    high, low = _LN2[size]
    k = v.call("rint", b.fmul(x, v.constant(1 / math.log(2))))
    r = v.fma(b.fneg(k), v.constant(high), x)
    r = v.fma(b.fneg(k), v.constant(low), r)
    series = v.constant(1 / math.factorial(_TERMS[size]))
    for n in range(_TERMS[size] - 1, 1, -1):
        series = v.fma(series, r, v.constant(1 / math.factorial(n)))
    return k, v.fma(b.fmul(r, r), series, r)


def _power_of_two(v: Vectors, k: Value) -> Value:
    """Return 2ᵏ for an integral k between the exponents of normal numbers."""
    size = v.element.size
    exponent = v.builder.add(v.builder.fptosi(k, v.bits_type), v.bits(_BIAS[size]))
    return v.from_bits(v.builder.shl(exponent, v.bits(_MANTISSA_BITS[size])))


def _clamp(v: Vectors, x: Value, low: float, high: float) -> Value:
    """Clamp the argument to the bounds beyond which the result is 0, -1 or ∞; NaN stays."""
    x = v.select(v.less_than(x, v.constant(low)), v.constant(low), x)
    return v.select(v.less_than(v.constant(high), x), v.constant(high), x)


def _exp(v: Vectors, x: Value) -> Value:
    """Return eˣ, also for subnormal results, and ∞ for results beyond the range."""
    b = v.builder
    limit = 110.0 if v.element.size == 4 else 760.0
    k, p = _reduce(v, _clamp(v, x, -limit, limit))
    # Two factors, because 2ᵏ may lie outside the normal numbers although the result does not.
    half = v.call("floor", b.fmul(k, v.constant(0.5)))
    scaled = b.fmul(b.fadd(v.constant(1), p), _power_of_two(v, half))
    return b.fmul(scaled, _power_of_two(v, b.fsub(k, half)))


def _expm1(v: Vectors, x: Value) -> Value:
    """Return eˣ - 1 without cancellation near 0."""
    b = v.builder
    low, high = (-30.0, 89.5) if v.element.size == 4 else (-60.0, 710.5)
    k, p = _reduce(v, _clamp(v, x, low, high))
    half = v.call("floor", b.fmul(k, v.constant(0.5)))
    first, second = _power_of_two(v, half), _power_of_two(v, b.fsub(k, half))
    # 2ᵏ·p + (2ᵏ - 1), where both pieces of 2ᵏ are factored so that 2¹⁰²⁴ never appears
    scaled = b.fmul(v.fma(first, p, b.fsub(first, _power_of_two(v, b.fsub(half, k)))), second)
    result = v.select(v.compare("==", k, v.constant(0)), p, scaled)
    return v.select(v.compare("==", x, v.constant(0)), x, result)


def _log_of_reduced(v: Vectors, f: Value, k: Value, correction: Value) -> Value:
    """Return log(2ᵏ·(1 + f)) plus a small correction, for f in (√½ - 1, √2 - 1)."""
    b = v.builder
    size = v.element.size
    # The pieces for float32 are those of msun, which differ from _LN2[4].
    high, low = (6.9313812256e-01, 9.0580006145e-06) if size == 4 else _LN2[8]
    s = b.fdiv(f, b.fadd(v.constant(2), f))
    z = b.fmul(s, s)
    *_, last = coefficients = _LOG[size]
    series = v.constant(last)
    for coefficient in reversed(coefficients[:-1]):
        series = v.fma(series, z, v.constant(coefficient))
    half_square = b.fmul(v.constant(0.5), b.fmul(f, f))
    tail = b.fadd(b.fmul(s, v.fma(z, series, half_square)), v.fma(k, v.constant(low), correction))
    return v.fma(k, v.constant(high), b.fsub(f, b.fsub(half_square, tail)))


def _split_exponent(v: Vectors, x: Value) -> tuple[Value, Value]:
    """Split a positive normal x = 2ᵏ·(1 + f) with 1 + f in [√½, √2). Return f and k."""
    b, size = v.builder, v.element.size
    root = 0x3F3504F3 if size == 4 else 0x3FE6A09E667F3BCD  # √½
    shifted = b.sub(v.as_bits(x), v.bits(root))
    k = b.ashr(shifted, v.bits(_MANTISSA_BITS[size]))
    mantissa = b.sub(v.as_bits(x), b.shl(k, v.bits(_MANTISSA_BITS[size])))
    return b.fsub(v.from_bits(mantissa), v.constant(1)), b.sitofp(k, v.type)


def _with_poles(v: Vectors, x: Value, pole: float, result: Value) -> Value:
    """Return the result with -∞ at the pole, NaN below it, ∞ at ∞, and NaN for NaN."""
    result = v.select(v.compare("==", x, v.constant(math.inf)), x, result)
    result = v.select(v.compare("==", x, v.constant(pole)), v.constant(-math.inf), result)
    result = v.select(v.less_than(x, v.constant(pole)), v.constant(math.nan), result)
    return v.select(v.builder.fcmp_unordered("uno", x, x), x, result)


def _log(v: Vectors, x: Value) -> Value:
    """Return the natural logarithm, also of subnormal numbers."""
    b = v.builder
    size = v.element.size
    tiny = v.less_than(x, v.constant(2.0 ** (1 - _BIAS[size])))
    shift = 2.0**54 if size == 8 else 2.0**25
    f, k = _split_exponent(v, v.select(tiny, b.fmul(x, v.constant(shift)), x))
    k = b.fsub(k, v.select(tiny, v.constant(math.log2(shift)), v.constant(0)))
    return _with_poles(v, x, 0.0, _log_of_reduced(v, f, k, v.constant(0)))


def _log1p(v: Vectors, x: Value) -> Value:
    """Return log(1 + x) without cancellation near 0."""
    b = v.builder
    total = b.fadd(v.constant(1), x)
    f, k = _split_exponent(v, total)
    # The rounding error of 1 + x, from the smaller of the two summands, relative to the sum
    lost = v.select(
        v.less_than(v.constant(1), x), b.fsub(v.constant(1), b.fsub(total, x)), b.fsub(x, b.fsub(total, v.constant(1)))
    )
    result = _with_poles(v, x, -1.0, _log_of_reduced(v, f, k, b.fdiv(lost, total)))
    return v.select(v.compare("==", x, v.constant(0)), x, _keep_tiny(v, x, result))


def _keep_tiny(v: Vectors, x: Value, result: Value) -> Value:
    """Return x for log1p(x) where 1 + x rounds to 1."""
    threshold = v.constant(2.0 ** -(_MANTISSA_BITS[v.element.size] + 2))
    return v.select(v.less_than(v.call("fabs", x), threshold), x, result)


_FUNCTIONS: dict[str, Any] = {"exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p}
