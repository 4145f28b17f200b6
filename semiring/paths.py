"""Best paths between all pairs of vertices: shortest, widest, most reliable, longest, or of a semiring of one's own.

Each function closes a matrix of edge weights and returns `Paths`: the distances, the vertex before each on a best path,
and what follows from them. The paths are simple, and their weights add up to the distance: exactly on integers and
truths and where ⊗ only selects, within n·ε of it in floats (4 n·ε of the largest distance where signs are mixed).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algorithms.predecessors import nearest_tree, path_sums
from semiring.algorithms.progress import Progress
from semiring.arrays import as_matrix, as_result, in_host_memory
from semiring.bits import BitMatrix
from semiring.catalogue import as_semiring, boolean, max_min, max_plus, max_times, min_plus
from semiring.closures import closure, closure_with_predecessors
from semiring.errors import AlgebraError, DomainError, NegativeCycleError, NoPathError, ShapeError, VertexError
from semiring.kernels.contract import Facts, Plan
from semiring.kernels.tolerance import tolerance_for

__all__ = [
    "Paths",
    "best_paths",
    "longest_paths",
    "most_reliable_paths",
    "shortest_paths",
    "transitive_closure",
    "widest_paths",
]

Array: TypeAlias = NDArray[Any]


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
    """

    def __init__(
        self,
        matrix: Any,
        semiring: Semiring,
        predecessors: Array | None = None,
        *,
        names: Iterable[Hashable] | None = None,
        weights: Any = None,
    ) -> None:
        """``weights``: the matrix of the edges, for paths where there are no ``predecessors``; it is not copied."""
        self.matrix, self.semiring, self.predecessors = matrix, semiring, predecessors
        self._distances = as_matrix(matrix, semiring, square=True)
        self._weights = weights
        self._trees: dict[int, Array] = {}
        self.names = None if names is None else _checked_names(names, len(self))

    def __len__(self) -> int:
        """The number of vertices."""
        return int(self._distances.shape[0])

    def __repr__(self) -> str:
        n = len(self)
        kept = "with predecessors" if self.predecessors is not None else "without predecessors"
        connected = int(np.count_nonzero(self.reachable)) - int(np.count_nonzero(self.reachable.diagonal()))
        vertices = f"{n} {'vertex' if n == 1 else 'vertices'}"
        return (
            f"<Paths of {vertices} in {self.semiring.name}, {self._distances.dtype}: "
            f"{connected:,} of {n * (n - 1):,} pairs connected, {kept}>"
        )

    # ------------------------------------------------------------------------------------------------- vertices

    @cached_property
    def _indices(self) -> dict[Hashable, int]:
        return {name: vertex for vertex, name in enumerate(self.names or ())}

    @cached_property
    def _numbers_are_names(self) -> bool:
        return any(isinstance(name, int | np.integer) for name in self.names or ())

    def index(self, vertex: Any) -> int:
        """The number of a vertex, given by name or by number (by name only, where names are numbers themselves).

        Raises `VertexError`.
        """
        if self.names is not None and isinstance(vertex, Hashable) and vertex in self._indices:
            return self._indices[vertex]
        if isinstance(vertex, int | np.integer) and not isinstance(vertex, bool) and not self._numbers_are_names:
            if 0 <= vertex < len(self):
                return int(vertex)
            raise VertexError(f"vertex {vertex} is not one of the {len(self)} from 0 on")
        if self.names is None:
            raise VertexError(f"vertex {vertex!r} is not a number, and names= were not given")
        from difflib import get_close_matches

        near = get_close_matches(str(vertex), map(str, self.names), n=3)
        raise VertexError(f"no vertex is named {vertex!r}" + (f": did you mean {' or '.join(near)}?" if near else ""))

    def name(self, vertex: int) -> Any:
        """What the vertex of that number is called: its name, or the number."""
        return int(vertex) if self.names is None else self.names[vertex]

    # ---------------------------------------------------------------------------------------------------- paths

    def distance(self, source: Any, target: Any) -> Any:
        """The weight of the best path from ``source`` to ``target``; the semiring's zero where there is none."""
        return self._distances[self.index(source), self.index(target)]

    def path(self, source: Any, target: Any) -> list[Any]:
        """The vertices of a best path, both ends included; ``[source]`` from a vertex to itself.

        Costs O(its length); without predecessors one run from the ``source``, O(n²), which is kept.
        Raises `NoPathError` where no path leads there, `VertexError`.
        """
        i, j = self.index(source), self.index(target)
        vertices = self._vertices(self._tree(i), i, j)
        if vertices is None:
            raise NoPathError(f"no path leads from {self.name(i)} to {self.name(j)}")
        return [self.name(vertex) for vertex in vertices]

    def paths_from(self, source: Any) -> dict[Any, list[Any]]:
        """The paths from one vertex to all that it reaches, by where they end: ``{source: [source], ...}``."""
        i = self.index(source)
        tree = self._tree(i)
        found = ((j, self._vertices(tree, i, j)) for j in range(len(self)))
        return {self.name(j): [self.name(v) for v in vertices] for j, vertices in found if vertices is not None}

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
        if self.predecessors is not None:
            row: Array = self.predecessors[source]
            return row
        if source not in self._trees:
            self._trees[source] = self._single_source(source)
        return self._trees[source]

    @cached_property
    def _edges(self) -> tuple[Plan, Array]:
        if self._weights is None:
            raise AlgebraError("these Paths have neither predecessors nor weights: paths cannot be found")
        weights = as_matrix(self._weights, self.semiring, self._distances.dtype)
        dtype, semiring = weights.dtype, self.semiring
        nonnegative = dtype.kind == "f" and bool(np.all(weights >= 0))
        zero, one = semiring.zero_for(dtype), semiring.one_for(dtype)
        return Plan(semiring, dtype, zero, one, Facts(nonnegative)), weights

    def _single_source(self, source: int) -> Array:
        plan, weights = self._edges
        distances = self._distances[source].copy()
        distances[source] = plan.one
        tolerance = tolerance_for(plan, self._distances)
        tree = nearest_tree(plan, weights, distances, source, tolerance)
        if not tolerance.meets(path_sums(plan, weights, tree, source), distances).all():
            raise ValueError(
                f"the paths from vertex {source} do not add up to their distances: the weights have changed since then"
            )
        return tree

    # ---------------------------------------------------------------------------------------------- all of them

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """(n, n): whether a path leads from i to j; from a vertex to itself there is the path without edges."""
        reachable: NDArray[np.bool_] = self._distances != self.semiring.zero_for(self._distances.dtype)
        return reachable

    def _fold(self, values: Array, *, worst: bool) -> Array:
        """⊕ over each row of ``values``, or what it never selects; by halves, which takes log n array operations."""
        while values.shape[1] > 1:
            half = values.shape[1] // 2
            x, y = values[:, :half], values[:, half : 2 * half]
            selected = self.semiring.add(x, y)
            chosen = np.where(selected == x, y, x) if worst else selected
            values = np.column_stack([chosen, values[:, 2 * half :]])
        return values[:, 0]

    @cached_property
    def _eccentricities(self) -> Array:
        if not len(self):
            return np.empty(0, self._distances.dtype)
        return self._fold(self._distances, worst=True)

    def eccentricity(self, vertex: Any = None) -> Any:
        """The worst of the best paths from each vertex, (n,), or from one: in min-plus the distance of the farthest.

        The semiring's zero for a vertex that does not reach all others.
        """
        return self._eccentricities.copy() if vertex is None else self._eccentricities[self.index(vertex)]

    def _extreme(self, *, worst: bool) -> Any:
        if not len(self):
            raise ShapeError("a network without vertices has no diameter, radius, center or periphery")
        return self._fold(self._eccentricities[np.newaxis], worst=worst)[0]

    @cached_property
    def diameter(self) -> Any:
        """The worst eccentricity: in min-plus the longest of all distances, ∞ unless all pairs are connected."""
        return self._extreme(worst=True)

    @cached_property
    def radius(self) -> Any:
        """The best eccentricity."""
        return self._extreme(worst=False)

    @property
    def center(self) -> list[Any]:
        """The vertices with the best eccentricity."""
        return self._named(self._eccentricities == self.radius)

    @property
    def periphery(self) -> list[Any]:
        """The vertices with the worst eccentricity."""
        return self._named(self._eccentricities == self.diameter)

    def _named(self, chosen: Array) -> list[Any]:
        return [self.name(int(vertex)) for vertex in np.flatnonzero(chosen)]

    @cached_property
    def mean_distance(self) -> float:
        """The mean over all connected pairs of two vertices, in float64; NaN where there are none."""
        proper = self.reachable & ~np.eye(len(self), dtype=bool)
        return float(self._distances[proper].mean(dtype=np.float64)) if proper.any() else float("nan")


