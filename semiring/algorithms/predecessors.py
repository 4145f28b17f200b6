"""Compute the predecessors of a closure: for every pair (i, j) the vertex before j on one best path from i.

An edge p → j is *direct* if the closure D = A* did not change its entry: the edge is itself a best path. Every other
edge is strictly worse than a path that replaces it. So in exact arithmetic every pair has a best path of direct edges
alone. A comparison of D with the matrix before the closure shows which edges are direct.

The result is pred (n, n) int32 by SciPy's convention: pred[i, j] is the vertex before j, or -9999 without a path and
on the diagonal. Row i is a tree with root i, even with ties and zero-weight cycles. An edge p → j is *tight* in row i
if D[i, p] ⊗ w(p, j) = D[i, j]. There are four steps, and docs/predecessors.md proves that they suffice:

1. If i → j is direct, pred[i, j] = i.
2. If no edge improves on 1̄, p may precede j if p → j is direct and tight and D[i, p] is strictly better than D[i, j].
   Pointers then never lead in a cycle. The direct edges into a vertex are tried. A CPU tries a fixed number of them;
   if there are more, it searches for an intermediate vertex k with D[i, k] ⊗ D[k, j] = D[i, j].
3. Ties, and whole rows if some edge improves on 1̄, take a breadth-first search over tight edges. The search
   attaches an undecided vertex only to a decided one.
4. For rounding, an edge counts as tight within ε. Where an edge met D within 16 ε only, the path is added up in float64
   and compared with D within n ε / 2. A row that fails is repaired by Dijkstra's algorithm under the edge lengths
   |D[i, p] ⊗ w(p, j) - D[i, j]|.

If one strong component has weights of both signs, the search runs under potentials, before the distances are shifted
back. All weights are then ≥ 0, and step 2 applies. If there are several components, or few vertices, the search runs in
the original weights.

Cost: O(n² log n) on complete graphs with random weights, some 8 ns a pair on one Zen 4 core. A pair takes some 50 ns
where ties abound, or where hundreds of direct edges lead to every vertex. It took 200 ns in the worst case that was
measured (distances in the plane, of half of the pairs). The bound is O(n·m) for m direct edges, or n³ pairs. That few
edges matter is from D. R. Karger, D. Koller, S. J. Phillips, "Finding the hidden path: time bounds for all-pairs
shortest paths", SIAM J. Comput. 22 (1993).

The reference backend applies step 4 alone in plain NumPy (`semiring.kernels.nearest_trees`), as an oracle, and in place
of a backend without a search kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import min_plus
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.potentials.rounding import least_magnitude, shift_bound
from semiring.arrays.encoding import inner_zero
from semiring.arrays.parts import to_host_array
from semiring.errors import AlgebraError
from semiring.kernels.contract import NO_PREDECESSOR, Backend, KernelPlan
from semiring.kernels.engine import Engine, engine_of, make_plan
from semiring.kernels.nearest_trees import nearest_tree, path_sums, reference_predecessors
from semiring.kernels.tolerance import Tolerance, depends_on_distances, tolerance_for, tolerance_of
from semiring.namespaces import array_namespace

__all__ = ["PredecessorSearch", "predecessors", "search_closure"]

Array: TypeAlias = NDArray[Any]


def predecessors(backend: Backend, plan: KernelPlan, D: Array, weights: Array) -> Array:
    """Return the predecessors int32 of D = A*, of the shape and on the device of D.

    Parameters
    ----------
    backend, plan
        The kernels, and the plan of the closure.
    D
        The closure (n, n) of a selective semiring, or a stack (count, n, n) of closures. It is not changed.
    weights
        The matrix A before the closure, of the same shape; its diagonal is not read as edges.

    Raises
    ------
    AlgebraError
        If an entry of D is not the weight of a path, even within rounding.

    Notes
    -----
    The module describes the algorithm and its cost.
    """
    if not D.size:
        return array_namespace(D).empty(D.shape, np.int32)  # type: ignore[no-any-return]  # CuPy has no types
    if D.ndim > 2 and depends_on_distances(plan):
        return _search_each(backend, plan, D, weights)
    tolerance = tolerance_for(plan, D)
    if tolerance.is_exact or plan.semiring.tropical is None or plan.facts.nonnegative:
        return _search(backend, plan, D, weights, tolerance)
    return _search_mixed_signs(backend, plan, D, weights, tolerance)


def search_closure(semiring: Semiring, D: Any, weights: Any, threads: int) -> Any | None:
    """Return the predecessors int32 (n, n) of a closure D = A* (n, n) in the caller's encoding, on the device of D.

    Max-plus is searched as min-plus of the negatives, float16 and bfloat16 in float32, and integers with half their
    range for "no path". Return None if these do not hold the distances, if ⊕ does not select, or if an entry of D is
    not the weight of a path.
    """
    if not semiring.selective:
        return None
    dtype, xp = D.dtype, array_namespace(D)
    plan = make_plan(semiring, dtype)
    if semiring.tropical is not None:
        D, weights = (_in_min_plus(x, semiring) for x in (D, weights))
        if D is None or weights is None:
            return None
        semiring, dtype = min_plus, D.dtype
        plan = make_plan(min_plus, plan.dtype, nonnegative=bool((weights >= 0).all()))
    tolerance = tolerance_for(plan, D) if is_half(dtype) else None
    if tolerance is not None:
        D, weights = D.astype(np.float32), weights.astype(np.float32)
    plan = make_plan(semiring, D.dtype, nonnegative=plan.facts.nonnegative, threads=threads)
    backend = engine_of(plan, D).backend
    D, weights = xp.ascontiguousarray(D), xp.ascontiguousarray(weights)
    try:
        if tolerance is not None:
            return _search(backend, plan, D, weights, tolerance)
        return predecessors(backend, plan, D, weights)
    except AlgebraError:
        return None


def _in_min_plus(values: Any, semiring: Semiring) -> Any | None:
    """Return an array of min-plus or max-plus as one of min-plus, in which no sum of two integers overflows.

    Return None for integers that "no path" is not beyond.
    """
    xp, dtype = array_namespace(values), values.dtype
    none = semiring.zero_for(dtype)
    if dtype.kind == "i":
        is_none, most = values == none, int(inner_zero(min_plus, dtype))
        proper = xp.where(is_none, 0, values)
        if proper.size and max(int(proper.max()), -int(proper.min())) >= most:
            return None
        values, none = proper, dtype.type(most)
        if semiring.tropical == "max":
            values = -values
        return xp.where(is_none, none, values)
    return -values if semiring.tropical == "max" else values


def _search_each(backend: Backend, plan: KernelPlan, D: Any, weights: Any) -> Array:
    """Compute the predecessors of a stack whose matrices have tolerances of their own.

    Matrices without a weight below 0 have the tolerance of a call for them alone.
    """

    def search_alone(number: int) -> Array:
        known = plan if has_gain[number] else nonnegative
        return predecessors(backend, known, D[number], weights[number])

    n, xp = D.shape[-1], array_namespace(D)
    is_mixed = plan.semiring.tropical is not None
    nonnegative = make_plan(plan.semiring, plan.dtype, nonnegative=is_mixed, threads=plan.threads)
    has_gain = to_host_array((weights < 0).any(axis=(1, 2))) if is_mixed else np.ones(len(D), np.bool_)
    if xp is not np:
        result: Array = xp.stack([search_alone(number) for number in range(len(D))])
        return result
    largest = np.where(np.isfinite(D), np.abs(D), 0).max(axis=(1, 2)).tolist()
    limits = [tolerance_of(plan if gains else nonnegative, n, x) for gains, x in zip(has_gain, largest, strict=True)]
    try:
        pred = _search(backend, plan, D, weights, limits)
    except AlgebraError:  # of some matrix, whose rows are repaired
        return np.stack([search_alone(number) for number in range(len(D))])
    if is_mixed:
        is_coarse = has_gain & (shift_bound(n, np.array(largest)) >= least_magnitude(weights))
        for number in np.flatnonzero(is_coarse).tolist():
            pred[number] = search_alone(number)
    return pred


def _search(backend: Backend, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance | list[Tolerance]) -> Array:
    """Compute predecessors by the backend, or by the reference backend if it has no search kernel."""
    if backend.capabilities.paths is not None:
        pred: Array = backend.capabilities.paths.find_predecessors(plan, D, tolerance, weights)
        return pred
    on_host = reference_predecessors(plan, to_host_array(D), to_host_array(weights), tolerance)
    result: Array = array_namespace(D).asarray(on_host)
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


class PredecessorSearch:
    """A search for predecessors that runs when a matrix has been closed, and holds the result.

    The search runs on the encoded matrix, before the encoding is undone. ``predecessors`` is None before the search.

    ``elsewhere(plan, D, weights)`` searches on other devices than those of the engine, and returns None where it does
    not apply.
    """

    predecessors: Any = None

    def __init__(self, elsewhere: Callable[[KernelPlan, Any, Any], Any] | None = None) -> None:
        self._elsewhere = elsewhere

    def close(self, engine: Engine, D: Any, weights: Any, fill: Callable[[slice], None]) -> bool:
        """Write the closures of a stack to D, and find the predecessors; False if the backend does not do both.

        ``fill(part)`` writes the weights of some matrices to D, which is in other memory.
        """
        if not engine.capabilities.provides("close_and_search") or depends_on_distances(engine.plan):
            return False
        kernels: Any = engine.capabilities.paths
        self.predecessors = kernels.close_and_search(engine.plan, D, tolerance_for(engine.plan, D), weights, fill)
        return True

    def find(self, engine: Engine, D: Array, weights: Array) -> None:
        """Compute the predecessors of a closed matrix D from ``weights``, the matrix before the closure."""
        found = None if self._elsewhere is None else self._elsewhere(engine.plan, D, weights)
        self.predecessors = predecessors(engine.backend, engine.plan, D, weights) if found is None else found
