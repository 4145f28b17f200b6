"""Memory that is used again: a page that a process has never touched takes longer to get than to fill."""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["recycled"]

Array: TypeAlias = NDArray[Any]

_LEAST, _MOST = 1 << 20, 1 << 27  # bytes: less is what the allocator keeps itself, more is not held back from others
_waiting: deque[Array] = deque(maxlen=1)


class _Block:
    """Memory that waits for the next array from when the last one on it is gone, until other memory does."""

    def __init__(self, memory: Array) -> None:
        self.memory, self.__array_interface__ = memory, memory.__array_interface__

    def __del__(self, waiting: deque[Array] = _waiting) -> None:  # modules may be gone by then
        waiting.append(self.memory)


def recycled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of any contents, in memory of an earlier one that is gone, if that had once to four times its size."""
    size = prod(shape) * dtype.itemsize
    if not _LEAST <= size <= _MOST:
        return np.empty(shape, dtype)
    try:
        memory = _waiting.pop()
    except IndexError:
        memory = np.empty(size, np.uint8)
    if not size <= memory.size <= 4 * size:  # a small array does not hold what is large
        memory = np.empty(size, np.uint8)
    return np.asarray(_Block(memory))[:size].view(dtype).reshape(shape)
