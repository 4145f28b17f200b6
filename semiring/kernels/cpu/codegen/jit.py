"""Numba functions as kernels: one signature, called without dispatch, stored by `codegen.cache`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit, types

from semiring.kernels.cpu.codegen import cache
from semiring.kernels.cpu.codegen.numba_internals import (
    OUTER,
    DispatcherCache,
    entry_point,
    get_cache,
    rebuild_result,
    result_state,
    set_cache,
)
from semiring.logs import Compilation

__all__ = ["KernelCache", "cache_on_disk", "compile_entry_point", "kernel"]


#: A part of a function's dotted name, and what callers compute by such functions, for reports. The first match counts.
_PURPOSES = (
    ("predecessor", "predecessors"),
    ("direct_edges", "predecessors"),
    ("elimination", "sparse factorization"),
    ("dijkstra", "shortest-path searches"),
    ("graphs", "graph analysis"),
    ("bit_loops", "products of packed bits"),
    ("log_", "log_plus products"),
    ("closing", "closures"),
    ("thread_team", "threads"),
    ("product", "products"),
    ("copy_block", "products"),
)


def describe_purpose(name: str) -> str:
    """Return what callers compute by a compiled function with this dotted name, such as "products"."""
    return next((purpose for part, purpose in _PURPOSES if part in name), "computation")


class KernelCache(DispatcherCache):  # type: ignore[misc]  # Numba has no types
    """The compiled code of one function for Numba's dispatcher, in the store of this package instead of Numba's own.

    ``modules``: the modules of the function, besides the modules that they import.
    """

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self.modules = name, (*modules, __name__)
        self._under_way: dict[str, Compilation] = {}

    @property
    def cache_path(self) -> str:
        return str(cache.cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._key(sig)
        overload = cache.load(self.modules, key, lambda state: rebuild_result(target_context, state))
        if overload is None:  # Numba compiles now and calls `save_overload` afterwards
            self._under_way[key] = Compilation(describe_purpose(self.name))
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        key = self._key(sig)
        self._under_way.pop(key).finish()
        cache.save(self.modules, key, result_state(data))

    def enable(self) -> None:
        """Do nothing, because the cache is always enabled: with an unusable folder every look-up is a miss."""

    def disable(self) -> None:
        """Do nothing, because the cache is always enabled."""

    def flush(self) -> None:
        """Do nothing, because entries are never stale."""

    def _key(self, sig: Any) -> str:
        return f"{self.name} {sig}"


def cache_on_disk(function: Any) -> Any:
    """Store the compiled code of a function made by ``numba.njit`` on disk, and return the function.

    This replaces Numba's option ``cache=True``. The code may depend on the function's module, the modules that this one
    imports, and the types of arguments. It may not depend on variables of an enclosing function, which the cache key
    does not hold.
    """
    python = function.py_func
    assert python.__closure__ is None, f"{python.__qualname__} has variables of an enclosing function"
    # A thread may compile the function now. It must save into the cache in which it looked.
    if not isinstance(get_cache(function), KernelCache):
        set_cache(function, KernelCache(f"{python.__module__}.{python.__qualname__}", python.__module__))
    return function


def kernel(function: Any) -> Any:
    """Compile a loop that Python calls, which releases the GIL, and store its code on disk."""
    return cache_on_disk(njit(function, **OUTER))


def compile_entry_point(function: Any) -> Callable[..., Any]:
    """Return the Python-callable entry point of a ``numba.njit`` function whose parameters are 64-bit integers."""
    signature = (types.intp,) * len(inspect.signature(function.py_func).parameters)
    return entry_point(cache_on_disk(function), signature)
