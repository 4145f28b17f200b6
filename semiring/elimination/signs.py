"""Weights of both signs: negative cycles by exact sums on the edges, and potentials where rounding could hide them.

Integers, and whole numbers in floats, are summed exactly: a pivot below 0 is a negative cycle, and Bellman-Ford on the
edges names it. Floats are rounded. A cycle of weight 0 that rounding has made a little negative would be walked again
and again, for every pivot doubles what the pivots before it gained; so floats of both signs are eliminated under
potentials h, as w[i, j] + h[i] - h[j] ≥ 0, where nothing can be gained twice. Each strong component has potentials of
its own, for only there are cycles: edges between components keep their sign, and the magnitudes of one component do not
disturb another. Where weights of one component differ so much in size that its potentials in float64 would drown some,
the caller hears so; `semiring.algorithms.exact` is what dense matrices have for that. A cycle is negative if its exact
sum is below what the rounding of its own weights explains (`semiring.algorithms.potentials`).

Cost: a pass over the edges a sweep, some sweeps; for integers beyond 2⁴⁹ in Python's integers, 0.3 µs an edge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.johnson import SparseGraph, edge_potentials, sparse_graph
from semiring.algorithms.potentials import cycle_error
from semiring.algorithms.rounding import shift_bound
from semiring.algorithms.weights import check_range
from semiring.errors import DomainError

__all__ = ["find_potentials", "name_negative_cycle"]

Array = NDArray[Any]

_EXACT = 2**49  # sums of whole numbers up to here are exact in float64


def find_potentials(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> tuple[Array, Array]:
    """Potentials h (n,) float64 of float min-plus edges (max-plus, with ``sign`` -1), no two of which have equal ends.

    And the number of every vertex's strong component, (n,).

    Raises `NegativeCycleError`, and `DomainError` where no potentials in float64 are good enough.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(
        coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n, n)), connection="strong"
    )
    graph = _graph(n, tails, heads, weights, sign)  # all edges decide whether weights are rounded
    inside = component[graph.tails] == component[graph.heads]
    if not inside.any():
        return np.zeros(n), component
    graph = replace(graph, tails=graph.tails[inside], heads=graph.heads[inside], weights=graph.weights[inside])
    with np.errstate(over="ignore", invalid="ignore"):  # seen by the next line
        h = edge_potentials(graph)
    check_range(h, float(graph.weights.min(initial=0)), float(graph.weights.max(initial=0)), weights.dtype)
    if graph.epsilon:
        _refuse_drowned(graph, h, component, count, weights.dtype)
    return h, component


def _graph(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> SparseGraph:
    from scipy.sparse import coo_array

    return sparse_graph(coo_array((weights, (tails, heads)), shape=(n, n)), sign)


def _refuse_drowned(graph: SparseGraph, h: Array, component: Array, count: int, dtype: np.dtype[Any]) -> None:
    """`DomainError` where potentials of a component disturb one of its weights."""
    least, low = np.full(count, np.inf), np.zeros(count)
    sizes = np.where(graph.weights == 0, np.inf, np.abs(graph.weights))
    np.minimum.at(least, component[graph.tails], sizes)
    np.minimum.at(low, component, h)
    members: Any = np.bincount(component, minlength=count)
    bad = np.flatnonzero(shift_bound(members, -low) >= least)
    if bad.size:
        e = int(np.flatnonzero(sizes == least[bad[0]])[0])
        raise DomainError(
            f"A[{graph.tails[e]}, {graph.heads[e]}] is {graph.sign * graph.weights[e]:.6g}, too small beside other "
            f"weights of both signs on cycles with it, whose sums reach {-low[bad[0]]:.3g}: the potentials that "
            "rounding asks for would drown it. closure, which is dense, takes such matrices"
        )


def name_negative_cycle(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> None:
    """Raise `NegativeCycleError` for the cycle that whole numbers of min-plus edges have; return if they have none."""
    largest = max(-float(weights.min(initial=0)), float(weights.max(initial=0)))
    if largest * (n + 1) < _EXACT:
        edge_potentials(_graph(n, tails, heads, weights, sign))
        return
    order = np.argsort(heads, kind="stable")
    tails, heads = tails[order], heads[order]
    exact = np.array([sign * int(w) for w in weights[order].tolist()], object)
    first = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
    into, runs = heads[first], np.diff(np.append(first, heads.size))
    none = 4 * (n + 1) * (1 + int(largest))  # longer than any path
    h = np.zeros(n, object)

    def relax(_: Array) -> tuple[Array, Array]:
        best, offered_by = np.full(n, none, object), np.full(n, -1)
        candidates = exact + h[tails]
        best[into] = np.minimum.reduceat(candidates, first)
        attains = np.flatnonzero(candidates == np.repeat(best[into], runs))
        offered_by[heads[attains]] = tails[attains]
        return best, offered_by

    if cycle := bellman_ford(Labels(h, relax)):
        places = {(i, j): e for e, (i, j) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True))}
        error = cycle_error(cycle, lambda i, j: exact[places[i, j]], sign, 0.0)
        assert error is not None  # whole numbers were summed exactly
        raise error
