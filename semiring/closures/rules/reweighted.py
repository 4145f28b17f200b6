"""Floats below 0 under potentials: w[i, j] + h[i] - h[j] ≥ 0, and every distance differs by the same shift.

Cost: some sweeps over the matrix to find them, or one elimination, and a look at the sizes of the weights; no pass of
their own. Distances are shifted back and rounded once. Where potentials in float64 would drown a weight, the matrix is
closed under exact ones, with copies in float64 and of integers. Source, proof and hazards:
`semiring.algorithms.potentials`, docs/rounding.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.potentials.exact import Exact
from semiring.arrays.parts import on_host
from semiring.arrays.scans import Scan
from semiring.closures.call import Call, Part
from semiring.closures.maps import MapOfCall, Shifted
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule, solve
from semiring.namespaces import array_namespace

__all__ = ["SHIFTED", "both_signs", "reweighted"]

SHIFTED = MapOfCall(lambda call: Shifted(call.potentials))


@question()
def potentials_are_exact(call: Call) -> bool:
    """Whether weights differ so much in size that potentials in float64 would drown one.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    return isinstance(call.potentials, Exact)


@rule("reweighted")
def reweighted(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Close the floats of one strong component under potentials.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    if not d.signed or q.kind.dtype.kind == "i":
        return NotApplicable("no floating-point weight is below 0")
    if q.ask(potentials_are_exact):
        why = "weights of very different size in one strong component: closed with exact potentials"
        return Rewrite(why, d.but(close=_exactly))
    return Rewrite(both_signs(d.matrix.sign), d.mapped(SHIFTED, signed=False, nonnegative=True, at_least_zero=True))


def both_signs(sign: int) -> str:
    """Why weights of min-plus (``sign`` 1) or max-plus (-1) are read under potentials."""
    return f"weights of both signs or all {'negative' if sign > 0 else 'positive'}: reweighted by potentials to ≥ 0"


def _exactly(work: Work, D: Any) -> Any:
    call, d, xp = work.call, work.draft, array_namespace(D)
    before = work.read(D)
    W = on_host(D).astype(np.float64)
    inherited = Part("reweighted", d.semiring, str(d.method), d.examined)
    scan = Scan(0.0, None, nonnegative=True)

    def close(R: Any) -> None:
        there = xp.asarray(R)
        more = {"structure": call.structure.component_structure()} if d.examined else {}
        solve(call.part(there, part=inherited, plus=d.plus, inspect=None, scan=scan, adjacent=True, **more), there)
        R[...] = on_host(there)

    with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
        D[...] = xp.asarray(call.potentials.distances(W, close).astype(D.dtype))
    work.show(D, before)
    return D
