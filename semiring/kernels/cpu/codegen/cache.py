"""The CPU's compiled code on disk (`semiring.kernels.disk`).

An entry's name holds a hash of the kernel's definition, of the code of the modules that it is made of
(`semiring.kernels.sources`), of the versions of Numba, llvmlite, NumPy and Python, and of the CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from semiring.kernels import disk, sources
from semiring.kernels.disk import cache_folder

__all__ = ["cache_folder", "fingerprint", "holds", "load", "save"]

Modules = tuple[str, ...]


def fingerprint(modules: Modules) -> str | None:
    """Return a digest of what kernels of these modules depend on: code, versions, and the CPU; None: not kept."""
    return sources.fingerprint(modules, _versions())


@cache
def _versions() -> tuple[str, ...]:
    import llvmlite
    import numba
    import numpy as np

    from semiring.kernels.cpu.codegen.target import host

    compilers = numba.__version__, llvmlite.__version__, np.__version__, sys.version
    return *compilers, os.environ.get("NUMBA_OPT", ""), repr(host())


def holds(modules: Modules, key: str) -> bool:
    """Return whether a state was saved under that key, for kernels of these modules."""
    return disk.holds(fingerprint(modules), key)


def load(modules: Modules, key: str, rebuild: Callable[[Any], Any]) -> Any:
    """Return what ``rebuild`` makes of the saved state; None where there is none or it is damaged."""
    return disk.load(fingerprint(modules), key, rebuild)


def save(modules: Modules, key: str, state: Any) -> None:
    """Keep a state for `load`. Failing to is no error: a read-only or full folder only costs time."""
    disk.save(fingerprint(modules), key, state)
