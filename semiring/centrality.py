"""Centrality of the vertices and edges of a weighted graph: betweenness, closeness, harmonic centrality, efficiency.

Weights are lengths of at least 0, in min-plus. The definitions, the scaling and the directions are those of NetworkX.
Betweenness counts all shortest paths, so two paths are equally short only if their sums are equal: whole numbers are
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.advice import option
from semiring.algebra.catalogue import as_semiring, min_plus
from semiring.algebra.expressions.tree import is_half
from semiring.algorithms.brandes import (
    ShortestPathGraph,
    distances_on_device,
    require_nonnegative,
    shortest_path_graph,
    sum_dependencies,
)
from semiring.algorithms.dijkstra import Searches
from semiring.algorithms.schedule import dense_operations, search_operations
from semiring.arguments import check_flags, is_one_of, require_flag
from semiring.arrays.device import copy_to_device, device_numbers, free_device_memory, load_cupy
from semiring.arrays.entries import check_entries
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import device_context, operands, result_converter
from semiring.arrays.parts import to_host_array
from semiring.arrays.tensors import as_sparse_array, is_sparse_tensor, stored_values
from semiring.arrays.vertices import Vertices
from semiring.arrays.zero_conventions import trust_zeros, warn_of_other_zeros_on_device
from semiring.closures import closure
from semiring.errors import AlgebraError, DeviceError, square_error
from semiring.io.inputs import Reading, open_graph
from semiring.io.network import semiring_of
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace, is_device_array, library_of
from semiring.progress import Progress, in_parts, report_progress
from semiring.sparse.edge_inputs import SparseEntries, edges_of
from semiring.thread_counts import check_threads, get_threads

__all__ = ["betweenness", "closeness", "edge_betweenness", "efficiency", "harmonic"]

Array = NDArray[Any]

_CLOSED_VERTICES = 8192  # up to which all distances are held at once: 512 MiB
_ENTRIES = 1 << 22  # distances that are held at once in a larger graph
_DENSE_GAIN = 4  # a closure must be predicted to take this part of the searches, because its edges are searched too
_DEVICE_DENSE_GAIN = 256  # the pairs of a closure on a GPU that take the time of a search from a source along one edge

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _run_on_one_device(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function run on the GPU of its graph, or on the one that ``device`` names."""

    @wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        device = options.get("device")
        if is_one_of(device, ("cpu",)):
            device = None
        if device_numbers(device):
            raise DeviceError(f"{option('device', device)} is not supported: centrality runs on one GPU")
        with device_context(tuple(map(_memory, arguments)), device):
            return function(*arguments, **options)

    return call


