"""Define the semiring product on a GPU: a SIMT kernel in the CUTLASS Python DSL, with ⊕ and ⊗ of any semiring.

The kernel computes C (m, n) ← A (m, k) ⊗ B (k, n), or C ← C ⊕ A ⊗ B, on words of one or several elements (`words`). It
serves one matrix, a stack of matrices, or the parts of a matrix whose k was split.

Layout. A block computes a tile of ``tile_m`` rows × ``tile_n`` words of C. Both operands are staged in shared memory as
``[stage][k][row or column]``. So a thread reads its rows and columns for one k as 16-byte vectors, for any layout in
global memory (`shared_memory`).

V words are 16 bytes. Thread t of a warp owns V rows from ``V·(t % 8) + 8·V·i`` on, for all i. It owns V columns from
``V·(t // 8) + 4·V·j`` on, for all j. So the 8 and 4 distinct addresses of a warp's vector loads cover all banks.

Steps. (1) Initialize the accumulators from C, or with 0̄. (2) Start the copies of ``stages - 1`` tiles by cp.async.
(3) For each tile: wait, pass a barrier, start the copy of the tile ``stages - 1`` ahead, then compute all pairs of the
tile. Pairs are computed for two k at a time, so that a 3-input minimum can take both candidates. (4) Store. Blocks
write disjoint parts of C and read nothing another block writes.

Grid. It has one dimension: columns of tiles run fastest, then rows, then matrices. So no number of them reaches the
limit of a dimension.

Edges. Rows and columns beyond the matrix are neither copied nor stored. The undefined words in their place change only
results that are not stored. The ragged tile in k is filled with 0̄ and comes *first*, so that the steady loop needs no
test for the edge.

Triangles. Only one triangle of a symmetric C is computed: blocks whose tile lies below the diagonal do nothing.

Runs. A kernel that records runs, for witnesses, compares the accumulators with their old values, once after each run of
tiles. For each accumulator it keeps the last run that improved it. In this kernel k keeps its order, and the ragged
tile comes last.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm
from cutlass._mlir.dialects import math as mlir_math
from cutlass.cutlass_dsl import dsl_user_op

from semiring.algebra.expressions import parse
from semiring.kernels.cuda.product.lower import Registers, lower
from semiring.kernels.cuda.product.shared_memory import SPLAT, Staging
from semiring.kernels.cuda.product.specification import Product, WordFormat
from semiring.kernels.cuda.product.tiles import Tile

_SUM, _PRODUCT, _DIFFER = (parse(text, ("x", "y")) for text in ("x + y", "x * y", "where(x != y, x, y)"))
_DIFFER = _DIFFER.args[0]  # the condition alone, which `parse` does not accept
_EXTREMA = tuple(parse(text, ("x", "y")) for text in ("min(x, y)", "max(x, y)"))


# The order in which a thread folds its accumulators decides which operands conflict in a bank of registers, which
# stalls the dispatch. T pairs/s at n = 8192 on an H200, 2026-11-21, by rows / columns / squares of 2 × 2 / diagonals:
#   float32 by the 3-input minimum 15.5 / 15.7 / 15.6 / 15.7 (by rows 15.2 with the accumulator as its first operand),
#   by FMNMX 13.6 / 13.5 / 13.7 / 13.6, max-times 13.3 / 13.4 / 13.5 / 13.4, int32 16.2 / 15.4 / 16.3 / 15.8,
#   with runs, by rows (the accumulator first) 10.8, by diagonals 10.0. With runs and without the 3-input minimum, the
#   order by rows spills registers.
# Other integers and bits were measured by rows alone.


def _rows(tile: Tile) -> list[tuple[int, int]]:
    """Return (row, column) of a thread's accumulators, row after row."""
    return [(i, j) for i in range(tile.thread_m) for j in range(tile.thread_n)]


def _squares(tile: Tile) -> list[tuple[int, int]]:
    """Return (row, column) of a thread's accumulators in squares of 2 × 2."""
    rows, columns = range(0, tile.thread_m, 2), range(0, tile.thread_n, 2)
    return [(i + di, j + dj) for i in rows for j in columns for di in range(2) for dj in range(2)]


def _diagonals(tile: Tile) -> list[tuple[int, int]]:
    """Return (row, column) of a thread's accumulators along the cyclic diagonals."""
    return [(i, (i + shift) % tile.thread_n) for shift in range(tile.thread_n) for i in range(tile.thread_m)]


