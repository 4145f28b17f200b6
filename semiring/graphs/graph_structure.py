"""Detect the structure of a graph in one scan of its matrix: symmetry, few edges, one weight, components.

The scan reads bits in the memory of the host. It stops when the matrix can have no such structure any more, after about
a sixteenth of a dense matrix. Cost: O(n²) at most, and a workspace of n² / 4 bits if there are several components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.views import WORD
from semiring.arrays.bits import BitMatrix
from semiring.arrays.parts import to_host_array
from semiring.arrays.sparse import is_ascending, stored_entries
from semiring.graphs.strongly_connected import (
    Components,
    acyclic_components,
    as_unsigned,
    bits_of,
    reachable_fraction,
    run_parallel,
    run_strips,
    strong_components,
    strong_components_of_lists,
    strong_components_of_words,
    transpose_bits,
)

if TYPE_CHECKING:  # these modules load the compiler, which small calls do not need
    from semiring.kernels.contract import GraphKernels
    from semiring.sparse.symbolic_factor import Analysis, Pattern

__all__ = ["FEW", "NO_STRUCTURE", "Structure", "analyze_sparse", "structure_of", "structure_on_device"]

FEW = 50  # edges are few if there are at most n² / 50
_STRIPS = 16  # strips of a scan, of which the first often shows that the matrix has no structure


@dataclass(frozen=True, eq=False)
class Structure:
    """The detected structure of the graph of a matrix.

    Attributes
    ----------
    is_symmetric
        Whether A and Aᵀ are bitwise identical.
    edges
        The number of edges, including loops, or None if there are more than n² / `FEW`, or the number is unknown.
    weight
        The weight of all edges except loops, as an entry of the matrix, or None if weights differ or are unknown.
    search
        A function that returns the components, or None if no search is possible.
    words
        (n, ⌈n/32⌉): the edges as bits, if the scan has read all entries.
    pattern
        The edges as lists, if they are few.
    values
        The stored entries of a sparse matrix, in the order of the pattern.
    """

    is_symmetric: bool = False
    edges: int | None = None
    weight: Any = None
    search: Callable[[], Components] | None = field(default=None, repr=False)
    words: Any = field(default=None, repr=False)
    pattern: Pattern | None = field(default=None, repr=False)
    values: Any = field(default=None, repr=False)

    @cached_property
    def components(self) -> Components:
        """The components, which the first access computes. The structure must have a search."""
        assert self.search is not None
        return self.search()

    @cached_property
    def mean_reach(self) -> float:
        """The fraction of all vertices that a vertex reaches on average, and 1 without a pattern."""
        if self.pattern is None or len(self.components) < 2:
            return 1.0
        return reachable_fraction(self.components, self.pattern.starts, self.pattern.indices)

    @cached_property
    def has_symmetric_pattern(self) -> bool:
        """Whether each edge has a reverse edge, of any weight. The structure must have a pattern."""
        assert self.pattern is not None
        return self.is_symmetric or self.pattern.is_symmetric(np.zeros(self.pattern.indices.size, np.bool_))

    @cached_property
    def analysis(self) -> Analysis:
        """The symbolic analysis of a sparse elimination. The structure must have a pattern."""
        assert self.pattern is not None
        from semiring.sparse.symbolic_factor import analyse

        return analyse(self.pattern)

    @cached_property
    def widest_level(self) -> int:
        """The number of vertices of the widest level of a search, without hubs and trees.

        The structure must have a pattern.
        """
        assert self.pattern is not None
        from semiring.sparse.symbolic_factor import widest_level_of_core

        return widest_level_of_core(self.pattern)

    def __str__(self) -> str:
        parts = ["undirected"] if self.is_symmetric else []
        if self.edges is not None:
            parts.append(f"{self.edges:,} edges")
        if self.weight is not None:
            parts.append(f"all edges of weight {self.weight}")
        return ", ".join(parts)

    def component_structure(self) -> Structure:
        """Return the structure that every strong component inherits: the symmetry and the one weight."""
        return Structure(self.is_symmetric, None, self.weight)


NO_STRUCTURE = Structure()  # the structure of a matrix that was not scanned


def structure_of(A: Any, no_edge: Any, threads: int) -> Structure:
    """Return the structure of a matrix (n, n) or a `BitMatrix`, whose edges are the entries other than ``no_edge``."""
    search = partial(strong_components, A, no_edge, threads)
    if isinstance(A, BitMatrix):
        return Structure(_is_symmetric_words(A, threads), search=search)
    words, edges, weight = _scan_edges(A, no_edge, threads)
    if words is not None:
        search = partial(strong_components_of_words, words, A.shape[0], threads)
    if edges is None:
        return Structure(_is_symmetric_matrix(A, threads), None, weight, search, words)
    pattern = _make_pattern(words, edges)
    symmetric = pattern.is_symmetric(as_unsigned(A)[pattern.rows, pattern.indices])
    return Structure(symmetric, edges, weight, search, words, pattern)


def structure_on_device(A: Any, no_edge: Any, threads: int, graphs: GraphKernels) -> Structure:
    """Return the structure of a matrix (n, n) on a GPU, with one pass for the symmetry, the edges and the weight."""
    symmetric, below, edges, weight = graphs.scan_structure(A, no_edge)
    n, pattern = A.shape[0], None
    if edges * FEW <= n * n:
        pattern = _make_pattern(to_host_array(graphs.edge_words(A, no_edge)), edges)
    if not below:
        search: Callable[[], Components] = partial(acyclic_components, n)
    elif pattern is None:
        search = partial(strong_components, A, no_edge, threads, graphs)
    else:
        search = partial(strong_components_of_lists, pattern.starts, pattern.indices)
    return Structure(symmetric, None if pattern is None else edges, weight, search, None, pattern)


def analyze_sparse(matrix: Any) -> Structure | None:
    """Return the structure of a SciPy sparse matrix (n, n) of numbers, or None if it stores an entry twice.

    The matrix must have passed `check_sparse`. Every stored entry is an edge, for every weight.
    """
    from scipy.sparse import coo_array

    from semiring.sparse.symbolic_factor import Pattern

    tails, heads, values = stored_entries(matrix)
    n, stored = matrix.shape[0], values.size
    starts = matrix.indptr if matrix.format == "csr" else None
    if starts is None or not is_ascending(starts, heads):
        rows = coo_array((values, (tails, heads)), shape=matrix.shape).tocsr()
        starts, heads, values = rows.indptr, rows.indices, rows.data
    if heads.size != stored:
        return None
    starts, heads = starts.astype(np.int64), heads.astype(np.int32, copy=False)
    pattern = Pattern(n, starts, heads)
    off = values[pattern.rows != heads]
    one = off[0] if off.size and bool((off == off[0]).all()) else None
    few = heads.size * FEW <= n * n
    symmetric = pattern.is_symmetric(values)
    return Structure(
        symmetric,
        heads.size if few else None,
        one,
        partial(strong_components_of_lists, starts, heads),
        None,
        pattern,
        values,
    )


def _make_pattern(words: Any, edges: int) -> Pattern:
    """Return the pattern of packed edges, whose number is ``edges``."""
    from semiring.kernels.graphs.edge_scan import list_edges
    from semiring.sparse.symbolic_factor import Pattern

    return Pattern(len(words), *list_edges(words, edges))


def _scan_edges(A: Any, no_edge: Any, threads: int) -> tuple[Any, int | None, Any]:
    """Return the edges as bits, the number of edges, and the one weight of all edges.

    The bits are None if there are many edges of several weights. The number is None if it is more than n² / `FEW`. The
    weight is None if the weights differ.
    """
    from semiring.kernels.graphs.edge_scan import find_first_edge, mark_edges

    entries, absent, n = as_unsigned(A), bits_of(no_edge, A.dtype), A.shape[0]
    has_edge, bits = find_first_edge(entries, absent, 0)
    weight, words = entries.dtype.type(bits), np.empty((n, -(-n // WORD)), np.uint32)
    edge_counts: list[int] = []  # the numbers of edges of the scanned strips, to which threads append
    has_other_weight: list[bool] = []

    def note(rows: slice) -> None:
        if not any(has_other_weight) or sum(edge_counts) * FEW <= n * n:
            has_other_weight.append(mark_edges(entries, absent, weight, words, rows.start, rows.stop))
            edge_counts.append(int(np.bitwise_count(words[rows]).sum()))

    first = max(1, -(-n // _STRIPS))
    note(slice(0, min(n, first)))
    run_parallel(note, [(slice(start, min(n, start + first)),) for start in range(first, n, first)], threads)
    edges, same = sum(edge_counts), not any(has_other_weight)
    if edges * FEW > n * n and not same:
        return None, None, None
    one = weight.reshape(1).view(A.dtype)[0] if has_edge and same else None
    return words, (edges if edges * FEW <= n * n else None), one


def _is_symmetric_matrix(A: Any, threads: int) -> bool:
    """Return whether A and its transpose are bitwise identical."""
    from semiring.kernels.graphs.edge_scan import is_mirrored

    entries, n = as_unsigned(A), A.shape[0]
    differ: list[bool] = []

    def compare(rows: slice) -> None:
        if not differ and not is_mirrored(entries, rows.start, rows.stop):
            differ.append(True)

    compare(slice(0, min(n, 64)))
    run_strips(compare, n, threads)
    return not differ


def _is_symmetric_words(A: BitMatrix, threads: int) -> bool:
    """Return whether a matrix of packed bits is symmetric."""
    n, words = A.shape[0], A.words
    for row in range(min(n, 32)):  # the first 32 columns are bits of one word in each row
        column = (words[:, 0] >> np.uint32(row)) & np.uint32(1)
        if not np.array_equal(A[row : row + 1].unpack()[0], column.astype(np.bool_)):
            return False
    return bool(np.array_equal(transpose_bits(words, threads), words))
