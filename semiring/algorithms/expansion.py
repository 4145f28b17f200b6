"""Reconstruct one best path from the pivots of a closure, for matrices that stay in their files.

P[u, v] is -1 where the edge u → v is itself a best path. Otherwise P[u, v] is the first of a run of pivots, and a best
path leads over one of them (`multiply_add_pivots`). The pivot k is the one with D[u, k] ⊗ D[k, v] = D[u, v]. A path of
m edges takes m - 1 such steps. Each step reads a run of entries in a row and in a column of D and of P, for any n.

If edges do not make paths worse, ties may lead in a circle. In that case, and where the edges do not add up to the
distance, `expand_path` returns None. The caller then searches the whole row (`nearest_tree` of `DirectEdges`, O(n²)).
Source: R. W. Floyd, "Algorithm 97: shortest path", CACM 5 (1962), which defines these pivots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.algorithms.predecessors import measure_deviations
from semiring.kernels.contract import Facts, KernelPlan
from semiring.kernels.tolerance import Tolerance, tolerance_for

__all__ = ["DirectEdges", "expand_path"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class DirectEdges:
    """The edges that are themselves best paths, read lazily from D and P (n, n), and 0̄ for all other pairs."""

    D: Array
    P: Array
    zero: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.D.dtype

    def __getitem__(self, index: Any) -> Array:
        edges: Array = np.where(self.P[index] == -1, self.D[index], self.dtype.type(self.zero))
        return edges

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


def expand_path(plan: KernelPlan, D: Array, P: Array, source: int, target: int) -> list[int] | None:
    """Return the vertices of a best path between two different vertices, or None if the search fails.

    D is A*, and P holds its pivots.
    """
    # The tolerance is that of weights ≥ 0, so it needs no scan of D.
    tolerance = tolerance_for(replace(plan, facts=Facts(nonnegative=True)), D[:0])
    path, edges, visited = [source], [plan.one], set()
    waiting = [(source, target)]
    while waiting:
        u, v = waiting.pop()
        if P[u, v] < 0:
            path.append(v)
            edges.append(D[u, v])
            continue
        k = None if (u, v) in visited else _find_intermediate(plan, D, P, u, v, tolerance)
        if k is None:
            return None
        visited.add((u, v))
        waiting += [(k, v), (u, k)]
    units = 0.0 if tolerance.is_exact else 4.0 * len(D)
    if not _has_length(plan, np.array(edges, plan.dtype), D[source, target], units):
        return None
    return _remove_cycles(path)


def _find_intermediate(plan: KernelPlan, D: Array, P: Array, u: int, v: int, tolerance: Tolerance) -> int | None:
    """Return a vertex on a best path from u to v, or None.

    Of several such vertices, the function returns the one whose two halves improved at the earliest pivots.
    """
    first = int(P[u, v])
    run = slice(first, min(len(D), first + plan.pivot_chunk))
    before, after = np.array(D[u, run]), np.array(D[run, v])
    products = plan.semiring.mul.expression.evaluate({"x": before, "y": after}, plan.dtype)
    misses = measure_deviations(products, np.broadcast_to(D[u, v], products.shape), tolerance)
    misses[(before == plan.zero) | (after == plan.zero)] = np.inf
    for end in (u, v):
        if run.start <= end < run.stop:
            misses[end - first] = np.inf
    best = int(np.lexsort((np.maximum(P[u, run], P[run, v]), misses))[0])
    return None if misses[best] == np.inf else first + best


def _has_length(plan: KernelPlan, edges: Array, distance: Any, units: float) -> bool:
    """Return whether consecutive edges have the given distance.

    ``units`` is the tolerance, in roundings of weights of the size of the edges.
    """
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


def _remove_cycles(path: list[int]) -> list[int]:
    """Return the path without its cycles: every vertex occurs once."""
    simple: list[int] = []
    positions: dict[int, int] = {}
    for vertex in path:
        if vertex in positions:
            for removed in simple[positions[vertex] + 1 :]:
                del positions[removed]
            del simple[positions[vertex] + 1 :]
        else:
            positions[vertex] = len(simple)
            simple.append(vertex)
    return simple
