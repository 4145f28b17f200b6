"""What closures by ranks move and take: the model of D. Bertoldi for his algorithms, and the same for ours.

t_c is the seconds of a pair, t_s those to start a message, t_w those of a word (an entry) on its way. A broadcast to p
ranks takes ⌈log₂ p⌉ steps, as he has it. `benchmarks.mpi` fits them, and prints the model beside what is measured.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

__all__ = ["Times", "row_broadcast_bytes", "row_broadcast_seconds", "tiles_bytes", "tiles_times"]


def row_broadcast_bytes(n: int, ranks: int, itemsize: int = 4) -> dict[str, float]:
    """Table 1 of Bertoldi: the bytes that all ranks together receive, by what they are for.

    >>> sum(row_broadcast_bytes(12500, 8).values())  # his example, 5.46 GB
    5468750028.0
    """
    others, entries = ranks - 1, itemsize * n * n
    return {
        "n": itemsize * others,
        "scatter": entries * others / ranks,
        "pivot rows": entries * others,
        "gather": entries * others / ranks,
    }


def row_broadcast_seconds(n: int, ranks: int, t_c: float, t_s: float, t_w: float, t_k: float = 0.0) -> float:
    """His formula T = t_c n³ / p + log p (t_s (3 + n) + t_w (1 + 2 n² / p + n²)), and n t_k.

    In print the last term is n: that is one row, and n of them travel, as his table 1 has it. t_k, 0 in his, is what a
    pivot takes beside its pairs: on a GPU, launches.
    """
    steps = ceil(log2(ranks)) if ranks > 1 else 0
    return t_c * n**3 / ranks + t_k * n + steps * (t_s * (3 + n) + t_w * (1 + 2 * n * n / ranks + n * n))


def tiles_bytes(n: int, grid: tuple[int, int], block: int, itemsize: int = 4) -> dict[str, float]:
    """The same table for `semiring.distributed.closing` on a grid of P × Q ranks, with blocks of so many pivots.

    >>> {name: size // 2**20 for name, size in tiles_bytes(8192, (2, 2), 1024).items()}
    {'scatter': 192.0, 'rows of pivots': 256.0, 'columns of pivots': 256.0, 'blocks': 32.0, 'gather': 192.0}
    """
    (p, q), entries = grid, itemsize * n * n
    return {
        "scatter": entries * (p * q - 1) / (p * q),
        "rows of pivots": float(entries * (p - 1)),
        "columns of pivots": float(entries * (q - 1)),
        "blocks": float(itemsize * n * block * (q - 1)),
        "gather": entries * (p * q - 1) / (p * q),
    }


class Times(NamedTuple):
    """Seconds of one rank by what it does, and of the whole."""

    rest: float  # products of its tiles
    travel: float  # panels on their way
    chain: float  # what each block of pivots waits for: the next one meets it, is closed, and closes its rows
    first: float  # the first panels, for which everybody waits

    @property
    def seconds(self) -> float:
        """The rest is computed while the next panels are made and travel, whichever takes longer."""
        return self.first + max(self.rest, self.travel + self.chain)

    @property
    def stops(self) -> str:
        """Which of them more ranks would have to make shorter."""
        named = {"the products": self.rest, "travel": self.travel, "the chain of blocks": self.chain}
        return max(named, key=lambda name: named[name])


def tiles_times(n: int, grid: tuple[int, int], block: int, t_c: float, t_s: float, t_w: float) -> Times:
    """The model of `semiring.distributed.closing`. Scatter and gather are left out: the tiles are where they belong.

    >>> times = tiles_times(8192, (1, 1), 1024, 1e-10, 0.0, 0.0)
    >>> round(times.seconds, 1), times.stops
    (57.7, 'the products')
    """
    (p, q), rounds = grid, max(1, -(-n // block))
    high, wide = n / p, n / q
    steps = [ceil(log2(parts)) if parts > 1 else 0 for parts in grid]
    travel = steps[0] * (t_s + t_w * block * wide) + steps[1] * (2 * t_s + t_w * block * (high + block))
    chain = t_c * block * (block * wide + block * high + block * block + block * wide)
    rest = t_c * block * high * wide
    return Times(rounds * rest, (rounds - 1) * travel, (rounds - 1) * chain, travel + chain)
