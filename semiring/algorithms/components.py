"""Strong components: the parts of a graph inside which every vertex reaches every other.

Sources: R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1 (1972); E. Nuutila and E.
Soisalon-Soininen, Inf. Process. Lett. 49 (1994), for one number a vertex.

**Numbering.** Components are counted in a topological order: every edge between two of them leads from the lower
number to the higher one. Inside a component vertices keep their order. So under `Components.order` a matrix is block
upper triangular; no cycle leaves a block, and what a block holds depends on the edges of that block alone.

Whether there is more than one component is asked first, by a breadth-first search there and back: in a dense matrix
some dozen rows and columns answer. The components of at most `_SPARSE` rows are then found by SciPy, from a sparse copy
that is no larger than a panel; those of more by Tarjan's algorithm on rows as they are.

Cost: O(n²) for a matrix, O(n + m) for m sparse edges; workspace O(n · panel), on a device n² bits on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.algorithms.views import Array
from semiring.arrays.parts import each_row, each_unpacked, on_host
from semiring.namespaces import array_namespace

__all__ = ["Components", "join_components", "of_sparse", "of_words", "permute", "strong_components"]

_SPARSE = 512  # rows: a sparse copy of as many is no larger than a panel, and SciPy is faster than Python there
_TOGETHER, _ROUNDS = 32, 64  # rows a round of the breadth-first search, and rounds before it gives up
_PANEL = 512  # rows or columns that are permuted at a time
_ACYCLIC = 192  # single vertices that one kernel closes together


@dataclass(frozen=True)
class Components:
    """The vertices of n by components, and where each component begins; both in the memory of the host."""

    order: Array  # (n,) the vertices, component after component
    bounds: Array  # (count + 1,) positions in ``order``

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def groups(self) -> list[Array]:
        """The components of each size, small ones first: their positions in ``order`` (count, size)."""
        sizes, starts = np.diff(self.bounds), self.bounds[:-1]
        return [starts[sizes == size][:, np.newaxis] + np.arange(size) for size in np.unique(sizes)]


def strong_components(A: Array, none: Any) -> Components:
    """The strong components of a matrix (n, n), whose edges are the entries that are not ``none``."""
    n = A.shape[0]
    if n < 2 or (_reaches_all(A, none) and _reaches_all(A.T, none)):
        return Components(np.arange(n), np.array([0, n] if n else [0]))

    def are_edges(rows: Array) -> Array:
        return rows != none

    if n <= _SPARSE:
        return of_sparse(_rows_of(on_host(are_edges(A))))
    return _tarjan(n, each_row(A, are_edges))


def _rows_of(edges: Array) -> Any:
    """The SciPy matrix of some True, put together as SciPy wants it: its own way there takes three times as long."""
    from scipy.sparse import csr_array

    n = len(edges)
    heads = (np.flatnonzero(edges) % n).astype(np.int32)
    starts = np.zeros(n + 1, np.int32)
    np.cumsum(np.count_nonzero(edges, axis=1), out=starts[1:])
    return csr_array((np.ones(len(heads)), heads, starts), shape=(n, n))


def of_words(words: Array, n: int) -> Components:
    """The strong components of packed edges, words (n, ⌈n/32⌉) uint32 on the host: bit b of word w is 32·w + b."""
    if n == 0:
        return Components(np.arange(0), np.array([0]))
    return _tarjan(n, each_unpacked(words, n))


def of_sparse(matrix: Any) -> Components:
    """The strong components of what a SciPy sparse matrix (n, n) stores, but for stored False."""
    from scipy.sparse.csgraph import connected_components

    n = matrix.shape[0]
    if n == 0:
        return Components(np.arange(0), np.array([0]))
    count, label = connected_components(matrix, connection="strong")
    # SciPy's labels are those of Tarjan's algorithm: a component is numbered when all that it reaches have been.
    return _by_number(count - 1 - label.astype(np.int64), count)


def _by_number(number: Array, count: int) -> Components:
    return Components(np.argsort(number, kind="stable"), np.searchsorted(np.sort(number), np.arange(count + 1)))


def _reaches_all(A: Array, none: Any) -> bool:
    """Whether vertex 0 surely reaches every other; where that would take many rounds it is not said."""
    xp, n = array_namespace(A), A.shape[0]
    reached = np.zeros(n, np.bool_)
    reached[0] = True
    waiting = np.zeros(1, np.int64)
    for _ in range(_ROUNDS):
        now, waiting = waiting[:_TOGETHER], waiting[_TOGETHER:]
        new = on_host((A[xp.asarray(now)] != none).any(axis=0)) & ~reached
        reached |= new
        waiting = np.concatenate([waiting, np.flatnonzero(new)])
        if reached.all():
            return True
        if not waiting.size:
            return False
    return False


def _tarjan(n: int, edges_of: Callable[[int], Array]) -> Components:
    """Tarjan's algorithm; ``edges_of(i)`` is a new bool array (n,), asked for twice for every vertex."""
    unseen, waiting = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    low = np.zeros(n, np.int64)  # the least number of a waiting vertex that is known to be reached
    number, seen, count = np.zeros(n, np.int64), 0, 0
    stack: list[int] = []
    for root in range(n):
        if not unseen[root]:
            continue
        path = [root]
        while path:
            vertex = path[-1]
            if unseen[vertex]:
                unseen[vertex], waiting[vertex], low[vertex] = False, True, seen
                seen += 1
                stack.append(vertex)
            edges = edges_of(vertex)
            to = edges & unseen
            following = int(to.argmax())
            if to[following]:
                path.append(following)
                continue
            path.pop()
            edges &= waiting
            own = low[vertex]
            low[vertex] = low[edges].min(initial=own)
            if low[vertex] == own:  # its component is complete: itself and what waits above it
                while True:
                    member = stack.pop()
                    waiting[member], number[member] = False, count
                    if member == vertex:
                        break
                count += 1
    return _by_number(count - 1 - number, count)


