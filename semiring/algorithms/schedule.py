"""The schedule: by which method a matrix is closed, in which blocks of pivots, down to which leaves.

Rounding depends on the order in which an entry meets the pivots. So what is here decides bits, and follows from the
size of a matrix, its edges, its dtype and the backend: never from a machine, its threads, or what was measured on it.
What does is in `semiring.kernels.machines`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log1p
from typing import Any, TypeVar

__all__ = ["Schedule", "dense_is_faster", "dense_seconds", "johnson_seconds", "schedule_for"]


_NEVER = 1 << 30  # matrices


@dataclass(frozen=True)
class Schedule:
    """How a backend's closures are ordered."""

    leaf: int  # R-Kleene hands blocks of at most this many rows to `close_block`
    grain: int  # where a large matrix is cut: a multiple of the tiles of the products
    pivots: tuple[tuple[int, int], ...]  # blocked Floyd-Warshall: the width of a block of pivots from each size on
    methods: tuple[tuple[int, str], ...]  # what "auto" means from each size on
    first: tuple[tuple[int, int], ...] = ((0, 1 << 30),)  # of the first one; each is at most twice the one before
    whole: int = 0  # R-Kleene hands blocks up to this size to the backend's closure of whole matrices, if it has one
    selecting: tuple[tuple[int, str], ...] = ()  # the methods where ⊕ and ⊗ only select, if they are others
    stacks: tuple[tuple[int, int], ...] = ((0, _NEVER),)  # from how many on matrices of a size are closed together

    def is_valid(self) -> bool:
        """What the algorithms rely on."""
        widths = all(width >= 1 for _, width in self.pivots) and self.pivots[0][0] == 0
        tables = widths and self.methods[0][0] == 0
        return self.leaf >= 1 and tables and self.grain >= 32 and self.grain % 32 == 0

    def blocks(self, n: int, width: int | None = None) -> list[tuple[int, int]]:
        """The blocks of pivots of a matrix of n rows, as ranges; all of one width where that is given."""
        widest = width or _entry(self.pivots, n)
        now, start, blocks = width or min(_entry(self.first, n), widest), 0, []
        while start < n:
            blocks.append((start, min(n, start + now)))
            start, now = start + now, min(2 * now, widest)
        return blocks

    def together(self, n: int) -> int:
        """From how many matrices of n rows on a stack is closed as a whole, rather than one after the other."""
        return _entry(self.stacks, n)

    def method(self, n: int, selecting: bool = False) -> str:
        """The method for a matrix of n rows, where ⊕ and ⊗ do more than to select, or where they do not."""
        return _entry(self.selecting if selecting and self.selecting else self.methods, n)


T = TypeVar("T")


def _entry(table: tuple[tuple[int, T], ...], n: int) -> T:
    """The value of the last row of a table that begins at n or before."""
    return max((row for row in table if row[0] <= n), key=lambda row: row[0])[1]


BLOCKED = "blocked_floyd_warshall"

