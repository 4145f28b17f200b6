"""Compare the shared memory of whole closures with that of a device: 99 KiB for a block on consumer cards."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.blocks import single_block_rows
from semiring.kernels.cuda.closing.kernel_text import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.look_ahead import SMALLEST_SHAPE
from semiring.kernels.cuda.closing.modules import max_shared_memory
from semiring.kernels.cuda.closing.printer import ELEMENTS
from semiring.kernels.cuda.closing.staged_stacks import shared_bytes

__all__ = ["fits"]

_PRINTED = frozenset(map(np.dtype, ELEMENTS))


def fits(plan: KernelPlan, n: int) -> bool:
    """Return whether the current device can close a matrix of n rows under this plan as a whole."""
    if plan.dtype not in _PRINTED or plan.semiring.star_expression is None:
        return False
    return _fits(arithmetic_of(plan), plan.dtype.itemsize, n, max_shared_memory())


@lru_cache(maxsize=1024)
def _fits(arithmetic: Arithmetic, itemsize: int, n: int, shared_memory: int) -> bool:
    # Few rows fit the registers of one block. More rows need the look-ahead kernel, or two launches a stage.
    least = min(SMALLEST_SHAPE.shared_bytes(itemsize), shared_bytes(itemsize))
    return n <= single_block_rows(arithmetic) or least <= shared_memory
