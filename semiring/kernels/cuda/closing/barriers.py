"""Provide the barrier words of cooperative launches: three words, which each launch resets for the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["RecordedWords", "recorded_words", "words_of"]

_STREAMS = 8  # the most streams of one recording
_PER_THREAD = 2  # cudaStreamPerThread

_words: dict[tuple[int, int], Any] = {}
_local = threading.local()


def words_of(stream: Any) -> Any:
    """Return the barrier words of a stream of the current device.

    A captured launch has other words, because the graph may run while the stream does other work. They are those of
    `recorded_words`, or new words that the graph zeroes.
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
    """Return the key of a stream: its address, which is shared by the default streams of all threads."""
    return -threading.get_ident() if stream.ptr == _PER_THREAD else int(stream.ptr)


class RecordedWords:
    """Barrier words for the streams of one recording, a cache line each, zeroed before the recording begins."""

    def __init__(self) -> None:
        import cupy

        self._all = cupy.zeros((_STREAMS, 32), np.uint32)
        self._places: dict[tuple[int, int], int] = {}

    def of(self, key: tuple[int, int]) -> Any:
        """Return the words of a stream of a device in this recording."""
        return self._all[self._places.setdefault(key, len(self._places))]


@contextmanager
def recorded_words() -> Iterator[RecordedWords]:
    """Return a context in which this thread captures a graph whose nodes need not zero their barrier words.

    The graph must not run twice at the same time. A node that zeroes words has no priority, whatever its stream. It
    waits until every block of the concurrent products has begun, so the work meant to run beside them runs after them.
    Enter the context before the capture, on its stream, and keep its value as long as the graph.
    """
    _local.recorded = RecordedWords()
    try:
        yield _local.recorded
    finally:
        _local.recorded = None
