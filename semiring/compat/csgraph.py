"""Replace `scipy.sparse.csgraph` by one changed import, with faster shortest paths between all pairs.

    import semiring.compat.csgraph as csgraph           # was: import scipy.sparse.csgraph as csgraph

`floyd_warshall`, `johnson` and `shortest_path` have SciPy's signatures, defaults, dtypes, sentinels and errors; every
other name is SciPy's own. Graphs are read as SciPy reads them. In a dense array ∞, NaN, 0 and entries within 1e-8 of 0
are no edges. Masked entries of a masked array are no edges, and neither are entries that a sparse matrix does not
store. Results are float64, predecessors int32 with -9999 for none.

Differences from SciPy:

* Rounding and cycles of weight 0 never cause a false `NegativeCycleError`, nor predecessors that form a cycle.
* An error has the vertices of a cycle in its attribute ``cycle``.
* Arrays in Fortran's order are closed too, which SciPy 1.17 returns unchanged.
* With ``unweighted`` there is no warning of negative weights.
* Another one of several shortest paths may be returned, as SciPy's documentation allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse.csgraph
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse import issparse as _issparse
from scipy.sparse.csgraph import NegativeCycleError
from scipy.sparse.csgraph._validation import validate_graph as _validate_graph

from semiring.algebra.catalogue import min_plus
from semiring.algorithms import schedule
from semiring.algorithms.algorithm import Algorithm
from semiring.algorithms.johnson import edge_potentials, make_searches, sparse_graph
from semiring.arrays.labels import is_frame
from semiring.arrays.parts import pieces
from semiring.arrays.sparse import check_sparse
from semiring.arrays.zero_conventions import trust_zeros
from semiring.closures import closure, closure_with_predecessors
from semiring.closures.choose import cheapest
from semiring.closures.problem import Options, fact
from semiring.errors import NegativeCycleError as NegativeCycle

_scipy: Any = scipy.sparse.csgraph
validate_graph: Any = _validate_graph
issparse: Any = _issparse  # Any, because SciPy's annotation is too narrow

__all__ = list(_scipy.__all__)

Array: TypeAlias = NDArray[Any]

#: The number of vertices up to which SciPy computes. It takes less than a millisecond. This library's compiler takes
#: half a second to start, which would double the time of a script that closes one small graph. The size alone decides,
#: so equal calls give bitwise identical results. Use `closure` of a stack for thousands of small graphs.
FEW = 64

# Costs in pairs of a dense closure in float64, as in `semiring.algorithms.schedule`.
_VALIDATION, _VALIDATED = 7.5e6, 500.0  # SciPy's validation of a dense array, and of one of its entries
_CONVERSION = 3e6  # the conversion of a sparse graph to a dense one
_POTENTIALS = 1.55e7  # the potentials of a small sparse graph

NULL = 1e-8  # the tolerance of `numpy.ma.masked_values`, by which SciPy's validation tells edges of a dense array

_FLOAT64, _INT32 = np.dtype(np.float64), np.dtype(np.int32)
_INFINITY = np.float64(np.inf)


def __getattr__(name: str) -> Any:
    return getattr(_scipy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_scipy)})


def floyd_warshall(
    csgraph: Any,
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
) -> Any:
    """Return all shortest distances, as `scipy.sparse.csgraph.floyd_warshall` returns them.

    Parameters
    ----------
    csgraph : array_like or sparse matrix, shape (n, n)
        The weights of edges: a dense or masked array, or a sparse one in the formats csr, csc or lil. Loops i → i are
        ignored.
    directed : bool, default True
        False takes the lighter one of the edges i → j and j → i for both directions.
    return_predecessors : bool, default False
        Return the predecessors too.
    unweighted : bool, default False
        Count every edge as 1.
    overwrite : bool, default False
        Use a float64 array in C's order as workspace, which then holds the result.

    Returns
    -------
    distances : array of float64, shape (n, n)
        The distances, ∞ where there is no path.
    predecessors : array of int32, shape (n, n)
        The vertex before j on the path from i, -9999 for none. It is returned only with ``return_predecessors``.

    Raises
    ------
    NegativeCycleError
        SciPy's error, if the graph has a negative cycle.
    ValueError
        If the graph is not a square matrix, or the index arrays of a sparse matrix are invalid.

    Notes
    -----
    It costs n³ pairs.
    """
    _check(csgraph)
    directed = bool(int(directed))  # SciPy also rejects None here, though not in johnson
    graph = _Graph(_to_array_or_csr(csgraph), directed, return_predecessors, unweighted, overwrite)
    return _run_cheapest(graph, _FLOYD_WARSHALL)


def johnson(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
) -> Any:
    """Return all shortest distances, or those from ``indices``, as `scipy.sparse.csgraph.johnson` returns them.

    Parameters
    ----------
    csgraph : array_like or sparse matrix, shape (n, n)
        The weights of edges as in `floyd_warshall`, in any sparse format. A negative loop is a negative cycle here.
    directed : bool, default True
        False takes the lighter one of the edges i → j and j → i for both directions.
    indices : array_like of int or int, optional
        The sources. The default is all vertices. Negative indices count from the end.
    return_predecessors : bool, default False
        Return the predecessors too.
    unweighted : bool, default False
        Count every edge as 1.

    Returns
    -------
    distances : array of float64, shape ``indices.shape + (n,)``
        The distances, ∞ where there is no path. The shape is (n, n) without ``indices``.
    predecessors : array of int32, shape ``indices.shape + (n,)``
        The vertex before j on the path from i, -9999 for none. It is returned only with ``return_predecessors``.

    Raises
    ------
    NegativeCycleError
        SciPy's error, if the graph has a negative cycle.
    ValueError
        For indices out of range, for a graph that is not a square matrix, and for invalid index arrays.

    Notes
    -----
    The graph is closed densely, or Dijkstra's algorithm runs from each of the ``indices``, under potentials if weights
    are negative. The cheapest candidate of a list decides, as in `semiring.closures.choose`.
    """
    _check(csgraph)
    graph = _Graph(_to_array_or_csr(csgraph), directed, return_predecessors, unweighted, indices=indices)
    return _run_cheapest(graph, _JOHNSON)


def shortest_path(
    csgraph: Any,
    method: str = "auto",
    directed: bool = True,
    return_predecessors: bool = False,
    unweighted: bool = False,
    overwrite: bool = False,
    indices: Any = None,
) -> Any:
    """Return shortest distances by any method, as `scipy.sparse.csgraph.shortest_path` returns them.

    Parameters
    ----------
    csgraph : array_like or sparse matrix, shape (n, n)
        The weights of edges, as in `floyd_warshall` and `johnson`.
    method : str, default "auto"
        ``"FW"`` is `floyd_warshall`, and ``"J"`` is `johnson`. ``"D"`` and ``"BF"`` are SciPy's `dijkstra` and
        `bellman_ford`. ``"auto"`` computes by the fastest method here: a dense closure, for most graphs of up to 10⁴
        vertices.
    directed : bool, default True
        False takes the lighter one of the edges i → j and j → i for both directions.
    return_predecessors : bool, default False
        Return the predecessors too.
    unweighted : bool, default False
        Count every edge as 1.
    overwrite : bool, default False
        Use the graph as workspace, as in `floyd_warshall`.
    indices : array_like of int or int, optional
        The sources, as in `johnson`.

    Returns
    -------
    distances : array of float64, shape ``indices.shape + (n,)``
        The distances, as `johnson` returns them.
    predecessors : array of int32, shape ``indices.shape + (n,)``
        The predecessors, as `johnson` returns them. They are returned only with ``return_predecessors``.

    Raises
    ------
    ValueError
        For indices with ``method="FW"``, and as in `johnson`.
    NegativeCycleError
        SciPy's error, if the graph has a negative cycle.

    Notes
    -----
    ``"auto"`` reads a graph as SciPy's ``"auto"`` does: a negative loop is a negative cycle only in a sparse graph.
    """
    if method == "auto":
        return _run_fastest(csgraph, directed, return_predecessors, unweighted, overwrite, indices)
    if method == "FW":
        if indices is not None:
            raise ValueError("Cannot specify indices with method == 'FW'.")
        return floyd_warshall(csgraph, directed, return_predecessors, unweighted, overwrite)
    if method == "J":
        return johnson(csgraph, directed, indices, return_predecessors, unweighted)
    _check(csgraph)
    return _scipy.shortest_path(csgraph, method, directed, return_predecessors, unweighted, overwrite, indices)


def _run_fastest(
    csgraph: Any, directed: bool, return_predecessors: bool, unweighted: bool, overwrite: bool, indices: Any
) -> Any:
    """Run `floyd_warshall` or `johnson`, with the reading of the graph by which SciPy's "auto" chooses."""
    csgraph = _to_array_or_csr(csgraph) if is_frame(csgraph) else csgraph
    if not (issparse(csgraph) or isinstance(csgraph, np.ndarray)) or len(csgraph.shape) != 2:
        return _scipy.shortest_path(csgraph, "auto", directed, return_predecessors, unweighted, overwrite, indices)
    n = csgraph.shape[0]
    if indices is None and 4 * _count_stored_edges(csgraph) >= n * n:
        return floyd_warshall(csgraph, directed, return_predecessors, unweighted, overwrite)
    return johnson(csgraph, directed, indices, return_predecessors, unweighted)


