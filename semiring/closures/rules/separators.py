"""Eliminate sparsely in graphs with few edges and small separators: the rule `separators`.

Every row of A* takes one sweep through the factors. The rule computes an elimination order if there are at most
`_EDGES` edges for each vertex (more in large graphs), and no level of a breadth-first search is wide. The order gives
the number of operations, which decides. The result is bitwise identical to that of ``structure=False`` where ⊗ and ⊕
are exact. Otherwise a path may be added up in another order, with the same bound (docs/rounding.md). Source:
`semiring.algorithms.supernodal`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.supernodal import supernodal_method
from semiring.closures.call import Call
from semiring.closures.costs import CostEstimate, compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Question, Recorder, question, rule
from semiring.closures.questions import products_gain
from semiring.graphs.graph_structure import Structure

__all__ = ["has_few_edges", "may_separate", "separators"]

_EDGES = 7  # edges of a vertex in both directions, up to 4096 vertices: with more, an order takes too long
_LEAST_ON_DEVICE = 12288  # vertices: the order of such a graph takes 0.1 s
#: The least ratio of n to the widest level of a search. In a graph of random edges a level holds 0.38 n or more. Its
#: order takes up to a quarter of a closure of 2048 vertices on two threads. In a small world a level holds 0.2 n.
_WIDTHS, _WIDTHS_ON_DEVICE = 3, 16


@question()
def edges_are_listed(call: Call) -> bool:
    """Return whether the edges are so few that the structure lists them."""
    return call.structure.pattern is not None


@question()
def edges_are_few_enough(call: Call) -> bool:
    """Return whether the edges are few enough for an elimination order to pay for its time."""
    return has_few_edges(call.structure, call.n)


@question()
def separators_may_be_small(call: Call) -> bool:
    """Return whether one breadth-first search shows small separators."""
    return may_separate(call.structure, call.n, call.kind.device is not None)


@cache
def _cost_function(dtype: np.dtype[Any]) -> Callable[[Call], CostEstimate]:
    """Return a function that predicts the costs of closing a matrix that is read in a dtype."""

    def costs(call: Call) -> CostEstimate:
        graph, allowed = call.structure, call.kind.options.structure
        symmetric, has_search = graph.is_symmetric and call.semiring.commutative, graph.search is not None
        rivals: dict[str, Any] = {"undirected": lambda: symmetric, "components": lambda: has_search}
        return compare_costs("separators", call.n, dtype, graph, allowed_rules=allowed, **rivals)

    return lambda call: call.result_of(costs)


@cache
def separators_are_cheapest_in(dtype: np.dtype[Any]) -> Question[bool]:
    """Make the question whether sparse elimination of a matrix read in a dtype is predicted to beat all rivals."""

    def separators_are_cheapest(call: Call) -> bool:
        return _cost_function(dtype)(call).cheapest == "separators"

    return Question(separators_are_cheapest, None)


@rule("separators", structure=True, methods=("supernodal",))
def separators(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close a matrix with small separators by sparse elimination."""
    is_requested = q.method == "supernodal"
    if d.matrix.storage == "bits" or not q.ask(edges_are_listed if is_requested else edges_are_few_enough):
        return NotApplicable("not known to have few edges")
    if d.structural_method:
        return NotApplicable(f"closed by its {d.structural_method}")
    if not d.semiring.idempotent:
        return NotApplicable("⊕ is not idempotent: which pivots have a star depends on the order")
    if d.has_negative_weight or (q.may_scan and q.ask(products_gain)):
        return NotApplicable("only numbers of 0 or more, and products that do not gain")
    if not is_requested and not q.ask(separators_may_be_small):
        return NotApplicable("one search found no small separators")
    costs = _cost_function(d.dtype)
    if not is_requested and not q.ask(separators_are_cheapest_in(d.dtype)):
        return NotApplicable("no small separators", costs)
    commutative = d.semiring.commutative

    def method_of(call: Call) -> Method:
        return supernodal_method(call.structure.analysis, call.structure.is_symmetric and commutative, call.A)

    return Rewrite("small separators", d.replace(method_of=method_of, structural_method="supernodal"), costs=costs)


def may_separate(graph: Structure, n: int, on_device: bool = False) -> bool:
    """Return whether the levels of a breadth-first search show small separators, before an order is computed."""
    if on_device:
        return n >= _LEAST_ON_DEVICE and graph.widest_level * _WIDTHS_ON_DEVICE <= n
    return graph.widest_level * _WIDTHS <= n


def has_few_edges(graph: Structure, n: int) -> bool:
    """Return whether the edges are few enough for an elimination order beside a closure of n vertices."""
    if graph.edges is None:
        return False
    return graph.edges * (1 if graph.is_symmetric else 2) <= _EDGES * n * max(1.0, n / 4096)
