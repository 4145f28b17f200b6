"""Select where a factor is stored and solved: in the memory of the host, or on a GPU (`sparse.device_factor`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.arrays.memory import demand_memory
from semiring.kernels.contract import KernelPlan
from semiring.namespaces import is_device_array
from semiring.sparse.factor_solve import TriangularSolves, table
from semiring.sparse.numeric_factor import FactorNumbers, eliminate
from semiring.sparse.pair_entries import join_pairs
from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["HostPlacement", "placement_of", "select_placement"]

Array = NDArray[Any]


class HostPlacement:
    """The operations of factors in the memory of the host.

    `sparse.device_factor.DevicePlacement` has the same operations on a GPU. ``xp`` is the array library. ``eliminate``
    computes a factor, ``demand`` raises `TooLargeError` if memory is short, and ``sweeps`` is the solver of x ⊗ A*.
    """

    xp = np
    eliminate = staticmethod(eliminate)
    demand = staticmethod(demand_memory)
    sweeps = TriangularSolves

    def context(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing. On a GPU, the context selects the device."""
        return nullcontext()

    def empty_rows(self, count: int, n: int, dtype: Any) -> Array:
        """Return an uninitialized array for rows of A*, (count, n)."""
        return np.empty((count, n), dtype)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Do nothing, because an elimination on the host needs no copy of its structure."""

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
    """Return the placement on the host for None, else on the GPU of that name.

    Raises `ValueError` and `DeviceError`.
    """
    if device is None:
        return HostPlacement()
    from semiring.arrays.device import device_number
    from semiring.sparse.device_factor import DevicePlacement

    return DevicePlacement(device_number(device))


def placement_of(array: Any) -> Any:
    """Return the placement on the host, or on the GPU that holds an array."""
    return select_placement(f"cuda:{array.device.id}" if is_device_array(array) else None)
