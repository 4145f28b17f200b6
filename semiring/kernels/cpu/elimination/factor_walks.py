"""Expand the entries of a factor to walks of edges.

F[u, v], the paths from u to v over pivots before both, is an edge, or F[u, k] ⊗ F[k, v] for a pivot k < min(u, v). ⊕
selects, and the selected candidate is computed again, bit by bit. So an entry is expanded over any such k until only
edges remain. k falls at every step, so the expansion ends, even with ties. A best path climbs from its source up the
tree to its highest pivot, and from there down to its target. Each step is an entry. Loops, which weigh 1̄, are removed.

Source: J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", ACM JEA 21 (2016), sections 3 and 6.
Cost: the entries above both ends in the tree, and for every edge of the path the supernodes that end in it.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.loops import better, inner, kernel, times


@inner
def _find_position(rows, a, b, row):
    """Return the position of a row in the sorted rows[a:b], counted from a, or -1 if it is absent."""
    end = b
    low = a
    while low < end:
        middle = (low + end) // 2
        if rows[middle] < row:
            low = middle + 1
        else:
            end = middle
    return low - a if low < b and rows[low] == row else -1


@inner
def _read_entry(memory, s, u, v, pivot_starts, row_starts, rows, blocks, right_panels, below_panels):
    """Return F[u, v] for two places of the front of supernode s, at least one of which is a pivot of s."""
    first, k, a, b = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s], row_starts[s], row_starts[s + 1]
    if u < first + k and v < first + k:
        return memory[blocks[s] + (u - first) * k + v - first]
    if u < v:
        return memory[right_panels[s] + (u - first) * (b - a) + _find_position(rows, a, b, v)]
    return memory[below_panels[s] + (v - first) * (b - a) + _find_position(rows, a, b, u)]


@inner
def _climb(sr, start, is_downward, tree, numbers, zero, is_reached, label, via):
    """Write the best paths from a place to all places above it to ``label``, and their last intermediates to ``via``.

    With ``is_downward`` the paths lead from the places above to this place. ``is_reached`` (n,) marks the places that a
    path reaches.
    """
    supernode_of, parents, pivot_starts, row_starts, rows = tree
    memory, blocks, right_panels, below_panels = numbers
    s = supernode_of[start]
    while s >= 0:
        first, k, a = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s], row_starts[s]
        m = row_starts[s + 1] - a
        panel = below_panels[s] if is_downward else right_panels[s]
        for p in range(k):
            place = first + p
            if not is_reached[place]:
                continue
            for q in range(p + 1, k + m):
                if q < k:
                    other = first + q
                    weight = memory[blocks[s] + (q * k + p if is_downward else p * k + q)]
                else:
                    other = rows[a + q - k]
                    weight = memory[panel + p * m + q - k]
                if weight == zero:
                    continue
                candidate = times(sr, weight, label[place]) if is_downward else times(sr, label[place], weight)
                if not is_reached[other] or better(sr, candidate, label[other]):
                    label[other], is_reached[other], via[other] = candidate, True, place
        s = parents[s]


@inner
def _edge_weight(starts, indices, values, u, v, zero):
    """Return the weight of an edge between vertices, or 0̄ if there is none."""
    a, b = starts[u], starts[u + 1]
    index = _find_position(indices, a, b, v)
    return values[a + index] if index >= 0 else zero


@inner
def _find_pivot(sr, u, v, value, tree, numbers, is_symmetric, ends, lists):
    """Return a pivot k < min(u, v) with F[u, k] ⊗ F[k, v] = F[u, v], or -1 if there is none."""
    supernode_of, _, pivot_starts, row_starts, rows = tree
    memory, blocks, right_panels, below_panels = numbers
    if is_symmetric and u > v:  # computed as F[v, u]
        u, v = v, u
    low, high = min(u, v), max(u, v)
    s = supernode_of[low]
    for k in range(pivot_starts[s], low):
        x = _read_entry(memory, s, u, k, pivot_starts, row_starts, rows, blocks, right_panels, below_panels)
        y = _read_entry(memory, s, k, v, pivot_starts, row_starts, rows, blocks, right_panels, below_panels)
        if times(sr, x, y) == value:
            return k
    for e in range(ends[low], ends[low + 1]):
        s = lists[e]
        a, b = row_starts[s], row_starts[s + 1]
        far = _find_position(rows, a, b, high)
        if far < 0:
            continue
        near = _find_position(rows, a, b, low)
        i, j = (near, far) if u < v else (far, near)
        for p in range(pivot_starts[s + 1] - pivot_starts[s]):
            offset = p * (b - a)
            if times(sr, memory[below_panels[s] + offset + i], memory[right_panels[s] + offset + j]) == value:
                return pivot_starts[s] + p
    return -1


@inner
def _find_chain(sr, source, target, tree, numbers, zero, one):
    """Return the places of a best path in the factor, int32: up the tree from the source, and down to the target.

    The result is empty if there is no path.
    """
    supernode_of, parents, pivot_starts, _, _ = tree
    n = supernode_of.size
    up, down = np.full(n, zero), np.full(n, zero)
    up_reached, down_reached = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    came, goes = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    up[source], down[target], up_reached[source], down_reached[target] = one, one, True, True
    _climb(sr, source, False, tree, numbers, zero, up_reached, up, came)
    _climb(sr, target, True, tree, numbers, zero, down_reached, down, goes)
    top, best = -1, zero
    s = supernode_of[target]
    while s >= 0:
        for place in range(pivot_starts[s], pivot_starts[s + 1]):
            if up_reached[place] and down_reached[place]:
                length = times(sr, up[place], down[place])
                if top < 0 or better(sr, length, best):
                    top, best = place, length
        s = parents[s]
    if top < 0:
        return np.empty(0, np.int32)
    length_up, place = 0, top
    while place >= 0:
        length_up += 1
        place = came[place]
    length_down, place = 0, goes[top]
    while place >= 0:
        length_down += 1
        place = goes[place]
    chain = np.empty(length_up + length_down, np.int32)
    place = top
    for at in range(length_up - 1, -1, -1):
        chain[at] = place
        place = came[place]
    place = goes[top]
    for at in range(length_up, chain.size):
        chain[at] = place
        place = goes[place]
    return chain


@kernel
def find_walk(
    sr,
    source,
    target,
    order,
    starts,
    indices,
    values,
    supernode_of,
    parents,
    pivot_starts,
    row_starts,
    rows,
    memory,
    blocks,
    right_panels,
    below_panels,
    is_symmetric,
    ends,
    lists,
    zero,
    one,
):
    """Return the vertices of a best path between two places, int32, both ends included; empty if there is none.

    The result is -1 alone if the memory does not belong to these edges. ``memory``: the result of
    `fronts.reduce_open`. ``starts``, ``indices``, ``values``: the edges, by vertex. ``ends``, ``lists``: the
    supernodes that have each place among their rows. ``order``: the vertex at each place.
    """
    tree = (supernode_of, parents, pivot_starts, row_starts, rows)
    numbers = (memory, blocks, right_panels, below_panels)
    chain = _find_chain(sr, source, target, tree, numbers, zero, one)
    if chain.size == 0:
        return chain
    walk = [np.int32(order[source])]
    position = np.full(order.size, -1, np.int64)  # the position of each vertex in the walk
    position[order[source]] = 0
    tails, heads = [chain[0]], [chain[0]]
    tails.clear()
    heads.clear()
    for step in range(chain.size - 1):
        tails.append(chain[step])
        heads.append(chain[step + 1])
        while len(tails) > 0:
            u, v = tails.pop(), heads.pop()
            s = supernode_of[min(u, v)]
            value = _read_entry(memory, s, u, v, pivot_starts, row_starts, rows, blocks, right_panels, below_panels)
            k = -1
            if _edge_weight(starts, indices, values, order[u], order[v], zero) != value:
                k = _find_pivot(sr, u, v, value, tree, numbers, is_symmetric, ends, lists)
                if k < 0:
                    return np.full(1, -1, np.int32)
            if k >= 0:
                tails.append(np.int32(k))
                heads.append(v)
                tails.append(u)
                heads.append(np.int32(k))
                continue
            vertex = order[v]
            if position[vertex] >= 0:  # a loop, which weighs 1̄
                while len(walk) > position[vertex] + 1:
                    position[walk.pop()] = -1
            else:
                position[vertex] = len(walk)
                walk.append(np.int32(vertex))
    result = np.empty(len(walk), np.int32)
    for i in range(len(walk)):
        result[i] = walk[i]
    return result
