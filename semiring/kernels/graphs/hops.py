"""Breadth-first search from all vertices, 512 targets at a time: a bit for each in a word of eight times 64.

Source: M. Then et al., "The more the merrier: efficient multi-source graph traversal", PVLDB 8 (2014). A vertex has
reached, after k rounds, what its heads had after k - 1. It asks no head more once nothing is missing, so that in a
dense graph some heads answer for all; and a target that a round brought nobody nearer to is done. The rounds themselves
are kept as bits too, one plane for each binary digit of their numbers: a round touches as many as its number has ones,
and the matrix is written once, row after row.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.memory import address, wide
from semiring.kernels.graphs.compiled import kernel
from semiring.kernels.graphs.lanes import join_listed, join_word, keep_new, missing_in, spread_levels
from semiring.kernels.graphs.words import lowest

__all__ = ["DIGITS", "TARGETS", "search_levels", "write_levels"]

TARGETS = 512
_WORD = TARGETS // 8  # bytes
_ASKED = 8  # heads between two looks whether anything is missing still
DIGITS = 4  # planes to begin with


@kernel
def _heads_in_words(words, t0, t1, full, now, levels):
    """Now (n, 8) ← the targets that each vertex has an edge to, bits of words, as of the first round."""
    for v in range(now.shape[0]):
        for w in range(t0 // 32, (t1 + 31) // 32):
            k = w - t0 // 32
            now[v, k >> 1] |= np.uint64(words[v, w]) << np.uint64(32 * (k & 1))
        keep_new(address(now) + _WORD * v, address(full), address(levels) + v * levels.strides[0])
        for w in range(8):
            levels[v, 1, w] = now[v, w]


@kernel
def _ask_heads(words, v, now, missing, found):
    """Join to the word ``found`` what the heads of v, bits of words, have reached; no more once nothing is missing."""
    asked = 0
    for w in range(words.shape[1]):
        bits = words[v, w]
        while bits:
            join_word(found, now + _WORD * (32 * w + lowest(bits)))
            bits &= bits - np.uint32(1)
            asked += 1
            if asked % _ASKED == 0 and not missing_in(missing, found):
                return


@kernel
def search_levels(starts, heads, order, words, t0, t1, levels):
    """Which of the targets t0 … t1 - 1, at most `TARGETS`, each vertex reaches, in how many rounds, and the last round.

    The first is ``levels`` (n, 1 + `DIGITS`, 8), or an array of more digits where these are too few: what is reached,
    and of that the binary digits of the rounds, the lowest first. The heads of each vertex are listed, where number k
    is the vertex order[k]; or, where ``starts`` is empty, they are the bits of words (n, ⌈n/32⌉). ``t0`` is a multiple
    of 512.
    """
    wide()
    n, listed = order.size, starts.size > 0
    levels[:] = np.uint64(0)
    now, coming = np.zeros((n, 8), np.uint64), np.empty((n, 8), np.uint64)
    full, reached, missing = np.zeros(8, np.uint64), np.empty(8, np.uint64), np.empty(8, np.uint64)
    for k in range(t1 - t0):
        full[k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    for v in range(n):
        k = order[v] - t0
        if 0 <= k < t1 - t0:
            levels[v, 0, k >> 6] = np.uint64(1) << np.uint64(k & 63)
            if listed:
                now[v, k >> 6] = levels[v, 0, k >> 6]
    if not listed:
        _heads_in_words(words, t0, t1, full, now, levels)
    level, going = 0 if listed else 1, True
    while going:
        level += 1
        if level >> (levels.shape[1] - 1):
            wider = np.zeros((n, 2 * levels.shape[1] - 1, 8), np.uint64)
            wider[:, : levels.shape[1]] = levels
            levels = wider
        going = False
        reached[:] = np.uint64(0)
        wanted, size = address(full), levels.strides[0]
        for v in range(n):
            found, seen = address(coming) + _WORD * v, address(levels) + size * v
            if not missing_in(wanted, seen):
                for w in range(8):
                    coming[v, w] = np.uint64(0)
                continue
            if listed:
                join_listed(found, address(now), address(heads) + 4 * starts[v], starts[v + 1] - starts[v])
            else:
                for w in range(8):
                    coming[v, w] = np.uint64(0)
                    missing[w] = full[w] & ~levels[v, 0, w]
                _ask_heads(words, v, address(now), address(missing), found)
            if keep_new(found, wanted, seen):
                going = True
                join_word(address(reached), found)
                for p in range(levels.shape[1] - 1):
                    if (level >> p) & 1:
                        join_word(seen + _WORD * (p + 1), found)
        now, coming = coming, now
        full[:] = reached  # what nobody has reached now, nobody will
    return levels, level


@kernel
def write_levels(found, number, weight, none, D, first, last, t0):
    """D[v, t] ← weight · the round in which v reached t, or ``none``, from column ``t0`` on, in some rows.

    ``found`` (blocks, 4): of each 512 targets, what `search_levels` returned, as an address, the bytes from a vertex to
    the next, and the digits of the last round; and how many targets there are. Vertex v has the number number[v].
    The rows of D need not lie side by side, but their entries do.
    """
    wide()
    steps, last_entries = np.empty(63, D.dtype), np.empty(64, D.dtype)
    for p in range(found[:, 2].max()):
        steps[p] = (1 << p) * weight
    for v in range(first, last):
        to = address(D) + v * D.strides[0] + t0 * D.itemsize
        for b in range(found.shape[0]):
            levels, digits, count = found[b, 0] + number[v] * found[b, 1], found[b, 2], found[b, 3]
            for w in range((count + 63) // 64):
                whole = 64 * w + 64 <= count
                at = to + (TARGETS * b + 64 * w) * D.itemsize if whole else address(last_entries)
                spread_levels(none, address(steps), levels + _WORD + 8 * w, _WORD, digits, levels + 8 * w, at)
            for t in range(count // 64 * 64, count):
                D[v, t0 + TARGETS * b + t] = last_entries[t % 64]
