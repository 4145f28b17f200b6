"""Strong components of a graph, in which every vertex reaches every other vertex, and closures by components.

Sources: M. Sharir, Comput. Math. Appl. 7 (1981), for dense edges; R. E. Tarjan, SIAM J. Comput. 1 (1972), in SciPy's
implementation, for sparse edges.

**Numbering.** Components are numbered in a topological order: every edge between two components leads from the lower
number to the higher number. The strong components of one weak component have consecutive numbers. Edges exist only
between strong components of the same weak component. Inside a component vertices keep their order. So under
`Components.order` a matrix is block diagonal by weak components, and each block is block upper triangular. No cycle
leaves the block of a strong component. The closure of this block depends on the edges in the block alone.

A breadth-first search from vertex 0, forward and backward, first tests whether there is more than one component. In a
dense matrix it reads some dozen rows and columns.

Cost: O(n²) for a matrix, O(n + m) for m sparse edges; workspace n² / 4 bits for a matrix. The closure of n vertices
costs n³/6 pairs if every component has one vertex, and n³ pairs if there is one component.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.views import WORD, has_diverged
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.parts import pieces, to_host_array
from semiring.namespaces import Array, array_namespace, is_device_array
from semiring.thread_counts import get_threads

if TYPE_CHECKING:
    from semiring.kernels.contract import GraphKernels

__all__ = [
    "SMALL",
    "Components",
    "acyclic_components",
    "as_unsigned",
    "bits_of",
    "component_ranges",
    "edge_words",
    "has_compiled_loops",
    "has_kernels",
    "join_components",
    "permute",
    "rank_vertices",
    "reachable_fraction",
    "run_strips",
    "strong_components",
    "strong_components_of_lists",
    "strong_components_of_sparse",
    "strong_components_of_words",
    "transpose_bits",
    "walk_cycle",
]

_FRONTIER = 32  # rows in a round of the breadth-first search
_ROUNDS = 4  # rounds of the breadth-first search
_SWEEPS = 4  # backward sweeps through packed edges before they are transposed
_PANEL = 512  # rows or columns of a panel that a device permutes in one step
_CHAINS = 16  # chains of rows that move concurrently
_WORDS_PER_EDGE = 16  # lists are faster than bits if there are at least this many words for each edge
_SAMPLE_STEP = 16  # one of this number of rows is sampled
_ENTRIES = 1 << 18  # entries of a piece of rows that is packed in one step
SMALL = 192  # vertices up to which one kernel closes a component as a whole
_RUN = 64  # rows up to which a triangular block is closed as a full block
_LEAF = 128  # rows up to which a triangular block is multiplied as a full block
_FACTOR = 512  # the limit of `_LEAF` for kernels that skip the zeros below the diagonal


@dataclass(frozen=True)
class Components:
    """The strong and weak components of n vertices, as arrays in the memory of the host.

    Attributes
    ----------
    order
        (n,): the vertices, component after component.
    bounds
        (count + 1,): the positions in ``order`` at which the components begin, and n.
    weak
        (weak count + 1,): the number of the first component of each weak component, and the count.
    lists
        The edges as compressed rows, (n + 1,) and (m,), if they are few and were packed bits; else None.
    """

    order: Any
    bounds: Array
    weak: Array
    lists: tuple[Array, Array] | None = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def spans(self) -> list[tuple[int, int]]:
        """Return the first row of each component, and the row behind its last one."""
        return list(zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True))

    @cached_property
    def sizes(self) -> Array:
        """The number of vertices of each component, (count,)."""
        return np.diff(self.bounds)

    def groups(self) -> list[Array]:
        """Return the positions (count, size) of all components of a size, for each size in ascending order."""
        starts = self.bounds[:-1]
        return [starts[self.sizes == size][:, np.newaxis] + np.arange(size) for size in np.unique(self.sizes)]

    def pairs(self) -> int:
        """Return the (⊕, ⊗) pairs of `join_components` and of the closures of the components together."""
        ends = self.bounds[self.weak]
        which = np.searchsorted(self.weak, np.arange(len(self)), side="right") - 1
        before, after = self.bounds[1:] - ends[which], ends[which + 1] - self.bounds[:-1]
        return int((self.sizes * before * after).sum())


def _single_component(n: int) -> Components:
    """Return n vertices as one component, or no component if n is 0."""
    ends = np.array([0, n] if n else [0])
    return Components(np.arange(n), ends, np.arange(len(ends)))


def acyclic_components(n: int) -> Components:
    """Return n components of one vertex each, in this topological order, as if they were one weak component."""
    return Components(np.arange(n), np.arange(n + 1), np.array([0, n] if n else [0]))


def strong_components(
    A: Any, no_edge: Any, threads: int | None = None, graphs: GraphKernels | None = None
) -> Components:
    """Return the strong components of a matrix (n, n) or a `BitMatrix`.

    The edges are the entries that differ from ``no_edge``. ``graphs`` are the kernels of the device of the matrix,
    and None on the host.
    """
    n = A.shape[0]
    if n < 2:
        return _single_component(n)
    if isinstance(A, BitMatrix):
        return _components_of_bits(to_host_array((~A if no_edge else A).words), n, threads)
    if _reaches_all(A, no_edge) and _reaches_all(A.T, no_edge):
        return _single_component(n)
    if graphs is not None:
        return strong_components_of_words(to_host_array(graphs.edge_words(A, no_edge)), n, threads)
    if has_kernels(A):
        return strong_components_of_words(edge_words(A, no_edge, threads), n, threads)
    words = np.empty((n, -(-n // WORD)), np.uint32)
    for rows in pieces(A, _ENTRIES):
        words[rows] = to_host_array(pack(A[rows] != no_edge).words)
    return strong_components_of_words(words, n, threads)


def edge_words(A: Array, no_edge: Any, threads: int | None = None) -> Array:
    """Return the edges of A (n, n), an array of the host, as the words (n, ⌈n/32⌉) uint32 of a `BitMatrix`.

    The edges are the entries that differ from ``no_edge``.
    """
    from semiring.kernels.cpu.first_calls import graph_loops

    n, entries, absent = A.shape[0], as_unsigned(A), bits_of(no_edge, A.dtype)
    words, mark_edges = np.empty((n, -(-n // WORD)), np.uint32), graph_loops("edge_scan", A.size).mark_edges
    run_strips(lambda rows: mark_edges(entries, absent, absent, words, rows.start, rows.stop), n, threads)
    return words


def bits_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the bits of an entry as an unsigned integer, in the form of `as_unsigned`."""
    return np.asarray(value, dtype).view(f"u{dtype.itemsize}")[()]


