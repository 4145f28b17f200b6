"""Reachability in rows of bits, where the row of a component is joined from the rows to which its edges lead.

Source: P. Purdom, BIT 10 (1970), transitive closures by components in reverse topological order. A row that is reached
already is not joined again, as in E. Nuutila, Inf. Process. Lett. 52 (1994). Here the nearest rows come first. If edges
are few, all rows are joined, for 512 targets at a time: so many bits of every component stay in the second-level cache.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, copy_bytes, trailing_zeros, use_wide_vectors
from semiring.kernels.graphs.vector_intrinsics import copy_line, join_fours

TARGETS = 512
_WORD = TARGETS // 8  # bytes


@kernel
def _join_row(source, row, covered_bits, ends):
    """Join ``source`` to ``row``, and add its bits to ``covered_bits``.

    Return a word that is 0 if all bits of the row are in ``covered_bits`` or ``ends``.
    """
    open_bits = np.uint32(0)
    for w in range(row.size):
        covered_bits[w] |= source[w]
        row[w] |= source[w]
        open_bits |= row[w] & ~(covered_bits[w] | ends[w])
    return open_bits


@kernel
def join_rows(words, order, bounds, join_limit):
    """Replace words (n, ⌈n/32⌉) by the words of the reflexive closure in place.

    Return how many rows were joined. ``order``, ``bounds``: the vertices by components in topological order, and the
    start of each component. The loop ends after ``join_limit`` joins and returns -1. The words then have the same
    closure as before.
    """
    n, width = words.shape
    row, covered_bits, ends = np.empty(width, np.uint32), np.empty(width, np.uint32), np.zeros(width, np.uint32)
    queue, place = np.zeros(width, np.uint32), np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    joins = 0
    for c in range(bounds.size - 2, -1, -1):
        first, last = bounds[c], bounds[c + 1]
        for w in range(width):
            row[w] = covered_bits[w] = 0
        for k in range(first, last):
            source = words[order[k]]
            for w in range(width):
                row[w] |= source[w]
        for k in range(first, last):
            v = order[k]
            row[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
            covered_bits[v >> 5] |= np.uint32(1) << np.uint32(v & 31)
        # Vertices that reach only themselves are in the row already.
        open_bits = np.uint32(0)
        for w in range(width):
            open_bits |= row[w] & ~(covered_bits[w] | ends[w])
        # The nearest vertices come first: if edges are many, the rows of these cover all reachable vertices.
        k = last
        while open_bits and k < min(n, last + width):
            u = order[k]
            k += 1
            if row[u >> 5] & ~(covered_bits[u >> 5] | ends[u >> 5]) & np.uint32(1) << np.uint32(u & 31):
                joins += 1
                open_bits = _join_row(words[u], row, covered_bits, ends)
        # The heads of the remaining edges come in the order of their places, because no joined row adds to them. Bits
        # of ``ahead`` may remain from an earlier component. The test below excludes those that are no heads here.
        if open_bits:
            for w in range(width):
                rest = row[w] & ~(covered_bits[w] | ends[w])
                while rest:
                    bit = trailing_zeros(rest)
                    rest &= ~(np.uint32(1) << np.uint32(bit))
                    position = place[32 * w + bit]
                    queue[position >> 5] |= np.uint32(1) << np.uint32(position & 31)
        w = k >> 5
        while open_bits:
            while queue[w] == 0:
                w += 1
            bit = trailing_zeros(queue[w])
            queue[w] &= ~(np.uint32(1) << np.uint32(bit))
            u = order[32 * w + bit]
            if row[u >> 5] & ~(covered_bits[u >> 5] | ends[u >> 5]) & np.uint32(1) << np.uint32(u & 31):
                joins += 1
                open_bits = _join_row(words[u], row, covered_bits, ends)
        if joins > join_limit:
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
            target = words[order[k]]
            for w in range(width):
                target[w] = row[w]
    return joins


@kernel
def condense(starts, heads, order, bounds):
    """Return the component of each vertex (n,), and the components that edges of each component lead to.

    The lists of components have a length that is a multiple of four: their starts, and the components, of which the
    last is repeated. ``starts``, ``heads``: the edges of the vertices. ``order``, ``bounds``: as in `join_rows`.
    """
    number, count, position = np.empty(order.size, np.int32), bounds.size - 1, 0
    begins, ends = np.zeros(count + 1, np.int64), np.empty(heads.size + 3 * count, np.int32)
    for c in range(count):
        for k in range(bounds[c], bounds[c + 1]):
            number[order[k]] = c
    for c in range(count):
        first = position
        for k in range(bounds[c], bounds[c + 1]):
            v = order[k]
            for e in range(starts[v], starts[v + 1]):
                if number[heads[e]] != c:
                    ends[position] = number[heads[e]]
                    position += 1
        while (position - first) % 4:
            ends[position] = ends[position - 1]
            position += 1
        begins[c + 1] = position // 4
    return number, begins, ends[:position]


@kernel
def reach_targets(order, bounds, begins, ends, t0, t1, target_bits):
    """Set ``target_bits`` (count, 8) to the bits of the targets t0 … t1 - 1 that each component reaches.

    There are at most `TARGETS` targets.
    """
    use_wide_vectors()
    first, lists = address(target_bits), address(ends)
    for c in range(begins.size - 2, -1, -1):
        join_fours(first + _WORD * c, first, lists + 16 * begins[c], begins[c + 1] - begins[c])
        for k in range(bounds[c], bounds[c + 1]):
            t = order[k] - t0
            if 0 <= t < t1 - t0:
                target_bits[c, t >> 6] |= np.uint64(1) << np.uint64(t & 63)


@kernel
def write_target_bits(target_bits, number, words, first, last, t0):
    """Write rows first … last - 1 of words: what the components of these vertices reach, from target ``t0`` on.

    ``target_bits`` (blocks, count, 8): for each `TARGETS` targets, the result of `reach_targets`.
    """
    step, size = target_bits.strides[0], 4 * (words.shape[1] - t0 // 32)
    for v in range(first, last):
        source, target = address(target_bits) + _WORD * number[v], address(words) + v * words.strides[0] + t0 // 8
        for b in range(target_bits.shape[0]):
            if _WORD * (b + 1) <= size:
                copy_bytes(target + _WORD * b, source + step * b, _WORD)
            else:
                copy_line(target + _WORD * b, source + step * b, size - _WORD * b)
