"""Define the layout of a closure by strips: how the rows are cut into strips and rounds that fit a memory.

A *round* closes one panel of pivot blocks and eliminates them from every strip. It reads the strip, eliminates one
block after the other, and writes the strip. The schedule determines the blocks, independently of the memory. A wider
panel has several blocks, and only saves passes over the file.

Traffic: each strip is read and written once in a round, ``2 · n² · itemsize · rounds`` bytes (`bytes_moved`). The rows
of the panel are read once, as the panel. So memory that the strips do not need goes to the panel.

A round of a panel of p rows computes n² p of the n³ pairs, and moves 2 n² entries. At F pairs and D bytes a second,
the transfers cost no time for p ≥ 2 · itemsize · F / D rows, approximately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from semiring.advice import option
from semiring.arrays import memory as system
from semiring.arrays.bits import WORD_BITS
from semiring.arrays.memory import format_bytes, parse_bytes
from semiring.errors import StorageError
from semiring.kernels.engine import split_range
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
    "format_bytes",
    "free_memory",
    "layout_for",
    "limits_of",
    "parse_bytes",
]

Range: TypeAlias = tuple[int, int]

BUFFERS = 3  # the strips in memory: one is read, one is computed, and one is written
_VECTOR_BYTES = 16 * 8  # the bytes of all vectors of length n together, for each row


@dataclass(frozen=True)
class Costs:
    """The cost model by which `layout_for` cuts a closure, and the memory that kernels need beside the strips.

    Attributes
    ----------
    rows
        The numbers of rows that a strip may have.
    min_rows
        The rows of a strip if the memory has no room for more.
    overhead
        The bytes of temporaries of scans and maps.
    strips
        A strip of r rows takes 1 + strips / r times as long as its share of a large product.
    rounds
        The transfers of a panel of p rows add a fraction rounds · itemsize / p to the time.
    bytes_per_thread
        The bytes that products copy in each thread.
    bit_bytes_per_thread
        The bytes that products of bits copy in each thread, with their tables.
    """

    rows: tuple[int, ...]
    min_rows: int
    overhead: int
    strips: float
    rounds: float
    bytes_per_thread: int = 0
    bit_bytes_per_thread: int = 0

    def thread_bytes(self, storage: str) -> int:
        """Return the bytes that products of ``"elements"`` or ``"bits"`` copy in each thread."""
        return self.bit_bytes_per_thread if storage == "bits" else self.bytes_per_thread


#: Granite Rapids, two cores, 2026-11-22, float32, n = 6144, strips copied from memory to memory in blocks of 768:
#: strips of 64, 128, 256, 512 and 1024 rows took 1.29, 1.17, 1.12, 1.09 and 1.06 times as long as in memory with two
#: blocks in a panel, and 1.33, 1.20, 1.16, 1.18 and 1.13 with one. Slower disks take more. The overhead holds some
#: pieces of 2¹⁵ entries or of a row, and Python's own objects.
HOST = Costs((32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024), 16, 1 << 20, 15.0, 20.0, 1 << 20, 5 << 19)
#: A product of few rows fills only part of the last wave of thread blocks. A round begins when the previous round has
#: been written and its first block has been read. Ordinary memory of the host transfers at half the rate of the link.
#: Maps process 2²¹ entries at a time, and hold some copies of 8 bytes of each.
DEVICE = Costs((128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096), 128, 96 << 20, 30.0, 60.0)


@dataclass(frozen=True)
class StripLayout:
    """The strips and rounds of one closure.

    Attributes
    ----------
    n, itemsize
        The vertices of the matrix, and the bytes of an entry in the file.
    rounds
        The pivot blocks of each round.
    rows
        The rows of a strip.
    workspace, overhead
        The bytes of the copies that products need, and of small temporaries.
    piece
        The rows that one transfer moves.
    shift
        The rows by which rounds with a journal shift the matrix. It is 0 without a journal.
    last
        The rows of the panel of a last round without pivots (`LastRound`): 1, or 0 without such a round.
    packed
        Whether kernels compute truth values as words of 32.
    """

    n: int
    itemsize: int
    rounds: tuple[tuple[Range, ...], ...]
    rows: int
    workspace: int
    overhead: int = 0
    piece: int = 1 << 30
    shift: int = 0
    last: int = 0
    packed: bool = False

    @property
    def strips(self) -> list[Range]:
        """The range of rows of each strip."""
        return [(rows.start, rows.stop) for rows in split_range(0, self.n, self.rows)]

    @property
    def entry_bytes(self) -> int:
        """The bytes of an entry, or of a word of truth values, in the memory of the kernels."""
        return 4 if self.packed else self.itemsize

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, in the memory of the kernels."""
        return self.entry_bytes * self.width

    @property
    def width(self) -> int:
        """The entries or words of a row, in the memory of the kernels."""
        return -(-self.n // WORD_BITS) if self.packed else self.n

    @property
    def panel(self) -> int:
        """The rows of the widest panel."""
        return max([self.last, *(blocks[-1][1] - blocks[0][0] for blocks in self.rounds if blocks)])

    @property
    def memory(self) -> int:
        """The bytes of all buffers and temporaries."""
        # `split_range` may add a row to a strip. A row that is eliminated as one of two rows needs two more. Alignment
        # needs a page for each buffer.
        strips = BUFFERS * ((self.rows + 1) * self.row_bytes + PAGE) + 2 * self.row_bytes
        return self.panel * self.row_bytes + PAGE + strips + _VECTOR_BYTES * self.n + self.workspace + self.overhead

    @property
    def traffic(self) -> int:
        """The bytes that the closure reads and writes."""
        return bytes_moved(self.n, self.itemsize, len(self.rounds), self.shift > 0, self.last > 0)

    def with_last_round(self, has_last_round: bool) -> StripLayout:
        """Return the layout with a last round, or without one."""
        rounds = self.rounds[:-1] if self.last else self.rounds
        return replace(self, rounds=(*rounds, ()) if has_last_round else rounds, last=int(has_last_round))

    def loss(self, costs: Costs, ranks: int = 1) -> float:
        """Return the estimated additional time, as a fraction of the time of the closure in memory.

        With several ranks, all but one wait while a panel is closed, and ranks with fewer strips wait for the others.
        """
        count, n = max(1, len(self.strips)), max(1, self.n)
        waits = (ranks - 1) * self.panel / n + -(-count // ranks) * ranks / count - 1
        transfers = costs.rounds * self.itemsize * len(self.rounds) / n
        return costs.strips / self.rows + transfers + waits

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON, with the names that journals store."""
        about = asdict(self)
        about[_OVERHEAD_IN_JOURNALS] = about.pop("overhead")
        return about

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> StripLayout:
        """Return the layout that `to_json` has converted."""
        fields = dict(about)
        fields["overhead"] = fields.pop(_OVERHEAD_IN_JOURNALS)
        fields["rounds"] = tuple(tuple((start, stop) for start, stop in blocks) for blocks in about["rounds"])
        return cls(**fields)


_OVERHEAD_IN_JOURNALS = "beside"  # the name of `StripLayout.overhead` in journals of earlier versions, too


def bytes_moved(n: int, itemsize: int, rounds: int, journal: bool = False, cycles: bool = False) -> int:
    """Return the bytes that a closure of n vertices by strips reads and writes in a number of rounds.

    With a journal the run logs all panels and reads the input once for its checksums, n² entries each. The ``cycles``
    of A⁺ read 3/2 · n² entries.
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
) -> StripLayout | int:
    """Return the layout with the least `StripLayout.loss` that fits the memory.

    Parameters
    ----------
    n, itemsize
        The vertices of the matrix, and the bytes of an entry in the file.
    blocks
        The pivot blocks of the schedule.
    workspace
        ``workspace(rows)`` returns the bytes of the copies that products with strips of ``rows`` rows need.
    memory
        The bytes that the closure may take.
    costs
        The cost model, `HOST` or `DEVICE`.
    packed, ranks
        Whether kernels compute truth values as words, and the number of ranks.

    Returns
    -------
    StripLayout or int
        The layout, or the bytes of the smallest layout if none fits.
    """
    heights = sorted({min(n, max(rows, costs.min_rows)) for rows in (*costs.rows, costs.min_rows)}, reverse=True)
    rounds = tuple((block,) for block in blocks)
    common = {"overhead": costs.overhead, "packed": packed}
    least = [StripLayout(n, itemsize, rounds, rows, workspace(rows), **common) for rows in heights]  # type: ignore[arg-type]
    # A single rank closes as many blocks in a round as fit in the memory.
    most = [len(blocks)] if ranks == 1 else [count for count in (1, 2, 3, 4, 6, 8, 12, 16) if count <= len(blocks)]
    fit = [_widen_rounds(layout, memory, count) for layout in least if layout.memory <= memory for count in most]
    return min(fit, key=lambda layout: layout.loss(costs, ranks)) if fit else least[-1].memory


def _widen_rounds(layout: StripLayout, memory: int, block_limit: int) -> StripLayout:
    """Return the layout with as many blocks in each round as the memory holds, and at most ``block_limit``."""
    rounds: list[tuple[Range, ...]] = []
    for (block,) in layout.rounds:
        wider = (*rounds[-1], block) if rounds else (block,)
        if rounds and len(wider) <= block_limit and replace(layout, rounds=(wider,)).memory <= memory:
            rounds[-1] = wider
        else:
            rounds.append((block,))
    return replace(layout, rounds=tuple(rounds))


class MemoryLimits(NamedTuple):
    """The bytes that a closure may take of the host's memory, and of the memory of the GPU that computes, if any."""

    host: int
    device: int = 0

    @property
    def computing(self) -> int:
        """The bytes of the memory in which the kernels compute."""
        return self.device or self.host


def limits_of(memory: Any, free_on_device: Callable[[], int] | None = None) -> MemoryLimits:
    """Return the memory that the option ``memory=`` allows, and the free memory where it sets no limit.

    ``memory`` is a size for the memory in which the kernels compute, or a dict with the keys ``"host"`` and
    ``"device"``, or None. ``free_on_device()`` returns the free bytes of the GPU that computes, and is None without a
    GPU. Raises `StorageError` for other keys and sizes.
    """
    computing = "host" if free_on_device is None else "device"
    sizes = memory if isinstance(memory, Mapping) else {} if memory is None else {computing: memory}
    wrong = set(sizes) - {"host", computing}
    if wrong:
        keys = "'host'" if free_on_device is None else "'device' and 'host'"
        raise StorageError(
            f"memory= has the keys {', '.join(map(repr, sorted(map(str, wrong))))}: here its keys are {keys}"
        )
    host = parse_bytes(sizes["host"]) if "host" in sizes else free_memory()
    if free_on_device is None:
        return MemoryLimits(host)
    return MemoryLimits(host, parse_bytes(sizes["device"]) if "device" in sizes else free_on_device())


def free_memory() -> int:
    """Return the free bytes of the host's memory, and raise `StorageError` if the system does not report them."""
    free = system.free_memory()
    if free is None:
        raise StorageError(f"the free memory of this system is unknown: pass {option('memory', '8 GiB')}")
    return free
