"""Choose the tier of each case of a parametrised test."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

__all__ = ["each_value", "full", "missing_gpu", "quick", "selected_tier"]

#: The largest tier of this run, set by the test session.
selected_tier = "full"


def quick(is_selected: Callable[..., bool], cases: Iterable[Any]) -> list[ParameterSet]:
    """Return the cases for ``parametrize``, marked ``full`` if ``is_selected`` is false for them."""
    return _mark_unselected(is_selected, cases, pytest.mark.full)


def full(is_selected: Callable[..., bool], cases: Iterable[Any]) -> list[ParameterSet]:
    """Return the cases for ``parametrize``, marked ``exhaustive`` if ``is_selected`` is false for them."""
    return _mark_unselected(is_selected, cases, pytest.mark.exhaustive)


def each_value(cases: Iterable[Any]) -> list[ParameterSet]:
    """Return the cases. Cases that show no value that an earlier case has not shown are marked ``exhaustive``.

    Of the semirings with their dtypes, the cases that remain in the full tier show each semiring and each dtype.
    """
    shown: set[tuple[int, Any]] = set()

    def shows_another(*values: Any) -> bool:
        pairs = set(enumerate(values))
        is_new = not pairs <= shown
        if is_new:
            shown.update(pairs)
        return is_new

    return full(shows_another, cases)


def _mark_unselected(
    is_selected: Callable[..., bool], cases: Iterable[Any], rest: pytest.MarkDecorator
) -> list[ParameterSet]:
    marked = []
    for case in cases:
        if not isinstance(case, ParameterSet):
            case = pytest.param(*(case if isinstance(case, tuple) else (case,)))
        marks = case.marks if is_selected(*case.values) else (*case.marks, rest)
        marked.append(pytest.param(*case.values, marks=marks, id=case.id))
    return marked


@functools.cache
def missing_gpu() -> str | None:
    """Return why tests marked ``gpu`` cannot run here, or None. It calls the driver and imports no CUDA package."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return f"no NVIDIA driver: {library} is not there"
    count = ctypes.c_int(0)
    if (code := driver.cuInit(0)) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return f"the NVIDIA driver finds no GPU (cuInit returned {code})"
    return None
