"""Distribute a matrix in tiles over ranks, collect its rows, and read it collectively."""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.distributed.grid import Grid, Range
from semiring.distributed.transports import Ranks
from semiring.namespaces import Array

__all__ = ["TiledMatrix", "collect_rows", "distribute_rows", "split_rows"]


class TiledMatrix:
    """A square matrix (n, n) in tiles, which reads like an array of the host: ``A[rows]``, ``A[tails, heads]``.

    All ranks must read the same entries at the same time, and each rank receives all these entries. A scan of the
    matrix therefore has bitwise identical results on all ranks. It costs each rank as much as a scan of the whole
    matrix, plus the communication of the entries read.
    """

    ndim = 2

    def __init__(self, ranks: Ranks, grid: Grid, tiles: Array) -> None:
        self.ranks, self.grid, self.own = ranks, grid, tiles
        self.dtype, self.itemsize = tiles.dtype, tiles.dtype.itemsize
        self.shape, self.strides = (grid.n, grid.n), (grid.n * self.itemsize, self.itemsize)
        self._rows, self._columns = (np.full(grid.n, -1) for _ in range(2))
        self.rows, self.columns = grid.rows(ranks.rank).vertices, grid.columns(ranks.rank).vertices
        self._rows[self.rows], self._columns[self.columns] = np.arange(len(self.rows)), np.arange(len(self.columns))

    @property
    def nbytes(self) -> int:
        return int(self.size * self.itemsize)

    @property
    def size(self) -> int:
        return self.grid.n**2

    def __len__(self) -> int:
        return self.grid.n

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, tuple) and len(index) == 2:
            tails, heads = np.broadcast_arrays(*index)
            positions = self._rows[tails], self._columns[heads]
            is_own = (positions[0] >= 0) & (positions[1] >= 0)
            entries = np.zeros(tails.shape, self.dtype)
            entries[is_own] = self.own[positions[0][is_own], positions[1][is_own]]
        else:
            selected = index if not isinstance(index, tuple) else index[0] if index else slice(None)
            rows = np.atleast_1d(self._rows[selected])
            entries = np.zeros((rows.size, self.grid.n), self.dtype)
            entries[np.ix_(rows >= 0, self.columns)] = self.own[rows[rows >= 0]]
        self.ranks.join(entries.reshape(-1).view(np.uint8))
        return entries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:] if dtype is None else self[:].astype(dtype)

    def diagonal(self) -> Array:
        """Return the diagonal (n,) on all ranks."""
        vertices = np.arange(self.grid.n)
        return self[vertices, vertices]


def split_rows(n: int, size: int) -> list[Range]:
    """Return consecutive row ranges for all ranks, whose lengths differ by at most one."""
    return [(n * rank // size, n * (rank + 1) // size) for rank in range(size)]


def distribute_rows(ranks: Ranks, grid: Grid, row_ranges: list[Range], rows: Array, dtype: Any) -> Array:
    """Distribute whole rows into tiles, and return the tiles of this rank.

    ``row_ranges[rank]`` are the rows that a rank provides. ``rows`` are those of this rank.
    """
    own_rows, columns = grid.rows(ranks.rank), grid.columns(ranks.rank)
    own = np.empty((len(own_rows), len(columns)), dtype)
    first = row_ranges[ranks.rank][0]
    across = [grid.columns(q).vertices for q in range(grid.shape[1])]
    for block in grid.blocks:
        p, _ = grid.holder(block)
        sent: list[Any] = [None] * ranks.size
        low, high = _intersect(block, row_ranges[ranks.rank])
        if low < high:
            for q in range(grid.shape[1]):
                sent[p * grid.shape[1] + q] = rows[low - first : high - first][:, across[q]]
        for source, part in enumerate(ranks.exchange(sent)):
            if part is not None:
                own[slice(*own_rows.held_range(_intersect(block, row_ranges[source])))] = part
    return own


def collect_rows(ranks: Ranks, grid: Grid, row_ranges: list[Range], tiles: Array) -> Array:
    """Collect whole rows of a matrix in tiles, and return the rows of this rank.

    It is the inverse of `distribute_rows`. ``row_ranges[rank]`` are the rows that a rank receives.
    """
    own_rows, (low, high) = grid.rows(ranks.rank), row_ranges[ranks.rank]
    rows = np.empty((high - low, grid.n), tiles.dtype)
    across = [grid.columns(q).vertices for q in range(grid.shape[1])]
    for block in grid.blocks:
        p, _ = grid.holder(block)
        sent: list[Any] = [None] * ranks.size
        if grid.place(ranks.rank)[0] == p:
            for target, whole in enumerate(row_ranges):
                part = _intersect(block, whole)
                if part[0] < part[1]:
                    sent[target] = tiles[slice(*own_rows.held_range(part))]
        for source, part in enumerate(ranks.exchange(sent)):
            if part is not None:
                common = _intersect(block, row_ranges[ranks.rank])
                rows[common[0] - low : common[1] - low, across[grid.place(source)[1]]] = part
    return rows


def _intersect(one: Range, other: Range) -> Range:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return low, max(low, high)
