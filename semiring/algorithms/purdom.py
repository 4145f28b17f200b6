"""Close packed truth values by the strong components of their graph, in less than n³ pairs if there are several.

Sources: P. Purdom, BIT 10 (1970), for the closure by components; A. B. Kahn, Commun. ACM 5 (1962), for the order of an
acyclic graph; L. K. Fleischer, B. Hendrickson, A. Pınar, IPDPS 2000, for components by reaching forward and backward.

The vertices are permuted so that the matrix is block upper triangular. Pivots then meet only the rows before them and
the columns behind them: n³/6 pairs for an acyclic graph. The vertices of a strong component have equal rows and equal
columns in A*. So one vertex is the pivot for its component, and its row and column are copied to the others.

**The order.** An upper triangular matrix is already in such an order. If there are few edges, they are listed, and
vertices that no cycle reaches are peeled off. If vertices remain, the host computes the components of the graph by
Tarjan's algorithm.

If there are many edges, sets of vertices are split around a pivot vertex. One set is reachable from the pivot (each row
of bits is read once); another set reaches the pivot (some sweeps over all rows). Their intersection is a strong
component. The other sets are split again, down to the size of a block of pivots, in which any order is as good. Once
the sweeps took a tenth of the time of n³ pairs, sets are not split further; the result is the same, at a higher cost.

Cost: the search for the order, two passes of bits for the permutation and two back, and the part of n³ pairs that the
components leave. The result is bitwise identical to any other closure. Workspace: a block of pivots by n, two strips of
columns, and 8 bytes a listed edge. At most n²/1024 edges are listed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from semiring.algorithms.blocked_floyd_warshall import Range, blocked_floyd_warshall
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import WORD, Array
from semiring.graphs.components import strong_components_of_sparse
from semiring.kernels.contract import GraphKernels
from semiring.kernels.engine import Engine

__all__ = ["Order", "close_in_order", "order_of", "pivot_blocks"]

_FEW = 64  # the most edges a vertex that are listed
_LISTED = 1024  # at most one of so many entries is listed as an edge
_SPLIT = 4096  # sets of at most this many vertices are not split
#: A sweep over n² bits takes 270 / n of the time of n³ pairs (H200: 3 TB/s, 6.5 P pairs/s), and so a tenth of it these.
_SWEEPS = 0.1 / 270
_CALL = 2.4e9  # and 0.1 ms of the host are this part of a sweep, divided by n²
_ROUNDS = 1 / 60  # of peeling for each vertex: at 3 µs each a tenth of the time of n³ pairs, at n = 131072


class Order(NamedTuple):
    """An order of the vertices in which a matrix is block upper triangular; all arrays are on the host."""

    order: Any  # (n,), or None where the vertices are in that order already
    bounds: Any  # (count + 1,): where the blocks on the diagonal begin, and n
    strong: Any  # (count,) bool: whether the vertices of a block are known to reach each other

    def __str__(self) -> str:
        count, widest = len(self.strong), int(np.diff(self.bounds).max(initial=0))
        kinds = "vertices, no two of which reach each other" if widest <= 1 else f"parts, the largest of {widest}"
        return f"{count} {kinds}" + (", in topological order" if self.order is None else "")


def order_of(graphs: GraphKernels, words: Array) -> Order | None:
    """Return an order of the graph that is packed in words (n, ⌈n/32⌉).

    The result is None where all vertices may be one component.
    """
    n = len(words)
    edges, backward = graphs.count_edges(words)
    if not backward:
        return _singletons(None, n)
    if edges > min(_FEW * n, n * n // _LISTED):
        return _by_sweeps(graphs, words)
    order, starts, heads = graphs.peel(words, edges, max(1024, int(n * _ROUNDS)))
    if len(order) == n:
        return _singletons(order, n)
    from scipy.sparse import csr_array

    components = strong_components_of_sparse(csr_array((np.ones(edges), heads, starts), shape=(n, n)))
    return Order(components.order, components.bounds, np.ones(len(components), np.bool_))


def _singletons(order: Any, n: int) -> Order:
    return Order(order, np.arange(n + 1), np.ones(n, np.bool_))


def close_in_order(engine: Engine, graphs: GraphKernels, words: Array, permutation: Order) -> None:
    """Compute A* in place for words (n, ⌈n/32⌉) whose ``permutation`` is the result of `order_of`."""
    n, schedule = len(words), schedule_for(engine.backend.name, engine.plan.dtype, engine.plan.storage)
    if permutation.order is not None:
        graphs.permute_bits(words, permutation.order)
    width = max(stop - start for start, stop in schedule.blocks(n))
    large = permutation.strong & (np.diff(permutation.bounds) > width)
    filled = [(int(permutation.bounds[i]), int(permutation.bounds[i + 1])) for i in np.flatnonzero(large)]
    for start, stop in filled:
        graphs.fill_component(words, start, stop)
    if filled != [(0, n)]:
        blocked_floyd_warshall(engine, words, blocks=pivot_blocks(n, filled, width), bounds=permutation.bounds)
    if permutation.order is not None:
        graphs.permute_bits(words, np.argsort(permutation.order))


def pivot_blocks(n: int, filled: list[Range], width: int) -> list[Range]:
    """Return blocks of at most ``width`` pivots that begin at multiples of 32.

    The blocks cover all vertices, except that one vertex stands for each filled range.
    """
    ends = [0, *(end for start, stop in filled for end in (start + 1, stop)), n]
    blocks: list[Range] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        if start < stop:
            start = max(start // WORD * WORD, blocks[-1][1] if blocks else 0)
            stop = min(n, -(-stop // WORD) * WORD)
            blocks += [(begin, min(stop, begin + width)) for begin in range(start, stop, width)]
    return blocks


# ------------------------------------------------------------------------------------------------- sets of vertices


def _by_sweeps(graphs: GraphKernels, words: Array) -> Order | None:
    """Return the order of sets that are split by forward and backward reachability."""
    n = len(words)
    sweeps = _ReachabilitySweeps(graphs, words)
    waiting, parts = [(_set_of(range(n), words.shape[1]), False)], []
    while waiting:
        vertices, strong = waiting.pop()
        split = None if strong else sweeps.split(vertices)
        if split is None:
            parts.append((vertices, strong))
        else:
            waiting += [part for part in reversed(split) if part[0].any()]
    if len(parts) == 1 and not parts[0][1]:
        return None
    members = [_members(vertices) for vertices, _ in parts]
    bounds = np.cumsum([0, *map(len, members)])
    order = None if len(parts) == 1 else np.concatenate(members)
    return Order(order, bounds, np.array([strong for _, strong in parts]))


class _ReachabilitySweeps:
    """Sweeps over the edges, within a budget of time."""

    def __init__(self, graphs: GraphKernels, words: Array) -> None:
        self._graphs, self._words = graphs, words
        self._left = len(words) * _SWEEPS
        self._least = _CALL / len(words) ** 2

    def split(self, vertices: Any) -> list[tuple[Any, bool]] | None:
        """Split a set into parts in their order, each with whether it is a strong component.

        The result is None where the set is not split.
        """
        members = _members(vertices)
        if len(members) <= _SPLIT:
            return None
        pivot = _set_of([members[len(members) // 2]], len(vertices))
        behind = self._reach(pivot, vertices, along=True)
        if behind is None:
            return None
        before = self._reach(pivot, vertices, along=False)
        if before is None:
            return None
        both = behind & before
        return [(before & ~both, False), (vertices & ~(before | behind), False), (both, True), (behind & ~both, False)]

    def _reach(self, pivot: Any, vertices: Any, along: bool) -> Any:
        """Return which of some vertices the pivot reaches, or which reach it if ``along`` is false.

        The result is None where that takes too many sweeps.
        """
        graphs, words = self._graphs, self._words
        reached, new = pivot.copy(), pivot
        while new.any() and (candidates := vertices & ~reached).any():
            if self._left <= 0:
                return None
            rows = int(np.bitwise_count(new if along else candidates).sum())
            self._left -= max(rows / len(words), self._least)
            new = graphs.sweep_along(words, new) if along else graphs.sweep_against(words, new, candidates)
            new = new & candidates
            reached |= new
        return reached


def _set_of(members: Any, words: int) -> Any:
    own = np.zeros(words * WORD, np.bool_)
    own[members] = True
    return np.packbits(own, bitorder="little").view(np.uint32)


def _members(vertices: Any) -> Any:
    return np.flatnonzero(np.unpackbits(vertices.view(np.uint8), bitorder="little"))
