"""Hold the result of the functions of paths with ``sources``, ``targets`` or a ``limit``: `SomePaths`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.folds import farthest_entries
from semiring.arrays.memory import demand_memory
from semiring.arrays.parts import to_host_array
from semiring.arrays.scans import Scan
from semiring.arrays.vertices import Vertices
from semiring.closures.explain import Explanation
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DivergenceError,
    IntegerOverflowError,
    MissingExtraError,
    ShapeError,
    VertexError,
)
from semiring.io.network import Network
from semiring.paths.result import Paths

if TYPE_CHECKING:
    from semiring.paths.ties import PathGraph
    from semiring.sparse.edge_inputs import SparseEntries
    from semiring.sparse.symbolic_factor import Pattern

__all__ = ["SearchResult", "SomePaths"]

Array = NDArray[Any]
_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The numbers of the sources and targets, and the paths between them (`semiring.paths.selected_search`)."""

    sources: Array | None  # None: all vertices
    targets: Array | None
    limit: Any
    matrix: Any  # (..., p, q), with a limit a SciPy sparse matrix
    predecessors: Array | None  # (..., p, n)
    find: Callable[[int, int], list[int]]  # returns the vertices of a best path, [] if there is none
    explanation: Explanation
    edges: Pattern | None = None  # None if the edges are on a GPU
    weights: Array | None = None  # the weights of the edges, in the order of the pattern
    all_paths: Paths | None = None  # the paths between all vertices of a stack, from which these were selected

    @cached_property
    def _components(self) -> Array:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        edges = self.edges
        assert edges is not None
        ones = np.ones(edges.indices.size, np.int8)
        graph = csr_array((ones, edges.indices, edges.starts), shape=(edges.n, edges.n))
        labels: Array = connected_components(graph, connection="strong")[1]
        return labels

    def cycle_predecessors(self, vertex: int) -> Array:
        """Return the vertices before a vertex on cycles through it, with the vertex itself if it has a loop."""
        assert self.edges is not None
        first, tails, _ = self.edges.columns
        lasts = tails[first[vertex] : first[vertex + 1]]
        on_cycles: Array = lasts[self._components[lasts] == self._components[vertex]]
        return on_cycles


