"""Passes over the elements of CuPy arrays that are one kernel where array operations would be several."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from semiring.device.memory import load_cupy

__all__ = ["select"]

Array: TypeAlias = Any  # a CuPy array


@cache
def _select() -> Any:
    return load_cupy().ElementwiseKernel("bool absent, T number, T extreme", "T y", "y = absent ? extreme : number")


def select(target: Array, absent: Array, numbers: Array, extreme: int) -> None:
    """Write ``extreme`` into the target where ``absent``, and the number elsewhere; the target may be ``numbers``."""
    _select()(absent, numbers, target.dtype.type(extreme), target)
