"""Close small matrices whose weights gain, below 0 in min-plus or above 1 in max-times, under potentials in one loop.

The results are bitwise identical to those of the rules `signs`, ``reweighted``, ``scaled`` and ``integers``
(`semiring.closures.rules`) for larger matrices.

* Floats of min-plus and max-plus: the strong components in the same order, each under the potentials of one elimination
  in float64. Potentials are valid if the elimination succeeds and they drown no weight
  (`semiring.algorithms.potentials.small_matrices`). Between components, products of the original weights are computed
  along the same halves.
* Floats of max-times and min-times: factors by sweeps.
* Integers whose sums are exact in float64: closed in float64.

The kernels of each definition close the blocks (`pivot_loops.close`). The rules close all other matrices.

Cost: n³ or 2 n³ pairs a matrix, stacks on several threads. Workspace: some matrices a thread.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_plus, max_times, min_plus, min_times
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.closing.gaining_factors import IntegerClosure, ScaledClosure
from semiring.kernels.cpu.closing.gaining_potentials import PotentialClosure
from semiring.kernels.cpu.kernels import Kernels

__all__ = ["SmallGains"]

Array: TypeAlias = NDArray[Any]

_ROWS = 160  # the most rows for which one thread and one block are as fast as the rules for larger matrices


class SmallGains:
    """The operations of `semiring.kernels.contract.ClosureKernels` on matrices that gain, on the host."""

    def max_rows(self, plan: KernelPlan) -> int:
        """Return the most rows of a matrix that `survey` and `close` support, or 0 if they do not support the plan."""
        closure = _gaining_closure(plan)
        return 0 if closure is None or closure.closing.first_calls.remaining_seconds else _ROWS

    def survey(self, plan: KernelPlan, A: Array) -> Any:
        """Return the survey of A (count, n, n) for `close`, or None if a matrix needs another method."""
        closure = _gaining_closure(plan)
        return None if closure is None else closure.survey(_make_contiguous(A), plan.threads)

    def close(self, plan: KernelPlan, A: Array, survey: Any, out: Array) -> None:
        """Write A* of every matrix to ``out``, which may be A; ``survey`` is the result of `SmallGains.survey`."""
        closure = _gaining_closure(plan)
        assert closure is not None
        D = out if out.flags.carray else np.empty(out.shape, out.dtype)
        closure.close(_make_contiguous(A), survey, D, plan.threads)
        if D is not out:
            out[...] = D


class _GainingClosure(Protocol):
    """The survey and the closure of small matrices that gain, for one semiring and dtype."""

    closing: Kernels

    def survey(self, A: Array, threads: int) -> Any: ...

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None: ...


def _gaining_closure(plan: KernelPlan) -> _GainingClosure | None:
    """Return the closure for a plan's semiring and dtype, or None if there is none."""
    if "gaining" not in plan.memo:
        plan.memo["gaining"] = _make_gaining_closure(plan.semiring, plan.dtype)
    closure: _GainingClosure | None = plan.memo["gaining"]
    return closure


def _make_gaining_closure(semiring: Semiring, dtype: np.dtype[Any]) -> _GainingClosure | None:
    sign = 1 if semiring == min_plus else -1
    if semiring in (min_plus, max_plus) and dtype.kind == "i":
        return IntegerClosure(semiring.zero_for(dtype), sign)
    if dtype.char not in "fd":
        return None
    if semiring in (min_plus, max_plus):
        return PotentialClosure(dtype, sign)
    return ScaledClosure(semiring, dtype) if semiring in (max_times, min_times) else None


def _make_contiguous(A: Array) -> Array:
    return A if A.flags.carray else np.array(A, order="C")