# Zen 4 (EPYC, AVX-512), two cores, min-plus float32, fractions of the register-only limit on one and two threads at
# n = 1024, 2048, 4096: blocked Floyd-Warshall 90/67, 92/82, 90/86 %, R-Kleene 87/62, 92/76, 92/85 %. Both are right for
# everything; the choice never looks at the number of threads, because the bits of a result must not depend on it.
#
# H200, 2026-11-21, staged and blocked Floyd-Warshall as fractions of the product's rate at n = 8192 (15.2 T pairs/s
# that day in min-plus float32, 16.3 in int32, 8.2 in max-min). Blocked is in blocks of 512 (1024 at 16384), each
# closed as a whole while the remainder is worked on.
#   float32  66 and 43 % at n = 2048, 53 and 46 at 2304, 51 and 53 at 2560, 60 and 64 at 3072, 70 and 77 at 4096, 80 and
#            91 at 8192, 84 and 98 at 16384; R-Kleene 45 at 2048, 73 at 4096, 79 at 8192
#   int32    61 and 39 % at 2048, 49 and 47 at 2560, 59 and 60 at 3072, 61 and 71 at 4096, 75 and 86 at 8192
#   max-min  92 and 53 % at 2048, 77 and 63 at 2560, 89 and 78 at 3072, 100 and 90 at 4096, the same at 8192: three
#            operations for two pairs on one pipe leave the rest of a staged kernel time to hide. It copies where n is
#            no multiple of its tiles, so it ends where the promise of little memory begins.
# With the next pivot block ahead of the rest of its rows (`blocked_floyd_warshall`), the closure of it in half
# multiprocessors and the large tiles from 528 of them on, without what a public call adds (0.2 ms at n = 4096, 0.6 at
# 8192), float32: 5.17 ms at n = 4096 in blocks of 512 (before 5.55; 5.43 in blocks of 1024, 5.66 of 768, 5.23 with a
# first one of 128), 2.55 at 3072 (before 2.72) and 1.73 at 2560 (before 1.81 to 1.92). At 8192 38.2 in blocks of 512
# (before 38.7), 37.6 of 768, 37.3 of 1024, 37.1 of 1024 with a first one of 512, 37.5 of 1536. The product of one round
# alone reaches 14.2 T pairs/s at m = 3072, n = 4096, k = 512, 14.8 at 7168, 8192, 512 and 15.3 with k = 1024; of 15.7
# where k = 8192: each wave of blocks loses 6 µs to its beginning and its end, whichever comes first, the reads of C or
# those of A and B. A closure of 512 waits some 100 µs for a place among products that hold theirs for as long.
#
# Staged and blocked Floyd-Warshall for elements of other sizes, the same day, milliseconds (`benchmarks.gpu.staged`):
#                     n = 1408     1536       1792       2048       2304       2560       3072       3584       4096
#   float64 min-plus  1.12 1.67  1.40 1.90             2.67 3.32             4.73 5.11  7.74 7.95  11.8 11.2  17.5 16.2
#   float64 max-min   1.47 2.10  1.83 2.41             3.53 4.36             6.27 7.18  10.2 11.4  15.6 16.9  23.3 24.0
#   int64 min-plus    1.54 2.28  1.94 2.59             3.79 4.78             6.76 7.94  11.1 11.7  17.0 18.5  25.3 26.0
#   int16 max-min     0.87 0.95  1.26 1.04             2.12 1.32             4.23 2.01
#   int16 min-plus               0.69 0.72  0.82 0.92  1.15 0.92  1.58 1.10
#   float16 min-plus             0.44 0.60  0.53 0.78  0.72 0.74  0.96 0.93
#   uint8 max-min                1.02 1.26  1.19 1.56  1.69 1.49  2.38 1.77
# At 3328 float64 min-plus takes 9.64 and 9.63.
#
# Stacks of two matrices, one by one and together, 2026-11-21, milliseconds of the device alone (one by one the host
# takes 0.14 a matrix beside):
#              n = 300       512           1024          1536          2048
#   float32    0.151 0.095   0.209 0.137   0.405 0.378   0.987 0.848   1.662 1.735; of four 3.330 3.149
#   max-min    0.210 0.117   0.302 0.173   0.601 0.550   1.611 1.285   2.751 2.656
#   float64    0.391 0.200   0.601 0.310   1.43 0.816    2.81 2.21     5.32 4.58; 9.45 8.92 at 2560, 15.4 14.8 at 3072
#   int16      0.265 0.151   0.384 0.226   0.751 0.785   2.527 1.892   4.238 3.936, max-min
# At n = 1408, where kernel 6 comes out even, two take as long one way as the other. A single matrix of float64 goes the
# same way alone; those of 2 bytes are blocked one by one where stacks of them end (int16 max-min: two in 2.6 at 2048).
_TABLE: dict[str, Schedule] = {
    "cpu": Schedule(
        leaf=192,
        grain=192,
        pivots=((0, 256), (768, 384), (3072, 768)),
        methods=((0, "rkleene"), (193, BLOCKED)),
    ),
    "reference": Schedule(leaf=64, grain=32, pivots=((0, 64),), methods=((0, "rkleene"),)),
    "cuda": Schedule(
        leaf=128,
        grain=128,
        pivots=((0, 256), (2048, 512), (7168, 1024)),
        methods=((0, "staged"), (2560, BLOCKED)),
        first=((0, 256), (7168, 512)),
        whole=512,
        selecting=((0, "staged"), (4097, BLOCKED)),
        stacks=((0, 2), (897, 3), (1537, 4), (2049, _NEVER)),
    ),
}
_TABLE["cuda, 8 bytes"] = replace(
    _TABLE["cuda"],
    pivots=((0, 256), (6144, 512), (12288, 1024)),
    first=((0, 256),),
    methods=((0, "staged"), (3329, BLOCKED)),
    whole=256,
    stacks=((0, 2), (3329, _NEVER)),
)
# Blocks of pivots that were measured before those of 4 bytes became wider.
_TABLE["cuda, 2 bytes"] = replace(
    _TABLE["cuda"],
    pivots=((0, 256), (2048, 512), (12288, 1024)),
    first=((0, 256),),
    methods=((0, "staged"), (2048, BLOCKED)),
    selecting=((0, "staged"), (1409, BLOCKED)),
    stacks=((0, 2), (897, 3), (1537, _NEVER)),
)
# Truth values one by one are packed into bits.
_TABLE["cuda, 1 bytes"] = replace(_TABLE["cuda, 2 bytes"], selecting=(), stacks=((0, 2), (897, 3), (1025, _NEVER)))


def schedule_for(backend: str, dtype: Any) -> Schedule:
    """The schedule for a backend and an element type."""
    wide = f"{backend}, {dtype.itemsize} bytes"
    return _TABLE.get(wide, _TABLE.get(backend, _TABLE["reference"]))


def dense_is_faster(n: int, edges: int, itemsize: int = 8, part: float = 1.0, more: float = 0.0) -> bool:
    """Whether a dense closure beats Dijkstra's algorithm from a ``part`` of n vertices and ``more`` seconds.

    It depends on the graph alone, so that equal calls get equal bits on any number of threads.
    """
    return dense_seconds(n, itemsize) <= part * johnson_seconds(n, edges) + more


def dense_seconds(n: int, itemsize: int) -> float:
    """What a dense min-plus closure takes on the machine of the table: Zen 4, 3.7 GHz, AVX-512, two threads."""
    return n**3 * itemsize / 400e9 + n * n * 5e-9 + 20e-6


def johnson_seconds(n: int, edges: int) -> float:
    """What SciPy's Dijkstra from every vertex takes there, on one thread, on random graphs.

    Measured at n = 1500, 2000 and 3000: 72, 111 and 184 ns (within 7 %) for every pair of vertices at 2, 3 and 6 edges
    a vertex, 320 at 20; with one edge a vertex little is reached, and 18 stands for 5 to 20.
    """
    return n * n * max(8e-9, 130e-9 * log1p(edges / max(1, n)) - 72e-9) + 200e-6