def _count_stored_edges(csgraph: Any) -> int:
    """Return the number of edges, as csgraph's ``method="auto"`` counts them."""
    if issparse(csgraph):
        return int(csgraph.nnz)
    if isinstance(csgraph, np.ma.MaskedArray):
        return int(csgraph.count())
    return int(np.count_nonzero(np.isfinite(csgraph) & (csgraph != 0)))


# ------------------------------------------------------------------------------------------------------ the graph


def _check(csgraph: Any) -> None:
    """Raise `ShapeError`, a ValueError, for a sparse graph with invalid index arrays, with which SciPy would crash."""
    if issparse(csgraph) and csgraph.ndim == 2:
        check_sparse(csgraph, "csgraph")


def _to_array_or_csr(csgraph: Any) -> Any:
    """Return an array for a list or a frame, and csr for lil, which would be converted twice."""
    if isinstance(csgraph, list) or is_frame(csgraph):
        return np.array(csgraph)
    return csgraph.tocsr() if getattr(csgraph, "format", None) == "lil" else csgraph


def _has_predecessor_cycle(P: Array) -> bool:
    """Return whether some predecessors in P (..., n) form a cycle, so that they lead to no vertex without one."""
    back = np.where(P < 0, np.arange(P.shape[-1]), P)
    ends = back
    for _ in range(P.shape[-1].bit_length()):
        ends = np.take_along_axis(ends, ends, -1)
    return bool((np.take_along_axis(back, ends, -1) != ends).any())


