"""Closures of min-plus and max-plus, any signs, floats and integers, through one non-negative min-plus core.

The matrix is checked for negative cycles before anything is written (`find_potentials`, which a stack asks about all of
its matrices first), reweighted to ≥ 0 (`reweighting`), closed by kernels that may take every sign bit as clear, and
shifted back. Max-plus is min-plus of the negatives.

Integers: inside, "no path" is half the range, so that no sum of two entries wraps. With weights ≥ 0 nothing was lost
if no distance lies within one largest weight of it: an overlong path has a prefix there. Otherwise the work is done
again in the next wider dtype, which needs the input: in place, and in int64, it is an `IntegerOverflowError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algorithms.execution import Execution
from semiring.algorithms.irreflexive import cycles_from_closure, diagonal
from semiring.algorithms.narrow import close_narrow, narrower
from semiring.algorithms.potentials import potentials
from semiring.algorithms.reweighting import check_range, reweight, shift_back
from semiring.algorithms.small import SMALL, small_potentials
from semiring.algorithms.unbounded import check_unbounded, insert_unbounded, unbounded_edges
from semiring.algorithms.views import Array, clear_zeros, negate, on_host, pieces, some
from semiring.algorithms.weights import Weights
from semiring.arrays.encoding import clamp, inner_zero, widen
from semiring.arrays.scans import Scan
from semiring.errors import DivergenceError, IntegerOverflowError
from semiring.kernels import backend_for
from semiring.kernels.engine import make_plan
from semiring.kernels.machines import closure_speed
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["Potentials", "close_tropical", "encode_integers", "find_potentials", "has_gains", "is_tropical"]


def is_tropical(semiring: Semiring) -> bool:
    """Whether closures of the semiring are those of min-plus or max-plus: negative cycles have no star in it."""
    return semiring.tropical is not None and (semiring.divergence is not None or semiring.absorptive)


def has_gains(semiring: Semiring, scan: Scan) -> bool:
    """Whether some weight is below 0 (in max-plus above), as a look found it: then potentials are needed."""
    best = scan.low if semiring.tropical == "min" else scan.high
    return best is not None and bool(best < 0 if semiring.tropical == "min" else best > 0)


@dataclass(frozen=True)
class Potentials:
    """What makes the weights of one matrix ≥ 0: h (n,), and the edges of unbounded gain, which are inserted last."""

    weights: Weights
    h: Array
    edges: dict[int, Array]


@dataclass
class _Task:
    execution: Execution
    semiring: Semiring
    sign: int
    none: Any  # "no path" of the caller
    reflexive: bool
    notes: list[str]


def find_potentials(
    execution: Execution, semiring: Semiring, A: Array, scan: Scan, notes: list[str]
) -> Potentials | None:
    """Potentials of a matrix A (n, n), which is not changed; None where all weights are ≥ 0, or nobody waits to know.

    Raises `NegativeCycleError`; `DomainError` or `IntegerOverflowError` where sums of weights may leave their range.
    """
    if not execution.waits or not has_gains(semiring, scan):
        return None

    def eliminate(D: Array) -> bool:
        """D ← D* for weights of any sign in float64; False where a pivot is negative, and D undefined."""
        try:
            Execution("rkleene", execution.threads).close(min_plus, D)
        except DivergenceError:
            return False
        return True

    sign = 1 if semiring.tropical == "min" else -1
    if A.dtype.kind == "i":
        weights = Weights.of(A, sign, semiring.zero_for(A.dtype), int(scan.low), int(scan.high))
        found = Potentials(weights, potentials(weights, eliminate), {})
    else:
        found = _find_for_floats(semiring, A, sign, scan, eliminate, notes)
    signs = f"both signs or all {'negative' if sign > 0 else 'positive'}"
    notes.append(f"weights of {signs}: reweighted by potentials to ≥ 0")
    return found


def _find_for_floats(
    semiring: Semiring, A: Array, sign: int, scan: Scan, eliminate: Callable[[Array], bool], notes: list[str]
) -> Potentials:
    edges: dict[int, Array] = {}
    if np.isneginf(scan.low) if sign > 0 else np.isposinf(scan.high):
        edges = unbounded_edges(A, sign)
        check_unbounded(A, edges, semiring)
        notes.append(f"{sum(map(len, edges.values()))} edges of unbounded gain, inserted last")
    low, high = _finite_range(A)
    weights = Weights.of(A, sign, semiring.zero_for(A.dtype), low, high, unbounded=bool(edges))
    small = sign > 0 and not edges and A.shape[0] <= SMALL and not is_device_array(A)
    with np.errstate(over="ignore", invalid="ignore"):  # seen below
        h = small_potentials(A) if small else None
        if h is None:
            h = potentials(weights, eliminate)
    check_range(h, low, high, A.dtype) if sign > 0 else check_range(h, -high, -low, A.dtype)
    return Potentials(weights, h, edges)


def close_tropical(
    execution: Execution,
    semiring: Semiring,
    A: Array,
    out: Array,
    scan: Scan,
    found: Potentials | None,
    notes: list[str],
    *,
    P: Array | None = None,
    reflexive: bool = True,
    narrow: bool = False,
) -> None:
    """Close: out ← A* (A⁺ where not ``reflexive``); out is A itself, or shares no memory with it.

    ``scan`` and ``found`` are what `check_entries` and `find_potentials` found in A; ``notes`` collects what was done;
    ``narrow``: whether another dtype may do the work. Raises `IntegerOverflowError`, before ``out`` is touched or
    after.
    An execution that does not wait raises nothing, and its floats become NaN where a weight is below 0.
    """
    sign = 1 if semiring.tropical == "min" else -1
    task = _Task(execution, semiring, sign, semiring.zero_for(A.dtype), reflexive, notes)
    if narrow and P is None and execution.waits and _close_narrow(task, A, out, scan):
        return
    if out.dtype.kind == "i":
        _close_integers(task, A, out, scan, found, P)
    elif not execution.waits:
        _close_unseen(task, A, out, P)
    else:
        _close_floats(task, A, out, scan, found, P)


def _close_narrow(task: _Task, A: Array, out: Array, scan: Scan) -> bool:
    """Close whole numbers ≥ 0 in narrower integers, where that is faster and provably the same; whether it was done."""
    backend = backend_for(A, min_plus, A.dtype)
    candidates = closure_speed(backend.name, A.dtype).narrower(A.shape[0], A.dtype)
    least, greatest = (scan.low, scan.high) if task.sign > 0 else (scan.high, scan.low)
    if not candidates or least is None or task.sign * least < 0:
        return False
    largest = task.sign * int(greatest) if A.dtype.kind == "i" else None
    found = narrower(A, task.sign, largest, candidates)
    if found is None:
        return False
    dtype, bound = found
    task.notes.append(f"whole numbers, and no distance above {bound}: closed in {dtype}")
    close_narrow(A, out, task.sign, task.none, dtype, lambda D: _core(task, D, None))
    return True


def _core(task: _Task, D: Array, P: Array | None, original: Array | None = None) -> None:
    """The closure of a matrix ≥ 0 in place; ``original`` as in `Execution.close`."""
    loops = None if task.reflexive else diagonal(D)
    engine = task.execution.close(min_plus, D, P, nonnegative=True, original=original)
    if loops is not None:
        cycles_from_closure(engine, loops, D)


def _close_floats(task: _Task, A: Array, out: Array, scan: Scan, found: Potentials | None, P: Array | None) -> None:
    sign = task.sign
    if found is not None:
        reweight(found.weights, found.h, out, np.inf)
        _core(task, out, P)
        shift_back(out, found.h, sign, np.inf, out, task.none)
        if found.edges:
            insert_unbounded(out, found.edges, sign, task.none)
        return
    original = None
    if sign < 0:
        negate(A, out)
    elif not scan.nonnegative:
        clear_zeros(A, out)  # the kernels may look at sign bits
    elif out is not A:
        _copy(task, A, out)
        original = A
    _core(task, out, P, original)
    if sign < 0:
        negate(out, out)


def _copy(task: _Task, A: Array, out: Array) -> None:
    """Out ← A, on all threads where the backend copies so."""
    panels = backend_for(A, min_plus, A.dtype).capabilities.panels
    if panels is None:
        out[...] = A
    else:
        panels.copy_panel(make_plan(min_plus, A.dtype, threads=task.execution.threads), A, out)


def _close_unseen(task: _Task, A: Array, out: Array, P: Array | None) -> None:
    """A closure that may not wait to see the signs of its weights, which are to be ≥ 0: if not, it is NaN."""
    passes = backend_for(A, min_plus, A.dtype).capabilities.passes
    if task.sign < 0:
        negate(A, out)
        A = out
    if passes is None:
        clear_zeros(A, out)
        _core(task, out, P)
    else:
        word = passes.copy_nonnegative(A, out)
        _core(task, out, P)
        passes.spoil(out, word)
    if task.sign < 0:
        negate(out, out)


def _finite_range(A: Array) -> tuple[float, float]:
    """The least and the greatest finite entry, (0, 0) without one."""
    xp = array_namespace(A)
    ends = xp.asarray([np.inf, -np.inf])
    for rows in pieces(A):
        finite = xp.isfinite(A[rows])
        ends[0] = xp.minimum(ends[0], xp.where(finite, A[rows], np.inf).min())
        ends[1] = xp.maximum(ends[1], xp.where(finite, A[rows], -np.inf).max())
    low, high = on_host(ends).tolist()  # one wait for all pieces
    return (low, high) if low <= high else (0.0, 0.0)


def _close_integers(task: _Task, A: Array, out: Array, scan: Scan, found: Potentials | None, P: Array | None) -> None:
    sign, n, xp = task.sign, A.shape[0], array_namespace(A)
    low, high = (0, 0) if scan.low is None else (int(scan.low), int(scan.high))
    if found is None:
        weights, h = Weights(A, sign, task.none, np.dtype(np.int64), 0.0), None
    else:
        weights, h = found.weights, found.h
    inner: np.dtype[Any] | None = out.dtype
    while inner is not None:
        none = inner.type(inner_zero(min_plus, inner))
        D = out if inner == out.dtype else xp.empty(out.shape, inner)
        largest = max(abs(low), abs(high))
        if h is None and largest >= none:  # known before an entry is turned: -(2⁶³ - 1) would become "no edge"
            inner = _wider(task, inner, in_place=False)
            continue
        if h is None and inner == A.dtype:
            encode_integers(A, sign, none, D)
        else:
            try:
                largest = reweight(weights, xp.zeros(n, np.int64) if h is None else h, D, none)
            except IntegerOverflowError:
                inner = _wider(task, inner, in_place=False)
                continue
        if P is not None:
            P[...] = -1
        _core(task, D, P)
        if (n + 1) * largest < none or not _near(D, none, largest):
            shift_back(D, h, sign, none, out, task.none)
            return
        inner = _wider(task, inner, in_place=out is A)


def encode_integers(A: Array, sign: int, none: Any, out: Array) -> None:
    """Encode: out ← ±A with ``none`` for no edge, where every weight lies between 0 and ``none``."""
    clamp(A, sign * none, sign > 0, out, sign)


def _near(D: Array, none: Any, largest: int) -> bool:
    """Whether a distance lies within ``largest`` of ``none``: then a longer one may have been taken for no path."""
    bound = none - largest
    return some(((D[rows] >= bound) & (D[rows] < none)).any() for rows in pieces(D))


def _wider(task: _Task, inner: np.dtype[Any], in_place: bool) -> np.dtype[Any]:
    """The dtype in which to do the work again; raises `IntegerOverflowError` where that is impossible."""
    wider = widen(inner)
    if wider is None:
        raise IntegerOverflowError(
            f"a weight or path is too long for the half of the range of {inner} in which {task.semiring.name} "
            "computes: use float64, which holds every sum, rounded"
        )
    if in_place:
        raise IntegerOverflowError(
            f"a weight or path is too long for the half of the range of {inner} in which {task.semiring.name} "
            f"computes, and the input is overwritten: pass {wider}, or do not compute in place"
        )
    task.notes.append(f"distances may leave half the range of {inner}: computed in {wider}")
    return wider
