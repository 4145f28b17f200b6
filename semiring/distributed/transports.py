"""Define how ranks exchange values, and how panels are sent while a rank computes.

A rank has two objects. `Ranks` are the collective operations on Python objects and arrays of the host. `Transport`
sends arrays from the memory in which the engine of the rank computes. On the host, kernels run in the calling thread,
so a separate thread sends the panels. On a GPU all operations are enqueued on streams
(`semiring.distributed.gpu_transports`).

`ThreadRanks` are threads of one process. There is one thread for each GPU. On the host, the tests run the distributed
algorithm in threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from semiring.errors import DivergenceError, SemiringError
from semiring.kernels.engine import Engine
from semiring.namespaces import Array
from semiring.progress import wait_to_end

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from semiring.distributed.grid import Grid

__all__ = [
    "COMMUNICATION",
    "PANELS",
    "REMAINDER",
    "SINGLE_RANK",
    "Communicator",
    "Groups",
    "HostTransport",
    "Ranks",
    "SingleRank",
    "StoppedError",
    "ThreadRanks",
    "Transport",
    "agree",
    "run_ranks",
]


PANELS, COMMUNICATION, REMAINDER = 0, 1, 3  # the numbers of lanes, by descending priority


class StoppedError(SemiringError):
    """The error of a rank that ends because another rank has failed."""


class Ranks(Protocol):
    """The collective operations of some ranks. All ranks must make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """Return the number of this rank, from 0 on."""
        ...

    @property
    def size(self) -> int:
        """Return the number of ranks."""
        ...

    def allgather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, by rank."""
        ...

    def exchange(self, values: list[Any]) -> list[Any]:
        """Send ``values[rank]`` to each rank, and return the values received, by rank."""
        ...

    def broadcast(self, array: Array, root: int) -> None:
        """Copy a C-contiguous array of the host from the rank ``root`` into the arrays of all ranks."""
        ...

    def join(self, octets: Array) -> None:
        """Combine octets (uint8) in place on all ranks. Each octet is 0 on all ranks but one."""
        ...

    def split(self, group: int, order: int) -> Ranks:
        """Return the ranks that pass the same group, sorted by ``order``."""
        ...

    def stop(self, error: BaseException) -> None:
        """End all ranks after an error of this rank, because other ranks may wait for it.

        The call may not return.
        """
        ...


def agree(ranks: Ranks, task: Callable[[], Any]) -> Any:
    """Return the result of ``task`` on this rank, after all ranks have called it.

    If ``task`` raises on some rank, all ranks raise the error of the first such rank.
    """
    try:
        value, error = task(), None
    except Exception as found:
        value, error = None, found
    errors = [(rank, each) for rank, each in enumerate(ranks.allgather(error)) if each is not None]
    if not errors:
        return value
    rank, first = errors[0]
    if error is not None and rank == ranks.rank:
        first = error  # the local exception, which has a traceback
    first.everywhere = True
    raise first


class SingleRank:
    """The `Ranks` of a process without other ranks."""

    rank, size = 0, 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def exchange(self, values: list[Any]) -> list[Any]:
        return values

    def broadcast(self, array: Array, root: int) -> None: ...

    def join(self, octets: Array) -> None: ...

    def split(self, group: int, order: int) -> SingleRank:
        return self

    def stop(self, error: BaseException) -> None: ...


class Communicator:
    """Ranks of which the first begins a task, and the other ranks continue it."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.has_begun = ranks, False

    @property
    def is_first(self) -> bool:
        """Return whether this rank begins the task."""
        return self.ranks.rank == 0

    def begin(self, task: Callable[[], Any] = lambda: None) -> Any:
        """Return the result of ``task`` on this rank.

        Each rank calls the method once. The other ranks call it as the first step of the task.
        """
        self.has_begun = True
        return agree(self.ranks, task)

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Return a context for a task of all ranks.

        An error of the first rank before it has begun is raised on all ranks. A later error that is not raised on all
        ranks ends all of them.
        """
        try:
            if not self.is_first:
                self.begin()
            yield
        except BaseException as error:
            if not self.has_begun and isinstance(error, Exception):
                self.begin(partial(_raise_error, error))
            if not (getattr(error, "everywhere", False) or isinstance(error, StoppedError | DivergenceError)):
                self.ranks.stop(error)
            raise


def _raise_error(error: Exception) -> None:
    raise error


SINGLE_RANK = Communicator(SingleRank())


class Groups:
    """The groups of ranks in a grid: all ranks, and the row and the column of this one."""

    def __init__(self, ranks: Ranks, grid: Grid) -> None:
        p, q = grid.place(ranks.rank)
        self.all, self.row, self.column = ranks, ranks.split(p, q), ranks.split(grid.shape[0] + q, p)

    def __getitem__(self, name: str) -> Ranks:
        result: Ranks = getattr(self, name)
        return result


class Transport(Protocol):
    """The operations that send panels between ranks while they compute."""

    @property
    def rank(self) -> int:
        """Return the number of this rank among all."""
        ...

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """Copy an array of one rank into the arrays of a group: ``"row"``, ``"column"`` or ``"all"``.

        ``root`` counts within the group. The array is C-contiguous, in the memory where the engine computes.
        """
        ...

    def lanes(self, engine: Engine, *, has_concurrent_work: bool = True) -> Any:
        """Return lanes like those of an engine, with an additional ``wait(mark)``.

        The lanes are a context. An error in the context stops all ranks. ``has_concurrent_work``: whether tasks can run
        concurrently. In one memory, a single block is closed without lanes.
        """
        ...


class HostTransport:
    """The transport between arrays of the host.

    Attributes
    ----------
    received_bytes
        The bytes received by this rank.
    transfer_seconds
        The seconds spent in broadcasts.
    waiting_seconds
        The seconds for which the calling thread waited for broadcasts.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups, self.rank = groups, groups.all.rank
        self.received_bytes, self.transfer_seconds, self.waiting_seconds = 0, 0.0, 0.0
        self.computing_thread: int | None = None  # the thread that computes, while lanes exist

    def broadcast(self, array: Array, root: int, group: str) -> None:
        ranks = self._groups[group]
        if ranks.size > 1 and array.size:
            start = time.perf_counter()
            ranks.broadcast(array, root)
            seconds = time.perf_counter() - start
            self.transfer_seconds += seconds
            if threading.get_ident() == self.computing_thread:  # the thread does no other work meanwhile
                self.waiting_seconds += seconds
            self.received_bytes += array.nbytes * (ranks.rank != root)

    def lanes(self, engine: Engine, *, has_concurrent_work: bool = True) -> _HostLanes:
        return _HostLanes(self, self._groups.all, engine)


