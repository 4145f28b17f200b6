"""Where the closures cut, and what they cost: data, measured, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import Any

__all__ = ["ClosureParameters", "closure_parameters", "dense_seconds", "johnson_seconds"]


@dataclass(frozen=True)
class ClosureParameters:
    """How a backend's closures are cut."""

    leaf: int  # R-Kleene hands blocks of at most this many rows to `close_block`
    grain: int  # where a large matrix is cut: a multiple of the tiles of the products
    pivots: int  # the width of a block of blocked Floyd-Warshall
    pack: int  # a boolean matrix from this size on is closed in packed bits

    def is_valid(self) -> bool:
        """What the algorithms rely on."""
        return self.leaf >= 1 and self.pivots >= 1 and self.grain >= 32 and self.grain % 32 == 0


_TABLE: dict[str, ClosureParameters] = {
    "cpu": ClosureParameters(leaf=256, grain=192, pivots=192, pack=64),
    "reference": ClosureParameters(leaf=64, grain=32, pivots=64, pack=1 << 30),
}


def closure_parameters(backend: str, dtype: Any, storage: str) -> ClosureParameters:
    """The parameters for a backend, an element type and a storage."""
    return _TABLE.get(backend, _TABLE["reference"])


def dense_seconds(n: int, itemsize: int, threads: int) -> float:
    """What a dense min-plus closure takes on the machine of the table: Zen 4, 3.7 GHz, AVX-512."""
    return n**3 * itemsize / (200e9 * threads) + 20e-6


def johnson_seconds(n: int, edges: int) -> float:
    """What SciPy's Dijkstra from every vertex takes there, on one thread."""
    return n * n * (20e-9 + 90e-9 * log1p(edges / max(1, n))) + 200e-6
