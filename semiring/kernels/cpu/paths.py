"""Predecessors on the CPU: the method of `semiring.algorithms.predecessors`, which states and proves it, on threads.

Every kernel works on a range of rows or of columns and writes no other entry, so ranges can go to threads, and the
result does not depend on how many there are. What of a row or column is used again and again is copied into a tile
first: a column of a large matrix costs a cache line an element, a tile of columns that line once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.kernels.contract import Plan
from semiring.kernels.cpu.direct_edges import edges_from, edges_into, extremes, last_edges
from semiring.kernels.cpu.path_trees import COLUMNS, follow_pivots, grow_trees, settle_rows
from semiring.kernels.cpu.pool import run_tasks
from semiring.kernels.cpu.scalars import ScalarSemiring, scalars_for
from semiring.kernels.tolerance import Tolerance, unattained

__all__ = ["find_predecessors"]

Array: TypeAlias = NDArray[Any]

WIDTH = 128  # direct edges into a vertex that are tried one by one: with more, `follow_pivots` is faster


# `last_edges` takes 64 rows at a time where they fit into half of the second-level cache, else 32: at n = 2048, on one
# Zen 4 core, 64 rows take 20 ms, 32 rows 27 ms and 16 rows 34 ms; at n = 4096 the times of 64 rows vary by half.
TILE = 1 << 19


@dataclass(frozen=True)
class _Case:
    """What the kernels take of one call."""

    plan: Plan
    D: Array
    evidence: Any
    tolerance: Tolerance

    @cached_property
    def sr(self) -> ScalarSemiring:
        return scalars_for(self.plan)[0]

    @cached_property
    def wide(self) -> np.dtype[Any]:
        """The type in which paths are added up."""
        return np.dtype(np.float64) if self.plan.dtype.kind == "f" else self.plan.dtype

    @cached_property
    def sums(self) -> ScalarSemiring:
        return scalars_for(self.plan)[1]

    @cached_property
    def zero(self) -> Any:
        return self.plan.dtype.type(self.plan.zero)

    def pair(self, name: str, dtype: np.dtype[Any] | None = None) -> tuple[Any, ...]:
        kind = (dtype or self.plan.dtype).type
        return tuple(kind(value) for value in getattr(self.tolerance, name))

    def run(self, function: Any, parts: int, unit: int) -> None:
        """``function(start, stop)`` on ranges of 0 … n - 1, their borders at multiples of ``unit``, on all threads."""
        n, threads = self.D.shape[0], self.plan.threads
        step = max(1, -(-n // (unit * parts * threads))) * unit
        run_tasks(function, [(start, min(n, start + step)) for start in range(0, n, step)], threads)


def find_predecessors(plan: Plan, D: Array, tolerance: Tolerance, before: Array | None, pivots: Array | None) -> Array:
    """The predecessors (n, n) int32 of the closed matrix D, by the matrix ``before`` closing or its ``pivots``."""
    n = D.shape[0]
    P = None if pivots is None else np.ascontiguousarray(pivots)
    case = _Case(plan, np.ascontiguousarray(D), np.ascontiguousarray(before) if P is None else (P,), tolerance)
    D, evidence, sr, sums, zero = case.D, case.evidence, case.sr, case.sums, case.zero
    one, tight, loose = case.wide.type(plan.one), case.pair("tight"), case.pair("loose")
    width = min(n, WIDTH)
    into, weights = np.empty((n, width), np.int32), np.empty((n, width), D.dtype)
    indegree = np.zeros(n, np.int32)
    pred = np.empty((n, n), np.int32)
    pending, open_rows, doubtful, improves = np.zeros((4, n), np.bool_)

    best, worst = np.empty((2, 0), D.dtype)

    def scan(j0: int, j1: int) -> None:
        improves[j0] = not edges_into(
            *(sr, D, evidence, zero, plan.dtype.type(plan.one), tight, best, worst),
            *(j0, j1, into, weights, indegree),
        )

    case.run(scan, 1, 16)
    monotone = not improves.any()
    if monotone and indegree.max(initial=0) > width:
        best, worst = np.full((2, n), zero)
        case.run(lambda j0, j1: extremes(sr, D, zero, j0, j1, best, worst), 1, 16)
        indegree[:] = 0
        case.run(scan, 1, 16)
    crowded = indegree > width
    tried = np.where(_promising(plan, best, worst), np.minimum(indegree, width), 0) if monotone else 0 * indegree

    lanes = 64 if n * D.itemsize <= TILE // 64 else 32

    def last(r0: int, r1: int) -> None:
        last_edges(
            *(lanes, sr, sums, D, evidence, pred, zero, one, into, weights, tried, crowded, tight, loose),
            *(r0, r1, pending, open_rows, doubtful),
        )

    case.run(last, 4, lanes)
    if monotone and pending.any():
        P, chunk = (np.zeros((1, 1), np.int32), n) if P is None else (P, plan.pivot_chunk)

        def follow(j0: int, j1: int) -> None:
            follow_pivots(sr, D, P, pred, zero, chunk, best, tight, loose, j0, j1, pending, doubtful)

        case.run(follow, 4, COLUMNS)
    if open_rows.any():
        out, lengths, outdegree = np.empty_like(into), np.empty_like(weights), np.empty_like(indegree)

        def grow(r0: int, r1: int) -> None:
            grow_trees(
                *(sr, D, evidence, pred, zero, monotone, into, weights, indegree, out, lengths, outdegree),
                *(tight, r0, r1, open_rows),
            )

        case.run(lambda r0, r1: edges_from(D, evidence, zero, tight, r0, r1, out, lengths, outdegree), 4, 1)
        case.run(grow, 8, 1)
    _settle(case, pred, open_rows | doubtful)
    return pred


def _promising(plan: Plan, best: Array, worst: Array) -> Any:
    """Where a vertex can be strictly nearer than the vertex of the column; everywhere, if that was not looked at."""
    if not best.size:
        return True
    add = plan.semiring.add.expression
    nearest = best[0]
    for value in np.unique(best):
        nearest = add.evaluate({"x": nearest, "y": value}, plan.dtype)
    return add.evaluate({"x": nearest, "y": worst}, plan.dtype) != worst


def _settle(case: _Case, pred: Array, rows: Array) -> int:
    """Check the marked rows of pred and repair those that are no trees of best paths; the number of those repaired.

    Any int32 matrix will do as pred: what is wrong in a marked row is replaced.
    """
    if not rows.any():
        return 0
    wide = np.empty(0, case.wide)
    one, bound = case.wide.type(case.plan.one), case.pair("bound", case.wide)
    repaired, failed = np.zeros((2, rows.size), np.int64)

    def check(r0: int, r1: int) -> None:
        repaired[r0], failed[r0] = settle_rows(
            *(
                case.sr,
                case.sums,
                case.D,
                case.evidence,
                pred,
                case.zero,
                one,
                case.pair("tight"),
                bound,
                case.tolerance.relative,
            ),
            *(r0, r1, rows, wide),
        )

    case.run(check, 8, 1)
    if failed.any():
        raise unattained(case.plan)
    return int(repaired.sum())
