"""One best path from the pivots of a closure, a vertex between others at a time: of matrices that stay in their files.

P[u, v] is -1 where the edge u → v is itself a best path, else the first of a run of pivots, over one of which a best
path leads (`multiply_add_pivots`). Which one, D[u, k] ⊗ D[k, v] = D[u, v] tells. So a path of m edges takes m - 1 such
steps, each of a run of entries in a row and in a column of D and of P, whatever n is.

Ties may lead in a circle where edges do not make paths worse; then, and where the edges that were found do not add up
to the distance, nothing is found, and who asked searches the whole row (`nearest_tree`, of `DirectEdges`: O(n²)).
Source: R. W. Floyd, "Algorithm 97: shortest path", CACM 5 (1962), whose pivots these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.algorithms.predecessors import missed
from semiring.kernels.contract import Facts, KernelPlan
from semiring.kernels.tolerance import Tolerance, tolerance_for

__all__ = ["DirectEdges", "expanded"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class DirectEdges:
    """The edges that are best paths themselves, read from D and P (n, n) where they are asked for; 0̄ elsewhere."""

    D: Array
    P: Array
    zero: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.D.dtype

    def __getitem__(self, at: Any) -> Array:
        found: Array = np.where(self.P[at] == -1, self.D[at], self.dtype.type(self.zero))
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


def expanded(plan: KernelPlan, D: Array, P: Array, source: int, target: int) -> list[int] | None:
    """The vertices of a best path between two different ones, None where this finds none; D = A*, P its pivots."""
    #: As if all weights were ≥ 0: whether ⊗ is exact, and how errors are measured, without a look at all of D.
    tolerance = tolerance_for(replace(plan, facts=Facts(nonnegative=True)), D[:0])
    path, edges, seen = [source], [plan.one], set()
    waiting = [(source, target)]
    while waiting:
        u, v = waiting.pop()
        if P[u, v] < 0:
            path.append(v)
            edges.append(D[u, v])
            continue
        k = None if (u, v) in seen else _between(plan, D, P, u, v, tolerance)
        if k is None:
            return None
        seen.add((u, v))
        waiting += [(k, v), (u, k)]
    if not _adds_up(plan, np.array(edges, plan.dtype), D[source, target], 0.0 if tolerance.is_exact else 4.0 * len(D)):
        return None
    return _without_loops(path)


def _between(plan: KernelPlan, D: Array, P: Array, u: int, v: int, tolerance: Tolerance) -> int | None:
    """A vertex that a best path from u to v leads over; of several one whose halves were found first."""
    first = int(P[u, v])
    run = slice(first, min(len(D), first + plan.pivot_chunk))
    before, after = np.array(D[u, run]), np.array(D[run, v])
    reached = plan.semiring.mul.expression.evaluate({"x": before, "y": after}, plan.dtype)
    misses = missed(reached, np.broadcast_to(D[u, v], reached.shape), tolerance)
    misses[(before == plan.zero) | (after == plan.zero)] = np.inf
    for end in (u, v):
        if run.start <= end < run.stop:
            misses[end - first] = np.inf
    best = int(np.lexsort((np.maximum(P[u, run], P[run, v]), misses))[0])
    return None if misses[best] == np.inf else first + best


def _adds_up(plan: KernelPlan, edges: Array, distance: Any, units: float) -> bool:
    """Whether edges one after the other have that distance, up to so many roundings of weights of their size."""
    wide = np.dtype(np.float64) if is_floating(plan.dtype) else plan.dtype
    mul, total, size = plan.semiring.mul.expression, edges[:1].astype(wide), np.abs(edges[:1]).astype(wide)
    for edge in edges[1:].astype(wide):
        total = mul.evaluate({"x": total, "y": edge[np.newaxis]}, wide)
        size = mul.evaluate({"x": size, "y": np.abs(edge[np.newaxis])}, wide)
    if total[0] == distance or not units:
        return bool(total[0] == distance)
    limits = float_limits(plan.dtype)
    rounding = float(limits.eps) * (abs(float(size[0])) + abs(float(distance))) + float(limits.smallest_subnormal)
    return bool(abs(float(total[0]) - float(distance)) <= units * rounding)


def _without_loops(path: list[int]) -> list[int]:
    """The path without what leads from a vertex back to it."""
    kept: list[int] = []
    where: dict[int, int] = {}
    for vertex in path:
        if vertex in where:
            for left in kept[where[vertex] + 1 :]:
                del where[left]
            del kept[where[vertex] + 1 :]
        else:
            where[vertex] = len(kept)
            kept.append(vertex)
    return kept
