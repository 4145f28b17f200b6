"""A closure by strips from one file to another, or in place; with a journal or without."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from semiring.distributed.transports import ALONE, Team, agreed
from semiring.errors import StorageError
from semiring.kernels.engine import Engine
from semiring.out_of_core.buffer_pools import Room
from semiring.out_of_core.disk import (
    File,
    FileRows,
    Held,
    Moved,
    Packed,
    Place,
    PlaceWithoutPivots,
    PlaceWithPivots,
    System,
)
from semiring.out_of_core.journal import Journal, checksums, create, journaled, shifts
from semiring.out_of_core.last_round import NOTHING, LastRound
from semiring.out_of_core.layout import StripLayout
from semiring.out_of_core.rounds import Closing, Pass, Progress
from semiring.out_of_core.stored_matrix import Stored, header

__all__ = ["HeldRun", "Run", "complete", "written"]

Array: TypeAlias = Any


@dataclass
class Run:
    """What is read, what is written, and how it is cut.

    ``keep``: the name of a journal that is to be made; ``journal``: one that was found, and says where to go on.
    ``pivots``: the file that those go to, which is made.
    """

    system: System
    source: Stored
    home: Stored
    layout: StripLayout
    room: Room
    keep: str | None = None
    journal: Journal | None = None
    team: Team = ALONE
    pivots: Stored | None = None

    def result(self) -> Array:
        """What the caller gets."""
        return self.home.result()

    def ending(self, rows: int) -> None:
        """Let the last round have a panel of so many rows. Raises `StorageError` where there is no memory for them."""
        self.layout = _ending(self.layout, rows)

    def close(
        self,
        engine: Engine,
        encode: Pass,
        decode: Pass,
        progress: Progress | None = None,
        about: Mapping[str, Any] | None = None,
        vectors: Mapping[str, Array] | None = None,
        last: LastRound = NOTHING,
    ) -> None:
        """As `Closing`; ``about`` and ``vectors`` go to a new journal.

        Raises `StorageError` where a file is not what the journal says, before anything is written.
        """
        if self.keep is not None and self.journal is None:
            self.layout = journaled(self.layout, self.in_place, self.team.ranks.size)
        source, layout = self.source, self.layout
        places: list[Place]
        with File(self.system, source.path, os.O_RDONLY) as given, ExitStack() as stack:
            targets = [stack.enter_context(written(self.system, home, self)) for home in self._homes]
            first, rows = source.rows(given), self._rows(targets)
            if self.keep is not None and self.team.is_first:
                self.team.begin(partial(self._begin, first, rows, about, vectors))
            if self.journal is not None:
                places, descending = self._places(self.journal, first, rows)
                self.journal.begin(targets, descending)
            else:
                places = [self._joined([first]), *[self._joined(rows)] * len(layout.rounds)]
                descending = [bool(number % 2) for number in range(len(layout.rounds))]
            log, room, places, team = self.journal, self.room, _worked_on(places, layout), self.team
            Closing(engine, layout, room, places, descending, encode, decode, progress, log, last, team).run()
            agreed(team.ranks, partial(self._end, targets))

    @property
    def _homes(self) -> list[Stored]:
        """What is written: the closure, and the pivots where they are kept."""
        return [self.home] if self.pivots is None else [self.home, self.pivots]

    def _rows(self, files: Sequence[File]) -> list[FileRows]:
        return [home.rows(file) for home, file in zip(self._homes, files, strict=True)]

    def _joined(self, places: Sequence[Place]) -> Place:
        """The place of strips, whose pivots have a place of their own from the first round on."""
        if self.pivots is None:
            return places[0]
        return PlaceWithPivots(places[0], places[1] if len(places) > 1 else PlaceWithoutPivots())

    def _begin(
        self,
        first: FileRows,
        rows: list[FileRows],
        about: Mapping[str, Any] | None,
        vectors: Mapping[str, Array] | None,
    ) -> None:
        """Make sure that all is as the journal says that was found; or make a new one."""
        layout, source, journal = self.layout, self.source, self.journal
        assert self.keep is not None
        if journal is not None:
            self.system.sync_folder(os.path.dirname(os.path.abspath(self.keep)))  # it may have failed to be
            self._check(journal, first, *self._places(journal, first, rows))
            return
        found = self._sums([self._joined([first])] * len(layout.strips))
        own = {**(about or {}), "changed": _changed(source.path)}
        vectors = {**(vectors or {}), "sums": found}
        phases = [each.phase(layout.n) for each in rows]
        self.journal = create(self.system, self.keep, own, vectors, layout, found, phases, self.team)

    def _end(self, targets: Sequence[File]) -> None:
        """All strips of all ranks are there."""
        if self.team.is_first:
            for target, home in zip(targets, self._homes, strict=True):
                complete(target, home)
            if self.journal is not None:
                self.journal.finish(self._changed())

    def _changed(self) -> int:
        """When what is written was changed last; of two files the sum, which is another after a change of either."""
        return sum(_changed(home.path) for home in self._homes)

    def check_finished(self) -> None:
        """Raise `StorageError` unless the files are those of the run that has finished."""
        if self.team.is_first:
            self.team.begin(self._check_finished)

    def _check_finished(self) -> None:
        assert self.journal is not None
        source, journal, system = self.source, self.journal, self.system
        with ExitStack() as stack:
            for home in self._homes:
                if not os.path.exists(home.path):
                    raise _other(home.path, "finished", "is gone")
            given, *targets = (
                stack.enter_context(File(system, each.path, os.O_RDONLY)) for each in (source, *self._homes)
            )
            if not self.in_place:
                self._check_source(journal, source.rows(given))
            if self._changed() != journal.state.changed:
                rows = self._joined(self._rows(targets))
                if not np.array_equal(self._sums([rows] * len(self.layout.strips)), journal.state.sums):
                    raise self._other("finished")

    @property
    def in_place(self) -> bool:
        """Whether the matrix is closed where it is."""
        return self.home.given is not None and self.home.overlaps(self.source)

    def _places(self, journal: Journal, first: FileRows, rows: list[FileRows]) -> tuple[list[Place], list[bool]]:
        """Where the rows are before each round and after the last, and which way each goes."""
        n, spares, moved = self.layout.n, journal.spares(), shifts(self.layout, self.in_place)
        places = [
            self._joined([Moved(*each, n, by) if by else each[0] for each in zip(rows, spares, strict=True)])
            for by in moved
        ]
        places[0] = self._joined([rows[0] if self.in_place else first])
        return places, [after > before for before, after in pairwise(moved)]

    def _check(self, journal: Journal, first: FileRows, places: list[Place], descending: list[bool]) -> None:
        """Raise `StorageError` unless all strips are as the journal says."""
        if not self.in_place:
            self._check_source(journal, first)
        state, count = journal.state, len(self.layout.strips)
        if state.round == len(self.layout.rounds):
            now = [places[-1]] * count
        else:
            order = list(range(count))
            if descending[state.round]:
                order.reverse()
            done = set(order[: state.done])
            now = [places[state.round + (which in done)] for which in range(count)]
        if not np.array_equal(self._sums(now), state.sums):
            raise self._other("stopped")

    def _check_source(self, journal: Journal, first: FileRows) -> None:
        if _changed(self.source.path) != journal.about["changed"]:
            found = self._sums([self._joined([first])] * len(self.layout.strips))
            if not np.array_equal(found, journal.vectors["sums"]):
                raise _other(self.source.path, "began")

    def _other(self, when: str) -> StorageError:
        return _other(" or ".join(home.path for home in self._homes), when)

    def _sums(self, places: list[Any]) -> Array:
        return checksums(_worked_on(places, self.layout), self.layout)


@dataclass
class HeldRun:
    """The same of arrays in the memory of the host, which a GPU works on: a journal could keep nothing of them."""

    source: Array
    home: Array
    layout: StripLayout
    room: Room
    threads: int
    keep: None = None
    journal: None = None

    def result(self) -> Array:
        """What the caller gets."""
        return self.home

    def ending(self, rows: int) -> None:
        """Let the last round have a panel of so many rows. Raises `StorageError` where there is no memory for them."""
        self.layout = _ending(self.layout, rows)

    def close(
        self,
        engine: Engine,
        encode: Pass,
        decode: Pass,
        progress: Progress | None = None,
        about: Mapping[str, Any] | None = None,
        vectors: Mapping[str, Array] | None = None,
        last: LastRound = NOTHING,
    ) -> None:
        """As `Closing`."""
        first, rows = Held(self.source, self.threads), Held(self.home, self.threads)
        try:
            count = len(self.layout.rounds)
            places = _worked_on([first, *[rows] * count], self.layout)
            descending = [bool(number % 2) for number in range(count)]
            room = self.room
            Closing(engine, self.layout, room, places, descending, encode, decode, progress, None, last).run()
        finally:
            first.close()
            rows.close()


def _ending(layout: StripLayout, rows: int) -> StripLayout:
    found = layout.ending(rows)
    if found.memory > layout.memory:
        raise StorageError(
            f"edges of unbounded gain leave {rows // 2} vertices, and a panel of {layout.panel} rows has no room for "
            "two each: give more memory"
        )
    return found


def _worked_on(places: list[Place], layout: StripLayout) -> list[Place]:
    """The places, of words where truth values are worked on in them."""
    return Packed.all(places, layout.n) if layout.packed else places


def complete(file: File, home: Stored) -> None:
    """All rows are there: a new file gets its header, when they are on the disk."""
    file.sync()
    if home.is_new:
        file.write(home.start - len(header(home)), np.frombuffer(header(home), np.uint8))
        file.sync()


def _other(path: str, when: str, what: str = "has been changed") -> StorageError:
    return StorageError(f"{path} {what} since the run of this journal {when}: put it back, or remove the journal")


def _changed(path: str) -> int:
    return os.stat(path).st_mtime_ns


@contextmanager
def written(system: System, home: Stored, run: Run | None = None) -> Iterator[File]:
    """A file that is written. A new one has room for all before the first row is written.

    Where all fails, a new one is removed: but for one that a journal knows.
    """
    found = run is not None and run.journal is not None  # by an earlier run
    new = home.is_new and not found
    if found and not os.path.exists(home.path):
        raise _other(home.path, "stopped", "is gone")
    file = File(system, home.path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0))
    try:
        if new:
            file.allocate(home.start + home.size)
            system.sync_folder(os.path.dirname(os.path.abspath(home.path)))
        yield file
    except BaseException:
        if new and not (run is not None and run.keep is not None and os.path.exists(run.keep)):
            system.remove(home.path)
        raise
    finally:
        file.close()
