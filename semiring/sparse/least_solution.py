"""Solve x = A ⊗ x ⊕ b for its least solution in one call, by the cheapest method that the matrix allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_products, as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.stars import counts_paths, divergence_error, warn_of_diverging_sum
from semiring.arguments import check_flags, is_one_of, require_flag
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import check_entries, decode, encode, has_inner_zero, round_to_dtype, to_compute_dtype
from semiring.arrays.labels import may_name_vertices
from semiring.arrays.operands import as_host_operand, as_matrix, device_context, operands
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse
from semiring.arrays.zero_conventions import warn_of_other_zeros
from semiring.closures import closure, closure_of_rounded
from semiring.errors import DivergenceError, ShapeError, no_star, square_error
from semiring.io.inputs import Reading, open_graph
from semiring.io.network import semiring_of, symmetrize
from semiring.kernels import backend_for
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.engine import Engine, make_plan
from semiring.linalg import matmul
from semiring.sparse.edge_inputs import (
    SparseEntries,
    choose_work_dtype,
    edges_of,
    largest_magnitude,
    relevant_edges,
)
from semiring.sparse.factorization import Factor, align_labels, as_columns, convert_right_side
from semiring.sparse.improving_cycles import check_on_cycle
from semiring.sparse.numeric_factor import PivotError
from semiring.sparse.path_counts import check_counts
from semiring.sparse.placement import select_placement
from semiring.sparse.symbolic_factor import analyse
from semiring.thread_counts import check_threads, get_threads

__all__ = ["fixed_point"]

Array = NDArray[Any]

_BLOCK = 256  # the pivots of a block of a dense matrix, a constant because it decides the bits of the results


def fixed_point(
    A: Any,
    b: Any,
    semiring: Semiring | str | None = None,
    *,
    transpose: bool = False,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    on_cycle: Literal["raise", "unbounded"] = "raise",
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Array:
    """Return the least solution of x = A ⊗ x ⊕ b, which is A* ⊗ b.

    NumPy's ``solve`` solves A x = b, and this function solves x = A x + b. In min-plus x[i] is the least sum of b[j]
    and a path from i to some j.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A dense or sparse matrix, a graph, a frame, a `Network`, or the name of a file, in the memory of the host.
    b : array_like, shape (n,) or (n, k)
        The right-hand sides.
    semiring : Semiring or str, optional
        The semiring, by default that of a `Network`, else min-plus.
    transpose : bool, default False
        Solve x = x ⊗ A ⊕ b instead.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    on_cycle : str, default "raise"
        The entries whose walks to b lead over a cycle that improves without end, as in `factor`: an error, or
        ``"unbounded"``, −∞ in min-plus and ∞ in max-plus.
    check : bool, default True
        Whether to warn of the "no edge" of another convention in a dense matrix (`SuspiciousWeightsWarning`). The
        entries are validated in any case, because their signs decide how the system is solved.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : str, optional
        ``"cuda"`` or ``"cuda:1"`` computes on that GPU, and copies the solution back. There the closure of a dense A is
        computed. An acyclic A that lists edges is swept on the host.

    Returns
    -------
    array, shape (n,) or (n, k)
        The solution, of the shape of b. The dtype is that of A and b together. A sparse A decides it alone.

    Raises
    ------
    ShapeError
        If A is not square, or b has another number of rows.
    AlgebraError
        For a semiring without a star, unless A lists edges and is acyclic.
    NegativeCycleError, DivergenceError
        If a cycle that improves or diverges reaches an entry of b, unless ``on_cycle`` is "unbounded". Other cycles do
        not matter.
    UnknownNameError
        For an unknown semiring or ``on_cycle``.
    IntegerOverflowError, DomainError, DTypeError, DeviceError
        As in `closure` and `factor`.

    Notes
    -----
    Integers of plus_times are summed exactly over the paths of an acyclic A. `IntegerOverflowError` follows if a sum
    may leave their dtype, and `DTypeError` if A has a cycle. Any other dense A is eliminated in blocks, which costs
    n³/3 pairs: a third of a closure. For a dense floating-point A with weights of both signs the closure is computed
    instead, because rounding could make cycles negative. An acyclic A that lists edges (sparse, a graph, a frame) is
    swept once in topological order, in any semiring. An A that lists edges and has cycles is factored: call `factor`
    for several b with one sparse A.

    Examples
    --------
    >>> inf = float("inf")
    >>> fixed_point([[inf, 3.0, inf], [inf, inf, 1.0], [inf, inf, inf]], [inf, inf, 0.0])
    array([4., 1., 0.])
    """
    algebra = as_semiring(semiring_of(A, semiring))
    count = get_threads() if threads is None else check_threads(threads)
    check_flags({"check": check})
    require_flag(transpose, "transpose")
    check_on_cycle(on_cycle, algebra)
    gpu = None if is_one_of(device, ("cpu",)) else device
    with device_context((), gpu):  # DeviceError if there is no such GPU
        pass
    A, reading = open_graph(A, algebra, Reading(weight, directed, columns), sparse=True)
    try:
        return _solve(A, b, algebra, reading, transpose, check, count, gpu)
    except DivergenceError:
        edges = edges_of(A, algebra, reading=reading, check=False).require_eliminable()
        if not (may_name_vertices(A) or is_sparse(A)):
            values, b = operands(algebra, A=edges.values, b=as_host_operand(b, "b"))
            edges = replace(edges, values=values)
        support = _nonzero_rows(align_labels(to_host_array(b), edges.names), algebra)
        relevant = relevant_edges(edges, *((support, None) if transpose else (None, support)))
        if relevant is None and on_cycle == "raise":
            raise
    # The entries of the other vertices are the zero, whatever cycles these are on.
    edges = edges if relevant is None else relevant
    analysis, option = analyse(edges.pattern), None if on_cycle == "raise" else on_cycle
    factor = Factor(algebra, edges, analysis, count, select_placement(gpu), on_cycle=option)
    return np.asarray(to_host_array(factor.solve(b, transpose=transpose)))


def _nonzero_rows(b: Any, semiring: Semiring) -> Array:
    """Return the rows of the right-hand side (n,) or (n, k) that have an entry other than the zero."""
    array = np.asarray(b)
    return np.flatnonzero((as_columns(array) != semiring.zero_for(array.dtype)).any(axis=1))


def _solve(
    A: Any, b: Any, algebra: Semiring, reading: Reading, transpose: bool, check: bool, count: int, gpu: Any
) -> Array:
    """Compute `fixed_point` of a graph or a matrix that was opened."""
    directed = reading.directed
    if may_name_vertices(A) or is_sparse(A):
        edges = edges_of(A, algebra, reading=reading, check=check).require_eliminable()
        pattern = edges.pattern
        order = elimination_trees.topological_order(pattern.starts, pattern.indices)
        if order.size == pattern.n or counts_paths(algebra, edges.values.dtype):
            return _sweep_acyclic(edges, order, b, algebra, transpose)
        _require_star(algebra)
        solution = Factor(algebra, edges, analyse(pattern), count, select_placement(gpu)).solve(b, transpose=transpose)
        return np.asarray(to_host_array(solution))
    array = A.unpack() if isinstance(A, BitMatrix) else A
    array = array if directed is not False else symmetrize(as_matrix(array, algebra, square=True), algebra)
    matrix, right = operands(algebra, A=as_host_operand(array), b=as_host_operand(b, "b"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise square_error(matrix.shape)
    _check_shape(right, len(matrix))
    if check:
        warn_of_other_zeros(matrix, algebra)
    _require_star(algebra)
    if counts_paths(algebra, matrix.dtype):
        edges = edges_of(matrix, algebra, check=False)
        order = elimination_trees.topological_order(edges.pattern.starts, edges.pattern.indices)
        return _sweep_acyclic(edges, order, right, algebra, transpose)
    if gpu is not None:
        return _solve_by_closure(matrix, right, algebra, transpose, count, gpu)
    return _solve_dense(matrix, right, algebra, transpose, count)


def _require_star(semiring: Semiring) -> None:
    """Raise an error if the semiring has no star."""
    if semiring.star_expression is None:
        raise no_star(semiring.name, ", and A may have cycles")


def _check_shape(b: Array, n: int) -> None:
    """Raise `ShapeError` unless b is (n,) or (n, k)."""
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ShapeError(f"b is {b.shape}: ({n},) or ({n}, k) is needed")


def _solve_dense(A: Any, b: Any, semiring: Semiring, transpose: bool, threads: int) -> Array:
    """Solve with a dense matrix: by elimination, or by the closure if rounded weights may be negative."""
    scan, other = check_entries(A, semiring), check_entries(b, semiring, "b")
    n = len(A)
    matrix = as_columns(b)
    signed = semiring.tropical is not None and is_floating(A.dtype) and not scan.nonnegative
    if signed or (transpose and not semiring.commutative):
        D = closure_of_rounded(to_compute_dtype(A, semiring), semiring, A.dtype, threads=threads)
        return _apply_closure(D, matrix, semiring, transpose, A.dtype, threads).reshape(b.shape)
    more = int(largest_magnitude(b, other)) if has_inner_zero(semiring, A.dtype) else 0
    inner = choose_work_dtype(semiring, A.dtype, n, largest_magnitude(A, scan), more)
    plan = make_plan(semiring, inner, nonnegative=scan.nonnegative and other.nonnegative, threads=threads)
    work, X = encode(A.T if transpose else A, semiring, inner), encode(matrix, semiring, inner)
    try:
        solve_dense(Engine(backend_for(A, semiring, inner), plan), work, X)
    except PivotError as error:
        closure(A, semiring, threads=threads)  # raises the error that names the cycle
        raise divergence_error(semiring, error.place) from None
    if adds_products(semiring) and n:
        warn_of_diverging_sum(semiring, work, nonnegative=bool(scan.low >= 0))
    return np.asarray(decode(X, semiring, A.dtype)).reshape(b.shape)


def _apply_closure(
    D: Array, X: Array, semiring: Semiring, transpose: bool, dtype: Any, threads: int, device: Any = None
) -> Array:
    """Return D ⊗ X, or with ``transpose`` (Xᵀ ⊗ D)ᵀ, rounded to ``dtype``."""
    wide = to_compute_dtype(X, semiring)
    left, right = (wide.T, D) if transpose else (D, wide)
    product = matmul(left, right, semiring, threads=threads, device=device)
    return np.asarray(round_to_dtype(product.T if transpose else product, dtype))


def _solve_by_closure(A: Array, b: Array, semiring: Semiring, transpose: bool, threads: int, device: Any) -> Array:
    """Solve with a dense matrix by its closure on a GPU."""
    check_entries(b, semiring, "b")
    D = closure(A, semiring, threads=threads, device=device)
    return _apply_closure(D, as_columns(b), semiring, transpose, A.dtype, threads, device).reshape(b.shape)


def _sweep_acyclic(edges: SparseEntries, order: Array, b: Any, semiring: Semiring, transpose: bool) -> Array:
    """Solve by one sweep over an acyclic graph, in an order in which the head of every edge precedes its tail."""
    pattern, values = edges.pattern, edges.values
    dtype, n = values.dtype, pattern.n
    right = convert_right_side(align_labels(b, edges.names), semiring, dtype)
    _check_shape(right, n)
    scan = check_entries(right, semiring, "b")
    if counts_paths(semiring, dtype):
        check_counts(edges, semiring, right, transpose=transpose)
    integers = has_inner_zero(semiring, dtype)
    more = int(largest_magnitude(right, scan)) if integers else 0
    inner = choose_work_dtype(semiring, dtype, n, largest_magnitude(values, edges.scan), more)
    weights, X = encode(values, semiring, inner), encode(as_columns(right), semiring, inner)
    starts, indices = pattern.starts, pattern.indices
    if transpose:
        starts, indices, entries = pattern.columns
        weights, order = weights[entries], order[::-1]
    plan = make_plan(semiring, inner, nonnegative=edges.scan.nonnegative and scan.nonnegative)
    opposite = transpose and not semiring.commutative
    from semiring.kernels.cpu.elimination import triangular_solve  # it loads the compiler

    triangular_solve.sweep_acyclic(ScalarSemiring(plan, opposite=opposite), X, order, starts, indices, weights)
    return np.asarray(decode(X, semiring, dtype)).reshape(right.shape)


def solve_dense(engine: Engine, A: Array, X: Array) -> None:
    """Replace X by A* ⊗ X, for A (n, n), which is overwritten, and X (n, r), both of the plan's dtype.

    A is eliminated by blocks of pivots, as in LAPACK, without its closure. Cost: n³/3 pairs, a third of a closure, and
    n² for every right-hand side. Source: B. A. Carré, "An algebra for network routing problems", J. Inst. Maths.
    Applics. 7 (1971), Gauss's elimination. Hazard: rounded weights of both signs, see `mixed_signs`.

    Raises `PivotError` at the first pivot without a star; A and X are then undefined.
    """
    n = len(A)
    starts = range(0, n, _BLOCK)
    for start in starts:
        own, rest = slice(start, min(n, start + _BLOCK)), slice(min(n, start + _BLOCK), n)
        S = A[own, own]
        if not rkleene(engine, S, start=start):
            raise PivotError(engine.plan.status.diverged)
        engine.multiply(X[own], S, X[own].copy())
        if rest.start == n:
            break
        engine.multiply_add(X[rest], A[rest, own], X[own])
        engine.multiply(A[own, rest], S, A[own, rest].copy())
        engine.multiply_add(A[rest, rest], A[rest, own], A[own, rest])
    for start in reversed(starts):
        own, rest = slice(start, min(n, start + _BLOCK)), slice(min(n, start + _BLOCK), n)
        if rest.start < n:
            engine.multiply_add(X[own], A[own, rest], X[rest])
