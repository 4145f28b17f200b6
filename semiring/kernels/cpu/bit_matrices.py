"""Products and closures of packed boolean matrices: 32 entries to a word, 512 to a vector.

*The laws leave four semirings on bool.* 0̄ and 1̄ are its two elements, 1̄ is neutral and 0̄ annihilates. That fixes ⊗,
and ⊕ up to 1̄ ⊕ 1̄. With 0̄ = False they are or-and and xor-and; with 0̄ = True the same two, complemented. So the
truth table of any expression selects one of two kernels, and whether to complement words.

*The kernel* is the Method of Four Russians (Arlazarov, Dinic, Kronrod, Faradžev 1970; for GF(2): Albrecht, Bard, Hart,
"Algorithm 898: M4RI", ACM TOMS 37, 2010). 64 rows of a 512-column panel of B are cut into 12 groups of five and one of
four. The sums of every subset of each group, 400 vectors, fill a table of 25 KB, which stays in the first-level cache.
Each row of A then costs 13 look-ups for 64 × 512 pairs. C's panel and A's 64-bit pieces lie contiguous in the
second-level cache. So the loads, one vector a cycle, limit the speed, which exceeds that of and-or in registers.

A semiring that breaks the laws is not supported (`laws_of_bits`). The reference backend unpacks its bits and folds them
as the contract says.

*Operands* are the uint32 words of the contract, or `BitMatrix` objects, which know their last column. The inner size is
the number of rows of B. If 0̄ is True, words alone cannot distinguish tail bits from zeros: pass `BitMatrix`.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.bits import WORD_BITS, BitMatrix, pack, truth_table
from semiring.errors import AlgebraError, DTypeError, ShapeError, no_star
from semiring.kernels.contract import Backend, KernelPlan
from semiring.kernels.cpu import bit_loops
from semiring.kernels.cpu.bit_loops import CHUNK, LANES, PIECE, TABLE_VECTORS, VECTOR_BYTES
from semiring.kernels.cpu.codegen.jit import compile_entry_point
from semiring.kernels.cpu.laws_of_bits import Laws, laws_of
from semiring.kernels.cpu.thread_pool import run_tasks

Words: TypeAlias = NDArray[np.uint32]
Operand: TypeAlias = "Words | BitMatrix"

MAX_ROWS = 4096  # rows of C at a time: a panel of 256 KB in the second-level cache
KEPT_BYTES = 1 << 22  # bytes of workspace that a thread keeps, enough for any product
_MAX_TASK_PAIRS = 1 << 39  # pairs between two tests for Ctrl-C, on one thread: a fifth of a second
TASK_PAIRS = 1 << 31  # pairs of the least work of a thread: 0.3 ms, because waking it takes a tenth of that
_TABLE = TABLE_VECTORS * VECTOR_BYTES
_ALL = 0xFFFFFFFF


# ----------------------------------------------------------------------------------------------- laws of the semiring


@lru_cache(maxsize=256)
def _star_of(semiring: Semiring) -> tuple[int, int]:
    """Return the star of 0̄ and of 1̄, as 0 for 0̄, 1 for 1̄, 2 if there is none."""
    if semiring.star_expression is None:
        raise no_star(semiring.name)
    star = truth_table(semiring.star_expression, ("x",))
    missing = 0 if semiring.divergence is None else truth_table(semiring.divergence, ("x",))
    zero = int(semiring.zero_for(np.bool_))
    of_zero, of_one = (2 if missing >> a & 1 else (star >> a & 1) ^ zero for a in (zero, 1 - zero))
    return of_zero, of_one


# ------------------------------------------------------------------------------------------------- the contract


def multiply(plan: KernelPlan, C: Operand, A: Operand, B: Operand) -> None:
    """Compute C ← A ⊗ B without reading C, for bits A (m, k), B (k, n), C (m, n)."""
    _product(plan, C, A, B, accumulate=False)


def multiply_add(plan: KernelPlan, C: Operand, A: Operand, B: Operand) -> None:
    """Compute C ← C ⊕ A ⊗ B with m·k·n pairs and at most 2.5 MB of workspace for each thread."""
    _product(plan, C, A, B, accumulate=True)


def close_block(plan: KernelPlan, A: Operand) -> None:
    """Compute A ← A* in place, A (n, n) bits, with n³ pairs on one thread and a workspace of one copy.

    Raises `AlgebraError` if the semiring has no star. A pivot without one sets ``plan.status.diverged``.
    """
    laws, star = _require_laws(plan), _star_of(plan.semiring)
    words, _ = _operand(A, "A")
    n = words.shape[0]
    if words.shape[1] != -(-n // WORD_BITS):
        raise ShapeError(
            f"a closure is of a square matrix: {n} rows have {-(-n // WORD_BITS)} words, not {words.shape[1]}"
        )
    if not n:
        return
    tail = _ALL >> -n % WORD_BITS
    small = PIECE * VECTOR_BYTES
    buffers = _Buffers(n * -(-words.shape[1] // LANES) * VECTOR_BYTES, small, small, _TABLE, 8 * n, 8 * PIECE)
    eliminate = compile_entry_point(bit_loops.eliminate)
    pivot = eliminate(n, *_layout(words), laws.flip, tail, laws.exclusive, *star, *buffers.addresses)
    if pivot >= 0:
        plan.status.diverged = pivot


def multiply_add_witness(
    backend: Backend, plan: KernelPlan, C: Words, W: NDArray[Any], A: Words, B: Words, k0: int
) -> None:
    """Compute the contract's operation on unpacked elements. W has an integer for each, so bits would gain little."""
    entries, left, right = _entries(C, W.shape[1]), _entries(A, B.shape[0]), _entries(B, W.shape[1])
    backend.multiply_add_witness(replace(plan, storage="elements"), entries, W, left, right, k0)
    C[...] = pack(entries).words


