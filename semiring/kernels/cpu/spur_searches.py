"""Find the best path of a subspace: with a given prefix, and without some edges after it.

The exact value h(v) of the best path from v to the target in the whole graph bounds every path of a subspace, so
g ⊗ h(v) orders the search (A*: P. E. Hart, N. J. Nilsson, B. Raphael, IEEE Trans. SSC 4, 1968). Where h is attained
inside the subspace, a search in depth along it is enough. Of several best paths the lexicographically first is found,
by a search in depth, in the order of the vertices, over prefixes whose bound is the best value. A vertex that was left
without success at a value is not entered again at one that is no better: its continuations are the same, except for
vertices of the present prefix, and these are tried at their own turn. The search returns to Python after some steps,
which raises the interrupts that arrived, and goes on from its workspace.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.dijkstra_loops import sift_down, sift_up
from semiring.kernels.cpu.loops import better, inner, kernel, times
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring

_FREE, _PREFIX, _ON_PATH = range(3)
_STEPS = 1 << 24  # edges that are followed in some 0.1 s, before interrupts are raised


@inner
def _is_banned(banned, head):
    found = False
    for b in banned:
        found |= b == head
    return found


@inner
def _best_value(sr, graph, ratio, margin, state, banned, spur, value, target):
    """Return the value of the best path of a subspace by A*, 0̄ if there is none."""
    starts, heads, weights, h, zero, _ = graph
    n = h.size
    reached, place = np.full(n, zero), np.full(n, -1, np.int32)
    keys, queue = np.full(n + 4, zero), np.zeros(n + 4, np.int32)
    queue[0], place[spur], reached[spur] = spur, 0, value
    size, best = 1, zero
    while size:
        key, v = keys[0], queue[0]
        size -= 1
        if size:
            sift_down(sr, keys, queue, place, size)
        keys[size] = zero
        place[v] = -1
        if best != zero and not better(sr, key * ratio - margin, best):
            break
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if state[u] != _FREE or h[u] == zero or (v == spur and _is_banned(banned, u)):
                continue
            further = times(sr, reached[v], weights[e])
            if not better(sr, further, reached[u]):
                continue
            reached[u] = further
            if u == target:
                best = further
                continue
            bound = times(sr, further, h[u])
            if best != zero and not better(sr, bound * ratio - margin, best):
                continue
            slot = place[u]
            if slot < 0:
                slot = size
                size += 1
            sift_up(sr, keys, queue, place, slot, u, bound)
    return best


@inner
def _first_path(sr, graph, ratio, margin, work, banned, begin, length, target, goal, steps):
    """Complete a path of ``length`` vertices to the lexicographically first whose value is no worse than ``goal``.

    Return its number of vertices, 0 if there is none, or -length of the path that the next call continues. The first
    ``begin`` vertices stay.
    """
    starts, heads, weights, h, zero, _ = graph
    path, places, values, state, failed = work
    for _ in range(steps):
        v, g = path[length - 1], values[length - 1]
        if places[length - 1] == starts[v + 1]:
            if length == begin:
                return 0
            state[v] = _FREE
            if better(sr, g, failed[v]):
                failed[v] = g
            length -= 1
            continue
        e = places[length - 1]
        places[length - 1] += 1
        u = heads[e]
        if state[u] != _FREE or h[u] == zero or (length == begin and _is_banned(banned, u)):
            continue
        further = times(sr, g, weights[e])
        if u == target:
            if not better(sr, goal, further):
                path[length] = u
                return length + 1
            continue
        if better(sr, goal, times(sr, further, h[u]) * ratio - margin):
            continue
        if failed[u] != zero and not better(sr, further, failed[u]):
            continue
        path[length], state[u] = u, _ON_PATH
        places[length], values[length] = starts[u], further
        length += 1
    return -length


@inner
def _weight(sr, graph, tail, head):
    """Return the weight of an edge, 0̄ if there is none."""
    starts, heads, weights, _, zero, _ = graph
    weight = zero
    for e in range(starts[tail], starts[tail + 1]):
        if heads[e] == head:
            weight = weights[e]
    return weight


@kernel
def _search(sr, graph, ratio, margin, work, prefix, banned, target, steps, goal, length, is_bound):
    """Write the best path with a prefix, without edges from its end to the vertices ``banned``.

    Begin if ``length`` is 0, else continue. Return the length of the path, 0 if there is none, or -length to continue;
    its value; and whether this value is only a lower bound. ``goal`` is such a bound at first.
    """
    starts, _, _, _, zero, one = graph
    path, places, values, state, failed = work
    count, spur = prefix.size, prefix[-1]
    if length == 0:
        state[:], failed[:] = _FREE, zero
        path[:count] = prefix
        value = one
        for c in range(count):
            state[path[c]] = _PREFIX
            if c:
                value = times(sr, value, _weight(sr, graph, path[c - 1], path[c]))
        length, places[count - 1], values[count - 1] = count, starts[spur], value
        if not is_bound:
            goal = _best_value(sr, graph, ratio, margin, state, banned, spur, value, target)
            if goal == zero:
                return 0, goal, False
    length = _first_path(sr, graph, ratio, margin, work, banned, count, length, target, goal, steps)
    if length == 0 and is_bound:
        is_bound, failed[:], length, places[count - 1] = False, zero, count, starts[spur]
        goal = _best_value(sr, graph, ratio, margin, state, banned, spur, values[count - 1], target)
        if goal == zero:
            return 0, goal, False
        length = _first_path(sr, graph, ratio, margin, work, banned, count, length, target, goal, steps)
    if length > 0:
        goal = times(sr, values[length - 2], _weight(sr, graph, path[length - 2], target))
    return length, goal, is_bound


@kernel
def _bound(sr, graph, state, path, first, banned, bounds):
    """Write the bound of each subspace that begins with path[:c + 1] to ``bounds``, for c from ``first`` on.

    The edge to path[c + 1] is excluded, and for c = ``first`` the edges to ``banned``.
    """
    starts, heads, weights, h, zero, one = graph
    state[:] = _FREE
    value = one
    for c in range(path.size - 1):
        v = path[c]
        state[v] = _PREFIX
        best, following = zero, value
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            further = times(sr, value, weights[e])
            if u == path[c + 1]:
                following = further
            elif state[u] == _FREE and h[u] != zero and not (c == first and _is_banned(banned, u)):
                bound = times(sr, further, h[u])
                if better(sr, bound, best):
                    best = bound
        if c >= first:
            bounds[c] = best
        value = following


class SpurLoops:
    """Compute `SpurSearches` of the contract."""

    def __init__(
        self, plan: KernelPlan, rows: tuple[Array, Array, Array], h: Array, target: int, margin: tuple[float, float]
    ) -> None:
        self._sr, self._graph = ScalarSemiring(plan), (*rows, h, np.float64(plan.zero), np.float64(plan.one))
        self._margin, self._target, n = margin, target, h.size
        self._work = (
            *(np.empty(n + 1, np.int32), np.empty(n + 1, np.int64), np.empty(n + 1)),
            *(np.empty(n, np.uint8), np.empty(n)),
        )

    def search(self, prefix: Array, banned: Array, bound: float) -> tuple[Array, float]:
        length, goal, is_bound = 0, bound, self._margin == (1.0, 0.0)
        while True:
            state = prefix, banned, self._target, _STEPS, goal, length, is_bound
            length, goal, is_bound = _search(self._sr, self._graph, *self._margin, self._work, *state)
            if length >= 0:
                return self._work[0][:length].copy(), float(goal)
            length = -length

    def bound(self, path: Array, first: int, banned: Array) -> Array:
        bounds = np.empty(path.size, np.float64)
        _bound(self._sr, self._graph, self._work[3], path, first, banned, bounds)
        return bounds
