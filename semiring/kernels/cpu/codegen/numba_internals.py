"""Every undocumented part of Numba and llvmlite that this library uses.

Such parts may change in any minor version of Numba. So the upper bound in pyproject.toml excludes the next version.
`tests/cpu/test_numba_internals.py` checks the behaviour that the library relies on. docs/maintainers.md says how to
raise the bound.

Other modules use `numba.njit`, `numba.types`, `numba.extending`, `numba.from_dtype`, `llvmlite.ir` and
`llvmlite.binding` as documented, and no other name of these packages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from numba import types
from numba.core.caching import _Cache
from numba.core.ccallback import CFunc
from numba.core.cgutils import alloca_once, alloca_once_value, for_range, for_range_slice, raw_memcpy
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.np.arrayobj import make_array, populate_array

from semiring.kernels.cpu.thread_pool import call_in_caller, call_interruptibly

__all__ = [
    "INLINED",
    "OUTER",
    "PART",
    "DispatcherCache",
    "abi_size",
    "add_attribute",
    "alloca_once",
    "alloca_once_value",
    "array_at",
    "callback",
    "compile_library",
    "compile_with",
    "compiler_lock",
    "data_of",
    "entry_point",
    "for_range",
    "for_range_slice",
    "function_address",
    "function_compiler",
    "get_cache",
    "host_tuple",
    "library_state",
    "load_library",
    "raise_interrupts",
    "raw_memcpy",
    "rebuild_result",
    "result_state",
    "run_compiler",
    "set_cache",
    "void",
]

# ------------------------------------------------------------------------------------------------- options of `njit`

# `njit` documents neither the options that omit an entry point nor `forceinline`. Numba makes two entry points for
# every function, for Python and for C. Each is a separate function, several times as long as a short loop, and LLVM
# optimises it again in every loop that calls the function.

#: Options of loops that Python calls: they release the GIL, divide as NumPy does, and have no entry point for C.
OUTER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Options of functions that only compiled code calls: Python cannot call them.
PART: dict[str, Any] = {**OUTER, "no_cpython_wrapper": True}

#: Options of such functions that are inlined into their callers, because LLVM does not vectorize a loop with a call.
INLINED: dict[str, Any] = {**PART, "forceinline": True}

# ------------------------------------------------------------------------------------------- compiling and the cache

#: The lock that Numba holds while it compiles. Its code generator serves one thread at a time, and `njit` takes the
#: lock only in its own calls. So a function that this library compiles without `njit` must take it too.
compiler_lock = global_compiler_lock

#: The base class of caches for `set_cache`. Numba calls `load_overload` before a compilation, `save_overload` after it.
#: Numba's own cache, ``cache=True``, has keys of file times and misses edits of imported modules
#: (`semiring.kernels.sources`).
DispatcherCache = _Cache


def set_cache(function: Any, cache: Any) -> None:
    """Let a function made by ``numba.njit`` look up compiled code in a `DispatcherCache` of this library.

    No public option accepts another cache. With ``cache=True`` Numba stores its own cache in the same attribute.
    """
    assert hasattr(function, "_cache")
    function._cache = cache


def get_cache(function: Any) -> Any:
    """Return the cache of a function made by ``numba.njit``: a `DispatcherCache`, or one of Numba's own."""
    return function._cache