def _components_of_bits(words: Array, n: int, threads: int | None) -> Components:
    """Return the strong components of packed edges, by lists if a sample of the rows shows few edges."""
    few = words.size // _WORDS_PER_EDGE
    if int(np.bitwise_count(words[::_SAMPLE_STEP]).sum()) * _SAMPLE_STEP > few:
        return strong_components_of_words(words, n, threads)
    lists = _compressed_rows(words, 2 * few, threads)
    return (
        strong_components_of_words(words, n, threads)
        if lists is None
        else replace(strong_components_of_lists(*lists), lists=lists)
    )


def _compressed_rows(words: Array, max_edges: int, threads: int | None) -> tuple[Array, Array] | None:
    """Return the edges as compressed rows (n + 1,) and (m,), or None if a strip of rows exceeds ``max_edges``."""
    from semiring.kernels.graphs.edge_scan import list_edges

    result: dict[int, tuple[Array, Array]] = {}

    def note(rows: slice) -> None:
        result[rows.start] = list_edges(words[rows], max_edges)

    run_strips(note, len(words), threads)
    lists = [result[start] for start in sorted(result)]
    if any(starts[-1] < 0 for starts, _ in lists):
        return None
    counts = np.concatenate([np.diff(starts) for starts, _ in lists])
    return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([heads for _, heads in lists])


def strong_components_of_lists(starts: Array, heads: Array) -> Components:
    """Return the strong components of a graph whose edges are compressed rows, (n + 1,) and (m,)."""
    if len(starts) < 2:
        return _single_component(0)
    from semiring.kernels.graphs.component_search import components_of_lists

    return _group_vertices(*components_of_lists(starts, heads))


def walk_cycle(vertex: int, starts: Array, heads: Array, parts: Components) -> list[int]:
    """Return a cycle in the strong component of a vertex, from which an edge leads to this component."""
    component = np.empty(len(parts.order), np.int64)
    component[parts.order] = np.repeat(np.arange(len(parts)), parts.sizes)
    path, seen = [vertex], {vertex: 0}
    while True:
        out = heads[starts[path[-1]] : starts[path[-1] + 1]]
        following = int(out[component[out] == component[vertex]][0])
        if following in seen:
            return path[seen[following] :]
        seen[following] = len(path)
        path.append(following)


