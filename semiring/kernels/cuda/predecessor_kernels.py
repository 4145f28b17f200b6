"""Find predecessors on a GPU by the method of `semiring.algorithms.predecessors`, with a thread block for each row.

All kernels are in ``predecessors.cu``. Cost on a complete graph with random weights: some passes over the two matrices,
and at most log n look-ups in shared memory for every entry. This is 9 % of the closure at n = 8192, whether many
weights are equal or none (H200, float32).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, KernelPlan
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, max_shared_memory
from semiring.kernels.tolerance import Tolerance, unattained_distance

_SLICE = 32  # the vertices whose lists of edges are interleaved
_PIECES = 64  # the most parts of a column, each of which one thread reads
_MANY_EDGES = 64  # with more direct edges into a vertex, it is faster to drop the edges that end no path
_SHARED_BYTES = 200 << 10  # the most bytes of data in the shared memory of a block
_OTHER_SHARED_BYTES = 10 << 10  # additional bytes of shared memory that a kernel may use
_WIDE_ROW_BYTES = 100 << 10  # from this size of a row on, a multiprocessor holds a single block, with more threads


class _SearchMatrices:
    """A closed matrix D, the matrix of the weights before the closure, and the kernels that read both.

    ``shared_limit`` is the most bytes of data in the shared memory of a block. ``shared_bytes`` is the size of a row,
    or 0 if a row does not fit. ``limits`` are the bounds of the tolerance, on the device.
    """

    def __init__(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance) -> None:
        self.plan, self.tolerance = plan, tolerance
        self.D, self.weights = _with_adjacent_columns(D), _with_adjacent_columns(weights)
        self.n = D.shape[0]
        self.shared_limit = min(_SHARED_BYTES, max_shared_memory() - _OTHER_SHARED_BYTES)
        row = self.n * D.itemsize
        self.shared_bytes = row if row <= self.shared_limit else 0
        self.limits = _limits(tolerance, cupy.cuda.Device().id)
        self.matrices = (
            *(self.D, np.int64(self.D.strides[0] // D.itemsize)),
            *(self.weights, np.int64(self.weights.strides[0] // D.itemsize)),
            np.int32(self.n),
        )

    def launch_kernel(
        self, name: str, blocks: tuple[int, ...], threads: int, arguments: tuple[Any, ...], shared_bytes: int = 0
    ) -> None:
        """Launch the kernel ``name`` with ``shared_bytes`` of dynamic shared memory."""
        macros = defines(self.tolerance, bool(self.shared_bytes))
        compiled = compile_kernel(
            "predecessors.cu", name, arithmetic_of(self.plan), macros, self.shared_limit if shared_bytes else 0
        )
        compiled(blocks, (threads,), arguments, shared_mem=shared_bytes)

    def launch_on_matrices(
        self, name: str, blocks: tuple[int, ...], threads: int, arguments: tuple[Any, ...], shared_bytes: int = 0
    ) -> None:
        """Launch a kernel whose first parameters are both matrices."""
        self.launch_kernel(name, blocks, threads, (*self.matrices, *arguments), shared_bytes)

    def repair(self, pred: Any, flags: Any, blocks: int) -> Any:
        """Recompute the rows of pred whose flags (n,) are set, and return the word that is set if that failed."""
        n, failed = self.n, cupy.zeros(1, np.int32)
        lengths, hops = cupy.empty((blocks, n), np.float64), cupy.empty((blocks, n), np.int32)
        self.launch_on_matrices("repair_trees", (blocks,), 512, (self.limits, pred, flags, lengths, hops, failed))
        return failed


def defines(tolerance: Tolerance, row_in_shared: bool) -> tuple[str, ...]:
    """Return the macros with which ``predecessors.cu`` is compiled."""
    chosen = {"EXACT": tolerance.is_exact, "RELATIVE": tolerance.is_relative, "ROW_IN_SHARED": row_in_shared}
    return (f"NONE ({NO_PREDECESSOR})", *(name for name, is_set in chosen.items() if is_set))


@lru_cache(maxsize=64)
def _limits(tolerance: Tolerance, device: int) -> Any:
    limits = cupy.asarray([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    cupy.cuda.get_current_stream().synchronize()  # work on other streams reads the limits too
    return limits


def _with_adjacent_columns(A: Any) -> Any:
    return A if A.strides[1] == A.itemsize else cupy.ascontiguousarray(A)


def find_predecessors(plan: KernelPlan, D: Any, tolerance: Tolerance, weights: Any) -> Any:
    """Return the predecessors (n, n) int32 of the closed matrix D, from the ``weights`` (n, n) before the closure.

    The function waits for the device to read the number of direct edges, and again if there are many. It waits once
    more to test whether the weights of all paths add up to the distances. Raises `AlgebraError` if they do not.
    """
    case = _SearchMatrices(plan, D, weights, tolerance)
    n = case.n
    lists, improves = _direct_edges(case)
    pred, flags = cupy.empty((n, n), np.int32), cupy.empty(n, np.uint8)
    threads = min(1024 if case.shared_bytes >= _WIDE_ROW_BYTES else 512, -(-n // 32) * 32)
    case.launch_on_matrices(
        "last_edges", (n,), threads, (*lists, case.limits, improves, pred, flags), case.shared_bytes
    )
    if int(case.repair(pred, flags, min(n, 132))[0]):
        raise unattained_distance(plan)
    return pred


def _direct_edges(case: _SearchMatrices) -> tuple[tuple[Any, ...], Any]:
    """Return the lists of direct edges in the form of the kernels, and a word that is set if an edge improves on 1̄.

    Each slice takes the memory of 32 lists as long as its longest. The worst case is n² edges: all other vertices have
    edges into one vertex of every slice.
    """
    n, itemsize = case.n, case.D.itemsize
    rows = max(32, -(-n // _PIECES))  # the rows of a piece of a column
    pieces = -(-n // rows)
    grid = -(-n // 256), pieces
    counts, improves = cupy.empty((pieces, n), np.int32), cupy.zeros(1, np.int32)
    degrees, widths = cupy.empty(n, np.int32), cupy.empty(-(-n // _SLICE), np.int32)

    def count(best: Any, worst: Any) -> np.ndarray:
        case.launch_on_matrices("count_edges", grid, 256, (np.int32(rows), case.limits, best, worst, counts, improves))
        case.launch_kernel("lay_out", (-(-n // 256),), 256, (np.int32(n), np.int32(pieces), counts, degrees, widths))
        longest: np.ndarray = widths.get()
        return longest

    best = worst = np.intp(0)
    longest = count(best, worst)
    if longest.mean() > _MANY_EDGES:
        best, worst = cupy.empty(n, case.D.dtype), cupy.empty(n, case.D.dtype)
        case.launch_on_matrices("bounds", (-(-n // _SLICE),), 512, (case.limits, best, worst))
        longest = count(best, worst)
    ends = np.cumsum(longest, dtype=np.int64)
    ends_there, places = cupy.asarray(ends), max(1, int(ends[-1])) * _SLICE
    sources, weights = cupy.empty(places, np.int32), cupy.empty(places, case.D.dtype)
    filled = (np.int32(rows), case.limits, best, worst, counts, ends_there, sources, weights)
    case.launch_on_matrices("fill_edges", grid, 256, filled)
    one = _SLICE * (itemsize + sources.itemsize)  # the bytes of one edge into each vertex of a slice
    sortable = min(case.shared_limit // one, int(longest.max()))
    arguments = (np.int32(n), np.int32(sortable), degrees, ends_there, sources, weights)
    case.launch_kernel("sort_edges", (len(longest),), 1024, arguments, max(1, sortable) * one)
    return (degrees, ends_there, np.int32(sortable), sources, weights), improves


def find_tree(plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
    """Return the predecessors (n,) int32 of the paths from one vertex; raise as `find_predecessors`."""
    n = D.shape[0]
    row, flags = cupy.empty(n, np.int32), cupy.zeros(n, np.uint8)
    flags[source] = 1
    # The kernel writes row `source` of a matrix, so it receives the address where that matrix would begin.
    address = np.uint64((row.data.ptr - row.nbytes * source) % 2**64)
    if int(_SearchMatrices(plan, D, weights, tolerance).repair(address, flags, 1)[0]):
        raise unattained_distance(plan)
    return row
