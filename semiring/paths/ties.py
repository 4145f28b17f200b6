"""Count and list the best paths of a pair, where several have the same weight.

An edge u → v is *tight* from a source s if D[s, u] ⊗ w(u, v) = D[s, v]. The best paths from s to t are the simple paths
of tight edges that lead to t. If ⊗ is cancellative on the weights, each walk of tight edges is best, and a circle of
them has the weight 1̄. Without such circles the tight edges of a source have a topological order, and the number of best
paths is a sum over them. With circles infinitely many walks are best, and counts are refused.

In max_min and min_max an edge may be better than the path, and to count the best simple paths is #P-hard (L. G.
Valiant, "The complexity of enumeration and reliability problems", SIAM J. Comput. 8, 1979). `all_paths` lists them with
polynomial delay: a search in depth goes on only to vertices from which the target can still be reached.

Floats are equal within ``rtol``: a sum of h numbers ≥ 0 is within (h - 1) ε / 2 of the exact sum, so two sums of the
same weight are within h ε of each other. The default is ε times the number of edges of the longest best path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_plus, max_times, min_plus, min_times
from semiring.algebra.expressions.tree import float_limits, is_floating, is_half
from semiring.arrays.parts import pieces, to_host_array
from semiring.errors import AlgebraError, DivergenceError, DTypeError, IntegerOverflowError, cycle_text
from semiring.kernels import backend_for
from semiring.kernels.contract import has_operation
from semiring.kernels.engine import make_plan
from semiring.sparse.edge_inputs import reached_vertices
from semiring.thread_counts import get_threads

if TYPE_CHECKING:
    from semiring.paths.result import Paths

__all__ = [
    "TightEdges",
    "check_dtype",
    "check_rtol",
    "count_pair",
    "count_rows",
    "default_rtol",
    "dense_blocks",
    "find_direct_edges",
    "find_tight_edges",
    "in_wide_floats",
    "list_paths",
    "require_countable",
]

Array = NDArray[Any]

_ENTRIES = 1 << 20  # entries of a matrix that are compared at a time
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


class TightEdges:
    """Edges (tails, heads, weights), by tail and head ascending, among n vertices."""

    def __init__(self, n: int, tails: Array, heads: Array, weights: Array) -> None:
        self.n, self.tails, self.heads, self.weights = n, tails, heads, weights
        self.starts = np.searchsorted(tails, np.arange(n + 1)).astype(np.int64)

    def select(self, mask: Array) -> TightEdges:
        """Return the edges of a mask."""
        return TightEdges(self.n, self.tails[mask], self.heads[mask], self.weights[mask])

    def between(self, source: int, target: int) -> TightEdges:
        """Return the edges on walks from a source to a target."""
        order = np.argsort(self.heads, kind="stable")
        first = np.searchsorted(self.heads[order], np.arange(self.n + 1)).astype(np.int64)
        after = reached_vertices(self.starts, self.heads, np.array([source]))
        before = reached_vertices(first, self.tails[order], np.array([target]))
        kept = after & before
        return self.select(kept[self.tails] & kept[self.heads])

    def following(self, vertex: int) -> list[int]:
        """Return the heads of the edges of a vertex, ascending."""
        heads: list[int] = self.heads[self.starts[vertex] : self.starts[vertex + 1]].tolist()
        return heads


def _is_tight(semiring: Semiring, x: Any, w: Any, y: Any, rtol: float) -> Array:
    """Return where x ⊗ w is y within ``rtol``, for values other than 0̄."""
    with np.errstate(all="ignore"):
        value = np.asarray(semiring.mul(x, w))
        is_equal: Array = value == y
        if rtol:
            adds = semiring.tropical is not None
            size = np.abs(x) + np.abs(w) if adds else np.abs(value)
            is_equal = is_equal | (np.abs(value - y) <= rtol * np.maximum(size, np.abs(y)))
    return is_equal


def find_tight_edges(
    semiring: Semiring,
    edges: Iterator[tuple[Array, Array, Array]],
    n: int,
    from_source: Array | None,
    to_target: Array | None,
    best: Any,
    rtol: float,
) -> TightEdges:
    """Return the tight edges, from blocks (tails, heads, weights) of all edges in order.

    from_source (n,) are the distances from a source, and to_target (n,) those to a target. With both, ``best`` is the
    distance between them, and the edges lie on best walks. Loops are left out.
    """
    parts = []
    for tails, heads, weights in edges:
        zero = semiring.zero_for(weights.dtype)
        if from_source is not None:
            x = from_source[tails]
            mask = (x != zero) & (tails != heads)
            if to_target is None:
                y = from_source[heads]
                mask &= y != zero
                mask[mask] = _is_tight(semiring, x[mask], weights[mask], y[mask], rtol)
            else:
                z = to_target[heads]
                mask &= z != zero
                with np.errstate(all="ignore"):
                    rest = np.asarray(semiring.mul(weights[mask], z[mask]))
                mask[mask] = _is_tight(semiring, x[mask], rest, np.broadcast_to(best, rest.shape), rtol)
        else:
            assert to_target is not None
            x, y = to_target[heads], to_target[tails]
            mask = (x != zero) & (y != zero) & (tails != heads)
            mask[mask] = _is_tight(semiring, weights[mask], x[mask], y[mask], rtol)
        parts.append((tails[mask], heads[mask], weights[mask]))
    tails, heads, weights = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return TightEdges(n, tails, heads, weights)


def find_direct_edges(semiring: Semiring, weights: Array, D: Array, rtol: float) -> TightEdges:
    """Return the edges that are themselves best paths, of matrices (n, n), without loops.

    With ``rtol`` these are all edges that may be tight in some row: they differ from the distance of their ends by no
    more than rounding does at the size of the largest distance.
    """
    mask = weights == D
    if rtol and D.size:
        with np.errstate(all="ignore"):
            largest = float(np.abs(D).max(initial=0.0, where=np.isfinite(D)))
            mask |= np.abs(weights - D) <= 4 * rtol * largest
    mask &= weights != semiring.zero_for(weights.dtype)
    np.fill_diagonal(mask, False)
    tails, heads = np.nonzero(mask)
    return TightEdges(len(D), tails, heads, weights[tails, heads])


def dense_blocks(weights: Array, zero: Any) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the edges (tails, heads, weights) of a matrix (n, n), some rows at a time."""
    for rows in pieces(weights, _ENTRIES):
        block = to_host_array(weights[rows])
        tails, heads = np.nonzero(block != zero)
        yield tails + rows.start, heads, block[tails, heads]


