"""Convert inputs that list the edges of a graph to a pattern and values, without memory of size n²."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import is_floating, is_half
from semiring.arguments import as_dtype
from semiring.arrays.bits import BitMatrix
from semiring.arrays.encoding import check_entries, convert, has_inner_zero, next_wider_integer
from semiring.arrays.folds import add_duplicates
from semiring.arrays.labels import may_name_vertices, require_square
from semiring.arrays.operands import as_host_operand, as_matrix, common_dtype
from semiring.arrays.scans import Scan, limits_of, refuse_unbounded
from semiring.arrays.sparse import is_ascending, is_sparse, stored_entries, warn_of_duplicates
from semiring.arrays.zero_conventions import warn_of_other_zeros
from semiring.errors import DomainError, DTypeError, IntegerOverflowError, TooLargeError, square_error
from semiring.graphs.strongly_connected import has_compiled_loops
from semiring.io.inputs import DEFAULT_READING, Reading, convert_input, list_edges, open_graph
from semiring.io.network import is_directed, symmetrize, weighted_edges
from semiring.kernels.cpu.elimination import elimination_trees
from semiring.sparse.symbolic_factor import Pattern

__all__ = [
    "SparseEntries",
    "check_values",
    "choose_work_dtype",
    "edges_of",
    "keep_edges",
    "largest_magnitude",
    "reached_vertices",
    "relevant_edges",
]

Array = NDArray[Any]

_MAX_VERTICES = np.iinfo(np.int32).max  # because patterns hold the numbers of vertices as int32


@dataclass(frozen=True, eq=False)
class SparseEntries:
    """The entries of a sparse matrix that are not 0̄, with their pattern."""

    pattern: Pattern
    values: Array  # in the order of the pattern, in the caller's dtype
    names: tuple[Hashable, ...] | None
    scan: Scan  # the result of a scan of the values
    directed: bool = True  # False if the caller's graph, or the call, takes each edge in both directions

    @property
    def closure_only_reason(self) -> str:
        """The reason why only a closure accepts these edges, or "" if elimination and searches accept them too."""
        is_supported = has_compiled_loops(self.values.dtype)
        return "" if is_supported else "floats of 16 bytes, which only the dense closure supports"

    def require_eliminable(self) -> SparseEntries:
        """Return the entries themselves if elimination and searches accept them.

        Raises `DTypeError` for long doubles.
        """
        if not self.closure_only_reason:
            return self
        raise DTypeError(
            f"the weights are {self.values.dtype}, and sparse elimination and searches take floats of at most 64 "
            "bits: round them by A.astype(np.float64), or use closure, or the functions of paths without method="
        )


def edges_of(
    A: Any, semiring: Semiring, dtype: Any = None, reading: Reading = DEFAULT_READING, *, check: bool = True
) -> SparseEntries:
    """Return the edges of a matrix, a frame, a graph, a file, or a `Network`; ⊕ adds edges that are listed twice.

    With ``check`` a dense matrix is scanned for the "no edge" of another convention, as `closure` does.

    Raises `ShapeError`, `DTypeError`, `DeviceError` for an array on a GPU, and `DomainError` for an entry that is NaN
    or outside the domain, or an edge of unbounded gain.
    """
    names, directed = None, reading.directed is not False
    A, reading = open_graph(A, semiring, reading, sparse=True)
    if may_name_vertices(A) or reading.columns is not None:
        edges = list_edges(A, reading)
        if edges is not None:
            rows, columns, values = weighted_edges(edges, semiring, dtype, directed=directed)
            found = _read_lists(edges.size, rows, columns, values, semiring, edges.names)
            return replace(found, directed=directed and edges.directed)
        labelled_matrix = convert_input(A, semiring, reading)
        A, names, network = labelled_matrix.matrix, labelled_matrix.names, labelled_matrix.network
        directed = directed and (network is None or is_directed(network))
    else:
        require_square(A)
    A = A.unpack() if isinstance(A, BitMatrix) else as_host_operand(A)
    both = names is None and reading.directed is False
    if is_sparse(A):
        return replace(_read_sparse(A, semiring, dtype, names, both), directed=directed)
    dense = as_matrix(A, semiring, dtype, square=True)
    if check:
        warn_of_other_zeros(dense, semiring)
    if both:
        dense = symmetrize(dense, semiring)
    n = len(dense)
    places = np.flatnonzero(dense != semiring.zero_for(dense.dtype))
    starts, values = np.searchsorted(places, n * np.arange(n + 1)), dense.ravel()[places]
    columns = np.empty(places.size, np.int32)
    np.subtract(places, np.repeat(n * np.arange(n), np.diff(starts)), out=columns, casting="unsafe")
    pattern = Pattern(n, starts.astype(np.int64), columns)
    return replace(check_values(pattern, values, semiring, names), directed=directed)


def reached_vertices(starts: Array, heads: Array, vertices: Array) -> Array:
    """Return a mask of the vertices that some vertices reach, themselves included."""
    seen = np.zeros(starts.size - 1, np.bool_)
    frontier = np.unique(vertices)
    while frontier.size:
        seen[frontier] = True
        counts = starts[frontier + 1] - starts[frontier]
        ends = np.cumsum(counts)
        places = np.repeat(starts[frontier] - ends + counts, counts) + np.arange(ends[-1])
        found = heads[places]
        frontier = np.unique(found[~seen[found]])
    return seen


def keep_edges(edges: SparseEntries, mask: Array) -> SparseEntries:
    """Return the edges of a mask, with all vertices."""
    pattern = edges.pattern
    starts = np.append(0, np.cumsum(mask))[pattern.starts].astype(np.int64)
    kept = Pattern(pattern.n, starts, pattern.indices[mask])
    return SparseEntries(kept, edges.values[mask], edges.names, edges.scan)


def relevant_edges(edges: SparseEntries, sources: Array | None, targets: Array | None) -> SparseEntries | None:
    """Return the edges on walks from a source to a target; None if these are all edges. None: all vertices."""
    pattern = edges.pattern
    first, tails, _ = pattern.columns
    is_relevant = np.ones(pattern.n, np.bool_)
    if sources is not None:
        is_relevant &= reached_vertices(pattern.starts, pattern.indices, sources)
    if targets is not None:
        is_relevant &= reached_vertices(first, tails, targets)
    mask = is_relevant[pattern.rows] & is_relevant[pattern.indices]
    return None if mask.all() else keep_edges(edges, mask)


def _make_pattern(n: int, rows: Array, columns: Array) -> Pattern:
    """Return the pattern of entries that are sorted by row and column."""
    starts = np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)
    return Pattern(n, starts, columns.astype(np.int32))


def _read_sparse(A: Any, semiring: Semiring, dtype: Any, names: Any, is_undirected: bool) -> SparseEntries:
    """Return the edges of a SciPy sparse matrix, or of its union with its transpose if ``is_undirected``."""
    if A.shape[0] != A.shape[1]:
        raise square_error(A.shape)
    if A.shape[0] > _MAX_VERTICES:
        raise TooLargeError(
            f"A has {A.shape[0]:,} vertices, and at most {_MAX_VERTICES:,} are numbered: pass a part of it"
        )
    dtype = common_dtype(semiring, A) if dtype is None else as_dtype(dtype)
    semiring.check_dtype(dtype)
    n = int(A.shape[0])
    rows, columns, stored = stored_entries(A)
    values = convert(stored, semiring, dtype, "A.data")
    ordered = A.format == "csr" and not is_undirected and is_ascending(A.indptr, columns)
    if ordered and not (values == semiring.zero_for(dtype)).any():
        pattern = Pattern(n, A.indptr.astype(np.int64), columns.astype(np.int32))
        return check_values(pattern, values, semiring, names)
    if is_undirected:
        other = np.flatnonzero(rows != columns)
        rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
        values = np.concatenate([values, values[other]])
    return _read_lists(n, rows, columns, values, semiring, names, warns_of_duplicates=not is_undirected)


def _read_lists(
    n: int,
    rows: Array,
    columns: Array,
    values: Array,
    semiring: Semiring,
    names: Any,
    *,
    warns_of_duplicates: bool = False,
) -> SparseEntries:
    """Return the listed edges, of which ⊕ adds duplicates; with ``warns_of_duplicates``, warn of them."""
    is_edge = values != semiring.zero_for(values.dtype)  # NaN is kept, and is reported later
    if not is_edge.all():
        rows, columns, values = rows[is_edge], columns[is_edge], values[is_edge]
    rows, columns = rows.astype(np.int32), columns.astype(np.int32)
    starts, order = elimination_trees.compress_rows(n, rows, columns)
    rows, columns, values = rows[order], columns[order], values[order]
    if not ((rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])).all():
        if warns_of_duplicates:
            warn_of_duplicates(semiring)
        cells, values = add_duplicates(rows.astype(np.int64) * n + columns, values, semiring)
        return check_values(_make_pattern(n, cells // n, cells % n), values, semiring, names)
    return check_values(Pattern(n, starts, columns), values, semiring, names)


def check_values(pattern: Pattern, values: Array, semiring: Semiring, names: Any) -> SparseEntries:
    """Return the edges of a pattern with these values. Raises `DomainError`, as `edges_of` does."""
    try:
        scan = check_entries(values, semiring)
        if semiring.tropical is not None:
            refuse_unbounded(values, scan, semiring)
    except DomainError as error:
        (entry,) = error.position
        raise error.at(int(pattern.rows[entry]), int(pattern.indices[entry])).named(names) from None
    return SparseEntries(pattern, values, names, scan)


def largest_magnitude(values: Array, scan: Scan) -> Any:
    """Return the largest magnitude in a scanned array, except "no path" and infinities."""
    if values.dtype.kind == "i":
        return max((abs(int(end)) for end in (scan.low, scan.high) if end is not None), default=0)
    if not is_floating(values.dtype):
        return 0
    return float(np.abs(values.astype(np.float64)).max(initial=0.0, where=np.isfinite(values)))


def choose_work_dtype(semiring: Semiring, dtype: np.dtype[Any], n: int, largest: Any, addend: int = 0) -> np.dtype[Any]:
    """Return the dtype to compute in, which is float32 for float16 and bfloat16.

    In a dtype of integers, the sum of n weights of at most ``largest`` and of ``addend`` stays below "no path".
    """
    inner: np.dtype[Any] | None = dtype
    if not has_inner_zero(semiring, dtype):
        return np.dtype(np.float32) if is_half(dtype) else dtype
    while inner is not None:
        if largest * (n + 1) + addend < limits_of(inner).half:
            return inner
        inner = next_wider_integer(inner)
    raise IntegerOverflowError(
        f"paths of {n} edges of weights up to {largest} may exceed half the range of int64, in which {semiring.name} "
        "computes in: use float64, which holds every sum, rounded"
    )
