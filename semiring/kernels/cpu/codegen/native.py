"""Functions written in LLVM IR, compiled by Numba's code generator, called by address, cached on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm

from semiring.kernels.cpu.codegen import jit
from semiring.kernels.cpu.codegen.numba_internals import (
    compile_library,
    compiler_lock,
    function_address,
    library_state,
    load_library,
    run_compiler,
)
from semiring.kernels.definition import KernelDefinition
from semiring.logs import Compilation, warn_of_wait

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()  # the code holds a line of inline assembly

#: Builds a function of the given name in a module, from the arguments that follow.
Build = Callable[..., None]

_libraries: dict[str, tuple[int, Any]] = {}  # the address and the library by the key; the library keeps the code alive


def compile_native(build: Build, *arguments: Any, purpose: str = "computation", **options: Any) -> int:
    """Return the address of the function that ``build`` makes, from this process, the cache on disk, or the compiler.

    ``build`` is called with an LLVM module, the function's name, and the arguments and options. The text of each is in
    the cache key, so it must determine its value. The texts of data classes, functions and plain values do. ``purpose``
    names what the caller computes, for reports of compilations.
    """
    modules, key = _identify(build, arguments, options)
    if key not in _libraries:
        run_compiler(_compile_or_load, modules, key, purpose, build, arguments, options)
    return _libraries[key][0]


def _compile_or_load(
    modules: tuple[str, ...],
    key: str,
    purpose: str,
    build: Build,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    with compiler_lock:
        if key in _libraries:
            return
        name = f"semiring_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        library = jit.load_entry(modules, key, load_library)
        if library is None:
            warn_of_wait(purpose)
            under_way = Compilation(purpose)
            library = compile_library(name, lambda module: build(module, name, *arguments, **options))
            under_way.finish()
            jit.save_entry(modules, key, library_state(library))
        _libraries[key] = function_address(library, name), library


def _identify(build: Build, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the modules of a function, and the text that distinguishes it from other functions of these modules."""
    inputs = [build, *arguments, *options.values()]
    functions = [value for value in inputs if isinstance(value, FunctionType)]
    modules = dict.fromkeys([*(function.__module__ for function in functions), __name__])
    return tuple(modules), " ".join([*map(_text, inputs), *options])


def _text(value: Any) -> str:
    if isinstance(value, KernelDefinition):
        return value.key
    if isinstance(value, FunctionType):
        assert value.__closure__ is None, f"{value.__qualname__} has variables of an enclosing function"
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)
