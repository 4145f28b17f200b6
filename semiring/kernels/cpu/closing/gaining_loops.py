"""Close blocks inside the loops of `gaining_factors` and `gaining_potentials`, and share a stack among threads."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from numba import njit
from numpy.typing import NDArray

from semiring.kernels.cpu.closing.pivot_loops import PADDED, PIVOTS, PIVOTS_AT_A_TIME, close
from semiring.kernels.cpu.codegen.memory_intrinsics import put
from semiring.kernels.cpu.codegen.numba_internals import PART
from semiring.kernels.cpu.kernels import Kernels
from semiring.kernels.cpu.product.macro_kernel import word
from semiring.kernels.cpu.thread_pool import run_tasks

__all__ = ["close_block", "has_negative_zero", "inner", "run_on_threads"]

Array: TypeAlias = NDArray[Any]


def run_on_threads(function: Callable[[int, int], int], kernels: Kernels, A: Array, threads: int) -> int:
    """Call ``function(start, stop)`` for parts of a stack A (count, n, n).

    Return the greatest result. Several threads are used if the size pays for them.
    """
    count, n = A.shape[:2]
    if count == 1:
        return function(0, 1)
    answers: list[int] = []
    pieces = min(count, threads) if A.size * n >= kernels.speed.task_pairs else 1
    step = -(-count // pieces)
    tasks = [(start, min(count, start + step)) for start in range(0, count, step)]
    run_tasks(lambda start, stop: answers.append(function(start, stop)), tasks, threads)
    return max(answers)


inner = njit(**PART)


@inner
def close_block(bits, job, workspace):
    """Compute A ← A* as `Kernels.close` does for a matrix of this size; ``bits`` are the bits of A.

    Return the first pivot without a star, or -1.
    """
    n, padded, pivots = bits.shape[0], word(job, PADDED), word(job, PIVOTS_AT_A_TIME)
    put(n if n <= padded else PIVOTS, job + 8 * PIVOTS_AT_A_TIME)
    failed = close(bits, job, workspace)
    put(pivots, job + 8 * PIVOTS_AT_A_TIME)
    return failed


@inner
def has_negative_zero(A):
    """Return whether an entry of A is -0.0."""
    flag = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            flag |= (A[i, j] == 0) & (math.copysign(1.0, A[i, j]) < 0)
    return flag != 0
