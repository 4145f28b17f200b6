"""List the best paths between two vertices in the order of their weights.

*Simple paths.* All paths from s to t are one subspace. When its best path is listed, the remaining paths are split by
the first edge at which they leave it. Each vertex of the path gives one subspace, with the path up to there as its
prefix, and without the edges that earlier paths took there (J. Y. Yen, Management Science 17, 1971). So no path is
found twice (E. L. Lawler, Management Science 18, 1972). A queue holds the subspaces by a bound: the best edge after the
prefix, and from its head on the exact distance to the target. Only a subspace at the front is searched. Its best path
goes back into the queue with its own weight.

*Order.* The front of the queue is listed if it is a path, and then no subspace has a better bound. Subspaces come
before paths of the same weight. So all subspaces with a path of a weight have been searched before the first path of
this weight is listed. Each yields its lexicographically first best path, so the first of all is listed.
*Completeness*: the subspaces and the listed paths partition all simple paths, and a subspace leaves the queue only when
it is searched and split, or has no path.

*Walks* (``simple=False``) may visit vertices again. A queue holds the begin of each walk by the exact bound of its best
completion. So a listed walk completes each begin that leaves the queue (A*, as K* of H. Aljazzar, S. Leue, Artificial
Intelligence 175, 2011). A vertex ends at most k begins. Walks of one weight are in the order of their number of edges,
and then lexicographic: with cycles that leave the weight as it is, no walk would otherwise be the first. Sums of floats
are in order up to the rounding of the bound.

Cost: a search for each listed path and for some more subspaces. Each visits the vertices whose bound is no worse than
its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_min, max_times, min_max, min_times
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.parts import to_host_array
from semiring.errors import AlgebraError, IntegerOverflowError
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import SparseEntries

__all__ = ["PathsInOrder", "RankedPath", "paths_in_order", "require_order", "search_in_order"]

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


def search_in_order(
    search: Callable[..., Any], semiring: Semiring, edges: SparseEntries, source: int, target: int
) -> PathsInOrder:
    """Return the paths between two vertices in order, by a ``search`` in float64 for the distances to the target.

    ``search`` is `semiring.paths.functions.best_paths`, whose module imports this one.
    """
    from scipy.sparse import csr_array

    pattern = edges.pattern
    graph = csr_array((edges.values.astype(np.float64), pattern.indices, pattern.starts), shape=(pattern.n,) * 2)
    to_target = search(graph, semiring, targets=[target], check=False, predecessors=False).matrix
    return paths_in_order(semiring, edges, source, target, to_host_array(to_target).reshape(-1))


def paths_in_order(
    semiring: Semiring, edges: SparseEntries, source: int, target: int, to_target: Array
) -> PathsInOrder:
    """Return the paths between two vertices over edges between them, by the distances ``to_target`` (n,) of vertices.

    Raises `AlgebraError` for a semiring without an order, and `IntegerOverflowError` for integers that float64 rounds.
    """
    require_order(semiring)
    n, values, dtype = edges.pattern.n, edges.values, edges.values.dtype
    adds, multiplies = semiring.tropical is not None, semiring in (max_times, min_times)
    largest = float(np.abs(values[np.isfinite(values)].astype(np.float64)).max(initial=0.0))
    fits = largest * (n + 1) < _EXACT if adds else largest < (_EXACT ** (1 / max(1, n - 1)) if multiplies else _EXACT)
    if not (fits or is_floating(dtype)):
        raise IntegerOverflowError(
            f"weights of up to {largest:.0f} on paths of {n:,} vertices may have values beyond 2⁵³, which are compared "
            "as float64: pass A.astype(float)"
        )
    weights, zero = values.astype(np.float64), semiring.zero_for(np.dtype(np.float64))
    h = np.where(to_target == semiring.zero_for(to_target.dtype), zero, to_target.astype(np.float64))
    h[target] = semiring.one_for(np.dtype(np.float64))
    margin = 1.0, 0.0
    rounding = 4 * float(np.finfo(np.float64).eps) * n
    sign = 1 if zero > h[target] else -1
    if multiplies:
        margin = 1 - sign * rounding, 0.0
    elif adds and not (fits and bool((weights == np.rint(weights)).all())):
        margin = 1.0, sign * rounding * (float(np.abs(h[np.isfinite(h)]).max(initial=0.0)) + largest)
    rows = edges.pattern.starts, edges.pattern.indices, weights
    return PathsInOrder(semiring, dtype, source, target, rows, h, margin)


@dataclass(frozen=True, eq=False)
class PathsInOrder:
    """The paths from a source to a target in the order of their weights.

    ``rows`` are the compressed rows of edges between the ends, in float64. ``to_target`` (n,) are the distances to the
    target. With ``margin`` (a, b) rounding never makes a · d - b worse than an exact distance d.
    """

    semiring: Semiring
    dtype: np.dtype[Any]
    source: int
    target: int
    rows: tuple[Array, Array, Array]
    to_target: Array
    margin: tuple[float, float]

    @property
    def zero(self) -> float:
        """The weight of no path."""
        return float(self.semiring.zero_for(np.dtype(np.float64)))

    @property
    def one(self) -> float:
        """The weight of a path without an edge."""
        return float(self.semiring.one_for(np.dtype(np.float64)))

    @property
    def sign(self) -> int:
        """The sign of weights in an order in which less is better."""
        return 1 if self.zero > self.one else -1

    def _in_dtype(self, value: float) -> Any:
        return self.semiring.one_for(self.dtype) if value == self.one else self.dtype.type(value)

    def named(self, names: Any, count: int | None, *, simple: bool) -> Iterator[RankedPath]:
        """Yield up to ``count`` paths in order, with the names of their vertices."""
        found = self.simple_paths() if simple else self.walks(count)
        for value, path in islice(found, count):
            yield RankedPath(self._in_dtype(value), path if names is None else [names[vertex] for vertex in path])

    def _loosen(self, bound: Any) -> Any:
        """Return a bound by rounded distances as a key of the queue, which is no worse than the exact bound."""
        return self.sign * (bound * self.margin[0] - self.margin[1])

    def simple_paths(self) -> Iterator[tuple[float, list[int]]]:
        """Yield the values and vertices of all simple paths in order."""
        if self.source == self.target:
            yield self.one, [self.source]
            return
        if self.to_target[self.source] == self.zero:
            return
        plan = make_plan(self.semiring, np.dtype(np.float64))
        kernels = backend_for(None, self.semiring, plan.dtype).capabilities.ranked
        assert kernels is not None  # the reference backend has them
        searches = kernels.open_spur_searches(plan, self.rows, self.to_target, self.target, self.margin)
        serials = count()
        queue: list[Any] = []

        def search(prefix: Array, banned: Array, bound: float) -> None:
            vertices, value = searches.search(prefix, banned, bound)
            if vertices.size:
                entry = (self.sign * value, 1, tuple(vertices.tolist()), vertices, banned, prefix.size - 1, value)
                heappush(queue, entry)

        # a path: (key, 1, path, vertices, banned, place, value)
        # the subspaces of a path: (key, 0, serial, bounds, order of the bounds, vertices, banned, place)
        search(np.array([self.source], np.int32), _NONE, float(self.to_target[self.source]))
        while queue:
            item = heappop(queue)
            if item[1]:
                _, _, path, vertices, banned, place, value = item
                yield value, list(path)
                bounds = searches.bound(vertices, place, banned)
                places = np.flatnonzero(bounds[place:-1] != self.zero) + place
                order = places[np.argsort(self.sign * bounds[places], kind="stable")].tolist()
            else:
                _, _, _, bounds, order, vertices, banned, place = item
                c, *order = order
                following = vertices[c + 1 : c + 2]
                search(vertices[: c + 1], np.append(banned, following) if c == place else following, float(bounds[c]))
            if order:
                key = float(self._loosen(bounds[order[0]]))
                heappush(queue, (key, 0, next(serials), bounds, order, vertices, banned, place))

    def without(self, mask: Array) -> tuple[float, list[int]]:
        """Return the value and vertices of the best path over the edges of a mask, or (0̄, []) if there is none.

        The distances of all edges bound it.
        """
        starts, heads, weights = self.rows
        remaining = np.append(0, np.cumsum(mask))[starts].astype(np.int64)
        own = replace(self, rows=(remaining, heads[mask], weights[mask]))
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
        if self.to_target[self.source] == self.zero:
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
                if self.to_target[u] != self.zero:
                    further = float(self.semiring.mul(value, weights[e]))
                    bound = self.sign * float(self.semiring.mul(further, self.to_target[u]))
                    heappush(queue, (bound, len(path) + 1 + int(edges[u]), (*path, u), True, further))

    def _fewest_edges(self) -> Array:
        """Return the fewest edges (n,) of a best walk from each vertex to the target, 0 where rounding hides it."""
        starts, heads, weights = self.rows
        tails = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        is_open = (self.to_target[tails] != self.zero) & (self.to_target[heads] != self.zero)
        tails, heads, weights = tails[is_open], heads[is_open], weights[is_open]
        with np.errstate(all="ignore"):
            offers = np.asarray(self.semiring.mul(weights, self.to_target[heads]))
            slack = abs(self.margin[1]) + abs(1 - self.margin[0]) * np.abs(offers)
            tight = (offers == self.to_target[tails]) | (np.abs(offers - self.to_target[tails]) <= slack)
        tails, heads = tails[tight], heads[tight]
        fewest, frontier, level = np.full(starts.size - 1, -1), np.array([self.target]), 0
        while frontier.size:
            fewest[frontier] = level
            before = tails[np.isin(heads, frontier)]
            frontier, level = np.unique(before[fewest[before] < 0]), level + 1
        fewest[fewest < 0] = 0
        return fewest
