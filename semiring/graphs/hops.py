"""Distances of edges that all have one weight: hops, counted by breadth-first search of 512 targets at a time.

Sources, and how: `semiring.kernels.graphs.hops`. Cost: a pass over the edges for every level and 512 vertices, of a
dense graph over a few heads of each vertex; workspace 500 bytes a vertex and thread, and 4 bytes an edge, or a bit an
entry. What it does not compute: weights whose multiples are rounded (`is_exact`), pivots for predecessors. The bits are
exact.
"""

from __future__ import annotations

from functools import partial
from math import frexp, isfinite
from typing import Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.graphs.components import edge_words, run_on
from semiring.graphs.structure import Structure
from semiring.kernels.engine import Engine

__all__ = ["by_hops", "is_exact"]


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
    return Method("breadth_first_search", partial(_count, weight, none, seen), apart=True, pairs=_pairs)


def _count(weight: Any, none: Any, seen: Structure, engine: Engine, D: Array, A: Array) -> None:
    n, threads, none = A.shape[0], engine.plan.threads, D.dtype.type(none)
    graphs, pattern = engine.capabilities.graphs, seen.pattern
    if graphs is not None:
        if pattern is not None:
            graphs.count_hops(D, pattern.starts, pattern.indices, None, weight, none)
        else:
            words = graphs.edge_words(A, none) if seen.words is None else seen.words
            graphs.count_hops(D, None, None, words, weight, none)
        return
    from semiring.kernels.graphs.hops import TARGETS, count_hops

    starts, heads, words = np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 0), np.uint32)
    if pattern is not None:
        starts, heads = pattern.starts, pattern.indices
    else:
        words = edge_words(A, none, threads) if seen.words is None else seen.words
    strips = [(start, min(n, start + TARGETS)) for start in range(0, n, TARGETS)]
    run_on(lambda t0, t1: count_hops(starts, heads, words, D.dtype.type(weight), none, D, t0, t1), strips, threads)


def _pairs(n: int, width: int) -> int:
    return n * n * width
