"""From the run of k in which an entry of C improved last to the smallest k that attains it: the witness.

One thread an entry. It evaluates ⊗ again for the few k of the run, the same operations in the same order, and takes the
first that equals C (idea: the product marks runs at nearly its full speed, and this looks at 1 candidate in n / run).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Int32, Int64
from cutlass._mlir.dialects import arith
from cutlass.cutlass_dsl import dsl_user_op

from semiring.expressions import parse
from semiring.kernels.cuda.lower import lower
from semiring.kernels.cuda.words import WordFormat

__all__ = ["Search", "SearchKernel"]

_THREADS = 256
_EQUAL = parse("where(x == y, x, y)", ("x", "y")).args[0]


@dataclass(frozen=True)
class Search:
    """What the kernel depends on: ⊗, the words, the length of a run, the size of a witness."""

    mul: str
    words: WordFormat
    run: int
    wide_witness: bool  # int64 rather than int32


class SearchKernel:
    """W[i, j] ← k0 + the smallest k of the run that starts at R[i, j] ≥ 0 with A[i, k] ⊗ B[k, j] = C[i, j]."""

    def __init__(self, search: Search) -> None:
        self.search, self.words = search, search.words
        self.mul = parse(search.mul, ("x", "y"))

    @cute.jit
    def __call__(
        self,
        addresses: tuple[Int64, Int64, Int64, Int64, Int64],
        sizes: tuple[Int32, Int32, Int32],
        strides_a: tuple[Int64, Int64],
        strides_b: tuple[Int64, Int64],
        strides_c: tuple[Int64, Int64],
        strides_r: tuple[Int64, Int64],
        strides_w: tuple[Int64, Int64],
        k0: Int64,
        stream: cuda.CUstream,
    ) -> None:
        """Addresses of A, B, C, R (int32), W; m, n, k; (row, column) strides in elements."""
        m, n, k = sizes
        word, witness = self.words.word, Int64 if self.search.wide_witness else Int32
        mA = self.matrix(word, addresses[0], (m, k), strides_a)
        mB = self.matrix(word, addresses[1], (k, n), strides_b)
        mC = self.matrix(word, addresses[2], (m, n), strides_c)
        mR = self.matrix(Int32, addresses[3], (m, n), strides_r)
        mW = self.matrix(witness, addresses[4], (m, n), strides_w)
        self.kernel(mA, mB, mC, mR, mW, k0).launch(
            grid=[m, cute.ceil_div(n, _THREADS), 1], block=[_THREADS, 1, 1], stream=stream
        )

    @cute.jit
    def matrix(self, element: cutlass.Constexpr, address: Any, shape: Any, strides: Any) -> cute.Tensor:
        pointer = cute.make_ptr(element, address, cute.AddressSpace.gmem, assumed_align=element.width // 8)
        return cute.make_tensor(pointer, cute.make_layout(shape, stride=strides))

    @cute.kernel
    def kernel(
        self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, mR: cute.Tensor, mW: cute.Tensor, k0: Int64
    ) -> None:
        tid, _, _ = cute.arch.thread_idx()
        i, block_n, _ = cute.arch.block_idx()
        j = block_n * _THREADS + tid
        if j < mR.shape[1]:
            start = mR[i, j]
            if start >= 0:
                found = Int32(-1)
                for q in cutlass.range_constexpr(self.search.run):
                    k = start + (self.search.run - 1 - q)  # backwards, so that the smallest is what stays
                    if k < mA.shape[1]:
                        found = self.attains(mA[i, k], mB[k, j], mC[i, j], k, found)
                mW[i, j] = mW.element_type(k0 + found)

    @dsl_user_op
    def attains(self, a: Any, b: Any, c: Any, k: Any, found: Any, *, loc: Any = None, ip: Any = None) -> Int32:
        """The index k if a ⊗ b = c, else ``found``."""
        dtype = np.dtype(self.words.dtype)
        x, y, z = (self.words.unpack(value.ir_value(loc=loc, ip=ip)) for value in (a, b, c))
        equal = lower(_EQUAL, {"x": lower(self.mul, {"x": x, "y": y}, dtype), "y": z}, dtype)
        return Int32(arith.select(equal, k.ir_value(loc=loc, ip=ip), found.ir_value(loc=loc, ip=ip)))
