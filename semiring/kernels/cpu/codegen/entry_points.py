"""The entry points of the compiled loops of products and closures, one for each size of elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache as memoize
from typing import Any

from numba import types

from semiring.kernels.cpu.closing import pivot_loops as closing
from semiring.kernels.cpu.closing import row_parallel
from semiring.kernels.cpu.codegen.jit import KernelCache, cache_on_disk
from semiring.kernels.cpu.codegen.numba_internals import callback, entry_point
from semiring.kernels.cpu.product import macro_kernel

__all__ = ["block_product", "copy_block", "entry", "update_rows"]


@memoize
def block_product(size: int) -> int:
    """Return the address of `macro_kernel.block_product` for elements of ``size`` bytes."""
    return _compile_callback(f"block_product {size}", macro_kernel.block_product(_unsigned_type(size)))


@memoize
def copy_block() -> int:
    """Return the address of `macro_kernel.copy_block`."""
    return _compile_callback("copy_block", macro_kernel.copy_block)


@memoize
def update_rows() -> int:
    """Return the address of `row_parallel.update_rows`."""
    return _compile_callback("update_rows", row_parallel.update_rows)


def _unsigned_type(size: int) -> Any:
    """Return the Numba type of unsigned integers of ``size`` bytes."""
    return getattr(types, f"uint{8 * size}")


def _compile_callback(name: str, function: Any) -> int:
    """Return the address of a function of 64-bit integers without a result, compiled with a C interface."""
    signature = (types.intp,) * len(inspect.signature(function).parameters)
    native_callback = callback(function, signature, KernelCache(name, function.__module__, __name__))
    _callbacks.append(native_callback)
    return int(native_callback.address)


@memoize
def entry(name: str, size: int) -> Callable[..., Any]:
    """Return the Python-callable entry point of a kernel of these modules for elements of ``size`` bytes.

    Arrays are typed by the size of their elements, independently of their dtype. Nothing else is checked.
    """
    module: Any = next(each for each in (closing, row_parallel, macro_kernel) if name in each.__all__)
    function = getattr(module, name)
    element = _unsigned_type(size)
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
    return entry_point(cache_on_disk(function), signature)


_callbacks: list[Any] = []  # the callbacks whose addresses are in use and which must stay alive
