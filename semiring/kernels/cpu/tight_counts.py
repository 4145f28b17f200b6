"""Count the best paths of all pairs: the paths over tight edges, from each source.

An edge p → j is tight in a row if D[i, p] ⊗ w(p, j) = D[i, j]. The tight edges of a row are listed first. If they are a
tree along which distances rise, all counts are 1. Otherwise a search in depth adds up the counts of the tails of each
vertex. Cost: the number of candidate edges for each row.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.loops import better, inner, kernel, times
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_on_ranges

_NEW, _OPEN, _DONE = range(3)
OVERFLOW, CYCLE = 1, 2  # the reasons why a row has no counts


@inner
def is_tight(value, goal, size, share, slack):
    """Return whether a sum is ``goal`` up to a rounding error of ``share * size + slack``; 0 for equal numbers only."""
    return (value == goal) | ((share + slack > 0) & (np.abs(value - goal) <= share * size + slack))


@inner
def _add_best_edges(sr, row, j, starts, tails, weights, zero, found, size):
    """Append the tails of the best edges into j, for a vertex where rounding leaves no tight edge."""
    best = zero
    for e in range(starts[j], starts[j + 1]):
        if row[tails[e]] != zero:
            offer = times(sr, row[tails[e]], weights[e])
            if better(sr, offer, best):
                best = offer
    for e in range(starts[j], starts[j + 1]):
        if row[tails[e]] != zero and best != zero and times(sr, row[tails[e]], weights[e]) == best:
            found[size] = tails[e]
            size += 1
    return size


@inner
def _count_in_depth(root, found, ends, state, place, stack, own):
    """Add up the counts of the tails of each vertex. Return a vertex or a length, and the reason of a failure, or 0."""
    n = own.size
    for j in range(n):
        state[j], place[j], own[j] = _NEW, ends[j], 0
    for turn in range(-1, n):
        first = root if turn < 0 else turn
        if state[first] != _NEW:
            continue
        stack[0], depth, state[first] = first, 1, _OPEN
        while depth:
            v = stack[depth - 1]
            if place[v] == ends[v + 1]:
                state[v] = _DONE
                depth -= 1
                if v == root:
                    own[v] = 1
                if depth:
                    u = stack[depth - 1]
                    own[u] += own[v]
                    if own[u] < 0:
                        return u, OVERFLOW
                continue
            p = found[place[v]]
            place[v] += 1
            if state[p] == _DONE:
                own[v] += own[p]
                if own[v] < 0:
                    return v, OVERFLOW
            elif state[p] == _OPEN:
                length = 0
                while length == 0 or stack[depth - length] != p:
                    length += 1
                    own[length - 1] = stack[depth - length]
                return length, CYCLE
            else:
                state[p], stack[depth] = _OPEN, p
                depth += 1
    return 0, 0


@inner
def _is_used(sr, x, w, goal, zero, rtol, is_relative):
    """Return whether an edge of weight w after a distance x attains the distance ``goal``."""
    value = times(sr, x, w)
    length = np.abs(value) if is_relative else np.abs(x) + np.abs(w)
    return (x != zero) & (goal != zero) & is_tight(value, goal, max(length, np.abs(goal)), rtol, rtol - rtol)


@inner
def _arrange_edges(starts, tails, weights):
    """Return the vertices by falling numbers of edges into them, the first, second, … edge of each, and their starts.

    Loops over these edges have neither branches nor sums that wait for each other.
    """
    n = starts.size - 1
    numbers = starts[1:] - starts[:-1]
    most = numbers.max()
    order, places, slots = np.empty(n, np.int32), np.zeros(most + 2, np.int64), np.zeros(most + 1, np.int64)
    for i in range(n):
        places[most - numbers[i] + 1] += 1
    for number in range(most):
        places[number + 1] += places[number]
    for i in range(n):
        order[places[most - numbers[i]]] = i
        places[most - numbers[i]] += 1
    own_tails, own_weights = np.empty_like(tails), np.empty_like(weights)
    size = 0
    for k in range(slots.size - 1):
        for i in range(n):
            if numbers[order[i]] <= k:
                break
            own_tails[size], own_weights[size] = tails[starts[order[i]] + k], weights[starts[order[i]] + k]
            size += 1
        slots[k + 1] = size
    return order, own_tails, own_weights, slots


@inner
def _is_tree(sr, row, root, edges, zero, rtol, is_relative, goals, used):
    """Return whether one tight edge leads to each vertex that is reached, and distances rise along these edges."""
    order, tails, weights, slots = edges
    rises, falls, is_tree = True, True, True
    for i in range(order.size):
        goals[i], used[i] = row[order[i]], 0
    for k in range(slots.size - 1):
        first = slots[k]
        for i in range(slots[k + 1] - first):
            x = row[tails[first + i]]
            use = _is_used(sr, x, weights[first + i], goals[i], zero, rtol, is_relative)
            used[i] += use
            rises &= (not use) | (x < goals[i])
            falls &= (not use) | (x > goals[i])
    for i in range(order.size):
        is_tree &= used[i] == ((goals[i] != zero) & (order[i] != root))
    return is_tree and (rises or falls)


@kernel
def _count_rows(sr, rows, roots, starts, tails, weights, zero, rtol, is_relative, counts, start, stop):
    """Write the counts of some rows. Return the result of `PathKernels.count_paths`."""
    n = rows.shape[1]
    found, ends, used = np.empty(tails.size + 1, np.int32), np.zeros(n + 1, np.int64), np.empty(n, np.int32)
    state, place, stack = np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int32)
    edges, goals = _arrange_edges(starts, tails, weights), np.empty(n, rows.dtype)
    for r in range(start, stop):
        row, root, own = rows[r], roots[r], counts[r]
        if _is_tree(sr, row, root, edges, zero, rtol, is_relative, goals, used):
            for j in range(n):
                own[j] = row[j] != zero
            continue
        size = 0
        for j in range(n):
            first = size
            if row[j] != zero:
                for e in range(starts[j], starts[j + 1]):
                    found[size] = tails[e]
                    size += _is_used(sr, row[tails[e]], weights[e], row[j], zero, rtol, is_relative)
                if size == first and j != root:
                    size = _add_best_edges(sr, row, j, starts, tails, weights, zero, found, size)
            ends[j + 1] = size
        number, reason = _count_in_depth(root, found, ends, state, place, stack, own)
        if reason:
            return r, number, reason
    return -1, 0, 0


def count_paths(
    plan: KernelPlan,
    rows: Array,
    roots: Array,
    edges: tuple[Array, Array, Array],
    zero: Any,
    rtol: float,
    is_relative: bool,
    counts: Array,
) -> tuple[int, int, int]:
    """Compute `PathKernels.count_paths` of the contract."""
    sr, failed = ScalarSemiring(plan), []
    rtol = rows.dtype.type(rtol) if rows.dtype.kind == "f" else rtol
    starts, tails, weights = edges

    def count(start: int, stop: int) -> None:
        arguments = rows, roots, starts, tails, weights, zero, rtol, is_relative, counts
        result: Any = _count_rows(sr, *arguments, start, stop)
        failed.append(result)

    run_on_ranges(count, len(rows), -(-len(rows) // (4 * plan.threads)), plan.threads, reports=True)
    return min((each for each in failed if each[0] >= 0), default=(-1, 0, 0))