def rank_vertices(n: int, tails: Array, heads: Array) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Return a rank of each vertex (n,) int32 that rises along every edge, or a cycle.

    ``tails`` and ``heads`` (m,) are the ends of the edges, which are no loops. The other result is empty.
    """
    from semiring.kernels.cpu.elimination import elimination_trees

    starts, order = elimination_trees.compress_rows(n, tails, heads)
    heads = heads[order]
    heads_first = elimination_trees.topological_order(starts, heads)
    ranks = np.empty(heads_first.size, np.int32)
    if ranks.size == n:
        ranks[heads_first[::-1]] = np.arange(n, dtype=np.int32)
        return ranks, []
    parts = strong_components_of_lists(starts, heads)
    vertex = int(parts.order[parts.bounds[:-1][parts.sizes > 1]].min())
    return ranks[:0], walk_cycle(vertex, starts, heads, parts)


def reachable_fraction(components: Components, starts: Array, heads: Array) -> float:
    """Return the fraction of all vertices that a vertex reaches on average.

    ``starts`` (n + 1,) and ``heads`` (m,) are the edges as compressed rows. The fraction is exact for up to 512
    vertices. For more vertices it is an estimate from 512 targets, spread over the order of the components.
    """
    from semiring.kernels.graphs.reachable_bits import TARGETS, condense, reach_targets

    n = len(components.order)
    _, begins, ends = condense(starts, heads, components.order, components.bounds)
    some = np.linspace(0, n - 1, min(n, TARGETS)).astype(np.int64)
    targets, reached = np.full(n, n), np.empty((len(components), TARGETS // 64), np.uint64)
    targets[some] = np.arange(some.size)
    reach_targets(targets, components.bounds, begins, ends, 0, some.size, reached)
    pairs = int(np.bitwise_count(reached).sum(axis=1, dtype=np.int64) @ components.sizes)
    return pairs / (n * some.size)


def strong_components_of_words(words: Array, n: int, threads: int | None = None) -> Components:
    """Return the strong components of packed edges, words (n, ⌈n/32⌉) uint32 on the host.

    Bit b of word w of a row is the edge to vertex 32·w + b.
    """
    if n == 0:
        return _single_component(n)
    from semiring.kernels.cpu.first_calls import graph_loops

    loops = graph_loops("component_search", n * n)
    if loops.is_strongly_connected(words, n, _SWEEPS):
        return _single_component(n)
    number, weak, count, _ = loops.components_of_words(words, transpose_bits(words, threads), n)
    return _group_vertices(number, weak, count)


def strong_components_of_sparse(matrix: Any) -> Components:
    """Return the strong components of a SciPy sparse matrix (n, n), whose stored entries except False are edges."""
    from scipy.sparse.csgraph import connected_components

    n = matrix.shape[0]
    if n == 0:
        return _single_component(n)
    count, label = connected_components(matrix, connection="strong")
    _, weak = connected_components(matrix, connection="weak")
    # SciPy's labels are those of Tarjan's algorithm, which numbers a component after all components that it reaches.
    return _group_vertices(count - 1 - label.astype(np.int64), weak.astype(np.int64), count)


def _group_vertices(number: Array, weak: Array, count: int) -> Components:
    """Return the components, given the numbers (n,) of each vertex's strong component and weak component."""
    key = weak * count + number
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    is_first = np.append(True, np.diff(weak[order[begins]]) != 0)
    return Components(order, np.append(begins, len(order)), np.append(np.flatnonzero(is_first), count))


def _reaches_all(A: Array, no_edge: Any) -> bool:
    """Return whether a search of few rounds proves that vertex 0 reaches every other vertex; False proves nothing."""
    xp, n = array_namespace(A), A.shape[0]
    reached = np.zeros(n, np.bool_)
    reached[0] = True
    queue = np.zeros(1, np.int64)
    for _ in range(_ROUNDS):
        frontier, queue = queue[:_FRONTIER], queue[_FRONTIER:]
        new = to_host_array((A[xp.asarray(frontier)] != no_edge).any(axis=0)) & ~reached
        reached |= new
        if reached.all():
            return True
        queue = np.concatenate([queue, np.flatnonzero(new)])
        if not queue.size:
            return False
    return False


# ------------------------------------------------------------------------------------------------------- permutations


