"""Extended reals, with one rule for ±∞ and NaN over several kinds of finite number.

`Numbers` evaluates an expression. A value is a float only if it is ∞, -∞ or NaN. A subclass defines finite values:

- `ExactNumbers`: exact rational numbers;
- `DecimalNumbers`: sixty decimal digits, for exp, log and sqrt;
- `semiring.algebra.verify.case_splits`: rational functions of unknowns.

The rules are those of IEEE 754 with an unsigned zero (1 / 0 = ∞), except that min and max drop a NaN, as every backend
does.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from semiring.algebra.expressions import Expression
from semiring.algebra.verify.polynomials import UndecidedError

__all__ = ["DecimalNumbers", "ExactNumbers", "Numbers", "format_value", "numbers_for"]

NAN, INF = math.nan, math.inf

#: A float (∞, -∞, NaN) or a finite number of the subclass.
Value = Any


class Numbers:
    """The evaluation of expressions over the extended reals. A subclass defines the finite numbers."""

    # A subclass defines the following methods, whose operands are finite.

    def from_rational(self, value: int | Fraction) -> Value:
        """Return the number that stands for a rational constant."""
        raise NotImplementedError

    def is_positive(self, x: Value) -> bool:
        raise NotImplementedError

    def is_nonnegative(self, x: Value) -> bool:
        raise NotImplementedError

    def finite_add(self, x: Value, y: Value) -> Value:
        return x + y

    def finite_mul(self, x: Value, y: Value) -> Value:
        return x * y

    def finite_div(self, x: Value, y: Value) -> Value:
        return x / y

    def finite_neg(self, x: Value) -> Value:
        return -x

    def finite_function(self, op: str, x: Value) -> Value:
        """Return exp, expm1, log, log1p, sqrt or floor of an argument for which it exists."""
        raise UndecidedError(f"{op} has no exact value")

    def bitwise(self, op: str, *args: Value) -> Value:
        raise UndecidedError(f"{op} acts on the bits of integers")

    # The following methods accept ±∞ and NaN, and are the same for all subclasses.

    def constant(self, value: float | Fraction) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            return value
        return self.from_rational(Fraction(value))

    def is_zero(self, x: Value) -> bool:
        return self.is_nonnegative(x) and not self.is_positive(x)

    def is_less(self, x: Value, y: Value) -> bool:
        """Return whether x < y, which is false if either is NaN."""
        if isinstance(x, float) or isinstance(y, float):
            return _stand_in(x) < _stand_in(y)
        return self.is_positive(self.finite_add(y, self.finite_neg(x)))

    def is_less_or_equal(self, x: Value, y: Value) -> bool:
        if isinstance(x, float) or isinstance(y, float):
            return _stand_in(x) <= _stand_in(y) if isinstance(x, float) and isinstance(y, float) else self.is_less(x, y)
        return self.is_nonnegative(self.finite_add(y, self.finite_neg(x)))

    def is_equal(self, x: Value, y: Value) -> bool:
        if isinstance(x, float) or isinstance(y, float):
            return isinstance(x, float) and isinstance(y, float) and x == y
        return self.is_zero(self.finite_add(y, self.finite_neg(x)))

    def is_same_outcome(self, x: Value, y: Value) -> bool:
        """Return whether two outcomes are equal, where NaN, an undefined outcome, equals NaN."""
        return (is_nan(x) and is_nan(y)) or self.is_equal(x, y)

    def add(self, x: Value, y: Value) -> Value:
        if isinstance(x, float) or isinstance(y, float):
            return _stand_in(x) + _stand_in(y)
        return self.finite_add(x, y)

    def neg(self, x: Value) -> Value:
        return -x if isinstance(x, float) else self.finite_neg(x)

    def sign(self, x: Value) -> int:
        if isinstance(x, float):
            return 1 if x > 0 else -1
        return 1 if self.is_positive(x) else 0 if self.is_nonnegative(x) else -1

    def mul(self, x: Value, y: Value) -> Value:
        if is_nan(x) or is_nan(y):
            return NAN
        if isinstance(x, float) or isinstance(y, float):
            return self.sign(x) * self.sign(y) * INF  # 0 · ∞ is NaN
        return self.finite_mul(x, y)

    def div(self, x: Value, y: Value) -> Value:
        if is_nan(x) or is_nan(y) or (isinstance(x, float) and isinstance(y, float)):
            return NAN
        if isinstance(y, float):
            return self.from_rational(0)
        divisor = self.sign(y)
        if isinstance(x, float) or divisor == 0:
            return self.sign(x) * (divisor or 1) * INF
        return self.finite_div(x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        if is_nan(x) or is_nan(y):
            return y if is_nan(x) else x
        return x if self.is_less_or_equal(x, y) else y

    def maximum(self, x: Value, y: Value) -> Value:
        if is_nan(x) or is_nan(y):
            return y if is_nan(x) else x
        return x if self.is_less_or_equal(y, x) else y

    def apply_function(self, op: str, x: Value) -> Value:
        if is_nan(x):
            return NAN
        if isinstance(x, float):
            if x > 0 or op == "floor":
                return x
            return {"exp": self.from_rational(0), "expm1": self.from_rational(-1)}.get(op, NAN)
        if op in ("log", "log1p"):
            sign = self.sign(x if op == "log" else self.finite_add(x, self.from_rational(1)))
            if sign <= 0:
                return NAN if sign else -INF
        if op == "sqrt" and not self.is_nonnegative(x):
            return NAN
        return self.finite_function(op, x)

    def evaluate_truth(self, expression: Expression, values: Mapping[str, Value]) -> bool:
        op, args = expression.op, expression.args
        if op == "and":
            return self.evaluate_truth(args[0], values) and self.evaluate_truth(args[1], values)
        if op == "or":
            return self.evaluate_truth(args[0], values) or self.evaluate_truth(args[1], values)
        if op == "xor":
            return self.evaluate_truth(args[0], values) != self.evaluate_truth(args[1], values)
        if op == "invert":
            return not self.evaluate_truth(args[0], values)
        x, y = (self.evaluate(arg, values) for arg in args)
        if op == "ne":
            return not self.is_equal(x, y)
        if op in ("gt", "ge"):
            x, y = y, x
        return {
            "lt": self.is_less,
            "gt": self.is_less,
            "le": self.is_less_or_equal,
            "ge": self.is_less_or_equal,
            "eq": self.is_equal,
        }[op](x, y)

    def evaluate(self, expression: Expression, values: Mapping[str, Value]) -> Value:
        """Return the value of an expression, which evaluates only the selected branch of a `where`."""
        op, args = expression.op, expression.args
        if op == "var":
            return values[str(expression.leaf)]
        if op == "const":
            return self.constant(expression.leaf)  # type: ignore[arg-type]  # a const's leaf is a Constant
        if op == "where":
            return self.evaluate(args[1 if self.evaluate_truth(args[0], values) else 2], values)
        evaluated = [self.evaluate(arg, values) for arg in args]
        if op == "sub":
            return self.add(evaluated[0], self.neg(evaluated[1]))
        if op == "abs":
            x = evaluated[0]
            return abs(x) if isinstance(x, float) else x if self.is_nonnegative(x) else self.finite_neg(x)
        if op in ("and", "or", "xor", "invert"):
            return self.bitwise(op, *evaluated)
        if op in ("exp", "expm1", "log", "log1p", "sqrt", "floor"):
            return self.apply_function(op, evaluated[0])
        if op == "neg":
            return self.neg(evaluated[0])
        binary = {"add": self.add, "mul": self.mul, "div": self.div, "min": self.minimum, "max": self.maximum}
        return binary[op](*evaluated)


def is_nan(x: Value) -> bool:
    return isinstance(x, float) and x != x


def _stand_in(x: Value) -> float:
    """Return x if it is ±∞ or NaN, and 0.0 for a finite x: sums and comparisons with ±∞ and NaN are then the same."""
    return x if isinstance(x, float) else 0.0


class ExactNumbers(Numbers):
    """The exact rational numbers. `UndecidedError` is raised without an exact value, or beyond 20,000 bits."""

    def from_rational(self, value: int | Fraction) -> Fraction:
        return Fraction(value)

    def is_positive(self, x: Fraction) -> bool:
        return x > 0

    def is_nonnegative(self, x: Fraction) -> bool:
        return x >= 0

    def finite_mul(self, x: Fraction, y: Fraction) -> Fraction:
        if _bit_length(x) + _bit_length(y) > 20_000:
            raise UndecidedError("the numbers grow too large")
        return x * y

    def finite_function(self, op: str, x: Fraction) -> Fraction:
        if op == "floor":
            return Fraction(math.floor(x))
        if op == "sqrt":
            root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
            if root * root == x:
                return root
        raise UndecidedError(f"{op}({x}) is not rational")

    def bitwise(self, op: str, *args: Value) -> Fraction:
        if any(isinstance(x, float) or x.denominator != 1 for x in args):
            raise UndecidedError(f"{op} acts on integers")
        integers = [int(x) for x in args]
        if op == "invert":
            return Fraction(~integers[0])
        x, y = integers
        return Fraction({"and": x & y, "or": x | y, "xor": x ^ y}[op])


def _bit_length(x: Fraction) -> int:
    return x.numerator.bit_length() + x.denominator.bit_length()


class DecimalNumbers(Numbers):
    """Numbers of sixty decimal digits, for exp, log and sqrt. Two numbers are equal if they agree to within 1e-12.

    The tolerance leaves room for constants of a definition that are themselves rounded, such as log 2 in a float64.
    """

    context = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
    tolerance = Decimal("1e-12")

    def from_rational(self, value: int | Fraction) -> Decimal:
        return self.context.divide(Decimal(value.numerator), Decimal(value.denominator))

    def is_positive(self, x: Decimal) -> bool:
        return x > 0

    def is_nonnegative(self, x: Decimal) -> bool:
        return x >= 0

    def finite_neg(self, x: Decimal) -> Decimal:
        return x.copy_negate()  # -x and abs(x) would use the context of the thread, which has a smaller exponent range

    def is_same_outcome(self, x: Value, y: Value) -> bool:
        if isinstance(x, float) or isinstance(y, float):
            return super().is_same_outcome(x, y)
        scale = max(Decimal(1), x.copy_abs(), y.copy_abs())
        return self.context.subtract(x, y).copy_abs() <= self.context.multiply(self.tolerance, scale)

    def finite_add(self, x: Decimal, y: Decimal) -> Value:
        return self._value(self.context.add(x, y))

    def finite_mul(self, x: Decimal, y: Decimal) -> Value:
        return self._value(self.context.multiply(x, y))

    def finite_div(self, x: Decimal, y: Decimal) -> Value:
        return self._value(self.context.divide(x, y))

    def finite_function(self, op: str, x: Decimal) -> Value:
        context, one = self.context, Decimal(1)
        if op == "floor":
            return x.to_integral_value(decimal.ROUND_FLOOR, context)
        if op == "sqrt":
            return self._value(context.sqrt(x))
        if op in ("log", "log1p"):
            return self._value(context.ln(x if op == "log" else context.add(one, x)))
        power = context.exp(x)
        return self._value(power if op == "exp" else context.subtract(power, one))

    @staticmethod
    def _value(x: Decimal) -> Value:
        return x if x.is_finite() else float(x)


def numbers_for(*expressions: Expression) -> Numbers:
    """Return exact numbers if all operations are rational, else decimals."""
    operations = frozenset[str]().union(*(expression.operations for expression in expressions))
    return DecimalNumbers() if operations & {"exp", "expm1", "log", "log1p", "sqrt"} else ExactNumbers()


def format_value(x: Value) -> str:
    """Return the text of a value in a counterexample, such as 3, -1/2, ∞, NaN, 0.693147."""
    if isinstance(x, float):
        return "NaN" if x != x else "∞" if x > 0 else "-∞"
    if isinstance(x, Decimal):
        return f"{x:.12g}"
    if _bit_length(x) <= 80:
        return str(x)
    return f"{DecimalNumbers.context.divide(Decimal(x.numerator), Decimal(x.denominator)):.12g}"
