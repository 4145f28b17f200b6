"""Predecessors on a GPU: the method of `semiring.algorithms.predecessors`, a block of threads a row.

All kernels are in ``staged/predecessors.cu``. Cost on a complete graph with random weights: some passes over the two
matrices, and for every entry about log n look-ups in shared memory: 9 % of the closure at n = 8192 (H200, float32).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import Plan
from semiring.kernels.cuda.staged.modules import granted, kernel
from semiring.kernels.cuda.staged.sources import arithmetic_of
from semiring.kernels.tolerance import Tolerance, unattained

__all__ = ["find_predecessors", "find_tree"]

_PIECE = 128  # rows in which one thread counts the edges of a column
_SHARED = 200 << 10  # bytes of a row that stay in shared memory, where the device grants them
_BESIDE = 1 << 10  # bytes that the kernel may use beside it
_THREADS = 512


class _Case:
    """A closed matrix and the one before, with the kernels that take them."""

    def __init__(self, plan: Plan, D: Any, before: Any, tolerance: Tolerance) -> None:
        self.plan, self.tolerance = plan, tolerance
        self.D, self.before = _with_adjacent_columns(D), _with_adjacent_columns(before)
        self.n = D.shape[0]
        row = self.n * D.itemsize
        self.shared = row if row <= min(_SHARED, granted() - _BESIDE) else 0
        self.limits = _limits(tolerance, cupy.cuda.Device().id)
        self.matrices = (
            *(self.D, np.int64(self.D.strides[0] // D.itemsize)),
            *(self.before, np.int64(self.before.strides[0] // D.itemsize)),
            np.int32(self.n),
        )

    def launch(
        self, name: str, grid: tuple[int, ...], threads: int, arguments: tuple[Any, ...], shared: int = 0
    ) -> None:
        compiled = kernel(
            "predecessors.cu", name, arithmetic_of(self.plan), defines(self.tolerance, bool(self.shared)), self.shared
        )
        compiled(grid, (threads,), (*self.matrices, *arguments), shared_mem=shared)

    def repair(self, pred: Any, flagged: Any, blocks: int) -> Any:
        """Do the flagged rows of pred again. Returns the word that says whether that failed."""
        n, failed = self.n, cupy.zeros(1, np.int32)
        lengths, hops = cupy.empty((blocks, n), np.float64), cupy.empty((blocks, n), np.int32)
        self.launch("repair_trees", (blocks,), _THREADS, (self.limits, pred, flagged, lengths, hops, failed))
        return failed


def defines(tolerance: Tolerance, row_in_shared: bool) -> tuple[str, ...]:
    """The macros that ``predecessors.cu`` is compiled with."""
    chosen = {
        "EXACT": tolerance.exact,
        "RELATIVE": tolerance.relative,
        "ROW_IN_SHARED": row_in_shared,
    }
    return tuple(name for name, wanted in chosen.items() if wanted)


@lru_cache(maxsize=64)
def _limits(tolerance: Tolerance, device: int) -> Any:
    limits = cupy.asarray([*tolerance.tight, *tolerance.loose, *tolerance.bound])
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return limits


def _with_adjacent_columns(A: Any) -> Any:
    return A if A.strides[1] == A.itemsize else cupy.ascontiguousarray(A)


def find_predecessors(plan: Plan, D: Any, tolerance: Tolerance, before: Any, pivots: Any = None) -> Any:
    """The predecessors (n, n) int32 of the closed matrix D, by the matrix ``before`` closing or its ``pivots``.

    Waits for the device twice: for the number of direct edges, and to hear whether all paths add up. Raises
    `AlgebraError` where they do not.
    """
    if before is None:
        before = cupy.where(pivots == -1, D, plan.dtype.type(plan.zero))
    case = _Case(plan, D, before, tolerance)
    n = case.n
    pred, flagged = cupy.empty((n, n), np.int32), cupy.empty(n, np.uint8)
    pieces = -(-n // _PIECE)
    grid = (-(-n // 256), pieces)
    counts, improves = cupy.empty((n, pieces), np.int32), cupy.zeros(1, np.int32)
    case.launch("count_edges", grid, 256, (np.int32(_PIECE), case.limits, counts, improves))
    ends = cupy.cumsum(counts.ravel(), dtype=np.int64)
    edges = int(ends[-1])
    sources, weights = cupy.empty(max(1, edges), np.int32), cupy.empty(max(1, edges), D.dtype)
    case.launch("fill_edges", grid, 256, (np.int32(_PIECE), case.limits, ends, sources, weights))
    case.launch(
        "last_edges",
        (n,),
        min(_THREADS, -(-n // 32) * 32),
        (ends, np.int32(pieces), sources, weights, case.limits, improves, pred, flagged),
        case.shared,
    )
    if int(case.repair(pred, flagged, min(n, 132))[0]):
        raise unattained(plan)
    return pred


def find_tree(plan: Plan, D: Any, weights: Any, tolerance: Tolerance, source: int) -> Any:
    """The predecessors (n,) int32 of the paths from one vertex. Raises `AlgebraError` as `find_predecessors`."""
    n = D.shape[0]
    row, flagged = cupy.empty(n, np.int32), cupy.zeros(n, np.uint8)
    flagged[source] = 1
    # The kernel writes row `source` of a matrix of predecessors: where that matrix would begin, the row being this one.
    address = np.uint64((row.data.ptr - row.nbytes * source) % 2**64)
    if int(_Case(plan, D, weights, tolerance).repair(address, flagged, 1)[0]):
        raise unattained(plan)
    return row
