"""Define the speed data of a machine: numbers that determine how fast a result is computed and change no bit of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

NEVER = 1 << 30  # rows: more than any matrix has

_VECTOR_BYTES = (16, 32, 64)


@dataclass(frozen=True)
class TileShape:
    """The shape of a tile of C, ``rows`` × ``vectors`` vectors, that stays in registers while k runs."""

    rows: int
    vectors: int
    vector_bytes: int

    def is_valid(self, registers: int) -> bool:
        """Return whether a machine with that many vector registers holds the tile, a row of B and an element of A."""
        return (
            min(self.rows, self.vectors) >= 1
            and self.vector_bytes in _VECTOR_BYTES
            and (self.vectors * self.vector_bytes) % 32 == 0
            and self.rows * self.vectors + self.vectors + 1 <= registers
        )


@dataclass(frozen=True)
class ClosureSpeed:
    """The widths of copies in closures, and the sizes from which on closures run other code with identical results."""

    panel: int  # columns or rows that an in-place product copies at a time
    strip: int = NEVER  # rows of the remainder that blocked Floyd-Warshall updates at a time: they bound its workspace
    pack: int = NEVER  # rows: a boolean matrix with at least as many is closed in packed bits
    graph: int = 0  # up to this size the launches of a closure are recorded, and replayed for the next similar closure
    narrow: tuple[tuple[str, int], ...] = ()  # dtypes for whole numbers, the narrowest first, each from a size on

    def is_valid(self) -> bool:
        """Return whether the numbers satisfy the preconditions of the algorithms."""
        return self.panel >= 32 and self.strip >= 32 and self.pack >= 1 and self.graph >= 0

    def faster_dtypes(self, n: int, dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
        """Return the dtypes, narrowest first, in which a min-plus matrix of n rows of whole numbers closes faster."""
        if not self.narrow:
            return []
        fast = [np.dtype(name) for name, size in self.narrow if n >= size]
        return [narrow for narrow in fast if narrow.itemsize < dtype.itemsize]


@dataclass(frozen=True)
class CpuSpeed:
    """The speed data of products and closures on a CPU.

    All numbers are whole, so that a file can hold them. A panel of B is as wide as a tile and ``depth`` deep. As many
    panels as ``packed`` bytes hold stay in the second-level cache. A is read in place if its rows are contiguous.
    Otherwise it is packed, ``blocks`` tiles of rows at a time.
    """

    rows: int  # rows of a tile of C, for a ⊗ and ⊕ of few instructions
    vectors: int  # vectors in a row of this tile
    heavy_rows: int  # rows for many instructions a pair: from `HEAVY` in kernels/cpu/kernels.py on
    heavy_vectors: int
    depth: int = 512
    packed: int = 1 << 19  # bytes of the panels of B that stay in the second-level cache
    blocks: int = 16  # tiles of rows of A that are packed at a time
    tasks: int = 4  # blocks of C for each thread
    task_pairs: int = 1 << 20  # a block for a thread is at least this many pairs
    parallel_pairs: int = 1 << 22  # smaller products stay on one thread
    copy_bytes: int = 1 << 18  # smaller copies stay on one thread
    patience: int = 8_000  # pauses before a waiting thread goes to sleep: some tenths of a millisecond
    panel: int = 1024  # see `ClosureSpeed`
    strip: int = 2048
    pack: int = 64
    turned: int = 1 << 19  # bytes of the transposed rows that the search for predecessors processes at a time

    def is_valid(self, vector_bytes: int, registers: int) -> bool:
        """Return whether products and closures work with these numbers, of a table, the tuner, or a file."""
        numbers = [getattr(self, field.name) for field in fields(self)]
        return (
            all(type(number) is int and 1 <= number <= NEVER for number in numbers)
            and self.light(vector_bytes).is_valid(registers)
            and self.heavy(vector_bytes).is_valid(registers)
            and 32 <= self.depth <= 1 << 14
            and self.packed <= 1 << 26
            and self.blocks <= 1 << 10
            and self.closures.is_valid()
        )

    def light(self, vector_bytes: int) -> TileShape:
        """Return the tile of a ⊗ and ⊕ of few instructions a pair."""
        return TileShape(self.rows, self.vectors, vector_bytes)

    def heavy(self, vector_bytes: int) -> TileShape:
        """Return the tile of a ⊗ and ⊕ of at least ``HEAVY`` instructions, whose intermediates need registers too."""
        return TileShape(self.heavy_rows, self.heavy_vectors, vector_bytes)

    @cached_property
    def closures(self) -> ClosureSpeed:
        """The speed data of the closures."""
        return ClosureSpeed(self.panel, self.strip, self.pack)
