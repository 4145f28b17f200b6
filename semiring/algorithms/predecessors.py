"""Compute the predecessors of a closure: for every pair (i, j) the vertex before j on one best path from i.

An edge p → j is *direct* if the closure D = A* did not change its entry: the edge is itself a best path. Every other
edge is strictly worse than a path that replaces it. So in exact arithmetic every pair has a best path of direct edges
alone. A comparison of D with the matrix before the closure shows which edges are direct.

The result is pred (n, n) int32 by SciPy's convention: pred[i, j] is the vertex before j, or -9999 without a path and
on the diagonal. Row i is a tree with root i, even with ties and zero-weight cycles. An edge p → j is *tight* in row i
if D[i, p] ⊗ w(p, j) = D[i, j]. There are four steps, and docs/predecessors.md proves that they suffice:

1. If i → j is direct, pred[i, j] = i.
2. If no edge improves on 1̄, p may precede j if p → j is direct and tight and D[i, p] is strictly better than D[i, j].
   Pointers then never lead in a circle. The direct edges into a vertex are tried. A CPU tries a fixed number of them;
   if there are more, it searches for an intermediate vertex k with D[i, k] ⊗ D[k, j] = D[i, j].
3. Ties, and whole rows if some edge improves on 1̄, take a breadth-first search over tight edges. The search
   attaches an undecided vertex only to a decided one.
4. For rounding, an edge counts as tight within ε. Where an edge met D within 16 ε only, the path is added up in float64
   and compared with D within n ε / 2. A row that fails is repaired by Dijkstra's algorithm under the edge lengths
   |D[i, p] ⊗ w(p, j) - D[i, j]|.

If one strong component has weights of both signs, the search runs under potentials, before the distances are shifted
back. All weights are then ≥ 0, and step 2 applies. If there are several components, the search runs in the original
weights.

Cost: O(n² log n) on complete graphs with random weights, some 8 ns a pair on one Zen 4 core. A pair takes some 50 ns
where ties abound, or where hundreds of direct edges lead to every vertex. It took 200 ns in the worst case that was
measured (distances in the plane, of half of the pairs). The bound is O(n·m) for m direct edges, or n³ pairs. That few
edges matter is from D. R. Karger, D. Koller, S. J. Phillips, "Finding the hidden path: time bounds for all-pairs
shortest paths", SIAM J. Comput. 22 (1993).

`reference_predecessors` applies step 4 alone in plain NumPy, for backends without a search kernel, and as an oracle.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.potentials.rounding import least_magnitude, shift_bound
from semiring.arrays.parts import to_host_array
from semiring.errors import AlgebraError
from semiring.kernels.contract import NO_PREDECESSOR, Backend, KernelPlan
from semiring.kernels.engine import Engine
from semiring.kernels.tolerance import Tolerance, tolerance_for, unattained_distance
from semiring.namespaces import array_namespace

__all__ = [
    "PredecessorSearch",
    "nearest_tree",
    "path_sums",
    "predecessors",
    "reference_predecessors",
]

Array: TypeAlias = NDArray[Any]


def predecessors(backend: Backend, plan: KernelPlan, D: Array, weights: Array) -> Array:
    """Return the predecessors (n, n) int32 of D = A* (n, n), on the device of D.

    Parameters
    ----------
    backend, plan
        The kernels, and the plan of the closure.
    D
        The closure (n, n), of a selective semiring. It is not changed.
    weights
        The matrix A (n, n) before the closure; its diagonal is not read as edges.

    Raises
    ------
    AlgebraError
        If an entry of D is not the weight of a path, even within rounding.

    Notes
    -----
    The module describes the algorithm and its cost.
    """
    tolerance = tolerance_for(plan, D)
    if tolerance.is_exact or plan.semiring.tropical is None or plan.facts.nonnegative:
        return _search(backend, plan, D, weights, tolerance)
    return _search_mixed_signs(backend, plan, D, weights, tolerance)


def _search(backend: Backend, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance) -> Array:
    """Compute predecessors by the backend's search kernel, or by `reference_predecessors` where it has none."""
    search = backend.capabilities.paths
    if search is not None and D.size:
        pred: Array = search.find_predecessors(plan, D, tolerance, weights)
        return pred
    result: Array = array_namespace(D).asarray(
        reference_predecessors(plan, to_host_array(D), to_host_array(weights), tolerance)
    )
    return result