def _find_circle(edges: TightEdges) -> list[int]:
    """Return the vertices of a circle of edges, or [] if there is none."""
    state = np.zeros(edges.n, np.int8)
    for first in range(edges.n):
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
            head = int(edges.heads[places[-1]])
            places[-1] += 1
            if state[head] == 1:
                return path[path.index(head) :]
            if state[head] == 0:
                state[head] = 1
                path.append(head)
                places.append(int(edges.starts[head]))
    return []


def circle_error(paths: Paths, circle: list[int], rtol: float) -> DivergenceError:
    """Return the error for a circle that leaves the weight of a walk as it is."""
    least = circle.index(min(circle))
    names = [paths.name(vertex) for vertex in circle[least:] + circle[:least]]
    within = f" within rtol={rtol:.2g}" if rtol else ""
    return DivergenceError(
        f"the cycle {cycle_text(names)} leaves the weight of a walk as it is{within}, so infinitely many walks are "
        "best: all_paths lists the simple ones",
        cycle=circle,
    )


def count_pair(paths: Paths, edges: TightEdges, source: int, target: int, rtol: float) -> int:
    """Return the number of walks over tight edges from a source to a target. Raises `DivergenceError` for a circle."""
    own = edges.between(source, target)
    circle = _find_circle(own)
    if circle:
        raise circle_error(paths, circle, rtol)
    counts: dict[int, int] = {target: 1}
    stack = [source]
    while stack:
        vertex = stack[-1]
        missing = [head for head in own.following(vertex) if head not in counts]
        if vertex in counts:
            stack.pop()
        elif missing:
            stack += missing
        else:
            counts[vertex] = sum(counts[head] for head in own.following(vertex))
            stack.pop()
    return counts[source]


