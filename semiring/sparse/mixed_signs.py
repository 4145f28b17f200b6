"""Handle weights of both signs: find negative cycles by exact sums on the edges, and compute potentials of floats.

Integers, and whole numbers in floats, are summed exactly. A pivot below 0 is a negative cycle then, and Bellman-Ford on
the edges finds its vertices.

Other floats are rounded. Rounding may make a cycle of weight 0 a little negative. An elimination would repeat such a
cycle, because every pivot doubles the gain of the pivots before it. So floats of both signs are eliminated under
potentials h, as w[i, j] + h[i] - h[j] ≥ 0, under which no cycle gains. Each strong component has its own potentials,
because cycles exist only there. Edges between components keep their sign, and the magnitudes of one component do not
affect another. If the weights of one component differ so much in size that float64 potentials would lose some of them,
all potentials are exact (`ExactPotentials`). A cycle is negative if its exact sum is below what the rounding of its own
weights explains (`semiring.algorithms.potentials.sweeps`).

Cost: some sweeps, each one pass over the edges. If (n + 1) times the greatest magnitude of a whole-number weight
reaches 2⁴⁹, the sweeps compute with Python's integers, at 0.3 µs an edge.

`ExactPotentials` computes potentials and distances in exact arithmetic, where float64 would lose some weights. Weights
are whole numbers of a common unit, of any length. `semiring.algorithms.potentials.exact_arithmetic` does the same for
dense matrices:

1. Bellman-Ford on the edges computes exact potentials h. If a cycle is below 0, every weight is raised by its own
   rounding. Then a cycle is negative if and only if the rounding of its weights does not explain its sum. So exactly
   these cycles are found.
2. Under the potentials every weight is ≥ 0. The weights are rounded once to float64 and eliminated. Nothing cancels
   then, so r[i, j] = D[i, j] + h[i] - h[j] has a relative error of at most n 2⁻⁵². D is r shifted back exactly and
   rounded once.
3. Where r[i, j] is more than 2²⁰ times |D[i, j]|, the rounding of r could be visible in D. Dijkstra's algorithm on the
   exact weights then computes row i again. Dijkstra's algorithm also computes all paths, and the least solutions for
   right-hand sides of any size.

So every distance has a relative error of at most n 2⁻³². If weights were raised, the distance is the length of a path
whose edges are longer by at most their rounding. Cost: 0.3 µs an edge for each sweep of step 1, 1 µs an entry for step
2, some µs an edge for each row of step 3.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.johnson import SparseGraph, edge_graph, edge_potentials
from semiring.algorithms.potentials.exact_arithmetic import SPREAD, common_unit, from_units, to_units
from semiring.algorithms.potentials.rounding import shift_bound
from semiring.algorithms.potentials.sweeps import cycle_error
from semiring.algorithms.potentials.tropical_weights import check_range
from semiring.errors import DomainError

__all__ = ["ExactPotentials", "find_potentials", "make_exact_relaxation", "raise_for_negative_cycle"]


Array = NDArray[Any]


class ExactPotentials:
    """Exact potentials of min-plus edges, and the weights of the edges under them, ≥ 0."""

    def __init__(self, graph: SparseGraph, h: Array) -> None:
        """Compute the potentials, beginning with ``h`` (n,) float64, ≤ 0.

        Raises `NegativeCycleError`, and `DomainError` if weights under the potentials leave the range of float64.
        """
        self.n, self.sign, self.tails, self.heads = graph.n, graph.sign, graph.tails, graph.heads
        bits = -int(log2(graph.epsilon)) if graph.epsilon else 0  # ε w is a whole number of units too
        self.unit = common_unit(graph.weights) - bits
        weights = to_units(graph.weights, self.unit)
        for lengths in (weights, weights + (abs(weights) >> bits)) if graph.epsilon else (weights,):
            self.h = to_units(h, self.unit)
            relax = make_exact_relaxation(self.n, self.tails, self.heads, lengths, self.h)
            cycle = bellman_ford(Labels(self.h, relax))
            if not cycle:
                break
        if cycle:
            places = {(i, j): w for i, j, w in zip(*self._ends(), graph.weights.tolist(), strict=True)}
            error = cycle_error(cycle, lambda i, j: Fraction(places[i, j]), graph.sign, graph.epsilon)
            assert error is not None  # sums are exact, so the rounding of the weights does not explain this cycle
            raise error
        ends = graph.weights.min(initial=0), graph.weights.max(initial=0)
        check_range(from_units(self.h, self.unit), float(ends[0]), float(ends[1]), np.dtype(np.float64))
        self.weights = np.maximum(weights + self.h[self.tails] - self.h[self.heads], 0)
        self._outgoing_edges: list[list[tuple[int, int]]] | None = None
        self._incoming_edges: list[list[tuple[int, int]]] | None = None

    def _ends(self) -> tuple[list[int], list[int]]:
        """Return the tails and the heads of the edges as lists."""
        return self.tails.tolist(), self.heads.tolist()

    def reduced_weights(self) -> Array:
        """Return the weights of the edges, ≥ 0, each rounded once to float64."""
        return np.asarray(from_units(self.weights, self.unit))

    def row_distances(self, sources: Array, targets: Any, reduced_distances: Array) -> Array:
        """Return distances (p, q) in float64.

        ``reduced_distances`` are the distances of the reduced weights, (p, q).
        """
        is_finite = np.isfinite(reduced_distances)
        r = np.where(is_finite, self.sign * reduced_distances, 0.0)
        shift = self.h[sources][:, np.newaxis] - self.h[targets]
        D = from_units(to_units(r, self.unit) - shift, self.unit)
        far = is_finite & (np.abs(D) < r / SPREAD)  # r / SPREAD is in range for any size of r
        D = np.where(is_finite, D, np.inf)
        for row in np.flatnonzero(far.any(axis=1)).tolist():
            labels, _ = self._search({int(sources[row]): 0})
            D[row] = self._lengths([labels[v] for v in targets.tolist()], shift[row])
        return np.asarray(self.sign * D)

    def pair_distances(self, sources: Array, targets: Array, reduced_distances: Array) -> Array:
        """Return the distances (p,) of pairs of vertices, with at most one exact search for each source."""
        out = np.empty(reduced_distances.shape)
        order = np.argsort(sources, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(sources[order])) + 1):
            if some.size:
                out[some] = self.row_distances(sources[some[:1]], targets[some], reduced_distances[some][np.newaxis])[0]
        return out

    def solve(self, B: Array, transpose: bool) -> Array:
        """Return the least x = A ⊗ x ⊕ b (x = x ⊗ A ⊕ b), for b (n, k) in float64, exactly and rounded once.

        Raises `DomainError` for an entry of b of unbounded gain.
        """
        if (self.sign * B == -np.inf).any():
            raise DomainError("b has an entry of unbounded gain, which this factor does not support: leave it out")
        solution = np.empty(B.shape)
        shift = -self.h if transpose else self.h
        for column in range(B.shape[1]):
            b = self.sign * B[:, column]
            ends = np.flatnonzero(np.isfinite(b))
            unit = min(self.unit, common_unit(b[ends])) if ends.size else self.unit
            exponent = self.unit - unit
            begin = to_units(b[ends], unit) + (shift[ends] << exponent)
            labels, _ = self._search(dict(zip(ends.tolist(), begin.tolist(), strict=True)), not transpose, exponent)
            solution[:, column] = self.sign * self._lengths(labels, shift << exponent, unit)
        return solution

    def path(self, source: int, target: int) -> list[int]:
        """Return the vertices of a best path, or [] if no path exists."""
        labels, before = self._search({source: 0})
        if labels[target] is None:
            return []
        vertices = [target]
        while vertices[-1] != source:
            vertices.append(before[vertices[-1]])
        return vertices[::-1]

    def _lengths(self, labels: list[int | None], shift: Array, unit: int | None = None) -> Array:
        """Return the labels minus a shift, both in units, as floats: ∞ for a vertex without a label."""
        has_label = np.array([label is not None for label in labels], np.bool_)
        numbers = np.array([0 if label is None else label for label in labels], object)
        return np.where(has_label, from_units(numbers - shift, self.unit if unit is None else unit), np.inf)

    def _search(
        self, initial_labels: dict[int, int], is_reversed: bool = False, unit_shift: int = 0
    ) -> tuple[list[int | None], list[int]]:
        """Run Dijkstra's algorithm from the labels of some vertices, and return all labels and all predecessors.

        Labels are multiples of 2^(unit - unit_shift). ``is_reversed``: whether paths follow the edges backwards.
        """
        edges = self._edges(is_reversed)
        labels: list[int | None] = [None] * self.n
        before, is_settled = [-1] * self.n, [False] * self.n
        heap = [(label, vertex) for vertex, label in initial_labels.items()]
        for label, vertex in heap:
            labels[vertex] = label
        heapify(heap)
        while heap:
            label, vertex = heappop(heap)
            if is_settled[vertex]:
                continue
            is_settled[vertex] = True
            for other, weight in edges[vertex]:
                longer, current = label + (weight << unit_shift), labels[other]
                if current is None or longer < current:
                    labels[other], before[other] = longer, vertex
                    heappush(heap, (longer, other))
        return labels, before

    def _edges(self, is_reversed: bool) -> list[list[tuple[int, int]]]:
        """Return the ends and the weights of the edges out of each vertex, or of the edges into it if reversed."""
        edge_lists = self._incoming_edges if is_reversed else self._outgoing_edges
        if edge_lists is None:
            edge_lists = [[] for _ in range(self.n)]
            for i, j, weight in zip(*self._ends(), self.weights.tolist(), strict=True):
                edge_lists[j if is_reversed else i].append((i if is_reversed else j, weight))
            if is_reversed:
                self._incoming_edges = edge_lists
            else:
                self._outgoing_edges = edge_lists
        return edge_lists


def make_exact_relaxation(n: int, tails: Array, heads: Array, weights: Array, h: Array) -> Any:
    """Return the relaxation for `Labels` over edges that are sorted by head, whose weights are Python's integers.

    The relaxation reads ``h`` at each call, so the caller must update ``h`` in place.
    """
    first = np.flatnonzero(np.append(True, heads[1:] != heads[:-1])) if heads.size else heads
    into, runs = heads[first], np.diff(np.append(first, heads.size))
    none = 4 * (n + 1) * (1 + int(np.abs(weights).max(initial=0))) + int(np.abs(h).max(initial=0))  # beyond any path

    def relax(_: Array) -> tuple[Array, Array]:
        best, offered_by = np.full(n, none, object), np.full(n, -1)
        if heads.size:
            candidates = weights + h[tails]
            best[into] = np.minimum.reduceat(candidates, first)
            attains = np.flatnonzero(candidates == np.repeat(best[into], runs))
            offered_by[heads[attains]] = tails[attains]
        return best, offered_by

    return relax


_MAX_EXACT_SUM = 2**49  # sums of whole numbers up to this limit are exact in float64


def find_potentials(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> tuple[Any, Any] | ExactPotentials:
    """Return potentials h (n,) float64 of min-plus edges with floats, and each vertex's strong component (n,).

    With ``sign`` -1 the edges are those of max-plus. No two edges may have the same tail and head. If float64
    potentials would lose a weight, exact potentials are returned instead. Raises `NegativeCycleError`, and
    `DomainError` if sums of weights leave the range of the dtype.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(
        coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n, n)), connection="strong"
    )
    graph = edge_graph(
        n, tails, heads, weights, sign
    )  # of all edges, because any edge may show that weights are rounded
    inside = component[graph.tails] == component[graph.heads]
    if not inside.any():
        return np.zeros(n), component
    part = replace(graph, tails=graph.tails[inside], heads=graph.heads[inside], weights=graph.weights[inside])
    with np.errstate(over="ignore", invalid="ignore"):  # `check_range` detects both
        h = edge_potentials(part)
    check_range(h, float(part.weights.min(initial=0)), float(part.weights.max(initial=0)), weights.dtype)
    if graph.epsilon and _loses_weights(part, h, component, count):
        return ExactPotentials(graph, h)
    return h, component


