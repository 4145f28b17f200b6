"""Weights of both signs: negative cycles by exact sums on the edges, and potentials where rounding could hide them.

Integers, and whole numbers in floats, are summed exactly: a pivot below 0 is a negative cycle, and Bellman-Ford on the
edges names it. Floats are rounded. A cycle of weight 0 that rounding has made a little negative would be walked again
and again, for every pivot doubles what the pivots before it gained; so floats of both signs are eliminated under
potentials h, as w[i, j] + h[i] - h[j] ≥ 0, where nothing can be gained twice. Each strong component has potentials of
its own, for only there are cycles: edges between components keep their sign, and the magnitudes of one component do not
disturb another. Where weights of one component differ so much in size that its potentials in float64 would drown some,
all potentials are exact ones (`exact`). A cycle is negative if its exact
sum is below what the rounding of its own weights explains (`semiring.algorithms.potentials.sweeps`).

Cost: a pass over the edges a sweep, some sweeps; for integers beyond 2⁴⁹ in Python's integers, 0.3 µs an edge.
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
from semiring.algorithms.potentials.weights import check_range
from semiring.sparse.exact_weights import ExactPotentials, exact_minimum

__all__ = ["find_potentials", "name_negative_cycle"]

Array = NDArray[Any]

_EXACT = 2**49  # sums of whole numbers up to here are exact in float64


def find_potentials(
    n: int, tails: Array, heads: Array, weights: Array, sign: int
) -> tuple[Array, Array] | ExactPotentials:
    """Potentials h (n,) float64 of float min-plus edges (max-plus, with ``sign`` -1), no two of which have equal ends.

    And the number of every vertex's strong component, (n,); or exact potentials, where these would drown a weight.
    Raises `NegativeCycleError`, and `DomainError` where sums of weights leave the range of the dtype.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(
        coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n, n)), connection="strong"
    )
    graph = edge_graph(n, tails, heads, weights, sign)  # all edges decide whether weights are rounded
    inside = component[graph.tails] == component[graph.heads]
    if not inside.any():
        return np.zeros(n), component
    part = replace(graph, tails=graph.tails[inside], heads=graph.heads[inside], weights=graph.weights[inside])
    with np.errstate(over="ignore", invalid="ignore"):  # seen by the next line
        h = edge_potentials(part)
    check_range(h, float(part.weights.min(initial=0)), float(part.weights.max(initial=0)), weights.dtype)
    if graph.epsilon and _drowns(part, h, component, count):
        return ExactPotentials(graph, h)
    return h, component


def _drowns(graph: SparseGraph, h: Array, component: Array, count: int) -> bool:
    """Whether potentials of a component disturb one of its weights."""
    least, low = np.full(count, np.inf), np.zeros(count)
    sizes = np.where(graph.weights == 0, np.inf, np.abs(graph.weights))
    np.minimum.at(least, component[graph.tails], sizes)
    np.minimum.at(low, component, h)
    members: Any = np.bincount(component, minlength=count)
    return bool((shift_bound(members, -low) >= least).any())


def name_negative_cycle(n: int, tails: Array, heads: Array, weights: Array, sign: int) -> None:
    """Raise `NegativeCycleError` for the cycle that whole numbers of min-plus edges have; return if they have none."""
    largest = max(-float(weights.min(initial=0)), float(weights.max(initial=0)))
    if largest * (n + 1) < _EXACT:
        edge_potentials(edge_graph(n, tails, heads, weights, sign))
        return
    order = np.argsort(heads, kind="stable")
    tails, heads = tails[order], heads[order]
    exact = np.array([sign * int(w) for w in weights[order].tolist()], object)
    h = np.zeros(n, object)
    relax = exact_minimum(n, tails, heads, exact, h)
    if cycle := bellman_ford(Labels(h, relax)):
        places = {(i, j): e for e, (i, j) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True))}
        error = cycle_error(cycle, lambda i, j: exact[places[i, j]], sign, 0.0)
        assert error is not None  # whole numbers were summed exactly
        raise error
