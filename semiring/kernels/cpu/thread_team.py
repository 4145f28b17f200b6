"""Products on several threads, distributed without Python.

A closure is a chain of products, and many of them take less time than waking a thread. So the threads of the team wait
in native code, without the GIL, for a fraction of a millisecond. They take blocks of a product by one atomic word. Then
they sleep until they are woken. The blocks write different entries, each in a fixed order, so results do not depend on
which thread computes a block.

A *mailbox* is four cache lines. The first holds the word: generation, members, blocks, and the next block to take. The
thread that changes it from ``next`` to ``next + 1`` has taken that block. The job stays unchanged until the block is
finished. The other lines hold the address of the job, how many blocks are finished, and how many the caller computed.

    job: 26 integers, first the address of the function that computes a block, as `macro_kernel.describe` writes them;
         4 integers for each block; and the address of a workspace for each member
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.kernels.cpu.codegen.jit import compile_entry_point, inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import (
    atomic_add,
    atomic_load,
    atomic_replace,
    atomic_store,
    call3,
    fetch,
    pause,
)
from semiring.kernels.cpu.thread_pool import Regulator
from semiring.kernels.machines import cpu_speed
from semiring.progress import report_part

Array: TypeAlias = NDArray[Any]

HEADER = 26
MAX_BLOCKS = (1 << 16) - 1
MAX_MEMBERS = (1 << 10) - 1
_LINE = 64
_JOB, _FINISHED, _OWN = _LINE, 2 * _LINE, 3 * _LINE  # offsets in the mailbox


@inner
def take_blocks(mailbox: int, member: int, most: int) -> int:
    """Compute up to ``most`` blocks of the published jobs, until all are taken.

    Return the generation of the last job.
    """
    while True:
        word = atomic_load(mailbox)
        blocks, following = (word >> 16) & 0xFFFF, word & 0xFFFF
        if following >= blocks or member >= (word >> 32) & 0x3FF or most <= 0:
            return int(word >> 42)
        if not atomic_replace(mailbox, word, word + 1):
            continue
        job = atomic_load(mailbox + _JOB)
        cut = job + 8 * (HEADER + 4 * following)
        workspace = fetch(word, job + 8 * (HEADER + 4 * blocks + member))
        call3(fetch(word, job), (job, cut, workspace))
        atomic_add(1, mailbox + _FINISHED)
        if member == 0:
            atomic_add(1, mailbox + _OWN)
        most -= 1


@kernel
def serve(mailbox: int, member: int, patience: int) -> int:
    """Wait for jobs and compute them, until no job is published for ``patience`` pauses.

    Return the generation of the last job.
    """
    last_generation = take_blocks(mailbox, member, MAX_BLOCKS)
    waited = 0
    while waited < patience:
        generation = atomic_load(mailbox) >> 42
        if generation != last_generation:
            last_generation = take_blocks(mailbox, member, MAX_BLOCKS)
            waited = 0
        pause()
        waited += 1
    return int(last_generation)


@kernel
def publish(mailbox: int, job: int, blocks: int, members: int) -> int:
    """Offer a job to the members below ``members``."""
    generation = (atomic_load(mailbox) >> 42) + 1
    atomic_store(job, mailbox + _JOB)
    atomic_store(0, mailbox + _FINISHED)
    atomic_store(0, mailbox + _OWN)
    atomic_store(((generation & 0xFFFFF) << 42) | (members << 32) | (blocks << 16), mailbox)
    return int(generation & 0xFFFFF)


@kernel
def finish(mailbox: int, blocks: int, most: int, patience: int) -> int:
    """Compute up to ``most`` blocks of the job as member 0, then wait for the other members once no block is left.

    Return whether all are finished.
    """
    take_blocks(mailbox, 0, most)
    word, waited = atomic_load(mailbox), 0
    if word & 0xFFFF < (word >> 16) & 0xFFFF:
        return 0
    while atomic_load(mailbox + _FINISHED) < blocks and waited < patience:
        pause()
        waited += 1
    return int(atomic_load(mailbox + _FINISHED) == blocks)


@kernel
def cancel(mailbox: int) -> int:
    """Prevent the members from taking more blocks of the job, and return how many were taken."""
    while True:
        word = atomic_load(mailbox)
        blocks, following = (word >> 16) & 0xFFFF, word & 0xFFFF
        if atomic_replace(mailbox, word, (word >> 16 << 16) | blocks):
            return int(following)


class _ThreadTeam:
    """Threads with a mailbox, for one job at a time. If the team computes another job, the caller computes alone."""

    def __init__(self) -> None:
        self.memory, self.mailbox = _new_mailbox()
        self.job_lock = threading.Lock()  # held by the caller whose job the team computes
        self.state_lock = threading.Lock()  # guards the fields below
        self.members = 1  # the caller is member 0
        self.sleepers: list[threading.Semaphore] = []  # a semaphore for each sleeping thread
        self.regulator = Regulator()
        self.serve, self.publish, self.finish, self.cancel = map(compile_entry_point, (serve, publish, finish, cancel))

    def grow(self, members: int) -> None:
        while self.members < members:
            threading.Thread(
                target=self.work, args=(self.members,), name=f"semiring-team-{self.members}", daemon=True
            ).start()
            self.members += 1

    def work(self, member: int) -> None:
        bell = threading.Semaphore(0)
        while True:
            last_generation = self.serve(self.mailbox, member, cpu_speed().patience)
            with self.state_lock:
                if self.generation() != last_generation:
                    continue  # a job was published meanwhile
                self.sleepers.append(bell)
            bell.acquire()

    def generation(self) -> int:
        """Return the number of the job published last."""
        return _read_word(self.memory, self.mailbox) >> 42

    def run(self, job: Array, blocks: int, members: int, most: int, reports: bool, kind: Hashable) -> None:
        """Compute a job on ``members`` threads while ``job_lock`` is held.

        After the return or an exception no thread works on the job. An exception cancels the blocks that wait.
        """
        start = time.perf_counter()
        if self.members < members:
            self.grow(members)
        before = self.generation()
        try:
            with self.state_lock:
                waiting, self.sleepers = self.sleepers, []
                for bell in waiting:
                    bell.release()
                self.publish(self.mailbox, job.ctypes.data, blocks, members)
            began = time.thread_time()
            self.take(blocks, most, reports)
            own_seconds = time.thread_time() - began
            self.wait(blocks)
        # After Ctrl-C the other threads continue, and the caller may free the job and its matrices.
        except BaseException:
            if self.generation() != before:
                self.wait(min(blocks, self.cancel(self.mailbox)))
            raise
        own_blocks = max(1, _read_word(self.memory, self.mailbox + _OWN))
        self.regulator.record(kind, time.perf_counter() - start, own_seconds * blocks / own_blocks)

    def take(self, blocks: int, most: int, reports: bool) -> None:
        """Compute blocks of the published job, ``most`` between two tests for Ctrl-C, until all are taken."""
        while not self.finish(self.mailbox, blocks, most, 0):
            if reports:
                report_part(_read_word(self.memory, self.mailbox + _FINISHED), blocks)
            word = _read_word(self.memory, self.mailbox)
            if word & 0xFFFF >= (word >> 16) & 0xFFFF:
                return

    def wait(self, blocks: int) -> None:
        """Compute blocks of the published job until all are finished."""
        while not self.finish(self.mailbox, blocks, MAX_BLOCKS, cpu_speed().patience):
            time.sleep(0)  # another thread has a long block, or lost its core: yield this core to it


def _read_word(memory: Array, address: int) -> int:
    """Return the integer at an address inside an array of bytes."""
    start = address - memory.ctypes.data
    return int(memory[start : start + 8].view(np.int64)[0])


_team: _ThreadTeam | None = None
_creation = threading.Lock()


def _renew() -> None:
    """Replace the team after a fork, because the child has no threads, and locks may stay locked."""
    global _team, _creation
    _team, _creation = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _team_of_process() -> _ThreadTeam:
    """Return the team of this process."""
    global _team
    if _team is None:
        with _creation:
            if _team is None:
                _team = _ThreadTeam()
    return _team


def helpful_threads(threads: int, kind: Hashable) -> int:
    """Return ``threads``, or 1 while jobs of a kind lose time with other threads (`Regulator`).

    A caller that asks before it cuts a job can leave out what several threads need.
    """
    return threads if threads == 1 or _team is None or _team.regulator.allows(kind) else 1


def run_blocks(
    job: Array, blocks: int, members: int, kind: Hashable, most: int = MAX_BLOCKS, *, reports: bool = False
) -> None:
    """Compute a job, an array of int64 as described above, on up to ``members`` threads.

    Between two tests for Ctrl-C, the caller computes at most ``most`` blocks. With ``reports`` it then reports the
    blocks that are finished as progress. ``kind``: what the job computes, and the size of its work. The jobs of a kind
    decide together whether other threads save time (`Regulator`).
    """
    team = _team_of_process()
    if members > 1 and team.regulator.allows(kind) and team.job_lock.acquire(blocking=False):
        try:
            team.run(job, blocks, min(members, MAX_MEMBERS), most, reports, kind)
        finally:
            team.job_lock.release()
    else:
        memory, mailbox = _new_mailbox()
        team.publish(mailbox, job.ctypes.data, blocks, 1)
        while not team.finish(mailbox, blocks, most, 1):
            if reports:
                report_part(_read_word(memory, mailbox + _FINISHED), blocks)
        del memory


def _new_mailbox() -> tuple[Array, int]:
    """Return the memory of a new mailbox, and its address."""
    memory = np.zeros(4 * _LINE, np.uint8)
    return memory, memory.ctypes.data + -memory.ctypes.data % _LINE


class Lease:
    """A lease of the team for a loop in native code that publishes jobs, one after the other.

    Attributes
    ----------
    mailbox, members
        The address for jobs, and how many threads may work on them.
    """

    def __init__(self, team: _ThreadTeam, mailbox: int, members: int) -> None:
        self._team, self.mailbox, self.members = team, mailbox, members

    def wake(self) -> None:
        """Wake the sleeping threads before jobs are published. A thread that falls asleep later does not help."""
        if self.members > 1:
            with self._team.state_lock:
                waiting, self._team.sleepers = self._team.sleepers, []
            for bell in waiting:
                bell.release()

    def wait(self, blocks: int) -> None:
        """Compute blocks of the job published last until all its blocks are finished, even if Ctrl-C interrupts."""
        try:
            self._wait(blocks)
        except BaseException:
            self._wait(blocks)
            raise

    def _wait(self, blocks: int) -> None:
        while not self._team.finish(self.mailbox, blocks, MAX_BLOCKS, cpu_speed().patience):
            time.sleep(0)


@contextmanager
def lease(members: int) -> Iterator[Lease]:
    """Return a context with up to ``members`` threads, or with the caller alone if the team computes another job."""
    team = _team_of_process()
    if members > 1 and team.job_lock.acquire(blocking=False):
        try:
            members = min(members, MAX_MEMBERS)
            team.grow(members)
            yield Lease(team, team.mailbox, members)
        finally:
            team.job_lock.release()
    else:
        memory, mailbox = _new_mailbox()
        yield Lease(team, mailbox, 1)
        del memory
