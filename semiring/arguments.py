"""Validate arguments that many public functions share."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from operator import index
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.errors import DTypeError, ShapeError

__all__ = [
    "as_dtype",
    "as_numbers",
    "as_shape",
    "check_dimensions",
    "check_flags",
    "is_one_of",
    "require_flag",
    "require_integer",
    "require_text",
]

_MOST_DIMENSIONS = 32  # of arrays that NumPy's functions broadcast

#: The options that are flags, and whether None is accepted, which lets the function choose.
_FLAGS = {
    "check": False,
    "complement": False,
    "directed": True,
    "exact": False,
    "explain": False,
    "header": True,
    "keepdims": False,
    "predecessors": True,
    "reflexive": False,
    "return_witness": False,
    "sparse": True,
}


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype of NumPy from a caller's ``dtype=``. Raises `DTypeError` for anything that names none."""
    try:
        result: np.dtype[Any] = np.dtype(dtype)
        return result
    except (TypeError, ValueError):
        raise DTypeError(f"dtype is {quote(dtype)}: give a dtype of NumPy, or its name, such as 'float64'") from None


def require_integer(number: Any, description: str, least: int | None = None) -> int:
    """Return a caller's number as an int.

    Raises `TypeError`, whose message contains the ``description``, for anything else, and `ValueError` for a number
    below ``least``.
    """
    try:
        result = index(number)
    except TypeError:
        raise TypeError(f"{description} is an integer, not {quote(number)}") from None
    if least is not None and result < least:
        raise ValueError(f"{description} is {quote(result)}, and at least {least}")
    return result


def as_numbers(x: Any, name: str) -> np.ndarray[Any, Any]:
    """Return a caller's list or array as an array of NumPy. Raises `ShapeError` for rows of different lengths."""
    try:
        return np.asarray(x)
    except ValueError:
        raise ShapeError(f"{name} is a list whose rows differ in length: pass rows of one length") from None


def require_text(value: Any, name: str, *, optional: bool = True) -> None:
    """Raise `TypeError` unless an option is a text, or None where it is ``optional``."""
    if not isinstance(value, str) and not (optional and value is None):
        raise TypeError(f"{name}= is a text, not {quote(value)}")


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return a caller's shape, a size or a sequence of sizes, as a tuple.

    Raises `TypeError` for sizes that are no integers, and `ShapeError` for a negative size or more dimensions than
    NumPy broadcasts.
    """
    sizes = tuple(shape) if isinstance(shape, Iterable) and not isinstance(shape, str | bytes) else (shape,)
    result = tuple(require_integer(size, "a size of an array") for size in sizes)
    if not all(0 <= size < 2**63 for size in result):
        raise ShapeError(f"the shape is {quote(shape)}: sizes are at least 0, and have at most 63 bits")
    check_dimensions(len(result), "the array")
    return result


def check_dimensions(dimensions: int, name: str) -> None:
    """Raise `ShapeError` for more dimensions than NumPy's functions broadcast."""
    if dimensions > _MOST_DIMENSIONS:
        raise ShapeError(f"{name} has {dimensions} dimensions: at most {_MOST_DIMENSIONS} are supported")


def check_flags(options: Mapping[str, Any]) -> None:
    """Raise `TypeError` for a flag that is neither True nor False, because any text would count as True."""
    for name, value in options.items():
        if name in _FLAGS and type(value) is not bool and not isinstance(value, np.bool_):
            if (value is None and _FLAGS[name]) or (name == "explain" and isinstance(value, str) and value == "full"):
                continue
            raise _flag_error(name, value, "True, False or 'full'" if name == "explain" else "True or False")


def require_flag(value: Any, name: str) -> None:
    """Raise `TypeError` unless a flag is True or False."""
    if type(value) is not bool and not isinstance(value, np.bool_):
        raise _flag_error(name, value, "True or False")


def _flag_error(name: str, value: Any, allowed: str) -> TypeError:
    return TypeError(f"{name} is {allowed}, not {quote(value)}")


def is_one_of(value: Any, names: Container[str]) -> bool:
    """Return whether an option is one of some texts. An array has no truth value to compare, and is none."""
    return isinstance(value, str) and value in names
