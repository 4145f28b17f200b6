"""Strong components: the parts of a graph inside which every vertex reaches every other; and closures by them.

Sources: M. Sharir, Comput. Math. Appl. 7 (1981), for dense edges; R. E. Tarjan, SIAM J. Comput. 1 (1972), as SciPy has
it, for sparse ones.

**Numbering.** Components are counted in a topological order: every edge between two of them leads from the lower
number to the higher one. Those of one weak component, between which there are edges at all, follow one another. Inside
a component vertices keep their order. So under `Components.order` a matrix is block upper triangular, in blocks on the
diagonal; no cycle leaves a block of a strong component, and what it holds depends on the edges of that block alone.

Whether there is more than one component is asked first, by a breadth-first search there and back: in a dense matrix
some dozen rows and columns answer.

Cost: O(n²) for a matrix, O(n + m) for m sparse edges; workspace n² / 4 bits for a matrix. The closure of n vertices
costs n³/6 pairs where no component has more than one vertex, and n³ where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.views import WORD, Array, has_diverged
from semiring.arrays.bits import BitMatrix, pack
from semiring.arrays.parts import on_host, pieces
from semiring.namespaces import array_namespace, is_device_array
from semiring.threads import get_threads

if TYPE_CHECKING:
    from semiring.kernels.contract import GraphKernels

__all__ = [
    "SMALL",
    "Components",
    "as_unsigned",
    "bits_of",
    "edge_words",
    "has_kernels",
    "has_loops",
    "in_order",
    "in_strips",
    "join_components",
    "of_lists",
    "of_sparse",
    "of_words",
    "permute",
    "ranges",
    "share_reached",
    "strong_components",
    "transposed",
]

_TOGETHER, _ROUNDS = 32, 4  # rows a round of the breadth-first search, and rounds before it gives up
_SWEEPS = 4  # back through packed edges, before they are transposed
_PANEL = 512  # rows or columns that a device permutes at a time
_CHAINS = 16  # chains of rows that are moved side by side
_LISTED, _SAMPLED = 16, 16  # words to an edge, where lists are faster; and of how many rows one is looked at
_ENTRIES = 1 << 18  # that are packed at a time
SMALL = 192  # vertices of a component that one kernel closes, as a whole
_RUN, _LEAF = 64, 128  # rows of a triangular block that are closed, and multiplied, as if it were full
_FACTOR = 512  # rows of one by which kernels multiply that pass over what is below the diagonal


@dataclass(frozen=True)
class Components:
    """The vertices of n by components, and where each component begins; all in the memory of the host."""

    order: Array  # (n,) the vertices, component after component
    bounds: Array  # (count + 1,) positions in ``order``
    weak: Array  # (weak count + 1,) which of the components are the first of a weak one
    lists: tuple[Array, Array] | None = None  # the edges of packed bits, as compressed rows, where they are few

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def sizes(self) -> Array:
        """The vertices of each component, (count,)."""
        return np.diff(self.bounds)

    def groups(self) -> list[Array]:
        """The components of each size, small ones first: their positions in ``order`` (count, size)."""
        starts = self.bounds[:-1]
        return [starts[self.sizes == size][:, np.newaxis] + np.arange(size) for size in np.unique(self.sizes)]

    def pairs(self) -> int:
        """The operations of a closure by `join_components` and of the closures of the components."""
        ends = self.bounds[self.weak]
        which = np.searchsorted(self.weak, np.arange(len(self)), side="right") - 1
        before, behind = self.bounds[1:] - ends[which], ends[which + 1] - self.bounds[:-1]
        return int((self.sizes * before * behind).sum())


def _one(n: int) -> Components:
    ends = np.array([0, n] if n else [0])
    return Components(np.arange(n), ends, np.arange(len(ends)))


def in_order(n: int) -> Components:
    """Vertices no two of which reach each other, in topological order as they are; as if of one weak component."""
    return Components(np.arange(n), np.arange(n + 1), np.array([0, n] if n else [0]))


def strong_components(A: Any, none: Any, threads: int | None = None, graphs: GraphKernels | None = None) -> Components:
    """The strong components of a matrix (n, n) or a `BitMatrix`, whose edges are the entries that are not ``none``.

    ``graphs``: kernels where the matrix is, if that is not the host.
    """
    n = A.shape[0]
    if n < 2:
        return _one(n)
    if isinstance(A, BitMatrix):
        return _of_bits(on_host((~A if none else A).words), n, threads)
    if _reaches_all(A, none) and _reaches_all(A.T, none):
        return _one(n)
    if graphs is not None:
        return of_words(on_host(graphs.edge_words(A, none)), n, threads)
    if has_kernels(A):
        return of_words(edge_words(A, none, threads), n, threads)
    words = np.empty((n, -(-n // WORD)), np.uint32)
    for rows in pieces(A, _ENTRIES):
        words[rows] = on_host(pack(A[rows] != none).words)
    return of_words(words, n, threads)


def edge_words(A: Array, none: Any, threads: int | None = None) -> Array:
    """The entries of A (n, n), on the host, that are not ``none``: words (n, ⌈n/32⌉) uint32, as of a `BitMatrix`."""
    from semiring.kernels.graphs.scan import note_edges

    n, entries, absent = A.shape[0], as_unsigned(A), bits_of(none, A.dtype)
    words = np.empty((n, -(-n // WORD)), np.uint32)
    in_strips(lambda rows: note_edges(entries, absent, absent, words, rows.start, rows.stop), n, threads)
    return words


def bits_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """The bits of an entry, as `as_unsigned` shows them."""
    return np.asarray(value, dtype).view(f"u{dtype.itemsize}")[()]


def _of_bits(words: Array, n: int, threads: int | None) -> Components:
    """As `of_words`; of few edges by lists of them, which a sample of the rows shows first."""
    few = words.size // _LISTED
    if int(np.bitwise_count(words[::_SAMPLED]).sum()) * _SAMPLED > few:
        return of_words(words, n, threads)
    lists = _listed(words, 2 * few, threads)
    return of_words(words, n, threads) if lists is None else replace(of_lists(*lists), lists=lists)


def _listed(words: Array, most: int, threads: int | None) -> tuple[Array, Array] | None:
    """The edges as compressed rows, (n + 1,) and (m,); None where a strip of the rows has more than so many."""
    from semiring.kernels.graphs.scan import list_edges

    found: dict[int, tuple[Array, Array]] = {}

    def note(rows: slice) -> None:
        found[rows.start] = list_edges(words[rows], most)

    in_strips(note, len(words), threads)
    lists = [found[start] for start in sorted(found)]
    if any(starts[-1] < 0 for starts, _ in lists):
        return None
    counts = np.concatenate([np.diff(starts) for starts, _ in lists])
    return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([heads for _, heads in lists])


def of_lists(starts: Array, heads: Array) -> Components:
    """The strong components of edges as compressed rows, (n + 1,) and (m,)."""
    if len(starts) < 2:
        return _one(0)
    from semiring.kernels.graphs.components import components_of_lists

    return _by_number(*components_of_lists(starts, heads))


def share_reached(found: Components, starts: Array, heads: Array) -> float:
    """The share of all vertices that one reaches on the average, by edges as compressed rows, (n + 1,) and (m,).

    Of up to 512 vertices exactly, else from a sample of as many targets, spread over the order of the components.
    """
    from semiring.kernels.graphs.reachability import TARGETS, condense, reach_targets

    n = len(found.order)
    _, begins, ends = condense(starts, heads, found.order, found.bounds)
    some = np.linspace(0, n - 1, min(n, TARGETS)).astype(np.int64)
    targets, reached = np.full(n, n), np.empty((len(found), TARGETS // 64), np.uint64)
    targets[some] = np.arange(some.size)
    reach_targets(targets, found.bounds, begins, ends, 0, some.size, reached)
    pairs = int(np.bitwise_count(reached).sum(axis=1, dtype=np.int64) @ found.sizes)
    return pairs / (n * some.size)


def of_words(words: Array, n: int, threads: int | None = None) -> Components:
    """The strong components of packed edges, words (n, ⌈n/32⌉) uint32 on the host: bit b of word w is 32·w + b."""
    if n == 0:
        return _one(n)
    from semiring.kernels.graphs.components import components_of_words, is_connected

    if is_connected(words, n, _SWEEPS):
        return _one(n)
    number, weak, count, _ = components_of_words(words, transposed(words, threads), n)
    return _by_number(number, weak, count)


def of_sparse(matrix: Any) -> Components:
    """The strong components of what a SciPy sparse matrix (n, n) stores, but for stored False."""
    from scipy.sparse.csgraph import connected_components

    n = matrix.shape[0]
    if n == 0:
        return _one(n)
    count, label = connected_components(matrix, connection="strong")
    _, weak = connected_components(matrix, connection="weak")
    # SciPy's labels are those of Tarjan's algorithm: a component is numbered when all that it reaches have been.
    return _by_number(count - 1 - label.astype(np.int64), weak.astype(np.int64), count)


def _by_number(number: Array, weak: Array, count: int) -> Components:
    """From the numbers of all vertices' strong and weak components."""
    place = weak * count + number
    order = np.argsort(place, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(place[order]) != 0))
    apart = np.append(True, np.diff(weak[order[begins]]) != 0)
    return Components(order, np.append(begins, len(order)), np.append(np.flatnonzero(apart), count))


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
        if reached.all():
            return True
        waiting = np.concatenate([waiting, np.flatnonzero(new)])
        if not waiting.size:
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
    """D[i, j] ← D[order[i], order[j]] in place, (n, n); ``order`` (n,) on the host. Workspace: some rows.

    With a ``source`` apart from D: of its entries. ``graphs``: kernels where D is, if that is not the host.
    """
    n = D.shape[0]
    if graphs is not None:
        if not np.array_equal(order, np.arange(n)):
            graphs.permute(D, order, source)
        elif source is not None:
            D[...] = source
        return
    if not has_kernels(D):
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
    from semiring.kernels.graphs.permute import chains, copy_rows, gather_columns, move_rows

    entries, order = as_unsigned(D), np.asarray(order, np.int64)
    if source is not None:
        given = as_unsigned(source)
        in_strips(lambda rows: copy_rows(given, order, rows.start, rows.stop, entries), n, threads)
        return
    vertices, starts, heirs = chains(order, max(1, n // _CHAINS))
    kept = entries[vertices[starts[heirs]]]  # the first row of the chain that follows each

    def move(chain: int) -> None:
        move_rows(entries, vertices, starts[chain], starts[chain + 1], kept[chain], order)

    run_on(move, [(chain,) for chain in range(len(heirs))], threads)
    gather_columns(entries, np.flatnonzero(order == np.arange(n)), order)


def has_kernels(A: Array) -> bool:
    """Whether compiled loops look at the entries of A, an array of the host."""
    return not is_device_array(A) and has_loops(A.dtype)


def has_loops(dtype: np.dtype[Any]) -> bool:
    """Whether compiled loops read entries of that dtype: not long doubles, floats of 16 bytes."""
    return dtype.itemsize <= 8


def as_unsigned(D: Array) -> Array:
    """The bits of entries, as unsigned integers of their width."""
    return D.view(f"u{D.itemsize}")


def transposed(words: Array, threads: int | None = None, out: Array | None = None) -> Array:
    """The transpose of packed bits (n, n), in words of its own or in ``out``, which are no part of the others."""
    from semiring.kernels.graphs.permute import transpose_words

    found = np.empty(words.shape, np.uint32) if out is None else out
    in_strips(lambda part: transpose_words(words, found, part.start, part.stop), words.shape[1], threads, unit=16)
    return found


def in_strips(do: Callable[[slice], None], n: int, threads: int | None, unit: int = 1) -> None:
    """``do(strip)`` for ranges that cover n, on several threads; they begin at multiples of ``unit``."""
    step = -(-max(1, n // 8) // unit) * unit
    run_on(do, [(slice(start, min(n, start + step)),) for start in range(0, n, step)], threads)


def run_on(do: Callable[..., None], tasks: list[tuple[Any, ...]], threads: int | None) -> None:
    """``do(*task)`` for every task, on so many threads, by default as many as calls use."""
    from semiring.kernels.cpu.threads.pool import run_tasks

    run_tasks(do, tasks, get_threads() if threads is None else threads)


# ----------------------------------------------------------------------------------------------------------- closures


def ranges(found: Components, least: int) -> list[tuple[int, int]]:
    """The components as ranges of their numbers: weak ones, several of them together where they have few vertices."""
    parts, first = [], 0
    for last in found.weak[1:].tolist():
        if found.bounds[last] - found.bounds[first] >= least or last == len(found):
            parts.append((first, last))
            first = last
    return parts


def join_components(engine: Any, D: Array, found: Components, closed: Array) -> None:
    """D ← D* for a block upper triangular D (n, n), in the order of ``found``.

    ``closed`` (count,) says which components are closed already; the others have at most `SMALL` vertices, and are
    closed by one kernel, several of few vertices together. For two halves, D₁₂ ← D₁₁ ⊗ D₁₂ ⊗ D₂₂, which divides nothing
    and looks at no pivot: so no cycle is judged where all that have one are closed, whatever was rounded. Triangular
    factors are cut in two as well, down to `_LEAF` rows, or to `_FACTOR` where kernels pass over what is 0̄ below the
    diagonal, so that little is multiplied in vain; and between weak components there is nothing. ``engine`` makes no
    claim about signs that the entries do not keep. A pivot without a star goes to the status of its plan, and D is then
    undefined.
    """
    join = _Join(engine, D, found.bounds, closed)
    for first, last in zip(found.weak[:-1].tolist(), found.weak[1:].tolist(), strict=True):
        if not join.close(first, last):
            return


class _Join:
    def __init__(self, engine: Any, D: Array, bounds: Array, closed: Array) -> None:
        self.engine, self.D, self.bounds, self.sizes = engine, D, bounds, np.diff(bounds)
        self.leaf = _FACTOR if engine.capabilities.provides("multiply_upper") else _LEAF
        self.before = np.concatenate([[0], np.cumsum(closed)])  # closed components

    def close(self, first: int, last: int) -> bool:
        """The closure of the components ``first`` … ``last`` - 1. Whether every pivot had a star."""
        engine, low, high = self.engine, int(self.bounds[first]), int(self.bounds[last])
        if low == high or (last - first == 1 and self.before[last] > self.before[first]):
            return True
        if last - first == 1 or (high - low <= _RUN and self.before[last] == self.before[first]):
            engine.close_block(self._block(low, high, low, high), low)
            return not has_diverged(engine.plan, low, engine.plan.semiring.divergence is None)
        half = self._half(first, last)
        middle = int(self.bounds[half])
        if not self.close(first, half) or not self.close(half, last):
            return False
        C = self._block(low, middle, middle, high)
        self._left(first, half, C)
        self._right(half, last, C)
        return True

    def _left(self, first: int, last: int, C: Array) -> None:
        """C ← D[rows, rows] ⊗ C, for the rows of some components, where D is triangular."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        if last - first == 1 or high - low <= self.leaf:
            self.engine.multiply_left(self._block(low, high, low, high), C, below=self._below(first, last))
            return
        half = self._half(first, last)
        middle = int(self.bounds[half])
        upper, lower = C[: middle - low], C[middle - low :]
        self._left(first, half, upper)
        self.engine.multiply_add(upper, self._block(low, middle, middle, high), lower)
        self._left(half, last, lower)

    def _right(self, first: int, last: int, C: Array) -> None:
        """C ← C ⊗ D[columns, columns], for the columns of some components."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        if last - first == 1 or high - low <= self.leaf:
            self.engine.multiply_right(C, self._block(low, high, low, high), below=self._below(first, last))
            return
        half = self._half(first, last)
        middle = int(self.bounds[half])
        left, right = C[:, : middle - low], C[:, middle - low :]
        self._right(half, last, right)
        self.engine.multiply_add(right, left, self._block(low, middle, middle, high))
        self._right(first, half, left)

    def _half(self, first: int, last: int) -> int:
        """The component that the second half begins with: the one nearest to the middle, but for the first."""
        low, high = int(self.bounds[first]), int(self.bounds[last])
        half = int(np.searchsorted(self.bounds, (low + high) // 2))
        if half > first + 1 and self.bounds[half] - (low + high) / 2 > (low + high) / 2 - self.bounds[half - 1]:
            half -= 1
        return min(max(first + 1, half), last - 1)

    def _below(self, first: int, last: int) -> int:
        """How far below the diagonal there is anything in the rows of some components."""
        return int(self.sizes[first:last].max()) - 1

    def _block(self, r0: int, r1: int, c0: int, c1: int) -> Array:
        return self.D[r0:r1, c0:c1]
