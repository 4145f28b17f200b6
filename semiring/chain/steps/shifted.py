"""Weights below 0 under potentials: w[i, j] + h[i] - h[j] ≥ 0, and every distance differs by the same shift.

Cost: some sweeps over the matrix to find them, or one elimination; no pass of their own. Distances are shifted back and
rounded once. Source, proof and hazards: `semiring.algorithms.potentials`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials import potentials, verified
from semiring.algorithms.small_potentials import SMALL, small_potentials
from semiring.algorithms.weights import Weights, check_range, finite_range
from semiring.chain.leaf import eliminates
from semiring.chain.maps import WITHOUT, Shifted
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.errors import NegativeCycleError

__all__ = ["shifted"]


def shifted(p: Problem) -> No | Reduction:
    """The matrix under potentials.

    Raises `NegativeCycleError`; `DomainError` or `IntegerOverflowError` where sums of weights may leave their range.
    """
    if p.semiring is not min_plus or p.known.least is None or not p.known.least < 0:
        return No("no weight is below 0", "data")
    m = p.matrix
    h = p.known.potentials
    if h is None:
        h = _of_integers(p) if m.array.dtype.kind == "i" else _of_floats(p)
    elif len(m.shape) == 3:
        why = "small matrices with weights below 0: potentials of all, and then all closed by one launch"
        return Reduction(why, p.mapped(Shifted(h), Facts(0, None, True)))
    signs = f"both signs or all {'negative' if m.sign > 0 else 'positive'}"
    why = f"weights of {signs}: reweighted by potentials to ≥ 0"
    return Reduction(why, p.mapped(Shifted(h), Facts(0, None, True)))


def _of_integers(p: Problem) -> Any:
    m = p.matrix
    low, high = (p.known.least, p.known.greatest) if m.sign > 0 else (-p.known.greatest, -p.known.least)
    weights = Weights.of(m.array, m.sign, m.none, low, high)
    return _potentials(p, weights).astype(np.int64)  # whole numbers in any case


def _of_floats(p: Problem) -> Any:
    m, without = p.matrix, WITHOUT in p.matrix.maps
    low, high = finite_range(m.array)
    weights = Weights.of(m.array, m.sign, m.none, low, high, unbounded=without)
    small = m.sign > 0 and not without and p.n <= SMALL and not m.there
    with np.errstate(over="ignore", invalid="ignore"):  # seen below
        h = small_potentials(m.array) if small else None
        if h is None:
            h = _potentials(p, weights)
    check_range(h, *((low, high) if m.sign > 0 else (-high, -low)), m.array.dtype)
    return h


def _potentials(p: Problem, weights: Weights) -> Any:
    try:
        return potentials(weights, lambda D: eliminates(D, p.request.threads))
    except NegativeCycleError as error:
        if not p.matrix.turned:
            raise
        # Its edges are those of the transpose: the same cycle, the other way round, is one of the caller's matrix.
        raise verified(replace(weights, A=weights.A.T), p.matrix.caller(error.cycle)) or error from None
