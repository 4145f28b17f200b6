"""Few edges and small separators: A* by sparse elimination, a sweep through the factors for every row.

Cost: an elimination order, which is tried where there are at most `_EDGES` edges a vertex, more of large graphs, and
where no level of a breadth-first search is wide; the operations that it leads to are known then, and decide.
The bits are those of ``structure=False`` where ⊗ and ⊕ are exact; else a path may be added up in another order, with
the same bound (docs/rounding.md). Source: `semiring.algorithms.supernodal`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.supernodal import by_separators
from semiring.closures.call import Call
from semiring.closures.costs import CostEstimate, compare_costs
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Question, Recorder, question, rule
from semiring.closures.questions import products_gain
from semiring.graphs.structure import Structure

__all__ = ["few_enough", "may_separate", "separators"]

_EDGES = 7  # a vertex, both ways, of up to 4096 vertices: with more, an order takes too long beside a closure
_LEAST_ON_DEVICE = 12288  # vertices: an order takes 0.1 s there
#: Widest levels of a search that the vertices are, at least. An order of random edges, of which a level holds 0.38 and
#: more, takes up to a quarter of a closure of 2048 vertices on two threads; of a small world it holds 0.2.
_WIDTHS, _WIDTHS_ON_DEVICE = 3, 16


@question()
def edges_are_listed(call: Call) -> bool:
    """Whether the edges are so few that they are listed."""
    return call.structure.pattern is not None


@question()
def edges_are_few_enough(call: Call) -> bool:
    """Whether an elimination order is worth its time beside a closure."""
    return few_enough(call.structure, call.n)


@question()
def separators_may_be_small(call: Call) -> bool:
    """Whether one breadth-first search shows small separators."""
    return may_separate(call.structure, call.n, call.kind.device is not None)


@cache
def _costs_in(dtype: np.dtype[Any]) -> Callable[[Call], CostEstimate]:
    """The predicted costs of closing a matrix that is read in a dtype."""

    def costs(call: Call) -> CostEstimate:
        seen, allowed = call.structure, call.kind.options.structure
        symmetric, searched = seen.is_symmetric and call.semiring.commutative, seen.search is not None
        rivals: dict[str, Any] = {"undirected": lambda: symmetric, "components": lambda: searched}
        return compare_costs("separators", call.n, dtype, seen, allowed=allowed, **rivals)

    return lambda call: call.found(costs)


@cache
def separators_are_cheapest_in(dtype: np.dtype[Any]) -> Question[bool]:
    """Whether a sparse elimination is predicted to be faster than what else closes a matrix that is read in a dtype."""

    def separators_are_cheapest(call: Call) -> bool:
        return _costs_in(dtype)(call).cheapest == "separators"

    return Question(separators_are_cheapest, None)


@rule("separators", structure=True, methods=("supernodal",))
def separators(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the matrix by sparse elimination."""
    asked = q.method == "supernodal"
    if d.matrix.storage == "bits" or not (q.ask(edges_are_listed) if asked else q.ask(edges_are_few_enough)):
        return NotApplicable("not known to have few edges")
    if d.chosen:
        return NotApplicable(f"closed by its {d.chosen}")
    if not d.semiring.idempotent:
        return NotApplicable("⊕ is not idempotent: which pivots have a star depends on the order")
    if d.signed or (q.scanned and q.ask(products_gain)):
        return NotApplicable("only numbers of 0 or more, and products that do not gain")
    if not asked and not q.ask(separators_may_be_small):
        return NotApplicable("one search found no small separators")
    costs = _costs_in(d.dtype)
    if not asked and not q.ask(separators_are_cheapest_in(d.dtype)):
        return NotApplicable("no small separators", costs)
    commutative = d.semiring.commutative

    def method_of(call: Call) -> Method:
        return by_separators(call.structure.analysis, call.structure.is_symmetric and commutative, call.A)

    return Rewrite("small separators", d.but(method_of=method_of, chosen="supernodal"), costs=costs)


def may_separate(seen: Structure, n: int, on_device: bool = False) -> bool:
    """Whether the levels of a breadth-first search show small separators, before an order is looked for."""
    if on_device:
        return n >= _LEAST_ON_DEVICE and seen.widest_level * _WIDTHS_ON_DEVICE <= n
    return seen.widest_level * _WIDTHS <= n


def few_enough(seen: Structure, n: int) -> bool:
    """Whether an elimination order is worth its time beside a closure of n vertices."""
    if seen.edges is None:
        return False
    return seen.edges * (1 if seen.is_symmetric else 2) <= _EDGES * n * max(1.0, n / 4096)
