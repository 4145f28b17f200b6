"""Find predecessors on a GPU by the method of `semiring.algorithms.predecessors`, with a thread block for each row.

The kernels are in ``predecessors.cu``, and those that write arrays of paths in ``path_arrays.cu``. Cost on a complete
graph with random weights: some passes over the two matrices, and at most log n look-ups in shared memory for every
entry. This is 9 % of the closure at n = 8192, whether many weights are equal or none (H200, float32).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, KernelPlan
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, current_device, max_shared_memory
from semiring.kernels.tolerance import Tolerance, unattained_distance

_SLICE = 32  # the vertices whose lists of edges are interleaved
_PIECES = 64  # the most parts of a column, each of which one thread reads
_MANY_EDGES = 64  # with more direct edges into a vertex, it is faster to drop the edges that end no path
_SHARED_BYTES = 200 << 10  # the most bytes of data in the shared memory of a block
_OTHER_SHARED_BYTES = 10 << 10  # additional bytes of shared memory that a kernel may use
_STACKED_ROWS = 128  # the most rows of a matrix whose lists one block makes
_STACK_BYTES = 1 << 28  # bytes of the lists of a stack at a time
_STACKED_MATRICES = 1 << 15  # the most matrices at a time, which are one axis of a grid
_PATH_THREADS = 256
_WIDE_ROW_BYTES = 100 << 10  # from this size of a row on, a multiprocessor holds a single block, with more threads
_ALL_ROWS = np.int32(0), np.intp(0), np.intp(0)  # the last arguments of last_edges for all rows and their weights


class _SearchMatrices:
    """A closed matrix D, the matrix of the weights before the closure, and the kernels that read both.

    Both may be stacks (count, n, n), which are then copied unless they are C-contiguous.

    ``shared_limit`` is the most bytes of data in the shared memory of a block. ``shared_bytes`` is the size of a row,
    or 0 if a row does not fit. ``limits`` are the bounds of the tolerance, on the device.
    """

    def __init__(self, plan: KernelPlan, D: Any, weights: Any, tolerance: Tolerance) -> None:
        self.plan, self.tolerance = plan, tolerance
        self.D, self.weights = _with_adjacent_columns(D), _with_adjacent_columns(weights)
        self.n = D.shape[-1]
        self.shared_limit = min(_SHARED_BYTES, max_shared_memory() - _OTHER_SHARED_BYTES)
        row = self.n * D.itemsize
        self.shared_bytes = row if row <= self.shared_limit else 0
        self.limits = _limits(tolerance, cupy.cuda.Device().id)
        self.matrices = (
            *(self.D, np.int64(self.D.strides[-2] // D.itemsize)),
            *(self.weights, np.int64(self.weights.strides[-2] // D.itemsize)),
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
        """Recompute the rows of pred whose flags are set, and return the word that is set if that failed."""
        n, failed = self.n, cupy.zeros(1, np.int32)
        lengths, hops = cupy.empty((blocks, n), np.float64), cupy.empty((blocks, n), np.int32)
        arguments = self.limits, pred, flags, lengths, hops, failed, np.int32(flags.size)
        self.launch_on_matrices("repair_trees", (blocks,), 512, arguments)
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
    return A if A.ndim == 2 and A.strides[1] == A.itemsize else cupy.ascontiguousarray(A)


def find_predecessors(plan: KernelPlan, D: Any, tolerance: Tolerance | list[Tolerance], weights: Any) -> Any:
    """Return the predecessors int32 of the closed D, (n, n) or (count, n, n), from the ``weights`` before the closure.

    The function waits for the device to read the number of direct edges, and again if there are many. It waits once
    more to test whether the weights of all paths add up to the distances. Raises `AlgebraError` if they do not.
    """
    if isinstance(tolerance, list):
        parts = zip(D, tolerance, weights, strict=True)
        return cupy.stack([find_predecessors(plan, *part) for part in parts])
    if D.ndim == 3:
        return _find_in_stack(plan, D, tolerance, weights)
    case = _SearchMatrices(plan, D, weights, tolerance)
    n = case.n
    lists, improves = _direct_edges(case)
    pred, flags = cupy.empty((n, n), np.int32), cupy.empty(n, np.uint8)
    threads = _row_threads(n, case.shared_bytes)
    case.launch_on_matrices(
        "last_edges", (n,), threads, (*lists, case.limits, improves, pred, flags, *_ALL_ROWS), case.shared_bytes
    )
    if int(case.repair(pred, flags, min(n, 132))[0]):
        raise unattained_distance(plan)
    return pred


def _find_in_stack(plan: KernelPlan, D: Any, tolerance: Tolerance, weights: Any) -> Any:
    """Return the predecessors of a stack: of small matrices together, of larger ones one by one."""
    (count, n, _), pred = D.shape, cupy.empty(D.shape, np.int32)
    if n > _STACKED_ROWS:
        for number in range(count):
            pred[number] = find_predecessors(plan, D[number], tolerance, weights[number])
        return pred
    slices = -(-n // _SLICE)
    places = slices * _SLICE * n  # of the lists of one matrix
    step = min(_STACKED_MATRICES, max(1, _STACK_BYTES // (places * (4 + D.itemsize))))
    ends = cupy.asarray(np.arange(1, slices + 1, dtype=np.int64) * n)
    for start in range(0, count, step):
        part = slice(start, min(count, start + step))
        case, size = _SearchMatrices(plan, D[part], weights[part], tolerance), part.stop - start
        degrees, improves = cupy.empty((size, n), np.int32), cupy.zeros(size, np.int32)
        sources, edges = cupy.empty(size * places, np.int32), cupy.empty(size * places, D.dtype)
        listed = case.D, case.weights, np.int32(n), case.limits, np.int32(_MANY_EDGES)
        case.launch_kernel("list_edges", (size,), slices * _SLICE, (*listed, degrees, sources, edges, improves))
        flags, lists = cupy.empty(size * n, np.uint8), (degrees, ends, np.int32(n), sources, edges)
        rows = (*lists, case.limits, improves, pred[part], flags, *_ALL_ROWS)
        case.launch_on_matrices("last_edges", (n, size), slices * _SLICE, rows, case.shared_bytes)
        if int(case.repair(pred[part], flags, min(flags.size, 132))[0]):
            raise unattained_distance(plan)
    return pred


class RowSearch:
    """A search for the predecessors of some rows on the current GPU, which holds neither the whole of D nor of A.

    `collect` finds the direct edges of rows of D and A. `use` makes the lists of all edges, and `search` finds the
    predecessors of rows of D from them. The results are those of `find_predecessors`, except for rows of which
    `search` returns a flag: these need a repair.

    The memory is that of the lists, 2 · (4 + itemsize) bytes an edge, beside the rows.
    """

    def __init__(self, plan: KernelPlan, tolerance: Tolerance, n: int) -> None:
        self._plan, self._tolerance, self._n = plan, tolerance, n
        self._limits = _limits(tolerance, cupy.cuda.Device().id)
        self._shared_limit = min(_SHARED_BYTES, max_shared_memory() - _OTHER_SHARED_BYTES)
        most = _MANY_EDGES * n
        self._found, self._has_gain = cupy.zeros(1, np.uint64), cupy.zeros(1, np.int32)
        self._edges = cupy.empty(most, np.int32), cupy.empty(most, np.int32), cupy.empty(most, plan.dtype)

    def collect(self, D: Any, weights: Any, first_row: int) -> None:
        """Enqueue a search for the direct edges in rows of D and A, which begin with ``first_row``."""
        matrices = D, np.int64(D.shape[1]), weights, np.int64(weights.shape[1]), np.int32(self._n)
        found = np.int32(self._edges[0].size), self._found, *self._edges, self._has_gain
        self._launch("collect_edges", len(D), 256, (*matrices, np.int32(first_row), self._limits, *found))

    def collected(self) -> tuple[Any, ...] | None:
        """Return the tails, heads and weights of the edges, on the host, and whether one improves on 1̄.

        The result is None if there are more than `_MANY_EDGES` for each vertex. The call waits for the device.
        """
        count = int(self._found[0])
        if count > self._edges[0].size:
            return None
        return *(edges[:count].get() for edges in self._edges), bool(self._has_gain[0])

    def use(self, tails: Any, heads: Any, weights: Any, *, has_gain: bool) -> None:
        """Make the lists of all direct edges, which are arrays of the host in any order."""
        n, slices = self._n, -(-self._n // _SLICE)
        tails, heads, weights = cupy.asarray(tails), cupy.asarray(heads), cupy.asarray(weights)
        order = cupy.lexsort(cupy.stack([tails, heads])) if len(tails) else cupy.arange(0)
        degrees = cupy.bincount(heads, minlength=n)[:n]
        widths = cupy.zeros(slices * _SLICE, np.int64)
        widths[:n] = degrees
        widths = widths.reshape(slices, _SLICE).max(axis=1)
        ends, sorted_heads = cupy.cumsum(widths), heads[order]
        in_list = cupy.arange(len(heads)) - (cupy.cumsum(degrees) - degrees)[sorted_heads]
        slice_of = sorted_heads // _SLICE
        places = ((ends - widths)[slice_of] + in_list) * _SLICE + sorted_heads % _SLICE
        size = max(1, int(ends[-1])) * _SLICE
        sources, listed = cupy.empty(size, np.int32), cupy.empty(size, weights.dtype)
        sources[places], listed[places] = tails[order], weights[order]
        one = _SLICE * (listed.itemsize + sources.itemsize)
        sortable = min(self._shared_limit // one, int(widths.max()))
        degrees = degrees.astype(np.int32)
        arguments = np.int32(n), np.int32(sortable), degrees, ends, sources, listed
        self._launch("sort_edges", slices, 1024, arguments, max(1, sortable) * one)
        starts = cupy.zeros(n + 1, np.int64)
        starts[1:] = cupy.cumsum(cupy.bincount(tails, minlength=n)[:n])
        self._lists = degrees, ends, np.int32(sortable), sources, listed
        self._out = starts, heads[cupy.argsort(tails, kind="stable")]
        self._has_gain = cupy.asarray([has_gain], np.int32)

    def search(self, D: Any, first_row: int, pred: Any, flags: Any) -> None:
        """Enqueue a search for the predecessors of rows of D, which begin with ``first_row``.

        ``flags`` (rows,) uint8: whether a row needs a repair.
        """
        row = D.nbytes // len(D)
        shared = row if row <= self._shared_limit else 0
        matrices = D, np.int64(D.shape[1]), np.intp(0), np.int64(0), np.int32(self._n)
        rows = *self._lists, self._limits, self._has_gain, pred, flags, np.int32(first_row), *self._out
        self._launch("last_edges", len(D), _row_threads(self._n, shared), (*matrices, *rows), shared)

    def _launch(self, name: str, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
        macros = defines(self._tolerance, name == "last_edges" and shared_bytes > 0)
        limit = self._shared_limit if shared_bytes else 0
        compiled = compile_kernel("predecessors.cu", name, arithmetic_of(self._plan), macros, limit)
        compiled((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def _row_threads(n: int, shared_bytes: int) -> int:
    """Return the threads of a block of last_edges, which keeps ``shared_bytes`` of a row in shared memory."""
    return min(1024 if shared_bytes >= _WIDE_ROW_BYTES else 512, -(-n // 32) * 32)


def count_vertices(pred: Any, sources: Any, counts: Any) -> None:
    """Write the number of vertices of each path: see `semiring.kernels.contract.PathKernels`."""
    trees = cupy.ascontiguousarray(pred)
    p, n = trees.shape[-2:]
    _launch_on_paths("count_vertices", counts.size, trees, sources, np.int32(p), np.int32(n), _count(counts), counts)


def write_paths(pred: Any, targets: Any, counts: Any, out: Any) -> None:
    """Write the vertices of each path: see `semiring.kernels.contract.PathKernels`."""
    trees, (q, length) = cupy.ascontiguousarray(pred), out.shape[-2:]
    sizes = np.int32(trees.shape[-1]), np.int32(q), _count(counts), np.int32(length)
    _launch_on_paths("write_paths", counts.size, trees, targets, counts, *sizes, out)


def _count(array: Any) -> Any:
    return np.int64(array.size)


def _launch_on_paths(name: str, paths: int, *arguments: Any) -> None:
    """Launch a kernel of ``path_arrays.cu`` with a thread for each path."""
    _path_kernel(name, current_device())((-(-paths // _PATH_THREADS),), (_PATH_THREADS,), arguments)


@lru_cache
def _path_kernel(name: str, device: int) -> Any:
    """Return a kernel of ``path_arrays.cu`` on the current ``device``, which CuPy compiles or reads from its cache."""
    text = Path(__file__).with_name("path_arrays.cu").read_text("utf-8")
    return cupy.RawModule(code=text, options=("--std=c++17",), backend="nvrtc").get_function(name)


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
