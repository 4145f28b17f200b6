"""Trees of best paths: pointers to intermediate vertices, a search over ties, and the repair of rounding effects.

These are helpers of `search`, which combines them. `semiring.algorithms.predecessors` states and proves the method.
Matrices have contiguous rows.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.scalars import plus, plus_numbers, times
from semiring.kernels.cpu.predecessors.direct_edges import (
    UNDECIDED,
    deviation,
    kernel,
    meets,
)

__all__ = ["COLUMNS", "follow_intermediates", "grow_trees", "settle_rows"]

COLUMNS = 64  # columns that `follow_intermediates` takes at a time
RUN = 64  # vertices that are scanned between two tests for a result
_OPEN, _GOOD, _BAD, _ACTIVE, _UNREACHED = range(5)  # the states of a vertex while a row is checked


@kernel
def _intermediate(sr, row, column, d, zero, loose, first, second, best, arg):
    """Return a vertex k nearer to j than i is, with D[i, k] ⊗ D[k, j] = D[i, j] = d, or -1 if there is none.

    If rounding breaks the equality for all vertices, the result is one that attains the best, if that meets d within
    ``loose``. row: D[i, :], column: D[:, j]. first and second are the starts of the runs that are scanned first. best
    and arg (RUN) are workspace.
    """
    has_nearer = np.int32(0)
    for number in range(-2, (row.size + RUN - 1) // RUN):
        start = number * RUN if number >= 0 else first if number == -2 else second
        x, y = row[start : start + RUN], column[start : start + RUN]
        last_hit = np.int32(-1)
        for c in range(x.size):  # LLVM vectorizes this loop, because it has no branch and uses 32 bits
            nearer = plus_numbers(sr, y[c], d) != d
            hit = (times(sr, x[c], y[c]) == d) & nearer
            last_hit = max(last_hit, np.int32(c) if hit else np.int32(-1))
            has_nearer |= np.int32(nearer)
        if last_hit >= 0:
            return np.int32(start + last_hit)
    if not has_nearer or (loose[0] == 0 and loose[1] == 0):
        return np.int32(-1)
    best[:] = zero
    arg[:] = -1
    for start in range(0, row.size, RUN):
        x, y = row[start : start + RUN], column[start : start + RUN]
        for c in range(x.size):
            s = times(sr, x[c], y[c])
            better = (plus_numbers(sr, best[c], s) != best[c]) & (plus_numbers(sr, y[c], d) != d)
            best[c] = s if better else best[c]
            arg[c] = np.int32(start + c) if better else arg[c]
    nearest = 0
    for c in range(1, RUN):
        if plus_numbers(sr, best[nearest], best[c]) != best[nearest]:
            nearest = c
    return arg[nearest] if meets(best[nearest], d, loose) else np.int32(-1)


@kernel
def follow_intermediates(sr, D, pred, zero, best, tight, loose, j0, j1, pending, doubtful):
    """Decide UNDECIDED entries of columns j0 … j1 - 1 of pred by pointers (i, j) → (k, j) to an `_intermediate` k.

    Pointers lead to vertices strictly nearer to j, so they end. They end at a decided entry, whose last edge is then
    that of the whole chain, or at an entry without a pointer. An edge is accepted if it leads on from a vertex strictly
    nearer to i than j and meets D[i, j] within ``loose``. doubtful is as in `last_edges`. best (n) is the best value of
    each column.

    Paths from one vertex, or to one, often pass the same vertices. So the run where the last column found a vertex is
    scanned first, then that of the last row.
    """
    n = D.shape[0]
    distances = np.empty((COLUMNS, n), D.dtype)
    pointers = np.empty((COLUMNS, n), np.int32)  # ≥ 0: to follow; -1 - p: the last edge is from p; -1 - n: no way on
    chain = np.empty(n, np.int64)
    runs = np.empty(COLUMNS, np.int64)  # the run where the last row found a vertex
    sums = np.empty(RUN, D.dtype)
    arg = np.empty(RUN, np.int32)
    for b in range(j0, j1, COLUMNS):
        e = min(j1, b + COLUMNS)
        if not np.any(pending[b:e]):
            continue
        for i in range(n):
            for j in range(b, e):
                distances[j - b, i] = D[i, j] if i != j else zero  # j is no intermediate on the way to j
        runs[:] = 0
        for i in range(n):
            run = 0
            for j in range(b, e):
                v = pred[i, j]
                k = np.int32(-1 - v) if v >= 0 else np.int32(-1 - n)
                if v == UNDECIDED and plus(sr, best[j], D[i, j]) != D[i, j]:
                    column = distances[j - b]
                    middle = _intermediate(sr, D[i], column, column[i], zero, loose, run, runs[j - b], sums, arg)
                    if middle >= 0:
                        k = middle
                        run = runs[j - b] = middle // RUN * RUN
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
                        if meets(s, d, loose):
                            pred[i, j] = p
                            if not meets(s, d, tight):
                                doubtful[i] = True


@kernel
def grow_trees(
    sr, D, before, pred, zero, monotone, into, weights, indegree, out, lengths, outdegree, tight, r0, r1, open_rows
):
    """Decide UNDECIDED entries of rows r0 … r1 - 1 of pred by a breadth-first search over the tight edges.

    An edge p → j is tight in row i if D[i, p] ⊗ w(p, j) = D[i, j] within ``tight``. An undecided vertex is only
    attached to a decided one. With ``monotone``, the value of the decided one must be no worse, because rounding makes
    edges tight that improve a little and could close a circle. Each undecided vertex tries the edges into it once. Each
    newly decided one tries the edges out of it once. open_rows keeps its mark if a vertex remains undecided.
    """
    n = D.shape[0]
    queue = np.empty(n, np.int64)
    for i in range(r0, r1):
        if not open_rows[i]:
            continue
        row, pred_row = D[i], pred[i]
        undecided = 0
        tail = 0
        for j in range(n):
            if pred_row[j] == UNDECIDED:
                undecided += 1
                for c in range(min(indegree[j], into.shape[1])):
                    p = into[j, c]
                    if (
                        (pred_row[p] >= 0 or p == i)
                        and meets(times(sr, row[p], weights[j, c]), row[j], tight)
                        and not (monotone and plus(sr, row[p], row[j]) != row[p])
                    ):
                        pred_row[j] = p
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
                if pred_row[j] == UNDECIDED:
                    w = before[p, j] if all_of_row else lengths[p, c]
                    if (
                        w != zero
                        and meets(times(sr, row[p], w), row[j], tight)
                        and not (monotone and plus(sr, row[p], row[j]) != row[p])
                        and meets(before[p, j], D[p, j], tight)
                    ):
                        pred_row[j] = p
                        undecided -= 1
                        queue[tail] = j
                        tail += 1
        open_rows[i] = undecided > 0


@kernel
def settle_rows(sr, sums, D, before, pred, zero, one, tight, bound, relative, r0, r1, flagged, wide):
    """Validate in the flagged rows r0 … r1 - 1 that pred[i] is a tree of paths that add up to D[i].

    Repair it if not. sums: the semiring on the type in which paths are added up (float64 for floats). wide: an empty
    array of that type. Return (repaired, failed): the rows that needed a repair, and the rows where a path misses D by
    more than ``bound`` after it.
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
        bad = _walk_row(sums, D, before, pred, i, zero, one, tight, bound, relative, state, total, slack, hops, chain)
        if bad:
            repaired += 1
            _attach(sr, D, before, pred, i, zero, tight, relative, state, total, slack, hops, chain)
            if _walk_row(sums, D, before, pred, i, zero, one, tight, bound, relative, state, total, slack, hops, chain):
                for j in range(n):
                    if state[j] != _UNREACHED and j != i:
                        state[j] = _BAD
                _attach(sr, D, before, pred, i, zero, tight, relative, state, total, slack, hops, chain)
                if _walk_row(
                    sums, D, before, pred, i, zero, one, tight, bound, relative, state, total, slack, hops, chain
                ):
                    failed += 1
    return repaired, failed


