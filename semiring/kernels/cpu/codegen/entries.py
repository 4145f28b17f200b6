"""The entry points of the compiled loops of products and closures: one for each size of elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache as memoize
from typing import Any

from numba import types
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock

from semiring.kernels.cpu.closing import blocks as closing
from semiring.kernels.cpu.codegen.jit import KernelCache, cached
from semiring.kernels.cpu.product import macro

__all__ = ["block_product", "copy_block", "entry"]


@memoize
def block_product(size: int) -> int:
    """The address of `macro.block_product` for elements of ``size`` bytes."""
    return _native(f"block_product {size}", macro.block_product(types.Integer.from_bitwidth(8 * size, signed=False)))


@memoize
def copy_block() -> int:
    """The address of `macro.copy_block`."""
    return _native("copy_block", macro.copy_block)


def _native(name: str, function: Any) -> int:
    """The address of a function of 64-bit integers that returns nothing, compiled as native code calls it."""
    signature = (types.intp,) * len(inspect.signature(function).parameters)
    callback: Any = CFunc(function, (signature, types.void), {}, {"error_model": "numpy", "nogil": True})
    callback._cache = KernelCache(name, function.__module__, __name__)
    callback.compile()
    _kept.append(callback)
    return int(callback.address)


@memoize
def entry(name: str, size: int) -> Callable[..., Any]:
    """The Python-callable entry point of a kernel of `macro` or `closing` for elements of ``size`` bytes.

    Arrays are taken by the size of their elements, whatever their dtype, and nothing is checked but that.
    """
    function = getattr(closing if name in closing.__all__ else macro, name)
    element = types.Integer.from_bitwidth(8 * size, signed=False)
    matrix, stack = types.Array(element, 2, "A"), types.Array(element, 3, "A")
    kinds = {
        "A": matrix,
        "B": matrix,
        "C": matrix,
        "As": stack,
        "Bs": stack,
        "Cs": stack,
        "P": types.Array(types.int32, 2, "A"),
        "zero": element,
        "one": element,
    }
    signature = tuple(kinds.get(label, types.intp) for label in inspect.signature(function.py_func).parameters)
    with global_compiler_lock:
        return cached(function).compile(signature)  # type: ignore[no-any-return]  # Numba has no types


_kept: list[Any] = []  # the callbacks whose addresses are in use
