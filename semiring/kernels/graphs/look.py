"""A look at the entries of a matrix that asks about its graph: how many edges, all of one weight, the same both ways.

Entries are unsigned integers as wide as those of the matrix: bits are compared, so 0.0 and -0.0 are two values.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel
from semiring.kernels.graphs.words import lowest

__all__ = ["first_edge", "is_mirrored", "list_edges", "note_edges"]

_TILE = 16  # rows and columns that are compared at a time: rows often lie a power of two apart, and share cache sets


@kernel
def first_edge(A, none, start):
    """Whether some row of a strip, whose first row is row ``start`` of the matrix, has an edge to another vertex.

    And the value of the first of them.
    """
    m, n = A.shape
    for i in range(m):
        for j in range(n):
            if A[i, j] != none and j != start + i:
                return True, A[i, j]
    return False, none


@kernel
def note_edges(A, none, weight, words, first, last):
    """Words (n, ⌈n/32⌉) ← the edges of the rows ``first`` … ``last`` - 1, bit b of word w for column 32·w + b.

    And how many of them lead to another vertex and have another weight.
    """
    n = A.shape[1]
    whole, others = n // 32, 0
    for i in range(first, last):
        different = 0
        for w in range(whole):
            bits = np.uint32(0)
            for b in range(32):
                x = A[i, 32 * w + b]
                bits |= np.uint32(x != none) << np.uint32(b)
                different += (x != none) & (x != weight)
            words[i, w] = bits
        if n % 32:
            bits = np.uint32(0)
            for j in range(32 * whole, n):
                bits |= np.uint32(A[i, j] != none) << np.uint32(j % 32)
                different += (A[i, j] != none) & (A[i, j] != weight)
            words[i, whole] = bits
        others += different - ((A[i, i] != none) & (A[i, i] != weight))
    return others


@kernel
def list_edges(words, count):
    """Compressed rows of the edges in words (n, ⌈n/32⌉), ``count`` of them: where lists begin, (n + 1,), and heads."""
    n, width = words.shape
    starts, heads, at = np.zeros(n + 1, np.int64), np.empty(count, np.int32), 0
    for i in range(n):
        for w in range(width):
            bits = words[i, w]
            while bits:
                heads[at] = 32 * w + lowest(bits)
                at += 1
                bits &= bits - np.uint32(1)
        starts[i + 1] = at
    return starts, heads


@kernel
def is_mirrored(A, first, last):
    """Whether the rows ``first`` … ``last`` - 1, from the diagonal on, equal the columns of the same numbers."""
    n = A.shape[0]
    for i0 in range(first, last, _TILE):
        for j0 in range(i0, n, _TILE):
            different = 0
            for i in range(i0, min(last, i0 + _TILE)):
                for j in range(j0, min(n, j0 + _TILE)):
                    different += A[i, j] != A[j, i]
            if different:
                return False
    return True
