"""Edges of unbounded gain, -∞ in min-plus: the others are closed without them, and then they are inserted.

Cost: O(n²) for every vertex that such an edge leaves. The bits of finite distances are those of the matrix without
them. See `semiring.algorithms.unbounded`.
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.weights import finite_range
from semiring.algorithms.unbounded import check_unbounded, insert_unbounded, unbounded_edges
from semiring.closures.call import Call
from semiring.closures.costs import CostEstimate
from semiring.closures.maps import UNSIGNED, WITHOUT
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Stage
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import signs
from semiring.errors import NegativeCycleError
from semiring.out_of_core.last_round import LastRound

__all__ = ["unbounded"]


def _edges(call: Call) -> dict[int, Any]:
    """The heads of the edges of unbounded gain of each tail. Raises `NegativeCycleError` where one lies on a cycle."""
    edges = unbounded_edges(call.A, call.sign)
    try:
        check_unbounded(call.A, edges, call.semiring)
    except NegativeCycleError as error:
        raise type(error)(str(error), call.caller(error.cycle)) from None
    return edges


@question()
def others_are_below_zero(call: Call) -> bool:
    """Whether a weight is below 0 beside the edges of unbounded gain, none of which lies on a cycle."""
    call.found(_edges)
    return bool(finite_range(call.A, call.sign)[0] < 0)


@rule("unbounded")
def unbounded(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the matrix without them. Raises `NegativeCycleError` where one lies on a cycle."""
    if d.semiring is not min_plus or not d.signed or q.kind.part is not None or q.ask(signs) != "unbounded":
        return NotApplicable("no edge has unbounded gain")
    signed = q.ask(others_are_below_zero)
    maps = (*d.matrix.maps, WITHOUT) if signed else (*d.matrix.maps, WITHOUT, UNSIGNED)
    inner = d.but(maps=maps, signed=signed, nonnegative=not signed, at_least_zero=not signed)
    return Rewrite(
        _why,
        inner.but(stages=(*d.stages, Stage(inner.matrix, _insert))),
        by_rows=False,
        last_round=lambda call: LastRound(edges=call.found(_edges)),
        costs=lambda call: CostEstimate(insertion=float(len(call.found(_edges)) * call.n**2)),
    )


def _why(call: Call) -> str:
    return f"{sum(map(len, call.found(_edges).values()))} edges of unbounded gain, inserted last"


def _insert(call: Call, D: Any) -> None:
    insert_unbounded(call.found(_edges), D)
