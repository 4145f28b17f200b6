"""The packed-boolean kernels: functions on addresses, compiled by Numba, called without it, stored on disk.

They have a C interface: every argument is a 64-bit integer, strides in bytes. Words of matrices are uint32 at any
strides, and buffers are aligned to `VECTOR_BYTES`. ``flip`` (all ones or none) complements words when they are read and
written. ``tail`` masks the last word of a row when it is written. ``exclusive`` chooses ⊕ = xor instead of or; ⊗ is
and. `operations` describes the method.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit, types

from semiring.kernels.cpu.bits.instructions import (
    LANES,
    VECTOR_BYTES,
    build_table,
    fill,
    load32,
    load64,
    look_up,
    move,
    store32,
    store64,
)
from semiring.kernels.cpu.codegen.jit import cache_on_disk
from semiring.kernels.cpu.codegen.numba_internals import OUTER, PART, entry_point

__all__ = ["CHUNK", "PIECE", "eliminate", "multiply"]

PIECE = 64  # rows of B in one table, bits of A in one look-up
CHUNK = 64  # pieces of a row gathered at once: 4096 rows of them are 2 MB

_inline = njit(**PART)


@_inline
def _gather(buffer, source, row, column, rows, first, words, flip):  # type: ignore[no-untyped-def]  # compiled
    """Copy the words of each row from ``first`` on, up to ``words``, to one vector of the buffer, padded with zeros."""
    width = min(LANES, words - first)
    source += first * column
    for i in range(rows):
        if width == LANES and column == 4:
            move(buffer + i * VECTOR_BYTES, source + i * row, flip)
        else:
            fill(buffer + i * VECTOR_BYTES, 1)
            for w in range(width):
                word = load32(source + i * row + w * column) ^ np.uint32(flip)
                store32(buffer + i * VECTOR_BYTES + 4 * w, word)


@_inline
def _scatter(target, row, column, rows, first, words, buffer, flip, tail):  # type: ignore[no-untyped-def]  # compiled
    """Copy one vector of the buffer to the words of each row, which is the inverse of `_gather`."""
    width = min(LANES, words - first)
    target += first * column
    for i in range(rows):
        if width == LANES and column == 4:
            move(target + i * row, buffer + i * VECTOR_BYTES, flip)
        else:
            for w in range(width):
                word = load32(buffer + i * VECTOR_BYTES + 4 * w) ^ np.uint32(flip)
                store32(target + i * row + w * column, word)
        if first + width == words:
            last = target + i * row + (width - 1) * column
            store32(last, load32(last) & np.uint32(tail))


@_inline
def _gather_pieces(pieces, a, row, column, rows, first, count, words, flip):  # type: ignore[no-untyped-def]  # compiled
    """Set pieces[q, i] to piece first + q of row i, a transpose in tiles as wide and high as a cache line."""
    mask = np.uint64(np.uint32(flip)) | np.uint64(np.uint32(flip)) << np.uint64(32)
    for i0 in range(0, rows, 8):
        for q0 in range(0, count, 8):
            for q in range(q0, min(q0 + 8, count)):
                word = 2 * (first + q)
                for i in range(i0, min(i0 + 8, rows)):
                    source = a + i * row + word * column
                    if word + 1 == words:
                        piece = np.uint64(load32(source))
                    elif column == 4:
                        piece = load64(source)
                    else:
                        piece = np.uint64(load32(source)) | np.uint64(load32(source + column)) << np.uint64(32)
                    store64(pieces + 8 * (q * rows + i), piece ^ mask)


def _multiply(  # type: ignore[no-untyped-def]  # compiled
    m, k, c, c_row, c_column, a, a_row, a_column, b, b_row, b_column, words, word0, word1, flip, tail, exclusive,
    accumulate, panel, rows, table, pieces,
):  # fmt: skip
    """Compute C[:, word0:word1] ← (C or 0̄) ⊕ A ⊗ B for m rows of ``words`` words; k > 0.

    word0 is a multiple of `LANES`. Buffers, in bytes: panel 64·m, rows 64·64, table 64·`TABLE_VECTORS`, pieces
    8·m·min(⌈k/64⌉, `CHUNK`).
    """
    total = (k + PIECE - 1) // PIECE
    for first in range(0, total, CHUNK):
        count = min(CHUNK, total - first)
        _gather_pieces(pieces, a, a_row, a_column, m, first, count, (k + 31) // 32, flip)
        for word in range(word0, word1, LANES):
            if accumulate != 0 or first > 0:
                _gather(panel, c, c_row, c_column, m, word, words, flip)
            else:
                fill(panel, m)
            for q in range(count):
                k0 = (first + q) * PIECE
                have = min(PIECE, k - k0)
                _gather(rows, b + k0 * b_row, b_row, b_column, have, word, words, flip)
                fill(rows + have * VECTOR_BYTES, PIECE - have)  # A's tail bits select rows of zeros
                build_table(table, rows, exclusive)
                look_up(panel, pieces + 8 * q * m, table, m, exclusive)
            _scatter(c, c_row, c_column, m, word, words, panel, flip, tail)
    return 0


@_inline
def _close_pieces(block, n, star0, star1, exclusive):  # type: ignore[no-untyped-def]  # compiled
    """Close n × n bits, n ≤ 64, each row a 64-bit number.

    Return the first pivot without a star, or -1.
    """
    for k in range(n):
        bit = np.uint64(1) << np.uint64(k)
        pivot = load64(block + 8 * k)
        star = star1 if pivot & bit else star0
        if star > 1:
            return k
        # Row k becomes s ⊗ row k, with s as its own entry. Column k of another row is removed and becomes a ⊗ s.
        pivot = pivot | bit if star else np.uint64(0)
        for i in range(n):
            old = load64(block + 8 * i)
            change = pivot & (np.uint64(0) - (old >> np.uint64(k) & np.uint64(1)))
            rest = old & ~bit
            store64(block + 8 * i, rest ^ change if exclusive != 0 else rest | change)
        store64(block + 8 * k, pivot)
    return -1


def _eliminate(  # type: ignore[no-untyped-def]  # compiled
    n, a, a_row, a_column, flip, tail, exclusive, star0, star1, matrix, rows, solved_rows, table, pieces, block
):
    """Compute A ← A* (n, n) by blocked elimination, 64 pivots at a time.

    Return the first pivot without a star, or -1. With D the pivots' diagonal block and R their rows, R becomes D* ⊗ R.
    Then the entries d of every other row in the pivots' columns are removed, and d ⊗ R is added to the row, where R has
    D* in those columns. Both products use tables. In linear algebra this is the inversion of Gauss and Jordan in place.
    Here it is Lehmann's elimination with a block for a pivot.

    ``star0``, ``star1``: the star of 0̄ and of 1̄, as 0 for 0̄, 1 for 1̄, 2 if there is none. Buffers: matrix
    64·n·⌈n/512⌉, rows and solved_rows 64·64, table 64·`TABLE_VECTORS`, pieces 8·n, block 8·64.
    """
    words = (n + 31) // 32
    panels = (words + LANES - 1) // LANES
    size = n * VECTOR_BYTES
    for p in range(panels):
        _gather(matrix + p * size, a, a_row, a_column, n, p * LANES, words, flip)
    for k0 in range(0, n, PIECE):
        count = min(PIECE, n - k0)
        keep = ~np.uint64(0) >> np.uint64(PIECE - count)
        own = k0 // 32 // LANES  # the panel that holds the pivots' columns, and their position in its vectors
        word_offset = 4 * (k0 // 32 % LANES)
        for i in range(n):
            cell = matrix + own * size + i * VECTOR_BYTES + word_offset
            piece = load64(cell)
            store64(cell, piece & ~keep)
            is_pivot = k0 <= i < k0 + count
            if is_pivot:
                store64(block + 8 * (i - k0), piece & keep)
            store64(pieces + 8 * i, np.uint64(0) if is_pivot else piece & keep)
        pivot = _close_pieces(block, count, star0, star1, exclusive)
        if pivot >= 0:
            return k0 + pivot
        for p in range(panels):
            panel = matrix + p * size
            _gather(rows, panel + k0 * VECTOR_BYTES, VECTOR_BYTES, 4, count, 0, LANES, 0)
            fill(rows + count * VECTOR_BYTES, PIECE - count)
            fill(solved_rows, PIECE)
            build_table(table, rows, exclusive)
            look_up(solved_rows, block, table, count, exclusive)
            if p == own:
                for r in range(count):
                    cell = solved_rows + r * VECTOR_BYTES + word_offset
                    store64(cell, load64(cell) | load64(block + 8 * r))
            build_table(table, solved_rows, exclusive)
            look_up(panel, pieces, table, n, exclusive)
            _gather(panel + k0 * VECTOR_BYTES, solved_rows, VECTOR_BYTES, 4, count, 0, LANES, 0)
    for p in range(panels):
        _scatter(a, a_row, a_column, n, p * LANES, words, matrix + p * size, flip, tail)
    return -1


@cache
def _compile_kernel(function: Callable[..., int]) -> Callable[..., int]:
    """Return the machine code of a kernel, from the cache on disk or the compiler.

    The call does not dispatch on types, and releases the GIL.
    """
    signature = (types.int64,) * function.__code__.co_argcount
    return entry_point(cache_on_disk(njit(function, **OUTER)), signature)


def multiply(*arguments: int) -> None:
    """Call the compiled kernel `_multiply`."""
    _compile_kernel(_multiply)(*arguments)


def eliminate(*arguments: int) -> int:
    """Call the compiled kernel `_eliminate`."""
    return _compile_kernel(_eliminate)(*arguments)
