"""Add up the shares of all shortest paths that pass through each vertex and edge, by Brandes's algorithm.

Source: U. Brandes, "A faster algorithm for betweenness centrality", J. Math. Sociol. 25 (2001). Cost: O((n + m) log n)
a source, and O(n + m) if all weights are equal, which takes a breadth-first search; the sources are distributed over
threads.

The weights are at least 0, in min-plus. Lengths of paths are float64 sums from the source on, or int64 sums where these
are not exact in float64, and two paths are equally short if their sums are equal. It does not count paths if a cycle
weighs 0, because then walks of one length have no end. Edges of weight 0 without a cycle are sorted topologically.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.dijkstra import Searches
from semiring.arrays.device import copy_to_device, load_cupy, to_host
from semiring.errors import DomainError, IntegerOverflowError, cycle_text
from semiring.graphs.strongly_connected import rank_vertices
from semiring.kernels import backend_for, device_backend, get_backend
from semiring.kernels.contract import CentralityKernels, KernelPlan
from semiring.kernels.engine import make_plan
from semiring.sparse.symbolic_factor import Pattern

__all__ = [
    "ShortestPathGraph",
    "distances_on_device",
    "require_nonnegative",
    "shortest_path_graph",
    "sum_dependencies",
]

Array = NDArray[Any]

_EXACT = 2**53  # whole numbers below it are exact in float64
_LARGEST = 2**61  # sums below it stay below "no path" of int64


@dataclass(frozen=True, eq=False)
class ShortestPathGraph:
    """A graph whose shortest paths are counted."""

    searches: Searches  # weights of float64 or int64, at least 0
    has_equal_weights: bool  # whether all edges between different vertices have one weight above 0
    ranks: Array  # (n,) int32, or empty: a topological order of the edges of weight 0

    def restrict(self, positions: Array) -> ShortestPathGraph:
        """Return the graph of some edges, by their ascending positions."""
        s = self.searches
        starts = np.searchsorted(positions, s.starts).astype(np.int64)
        return replace(self, searches=replace(s, starts=starts, heads=s.heads[positions], weights=s.weights[positions]))


def require_nonnegative(pattern: Pattern, values: Array, names: Sequence[Hashable] | None) -> None:
    """Raise `DomainError` if a weight is below 0."""
    if values.size and (place := int(values.argmin())) >= 0 and values[place] < 0:
        at = int(pattern.rows[place]), int(pattern.indices[place])
        raise DomainError(
            f"A[{at[0]}, {at[1]}] is {values[place]}: lengths are at least 0: for other weights use closure, and for "
            "reliabilities in [0, 1] their -log",
            at,
        ).named(names)


def shortest_path_graph(
    pattern: Pattern, values: Array, names: Sequence[Hashable] | None, threads: int
) -> ShortestPathGraph:
    """Return the graph of the edges of a ``pattern`` with weights ``values`` (m,) of min-plus.

    Raises `DomainError` for a weight below 0, and for a cycle of weight 0, whose vertices it names.
    `IntegerOverflowError` if sums of integers may leave int64.
    """
    require_nonnegative(pattern, values, names)
    proper = pattern.rows != pattern.indices
    weights = values[proper]
    largest = float(weights.max(initial=0)) * max(1, pattern.n - 1)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if values.dtype.kind in "iu" and largest >= _EXACT:
        if largest >= _LARGEST:
            raise IntegerOverflowError(
                f"the weights of a path of {pattern.n:,} vertices may add up to {largest:.3g}, beyond {values.dtype}: "
                "use float64"
            )
        dtype = np.dtype(np.int64)
    is_equal = not weights.size or bool(weights[0] > 0 and (weights == weights[0]).all())
    plan = make_plan(min_plus, dtype, nonnegative=True, threads=threads)
    searches = Searches(plan, pattern.starts, pattern.indices, values.astype(dtype))
    return ShortestPathGraph(searches, is_equal, _rank_zero_edges(pattern, proper & (values == 0), names))


def _rank_zero_edges(pattern: Pattern, is_zero: Array, names: Sequence[Hashable] | None) -> Array:
    """Return a topological order of the edges of weight 0, or an empty array if there are none."""
    if not is_zero.any():
        return np.empty(0, np.int32)
    ranks, cycle = rank_vertices(pattern.n, pattern.rows[is_zero], pattern.indices[is_zero])
    if cycle:
        named: list[Any] = cycle if names is None else [names[v] for v in cycle]
        raise DomainError(
            f"the cycle {cycle_text(named)} has the weight 0, so the shortest paths through it have no end: make one "
            "vertex of it, or give its edges weights above 0"
        )
    return ranks


def sum_dependencies(
    graph: ShortestPathGraph, sources: Array, *, endpoints: bool, edges: bool, on_device: bool = False
) -> tuple[Array, Array]:
    """Return the sums of the dependencies of some sources on the vertices (n,) and on the edges (m,).

    Without ``edges`` the second array is empty. With ``endpoints`` a path passes through its ends too. If
    ``on_device``, the current GPU computes the sums.
    """
    searches, plan = graph.searches, graph.searches.plan
    weights = searches.weights[:0] if graph.has_equal_weights else searches.weights
    operand = searches.starts, searches.heads, weights, graph.ranks
    sums = np.zeros(searches.n), np.zeros(searches.heads.size if edges else 0)
    kernels = _kernels(plan, on_device)
    if not on_device:
        kernels.add_dependencies(plan, operand, sources, endpoints, *sums)
        return sums
    on_vertices, on_edges = (copy_to_device(array) for array in sums)
    kernels.add_dependencies(plan, tuple(map(copy_to_device, operand)), sources, endpoints, on_vertices, on_edges)
    return to_host(on_vertices), to_host(on_edges)


def distances_on_device(searches: Searches, sources: Array) -> Any:
    """Return the distances (p, n) from some vertices, on the current GPU. Weights are at least 0, in min-plus."""
    operand = searches.starts, searches.heads, searches.weights
    graph = *map(copy_to_device, operand), None
    distances = load_cupy().empty((sources.size, searches.n), searches.plan.dtype)
    _kernels(searches.plan, True).find_distances(searches.plan, graph, sources, distances)
    return distances


def _kernels(plan: KernelPlan, on_device: bool) -> CentralityKernels:
    find_backend = device_backend if on_device else partial(backend_for, None)
    kernels = find_backend(plan.semiring, plan.dtype).capabilities.centrality
    kernels = kernels or get_backend("reference").capabilities.centrality
    assert kernels is not None
    return kernels
