"""The speed data of machines, a file each, and the choice among them.

What a closure or product computes, to the last bit, follows from the *schedule*: the method, the blocks of pivots, the
leaves, where k is split (`semiring.algorithms.schedule`, and the constants that say so in the kernels). It depends on
the problem and the backend alone. How fast it is follows from *speed data*: tiles, panels, grain, waiting. They belong
to a machine, and change no bit; a test perturbs every one of them and compares.

The processor says which file is used (`cpu_machine`). What `semiring tune` measured on this machine comes first: it
lies in the user's configuration folder (`files`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.kernels.machines import granite_rapids, h200, others, zen4, zen5
from semiring.kernels.machines.data import ClosureSpeed, CpuSpeed
from semiring.kernels.machines.files import processor, read
from semiring.registrations import notify

if TYPE_CHECKING:
    from semiring.kernels.cpu.codegen.target import Target

__all__ = ["Machine", "closure_speed", "cpu_machine", "cpu_speed", "table_for", "trying"]

_TABLES = (granite_rapids, zen5, zen4)  # the first that fits is taken
_REFERENCE = ClosureSpeed(panel=512)


@dataclass(frozen=True)
class Machine:
    """The speed data of a CPU, and where they come from."""

    name: str
    measured: str  # the day; empty where the data were derived
    source: str  # a file, or the library
    speed: CpuSpeed

    def __str__(self) -> str:
        return f"{self.name}, {f'measured {self.measured}' if self.measured else 'derived and not measured'}"


def table_for(target: Target) -> Machine:
    """The library's own data for a processor: by its name, or else by what it can do."""
    for by_name in (True, False):
        for table in _TABLES:
            fits = target.cpu in table.CPUS if by_name else all(map(target.has, table.FEATURES))
            if fits and target.x86 and table.SPEED.is_valid(target.vector_bytes, target.registers):
                return Machine(table.NAME, table.MEASURED, table.__name__, table.SPEED)
    speed = others.SPEEDS[target.vector_bytes, target.registers]
    return Machine(target.cpu or "a processor", "", others.__name__, speed)


@cache
def cpu_machine() -> Machine:
    """The machine of this process: what the user's file says where there is a valid one, else the library's table."""
    from semiring.kernels.cpu.codegen.target import host

    target = host()
    found = read(target)
    if found is None:
        return table_for(target)
    path, measured, speed = found
    return Machine(processor(target), measured, str(path), speed)


_tried: CpuSpeed | None = None


def cpu_speed() -> CpuSpeed:
    """The speed data of this machine's CPU, the same object from call to call."""
    return _tried or cpu_machine().speed


@contextmanager
def trying(speed: CpuSpeed) -> Iterator[None]:
    """Use other speed data inside a ``with`` block, in the whole process: for the tuner and the tests."""
    global _tried
    before, _tried = _tried, speed
    notify()  # plans are made by these data
    try:
        yield
    finally:
        _tried = before
        notify()


def closure_speed(backend: str, dtype: np.dtype[Any], storage: str = "elements") -> ClosureSpeed:
    """How the closures of a backend copy, and where they go another way to the same bits."""
    if backend == "cpu":
        return cpu_speed().closures
    return h200.closures(dtype.itemsize, storage) if backend == "cuda" else _REFERENCE
