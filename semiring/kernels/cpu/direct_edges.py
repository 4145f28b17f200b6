"""Direct edges: edges that are best paths themselves, of which every best path consists.

These are helpers of `search`, which combines them. `semiring.algorithms.predecessors` states and proves the method.
Matrices have contiguous rows. ``D`` is the closure of the matrix ``adjacency``. An edge is *direct* if the closure did
not improve its entry.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.numba_internals import INLINED
from semiring.kernels.cpu.codegen.scalars import plus, plus_numbers, times

UNDECIDED = -2  # a sentinel during the search
DOUBT = 1 << 30  # added to the number of a vertex if its edge meets the distance only within the loose tolerance

BLOCK = 128  # columns of a tile that is transposed: they stay in the first-level cache
COLUMNS_PER_TEST = 32  # columns that are scanned together: most such pieces of a row have no direct edge
TRANSPOSED_ROWS = 16  # rows that are transposed back at a time: a cache line holds 16 vertices


_part = njit(**INLINED)  # parts of a kernel, inlined to avoid the cost of a call


def meets(x, y, tolerance):
    """Return whether x is y up to tolerance[0]·|y| + tolerance[1]; on integers and truth values, whether it is y."""
    raise NotImplementedError("compiled code only")


@overload(meets, inline="always")
def _meets(x, y, tolerance):
    if isinstance(y, types.Float):
        return lambda x, y, tolerance: (x == y) | (abs(x - y) < tolerance[0] * abs(y) + tolerance[1])
    return lambda x, y, tolerance: x == y


def deviation(x, y, is_relative):
    """Return how far x is from y, as a float64: absolutely, or in units of |y|; 0 or ∞ if only equality counts."""
    raise NotImplementedError("compiled code only")


@overload(deviation)
def _deviation(x, y, is_relative):
    if isinstance(y, types.Float):

        def floating(x, y, is_relative):
            if x == y:
                return 0.0
            difference = abs(np.float64(x) - np.float64(y))
            return difference / max(abs(np.float64(y)), 2.2250738585072014e-308) if is_relative else difference

        return floating
    return lambda x, y, is_relative: 0.0 if x == y else np.inf


@_part
def _is_worse(sr, x, y):
    return plus(sr, x, y) != x


@_part
def _sift_down(sr, sources, weights, place):
    """Sift down an edge of a heap, in which every edge is no better than its two children."""
    source, w = sources[place], weights[place]
    child = 2 * place + 1
    while child < weights.size:
        if child + 1 < weights.size and _is_worse(sr, weights[child + 1], weights[child]):
            child += 1
        if not _is_worse(sr, weights[child], w):
            break
        sources[place], weights[place] = sources[child], weights[child]
        place, child = child, 2 * child + 1
    sources[place], weights[place] = source, w


@kernel
def extremes(sr, D, zero, j0, j1, best, worst):
    """Write the best and the worst of D[i, j] over i ≠ j, without 0̄, to best (n) and worst (n), for j0 ≤ j < j1.

    Both must be 0̄ before the call. They remain 0̄ for a column without entries.
    """
    for i in range(D.shape[0]):
        for j in range(j0, j1):
            d = zero if i == j else D[i, j]
            best[j] = plus(sr, best[j], d)
            replaces = (worst[j] == zero) | ((plus(sr, worst[j], d) != d) & (d != zero))
            worst[j] = d if replaces else worst[j]


@_part
def _has_direct_edge(D, adjacency, i, start, stop, zero, tight):
    """Return whether columns start … stop - 1 of row i hold a direct edge or a diagonal entry.

    The loop has no branch, so that the compiler uses vector instructions.
    """
    row, edges = D[i, start:stop], adjacency[i, start:stop]
    flag = np.int32(0)
    for c in range(row.size):
        flag |= np.int32(meets(edges[c], row[c], tight) & (edges[c] != zero))
    return flag != 0


@kernel
def edges_into(sr, D, adjacency, zero, one, tight, best, worst, j0, j1, sources, weights, counts):
    """Find the direct edges into the columns j0 … j1 - 1, up to ``width`` of a column.

    Return whether none of them improves on 1̄. sources (n, width) int32 and weights (n, width) receive the edges in
    increasing order of the tails. counts (n), zero before the call, receives the numbers of edges, which may exceed
    ``width``. best and worst (n) are the `extremes`, or empty. They exclude edges p → j that end no best path from
    another vertex than p, because best[p] ⊗ w is worse than worst[j]. If more than ``width`` edges remain, those of the
    best weights are written, as a heap with the worst of them first.
    """
    width = sources.shape[1]
    monotone = True
    for i in range(D.shape[0]):
        for b in range(j0, j1, COLUMNS_PER_TEST):
            if not _has_direct_edge(D, adjacency, i, b, min(j1, b + COLUMNS_PER_TEST), zero, tight):
                continue
            for j in range(b, min(j1, b + COLUMNS_PER_TEST)):
                w = adjacency[i, j]
                if meets(w, D[i, j], tight) and w != zero and i != j:
                    if best.size:
                        s = times(sr, best[i], w)
                        if plus(sr, s, worst[j]) != s:
                            continue
                    c = counts[j]
                    counts[j] = c + 1
                    if c < width:
                        sources[j, c] = i
                        weights[j, c] = w
                    elif best.size:
                        if c == width:
                            for root in range(width // 2 - 1, -1, -1):
                                _sift_down(sr, sources[j], weights[j], root)
                        if _is_worse(sr, weights[j, 0], w):
                            sources[j, 0] = i
                            weights[j, 0] = w
                            _sift_down(sr, sources[j], weights[j], 0)
                    if plus(sr, one, w) != one:
                        monotone = False
    return monotone


@kernel
def last_edges(
    lanes,
    sr,
    sums,
    D,
    adjacency,
    pred,
    zero,
    one,
    sources,
    weights,
    counts,
    is_crowded,
    tight,
    loose,
    r0,
    r1,
    pending_columns,
    open_rows,
    doubtful_rows,
):
    """Fill rows r0 … r1 - 1 of pred from the direct edges alone: pred[i, j] attains ⊕ of D[i, p] ⊗ w(p, j) over them.

    ``lanes`` rows are processed at a time, and transposed, so that an edge is tried for all of them by vector
    instructions.

    Only vertices p strictly nearer to i than j are considered, and only if D[i, p] ⊗ w(p, j) meets D[i, j] within
    ``loose``. The remaining entries are UNDECIDED. open_rows (n) marks the rows with such entries. doubtful_rows (n)
    marks the rows where a D[i, j] is not met within ``tight`` and the path has not been shown to add up. sums and
    ``one`` are of the type in which paths are added up. counts (n) holds how many of the edges in ``sources`` and
    ``weights`` to try. is_crowded (n) marks the columns with more direct edges than these. pending_columns (n) marks
    the crowded columns with undecided entries.
    """
    n = D.shape[0]
    rows = np.empty((n, lanes), D.dtype)
    best_tails = np.empty((n, lanes), np.int32)
    best = np.empty(lanes, D.dtype)
    arg = np.empty(lanes, np.int32)
    doubts = np.empty(lanes, np.int32)
    # Rows of a power of two would share cache sets.
    transposed_lines = np.empty((TRANSPOSED_ROWS, n + 32), np.int32)
    total = np.full(2, one)  # of the dtype of the sums
    chain = np.empty(n, np.int64)
    for i0 in range(r0, r1, lanes):
        m = min(lanes, r1 - i0)
        _transpose_rows(D, i0, m, zero, rows)
        doubts[:] = 0
        for j in range(n):
            _select_best_edges(
                sr, rows, j, sources, weights, counts[j], zero, tight, loose, best, arg, best_tails[j], doubts
            )
        for lane in range(m):
            best_tails[i0 + lane, lane] = NO_PREDECESSOR  # the diagonal
        for first in range(0, m, TRANSPOSED_ROWS):
            _transpose_lanes(best_tails, first, transposed_lines)
            for lane in range(first, min(m, first + TRANSPOSED_ROWS)):
                line = transposed_lines[lane - first]
                _write_predecessors(
                    D, adjacency, pred, i0 + lane, line, zero, tight, is_crowded, pending_columns, open_rows
                )
        for lane in range(m):
            if doubts[lane]:
                doubtful_rows[i0 + lane] = not are_doubts_resolved(
                    sums, D, adjacency, pred, i0 + lane, rows, best_tails, lane, doubts[lane], one, tight, total, chain
                )


@_part
def _transpose_rows(D, i0, m, zero, rows):
    """Copy rows i0 … i0 + m - 1 of D to columns of rows (n, lanes), with 0̄ in the remaining lanes."""
    n, lanes = rows.shape
    if m < lanes:
        rows[:, :] = zero
    for b in range(0, n, BLOCK):
        for lane in range(m):
            row, column = D[i0 + lane, b : b + BLOCK], rows[b : b + BLOCK, lane]
            for c in range(row.size):
                column[c] = row[c]


@_part
def _select_best_edges(sr, rows, j, sources, weights, count, zero, tight, loose, best, arg, choice, doubts):
    """Write the tail of the best edge into j in every lane to choice (lanes), plus DOUBT if it is met only loosely.

    ``rows`` is the result of `_transpose_rows`. doubts (lanes) counts the entries with DOUBT; best and arg (lanes) are
    workspace.
    """
    target_row, lanes = rows[j], rows.shape[1]
    for lane in range(lanes):
        best[lane] = zero
        arg[lane] = UNDECIDED
    for c in range(count):
        p = sources[j, c]
        w = weights[j, c]
        source_row = rows[p]
        for lane in range(lanes):
            x, d = source_row[lane], target_row[lane]
            s = times(sr, x, w)
            nearer = plus_numbers(sr, x, d) != d
            better = (plus_numbers(sr, best[lane], s) != best[lane]) & nearer
            best[lane] = s if better else best[lane]
            arg[lane] = p if better else arg[lane]
    for lane in range(lanes):
        d = target_row[lane]
        v = arg[lane] if meets(best[lane], d, loose) else np.int32(UNDECIDED)
        doubt = (v >= 0) & (not meets(best[lane], d, tight))
        doubts[lane] += doubt
        v += np.int32(DOUBT) if doubt else np.int32(0)
        choice[lane] = np.int32(NO_PREDECESSOR) if d == zero else v


@_part
def _transpose_lanes(best_tails, first, transposed_lines):
    """Write the lanes from ``first`` on of best_tails (n, lanes), each to a row of transposed_lines."""
    for j in range(best_tails.shape[0]):
        choices = best_tails[j, first : first + TRANSPOSED_ROWS]
        for lane in range(TRANSPOSED_ROWS):
            transposed_lines[lane, j] = choices[lane]


@_part
def _write_predecessors(D, adjacency, pred, i, line, zero, tight, is_crowded, pending_columns, open_rows):
    """Fill pred[i] from a row of best tails, and prefer i itself if i → j is direct; set the marks of `last_edges`."""
    row, edges, pred_row, n = D[i], adjacency[i], pred[i], D.shape[0]
    undecided = np.int32(0)
    for c in range(n):
        v = line[c]
        v -= np.int32(DOUBT) if v >= DOUBT else np.int32(0)
        # A weight of 0̄ can meet a tiny distance within the tolerance, and is no edge all the same.
        direct = meets(edges[c], row[c], tight) & (edges[c] != zero)
        v = np.int32(i) if direct & (v != NO_PREDECESSOR) else v
        pred_row[c] = v
        undecided |= np.int32(v == UNDECIDED)
    if undecided:
        open_rows[i] = True
        for c in range(n):
            if pred_row[c] == UNDECIDED and is_crowded[c]:
                pending_columns[c] = True


@kernel
def are_doubts_resolved(sums, D, adjacency, pred, i, rows, best_tails, lane, doubts, one, tight, total, chain):
    """Return whether the doubtful entries of row i are few and the path to each of them adds up.

    best_tails[:, lane] marks the doubtful entries. A path adds up if its sum is D[i, j] within ``tight`` times its
    number of edges. The remaining edges of the row are tight, so then all paths of the row add up.
    """
    n = D.shape[0]
    steps = n  # validating the whole row would take a few times n steps
    for j in range(n):
        if best_tails[j, lane] >= DOUBT and pred[i, j] == best_tails[j, lane] - DOUBT:
            hops = 0
            v = j
            while v != i:
                chain[hops] = v
                hops += 1
                v = pred[i, v]
                if v < 0 or hops > steps:
                    return False
            steps -= hops
            total[0] = one
            for c in range(hops - 1, -1, -1):
                u = chain[c]
                total[1] = adjacency[v, u]
                total[0] = times(sums, total[0], total[1])
                v = u
            total[1] = rows[j, lane]
            if not meets(total[0], total[1], (hops * tight[0], hops * tight[1])):
                return False
    return True


@kernel
def edges_from(D, adjacency, zero, tight, r0, r1, targets, lengths, counts):
    """Find the direct edges out of the rows r0 … r1 - 1, as `edges_into` finds those into columns."""
    width = targets.shape[1]
    for i in range(r0, r1):
        count = 0
        for j in range(D.shape[1]):
            w = adjacency[i, j]
            if meets(w, D[i, j], tight) and w != zero and i != j:
                if count < width:
                    targets[i, count] = j
                    lengths[i, count] = w
                count += 1
        counts[i] = count
