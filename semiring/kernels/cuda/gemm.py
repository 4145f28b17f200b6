"""The semiring product on a GPU: one SIMT kernel in the CUTLASS Python DSL, with ⊕ and ⊗ traced from the semiring.

C (m, n) ← A (m, k) ⊗ B (k, n), or C ← C ⊕ A ⊗ B, on words of one or several elements (`words`).

Layout. A block computes a tile of ``tile_m`` rows × ``tile_n`` words of C. Both operands are staged in shared memory as
``[stage][k][row or column]``, so that a thread reads its rows and columns for one k as 16-byte vectors, whatever the
layout in global memory. An operand whose k runs fastest is transposed on the way, by copies of single words; that
costs 3 to 4 % (15.2 against 15.7 T pairs/s, float32, n = 8192, H200). An operand A whose elements are narrower than
a word goes through registers, where it is splatted.

Thread t of a warp owns rows ``V·(t % 8) + 8·V·i`` and columns ``V·(t // 8) + 4·V·j``, V words being 16 bytes, so that
the 8 and 4 distinct addresses of a warp's vector loads cover all banks.

Steps. (1) Accumulators from C, or 0̄. (2) ``stages - 1`` tiles in flight by cp.async. (3) For each tile: wait, barrier,
start the copy of the tile ``stages - 1`` ahead, then all pairs of the tile, two k at a time, so that a 3-input minimum
can take both candidates. (4) Store. Blocks write disjoint parts of C and read nothing another block writes.

Edges. Rows and columns that stick out are neither copied nor stored: whatever lies in their place meets only itself.
The ragged tile in k is filled with 0̄ and comes *first*, so that the steady loop knows no edge.

Pivots. A kernel that records compares the accumulators with what they were, once after each run of tiles, and keeps for
each the last run in which it improved. There k keeps its order, and every copy looks at the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Int32, Int64, const_expr
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm
from cutlass._mlir.dialects import math as mlir_math
from cutlass.cutlass_dsl import dsl_user_op

from semiring.expressions import Expression, parse
from semiring.kernels.cuda.lower import lower
from semiring.kernels.cuda.tiles import Tile
from semiring.kernels.cuda.words import WordFormat

__all__ = ["GemmKernel", "Product"]

_SPLAT = ("splat", "pieces")
_SUM, _PRODUCT, _DIFFER = (parse(text, ("x", "y")) for text in ("x + y", "x * y", "where(x != y, x, y)"))
_DIFFER = _DIFFER.args[0]  # a truth is no operation on its own


@dataclass(frozen=True)
class Product:
    """What a compiled kernel depends on besides its tile: plain data, and so the key of the cache.

    ``copy_a``, ``copy_b``: ``"vector"``, rows (columns) run fastest in memory and are copied 16 bytes at a time;
    ``"word"``, single words, k running fastest; ``"any"``, single words of any strides; for A ``"splat"``, elements
    of any strides, widened in registers, and ``"pieces"``, the same read by 16 bytes along k. ``copy_c``: ``"vector"``
    or ``"word"``.
    """

    add: str
    mul: str
    zero: int | float
    words: WordFormat
    accumulate: bool  # C ← C ⊕ A ⊗ B rather than C ← A ⊗ B
    copy_a: str
    copy_b: str
    copy_c: str
    ordered_bits: bool = False  # float32 without sign bits, compared as integers: one 3-input minimum for two pairs
    contract: bool = False  # x·y + z may round once
    record: bool = False  # keep the last run of k in which an entry of C improved

    @property
    def expressions(self) -> tuple[Expression, Expression]:
        """⊕ and ⊗."""
        return parse(self.add, ("x", "y")), parse(self.mul, ("x", "y"))


class GemmKernel:
    """One product with one tile shape, compiled once for all sizes, strides and batches."""

    def __init__(self, product: Product, tile: Tile) -> None:
        self.product, self.tile, self.words = product, tile, product.words
        self.add, self.mul = product.expressions
        self.word = product.words.word
        self.word_bytes = self.word.width // 8
        self.vector = 16 // self.word_bytes  # words in 16 bytes
        self.zero = product.words.constant(product.zero)
        if not tile.is_valid(self.word_bytes):
            raise ValueError(f"{tile} is no valid tile for words of {self.word_bytes} bytes")

    @cute.jit
    def __call__(
        self,
        addresses: tuple[Int64, Int64, Int64, Int64],
        sizes: tuple[Int32, Int32, Int32, Int32],
        strides_a: tuple[Int64, Int64, Int64],
        strides_b: tuple[Int64, Int64, Int64],
        strides_c: tuple[Int64, Int64, Int64],
        strides_p: tuple[Int64, Int64, Int64],
        runs: tuple[Int32, Int32],
        stream: cuda.CUstream,
    ) -> None:
        """Plain integers, so that a launch needs no array protocol: the addresses of A, B, C, P; m, n, k, batches.

        n and the strides of B and C count words, the strides of A and P elements; each triple is (row, column, batch),
        and a batch stride may be 0. A "vector" copy ignores the stride that is 1. A kernel that records sets P (int32)
        to ``runs[1]`` + the first k of the last run of ``runs[0]`` tiles that improved C; the others ignore both.
        """
        t, P = self.tile, self.product
        m, n, k, batches = sizes
        a_row, a_col, a_batch = strides_a
        b_row, b_col, b_batch = strides_b
        c_row, c_col, c_batch = strides_c
        a_type = self.words.element if const_expr(P.copy_a in _SPLAT) else self.word
        mA = self.operand(a_type, addresses[0], (m, k, batches), (a_row, a_col, a_batch), P.copy_a)
        mB = self.operand(self.word, addresses[1], (n, k, batches), (b_col, b_row, b_batch), P.copy_b)
        aligned = const_expr(P.copy_c == "vector")
        pointer = cute.make_ptr(
            self.word, addresses[2], cute.AddressSpace.gmem, assumed_align=16 if aligned else self.word_bytes
        )
        mC = cute.make_tensor(
            pointer, cute.make_layout((m, n, batches), stride=(c_row, 1 if aligned else c_col, c_batch))
        )
        marks = cute.make_ptr(Int32, addresses[3], cute.AddressSpace.gmem, assumed_align=4)
        mP = cute.make_tensor(marks, cute.make_layout((m, n, batches), stride=strides_p))
        self.kernel(mA, mB, mC, mP, runs[0], runs[1]).launch(
            grid=[cute.ceil_div(n, t.tile_n), cute.ceil_div(m, t.tile_m), batches],
            block=[t.threads, 1, 1],
            min_blocks_per_mp=t.min_blocks,
            preferred_smem_carveout=100,
            stream=stream,
        )

    @cute.jit
    def operand(
        self, element: cutlass.Constexpr, address: Any, shape: Any, strides: Any, copy: cutlass.Constexpr
    ) -> cute.Tensor:
        """An operand as (row or column, k, batch); the stride that the copy relies on is a constant."""
        vector, word = const_expr(copy == "vector"), const_expr(copy == "word")
        pointer = cute.make_ptr(
            element, address, cute.AddressSpace.gmem, assumed_align=16 if vector else element.width // 8
        )
        along, k, batch = strides
        return cute.make_tensor(
            pointer, cute.make_layout(shape, stride=(1 if vector else along, 1 if word else k, batch))
        )

    @cute.kernel
    def kernel(
        self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, mP: cute.Tensor, run_tiles: Int32, first_pivot: Int32
    ) -> None:
        t, P, W, V = self.tile, self.product, self.word, self.vector
        BM, BN, BK, TM, TN, ST = t.tile_m, t.tile_n, t.tile_k, t.thread_m, t.thread_n, t.stages
        tid, _, _ = cute.arch.thread_idx()
        block_n, block_m, batch = cute.arch.block_idx()
        m0, n0 = block_m * BM, block_n * BN
        mA, mB, mC = self.matrix(mA, batch), self.matrix(mB, batch), self.matrix(mC, batch)
        KT = cute.ceil_div(mA.shape[1], BK)

        # V more words a row keep the transposing copies of one warp out of each other's banks.
        pad_a = 0 if const_expr(P.copy_a == "vector") else V
        pad_b = 0 if const_expr(P.copy_b == "vector") else V
        shared = cutlass.memory.SmemAllocator()
        layout_a = cute.make_layout((BM, BK, ST), stride=(1, BM + pad_a, (BM + pad_a) * BK))
        layout_b = cute.make_layout((BN, BK, ST), stride=(1, BN + pad_b, (BN + pad_b) * BK))
        sA, sB = shared.allocate_tensor(W, layout_a, 16), shared.allocate_tensor(W, layout_b, 16)

        lane, warp, warps_n = tid % 32, tid // 32, BN // (4 * TN)
        row0 = (warp // warps_n) * 8 * TM + V * (lane % 8)
        col0 = (warp % warps_n) * 4 * TN + V * (lane // 8)
        rows = cute.make_layout((V, TM // V), stride=(1, 8 * V))  # a thread's i-th row, from its first
        cols = cute.make_layout((V, TN // V), stride=(1, 4 * V))
        rC = cute.make_rmem_tensor(cute.make_layout((TM, TN), stride=(TN, 1)), W)
        rA = cute.make_rmem_tensor(cute.make_layout((TM, 2)), W)  # two k of this thread's rows
        rB = cute.make_rmem_tensor(cute.make_layout((TN, 2)), W)
        if const_expr(P.accumulate):
            self.move_c(mC, rC, m0 + row0, n0 + col0, rows, cols, False)
        else:
            for i in cutlass.range_constexpr(TM * TN):
                rC[i] = W(self.zero)

        rS = cute.make_rmem_tensor(rC.layout, W)  # the accumulators at the start of a run
        rP = cute.make_rmem_tensor(rC.layout, Int32)  # the first k of the last run that improved them, or -1
        if const_expr(P.record):
            for i in cutlass.range_constexpr(TM * TN):
                rS[i], rP[i] = rC[i], Int32(-1)

        splat = const_expr(P.copy_a in _SPLAT)
        staged = cute.make_rmem_tensor(cute.make_layout(BM * BK // t.threads), W)
        sourceA = self.source(mA, m0, tid, P.copy_a, BM)
        sourceB = self.source(mB, n0, tid, P.copy_b, BN)
        for s in cutlass.range_constexpr(ST - 1):
            if s < KT:
                k0 = s * BK
                if const_expr(not P.record):
                    k0 = (KT - 1) * BK if const_expr(s == 0) else (s - 1) * BK
                edge, left = const_expr(s == 0 or P.record), mA.shape[1] - k0
                if const_expr(splat):
                    self.read_a(mA, staged, m0, k0, tid)
                    self.write_splat(staged, sA, s, tid)
                else:
                    self.start_copy(sourceA, mA, sA, m0, k0, s, tid, P.copy_a, BM, left, edge)
                self.start_copy(sourceB, mB, sB, n0, k0, s, tid, P.copy_b, BN, left, edge)
            cute.arch.cp_async_commit_group()
        stepA = Int64(BK * self.word_bytes) * mA.stride[1]
        stepB = Int64(BK * self.word_bytes) * mB.stride[1]
        ahead_of_first = const_expr(ST - 1 if P.record else ST - 2)  # tiles
        sourceA, sourceB = sourceA + stepA * ahead_of_first, sourceB + stepB * ahead_of_first

        read, write = Int32(0), Int32(ST - 1)
        tiles_left, pivot = run_tiles, Int32(0)  # of the run, and its first k
        for kt in cutlass.range(KT, unroll=1):
            cute.arch.cp_async_wait_group(ST - 2)
            cute.arch.sync_threads()  # tile kt is there for all, and the slot of tile kt - 1 is free
            ahead = kt + (ST - 1)
            if ahead < KT:
                left = mA.shape[1] - ahead * BK
                if const_expr(splat):
                    self.read_a(mA, staged, m0, (ahead - 1) * BK, tid)
                else:
                    self.start_copy(sourceA, mA, sA, m0, 0, write, tid, P.copy_a, BM, left, P.record)
                self.start_copy(sourceB, mB, sB, n0, 0, write, tid, P.copy_b, BN, left, P.record)
                sourceA, sourceB = sourceA + stepA, sourceB + stepB
            cute.arch.cp_async_commit_group()
            tA = (sA.iterator + row0 + read * sA.stride[2]).align(16)
            tB = (sB.iterator + col0 + read * sB.stride[2]).align(16)
            for k in cutlass.range_constexpr(0, BK, 2):
                for q in cutlass.range_constexpr(2):
                    for i in cutlass.range_constexpr(0, TM, V):
                        self.fetch(tA, rows(i) + (k + q) * sA.stride[1], rA, q * TM + i)
                    for j in cutlass.range_constexpr(0, TN, V):
                        self.fetch(tB, cols(j) + (k + q) * sB.stride[1], rB, q * TN + j)
                for i in cutlass.range_constexpr(TM):
                    for j in cutlass.range_constexpr(TN):
                        rC[i, j] = self.fold(rC[i, j], rA[i, 0], rB[j, 0], rA[i, 1], rB[j, 1])
            if const_expr(splat):  # noqa: SIM102  (one is decided while compiling, the other by the kernel)
                if ahead < KT:  # the loads have had the whole tile's arithmetic to arrive
                    self.write_splat(staged, sA, write, tid)
            if const_expr(P.record):
                tiles_left = tiles_left - 1
                if tiles_left == 0 or kt + 1 == KT:
                    for i in cutlass.range_constexpr(TM * TN):
                        rP[i] = self.mark(rC[i], rS[i], pivot, rP[i])
                        rS[i] = rC[i]
                    tiles_left, pivot = run_tiles, (kt + 1) * BK
            write = read
            read = read + 1
            if read == ST:
                read = Int32(0)
        self.move_c(mC, rC, m0 + row0, n0 + col0, rows, cols, True)
        if const_expr(P.record):
            self.store_marks(self.matrix(mP, batch), rP, m0 + row0, n0 + col0, rows, cols, first_pivot)

    # ------------------------------------------------------------------------------------------------------ arithmetic

    @dsl_user_op
    def fold(self, c: Any, a0: Any, b0: Any, a1: Any, b1: Any, *, loc: Any = None, ip: Any = None) -> Any:
        """The word c ⊕ a0 ⊗ b0 ⊕ a1 ⊗ b1."""
        words, dtype = self.words, np.dtype(self.words.dtype)
        c_, a0_, b0_, a1_, b1_ = (words.unpack(x.ir_value(loc=loc, ip=ip)) for x in (c, a0, b0, a1, b1))
        if self.product.contract and self.add == _SUM and self.mul == _PRODUCT and dtype.kind == "f":
            return type(c)(words.pack(mlir_math.fma(a1_, b1_, mlir_math.fma(a0_, b0_, c_))))
        first = lower(self.mul, {"x": a0_, "y": b0_}, dtype)
        second = lower(self.mul, {"x": a1_, "y": b1_}, dtype)
        if self.product.ordered_bits:
            best = arith.minsi if self.add.op == "min" else arith.maxsi
            integer = ir.IntegerType.get_signless(32)
            bits = [llvm.bitcast(integer, value) for value in (c_, first, second)]
            return type(c)(llvm.bitcast(c_.type, best(best(bits[0], bits[1]), bits[2])))
        total = lower(self.add, {"x": c_, "y": first}, dtype)
        return type(c)(words.pack(lower(self.add, {"x": total, "y": second}, dtype)))

    @dsl_user_op
    def mark(self, c: Any, before: Any, pivot: Any, p: Any, *, loc: Any = None, ip: Any = None) -> Int32:
        """``pivot`` where an accumulator has changed since ``before``, else ``p``."""
        new, old = (self.words.unpack(x.ir_value(loc=loc, ip=ip)) for x in (c, before))
        changed = lower(_DIFFER, {"x": new, "y": old}, np.dtype(self.words.dtype))
        return Int32(arith.select(changed, pivot.ir_value(loc=loc, ip=ip), p.ir_value(loc=loc, ip=ip)))

    # --------------------------------------------------------------------------------------------------------- staging

    @cute.jit
    def matrix(self, tensor: cute.Tensor, batch: Any) -> cute.Tensor:
        """One matrix of a batch, offsets in 64 bits."""
        layout = cute.make_layout((tensor.shape[0], tensor.shape[1]), stride=(tensor.stride[0], tensor.stride[1]))
        return cute.make_tensor(tensor.iterator + Int64(batch) * tensor.stride[2], layout)

    @cute.jit
    def place(self, tid: Any, copy: cutlass.Constexpr, size: cutlass.Constexpr) -> Any:
        """The (x, k) of a (size, tile_k) tile that a thread copies first; its later ones lie a constant further."""
        inner = size // self.vector if const_expr(copy == "vector") else self.tile.tile_k
        fast, slow = tid % inner, tid // inner
        return (fast * self.vector, slow) if const_expr(copy == "vector") else (slow, fast)

    @cute.jit
    def source(self, mX: Any, x0: Any, tid: Any, copy: cutlass.Constexpr, size: cutlass.Constexpr) -> Any:
        """The address of a thread's first word of the tile at k = 0."""
        x, k = self.place(tid, copy, size)
        return (mX.iterator + (Int64(x0 + x) * mX.stride[0] + Int64(k) * mX.stride[1])).toint()

    @cute.jit
    def start_copy(
        self,
        source: Any,
        mX: Any,
        sX: Any,
        x0: Any,
        k0: Any,
        stage: Any,
        tid: Any,
        copy: cutlass.Constexpr,
        size: cutlass.Constexpr,
        left: Any,
        ragged: cutlass.Constexpr,
    ) -> None:
        """Start the asynchronous copy of a (size, tile_k) tile from k0 on; ``ragged``: 0̄ after ``left`` of them."""
        W, BK, threads, nbytes = self.word, self.tile.tile_k, self.tile.threads, self.word_bytes
        vector = const_expr(copy == "vector")
        width = self.vector if vector else 1
        step = threads // (size // width if vector else BK)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), W, num_bits_per_copy=width * W.width)
        layout = cute.make_layout(width)
        x, k = self.place(tid, copy, size)
        for p in cutlass.range_constexpr(size * BK // (width * threads)):
            dx, dk = (0, p * step) if vector else (p * step, 0)
            if x0 + x + dx < mX.shape[0]:
                address = source + (Int64(k0 + dk) * mX.stride[1] + Int64(dx) * mX.stride[0]) * nbytes
                pointer = cute.make_ptr(W, address, cute.AddressSpace.gmem, assumed_align=width * nbytes)
                offset = stage * sX.stride[2] + (x + dx) * sX.stride[0] + (k + dk) * sX.stride[1]
                target = cute.make_tensor((sX.iterator + offset).align(width * nbytes), layout)
                if const_expr(ragged):
                    if k + dk < left:
                        cute.copy(atom, cute.make_tensor(pointer, layout), target)
                    else:
                        for v in cutlass.range_constexpr(width):
                            target[v] = W(self.zero)
                else:
                    cute.copy(atom, cute.make_tensor(pointer, layout), target)

    @cute.jit
    def read_a(self, mA: Any, staged: Any, m0: Any, k0: Any, tid: Any) -> None:
        """Read this thread's part of a tile of A, some k of one row: consecutive threads, consecutive rows."""
        BM, count = self.tile.tile_m, self.tile.tile_m * self.tile.tile_k // self.tile.threads
        row, k = m0 + tid % BM, k0 + (tid // BM) * count
        if const_expr(self.product.copy_a == "pieces"):
            self.read_pieces(mA, staged, row, k, count)
        else:
            self.read_splat(mA, staged, row, k, count)

    @cute.jit
    def read_splat(self, mA: Any, staged: Any, row: Any, k: Any, count: cutlass.Constexpr) -> None:
        """One element at a time, widened as it arrives; truth values stay packed."""
        K = mA.shape[1]
        for g in cutlass.range_constexpr(1 if self.words.bits else count):
            staged[g] = self.word(self.zero)
        if row < mA.shape[0]:
            if const_expr(self.words.bits):
                if k < K:
                    word = mA[row, k // 32] >> (k % 32)  # count divides 32, so one word holds them all
                    if const_expr(self.zero != 0):  # noqa: SIM102  (as above)
                        if K - k < 32:  # where tail bits are no zeros
                            word = word | (Int32(-1) << (K - k))
                    staged[0] = word
            else:
                for g in cutlass.range_constexpr(count):
                    if k + g < K:
                        staged[g] = self.words.splat(mA[row, k + g])

    @cute.jit
    def read_pieces(self, mA: Any, staged: Any, row: Any, k: Any, count: cutlass.Constexpr) -> None:
        """The same by 16 bytes: two elements a word, taken apart as they are written."""
        for g in cutlass.range_constexpr(count // 2):
            staged[g] = self.word(self.zero)
        if row < mA.shape[0]:
            piece = const_expr(min(8, count))
            for g in cutlass.range_constexpr(0, count, piece):
                if k + g < mA.shape[1]:
                    address = (mA.iterator + Int64(row) * mA.stride[0] + k + g).toint()
                    pointer = cute.make_ptr(self.word, address, cute.AddressSpace.gmem, assumed_align=2 * piece)
                    layout = cute.make_layout(piece // 2)
                    registers = cute.make_tensor(staged.iterator + g // 2, layout)
                    cute.autovec_copy(cute.make_tensor(pointer, layout), registers)

    @cute.jit
    def write_splat(self, staged: Any, sA: Any, stage: Any, tid: Any) -> None:
        """Put what `read_a` read into shared memory, widened."""
        BM, count = self.tile.tile_m, self.tile.tile_m * self.tile.tile_k // self.tile.threads
        for g in cutlass.range_constexpr(count):
            if const_expr(self.words.bits):
                word = (staged[0] << (31 - g)) >> 31
            elif const_expr(self.product.copy_a == "pieces"):
                word = self.words.lane(staged[g // 2], g % 2)
            else:
                word = staged[g]
            sA[tid % BM, (tid // BM) * count + g, stage] = word

    @cute.jit
    def fetch(self, base: Any, offset: cutlass.Constexpr, fragment: Any, at: cutlass.Constexpr) -> None:
        """One 16-byte load from shared memory into a register fragment."""
        layout = cute.make_layout(self.vector)
        source = cute.make_tensor((base + offset).align(16), layout)
        cute.autovec_copy(source, cute.make_tensor(fragment.iterator + at, layout))

    @cute.jit
    def move_c(
        self,
        mC: Any,
        rC: Any,
        row0: Any,
        col0: Any,
        rows: cutlass.Constexpr,
        cols: cutlass.Constexpr,
        store: cutlass.Constexpr,
    ) -> None:
        """Load or store a thread's part of C."""
        t = self.tile
        width = self.vector if const_expr(self.product.copy_c == "vector") else 1
        layout = cute.make_layout(width)
        for i in cutlass.range_constexpr(t.thread_m):
            row = row0 + rows(i)
            if row < mC.shape[0]:
                line = mC.iterator + Int64(row) * mC.stride[0]
                for j in cutlass.range_constexpr(0, t.thread_n, width):
                    col = col0 + cols(j)
                    if col < mC.shape[1]:
                        pointer = (line + Int64(col) * mC.stride[1]).align(width * self.word_bytes)
                        memory = cute.make_tensor(pointer, layout)
                        registers = cute.make_tensor(rC.iterator + (i * t.thread_n + j), layout)
                        if const_expr(store):
                            cute.autovec_copy(registers, memory)
                        else:
                            cute.autovec_copy(memory, registers)

    @cute.jit
    def store_marks(
        self,
        mP: Any,
        rP: Any,
        row0: Any,
        col0: Any,
        rows: cutlass.Constexpr,
        cols: cutlass.Constexpr,
        first_pivot: Any,
    ) -> None:
        """Store the marks of a thread that are none: the others stay as they are in memory."""
        t = self.tile
        for i in cutlass.range_constexpr(t.thread_m):
            for j in cutlass.range_constexpr(t.thread_n):
                row, col, pivot = row0 + rows(i), col0 + cols(j), rP[i, j]
                if row < mP.shape[0] and col < mP.shape[1] and pivot >= 0:
                    mP[row, col] = first_pivot + pivot
