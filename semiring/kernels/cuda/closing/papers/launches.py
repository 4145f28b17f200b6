"""The kernels of papers: one table, one way to run them.

    close(plan, A, "katz_kider")             any of `KERNELS`, to see what each idea is worth
    close(plan, A, "katz_kider_constants")   a variant of one, which separates what its successor gains
    multiply_add_plain(plan, C, A, B)        the plainest product, for the recursion of Buluç, Gilbert and Budak

The methods, with their citations and what deviates, are in `semiring.algorithms.papers`. The papers know no star: their
kernels take an idempotent ⊕ whose star is 1̄ wherever it exists. n is any; where it is no multiple of the tile, the
matrix is closed in a copy padded with 0̄. A vertex on a cycle that improves without end is left in
``plan.status.word``; the matrix is then undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from semiring.errors import AlgebraError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.look_ahead import check_closed_whole, padded
from semiring.kernels.cuda.closing.modules import kernel as compiled
from semiring.kernels.cuda.closing.modules import multiprocessors, resident_blocks
from semiring.kernels.cuda.closing.sources import Arithmetic, arithmetic_of

__all__ = ["KERNELS", "METHODS", "PaperKernel", "close", "launches", "multiply_add_plain"]

_NOTHING = nullcontext()
_DIAGONAL, _PRODUCT = "unit_diagonal.cu", "plain_product.cu"

#: Starts one kernel: its name, the grid, the threads of a block, its arguments; Python integers are 32-bit ones of C.
Launch = Callable[..., None]


@dataclass(frozen=True)
class Closing:
    """One closure of A (n, n), n a multiple of the tile, the entries of a row adjacent, by launches of one file."""

    launch: Launch
    A: Any
    tile: int
    resident: Callable[[str, int], int]  # how many blocks of a kernel run at once, by its name and threads
    empty: Callable[[int], Any]  # memory for so many elements

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
    """A kernel of the table: its file and macros, its paper, the side of its tiles, and its launch function."""

    file: str
    source: str
    idea: str
    tile: int
    run: Callable[[Closing], None]
    defines: tuple[str, ...] = ()
    is_method: bool = True  # whether the paper has it; otherwise it is a variant of ours


# ------------------------------------------------------------------------------------------------- how each one runs


def _per_cell(name: str, covers: int, closing: Closing) -> None:
    """A launch for each pivot, blocks of 16 × 16 threads that cover submatrices of so many rows."""
    across = -(-closing.n // covers)
    for k in range(closing.n):
        closing.launch(name, (across, across), (16, 16), closing.A, closing.stride, closing.n, k)


def _per_row(name: str, threads: int, closing: Closing) -> None:
    """A launch for each pivot, blocks one row high."""
    blocks = closing.n * -(-closing.n // threads)  # in one dimension: the others end at 65535
    for k in range(closing.n):
        closing.launch(name, (blocks,), (threads,), closing.A, closing.stride, closing.n, k)


def _three_phases(closing: Closing, *side: int) -> None:
    """Three launches a stage."""
    tiles = closing.tiles
    for stage in range(tiles):
        arguments = (closing.A, closing.stride, stage, *side)
        closing.launch("independent", (1,), (256,), *arguments)
        if tiles > 1:
            closing.launch("singly_dependent", (tiles, 2), (256,), *arguments)
            closing.launch("doubly_dependent", (tiles, tiles), (256,), *arguments)


def _three_phases_of_a_side(closing: Closing) -> None:
    _three_phases(closing, closing.tile)


def _staged_load(closing: Closing) -> None:
    """Three launches a stage on a copy in the doubly tiled order."""
    tiles, T = closing.tiles, closing.empty(closing.n**2)
    closing.launch("to_tiles", (tiles, tiles), (256,), T, closing.A, closing.stride)
    for stage in range(tiles):
        closing.launch("independent", (1,), (256,), T, tiles, stage)
        if tiles > 1:
            closing.launch("singly_dependent", (tiles, 2), (256,), T, tiles, stage)
            closing.launch("doubly_dependent", (tiles, tiles), (64,), T, tiles, stage)
    closing.launch("from_tiles", (tiles, tiles), (256,), closing.A, T, closing.stride)


def _two_phases(threads: int, closing: Closing) -> None:
    """Two launches a stage, the first with as many blocks as run at once."""
    tiles, closed_copy = closing.tiles, closing.empty(closing.tile**2)
    blocks = min(2 * tiles, closing.resident("replicate_diagonal", threads))
    for stage in range(tiles):
        closing.launch(
            "replicate_diagonal", (blocks,), (threads,), closing.A, closing.stride, tiles, stage, closed_copy
        )
        closing.launch("doubly_dependent", (tiles, tiles), (threads,), closing.A, closing.stride, stage, closed_copy)


_HARISH, _KATZ, _GAIOSO = "Harish, Narayanan 2007", "Katz, Kider 2008", "Gaioso and others 2013"
_BULUC, _BERTOLDI, _LUND = "Buluç, Gilbert, Budak 2010", "Bertoldi", "Lund, Smith 2010"


_STEPS = "SLICE 16", "ASYNC 1", "WIDE 1", "PAIRED 1"  # from staged load to the look-ahead kernel


def _staged(idea: str, *defines: str, source: str = "ours", is_method: bool = False) -> PaperKernel:
    return PaperKernel("lund_smith.cu", source, idea, 32, _staged_load, defines, is_method)


KERNELS: Mapping[str, PaperKernel] = {
    "harish_narayanan": PaperKernel(
        *("harish_narayanan.cu", _HARISH, "a launch for each pivot, a thread for each cell", 1),
        partial(_per_cell, "per_cell", 16),
    ),
    "buluc_iterative": PaperKernel(
        *("buluc_iterative.cu", _BULUC, "a rank-one update for each pivot, a block for each 64 × 64 submatrix", 1),
        partial(_per_cell, "rank_one", 64),
    ),
    "bertoldi_cuda_shared": PaperKernel(
        *("bertoldi_cuda.cu", _BERTOLDI, "blocks one row high, the row's value in shared memory", 1),
        partial(_per_row, "per_row", 128),
    ),
    "bertoldi_cuda": PaperKernel(
        *("bertoldi_cuda.cu", _BERTOLDI, "blocks one row high, the row's value from the cache", 1),
        partial(_per_row, "per_row_direct", 128),
    ),
    **{
        f"bertoldi_cuda{'' if direct else '_shared'}_{threads}": PaperKernel(
            *("bertoldi_cuda.cu", _BERTOLDI, f"{threads} threads a block", 1),
            partial(_per_row, "per_row_direct" if direct else "per_row", threads),
            (f"THREADS {threads}",),
            is_method=False,
        )
        for direct in (False, True)
        for threads in (32, 64, 256, 512, 1024)
    },
    "katz_kider": PaperKernel(
        "katz_kider.cu", _KATZ, "three phases, all tiles in shared memory", 32, _three_phases_of_a_side
    ),
    "katz_kider_constants": PaperKernel(
        *("katz_kider.cu", "ours", "the same, with a constant side", 32, _three_phases_of_a_side),
        ("CONSTANT_SIDE",),
        is_method=False,
    ),
    "lund_smith_unrolled": PaperKernel(
        "lund_smith_unrolled.cu", _LUND, "three phases, shifts and masks, unrolled", 32, _three_phases
    ),
    "lund_smith_registers": PaperKernel(
        *("lund_smith_unrolled.cu", _LUND, "the same, the doubly dependent tile in registers", 32, _three_phases),
        ("IN_REGISTERS",),
    ),
    "lund_smith": _staged("the same, panels in slices of four pivots, cyclic order", source=_LUND, is_method=True),
    "lund_smith_reread": _staged("the left panel read again for each tile of 4 × 4", "REREAD 1"),
    "lund_smith_paired": _staged("two pivots meet an entry at once", "PAIRED 1"),
    "lund_smith_slices": _staged("slices of 16 pivots: a quarter of the barriers", "SLICE 16"),
    "lund_smith_async": _staged("asynchronous copies into two buffers, one barrier a slice", "ASYNC 1"),
    "lund_smith_wide": _staged("shared memory read four elements at a time", "WIDE 1"),
    "lund_smith_wide_paired": _staged("wide reads and paired pivots", "WIDE 1", "PAIRED 1"),
    "lund_smith_all": _staged("slices, asynchronous copies, wide reads, pairs", *_STEPS),
    "gaioso": PaperKernel(
        *("gaioso.cu", _GAIOSO, "two phases, the diagonal tile closed in every block, 1,024 threads", 32),
        partial(_two_phases, 1024),
    ),
    "gaioso_256": PaperKernel(
        *("gaioso.cu", "ours", "the same with 256 threads, the last tiles in registers", 32),
        partial(_two_phases, 256),
        ("THREADS 256",),
        is_method=False,
    ),
}
#: The names that the papers have, which are methods of `semiring.closure`.
METHODS = tuple(name for name, kernel in KERNELS.items() if kernel.is_method)


# ------------------------------------------------------------------------------------------------- the one way to run


def close(plan: KernelPlan, A: Any, name: str, *, blocks: int | None = None) -> None:
    """A ← A* in place, A (n, n) on the device, by one of `KERNELS`. Enqueued on the plan's stream, nothing awaited.

    ``blocks``: of `gaioso` how many blocks of the first phase run on each multiprocessor, where its launch need not
    have as many as fit.

    Raises `UnknownNameError`; `AlgebraError` for a ⊕ that is not idempotent, packed bits, and where a star may differ
    from 1̄.
    """
    if name not in KERNELS:
        raise UnknownNameError("kernel of a paper", name, KERNELS)
    arithmetic, chosen = arithmetic_of(plan), KERNELS[name]
    _check(plan, name, arithmetic)
    with plan.stream or _NOTHING:
        if A.size:
            _close(plan, A, chosen, arithmetic, blocks)


def _close(plan: KernelPlan, A: Any, chosen: PaperKernel, arithmetic: Arithmetic, blocks: int | None) -> None:
    """Close A, not empty. 1̄ is set on the diagonal before, and inspected in the end: the kernels do neither."""
    import cupy

    matrix = padded(A, chosen.tile, plan.zero, aligned=False)
    status = plan.status

    def starter(file: str, defines: tuple[str, ...]) -> Launch:
        def launch(kernel: str, grid: tuple[int, ...], threads: tuple[int, ...], *arguments: Any) -> None:
            converted = [np.int32(x) if isinstance(x, int) else x for x in arguments]
            compiled(file, kernel, arithmetic, defines)(grid, threads, tuple(converted))

        return launch

    def resident(kernel: str, threads: int) -> int:
        if blocks is not None:
            return blocks * multiprocessors()
        return resident_blocks(compiled(chosen.file, kernel, arithmetic, chosen.defines), threads, 0)

    run = starter(chosen.file, chosen.defines)
    closing = Closing(run, matrix, chosen.tile, resident, partial(cupy.empty, dtype=A.dtype))
    diagonal, n = starter(_DIAGONAL, ()), closing.n
    around = (-(-n // 256),), (256,), matrix, closing.stride, n
    diagonal("add_one", *around)
    chosen.run(closing)
    if arithmetic.divergence is not None and status.word is not None:
        diagonal("inspect", *around, status.word, np.uint32(status.first_vertex))
    if matrix is not A:
        A[...] = matrix[: A.shape[0], : A.shape[0]]


def launches(name: str, n: int) -> int:
    """How many kernels of a file of `KERNELS` are launched to close n vertices."""
    chosen, count = KERNELS[name], 0

    def counted(*_: Any) -> None:
        nonlocal count
        count += 1

    size = -(-n // chosen.tile) * chosen.tile
    outline = np.broadcast_to(np.zeros(1, np.float32), (size, size))
    chosen.run(Closing(counted, outline, chosen.tile, lambda *_: 1, lambda *_: None))
    return count


def _check(plan: KernelPlan, name: str, arithmetic: Arithmetic) -> None:
    check_closed_whole(plan, arithmetic, name)
    if arithmetic.star is not None:
        raise AlgebraError(
            f"{name} closes semirings whose star is 1, and that of {plan.semiring.name} is "
            f"{plan.semiring.star_expression}: use staged, or rkleene"
        )


def multiply_add_plain(plan: KernelPlan, C: Any, A: Any, B: Any) -> None:
    """C ← C ⊕ A ⊗ B by 16 × 16 tiles in shared memory, a thread for each entry. Any strides; nothing awaited."""
    (m, n), k = C.shape, A.shape[1]
    if not C.size or not k:
        return
    strides = [np.int64(stride // x.itemsize) for x in (C, A, B) for stride in x.strides]
    with plan.stream or _NOTHING:
        run = compiled(_PRODUCT, "plain_product", arithmetic_of(plan))
        run((-(-n // 16), -(-m // 16)), (16, 16), (C, A, B, np.int32(m), np.int32(n), np.int32(k), *strides))
