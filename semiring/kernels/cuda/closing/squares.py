"""Close blocks of packed truth values by squaring on the tensor cores: A* = (1̄ ⊕ A)^(2^t), 2^t ≥ n - 1.

Squaring takes ⌈log₂ n⌉ products, and elimination takes one. But the tensor cores are 16 times as fast as LOP3, and
squares have no chain of n pivots. The squares are in place. If another thread block has set an entry already, that
entry only appears earlier. After t squares all entries are set, so the result is the closure in any order. If a square
changes nothing, its input was already closed, and the squares enqueued after it do nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import current_device
from semiring.kernels.cuda.compile.loading import architecture
from semiring.kernels.cuda.product import bit_kernels, bit_products
from semiring.kernels.cuda.product.calls import call_for, format_of

__all__ = ["close", "fits"]

_LEAST, _MOST = 129, bit_kernels.DEPTH  # the least and the most rows


def fits(plan: KernelPlan, n: int) -> bool:
    """Return whether `close` takes packed matrices of n rows: ⊕ is or, ⊗ is and, and every star is true."""
    if not _LEAST <= n <= _MOST or architecture(current_device()) != bit_kernels.TARGET:
        return False
    arithmetic = arithmetic_of(plan)
    call = call_for(plan, format_of(plan), accumulate=True)
    return bit_kernels.is_reachability(call) and arithmetic.star is None and arithmetic.divergence is None


def close(plan: KernelPlan, A: Any) -> None:
    """Compute A ← A* in place for words (n, ⌈n/32⌉) of any row stride, enqueued on the current stream."""
    n = A.shape[0]
    changes = cupy.empty((n - 1).bit_length() + 1, np.uint32)
    _set_diagonal()(np.int64(A.strides[0] // 4), len(changes), cupy.ndarray((1,), np.uint32, A.data), changes, size=n)
    bit_products.square(A, changes)


@cache
def _set_diagonal() -> Any:
    return cupy.ElementwiseKernel(
        "int64 stride, int32 rounds",
        "raw uint32 A, raw uint32 changes",
        "A[i * stride + i / 32] |= 1u << i % 32; if (i < rounds) changes[i] = i == 0",
        "set_diagonal",
    )
