"""Truth tables of boolean operations, and equivalent bit operations on whole words.

An operation on {0̄, 1̄} is one of a few boolean functions. `truth_table` identifies the function, and `to_bitwise`
expresses it with ``& | ^ ~`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.errors import ExpressionError

__all__ = ["to_bitwise", "truth_table", "zhegalkin_coefficients"]

_MAX_VARIABLES = 5  # variables of a truth table, which then has 2⁵ rows


def truth_table(expression: Expression, variables: Sequence[str]) -> int:
    """Return the boolean function of an expression, as bits: bit r is its value where variable v is bit v of r.

    So ``x & y`` over ("x", "y") is 0b1000. For three variables it is the immediate of a three-input logic instruction
    up to the order of the variables. A truth (a comparison) is read as a bit.
    Raises `DTypeError` if an operation or a constant is not defined on bool.

    >>> from semiring.algebra.expressions import parse
    >>> bin(truth_table(parse("max(x, y)", ("x", "y")), ("x", "y")))
    '0b1110'
    """
    names = tuple(variables)
    missing = expression.variables - set(names)
    if missing or len(names) > _MAX_VARIABLES:
        raise ExpressionError(
            f"{expression}: a truth table is over at most {_MAX_VARIABLES} variables that include all of the "
            f"expression's, not over ({', '.join(names)})"
        )
    expression.check_dtype(np.dtype(np.bool_))
    rows = np.arange(1 << len(names))
    values = {name: (rows >> v & 1).astype(np.bool_) for v, name in enumerate(names)}
    outcome = np.broadcast_to(expression.evaluate(values, np.dtype(np.bool_)), rows.shape)
    return sum(1 << int(row) for row in np.flatnonzero(outcome))


_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")


def to_bitwise(expression: Expression) -> Expression:
    """Return the same boolean function with ``& | ^ ~`` alone, so that it acts on all the bits of a word at once.

    The result has no min, max, comparison, `where` or constant except 0. It depends on the function alone, not on the
    form of the expression. It has the same meaning on bool and on every integer dtype; True is ``~0``. The expression
    may have at most five variables. Raises `DTypeError` if the expression is not defined on bool.

    >>> from semiring.algebra.expressions import parse
    >>> to_bitwise(parse("where(x < y, x, min(x, y))", ("x", "y")))
    Expression('x & y')
    """
    names = tuple(sorted(expression.variables))
    table = truth_table(expression, names)
    arguments = [Expression("var", (), name) for name in names]
    if len(names) == 2:
        return _BINARY_FUNCTIONS[table].substitute({"x": arguments[0], "y": arguments[1]})
    return _algebraic_normal_form(table, arguments)


def _complement(x: Expression) -> Expression:
    return Expression("invert", (x,))


def _combine(op: str, x: Expression, y: Expression) -> Expression:
    return Expression(op, (x, y))


_ZERO = Expression("const", (), 0)
#: The sixteen functions of two variables, by truth table (bit 2·y + x).
_BINARY_FUNCTIONS = (
    *(_ZERO, _complement(_combine("or", _X, _Y)), _combine("and", _X, _complement(_Y)), _complement(_Y)),
    *(
        _combine("and", _complement(_X), _Y),
        _complement(_X),
        _combine("xor", _X, _Y),
        _complement(_combine("and", _X, _Y)),
    ),
    *(_combine("and", _X, _Y), _complement(_combine("xor", _X, _Y)), _X, _combine("or", _X, _complement(_Y))),
    *(_Y, _combine("or", _complement(_X), _Y), _combine("or", _X, _Y), _complement(_ZERO)),
)


def zhegalkin_coefficients(table: int, variables: int) -> list[int]:
    """Return the coefficients of the Zhegalkin polynomial of a truth table, by the Möbius transform over GF(2).

    Coefficient r, 0 or 1, belongs to the product of the variables whose bits are set in r. The function is the
    exclusive or of the products with coefficient 1. The polynomial is unique.
    """
    rows = 1 << variables
    coefficients = [table >> row & 1 for row in range(rows)]
    for v in range(variables):
        for row in range(rows):
            if row >> v & 1:
                coefficients[row] ^= coefficients[row ^ 1 << v]
    return coefficients


def _algebraic_normal_form(table: int, arguments: Sequence[Expression]) -> Expression:
    coefficients = zhegalkin_coefficients(table, len(arguments))
    result: Expression | None = None
    for row in range(1, len(coefficients)):
        if coefficients[row]:
            product: Expression | None = None
            for v, argument in enumerate(arguments):
                if row >> v & 1:
                    product = argument if product is None else _combine("and", product, argument)
            assert product is not None  # row is not 0
            result = product if result is None else _combine("xor", result, product)
    if result is None:
        return _complement(_ZERO) if coefficients[0] else _ZERO
    return _complement(result) if coefficients[0] else result
