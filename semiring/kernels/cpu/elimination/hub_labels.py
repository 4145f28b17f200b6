"""Entries of A* for listed pairs of places, by hub labels from and to the supernodes above both.

Let X[u, P] be all paths from u to the pivots of a supernode P above it that pass only through places below P, and Y[P,
v] the same towards v. Then A*[u, v] is the sum of X[u, P] ⊗ S[P] ⊗ Y[P, v] over every P above both places, where S[P]
is the star of the pivot block. Two computations find the same labels:

- `climb` goes from each end up to its root, as the first triangular solve does. It costs the panels above each end.
- `join_columns` goes from P down to the ends: X[u, P] = R[u, rows] ⊗ X[rows, P], a triangular solve with the pivots of
  P side by side. Ends that are close share nearly all of it.

Sources: I. Abraham, D. Delling, A. Goldberg, R. Werneck, "Hierarchical hub labelings for shortest paths", ESA 2012, for
the labels; D. Ouyang and others, "When hierarchy meets 2-hop-labeling", SIGMOD 2018, for finding them from the root.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call6, call8
from semiring.kernels.cpu.codegen.scalars import plus
from semiring.kernels.cpu.elimination.triangular_solve import dot

_WIDE = 8  # with at least this many vectors, a panel is read once for all of them


@kernel
def find_lowest_common(tails, heads, supernode_of, parents):
    """Return the lowest supernode that holds or is above both places of each pair, int32, or -1 if there is none."""
    ancestors = np.empty(tails.size, np.int32)
    for e in range(tails.size):
        s, t = supernode_of[tails[e]], supernode_of[heads[e]]
        while s != t and s >= 0 and t >= 0:  # parents come after their children
            if s < t:
                s = parents[s]
            else:
                t = parents[t]
        ancestors[e] = s if s == t else -1
    return ancestors


@inner
def _list_supernodes(places, supernode_of, parents, size):
    """List the supernodes of the ``places`` (r,), sorted, and all their ancestors.

    Return four arrays: a mark (size,) of each supernode, -1 if it is not in the list; the first place (size,) at or
    below it; the number of places (size,) from there to the last one; and the listed supernodes in ascending order.
    """
    mark, low, counts = np.full(size, -1), np.empty(size, np.int64), np.empty(size, np.int64)
    count = 0
    for c in range(places.size):
        s = supernode_of[places[c]]
        while s >= 0:
            if mark[s] < 0:
                mark[s], low[s] = 0, c
                count += 1
            counts[s] = c - low[s] + 1
            s = parents[s]
    nodes, fill = np.empty(count, np.int64), 0
    for c in range(places.size):
        s = supernode_of[places[c]]
        while s >= 0 and mark[s] == 0:
            mark[s] = 1
            nodes[fill] = s
            fill += 1
            s = parents[s]
    nodes.sort()
    return mark, low, counts, nodes


@kernel
def climb(
    fold_across,
    fold_along,
    ordinals,
    places,
    limits,
    is_closed,
    tree,
    memory,
    up_panels,
    blocks,
    heights,
    zero,
    one,
    label_starts,
    label,
):
    """Compute the labels of the ``places`` (r,), sorted, at the supernodes from ``limits`` (r,) up to the roots.

    ``label`` receives the labels of place number c from label_starts[c] on, by supernode from the root down. heights[s]
    is the number of pivots above a supernode. ``is_closed``: whether labels are multiplied by S from the right.
    ``fold_across``, ``fold_along`` and ``up_panels`` are attributes of `TriangularSolves`.
    """
    supernode_of, parents, pivot_starts, row_starts, rows = tree
    r, each = places.size, label.itemsize
    start, low, counts, nodes = _list_supernodes(places, supernode_of, parents, pivot_starts.size)
    size, depth, width = 0, 1, 1
    for s in nodes:
        start[s] = size
        size += pivot_starts[s + 1] - pivot_starts[s]
        width, depth = max(width, pivot_starts[s + 1] - pivot_starts[s]), max(depth, row_starts[s + 1] - row_starts[s])
    X = np.full((size, r), zero, label.dtype)
    work, vector = np.empty((max(depth, width), r), label.dtype), np.empty(width, label.dtype)
    target = np.empty(depth, np.int64)
    line, base, numbers, copy = r * each, address(X), address(memory), address(work)
    for c in range(r):
        s = supernode_of[places[c]]
        X[start[s] + places[c] - pivot_starts[s], c] = one
    for s in nodes:
        k, a, m = pivot_starts[s + 1] - pivot_starts[s], row_starts[s], row_starts[s + 1] - row_starts[s]
        for j in range(m):
            ancestor = supernode_of[rows[a + j]]
            target[j] = start[ancestor] + rows[a + j] - pivot_starts[ancestor]
        own, panel, block = base + start[s] * line + low[s] * each, numbers + up_panels[s] * each, blocks[s] * each
        lowest = s + 1
        for c in range(low[s], low[s] + counts[s]):
            lowest = min(lowest, limits[c])
        closes = is_closed and lowest <= s
        if counts[s] >= _WIDE:
            for j in range(m):
                cell = base + target[j] * line + low[s] * each
                call8(fold_across, (cell, counts[s], own, line, ordinals, k, panel + j * each, m * each))
            if closes:
                for j in range(k):
                    for c in range(counts[s]):
                        work[j, c] = zero
                    factors = numbers + block + j * each
                    call8(fold_across, (copy + j * line, counts[s], own, line, ordinals, k, factors, k * each))
                for j in range(k):
                    for c in range(counts[s]):
                        X[start[s] + j, low[s] + c] = work[j, c]
        else:
            flat = work.reshape(-1)
            for c in range(low[s], low[s] + counts[s]):
                for i in range(k):
                    vector[i] = X[start[s] + i, c]
                for j in range(m):
                    flat[j] = X[target[j], c]
                call8(fold_along, (copy, m, panel, m * each, ordinals, k, address(vector), each))
                for j in range(m):
                    X[target[j], c] = flat[j]
                if closes and limits[c] <= s:
                    for j in range(k):
                        flat[j] = zero
                    call8(fold_along, (copy, k, numbers + block, k * each, ordinals, k, address(vector), each))
                    for j in range(k):
                        X[start[s] + j, c] = flat[j]
        for c in range(low[s], low[s] + counts[s]):
            if limits[c] <= s:
                for i in range(k):
                    label[label_starts[c] + heights[s] + i] = X[start[s] + i, c]


@kernel
def join_labels(sr, x, x_at, y, y_at, lengths, zero, out):
    """Set out[e] to the sum of products of ``lengths[e]`` entries of two labels, which begin at x_at[e] and y_at[e]."""
    for e in range(out.size):
        out[e] = dot(sr, zero, x[x_at[e] :], y, y_at[e], lengths[e])


@inner
def _mark_ancestors(s, places, more_places, number, lows, pivot_starts, row_starts, rows):
    """Set number[u] ← 0 for the places below supernode s on a path in the tree from a listed place to s, else -1.

    The listed places are ``places`` and ``more_places``.
    """
    end = pivot_starts[s]
    for u in range(pivot_starts[lows[s]], end):
        number[u] = -1
    for vertices in (places, more_places):
        for u in vertices:
            if u < end:
                number[u] = 0
    for q in range(lows[s], s):
        for u in range(pivot_starts[q], pivot_starts[q + 1]):
            if number[u] == 0:
                for j in range(row_starts[q], row_starts[q + 1]):
                    if rows[j] >= end:
                        break
                    number[rows[j]] = 0
                break


@kernel
def count_operations(nodes, starts, stops, tails, heads, is_shared, lows, pivot_starts, row_starts, rows):
    """Return how many pairs of ⊗ and ⊕ `join_columns` takes to find the labels for each supernode, int64."""
    result, number = np.zeros(nodes.size, np.int64), np.empty(pivot_starts[-1], np.int32)
    for e in range(nodes.size):
        s = nodes[e]
        tails_of_node, heads_of_node = tails[starts[e] : stops[e]], heads[starts[e] : stops[e]]
        for side in range(1 if is_shared else 2):
            if side == 1:
                tails_of_node = heads_of_node
            others = heads_of_node if is_shared else tails_of_node[:0]
            _mark_ancestors(s, tails_of_node, others, number, lows, pivot_starts, row_starts, rows)
            for q in range(lows[s], s):
                count, m = 0, 0
                for u in range(pivot_starts[q], pivot_starts[q + 1]):
                    count += number[u] == 0
                if count:
                    while m < row_starts[q + 1] - row_starts[q] and rows[row_starts[q] + m] < pivot_starts[s + 1]:
                        m += 1
                result[e] += count * m
        result[e] *= pivot_starts[s + 1] - pivot_starts[s]
    return result


@inner
def _round_up(width, lanes):
    """Return the least multiple of ``lanes`` that is at least ``width``."""
    return (width + lanes - 1) // lanes * lanes


@inner
def _label_places(fold, lanes, s, left, right, is_closed, number, index, tree, memory, blocks, up_panels, zero, one, X):
    """Set X to the labels of the places that ``number`` marks, at the pivots left … right - 1 of supernode s.

    ``number`` becomes the row of each label in X; the labels of the pivots come first. ``is_closed``: whether labels
    are multiplied by S.
    """
    lows, pivot_starts, row_starts, rows = tree
    first, k, width, each = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s], right - left, X.itemsize
    line, base, numbers, span = X.shape[1] * each, address(X), address(memory), _round_up(width, lanes)
    for i in range(k):
        number[first + i] = i
        for c in range(width):
            if is_closed:
                X[i, c] = memory[blocks[s] + i * k + left + c]
            else:
                X[i, c] = one if i == left + c else zero
        for c in range(width, span):
            X[i, c] = zero
    size = k
    for q in range(s - 1, lows[s] - 1, -1):
        a, m, earlier_rows, count = row_starts[q], row_starts[q + 1] - row_starts[q], 0, -1
        for u in range(pivot_starts[q + 1] - 1, pivot_starts[q] - 1, -1):
            if number[u] < 0:
                continue
            if count < 0:
                count = 0
                while count < m and rows[a + count] < first + k:
                    index[count] = number[rows[a + count]]
                    earlier_rows += rows[a + count] < first
                    count += 1
            number[u] = size
            label, panel = X[size], up_panels[q] + (u - pivot_starts[q]) * m
            for c in range(span):
                label[c] = zero
            if not is_closed:
                for j in range(earlier_rows, count):
                    if left <= index[j] < right:
                        label[index[j] - left] = memory[panel + j]
            folded = count if is_closed else earlier_rows
            cell = base + size * line
            call8(fold, (cell, width, base, line, address(index), folded, numbers + panel * each, each))
            size += 1


@kernel
def join_columns(
    items,
    folds,
    dots,
    lanes,
    tails,
    heads,
    numbers,
    index,
    tree,
    memory,
    blocks,
    up_panels,
    is_shared,
    zero,
    one,
    X,
    Y,
    out,
):
    """Write the contribution of some pivots of a supernode to A* between pairs of places below it.

    Each item is (s, left, right, start, stop, place). It stands for the pivots left … right - 1 of supernode s, and the
    pairs start … stop - 1. Their sums are written to ``out`` from ``place`` on. ``folds`` and ``up_panels``:
    ``fold_along`` and ``up_panels`` of the `TriangularSolves` of rows and of columns. ``dots``, ``lanes``: see
    `gathered_rows.dots_for`. ``is_shared``: whether A is symmetric and ⊕ selects. Then S ⊗ S = S, one label serves both
    sides, and Y is not used.
    ``numbers`` (2, n) int32, ``index`` (depth,) int32, ``X`` and ``Y`` (places below s, columns): workspace.
    """
    lows, pivot_starts, row_starts, rows = tree
    x_number, y_number = numbers[0], numbers[0] if is_shared else numbers[1]
    each = X.itemsize
    line, x, y = X.shape[1] * each, address(X), address(X) if is_shared else address(Y)
    for e in range(len(items)):
        s, left, right, start, stop, place = items[e]
        own_tails, own_heads = tails[start:stop], heads[start:stop]
        _mark_ancestors(
            s, own_tails, own_heads if is_shared else own_heads[:0], x_number, lows, pivot_starts, row_starts, rows
        )
        _label_places(
            folds[0], lanes, s, left, right, True, x_number, index, tree, memory, blocks, up_panels[0], zero, one, X
        )
        if not is_shared:
            _mark_ancestors(s, own_heads, own_heads[:0], y_number, lows, pivot_starts, row_starts, rows)
            _label_places(
                folds[1],
                lanes,
                s,
                left,
                right,
                False,
                y_number,
                index,
                tree,
                memory,
                blocks,
                up_panels[1],
                zero,
                one,
                Y,
            )
        steps = _round_up(right - left, lanes)
        for q in range(stop - start):
            out[place + q] = zero
            labels = x + x_number[own_tails[q]] * line, line, y + y_number[own_heads[q]] * line
            call6(dots, (1, steps, *labels, address(out) + (place + q) * each))


@kernel
def add_parts(sr, items, parts, zero, out):
    """Set ``out`` to the sum, for each pair, of the results of the items of `join_columns`, in their order."""
    for e in range(out.size):
        out[e] = zero
    for i in range(len(items)):
        start, stop, place = items[i, 3], items[i, 4], items[i, 5]
        for e in range(start, stop):
            out[e] = plus(sr, out[e], parts[place + e - start])
