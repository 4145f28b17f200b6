"""Which vertex reaches which, in rows of bits: those of a component from those that its edges lead to.

Source: P. Purdom, BIT 10 (1970), transitive closures by components in reverse topological order; a row that is reached
already is not joined again, as in E. Nuutila, Inf. Process. Lett. 52 (1994), here the nearest first.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel
from semiring.kernels.graphs.words import lowest

__all__ = ["join_rows"]


@kernel
def _join(source, row, covered, ends):
    """Join a row that is covered then; return the bits that are not, joined into a word."""
    left = np.uint32(0)
    for w in range(row.size):
        covered[w] |= source[w]
        row[w] |= source[w]
        left |= row[w] & ~(covered[w] | ends[w])
    return left


@kernel
def join_rows(words, order, bounds, most):
    """Words (n, ⌈n/32⌉) ← those of the reflexive closure, in place; and how many rows were joined.

    ``order``, ``bounds``: the vertices by components in topological order, and where these begin. After ``most`` joins
    it ends: what is done then has the same closure as what was given, and -1 is returned.
    """
    n, width = words.shape
    row, covered, ends = np.empty(width, np.uint32), np.empty(width, np.uint32), np.zeros(width, np.uint32)
    ahead, place = np.zeros(width, np.uint32), np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    joins = 0
    for c in range(bounds.size - 2, -1, -1):
        first, last = bounds[c], bounds[c + 1]
        for w in range(width):
            row[w] = covered[w] = 0
        for k in range(first, last):
            source = words[order[k]]
            for w in range(width):
                row[w] |= source[w]
        for k in range(first, last):
            v = order[k]
            row[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
            covered[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
        # Those that reach themselves alone are in the row already.
        left = np.uint32(0)
        for w in range(width):
            left |= row[w] & ~(covered[w] | ends[w])
        # The nearest vertices, one after the other: where edges are many, these cover all.
        k = last
        while left and k < min(n, last + width):
            u = order[k]
            k += 1
            if row[u >> 5] & ~(covered[u >> 5] | ends[u >> 5]) & np.uint32(1) << np.uint32(u & 31):
                joins += 1
                left = _join(words[u], row, covered, ends)
        # The heads of the edges that are left, by their places: nothing that is joined adds to them. Heads that a row
        # before did not come to may be among them, and are asked about in vain.
        if left:
            for w in range(width):
                rest = row[w] & ~(covered[w] | ends[w])
                while rest:
                    bit = lowest(rest)
                    rest &= ~(np.uint32(1) << np.uint32(bit))
                    at = place[32 * w + bit]
                    ahead[at >> 5] |= np.uint32(1) << np.uint32(at & 31)
        w = k >> 5
        while left:
            while ahead[w] == 0:
                w += 1
            bit = lowest(ahead[w])
            ahead[w] &= ~(np.uint32(1) << np.uint32(bit))
            u = order[32 * w + bit]
            if row[u >> 5] & ~(covered[u >> 5] | ends[u >> 5]) & np.uint32(1) << np.uint32(u & 31):
                joins += 1
                left = _join(words[u], row, covered, ends)
        if joins > most:
            return -1
        alone = last - first == 1
        for w in range(width):
            outside = row[w]
            if alone and w == order[first] >> 5:
                outside &= ~(np.uint32(1) << np.uint32(order[first] & 31))
            alone = alone and outside == 0
        if alone:
            ends[order[first] >> 5] |= np.uint32(1) << np.uint32(order[first] & 31)
        for k in range(first, last):
            to = words[order[k]]
            for w in range(width):
                to[w] = row[w]
    return joins
