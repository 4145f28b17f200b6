"""Find the strong components with a cycle that improves without end, and the pairs of vertices that they join.

The walks from one vertex to another improve without end if the first reaches such a component, and the component
reaches the second. The walks of all other pairs meet no vertex of such a component, so their best walks are those of
the edges between the remaining vertices.

Cost: a search for cycles in each strong component with improving edges. A question about pairs costs two searches for
each source in a component of its own, or for each component with such a cycle, if these are fewer.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.errors import AlgebraError, DivergenceError, DTypeError, NegativeCycleError, UnknownNameError, cycle_text
from semiring.sparse.edge_inputs import SparseEntries, keep_edges, reached_vertices
from semiring.sparse.mixed_signs import find_potentials, raise_for_negative_cycle

__all__ = ["ImprovingCycles", "check_on_cycle", "unbounded_value"]

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


def unbounded_value(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return the weight of walks that improve without end. Raises `DTypeError` for a dtype without it."""
    if not is_floating(dtype):
        raise DTypeError(
            f"on_cycle='unbounded' needs weights of floats, because {dtype} has no infinite weight: pass "
            "A.astype(float)"
        )
    return -semiring.zero_for(np.dtype(np.float64))


class ImprovingCycles:
    """The strong components of a graph with a cycle that improves without end.

    Attributes
    ----------
    is_removed
        A mask (n,) of the vertices of these components.
    errors
        An error that names a cycle, for each of these components.
    """

    def __init__(self, edges: SparseEntries, semiring: Semiring) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        pattern, self.edges = edges.pattern, edges
        graph = csr_array(
            (np.ones(pattern.indices.size, np.int8), pattern.indices, pattern.starts), shape=(pattern.n,) * 2
        )
        self.component: Array = connected_components(graph, connection="strong")[1]
        self.errors: dict[int, DivergenceError] = {}
        if semiring.tropical is not None:
            self._find_components(1 if semiring.tropical == "min" else -1)
        self.is_removed = np.isin(self.component, list(self.errors))

    def _find_components(self, sign: int) -> None:
        """Record the components in which a search finds a cycle."""
        tails, heads, values = self.edges.pattern.rows, self.edges.pattern.indices, self.edges.values
        inside = np.flatnonzero(self.component[tails] == self.component[heads])
        inside = inside[np.argsort(self.component[tails[inside]], kind="stable")]
        labels, firsts = np.unique(self.component[tails[inside]], return_index=True)
        for label, own in zip(labels.tolist(), np.split(inside, firsts[1:]), strict=labels.size > 0):
            weights = values[own].astype(np.float64)
            if not (sign * weights < 0).any():
                continue
            vertices = np.unique(tails[own])
            ends = np.searchsorted(vertices, tails[own]), np.searchsorted(vertices, heads[own])
            search: Any = raise_for_negative_cycle if bool((weights == np.rint(weights)).all()) else find_potentials
            try:
                search(vertices.size, *ends, weights, sign)
            except NegativeCycleError as error:
                cycle = vertices[list(error.cycle)].tolist()
                self.errors[label] = type(error)(str(error).replace(cycle_text(error.cycle), cycle_text(cycle)), cycle)

    def remove(self, error: DivergenceError) -> None:
        """Record the component of the vertex of an error. Raises the error if that component is recorded already."""
        vertex = error.cycle[0] if error.cycle else error.vertex
        if vertex is None or self.is_removed[vertex]:
            raise error
        self.errors[int(self.component[vertex])] = error
        self.is_removed |= self.component == self.component[vertex]
        self.__dict__.pop("_ends", None)

    @property
    def has_remaining_ends(self) -> Array:
        """A mask of the edges between the remaining vertices."""
        pattern = self.edges.pattern
        mask: Array = ~(self.is_removed[pattern.rows] | self.is_removed[pattern.indices])
        return mask

    def remaining(self) -> SparseEntries:
        """Return the edges between the remaining vertices."""
        return keep_edges(self.edges, self.has_remaining_ends)

    def before(self, vertices: Array) -> Array:
        """Return a mask (n,) of the vertices that reach some vertices."""
        first, tails, _ = self.edges.pattern.columns
        return reached_vertices(first, tails, vertices)

    def after(self, vertices: Array) -> Array:
        """Return a mask (n,) of the vertices that some vertices reach."""
        return reached_vertices(self.edges.pattern.starts, self.edges.pattern.indices, vertices)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Masks (n,) of the vertices before and after the components."""
        removed = np.flatnonzero(self.is_removed)
        return self.before(removed), self.after(removed)

    @property
    def starts(self) -> Array:
        """A mask (n,) of the vertices from which some walks improve without end."""
        return self._ends[0]

    def join_any(self, vertices: Array, *, is_forward: bool) -> Array:
        """Return a mask (n,) of the vertices with walks to some vertices that improve without end, or from them."""
        reach = self.after if is_forward else self.before
        if not self._ends[not is_forward][vertices].any():
            return np.zeros(self.is_removed.size, np.bool_)
        return reach(np.flatnonzero(reach(vertices) & self.is_removed))

    def join(self, sources: Array, targets: Array, *, is_paired: bool = False) -> Array:
        """Return a mask (p, q) of the pairs whose walks improve without end.

        With ``is_paired`` it is (p,), of the pairs of each source with the target in its place.
        """
        result = np.zeros(sources.size if is_paired else (sources.size, targets.size), np.bool_)
        before, after = self._ends
        starting = before[sources]
        if not (starting.any() and after[targets].any()):
            return result
        labels, firsts = np.unique(self.component[sources], return_index=True)
        chosen = starting[firsts]
        if np.count_nonzero(chosen) <= len(self.errors):
            for label, vertex in zip(labels[chosen].tolist(), sources[firsts[chosen]].tolist(), strict=True):
                ends = self.after(np.flatnonzero(self.after(np.array([vertex])) & self.is_removed))[targets]
                rows = self.component[sources] == label
                result[rows] = ends[rows] if is_paired else ends
            return result
        _, representatives = np.unique(self.component, return_index=True)
        for vertex in representatives[list(self.errors)].tolist():
            starts, ends = self.before(np.array([vertex]))[sources], self.after(np.array([vertex]))[targets]
            result |= starts & ends if is_paired else starts[:, np.newaxis] & ends
        return result

    def error_between(self, sources: Array, targets: Array | None) -> DivergenceError:
        """Return the error of a component on a walk from a source to a target. None: all vertices."""
        between = self.after(sources) & self.is_removed
        if targets is not None:
            between &= self.before(targets)
        return self.errors[int(self.component[np.flatnonzero(between)[0]])]