def _checked_names(names: Iterable[Hashable], n: int) -> tuple[Hashable, ...]:
    found = tuple(names)
    if len(found) != n:
        raise ShapeError(f"{len(found)} names were given for {n} vertices")
    if len(set(found)) != n:
        twice = next(name for position, name in enumerate(found) if name in found[:position])
        raise ShapeError(f"the name {twice!r} was given to two vertices: names must differ")
    return found


def _names_of(A: Any, names: Iterable[Hashable] | None) -> Sequence[Hashable] | None:
    """The names given, or those of the rows of a frame, which must be those of its columns."""
    if names is not None:
        return tuple(names)
    if not (hasattr(A, "index") and hasattr(A, "columns") and hasattr(A, "to_numpy")):
        return None
    rows, columns = tuple(A.index), tuple(A.columns)
    if rows == columns:
        return rows
    if set(rows) == set(columns):
        raise ShapeError("the rows and the columns of A have the same names in another order: pass A[A.index]")
    if rows == tuple(range(len(rows))) or columns == tuple(range(len(columns))):
        return columns if rows == tuple(range(len(rows))) else rows
    raise ShapeError("the rows and the columns of A have different names: a network needs the same vertices in both")


# ------------------------------------------------------------------------------------------------- the functions


def best_paths(
    A: Any,
    semiring: Semiring | str = "min_plus",
    *,
    names: Iterable[Hashable] | None = None,
    predecessors: bool = True,
    method: str = "auto",
    progress: Progress | None = None,
    check: bool = True,
    threads: int | None = None,
) -> Paths:
    """The best paths between all pairs of vertices, in any semiring whose ⊕ selects one of its arguments.

    Parameters
    ----------
    A
        (n, n): A[i, j] is the weight of the edge i → j, the semiring's zero where there is no edge. An array, a list, a
        SciPy sparse matrix (what it does not store is no edge), or a pandas frame, whose labels become ``names``.
    semiring
        Weights are combined along a path by ⊗, paths compared by ⊕.
    names
        n different names of the vertices.
    predecessors
        Whether to find all paths now: for 1.1 to 1.3 times the time, and n² int32 of memory, `Paths.path` costs nothing
        afterwards. Without them it makes a run of its own for each source, and A must not change meanwhile.
    method, progress, check, threads
        As in `semiring.closure`.

    Raises what `semiring.closure` raises, `NegativeCycleError` (and `DivergenceError`) among it; `AlgebraError` where
    ⊕ is not selective; `ShapeError` where names and vertices do not fit.
    """
    algebra = as_semiring(semiring)
    if not algebra.selective:
        raise AlgebraError(
            f"the ⊕ of {algebra.name} adds paths up instead of selecting one: there are no best paths, only closures"
        )
    known = _names_of(A, names)
    options: dict[str, Any] = {"method": method, "progress": progress, "check": check, "threads": threads}
    try:
        if not predecessors:
            return Paths(closure(A, algebra, **options), algebra, names=known, weights=A)
        matrix = as_matrix(A.unpack() if isinstance(A, BitMatrix) else A, algebra, square=True)
        distances, found = closure_with_predecessors(matrix, algebra, **options)
    except NegativeCycleError as error:
        if known is None or not error.cycle:
            raise
        shown = " → ".join(str(known[vertex]) for vertex in (*error.cycle, error.cycle[0]))
        raise NegativeCycleError(f"{error}; by name, it is {shown}", error.cycle) from None
    return Paths(as_result(A)(distances), algebra, found, names=known, weights=matrix)