def _remove_null_edges(D: Array) -> None:
    """Write ∞ to the entries that are no edges in a dense array of csgraph: NaN, infinities, and entries close to 0."""
    for rows in pieces(D):
        part = D[rows]
        null = ~(np.abs(part) > NULL)
        null |= np.isneginf(part)
        np.copyto(part, _INFINITY, where=null)


def _count_edges(D: Array) -> None:
    """Write 1 to every entry that is an edge."""
    for rows in pieces(D):
        part = D[rows]
        np.copyto(part, 1.0, where=~np.isinf(part))


def _clear_loops(D: Array) -> None:
    n = D.shape[0]
    D.reshape(-1)[:: n + 1] = 0


def _densify(graph: Any) -> Array:
    """Return the dense matrix of a csr matrix, with ∞ for entries that are not stored.

    Stored zeros are edges, and of parallel edges the least one counts.
    """
    dense: Array = _scipy.csgraph_to_dense(graph, null_value=np.inf)
    return np.ascontiguousarray(dense)


def _rows_and_shape(indices: Any, n: int) -> tuple[Array, tuple[int, ...]]:
    """Return the sources, flat and ≥ 0, and the shape of the distances. Raises ValueError for a source out of range."""
    if indices is None:
        return np.arange(n, dtype=_INT32), (n, n)
    if type(indices) is int and 0 <= indices < n:
        return np.array((indices,), _INT32), (n,)
    result = np.array(indices, order="C", dtype=_INT32)
    rows = np.atleast_1d(result).reshape(-1)
    rows[rows < 0] += n
    if np.any(rows < 0) or np.any(rows >= n):
        raise ValueError("indices out of range 0...N")
    return rows, (*result.shape, n)


# ---------------------------------------------------------------------------------------------------- the candidates


