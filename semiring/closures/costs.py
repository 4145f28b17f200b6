"""Predicted costs of the ways to close a matrix, in one unit, so that rules compare them and `explain` shows them.

The unit is a pair of the dense closure in float64. Costs follow from the graph, the dtype and which rules the caller
allows, never from a machine: they decide bits. The numbers were fitted where docs/benchmarks/thresholds.md says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algorithms.schedule import analysis_operations, dense_operations, search_operations
from semiring.algorithms.supernodal import WRITTEN, operations
from semiring.graphs.structure import NO_STRUCTURE, Structure

__all__ = ["CostEstimate", "compare_costs"]

_TRIANGLE = 0.6  # of the time of n³ pairs that one triangle takes
_COMPONENTS = 0.15  # of it, that components take beside the pairs that are left
_HOPS, _ROUNDS = 50.0, 450.0  # pairs an entry, and at most so many more where a path leads
_TREE = 250.0  # pairs an entry: the passes over the matrix


class CostEstimate(dict[str, float]):
    """What the ways that were compared cost, in pairs, by their names."""

    @property
    def cheapest(self) -> str:
        """The name of the way that costs least."""
        return min(self, key=self.__getitem__)

    def __str__(self) -> str:
        ordered = sorted(self.items(), key=lambda item: item[1])
        return ", ".join(f"{way} {pairs:.2g}" for way, pairs in ordered) + " pairs"


def compare_costs(
    way: str,
    n: int,
    dtype: np.dtype[Any],
    seen: Structure = NO_STRUCTURE,
    *,
    edges: int = 0,
    allowed: frozenset[str] = frozenset(),
    **rivals: Callable[[], bool],
) -> CostEstimate:
    """What a rule would cost, what the dense closure would, and rivals, one after the other until one costs less.

    ``rivals``: whether a rule finds what it needs. Those not ``allowed``, which may not spare work, are none. The price
    of some takes a search for components, or for an elimination order: nobody asks where that would cost more.
    """
    costs = CostEstimate({name: _cost(name, n, dtype, seen, edges) for name in ("dense", way)})
    for rival, applies in rivals.items():
        worth = costs.cheapest == way and _least(rival, n, edges) < costs[way]
        if worth and rival in allowed and applies():
            costs[rival] = _cost(rival, n, dtype, seen, edges)
    return costs


def _least(way: str, n: int, edges: int) -> float:
    """What a way costs at least, and to find out how much."""
    return WRITTEN * n * n + analysis_operations(n, edges) if way == "separators" else 0.0


def _cost(way: str, n: int, dtype: np.dtype[Any], seen: Structure, edges: int) -> float:
    dense = dense_operations(n, dtype.itemsize)
    match way:
        case "searches":
            return search_operations(n, edges, share=seen.mean_reach)
        case "separators":
            return operations(seen.analysis, seen.is_symmetric)
        case "components":
            return dense * (_COMPONENTS + (1 - _COMPONENTS) * seen.components.pairs() / n**3)
        case "undirected":
            return dense * _TRIANGLE
        case "hops":
            return (_HOPS + _ROUNDS * seen.mean_reach) * n * n
        case "bottleneck":
            return _TREE * n * n
    return dense