def shortest_paths(A: Any, **options: Any) -> Paths:
    """The shortest paths between all pairs, in min-plus: ∞ (the largest of an integer dtype) is no edge, 0 is a weight.

    Options, errors and cost: `best_paths`. Negative weights are welcome; a negative cycle is an error that names it.

    >>> inf = float("inf")
    >>> found = shortest_paths([[inf, 7, 1], [inf, inf, inf], [inf, 2, inf]], names=["a", "b", "c"])
    >>> found.path("a", "b"), float(found.distance("a", "b"))
    (['a', 'c', 'b'], 3.0)
    >>> found
    <Paths of 3 vertices in min_plus, float64: 3 of 6 pairs connected, with predecessors>
    """
    return best_paths(A, min_plus, **options)


def longest_paths(A: Any, **options: Any) -> Paths:
    """The longest paths between all pairs, in max-plus: -∞ (the smallest of an integer dtype) is no edge.

    Only where no cycle has a positive weight, as in a schedule, are there any: `NegativeCycleError` names one that has.
    Options and cost: `best_paths`.
    """
    return best_paths(A, max_plus, **options)


def widest_paths(A: Any, **options: Any) -> Paths:
    """The paths whose narrowest edge is widest, in max-min: -∞ is no edge (0 of a uint8).

    Options, errors and cost: `best_paths`. The distance of a vertex from itself is ∞: nothing is narrow there.
    """
    return best_paths(A, max_min, **options)


