"""Sweeps through a factor: what a sparse elimination was done for.

X (n, r) holds r vectors side by side, its rows in the order of elimination. ``towards`` and ``back`` are where the
blocks R and Tᵀ of the supernodes begin (`numbers` beside this says what they are), or Tᵀ and R for x = A ⊗ x ⊕ b, under
the opposite ⊗ then: the loops are those of rows, x = x ⊗ A ⊕ b.

Cost: for each vector twice the entries of the factor; of that for which only few entries are not 0̄, the first sweep
costs what lies above these in the tree.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np
from numba import njit

from semiring.kernels.cpu.codegen.scalars import accumulate, plus, times
from semiring.kernels.cpu.elimination.structure import kernel

__all__ = ["ascend", "descend", "gather_columns", "join", "labels", "rows_at_once", "scatter_rows", "sweep_acyclic"]

_inner = njit(nogil=True, error_model="numpy")


@_inner
def _dot(sr, value, x, y, at, count):
    """The sum of value and x[j] ⊗ y[at + j] over j < count, as eight sums side by side."""
    if count < 8:
        for j in range(count):
            value = accumulate(sr, value, x[j], y[at + j])
        return value
    v0 = accumulate(sr, value, x[0], y[at])
    v1, v2, v3 = times(sr, x[1], y[at + 1]), times(sr, x[2], y[at + 2]), times(sr, x[3], y[at + 3])
    v4, v5, v6 = times(sr, x[4], y[at + 4]), times(sr, x[5], y[at + 5]), times(sr, x[6], y[at + 6])
    v7 = times(sr, x[7], y[at + 7])
    j = 8
    while j + 8 <= count:
        v0 = accumulate(sr, v0, x[j], y[at + j])
        v1 = accumulate(sr, v1, x[j + 1], y[at + j + 1])
        v2 = accumulate(sr, v2, x[j + 2], y[at + j + 2])
        v3 = accumulate(sr, v3, x[j + 3], y[at + j + 3])
        v4 = accumulate(sr, v4, x[j + 4], y[at + j + 4])
        v5 = accumulate(sr, v5, x[j + 5], y[at + j + 5])
        v6 = accumulate(sr, v6, x[j + 6], y[at + j + 6])
        v7 = accumulate(sr, v7, x[j + 7], y[at + j + 7])
        j += 8
    while j < count:
        v0 = accumulate(sr, v0, x[j], y[at + j])
        j += 1
    v0, v1, v2, v3 = plus(sr, v0, v4), plus(sr, v1, v5), plus(sr, v2, v6), plus(sr, v3, v7)
    return plus(sr, plus(sr, v0, v2), plus(sr, v1, v3))


@kernel
def ascend(sr, x, source, of, above, firsts, begins, rows, memory, towards, zero, depth):
    """The first sweep for one vector x (n,): from every pivot to the rows below it in the factor.

    ``source``: the only place where x is not 0̄, or -1. No supernode has more than ``depth`` rows.
    """
    work = np.empty(depth, x.dtype)
    count = firsts.size - 1
    s = of[source] if source >= 0 else 0
    while 0 <= s < count:
        first, k, a, m = firsts[s], firsts[s + 1] - firsts[s], begins[s], begins[s + 1] - begins[s]
        gathered = False
        for i in range(k):
            value, at = x[first + i], towards[s] + i * m
            if value != zero:
                if not gathered:
                    for j in range(m):
                        work[j] = x[rows[a + j]]
                    gathered = True
                for j in range(m):
                    work[j] = accumulate(sr, work[j], value, memory[at + j])
        if gathered:
            for j in range(m):
                x[rows[a + j]] = work[j]
        s = above[s] if source >= 0 else s + 1


@kernel
def descend(sr, x, nodes, firsts, begins, rows, memory, blocks, back, turned, zero, depth, width):
    """The second sweep for one vector, over supernodes of which none comes after its children.

    ``turned``: whether S is to be read by columns. No supernode has more than ``depth`` rows and ``width`` pivots.
    """
    work, pivots = np.empty(depth, x.dtype), np.empty(width, x.dtype)
    for s in nodes:
        first, k, a, m = firsts[s], firsts[s + 1] - firsts[s], begins[s], begins[s + 1] - begins[s]
        silent = True
        for i in range(k):
            pivots[i] = x[first + i]
            silent &= pivots[i] == zero
        if not silent:
            for i in range(k):
                x[first + i] = zero
            for i in range(k):
                at = blocks[s] + i * k
                if turned:
                    x[first + i] = _dot(sr, zero, pivots, memory, at, k)
                elif pivots[i] != zero:
                    for j in range(k):
                        x[first + j] = accumulate(sr, x[first + j], pivots[i], memory[at + j])
        for j in range(m):
            work[j] = x[rows[a + j]]
        for i in range(k):
            x[first + i] = _dot(sr, x[first + i], work, memory, back[s] + i * m, m)


@_inner
def _gathered(sr, out, factors, f, step, count, X, rows, a, width):
    """out[:width] ⊕= ⊕ over j < count of X[rows[a + j]] ⊗ factors[f + j·step]."""
    j = 0
    while j + 4 <= count:
        c0, c1, c2, c3 = factors[f], factors[f + step], factors[f + 2 * step], factors[f + 3 * step]
        x0, x1, x2, x3 = X[rows[a + j]], X[rows[a + j + 1]], X[rows[a + j + 2]], X[rows[a + j + 3]]
        for c in range(width):
            v = accumulate(sr, out[c], x0[c], c0)
            v = accumulate(sr, v, x1[c], c1)
            v = accumulate(sr, v, x2[c], c2)
            out[c] = accumulate(sr, v, x3[c], c3)
        j += 4
        f += 4 * step
    while j < count:
        c0, x0 = factors[f], X[rows[a + j]]
        for c in range(width):
            out[c] = accumulate(sr, out[c], x0[c], c0)
        j += 1
        f += step


@_inner
def _product(sr, out, X, first, k, factors, f, step, width):
    """out[:width] ⊕= ⊕ over i < k of X[first + i] ⊗ factors[f + i·step]."""
    i = 0
    while i + 4 <= k:
        c0, c1, c2, c3 = factors[f], factors[f + step], factors[f + 2 * step], factors[f + 3 * step]
        x0, x1, x2, x3 = X[first + i], X[first + i + 1], X[first + i + 2], X[first + i + 3]
        for c in range(width):
            v = accumulate(sr, out[c], x0[c], c0)
            v = accumulate(sr, v, x1[c], c1)
            v = accumulate(sr, v, x2[c], c2)
            out[c] = accumulate(sr, v, x3[c], c3)
        i += 4
        f += 4 * step
    while i < k:
        c0, x0 = factors[f], X[first + i]
        for c in range(width):
            out[c] = accumulate(sr, out[c], x0[c], c0)
        i += 1
        f += step


@kernel
def rows_at_once(sr, X, active, firsts, begins, rows, memory, blocks, towards, back, turned, zero, most):
    """X ← (Xᵀ ⊗ A*)ᵀ, (n, r) with contiguous rows.

    ``active`` (supernodes,) bool: which may hold anything else than 0̄ in X or below them in the tree. No supernode has
    more than ``most`` pivots.
    """
    width = X.shape[1]
    work = np.empty((most, width), X.dtype)
    count = firsts.size - 1
    for s in range(count):
        if active[s]:
            first, k, a, m = firsts[s], firsts[s + 1] - firsts[s], begins[s], begins[s + 1] - begins[s]
            for j in range(m):
                _product(sr, X[rows[a + j]], X, first, k, memory, towards[s] + j, m, width)
    for s in range(count - 1, -1, -1):
        first, k, a, m = firsts[s], firsts[s + 1] - firsts[s], begins[s], begins[s + 1] - begins[s]
        if active[s]:
            for i in range(k):
                for c in range(width):
                    work[i, c] = X[first + i, c]
                    X[first + i, c] = zero
            for j in range(k):
                f, step = (blocks[s] + j * k, 1) if turned else (blocks[s] + j, k)
                _product(sr, X[first + j], work, 0, k, memory, f, step, width)
        for i in range(k):
            _gathered(sr, X[first + i], memory, back[s] + i * m, 1, m, X, rows, a, width)


@kernel
def scatter_rows(X, place, out):
    """out[c, v] ← X[place[v], c] for every vertex v; out (r, n), X (n, ≥ r)."""
    count, n = out.shape
    for start in range(0, n, 64):
        stop = min(n, start + 64)
        for c in range(count):
            for v in range(start, stop):
                out[c, v] = X[place[v], c]


@kernel
def gather_columns(B, order, X):
    """X[i, c] ← B[order[i], c]; B (n, r)."""
    for i in range(X.shape[0]):
        for c in range(B.shape[1]):
            X[i, c] = B[order[i], c]


@kernel
def labels(sr, places, low, of, firsts, begins, rows, memory, towards, begin, held, zero, one, label):
    """What leads from each of the ``places`` (r,), sorted, to all above them in the tree.

    ``label`` holds for each supernode s a matrix (pivots, those of the places that lie in its subtree), C order, at
    begin[s]: from place number low[s] on, held[s] of them.
    """
    for at in range(label.size):
        label[at] = zero
    for c in range(places.size):
        s = of[places[c]]
        label[begin[s] + (places[c] - firsts[s]) * held[s] + c - low[s]] = one
    for s in range(firsts.size - 1):
        width = held[s]
        if width == 0:
            continue
        k, a, m = firsts[s + 1] - firsts[s], begins[s], begins[s + 1] - begins[s]
        own = label[begin[s] : begin[s] + k * width].reshape((k, width))
        for j in range(m):
            up = of[rows[a + j]]
            at = begin[up] + (rows[a + j] - firsts[up]) * held[up] + low[s] - low[up]
            _product(sr, label[at : at + width], own, 0, k, memory, towards[s] + j, m, width)


@kernel
def join(sr, X, S, Y, zero, work, out):
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
    """X ← A* ⊗ X for a matrix without cycles in compressed rows; ``order``: heads before tails."""
    width = X.shape[1]
    for i in order:
        line = X[i]
        for e in range(starts[i], starts[i + 1]):
            value, other = values[e], X[indices[e]]
            for c in range(width):
                line[c] = accumulate(sr, line[c], value, other[c])
