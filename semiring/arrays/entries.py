"""Scan the entries of operands once per public call, for NaN, the domain, their range and their signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from math import prod
from operator import or_
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.arrays.scans import PIECE, Scan, ScanRule, limits_of, raise_for_entry, rule_for
from semiring.errors import DomainError
from semiring.namespaces import Array, is_device_array

__all__ = ["check_by_threads", "check_entries", "check_operands"]


_THREADED_BYTES = 1 << 28  # an array with fewer bytes is scanned by one thread
_TASK_BYTES = 1 << 24  # the bytes of the part that one task scans
#: With pieces of half a MiB, 64 threads read 16 GB/s of 64 GiB, because they wait for the interpreter's lock.
_THREAD_PIECE, _MAX_THREADS = 1 << 22, 32

# Ufuncs, because on the smallest matrices the methods of an array take longer than the scan. Both propagate NaN.
_reduce_min, _reduce_max = np.minimum.reduce, np.maximum.reduce


def check_entries(array: Array, semiring: Semiring, name: str = "A", *, piece: int = PIECE) -> Scan:
    """Scan every entry, and raise `DomainError` with the first one that is NaN or outside the domain.

    The zero and the one of the semiring are always accepted. The cost is about that of reading the array once, and a
    workspace of about ``piece`` bytes, which one reduction reads. An array on a GPU is read there, and the call waits
    for the result.
    """
    if type(array) is not np.ndarray and is_device_array(array):
        from semiring.kernels.cuda.entries.entry_scan import scan_array

        return scan_array(array, semiring, name)
    rule = rule_for(semiring, array.dtype)
    if rule.needs_no_scan or array.size == 0:
        return Scan(nonnegative=True)
    if rule.tropical:
        numbers = _scan_tropical(array, rule.tropical, piece)
        if rule.is_restricted and not _is_in_domain(semiring, numbers.low, numbers.high):
            raise_for_entry(array, semiring, name, nan=False)
        return numbers
    if array.nbytes <= PIECE and array.dtype.kind != "V":
        return _scan_piece(array, rule, array, semiring, name)
    with np.errstate(invalid="ignore"):  # the comparisons of bfloat16 with NaN warn
        return _scan_pieces(array, rule, semiring, name, piece)


def _scan_pieces(array: Array, rule: ScanRule, semiring: Semiring, name: str, size: int) -> Scan:
    """Scan an array in pieces of ``size`` bytes."""
    result: Scan | None = None
    for piece in _pieces(array, size):
        scan = _scan_piece(piece, rule, array, semiring, name)
        result = scan if result is None else result | scan
    assert result is not None
    return result


def check_by_threads(array: Array, semiring: Semiring, threads: int) -> Scan:
    """Scan a matrix as `check_entries` does, with several threads if it is large: one thread reads 8 GB/s."""
    large = type(array) is np.ndarray and array.ndim == 2 and array.nbytes >= _THREADED_BYTES
    if threads < 2 or not large or not array.size or rule_for(semiring, array.dtype).needs_no_scan:
        return check_entries(array, semiring)
    from concurrent.futures import ThreadPoolExecutor  # the import loads logging, which small calls do not need

    rows = max(1, _TASK_BYTES // max(1, array.shape[1] * array.itemsize))
    parts = (array[first : first + rows] for first in range(0, len(array), rows))
    try:
        with ThreadPoolExecutor(min(threads, _MAX_THREADS)) as pool:
            return reduce(or_, pool.map(lambda part: check_entries(part, semiring, piece=_THREAD_PIECE), parts))
    except DomainError:
        check_entries(array, semiring)  # this call raises the error with the position in the whole array
        raise


def check_operands(semiring: Semiring, arrays: Mapping[str, Array]) -> list[Scan]:
    """Scan several arrays as `check_entries` does, with one wait for all arrays on a GPU."""
    if not any(map(is_device_array, arrays.values())):
        return [check_entries(array, semiring, name) for name, array in arrays.items()]
    from semiring.kernels.cuda.entries.entry_scan import scan_arrays

    result = scan_arrays(semiring, {name: array for name, array in arrays.items() if is_device_array(array)})
    return [result[name] if name in result else check_entries(array, semiring, name) for name, array in arrays.items()]


def _scan_piece(piece: Array, rule: ScanRule, array: Array, semiring: Semiring, name: str) -> Scan:
    """Scan a piece of an array, and raise `DomainError` with the position of the first invalid entry in the array."""
    low = _reduce_min(piece, axis=None)  # NaN if an entry is NaN
    high = _reduce_max(piece, axis=None) if rule.needs_high else None
    if low != low:
        raise_for_entry(array, semiring, name, nan=True)
    if rule.is_restricted and not _is_in_domain(semiring, low, high):
        raise_for_entry(array, semiring, name, nan=False)
    if low == 0 and rule.is_floating:  # -0.0 has a sign bit too
        is_nonnegative = rule.sign_view is not None and bool(_reduce_min(piece.view(rule.sign_view), axis=None) >= 0)
        return Scan(low, high, nonnegative=is_nonnegative)
    return Scan(low, high, nonnegative=bool(low >= 0))


def _is_in_domain(semiring: Semiring, *ends: Any) -> bool:
    """Return whether the ends of a range lie in the domain. An end that is None is skipped."""
    return all(end is None or semiring.domain.contains(end) for end in ends)


def _scan_tropical(array: Array, tropical: str, size: int) -> Scan:
    """Return the range of the numbers, in Python integers, and whether "no path" occurs; read ``size`` bytes a time."""
    limits = limits_of(array.dtype)
    low, high = limits.max, limits.min
    has_zero = False
    for piece in _pieces(array, size):
        least, greatest = int(_reduce_min(piece, axis=None)), int(_reduce_max(piece, axis=None))
        # "no path" is the extreme value. Adding (subtracting) 1 wraps it to the other end, where it does not count.
        if tropical == "min" and greatest == limits.max:
            has_zero, greatest = True, int(_reduce_max(piece + piece.dtype.type(1), axis=None)) - 1
        elif tropical == "max" and least == limits.min:
            has_zero, least = True, int(_reduce_min(piece - piece.dtype.type(1), axis=None)) + 1
        # The wrapped end of a piece without numbers is limits.min - 1 or limits.max + 1.
        if limits.min <= greatest and least <= limits.max and least <= greatest:
            low, high = min(low, least), max(high, greatest)
    if low > high:
        return Scan(has_zero=has_zero, nonnegative=tropical == "min")
    return Scan(low, high, has_zero, nonnegative=low >= 0 and not (has_zero and tropical == "max"))


def _pieces(array: Any, size: int) -> Iterator[Array]:
    """Yield views of about ``size`` bytes that cover the array once, in the order of its memory."""
    if array.nbytes <= size:
        yield array if array.ndim else array.reshape(1)  # NumPy warns where the arithmetic of a number wraps
        return
    if array.flags.c_contiguous or array.flags.f_contiguous:
        flat = array.ravel("K")
        step = size // array.itemsize
        for start in range(0, flat.size, step):
            yield flat[start : start + step]
        return
    outer = int(
        np.argmax(
            [abs(stride) if length > 1 else -1 for stride, length in zip(array.strides, array.shape, strict=True)]
        )
    )
    array = np.moveaxis(array, outer, 0)
    row = array.itemsize * prod(array.shape[1:])
    if row > size and array.ndim > 1:
        for row_view in array:
            yield from _pieces(row_view, size)
        return
    step = max(1, size // row)
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]
