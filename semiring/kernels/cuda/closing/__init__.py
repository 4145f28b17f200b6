"""Compute closures in CUDA C++, compiled by NVRTC through CuPy: blocks in one launch, and whole matrices.

The modules build on each other. `kernel_text` prints expressions as CUDA C++ and inserts them into a ``.cu`` file of
this folder, and `modules` compiles it. `blocks` is the contract's `close_block`. `staged_stacks` closes many matrices
together, and `look_ahead` closes one in one launch. `fits` compares their shared memory with that of a device: 99 KiB
for a block on consumer cards. `paper_kernels` has the kernels of other authors, and `relations` closes packed bits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.blocks import close_block, fast_rows, single_block_rows
from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.look_ahead import SMALLEST_SHAPE, close
from semiring.kernels.cuda.closing.modules import max_shared_memory
from semiring.kernels.cuda.closing.staged_stacks import shared_bytes

__all__ = ["arithmetic_of", "close", "close_block", "fast_rows", "fits"]

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
