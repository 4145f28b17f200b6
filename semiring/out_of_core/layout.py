"""How a closure is cut into strips and rounds, so that it fits a memory.

A *round* closes one panel of pivot blocks and takes every strip through it: read, eliminate one block after the other,
write. The blocks are those of the schedule, whatever the memory: a wider panel is several of them, and only saves
passes over the file.

Bytes: a strip is read and written once a round, ``2 · n² · itemsize · rounds`` (`bytes_moved`); rows of the panel are
read once, as the panel. So memory that strips do not need goes to the panel. Pairs are n³, so that a round of a
panel of p rows computes n² p while it moves 2 n²: with F pairs and D bytes a second files cost no time from
p ≈ 2 · itemsize · F / D rows on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from semiring.advice import option
from semiring.arrays import memory as system
from semiring.arrays.bits import WORD_BITS
from semiring.arrays.memory import bytes_of, shown
from semiring.errors import StorageError
from semiring.kernels.engine import cut
from semiring.out_of_core.disk import PAGE

__all__ = [
    "BUFFERS",
    "DEVICE",
    "HOST",
    "Costs",
    "MemoryLimits",
    "Range",
    "StripLayout",
    "bytes_moved",
    "bytes_of",
    "free_memory",
    "layout_for",
    "limits_of",
    "shown",
]

Range: TypeAlias = tuple[int, int]

BUFFERS = 3  # strips in memory: one that is read, one that is worked on, one that is written
_VECTORS = 16 * 8  # bytes for each row: vectors of n


@dataclass(frozen=True)
class Costs:
    """What decides how a closure is cut, beside the memory."""

    rows: tuple[int, ...]  # that a strip may have
    fewest: int  # where the memory= has no room for more
    beside: int  # bytes: temporaries of looks and maps
    strips: float  # a strip of r rows takes 1 + strips / r times as long as its share of a large product
    rounds: float  # a panel of p rows costs rounds · itemsize / p more for what is moved
    thread: int = 0  # bytes that products copy in each thread
    of_bits: int = 0  # and those of bits, which make tables

    def copied(self, storage: str) -> int:
        """Bytes that products of elements, or of bits, copy in each thread."""
        return self.of_bits if storage == "bits" else self.thread


#: Granite Rapids, two cores, 2026-11-22, float32, n = 6144, strips copied from memory to memory in blocks of 768:
#: strips of 64, 128, 256, 512 and 1024 rows took 1.29, 1.17, 1.12, 1.09 and 1.06 times as long as in memory with two
#: blocks in a panel, and 1.33, 1.20, 1.16, 1.18 and 1.13 with one. Slower disks take more. What is beside: some pieces
#: of 2¹⁵ entries or of a row, and Python's own objects.
HOST = Costs((32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024), 16, 1 << 20, 15.0, 20.0, 1 << 20, 5 << 19)
#: A product of few rows fills the last wave of blocks in part; a round begins when the one before has been written and
#: its first block read, and ordinary memory of the host moves at half the rate of the link. Maps are done to 2²¹
#: entries at a time, of which there are some copies of 8 bytes.
DEVICE = Costs((128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096), 128, 96 << 20, 30.0, 60.0)


@dataclass(frozen=True)
class StripLayout:
    """The strips and rounds of one closure."""

    n: int
    itemsize: int
    rounds: tuple[tuple[Range, ...], ...]  # the pivot blocks of each
    rows: int  # of a strip
    workspace: int  # bytes of the copies that products need
    beside: int = 0  # bytes of what is small
    piece: int = 1 << 30  # rows that are moved at a time
    shift: int = 0  # rows by which a file with a journal moves, there and back
    last: int = 0  # rows of the panel of a round without pivots, which comes last (`LastRound`); 0 where there is none
    packed: bool = False  # whether truth values are worked on 32 to a word
    pivots: int = 0  # bytes of the pivot that is kept of an entry, in a file of its own; 0 where none is

    @property
    def strips(self) -> list[Range]:
        """The rows of each strip."""
        return [(rows.start, rows.stop) for rows in cut(0, self.n, self.rows)]

    @property
    def entry(self) -> int:
        """Bytes of an entry, or word, where strips are worked on."""
        return 4 if self.packed else self.itemsize

    @property
    def row(self) -> int:
        """Bytes of a row there."""
        return (self.entry + self.pivots) * self.width

    @property
    def width(self) -> int:
        """Entries, or words, of a row there."""
        return -(-self.n // WORD_BITS) if self.packed else self.n

    @property
    def panel(self) -> int:
        """Rows of the widest panel."""
        return max([self.last, *(blocks[-1][1] - blocks[0][0] for blocks in self.rounds if blocks)])

    @property
    def memory(self) -> int:
        """Bytes of all that is allocated."""
        # One row more a strip, for `cut`, two for a row that is eliminated as one of two; a page more each, for
        # alignment.
        strips = BUFFERS * ((self.rows + 1) * self.row + PAGE) + 2 * self.row
        return self.panel * self.row + PAGE + strips + _VECTORS * self.n + self.workspace + self.beside

    @property
    def moved(self) -> int:
        """Bytes that are read and written."""
        return bytes_moved(self.n, self.itemsize + self.pivots, len(self.rounds), self.shift > 0, self.last % 2 > 0)

    def ending(self, rows: int) -> StripLayout:
        """The layout with a last round whose panel has so many rows, if any; it has none yet, or another."""
        rounds = self.rounds[:-1] if self.last else self.rounds
        return replace(self, rounds=(*rounds, ()) if rows else rounds, last=rows)

    def loss(self, costs: Costs, ranks: int = 1) -> float:
        """What it loses, about, as a part of the time of the closure in memory.

        Of several ranks all but one wait while a panel is closed, and some for those that have a strip more.
        """
        count, n = max(1, len(self.strips)), max(1, self.n)
        waits = (ranks - 1) * self.panel / n + -(-count // ranks) * ranks / count - 1
        moved = costs.rounds * (self.itemsize + self.pivots) * len(self.rounds) / n
        return costs.strips / self.rows + moved + waits

    def about(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        return asdict(self)

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> StripLayout:
        """What `about` gave."""
        rounds = tuple(tuple((start, stop) for start, stop in blocks) for blocks in about["rounds"])
        return cls(**{**about, "rounds": rounds})


def bytes_moved(n: int, itemsize: int, rounds: int, journal: bool = False, cycles: bool = False) -> int:
    """What a closure of n vertices by strips reads and writes, together, in so many rounds.

    With a journal all panels are logged, and the input is read once for its checksums: n² entries each. For the
    ``cycles`` of A⁺ 3/2 · n² are read.
    """
    return n * n * itemsize * (4 * (rounds + journal) + 3 * cycles) // 2


def layout_for(
    n: int,
    itemsize: int,
    blocks: Sequence[Range],
    workspace: Callable[[int], int],
    memory: int,
    costs: Costs,
    packed: bool = False,
    ranks: int = 1,
    pivots: int = 0,
) -> StripLayout | int:
    """The layout with the least `StripLayout.loss` in so many bytes of memory; if none fits, the bytes it would take.

    ``workspace(rows)``: bytes of the copies that products with strips of so many rows need.
    """
    heights = sorted({min(n, max(rows, costs.fewest)) for rows in (*costs.rows, costs.fewest)}, reverse=True)
    alone = tuple((block,) for block in blocks)
    kept = {"beside": costs.beside, "packed": packed, "pivots": pivots}
    least = [StripLayout(n, itemsize, alone, rows, workspace(rows), **kept) for rows in heights]  # type: ignore[arg-type]
    # One rank alone takes as many blocks at a time as there is room for.
    most = [len(blocks)] if ranks == 1 else [count for count in (1, 2, 3, 4, 6, 8, 12, 16) if count <= len(blocks)]
    fit = [_wider(layout, memory, count) for layout in least if layout.memory <= memory for count in most]
    return min(fit, key=lambda layout: layout.loss(costs, ranks)) if fit else least[-1].memory


def _wider(least: StripLayout, memory: int, most: int) -> StripLayout:
    """The layout with as many blocks in a round as the memory holds, and no more than allowed."""
    rounds: list[tuple[Range, ...]] = []
    for (block,) in least.rounds:
        wider = (*rounds[-1], block) if rounds else (block,)
        if rounds and len(wider) <= most and replace(least, rounds=(wider,)).memory <= memory:
            rounds[-1] = wider
        else:
            rounds.append((block,))
    return replace(least, rounds=tuple(rounds))


class MemoryLimits(NamedTuple):
    """Bytes that a closure may take: of the host's memory, and of a GPU's where one computes."""

    host: int
    device: int = 0

    @property
    def computing(self) -> int:
        """Where kernels work."""
        return self.device or self.host


def limits_of(memory: Any, free_on_device: Callable[[], int] | None = None) -> MemoryLimits:
    """What the caller allows, else what is free: a size, of the memory that computes, or a dict of ``"device"`` and
    ``"host"``. ``free_on_device``: where a GPU computes. Raises `StorageError`.
    """
    computing = "host" if free_on_device is None else "device"
    given = memory if isinstance(memory, Mapping) else {} if memory is None else {computing: memory}
    wrong = set(given) - {"host", computing}
    if wrong:
        known = "'host'" if free_on_device is None else "'device' and 'host'"
        raise StorageError(
            f"memory= has the keys {', '.join(map(repr, sorted(map(str, wrong))))}: here its keys are {known}"
        )
    host = bytes_of(given["host"]) if "host" in given else free_memory()
    if free_on_device is None:
        return MemoryLimits(host)
    return MemoryLimits(host, bytes_of(given["device"]) if "device" in given else free_on_device())


def free_memory() -> int:
    """What `semiring.arrays.memory` tells. Raises `StorageError` where the system does not."""
    free = system.free_memory()
    if free is None:
        raise StorageError(f"the free memory of this system is unknown: pass {option('memory', '8 GiB')}")
    return free
