"""Find predecessors on a GPU by the method of `semiring.algorithms.predecessors`, with a thread block for each row.

All kernels are in ``predecessors.cu``. Cost on a complete graph with random weights: some passes over the two matrices,
and some look-ups in shared memory for every entry, log n at most. This is 9 % of the closure at n = 8192, whether many
weights are equal or none (H200, float32).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, KernelPlan
from semiring.kernels.cuda.closing.modules import granted, kernel
from semiring.kernels.cuda.closing.sources import arithmetic_of
from semiring.kernels.tolerance import Tolerance, unattained_distance

__all__ = ["find_predecessors", "find_tree"]

_SLICE = 32  # vertices whose lists of edges are interleaved
_PIECES = 64  # parts of a column at most, each of which one thread reads
_MANY = 64  # direct edges into a vertex from which it pays to drop the edges that end no path
_SHARED = 200 << 10  # bytes that stay in shared memory, where the device grants them
_BESIDE = 10 << 10  # additional bytes that a kernel may use
_WIDE = 100 << 10  # bytes of a row from which on a multiprocessor holds one block, of more threads


class _Case:
    """A closed matrix and the matrix before the closure, with the kernels for them."""

    def __init__(self, plan: KernelPlan, D: Any, before: Any, tolerance: Tolerance) -> None:
        self.plan, self.tolerance = plan, tolerance
        self.D, self.before = _with_adjacent_columns(D), _with_adjacent_columns(before)
        self.n = D.shape[0]
        self.room = min(_SHARED, granted() - _BESIDE)
        row = self.n * D.itemsize
        self.shared = row if row <= self.room else 0
        self.limits = _limits(tolerance, cupy.cuda.Device().id)
        self.matrices = (
            *(self.D, np.int64(self.D.strides[0] // D.itemsize)),
            *(self.before, np.int64(self.before.strides[0] // D.itemsize)),
            np.int32(self.n),
        )

    def run(
        self, name: str, blocks: tuple[int, ...], threads: int, arguments: tuple[Any, ...], shared: int = 0
    ) -> None:
        """Launch the kernel of that name."""
        macros = defines(self.tolerance, bool(self.shared))
        compiled = kernel("predecessors.cu", name, arithmetic_of(self.plan), macros, self.room if shared else 0)
        compiled(blocks, (threads,), arguments, shared_mem=shared)

    def launch(
        self, name: str, blocks: tuple[int, ...], threads: int, arguments: tuple[Any, ...], shared: int = 0
    ) -> None:
        """Launch a kernel that reads the matrices."""
        self.run(name, blocks, threads, (*self.matrices, *arguments), shared)

    def repair(self, pred: Any, flagged: Any, blocks: int) -> Any:
        """Recompute the flagged rows of pred, and return the word that is set if that failed."""
        n, failed = self.n, cupy.zeros(1, np.int32)
        lengths, hops = cupy.empty((blocks, n), np.float64), cupy.empty((blocks, n), np.int32)
        self.launch("repair_trees", (blocks,), 512, (self.limits, pred, flagged, lengths, hops, failed))
        return failed


def defines(tolerance: Tolerance, row_in_shared: bool) -> tuple[str, ...]:
    """Return the macros with which ``predecessors.cu`` is compiled."""
    chosen = {
        "EXACT": tolerance.is_exact,
        "RELATIVE": tolerance.is_relative,
        "ROW_IN_SHARED": row_in_shared,
    }
    return (f"NONE ({NO_PREDECESSOR})", *(name for name, is_set in chosen.items() if is_set))


@lru_cache(maxsize=64)
def _limits(tolerance: Tolerance, device: int) -> Any:
    limits = cupy.asarray([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    cupy.cuda.get_current_stream().synchronize()  # other streams read it too
    return limits


def _with_adjacent_columns(A: Any) -> Any:
    return A if A.strides[1] == A.itemsize else cupy.ascontiguousarray(A)


def find_predecessors(plan: KernelPlan, D: Any, tolerance: Tolerance, before: Any) -> Any:
    """Return the predecessors (n, n) int32 of the closed matrix D, from the matrix ``before`` the closure.

    The function waits for the device to read the number of direct edges, again where there are many, and to test
    whether all paths add up. Raises `AlgebraError` where they do not.
    """
    case = _Case(plan, D, before, tolerance)
    n = case.n
    lists, improves = _direct_edges(case)
    pred, flagged = cupy.empty((n, n), np.int32), cupy.empty(n, np.uint8)
    threads = min(1024 if case.shared >= _WIDE else 512, -(-n // 32) * 32)
    case.launch("last_edges", (n,), threads, (*lists, case.limits, improves, pred, flagged), case.shared)
    if int(case.repair(pred, flagged, min(n, 132))[0]):
        raise unattained_distance(plan)
    return pred


def _direct_edges(case: _Case) -> tuple[tuple[Any, ...], Any]:
    """Return the lists of direct edges in the form of the kernels, and the word that is set if one improves on 1̄.

    Each slice takes the memory of 32 lists as long as its longest. The worst case is n² edges: all other vertices have
    edges into one vertex of every slice.
    """
    n, itemsize = case.n, case.D.itemsize
    rows = max(32, -(-n // _PIECES))  # of a piece
    pieces = -(-n // rows)
    grid = -(-n // 256), pieces
    counts, improves = cupy.empty((pieces, n), np.int32), cupy.zeros(1, np.int32)
    degrees, widths = cupy.empty(n, np.int32), cupy.empty(-(-n // _SLICE), np.int32)

    def count(best: Any, worst: Any) -> np.ndarray:
        case.launch("count_edges", grid, 256, (np.int32(rows), case.limits, best, worst, counts, improves))
        case.run("lay_out", (-(-n // 256),), 256, (np.int32(n), np.int32(pieces), counts, degrees, widths))
        longest: np.ndarray = widths.get()
        return longest

    best = worst = np.intp(0)
    longest = count(best, worst)
    if longest.mean() > _MANY:
        best, worst = cupy.empty(n, case.D.dtype), cupy.empty(n, case.D.dtype)
        case.launch("bounds", (-(-n // _SLICE),), 512, (case.limits, best, worst))
        longest = count(best, worst)
    ends = np.cumsum(longest, dtype=np.int64)
    ends_there, places = cupy.asarray(ends), max(1, int(ends[-1])) * _SLICE
    sources, weights = cupy.empty(places, np.int32), cupy.empty(places, case.D.dtype)
    filled = (np.int32(rows), case.limits, best, worst, counts, ends_there, sources, weights)
    case.launch("fill_edges", grid, 256, filled)
    one = _SLICE * (itemsize + sources.itemsize)  # bytes of one edge into each vertex of a slice
    sortable = min(case.room // one, int(longest.max()))
    arguments = (np.int32(n), np.int32(sortable), degrees, ends_there, sources, weights)
    case.run("sort_edges", (len(longest),), 1024, arguments, max(1, sortable) * one)
    return (degrees, ends_there, np.int32(sortable), sources, weights), improves


def find_tree(plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
    """Return the predecessors (n,) int32 of the paths from one vertex; raises `AlgebraError` as `find_predecessors`."""
    n = D.shape[0]
    row, flagged = cupy.empty(n, np.int32), cupy.zeros(n, np.uint8)
    flagged[source] = 1
    # The kernel writes row `source` of a matrix, so it receives the address where that matrix would begin.
    address = np.uint64((row.data.ptr - row.nbytes * source) % 2**64)
    if int(_Case(plan, D, weights, tolerance).repair(address, flagged, 1)[0]):
        raise unattained_distance(plan)
    return row
