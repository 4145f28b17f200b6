"""The condition under which an expression is NaN, which marks arguments at which a star does not exist."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import Expression

__all__ = ["is_nan", "nan_by_evaluation", "nan_condition", "replace_nan"]


def is_nan(expression: Expression) -> bool:
    """Return whether the expression is the constant NaN."""
    return expression.op == "const" and expression.leaf != expression.leaf


def replace_nan(expression: Expression, replacement: Expression) -> Expression:
    """Return the expression with each NaN constant replaced."""
    if is_nan(expression):
        return replacement
    if not expression.args:
        return expression
    return Expression(expression.op, tuple(replace_nan(arg, replacement) for arg in expression.args))


def nan_condition(expression: Expression) -> Expression | bool:
    """Return the truth that a NaN constant determines the value, which integers without NaN can evaluate too.

    A min or max is NaN only if all its arguments are NaN.
    """
    if not expression.args:
        return is_nan(expression)
    inner = [nan_condition(arg) for arg in expression.args]
    if expression.op == "where":
        condition = expression.args[0]
        return _disjunction(
            _conjunction(condition, inner[1]), _conjunction(Expression("invert", (condition,)), inner[2])
        )
    return reduce(_conjunction if expression.op in ("min", "max") else _disjunction, inner)


def nan_by_evaluation(expression: Expression, condition: Expression | bool, samples: Any) -> Expression | bool:
    """Return ``condition``, extended by "the expression of ``x`` is NaN" if it is NaN at other ``samples``.

    So a star may be log(1 - x), which is NaN for x > 1. Integers have no such operations.
    """
    if not expression.operations & {"div", "log", "log1p", "sqrt"}:
        return condition
    dtype = np.dtype(np.float64)
    values = np.broadcast_to(expression.evaluate({"x": samples}, dtype), samples.shape)
    is_undefined = np.isnan(values)
    if isinstance(condition, Expression):
        is_undefined = is_undefined & ~np.broadcast_to(condition.evaluate({"x": samples}, dtype), samples.shape)
    is_new = condition is not True and is_undefined.any()
    return _disjunction(condition, Expression("ne", (expression, expression))) if is_new else condition


def _conjunction(left: Expression | bool, right: Expression | bool) -> Expression | bool:
    if isinstance(left, Expression) and isinstance(right, Expression):
        return Expression("and", (left, right))
    if isinstance(left, Expression):
        return left if right else False
    return right if left else False


def _disjunction(left: Expression | bool, right: Expression | bool) -> Expression | bool:
    if isinstance(left, Expression) and isinstance(right, Expression):
        return Expression("or", (left, right))
    if isinstance(left, Expression):
        return True if right else left
    return True if left else right
