"""Find one best path between two vertices from a closed matrix and its edges, where both stay in their files.

A best path from u to t goes on over a vertex k with A[u, k] ⊗ D[k, t] = D[u, t]. Such an edge is *tight*. So a path is
found from its source on: every step reads row u of A. If u has more than 64 edges, it also reads row u of D, because an
edge u → k that is not itself a best path (A[u, k] ≠ D[u, k]) is not needed. Then the step reads the entry D[k, t] of
each remaining edge until one is tight. Rows are adjacent in a file, and each entry is in another page. A path that has
read an eighth of column t so reads the whole column, once.

A tight edge may leave the distance to t as it is: an edge of weight 0, or an edge wider than the bottleneck. Such edges
can lead in a cycle. So where each tight edge is one of them, a breadth-first search over these edges follows, up to an
edge that changes the distance, or to t. It reads column t of D once, and a row of A for each vertex that it visits.

Where rounding hides the tight edge, or the edges do not add up to the distance, `follow_edges` returns None. The caller
then searches the whole row (`nearest_tree`, O(n²)).

Cost for n = 32,768 in float32, on two cores and an NVMe disk with an empty page cache, 2026-11-28: 1 to 10 ms and 1 to
10 MiB a step of a path through a grid, and 0.2 to 0.7 s a path. A row of 128 KiB takes 2 ms, a column 1.8 s: so a path
over edges that may leave the distance as it is takes more than 2 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.kernels.contract import Facts, KernelPlan
from semiring.kernels.nearest_trees import measure_deviations
from semiring.kernels.tolerance import Tolerance, tolerance_for

__all__ = ["follow_edges"]

Array: TypeAlias = NDArray[Any]

_LOOSE = 64  # roundings within which an edge counts as tight before the path is added up
_FEW = 64  # the most edges of a vertex that are tried without its row of D, and the entries that are read at a time


def follow_edges(plan: KernelPlan, D: Array, A: Array, source: int, target: int) -> list[int] | None:
    """Return the vertices of a best path between two different vertices, or None if the search fails.

    D (n, n) is A*, and has a path. Both matrices are in one order, C or Fortran.
    """
    if D.flags.f_contiguous and not D.flags.c_contiguous:  # ⊗ commutes, or the closure refused the file
        path = follow_edges(plan, D.T, A.T, target, source)
        return None if path is None else path[::-1]
    search = _PathSearch(plan, D, A, target)
    path, edges = [source], []
    while path[-1] != target:
        search.visited[path[-1]] = True
        found = search.next_vertices(path[-1])
        if found is None:
            return None
        for vertex in found:
            edges.append(A[path[-1], vertex])
            path.append(vertex)
    units = 0.0 if search.tolerance.is_exact else 4.0 * len(D)
    return path if _has_length(plan, np.array(edges, plan.dtype), D[source, target], units) else None


class _PathSearch:
    """The search for the next vertices of a path to one ``target``, which are none of the ``visited`` ones (n,)."""

    def __init__(self, plan: KernelPlan, D: Array, A: Array, target: int) -> None:
        self._plan, self._D, self._A, self._target = plan, D, A, target
        # The tolerance is that of weights ≥ 0, so it needs no scan of D.
        self.tolerance: Tolerance = tolerance_for(replace(plan, facts=Facts(nonnegative=True)), D[:0])
        self._epsilon = 0.0 if self.tolerance.is_exact else float(float_limits(plan.dtype).eps)
        self.visited = np.zeros(len(D), np.bool_)
        self._entries_read = 0
        self._column: Array | None = None  # column t of D, once a step has read it

    def next_vertices(self, u: int) -> list[int] | None:
        """Return the vertices after u: one, or several if the first edges leave the distance as it is; None if none is.

        Of the tight edges, one within the rounding of a single operation is taken at once, and else the nearest one.
        """
        goal = self._D[u, self._target]
        heads, weights = self._edges(u, self.visited)
        best, least = -1, np.inf
        is_last = heads == self._target
        if is_last.any() and self._misses(weights[is_last], goal)[0] <= self._limit(1, goal):
            return [self._target]
        for start in range(0, heads.size, _FEW):
            part = slice(start, start + _FEW)
            distances = self._distances(heads[part])
            misses = self._misses(self._multiply(weights[part], distances), goal)
            misses[(distances == self._plan.zero) | (distances == goal)] = np.inf
            first = int(misses.argmin())
            if misses[first] < least:
                best, least = start + first, float(misses[first])
            if least <= self._limit(1, goal):
                break
        if best >= 0 and least <= self._limit(_LOOSE, goal, weights[best]):
            return [int(heads[best])]
        return self._search_ties(u, goal)

    def _search_ties(self, u: int, goal: Any) -> list[int] | None:
        """Return the vertices after u on a path of tight edges, of which only the last one changes the distance."""
        self._read_column()
        assert self._column is not None
        before, waiting, seen = {u: u}, [u], self.visited.copy()
        while waiting:
            following: list[int] = []
            for vertex in waiting:
                heads, weights = self._edges(vertex, seen)
                distances = self._column[heads]
                is_tight = self._misses(self._multiply(weights, distances), goal) == 0
                is_tight &= distances != self._plan.zero
                is_end = is_tight & ((distances != goal) | (heads == self._target))
                if is_end.any():
                    is_target = is_end & (heads == self._target)
                    path = [int(heads[is_target if is_target.any() else is_end][0])]
                    while vertex != u:
                        path.append(vertex)
                        vertex = before[vertex]
                    return path[::-1]
                tied = heads[is_tight]
                seen[tied] = True
                before.update((head, vertex) for head in tied.tolist())
                following += tied.tolist()
            waiting = following
        return None

    def _edges(self, u: int, excluded: Array) -> tuple[Array, Array]:
        """Return the heads and the weights of the edges of u that may lie on a best path."""
        row = np.array(self._A[u])
        heads = np.flatnonzero((row != self._plan.zero) & ~excluded)
        heads = heads[heads != u]
        if heads.size > _FEW:
            own = self._D[u][heads]
            limits = self._limit(_LOOSE, own, row[heads])
            heads = heads[self._misses(row[heads], own) <= limits]
        return heads, row[heads]

    def _distances(self, vertices: Array) -> Array:
        """Return the distances from some vertices to the target."""
        self._entries_read += vertices.size
        if self._column is None and self._entries_read > len(self._D) // 8:
            self._read_column()
        distances: Array = self._D[vertices, self._target] if self._column is None else self._column[vertices]
        return np.array(distances)

    def _read_column(self) -> None:
        """Read the distances from all vertices to the target, once for each path that needs many of them."""
        if self._column is None:
            self._column = np.array(self._D[:, self._target])
            self._column[self._target] = self._plan.one

    def _multiply(self, weights: Array, distances: Array) -> Array:
        with np.errstate(all="ignore"):
            product: Array = self._plan.semiring.mul.expression.evaluate(
                {"x": weights, "y": distances}, self._plan.dtype
            )
        return product

    def _misses(self, values: Array, goals: Any) -> Array:
        return measure_deviations(values, np.broadcast_to(goals, values.shape), self.tolerance)

    def _limit(self, units: float, *sizes: Any) -> Any:
        """Return the limit of a miss: a number of roundings of numbers of some sizes."""
        if self.tolerance.is_exact or self.tolerance.is_relative:
            return units * self._epsilon
        with np.errstate(all="ignore"):
            return units * self._epsilon * sum(np.abs(np.asarray(size).astype(np.float64)) for size in sizes)


def _has_length(plan: KernelPlan, edges: Array, distance: Any, units: float) -> bool:
    """Return whether consecutive edges have the given distance.

    ``units`` is the tolerance, in roundings of weights of the size of the edges.
    """
    wide = np.dtype(np.float64) if is_floating(plan.dtype) else plan.dtype
    mul, total, size = plan.semiring.mul.expression, edges[:1].astype(wide), np.abs(edges[:1]).astype(wide)
    for edge in edges[1:].astype(wide):
        total = mul.evaluate({"x": total, "y": edge[np.newaxis]}, wide)
        size = mul.evaluate({"x": size, "y": np.abs(edge[np.newaxis])}, wide)
    if total[0] == distance or not units:
        return bool(total[0] == distance)
    limits = float_limits(plan.dtype)
    rounding = float(limits.eps) * (abs(float(size[0])) + abs(float(distance))) + float(limits.smallest_subnormal)
    return bool(abs(float(total[0]) - float(distance)) <= units * rounding)
