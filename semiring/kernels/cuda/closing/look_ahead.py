"""Close a whole matrix in one cooperative launch by the look-ahead kernel, a successor of the staged kernels.

    close(plan, A)                   the faster of this kernel and two launches a stage (see `stacks`)
    close(plan, A, look_ahead=True)  this kernel
    close(plan, A[None])             two launches a stage, as for a stack of several matrices

The kernel takes an idempotent ⊕ and any n. If n is no multiple of the tile, or rows are not aligned, the matrix is
closed in a copy padded with 0̄. A pivot without a star leaves its vertex in ``plan.status.word``, and the matrix is
then undefined. The kernel derives from those of Lund and Smith, which are in `papers`.

The barrier of a cooperative launch has three words, which each launch resets for the next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm
from typing import Any, Literal

import numpy as np

from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.blocks import close_block, fast_rows, single_block_rows
from semiring.kernels.cuda.closing.kernel_text import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, max_shared_memory, multiprocessors, resident_blocks
from semiring.kernels.cuda.closing.staged_stacks import SINGLE_MATRIX_ITEMSIZES, close_stack
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch

WIDTH = 64  # the pivots of a stage
FILE = "look_ahead.cu"


@dataclass(frozen=True)
class LookAheadTiles:
    """The tiles of the kernel: their rows and columns, and where they are stored between the stages.

    If ``is_in_registers``, each thread block holds one tile in registers from the first stage to the last. It occupies
    a whole multiprocessor, or half of one if ``is_narrow``. Otherwise tiles are read from memory and written back in
    every stage.
    """

    rows: int
    columns: int
    is_in_registers: bool
    is_narrow: bool = False

    @property
    def threads(self) -> int:
        return 512 if self.is_in_registers and not self.is_narrow else 256

    @property
    def blocks(self) -> int:
        """Return how many thread blocks share a multiprocessor."""
        return 512 // self.threads

    @property
    def defines(self) -> tuple[str, ...]:
        """Return the macros for the compiler."""
        tile = f"TILE_ROWS {self.rows}", f"TILE_COLUMNS {self.columns}", f"HELD {int(self.is_in_registers)}"
        return *tile, f"THREADS {self.threads}", f"BLOCKS {self.blocks}", f"UNROLL {4 if self.is_in_registers else 1}"

    @property
    def step(self) -> int:
        """Return the number of which the rows of a matrix must be a multiple."""
        return lcm(self.rows, self.columns)

    def tiles(self, n: int) -> int:
        """Return the number of tiles of a padded matrix of n rows."""
        size = -(-n // self.step) * self.step
        return size // self.rows * (size // self.columns)

    def shared_bytes(self, itemsize: int) -> int:
        """Return the bytes of shared memory: for the operands of a tile, or for the closure of pivot blocks."""
        operands = self.rows * (WIDTH + 4) + self.columns * WIDTH
        pivots = 2 * WIDTH * (WIDTH + 4) + WIDTH * WIDTH + 8 * WIDTH
        return itemsize * max(operands, pivots) + 16


#: The rows and columns of tiles that stay in registers, and of tiles that are read and written in every stage. A matrix
#: takes the first shape in registers with at most one tile for each multiprocessor. Tiles outside
#: `_TILES_FOR_ANY_DTYPE` need elements of 4 bytes and few instructions a pair, for up to 64 accumulators a thread.
#: Measured on an H200, 2026-11-21, float32 min-plus, by events, with the launch enqueued ahead of time. In registers, n
#: = 256 takes 60 µs, 1024 takes 0.204 ms, 1408 takes 0.353 ms and 2048 takes 0.834 ms. n = 1536 takes 0.496 ms, and
#: 0.66 ms in tiles of 256 x 128. For this n, int32 takes 0.488 ms and max-min 0.649 ms. Streamed, 4096 takes 6.45 ms,
#: 8192 takes 45.4 ms and 16384 takes 344 ms.
_REGISTER_TILES, _STREAMED_TILES = ((128, 64), (128, 128), (192, 128), (256, 128)), ((128, 128), (128, 64), (64, 64))
_TILES_FOR_ANY_DTYPE = ((128, 64), (64, 64))
_SHAPES = [
    LookAheadTiles(*tile, is_in_registers)
    for is_in_registers, tiles in ((True, _REGISTER_TILES), (False, _STREAMED_TILES))
    for tile in tiles
]
SMALLEST_SHAPE = _SHAPES[-1]  # the shape with the least shared memory
#: The shape beside concurrent products. Their thread blocks end one after the other, so half a multiprocessor is free
#: sooner than a whole one. Closures of n = 4096 by blocks of 512 take 5.17 ms with this shape. They take 5.27 ms with
#: the first of `_REGISTER_TILES`, which closes 512 rows in 104 µs without concurrent work. They take 5.22 ms with half
#: as many blocks of 128 x 128, which close 512 rows in 157 µs.
_CONCURRENT_SHAPE = LookAheadTiles(*_REGISTER_TILES[0], is_in_registers=True, is_narrow=True)


def look_ahead_shape(
    n: int,
    arithmetic: Arithmetic,
    multiprocessors: int = 132,
    shared_memory: int = 227 << 10,
    has_concurrent_work: bool = False,
) -> LookAheadTiles:
    """Return the tiles for n rows, within the shared memory of a block. One multiprocessor closes the pivot blocks.

    ``has_concurrent_work``: whether concurrent products keep the multiprocessors busy.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    wide = itemsize == 4 and not arithmetic.is_heavy
    for shape in _SHAPES:
        has_valid_tile = wide or (shape.rows, shape.columns) in _TILES_FOR_ANY_DTYPE
        is_possible = has_valid_tile and shape.shared_bytes(itemsize) <= shared_memory
        if is_possible and (not shape.is_in_registers or shape.tiles(n) < multiprocessors):
            return _CONCURRENT_SHAPE if has_concurrent_work and wide and shape is _SHAPES[0] else shape
    return SMALLEST_SHAPE


