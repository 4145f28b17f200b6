"""Work side by side on one GPU, marks of how far it has come, and closures whose launches are recorded once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import KernelPlan, Status
from semiring.kernels.cuda.closing.barriers import recorded_words

__all__ = ["CudaStreams", "mark", "replay"]

_KEPT = 4  # recorded closures that are kept, each with a matrix of its own and its panels: up to 120 MiB in float32
#: Of the streams by number. The greatest is -5; a GPU that has fewer takes its greatest. Closures of n = 8192 took
#: 37.3 ms where the stream before the last preceded the last, 37.1 where they are alike.
_PRIORITIES = (-5, -4, -4, 0, 0)

_local = threading.local()


def mark() -> Any:
    """An event behind all work of the current stream: ``done`` says whether it has ended, ``synchronize()`` waits."""
    return cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))


class CudaStreams:
    """Streams side by side: a context that begins behind the current stream, which waits for all of them at its end.

    The lower its number, the higher is a stream's priority: its blocks are scheduled before those of others that wait.
    There are five. The current stream waits even where a task raises: what the tasks write may be freed then, and given
    to work that knows only the current stream.
    """

    def __enter__(self) -> CudaStreams:
        self._main = cupy.cuda.get_current_stream()
        self._start = mark()
        self._ends: dict[int, Any] = {}
        return self

    def __exit__(self, *error: Any) -> None:
        for end in self._ends.values():
            self._main.wait_event(end)

    def run(self, number: int, task: Callable[[], None], after: Sequence[Any]) -> Any:
        """Enqueue a task on a stream, behind the marks in ``after`` that are not None. Returns a mark of its end."""
        with _stream(number) as stream:
            for other in (*after, None if number in self._ends else self._start):
                if other is not None:
                    stream.wait_event(other)
            try:
                task()
            finally:
                self._ends[number] = mark()
        return self._ends[number]


def _stream(number: int) -> Any:
    """A stream of this thread on the current device."""
    devices: dict[int, dict[int, Any]] = _local.__dict__.setdefault("streams", {})
    streams = devices.setdefault(cupy.cuda.Device().id, {})
    if number not in streams:
        streams[number] = cupy.cuda.Stream(non_blocking=True, priority=_PRIORITIES[number])
    return streams[number]


@dataclass
class _Recording:
    """A closure of one kind on a matrix of its own: the launches of one run, and what they use."""

    memo: Any  # of the plan: while it is held, nothing else has its identity
    uses: int = 0
    matrix: Any = None
    word: Any = None
    graph: Any = None
    engine: Any = None
    pool: Any = None
    streams: Any = None  # what it was recorded on: nothing else is
    words: Any = None  # that its kernels meet by
    end: Any = None  # of the last use: another stream must wait for it
    lock: threading.Lock = field(default_factory=threading.Lock)


_recordings: OrderedDict[Any, _Recording] = OrderedDict()
_guard = threading.Lock()


def replay(plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]) -> None:
    """``algorithm(engine, A)``; from the second run of a kind on by one launch of a graph.

    The graph works on a matrix of its own, since the addresses are part of it: O(n²) more, and two copies.
    """
    key = (id(plan.memo), algorithm, cupy.cuda.runtime.getDevice(), A.shape, A.dtype)  # all plans of a kind share one
    with _guard:
        recording = _recordings.get(key)
        if recording is None:
            recording = _recordings[key] = _Recording(plan.memo)
        _recordings.move_to_end(key)
        while len(_recordings) > _KEPT:
            _recordings.popitem(last=False)
    stream = cupy.cuda.get_current_stream()
    with recording.lock:
        recording.uses += 1
        if recording.uses < 2 or stream.is_capturing():
            algorithm(engine_of(plan), A)
            return
        if recording.graph is None:
            _record(recording, plan, A, engine_of, algorithm)
        stream.wait_event(recording.end)
        recording.matrix[...] = A
        recording.graph.launch(stream)
        A[...] = recording.matrix
        if plan.status.word is not None:
            plan.status.word[...] = recording.word
        stream.record(recording.end)


def _record(
    recording: _Recording,
    plan: KernelPlan,
    A: Any,
    engine_of: Callable[[KernelPlan], Any],
    algorithm: Callable[..., object],
) -> None:
    """Capture one run. Its memory comes from a pool of its own, which nothing else will ever take from, and its streams
    are its own: the graph may run while other work of this thread is under way.
    """
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc), _own_streams() as lanes, stream, recorded_words() as words:
        recording.matrix, recording.word = cupy.empty(A.shape, A.dtype), cupy.empty(1, np.int32)
        recording.engine = engine_of(replace(plan, status=Status(word=recording.word)))
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
        try:
            recording.word.fill(-1)
            algorithm(recording.engine, recording.matrix)
        finally:
            graph = stream.end_capture()
        recording.end = mark()
    recording.graph, recording.pool, recording.streams, recording.words = graph, pool, (stream, lanes), words


@contextmanager
def _own_streams() -> Iterator[dict[int, dict[int, Any]]]:
    """Inside this context `CudaStreams` that are made in this thread are new ones."""
    kept = _local.__dict__.get("streams", {})
    _local.streams = {}
    try:
        yield _local.streams
    finally:
        _local.streams = kept
