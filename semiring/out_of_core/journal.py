"""The journal of a closure by strips: after a kill, a full disk or a power cut the same call goes on, to the same bits.

**Why a round is not simply done again.** Over torn strips that would be right only where ⊗ does not round. Let a strip
hold the new a'[i, k] in a column k of the pivots, and the old values elsewhere. Done again, entry j meets
a'[i, k] ⊗ p[k, j] = (a[i, l] ⊗ p[l, k]) ⊗ p[k, j], which it never met in an undisturbed run: where ⊗ rounds, as every
float addition does, that may lie below a[i, l] ⊗ (p[l, k] ⊗ p[k, j]), and the bits differ. And where ⊕ is not
idempotent, an entry would count its paths twice. So here no strip is ever written over the only copy of what it came
from, whatever ⊕ and ⊗ are, and that costs no byte more.

**The file moves.** Behind the n rows of the file lie d more, in the journal. Rounds write in turns d rows further down,
from the last strip to the first, and back, from the first to the last. In an even number of rounds a matrix that is
closed in place comes home; into another file the first round writes where the others will end.

**What is written when.** A *record* says: this is round r, its panel is logged or not, so many strips are done, these
are their checksums, and those of the other strips as they were before. Two slots take turns, each with a number and a
checksum of its own; the valid one with the greater number counts. A record is written by these steps, in this order:
the file is synced; the journal is synced; the record is written to the older slot; the journal is synced. So

1. a record that is found is true: all it speaks of was on the disk before it was written, and a torn record is
   no record, which leaves the one before, in the other slot;
2. *panels*: the panel of round r is logged while the record says "round r, not logged". The panel before it was needed
   for round r - 1 only, all of whose strips are recorded. Nothing of round r is written before a record says "logged",
   so until then the panel can be computed again from the strips as round r - 1 left them;
3. *strips*: in a round downwards strip [x, y) is written to places [x + d, y + d), which hold old rows from x + d on,
   or none. It is not written before rows from x + d on are recorded as done, that is while the rows done and not
   recorded, with its own, are at most d: their places are [y, y + c) with y + c ≤ x + d. So the old version of a strip
   that is not recorded is whole: strips that are recorded as done stand elsewhere, and what was begun after the record
   was written over strips that were recorded. Upwards it is the same, mirrored.

So at every moment the record tells which panel is whole, or how to make it, and where a whole version of every strip
is. To go on is to read that panel and to take the strips that are not recorded as done through it: the same
operations on the same bits. What was written after the record is written again, by nobody read.

4. *the end*: a new file gets its header when all rows are recorded and synced: until then no program takes it for an
   .npy file. The record "finished" comes last, with the time of the file's last change.

**Several ranks.** Each takes its own strips through a round, whose panel the first has closed. They all write to one
file, and record together: when the strips up to some place in the order of the round are written and synced by whoever
has them, the first rank writes the record, and nobody goes on before. What may be written is told by the record alone,
so all of the above holds as it stands, and any number of ranks goes on where any other has stopped.

**Pivots** that are kept of a matrix, in a file of their own, are the same rows of another matrix: a strip is its values
and its pivots, which move by as many rows at the same time, are synced before the same record, and share a checksum. So
is a panel.

Before a run goes on all strips are compared with their checksums, so that a file which others have changed is refused.

Cost: each panel is written once, n² entries in all; a pass over the input for its checksums; d rows and a panel of
disk, and some syncs a round. Source of the two slots: *How SQLite implements atomic commit*.
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
from typing import Any, TypeAlias

import numpy as np

from semiring.distributed.transports import ALONE, Team
from semiring.errors import StorageError
from semiring.out_of_core.disk import PAGE, File, FileRows, Memory, MemoryWithPivots, Place, PlaceWithPivots, System
from semiring.out_of_core.layout import StripLayout

__all__ = [
    "Journal",
    "State",
    "Summed",
    "TracedSums",
    "checksum",
    "checksums",
    "create",
    "journaled",
    "opened",
    "shifts",
    "summed",
]

Array: TypeAlias = Any

_MAGIC = b"semiring journal 2\n\0"
_HEAD = struct.Struct("<20sQI")  # magic, bytes and checksum of the text that follows
_RECORD = struct.Struct("<IQIIIIIq")  # checksum of all that follows, number, round, logged, done, panel, finished, time
_NEW = ".new"  # behind the name of a journal that is being made


def checksum(rows: Array, before: int = 0) -> int:
    """Of the bytes of rows that lie side by side: a cyclic one of the sums of their pages, at the speed of memory.

    ``before``: that of the rows before, in parts that were cut in the same way.
    """
    data = rows.reshape(-1).view(np.uint8)
    whole = data.size // PAGE * PAGE
    pages = data[:whole].view(np.uint64).reshape(-1, PAGE // 8).sum(axis=1)
    return zlib.crc32(data[whole:].tobytes(), zlib.crc32(pages.tobytes(), before))


class Summed:
    """A place that keeps the checksum of the rows that go through it, in their order."""

    def __init__(self, place: Place) -> None:
        self._place, self.sum = place, 0
        self.phase, self.columns = place.phase, place.columns

    def read(self, row: int, memory: Array) -> None:
        self._place.read(row, memory)
        self.sum = checksum(memory, self.sum)

    def write(self, row: int, memory: Array) -> None:
        found: list[int] = []
        summing = Thread(target=lambda: found.append(checksum(memory, self.sum)))  # while the disk is at work
        summing.start()
        try:
            self._place.write(row, memory)
        finally:
            summing.join()
        (self.sum,) = found


class TracedSums(PlaceWithPivots):
    """The same of values and their pivots: one sum of both."""

    def __init__(self, place: PlaceWithPivots) -> None:
        self._values, self._pivots = Summed(place.values), Summed(place.pivots)
        super().__init__(self._values, self._pivots)

    @property
    def sum(self) -> int:
        return zlib.crc32(self._pivots.sum.to_bytes(4, "little"), self._values.sum)


def summed(place: Place) -> Summed | TracedSums:
    """A place that keeps the checksum of what goes through it."""
    return TracedSums(place) if isinstance(place, PlaceWithPivots) else Summed(place)


def checksums(places: Iterable[Place], layout: StripLayout) -> Array:
    """Those of all strips (count,), each as its place has it, in the parts in which it will be moved."""
    strips = layout.strips
    found = np.zeros(len(strips), np.uint32)
    tallest = max((stop - start for start, stop in strips), default=0)
    rows = min(tallest, layout.piece)
    memory: Any = Memory(rows, layout.width, np.dtype(f"u{layout.entry}"))
    if layout.pivots:
        memory = MemoryWithPivots(memory, Memory(rows, layout.n, np.dtype(np.int32)))
    for which, (place, (start, stop)) in enumerate(zip(places, strips, strict=True)):
        through = summed(place)
        for first in range(start, stop, layout.piece):
            through.read(first, memory.at(place.phase(first), min(layout.piece, stop - first)))
        found[which] = through.sum
    return found


def journaled(layout: StripLayout, in_place: bool, ranks: int = 1) -> StripLayout:
    """The layout with the rows by which the file moves, and in place with an even number of rounds."""
    n, tallest = layout.n, max((stop - start for start, stop in layout.strips), default=0)
    step = PAGE // gcd(PAGE, max(1, n * layout.itemsize), n * layout.pivots)  # whole pages move past the cache
    by = max(2 * tallest * ranks, n // 16)  # each has two strips to write before all wait for a record
    rounded = -(-by // step) * step
    rounds = list(layout.rounds)
    if in_place and len(rounds) % 2:
        widest = max(range(len(rounds)), key=lambda k: len(rounds[k]))
        blocks = rounds[widest]
        half = len(blocks) // 2  # 0: a round that only brings the rows home
        rounds[widest : widest + 1] = [blocks[:half], blocks[half:]] if half else [blocks, ()]
    return replace(layout, rounds=tuple(rounds), shift=rounded if rounded <= n else min(n, by))


def shifts(layout: StripLayout, in_place: bool) -> list[int]:
    """By how many rows the file is moved before each round, and after the last; not at all without a journal."""
    count = len(layout.rounds)
    moved = [layout.shift * ((count - number) % 2) for number in range(count + 1)]
    return moved if in_place else [layout.shift - moved[1], *moved[1:]]  # another file: the first direction is free


@dataclass(frozen=True)
class State:
    """What a record says."""

    number: int = 0
    round: int = 0
    logged: bool = False
    done: int = 0  # strips of this round, in its order
    panel: int = 0  # checksum
    finished: bool = False
    changed: int = 0  # when the file was, in nanoseconds, where it is finished
    sums: Array = field(default_factory=lambda: np.zeros(0, np.uint32))  # (strips,) as they are now

    def packed(self) -> bytes:
        fields = (self.number, self.round, self.logged, self.done, self.panel, self.finished, self.changed)
        body: bytes = _RECORD.pack(0, *map(int, fields))[4:] + self.sums.astype("<u4").tobytes()
        return struct.pack("<I", zlib.crc32(body)) + body

    @classmethod
    def unpacked(cls, data: bytes) -> State | None:
        """The record, None where it is torn."""
        check, number, round_, logged, done, panel, finished, changed = _RECORD.unpack(data[: _RECORD.size])
        if number == 0 or zlib.crc32(data[4:]) != check:
            return None
        sums = np.frombuffer(data[_RECORD.size :], "<u4").astype(np.uint32)
        return cls(number, round_, bool(logged), done, panel, bool(finished), changed, sums)


@dataclass(frozen=True)
class _Map:
    """Where what is in a journal."""

    slots: int
    slot: int  # bytes of a record
    panels: tuple[int, ...]  # of the values, and of their pivots where those are kept
    spares: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, head: int, layout: StripLayout, phases: Sequence[int]) -> _Map:
        """``phases``: the place of row n of each file, modulo a page."""
        slot, slots = _RECORD.size + 4 * len(layout.strips), _pages(head)
        end, panels, spares = slots + 2 * _pages(slot), [], []
        for worked_on in (layout.entry * layout.width, layout.pivots * layout.n)[: len(phases)]:
            panels.append(end)
            end = _pages(end + max(1, layout.panel) * worked_on) + PAGE
        for phase, entry in zip(phases, (layout.itemsize, layout.pivots), strict=False):
            end += (phase - end) % PAGE  # so that rows there have the addresses that they have in the file
            spares.append(end)
            end += layout.shift * layout.n * entry
        return cls(slots, slot, tuple(panels), tuple(spares), end)


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


class Journal:
    """An open journal, and where its run is. Of the thread that writes, once the run has begun."""

    def __init__(
        self,
        system: System,
        file: File,
        about: Mapping[str, Any],
        vectors: Mapping[str, Array],
        where: _Map,
        team: Team = ALONE,
    ) -> None:
        self.about, self.vectors, self._team = about, vectors, team
        self._system, self._file, self._where = system, file, where
        self.state = State()
        self.layout = StripLayout.of(about["layout"])
        self._homes: Sequence[File] = ()
        self._descending: Sequence[bool] = ()
        self._sums: Array = None
        self._new: dict[int, int] = {}  # checksums of strips that were written here since the record
        self._begun = (0, False, 0)

    # ------------------------------------------------------------------------------------------------------- at rest

    def spares(self) -> list[FileRows]:
        """The rows behind those of the file, and behind those of the pivots where there are any."""
        n, entries = self.layout.n, (self.layout.itemsize, self.layout.pivots)
        return [FileRows(self._file, at, n * entry, n) for at, entry in zip(self._where.spares, entries, strict=False)]

    def begin(self, homes: Sequence[File], descending: Sequence[bool]) -> None:
        """From now on strips are written to those files, from where the record is, in rounds that go up or down."""
        state = self.state
        self._homes, self._descending, self._sums = homes, descending, state.sums.copy()
        self._new = {}
        self._begun = (state.round, state.logged, state.done)

    def finish(self, changed: int) -> None:
        """All is done, and the file was changed last at that time. The room for panels and rows is given back."""
        self._record(replace(self.state, finished=True, changed=changed))
        self._system.truncate(self._file.number, self._where.panels[0])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    # ------------------------------------------------------------------------------------------------ while strips move

    @property
    def begun(self) -> tuple[int, bool, int]:
        """The round to begin with, whether its panel was kept, and how many of its strips are done."""
        return self._begun

    def panel(self, phase: Any) -> Summed | TracedSums:
        """Where the panel of a round is logged; ``phase``: where its first row is in the file, modulo a page."""
        layout = self.layout

        def rows(start: int, phase: int, entry: int, width: int) -> FileRows:  # congruent to that, and so to its memory
            return FileRows(self._file, start + (phase - start) % PAGE, entry * width, width)

        if not layout.pivots:
            return Summed(rows(self._where.panels[0], phase, layout.entry, layout.width))
        given = zip(self._where.panels, phase, (layout.entry, layout.pivots), strict=True)
        return TracedSums(PlaceWithPivots(*(rows(*each, layout.n) for each in given)))

    def check_panel(self, panel: Summed | TracedSums) -> None:
        """The panel was read. Raises `StorageError` where it is damaged."""
        if panel.sum != self.state.panel:
            raise StorageError(f"{self._file.path}: the panel of round {self.state.round} is damaged")

    def keep_panel(self, panel: Summed | TracedSums) -> None:
        """The panel of a round was logged: record it, and then strips may be written."""
        self._commit(replace(self.state, logged=True, done=0, panel=panel.sum))

    def before(self, which: int) -> None:
        """A strip is about to be written, perhaps over others that are not recorded."""
        strips, last = self.layout.strips, which
        if self._descending[self.state.round]:
            strips, last = strips[::-1], len(strips) - 1 - which
        rows = 0
        for place in range(self.state.done, last + 1):
            height = strips[place][1] - strips[place][0]
            rows += height
            if rows > self.layout.shift:
                self._commit(replace(self.state, done=place))
                rows = height

    def after(self, which: int, checksum: int) -> None:
        """A strip was written."""
        self._new[which] = checksum

    def end_round(self) -> None:
        """All strips of this rank were written in a round."""
        if self._team.ranks.size > 1 and self._sums.size:  # the others may have more to record
            self.before(0 if self._descending[self.state.round] else len(self._sums) - 1)
        self._commit(replace(self.state, round=self.state.round + 1, logged=False, done=0))

    def _commit(self, state: State) -> None:
        """Record what was written by all ranks, when it is on the disk."""
        for home in self._homes:
            home.sync()
        self._file.sync()
        for sums in self._team.ranks.allgather(self._new):
            for which, found in sums.items():
                self._sums[which] = found
        self._new = {}
        state = replace(state, sums=self._sums.copy())
        if self._team.is_first:
            self._record(state)
        self.state = replace(state, number=self.state.number)
        self._team.ranks.allgather(None)

    def _record(self, state: State) -> None:
        state = replace(state, number=self.state.number + 1)
        slot = self._where.slots + state.number % 2 * _pages(self._where.slot)
        self._file.write(slot, np.frombuffer(state.packed(), np.uint8))
        self._file.sync()
        self.state = state


def create(
    system: System,
    path: str,
    about: Mapping[str, Any],
    vectors: Mapping[str, Array],
    layout: StripLayout,
    sums: Array,
    phases: Sequence[int],
    team: Team = ALONE,
) -> Journal:
    """A new journal, whole on the disk or not there. Raises `OSError`, also where it has no room; what was made goes.

    ``about``: what the run is, in JSON; ``vectors`` belong to it. ``sums``: of the strips as they are; ``phases``: the
    place of row n of the file, modulo a page, and of that of the pivots where they are kept.
    """
    arrays = {name: np.ascontiguousarray(vector) for name, vector in vectors.items()}
    listed = [
        {"name": name, "dtype": vector.dtype.str, "count": vector.size, "sum": zlib.crc32(vector.tobytes())}
        for name, vector in arrays.items()
    ]
    about = {**about, "layout": layout.about(), "phases": list(phases), "vectors": listed}
    text = json.dumps(about).encode()
    head = _HEAD.pack(_MAGIC, len(text), zlib.crc32(text)) + text + b"".join(v.tobytes() for v in arrays.values())
    where = _Map.of(len(head), layout, phases)
    new, ours = path + _NEW, False
    file = File(system, new, os.O_RDWR | os.O_CREAT)
    try:
        if not system.lock(file.number):
            raise _taken(path)
        ours = True
        system.truncate(file.number, 0)
        file.allocate(where.size)
        file.write(0, np.frombuffer(head, np.uint8))
        journal = Journal(system, file, about, arrays, where, team)
        journal.state = State(sums=sums)
        journal._record(journal.state)
        system.replace(new, path)
        system.sync_folder(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with file, contextlib.suppress(OSError):  # it may have its name already
            if ours:
                system.remove(new)
        raise
    return journal


def opened(system: System, path: str, team: Team = ALONE) -> Journal | None:
    """The journal of that name, None where there is none; the first of several ranks keeps others from it.

    Raises `OSError`, and `StorageError` for what is none.
    """
    try:
        file = File(system, path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        if team.is_first and not system.lock(file.number):
            raise _taken(path)
        return _read(system, file, path, team)
    except BaseException:
        file.close()
        raise


def _taken(path: str) -> StorageError:
    return StorageError(f"{path}: another process uses this journal: wait for it, or give another name")


def _read(system: System, file: File, path: str, team: Team) -> Journal:
    size = os.fstat(file.number).st_size
    if size < _HEAD.size:
        raise StorageError(f"{path}: not a journal: give another name")
    magic, length, check = _HEAD.unpack(_bytes(file, 0, _HEAD.size))
    if magic != _MAGIC:
        raise StorageError(f"{path}: not a journal of this version: give another name, or remove it")
    _demand_size(path, size, _HEAD.size + length)
    text = _bytes(file, _HEAD.size, length)
    if zlib.crc32(text) != check or not text:
        raise StorageError(f"{path}: the journal is damaged")
    about = json.loads(text)
    position, vectors = _HEAD.size + length, {}
    for listed in about["vectors"]:
        dtype = np.dtype(listed["dtype"])
        _demand_size(path, size, position + dtype.itemsize * listed["count"])
        data = _bytes(file, position, dtype.itemsize * listed["count"])
        if zlib.crc32(data) != listed["sum"]:
            raise StorageError(f"{path}: the journal is damaged")
        vectors[listed["name"]] = np.frombuffer(data, dtype)
        position += len(data)
    layout = StripLayout.of(about["layout"])
    where = _Map.of(position, layout, about["phases"])
    journal = Journal(system, file, about, vectors, where, team)
    _demand_size(path, size, where.panels[0])
    records = [State.unpacked(_bytes(file, where.slots + k * _pages(where.slot), where.slot)) for k in (0, 1)]
    valid = [record for record in records if record is not None]
    if not valid:
        raise StorageError(f"{path}: the journal is damaged")
    journal.state = max(valid, key=lambda record: record.number)
    if not journal.state.finished:
        _demand_size(path, size, where.size)
    return journal


def _demand_size(path: str, size: int, needed: int) -> None:
    """Raise `StorageError` where a journal of so many bytes is shorter than what it describes."""
    if size < needed:
        raise StorageError(
            f"{path}: the journal is truncated: it has {size:,} bytes, and at least {needed:,} are needed: restore it, "
            "or remove it and begin again from the input"
        )


def _bytes(file: File, position: int, size: int) -> bytes:
    data = bytearray(size)
    file.read(position, np.frombuffer(data, np.uint8))
    return bytes(data)
