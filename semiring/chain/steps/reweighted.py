"""Floats below 0 under potentials: w[i, j] + h[i] - h[j] ≥ 0, and every distance differs by the same shift.

Cost: some sweeps over the matrix to find them, or one elimination, and a look at the sizes of the weights; no pass of
their own. Distances are shifted back and rounded once. Where potentials in float64 would drown a weight, the matrix is
closed under exact ones, with copies in float64 and of integers. Source, proof and hazards:
`semiring.algorithms.potentials`, docs/rounding.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.exact import Exact
from semiring.algorithms.potentials.reweighting import reweighting
from semiring.algorithms.potentials.weights import Weights, finite_range
from semiring.arrays.parts import on_host
from semiring.chain.maps import WITHOUT, Shifted
from semiring.chain.planner import Node
from semiring.chain.problem import Facts, Look, Problem, Reduction, step
from semiring.namespaces import array_namespace

__all__ = ["is_signed", "reweighted", "under_potentials", "weights_of"]


@step
def reweighted(p: Problem) -> Look:
    """The floats of one strong component under potentials.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    m = p.matrix
    yield not is_signed(p) or m.array.dtype.kind == "i", "no floating-point weight is below 0"
    h = p.known.potentials
    if h is None:
        h = reweighting(weights_of(p), p.request.threads, in_memory=not p.strips)
    if isinstance(h, Exact):
        why = "weights of very different size in one strong component: closed with exact potentials"
        return Reduction(why, p, close=partial(_exactly, h))
    return Reduction(*under_potentials(p, h))


def is_signed(p: Problem) -> bool:
    """Whether weights of min-plus are below 0."""
    return bool(p.semiring is min_plus and p.known.least is not None and p.known.least < 0)


def under_potentials(p: Problem, h: Any) -> tuple[str, Problem]:
    """Why, and the matrix under potentials h."""
    signs = f"both signs or all {'negative' if p.matrix.sign > 0 else 'positive'}"
    return f"weights of {signs}: reweighted by potentials to ≥ 0", p.mapped(Shifted(h), Facts(0, None, True))


def _exactly(exact: Exact, node: Node, D: Any) -> Any:
    p, xp = node.inner, array_namespace(D)
    before = node.read(D)
    W = on_host(D).astype(np.float64)

    def close(R: Any) -> None:
        there = xp.asarray(R)
        changes = {"array": there, "dtype": there.dtype, "inner": np.inf, "none": np.inf, "maps": ()}
        q = p.but(Facts(0.0, None, True), inspect=None, home=there, **changes)
        node.plan(q, 0).solve(there)
        R[...] = on_host(there)

    with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
        D[...] = xp.asarray(exact.distances(W, close).astype(D.dtype))
    node.show(D, before)
    return D


def weights_of(p: Problem) -> Weights:
    """The weights of a min-plus problem, as the search for potentials sees them."""
    m, floats = p.matrix, p.matrix.array.dtype.kind == "f"
    low, high = finite_range(m.array, m.sign) if floats else p.known[:2]
    return Weights.of(p.entries, m.sign, m.none, low, high, WITHOUT in m.maps, m.turned, m.rounded_to)
