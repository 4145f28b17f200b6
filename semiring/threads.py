"""How many threads a call may use.

The default is the environment variable NUMBA_NUM_THREADS, else the number of cores this process may run on.
`set_threads` changes it for the process, `threads` for a block of code, and most functions take ``threads=`` for one
call. Results never depend on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from operator import index

__all__ = ["checked_threads", "get_threads", "set_threads", "threads"]

_process: int | None = None  # what `set_threads` set
_block: ContextVar[int | None] = ContextVar("semiring_threads", default=None)  # what the innermost `threads` block set


def checked_threads(n: int) -> int:
    """A number of threads from a caller; raises `TypeError` or `ValueError` where it is none."""
    try:
        count = index(n)
    except TypeError:
        raise TypeError(f"a number of threads is an integer, not {n!r}") from None
    if count < 1:
        raise ValueError(f"a number of threads is at least 1, not {count}")
    return count


@cache
def _default() -> int:
    given = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if given:
        try:
            return checked_threads(int(given))
        except ValueError:
            raise ValueError(
                f"the environment variable NUMBA_NUM_THREADS is {given!r}, not an integer of 1 or more"
            ) from None
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_threads() -> int:
    """The number of threads a call uses when it is not told.

    >>> with threads(3):
    ...     get_threads()
    3
    """
    return _block.get() or _process or _default()


def set_threads(n: int | None) -> None:
    """Use ``n`` threads from now on, in the whole process; None goes back to the default.

    Raises `ValueError` unless n is at least 1. More threads than cores is allowed, and slow.
    """
    global _process
    _process = None if n is None else checked_threads(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use ``n`` threads inside a ``with`` block, in this Python thread (or asyncio task) alone."""
    token = _block.set(checked_threads(n))
    try:
        yield
    finally:
        _block.reset(token)