@dataclass(eq=False)
class _Graph:
    """A call of `floyd_warshall` or `johnson`: the graph, the options, and facts that are found when they are read."""

    csgraph: Any
    directed: bool
    return_predecessors: bool
    unweighted: bool
    overwrite: bool = False
    indices: Any = None

    options: ClassVar[Options] = Options(min_plus)

    @fact
    def is_plain(self) -> bool:
        """Whether the graph is a square float64 array, which needs no validation by SciPy with masks."""
        A = self.csgraph
        return type(A) is np.ndarray and A.dtype == _FLOAT64 and A.ndim == 2 and A.shape[0] == A.shape[1]

    @fact
    def least_weight(self) -> Any:
        """The least weight of a graph of at most `FEW` vertices that SciPy may process, or None.

        It is None for dense arrays in another order than C's, because SciPy returns them unchanged. It is also None for
        anything but a square matrix of numbers, and if an entry is NaN or -∞.
        """
        A = self.csgraph
        if type(A) is np.ndarray or type(A) is np.ma.MaskedArray:
            if A.ndim != 2 or not A.size or not A.flags.c_contiguous:
                return None
            weights = np.ma.getdata(A)
        elif getattr(A, "format", None) in ("csr", "csc", "coo") and len(A.shape) == 2 and A.shape[0]:
            weights = A.data
        else:
            return None
        if self.overwrite or weights.dtype.kind not in "fiub" or not A.shape[0] == A.shape[1] <= FEW:
            return None
        low = weights.min() if weights.size else 0
        return low if low > -np.inf else None

    @fact
    def edges(self) -> Any:
        """The edges as a csr matrix, validated by SciPy."""
        graph = validate_graph(self.csgraph, self.directed, np.float64, dense_output=False)
        if self.unweighted and not self.has_undefined_weights(graph):
            return csr_array((np.ones(graph.data.shape), graph.indices, graph.indptr), shape=graph.shape)
        return graph

    @staticmethod
    def has_undefined_weights(graph: Any) -> bool:
        """Return whether a stored weight is NaN or -∞, for which SciPy defines the results."""
        return bool(np.isnan(graph.data).any() or np.isneginf(graph.data).any())

    @fact
    def is_signed(self) -> bool:
        """Whether an edge has a weight below 0."""
        return bool((self.edges.data < 0).any())

    @fact
    def sources(self) -> tuple[Array, tuple[int, ...]]:
        """The rows of the sources, and the shape of their distances. Raises ValueError for a source out of range."""
        return _rows_and_shape(self.indices, self.csgraph.shape[0])

    def select_sources(self, result: Any) -> Any:
        """Return the rows of the sources from the distances of all pairs, or from these and the predecessors."""
        if self.indices is None:
            return result
        rows, shape = self.sources
        if self.return_predecessors:
            return tuple(matrix[rows].reshape(shape) for matrix in result)
        return result[rows].reshape(shape)

    def run_scipy(self, function: Any, *more: Any) -> Any:
        """Return the result of a function of SciPy; ``more``: the arguments after ``directed``."""
        return function(self.csgraph, self.directed, *more, self.return_predecessors, self.unweighted)


def _run_cheapest(p: _Graph, candidates: Sequence[Algorithm]) -> Any:
    """Return the result of the cheapest candidate, or of the next one if rounding may have falsified it."""
    best = cheapest(candidates, p, [])
    assert best is not None  # the closure takes every graph
    result = best[0].run(p, None, None, None)  # type: ignore[arg-type]
    return _run_cheapest(p, [a for a in candidates if a is not best[0]]) if result is None else result


class _Candidate(Algorithm):
    """An algorithm for graphs of csgraph. SciPy's own ones cost nothing where they apply."""

    is_encoded = False

    def cost(self, p: Any) -> float:
        return 0.0


class _ScipyDijkstra(_Candidate):
    """SciPy's dijkstra of few vertices without weights below 0."""

    name = "scipy.dijkstra"

    def reason_against(self, p: Any) -> str | None:
        return None if p.least_weight is not None and p.least_weight >= 0 else "many vertices, or weights below 0"

    def run(self, p: Any, *_: Any) -> Any:
        return p.run_scipy(_scipy.dijkstra, p.indices)


class _ScipyFloydWarshall(_Candidate):
    """SciPy's floyd_warshall of few vertices, unless rounding may have falsified the result."""

    name = "scipy.floyd_warshall"

    def reason_against(self, p: Any) -> str | None:
        return "many vertices" if p.least_weight is None else None

    def run(self, p: Any, *_: Any) -> Any:
        """Return None if SciPy finds a negative cycle, or predecessors that form a cycle."""
        try:
            result = p.run_scipy(_scipy.floyd_warshall)
        except NegativeCycleError:
            return None
        return None if p.return_predecessors and p.least_weight < 0 and _has_predecessor_cycle(result[1]) else result


