"""Products that gain, of max-times and min-times, under factors: w[i, j] · p[i] / p[j] gains nowhere.

Cost: some sweeps over the matrix to find them; no pass of their own. Products are scaled back and rounded once. Source,
rounding and hazards: `semiring.algorithms.potentials.scales`.
"""

from __future__ import annotations

from semiring.algorithms.potentials.scales import gains, scales
from semiring.algorithms.stars import divergence_error
from semiring.chain.maps import Scaled
from semiring.chain.problem import Facts, Look, Problem, Reduction, step

__all__ = ["scaled"]


@step
def scaled(p: Problem) -> Look:
    """The matrix under factors. Raises `DivergenceError` with a vertex of a cycle that gains."""
    m, known = p.matrix, p.known
    yield m.dtype.kind != "f" or not gains(p.semiring, known.least, known.greatest), "no product gains"
    found = scales(p.entries, p.semiring, m.rounded_to)
    if isinstance(found, list):
        raise divergence_error(p.request.semiring, max(m.caller(found)))
    yield found is None, "products of paths leave the range of float64"
    why = "weights that gain: scaled by potentials, so that none does"
    return Reduction(why, p.mapped(Scaled(found, p.semiring), Facts(nonnegative=known.nonnegative)))
