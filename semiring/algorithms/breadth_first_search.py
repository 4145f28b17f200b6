"""Distances of edges that all have one weight: hops, counted by breadth-first search of 512 targets at a time.

Sources, and how: `semiring.kernels.graphs.breadth_first`. Cost: a pass over the edges for every level and 512 vertices,
of a dense graph over a few heads of each vertex; workspace some 3 KB a vertex, more where paths have more than 15
edges, and 16 bytes an edge, or a bit an entry. What it does not compute: weights whose multiples are rounded
(`is_exact`), pivots for predecessors. The bits are exact.
"""

from __future__ import annotations

from functools import partial
from math import frexp, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.graphs.components import edge_words, run_parallel, run_strips
from semiring.graphs.structure import Structure
from semiring.kernels.engine import Engine

if TYPE_CHECKING:  # the elimination loads the compiler, and small calls are to do without
    from semiring.sparse.symbolic import Pattern

__all__ = ["NAME", "by_hops", "is_exact", "write_hops"]

_TOGETHER = 8  # searches, of 512 targets each

NAME = "breadth_first_search"


def is_exact(weight: Any, n: int, dtype: np.dtype[Any], none: Any) -> bool:
    """Whether sums of up to n weights are exact in a dtype, and apart from ``none``."""
    if dtype.kind == "i":
        return int(weight) * n < int(none)
    if not isfinite(weight):
        return False
    mantissa = frexp(float(weight))[0]
    whole = int(mantissa * 2.0**53)
    bits = whole.bit_length() - (whole & -whole).bit_length() + 1
    in_range = float(weight) * n < float(np.finfo(dtype).max) and float(weight) >= float(np.finfo(dtype).tiny)
    return bits + n.bit_length() <= np.finfo(dtype).nmant + 1 and in_range


def by_hops(weight: Any, none: Any, seen: Structure) -> Method:
    """The method that closes a matrix whose edges, but for loops that do not gain, all have this weight, not 0."""
    return Method(NAME, partial(_close, weight, none, seen), apart=True, pairs=_pairs)


def _close(weight: Any, none: Any, seen: Structure, engine: Engine, D: Array, A: Array) -> None:
    graphs, pattern, words, threads = engine.capabilities.graphs, seen.pattern, seen.words, engine.plan.threads
    if pattern is None and words is None:
        words = edge_words(A, none, threads) if graphs is None else graphs.edge_words(A, none)
    if graphs is None:
        write_hops(weight, none, pattern, words, D, threads)
    elif pattern is not None:
        graphs.count_hops(D, pattern.starts, pattern.indices, None, weight, D.dtype.type(none))
    else:
        graphs.count_hops(D, None, None, words, weight, D.dtype.type(none))


def write_hops(weight: Any, none: Any, pattern: Pattern | None, words: Any, D: Array, threads: int) -> None:
    """D (n, n) ← weight · the fewest edges between two vertices, else ``none``; edges in lists, or else in words."""
    from semiring.kernels.graphs.breadth_first import DIGITS, TARGETS, search_levels, write_levels

    n, none = D.shape[0], D.dtype.type(none)
    threads = threads if n > TARGETS else 1  # one search is done, and its rows are written, before a thread has woken
    starts, heads, order = np.empty(0, np.int64), np.empty(0, np.int32), np.arange(n, dtype=np.int32)
    number = order
    if pattern is not None:
        starts, heads, order, number = _by_degree(pattern)
        words = np.empty((0, 0), np.uint32)
    # Rows of new memory are best written as a whole: so several searches come before their rounds are.
    together = min(max(_TOGETHER, threads), -(-n // TARGETS))
    workspace = np.empty((together, n, 1 + DIGITS, 8), np.uint64)

    def write_columns(t0: int, t1: int) -> None:
        found, kept = np.zeros((-(-(t1 - t0) // TARGETS), 4), np.int64), dict(enumerate(workspace))

        def search(block: int) -> None:
            start = t0 + TARGETS * block
            stop = min(t1, start + TARGETS)
            levels, rounds = search_levels(starts, heads, order, words, start, stop, kept[block])
            kept[block] = levels
            found[block] = levels.ctypes.data, levels.strides[0], int(rounds).bit_length(), stop - start

        run_parallel(search, [(block,) for block in range(len(found))], threads)
        write = partial(write_levels, found, number, D.dtype.type(weight), none, D)
        run_strips(lambda rows: write(rows.start, rows.stop, t0), n, threads)

    for t0 in range(0, n, TARGETS * together):
        write_columns(t0, min(n, t0 + TARGETS * together))


def _by_degree(pattern: Pattern) -> tuple[Array, Array, Array, Array]:
    """The lists of edges with vertices numbered anew, as many edges side by side; the vertices, and their numbers.

    A loop over as many heads as the one before is quicker than one whose end is a surprise.
    """
    counts = np.diff(pattern.starts)
    order = np.argsort(counts, kind="stable").astype(np.int32)
    number = np.empty_like(order)
    number[order] = np.arange(order.size, dtype=np.int32)
    starts = np.zeros(order.size + 1, np.int64)
    np.cumsum(counts[order], out=starts[1:])
    edges = np.arange(starts[-1]) + np.repeat(pattern.starts[order] - starts[:-1], counts[order])
    return starts, number[pattern.indices[edges]], order, number


def _pairs(n: int, width: int) -> int:
    return n * n * width
