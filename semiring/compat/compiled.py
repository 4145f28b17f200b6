"""The kernels of `semiring.kernels.cpu.small_graphs`, unless another backend is asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.kernels import backend_for

__all__ = ["MOST", "small_graphs"]

MOST = 64  # vertices; from there on the closures of this library are faster (Zen 4)


@cache
def small_graphs() -> Any:
    """`SmallGraphs`, or None where another backend is asked for. Starts the compiler."""
    if backend_for(None, min_plus, np.dtype(np.float64)).name != "cpu":
        return None
    from semiring.kernels.cpu.small_graphs import SmallGraphs

    return SmallGraphs()
