"""The diagonal of A⁺ of a matrix that is closed by strips, for an idempotent ⊕.

It takes the closed matrix beside its transpose: A⁺[i, i] sums up A*[i, j] ⊗ A*[j, i] over j. So some whole rows are
read into the memory of the panel, and of the rows after them the same columns: every tile meets that on the other side
of the diagonal once. The cycles (1, n) are then kept as the panel of a last round, which has no pivots: each strip is
read once more, gets its part of the diagonal, has the maps undone, and is written.

Cost: n² pairs; 3/2 · n² entries read, half of them as parts of rows as wide as the panel is high, and a round.
Source: `semiring.algorithms.irreflexive`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.algorithms.irreflexive import cycles_of_loops, cycles_through
from semiring.arrays.bits import WORD_BITS
from semiring.kernels.contract import Plan
from semiring.namespaces import array_namespace
from semiring.strips.disk import Place
from semiring.strips.rooms import Room

__all__ = ["cycles_of", "put_cycles"]

Array: TypeAlias = Any

_ENTRIES = 1 << 18  # that are folded at a time


def cycles_of(plan: Plan, room: Room, place: Place, loops: Array, rows: Array, tile: Array) -> Array:
    """The cycles (n,) of the closed matrix in a place. ``loops`` (n,): the diagonal of A, where strips are worked on.

    ``rows`` (p, n) and ``tile`` are memory.
    """
    best, n = cycles_of_loops(plan, loops), loops.shape[0]
    for first in range(0, n, len(rows)):
        last = min(n, first + len(rows))
        out, mine = rows[: last - first], slice(first, last)
        room.read(place, first, out)
        for part in _pieces(0, last - first, last - first):
            square = out[:, mine]
            best[first:last][part] = cycles_through(
                plan, best[first:last][part], square[part], square[:, part].T, part.start
            )
        columns, flat = place.columns(first, last), tile.reshape(-1)
        height = max(1, flat.size // (last - first))
        for start in range(last, n, height):
            stop = min(n, start + height)
            back = flat[: (stop - start) * (last - first)].reshape(stop - start, last - first)
            room.read(columns, start, back)
            for part in _pieces(0, stop - start, last - first):
                others = slice(start + part.start, start + part.stop)
                best[mine] = cycles_through(plan, best[mine], out[:, others], back[part].T)
                best[others] = cycles_through(plan, best[others], back[part], out[:, others].T)
    return best


def _pieces(start: int, stop: int, width: int) -> list[slice]:
    step = max(1, _ENTRIES // width)
    return [slice(first, min(stop, first + step)) for first in range(start, stop, step)]


def put_cycles(cycles: Array, first: int, strip: Array, packed: bool) -> None:
    """The diagonal of a strip ← those of its rows, of cycles (n,); both may be ``packed`` as bits."""
    xp = array_namespace(strip)
    rows = xp.arange(len(strip))
    vertices = rows + first
    if not packed:
        strip[rows, vertices] = cycles[vertices]
        return
    words, bits = vertices // WORD_BITS, xp.left_shift(np.uint32(1), (vertices % WORD_BITS).astype(np.uint32))
    strip[rows, words] = strip[rows, words] & ~bits | cycles[words] & bits
