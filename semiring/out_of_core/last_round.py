"""The round after the last pivot, which adds the cycles of A⁺ and the edges of unbounded gain to a closed matrix.

This round has no pivots. Its changes depend on more than a few rows of the closed matrix. So they are computed before
the round begins, and stored as its panel. Then each strip is read once more, changed, decoded and written.

*Cycles*, for an idempotent ⊕: A⁺[i, i] is the sum of A*[i, j] ⊗ A*[j, i] over j
(`semiring.algorithms.irreflexive_closure`). Some whole rows are read into the memory of the panel. Then the same
columns of the rows after them are read. So every tile meets the tile on the other side of the diagonal once. Cost: n²
pairs, and 3/2 · n² entries read. Half of these entries are read as parts of rows, which are as wide as the panel is
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

from semiring.algorithms.irreflexive_closure import cycles_of_loops, cycles_through
from semiring.arrays.bits import WORD_BITS, pack
from semiring.arrays.parts import on_host
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

    def find(
        self, plan: KernelPlan, pool: BufferPool, place: RowStore, panel: Array, memory: tuple[Array, Array]
    ) -> None:
        """Compute the panel (rows, n) of the changes from a closed matrix.

        ``memory`` is two buffers for tiles, of which the first may overlap the panel.
        """
        if self.loops is not None:
            loops, n = array_namespace(panel).asarray(self.loops), len(self.loops)
            if isinstance(place, PackedRows):  # a buffer holds an eighth as many rows of unpacked truth values
                rows, tile = (part.reshape(-1).view(np.bool_) for part in memory)
                rows = rows[: rows.size // n * n].reshape(-1, n)
                found = _cycles(make_plan(plan.semiring, np.bool_), pool, place.truths, loops, rows, tile)
                panel[0] = pack(found[np.newaxis]).words[0]
            else:
                panel[0] = _cycles(plan, pool, place, loops, *memory)
        _gains(self.edges, pool, place, panel[int(self.loops is not None) :])

    def put(self, panel: Array, first: int, strip: Array, packed: bool) -> None:
        """Apply the changes in the panel to a strip; if ``packed``, both hold truth values as bits."""
        if self.loops is not None:
            _put_cycles(panel[0], first, strip, packed)
        gains = panel[int(self.loops is not None) :]
        for number in range(0, len(gains), 2):
            before, after = gains[number][first : first + len(strip)], gains[number + 1]
            for part in _pieces(len(strip), strip.shape[1]):
                xp, rows = array_namespace(strip), strip[part]
                rows[...] = xp.where(before[part, np.newaxis] * after > 0, rows.dtype.type(-np.inf), rows)


NO_LAST_ROUND = LastRound()


def _pieces(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // width)
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def _cycles(plan: KernelPlan, pool: BufferPool, place: RowStore, loops: Array, rows: Array, tile: Array) -> Array:
    """Return the cycles (n,), the diagonal of A⁺; ``rows`` (p, n) and ``tile`` are buffers."""
    best, n, flat = cycles_of_loops(plan, loops), loops.shape[0], tile.reshape(-1)
    for first in range(0, n, len(rows)):
        last = min(n, first + len(rows))
        mine, width, out = slice(first, last), last - first, rows[: last - first]
        pool.read(place, first, out)
        square = out[:, mine]
        for part in _pieces(width, width):
            best[mine][part] = cycles_through(plan, best[mine][part], square[part], square[:, part].T, part.start)
        columns, height = place.columns(first, last), flat.size // width
        for start in range(last, n, height):
            back = flat[: min(height, n - start) * width].reshape(-1, width)
            pool.read(columns, start, back)
            for part in _pieces(len(back), width):
                others = slice(start + part.start, start + part.stop)
                best[mine] = cycles_through(plan, best[mine], out[:, others], back[part].T)
                best[others] = cycles_through(plan, best[others], back[part], out[:, others].T)
    return best


def _put_cycles(cycles: Array, first: int, strip: Array, packed: bool) -> None:
    """Replace the diagonal entries in a strip by the entries of the cycles (n,)."""
    xp = array_namespace(strip)
    rows = xp.arange(len(strip))
    vertices = rows + first
    if not packed:
        strip[rows, vertices] = cycles[vertices]
        return
    words, bits = vertices // WORD_BITS, xp.left_shift(np.uint32(1), (vertices % WORD_BITS).astype(np.uint32))
    strip[rows, words] = strip[rows, words] & ~bits | cycles[words] & bits


def _gains(edges: Mapping[int, Array], pool: BufferPool, place: RowStore, panel: Array) -> None:
    """Write the sources and the targets of each tail's gains to the panel (2 · tails, n), as 1 and 0."""
    inserted: list[tuple[Array, Array]] = []
    for number, (tail, heads) in enumerate(edges.items()):
        column, row = panel[2 * number].reshape(-1, 1), panel[2 * number + 1]
        pool.read(place.columns(tail, tail + 1), 0, column)
        before = on_host(column[:, 0]) != np.inf
        before[tail] = True
        after = np.zeros(len(before), np.bool_)
        for head in map(int, heads):
            pool.read(place, head, row[np.newaxis])
            after |= on_host(row) != np.inf
        after[heads] = True
        for earlier_before, earlier_after in inserted:  # the file does not have these gains yet
            before |= earlier_before & earlier_after[tail]
            after |= earlier_after & earlier_before[heads].any()
        inserted.append((before, after))
        column[:, 0] = array_namespace(panel).asarray(before.astype(panel.dtype))
        row[...] = array_namespace(panel).asarray(after.astype(panel.dtype))
