"""Sums of dependencies over all shortest paths from some vertices, by Brandes's algorithm.

One search from a source settles the vertices by distance. A second pass counts the shortest paths, in the same order:
an edge v → u is *tight* if the distance of v plus its weight is the distance of u. A third pass, in the opposite order,
adds up the dependencies over the tight edges. Distances are compared exactly. A tight edge leads from a vertex to one
that was settled later, so the tight edges have no cycle. Among vertices at one distance, edges of weight 0 lead from a
lower to a higher rank.

If no two offers to one vertex were equal, one shortest path leads to each vertex, and the tree of the search has the
tight edges. Counts of paths above the range of floats are repeated with an exponent for each vertex. The sources are
cut into blocks, whose sizes depend on the graph alone. Each block adds up in arrays of its own, and the blocks are
added in order. So the sums do not depend on the number of threads.

Source: U. Brandes, "A faster algorithm for betweenness centrality", J. Math. Sociol. 25 (2001). Cost: that of a search,
and O(n + m), a source.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from semiring.errors import DomainError
from semiring.kernels.contract import Array, KernelPlan, dependency_block
from semiring.kernels.cpu.dijkstra_loops import new_workspace, reset_workspace, search
from semiring.kernels.cpu.loops import inner, kernel
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_on_ranges

_LARGEST_COUNT = 1e290  # of paths: beyond it (1 + dependency) / count would lose digits
_PATIENCE = 1.0  # seconds that a thread waits for the next block


@inner
def _order_ties(order, settled, values, ranks, place):
    """Sort the settled vertices by distance and then by rank, and write their positions to ``place``."""
    first = 0
    while ranks.size and first < settled:
        last = first + 1
        while last < settled and values[order[last]] == values[order[first]]:
            last += 1
        if last - first > 1:
            own = order[first:last].copy()
            order[first:last] = own[np.argsort(ranks[own], kind="mergesort")]
        first = last
    for i in range(settled):
        place[order[i]] = i


@inner
def _find_tight_edges(starts, heads, weights, order, settled, values, place, has_ranks, tight, ends, counts):
    """List the tight edges by the positions of their tails, and count the shortest paths to each vertex.

    Return the largest count, or NaN if a sum absorbs a weight above 0 and vertices at one distance are in the order of
    edges of weight 0, which need not be that of the edge.
    """
    for i in range(settled):
        counts[order[i]] = 0.0
    counts[order[0]] = 1.0
    size, largest = 0, 1.0
    for i in range(settled):
        v = order[i]
        value, count = values[v], counts[v]
        largest = max(largest, count)
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if value + weights[e] == values[u]:
                if has_ranks and u != v and value == values[u] and weights[e] > 0:
                    return np.nan
                if place[u] > i:
                    counts[u] += count
                    tight[size] = e
                    size += 1
        ends[i] = size
    return largest


@inner
def _search_by_hops(starts, heads, source, order, levels, tight, ends, counts):
    """Find the vertices by breadth-first search, the tight edges and the counts. Return how many, and the largest."""
    order[0], levels[source], counts[source] = source, 0, 1.0
    size, found, i, largest = 0, 1, 0, 1.0
    while i < found:
        v = order[i]
        level, count = levels[v] + 1, counts[v]
        largest = max(largest, count)
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if levels[u] < 0:
                levels[u], counts[u] = level, 0.0
                order[found] = u
                found += 1
            if levels[u] == level:
                counts[u] += count
                tight[size] = e
                size += 1
        ends[i] = size
        i += 1
    return found, largest


@inner
def _count_with_exponents(heads, order, settled, tight, ends, counts, exponents):
    """Count the shortest paths to each vertex as counts · 2^exponents, with counts from 1/2 to 1."""
    for i in range(settled):
        counts[order[i]], exponents[order[i]] = 0.0, 0
    counts[order[0]] = 1.0
    first = 0
    for i in range(settled):
        v = order[i]
        count, shift = math.frexp(counts[v])
        counts[v] = count
        exponents[v] += shift
        for t in range(first, ends[i]):
            u = heads[tight[t]]
            difference = exponents[v] - exponents[u]
            if counts[u] == 0.0 or difference > 1100:
                counts[u], exponents[u] = count, exponents[v]
            elif difference > 0:
                counts[u], exponents[u] = math.ldexp(counts[u], -difference) + count, exponents[v]
            elif difference > -1100:
                counts[u] += math.ldexp(count, difference)
        first = ends[i]


@inner
def _add_sums(heads, order, settled, tight, ends, counts, exponents, shares, has_endpoints, vertex_sums, edge_sums):
    """Add the dependencies of one source. ``exponents`` (n,) are empty if the counts have none.

    ``shares`` (n,) is workspace: (1 + dependency) / count of each vertex, without the division if there are exponents.
    """
    has_exponents, has_edges = exponents.size > 0, edge_sums.size > 0
    for i in range(settled - 1, -1, -1):
        v = order[i]
        count, dependency = counts[v], 0.0
        for t in range(ends[i - 1] if i else 0, ends[i]):
            e = tight[t]
            u = heads[e]
            if has_exponents:
                power = max(-1100, exponents[v] - exponents[u])
                share = math.ldexp(count / counts[u], power) * shares[u]
            else:
                share = count * shares[u]
            dependency += share
            if has_edges:
                edge_sums[e] += share
        shares[v] = 1.0 + dependency if has_exponents else (1.0 + dependency) / count
        if i:
            vertex_sums[v] += dependency + has_endpoints
    vertex_sums[order[0]] += (settled - 1) * has_endpoints


@inner
def _add_sums_of_tree(starts, heads, order, settled, before, shares, has_endpoints, vertex_sums, edge_sums):
    """Add the dependencies of one source from which one shortest path leads to each vertex, the tree ``before``."""
    for i in range(settled):
        shares[order[i]] = 1.0
    for i in range(settled - 1, 0, -1):
        v = order[i]
        share, tail = shares[v], before[v]
        shares[tail] += share
        vertex_sums[v] += share - 1.0 + has_endpoints
        if edge_sums.size:
            low, high = starts[tail], starts[tail + 1] - 1
            while low < high:
                middle = (low + high) >> 1
                if heads[middle] < v:
                    low = middle + 1
                else:
                    high = middle
            edge_sums[low] += share
    vertex_sums[order[0]] += (settled - 1) * has_endpoints


@kernel
def _add_dependencies(
    sr, starts, heads, weights, ranks, sources, zero, one, has_endpoints, vertex_sums, edge_sums, largest_count
):
    """Compute `CentralityKernels.add_dependencies` of the contract for one block of sources, on one thread.

    Return whether the order of two vertices was known: see `_find_tight_edges`.
    """
    n, m = starts.size - 1, heads.size
    by_hops, no_targets = weights.size < m, np.zeros(n, np.bool_)
    work = new_workspace(0 if by_hops else n, zero)
    _, _, place, order, values, before = work
    levels = np.full(n if by_hops else 0, -1, np.int32)
    if by_hops:
        order = np.empty(n, np.int32)
    tight, ends = np.empty(m, np.int64), np.empty(n, np.int64)
    counts, shares, no_exponents, settled, size = np.empty(n), np.empty(n), np.empty(0, np.int64), 0, 0
    for source in sources:
        has_ties, largest = True, 1.0
        if by_hops:
            settled, largest = _search_by_hops(starts, heads, source, order, levels, tight, ends, counts)
        else:
            settled, size, has_ties = search(sr, starts, heads, weights, source, zero, one, zero, no_targets, 0, work)
            if has_ties:
                _order_ties(order, settled, values, ranks, place)
                largest = _find_tight_edges(
                    starts, heads, weights, order, settled, values, place, ranks.size > 0, tight, ends, counts
                )
                if np.isnan(largest):
                    return False
        if has_ties:
            exponents = no_exponents
            if not largest < largest_count:
                exponents = np.empty(n, np.int64)
                _count_with_exponents(heads, order, settled, tight, ends, counts, exponents)
            _add_sums(
                heads, order, settled, tight, ends, counts, exponents, shares, has_endpoints, vertex_sums, edge_sums
            )
        else:
            _add_sums_of_tree(starts, heads, order, settled, before, shares, has_endpoints, vertex_sums, edge_sums)
        if by_hops:
            for i in range(settled):
                levels[order[i]] = -1
        else:
            reset_workspace(work, settled, size, zero)
    return True


class _OrderedSum:
    """Sums of blocks, which are added in the order of their numbers, from whatever thread they come.

    A thread that is more than ``most`` blocks ahead waits for the block that is next, so few sums wait in memory. It
    does not wait for ever, because the other thread may need it to compile.
    """

    def __init__(self, totals: tuple[Array, ...], most: int) -> None:
        self.totals, self.number, self.most = totals, 0, most
        self.waiting: dict[int, tuple[Array, ...]] = {}
        self.condition = threading.Condition()

    def add(self, number: int, sums: tuple[Array, ...]) -> None:
        with self.condition:
            self.condition.wait_for(lambda: number <= self.number + self.most, _PATIENCE)
            self.waiting[number] = sums
            while self.number in self.waiting:
                for total, part in zip(self.totals, self.waiting.pop(self.number), strict=True):
                    total += part
                self.number += 1
            self.condition.notify_all()


def add_dependencies(
    plan: KernelPlan, graph: Any, sources: Array, has_endpoints: bool, vertex_sums: Array, edge_sums: Array
) -> None:
    """Compute `CentralityKernels.add_dependencies` of the contract."""
    starts, heads, weights, ranks = graph
    sr, total = ScalarSemiring(plan), _OrderedSum((vertex_sums, edge_sums), 2 * plan.threads)
    block = dependency_block(starts.size + heads.size)

    def add_blocks(first: int, last: int) -> None:
        for start in range(first, last, block):
            sums = np.zeros_like(vertex_sums), np.zeros_like(edge_sums)
            some = sources[start : min(last, start + block)]
            is_ordered = _add_dependencies(
                *(sr, starts, heads, weights, ranks, some, plan.zero, plan.one),
                *(float(has_endpoints), *sums, _LARGEST_COUNT),
            )
            if not is_ordered:
                raise DomainError(
                    "some weights are 0, and some are so small that longer paths absorb them: scale the weights to "
                    "whole numbers"
                )
            total.add(start // block, sums)

    run_on_ranges(add_blocks, sources.size, block, plan.threads, unit=block, reports=True)
