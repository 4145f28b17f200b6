"""Select the memory that holds and solves a factor: that of the host, or that of a GPU (`sparse.device`)."""

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

__all__ = ["HostPlacement", "placement_of", "select_placement"]

Array = NDArray[Any]


class HostPlacement:
    """The memory of the host as the placement of factors."""

    xp = np
    eliminate = staticmethod(eliminate)
    demand = staticmethod(demand_memory)
    sweeps = TriangularSolves

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which calls run."""
        return nullcontext()

    def empty_rows(self, count: int, n: int, dtype: Any) -> Array:
        """Return uninitialized rows (count, n)."""
        return np.empty((count, n), dtype)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Prepare the structure that an elimination needs: on the host there is nothing to do."""

    def all_rows(self, numbers: FactorNumbers, plan: KernelPlan, out: Array) -> None:
        """Write A* to ``out`` (n, n)."""
        TriangularSolves(numbers, plan).rows_into(np.arange(len(out)), out)

    def table(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Write the entries of A* from p sources to q targets to ``out`` (p, q)."""
        table(sweeps(), sweeps(columns=True), sources, targets, out)

    def pairs(self, sweeps: Callable[..., TriangularSolves], sources: Array, targets: Array, out: Array) -> None:
        """Write the entries of A* from p sources to p targets to ``out`` (p,), pair by pair."""
        join_pairs(sweeps(), sweeps(columns=True), sources, targets, out)


def select_placement(device: Any) -> Any:
    """Return the host for None, else the GPU of that name. Raises `ValueError` and `DeviceError` for other names."""
    if device is None:
        return HostPlacement()
    from semiring.arrays.device import device_number
    from semiring.sparse.device import DevicePlacement

    return DevicePlacement(device_number(device))


def placement_of(array: Any) -> Any:
    """Return the memory that holds an array: the host, or the array's GPU."""
    return select_placement(f"cuda:{array.device.id}" if is_device_array(array) else None)
