"""Scan the entries of arrays on a GPU: one pass over each array, and one transfer for all results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, floor, isinf, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.device import alignment_error, load_cupy
from semiring.arrays.scans import Scan, raise_for_entry, rule_for
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch
from semiring.logs import CACHED_SECONDS, Compilation
from semiring.namespaces import Array

_THREADS, _BLOCKS = 256, 1024
_IS_NAN, _IS_ZERO, _HAS_SIGN, _IS_OUTSIDE, _IS_NUMBER = 1, 2, 4, 8, 16
_UNSIGNED, _SIGNED, _FLOATING = 0, 1, 2
_WORDS = 3  # words of the result for one array: the flags, the complement of the least key, the greatest key


def scan_array(array: Array, semiring: Semiring, name: str = "A") -> Scan:
    """Return the scan of a CuPy array of any strides, as `semiring.arrays.entries.check_entries` does for the host.

    The function waits for the device, and raises as `scan_arrays`.
    """
    return scan_arrays(semiring, {name: array})[name]


def scan_arrays(semiring: Semiring, arrays: Mapping[str, Array]) -> dict[str, Scan]:
    """Return the scan of the entries of each array.

    One kernel reads each array. The host waits once, for the transfer of three words of each array. Raises
    `DomainError` for the first entry of the first array that is NaN or outside the domain.
    """
    scans = {name: Scan(nonnegative=True) for name in arrays}
    scan_names = [
        name for name, array in arrays.items() if array.size and not rule_for(semiring, array.dtype).needs_no_scan
    ]
    if not scan_names:
        return scans
    cupy = load_cupy()
    results = cupy.empty((len(scan_names), _WORDS), np.uint64)
    results.data.memset_async(0, results.nbytes)
    for i, name in enumerate(scan_names):
        _launch(cupy, arrays[name], name, _keys(semiring, arrays[name].dtype), results.data.ptr + i * _WORDS * 8)
    for name, words in zip(scan_names, results.get().tolist(), strict=True):
        scans[name] = _scan(words, arrays[name], semiring, name)
    return scans


def scan_bounds(array: Array, bounds: tuple[Any, Any], result: int, name: str = "an operand") -> None:
    """Enqueue a scan for NaN and for floats outside the bounds, which writes three words at an address.

    The words are 0 before. `finds_fault` reads the first one.
    """
    if array.size:
        _launch(load_cupy(), array, name, _bound_keys(*bounds, array.dtype), result)


def finds_fault(flags: int) -> bool:
    """Return whether the first word of a scan says that an entry is NaN or outside the bounds."""
    return bool(flags & (_IS_NAN | _IS_OUTSIDE))


def _scan(words: list[int], array: Array, semiring: Semiring, name: str) -> Scan:
    flags, least, greatest = words
    if flags & (_IS_NAN | _IS_OUTSIDE):
        raise_for_entry(array, semiring, name, nan=bool(flags & _IS_NAN))
    low = high = None
    if flags & _IS_NUMBER:
        low, high = _value(least ^ _all_ones(array.dtype), array.dtype), _value(greatest, array.dtype)
    return Scan(low, high, bool(flags & _IS_ZERO), nonnegative=not flags & _HAS_SIGN)


# ------------------------------------------------------------------------------------------------- elements as keys


def _all_ones(dtype: np.dtype[Any]) -> int:
    return (1 << 8 * dtype.itemsize) - 1


def _sign_bit(dtype: np.dtype[Any]) -> int:
    return 1 << 8 * dtype.itemsize - 1


def _kind(dtype: np.dtype[Any]) -> int:
    return _FLOATING if is_floating(dtype) else _SIGNED if dtype.kind == "i" else _UNSIGNED


def key_of(value: Any, dtype: np.dtype[Any]) -> int:
    """Return the unsigned integer for a value: keys have the order of the values, and -0.0 is just below 0.0."""
    bits = int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))
    if _kind(dtype) == _FLOATING:
        return bits ^ _all_ones(dtype) if bits & _sign_bit(dtype) else bits | _sign_bit(dtype)
    return bits ^ _sign_bit(dtype) if _kind(dtype) == _SIGNED else bits


def _value(key: int, dtype: np.dtype[Any]) -> Any:
    """Return the value for a key: a NumPy scalar of a floating dtype, otherwise a Python integer."""
    kind, sign = _kind(dtype), _sign_bit(dtype)
    if kind == _FLOATING:
        bits = key ^ sign if key & sign else key ^ _all_ones(dtype)
        return np.asarray(bits, f"u{dtype.itemsize}").view(dtype)[()]
    return key - sign if kind == _SIGNED else key


@lru_cache(maxsize=1024)
def _rule(keys: tuple[int, ...], device: int) -> Any:
    """Return the `Rule` of scan.cu on the device: its words are copied once, not in every launch."""
    cupy = load_cupy()
    rule = cupy.asarray(np.array(keys, np.uint64))
    cupy.cuda.get_current_stream().synchronize()  # work on other streams will read the rule too
    return rule


@lru_cache(maxsize=1024)
def _bound_keys(low: Any, high: Any, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the words of the `Rule` for floats between two bounds, which belong to them."""
    ends = key_of(low + dtype.type(0), dtype), key_of(high + dtype.type(0), dtype)  # -0.0 + 0.0 is 0.0
    return key_of(np.inf, dtype) ^ _sign_bit(dtype), *ends, *ends, 0, _FLOATING, 0


