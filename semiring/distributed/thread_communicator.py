"""Implement the operations of `Ranks` for threads of one process.

There is one thread for each GPU. On the host, the tests run the distributed algorithm in threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

import numpy as np

from semiring.distributed.transports import StoppedError
from semiring.namespaces import Array

__all__ = ["ThreadRanks", "run_ranks"]


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

    def run(rank: int) -> None:
        ranks = ThreadRanks(first, rank)
        try:
            results[rank] = task(ranks)
        except BaseException as error:
            errors.append(error)
            ranks.stop(error)

    with nullcontext(pool) if pool is not None else ThreadPoolExecutor(size, "rank") as threads:
        running = [threads.submit(run, rank) for rank in range(size)]
        try:
            wait(running)
        except BaseException as error:  # an interrupt arrives in this thread: all ranks end before it is raised
            ThreadRanks(first, 0).stop(error)
            wait(running)
            raise
    if errors:
        raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
    return results
