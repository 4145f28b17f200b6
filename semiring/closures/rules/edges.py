"""Run Dijkstra's algorithm on the edges of a dense matrix, if the caller named such a method: the rule `edges`."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.methods import takes_edges
from semiring.closures.call import Call
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.rules.searches import dijkstra, graph_of

__all__ = ["edges"]


def _make_graph(call: Call) -> Any:
    from scipy.sparse import coo_array

    rows, columns = np.nonzero(call.none != call.A)
    return graph_of(call, coo_array((call.A[rows, columns], (rows, columns)), shape=call.A.shape))


@question()
def edges_have_potentials(call: Call) -> bool:
    """Return whether the edges have floating-point potentials, as Dijkstra's algorithm requires.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the range of floats.
    """
    return call.result_of(_make_graph)[1] is not None


@rule("edges")
def edges(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Search the edges of a dense matrix by Dijkstra's algorithm, if the caller named such a method.

    Raises `NegativeCycleError`, and `DomainError` for sums beyond the range of floats.
    """
    if not takes_edges(d.method):
        return NotApplicable("the method takes a matrix")
    if q.ask(edges_have_potentials):
        return dijkstra(d, _make_graph)
    why = "weights of very different size: rkleene closes each strong component with potentials of its own"
    return Rewrite(why, d.replace(method="rkleene"))
