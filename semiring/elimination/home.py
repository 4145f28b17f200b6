"""Where the numbers of a factor are found and asked: in the memory of the host, or on a GPU (`on_device`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.arrays.memory import demand_memory
from semiring.elimination.analysis import Analysis, Layout
from semiring.elimination.numbers import Numbers, eliminate
from semiring.elimination.questions import Sweeps, table
from semiring.kernels.contract import KernelPlan

__all__ = ["Host", "home_of"]

Array = NDArray[Any]


class Host:
    """The memory of the host."""

    xp = np
    eliminate = staticmethod(eliminate)
    demand = staticmethod(demand_memory)
    sweeps = Sweeps

    def current(self) -> AbstractContextManager[Any]:
        """What calls run in."""
        return nullcontext()

    def empty_rows(self, count: int, n: int, dtype: Any) -> Array:
        """Room for rows (count, n)."""
        return np.empty((count, n), dtype)

    def prepare(self, analysis: Analysis, layout: Layout) -> None:
        """Whatever an elimination needs to know before it sees a number."""

    def all_rows(self, numbers: Numbers, plan: KernelPlan, out: Array) -> None:
        """Out (n, n) ← A*."""
        Sweeps(numbers, plan).rows_into(np.arange(len(out)), out)

    def table(self, sweeps: Callable[..., Sweeps], sources: Array, targets: Array, out: Array) -> None:
        """Out (p, q) ← the entries of A* from p sources to q targets."""
        table(sweeps(), sweeps(columns=True), sources, targets, out)


def home_of(device: Any) -> Any:
    """The host for None, else the GPU of that name. Raises `ValueError` for another name, and `DeviceError`."""
    if device is None:
        return Host()
    from semiring.arrays.device.memory import device_number
    from semiring.elimination.on_device import Device

    return Device(device_number(device))
