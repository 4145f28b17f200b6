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

from semiring.kernels.graphs.compiled import kernel
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
        for w in range(8):
            now[v, w] &= full[w] & ~seen[v, w]
            seen[v, w] |= now[v, w]


@kernel
def _ask(now, u, found, missing, asked):
    """Found (8,) ← what another vertex has reached too; whether nothing is missing then, where that is looked at."""
    for w in range(8):
        found[w] |= now[u, w]
    if asked % _ASKED:
        return False
    left = np.uint64(0)
    for w in range(8):
        left |= missing[w] & ~found[w]
    return left == 0


@kernel
def _expand(planes, v, values, rounds, row):
    """Row (at most 512,) ← the values of the rounds whose digits the planes (digits, n, 8) hold for a vertex."""
    for w in range(8):
        for half in range(2):
            base = 64 * w + 32 * half
            for p in range(0, planes.shape[0], 4):
                a = np.uint32(planes[p, v, w] >> np.uint64(32 * half))
                b = np.uint32(planes[p + 1, v, w] >> np.uint64(32 * half))
                c = np.uint32(planes[p + 2, v, w] >> np.uint64(32 * half))
                d = np.uint32(planes[p + 3, v, w] >> np.uint64(32 * half))
                for k in range(32):
                    digits = (a >> np.uint32(k)) & np.uint32(1)
                    digits |= ((b >> np.uint32(k)) & np.uint32(1)) << np.uint32(1)
                    digits |= ((c >> np.uint32(k)) & np.uint32(1)) << np.uint32(2)
                    digits |= ((d >> np.uint32(k)) & np.uint32(1)) << np.uint32(3)
                    rounds[base + k] = digits if p == 0 else rounds[base + k] | digits << np.uint32(p)
    for k in range(row.size):
        row[k] = values[rounds[k]]


@kernel
def count_hops(starts, heads, words, weight, none, D, t0, t1):
    """D[v, t] ← weight · the fewest edges from v to t, for the columns t0 … t1 - 1, at most `TARGETS`; else ``none``.

    The heads of each vertex are listed; or, where ``starts`` is empty, they are the bits of words (n, ⌈n/32⌉).
    ``t0`` is a multiple of 512.
    """
    n = D.shape[0]
    now, coming, seen = np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64)
    news, newer = np.ones(n, np.bool_), np.ones(n, np.bool_)
    full, found, missing = np.zeros(8, np.uint64), np.empty(8, np.uint64), np.empty(8, np.uint64)
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
            newer[v] = False
            some = np.uint64(0)
            for w in range(8):
                missing[w] = full[w] & ~seen[v, w]
                some |= missing[w]
                found[w] = 0
            if some == 0:
                continue
            asked = 0
            if starts.size:
                for e in range(starts[v], starts[v + 1]):
                    if news[heads[e]]:
                        asked += 1
                        if _ask(now, heads[e], found, missing, asked):
                            break
            else:
                for w in range(words.shape[1]):
                    bits, satisfied = words[v, w], False
                    while bits and not satisfied:
                        u = 32 * w + lowest(bits)
                        bits &= bits - np.uint32(1)
                        if news[u]:
                            asked += 1
                            satisfied = _ask(now, u, found, missing, asked)
                    if satisfied:
                        break
            some = np.uint64(0)
            for w in range(8):
                found[w] &= missing[w]
                some |= found[w]
            if some == 0:
                continue
            going = newer[v] = True
            for w in range(8):
                seen[v, w] |= found[w]
                coming[v, w] = found[w]
            for p in range(planes.shape[0]):
                if (level >> p) & 1:
                    for w in range(8):
                        planes[p, v, w] |= found[w]
        now, coming = coming, now
        news, newer = newer, news
    values = np.empty(level + 1, D.dtype)
    values[0] = none
    for k in range(1, level + 1):
        values[k] = k * weight
    rounds = np.empty(512, np.uint32)
    for v in range(n):
        _expand(planes, v, values, rounds, D[v, t0:t1])
    for t in range(t0, t1):
        D[t, t] = 0
