"""Run a closure by strips from one file to another or in place, with or without a journal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from semiring.distributed.transports import SINGLE_RANK, Communicator, agree
from semiring.errors import StorageError
from semiring.kernels.engine import Engine
from semiring.namespaces import Array
from semiring.out_of_core.buffer_pools import BufferPool
from semiring.out_of_core.disk import (
    File,
    FileRows,
    HostRows,
    PackedRows,
    RowStore,
    ShiftedRows,
    System,
)
from semiring.out_of_core.journal import Journal, add_journal, checksums, create_journal, row_shifts
from semiring.out_of_core.last_round import LastRound
from semiring.out_of_core.rounds import Progress, RowTransform, StripClosure
from semiring.out_of_core.stored_matrix import StoredMatrix, header
from semiring.out_of_core.strip_layout import StripLayout

__all__ = ["FileRun", "HostArrayRun", "complete_file", "open_for_writing"]


@dataclass
class FileRun:
    """The closure of a matrix in one file by strips, with the result in a file.

    Attributes
    ----------
    system
        The system calls.
    source, target
        The matrix, and the matrix that its closure overwrites. Both may be the same part of one file.
    layout, pool
        The strips and rounds, and the buffers.
    journal_name
        The name of the journal, which the run creates unless ``journal`` exists. None means no journal.
    journal
        An existing journal, from which the run resumes.
    communicator
        The ranks of the run.
    """

    system: System
    source: StoredMatrix
    target: StoredMatrix
    layout: StripLayout
    pool: BufferPool
    journal_name: str | None = None
    journal: Journal | None = None
    communicator: Communicator = SINGLE_RANK

    def close(
        self,
        engine: Engine,
        encode: RowTransform,
        decode: RowTransform,
        progress: Progress | None = None,
        about: Mapping[str, Any] | None = None,
        vectors: Mapping[str, Array] | None = None,
        last_round: LastRound | None = None,
    ) -> None:
        """Compute and write the closure.

        The parameters are those of `StripClosure`. A new journal stores ``about`` and ``vectors``. Before the first
        write it raises `StorageError` if a file differs from its description in the journal.
        """
        if self.journal_name is not None and self.journal is None:
            self.layout = add_journal(self.layout, self.is_in_place, self.communicator.ranks.size)
        source, layout = self.source, self.layout
        stores: list[RowStore]
        with (
            File(self.system, source.path, os.O_RDONLY) as source_file,
            open_for_writing(self.system, self.target, self) as file,
        ):
            source_rows, rows = source.rows(source_file), self.target.rows(file)
            if self.journal_name is not None and self.communicator.is_first:
                self.communicator.begin(partial(self._begin, source_rows, rows, about, vectors))
            if self.journal is not None:
                stores, descending = self._stores(self.journal, source_rows, rows)
                self.journal.begin(file, descending)
            else:
                stores = [source_rows, *[rows] * len(layout.rounds)]
                descending = [bool(number % 2) for number in range(len(layout.rounds))]
            listener, pool, stores = self.journal, self.pool, _in_kernel_form(stores, layout)
            communicator = self.communicator
            StripClosure(
                engine, layout, pool, stores, descending, encode, decode, progress, listener, last_round, communicator
            ).run()
            agree(communicator.ranks, partial(self._end, file))

    def _begin(
        self,
        source_rows: FileRows,
        rows: FileRows,
        about: Mapping[str, Any] | None,
        vectors: Mapping[str, Array] | None,
    ) -> None:
        """Check the file against an existing journal, or create a journal."""
        layout, source, journal = self.layout, self.source, self.journal
        assert self.journal_name is not None
        if journal is not None:
            # The run that created the journal may have stopped before it synced the folder.
            self.system.sync_folder(os.path.dirname(os.path.abspath(self.journal_name)))
            self._check(journal, source_rows, *self._stores(journal, source_rows, rows))
            return
        sums = self._compute_sums([source_rows] * len(layout.strips))
        own = {**(about or {}), "changed": _modification_time(source.path)}
        vectors = {**(vectors or {}), "sums": sums}
        page_offset = rows.page_offset(layout.n)
        self.journal = create_journal(
            self.system, self.journal_name, own, vectors, layout, sums, page_offset, self.communicator
        )

    def _end(self, file: File) -> None:
        """Complete the file after all ranks have written their strips, and record the end of the run."""
        if self.communicator.is_first:
            complete_file(file, self.target)
            if self.journal is not None:
                self.journal.finish(_modification_time(self.target.path))

    def check_finished(self) -> None:
        """Raise `StorageError` unless the files are those of the run that has finished."""
        if self.communicator.is_first:
            self.communicator.begin(self._check_finished)

    def _check_finished(self) -> None:
        assert self.journal is not None
        source, target, journal, system = self.source, self.target, self.journal, self.system
        if not os.path.exists(target.path):
            raise _changed_file_error(target.path, "finished", "is gone")
        with File(system, source.path, os.O_RDONLY) as source_file, File(system, target.path, os.O_RDONLY) as file:
            if not self.is_in_place:
                self._check_source(journal, source.rows(source_file))
            if _modification_time(target.path) != journal.state.modification_time:
                stores = [target.rows(file)] * len(self.layout.strips)
                if not np.array_equal(self._compute_sums(stores), journal.state.sums):
                    raise _changed_file_error(target.path, "finished")

    @property
    def is_in_place(self) -> bool:
        """Whether the closure overwrites the matrix."""
        return not self.target.is_new and self.target.overlaps(self.source)

    def _stores(self, journal: Journal, source_rows: FileRows, rows: FileRows) -> tuple[list[RowStore], list[bool]]:
        """Return the stores of the rows before each round and after the last, and whether each round descends."""
        n, spare_rows, shifts = self.layout.n, journal.spare_rows(), row_shifts(self.layout, self.is_in_place)
        stores: list[RowStore] = [ShiftedRows(rows, spare_rows, n, shift) if shift else rows for shift in shifts]
        stores[0] = rows if self.is_in_place else source_rows
        return stores, [after > before for before, after in pairwise(shifts)]

    def _check(self, journal: Journal, source_rows: FileRows, stores: list[RowStore], descending: list[bool]) -> None:
        """Raise `StorageError` unless all strips have the checksums of the journal."""
        if not self.is_in_place:
            self._check_source(journal, source_rows)
        state, count = journal.state, len(self.layout.strips)
        if state.round == len(self.layout.rounds):
            current_stores = [stores[-1]] * count
        else:
            order = list(range(count))
            if descending[state.round]:
                order.reverse()
            strips_done = set(order[: state.strips_done])
            current_stores = [stores[state.round + (which in strips_done)] for which in range(count)]
        if not np.array_equal(self._compute_sums(current_stores), state.sums):
            raise _changed_file_error(self.target.path, "stopped")

    def _check_source(self, journal: Journal, source_rows: FileRows) -> None:
        """Raise `StorageError` if the input has changed since the journal was created."""
        if _modification_time(self.source.path) != journal.about["changed"]:
            sums = self._compute_sums([source_rows] * len(self.layout.strips))
            if not np.array_equal(sums, journal.vectors["sums"]):
                raise _changed_file_error(self.source.path, "began")

    def _compute_sums(self, stores: list[Any]) -> Array:
        return checksums(_in_kernel_form(stores, self.layout), self.layout)


@dataclass
class HostArrayRun:
    """The closure of an array in the memory of the host by strips on a GPU, with the result in another array.

    It has no journal, because the arrays do not survive the process.
    """

    source: Array
    target: Array
    layout: StripLayout
    pool: BufferPool
    journal_name: None = None
    journal: None = None

    def close(
        self,
        engine: Engine,
        encode: RowTransform,
        decode: RowTransform,
        progress: Progress | None = None,
        about: Mapping[str, Any] | None = None,
        vectors: Mapping[str, Array] | None = None,
        last_round: LastRound | None = None,
    ) -> None:
        """Compute the closure, with the parameters of `StripClosure`. ``about`` and ``vectors`` are ignored."""
        count = len(self.layout.rounds)
        stores = _in_kernel_form([HostRows(self.source), *[HostRows(self.target)] * count], self.layout)
        descending = [bool(number % 2) for number in range(count)]
        pool = self.pool
        StripClosure(engine, self.layout, pool, stores, descending, encode, decode, progress, None, last_round).run()


def _in_kernel_form(stores: list[RowStore], layout: StripLayout) -> list[RowStore]:
    """Return the stores, or stores of words if the kernels compute packed truth values."""
    return [PackedRows(store, layout.n) for store in stores] if layout.packed else stores


def complete_file(file: File, matrix: StoredMatrix) -> None:
    """Sync the rows of a file to the disk, and then write the header of a new file."""
    file.sync()
    if matrix.is_new:
        file.write(matrix.start - len(header(matrix)), np.frombuffer(header(matrix), np.uint8))
        file.sync()


def _changed_file_error(path: str, event: str, change: str = "has been changed") -> StorageError:
    """Return the error for a file that was changed since the run of a journal ``event``: began, stopped or finished."""
    return StorageError(f"{path} {change} since the run of this journal {event}: put it back, or remove the journal")


def _modification_time(path: str) -> int:
    return os.stat(path).st_mtime_ns


@contextmanager
def open_for_writing(system: System, matrix: StoredMatrix, run: FileRun | None = None) -> Iterator[File]:
    """Open the file of a matrix for writing, and yield it. A new file is allocated before the first write.

    If the context raises, a new file is removed, unless the journal of the run refers to it.
    """
    resumes = run is not None and run.journal is not None
    new = matrix.is_new and not resumes
    if resumes and not os.path.exists(matrix.path):
        raise _changed_file_error(matrix.path, "stopped", "is gone")
    file = File(system, matrix.path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if new else 0))
    try:
        if new:
            file.allocate(matrix.start + matrix.size)
            system.sync_folder(os.path.dirname(os.path.abspath(matrix.path)))
        yield file
    except BaseException:
        if new and not (run is not None and run.journal_name is not None and os.path.exists(run.journal_name)):
            system.remove(matrix.path)
        raise
    finally:
        file.close()
