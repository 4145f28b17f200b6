"""Permute rows and columns of a matrix in place, and transpose packed bits.

Entries are unsigned integers as wide as those of the matrix, independently of their meaning.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address
from semiring.kernels.graphs.vector_intrinsics import TILE, copy_line, transpose_tile


@kernel
def find_chains(order, chain_limit):
    """Return (vertices, starts, heirs) to move rows in place: vertices in the order of their cycles, starts of chains.

    Chains have at most ``chain_limit`` rows. The rows of a chain move one place forward. The last row becomes the old
    first row of the next chain, or, at the end of a cycle, the first row of the cycle. ``heirs`` holds for each chain
    the number of the chain whose first row that is.
    """
    n = order.size
    visited, vertices = np.zeros(n, np.bool_), np.empty(n, np.int64)
    starts, heirs = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    count = position = 0
    for first in range(n):
        if visited[first] or order[first] == first:
            continue
        begun, v = count, first
        length = 0
        while not visited[v]:
            if length % chain_limit == 0:
                starts[count] = position
                heirs[count] = count + 1
                count += 1
            visited[v] = True
            vertices[position] = v
            position += 1
            length += 1
            v = order[v]
        heirs[count - 1] = begun
    starts[count] = position
    return vertices[:position].copy(), starts[: count + 1].copy(), heirs[:count].copy()


@kernel
def _copy_row(source, target):
    """Copy a row to a row of the same size, as memory if the entries of both are adjacent."""
    if source.strides[0] == source.itemsize and target.strides[0] == target.itemsize:
        copy_line(address(target), address(source), target.size * target.itemsize)
    else:
        target[:] = source


@kernel
def move_rows(D, vertices, first, last, heir, order):
    """Move the rows of the chain ``first`` … ``last`` - 1, and permute the columns of each.

    ``heir``: the old row that becomes the last row of the chain.
    """
    n = D.shape[1]
    columns, row, line = order.astype(np.int32), np.empty(n, D.dtype), np.empty(n, D.dtype)
    for k in range(first, last):
        _copy_row(heir if k + 1 == last else D[vertices[k + 1]], row)
        for j in range(n):
            line[j] = row[columns[j]]
        _copy_row(line, D[vertices[k]])


@kernel
def copy_rows(A, order, first, last, out):
    """Write rows ``first`` … ``last`` - 1 of out (n, n) from A with rows and columns in the order."""
    n = A.shape[1]
    columns, row, line = order.astype(np.int32), np.empty(n, A.dtype), np.empty(n, A.dtype)
    for i in range(first, last):  # whole rows pass through the cache in the order of memory
        _copy_row(A[order[i]], row)
        for j in range(n):
            line[j] = row[columns[j]]
        _copy_row(line, out[i])


@kernel
def gather_columns(D, rows, order):
    """Permute the columns of some rows of D, which stay in their places."""
    n = D.shape[1]
    row = np.empty(n, D.dtype)
    for i in rows:
        for j in range(n):
            row[j] = D[i, j]
        for j in range(n):
            D[i, j] = row[order[j]]


@kernel
def transpose_words(words, out, first, last):
    """Write the transpose of packed bits to word columns first … last - 1 of ``out``.

    ``words`` is (m, ⌈n/32⌉) uint32, and ``out`` is (n, ⌈m/32⌉). Blocks of 32 × 32 bits are transposed by five exchanges
    (Warren, Hacker's Delight, 7-3). 16 blocks are processed side by side and as many below each other, so that whole
    cache lines are read and written.
    """
    m, n, width = words.shape[0], out.shape[0], words.shape[1]
    tile, lines = np.empty((32, 16), np.uint32), np.empty((512, 16), np.uint32)
    for b0 in range(first, last, 16):
        b1 = min(last, b0 + 16)
        for w0 in range(0, width, 16):
            w1 = min(width, w0 + 16)
            for block in range(b0, b1):
                rows = min(32, m - 32 * block)
                if rows == 32 and w1 - w0 == 16:
                    for r in range(32):
                        for c in range(16):
                            tile[r, c] = words[32 * block + r, w0 + c]
                else:
                    tile[:] = 0
                    for r in range(rows):
                        for c in range(w1 - w0):
                            tile[r, c] = words[32 * block + r, w0 + c]
                mask = np.uint32(0x0000FFFF)
                for size in (16, 8, 4, 2, 1):
                    for start in range(0, 32, 2 * size):
                        for k in range(start, start + size):
                            upper, lower = tile[k], tile[k + size]
                            for c in range(16):
                                x = ((upper[c] >> np.uint32(size)) ^ lower[c]) & mask
                                upper[c] ^= x << np.uint32(size)
                                lower[c] ^= x
                    mask ^= mask << np.uint32(size // 2)
                for r in range(32):
                    for c in range(16):
                        lines[32 * c + r, block - b0] = tile[r, c]
            for r in range(min(512, n - 32 * w0)):
                for b in range(b1 - b0):
                    out[32 * w0 + r, b0 + b] = lines[r, b]


@kernel
def transpose_entries(A, out, first, last):
    """Write the columns ``first`` … ``last`` - 1 of A (m, n) as rows of out (n, m), by tiles."""
    m = A.shape[0]
    adjacent = A.strides[1] == A.itemsize and out.strides[1] == out.itemsize
    for i0 in range(0, m, TILE):
        for j0 in range(first, last, TILE):
            if adjacent and j0 + TILE <= last and i0 + TILE <= m:
                source = address(A) + i0 * A.strides[0] + j0 * A.itemsize
                target = address(out) + j0 * out.strides[0] + i0 * out.itemsize
                transpose_tile(A[0, 0], source, A.strides[0], target, out.strides[0])
            else:
                for j in range(j0, min(last, j0 + TILE)):
                    for i in range(i0, min(m, i0 + TILE)):
                        out[j, i] = A[i, j]


@kernel
def mirror_entries(A, first, last):
    """Write columns first … last - 1 of A (n, n) below the diagonal from the rows of the same numbers."""
    n = A.shape[0]
    for i0 in range(first, last, TILE):
        i1 = min(last, i0 + TILE)
        transpose_entries(A[i0:i1, i1:], A[i1:, i0:i1], 0, n - i1)
        for i in range(i0, i1):
            for j in range(i0, i):
                A[i, j] = A[j, i]
