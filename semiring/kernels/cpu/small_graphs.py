"""Shortest paths in graphs of some dozen vertices, from any form of the graph: for calls that take microseconds.

Distances are float64, a matrix has one kind of no edge, ∞, and a diagonal of zeros. What is computed is what loops over
scalars compute, rounding included: Floyd's algorithm pivot by pivot, Bellman's and Ford's from single sources. With
weights ≥ 0 the sums are those of Dijkstra's algorithm to the last bit, for a rounded sum of them never falls.

No kernel judges a graph that is not plain: whatever may be a negative cycle, an edge of unbounded weight, an index out
of range or predecessors in a circle (rounding alone makes those, where weights of both signs cancel) is refused.

Sources: R. W. Floyd, CACM 5 (1962) 345; R. Bellman, Quart. Appl. Math. 16 (1958). Cost: n³ pairs, or k·n² for each of
the sources, where shortest paths have k edges. One thread.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.compiler_lock import global_compiler_lock

from semiring.kernels.contract import NO_PREDECESSOR
from semiring.kernels.cpu.codegen.jit import cached

__all__ = ["SmallGraphs"]

LEAST = -1e300  # a weight below which sums of some hundred may be -∞

_inner = njit(nogil=True, error_model="numpy")

_FLOATS, _INTS = types.Array(types.float64, 1, "A"), types.Array(types.int32, 1, "A")
_ANY, _MATRIX = types.Array(types.float64, 2, "A"), types.Array(types.float64, 2, "C")
_POINTERS, _FLAG = types.Array(types.int32, 2, "C"), types.intp


def from_dense(A, null, D):
    """D ← A, both (n, n), ∞ for NaN, ±∞ and what is no further from 0 than ``null``; always possible."""
    n = D.shape[0]
    for i in range(n):
        for j in range(n):
            size = abs(A[i, j])
            D[i, j] = A[i, j] if null < size < np.inf else np.inf
    return True


def from_rows(weights, others, first, turned, D):
    """D ← a graph in compressed rows, or ``turned`` columns; of parallel edges the lightest. False where not plain."""
    n = D.shape[0]
    if first.shape[0] != n + 1 or first[0] < 0 or first[n] > min(weights.shape[0], others.shape[0]):
        return False
    D[:] = np.inf
    for i in range(n):
        if first[i] > first[i + 1]:
            return False
        for at in range(first[i], first[i + 1]):
            j, weight = others[at], weights[at]
            if not (0 <= j < n and abs(weight) < np.inf):
                return False
            row, column = (j, i) if turned else (i, j)
            D[row, column] = min(D[row, column], weight)
    return True


def from_edges(weights, rows, columns, D):
    """D ← a graph as a list of edges. False where not plain, and where two are parallel."""
    n = D.shape[0]
    if not weights.shape[0] == rows.shape[0] == columns.shape[0]:
        return False
    D[:] = np.inf
    for at in range(weights.shape[0]):
        i, j, weight = rows[at], columns[at], weights[at]
        if not (0 <= i < n and 0 <= j < n and abs(weight) < np.inf) or D[i, j] < np.inf:
            return False
        D[i, j] = weight
    return True


@_inner
def _least(D):
    least = 0.0
    for i in range(D.shape[0]):
        for j in range(D.shape[0]):
            least = min(least, D[i, j])
    return least


@_inner
def _prepare(D, directed, unweighted, loops):
    """Lengths, ways back, a diagonal of zeros; False where ``loops`` count and one is < 0, and where sums overflow."""
    n = D.shape[0]
    if not unweighted and _least(D) < LEAST:
        return False
    for i in range(n):
        if loops and not unweighted and D[i, i] < 0:
            return False
        D[i, i] = 0
    if unweighted:
        for i in range(n):
            for j in range(n):
                if i != j and D[i, j] < np.inf:
                    D[i, j] = 1
    if not directed:
        for i in range(n):
            for j in range(i):
                lighter = min(D[i, j], D[j, i])
                D[i, j] = lighter
                D[j, i] = lighter
    return True


@_inner
def _is_tree(before, seen):
    """Whether pointers (n,) lead in no circle; ``seen`` (n,) is workspace."""
    seen[:] = -1
    for start in range(before.shape[0]):
        at = start
        while at >= 0 and seen[at] < 0:
            seen[at] = start
            at = before[at]
        if at >= 0 and seen[at] == start:  # back on the way of this walk
            return False
    return True


def all_pairs(D, P, directed, unweighted, loops):
    """D ← D*, both (n, n), and P (n, n) the predecessors; P (0, 0) for none. False where it is not that simple."""
    if not _prepare(D, directed, unweighted, loops):
        return False
    if not P.size:
        _floyd(D)
        return _diagonal_is_zero(D)
    _floyd_pointing(D, P)
    if not _diagonal_is_zero(D):
        return False
    seen, trees = np.empty(D.shape[0], np.int32), 0
    for i in range(D.shape[0]):
        trees += _is_tree(P[i], seen)
    return trees == D.shape[0]


@_inner
def _floyd(D):
    n = D.shape[0]
    through = np.empty(n)
    for k in range(n):
        for j in range(n):
            through[j] = D[k, j]
        for i in range(n):
            there, row = D[i, k], D[i]
            if there < np.inf and i != k:
                for j in range(n):
                    row[j] = min(row[j], there + through[j])


@_inner
def _floyd_pointing(D, P):
    n = D.shape[0]
    for i in range(n):
        for j in range(n):
            P[i, j] = i if i != j and D[i, j] < np.inf else NO_PREDECESSOR
    for k in range(n):
        for i in range(n):
            there = D[i, k]
            if there < np.inf and i != k:
                for j in range(n):  # improvements are few: a branch is faster than vectors that select
                    length = there + D[k, j]
                    if length < D[i, j]:
                        D[i, j] = length
                        P[i, j] = P[k, j]


@_inner
def _diagonal_is_zero(D):
    least = 0.0
    for i in range(D.shape[0]):
        least = min(least, D[i, i])
    return least == 0


@_inner
def _settle(W, d, before, fresh):
    """Follow edges from the ``fresh`` vertices (n,) until no distance of d (n,) falls. False after n rounds."""
    n, pointed = W.shape[0], before.size > 0
    for _ in range(n + 1):
        settled = True
        for u in range(n):
            if not fresh[u]:
                continue
            fresh[u], settled = 0, False
            here, row = d[u], W[u]
            for v in range(n):
                length = here + row[v]
                if length < d[v]:
                    d[v], fresh[v] = length, 1
                    if pointed:
                        before[v] = u
        if settled:
            return True
    return False


def from_sources(W, sources, D, P, directed, unweighted):
    """D (k, n) ← the distances from k sources, P (k, n) the predecessors or (0, 0); W (n, n) the edges, overwritten.

    False where it is not that simple.
    """
    n = W.shape[0]
    if not _prepare(W, directed, unweighted, 1):
        return False
    nothing, seen = np.empty(0, np.int32), np.empty(n, np.int32)
    signed = _least(W) < 0
    if signed:  # is there a negative cycle, anywhere?
        seen[:] = 1
        if not _settle(W, np.zeros(n), nothing, seen):
            return False
    for at in range(sources.shape[0]):
        source = sources[at]
        before = P[at] if P.size else nothing
        seen[:] = 0
        seen[source] = 1
        D[at, :] = np.inf
        D[at, source] = 0
        before[:] = NO_PREDECESSOR
        if not _settle(W, D[at], before, seen) or D[at, source] < 0:
            return False
        if signed and P.size and not _is_tree(before, seen):
            return False
    return True


def _compiled(function: Any, *signature: Any) -> Callable[..., bool]:
    """From the cache on disk, or the compiler."""
    with global_compiler_lock:
        return cached(_inner(function)).compile(signature)  # type: ignore[no-any-return]  # Numba has no types


class SmallGraphs:
    """The kernels as functions of arrays, called without dispatch; nothing is checked but dtypes and dimensions."""

    @cached_property
    def from_dense(self) -> Callable[..., bool]:
        """`from_dense`, compiled."""
        return _compiled(from_dense, _ANY, types.float64, _MATRIX)

    @cached_property
    def from_rows(self) -> Callable[..., bool]:
        """`from_rows`, compiled."""
        return _compiled(from_rows, _FLOATS, _INTS, _INTS, _FLAG, _MATRIX)

    @cached_property
    def from_edges(self) -> Callable[..., bool]:
        """`from_edges`, compiled."""
        return _compiled(from_edges, _FLOATS, _INTS, _INTS, _MATRIX)

    @cached_property
    def all_pairs(self) -> Callable[..., bool]:
        """`all_pairs`, compiled."""
        return _compiled(all_pairs, _MATRIX, _POINTERS, _FLAG, _FLAG, _FLAG)

    @cached_property
    def from_sources(self) -> Callable[..., bool]:
        """`from_sources`, compiled."""
        return _compiled(from_sources, _MATRIX, _INTS, _MATRIX, _POINTERS, _FLAG, _FLAG)
