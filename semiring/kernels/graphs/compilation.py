"""Compile the loops of this folder and store their code on disk."""

from __future__ import annotations

from typing import Any

from numba import njit

from semiring.kernels.cpu.codegen.jit import cache_on_disk
from semiring.kernels.cpu.codegen.numba_internals import OUTER

__all__ = ["kernel"]


def kernel(function: Any) -> Any:
    """Return a compiled function that releases the GIL."""
    return cache_on_disk(njit(function, **OUTER))
