"""Strong components of a small matrix, their order, and the paths between them by products of its weights.

The order and the halves are the same as in `semiring.graphs.components`.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.closing.gaining.loops import close_block, inner
from semiring.kernels.graphs.component_search import components_of_words

__all__ = ["find_components", "gather_weights", "has_hub_at_vertex_0", "join_components"]

_RUN = 64  # as in `semiring.graphs.components`


@inner
def has_hub_at_vertex_0(A, sign):
    """Return whether vertex 0 has edges to and from every vertex, also to vertex 0.

    A graph with these edges is strongly connected. The converse does not hold: if the result is False, the graph may be
    strongly connected too.
    """
    none, result = sign * np.inf, True
    for i in range(A.shape[0]):
        result &= (A[0, i] != none) & (A[i, 0] != none)
    return result


@inner
def find_components(A, sign, order, mark):
    """Write the vertices to ``order``, component after component, in the order of `semiring.graphs.components`.

    ``mark`` becomes 1 at the start of a component, and 3 at the start of a weak component. Return the number of strong
    components.
    """
    n, none = A.shape[0], sign * np.inf
    words, transposed = np.zeros((n, (n + 31) >> 5), np.uint32), np.zeros((n, (n + 31) >> 5), np.uint32)
    for i in range(n):
        for j in range(n):
            edge = np.uint32(A[i, j] != none)
            words[i, j >> 5] |= edge << np.uint32(j & 31)
            transposed[j, i >> 5] |= edge << np.uint32(i & 31)
    number, weak, count, weak_count = components_of_words(words, transposed, n)
    weak_of, starts = np.empty(count, np.int64), np.zeros(weak_count + 1, np.int64)
    for v in range(n):
        weak_of[number[v]] = weak[v]
    for c in range(count):
        starts[weak_of[c] + 1] += 1
    for w in range(weak_count):
        starts[w + 1] += starts[w]
    ends = starts.copy()
    place = np.empty(count, np.int64)
    for c in range(count):
        place[c] = ends[weak_of[c]]
        ends[weak_of[c]] += 1
    begins = np.zeros(count + 1, np.int64)
    for v in range(n):
        begins[place[number[v]] + 1] += 1
    for c in range(count):
        begins[c + 1] += begins[c]
    mark[:] = 0
    for c in range(count):
        mark[begins[c]] = 1
    for w in range(weak_count):
        mark[begins[starts[w]]] = 3
    for v in range(n):
        c = place[number[v]]
        order[begins[c]] = v
        begins[c] += 1
    return count


@inner
def gather_weights(A, vertices, is_whole, sign, out):
    """Write the rows and columns ``vertices`` of A as weights of min-plus to ``out``.

    ``is_whole``: whether ``vertices`` are all vertices in order.
    """
    for i in range(vertices.size):
        if is_whole:
            for j in range(vertices.size):
                out[i, j] = 0 + sign * A[i, j]
        else:
            for j in range(vertices.size):
                out[i, j] = 0 + sign * A[vertices[i], vertices[j]]


@inner
def join_components(D, bits, products, bounds, begin, end, stack, job, workspace):
    """Compute `semiring.graphs.components.join_components` of the components ``begin`` … ``end`` - 1.

    They form one weak component. ``products`` (n, n) is workspace.
    """
    depth = _push_range(stack, 0, begin, end, 0)
    while depth:
        depth -= 1
        first, last, halves = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        low, high = bounds[first], bounds[last]
        if last - first == 1:
            continue
        if high - low == last - first and high - low <= _RUN:
            close_block(bits[low:high, low:high], job, workspace)
            continue
        half = _find_half(bounds, first, last)
        if halves:
            _join_halves(D, products, bounds, first, half, last)
            continue
        depth = _push_range(stack, depth, first, last, 1)
        depth = _push_range(stack, depth, first, half, 0)
        depth = _push_range(stack, depth, half, last, 0)


@inner
def _push_range(stack, depth, first, last, halves):
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = first, last, halves
    return depth + 1


@inner
def _find_half(bounds, first, last):
    low, high = bounds[first], bounds[last]
    half = np.searchsorted(bounds[: last + 1], (low + high) // 2)
    if half > first + 1 and bounds[half] - (low + high) / 2 > (low + high) / 2 - bounds[half - 1]:
        half -= 1
    return min(max(first + 1, half), last - 1)


@inner
def _join_halves(D, products, bounds, first, half, last):
    """Compute C ← L ⊗ C, and then C ⊗ R, for the closed triangular blocks L and R on the diagonal."""
    low, middle, high = bounds[first], bounds[half], bounds[last]
    width = high - middle
    for c in range(first, half):
        for i in range(bounds[c], bounds[c + 1]):
            row = products[i - low, :width]
            row[:] = np.inf
            for k in range(bounds[c], middle):
                _improve_row(row, D[i, k], D[k, middle:high])
    D[low:middle, middle:high] = np.inf
    for i in range(low, middle):
        for c in range(half, last):
            for k in range(bounds[c], bounds[c + 1]):
                _improve_row(D[i, bounds[c] : high], products[i - low, k - middle], D[k, bounds[c] : high])


@inner
def _improve_row(row, x, edges):
    if x < np.inf:
        for j in range(row.size):
            y = x + edges[j]
            row[j] = y if y < row[j] else row[j]
