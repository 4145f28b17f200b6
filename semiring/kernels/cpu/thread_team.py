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

import itertools
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

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
Result = TypeVar("Result")

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
def settle(mailbox: int) -> int:
    """Prevent the members from taking more blocks, and wait until the blocks that they took are finished.

    A mailbox whose blocks are finished stays unchanged. Return how many blocks were taken.
    """
    while True:
        word = atomic_load(mailbox)
        following = word & 0xFFFF
        if atomic_replace(mailbox, word, (word >> 32 << 32) | (following << 16) | following):
            break
    while atomic_load(mailbox + _FINISHED) < following:
        pause()
    return int(following)


class _ThreadTeam:
    """Threads with a mailbox, for one lease at a time. If the team is leased, other callers compute alone."""

    def __init__(self) -> None:
        self.words = _new_mailbox()
        self.mailbox = self.words.ctypes.data  # the address
        self.owner: Lease | None = None  # the lease whose jobs the team computes
        self.state_lock = threading.Lock()  # guards `sleepers`, and `owner` while it is None
        self.members = 1  # the caller is member 0
        self.numbers = itertools.count(1)  # of the threads
        self.sleepers: list[threading.Semaphore] = []  # a semaphore for each sleeping thread
        self.regulator = Regulator()
        self.serve, self.publish, self.finish, self.settle = map(compile_entry_point, (serve, publish, finish, settle))

    def grow(self, members: int) -> None:
        """Start threads. Each takes a number of its own, because Ctrl-C may leave a thread that is not counted."""
        while self.members < members:
            threading.Thread(target=self.work, name=f"semiring-team-{self.members}", daemon=True).start()
            self.members += 1

    def work(self) -> None:
        bell, member = threading.Semaphore(0), next(self.numbers)
        while True:
            last_generation = self.serve(self.mailbox, member, cpu_speed().patience)
            with self.state_lock:
                if int(self.words[0]) >> 42 != last_generation:
                    continue  # a job was published meanwhile
                if bell not in self.sleepers:
                    self.sleepers.append(bell)
            bell.acquire()

    def wake(self) -> None:
        """Wake the sleeping threads, while `state_lock` is held. Ctrl-C may wake one twice, and loses none."""
        while self.sleepers:
            self.sleepers[-1].release()
            self.sleepers.pop()


class Lease:
    """A lease of the team, or of the caller alone, for jobs that are published one after the other.

    Attributes
    ----------
    mailbox, members
        The address for jobs, and how many threads may work on them.
    """

    def __init__(self, team: _ThreadTeam) -> None:
        self._team = team

    def begin(self, members: int) -> None:
        """Lease the team for up to ``members`` threads, unless another caller has leased it."""
        team = self._team
        if members > 1:
            with team.state_lock:
                if team.owner is None:
                    team.owner = self
        if team.owner is self:
            self.members = min(members, MAX_MEMBERS)
            team.grow(self.members)
            self._words, self.mailbox = team.words, team.mailbox
        else:
            self.members, self._words = 1, _new_mailbox()
            self.mailbox = self._words.ctypes.data

    def wake(self) -> None:
        """Wake the sleeping threads before jobs are published. A thread that falls asleep later does not help."""
        if self.members > 1:
            with self._team.state_lock:
                self._team.wake()

    def run(self, job: Array, blocks: int, kind: Hashable, most: int, reports: bool) -> None:
        """Compute a job, ``most`` blocks between two tests for Ctrl-C."""
        team, start = self._team, time.perf_counter()
        with team.state_lock:
            if self.members > 1:
                team.wake()
            team.publish(self.mailbox, job.ctypes.data, blocks, self.members)
        began = time.thread_time()
        while not (is_finished := team.finish(self.mailbox, blocks, most, 0)):
            if reports:
                report_part(int(self._words[_FINISHED // 8]), blocks)
            if self._words[0] & 0xFFFF >= blocks:
                break
        own_seconds = time.thread_time() - began
        if not is_finished:
            self.wait(blocks)
        if self.members > 1:
            own_blocks = max(1, int(self._words[_OWN // 8]))
            team.regulator.record(kind, time.perf_counter() - start, own_seconds * blocks / own_blocks)

    def wait(self, blocks: int) -> None:
        """Compute blocks of the job published last until all its blocks are finished."""
        while not self._team.finish(self.mailbox, blocks, MAX_BLOCKS, cpu_speed().patience):
            time.sleep(0)  # another thread has a long block, or lost its core: yield this core to it


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
    with_team(helpful_threads(members, kind), lambda lease: lease.run(job, blocks, kind, most, reports))


def with_team(members: int, use: Callable[[Lease], Result]) -> Result:
    """Return ``use(lease)`` for a lease of up to ``members`` threads, or of the caller alone if the team is leased.

    After the return or an exception no thread works on a job of the lease: the caller may free the job and its
    matrices. An exception cancels the blocks that wait. No further Ctrl-C ends the wait for the blocks that have begun,
    because Python raises it between two of its instructions, and the wait is one native call.
    """
    team = _team_of_process()
    lease = Lease(team)
    try:
        lease.begin(members)
        result = use(lease)
    except BaseException:
        if team.owner is lease:
            team.settle(team.mailbox)
        raise
    finally:  # without a call, so that Ctrl-C cannot leave the team leased
        if team.owner is lease:
            team.owner = None
    return result


def _new_mailbox() -> Array:
    """Return the words of a new mailbox."""
    memory = np.zeros(5 * _LINE // 8, np.int64)
    start = -memory.ctypes.data % _LINE // 8
    return memory[start : start + 4 * _LINE // 8]
