"""The compiled kernels of one definition, and the workspaces that they use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from semiring.algebra.catalogue import adds_exponentials
from semiring.errors import no_star
from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.closing import pivot_loops, row_parallel
from semiring.kernels.cpu.closing.pivot_loops import CLOSING_WORDS, build_eliminate
from semiring.kernels.cpu.codegen.jit import compile_callback, compile_entry_point, unsigned_type
from semiring.kernels.cpu.codegen.lowering import instructions
from semiring.kernels.cpu.codegen.memory_intrinsics import LANE_BYTES
from semiring.kernels.cpu.codegen.native import compile_native
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.cpu.elimination.gathered_rows import folds_for
from semiring.kernels.cpu.order import PIVOTS
from semiring.kernels.cpu.product import macro_kernel
from semiring.kernels.cpu.product.macro_kernel import FULL, HEAD, SHAPE_WORDS, WORDS, ProductShape
from semiring.kernels.cpu.product.matvec import (
    build_dots,
    build_updates,
    build_witness_dots,
    matrix_vector,
    matrix_vector_witness,
)
from semiring.kernels.cpu.product.micro_kernel import RUN, build_find, build_tile, find_witnesses
from semiring.kernels.cpu.product.row_walks import multiply_rows
from semiring.kernels.cpu.thread_pool import run_on_ranges
from semiring.kernels.cpu.thread_team import HEADER, MAX_BLOCKS, Lease, helpful_threads, run_blocks, with_team
from semiring.kernels.definition import KernelDefinition, define
from semiring.kernels.machines import cpu_speed
from semiring.kernels.machines.speed_data import CpuSpeed, TileShape
from semiring.progress import in_parts, portion

_ALIGNMENT = 64
_CACHE_LIMIT = 256  # the most entries of a cache
_COPY_BYTES = 1 << 24  # of a copy of rows or columns of an operand, if these bytes hold at least _COPY_STRIP of them
_COPY_STRIP = 256
_COPIES_PER_THREAD = 4  # parts of a copy: a thread that shares its core copies fewer
VECTOR_PAIRS = 1 << 12  # a matrix and a vector of fewer pairs are one tile, which is called faster
ROUND_PAIRS = 1 << 27  # pairs that `close_by_rows` computes between two tests for Ctrl-C: some ten milliseconds
_FEW_ROWS = 32  # rows up to which a product with witness is computed row by row
_BLOCK_INSTRUCTIONS = 1 << 29  # vector instructions between two tests for Ctrl-C: a fifth of a second or less
_SEARCHED_BYTES = 1 << 19  # of the matrices that are closed and then searched: with their edges they stay in a cache
HEAVY = 12  # the instructions a pair from which on a ⊗ and ⊕ count as heavy


def tile_shape(definition: KernelDefinition, target: Target, speed: CpuSpeed) -> TileShape:
    """Return the shape of the tile of a definition's products."""
    heavy = instructions(definition.add, definition.mul) >= HEAVY
    return (speed.heavy if heavy else speed.light)(target.vector_bytes)


class Piece(NamedTuple):
    """A piece of a workspace: its memory, and the address of the first byte in it that is aligned to a cache line."""

    memory: Array
    address: int


class ClosingJob(NamedTuple):
    """A job that closes matrices: its words, their address, and the bytes of workspace that it needs."""

    words: Array
    address: int
    workspace_bytes: int


class _NativeElimination(NamedTuple):
    """The native elimination of a block of pivots, as the words of a job hold it."""

    address: int
    padded_columns: int  # columns of its block
    one: int  # the bits of 1̄, as a signed 64-bit integer
    is_idempotent: int  # 1 if ⊕ is idempotent, else 0