def permute(D: Array, order: Array) -> None:
    """D[i, j] ← D[order[i], order[j]] in place, a panel at a time; ``order`` (n,) on the host."""
    xp, n = array_namespace(D), D.shape[0]
    order = xp.asarray(order)
    for start in range(0, n, _PANEL):
        part = slice(start, start + _PANEL)
        D[part] = D[part][:, order]
    for start in range(0, n, _PANEL):
        part = slice(start, start + _PANEL)
        D[:, part] = D[:, part][order]


def join_components(engine: Any, D: Array, bounds: Array) -> None:
    """D ← D*, where its diagonal blocks are closed already and hold 1̄ on the diagonal; ⊕ is idempotent.

    D (n, n) is block upper triangular, with blocks from each of ``bounds`` to the next; the closed blocks are not
    changed. Nothing is divided and no pivot is looked at, so no cycle is ever judged here, whatever was rounded: for
    two halves, D₁₂ ← D₁₁ ⊗ D₁₂ ⊗ D₂₂. ``engine`` makes no claim about signs that the entries do not keep.
    """
    _join(engine, D, bounds, 0, len(bounds) - 1)


def _join(engine: Any, D: Array, bounds: Array, first: int, last: int) -> None:
    low, high, count = int(bounds[first]), int(bounds[last]), last - first
    if count <= 1:
        return
    if high - low == count <= _ACYCLIC:
        engine.close_block(D[low:high, low:high])
        return
    half = min(max(first + 1, int(np.searchsorted(bounds, (low + high) // 2))), last - 1)
    middle = int(bounds[half])
    _join(engine, D, bounds, first, half)
    _join(engine, D, bounds, half, last)
    engine.multiply_left(D[low:middle, low:middle], D[low:middle, middle:high])
    engine.multiply_right(D[low:middle, middle:high], D[middle:high, middle:high])
