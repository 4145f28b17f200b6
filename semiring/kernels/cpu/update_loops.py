"""Changes of a closure after changes of edges, in place, for a ⊕ that selects.

A better edge u → v improves the pair (i, j) only if it improves (i, v) and (u, j). If it improves j in row i, it also
improves every vertex before j on the path from v. So each row walks through the tree of row v in preorder, and leaves a
subtree whose root does not improve. The work is that of the pairs that improve, and one test for each row.

A worse edge changes only pairs whose best path uses it. In row i these are the vertices below the edge in the tree of
row i. Without predecessors they are those that tight edges reach from it, which may be more. The vertices receive their
best value from vertices outside of this set, and then Dijkstra's algorithm runs in the set. A vertex whose value
improves again returns to the queue, so weights may improve on 1̄.

Values of D are in the caller's encoding, and ⊗ is never applied to 0̄. Each thread writes to rows of its own.

Source: G. Ramalingam, T. Reps, "An incremental algorithm for a generalization of the shortest-path problem",
J. Algorithms 21 (1996). Cost: O(n + changes) for a better edge; O(d log n) for each pair of a worse edge, for d edges
at a vertex.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, Adjacency, Array, KernelPlan
from semiring.kernels.cpu.dijkstra_loops import sift_down, sift_up
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.loops import better, inner, is_interpreted, kernel, times
from semiring.kernels.cpu.numpy_kernels import improve_all_rows
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_on_ranges
from semiring.kernels.cpu.tight_counts import is_tight

_MIN_ROWS = 512  # rows that are tested for a better edge in some 0.05 ms: fewer do not pay for a second thread
_VISITS = 64  # visits of a vertex, on average, after which a repair ends without a result


@kernel
def _list_improved(sr, D, P, u, v, weight, zero):
    """Return the vertices that the edge u → v improves in row u, and for each the position after its subtree.

    The vertices are in preorder of the tree of row v. Without predecessors they ascend, and have no subtrees.
    """
    n = D.shape[0]
    vertices, ends, count = np.empty(n, np.int32), np.empty(n, np.int32), 0
    if P.shape[0] == 0:
        for j in range(n):
            if D[v, j] != zero and better(sr, times(sr, weight, D[v, j]), D[u, j]):
                vertices[count] = j
                count += 1
                ends[count - 1] = count
        return vertices[:count].copy(), ends[:count].copy()
    if better(sr, times(sr, weight, D[v, v]), D[u, v]):
        child, sibling, stack, depth = np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32), 0
        for j in range(n - 1, -1, -1):
            p = P[v, j]
            if j != v and p >= 0 and p < n:  # a tree that is none, in an array of the caller, leads nowhere
                sibling[j] = child[p]
                child[p] = j
        vertices[0], stack[0], count = v, 0, 1
        while depth >= 0:
            x = vertices[stack[depth]]
            j = child[x]
            if j < 0:
                ends[stack[depth]] = count
                depth -= 1
                continue
            child[x] = sibling[j]
            if better(sr, times(sr, weight, D[v, j]), D[u, j]):
                depth += 1
                vertices[count], stack[depth] = j, count
                count += 1
    return vertices[:count].copy(), ends[:count].copy()


@kernel
def _improve_rows(sr, D, P, u, v, weight, zero, vertices, ends, touched, first, last):
    """Improve the rows first … last - 1 by the edge u → v. Return how many pairs improve that were not touched."""
    count = 0
    for i in range(first, last):
        if D[i, u] == zero or i == v:
            continue
        offer = times(sr, D[i, u], weight)
        if not better(sr, offer, D[i, v]):
            continue
        position = 0
        while position < vertices.size:
            j = vertices[position]
            value = times(sr, offer, D[v, j])
            if not better(sr, value, D[i, j]):
                position = ends[position]
                continue
            D[i, j] = value
            if P.shape[0]:
                P[i, j] = u if j == v else P[v, j]
            if touched.shape[0]:
                count += not touched[i, j]
                touched[i, j] = True
            else:
                count += 1
            position += 1
    return count


@inner
def _attains(value, goal, share, slack):
    if share + slack == 0:  # truth values have no difference, and that of unsigned integers may wrap
        return value == goal
    x, y = np.float64(value), np.float64(goal)
    return is_tight(x, y, np.abs(x) + np.abs(y), share, slack)


@inner
def _mark(sr, row, tree, i, edges, tails, heads, weights, zero, share, slack, marks, members):
    """Mark and list the vertices whose best path from i may use one of the edges. Return how many there are."""
    starts, ends, lengths, _, _, _ = edges
    count, position = 0, 0
    for e in range(tails.size):
        u, v = tails[e], heads[e]
        if v == i or marks[v] or row[u] == zero or row[v] == zero:
            continue
        if tree[v] == u if tree.size else _attains(times(sr, row[u], weights[e]), row[v], share, slack):
            marks[v] = True
            members[count] = v
            count += 1
    while position < count:
        x = members[position]
        position += 1
        for e in range(starts[x], starts[x + 1]):
            y = ends[e]
            if y == i or marks[y] or row[y] == zero:
                continue
            if tree.size:
                is_used = tree[y] == x
            else:
                is_used = lengths[e] != zero and _attains(times(sr, row[x], lengths[e]), row[y], share, slack)
            if is_used:
                marks[y] = True
                members[count] = y
                count += 1
    return count


@kernel
def _count_marked(sr, D, P, edges, tails, heads, weights, zero, share, slack, first, last, counts):
    """Write how many vertices `_mark` marks in the rows first … last - 1."""
    n = D.shape[0]
    marks, members, no_tree = np.zeros(n, np.bool_), np.empty(n, np.int32), np.empty(0, np.int32)
    for i in range(first, last):
        tree = P[i] if P.shape[0] else no_tree
        counts[i] = _mark(sr, D[i], tree, i, edges, tails, heads, weights, zero, share, slack, marks, members)
        for k in range(counts[i]):
            marks[members[k]] = False


@inner
def _push(sr, keys, queue, place, size, v, value):
    """Insert a vertex into the queue, or move it forward. Return the size of the queue."""
    slot = place[v]
    if slot < 0:
        slot = size
        size += 1
    sift_up(sr, keys, queue, place, slot, v, value)
    return size


@inner
def _repair_row(sr, row, tree, edges, zero, count, marks, members, keys, queue, place):
    """Find the values of the marked vertices again. Return whether the search ended."""
    starts, ends, lengths, first_in, tails, lengths_in = edges
    size, visits = 0, _VISITS * count
    for k in range(count):
        v = members[k]
        best, before = zero, NO_PREDECESSOR
        for e in range(first_in[v], first_in[v + 1]):
            p = tails[e]
            if not marks[p] and row[p] != zero and lengths_in[e] != zero:
                value = times(sr, row[p], lengths_in[e])
                if better(sr, value, best):
                    best, before = value, p
        row[v] = best
        if tree.size:
            tree[v] = before
        if best != zero:
            size = _push(sr, keys, queue, place, size, v, best)
    while size:
        v = queue[0]
        size -= 1
        if size:
            sift_down(sr, keys, queue, place, size)
        keys[size] = zero
        place[v] = -1
        visits -= 1
        if visits < 0:
            return False
        for e in range(starts[v], starts[v + 1]):
            y = ends[e]
            if not marks[y] or lengths[e] == zero or y == v:
                continue
            value = times(sr, row[v], lengths[e])
            if better(sr, value, row[y]):
                row[y] = value
                if tree.size:
                    tree[y] = v
                size = _push(sr, keys, queue, place, size, y, value)
    return True


@kernel
def _repair_rows(sr, D, P, edges, tails, heads, weights, zero, share, slack, first, last, counts):
    """Repair the rows first … last - 1. Return the pairs that changed and their old values; -1 as row: no result."""
    n, total = D.shape[0], 0
    for i in range(first, last):
        total += counts[i]
    rows, columns, values, changed = np.empty(total, np.int32), np.empty(total, np.int32), np.full(total, zero), 0
    marks, members, no_tree = np.zeros(n, np.bool_), np.empty(n, np.int32), np.empty(0, np.int32)
    keys, queue, place, old = (
        np.full(n + 4, zero),
        np.zeros(n + 4, np.int32),
        np.full(n, -1, np.int32),
        np.full(n, zero),
    )
    for i in range(first, last):
        if counts[i] == 0:
            continue
        row, tree = D[i], P[i] if P.shape[0] else no_tree
        count = _mark(sr, row, tree, i, edges, tails, heads, weights, zero, share, slack, marks, members)
        for k in range(count):
            old[k] = row[members[k]]
        if not _repair_row(sr, row, tree, edges, zero, count, marks, members, keys, queue, place):
            rows[0] = -1
            return rows[:1].copy(), columns[:1].copy(), values[:1].copy()
        for k in range(count):
            v = members[k]
            marks[v] = False
            if row[v] != old[k]:
                rows[changed], columns[changed], values[changed] = i, v, old[k]
                changed += 1
    return rows[:changed].copy(), columns[:changed].copy(), values[:changed].copy()


def list_edges(plan: KernelPlan, A: Array) -> Adjacency:
    """Compute `UpdateKernels.list_edges` of the contract."""
    is_edge = np.not_equal(A, plan.zero)
    np.fill_diagonal(is_edge, False)
    tails, heads = np.nonzero(is_edge)
    weights, heads = A[tails, heads], heads.astype(np.int32)
    starts = np.searchsorted(tails, np.arange(len(A) + 1)).astype(np.int64)
    first, tails, order = elimination_trees.transpose_rows(starts, heads)
    return Adjacency(starts, heads, weights, first, tails, weights[order])


def improve(plan: KernelPlan, D: Array, P: Array, tails: Array, heads: Array, weights: Array, touched: Array) -> int:
    """Compute `UpdateKernels.improve` of the contract."""
    sr, n, counts = ScalarSemiring(plan), D.shape[0], []
    step = max(_MIN_ROWS, -(-n // (4 * plan.threads)))
    for u, v, weight in zip(tails.tolist(), heads.tolist(), weights, strict=True):
        vertices, ends = _list_improved(sr, D, P, u, v, weight, plan.zero)
        if not vertices.size:
            continue
        edge = u, v, weight, plan.zero, vertices, ends, touched
        if is_interpreted():
            counts.append(improve_all_rows(plan, D, P, *edge))
            continue

        def improve_rows(first: int, last: int, edge: Any = edge) -> None:
            counts.append(_improve_rows(sr, D, P, *edge, first, last))

        run_on_ranges(improve_rows, n, step, plan.threads)
    return int(sum(counts))


def count_users(
    plan: KernelPlan,
    D: Array,
    P: Array,
    adjacency: Adjacency,
    tails: Array,
    heads: Array,
    weights: Array,
    tolerance: tuple[float, float],
) -> Array:
    """Compute `UpdateKernels.count_users` of the contract."""
    sr, counts = ScalarSemiring(plan), np.zeros(D.shape[0], np.int64)

    def count(first: int, last: int) -> None:
        _count_marked(sr, D, P, tuple(adjacency), tails, heads, weights, plan.zero, *tolerance, first, last, counts)

    run_on_ranges(count, D.shape[0], max(64, -(-D.shape[0] // (8 * plan.threads))), plan.threads)
    return counts


def repair(
    plan: KernelPlan,
    D: Array,
    P: Array,
    adjacency: Adjacency,
    tails: Array,
    heads: Array,
    weights: Array,
    tolerance: tuple[float, float],
    counts: Array,
    touched: Array,
) -> tuple[Array, Array] | None:
    """Compute `UpdateKernels.repair` of the contract."""
    sr, parts = ScalarSemiring(plan), {}

    def repair_rows(first: int, last: int) -> None:
        if counts[first:last].any():
            parts[first] = _repair_rows(
                *(sr, D, P, tuple(adjacency), tails, heads, weights, plan.zero, *tolerance, first, last, counts)
            )

    run_on_ranges(repair_rows, D.shape[0], max(16, -(-D.shape[0] // (16 * plan.threads))), plan.threads, reports=True)
    found = [parts[first] for first in sorted(parts)]
    if any(part[0].size and part[0][0] < 0 for part in found):
        return None
    empty = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, D.dtype)
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(empty, *found, strict=True))
    pairs = rows.astype(np.int64) * D.shape[1] + columns
    if touched.size:
        touched.reshape(-1)[pairs] = True
    return pairs, values
