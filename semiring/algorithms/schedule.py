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
    "dense_operations",
    "factor_operations",
    "schedule_for",
    "search_operations",
    "sweep_operations",
]


_NEVER = 1 << 30  # a number of matrices or a width that no call reaches


@dataclass(frozen=True)
class Schedule:
    """The order of the operations in the closures of a backend."""

    leaf: int  # R-Kleene hands blocks of at most this many rows to `close_block`
    grain: int  # a large matrix is split at a multiple of this, which is a multiple of the tiles of the products
    pivots: tuple[tuple[int, int], ...]  # blocked Floyd-Warshall: the width of a block of pivots from each size on
    methods: tuple[tuple[int, str], ...]  # the method of "auto" from each size on
    #: The width of the first block from each size on. Each block is at most twice as wide as the block before it.
    first_widths: tuple[tuple[int, int], ...] = ((0, 1 << 30),)
    #: R-Kleene hands blocks up to this size to the backend's closure of whole matrices, if it has one.
    max_whole_matrix_rows: int = 0
    #: The method of "auto" from each size on if ⊕ and ⊗ only select. An empty tuple means `methods`.
    selective_methods: tuple[tuple[int, str], ...] = ()
    triangle: int = 256  # the width of a block of pivots of one triangle: small, because panels are not halved
    #: The least number of matrices of each size that a stack closes together.
    stacks: tuple[tuple[int, int], ...] = ((0, _NEVER),)

    def is_valid(self) -> bool:
        """Return whether leaf, grain and block widths are legal together."""
        widths = all(width >= 1 for _, width in self.pivots) and self.pivots[0][0] == 0
        tables = widths and self.methods[0][0] == 0
        return self.leaf >= 1 and tables and self.grain >= 32 and self.grain % 32 == 0

    def blocks(self, n: int, width: int | None = None) -> list[tuple[int, int]]:
        """Return the blocks of pivots for n rows as ranges, which all have the given ``width`` unless it is None."""
        widest = width or _lookup(self.pivots, n)
        current, start, blocks = width or min(_lookup(self.first_widths, n), widest), 0, []
        while start < n:
            blocks.append((start, min(n, start + current)))
            start, current = start + current, min(2 * current, widest)
        return blocks

    def min_stack(self, n: int) -> int:
        """Return the least number of matrices of n rows that a stack closes together, not one after the other."""
        return _lookup(self.stacks, n)

    def method(self, n: int, is_selective: bool = False) -> str:
        """Return the method for n rows; ``is_selective`` means that ⊕ and ⊗ only select."""
        return _lookup(self.selective_methods if is_selective and self.selective_methods else self.methods, n)


T = TypeVar("T")


def _lookup(table: tuple[tuple[int, T], ...], n: int) -> T:
    """Return the value of the last row of a table, in ascending order, that begins at n or before."""
    value = table[0][1]
    for start, each in table:
        if start > n:
            break
        value = each
    return value


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
        first_widths=((0, 256), (7168, 512)),
        max_whole_matrix_rows=512,
        triangle=512,
        selective_methods=((0, "staged"), (4097, BLOCKED)),
        stacks=((0, 2), (897, 3), (1537, 4), (2049, _NEVER)),
    ),
}
_TABLE["cuda, 8 bytes"] = replace(
    _TABLE["cuda"],
    pivots=((0, 256), (6144, 512), (12288, 1024)),
    first_widths=((0, 256),),
    methods=((0, "staged"), (3329, BLOCKED)),
    max_whole_matrix_rows=256,
    stacks=((0, 2), (3329, _NEVER)),
)
_TABLE["cuda, 2 bytes"] = replace(
    _TABLE["cuda"],
    pivots=((0, 256), (2048, 512), (12288, 1024)),
    first_widths=((0, 256),),
    methods=((0, "staged"), (2048, BLOCKED)),
    selective_methods=((0, "staged"), (1409, BLOCKED)),
    stacks=((0, 2), (897, 3), (1537, _NEVER)),
)
# This row is for uint8. Truth values also take one byte each, but closures pack them into bits.
_TABLE["cuda, 1 bytes"] = replace(
    _TABLE["cuda, 2 bytes"], selective_methods=(), stacks=((0, 2), (897, 3), (1025, _NEVER))
)


