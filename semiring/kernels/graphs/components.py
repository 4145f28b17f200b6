"""Strong and weak components of packed edges, a word of 32 edges at a time.

Sources: M. Sharir, "A strong-connectivity algorithm and its applications in data flow analysis", Comput. Math. Appl. 7
(1981), after R. Kosaraju. For edges in lists, R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J.
Comput. 1 (1972).

Words are uint32 (n, ⌈n/32⌉), bit b of word w is column 32·w + b, and tail bits are clear. The cost is O(n² / 32),
because a search never reads a word again that has no unseen vertex. For m edges in lists it is O(n + m).
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compilation import kernel
from semiring.kernels.graphs.words import lowest

__all__ = ["components_of_lists", "components_of_words", "is_connected"]


@kernel
def _finish_order(words, n):
    """Return the vertices in the order in which a depth-first search finishes them."""
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
def _number(rows, transposed, root, count, unseen, rest, numbers, waiting):
    """Give ``count`` to the unseen vertices that edges of either matrix reach from a root.

    Return how many. At most ``rest`` vertices are unseen.
    """
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
            new = (rows[v, w] | transposed[v, w]) & unseen[w]
            unseen[w] &= ~new
            while new:
                bit = lowest(new)
                new &= ~(np.uint32(1) << np.uint32(bit))
                waiting[left] = 32 * w + bit
                left += 1
                found += 1
    return found


@kernel
def components_of_words(words, transposed, n):
    """Return the strong component of every vertex, in topological order, its weak component, and their numbers.

    ``transposed``: the words of the transpose.
    """
    width = words.shape[1]
    order = _finish_order(words, n)
    number, weak, waiting = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    unseen = np.full(width, np.uint32(0xFFFFFFFF), np.uint32)
    count, rest = 0, n
    for root in order[::-1]:
        found = _number(transposed, transposed, root, count, unseen, rest, number, waiting)
        count += found > 0
        rest -= found
    unseen[:] = np.uint32(0xFFFFFFFF)
    apart, rest = 0, n
    for root in range(n):
        found = _number(words, transposed, root, apart, unseen, rest, weak, waiting)
        apart += found > 0
        rest -= found
    return number, weak, count, apart


@kernel
def _first(weak, v):
    """Return the representative of a weak component by union-find, with path halving."""
    while weak[v] != v:
        weak[v] = weak[weak[v]]
        v = weak[v]
    return v


@kernel
def components_of_lists(starts, heads):
    """Return `components_of_words` for compressed rows (n + 1,) and (m,).

    The numbers of weak components have gaps.
    """
    n = starts.size - 1
    number, weak, seen = np.full(n, -1, np.int64), np.arange(n), np.full(n, -1, np.int64)
    at, lowest_seen = starts[:n].copy(), np.empty(n, np.int64)
    path, waiting = np.empty(n, np.int64), np.empty(n, np.int64)
    count = clock = left = 0
    for root in range(n):
        if seen[root] >= 0:
            continue
        v, depth = root, 0
        while True:
            if seen[v] < 0:
                seen[v] = lowest_seen[v] = clock
                clock += 1
                path[depth], waiting[left] = v, v
                depth += 1
                left += 1
            if at[v] < starts[v + 1]:
                u = heads[at[v]]
                at[v] += 1
                if seen[u] < 0:
                    v = int(u)
                elif number[u] < 0:
                    lowest_seen[v] = min(lowest_seen[v], seen[u])
                continue
            depth -= 1
            if (
                lowest_seen[v] == seen[v]
            ):  # the stack above v is its component, and all other vertices that it reaches have a number
                while number[v] < 0:
                    left -= 1
                    number[waiting[left]] = count
                count += 1
            if depth == 0:
                break
            before = path[depth - 1]
            lowest_seen[before] = min(lowest_seen[before], lowest_seen[v])
            v = before
    if count == 1:
        weak[:] = 0
        return number, weak, count
    for v in range(n):
        number[v] = count - 1 - number[v]
        for e in range(starts[v], starts[v + 1]):
            a, b = _first(weak, v), _first(weak, np.int64(heads[e]))
            weak[max(a, b)] = min(a, b)
    for v in range(n):
        weak[v] = _first(weak, v)
    return number, weak, count


@kernel
def is_connected(words, n, rounds):
    """Return whether vertex 0 surely reaches all vertices and they reach it, in at most ``rounds`` rounds back."""
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
