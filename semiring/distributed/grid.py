"""Assign tiles to ranks: the block-cyclic distribution of ScaLAPACK, with the blocks of the schedule.

Source: J. Dongarra, R. van de Geijn, D. Walker, "Scalability issues affecting the design of a dense linear algebra
library", J. Parallel Distrib. Comput. 22 (1994). The ranks form a grid of P rows and Q columns. Every P-th block of
rows belongs to the same row of the grid, and every Q-th block of columns to the same column. All ranks therefore have
work until the end.

A last block of one vertex belongs to the rank of the preceding block. A product with a single column may be summed in
another order than a product with several. Where ⊕ rounds, the result would then not be bitwise identical.
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
    """Return the rows and columns of the squarest grid of ``size`` ranks, with at least as many columns as rows.

    The communication grows with the sum of rows and columns.
    """
    rows = next(rows for rows in range(isqrt(size), 0, -1) if size % rows == 0)
    return rows, size // rows


class Share:
    """The vertices of the row (or column) ``index`` of a grid with ``parts`` rows (or columns)."""

    def __init__(self, blocks: Sequence[Range], parts: int, index: int) -> None:
        self.blocks = [block for number, block in enumerate(blocks) if _owner_of_block(blocks, number, parts) == index]
        self._starts = [start for start, _ in self.blocks]
        self._offsets = np.cumsum([0, *(stop - start for start, stop in self.blocks)]).tolist()

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def held_range(self, vertices: Range) -> Range:
        """Return the positions in this share of the vertices of a range. The result may be empty."""
        return self._count_before(vertices[0]), self._count_before(vertices[1])

    def _count_before(self, vertex: int) -> int:
        """Return the number of vertices of this share before a vertex."""
        which = bisect_right(self._starts, vertex) - 1
        if which < 0:
            return 0
        return int(min(self._offsets[which] + vertex - self._starts[which], self._offsets[which + 1]))

    @cached_property
    def vertices(self) -> Any:
        """The vertices of this share, in the order of their positions."""
        return np.concatenate([np.arange(0), *(np.arange(*block) for block in self.blocks)])

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Yield the slice of each block in the whole matrix, and in this share."""
        for block, before in zip(self.blocks, self._offsets, strict=False):
            yield slice(*block), slice(before, before + block[1] - block[0])


def _owner_of_block(blocks: Sequence[Range], number: int, parts: int) -> int:
    """Return the row (or column) of the grid to which a block belongs."""
    last = number == len(blocks) - 1 and number > 0 and blocks[-1][1] - blocks[-1][0] == 1
    return (number - (last and blocks[-2][1] - blocks[-2][0] > 1)) % parts


@dataclass(frozen=True)
class Grid:
    """The distribution of an n × n matrix over a grid. The rank of row p and column q is p · Q + q."""

    blocks: tuple[Range, ...]
    shape: tuple[int, int]  # P and Q

    @property
    def n(self) -> int:
        """The number of vertices."""
        return self.blocks[-1][1] if self.blocks else 0

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.shape[0] * self.shape[1]

    def place(self, rank: int) -> tuple[int, int]:
        """Return the row and the column of a rank in the grid."""
        return divmod(rank, self.shape[1])

    def holder(self, block: Range) -> tuple[int, int]:
        """Return the row and the column of the rank that holds a block on the diagonal.

        Raises `ValueError` if ``block`` is not one of `blocks`.
        """
        number = self.blocks.index(block)
        return _owner_of_block(self.blocks, number, self.shape[0]), _owner_of_block(self.blocks, number, self.shape[1])

    def rows(self, rank: int) -> Share:
        """Return the rows of the tiles of a rank."""
        return Share(self.blocks, self.shape[0], self.place(rank)[0])

    def columns(self, rank: int) -> Share:
        """Return the columns of the tiles of a rank."""
        return Share(self.blocks, self.shape[1], self.place(rank)[1])
