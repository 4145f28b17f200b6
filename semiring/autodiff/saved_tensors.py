"""Reuse the memory of saved arrays, because the allocation of a page takes longer than filling it."""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["allocate_recycled"]

Array: TypeAlias = NDArray[Any]

_MIN_BYTES = 1 << 20  # the allocator reuses less memory itself
_MAX_BYTES = 1 << 27  # more memory would be missing for other uses
_free_memory: deque[Array] = deque(maxlen=1)


class _RecycledMemory:
    """Memory that becomes available for the next array when the last array on it is deleted."""

    def __init__(self, memory: Array) -> None:
        self.memory, self.__array_interface__ = memory, memory.__array_interface__

    def __del__(
        self, waiting: deque[Array] = _free_memory
    ) -> None:  # a default argument, because modules may be deleted at exit
        waiting.append(self.memory)


def allocate_recycled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialized array in the memory of a deleted array, if that has one to four times its size."""
    size = prod(shape) * dtype.itemsize
    if not _MIN_BYTES <= size <= _MAX_BYTES:
        return np.empty(shape, dtype)
    try:
        memory = _free_memory.pop()
    except IndexError:
        memory = np.empty(size, np.uint8)
    if not size <= memory.size <= 4 * size:  # a small array must not keep large memory in use
        memory = np.empty(size, np.uint8)
    return np.asarray(_RecycledMemory(memory))[:size].view(dtype).reshape(shape)
