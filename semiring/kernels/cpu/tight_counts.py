"""Count the best paths of all pairs: the paths over tight edges, from each source.

An edge p → j is tight in a row if D[i, p] ⊗ w(p, j) = D[i, j]. The tight edges of a row are listed first. Then a search
in depth adds up the counts of the tails of each vertex. Cost: the number of candidate edges for each row.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring, times
from semiring.kernels.cpu.thread_pool import run_on_ranges

_NEW, _OPEN, _DONE = range(3)
OVERFLOW, CIRCLE = 1, 2  # the reasons why a row has no counts


@inner
def _is_tight(value, goal, x, w, rtol, is_relative):
    if value == goal:
        return True
    if rtol == 0:
        return False
    size = np.abs(value) if is_relative else np.abs(x) + np.abs(w)
    return np.abs(np.float64(value) - np.float64(goal)) <= rtol * max(np.float64(size), np.float64(np.abs(goal)))


@kernel
def _count_rows(sr, rows, roots, starts, tails, weights, zero, rtol, is_relative, counts, start, stop):
    """Write the counts of some rows. Return the first row that has none, a vertex, and the reason, or (-1, 0, 0)."""
    n = rows.shape[1]
    found, ends = np.empty(tails.size, np.int32), np.empty(n + 1, np.int64)
    state, place, stack = np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int32)
    for r in range(start, stop):
        row, root, own = rows[r], roots[r], counts[r]
        size = 0
        ends[0] = 0
        for j in range(n):
            goal = row[j]
            if goal != zero:
                for e in range(starts[j], starts[j + 1]):
                    x = row[tails[e]]
                    if x != zero and _is_tight(times(sr, x, weights[e]), goal, x, weights[e], rtol, is_relative):
                        found[size] = tails[e]
                        size += 1
            ends[j + 1] = size
        for j in range(n):
            state[j], place[j], own[j] = _NEW, ends[j], 0
        if ends[root + 1] > ends[root]:
            return r, root, CIRCLE
        state[root], own[root] = _DONE, 1
        for first in range(n):
            if state[first] != _NEW:
                continue
            stack[0], depth, state[first] = first, 1, _OPEN
            while depth:
                v = stack[depth - 1]
                if place[v] == ends[v + 1]:
                    state[v] = _DONE
                    depth -= 1
                    if depth:
                        u = stack[depth - 1]
                        own[u] += own[v]
                        if own[u] < 0:
                            return r, u, OVERFLOW
                    continue
                p = found[place[v]]
                place[v] += 1
                if state[p] == _DONE:
                    own[v] += own[p]
                    if own[v] < 0:
                        return r, v, OVERFLOW
                elif state[p] == _OPEN:
                    return r, p, CIRCLE
                else:
                    state[p], stack[depth] = _OPEN, p
                    depth += 1
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
    starts, tails, weights = edges

    def count(start: int, stop: int) -> None:
        arguments = rows, roots, starts, tails, weights, zero, rtol, is_relative, counts
        result: Any = _count_rows(sr, *arguments, start, stop)
        failed.append(result)

    run_on_ranges(count, len(rows), -(-len(rows) // (4 * plan.threads)), plan.threads, reports=True)
    return min((each for each in failed if each[0] >= 0), default=(-1, 0, 0))
