"""Reachability in packed bits, component by component: a row is what the rows of its edges' heads reach, joined; or,
where products are a thousand times as fast, blocks of pivots in the order of the components.

Sources: `semiring.kernels.graphs.reachability`. Cost: a search for the components, and a pass over a row of n bits for
every edge between them where edges are few, workspace some 512 bytes a component; else for every edge that no other
path replaces, some n log n of a random graph, and workspace another matrix of bits, for the components. Where there are
too many such edges, the rest is closed by R-Kleene. The bits are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from semiring.algorithms.methods import Method
from semiring.algorithms.purdom import close_in_order, order_of
from semiring.algorithms.rkleene import rkleene
from semiring.algorithms.views import Array
from semiring.graphs.components import Components, run_parallel, run_strips
from semiring.kernels.contract import GraphKernels
from semiring.kernels.engine import Engine

__all__ = ["by_blocks", "by_components"]

_PART = 0.1  # of the work of a closure by products: joins that are done before it is left to them
_TOGETHER = 16  # searches, of 512 targets each
_WORDS = 1024  # bit pairs of a product in the time in which a word of a row is joined


def by_components(found: Components, threads: int) -> Method:
    """The method that closes words (n, ⌈n/32⌉) whose components are known; of a dual semiring, 0 is an edge."""
    return Method("purdom", partial(_join, found, threads), storages=("bits",), apart=True, pairs=_cubes)


def by_blocks(graphs: GraphKernels, otherwise: Method, note: Callable[[str], None]) -> Method:
    """The method that looks for an order of the vertices when it closes words, in which pivots meet fewer of them.

    ``otherwise`` closes them where there is none. What is found goes to ``note``.
    """
    close = partial(_close_in_order, graphs, otherwise, note)
    return Method("triangular", close, storages=("bits",), pairs=_cubes)


def _close_in_order(
    graphs: GraphKernels, otherwise: Method, note: Callable[[str], None], engine: Engine, words: Array
) -> None:
    found = order_of(graphs, words)
    note(str(found or "no order of the vertices reduces the work"))
    if found is None:
        otherwise.close(engine, words)
    else:
        close_in_order(engine, graphs, words, found)


def _cubes(n: int, width: int) -> int:
    return n * n * width


def _join(found: Components, threads: int, engine: Engine, words: Array, A: Array) -> None:
    n, width = words.shape
    dual = bool(engine.plan.zero)
    if found.lists is not None:
        _join_lists(found, words, threads)
        if dual:
            np.invert(words, out=words)
        return
    from semiring.kernels.graphs.reachability import join_rows

    most = int(_PART * n**3 / (_WORDS * max(1, width)))
    if A is not words:
        words[...] = A
    if dual:
        np.invert(words, out=words)
        if n % 32:
            words[:, -1] &= np.uint32((1 << n % 32) - 1)
    joins = join_rows(words, found.order, found.bounds, most)
    if dual:
        np.invert(words, out=words)
    if joins < 0:
        rkleene(engine, words)


def _join_lists(found: Components, words: Array, threads: int) -> None:
    """Words ← the rows of the reflexive closure of the edges in lists; what the words were is not read."""
    from semiring.kernels.graphs.reachability import TARGETS, condense, reach_targets, write_reached

    assert found.lists is not None
    n = words.shape[0]
    number, begins, ends = condense(*found.lists, found.order, found.bounds)
    # Rows of new memory are best written as a whole: so several searches come before what they reached is.
    together = min(max(_TOGETHER, threads), -(-n // TARGETS))
    reached = np.empty((together, len(found), 8), np.uint64)

    def write_columns(t0: int) -> None:
        blocks = range(min(together, -(-(n - t0) // TARGETS)))

        def search(block: int) -> None:
            start = t0 + TARGETS * block
            reach_targets(found.order, found.bounds, begins, ends, start, min(n, start + TARGETS), reached[block])

        run_parallel(search, [(block,) for block in blocks], threads)
        part = reached[: len(blocks)]
        run_strips(lambda rows: write_reached(part, number, words, rows.start, rows.stop, t0), n, threads)

    for t0 in range(0, n, TARGETS * together):
        write_columns(t0)
