"""Maximum and minimum spanning forests of dense graphs, and the bottlenecks of their paths.

Sources: R. C. Prim, Bell System Tech. J. 36 (1957), on a matrix; T. C. Hu, Operations Research 9 (1961): a path in a
maximum spanning tree has the greatest bottleneck of all paths. Take the vertices in the order of Prim's algorithm. The
bottleneck between two of them is the worst of the edges that added the vertices after the first, up to the second.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.memory import wide
from semiring.kernels.graphs.compilation import kernel

__all__ = ["fill_bottlenecks", "in_a_row", "spanning_forest"]


_LANES = 64  # keys that are compared side by side
_ROWS = 64  # rows that are computed from one row and a limit on either side


@kernel
def _first(x, y, largest):
    """Return the larger or the smaller of two numbers, by a selection without a branch, which LLVM vectorizes."""
    return x if (x > y) == largest else y


@kernel
def _relax(key, row, most, largest, zero, lanes):
    """Improve the keys (m · 64,) by the edges in a row, no better than ``most``.

    Return the best key. ``lanes`` (64,) receive the best of every 64th key.
    """
    lanes[:] = zero
    for start in range(0, key.size, _LANES):
        keys, edges, bound = key[start : start + _LANES], row[start : start + _LANES], most[start : start + _LANES]
        for c in range(edges.size):
            keys[c] = _first(_first(keys[c], edges[c], largest), bound[c], not largest)
        for c in range(_LANES):
            lanes[c] = _first(lanes[c], keys[c], largest)
    best = zero
    for c in range(_LANES):
        best = _first(best, lanes[c], largest)
    return best


@kernel
def spanning_forest(A, zero, one, largest):
    """Return the vertices of a symmetric matrix (n, n) in the order of Prim's algorithm, and the edge that added each.

    ``largest``: whether the largest edges are chosen, or the smallest. ``zero`` is no edge, worse than every edge, and
    ``one`` is better than every edge.
    """
    wide()
    n = A.shape[0]
    padded = -(-n // _LANES) * _LANES
    key, most, lanes = np.full(padded, zero, A.dtype), np.full(padded, one, A.dtype), np.empty(_LANES, A.dtype)
    order, edges = np.empty(n, np.int64), np.full(n, zero, A.dtype)
    v = 0
    for k in range(n):
        order[k], edges[k] = v, key[v]
        most[v] = zero  # no edge leads to a vertex that was added
        best = _relax(key, A[v], most, largest, zero, lanes)
        if best == zero:  # the next tree of the forest
            v = 0
            while v < n - 1 and most[v] == zero:
                v += 1
            continue
        v = 0
        while lanes[v] != best:
            v += 1
        while key[v] != best:
            v += _LANES
    return order, edges


@kernel
def in_a_row(n, tails, heads):
    """Return the vertices of a spanning forest in such an order, and the edge that added each; -1 is none.

    ``tails``, ``heads``: its edges, the best first. An edge that joins two trees puts their rows one after the other
    and stands between them, because all edges inside either tree are better. Source: J. B. Kruskal, Proc. AMS 7 (1956).
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
        above[v] = u  # the first vertex of the joined row
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
def _limit(base, place, first, limit_before, limit_after, largest, row):
    """Fill ``row`` with the worse of the base and of one of two edges, for vertices before or after the chain."""
    for u in range(row.size):
        row[u] = _first(base[u], limit_before if place[u] < first else limit_after, not largest)


@kernel
def fill_bottlenecks(D, order, edges, one, largest, first, last):
    """Set D[i, j] to the bottleneck between i and j, in the rows of the vertices order[first] … order[last - 1].

    The bottleneck is the worst of the edges that added the vertices after the one, up to the other. So consecutive rows
    differ, outside their own vertices, by one limit on all earlier vertices and one on all later vertices.
    """
    wide()
    n = order.size
    place, base = np.empty(n, np.int32), np.empty(n, D.dtype)
    for k in range(n):
        place[order[k]] = k
    for start in range(first, last, _ROWS):
        stop = min(last, start + _ROWS)
        worst = one
        for j in range(start - 1, -1, -1):  # the vertices before the rows
            worst = _first(worst, edges[j + 1], not largest)
            base[order[j]] = worst
        worst = one
        for j in range(stop, n):  # the vertices after the rows
            worst = _first(worst, edges[j], not largest)
            base[order[j]] = worst
        for i in range(start, stop):
            limit_before = limit_after = one
            for j in range(start + 1, i + 1):
                limit_before = _first(limit_before, edges[j], not largest)
            for j in range(i + 1, stop):
                limit_after = _first(limit_after, edges[j], not largest)
            row = D[order[i]]
            _limit(base, place, start, limit_before, limit_after, largest, row)
            row[order[i]] = worst = one
            for j in range(i - 1, start - 1, -1):
                worst = _first(worst, edges[j + 1], not largest)
                row[order[j]] = worst
            worst = one
            for j in range(i + 1, stop):
                worst = _first(worst, edges[j], not largest)
                row[order[j]] = worst