@kernel
def _walk_row(sums, D, before, pred, i, zero, one, tight, bound, relative, state, total, slack, hops, chain):
    """Follow every vertex of row i to the root and write its state.

    Return the number of bad ones. The state is good, bad (a circle, a loose end, a wrong sum) or unreached. total is
    the sum along the path, hops its edges, slack the error of the sum.
    """
    n = D.shape[0]
    for j in range(n):
        state[j] = _UNREACHED if D[i, j] == zero else _OPEN
        if state[j] == _UNREACHED:
            pred[i, j] = NO_PREDECESSOR
    state[i] = _GOOD
    total[i] = one
    slack[i] = 0.0
    hops[i] = 0
    pred[i, i] = NO_PREDECESSOR
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
            if sound and (before[v, u] == zero or not meets(before[v, u], D[v, u], tight)):  # no edge
                sound = False
            if sound:
                weight[0] = before[v, u]
                goal[0] = D[i, u]
                total[u] = times(sums, total[v], weight[0])
                hops[u] = hops[v] + 1
                sound = meets(total[u], goal[0], bound)
                slack[u] = deviation(total[u], goal[0], relative)
            state[u] = _GOOD if sound else _BAD
            bad += not sound
            v = u
    return bad


@kernel
def _attach(sr, D, before, pred, i, zero, tight, relative, state, total, slack, hops, chain):
    """Attach the bad vertices of row i to the good ones by Dijkstra's algorithm.

    The length of a path is the sum of |D[i, p] ⊗ w(p, v) - D[i, v]| over its direct edges p → v, then its number of
    edges. Both are ≥ 0, whatever the weights are, and 0 is the length of a shortest path. So the result is a tree, and
    its paths miss D the least.
    """
    n = D.shape[0]
    m = 0
    for v in range(n):
        if state[v] == _BAD:
            chain[m] = v
            m += 1
            slack[v] = np.inf
            hops[v] = n
            pred[i, v] = NO_PREDECESSOR
    for p in range(n):
        if state[p] == _GOOD:
            _relax(sr, D, before, pred, i, p, zero, tight, relative, slack, hops, chain, m)
    while m:
        nearest = 0
        for c in range(1, m):
            u, v = chain[nearest], chain[c]
            if slack[v] < slack[u] or (slack[v] == slack[u] and hops[v] < hops[u]):
                nearest = c
        p = chain[nearest]
        if slack[p] == np.inf:
            break
        m -= 1
        chain[nearest] = chain[m]
        state[p] = _GOOD
        _relax(sr, D, before, pred, i, p, zero, tight, relative, slack, hops, chain, m)


@kernel
def _relax(sr, D, before, pred, i, p, zero, tight, relative, slack, hops, chain, m):
    """Relax the direct edges from p to the vertices chain[:m]."""
    if D[i, p] == zero:
        return
    for c in range(m):
        v = chain[c]
        w = before[p, v]
        if meets(before[p, v], D[p, v], tight) and w != zero and p != v:
            length = slack[p] + deviation(times(sr, D[i, p], w), D[i, v], relative)
            if length < slack[v] or (length == slack[v] < np.inf and hops[p] + 1 < hops[v]):
                slack[v] = length
                hops[v] = hops[p] + 1
                pred[i, v] = p
