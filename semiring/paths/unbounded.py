"""Find best paths where some cycle improves without end, such as a negative cycle of min-plus.

Only cycles on a walk from a requested source to a requested target matter. So after an error about a cycle the search
runs again on the edges between vertices that a source reaches, and that reach a target.

With ``on_cycle="unbounded"`` the strong components with such a cycle are removed (`ImprovingCycles`), and the pairs
that they join get the unbounded weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.labels import LabelledArray
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_sparse
from semiring.closures.explain import Explanation
from semiring.errors import DivergenceError, NegativeCycleError, ShapeError
from semiring.io.inputs import return_unchanged
from semiring.namespaces import array_namespace, is_device_array
from semiring.paths.result import Paths
from semiring.paths.selected_sources import SearchResult
from semiring.sparse.edge_inputs import SparseEntries, edges_of, relevant_edges
from semiring.sparse.improving_cycles import ImprovingCycles, unbounded_value

__all__ = ["find_all_relevant", "find_relevant"]

Array = NDArray[Any]


def _retry(
    find: Callable[[ImprovingCycles], Any], edges: SparseEntries, semiring: Semiring
) -> tuple[Any, ImprovingCycles, Any]:
    """Return the result of ``find`` without the components that improve, these components, and the unbounded weight."""
    value = unbounded_value(semiring, edges.values.dtype)
    cycles = ImprovingCycles(edges, semiring)
    while True:
        try:
            return find(cycles), cycles, value
        except NegativeCycleError as error:
            cycles.remove(error)


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
    result, cycles, value = _retry(lambda own: find(own.remaining()), edges if relevant is None else relevant, semiring)
    return _fill_result(replace(result, edges=edges.pattern, weights=edges.values), cycles, value)


def _fill_result(result: SearchResult, cycles: ImprovingCycles, value: Any) -> SearchResult:
    """Return the paths with the weight of pairs whose walks improve without end."""
    everything = np.arange(cycles.is_removed.size)
    sources = everything if result.sources is None else result.sources
    targets = everything if result.targets is None else result.targets
    pairs = cycles.join(sources, targets)
    matrix, trees = result.matrix, result.predecessors
    if is_sparse(matrix):
        from scipy.sparse import csr_array

        stored = matrix.tocoo()
        keep = ~pairs[stored.row, stored.col]
        rows, columns = np.nonzero(pairs)
        values = np.append(stored.data[keep], np.full(rows.size, value, stored.dtype))
        ends = np.append(stored.row[keep], rows), np.append(stored.col[keep], columns)
        matrix = csr_array((values, ends), shape=stored.shape)
        matrix.sort_indices()
    else:
        matrix = np.array(matrix)
        matrix[pairs] = value
    if trees is not None:
        trees = np.array(trees)
        trees[cycles.join(sources, everything)] = -9999

    def find(i: int, j: int) -> list[int]:
        return [] if cycles.join(np.array([i]), np.array([j])).any() else result.find(i, j)

    return replace(result, matrix=matrix, predecessors=trees, find=find)


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

    def find_remaining(cycles: ImprovingCycles) -> tuple[Paths, Explanation | None]:
        return find(labelled._replace(matrix=_with_edges(A, cycles.remaining(), semiring), restore=return_unchanged))

    (paths, explanation), cycles, value = _retry(find_remaining, edges, semiring)
    vertices = np.arange(paths.count_of_vertices)
    xp = array_namespace(paths._distances)
    pairs = xp.asarray(cycles.join(vertices, vertices))
    matrix = xp.where(pairs, paths._distances.dtype.type(value), paths._distances)
    trees = paths.predecessors
    if trees is not None:
        trees = array_namespace(trees).where(pairs, np.int32(-9999), trees)
    restored = Paths(labelled.restore(matrix), semiring, trees, names=paths.names, weights=A)
    return restored, explanation
