"""Count and list the best paths of a pair, where several have the same weight.

An edge u → v is *tight* from a source s if D[s, u] ⊗ w(u, v) = D[s, v]. If ⊗ is cancellative on the weights, the best
walks from s to t are the walks of tight edges that lead to t. A cycle of tight edges then has the weight 1̄. Without
such cycles the tight edges of a source have a topological order, and the number of best paths is a sum over them. With
cycles infinitely many walks are best, and counts are refused.

In max_min and min_max an edge may be better than the path, and an edge is tight for s and t if the best walk over it is
best. To count the best simple paths is #P-hard there (L. G. Valiant, "The complexity of enumeration and reliability
problems", SIAM J. Comput. 8, 1979). `list_paths` lists them with polynomial delay: a search in depth goes on only to
vertices from which the target can still be reached.

Floats are equal within ``rtol``. A sum of h numbers ≥ 0 is within (h - 1) ε / 2 of the exact sum. So two sums of the
same weight are within h ε of each other. The default is ε times the number of edges of the longest best path. Rounding
may leave a vertex without a tight edge, for example with ``rtol=0``. Then the best of its edges are tight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_plus, max_times, min_plus, min_times
from semiring.algebra.expressions.tree import is_half
from semiring.arrays.memory import demand_memory
from semiring.arrays.parts import pieces, to_host_array
from semiring.arrays.scans import Scan
from semiring.errors import AlgebraError, DivergenceError, DTypeError, IntegerOverflowError, cycle_text
from semiring.kernels import backend_for
from semiring.kernels.contract import has_operation
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import SparseEntries, keep_edges, relevant_edges
from semiring.sparse.symbolic_factor import Pattern
from semiring.thread_counts import get_threads

__all__ = [
    "PathGraph",
    "check_dtype",
    "check_rtol",
    "host_floats",
    "list_paths",
    "make_edges",
    "require_countable",
]

Array = NDArray[Any]

_ENTRIES = 1 << 18  # entries of a matrix that are compared at a time
_COUNTABLE = (min_plus, max_plus, max_times, min_times)  # ⊗ is cancellative on all weights but 0̄


def require_countable(semiring: Semiring) -> None:
    """Raise `AlgebraError` unless ⊗ is known to be cancellative, so that tight edges count best paths."""
    if semiring not in _COUNTABLE:
        raise AlgebraError(
            f"best paths are counted in min_plus, max_plus, max_times and min_times, where a path of best parts is "
            f"best, and not in {semiring.name}: all_paths lists them"
        )


def check_rtol(rtol: Any) -> None:
    """Raise `TypeError` or `ValueError` unless ``rtol`` is None or a number from 0 to below 1."""
    if rtol is None:
        return
    if isinstance(rtol, bool) or not isinstance(rtol, int | float | np.integer | np.floating):
        raise TypeError(f"rtol is {quote(rtol)}: give a number, 0 for equal sums only, or None")
    if not 0 <= rtol < 1:
        raise ValueError(f"rtol is {rtol}: give a number from 0 to below 1")


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of counts. Raises `DTypeError` for another than int64 and float64."""
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        result = np.dtype(object)
    if result not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise DTypeError(f"counts are int64 or float64, not {quote(dtype)}")
    return result


def host_floats(array: Any) -> Array:
    """Return an array on the host, float16 and bfloat16 as float32, because kernels have no such scalars."""
    host: Array = to_host_array(array)
    return host.astype(np.float32) if is_half(host.dtype) else host


def make_edges(n: int, tails: Array, heads: Array, weights: Array) -> SparseEntries:
    """Return the edges among n vertices, which are sorted by tail and head."""
    starts = np.searchsorted(tails, np.arange(n + 1)).astype(np.int64)
    return SparseEntries(Pattern(n, starts, heads.astype(np.int32)), weights, None, Scan())


def _is_tight(semiring: Semiring, x: Any, w: Any, y: Any, rtol: float) -> Array:
    """Return where x ⊗ w is y within ``rtol``, as `semiring.kernels.cpu.tight_counts.is_tight` does."""
    value = np.asarray(semiring.mul(x, w))
    is_equal: Array = value == y
    if rtol:
        size = np.abs(x) + np.abs(w) if semiring.tropical is not None else np.abs(value)
        is_equal = is_equal | (np.abs(value - y) <= rtol * np.maximum(size, np.abs(y)))
    return is_equal


