"""Predict the costs of the rules that close a matrix, in one unit, so that rules compare and `explain` prints them.

The unit is a pair of the dense closure in float64. Costs follow from the graph, the dtype and the rules that the
caller allows. They never depend on a machine, because the chosen rule decides how results are rounded.
docs/benchmarks/thresholds.md has the measurements from which the numbers were fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algorithms.schedule import analysis_operations, dense_operations, search_operations
from semiring.algorithms.supernodal import PAIRS_PER_WRITE, predict_operations
from semiring.graphs.graph_structure import NO_STRUCTURE, Structure

__all__ = ["CostEstimate", "compare_costs"]

_TRIANGLE = 0.6  # the share of the time of n³ pairs that one triangle takes
_COMPONENTS = 0.15  # the share of that time that components take beside their own pairs
_HOPS, _ROUNDS = 50.0, 450.0  # pairs for each entry, and the most further pairs for each reachable pair of vertices
_TREE = 250.0  # pairs for each entry: the passes over the matrix


class CostEstimate(dict[str, float]):
    """The predicted costs of the compared rules in pairs, by the names of the rules."""

    @property
    def cheapest(self) -> str:
        """The name of the rule of the lowest cost."""
        return min(self, key=self.__getitem__)

    def __str__(self) -> str:
        ordered = sorted(self.items(), key=lambda item: item[1])
        return ", ".join(f"{name} {pairs:.2g}" for name, pairs in ordered) + " pairs"


def compare_costs(
    name: str,
    n: int,
    dtype: np.dtype[Any],
    structure: Structure = NO_STRUCTURE,
    *,
    edges: int = 0,
    allowed_rules: frozenset[str] = frozenset(),
    **rivals: Callable[[], bool],
) -> CostEstimate:
    """Compare the cost of a rule with the dense closure and with rivals, until a rival costs less.

    Parameters
    ----------
    name
        The rule.
    n, dtype
        The number of vertices, and the dtype in which the matrix is read.
    structure
        The structure of the graph. Some costs search it for components, or for an elimination order.
    edges
        The number of edges, for searches and elimination orders.
    allowed_rules
        The names of the rivals that may use the structure of the graph.
    rivals
        A function for each rival that returns whether the rival applies. A rival is skipped if the prediction of its
        cost would take longer than the rule itself.

    Returns the predicted costs in pairs.
    """
    costs = CostEstimate({each: _cost(each, n, dtype, structure, edges) for each in ("dense", name)})
    for rival, applies in rivals.items():
        worth = costs.cheapest == name and _lower_bound(rival, n, edges) < costs[name]
        if worth and rival in allowed_rules and applies():
            costs[rival] = _cost(rival, n, dtype, structure, edges)
    return costs


def _lower_bound(name: str, n: int, edges: int) -> float:
    """Return a lower bound of the cost of a rule, with the time for predicting it."""
    return PAIRS_PER_WRITE * n * n + analysis_operations(n, edges) if name == "separators" else 0.0


def _cost(name: str, n: int, dtype: np.dtype[Any], structure: Structure, edges: int) -> float:
    dense = dense_operations(n, dtype.itemsize)
    match name:
        case "searches":
            return search_operations(n, edges, share=structure.mean_reach)
        case "separators":
            return predict_operations(structure.analysis, structure.is_symmetric)
        case "components":
            return dense * (_COMPONENTS + (1 - _COMPONENTS) * structure.components.pairs() / n**3)
        case "undirected":
            return dense * _TRIANGLE
        case "hops":
            return (_HOPS + _ROUNDS * structure.mean_reach) * n * n
        case "bottleneck":
            return _TREE * n * n
    return dense
