"""Numeric factorization: fronts of supernodes, one after the other up the elimination tree (multifrontal method).

The memory of a factor is one array. A supernode has k pivots K and m rows U below it. F is the matrix over all paths
through earlier pivots. For each supernode the array holds three blocks, in C order:

- S (k, k) = F[K, K]*,
- R (k, m) = S ⊗ F[K, U],
- Tᵀ for T (m, k) = F[U, K] ⊗ S.

The *update* of the supernode is F[U, U] ⊕ F[U, K] ⊗ R. It is added to the front of its parent, entry by entry, in the
order of the children. For a symmetric matrix under a commutative ⊗, Tᵀ is R and is not stored, and of updates only the
upper triangle is stored.

Every candidate is added to its entry once, in an order that the structure alone determines. So ⊕ need not be
idempotent, and results are bitwise identical for any number of threads.

Kernels take the ``tree`` of an analysis: pivot_starts, row_starts, rows and parents. They take the ``fronts`` of a
layout: the offsets of the blocks S, R and Tᵀ, and whether the matrix is symmetric.

Sources: B. A. Carré, "An algebra for network routing problems", IMA J. Appl. Math. 7 (1971); R. E. Tarjan, "A unified
approach to path problems", JACM 28 (1981); I. S. Duff, J. K. Reid, "The multifrontal solution of indefinite sparse
symmetric linear equations", ACM TOMS 9 (1983). Cost: `semiring.sparse.symbolic_factor` counts it.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call8
from semiring.kernels.cpu.codegen.scalars import accumulate, diverges, plus, star, times


@kernel
def scatter_values(values, slots, memory):
    """Set memory[slots[e]] ← values[e] where slots[e] ≥ 0."""
    for e in range(slots.size):
        if slots[e] >= 0:
            memory[slots[e]] = values[e]


@inner
def _close_block(sr, memory, s, k, row):
    """Close S (k, k) at memory[s:] in place.

    Return the first pivot without a star, or -1. ``row`` (k,) is workspace.
    """
    for p in range(k):
        row_start = s + p * k
        pivot = memory[row_start + p]
        if diverges(sr, pivot):
            return p
        closed = star(sr, pivot)
        for c in range(k):
            row[c] = times(sr, closed, memory[row_start + c])
        row[p] = closed
        for i in range(k):
            if i != p:
                factor = memory[s + i * k + p]
                o = s + i * k
                memory[o + p] = times(sr, factor, closed)
                for c in range(p):
                    memory[o + c] = accumulate(sr, memory[o + c], factor, row[c])
                for c in range(p + 1, k):
                    memory[o + c] = accumulate(sr, memory[o + c], factor, row[c])
        for c in range(k):
            memory[row_start + c] = row[c]
    return -1


@inner
def _eliminate_front(sr, folds, memory, s, r, t, k, m, is_symmetric, zero, update, u, work):
    """Eliminate the pivots of one front, whose update (m, m) lies at update[u:].

    Return the first pivot without a star, or -1.
    """
    failed = _close_block(sr, memory, s, k, work)
    if failed >= 0 or m == 0:
        return failed
    fold, fold_right, ordinals = folds
    size, each = k * m, memory.itemsize
    line, numbers, copy = m * each, address(memory), address(work)
    for c in range(size):
        work[c] = memory[r + c]
        memory[r + c] = zero
    for i in range(k):
        factors = numbers + (s + i * k) * each
        call8(fold, (numbers + r * each + i * line, m, copy, line, ordinals, k, factors, each))
    if not is_symmetric:
        for c in range(size):
            work[c] = memory[t + c]
            memory[t + c] = zero
        for i in range(k):
            factors = numbers + (s + i) * each
            call8(fold_right, (numbers + t * each + i * line, m, copy, line, ordinals, k, factors, k * each))
    panel, square = numbers + r * each, address(update) + u * each
    for i in range(m):
        start = i * each if is_symmetric else 0
        width = m - i if is_symmetric else m
        call8(fold, (square + i * line + start, width, panel + start, line, ordinals, k, copy + i * each, line))
    return -1


@inner
def _extend_front(sr, memory, s, r, t, k, m, first, is_symmetric, update, u, child, c, rows, a, count, place):
    """Add the update (count, count) of a child to the front of its parent (extend-add).

    The update begins at child[c], and its places at rows[a]. ``place`` holds the column of each of the parent's rows.
    """
    own = 0  # how many of the child's rows are pivots of the parent
    while own < count and rows[a + own] < first + k:
        own += 1
    for i in range(count):
        line = c + i * count
        if i < own:
            x = rows[a + i] - first
            for j in range(i if is_symmetric else 0, own):
                y = rows[a + j] - first
                value = child[line + j]
                cell = s + x * k + y
                memory[cell] = plus(sr, memory[cell], value)
                if is_symmetric and i != j:
                    cell = s + y * k + x
                    memory[cell] = plus(sr, memory[cell], value)
            for j in range(own, count):
                cell = r + x * m + place[rows[a + j]]
                memory[cell] = plus(sr, memory[cell], child[line + j])
        else:
            x = place[rows[a + i]]
            if not is_symmetric:
                for j in range(own):
                    cell = t + (rows[a + j] - first) * m + x
                    memory[cell] = plus(sr, memory[cell], child[line + j])
            for j in range(i if is_symmetric else own, count):
                cell = u + x * m + place[rows[a + j]]
                update[cell] = plus(sr, update[cell], child[line + j])


@inner
def _number_rows(rows, a, m, place):
    for i in range(m):
        place[rows[a + i]] = i


@kernel
def extend(sr, memory, node, tree, fronts, update, child_node, child, place):
    """Add the update ``child`` of the supernode ``child_node`` to the front of its parent ``node`` (extend-add).

    ``place`` (n,) int32 is workspace.
    """
    (pivot_starts, row_starts, rows, _), (blocks, right_panels, below_panels, is_symmetric) = tree, fronts
    first, a, m = pivot_starts[node], row_starts[node], row_starts[node + 1] - row_starts[node]
    b, count = row_starts[child_node], row_starts[child_node + 1] - row_starts[child_node]
    _number_rows(rows, a, m, place)
    s, r, t, k = blocks[node], right_panels[node], below_panels[node], pivot_starts[node + 1] - first
    _extend_front(sr, memory, s, r, t, k, m, first, is_symmetric, update, 0, child, 0, rows, b, count, place)


@kernel
def reduce_front(sr, folds, memory, node, tree, fronts, zero, update):
    """Eliminate the pivots of the supernode ``node``, whose ``update`` holds the sum of the updates of its children.

    Return the place of the first pivot without a star, or -1.
    """
    (pivot_starts, row_starts, _, _), (blocks, right_panels, below_panels, is_symmetric) = tree, fronts
    first, k = pivot_starts[node], pivot_starts[node + 1] - pivot_starts[node]
    m = row_starts[node + 1] - row_starts[node]
    work = np.empty(max(k, k * m), memory.dtype)
    s, r, t = blocks[node], right_panels[node], below_panels[node]
    failed = _eliminate_front(sr, folds, memory, s, r, t, k, m, is_symmetric, zero, update, 0, work)
    return failed if failed < 0 else first + failed


@inner
def _eliminate_open_front(sr, folds, memory, s, r, t, k, m, is_symmetric, zero, update, u, work):
    """Eliminate a front as `_eliminate_front` does, without closing its block, for a semiring whose stars are 1̄.

    Each entry then holds the paths over earlier pivots only.
    """
    for p in range(k):
        if diverges(sr, memory[s + p * k + p]):
            return p
        for i in range(p + 1, k):
            factor = memory[s + i * k + p]
            for j in range(p + 1, k):
                cell = s + i * k + j
                memory[cell] = accumulate(sr, memory[cell], factor, memory[s + p * k + j])
            for j in range(m):
                cell = r + i * m + j
                memory[cell] = accumulate(sr, memory[cell], factor, memory[r + p * m + j])
        if not is_symmetric:
            for i in range(p + 1, k):
                factor = memory[s + p * k + i]
                for j in range(m):
                    cell = t + i * m + j
                    memory[cell] = accumulate(sr, memory[cell], memory[t + p * m + j], factor)
        for i in range(m):
            factor = memory[t + p * m + i]
            for j in range(i if is_symmetric else 0, m):
                cell = u + i * m + j
                update[cell] = accumulate(sr, update[cell], factor, memory[r + p * m + j])
    return -1


@inner
def _eliminate_supernodes(sr, folds, reduce, memory, start, end, tree, fronts, zero, place, stack, work):
    """Eliminate the supernodes start … end - 1, which are whole subtrees, by the function ``reduce``.

    The update of the last root stays at the bottom of the stack. Return the place of the first pivot without a star, or
    -1.
    """
    (pivot_starts, row_starts, rows, parents), (blocks, right_panels, below_panels, is_symmetric) = tree, fronts
    waiting = np.empty(end - start, np.int64)  # the supernodes whose updates lie on the stack
    count, top = 0, 0
    for node in range(start, end):
        first, k = pivot_starts[node], pivot_starts[node + 1] - pivot_starts[node]
        a, m = row_starts[node], row_starts[node + 1] - row_starts[node]
        s, r, t = blocks[node], right_panels[node], below_panels[node]
        base, kids = top, count
        while kids > 0 and parents[waiting[kids - 1]] == node:
            kids -= 1
            size = row_starts[waiting[kids] + 1] - row_starts[waiting[kids]]
            base -= size * size
        own = top
        for e in range(m * m):
            stack[own + e] = zero
        if kids < count:
            _number_rows(rows, a, m, place)
            child_start = base
            for i in range(kids, count):
                b = row_starts[waiting[i]]
                size = row_starts[waiting[i] + 1] - b
                _extend_front(
                    sr, memory, s, r, t, k, m, first, is_symmetric, stack, own, stack, child_start, rows, b, size, place
                )
                child_start += size * size
        failed = reduce(sr, folds, memory, s, r, t, k, m, is_symmetric, zero, stack, own, work)
        if failed >= 0:
            return first + failed
        if own > base:
            for e in range(m * m):
                stack[base + e] = stack[own + e]
        waiting[kids], count, top = node, kids + 1, base + m * m
    return -1


@kernel
def reduce_subtree(sr, folds, memory, start, end, tree, fronts, zero, place, stack, work, out):
    """Eliminate the supernodes start … end - 1, a whole subtree, and write the update of its root to ``out``.

    ``folds``: see `gathered_rows`. ``place`` (n,) int32, ``stack`` for pending updates, and ``work`` are workspace, as
    `semiring.sparse.symbolic_factor` says. Return the place of the first pivot without a star, or -1.
    """
    failed = _eliminate_supernodes(
        sr, folds, _eliminate_front, memory, start, end, tree, fronts, zero, place, stack, work
    )
    for e in range(out.size):
        out[e] = stack[e]
    return failed


@kernel
def reduce_open(sr, memory, tree, fronts, zero, place, stack):
    """Eliminate all supernodes without closing a block, so that S, R and Tᵀ hold F, the paths over earlier pivots.

    All stars of the semiring must be 1̄. Return the place of the first pivot without a star, or -1.
    """
    count = tree[0].size - 1
    return _eliminate_supernodes(
        sr, (0, 0, 0), _eliminate_open_front, memory, 0, count, tree, fronts, zero, place, stack, stack
    )
