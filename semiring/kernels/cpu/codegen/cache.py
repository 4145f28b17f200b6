"""Store the CPU's compiled code on disk (`semiring.kernels.code_store`).

The name of an entry holds a hash of four things. They are the kernel's definition, the code of its modules
(`semiring.kernels.sources`), the versions of Numba, llvmlite, NumPy and Python, and the CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from semiring.kernels import code_store, sources
from semiring.kernels.code_store import cache_folder

__all__ = ["cache_folder", "fingerprint", "has_entry", "load", "save"]

Modules = tuple[str, ...]


def fingerprint(modules: Modules) -> str | None:
    """Return a digest of the code, the versions and the CPU that kernels of these modules depend on.

    Return None if the kernels are not stored on disk.
    """
    return sources.fingerprint(modules, _versions())


@cache
def _versions() -> tuple[str, ...]:
    import llvmlite
    import numba
    import numpy as np

    from semiring.kernels.cpu.codegen.target import host

    compilers = numba.__version__, llvmlite.__version__, np.__version__, sys.version
    return *compilers, os.environ.get("NUMBA_OPT", ""), repr(host())


def has_entry(modules: Modules, key: str) -> bool:
    """Return whether a state is stored under that key, for kernels of these modules."""
    return code_store.has_entry(fingerprint(modules), key)


def load(modules: Modules, key: str, rebuild: Callable[[Any], Any]) -> Any:
    """Return the result of ``rebuild`` for the saved state, or None if the state is absent or damaged."""
    return code_store.load(fingerprint(modules), key, rebuild)


def save(modules: Modules, key: str, state: Any) -> None:
    """Save a state for `load`.

    A read-only or full folder only costs time and is no error.
    """
    code_store.save(fingerprint(modules), key, state)
