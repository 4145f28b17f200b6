"""Launch the kernels of papers, which one table lists under the names of their methods.

    close(plan, A, "katz_kider")                   one of `KERNELS`, to measure the effect of each idea
    close(plan, A, "katz_kider", constants=True)   a variant, to measure one of the changes of its successor alone
    multiply_add_plain(plan, C, A, B)              the simplest product, for the recursion of Buluç, Gilbert and Budak

`semiring.algorithms.papers` describes the methods, with their citations and the deviations from the papers. The papers
define no star. So their kernels take an idempotent ⊕ whose star is 1̄ wherever it exists, and any n. If n is no
multiple of the tile, the matrix is closed in a copy padded with 0̄. If a cycle improves without end, one of its
vertices is stored in ``plan.status.word``, and the matrix is then undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from semiring.errors import AlgebraError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import Arithmetic, arithmetic_of
from semiring.kernels.cuda.closing.look_ahead import check_closed_whole, pad_matrix
from semiring.kernels.cuda.closing.modules import compile_kernel, multiprocessors, resident_blocks

_DIAGONAL, _PRODUCT = "unit_diagonal.cu", "plain_product.cu"

#: Launches a kernel, given its name, the grid, the threads of a block and its arguments. Python integers become int32.
Launch = Callable[..., None]


@dataclass(frozen=True)
class Closing:
    """A closure of A (n, n) by the kernels of one file. n is a multiple of ``tile``, and rows are contiguous."""

    launch: Launch
    A: Any
    tile: int
    resident: Callable[[str, int], int]  # returns how many blocks of a kernel run at once, by its name and threads
    empty: Callable[[int], Any]  # allocates memory for a number of elements
    threads: int = 256  # threads of a block, where the method has a choice
    last_threads: int = 0  # threads of a block of the last phase, if they are other ones

    @property
    def n(self) -> int:
        return int(self.A.shape[0])

    @property
    def tiles(self) -> int:
        return self.n // self.tile

    @property
    def stride(self) -> Any:
        return np.int64(self.A.strides[0] // self.A.itemsize)


@dataclass(frozen=True)
class PaperKernel:
    """A kernel of the table: its file and macros, the side of its tiles, and its launch function.

    ``source`` is its paper, and ``idea`` describes what distinguishes the kernel. ``macros`` has the macro of each
    option of the method, which has the value of the option. ``threads`` are those of a block, and ``last_threads``
    those of a block of the last phase, if they are other ones.
    """

    file: str
    source: str
    idea: str
    tile: int
    launch_all: Callable[[Closing], None]
    defines: tuple[str, ...] = ()
    threads: int = 256
    last_threads: int = 0
    macros: Mapping[str, str] = field(default_factory=dict)

    def with_options(self, **options: int) -> PaperKernel:
        """Return the kernel with some options of its method."""
        defines = tuple(f"{self.macros[name]} {int(value)}" for name, value in options.items())
        last = 64 if options.get("staged") else self.last_threads
        threads = options.get("threads", self.threads)
        return replace(self, defines=self.defines + defines, threads=threads, last_threads=last)


# ------------------------------------------------------------------------------------------------- launch functions


def _launch_per_cell(name: str, block_rows: int, closing: Closing) -> None:
    """Launch a kernel for each pivot, with 16 × 16 threads for each submatrix of ``block_rows`` rows and columns."""
    across = -(-closing.n // block_rows)
    for k in range(closing.n):
        closing.launch(name, (across, across), (16, 16), closing.A, closing.stride, closing.n, k)


def _launch_per_row(name: str, closing: Closing) -> None:
    """Launch a kernel for each pivot, with thread blocks that are one row high."""
    threads = closing.threads
    blocks = closing.n * -(-closing.n // threads)  # in the x dimension, because y and z are limited to 65535
    for k in range(closing.n):
        closing.launch(name, (blocks,), (threads,), closing.A, closing.stride, closing.n, k)


def _launch_three_phases(closing: Closing, *side: int) -> None:
    """Launch three kernels in each stage, one for each phase."""
    tiles = closing.tiles
    for stage in range(tiles):
        arguments = (closing.A, closing.stride, stage, *side)
        closing.launch("independent", (1,), (closing.threads,), *arguments)
        if tiles > 1:
            closing.launch("singly_dependent", (tiles, 2), (closing.threads,), *arguments)
            threads = closing.last_threads or closing.threads
            closing.launch("doubly_dependent", (tiles, tiles), (threads,), *arguments)


def _launch_three_phases_with_side(closing: Closing) -> None:
    _launch_three_phases(closing, closing.tile)


def _launch_staged_load(closing: Closing) -> None:
    """Launch three kernels in each stage, on a copy of the matrix in the doubly tiled order."""
    tiles, T = closing.tiles, closing.empty(closing.n**2)
    closing.launch("to_tiles", (tiles, tiles), (256,), T, closing.A, closing.stride)
    for stage in range(tiles):
        closing.launch("independent", (1,), (256,), T, tiles, stage)
        if tiles > 1:
            closing.launch("singly_dependent", (tiles, 2), (256,), T, tiles, stage)
            closing.launch("doubly_dependent", (tiles, tiles), (closing.last_threads,), T, tiles, stage)
    closing.launch("from_tiles", (tiles, tiles), (256,), closing.A, T, closing.stride)


def _launch_two_phases(closing: Closing) -> None:
    """Launch two kernels in each stage, the first with as many blocks as run at once."""
    tiles, threads, closed_copy = closing.tiles, closing.threads, closing.empty(closing.tile**2)
    blocks = min(2 * tiles, closing.resident("replicate_diagonal", threads))
    for stage in range(tiles):
        closing.launch(
            "replicate_diagonal", (blocks,), (threads,), closing.A, closing.stride, tiles, stage, closed_copy
        )
        closing.launch("doubly_dependent", (tiles, tiles), (threads,), closing.A, closing.stride, stage, closed_copy)


_HARISH, _KATZ, _GAIOSO = "Harish, Narayanan 2007", "Katz, Kider 2008", "Gaioso et al. 2013"
_BULUC, _BERTOLDI, _LUND = "Buluç, Gilbert, Budak 2010", "Bertoldi", "Lund, Smith 2010"


KERNELS: Mapping[str, PaperKernel] = {
    "harish_narayanan": PaperKernel(
        *("harish_narayanan.cu", _HARISH, "a launch for each pivot, a thread for each cell", 1),
        partial(_launch_per_cell, "per_cell", 16),
    ),
    "buluc_iterative": PaperKernel(
        *("buluc_iterative.cu", _BULUC, "a rank-one update for each pivot, a block for each 64 × 64 submatrix", 1),
        partial(_launch_per_cell, "rank_one", 64),
    ),
    **{
        name: PaperKernel(
            *("bertoldi_cuda.cu", _BERTOLDI, f"blocks one row high, the row's value {place}", 1),
            partial(_launch_per_row, kernel),
            threads=128,
            macros={"threads": "THREADS"},
        )
        for name, kernel, place in (
            ("bertoldi_cuda_shared", "per_row", "in shared memory"),
            ("bertoldi_cuda", "per_row_direct", "from the cache"),
        )
    },
    "katz_kider": PaperKernel(
        *("katz_kider.cu", _KATZ, "three phases, all tiles in shared memory", 32, _launch_three_phases_with_side),
        macros={"constants": "CONSTANT_SIDE", "threads": "THREADS"},
    ),
    "lund_smith_unrolled": PaperKernel(
        "lund_smith_unrolled.cu", _LUND, "three phases, shifts and masks, unrolled", 32, _launch_three_phases
    ),
    "lund_smith_registers": PaperKernel(
        *("lund_smith_unrolled.cu", _LUND, "the same, the doubly dependent tile in registers", 32),
        _launch_three_phases,
        ("IN_REGISTERS",),
        macros={"staged": "STAGED", "cyclic": "CYCLIC"},
    ),
    "lund_smith": PaperKernel(
        *("lund_smith.cu", _LUND, "the same, panels in slices of four pivots, cyclic order", 32, _launch_staged_load),
        last_threads=64,
        macros={
            **{"slice": "SLICE", "asynchronous": "ASYNC", "wide": "WIDE", "paired": "PAIRED", "reread": "REREAD"},
            "cyclic": "CYCLIC",
        },
    ),
    "gaioso": PaperKernel(
        *("gaioso.cu", _GAIOSO, "two phases, the diagonal tile closed in every block, 1,024 threads", 32),
        _launch_two_phases,
        threads=1024,
        macros={"threads": "THREADS"},
    ),
}
#: The names of the kernels of papers, which are methods of `semiring.closure`.
METHODS = tuple(KERNELS)


# ------------------------------------------------------------------------------------------------- closures, products


def close(plan: KernelPlan, A: Any, name: str, *, blocks: int | None = None, **options: int) -> None:
    """Compute A ← A* in place for A (n, n) on the device, by one of `KERNELS`.

    The work is enqueued on the current stream, and the function does not wait. ``blocks`` is for `gaioso` the number of
    blocks of the first phase on each multiprocessor, by default as many as fit. Other options set a macro of the
    kernel, `PaperKernel.macros`.

    Raises `UnknownNameError` for another name. Raises `AlgebraError` for packed bits, for a ⊕ that is not idempotent,
    and if a star may differ from 1̄.
    """
    if name not in KERNELS:
        raise UnknownNameError("kernel of a paper", name, KERNELS)
    arithmetic, paper_kernel = arithmetic_of(plan), KERNELS[name]
    paper_kernel = paper_kernel.with_options(**options)
    check_closed_whole(plan, arithmetic, name)
    if arithmetic.star is not None:
        raise AlgebraError(
            f"{name} closes semirings whose star is 1, and that of {plan.semiring.name} is "
            f"{plan.semiring.star_expression}: use staged, or rkleene"
        )
    if A.size:
        _close(plan, A, paper_kernel, arithmetic, blocks)


def _close(plan: KernelPlan, A: Any, paper_kernel: PaperKernel, arithmetic: Arithmetic, blocks: int | None) -> None:
    """Close A, which is not empty.

    The kernels neither set 1̄ on the diagonal nor detect divergence. So the function sets the diagonal before, and
    inspects it afterwards.
    """
    import cupy

    matrix = pad_matrix(A, paper_kernel.tile, plan.zero, needs_alignment=False)
    status = plan.status

    def starter(file: str, defines: tuple[str, ...]) -> Launch:
        def launch(kernel: str, grid: tuple[int, ...], threads: tuple[int, ...], *arguments: Any) -> None:
            converted = [np.int32(x) if isinstance(x, int) else x for x in arguments]
            compile_kernel(file, kernel, arithmetic, defines)(grid, threads, tuple(converted))

        return launch

    def resident(kernel: str, threads: int) -> int:
        if blocks is not None:
            return blocks * multiprocessors()
        return resident_blocks(compile_kernel(paper_kernel.file, kernel, arithmetic, paper_kernel.defines), threads, 0)

    run = starter(paper_kernel.file, paper_kernel.defines)
    empty = partial(cupy.empty, dtype=A.dtype)
    threads = paper_kernel.threads, paper_kernel.last_threads
    closing = Closing(run, matrix, paper_kernel.tile, resident, empty, *threads)
    diagonal, n = starter(_DIAGONAL, ()), closing.n
    around = (-(-n // 256),), (256,), matrix, closing.stride, n
    diagonal("add_one", *around)
    paper_kernel.launch_all(closing)
    if arithmetic.divergence is not None and status.word is not None:
        diagonal("inspect", *around, status.word, np.uint32(status.first_vertex))
    if matrix is not A:
        A[...] = matrix[: A.shape[0], : A.shape[0]]


def count_launches(name: str, n: int) -> int:
    """Return how many kernels the method ``name`` of `KERNELS` launches to close n vertices."""
    paper_kernel, count = KERNELS[name], 0

    def count_launch(*_: Any) -> None:
        nonlocal count
        count += 1

    size = -(-n // paper_kernel.tile) * paper_kernel.tile
    outline = np.broadcast_to(np.zeros(1, np.float32), (size, size))
    threads = paper_kernel.threads, paper_kernel.last_threads
    paper_kernel.launch_all(Closing(count_launch, outline, paper_kernel.tile, lambda *_: 1, lambda *_: None, *threads))
    return count


def multiply_add_plain(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """Compute C ← C ⊕ A ⊗ B for any strides, by 16 × 16 tiles in shared memory, with one thread for each entry.

    The work is enqueued on the current stream, and the function does not wait.
    """
    (m, n), k = C.shape, A.shape[1]
    if not C.size or not k:
        return
    strides = [np.int64(stride // x.itemsize) for x in (C, A, B) for stride in x.strides]
    run = compile_kernel(_PRODUCT, "plain_product", arithmetic_of(plan))
    run((-(-n // 16), -(-m // 16)), (16, 16), (C, A, B, np.int32(m), np.int32(n), np.int32(k), *strides))
