"""Lower expressions to LLVM vector instructions.

Every backend translates the same tree with `Expression.fold`. This backend builds vectors of LLVM IR. No operation is
contracted or reassociated. Two choices make the code fast and change no bit of the result. The operands of a minimum
are ordered so that one instruction drops a NaN. Sums are written as multiply-adds (`Target.sums_by_fma`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.ir as ir

from semiring.algebra.expressions import Expression, typed_constant
from semiring.kernels.cpu.codegen import elementary
from semiring.kernels.cpu.codegen.target import Target
from semiring.kernels.cpu.codegen.vector import Value, Vectors

__all__ = ["Operand", "instructions", "lower", "sums_to_fuse"]


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
        self,
        v: Vectors,
        target: Target,
        variables: Mapping[str, Operand],
        fuse: frozenset[Expression],
        one: Value,
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
        if op in elementary.FUNCTIONS:
            return elementary.FUNCTIONS[op](v, *values)
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
