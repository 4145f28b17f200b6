"""The words by which the thread blocks of a cooperative launch meet: three, left ready for the next launch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["RecordedWords", "recorded_words", "words_of"]

_STREAMS = 8  # that one recording may use
_PER_THREAD = 2  # cudaStreamPerThread

_words: dict[tuple[int, int], Any] = {}
_local = threading.local()


def words_of(stream: Any) -> Any:
    """The words of a stream of the current device, which is the current one.

    A launch that is captured has others, since the graph may run while the stream does other work: those of
    `recorded_words`, or new ones, zeroed on the way.
    """
    import cupy

    key = cupy.cuda.runtime.getDevice(), _place(stream)
    if stream.is_capturing():
        recorded: RecordedWords | None = getattr(_local, "recorded", None)
        return cupy.zeros(3, np.uint32) if recorded is None else recorded.of(key)
    if key not in _words:
        _words[key] = cupy.zeros(3, np.uint32)
    return _words[key]


def _place(stream: Any) -> int:
    """What tells the stream from others: its address, which is one for the default streams of all threads."""
    return -threading.get_ident() if stream.ptr == _PER_THREAD else int(stream.ptr)


class RecordedWords:
    """Words for the streams of one recording, a line of the cache each, zeroed before it begins."""

    def __init__(self) -> None:
        import cupy

        self._all = cupy.zeros((_STREAMS, 32), np.uint32)
        self._places: dict[tuple[int, int], int] = {}

    def of(self, key: tuple[int, int]) -> Any:
        """The words of a stream of a device in this recording."""
        return self._all[self._places.setdefault(key, len(self._places))]


@contextmanager
def recorded_words() -> Iterator[RecordedWords]:
    """While this thread captures a graph that never runs twice at once: words that no node of it has to zero.

    A node that zeroes has no priority, whatever that of its stream, so it waits until every block of the products
    beside it has begun; and what was to run beside them runs after them. Begin before the capture, on its stream, and
    keep what is yielded as long as the graph.
    """
    _local.recorded = RecordedWords()
    try:
        yield _local.recorded
    finally:
        _local.recorded = None
