"""Determine the number of threads of a call.

The default is the environment variable NUMBA_NUM_THREADS, else the number of cores of this process. `set_threads`
changes it for the process, `threads` for a block of code, and the option ``threads=`` of most functions for one call.
Results never depend on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from operator import index

from semiring.advice import quote

__all__ = ["check_threads", "get_threads", "set_threads", "threads"]

_process_threads: int | None = None  # the number of `set_threads`
#: The number of the innermost `threads` block.
_block_threads: ContextVar[int | None] = ContextVar("semiring_threads", default=None)


def check_threads(n: int) -> int:
    """Return a valid number of threads. Raises `TypeError` for other types, and `ValueError` for less than 1."""
    try:
        count = index(n)
    except TypeError:
        raise TypeError(f"a number of threads is an integer, not {quote(n)}") from None
    if count < 1:
        raise ValueError(f"a number of threads is at least 1, not {count}")
    return count


@cache
def _default_threads() -> int:
    text = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if text:
        try:
            return check_threads(int(text))
        except ValueError:
            raise ValueError(
                f"the environment variable NUMBA_NUM_THREADS is {quote(text)}, not an integer of 1 or more"
            ) from None
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_threads() -> int:
    """Return the number of threads of a call without the option ``threads=``.

    Returns
    -------
    int
        The number of the innermost `threads` block, else that of `set_threads`, else the default of the process.

    Raises
    ------
    ValueError
        If the default is needed, and the environment variable NUMBA_NUM_THREADS is not an integer of 1 or more.

    Examples
    --------
    >>> with threads(3):
    ...     get_threads()
    3
    """
    return _block_threads.get() or _process_threads or _default_threads()


def set_threads(n: int | None) -> None:
    """Use ``n`` threads in all later calls of the process.

    Parameters
    ----------
    n : int or None
        The number of threads, at least 1. More threads than cores are allowed, and slow. None restores the default.

    Raises
    ------
    ValueError
        If n is less than 1.
    TypeError
        If n is not an integer.
    """
    global _process_threads
    _process_threads = None if n is None else check_threads(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use ``n`` threads inside a ``with`` block, only in this Python thread or asyncio task.

    Parameters
    ----------
    n : int
        The number of threads, at least 1.

    Yields
    ------
    None
        The block runs with this number.

    Raises
    ------
    ValueError
        If n is less than 1.
    TypeError
        If n is not an integer.
    """
    token = _block_threads.set(check_threads(n))
    try:
        yield
    finally:
        _block_threads.reset(token)
