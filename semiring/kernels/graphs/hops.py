"""Breadth-first search from all vertices, 512 targets at a time: a bit for each in a word of eight times 64.

Source: M. Then et al., "The more the merrier: efficient multi-source graph traversal", PVLDB 8 (2014). A vertex has
reached, after k rounds, what its heads had after k - 1. It asks no head more once nothing is missing, so that in a
dense graph some heads answer for all. The rounds themselves are kept as bits too, one plane for each binary digit of
their numbers: a round touches as many as its number has ones, and the matrix is written once, at the end.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.memory import address, wide
from semiring.kernels.graphs.compiled import kernel
from semiring.kernels.graphs.lanes import join_listed, join_word, keep_new, missing_in, spread_levels
from semiring.kernels.graphs.words import lowest

__all__ = ["TARGETS", "count_hops"]

TARGETS = 512
_ASKED = 8  # heads between two looks whether anything is missing still


@kernel
def _first_round(starts, heads, words, t0, t1, full, now, seen):
    """Now (n, 8) ← the targets that each vertex has an edge to; seen (n, 8) ← these and itself."""
    for v in range(now.shape[0]):
        if t0 <= v < t1:
            seen[v, (v - t0) >> 6] = np.uint64(1) << np.uint64((v - t0) & 63)
        if starts.size:
            for e in range(starts[v], starts[v + 1]):
                if t0 <= heads[e] < t1:
                    k = heads[e] - t0
                    now[v, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
        else:
            for w in range(t0 // 32, (t1 + 31) // 32):
                k = w - t0 // 32
                now[v, k >> 1] |= np.uint64(words[v, w]) << np.uint64(32 * (k & 1))
        keep_new(address(now[v]), address(full), address(seen[v]))


@kernel
def _ask_heads(words, now, missing, found):
    """Found (8,) ← what the heads of some edges, bits of words, have reached; no more once nothing is missing."""
    asked = 0
    for w in range(words.size):
        bits = words[w]
        while bits:
            u = 32 * w + lowest(bits)
            bits &= bits - np.uint32(1)
            join_word(address(found), address(now[u]))
            asked += 1
            if asked % _ASKED == 0 and not missing_in(address(missing), address(found)):
                return


@kernel
def count_hops(starts, heads, words, weight, none, D, t0, t1):
    """D[v, t] ← weight · the fewest edges from v to t, for the columns t0 … t1 - 1, at most `TARGETS`; else ``none``.

    The heads of each vertex are listed; or, where ``starts`` is empty, they are the bits of words (n, ⌈n/32⌉).
    ``t0`` is a multiple of 512. The rows of D need not lie side by side, but their entries do.
    """
    wide()
    n = D.shape[0]
    now, coming, seen = np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64)
    full, missing = np.zeros(8, np.uint64), np.empty(8, np.uint64)
    for k in range(t1 - t0):
        full[k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    _first_round(starts, heads, words, t0, t1, full, now, seen)
    planes = np.zeros((4, n, 8), np.uint64)
    planes[0] = now
    level, going = 1, True
    while going:
        level += 1
        going = False
        if level >> planes.shape[0]:
            wider = np.zeros((2 * planes.shape[0], n, 8), np.uint64)
            wider[: planes.shape[0]] = planes
            planes = wider
        for v in range(n):
            found = coming[v]
            if not missing_in(address(full), address(seen[v])):
                found[:] = np.uint64(0)
                continue
            if starts.size:
                join_listed(address(found), address(now), address(heads) + 4 * starts[v], starts[v + 1] - starts[v])
            else:
                found[:] = np.uint64(0)
                for w in range(8):
                    missing[w] = full[w] & ~seen[v, w]
                _ask_heads(words[v], now, missing, found)
            if keep_new(address(found), address(full), address(seen[v])):
                going = True
                for p in range(planes.shape[0]):
                    if (level >> p) & 1:
                        join_word(address(planes[p, v]), address(found))
        now, coming = coming, now
    steps, digits = np.empty(planes.shape[0], D.dtype), 1
    while level >> digits:
        digits += 1
    for p in range(digits):
        steps[p] = (1 << p) * weight
    last = np.empty(64, D.dtype)
    for v in range(n):
        for w in range((t1 - t0 + 63) // 64):
            t = t0 + 64 * w
            to = address(D[v, t:]) if t + 64 <= t1 else address(last)
            spread_levels(none, address(steps), address(planes[0, v, w:]), 64 * n, digits, seen[v, w], to)
            if t + 64 > t1:
                D[v, t:t1] = last[: t1 - t]
