"""Make expressions from Python callables and from text.

The tracer calls a callable once, with values that record their operations. The parser of text uses Python's parser and
a whitelist, and never evaluates text.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from math import isinf
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.expressions.tree import (
    OPERATIONS,
    Expression,
    array_functions,
    as_operation,
    constant,
    plain_text,
)
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
    "parse",
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


MAX_TEXT = 2_000  # characters of an operation given as text

_FUNCTIONS = {
    **{"min": "min", "minimum": "min", "max": "max", "maximum": "max", "abs": "abs", "where": "where"},
    **{name: name for name in ("exp", "expm1", "log", "log1p", "sqrt", "floor")},
}
_BINARY: Mapping[type[ast.operator], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"},
    **{ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"},
}
_COMPARE: Mapping[type[ast.cmpop], str] = {
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
}


def parse(text: str, variables: tuple[str, ...], *, allow_nan: bool = False) -> Expression:
    """Return the tree of an operation written as text, such as ``"max(0, x + y - 1)"``.

    The text is parsed, never evaluated. It may consist of

    - numbers, ``inf`` or ``∞``, ``nan`` (with ``allow_nan``) and the ``variables``;
    - the operators ``+ - * / & | ^ ~`` and ``a if c else b``;
    - comparisons, with ``and``, ``or``, ``not`` between them;
    - the functions min, max, abs, where, exp, expm1, log, log1p, sqrt, floor.

    Any other text raises `ExpressionError`, in time bounded by the length of the text, at most 2,000 characters.
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters: at most {MAX_TEXT} are allowed")
    text = plain_text(text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return as_operation(_ExpressionParser(text, variables).visit(tree), allow_nan)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        reason = (
            error.msg if isinstance(error, SyntaxError) else "it is nested too deeply, or a number in it is malformed"
        )
        raise ExpressionError(f"{quote(text, 200)} is not an expression: {reason}") from None


class _ExpressionParser:
    """The translation of Python syntax trees to expressions, which rejects all syntax outside the whitelist."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text, self.variables = text, variables

    def reject(self, node: ast.expr, reason: str) -> ExpressionError:
        """Return the error that quotes the rejected part of the text."""
        source = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        where = "" if source == self.text.strip() else f"{quote(source)} in "
        return ExpressionError(f"{where}{quote(self.text, 200)}: {reason}")

    def visit(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=name) if name in self.variables:
                return Expression("var", (), name)
            case ast.Name(id="inf" | "nan" as name):
                return constant(float(name))
            case ast.Name(id=name):
                allowed_names = "an element is a number such as 0, 1.5 or -inf, and the only name is inf"
                if self.variables:
                    allowed_names = (
                        f"the names are {', '.join(self.variables)} and inf, and of functions {', '.join(_FUNCTIONS)}"
                    )
                raise self.reject(node, f"unknown name; {allowed_names}")
            case ast.Constant(value=bool() | int() | float() as value):
                if isinstance(value, float) and isinf(value):
                    raise self.reject(node, "the number is beyond the range of float64 (infinity is written inf)")
                return constant(value)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.visit(operand)
                literal = isinstance(operand, ast.Constant | ast.Name) and inner.op == "const"
                if literal and not isinstance(inner.leaf, bool):
                    return constant(-inner.leaf)  # type: ignore[operator]  # a const's leaf is a number
                return Expression("neg", (inner,))
            case ast.UnaryOp(op=ast.Invert() | ast.Not() as op, operand=operand):
                inner = self.visit(operand)
                if isinstance(op, ast.Not) and inner.kind != "truth":
                    raise self.reject(node, "`not` takes a comparison; ~ inverts the bits of a value")
                return Expression("invert", (inner,))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return Expression(_BINARY[type(op)], (self.visit(left), self.visit(right)))
            case ast.BinOp():
                raise self.reject(node, "only the operators + - * / & | ^ are known (write x * x for a square)")
            case ast.BoolOp(op=op, values=values):
                terms = [self.visit(value) for value in values]
                if any(term.kind != "truth" for term in terms):
                    raise self.reject(node, "`and`, `or` take comparisons; & and | act on the bits of values")
                return self.chain("and" if isinstance(op, ast.And) else "or", terms)
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
                sides = [self.visit(left), *(self.visit(side) for side in rest)]
                return self.chain(
                    "and",
                    [Expression(_COMPARE[type(op)], (sides[i], sides[i + 1])) for i, op in enumerate(ops)],
                )
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return Expression("where", (self.visit(test), self.visit(body), self.visit(orelse)))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                op_name, terms = _FUNCTIONS[name], [self.visit(arg) for arg in args]
                if op_name in ("min", "max") and len(terms) >= 2:
                    return self.chain(op_name, terms)
                if len(terms) != OPERATIONS[op_name].arity:
                    raise self.reject(node, f"{name} takes {OPERATIONS[op_name].arity} arguments")
                return Expression(op_name, tuple(terms))
            case ast.Call():
                from difflib import get_close_matches

                function_name = node.func.id.lower() if isinstance(node.func, ast.Name) else ""
                hint = (
                    f"did you mean {near[0]}? " if (near := get_close_matches(function_name, _FUNCTIONS, n=1)) else ""
                )
                raise self.reject(node, f"{hint}the functions are {', '.join(_FUNCTIONS)}, without keywords")
        raise self.reject(node, "only numbers, variables, operators, comparisons and known functions are allowed")

    def chain(self, op: str, terms: list[Expression]) -> Expression:
        """Return the terms joined by a binary operation from left to right."""
        result = terms[0]
        for term in terms[1:]:
            result = Expression(op, (result, term))
        return result
