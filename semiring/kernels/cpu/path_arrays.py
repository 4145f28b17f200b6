"""Write the paths of predecessor matrices as arrays of vertices, and fold numbers along them, rows on threads."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring, times
from semiring.kernels.cpu.thread_pool import run_on_ranges

_PARALLEL_ENTRIES = 1 << 15  # of the result: from here on the work takes longer than waking a second thread
_FOLDED_ROWS = 16


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


def fold_paths(plan: KernelPlan, predecessors: Array, sources: Array, W: Array, none: Any, out: Array) -> int:
    """Fold the entries of W along each path: see `semiring.kernels.contract.PathKernels`."""
    wide = np.dtype(np.float64) if plan.dtype.kind == "f" else plan.dtype
    sr = ScalarSemiring(replace(plan, dtype=wide, zero=wide.type(plan.zero), one=wide.type(plan.one)))
    one, failed = np.array([plan.one], wide), []

    def fold(start: int, stop: int) -> None:
        failed.append(_fold(sr, rows, sources, W, one, none, values, start, stop))

    rows, values = _rows(predecessors), out.reshape(-1, out.shape[-1])
    _run(fold, len(rows), out.size, plan.threads)
    return min((row for row in failed if row >= 0), default=-1)


def _rows(predecessors: Array) -> Array:
    """Return the predecessors as rows of adjacent entries."""
    return np.ascontiguousarray(predecessors, np.int32).reshape(-1, predecessors.shape[-1])


def _run(function: Callable[[int, int], None], rows: int, entries: int, threads: int) -> None:
    if entries < _PARALLEL_ENTRIES:
        function(0, rows)
    else:
        run_on_ranges(function, rows, max(1, rows // (4 * threads)), threads)


@inner
def _start_row(row, root, pointers):
    """Write the predecessor of each vertex, or the vertex itself without one, to ``pointers``."""
    for j in range(row.size):
        p = row[j]
        pointers[j] = p if 0 <= p < row.size else j
    pointers[root] = root


@inner
def _differ(x, y):
    difference = np.int32(0)
    for j in range(x.size):
        difference |= x[j] ^ y[j]
    return difference != 0


@inner
def _double_counts(pointers, counts, further, more):
    """Write pointers and numbers of edges of twice the length, and return whether a pointer changed."""
    for j in range(pointers.size):
        p = pointers[j]
        more[j] = counts[j] + counts[p]
        further[j] = pointers[p]
    return _differ(pointers, further)


@inner
def _double_folds(sr, pointers, values, further, more):
    """Write pointers and folds of twice the length, and return whether a pointer changed."""
    for j in range(pointers.size):
        p = pointers[j]
        more[j] = times(sr, values[p], values[j])
        further[j] = pointers[p]
    return _differ(pointers, further)


@kernel
def _count(rows, sources, counts, start, stop):
    """Write the lengths of the paths of some rows, in log₂ of the longest rounds of loops without branches.

    Chains that are followed vertex by vertex take twice as long, because a processor cannot predict where they end.
    """
    n = rows.shape[1]
    pointers, further = np.empty(n, np.int32), np.empty(n, np.int32)
    edges, more = np.empty(n, np.int32), np.empty(n, np.int32)
    for r in range(start, stop):
        row, root, lengths = rows[r], sources[r % sources.size], counts[r]
        _start_row(row, root, pointers)
        for j in range(n):
            edges[j] = np.int32(pointers[j] != j)
        length = 1
        while length < 2 * n:  # the pointers of a circle may change for ever
            if not _double_counts(pointers, edges, further, more):
                break
            if not _double_counts(further, more, pointers, edges):
                break
            length *= 4
        for j in range(n):
            last = pointers[j]
            missing = np.int32(0) if row[last] < 0 else np.int32(-1)  # no path; no vertex, or a circle
            lengths[j] = edges[j] + np.int32(1) if last == root else missing


@kernel
def _fold(sr, rows, sources, W, one, none, out, start, stop):
    """Write the folds of W along the paths of some rows. Return the first row with a circle or no vertex, or -1."""
    n = rows.shape[1]
    pointers, further = np.empty(n, np.int32), np.empty(n, np.int32)
    steps, more = np.empty((_FOLDED_ROWS, n), one.dtype), np.empty(n, one.dtype)
    for first in range(start, stop, _FOLDED_ROWS):
        last = min(stop, first + _FOLDED_ROWS)
        for j in range(n):  # the rows use few different edges into a vertex
            for r in range(first, last):
                p = rows[r, j]
                steps[r - first, j] = W[p, j] if 0 <= p < n else one[0]
        for r in range(first, last):
            row, root, values, result = rows[r], sources[r % sources.size], steps[r - first], out[r]
            _start_row(row, root, pointers)
            values[root] = one[0]
            length = 1
            while length < 2 * n:
                if not _double_folds(sr, pointers, values, further, more):
                    break
                if not _double_folds(sr, further, more, pointers, values):
                    break
                length *= 4
            failed = np.int32(0)
            for j in range(n):
                end = pointers[j]
                failed |= np.int32((end != root) & (row[end] >= 0))
                result[j] = values[j] if end == root else none
            if failed:
                return r
    return -1


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
