"""Choose the schedule of a closure: its method, its blocks of pivots, and its leaves.

Rounding depends on the order in which an entry meets the pivots, so the schedule determines the bits of the result. It
depends on the size of a matrix, its edges, its dtype, the semiring and the backend. It never depends on a machine, its
number of threads, or measurements; `semiring.kernels.machines` holds the settings that do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log1p, log2
from typing import Any, TypeVar

from semiring.algebra import Semiring
from semiring.algebra.catalogue import adds_exponentials

__all__ = [
    "Schedule",
    "analysis_operations",
    "dense_is_faster",
    "dense_operations",
    "factor_operations",
    "schedule_for",
    "search_operations",
    "sweep_operations",
]


_NEVER = 1 << 30  # matrices


@dataclass(frozen=True)
class Schedule:
    """The order of the operations in the closures of a backend."""

    leaf: int  # R-Kleene hands blocks of at most this many rows to `close_block`
    grain: int  # where a large matrix is cut: a multiple of the tiles of the products
    pivots: tuple[tuple[int, int], ...]  # blocked Floyd-Warshall: the width of a block of pivots from each size on
    methods: tuple[tuple[int, str], ...]  # the method of "auto" from each size on
    #: The width of the first block from each size on; each block is at most twice as wide as its predecessor.
    first: tuple[tuple[int, int], ...] = ((0, 1 << 30),)
    whole: int = 0  # R-Kleene hands blocks up to this size to the backend's closure of whole matrices, if it has one
    selecting: tuple[tuple[int, str], ...] = ()  # where ⊕ and ⊗ only select; empty: as `methods`
    triangle: int = 256  # pivots at a time where a triangle is closed: few, because their panels are not halved
    #: The number of matrices of a size from which they are closed together.
    stacks: tuple[tuple[int, int], ...] = ((0, _NEVER),)

    def is_valid(self) -> bool:
        """Return whether leaf, grain and block widths are legal together."""
        widths = all(width >= 1 for _, width in self.pivots) and self.pivots[0][0] == 0
        tables = widths and self.methods[0][0] == 0
        return self.leaf >= 1 and tables and self.grain >= 32 and self.grain % 32 == 0

    def blocks(self, n: int, width: int | None = None) -> list[tuple[int, int]]:
        """Return the blocks of pivots for n rows, as ranges; all have the same width where it is given."""
        widest = width or _entry(self.pivots, n)
        current, start, blocks = width or min(_entry(self.first, n), widest), 0, []
        while start < n:
            blocks.append((start, min(n, start + current)))
            start, current = start + current, min(2 * current, widest)
        return blocks

    def together(self, n: int) -> int:
        """Return the fewest matrices of n rows that a stack closes as a whole, not one after the other."""
        return _entry(self.stacks, n)

    def method(self, n: int, selecting: bool = False) -> str:
        """Return the method for n rows; ``selecting`` says that ⊕ and ⊗ only select."""
        return _entry(self.selecting if selecting and self.selecting else self.methods, n)


T = TypeVar("T")


def _entry(table: tuple[tuple[int, T], ...], n: int) -> T:
    """Return the value of the last row of a table that begins at n or before."""
    return max((row for row in table if row[0] <= n), key=lambda row: row[0])[1]


BLOCKED = "blocked_floyd_warshall"

# The n from which one method is faster than another; docs/benchmarks/thresholds.md has the measurements.
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
        triangle=512,
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
_TABLE["cuda, 2 bytes"] = replace(
    _TABLE["cuda"],
    pivots=((0, 256), (2048, 512), (12288, 1024)),
    first=((0, 256),),
    methods=((0, "staged"), (2048, BLOCKED)),
    selecting=((0, "staged"), (1409, BLOCKED)),
    stacks=((0, 2), (897, 3), (1537, _NEVER)),
)
# This row is for uint8; truth values also take one byte each, but they are packed into bits.
_TABLE["cuda, 1 bytes"] = replace(_TABLE["cuda, 2 bytes"], selecting=(), stacks=((0, 2), (897, 3), (1025, _NEVER)))


# A pivot takes a logarithm for each entry, and rounds it; a product takes one for each entry of its result. At 192 rows
# that is four times as fast, and has a fifth of the error (docs/benchmarks/thresholds.md).
_TABLE["cpu, exponentials"] = replace(_TABLE["cpu"], leaf=32)
_TABLE["cpu, bits"] = replace(_TABLE["cpu"], methods=((0, "rkleene"),))
# Bits on the tensor cores: blocks of up to 4096 rows are squared, and products need k = 4096 for their full rate, as
# docs/benchmarks/thresholds.md shows.
_TABLE["cuda, bits"] = replace(
    _TABLE["cuda, 1 bytes"],
    pivots=((0, 4096),),
    first=((0, _NEVER),),
    methods=((0, "rkleene"), (8193, BLOCKED)),
    whole=4096,
)


def schedule_for(backend: str, dtype: Any, storage: str = "elements", semiring: Semiring | None = None) -> Schedule:
    """Return the schedule of a backend and a dtype; the leaf depends on the semiring too, where it is given."""
    form = "bits" if storage == "bits" else f"{dtype.itemsize} bytes"
    if semiring is not None and adds_exponentials(semiring) and f"{backend}, exponentials" in _TABLE:
        form = "exponentials"
    return _TABLE.get(f"{backend}, {form}", _TABLE.get(backend, _TABLE["reference"]))


def dense_is_faster(n: int, edges: int, itemsize: int = 8, sources: int | None = None, more: float = 0.0) -> bool:
    """Return whether a dense closure takes less time than Dijkstra's algorithm and ``more`` operations.

    Dijkstra's algorithm runs from ``sources`` vertices, by default from all. The result depends on the graph alone, so
    equal calls give bitwise identical results on any number of threads.
    """
    return dense_operations(n, itemsize) <= search_operations(n, edges, sources) + more


def dense_operations(n: int, itemsize: float) -> float:
    """Return the cost of a dense closure, in its own pairs in float64.

    The cost includes n³ pairs, the passes over the matrix, and the call.
    """
    return n**3 * itemsize / 8 + 250 * n * n + 1e6


def search_operations(n: int, edges: int, sources: int | None = None, share: float = 1.0) -> float:
    """Return the cost of Dijkstra's algorithm, in pairs of a dense closure in float64.

    The algorithm runs from ``sources`` vertices, by default from all. Each reaches a ``share`` of all vertices on
    average. A reached vertex passes through a queue of log n levels, and so does an edge that improves a vertex. The
    number of such edges grows like the logarithm of the edges a vertex. Every distance is written.
    docs/benchmarks/thresholds.md lists the graphs on which the formula was fitted.
    """
    each, reached = edges / max(1, n), share * n
    settled = reached * (log2(reached + 2) * (48 + 52 * log1p(each)) + 18 * each)
    return (n if sources is None else sources) * (36 * n + settled) + 1e7


def analysis_operations(n: int, edges: int, width: int = 0) -> float:
    """Return the cost of an elimination order, and of the numeric factorization at least, in the same pairs.

    ``width`` is the number of vertices of the widest level of a search (`semiring.sparse.symbolic.widest_level`).
    """
    return 5e7 + 25_000.0 * (n + edges) + float(width) ** 3


def factor_operations(n: int, pairs: float) -> float:
    """Return the cost of the numeric factorization of an analysed graph that takes so many ``pairs``.

    Most fronts of a factor are small, so a pair costs more than in a dense closure.
    """
    return 40_000.0 * n + 12 * pairs


def sweep_operations(n: int, numbers: int, sources: int, targets: int | None = None) -> float:
    """Return the cost of solving with a factor of ``numbers`` entries for the rows of some sources.

    With ``targets``, only those entries of the rows are computed.
    """
    if targets is None:
        return sources * (10.0 * numbers + 60 * n)
    return (sources + targets) * 2.0 * numbers + 200.0 * sources * targets
