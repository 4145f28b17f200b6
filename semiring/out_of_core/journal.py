"""Record a closure by strips in a journal, from which it resumes after a kill, a full disk or a power cut.

A resumed run gives a bitwise identical result.

**Why a run does not repeat a round.** To repeat a round on torn strips is correct only if ⊗ does not round. Suppose
that a strip holds the new a'[i, k] in a column k of the pivots, and the old values in the other columns. In a
repeated round, entry j meets a'[i, k] ⊗ p[k, j] = (a[i, l] ⊗ p[l, k]) ⊗ p[k, j]. In an undisturbed run it never meets
this term. If ⊗ rounds, as every float addition does, the term may lie below a[i, l] ⊗ (p[l, k] ⊗ p[k, j]), and the
results differ. If ⊕ is not idempotent, an entry would count its paths twice. So for all ⊕ and ⊗ no strip is written
over the only copy of its input. This costs no additional traffic.

**The rows shift.** The journal has room for d rows behind the n rows of the file. One round writes its rows d rows
further down, from the last strip to the first. The next round writes them back up, from the first strip to the last.
After an even number of rounds a matrix that is closed in place is in its original rows. If the result goes to another
file, the direction of the first round is chosen so that the last round ends at the right rows.

**The order of writes.** A *record* holds the round r, whether its panel is logged, the number of strips done, their
checksums, and the checksums of the other strips before the round. Two slots take turns. Each slot has a number and a
checksum of its own, and the valid slot with the greater number counts. A record is written in four steps: sync the
file, sync the journal, write the record to the older slot, and sync the journal. This order has four consequences.

1. *Records*: a valid record is true, because everything it describes was on the disk before the record was written. A
   torn record is invalid, and then the record in the other slot counts.
2. *Panels*: the panel of round r is logged while the record says "round r, not logged". The previous panel was needed
   for round r - 1 only, and all strips of that round are recorded. Nothing of round r is written before a record says
   "logged". So until then the panel can be computed again from the strips of round r - 1.
3. *Strips*: in a downward round, strip [x, y) is written to rows [x + d, y + d), which hold old rows from x + d on, or
   none. It is not written before the rows from x + d on are recorded as done. Equivalently, the rows done but not
   recorded, with the rows of this strip, are at most d. Their rows are [y, y + c) with y + c ≤ x + d. So the old
   version of a strip that is not recorded is whole. Strips that are recorded as done are in other rows, and strips
   begun after the record overwrite only old rows of recorded strips. Upward rounds are the mirror image.

   So at every moment the record defines which panel is whole or how to compute it. It also defines where a whole
   version of each strip is. To resume, a run reads that panel and takes the strips that are not recorded as done
   through it. These are the same operations on the same values. The run never reads rows written after the record, but
   overwrites them.
4. *The end*: a new file gets its header when all rows are recorded and synced, so until then it is no valid .npy file.
   The record "finished" comes last, with the time of the file's last change.

**Several ranks.** Each rank takes its own strips through a round, and the first rank closes the panel. All ranks write
to one file and record together. When all ranks have written and synced the strips up to some position in the order of
the round, the first rank writes the record. No rank continues before that. The record alone determines which rows may
be written, so the argument above holds unchanged. Any number of ranks can resume a run of any other number.

Before a run resumes, it compares all strips with their checksums, and refuses a file that another program has changed.

Cost: each panel is written once, n² entries in all. The input is read once for its checksums. The disk holds d more
rows and a panel, and each round needs a few syncs. Source of the two slots: *How SQLite implements atomic commit*.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from semiring.distributed.transports import SINGLE_RANK, Communicator
from semiring.errors import StorageError
from semiring.namespaces import Array
from semiring.out_of_core.disk import (
    PAGE,
    File,
    FileRows,
    Memory,
    RowStore,
    System,
)
from semiring.out_of_core.strip_layout import StripLayout

__all__ = [
    "ChecksummedRows",
    "Journal",
    "JournalState",
    "add_journal",
    "checksum",
    "checksums",
    "create_journal",
    "open_journal",
    "row_shifts",
]


_MAGIC = b"semiring journal 3\n\0"
_HEADER = struct.Struct("<20sQI")  # magic, and the length and the checksum of the JSON text after it
#: The checksum of the bytes after it, number, round, panel logged, strips done, panel checksum, finished, time.
_RECORD = struct.Struct("<IQIIIIIq")
_UNFINISHED_SUFFIX = ".new"  # added to the name of a journal until it is complete


class ResumePoint(NamedTuple):
    """The position at which a run begins or resumes.

    It is a round, whether the panel of this round is logged, and the number of its strips that are done.
    """

    round: int
    has_panel: bool
    strips_done: int


def checksum(rows: Array, preceding_sum: int = 0) -> int:
    """Return a checksum of adjacent rows: the CRC-32 of the sums of their pages, at the speed of memory.

    ``preceding_sum`` is the checksum of the preceding rows. Checksums are comparable only for rows in equally sized
    parts.
    """
    data: Any = rows.reshape(-1).view(np.uint8)
    whole = data.size // PAGE * PAGE
    pages: Any = data[:whole].view(np.uint64).reshape(-1, PAGE // 8).sum(axis=1)
    return zlib.crc32(data[whole:].tobytes(), zlib.crc32(pages.tobytes(), preceding_sum))


class ChecksummedRows:
    """A `RowStore` that accumulates the checksum of the rows that it transfers, in the order of the transfers."""

    def __init__(self, store: RowStore) -> None:
        self._store, self.sum = store, 0
        self.page_offset, self.columns = store.page_offset, store.columns

    def read(self, row: int, memory: Array) -> None:
        self._store.read(row, memory)
        self.sum = checksum(memory, self.sum)

    def write(self, row: int, memory: Array) -> None:
        sums: list[int] = []
        thread = Thread(target=lambda: sums.append(checksum(memory, self.sum)))  # concurrently with the disk
        thread.start()
        try:
            self._store.write(row, memory)
        finally:
            thread.join()
        (self.sum,) = sums


def checksums(stores: Iterable[RowStore], layout: StripLayout) -> Array:
    """Return the checksums (strips,) uint32, each read from its own store in parts of ``layout.piece`` rows."""
    strips = layout.strips
    sums = np.zeros(len(strips), np.uint32)
    tallest = max((stop - start for start, stop in strips), default=0)
    rows = min(tallest, layout.piece)
    memory = Memory(rows, layout.width, np.dtype(f"u{layout.entry_bytes}"))
    for which, (store, (start, stop)) in enumerate(zip(stores, strips, strict=True)):
        checksummed = ChecksummedRows(store)
        for first in range(start, stop, layout.piece):
            checksummed.read(first, memory.rows_at(store.page_offset(first), min(layout.piece, stop - first)))
        sums[which] = checksummed.sum
    return sums


def add_journal(layout: StripLayout, is_in_place: bool, ranks: int = 1) -> StripLayout:
    """Return the layout with a shift of the rows, and for a closure in place with an even number of rounds."""
    n, tallest = layout.n, max((stop - start for start, stop in layout.strips), default=0)
    # Rows that are shifted by whole pages can bypass the page cache.
    step = PAGE // gcd(PAGE, max(1, n * layout.itemsize))
    least = max(2 * tallest * ranks, n // 16)  # each rank can write two strips before all ranks wait for a record
    rounded = -(-least // step) * step
    rounds = list(layout.rounds)
    if is_in_place and len(rounds) % 2:
        widest = max(range(len(rounds)), key=lambda k: len(rounds[k]))
        blocks = rounds[widest]
        half = len(blocks) // 2  # a round without blocks only shifts the rows back
        rounds[widest : widest + 1] = [blocks[:half], blocks[half:]] if half else [blocks, ()]
    return replace(layout, rounds=tuple(rounds), shift=rounded if rounded <= n else min(n, least))


def row_shifts(layout: StripLayout, is_in_place: bool) -> list[int]:
    """Return by how many rows the matrix is shifted before each round and after the last: 0 without a journal."""
    count = len(layout.rounds)
    shifts = [layout.shift * ((count - number) % 2) for number in range(count + 1)]
    if is_in_place:
        return shifts
    return [layout.shift - shifts[1], *shifts[1:]]  # with another file the first round may go in either direction


@dataclass(frozen=True)
class JournalState:
    """The contents of a record.

    ``strips_done`` counts the finished strips of the round, in the order of the round. ``panel`` is the checksum of the
    panel. ``modification_time`` is the time of the last change of a finished file in nanoseconds. ``sums`` (strips,)
    are the checksums of all strips.
    """

    number: int = 0
    round: int = 0
    has_panel: bool = False
    strips_done: int = 0
    panel: int = 0
    is_finished: bool = False
    modification_time: int = 0
    sums: Any = field(default_factory=lambda: np.zeros(0, np.uint32))

    def to_bytes(self) -> bytes:
        """Return the record as the bytes of a slot."""
        numbers = (
            self.number,
            self.round,
            self.has_panel,
            self.strips_done,
            self.panel,
            self.is_finished,
            self.modification_time,
        )
        body: bytes = _RECORD.pack(0, *map(int, numbers))[4:] + self.sums.astype("<u4").tobytes()
        return struct.pack("<I", zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> JournalState | None:
        """Return the record in the bytes of a slot, or None if it is torn."""
        check, number, round_, has_panel, done, panel, is_finished, modified = _RECORD.unpack(data[: _RECORD.size])
        if number == 0 or zlib.crc32(data[4:]) != check:
            return None
        sums = np.frombuffer(data[_RECORD.size :], "<u4").astype(np.uint32)
        return cls(number, round_, bool(has_panel), done, panel, bool(is_finished), modified, sums)


@dataclass(frozen=True)
class _JournalOffsets:
    """The byte offsets of the parts of a journal.

    ``slots`` is the offset of the records, and ``slot_size`` the size of a record. ``panel`` and ``spare_rows`` are the
    offsets of the panel and of the rows behind the file. ``size`` is the size of the journal.
    """

    slots: int
    slot_size: int
    panel: int
    spare_rows: int
    size: int

    @classmethod
    def for_layout(cls, head: int, layout: StripLayout, page_offset: int) -> _JournalOffsets:
        """Return the offsets of a journal. ``page_offset`` is the offset of row n in the file, modulo a page."""
        slot, slots = _RECORD.size + 4 * len(layout.strips), _round_to_pages(head)
        panel = slots + 2 * _round_to_pages(slot)
        spare_rows = _round_to_pages(panel + max(1, layout.panel) * layout.row_bytes) + PAGE
        spare_rows += (page_offset - spare_rows) % PAGE  # they then continue the alignment of the rows in the file
        return cls(slots, slot, panel, spare_rows, spare_rows + layout.shift * layout.n * layout.itemsize)


def _round_to_pages(size: int) -> int:
    """Return a size in bytes, rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


