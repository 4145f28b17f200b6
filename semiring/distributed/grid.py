"""Which rank holds which tiles: the block-cyclic distribution of ScaLAPACK, its blocks those of the schedule.

Source: J. Dongarra, R. van de Geijn, D. Walker, "Scalability issues affecting the design of a dense linear algebra
library", J. Parallel Distrib. Comput. 22 (1994). The ranks form a grid of P rows and Q columns; of the blocks of rows
every P-th belongs to a row of the grid, of those of columns every Q-th to a column. So all ranks have work to the end.

A last block of one vertex belongs to whoever has the block before: a product with a single column may be summed in
another order than one with more, and where ⊕ rounds it would have other bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Grid", "Range", "Share", "grid_shape"]

Range: TypeAlias = tuple[int, int]


def grid_shape(size: int) -> tuple[int, int]:
    """The rows and columns, no fewer, of the squarest grid of so many ranks: what travels grows with its edges."""
    rows = next(rows for rows in range(isqrt(size), 0, -1) if size % rows == 0)
    return rows, size // rows


class Share:
    """What one row or one column of a grid holds of the vertices."""

    def __init__(self, blocks: Sequence[Range], parts: int, which: int) -> None:
        self.blocks = [block for number, block in enumerate(blocks) if _owner(blocks, number, parts) == which]
        self._starts = [start for start, _ in self.blocks]
        self._before = np.cumsum([0, *(stop - start for start, stop in self.blocks)]).tolist()

    def __len__(self) -> int:
        return int(self._before[-1])

    def own(self, vertices: Range) -> Range:
        """The places of those of some vertices that are held, which may be none."""
        return self._place(vertices[0]), self._place(vertices[1])

    def _place(self, vertex: int) -> int:
        """How many of the vertices before are held."""
        which = bisect_right(self._starts, vertex) - 1
        if which < 0:
            return 0
        return int(min(self._before[which] + vertex - self._starts[which], self._before[which + 1]))

    @cached_property
    def vertices(self) -> Any:
        """All that are held, in the order of their places."""
        return np.concatenate([np.arange(0), *(np.arange(*block) for block in self.blocks)])

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Where each block lies in the whole, and here."""
        for block, before in zip(self.blocks, self._before, strict=False):
            yield slice(*block), slice(before, before + block[1] - block[0])


def _owner(blocks: Sequence[Range], number: int, parts: int) -> int:
    last = number == len(blocks) - 1 and number > 0 and blocks[-1][1] - blocks[-1][0] == 1
    return (number - (last and blocks[-2][1] - blocks[-2][0] > 1)) % parts


@dataclass(frozen=True)
class Grid:
    """The distribution of an n × n matrix. The rank of row p and column q is p · Q + q."""

    blocks: tuple[Range, ...]
    shape: tuple[int, int]  # P and Q

    @property
    def n(self) -> int:
        """How many vertices there are."""
        return self.blocks[-1][1] if self.blocks else 0

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.shape[0] * self.shape[1]

    def place(self, rank: int) -> tuple[int, int]:
        """The row and the column of a rank."""
        return divmod(rank, self.shape[1])

    def holder(self, block: Range) -> tuple[int, int]:
        """The row and the column of the rank that holds a block on the diagonal."""
        number = self.blocks.index(block)
        return _owner(self.blocks, number, self.shape[0]), _owner(self.blocks, number, self.shape[1])

    def rows(self, rank: int) -> Share:
        """The rows of the tiles of a rank."""
        return Share(self.blocks, self.shape[0], self.place(rank)[0])

    def columns(self, rank: int) -> Share:
        """The columns of the tiles of a rank."""
        return Share(self.blocks, self.shape[1], self.place(rank)[1])
