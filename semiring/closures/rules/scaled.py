"""Products that gain, of max-times and min-times, under factors: w[i, j] · p[i] / p[j] gains nowhere.

Cost: some sweeps over the matrix to find them; no pass of their own. Products are scaled back and rounded once. Source,
rounding and hazards: `semiring.algorithms.potentials.scales`.
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import max_times, min_times
from semiring.algorithms.potentials.scales import scales, weights_around
from semiring.algorithms.stars import gain_error
from semiring.closures.call import Call
from semiring.closures.maps import MapOfCall, Scaled
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import products_gain

__all__ = ["scaled"]


def _factors(call: Call) -> Any:
    """Return the factors, or None. Raises `DivergenceError` with the vertices of a cycle that gains."""
    found = scales(call.A, call.semiring, call.kind.rounded_to)
    if isinstance(found, list):
        weights = weights_around(call.A, found)
        raise gain_error(call.semiring, call.caller(found), weights, check=call.kind.options.check)
    return found


@question()
def products_have_factors(call: Call) -> bool:
    """Whether the products of all paths stay in the range of float64."""
    return call.found(_factors) is not None


@rule("scaled")
def scaled(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the matrix under factors. Raises `DivergenceError` with a vertex of a cycle that gains."""
    semiring, products = d.semiring, d.semiring in (max_times, min_times)
    if d.dtype.kind != "f" or not products or not q.scanned or not q.ask(products_gain):
        return NotApplicable("no product gains")
    if not q.ask(products_have_factors):
        return NotApplicable("products of paths leave the range of float64")
    map_ = MapOfCall(lambda call: Scaled(call.found(_factors), semiring))
    return Rewrite("weights that gain: scaled by potentials, so that none does", d.mapped(map_))
