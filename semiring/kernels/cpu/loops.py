"""Loops over edges, as functions of Python that Numba compiles, and that Python runs until it has.

Loops that visit one edge at a time have no expression in NumPy. Their first calls are run by Python: an edge takes some
2 µs, and neither Numba nor a compiler is loaded (`semiring.kernels.cpu.first_calls`). One source serves both forms, so
their results are bitwise identical, ties included, where every operation rounds to the nearest number.

A module of loops imports its decorators and the operations of a semiring from here, and nothing of Numba. To compile a
loop, its parts and operations are replaced by those of Numba among its global variables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any

import numpy as np

from semiring.kernels.cpu.scalar_semiring import ScalarSemiring

Function = Callable[..., Any]

_parts: dict[Function, Any] = {}  # the functions that only loops call, and Numba's functions of those compiled so far
_thread = threading.local()  # its ``interprets`` is whether Python runs the loops that this thread calls


def better(sr: ScalarSemiring, x: Any, y: Any) -> bool:
    """Return whether x ⊕ y is x and not y, for a ⊕ that selects and values that are not NaN."""
    return bool(sr.better(x, y))


def times(sr: ScalarSemiring, x: Any, y: Any) -> Any:
    """Return x ⊗ y."""
    return sr.times(x, y)


def filled(count: int, value: Any) -> Any:
    """Return workspace of a loop, which it reads and writes by single entries: a list if Python may use lists."""
    return [value] * count if getattr(_thread, "has_lists", False) else np.full(count, value)


def as_entries(*values: Any) -> tuple[Any, ...]:
    """Return arrays of one dimension that a loop only reads, by single entries, and numbers: as lists and as numbers.

    They stay unchanged unless Python may use lists. Entries of float32 stay NumPy's, whose sums round to float32.
    """
    if not getattr(_thread, "has_lists", False):
        return values
    return tuple(
        value.tolist() if value.dtype.char != "f" else list(value) if value.ndim else value for value in values
    )


def inner(function: Function) -> Function:
    """Mark a function that only loops call."""
    _parts[function] = None
    return function


class Loop:
    """A loop that Python calls.

    Python runs it in an `interpreted` block. Some loops have no semiring, and compute with positions of edges. For the
    arguments of such a loop, ``interprets`` returns whether Python also runs it elsewhere.
    `semiring.kernels.cpu.first_calls` sets this function.
    """

    interprets: Callable[[tuple[Any, ...]], bool]

    def __init__(self, function: Function) -> None:
        self.py_func = function
        self._has_semiring = function.__code__.co_varnames[:1] == ("sr",)
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if is_interpreted():
            return self.py_func(*arguments)
        if "compiled" not in self.__dict__ and not self._has_semiring and Loop.interprets(arguments):
            with interpreted():
                return self.py_func(*arguments)
        return self.compiled(*arguments)

    @cached_property
    def compiled(self) -> Any:
        """The function that Numba compiles for the types of its arguments, and stores on disk."""
        from semiring.kernels.cpu.codegen import jit

        return jit.kernel(_bind(self.py_func))


def kernel(function: Function) -> Loop:
    """Make a loop of a function."""
    return Loop(function)


def is_interpreted() -> bool:
    """Return whether Python runs the loops that this thread calls."""
    return getattr(_thread, "interprets", False)


@contextmanager
def interpreted(*, has_lists: bool = False) -> Iterator[None]:
    """Let Python run the loops that this thread calls in a block; with lists for arrays where they allow that."""
    outer = is_interpreted(), getattr(_thread, "has_lists", False)
    _thread.interprets, _thread.has_lists = True, has_lists
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _thread.interprets, _thread.has_lists = outer


def _bind(function: Function) -> Function:
    """Return a function that uses the operations, parts and loops of Numba in place of those of Python."""
    assert isinstance(function, FunctionType)
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    variables = {**function.__globals__, **{name: _compiled(value) for name, value in names.items()}}
    bound = FunctionType(function.__code__, variables, function.__name__, function.__defaults__, function.__closure__)
    bound.__qualname__, bound.__module__, bound.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return bound


def _compiled(value: Any) -> Any:
    """Return what a compiled loop uses in place of a global variable."""
    from semiring.kernels.cpu.codegen import jit, scalars

    if value is better or value is times:
        return getattr(scalars, value.__name__)
    if value is filled:
        return np.full
    if isinstance(value, Loop):
        return value.compiled
    if isinstance(value, FunctionType) and value in _parts:
        _parts[value] = _parts[value] or jit.inner(_bind(value))
        return _parts[value]
    return value
