"""Change a closed matrix A* to A⁺ in one more round, for an idempotent ⊕.

This round has no pivots. Its changes depend on more than a few rows of the closed matrix. So they are computed before
the round begins, and stored as its panel. Then each strip is read once more, changed, decoded and written.

The *cycles* A⁺[i, i] is the sum of A*[i, j] ⊗ A*[j, i] over j
(`semiring.algorithms.irreflexive_closure`). Some whole rows are read into the memory of the panel. Then the same
columns of the rows after them are read. So every tile meets the tile on the other side of the diagonal once. Cost: n²
pairs, and 3/2 · n² entries read. A third of these entries are read as parts of rows, which are as wide as the panel is
high.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semiring.algorithms.irreflexive_closure import add_cycles, close_loops
from semiring.arrays.bits import WORD_BITS, pack
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import Array, array_namespace
from semiring.out_of_core.buffer_pools import BufferPool
from semiring.out_of_core.disk import PackedRows, RowStore

__all__ = ["LastRound"]


_ENTRIES = 1 << 18  # the entries that one operation processes, which bounds its temporaries


@dataclass(frozen=True)
class LastRound:
    """The changes that the last round makes to a closed matrix; ``loops`` (n,) is the diagonal of A."""

    loops: Array

    def compute_panel(
        self, plan: KernelPlan, pool: BufferPool, store: RowStore, panel: Array, memory: tuple[Array, Array]
    ) -> None:
        """Compute the panel of the changes from the closed matrix, before `apply` changes any strip.

        Parameters
        ----------
        plan, pool
            The plan of ⊕ and ⊗, and the transfers between ``store`` and memory.
        store
            The closed matrix (n, n), which the function only reads.
        panel
            (1, n): it receives the cycles.
        memory
            Two buffers, for whole rows and for tiles. The first one may overlap the panel.
        """
        loops, n = array_namespace(panel).asarray(self.loops), len(self.loops)
        if isinstance(store, PackedRows):  # a buffer holds an eighth as many rows of unpacked truth values
            rows, tile = (part.reshape(-1).view(np.bool_) for part in memory)
            rows = rows[: rows.size // n * n].reshape(-1, n)
            cycles = _compute_cycles(make_plan(plan.semiring, np.bool_), pool, store.truths, loops, rows, tile)
            panel[0] = pack(cycles[np.newaxis]).words[0]
        else:
            panel[0] = _compute_cycles(plan, pool, store, loops, *memory)

    def apply(self, panel: Array, first: int, strip: Array, packed: bool) -> None:
        """Apply the changes in the panel to a strip of rows from ``first`` on, in place.

        If ``packed``, panel and strip hold truth values as bits.
        """
        xp = array_namespace(strip)
        rows = xp.arange(len(strip))
        vertices = rows + first
        if not packed:
            strip[rows, vertices] = panel[0][vertices]
            return
        words, bits = vertices // WORD_BITS, xp.left_shift(np.uint32(1), (vertices % WORD_BITS).astype(np.uint32))
        strip[rows, words] = strip[rows, words] & ~bits | panel[0][words] & bits


def _pieces(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // width)
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def _compute_cycles(plan: KernelPlan, pool: BufferPool, store: RowStore, loops: Array, rows: Array, tile: Array) -> Any:
    """Return the cycles (n,), the diagonal of A⁺, from the closed matrix in ``store``.

    ``rows`` (p, n) and ``tile`` are buffers. The first one holds p rows at a time, and the second one the same columns
    of some later rows.
    """
    best, n, flat = close_loops(plan, loops), loops.shape[0], tile.reshape(-1)
    for first in range(0, n, len(rows)):
        last = min(n, first + len(rows))
        own_vertices, width, own_rows = slice(first, last), last - first, rows[: last - first]
        pool.read(store, first, own_rows)
        square = own_rows[:, own_vertices]
        for part in _pieces(width, width):
            best[own_vertices][part] = add_cycles(
                plan, best[own_vertices][part], square[part], square[:, part].T, part.start
            )
        columns, height = store.columns(first, last), flat.size // width
        for start in range(last, n, height):
            own_columns = flat[: min(height, n - start) * width].reshape(-1, width)
            pool.read(columns, start, own_columns)
            for part in _pieces(len(own_columns), width):
                other_vertices = slice(start + part.start, start + part.stop)
                best[own_vertices] = add_cycles(
                    plan, best[own_vertices], own_rows[:, other_vertices], own_columns[part].T
                )
                best[other_vertices] = add_cycles(
                    plan, best[other_vertices], own_columns[part], own_rows[:, other_vertices].T
                )
    return best
