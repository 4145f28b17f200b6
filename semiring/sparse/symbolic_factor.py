"""Compute the symbolic factorization: the structure of a factor from the pattern of a matrix and an elimination order.

`analyse` finds the fill, the supernodes and the work. `FactorLayout` holds the offsets of the numbers in memory. The
counts of operations (one ⊗ and one ⊕) and of bytes are exact. Cost: O(entries of the factor), less than the ordering.

`elimination_order` computes the order in which vertices are eliminated. Sources: J. A. George, J. W. H. Liu, "The
evolution of the minimum degree ordering algorithm", SIAM Review 31 (1989), as SciPy's SuperLU has it; G. Karypis, V.
Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM J. Sci. Comput. 20 (1998),
for METIS and its nested dissection (package pymetis, extra ``sparse``).

``auto`` takes minimum degree up to `_MAX_MINIMUM_DEGREE` vertices, because it takes a third of METIS's time and leaves
as much fill. Beyond that it takes METIS if it is installed. The choice depends on the graph and on the installed
packages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.arguments import as_numbers
from semiring.errors import MissingExtraError, ShapeError, UnknownNameError
from semiring.kernels.cpu.elimination import elimination_trees as kernels
from semiring.kernels.cpu.thread_pool import call_interruptibly

__all__ = [
    "ORDERINGS",
    "Analysis",
    "FactorLayout",
    "Pattern",
    "analyse",
    "elimination_order",
    "widest_level",
    "widest_level_of_core",
]


Array = NDArray[Any]

# Supernodes: a subtree of `_LEAF` places is one supernode. Up to `_SMALL` pivots are always joined. `_RELAXED` is the
# share of explicit zeros that a supernode may have.
_LEAF, _SMALL, _RELAXED = 4, 8, 0.15
# A front of at least this number of pairs and pivots is reduced by the kernels of products.
_MIN_LARGE_PAIRS, _MIN_LARGE_PIVOTS = 4_000_000, 24
_MIN_TASK_PAIRS = 1_000_000  # a subtree of at most this number of pairs may be one task
_MAX_PEELING_ROUNDS = 64  # the most rounds that remove vertices with one neighbour


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pattern of a sparse matrix (n, n), as sorted compressed rows without duplicates."""

    n: int
    starts: Array  # (n + 1,) int64
    indices: Array  # int32

    @cached_property
    def columns(self) -> tuple[Array, Array, Array]:
        """The compressed columns: their starts, the rows of their entries, and the positions of these in `indices`."""
        result: tuple[Array, Array, Array] = kernels.transpose_rows(self.starts, self.indices)
        return result

    @cached_property
    def rows(self) -> Array:
        """The row of every entry, int32."""
        result: Array = kernels.rows_of(self.starts, self.indices.size)
        return result

    def is_symmetric(self, values: Array) -> bool:
        """Return whether the matrix of these values equals its transpose."""
        if not np.array_equal(np.bincount(self.indices, minlength=self.n), np.diff(self.starts)):
            return False
        _, rows, entries = self.columns
        return np.array_equal(rows, self.indices) and bool(np.array_equal(values[entries], values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.indices, other.indices)

    __hash__ = None  # type: ignore[assignment]  # arrays have none


@dataclass(frozen=True, eq=False)
class Analysis:
    """The structure of a factor. Supernodes are numbered in postorder, so that a subtree is a range of them."""

    pattern: Pattern
    ordering: str  # the method that found the order
    order: Array  # (n,) int32: the vertex at each place
    place: Array  # (n,) int32: the place of each vertex
    supernode_of: Array  # (n,) int32: the supernode of each place
    parents: Array  # (count,) int32: the parent of each supernode, -1 at a root
    pivot_starts: Array  # (count + 1,) int64: where the pivots of each supernode begin
    row_starts: Array  # (count + 1,) int64: where the rows of each supernode begin in `rows`
    rows: Array  # int32: the rows below each supernode, sorted places
    _top_down_orders: dict[int, list[Array]] = field(default_factory=dict, init=False, repr=False)
    _layouts: dict[bool, FactorLayout] = field(default_factory=dict, init=False, repr=False)
    device_copies: dict[int, Any] = field(
        default_factory=dict, init=False, repr=False
    )  # copies of the analysis, by the number of the GPU

    @property
    def tree(self) -> tuple[Array, Array, Array, Array]:
        """The arrays of the elimination tree, in the order in which kernels take them."""
        return self.pivot_starts, self.row_starts, self.rows, self.parents

    @property
    def n(self) -> int:
        """The number of vertices of the graph."""
        return self.pattern.n

    @property
    def count(self) -> int:
        """The number of supernodes of the factor."""
        return self.pivot_starts.size - 1

    @cached_property
    def pivots(self) -> Array:
        """The number of pivots of each supernode, int64."""
        return np.diff(self.pivot_starts)

    @cached_property
    def depths(self) -> Array:
        """The number of rows below each supernode, int64."""
        return np.diff(self.row_starts)

    @cached_property
    def owners(self) -> Array:
        """The supernode whose front holds each entry of the matrix."""
        result: Array = self.supernode_of[np.minimum(self.place[self.pattern.rows], self.place[self.pattern.indices])]
        return result

    @cached_property
    def lows(self) -> Array:
        """The first supernode of each subtree."""
        lows = np.arange(self.count)
        for s, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                lows[parent] = min(lows[parent], lows[s])
        return lows

    @cached_property
    def heights(self) -> Array:
        """The number of pivots above each supernode, int64."""
        return np.asarray(kernels.sums_from_roots(self.parents, self.pivots) - self.pivots)

    @cached_property
    def climbs(self) -> Array:
        """The operations of a sweep from each supernode up to its root, int64."""
        return np.asarray(kernels.sums_from_roots(self.parents, self.pivots * self.depths))

    @cached_property
    def squares(self) -> Array:
        """The entries of the pivot blocks of each supernode and of all above it, int64."""
        return np.asarray(kernels.sums_from_roots(self.parents, self.pivots**2))

    def pairs(self, symmetric: bool) -> Array:
        """Return the operations of each front, ⊗ and ⊕ as one: its closure, its two panels and its update; int64."""
        k, m = self.pivots, self.depths
        if symmetric:
            return np.asarray(k**3 + k**2 * m + k * m * (m + 1) // 2)
        return np.asarray(k**3 + 2 * k**2 * m + k * m**2)

    def is_large(self) -> Array:
        """Return a mask of the fronts for the kernels of products.

        It decides bits, so it depends on the pattern alone.
        """
        k, m = self.pivots, self.depths
        return np.asarray((k >= _MIN_LARGE_PIVOTS) & (k * (k + m) ** 2 >= _MIN_LARGE_PAIRS))

    def ancestors(self, places: Array) -> Array:
        """Return a mask (count,) of the supernodes that have one of the places, and of all supernodes above them."""
        result = np.zeros(self.count, np.bool_)
        kernels.mark_ancestors(places, self.supernode_of, self.parents, result)
        return result

    def top_down_order(self, threads: int) -> list[Array]:
        """Return the supernodes from the roots down: an array for the part above all subtrees, and one for each thread.

        The subtrees are those of `tasks`. With one thread there is one array.
        """
        if threads not in self._top_down_orders:
            roots, rest, _ = self.tasks
            if threads == 1:
                result = [np.arange(self.count - 1, -1, -1)]
            else:
                groups: list[list[int]] = [[] for _ in range(threads)]
                sizes = [0] * threads
                for root in sorted(roots, key=lambda s: self.lows[s] - s):
                    lightest = sizes.index(min(sizes))
                    groups[lightest].append(root)
                    sizes[lightest] += root - int(self.lows[root])
                result = [np.array(rest[::-1], np.int64)]
                for group in groups:
                    ranges = [np.arange(s, self.lows[s] - 1, -1) for s in sorted(group, reverse=True)]
                    result.append(np.concatenate([*ranges, np.empty(0, np.int64)]).astype(np.int64))
            self._top_down_orders[threads] = result
        return self._top_down_orders[threads]

    def layout(self, symmetric: bool) -> FactorLayout:
        """Return the layout of the factor of a symmetric matrix, or of any matrix.

        Every call returns the same object.
        """
        if symmetric not in self._layouts:
            self._layouts[symmetric] = self._new_layout(symmetric)
        return self._layouts[symmetric]

    def _new_layout(self, symmetric: bool) -> FactorLayout:
        """Return a new layout of the factor's memory."""
        k, m = self.pivots, self.depths
        blocks = np.concatenate([[0], np.cumsum(k * k)])
        right = blocks[-1] + np.concatenate([[0], np.cumsum(k * m)])
        below = right if symmetric else right + right[-1] - right[0]
        result = kernels.find_slots(
            self.pattern.starts,
            self.pattern.indices,
            self.place,
            self.supernode_of,
            self.pivot_starts,
            self.row_starts,
            self.rows,
            blocks,
            right,
            below,
            symmetric,
        )
        return FactorLayout(symmetric, blocks[:-1], right[:-1], below[:-1], result, int(below[-1]))

    @cached_property
    def tasks(self) -> tuple[list[int], list[int], Array]:
        """The division of the work: roots of subtrees for one thread each, remaining supernodes, and stack sizes.

        No subtree has a large front, and the work of a subtree is limited. The remaining supernodes come after the
        subtrees, in order.
        """
        large, work = self.is_large(), self.pairs(False)
        total, heavy, need, pending = (
            work.copy(),
            large.copy(),
            np.zeros(self.count, np.int64),
            np.zeros(self.count, np.int64),
        )
        sizes = self.depths**2
        for s, parent in enumerate(self.parents.tolist()):
            need[s] = max(need[s], pending[s] + sizes[s])
            if parent >= 0:
                total[parent] += total[s]
                heavy[parent] |= heavy[s]
                need[parent] = max(need[parent], pending[parent] + need[s])
                pending[parent] += sizes[s]
        limit = max(_MIN_TASK_PAIRS, int(work.sum()) // 64)
        whole = ~heavy & (total <= limit)
        parents = np.where(self.parents >= 0, whole[self.parents], False)
        return np.flatnonzero(whole & ~parents).tolist(), np.flatnonzero(~whole).tolist(), need


@dataclass(frozen=True)
class FactorLayout:
    """The offsets of the blocks and of A's entries in a factor's memory, see `kernels.cpu.elimination.numeric`."""

    symmetric: bool
    blocks: Array  # (count,) int64: the offsets of the pivot blocks
    row_panels: Array  # (count,) int64: the offsets of the panels R, the rows of the pivots
    column_panels: Array  # (count,) int64: the offsets of the panels Tᵀ, the columns of the pivots
    slots: Array  # the offset of each entry of A; -1 if the entry of its transpose represents both
    size: int

    @property
    def fronts(self) -> tuple[Array, Array, Array, bool]:
        """The offsets of the fronts, in the order in which kernels take them."""
        return self.blocks, self.row_panels, self.column_panels, self.symmetric


def analyse(pattern: Pattern, ordering: Any = "auto") -> Analysis:
    """Return the structure of the factor of every matrix with a pattern. Raises the errors of `elimination_order`."""
    starts, indices = _symmetrize(pattern)
    order, method = elimination_order(starts, indices, ordering)
    parent, post = kernels.elimination_tree(starts, indices, order)
    order = order[post]
    renamed = np.empty(pattern.n, np.int32)
    renamed[post] = np.arange(pattern.n, dtype=np.int32)
    parent = np.where(parent[post] >= 0, renamed[parent[post]], np.int32(-1)) if pattern.n else parent
    counts = kernels.column_counts(starts, indices, order, parent)
    firsts = kernels.find_supernodes(parent, counts, _LEAF, _SMALL, _RELAXED)
    supernode_of, parents, begins, below = kernels.find_structures(starts, indices, order, parent, counts, firsts)
    place = np.empty(pattern.n, np.int32)
    place[order] = np.arange(pattern.n, dtype=np.int32)
    return Analysis(pattern, method, order, place, supernode_of, parents, firsts, begins, below)


def widest_level(pattern: Pattern) -> int:
    """Return the number of vertices in the widest level of a breadth-first search from the end of a graph.

    A level separates the graph, so graphs with narrow levels have cheap eliminations. Cost: O(edges).
    """
    return int(kernels.widest_level(*_symmetrize(pattern)))


def widest_level_of_core(pattern: Pattern) -> int:
    """Return `widest_level` of the graph without hubs, and then without vertices that have one neighbour.

    An elimination takes hubs last, so neither kind of vertex causes much fill. The one wide level of a star does not
    separate it. If the core has wide levels, as a random graph has, every separator is large. An exception are graphs
    of small parts that hang on each other.
    """
    starts, indices = _symmetrize(pattern)
    rows = kernels.rows_of(starts, indices.size)
    is_core = np.diff(starts) <= max(64, pattern.n // 64)
    for _ in range(_MAX_PEELING_ROUNDS):
        is_core_edge = is_core[rows] & is_core[indices]
        rows, indices = rows[is_core_edge], indices[is_core_edge]
        alone = is_core & (np.bincount(rows, minlength=pattern.n) < 2)
        if not alone.any():
            break
        is_core &= ~alone
    is_core_edge = is_core[rows] & is_core[indices]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[is_core_edge], minlength=pattern.n))])
    return int(kernels.widest_level(starts, indices[is_core_edge]))


