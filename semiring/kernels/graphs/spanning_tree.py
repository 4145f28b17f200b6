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


_LANES = 64  # entries that are compared side by side
_ROWS = 32  # that stay in the second-level cache


@kernel
def _offer(row, key, done, zero, largest, lanes):
    """Key (n,) ← the best edge to each vertex that is not done, ``row`` among them; its best value is returned.

    n is a multiple of `_LANES`, which is the size of ``lanes``: a best one for each needs no order of comparisons.
    """
    for j in range(_LANES):
        lanes[j] = zero
    for start in range(0, key.size, _LANES):
        if largest:
            for j in range(_LANES):
                x = row[start + j] if row[start + j] > key[start + j] else key[start + j]
                x = zero if done[start + j] else x
                key[start + j] = x
                lanes[j] = x if x > lanes[j] else lanes[j]
        else:
            for j in range(_LANES):
                x = row[start + j] if row[start + j] < key[start + j] else key[start + j]
                x = zero if done[start + j] else x
                key[start + j] = x
                lanes[j] = x if x < lanes[j] else lanes[j]
    best = zero
    for j in range(_LANES):
        best = max(best, lanes[j]) if largest else min(best, lanes[j])
    return best


@kernel
def spanning_forest(A, zero, largest):
    """The vertices of a symmetric matrix (n, n) in the order of Prim's algorithm, and the edge that each came by.

    ``largest``: whether the largest edges are wanted, or the smallest. ``zero`` is no edge, worse than any other.
    """
    n = A.shape[0]
    padded = -(-n // _LANES) * _LANES
    key, done, row = np.full(padded, zero, A.dtype), np.ones(padded, np.bool_), np.full(padded, zero, A.dtype)
    done[:n] = False
    order, edges, lanes = np.empty(n, np.int64), np.full(n, zero, A.dtype), np.empty(_LANES, A.dtype)
    v = 0
    for k in range(n):
        order[k], edges[k], done[v] = v, key[v], True
        for u in range(n):
            row[u] = A[v, u]
        best = _offer(row, key, done, zero, largest, lanes)
        for start in range(0, padded, _LANES):
            found = 0
            for j in range(_LANES):
                found += (key[start + j] == best) & (not done[start + j])
            if found:
                v = start
                while v < n - 1 and (done[v] or key[v] != best):
                    v += 1
                break
    return order, edges


@kernel
def _pass_over(given, edge, largest, first, last, row):
    """Row ← the worse of an edge and the given row, from ``first`` to ``last`` - 1."""
    if largest:
        for j in range(first, last):
            row[j] = given[j] if given[j] < edge else edge
    else:
        for j in range(first, last):
            row[j] = given[j] if given[j] > edge else edge


@kernel
def fill_bottlenecks(D, order, edges, one, largest, first, last):
    """The rows of the vertices ``order[first]`` … ``order[last - 1]``: D[i, j] ← the bottleneck between i and j.

    In that order a row differs from its neighbour by one edge: towards the end from the next one, else from the one
    before. So of some rows one is made by running along it, the others by a minimum of whole rows.
    """
    n = order.size
    place, rows = np.empty(n, np.int32), np.empty((_ROWS, n), D.dtype)
    for k in range(n):
        place[order[k]] = k
    for start in range(first, last, _ROWS):
        stop = min(last, start + _ROWS)
        i, worst = stop - 1, one
        row = rows[i - start]
        row[i] = one
        for j in range(i + 1, n):
            worst = min(worst, edges[j]) if largest else max(worst, edges[j])
            row[j] = worst
        for i in range(stop - 2, start - 1, -1):
            _pass_over(rows[i + 1 - start], edges[i + 1], largest, i + 1, n, rows[i - start])
            rows[i - start, i] = one
        i, worst = start, one
        row = rows[0]
        for j in range(i - 1, -1, -1):
            worst = min(worst, edges[j + 1]) if largest else max(worst, edges[j + 1])
            row[j] = worst
        for i in range(start + 1, stop):
            _pass_over(rows[i - 1 - start], edges[i], largest, 0, i, rows[i - start])
        for i in range(start, stop):
            row, to = rows[i - start], D[order[i]]
            for u in range(n):
                to[u] = row[place[u]]
