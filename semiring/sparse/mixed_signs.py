"""Handle weights of both signs: find negative cycles by exact sums on the edges, and compute potentials of floats.

Integers, and whole numbers in floats, are summed exactly. A pivot below 0 is a negative cycle then, and Bellman-Ford on
the edges finds its vertices.

Other floats are rounded. Rounding may make a cycle of weight 0 a little negative. An elimination would repeat such a
cycle, because every pivot doubles the gain of the pivots before it. So floats of both signs are eliminated under
potentials h, as w[i, j] + h[i] - h[j] ≥ 0, under which no cycle gains. Each strong component has its own potentials,
because cycles exist only there. Edges between components keep their sign, and the magnitudes of one component do not
affect another. If the weights of one component differ so much in size that float64 potentials would lose some of them,
all potentials are exact (`exact_weights`). A cycle is negative if its exact sum is below what the rounding of its own
weights explains (`semiring.algorithms.potentials.sweeps`).

Cost: some sweeps, each one pass over the edges. If (n + 1) times the greatest magnitude of a whole-number weight
reaches 2⁴⁹, the sweeps compute with Python's integers, at 0.3 µs an edge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algorithms.bellman_ford import Labels, bellman_ford
from semiring.algorithms.johnson import SparseGraph, edge_graph, edge_potentials
from semiring.algorithms.potentials.rounding import shift_bound
from semiring.algorithms.potentials.sweeps import cycle_error
from semiring.algorithms.potentials.tropical_weights import check_range
from semiring.sparse.exact_weights import ExactPotentials, make_exact_relaxation

__all__ = ["find_potentials", "raise_for_negative_cycle"]

Array = NDArray[Any]

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
