"""Breadth-first search from all vertices, 512 targets at a time, with one bit for each target in a word of 8 × 64 bits.

Source: M. Then et al., "The more the merrier: efficient multi-source graph traversal", PVLDB 8 (2014). After k rounds,
a vertex has reached the targets that its heads had reached after k - 1 rounds. The scan of its heads stops once no
target is missing, so in a dense graph a few heads suffice. A target is finished if no vertex reached it in a round. The
numbers of rounds are stored as bits too, one plane for each binary digit. A round writes as many planes as its number
has ones. The matrix is written once, row after row.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, trailing_zeros, use_wide_vectors
from semiring.kernels.graphs.vector_intrinsics import join_listed, join_word, keep_new, lacks_bits, spread_levels

TARGETS = 512
_WORD = TARGETS // 8  # bytes
_HEADS_PER_TEST = 8  # heads between two tests whether a target is missing
DIGITS = 4  # the initial number of planes


@kernel
def _heads_in_words(words, t0, t1, targets, frontier, levels):
    """Set ``frontier`` (n, 8) to the targets to which each vertex has an edge, from bits of words: the first round."""
    for v in range(frontier.shape[0]):
        for w in range(t0 // 32, (t1 + 31) // 32):
            k = w - t0 // 32
            frontier[v, k >> 1] |= np.uint64(words[v, w]) << np.uint64(32 * (k & 1))
        keep_new(address(frontier) + _WORD * v, address(targets), address(levels) + v * levels.strides[0])
        for w in range(8):
            levels[v, 1, w] = frontier[v, w]


@kernel
def _join_heads(words, v, frontier, missing, word):
    """Join the targets that the heads of v have reached to the word at the address ``word``.

    Stop once no target is missing. The heads are bits of words.
    """
    count = 0
    for w in range(words.shape[1]):
        bits = words[v, w]
        while bits:
            join_word(word, frontier + _WORD * (32 * w + trailing_zeros(bits)))
            bits &= bits - np.uint32(1)
            count += 1
            if count % _HEADS_PER_TEST == 0 and not lacks_bits(missing, word):
                return


@kernel
def search_levels(starts, heads, order, words, t0, t1, levels):
    """Return which of the targets t0 … t1 - 1 each vertex reaches, in how many rounds, and the last round.

    There are at most `TARGETS` targets, and ``t0`` is a multiple of 512. The first result is ``levels`` (n, 1 +
    `DIGITS`, 8), or an array of more digits if these are too few. It holds the targets that each vertex reaches, and
    the binary digits of their rounds, the lowest first. ``heads`` lists the heads of each vertex, and number k is the
    vertex order[k]. If ``starts`` is empty, the heads are the bits of words (n, ⌈n/32⌉).
    """
    use_wide_vectors()
    n, listed = order.size, starts.size > 0
    levels[:] = np.uint64(0)
    frontier, next_frontier = np.zeros((n, 8), np.uint64), np.empty((n, 8), np.uint64)
    full, reached, missing = np.zeros(8, np.uint64), np.empty(8, np.uint64), np.empty(8, np.uint64)
    for k in range(t1 - t0):
        full[k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    for v in range(n):
        k = order[v] - t0
        if 0 <= k < t1 - t0:
            levels[v, 0, k >> 6] = np.uint64(1) << np.uint64(k & 63)
            if listed:
                frontier[v, k >> 6] = levels[v, 0, k >> 6]
    if not listed:
        _heads_in_words(words, t0, t1, full, frontier, levels)
    level, going = 0 if listed else 1, True
    while going:
        level += 1
        if level >> (levels.shape[1] - 1):
            wider = np.zeros((n, 2 * levels.shape[1] - 1, 8), np.uint64)
            wider[:, : levels.shape[1]] = levels
            levels = wider
        going = False
        reached[:] = np.uint64(0)
        targets, size = address(full), levels.strides[0]
        for v in range(n):
            word, reached_word = address(next_frontier) + _WORD * v, address(levels) + size * v
            if not lacks_bits(targets, reached_word):
                for w in range(8):
                    next_frontier[v, w] = np.uint64(0)
                continue
            if listed:
                join_listed(word, address(frontier), address(heads) + 4 * starts[v], starts[v + 1] - starts[v])
            else:
                for w in range(8):
                    next_frontier[v, w] = np.uint64(0)
                    missing[w] = full[w] & ~levels[v, 0, w]
                _join_heads(words, v, address(frontier), address(missing), word)
            if keep_new(word, targets, reached_word):
                going = True
                join_word(address(reached), word)
                for p in range(levels.shape[1] - 1):
                    if (level >> p) & 1:
                        join_word(reached_word + _WORD * (p + 1), word)
        frontier, next_frontier = next_frontier, frontier
        full[:] = reached  # a target that no vertex reached in this round is reached in no later round
    return levels, level


@kernel
def write_levels(blocks, number, weight, none, D, first, last, t0):
    """Write weight · the round in which v reached t, or ``none``, to D[v, t] in rows first … last - 1, columns t0 ….

    ``blocks`` (count, 4) holds for each 512 targets the result of `search_levels`. The columns are its address, the
    bytes from a vertex to the next, the digits of the last round, and the number of targets. Vertex v has the number
    number[v]. The entries of a row of D are adjacent; its rows may have any stride.
    """
    use_wide_vectors()
    steps, last_entries = np.empty(63, D.dtype), np.empty(64, D.dtype)
    for p in range(blocks[:, 2].max()):
        steps[p] = (1 << p) * weight
    for v in range(first, last):
        row_address = address(D) + v * D.strides[0] + t0 * D.itemsize
        for b in range(blocks.shape[0]):
            levels, digits, count = blocks[b, 0] + number[v] * blocks[b, 1], blocks[b, 2], blocks[b, 3]
            for w in range((count + 63) // 64):
                whole = 64 * w + 64 <= count
                target = row_address + (TARGETS * b + 64 * w) * D.itemsize if whole else address(last_entries)
                spread_levels(none, address(steps), levels + _WORD + 8 * w, _WORD, digits, levels + 8 * w, target)
            for t in range(count // 64 * 64, count):
                D[v, t0 + TARGETS * b + t] = last_entries[t % 64]
