"""Close graphs of truth values in packed bits, by joining rows in the order of the strong components.

The row of a vertex is the union of the rows of its edges' heads.

Sources: `semiring.kernels.graphs.reachable_bits`. Cost: a search for the components. If edges are few, the cost is also
a pass over a row of n bits for every edge between components, with a workspace of some 512 bytes a component. If edges
are many, the cost is a pass for every edge that no other path replaces (some n log n in a random graph). The workspace
is then another matrix of bits, for the components. If there are too many such edges, R-Kleene closes the matrix.
Results are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algorithms.algorithm import Algorithm
from semiring.algorithms.rkleene import rkleene
from semiring.arrays.bits import BitMatrix
from semiring.graphs.strongly_connected import Components, run_parallel, run_strips, strong_components
from semiring.kernels.engine import Engine
from semiring.namespaces import Array

if TYPE_CHECKING:
    from semiring.closures.problem import Problem

__all__ = ["Purdom"]

_MOST_SHARE = 0.5  # of the work of a closure by products: joins stop before
_MAX_JOINS = 0.1  # joins stop after this fraction of the work of a closure by products
_CONCURRENT_SEARCHES = 16  # searches between two passes that write results; each has 512 targets
_PAIRS_PER_WORD = 1024  # bit pairs of a product in the time that joins one word of a row


class Purdom(Algorithm):
    """Reachability by joins of packed rows, in the order of the strong components, on a CPU.

    A join of row j to row i sets row i to row i ⊕ row j. A CPU joins a row to another in the time of 1,024 bit pairs
    for each word, and a random graph needs about n log n joins. The result is exact.
    """

    name, structure, requires = "purdom", "reachability", "a graph of truth values"
    storages = ("bits",)
    apart = True
    source = "Purdom 1970; Nuutila 1994"
    semirings, dtypes = "an idempotent ⊕ of truth values", "bool"
    devices = ("cpu",)
    complexity = "n bits for each edge that no other path replaces"

    def reason_against(self, p: Problem) -> str | None:
        return None if p.semiring.idempotent else "⊕ is not idempotent: it counts paths"

    def least_cost(self, p: Problem) -> float:
        return _MOST_SHARE * p.least_dense_cost

    def cost(self, p: Problem) -> float:
        return _MOST_SHARE * p.dense_cost

    def run(self, p: Problem, engine: Engine, D: BitMatrix, entries: BitMatrix) -> BitMatrix:
        facts, threads = p.facts, p.options.threads
        is_known = (
            "structure" in facts.__dict__ or facts.storage == "sparse"
        )  # the scan of a dense matrix packs it, too
        components = facts.structure.components if is_known else strong_components(entries, facts.none, threads)
        _close_by_joins(components, threads, engine, D.words, entries.words)
        return D

    def describe(self, p: Problem) -> str:
        count = len(p.facts.structure.components)
        if count <= 1:
            return "one strong component: every vertex reaches every other"
        return f"{count} strong components: rows are joined along the edges between them"


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