class _HostLanes:
    """Lanes of the host: a thread sends panels, and the calling thread computes."""

    def __init__(self, transport: HostTransport, ranks: Ranks, engine: Engine) -> None:
        self._transport, self._ranks, self._engine = transport, ranks, engine
        from concurrent.futures import ThreadPoolExecutor

        self._transfer_thread = ThreadPoolExecutor(1, "transfer")

    def __enter__(self) -> _HostLanes:
        self._transport.computing_thread = threading.get_ident()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._transport.computing_thread = None
        if error is not None:
            self._ranks.stop(error)
        self._transfer_thread.shutdown(wait=True, cancel_futures=error is not None)

    def reserve(self, number: int, entries: int) -> None:
        self._engine.reserve(entries)

    def run(self, number: int, task: Callable[[Engine], None], *marks: Future[None] | None) -> Future[None] | None:
        if number == COMMUNICATION:
            return self._transfer_thread.submit(task, self._engine)
        for other in marks:
            self.wait(other)
        task(self._engine)
        return None

    def wait(self, mark: Future[None] | None) -> None:
        if mark is not None:
            start = time.perf_counter()
            mark.result()
            self._transport.waiting_seconds += time.perf_counter() - start


class _Barrier:
    """A barrier of some threads, with a place for the value of each thread."""

    def __init__(self, size: int, run_barriers: list[_Barrier]) -> None:
        self.barrier = threading.Barrier(size)
        self.places: list[Any] = [None] * size
        self.run_barriers = run_barriers  # all barriers of a run, which a rank that fails aborts
        run_barriers.append(self)


