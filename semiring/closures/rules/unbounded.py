"""Close the matrix without edges of unbounded gain (-∞ in min-plus), and then insert these edges: the rule `unbounded`.

Cost: O(n²) for every vertex that such an edge leaves. Finite distances are bitwise identical to those of the matrix
without these edges. See `semiring.algorithms.unbounded_edges`.
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.weights import finite_range
from semiring.algorithms.unbounded_edges import check_unbounded, insert_unbounded, unbounded_edges
from semiring.closures.call import Call
from semiring.closures.costs import CostEstimate
from semiring.closures.entry_maps import BOUNDED_GAIN, POSITIVE_ZEROS
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Stage
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import signs
from semiring.errors import NegativeCycleError
from semiring.out_of_core.last_round import LastRound

__all__ = ["unbounded"]


def _find_edges(call: Call) -> dict[int, Any]:
    """Return the heads of the edges of unbounded gain for each tail.

    Raises `NegativeCycleError` if such an edge lies on a cycle.
    """
    edges = unbounded_edges(call.A, call.sign)
    try:
        check_unbounded(call.A, edges, call.semiring)
    except NegativeCycleError as error:
        raise type(error)(str(error), call.to_caller_direction(error.cycle)) from None
    return edges


@question()
def has_negative_finite_weight(call: Call) -> bool:
    """Return whether a finite weight is below 0.

    Raises `NegativeCycleError` if an edge of unbounded gain lies on a cycle.
    """
    call.result_of(_find_edges)
    return bool(finite_range(call.A, call.sign)[0] < 0)


@rule("unbounded")
def unbounded(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the matrix without edges of unbounded gain, and insert these edges last.

    Raises `NegativeCycleError` if such an edge lies on a cycle.
    """
    if (
        d.semiring is not min_plus
        or not d.has_negative_weight
        or q.kind.part is not None
        or q.ask(signs) != "unbounded"
    ):
        return NotApplicable("no edge has unbounded gain")
    signed = q.ask(has_negative_finite_weight)
    maps = (*d.matrix.maps, BOUNDED_GAIN) if signed else (*d.matrix.maps, BOUNDED_GAIN, POSITIVE_ZEROS)
    inner = d.replace(maps=maps, has_negative_weight=signed, nonnegative=not signed, at_least_zero=not signed)
    return Rewrite(
        _reason,
        inner.replace(stages=(*d.stages, Stage(inner.matrix, _insert))),
        is_rowwise=False,
        last_round=lambda call: LastRound(edges=call.result_of(_find_edges)),
        costs=lambda call: CostEstimate(insertion=float(len(call.result_of(_find_edges)) * call.n**2)),
    )


def _reason(call: Call) -> str:
    return f"{sum(map(len, call.result_of(_find_edges).values()))} edges of unbounded gain, inserted last"


def _insert(call: Call, D: Any) -> None:
    insert_unbounded(call.result_of(_find_edges), D)
