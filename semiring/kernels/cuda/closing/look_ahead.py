"""Close a whole matrix in one cooperative launch by the look-ahead kernel, a successor of the staged kernels.

    close(plan, A)                   the faster of this kernel and two launches a stage (see `stacks`)
    close(plan, A, look_ahead=True)  this kernel
    close(plan, A[None])             two launches a stage, as for a stack of many

The kernel takes an idempotent ⊕ and any n. If n is no multiple of the tile, or rows are not aligned, the matrix is
closed in a copy padded with 0̄. A pivot without a star leaves its vertex in ``plan.status.word``; the matrix is then
undefined. The kernel derives from those of Lund and Smith, which are in `papers`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm
from typing import Any, Literal

import numpy as np

from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.barriers import words_of
from semiring.kernels.cuda.closing.blocks import alone_rows, close_block, fast_rows
from semiring.kernels.cuda.closing.modules import granted, multiprocessors, resident_blocks
from semiring.kernels.cuda.closing.modules import kernel as compiled
from semiring.kernels.cuda.closing.sources import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.stacks import SINGLE_MATRIX_ITEMSIZES, close_stack
from semiring.kernels.cuda.entries.prepared_launch import Prepared

__all__ = [
    *("FILE", "LEAST", "WIDTH", "Shape"),
    *("check_closed_whole", "close", "cut_for", "goes_in_stages", "look_ahead_shape", "padded"),
]

_NOTHING = nullcontext()
WIDTH = 64  # pivots of a stage
FILE = "look_ahead.cu"


@dataclass(frozen=True)
class Shape:
    """The tiles of the kernel: their rows and columns, and where they are stored between the stages.

    If ``held``, each thread block holds one tile in registers from the first stage to the last. It occupies a whole
    multiprocessor, or half of one if ``narrow``. Otherwise tiles are read from memory and written back in every stage.
    """

    rows: int
    columns: int
    held: bool
    narrow: bool = False

    @property
    def threads(self) -> int:
        return 512 if self.held and not self.narrow else 256

    @property
    def blocks(self) -> int:
        """Return how many thread blocks share a multiprocessor."""
        return 512 // self.threads

    @property
    def defines(self) -> tuple[str, ...]:
        """Return the macros for the compiler."""
        tile = f"TILE_ROWS {self.rows}", f"TILE_COLUMNS {self.columns}", f"HELD {int(self.held)}"
        return *tile, f"THREADS {self.threads}", f"BLOCKS {self.blocks}", f"UNROLL {4 if self.held else 1}"

    @property
    def step(self) -> int:
        """Return the number of which the rows of a matrix must be a multiple."""
        return lcm(self.rows, self.columns)

    def tiles(self, n: int) -> int:
        """Return the number of tiles of a padded matrix of n rows."""
        size = -(-n // self.step) * self.step
        return size // self.rows * (size // self.columns)

    def shared(self, itemsize: int) -> int:
        """Return the bytes of shared memory: for the operands of a tile, or for the closure of pivot blocks."""
        operands = self.rows * (WIDTH + 4) + self.columns * WIDTH
        pivots = 2 * WIDTH * (WIDTH + 4) + WIDTH * WIDTH + 8 * WIDTH
        return itemsize * max(operands, pivots) + 16


#: Tiles that are held: the first of which there is at most one for each multiprocessor; and tiles that are streamed.
#: Those that `_ANY` does not name are for elements of 4 bytes and few instructions a pair: up to 64 accumulators a
#: thread. The kernel on an H200, 2026-11-21, float32 min-plus, by events, the launch enqueued ahead of time: n = 256 in
#: 60 µs, 1024 in 0.204 ms, 1408 in 0.353, 1536 in 0.496 (int32 0.488, max-min 0.649; 0.66 in tiles of 256 x 128), 2048
#: in 0.834. Streamed, 4096 takes 6.45, 8192 45.4, 16384 344.
_HELD, _STREAMED = ((128, 64), (128, 128), (192, 128), (256, 128)), ((128, 128), (128, 64), (64, 64))
_ANY = ((128, 64), (64, 64))
_SHAPES = [Shape(*tile, held) for held, tiles in ((True, _HELD), (False, _STREAMED)) for tile in tiles]
LEAST = _SHAPES[-1]  # the shape with the least shared memory
#: Beside products, whose blocks leave one after the other: half a multiprocessor is free sooner than a whole one.
#: Closures of n = 4096 by blocks of 512 take 5.17 ms with it, 5.27 with the first of `_HELD`, which closes 512 in
#: 104 µs where it is alone, and 5.22 with half as many blocks of 128 x 128, for which 512 takes 157 µs.
_BESIDE = Shape(*_HELD[0], held=True, narrow=True)


def look_ahead_shape(
    n: int,
    arithmetic: Arithmetic,
    multiprocessors: int = 132,
    shared_memory: int = 227 << 10,
    has_concurrent_work: bool = False,
) -> Shape:
    """Return the tiles for n rows, within the shared memory of a block; one multiprocessor closes the pivot blocks.

    ``has_concurrent_work``: whether concurrent products keep the multiprocessors busy.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    wide = itemsize == 4 and not arithmetic.is_heavy
    for shape in _SHAPES:
        possible = (wide or (shape.rows, shape.columns) in _ANY) and shape.shared(itemsize) <= shared_memory
        if possible and (not shape.held or shape.tiles(n) < multiprocessors):
            return _BESIDE if has_concurrent_work and wide and shape is _SHAPES[0] else shape
    return LEAST