def is_closed_in_stages(
    arithmetic: Arithmetic, shared_memory: int = 227 << 10, has_concurrent_work: bool = False
) -> bool:
    """Return whether one matrix is closed by two launches a stage, for this much shared memory of a block.

    ``has_concurrent_work``: whether products run concurrently.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    return SMALLEST_SHAPE.shared_bytes(itemsize) > shared_memory or (
        itemsize in SINGLE_MATRIX_ITEMSIZES and not has_concurrent_work
    )


@dataclass(frozen=True)
class LaunchConfiguration:
    """The launch parameters of the kernel for the matrices of one size on one device."""

    kernel: Any
    tile: int  # the number of which the padded rows are a multiple
    sizes: tuple[Any, Any]  # the rows with padding, and the number of stages
    blocks: int
    threads: int
    shared_bytes: int
    launches: dict[int, PreparedLaunch] = field(default_factory=dict)  # by the row stride in elements

    def launch(self, stride: int) -> PreparedLaunch:
        """Return the prepared launch for matrices with this row stride, in elements.

        Each launch passes the matrix, the status, its first vertex, the barrier and the copies of blocks.
        """
        if stride not in self.launches:
            parameters = (None, np.int64(stride), *self.sizes, None, None, None, None)
            grid = (self.blocks,), (self.threads,)
            function = self.kernel.kernel
            self.launches[stride] = PreparedLaunch(function, *grid, parameters, self.shared_bytes, is_cooperative=True)
        return self.launches[stride]


@lru_cache(maxsize=1024)
def launch_configuration(
    arithmetic: Arithmetic, n: int, device: int, has_concurrent_work: bool = False
) -> LaunchConfiguration:
    """Return the launch parameters for matrices of n rows on ``device``, which must be the current device."""
    shape = look_ahead_shape(n, arithmetic, multiprocessors(), max_shared_memory(), has_concurrent_work)
    shared = shape.shared_bytes(np.dtype(arithmetic.dtype).itemsize)
    kernel = compile_kernel(FILE, "all_stages", arithmetic, shape.defines, shared, is_cooperative=True)
    size = -(-n // shape.step) * shape.step
    tasks = max(shape.tiles(size), size // 16)  # the tasks of the remainder, or of the panels
    room = min(shape.blocks * multiprocessors(), resident_blocks(kernel, shape.threads, shared))
    blocks = min(tasks + 1, room)  # one block closes the pivot blocks
    sizes = np.int32(size), np.int32(-(-n // WIDTH))
    return LaunchConfiguration(kernel, shape.step, sizes, blocks, shape.threads, shared)


def _look_ahead(plan: KernelPlan, A: Any, arithmetic: Arithmetic, has_concurrent_work: bool) -> None:
    """Run all stages in one cooperative launch, with a grid barrier after each phase."""
    import cupy

    n, itemsize, status = A.shape[0], A.itemsize, plan.status
    configuration = launch_configuration(arithmetic, n, cupy.cuda.runtime.getDevice(), has_concurrent_work)
    matrix = pad_matrix(A, configuration.tile, plan.zero, needs_alignment=True)
    barrier, copies = words_of(cupy.cuda.get_current_stream()), cupy.cuda.alloc(4 * WIDTH**2 * itemsize)
    word = 0 if status.word is None else status.word.data.ptr
    configuration.launch(matrix.strides[0] // itemsize)(
        matrix.data.ptr, word, status.first_vertex, barrier.data.ptr, copies.ptr
    )
    if matrix is not A:
        A[...] = matrix[:n, :n]


# ------------------------------------------------------------------------------------------------- the closure


def close(plan: KernelPlan, A: Any, *, look_ahead: bool = False, has_concurrent_work: bool = False) -> None:
    """Compute A ← A* in place for A (n, n) on the device, or a stack (count, n, n) together (see `stacks`).

    The function uses the fastest kernel at this size on this device, or with ``look_ahead`` the look-ahead kernel. The
    work is enqueued on the current stream, and the function does not wait. ``has_concurrent_work``: whether concurrent
    products keep the device busy.

    Raises `AlgebraError` for a ⊕ that is not idempotent, and for packed bits.
    """
    arithmetic = arithmetic_of(plan)
    check_closed_whole(plan, arithmetic, "staged")
    strategy = _strategy(arithmetic, A.shape[-1], A.ndim == 3, look_ahead, max_shared_memory(), has_concurrent_work)
    if strategy == "block":
        close_block(plan, A)
    elif strategy == "stages":
        close_stack(plan, A if A.ndim == 3 else A[None])
    else:
        _look_ahead(plan, A, arithmetic, has_concurrent_work)


@lru_cache(maxsize=1024)
def _strategy(
    arithmetic: Arithmetic, n: int, is_stack: bool, look_ahead: bool, shared_memory: int, has_concurrent_work: bool
) -> Literal["block", "stages", "one launch"]:
    """Return how matrices of n rows are closed, for this much shared memory of a block.

    ``look_ahead``: the caller named the kernel, so it also closes matrices of few rows.
    """
    if is_stack:
        return "stages" if n > fast_rows(arithmetic) else "block"
    if n <= (WIDTH if look_ahead else single_block_rows(arithmetic)):
        return "block"
    if not look_ahead and is_closed_in_stages(arithmetic, shared_memory, has_concurrent_work):
        return "stages"
    return "one launch"


def check_closed_whole(plan: KernelPlan, arithmetic: Arithmetic, method: str) -> None:
    """Raise `AlgebraError` for packed bits or a ⊕ that is not idempotent.

    The kernels for whole matrices support neither.
    """
    if plan.storage == "bits":
        raise AlgebraError(f"{method} takes elements, not packed bits: use rkleene")
    if not arithmetic.idempotent:
        raise AlgebraError(f"{method} takes an idempotent ⊕, and that of {plan.semiring.name} is not: use rkleene")


def pad_matrix(A: Any, tile: int, zero: Any, *, needs_alignment: bool) -> Any:
    """Return A itself where the kernels can work on it, otherwise a copy padded with 0̄.

    ``needs_alignment``: whether rows must begin at multiples of 16 bytes, and must not overlap.
    """
    import cupy

    n = A.shape[0]
    fits = A.strides[0] % 16 == 0 and A.data.ptr % 16 == 0 and A.strides[0] >= n * A.itemsize
    if A.strides[1] == A.itemsize and n % tile == 0 and (fits or not needs_alignment):
        return A
    size = -(-n // tile) * tile
    copy = cupy.full((size, size), zero, A.dtype)
    copy[:n, :n] = A
    return copy


# --------------------------------------------------------------------------------------------- barriers

_STREAMS = 8  # the most streams of one recording
_PER_THREAD = 2  # the address cudaStreamPerThread

_words: dict[tuple[int, int], Any] = {}
_thread_local = threading.local()


def words_of(stream: Any) -> Any:
    """Return the barrier words of a stream of the current device.

    A captured launch has words of its own, because the graph may run while the stream does other work. These words
    belong to the context `recorded_words`, or are new words that the graph zeroes.
    """
    import cupy

    key = cupy.cuda.runtime.getDevice(), _stream_key(stream)
    if stream.is_capturing():
        own_words: RecordedWords | None = getattr(_thread_local, "recorded_words", None)
        return cupy.zeros(3, np.uint32) if own_words is None else own_words.words_for(key)
    if key not in _words:
        _words[key] = cupy.zeros(3, np.uint32)
    return _words[key]


def _stream_key(stream: Any) -> int:
    """Return the key of a stream: its address, or a key of the thread for its default stream.

    The per-thread default streams of all threads have the same address.
    """
    return -threading.get_ident() if stream.ptr == _PER_THREAD else int(stream.ptr)


class RecordedWords:
    """Barrier words for the streams of one recording, a cache line each, zeroed before the recording begins."""

    def __init__(self) -> None:
        import cupy

        self._all = cupy.zeros((_STREAMS, 32), np.uint32)
        self._places: dict[tuple[int, int], int] = {}

    def words_for(self, key: tuple[int, int]) -> Any:
        """Return the words of a stream of a device in this recording."""
        return self._all[self._places.setdefault(key, len(self._places))]


@contextmanager
def recorded_words() -> Iterator[RecordedWords]:
    """Return a context in which this thread captures a graph whose nodes need not zero their barrier words.

    The graph must not run twice at the same time. A node that zeroes words has no priority, whatever its stream. It
    waits until every block of the concurrent products has begun. So the work that should run concurrently with the
    products would run after them. Enter the context before the capture, on its stream, and keep its value as long as
    the graph.
    """
    _thread_local.recorded_words = RecordedWords()
    try:
        yield _thread_local.recorded_words
    finally:
        _thread_local.recorded_words = None
