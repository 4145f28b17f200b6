"""Maximum and minimum spanning forests of dense graphs, and the bottlenecks of their paths.

Sources: R. C. Prim, Bell System Tech. J. 36 (1957), on a matrix; T. C. Hu, Operations Research 9 (1961): a path in a
maximum spanning tree has the greatest bottleneck of all paths. Take the vertices in the order of Prim's algorithm. The
bottleneck between two of them is the worst of the edges that added the vertices after the first, up to the second.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import use_wide_vectors

_LANES = 64  # keys that are compared side by side
_ROWS = 64  # rows that are computed together, from a common row and limits for the vertices before and after them


@kernel
def _select_better(x, y, largest):
    """Return the larger or the smaller of two numbers, by a selection without a branch, which LLVM vectorizes."""
    return x if (x > y) == largest else y


@kernel
def _relax(key, row, key_limits, largest, zero, lanes):
    """Improve the keys (m · 64,) by the edges in a row, but to no better value than ``key_limits``.

    Return the best key. ``lanes`` (64,) receive the best key of every 64th vertex.
    """
    lanes[:] = zero
    for start in range(0, key.size, _LANES):
        stop = start + _LANES
        keys, edges, bound = key[start:stop], row[start:stop], key_limits[start:stop]
        for c in range(edges.size):
            keys[c] = _select_better(_select_better(keys[c], edges[c], largest), bound[c], not largest)
        for c in range(_LANES):
            lanes[c] = _select_better(lanes[c], keys[c], largest)
    best = zero
    for c in range(_LANES):
        best = _select_better(best, lanes[c], largest)
    return best


@kernel
def spanning_forest(A, zero, one, largest):
    """Return the vertices of a symmetric matrix (n, n) in the order of Prim's algorithm, and the edge that added each.

    ``largest``: whether the largest edges are chosen, or the smallest. ``zero`` is no edge, worse than every edge, and
    ``one`` is better than every edge.
    """
    use_wide_vectors()
    n = A.shape[0]
    padded = -(-n // _LANES) * _LANES
    key, key_limits, lanes = np.full(padded, zero, A.dtype), np.full(padded, one, A.dtype), np.empty(_LANES, A.dtype)
    order, edges = np.empty(n, np.int64), np.full(n, zero, A.dtype)
    v = 0
    for k in range(n):
        order[k], edges[k] = v, key[v]
        key_limits[v] = zero  # no edge leads to a vertex that was added
        best = _relax(key, A[v], key_limits, largest, zero, lanes)
        if best == zero:  # the next tree of the forest
            v = 0
            while v < n - 1 and key_limits[v] == zero:
                v += 1
            continue
        v = 0
        while lanes[v] != best:
            v += 1
        while key[v] != best:
            v += _LANES
    return order, edges


@kernel
def order_forest(n, tails, heads):
    """Return the vertices of a spanning forest in an order for `fill_bottlenecks`, and the edge that added each, or -1.

    ``tails``, ``heads``: the edges of the forest, the best first. Each tree is a sequence of vertices. An edge that
    joins two trees appends the sequence of the second to that of the first, and stands between them, because all edges
    inside either tree are better. Source: J. B. Kruskal, Proc. AMS 7 (1956).
    """
    parents, last, following = np.arange(n), np.arange(n), np.full(n, -1)
    edge_of = np.full(n, -1)
    for k in range(tails.size):
        u, v = tails[k], heads[k]
        while parents[u] != u:
            parents[u] = parents[parents[u]]
            u = parents[u]
        while parents[v] != v:
            parents[v] = parents[parents[v]]
            v = parents[v]
        parents[v] = u  # the first vertex of the joined row
        following[last[u]], last[u] = v, last[v]
        edge_of[v] = k
    order, edges, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for first in range(n):
        if parents[first] != first:
            continue
        v = first
        while v >= 0:
            order[count], edges[count] = v, edge_of[v]
            count += 1
            v = following[v]
    return order, edges


@kernel
def _fill_limited_row(base, place, first, limit_before, limit_after, largest, row):
    """Fill ``row`` with the worse of the base and a limit, one for vertices before ``first`` and one for all others."""
    for u in range(row.size):
        row[u] = _select_better(base[u], limit_before if place[u] < first else limit_after, not largest)


@kernel
def fill_bottlenecks(D, order, edges, one, largest, first, last):
    """Set D[i, j] to the bottleneck between i and j, in the rows of the vertices order[first] … order[last - 1].

    The bottleneck is the worst of the edges that added the vertices after the earlier vertex, up to the later vertex.
    So consecutive rows differ, outside their own vertices, only by a limit for all earlier vertices and a limit for all
    later vertices.
    """
    use_wide_vectors()
    n = order.size
    place, base = np.empty(n, np.int32), np.empty(n, D.dtype)
    for k in range(n):
        place[order[k]] = k
    for start in range(first, last, _ROWS):
        stop = min(last, start + _ROWS)
        worst = one
        for j in range(start - 1, -1, -1):  # the vertices before the rows
            worst = _select_better(worst, edges[j + 1], not largest)
            base[order[j]] = worst
        worst = one
        for j in range(stop, n):  # the vertices after the rows
            worst = _select_better(worst, edges[j], not largest)
            base[order[j]] = worst
        for i in range(start, stop):
            limit_before = limit_after = one
            for j in range(start + 1, i + 1):
                limit_before = _select_better(limit_before, edges[j], not largest)
            for j in range(i + 1, stop):
                limit_after = _select_better(limit_after, edges[j], not largest)
            row = D[order[i]]
            _fill_limited_row(base, place, start, limit_before, limit_after, largest, row)
            row[order[i]] = worst = one
            for j in range(i - 1, start - 1, -1):
                worst = _select_better(worst, edges[j + 1], not largest)
                row[order[j]] = worst
            worst = one
            for j in range(i + 1, stop):
                worst = _select_better(worst, edges[j], not largest)
                row[order[j]] = worst
