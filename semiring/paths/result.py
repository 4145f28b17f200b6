"""`Paths`: what the functions of this package return."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.advice import fewer_paths
from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algorithms.expansion import DirectEdges, expanded
from semiring.algorithms.predecessors import nearest_tree, path_sums
from semiring.arrays.bits import BitMatrix
from semiring.arrays.folds import farthest, fold_rows
from semiring.arrays.labels import make_frame
from semiring.arrays.memory import demand_memory
from semiring.arrays.operands import as_matrix
from semiring.arrays.parts import on_host, pieces
from semiring.arrays.sparse import check_sparse, is_sparse
from semiring.arrays.vertices import Vertices
from semiring.errors import AlgebraError, DeviceError, NoPathError, ShapeError
from semiring.io.network import Network
from semiring.kernels import backend_for
from semiring.kernels.contract import Facts, KernelPlan, has_operation
from semiring.kernels.tolerance import tolerance_for
from semiring.namespaces import array_namespace, is_device_array
from semiring.out_of_core.stored_matrix import is_npy_name

__all__ = ["Paths"]

_ENTRIES = 1 << 22  # truths that are looked at at a time

Array: TypeAlias = NDArray[Any]
Result = TypeVar("Result")


def _where_it_lives(method: Callable[..., Result]) -> Callable[..., Result]:
    """A method that runs on the GPU of the matrix, if it is on one, and on the current stream of its library."""

    @wraps(method)
    def call(self: Paths, *arguments: Any, **options: Any) -> Result:
        if not is_device_array(self._distances):
            return method(self, *arguments, **options)
        from semiring.arrays.device import on_device

        with on_device([self.matrix if is_device_array(self.matrix) else self._distances]):
            return method(self, *arguments, **options)

    return call


class Paths:
    """The best paths between all pairs of n vertices. Vertices are 0 … n - 1, or the names that were given.

    Attributes
    ----------
    matrix
        (n, n): the weight of a best path from i to j, the semiring's zero where there is none.
    semiring
        In which the weights are combined along a path (⊗) and compared between paths (⊕).
    predecessors
        (n, n) int32 or None: ``predecessors[i, j]`` is the vertex before j on the path from i to j; -9999 where there
        is none, and on the diagonal. The convention of `scipy.sparse.csgraph`.
    names
        A tuple of n names, or None.

    The matrix and the predecessors may live on a GPU; then a path moves the n numbers of its row to the host, once for
    each source, and what is asked of all pairs is computed there.
    """

    def __init__(
        self,
        matrix: Any,
        semiring: Semiring,
        predecessors: Array | None = None,
        *,
        names: Iterable[Hashable] | None = None,
        weights: Any = None,
        pivots: Any = None,
    ) -> None:
        """``weights``: the matrix of the edges, for paths where there are no ``predecessors``; it is not copied.

        ``pivots``: what `closure` has kept of a matrix in a file, (n, n), or the name of its file. Then a path reads as
        many entries of both as it has edges, times 64, and what is asked of all pairs reads all of the matrix.
        """
        self._reflexive = True
        self.matrix, self.semiring, self.predecessors = matrix, semiring, predecessors
        self._distances = as_matrix(matrix, semiring, square=True)
        self._weights = weights
        self._trees: dict[int, Array] = {}
        self._known = Vertices(len(self), names)
        self.names = self._known.names
        self._pivots = np.load(pivots, mmap_mode="r") if is_npy_name(pivots) else pivots
        if pivots is not None and self._pivots.shape != self._distances.shape:
            raise ShapeError(f"the matrix is {self._distances.shape}, and its pivots are {self._pivots.shape}")

    def __getattr__(self, name: str) -> Any:
        if name == "explanation":  # of some paths, whose ways are compared
            raise AttributeError(
                "paths between all pairs have no explanation: call closure(A, semiring, explain=True). Paths with "
                "sources=, targets= or limit= have one"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self) -> int:
        """The number of vertices."""
        return int(self._distances.shape[0])

    @_where_it_lives
    def __repr__(self) -> str:
        n = len(self)
        if self._pivots is not None:  # of a file, which is not read for that
            return f"<Paths of {n} vertices in {self.semiring.name}, {self._distances.dtype}: with pivots>"
        kept = "with predecessors" if self.predecessors is not None else "without predecessors"
        connected = int(self.reachable.sum()) - int(self.reachable.diagonal().sum())
        vertices = f"{n} {'vertex' if n == 1 else 'vertices'}"
        return (
            f"<Paths of {vertices} in {self.semiring.name}, {self._distances.dtype}: "
            f"{connected:,} of {n * (n - 1):,} pairs connected, {kept}>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows and columns."""
        from semiring.terminal import html_matrix

        return html_matrix(repr(self), on_host(self._distances), *self._ends)

    @property
    def _ends(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """What the rows and the columns of the matrix are called."""
        names = range(len(self)) if self.names is None else list(self.names)
        return names, names

    def to_frame(self) -> Any:
        """The matrix as a frame of pandas, rows and columns called by the names of the vertices.

        Raises `MissingExtraError` without pandas.
        """
        return make_frame(on_host(self._distances), *self._ends)

    def _as_network(self) -> Network:
        """The matrix with the names of its vertices, for `semiring.write`."""
        return Network(on_host(self._distances), self.names, semiring=self.semiring)

    def plot(self, source: Any = None, target: Any = None) -> Any:
        """The network as a figure of matplotlib, with the path from ``source`` to ``target`` drawn on it.

        Vertices are coloured by the distance from the source. Raises `NoPathError`, `VertexError`, `AlgebraError` where
        the edges are not known, and `MissingExtraError` without matplotlib.
        """
        from semiring.plot import plot_network

        network = Network(on_host(self._edges[1]), self.names, semiring=self.semiring)
        path = [] if source is None or target is None else self.path(source, target)
        values = None if source is None else self._from(source)
        return plot_network(network, self.semiring, path=path, values=values)

    def _from(self, source: Any) -> Array | None:
        """The distances (n,) from a vertex."""
        row: Array = on_host(self._distances[self.index(source)])
        return row

    # ------------------------------------------------------------------------------------------------- vertices

    def index(self, vertex: Any) -> int:
        """The number of a vertex, given by name or by number.

        By name only, where some names are integers or their texts, as of a file: there 7 is the vertex 7, else the
        vertex "7". Raises `VertexError`.
        """
        return self._known.index(vertex)

    def name(self, vertex: int) -> Any:
        """What the vertex of that number is called: its name, or the number."""
        return int(vertex) if self.names is None else self.names[vertex]

    # ---------------------------------------------------------------------------------------------------- paths

    @_where_it_lives
    def distance(self, source: Any, target: Any) -> Any:
        """The weight of the best path from ``source`` to ``target``; the semiring's zero where there is none.

        Of signed integers that is a float then: ∞ in min-plus, not the greatest integer.
        """
        return self._told(on_host(self._distances[self.index(source), self.index(target)])[()])

    def path(self, source: Any, target: Any) -> list[Any]:
        """The vertices of a best path, both ends included; ``[source]`` from a vertex to itself (a cycle where
        `transitive_closure` was asked for paths of at least one edge).

        Costs O(its length), also with pivots; without predecessors one run from the ``source``, O(n²), which is kept.
        Raises `NoPathError` where no path leads there, `VertexError`.
        """
        i, j = self.index(source), self.index(target)
        vertices = self._over_pivots(i, j)
        if vertices is None:
            vertices = self._vertices(self._tree(i), i, j) if self._reflexive or i != j else self._cycle(i)
        if vertices is None:
            raise NoPathError(f"no path leads from {self.name(i)} to {self.name(j)}")
        return [self.name(vertex) for vertex in vertices]

    @_where_it_lives
    def _cycle(self, i: int) -> list[int] | None:
        """The vertices of a cycle through i, i at both ends."""
        weights, tree = self._edges[1], self._tree(i)
        lasts = np.flatnonzero(on_host(weights[:, i] != self.semiring.zero_for(weights.dtype)))
        paths = (self._vertices(tree, i, int(last)) for last in lasts)
        return next(([*path, i] for path in paths if path is not None), None)

    @_where_it_lives
    def without_empty_paths(self) -> Paths:
        """These paths of truths with those of at least one edge alone: a vertex reaches itself along a cycle, or not.

        The matrix is changed.
        """
        D, given = self._distances, self._weights
        packed, sparse = isinstance(given, BitMatrix), is_sparse(given)
        if sparse:
            check_sparse(given)
        weights = given.tocsr() if sparse else given if packed else self._edges[1]
        for rows in pieces(D, _ENTRIES):  # each reads its own part of the diagonal alone
            part = weights[rows].toarray() if sparse else weights[rows].unpack() if packed else weights[rows]
            vertices = array_namespace(D).arange(rows.start, rows.stop)
            D[vertices, vertices] = (part & D[:, rows].T).any(axis=1)
        self._reflexive = False
        return self

    def paths_from(self, source: Any) -> dict[Any, list[Any]]:
        """The paths from one vertex to all that it reaches, by where they end: ``{source: [source], ...}``."""
        i = self.index(source)
        tree = self._tree(i)
        ends = range(len(self))
        found = ((j, self._vertices(tree, i, j) if self._reflexive or i != j else self._cycle(i)) for j in ends)
        return {self.name(j): [self.name(v) for v in vertices] for j, vertices in found if vertices is not None}

    def _over_pivots(self, source: int, target: int) -> list[int] | None:
        """The vertices of a path by the pivots; None without any, where they find none, and where there is none."""
        distances = self._distances
        none = self._pivots is None or source == target or source in self._trees
        if none or distances[source, target] == self.semiring.zero_for(distances.dtype):
            return None
        return expanded(self._edges[0], distances, self._pivots, source, target)

    def _vertices(self, tree: Array, source: int, target: int) -> list[int] | None:
        vertices = [target]
        while vertices[-1] != source:
            before = int(tree[vertices[-1]])
            if before < 0:
                return None
            if len(vertices) >= len(self):
                raise ValueError(f"the predecessors of row {source} lead in a circle: {vertices[:8]} …")
            vertices.append(before)
        return vertices[::-1]

    def _tree(self, source: int) -> Array:
        """The row of predecessors of one source."""
        if self.predecessors is not None and not is_device_array(self.predecessors):
            row: Array = self.predecessors[source]
            return row
        if source not in self._trees:
            moved = self.predecessors is not None
            self._trees[source] = self._row_on_host(source) if moved else self._single_source(source)
        return self._trees[source]

    @_where_it_lives
    def _row_on_host(self, source: int) -> Array:
        from semiring.arrays.device import as_cupy, to_host

        return to_host(as_cupy(self.predecessors)[source])

    @cached_property
    @_where_it_lives
    def _edges(self) -> tuple[KernelPlan, Any]:
        if self._pivots is not None:
            D, semiring = self._distances, self.semiring
            plan = KernelPlan(semiring, D.dtype, semiring.zero_for(D.dtype), semiring.one_for(D.dtype))
            return plan, DirectEdges(D, self._pivots, plan.zero)
        if self._weights is None:
            raise AlgebraError(
                "these Paths have neither predecessors nor weights, so they have no paths: compute them with "
                "predecessors=True"
            )
        n, dtype, semiring = len(self), self._distances.dtype, self.semiring
        if is_sparse(self._weights) or isinstance(self._weights, BitMatrix):
            demand_memory(n * n * dtype.itemsize, f"the array of the edges of {n:,} vertices", fewer_paths())
        weights = as_matrix(self._weights, semiring, dtype)
        nonnegative = is_floating(dtype) and bool((weights >= 0).all())
        zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
        return KernelPlan(semiring, dtype, zero, one, Facts(nonnegative)), weights

    def _single_source(self, source: int) -> Array:
        plan, weights = self._edges
        if is_device_array(weights):
            return self._single_source_on_device(plan, weights, source)
        distances = self._distances[source].copy()
        distances[source] = plan.one
        tolerance = tolerance_for(plan, self._distances)
        tree = nearest_tree(plan, weights, distances, source, tolerance)
        if not tolerance.meets(path_sums(plan, weights, tree, source), distances).all():
            raise ValueError(
                f"the paths from vertex {source} do not add up to their distances, as the weights were changed: "
                "compute the paths again"
            )
        return tree

    @_where_it_lives
    def _single_source_on_device(self, plan: KernelPlan, weights: Array, source: int) -> Array:
        distances, tolerance = self._distances, tolerance_for(plan, self._distances)
        if plan.dtype.name == "bfloat16":
            distances, weights = distances.astype(np.float32), weights.astype(np.float32)
            plan = replace(plan, dtype=weights.dtype)
        backend = backend_for(weights, self.semiring, weights.dtype)
        search = backend.capabilities.paths
        if search is None or not has_operation(search, "find_tree"):
            raise DeviceError(f"the {backend.name} backend finds no paths of a single source: pass predecessors=True")
        tree: Array = on_host(search.find_tree(plan, distances, weights, tolerance, source))
        return tree

    # ---------------------------------------------------------------------------------------------- all of them

    def _told(self, values: Any) -> Any:
        """Integers as they are told: in float64 where some are "no path", for that is ±∞, and no number."""
        if values.dtype.kind != "i":
            return values
        none = values == self.semiring.zero_for(values.dtype)
        if not none.any():
            return values
        told = values.astype(np.float64)
        return array_namespace(told).where(none, self.semiring.zero_for(np.float64), told)[()]

    @cached_property
    @_where_it_lives
    def reachable(self) -> NDArray[np.bool_]:
        """(n, n): whether a path leads from i to j; from a vertex to itself there is the path without edges, unless
        only paths with edges were asked for.
        """
        reachable: NDArray[np.bool_] = self._distances != self.semiring.zero_for(self._distances.dtype)
        return reachable

    @cached_property
    @_where_it_lives
    def _eccentricities(self) -> Array:
        if not len(self):
            return np.empty(0, self._distances.dtype)
        found: Array = farthest(self._distances, self.semiring)
        return found

    @_where_it_lives
    def eccentricity(self, vertex: Any = None) -> Any:
        """The worst of the best paths from each vertex, (n,), or from one: in min-plus the distance of the farthest.

        The semiring's zero for a vertex that does not reach all others, ∞ in min-plus; integers are float64 then. In
        max-plus the longest path from each vertex, whatever it does not reach.
        """
        told = self._told(self._eccentricities)
        return told.copy() if vertex is None else told[self.index(vertex)]

    @_where_it_lives
    def _extreme(self, *, farthest: bool) -> Any:
        if not len(self):
            raise ShapeError("a network without vertices has no diameter, radius, center or periphery")
        worst = farthest == (self.semiring.tropical != "max")
        return fold_rows(self._told(self._eccentricities)[np.newaxis], self.semiring, worst=worst)[0]

    @cached_property
    def diameter(self) -> Any:
        """The worst eccentricity: in min-plus the longest of all distances, ∞ unless all pairs are connected.

        In max-plus the longest of all paths, such as the length of a project.
        """
        return self._extreme(farthest=True)

    @cached_property
    def radius(self) -> Any:
        """The best eccentricity; in max-plus the least."""
        return self._extreme(farthest=False)

    @property
    def center(self) -> list[Any]:
        """The vertices whose eccentricity is the radius."""
        return self._named(self._told(self._eccentricities) == self.radius)

    @property
    def periphery(self) -> list[Any]:
        """The vertices whose eccentricity is the diameter."""
        return self._named(self._told(self._eccentricities) == self.diameter)

    @_where_it_lives
    def _named(self, chosen: Array) -> list[Any]:
        return [self.name(int(vertex)) for vertex in np.flatnonzero(on_host(chosen))]

    @cached_property
    @_where_it_lives
    def mean_distance(self) -> float:
        """The mean over all connected pairs of two vertices, in float64; NaN where there are none."""
        vertices = array_namespace(self._distances).arange(len(self))
        proper = self.reachable & (vertices[:, None] != vertices)
        return float(self._distances[proper].mean(dtype=np.float64)) if proper.any() else float("nan")
