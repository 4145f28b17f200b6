"""Launches that are prepared once: kernel, grid and the parameters that do not change."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from semiring.arrays.device.memory import load_cupy

__all__ = ["Prepared"]


class Prepared:
    """A kernel of CuPy on the current device, with its grid and its parameters.

    ``parameters`` are NumPy scalars; None stands for an integer of at most 8 bytes, an address for example, that comes
    with each launch. A launch costs 5 µs of the host, where CuPy, which reads all parameters each time, takes 7 to 8.
    """

    def __init__(
        self,
        kernel: Any,
        blocks: tuple[int, ...],
        threads: tuple[int, ...],
        parameters: Sequence[Any],
        shared: int = 0,
        *,
        cooperative: bool = False,
    ) -> None:
        driver = load_cupy().cuda.driver
        count = len(parameters)
        self._slots = (ctypes.c_uint64 * (2 * count))()  # addresses of the parameters, and the parameters
        start = ctypes.addressof(self._slots)
        for i, parameter in enumerate(parameters):
            self._slots[i] = start + 8 * (count + i)
            if parameter is not None:
                self._slots[count + i] = int.from_bytes(np.asarray(parameter).tobytes(), "little")
        self._given = [count + i for i, parameter in enumerate(parameters) if parameter is None]
        self._kernel = kernel  # keeps its module loaded
        dimensions = (*blocks, 1, 1)[:3], (*threads, 1, 1)[:3]
        self._before = (kernel.kernel.ptr, *dimensions[0], *dimensions[1], shared)
        self._behind = (start,) if cooperative else (start, 0)
        self._launch = driver.launchCooperativeKernel if cooperative else driver.launchKernel
        self._stream = load_cupy().cuda.get_current_stream
        self._lock = Lock()  # the parameters are read when they have all been written

    def __call__(self, *given: int) -> None:
        """Enqueue it on the current stream, with the parameters that were left open."""
        with self._lock:
            for slot, value in zip(self._given, given, strict=True):
                self._slots[slot] = value
            self._launch(*self._before, self._stream().ptr, *self._behind)
