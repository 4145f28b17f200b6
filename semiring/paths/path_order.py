"""List the best paths between two vertices in the order of their weights.

*Simple paths.* All paths from s to t are one subspace. When its best path is listed, the remaining paths are split by
the first edge at which they leave it: one subspace for each vertex of the path, with the path up to there as its
prefix, and without the edges that were taken there before (J. Y. Yen, Management Science 17, 1971; E. L. Lawler,
Management Science 18, 1972: no path is found twice). A queue holds the subspaces by a bound: the best edge after the
prefix, and from its head on the exact distance to the target. Only a subspace at the front is searched. Its best path
goes back into the queue with its own weight.

*Order.* The front of the queue is listed if it is a path, and then no subspace has a better bound. Subspaces come
before paths of the same weight. So all subspaces with a path of a weight have been searched before the first path of
this weight is listed. Each yields its lexicographically first best path, so the first of all is listed.
*Completeness*: the subspaces and the listed paths partition all simple paths, and a subspace leaves the queue only when
it is searched and split, or has no path.

*Walks* (``simple=False``) may visit vertices again. A queue holds the begin of each walk by the exact bound of its best
completion, so each begin that leaves the queue is completed by a listed walk (A*, as K* of H. Aljazzar, S. Leue,
Artificial Intelligence 175, 2011). A vertex ends at most k begins. Walks of one weight are in the order of their number
of edges, and then lexicographic: circles that leave the weight as it is would otherwise have no first walk. Sums of
floats are in order up to the rounding of the bound.

Cost: a search for each listed path and for some more subspaces. Each visits the vertices whose bound is no worse than
its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_min, max_times, min_max, min_times
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.arrays.parts import to_host_array
from semiring.errors import AlgebraError, IntegerOverflowError
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import SparseEntries

__all__ = ["PathsInOrder", "RankedPath", "require_order", "search_in_order"]

Array = NDArray[Any]

_EXACT = 2**53
_NONE = np.empty(0, np.int32)


class RankedPath(NamedTuple):
    """A path in the order of weights."""

    distance: Any
    path: list[Any]


def require_order(semiring: Semiring) -> None:
    """Raise `AlgebraError` for a semiring without a known order of weights that ⊗ keeps."""
    if semiring.tropical is None and semiring not in (max_min, min_max, max_times, min_times):
        raise AlgebraError(
            "paths in order are found in min_plus, max_plus, max_min, min_max, max_times and min_times, and not in "
            f"{semiring.name}"
        )


def search_in_order(semiring: Semiring, edges: SparseEntries, source: int, target: int) -> PathsInOrder:
    """Return the paths between two vertices in order, by a search in float64 for the distances to the target."""
    from scipy.sparse import csr_array

    from semiring.paths.functions import best_paths

    pattern = edges.pattern
    graph = csr_array((edges.values.astype(np.float64), pattern.indices, pattern.starts), shape=(pattern.n,) * 2)
    to_target = best_paths(graph, semiring, targets=[target], check=False, predecessors=False).matrix
    return PathsInOrder(semiring, edges, source, target, to_host_array(to_target).reshape(-1))


class PathsInOrder:
    """The paths from a source to a target over edges between them, by the distances ``to_target`` (n,) of vertices."""

    def __init__(self, semiring: Semiring, edges: SparseEntries, source: int, target: int, to_target: Array) -> None:
        require_order(semiring)
        self.semiring, self.dtype, self.source, self.target = semiring, edges.values.dtype, source, target
        self.zero = float(semiring.zero_for(np.dtype(np.float64)))
        self.one = float(semiring.one_for(np.dtype(np.float64)))
        self.sign = 1 if self.zero > self.one else -1  # of the weights in an order in which less is better
        if semiring in (max_min, min_max):
            self.sign = 1 if semiring is min_max or semiring == min_max else -1
        n, pattern = edges.pattern.n, edges.pattern
        values, whole = edges.values, not is_floating(self.dtype)
        largest = float(np.abs(values[np.isfinite(values)].astype(np.float64)).max(initial=0.0))
        adds = semiring.tropical is not None
        if whole and adds and largest * (n + 1) >= _EXACT:
            raise IntegerOverflowError(
                f"weights of up to {largest:.0f} on paths of {n:,} vertices may have sums beyond 2⁵³: pass "
                "A.astype(float)"
            )
        multiplies = semiring in (max_times, min_times)
        if whole and not adds and largest >= (_EXACT ** (1 / max(1, n - 1)) if multiplies else _EXACT):
            raise IntegerOverflowError(
                f"weights of up to {largest:.0f} on paths of {n:,} vertices may have values beyond 2⁵³, which are "
                "compared as float64: pass A.astype(float)"
            )
        self.rows = pattern.starts, pattern.indices, values.astype(np.float64)
        self.h = self._in_floats(to_target)
        self.h[target] = self.one
        exact = not (adds or semiring in (max_times, min_times)) or (
            adds and largest * (n + 1) < _EXACT and bool((self.rows[2] == np.rint(self.rows[2])).all())
        )
        finite = np.abs(self.h[np.isfinite(self.h)])
        eps = float(float_limits(self.dtype if is_floating(self.dtype) else np.dtype(np.float64)).eps)
        self.margin = 0.0 if exact else self.sign * 4 * eps * n * float(finite.max(initial=0.0) + largest)

    def _in_floats(self, values: Array) -> Array:
        zero = self.semiring.zero_for(values.dtype)
        return np.where(values == zero, self.zero, values.astype(np.float64))

    def _in_dtype(self, value: float) -> Any:
        return self.semiring.one_for(self.dtype) if value == self.one else self.dtype.type(value)

    def named(self, names: Any, count: int | None, *, simple: bool) -> Iterator[RankedPath]:
        """Yield up to ``count`` paths in order, with the names of their vertices."""
        found = self.simple_paths() if simple else self.walks(count)
        for value, path in islice(found, count):
            yield RankedPath(self._in_dtype(value), path if names is None else [names[vertex] for vertex in path])

    @property
    def searches(self) -> Any:
        """The searches for paths of subspaces."""
        from semiring.kernels.cpu.spur_searches import SpurSearches

        plan = make_plan(self.semiring, np.dtype(np.float64))
        return SpurSearches(plan, self.rows, self.h, self.target, self.margin)

    def simple_paths(self) -> Iterator[tuple[float, list[int]]]:
        """Yield the values and vertices of all simple paths in order."""
        if self.source == self.target:
            yield self.one, [self.source]
            return
        if self.h[self.source] == self.zero:
            return
        searches, serial = self.searches, 0
        first = np.array([self.source], np.int32)
        # a subspace: (key, 0, serial, prefix, banned, bound); a path: (key, 1, path, vertices, banned, place, value)
        queue: list[Any] = [(-np.inf, 0, serial, first, _NONE, float(self.h[self.source]))]
        while queue:
            item = heappop(queue)
            if item[1]:
                _, _, path, vertices, banned, place, value = item
                yield value, list(path)
                bounds = searches.bound(vertices, place, banned)
                for c in range(place, vertices.size - 1):
                    bound = float(bounds[c])
                    if bound == self.zero:
                        continue
                    serial += 1
                    taken = vertices[c + 1 : c + 2]
                    taken = np.append(banned, taken) if c == place else taken
                    key = self.sign * (bound - self.margin)
                    heappush(queue, (key, 0, serial, vertices[: c + 1], taken, bound))
                continue
            _, _, _, prefix, banned, bound = item
            vertices, value = searches.search(prefix, banned, bound)
            if vertices.size:
                entry = (self.sign * value, 1, tuple(vertices.tolist()), vertices, banned, prefix.size - 1, value)
                heappush(queue, entry)

    def without(self, mask: Array) -> tuple[float, list[int]]:
        """Return the value and vertices of the best path over the edges of a mask, or (0̄, []) if there is none.

        The distances of all edges bound it.
        """
        starts, heads, weights = self.rows
        kept = np.append(0, np.cumsum(mask))[starts].astype(np.int64)
        own = object.__new__(PathsInOrder)
        own.__dict__.update(self.__dict__, rows=(kept, heads[mask], weights[mask]))
        return next(own.simple_paths(), (self.zero, []))

    def avoid(self, edge: tuple[int, int] | None, vertex: int | None) -> tuple[float, list[int]]:
        """Return the value and vertices of the best path without an edge, or without a vertex."""
        starts, heads, _ = self.rows
        mask = np.ones(heads.size, np.bool_)
        if vertex is not None:
            mask[starts[vertex] : starts[vertex + 1]] = False
            mask &= heads != vertex
        if edge is not None:
            own = slice(starts[edge[0]], starts[edge[0] + 1])
            mask[own] &= heads[own] != edge[1]
        return self.without(mask)

    def most_vital(self, path: list[int]) -> tuple[tuple[int, int], float]:
        """Return the edge of a best path whose loss makes the best path worst, and the value without it."""
        losses = [(self.sign * self.avoid(edge, None)[0], edge) for edge in pairwise(path)]
        worst = max(value for value, _ in losses)
        return next((edge, self.sign * value) for value, edge in losses if value == worst)

    def walks(self, count: int | None = None) -> Iterator[tuple[float, list[int]]]:
        """Yield the values and vertices of walks in order, of ``count`` walks at most."""
        if self.h[self.source] == self.zero:
            return
        starts, heads, weights = self.rows
        edges, ends = self._fewest_edges(), np.zeros(starts.size - 1, np.int64)
        # (bound of the value, bound of the edges, vertices, whether it is a begin, value)
        queue: list[Any] = [(-np.inf, 0, (self.source,), True, self.one)]
        while queue:
            _, _, path, is_begin, value = heappop(queue)
            if not is_begin:
                yield value, list(path)
                continue
            v = path[-1]
            ends[v] += 1
            if count is not None and ends[v] > count:
                continue
            if v == self.target:
                heappush(queue, (self.sign * value, len(path), path, False, value))
            for e in range(int(starts[v]), int(starts[v + 1])):
                u = int(heads[e])
                if self.h[u] != self.zero:
                    further = float(self.semiring.mul(value, weights[e]))
                    bound = self.sign * float(self.semiring.mul(further, self.h[u]))
                    heappush(queue, (bound, len(path) + 1 + int(edges[u]), (*path, u), True, further))

    def _fewest_edges(self) -> Array:
        """Return the fewest edges (n,) of a best walk from each vertex to the target, 0 where rounding hides it."""
        starts, heads, weights = self.rows
        tails = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        is_open = (self.h[tails] != self.zero) & (self.h[heads] != self.zero)
        tails, heads, weights = tails[is_open], heads[is_open], weights[is_open]
        with np.errstate(all="ignore"):
            offers = np.asarray(self.semiring.mul(weights, self.h[heads]))
            tight = np.abs(offers - self.h[tails]) <= abs(self.margin)
        tight |= offers == self.h[tails]
        tails, heads = tails[tight], heads[tight]
        fewest, frontier, level = np.full(starts.size - 1, -1), np.array([self.target]), 0
        while frontier.size:
            fewest[frontier] = level
            before = tails[np.isin(heads, frontier)]
            frontier, level = np.unique(before[fewest[before] < 0]), level + 1
        fewest[fewest < 0] = 0
        return fewest
