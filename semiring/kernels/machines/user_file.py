"""Read and write the measurements of `semiring tune` in the user's configuration folder.

The file is JSON: a format, the processor it was measured on, the day, and the numbers of `CpuSpeed`, all of them. It is
written whole or not at all. A file that is broken, of another processor, or not valid on this one is ignored with one
line in the log.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from semiring.kernels.code_store import user_folder
from semiring.kernels.machines.speed_data import CpuSpeed
from semiring.logs import logger

if TYPE_CHECKING:
    from semiring.kernels.cpu.codegen.target import Target

__all__ = ["config_folder", "identify_processor", "machine_file", "read_machine_file", "write_machine_file"]

_FORMAT = 1
_LARGEST = 1 << 16  # bytes; a valid file has some hundred


def config_folder() -> Path | None:
    """Return the folder of the user's settings: ``SEMIRING_CONFIG_DIR``, else the system's; None if that is empty.

    Raises `RuntimeError` if the user has no home folder.
    """
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
    """Return the day and the data.

    The message of a `ValueError` says what is wrong with the file.
    """
    try:
        content = json.loads(text)
        kind, theirs, measured, numbers = (content[key] for key in ("format", "processor", "measured", "cpu"))
        names = set(numbers)
    except (TypeError, KeyError, ValueError, RecursionError):
        raise ValueError("it does not hold the speed data of a machine") from None
    if theirs != identify_processor(target):
        raise ValueError(f"it is about another processor, {str(theirs)[:80]!r}")
    if kind != _FORMAT or not isinstance(measured, str) or names != {field.name for field in fields(CpuSpeed)}:
        raise ValueError("another version of the library wrote it")
    speed = CpuSpeed(**numbers)
    if not speed.is_valid(target.vector_bytes, target.registers):
        raise ValueError("its numbers are not valid on this processor")
    return measured, speed
