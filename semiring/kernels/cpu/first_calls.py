"""Compute the first products and closures of a definition in NumPy, so that small ones need not be compiled.

Compiling the kernels of a closure takes seconds. The closure of some hundred vertices in NumPy takes a fraction of one.
So a definition that is compiled neither in this process nor on disk is computed by the reference backend, until the
predicted time in NumPy exceeds `SECONDS`. This requires bitwise identical results: ⊕ selects, operations are exact, and
no entry is -0.0, which equals 0.0 and has other bits.

The environment variable SEMIRING_NUMPY_SECONDS replaces `SECONDS` for definitions that are first used after it is set.
With 0 every call compiles, as a measurement needs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from semiring.advice import quote
from semiring.errors import SemiringError
from semiring.kernels.contract import NO_PREDECESSOR, Array, KernelPlan
from semiring.kernels.cpu.closing.pivot_loops import PIVOTS
from semiring.kernels.reference import ReferenceBackend
from semiring.kernels.tolerance import Tolerance

SECONDS = 1.0  # seconds that a definition is computed in NumPy: a fifth of a compilation on two cores of a Zen 4 server
_PRODUCT_RATE, _CLOSURE_RATE = 3e8, 6e7  # pairs a second in NumPy, on that server
_UNDECIDED = -2
_SECONDS_PER_STEP = 1e-4  # seconds for each k, besides those for its pairs
#: Direct edges into a vertex that are tried one by one. With more edges, `follow_intermediates` is faster.
MAX_DIRECT_EDGES = 128
_ROUNDED_OPERATIONS = {"exp", "expm1", "log", "log1p"}  # operations that compiled kernels round differently from NumPy
#: Operations that make no -0.0 from numbers of any sign other than -0.0.
_WITHOUT_NEGATIVE_ZERO = {"min", "max", "add", "where", "ge", "gt", "le", "lt"}

_reference = ReferenceBackend()


def _read_seconds() -> float:
    """Return the seconds of NumPy that a definition may use, from the environment, else `SECONDS`."""
    text = os.environ.get("SEMIRING_NUMPY_SECONDS", "").strip()
    try:
        seconds = float(text or SECONDS)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise SemiringError(
            f"the environment variable SEMIRING_NUMPY_SECONDS is {quote(text)}, not a number of seconds from 0 up: "
            "set it to 0 to compile every kernel at its first call, or remove it"
        )
    return seconds


class FirstCalls:
    """The NumPy kernels of one definition, and the seconds for which they may still be used."""

    def __init__(self, plan: KernelPlan, is_compiled: bool, pivotwise_rows: int = PIVOTS) -> None:
        """Start the budget of a plan's definition: 0 seconds if the definition ``is_compiled``.

        ``pivotwise_rows``: the most rows of a matrix that the compiled kernels close pivot by pivot.
        """
        self.remaining_seconds = 0.0 if is_compiled or not _has_same_bits(plan) else _read_seconds()
        self._pivotwise_rows = pivotwise_rows
        self._may_have_negative_zeros = plan.dtype.kind == "f" and not plan.facts.nonnegative

    def product(self, plan: KernelPlan, C: Array, A: Array, B: Array, accumulate: int) -> bool:
        """Compute C ← [C ⊕] A ⊗ B, or return False to leave it to the compiled kernels. C may be B."""
        if not self._allows(A.shape[1] * (_SECONDS_PER_STEP + C.size / _PRODUCT_RATE), A, B, C if accumulate else A):
            return False
        (_reference.multiply_add if accumulate else _reference.multiply)(plan, C, A, B.copy() if C is B else B)
        return True

    def close(self, plan: KernelPlan, A: Array) -> bool:
        """Compute A ← A* in place, or return False to leave it to the compiled kernels."""
        if not self._allows(A.shape[0] * (2 * _SECONDS_PER_STEP + A.size / _CLOSURE_RATE), A):
            return False
        width = A.shape[0] if A.shape[0] <= self._pivotwise_rows else PIVOTS
        for start in range(0, A.shape[0], width):  # in the order of `blocks.close`, for sums and products round
            K = slice(start, start + width)
            _reference.close_block(plan, A[K, K])
            if plan.status.diverged >= 0:
                plan.status.diverged += start
                break
            if width < A.shape[0]:
                closed, others = A[K, K].copy(), np.delete(np.arange(A.shape[0]), K)
                _reference.multiply_add(plan, A[K], closed, A[K].copy())
                A[K, K] = closed
                rows = A[others]
                _reference.multiply_add(plan, rows, A[others][:, K], A[K])
                A[others] = rows
        return True

    def predecessors(self, plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array) -> Array | None:
        """Return the predecessors (n, n) of D, the closure of ``adjacency``, or None if compiled kernels must run."""
        if not self._allows(D.shape[0] * (2 * _SECONDS_PER_STEP + D.size / _CLOSURE_RATE), D, adjacency):
            return None
        return _predecessors(plan, D, tolerance, adjacency)

    def _allows(self, seconds: float, *operands: Array) -> bool:
        if self._may_have_negative_zeros and any((np.signbit(A) & (A == 0)).any() for A in operands):
            return False
        # A large call ends the budget. The kernel that is compiled for it serves the next calls too.
        self.remaining_seconds = max(0.0, self.remaining_seconds - seconds)
        return self.remaining_seconds > 0


def _predecessors(plan: KernelPlan, D: Array, tolerance: Tolerance, adjacency: Array) -> Array | None:
    """Compute the first three steps of `semiring.algorithms.predecessors`, in the order of the compiled kernels.

    Return None if these steps leave an entry undecided, or if an entry meets its distance only within the loose
    tolerance.
    """
    add, mul = plan.semiring.add.expression, plan.semiring.mul.expression

    def plus(x: Any, y: Any) -> Array:
        return np.asarray(add.evaluate(dict(zip("xy", np.broadcast_arrays(x, y), strict=True)), plan.dtype))

    def meets(x: Array, y: Array, limit: tuple[float, float]) -> Array:
        if plan.dtype.kind != "f":
            return np.asarray(x == y)
        with np.errstate(invalid="ignore"):
            return np.asarray((x == y) | (np.abs(x - y) < limit[0] * np.abs(y) + limit[1]))

    n, one = D.shape[0], plan.dtype.type(plan.one)
    edges = meets(adjacency, D, tolerance.tight) & (adjacency != plan.zero) & ~np.eye(n, dtype=bool)
    if edges.sum(0).max() > MAX_DIRECT_EDGES or (plus(one, adjacency[edges]) != one).any():
        return None
    best, pred = np.full_like(D, plan.zero), np.full(D.shape, _UNDECIDED, np.int32)
    for p in range(n):
        heads = np.flatnonzero(edges[p])
        x, w = np.broadcast_arrays(D[:, p : p + 1], adjacency[p, heads])
        candidates, distances, so_far = mul.evaluate({"x": x, "y": w}, plan.dtype), D[:, heads], best[:, heads]
        better = (plus(so_far, candidates) != so_far) & (plus(x, distances) != distances)
        best[:, heads] = np.where(better, candidates, so_far)
        pred[:, heads] = np.where(better, np.int32(p), pred[:, heads])
    is_met = meets(best, D, tolerance.tight)
    if (~is_met & (pred >= 0) & ~edges & meets(best, D, tolerance.loose)).any():
        return None
    pred[~is_met] = _UNDECIDED
    pred = np.where(edges, np.arange(n, dtype=np.int32)[:, None], pred)
    pred[plan.zero == D] = NO_PREDECESSOR
    np.fill_diagonal(pred, NO_PREDECESSOR)
    for i in map(int, np.flatnonzero((pred == _UNDECIDED).any(axis=1))):
        row = np.broadcast_to(D[i][:, None], D.shape)
        tight = edges & meets(mul.evaluate({"x": row, "y": adjacency}, plan.dtype), D[i], tolerance.tight)
        if not _grow_row(pred[i], i, tight & (plus(row, D[i]) == row)):
            return None
    return pred


def _grow_row(row: Array, source: int, tight: Array) -> bool:
    """Decide the remaining entries of a row by a search along the tight edges (n, n).

    Return whether all entries are decided.
    """
    decided = row >= 0
    decided[source] = True
    queue = []
    for j in np.flatnonzero(row == _UNDECIDED):
        tails = np.flatnonzero(tight[:, j] & decided)
        if tails.size:
            row[j], decided[j] = tails[0], True
            queue.append(j)
    for p in queue:
        for j in np.flatnonzero(tight[p] & (row == _UNDECIDED)):
            row[j] = p
            queue.append(j)
    return not (row == _UNDECIDED).any()


def _has_same_bits(plan: KernelPlan) -> bool:
    semiring = plan.semiring
    trees = (semiring.add.expression, semiring.mul.expression, semiring.star_expression)
    used = {name for tree in trees if tree is not None for name in tree.operations}
    if plan.dtype.kind not in "iub" and (
        used & _ROUNDED_OPERATIONS or not (plan.facts.nonnegative or used <= _WITHOUT_NEGATIVE_ZERO)
    ):
        return False
    return semiring.selective and _keeps_bits(plan)


def _keeps_bits(plan: KernelPlan) -> bool:
    """Return whether 1̄ ⊗ x is x without rounding.

    If ⊗ rounds it, as in 1 + x - 1, both backends must multiply by 1̄ equally often, and they do not.
    """
    if plan.dtype.kind in "iub":
        return True
    x = np.ldexp(1 / 3, -np.arange(8)).astype(plan.dtype)
    return bool((plan.semiring.mul.apply_to_arrays(np.full_like(x, plan.one), x) == x).all())