def goes_in_stages(arithmetic: Arithmetic, shared_memory: int = 227 << 10, has_concurrent_work: bool = False) -> bool:
    """Return whether one matrix is closed by two launches a stage, for this much shared memory of a block.

    ``has_concurrent_work``: whether products run concurrently.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    return LEAST.shared(itemsize) > shared_memory or (itemsize in SINGLE_MATRIX_ITEMSIZES and not has_concurrent_work)


@dataclass(frozen=True)
class Cut:
    """The launch parameters of the kernel for the matrices of one size on one device."""

    kernel: Any
    tile: int  # a divisor of the padded rows
    sizes: tuple[Any, Any]  # rows with padding, and stages
    blocks: int
    threads: int
    shared: int  # bytes
    launches: dict[int, Prepared] = field(default_factory=dict)  # by the elements from row to row

    def launch(self, stride: int) -> Prepared:
        """Return the prepared launch for matrices with this row stride, in elements.

        Each launch passes the matrix, the status, its first vertex, the barrier and the copies of blocks.
        """
        if stride not in self.launches:
            parameters = (None, np.int64(stride), *self.sizes, None, None, None, None)
            grid = (self.blocks,), (self.threads,)
            function = self.kernel.kernel
            self.launches[stride] = Prepared(function, *grid, parameters, self.shared, cooperative=True)
        return self.launches[stride]


@lru_cache(maxsize=1024)
def cut_for(arithmetic: Arithmetic, n: int, device: int, has_concurrent_work: bool = False) -> Cut:
    """Return the `Cut` of matrices of n rows on the current device, which is ``device``."""
    shape = look_ahead_shape(n, arithmetic, multiprocessors(), granted(), has_concurrent_work)
    shared = shape.shared(np.dtype(arithmetic.dtype).itemsize)
    kernel = compiled(FILE, "all_stages", arithmetic, shape.defines, shared, cooperative=True)
    size = -(-n // shape.step) * shape.step
    tasks = max(shape.tiles(size), size // 16)  # tasks of the remainder, and of the panels
    room = min(shape.blocks * multiprocessors(), resident_blocks(kernel, shape.threads, shared))
    blocks = min(tasks + 1, room)  # one block closes the pivot blocks
    sizes = np.int32(size), np.int32(-(-n // WIDTH))
    return Cut(kernel, shape.step, sizes, blocks, shape.threads, shared)


def _look_ahead(plan: KernelPlan, A: Any, arithmetic: Arithmetic, has_concurrent_work: bool) -> None:
    """Run all stages in one cooperative launch, with a grid barrier after each phase."""
    import cupy

    n, itemsize, status = A.shape[0], A.itemsize, plan.status
    cut = cut_for(arithmetic, n, cupy.cuda.runtime.getDevice(), has_concurrent_work)
    matrix = padded(A, cut.tile, plan.zero, aligned=True)
    barrier, copies = words_of(cupy.cuda.get_current_stream()), cupy.cuda.alloc(4 * WIDTH**2 * itemsize)
    word = 0 if status.word is None else status.word.data.ptr
    cut.launch(matrix.strides[0] // itemsize)(matrix.data.ptr, word, status.first_vertex, barrier.data.ptr, copies.ptr)
    if matrix is not A:
        A[...] = matrix[:n, :n]


# ------------------------------------------------------------------------------------------------- the one way to run


def close(plan: KernelPlan, A: Any, *, look_ahead: bool = False, has_concurrent_work: bool = False) -> None:
    """Compute A ← A* in place for A (n, n) on the device, or a stack (count, n, n) together (see `stacks`).

    The fastest kernel at this size on this device is used, or with ``look_ahead`` that kernel. The work is enqueued on
    the plan's stream, and the function does not wait. ``has_concurrent_work``: whether concurrent products keep the
    device busy.

    Raises `AlgebraError` for a ⊕ that is not idempotent, and for packed bits.
    """
    arithmetic = arithmetic_of(plan)
    check_closed_whole(plan, arithmetic, "staged")
    strategy = _strategy(arithmetic, A.shape[-1], A.ndim == 3, look_ahead, granted(), has_concurrent_work)
    with plan.stream or _NOTHING:
        if strategy == "block":
            close_block(plan, A)
        elif strategy == "stages":
            close_stack(plan, A if A.ndim == 3 else A[None])
        else:
            _look_ahead(plan, A, arithmetic, has_concurrent_work)


@lru_cache(maxsize=1024)
def _strategy(
    arithmetic: Arithmetic, n: int, stacked: bool, look_ahead: bool, shared_memory: int, has_concurrent_work: bool
) -> Literal["block", "stages", "one launch"]:
    """Return how matrices of n rows are closed, for this much shared memory of a block.

    ``look_ahead``: the caller named the kernel, so it also closes matrices of few rows.
    """
    if stacked:
        return "stages" if n > fast_rows(arithmetic) else "block"
    if n <= (WIDTH if look_ahead else alone_rows(arithmetic)):
        return "block"
    if not look_ahead and goes_in_stages(arithmetic, shared_memory, has_concurrent_work):
        return "stages"
    return "one launch"


def check_closed_whole(plan: KernelPlan, arithmetic: Arithmetic, method: str) -> None:
    """Raise `AlgebraError` for packed bits and a ⊕ that is not idempotent, which kernels for whole matrices lack."""
    if plan.storage == "bits":
        raise AlgebraError(f"{method} takes elements, not packed bits: use rkleene")
    if not arithmetic.idempotent:
        raise AlgebraError(f"{method} takes an idempotent ⊕, and that of {plan.semiring.name} is not: use rkleene")


def padded(A: Any, tile: int, zero: Any, *, aligned: bool) -> Any:
    """Return A itself where the kernels can work on it, otherwise a copy padded with 0̄.

    ``aligned``: whether rows must begin at multiples of 16 bytes, and must not overlap.
    """
    import cupy

    n = A.shape[0]
    fits = A.strides[0] % 16 == 0 and A.data.ptr % 16 == 0 and A.strides[0] >= n * A.itemsize
    if A.strides[1] == A.itemsize and n % tile == 0 and (fits or not aligned):
        return A
    size = -(-n // tile) * tile
    copy = cupy.full((size, size), zero, A.dtype)
    copy[:n, :n] = A
    return copy