@dataclass(frozen=True, eq=False)
class PathGraph:
    """The edges of a graph and the distances between its vertices, which determine its ties and ranked paths.

    Attributes
    ----------
    semiring
        The semiring that combines and compares weights.
    weights
        The edges, as sparse entries or a matrix (n, n), in the dtype of the distances on the host.
    distances_from
        Returns the distances (p, n) from p vertices, for an array of their numbers.
    distances_to
        Returns the distances (n,) to a vertex.
    name
        Returns the name of a vertex.
    default_rtol
        Returns the rounding of two sums along the longest best path, relative to their size.
    """

    semiring: Semiring
    weights: SparseEntries | Array
    distances_from: Callable[[Array], Array]
    distances_to: Callable[[int], Array]
    name: Callable[[int], Any]
    default_rtol: Callable[[], float]

    @property
    def zero(self) -> Any:
        """The weight of "no edge"."""
        return self.semiring.zero_for(self.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the weights."""
        own = self.weights
        return own.values.dtype if isinstance(own, SparseEntries) else own.dtype

    def tolerance(self, rtol: float | None) -> float:
        """Return ``rtol``, or the default for None, and 0 except for floats. Raises `TypeError` and `ValueError`."""
        check_rtol(rtol)
        if self.dtype.kind != "f":
            return 0.0
        return self.default_rtol() if rtol is None else float(rtol)

    def select(self, is_selected: Callable[[Array, Array, Array], Any], *, has_loops: bool = False) -> SparseEntries:
        """Return the edges for which ``is_selected(tails, heads, weights)`` is true, loops only if ``has_loops``.

        Of a matrix it receives tails (r, 1), heads (n,) and weights (r, n), and else m numbers each.
        """
        with np.errstate(all="ignore"):
            if isinstance(self.weights, SparseEntries):
                pattern = self.weights.pattern
                ends = pattern.rows, pattern.indices
                is_allowed = has_loops | (ends[0] != ends[1])
                return keep_edges(self.weights, is_allowed & is_selected(*ends, self.weights.values))
            n = len(self.weights)
            places = [np.empty(0, np.int64)]
            for rows in pieces(self.weights, _ENTRIES):
                block, tails = self.weights[rows], np.arange(rows.start, rows.stop)
                mask = (block != self.zero) & is_selected(tails[:, np.newaxis], np.arange(n), block)
                if not has_loops:
                    mask[tails - rows.start, tails] = False
                places.append(np.flatnonzero(mask) + n * rows.start)
        tails, heads = np.divmod(np.concatenate(places), max(1, n))
        return make_edges(n, tails, heads, self.weights[tails, heads])

    def between(self, source: int, target: int) -> SparseEntries:
        """Return the edges on walks from a source to a target, loops too."""
        after = self.distances_from(np.array([source]))[0] != self.zero
        before = self.distances_to(target) != self.zero
        return self.select(lambda tails, heads, _: after[tails] & before[heads], has_loops=True)

    def direct_edges(self, D: Array, rtol: float) -> SparseEntries:
        """Return the edges that are themselves best paths, for distances D (n, n).

        With ``rtol`` these are all edges that may be tight in some row. They differ from the distance of their ends by
        no more than rounding does at the size of the largest distance.
        """
        slack = 4 * rtol * _largest(D) if rtol else 0.0

        def is_direct(tails: Array, heads: Array, weights: Array) -> Array:
            distances = D[tails, heads] if tails.ndim == 1 else D[tails[0, 0] : tails[-1, 0] + 1]
            is_equal: Array = weights == distances
            return is_equal | (np.abs(weights - distances) <= slack) if slack else is_equal

        return self.select(is_direct)

    def tight_edges(self, source: int | None, target: int | None, rtol: float | None) -> SparseEntries:
        """Return the tight edges between two vertices, or from or to one; none from a vertex to itself."""
        tolerance, zero, semiring = self.tolerance(rtol), self.zero, self.semiring
        if source is None:
            assert target is not None
            return self._tight_from(target, self.distances_to(target), tolerance, backwards=True)
        x = self.distances_from(np.array([source]))[0]
        if target is None:
            return self._tight_from(source, x, tolerance)
        best = x[target]
        if source == target or best == zero:
            return make_edges(x.size, np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, self.dtype))
        if semiring in _COUNTABLE:
            tight = self._tight_from(source, x, tolerance)
        else:
            y = self.distances_to(target)

            def is_best(tails: Array, heads: Array, weights: Array) -> Any:
                is_open = (x[tails] != zero) & (y[heads] != zero)
                return is_open & _is_tight(semiring, x[tails], semiring.mul(weights, y[heads]), best, tolerance)

            tight = self.select(is_best)
        return _between(tight, source, target)

    def _tight_from(self, vertex: int, D: Array, rtol: float, *, backwards: bool = False) -> SparseEntries:
        """Return the tight edges for the distances D (n,) from a vertex, or ``backwards`` for those to it."""
        zero, semiring = self.zero, self.semiring

        def is_tight(tails: Array, heads: Array, weights: Array) -> Any:
            near, far = (heads, tails) if backwards else (tails, heads)
            return (D[near] != zero) & (D[far] != zero) & _is_tight(semiring, D[near], weights, D[far], rtol)

        tight = self.select(is_tight)
        ends = tight.pattern.rows if backwards else tight.pattern.indices
        is_missing = zero != D
        is_missing[ends] = is_missing[vertex] = False
        if semiring not in _COUNTABLE or not is_missing.any():
            return tight

        def ends_there(tails: Array, heads: Array, _: Array) -> Any:
            near, far = (heads, tails) if backwards else (tails, heads)
            return (D[near] != zero) & is_missing[far]

        more = self.select(ends_there)
        near, far = (more.pattern.rows, more.pattern.indices)[:: -1 if backwards else 1]
        offers = np.asarray(semiring.mul(D[near], more.values))
        best = np.full(D.size, zero, self.dtype)
        (np.minimum if zero > semiring.one_for(self.dtype) else np.maximum).at(best, far, offers)
        more = keep_edges(more, offers == best[far])
        tails = np.concatenate([tight.pattern.rows, more.pattern.rows])
        heads = np.concatenate([tight.pattern.indices, more.pattern.indices])
        weights = np.concatenate([tight.values, more.values])
        order = np.lexsort((heads, tails))
        return make_edges(D.size, tails[order], heads[order], weights[order])

    def count(self, source: int, target: int, rtol: float | None) -> int:
        """Return the number of best paths. Raises `DivergenceError` for a cycle that leaves the weight as it is."""
        edges = self.tight_edges(source, None if source == target else target, rtol)
        return self._count_walks(_between(edges, source, target).pattern, source, target, self.tolerance(rtol))

    def _count_walks(self, edges: Pattern, source: int, target: int, rtol: float) -> int:
        """Return the number of walks between two vertices over tight edges, each of which is on one of them."""
        if cycle := _find_cycle(edges):
            raise self._cycle_error(cycle, rtol)
        counts: dict[int, int] = {target: 1}
        stack = [source]
        while stack:
            vertex = stack[-1]
            missing = [head for head in _heads(edges, vertex) if head not in counts]
            if vertex in counts:
                stack.pop()
            elif missing:
                stack += missing
            else:
                counts[vertex] = sum(counts[head] for head in _heads(edges, vertex))
                stack.pop()
        return counts[source]

    def _cycle_error(self, cycle: list[int], rtol: float) -> DivergenceError:
        """Return the error for a cycle that leaves the weight of a walk as it is."""
        least = cycle.index(min(cycle))
        names = [self.name(vertex) for vertex in cycle[least:] + cycle[:least]]
        within = f" within rtol={rtol:.2g}" if rtol else ""
        return DivergenceError(
            f"the cycle {cycle_text(names)} leaves the weight of a walk as it is{within}, so infinitely many walks are "
            "best: all_paths lists the simple ones",
            cycle=cycle,
        )

    def count_rows(self, roots: Array, edges: SparseEntries, dtype: np.dtype[Any], rtol: float) -> Array:
        """Return the number (p, n) of best paths from the vertices ``roots`` (p,) to each vertex.

        ``edges`` are all edges, or those that may be tight. Raises `DivergenceError` for a cycle of tight edges, and
        `IntegerOverflowError`.
        """
        n = edges.pattern.n
        demand_memory(16 * roots.size * n, f"the numbers of paths of {roots.size * n:,} pairs", "name fewer vertices")
        rows, counts = self.distances_from(roots), np.empty((roots.size, n), dtype)
        kernels = backend_for(None, self.semiring, self.dtype).capabilities.paths
        if kernels is None or not has_operation(kernels, "count_paths"):
            for row, root, own in zip(rows, roots.tolist(), counts, strict=True):
                tight = self._tight_from(root, row, rtol)
                if cycle := _find_cycle(tight.pattern):
                    raise self._cycle_error(cycle, rtol)
                for vertex in range(n):
                    reaching = _between(tight, root, vertex).pattern
                    own[vertex] = self._count_walks(reaching, root, vertex, rtol) if row[vertex] != self.zero else 0
            return counts
        first, tails, places = edges.pattern.columns
        plan = make_plan(self.semiring, self.dtype, threads=get_threads())
        failed, number, reason = kernels.count_paths(
            *(plan, np.ascontiguousarray(rows), roots, (first, tails, edges.values[places])),
            *(self.dtype.type(self.zero), float(rtol), self.semiring.tropical is None, counts),
        )
        if failed < 0:
            return counts
        if reason == 1:
            raise IntegerOverflowError(
                f"more than 2⁶³ best paths lead from {self.name(int(roots[failed]))} to {self.name(number)}: pass "
                "dtype='float64', or call count, which has no bound"
            )
        raise self._cycle_error(counts[failed, :number].astype(np.int64).tolist(), rtol)


def _largest(D: Array) -> float:
    """Return the magnitude of the largest finite entry of a matrix, or 0."""
    blocks = (D[rows] for rows in pieces(D, _ENTRIES))
    return max((float(np.abs(block).max(initial=0.0, where=np.isfinite(block))) for block in blocks), default=0.0)


def _between(edges: SparseEntries, source: int, target: int) -> SparseEntries:
    return relevant_edges(edges, np.array([source]), np.array([target])) or edges


def _heads(edges: Pattern, vertex: int) -> list[int]:
    """Return the heads of the edges of a vertex, ascending."""
    heads: list[int] = edges.indices[edges.starts[vertex] : edges.starts[vertex + 1]].tolist()
    return heads


def _find_cycle(edges: Pattern) -> list[int]:
    """Return the vertices of a cycle of edges, or [] if there is none."""
    state = np.zeros(edges.n, np.int8)
    for first in np.flatnonzero(np.diff(edges.starts)).tolist():
        if state[first]:
            continue
        path, places = [first], [int(edges.starts[first])]
        state[first] = 1
        while path:
            vertex = path[-1]
            if places[-1] == edges.starts[vertex + 1]:
                state[vertex] = 2
                path.pop()
                places.pop()
                continue
            head = int(edges.indices[places[-1]])
            places[-1] += 1
            if state[head] == 1:
                return path[path.index(head) :]
            if state[head] == 0:
                state[head] = 1
                path.append(head)
                places.append(int(edges.starts[head]))
    return []


def list_paths(tight: SparseEntries, source: int, target: int) -> Iterator[list[int]]:
    """Yield the simple paths over tight edges between a source and a target, in lexicographic order.

    The delay between two paths is O(n · m) where the edges have cycles, else O(n) for each.
    """
    if source == target:
        yield [source]
        return
    edges = _between(tight, source, target).pattern
    has_cycle = bool(_find_cycle(edges))
    path, on_path = [source], {source}
    waiting = [iter(_heads(edges, source))]
    while waiting:
        vertex = next(waiting[-1], None)
        if vertex is None:
            waiting.pop()
            on_path.discard(path.pop())
        elif vertex == target:
            yield [*path, target]
        elif vertex not in on_path and (not has_cycle or _reaches(edges, vertex, target, on_path)):
            path.append(vertex)
            on_path.add(vertex)
            waiting.append(iter(_heads(edges, vertex)))


def _reaches(edges: Pattern, vertex: int, target: int, avoided: set[int]) -> bool:
    """Return whether a walk leads from a vertex to the target that avoids some vertices."""
    seen, waiting = {vertex, *avoided}, [vertex]
    while waiting:
        for head in _heads(edges, waiting.pop()):
            if head == target:
                return True
            if head not in seen:
                seen.add(head)
                waiting.append(head)
    return False
