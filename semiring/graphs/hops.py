"""Distances of edges that all have one weight: hops, counted by breadth-first search of 512 targets at a time.

Sources, and how: `semiring.kernels.graphs.hops`. Cost: a pass over the edges for every level and 512 vertices, of a
dense graph over a few heads of each vertex; workspace 200 bytes a vertex and thread, and 4 bytes an edge, or a bit an
entry. What it does not compute: weights whose multiples are rounded (`is_exact`), pivots for predecessors. The bits are
exact.
"""

from __future__ import annotations

from functools import partial
from math import frexp
from typing import Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.arrays.bits import pack
from semiring.graphs.components import as_unsigned, in_strips, run_on
from semiring.kernels.engine import Engine

__all__ = ["by_hops", "is_exact"]


def is_exact(weight: Any, n: int, dtype: np.dtype[Any], none: Any) -> bool:
    """Whether sums of up to n weights are exact in a dtype, and apart from ``none``."""
    if dtype.kind == "i":
        return int(weight) * n < int(none)
    mantissa = frexp(float(weight))[0]
    whole = int(mantissa * 2.0**53)
    bits = whole.bit_length() - (whole & -whole).bit_length() + 1
    in_range = float(weight) * n < float(np.finfo(dtype).max) and float(weight) >= float(np.finfo(dtype).tiny)
    return bits + n.bit_length() <= np.finfo(dtype).nmant + 1 and in_range


def by_hops(weight: Any, edges: int | None) -> Method:
    """The method that closes a min-plus matrix whose edges, but for loops ≥ 0, have this weight > 0.

    ``edges``: how many there are, where they are few.
    """
    return Method("breadth_first_search", partial(_count, weight, edges), pairs=_pairs)


def _count(weight: Any, edges: int | None, engine: Engine, A: Array) -> None:
    from semiring.kernels.graphs.hops import TARGETS, count_hops, edge_lists

    n, threads = A.shape[0], engine.plan.threads
    none, value = A.dtype.type(engine.plan.zero), A.dtype.type(weight)
    if edges is None:
        starts, heads, words = np.empty(0, np.int64), np.empty(0, np.int32), _words(A, none, threads)
    else:
        starts, heads = edge_lists(as_unsigned(A), none.reshape(1).view(f"u{A.itemsize}")[0], edges)
        words = np.empty((0, 0), np.uint64)
    strips = [(start, min(n, start + TARGETS)) for start in range(0, n, TARGETS)]
    run_on(lambda t0, t1: count_hops(starts, heads, words, value, none, A, t0, t1), strips, threads)


def _words(A: Array, none: Any, threads: int) -> Array:
    """The edges as bits, 64 to a word."""
    n = A.shape[0]
    words = np.zeros((n, 2 * -(-n // 64)), np.uint32)

    def fill(rows: slice) -> None:
        words[rows, : -(-n // 32)] = pack(A[rows] != none).words

    in_strips(fill, n, threads)
    return words.view("<u8")


def _pairs(n: int, width: int) -> int:
    return n * n * width
