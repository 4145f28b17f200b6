"""Define the kernel of `benchmarks.gpu.limits` in the CUTLASS DSL."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr

from semiring.kernels.cuda.product.gemm import GemmKernel

__all__ = ["LimitKernel"]


class LimitKernel(GemmKernel):
    """The pairs of `GemmKernel`, with operands that lie in shared memory from the start."""

    @cute.jit
    def __call__(self, address: Int64, iterations: Int32, one: Int32, blocks: Int32) -> None:
        """Launch the kernel. This method exists for compilation only."""
        t = self.tile
        self.kernel(address, iterations, one).launch(
            grid=[blocks, 1, 1],
            block=[t.threads, 1, 1],
            min_blocks_per_mp=t.min_blocks,
            preferred_smem_carveout=100,
        )

    @cute.kernel
    def kernel(self, address: Int64, iterations: Int32, one: Int32) -> None:
        """Fill shared memory and registers from ``address``, go around, and store the accumulators there."""
        t, W, V = self.tile, self.word, self.vector
        BM, BN, BK, TM, TN = t.tile_m, t.tile_n, t.tile_k, t.thread_m, t.thread_n
        tid, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        first = address + Int64(block * t.threads + tid) * (TM * TN * self.word_bytes)
        own = cute.make_tensor(
            cute.make_ptr(W, first, cute.AddressSpace.gmem, assumed_align=16),
            cute.make_layout((TM, TN), stride=(TN, 1)),
        )
        shared = cutlass.memory.SmemAllocator()
        sA = shared.allocate_tensor(W, cute.make_layout((BM, BK, 2), stride=(1, BM, BM * BK)), 16)
        sB = shared.allocate_tensor(W, cute.make_layout((BN, BK, 2), stride=(1, BN, BN * BK)), 16)
        for i in cutlass.range_constexpr(2 * BM * BK // t.threads):
            sA[i * t.threads + tid] = own[i % (TM * TN)]
        for i in cutlass.range_constexpr(2 * BN * BK // t.threads):
            sB[i * t.threads + tid] = own[i * 7 % (TM * TN)]
        rC = cute.make_rmem_tensor(cute.make_layout((TM, TN), stride=(TN, 1)), W)
        rA = cute.make_rmem_tensor(cute.make_layout((TM, 2)), W)
        rB = cute.make_rmem_tensor(cute.make_layout((TN, 2)), W)
        for i in cutlass.range_constexpr(TM * TN):
            rC[i] = own[i]
        cute.arch.sync_threads()
        lane, warp, warps_n = tid % 32, tid // 32, BN // (4 * TN)
        row0 = (warp // warps_n) * 8 * TM + V * (lane % 8)
        col0 = (warp % warps_n) * 4 * TN + V * (lane // 8)
        for kt in cutlass.range(iterations, unroll=1):
            if const_expr(t.is_rolled):
                for k in cutlass.range(BK // 2, unroll=1):
                    self.compute_pairs(sA, sB, rA, rB, rC, row0, col0, kt % 2, 2 * k, one)
            else:
                for k in cutlass.range_constexpr(0, BK, 2):
                    self.compute_pairs(sA, sB, rA, rB, rC, row0, col0, kt % 2, k, one)
        for i in cutlass.range_constexpr(TM * TN):
            own[i] = rC[i]