class GemmKernel(Staging):
    """The kernel of one product with one tile shape, compiled once for all sizes, strides and stacks."""

    def __init__(self, product: Product, tile: Tile) -> None:
        words = product.words
        if not tile.is_valid(words.word_bytes):
            raise ValueError(f"{tile} is no valid tile for words of {words.word_bytes} bytes")
        super().__init__(product, tile, Registers(words))
        self.add, self.mul = product.expressions
        #: Whether some pairs add by IMAD, as for int32 min-plus: VIADDMNMX uses the pipe of minima, IMAD another pipe.
        integers = words == WordFormat("int32") and not product.record
        self.is_balanced = integers and self.add in _EXTREMA and self.mul == _SUM
        by_rows = product.ordered_bits if product.record else not (words.is_floating or self.is_balanced)
        by_diagonals = product.record or product.ordered_bits
        self.order = _rows(tile) if by_rows else _diagonals(tile) if by_diagonals else _squares(tile)

    @cute.jit
    def __call__(
        self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...], blocks: Int32
    ) -> None:
        """Launch the kernel with its grid. This method exists for compilation only."""
        t = self.tile
        self.kernel(addresses, strides, sizes).launch(
            grid=[blocks, 1, 1], block=[t.threads, 1, 1], min_blocks_per_mp=t.min_blocks, preferred_smem_carveout=100
        )

    @cute.kernel
    def kernel(self, addresses: tuple[Int64, ...], strides: tuple[Int64, ...], sizes: tuple[Int32, ...]) -> None:
        """Run the kernel with the parameters that `specification.PARAMETERS` lists.

        n and the strides of B and C count words, and the strides of A and P count elements. A batch stride may be 0. A
        "vector" copy ignores the stride that is 1. Batch z has the inner size min(part, k - z · step), and step is 0
        for a stack. A kernel that records runs sets P (int32) to the first k of the last run of ``run_tiles`` tiles
        that improved C. Other kernels need ``run_tiles`` = 1.
        """
        t, P, W, V = self.tile, self.product, self.word, self.vector
        BM, BN, BK, TM, TN, ST = t.tile_m, t.tile_n, t.tile_k, t.thread_m, t.thread_n, t.stages
        m, n, k, part, step, run_tiles = sizes
        tid, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        tiles_m, tiles_n = (m + (BM - 1)) // BM, (n + (BN - 1)) // BN
        line = block // tiles_n
        m0, n0, batch = (line % tiles_m) * BM, (block % tiles_n) * BN, line // tiles_m
        inner = cutlass.min(part, k - batch * step)
        rows = m
        if const_expr(P.upper):  # noqa: SIM102  (the outer condition is decided while compiling)
            if m0 >= (n0 + BN) * P.words.lanes:  # below the diagonal: the block reads and stores nothing
                inner, rows = Int32(0), Int32(0)
        a_type = self.registers.element if const_expr(P.copy_a in SPLAT) else W
        mA = self.operand(a_type, addresses[0], (m, inner), (strides[0], strides[1]), strides[2], batch, P.copy_a)
        mB = self.operand(W, addresses[1], (n, inner), (strides[4], strides[3]), strides[5], batch, P.copy_b)
        mC = self.result(addresses[2], (rows, n), (strides[6], strides[7]), strides[8], batch)

        # V additional words a row avoid bank conflicts between the transposing copies of a warp.
        pad_a = 0 if const_expr(P.copy_a == "vector") else V
        pad_b = 0 if const_expr(P.copy_b == "vector") else V
        shared = cutlass.memory.SmemAllocator()
        layout_a = cute.make_layout((BM, BK, ST), stride=(1, BM + pad_a, (BM + pad_a) * BK))
        layout_b = cute.make_layout((BN, BK, ST), stride=(1, BN + pad_b, (BN + pad_b) * BK))
        sA, sB = shared.allocate_tensor(W, layout_a, 16), shared.allocate_tensor(W, layout_b, 16)

        lane, warp, warps_n = tid % 32, tid // 32, BN // (4 * TN)
        row0 = (warp // warps_n) * 8 * TM + V * (lane % 8)
        col0 = (warp % warps_n) * 4 * TN + V * (lane // 8)
        rC = cute.make_rmem_tensor(cute.make_layout((TM, TN), stride=(TN, 1)), W)
        if const_expr(P.accumulate):
            self.move_c(mC, rC, m0 + row0, n0 + col0, False)
        else:
            for i in cutlass.range_constexpr(TM * TN):
                rC[i] = W(self.zero)
        # By accumulator: the first k of the last run that improved it, or -1.
        rP = cute.make_rmem_tensor(rC.layout, Int32)
        self.accumulate(mA, mB, sA, sB, rC, rP, m0, n0, row0, col0, tid, run_tiles)
        self.move_c(mC, rC, m0 + row0, n0 + col0, True)
        if const_expr(P.record):
            marks = cute.make_ptr(Int32, addresses[3], cute.AddressSpace.gmem, assumed_align=4)
            mP = cute.make_tensor(marks, cute.make_layout((m, n), stride=(strides[9], strides[10])))
            self.store_marks(mP, rP, m0 + row0, n0 + col0)

    @cute.jit
    def accumulate(
        self,
        mA: cute.Tensor,
        mB: cute.Tensor,
        sA: cute.Tensor,
        sB: cute.Tensor,
        rC: cute.Tensor,
        rP: cute.Tensor,
        m0: Any,
        n0: Any,
        row0: Any,
        col0: Any,
        tid: Any,
        run_tiles: Any,
    ) -> None:
        """Compute the pairs of a block's tile for all k, concurrently with the copies of later tiles.

        A kernel that records no runs needs ``run_tiles`` = 1, which the compiler does not know: see `fold_balanced`.
        """
        t, P, W = self.tile, self.product, self.word
        BM, BN, BK, TM, TN, ST = t.tile_m, t.tile_n, t.tile_k, t.thread_m, t.thread_n, t.stages
        K = mA.shape[1]
        KT = cute.ceil_div(K, BK)
        rA = cute.make_rmem_tensor(cute.make_layout((TM, 2)), W)  # two k of this thread's rows
        rB = cute.make_rmem_tensor(cute.make_layout((TN, 2)), W)
        rS = cute.make_rmem_tensor(rC.layout, W)  # the accumulators at the start of a run
        if const_expr(P.record):
            for i in cutlass.range_constexpr(TM * TN):
                rS[i], rP[i] = rC[i], Int32(-1)

        splat = const_expr(P.copy_a in SPLAT)
        a_fragment = cute.make_rmem_tensor(cute.make_layout(BM * BK // t.threads), W)
        sourceA = self.source(mA, m0, tid, P.copy_a, BM)
        sourceB = self.source(mB, n0, tid, P.copy_b, BN)
        self.start_first_copies(mA, mB, sA, sB, a_fragment, sourceA, sourceB, m0, n0, tid)
        stepA = Int64(BK * self.word_bytes) * mA.stride[1]
        stepB = Int64(BK * self.word_bytes) * mB.stride[1]
        ahead_of_first = const_expr(ST - 1 if P.record else ST - 2)  # in tiles
        sourceA, sourceB = sourceA + stepA * ahead_of_first, sourceB + stepB * ahead_of_first

        read, write = Int32(0), Int32(ST - 1)
        tiles_left, first = run_tiles, Int32(0)  # the remaining tiles of the run, and its first k
        for kt in cutlass.range(KT, unroll=1):
            cute.arch.cp_async_wait_group(ST - 2)
            cute.arch.sync_threads()  # all threads see tile kt, and the stage of tile kt - 1 is free
            ahead = kt + (ST - 1)
            if ahead < KT:
                self.start_next_copies(mA, mB, sA, sB, a_fragment, sourceA, sourceB, m0, n0, tid, ahead, write)
                sourceA, sourceB = sourceA + stepA, sourceB + stepB
            cute.arch.cp_async_commit_group()
            if const_expr(t.is_rolled):
                for k in cutlass.range(BK // 2, unroll=1):
                    self.compute_pairs(sA, sB, rA, rB, rC, row0, col0, read, 2 * k, run_tiles)
            else:
                for k in cutlass.range_constexpr(0, BK, 2):
                    self.compute_pairs(sA, sB, rA, rB, rC, row0, col0, read, k, run_tiles)
            if const_expr(splat):  # noqa: SIM102  (the outer condition is decided while compiling)
                if ahead < KT:  # the loads had the time of the arithmetic of a tile to complete
                    self.write_splat(a_fragment, sA, write, tid)
            if const_expr(P.record):
                tiles_left = tiles_left - 1
                if tiles_left == 0 or kt + 1 == KT:
                    self.mark_run(rC, rS, rP, first)
                    tiles_left, first = run_tiles, (kt + 1) * BK
            write = read
            read = read + 1
            if read == ST:
                read = Int32(0)

    @cute.jit
    def start_next_copies(
        self,
        mA: Any,
        mB: Any,
        sA: Any,
        sB: Any,
        a_fragment: Any,
        sourceA: Any,
        sourceB: Any,
        m0: Any,
        n0: Any,
        tid: Any,
        tile: Any,
        stage: Any,
    ) -> None:
        """Start the copies of a later tile into a stage. In a kernel that records, the last tile is ragged."""
        P, BM, BN, BK = self.product, self.tile.tile_m, self.tile.tile_n, self.tile.tile_k
        remaining = mA.shape[1] - tile * BK
        if const_expr(P.record):
            if remaining >= BK:  # uniform over all threads, and only the last tile needs tests for its edge
                self.start_copy(sourceA, mA, sA, m0, 0, stage, tid, P.copy_a, BM, remaining, False)
                self.start_copy(sourceB, mB, sB, n0, 0, stage, tid, P.copy_b, BN, remaining, False)
            else:
                self.start_copy(sourceA, mA, sA, m0, 0, stage, tid, P.copy_a, BM, remaining, True)
                self.start_copy(sourceB, mB, sB, n0, 0, stage, tid, P.copy_b, BN, remaining, True)
        else:
            if const_expr(P.copy_a in SPLAT):
                self.read_a(mA, a_fragment, m0, (tile - 1) * BK, tid)
            else:
                self.start_copy(sourceA, mA, sA, m0, 0, stage, tid, P.copy_a, BM, remaining, False)
            self.start_copy(sourceB, mB, sB, n0, 0, stage, tid, P.copy_b, BN, remaining, False)

    @cute.jit
    def mark_run(self, rC: Any, rS: Any, rP: Any, first: Any) -> None:
        """Set the mark of every accumulator that a run improved to ``first``, the first k of the run."""
        for i in cutlass.range_constexpr(self.tile.thread_m * self.tile.thread_n):
            rP[i] = self.select_mark(rC[i], rS[i], first, rP[i])
            rS[i] = rC[i]

    @cute.jit
    def start_first_copies(
        self,
        mA: Any,
        mB: Any,
        sA: Any,
        sB: Any,
        a_fragment: Any,
        sourceA: Any,
        sourceB: Any,
        m0: Any,
        n0: Any,
        tid: Any,
    ) -> None:
        """Start the copies of the first ``stages - 1`` tiles.

        The ragged tile is the first of them, unless the kernel records runs.
        """
        t, P = self.tile, self.product
        BM, BN, BK, ST = t.tile_m, t.tile_n, t.tile_k, t.stages
        K = mA.shape[1]
        KT = cute.ceil_div(K, BK)
        splat = const_expr(P.copy_a in SPLAT)
        for s in cutlass.range_constexpr(ST - 1):
            if s < KT:
                k0 = s * BK
                if const_expr(not P.record):
                    k0 = (KT - 1) * BK if const_expr(s == 0) else (s - 1) * BK
                edge, remaining = const_expr(s == 0 or P.record), K - k0
                if const_expr(splat):
                    self.read_a(mA, a_fragment, m0, k0, tid)
                    self.write_splat(a_fragment, sA, s, tid)
                else:
                    self.start_copy(sourceA, mA, sA, m0, k0, s, tid, P.copy_a, BM, remaining, edge)
                self.start_copy(sourceB, mB, sB, n0, k0, s, tid, P.copy_b, BN, remaining, edge)
            cute.arch.cp_async_commit_group()

    @cute.jit
    def compute_pairs(
        self, sA: Any, sB: Any, rA: Any, rB: Any, rC: Any, row0: Any, col0: Any, stage: Any, k: Any, one: Any
    ) -> None:
        """Compute the pairs of a thread for k and k + 1 in the tile of one stage.

        ``one`` is 1, but the compiler does not know it.
        """
        t, V = self.tile, self.vector
        TM, TN = t.thread_m, t.thread_n
        tA = (sA.iterator + row0 + stage * sA.stride[2]).align(16)
        tB = (sB.iterator + col0 + stage * sB.stride[2]).align(16)
        for q in cutlass.range_constexpr(2):
            for i in cutlass.range_constexpr(0, TM, V):
                self.fetch(tA, self.rows(i) + (k + q) * sA.stride[1], rA, q * TM + i)
            for j in cutlass.range_constexpr(0, TN, V):
                self.fetch(tB, self.columns(j) + (k + q) * sB.stride[1], rB, q * TN + j)
        for place in cutlass.range_constexpr(TM * TN):
            self.compute_pair(rA, rB, rC, self.order[place][0], self.order[place][1], one)

    @cute.jit
    def compute_pair(self, rA: Any, rB: Any, rC: Any, i: cutlass.Constexpr, j: cutlass.Constexpr, one: Any) -> None:
        """Compute two pairs of one accumulator. If ``is_balanced``, two of three accumulators use `fold_balanced`."""
        if const_expr(self.is_balanced and (i + j) % 3 != 0):
            rC[i, j] = self.fold_balanced(rC[i, j], rA[i, 0], rB[j, 0], rA[i, 1], rB[j, 1], one)
        else:
            rC[i, j] = self.fold(rC[i, j], rA[i, 0], rB[j, 0], rA[i, 1], rB[j, 1])

    @dsl_user_op
    def fold(self, c: Any, a0: Any, b0: Any, a1: Any, b1: Any, *, loc: Any = None, ip: Any = None) -> Any:
        """Return the word c ⊕ a0 ⊗ b0 ⊕ a1 ⊗ b1."""
        registers, words = self.registers, self.product.words
        dtype = words.element_dtype
        c_, a0_, b0_, a1_, b1_ = (registers.unpack(x.ir_value(loc=loc, ip=ip)) for x in (c, a0, b0, a1, b1))
        if self.product.contract and self.add == _SUM and self.mul == _PRODUCT and words.is_floating:
            return type(c)(registers.pack(mlir_math.fma(a1_, b1_, mlir_math.fma(a0_, b0_, c_))))
        first = lower(self.mul, {"x": a0_, "y": b0_}, dtype)
        second = lower(self.mul, {"x": a1_, "y": b1_}, dtype)
        if self.product.ordered_bits:
            best = arith.minsi if self.add.op == "min" else arith.maxsi
            integer = ir.IntegerType.get_signless(32)
            bits = [llvm.bitcast(integer, value) for value in (c_, first, second)]
            last = bits.pop(2 if self.product.record else 0)  # the order was measured: see the table above `_rows`
            return type(c)(llvm.bitcast(c_.type, best(best(*bits), last)))
        total = lower(self.add, {"x": c_, "y": first}, dtype, nan_variables="y")
        return type(c)(registers.pack(lower(self.add, {"x": total, "y": second}, dtype, nan_variables="y")))

    @dsl_user_op
    def fold_balanced(
        self, c: Any, a0: Any, b0: Any, a1: Any, b1: Any, one: Any, *, loc: Any = None, ip: Any = None
    ) -> Any:
        """Return the fold of two pairs by a 3-input minimum, with a · ``one`` + b for a + b, so by two IMAD."""
        c_, a0_, b0_, a1_, b1_, one_ = (x.ir_value(loc=loc, ip=ip) for x in (c, a0, b0, a1, b1, one))
        best = arith.minsi if self.add.op == "min" else arith.maxsi
        first, second = (arith.addi(arith.muli(a, one_), b) for a, b in ((a0_, b0_), (a1_, b1_)))
        return type(c)(best(best(first, second), c_))

    @dsl_user_op
    def select_mark(self, c: Any, c_start: Any, first: Any, p: Any, *, loc: Any = None, ip: Any = None) -> Int32:
        """Return ``first`` if an accumulator c differs from its value ``c_start`` before the run, otherwise ``p``."""
        new, old = (self.registers.unpack(x.ir_value(loc=loc, ip=ip)) for x in (c, c_start))
        changed = lower(_DIFFER, {"x": new, "y": old}, self.product.words.element_dtype)
        return Int32(arith.select(changed, first.ir_value(loc=loc, ip=ip), p.ir_value(loc=loc, ip=ip)))
