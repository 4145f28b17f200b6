"""Edges of unbounded gain, -∞ in min-plus: the others are closed without them, and then they are inserted.

Cost: O(n²) for every vertex that such an edge leaves. The bits of finite distances are those of the matrix without
them. See `semiring.algorithms.unbounded`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.weights import finite_range
from semiring.algorithms.unbounded import check_unbounded, insert_unbounded, unbounded_edges
from semiring.chain.maps import UNSIGNED, WITHOUT
from semiring.chain.prices import Prices
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.errors import NegativeCycleError
from semiring.strips.last import LastRound

__all__ = ["unbounded"]


@step
def unbounded(p: Problem) -> Look:
    """The matrix without them. Raises `NegativeCycleError` where one lies on a cycle."""
    yield p.semiring is not min_plus or p.known.least is None or p.known.least != -np.inf, "no edge has unbounded gain"
    m = p.matrix
    edges = unbounded_edges(p.entries, m.sign)
    try:
        check_unbounded(m.array, edges, p.request.semiring)
    except NegativeCycleError as error:
        raise type(error)(str(error), m.caller(error.cycle)) from None
    least, greatest = finite_range(m.array, m.sign)
    q = p.mapped(WITHOUT, Facts(least, greatest))
    if least >= 0:
        q = q.mapped(UNSIGNED, Facts(least, greatest, True))
    why = f"{sum(map(len, edges.values()))} edges of unbounded gain, inserted last"
    back, prices = partial(insert_unbounded, edges), Prices(insertion=float(len(edges) * p.n**2))
    return Reduction(why, q, [q], back, last_round=LastRound(edges=edges), prices=prices)
