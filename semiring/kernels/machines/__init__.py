"""The speed data of machines, one file each, and the choice among them.

The *schedule* decides what a closure or product computes, to the last bit: the method, the blocks of pivots, the
leaves, the splits of k. It stands in `semiring.algorithms.schedule` and in constants of the kernels. It depends on the
problem and the backend alone. *Speed data* decide how fast the computation is: tiles, panels, grain, waiting. They
belong to a machine, and change no bit. A test perturbs every one of them and compares results.

The processor determines which file is used (`cpu_machine`). The measurements of `semiring tune` on this machine, in the
user's configuration folder (`user_file`), take precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.kernels.machines import generic, granite_rapids, h200, zen4, zen5
from semiring.kernels.machines.speed_data import ClosureSpeed, CpuSpeed
from semiring.kernels.machines.user_file import identify_processor, read_machine_file
from semiring.registrations import notify

if TYPE_CHECKING:
    from semiring.kernels.cpu.codegen.target import Target

__all__ = ["Machine", "closure_speed", "cpu_machine", "cpu_speed", "override_speed", "table_for"]

_TABLES = (granite_rapids, zen5, zen4)  # the first match counts
_REFERENCE = ClosureSpeed(panel=512)


@dataclass(frozen=True)
class Machine:
    """The speed data of a CPU, and their origin."""

    name: str
    measurement_day: str  # an ISO date; empty if the data were derived
    source: str  # a file, or the library
    speed: CpuSpeed

    def __str__(self) -> str:
        return (
            f"{self.name}, {f'measured {self.measurement_day}' if self.measurement_day else 'derived and not measured'}"
        )


def table_for(target: Target) -> Machine:
    """Return the library's own data for a processor, by its name, or else by its features."""
    for by_name in (True, False):
        for table in _TABLES:
            fits = target.cpu in table.CPUS if by_name else all(map(target.has, table.FEATURES))
            if fits and target.is_x86 and table.SPEED.is_valid(target.vector_bytes, target.registers):
                return Machine(table.NAME, table.MEASURED, table.__name__, table.SPEED)
    speed = generic.SPEEDS[target.vector_bytes, target.registers]
    return Machine(target.cpu or "a processor", "", generic.__name__, speed)


@cache
def cpu_machine() -> Machine:
    """Return the machine of this process: from the user's file if it is valid, else from the library's table."""
    from semiring.kernels.cpu.codegen.target import host

    target = host()
    contents = read_machine_file(target)
    if contents is None:
        return table_for(target)
    path, measured, speed = contents
    return Machine(identify_processor(target), measured, str(path), speed)


_override: CpuSpeed | None = None


def cpu_speed() -> CpuSpeed:
    """Return the speed data of this machine's CPU, as the same object at every call."""
    return _override or cpu_machine().speed


@contextmanager
def override_speed(speed: CpuSpeed) -> Iterator[None]:
    """Use other speed data inside a ``with`` block, in the whole process: for the tuner and the tests."""
    global _override
    before, _override = _override, speed
    notify()  # clear the caches of plans, which depend on these data
    try:
        yield
    finally:
        _override = before
        notify()


def closure_speed(backend: str, dtype: np.dtype[Any], storage: str = "elements") -> ClosureSpeed:
    """Return the widths of the copies in a backend's closures, and the sizes from which on they run other code."""
    if backend == "cpu":
        return cpu_speed().closures
    return h200.closures(dtype.itemsize, storage) if backend == "cuda" else _REFERENCE
