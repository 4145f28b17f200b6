"""Find eigenvalues, eigenvectors and the critical graph of a matrix, and the period of its powers.

A ⊗ v = λ ⊗ v with λ the best mean of a cycle. A cycle of this mean is critical, and the critical graph is the union of
the critical cycles. With the potentials of the policy iteration its edges are those of reduced cost 0 on a cycle. The
distances to a critical vertex under the weights A - λ are an eigenvector, and those of one vertex of each component of
the critical graph span all eigenvectors of λ.

Sources: Butkovič 2010, chapters 4 and 8; G. Cohen, D. Dubois, J.-P. Quadrat, M. Viot, IEEE TAC 30 (1985), for the
period of powers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, max_min, max_plus, min_plus
from semiring.algorithms.dijkstra import Searches
from semiring.arguments import require_flag
from semiring.errors import AlgebraError, DivergenceError, IntegerOverflowError
from semiring.graphs.strongly_connected import strong_components_of_lists
from semiring.io.inputs import Reading
from semiring.io.network import semiring_of
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import make_plan
from semiring.linalg import matmul
from semiring.paths import best_paths
from semiring.sparse.edge_inputs import SparseEntries
from semiring.sparse.symbolic_factor import Pattern
from semiring.spectral.cycle_means import (
    BOTTLENECKS,
    COSTS,
    LARGEST,
    LeastRatios,
    as_integers,
    best_bottleneck,
    read_edges,
    zero_mean,
)
from semiring.thread_counts import get_threads

__all__ = ["Asymptotics", "Eigen", "asymptotics", "eigen"]

Array = NDArray[Any]


class Eigen(NamedTuple):
    """The eigenvalue of the best cycles of a matrix, its eigenvectors, and the critical graph."""

    value: float | Fraction
    vectors: NDArray[np.float64]
    critical_graph: Any
    cyclicity: int


class Asymptotics(NamedTuple):
    """The growth of the powers of a matrix: A^(k + period) = rate^period ⊗ A^k from k = transient on."""

    rate: float | Fraction
    transient: int
    period: int


def eigen(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    exact: bool = False,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Eigen:
    """Return the eigenvalue of the best cycles, its eigenvectors, the critical graph and its cyclicity.

    The vectors v satisfy A ⊗ v = λ ⊗ v, and every eigenvector of λ is a combination of them. An irreducible matrix has
    no other eigenvalue. A reducible one may have more, for the components that reach no better cycle.

    Parameters
    ----------
    A : array_like, shape (n, n)
        As in `cycle_mean`.
    semiring : Semiring or str, optional
        min_plus, max_plus, min_times, max_times, max_min or min_max, by default that of a `Network`, else min-plus. In
        min_times and max_times the logarithms of the weights are computed with.
    exact : bool, default False
        Return the value as a `fractions.Fraction`. The weights must be whole numbers, in min_plus or max_plus.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network`.
    directed : bool, optional
        False adds the reverse of each edge. The default is the direction of the graph.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    check : bool, default True
        Warn of the "no edge" of another convention. The entries are validated in any case.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : None or "cpu", optional
        Where the computation runs.

    Returns
    -------
    Eigen
        ``value`` is `cycle_mean`. ``vectors`` is float64 (n, k), one column for each component of the critical graph,
        whose entry is 1̄ at the least vertex of the component (in max_min and min_max: the value). ``critical_graph``
        is a SciPy csr_array (n, n) of bool: the edges on critical cycles. ``cyclicity`` is the least common multiple,
        over its components, of the greatest common divisor of the lengths of their cycles. A graph without a cycle has
        no vectors, and cyclicity 1.

    Raises
    ------
    AlgebraError
        For another semiring, or for ``exact`` where the weights are not whole numbers.
    IntegerOverflowError, ShapeError, DTypeError, DomainError
        As in `cycle_mean`.

    Notes
    -----
    For whole numbers the critical graph is exact, and each entry of a vector is rounded once. For other floats edges
    whose reduced cost is below the rounding error of the values count as critical. Costs as `cycle_mean`, and one
    search for best paths from each critical component. Source: Butkovič 2010, theorem 4.3.5.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> found = sr.spectral.eigen([[-inf, 3, -inf], [1, -inf, 2], [0, -inf, -inf]], "max_plus")
    >>> found.value, found.vectors.ravel().tolist(), found.cyclicity
    (2.0, [0.0, -1.0, -2.0], 2)
    """
    require_flag(exact, "exact")
    algebra = _find_semiring(A, semiring)
    edges = read_edges(A, algebra, Reading(weight, directed, columns), check, threads, device)
    if algebra in BOTTLENECKS:
        return _bottleneck_eigen(edges, algebra, threads)
    found = LeastRatios.of(edges, algebra, np.ones(1, np.int64), threads, exact=exact)
    if found.component < 0:
        graph = _critical_graph(edges, np.zeros(edges.values.size, bool))[0]
        return Eigen(zero_mean(algebra), np.empty((edges.pattern.n, 0)), graph, 1)
    graph, labels, cyclicity = _critical_graph(edges, found.tight_edges())
    value = found.value(found.cycle(), exact)
    return Eigen(value, _eigenvectors(found, labels, threads), graph, cyclicity)


def _find_semiring(A: Any, semiring: Semiring | str | None) -> Semiring:
    algebra = as_semiring(semiring_of(A, semiring))
    if algebra not in (*COSTS, *BOTTLENECKS):
        names = ", ".join(each.name for each in (*COSTS, *BOTTLENECKS))
        raise AlgebraError(f"eigenvectors are not computed in {algebra.name}: use {names}")
    return algebra


def _critical_graph(edges: SparseEntries, is_tight: Array) -> tuple[Any, Array, int]:
    """Return the tight edges on cycles as a matrix, the component of each vertex on them (-1: none), and the period."""
    from scipy.sparse import coo_array

    pattern, n = edges.pattern, edges.pattern.n
    places = np.flatnonzero(is_tight)
    rows, heads = np.searchsorted(pattern.starts, places, side="right") - 1, pattern.indices[places]
    starts, order = elimination_trees.compress_rows(n, rows, heads)
    rows, heads = rows[order], heads[order]
    parts = strong_components_of_lists(starts, heads)
    component = np.empty(n, np.int64)
    component[parts.order] = np.repeat(np.arange(len(parts)), parts.sizes)
    inside = component[rows] == component[heads]
    rows, heads = rows[inside], heads[inside]
    graph = coo_array((np.ones(rows.size, bool), (rows, heads)), shape=(n, n)).tocsr()
    labels = np.full(n, -1, np.int64)
    labels[rows] = component[rows]
    return graph, labels, _cyclicity(graph, labels)


def _least_vertices(labels: Array) -> Array:
    """Return the least vertex of each component, in ascending order; vertices labelled -1 are in no component."""
    on_cycles = np.flatnonzero(labels >= 0)
    return np.sort(on_cycles[np.unique(labels[on_cycles], return_index=True)[1]])


def _cyclicity(graph: Any, labels: Array) -> int:
    """Return the least common multiple of the periods of the strong components of a graph."""
    from scipy.sparse.csgraph import breadth_first_order

    cyclicity = 1
    tails = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    for first in _least_vertices(labels).tolist():
        order, parents = breadth_first_order(graph, first)
        level = np.zeros(graph.shape[0], np.int64)
        for vertex in order[1:]:
            level[vertex] = level[parents[vertex]] + 1
        own = labels[tails] == labels[first]
        steps = level[tails[own]] + 1 - level[graph.indices[own]]
        cyclicity = math.lcm(cyclicity, int(np.gcd.reduce(np.abs(steps))))
    return cyclicity


def _eigenvectors(found: LeastRatios, labels: Array, threads: int | None) -> NDArray[np.float64]:
    """Return the best paths to one vertex of each critical component under the weights A - λ, as columns."""
    vertices = _least_vertices(labels)
    vectors = np.empty((len(labels), vertices.size))
    is_known = np.zeros(vertices.size, bool)
    if len(found.parts) == 1:  # the policy leads from every vertex to its cycle by tight edges
        is_known = labels[vertices] == labels[found.cycle()[0]]
        values = found.values[found.place]
        for column in np.flatnonzero(is_known):
            vectors[:, column] = (values - values[vertices[column]]) / found.ratios[0, 1]
    if not is_known.all():
        vectors[:, ~is_known] = _search_paths(found, vertices[~is_known], threads)
    sign, is_logarithm = COSTS[found.semiring]
    vectors = sign * vectors + 0.0
    return np.exp(vectors) if is_logarithm else vectors


def _search_paths(found: LeastRatios, vertices: Array, threads: int | None) -> Array:
    """Return the distances (n, k) to some vertices under A - λ, by Dijkstra's algorithm on reduced costs.

    The values of a component prove that its own mean is not less than λ. So they are potentials for λ too.
    """
    from semiring.kernels.graphs.policy_iteration import reduce_costs, shift_potentials

    pattern, parts, n = found.edges.pattern, found.parts, found.edges.pattern.n
    weights, values = _search_weights(found)
    p, q = (weights.dtype.type(each) for each in found.ratios[found.component])
    factor = weights.dtype.type(COSTS[found.semiring][0]) * q
    lengths = np.repeat(np.maximum(found.ratios[:, 1], 1), parts.sizes).astype(weights.dtype)
    component, potentials = np.empty(n, np.int64), np.empty(n, weights.dtype)
    component[parts.order] = np.repeat(np.arange(len(parts)), parts.sizes)
    if found.is_exact:  # rounded down, the potentials of an edge differ by less than 1 more than exact ones
        potentials[parts.order] = q * (values // lengths) + q * (values % lengths) // lengths
    else:
        potentials[parts.order] = q * values / lengths
    bounds, order = parts.bounds.astype(np.int64), parts.order.astype(np.int64)
    costs = pattern.starts, pattern.indices, weights, factor, p, potentials
    shift_potentials(bounds, order, component, *costs)
    count = get_threads() if threads is None else threads
    m = pattern.indices.size
    starts, width = elimination_trees.column_starts(n, pattern.indices), elimination_trees.strip_width(n, m)
    tails, reduced = np.empty(m, np.int32), np.empty(m, weights.dtype)
    strips = -(-n // width)
    bounds = width * np.linspace(0, strips, min(count, strips) + 1).astype(np.int64)
    tasks = [(int(a), min(n, int(b))) for a, b in itertools.pairwise(bounds) if a < b]
    run_tasks(lambda a, b: reduce_costs(a, b, width, *costs, starts, tails, reduced), tasks, count)
    plan = make_plan(min_plus, weights.dtype, nonnegative=True, threads=count)
    distances = Searches(plan, starts, tails, reduced).search_table(vertices.astype(np.int64))[0].T
    shifted = distances + potentials[:, np.newaxis] - potentials[vertices]
    return np.where(distances == plan.zero, np.inf, shifted / q)


def _search_weights(found: LeastRatios) -> tuple[Array, Array]:
    """Return the weights of all edges and the values of the policies, in int64 if they stay exact in it, else float64.

    Raises `IntegerOverflowError` if paths of integers may leave int64.
    """
    weights, values, n = found.edges.values, found.values, found.edges.pattern.n
    if COSTS[found.semiring][1]:
        weights = np.log(weights.astype(np.float64))
    if found.is_exact and (whole := as_integers(weights)) is not None:
        largest = max(abs(int(whole.max())), abs(int(whole.min())))
        if 16 * n * int(found.ratios[found.component, 1]) * largest < LARGEST:
            return whole, values
        if weights.dtype.kind in "iu":
            raise IntegerOverflowError(
                f"paths of {n:,} vertices and weights of up to {largest:,} are too long for exact eigenvectors in "
                "int64: divide the weights by a common factor, or pass them as float64"
            )
    return weights.astype(np.float64, copy=False), values.astype(np.float64)


def _paths_to(pattern: Pattern, weights: Array, semiring: Semiring, vertices: Array, threads: int | None) -> Array:
    """Return the values (n, k) of the best paths to some vertices, by a search from them along the reversed edges."""
    from scipy.sparse import csr_array

    starts, rows, entries = pattern.columns
    reverse = csr_array((weights[entries], rows, starts), shape=(pattern.n, pattern.n))
    paths = best_paths(reverse, semiring, sources=vertices.tolist(), predecessors=False, check=False, threads=threads)
    return np.asarray(paths.matrix).T


def _bottleneck_eigen(edges: SparseEntries, semiring: Semiring, threads: int | None) -> Eigen:
    """Return the eigenvalue of the best bottleneck of a cycle: λ ⊗ A* at the critical vertices solves A v = λ v."""
    pattern = edges.pattern
    best = best_bottleneck(edges, semiring)
    if best is None:
        graph = _critical_graph(edges, np.zeros(edges.values.size, bool))[0]
        return Eigen(zero_mean(semiring), np.empty((pattern.n, 0)), graph, 1)
    value = best[0]
    is_tight = edges.values >= value if semiring is max_min else edges.values <= value
    graph, labels, cyclicity = _critical_graph(edges, is_tight)
    vertices = _least_vertices(labels)
    paths = _paths_to(pattern, edges.values.astype(np.float64), semiring, vertices, threads)
    bound = np.minimum if semiring is max_min else np.maximum
    return Eigen(value, np.ascontiguousarray(bound(paths, value)), graph, cyclicity)


def asymptotics(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    max_steps: int = 2**20,
    exact: bool = False,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Asymptotics:
    """Return how the powers of an irreducible matrix grow: A^(k + period) = rate^period ⊗ A^k from the transient on.

    Parameters
    ----------
    A : array_like, shape (n, n)
        A dense or sparse matrix, a frame, a graph or a `Network`, whose graph is strongly connected. The weights are
        whole numbers.
    semiring : Semiring or str, optional
        min_plus or max_plus, by default that of a `Network`, else min-plus.
    max_steps : int, default 2²⁰
        The largest transient that is searched.
    exact : bool, default False
        Return the value as a `fractions.Fraction`. The weights must be whole numbers, in min_plus or max_plus.
    check : bool, default True
        Warn of the "no edge" of another convention. The entries are validated in any case.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : None or "cpu", optional
        Where the computation runs.

    Returns
    -------
    Asymptotics
        ``rate`` is the eigenvalue, ``transient`` is the least such k, at least 1, and ``period`` is the cyclicity.

    Raises
    ------
    AlgebraError
        If the graph is not strongly connected, the weights are not whole numbers, or for another semiring.
    DivergenceError
        If the transient is larger than ``max_steps``.
    IntegerOverflowError
        If an entry of a power does not fit int64.
    ShapeError, DTypeError, DomainError
        As in `eigen`.

    Notes
    -----
    Costs O(n³ log k) pairs: the powers are squared until the law holds, and a bisection finds the transient. Once the
    law holds for a k, it holds for all later ones. Source: Cohen, Dubois, Quadrat and Viot 1985.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.spectral.asymptotics([[-inf, 3, -inf], [1, -inf, 2], [0, -inf, -inf]], "max_plus")
    Asymptotics(rate=2.0, transient=5, period=2)
    """
    algebra = _find_semiring(A, semiring)
    if algebra not in (min_plus, max_plus):
        raise AlgebraError(f"the powers of a matrix grow in min_plus and max_plus, not in {algebra.name}")
    edges = read_edges(A, algebra, Reading(), check, threads, device)
    found = LeastRatios.of(edges, algebra, np.ones(1, np.int64), threads)
    if not found.is_exact and edges.values.size:
        raise AlgebraError(
            "powers are compared exactly, so their weights must be whole numbers, and these are not, or are too large "
            "for int64: multiply them by a common denominator, or round them"
        )
    n = edges.pattern.n
    if found.component < 0:
        raise AlgebraError("the graph has no cycle, so its powers do not grow: from A^n on they have no edge")
    if len(found.parts) != 1:
        raise AlgebraError(
            f"the graph has {len(found.parts)} strong components, and the law of powers holds for one: pass the matrix "
            "of one component (semiring.condensation finds them)"
        )
    period = _critical_graph(edges, found.tight_edges())[2]
    p, q = map(int, found.ratios[0])
    sign = -1 if algebra is max_plus else 1
    none = min_plus.zero_for(np.dtype(np.int64))
    B = np.full((n, n), none, np.int64)
    B[edges.pattern.rows, edges.pattern.indices] = q * (sign * edges.values.astype(np.int64)) - p
    transient = _find_transient(B, period, max_steps, threads)
    return Asymptotics(found.value(found.cycle(), exact), transient, period)


def _find_transient(B: Array, period: int, max_steps: int, threads: int | None) -> int:
    """Return the least k ≥ 1 for which B^(k + period) = B^k in min-plus, for a matrix of eigenvalue 0."""

    def multiply(X: Array, Y: Array) -> Array:
        return np.asarray(matmul(X, Y, min_plus, check=False, threads=threads))

    squares = [B]  # B^(2^i)
    step = _power(squares, period, multiply)

    def has_settled(X: Array) -> bool:
        return bool(np.array_equal(multiply(X, step), X))

    while not has_settled(squares[-1]):
        if 2 ** (len(squares) - 1) >= max_steps:
            raise DivergenceError(
                f"the powers have no period up to the power of {2 ** (len(squares) - 1):,}: pass a larger max_steps"
            )
        squares.append(multiply(squares[-1], squares[-1]))
    if len(squares) == 1:
        return 1
    before: int = 2 ** (len(squares) - 2)
    power = squares[-2]  # the law does not hold for this power
    for i in range(len(squares) - 3, -1, -1):
        after = multiply(power, squares[i])
        if not has_settled(after):
            before, power = before + 2**i, after
    return before + 1


def _power(squares: list[Array], exponent: int, multiply: Callable[[Array, Array], Array]) -> Array:
    """Return B^exponent from B^(2^i), and append the squares that are missing."""
    result: Array | None = None
    for i in range(exponent.bit_length()):
        if i == len(squares):
            squares.append(multiply(squares[-1], squares[-1]))
        if exponent >> i & 1:
            result = squares[i] if result is None else multiply(result, squares[i])
    assert result is not None
    del squares[1:]
    return result
