"""Validate compressed rows in one pass over their arrays.

The index arrays of a caller's matrix are used as addresses, so they are validated before they are used. A task of a
product validates its own rows and then reads them again from the second-level cache. Each loop has one reduction, which
LLVM turns into vector instructions. A loop over all conditions would take four times as long.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from semiring.kernels.contract import Array, CompressedRows
from semiring.kernels.cpu.codegen.jit import inner, kernel

__all__ = ["INVALID", "NEGATIVE", "VALID", "scan_part", "scan_values", "split_entries"]

VALID, NEGATIVE, INVALID = 0, 1, 2  # bits of a scan: a sign bit occurs; an index or an entry is invalid

_BLOCK = 256  # rows whose entries stay in the first-level cache from one loop to the next


@inner
def _scan_values(values, signs, first, last, low, high):
    """Return the bits of a scan of values[first:last]; ``signs`` are the values as integers."""
    values, signs = values[first:last], signs[first:last]
    inside = 0
    for e in range(values.size):
        inside += (values[e] >= low) & (values[e] <= high)  # NaN is not
    negative = np.int64(0)
    for e in range(signs.size):
        negative |= signs[e]
    return (NEGATIVE if negative < 0 else VALID) | (VALID if inside == last - first else INVALID)


@inner
def _scan_block(starts, columns, width, first, last):
    """Return whether the rows first … last - 1 have valid starts, and strictly ascending columns below ``width``."""
    one, top, bottom = np.uint64(1), np.uint64(first), np.uint64(last)
    begin, end = np.int64(starts[top]), np.int64(starts[bottom])
    if begin < 0 or end < begin or end > columns.size:
        return False
    falls = 0
    for i in range(top, bottom):
        falls += starts[i + one] < starts[i]
    if falls:
        return False
    part = columns[begin:end]
    beyond = 0
    for e in range(part.size):
        beyond += (part[e] < 0) | (part[e] >= width)
    if beyond:
        return False
    for e in range(part.size - 1):
        falls += part[e + 1] <= part[e]
    while top < bottom and starts[top + one] == begin:  # so that all starts below lie between two columns
        top += one
    while top < bottom and starts[bottom - one] == end:
        bottom -= one
    for i in range(top + one, bottom):
        entry = np.uint64(starts[i])
        falls -= (columns[entry] <= columns[entry - one]) & (np.uint64(starts[i + one]) > entry)
    return falls == 0


@kernel
def _scan_rows(starts, columns, values, signs, width, low, high, scans_values, first, last):
    result = VALID
    for begin in range(first, last, _BLOCK):
        end = min(last, begin + _BLOCK)
        if not _scan_block(starts, columns, width, begin, end):
            return INVALID
        if scans_values:
            result |= _scan_values(values, signs, np.int64(starts[begin]), np.int64(starts[end]), low, high)
    return result


@kernel
def _scan_entries(values, signs, low, high, first, last):
    return _scan_values(values, signs, first, last, low, high)


def scan_part(A: CompressedRows, bounds: tuple[Any, Any] | None, first: int, last: int) -> int:
    """Return the bits of a scan of the rows first … last - 1, and of their values if there are ``bounds``."""
    low, high = bounds or (A.values.dtype.type(0),) * 2
    signs = A.values.view(f"i{A.values.itemsize}")
    bits: int = _scan_rows(*A[:3], signs, A.width, low, high, bounds is not None, first, last)
    return bits


def scan_values(values: Array, bounds: tuple[Any, Any], first: int, last: int) -> int:
    """Return the bits of a scan of values[first:last], of one dimension."""
    bits: int = _scan_entries(values, values.view(f"i{values.itemsize}"), *bounds, first, last)
    return bits


def split_entries(A: CompressedRows, size: int) -> list[tuple[int, int]]:
    """Return ranges that cover all rows, each of about ``size`` entries or ``size`` rows at most.

    The starts of A need not be valid.
    """
    m = A.starts.size - 1
    ends: Any = np.searchsorted(A.starts, np.arange(size, A.columns.size, size))
    ends = sorted({0, m, *ends.clip(0, m).tolist(), *range(size, m, size)})
    return list(pairwise(ends))