def list_paths(edges: TightEdges, source: int, target: int) -> Iterator[list[int]]:
    """Yield the simple paths over the edges between a source and a target, in lexicographic order.

    The delay between two paths is O(n · m) where the edges have circles, else O(n) for each.
    """
    if source == target:
        yield [source]
        return
    own = edges.between(source, target)
    has_circle = bool(_find_circle(own))
    path, on_path = [source], {source}
    waiting = [iter(own.following(source))]
    while waiting:
        vertex = next(waiting[-1], None)
        if vertex is None:
            waiting.pop()
            on_path.discard(path.pop())
        elif vertex == target:
            yield [*path, target]
        elif vertex not in on_path and (not has_circle or _reaches(own, vertex, target, on_path)):
            path.append(vertex)
            on_path.add(vertex)
            waiting.append(iter(own.following(vertex)))


def _reaches(edges: TightEdges, vertex: int, target: int, avoided: set[int]) -> bool:
    """Return whether a walk leads from a vertex to the target that avoids some vertices."""
    seen, waiting = {vertex, *avoided}, [vertex]
    while waiting:
        for head in edges.following(waiting.pop()):
            if head == target:
                return True
            if head not in seen:
                seen.add(head)
                waiting.append(head)
    return False


def count_rows(
    paths: Paths, semiring: Semiring, rows: Array, roots: Array, edges: TightEdges, dtype: np.dtype[Any], rtol: float
) -> Array:
    """Return the number (p, n) of best paths to each vertex, for distances ``rows`` (p, n) from the vertices ``roots``.

    ``edges`` may be all edges, or those that are best paths. Raises `DivergenceError` for a circle of tight edges, and
    `IntegerOverflowError`.
    """
    order = np.argsort(edges.heads, kind="stable")
    starts = np.searchsorted(edges.heads[order], np.arange(edges.n + 1)).astype(np.int64)
    into = starts, edges.tails[order].astype(np.int32), edges.weights[order]
    counts = np.empty(rows.shape, dtype)
    backend = backend_for(None, semiring, rows.dtype)
    kernels = backend.capabilities.paths
    if kernels is None or not has_operation(kernels, "count_paths"):
        for row, root, own in zip(rows, roots.tolist(), counts, strict=True):
            blocks = iter([(edges.tails, edges.heads, edges.weights)])
            tight = find_tight_edges(semiring, blocks, edges.n, row, None, None, rtol)
            if circle := _find_circle(tight):
                raise circle_error(paths, circle, rtol)
            reached = np.flatnonzero(row != semiring.zero_for(row.dtype)).tolist()
            values = {vertex: count_pair(paths, tight, root, vertex, rtol) for vertex in reached}
            own[:] = [values.get(vertex, 0) for vertex in range(edges.n)]
        return counts
    plan = make_plan(semiring, rows.dtype, threads=get_threads())
    zero = rows.dtype.type(semiring.zero_for(rows.dtype))
    failed, vertex, reason = kernels.count_paths(
        plan, np.ascontiguousarray(rows), roots, into, zero, float(rtol), semiring.tropical is None, counts
    )
    if failed < 0:
        return counts
    if reason == 1:
        raise IntegerOverflowError(
            f"more than 2⁶³ best paths lead from {paths.name(int(roots[failed]))} to {paths.name(vertex)}: pass "
            "dtype='float64', or call count, which has no bound"
        )
    blocks = iter([(edges.tails, edges.heads, edges.weights)])
    tight = find_tight_edges(semiring, blocks, edges.n, rows[failed], None, None, rtol)
    raise circle_error(paths, _find_circle(tight), rtol)


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of counts. Raises `DTypeError` for another than int64 and float64."""
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        result = np.dtype(object)
    if result not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise DTypeError(f"counts are int64 or float64, not {quote(dtype)}")
    return result


def in_wide_floats(array: Array) -> Array:
    """Return float16 and bfloat16 as float32, because kernels have no such scalars."""
    return array.astype(np.float32) if is_half(array.dtype) else array


def default_rtol(dtype: np.dtype[Any], longest: int) -> float:
    """Return the tolerance of two sums of weights along paths of up to ``longest`` edges."""
    return float(float_limits(dtype).eps) * max(1, longest) if is_floating(dtype) else 0.0
