"""Stacks of matrices beyond one thread block each, closed together: two launches a stage of 64 pivots for all.

One matrix is a stack too, and closed faster this way than by the look-ahead kernel where its elements are wide.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.modules import current_device, kernel
from semiring.kernels.cuda.closing.sources import Arithmetic, arithmetic_of
from semiring.kernels.cuda.entries.prepared_launch import Prepared

__all__ = ["FILE", "SINGLE_MATRIX_ITEMSIZES", "close_stack", "defines", "shared"]

FILE = "close_stack.cu"
_NOTHING = nullcontext()
_WIDTH = 64  # pivots of a stage
_THREADS = 256
#: Bytes of copies at a time: parts of a stack lose some percent.
_COPIES = 1 << 28
#: Sizes of elements, in bytes, of which a single matrix is closed the way of stacks too: of others the look-ahead
#: kernel is faster, see docs/benchmarks/thresholds.md.
SINGLE_MATRIX_ITEMSIZES = frozenset({8})


def defines(arithmetic: Arithmetic) -> tuple[str, ...]:
    """Macros for the compiler.

    Blocks that share a multiprocessor, H200, 100 matrices of 256 rows: float32 by 4 in 0.182 ms, by 3 in 0.188, by 5 in
    0.206; float64 by 2 in 0.708, by 3 in 0.740, when its minimum was fmin.
    """
    return (f"BLOCKS {2 if np.dtype(arithmetic.dtype).itemsize == 8 else 4}",)


def shared(itemsize: int) -> int:
    """Bytes of shared memory of a block: the operands of a product of 64 x 64 matrices, rows of the left one padded."""
    return itemsize * _WIDTH * (2 * _WIDTH + 4)


def close_stack(plan: KernelPlan, A: Any) -> None:
    """A ← A* in place, each matrix of A (count, n, n), any strides, for an idempotent ⊕. Enqueued on the plan's stream.

    A pivot without a star leaves ``plan.status.first`` + its index in ``plan.status.word``, where there is one; pivots
    count on from matrix to matrix, and the least one stays. Where n is no multiple of 64 or rows are not aligned, the
    matrices are closed in copies padded with 0̄, some hundred MiB at a time.
    """
    import cupy

    arithmetic, n = arithmetic_of(plan), A.shape[-1]
    size = -(-n // _WIDTH) * _WIDTH
    with plan.stream or _NOTHING:
        if not A.size or _fits(A):
            _close(plan, A, arithmetic, n, 0)
            return
        step = max(1, _COPIES // (size * size * A.itemsize))
        for start in range(0, A.shape[0], step):
            part = A[start : start + step]
            copy = cupy.full((part.shape[0], size, size), plan.zero, A.dtype)
            copy[:, :n, :n] = part
            _close(plan, copy, arithmetic, n, start)
            part[...] = copy[:, :n, :n]
            del copy  # before the next one is made: there is never more than one


def _fits(A: Any) -> bool:
    """Whether the kernels can work on the stack itself."""
    n, (step, row, column) = A.shape[-1], A.strides
    aligned = row % 16 == 0 and step % 16 == 0 and A.data.ptr % 16 == 0
    return bool(n % _WIDTH == 0 and column == A.itemsize and row >= n * A.itemsize and aligned)


def _close(plan: KernelPlan, A: Any, arithmetic: Arithmetic, rows: int, before: int) -> None:
    """Close a part of a stack: sides are multiples of 64, ``rows`` without padding; ``before`` matrices came before."""
    stages = A.shape[1] // _WIDTH
    if not (len(A) and stages):
        return
    apart = A.strides[1] // A.itemsize, A.strides[0] // A.itemsize
    launches = _launches(arithmetic, len(A), stages, rows, apart, current_device())
    word = 0 if plan.status.word is None else plan.status.word.data.ptr
    matrices, status = A.data.ptr, (word, plan.status.first + before * rows)
    launches.first(matrices, *status)
    for stage in range(stages if stages > 1 else 0):
        launches.panels(matrices, stage)
        (launches.remainders if stage + 1 < stages else launches.last)(matrices, stage, *status)


class _Launches(NamedTuple):
    """What closes stacks of one kind. With each launch come the matrices, the stage, status and its first vertex."""

    first: Prepared
    panels: Prepared
    remainders: Prepared
    last: Prepared  # remainders of the last stage: no pivot block comes after it


@lru_cache(maxsize=256)
def _launches(
    arithmetic: Arithmetic, count: int, stages: int, rows: int, apart: tuple[int, int], device: int
) -> _Launches:
    """Launches for ``count`` matrices on the current device, which is ``device``.

    ``apart``: from row to row and from matrix to matrix, in elements.
    """
    memory = shared(np.dtype(arithmetic.dtype).itemsize)
    where, size, rest = (None, *map(np.int64, apart)), np.int32(stages * _WIDTH), count * (stages - 1) ** 2

    def prepared(name: str, blocks: int, *parameters: Any) -> Prepared:
        compiled = kernel(FILE, name, arithmetic, defines(arithmetic), memory)
        return Prepared(compiled.kernel, (blocks,), (_THREADS,), (*where, *parameters), memory)

    return _Launches(
        prepared("first_pivots", count, None, None, np.int32(rows)),
        prepared("panels", count * 2 * (stages - 1), size, None),
        prepared("remainders", count + rest, size, None, np.int32(count), None, None, np.int32(rows)),
        prepared("remainders", rest, size, None, np.int32(0), None, None, np.int32(rows)),
    )
