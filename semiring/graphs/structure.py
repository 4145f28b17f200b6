"""One look at a matrix that asks what its graph spares: symmetry, few edges, one weight, components.

It reads bits, of the memory of the host, and stops as soon as nothing can be found any more: of a dense matrix with
nothing to find some sixteenth is read. Cost: O(n²) at most; workspace n² / 4 bits, where there are several components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.views import WORD
from semiring.arrays.bits import BitMatrix
from semiring.arrays.parts import on_host
from semiring.arrays.sparse import is_ascending, stored_entries
from semiring.graphs.components import (
    Components,
    as_unsigned,
    bits_of,
    in_order,
    in_strips,
    of_lists,
    of_words,
    run_on,
    share_reached,
    strong_components,
    transposed,
)

if TYPE_CHECKING:  # they load the compiler, and small calls are to do without
    from semiring.kernels.contract import GraphKernels
    from semiring.sparse.symbolic import Analysis, Pattern

__all__ = ["FEW", "UNSEEN", "Structure", "structure_of", "structure_of_sparse", "structure_on_device"]

FEW = 50  # edges are few where there are at most n² / 50 of them
_STRIPS = 16  # that a matrix is looked at in: from the first of them on it may be clear that there is nothing to find


@dataclass(frozen=True, eq=False)
class Structure:
    """What a look at the graph of a matrix found. Loops count as edges, and have any weight."""

    symmetric: bool = False  # A = Aᵀ, bit by bit
    edges: int | None = None  # how many there are; None is more than n² / `FEW`, or unknown
    weight: Any = None  # the one weight that all of them have, as the matrix has it
    search: Callable[[], Components] | None = field(default=None, repr=False)  # None where there is nothing to find
    words: Any = field(default=None, repr=False)  # (n, ⌈n/32⌉) the edges as bits, where all entries were looked at
    pattern: Pattern | None = field(default=None, repr=False)  # the edges in lists, where they are few
    values: Any = field(default=None, repr=False)  # and what a sparse matrix stores of each

    @cached_property
    def components(self) -> Components:
        """The components, looked for when somebody first asks; only where there is a search."""
        assert self.search is not None
        return self.search()

    @cached_property
    def reach(self) -> float:
        """The share of all vertices that one of them reaches, on the average; of edges that are not listed, all."""
        if self.pattern is None or len(self.components) < 2:
            return 1.0
        return share_reached(self.components, self.pattern.starts, self.pattern.indices)

    @cached_property
    def analysis(self) -> Analysis:
        """What a sparse elimination would do; only where edges are few."""
        assert self.pattern is not None
        from semiring.sparse.symbolic import analyse

        return analyse(self.pattern)

    @cached_property
    def widest(self) -> int:
        """The vertices of the widest level of a search, but for hubs and trees; only where edges are few."""
        assert self.pattern is not None
        from semiring.sparse.symbolic import widest_level_of_core

        return widest_level_of_core(self.pattern)

    def __str__(self) -> str:
        found = ["undirected"] if self.symmetric else []
        if self.edges is not None:
            found.append(f"{self.edges:,} edges")
        if self.weight is not None:
            found.append(f"all edges of weight {self.weight}")
        return ", ".join(found)

    def of_part(self) -> Structure:
        """What holds of a strong component too."""
        return Structure(self.symmetric, None, self.weight)


UNSEEN = Structure()  # where nobody has looked


def structure_of(A: Any, none: Any, threads: int) -> Structure:
    """The structure of a matrix (n, n), or a `BitMatrix`, in which ``none`` is no edge."""
    search = partial(strong_components, A, none, threads)
    if isinstance(A, BitMatrix):
        return Structure(_is_mirrored_words(A, threads), search=search)
    words, edges, weight = _edges(A, none, threads)
    if words is not None:
        search = partial(of_words, words, A.shape[0], threads)
    if edges is None:
        return Structure(_is_mirrored(A, threads), None, weight, search, words)
    pattern = _listed(words, edges)
    symmetric = pattern.is_symmetric(as_unsigned(A)[pattern.rows, pattern.indices])
    return Structure(symmetric, edges, weight, search, words, pattern)


def structure_on_device(A: Any, none: Any, threads: int, graphs: GraphKernels) -> Structure:
    """The structure of a matrix (n, n) on a GPU, where one pass sees all that the host looks for by and by."""
    symmetric, below, edges, weight = graphs.look(A, none)
    n, pattern = A.shape[0], None
    if edges * FEW <= n * n:
        pattern = _listed(on_host(graphs.edge_words(A, none)), edges)
    if not below:
        search: Callable[[], Components] = partial(in_order, n)
    elif pattern is None:
        search = partial(strong_components, A, none, threads, graphs)
    else:
        search = partial(of_lists, pattern.starts, pattern.indices)
    return Structure(symmetric, None if pattern is None else edges, weight, search, None, pattern)


def structure_of_sparse(matrix: Any) -> Structure | None:
    """The structure of a SciPy sparse matrix (n, n) of numbers; None where it stores an entry twice.

    The matrix has passed `check_sparse`. What it stores counts as an edge, whatever its weight.
    """
    from scipy.sparse import coo_array

    from semiring.sparse.symbolic import Pattern

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
        symmetric, heads.size if few else None, one, partial(of_lists, starts, heads), None, pattern, values
    )


def _listed(words: Any, edges: int) -> Pattern:
    from semiring.kernels.graphs.scan import list_edges
    from semiring.sparse.symbolic import Pattern

    return Pattern(len(words), *list_edges(words, edges))


def _edges(A: Any, none: Any, threads: int) -> tuple[Any, int | None, Any]:
    """The edges as bits, where they are few or all have one weight; how many, where few; and the one weight."""
    from semiring.kernels.graphs.scan import first_edge, note_edges

    entries, absent, n = as_unsigned(A), bits_of(none, A.dtype), A.shape[0]
    known, bits = first_edge(entries, absent, 0)
    weight, words = entries.dtype.type(bits), np.empty((n, -(-n // WORD)), np.uint32)
    counted: list[int] = []  # of the strips that were looked at: threads append to it
    others: list[bool] = []

    def note(rows: slice) -> None:
        if not any(others) or sum(counted) * FEW <= n * n:
            others.append(note_edges(entries, absent, weight, words, rows.start, rows.stop))
            counted.append(int(np.bitwise_count(words[rows]).sum()))

    first = max(1, -(-n // _STRIPS))
    note(slice(0, min(n, first)))
    run_on(note, [(slice(start, min(n, start + first)),) for start in range(first, n, first)], threads)
    edges, same = sum(counted), not any(others)
    if edges * FEW > n * n and not same:
        return None, None, None
    one = weight.reshape(1).view(A.dtype)[0] if known and same else None
    return words, (edges if edges * FEW <= n * n else None), one


def _is_mirrored(A: Any, threads: int) -> bool:
    from semiring.kernels.graphs.scan import is_mirrored

    entries, n = as_unsigned(A), A.shape[0]
    differ: list[bool] = []

    def compare(rows: slice) -> None:
        if not differ and not is_mirrored(entries, rows.start, rows.stop):
            differ.append(True)

    compare(slice(0, min(n, 64)))
    in_strips(compare, n, threads)
    return not differ


def _is_mirrored_words(A: BitMatrix, threads: int) -> bool:
    n, words = A.shape[0], A.words
    for row in range(min(n, 32)):  # the first word of a column is quickly read
        column = (words[:, 0] >> np.uint32(row)) & np.uint32(1)
        if not np.array_equal(A[row : row + 1].unpack()[0], column.astype(np.bool_)):
            return False
    return bool(np.array_equal(transposed(words, threads), words))
