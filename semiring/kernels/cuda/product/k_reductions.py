"""Reduce along k outside the product: fold the parts of a split k, and find witnesses.

`FoldKernel` folds the partial results of a product whose k was split, by ⊕ in the order of the parts, with a thread
for each word. `SearchKernel` finds the smallest k that attains an entry of C, in the run of k that improved it last.
Each entry has one thread. It evaluates ⊗ again for the few k of the run, by the same operations in the same order,
and takes the first k whose term equals C. A row of C has n · ``run_length`` candidates, not n². So a witness costs
little more than the mark of a run (10.7 against 10.9 T pairs/s, float32 min-plus, n = 8192, H200).
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr
from cutlass._mlir.dialects import arith
from cutlass.cutlass_dsl import dsl_user_op

from semiring.algebra.expressions import parse
from semiring.kernels.cuda.product.lower import Registers, lower
from semiring.kernels.cuda.product.specification import THREADS, Fold, Search

_EQUAL = parse("where(x == y, x, y)", ("x", "y")).args[0]


class SearchKernel:
    """The kernel that writes the witnesses of a product to W.

    W[i, j] receives the smallest k of the run that begins at R[i, j] with A[i, k] ⊗ B[k, j] = C[i, j], plus an offset.
    Where R[i, j] < 0, W keeps its value.
    """

    def __init__(self, search: Search) -> None:
        self.search, self.registers = search, Registers(search.words)
        self.mul = parse(search.mul, ("x", "y"))

    @cute.jit
    def __call__(
        self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...], blocks: Int32
    ) -> None:
        """Launch the kernel with its grid. This method exists for compilation only."""
        self.kernel(addresses, strides, sizes).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])

    @cute.jit
    def make_matrix(self, element: cutlass.Constexpr, address: Any, shape: Any, strides: Any) -> cute.Tensor:
        """Return the matrix at an address of global memory."""
        pointer = cute.make_ptr(element, address, cute.AddressSpace.gmem, assumed_align=element.width // 8)
        return cute.make_tensor(pointer, cute.make_layout(shape, stride=strides))

    @cute.kernel
    def kernel(self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...]) -> None:
        """Run the kernel with the parameters that `specification.SEARCH_PARAMETERS` lists.

        The strides are in elements, and R is int32.
        """
        m, n, k = sizes
        word, witness_word = self.registers.word, Int64 if self.search.wide_witness else Int32
        mA = self.make_matrix(word, addresses[0], (m, k), (strides[0], strides[1]))
        mB = self.make_matrix(word, addresses[1], (k, n), (strides[2], strides[3]))
        mC = self.make_matrix(word, addresses[2], (m, n), (strides[4], strides[5]))
        mR = self.make_matrix(Int32, addresses[3], (m, n), (strides[6], strides[7]))
        mW = self.make_matrix(witness_word, addresses[4], (m, n), (strides[8], strides[9]))
        k0 = strides[10]
        tid, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        across = (n + (THREADS - 1)) // THREADS
        i, j = block // across, (block % across) * THREADS + tid
        if j < n:
            start = mR[i, j]
            if start >= 0:
                witness = Int32(-1)
                for q in cutlass.range_constexpr(self.search.run_length):
                    kk = start + (self.search.run_length - 1 - q)  # backwards, so that the smallest k remains
                    if kk < k:
                        witness = self.select_witness(mA[i, kk], mB[kk, j], mC[i, j], kk, witness)
                mW[i, j] = mW.element_type(k0 + witness)

    @dsl_user_op
    def select_witness(self, a: Any, b: Any, c: Any, k: Any, witness: Any, *, loc: Any = None, ip: Any = None) -> Int32:
        """Return the index k if a ⊗ b = c, otherwise ``witness``."""
        dtype = self.search.words.element_dtype
        x, y, z = (self.registers.unpack(value.ir_value(loc=loc, ip=ip)) for value in (a, b, c))
        equal = lower(_EQUAL, {"x": lower(self.mul, {"x": x, "y": y}, dtype), "y": z}, dtype)
        return Int32(arith.select(equal, k.ir_value(loc=loc, ip=ip), witness.ir_value(loc=loc, ip=ip)))


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
