"""Which vertex reaches which, in rows of bits: those of a component from those that its edges lead to.

Source: P. Purdom, BIT 10 (1970), transitive closures by components in reverse topological order; a row that is reached
already is not joined again, as in E. Nuutila, Inf. Process. Lett. 52 (1994), here the nearest first.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel

__all__ = ["join_rows"]


@kernel
def join_rows(words, order, bounds, most):
    """Words (n, ⌈n/32⌉) ← those of the reflexive closure, in place; and how many rows were joined.

    ``order``, ``bounds``: the vertices by components in topological order, and where these begin. After ``most`` joins
    it ends: what is done then has the same closure as what was given, and -1 is returned.
    """
    n, width = words.shape
    row, covered, ends = np.empty(width, np.uint32), np.empty(width, np.uint32), np.zeros(width, np.uint32)
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
        left = 0
        for w in range(width):
            left |= row[w] & ~(covered[w] | ends[w])
        k = last
        while left and k < n:
            u = order[k]
            k += 1
            bit = np.uint32(1) << np.uint32(u & 31)
            if row[u >> 5] & bit and not (covered[u >> 5] | ends[u >> 5]) & bit:
                joins += 1
                source = words[u]
                left = 0
                for w in range(width):
                    covered[w] |= source[w]
                    row[w] |= source[w]
                    left |= row[w] & ~(covered[w] | ends[w])
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
