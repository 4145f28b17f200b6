"""How ranks talk, and the ways on which panels travel while a rank computes.

A rank has two things: `Ranks`, which knows the others, and `Links`, on which arrays travel from where the rank's
engine keeps them. Kernels of a host run in the thread that calls them, so there a thread of its own does the
travelling; on a GPU all is enqueued on streams (`semiring.distributed.gpu_transports`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

from semiring.distributed.grid import Grid
from semiring.errors import DivergenceError, SemiringError
from semiring.kernels.engine import Engine

__all__ = [
    "AHEAD",
    "ALONE",
    "REST",
    "TRAVEL",
    "Alone",
    "Groups",
    "HostLinks",
    "Links",
    "Ranks",
    "StoppedError",
    "Team",
    "agreed",
]

Array: TypeAlias = Any

AHEAD, TRAVEL, REST = 0, 1, 3  # lanes, the most urgent first


class StoppedError(SemiringError):
    """Another rank has failed."""


class Ranks(Protocol):
    """Some ranks, as one of them sees them. All of them must make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """Which of them this one is, from 0 on."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def allgather(self, value: Any) -> list[Any]:
        """What each rank gives, by rank."""
        ...

    def exchange(self, values: list[Any]) -> list[Any]:
        """What each rank gives this one, for what this one gives each."""
        ...

    def broadcast(self, array: Array, root: int) -> None:
        """An array of the host, rows side by side, of one rank in those of all."""
        ...

    def join(self, octets: Array) -> None:
        """Octets (uint8) of which each rank has some, and zeros elsewhere: all of them, in place, on all ranks."""
        ...

    def split(self, group: int, order: int) -> Ranks:
        """Those that give the same group, in that order."""
        ...

    def stop(self, error: BaseException) -> None:
        """End all ranks, for this one has failed where others may wait for it. It may not return."""
        ...


def agreed(ranks: Ranks, do: Callable[[], Any]) -> Any:
    """What ``do`` returns on this rank; all ranks call it together, and where one raises, all raise its error."""
    try:
        value, error = do(), None
    except Exception as found:
        value, error = None, found
    errors = [(rank, each) for rank, each in enumerate(ranks.allgather(error)) if each is not None]
    if not errors:
        return value
    rank, first = errors[0]
    if error is not None and rank == ranks.rank:
        first = error  # with its traceback
    first.everywhere = True
    raise first


class Alone:
    """`Ranks` of a process that has no others."""

    rank, size = 0, 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def exchange(self, values: list[Any]) -> list[Any]:
        return values

    def broadcast(self, array: Array, root: int) -> None: ...

    def join(self, octets: Array) -> None: ...

    def split(self, group: int, order: int) -> Alone:
        return self

    def stop(self, error: BaseException) -> None: ...


class Team:
    """Ranks of which the first begins, and the others follow."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.has_begun = ranks, False

    @property
    def is_first(self) -> bool:
        """Whether this rank begins."""
        return self.ranks.rank == 0

    def begin(self, do: Callable[[], Any] = lambda: None) -> Any:
        """What ``do`` returns on this rank. All ranks call it once, the others as the first thing that they do."""
        self.has_begun = True
        return agreed(self.ranks, do)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """A context for what all ranks do: an error of the first before it has begun is that of all ranks.

        After that, one that not all have ends them.
        """
        try:
            if not self.is_first:
                self.begin()
            yield
        except BaseException as error:
            if not self.has_begun and isinstance(error, Exception):
                self.begin(partial(_raise, error))
            if not (getattr(error, "everywhere", False) or isinstance(error, StoppedError | DivergenceError)):
                self.ranks.stop(error)
            raise


def _raise(error: Exception) -> None:
    raise error


ALONE = Team(Alone())


class Groups:
    """The ranks of a grid: all, and the row and the column of this one."""

    def __init__(self, ranks: Ranks, grid: Grid) -> None:
        p, q = grid.place(ranks.rank)
        self.all, self.row, self.column = ranks, ranks.split(p, q), ranks.split(grid.shape[0] + q, p)

    def __getitem__(self, name: str) -> Ranks:
        found: Ranks = getattr(self, name)
        return found


class Links(Protocol):
    """Where panels travel."""

    @property
    def rank(self) -> int:
        """Of all."""
        ...

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """An array of one rank in those of its ``"row"``, its ``"column"`` or ``"all"``; ``root`` counts within them.

        Its rows lie side by side, and it is where the engine computes.
        """
        ...

    def lanes(self, engine: Engine, *, beside: bool = True) -> Any:
        """Lanes as those of an engine, with ``wait(mark)``. A context; one that an error leaves stops all ranks.

        ``beside``: whether there is work to be done side by side. In one memory a single block is closed without lanes.
        """
        ...


class HostLinks:
    """Links between arrays of the host."""

    def __init__(self, groups: Groups) -> None:
        self._groups, self.rank = groups, groups.all.rank
        self.received, self.travelling, self.waiting = 0, 0.0, 0.0  # bytes; seconds on the way, and for what was
        self.computes: int | None = None  # the thread that computes, while there are lanes

    def broadcast(self, array: Array, root: int, group: str) -> None:
        ranks = self._groups[group]
        if ranks.size > 1 and array.size:
            start = time.perf_counter()
            ranks.broadcast(array, root)
            took = time.perf_counter() - start
            self.travelling += took
            if threading.get_ident() == self.computes:  # which does nothing else meanwhile
                self.waiting += took
            self.received += array.nbytes * (ranks.rank != root)

    def lanes(self, engine: Engine, *, beside: bool = True) -> _HostLanes:
        return _HostLanes(self, self._groups.all, engine)


class _HostLanes:
    """One thread travels, the thread that calls computes."""

    def __init__(self, links: HostLinks, ranks: Ranks, engine: Engine) -> None:
        self._links, self._ranks, self._engine = links, ranks, engine
        self._traveller = ThreadPoolExecutor(1, "traveller")

    def __enter__(self) -> _HostLanes:
        self._links.computes = threading.get_ident()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._links.computes = None
        if error is not None:
            self._ranks.stop(error)
        self._traveller.shutdown(wait=True, cancel_futures=error is not None)

    def reserve(self, number: int, entries: int) -> None:
        self._engine.reserve(entries)

    def run(self, number: int, task: Callable[[Engine], None], *after: Future[None] | None) -> Future[None] | None:
        if number == TRAVEL:
            return self._traveller.submit(task, self._engine)
        for other in after:
            self.wait(other)
        task(self._engine)
        return None

    def wait(self, mark: Future[None] | None) -> None:
        if mark is not None:
            start = time.perf_counter()
            mark.result()
            self._links.waiting += time.perf_counter() - start
