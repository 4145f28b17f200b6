"""Where an expression with NaN constants is NaN: how a star says that it does not exist."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import Expression

__all__ = ["is_nan", "nan_by_evaluation", "nan_condition", "replace_nan"]


def is_nan(expression: Expression) -> bool:
    """Whether the expression is the constant NaN."""
    return expression.op == "const" and expression.leaf != expression.leaf


def replace_nan(expression: Expression, replacement: Expression) -> Expression:
    """The expression with each NaN constant replaced."""
    if is_nan(expression):
        return replacement
    if not expression.args:
        return expression
    return Expression(expression.op, tuple(replace_nan(arg, replacement) for arg in expression.args))


def nan_condition(expression: Expression) -> Expression | bool:
    """The truth that a NaN constant decides the value: so that integers, which have no NaN, can tell.

    A min or max is NaN only where all its arguments are.
    """
    if not expression.args:
        return is_nan(expression)
    inner = [nan_condition(arg) for arg in expression.args]
    if expression.op == "where":
        condition = expression.args[0]
        return _or(_and(condition, inner[1]), _and(Expression("invert", (condition,)), inner[2]))
    return reduce(_and if expression.op in ("min", "max") else _or, inner)


def nan_by_evaluation(expression: Expression, known: Expression | bool, samples: Any) -> Expression | bool:
    """``known``, or that the expression of ``x`` is NaN, where it is so at one of the ``samples`` and not known.

    So a star may simply be log(1 - x), which is no number from 1 on. Integers have no such operations.
    """
    if not expression.operations & {"div", "log", "log1p", "sqrt"}:
        return known
    dtype = np.dtype(np.float64)
    values = np.broadcast_to(expression.evaluate({"x": samples}, dtype), samples.shape)
    lost = np.isnan(values)
    if isinstance(known, Expression):
        lost = lost & ~np.broadcast_to(known.evaluate({"x": samples}, dtype), samples.shape)
    return _or(known, Expression("ne", (expression, expression))) if known is not True and lost.any() else known


def _and(left: Expression | bool, right: Expression | bool) -> Expression | bool:
    if isinstance(left, Expression) and isinstance(right, Expression):
        return Expression("and", (left, right))
    if isinstance(left, Expression):
        return left if right else False
    return right if left else False


def _or(left: Expression | bool, right: Expression | bool) -> Expression | bool:
    if isinstance(left, Expression) and isinstance(right, Expression):
        return Expression("or", (left, right))
    if isinstance(left, Expression):
        return True if right else left
    return True if left else right
