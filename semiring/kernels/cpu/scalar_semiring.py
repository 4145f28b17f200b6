"""A semiring on single elements, as an argument of compiled loops and of loops that Python runs."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.kernels.contract import KernelPlan
from semiring.kernels.definition import define

__all__ = ["ScalarSemiring"]

Function = Callable[..., Any]


class ScalarSemiring:
    """The semiring of a plan as an argument of a loop.

    0̄ ⊗ x is neutral under ⊕, as in every kernel. ``closing``: whether to include the star, which the semiring must then
    have. ``opposite``: whether ⊗ is y ⊗ x instead of x ⊗ y.
    """

    type: Any = None  # the Numba type, which `semiring.kernels.cpu.codegen.scalars` makes

    def __init__(self, plan: KernelPlan, *, closing: bool = False, opposite: bool = False) -> None:
        definition = define(plan, closing=closing)
        mul = definition.mul
        if opposite:
            mul = mul.substitute({"x": Expression("var", (), "y"), "y": Expression("var", (), "x")})
        self._dtype, self._add, self._mul = definition.dtype, definition.add, mul
        texts: list[str | None] = [definition.dtype.name, definition.add.text, mul.text]
        if closing:
            assert definition.star is not None
            texts += [definition.star.text, _as_value(definition.divergence)]
        self.text = json.dumps(texts)

    @cached_property
    def times(self) -> Function:
        """⊗ of two NumPy scalars, neither of which is NaN."""
        return _scalar_function(self._mul, self._dtype)

    @cached_property
    def better(self) -> Function:
        """Whether x ⊕ y is x and not y."""
        order: dict[str, Function] = {"min": operator.lt, "max": operator.gt, "or": operator.gt}
        if self._add.op in order:
            return order[self._add.op]
        add = _scalar_function(self._add, self._dtype)
        return lambda x, y: add(x, y) == x != y


def _as_value(truth: Expression | None) -> str | None:
    """Return the text of an expression that is 1 if a truth value holds, else 0."""
    if truth is None:
        return None
    return Expression("where", (truth, Expression("const", (), 1), Expression("const", (), 0))).text


def _scalar_function(expression: Expression, dtype: np.dtype[Any]) -> Function:
    """Return a function of two NumPy scalars of a dtype, neither of which is NaN."""
    operations: dict[str, Function] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
    operations |= {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    operations |= {"min": lambda x, y: x if x < y else y, "max": lambda x, y: x if x > y else y}
    names = [arg.text for arg in expression.args]
    if expression.op in operations and names in (["x", "y"], ["y", "x"]):
        function = operations[expression.op]
        return function if names == ["x", "y"] else lambda x, y: function(y, x)
    return lambda x, y: np.asarray(expression.evaluate({"x": x, "y": y}, dtype))[()]
