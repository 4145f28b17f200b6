"""Numba functions as kernels: one signature, called without dispatch, cached by `codegen.cache`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache as memoize
from typing import Any

from numba import types
from numba.core.caching import _Cache
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock

from semiring.kernels.cpu.closing import blocks as closing
from semiring.kernels.cpu.codegen import cache
from semiring.kernels.cpu.product import macro
from semiring.logs import Compilation

__all__ = ["KernelCache", "block_product", "cached", "compiled", "copy_block", "entry"]


class KernelCache(_Cache):  # type: ignore[misc]  # Numba has no types
    """What Numba's dispatcher asks for compiled code: the store of this package instead of Numba's own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._under_way: dict[str, Compilation] = {}

    @property
    def cache_path(self) -> str:
        return str(cache.cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key = self._key(sig)
        found = cache.load(key, lambda state: CompileResult._rebuild(target_context, *state))
        if found is None:  # now Numba compiles, and then it saves
            self._under_way[key] = Compilation(f"the loop {self.name.rpartition('.')[2].strip('_')}")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        key = self._key(sig)
        self._under_way.pop(key).done()
        cache.save(key, data._reduce())

    def enable(self) -> None:
        """Always on: an unusable folder is a miss."""

    def disable(self) -> None:
        """Always on."""

    def flush(self) -> None:
        """Entries are never stale."""

    def _key(self, sig: Any) -> str:
        return f"{self.name} {sig}"


def cached(function: Any) -> Any:
    """A function made by ``numba.njit``, with its compiled code kept on disk; instead of ``cache=True``.

    For functions whose code depends on nothing but the sources of this package and the types of their arguments.
    """
    function._cache = KernelCache(f"{function.py_func.__module__}.{function.py_func.__qualname__}")
    return function


def compiled(function: Any) -> Callable[..., Any]:
    """The Python-callable entry point of a ``numba.njit`` function whose parameters are all 64-bit integers."""
    signature = (types.intp,) * len(inspect.signature(function.py_func).parameters)
    with global_compiler_lock:
        return cached(function).compile(signature)  # type: ignore[no-any-return]  # Numba has no types


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
    callback._cache = KernelCache(name)
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