class SomePaths(Paths):
    """The best paths from p sources to q targets in a graph of n vertices, or in each graph of a stack.

    Attributes
    ----------
    matrix
        (..., p, q): the weights of best paths, in the order of the sources and targets. With a limit it is a
        `scipy.sparse.csr_array` of the weights that are no worse, in float32 for float16 and bfloat16. An entry that it
        does not store is a worse path, or no path.
    predecessors
        (..., p, n) as in `Paths`, if the method finds them; else None, and `path` runs a search.
    sources, targets
        (p,) and (q,): the numbers of the sources and of the targets.
    explanation
        The chosen method, and the predicted costs of the other methods.

    A path from or to another vertex raises `VertexError`. Properties of all pairs, such as `diameter`, raise
    `ShapeError`.
    """

    def __init__(self, answer: SearchResult, semiring: Semiring, vertices: Vertices) -> None:
        self.semiring, self.matrix, self.predecessors = semiring, answer.matrix, answer.predecessors
        self._distances, self._vertex_index, self._answer = answer.matrix, vertices, answer
        self.names, self.explanation = self._vertex_index.names, answer.explanation
        everything = np.arange(len(vertices))
        self.sources = everything if answer.sources is None else answer.sources
        self.targets = everything if answer.targets is None else answer.targets
        self._rows = _first_positions(self.sources)
        self._columns = _first_positions(self.targets)
        self._is_reflexive = True
        self._pivots = None

    def without_empty_paths(self) -> Paths:
        """Restrict paths of truth values to those of at least one edge, so a vertex reaches itself only by a cycle.

        The matrix is changed in place. Raises `DeviceError` for paths that a GPU has found.
        """
        if self._answer.edges is None:
            raise DeviceError(
                "reflexive=False with sources= or targets= is for graphs in the memory of the host: leave these out"
            )
        self._is_reflexive = False
        places = self.matrix.tocoo() if self._is_sparse else None
        for row, vertex in enumerate(self.sources.tolist()):
            if self._answer.cycle_predecessors(vertex).size:
                continue
            if places is None:
                self.matrix[row, self.targets == vertex] = False
            else:
                self.matrix.data[(places.row == row) & (self.targets[places.col] == vertex)] = False
        if self._is_sparse:
            self.matrix.eliminate_zeros()
        return self

    def update(self, tails: Any, heads: Any, weights: Any, *, directed: bool | None = None) -> int:
        """Raise `AlgebraError`: without all pairs, a change of an edge has no paths to begin from."""
        raise AlgebraError(
            "paths of some sources, targets or a limit are not updated: compute all pairs, without sources=, targets= "
            "and limit=, or call factor(A), whose update takes sparse graphs"
        )

    def __len__(self) -> int:
        return int(self.matrix.shape[0]) if self._is_stack else len(self._vertex_index)

    @property
    def count_of_vertices(self) -> int:
        """The number n of vertices of the graph, or of each graph of a stack."""
        return len(self._vertex_index)

    def __getitem__(self, index: Any) -> SomePaths:
        """Return the paths of one matrix of a stack, or of a part of the stack, as of `Paths`."""
        key, answer = self._stack_key(index), self._answer
        assert answer.all_paths is not None
        part = answer.all_paths[index]
        trees = None if answer.predecessors is None else answer.predecessors[key]
        changes = {"matrix": answer.matrix[key], "predecessors": trees, "all_paths": part, "find": part._find_numbers}
        return SomePaths(replace(answer, **changes), self.semiring, self._vertex_index)

    def to_array(self, length: int | None = None) -> tuple[Any, Any]:
        """Return the vertices (..., p, q, L) of the paths and their numbers (..., p, q), as `Paths.to_array` does.

        Raises `ShapeError` for paths within a limit.
        """
        if self._is_sparse:
            raise self._missing_paths_error("an array of paths needs one for each source and target")
        targets = None if self._answer.targets is None else np.asarray(self.targets, np.int32)
        return self._list_vertices(np.asarray(self.sources, np.int32), targets, length)

    def _list_vertices(self, sources: Array, targets: Array | None, length: int | None) -> tuple[Any, Any]:
        if self.predecessors is not None or self._is_stack or not self._is_reflexive:
            return super()._list_vertices(sources, targets, length)
        from semiring.paths.vertex_arrays import list_found

        def find(row: int, column: int) -> list[int]:
            return self._find_simple_path(row, int(sources[row]), int(self.targets[column]))

        p, q = self.matrix.shape
        return list_found(find, p, q, length)

    def _all_trees(self, sources: Array) -> Any:
        paths = self._answer.all_paths
        return (
            super()._all_trees(sources) if paths is None or self.predecessors is not None else paths._all_trees(sources)
        )

    def __repr__(self) -> str:
        *stack, p, q = self.matrix.shape
        connected = self.matrix.nnz if self._is_sparse else int(np.count_nonzero(self.reachable))
        within = "" if self._answer.limit is None else f" within {self._answer.limit}"
        graphs = f" in {' × '.join(map(str, stack))} graphs" if stack else ""
        vertices = f"{p:,} to {q:,} of {self.count_of_vertices:,} vertices"
        return (
            f"<Paths from {vertices}{graphs} in {self.semiring.name}, {self.matrix.dtype}: "
            f"{connected:,} of {prod(stack) * p * q:,} pairs connected{within}>"
        )

    def _repr_html_(self) -> str | None:
        from semiring.terminal import SHOWN_ROWS, html_matrix

        if self._is_stack:
            return None
        corner = self.matrix[:SHOWN_ROWS, :SHOWN_ROWS]
        if self._is_sparse:
            stored = corner.tocoo()
            corner = np.full(stored.shape, self.semiring.zero_for(stored.dtype), stored.dtype)
            corner[stored.row, stored.col] = stored.data
        return html_matrix(repr(self), to_host_array(corner), *self._axis_names)

    @property
    def _axis_names(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return [self.name(v) for v in self.sources.tolist()], [self.name(v) for v in self.targets.tolist()]

    def _as_network(self) -> Network:
        raise ShapeError(
            "these are paths between some vertices, and a network needs the paths between all: write to_frame() by its "
            "to_csv, or leave sources=, targets= and limit= out"
        )

    def to_frame(self) -> Any:
        """Return the matrix as a frame of pandas: a row for each source, a column for each target.

        With a limit it has a row for each stored pair, and the columns source, target and weight.
        Raises `MissingExtraError` without pandas.
        """
        if not self._is_sparse:
            return super().to_frame()  # refuses a stack
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "", "to_frame") from None
        stored, (rows, columns) = self.matrix.tocoo(), self._axis_names
        sources, targets = [rows[k] for k in stored.row], [columns[k] for k in stored.col]
        return pd.DataFrame({"source": sources, "target": targets, "weight": stored.data})

    @property
    def _weights(self) -> Any:
        """The sparse matrix of the edges."""
        from scipy.sparse import csr_array

        edges = self._answer.edges
        weights = self._answer.weights
        if edges is None or weights is None:
            raise DeviceError(
                "the edges are on a GPU, and plot needs a graph in the memory of the host: copy the matrix there"
            )
        demand_memory(
            edges.n**2 * self.matrix.dtype.itemsize, f"a picture of {edges.n:,} vertices", "plot a smaller network"
        )
        return csr_array((weights, edges.indices, edges.starts), shape=(edges.n, edges.n))

    def _select_distances(self, source: Any) -> Any | None:
        """Return the distances (n,) from a source; None if only distances to some targets were found."""
        row = self._find_row(source)
        everywhere = self._answer.targets is None and not self._is_sparse
        return to_host_array(self.matrix[row]) if everywhere else None

    @property
    def _is_sparse(self) -> bool:
        return self._answer.limit is not None

    def _find_entry(self, source: Any, target: Any) -> tuple[int, int]:
        """Return the row of a source and the column of a target. Raises `VertexError` for another vertex."""
        self._refuse_stack("path")
        return self._find_row(source), self._find_position(target, self._columns, "target", "targets")

    def _find_row(self, source: Any) -> int:
        return self._find_position(source, self._rows, "source", "sources")

    def _find_position(self, vertex: Any, places: dict[int, int], kind: str, option: str) -> int:
        number = self.index(vertex)
        if number not in places:
            some = ", ".join(str(self.name(v)) for v in list(places)[:5]) + (", …" if len(places) > 5 else "")
            raise VertexError(
                f"{self.name(number)} was not asked for as a {kind}: these are the paths of {some or 'none'}. "
                f"Name it in {option}="
            )
        return places[number]

    def distance(self, source: Any, target: Any) -> Any:
        """Return the weight of the best path from a source to a target, as in `Paths`.

        It is the semiring's zero if there is no path, or only paths that are worse than the limit.
        """
        row, column = self._find_entry(source, target)
        if not self._is_sparse:
            return self._replace_no_paths(self.matrix[row, column])
        begin, end = self.matrix.indptr[row : row + 2]
        place = begin + np.searchsorted(self.matrix.indices[begin:end], column)
        if place < end and self.matrix.indices[place] == column:
            return self.matrix.data[place]
        return self._replace_no_paths(np.asarray(self.semiring.zero_for(self.matrix.dtype)))[()]

    def path(self, source: Any, target: Any) -> list[Any]:
        """Return the vertices of a best path from a source to a target, both ends included.

        Without predecessors it runs one search, which ends at the target. Raises `NoPathError`, `VertexError`.
        """
        row, column = self._find_entry(source, target)
        i, j = int(self.sources[row]), int(self.targets[column])
        vertices = self._find_vertices(row, i, j)
        if not vertices:
            where = "" if self._answer.limit is None else f" within {self._answer.limit}"
            raise self._no_path(i, j, (row, column), where)
        return [self.name(vertex) for vertex in vertices]

    def paths_from(self, source: Any) -> dict[Any, list[Any]]:
        """Return the paths from one source to all targets that it reaches, by their ends."""
        self._refuse_stack("paths_from")
        row = self._find_row(source)
        i = int(self.sources[row])
        walks = ((j, self._find_vertices(row, i, j)) for j in self._columns)
        return {self.name(j): [self.name(v) for v in vertices] for j, vertices in walks if vertices}

    def _find_vertices(self, row: int, i: int, j: int) -> list[int]:
        if i == j and not self._is_reflexive:
            lasts = self._answer.cycle_predecessors(i)
            return [*self._find_simple_path(row, i, int(lasts[0])), i] if lasts.size else []
        return self._find_simple_path(row, i, j)

    def _find_simple_path(self, row: int, i: int, j: int) -> list[int]:
        if self.predecessors is not None:
            is_open = i == j and j in self._columns and self._is_unbounded((row, self._columns[j]))
            return [] if is_open else self._trace(self.predecessors[row], i, j) or []
        if self._is_sparse and j in self._columns:
            begin, end = self.matrix.indptr[row : row + 2]
            if self._columns[j] not in self.matrix.indices[begin:end]:
                return []
        return self._answer.find(i, j)

    def hops(self) -> Any:
        """Return the number of edges of the path of each pair, as in `Paths`.

        Without predecessors the path of each pair is found, by a search.
        """
        if not self._has_all_trees:
            return self._evaluate_pairs(lambda vertices: len(vertices) - 1, np.int32, -1)
        from semiring.paths.vertex_arrays import count_path_vertices

        sources, targets = self._ends
        trees = self._all_trees(sources)
        stack = (prod(trees.shape[:-2]), *trees.shape[-2:])
        counts, _ = count_path_vertices(trees.reshape(stack), sources, targets)
        return self._hide_unbounded(counts.reshape(*trees.shape[:-1], counts.shape[-1]) - 1, -1)

    def total(self, W: Any, operation: str = "sum") -> Any:
        """Fold another weight of the edges along the path of each pair, as in `Paths`.

        Without predecessors the path of each pair is found, by a search.
        """
        from semiring.paths.along_paths import fold_vertices, fold_weights, read_weights

        options = {"stack": self.matrix.shape[:-2], "may_be_sparse": not self._has_all_trees}
        weights = read_weights(W, self.count_of_vertices, self.names, operation, **options)
        whole = weights.dtype.kind != "f"
        if self._has_all_trees:
            sources, targets = self._ends
            totals = fold_weights(self._all_trees(sources), sources, weights, operation)
            totals = totals if targets is None else totals[..., targets]
            return self._hide_unbounded(totals, np.ma.masked if whole else np.nan)
        none = None if whole else np.nan

        def fold(vertices: list[int]) -> Any:
            value = fold_vertices(vertices, weights, operation)
            return none if value is None else value

        return self._evaluate_pairs(fold, np.dtype(np.int64) if whole else weights.dtype, none)

    @property
    def _has_all_trees(self) -> bool:
        return (self.predecessors is not None or self._is_stack) and self._is_reflexive and not self._is_sparse

    @property
    def _ends(self) -> tuple[Array, Array | None]:
        """The sources, and the targets or None for all vertices."""
        targets = None if self._answer.targets is None else np.asarray(self.targets, np.int32)
        return np.asarray(self.sources, np.int32), targets

    def _hide_unbounded(self, table: Any, none: Any) -> Any:
        """Write ``none`` to the entries of pairs whose walks improve without end."""
        marks = self._mark_unbounded(self.matrix)
        if marks is not None and bool(marks.any()):
            table[marks] = none
        return table

    def counts(self, dtype: Any = "int64", rtol: float | None = None) -> Any:
        """Return the number of best paths of each pair, as in `Paths`. Raises `ShapeError` for paths within a limit."""
        from semiring.paths.ties import check_dtype, check_rtol, require_countable

        require_countable(self.semiring)
        check_rtol(rtol)
        kind = check_dtype(dtype)
        if self._is_sparse:
            raise self._missing_paths_error("counts need the paths between all sources and targets")
        if self._answer.all_paths is not None:
            counts = self._answer.all_paths.counts(kind, rtol)
            return counts[..., self.sources[:, np.newaxis], self.targets]
        self._require_bounded(None, None)
        tolerance = self._graph.tolerance(rtol)

        def find(own: SomePaths) -> Array:
            edges = own._graph.select(lambda *_: True)
            counts: Array = own._graph.count_rows(np.asarray(own.sources), edges, kind, tolerance)
            return counts[:, own.targets]

        try:
            return self._ignore_other_cycles(self.sources, self.targets, find)
        except DivergenceError:
            if self._answer.targets is None:
                raise
        # A cycle of weight 1̄ lies on best walks to a vertex that is no target, unless the count of a pair finds one.
        ends = [[self.name(end) for end in some.tolist()] for some in (self.sources, self.targets)]
        pairs = [[self.count(source, target, rtol=tolerance) for target in ends[1]] for source in ends[0]]
        try:
            return np.array(pairs, kind).reshape(self.matrix.shape)
        except OverflowError:
            raise IntegerOverflowError(
                "a pair has more than 2⁶³ best paths: pass dtype='float64', or call count, which has no bound"
            ) from None

    def _ignore_other_cycles(self, sources: Array, targets: Array, find: Callable[[SomePaths], _Found]) -> _Found:
        """Return ``find(self)``. If a cycle prevents it, drop the edges on no walk from a source to a target."""
        from semiring.sparse.edge_inputs import relevant_edges

        try:
            return find(self)
        except DivergenceError:
            relevant = relevant_edges(self._entries, sources, targets)
            if relevant is None:
                raise
        answer = replace(self._answer, edges=relevant.pattern, weights=relevant.values)
        return find(SomePaths(answer, self.semiring, self._vertex_index))

    def _ask_graph(self, source: int, target: int, ask: Callable[[PathGraph], _Found]) -> _Found:
        ends = np.array([source]), np.array([target])
        return self._ignore_other_cycles(*ends, lambda own: ask(own._graph))

    @cached_property
    def _entries(self) -> SparseEntries:
        """The edges in the dtype of the distances."""
        from semiring.paths.ties import host_floats
        from semiring.sparse.edge_inputs import SparseEntries

        edges, values = self._answer.edges, self._answer.weights
        if edges is None or values is None:
            raise DeviceError("the edges are on a GPU: leave out sources= and targets=, or copy the matrix to the host")
        return SparseEntries(edges, host_floats(values), None, Scan())

    def _distances_from(self, vertices: Array) -> Array:
        if self._answer.targets is None and not self._is_sparse and all(v in self._rows for v in vertices.tolist()):
            rows = [self._rows[v] for v in vertices.tolist()]
            return self._with_empty_paths(self.matrix[rows], vertices)
        return self._search_again(vertices, sources=vertices)

    def _distances_to(self, vertex: int) -> Array:
        vertices = np.array([vertex])
        column: Array = self._search_again(vertices, targets=vertices)[0]
        return column

    def _search_again(self, vertices: Array, **ends: Array) -> Array:
        """Return the distances (p, n) from or to some vertices, by another search."""
        from scipy.sparse import csr_array

        edges = self._entries
        pattern = edges.pattern
        graph = csr_array((edges.values, pattern.indices, pattern.starts), shape=(pattern.n, pattern.n))
        found = self._search(graph, self.semiring, check=False, predecessors=False, **ends)
        matrix = to_host_array(found.matrix)
        return self._with_empty_paths(matrix if "sources" in ends else matrix.T, vertices)

    def _direct_edges(self, rtol: float | None) -> SparseEntries:
        raise self._missing_paths_error("the edges that are best paths need the paths between all pairs")

    def _select_pair(self, method: str, source: Any, target: Any) -> tuple[int, int]:
        self._refuse_stack(method)
        row, column = self._find_entry(source, target)
        return int(self.sources[row]), int(self.targets[column])

    def _require_bounded(self, source: int | None, target: int | None) -> None:
        own = ((source, self.sources), (target, self.targets))
        rows, columns = (np.flatnonzero((ends == end) | (end is None)).tolist() for end, ends in own)
        part = self.matrix[rows][:, columns]
        marks = self._mark_unbounded(part.toarray() if self._is_sparse else part)
        if marks is not None and bool(marks.any()):
            i, j = np.argwhere(to_host_array(marks))[0].tolist()
            raise self._unbounded_error(int(self.sources[rows[i]]), int(self.targets[columns[j]]))

    def _evaluate_pairs(self, evaluate: Callable[[list[int]], Any], dtype: Any, none: Any) -> Any:
        """Return a table like the matrix of values of the paths, each a list of vertices; None masks an entry."""
        places = self.matrix.tocoo() if self._is_sparse else None
        if places is None:
            pairs = [(row, column) for row in range(self.sources.size) for column in range(self.targets.size)]
        else:
            pairs = list(zip(places.row.tolist(), places.col.tolist(), strict=True))
        values = []
        for row, column in pairs:
            vertices = self._find_vertices(row, int(self.sources[row]), int(self.targets[column]))
            values.append(evaluate(vertices) if vertices else none)
        is_masked = np.array([value is None for value in values], np.bool_)
        entries = np.array([0 if value is None else value for value in values], dtype)
        if places is not None:
            from scipy.sparse import csr_array

            return csr_array((entries, (places.row, places.col)), shape=self.matrix.shape)
        table = entries.reshape(self.matrix.shape)
        return table if none is not None else np.ma.MaskedArray(table, mask=is_masked.reshape(table.shape))

    @property
    def reachable(self) -> Any:
        """A bool matrix (p, q): whether a path leads there; with a limit sparse, for paths that are no worse."""
        if not self._is_sparse:
            return self.matrix != self.semiring.zero_for(self.matrix.dtype)
        reachable = self.matrix.copy()
        reachable.data = np.ones(reachable.data.size, np.bool_)
        return reachable

    def eccentricity(self, vertex: Any = None) -> Any:
        """Return the worst of the best paths from each source, (p,), or from one source, as in `Paths`.

        Raises `ShapeError` unless these are paths to all vertices without a limit.
        """
        self._refuse_stack("eccentricity")
        if self._answer.targets is not None or self._is_sparse:
            raise self._missing_paths_error("an eccentricity needs the paths to all vertices")
        worst = (
            self._replace_no_paths(farthest_entries(self.matrix, self.semiring))
            if self.matrix.size
            else self.matrix[:, 0]
        )
        return worst if vertex is None else worst[self._find_row(vertex)]

    def _missing_paths_error(self, reason: str) -> ShapeError:
        limit = "" if self._answer.limit is None else f" within {self._answer.limit}"
        p, q = self.matrix.shape[-2:]
        return ShapeError(
            f"{reason}, and these are the paths from {p:,} sources to {q:,} targets{limit}: compute all paths, or call "
            "semiring.factor(A).rows(reduce=...)"
        )

    def _reject_all_pairs(self) -> Any:
        raise self._missing_paths_error("this property needs the paths between all pairs")

    diameter: Any = property(_reject_all_pairs)
    radius: Any = property(_reject_all_pairs)
    center: Any = property(_reject_all_pairs)
    periphery: Any = property(_reject_all_pairs)
    mean_distance: Any = property(_reject_all_pairs)


def _first_positions(vertices: Array) -> dict[int, int]:
    """Return the first position of each vertex."""
    places: dict[int, int] = {}
    for place, vertex in enumerate(vertices.tolist()):
        places.setdefault(vertex, place)
    return places
