"""The tracer of Python callables, which calls them once with values that record their operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.expressions.tree import OPERATIONS, Expression, array_functions, as_operation, constant
from semiring.errors import ExpressionError

__all__ = [
    "Traced",
    "absolute",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "sqrt",
    "trace",
    "where",
]


class Traced:
    """A value inside a callable that is being traced, whose operators record the operations on it.

    It has no truth value, so Python's ``if``, ``and``, ``min`` on it raise `ExpressionError`: use `where`, ``&``,
    `minimum`.
    """

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # == builds a node

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __bool__(self) -> bool:
        raise ExpressionError(
            f"({self.expression}) has no truth value while an operation is traced. "
            "Replace `if` and `a if c else b` by semiring.extend.where(c, a, b), `and`, `or`, `not` by &, |, ~, "
            "and min, max by semiring.extend.minimum, semiring.extend.maximum"
        )

    def __repr__(self) -> str:
        return f"Traced({self.expression})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Traced:
        name = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or name is None:
            raise ExpressionError(
                f"numpy.{ufunc.__name__} cannot be used in an operation. These functions can: "
                f"{', '.join(sorted(_UFUNCS))}"
            )
        return _record(name, *inputs)

    def __float__(self) -> float:
        raise ExpressionError(f"({self.expression}) is not a number: use exp, log, sqrt of semiring, not of math")

    def __neg__(self) -> Traced:
        return _record("neg", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return _record("abs", self)

    def __invert__(self) -> Traced:
        return _record("invert", self)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return _record("eq", self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]
        return _record("ne", self, other)

    def __lt__(self, other: Any) -> Traced:
        return _record("lt", self, other)

    def __le__(self, other: Any) -> Traced:
        return _record("le", self, other)

    def __gt__(self, other: Any) -> Traced:
        return _record("gt", self, other)

    def __ge__(self, other: Any) -> Traced:
        return _record("ge", self, other)

    def __add__(self, other: Any) -> Traced:
        return _record("add", self, other)

    def __radd__(self, other: Any) -> Traced:
        return _record("add", other, self)

    def __sub__(self, other: Any) -> Traced:
        return _record("sub", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return _record("sub", other, self)

    def __mul__(self, other: Any) -> Traced:
        return _record("mul", self, other)

    def __rmul__(self, other: Any) -> Traced:
        return _record("mul", other, self)

    def __truediv__(self, other: Any) -> Traced:
        return _record("div", self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _record("div", other, self)

    def __and__(self, other: Any) -> Traced:
        return _record("and", self, other)

    def __rand__(self, other: Any) -> Traced:
        return _record("and", other, self)

    def __or__(self, other: Any) -> Traced:
        return _record("or", self, other)

    def __ror__(self, other: Any) -> Traced:
        return _record("or", other, self)

    def __xor__(self, other: Any) -> Traced:
        return _record("xor", self, other)

    def __rxor__(self, other: Any) -> Traced:
        return _record("xor", other, self)


_UFUNCS = {
    **{name: name for name in ("exp", "expm1", "log", "log1p", "sqrt", "floor", "invert")},
    **{"minimum": "min", "fmin": "min", "maximum": "max", "fmax": "max", "absolute": "abs", "negative": "neg"},
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"},
    **{"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"},
    **{"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne"},
}


def _record(op: str, *args: Any) -> Traced:
    return Traced(Expression(op, tuple(arg.expression if isinstance(arg, Traced) else constant(arg) for arg in args)))


def trace(function: Callable[..., Any], variables: tuple[str, ...], *, allow_nan: bool = False) -> Expression:
    """Return the tree of a callable, called once with one `Traced` value for each of ``variables``.

    A NaN constant is accepted only with ``allow_nan``: a star is NaN where it does not exist.
    """
    try:
        result = function(*(Traced(Expression("var", (), name)) for name in variables))
    except RecursionError:
        raise ExpressionError(
            f"tracing {quote(function)} does not end: write the operation without loops and recursion"
        ) from None
    except (TypeError, AttributeError) as error:
        if "Traced" not in str(error):
            raise
        raise ExpressionError(
            f"{error}: an operation may use + - * / & | ^ ~, abs and comparisons of values (write x * x for a square)"
        ) from error
    if isinstance(result, Traced):
        expression = result.expression
    elif result is None:
        raise ExpressionError(f"{quote(function)} returned None: return the result of the operation")
    else:
        expression = constant(result)
    return as_operation(expression, allow_nan)


_DOCUMENTATION = """{summary}

The function computes on arrays and scalars. Inside a callable that defines a semiring, it is recorded.

Parameters
----------
*args : scalar, array or Traced
    {operands}

Returns
-------
scalar, array or Traced
    {result}

Raises
------
TypeError
    If the number of arguments is wrong.
"""


def _make_function(
    op: str, numpy_name: str, summary: str, result: str, operands: str = "The value x."
) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        if len(args) != OPERATIONS[op].arity:
            raise TypeError(f"{numpy_name} takes {OPERATIONS[op].arity} arguments, {len(args)} given")
        if any(isinstance(arg, Traced) for arg in args):
            return _record(op, *args)
        return array_functions(np)[op](*args)

    function.__name__ = function.__qualname__ = numpy_name
    function.__doc__ = _DOCUMENTATION.format(summary=summary, operands=operands, result=result)
    return function


_TWO_VALUES = "The two values x and y, whose shapes broadcast."
_NAN_RULE = "If one value is NaN, it is the other value."

minimum = _make_function(
    "min", "minimum", "Return the smaller of two values.", f"The smaller value. {_NAN_RULE}", _TWO_VALUES
)
maximum = _make_function(
    "max", "maximum", "Return the larger of two values.", f"The larger value. {_NAN_RULE}", _TWO_VALUES
)
where = _make_function(
    *("where", "where", "Return one value where a truth holds, and another value elsewhere."),
    "The value ``a`` where the truth holds, and the value ``b`` elsewhere.",
    "The arguments ``truth``, ``a`` and ``b``, whose shapes broadcast.",
)
exp = _make_function("exp", "exp", "Return the exponential of a value.", "The power eˣ.")
expm1 = _make_function("expm1", "expm1", "Return the exponential of a value, minus 1.", "eˣ - 1, accurate near x = 0.")
log = _make_function("log", "log", "Return the natural logarithm of a value.", "The logarithm.")
log1p = _make_function("log1p", "log1p", "Return the natural logarithm of 1 + x.", "log(1 + x), accurate near x = 0.")
sqrt = _make_function("sqrt", "sqrt", "Return the square root of a value.", "The root.")
absolute = _make_function("abs", "absolute", "Return the absolute value of a value.", "The value without its sign.")
floor = _make_function("floor", "floor", "Return the largest integer that is not above a value.", "The integer.")
