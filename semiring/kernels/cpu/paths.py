"""Predecessors on the CPU: the helpers of `semiring.algorithms.predecessors`, which states and proves the method.

Every kernel works on a range of rows or of columns and writes nothing outside it, so ranges can go to threads, and the
result does not depend on how many there are. D (n, n) is the closed matrix, P (n, n) its stamps, both with unit column
stride; an edge p → j is *direct* where P[p, j] is -1 and D[p, j] is not the zero: then D[p, j] is also its weight.

All distances of a row or column that are used again and again are copied into a scratch tile first: a column of a large
matrix costs a cache line an element, a tile costs it once for all its columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from stub import plus, times

__all__ = ["NONE", "edges_from", "edges_into", "follow_pivots", "grow_trees", "last_edges", "settle_rows"]

NONE = -9999  # SciPy's "no predecessor"
UNDECIDED = -2  # while the work lasts

LANES = 64  # rows that `last_edges` treats at a time: 24 ms at n = 2048 on one Zen 4 core, 31 ms with 32, 39 ms with 16
COLUMNS = 64  # columns that `follow_pivots` treats at a time
BLOCK = 64  # columns of a tile that is transposed: it stays in the first-level cache

_jit = njit(nogil=True, error_model="numpy")


def _close(x, y, tolerance):  # type: ignore[no-untyped-def]
    """Whether x is y up to tolerance[0]·|y| + tolerance[1]; on integers and truth values, whether it is y."""
    raise NotImplementedError("compiled code only")


@overload(_close, inline="always")
def _close_overload(x, y, tolerance):  # type: ignore[no-untyped-def]
    if isinstance(y, types.Float):
        return lambda x, y, tolerance: (x == y) | (abs(x - y) < tolerance[0] * abs(y) + tolerance[1])
    return lambda x, y, tolerance: x == y


def _deviation(x, y, relative):  # type: ignore[no-untyped-def]
    """How far x is from y, as a float64: absolutely, or in units of |y|. Where only equality counts, 0 or ∞."""
    raise NotImplementedError("compiled code only")


@overload(_deviation)
def _deviation_overload(x, y, relative):  # type: ignore[no-untyped-def]
    if isinstance(y, types.Float):

        def floating(x, y, relative):  # type: ignore[no-untyped-def]
            if x == y:
                return 0.0
            difference = abs(np.float64(x) - np.float64(y))
            return difference / max(abs(np.float64(y)), 1e-300) if relative else difference

        return floating
    return lambda x, y, relative: 0.0 if x == y else np.inf


# ------------------------------------------------------------------------------------------- edges that are paths


@_jit
def edges_into(sr, D, P, zero, one, j0, j1, sources, weights, counts):  # type: ignore[no-untyped-def]
    """The direct edges into the columns j0 … j1 - 1, up to ``width`` of a column, and whether none improves on 1̄.

    sources (n, width) int32 and weights (n, width) take them in increasing order; counts (n), zero before, says how many
    there are, also where they are more than ``width``.
    """
    width = sources.shape[1]
    monotone = True
    for i in range(D.shape[0]):
        for j in range(j0, j1):
            if P[i, j] < 0:
                w = D[i, j]
                if w != zero and i != j:
                    c = counts[j]
                    if c < width:
                        sources[j, c] = i
                        weights[j, c] = w
                    counts[j] = c + 1
                    if plus(sr, one, w) != one:
                        monotone = False
    return monotone


@_jit
def last_edges(sr, D, P, pred, zero, sources, weights, counts, tight, loose, r0, r1, pending, open_rows, doubtful):  # type: ignore[no-untyped-def]
    """Rows r0 … r1 - 1 of pred from the direct edges alone: pred[i, j] attains ⊕ of D[i, p] ⊗ w(p, j) over them.

    Only vertices p strictly nearer than j are taken, and only if D[i, j] is met within ``loose``; what is left is
    UNDECIDED. pending (n) marks the columns and open_rows (n) the rows with such entries, doubtful (n) the rows where
    D[i, j] is not met within ``tight``. Columns with more direct edges than ``sources`` holds are left over as a whole.
    """
    n = D.shape[0]
    width = sources.shape[1]
    rows = np.empty((n, LANES), D.dtype)
    chosen = np.empty((n, LANES), np.int32)
    best = np.empty(LANES, D.dtype)
    arg = np.empty(LANES, np.int32)
    doubts = np.empty(LANES, np.int32)
    for i0 in range(r0, r1, LANES):
        m = min(LANES, r1 - i0)
        if m < LANES:
            rows[:, :] = zero
        for b in range(0, n, BLOCK):
            for lane in range(m):
                for j in range(b, min(n, b + BLOCK)):
                    rows[j, lane] = D[i0 + lane, j]
        doubts[:] = 0
        for j in range(n):
            for lane in range(LANES):
                best[lane] = zero
                arg[lane] = UNDECIDED
            if counts[j] <= width:
                for c in range(counts[j]):
                    p = sources[j, c]
                    w = weights[j, c]
                    for lane in range(LANES):
                        x = rows[p, lane]
                        s = times(sr, x, w)
                        nearer = plus(sr, x, rows[j, lane]) != rows[j, lane]
                        better = (plus(sr, best[lane], s) != best[lane]) & nearer
                        best[lane] = s if better else best[lane]
                        arg[lane] = p if better else arg[lane]
            for lane in range(LANES):
                d = rows[j, lane]
                v = arg[lane] if _close(best[lane], d, loose) else np.int32(UNDECIDED)
                doubts[lane] += (v >= 0) & (not _close(best[lane], d, tight))
                chosen[j, lane] = np.int32(NONE) if d == zero else v
        for lane in range(m):
            if doubts[lane]:
                doubtful[i0 + lane] = True
        for b in range(0, n, BLOCK):
            e = min(n, b + BLOCK)
            for lane in range(m):
                i = i0 + lane
                undecided = False
                for j in range(b, e):
                    v = chosen[j, lane]
                    v = np.int32(i) if (P[i, j] < 0) & (v != NONE) else v
                    v = np.int32(NONE) if i == j else v
                    pred[i, j] = v
                    undecided |= v == UNDECIDED
                if undecided:
                    open_rows[i] = True
                    for j in range(b, e):
                        if pred[i, j] == UNDECIDED:
                            pending[j] = True


# ------------------------------------------------------------------------------------------------ pointers by pivots


@_jit
def _intermediate(sr, row, column, i, j, first, last, zero):  # type: ignore[no-untyped-def]
    """A vertex k of first … last - 1, nearer to j than i is, with D[i, k] ⊗ D[k, j] = D[i, j]; where rounding breaks the
    equality for all of them, one that attains the best. -1 if there is none. row: D[i, :], column: D[:, j].
    """
    d = column[i]
    found = -1
    for k in range(first, last):
        x = column[k]
        hit = (times(sr, row[k], x) == d) & (plus(sr, x, d) != d) & (k != j)
        found = max(found, k if hit else -1)
    if found < 0:
        best = zero
        for k in range(first, last):
            x = column[k]
            s = times(sr, row[k], x)
            if plus(sr, best, s) != best and plus(sr, x, d) != d and k != j:
                best, found = s, k
    return found


@_jit
def follow_pivots(sr, D, P, pred, zero, chunk, tight, loose, j0, j1, pending, doubtful):  # type: ignore[no-untyped-def]
    """Columns j0 … j1 - 1 of pred where they are UNDECIDED, by pointers (i, j) → (k, j) to an `_intermediate` k.

    Pointers lead to vertices strictly nearer to j, so they end, at a decided entry (whose last edge is then that of the
    whole chain) or at one that has no pointer. The edge found is taken if it leads on from a vertex strictly nearer to i
    than j and meets D[i, j] within ``loose``; doubtful as in `last_edges`.
    """
    n = D.shape[0]
    distances = np.empty((COLUMNS, n), D.dtype)
    pointers = np.empty((COLUMNS, n), np.int32)  # ≥ 0: to follow; -1 - p: the last edge comes from p; -1 - n: no way on
    chain = np.empty(n, np.int64)
    for b in range(j0, j1, COLUMNS):
        e = min(j1, b + COLUMNS)
        if not np.any(pending[b:e]):
            continue
        for i in range(n):
            for j in range(b, e):
                distances[j - b, i] = D[i, j]
        for i in range(n):
            for j in range(b, e):
                v = pred[i, j]
                k = np.int32(-1 - v) if v >= 0 else np.int32(-1 - n)
                if v == UNDECIDED:
                    first = P[i, j]
                    found = _intermediate(sr, D[i], distances[j - b], i, j, first, min(n, first + chunk), zero)
                    k = np.int32(found if found >= 0 else -1 - n)
                pointers[j - b, i] = k
        for j in range(b, e):
            pointer = pointers[j - b]
            for start in range(n):
                length = 0
                i = start
                while pointer[i] >= 0:
                    chain[length] = i
                    length += 1
                    i = pointer[i]
                for c in range(length):
                    pointer[chain[c]] = pointer[i]
        for i in range(n):
            for j in range(b, e):
                if pred[i, j] == UNDECIDED:
                    p = -1 - pointers[j - b, i]
                    d = D[i, j]
                    if p < n and plus(sr, D[i, p], d) != d:
                        s = times(sr, D[i, p], distances[j - b, p])
                        if _close(s, d, loose):
                            pred[i, j] = p
                            if not _close(s, d, tight):
                                doubtful[i] = True


# ------------------------------------------------------------------------------------------------- ties, and the rest


@_jit
def edges_from(D, P, zero, r0, r1, targets, lengths, counts):  # type: ignore[no-untyped-def]
    """The direct edges out of the rows r0 … r1 - 1, as `edges_into`."""
    width = targets.shape[1]
    for i in range(r0, r1):
        count = 0
        for j in range(D.shape[1]):
            if P[i, j] < 0:
                w = D[i, j]
                if w != zero and i != j:
                    if count < width:
                        targets[i, count] = j
                        lengths[i, count] = w
                    count += 1
        counts[i] = count


@_jit
def grow_trees(sr, D, P, pred, zero, into, weights, indegree, out, lengths, outdegree, tight, r0, r1, open_rows):  # type: ignore[no-untyped-def]
    """Rows r0 … r1 - 1 of pred where they are UNDECIDED: a breadth-first search over the tight edges.

    An edge p → j is tight in row i if D[i, p] ⊗ w(p, j) = D[i, j] within ``tight``. An undecided vertex is only ever
    attached to a decided one, so the row stays a tree, whatever the ties. Each undecided vertex looks at the edges into it
    once, each newly decided one at the edges out of it once. open_rows keeps its mark where a vertex could not be attached.
    """
    n = D.shape[0]
    queue = np.empty(n, np.int64)
    for i in range(r0, r1):
        if not open_rows[i]:
            continue
        row, found = D[i], pred[i]
        undecided = 0
        tail = 0
        for j in range(n):
            if found[j] == UNDECIDED:
                undecided += 1
                for c in range(min(indegree[j], into.shape[1])):
                    p = into[j, c]
                    if (found[p] >= 0 or p == i) and _close(times(sr, row[p], weights[j, c]), row[j], tight):
                        found[j] = p
                        undecided -= 1
                        queue[tail] = j
                        tail += 1
                        break
        head = 0
        while head < tail and undecided:
            p = queue[head]
            head += 1
            all_of_row = outdegree[p] > out.shape[1]
            for c in range(n if all_of_row else outdegree[p]):
                j = c if all_of_row else out[p, c]
                if found[j] == UNDECIDED:
                    w = D[p, j] if all_of_row else lengths[p, c]
                    if _close(times(sr, row[p], w), row[j], tight) and P[p, j] < 0 and w != zero:
                        found[j] = p
                        undecided -= 1
                        queue[tail] = j
                        tail += 1
        open_rows[i] = undecided > 0


@_jit
def settle_rows(sr, D, P, pred, zero, one, bound, relative, r0, r1, flagged, wide):  # type: ignore[no-untyped-def]
    """Rows r0 … r1 - 1 where flagged: check that pred[i] is a tree of paths that add up to D[i]; repair it if not.

    wide: an array of the type in which paths are added up (float64 for floats). Returns (repaired, failed): rows that
    needed a repair, and rows in which a path misses D by more than the tolerance even so.
    """
    n = D.shape[0]
    state = np.empty(n, np.int8)
    total = np.empty(n, wide.dtype)
    slack = np.empty(n, np.float64)
    hops = np.empty(n, np.int64)
    chain = np.empty(n, np.int64)
    repaired = 0
    failed = 0
    for i in range(r0, r1):
        if not flagged[i]:
            continue
        bad = _walk_row(sr, D, P, pred, i, zero, one, bound, relative, state, total, slack, hops, chain)
        if bad:
            repaired += 1
            _attach(sr, D, P, pred, i, zero, relative, state, total, slack, hops, chain)
            if _walk_row(sr, D, P, pred, i, zero, one, bound, relative, state, total, slack, hops, chain):
                for j in range(n):
                    if state[j] != _UNREACHED and j != i:
                        state[j] = _BAD
                _attach(sr, D, P, pred, i, zero, relative, state, total, slack, hops, chain)
                if _walk_row(sr, D, P, pred, i, zero, one, bound, relative, state, total, slack, hops, chain):
                    failed += 1
    return repaired, failed


_OPEN, _GOOD, _BAD, _ACTIVE, _UNREACHED = 0, 1, 2, 3, 4


@_jit
def _walk_row(sr, D, P, pred, i, zero, one, bound, relative, state, total, slack, hops, chain):  # type: ignore[no-untyped-def]
    """Follow every vertex of row i to the root: state becomes good, bad (a circle, a loose end, a wrong sum) or
    unreached; total the sum along the path, hops its edges, slack what it misses. Returns the number of bad ones.
    """
    n = D.shape[0]
    for j in range(n):
        state[j] = _UNREACHED if D[i, j] == zero else _OPEN
        if state[j] == _UNREACHED:
            pred[i, j] = NONE
    state[i] = _GOOD
    total[i] = one
    slack[i] = 0.0
    hops[i] = 0
    pred[i, i] = NONE
    weight = np.empty(1, total.dtype)
    goal = np.empty(1, total.dtype)
    bad = 0
    for start in range(n):
        length = 0
        v = start
        while v >= 0 and state[v] == _OPEN:
            state[v] = _ACTIVE
            chain[length] = v
            length += 1
            v = pred[i, v]
        sound = v >= 0 and state[v] == _GOOD
        for c in range(length - 1, -1, -1):
            u = chain[c]
            if sound and P[v, u] >= 0:  # no edge
                sound = False
            if sound:
                weight[0] = D[v, u]
                goal[0] = D[i, u]
                total[u] = times(sr, total[v], weight[0])
                hops[u] = hops[v] + 1
                sound = _close(total[u], goal[0], bound)
                slack[u] = _deviation(total[u], goal[0], relative)
            state[u] = _GOOD if sound else _BAD
            bad += not sound
            v = u
    return bad


@_jit
def _attach(sr, D, P, pred, i, zero, relative, state, total, slack, hops, chain):  # type: ignore[no-untyped-def]
    """Dijkstra's algorithm for the bad vertices of row i, from the good ones: the length of a path is the sum of
    |D[i, p] ⊗ w(p, v) - D[i, v]| over its direct edges p → v, then its number of edges. Both are ≥ 0, whatever the
    weights are, and 0 is the length of a shortest path; so the result is a tree, and its paths miss D the least.
    """
    n = D.shape[0]
    m = 0
    for v in range(n):
        if state[v] == _BAD:
            chain[m] = v
            m += 1
            slack[v] = np.inf
            hops[v] = n
            pred[i, v] = NONE
    for p in range(n):
        if state[p] == _GOOD:
            _relax(sr, D, P, pred, i, p, zero, relative, slack, hops, chain, m)
    while m:
        at = 0
        for c in range(1, m):
            u, v = chain[at], chain[c]
            if slack[v] < slack[u] or (slack[v] == slack[u] and hops[v] < hops[u]):
                at = c
        p = chain[at]
        if slack[p] == np.inf:
            break
        m -= 1
        chain[at] = chain[m]
        state[p] = _GOOD
        _relax(sr, D, P, pred, i, p, zero, relative, slack, hops, chain, m)


@_jit
def _relax(sr, D, P, pred, i, p, zero, relative, slack, hops, chain, m):  # type: ignore[no-untyped-def]
    """Try the direct edges from p to the vertices chain[:m]."""
    if D[i, p] == zero:
        return
    for c in range(m):
        v = chain[c]
        w = D[p, v]
        if P[p, v] < 0 and w != zero and p != v:
            length = slack[p] + _deviation(times(sr, D[i, p], w), D[i, v], relative)
            if length < slack[v] or (length == slack[v] < np.inf and hops[p] + 1 < hops[v]):
                slack[v] = length
                hops[v] = hops[p] + 1
                pred[i, v] = p
