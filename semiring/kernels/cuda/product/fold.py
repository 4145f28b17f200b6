"""Fold the partial results of a product whose k was split, by ⊕ in the order of the parts: a thread for each word."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr
from cutlass.cutlass_dsl import dsl_user_op

from semiring.algebra.expressions import parse
from semiring.kernels.cuda.compile.lower import lower
from semiring.kernels.cuda.product.registers import Registers
from semiring.kernels.cuda.product.specification import THREADS, Fold

__all__ = ["FoldKernel"]


class FoldKernel:
    """The kernel C ← (C ⊕) W₀ ⊕ W₁ ⊕ …, with dense consecutive parts. It is memory-bound."""

    def __init__(self, fold: Fold) -> None:
        self.settings, self.registers = fold, Registers(fold.words)
        self.add = parse(fold.add, ("x", "y"))

    @cute.jit
    def __call__(
        self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...], blocks: Int32
    ) -> None:
        """Launch the kernel with its grid. This method exists for compilation only."""
        self.kernel(addresses, strides, sizes).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])

    @cute.kernel
    def kernel(self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...]) -> None:
        """Run the kernel with the parameters that `specification.FOLD_PARAMETERS` lists."""
        word = self.registers.word
        m, n, parts = sizes
        tid, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        across = (n + (THREADS - 1)) // THREADS
        i, j = block // across, (block % across) * THREADS + tid
        if j < n:
            space, nbytes = cute.AddressSpace.gmem, word.width // 8
            size = Int64(m) * n
            first = Int64(i) * n + j
            result = addresses[0] + (Int64(i) * strides[0] + Int64(j) * strides[1]) * nbytes
            C = cute.make_tensor(cute.make_ptr(word, result, space, assumed_align=nbytes), cute.make_layout(1))
            place = addresses[1] + first * nbytes
            W = cute.make_tensor(
                cute.make_ptr(word, place, space, assumed_align=nbytes), cute.make_layout(parts, stride=size)
            )
            total = W[0]
            if const_expr(self.settings.accumulate):
                total = self.combine(C[0], total)
            for part in cutlass.range(1, parts, unroll=4):
                total = self.combine(total, W[part])
            C[0] = total

    @dsl_user_op
    def combine(self, x: Any, y: Any, *, loc: Any = None, ip: Any = None) -> Any:
        """Return the word of x ⊕ y."""
        operands = {name: self.registers.unpack(v.ir_value(loc=loc, ip=ip)) for name, v in (("x", x), ("y", y))}
        return type(x)(self.registers.pack(lower(self.add, operands, self.settings.words.element_dtype)))
