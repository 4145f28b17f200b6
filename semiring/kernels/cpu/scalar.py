"""Expressions to scalar Numba functions, for kernels that are written in Numba throughout.

Where speed is a matter of vectors, `lower` writes them; these functions go into loops that LLVM vectorises by itself, or
that are bound by memory. What they compute is the same: the order of operations as written, every step rounded to the
dtype, a NaN dropped by ``min`` and ``max``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from semiring.expressions import Expression, typed_constant

__all__ = ["compile_scalar"]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _minimum(x, y):  # type: ignore[no-untyped-def]  # compiled
    return x if x <= y or y != y else y


def _maximum(x, y):  # type: ignore[no-untyped-def]  # compiled
    return x if x >= y or y != y else y


_NAMES: dict[str, Any] = {
    "minimum": njit(_minimum, inline="always"),
    "maximum": njit(_maximum, inline="always"),
    "exp": math.exp,
    "expm1": math.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "floor": math.floor,
    "inf": math.inf,
    "nan": math.nan,
}


def _source(expression: Expression, dtype: np.dtype[Any]) -> str:
    """The expression as the text of a Python expression over x and y; ``rounded`` converts to the dtype."""

    def leaf(node: Expression) -> str:
        if node.op == "var":
            return str(node.leaf)
        value = typed_constant(node.leaf, dtype)  # type: ignore[arg-type]  # a const's leaf is a Constant
        return f"rounded({value.item()!r})"

    def node(found: Expression, args: list[str]) -> str:
        op = found.op
        truths = found.args[0].kind == "truth" or dtype.kind == "b"
        if op in _COMPARE:
            return f"({args[0]} {_COMPARE[op]} {args[1]})"
        if op == "where":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op in ("min", "max"):
            return f"{op}imum({args[0]}, {args[1]})"
        if op == "invert":
            return f"(not {args[0]})" if truths else f"rounded(~{args[0]})"
        if op in _INFIX:
            text = f"({args[0]} {_INFIX[op]} {args[1]})"
            return text if truths else f"rounded{text}"
        return f"rounded({ {'neg': '-', 'abs': 'abs'}.get(op, op)}({args[0]}))"

    text: str = expression.fold(leaf, node)
    return text


def compile_scalar(expression: Expression, dtype: np.dtype[Any]) -> Callable[[Any, Any], Any]:
    """A Numba function of x and y, two scalars of ``dtype``, that other Numba functions call."""
    namespace = {**_NAMES, "rounded": dtype.type}
    # The text is made of this module's own words and of constants: `Expression` admits nothing else.
    exec(compile(f"def operation(x, y):\n    return {_source(expression, dtype)}\n", "<semiring>", "exec"), namespace)
    return njit(namespace["operation"], nogil=True, error_model="numpy", inline="never")  # type: ignore[no-any-return]
