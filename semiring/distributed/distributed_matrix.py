"""A matrix of which each rank holds tiles: dealt out, collected, and read by all ranks together."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.distributed.grid import Grid, Range
from semiring.distributed.transports import Ranks

__all__ = ["Spread", "collect", "deal", "slabs"]

Array: TypeAlias = Any


class Spread:
    """A square matrix (n, n) in tiles, to be read as an array of the host: ``A[rows]``, ``A[tails, heads]``.

    All ranks must read the same at the same time; each gets all of it. So what looks at a matrix by this finds the same
    everywhere, bit by bit, and costs every rank what it costs one, and the travel of what is read.
    """

    ndim = 2

    def __init__(self, ranks: Ranks, grid: Grid, own: Array) -> None:
        self.ranks, self.grid, self.own = ranks, grid, own
        self.dtype, self.itemsize = own.dtype, own.dtype.itemsize
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
            here = self._rows[tails], self._columns[heads]
            mine = (here[0] >= 0) & (here[1] >= 0)
            found = np.zeros(tails.shape, self.dtype)
            found[mine] = self.own[here[0][mine], here[1][mine]]
        else:
            at = index if not isinstance(index, tuple) else index[0] if index else slice(None)
            rows = np.atleast_1d(self._rows[at])
            found = np.zeros((rows.size, self.grid.n), self.dtype)
            found[np.ix_(rows >= 0, self.columns)] = self.own[rows[rows >= 0]]
        self.ranks.join(found.reshape(-1).view(np.uint8))
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:] if dtype is None else self[:].astype(dtype)

    def diagonal(self) -> Array:
        """The loops (n,)."""
        vertices = np.arange(self.grid.n)
        return self[vertices, vertices]


def slabs(n: int, size: int) -> list[Range]:
    """Consecutive rows for each rank, as even as can be."""
    return [(n * rank // size, n * (rank + 1) // size) for rank in range(size)]


def deal(ranks: Ranks, grid: Grid, held: list[Range], rows: Array, dtype: Any) -> Array:
    """The tiles of this rank of a matrix of which each rank gives whole rows, ``held[rank]`` of them."""
    mine, columns = grid.rows(ranks.rank), grid.columns(ranks.rank)
    own = np.empty((len(mine), len(columns)), dtype)
    first = held[ranks.rank][0]
    across = [grid.columns(q).vertices for q in range(grid.shape[1])]
    for block in grid.blocks:
        p, _ = grid.holder(block)
        sent: list[Any] = [None] * ranks.size
        low, high = _met(block, held[ranks.rank])
        if low < high:
            for q in range(grid.shape[1]):
                sent[p * grid.shape[1] + q] = rows[low - first : high - first][:, across[q]]
        for source, part in enumerate(ranks.exchange(sent)):
            if part is not None:
                own[slice(*mine.own(_met(block, held[source])))] = part
    return own


def collect(ranks: Ranks, grid: Grid, wanted: list[Range], own: Array) -> Array:
    """Whole rows, ``wanted[rank]`` of them, of a matrix in tiles: what `deal` took."""
    mine, (low, high) = grid.rows(ranks.rank), wanted[ranks.rank]
    rows = np.empty((high - low, grid.n), own.dtype)
    across = [grid.columns(q).vertices for q in range(grid.shape[1])]
    for block in grid.blocks:
        p, _ = grid.holder(block)
        sent: list[Any] = [None] * ranks.size
        if grid.place(ranks.rank)[0] == p:
            for target, whole in enumerate(wanted):
                part = _met(block, whole)
                if part[0] < part[1]:
                    sent[target] = own[slice(*mine.own(part))]
        for source, part in enumerate(ranks.exchange(sent)):
            if part is not None:
                met = _met(block, wanted[ranks.rank])
                rows[met[0] - low : met[1] - low, across[grid.place(source)[1]]] = part
    return rows


def _met(one: Range, other: Range) -> Range:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return low, max(low, high)
