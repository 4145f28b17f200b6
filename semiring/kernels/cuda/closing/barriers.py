"""Provide the barrier words of cooperative launches: three words, which each launch resets for the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["RecordedWords", "recorded_words", "words_of"]

_STREAMS = 8  # the most streams of one recording
_PER_THREAD = 2  # the address cudaStreamPerThread

_words: dict[tuple[int, int], Any] = {}
_thread_local = threading.local()


def words_of(stream: Any) -> Any:
    """Return the barrier words of a stream of the current device.

    A captured launch has words of its own, because the graph may run while the stream does other work. These words
    belong to the context `recorded_words`, or are new words that the graph zeroes.
    """
    import cupy

    key = cupy.cuda.runtime.getDevice(), _stream_key(stream)
    if stream.is_capturing():
        own_words: RecordedWords | None = getattr(_thread_local, "recorded_words", None)
        return cupy.zeros(3, np.uint32) if own_words is None else own_words.words_for(key)
    if key not in _words:
        _words[key] = cupy.zeros(3, np.uint32)
    return _words[key]


def _stream_key(stream: Any) -> int:
    """Return the key of a stream: its address, or a key of the thread for its default stream.

    The per-thread default streams of all threads have the same address.
    """
    return -threading.get_ident() if stream.ptr == _PER_THREAD else int(stream.ptr)


class RecordedWords:
    """Barrier words for the streams of one recording, a cache line each, zeroed before the recording begins."""

    def __init__(self) -> None:
        import cupy

        self._all = cupy.zeros((_STREAMS, 32), np.uint32)
        self._places: dict[tuple[int, int], int] = {}

    def words_for(self, key: tuple[int, int]) -> Any:
        """Return the words of a stream of a device in this recording."""
        return self._all[self._places.setdefault(key, len(self._places))]


@contextmanager
def recorded_words() -> Iterator[RecordedWords]:
    """Return a context in which this thread captures a graph whose nodes need not zero their barrier words.

    The graph must not run twice at the same time. A node that zeroes words has no priority, whatever its stream. It
    waits until every block of the concurrent products has begun. So the work that should run concurrently with the
    products would run after them. Enter the context before the capture, on its stream, and keep its value as long as
    the graph.
    """
    _thread_local.recorded_words = RecordedWords()
    try:
        yield _thread_local.recorded_words
    finally:
        _thread_local.recorded_words = None
