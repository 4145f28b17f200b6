"""Views of one matrix, whichever way it is stored: what the recursions and loops of this folder are written in.

Rows and columns are counted in vertices. With ``storage="bits"`` a column range must start at a multiple of 32, and it
becomes a range of words; a pivot matrix P is never packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from semiring.kernels.contract import Plan
from semiring.namespaces import array_namespace, is_device_array

__all__ = [
    "WORD",
    "block",
    "clear_zeros",
    "columns_of",
    "has_diverged",
    "negate",
    "on_host",
    "pieces",
    "put",
    "some",
    "zero_item",
]

Array: TypeAlias = Any  # a 2-D array of the backend's device, or a view of one

WORD = 32  # columns to a word of packed bits

_PIECE = 1 << 15  # entries worked on at a time: the temporaries stay in the second-level cache
# There launches count too. Of 2²¹ entries a few temporaries in float64 fit the second-level cache of an H200; of 256
# rows they are no more than the panels of a closure in place.
_PIECE_ON_DEVICE, _ROWS_ON_DEVICE = 1 << 21, 256


def columns_of(plan: Plan, start: int, stop: int) -> slice:
    """The columns ``start:stop`` as the storage of ``plan`` counts them."""
    if plan.storage == "bits":
        return slice(start // WORD, -(-stop // WORD))
    return slice(start, stop)


def block(plan: Plan, A: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
    """The view A[rows, columns], both half-open ranges of vertices."""
    return A[rows[0] : rows[1], columns_of(plan, *columns)]


def pieces(A: Array, entries: int = _PIECE) -> Iterator[slice]:
    """Ranges of rows that cover A, of about ``entries`` entries each, on a device of more."""
    columns = max(1, A.shape[1])
    step = max(_ROWS_ON_DEVICE, _PIECE_ON_DEVICE // columns) if is_device_array(A) else max(1, entries // columns)
    for start in range(0, A.shape[0], step):
        yield slice(start, min(start + step, A.shape[0]))


def put(A: Array, where: Array, value: Any) -> None:
    """A[where] ← value, for a mask of A's shape. On a device the mask is not counted first: that would wait for it."""
    if is_device_array(A):
        from semiring.arrays.device.elements import select

        select(A, where, A, value)
    else:
        A[where] = value


def some(answers: Iterable[Array]) -> bool:
    """Whether one of the answers is yes. The host stops at the first; a device is asked once, when it has all."""
    joined: Any = None
    for answer in answers:
        if is_device_array(answer):
            joined = answer if joined is None else joined | answer
        elif answer:
            return True
    return joined is not None and bool(joined)


def clear_zeros(A: Array, out: Array) -> None:
    """Out ← A of floats, any shape, with 0.0 for -0.0. Out, of the same dtype, may be A."""
    if is_device_array(A):
        from semiring.arrays.device import elements as kernels

        kernels.clear_zeros(A, out)
    else:
        np.add(A, A.dtype.type(0), out=out)


def negate(A: Array, out: Array) -> None:
    """Out ← 0 - A of floats or signed integers, any shape: no -0.0 comes of it. Out, of the same dtype, may be A."""
    if is_device_array(A) and A.dtype.kind != "i":
        from semiring.arrays.device import elements as kernels

        kernels.negate(A, out)
    else:
        array_namespace(A).subtract(A.dtype.type(0), A, out=out)


def on_host(values: Array) -> Array:
    """The values as a NumPy array; waits for the device where they are on one."""
    return values.get() if is_device_array(values) else np.asarray(values)


def zero_item(plan: Plan) -> Any:
    """What fills a block with 0̄: the element, or 32 of them in a word, in tail bits too."""
    if plan.storage == "bits":
        return np.uint32(0xFFFFFFFF if plan.zero else 0)
    return plan.zero


def has_diverged(plan: Plan, start: int, known: bool) -> bool:
    """Whether the block closed last, which begins at vertex ``start``, met a pivot without a star.

    Kernels count pivots from the block's first row; here the index becomes the vertex. ``known``: no pivot can diverge
    (the semiring's star exists everywhere). Kernels of a device leave a pivot in ``plan.status.word``, which is read
    once, at the end.
    """
    if known or plan.status.diverged < 0:
        return False
    plan.status.diverged += start
    return True
