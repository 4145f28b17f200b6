"""Report the progress of a call to the callback of `progress=`, from the divisions of its work.

Long work is divided into parts, so that Ctrl-C is answered between two of them. The same divisions report: a loop over
parts passes through `in_parts`, and the tasks of a thread pool call `report_part`. Both report to the *listener* of the
caller's thread, which `portion` and `Meter` set, and do nothing without one. Threads that help have no listener.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from semiring.advice import quote

__all__ = [
    "Meter",
    "Progress",
    "current_listener",
    "in_parts",
    "open_progress",
    "portion",
    "report_part",
    "report_progress",
    "share_of",
    "wait_to_end",
]

#: A function that is called as ``progress(done, total)``. ``done`` never falls, and equals ``total`` at the end.
Progress: TypeAlias = Callable[[int, int], None]

_PARTS = 10_000  # the total of work whose pairs are not counted
_MAX_ENQUEUED = 64  # kernels that may be enqueued on a device while the host continues

T = TypeVar("T")


class _Caller(threading.local):
    listener: Progress | None = None


_caller = _Caller()


@contextmanager
def open_progress(progress: Progress | bool | None, label: str) -> Iterator[Progress | None]:
    """Return a context with the callback that ``progress=`` names, or None.

    True names a progress bar, which is erased at the end of the context. It is None where standard error is no terminal
    and no notebook.
    """
    if progress is True:
        from semiring.terminal import ProgressBar

        with ProgressBar(label) as bar:
            yield bar
    elif progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        raise TypeError(
            f"progress is {quote(progress)}: say True for a bar, or give a function, called as progress(done, total)"
        )


def current_listener() -> Progress | None:
    """Return the function to which this thread reports the parts of its current work, or None."""
    return _caller.listener


def report_part(done: int, total: int) -> None:
    """Report to the listener of this thread that ``done`` of ``total`` equal parts of the current work have ended."""
    if _caller.listener is not None:
        _caller.listener(done, total)


def share_of(progress: Progress | None, start: int, stop: int, total: int) -> Progress | None:
    """Return a callback for work that is the units ``start`` … ``stop`` of a ``total``, or None if there is none."""
    if progress is None:
        return None
    return lambda done, parts: progress(start + (stop - start) * done // max(1, parts), total)


@contextmanager
def portion(start: int, stop: int, total: int) -> Iterator[None]:
    """Report what the block reports as the units ``start`` … ``stop`` of a ``total`` of the current work."""
    outer = _caller.listener
    if outer is None:
        yield
        return
    with _listening(lambda done, parts: outer(start * parts + (stop - start) * done, total * parts)):
        yield
    outer(stop, total)


def in_parts(items: Sequence[T]) -> Iterator[T]:
    """Yield the items; each is an equal part of the current work, which ends when the next item is requested."""
    if _caller.listener is None:
        yield from items  # without the context of each item, which takes two microseconds
        return
    for number, item in enumerate(items):
        with portion(number, number + 1, len(items)):
            yield item


def wait_to_end(wait: Callable[[], object]) -> None:
    """Call a function that waits for threads, until it returns. Ctrl-C does not end the wait, and is raised after it.

    The threads write to arrays and files that the caller may free or close.
    """
    interruption: BaseException | None = None
    while True:
        try:
            wait()
        except BaseException as error:
            interruption = error
        else:
            break
    if interruption is not None:
        raise interruption


@contextmanager
def _listening(listener: Progress | None) -> Iterator[None]:
    outer, _caller.listener = _caller.listener, listener
    try:
        yield
    finally:
        _caller.listener = outer


@contextmanager
def report_progress(progress: Progress | bool | None, label: str) -> Iterator[Progress | None]:
    """Report the parts of the block to the callback that ``progress=`` names, in ten thousandths, and its end.

    The context is a callback for other work that is the whole block, or None if nothing is reported.
    """
    with open_progress(progress, label) as callback:
        if callback is None:
            yield None
            return
        meter = Meter(callback, _PARTS, None)
        with meter.kernel(_PARTS):
            yield _caller.listener
        meter.finish()


class Meter:
    """The units of work that are complete, such as pairs, out of a total.

    Where kernels only enqueue their work, the meter counts the kernels that have ended. ``mark`` returns a mark after
    the work that was enqueued so far; it is None where kernels have ended when they return.
    """

    def __init__(self, progress: Progress, total: int, mark: Callable[[], Any] | None) -> None:
        self.progress, self.total, self._mark = progress, total, mark
        self.completed_pairs = self._reported_pairs = 0
        #: The marks of enqueued kernels in the order of the work, with the pairs that are complete at each mark.
        self._enqueued: deque[tuple[Any, int]] = deque()

    @contextmanager
    def kernel(self, pairs: int) -> Iterator[None]:
        """Report the parts of a kernel of so many pairs, which runs in the block, and then its end."""
        before = self.completed_pairs
        listener = None if self._mark else lambda done, parts: self.report(before + pairs * done // max(1, parts))
        with _listening(listener):
            yield
        if pairs:
            self.count(pairs)

    def count(self, pairs: int) -> None:
        """Add the pairs of a kernel that has run or was enqueued, and report the pairs that are complete."""
        self.completed_pairs += pairs
        if self._mark is None:
            self.report(self.completed_pairs)
            return
        self._enqueued.append((self._mark(), self.completed_pairs))
        if len(self._enqueued) > _MAX_ENQUEUED:
            self._enqueued[0][0].synchronize()
        ended = 0
        while self._enqueued and self._enqueued[0][0].done:
            ended = self._enqueued.popleft()[1]
        if ended:
            self.report(ended)

    def finish(self) -> None:
        """Wait for all enqueued kernels, and report the total."""
        while self._enqueued:
            mark, pairs = self._enqueued.popleft()
            mark.synchronize()
            self.report(pairs)
        if self._reported_pairs < self.total or not self.total:
            self.report(self.total)

    def report(self, pairs: int) -> None:
        """Call the callback with the number of complete pairs, at most the total."""
        self._reported_pairs = max(self._reported_pairs, min(pairs, self.total))
        with _listening(None):  # the callback may call functions of its own
            self.progress(self._reported_pairs, self.total)
