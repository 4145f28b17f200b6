"""Maximum and minimum spanning forests of dense graphs, and the bottlenecks of their paths.

Sources: R. C. Prim, Bell System Tech. J. 36 (1957), on a matrix; T. C. Hu, Operations Research 9 (1961): a path in a
maximum spanning tree has the greatest bottleneck of all. In the order in which Prim's algorithm takes the vertices, the
bottleneck between two of them is the worst of the edges by which those after the first, up to the second, came.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel

__all__ = ["fill_bottlenecks", "spanning_forest"]


@kernel
def spanning_forest(A, zero, largest):
    """The vertices of a symmetric matrix (n, n) in the order of Prim's algorithm, and the edge that each came by.

    ``largest``: whether the largest edges are wanted, or the smallest. ``zero`` is no edge, worse than any other.
    """
    n = A.shape[0]
    key, done = np.full(n, zero, A.dtype), np.zeros(n, np.bool_)
    order, edges = np.empty(n, np.int64), np.full(n, zero, A.dtype)
    v = 0
    for k in range(n):
        order[k], edges[k], done[v] = v, key[v], True
        row = A[v]
        if largest:
            for u in range(n):
                key[u] = zero if done[u] else max(key[u], row[u])
            best = zero
            for u in range(n):
                best = max(best, key[u])
        else:
            for u in range(n):
                key[u] = zero if done[u] else min(key[u], row[u])
            best = zero
            for u in range(n):
                best = min(best, key[u])
        v = 0
        while v < n - 1 and (done[v] or key[v] != best):
            v += 1
    return order, edges


@kernel
def fill_bottlenecks(D, order, edges, one, largest, first, last):
    """The rows of the vertices ``order[first]`` … ``order[last - 1]``: D[i, j] ← the bottleneck between i and j."""
    n = order.size
    place, row = np.empty(n, np.int64), np.empty(n, D.dtype)
    for k in range(n):
        place[order[k]] = k
    for i in range(first, last):
        row[i] = one
        worst = one
        for j in range(i + 1, n):
            worst = min(worst, edges[j]) if largest else max(worst, edges[j])
            row[j] = worst
        worst = one
        for j in range(i - 1, -1, -1):
            worst = min(worst, edges[j + 1]) if largest else max(worst, edges[j + 1])
            row[j] = worst
        to = D[order[i]]
        for u in range(n):
            to[u] = row[place[u]]