@_run_on_one_device
def betweenness(
    A: Any,
    *,
    normalized: bool = True,
    endpoints: bool = False,
    sources: Any = None,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the betweenness of every vertex: the shares of the shortest paths between other vertices through it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The lengths of the edges, at least 0, ∞ for no edge: a dense or sparse matrix, a frame, a graph, a `Network` or
        the name of a file, or an array or a sparse matrix on a GPU. Loops are on no shortest path.
    normalized : bool, default True
        Divide by the number of pairs of vertices, so that the greatest possible value is 1. Otherwise a graph without
        directions counts each pair of ends once.
    endpoints : bool, default False
        Count a path as passing through its two ends, too.
    sources : sequence of vertices, optional
        Count only the paths from these vertices, by name or number, and scale the sums to estimate those of all
        vertices. A vertex that is listed twice counts once. By default all vertices.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network`.
    directed : bool, optional
        False takes each edge in both directions. The default is the direction of the graph; a matrix is directed.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    progress : callable or bool, optional
        True draws a bar, and a function is called as ``progress(done, total)``, in sources.
    check : bool, default True
        Warn of the "no edge" of another convention. The weights are validated in any case.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : str, optional
        "cpu", or the GPU that computes: "cuda", "cuda:1". The default is where A is.

    Returns
    -------
    array of float64, shape (n,), or dict
        The values in the order of the vertices, or by their names if they have names; of the library of A if A is on a
        GPU. Without ``endpoints``, a single source of a graph has the value NaN, because no path from another source
        was counted.

    Raises
    ------
    DomainError
        If a weight is below 0 or NaN, or a cycle has the weight 0, whose vertices the error names. On a GPU, and where
        edges have the weight 0, also if a sum of floats absorbs a weight, as 1e20 + 1 does.
    AlgebraError
        If A is a `Network` of another semiring than min-plus.
    IntegerOverflowError
        If whole numbers add up to more than int64 holds.
    VertexError
        If a source is not a vertex.
    ShapeError, DTypeError, FormatError, DeviceError
        As in `shortest_paths`.

    Notes
    -----
    Two paths are equally short if their float64 sums from the source on are equal, as in NetworkX. Scale weights such
    as 0.1 to whole numbers, whose sums are exact. Cost: O((n + m) log n) a source for m edges, O(n + m) if all weights
    are equal. A dense matrix is closed first, and only edges that are themselves shortest paths are searched. Results
    are bitwise identical for any number of threads, and from run to run on a GPU, where sums have another order. A GPU
    takes O(n + m) for each edge of the longest shortest path. Sources: U. Brandes, J. Math. Sociol. 25 (2001);
    A. McLaughlin, D. A. Bader, SC 2014, for GPUs.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.centrality.betweenness([[inf, 1, inf], [1, inf, 2], [inf, 2, inf]])
    array([0., 1., 0.])
    """
    request = _Request(A, Reading(weight, directed, columns), check, threads, device)
    require_flag(normalized, "normalized")
    require_flag(endpoints, "endpoints")
    some = request.number_sources(sources)
    sums, _ = request.add_up(some, endpoints=endpoints, edges=False, progress=progress)
    n = request.n
    pairs = n if endpoints else n - 1
    scale = _scale_of_all(pairs, some, normalized, request.edges.directed)
    if some is None or endpoints:
        return request.by_vertices(sums * scale)
    scales = np.full(n, scale)
    scales[some] = scale * some.size / (some.size - 1) if some.size > 1 else np.nan
    return request.by_vertices(sums * scales if pairs >= 2 else sums)


@_run_on_one_device
def edge_betweenness(
    A: Any,
    *,
    normalized: bool = True,
    sources: Any = None,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the betweenness of every edge: the shares of the shortest paths between all vertices that use it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The lengths of the edges, as in `betweenness`.
    normalized : bool, default True
        Divide by the number of pairs of vertices. Otherwise a graph without directions counts each pair of ends once.
    sources : sequence of vertices, optional
        Count only the paths from these vertices, and scale the sums to estimate those of all vertices.
    weight, directed, columns : optional
        How edges are read, as in `betweenness`.
    progress, check, threads, device : optional
        How the values are computed, as in `betweenness`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (n, n), or dict
        A value for each edge of A, 0 for loops, in the memory of the host. If the graph has no directions, both entries
        of an edge have the same value. If vertices have names, a dictionary by pairs of names, which has an edge
        without direction once.

    Raises
    ------
    DomainError, AlgebraError, IntegerOverflowError, VertexError, ShapeError, DTypeError, FormatError, DeviceError
        As in `betweenness`.

    Notes
    -----
    As in `betweenness`.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.centrality.edge_betweenness([[inf, 1, 5], [inf, inf, 2], [inf, inf, inf]], normalized=False).toarray()
    array([[0., 2., 0.],
           [0., 0., 2.],
           [0., 0., 0.]])
    """
    from scipy.sparse import csr_array

    request = _Request(A, Reading(weight, directed, columns), check, threads, device)
    require_flag(normalized, "normalized")
    some = request.number_sources(sources)
    _, sums = request.add_up(some, endpoints=False, edges=True, progress=progress)
    pattern, names, n = request.edges.pattern, request.edges.names, request.n
    if not request.edges.directed:
        sums = sums + sums[pattern.columns[2]]
    sums = sums * _scale_of_all(n, some, normalized, request.edges.directed)
    if names is None:
        return csr_array((sums, pattern.indices.copy(), pattern.starts.copy()), shape=(n, n))
    rows, heads = pattern.rows, pattern.indices
    once = slice(None) if request.edges.directed else rows <= heads
    ends = zip(rows[once].tolist(), heads[once].tolist(), sums[once].tolist(), strict=True)
    return {(names[i], names[j]): value for i, j, value in ends}


def _scale_of_all(pairs: int, sources: Array | None, normalized: bool, directed: bool) -> float:
    """Return the factor of the sums: ``pairs`` is the number of vertices that may be a source of a path."""
    if pairs < 2:
        return 1.0
    count = pairs if sources is None else max(1, sources.size)
    if normalized:
        return 1 / (count * (pairs - 1))
    return pairs / (count * (1 if directed else 2))


@_run_on_one_device
def closeness(
    A: Any,
    *,
    wf_improved: bool = True,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the closeness of every vertex: the reciprocal of the mean distance to it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The lengths of the edges, as in `betweenness`.
    wf_improved : bool, default True
        Multiply by the share of the other vertices that reach the vertex, after Wasserman and Faust.
    weight, directed, columns : optional
        How edges are read, as in `betweenness`.
    progress, check, threads, device : optional
        How the values are computed, as in `betweenness`.

    Returns
    -------
    array of float64, shape (n,), or dict
        The values in the order of the vertices, or by their names. The distances are those from the other vertices; for
        distances to them, pass the transpose. A vertex that no other vertex reaches has 0.

    Raises
    ------
    DomainError
        If a weight is below 0 or NaN.
    AlgebraError, ShapeError, DTypeError, FormatError, DeviceError
        As in `betweenness`.

    Notes
    -----
    Costs as `closure`, or as Dijkstra's algorithm from every vertex for more than 8,192 vertices, without a matrix of
    all pairs. On a GPU a dense matrix is closed, and a sparse one is searched as in `betweenness`.

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.centrality.closeness([[inf, 1, inf], [1, inf, 2], [inf, 2, inf]])
    array([0.5       , 0.66666667, 0.4       ])
    """
    require_flag(wf_improved, "wf_improved")
    request = _Request(A, Reading(weight, directed, columns), check, threads, device)
    values = np.zeros(request.n)
    for rows, distances in request.distances_to(progress):
        xp = array_namespace(distances)
        reached = xp.isfinite(distances)
        others = to_host_array(xp.count_nonzero(reached, axis=1)) - 1.0
        totals = to_host_array(xp.where(reached, distances, 0).sum(axis=1))
        result = np.divide(others, totals, out=np.zeros(totals.size), where=totals > 0)
        values[rows] = result * (others / max(1, request.n - 1)) if wf_improved else result
    return request.by_vertices(values)


@_run_on_one_device
def harmonic(
    A: Any,
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the harmonic centrality of every vertex: the sum of the reciprocals of the distances to it.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The lengths of the edges, as in `betweenness`.
    weight, directed, columns : optional
        How edges are read, as in `betweenness`.
    progress, check, threads, device : optional
        How the values are computed, as in `betweenness`.

    Returns
    -------
    array of float64, shape (n,), or dict
        The values in the order of the vertices, or by their names. Vertices at distance 0 or without a path count 0.

    Raises
    ------
    DomainError, AlgebraError, ShapeError, DTypeError, FormatError, DeviceError
        As in `closeness`.

    Notes
    -----
    Costs as `closeness`. Source: P. Boldi, S. Vigna, "Axioms for centrality", Internet Mathematics 10 (2014).

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.centrality.harmonic([[inf, 1, inf], [inf, inf, 2], [inf, inf, inf]])
    array([0.        , 1.        , 0.83333333])
    """
    request = _Request(A, Reading(weight, directed, columns), check, threads, device)
    return request.by_vertices(request.sum_reciprocals(progress))


@_run_on_one_device
def efficiency(
    A: Any,
    *,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> float:
    """Return the global efficiency of a graph: the mean reciprocal of the distance of all pairs of vertices.

    Parameters
    ----------
    A : array_like, shape (n, n)
        The lengths of the edges, as in `betweenness`.
    weight, directed, columns : optional
        How edges are read, as in `betweenness`.
    progress, check, threads, device : optional
        How the value is computed, as in `betweenness`.

    Returns
    -------
    float
        The mean over all ordered pairs of different vertices. Pairs at distance 0 or without a path count 0. For fewer
        than two vertices it is 0.

    Raises
    ------
    DomainError, AlgebraError, ShapeError, DTypeError, FormatError, DeviceError
        As in `closeness`.

    Notes
    -----
    Costs as `closeness`. Source: V. Latora, M. Marchiori, Phys. Rev. Lett. 87 (2001).

    Examples
    --------
    >>> import semiring as sr
    >>> inf = float("inf")
    >>> sr.centrality.efficiency([[inf, 1, inf], [1, inf, 1], [inf, 1, inf]])
    0.8333333333333334
    """
    request = _Request(A, Reading(weight, directed, columns), check, threads, device)
    n = request.n
    return float(request.sum_reciprocals(progress).sum()) / (n * (n - 1)) if n > 1 else 0.0


class _Request:
    """The edges of a call, its threads or its GPU, and results in the caller's form."""

    def __init__(self, A: Any, reading: Reading, check: bool, threads: int | None, device: Any) -> None:
        check_flags({"check": check, "directed": reading.directed})
        self.threads = get_threads() if threads is None else check_threads(threads)
        self.is_on_device = is_device_array(_memory(A)) or (device is not None and not is_one_of(device, ("cpu",)))
        self.export = result_converter(_memory(A))
        if self.is_on_device:
            load_cupy("centrality on a GPU")
        A = _edges_on_host(A, check)
        A, reading = open_graph(A, min_plus, reading, sparse=True)
        semiring = as_semiring(semiring_of(A, None))
        if semiring != min_plus:
            raise AlgebraError(
                f"the network has weights of {semiring.name}, and centrality adds up lengths, in min_plus: read or "
                "make it with semiring='min_plus'"
            )
        self.edges: SparseEntries = edges_of(A, min_plus, reading=reading, check=check).require_eliminable()
        self.n = self.edges.pattern.n

    def by_vertices(self, values: Array) -> Any:
        names = self.edges.names
        if names is not None:
            return dict(zip(names, values.tolist(), strict=True))
        return self.export(copy_to_device(values)) if self.is_on_device else values

    def number_sources(self, sources: Any) -> Array | None:
        """Return the numbers of the sources, each once, or None for all vertices."""
        if sources is None:
            return None
        numbers = Vertices(self.n, self.edges.names).indices(sources)
        return numbers[np.sort(np.unique(numbers, return_index=True)[1])]

    def graph(self) -> ShortestPathGraph:
        edges = self.edges
        return shortest_path_graph(edges.pattern, edges.values, edges.names, self.threads)

    def add_up(
        self, sources: Array | None, *, endpoints: bool, edges: bool, progress: Progress | bool | None
    ) -> tuple[Array, Array]:
        """Return the sums of the dependencies on the vertices and, with ``edges``, on the edges."""
        graph = self.graph()
        starts = np.arange(self.n) if sources is None else sources
        count, direct = graph.searches.heads.size, None
        if not graph.has_equal_weights and self._is_dense(starts.size):
            direct = self._direct_edges(graph.searches)
        options = {"endpoints": endpoints, "edges": edges, "on_device": self.is_on_device}
        with report_progress(progress, "betweenness"):
            if direct is None:
                return sum_dependencies(graph, starts, **options)
            vertex_sums, some = sum_dependencies(graph.restrict(direct), starts, **options)
        edge_sums = np.zeros(count if edges else 0)
        if edges:
            edge_sums[direct] = some
        return vertex_sums, edge_sums

    def _is_dense(self, sources: int) -> bool:
        """Return whether a closure is predicted to take less time than the searches, or a part of it."""
        n, count = self.n, self.edges.pattern.indices.size
        if self.is_on_device:
            return 0 < n**3 <= _DEVICE_DENSE_GAIN * sources * count and 3 * 8 * n * n <= free_device_memory()
        return bool(_DENSE_GAIN * dense_operations(n, 8) <= search_operations(n, count, sources))

    def _close(self, weights: Array) -> Any:
        """Return the closure (n, n) of the edges with these weights, on the device of the call."""
        pattern, n = self.edges.pattern, self.n
        xp: Any = load_cupy() if self.is_on_device else np
        A = xp.full((n, n), min_plus.zero_for(weights.dtype), weights.dtype)
        A[xp.asarray(pattern.rows), xp.asarray(pattern.indices)] = xp.asarray(weights)
        xp.fill_diagonal(A, 0)
        with trust_zeros():
            return closure(A, min_plus, out=A, threads=self.threads, check=False)

    def _direct_edges(self, searches: Searches) -> Array:
        """Return the positions of the edges that may be on a shortest path, by a closure of the dense matrix.

        An edge that is longer than the distance of its ends, by more than the rounding of any sum, is on none.
        """
        pattern, weights, n = self.edges.pattern, searches.weights, self.n
        D = self._close(weights)
        slack: Any = 0
        if weights.dtype.kind == "f":
            xp: Any = array_namespace(D)
            largest = float(xp.where(xp.isfinite(D), D, 0).max())
            is_exact = largest + float(weights.max()) < 2**53 and bool((weights == np.rint(weights)).all())
            slack = 0.0 if is_exact else 4 * n * float(np.finfo(np.float64).eps) * largest
        ends = (array_namespace(D).asarray(vertices) for vertices in (pattern.rows, pattern.indices))
        return np.flatnonzero(weights <= to_host_array(D[*ends]) + slack)

    def distances_to(self, progress: Progress | bool | None) -> Iterator[tuple[slice, Any]]:
        """Yield some vertices, and the distances (count, n) float64 from all vertices to each of them."""
        from scipy.sparse import csr_array

        pattern, n = self.edges.pattern, self.n
        require_nonnegative(pattern, self.edges.values, self.edges.names)
        weights, step = self.edges.values.astype(np.float64), max(1, _ENTRIES // max(1, n))
        D, parts = None, [slice(start, min(n, start + step)) for start in range(0, n, step)]
        with report_progress(progress, "distances") as listener:
            if self.is_on_device and self._is_dense(n):
                D = self._close(weights)
            elif not self.is_on_device and n <= _CLOSED_VERTICES:
                demand_memory(2 * 8 * n * n, f"the distances of {n:,} vertices", "pass a part of the graph")
                stored = csr_array((weights, pattern.indices, pattern.starts), shape=(n, n))
                with trust_zeros():
                    D = closure(stored, min_plus, threads=self.threads, progress=listener)
            if D is not None:
                yield from ((rows, D.T[rows]) for rows in parts)
                return
            starts, tails, entries = pattern.columns
            plan = make_plan(min_plus, np.float64, nonnegative=True, threads=self.threads)
            backward = Searches(plan, starts, tails, weights[entries], is_reversed=True)
            for rows in in_parts(parts):
                sources = np.arange(rows.start, rows.stop)
                if self.is_on_device:
                    yield rows, distances_on_device(backward, sources)
                else:
                    yield rows, backward.search_table(sources)[0]

    def sum_reciprocals(self, progress: Progress | bool | None) -> Array:
        sums = np.zeros(self.n)
        for rows, distances in self.distances_to(progress):
            xp = array_namespace(distances)
            proper = xp.where(distances > 0, distances, np.inf)
            sums[rows] = to_host_array((1.0 / proper).sum(axis=1))
        return sums


def _memory(A: Any) -> Any:
    """Return the array that shows where a matrix is: of a sparse tensor its values, of CuPy's sparse matrices too."""
    if is_sparse_tensor(A):
        return stored_values(A)
    return A.data if _is_sparse_of_cupy(A) else A


def _is_sparse_of_cupy(A: Any) -> bool:
    return library_of(A) == "cupyx" and hasattr(A, "nnz")


def _edges_on_host(A: Any, check: bool) -> Any:
    """Return the stored entries of a matrix on a GPU as a SciPy matrix, and any other input unchanged."""
    if not is_device_array(_memory(A)):
        return A
    if _is_sparse_of_cupy(A):
        return A.get()
    if is_sparse_tensor(A):
        return A.cpu() if hasattr(A, "cpu") else as_sparse_array(A, "A")  # of PyTorch, or of JAX
    from scipy.sparse import csr_array

    (dense,) = operands(min_plus, A=A)
    if is_half(dense.dtype):  # which SciPy does not store
        (dense,) = operands(min_plus, np.float32, A=dense)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
        raise square_error(dense.shape)
    scan = check_entries(dense, min_plus)
    if check:
        warn_of_other_zeros_on_device(dense, min_plus, scan)
    places = array_namespace(dense).nonzero(dense != min_plus.zero_for(dense.dtype))
    values, *ends = map(to_host_array, (dense[places], *places))
    return csr_array((values, tuple(ends)), shape=dense.shape)
