"""Write the paths of predecessor matrices as arrays of vertices, rows on threads."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semiring.kernels.contract import Array
from semiring.kernels.cpu.codegen.jit import kernel
from semiring.kernels.cpu.thread_pool import run_on_ranges

_PARALLEL_ENTRIES = 1 << 15  # of the result: from here on the work takes longer than waking a second thread
_UNKNOWN = -2


def count_vertices(predecessors: Array, sources: Array, counts: Array, threads: int) -> None:
    """Write the number of vertices of each path: see `semiring.kernels.contract.PathKernels`."""

    def count(start: int, stop: int) -> None:
        _count(rows, sources, lengths, start, stop)

    rows, lengths = _rows(predecessors), counts.reshape(-1, counts.shape[-1])
    _run(count, len(rows), counts.size, threads)


def write_paths(predecessors: Array, targets: Array, counts: Array, out: Array, threads: int) -> None:
    """Write the vertices of each path: see `semiring.kernels.contract.PathKernels`."""

    def write(start: int, stop: int) -> None:
        _write(rows, targets, lengths, paths, start, stop)

    rows, lengths = _rows(predecessors), counts.reshape(-1, counts.shape[-1])
    paths = out.reshape(-1, *out.shape[-2:])
    _run(write, len(rows), out.size, threads)


def _rows(predecessors: Array) -> Array:
    """Return the predecessors as rows of adjacent entries."""
    return np.ascontiguousarray(predecessors, np.int32).reshape(-1, predecessors.shape[-1])


def _run(function: Callable[[int, int], None], rows: int, entries: int, threads: int) -> None:
    if entries < _PARALLEL_ENTRIES:
        function(0, rows)
    else:
        run_on_ranges(function, rows, max(1, rows // (4 * threads)), threads)


@kernel
def _count(rows, sources, counts, start, stop):
    """Write the lengths of the paths of some rows. Each vertex is visited twice at most."""
    n = rows.shape[1]
    for r in range(start, stop):
        row, lengths = rows[r], counts[r]
        lengths[:] = _UNKNOWN
        lengths[sources[r % sources.size]] = 1
        for j in range(n):
            steps = 0
            v = j
            while lengths[v] == _UNKNOWN and steps <= n:
                before = row[v]
                if before < 0:
                    lengths[v] = 0  # no path
                elif before >= n or steps == n:
                    lengths[v] = -1  # no vertex, or a circle
                else:
                    v = before
                    steps += 1
            known = lengths[v]
            v = j
            for step in range(steps, 0, -1):
                lengths[v] = known + step if known > 0 else known
                v = row[v]


@kernel
def _write(rows, targets, counts, out, start, stop):
    """Write the vertices of the paths of some rows, from their ends."""
    for r in range(start, stop):
        row, lengths = rows[r], counts[r]
        out[r, :, :] = -1
        for c in range(targets.size):
            path = out[r, c]
            count = lengths[c]
            v = targets[c]
            for place in range(count - 1, -1, -1):
                path[place] = v
                v = row[v]
