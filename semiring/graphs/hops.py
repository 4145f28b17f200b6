"""Distances of edges that all have one weight: hops, counted by breadth-first search of 512 targets at a time.

Sources, and how: `semiring.kernels.graphs.hops`. Cost: a pass over the edges for every level and 512 vertices, of a
dense graph over a few heads of each vertex; workspace 500 bytes a vertex and thread, and 4 bytes an edge, or a bit an
entry. What it does not compute: weights whose multiples are rounded (`is_exact`), pivots for predecessors. The bits are
exact.
"""

from __future__ import annotations

from functools import partial
from math import frexp, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.views import Array
from semiring.graphs.components import edge_words, run_on
from semiring.graphs.structure import Structure
from semiring.kernels.engine import Engine

if TYPE_CHECKING:  # the elimination loads the compiler, and small calls are to do without
    from semiring.elimination.analysis import Pattern

__all__ = ["NAME", "by_hops", "is_exact", "write_hops"]

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
    from semiring.kernels.graphs.hops import TARGETS, count_hops

    n, none = D.shape[0], D.dtype.type(none)
    starts, heads = np.empty(0, np.int64), np.empty(0, np.int32)
    if pattern is not None:
        starts, heads, words = pattern.starts, pattern.indices, np.empty((0, 0), np.uint32)
    strips = [(start, min(n, start + TARGETS)) for start in range(0, n, TARGETS)]
    run_on(lambda t0, t1: count_hops(starts, heads, words, D.dtype.type(weight), none, D, t0, t1), strips, threads)


def _pairs(n: int, width: int) -> int:
    return n * n * width
