"""Trees of best paths: pointers to intermediate vertices, a search over ties, and the repair of rounding effects.

These are helpers of `search`, which combines them. `semiring.algorithms.predecessors` states and proves the method.
Matrices have contiguous rows.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.scalars import plus, plus_numbers, times
from semiring.kernels.cpu.direct_edges import UNDECIDED, deviation, meets

COLUMNS = 64  # columns that `follow_intermediates` processes at a time
RUN = 64  # vertices that are scanned between two tests for a result
_OPEN, _GOOD, _BAD, _ACTIVE, _UNREACHED = range(5)  # the states of a vertex while a row is checked


@kernel
def _find_intermediate(sr, row, column, d, zero, loose, first, second, best, arg):
    """Return a vertex k nearer to j than i is, with D[i, k] ⊗ D[k, j] = D[i, j] = d, or -1 if there is none.

    If rounding breaks the equality for every such k, return the k with the best D[i, k] ⊗ D[k, j], provided that it
    meets d within ``loose``. row: D[i, :], column: D[:, j]. first and second are the starts of the runs that are
    scanned first. best and arg (RUN) are workspace.
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
def follow_intermediates(sr, D, pred, zero, best, tight, loose, j0, j1, pending_columns, doubtful_rows):
    """Decide UNDECIDED entries of columns j0 … j1 - 1 of pred by pointers (i, j) → (k, j) to an `_find_intermediate` k.

    Pointers lead to vertices strictly nearer to j, so every chain of pointers ends. It ends at a decided entry, whose
    last edge is then the last edge of the whole chain, or at an entry without a pointer. An edge p → j is accepted if p
    is strictly nearer to i than j is, and D[i, p] ⊗ D[p, j] meets D[i, j] within ``loose``. pending_columns and
    doubtful_rows are those of `last_edges`. best (n) is the best value of each column.

    Paths from one vertex, or to one, often pass the same vertices. So two runs are scanned first: the run where the
    last column found a vertex, and then the run where the last row found one.
    """
    n = D.shape[0]
    distances = np.empty((COLUMNS, n), D.dtype)
    # k ≥ 0: a pointer to follow; -1 - p: the last edge comes from p; -1 - n: no pointer and no edge
    pointers = np.empty((COLUMNS, n), np.int32)
    chain = np.empty(n, np.int64)
    runs = np.empty(COLUMNS, np.int64)  # the run where the last row found a vertex
    sums = np.empty(RUN, D.dtype)
    arg = np.empty(RUN, np.int32)
    for b in range(j0, j1, COLUMNS):
        e = min(j1, b + COLUMNS)
        if not np.any(pending_columns[b:e]):
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
                    middle = _find_intermediate(sr, D[i], column, column[i], zero, loose, run, runs[j - b], sums, arg)
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
                                doubtful_rows[i] = True


@kernel
def grow_trees(
    sr,
    D,
    adjacency,
    pred,
    zero,
    is_monotone,
    tails,
    weights,
    indegree,
    heads,
    lengths,
    outdegree,
    tight,
    r0,
    r1,
    open_rows,
):
    """Decide UNDECIDED entries of rows r0 … r1 - 1 of pred by a breadth-first search over the tight edges.

    tails, weights (n, width) and indegree (n) are the direct edges into each vertex (`edges_into`). heads, lengths (n,
    width) and outdegree (n) are the direct edges out of each vertex (`edges_from`). open_rows (n) bool marks the rows
    with undecided vertices, and keeps the mark of a row if a vertex remains undecided.

    An edge p → j is tight in row i if D[i, p] ⊗ w(p, j) = D[i, j] within ``tight``. An undecided vertex is attached
    only to a decided vertex. With ``is_monotone``, the value of the decided vertex must be no worse than that of the
    undecided vertex. Otherwise an edge that improves a little, and is tight only by rounding, could close a cycle. Each
    undecided vertex tries the edges into it once. Each newly decided vertex tries the edges out of it once.
    """
    n = D.shape[0]
    queue = np.empty(n, np.int64)
    for i in range(r0, r1):
        if not open_rows[i]:
            continue
        row, pred_row = D[i], pred[i]
        undecided = 0
        queue_end = 0
        for j in range(n):
            if pred_row[j] == UNDECIDED:
                undecided += 1
                for c in range(min(indegree[j], tails.shape[1])):
                    p = tails[j, c]
                    if (
                        (pred_row[p] >= 0 or p == i)
                        and meets(times(sr, row[p], weights[j, c]), row[j], tight)
                        and not (is_monotone and plus(sr, row[p], row[j]) != row[p])
                    ):
                        pred_row[j] = p
                        undecided -= 1
                        queue[queue_end] = j
                        queue_end += 1
                        break
        queue_start = 0
        while queue_start < queue_end and undecided:
            p = queue[queue_start]
            queue_start += 1
            all_of_row = outdegree[p] > heads.shape[1]
            for c in range(n if all_of_row else outdegree[p]):
                j = c if all_of_row else heads[p, c]
                if pred_row[j] == UNDECIDED:
                    w = adjacency[p, j] if all_of_row else lengths[p, c]
                    if (
                        w != zero
                        and meets(times(sr, row[p], w), row[j], tight)
                        and not (is_monotone and plus(sr, row[p], row[j]) != row[p])
                        and meets(adjacency[p, j], D[p, j], tight)
                    ):
                        pred_row[j] = p
                        undecided -= 1
                        queue[queue_end] = j
                        queue_end += 1
        open_rows[i] = undecided > 0


