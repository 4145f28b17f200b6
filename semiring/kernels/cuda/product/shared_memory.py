"""Copy the operands of a product into shared memory and registers, and its results out of registers.

An operand whose rows (A) or columns (B) run fastest is copied 16 bytes at a time. An operand whose k runs fastest is
transposed by copies of single words, which costs 3 to 4 % (15.2 against 15.7 T pairs/s, float32, n = 8192, H200). If
the elements of A are narrower than a word, A passes through registers, where it is splatted.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr

from semiring.kernels.cuda.product.lower import Registers
from semiring.kernels.cuda.product.specification import Product
from semiring.kernels.cuda.product.tiles import Tile

#: The names of the copies of A that pass through registers.
SPLAT = ("splat", "pieces")


class Staging:
    """The copies between global memory, shared memory and registers of one product and tile."""

    def __init__(self, product: Product, tile: Tile, registers: Registers) -> None:
        self.product, self.tile, self.registers = product, tile, registers
        self.word = registers.word
        self.word_bytes = product.words.word_bytes
        self.vector = 16 // self.word_bytes  # words in 16 bytes
        self.zero = product.words.constant(product.zero)

    def rows(self, i: int) -> int:
        """Return the i-th row of a thread, relative to its first."""
        return i % self.vector + 8 * self.vector * (i // self.vector)

    def columns(self, j: int) -> int:
        """Return the j-th column of a thread, relative to its first."""
        return j % self.vector + 4 * self.vector * (j // self.vector)

    @cute.jit
    def operand(
        self,
        element: cutlass.Constexpr,
        address: Any,
        shape: Any,
        strides: Any,
        batch_stride: Any,
        batch: Any,
        copy: cutlass.Constexpr,
    ) -> cute.Tensor:
        """Return an operand of one batch as (row or column, k). The stride that the copy relies on is constant."""
        vector, word = const_expr(copy == "vector"), const_expr(copy == "word")
        start = address + Int64(batch) * batch_stride * (element.width // 8)
        pointer = cute.make_ptr(
            element, start, cute.AddressSpace.gmem, assumed_align=16 if vector else element.width // 8
        )
        along, k = strides
        return cute.make_tensor(pointer, cute.make_layout(shape, stride=(1 if vector else along, 1 if word else k)))

    @cute.jit
    def result(self, address: Any, shape: Any, strides: Any, batch_stride: Any, batch: Any) -> cute.Tensor:
        """Return the result C of one batch."""
        vector = const_expr(self.product.copy_c == "vector")
        start = address + Int64(batch) * batch_stride * self.word_bytes
        pointer = cute.make_ptr(
            self.word, start, cute.AddressSpace.gmem, assumed_align=16 if vector else self.word_bytes
        )
        return cute.make_tensor(pointer, cute.make_layout(shape, stride=(strides[0], 1 if vector else strides[1])))

    @cute.jit
    def first_position(self, tid: Any, copy: cutlass.Constexpr, size: cutlass.Constexpr) -> Any:
        """Return the first position (x, k) of a (size, tile_k) tile that a thread copies.

        Its other positions are at constant offsets.
        """
        inner = size // self.vector if const_expr(copy == "vector") else self.tile.tile_k
        fast, slow = tid % inner, tid // inner
        return (fast * self.vector, slow) if const_expr(copy == "vector") else (slow, fast)

    @cute.jit
    def source(self, mX: Any, tile_start: Any, tid: Any, copy: cutlass.Constexpr, size: cutlass.Constexpr) -> Any:
        """Return the address of a thread's first word of the tile at k = 0.

        ``tile_start`` is the first row (A) or column (B) of the tile.
        """
        x, k = self.first_position(tid, copy, size)
        return (mX.iterator + (Int64(tile_start + x) * mX.stride[0] + Int64(k) * mX.stride[1])).toint()

    @cute.jit
    def start_copy(
        self,
        source: Any,
        mX: Any,
        sX: Any,
        tile_start: Any,
        k0: Any,
        stage: Any,
        tid: Any,
        copy: cutlass.Constexpr,
        size: cutlass.Constexpr,
        remaining: Any,
        is_ragged: cutlass.Constexpr,
    ) -> None:
        """Start the asynchronous copy of a (size, tile_k) tile from k0 on.

        ``tile_start`` is the first row (A) or column (B) of the tile. If ``is_ragged``, the tile has 0̄ after the
        ``remaining`` steps of k.
        """
        W, BK, threads, nbytes = self.word, self.tile.tile_k, self.tile.threads, self.word_bytes
        vector = const_expr(copy == "vector")
        width = self.vector if vector else 1
        step = threads // (size // width if vector else BK)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), W, num_bits_per_copy=width * W.width)
        layout = cute.make_layout(width)
        x, k = self.first_position(tid, copy, size)
        for p in cutlass.range_constexpr(size * BK // (width * threads)):
            dx, dk = (0, p * step) if vector else (p * step, 0)
            if tile_start + x + dx < mX.shape[0]:
                address = source + (Int64(k0 + dk) * mX.stride[1] + Int64(dx) * mX.stride[0]) * nbytes
                pointer = cute.make_ptr(W, address, cute.AddressSpace.gmem, assumed_align=width * nbytes)
                offset = stage * sX.stride[2] + (x + dx) * sX.stride[0] + (k + dk) * sX.stride[1]
                target = cute.make_tensor((sX.iterator + offset).align(width * nbytes), layout)
                if const_expr(is_ragged):
                    if k + dk < remaining:
                        cute.copy(atom, cute.make_tensor(pointer, layout), target)
                    else:
                        for v in cutlass.range_constexpr(width):
                            target[v] = W(self.zero)
                else:
                    cute.copy(atom, cute.make_tensor(pointer, layout), target)

    @cute.jit
    def read_a(self, mA: Any, a_fragment: Any, m0: Any, k0: Any, tid: Any) -> None:
        """Read this thread's part of a tile of A: some k of one row. Consecutive threads read consecutive rows."""
        BM, count = self.tile.tile_m, self.tile.tile_m * self.tile.tile_k // self.tile.threads
        row, k = m0 + tid % BM, k0 + (tid // BM) * count
        if const_expr(self.product.copy_a == "pieces"):
            self.read_pieces(mA, a_fragment, row, k, count)
        else:
            self.read_splat(mA, a_fragment, row, k, count)

    @cute.jit
    def read_splat(self, mA: Any, a_fragment: Any, row: Any, k: Any, count: cutlass.Constexpr) -> None:
        """Read one element at a time into registers, and splat it. Truth values stay packed."""
        K = mA.shape[1]
        for g in cutlass.range_constexpr(1 if self.product.words.has_bits else count):
            a_fragment[g] = self.word(self.zero)
        if row < mA.shape[0]:
            if const_expr(self.product.words.has_bits):
                if k < K:
                    word = mA[row, k // 32] >> (k % 32)  # count divides 32, so one word holds all bits of this thread
                    if const_expr(self.zero != 0):  # noqa: SIM102  (the outer condition is decided while compiling)
                        if K - k < 32:  # the bits after the last k must be 0̄, which is not 0
                            word = word | (Int32(-1) << (K - k))
                    a_fragment[0] = word
            else:
                for g in cutlass.range_constexpr(count):
                    if k + g < K:
                        a_fragment[g] = self.registers.splat(mA[row, k + g])

    @cute.jit
    def read_pieces(self, mA: Any, a_fragment: Any, row: Any, k: Any, count: cutlass.Constexpr) -> None:
        """Read as `read_splat`, but 16 bytes at a time: two elements a word, which `write_splat` separates."""
        for g in cutlass.range_constexpr(count // 2):
            a_fragment[g] = self.word(self.zero)
        if row < mA.shape[0]:
            piece = const_expr(min(8, count))
            for g in cutlass.range_constexpr(0, count, piece):
                if k + g < mA.shape[1]:
                    address = (mA.iterator + Int64(row) * mA.stride[0] + k + g).toint()
                    pointer = cute.make_ptr(self.word, address, cute.AddressSpace.gmem, assumed_align=2 * piece)
                    layout = cute.make_layout(piece // 2)
                    registers = cute.make_tensor(a_fragment.iterator + g // 2, layout)
                    cute.autovec_copy(cute.make_tensor(pointer, layout), registers)

    @cute.jit
    def write_splat(self, a_fragment: Any, sA: Any, stage: Any, tid: Any) -> None:
        """Write the elements of `read_a` into shared memory, widened."""
        BM, count = self.tile.tile_m, self.tile.tile_m * self.tile.tile_k // self.tile.threads
        for g in cutlass.range_constexpr(count):
            if const_expr(self.product.words.has_bits):
                word = (a_fragment[0] << (31 - g)) >> 31
            elif const_expr(self.product.copy_a == "pieces"):
                word = self.registers.lane(a_fragment[g // 2], g % 2)
            else:
                word = a_fragment[g]
            sA[tid % BM, (tid // BM) * count + g, stage] = word

    @cute.jit
    def fetch(self, base: Any, offset: cutlass.Constexpr, fragment: Any, index: cutlass.Constexpr) -> None:
        """Load 16 bytes from shared memory into a register fragment."""
        layout = cute.make_layout(self.vector)
        source = cute.make_tensor((base + offset).align(16), layout)
        cute.autovec_copy(source, cute.make_tensor(fragment.iterator + index, layout))

    @cute.jit
    def move_c(self, mC: Any, rC: Any, row0: Any, col0: Any, store: cutlass.Constexpr) -> None:
        """Load or store a thread's part of C."""
        t = self.tile
        width = self.vector if const_expr(self.product.copy_c == "vector") else 1
        layout = cute.make_layout(width)
        for i in cutlass.range_constexpr(t.thread_m):
            row = row0 + self.rows(i)
            if row < mC.shape[0]:
                line = mC.iterator + Int64(row) * mC.stride[0]
                for j in cutlass.range_constexpr(0, t.thread_n, width):
                    col = col0 + self.columns(j)
                    if col < mC.shape[1]:
                        pointer = (line + Int64(col) * mC.stride[1]).align(width * self.word_bytes)
                        memory = cute.make_tensor(pointer, layout)
                        registers = cute.make_tensor(rC.iterator + (i * t.thread_n + j), layout)
                        if const_expr(store):
                            cute.autovec_copy(registers, memory)
                        else:
                            cute.autovec_copy(memory, registers)

    @cute.jit
    def store_marks(self, mP: Any, rP: Any, row0: Any, col0: Any) -> None:
        """Store the marks of a thread that are not negative. The other entries in memory stay unchanged."""
        t = self.tile
        for i in cutlass.range_constexpr(t.thread_m):
            for j in cutlass.range_constexpr(t.thread_n):
                row, col, first = row0 + self.rows(i), col0 + self.columns(j), rP[i, j]
                if row < mP.shape[0] and col < mP.shape[1] and first >= 0:
                    mP[row, col] = first
