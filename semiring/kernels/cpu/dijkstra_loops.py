"""Dijkstra's algorithm from many vertices, by a queue of four children a vertex.

Each thread searches from some of the sources. The algorithm is correct if ⊕ selects and no edge improves on 1̄, because
then no path improves by an extension. Vertices are settled in the order of their values, each once. A value is added up
from the source on, and rounding keeps the order of sums and products. So the best value does not depend on the order in
which vertices are scanned. Edges are compressed rows. ``place`` of a vertex is its position in the queue, or one of the
two marks below. Keys after the end of the queue are 0̄, so that a vertex always has four children, without a branch
that the processor would have to predict.

Sources: E. W. Dijkstra, Numer. Math. 1 (1959); D. B. Johnson, "Priority queues with update and finding minimum spanning
trees", Inf. Process. Lett. 4 (1975), for queues of more than two children. Cost: O((n + m) log n) a source.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, Array, KernelPlan
from semiring.kernels.cpu import numpy_searches
from semiring.kernels.cpu.loops import as_entries, better, filled, inner, is_interpreted, kernel, times
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_on_ranges

Graph = tuple[Array, Array, Array, bool]

_SOURCES_PER_TASK = 16  # sources that a thread takes at a time, at most
_MIN_THREAD_WORK = 1 << 13  # vertices and edges that one thread searches in some 0.1 ms: fewer do not pay for a second

_NEW, _SETTLED = -1, -2


@inner
def new_workspace(n, zero):
    """Return keys and vertices of the queue, places, the settled vertices in order, values, and predecessors."""
    order, before, place = filled(n, np.int32(0)), filled(n, np.int32(0)), filled(n, np.int32(_NEW))
    return filled(n + 4, zero), filled(n + 4, np.int32(0)), place, order, filled(n, zero), before


@inner
def sift_down(sr, keys, queue, place, size):
    """Remove the first vertex of a queue of size + 1: move its last vertex to the top, and sift it down."""
    key, v, slot, first = keys[size], queue[size], 0, 1
    while first < size:
        a, b, c, d = keys[first], keys[first + 1], keys[first + 2], keys[first + 3]
        second, fourth = better(sr, b, a), better(sr, d, c)
        left = b if second else a
        right = d if fourth else c
        low, high = first + second, first + 2 + fourth
        last = better(sr, right, left)
        least = right if last else left
        child = high if last else low
        if not better(sr, least, key):
            break
        keys[slot], queue[slot] = least, queue[child]
        place[queue[slot]] = slot
        slot, first = child, 4 * child + 1
    keys[slot], queue[slot], place[v] = key, v, slot


@inner
def sift_up(sr, keys, queue, place, slot, v, value):
    """Put a vertex with a better value into the queue, at the place ``slot`` or further in front."""
    while slot > 0:
        parent = (slot - 1) >> 2
        if not better(sr, value, keys[parent]):
            break
        keys[slot], queue[slot] = keys[parent], queue[parent]
        place[queue[slot]] = slot
        slot = parent
    keys[slot], queue[slot], place[v] = value, v, slot


@inner
def search(sr, starts, heads, weights, source, zero, one, limit, targets, target_count, workspace):
    """Settle the vertices no worse than the limit, until ``target_count`` of the ``targets`` are settled.

    Return how many vertices are settled, how many are still in the queue, and whether an edge offered a value that was
    no better, but equal. Values and predecessors of unsettled vertices are undefined.
    """
    keys, queue, place, order, values, before = workspace
    keys[0], queue[0], place[source], values[source], before[source] = one, source, 0, one, NO_PREDECESSOR
    size, settled, has_ties = 1, 0, False
    while size and not better(sr, limit, keys[0]):
        key, v = keys[0], queue[0]
        size -= 1
        if size:
            sift_down(sr, keys, queue, place, size)
        keys[size] = zero
        place[v], order[settled] = _SETTLED, v
        settled += 1
        if targets[v]:
            target_count -= 1
            if not target_count:
                break
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            value = times(sr, key, weights[e])
            if not better(sr, value, values[u]):
                has_ties |= value == values[u]
                continue
            slot = place[u]
            if slot == _SETTLED:
                continue
            values[u], before[u] = value, v
            if slot == _NEW:
                slot = size
                size += 1
            sift_up(sr, keys, queue, place, slot, u, value)
    return settled, size, has_ties


@inner
def reset_workspace(workspace, settled_count, size, zero):
    """Reset the workspace after a search, at a cost proportional to the vertices that the search reached."""
    keys, queue, place, order, values, _ = workspace
    for i in range(settled_count):
        place[order[i]], values[order[i]] = _NEW, zero
    for i in range(size):
        place[queue[i]], values[queue[i]], keys[i] = _NEW, zero, zero


@kernel
def _search_table(sr, starts, heads, weights, sources, targets, zero, one, out, trees):
    """Write the best values from p sources to q targets to ``out`` (p, q), 0̄ if no path leads there.

    ``trees`` (p, n) int32 receives the vertex before each settled vertex, -9999 for all other vertices. With shape (0,
    n) it is not requested.
    """
    n = len(starts) - 1
    work, is_target, target_count = new_workspace(n, zero), np.zeros(n, np.bool_), 0
    _, _, place, order, values, before = work
    for t in targets:
        target_count += not is_target[t]
        is_target[t] = True
    for i in range(sources.size):
        settled, size, _ = search(
            sr, starts, heads, weights, sources[i], zero, one, zero, is_target, target_count, work
        )
        for j in range(targets.size):
            out[i, j] = values[targets[j]] if place[targets[j]] == _SETTLED else zero
        if trees.shape[0]:
            trees[i, :] = NO_PREDECESSOR
            for j in range(settled):
                trees[i, order[j]] = before[order[j]]
        reset_workspace(work, settled, size, zero)


@kernel
def _search_near(sr, starts, heads, weights, sources, targets, zero, one, limit):
    """Return the ``targets`` (n,) bool no worse than the limit from each source: their counts, vertices and values.

    The targets of a source are in the order in which they are settled, the best first.
    """
    n = len(starts) - 1
    work, target_count, count = new_workspace(n, zero), 0, 0
    order, values = work[3], work[4]
    for v in range(n):
        target_count += targets[v]
    counts = np.zeros(sources.size, np.int64)
    vertices, best = np.empty(1024, np.int32), np.full(1024, zero)
    for i in range(sources.size):
        settled, size, _ = search(sr, starts, heads, weights, sources[i], zero, one, limit, targets, target_count, work)
        if count + settled > vertices.size:
            more, further = np.empty(2 * (count + settled), np.int32), np.full(2 * (count + settled), zero)
            more[:count], further[:count] = vertices[:count], best[:count]
            vertices, best = more, further
        for j in range(settled):
            if targets[order[j]]:
                vertices[count], best[count] = order[j], values[order[j]]
                count += 1
                counts[i] += 1
        reset_workspace(work, settled, size, zero)
    return counts, vertices[:count].copy(), best[:count].copy()


def search_table(plan: KernelPlan, graph: Graph, sources: Array, targets: Array, out: Array, trees: Array) -> None:
    """Compute `PathKernels.search_table` of the contract."""
    starts, heads, weights, is_opposite = graph
    if is_interpreted():
        done = numpy_searches.search_table(plan, graph, sources, targets, out, trees)
        sources, out, trees = sources[done:], out[done:], trees[done:]
        if not sources.size:
            return
    sr, (zero, one) = ScalarSemiring(plan, opposite=is_opposite), as_entries(plan.zero, plan.one)
    rows = as_entries(starts, heads, weights)

    def search_part(part: slice) -> None:
        own = trees[part] if trees.shape[0] else trees
        _search_table(sr, *rows, sources[part], targets, zero, one, out[part], own)

    _run_shares(search_part, sources.size, plan.threads, starts.size + heads.size)


def search_near(
    plan: KernelPlan, graph: Graph, sources: Array, targets: Array, limit: Any
) -> tuple[Array, Array, Array]:
    """Compute `PathKernels.search_near` of the contract."""
    starts, heads, weights, is_opposite = graph
    found = nothing = np.zeros(0, np.int64), np.empty(0, np.int32), np.empty(0, plan.dtype)
    if is_interpreted():
        found = numpy_searches.search_near(plan, graph, sources, targets, limit)
        sources = sources[found[0].size :]
    sr, results = ScalarSemiring(plan, opposite=is_opposite), {}
    rows, bounds = as_entries(starts, heads, weights), as_entries(plan.zero, plan.one, limit)

    def search_part(part: slice) -> None:
        results[part.start] = _search_near(sr, *rows, sources[part], targets, *bounds)

    if sources.size:
        _run_shares(search_part, sources.size, plan.threads, starts.size + heads.size)
    parts = [nothing, found, *(results[start] for start in sorted(results))]
    counts, ends, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return np.append(0, np.cumsum(counts)), ends, values


def _run_shares(search: Callable[[slice], None], count: int, threads: int, search_size: int) -> None:
    """Call ``search`` with slices that cover ``count`` sources, on threads.

    ``search_size``: the number of vertices and edges of the graph, which bounds the work of a search.
    """
    step = max(1, _MIN_THREAD_WORK // search_size, min(_SOURCES_PER_TASK, -(-count // threads)))
    run_on_ranges(lambda start, stop: search(slice(start, stop)), count, step, threads, reports=True)
