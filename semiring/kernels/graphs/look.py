"""A look at the entries of a matrix that asks about its graph: how many edges, all of one weight, the same both ways.

Entries are unsigned integers as wide as those of the matrix: bits are compared, so 0.0 and -0.0 are two values.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from semiring.kernels.graphs.compiled import kernel

__all__ = ["count_edges", "first_edge", "is_mirrored"]

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
def count_edges(A, none, weight, start):
    """The entries of a strip that are edges, and the edges to another vertex that have another weight."""
    m, n = A.shape
    edges = others = 0
    for i in range(m):
        found = different = 0
        for j in range(n):
            found += A[i, j] != none
            different += (A[i, j] != none) & (A[i, j] != weight)
        loop = A[i, start + i]
        others += different - ((loop != none) & (loop != weight))
        edges += found
    return edges, others


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
