"""Tile shapes and thresholds: data, one table for each kind of machine, and one predicate that says what is valid.

Measured on Zen 4 (EPYC, AVX-512, 32 KB first-level and 1 MB second-level data cache a core); the others follow from
their register counts.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LANE_BYTES", "CpuConfig", "cpu_config"]

#: The narrowest piece that one broadcast can read: shorter elements of A are repeated to fill it when they are packed.
LANE_BYTES = 4


@dataclass(frozen=True)
class CpuConfig:
    """How a CPU product is cut.

    A tile of C, ``rows`` × ``vectors`` vectors, stays in registers over ``depth`` steps of k. A panel of B is
    ``vectors`` vectors wide and ``depth`` deep; ``panels`` of them stay in the second-level cache. A is read in place
    where its rows are contiguous, otherwise it is packed, ``blocks`` tiles of rows at a time.
    """

    rows: int
    vectors: int
    vector_bytes: int
    depth: int
    panels: int
    blocks: int = 16
    pivots: int = 24  # the rows of a pivot block inside `close_block`
    task_pairs: int = 1 << 20  # a block for a thread is at least this many pairs
    parallel_pairs: int = 1 << 22  # smaller products stay on one thread

    def is_valid(self, registers: int) -> bool:
        """Whether a machine with that many vector registers holds the tile, a row of B and an element of A."""
        return (
            min(self.rows, self.vectors, self.depth, self.panels, self.blocks, self.pivots) >= 1
            and self.vector_bytes in (16, 32, 64)
            and (self.vectors * self.vector_bytes) % 32 == 0
            and self.rows * self.vectors + self.vectors + 1 <= registers
        )


# By (bytes of a vector, registers): the tile of a light ⊗ and ⊕, a few instructions a pair; and that of a heavy one.
_TILES: dict[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {
    (64, 32): ((6, 4), (4, 2)),  # AVX-512
    (32, 16): ((4, 2), (2, 2)),  # AVX2
    (16, 32): ((6, 4), (4, 2)),  # NEON
    (16, 16): ((4, 2), (2, 2)),  # SSE2, and whatever else LLVM knows
}

HEAVY = 12  # the instructions a pair from which on a ⊗ and ⊕ count as heavy


def cpu_config(vector_bytes: int, registers: int, instructions: int) -> CpuConfig:
    """The configuration for a machine and a semiring of that many instructions a pair."""
    light, heavy = _TILES[vector_bytes, registers]
    rows, vectors = heavy if instructions >= HEAVY else light
    depth = 512
    panel = vectors * vector_bytes * depth
    return CpuConfig(rows, vectors, vector_bytes, depth, panels=max(1, (1 << 19) // panel))
