"""Close stacks of matrices beyond one thread block each, together: two launches for each stage of 64 pivots.

A single matrix is also a stack. If its elements are wide, these launches are faster than the look-ahead kernel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, current_device
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch

FILE = "close_stack.cu"
_WIDTH = 64  # the pivots of a stage
_THREADS = 256
#: The bytes of padded copies at a time. Closing a stack in parts takes some percent longer.
_COPIES = 1 << 28
#: Element sizes, in bytes, for which a single matrix is closed as a stack. For other sizes the look-ahead kernel is
#: faster, see docs/benchmarks/thresholds.md.
SINGLE_MATRIX_ITEMSIZES = frozenset({8})


def defines(arithmetic: Arithmetic) -> tuple[str, ...]:
    """Return the macros for the compiler.

    The number of blocks that share a multiprocessor was measured on an H200, for 100 matrices of 256 rows. float32
    takes 0.182 ms with 4 blocks, 0.188 with 3 and 0.206 with 5. float64 took 0.708 ms with 2 blocks and 0.740 with 3,
    when its minimum was fmin.
    """
    return (f"BLOCKS {2 if np.dtype(arithmetic.dtype).itemsize == 8 else 4}",)


def shared_bytes(itemsize: int) -> int:
    """Return the bytes of shared memory of a block.

    It holds the operands of a product of 64 x 64 matrices. The rows of the left operand are padded.
    """
    return itemsize * _WIDTH * (2 * _WIDTH + 4)


def close_stack(plan: KernelPlan, A: Any) -> None:
    """Compute A ← A* in place for each matrix of A (count, n, n), any strides, for an idempotent ⊕.

    The work is enqueued on the current stream. A pivot without a star leaves ``plan.status.first_vertex`` + its index
    in ``plan.status.word``, where there is one. Pivots are numbered across matrices, and the least index remains. If n
    is no multiple of 64, or rows are not aligned, the matrices are closed in copies padded with 0̄, some hundred MiB at
    a time.
    """
    import cupy

    arithmetic, n = arithmetic_of(plan), A.shape[-1]
    size = -(-n // _WIDTH) * _WIDTH
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
        del copy  # frees its memory before the next copy is allocated


def _fits(A: Any) -> bool:
    """Return whether the kernels can read the stack itself, without a padded copy."""
    n, (step, row, column) = A.shape[-1], A.strides
    aligned = row % 16 == 0 and step % 16 == 0 and A.data.ptr % 16 == 0
    return bool(n % _WIDTH == 0 and column == A.itemsize and row >= n * A.itemsize and aligned)


def _close(plan: KernelPlan, A: Any, arithmetic: Arithmetic, rows: int, preceding_matrices: int) -> None:
    """Close a part of a stack whose sides are multiples of 64.

    ``rows`` is the number of rows without padding. ``preceding_matrices`` is the number of earlier matrices in the
    stack.
    """
    stages = A.shape[1] // _WIDTH
    if not (len(A) and stages):
        return
    strides = A.strides[1] // A.itemsize, A.strides[0] // A.itemsize
    launches = _launches(arithmetic, len(A), stages, rows, strides, current_device())
    word = 0 if plan.status.word is None else plan.status.word.data.ptr
    matrices, status = A.data.ptr, (word, plan.status.first_vertex + preceding_matrices * rows)
    launches.first_pivots(matrices, *status)
    for stage in range(stages if stages > 1 else 0):
        launches.panels(matrices, stage)
        (launches.remainders if stage + 1 < stages else launches.last_remainders)(matrices, stage, *status)


class _Launches(NamedTuple):
    """The launches that close stacks of one kind.

    Each launch receives the matrices, the stage, the status and its first vertex.
    """

    first_pivots: PreparedLaunch
    panels: PreparedLaunch
    remainders: PreparedLaunch
    last_remainders: PreparedLaunch  # the remainders of the last stage, after which no pivot block follows


@lru_cache(maxsize=256)
def _launches(
    arithmetic: Arithmetic, count: int, stages: int, rows: int, element_strides: tuple[int, int], device: int
) -> _Launches:
    """Return the launches for ``count`` matrices on ``device``, which must be the current device.

    ``element_strides``: the strides from row to row and from matrix to matrix, in elements.
    """
    memory = shared_bytes(np.dtype(arithmetic.dtype).itemsize)
    where, size, rest = (None, *map(np.int64, element_strides)), np.int32(stages * _WIDTH), count * (stages - 1) ** 2

    def prepare(name: str, blocks: int, *parameters: Any) -> PreparedLaunch:
        compiled = compile_kernel(FILE, name, arithmetic, defines(arithmetic), memory)
        return PreparedLaunch(compiled.kernel, (blocks,), (_THREADS,), (*where, *parameters), memory)

    return _Launches(
        prepare("first_pivots", count, None, None, np.int32(rows)),
        prepare("panels", count * 2 * (stages - 1), size, None),
        prepare("remainders", count + rest, size, None, np.int32(count), None, None, np.int32(rows)),
        prepare("remainders", rest, size, None, np.int32(0), None, None, np.int32(rows)),
    )
