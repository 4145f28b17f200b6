"""Breadth-first search from all vertices, 512 targets at a time: a bit for each in a word of eight times 64.

Source: M. Then et al., "The more the merrier: efficient multi-source graph traversal", PVLDB 8 (2014). A vertex has
reached, after k rounds, what its heads had after k - 1. It asks no head more once nothing is missing, so that in a
dense graph some heads answer for all.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel

__all__ = ["TARGETS", "count_hops", "edge_lists"]

TARGETS = 512
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ASKED = 8  # heads between two looks whether anything is missing still
_NUMBERS = np.zeros(64, np.int64)  # of the bit that a product with a de Bruijn sequence has shifted to the top
for _bit in range(64):
    _NUMBERS[(0x03F79D71B4CB0A89 << _bit & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


@kernel
def edge_lists(A, none, count):
    """Compressed rows of the edges of A, of which there are ``count``: where lists begin, (n + 1,), and the heads."""
    n = A.shape[0]
    starts, heads, at = np.zeros(n + 1, np.int64), np.empty(count, np.int32), 0
    for i in range(n):
        for j0 in range(0, n, 64):
            j1 = min(n, j0 + 64)
            found = 0
            for j in range(j0, j1):
                found += A[i, j] != none
            if found:
                for j in range(j0, j1):
                    if A[i, j] != none:
                        heads[at] = j
                        at += 1
        starts[i + 1] = at
    return starts, heads


@kernel
def _bit_of(word):
    """The number of the lowest bit of a word that is not 0."""
    lowest = word & (~word + np.uint64(1))
    return _NUMBERS[(lowest * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58)]


@kernel
def _many(word):
    """Whether more than a quarter of its bits are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56) > np.uint64(16)


@kernel
def _ask(other, found, own, full, asked):
    """Found ← what another vertex has reached too; whether nothing is missing then, where that is looked at."""
    for w in range(8):
        found[w] |= other[w]
    if asked % _ASKED:
        return False
    missing = np.uint64(0)
    for w in range(8):
        missing |= full[w] & ~(own[w] | found[w])
    return missing == 0


@kernel
def count_hops(starts, heads, words, weight, none, D, t0, t1):
    """D[v, t] ← weight · the fewest edges from v to t, for the columns t0 … t1 - 1, at most `TARGETS`; else ``none``.

    The heads of each vertex are listed; or, where ``starts`` is empty, they are the bits of words (n, ⌈n/64⌉).
    """
    n = D.shape[0]
    now, next_, seen = np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64), np.zeros((n, 8), np.uint64)
    news, coming = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    full, found = np.zeros(8, np.uint64), np.empty(8, np.uint64)
    for t in range(t0, t1):
        k = t - t0
        bit = np.uint64(1) << np.uint64(k & 63)
        full[k >> 6] |= bit
        seen[t, k >> 6] |= bit
        now[t, k >> 6] |= bit
        news[t] = True
    for v in range(n):
        for t in range(t0, t1):
            D[v, t] = none
    for t in range(t0, t1):
        D[t, t] = 0
    level = 1
    while True:
        value = level * weight
        any_ = False
        for v in range(n):
            coming[v] = False
            own = seen[v]
            missing = np.uint64(0)
            for w in range(8):
                missing |= full[w] & ~own[w]
                found[w] = 0
            if missing == 0:
                continue
            asked = 0
            if starts.size:
                for e in range(starts[v], starts[v + 1]):
                    if news[heads[e]]:
                        asked += 1
                        if _ask(now[heads[e]], found, own, full, asked):
                            break
            else:
                satisfied = False
                for w in range(words.shape[1]):
                    x = words[v, w]
                    while x and not satisfied:
                        u = 64 * w + _bit_of(x)
                        x &= x - np.uint64(1)
                        if news[u]:
                            asked += 1
                            satisfied = _ask(now[u], found, own, full, asked)
                    if satisfied:
                        break
            if asked == 0:
                continue
            some = np.uint64(0)
            for w in range(8):
                found[w] &= ~own[w]
                some |= found[w]
            if some == 0:
                continue
            any_ = coming[v] = True
            to = next_[v]
            for w in range(8):
                own[w] |= found[w]
                to[w] = found[w]
                x = found[w]
                base = t0 + 64 * w
                if full[w] == _ALL and _many(x):  # without a branch: this loop becomes vector instructions
                    row = D[v, base : base + 64]
                    for b in range(64):
                        row[b] = value if x >> np.uint64(b) & np.uint64(1) else row[b]
                else:
                    while x:
                        D[v, base + _bit_of(x)] = value
                        x &= x - np.uint64(1)
        if not any_:
            return level
        now, next_ = next_, now
        news, coming = coming, news
        level += 1