def _symmetrize(pattern: Pattern) -> tuple[Array, Array]:
    """Return the pattern of A and its transpose together, without the diagonal."""
    first, rows, _ = pattern.columns
    result: tuple[Array, Array] = kernels.symmetric_pattern(pattern.starts, pattern.indices, first, rows)
    return result


ORDERINGS = ("auto", "metis", "minimum_degree", "natural")
_MAX_MINIMUM_DEGREE = 100_000


def elimination_order(starts: Array, indices: Array, ordering: Any = "auto") -> tuple[Array, str]:
    """Return the vertices in the order of their elimination, (n,) int32, and the name of the method that found it.

    ``starts``, ``indices``: the symmetric pattern in compressed rows, without its diagonal. ``ordering``: one of
    `ORDERINGS`, or the order itself.

    Raises `UnknownNameError`, `MissingExtraError`, and `ShapeError` for what is no permutation.
    """
    n = starts.size - 1
    if not isinstance(ordering, str):
        return _check_permutation(ordering, n), "given"
    if ordering not in ORDERINGS:
        raise UnknownNameError("elimination order", ordering, ORDERINGS)
    if ordering == "auto":
        ordering = "metis" if n > _MAX_MINIMUM_DEGREE and find_spec("pymetis") is not None else "minimum_degree"
    if ordering == "natural" or n < 2 or not indices.size:
        return np.arange(n, dtype=np.int32), "natural"
    return (_nested_dissection if ordering == "metis" else _minimum_degree)(starts, indices), ordering


