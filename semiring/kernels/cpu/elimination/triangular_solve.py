"""Triangular solves with a sparse factor.

X (n, r) holds r vectors side by side, its rows in the order of elimination. The loops solve x = x ⊗ A ⊕ b. Their
``up_panels`` and ``down_panels`` are the starts of the blocks R and Tᵀ of the supernodes (`numeric` defines them). For
x = A ⊗ x ⊕ b the two are exchanged, and ⊗ is the opposite ⊗.

Cost: for each vector twice the entries of the factor. If only few entries of a vector are not 0̄, the first solve reads
only the panels of the supernodes above these entries in the tree.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call8
from semiring.kernels.cpu.codegen.scalars import accumulate, plus, times


@inner
def dot(sr, value, x, y, offset, count):
    """Return value ⊕ the sum of x[j] ⊗ y[offset + j] over j < count.

    Eight independent partial sums are accumulated if count ≥ 8.
    """
    if count < 8:
        for j in range(count):
            value = accumulate(sr, value, x[j], y[offset + j])
        return value
    v0 = accumulate(sr, value, x[0], y[offset])
    v1, v2, v3 = times(sr, x[1], y[offset + 1]), times(sr, x[2], y[offset + 2]), times(sr, x[3], y[offset + 3])
    v4, v5, v6 = times(sr, x[4], y[offset + 4]), times(sr, x[5], y[offset + 5]), times(sr, x[6], y[offset + 6])
    v7 = times(sr, x[7], y[offset + 7])
    j = 8
    while j + 8 <= count:
        v0 = accumulate(sr, v0, x[j], y[offset + j])
        v1 = accumulate(sr, v1, x[j + 1], y[offset + j + 1])
        v2 = accumulate(sr, v2, x[j + 2], y[offset + j + 2])
        v3 = accumulate(sr, v3, x[j + 3], y[offset + j + 3])
        v4 = accumulate(sr, v4, x[j + 4], y[offset + j + 4])
        v5 = accumulate(sr, v5, x[j + 5], y[offset + j + 5])
        v6 = accumulate(sr, v6, x[j + 6], y[offset + j + 6])
        v7 = accumulate(sr, v7, x[j + 7], y[offset + j + 7])
        j += 8
    while j < count:
        v0 = accumulate(sr, v0, x[j], y[offset + j])
        j += 1
    v0, v1, v2, v3 = plus(sr, v0, v4), plus(sr, v1, v5), plus(sr, v2, v6), plus(sr, v3, v7)
    return plus(sr, plus(sr, v0, v2), plus(sr, v1, v3))


@kernel
def ascend(
    fold, ordinals, x, source, supernode_of, parents, pivot_starts, row_starts, rows, memory, up_panels, zero, depth
):
    """Compute the first triangular solve for one vector x (n,), from every pivot to the rows below it in the factor.

    ``source``: the only place where x is not 0̄, or -1. No supernode has more than ``depth`` rows.
    """
    work, each = np.empty(depth, x.dtype), x.itemsize
    count = pivot_starts.size - 1
    s = supernode_of[source] if source >= 0 else 0
    while 0 <= s < count:
        first, k = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s]
        a, m = row_starts[s], row_starts[s + 1] - row_starts[s]
        silent = True
        for i in range(k):
            silent &= x[first + i] == zero
        if not silent:
            for j in range(m):
                work[j] = x[rows[a + j]]
            panel = address(memory) + up_panels[s] * each
            call8(fold, (address(work), m, panel, m * each, ordinals, k, address(x) + first * each, each))
            for j in range(m):
                x[rows[a + j]] = work[j]
        s = parents[s] if source >= 0 else s + 1


@kernel
def descend(
    sr, x, nodes, pivot_starts, row_starts, rows, memory, blocks, down_panels, is_transposed, zero, depth, width
):
    """Compute the second triangular solve for one vector, over supernodes that each come before their children.

    ``is_transposed``: whether S is read by columns. No supernode has more than ``depth`` rows and ``width`` pivots.
    """
    work, pivots = np.empty(depth, x.dtype), np.empty(width, x.dtype)
    for s in nodes:
        first, k = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s]
        a, m = row_starts[s], row_starts[s + 1] - row_starts[s]
        silent = True
        for i in range(k):
            pivots[i] = x[first + i]
            silent &= pivots[i] == zero
        if not silent:
            for i in range(k):
                x[first + i] = zero
            for i in range(k):
                row_start = blocks[s] + i * k
                if is_transposed:
                    x[first + i] = dot(sr, zero, pivots, memory, row_start, k)
                elif pivots[i] != zero:
                    for j in range(k):
                        x[first + j] = accumulate(sr, x[first + j], pivots[i], memory[row_start + j])
        for j in range(m):
            work[j] = x[rows[a + j]]
        for i in range(k):
            x[first + i] = dot(sr, x[first + i], work, memory, down_panels[s] + i * m, m)


@kernel
def solve_vectors(
    fold,
    ordinals,
    X,
    is_active,
    pivot_starts,
    row_starts,
    rows,
    memory,
    blocks,
    up_panels,
    down_panels,
    is_transposed,
    zero,
    max_pivots,
):
    """Compute X ← (Xᵀ ⊗ A*)ᵀ, (n, r) with contiguous rows. ``fold``, ``ordinals``: see `gathered_rows`.

    ``is_active`` (supernodes,) bool marks the supernodes with an entry other than 0̄ in X, at them or below them in the
    tree. X is not read at unmarked supernodes. No supernode has more than ``max_pivots`` pivots.
    """
    width = X.shape[1]
    work = np.empty((max_pivots, width), X.dtype)
    each, base, numbers, copy, list_ = X.itemsize, address(X), address(memory), address(work), address(rows)
    line, count = width * each, pivot_starts.size - 1
    for s in range(count):
        if is_active[s]:
            first, k = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s]
            a, m = row_starts[s], row_starts[s + 1] - row_starts[s]
            own, panel = base + first * line, numbers + up_panels[s] * each
            for j in range(m):
                call8(fold, (base + rows[a + j] * line, width, own, line, ordinals, k, panel + j * each, m * each))
    for s in range(count - 1, -1, -1):
        first, k = pivot_starts[s], pivot_starts[s + 1] - pivot_starts[s]
        a, m = row_starts[s], row_starts[s + 1] - row_starts[s]
        own, panel, block = base + first * line, numbers + down_panels[s] * each, numbers + blocks[s] * each
        if is_active[s]:
            for i in range(k):
                for c in range(width):
                    work[i, c] = X[first + i, c]
                    X[first + i, c] = zero
            for j in range(k):
                factors = block + (j * k if is_transposed else j) * each
                step = each if is_transposed else k * each
                call8(fold, (own + j * line, width, copy, line, ordinals, k, factors, step))
        else:
            for i in range(k):
                for c in range(width):
                    X[first + i, c] = zero
        for i in range(k):
            call8(fold, (own + i * line, width, base, line, list_ + 4 * a, m, panel + i * m * each, each))


@kernel
def set_unit_vectors(X, places, is_active, supernode_of, parents, pivot_starts, zero, one):
    """Set X to the unit vectors of the places (r,), one vector a column, and ``is_active``, for `solve_vectors`."""
    for c in range(places.size):
        s = supernode_of[places[c]]
        while s >= 0 and not is_active[s]:
            is_active[s] = True
            for i in range(pivot_starts[s], pivot_starts[s + 1]):
                for d in range(places.size):
                    X[i, d] = zero
            s = parents[s]
    for c in range(places.size):
        X[places[c], c] = one


@kernel
def worst_of_rows(sr, X, out):
    """Set out[c] to the entry of X (n, r) in column c that ⊕ selects last, for a ⊕ that selects; n > 0."""
    width = X.shape[1]
    for c in range(width):
        out[c] = X[0, c]
    for i in range(1, X.shape[0]):
        for c in range(width):
            value = X[i, c]
            out[c] = value if plus(sr, out[c], value) == out[c] else out[c]


@kernel
def scatter_rows(X, place, output_rows, out):
    """Set out[output_rows[c], v] ← X[place[v], c] for every vertex v; X (n, r), output_rows (r,)."""
    n, r = place.size, output_rows.size
    for first in range(0, r, 16):  # the lines that are written at a time
        for start in range(0, n, 64):
            stop = min(n, start + 64)
            for c in range(first, min(r, first + 16)):
                line = out[output_rows[c]]
                for v in range(start, stop):
                    line[v] = X[place[v], c]


@kernel
def gather_columns(B, order, X):
    """Set X[i, c] ← B[order[i], c]. B is (n, r)."""
    for i in range(X.shape[0]):
        for c in range(B.shape[1]):
            X[i, c] = B[order[i], c]


@kernel
def compute_labels(
    fold,
    ordinals,
    places,
    low,
    supernode_of,
    pivot_starts,
    row_starts,
    rows,
    memory,
    up_panels,
    label_starts,
    counts,
    zero,
    one,
    label,
):
    """Compute the labels of the ``places`` (r,), sorted, at all pivots above them in the tree, by one upward sweep.

    ``label`` receives for each supernode s a matrix (pivots of s, counts[s]) in C order, from label_starts[s] on.
    Its columns are the places low[s] … low[s] + counts[s] - 1, which lie in the subtree of s.
    """
    each, base, numbers = label.itemsize, address(label), address(memory)
    for cell in range(label.size):
        label[cell] = zero
    for c in range(places.size):
        s = supernode_of[places[c]]
        label[label_starts[s] + (places[c] - pivot_starts[s]) * counts[s] + c - low[s]] = one
    for s in range(pivot_starts.size - 1):
        width = counts[s]
        if width == 0:
            continue
        k, a, m = pivot_starts[s + 1] - pivot_starts[s], row_starts[s], row_starts[s + 1] - row_starts[s]
        own, panel = base + label_starts[s] * each, numbers + up_panels[s] * each
        for j in range(m):
            ancestor = supernode_of[rows[a + j]]
            cell = label_starts[ancestor] + (rows[a + j] - pivot_starts[ancestor]) * counts[ancestor]
            cell += low[s] - low[ancestor]
            line = width * each
            call8(fold, (base + cell * each, width, own, line, ordinals, k, panel + j * each, m * each))


@kernel
def add_joined_labels(sr, X, S, Y, zero, work, out):
    """Add Xᵀ ⊗ S ⊗ Y to out, for X (k, p), S (k, k), Y (k, q), out (p, q); ``work`` (k, q)."""
    k, p = X.shape
    q = Y.shape[1]
    for i in range(k):
        for c in range(q):
            work[i, c] = zero
        for a in range(k):
            value = S[i, a]
            for c in range(q):
                work[i, c] = accumulate(sr, work[i, c], value, Y[a, c])
    for r in range(p):
        line = out[r]
        for i in range(k):
            value = X[i, r]
            if value != zero:
                for c in range(q):
                    line[c] = accumulate(sr, line[c], value, work[i, c])


@kernel
def sweep_acyclic(sr, X, order, starts, indices, values):
    """Compute X ← A* ⊗ X for a matrix without cycles in compressed rows; ``order``: heads before tails."""
    width = X.shape[1]
    for i in order:
        line = X[i]
        for e in range(starts[i], starts[i + 1]):
            value, other = values[e], X[indices[e]]
            for c in range(width):
                line[c] = accumulate(sr, line[c], value, other[c])