class Journal:
    """An open journal, and the state of its run.

    Only the thread that writes may call its methods once the run has begun. ``about`` and ``vectors`` describe the run,
    and are stored when the journal is created.
    """

    def __init__(
        self,
        system: System,
        file: File,
        about: Mapping[str, Any],
        vectors: Mapping[str, Array],
        offsets: _JournalOffsets,
        communicator: Communicator = SINGLE_RANK,
    ) -> None:
        self.about, self.vectors, self._communicator = about, vectors, communicator
        self._system, self._file, self._offsets = system, file, offsets
        self.state = JournalState()
        self.layout = StripLayout.from_json(about["layout"])
        self._target: File | None = None
        self._descending: Sequence[bool] = ()
        self._sums: Any = None
        #: The checksums of the strips that this rank has written since the last record.
        self._unrecorded_sums: dict[int, int] = {}
        self._resume_point = ResumePoint(0, False, 0)

    # ------------------------------------------------------------------------------------------ begin, finish, close

    def spare_rows(self) -> FileRows:
        """Return the store of the rows behind the file."""
        n = self.layout.n
        return FileRows(self._file, self._offsets.spare_rows, n * self.layout.itemsize, n)

    def begin(self, target: File, descending: Sequence[bool]) -> None:
        """Begin or resume the run at the last record.

        The file ``target`` is synced before each record. ``descending`` holds for each round whether it goes from the
        last strip to the first.
        """
        state = self.state
        self._target, self._descending, self._sums = target, descending, state.sums.copy()
        self._unrecorded_sums = {}
        self._resume_point = ResumePoint(state.round, state.has_panel, state.strips_done)

    def finish(self, modification_time: int) -> None:
        """Record the end of the run and the time of the file's last change, and free the space of panels and rows."""
        self._record(replace(self.state, is_finished=True, modification_time=modification_time))
        self._system.truncate(self._file.descriptor, self._offsets.panel)

    def close(self) -> None:
        """Close the file of the journal."""
        self._file.close()

    # ------------------------------------------------------------------------------------------- events of the writer

    @property
    def resume_point(self) -> ResumePoint:
        """The position at which the run begins or resumes."""
        return self._resume_point

    def panel(self, page_offset: Any) -> ChecksummedRows:
        """Return the store in which the panel of a round is logged.

        ``page_offset`` is the offset of its first row in the file, modulo a page.
        """
        start, layout = self._offsets.panel, self.layout
        # An offset congruent to the page offset is congruent to the address of the panel's memory.
        start += (page_offset - start) % PAGE
        return ChecksummedRows(FileRows(self._file, start, layout.row_bytes, layout.width))

    def check_panel(self, panel: ChecksummedRows) -> None:
        """Check the panel that was read, and raise `StorageError` if it is damaged."""
        if panel.sum != self.state.panel:
            raise StorageError(f"{self._file.path}: the panel of round {self.state.round} is damaged")

    def record_panel(self, panel: ChecksummedRows) -> None:
        """Record that the panel of a round is logged, after which strips may be written."""
        self._commit(replace(self.state, has_panel=True, strips_done=0, panel=panel.sum))

    def before_write(self, strip_number: int) -> None:
        """Write the records without which strip ``strip_number`` would overwrite rows that are not recorded as done."""
        strips, last = self.layout.strips, strip_number
        if self._descending[self.state.round]:
            strips, last = strips[::-1], len(strips) - 1 - strip_number
        rows = 0
        for position in range(self.state.strips_done, last + 1):
            height = strips[position][1] - strips[position][0]
            rows += height
            if rows > self.layout.shift:
                self._commit(replace(self.state, strips_done=position))
                rows = height

    def after_write(self, strip_number: int, checksum: int) -> None:
        """Store the checksum of a strip that was written, for the next record."""
        self._unrecorded_sums[strip_number] = checksum

    def end_round(self) -> None:
        """Record the end of a round, in which this rank has written all its strips."""
        if self._communicator.ranks.size > 1 and self._sums.size:  # other ranks may have later strips
            self.before_write(0 if self._descending[self.state.round] else len(self._sums) - 1)
        self._commit(replace(self.state, round=self.state.round + 1, has_panel=False, strips_done=0))

    def _commit(self, state: JournalState) -> None:
        """Sync the writes of all ranks, and then record them."""
        assert self._target is not None
        self._target.sync()
        self._file.sync()
        for sums in self._communicator.ranks.allgather(self._unrecorded_sums):
            for which, strip_sum in sums.items():
                self._sums[which] = strip_sum
        self._unrecorded_sums = {}
        state = replace(state, sums=self._sums.copy())
        if self._communicator.is_first:
            self._record(state)
        self.state = replace(state, number=self.state.number)
        self._communicator.ranks.allgather(None)

    def _record(self, state: JournalState) -> None:
        state = replace(state, number=self.state.number + 1)
        slot = self._offsets.slots + state.number % 2 * _round_to_pages(self._offsets.slot_size)
        self._file.write(slot, np.frombuffer(state.to_bytes(), np.uint8))
        self._file.sync()
        self.state = state


