"""Direct edges: edges that are best paths themselves, and what every best path consists of.

Helpers of `search` beside it, which says how they work together; the method and its proof are in
`semiring.algorithms.predecessors`. Matrices have contiguous rows. An edge is *direct* where nothing improved its
entry, which the matrix ``before`` the closure says.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.jit import cached
from semiring.kernels.cpu.codegen.numba_internals import INLINED, OUTER
from semiring.kernels.cpu.codegen.scalars import plus, plus_numbers, times

__all__ = [
    "UNDECIDED",
    "deviation",
    "edges_from",
    "edges_into",
    "extremes",
    "kernel",
    "last_edges",
    "meets",
]

UNDECIDED = -2  # while the work lasts
DOUBT = 1 << 30  # added to a vertex whose edge meets the distance within the loose tolerance only

BLOCK = 128  # columns of a tile that is transposed: they stay in the first-level cache
FEW = 32  # columns that are looked at together: most such pieces of a row have no direct edge
TURNED = 16  # rows that are turned back at a time: a line of the cache holds so many vertices


def kernel(function: Any) -> Any:
    """Compile a loop that Python calls, and keep its code on disk."""
    return cached(njit(function, **OUTER))


_part = njit(**INLINED)  # of a kernel, without the cost of a call


def meets(x, y, tolerance):
    """Whether x is y up to tolerance[0]·|y| + tolerance[1]; on integers and truth values, whether it is y."""
    raise NotImplementedError("compiled code only")


@overload(meets, inline="always")
def _meets(x, y, tolerance):
    if isinstance(y, types.Float):
        return lambda x, y, tolerance: (x == y) | (abs(x - y) < tolerance[0] * abs(y) + tolerance[1])
    return lambda x, y, tolerance: x == y


def deviation(x, y, relative):
    """How far x is from y, as a float64: absolutely, or in units of |y|. Where only equality counts, 0 or ∞."""
    raise NotImplementedError("compiled code only")


@overload(deviation)
def _deviation(x, y, relative):
    if isinstance(y, types.Float):

        def floating(x, y, relative):
            if x == y:
                return 0.0
            difference = abs(np.float64(x) - np.float64(y))
            return difference / max(abs(np.float64(y)), 2.2250738585072014e-308) if relative else difference

        return floating
    return lambda x, y, relative: 0.0 if x == y else np.inf


@_part
def _is_worse(sr, x, y):
    return plus(sr, x, y) != x


@_part
def _sink(sr, sources, weights, at):
    """Bring an edge of a heap, in which every edge is no better than the two below it, to its place."""
    source, w = sources[at], weights[at]
    below = 2 * at + 1
    while below < weights.size:
        if below + 1 < weights.size and _is_worse(sr, weights[below + 1], weights[below]):
            below += 1
        if not _is_worse(sr, weights[below], w):
            break
        sources[at], weights[at] = sources[below], weights[below]
        at, below = below, 2 * below + 1
    sources[at], weights[at] = source, w


@kernel
def extremes(sr, D, zero, j0, j1, best, worst):
    """The best and the worst of D[i, j] over i ≠ j, 0̄ left out, into best (n) and worst (n), for j0 ≤ j < j1.

    Both are 0̄ before, and stay so in a column without entries.
    """
    for i in range(D.shape[0]):
        for j in range(j0, j1):
            d = zero if i == j else D[i, j]
            best[j] = plus(sr, best[j], d)
            replaces = (worst[j] == zero) | ((plus(sr, worst[j], d) != d) & (d != zero))
            worst[j] = d if replaces else worst[j]


@_part
def _any_direct(D, before, i, start, stop, zero, tight):
    """Whether there is a direct edge, or the diagonal, among these columns of row i: by vector instructions."""
    row, edges = D[i, start:stop], before[i, start:stop]
    found = np.int32(0)
    for c in range(row.size):
        found |= np.int32(meets(edges[c], row[c], tight) & (edges[c] != zero))
    return found != 0


@kernel
def edges_into(sr, D, before, zero, one, tight, best, worst, j0, j1, sources, weights, counts):
    """The direct edges into the columns j0 … j1 - 1, up to ``width`` of a column, and whether none improves on 1̄.

    sources (n, width) int32 and weights (n, width) take them in increasing order; counts (n), zero before, says how
    many there are, also where they are more than ``width``. best and worst (n): the `extremes`, to leave out the edges
    p → j that end no best path from another vertex than p, for best[p] ⊗ w is worse than worst[j], and where there are
    too many even so, to keep those of the best weights, as a heap with the worst of them first; or empty.
    """
    width = sources.shape[1]
    monotone = True
    for i in range(D.shape[0]):
        for b in range(j0, j1, FEW):
            if not _any_direct(D, before, i, b, min(j1, b + FEW), zero, tight):
                continue
            for j in range(b, min(j1, b + FEW)):
                w = before[i, j]
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
                            for at in range(width // 2 - 1, -1, -1):
                                _sink(sr, sources[j], weights[j], at)
                        if _is_worse(sr, weights[j, 0], w):
                            sources[j, 0] = i
                            weights[j, 0] = w
                            _sink(sr, sources[j], weights[j], 0)
                    if plus(sr, one, w) != one:
                        monotone = False
    return monotone


@kernel
def last_edges(
    lanes,
    sr,
    sums,
    D,
    before,
    pred,
    zero,
    one,
    sources,
    weights,
    counts,
    crowded,
    tight,
    loose,
    r0,
    r1,
    pending,
    open_rows,
    doubtful,
):
    """Rows r0 … r1 - 1 of pred from the direct edges alone: pred[i, j] attains ⊕ of D[i, p] ⊗ w(p, j) over them.

    ``lanes`` rows are taken at a time, and transposed: an edge is tried for all of them by vector instructions.

    Only vertices p strictly nearer than j are taken, and only if D[i, j] is met within ``loose``; what is left is
    UNDECIDED. open_rows (n) marks the rows with such entries, doubtful (n) those where a D[i, j] is not met within
    ``tight`` and the path has not been shown to add up. sums and ``one`` are of the type in which paths are added up.
    counts (n) says how many of the edges in ``sources`` and ``weights`` to try. Where entries of a column that is
    crowded (n), with more direct edges than these, are left over, pending (n) is marked.
    """
    n = D.shape[0]
    rows = np.empty((n, lanes), D.dtype)
    chosen = np.empty((n, lanes), np.int32)
    best = np.empty(lanes, D.dtype)
    arg = np.empty(lanes, np.int32)
    doubts = np.empty(lanes, np.int32)
    # Rows of a power of two would share the places of the cache.
    lines = np.empty((TURNED, n + 32), np.int32)
    total = np.full(2, one)  # of the type of the sums
    chain = np.empty(n, np.int64)
    for i0 in range(r0, r1, lanes):
        m = min(lanes, r1 - i0)
        _take_rows(D, i0, m, zero, rows)
        doubts[:] = 0
        for j in range(n):
            _best_edges(sr, rows, j, sources, weights, counts[j], zero, tight, loose, best, arg, chosen[j], doubts)
        for lane in range(m):
            chosen[i0 + lane, lane] = NO_PREDECESSOR  # the diagonal
        for first in range(0, m, TURNED):
            _turn(chosen, first, lines)
            for lane in range(first, min(m, first + TURNED)):
                line = lines[lane - first]
                _put_edges(D, before, pred, i0 + lane, line, zero, tight, crowded, pending, open_rows)
        for lane in range(m):
            if doubts[lane]:
                doubtful[i0 + lane] = not _doubts_dispelled(
                    sums, D, before, pred, i0 + lane, rows, chosen, lane, doubts[lane], one, tight, total, chain
                )


@_part
def _take_rows(D, i0, m, zero, rows):
    """Rows i0 … i0 + m - 1 of D as columns of rows (n, lanes), 0̄ where they are fewer than the lanes."""
    n, lanes = rows.shape
    if m < lanes:
        rows[:, :] = zero
    for b in range(0, n, BLOCK):
        for lane in range(m):
            row, column = D[i0 + lane, b : b + BLOCK], rows[b : b + BLOCK, lane]
            for c in range(row.size):
                column[c] = row[c]


@_part
def _best_edges(sr, rows, j, sources, weights, count, zero, tight, loose, best, arg, choice, doubts):
    """The tail of the best edge into j in every lane, into choice (lanes); plus DOUBT where it is met loosely only.

    Rows as `_take_rows` left them. doubts (lanes) counts these; best and arg (lanes) are workspace.
    """
    here, lanes = rows[j], rows.shape[1]
    for lane in range(lanes):
        best[lane] = zero
        arg[lane] = UNDECIDED
    for c in range(count):
        p = sources[j, c]
        w = weights[j, c]
        there = rows[p]
        for lane in range(lanes):
            x, d = there[lane], here[lane]
            s = times(sr, x, w)
            nearer = plus_numbers(sr, x, d) != d
            better = (plus_numbers(sr, best[lane], s) != best[lane]) & nearer
            best[lane] = s if better else best[lane]
            arg[lane] = p if better else arg[lane]
    for lane in range(lanes):
        d = here[lane]
        v = arg[lane] if meets(best[lane], d, loose) else np.int32(UNDECIDED)
        doubt = (v >= 0) & (not meets(best[lane], d, tight))
        doubts[lane] += doubt
        v += np.int32(DOUBT) if doubt else np.int32(0)
        choice[lane] = np.int32(NO_PREDECESSOR) if d == zero else v


@_part
def _turn(chosen, first, lines):
    """The lanes from ``first`` on of chosen (n, lanes), each as a row of lines."""
    for j in range(chosen.shape[0]):
        choices = chosen[j, first : first + TURNED]
        for lane in range(TURNED):
            lines[lane, j] = choices[lane]


@_part
def _put_edges(D, before, pred, i, line, zero, tight, crowded, pending, open_rows):
    """pred[i] from a row of choices, a direct edge before any other; marks as `last_edges`."""
    row, edges, found, n = D[i], before[i], pred[i], D.shape[0]
    undecided = np.int32(0)
    for c in range(n):
        v = line[c]
        v -= np.int32(DOUBT) if v >= DOUBT else np.int32(0)
        # A weight of 0̄ can meet a tiny distance within the tolerance, and is no edge all the same.
        direct = meets(edges[c], row[c], tight) & (edges[c] != zero)
        v = np.int32(i) if direct & (v != NO_PREDECESSOR) else v
        found[c] = v
        undecided |= np.int32(v == UNDECIDED)
    if undecided:
        open_rows[i] = True
        for c in range(n):
            if found[c] == UNDECIDED and crowded[c]:
                pending[c] = True


@kernel
def _doubts_dispelled(sums, D, before, pred, i, rows, chosen, lane, doubts, one, tight, total, chain):
    """Whether the doubtful entries of row i, marked in chosen[:, lane], are few, and the path to each of them adds up
    to D[i, j] within ``tight`` times its number of edges. All other edges are tight, so then all paths of the row do.
    """
    n = D.shape[0]
    steps = n  # the row as a whole would take a few times n
    for j in range(n):
        if chosen[j, lane] >= DOUBT and pred[i, j] == chosen[j, lane] - DOUBT:
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
                total[1] = before[v, u]
                total[0] = times(sums, total[0], total[1])
                v = u
            total[1] = rows[j, lane]
            if not meets(total[0], total[1], (hops * tight[0], hops * tight[1])):
                return False
    return True


@kernel
def edges_from(D, before, zero, tight, r0, r1, targets, lengths, counts):
    """The direct edges out of the rows r0 … r1 - 1, as `edges_into`."""
    width = targets.shape[1]
    for i in range(r0, r1):
        count = 0
        for j in range(D.shape[1]):
            w = before[i, j]
            if meets(w, D[i, j], tight) and w != zero and i != j:
                if count < width:
                    targets[i, count] = j
                    lengths[i, count] = w
                count += 1
        counts[i] = count
