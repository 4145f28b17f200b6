"""Compute predecessors in plain NumPy: for the reference backend, for single sources, and to repair a row of rounding.

`semiring.algorithms.predecessors` states and proves the method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import is_floating
from semiring.kernels.contract import NO_PREDECESSOR, Array, KernelPlan
from semiring.kernels.tolerance import Tolerance, unattained_distance

__all__ = ["measure_deviations", "nearest_tree", "path_sums", "reference_predecessors"]


def reference_predecessors(plan: KernelPlan, D: Array, weights: Array, tolerance: Tolerance | list[Tolerance]) -> Array:
    """Return the predecessors int32 of D (n, n), or of each matrix of a stack (count, n, n), by a run for each row.

    weights, of the shape of D, has an edge where it is not 0̄; edges that no best path needs are allowed. Cost: O(n³) a
    matrix, in array operations of n entries.
    """
    pred = np.full(D.shape, NO_PREDECESSOR, np.int32)
    for index in np.ndindex(D.shape[:-1]):
        edges, source = weights[index[:-1]], index[-1]
        limits = tolerance[index[0]] if isinstance(tolerance, list) else tolerance
        pred[index] = nearest_tree(plan, edges, D[index], source, limits)
        if not limits.meets(path_sums(plan, edges, pred[index], source), D[index]).all():
            raise unattained_distance(plan)
    return pred


def path_sums(plan: KernelPlan, weights: Array, pred: Array, source: int) -> Any:
    """Return the sums of the weights along the paths of a tree from the ``source``, (n,), 0̄ without a path.

    Floats are added in float64 or wider. Raises `RuntimeError` where pred (n,) is no tree with that root.
    """
    n = pred.shape[0]
    wide = _wide_dtype(plan.dtype)
    mul = plan.semiring.mul.expression
    sums = np.full(n, plan.zero, wide)
    sums[source] = plan.one
    has_sum = np.zeros(n, np.bool_)
    has_sum[source] = True
    waiting = np.flatnonzero(pred >= 0)
    while waiting.size:
        ready = has_sum[pred[waiting]]
        if not ready.any():
            raise RuntimeError(
                f"the predecessors of {waiting.size} vertices lead in cycles, not to the source {source}"
            )
        ready_vertices = waiting[ready]
        steps = weights[pred[ready_vertices], ready_vertices].astype(wide)
        sums[ready_vertices] = mul.evaluate({"x": sums[pred[ready_vertices]], "y": steps}, wide)
        has_sum[ready_vertices] = True
        waiting = waiting[~ready]
    return sums


def nearest_tree(plan: KernelPlan, weights: Array, distances: Array, source: int, tolerance: Tolerance) -> Array:
    """Return the predecessors (n,) int32 of the paths from ``source`` whose weights are nearest to ``distances`` (n,).

    The function runs Dijkstra's algorithm under the lengths |distances[p] ⊗ w(p, j) - distances[j]|, in units of the
    distance where errors are relative. The number of edges breaks ties. weights (n, n) may have any signs. Where ⊗ is
    exact, only edges of length 0 are used. A vertex without a path has -9999. Cost: O(n²).
    """
    n = distances.shape[0]
    mul, zero = plan.semiring.mul.expression, plan.zero
    pred = np.full(n, NO_PREDECESSOR, np.int32)
    length, hops = np.full(n, np.inf), np.full(n, n)
    length[source], hops[source] = 0, 0
    open_ = distances != zero
    open_[source] = True
    for _ in range(n):
        least = np.where(open_, length, np.inf).min(initial=np.inf)
        if least == np.inf:
            break
        nearest = np.flatnonzero(open_ & (length == least))
        p = int(nearest[hops[nearest].argmin()])
        open_[p] = False
        edges = np.flatnonzero(open_ & (weights[p] != zero))
        if not edges.size:
            continue
        goal = distances[edges]
        reached = mul.evaluate({"x": np.broadcast_to(distances[p], goal.shape), "y": weights[p, edges]}, plan.dtype)
        total = length[p] + measure_deviations(reached, goal, tolerance)
        better = (total < length[edges]) | ((total == length[edges]) & (total < np.inf) & (hops[p] + 1 < hops[edges]))
        chosen = edges[better]
        length[chosen], hops[chosen], pred[chosen] = total[better], hops[p] + 1, p
    return pred


def measure_deviations(values: Array, goal: Array, tolerance: Tolerance) -> Array:
    """Return the deviation of each value from the ``goal``: 0 if they are equal, ∞ if they are not comparable."""
    if tolerance.is_exact:
        return np.where(values == goal, 0.0, np.inf)
    with np.errstate(all="ignore"):
        wide = _wide_dtype(values.dtype)
        x, y = values.astype(wide), goal.astype(wide)
        deviations = np.abs(x - y)
        if tolerance.is_relative:
            deviations = deviations / np.maximum(np.abs(y), np.finfo(np.float64).tiny)
    return np.where(values == goal, 0.0, np.where(np.isnan(deviations), np.inf, deviations))


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which path weights are summed and compared: float64 or wider for floats."""
    return np.promote_types(dtype, np.float64) if is_floating(dtype) else dtype
