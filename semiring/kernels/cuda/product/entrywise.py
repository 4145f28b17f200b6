"""Compute ⊕ and ⊗ of CuPy arrays entry by entry, each in one memory-bound kernel that reads its operands once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression
from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, Arithmetic

#: By dtype: the type of an element for CuPy, and the C++ expressions that convert it to the type of `arithmetic.cuh`
#: and back. Other dtypes need no conversion.
_VIEWS = {"float16": ("uint16", "half_t{{{}}}", "{}.bits"), "bool": ("bool", "(byte_t){}", "{}")}


def apply(semiring: Semiring, operation: str, x: Any, y: Any) -> Any | None:
    """Compute x ⊕ y (``"add"``) or x ⊗ y (``"mul"``) of arrays and NumPy scalars of one dtype, which broadcast.

    The function enqueues one kernel on the current stream. It returns None for a dtype without a C++ type (bfloat16).
    """
    dtype = x.dtype
    if dtype.name not in ELEMENTS:
        return None
    word = np.dtype(_VIEWS.get(dtype.name, (dtype.name,))[0])
    return _kernel(semiring, operation, dtype)(x.view(word), y.view(word)).view(dtype)


def source(semiring: Semiring, operation: str, dtype: np.dtype[Any]) -> tuple[str, str]:
    """Return the preamble of the kernel, and its statement."""
    X, Y = Expression("var", (), "x"), Expression("var", (), "y")
    add, mul, zero = semiring.add.expression, semiring.mul.expression, semiring.zero
    for operand in (Y, X) if semiring.annihilates else ():  # 0̄ ⊗ x = 0̄, whatever ⊗ computes
        mul = Expression("where", (Expression("eq", (operand, zero)), zero, mul))
    arithmetic = Arithmetic(dtype.name, add, mul, semiring.zero_for(dtype), semiring.one_for(dtype))
    _, read, write = _VIEWS.get(dtype.name, ("", "{}", "{}"))
    called = f"{'plus' if operation == 'add' else 'times'}({read.format('x')}, {read.format('y')})"
    return arithmetic.header, f"z = {write.format(called)}"


@lru_cache(maxsize=512)
def _kernel(semiring: Semiring, operation: str, dtype: np.dtype[Any]) -> Any:
    import cupy

    header, statement = source(semiring, operation, dtype)
    word = _VIEWS.get(dtype.name, (dtype.name,))[0]
    return cupy.ElementwiseKernel(
        f"{word} x, {word} y",
        f"{word} z",
        statement,
        f"semiring_{operation}_{dtype.name}",
        preamble=header,
        options=("--std=c++17", "--fmad=false"),
    )
