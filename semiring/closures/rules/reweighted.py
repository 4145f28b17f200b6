"""Shift a matrix with negative weights by potentials h, close it, and shift it back: the rule `reweighted`.

All shifted weights w[i, j] + h[i] - h[j] of a strong component are ≥ 0. All paths from i to j change by the same amount
h[i] - h[j]. The distances are shifted back and rounded once. If potentials in float64 would round a weight away, the
matrix is closed under exact potentials, with copies in float64 and in integers.

Cost: some sweeps over the matrix to find potentials, or one elimination, and a scan of the magnitudes of the weights;
the shift needs no extra pass. Source, proof and hazards: `semiring.algorithms.potentials`, docs/rounding.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algorithms.potentials.exact_arithmetic import ExactComponentPotentials
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import Scan
from semiring.closures.call import Call, Part
from semiring.closures.entry_maps import CallMap, PotentialShift
from semiring.closures.plan import Draft, NotApplicable, Rewrite, Work
from semiring.closures.planner import Recorder, question, rule, solve
from semiring.namespaces import array_namespace

__all__ = ["SHIFTED", "both_signs", "reweighted"]

SHIFTED = CallMap(lambda call: PotentialShift(call.potentials))


@question()
def potentials_are_exact(call: Call) -> bool:
    """Return whether the magnitudes of weights differ so much that potentials in float64 would round one away.

    Raises `NegativeCycleError`, and `DomainError` if sums of weights may leave the range of floats.
    """
    return isinstance(call.potentials, ExactComponentPotentials)


@rule("reweighted")
def reweighted(q: Recorder, d: Draft) -> NotApplicable | Rewrite:
    """Shift floating-point weights by potentials, so that all weights of a strong component are ≥ 0.

    Raises `NegativeCycleError`, and `DomainError` if sums of weights may leave the range of floats.
    """
    if not d.has_negative_weight or q.kind.dtype.kind == "i":
        return NotApplicable("no floating-point weight is below 0")
    if q.ask(potentials_are_exact):
        why = "weights of very different size in one strong component: closed with exact potentials"
        return Rewrite(why, d.replace(close=_close_exactly))
    return Rewrite(
        both_signs(d.matrix.sign), d.with_map(SHIFTED, has_negative_weight=False, nonnegative=True, at_least_zero=True)
    )


def both_signs(sign: int) -> str:
    """Return the reason why weights of min-plus (``sign`` 1) or max-plus (-1) are read under potentials."""
    return f"weights of both signs or all {'negative' if sign > 0 else 'positive'}: reweighted by potentials to ≥ 0"


def _close_exactly(work: Work, D: Any) -> Any:
    """Close D in place under exact potentials, from a float64 copy of the weights in host memory."""
    call, d, xp = work.call, work.draft, array_namespace(D)
    before = work.read(D)
    W = to_host_array(D).astype(np.float64)
    inherited = Part("reweighted", d.semiring, str(d.method), d.may_use_structure)
    scan = Scan(0.0, None, nonnegative=True)

    def close(R: Any) -> None:
        matrix = xp.asarray(R)
        results = {"structure": call.structure.component_structure()} if d.may_use_structure else {}
        fields = {"part": inherited, "plus": d.plus, "has_adjacent_rows": True}
        solve(call.part(matrix, inspection=None, scan=scan, **fields, **results), matrix)
        R[...] = to_host_array(matrix)

    with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
        D[...] = xp.asarray(call.potentials.distances(W, close).astype(D.dtype))
    work.find_predecessors(D, before)
    return D
