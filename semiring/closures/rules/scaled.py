"""Close products of max-times and min-times that gain under factors p: the rule `scaled`.

No weight w[i, j] · p[i] / p[j] gains. Products are scaled back and rounded once. Cost: some sweeps over the matrix to
find factors; the scaling needs no extra pass. Source, rounding and hazards: `semiring.algorithms.potentials.scales`.
"""

from __future__ import annotations

from typing import Any

from semiring.algebra.catalogue import max_times, min_times
from semiring.algorithms.potentials.scales import cycle_weights, scales
from semiring.algorithms.stars import gain_error
from semiring.closures.call import Call
from semiring.closures.entry_maps import CallMap, FactorScaling
from semiring.closures.plan import Draft, NotApplicable, Rewrite
from semiring.closures.planner import Recorder, question, rule
from semiring.closures.questions import products_gain

__all__ = ["scaled"]


def _find_factors(call: Call) -> Any:
    """Return the factors, or None. Raises `DivergenceError` with the vertices of a cycle that gains."""
    factors = scales(call.A, call.semiring, call.kind.rounded_to)
    if isinstance(factors, list):  # a cycle that gains
        weights = cycle_weights(call.A, factors)
        raise gain_error(call.semiring, call.to_caller_direction(factors), weights, check=call.kind.options.check)
    return factors


@question()
def products_have_factors(call: Call) -> bool:
    """Return whether the products of all paths stay in the range of float64."""
    return call.result_of(_find_factors) is not None


@rule("scaled")
def scaled(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close products that gain under scaling factors, so that no scaled weight gains.

    Raises `DivergenceError` with the vertices of a cycle that gains.
    """
    semiring, products = d.semiring, d.semiring in (max_times, min_times)
    if d.dtype.kind != "f" or not products or not q.may_scan or not q.ask(products_gain):
        return NotApplicable("no product gains")
    if not q.ask(products_have_factors):
        return NotApplicable("products of paths leave the range of float64")
    map_ = CallMap(lambda call: FactorScaling(call.result_of(_find_factors), semiring))
    return Rewrite("weights that gain: scaled by potentials, so that none does", d.with_map(map_))
