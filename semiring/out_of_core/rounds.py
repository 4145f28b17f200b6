"""Run blocked Floyd-Warshall on strips of rows, with reads and writes of other strips at the same time.

Sources: A. Buluç, J. R. Gilbert, C. Budak, Parallel Computing 36 (2010), section 4.4, for a version out of core;
G. J. Katz, J. T. Kider, Graphics Hardware 2008, for graphs larger than a device.

With K₁ … Kₘ the blocks of a round, one after the other in rows a … b - 1::

    panel   for k = 1 … m:  eliminate K₁ … Kₖ₋₁ from the rows of Kₖ;  close Kₖ and its rows
    strips  for each strip R:  for k = 1 … m:  eliminate Kₖ from the rows of R before Kₖ, and from b on

So the panel holds each block *at its own step*: closed, and without the products of later blocks. A strip meets the
blocks one after the other in one visit. Rows of the panel belong to strips too. They meet the blocks up to their own in
the panel, and the later blocks in their visit. Every entry meets every pivot in the same order as in memory, by the
same products. So results are bitwise identical for every memory, strip height and number of rounds.

A product with a single row may sum in another order than one with more rows. So a strip part of one row that is not a
single row in memory is multiplied as one of two rows.

Rounds alternate between the order from the first strip to the last and the reverse order. So the strips written last
are read first. With several ranks, each rank takes its own strips through all rounds, and reads only rows that it has
written. The first rank closes the panels and broadcasts them. A `WriteListener` receives each write, and names the
point at which an interrupted run resumes (`semiring.out_of_core.journal`).

One thread reads and one thread writes. The buffer of a strip is read, computed, written, and read again. Buffers are in
the memory of the kernels (`semiring.out_of_core.buffer_pools`). On a GPU the calling thread only enqueues work. Cost:
n³ pairs, the bytes of `layout.bytes_moved`, and the memory `StripLayout.memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from semiring.algorithms.blocked_floyd_warshall import Elimination, Rows
from semiring.distributed.transports import SINGLE_RANK, Communicator, agree
from semiring.kernels.contract import Mark
from semiring.kernels.engine import Engine
from semiring.kernels.machines import closure_speed
from semiring.namespaces import Array
from semiring.out_of_core.buffer_pools import BufferPool
from semiring.out_of_core.disk import RowStore
from semiring.out_of_core.journal import ChecksummedRows, ResumePoint
from semiring.out_of_core.last_round import LastRound
from semiring.out_of_core.strip_layout import BUFFERS, StripLayout
from semiring.progress import wait_to_end

__all__ = ["NoStarError", "Progress", "RowTransform", "StripClosure", "WriteListener"]

Range: TypeAlias = tuple[int, int]
Progress: TypeAlias = Callable[[int, int], None]  # called with the pairs done, and the pairs of the whole closure
RowTransform: TypeAlias = Callable[[int, Array], None]  # changes rows in place, and takes the number of the first row
Wait: TypeAlias = Callable[[], object]  # returns when an earlier task has ended


class NoStarError(Exception):
    """Raised when the pivot of a vertex has no star."""

    def __init__(self, vertex: int) -> None:
        super().__init__(vertex)
        self.vertex = vertex


class WriteListener(Protocol):
    """Receives an event after each write, in the thread that writes. An exception that it raises stops the run."""

    @property
    def resume_point(self) -> ResumePoint:
        """The position at which the run begins or resumes."""
        ...

    def panel(self, page_offset: Any) -> ChecksummedRows:
        """Return the store of the panel of a round, with rows counted from 0.

        ``page_offset`` is the `RowStore.page_offset` of the panel's first row.
        """
        ...

    def check_panel(self, panel: ChecksummedRows) -> None:
        """Receive the event that a stored panel has been read."""
        ...

    def record_panel(self, panel: ChecksummedRows) -> None:
        """Receive the event that the panel of a round has been stored, before any strip of the round is written."""
        ...

    def before_write(self, strip_number: int) -> None:
        """Receive the event that strip ``strip_number`` is about to be written."""
        ...

    def after_write(self, strip_number: int, checksum: int) -> None:
        """Receive the event that strip ``strip_number`` was written, with its checksum."""
        ...

    def end_round(self) -> None:
        """Receive the event that this rank has written all its strips in a round."""
        ...


class _ActiveRows(Rows):
    """The rows in memory for `Elimination`: those of the panel, and those of the current strip."""

    def __init__(self) -> None:
        self.panel: Any = None
        self.first_panel_row = 0
        self.rows: Any = None
        self.first_row = 0

    def strip(self, rows: Range) -> Any:
        return self.rows[rows[0] - self.first_row : rows[1] - self.first_row]

    def pivots(self, pivots: Range) -> Any:
        return self.panel[pivots[0] - self.first_panel_row : pivots[1] - self.first_panel_row]


@dataclass
class StripClosure:
    """Computes the closure of the matrix in the store ``stores[0]`` by strips, and writes it to ``stores[-1]``.

    Attributes
    ----------
    engine, layout, pool
        The kernels, the strips and rounds, and the buffers.
    stores
        The store of the rows before each round, and after the last round. One store may occur several times.
    descending
        Whether each round goes from the last strip to the first.
    encode, decode
        ``encode`` converts rows to the kernels' form at their first read. ``decode`` converts them back before the last
        write.
    progress, listener
        The callbacks for progress and for writes, or None.
    last_round
        The changes of the last round, or None.
    communicator
        The ranks among which the strips are distributed.
    """

    engine: Engine
    layout: StripLayout
    pool: BufferPool
    stores: Sequence[RowStore]
    descending: Sequence[bool]
    encode: RowTransform
    decode: RowTransform
    progress: Progress | None = None
    listener: WriteListener | None = None
    last_round: LastRound | None = None
    communicator: Communicator = SINGLE_RANK

    def run(self) -> None:
        """Compute and write the closure.

        Raises `NoStarError`, `OSError`, and the exceptions of encode, decode and progress. After an exception the
        written rows are undefined, unless a listener records them.
        """
        try:
            self._prepare_run()
            self._run_rounds()
        finally:
            self._end()

    def _prepare_run(self) -> None:
        """Start the threads, allocate the buffers, and reset the state of the run."""
        layout, pool = self.layout, self.pool
        self._strips, self._active = layout.strips, _ActiveRows()
        speed = closure_speed(self.engine.backend.name, self.engine.plan.dtype)
        if sum(map(len, layout.rounds)) > 1 and self.engine.lanes() is not None:
            self.engine = self.engine.lane(0)  # in memory, too, blocks are closed on a lane beside the products
        self._elimination = Elimination(self._active, layout.n, 0, speed.strip)
        self._reader, self._writer = ThreadPoolExecutor(1, "reader"), ThreadPoolExecutor(1, "writer")
        tallest = max((stop - start for start, stop in self._strips), default=0)
        self._buffers = [pool.memory(tallest) for _ in range(BUFFERS)]
        self._panel, self._pair = pool.memory(layout.panel), pool.memory(2).rows_at(self.stores[0].page_offset(0), 2)
        self.engine.reserve(layout.workspace // layout.entry_bytes)
        self._buffer_writes: list[Future[None] | None] = [None] * BUFFERS  # the last write from each buffer
        self._strip_writes: dict[int, Future[None]] = {}  # the last write of each strip
        self._panel_write: Future[None] | None = None  # the listener's write of the panel
        self._round_end: Future[None] | None = None  # the end of the last round on all ranks
        self._visits = self._pairs_done = 0
        self._error: BaseException | None = None  # the error of the writer thread, which then skips its later tasks

    def _run_rounds(self) -> None:
        """Run the rounds from the resume point on, and wait for all writes."""
        first = 0 if self.listener is None else self.listener.resume_point.round
        for number in range(len(self.layout.rounds)):
            if number < first:
                self._pairs_done += self.layout.n**2 * _count_pivots(self.layout.rounds[number])
            else:
                self._run_round(number)
        self._submit_to_writer(lambda: None).result()
        for write in self._strip_writes.values():
            write.result()

    def _end(self) -> None:
        """Shut down the threads, and cancel their pending tasks."""
        self._error = self._error or CancelledError()
        try:
            wait_to_end(partial(self._reader.shutdown, cancel_futures=True))
        finally:
            wait_to_end(partial(self._writer.shutdown, cancel_futures=True))

    def _submit_to_writer(self, task: Callable[[], None]) -> Future[None]:
        """Submit a task to the writer thread, which skips it if an earlier task has failed."""

        def run_unless_failed() -> None:
            if self._error is not None:
                raise self._error
            try:
                task()
            except BaseException as error:
                self._error = error
                raise

        return self._writer.submit(run_unless_failed)

    def _run_round(self, number: int) -> None:
        """Run one round: close its panel, and eliminate its blocks from every strip of this rank."""
        blocks, count, listener = self.layout.rounds[number], len(self._strips), self.listener
        order = list(range(count))
        if self.descending[number]:
            order.reverse()
        has_panel, strips_done = False, 0
        if listener is not None and listener.resume_point.round == number:
            _, has_panel, strips_done = listener.resume_point
        panel = (blocks[0][0], blocks[-1][1]) if blocks else (0, 0)
        panel_reads = self._begin_panel(number, blocks, panel, has_panel)
        if self._is_last(number) and not has_panel and self.communicator.is_first:
            self._compute_last_panel(number)
        ranks = self.communicator.ranks
        own = [which for which in order[strips_done:] if which % ranks.size == ranks.rank]
        reads = [self._begin_read(number, which, panel) for which in own[: BUFFERS - 1]]
        if has_panel:
            panel_reads[0].result()
        else:
            self._make_panel(number, blocks, panel, panel_reads)
        if has_panel or not self.communicator.is_first:
            self._pairs_done += sum(
                _count_pivots([K]) * self.layout.n * _count_pivots(blocks[: k + 1]) for k, K in enumerate(blocks)
            )
        for position, which in enumerate(order):
            if position < strips_done or which % ranks.size != ranks.rank:
                self._pairs_done += self._count_pairs(number, which)
                continue
            if own[BUFFERS - 1 :]:
                reads.append(self._begin_read(number, own[BUFFERS - 1], panel))
            self._visit_strip(number, own.pop(0), *reads.pop(0))
        if listener is not None:
            self._round_end = self._submit_to_writer(listener.end_round)

    def _begin_panel(self, number: int, blocks: Sequence[Range], panel: Range, has_panel: bool) -> list[Future[Any]]:
        """Begin to read the rows of a panel block by block, or the whole panel if the listener has stored it."""
        active, page_offset = self._active, self.stores[number].page_offset(panel[0])
        if self._panel_write is not None:
            self._panel_write.result()  # the listener may still read the previous panel from this buffer
        rows = self.layout.last if self._is_last(number) else panel[1] - panel[0]
        active.panel, active.first_panel_row = self._panel.rows_at(page_offset, rows), panel[0]
        computed = self.pool.mark().synchronize  # waits for the work that reads the previous panel
        if has_panel:
            return [self._reader.submit(self._read_stored_panel, active.panel, page_offset, computed)]
        writes = [(write.result, self._strips[which]) for which, write in self._strip_writes.items()]
        reads: list[Future[Any]] = []
        if not self.communicator.is_first:
            return reads
        if self.communicator.ranks.size > 1 and self._round_end is not None:
            self._round_end.result()
        for start, stop in blocks:
            before = [computed, *(wait for wait, rows in writes if _overlap(rows, (start, stop)))]
            block = active.panel[start - panel[0] : stop - panel[0]]
            reads.append(self._reader.submit(self._read_rows, self.stores[number], start, block, before))
        return reads

    def _is_last(self, number: int) -> bool:
        """Return whether a round only applies the changes of `LastRound`."""
        return self.layout.last > 0 and number == len(self.layout.rounds) - 1

    def _make_panel(self, number: int, blocks: Sequence[Range], panel: Range, reads: Sequence[Future[Any]]) -> None:
        """Close the panel of a round on the first rank, broadcast it, and store it with the listener."""
        error = None
        if self.communicator.is_first:
            try:
                self._close_panel(number, blocks, panel, reads)
            except NoStarError as raised:
                error = raised
        if self.communicator.ranks.size > 1:
            self._submit_to_writer(partial(self._broadcast_panel, self._active.panel, error)).result()
        if error is not None:
            raise error
        if self.listener is not None:
            page_offset = self.stores[number].page_offset(panel[0])
            task = partial(self._store_panel, self._active.panel, page_offset, self.pool.mark())
            self._panel_write = self._submit_to_writer(task)

    def _broadcast_panel(self, panel: Array, error: NoStarError | None) -> None:
        """Broadcast the panel from the first rank, or raise its error on all ranks. The writer thread runs it."""

        def raise_error() -> None:
            if error is not None:
                raise error

        agree(self.communicator.ranks, raise_error)
        self.communicator.ranks.broadcast(panel, 0)

    def _compute_last_panel(self, number: int) -> None:
        """Compute the panel of the last round, after all writes and before the reads of this round."""
        assert self.last_round is not None
        self._submit_to_writer(lambda: None).result()
        tallest = max(stop - start for start, stop in self._strips)
        memory = self._panel.rows_at(0, self.layout.panel), self._buffers[0].rows_at(0, tallest)
        self.last_round.compute_panel(self.engine.plan, self.pool, self.stores[number], self._active.panel, memory)

    def _read_stored_panel(self, panel: Array, page_offset: Any, wait: Wait) -> None:
        """Read the panel that the listener has stored. The reader thread runs it."""
        wait()
        assert self.listener is not None
        store = self.listener.panel(page_offset)
        self.pool.read(store, 0, panel)
        self.listener.check_panel(store)

    def _close_panel(self, number: int, blocks: Sequence[Range], panel: Range, reads: Sequence[Future[Any]]) -> None:
        """Eliminate the earlier blocks from each block of the panel, and close the block and its rows."""
        active, status = self._active, self.engine.plan.status
        for k, K in enumerate(blocks):
            reads[k].result()
            if number == 0:
                self.encode(K[0], active.panel[K[0] - panel[0] : K[1] - panel[0]])
            active.rows, active.first_row = active.panel, active.first_panel_row
            for J in blocks[:k]:
                self._eliminate(J, K)
            self._elimination.close_rows(self.engine, K)
            if status.word is None and status.diverged >= 0:
                raise NoStarError(status.diverged)
            self._report_pairs(K, K)
        if status.read() >= 0:  # the status of a device is read once, before a strip is written
            raise NoStarError(status.diverged)

    def _store_panel(self, panel: Array, page_offset: Any, mark: Mark) -> None:
        """Write the panel to the listener's store. The writer thread runs it."""
        mark.synchronize()
        assert self.listener is not None
        store = self.listener.panel(page_offset)
        if self.communicator.is_first:
            self.pool.write(store, 0, panel)
        self.listener.record_panel(store)

    def _begin_read(self, number: int, strip_number: int, panel: Range) -> tuple[Future[Array], int]:
        """Begin to read a strip when its buffer is free and its last write has ended.

        Return the future of the rows, and the number of the buffer.
        """
        (start, stop), buffer = self._strips[strip_number], self._visits % BUFFERS
        self._visits += 1
        memory = self._buffers[buffer].rows_at(self.stores[number + 1].page_offset(start), stop - start)
        writes = self._buffer_writes[buffer], self._strip_writes.get(strip_number)
        before = [write.result for write in writes if write is not None]
        store = None if panel[0] <= start < stop <= panel[1] else self.stores[number]
        return self._reader.submit(self._read_rows, store, start, memory, before), buffer

    def _read_rows(self, store: RowStore | None, first: int, memory: Array, wait_functions: Sequence[Wait]) -> Array:
        """Read rows after all ``wait_functions``, or only wait if the store is None. The reader thread runs it."""
        for wait in wait_functions:
            wait()
        if store is not None:
            self.pool.read(store, first, memory)
        return memory

    def _visit_strip(self, number: int, strip_number: int, reading: Future[Array], buffer: int) -> None:
        """Eliminate all blocks of a round from one strip, and submit its write."""
        strip = reading.result()
        (start, stop), active, blocks = self._strips[strip_number], self._active, self.layout.rounds[number]
        first, last = (blocks[0][0], blocks[-1][1]) if blocks else (0, 0)
        if number == 0 and not first <= start <= stop <= last:
            self.encode(start, strip)
        low, high = max(start, first), min(stop, last)
        if low < high:
            strip[low - start : high - start] = active.panel[low - first : high - first]
        for K in blocks:
            active.rows, active.first_row = strip, start
            self._eliminate(K, (start, min(stop, K[0])))
            self._eliminate(K, (max(start, last), stop))
        if self._is_last(number):
            assert self.last_round is not None
            self.last_round.apply(active.panel, start, strip, self.layout.packed)
        if number == len(self.layout.rounds) - 1:
            self.decode(start, strip)
        write = partial(self._write_strip, number, strip_number, strip, self.pool.mark())
        self._strip_writes[strip_number] = self._buffer_writes[buffer] = self._submit_to_writer(write)

    def _write_strip(self, number: int, strip_number: int, strip: Array, mark: Mark) -> None:
        """Write a strip once its work has ended, and report the write to the listener. The writer thread runs it."""
        mark.synchronize()
        listener, rows, store = self.listener, self._strips[strip_number], self.stores[number + 1]
        if listener is None:
            self.pool.write(store, rows[0], strip)
        else:
            listener.before_write(strip_number)
            checksummed = ChecksummedRows(store)
            self.pool.write(checksummed, rows[0], strip)
            listener.after_write(strip_number, checksummed.sum)

    def _count_pairs(self, number: int, strip_number: int) -> int:
        """Return how many (⊕, ⊗) pairs one visit of a strip computes."""
        (start, stop), blocks = self._strips[strip_number], self.layout.rounds[number]
        end = blocks[-1][1] if blocks else 0
        rows = [max(0, min(stop, K[0]) - start) + max(0, stop - max(start, end)) for K in blocks]
        return sum(_count_pivots([K]) * height for K, height in zip(blocks, rows, strict=True)) * self.layout.n

    def _eliminate(self, pivots: Range, rows: Range) -> None:
        """Eliminate a pivot block from some of the active rows, a single row as one of two rows."""
        start, stop = rows
        if start >= stop:
            return
        active, n = self._active, self.layout.n
        is_single_in_memory = (stop == n and pivots[1] == n - 1) or (start == 0 and pivots[0] == 1)
        if stop - start > 1 or is_single_in_memory:
            self._elimination.eliminate(self.engine, pivots, rows, (0, n))
        else:
            row, before = active.rows[start - active.first_row], (active.rows, active.first_row)
            self._pair[:] = row
            active.rows, active.first_row = self._pair, start
            self._elimination.eliminate(self.engine, pivots, (start, start + 2), (0, n))
            row[:] = self._pair[0]
            active.rows, active.first_row = before
        self._report_pairs(pivots, rows)

    def _report_pairs(self, pivots: Range, rows: Range) -> None:
        """Add the pairs of one elimination to the progress, and call the progress callback."""
        n = self.layout.n
        self._pairs_done += (pivots[1] - pivots[0]) * (rows[1] - rows[0]) * n
        if self.progress is not None:
            self.progress(self._pairs_done, n**3)


def _count_pivots(blocks: Sequence[Range]) -> int:
    """Return the number of pivots of some blocks."""
    return sum(stop - start for start, stop in blocks)


def _overlap(first: Range, second: Range) -> bool:
    return max(first[0], second[0]) < min(first[1], second[1])