# A pivot takes and rounds a logarithm for each entry, a product only one for each entry of its result. At 192 rows
# products are four times as fast, and have a fifth of the error (docs/benchmarks/thresholds.md).
_TABLE["cpu, exponentials"] = replace(_TABLE["cpu"], leaf=32)
# `close_block` looks up sums of 64 pivots in tables. On one thread it takes half of the time of products and smaller
# blocks. Two threads share only products of more than 1024 rows (docs/benchmarks/thresholds.md).
_TABLE["cpu, bits"] = replace(_TABLE["cpu"], leaf=2048, methods=((0, "rkleene"),))
# Bits on the tensor cores: blocks of up to 4096 rows are squared, and products need k = 4096 for their full rate, as
# docs/benchmarks/thresholds.md shows.
_TABLE["cuda, bits"] = replace(
    _TABLE["cuda, 1 bytes"],
    pivots=((0, 4096),),
    first_widths=((0, _NEVER),),
    methods=((0, "rkleene"), (8193, BLOCKED)),
    max_whole_matrix_rows=4096,
)


def schedule_for(backend: str, dtype: Any, storage: str = "elements", semiring: Semiring | None = None) -> Schedule:
    """Return the schedule of a backend and a dtype, whose leaf also depends on the semiring unless it is None."""
    form = "bits" if storage == "bits" else f"{dtype.itemsize} bytes"
    if semiring is not None and adds_exponentials(semiring) and f"{backend}, exponentials" in _TABLE:
        form = "exponentials"
    return _TABLE.get(f"{backend}, {form}", _TABLE.get(backend, _TABLE["reference"]))


def dense_operations(n: int, itemsize: float) -> float:
    """Predict the cost of a dense closure, in its own float64 pairs.

    The cost includes n³ pairs, the passes over the matrix, and the call.
    """
    return n**3 * itemsize / 8 + 250 * n * n + 1e6


def search_operations(n: int, edges: int, sources: int | None = None, share: float = 1.0) -> float:
    """Predict the cost of Dijkstra's algorithm, in float64 pairs of a dense closure.

    The algorithm runs from ``sources`` vertices, by default from all. Each source reaches a ``share`` of all vertices
    on average. A reached vertex passes through a queue of log n levels, and so does an edge that improves a vertex. The
    number of such edges grows like the logarithm of the mean degree. Every distance is written.
    docs/benchmarks/thresholds.md lists the graphs on which the formula was fitted.
    """
    mean_degree, reached = edges / max(1, n), share * n
    settled = reached * (log2(reached + 2) * (48 + 52 * log1p(mean_degree)) + 18 * mean_degree)
    return (n if sources is None else sources) * (36 * n + settled) + 1e7


def analysis_operations(n: int, edges: int, width: int = 0) -> float:
    """Predict the cost of an elimination order and the least cost of the numeric factorization, in dense pairs.

    ``width`` is the number of vertices of the widest level of a search (`sparse.symbolic_factor.widest_level`).
    """
    return 5e7 + 25_000.0 * (n + edges) + float(width) ** 3


def factor_operations(n: int, pairs: float) -> float:
    """Predict the cost of the numeric factorization of a graph, whose symbolic analysis has counted the ``pairs``.

    The unit is a pair of a dense closure. Most fronts of a factor are small, so a pair costs more there.
    """
    return 40_000.0 * n + 12 * pairs


def sweep_operations(n: int, numbers: int, sources: int, targets: int | None = None) -> float:
    """Predict the cost of solving with a factor of ``numbers`` entries for the rows of some ``sources``.

    With a number of ``targets``, only the entries of these columns are computed.
    """
    if targets is None:
        return sources * (10.0 * numbers + 60 * n)
    return (sources + targets) * 2.0 * numbers + 200.0 * sources * targets
