"""Check results against their definition, for products, closures, distances, paths and predecessors.

The checkers share no code with the functions that they check. They apply plain NumPy to the elementwise ⊕ and ⊗ of the
semiring. Each checker returns nothing, or raises `AssertionError` that names the first wrong entry. It costs more than
the function that it checks, and its docstring states the cost. Matrices may be lists, sparse matrices of SciPy, packed
matrices, or those of a `Network` or another graph. Results may also be `Paths`.

Tolerances are relative: ``rtol`` times the magnitudes that went into an entry. The default is 0 (equality) wherever the
result allows it: for integers, for booleans, and for products with a selective ⊕. (Each candidate is one rounded ⊗, and
the choice among them is exact.) Otherwise it is a small multiple of n·ε, for the ε of the result's dtype. For whole
numbers in floats pass ``rtol=0``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algebra.operations import numpy_dtype
from semiring.arguments import as_numbers, require_flag, require_integer
from semiring.kernels.contract import NO_PREDECESSOR
from semiring.testing.arithmetic import (
    check_equal,
    epsilon,
    is_close,
    keeps_relative_error,
    lift,
    multiply,
    reject_entries,
    times,
    to_dense,
    tolerance,
)

__all__ = [
    "check_closure",
    "check_path",
    "check_predecessors",
    "check_product",
    "check_reachability",
    "check_shortest_paths",
]

Array: TypeAlias = NDArray[Any]


def check_product(A: Any, B: Any, C: Any, semiring: Semiring | str | None = None, *, rtol: float | None = None) -> None:
    """Check that C = A ⊗ B.

    Parameters
    ----------
    A, B, C : matrix, shapes (…, m, k), (…, k, n) and (…, m, n)
        The operands and the result. Leading dimensions broadcast.
    semiring : Semiring or str
        The semiring, or its name.
    rtol : float or None
        The relative tolerance. The default is 0 wherever the result allows equality, else a small multiple of n·ε, see
        `semiring.testing.checkers`.

    Raises
    ------
    AssertionError
        If an entry is wrong. The message names the first one and their number. Or if C has another dtype than the
        common dtype of A and B.

    Notes
    -----
    The cost is O(m·n·k).
    """
    semiring = as_semiring(semiring)
    if all(hasattr(array, "dtype") for array in (A, B, C)):
        given, common = numpy_dtype(C.dtype), np.result_type(numpy_dtype(A.dtype), numpy_dtype(B.dtype))
        if semiring.supports(common) and given != common:
            raise AssertionError(f"C has dtype {given}, but a product of {A.dtype} and {B.dtype} has dtype {common}")
    A, B, C = to_dense(A, semiring), to_dense(B, semiring), to_dense(C, semiring)
    expected, scale = multiply(A, B, semiring)
    if rtol is None:
        rtol = 0.0 if semiring.selective else 4 * (A.shape[-1] + 2) * epsilon(C.dtype)
    check_equal(C, expected, rtol * scale, "A ⊗ B", "C")


def check_closure(
    A: Any, D: Any, semiring: Semiring | str | None = None, *, reflexive: bool = True, rtol: float | None = None
) -> None:
    """Check that D = A*, or D = A⁺ with ``reflexive=False``.

    Parameters
    ----------
    A, D : matrix, shape (n, n)
        The matrix and its closure.
    semiring : Semiring or str
        The semiring, or its name.
    reflexive : bool
        Whether D is A*, which includes the identity, and not A⁺.
    rtol : float or None
        The relative tolerance. The default is 0 wherever the result allows equality, else a small multiple of n·ε, see
        `semiring.testing.checkers`.

    Raises
    ------
    AssertionError
        If an entry is wrong. The message names the first one and their number.

    Notes
    -----
    For an idempotent ⊕, D is compared with the sum of the powers of A, until a power changes nothing. For a selective ⊕
    it is at most the n-th power, because no cycle may improve a path. Cost: O(n³) for each power.

    For any other ⊕, the equations D = I ⊕ A ⊗ D and D = I ⊕ D ⊗ A must hold, with A in place of I for A⁺. In a field
    they determine D if I - A is invertible. Cost: O(n³).
    """
    require_flag(reflexive, "reflexive")
    semiring = as_semiring(semiring)
    A, D = to_dense(A, semiring), to_dense(D, semiring)
    if rtol is None:
        rtol = 16 * (len(A) + 2) * epsilon(D.dtype)
    A, D = lift(A, semiring), lift(D, semiring)
    _check_same_square(A, D)
    start = _identity(len(A), A.dtype, semiring) if reflexive else A
    if not semiring.idempotent:
        for left, right, term in ((A, D, "A ⊗ D"), (D, A, "D ⊗ A")):
            expected, scale = multiply(left, right, semiring, start)
            check_equal(D, expected, rtol * scale, f"{'I' if reflexive else 'A'} ⊕ {term}", "D")
        return
    # With a selective ⊕ the best path is simple, and further powers would only let rounding gain on cycles of weight 0.
    steps = len(A) if semiring.selective else 64 * (len(A) + 1)
    expected = start
    for _ in range(steps):
        following, _ = multiply(A, expected, semiring, start)
        if np.array_equal(following, expected):
            break
        expected = following
    check_equal(D, expected, tolerance(rtol, expected, A, semiring), "A*" if reflexive else "A⁺", "D")


def check_shortest_paths(A: Any, D: Any, *, rtol: float | None = None) -> None:
    """Check that D[i, j] is the least weight of a path from i to j along the edges A, the empty path included.

    Parameters
    ----------
    A, D : matrix, shape (n, n)
        The weights of the edges, and the distances, in min-plus.
    rtol : float or None
        The tolerance relative to the distance, or to the largest magnitude in A and D if signs are mixed. The default
        is a small multiple of n·ε, and 0 for integers.

    Raises
    ------
    AssertionError
        If a distance is wrong. The message names the first one and the reason.

    Notes
    -----
    Two conditions together are equivalent. The triangle inequality D[i, j] ≤ D[i, k] + A[k, j] holds for all i, k, j.
    From each source every vertex at a finite distance is reachable along edges at which it is an equality. Both hold
    up to the tolerance. Cost: O(n³).
    """
    semiring = as_semiring("min_plus")
    A, D = to_dense(A, semiring), to_dense(D, semiring)
    if rtol is None:
        rtol = 4 * (len(A) + 2) * epsilon(D.dtype)
    A, D = lift(A, semiring), lift(D, semiring)
    _check_same_square(A, D)
    none = semiring.zero_for(D.dtype)
    if is_floating(D.dtype):
        reject_entries(np.isnan(D) | np.isneginf(D), D, "is no distance")
    reject_entries(np.diag(np.diagonal(D) != 0), D, "is the distance of a vertex from itself, which is 0")
    max_error = tolerance(rtol, D, A, semiring)
    for i in range(len(A)):
        candidates = times(D[i, :, None], A, semiring)  # [k, j]: to k, then the edge k → j
        _check_triangles(i, D[i], candidates, max_error[i])
        tight = (candidates <= D[i] + max_error[i]) & (candidates != none)
        reached = _search_vertices(i, tight)
        reached[i] = True  # the path without edges leads to i
        reject_entries((D[i] != none) & ~reached, D[i], "is attained by no path", row=i)


def _check_triangles(i: int, distance: Array, candidates: Array, max_error: Array) -> None:
    best = candidates.min(axis=0)

    def reason(j: int) -> str:
        return f"exceeds D[{i}, {(k := candidates[:, j].argmin())}] + A[{k}, {j}] = {best[j]}"

    reject_entries(distance > best + max_error, distance, reason, row=i)


def _search_vertices(source: int, edge: Array) -> Array:
    """Return the vertices that a breadth-first search reaches, with the source only if it lies on a cycle."""
    reached = np.zeros(len(edge), bool)
    frontier = np.arange(len(edge)) == source
    while frontier.any():
        frontier = edge[frontier].any(axis=0) & ~reached
        reached |= frontier
    return reached


def check_path(
    A: Any,
    path: Sequence[int],
    distance: Any = None,
    semiring: Semiring | str | None = None,
    *,
    source: int | None = None,
    target: int | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
) -> None:
    """Check that a list of vertices is a path of some weight from one vertex to another.

    A path is a list of different vertices joined by edges of A.

    Parameters
    ----------
    A : matrix, shape (n, n)
        The weights of the edges.
    path : sequence of int
        The vertices in order.
    distance : scalar or None
        The weight 1̄ ⊗ A[v₀, v₁] ⊗ A[v₁, v₂] ⊗ … of the path. For min-plus and max-plus it is added up exactly. None is
        not checked.
    semiring : Semiring or str
        The semiring, or its name.
    source, target : int or None
        The first and the last vertex. None is not checked.
    rtol : float or None
        The tolerance of the weight, relative to the sum of the magnitudes. The default is a small multiple of the
        number of vertices times ε, and 0 for integers.
    atol : float
        An absolute tolerance on top: where signs are mixed, a closure may have rounded at the magnitude of its largest
        entries.

    Raises
    ------
    AssertionError
        If the list is no such path. The message says why.

    Notes
    -----
    The cost is O(length).
    """
    semiring = as_semiring(semiring)
    A, path = to_dense(A, semiring), _as_vertices(path)
    _check_same_square(A)
    _require(path, "the path is empty: a vertex alone is a path of one vertex")
    for position, vertex in enumerate(path):
        _require(0 <= vertex < len(A), f"the path {path} visits {vertex}, which is none of {len(A)} vertices")
        _require(vertex not in path[:position], f"the path {path} visits {vertex} twice")
    _require(source is None or path[0] == source, f"the path {path} starts at {path[0]}, not at {source}")
    _require(target is None or path[-1] == target, f"the path {path} ends at {path[-1]}, not at {target}")
    weights = A[path[:-1], path[1:]]
    for u, v, weight in zip(path[:-1], path[1:], weights, strict=True):
        _require(weight != semiring.zero_for(A.dtype), f"the path {path} uses {u} → {v}, which is no edge")
    if distance is None:
        return
    if rtol is None:
        rtol = 4 * (len(path) + 2) * epsilon(np.result_type(A.dtype, np.asarray(distance).dtype))
    total, magnitude = _path_weight(weights, semiring)
    _require(
        is_close(np.asarray(total), np.asarray(distance), np.asarray(rtol * magnitude + atol)),
        f"the path {path} has weight {total}, not {distance}",
    )


def _path_weight(weights: Array, semiring: Semiring) -> tuple[Any, float]:
    """Return the product of the weights, and the magnitude to which its rounding is relative."""
    if semiring.tropical:
        total = math.fsum(weights.tolist()) if is_floating(weights.dtype) else sum(weights.tolist())
    else:
        total = semiring.one_for(weights.dtype)
        for weight in weights:
            total = semiring.mul(total, weight)
    summands = [abs(float(x)) for x in (total, *weights) if np.isfinite(x)]
    return total, summands[0] if summands and keeps_relative_error(semiring, weights) else sum(summands)


def check_predecessors(
    A: Any,
    D: Any,
    predecessors: Any,
    semiring: Semiring | str | None = None,
    *,
    none: int = NO_PREDECESSOR,
    rtol: float | None = None,
) -> None:
    """Check that row i of ``predecessors`` is a tree of paths from i with the weights D[i, :].

    Every edge of a tree must exist in A, and predecessors must lead to i without a cycle.

    Parameters
    ----------
    A, D : matrix, shape (n, n)
        The weights of the edges, and the weights of the best paths.
    predecessors : array of int, shape (n, n)
        ``predecessors[i, j]`` is the vertex before j on a path from i. It is ``none`` for j = i and without a path.
    semiring : Semiring or str
        The semiring, or its name.
    none : int
        The number that stands for no predecessor.
    rtol : float or None
        The relative tolerance. The default is 0 wherever the result allows equality, else a small multiple of n·ε, see
        `semiring.testing.checkers`.

    Raises
    ------
    AssertionError
        If a predecessor or a weight is wrong. The message names the first one and the reason.

    Notes
    -----
    The cost is O(n² log n).
    """
    semiring = as_semiring(semiring)
    A, D, P = to_dense(A, semiring), to_dense(D, semiring), as_numbers(predecessors, "predecessors")
    if rtol is None:
        rtol = 4 * (len(A) + 2) * epsilon(D.dtype)
    A, D = lift(A, semiring), lift(D, semiring)
    _check_same_square(A, D, P)
    n, zero = len(A), semiring.zero_for(A.dtype)
    source, vertex = np.indices((n, n))
    has_parent = (zero != D) & (source != vertex)
    reject_entries(
        (none != P) & ~has_parent, P, f"should be {none}: it is the source, or there is no path", name="predecessors"
    )
    reject_entries(has_parent & ((P < 0) | (n <= P)), P, "is no vertex, but there is a path", name="predecessors")
    parent = np.where(has_parent, P, vertex).astype(np.intp)
    edge = np.where(has_parent, A[parent, vertex], semiring.one_for(A.dtype))
    reject_entries(has_parent & (edge == zero), P, lambda i, j: f"has no edge to {j}", name="predecessors")
    weight, ancestor = edge, parent
    for _ in range(n.bit_length()):  # each step doubles the number of edges in the weights
        weight = times(weight[source, ancestor], weight, semiring)
        ancestor = ancestor[source, ancestor]
    reject_entries(has_parent & (ancestor != source), P, "never leads back to the source", name="predecessors")
    off = has_parent & ~is_close(weight, D, tolerance(rtol, D, A, semiring))
    reject_entries(off, D, lambda i, j: f"is not the weight of the path that the predecessors give, {weight[i, j]}")


def check_reachability(A: Any, R: Any, semiring: Semiring | str | None = None, *, reflexive: bool = True) -> None:
    """Check that R[i, j] is whether a path leads from i to j, by a breadth-first search from every vertex.

    Parameters
    ----------
    A, R : matrix, shape (n, n)
        The edges and the reachability: truth values, or matrices of a semiring, whose entries except zero are edges and
        paths.
    semiring : Semiring, str or None
        The semiring of the matrices. The default is min-plus.
    reflexive : bool
        Whether every vertex reaches itself. Otherwise it reaches itself only along a cycle.

    Raises
    ------
    AssertionError
        If an entry of R is wrong. The message names the first one and their number.

    Notes
    -----
    The cost is O(n³) at worst.
    """
    require_flag(reflexive, "reflexive")
    algebra = as_semiring("min_plus" if semiring is None else semiring)
    edge, claimed = _as_truth_values(A, algebra), _as_truth_values(R, algebra)
    _check_same_square(edge, claimed)
    for i in range(len(edge)):
        reached = _search_vertices(i, edge)
        reached[i] |= reflexive
        reject_entries(
            reached != claimed[i],
            claimed[i],
            "is not what a breadth-first search finds",
            name="R",
            row=i,
        )


def _as_vertices(path: Any) -> list[int]:
    """Return the vertices of a path as ints. Raises `TypeError` for anything but a list of integers."""
    if isinstance(path, str) or not isinstance(path, Iterable):
        raise TypeError(f"path is {quote(path)}: give a list of vertices")
    return [require_integer(vertex, "a vertex") for vertex in path]


def _as_truth_values(x: Any, semiring: Semiring) -> Array:
    x = to_dense(x, semiring)
    return np.asarray(x if x.dtype.kind == "b" else x != semiring.zero_for(x.dtype))


def _identity(n: int, dtype: np.dtype[Any], semiring: Semiring) -> Array:
    return np.asarray(np.where(np.eye(n, dtype=bool), semiring.one_for(dtype), semiring.zero_for(dtype)))


def _check_same_square(*matrices: Array) -> None:
    shapes = [matrix.shape for matrix in matrices]
    square = len(shapes[0]) == 2 and shapes[0][0] == shapes[0][1]
    _require(square and len(set(shapes)) == 1, f"the matrices are {shapes}: they should be square, of one size")


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)
