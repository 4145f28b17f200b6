"""Floyd-Warshall with the rows of every pivot distributed among threads, as D. Bertoldi describes it for OpenMP.

This is algorithm 3 of "Parallelization of the Floyd-Warshall algorithm". For every pivot k one thread copies row k, so
that all threads read it in a single place. Then any free thread updates one row at a time (``schedule(dynamic)``), or
each thread updates its own rows (``schedule(static)``). The threads are those of the library
(`semiring.kernels.cpu.thread_team`), so that a barrier costs no thread. The native function of
`semiring.kernels.cpu.elimination.gathered_rows` updates a row, and `semiring.kernels.cpu.closing.pivot_loops` computes
the star of a pivot. So one compiled loop serves every semiring and every dtype of one size.

For a ⊕ that is not idempotent the entry in the pivot's column starts from 0̄, as in every elimination. The plain
product distributes its rows in the same way.

A job of the team has the words of a `RowJob` after the address of its function.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any, NamedTuple

import numba

from semiring.kernels.cpu.closing.pivot_loops import close_diagonal
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call8, fetch, put
from semiring.kernels.cpu.product.macro_kernel import word
from semiring.kernels.cpu.thread_team import finish, publish


class RowJob(NamedTuple):
    """The words of a job after the address of its function: addresses, strides in bytes, and numbers."""

    fold: int  # the native function that updates a row
    ordinals: int  # int32: 0, 1, …
    source: int  # the first row that is read: the copy of the pivot row, or the first row of B
    target: int  # the first row that is written
    target_row: int  # the stride of the rows that are written
    columns: int  # how many entries of a row are written
    factors: int  # the address of the first factor: in a product the first entry of A
    factor_row: int  # the stride of factors from row to row
    factor_step: int  # the stride of factors from k to k
    steps: int  # the number of values of k
    source_row: int  # the stride of the rows that are read
    pivot: int  # -1 in a product
    size: int  # bytes of an element
    is_idempotent: int  # 1 if ⊕ is idempotent, else 0
    zero: int  # the bits of 0̄


FOLD, ORDINALS, SOURCE, TARGET, TARGET_ROW, COLUMNS, FACTORS, FACTOR_ROW, FACTOR_STEP, COUNT, SOURCE_ROW = range(1, 12)
PIVOT, SIZE, IDEMPOTENT, ZERO = range(12, 16)


@inner
def copy_element(target, source, size):
    """Copy one element of 1, 2, 4 or 8 bytes."""
    if size == 4:
        put(fetch(numba.uint32(0), source), target)
    elif size == 8:
        put(fetch(numba.uint64(0), source), target)
    elif size == 2:
        put(fetch(numba.uint16(0), source), target)
    else:
        put(fetch(numba.uint8(0), source), target)


def update_rows(job: int, block_address: int, workspace: int) -> None:
    """Update the rows of one block: row i becomes row i ⊕ its factors ⊗ the rows that are read.

    The function has the C interface of `macro_kernel.block_product`. In a closure the factor is an entry of the row
    that is written, so it is copied to the workspace first.
    """
    pivot, size = word(job, PIVOT), word(job, SIZE)
    for i in range(word(block_address, 0), word(block_address, 1)):
        if i == pivot:
            continue
        row = word(job, TARGET) + i * word(job, TARGET_ROW)
        factors = word(job, FACTORS) + i * word(job, FACTOR_ROW)
        if pivot >= 0:
            factor = row + pivot * size
            copy_element(workspace, factor, size)
            if not word(job, IDEMPOTENT):
                copy_element(factor, job + 8 * ZERO, size)
            factors = workspace
        call8(
            word(job, FOLD),
            (
                *(row, word(job, COLUMNS), word(job, SOURCE), word(job, SOURCE_ROW)),
                *(word(job, ORDINALS), word(job, COUNT), factors, word(job, FACTOR_STEP)),
            ),
        )


@kernel
def close_pivots_by_rows(
    A: Any,
    job: int,
    copy: int,
    is_copied: int,
    blocks: int,
    mailbox: int,
    members: int,
    eliminate: int,
    block: int,
    padded: int,
    zero: Any,
    start: int,
    stop: int,
    patience: int,
) -> int:
    """Eliminate the pivots ``start`` … stop - 1 of A (n, n), of contiguous rows, by jobs of the team.

    ``copy`` is memory of n elements. If ``is_copied`` is 1, the threads read the row of the pivot there, else in A.
    Return ``stop`` if all are eliminated. Return k < stop if threads still update the rows of pivot k after
    ``patience`` pauses; the caller waits for them and continues with k + 1. Return -1 - k if pivot k has no star.
    """
    n, size = A.shape[0], A.itemsize
    a, row = address(A), A.strides[0]
    for k in range(start, stop):
        line = a + k * row
        if close_diagonal(line + k * size, row, 1, eliminate, block, padded, zero, size) >= 0:
            return -1 - k
        for j in range(n):
            put(zero, copy + j * size)
        call8(word(job, FOLD), (copy, n, line, 0, word(job, ORDINALS), 1, block, 0))
        copy_element(copy + k * size, block, size)
        for j in range(n):
            put(fetch(zero, copy + j * size), line + j * size)
        put(copy if is_copied else line, job + 8 * SOURCE)
        put(k, job + 8 * PIVOT)
        publish(mailbox, job, blocks, members)
        if not finish(mailbox, blocks, blocks, patience):
            return k
    return stop