def _check_permutation(ordering: Any, n: int) -> Array:
    """Return the caller's order as int32. Raises `ShapeError` if it is no permutation of n vertices."""
    order = as_numbers(ordering, "ordering")
    whole = order.shape == (n,) and (order.dtype.kind in "iu" or not order.size)
    if not whole or not np.array_equal(np.sort(order), np.arange(n)):
        raise ShapeError(
            f"the elimination order of {n} vertices has shape {order.shape} and dtype {order.dtype}: give a "
            f"permutation of 0 … {n - 1}"
            if not whole
            else f"the elimination order is not a permutation: give each of 0 … {n - 1} once"
        )
    return order.astype(np.int32)


def _nested_dissection(starts: Array, indices: Array) -> Array:
    """Return the order of METIS. Raises `MissingExtraError`."""
    try:
        import pymetis
    except ImportError:
        raise MissingExtraError("pymetis", "sparse", "the elimination order of METIS") from None
    adjacency = pymetis.CSRAdjacency(adj_starts=starts, adjacent=indices)
    order, _ = call_interruptibly(lambda: pymetis.nested_dissection(adjacency=adjacency))
    return np.asarray(order, np.int32)


def _minimum_degree(starts: Array, indices: Array) -> Array:
    """Return SuperLU's multiple minimum degree order, from an incomplete factorization that drops almost everything."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import spilu

    n = starts.size - 1
    degrees = np.diff(starts)
    ends = starts[1:] + np.arange(1, n + 1)  # every column with its diagonal entry, which comes last
    first = np.concatenate([[0], ends])
    rows = np.empty(indices.size + n, np.int32)
    values = np.full(rows.size, 1e-3)
    inside = np.ones(rows.size, bool)
    inside[ends - 1] = False
    rows[inside], rows[ends - 1] = indices, np.arange(n)
    values[ends - 1] = 1.0 + degrees
    A = csc_array((values, rows, first.astype(np.int32)), shape=(n, n))
    decomposition = call_interruptibly(
        spilu,
        A,
        drop_tol=1.0,
        fill_factor=1.0,
        diag_pivot_thresh=0.0,
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    order = np.empty(n, np.int32)
    order[decomposition.perm_c] = np.arange(n)
    return order
