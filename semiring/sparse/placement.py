"""Where the numbers of a factor are found and asked: in the memory of the host, or on a GPU (`on_device`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.arrays.memory import demand_memory
from semiring.kernels.contract import KernelPlan
from semiring.namespaces import is_device_array
from semiring.sparse.numeric import FactorNumbers, eliminate
from semiring.sparse.pairs import join_pairs
from semiring.sparse.solve import TriangularSolves, table
from semiring.sparse.symbolic import Analysis, FactorLayout

__all__ = ["Host", "home_of", "placement_of"]

Array = NDArray[Any]


class Host:
    """The memory of the host."""

    xp = np
    eliminate = staticmethod(eliminate)
    demand = staticmethod(demand_memory)
    sweeps = TriangularSolves

    def current(self) -> AbstractContextManager[Any]:
        """What calls run in."""
        return nullcontext()

    def empty_rows(self, count: int, n: int, dtype: Any) -> Array:
        """Room for rows (count, n)."""
        return np.empty((count, n), dtype)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Whatever an elimination needs to know before it sees a number."""

    def all_rows(self, numbers: FactorNumbers, plan: KernelPlan, out: Array) -> None:
        """Out (n, n) ← A*."""
        TriangularSolves(numbers, plan).rows_into(np.arange(len(out)), out)

    def table(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Out (p, q) ← the entries of A* from p sources to q targets."""
        table(sweeps(), sweeps(columns=True), sources, targets, out)

    def pairs(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Out (p,) ← the entries of A* from p sources to p targets, pair by pair."""
        join_pairs(sweeps(), sweeps(columns=True), sources, targets, out)


def home_of(device: Any) -> Any:
    """The host for None, else the GPU of that name. Raises `ValueError` for another name, and `DeviceError`."""
    if device is None:
        return Host()
    from semiring.arrays.device import device_number
    from semiring.sparse.device import Device

    return Device(device_number(device))


def placement_of(array: Any) -> Any:
    """Return the memory that holds an array: the host, or the array's GPU."""
    return home_of(f"cuda:{array.device.id}" if is_device_array(array) else None)
