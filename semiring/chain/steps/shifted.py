"""Floats below 0 under potentials: w[i, j] + h[i] - h[j] ≥ 0, and every distance differs by the same shift.

Cost: some sweeps over the matrix to find them, or one elimination, and a look at the sizes of the weights; no pass of
their own. Distances are shifted back and rounded once. Where potentials in float64 would drown a weight, the matrix is
closed under exact ones (`semiring.algorithms.exact`), with copies in float64 and of integers. Source, proof and
hazards: `semiring.algorithms.potentials`, docs/rounding.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.exact import Exact
from semiring.algorithms.potentials import potentials, verified
from semiring.algorithms.rounding import covers, least_weight
from semiring.algorithms.small_potentials import SMALL, small_potentials
from semiring.algorithms.weights import Weights, check_range, finite_range
from semiring.arrays.parts import on_host
from semiring.chain.leaf import close_any_signs, engine_of
from semiring.chain.maps import WITHOUT, Shifted
from semiring.chain.problem import Facts, No, Problem, Reduction
from semiring.errors import DomainError, NegativeCycleError
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.chain.planner import Node

__all__ = ["is_signed", "part_potentials", "potentials_of", "shifted", "under", "weights_of"]

_SWEEPS = 8  # that a matrix which is not in memory is worth: an elimination would need a copy of it in float64


def shifted(p: Problem) -> No | Reduction:
    """The floats of one strong component under potentials.

    Raises `NegativeCycleError`; `DomainError` where sums of weights may leave the range of floats.
    """
    m = p.matrix
    if not is_signed(p) or m.array.dtype.kind == "i":
        return No("no float is below 0")
    h = p.known.potentials
    if h is None:
        h = part_potentials(p, weights_of(p))
    elif not isinstance(h, Exact) and len(m.shape) == 3:
        why = "small matrices with weights below 0: potentials of all, and then all closed by one launch"
        return Reduction(why, p.mapped(Shifted(h), Facts(0, None, True)))
    if isinstance(h, Exact):
        why = "weights of very different size in one strong component: closed under exact potentials"
        return Reduction(why, p, run=partial(_exactly, h))
    return under(p, h)


def is_signed(p: Problem) -> bool:
    """Whether weights of min-plus are below 0."""
    return bool(p.semiring is min_plus and p.known.least is not None and p.known.least < 0)


def under(p: Problem, h: Any) -> Reduction:
    """The matrix under potentials h."""
    signs = f"both signs or all {'negative' if p.matrix.sign > 0 else 'positive'}"
    why = f"weights of {signs}: reweighted by potentials to ≥ 0"
    return Reduction(why, p.mapped(Shifted(h), Facts(0, None, True)))


def _exactly(exact: Exact, node: Node, D: Any) -> Any:
    p, xp = node.inner, array_namespace(D)
    inspect = p.request.inspect
    node.way.encode(p.matrix.array, D)
    before = None if inspect is None else D.copy()
    W = on_host(D).astype(np.float64)

    def close(R: Any) -> None:
        there = xp.asarray(R)
        changes = {"array": there, "dtype": there.dtype, "inner": np.inf, "none": np.inf, "maps": ()}
        request = replace(p.request, inspect=None)
        q = p.but(Facts(0.0, None, True), request=request, home=there, in_place=True, **changes)
        node.plan(q, 0).run(there)
        R[...] = on_host(there)

    with np.errstate(over="ignore"):  # a distance beyond the range of the dtype is ∞
        D[...] = xp.asarray(exact.distances(W, close).astype(D.dtype))
    if inspect is not None:
        inspect.look(engine_of(p.kernel_plan(), D), D, before=before, pivots=None)
    return D


def weights_of(p: Problem) -> Weights:
    """The floats of a min-plus problem, as the search for potentials sees them."""
    m = p.matrix
    return Weights.of(m.array, m.sign, m.none, *finite_range(m.array), unbounded=WITHOUT in m.maps)


def part_potentials(p: Problem, weights: Weights) -> Any:
    """Potentials (n,) of floats of one strong component; `Exact` ones where those in float64 would drown a weight.

    Raises `NegativeCycleError` with the vertices as the caller counts them; `DomainError` where sums of weights may
    leave the range of the dtype.
    """
    m, h = p.matrix, None
    with np.errstate(over="ignore", invalid="ignore"):  # seen below
        if (
            weights.n <= SMALL
            and not m.on_device
            and (m.sign > 0 or weights.vertices is not None)
            and not weights.unbounded
        ):
            h = small_potentials(weights.rows(slice(None)) if weights.vertices is not None else m.array)
        found = potentials_of(p, weights) if h is None else h
    low, high = weights.range
    check_range(found, low, high, m.array.dtype)
    if h is not None or not weights.epsilon or covers(on_host(found), least_weight(weights)):
        return found
    if p.strips:
        raise DomainError(
            "weights of very different size, some below 0: potentials in float64 would drown the small ones, and "
            "strips have no room for more; close the matrix in memory"
        )
    W = on_host(weights.rows(slice(None)))
    try:
        return Exact(W, weights.epsilon, on_host(found))
    except NegativeCycleError as error:
        raise _named(p, weights, weights.named(list(error.cycle))) or error from None


def potentials_of(p: Problem, weights: Weights) -> Any:
    """Potentials of weights in float64 or int64. Raises `NegativeCycleError` in the caller's vertices."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # `check_range` sees it
            if p.strips:
                return potentials(weights, most=_SWEEPS)
            return potentials(weights, lambda D: close_any_signs(D, p.request.threads))
    except NegativeCycleError as error:
        raise _named(p, weights, list(error.cycle)) or error from None


def _named(p: Problem, weights: Weights, cycle: list[int]) -> NegativeCycleError | None:
    """The error for a cycle in vertices of the array: in those of the caller, whose edges may be reversed."""
    A = weights.A.T if p.matrix.turned else weights.A
    return verified(replace(weights, A=A, vertices=None), p.matrix.caller(cycle))
