"""Threads for kernels that release the GIL.

Threads start at their first use and then wait for work. A process made by fork starts its own threads. The caller works
too, so a product on t threads wakes t - 1 threads. Any free thread takes the next task. Tasks write different entries,
each in a fixed order, so results do not depend on which thread runs a task.

Ctrl-C is raised between two tasks of the caller. So `run_on_ranges` cuts a range into tasks of about `TASK_SECONDS`.
The caller reports progress there, too, where the tasks are all work of a kernel (``reports``).

A helper never compiles. Numba has one lock for compilations, and the caller may hold it, after Ctrl-C or in code of
its own. A helper that needed the lock would then wait for ever, and the caller for the helper. So `call_in_caller`
moves a compilation from a helper to the thread that called `run_tasks`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Any

from semiring.progress import current_listener, in_parts, report_part

TASK_SECONDS = 0.1  # the duration of a task that `run_on_ranges` aims at: Ctrl-C waits for one task of each thread
_GROWTH = 16  # the most by which a task is longer than the task before
_PAUSE = 30.0  # times the lost time, by which a loss delays the next trial with helpers
_MEMORY = 0.75  # of the time that calls of a kind saved before their last
_MOST_LOST = 1.0  # by a call: more is lost if the process was stopped
_TOLERATED = 0.05  # of the time of a call: a smaller loss is within the error of its estimate
_MOST_KINDS = 1024

_thread = threading.local()  # its ``queue`` is the `_TaskQueue` whose tasks this helper thread runs


class _Call:
    """A call that a helper requested from the caller, and its outcome."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.is_done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = call_in_caller(self.function, *self.arguments)
        except BaseException as error:
            self.error = error
        self.is_done.set()


class Regulator:
    """Decides which calls use helper threads, by the time that calls of their kind saved or lost with them.

    The system suspends a helper for some milliseconds where another program, or another thread of this one, shares its
    core. The caller waits for the task of the helper. If calls of a kind and size have recently lost more by that than
    their helpers saved, they run alone for a while. The calls of all kinds together lose about a thirtieth of the time
    by trying again, because each loss delays the next trial of any kind by `_PAUSE` times the lost time.
    """

    def __init__(self) -> None:
        self._saved: dict[Hashable, float] = {}  # recently, by calls of a kind
        self._alone_until: dict[Hashable, float] = {}
        self._next_trial = 0.0

    def allows(self, kind: Hashable) -> bool:
        """Return whether calls of a kind use helpers now."""
        until = self._alone_until.get(kind)
        return until is None or perf_counter() >= until

    def record(self, kind: Hashable, seconds: float, seconds_alone: float) -> None:
        """Record how long a call took with helpers, and about how long it would have taken without them."""
        lost = min(_MOST_LOST, seconds - seconds_alone)
        saved = self._saved.get(kind, 0.0) * _MEMORY - lost
        if saved < 0 and lost > _TOLERATED * seconds:
            self._next_trial = max(self._next_trial, perf_counter()) + _PAUSE * lost
            self._alone_until[kind], saved = self._next_trial, 0.0
        if len(self._saved) >= _MOST_KINDS:
            self._saved.clear()
            self._alone_until.clear()
        self._saved[kind] = saved


