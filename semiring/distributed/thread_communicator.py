"""Ranks that are threads of one process: one for each GPU, or on the host, which shows that it is one algorithm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np

from semiring.distributed.transports import StoppedError

__all__ = ["ThreadRanks", "run_ranks"]

Array: TypeAlias = Any


class _Meeting:
    """Where some threads meet, and lay things down for each other."""

    def __init__(self, size: int, others: list[_Meeting]) -> None:
        self.barrier = threading.Barrier(size)
        self.places: list[Any] = [None] * size
        self.all = others  # of one run: a rank that fails breaks all of them
        others.append(self)


class ThreadRanks:
    """`Ranks` of one process."""

    def __init__(self, meeting: _Meeting, rank: int) -> None:
        self._meeting, self.rank, self.size = meeting, rank, len(meeting.places)

    def allgather(self, value: Any) -> list[Any]:
        self._meeting.places[self.rank] = value
        self._meet()
        found = list(self._meeting.places)
        self._meet()
        return found

    def exchange(self, values: list[Any]) -> list[Any]:
        return [given[self.rank] for given in self.allgather(values)]

    def broadcast(self, array: Array, root: int) -> None:
        if self.rank == root:
            self._meeting.places[root] = array
        self._meet()
        if self.rank != root:
            array[...] = self._meeting.places[root]
        self._meet()

    def join(self, octets: Array) -> None:
        given = self.allgather(octets)
        whole = np.bitwise_or.reduce(given)
        self._meet()
        octets[...] = whole

    def split(self, group: int, order: int) -> ThreadRanks:
        wanted = self.allgather((group, order, self.rank))
        members = sorted(one[1:] for one in wanted if one[0] == group)
        own = members.index((order, self.rank))
        made = _Meeting(len(members), self._meeting.all) if own == 0 else None
        meetings = {one[0]: one[1] for one in self.allgather((group, made)) if one[1] is not None}
        return ThreadRanks(meetings[group], own)

    def stop(self, error: BaseException) -> None:
        for meeting in list(self._meeting.all):
            meeting.barrier.abort()

    def _meet(self) -> None:
        try:
            self._meeting.barrier.wait()
        except threading.BrokenBarrierError:
            raise StoppedError("another rank has failed") from None


def run_ranks(size: int, do: Callable[[ThreadRanks], Any], pool: ThreadPoolExecutor | None = None) -> list[Any]:
    """What ``do(ranks)`` returns in each of so many threads; where some raise, the error of the first that failed.

    ``pool``: threads that stay, as many at least, of which nobody else wants any now.
    """
    first, results, errors = _Meeting(size, []), [None] * size, []

    def run(rank: int) -> None:
        ranks = ThreadRanks(first, rank)
        try:
            results[rank] = do(ranks)
        except BaseException as error:
            errors.append(error)
            ranks.stop(error)

    with nullcontext(pool) if pool is not None else ThreadPoolExecutor(size, "rank") as threads:
        running = [threads.submit(run, rank) for rank in range(size)]
        try:
            wait(running)
        except BaseException as error:  # an interrupt, which this thread gets: all ranks end before it goes on
            ThreadRanks(first, 0).stop(error)
            wait(running)
            raise
    if errors:
        raise next((error for error in errors if not isinstance(error, StoppedError)), errors[0])
    return results
