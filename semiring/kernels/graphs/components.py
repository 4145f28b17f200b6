"""Strong and weak components of packed edges, a word of 32 edges at a time.

Source: M. Sharir, "A strong-connectivity algorithm and its applications in data flow analysis", Comput. Math. Appl. 7
(1981), after R. Kosaraju. Words are uint32 (n, ⌈n/32⌉), bit b of word w is column 32·w + b; tail bits are clear.
Cost: O(n² / 32), for a search never asks a word twice that has nothing left to reach.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel
from semiring.kernels.graphs.words import lowest

__all__ = ["components_of_words", "is_connected"]


@kernel
def _finished(words, n):
    """The vertices as a depth-first search leaves them, the first first."""
    width = words.shape[1]
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    path, at, order = np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
    count = 0
    for root in range(n):
        if not unseen[root >> 5] >> np.uint32(root & 31) & np.uint32(1):
            continue
        unseen[root >> 5] &= ~(np.uint32(1) << np.uint32(root & 31))
        path[0], depth = root, 1
        while depth:
            v = path[depth - 1]
            w = at[v]
            while w < width and words[v, w] & unseen[w] == 0:
                w += 1
            at[v] = w
            if w == width:
                order[count] = v
                count += 1
                depth -= 1
                continue
            bit = lowest(words[v, w] & unseen[w])
            unseen[w] &= ~(np.uint32(1) << np.uint32(bit))
            path[depth] = 32 * w + bit
            depth += 1
    return order


@kernel
def _number(rows, turned, root, count, unseen, rest, numbers, waiting):
    """Give ``count`` to the unseen vertices, of ``rest``, that edges of either matrix lead to from a root; how many."""
    if not unseen[root >> 5] >> np.uint32(root & 31) & np.uint32(1):
        return 0
    unseen[root >> 5] &= ~(np.uint32(1) << np.uint32(root & 31))
    waiting[0], left, found = root, 1, 1
    while left:
        left -= 1
        v = waiting[left]
        numbers[v] = count
        if found == rest:
            continue
        for w in range(unseen.size):
            new = (rows[v, w] | turned[v, w]) & unseen[w]
            unseen[w] &= ~new
            while new:
                bit = lowest(new)
                new &= ~(np.uint32(1) << np.uint32(bit))
                waiting[left] = 32 * w + bit
                left += 1
                found += 1
    return found


@kernel
def components_of_words(words, turned, n):
    """The number of every vertex's strong component, in topological order, and of its weak one; and how many there are.

    ``turned``: the words of the transpose.
    """
    width = words.shape[1]
    order = _finished(words, n)
    number, weak, waiting = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    count, rest = 0, n
    for root in order[::-1]:
        found = _number(turned, turned, root, count, unseen, rest, number, waiting)
        count += found > 0
        rest -= found
    unseen[:] = np.uint32(0xFFFFFFFF)
    apart, rest = 0, n
    for root in range(n):
        found = _number(words, turned, root, apart, unseen, rest, weak, waiting)
        apart += found > 0
        rest -= found
    return number, weak, count, apart


@kernel
def is_connected(words, n, rounds):
    """Whether vertex 0 surely reaches all others and they reach it; more than so many rounds back are not tried."""
    width = words.shape[1]
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    if n & 31:
        unseen[width - 1] = np.uint32((1 << (n & 31)) - 1)
    if _number(words, words, 0, 0, unseen, n, np.empty(n, np.int64), np.empty(n, np.int64)) < n:
        return False
    back = np.zeros(width, np.uint32)
    back[0] = np.uint32(1)
    reached = 1
    for _ in range(rounds):
        before = reached
        for v in range(n):
            if back[v >> 5] >> np.uint32(v & 31) & np.uint32(1):
                continue
            for w in range(width):
                if words[v, w] & back[w]:
                    back[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
                    reached += 1
                    break
        if reached == n:
            return True
        if reached == before:
            return False
    return False
