"""Print expressions as CUDA C++: two inline device functions for ⊕ and ⊗, the star, and where it does not exist.

The text is a chain of assignments of calls to the functions of ``arithmetic.cuh``, in the order of the tree. Equal
subtrees occur once. The meaning of the operations is defined in ``arithmetic.cuh`` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.expressions import Expression, typed_constant

__all__ = ["ELEMENTS", "constant", "print_function"]

#: The C++ type of an element, by dtype. A ``word_t`` holds 32 truth values.
ELEMENTS = {
    "float16": "half_t",
    "float32": "float",
    "float64": "double",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "byte_t",
    "bool": "byte_t",
    "uint32": "word_t",
}
_KEYWORDS = {"and", "or", "xor", "min", "max", "abs", "exp", "expm1", "log", "log1p", "sqrt", "floor"}


def constant(value: Any, dtype: np.dtype[Any]) -> str:
    """Return ``value`` as a C++ expression of the element type, by its bits, including NaN, ∞ and -0.0."""
    typed = typed_constant(value, dtype) if isinstance(value, bool | int | float) else dtype.type(value)
    bits = int(np.asarray(typed).view(f"u{dtype.itemsize}"))
    if dtype.kind == "f":
        pattern = {
            2: "half_t{{{:#x}}}",
            4: "__int_as_float((int){:#x}u)",
            8: "__longlong_as_double((long long){:#x}ull)",
        }
        return pattern[dtype.itemsize].format(bits)
    return f"({ELEMENTS[dtype.name]}){bits:#x}{'ull' if dtype.itemsize == 8 else 'u'}"


def print_function(
    name: str,
    parameters: str,
    expression: Expression,
    dtype: np.dtype[Any],
    *,
    has_ordered_bits: bool = False,
    nan_variables: str | None = None,
) -> str:
    """Return an inline device function ``name`` of one-letter ``parameters``, all elements of ``dtype``.

    ``has_ordered_bits``: whether no operand ever has its sign bit set, so that a minimum or maximum of floats may
    compare their bits. ``nan_variables``: the parameters that may be NaN, by default all of them.
    """
    nan_variables = parameters if nan_variables is None else nan_variables
    element = ELEMENTS[dtype.name]
    lines: list[str] = []

    def leaf(node: Expression) -> str:
        return str(node.leaf) if node.op == "var" else constant(node.leaf, dtype)

    def operation(node: Expression, arguments: list[str]) -> str:
        called = node.op + "_" * (node.op in _KEYWORDS)
        if node.op in ("min", "max"):
            never_nan = node.never_nan_argument(nan_variables) if dtype == np.float64 else None
            if has_ordered_bits:
                called += "ordered"
            elif never_nan is not None:
                called += "defined"
                arguments = arguments[never_nan:] + arguments[:never_nan]
        result, kind = f"t{len(lines)}", "bool" if node.kind == "truth" else element
        lines.append(f"    const {kind} {result} = {called}({', '.join(arguments)});")
        return result

    result = expression.fold(leaf, operation)
    kind = "bool" if expression.kind == "truth" else element
    arguments = ", ".join(f"{element} {letter}" for letter in parameters)
    return "\n".join([f"INLINE {kind} {name}({arguments}) {{", *lines, f"    return {result};", "}"])
