"""Write the paths of predecessor matrices as arrays of vertices, and fold numbers along them, rows on threads."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from semiring.kernels.contract import NAN_FOLD, Array, KernelPlan
from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.scalars import times
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_on_ranges

_PARALLEL_ENTRIES = 1 << 15  # of the result: from here on the work takes longer than waking a second thread
_FOLDED_ROWS = 16
_LINE = 16  # entries of a row that are read at a time, one line of the cache for 32 bits
_SHORT_LINKS = (1 << 15) - 2  # vertices whose links have 32 bits


def count_vertices(predecessors: Array, sources: Array, counts: Array, threads: int) -> None:
    """Write the number of vertices of each path: see `semiring.kernels.contract.PathKernels`."""

    def count(start: int, stop: int) -> None:
        _count(rows, sources, lengths, links, start, stop)

    rows, lengths, links = _rows(predecessors), counts.reshape(-1, counts.shape[-1]), _no_links(predecessors)
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
        failed.append(_fold(sr, rows, sources, W, one, none, values, links, start, stop))

    rows, values, links = _rows(predecessors), out.reshape(-1, out.shape[-1]), _no_links(predecessors)
    _run(fold, len(rows), out.size, plan.threads)
    return min((row for row in failed if row >= 0), default=min(failed, default=-1))


def _rows(predecessors: Array) -> Array:
    """Return the predecessors as rows of adjacent entries."""
    return np.ascontiguousarray(predecessors, np.int32).reshape(-1, predecessors.shape[-1])


def _no_links(predecessors: Array) -> Array:
    """Return an empty array of the dtype of links between vertices."""
    return np.empty(0, np.int32 if predecessors.shape[-1] <= _SHORT_LINKS else np.int64)


def _run(function: Callable[[int, int], None], rows: int, entries: int, threads: int) -> None:
    if entries < _PARALLEL_ENTRIES:
        function(0, rows)
    else:
        run_on_ranges(function, rows, max(1, rows // (4 * threads)), threads)


@inner
def _bits(links):
    """Return the number of bits of a vertex in a link."""
    return np.iinfo(links.dtype).bits // 2 - 1


@inner
def _low(links):
    return (1 << _bits(links)) - 1


@inner
def _start_row(row, root, links):
    """Write the link (n + 2,) of each vertex to its predecessor.

    A link holds a vertex, and in higher bits the number of edges to it. It is negative if the vertex is an end: the
    source, n for no path, or n + 1 for a number that is no vertex.
    """
    n, one_edge, is_end = row.size, links.dtype.type(1 << _bits(links)), np.iinfo(links.dtype).min
    for j in range(n):
        p = row[j]
        end = n if p < 0 else n + 1 if p >= n else p
        links[j] = end | one_edge | (is_end if end == root or end >= n else 0)
    links[root], links[n], links[n + 1] = root | is_end, n | is_end, (n + 1) | is_end


@inner
def _follow(links, further):
    """Write links of twice the length, and return whether all of them lead to an end."""
    low, edges = links.dtype.type(_low(links)), links.dtype.type(_low(links) * 2 + 1) << _bits(links)
    are_ends = links.dtype.type(-1)
    for j in range(further.size):
        link = links[j]
        further[j] = links[link & low] + (link & edges)
        are_ends &= further[j]
    return are_ends < 0


@inner
def _follow_folds(sr, links, values, further, more):
    """Write links of three times the length and the folds along them, and return whether all of them lead to an end.

    Three times take fewer rounds than twice, and so fewer entries that are written.
    """
    low, are_ends = links.dtype.type(_low(links)), links.dtype.type(-1)
    for j in range(further.size):
        v = links[j] & low
        u = links[v] & low
        further[j] = links[u]
        last = times(sr, more.dtype.type(values[v]), more.dtype.type(values[j]))
        more[j] = times(sr, more.dtype.type(values[u]), last)
        are_ends &= further[j]
    return are_ends < 0


@kernel
def _count(rows, sources, counts, links, start, stop):
    """Write the lengths of the paths of some rows, in log₂ of the longest rounds of loops without branches.

    Chains that are followed vertex by vertex take twice as long, because a processor cannot predict where they end.
    ``links``: an array of the dtype of links.
    """
    n = rows.shape[1]
    links, further = np.empty(n + 2, links.dtype), np.empty(n + 2, links.dtype)
    low, bits = _low(links), _bits(links)
    for r in range(start, stop):
        root, lengths = sources[r % sources.size], counts[r]
        _start_row(rows[r], root, links)
        length = 1
        while length < n:  # the links of a cycle lead to no end
            if _follow(links, further):
                links, further = further, links
                break
            if _follow(further, links):
                break
            length *= 4
        for j in range(n):
            end, edges = links[j] & low, (links[j] >> bits) & (2 * low + 1)
            lengths[j] = edges + 1 if end == root else -(end != n)


@kernel
def _fold(sr, rows, sources, W, one, none, out, links, start, stop):
    """Compute `fold_paths` for some rows."""
    n = rows.shape[1]
    links, further = np.empty(n + 2, links.dtype), np.empty(n + 2, links.dtype)
    values, more = np.empty(n + 2, one.dtype), np.empty(n + 2, one.dtype)
    steps, low = np.empty((_FOLDED_ROWS, n + _LINE), W.dtype), _low(links)
    steps[:, n:] = W.dtype.type(one[0])
    is_nan = False
    for first in range(start, stop, _FOLDED_ROWS):
        last = min(stop, first + _FOLDED_ROWS)
        for c in range(0, n, _LINE):  # the rows use few different edges into a vertex
            for r in range(first, last):
                if c + _LINE <= n:
                    for j in range(_LINE):
                        p = rows[r, c + j]
                        steps[r - first, c + j] = W[p if 0 <= p < n else 0, c + j]
                else:
                    for j in range(c, n):
                        p = rows[r, j]
                        steps[r - first, j] = W[p if 0 <= p < n else 0, j]
        for r in range(first, last):
            root, result, own = sources[r % sources.size], out[r], steps[r - first]
            _start_row(rows[r], root, links)
            own[root] = one[0]
            is_done, length = _follow_folds(sr, links, own, further, more), 3
            links, further, values, more = further, links, more, values
            while not is_done and length < n:
                if _follow_folds(sr, links, values, further, more):
                    links, further, values, more = further, links, more, values
                    break
                if _follow_folds(sr, further, more, links, values):
                    break
                length *= 9
            failed = False
            for j in range(n):
                end = links[j] & low
                failed |= (end != root) & (end != n)
                is_nan |= (end == root) & ((values[j] != values[j]) | (own[j] != own[j]))
                result[j] = values[j] if end == root else none
            if failed:
                return r
    return NAN_FOLD if is_nan else -1


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