def most_reliable_paths(A: Any, **options: Any) -> Paths:
    """The paths with the greatest product of weights, in max-times: probabilities in [0, 1], 0 is no edge.

    Weights above 1 are taken as long as no cycle gains by them (`DivergenceError`). Options and cost: `best_paths`.
    """
    return best_paths(A, max_times, **options)


def transitive_closure(A: Any, *, reflexive: bool = True, **options: Any) -> Paths:
    """Which vertex reaches which: A (n, n) bool, or integers 0 and 1, or a `BitMatrix`.

    ``reflexive``: every vertex reaches itself; otherwise only along a cycle. Options and cost: `best_paths`.
    Raises `DomainError` for entries other than 0 and 1, for elsewhere a weight of 0 is an edge: say ``A != 0``, or
    ``A < inf``.
    """
    known = _names_of(A, options.pop("names", None))
    truths = _truths(A)
    found = best_paths(truths, boolean, names=known, **options)
    if not reflexive:
        vertices = np.arange(len(found))
        found.matrix[vertices, vertices] = (truths & found.matrix.T).any(axis=1)
    return found


def _truths(A: Any) -> NDArray[np.bool_]:
    """A dense matrix of truths from truths, or from zeros and ones."""
    if isinstance(A, BitMatrix):
        return A.unpack()
    values = in_host_memory(A)
    if hasattr(values, "tocoo"):
        stored, truths = np.asarray(values.tocoo().data), as_matrix(values.astype(bool), boolean, square=True)
    else:
        stored = np.asarray(values)
        truths = as_matrix(stored.astype(bool), boolean, square=True)
    if not np.array_equal(stored.astype(bool), stored):
        raise DomainError("A holds more than 0 and 1: say which entries are edges, by A != 0 or A < inf")
    return truths
