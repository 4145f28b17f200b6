"""How much shared memory the whole closures need, and what a device grants one block: 99 KiB on consumer cards."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.kernels.contract import Plan
from semiring.kernels.cuda.staged.kernels import WIDTH, look_ahead_shape
from semiring.kernels.cuda.staged.printer import ELEMENTS
from semiring.kernels.cuda.staged.sources import arithmetic_of
from semiring.kernels.engine import make_plan

__all__ = ["fits", "granted"]


def granted() -> int:
    """Bytes of shared memory that a block may have on the current device."""
    from cupy.cuda import runtime

    return _granted(runtime.getDevice())


@lru_cache(maxsize=64)
def _granted(device: int) -> int:
    from cupy.cuda import runtime

    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device))


def fits(plan: Plan, n: int) -> bool:
    """Whether the current device can close a matrix of n rows under this plan as a whole."""
    if plan.dtype.name not in ELEMENTS or plan.semiring.star_expression is None:
        return False
    return n <= WIDTH or _needed(plan.semiring, plan.dtype, n) <= granted()  # few rows: in the registers of one block


@lru_cache(maxsize=1024)
def _needed(semiring: Semiring, dtype: np.dtype[Any], n: int) -> int:
    """Bytes of shared memory at least."""
    least = look_ahead_shape(n, arithmetic_of(make_plan(semiring, dtype)), shared_memory=0)
    return least.shared(dtype.itemsize)
