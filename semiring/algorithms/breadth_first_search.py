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

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.algorithm import AUTO, LEAST, Algorithm, Circumstances
from semiring.arrays.memory import format_bytes
from semiring.graphs.graph_structure import Structure
from semiring.graphs.strongly_connected import edge_words, run_parallel, run_strips
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:  # the elimination loads the compiler, which small calls avoid
    from semiring.closures.problem import Problem
    from semiring.sparse.symbolic_factor import Pattern

__all__ = ["BreadthFirstSearch", "is_exact", "write_hops"]

_CONCURRENT_SEARCHES = 8  # searches between two passes that write results; each has 512 targets

_LEVELS = 1024  # the most levels of a search on a GPU, where each level is a launch for all vertices
_BITS = 3  # bits of memory for every entry
#: Pairs for each entry, for each reachable pair of vertices, and for each level of the search and such a pair, of which
#: there are at most so many (docs/benchmarks/thresholds.md).
_HOPS, _REACHED, _LEVEL, _MOST = 50.0, 50.0, 1.2, 450.0


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


class BreadthFirstSearch(Algorithm):
    """Hops by breadth-first search, if all edges have one weight above 0. Loops may have other weights.

    It applies only if every sum of the weight is exact, so the result is bitwise identical to that of
    ``structure=False``. Cost: a pass over the edges for every level of the search and 512 vertices; memory 4 bytes for
    each edge, or a bit for each entry.
    """

    name, structure = "breadth_first_search", "hops"
    requires = "edges of one weight above 0, whose sums are exact"
    apart = True
    reads_entries = False
    source = "Then et al. 2014"
    semirings = "min_plus and max_plus"
    dtypes = "integers, float32, float64"
    complexity = "a pass over the edges for each level and 512 vertices"

    def reason_by_options(self, c: Circumstances) -> str | None:
        if c.storage == "sparse" and c.method == AUTO and c.is_medium and self.structure in c.structure:
            return None  # stored edges need no scan of a matrix
        return super().reason_by_options(c)

    def reason_against(self, p: Problem) -> str | None:
        facts = p.facts
        if facts.storage == "sparse" and not p.circumstances.is_large and (p.plus or p.predecessors is not None):
            return f"of fewer than {LEAST:,} vertices with stored edges, only A* without predecessors"
        if p.semiring is not min_plus or facts.one_weight is None:
            return "not min-plus, or edges of different weights"
        if not facts.one_weight > 0 or p.matrix.may_change_numbers:
            return "the weight is not above 0"
        if facts.weights_gain:
            return "a loop has a weight below 0, which is a negative cycle"
        if not _writes_own_numbers(p) and not is_exact(facts.one_weight, p.n, p.dtype, p.matrix.inner):
            return f"sums of {facts.one_weight} are rounded"
        if not facts.on_device:
            return None
        if facts.structure.pattern is not None and facts.structure.widest_level * _LEVELS < p.n:
            return f"paths may have more than {_LEVELS:,} edges, each a launch on a GPU"
        if (needed := _BITS * p.n**2 // 8) > (free := _free_device_memory()):
            return f"the sets of reached vertices need {format_bytes(needed)}, and the GPU has {format_bytes(free)}"
        return None

    def least_cost(self, p: Problem) -> float:
        return _HOPS * p.n**2

    def cost(self, p: Problem) -> float:
        graph, levels = p.facts.structure, 0.0
        if graph.pattern is not None:
            levels = min(_MOST, _LEVEL * p.n / max(1, graph.widest_level))
        return (_HOPS + (_REACHED + levels) * graph.mean_reach) * p.n**2

    def prepare(self, p: Problem) -> Problem:
        return p.replace(matrix=p.unencoded, largest=None) if _writes_own_numbers(p) else p

    def run(self, p: Problem, engine: Engine, D: Array, entries: Array) -> Array:
        facts = p.facts
        if _writes_own_numbers(p):
            _close(facts.structure.weight, facts.none, facts.structure, engine, D, entries)
        else:
            _close(facts.one_weight, p.matrix.inner, facts.structure, engine, D, entries)
        return D

    def describe(self, p: Problem) -> str:
        return f"all edges have the weight {p.facts.one_weight}: hops, by breadth-first search"


def _writes_own_numbers(p: Problem) -> bool:
    """Return whether the sums are exact in the caller's numbers, and nothing reads them through the maps behind.

    Then they are written directly, and no integer is cut off at half the range.
    """
    facts = p.facts
    if p.plus or p.predecessors is not None:
        return False
    return is_exact(facts.one_weight, p.n, facts.dtype, abs(facts.none.item()))


def _free_device_memory() -> int:
    from semiring.arrays.device import free_device_memory

    return free_device_memory()


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