class ThreadRanks:
    """The `semiring.distributed.transports.Ranks` of the threads of one process."""

    def __init__(self, barrier: _Barrier, rank: int) -> None:
        self._barrier, self.rank, self.size = barrier, rank, len(barrier.places)

    def allgather(self, value: Any) -> list[Any]:
        self._barrier.places[self.rank] = value
        self._wait_for_ranks()
        values = list(self._barrier.places)
        self._wait_for_ranks()
        return values

    def exchange(self, values: list[Any]) -> list[Any]:
        return [messages[self.rank] for messages in self.allgather(values)]

    def broadcast(self, array: Array, root: int) -> None:
        if self.rank == root:
            self._barrier.places[root] = array
        self._wait_for_ranks()
        if self.rank != root:
            array[...] = self._barrier.places[root]
        self._wait_for_ranks()

    def join(self, octets: Array) -> None:
        parts = self.allgather(octets)
        whole = np.bitwise_or.reduce(parts)
        self._wait_for_ranks()
        octets[...] = whole

    def split(self, group: int, order: int) -> ThreadRanks:
        requests = self.allgather((group, order, self.rank))
        members = sorted(one[1:] for one in requests if one[0] == group)
        own = members.index((order, self.rank))
        meeting = _Barrier(len(members), self._barrier.run_barriers) if own == 0 else None
        barriers = {one[0]: one[1] for one in self.allgather((group, meeting)) if one[1] is not None}
        return ThreadRanks(barriers[group], own)

    def stop(self, error: BaseException) -> None:
        for group_barrier in list(self._barrier.run_barriers):
            group_barrier.barrier.abort()

    def _wait_for_ranks(self) -> None:
        """Wait for the other threads. Raises `StoppedError` if one of them has failed."""
        try:
            self._barrier.barrier.wait()
        except threading.BrokenBarrierError:
            raise StoppedError("another rank has failed") from None


def run_ranks(size: int, task: Callable[[ThreadRanks], Any], pool: ThreadPoolExecutor | None = None) -> list[Any]:
    """Return the results of ``do(ranks)`` in ``size`` threads, by rank.

    If some threads raise, the function raises the error of the first that failed. ``pool`` is an idle executor with at
    least ``size`` threads; by default a new one is created.
    """
    first, results, errors = _Barrier(size, []), [None] * size, []
    interruptions: list[BaseException] = []
    all_submitted = threading.Event()  # a caller that is interrupted before does not know which threads it started

    def run(rank: int) -> None:
        ranks = ThreadRanks(first, rank)
        try:
            all_submitted.wait()
            if interruptions:
                raise StoppedError("the caller was interrupted")
            results[rank] = task(ranks)
        except BaseException as error:
            errors.append(error)
            ranks.stop(error)

    from concurrent.futures import ThreadPoolExecutor, wait

    threads = pool or ThreadPoolExecutor(size, "rank")
    running: list[Future[None]] = []

    def wait_until_stopped(error: BaseException) -> None:
        interruptions.append(error)
        ThreadRanks(first, 0).stop(error)
        all_submitted.set()
        wait(running)

    try:
        running.extend(threads.submit(run, rank) for rank in range(size))
        all_submitted.set()
        wait(running)
    except BaseException as error:  # an interrupt arrives in this thread: all ranks end before it is raised
        wait_to_end(partial(wait_until_stopped, error))
        raise
    finally:
        if pool is None:
            wait_to_end(threads.shutdown)
    if errors:
        raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
    return results
