"""Implement `close_block` for CuPy arrays: one launch of one thread block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from semiring.errors import ShapeError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, current_device
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch

#: The most rows that the register kernel holds.
_ROWS = 128
_SHARED = 200 << 10  # bytes of shared memory for a block on all supported devices except consumer cards


@dataclass(frozen=True)
class BlockKernel:
    """The file of a kernel that closes a block, its macros, and its launch parameters."""

    file: str
    defines: tuple[str, ...]
    threads: tuple[int, int, int]
    shared_bytes: int = 0


def fast_rows(arithmetic: Arithmetic) -> int:
    """Return the most rows of a block that is closed in registers. Packed bits are closed in shared memory.

    A kernel of 128 rows with an expensive ⊕ and ⊗ would compile for 10 s.
    """
    if arithmetic.is_packed:
        return 1024
    return 64 if arithmetic.is_heavy else _ROWS


@lru_cache(maxsize=1024)
def block_kernel(n: int, arithmetic: Arithmetic) -> BlockKernel:
    """Return the kernel for a block of n rows, or raise `ShapeError` if it is too large for one thread block."""
    if n <= fast_rows(arithmetic) and not arithmetic.is_packed:
        side = max(32, -(-n // 8) * 8)
        if _has_paired_pivots(arithmetic):
            return _paired_kernel(side)
        threads = (side // 4, side // 4 if side <= 64 else side // 8, 1)
        return BlockKernel("close_block.cu", (f"SIDE {side}",), threads)
    itemsize = np.dtype(arithmetic.dtype).itemsize
    shared = itemsize * n * (-(-n // 32) + 1) if arithmetic.is_packed else 2 * n * itemsize
    if shared > _SHARED:
        raise ShapeError(f"a block of {n} rows is too large for one launch: split it by a recursion")
    return BlockKernel("close_bits.cu" if arithmetic.is_packed else "close_large.cu", (), (1024, 1, 1), shared)


def single_block_rows(arithmetic: Arithmetic) -> int:
    """Return the most rows of a matrix that one thread block closes faster than several that synchronize.

    Measured on an H200, 2026-11-21, in µs by one block and by the fastest kernel of several blocks. With pairs, float32
    takes 22 and 38 at n = 100, 30 and 32 at 128. Without pairs, float64 takes 29 and 84 at n = 65, 62 and 84 at 100,
    100 and 77 at 128. Without pairs, int16 max-min takes 51 and 63 at n = 100, 79 and 55 at 128.
    """
    return min(_ROWS if _has_paired_pivots(arithmetic) else 104, fast_rows(arithmetic))


def _has_paired_pivots(arithmetic: Arithmetic) -> bool:
    """Return whether the kernel that takes two pivots at once is faster.

    It computes additional (⊕, ⊗) pairs, so it is slower if a pair is expensive.
    """
    return arithmetic.is_plain and np.dtype(arithmetic.dtype).itemsize == 4 and not arithmetic.is_heavy


def _paired_kernel(side: int) -> BlockKernel:
    """Return the kernel of close_pairs.cu for ``side`` rows.

    A thread has 4 × 4 entries up to 64 rows, 8 × 4 entries up to 104 rows, and 8 × 8 entries for more rows.
    """
    places_y, places_x = 1 + (side > 64), 1 + (side > 104)
    threads = side // (4 * places_x), side // (4 * places_y)
    places = f"PLACES_Y {places_y}", f"PLACES_X {places_x}"
    blocks = f"BLOCKS {max(1, (512 if places_x == 2 else 768) // (threads[0] * threads[1]))}"
    return BlockKernel("close_pairs.cu", (f"SIDE {side}", *places, blocks), (*threads, 1))


def close_block(plan: KernelPlan, A: Any) -> None:
    """Compute A ← A* in place, for any strides.

    A is (n, n), or a stack (count, n, n) that is closed in the same launch. The launch is enqueued on the current
    stream. A pivot without a star leaves ``plan.status.first_vertex`` + its index in ``plan.status.word``, where there
    is one; the pivots of a stack are numbered across matrices. The kernel is fast up to `fast_rows`.
    """
    count, n = (A.shape[0] if A.ndim == 3 else 1), A.shape[-2]
    if not n or not count:
        return
    word, matrix_stride = plan.status.word, A.strides[0] if A.ndim == 3 else 0
    launch = _launch(arithmetic_of(plan), count, n, strides(A), matrix_stride // A.itemsize, current_device())
    launch(A.data.ptr, 0 if word is None else word.data.ptr, plan.status.first_vertex)


@lru_cache(maxsize=1024)
def _launch(
    arithmetic: Arithmetic, count: int, n: int, strides: tuple[Any, Any], matrix_stride: int, device: int
) -> PreparedLaunch:
    """Return the prepared launch for ``count`` blocks on the current device.

    Each launch passes the entries, the status, and its first vertex.
    """
    chosen = block_kernel(n, arithmetic)
    compiled = compile_kernel(chosen.file, "close_block", arithmetic, chosen.defines, chosen.shared_bytes)
    parameters = (None, *strides, np.int32(n), None, None, np.int64(matrix_stride))
    return PreparedLaunch(compiled.kernel, (count,), chosen.threads, parameters, chosen.shared_bytes)


def strides(array: Any) -> tuple[Any, Any]:
    """Return the strides of the last two axes, in elements."""
    return np.int64(array.strides[-2] // array.itemsize), np.int64(array.strides[-1] // array.itemsize)