def run_compiler(compiler: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``compiler(*arguments)``, on a thread that Ctrl-C never interrupts.

    Python raises Ctrl-C in the main thread alone. Within a compilation it would leave the compiler's lock locked, or be
    lost in a callback of LLVM. So the main thread lets another thread compile, and waits. After Ctrl-C the compilation
    goes on in the background, and its result serves the next call. Helpers of `run_tasks` leave the compilation to the
    thread that waits for them. If the main thread holds the lock itself, no other thread could compile.
    """
    return call_in_caller(_compile_apart, compiler, *arguments)


def _compile_apart(compiler: Callable[..., Any], *arguments: Any) -> Any:
    if threading.current_thread() is not threading.main_thread() or compiler_lock.is_locked():
        return compiler(*arguments)
    return call_interruptibly(copy_context().run, compiler, *arguments)


def function_compiler(function: Any) -> Callable[..., Any]:
    """Return the method by which a function made by ``numba.njit`` compiles itself for the arguments of a call."""
    return function._compile_for_args  # type: ignore[no-any-return]  # Numba has no types


def compile_with(function: Any, compiler: Callable[..., Any]) -> None:
    """Let a function made by ``numba.njit`` call ``compiler`` in place of its `function_compiler`."""
    function._compile_for_args = compiler


class _InterruptedDispatcher(CPUDispatcher):  # type: ignore[misc]  # Numba has no types
    """A function made by ``numba.njit`` from which Ctrl-C leaves as `KeyboardInterrupt`."""

    def __call__(self, *arguments: Any) -> Any:
        try:
            return super().__call__(*arguments)
        except SystemError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, KeyboardInterrupt):
                cause = cause.__cause__
            if cause is None:
                raise
            raise cause from None


def raise_interrupts(function: Any) -> None:
    """Let a function made by ``numba.njit`` raise the `KeyboardInterrupt` of a Ctrl-C that arrives as it returns.

    To return an array, compiled code calls a Python function of Numba, where Python may raise the interrupt. Compiled
    code ignores it and goes on, and the interpreter raises `SystemError` in its place. Calls by compiled code are
    unchanged, and a call by Python takes 0.3 µs more.
    """
    function.__class__ = _InterruptedDispatcher


def entry_point(function: Any, signature: tuple[Any, ...]) -> Callable[..., Any]:
    """Compile a function made by ``numba.njit`` for one signature, and return its entry for Python.

    The entry does not dispatch on the types of its arguments, which would take much of the time of a small product.
    """
    return run_compiler(_compile_function, function, signature)  # type: ignore[no-any-return]  # Numba has no types


def _compile_function(function: Any, signature: tuple[Any, ...]) -> Any:
    with compiler_lock:
        return function.compile(signature)


def callback(function: Any, signature: tuple[Any, ...], cache: Any) -> Any:
    """Compile a function without a result as C calls it.

    The object has its ``address`` and keeps the code alive. `numba.cfunc` compiles at once, with Numba's own cache or
    none. The class lets the caller set a `DispatcherCache`.
    """
    result: Any = CFunc(function, (signature, types.void), {}, {"error_model": "numpy", "nogil": True})
    set_cache(result, cache)
    run_compiler(result.compile)
    return result


def result_state(result: Any) -> tuple[Any, ...]:
    """Return the compiled code that Numba gives `DispatcherCache.save_overload`, as values that can be pickled."""
    return result._reduce()  # type: ignore[no-any-return]


def rebuild_result(target_context: Any, state: tuple[Any, ...]) -> Any:
    """Return what `DispatcherCache.load_overload` must return, from a `result_state`."""
    target_context.refresh()  # the code of registered extensions, to which the result may refer
    return CompileResult._rebuild(target_context, *state)


# ------------------------------------------------------------------------------------------------- machine code of LLVM

# The documented path from LLVM IR to machine code is `llvmlite.binding.create_mcjit_compiler`. It lacks the options
# with which Numba compiles for this processor (NUMBA_OPT, NUMBA_CPU_NAME), and a form of the code that can be stored on
# disk. Numba's code generator has both.


def host_tuple() -> tuple[str, str, str]:
    """Return the triple, the processor and its features for which Numba compiles, as LLVM names them."""
    return cpu_target.target_context.codegen().magic_tuple()  # type: ignore[no-any-return]


def compile_library(name: str, build: Callable[[Any], None]) -> Any:
    """Compile the functions that ``build`` writes into an `llvmlite.ir.Module`; the library keeps the code alive.

    The caller holds the `compiler_lock`.
    """
    library = cpu_target.target_context.codegen().create_library(name)
    library.enable_object_caching()
    module = library.create_ir_module(name)
    build(module)
    library.add_ir_module(module)
    library.finalize()
    return library


def library_state(library: Any) -> Any:
    """Return the machine code of a library, as values that can be pickled."""
    return library.serialize_using_object_code()


def load_library(state: Any) -> Any:
    """Return a library from its `library_state`."""
    return cpu_target.target_context.codegen().unserialize_library(state)


def function_address(library: Any, name: str) -> int:
    """Return the address of a function of a library."""
    return library.get_pointer_to_function(name)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------- the code of intrinsics

# `numba.extending.intrinsic` passes Numba's context and llvmlite's builder to code generators, but documents no
# operation of the context. The functions of `numba.core.cgutils` in `__all__` write loops and stack slots.
# `alloca_once` puts a slot into the first block of a function, where LLVM keeps it in a register. `for_range` makes a
# loop around code.


def void(context: Any) -> Any:
    """Return the value of an intrinsic whose result is ``types.void``, or of an argument without data."""
    return context.get_dummy_value()


def abi_size(context: Any, kind: Any) -> int:
    """Return the bytes that a value of an LLVM type takes in memory."""
    return context.get_abi_sizeof(kind)  # type: ignore[no-any-return]


def data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the pointer to the first element of an array argument, of type ``kind``."""
    return make_array(kind)(context, builder, array).data


def array_at(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], strides: list[Any], size: Any) -> Any:
    """Return a value of the array type ``kind`` whose entries, of ``size`` bytes, lie at a pointer."""
    array = make_array(kind)(context, builder)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()


def add_attribute(function: Any, name: str, value: str) -> None:
    """Give an `llvmlite.ir.Function` an attribute with a value, such as ``"prefer-vector-width"="512"``.

    llvmlite's own ``attributes.add`` rejects names that are not in its list, and accepts no values.
    """
    set.add(function.attributes, f'"{name}"="{value}"')
