"""The CPU's compiled code on disk (`semiring.kernels.disk`).

An entry's name holds a hash of the definition of the kernel, the sources of this package, the versions of Numba,
llvmlite and Python, and the CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from semiring.kernels import disk
from semiring.kernels.disk import cache_folder

__all__ = ["cache_folder", "fingerprint", "holds", "load", "save"]


@cache
def fingerprint() -> str:
    """A digest of what every kernel depends on: sources, versions, and the CPU."""
    import llvmlite
    import numba

    import semiring.algebra.expressions
    from semiring.kernels.cpu.codegen.target import host

    folder = Path(__file__).parent.parent
    shared = (folder.parent / "definition.py", Path(semiring.algebra.expressions.__file__))
    versions = (numba.__version__, llvmlite.__version__, sys.version, os.environ.get("NUMBA_OPT", ""), repr(host()))
    return disk.digest([*sorted(folder.rglob("*.py")), *shared], versions)


def holds(key: str) -> bool:
    """Whether a state was saved under that key."""
    return disk.holds(fingerprint(), key)


def load(key: str, rebuild: Callable[[Any], Any]) -> Any:
    """What ``rebuild`` makes of the saved state; None where there is none or it is damaged."""
    return disk.load(fingerprint(), key, rebuild)


def save(key: str, state: Any) -> None:
    """Keep a state for `load`. Failing to is no error: a read-only or full folder only costs time."""
    disk.save(fingerprint(), key, state)
