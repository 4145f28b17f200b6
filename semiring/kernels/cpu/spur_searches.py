"""Find the best path of a subspace: with a given prefix, and without some edges after it.

The exact value h(v) of the best path from v to the target in the whole graph bounds every path of a subspace, so
g ⊗ h(v) orders the search (A*: P. E. Hart, N. J. Nilsson, B. Raphael, IEEE Trans. SSC 4, 1968). Where h is attained
inside the subspace, a search in depth along it is enough. Of several best paths the lexicographically first is found,
by a search in depth, in the order of the vertices, over prefixes whose bound is the best value. A vertex that was left
without success at a value is not entered again at one that is no better: its continuations are the same, except for
vertices of the present prefix, and these are tried at their own turn.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring, better, times

_FREE, _PREFIX, _ON_PATH = range(3)


@inner
def _push(sr, keys, vertices, values, size, key, vertex, value):
    slot = size
    while slot > 0:
        parent = (slot - 1) >> 1
        if not better(sr, key, keys[parent]):
            break
        keys[slot], vertices[slot], values[slot] = keys[parent], vertices[parent], values[parent]
        slot = parent
    keys[slot], vertices[slot], values[slot] = key, vertex, value


@inner
def _pop(sr, keys, vertices, values, size):
    """Remove the first entry of a queue of ``size`` entries."""
    last = size - 1
    key, vertex, value = keys[last], vertices[last], values[last]
    slot, child = 0, 1
    while child < last:
        if child + 1 < last and better(sr, keys[child + 1], keys[child]):
            child += 1
        if not better(sr, keys[child], key):
            break
        keys[slot], vertices[slot], values[slot] = keys[child], vertices[child], values[child]
        slot, child = child, 2 * child + 1
    keys[slot], vertices[slot], values[slot] = key, vertex, value


@inner
def _is_banned(banned, head):
    found = False
    for b in banned:
        found |= b == head
    return found


@inner
def _best_value(sr, starts, heads, weights, h, zero, margin, state, banned, spur, value, target):
    """Return the value of the best path of a subspace by A*, 0̄ if there is none."""
    n = h.size
    reached = np.full(n, zero)
    keys, vertices, values = np.empty(64, h.dtype), np.empty(64, np.int32), np.empty(64, h.dtype)
    keys[0], vertices[0], values[0], size = value, spur, value, 1
    best = zero
    is_first = True
    while size:
        key, v, g = keys[0], vertices[0], values[0]
        _pop(sr, keys, vertices, values, size)
        size -= 1
        if best != zero and not better(sr, key - margin, best):
            break
        if not is_first and better(sr, reached[v], g):
            continue  # the vertex was reached by a better path since
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if state[u] != _FREE or h[u] == zero or (is_first and _is_banned(banned, u)):
                continue
            further = times(sr, g, weights[e])
            if not better(sr, further, reached[u]):
                continue
            reached[u] = further
            if u == target:
                best = further
                continue
            bound = times(sr, further, h[u])
            if best != zero and not better(sr, bound - margin, best):
                continue
            if size == keys.size:
                keys, vertices, values = _grow(keys), _grow(vertices), _grow(values)
            _push(sr, keys, vertices, values, size, bound, u, further)
            size += 1
        is_first = False
    return best


@inner
def _grow(array):
    larger = np.empty(2 * array.size, array.dtype)
    larger[: array.size] = array
    return larger


@inner
def _first_path(sr, starts, heads, weights, h, zero, margin, state, failed, banned, path, length, value, target, goal):
    """Complete a path of ``length`` vertices to the lexicographically first whose value is no worse than ``goal``.

    Return its number of vertices, or 0 if there is none. ``failed`` (n,) holds 0̄ or the value of a vertex that was
    left.
    """
    begin = length
    places, values = np.empty(h.size + 1, np.int64), np.empty(h.size + 1, h.dtype)
    places[length - 1], values[length - 1] = starts[path[length - 1]], value
    while length >= begin:
        v, g = path[length - 1], values[length - 1]
        if places[length - 1] == starts[v + 1]:
            if length > begin:
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
                for c in range(begin, length):
                    state[path[c]] = _FREE
                return length + 1
            continue
        if better(sr, goal, times(sr, further, h[u]) - margin):
            continue
        if failed[u] != zero and not better(sr, further, failed[u]):
            continue
        path[length], state[u] = u, _ON_PATH
        places[length], values[length] = starts[u], further
        length += 1
    return 0


@kernel
def _search(sr, starts, heads, weights, h, zero, one, margin, prefix, banned, target, bound, path):
    """Write the best path with a prefix to ``path`` (n,), without edges from its end to the vertices ``banned``.

    Return the number of its vertices, 0 if there is none, and its value. ``bound`` is a lower bound of the value.
    """
    n, count = h.size, prefix.size
    state, failed = np.zeros(n, np.uint8), np.full(n, zero)
    value = one
    for c in range(count):
        path[c] = prefix[c]
        state[prefix[c]] = _PREFIX
        if c:
            for e in range(starts[prefix[c - 1]], starts[prefix[c - 1] + 1]):
                if heads[e] == prefix[c]:
                    value = times(sr, value, weights[e])
    goal = bound
    length = 0
    if margin == 0:
        length = _first_path(
            sr, starts, heads, weights, h, zero, margin, state, failed, banned, path, count, value, target, goal
        )
    if not length:
        goal = _best_value(sr, starts, heads, weights, h, zero, margin, state, banned, prefix[-1], value, target)
        if goal == zero:
            return 0, goal
        failed[:] = zero
        length = _first_path(
            sr, starts, heads, weights, h, zero, margin, state, failed, banned, path, count, value, target, goal
        )
    total = one
    for c in range(1, length):
        for e in range(starts[path[c - 1]], starts[path[c - 1] + 1]):
            if heads[e] == path[c]:
                total = times(sr, total, weights[e])
    return length, total


@kernel
def _bound(sr, starts, heads, weights, h, zero, one, path, first, banned, bounds):
    """Write the bound of each subspace that begins with path[:c + 1] to ``bounds``, for c from ``first`` on.

    The edge to path[c + 1] is excluded, and for c = ``first`` the edges to ``banned``.
    """
    state = np.zeros(h.size, np.uint8)
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


class SpurSearches:
    """The searches in one graph, with compressed rows of ascending heads and weights in float64, to one target."""

    def __init__(
        self, plan: KernelPlan, rows: tuple[Array, Array, Array], h: Array, target: int, margin: float
    ) -> None:
        self._graph = ScalarSemiring(plan), *rows, h, np.float64(plan.zero), np.float64(plan.one)
        self._margin, self._target, self._n = np.float64(margin), target, h.size

    def search(self, prefix: Array, banned: Array, bound: float) -> tuple[Array, float]:
        """Return the best path with a prefix, and its value; an empty path if there is none."""
        path = np.empty(self._n + 1, np.int32)
        arguments: Any = self._margin, prefix, banned, self._target, np.float64(bound), path
        length, value = _search(*self._graph, *arguments)
        return path[:length], float(value)

    def bound(self, path: Array, first: int, banned: Array) -> Array:
        """Return the bounds (len(path),) of the subspaces after a path, from the vertex at ``first`` on."""
        bounds = np.empty(path.size, np.float64)
        _bound(*self._graph, path, first, banned, bounds)
        return bounds
