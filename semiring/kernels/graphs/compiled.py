"""The loops of this folder as compiled functions, kept on disk."""

from __future__ import annotations

from typing import Any

from numba import njit

from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.numba_internals import OUTER

__all__ = ["kernel"]


def kernel(function: Any) -> Any:
    """A compiled function that lets other Python threads run."""
    return cached(njit(function, **OUTER))
