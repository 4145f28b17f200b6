"""Blocked Floyd-Warshall on strips of rows that are read and written while others are worked on.

Sources: A. Buluç, J. R. Gilbert, C. Budak, Parallel Computing 36 (2010), section 5, for panels through a small memory;
G. J. Katz, J. T. Kider, Graphics Hardware 2008, for graphs larger than a device.

With K₁ … Kₘ the blocks of a round, one after the other in rows a … b - 1::

    panel   for k = 1 … m:  its rows ⊕= those of K₁ … Kₖ₋₁, as `eliminate` does;  close Kₖ and its rows
    strips  for each strip R:  for k = 1 … m:  R's rows before Kₖ, and from b on, ⊕= those of Kₖ

So the panel holds each block *as it stood at its own time*: closed, and with no later block in it. A strip meets the
blocks one after the other in one visit; rows of the panel are strips too, which have met the blocks up to their own in
the panel, and meet the later ones in their visit. Every entry meets every pivot in the order that it has in memory, by
the same products: equal bits, whatever the memory, the strips and the rounds. (A product with a single row may be
summed in another order than one with more. So a row that is alone here and is not in memory is multiplied as one of
two.)

Strips are visited in turns from the first to the last and back, so that those that were written last are read first.
Of several ranks each takes its own strips through all rounds, so that it reads what it has written; the first closes
the panels, which travel to the others. A `WriteListener` receives each write, and a run that was stopped goes on where
it says (`semiring.out_of_core.journal`). One thread reads and one writes; each strip's memory is read, worked on,
written, and read again. It is where the kernels are (`semiring.out_of_core.buffer_pools`): on a GPU the thread between
the two only enqueues. Cost: n³ pairs, and the bytes of `layout.bytes_moved`; memory `StripLayout.memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from semiring.algorithms.blocked_floyd_warshall import Elimination, Rows
from semiring.distributed.transports import ALONE, Team, agreed
from semiring.kernels.contract import Mark
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.out_of_core.buffer_pools import Room
from semiring.out_of_core.disk import Place, RowsWithPivots, values_of
from semiring.out_of_core.journal import Summed, TracedSums, summed
from semiring.out_of_core.last_round import NOTHING, LastRound
from semiring.out_of_core.layout import BUFFERS, StripLayout

__all__ = ["Closing", "NoStarError", "Pass", "Progress", "WriteListener"]

Array: TypeAlias = Any
Range: TypeAlias = tuple[int, int]
Progress: TypeAlias = Callable[[int, int], None]  # of the pairs done and all of them
Pass: TypeAlias = Callable[[int, Array], None]  # of the number of the first row and some rows, which change in place
Wait: TypeAlias = Callable[[], object]  # for something that comes before


class NoStarError(Exception):
    """The pivot of a vertex has no star."""

    def __init__(self, vertex: int) -> None:
        super().__init__(vertex)
        self.vertex = vertex


class WriteListener(Protocol):
    """Receives an event after each write, in the thread that writes; an exception that it raises stops the run."""

    @property
    def begun(self) -> tuple[int, bool, int]:
        """The round to begin with, whether its panel was kept, and how many of its strips are done."""
        ...

    def panel(self, phase: Any) -> Summed | TracedSums:
        """The place where the panel of a round is kept, its rows counted from 0. ``phase``: of its first row."""
        ...

    def check_panel(self, panel: Summed | TracedSums) -> None:
        """The panel that was kept has been read."""
        ...

    def keep_panel(self, panel: Summed | TracedSums) -> None:
        """The panel of a round was written to its place: from now on strips of it may be."""
        ...

    def before(self, which: int) -> None:
        """A strip is about to be written."""
        ...

    def after(self, which: int, checksum: int) -> None:
        """A strip was written."""
        ...

    def end_round(self) -> None:
        """All strips of this rank were written in a round."""
        ...


class _AtHand(Rows):
    """The rows of a panel, and those that a task works on: what `Elimination` asks for."""

    def __init__(self) -> None:
        self.panel: Array = None
        self.first_of_panel = 0
        self.rows: Array = None
        self.first = 0

    def strip(self, rows: Range) -> tuple[Array, Array | None]:
        found = self.rows[rows[0] - self.first : rows[1] - self.first]
        return (found.values, found.pivots) if isinstance(found, RowsWithPivots) else (found, None)

    def pivots(self, pivots: Range) -> Array:
        return values_of(self.panel)[pivots[0] - self.first_of_panel : pivots[1] - self.first_of_panel]


@dataclass
class Closing:
    """The closure of the matrix in ``places[0]``, in ``places[-1]``.

    ``places``: where the rows are before each round, and after the last; the same one may stand several times.
    ``descending``: whether a round goes from the last strip to the first.
    ``encode`` makes of rows as they are read first what kernels take, and ``decode`` undoes it before they are written
    last.
    """

    engine: Engine
    layout: StripLayout
    room: Room
    places: Sequence[Place]
    descending: Sequence[bool]
    encode: Pass
    decode: Pass
    progress: Progress | None = None
    log: WriteListener | None = None
    last: LastRound = NOTHING
    team: Team = ALONE

    def run(self) -> None:
        """Close it.

        Raises `NoStarError`, `OSError`, and what encode, decode and progress raise; what was written is then
        undefined, but for a log.
        """
        try:
            self._begin_all()
            self._all_rounds()
        finally:
            self._end()

    def _begin_all(self) -> None:
        layout, room = self.layout, self.room
        self._strips, self._hand = layout.strips, _AtHand()
        speed = closure_speed(self.engine.backend.name, self.engine.plan.dtype)
        if sum(map(len, layout.rounds)) > 1 and self.engine.lanes() is not None:
            self.engine = self.engine.lane(0)  # a block is closed as it is in memory: beside products
        self._elimination = Elimination(self._hand, layout.n, 0, speed.strip)
        self._reader, self._writer = ThreadPoolExecutor(1, "reader"), ThreadPoolExecutor(1, "writer")
        tallest = max((stop - start for start, stop in self._strips), default=0)
        self._buffers = [room.memory(tallest) for _ in range(BUFFERS)]
        self._panel, self._pair = room.memory(layout.panel), room.memory(2).at(self.places[0].phase(0), 2)
        self.engine.reserve(layout.workspace // layout.entry)
        self._freed: list[Future[None] | None] = [None] * BUFFERS  # the last write of each
        self._written: dict[int, Future[None]] = {}  # the last write of each strip
        self._kept: Future[None] | None = None  # the panel, by the log
        self._ended: Future[None] | None = None  # the last round, of all ranks
        self._visits = self._done = 0
        self._error: BaseException | None = None  # of the thread that writes, which then does nothing more

    def _all_rounds(self) -> None:
        first = 0 if self.log is None else self.log.begun[0]
        for number in range(len(self.layout.rounds)):
            if number < first:
                self._done += self.layout.n**2 * _width(self.layout.rounds[number])
            else:
                self._round(number)
        self._in_writer(lambda: None).result()
        for write in self._written.values():
            write.result()

    def _end(self) -> None:
        """Let go of the threads; what waits in them is not done."""
        self._error = self._error or CancelledError()
        for thread in (self._reader, self._writer):
            thread.shutdown(wait=True, cancel_futures=True)

    def _in_writer(self, task: Callable[[], None]) -> Future[None]:
        """Have the thread that writes do something, unless something before it has failed."""

        def unless_broken() -> None:
            if self._error is not None:
                raise self._error
            try:
                task()
            except BaseException as error:
                self._error = error
                raise

        return self._writer.submit(unless_broken)

    def _round(self, number: int) -> None:
        """One round."""
        blocks, count, log = self.layout.rounds[number], len(self._strips), self.log
        order = list(range(count))
        if self.descending[number]:
            order.reverse()
        kept, done = False, 0
        if log is not None and log.begun[0] == number:
            _, kept, done = log.begun
        panel = (blocks[0][0], blocks[-1][1]) if blocks else (0, 0)
        panel_is_read = self._begin_panel(number, blocks, panel, kept)
        if self._is_last(number) and not kept and self.team.is_first:
            self._find_last(number)
        ranks = self.team.ranks
        own = [which for which in order[done:] if which % ranks.size == ranks.rank]
        reads = [self._begin(number, which, panel) for which in own[: BUFFERS - 1]]
        if kept:
            panel_is_read[0].result()
        else:
            self._make_panel(number, blocks, panel, panel_is_read)
        if kept or not self.team.is_first:
            self._done += sum(_width([K]) * self.layout.n * _width(blocks[: k + 1]) for k, K in enumerate(blocks))
        for place, which in enumerate(order):
            if place < done or which % ranks.size != ranks.rank:
                self._done += self._pairs(number, which)
                continue
            if own[BUFFERS - 1 :]:
                reads.append(self._begin(number, own[BUFFERS - 1], panel))
            self._visit(number, own.pop(0), *reads.pop(0))
        if log is not None:
            self._ended = self._in_writer(log.end_round)

    def _begin_panel(self, number: int, blocks: Sequence[Range], panel: Range, kept: bool) -> list[Future[Any]]:
        """Read the rows of a panel block by block, or as a whole what the log has kept of it."""
        hand, phase = self._hand, self.places[number].phase(panel[0])
        if self._kept is not None:
            self._kept.result()  # the log may still read the panel before
        rows = self.layout.last if self._is_last(number) else panel[1] - panel[0]
        hand.panel, hand.first_of_panel = self._panel.at(phase, rows), panel[0]
        done = self.room.mark().synchronize  # the work that reads the panel before
        if kept:
            return [self._reader.submit(self._read_kept, hand.panel, phase, done)]
        written = [(write.result, self._strips[which]) for which, write in self._written.items()]
        found: list[Future[Any]] = []
        if not self.team.is_first:
            return found
        if self.team.ranks.size > 1 and self._ended is not None:
            self._ended.result()
        for start, stop in blocks:
            before = [done, *(wait for wait, rows in written if _meet(rows, (start, stop)))]
            block = hand.panel[start - panel[0] : stop - panel[0]]
            found.append(self._reader.submit(self._read, self.places[number], start, block, before))
        return found

    def _is_last(self, number: int) -> bool:
        """Whether a round only puts in what `LastRound` has found."""
        return self.layout.last > 0 and number == len(self.layout.rounds) - 1

    def _make_panel(self, number: int, blocks: Sequence[Range], panel: Range, read: Sequence[Future[Any]]) -> None:
        """The panel of a round, which the first of several ranks closes, on all of them; the log keeps it."""
        error = None
        if self.team.is_first:
            try:
                self._close_panel(number, blocks, panel, read)
            except NoStarError as found:
                error = found
        if self.team.ranks.size > 1:
            self._in_writer(partial(self._share, self._hand.panel, error)).result()
        if error is not None:
            raise error
        if self.log is not None:
            phase = self.places[number].phase(panel[0])
            self._kept = self._in_writer(partial(self._keep, self._hand.panel, phase, self.room.mark()))

    def _share(self, panel: Array, error: NoStarError | None) -> None:
        """In the thread that writes."""

        def closed() -> None:
            if error is not None:
                raise error

        agreed(self.team.ranks, closed)
        self.team.ranks.broadcast(panel, 0)

    def _find_last(self, number: int) -> None:
        """The panel of that round. Nobody else reads or writes meanwhile."""
        self._in_writer(lambda: None).result()
        tallest = max(stop - start for start, stop in self._strips)
        memory = self._panel.at(0, self.layout.panel), self._buffers[0].at(0, tallest)
        self.last.find(self.engine.plan, self.room, self.places[number], self._hand.panel, memory)

    def _read_kept(self, panel: Array, phase: Any, before: Wait) -> None:
        """In the thread that reads."""
        before()
        assert self.log is not None
        place = self.log.panel(phase)
        self.room.read(place, 0, panel)
        self.log.check_panel(place)

    def _close_panel(self, number: int, blocks: Sequence[Range], panel: Range, read: Sequence[Future[Any]]) -> None:
        """The rows of each block as they stand when it is closed."""
        hand, status = self._hand, self.engine.plan.status
        for k, K in enumerate(blocks):
            read[k].result()
            if number == 0:
                self.encode(K[0], values_of(hand.panel)[K[0] - panel[0] : K[1] - panel[0]])
            hand.rows, hand.first = hand.panel, hand.first_of_panel
            for J in blocks[:k]:
                self._eliminate(J, K)
            self._elimination.close_rows(self.engine, K)
            if status.word is None and status.diverged >= 0:
                raise NoStarError(status.diverged)
            self._count(K, K)
        if status.read() >= 0:  # a device is asked once, before a strip is written
            raise NoStarError(status.diverged)

    def _keep(self, panel: Array, phase: Any, after: Mark) -> None:
        """In the thread that writes."""
        after.synchronize()
        assert self.log is not None
        place = self.log.panel(phase)
        if self.team.is_first:
            self.room.write(place, 0, panel)
        self.log.keep_panel(place)

    def _begin(self, number: int, which: int, panel: Range) -> tuple[Future[Array], int]:
        """Read a strip, as soon as memory is free, and what was written to it before is there. Which memory it is."""
        (start, stop), buffer = self._strips[which], self._visits % BUFFERS
        self._visits += 1
        memory = self._buffers[buffer].at(self.places[number + 1].phase(start), stop - start)
        before = [write.result for write in (self._freed[buffer], self._written.get(which)) if write is not None]
        place = None if panel[0] <= start < stop <= panel[1] else self.places[number]
        return self._reader.submit(self._read, place, start, memory, before), buffer

    def _read(self, place: Place | None, first: int, memory: Array, before: Sequence[Wait]) -> Array:
        """In the thread that reads."""
        for wait in before:
            wait()
        if place is not None:
            self.room.read(place, first, memory)
        return memory

    def _visit(self, number: int, which: int, reading: Future[Array], buffer: int) -> None:
        """One strip through all blocks of a round, and on its way to its place."""
        strip = reading.result()
        (start, stop), hand, blocks = self._strips[which], self._hand, self.layout.rounds[number]
        first, last = (blocks[0][0], blocks[-1][1]) if blocks else (0, 0)
        if number == 0 and not first <= start <= stop <= last:
            self.encode(start, values_of(strip))
        low, high = max(start, first), min(stop, last)
        if low < high:
            strip[low - start : high - start] = hand.panel[low - first : high - first]
        for K in blocks:
            hand.rows, hand.first = strip, start
            self._eliminate(K, (start, min(stop, K[0])))
            self._eliminate(K, (max(start, last), stop))
        if self._is_last(number):
            self.last.put(hand.panel, start, strip, self.layout.packed)
        if number == len(self.layout.rounds) - 1:
            self.decode(start, values_of(strip))
        write = partial(self._write, number, which, strip, self.room.mark())
        self._written[which] = self._freed[buffer] = self._in_writer(write)

    def _write(self, number: int, which: int, strip: Array, after: Mark) -> None:
        """In the thread that writes."""
        after.synchronize()
        log, rows, place = self.log, self._strips[which], self.places[number + 1]
        if log is None:
            self.room.write(place, rows[0], strip)
        else:
            log.before(which)
            kept = summed(place)
            self.room.write(kept, rows[0], strip)
            log.after(which, kept.sum)

    def _pairs(self, number: int, which: int) -> int:
        """Of the visit of a strip."""
        (start, stop), blocks = self._strips[which], self.layout.rounds[number]
        beyond = blocks[-1][1] if blocks else 0
        rows = [max(0, min(stop, K[0]) - start) + max(0, stop - max(start, beyond)) for K in blocks]
        return sum(_width([K]) * many for K, many in zip(blocks, rows, strict=True)) * self.layout.n

    def _eliminate(self, pivots: Range, rows: Range) -> None:
        start, stop = rows
        if start >= stop:
            return
        hand, n = self._hand, self.layout.n
        alone = (stop == n and pivots[1] == n - 1) or (start == 0 and pivots[0] == 1)  # in memory too
        if stop - start > 1 or alone:
            self._elimination.eliminate(self.engine, pivots, rows, (0, n))
        else:
            row, before = hand.rows[start - hand.first], (hand.rows, hand.first)
            self._pair[:] = row
            hand.rows, hand.first = self._pair, start
            self._elimination.eliminate(self.engine, pivots, (start, start + 2), (0, n))
            row[:] = self._pair[0]
            hand.rows, hand.first = before
        self._count(pivots, rows)

    def _count(self, pivots: Range, rows: Range) -> None:
        n = self.layout.n
        self._done += (pivots[1] - pivots[0]) * (rows[1] - rows[0]) * n
        if self.progress is not None:
            self.progress(self._done, n**3)


def _width(blocks: Sequence[Range]) -> int:
    """Pivots of some blocks."""
    return sum(stop - start for start, stop in blocks)


def _meet(one: Range, other: Range) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])
