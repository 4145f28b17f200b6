"""The speed data of machines (`tables`), and the choice among them.

The *schedule* decides what a closure or product computes, to the last bit: the method, the blocks of pivots, the
leaves, the splits of k. It stands in `semiring.algorithms.schedule` and in constants of the kernels. It depends on the
problem and the backend alone. *Speed data* decide how fast the computation is: tiles, panels, grain, waiting. They
belong to a machine, and change no bit. A test perturbs every one of them and compares results.

The processor determines which table is used (`cpu_machine`). The measurements of `semiring tune` on this machine, in
the user's configuration folder, take precedence. Their file is JSON: a format, the processor it was measured on, the
day, and the numbers of `CpuSpeed`, all of them. It is written whole or not at all. A file that is broken, of another
processor, or not valid on this one is ignored with one line in the log.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import quote
from semiring.kernels.code_store import user_folder
from semiring.kernels.machines.speed_data import ClosureSpeed, CpuSpeed
from semiring.kernels.machines.tables import BY_VECTORS, PROCESSORS, gpu_closures
from semiring.logs import logger
from semiring.registrations import notify

if TYPE_CHECKING:
    from pathlib import Path

    from semiring.kernels.cpu.codegen.target import Target

_REFERENCE = ClosureSpeed(panel=512)
_FIRST_CLOSURES = ClosureSpeed(panel=CpuSpeed.panel, strip=CpuSpeed.strip, pack=CpuSpeed.pack)
_FORMAT = 1
_LARGEST = 1 << 16  # bytes; a valid file has some hundred


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
    source = f"{__name__}.tables"
    for by_name in (True, False):
        for table in PROCESSORS:
            fits = target.cpu in table.cpus if by_name else all(map(target.has, table.features))
            if fits and target.is_x86 and table.speed.is_valid(target.vector_bytes, target.registers):
                return Machine(table.name, table.measurement_day, source, table.speed)
    return Machine(target.cpu or "a processor", "", source, BY_VECTORS[target.vector_bytes, target.registers])


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
        # The first calls of a process, in NumPy, need no data of the processor, whose name only Numba gives.
        return cpu_speed().closures if _override or "numba" in sys.modules else _FIRST_CLOSURES
    return gpu_closures(dtype.itemsize, storage) if backend == "cuda" else _REFERENCE


# ------------------------------------------------------------------------------------------------ the user's file


def config_folder() -> Path | None:
    """Return the folder of the user's settings: ``SEMIRING_CONFIG_DIR``, else the system's; None if that is empty.

    Raises `RuntimeError` if the user has no home folder.
    """
    from pathlib import Path

    own = os.environ.get("SEMIRING_CONFIG_DIR")
    if own is not None:
        return Path(own) if own else None
    return user_folder("config")


def machine_file() -> Path | None:
    """Return the path of the file of this user's machine, whether or not the file exists."""
    try:
        folder = config_folder()
    except RuntimeError:
        return None
    return None if folder is None else folder / "machine.json"


def identify_processor(target: Target) -> str:
    """Return the text that identifies a processor: its LLVM name, and a digest of its features."""
    import hashlib  # it loads OpenSSL

    digest = hashlib.sha256(f"{target.triple} {target.features}".encode()).hexdigest()
    return f"{target.cpu or 'unknown'} {digest[:12]}"


def write_machine_file(path: Path, target: Target, day: str, speed: CpuSpeed) -> None:
    """Write a file for `read_machine_file`, with the ``day`` of the measurement.

    Raise `OSError` on failure, which leaves an older file unchanged.
    """
    content = {"format": _FORMAT, "processor": identify_processor(target), "measured": day, "cpu": asdict(speed)}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_machine_file(target: Target) -> tuple[Path, str, CpuSpeed] | None:
    """Return the user's file for this processor, its day of measurement, and its data, or None if it is not valid."""
    path = machine_file()
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            contents = _parse(file.read(_LARGEST), target)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger().warning("%s is ignored: %s. `semiring tune` writes a new one", path, error)
        return None
    return path, *contents


def _parse(text: bytes, target: Target) -> tuple[str, CpuSpeed]:
    """Return the day and the data. The message of a `ValueError` says what is wrong with the file."""
    try:
        content = json.loads(text)
        kind, theirs, measured, numbers = (content[key] for key in ("format", "processor", "measured", "cpu"))
        names = set(numbers)
    except (TypeError, KeyError, ValueError, RecursionError):
        raise ValueError("it does not hold the speed data of a machine") from None
    if theirs != identify_processor(target):
        raise ValueError(f"it is about another processor, {quote(theirs)}")
    if kind != _FORMAT or not isinstance(measured, str) or names != {field.name for field in fields(CpuSpeed)}:
        raise ValueError("another version of the library wrote it")
    speed = CpuSpeed(**numbers)
    if not speed.is_valid(target.vector_bytes, target.registers):
        raise ValueError("its numbers are not valid on this processor")
    return measured, speed
