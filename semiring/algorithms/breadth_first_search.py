"""Compute distances of edges of equal weight by breadth-first search, for 512 targets at a time.

`semiring.kernels.graphs.breadth_first` states the sources and the algorithm. Cost: a pass over the edges for every
level and 512 vertices. In a dense graph, the pass reads a few heads of each vertex. The workspace is some 3 KB for each
vertex, and more if paths have more than 15 edges. An edge takes 16 bytes, or an entry takes a bit. The module does not
accept weights whose multiples are rounded (`is_exact`), and computes no pivots for predecessors. Results are exact.
"""

from __future__ import annotations

from functools import partial
from math import frexp, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.graphs.graph_structure import Structure
from semiring.graphs.strongly_connected import edge_words, run_parallel, run_strips
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:  # the elimination loads the compiler, which small calls avoid
    from semiring.sparse.symbolic_factor import Pattern

__all__ = ["NAME", "breadth_first_method", "is_exact", "write_hops"]

_CONCURRENT_SEARCHES = 8  # searches between two passes that write results; each has 512 targets

NAME = "breadth_first_search"


def is_exact(weight: Any, n: int, dtype: np.dtype[Any], no_edge: Any) -> bool:
    """Return whether sums of up to n weights are exact in a dtype, and differ from the value of ``no_edge``."""
    if dtype.kind == "i":
        return int(weight) * n < int(no_edge)
    if not isfinite(weight):
        return False
    mantissa = frexp(float(weight))[0]
    whole = int(mantissa * 2.0**53)
    bits = whole.bit_length() - (whole & -whole).bit_length() + 1
    in_range = float(weight) * n < float(np.finfo(dtype).max) and float(weight) >= float(np.finfo(dtype).tiny)
    return bits + n.bit_length() <= np.finfo(dtype).nmant + 1 and in_range


def breadth_first_method(weight: Any, no_edge: Any, structure: Structure) -> Method:
    """Return the method that closes a matrix whose edges all have the same weight, which is not 0.

    Loops that do not gain may have other weights.
    """
    return Method(NAME, partial(_close, weight, no_edge, structure), apart=True, pairs=_pairs)


def _close(weight: Any, no_edge: Any, structure: Structure, engine: Engine, D: Array, A: Array) -> None:
    graphs, pattern, words, threads = (
        engine.capabilities.graphs,
        structure.pattern,
        structure.words,
        engine.plan.threads,
    )
    if pattern is None and words is None:
        words = edge_words(A, no_edge, threads) if graphs is None else graphs.edge_words(A, no_edge)
    if graphs is None:
        write_hops(weight, no_edge, pattern, words, D, threads)
    elif pattern is not None:
        graphs.count_hops(D, pattern.starts, pattern.indices, None, weight, D.dtype.type(no_edge))
    else:
        graphs.count_hops(D, None, None, words, weight, D.dtype.type(no_edge))


def write_hops(weight: Any, no_edge: Any, pattern: Pattern | None, words: Any, D: Array, threads: int) -> None:
    """Write into D (n, n) the weight times the fewest edges between two vertices, or ``no_edge`` without a path.

    The edges are those of the ``pattern``, or those of the ``words`` if the pattern is None.
    """
    from semiring.kernels.graphs.breadth_first import DIGITS, TARGETS, search_levels, write_levels

    n, no_edge = D.shape[0], D.dtype.type(no_edge)
    threads = threads if n > TARGETS else 1  # a single search ends before a second thread would start
    starts, heads, order = np.empty(0, np.int64), np.empty(0, np.int32), np.arange(n, dtype=np.int32)
    number = order
    if pattern is not None:
        starts, heads, order, number = _sort_by_degree(pattern)
        words = np.empty((0, 0), np.uint32)
    # Whole rows of new memory are written fastest, so several searches precede the rounds that write them.
    together = min(max(_CONCURRENT_SEARCHES, threads), -(-n // TARGETS))
    workspace = np.empty((together, n, 1 + DIGITS, 8), np.uint64)

    def write_columns(t0: int, t1: int) -> None:
        searched, levels_of = np.zeros((-(-(t1 - t0) // TARGETS), 4), np.int64), dict(enumerate(workspace))

        def search(block: int) -> None:
            start = t0 + TARGETS * block
            stop = min(t1, start + TARGETS)
            levels, rounds = search_levels(starts, heads, order, words, start, stop, levels_of[block])
            levels_of[block] = levels
            searched[block] = levels.ctypes.data, levels.strides[0], int(rounds).bit_length(), stop - start

        run_parallel(search, [(block,) for block in range(len(searched))], threads)
        write = partial(write_levels, searched, number, D.dtype.type(weight), no_edge, D)
        run_strips(lambda rows: write(rows.start, rows.stop, t0), n, threads)

    for t0 in range(0, n, TARGETS * together):
        write_columns(t0, min(n, t0 + TARGETS * together))


def _sort_by_degree(pattern: Pattern) -> tuple[Any, Any, Any, Any]:
    """Return the edge lists of a graph whose vertices are sorted by degree, the sorted vertices, and their numbers.

    Consecutive vertices then have loops of equal length, whose end the processor predicts.
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
