"""Predict the communication and the time of closures by ranks, by the model of D. Bertoldi.

The module models Bertoldi's algorithms, and the tiles of this library. t_c is the seconds of a pair, t_s the seconds to
start a message, and t_w the seconds to send a word (an entry). A broadcast to p ranks takes ⌈log₂ p⌉ steps in the
model. `benchmarks.mpi` fits the parameters, and prints the model beside the measurements.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

__all__ = ["PredictedTimes", "row_broadcast_bytes", "row_broadcast_seconds", "tiles_bytes", "tiles_times"]


def row_broadcast_bytes(n: int, ranks: int, itemsize: int = 4) -> dict[str, float]:
    """Return table 1 of Bertoldi: the bytes that all ranks together receive, by purpose.

    >>> sum(row_broadcast_bytes(12500, 8).values())  # the paper's example, 5.46 GB
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
    """Return the seconds T = t_c n³ / p + log p (t_s (3 + n) + t_w (1 + 2 n² / p + n²)) + n t_k of Bertoldi's model.

    In the paper, the last term of the formula is n. That is one row, but n rows are sent, as in its table 1. t_k is
    the time of a pivot in addition to its pairs, such as the launches on a GPU. The printed formula has t_k = 0.
    """
    steps = ceil(log2(ranks)) if ranks > 1 else 0
    return t_c * n**3 / ranks + t_k * n + steps * (t_s * (3 + n) + t_w * (1 + 2 * n * n / ranks + n * n))


def tiles_bytes(n: int, grid: tuple[int, int], block: int, itemsize: int = 4) -> dict[str, float]:
    """Return the bytes received in `semiring.distributed.closing`, by purpose, as in `row_broadcast_bytes`.

    The ranks form a grid of P × Q, and ``block`` is the number of pivots to a block.

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


class PredictedTimes(NamedTuple):
    """The seconds that one rank spends, by activity, and their total."""

    products: float  # the products of the tiles
    communication: float  # the broadcasts of panels
    chain: float  # the critical path: the products of the next block, its closure, and the closure of its rows
    first_panels: float  # the first panels, for which all ranks wait

    @property
    def seconds(self) -> float:
        """Return the total: products overlap with the chain and the communication of the next panels."""
        return self.first_panels + max(self.products, self.communication + self.chain)

    @property
    def bottleneck(self) -> str:
        """Return the activity that limits the speed on more ranks."""
        seconds = {"the products": self.products, "travel": self.communication, "the chain of blocks": self.chain}
        return max(seconds, key=lambda name: seconds[name])


def tiles_times(n: int, grid: tuple[int, int], block: int, t_c: float, t_s: float, t_w: float) -> PredictedTimes:
    """Return the predicted times of `semiring.distributed.closing`, without scatter and gather.

    >>> times = tiles_times(8192, (1, 1), 1024, 1e-10, 0.0, 0.0)
    >>> round(times.seconds, 1), times.bottleneck
    (57.7, 'the products')
    """
    (p, q), rounds = grid, max(1, -(-n // block))
    high, wide = n / p, n / q
    steps = [ceil(log2(parts)) if parts > 1 else 0 for parts in grid]
    travel = steps[0] * (t_s + t_w * block * wide) + steps[1] * (2 * t_s + t_w * block * (high + block))
    chain = t_c * block * (block * wide + block * high + block * block + block * wide)
    rest = t_c * block * high * wide
    return PredictedTimes(rounds * rest, (rounds - 1) * travel, (rounds - 1) * chain, travel + chain)
