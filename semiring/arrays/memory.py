"""Query the free memory, and refuse a result that would not fit before the work begins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from semiring.advice import advice, argument, quote
from semiring.errors import StorageError, TooLargeError

__all__ = [
    "demand_array",
    "demand_free_bytes",
    "demand_memory",
    "format_bytes",
    "free_memory",
    "new_array",
    "parse_bytes",
]

_SMALL = 1 << 28  # bytes up to which the system is not queried: a query takes longer than closing a small matrix


def free_memory() -> int | None:
    """Return the bytes that a new computation may take, in the machine and in its container, less an eighth.

    The result is None if the system does not report the free memory.
    """
    sizes = [size for size in (_available(), _available_in_container()) if size is not None]
    return max(0, min(sizes)) * 7 // 8 if sizes else None


def demand_memory(required_bytes: int, subject: str, remedy: str, *, is_on_device: bool = False) -> None:
    """Raise `TooLargeError` if so many bytes are not free, in the host or on the current GPU.

    The message is about ``subject``, and ends with ``remedy``.
    """
    free: Callable[[], int | None] = free_memory
    if is_on_device:
        from semiring.arrays.device import available_device_memory as free
    demand_free_bytes(required_bytes, free, subject, remedy)


def demand_free_bytes(required_bytes: int, free_bytes: Callable[[], int | None], subject: str, remedy: str) -> None:
    """Raise `TooLargeError` if ``required_bytes`` is more than ``free_bytes()``, as `demand_memory` does."""
    free = free_bytes() if required_bytes > _SMALL else None
    if free is not None and required_bytes > free:
        raise TooLargeError(
            f"{subject} takes {format_bytes(required_bytes)}, and {format_bytes(free)} are free: {remedy}"
        )


def demand_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise `TooLargeError` if the host has no free memory for a result of this shape."""
    if (required := prod(shape) * dtype.itemsize) > _SMALL:
        demand_memory(required, f"a result of {dtype} of shape {quote(shape)}", "compute it in parts")


def new_array(xp: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an uninitialized array of the namespace ``xp``, NumPy or CuPy, for a result.

    Raises `TooLargeError` if the memory has no room for it.
    """
    if xp is np:
        demand_array(shape, dtype)
    try:
        return xp.empty(shape, dtype)
    except (MemoryError, ValueError):  # less was free than the system said, or the size has more than 64 bits
        size = format_bytes(prod(shape) * dtype.itemsize)
        raise TooLargeError(
            f"a result of {dtype} of shape {quote(shape)} takes {size}, for which there is no memory: "
            "compute it in parts"
        ) from None


def format_bytes(size: int) -> str:
    """Return a number of bytes as a text, rounded up to a unit."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= 10 * unit or (unit == 1 << 10 and size >= unit):
            return f"{-(-size // unit):,} {name}"
    return f"{size} bytes"


def _available() -> int | None:
    """Return the free bytes of the machine, or None."""
    try:
        with open("/proc/meminfo") as file:
            lines = file.read().splitlines()
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _available_in_container() -> int | None:
    """Return the free bytes of the control group of the process, or None without a limit."""
    try:
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as used:
            return int(limit.read()) - int(used.read())
    except (OSError, ValueError):  # no such file, or "max"
        return None


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def parse_bytes(size: int | str, name: str = "memory") -> int:
    """Return a number of bytes from a number, or from a text such as ``"8 GiB"``, ``"512MiB"`` or ``"1.5 GB"``.

    ``name`` is the argument that holds it. Raises `StorageError`.
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGTP]?)(i?)B?\s*", size, re.IGNORECASE)
        if match and (match[2] or not match[3]):
            unit = 1024 ** (" KMGTP".index(match[2].upper())) if match[3] else _UNITS[match[2].upper()]
            return int(float(match[1]) * unit)
    elif isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    expected = advice("a number of bytes, 0 or more, or a text such as '8 GiB'", "a size such as 4GiB or 512MiB")
    raise StorageError(f"{argument(name)} is {quote(size)}: give {expected}")
