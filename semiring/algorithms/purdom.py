"""A* of packed truth values by the strong components of their graph: less than n³ wherever there are several.

Sources: P. Purdom, BIT 10 (1970), for the closure by components; A. B. Kahn, Commun. ACM 5 (1962), for the order of an
acyclic graph; L. K. Fleischer, B. Hendrickson, A. Pınar, IPDPS 2000, for components by reaching forward and backward.

The vertices are put in an order in which the matrix is block upper triangular. Pivots then meet the rows before them
and the columns behind them alone: n³/6 pairs for an acyclic graph. The vertices of a strong component have one row and
one column in A*, so one of them is pivot for all, and the others are filled in.

**The order.** An upper triangular matrix has it. Where there are few edges they are listed; vertices that no cycle
reaches are peeled off, and if that leaves some, the host finds the components of all by Tarjan's algorithm. Where there
are many, sets are split: by what a vertex of the set reaches there (each row of bits is read once) and what reaches it
(some sweeps over all rows); those that do both are a strong component. What is left is split again, down to sets as
large as a block of pivots, whose order is as good as any. Once the sweeps took a tenth of the time of n³ pairs, a set
stays as it is, which is right too, and only slower.

Cost: the look, two passes of bits for the permutation and two back, and what the components leave of n³ pairs. The bits
are those of any other closure. Workspace: a block of pivots by n, two strips of columns, and 8 bytes an edge that is
listed, of which there are at most n²/1024.
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

_FEW = 64  # edges a vertex that are listed, at most
_LISTED = 1024  # and one of so many entries
_SPLIT = 4096  # vertices of sets that are not split
#: A sweep over n² bits takes 270 / n of the time of n³ pairs (H200: 3 TB/s, 6.5 P pairs/s), and so a tenth of it these.
_SWEEPS = 0.1 / 270
_CALL = 2.4e9  # and 0.1 ms of the host are this part of a sweep, divided by n²
_ROUNDS = 1 / 60  # of peeling for each vertex: at 3 µs each a tenth of the time of n³ pairs, at n = 131072


class Order(NamedTuple):
    """Vertices in an order in which a matrix is block upper triangular; all on the host."""

    order: Any  # (n,), or None where they are in that order
    bounds: Any  # (count + 1,): where the blocks on the diagonal begin, and n
    strong: Any  # (count,) bool: whether the vertices of a block are known to reach each other

    def __str__(self) -> str:
        count, widest = len(self.strong), int(np.diff(self.bounds).max(initial=0))
        kinds = "vertices, no two of which reach each other" if widest <= 1 else f"parts, the largest of {widest}"
        return f"{count} {kinds}" + (", in topological order" if self.order is None else "")


def order_of(graphs: GraphKernels, words: Array) -> Order | None:
    """An order of the edges that are packed in words (n, ⌈n/32⌉); None where all of them may be one component."""
    n = len(words)
    edges, backward = graphs.count_edges(words)
    if not backward:
        return _apart(None, n)
    if edges > min(_FEW * n, n * n // _LISTED):
        return _by_sweeps(graphs, words)
    order, starts, heads = graphs.peel(words, edges, max(1024, int(n * _ROUNDS)))
    if len(order) == n:
        return _apart(order, n)
    from scipy.sparse import csr_array

    found = strong_components_of_sparse(csr_array((np.ones(edges), heads, starts), shape=(n, n)))
    return Order(found.order, found.bounds, np.ones(len(found), np.bool_))


def _apart(order: Any, n: int) -> Order:
    return Order(order, np.arange(n + 1), np.ones(n, np.bool_))


def close_in_order(engine: Engine, graphs: GraphKernels, words: Array, found: Order) -> None:
    """Words (n, ⌈n/32⌉) ← A* in place, for the order that `order_of` found of them."""
    n, schedule = len(words), schedule_for(engine.backend.name, engine.plan.dtype, engine.plan.storage)
    if found.order is not None:
        graphs.permute_bits(words, found.order)
    width = max(stop - start for start, stop in schedule.blocks(n))
    large = found.strong & (np.diff(found.bounds) > width)
    filled = [(int(found.bounds[i]), int(found.bounds[i + 1])) for i in np.flatnonzero(large)]
    for start, stop in filled:
        graphs.fill_component(words, start, stop)
    if filled != [(0, n)]:
        blocked_floyd_warshall(engine, words, blocks=pivot_blocks(n, filled, width), bounds=found.bounds)
    if found.order is not None:
        graphs.permute_bits(words, np.argsort(found.order))


def pivot_blocks(n: int, filled: list[Range], width: int) -> list[Range]:
    """Blocks of at most ``width`` pivots that begin at multiples of 32: all vertices, but one of each filled range."""
    ends = [0, *(end for start, stop in filled for end in (start + 1, stop)), n]
    blocks: list[Range] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        if start < stop:
            start = max(start // WORD * WORD, blocks[-1][1] if blocks else 0)
            stop = min(n, -(-stop // WORD) * WORD)
            blocks += [(at, min(stop, at + width)) for at in range(start, stop, width)]
    return blocks


# ------------------------------------------------------------------------------------------------- sets of vertices


def _by_sweeps(graphs: GraphKernels, words: Array) -> Order | None:
    """Sets that are split by what a vertex reaches and what reaches it."""
    n = len(words)
    sweeps = _Sweeps(graphs, words)
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


class _Sweeps:
    """Sweeps over the edges, until they have cost what a look may cost."""

    def __init__(self, graphs: GraphKernels, words: Array) -> None:
        self._graphs, self._words = graphs, words
        self._left = len(words) * _SWEEPS
        self._least = _CALL / len(words) ** 2

    def split(self, vertices: Any) -> list[tuple[Any, bool]] | None:
        """A set as parts in their order, each with whether it is a strong component; None where it stays whole."""
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
        """What of some vertices one of them reaches, or what reaches it; None where that takes too many sweeps."""
        graphs, words = self._graphs, self._words
        reached, new = pivot.copy(), pivot
        while new.any() and (asked := vertices & ~reached).any():
            if self._left <= 0:
                return None
            rows = int(np.bitwise_count(new if along else asked).sum())
            self._left -= max(rows / len(words), self._least)
            new = graphs.sweep_along(words, new) if along else graphs.sweep_against(words, new, asked)
            new = new & asked
            reached |= new
        return reached


def _set_of(members: Any, words: int) -> Any:
    own = np.zeros(words * WORD, np.bool_)
    own[members] = True
    return np.packbits(own, bitorder="little").view(np.uint32)


def _members(vertices: Any) -> Any:
    return np.flatnonzero(np.unpackbits(vertices.view(np.uint8), bitorder="little"))