class _TaskQueue:
    """The tasks of one call, which the caller and helper threads take one by one.

    A helper that starts after all tasks were taken does nothing.
    """

    def __init__(self, function: Callable[..., None], tasks: Iterator[tuple[Any, ...]]) -> None:
        self.function = function
        self.remaining = tasks  # next() on the iterator is atomic
        self.helpers, self.is_closed = 0, False
        self.helper_seconds = 0.0  # of processor time
        self.condition = threading.Condition()  # guards `helpers`, `helper_seconds`, `is_closed` and `calls`
        self.calls: deque[_Call] = deque()  # requested by helpers
        self.has_answered = False  # one of them
        self.error: BaseException | None = None

    def work(self) -> None:
        for task in self.remaining:
            if self.error is not None:
                break
            try:
                self.function(*task)
            except BaseException as error:
                self.error = error

    def work_as_caller(self) -> None:
        """Run tasks, and after each of them the calls that helpers have requested."""
        for task in self.remaining:
            if self.error is not None:
                break
            self.function(*task)
            self.answer_calls()

    def answer_calls(self) -> None:
        """Run the calls that helpers have requested. After an error they raise it instead."""
        while self.calls:
            call = self.calls[0]  # a call that Ctrl-C interrupts stays in the queue, because its helper waits for it
            if self.error is not None:
                call.error = self.error
                call.is_done.set()
            if not call.is_done.is_set():
                call.run()
            self.has_answered = True
            self.calls.popleft()

    def help(self) -> None:
        """Run tasks, unless the caller has continued."""
        with self.condition:
            if self.is_closed:
                return
            self.helpers += 1
        outer, _thread.queue = getattr(_thread, "queue", None), self
        began = thread_time()
        try:
            self.work()
        finally:
            _thread.queue = outer
            with self.condition:
                self.helper_seconds += thread_time() - began
                self.helpers -= 1
                self.condition.notify()

    def request(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the result of a function that the caller calls, or raise its exception."""
        call = _Call(function, arguments)
        with self.condition:
            self.calls.append(call)
            self.condition.notify()
        call.is_done.wait()
        if call.error is not None:
            raise call.error
        return call.result

    def close(self) -> None:
        """Wait until no helper runs a task, and prevent late helpers from starting. A second call does nothing.

        Ctrl-C does not end the wait. It is the `error` of the queue.
        """
        while not self.is_closed or self.helpers:
            try:
                self.wait()
            except BaseException as error:  # the helpers still write to the caller's arrays, so the wait goes on
                self.error = error
        # The queue of the pool may still hold this object, which must keep no arrays alive.
        self.function, self.remaining = _do_nothing, iter(())

    def wait(self) -> None:
        while True:
            with self.condition:
                self.is_closed = True
                while self.helpers and not self.calls:
                    self.condition.wait()
            if not self.calls:
                return
            self.answer_calls()


class _Pool:
    def __init__(self) -> None:
        self.queue: SimpleQueue[_TaskQueue] = SimpleQueue()
        self.size = 0
        self.lock = threading.Lock()
        self.regulator = Regulator()

    def grow(self, size: int) -> None:
        with self.lock:
            while self.size < size:  # Ctrl-C may leave a thread that is not counted
                threading.Thread(target=self.serve, name=f"semiring-{self.size + 1}", daemon=True).start()
                self.size += 1

    def serve(self) -> None:
        while True:
            self.queue.get().help()

    def run(
        self, function: Callable[..., None], tasks: Iterator[tuple[Any, ...]], helpers: int, kind: Hashable
    ) -> None:
        if not self.regulator.allows(kind):
            for task in tasks:
                function(*task)
            return
        start = perf_counter()
        if self.size < helpers:
            self.grow(helpers)
        job = _TaskQueue(function, tasks)
        try:
            for _ in range(helpers):
                self.queue.put(job)
            job.work_as_caller()
            own_seconds = perf_counter() - start
        except BaseException as error:  # an exception of a task, or Ctrl-C
            job.error = error
        finally:
            try:
                job.close()
            except BaseException:  # a Ctrl-C before the wait or between two waits
                job.close()
                raise
        if job.error is not None:
            raise job.error
        if not job.has_answered:  # else the caller compiled, and a helper waited
            self.regulator.record(kind, perf_counter() - start, own_seconds + job.helper_seconds)


_pool = _Pool()


def _renew() -> None:
    """Replace the pool after a fork, because the child has no threads, and locks may stay locked."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def run_on_ranges(
    function: Callable[[int, int], Any], size: int, step: int, threads: int, *, unit: int = 1, reports: bool = False
) -> None:
    """Call ``function(start, stop)`` for ranges that cover 0 … size - 1, on up to ``threads`` threads.

    Every range begins at a multiple of ``unit``, and has at most ``step`` numbers, rounded up to a multiple. Ranges are
    shorter if one would take longer than about `TASK_SECONDS`. The result of the function must not depend on the cuts.
    With ``reports``, the numbers that are done are reported as progress.
    """
    ranges = _Ranges(size, -(-step // unit) * unit, unit)

    def run_timed(start: int, stop: int) -> None:
        began = perf_counter()
        function(start, stop)
        ranges.adapt(stop - start, perf_counter() - began)
        if reports:
            report_part(ranges.completed, size)

    helpers = min(threads, -(-size // ranges.step)) - 1
    if helpers < 1:
        for start, stop in ranges:
            run_timed(start, stop)
    else:
        _pool.run(run_timed, ranges, helpers, _kind(function, size))


def run_tasks(
    function: Callable[..., None], tasks: Sequence[tuple[Any, ...]], threads: int, *, reports: bool = False
) -> None:
    """Call ``function(*task)`` for every task, on up to ``threads`` threads.

    Return when all tasks have ended. A task's exception is raised here, after the tasks that had begun have ended. With
    ``reports``, the tasks that have ended are reported as equal parts of the progress.
    """
    reports = reports and current_listener() is not None
    if threads <= 1 or len(tasks) <= 1:
        for task in in_parts(tasks) if reports else tasks:
            function(*task)
        return
    call = function
    if reports:
        ended: list[None] = []  # append is atomic

        def call(*task: Any) -> None:
            function(*task)
            ended.append(None)
            report_part(len(ended), len(tasks))

    _pool.run(call, iter(tasks), min(threads, len(tasks)) - 1, _kind(function, len(tasks)))


def _kind(function: Any, size: int) -> Hashable:
    """Return what the `Regulator` distinguishes: the code that a call runs, and its size up to a factor of two.

    The code is that of the Python function, also under `functools.partial` and Numba's ``njit``. Functions without code
    are kinds of their own.
    """
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "py_func", function)
    return getattr(function, "__code__", function), size.bit_length()


def _do_nothing(*_: Any) -> None: ...


class _Ranges:
    """An iterator of ranges, whose length follows from the time that the ranges so far took."""

    def __init__(self, count: int, step: int, unit: int) -> None:
        self.count, self.step, self.unit = count, max(unit, step), unit
        self.start, self.length, self.completed = 0, unit, 0
        self.lock = threading.Lock()

    def __iter__(self) -> _Ranges:
        return self

    def __next__(self) -> tuple[int, int]:
        with self.lock:
            start = self.start
            if start >= self.count:
                raise StopIteration
            self.start = min(self.count, start + self.length)
            return start, self.start

    def adapt(self, length: int, seconds: float) -> None:
        """Count a completed range, and choose the next length from its time."""
        with self.lock:
            self.completed += length
        factor = min(_GROWTH, TASK_SECONDS / max(seconds, 1e-9))
        self.length = max(self.unit, min(self.step, int(length * factor) // self.unit * self.unit))


def call_in_caller(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``; on a helper of `run_tasks`, the thread that called `run_tasks` calls it."""
    queue: _TaskQueue | None = getattr(_thread, "queue", None)
    return function(*arguments) if queue is None else queue.request(function, arguments)


def call_interruptibly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return ``function(*arguments, **options)``, which runs on another thread, so that Ctrl-C ends the wait at once.

    For long functions of other libraries that release the GIL, and cannot be interrupted. After Ctrl-C the function
    runs to its end in the background. It must write to no array that the caller could use.
    """
    call = _Call(partial(function, **options), arguments)
    threading.Thread(target=call.run, name="semiring-call", daemon=True).start()
    call.is_done.wait()
    if call.error is not None:
        raise call.error
    return call.result