def permute(
    D: Array,
    order: Array,
    threads: int | None = None,
    source: Array | None = None,
    graphs: GraphKernels | None = None,
) -> None:
    """Permute a matrix D (n, n) in place: D[i, j] ← D[order[i], order[j]].

    ``order`` (n,) is an array of the host. With a ``source``, which shares no memory with D, the entries come from it.
    ``graphs`` are the kernels of the device that holds D, and None on the host. Workspace: some rows.
    """
    n = D.shape[0]
    if graphs is not None:
        if not np.array_equal(order, np.arange(n)):
            graphs.permute(D, order, source)
        elif source is not None:
            D[...] = source
        return
    loops: Any = None
    if has_kernels(D):
        from semiring.kernels.cpu.first_calls import graph_loops

        loops = graph_loops("permutation", D.size)
    if not hasattr(loops, "move_rows"):  # NumPy moves whole panels
        if source is not None:
            D[...] = source
        order = array_namespace(D).asarray(order)
        for start in range(0, n, _PANEL):
            part = slice(start, start + _PANEL)
            D[part] = D[part][:, order]
        for start in range(0, n, _PANEL):
            part = slice(start, start + _PANEL)
            D[:, part] = D[:, part][order]
        return
    entries, order = as_unsigned(D), np.asarray(order, np.int64)
    if source is not None:
        originals = as_unsigned(source)
        run_strips(lambda rows: loops.copy_rows(originals, order, rows.start, rows.stop, entries), n, threads)
        return
    vertices, starts, successors = loops.find_chains(order, max(1, n // _CHAINS))
    first_rows = entries[vertices[starts[successors]]]  # copies, because other threads overwrite these rows

    def move(chain: int) -> None:
        loops.move_rows(entries, vertices, starts[chain], starts[chain + 1], first_rows[chain], order)

    run_parallel(move, [(chain,) for chain in range(len(successors))], threads)
    loops.gather_columns(entries, np.flatnonzero(order == np.arange(n)), order)


def has_kernels(A: Array) -> bool:
    """Return whether A is an array of the host whose entries compiled loops can read."""
    return not is_device_array(A) and has_compiled_loops(A.dtype)


def has_compiled_loops(dtype: np.dtype[Any]) -> bool:
    """Return whether compiled loops can read entries of a dtype, which excludes long doubles of 16 bytes."""
    return dtype.itemsize <= 8


def as_unsigned(D: Array) -> Any:
    """Return a view of the entries as unsigned integers of the same width."""
    return D.view(f"u{D.itemsize}")


def transpose_bits(words: Array, threads: int | None = None, out: Array | None = None) -> Array:
    """Return the transpose of packed bits (n, n), in a new array or in ``out``, which must not overlap ``words``."""
    from semiring.kernels.cpu.first_calls import graph_loops

    result = np.empty(words.shape, np.uint32) if out is None else out
    transpose_words = graph_loops("permutation", WORD * words.size).transpose_words
    run_strips(lambda part: transpose_words(words, result, part.start, part.stop), words.shape[1], threads, unit=16)
    return result


def run_strips(task: Callable[[slice], None], n: int, threads: int | None, unit: int = 1) -> None:
    """Call ``task(strip)`` on several threads, for slices that cover 0 … n - 1 and begin at multiples of ``unit``."""
    from semiring.kernels.cpu.thread_pool import run_on_ranges

    threads = get_threads() if threads is None else threads
    run_on_ranges(lambda start, stop: task(slice(start, stop)), n, max(1, n // 8), threads, unit=unit)


def run_parallel(function: Callable[..., None], tasks: list[tuple[Any, ...]], threads: int | None) -> None:
    """Call ``function(*task)`` for every task, on ``threads`` threads, by default on `get_threads` threads."""
    from semiring.kernels.cpu.thread_pool import run_tasks

    run_tasks(function, tasks, get_threads() if threads is None else threads)


# ----------------------------------------------------------------------------------------------------------- closures


def component_ranges(components: Components, min_vertices: int) -> list[tuple[int, int]]:
    """Return ranges of component numbers that consist of whole weak components.

    Each range has at least ``min_vertices`` vertices, except that the last range may have fewer.
    """
    parts, first = [], 0
    for last in components.weak[1:].tolist():
        if components.bounds[last] - components.bounds[first] >= min_vertices or last == len(components):
            parts.append((first, last))
            first = last
    return parts


def join_components(engine: Any, D: Array, components: Components, is_closed: Array) -> None:
    """Close a block upper triangular matrix in place, D ← D*, by recursive halves.

    For two halves, D₁₂ ← D₁₁ ⊗ D₁₂ ⊗ D₂₂. This step divides nothing and reads no pivot. So if all components with a
    cycle are closed, rounding cannot create a divergent cycle. Triangular factors are halved too, down to `_LEAF` rows,
    or to `_FACTOR` rows if the kernels skip zeros below the diagonal. This avoids most products with 0̄. Weak components
    need no product between them.

    Parameters
    ----------
    engine
        The kernels. Its plan may assume only signs that the entries keep. If a pivot has no star, the status of the
        plan records it, and D is then undefined.
    D
        (n, n): the matrix, in the order of the components.
    components
        The components of D.
    is_closed
        (count,) bool: whether each component is closed already. Every other component has at most `SMALL` vertices,
        and one kernel closes it, or several small components together.
    """
    join = _ComponentJoin(engine, D, components.bounds, is_closed)
    for first, last in zip(components.weak[:-1].tolist(), components.weak[1:].tolist(), strict=True):
        if not join.close(first, last):
            return


class _ComponentJoin:
    """The recursion of `join_components` on ranges of components."""

    def __init__(self, engine: Any, D: Array, bounds: Array, is_closed: Array) -> None:
        self.engine, self.D, self.bounds, self.sizes = engine, D, bounds, np.diff(bounds)
        self.leaf = _FACTOR if engine.capabilities.provides("multiply_upper") else _LEAF
        #: The number of closed components before each component, and of all components.
        self.closed_counts = np.concatenate([[0], np.cumsum(is_closed)])

    def close(self, first: int, last: int) -> bool:
        """Close the components ``first`` … ``last`` - 1, and return whether every pivot has a star."""
        engine, low, high = self.engine, int(self.bounds[first]), int(self.bounds[last])
        if low == high or (last - first == 1 and self.closed_counts[last] > self.closed_counts[first]):
            return True
        if last - first == 1 or (high - low <= _RUN and self.closed_counts[last] == self.closed_counts[first]):
            engine.close_block(self._block(low, high, low, high), low)
            return not has_diverged(engine.plan, low, engine.plan.semiring.divergence is None)
        half = self._middle_component(first, last)
        middle = int(self.bounds[half])
        if not self.close(first, half) or not self.close(half, last):
            return False
        C = self._block(low, middle, middle, high)
        self._multiply_left(first, half, C)
        self._multiply_right(half, last, C)
        return True

    def _multiply_left(self, first: int, last: int, C: Array) -> None:
        """Multiply in place C ← D[rows, rows] ⊗ C, where the rows of some components have a triangular block."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        if last - first == 1 or high - low <= self.leaf:
            self.engine.multiply_left(
                self._block(low, high, low, high), C, subdiagonals=self._subdiagonals(first, last)
            )
            return
        half = self._middle_component(first, last)
        middle = int(self.bounds[half])
        upper, lower = C[: middle - low], C[middle - low :]
        self._multiply_left(first, half, upper)
        self.engine.multiply_add(upper, self._block(low, middle, middle, high), lower)
        self._multiply_left(half, last, lower)

    def _multiply_right(self, first: int, last: int, C: Array) -> None:
        """Multiply in place C ← C ⊗ D[columns, columns], for the columns of some components."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        if last - first == 1 or high - low <= self.leaf:
            self.engine.multiply_right(
                C, self._block(low, high, low, high), subdiagonals=self._subdiagonals(first, last)
            )
            return
        half = self._middle_component(first, last)
        middle = int(self.bounds[half])
        left, right = C[:, : middle - low], C[:, middle - low :]
        self._multiply_right(half, last, right)
        self.engine.multiply_add(right, left, self._block(low, middle, middle, high))
        self._multiply_right(first, half, left)

    def _middle_component(self, first: int, last: int) -> int:
        """Return the component after the first whose start is nearest to the middle vertex."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        half = int(np.searchsorted(self.bounds, (low + high) // 2))
        if half > first + 1 and self.bounds[half] - (low + high) / 2 > (low + high) / 2 - self.bounds[half - 1]:
            half -= 1
        return min(max(first + 1, half), last - 1)

    def _subdiagonals(self, first: int, last: int) -> int:
        """Return the number of diagonals below the main diagonal that may have edges in the rows of some components."""
        return int(self.sizes[first:last].max()) - 1

    def _block(self, r0: int, r1: int, c0: int, c1: int) -> Array:
        return self.D[r0:r1, c0:c1]
