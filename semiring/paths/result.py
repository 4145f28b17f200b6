"""Hold the distances and best paths between all pairs of vertices: `Paths`, the result of the functions of paths."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.advice import fewer_paths_advice
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, min_plus
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.algorithms.predecessors import search_closure
from semiring.algorithms.stored_paths import follow_edges
from semiring.arguments import check_flags, require_integer
from semiring.arrays.bits import BitMatrix
from semiring.arrays.folds import farthest_entries, fold_rows
from semiring.arrays.labels import is_frame, make_frame
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_array, as_matrix, as_square_matrices, result_converter
from semiring.arrays.parts import pieces, to_host_array
from semiring.arrays.sparse import check_sparse, is_sparse
from semiring.arrays.vertices import Vertices
from semiring.errors import (
    AlgebraError,
    DeviceError,
    DivergenceError,
    NegativeCycleError,
    NoPathError,
    SemiringError,
    ShapeError,
)
from semiring.io.files import is_npy_name
from semiring.io.network import Network
from semiring.kernels import backend_for
from semiring.kernels.contract import Facts, KernelPlan, has_operation
from semiring.kernels.nearest_trees import nearest_tree, path_sums
from semiring.kernels.tolerance import tolerance_for
from semiring.namespaces import array_namespace, is_device_array
from semiring.paths.pair_queries import PairQueries
from semiring.thread_counts import get_threads

if TYPE_CHECKING:
    from semiring.paths.ties import PathGraph
    from semiring.sparse.edge_inputs import SparseEntries

__all__ = ["Paths"]

_ENTRIES = 1 << 22  # truth values that are read at a time

Array: TypeAlias = NDArray[Any]
Result = TypeVar("Result")


def _run_on_own_device(method: Callable[..., Result]) -> Callable[..., Result]:
    """Make a method run on the GPU of the matrix, if there is one, and on the current stream of its library."""

    @wraps(method)
    def call(self: Paths, *arguments: Any, **options: Any) -> Result:
        if not is_device_array(self._distances):
            return method(self, *arguments, **options)
        from semiring.arrays.device import activate_device

        with activate_device([self.matrix if is_device_array(self.matrix) else self._distances]):
            return method(self, *arguments, **options)

    return call


class Paths(PairQueries):
    """The best paths between all pairs of n vertices, which are numbered 0 … n - 1 or have names.

    The functions of paths return one. A constructor call makes paths from a closure, with the predecessors, or with
    data from which paths are found. The first four parameters are also attributes.

    The paths of a stack (..., n, n) of graphs are one object, too. ``paths[index]`` is the `Paths` of one matrix, whose
    arrays are views where possible. Methods of vertices and pairs need one matrix, and refuse a stack.

    Parameters
    ----------
    matrix : array, shape (..., n, n)
        The weight of a best path from i to j, the semiring's zero if there is none.
    semiring : Semiring
        The semiring that combines the weights along a path (⊗) and compares paths (⊕).
    predecessors : array of int32, shape (..., n, n), or None
        ``predecessors[i, j]`` is the vertex before j on the path from i to j. It is -9999 if there is no path, and on
        the diagonal, as in `scipy.sparse.csgraph`.
    names : iterable, or None
        n names of the vertices, which the graphs of a stack share. The attribute is a tuple, or None.
    weights : matrix, shape (..., n, n), str or None
        The edges, for paths without ``predecessors``. They are not copied. If the matrix and the weights are memory
        maps, or the names of .npy files, a path reads some rows of both for each of its edges.

    Raises
    ------
    ShapeError
        If the matrix is not square, or the names or the weights do not fit it.

    Notes
    -----
    The matrix and the predecessors may be on a GPU. Then a path copies the n numbers of its row to the host, once for
    each source. Properties of all pairs are computed on the GPU.
    """

    _is_stored = False  # whether the matrix and the weights are memory maps of files
    _is_undirected = False  # whether `update` changes both directions of an edge by default
    _closed_graph: Any = None  # what `update` knows of the edges
    _shares_arrays = False  # whether other paths have the same arrays, so that `update` copies them

    def __init__(
        self,
        matrix: Any,
        semiring: Semiring,
        predecessors: Array | None = None,
        *,
        names: Iterable[Hashable] | None = None,
        weights: Any = None,
    ) -> None:
        self._is_reflexive, semiring = True, as_semiring(semiring)
        matrix, weights = (np.load(each, mmap_mode="r") if is_npy_name(each) else each for each in (matrix, weights))
        self.matrix, self.semiring, self.predecessors = matrix, semiring, predecessors
        self._distances = as_square_matrices(matrix, semiring)
        self._weights = weights
        self._trees: dict[int, Array] = {}
        self._vertex_index = Vertices(self.count_of_vertices, names)
        self.names = self._vertex_index.names
        self._is_stored = isinstance(matrix, np.memmap) and isinstance(weights, np.memmap)
        if self._is_stored and weights.shape != self._distances.shape:
            raise ShapeError(f"the matrix is {self._distances.shape}, and its weights are {weights.shape}")

    def __getattr__(self, name: str) -> Any:
        if name == "explanation":  # only `SomePaths` compare methods
            raise AttributeError(
                "paths between all pairs have no explanation: pass explain=True, which returns (paths, explanation). "
                "Paths with sources=, targets= or limit= have one"
            )
        if "_is_invalid" in vars(self) and name[:2] != "__":
            raise ValueError("an update of these paths was interrupted, so they are not valid: compute them again")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self) -> int:
        """Return the number of vertices, or of a stack the size of its first axis."""
        return int(self._distances.shape[0])

    @property
    def count_of_vertices(self) -> int:
        """The number n of vertices of the graph, or of each graph of a stack."""
        return int(self._distances.shape[-1])

    @property
    def _is_stack(self) -> bool:
        return len(self._distances.shape) > 2

    def _refuse_stack(self, name: str) -> None:
        """Raise `ShapeError` if these are paths of a stack, which the method or property ``name`` does not support."""
        if self._is_stack:
            stack = self._distances.shape[:-2]
            first = ", ".join("0" * len(stack))
            raise ShapeError(
                f"{name} is about one matrix, and these are the paths of a stack of shape {stack}: select a matrix, "
                f"such as paths[{first}].{name}"
            )

    def __getitem__(self, index: Any) -> Paths:
        """Return the paths of one matrix of a stack, or of a part of the stack.

        Parameters
        ----------
        index : int, slice, or tuple of int or slice
            The index in the axes of the stack.

        Returns
        -------
        Paths
            The paths. Their arrays are views of these arrays, as NumPy's rules of indexing say, until `update` changes
            them. An update of a part does not change the stack.

        Raises
        ------
        TypeError
            If these are the paths of one matrix.
        IndexError
            If the index is out of range, or has more entries than the stack has axes.
        """
        key = self._stack_key(index)
        matrix, trees = (None if each is None else each[key] for each in (self.matrix, self.predecessors))
        weights = None if self._weights is None else as_square_matrices(self._weights, self.semiring)[key]
        part = Paths(matrix, self.semiring, trees, names=self.names, weights=weights)
        part._is_reflexive = self._is_reflexive
        part._shares_arrays = True
        return part

    def __copy__(self) -> Paths:
        result = object.__new__(type(self))
        self._shares_arrays, self._closed_graph = True, None
        vars(result).update(vars(self))
        return result

    def _stack_key(self, index: Any) -> tuple[Any, ...]:
        """Return the index of matrices in an array (..., n, n). Raises `TypeError` and `IndexError`."""
        if not self._is_stack:
            raise TypeError("these are the paths of one matrix, which have no index: call distance(i, j) or path(i, j)")
        key, axes = index if isinstance(index, tuple) else (index,), len(self._distances.shape) - 2
        if len(key) - (Ellipsis in key) > axes:
            raise IndexError(f"the index has {len(key)} entries, and the stack has {axes} axes")
        return (*key, slice(None), slice(None))

    @_run_on_own_device
    def __repr__(self) -> str:
        n = self.count_of_vertices
        if self._is_stored:  # the files are not read here
            return f"<Paths of {n} vertices in {self.semiring.name}, {self._distances.dtype}: of files>"
        predecessor_text = "with predecessors" if self.predecessors is not None else "without predecessors"
        stack = self._distances.shape[:-2]
        diagonal = self.reachable.diagonal(0, len(stack), len(stack) + 1)
        connected = int(self.reachable.sum()) - int(diagonal.sum())
        vertices = f"{n} {'vertex' if n == 1 else 'vertices'}"
        graphs = f"{' × '.join(map(str, stack))} graphs of " if stack else ""
        return (
            f"<Paths of {graphs}{vertices} in {self.semiring.name}, {self._distances.dtype}: "
            f"{connected:,} of {prod(stack) * n * (n - 1):,} pairs connected, {predecessor_text}>"
        )

    def _repr_html_(self) -> str | None:
        """Return the first rows and columns as HTML for a notebook; None for a stack, which prints its `repr`."""
        from semiring.terminal import html_matrix

        if self._is_stack:
            return None

        return html_matrix(repr(self), to_host_array(self._distances), *self._axis_names)

    @property
    def _axis_names(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The names of the rows and of the columns of the matrix."""
        names = range(self.count_of_vertices) if self.names is None else list(self.names)
        return names, names

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix of the paths, so that ``numpy.asarray(paths)`` is an array of numbers."""
        if is_sparse(self._distances):
            raise TypeError("paths with limit= are a sparse matrix, where 0 is a distance: take .matrix")
        matrix = np.asarray(to_host_array(self._distances), dtype)
        return matrix.copy() if copy and np.may_share_memory(matrix, self._distances) else matrix

    def to_frame(self) -> Any:
        """Return the matrix as a frame of pandas.

        Returns
        -------
        pandas.DataFrame
            The weights (n, n), with the names of the vertices as labels.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        self._refuse_stack("to_frame")
        return make_frame(to_host_array(self._distances), *self._axis_names)

    def _as_network(self) -> Network:
        """Return the matrix with the names of its vertices, for `semiring.write`."""
        self._refuse_stack("write")
        return Network(to_host_array(self._distances), self.names, semiring=self.semiring)

    def plot(self, source: Any = None, target: Any = None) -> Any:
        """Draw the network, with the path from one vertex to another.

        Parameters
        ----------
        source, target : vertex, or None
            The ends of the path, by number or name. The figure shows a path if both are given. With a source,
            vertices are coloured by the distance from it.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, which `semiring.plot.save` writes to a file.

        Raises
        ------
        NoPathError
            If no path leads from the source to the target.
        VertexError
            If one of them is not a vertex.
        AlgebraError
            If these paths hold no edges.
        MissingExtraError
            If matplotlib or NetworkX is not installed.
        """
        from semiring.plot import plot_network

        self._refuse_stack("plot")
        network = Network(to_host_array(self._plan_and_weights[1]), self.names, semiring=self.semiring)
        path = [] if source is None or target is None else self.path(source, target)
        values = None if source is None else self._select_distances(source)
        return plot_network(network, self.semiring, path=path, values=values)

    def _select_distances(self, source: Any) -> Array | None:
        """Return the distances (n,) from a vertex."""
        row: Array = to_host_array(self._distances[self.index(source)])
        return row

    # ------------------------------------------------------------------------------------------------- vertices

    def index(self, vertex: Any) -> int:
        """Return the number of a vertex.

        Parameters
        ----------
        vertex : object
            A name or a number. If some names are integers or texts of integers, as in a file, a vertex must be given by
            name. Then 7 is the vertex 7, or else the vertex "7".

        Returns
        -------
        int
            The number, 0 … n - 1.

        Raises
        ------
        VertexError
            If there is no such vertex.
        """
        return self._vertex_index.index(vertex)

    def name(self, vertex: int) -> Any:
        """Return the name of a vertex.

        Parameters
        ----------
        vertex : int
            The number of the vertex.

        Returns
        -------
        object
            The name, or the number if vertices have no names.
        """
        place = require_integer(vertex, "the number of a vertex")
        return place if self.names is None else self.names[place]

    # ---------------------------------------------------------------------------------------------------- paths

    @_run_on_own_device
    def distance(self, source: Any, target: Any) -> Any:
        """Return the weight of the best path from one vertex to another.

        Parameters
        ----------
        source, target : vertex
            The ends of the path, by number or name.

        Returns
        -------
        NumPy scalar
            The weight in the dtype of the matrix. If there is no path, it is the semiring's zero. For signed integers
            this zero is returned as a float: ∞ in min-plus, not the greatest integer.

        Raises
        ------
        VertexError
            If one of them is not a vertex.
        """
        self._refuse_stack("distance")
        return self._replace_no_paths(to_host_array(self._distances[self.index(source), self.index(target)])[()])

    def path(self, source: Any, target: Any) -> list[Any]:
        """Return the vertices of a best path.

        Parameters
        ----------
        source, target : vertex
            The ends of the path, by number or name.

        Returns
        -------
        list
            The vertices, both ends included, by name if they have names. The path from a vertex to itself is
            ``[source]``. With ``transitive_closure(reflexive=False)`` it is a cycle.

        Raises
        ------
        NoPathError
            If there is no path.
        NegativeCycleError
            With ``on_cycle="unbounded"``, if walks improve without end, also from a vertex to itself.
        VertexError
            If one of the ends is not a vertex.
        AlgebraError
            If these paths have neither predecessors nor weights.
        ValueError
            If the weights or the predecessors were changed, and contradict the distances.

        Notes
        -----
        The cost is O(length). Without predecessors the first path from a source runs one search from it, O(n²), whose
        result is kept. A path of a matrix in a file reads a row of the weights for each edge, and if it has more than
        64 entries, a row of the matrix too. Edges that leave the distance as it is, such as those of weight 0, may need
        a column of the matrix, or a search of the whole row.
        """
        self._refuse_stack("path")
        i, j = self.index(source), self.index(target)
        if i == j and self._is_unbounded((i, j)):
            raise self._unbounded_error(i, j)
        vertices = self._follow_edges(i, j)
        if vertices is None:
            vertices = self._trace(self._find_tree(i), i, j) if self._is_reflexive or i != j else self._find_cycle(i)
        if vertices is None:
            raise self._no_path(i, j)
        return [self.name(vertex) for vertex in vertices]

    def _find_numbers(self, source: int, target: int) -> list[int]:
        """Return the vertices of a best path, or an empty list; for paths whose vertices have no names."""
        try:
            return [int(vertex) for vertex in self.path(source, target)]
        except NoPathError:
            return []

    def _no_path(self, i: int, j: int, place: tuple[int, int] | None = None, where: str = "") -> SemiringError:
        """Return the error for a pair without a path. ``place``: of its weight in the matrix, if it is not (i, j)."""
        if self._is_unbounded((i, j) if place is None else place):
            return self._unbounded_error(i, j)
        return NoPathError(f"no path{where} leads from {self.name(i)} to {self.name(j)}")

    def _is_unbounded(self, place: tuple[int, int]) -> bool:
        """Return whether the walks of the pair of an entry improve without end."""
        marks = self._mark_unbounded(np.array([to_host_array(self._distances[place])]))
        return marks is not None and bool(marks[0])

    def _mark_unbounded(self, distances: Any) -> Any | None:
        """Return a mask of the distances of walks that improve without end, or None if there can be none."""
        if self.semiring.tropical is None or is_sparse(distances):
            return None
        if not isinstance(distances.dtype, np.dtype):  # a tensor
            distances = to_host_array(distances)
        if not is_floating(distances.dtype):
            return None
        return distances == -self.semiring.zero_for(distances.dtype)

    def _unbounded_error(self, i: int, j: int) -> NegativeCycleError:
        kind = "longest" if self.semiring.tropical == "max" else "shortest"
        return NegativeCycleError(
            f"walks from {self.name(i)} to {self.name(j)} improve without end over a cycle, so there is no {kind} path"
        )

    @_run_on_own_device
    def _find_cycle(self, i: int) -> list[int] | None:
        """Return the vertices of a cycle through i, with i at both ends."""
        weights, tree = self._plan_and_weights[1], self._find_tree(i)
        lasts = np.flatnonzero(to_host_array(weights[:, i] != self.semiring.zero_for(weights.dtype)))
        paths = (self._trace(tree, i, int(last)) for last in lasts)
        return next(([*path, i] for path in paths if path is not None), None)

    @_run_on_own_device
    def without_empty_paths(self) -> Paths:
        """Restrict paths of truth values to those of at least one edge, so a vertex reaches itself only by a cycle.

        Returns
        -------
        Paths
            These paths, whose matrix is changed in place.

        Raises
        ------
        AlgebraError
            If these paths have no weights.
        """
        if self._is_stack:
            for index in np.ndindex(self._distances.shape[:-2]):
                self[index].without_empty_paths()
            self._is_reflexive = False
            return self
        D, edges = self._distances, self._weights
        packed, sparse = isinstance(edges, BitMatrix), is_sparse(edges)
        if sparse:
            check_sparse(edges)
        weights = edges.tocsr() if sparse else edges if packed else self._plan_and_weights[1]
        for rows in pieces(D, _ENTRIES):  # each piece reads only its own part of the diagonal
            part = weights[rows].toarray() if sparse else weights[rows].unpack() if packed else weights[rows]
            vertices = array_namespace(D).arange(rows.start, rows.stop)
            D[vertices, vertices] = (part & D[:, rows].T).any(axis=1)
        self._is_reflexive = False
        return self

    def paths_from(self, source: Any) -> dict[Any, list[Any]]:
        """Return the paths from one vertex to all vertices that it reaches.

        Parameters
        ----------
        source : vertex
            The vertex where the paths begin, by number or name.

        Returns
        -------
        dict of vertex to list
            The paths by their ends, as `path` returns them. The path to the source itself has one vertex:
            ``{source: [source], ...}``.

        Raises
        ------
        VertexError
            If the source is not a vertex.
        AlgebraError
            If these paths have neither predecessors nor weights.
        """
        self._refuse_stack("paths_from")
        i = self.index(source)
        tree = self._find_tree(i)
        ends = [j for j in range(len(self)) if j != i or not self._is_unbounded((i, i))]
        walks = ((j, self._trace(tree, i, j) if self._is_reflexive or i != j else self._find_cycle(i)) for j in ends)
        return {self.name(j): [self.name(v) for v in vertices] for j, vertices in walks if vertices is not None}

    @_run_on_own_device
    def to_array(self, length: int | None = None) -> tuple[Any, Any]:
        """Return the vertices of all paths as one array, padded with -1.

        Parameters
        ----------
        length : int, optional
            The number L of vertices for which the array has room. By default it is that of the longest path.

        Returns
        -------
        vertices : array of int32, shape (..., n, n, L)
            The numbers of the vertices of the path from i to j, both ends included, also if vertices have names. A path
            to the vertex itself is ``[i]``. A pair without a path has -1 alone.
        lengths : array of int32, shape (..., n, n)
            The number of vertices of each path: 1 on the diagonal, 0 without a path.

        Raises
        ------
        ShapeError
            If the longest path has more than ``length`` vertices.
        AlgebraError
            If these paths have neither predecessors nor weights, or if paths without an edge were excluded.
        TooLargeError
            If the arrays do not fit into memory, which is checked first.
        ValueError
            If the predecessors were changed, and lead in a cycle.

        Notes
        -----
        With ``sources``, and perhaps ``targets``, the shapes are (..., p, q, L) and (..., p, q). The arrays are of the
        library of the predecessors, on their device. The cost is that of writing the result. Without predecessors a
        search for those of all pairs runs first, which are kept: 4 n² bytes.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> vertices, lengths = sr.shortest_paths([[inf, 1.0, 5.0], [inf, inf, 1.0], [inf, inf, inf]]).to_array()
        >>> vertices[0].tolist(), lengths[0].tolist()
        ([[0, -1, -1], [0, 1, -1], [0, 1, 2]], [1, 2, 3])
        """
        everything = np.arange(self.count_of_vertices, dtype=np.int32)
        return self._list_vertices(everything, None, length)

    def _list_vertices(self, sources: Array, targets: Array | None, length: int | None) -> tuple[Any, Any]:
        """Return the result of `to_array` for some sources and targets."""
        from semiring.paths.vertex_arrays import list_vertices

        if not self._is_reflexive:
            raise AlgebraError(
                "to_array lists the path from a vertex to itself as the vertex alone, and reflexive=False excludes it: "
                "compute the paths with reflexive=True"
            )
        trees = self._all_trees(sources)
        vertices, lengths = list_vertices(trees, sources, targets, length)
        marks = self._mark_unbounded(self._distances)
        if marks is not None and bool(marks.any()):
            marks = array_namespace(lengths).asarray(marks)
            vertices[marks], lengths[marks] = -1, 0
        back = result_converter(self.matrix if self.predecessors is None else self.predecessors)
        return back(vertices), back(lengths)

    def _all_trees(self, sources: Array) -> Any:
        """Return the predecessors (..., p, n) of all sources, an array of NumPy or CuPy."""
        if self.predecessors is not None:
            return as_array(self.predecessors, min_plus, np.int32, name="predecessors")
        xp = array_namespace(self._distances)
        if self._is_stack:
            shape = *self._distances.shape[:-2], sources.size, self.count_of_vertices
            trees = [self[index]._all_trees(sources) for index in np.ndindex(shape[:-2])]
            return xp.stack(trees).reshape(shape) if trees else xp.empty(shape, np.int32)
        found = None if self._is_stored else self._searched_trees
        if found is not None:
            return found if np.array_equal(sources, np.arange(len(found))) else found[xp.asarray(sources)]
        return xp.asarray(np.stack([self._find_tree(int(i)) for i in sources]) if sources.size else np.empty((0, 0)))

    @cached_property
    def _searched_trees(self) -> Any | None:
        """The predecessors (n, n) int32 of paths without them, by one search for all pairs, or None if it fails.

        They contain those of the sources that were searched before.
        """
        plan, weights = self._plan_and_weights
        n, D = self.count_of_vertices, self._distances
        demand_memory(4 * n * n, f"the predecessors of {n:,} vertices", fewer_paths_advice())
        xp, marks = array_namespace(D), self._mark_unbounded(D)
        has_marks = marks is not None and bool(marks.any())
        if has_marks or bool((D.diagonal() != plan.one).any()):
            D = D.copy()
            if has_marks:  # walks that improve without end are no paths
                D[marks] = plan.zero
            xp.fill_diagonal(D, plan.one)
        found = search_closure(self.semiring, D, weights, get_threads())
        if found is not None:
            for source, tree in self._trees.items():
                found[source] = xp.asarray(tree)
        return found

    def _follow_edges(self, source: int, target: int) -> list[int] | None:
        """Return the vertices of a path through files; None if the matrix is in memory, or the search fails.

        Raises `NoPathError`.
        """
        distances = self._distances
        if not self._is_stored or self.predecessors is not None or source in self._trees:
            return None
        if source == target:
            return [source] if self._is_reflexive else None
        if distances[source, target] == self.semiring.zero_for(distances.dtype):
            raise self._no_path(source, target)
        plan, weights = self._plan_and_weights
        return follow_edges(plan, distances, weights, source, target)

    def _trace(self, tree: Array, source: int, target: int) -> list[int] | None:
        vertices = [target]
        while vertices[-1] != source:
            before = int(tree[vertices[-1]])
            if before < 0:
                return None
            if len(vertices) >= len(self):
                raise ValueError(f"the predecessors of row {source} lead in a cycle: {vertices[:8]} …")
            vertices.append(before)
        return vertices[::-1]

    def _find_tree(self, source: int) -> Array:
        """Return the row of predecessors of one source."""
        if self.predecessors is not None and not is_device_array(self.predecessors):
            row: Array = self.predecessors[source]
            return row
        if source not in self._trees:
            searched = vars(self).get("_searched_trees")
            if self.predecessors is not None:
                self._trees[source] = self._row_on_host(source)
            elif searched is not None:
                self._trees[source] = to_host_array(searched[source])
            else:
                self._trees[source] = self._search_tree(source)
        return self._trees[source]

    @_run_on_own_device
    def _row_on_host(self, source: int) -> Array:
        from semiring.arrays.device import as_cupy, to_host

        return to_host(as_cupy(self.predecessors)[source])

    @cached_property
    @_run_on_own_device
    def _plan_and_weights(self) -> tuple[KernelPlan, Any]:
        if self._weights is None:
            raise AlgebraError(
                "these Paths have neither predecessors nor weights, so they have no paths: compute them with "
                "predecessors=True"
            )
        self._refuse_stack("path")
        n, dtype, semiring = len(self), self._distances.dtype, self.semiring
        if is_sparse(self._weights) or isinstance(self._weights, BitMatrix):
            demand_memory(n * n * dtype.itemsize, f"the array of the edges of {n:,} vertices", fewer_paths_advice())
        weights = as_matrix(self._weights, semiring, dtype)
        # The weights in a file are not read as a whole.
        nonnegative = not self._is_stored and is_floating(dtype) and bool((weights >= 0).all())
        zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
        return KernelPlan(semiring, dtype, zero, one, Facts(nonnegative)), weights

    def _search_tree(self, source: int) -> Array:
        plan, weights = self._plan_and_weights
        if is_device_array(weights):
            return self._search_tree_on_device(plan, weights, source)
        distances = self._distances[source].copy()
        marks = self._mark_unbounded(distances)
        if marks is not None:  # walks that improve without end are no paths
            distances[marks] = plan.zero
        distances[source] = plan.one
        tolerance = tolerance_for(plan, self._distances)
        tree = nearest_tree(plan, weights, distances, source, tolerance)
        if not tolerance.meets(path_sums(plan, weights, tree, source), distances).all():
            raise ValueError(
                f"the paths from vertex {source} do not add up to their distances, as the weights were changed: "
                "compute the paths again"
            )
        return tree

    @_run_on_own_device
    def _search_tree_on_device(self, plan: KernelPlan, weights: Any, source: int) -> Array:
        distances, tolerance = self._distances, tolerance_for(plan, self._distances)
        if plan.dtype.name == "bfloat16":
            distances, weights = distances.astype(np.float32), weights.astype(np.float32)
            plan = replace(plan, dtype=weights.dtype)
        backend = backend_for(weights, self.semiring, weights.dtype)
        search = backend.capabilities.paths
        if search is None or not has_operation(search, "find_tree"):
            raise DeviceError(f"the {backend.name} backend finds no paths of a single source: pass predecessors=True")
        tree: Array = to_host_array(search.find_tree(plan, distances, weights, tolerance, source))
        return tree

    # -------------------------------------------------------------------------------------------- along the paths

    @_run_on_own_device
    def hops(self) -> Any:
        """Return the number of edges of the path of each pair.

        Returns
        -------
        array of int32, shape (..., n, n)
            The number of edges of `path`, -1 if there is no path, and 0 from a vertex to itself. With ``sources`` or
            ``targets`` it is (p, q). With a limit it is a sparse matrix with the entries of ``matrix``.

        Raises
        ------
        AlgebraError
            If these paths have neither predecessors nor weights.
        ValueError
            If the predecessors were changed, and lead in a cycle.

        Notes
        -----
        The cost is one pass over the n² predecessors. Paths without predecessors search those of all pairs first, and
        keep them: 4 n² bytes.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> sr.shortest_paths([[inf, 7, 1], [inf, inf, inf], [inf, 2, inf]]).hops()
        array([[ 0,  2,  1],
               [-1,  0, -1],
               [-1,  1,  0]], dtype=int32)
        """
        from semiring.paths.vertex_arrays import count_path_vertices

        sources = np.arange(self.count_of_vertices, dtype=np.int32)
        trees = self._all_trees(sources)
        stack = (prod(trees.shape[:-2]), *trees.shape[-2:])
        counts, _ = count_path_vertices(trees.reshape(stack), sources, None)
        edges = counts.reshape(trees.shape)
        edges -= 1
        for vertex, cycle in self._cycles():
            edges[(*vertex, vertex[-1])] = len(cycle) - 1
        return edges

    @_run_on_own_device
    def total(self, W: Any, operation: str = "sum") -> Any:
        """Fold another weight of the edges along the path of each pair: the toll of the shortest path, for example.

        Parameters
        ----------
        W : array_like, shape (n, n) or (..., n, n)
            A number for each edge: an array, a SciPy sparse matrix whose missing entries are 0, or a square frame,
            whose labels are matched with the names. A stack may have a matrix for each graph. Entries that are no edge
            of a path are not read.
        operation : str, default "sum"
            ``"sum"``, ``"product"``, ``"min"`` or ``"max"`` of the weights of the edges of `path`.

        Returns
        -------
        array, shape (..., n, n)
            The results, of the dtype of W: int64 for integers and truth values, float32 for float16. Sums of floats are
            rounded once, from float64. Where there is no path, floats are NaN, and integers are a masked array. From a
            vertex to itself the sum is 0, the product 1, and there is no least or greatest weight. With ``sources`` or
            ``targets`` it is (p, q). With a limit it is a sparse matrix with the entries of ``matrix``.

        Raises
        ------
        ShapeError, DTypeError, UnknownNameError
            If W has another shape, or no numbers, or there is no such operation.
        DomainError
            If W is NaN at an edge of a path, or the result is NaN, such as ∞ - ∞.
        IntegerOverflowError
            If a sum or product of integers, of their absolute values, does not fit int64.
        AlgebraError, ValueError
            As in `hops`.

        Notes
        -----
        The cost is one pass over the n² predecessors. Of several best paths it is the path that `path` returns.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> found = sr.shortest_paths([[inf, 7, 1], [inf, inf, inf], [inf, 2, inf]])
        >>> found.total([[0, 5.0, 3.0], [0, 0, 0], [0, 4.0, 0]])
        array([[ 0.,  7.,  3.],
               [nan,  0., nan],
               [nan,  4.,  0.]])
        """
        from semiring.paths.along_paths import fold_vertices, fold_weights, read_weights

        weights = read_weights(W, self.count_of_vertices, self.names, operation, stack=self._distances.shape[:-2])
        sources = np.arange(self.count_of_vertices, dtype=np.int32)
        trees = self._all_trees(sources)
        if is_device_array(trees) != is_device_array(weights):
            weights = array_namespace(trees).asarray(to_host_array(weights))
        result = fold_weights(trees, sources, weights, operation)
        for vertex, cycle in self._cycles():
            value = fold_vertices(cycle, weights, operation) if cycle else np.nan
            is_masked = value != value and isinstance(result, np.ma.MaskedArray)
            result[(*vertex, vertex[-1])] = np.ma.masked if is_masked else value
        return result

    def _cycles(self) -> list[tuple[tuple[int, ...], list[int]]]:
        """Return the vertices whose path to themselves is not the empty one, with a cycle, or [] without a path.

        Those are all vertices where paths have at least one edge, and the vertices on a cycle that improves without
        end. A vertex is an index (..., v) of the stack and of the vertex.
        """
        axes = len(self._distances.shape)
        own = to_host_array(self._distances.diagonal(0, axes - 2, axes - 1))
        if not self._is_reflexive:
            reached = zip(np.ndindex(own.shape), own.reshape(-1).tolist(), strict=True)
            return [(index, (is_reached and self._find_cycle(index[-1])) or []) for index, is_reached in reached]
        is_open = own != self.semiring.one_for(own.dtype)
        return [(tuple(index), []) for index in np.argwhere(is_open).tolist()]

    @_run_on_own_device
    def counts(self, dtype: Any = "int64", rtol: float | None = None) -> Any:
        """Return the number of best paths of all pairs.

        Parameters
        ----------
        dtype : dtype, default "int64"
            ``"int64"`` or ``"float64"``, which rounds numbers above 2⁵³.
        rtol : float, optional
            The relative difference within which sums of floats are equal, as in `count`.

        Returns
        -------
        array, shape (..., n, n)
            The numbers, 0 for no path and 1 on the diagonal, an array of NumPy. With ``sources`` or ``targets`` it is
            (p, q).

        Raises
        ------
        IntegerOverflowError
            If a number does not fit int64.
        DTypeError
            For another dtype.
        AlgebraError, DivergenceError, ShapeError, TypeError, ValueError
            As in `count`. Paths within a limit have no counts.

        Notes
        -----
        The cost is one pass over the edges that are themselves best paths, for each source.

        Examples
        --------
        >>> import semiring as sr
        >>> inf = float("inf")
        >>> sr.shortest_paths([[inf, 1, 1, inf], [inf, inf, inf, 1], [inf, inf, inf, 1], [inf] * 4]).counts()
        array([[1, 1, 1, 2],
               [0, 1, 0, 1],
               [0, 0, 1, 1],
               [0, 0, 0, 1]])
        """
        from semiring.paths.ties import check_dtype, check_rtol, require_countable

        require_countable(self.semiring)
        check_rtol(rtol)
        kind = check_dtype(dtype)
        if self._is_stack:
            stack = self._distances.shape[:-2]
            parts = [self[index].counts(kind, rtol) for index in np.ndindex(stack)]
            return np.array(parts, kind).reshape(self._distances.shape)
        graph, everything = self._graph, np.arange(self.count_of_vertices)
        tolerance = graph.tolerance(rtol)
        edges = self._direct_edges(max(tolerance, graph.default_rtol()))
        return graph.count_rows(everything, edges, kind, tolerance)

    # ---------------------------------------------------------------------------------------- ties and ranked paths

    @cached_property
    @_run_on_own_device
    def _graph(self) -> PathGraph:
        from semiring.paths.ties import PathGraph

        ends = self._distances_from, self._distances_to
        return PathGraph(self.semiring, self._entries, *ends, self.name, self._default_rtol)

    @property
    def _entries(self) -> SparseEntries | Array:
        """The edges in the dtype of the distances, on the host."""
        from semiring.paths.ties import host_floats
        from semiring.sparse.edge_inputs import edges_of

        if not is_sparse(self._weights):
            return host_floats(self._plan_and_weights[1])
        edges = edges_of(self._weights, self.semiring, self._distances.dtype, check=False)
        return replace(edges, values=host_floats(edges.values))

    @_run_on_own_device
    def _distances_from(self, vertices: Array) -> Array:
        """Return the distances (p, n) from some vertices, on the host."""
        rows = array_namespace(self._distances).asarray(vertices)
        return self._with_empty_paths(self._distances[rows], vertices)

    @_run_on_own_device
    def _distances_to(self, vertex: int) -> Array:
        """Return the distances (n,) to a vertex, on the host."""
        column: Array = self._with_empty_paths(self._distances[:, vertex][np.newaxis], np.array([vertex]))[0]
        return column

    def _with_empty_paths(self, rows: Any, vertices: Array) -> Array:
        """Return rows of distances on the host as `host_floats`, with 1̄ from each of the vertices to itself."""
        from semiring.paths.ties import host_floats

        distances: Array = np.array(host_floats(rows))
        distances[np.arange(vertices.size), vertices] = self.semiring.one_for(distances.dtype)
        return distances

    @_run_on_own_device
    def _direct_edges(self, rtol: float | None) -> SparseEntries:
        from semiring.paths.ties import host_floats

        self._require_bounded(None, None)
        return self._graph.direct_edges(host_floats(self._distances), self._graph.tolerance(rtol))

    def _default_rtol(self) -> float:
        """Return the rounding of two sums along the longest best path, relative to their size; 0 where ⊗ is exact."""
        dtype = self._distances.dtype
        if tolerance_for(KernelPlan(self.semiring, dtype, 0, 0), np.empty((2, 2), dtype)).is_exact:
            return 0.0
        return float(float_limits(dtype).eps) * self._longest if is_floating(dtype) else 0.0

    @cached_property
    @_run_on_own_device
    def _longest(self) -> int:
        """The number of edges of the longest best path, or a bound of it."""
        if self.predecessors is None or not self._is_reflexive:
            return max(1, self.count_of_vertices)
        hops = self.hops()
        return max(1, int(hops.max())) if hops.size else 1

    def _select_pair(self, method: str, source: Any, target: Any) -> tuple[int, int]:
        self._refuse_stack(method)
        return self.index(source), self.index(target)

    @_run_on_own_device
    def _require_bounded(self, source: int | None, target: int | None) -> None:
        rows, columns = (slice(None) if end is None else slice(end, end + 1) for end in (source, target))
        marks = self._mark_unbounded(self._distances[rows, columns])
        if marks is not None and bool(marks.any()):
            i, j = np.argwhere(to_host_array(marks))[0].tolist()
            raise self._unbounded_error(i + (source or 0), j + (target or 0))

    # --------------------------------------------------------------------------------------------------- changes

    @_run_on_own_device
    def update(self, tails: Any, heads: Any, weights: Any, *, directed: bool | None = None) -> int:
        """Change edges, and with them the distances and the paths, in place.

        Parameters
        ----------
        tails, heads : sequence of vertices, or vertex
            The ends of the edges tails[e] → heads[e], k vertices each, by number or name.
        weights : sequence of scalar, or scalar
            The k new weights, or one for all edges. A weight replaces that of the edge, better or worse; the zero of
            the semiring, ∞ in min-plus, removes the edge.
        directed : bool, optional
            False changes both directions of each edge. The default is the direction of the graph.

        Returns
        -------
        int
            The number of pairs whose distance changes.

        Raises
        ------
        NegativeCycleError, DivergenceError
            If a new weight makes a cycle that improves without end. Nothing is changed.
        AlgebraError
            If these paths have no weights, or are those of ``reflexive=False`` or of some sources or targets.
        ShapeError
            If these are the paths of a stack, or the numbers of vertices and weights differ.
        ValueError
            If the matrix or the predecessors are read-only, or an edge is listed with two weights.
        VertexError, DomainError, DTypeError, IntegerOverflowError
            If there is no such vertex, or a weight is not valid.

        Notes
        -----
        The first call copies the weights, so the caller's matrix does not change. The matrix and the predecessors are
        changed in place. Costs as `semiring.update`. An interrupted update leaves the paths unchanged, or not valid:
        then every use of them raises `ValueError`.

        Examples
        --------
        >>> import semiring as sr
        >>> roads = sr.shortest_paths(sr.as_network([("Ulm", "Kiel", 7.0), ("Kiel", "Jena", 4.0)], directed=False))
        >>> roads.update("Ulm", "Jena", 3.0)
        2
        >>> roads.update(["Ulm"], ["Kiel"], [float("inf")])
        0
        >>> roads.path("Ulm", "Kiel"), float(roads.distance("Ulm", "Kiel"))
        (['Ulm', 'Jena', 'Kiel'], 7.0)
        """
        self._refuse_stack("update")
        from semiring.paths.updates import change_edges, read_edges

        graph = self._open_for_changes() if self._closed_graph is None else self._closed_graph
        check_flags({"directed": directed})
        options = {"directed": not self._is_undirected if directed is None else bool(directed)}
        dtype = self._distances.dtype
        edges = read_edges(self._vertex_index, tails, heads, weights, self.semiring, dtype, **options)
        try:
            count = change_edges(graph, edges, get_threads())
        except DivergenceError as error:
            raise error.named(self.names) from None
        finally:
            if graph.is_writing:  # an interrupt, or an error, left a part of the changes
                vars(self).clear()
                self._is_invalid = True
        self._closed_graph, self._weights, self._trees = graph, graph.A, {}
        for name in [*vars(self)]:
            if isinstance(getattr(type(self), name, None), cached_property):
                del vars(self)[name]
        if self.matrix is not self._distances and is_frame(self.matrix):
            self.matrix = make_frame(self._distances, *self._axis_names)
        return count

    def _open_for_changes(self) -> Any:
        """Return the matrices to change, with a copy of the weights."""
        from semiring.paths.updates import ClosedGraph, require_closed

        if is_device_array(self._distances):
            return self._open_on_device()
        D = self._distances
        P = None if self.predecessors is None else np.asarray(self.predecessors)
        if self._weights is None:
            raise AlgebraError("these paths have no weights to change: pass weights= to Paths")
        if not self._is_reflexive:
            raise AlgebraError("paths with reflexive=False have cycles, which are not updated: leave out reflexive=")
        require_closed(D, self.semiring)
        if is_frame(self.matrix):  # whose entries may be read-only: a new frame replaces it
            D = self._distances = np.array(D)
        elif self._shares_arrays or not isinstance(self.matrix, np.ndarray):
            D = self.matrix = self._distances = np.array(D)
        if P is not None and (self._shares_arrays or not isinstance(self.predecessors, np.ndarray)):
            P = self.predecessors = np.array(P)
        self._shares_arrays = False
        for name, array in (("matrix", D), ("predecessors", P)):
            if array is not None and not array.flags.writeable:
                raise ValueError(
                    f"{name}: the array is read-only, and update changes it in place: make Paths of a copy"
                )
        return ClosedGraph(D, np.array(self._plan_and_weights[1], D.dtype), self.semiring, P)

    def _open_on_device(self) -> Any:
        """Return the matrices to change as CuPy arrays of the same memory, or copies where they may not be changed."""
        from semiring.arrays.device import as_cupy, make_exporter, may_write_to
        from semiring.paths.updates import ClosedGraph, require_closed

        if self._weights is None:
            raise AlgebraError("these paths have no weights to change: pass weights= to Paths")
        if not self._is_reflexive:
            raise AlgebraError("paths with reflexive=False have cycles, which are not updated: leave out reflexive=")
        opened: list[Any] = []
        for name in ("matrix", "predecessors"):
            array = getattr(self, name)
            if array is None:
                opened.append(None)
                continue
            values = as_cupy(array, name)
            if self._shares_arrays or not may_write_to(array):
                values = values.copy()
                setattr(self, name, make_exporter(array)(values))
            opened.append(values)
        D, P = opened
        require_closed(D, self.semiring)
        self._distances, self._shares_arrays = D, False
        return ClosedGraph(D, as_cupy(self._plan_and_weights[1]).astype(D.dtype), self.semiring, P)

    # ---------------------------------------------------------------------------------------------- all pairs

    def _replace_no_paths(self, values: Any) -> Any:
        """Convert integers to float64 if some are "no path", which becomes ±∞."""
        if values.dtype.kind != "i":
            return values
        none = values == self.semiring.zero_for(values.dtype)
        if not none.any():
            return values
        floats = values.astype(np.float64)
        return array_namespace(floats).where(none, self.semiring.zero_for(np.float64), floats)[()]

    @cached_property
    @_run_on_own_device
    def reachable(self) -> NDArray[np.bool_]:
        """A bool array (..., n, n): whether a path leads from i to j.

        The diagonal is True, because a path may have no edge, except with ``transitive_closure(reflexive=False)``.
        """
        reachable: NDArray[np.bool_] = self._distances != self.semiring.zero_for(self._distances.dtype)
        return reachable

    @cached_property
    @_run_on_own_device
    def _eccentricities(self) -> Array:
        self._refuse_stack("eccentricity")
        if not len(self):
            return np.empty(0, self._distances.dtype)
        worst: Array = farthest_entries(self._distances, self.semiring)
        return worst

    @_run_on_own_device
    def eccentricity(self, vertex: Any = None) -> Any:
        """Return the worst of the best paths from each vertex, or from one vertex.

        In min-plus it is the distance of the farthest vertex. In max-plus it is the longest path from each vertex, and
        unreachable vertices are ignored.

        Parameters
        ----------
        vertex : vertex, or None
            A vertex, by number or name. The default is all vertices.

        Returns
        -------
        array, shape (n,), or NumPy scalar
            The weights. Except in max-plus, the value is the semiring's zero, ∞ in min-plus, for a vertex that does not
            reach every other vertex. Integers become float64 then.

        Raises
        ------
        VertexError
            If there is no such vertex.
        """
        worst = self._replace_no_paths(self._eccentricities)
        return worst.copy() if vertex is None else worst[self.index(vertex)]

    @_run_on_own_device
    def _extreme_eccentricity(self, *, farthest: bool) -> Any:
        self._refuse_stack("diameter" if farthest else "radius")
        if not len(self):
            raise ShapeError("a network without vertices has no diameter, radius, center or periphery")
        worst = farthest == (self.semiring.tropical != "max")
        return fold_rows(self._replace_no_paths(self._eccentricities)[np.newaxis], self.semiring, worst=worst)[0]

    @cached_property
    def diameter(self) -> Any:
        """The worst eccentricity: in min-plus the longest distance, ∞ unless all pairs are connected.

        In max-plus it is the weight of the longest path, such as the length of a project.
        """
        return self._extreme_eccentricity(farthest=True)

    @cached_property
    def radius(self) -> Any:
        """The best eccentricity; in max-plus the least."""
        return self._extreme_eccentricity(farthest=False)

    @property
    def center(self) -> list[Any]:
        """The vertices whose eccentricity is the radius."""
        return self._select_names(self._replace_no_paths(self._eccentricities) == self.radius)

    @property
    def periphery(self) -> list[Any]:
        """The vertices whose eccentricity is the diameter."""
        return self._select_names(self._replace_no_paths(self._eccentricities) == self.diameter)

    @_run_on_own_device
    def _select_names(self, mask: Array) -> list[Any]:
        return [self.name(int(vertex)) for vertex in np.flatnonzero(to_host_array(mask))]

    @cached_property
    @_run_on_own_device
    def mean_distance(self) -> float:
        """The mean distance of all connected pairs of different vertices, in float64; NaN if there are none."""
        self._refuse_stack("mean_distance")
        vertices = array_namespace(self._distances).arange(len(self))
        proper = self.reachable & (vertices[:, None] != vertices)
        return float(self._distances[proper].mean(dtype=np.float64)) if proper.any() else float("nan")
