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

__all__ = ["fill_bottlenecks", "in_a_row", "spanning_forest"]


_TOGETHER = 64  # entries that are compared at a time
_ROWS = 32  # that stay in the second-level cache


@kernel
def _first(x, y, largest):
    """The larger of two numbers, or the smaller one: a selection without a branch, of which vectors are made."""
    return x if (x > y) == largest else y


@kernel
def _best_of(key, largest, work):
    """The best of the keys (n,), by halves; ``work`` (n,)."""
    n = key.size
    half = (n + 1) // 2
    for j in range(n - half):
        work[j] = _first(key[j], key[j + half], largest)
    if n % 2:
        work[half - 1] = key[half - 1]
    n = half
    while n > 1:
        half = (n + 1) // 2
        for j in range(n - half):
            work[j] = _first(work[j], work[j + half], largest)
        n = half
    return work[0]


@kernel
def spanning_forest(A, zero, one, largest):
    """The vertices of a symmetric matrix (n, n) in the order of Prim's algorithm, and the edge that each came by.

    ``largest``: whether the largest edges are wanted, or the smallest. ``zero`` is no edge, worse than any other, and
    ``one`` is better than any.
    """
    n = A.shape[0]
    key, work, most = np.full(n, zero, A.dtype), np.empty(n, A.dtype), np.full(n, one, A.dtype)
    order, edges = np.empty(n, np.int64), np.full(n, zero, A.dtype)
    v = 0
    for k in range(n):
        order[k], edges[k] = v, key[v]
        most[v] = zero  # nothing leads to a vertex that has come
        row = A[v]
        for u in range(n):
            key[u] = _first(_first(key[u], row[u], largest), most[u], not largest)
        best = _best_of(key, largest, work)
        v = 0
        if best == zero:
            while v < n - 1 and most[v] == zero:
                v += 1
            continue
        for start in range(0, n, _TOGETHER):
            found = 0
            for u in range(start, min(n, start + _TOGETHER)):
                found += key[u] == best
            if found:
                v = start
                while v < n - 1 and key[v] != best:
                    v += 1
                break
    return order, edges


@kernel
def in_a_row(n, tails, heads):
    """The vertices of a spanning forest in such an order, and which edge each came by; -1 is none.

    ``tails``, ``heads``: its edges, the best first. Two trees that an edge joins are put in a row, and it
    stands between them: all edges inside either are better. So it is by J. B. Kruskal, Proc. AMS 7 (1956).
    """
    above, last, following = np.arange(n), np.arange(n), np.full(n, -1)
    came_by = np.full(n, -1)
    for k in range(tails.size):
        u, v = tails[k], heads[k]
        while above[u] != u:
            above[u] = above[above[u]]
            u = above[u]
        while above[v] != v:
            above[v] = above[above[v]]
            v = above[v]
        above[v] = u  # the first of the row that both are in now
        following[last[u]], last[u] = v, last[v]
        came_by[v] = k
    order, edges, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for first in range(n):
        if above[first] != first:
            continue
        v = first
        while v >= 0:
            order[count], edges[count] = v, came_by[v]
            count += 1
            v = following[v]
    return order, edges


@kernel
def _pass_over(given, edge, largest, first, last, row):
    """Row ← the worse of an edge and the given row, from ``first`` to ``last`` - 1."""
    for j in range(first, last):
        row[j] = _first(given[j], edge, not largest)


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
        row, worst = rows[stop - 1 - start], one
        row[stop - 1] = one
        for j in range(stop, n):
            worst = _first(worst, edges[j], not largest)
            row[j] = worst
        for i in range(stop - 2, start - 1, -1):
            _pass_over(rows[i + 1 - start], edges[i + 1], largest, i + 1, n, rows[i - start])
            rows[i - start, i] = one
        row, worst = rows[0], one
        for j in range(start - 1, -1, -1):
            worst = _first(worst, edges[j + 1], not largest)
            row[j] = worst
        for i in range(start + 1, stop):
            _pass_over(rows[i - 1 - start], edges[i], largest, 0, i, rows[i - start])
        for i in range(start, stop):
            row, to = rows[i - start], D[order[i]]
            for u in range(n):
                to[u] = row[place[u]]