@lru_cache(maxsize=1024)
def _keys(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the words of the `Rule` for the entries of a semiring."""
    rule = rule_for(semiring, dtype)
    zero, one = (key_of(typed(dtype), dtype) for typed in (semiring.zero_for, semiring.one_for))
    infinity = key_of(np.inf, dtype) ^ _sign_bit(dtype) if is_floating(dtype) else 0
    low, high = _domain_keys(semiring, dtype) if rule.is_restricted else (0, _all_ones(dtype))
    return infinity, low, high, zero, one, zero, _kind(dtype), int(rule.tropical is not None)


def _domain_keys(semiring: Semiring, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the keys of the least and the greatest element of the domain. If it is empty, the first key is greater."""
    domain = semiring.domain
    if is_floating(dtype):
        with np.errstate(over="ignore"):
            lower, upper = dtype.type(domain.lower), dtype.type(domain.upper)
        up, down = dtype.type(np.inf), dtype.type(-np.inf)
        lower = np.nextafter(lower, up) if domain.lower_open else lower
        upper = np.nextafter(upper, down) if domain.upper_open else upper
        return key_of(lower + dtype.type(0), dtype), key_of(upper + dtype.type(0), dtype)  # -0.0 + 0.0 is 0.0
    limits = np.iinfo(dtype)
    least = limits.min if isinf(domain.lower) else floor(domain.lower) + 1 if domain.lower_open else ceil(domain.lower)
    most = limits.max if isinf(domain.upper) else ceil(domain.upper) - 1 if domain.upper_open else floor(domain.upper)
    if least > limits.max or most < limits.min:
        return 1, 0
    return key_of(max(least, limits.min), dtype), key_of(min(most, limits.max), dtype)


# ------------------------------------------------------------------------------------------------- layouts, launches


class MemoryOrder(NamedTuple):
    """The elements of an array, each once, in the order of memory: an address, sizes and strides in elements."""

    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> MemoryOrder | None:
        """Return the memory order for strides in bytes, or None where an element is not aligned to its size.

        A scan does not depend on the order of the elements. Negative strides are reversed, sizes of one and repetitions
        (stride 0) are dropped, and consecutive dimensions are joined.
        """
        if address % itemsize:
            return None
        axes = []
        for size, stride in zip(shape, strides, strict=True):
            if size > 1 and stride % itemsize:
                return None
            if size > 1 and stride:
                address += min(0, (size - 1) * stride)
                axes.append((abs(stride) // itemsize, size))
        loops: list[tuple[int, int]] = []
        for stride, size in sorted(axes, reverse=True):
            if loops and loops[-1][0] == stride * size:
                loops[-1] = (stride, loops[-1][1] * size)
            else:
                loops.append((stride, size))
        return cls(address, tuple(size for _, size in loops), tuple(stride for stride, _ in loops))


@lru_cache(maxsize=1)
def _module() -> Any:
    source = Path(__file__).with_name("scan.cu").read_text("utf-8")
    return load_cupy().RawModule(code=source, options=("-std=c++17",))


@lru_cache(maxsize=128)
def _kernel(name: str, device: int) -> Any:
    """Return the function on the current device, which is ``device``."""
    under_way = Compilation("validation of entries", "this GPU")
    function = _module().get_function(name).kernel
    under_way.finish(CACHED_SECONDS)
    return function


def _launch(cupy: Any, array: Array, name: str, keys: tuple[int, ...], result: int) -> None:
    dtype, size = array.dtype, array.itemsize
    layout = MemoryOrder.of(array.data.ptr, array.shape, array.strides, size)
    if layout is None:
        raise alignment_error(name, dtype)
    if len(layout.sizes) > 3:
        array = cupy.ascontiguousarray(array)
        layout = MemoryOrder(array.data.ptr, (array.size,), (1,))
    address, (sizes, strides) = layout.address, (layout.sizes or (1,), layout.strides or (1,))
    count = prod(sizes)
    rows_apart = strides[0] if len(sizes) == 2 else 0
    if len(sizes) <= 2 and strides[-1] == 1 and address % 16 == rows_apart * size % 16 == 0:
        kernel, where = "dense", [address, count // sizes[-1], sizes[-1], rows_apart]
    else:
        s0, s1, s2 = (strides[0], 0, strides[1]) if len(strides) == 2 else (0,) * (3 - len(strides)) + strides
        kernel, where = "strided", [address, sizes[1] if len(sizes) == 3 else 0, sizes[-1], count, s0, s1, s2]
    threads = count * size // 16 if kernel == "dense" else count
    device = cupy.cuda.runtime.getDevice()
    launch = _prepare_launch(
        f"scan_{kernel}_{8 * size}", max(1, min(_BLOCKS, -(-threads // _THREADS))), len(where), device
    )
    launch(*where, _rule(keys, device).data.ptr, result)


@lru_cache(maxsize=1024)
def _prepare_launch(kernel: str, blocks: int, places: int, device: int) -> PreparedLaunch:
    """Return the launch on the current device. Each launch passes the entries, the rule and the result."""
    return PreparedLaunch(_kernel(kernel, device), (blocks,), (_THREADS,), (None,) * (places + 2))