@kernel
def settle_rows(sr, sums, D, adjacency, pred, zero, one, tight, bound, is_relative, r0, r1, flagged_rows, wide):
    """Validate and repair the flagged rows among r0 … r1 - 1, so that pred[i] is a tree of paths that add up to D[i].

    sums: the semiring on the type in which paths are added up (float64 for floats). wide: an empty array of that type.
    is_relative: whether deviations are measured in units of abs(D). Return (repaired, failed): how many rows needed a
    repair, and in how many rows a path misses D by more than ``bound`` after the repair.
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
        if not flagged_rows[i]:
            continue
        bad = _walk_row(
            sums, D, adjacency, pred, i, zero, one, tight, bound, is_relative, state, total, slack, hops, chain
        )
        if bad:
            repaired += 1
            _attach_vertices(sr, D, adjacency, pred, i, zero, tight, is_relative, state, total, slack, hops, chain)
            if _walk_row(
                sums, D, adjacency, pred, i, zero, one, tight, bound, is_relative, state, total, slack, hops, chain
            ):
                for j in range(n):
                    if state[j] != _UNREACHED and j != i:
                        state[j] = _BAD
                _attach_vertices(sr, D, adjacency, pred, i, zero, tight, is_relative, state, total, slack, hops, chain)
                if _walk_row(
                    sums, D, adjacency, pred, i, zero, one, tight, bound, is_relative, state, total, slack, hops, chain
                ):
                    failed += 1
    return repaired, failed


@kernel
def _walk_row(sums, D, adjacency, pred, i, zero, one, tight, bound, is_relative, state, total, slack, hops, chain):
    """Follow the path of every vertex of row i to the root, and write the state of the vertex.

    Return the number of bad vertices. The state is good, bad (a cycle, a path that does not reach the root, a wrong
    sum) or unreached. total is the sum along the path, hops its number of edges, and slack the error of the sum.
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
            if sound and (adjacency[v, u] == zero or not meets(adjacency[v, u], D[v, u], tight)):  # no edge
                sound = False
            if sound:
                weight[0] = adjacency[v, u]
                goal[0] = D[i, u]
                total[u] = times(sums, total[v], weight[0])
                hops[u] = hops[v] + 1
                sound = meets(total[u], goal[0], bound)
                slack[u] = deviation(total[u], goal[0], is_relative)
            state[u] = _GOOD if sound else _BAD
            bad += not sound
            v = u
    return bad


@kernel
def _attach_vertices(sr, D, adjacency, pred, i, zero, tight, is_relative, state, total, slack, hops, chain):
    """Attach the bad vertices of row i to the good ones by Dijkstra's algorithm.

    The length of a path is the sum of |D[i, p] ⊗ w(p, v) - D[i, v]| over its direct edges p → v, then its number of
    edges. Both are ≥ 0 for any weights, and 0 is the length of a shortest path. So the result is a tree, and
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
            _relax_edges(sr, D, adjacency, pred, i, p, zero, tight, is_relative, slack, hops, chain, m)
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
        _relax_edges(sr, D, adjacency, pred, i, p, zero, tight, is_relative, slack, hops, chain, m)


@kernel
def _relax_edges(sr, D, adjacency, pred, i, p, zero, tight, is_relative, slack, hops, chain, m):
    """Relax the direct edges from p to the vertices chain[:m]."""
    if D[i, p] == zero:
        return
    for c in range(m):
        v = chain[c]
        w = adjacency[p, v]
        if meets(adjacency[p, v], D[p, v], tight) and w != zero and p != v:
            length = slack[p] + deviation(times(sr, D[i, p], w), D[i, v], is_relative)
            if length < slack[v] or (length == slack[v] < np.inf and hops[p] + 1 < hops[v]):
                slack[v] = length
                hops[v] = hops[p] + 1
                pred[i, v] = p
