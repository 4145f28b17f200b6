"""Predecessors of a closure: for every pair (i, j) the vertex before j on one best path from i, found afterwards.

An edge p → j is *direct* where the closure D = A* left its entry alone: the edge is itself a best path. An edge that
is not is strictly worse than a path that replaces it, so in exact arithmetic there is a best path of direct edges
alone for every pair. Direct edges are told by comparing D with the matrix before.

The result is pred (n, n) int32 by SciPy's convention: pred[i, j] is the vertex before j, -9999 where there is none
and on the diagonal. Row i is a tree with root i, whatever ties and zero-weight cycles there are. An edge p → j is
*tight* in row i if D[i, p] ⊗ w(p, j) = D[i, j]. Four steps, of which docs/predecessors.md proves that they suffice:

1. Where i → j is direct, pred[i, j] = i.
2. Where no edge improves on 1̄, p may stand before j if p → j is direct and tight and D[i, p] is strictly better than
   D[i, j]: then pointers never lead in a circle. A vertex tries the direct edges into it; a CPU tries a fixed number of
   them, and where there are more, looks for a vertex k between with D[i, k] ⊗ D[k, j] = D[i, j].
3. Ties, or all of a row where some edge improves on 1̄: a breadth-first search over tight edges, which attaches an
   undecided vertex only to a decided one.
4. Rounding: an edge counts as tight within ε. Where one met D within 16 ε only, the path is added up in float64 and
   compared with D within n ε / 2. A row that fails is repaired by Dijkstra's algorithm under the edge lengths
   |D[i, p] ⊗ w(p, j) - D[i, j]|.

With mixed signs in one strong component all this happens under potentials, before the distances are shifted back: there
every weight is ≥ 0, and step 2 applies. Of several components it happens in the weights as they came.

Cost: O(n² log n) on complete graphs with random weights, some 8 ns a pair on one Zen 4 core; some 50 where ties abound,
or where hundreds of direct edges lead to every vertex, and 200 in the worst case that was found (distances in the
plane, of half of the pairs); at worst O(n·m) for m direct edges, or n³ pairs. That few edges matter is from D. R.
Karger, D. Koller, S. J. Phillips, "Finding the hidden path: time bounds for all-pairs shortest paths", SIAM J. Comput.
22 (1993).

`reference` is the same in plain NumPy, for backends without a fast path and as an oracle: step 4 alone does it all.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.potentials.rounding import least_magnitude, shift_bound
from semiring.arrays.parts import on_host
from semiring.errors import AlgebraError
from semiring.kernels.contract import NO_PREDECESSOR, Backend, KernelPlan
from semiring.kernels.engine import Engine
from semiring.kernels.tolerance import Tolerance, tolerance_for, unattained_distance
from semiring.namespaces import array_namespace

__all__ = ["Inspection", "attach_unbounded", "nearest_tree", "path_sums", "predecessors", "reference"]

Array: TypeAlias = NDArray[Any]


def predecessors(backend: Backend, plan: KernelPlan, D: Array, before: Array) -> Array:
    """The predecessors (n, n) int32 of D = A* (n, n), where D lives; nothing is changed.

    ``before``: the matrix A that was closed; its diagonal does not matter. The semiring is selective. Cost and method:
    see the module.

    Raises `AlgebraError` where an entry of D is not the weight of a path, not even up to rounding.
    """
    tolerance = tolerance_for(plan, D)
    if tolerance.is_exact or plan.semiring.tropical is None or plan.facts.nonnegative:
        return _found(backend, plan, D, before, tolerance)
    return _of_both_signs(backend, plan, D, before, tolerance)


def _found(backend: Backend, plan: KernelPlan, D: Array, before: Array, tolerance: Tolerance) -> Array:
    search = backend.capabilities.paths
    if search is not None and D.size:
        found: Array = search.find_predecessors(plan, D, tolerance, before)
        return found
    result: Array = array_namespace(D).asarray(reference(plan, on_host(D), on_host(before), tolerance))
    return result


def _of_both_signs(backend: Backend, plan: KernelPlan, D: Array, weights: Array, tolerance: Tolerance) -> Array:
    """`predecessors` of distances that potentials have moved, in the weights as they came: docs/rounding.md.

    Where the tolerance, in units of the largest distance, may exceed some edge, each path is added up and compared in
    units of its own weights. So it is where the search says that a distance is not the weight of any path: cycles that
    gain by the rounding of their entries alone, such as that of halves, take distances from the paths by as much.

    Cost: O(n²) for each row that fails.
    """
    try:
        pred = _found(backend, plan, D, weights, tolerance)
        if not _is_too_coarse(D, weights):
            return pred
    except AlgebraError:
        pred = np.full(D.shape, NO_PREDECESSOR, np.int32)
    xp, n = array_namespace(D), D.shape[0]
    closed, edges, pred = on_host(D), on_host(weights), on_host(pred)
    allowed = 4 * n * float(np.finfo(plan.dtype).eps)
    for i in range(n):
        if not _adds_up(plan, edges, closed[i], pred[i], i, allowed):
            pred[i] = nearest_tree(plan, edges, closed[i], i, tolerance)
    result: Array = xp.asarray(pred)
    return result


def _is_too_coarse(D: Array, weights: Array) -> bool:
    """Whether the rounding of the largest distance may exceed some edge: weights differ too much in size."""
    if not D.size:
        return False
    xp = array_namespace(D)
    largest = float(xp.where(xp.isfinite(D), xp.abs(D), 0).max())
    return bool(shift_bound(D.shape[0], largest) >= float(least_magnitude(weights)))


def _adds_up(plan: KernelPlan, weights: Array, distances: Array, pred: Array, source: int, allowed: float) -> bool:
    """Whether the paths of a tree have the lengths ``distances``, relative to the size of the weights on them."""
    try:
        sums = path_sums(plan, weights, pred, source)
        sizes = path_sums(plan, np.abs(weights), pred, source)
    except RuntimeError:
        return False
    reached = np.isfinite(distances)
    if not np.array_equal(reached, np.isfinite(sums)):
        return False
    missed = np.abs(sums[reached] - distances[reached])
    return bool((missed <= allowed * (sizes[reached] + np.abs(distances[reached]))).all())


def reference(plan: KernelPlan, D: Array, weights: Array, tolerance: Tolerance) -> Array:
    """`predecessors` in NumPy: one single-source run for each row, O(n³) in array operations of n entries.

    weights (n, n): an edge where they are not 0̄, with edges that no best path needs or without.
    """
    pred = np.full(D.shape, NO_PREDECESSOR, np.int32)
    for i in range(D.shape[0]):
        pred[i] = nearest_tree(plan, weights, D[i], i, tolerance)
    for i in range(D.shape[0]):
        if not tolerance.meets(path_sums(plan, weights, pred[i], i), D[i]).all():
            raise unattained_distance(plan)
    return pred


def attach_unbounded(plan: KernelPlan, A: Array, D: Array, pred: Array) -> None:
    """Put right the rows of pred that reach an edge of unbounded gain (-∞ in min-plus, +∞ in max-plus).

    Such edges are inserted into a closure last (`unbounded`), under no potentials. Cost: a look at D, and O(n²) a row.
    """
    gain = -plan.semiring.zero_for(plan.dtype)
    if not D.size or (D.min() if gain < 0 else D.max()) != gain:
        return
    tolerance = tolerance_for(plan, D)
    rows, weights, xp = np.flatnonzero(on_host((gain == D).any(axis=1))), on_host(A), array_namespace(D)
    for i in map(int, rows):
        pred[i] = xp.asarray(nearest_tree(plan, weights, on_host(D[i]), i, tolerance))


def path_sums(plan: KernelPlan, weights: Array, pred: Array, source: int) -> Array:
    """The weights along the paths of a tree, added up from the ``source`` on, floats in float64 or wider: (n,), 0̄
    where no path.

    Raises `RuntimeError` where pred (n,) is no tree with that root.
    """
    n = pred.shape[0]
    wide = _wide(plan.dtype)
    mul = plan.semiring.mul.expression
    sums = np.full(n, plan.zero, wide)
    sums[source] = plan.one
    known = np.zeros(n, np.bool_)
    known[source] = True
    waiting = np.flatnonzero(pred >= 0)
    while waiting.size:
        ready = known[pred[waiting]]
        if not ready.any():
            raise RuntimeError(
                f"the predecessors of {waiting.size} vertices lead in circles, not to the source {source}"
            )
        now = waiting[ready]
        steps = weights[pred[now], now].astype(wide)
        sums[now] = mul.evaluate({"x": sums[pred[now]], "y": steps}, wide)
        known[now] = True
        waiting = waiting[~ready]
    return sums


class Inspection:
    """The predecessors of a matrix, ``found`` when it is closed: through the maps, before they are undone."""

    found: Any = None

    def look(self, engine: Engine, closed: Array, before: Array) -> None:
        """Find those of a closed matrix, by a copy of what it was."""
        self.found = predecessors(engine.backend, engine.plan, closed, before)


def nearest_tree(plan: KernelPlan, weights: Array, distances: Array, source: int, tolerance: Tolerance) -> Array:
    """The predecessors (n,) int32 of the paths from ``source`` that miss the ``distances`` (n,) the least.

    Dijkstra's algorithm under the lengths |distances[p] ⊗ w(p, j) - distances[j]| (in units of the distance where
    errors are relative), ties broken by the number of edges; weights (n, n) may have any signs. Where ⊗ is exact, only
    edges of length 0 are taken. A vertex that no edge leads to has -9999. Cost: O(n²).
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
        total = length[p] + missed(reached, goal, tolerance)
        better = (total < length[edges]) | ((total == length[edges]) & (total < np.inf) & (hops[p] + 1 < hops[edges]))
        chosen = edges[better]
        length[chosen], hops[chosen], pred[chosen] = total[better], hops[p] + 1, p
    return pred


def missed(reached: Array, goal: Array, tolerance: Tolerance) -> Array:
    if tolerance.is_exact:
        return np.where(reached == goal, 0.0, np.inf)
    with np.errstate(all="ignore"):
        wide = _wide(reached.dtype)
        x, y = reached.astype(wide), goal.astype(wide)
        missed = np.abs(x - y)
        if tolerance.is_relative:
            missed = missed / np.maximum(np.abs(y), np.finfo(np.float64).tiny)
    return np.where(reached == goal, 0.0, np.where(np.isnan(missed), np.inf, missed))


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In which weights of a path are added up and compared: floats in float64, or as they are where they are wider."""
    return np.promote_types(dtype, np.float64) if is_floating(dtype) else dtype