def _entries(words: Words, columns: int) -> NDArray[np.bool_]:
    truths: NDArray[np.bool_] = BitMatrix(np.ascontiguousarray(words), (words.shape[0], columns)).unpack()
    return truths


def _require_laws(plan: KernelPlan) -> Laws:
    laws = laws_of(plan.semiring)
    if laws is None:
        raise AlgebraError(
            f"{plan.semiring.name} is not a semiring on bool: packed bits need operations that keep its laws"
        )
    return laws


def _operand(matrix: Operand, name: str) -> tuple[Words, int]:
    """Return the words of a matrix, and the mask of the columns of the last word."""
    words, tail = (matrix.words, int(matrix.tail)) if isinstance(matrix, BitMatrix) else (matrix, _ALL)
    if words.dtype != np.uint32:
        raise DTypeError(f"{name} is packed in words of {words.dtype}: a BitMatrix or uint32 words are expected")
    return words, tail


def _product(plan: KernelPlan, C: Operand, A: Operand, B: Operand, *, accumulate: bool) -> None:
    laws = _require_laws(plan)
    (target, tail), (left, _), (right, _) = _operand(C, "C"), _operand(A, "A"), _operand(B, "B")
    (m, words), k = target.shape, right.shape[0]
    if left.shape != (m, -(-k // WORD_BITS)) or right.shape[1] != words:
        raise ShapeError(
            f"words of C {target.shape}, A {left.shape}, B {right.shape}: expected (m, w), (m, ⌈k/{WORD_BITS}⌉), (k, w)"
        )
    if not target.size:
        return
    if not k:
        if not accumulate:
            target[...] = np.uint32(laws.flip)
            target[:, -1] &= np.uint32(tail)
        return

    def compute(row0: int, row1: int, word0: int, word1: int) -> None:
        rows = row1 - row0
        pieces = rows * min(CHUNK, -(-k // PIECE))
        buffers = _Buffers(rows * VECTOR_BYTES, PIECE * VECTOR_BYTES, _TABLE, 8 * pieces)
        layouts = (*_layout(target[row0:row1]), *_layout(left[row0:row1]), *_layout(right))
        flags = (laws.flip, tail, laws.exclusive, accumulate)
        compile_entry_point(bit_loops.multiply)(rows, k, *layouts, words, word0, word1, *flags, *buffers.addresses)

    threads = max(1, min(plan.threads, m * k * words * WORD_BITS // TASK_PAIRS))
    most_panels = max(1, _MAX_TASK_PAIRS // (min(m, MAX_ROWS) * k * LANES * WORD_BITS))
    run_tasks(compute, cut_parts(m, words, threads, most_panels), threads, reports=True)


@lru_cache(maxsize=256)
def cut_parts(m: int, words: int, threads: int, most_panels: int = 1 << 40) -> tuple[tuple[int, int, int, int], ...]:
    """Return parts (row0, row1, word0, word1) of C for ``threads``, with whole panels, few tables, and even loads.

    A part has at most ``most_panels`` panels.

    The product does not depend on the parts, because a single part computes each entry, in the order of k.
    """
    panels = -(-words // LANES)
    best: tuple[int, int, int] | None = None
    least = -(-panels // most_panels)
    for across in range(least, max(least, min(panels, 2 * threads)) + 1):
        down = max(-(-m // MAX_ROWS), -(-threads // across))
        rounds = -(-(down * across) // threads)
        cost = rounds * -(-panels // across) * (-(-m // down) + _TABLE_COST)
        if best is None or cost < best[0]:
            best = cost, down, across
    assert best is not None
    _, down, across = best
    rows = [m * part // down for part in range(down + 1)]
    columns = [panels * part // across * LANES for part in range(across)] + [words]
    return tuple(
        (rows[i], rows[i + 1], columns[j], columns[j + 1])
        for i in range(down)
        for j in range(across)
        if rows[i] < rows[i + 1] and columns[j] < columns[j + 1]
    )


_TABLE_COST = 80  # look-ups of a whole row that take as long as building one table


def _layout(words: Words) -> tuple[int, int, int]:
    """Return the address and the strides in bytes."""
    return words.ctypes.data, words.strides[0], words.strides[1]


class _Buffers:
    """Aligned buffers of given sizes in bytes, which belong to this thread until it allocates buffers again."""

    _thread = threading.local()  # new memory for each product would take a tenth of the time for n = 2048

    def __init__(self, *sizes: int) -> None:
        total = sum(sizes) + len(sizes) * VECTOR_BYTES
        thread_memory: tuple[Any, int] = getattr(self._thread, "memory", (None, 0))
        self.memory, address = thread_memory
        if self.memory is None or self.memory.size < total:
            self.memory = np.empty(total, np.uint8)
            address = self.memory.ctypes.data
            if total <= KEPT_BYTES:
                self._thread.memory = self.memory, address
        self.addresses = []
        for size in sizes:
            address += -address % VECTOR_BYTES
            self.addresses.append(address)
            address += size
