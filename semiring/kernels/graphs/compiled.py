"""The loops of this folder as compiled functions, kept on disk for as long as the sources beside them stay."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

from semiring.kernels import disk
from semiring.kernels.cpu.codegen.jit import KernelCache
from semiring.kernels.cpu.codegen.options import OUTER

__all__ = ["kernel"]


@cache
def _sources() -> str:
    return disk.digest(sorted(Path(__file__).parent.glob("*.py")), ())[:16]


def kernel(function: Any) -> Any:
    """A compiled function that lets other Python threads run."""
    compiled = njit(function, **OUTER)
    compiled._cache = KernelCache(f"{_sources()} {function.__module__}.{function.__qualname__}")
    return compiled
