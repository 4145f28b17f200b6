"""Close graphs of truth values in packed bits, by joining rows in the order of the strong components.

The row of a vertex is the union of the rows of its edges' heads. On a GPU, where products are a thousand times as fast,
blocks of pivots are eliminated in the order of the components.

Sources: `semiring.kernels.graphs.reachable_bits`. Cost: a search for the components. If edges are few, the cost is also
a pass over a row of n bits for every edge between components, with a workspace of some 512 bytes a component. If edges
are many, the cost is a pass for every edge that no other path replaces (some n log n in a random graph). The workspace
is then another matrix of bits, for the components. If there are too many such edges, R-Kleene closes the matrix.
Results are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.triangular import close_in_order, find_order
from semiring.graphs.strongly_connected import Components, run_parallel, run_strips
from semiring.kernels.contract import GraphKernels
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

__all__ = ["purdom_method", "triangular_method"]

_MAX_JOINS = 0.1  # joins stop after this fraction of the work of a closure by products
_CONCURRENT_SEARCHES = 16  # searches between two passes that write results; each has 512 targets
_PAIRS_PER_WORD = 1024  # bit pairs of a product in the time that joins one word of a row


def purdom_method(components: Components, threads: int) -> Method:
    """Return the method that closes words (n, ⌈n/32⌉) of a graph with the given strong components.

    For a dual semiring, a 0 bit is an edge.
    """
    close = partial(_close_by_joins, components, threads)
    return Method("purdom", close, storages=("bits",), apart=True, pairs=_cubic_pairs)


def triangular_method(graphs: GraphKernels, fallback: Method, note: Callable[[str], None]) -> Method:
    """Return the method that searches for an order of the vertices in which pivots meet fewer rows and columns.

    The method closes packed words. ``fallback`` closes them if there is no such order. ``note`` receives a description
    of the order.
    """
    close = partial(_close_in_order, graphs, fallback, note)
    return Method("triangular", close, storages=("bits",), pairs=_cubic_pairs)


def _close_in_order(
    graphs: GraphKernels, fallback: Method, note: Callable[[str], None], engine: Engine, words: Array
) -> None:
    permutation = find_order(graphs, words)
    note(str(permutation or "no order of the vertices reduces the work"))
    if permutation is None:
        fallback.close(engine, words)
    else:
        close_in_order(engine, graphs, words, permutation)


def _cubic_pairs(n: int, width: int) -> int:
    return n * n * width


def _close_by_joins(components: Components, threads: int, engine: Engine, words: Any, A: Array) -> None:
    n, width = words.shape
    dual = bool(engine.plan.zero)
    if components.lists is not None:
        _close_by_searches(components, words, threads)
        if dual:
            np.invert(words, out=words)
        return
    from semiring.kernels.graphs.reachable_bits import join_rows

    max_words = int(_MAX_JOINS * n**3 / (_PAIRS_PER_WORD * max(1, width)))
    if A is not words:
        words[...] = A
    if dual:
        np.invert(words, out=words)
        if n % 32:
            words[:, -1] &= np.uint32((1 << n % 32) - 1)
    joins = join_rows(words, components.order, components.bounds, max_words)
    if dual:
        np.invert(words, out=words)
    if joins < 0:
        rkleene(engine, words)


def _close_by_searches(components: Components, words: Array, threads: int) -> None:
    """Write the reflexive closure of the edge lists into words, whose old values are not read."""
    from semiring.kernels.graphs.reachable_bits import TARGETS, condense, reach_targets, write_target_bits

    assert components.lists is not None
    n = words.shape[0]
    number, begins, ends = condense(*components.lists, components.order, components.bounds)
    # Whole rows of new memory are written fastest, so several searches precede the pass that writes their results.
    together = min(max(_CONCURRENT_SEARCHES, threads), -(-n // TARGETS))
    reached = np.empty((together, len(components), 8), np.uint64)

    def write_columns(t0: int) -> None:
        blocks = range(min(together, -(-(n - t0) // TARGETS)))

        def search(block: int) -> None:
            start = t0 + TARGETS * block
            reach_targets(
                components.order, components.bounds, begins, ends, start, min(n, start + TARGETS), reached[block]
            )

        run_parallel(search, [(block,) for block in blocks], threads)
        part = reached[: len(blocks)]
        run_strips(lambda rows: write_target_bits(part, number, words, rows.start, rows.stop, t0), n, threads)

    for t0 in range(0, n, TARGETS * together):
        write_columns(t0)
