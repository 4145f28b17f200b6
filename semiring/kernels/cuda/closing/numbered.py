"""The staged Floyd-Warshall kernels: one numbered file an idea, one table, one way to run them.

    close(plan, A)              the fastest: kernel 6, or its stages by two launches each (see `stacks`)
    close(plan, A, kernel="4")  any of `KERNELS`, to see what each idea is worth
    close(plan, A[None])        two launches a stage, as for a stack of many

Every kernel takes an idempotent ⊕. Kernels 1 to 5 are those of the papers, which know no star: they take semirings
whose star is 1̄ wherever it exists. n is any; where n is no multiple of the tile or rows are not aligned, the matrix is
closed in a copy padded with 0̄. A cycle that improves without end leaves its vertex (ours: the first pivot without a
star) in ``plan.status.word``; the matrix is then undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm
from typing import Any, Literal

import numpy as np

from semiring.errors import AlgebraError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.barriers import words_of
from semiring.kernels.cuda.closing.blocks import alone_rows, close_block, fast_rows
from semiring.kernels.cuda.closing.modules import granted, multiprocessors, resident_blocks
from semiring.kernels.cuda.closing.modules import kernel as compiled
from semiring.kernels.cuda.closing.sources import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.stacks import ALONE, close_stack
from semiring.kernels.cuda.entries.prepared_launch import Prepared

__all__ = ["KERNELS", "LEAST", "WIDTH", "Shape", "Staged", "close", "cut_for", "goes_in_stages", "look_ahead_shape"]

_NOTHING = nullcontext()
WIDTH = 64  # pivots of a stage of kernel 6


@dataclass(frozen=True)
class Shape:
    """How kernel 6 is compiled: the rows and columns of its tiles, and where they are between the stages.

    If ``held``, each thread block holds one tile in registers from the first stage to the last, and takes a
    multiprocessor for itself, or half of one if ``narrow``. Otherwise tiles are read from memory and written back in
    every stage.
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
        """How many thread blocks share a multiprocessor."""
        return 512 // self.threads

    @property
    def defines(self) -> tuple[str, ...]:
        """Macros for the compiler."""
        tile = f"TILE_ROWS {self.rows}", f"TILE_COLUMNS {self.columns}", f"HELD {int(self.held)}"
        return *tile, f"THREADS {self.threads}", f"BLOCKS {self.blocks}", f"UNROLL {4 if self.held else 1}"

    @property
    def step(self) -> int:
        """The number of rows of a matrix must be a multiple of this."""
        return lcm(self.rows, self.columns)

    def tiles(self, n: int) -> int:
        """How many tiles a matrix of n rows has, once it is padded."""
        size = -(-n // self.step) * self.step
        return size // self.rows * (size // self.columns)

    def shared(self, itemsize: int) -> int:
        """Bytes of shared memory: the operands of a tile, or what closes pivot blocks, whichever is larger."""
        operands = self.rows * (WIDTH + 4) + self.columns * WIDTH
        pivots = 2 * WIDTH * (WIDTH + 4) + WIDTH * WIDTH + 8 * WIDTH
        return itemsize * max(operands, pivots) + 16


#: Tiles that are held: the first of which there is at most one for each multiprocessor; and tiles that are streamed.
#: Those that `_ANY` does not name are for elements of 4 bytes and few instructions a pair: up to 64 accumulators a
#: thread. Kernel 6 on an H200, 2026-11-21, float32 min-plus, by events, the launch enqueued ahead of time: n = 256 in
#: 60 µs, 1024 in 0.204 ms, 1408 in 0.353, 1536 in 0.496 (int32 0.488, max-min 0.649; 0.66 in tiles of 256 x 128), 2048
#: in 0.834. Streamed, 4096 takes 6.45, 8192 45.4, 16384 344.
_HELD, _STREAMED = ((128, 64), (128, 128), (192, 128), (256, 128)), ((128, 128), (128, 64), (64, 64))
_ANY = ((128, 64), (64, 64))
_SHAPES = [Shape(*tile, held) for held, tiles in ((True, _HELD), (False, _STREAMED)) for tile in tiles]
LEAST = _SHAPES[-1]  # takes the least shared memory
#: Beside products, whose blocks leave one after the other: half a multiprocessor is free sooner than a whole one.
#: Closures of n = 4096 by blocks of 512 take 5.17 ms with it, 5.27 with the first of `_HELD`, which closes 512 in
#: 104 µs where it is alone, and 5.22 with half as many blocks of 128 x 128, for which 512 takes 157 µs.
_BESIDE = Shape(*_HELD[0], held=True, narrow=True)


@dataclass(frozen=True)
class Staged:
    """One row of the table: which file, after whom, in tiles of which side."""

    file: str
    idea: str
    source: str
    tile: int
    run: Callable[[Launcher], None] | None  # None: all in one launch, by `_look_ahead`

    @property
    def any_star(self) -> bool:
        """Whether it takes semirings whose star is not 1̄ everywhere."""
        return self.run is None


@dataclass(frozen=True)
class Launcher:
    """One closure of A (n, n), n a multiple of the tile, rows contiguous, by some launches a stage."""

    file: str
    arithmetic: Arithmetic
    plan: KernelPlan
    A: Any
    tile: int

    @property
    def n(self) -> int:
        return int(self.A.shape[0])

    @property
    def stride(self) -> Any:
        return _stride(self.A)

    def launch(self, name: str, grid: tuple[int, ...], threads: tuple[int, ...], *arguments: Any) -> None:
        """A kernel of the file by name; Python integers are 32-bit ones of C."""
        converted = [np.int32(x) if isinstance(x, int) else x for x in arguments]
        compiled(self.file, name, self.arithmetic)(grid, threads, tuple(converted))


def _stride(A: Any) -> Any:
    return np.int64(A.strides[0] // A.itemsize)


def _status(plan: KernelPlan) -> tuple[Any, Any]:
    word = plan.status.word
    return (0 if word is None else word), np.uint32(plan.status.first)


# ------------------------------------------------------------------------------------------------- how each one runs


def _per_cell(name: str, block: tuple[int, int], covers: tuple[int, int]) -> Callable[[Launcher], None]:
    def run(closure: Launcher) -> None:
        n = closure.n
        grid = (-(-n // covers[0]), -(-n // covers[1]))
        for k in range(n):
            closure.launch(name, grid, block, closure.A, closure.stride, n, k)

    return run


def _per_row(name: str) -> Callable[[Launcher], None]:
    def run(closure: Launcher) -> None:
        n = closure.n
        blocks = n * -(-n // 128)  # in one dimension: the others end at 65535
        for k in range(n):
            closure.launch(name, (blocks,), (128,), closure.A, closure.stride, n, k)

    return run


def _three_phases(closure: Launcher, *side: int) -> None:
    tiles = closure.n // closure.tile
    for stage in range(tiles):
        arguments = (closure.A, closure.stride, stage, *side)
        closure.launch("independent", (1,), (256,), *arguments)
        if tiles > 1:
            closure.launch("singly_dependent", (tiles, 2), (256,), *arguments)
            closure.launch("doubly_dependent", (tiles, tiles), (256,), *arguments)


def _staged_load(closure: Launcher) -> None:
    import cupy

    tiles = closure.n // closure.tile
    T = cupy.empty(closure.n**2, closure.A.dtype)
    closure.launch("to_tiles", (tiles, tiles), (256,), T, closure.A, closure.stride)
    for stage in range(tiles):
        closure.launch("independent", (1,), (256,), T, tiles, stage)
        if tiles > 1:
            closure.launch("singly_dependent", (tiles, 2), (256,), T, tiles, stage)
            closure.launch("doubly_dependent", (tiles, tiles), (64,), T, tiles, stage)
    closure.launch("from_tiles", (tiles, tiles), (256,), closure.A, T, closure.stride)


def _two_phases(closure: Launcher) -> None:
    import cupy

    tiles = closure.n // closure.tile
    aside = cupy.empty(closure.tile**2, closure.A.dtype)
    first = compiled(closure.file, "replicated", closure.arithmetic)
    blocks = min(2 * tiles, resident_blocks(first, 256, 0))
    for stage in range(tiles):
        closure.launch("replicated", (blocks,), (256,), closure.A, closure.stride, tiles, stage, aside)
        closure.launch("others", (tiles, tiles), (256,), closure.A, closure.stride, stage, aside)


def look_ahead_shape(
    n: int,
    arithmetic: Arithmetic,
    multiprocessors: int = 132,
    shared_memory: int = 227 << 10,
    beside: bool = False,
) -> Shape:
    """The tiles for n rows, where a block may have so many bytes; one multiprocessor closes the pivot blocks.

    ``beside``: whether products keep the multiprocessors busy.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    wide = itemsize == 4 and not arithmetic.is_heavy
    for shape in _SHAPES:
        possible = (wide or (shape.rows, shape.columns) in _ANY) and shape.shared(itemsize) <= shared_memory
        if possible and (not shape.held or shape.tiles(n) < multiprocessors):
            return _BESIDE if beside and wide and shape is _SHAPES[0] else shape
    return LEAST


def goes_in_stages(arithmetic: Arithmetic, shared_memory: int = 227 << 10, beside: bool = False) -> bool:
    """Whether one matrix is closed by two launches a stage, where a block may have so many bytes, ``beside`` products
    or alone.
    """
    itemsize = np.dtype(arithmetic.dtype).itemsize
    return LEAST.shared(itemsize) > shared_memory or (itemsize in ALONE and not beside)


@dataclass(frozen=True)
class Cut:
    """How kernel 6 closes the matrices of one size on one device."""

    kernel: Any
    tile: int  # which divides the rows
    sizes: tuple[Any, Any]  # rows with padding, and stages
    blocks: int
    threads: int
    shared: int  # bytes
    launches: dict[int, Prepared] = field(default_factory=dict)  # by the elements from row to row

    def launch(self, stride: int) -> Prepared:
        """The prepared launch for matrices whose rows are so many elements apart.

        What comes with each launch: the matrix, status, its first vertex, barrier and the copies aside.
        """
        if stride not in self.launches:
            parameters = (None, np.int64(stride), *self.sizes, None, None, None, None)
            grid = (self.blocks,), (self.threads,)
            function = self.kernel.kernel
            self.launches[stride] = Prepared(function, *grid, parameters, self.shared, cooperative=True)
        return self.launches[stride]


@lru_cache(maxsize=1024)
def cut_for(file: str, arithmetic: Arithmetic, n: int, device: int, beside: bool = False) -> Cut:
    """The `Cut` of matrices of n rows on the current device, which is ``device``; ``beside`` products or alone."""
    shape = look_ahead_shape(n, arithmetic, multiprocessors(), granted(), beside)
    shared = shape.shared(np.dtype(arithmetic.dtype).itemsize)
    kernel = compiled(file, "all_stages", arithmetic, shape.defines, shared, cooperative=True)
    size = -(-n // shape.step) * shape.step
    tasks = max(shape.tiles(size), size // 16)  # of the remainder, of the panels
    room = min(shape.blocks * multiprocessors(), resident_blocks(kernel, shape.threads, shared))
    blocks = min(tasks + 1, room)  # one closes the pivot blocks
    sizes = np.int32(size), np.int32(-(-n // WIDTH))
    return Cut(kernel, shape.step, sizes, blocks, shape.threads, shared)


def _look_ahead(plan: KernelPlan, A: Any, file: str, arithmetic: Arithmetic, beside: bool) -> None:
    """All stages in one cooperative launch, a barrier of the grid after each phase."""
    import cupy

    n, itemsize, status = A.shape[0], A.itemsize, plan.status
    cut = cut_for(file, arithmetic, n, cupy.cuda.runtime.getDevice(), beside)
    matrix = _padded(A, cut.tile, plan.zero)
    barrier, aside = words_of(cupy.cuda.get_current_stream()), cupy.cuda.alloc(4 * WIDTH**2 * itemsize)
    word = 0 if status.word is None else status.word.data.ptr
    cut.launch(matrix.strides[0] // itemsize)(matrix.data.ptr, word, status.first, barrier.data.ptr, aside.ptr)
    if matrix is not A:
        A[...] = matrix[:n, :n]


_HARISH = "Harish, Narayanan, HiPC 2007"
_LUND = "Lund, Smith 2010"
KERNELS: Mapping[str, Staged] = {
    "1": Staged(
        "1_per_cell.cu", "a launch a pivot, a thread a cell", _HARISH, 1, _per_cell("per_cell", (16, 16), (16, 16))
    ),
    "1b": Staged(
        *("1_per_cell.cu", "a launch a pivot, a block a submatrix of 64 x 64", "Buluç, Gilbert, Budak 2010", 1),
        _per_cell("rank_one", (16, 16), (64, 64)),
    ),
    "1c": Staged(
        *("1_per_cell.cu", "blocks one row high, its value in shared memory", "Bertoldi, algorithm 4", 1),
        _per_row("per_row"),
    ),
    "1d": Staged(
        *("1_per_cell.cu", "the same, from global memory", "Bertoldi, algorithm 5", 1),
        _per_row("per_row_direct"),
    ),
    "2": Staged(
        *("2_three_phases.cu", "three phases, all tiles in shared memory", "Katz, Kider 2008", 32),
        lambda closure: _three_phases(closure, 32),
    ),
    "3": Staged("3_unrolled.cu", "the same, fewer instructions, unrolled", _LUND, 32, _three_phases),
    "4": Staged("4_staged_load.cu", "a tile in registers, panels in slices, cyclic k", _LUND, 32, _staged_load),
    "5": Staged("5_two_phases.cu", "two phases, the diagonal tile in every block", "in Portuguese", 32, _two_phases),
    "6": Staged("6_look_ahead.cu", "look-ahead, register tiles, one launch", "ours", WIDTH, None),
}


# ------------------------------------------------------------------------------------------------- the one way to run


def close(plan: KernelPlan, A: Any, kernel: str | int | None = None, *, beside: bool = False) -> None:
    """A ← A* in place, A (n, n) on the device; a stack (count, n, n) all at once (see `stacks`).

    By one of `KERNELS`, or by what is fastest at this size, on this device. Enqueued on the plan's stream, nothing
    awaited. ``beside``: whether products keep the device busy meanwhile.

    Raises `AlgebraError` for a ⊕ that is not idempotent, packed bits, and kernels 1 to 5 where a star may differ from
    1̄.
    """
    chosen = _named("6" if kernel is None else str(kernel))
    arithmetic = arithmetic_of(plan)
    _check(plan, chosen, arithmetic)
    way = _way(arithmetic, A.shape[-1], A.ndim == 3, kernel is not None, chosen.any_star, granted(), beside)
    with plan.stream or _NOTHING:
        if way == "block":
            close_block(plan, A)
        elif way == "stages":
            close_stack(plan, A if A.ndim == 3 else A[None])
        elif way == "one launch":
            _look_ahead(plan, A, chosen.file, arithmetic, beside)
        elif A.size:
            _in_launches(plan, A, chosen, arithmetic)


@lru_cache(maxsize=1024)
def _way(
    arithmetic: Arithmetic, n: int, stacked: bool, named: bool, any_star: bool, shared_memory: int, beside: bool
) -> Literal["block", "stages", "one launch", "launches"]:
    """How matrices of n rows are closed where a block may have so many bytes.

    ``named``: whether the caller named the kernel, so that few rows take it too.
    """
    if stacked:
        return "stages" if n > fast_rows(arithmetic) else "block"
    if any_star and n <= (WIDTH if named else alone_rows(arithmetic)):
        return "block"
    if not named and goes_in_stages(arithmetic, shared_memory, beside):
        return "stages"
    return "one launch" if any_star else "launches"


def _in_launches(plan: KernelPlan, A: Any, chosen: Staged, arithmetic: Arithmetic) -> None:
    """Close A by one of kernels 1 to 5. Here 1̄ is set on the diagonal, and looked at in the end: they do neither."""
    assert chosen.run is not None
    matrix = _padded(A, chosen.tile, plan.zero)
    around = Launcher("diagonal.cu", arithmetic, plan, matrix, 1)
    n, blocks = around.n, (-(-around.n // 256),)
    around.launch("add_one", blocks, (256,), matrix, around.stride, n)
    chosen.run(Launcher(chosen.file, arithmetic, plan, matrix, chosen.tile))
    if arithmetic.divergence is not None and plan.status.word is not None:
        around.launch("inspect", blocks, (256,), matrix, around.stride, n, *_status(plan))
    if matrix is not A:
        A[...] = matrix[: A.shape[0], : A.shape[0]]


def _named(name: str) -> Staged:
    if name not in KERNELS:
        raise UnknownNameError("staged kernel", name, KERNELS)
    return KERNELS[name]


def _check(plan: KernelPlan, chosen: Staged, arithmetic: Arithmetic) -> None:
    name = plan.semiring.name
    if plan.storage == "bits":
        raise AlgebraError("the staged kernels take elements, not packed bits: use rkleene")
    if not arithmetic.idempotent:
        raise AlgebraError(f"the staged kernels take an idempotent ⊕, and that of {name} is not: use rkleene")
    if arithmetic.star is not None and not chosen.any_star:
        raise AlgebraError(
            f"{chosen.file} takes semirings whose star is 1, and that of {name} is {plan.semiring.star_expression}: "
            "use kernel 6"
        )


def _padded(A: Any, tile: int, zero: Any) -> Any:
    """A itself where the kernels can work on it, else a copy with 0̄ around it."""
    import cupy

    n = A.shape[0]
    aligned = A.strides[0] % 16 == 0 and A.data.ptr % 16 == 0 and A.strides[0] >= n * A.itemsize
    if A.strides[1] == A.itemsize and n % tile == 0 and (aligned or tile < WIDTH):
        return A
    size = -(-n // tile) * tile
    copy = cupy.full((size, size), zero, A.dtype)
    copy[:n, :n] = A
    return copy
