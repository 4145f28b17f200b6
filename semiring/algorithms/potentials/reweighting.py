"""Choose the potentials under which one strong component is closed: the cheapest that are accurate enough.

A small matrix of floats first tries the potentials of one elimination (`small_potentials`). Any other matrix takes
sweeps of Bellman-Ford (`potentials`). If potentials in float64 would drown a weight, exact potentials replace them
(`exact_arithmetic`).
"""

from __future__ import annotations

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.potentials.exact_arithmetic import ExactComponentPotentials
from semiring.algorithms.potentials.rounding import is_shift_accurate, least_weight
from semiring.algorithms.potentials.small_matrices import SMALL, small_potentials
from semiring.algorithms.potentials.sweeps import exact_cycle_error, potentials
from semiring.algorithms.potentials.tropical_weights import Weights, check_range
from semiring.algorithms.rkleene import rkleene
from semiring.arrays.parts import to_host_array
from semiring.errors import DomainError, NegativeCycleError
from semiring.kernels.engine import engine_of, make_plan
from semiring.namespaces import Array, array_namespace

__all__ = ["choose_potentials", "potentials_by_sweeps"]

_SWEEPS = 8  # limit of the sweeps over a matrix that is not in memory, where an elimination would need a float64 copy


def choose_potentials(weights: Weights, threads: int, *, in_memory: bool = True) -> Array | ExactComponentPotentials:
    """Return potentials (n,) of a strong component, in int64 for integers, and in float64 or exact for floats.

    Raises `NegativeCycleError` with the vertices in the caller's numbering. Raises `DomainError` where sums of floats
    may leave their range, and where a matrix that is not ``in_memory`` needs more than `_SWEEPS` sweeps.
    """
    A, h = weights.A, None
    if A.dtype.kind == "i":
        # The potentials are whole numbers, in either work dtype.
        return potentials_by_sweeps(weights, threads, in_memory=in_memory).astype(np.int64)
    if weights.n <= SMALL and array_namespace(A) is np:
        with np.errstate(over="ignore", invalid="ignore"):
            h = small_potentials(np.asarray(A) if weights.is_plain else weights.rows(slice(None)))
    potentials = potentials_by_sweeps(weights, threads, in_memory=in_memory) if h is None else h
    check_range(potentials, *weights.range, A.dtype)
    if h is not None or not weights.epsilon or is_shift_accurate(to_host_array(potentials), least_weight(weights)):
        return potentials
    if not in_memory:
        raise DomainError(
            "the weights differ too much in size, and some are below 0: float64 would lose the small ones. Close the "
            "matrix in the memory of one process"
        )
    try:
        return ExactComponentPotentials(
            to_host_array(weights.rows(slice(None))), weights.epsilon, to_host_array(potentials)
        )
    except NegativeCycleError as error:
        raise exact_cycle_error(weights, weights.original_vertices(list(error.cycle))) or error from None


def potentials_by_sweeps(weights: Weights, threads: int, *, in_memory: bool = True) -> Array:
    """Return potentials (n,) of any graph, float64 or int64, by sweeps; raises `NegativeCycleError`."""
    with np.errstate(over="ignore", invalid="ignore"):  # `check_range` reports an overflow
        if in_memory:
            return potentials(weights, lambda D: _close(D, threads))
        return potentials(weights, max_passes=_SWEEPS)


def _close(D: Array, threads: int) -> bool:
    """Close a min-plus matrix D of float64, with any signs, in place.

    Returns whether no pivot is negative. If a pivot is negative, D is undefined.
    """
    plan = make_plan(min_plus, D.dtype, threads=threads)
    engine = engine_of(plan, D)
    if engine.capabilities.streams is not None:
        plan.status.word = array_namespace(D).full(1, -1, np.int32)
    rkleene(engine, D)
    return plan.status.read() < 0