def _loses_weights(graph: SparseGraph, h: Array, component: Array, count: int) -> bool:
    """Return whether the potentials of a component are so large that rounding affects one of its weights."""
    least, low = np.full(count, np.inf), np.zeros(count)
    sizes = np.where(graph.weights == 0, np.inf, np.abs(graph.weights))
    np.minimum.at(least, component[graph.tails], sizes)
    np.minimum.at(low, component, h)
    members: Any = np.bincount(component, minlength=count)
    return bool((shift_bound(members, -low) >= least).any())


def raise_for_negative_cycle(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> None:
    """Raise `NegativeCycleError` if edges with whole-number weights have a negative cycle in min-plus.

    With ``sign`` -1, raise `PositiveCycleError` for a positive cycle in max-plus.
    """
    largest = max(-float(weights.min(initial=0)), float(weights.max(initial=0)))
    if largest * (n + 1) < _MAX_EXACT_SUM:
        edge_potentials(edge_graph(n, tails, heads, weights, sign))
        return
    order = np.argsort(heads, kind="stable")
    tails, heads = tails[order], heads[order]
    exact = np.array([sign * int(w) for w in weights[order].tolist()], object)
    h = np.zeros(n, object)
    relax = make_exact_relaxation(n, tails, heads, exact, h)
    if cycle := bellman_ford(Labels(h, relax)):
        places = {(i, j): e for e, (i, j) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True))}
        error = cycle_error(cycle, lambda i, j: exact[places[i, j]], sign, 0.0)
        assert error is not None  # whole numbers were summed exactly
        raise error
