"""Numba functions as kernels: one signature, called without dispatch, stored on disk (`semiring.kernels.code_store`).

The name of an entry on disk holds a hash of four things. They are the kernel's definition, the code of its modules
(`semiring.kernels.sources`), the versions of Numba, llvmlite, NumPy and Python, and the CPU.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import njit, types

from semiring.kernels import code_store, sources
from semiring.kernels.cpu.codegen.numba_internals import (
    OUTER,
    PART,
    DispatcherCache,
    callback,
    compile_with,
    entry_point,
    function_compiler,
    get_cache,
    raise_interrupts,
    rebuild_result,
    result_state,
    run_compiler,
    set_cache,
)
from semiring.kernels.cpu.codegen.target import host
from semiring.logs import Compilation, warn_of_wait

Modules = tuple[str, ...]


def fingerprint(modules: Modules) -> str | None:
    """Return a digest of the code, the versions and the CPU that kernels of these modules depend on.

    Return None if the kernels are not stored on disk.
    """
    return sources.fingerprint(modules, _versions())


@cache
def _versions() -> tuple[str, ...]:
    compilers = numba.__version__, llvmlite.__version__, np.__version__, sys.version
    return *compilers, os.environ.get("NUMBA_OPT", ""), repr(host())


def load_entry(modules: Modules, key: str, rebuild: Callable[[Any], Any]) -> Any:
    """Return the result of ``rebuild`` for the saved state, or None if the state is absent or damaged."""
    return code_store.load(fingerprint(modules), key, rebuild)


def save_entry(modules: Modules, key: str, state: Any) -> None:
    """Save a state for `load_entry`. A read-only or full folder only costs time and is no error."""
    code_store.save(fingerprint(modules), key, state)


#: A part of a function's dotted name, and what callers compute by such functions, for reports. The first match counts.
_PURPOSES = (
    ("predecessor", "predecessors"),
    ("direct_edges", "predecessors"),
    ("elimination", "sparse factorization"),
    ("dijkstra", "shortest-path searches"),
    ("dependency_loops", "centrality"),
    ("graphs", "graph analysis"),
    ("sparse_loops", "sparse products"),
    ("bit_loops", "products of packed bits"),
    ("log_", "log_plus products"),
    ("closing", "closures"),
    ("thread_team", "threads"),
    ("product", "products"),
    ("copy_block", "products"),
    ("straighten_block", "products"),
)


class KernelCache(DispatcherCache):  # type: ignore[misc]  # Numba has no types
    """The compiled code of one function for Numba's dispatcher, in the store of this package instead of Numba's own.

    ``modules``: the modules of the function, besides the modules that they import.
    """

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self.modules = name, (*modules, __name__)
        self._under_way: dict[str, Compilation] = {}

    @property
    def cache_path(self) -> str:
        return str(code_store.cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._key(sig)
        overload = load_entry(self.modules, key, lambda state: rebuild_result(target_context, state))
        if overload is None:  # Numba compiles now and calls `save_overload` afterwards
            purpose = next((purpose for part, purpose in _PURPOSES if part in self.name), "computation")
            warn_of_wait(purpose)
            self._under_way[key] = Compilation(purpose)
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        key = self._key(sig)
        self._under_way.pop(key).finish()
        save_entry(self.modules, key, result_state(data))

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
        compile_with(function, partial(run_compiler, function_compiler(function)))
        raise_interrupts(function)
    return function


def kernel(function: Any) -> Any:
    """Compile a loop that Python calls, which releases the GIL, and store its code on disk."""
    return cache_on_disk(njit(function, **OUTER))


#: Compile a function that only compiled code calls.
inner: Callable[[Callable[..., Any]], Any] = njit(**PART)


def unsigned_type(size: int) -> Any:
    """Return the Numba type of unsigned integers of ``size`` bytes."""
    return getattr(types, f"uint{8 * size}")


@cache
def compile_entry_point(function: Any, size: int = 8) -> Callable[..., Any]:
    """Return the Python-callable entry point of a ``numba.njit`` function for elements of ``size`` bytes.

    Arrays are typed by the size of their elements, independently of their dtype. Nothing else is checked. The names of
    parameters determine their types: matrices, stacks and elements are listed below, and all others are 64-bit
    integers.
    """
    element = unsigned_type(size)
    matrix, stack = types.Array(element, 2, "A"), types.Array(element, 3, "A")
    kinds = {"P": types.Array(types.int32, 2, "A"), **dict.fromkeys(("zero", "one"), element)}
    kinds |= {**dict.fromkeys(("A", "B", "C"), matrix), **dict.fromkeys(("As", "Bs", "Cs"), stack)}
    signature = tuple(kinds.get(label, types.intp) for label in inspect.signature(function.py_func).parameters)
    return entry_point(cache_on_disk(function), signature)


_callbacks: dict[str, Any] = {}  # by name; the objects keep the code alive


def compile_callback(name: str, function: Callable[..., None]) -> int:
    """Return the address of a function of 64-bit integers without a result, compiled with a C interface.

    Functions of one ``name`` must have the same code.
    """
    if name not in _callbacks:
        signature = (types.intp,) * len(inspect.signature(function).parameters)
        _callbacks[name] = callback(function, signature, KernelCache(name, function.__module__))
    return int(_callbacks[name].address)
