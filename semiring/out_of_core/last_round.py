"""Change a closed matrix in one more round: add the cycles of A⁺ and the edges of unbounded gain.

This round has no pivots. Its changes depend on more than a few rows of the closed matrix. So they are computed before
the round begins, and stored as its panel. Then each strip is read once more, changed, decoded and written.

*Cycles*, for an idempotent ⊕: A⁺[i, i] is the sum of A*[i, j] ⊗ A*[j, i] over j
(`semiring.algorithms.irreflexive_closure`). Some whole rows are read into the memory of the panel. Then the same
columns of the rows after them are read. So every tile meets the tile on the other side of the diagonal once. Cost: n²
pairs, and 3/2 · n² entries read. A third of these entries are read as parts of rows, which are as wide as the panel is
high.

*Gains*, -∞ in min-plus (`semiring.algorithms.unbounded_edges`): an edge of unbounded gain changes the entries from each
vertex that reaches its tail to each vertex that its heads reach. Both sets follow from a column and some rows of the
matrix that was closed without such edges. The gains through the tails inserted before are computed on these sets.
Cost: for every tail one column, read entry by entry, and the rows of its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.irreflexive_closure import add_cycles, close_loops
from semiring.arrays.bits import WORD_BITS, pack
from semiring.arrays.parts import to_host_array
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace
from semiring.out_of_core.buffer_pools import BufferPool
from semiring.out_of_core.disk import PackedRows, RowStore

__all__ = ["NO_LAST_ROUND", "LastRound"]

Array: TypeAlias = Any

_ENTRIES = 1 << 18  # the entries that one operation processes, which bounds its temporaries


@dataclass(frozen=True)
class LastRound:
    """The changes that the last round makes to a closed matrix.

    ``loops`` (n,) is the diagonal of A if the result is A⁺, else None. ``edges`` maps each tail of an edge of unbounded
    gain to the heads of its edges.
    """

    loops: Array = None
    edges: Mapping[int, Array] = field(default_factory=dict)

    def __and__(self, other: LastRound) -> LastRound:
        """Return the changes of both operands, of which at most one has loops."""
        return LastRound(self.loops if other.loops is None else other.loops, {**self.edges, **other.edges})

    @property
    def rows(self) -> int:
        """The number of rows of the panel: one for the cycles, and two for each tail."""
        return (self.loops is not None) + 2 * len(self.edges)

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
            (`rows`, n): it receives the cycles first, if there are any, and then the two rows of each tail.
        memory
            Two buffers, for whole rows and for tiles. The first one may overlap the panel.
        """
        if self.loops is not None:
            loops, n = array_namespace(panel).asarray(self.loops), len(self.loops)
            if isinstance(store, PackedRows):  # a buffer holds an eighth as many rows of unpacked truth values
                rows, tile = (part.reshape(-1).view(np.bool_) for part in memory)
                rows = rows[: rows.size // n * n].reshape(-1, n)
                cycles = _compute_cycles(make_plan(plan.semiring, np.bool_), pool, store.truths, loops, rows, tile)
                panel[0] = pack(cycles[np.newaxis]).words[0]
            else:
                panel[0] = _compute_cycles(plan, pool, store, loops, *memory)
        _compute_gains(self.edges, pool, store, panel[int(self.loops is not None) :])

    def apply(self, panel: Array, first: int, strip: Array, packed: bool) -> None:
        """Apply the changes in the panel to a strip of rows from ``first`` on, in place.

        If ``packed``, panel and strip hold truth values as bits.
        """
        if self.loops is not None:
            _replace_diagonal(panel[0], first, strip, packed)
        gains = panel[int(self.loops is not None) :]
        for number in range(0, len(gains), 2):
            sources, targets = gains[number][first : first + len(strip)], gains[number + 1]
            for part in _pieces(len(strip), strip.shape[1]):
                xp, rows = array_namespace(strip), strip[part]
                rows[...] = xp.where(sources[part, np.newaxis] * targets > 0, rows.dtype.type(-np.inf), rows)


NO_LAST_ROUND = LastRound()


def _pieces(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // width)
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def _compute_cycles(
    plan: KernelPlan, pool: BufferPool, store: RowStore, loops: Array, rows: Array, tile: Array
) -> Array:
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


def _replace_diagonal(cycles: Array, first: int, strip: Array, packed: bool) -> None:
    """Replace the diagonal entries in a strip by the entries of the cycles (n,)."""
    xp = array_namespace(strip)
    rows = xp.arange(len(strip))
    vertices = rows + first
    if not packed:
        strip[rows, vertices] = cycles[vertices]
        return
    words, bits = vertices // WORD_BITS, xp.left_shift(np.uint32(1), (vertices % WORD_BITS).astype(np.uint32))
    strip[rows, words] = strip[rows, words] & ~bits | cycles[words] & bits


def _compute_gains(edges: Mapping[int, Array], pool: BufferPool, store: RowStore, panel: Array) -> None:
    """Write the sources and the targets of each tail's gains to the panel (2 · tails, n), as 1 and 0."""
    earlier_gains: list[tuple[Array, Array]] = []
    for number, (tail, heads) in enumerate(edges.items()):
        column, row = panel[2 * number].reshape(-1, 1), panel[2 * number + 1]
        pool.read(store.columns(tail, tail + 1), 0, column)
        sources = to_host_array(column[:, 0]) != np.inf
        sources[tail] = True
        targets = np.zeros(len(sources), np.bool_)
        for head in map(int, heads):
            pool.read(store, head, row[np.newaxis])
            targets |= to_host_array(row) != np.inf
        targets[heads] = True
        for earlier_sources, earlier_targets in earlier_gains:  # the file does not have these gains yet
            sources |= earlier_sources & earlier_targets[tail]
            targets |= earlier_targets & earlier_sources[heads].any()
        earlier_gains.append((sources, targets))
        column[:, 0] = array_namespace(panel).asarray(sources.astype(panel.dtype))
        row[...] = array_namespace(panel).asarray(targets.astype(panel.dtype))
