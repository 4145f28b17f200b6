"""Scan the entries of a matrix for its edges, and carry values along lists of edges.

A scan finds the number of edges, whether all have one weight, and whether the matrix is symmetric. Entries are unsigned
integers as wide as those of the matrix. Bits are compared, so 0.0 and -0.0 are two values.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, trailing_zeros, use_wide_vectors
from semiring.kernels.graphs.vector_intrinsics import TILE, mark_differences, tiles_differ


@kernel
def find_first_edge(A, none, start):
    """Return whether a row of a strip has an edge to another vertex, and the value of the first such edge.

    The first row of the strip is row ``start`` of the matrix.
    """
    m, n = A.shape
    for i in range(m):
        for j in range(n):
            if A[i, j] != none and j != start + i:
                return True, A[i, j]
    return False, none


@kernel
def mark_edges(A, none, weight, words, first, last):
    """Set the bits of the edges of rows ``first`` … ``last`` - 1 in words (n, ⌈n/32⌉).

    Bit b of word w is column 32·w + b. Return whether an edge to another vertex has another weight.
    """
    use_wide_vectors()
    n = A.shape[1]
    size, whole = A.itemsize, n // 32
    adjacent = A.strides[1] == size
    line, rest = np.empty(0 if adjacent else n, A.dtype), np.full(32, none, A.dtype)
    others = np.uint32(0)
    for i in range(first, last):
        if not adjacent:
            line[:] = A[i]
        row = address(A) + i * A.strides[0] if adjacent else address(line)
        for j in range(32 * whole, n):
            rest[j - 32 * whole] = A[i, j]
        for w in range(words.shape[1]):
            entries = row + 32 * size * w if w < whole else address(rest)
            bits = mark_differences(entries, none)
            different = bits & mark_differences(entries, weight)
            if w == i >> 5:
                different &= ~(np.uint32(1) << np.uint32(i & 31))
            others |= different
            words[i, w] = bits
    return others != 0


@kernel
def list_edges(words, edge_limit):
    """Return compressed rows of the edges in words (n, ⌈n/32⌉): the starts of lists (n + 1,), and heads.

    The words of a row are adjacent. If there are more than ``edge_limit`` edges, the last start is -1.
    """
    use_wide_vectors()
    n, width = words.shape
    starts, heads, count = np.zeros(n + 1, np.int64), np.empty(edge_limit, np.int32), 0
    for i in range(n):
        row = address(words) + i * words.strides[0]
        for w0 in range(0, width, 32):
            non_empty = np.uint32(0)  # a bit for each of 32 words: whether the word has edges
            if w0 + 32 <= width:
                non_empty = mark_differences(row + 4 * w0, np.uint32(0))
            else:
                for w in range(w0, width):
                    non_empty |= np.uint32(words[i, w] != 0) << np.uint32(w - w0)
            while non_empty:
                w = w0 + trailing_zeros(non_empty)
                non_empty &= non_empty - np.uint32(1)
                bits = words[i, w]
                while bits:
                    if count == edge_limit:
                        starts[n] = -1
                        return starts, heads
                    heads[count] = 32 * w + trailing_zeros(bits)
                    count += 1
                    bits &= bits - np.uint32(1)
        starts[i + 1] = count
    return starts, heads[:count]


@kernel
def is_mirrored(A, first, last):
    """Return whether rows first … last - 1, from the diagonal on, equal the columns of the same numbers."""
    use_wide_vectors()
    n = A.shape[0]
    adjacent = A.strides[1] == A.itemsize
    for i0 in range(first, last, TILE):
        for j0 in range(i0, n, TILE):
            different = False
            if adjacent and i0 + TILE <= last and j0 + TILE <= n:
                below, above = j0 * A.strides[0] + i0 * A.itemsize, i0 * A.strides[0] + j0 * A.itemsize
                different = tiles_differ(A[0, 0], address(A) + below, A.strides[0], address(A) + above)
            else:
                for i in range(i0, min(last, i0 + TILE)):
                    for j in range(j0, min(n, j0 + TILE)):
                        different |= A[i, j] != A[j, i]
            if different:
                return False
    return True


@kernel
def carry_along(starts, heads, source_bits):
    """Set source_bits[head] |= source_bits[tail] along all edges, in the order of the tails.

    Every edge leads to a higher vertex. starts (n + 1,) and heads (m,) are compressed rows. source_bits (n, words)
    uint64 has the bits of the sources that reach each vertex.
    """
    for tail in range(len(starts) - 1):
        for edge in range(starts[tail], starts[tail + 1]):
            for word in range(source_bits.shape[1]):
                source_bits[heads[edge], word] |= source_bits[tail, word]


@kernel
def relax_edges(tails, heads, weights, h, share):
    """Set h[head] ← min(h[head], weight + share · h[tail]) along the edges (m,) in their order; h (n,) in place."""
    for edge in range(len(tails)):
        offered = weights[edge] + h[tails[edge]] * share
        h[heads[edge]] = min(h[heads[edge]], offered)
