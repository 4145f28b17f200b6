"""Close packed truth values by the strong components of their graph, in less than n³ pairs if there are several.

Sources: P. Purdom, BIT 10 (1970), for the closure by components; A. B. Kahn, Commun. ACM 5 (1962), for the order of an
acyclic graph; L. K. Fleischer, B. Hendrickson, A. Pınar, IPDPS 2000, for components by reaching forward and backward.

The vertices are permuted so that the matrix is block upper triangular. Pivots then meet only the rows before them and
the columns behind them: n³/6 pairs for an acyclic graph. The vertices of a strong component have equal rows and equal
columns in A*. So one vertex is the pivot for its component, and its row and column are copied to the other vertices.

**The order.** An upper triangular matrix is already in such an order. If there are few edges, they are listed, and
vertices that no cycle reaches are removed round by round ("peeled"). If vertices remain, the host computes the
components of the graph by Tarjan's algorithm.

If there are many edges, sets of vertices are split around a pivot vertex. One set is reachable from the pivot (each row
of bits is read once); another set reaches the pivot (some sweeps over all rows). Their intersection is a strong
component. The other sets are split again, down to the size of a block of pivots, where no order is cheaper. Once
the sweeps have taken a tenth of the time of n³ pairs, no set is split further. The result is then the same, at a higher
cost.

Cost: the search for the order, and two passes over the bits for the permutation, and two for its inverse. The block
upper triangular elimination takes n³/6 pairs for an acyclic graph. The result is bitwise identical to any other
closure. Workspace: a block of pivots by n, two strips of columns, and 8 bytes a listed edge. At most n²/1024 edges are
listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semiring.algorithms.algorithm import AUTO, Algorithm, Circumstances
from semiring.algorithms.blocked_floyd_warshall import Range, blocked_floyd_warshall
from semiring.algorithms.dense import dense_method_of
from semiring.algorithms.schedule import schedule_for
from semiring.algorithms.views import WORD
from semiring.arrays.bits import BitMatrix
from semiring.graphs.strongly_connected import strong_components_of_sparse
from semiring.kernels.contract import GraphKernels
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["Order", "Triangular", "close_in_order", "find_order", "pivot_blocks"]

_LEAST = 65536  # vertices: for fewer, n³ pairs take a GPU some ms, and the host's part of the scan takes as long
_TOO_FEW = f"fewer than {_LEAST:,} vertices: the graph is not analysed"
_FEW = 64  # edges are listed only if there are at most this many for each vertex,
_LISTED = 1024  # and at most n² divided by this number
_SPLIT = 4096  # sets of at most this many vertices are not split
#: A sweep over n² bits takes 270 / n of the time of n³ pairs (H200: 3 TB/s, 6.5 P pairs/s). n · _SWEEPS sweeps take a
#: tenth of that time.
_SWEEPS = 0.1 / 270
_CALL = 2.4e9  # a call takes 0.1 ms on the host, which is _CALL / n² of the time of a sweep
_ROUNDS = 1 / 60  # rounds of peeling per vertex: at 3 µs a round, a tenth of the time of n³/6 pairs at n = 131072


class Order(NamedTuple):
    """An order of the vertices in which a matrix is block upper triangular, as arrays on the host."""

    order: Any  # (n,), or None if the vertices are in that order already
    bounds: Any  # (count + 1,): the starts of the blocks on the diagonal, and n
    strong: Any  # (count,) bool: whether the vertices of a block are known to reach each other

    def __str__(self) -> str:
        count, widest = len(self.strong), int(np.diff(self.bounds).max(initial=0))
        kinds = "vertices, no two of which reach each other" if widest <= 1 else f"parts, the largest of {widest}"
        return f"{count} {kinds}" + (", in topological order" if self.order is None else "")


def find_order(graphs: GraphKernels, words: Array) -> Order | None:
    """Return an order of the graph that is packed in words (n, ⌈n/32⌉), or None if it may be one component."""
    n = len(words)
    edges, backward = graphs.count_edges(words)
    if not backward:
        return _singleton_order(None, n)
    if edges > min(_FEW * n, n * n // _LISTED):
        return _order_by_sweeps(graphs, words)
    order, starts, heads = graphs.peel(words, edges, max(1024, int(n * _ROUNDS)))
    if len(order) == n:
        return _singleton_order(order, n)
    from scipy.sparse import csr_array

    components = strong_components_of_sparse(csr_array((np.ones(edges), heads, starts), shape=(n, n)))
    return Order(components.order, components.bounds, np.ones(len(components), np.bool_))


def _singleton_order(order: Any, n: int) -> Order:
    """Return an order in which every vertex is a block of its own."""
    return Order(order, np.arange(n + 1), np.ones(n, np.bool_))


def close_in_order(engine: Engine, graphs: GraphKernels, words: Array, permutation: Order) -> None:
    """Compute A* in place for words (n, ⌈n/32⌉) whose ``permutation`` is the result of `find_order`."""
    n, schedule = len(words), schedule_for(engine.backend.name, engine.plan.dtype, engine.plan.storage)
    if permutation.order is not None:
        graphs.permute_bits(words, permutation.order)
    width = max(stop - start for start, stop in schedule.blocks(n))
    large = permutation.strong & (np.diff(permutation.bounds) > width)
    filled_ranges = [(int(permutation.bounds[i]), int(permutation.bounds[i + 1])) for i in np.flatnonzero(large)]
    for start, stop in filled_ranges:
        graphs.fill_component(words, start, stop)
    if filled_ranges != [(0, n)]:
        blocked_floyd_warshall(engine, words, blocks=pivot_blocks(n, filled_ranges, width), bounds=permutation.bounds)
    if permutation.order is not None:
        graphs.permute_bits(words, np.argsort(permutation.order))


def pivot_blocks(n: int, filled_ranges: list[Range], width: int) -> list[Range]:
    """Return blocks of at most ``width`` pivots that begin at multiples of 32.

    The blocks cover all vertices, except that one vertex stands for each filled range.
    """
    ends = [0, *(end for start, stop in filled_ranges for end in (start + 1, stop)), n]
    blocks: list[Range] = []
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        if start < stop:
            start = max(start // WORD * WORD, blocks[-1][1] if blocks else 0)
            stop = min(n, -(-stop // WORD) * WORD)
            blocks += [(begin, min(stop, begin + width)) for begin in range(start, stop, width)]
    return blocks


class Triangular(Algorithm):
    """Reachability by products of packed blocks on a GPU, in the order of strong components: n³/6 pairs without cycles.

    Joins of rows depend on one another, and the tensor cores of a GPU compute thousands of times as many pairs as a
    CPU joins. The order of the vertices decides between rows and blocks. The result is exact.
    """

    name, structure, requires = "triangular", "reachability", "a graph of truth values"
    storages = ("bits",)
    source = "Purdom 1970, Kahn 1962; Fleischer, Hendrickson and Pınar 2000"
    semirings, dtypes = "an idempotent ⊕ of truth values", "bool"
    devices = ("cuda",)
    complexity = "n³/6 bit pairs without cycles, n³ in one component"

    def reason_by_options(self, c: Circumstances) -> str | None:
        why = super().reason_by_options(c._replace(is_large=True))  # the bits are analysed when they are closed
        return why or (_TOO_FEW if c.method == AUTO and not c.is_large else None)

    def reason_against(self, p: Problem) -> str | None:
        if not p.semiring.idempotent:
            return "⊕ is not idempotent: it counts paths"
        if p.n < _LEAST and p.options.method != self.name:
            return _TOO_FEW
        graphs = p.backend.capabilities.graphs
        if graphs is None or not graphs.has_bit_kernels(p.kernel_plan, p.n):
            return "the backend has no kernels for edges of packed bits"
        if p.progress is not None:
            return "a progress callback was given"
        return None

    def least_cost(self, p: Problem) -> float:
        return p.least_dense_cost / 6

    def cost(self, p: Problem) -> float:
        return p.dense_cost / 6

    def run(self, p: Problem, engine: Engine, D: BitMatrix, entries: BitMatrix) -> BitMatrix:
        graphs, words = p.backend.capabilities.graphs, D.words
        assert graphs is not None
        permutation = find_order(graphs, words)
        p.note(str(permutation or "no order of the vertices reduces the work"))
        if permutation is None:
            dense_method_of(p).run(p, engine, words, words)
        else:
            close_in_order(engine, graphs, words, permutation)
        return D


# ------------------------------------------------------------------------------------------------- sets of vertices


def _order_by_sweeps(graphs: GraphKernels, words: Array) -> Order | None:
    """Return the order of sets that are split by forward and backward reachability."""
    n = len(words)
    sweeps = _ReachabilitySweeps(graphs, words)
    waiting, parts = [(_pack_vertices(range(n), words.shape[1]), False)], []
    while waiting:
        vertices, strong = waiting.pop()
        split = None if strong else sweeps.split(vertices)
        if split is None:
            parts.append((vertices, strong))
        else:
            waiting += [part for part in reversed(split) if part[0].any()]
    if len(parts) == 1 and not parts[0][1]:
        return None
    members = [_unpack_vertices(vertices) for vertices, _ in parts]
    bounds = np.cumsum([0, *map(len, members)])
    order = None if len(parts) == 1 else np.concatenate(members)
    return Order(order, bounds, np.array([strong for _, strong in parts]))


class _ReachabilitySweeps:
    """Sweeps over the edges, within a budget of time."""

    def __init__(self, graphs: GraphKernels, words: Array) -> None:
        self._graphs, self._words = graphs, words
        self._budget = len(words) * _SWEEPS
        self._min_cost = _CALL / len(words) ** 2

    def split(self, vertices: Any) -> list[tuple[Any, bool]] | None:
        """Split a set into at most four parts, in an order in which no edge leads to an earlier part.

        Each part comes with whether it is known to be strongly connected. Parts may be empty. The result is None if the
        set has at most `_SPLIT` vertices, or the budget of sweeps is spent.
        """
        members = _unpack_vertices(vertices)
        if len(members) <= _SPLIT:
            return None
        pivot = _pack_vertices([members[len(members) // 2]], len(vertices))
        reachable = self._reach(pivot, vertices, is_forward=True)
        if reachable is None:
            return None
        reaching = self._reach(pivot, vertices, is_forward=False)
        if reaching is None:
            return None
        both = reachable & reaching
        neither = vertices & ~(reaching | reachable)
        return [(reaching & ~both, False), (neither, False), (both, True), (reachable & ~both, False)]

    def _reach(self, pivot: Any, vertices: Any, is_forward: bool) -> Any:
        """Return the set of vertices that the pivot reaches if ``is_forward``, or that reach the pivot otherwise.

        The result is a subset of ``vertices``, or None if the budget of sweeps is spent.
        """
        graphs, words = self._graphs, self._words
        reached, new = pivot.copy(), pivot
        while new.any() and (candidates := vertices & ~reached).any():
            if self._budget <= 0:
                return None
            rows = int(np.bitwise_count(new if is_forward else candidates).sum())
            self._budget -= max(rows / len(words), self._min_cost)
            new = graphs.sweep_along(words, new) if is_forward else graphs.sweep_against(words, new, candidates)
            new = new & candidates
            reached |= new
        return reached


def _pack_vertices(members: Any, words: int) -> Any:
    """Return a set of vertices as the bits of ``words`` words."""
    is_member = np.zeros(words * WORD, np.bool_)
    is_member[members] = True
    return np.packbits(is_member, bitorder="little").view(np.uint32)


def _unpack_vertices(vertices: Any) -> Any:
    """Return the vertices of a set of bits in ascending order."""
    return np.flatnonzero(np.unpackbits(vertices.view(np.uint8), bitorder="little"))
