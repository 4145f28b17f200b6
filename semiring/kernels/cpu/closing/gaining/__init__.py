"""Small matrices whose weights gain, below 0 in min-plus or above 1 in max-times: closed under potentials by one loop.

The same as the rules `signs`, ``reweighted``, ``scaled`` and ``integers`` (`semiring.closures.rules`) do to larger
ones, with bitwise identical results. Floats of min-plus and max-plus: the strong components in the same order, each
under the potentials of one elimination in float64, which are taken where they come through and drown no weight
(`semiring.algorithms.potentials.small_matrices`); between components, products of the weights as they are, along the
same halves. Floats of max-times and min-times: factors by sweeps. Integers whose sums are exact in float64 are closed
there. Blocks are closed by the kernels of each definition, which are called from here (`blocks.close`). All other
matrices are left to these rules.

Cost: n³ or 2 n³ pairs a matrix, stacks on several threads; workspace some matrices a thread.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_plus, max_times, min_plus, min_times
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.closing.gaining.factors import Products
from semiring.kernels.cpu.closing.gaining.potentials import Sums
from semiring.kernels.cpu.closing.gaining.whole_numbers import WholeNumbers
from semiring.kernels.cpu.compiled import Kernels

__all__ = ["SmallGains"]

Array: TypeAlias = NDArray[Any]

_ROWS = 160  # up to which one thread and one block are as fast as anything


class SmallGains:
    """The gaining closures of `semiring.kernels.contract.ClosureKernels` of floats and integers on the host."""

    def rows(self, plan: KernelPlan) -> int:
        """The most rows of matrices that are looked at and closed so."""
        way = _way(plan)
        return 0 if way is None or way.closing.first_calls.left else _ROWS

    def look(self, plan: KernelPlan, A: Array) -> Any:
        """What is to be known of A (count, n, n) before it is closed; None where some matrix needs more care."""
        way = _way(plan)
        return None if way is None else way.look(_contiguous(A), plan.threads)

    def close(self, plan: KernelPlan, A: Array, found: Any, out: Array) -> None:
        """Out ← A* of every matrix, for what was found; out may be A."""
        way = _way(plan)
        assert way is not None
        D = out if out.flags.carray else np.empty(out.shape, out.dtype)
        way.close(_contiguous(A), found, D, plan.threads)
        if D is not out:
            out[...] = D


class _Way(Protocol):
    """How the matrices of a semiring and a dtype are closed."""

    closing: Kernels

    def look(self, A: Array, threads: int) -> Any: ...

    def close(self, A: Array, found: Any, D: Array, threads: int) -> None: ...


def _way(plan: KernelPlan) -> _Way | None:
    """The way of a plan's semiring and dtype; None where there is none."""
    if "gaining" not in plan.memo:
        plan.memo["gaining"] = _make_way(plan.semiring, plan.dtype)
    found: _Way | None = plan.memo["gaining"]
    return found


def _make_way(semiring: Semiring, dtype: np.dtype[Any]) -> _Way | None:
    sign = 1 if semiring == min_plus else -1
    if semiring in (min_plus, max_plus) and dtype.kind == "i":
        return WholeNumbers(semiring.zero_for(dtype), sign)
    if dtype.char not in "fd":
        return None
    if semiring in (min_plus, max_plus):
        return Sums(dtype, sign)
    return Products(semiring, dtype) if semiring in (max_times, min_times) else None


def _contiguous(A: Array) -> Array:
    return A if A.flags.carray else np.array(A, order="C")