def create_journal(
    system: System,
    path: str,
    about: Mapping[str, Any],
    vectors: Mapping[str, Array],
    layout: StripLayout,
    sums: Array,
    page_offset: int,
    communicator: Communicator = SINGLE_RANK,
) -> Journal:
    """Create a journal atomically: it is either complete on the disk, or absent.

    Parameters
    ----------
    system, path, communicator
        The system calls, the name of the journal, and the ranks of the run.
    about, vectors
        The description of the run, in JSON, and the arrays that belong to it.
    layout
        The layout of the run, with a shift of the rows.
    sums
        The checksums (strips,) of the strips of the input.
    page_offset
        The offset of row n in the file, modulo a page.

    Raises
    ------
    OSError
        The file cannot be created, or the disk has no space for it. Then the new file is removed.
    """
    arrays = {name: np.ascontiguousarray(vector) for name, vector in vectors.items()}
    listed = [
        {"name": name, "dtype": vector.dtype.str, "count": vector.size, "sum": zlib.crc32(vector.tobytes())}
        for name, vector in arrays.items()
    ]
    about = {**about, "layout": layout.to_json(), "phase": page_offset, "vectors": listed}
    text = json.dumps(about).encode()
    head = _HEADER.pack(_MAGIC, len(text), zlib.crc32(text)) + text + b"".join(v.tobytes() for v in arrays.values())
    offsets = _JournalOffsets.for_layout(len(head), layout, page_offset)
    new, has_lock = path + _UNFINISHED_SUFFIX, False
    file = File(system, new, os.O_RDWR | os.O_CREAT)
    try:
        if not system.lock(file.descriptor):
            raise _in_use_error(path)
        has_lock = True
        system.truncate(file.descriptor, 0)
        file.allocate(offsets.size)
        file.write(0, np.frombuffer(head, np.uint8))
        journal = Journal(system, file, about, arrays, offsets, communicator)
        journal.state = JournalState(sums=sums)
        journal._record(journal.state)
        system.replace(new, path)
        system.sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with file, contextlib.suppress(OSError):  # the file may already have its final name
            if has_lock:
                system.remove(new)
        raise
    return journal


