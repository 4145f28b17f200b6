"""Threads for kernels that release the GIL.

Threads start at their first use and then wait for work. A process made by fork starts its own threads. The caller works
too, so a product on t threads wakes t - 1 threads. Any free thread takes the next task. Tasks write different entries,
each in a fixed order, so results do not depend on which thread runs a task.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any


class _TaskQueue:
    """The tasks of one call, which the caller and helper threads take one by one.

    A helper that starts after all tasks were taken does nothing.
    """

    def __init__(self, function: Callable[..., None], tasks: Sequence[tuple[Any, ...]]) -> None:
        self.function = function
        self.remaining: Iterator[tuple[Any, ...]] = iter(tasks)  # next() on the iterator is atomic under the GIL
        self.helpers, self.is_closed = 0, False
        self.condition = threading.Condition()  # guards `helpers` and `is_closed`
        self.error: BaseException | None = None

    def work(self) -> None:
        for task in self.remaining:
            if self.error is None:
                try:
                    self.function(*task)
                except BaseException as error:
                    self.error = error

    def help(self) -> None:
        """Run tasks, unless the caller has continued."""
        with self.condition:
            if self.is_closed:
                return
            self.helpers += 1
        self.work()
        with self.condition:
            self.helpers -= 1
            self.condition.notify()

    def close(self) -> None:
        """Wait until no helper runs a task, and prevent late helpers from starting.

        Ctrl-C does not end the wait, and is raised after it.
        """
        interruption: BaseException | None = None
        while True:
            try:
                with self.condition:
                    self.is_closed = True
                    while self.helpers:
                        self.condition.wait()
                break
            except BaseException as error:  # the helpers still write to the caller's arrays, so the wait goes on
                self.error = interruption = error
        if interruption is not None:
            raise interruption


class _Pool:
    def __init__(self) -> None:
        self.queue: SimpleQueue[_TaskQueue] = SimpleQueue()
        self.size = 0
        self.lock = threading.Lock()

    def grow(self, size: int) -> None:
        with self.lock:
            while self.size < size:
                self.size += 1
                threading.Thread(target=self.serve, name=f"semiring-{self.size}", daemon=True).start()

    def serve(self) -> None:
        while True:
            self.queue.get().help()

    def run(self, function: Callable[..., None], tasks: Sequence[tuple[Any, ...]], threads: int) -> None:
        helpers = min(threads, len(tasks)) - 1
        if self.size < helpers:
            self.grow(helpers)
        job = _TaskQueue(function, tasks)
        for _ in range(helpers):
            self.queue.put(job)
        try:
            job.work()
        except BaseException as error:  # Ctrl-C between two tasks
            job.error = error
        job.close()
        if job.error is not None:
            raise job.error


_pool = _Pool()


def _renew() -> None:
    """Replace the pool after a fork, because the child has no threads, and locks may stay locked."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def run_on_ranges(function: Callable[[int, int], None], size: int, step: int, threads: int) -> None:
    """Call ``function(start, stop)`` for ranges of at most ``step`` that cover 0 … size - 1, on up to some threads."""
    run_tasks(function, [(start, min(size, start + step)) for start in range(0, size, step)], threads)


def run_tasks(function: Callable[..., None], tasks: Sequence[tuple[Any, ...]], threads: int) -> None:
    """Call ``function(*task)`` for every task, on up to ``threads`` threads.

    Return when all tasks have ended. A task's exception is raised here, after the tasks that had begun have ended.
    """
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            function(*task)
    else:
        _pool.run(function, tasks, threads)
