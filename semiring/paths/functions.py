"""Find the best paths of a matrix of edge weights: one function for every semiring, and five for named semirings."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, Unpack, cast, overload

import numpy as np

from semiring import profiling
from semiring.advice import fewer_paths_advice, quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, boolean, max_min, max_plus, max_times, min_plus
from semiring.algorithms.methods import METHODS, check_method_options
from semiring.arguments import is_one_of
from semiring.arrays.bits import BitMatrix
from semiring.arrays.device import single_device
from semiring.arrays.labels import LabelledArray, is_frame, labelled_square, may_name_vertices
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import (
    as_host_operand,
    as_square_matrices,
    result_converter,
    run_on_operand_device,
)
from semiring.arrays.sparse import is_sparse, stored_entries
from semiring.arrays.vertices import Vertices, ordered_names
from semiring.arrays.zero_conventions import trust_zeros, warn_of_percentages
from semiring.closures import closure, closure_with_predecessors
from semiring.closures.explain import Explanation
from semiring.closures.run import close_plainly
from semiring.errors import AlgebraError, DeviceError, DivergenceError, DomainError, ShapeError
from semiring.io.files import names_file
from semiring.io.inputs import Reading, convert_input, open_graph, return_unchanged
from semiring.io.network import semiring_of
from semiring.namespaces import is_device_array
from semiring.paths.pair_queries import PairQueries
from semiring.paths.result import Paths
from semiring.paths.selected_sources import SearchResult, SomePaths
from semiring.progress import Progress, report_progress
from semiring.thread_counts import check_threads, get_threads

__all__ = [
    "best_paths",
    "longest_paths",
    "most_reliable_paths",
    "shortest_paths",
    "transitive_closure",
    "widest_paths",
]


_Explain: TypeAlias = bool | Literal["full"]


class PathOptions(TypedDict, total=False):
    """The options of all functions of paths: see `best_paths`."""

    sources: Any
    targets: Any
    limit: Any
    weight: str | Callable[[Any], Any] | None
    directed: bool | None
    columns: tuple[str, str] | None
    names: Iterable[Hashable] | None
    predecessors: bool
    on_cycle: Literal["raise", "unbounded"]
    method: str
    method_options: Mapping[str, Any] | None
    progress: Progress | bool | None
    check: bool
    threads: int | None
    device: Any
    structure: bool | str | Iterable[str]


class _PathFunction(Protocol):
    """A function of paths for one semiring, whose results depend on ``explain``."""

    @overload
    def __call__(self, A: Any, *, explain: Literal[False] = ..., **options: Unpack[PathOptions]) -> Paths: ...
    @overload
    def __call__(
        self, A: Any, *, explain: Literal[True, "full"], **options: Unpack[PathOptions]
    ) -> tuple[Paths, Explanation]: ...


@overload
def best_paths(
    A: Any,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[False] = ...,
    **options: Unpack[PathOptions],
) -> Paths: ...
@overload
def best_paths(
    A: Any,
    semiring: Semiring | str | None = ...,
    *,
    explain: Literal[True, "full"],
    **options: Unpack[PathOptions],
) -> tuple[Paths, Explanation]: ...
@run_on_operand_device
def best_paths(
    A: Any,
    semiring: Semiring | str | None = None,
    *,
    sources: Any = None,
    targets: Any = None,
    limit: Any = None,
    weight: str | Callable[[Any], Any] | None = None,
    directed: bool | None = None,
    columns: tuple[str, str] | None = None,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    on_cycle: Literal["raise", "unbounded"] = "raise",
    method: str = "auto",
    method_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
    structure: bool | str | Iterable[str] = True,
    explain: _Explain = False,
) -> Any:
    """Find the best paths between pairs of vertices, in any semiring whose ⊕ selects one of its arguments.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A[i, j] is the weight of the edge i → j, the semiring's zero if there is no edge. It is an array, a list, or a
        SciPy sparse matrix (entries that it does not store are no edges). The matrices of a stack are graphs of their
        own. A smaller graph is padded with vertices without edges. A square frame, a frame of edges, a graph of
        NetworkX, igraph or rustworkx, and a `Network` have named vertices: see `semiring.as_network`. The name of a
        file is read as by `semiring.read`.
    semiring : Semiring or str, optional
        Weights are combined along a path by ⊗, paths compared by ⊕. By default that of a `Network`, else min-plus.
    sources, targets : sequence of vertices, optional
        Lists of vertices, by name or number (see `Paths.index`). Only the paths between them are found, by the cheapest
        of three methods, and the result is `SomePaths`. For a graph that lists its edges, no matrix of all pairs is
        made. By default all vertices.
    limit : scalar, optional
        Find only paths that are no worse than this weight, in one matrix. `SomePaths` then has a sparse matrix. If
        weights make no path better, the cost is that of the paths within the limit.
    weight : str or callable, optional
        The column or attribute of the weights, as in `as_network` and `read`.
    directed : bool, optional
        False adds the reverse of each edge, also for a matrix. The default is the direction of the graph.
    columns : tuple of str, optional
        The titles of the two columns in which a frame or a file lists the ends of edges.
    names : iterable of hashable, optional
        n different names of the vertices, in their order. All graphs of a stack have them.
    predecessors : bool, default True
        Whether to find all paths now. This takes 1.1 to 1.3 times the time, n² int32 of memory, and a copy of A during
        the run. Then `Paths.path` costs only the length of the path. Without predecessors it runs a search for each
        source, and A must not change until then.
    on_cycle : str, default "raise"
        ``"unbounded"``: in min-plus, pairs with a walk over a negative cycle have the weight -∞ and the predecessor
        -9999, and no error is raised; in max-plus, pairs over a positive cycle have ∞. The weights must be floats. Such
        a matrix is a result, and no valid input: an edge of -∞ is refused.
    method : str, default "auto"
        As in `semiring.closure`. With sources, targets or a limit, it may also be ``"factor"``, and ``"johnson"`` is
        Dijkstra's algorithm in every semiring in which it is correct. The ``explanation`` of the result has the choice
        and the reason.
    method_options : dict, optional
        Options of the named method, as in `semiring.closure`.
    progress : callable or bool, optional
        True draws a bar, and a function is called as ``progress(done, total)``, as in `semiring.closure`.
    check : bool, default True
        Whether to validate the entries, as in `semiring.closure`.
    threads : int, optional
        The number of threads, by default that of `get_threads`.
    device : str or tuple of str, optional
        The GPU or GPUs that compute, as in `semiring.closure`.
    structure : bool, str or iterable of str, default True
        Whether the structure of the graph may reduce the work, as in `semiring.closure`.
    explain : bool or "full", default False
        Return (paths, explanation), as `semiring.closure` does. ``"full"`` prints all answers, too.

    Returns
    -------
    Paths
        The distances and paths of all pairs, or `SomePaths` with ``sources``, ``targets`` or ``limit``. The matrix and
        the predecessors are of the library of A, on the device of A. Those of a stack have its shape: `Paths` of one
        matrix are ``paths[index]``, and bitwise identical to those of a call for this matrix.
    explanation : Explanation
        With ``explain``, the second of two results: the method, what was detected and used, and the predicted cost.

    Raises
    ------
    NegativeCycleError, DivergenceError
        If a cycle on a walk from a source to a target improves without end, or a pivot has no star. For a stack,
        ``error.matrix`` is the index.
    AlgebraError
        If ⊕ is not selective, and as in `semiring.closure`.
    ShapeError
        If A is not a square matrix or a stack of such, the number of names is not n, or a stack has a limit.
    FormatError
        If A is a frame that probably lists edges, and no columns are titled as sources and targets.
    VertexError
        If a source or a target is not a vertex.
    TypeError
        If the limit is not one number, or a list of vertices is one vertex or a mask.
    ValueError
        If the limit is NaN.
    DeviceError
        If a limit is given for a graph on a GPU, several GPUs for a stack, or there is no GPU.
    TooLargeError
        If the result does not fit into memory.
    IntegerOverflowError, DomainError, DTypeError, UnknownNameError
        As in `semiring.closure`.

    Examples
    --------
    >>> import networkx as nx
    >>> roads = nx.Graph()
    >>> roads.add_weighted_edges_from([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)])
    >>> best_paths(roads, sources=["Ulm"], targets=["Jena", "Kiel"]).matrix
    array([[11.,  7.]])
    """
    rare = sources, targets, limit, weight, directed, columns, names, progress, device, method_options
    has_defaults = not [x for x in rare if x is not None] and predecessors is True and explain is False
    has_defaults = has_defaults and isinstance(on_cycle, str) and on_cycle == "raise"
    has_defaults = (
        has_defaults
        and isinstance(method, str)
        and method == "auto"
        and isinstance(check, bool)
        and isinstance(structure, bool)
    )
    if has_defaults and not profiling.active:
        found = close_plainly(A, semiring, check=check, threads=threads, search=True)
        if found is not None:
            return Paths(found[0], min_plus if semiring is None else as_semiring(semiring), found[1], weights=A)
    algebra = as_semiring(semiring_of(A, semiring))
    if not algebra.selective:
        raise AlgebraError(
            f"the ⊕ of {algebra.name} adds paths instead of selecting one, so there are no best paths: use closure"
        )
    if not is_one_of(on_cycle, ("raise",)):
        from semiring.sparse.improving_cycles import check_on_cycle

        check_on_cycle(on_cycle, algebra)
    reading = Reading(weight, directed, columns)
    reading.check(A)
    call = _PathRequest(
        semiring=algebra,
        reading=reading,
        names=None if names is None else ordered_names(names),
        predecessors=predecessors,
        device=device,
        options={
            **{"method": method, "progress": progress, "check": check, "threads": threads, "structure": structure},
            "method_options": method_options,
        },
        explain=explain,
        on_cycle=on_cycle,
    )
    if method_options is not None and is_one_of(method, (*METHODS, "factor")):
        check_method_options(method, method_options)
    if limit is not None:
        _check_limit(limit)
    if sources is None and targets is None and limit is None:
        labelled = call.labelled_matrix(A)
        paths, explanation = call.find_relevant_paths(labelled, None, None)
        return (paths, explanation) if explain else paths
    some = call.find_selected_paths(A, sources, targets, limit)
    some.explanation.full = isinstance(explain, str)
    return (some, some.explanation) if explain else some


PairQueries._search = staticmethod(best_paths)  # for distances that were not requested


class _PathRequest(NamedTuple):
    """The options of a call of `best_paths`, without its edges, sources, targets and limit."""

    semiring: Semiring
    reading: Reading
    names: tuple[Hashable, ...] | None
    predecessors: bool
    device: Any
    options: dict[str, Any]  # the options of `closure`
    explain: _Explain
    on_cycle: str

    def labelled_matrix(self, A: Any) -> LabelledArray:
        """Return A as a matrix of all pairs, with the names of vertices."""
        labelled = convert_input(A, self.semiring, self.reading)
        return labelled if labelled.network is None else labelled._replace(restore=return_unchanged)

    def find_relevant_paths(self, labelled: LabelledArray, sources: Any, targets: Any) -> tuple[Paths, Any]:
        """Find the paths of all pairs, where only cycles on walks from a source to a target matter. None: all."""
        try:
            return self.find_all_paths(labelled)
        except DivergenceError as error:
            from semiring.paths.unbounded import find_all_relevant

            return find_all_relevant(
                self.find_all_paths, labelled, self.semiring, sources, targets, self.on_cycle, error
            )

    def find_all_paths(self, labelled_array: LabelledArray) -> tuple[Paths, Explanation | None]:
        """Find the paths between all pairs of vertices, and on request the explanation of their closure."""
        A, semiring, one = labelled_array.matrix, self.semiring, single_device(self.device)
        names = labelled_array.names if self.names is None else self.names
        if is_sparse(A):
            size = np.dtype(A.dtype).itemsize * (1 + self.predecessors) + 4 * self.predecessors
            demand_memory(A.shape[0] ** 2 * size, f"all paths of {A.shape[0]:,} vertices", fewer_paths_advice())
        explanation: Explanation | None = None
        try:
            if not self.predecessors:
                closed: Any = closure(A, semiring, device=self.device, explain=self.explain, **self.options)
                if self.explain:
                    closed, explanation = closed
                paths = Paths(labelled_array.restore(closed), semiring, names=names, weights=A)
                paths._is_undirected = self._is_undirected(labelled_array)
                return paths, self._state_subject(explanation, paths)
            if self.explain:
                method, full = self.options["method"], isinstance(self.explain, str)
                threads = self.options["threads"]
                count = get_threads() if threads is None else check_threads(threads)
                explanation = Explanation(semiring.name, method=method, threads=count, full=full)
            matrix = as_square_matrices(A.unpack() if isinstance(A, BitMatrix) else A, semiring, device=one)
            with trust_zeros() if is_sparse(A) else nullcontext():
                distances, trees = closure_with_predecessors(
                    matrix, semiring, device=self.device, explanation=explanation, **self.options
                )
        except DivergenceError as error:
            raise error.of_paths().named(names) from None
        except DomainError as error:
            raise error.named(names) from None
        back = result_converter(A)
        weights = matrix if one is None else A
        paths = Paths(labelled_array.restore(back(distances)), semiring, back(trees), names=names, weights=weights)
        paths._is_undirected = self._is_undirected(labelled_array)
        return paths, self._state_subject(explanation, paths)

    def _is_undirected(self, labelled_array: LabelledArray) -> bool:
        """Return whether each edge was taken in both directions."""
        network = labelled_array.network
        return self.reading.directed is False or (network is not None and not network.directed)

    def _state_subject(self, explanation: Explanation | None, paths: Paths) -> Explanation | None:
        """Return the explanation, with the paths in its first line."""
        if explanation is not None:
            predecessors = "with" if self.predecessors else "without"
            explanation.subject = (
                f"paths between all {paths.count_of_vertices:,} vertices, {predecessors} predecessors,"
            )
        return explanation

    def find_selected_paths(self, A: Any, sources: Any, targets: Any, limit: Any) -> SomePaths:
        """Find the paths between some vertices, or within a limit."""
        from semiring.paths.selected_search import find_paths, select_paths
        from semiring.sparse.edge_inputs import edges_of

        is_stack = _is_stack(A)
        if self.device is not None or is_device_array(A) or is_stack:
            if limit is not None and is_stack:
                raise ShapeError("limit= is for one matrix: call the function for each matrix of the stack")
            if limit is not None:
                raise DeviceError(
                    "limit= is for graphs in the memory of the host: compare the matrix of a GPU with the limit"
                )
            labelled = self.labelled_matrix(A)
            n = (
                np.shape(labelled.matrix)[-1]
                if isinstance(labelled.matrix, list | tuple)
                else labelled.matrix.shape[-1]
            )
            vertices = Vertices(n, labelled.names if self.names is None else self.names)
            rows, columns = _number_ends(vertices, sources, targets)
            request = self._replace(names=None, explain=True)
            unnamed = labelled._replace(names=None, restore=return_unchanged)
            paths, explanation = request.find_relevant_paths(unnamed, rows, columns)
            assert explanation is not None
            table = select_paths(paths, rows, columns)
            answer = SearchResult(
                sources=rows,
                targets=columns,
                limit=None,
                **table._asdict(),
                explanation=explanation,
                all_paths=paths if is_stack else None,
            )
            return SomePaths(answer, self.semiring, vertices)
        try:
            edges = edges_of(A, self.semiring, reading=self.reading, check=self.options["check"])
        except DomainError as error:
            raise error.named(self.names) from None
        vertices = Vertices(edges.pattern.n, edges.names if self.names is None else self.names)
        rows, columns = _number_ends(vertices, sources, targets)
        threads = self.options["threads"]
        with report_progress(self.options["progress"], "paths") as progress:
            find = partial(
                find_paths,
                semiring=self.semiring,
                sources=rows,
                targets=columns,
                limit=limit,
                names=vertices.names,
                method=self.options["method"],
                predecessors=self.predecessors,
                threads=get_threads() if threads is None else check_threads(threads),
                find_all_paths=lambda matrix, method: self._replace(
                    names=None, options=self.options | {"method": method, "progress": progress}, explain=False
                ).find_all_paths(LabelledArray(matrix, None, return_unchanged))[0],
            )
            try:
                answer = find(edges)
            except DivergenceError as error:
                from semiring.paths.unbounded import find_relevant

                answer = find_relevant(find, edges, self.semiring, rows, columns, self.on_cycle, error)
        return SomePaths(answer, self.semiring, vertices)


_LIMIT_BITS = 1024  # of a limit, which is a bound of sums of the largest floats


def _check_limit(limit: Any) -> None:
    value = np.empty(1) if isinstance(limit, list | tuple) else np.asarray(limit)
    if value.ndim or not (value.dtype.kind in "fiub" or isinstance(limit, int)):  # an int of more than 64 bits
        raise TypeError(f"limit is {quote(limit)}: give one number")
    if value != value:
        raise ValueError("limit is NaN: give a number")
    if isinstance(limit, int) and limit.bit_length() > _LIMIT_BITS:
        raise ValueError(f"limit has {limit.bit_length():,} bits: leave it out, or give a smaller one")


def _number_ends(vertices: Vertices, sources: Any, targets: Any) -> tuple[Any, Any]:
    """Return the numbers of the sources and of the targets, None for all vertices."""
    return (
        None if sources is None else vertices.indices(sources),
        None if targets is None else vertices.indices(targets),
    )


def _is_stack(A: Any) -> bool:
    """Return whether an operand has more than two axes."""
    axes, first = 0, A
    while isinstance(first, list | tuple) and first:
        axes, first = axes + 1, first[0]
    return bool(axes + getattr(first, "ndim", 0) > 2)


def _expand_options(function: Callable[..., Any]) -> _PathFunction:
    """Replace ``**options`` in the signature by the options of `best_paths`, and reject all other options."""
    own = [p for p in signature(function).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    own_names = {p.name for p in own}
    shared = [p for p in signature(best_paths).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    shared = [p for p in shared if p.name not in own_names]
    names = {p.name for p in (*own, *shared)}

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        for name in options.keys() - names:
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {quote(name)}")
        return function(*arguments, **options)

    call.__signature__ = signature(function).replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return cast("_PathFunction", call)


@_expand_options
def shortest_paths(A: Any, **options: Any) -> Any:
    """Find the shortest paths, in min-plus: ∞ (the largest number of an integer dtype) is no edge, 0 is a weight.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        The weights of edges, which may be negative, or a graph as in `best_paths`.
    sources, targets, limit : optional
        The vertices between which paths are found, and the greatest weight of a path, as in `best_paths`.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    names, predecessors : optional
        The names of the vertices, and whether to find all paths now, as in `best_paths`.
    on_cycle, method, method_options, progress, check, threads, device, structure, explain : optional
        How the paths are computed, as in `best_paths`.

    Returns
    -------
    Paths
        The distances and paths, as `best_paths` returns them.

    Raises
    ------
    NegativeCycleError
        If the graph has a negative cycle, whose vertices the error lists. Other errors are those of `best_paths`.

    Examples
    --------
    >>> inf = float("inf")
    >>> found = shortest_paths([[inf, 7, 1], [inf, inf, inf], [inf, 2, inf]], names=["a", "b", "c"])
    >>> found.path("a", "b"), float(found.distance("a", "b"))
    (['a', 'c', 'b'], 3.0)
    >>> found
    <Paths of 3 vertices in min_plus, float64: 3 of 6 pairs connected, with predecessors>
    """
    return best_paths(A, min_plus, **options)


@_expand_options
def longest_paths(A: Any, **options: Any) -> Any:
    """Find the longest paths, in max-plus: -∞ (the smallest number of an integer dtype) is no edge.

    They exist only if no cycle has a positive weight, as in a schedule.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        The weights of edges, or a graph as in `best_paths`.
    sources, targets, limit : optional
        The vertices between which paths are found, and the least weight of a path, as in `best_paths`.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    names, predecessors : optional
        The names of the vertices, and whether to find all paths now, as in `best_paths`.
    on_cycle, method, method_options, progress, check, threads, device, structure, explain : optional
        How the paths are computed, as in `best_paths`.

    Returns
    -------
    Paths
        The weights and paths, as `best_paths` returns them.

    Raises
    ------
    PositiveCycleError
        If the graph has a positive cycle, whose vertices the error lists. It is a `NegativeCycleError`. Other errors
        are those of `best_paths`.

    Examples
    --------
    >>> inf = float("inf")
    >>> longest_paths([[-inf, 2, 3], [-inf, -inf, 4], [-inf, -inf, -inf]]).path(0, 2)
    [0, 1, 2]
    """
    return best_paths(A, max_plus, **options)


@_expand_options
def widest_paths(A: Any, **options: Any) -> Any:
    """Find the paths whose narrowest edge is widest, in max-min: -∞ (0 for uint8) is no edge.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        The widths of edges, or a graph as in `best_paths`.
    sources, targets, limit : optional
        The vertices between which paths are found, and the least width of a path, as in `best_paths`.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    names, predecessors : optional
        The names of the vertices, and whether to find all paths now, as in `best_paths`.
    on_cycle, method, method_options, progress, check, threads, device, structure, explain : optional
        How the paths are computed, as in `best_paths`.

    Returns
    -------
    Paths
        The widths and paths, as `best_paths` returns them. The distance of a vertex from itself is ∞, because that path
        has no edge.

    Raises
    ------
    ShapeError, FormatError, VertexError, TypeError, ValueError
        As in `best_paths`.
    DomainError, DTypeError, DeviceError, TooLargeError, UnknownNameError
        As in `best_paths`.

    Examples
    --------
    >>> inf = float("inf")
    >>> widest_paths([[-inf, 5, 2], [-inf, -inf, 4], [-inf, -inf, -inf]]).path(0, 2)
    [0, 1, 2]
    """
    return best_paths(A, max_min, **options)


@_expand_options
def most_reliable_paths(A: Any, **options: Any) -> Any:
    """Find the paths with the greatest product of weights, in max-times: probabilities in [0, 1], 0 is no edge.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        The weights of edges, or a graph as in `best_paths`. Weights above 1 are allowed if no cycle gains by them.
    sources, targets, limit : optional
        The vertices between which paths are found, and the least product of a path, as in `best_paths`.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    names, predecessors : optional
        The names of the vertices, and whether to find all paths now, as in `best_paths`.
    on_cycle, method, method_options, progress, check, threads, device, structure, explain : optional
        How the paths are computed, as in `best_paths`.

    Returns
    -------
    Paths
        The products and paths, as `best_paths` returns them.

    Raises
    ------
    DivergenceError
        If a cycle gains by weights above 1. Other errors are those of `best_paths`.

    Warns
    -----
    SuspiciousWeightsWarning
        If a product in host memory is above 1, because it is not a probability.

    Examples
    --------
    >>> most_reliable_paths([[0, 0.5, 0.3], [0, 0, 0.8], [0, 0, 0]]).path(0, 2)
    [0, 1, 2]
    """
    result = best_paths(A, max_times, **options)
    paths = result[0] if options.get("explain") else result
    products = paths._distances
    if options.get("check", True) and not is_device_array(products):
        warn_of_percentages(products.data if is_sparse(products) else products)
    return result


@overload
def transitive_closure(
    A: Any, *, reflexive: bool = ..., explain: Literal[False] = ..., **options: Unpack[PathOptions]
) -> Paths: ...
@overload
def transitive_closure(
    A: Any, *, reflexive: bool = ..., explain: Literal[True, "full"], **options: Unpack[PathOptions]
) -> tuple[Paths, Explanation]: ...
@run_on_operand_device  # type: ignore[misc]  # the next decorator has the type of the other functions
@_expand_options
def transitive_closure(A: Any, *, reflexive: bool = True, predecessors: bool | None = None, **options: Any) -> Any:
    """Find the vertices that each vertex reaches.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        A matrix of bool, or of integers that are all 0 or 1, or a stack of such, a `BitMatrix`, or any list of edges.
        In a SciPy sparse matrix of weights every stored entry is an edge.
    reflexive : bool, default True
        Whether every vertex reaches itself. Otherwise a vertex reaches itself only along a cycle, which ``path(v, v)``
        returns.
    predecessors : bool, optional
        By default True only with ``sources``, ``targets`` or ``limit``. For all pairs they take 30 to 90 times as long
        as the closure, which packs truth values. Without them `Paths.path` runs a search for each source.
    sources, targets, limit : optional
        The vertices between which paths are found, as in `best_paths`.
    weight, directed, columns : optional
        How edges are read, as in `best_paths`.
    names : iterable of hashable, optional
        n different names of the vertices, in their order.
    on_cycle, method, method_options, progress, check, threads, device, structure, explain : optional
        How the closure is computed, as in `best_paths`.

    Returns
    -------
    Paths
        Its matrix is bool, of the shape of A.

    Raises
    ------
    DTypeError
        For an array of other integers or of floats, because a weight of 0 may be an edge. Pass ``A != 0`` or ``A <
        inf``.
    DomainError
        For a 0, ∞ or NaN that a sparse matrix of numbers stores, which may be an edge or no edge.
        ``A.eliminate_zeros()`` removes zeros, ``H = A.copy(); H.data = np.ones(H.nnz, bool)`` makes edges of them.
    TooLargeError
        If the result does not fit into memory. All pairs take 1.25 n² bytes, and 4 n² more with predecessors. They take
        n² more if A holds numbers, or if A is packed or sparse and predecessors or a ``method`` are requested.
    ShapeError
        If A is not a square matrix, or the number of names is not n.
    DeviceError
        With ``reflexive=False`` and ``sources`` or ``targets``, for a graph on a GPU.
    VertexError
        If a source or a target is not a vertex.

    Examples
    --------
    >>> reached = transitive_closure([[False, True, False], [False, False, True], [False, False, False]])
    >>> reached.matrix.astype(int)
    array([[1, 1, 1],
           [0, 1, 1],
           [0, 0, 1]])
    """
    some = [name for name in ("sources", "targets", "limit") if options.get(name) is not None]
    with_predecessors = bool(some if predecessors is None else predecessors)
    restore: Callable[[Any], Any] = return_unchanged
    if names_file(A):
        reading = Reading(options.pop("weight", None), options.pop("directed", None), options.pop("columns", None))
        A, _ = open_graph(A, boolean, reading, sparse=True if some else None)
    reading = Reading(options.get("weight"), None, options.get("columns"))
    reading.check(A)
    if is_frame(A) and not reading.lists_edges(A):
        labelled = labelled_square(A)
        A, restore = labelled.matrix, return_unchanged if some else labelled.restore
        options["names"] = labelled.names if options.get("names") is None else options["names"]
    if not (may_name_vertices(A) or reading.lists_edges(A)):
        unpacked = with_predecessors or not is_one_of(options.get("method", "auto"), ("auto",))  # some support no bits
        if not (some or is_device_array(A)):
            _demand_table(A, with_predecessors, unpacked)
        A = _as_truth_values(A, options.get("check", True))
        A = A.unpack() if isinstance(A, BitMatrix) and unpacked and not some else A
    explain = options.get("explain", False)
    result: Any = best_paths(A, boolean, predecessors=with_predecessors, **options)
    paths = result[0] if explain else result
    if not reflexive:
        paths = paths.without_empty_paths()
    paths.matrix = restore(paths._distances if isinstance(paths.matrix, BitMatrix) else paths.matrix)
    return (paths, result[1]) if explain else paths


def _demand_table(A: Any, predecessors: bool, is_unpacked: bool) -> None:
    """Raise `TooLargeError` if the truth values of all pairs do not fit into memory.

    A pair takes a byte, two bits while the values are packed, an int32 with predecessors, and another byte if A must be
    converted to an array of truth values.
    """
    shape: Any = getattr(A, "shape", ())
    if len(shape) >= 2:
        lists = is_sparse(A) or isinstance(A, BitMatrix)
        copied = is_unpacked if lists else getattr(A, "dtype", None) != np.bool_
        demand_memory(
            math.prod(shape) * (5 + 16 * predecessors + 4 * copied) // 4,
            f"the reachability of {shape[-1]:,} vertices, one byte for each pair,",
            "pass sources= or targets=, call condensation, which needs memory for the edges only, or call closure for "
            "a BitMatrix, n²/8 bytes",
        )


def _as_truth_values(A: Any, check: bool) -> Any:
    """Convert truth values, or zeros and ones, to bool: packed (on the host), sparse, or dense like A or a stack A."""
    if isinstance(A, BitMatrix):
        return A.unpack() if A.on_device else A
    if is_sparse(A):
        values = as_host_operand(A)
        rows, columns, stored = stored_entries(values)
        unclear = np.flatnonzero((stored == 0) | ~np.isfinite(stored))
        if unclear.size and values.dtype != np.bool_:
            i, j, weight = (array[unclear[0]] for array in (rows, columns, stored))
            raise DomainError(
                f"A stores {weight} at [{i}, {j}], which may be an edge of this weight or no edge. A.eliminate_zeros() "
                "removes stored zeros. If all stored entries are edges, set A.data = np.ones(A.nnz, bool) in a copy"
            )
        return values.astype(bool)
    return as_square_matrices(A, boolean, check=check)