def open_journal(system: System, path: str, communicator: Communicator = SINGLE_RANK) -> Journal | None:
    """Open the journal with that name, and return None if it does not exist.

    The first rank locks it against other processes. Raises `OSError`, and `StorageError` if the file is no journal, is
    damaged, or is in use.
    """
    try:
        file = File(system, path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if communicator.is_first and not system.lock(file.descriptor):
            raise _in_use_error(path)
        return _read_journal(system, file, path, communicator)
    except BaseException:
        file.close()
        raise


def _in_use_error(path: str) -> StorageError:
    return StorageError(f"{path}: another process uses this journal: wait for it, or give another name")


def _read_journal(system: System, file: File, path: str, communicator: Communicator) -> Journal:
    """Return the journal in an open file, at its last valid record, or raise `StorageError`."""
    size = os.fstat(file.descriptor).st_size
    if size < _HEADER.size:
        raise StorageError(f"{path}: not a journal: give another name")
    magic, length, check = _HEADER.unpack(_read_bytes(file, 0, _HEADER.size))
    if magic != _MAGIC:
        raise StorageError(f"{path}: not a journal of this version: give another name, or remove it")
    _demand_size(path, size, _HEADER.size + length)
    text = _read_bytes(file, _HEADER.size, length)
    if zlib.crc32(text) != check or not text:
        raise StorageError(f"{path}: the journal is damaged")
    about = json.loads(text)
    position, vectors = _HEADER.size + length, {}
    for listed in about["vectors"]:
        dtype = np.dtype(listed["dtype"])
        _demand_size(path, size, position + dtype.itemsize * listed["count"])
        data = _read_bytes(file, position, dtype.itemsize * listed["count"])
        if zlib.crc32(data) != listed["sum"]:
            raise StorageError(f"{path}: the journal is damaged")
        vectors[listed["name"]] = np.frombuffer(data, dtype)
        position += len(data)
    layout = StripLayout.from_json(about["layout"])
    offsets = _JournalOffsets.for_layout(position, layout, about["phase"])
    journal = Journal(system, file, about, vectors, offsets, communicator)
    _demand_size(path, size, offsets.panel)
    slots = [
        _read_bytes(file, offsets.slots + k * _round_to_pages(offsets.slot_size), offsets.slot_size) for k in (0, 1)
    ]
    records = [JournalState.from_bytes(slot) for slot in slots]
    valid = [record for record in records if record is not None]
    if not valid:
        raise StorageError(f"{path}: the journal is damaged")
    journal.state = max(valid, key=lambda record: record.number)
    if not journal.state.is_finished:
        _demand_size(path, size, offsets.size)
    return journal


def _demand_size(path: str, size: int, least_size: int) -> None:
    """Raise `StorageError` if a journal of ``size`` bytes is shorter than ``least_size`` bytes."""
    if size < least_size:
        raise StorageError(
            f"{path}: the journal is truncated: it has {size:,} bytes, and at least {least_size:,} are needed: "
            "restore it, or remove it and begin again from the input"
        )


def _read_bytes(file: File, position: int, size: int) -> bytes:
    data = bytearray(size)
    file.read(position, np.frombuffer(data, np.uint8))
    return bytes(data)
