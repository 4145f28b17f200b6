"""Process arrays in parts, in any memory: some rows at a time on the host, many rows on a GPU.

Temporaries stay small compared with the matrix, and on the host in the second-level cache. Callers of these functions
need no case distinction between the host and a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = ["any_true", "assign_where", "clear_zeros", "negate", "parts", "pieces", "to_host_array"]


_PIECE = 1 << 15  # entries of a part on the host, whose temporaries stay in the second-level cache
# On a GPU, parts are larger, because every launch takes time. A few temporaries of 2²¹ entries in float64 fit the
# second-level cache of an H200. Temporaries of 256 rows are no larger than the panels of a closure in place.
_PIECE_ON_DEVICE, _ROWS_ON_DEVICE = 1 << 21, 256


def pieces(A: Array, entries: int = _PIECE) -> Iterator[slice]:
    """Yield ranges of rows that cover A, of about ``entries`` entries each. On a device the ranges are larger."""
    columns = max(1, A.shape[1])
    step = max(_ROWS_ON_DEVICE, _PIECE_ON_DEVICE // columns) if is_device_array(A) else max(1, entries // columns)
    for start in range(0, A.shape[0], step):
        yield slice(start, min(start + step, A.shape[0]))


def parts(shape: tuple[int, ...], is_on_device: bool) -> Iterator[tuple[slice, ...]]:
    """Yield indices of parts that cover a matrix (m, n), or a stack (count, m, n) whose small matrices are joined.

    ``is_on_device``: whether the array is on a device, where parts are larger.
    """
    columns = max(1, shape[-1])
    step = max(_ROWS_ON_DEVICE, _PIECE_ON_DEVICE // columns) if is_on_device else max(1, _PIECE // columns)
    if len(shape) == 2:
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
        return
    together = max(1, step // max(1, shape[1]))
    for first in range(0, shape[0], together):
        matrices = slice(first, min(first + together, shape[0]))
        if together > 1:
            yield matrices, slice(None)
            continue
        for start in range(0, shape[1], step):
            yield matrices, slice(start, min(start + step, shape[1]))


def assign_where(A: Array, where: Array, value: Any) -> None:
    """Assign a value to the entries of A in a mask of its shape. On a device the call does not wait."""
    if is_device_array(A):
        from semiring.kernels.cuda.entries.entry_passes import select

        select(A, where, A, value)
    else:
        A[where] = value


def any_true(truths: Iterable[Array]) -> bool:
    """Return whether any of some truth values is true.

    It stops at the first on the host, and waits once for a device.
    """
    result: Any = None
    for truth in truths:
        if is_device_array(truth):
            result = truth if result is None else result | truth
        elif truth:
            return True
    return result is not None and bool(result)


def clear_zeros(A: Any, out: Any) -> None:
    """Write A of floats, of any shape, to ``out`` with 0.0 for -0.0. ``out``, of the same dtype, may be A."""
    if is_device_array(A):
        from semiring.kernels.cuda.entries import entry_passes

        entry_passes.clear_zeros(A, out)
    else:
        np.add(A, A.dtype.type(0), out=out)


def negate(A: Array, out: Array) -> None:
    """Write 0 - A of floats or signed integers to ``out``, which may be A and has its dtype. No entry becomes -0.0."""
    if is_device_array(A) and A.dtype.kind != "i":
        from semiring.kernels.cuda.entries import entry_passes

        entry_passes.negate(A, out)
    else:
        array_namespace(A).subtract(A.dtype.type(0), A, out=out)


def to_host_array(values: Any) -> Any:
    """Return the values as a NumPy array. If they are on a device, the call waits for it."""
    if not is_device_array(values):
        return np.asarray(values)
    from semiring.arrays.device import as_cupy

    return as_cupy(values).get()