class _ScipyFloydWarshallOfSources(_ScipyFloydWarshall):
    """The same for `johnson`, where both functions of SciPy read the same edges, and no loop is below 0."""

    def reason_against(self, p: Any) -> str | None:
        A = p.csgraph
        same = type(A) is np.ndarray or getattr(A, "format", None) in ("csr", "csc")
        reads_the_same = same and not p.unweighted and p.least_weight is not None
        return None if reads_the_same and A.diagonal().min() >= 0 else "the functions of SciPy differ"

    def run(self, p: Any, *_: Any) -> Any:
        _ = p.sources  # raises
        result = super().run(p)
        return None if result is None else p.select_sources(result)


class _ScipyJohnson(_Candidate):
    """SciPy's johnson of edges without a number, for which it defines the results."""

    name = "scipy.johnson"

    def reason_against(self, p: Any) -> str | None:
        if p.is_plain:
            return "a dense array has no edges without a number"
        return None if p.has_undefined_weights(p.edges) else "every edge has a number"

    def run(self, p: Any, *_: Any) -> Any:
        return p.run_scipy(_scipy.johnson, p.indices)


class _DenseFloydWarshall(_Candidate):
    """The closure of the matrix of all pairs."""

    name = "dense"

    def run(self, p: Any, *_: Any) -> Any:
        if p.is_plain:
            D = p.csgraph if p.overwrite and p.csgraph.flags.c_contiguous else p.csgraph.copy(order="C")
            _remove_null_edges(D)
        else:
            D = validate_graph(p.csgraph, p.directed, np.float64, csr_output=False, copy_if_dense=not p.overwrite)
            if not issparse(p.csgraph):
                D[D == 0] = np.inf
            D = np.ascontiguousarray(D)
        if p.unweighted:
            _count_edges(D)
        _clear_loops(D)
        return _close(D, p.directed, p.return_predecessors, "Negative cycle in nodes {nodes}")


class _DenseJohnson(_Candidate):
    """The closure of the matrix of all pairs, where a negative loop is a negative cycle."""

    name = "dense"

    def reason_against(self, p: Any) -> str | None:
        return None if p.csgraph.shape[0] else "there are no vertices"

    def least_cost(self, p: Any) -> float:
        return self.cost(p)

    def cost(self, p: Any) -> float:
        return schedule.dense_operations(p.csgraph.shape[0], 8) + (0 if p.is_plain else _CONVERSION)

    def run(self, p: Any, *_: Any) -> Any:
        if p.indices is not None:
            _ = p.sources  # raises
        if p.is_plain:
            D = p.csgraph.copy(order="C")
            _remove_null_edges(D)
            if p.unweighted:
                _count_edges(D)
        else:
            D = _densify(p.edges)
        loops = np.flatnonzero(D.diagonal() < 0)
        if loops.size:
            raise _negative_cycle_error(f"Negative cycle detected on node {loops[0]}", (int(loops[0]),))
        _clear_loops(D)
        return p.select_sources(_close(D, p.directed, p.return_predecessors, "Negative cycle detected on node {node}"))


class _Searches(_Candidate):
    """Dijkstra's algorithm from the sources, under potentials if weights are below 0."""

    name = "johnson"

    def least_cost(self, p: Any) -> float:
        n = p.csgraph.shape[0]
        return schedule.search_operations(n, 0, n if p.indices is None else np.size(p.indices))

    def tighter_bound(self, p: Any) -> float:
        """Return the bound with the validation of a dense array, which takes place before the edges are counted."""
        n = p.csgraph.shape[0]
        return self.least_cost(p) + (_VALIDATION + n * n * _VALIDATED if p.is_plain else 0)

    def cost(self, p: Any) -> float:
        edges = p.edges
        operations = schedule.search_operations(edges.shape[0], edges.nnz, p.sources[0].size)
        return operations + (_POTENTIALS if p.is_signed else 0)

    def run(self, p: Any, *_: Any) -> Any:
        rows, shape = p.sources
        return _johnson_sparse(p.edges, p.directed, rows, shape, p.return_predecessors)


#: The candidates of `floyd_warshall` and of `johnson`. Where costs are equal, the first one is taken.
_FLOYD_WARSHALL = _ScipyFloydWarshall(), _DenseFloydWarshall()
_JOHNSON = _ScipyDijkstra(), _ScipyFloydWarshallOfSources(), _ScipyJohnson(), _DenseJohnson(), _Searches()


# ------------------------------------------------------------------------------------------------------ closures