class Workspace:
    """Reusable aligned memory: a stack of free pieces. Every call takes one and returns it."""

    def __init__(self) -> None:
        self.free_pieces: list[Piece] = []  # append and pop are atomic under the GIL

    def take_piece(self, size: int) -> Piece:
        """Return a piece of at least ``size`` bytes from its first aligned byte on."""
        if self.free_pieces:
            try:
                piece = self.free_pieces.pop()
            except IndexError:  # another thread has taken the last piece
                pass
            else:
                if piece.memory.size >= size + _ALIGNMENT:
                    return piece
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        return Piece(memory, (memory.ctypes.data + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT)


class _ShapeRecord:
    """A `ProductShape`, its words in memory for copies to jobs, and the bytes of workspace that its products need."""

    def __init__(self, shape: ProductShape, size: int) -> None:
        self.shape, self.words = shape, np.array(shape, np.int64)
        self.address: int = self.words.ctypes.data
        tile = shape.rows * shape.width * (size + 4)
        packed = shape.packed_columns * size + shape.packed_rows * max(size, LANE_BYTES)
        self.workspace_bytes = HEAD + shape.depth * packed + tile


class Kernels:
    """Products and closures of one definition on this machine, compiled at their first call."""

    def __init__(self, plan: KernelPlan, speed: CpuSpeed) -> None:
        self.plan, self.speed = plan, speed
        self.definition = define(plan)
        self.tile = tile_shape(self.definition, host(), speed)
        self.size = plan.dtype.itemsize
        self.lanes = self.tile.vector_bytes // self.size
        self.width = self.tile.vectors * self.lanes
        per_pair = max(2, instructions(self.definition.add, self.definition.mul))
        #: The most pairs between two tests for Ctrl-C, on one thread.
        self.block_pairs = _BLOCK_INSTRUCTIONS * self.lanes // per_pair
        zero = self.definition.zero_bits
        self.zero_word = zero - (zero >> 63 << 64)  # as a signed 64-bit integer
        self.workspace, self.block_workspace = Workspace(), Workspace()
        self._jobs: dict[int, list[ClosingJob]] = {}  # free jobs of closures of n vertices
        self._shapes: dict[tuple[int, bool], _ShapeRecord] = {}
        self._block_cache: dict[tuple[Any, ...], Array] = {}
        self.block_columns = -(-PIVOTS // self.lanes) * self.lanes  # columns of the block that an elimination closes

    # --------------------------------------------------------------------------------------------------- products

    def product(
        self,
        C: Array,
        A: Array,
        B: Array,
        P: Array,
        accumulate: int,
        chunk: int,
        k0: int,
        threads: int,
        in_place: bool = False,
        a_subdiagonals: int = FULL,
        b_subdiagonals: int = FULL,
    ) -> None:
        """Compute C ← [C ⊕] A ⊗ B, no size 0; with ``chunk`` > 0, mark P in runs of that length.

        ``in_place``: whether C is B. One operand may be triangular: A[i, k] is 0̄ for k < i - ``a_subdiagonals``, or
        B[k, j] is 0̄ for k > j + ``b_subdiagonals``. `FULL` means that no entry is known to be 0̄.
        """
        speed, depth, (m, n), inner = self.speed, self.speed.depth, C.shape, A.shape[1]
        is_strided = A.strides[1] != self.size or B.strides[1] != self.size
        if is_strided and not in_place and m * n * inner >= speed.parallel_pairs:
            self._product_of_copies(C, A, B, P, accumulate, chunk, k0, threads, a_subdiagonals, b_subdiagonals)
            return
        if in_place:
            depth = inner
        elif chunk and chunk <= depth:
            depth = depth // chunk * chunk
        shape = self.product_shape(depth, chunk > 0)
        pairs = m * n * inner
        kind = self, pairs.bit_length()
        threads = helpful_threads(threads, kind) if pairs >= speed.parallel_pairs else 1
        if pairs > self.block_pairs or threads > 1:
            tasks = max(1, min(speed.tasks * threads, pairs // speed.task_pairs, MAX_BLOCKS))
            is_triangular = min(a_subdiagonals, b_subdiagonals) < FULL
            steps = inner if in_place or is_triangular else self._steps_at_once(m * n, inner, tasks, max(depth, chunk))
            blocks = self._cached_blocks(
                self.product_blocks, m, n, tasks, -(-m * n * steps // self.block_pairs), in_place
            )
            for start in in_parts(range(0, inner, steps)):
                part = slice(start, start + steps)
                options = accumulate or start > 0, chunk, k0 + start, a_subdiagonals, b_subdiagonals
                self._run_on_threads(shape, (C, A[:, part], B[part], P), options, blocks, threads, kind)
            return
        workspace = self.workspace.take_piece(shape.workspace_bytes)
        self._product_entry(
            C, A, B, P, shape.address, accumulate, chunk, k0, a_subdiagonals, b_subdiagonals, workspace.address, 1
        )
        self.workspace.free_pieces.append(workspace)

    def _product_of_copies(
        self,
        C: Array,
        A: Array,
        B: Array,
        P: Array,
        accumulate: int,
        chunk: int,
        k0: int,
        threads: int,
        a_subdiagonals: int,
        b_subdiagonals: int,
    ) -> None:
        """Compute `product` from copies of the operands whose rows are not contiguous, some rows and columns at a time.

        The kernels would pack such operands element by element, and A for each set of panels of B again.
        """
        (m, n), strip = C.shape, max(_COPY_STRIP, _COPY_BYTES // (A.shape[1] * self.size))
        rows, columns = (X.shape[i] if X.strides[1] == self.size else strip for i, X in enumerate((A, B)))
        for left in in_parts(range(0, n, columns)):
            with _contiguous_rows(B[:, left : left + columns], threads) as b:
                for top in in_parts(range(0, m, rows)):
                    c, p = (X[top : top + rows, left : left + columns] for X in (C, P))
                    with _contiguous_rows(A[top : top + rows], threads) as a:
                        self.product(
                            *(c, a, b, p, accumulate, chunk, k0, threads),
                            a_subdiagonals=a_subdiagonals - top,
                            b_subdiagonals=b_subdiagonals + left,
                        )

    def _steps_at_once(self, entries: int, inner: int, tasks: int, unit: int) -> int:
        """Return how many steps of k a product of so many entries computes between two returns to Python.

        It is a multiple of ``unit``, the steps that are packed at a time. So the order of the operations is that of one
        call.
        """
        return min(inner, max(1, tasks * self.block_pairs // (entries * unit)) * unit)

    def product_shape(self, depth: int, marking: bool = False) -> _ShapeRecord:
        """Return the shape of the products that pack ``depth`` steps of k at a time."""
        record = self._shapes.get((depth, marking))
        if record is None:
            panels = max(1, self.speed.packed // (depth * self.width * self.size))
            block_product = macro_kernel.block_product(unsigned_type(self.size))
            addresses = compile_callback(f"block_product {self.size}", block_product), self.compile_tile(marking)
            cut = (self.tile.rows, self.width, depth, panels * self.width, self.speed.blocks * self.tile.rows)
            shape = ProductShape(*addresses, *cut, self.zero_word)
            record = self._shapes[depth, marking] = _ShapeRecord(shape, self.size)
        return record

    def upper_product(self, C: Array, A: Array, B: Array, threads: int) -> None:
        """Compute C ← C ⊕ A ⊗ B, no size 0, on and above the diagonal of C (n, n).

        Entries below the diagonal may be overwritten.
        """
        shape, n, inner = self.product_shape(self.speed.depth), C.shape[1], A.shape[1]
        entries = n * n // 2
        kind = self, (entries * inner).bit_length()
        threads = helpful_threads(threads, kind) if entries * inner >= self.speed.parallel_pairs else 1
        tasks = self.speed.tasks * threads if threads > 1 else 1
        steps = self._steps_at_once(entries, inner, tasks, self.speed.depth)
        blocks = self._cached_blocks(self.upper_product_blocks, n, max(tasks, entries * steps // self.block_pairs))
        no_marks = np.empty((0, 0), np.int32)
        for start in in_parts(range(0, inner, steps)):
            part = slice(start, start + steps)
            matrices, options = (C, A[:, part], B[part], no_marks), (1, 0, 0, FULL, FULL)
            self._run_on_threads(shape, matrices, options, blocks, threads, kind)

    def stacked_product(self, C: Array, A: Array, B: Array, accumulate: int, threads: int) -> None:
        """Compute C ← [C ⊕] A ⊗ B for stacks of matrices, no size 0; a compiled loop computes each thread's part."""
        loop = compile_entry_point(macro_kernel.products, self.size)
        shape = self.product_shape(self.speed.depth)

        def multiply_part(start: int, stop: int) -> None:
            part_slice = slice(start, stop)
            workspace = self.workspace.take_piece(shape.workspace_bytes)
            loop(C[part_slice], A[part_slice], B[part_slice], shape.address, accumulate, workspace.address)
            self.workspace.free_pieces.append(workspace)

        self.run_on_stack(multiply_part, C.shape[0], C.size * A.shape[2], threads)

    def run_on_stack(self, function: Callable[[int, int], None], count: int, pairs: int, threads: int) -> None:
        """Call ``function(start, stop)`` for parts of a stack of ``count`` matrices.

        Several threads are used if the number of pairs pays for them.
        """
        pieces = 1
        if pairs >= self.speed.task_pairs:
            pieces = min(count, max(threads, min(self.speed.tasks * threads, pairs // self.speed.task_pairs)))
        run_on_ranges(function, count, -(-count // pieces), threads, reports=True)

    def witness_product(self, C: Array, W: Array, A: Array, B: Array, k0: int, threads: int) -> None:
        """Compute C ← C ⊕ A ⊗ B, no size 0. W becomes the smallest k that attains it where C strictly improves."""
        lines = self._product_of_lines(A, B, threads)
        if lines is not None:
            product, places = lines
            total = self.definition.add.evaluate({"x": C, "y": product}, self.plan.dtype)
            better = total != C
            np.copyto(C, product, where=better)
            np.add(places, k0, out=W, where=better, dtype=W.dtype)
            return
        if A.shape[1] < 2 * RUN:
            marks = W if W.dtype == np.int32 else np.full(W.shape, -1, np.int32)
            self.product(C, A, B, marks, 1, 1, k0 if marks is W else 0, threads)
            if marks is not W:
                np.add(marks, k0, out=W, where=marks >= 0, dtype=W.dtype)
            return
        marks = np.full(W.shape, -1, np.int32)
        with portion(0, 1, 2):
            self.product(C, A, B, marks, 1, RUN, 0, threads)
        witness = W if W.dtype == np.int64 and W.strides[1] == 8 else W.astype(np.int64, order="C")
        search = self._witness_search_address
        with portion(1, 2, 2):
            find_witnesses(search, C, A, B, marks, witness, k0, self.lanes, self.plan.zero, threads)
        if witness is not W:
            W[...] = witness

    def _product_of_lines(self, A: Array, B: Array, threads: int) -> tuple[Array, Array] | None:
        """Return A ⊗ B of few rows, or one column, and its witnesses; None if tiles are as fast."""
        m, n = A.shape[0], B.shape[1]
        threads = threads if A.shape[1] * max(m, n) >= self.speed.parallel_pairs else 1
        if m <= _FEW_ROWS and B.strides[1] == self.size and n > 1:
            return multiply_rows(self.plan, A, B, threads)
        if n == 1 and A.strides[0] == self.size and m > 1:
            lines = multiply_rows(self.plan, B.T, A.T, threads, vector_first=False)
            return lines[0].T, lines[1].T
        by_row = m == 1 and B.strides[0] == self.size
        if not by_row and (n > 1 or A.strides[1] != self.size):
            return None
        what = self._describe_purpose("matrix-vector product with witness")
        native = compile_native(build_witness_dots, self.definition, host(), purpose=what, vector_first=by_row)
        matrix, x = (B.T, A[0]) if by_row else (A, B[:, 0])
        product, places = matrix_vector_witness(native, matrix, x, threads)
        return (product[None], places[None]) if by_row else (product[:, None], places[:, None])

    def _run_on_threads(
        self,
        shape: _ShapeRecord,
        matrices: tuple[Array, ...],
        options: tuple[int, ...],
        blocks: Array,
        threads: int,
        kind: Hashable,
    ) -> None:
        threads = min(threads, len(blocks))
        workspaces = [self.workspace.take_piece(shape.workspace_bytes) for _ in range(threads)]
        job = _new_job(blocks, [piece.address for piece in workspaces])
        self._product_entry(*matrices, shape.address, *options, job.ctypes.data, 0)
        entries = int(((blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])).max())
        most = max(1, self.block_pairs // max(1, entries * matrices[1].shape[1]))
        run_blocks(job, len(blocks), threads, kind, min(most, MAX_BLOCKS), reports=True)
        self.workspace.free_pieces.extend(workspaces)

    def product_blocks(
        self, m: int, n: int, tasks: int, least: int = 1, columns_only: bool = False
    ) -> list[tuple[int, int, int, int]]:
        """Return about ``tasks`` blocks of C, cut at the borders of tiles, in decreasing order of their work.

        They are about ``least`` blocks if that is more, in parts of rows, because wide blocks pack A less often.

        Columns are cut first, because every task packs its own columns of B. If rows were cut, packing would take a
        fifth of the time for 96 rows. If B is triangular, columns further right are more work.
        """
        column_tiles, row_tiles = -(-n // self.width), -(-m // self.tile.rows)
        across = min(column_tiles, max(tasks, least) if columns_only else tasks)
        down = 1 if columns_only else min(row_tiles, -(-max(tasks, least) // across))
        lefts = [min(n, column_tiles * t // across * self.width) for t in range(across + 1)]
        tops = [min(m, row_tiles * t // down * self.tile.rows) for t in range(down + 1)]
        blocks = [(tops[i], tops[i + 1], lefts[j], lefts[j + 1]) for j in range(across) for i in range(down)]
        return sorted(blocks, key=lambda block: ((block[0] - block[1]) * (block[3] - block[2]), -block[2]))

    def _cached_blocks(self, cut: Callable[..., list[tuple[int, int, int, int]]], *arguments: int) -> Array:
        """Return the blocks as a cached array, because a closure uses the same blocks from round to round."""
        key = cut.__name__, *arguments
        blocks = self._block_cache.get(key)
        if blocks is None:
            if len(self._block_cache) >= _CACHE_LIMIT:
                self._block_cache.clear()
            blocks = self._block_cache[key] = np.array(cut(*arguments), np.int64)
        return blocks

    def upper_product_blocks(self, n: int, tasks: int) -> list[tuple[int, int, int, int]]:
        """Return blocks that cover C (n, n) on and above the diagonal, at least about ``tasks``, most work first.

        Above the diagonal a block is as wide as the columns of B that are packed at a time. At the diagonal it is as
        wide as a tile.
        """
        rows, strip = self.tile.rows, self.product_shape(self.speed.depth).shape.packed_columns
        height = max(rows, n * n // (2 * tasks * strip) // rows * rows)
        blocks = []
        for left in range(0, n, strip):
            right, corner = min(n, left + strip), left // rows * rows
            blocks += [(top, min(corner, top + height), left, right) for top in range(0, corner, height)]
            for start in range(left, right, self.width):
                stop = min(right, start + self.width)
                blocks.append((corner, min(n, -(-stop // rows) * rows), start, stop))
        return sorted(blocks, key=lambda block: (block[0] - block[1]) * (block[3] - block[2]))

    @cached_property
    def _product_entry(self) -> Any:
        return compile_entry_point(macro_kernel.product, self.size)

    @cached_property
    def _witness_search_address(self) -> int:
        what = self._describe_purpose("product with witnesses")
        return compile_native(build_find, self.definition, host(), purpose=what)

    def compile_tile(self, has_marks: bool = False, shape: TileShape | None = None) -> int:
        """Return the address of a tile, by default of the shape of the products here."""
        what = self._describe_purpose("product with witnesses" if has_marks else "product")
        return compile_native(*self._tile_code(shape), purpose=what, has_marks=has_marks)

    def _tile_code(self, shape: TileShape | None = None) -> tuple[Any, ...]:
        """Return the function that builds the code of a tile, and its arguments."""
        return build_tile, self.definition, host(), shape or self.tile

    def _describe_purpose(self, part: str) -> str:
        """Return the name of a compilation in reports: what the caller computes, such as "min_plus float32 product"."""
        return f"{self.plan.semiring.name} {self.plan.dtype} {part}"

    # ------------------------------------------------------------------------------------------ matrix and vector

    def vector_product(self, C: Array, A: Array, B: Array, accumulate: int, threads: int) -> bool:
        """Compute C ← [C ⊕] A ⊗ B for C of one column or one row.

        Return False without computing C if a tile is as fast, or if neither rows nor columns of the matrix are
        contiguous.
        """
        column = C.shape[1] == 1
        matrix = A if column else B.T
        if matrix.size < VECTOR_PAIRS or max(matrix.shape) < 2 * self.lanes or not self.definition.may_pad:
            return False
        c, x = (C[:, 0], B[:, 0]) if column else (C[0], A[0])
        threads = threads if matrix.size >= self.speed.parallel_pairs else 1
        native = partial(self._compile_vector, vector_first=not column)
        return matrix_vector(native, c, matrix, x, self.plan.zero, self.lanes, accumulate, threads)

    def _compile_vector(self, kind: str, vector_first: bool) -> int:
        build = build_dots if kind == "dots" else build_updates
        what = self._describe_purpose("matrix-vector product")
        return compile_native(build, self.definition, host(), purpose=what, vector_first=vector_first)

    # --------------------------------------------------------------------------------------------------- closures

    def close(self, A: Array) -> int:
        """Compute A ← A*, A with contiguous rows. Return the first pivot without a star, or -1."""
        if self._float64_kernels is None:
            return self._run_close(self._close_entry, A)
        wide = A.astype(np.float64)
        failed_pivot = self._float64_kernels.close(wide)
        A[...] = wide
        return failed_pivot

    def close_stack(self, A: Array, threads: int) -> int:
        """Compute A ← A* of each matrix of a stack, no size 0, rows contiguous, in a compiled loop on each thread.

        Return the first pivot without a star, or -1; pivots are numbered through all matrices.
        """
        loop = compile_entry_point(pivot_loops.close_each, self.size)
        return self._close_parts(A, threads, lambda start, stop: self._run_close(loop, A[start:stop]))

    def close_and_search(
        self, A: Array, threads: int, fill: Callable[[slice], None], search: Callable[[int, int], None]
    ) -> int:
        """Compute `close_stack` of matrices that ``fill(part)`` writes to A[part].

        ``search(start, stop)`` reads matrices after they were closed. A few matrices at a time stay in the cache
        meanwhile.
        """
        group, loop = max(1, _SEARCHED_BYTES // A[0].nbytes), compile_entry_point(pivot_loops.close_each, self.size)

        def close(start: int, stop: int) -> int:
            for first in range(start, stop, group):
                last = min(stop, first + group)
                fill(slice(first, last))
                failure: int = self._run_close(loop, A[first:last])
                if failure >= 0:
                    return (first - start) * int(A.shape[1]) + failure
                search(first, last)
            return -1

        return self._close_parts(A, threads, close)

    def _close_parts(self, A: Array, threads: int, close: Callable[[int, int], int]) -> int:
        """Call ``close(start, stop)`` for parts of a stack. Return its first pivot without a star, or -1."""
        (count, n), failed_pivots = A.shape[:2], []

        def close_part(start: int, stop: int) -> None:
            failure = close(start, stop)
            if failure >= 0:
                failed_pivots.append(start * n + failure)

        self.run_on_stack(close_part, count, A.size * n, threads)
        return min(failed_pivots, default=-1)

    def _run_close(self, loop: Any, A: Array) -> int:
        n = A.shape[-1]
        job, piece = self.take_job(n)
        failed_pivot: int = loop(A, job.address, piece.address)
        self.return_job(n, job, piece)
        return failed_pivot

    def take_job(self, n: int) -> tuple[ClosingJob, Piece]:
        """Return a job for up to n vertices and a piece of workspace for it."""
        try:
            job = self._jobs[n].pop()  # append and pop are atomic under the GIL
        except (KeyError, IndexError):
            job = self._new_closing_job(n)
        return job, self.block_workspace.take_piece(job.workspace_bytes)

    def return_job(self, n: int, job: ClosingJob, piece: Piece) -> None:
        """Store a job and its workspace for the next call."""
        self.block_workspace.free_pieces.append(piece)
        self._jobs[n].append(job)

    def _new_closing_job(self, n: int) -> ClosingJob:
        """Return a new job that closes n vertices."""
        elimination = self._elimination
        padded = elimination.padded_columns
        pivots = n if n <= padded else PIVOTS  # a small matrix is one block
        max_rows = max(pivots, min(n, padded))  # so that the workspace also suffices for any smaller matrix
        panel_width = -(-n // self.width) * self.width
        blocks = max_rows * (padded + panel_width) * self.size
        packed = (max_rows + self.tile.rows) * max_rows * max(self.size, LANE_BYTES)
        job = np.zeros(CLOSING_WORDS, np.int64)
        job[:SHAPE_WORDS] = self.product_shape(self.speed.depth).words
        job[WORDS:] = elimination.address, padded, pivots, elimination.one, elimination.is_idempotent
        self._jobs.setdefault(n, [])
        return ClosingJob(job, job.ctypes.data, blocks + packed + self.tile.rows * self.width * self.size)

    def close_by_rows(self, A: Array, threads: int, *, dynamic: bool, copied_row: bool = True) -> int:
        """Compute A ← A*, A with contiguous rows, by `row_parallel`.

        Return the first pivot without a star, or -1. ``dynamic``: whether a free thread takes one row at a time.
        Otherwise each thread updates an equal number of adjacent rows. ``copied_row``: whether the threads read a copy
        of the row of the pivot, as in the paper, or the row itself.
        """
        if self._float64_kernels is not None:
            wide = A.astype(np.float64)
            failed_pivot = self._float64_kernels.close_by_rows(wide, threads, dynamic=dynamic, copied_row=copied_row)
            A[...] = wide
            return failed_pivot
        n, elimination = A.shape[0], self._elimination
        loop = compile_entry_point(row_parallel.close_pivots_by_rows, self.size)
        round_ = max(1, ROUND_PAIRS // (n * n))
        copy, piece = np.empty(n, A.dtype), self.block_workspace.take_piece(self.block_columns * self.size)
        rows = -(-n // MAX_BLOCKS) if dynamic else -(-n // threads)
        blocks = _row_blocks(n, rows)
        job, alive = self._new_rows_job(blocks, threads, A, copy[None], copy[None], 1)
        job[row_parallel.IDEMPOTENT] = elimination.is_idempotent

        def close(lease: Lease) -> int:
            start, failed_pivot = 0, -1
            arguments = (
                *(A, job.ctypes.data, copy.ctypes.data, int(copied_row), len(blocks), lease.mailbox, lease.members),
                *(elimination.address, piece.address, self.block_columns, self.definition.zero_bits),
            )
            while start < n and failed_pivot < 0:
                lease.wake()
                stop = min(n, start + round_)
                status = loop(*arguments, start, stop, self.speed.patience)
                if 0 <= status < stop:
                    lease.wait(len(blocks))
                failed_pivot = -1 - status if status < 0 else -1
                start = stop if status == stop else status + 1
            return failed_pivot

        failed_pivot = with_team(min(threads, len(blocks)), close)
        self.block_workspace.free_pieces.append(piece)
        del alive
        return failed_pivot

    def plain_product(self, C: Array, A: Array, B: Array, threads: int) -> None:
        """Compute C ← C ⊕ A ⊗ B, no size 0, one row after the other. Rows of C and B are contiguous."""
        blocks = _row_blocks(C.shape[0], -(-C.shape[0] // min(MAX_BLOCKS, 8 * threads)))
        job, alive = self._new_rows_job(blocks, threads, C, A, B, A.shape[1])
        job[row_parallel.PIVOT] = -1
        run_blocks(job, len(blocks), min(threads, len(blocks)), (self, (C.size * A.shape[1]).bit_length()))
        del alive

    def _new_rows_job(self, blocks: Array, threads: int, C: Array, A: Array, B: Array, count: int) -> tuple[Array, Any]:
        """Return a job of `row_parallel` with factors of A and rows of B, and the objects that must live as long."""
        folds, scratch = folds_for(self.plan, count), np.empty((threads, _ALIGNMENT), np.uint8)
        job = _new_job(blocks, [scratch.ctypes.data + _ALIGNMENT * member for member in range(threads)])
        job[0] = compile_callback("update_rows", row_parallel.update_rows)
        words = row_parallel.RowJob(
            fold=folds.left,
            ordinals=folds.ordinals.ctypes.data,
            source=B.ctypes.data,
            target=C.ctypes.data,
            target_row=C.strides[0],
            columns=C.shape[1],
            factors=A.ctypes.data,
            factor_row=A.strides[0],
            factor_step=A.strides[1],
            steps=count,
            source_row=B.strides[0],
            pivot=0,
            size=self.size,
            is_idempotent=1,
            zero=self.zero_word,
        )
        job[1 : 1 + len(words)] = words
        return job, (folds, scratch)

    @cached_property
    def _float64_kernels(self) -> Kernels | None:
        """The kernels of float64, for sums of exponentials in float32.

        In float32 each pivot would round an entry once more.
        """
        plan, wide = self.plan, np.dtype(np.float64)
        if plan.dtype != np.float32 or not adds_exponentials(plan.semiring) or not plan.semiring.supports(wide):
            return None
        return kernels_for(replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one)))

    @cached_property
    def _close_entry(self) -> Any:
        return compile_entry_point(pivot_loops.close, self.size)

    @cached_property
    def _elimination(self) -> _NativeElimination:
        """The native elimination of the pivots of a closure."""
        definition, group = define(self.plan, closing=True), self.block_columns // self.lanes
        if definition.star is None:
            raise no_star(self.plan.semiring.name)
        definition.star.check_dtype(self.plan.dtype)
        what = self._describe_purpose("closure")
        return _NativeElimination(
            compile_native(build_eliminate, definition, host(), group, purpose=what),
            self.block_columns,
            definition.one_bits - (definition.one_bits >> 63 << 64),
            int(definition.idempotent),
        )


def _row_blocks(n: int, rows: int) -> Array:
    """Return blocks of at most ``rows`` rows, for the jobs of `row_parallel`."""
    starts = np.arange(0, n, rows)
    return np.stack([starts, np.minimum(n, starts + rows), 0 * starts, 0 * starts], 1)


def _new_job(blocks: Array, workspaces: list[int]) -> Array:
    """Return a job for `run_blocks`, without its first words."""
    job = np.empty(HEADER + 4 * len(blocks) + len(workspaces), np.int64)
    job[HEADER : -len(workspaces)] = blocks.ravel()
    job[-len(workspaces) :] = workspaces
    return job


@contextmanager
def _contiguous_rows(matrix: Array, threads: int) -> Iterator[Array]:
    """Return a context with a matrix whose rows are contiguous: the given one, or a copy that lives in the context.

    Rows of the copy do not share cache sets.
    """
    (m, n), size = matrix.shape, matrix.itemsize
    if matrix.strides[1] == size:
        yield matrix
        return
    row = -(-n * size // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
    piece, parts = _copies.take_piece(m * row), min(m, _COPIES_PER_THREAD * threads)
    blocks = [(m * part // parts, m * (part + 1) // parts, 0, n) for part in range(parts)]
    job = _new_job(np.array(blocks, np.int64), [0] * parts)
    copy_tiles = macro_kernel.straighten_block(unsigned_type(size))
    address = compile_callback(f"straighten_block {size}", copy_tiles)
    job[:6] = address, piece.address, row, matrix.ctypes.data, *matrix.strides
    run_blocks(job, parts, min(parts, threads), ("copy of rows", matrix.nbytes.bit_length()))
    yield np.ndarray((m, n), matrix.dtype, piece.memory, piece.address - piece.memory.ctypes.data, (row, size))
    _copies.free_pieces.append(piece)


_copies = Workspace()


def copy_matrix(source: Array, out: Array, threads: int) -> None:
    """Copy source to ``out``, of one shape and dtype, on all threads if the size pays for them."""
    (m, n), kind = source.shape, ("copy", out.nbytes.bit_length())
    contiguous = source.strides[1] == out.strides[1] == source.itemsize
    if not contiguous or out.nbytes < cpu_speed().copy_bytes or helpful_threads(threads, kind) == 1:
        out[...] = source
        return
    parts = min(m, _COPIES_PER_THREAD * threads)
    blocks = [(m * part // parts, m * (part + 1) // parts, 0, n * source.itemsize) for part in range(parts)]
    job = _new_job(np.array(blocks, np.int64), [0] * parts)
    address = compile_callback("copy_block", macro_kernel.copy_block)
    job[:5] = address, out.ctypes.data, out.strides[0], source.ctypes.data, source.strides[0]
    run_blocks(job, parts, min(parts, threads), kind)


_kernels: dict[tuple[int, Any, bool, bool, int], tuple[KernelPlan, Kernels]] = {}


def kernels_for(plan: KernelPlan) -> Kernels:
    """Return the kernels of a plan.

    Semirings are looked up by identity first, because hashing a definition takes microseconds.
    """
    speed = cpu_speed()
    key = (id(plan.semiring), plan.dtype, plan.facts.nonnegative, plan.facts.separate, id(speed))
    entry = _kernels.get(key)
    if entry is not None and entry[0].zero == plan.zero:
        return entry[1]
    kernels = Kernels(plan, speed)
    if len(_kernels) >= _CACHE_LIMIT:
        _kernels.clear()
    # The values keep the semiring and the speed data alive, so that their identities stay unique.
    _kernels[key] = plan, kernels
    return kernels
