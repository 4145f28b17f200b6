"""What comes after the last pivot: the cycles of A⁺, and edges of unbounded gain, put in by one round more.

That round has no pivots. What it puts in takes more than some rows of the closed matrix; so it is found before the
round begins, and kept as its panel. Then each strip is read once more, changed, has the maps undone, and is written.

*Cycles*, for an idempotent ⊕: A⁺[i, i] sums up A*[i, j] ⊗ A*[j, i] over j (`semiring.algorithms.irreflexive`). Some
whole rows are read into the memory of the panel, and of the rows after them the same columns; so every tile meets that
on the other side of the diagonal once. Cost: n² pairs, and 3/2 · n² entries read, half of them as parts of rows as
wide as the panel is high.

*Gains*, -∞ in min-plus (`semiring.algorithms.unbounded`): from where the tail of an edge is reached to what its heads
reach. Both follow from a column and some rows of the matrix that was closed without such edges; what a tail gains by
those before it is worked out on these. Cost: for every tail a column, read entry by entry, and the rows of its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.irreflexive import cycles_of_loops, cycles_through
from semiring.arrays.bits import WORD_BITS, pack
from semiring.arrays.parts import on_host
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import make_plan
from semiring.namespaces import array_namespace
from semiring.out_of_core.buffer_pools import Room
from semiring.out_of_core.disk import Packed, Place

__all__ = ["NOTHING", "LastRound"]

Array: TypeAlias = Any

_ENTRIES = 1 << 18  # that are worked on at a time


@dataclass(frozen=True)
class LastRound:
    """What the last round puts in."""

    loops: Array = None  # (n,): the diagonal of A, where A⁺ is wanted
    edges: Mapping[int, Array] = field(default_factory=dict)  # the heads of the edges of unbounded gain of each tail

    def __and__(self, other: LastRound) -> LastRound:
        """Both, of which at most one has loops."""
        return LastRound(self.loops if other.loops is None else other.loops, {**self.edges, **other.edges})

    @property
    def rows(self) -> int:
        """Of the panel."""
        return (self.loops is not None) + 2 * len(self.edges)

    def find(self, plan: KernelPlan, room: Room, place: Place, panel: Array, memory: tuple[Array, Array]) -> None:
        """Panel (rows, n) ← what is put in, from the closed matrix in a place; ``memory`` may be that of the panel."""
        if self.loops is not None:
            loops, n = array_namespace(panel).asarray(self.loops), len(self.loops)
            if isinstance(place, Packed):  # their truth values, an eighth of as many rows
                rows, tile = (part.reshape(-1).view(np.bool_) for part in memory)
                rows = rows[: rows.size // n * n].reshape(-1, n)
                found = _cycles(make_plan(plan.semiring, np.bool_), room, place.truths, loops, rows, tile)
                panel[0] = pack(found[np.newaxis]).words[0]
            else:
                panel[0] = _cycles(plan, room, place, loops, *memory)
        _gains(self.edges, room, place, panel[int(self.loops is not None) :])

    def put(self, panel: Array, first: int, strip: Array, packed: bool) -> None:
        """What was found, into a strip, both perhaps ``packed`` as bits."""
        if self.loops is not None:
            _put_cycles(panel[0], first, strip, packed)
        gains = panel[int(self.loops is not None) :]
        for number in range(0, len(gains), 2):
            before, after = gains[number][first : first + len(strip)], gains[number + 1]
            for part in _pieces(len(strip), strip.shape[1]):
                xp, rows = array_namespace(strip), strip[part]
                rows[...] = xp.where(before[part, np.newaxis] * after > 0, rows.dtype.type(-np.inf), rows)


NOTHING = LastRound()


def _pieces(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _ENTRIES // width)
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def _cycles(plan: KernelPlan, room: Room, place: Place, loops: Array, rows: Array, tile: Array) -> Array:
    """The cycles (n,). ``rows`` (p, n) and ``tile`` are memory."""
    best, n, flat = cycles_of_loops(plan, loops), loops.shape[0], tile.reshape(-1)
    for first in range(0, n, len(rows)):
        last = min(n, first + len(rows))
        mine, width, out = slice(first, last), last - first, rows[: last - first]
        room.read(place, first, out)
        square = out[:, mine]
        for part in _pieces(width, width):
            best[mine][part] = cycles_through(plan, best[mine][part], square[part], square[:, part].T, part.start)
        columns, height = place.columns(first, last), flat.size // width
        for start in range(last, n, height):
            back = flat[: min(height, n - start) * width].reshape(-1, width)
            room.read(columns, start, back)
            for part in _pieces(len(back), width):
                others = slice(start + part.start, start + part.stop)
                best[mine] = cycles_through(plan, best[mine], out[:, others], back[part].T)
                best[others] = cycles_through(plan, best[others], back[part], out[:, others].T)
    return best


def _put_cycles(cycles: Array, first: int, strip: Array, packed: bool) -> None:
    """The diagonal of a strip ← those of its rows, of cycles (n,)."""
    xp = array_namespace(strip)
    rows = xp.arange(len(strip))
    vertices = rows + first
    if not packed:
        strip[rows, vertices] = cycles[vertices]
        return
    words, bits = vertices // WORD_BITS, xp.left_shift(np.uint32(1), (vertices % WORD_BITS).astype(np.uint32))
    strip[rows, words] = strip[rows, words] & ~bits | cycles[words] & bits


def _gains(edges: Mapping[int, Array], room: Room, place: Place, panel: Array) -> None:
    """Panel (2 · tails, n) ← from where each tail gains, and to where: 1 and 0."""
    known: list[tuple[Array, Array]] = []
    for number, (tail, heads) in enumerate(edges.items()):
        column, row = panel[2 * number].reshape(-1, 1), panel[2 * number + 1]
        room.read(place.columns(tail, tail + 1), 0, column)
        before = on_host(column[:, 0]) != np.inf
        before[tail] = True
        after = np.zeros(len(before), np.bool_)
        for head in map(int, heads):
            room.read(place, head, row[np.newaxis])
            after |= on_host(row) != np.inf
        after[heads] = True
        for before_another, after_another in known:  # which was inserted by then
            before |= before_another & after_another[tail]
            after |= after_another & before_another[heads].any()
        known.append((before, after))
        column[:, 0] = array_namespace(panel).asarray(before.astype(panel.dtype))
        row[...] = array_namespace(panel).asarray(after.astype(panel.dtype))
