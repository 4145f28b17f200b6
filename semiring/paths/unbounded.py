"""Find best paths where some cycle improves without end, such as a negative cycle of min-plus.

Only cycles on a walk from a requested source to a requested target matter. So after an error about a cycle the search
runs again on the edges between vertices that a source reaches, and that reach a target.

With ``on_cycle="unbounded"`` the strong components with such a cycle are removed. The walks of a pair improve without
end if the source reaches such a component, and the component reaches the target. The walks of all other pairs meet no
removed vertex, so their paths are those of the remaining edges. Cost: a search for cycles in each strong component with
improving edges, and two searches for each component that is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.arrays.labels import LabelledArray
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse
from semiring.closures.explain import Explanation
from semiring.errors import AlgebraError, DivergenceError, DTypeError, NegativeCycleError, ShapeError, UnknownNameError
from semiring.io.inputs import return_unchanged
from semiring.namespaces import array_namespace, is_device_array
from semiring.paths.result import Paths
from semiring.paths.selected_sources import SearchResult
from semiring.sparse.edge_inputs import SparseEntries, edges_of, keep_edges, reached_vertices, relevant_edges
from semiring.sparse.mixed_signs import find_potentials, raise_for_negative_cycle

__all__ = ["check_on_cycle", "find_all_relevant", "find_relevant"]

Array = NDArray[Any]

_CHOICES = ("raise", "unbounded")


def check_on_cycle(on_cycle: Any, semiring: Semiring) -> None:
    """Raise `UnknownNameError` for another choice, and `AlgebraError` for a semiring without an unbounded value."""
    if not isinstance(on_cycle, str) or on_cycle not in _CHOICES:
        raise UnknownNameError("choice for cycles that improve without end", on_cycle, _CHOICES)
    if on_cycle == "unbounded" and semiring.tropical is None:
        raise AlgebraError(
            f"on_cycle='unbounded' is for min_plus, where pairs get -inf, and max_plus, where they get inf, and "
            f"{semiring.name} has no such value: leave it out"
        )


class _Unbounded:
    """The strong components of a graph with a cycle that improves without end, and the pairs that they join."""

    def __init__(self, edges: SparseEntries, semiring: Semiring) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        pattern, self.edges = edges.pattern, edges
        if not is_floating(edges.values.dtype):
            raise DTypeError(
                f"on_cycle='unbounded' needs weights of floats, because {edges.values.dtype} has no infinite weight: "
                "pass A.astype(float)"
            )
        self.sign = 1 if semiring.tropical == "min" else -1
        self.value = -semiring.zero_for(np.dtype(np.float64))
        graph = csr_array(
            (np.ones(pattern.indices.size, np.int8), pattern.indices, pattern.starts), shape=(pattern.n,) * 2
        )
        self.component: Array = connected_components(graph, connection="strong")[1]
        self.is_removed = np.zeros(pattern.n, np.bool_)
        self.reach: list[tuple[Array, Array]] = []  # masks of the vertices before and after each component
        self._find_components()

    def _find_components(self) -> None:
        """Remove the components in which a search finds a cycle."""
        tails, heads, values = self.edges.pattern.rows, self.edges.pattern.indices, self.edges.values
        inside = self.component[tails] == self.component[heads]
        improving = np.unique(self.component[tails[inside & (self.sign * values < 0)]])
        place = np.empty(self.component.size, np.int64)
        for label in improving.tolist():
            vertices = np.flatnonzero(self.component == label)
            place[vertices] = np.arange(vertices.size)
            own = inside & (self.component[tails] == label)
            ends = place[tails[own]], place[heads[own]]
            try:
                whole = bool((values[own] == np.rint(values[own])).all())
                search: Any = raise_for_negative_cycle if whole else find_potentials
                search(vertices.size, *ends, values[own].astype(np.float64), self.sign)
            except NegativeCycleError:
                self.remove(int(vertices[0]))

    def remove(self, vertex: int) -> None:
        """Remove the component of a vertex."""
        first, tails, _ = self.edges.pattern.columns
        own = self.component == self.component[vertex]
        before = reached_vertices(first, tails, np.array([vertex]))
        after = reached_vertices(self.edges.pattern.starts, self.edges.pattern.indices, np.array([vertex]))
        self.is_removed |= own
        self.reach.append((before, after))

    def remaining(self) -> SparseEntries:
        """Return the edges between the remaining vertices."""
        pattern = self.edges.pattern
        return keep_edges(self.edges, ~(self.is_removed[pattern.rows] | self.is_removed[pattern.indices]))

    def pairs(self, sources: Array, targets: Array) -> Array:
        """Return a mask (p, q) of the pairs whose walks improve without end."""
        result = np.zeros((sources.size, targets.size), np.bool_)
        for before, after in self.reach:
            result |= before[sources][:, None] & after[targets]
        return result


def _retry(find: Callable[[_Unbounded], Any], edges: SparseEntries, semiring: Semiring) -> tuple[Any, _Unbounded]:
    """Return the result of ``find`` without the components that improve, and these components."""
    unbounded = _Unbounded(edges, semiring)
    while True:
        try:
            return find(unbounded), unbounded
        except NegativeCycleError as error:
            if not error.cycle or unbounded.is_removed[error.cycle[0]]:
                raise
            unbounded.remove(error.cycle[0])


def find_relevant(
    find: Callable[[SparseEntries], SearchResult],
    edges: SparseEntries,
    semiring: Semiring,
    sources: Array | None,
    targets: Array | None,
    on_cycle: str,
    error: DivergenceError,
) -> SearchResult:
    """Return the paths between some vertices after an error of ``find(edges)``, whatever cycles other vertices reach.

    Raises the error of ``find`` if a requested pair has a walk over a cycle that improves, unless ``on_cycle`` is
    "unbounded".
    """
    relevant = relevant_edges(edges, sources, targets)
    if relevant is None and on_cycle == "raise":
        raise error
    try:
        if relevant is not None:
            return replace(find(relevant), edges=edges.pattern, weights=edges.values)
    except NegativeCycleError:
        if on_cycle == "raise":
            raise
    found, unbounded = _retry(lambda own: find(own.remaining()), edges if relevant is None else relevant, semiring)
    return _fill_result(replace(found, edges=edges.pattern, weights=edges.values), unbounded)


def _fill_result(found: SearchResult, unbounded: _Unbounded) -> SearchResult:
    """Return the result with the weight of pairs whose walks improve without end."""
    everything = np.arange(unbounded.is_removed.size)
    sources = everything if found.sources is None else found.sources
    targets = everything if found.targets is None else found.targets
    pairs = unbounded.pairs(sources, targets)
    matrix, trees = found.matrix, found.predecessors
    if is_sparse(matrix):
        from scipy.sparse import csr_array

        stored = matrix.tocoo()
        keep = ~pairs[stored.row, stored.col]
        rows, columns = np.nonzero(pairs)
        values = np.append(stored.data[keep], np.full(rows.size, unbounded.value, stored.dtype))
        ends = np.append(stored.row[keep], rows), np.append(stored.col[keep], columns)
        matrix = csr_array((values, ends), shape=stored.shape)
        matrix.sort_indices()
    else:
        matrix = np.array(matrix)
        matrix[pairs] = unbounded.value
    if trees is not None:
        trees = np.array(trees)
        trees[unbounded.pairs(sources, everything)] = -9999

    def find(i: int, j: int) -> list[int]:
        return [] if unbounded.pairs(np.array([i]), np.array([j])).any() else found.find(i, j)

    return replace(found, matrix=matrix, predecessors=trees, find=find)


def _with_edges(A: Any, edges: SparseEntries, semiring: Semiring) -> Any:
    """Return a matrix like A, dense or sparse, that has only some of its edges."""
    pattern = edges.pattern
    if is_sparse(A):
        from scipy.sparse import csr_array

        return csr_array((edges.values, pattern.indices, pattern.starts), shape=A.shape)
    matrix = np.full((pattern.n,) * 2, semiring.zero_for(edges.values.dtype), edges.values.dtype)
    matrix[pattern.rows, pattern.indices] = edges.values
    return array_namespace(A).asarray(matrix) if is_device_array(A) else matrix


def find_all_relevant(
    find: Callable[[LabelledArray], tuple[Paths, Explanation | None]],
    labelled: LabelledArray,
    semiring: Semiring,
    sources: Array | None,
    targets: Array | None,
    on_cycle: str,
    error: DivergenceError,
) -> tuple[Paths, Explanation | None]:
    """Return the paths of all pairs after an error of ``find``, where only some are requested: see `find_relevant`."""
    A = labelled.matrix
    if np.ndim(A) > 2 and on_cycle == "unbounded":
        raise ShapeError("on_cycle='unbounded' is for one matrix: call the function for each matrix of the stack")
    if np.ndim(A) > 2 or (on_cycle == "raise" and sources is targets is None):
        raise error
    edges = edges_of(A if is_sparse(A) else to_host_array(A), semiring, check=False)
    relevant = relevant_edges(edges, sources, targets)
    if relevant is not None:
        labelled = labelled._replace(matrix=_with_edges(A, relevant, semiring))
    elif on_cycle == "raise":
        raise error
    return find(labelled) if on_cycle == "raise" else _find_all_bounded(find, labelled, semiring)


def _find_all_bounded(
    find: Callable[[LabelledArray], tuple[Paths, Explanation | None]], labelled: LabelledArray, semiring: Semiring
) -> tuple[Paths, Explanation | None]:
    """Return the paths of all pairs, with the value of unbounded walks where they improve without end."""
    A = labelled.matrix
    edges = edges_of(A if is_sparse(A) else to_host_array(A), semiring, check=False)

    def find_remaining(unbounded: _Unbounded) -> tuple[Paths, Explanation | None]:
        return find(labelled._replace(matrix=_with_edges(A, unbounded.remaining(), semiring), restore=return_unchanged))

    (paths, explanation), unbounded = _retry(find_remaining, edges, semiring)
    vertices = np.arange(paths.count_of_vertices)
    xp = array_namespace(paths._distances)
    pairs = xp.asarray(unbounded.pairs(vertices, vertices))
    matrix = xp.where(pairs, paths._distances.dtype.type(unbounded.value), paths._distances)
    trees = paths.predecessors
    if trees is not None:
        trees = array_namespace(trees).where(pairs, np.int32(-9999), trees)
    restored = Paths(labelled.restore(matrix), semiring, trees, names=paths.names, weights=paths._weights)
    return restored, explanation
