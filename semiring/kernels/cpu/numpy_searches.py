"""Search best paths from one vertex in NumPy, for first calls.

All edges from the vertices whose values improved are relaxed at once, until no value improves (Bellman and Ford, with a
frontier). If no edge improves on 1̄, the values are those of Dijkstra's algorithm, bit by bit: each is the best of the
values before it, times an edge. If exactly one edge attains each value, the predecessors are the same too. Otherwise,
or if vertices improve too often, the loops of `semiring.kernels.cpu.dijkstra_loops` search.

Source: R. Bellman, Quart. Appl. Math. 16 (1958).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, Array, KernelPlan
from semiring.kernels.cpu.numpy_kernels import compile_expression
from semiring.kernels.cpu.numpy_sparse import spread
from semiring.kernels.definition import define

Graph = tuple[Array, Array, Array, bool]

_VISITS = 6  # relaxations of an edge on average, and rounds for 32 edges, after which the loops search


class _Tree(NamedTuple):
    """The best paths from one vertex: values (n,), predecessors (n,) int32, and the reached vertices, best first."""

    values: Array
    predecessors: Array
    order: Array


def _search(plan: KernelPlan, graph: Graph, source: int, limit: Any) -> _Tree | None:
    """Return the best paths from a vertex to all vertices no worse than the limit, or None if loops must search."""
    starts, heads, weights, is_opposite = graph
    definition, n = define(plan), starts.size - 1
    add, mul = (compile_expression(each, plan.dtype) for each in (definition.add, definition.mul))
    if add is not np.fmin and add is not np.fmax:
        return None
    worse, better = (np.greater, np.less) if add is np.fmin else (np.less, np.greater)

    def times(x: Array, w: Array) -> Array:
        product: Array = mul(w, x, out=np.empty_like(x)) if is_opposite else mul(x, w, out=np.empty_like(x))
        return product

    values = np.full(n, plan.zero, plan.dtype)
    values[source] = plan.one
    frontier, visits, rounds = np.array([source]), 0, 0
    while frontier.size:
        lengths = starts[frontier + 1] - starts[frontier]
        edges = spread(starts[frontier], lengths)
        visits, rounds = visits + edges.size, rounds + 1
        if visits > _VISITS * heads.size or 32 * rounds > _VISITS * heads.size + 1024:
            return None
        offers, ends = times(np.repeat(values[frontier], lengths), weights[edges]), heads[edges]
        improves = better(offers, values[ends]) & ~worse(offers, limit)
        offers, ends = offers[improves], ends[improves]
        add.at(values, ends, offers)
        frontier = np.unique(ends)
    reached = np.flatnonzero(values != plan.zero)
    order = reached[np.argsort(values[reached] if add is np.fmin else -values[reached], kind="stable")]
    lengths = starts[reached + 1] - starts[reached]
    edges = spread(starts[reached], lengths)
    ends, tails = heads[edges], np.repeat(reached, lengths)
    attains = times(values[tails], weights[edges]) == values[ends]
    attains &= values[ends] != plan.zero
    ends, tails = ends[attains], tails[attains]
    counts = np.bincount(ends, minlength=n)
    counts[source] += 1
    if (counts[reached] != 1).any() or (values[order[1:]] == values[order[:-1]]).any():
        return None
    predecessors = np.full(n, NO_PREDECESSOR, np.int32)
    predecessors[ends] = tails
    return _Tree(values, predecessors, order)


def search_table(plan: KernelPlan, graph: Graph, sources: Array, targets: Array, out: Array, trees: Array) -> int:
    """Compute `PathKernels.search_table` of the contract for the first sources, and return how many these are."""
    for row, source in enumerate(sources.tolist()):
        tree = _search(plan, graph, source, plan.zero)
        if tree is None:
            return row
        out[row] = tree.values[targets]
        if trees.shape[0]:
            trees[row] = tree.predecessors
            if targets.size and (out[row] != plan.zero).all():  # the loops end at the last target
                place = np.empty(tree.values.size, np.int64)
                place[tree.order] = np.arange(tree.order.size)
                trees[row, tree.order[place[targets].max() + 1 :]] = NO_PREDECESSOR
    return sources.size


def search_near(
    plan: KernelPlan, graph: Graph, sources: Array, targets: Array, limit: Any
) -> tuple[Array, Array, Array]:
    """Compute `dijkstra_loops.search_near` for the first sources: counts, vertices and values."""
    counts: list[int] = []
    vertices, values = [np.empty(0, np.int32)], [np.empty(0, plan.dtype)]
    for source in sources.tolist():
        tree = _search(plan, graph, source, limit)
        if tree is None:
            break
        found = tree.order[targets[tree.order]]
        counts.append(found.size)
        vertices.append(found.astype(np.int32))
        values.append(tree.values[found])
    return np.array(counts, np.int64), np.concatenate(vertices), np.concatenate(values)