def _search_mixed_signs(backend: Backend, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance) -> Array:
    """Compute `predecessors` of distances that potentials have shifted, in the original weights (docs/rounding.md).

    The tolerance is in units of the largest distance. If it may exceed some edge, each path is added up and compared in
    units of its own weights. The same happens if the search reports that a distance is not the weight of any path.
    Cycles that gain only because their entries are rounded, such as float16 entries, shift distances by as much as they
    gain.

    Cost: O(n²) for each row that fails.
    """
    try:
        pred = _search(backend, plan, D, weights, tolerance)
        if not _is_too_coarse(D, weights):
            return pred
    except AlgebraError:
        pred = np.full(D.shape, NO_PREDECESSOR, np.int32)
    xp, n = array_namespace(D), D.shape[0]
    closed, edges, pred = to_host_array(D), to_host_array(weights), to_host_array(pred)
    relative_tolerance = 4 * n * float(np.finfo(plan.dtype).eps)
    for i in range(n):
        if not _has_lengths(plan, edges, closed[i], pred[i], i, relative_tolerance):
            pred[i] = nearest_tree(plan, edges, closed[i], i, tolerance)
    result: Array = xp.asarray(pred)
    return result


def _is_too_coarse(D: Array, weights: Array) -> bool:
    """Return whether the rounding of the largest distance may exceed some edge.

    This happens where weights differ too much in size.
    """
    if not D.size:
        return False
    xp = array_namespace(D)
    largest = float(xp.where(xp.isfinite(D), xp.abs(D), 0).max())
    return bool(shift_bound(D.shape[0], largest) >= float(least_magnitude(weights)))


def _has_lengths(
    plan: KernelPlan, weights: Array, distances: Array, pred: Array, source: int, tolerance: float
) -> bool:
    """Return whether the paths of a tree have the lengths ``distances``.

    The tolerance is relative to the magnitude of the distance plus the sum of the magnitudes of the weights.
    """
    try:
        sums = path_sums(plan, weights, pred, source)
        sizes = path_sums(plan, np.abs(weights), pred, source)
    except RuntimeError:
        return False
    reached = np.isfinite(distances)
    if not np.array_equal(reached, np.isfinite(sums)):
        return False
    deviations = np.abs(sums[reached] - distances[reached])
    return bool((deviations <= tolerance * (sizes[reached] + np.abs(distances[reached]))).all())


def reference_predecessors(plan: KernelPlan, D: Array, weights: Array, tolerance: Tolerance) -> Array:
    """Compute `predecessors` in NumPy, by one single-source run for each row.

    weights (n, n) has an edge where it is not 0̄; edges that no best path needs are allowed. Cost: O(n³), in array
    operations of n entries.
    """
    pred = np.full(D.shape, NO_PREDECESSOR, np.int32)
    for i in range(D.shape[0]):
        pred[i] = nearest_tree(plan, weights, D[i], i, tolerance)
    for i in range(D.shape[0]):
        if not tolerance.meets(path_sums(plan, weights, pred[i], i), D[i]).all():
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
                f"the predecessors of {waiting.size} vertices lead in circles, not to the source {source}"
            )
        ready_vertices = waiting[ready]
        steps = weights[pred[ready_vertices], ready_vertices].astype(wide)
        sums[ready_vertices] = mul.evaluate({"x": sums[pred[ready_vertices]], "y": steps}, wide)
        has_sum[ready_vertices] = True
        waiting = waiting[~ready]
    return sums


class PredecessorSearch:
    """A search for predecessors that runs when a matrix has been closed, and holds the result.

    The search runs on the encoded matrix, before the encoding is undone. ``predecessors`` is None before the search.
    """

    predecessors: Any = None

    def find(self, engine: Engine, D: Array, weights: Array) -> None:
        """Compute the predecessors of a closed matrix D from ``weights``, the matrix before the closure."""
        self.predecessors = predecessors(engine.backend, engine.plan, D, weights)


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