def _close(D: Array, directed: bool, return_predecessors: bool, message: str) -> Any:
    """Close D in place, and return it: float64 (n, n) in C's order, with zeros on the diagonal and ∞ for no edge.

    In the ``message`` about a negative cycle, ``{node}`` becomes one of its vertices, and ``{nodes}`` all vertices of
    the strong components with negative cycles.
    """
    unknown = None
    if np.isnan(D.min(initial=0)):  # stored NaN: SciPy's loop skips them and leaves them in place
        unknown = np.isnan(D)
    if not directed and unknown is None and D.size <= 1 << 16:
        np.minimum(D, D.T, out=D)
    elif not directed:
        D = _symmetrize(D)
        unknown = unknown if unknown is None else np.isnan(D)
    if unknown is not None:
        D[unknown] = np.inf
    P = None
    try:
        with trust_zeros():
            if return_predecessors:
                closed, P = closure_with_predecessors(D, min_plus)
                D[...] = closed
            else:
                closure(D, out=D)
    except NegativeCycle as error:
        node = error.cycle[0] if error.cycle else 0
        nodes = _vertices_on_negative_cycles(D, error) if "{nodes}" in message else ()
        raise _negative_cycle_error(message.format(node=node, nodes=nodes), error.cycle) from error
    if unknown is not None:
        D[unknown] = np.nan
        if P is not None:
            P[unknown] = np.nonzero(unknown)[0]
    return D if P is None else (D, P)


def _symmetrize(D: Array) -> Array:
    """Write the lighter one of the edges i → j and j → i to both entries of D, and return D.

    For a NaN and a number the choice is SciPy's.
    """
    for i in range(0, D.shape[0], 256):  # by blocks, so that the columns that are read fit the cache
        for j in range(i, D.shape[0], 256):
            upper, lower = D[i : i + 256, j : j + 256], D[j : j + 256, i : i + 256]
            if i == j:
                above = np.triu(np.ones(upper.shape, np.bool_), 1)
                lightest = np.where(above, np.where(upper >= upper.T, upper.T, upper), 0)
                upper[...] = lightest + lightest.T
            else:
                lightest = np.where(upper >= lower.T, lower.T, upper)
                upper[...], lower[...] = lightest, lightest.T
    return D


def _vertices_on_negative_cycles(D: Array, error: NegativeCycle | None) -> Array:
    """Return the vertices of the strong components that have a negative cycle, as SciPy's message shows them."""
    _, component = _scipy.connected_components(csr_array(np.inf > D), connection="strong")
    result: list[int] = []
    D = D.copy()
    while error is not None and error.cycle:
        vertices = np.flatnonzero(component == component[error.cycle[0]])
        result.extend(vertices.tolist())
        D[vertices, :], D[:, vertices] = np.inf, np.inf
        try:
            with trust_zeros():
                closure(D)
            error = None
        except NegativeCycle as another:
            error = another
    return np.array(sorted(result))


def _negative_cycle_error(message: str, cycle: tuple[int, ...]) -> NegativeCycleError:
    error = NegativeCycleError(message)
    error.cycle = cycle  # type: ignore[attr-defined]
    return error


def _johnson_sparse(graph: Any, directed: bool, rows: Array, shape: tuple[int, ...], return_predecessors: bool) -> Any:
    """Run Dijkstra's algorithm from the rows, under potentials if some weights are below 0."""
    edges = graph.tocoo()
    signed = bool((edges.data < 0).any())
    if signed and not directed:  # a negative edge and its reverse are a negative cycle
        worst = int(np.argmin(edges.data))
        cycle = tuple(dict.fromkeys((int(edges.row[worst]), int(edges.col[worst]))))
        raise _negative_cycle_error(f"Negative cycle detected on node {cycle[0]}", cycle)
    if not directed:
        ends = np.r_[edges.row, edges.col], np.r_[edges.col, edges.row]
        edges = coo_array((np.r_[edges.data, edges.data], ends), shape=edges.shape)
    graph_edges, h = sparse_graph(edges, 1), np.zeros(graph.shape[0])
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            h = edge_potentials(graph_edges) if signed else h
    except NegativeCycle as error:
        raise _negative_cycle_error(f"Negative cycle detected on node {error.cycle[0]}", error.cycle) from error
    D, P = make_searches(graph_edges, h).search_table(rows, trees=return_predecessors)
    if signed:
        D += h - h[rows, np.newaxis]
    return D.reshape(shape) if P is None else (D.reshape(shape), P.reshape(shape))
