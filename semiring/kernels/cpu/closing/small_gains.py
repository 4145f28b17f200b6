"""Close small matrices whose weights gain, below 0 in min-plus or above 1 in max-times, under potentials in one loop.

The results are bitwise identical to those of the rules `signs`, ``reweighted``, ``scaled`` and ``integers``
(`semiring.closures.encodings`) for larger matrices.

* Floats of min-plus and max-plus: the strong components in the same order, each under the potentials of one elimination
  in float64. Potentials are valid if the elimination succeeds and they drown no weight
  (`semiring.algorithms.potentials.small_matrices`). Between components, products of the original weights are computed
  along the same halves.
* Floats of max-times and min-times: factors by sweeps.
* Integers whose sums are exact in float64: closed in float64.

The kernels of each definition close the blocks (`pivot_loops.close`). The rules close all other matrices.

Cost: n³ or 2 n³ pairs a matrix, stacks on several threads. Workspace: some matrices a thread.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the loops below are compiled: their types are Numba's)

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times, min_plus, min_times
from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.closing.gaining_potentials import (
    PotentialClosure,
    close_block,
    has_negative_zero,
    run_on_threads,
)
from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import use_wide_vectors
from semiring.kernels.cpu.kernels import Kernels, kernels_for
from semiring.kernels.engine import make_plan

_PIECE = 1 << 16  # entries of a stack at a time: temporaries stay in the second-level cache
_FLOAT64 = np.dtype(np.float64)


def survey(plan: KernelPlan, A: Array) -> Any:
    """Return the survey of A (count, n, n) for `close`, or None if a matrix needs another method."""
    return _gaining_closure(plan).survey(_make_contiguous(A), plan.threads)


def close(plan: KernelPlan, A: Array, survey: Any, out: Array) -> None:
    """Write A* of every matrix to ``out``, which may be A; ``survey`` is the result of `survey`."""
    closure = _gaining_closure(plan)
    D = out if out.flags.carray else np.empty(out.shape, out.dtype)
    closure.close(_make_contiguous(A), survey, D, plan.threads)
    if D is not out:
        out[...] = D


class _GainingClosure(Protocol):
    """The survey and the closure of small matrices that gain, for one semiring and dtype."""

    closing: Kernels

    def survey(self, A: Array, threads: int) -> Any: ...

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None: ...


def _gaining_closure(plan: KernelPlan) -> _GainingClosure:
    """Return the closure for a plan's semiring and dtype."""
    closure: _GainingClosure | None = plan.memo.get(_gaining_closure)
    if closure is None:
        closure = plan.memo[_gaining_closure] = _make_gaining_closure(plan.semiring, plan.dtype)
    return closure


def _make_gaining_closure(semiring: Semiring, dtype: np.dtype[Any]) -> _GainingClosure:
    sign = 1 if semiring == min_plus else -1
    if semiring in (max_times, min_times):
        return _ScaledClosure(semiring, dtype)
    return _IntegerClosure(semiring.zero_for(dtype), sign) if dtype.kind == "i" else PotentialClosure(dtype, sign)


def _make_contiguous(A: Array) -> Array:
    return A if A.flags.carray else np.array(A, order="C")


class _ScaledClosure:
    """The closure of floats of max-times and min-times under factors for every vertex."""

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any]) -> None:
        self._is_max, self._bits_dtype = int(semiring == max_times), np.dtype(f"u{dtype.itemsize}")
        self.closing = kernels_for(make_plan(semiring, dtype, nonnegative=True))

    def survey(self, A: Array, threads: int) -> Any:
        """Return the factors (count, n) of every matrix."""
        p = np.empty(A.shape[:2])

        def find(start: int, stop: int) -> int:
            return int(_find_factors(A[start:stop], self._is_max, p[start:stop]))

        return p if run_on_threads(find, self.closing, A, threads) < 0 else None

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None:
        """Write A* of every matrix to D."""

        def one(start: int, stop: int) -> int:
            spare, (job, piece) = np.empty(A.shape[1:], A.dtype), self.closing.take_job(A.shape[1])
            scaled = spare, spare.view(self._bits_dtype), job.address, piece.address
            _close_scaled(A[start:stop], self._is_max, *scaled, survey[start:stop], D[start:stop])
            self.closing.return_job(A.shape[1], job, piece)
            return -1

        run_on_threads(one, self.closing, A, threads)


@kernel
def _find_factors(As, is_max, ps):
    """Write the factors (count, n) of every matrix, as in `potentials.scales`.

    Return the first matrix without factors, or -1. For max-times the factors are the least numbers from 1 on that no
    rounded product improves, and for min-times the greatest numbers up to 1. So they do not depend on the order in
    which rows are relaxed.
    """
    use_wide_vectors()
    n = As.shape[1]
    previous = np.empty(n)
    for m in range(As.shape[0]):
        A, p = As[m], ps[m]
        if has_negative_zero(A):
            return m
        p[:], previous[:] = 1, 0
        settled = False
        for _ in range(n + 2):
            if settled:
                break
            settled = True
            for i in range(n):
                x = p[i]
                if x != previous[i]:
                    settled, previous[i] = False, x
                    for j in range(n):
                        y = A[i, j] * x
                        p[j] = y if (y > p[j] if is_max else y < p[j]) else p[j]
        for x in p:
            settled &= 0 < x < np.inf
        if not settled:
            return m
    return -1


@kernel
def _close_scaled(As, is_max, spare, bits, job, workspace, ps, Ds):
    """Write A* of every matrix to D, by the closure under its factors, in which every pivot has a star. D may be A."""
    use_wide_vectors()
    n = As.shape[1]
    for m in range(As.shape[0]):
        A, p, D = As[m], ps[m], Ds[m]
        for i in range(n):
            for j in range(n):
                x = A[i, j] * p[i] / p[j]
                spare[i, j] = (x if x < 1 else 1.0) if is_max else (x if x > 1 else 1.0)
        close_block(bits, job, workspace)
        for i in range(n):
            for j in range(n):
                D[i, j] = spare[i, j] * p[j] / p[i]


class _IntegerClosure:
    """The closure of integers of min-plus, or of max-plus with the sign -1, in float64.

    A trial closure excludes negative cycles.
    """

    def __init__(self, none: Any, sign: int) -> None:
        self._none, self._sign = none, sign
        self._limit = min(2**52, np.iinfo(none.dtype).max // 2)  # all sums must be below it
        self.closing = kernels_for(make_plan(min_plus, _FLOAT64))

    def survey(self, A: Array, threads: int) -> Any:
        """Return True if the sums of all matrices are exact and no matrix has a negative cycle, else None."""
        return self._close_pieces(A, A, threads, writes_result=False) or None

    def close(self, A: Array, survey: Any, D: Array, threads: int) -> None:
        """Write A* of every matrix to D."""
        self._close_pieces(A, D, threads, writes_result=True)

    def _close_pieces(self, A: Array, D: Array, threads: int, *, writes_result: bool) -> bool:
        n = A.shape[1]
        step = max(1, _PIECE // (n * n))
        for part in (slice(start, start + step) for start in range(0, len(A), step)):
            none = A[part] == self._none
            W = np.multiply(A[part], self._sign, dtype=np.float64)
            W[none] = 0
            if (n + 1) * max(W.max(), -W.min()) >= self._limit:
                return False
            W[none] = np.inf
            if self.closing.close_stack(W, threads) >= 0:
                return False
            if writes_result:
                none = np.isinf(W)
                W[none] = 0
                D[part] = np.multiply(W, self._sign, out=W)
                D[part][none] = self._none
        return True
