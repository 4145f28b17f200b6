"""Run concurrent work on one GPU, mark its progress, and record the launches of closures."""

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
from semiring.kernels.cuda.closing.look_ahead import recorded_words

_MAX_RECORDINGS = 4  # the most cached recordings; each holds a matrix and its panels, up to 120 MiB in float32
#: The priorities of the streams by number. The highest is -5. A GPU with fewer priorities uses its highest. Closures of
#: n = 8192 took 37.3 ms if the last two streams had different priorities, and 37.1 ms with equal priorities.
_PRIORITIES = (-5, -4, -4, 0, 0)

_thread_local = threading.local()


def mark() -> Any:
    """Return an event after all work of the current stream. ``done`` tests it, and ``synchronize()`` waits."""
    return cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))


class CudaStreams:
    """Concurrent streams: a context that begins after the current stream, which waits for all of them at its end.

    There are five. A stream with a lower number has a higher priority: its blocks are scheduled before waiting blocks
    of other streams. The current stream waits even where a task raises. Memory that the tasks write may be freed then,
    and reused by work that is ordered by the current stream only.
    """

    def __enter__(self) -> CudaStreams:
        self._main = cupy.cuda.get_current_stream()
        self._start = mark()
        self._ends: dict[int, Any] = {}
        return self

    def __exit__(self, *error: Any) -> None:
        for end in self._ends.values():
            self._main.wait_event(end)

    def run(self, number: int, task: Callable[[], None], dependencies: Sequence[Any]) -> Any:
        """Enqueue a task after the marks in ``dependencies`` that are not None, and return a mark of its end."""
        with _stream(number) as stream:
            for other in (*dependencies, None if number in self._ends else self._start):
                if other is not None:
                    stream.wait_event(other)
            try:
                task()
            finally:
                self._ends[number] = mark()
        return self._ends[number]


def _stream(number: int) -> Any:
    """Return a stream of this thread on the current device."""
    devices: dict[int, dict[int, Any]] = _thread_local.__dict__.setdefault("streams", {})
    streams = devices.setdefault(cupy.cuda.Device().id, {})
    if number not in streams:
        streams[number] = cupy.cuda.Stream(non_blocking=True, priority=_PRIORITIES[number])
    return streams[number]


@dataclass
class _Recording:
    """The recorded launches of one closure on its own matrix, and the memory that they use."""

    memo: Any  # the memo of the plan; this reference keeps its id from being reused
    uses: int = 0
    matrix: Any = None
    status_word: Any = None
    graph: Any = None
    engine: Any = None
    pool: Any = None
    streams: Any = None  # the streams of the recording, on which no other work runs
    barrier_words: Any = None  # the barrier words of its kernels
    end: Any = None  # an event after the last use, for which other streams must wait
    lock: threading.Lock = field(default_factory=threading.Lock)


_recordings: OrderedDict[Any, _Recording] = OrderedDict()
_recordings_lock = threading.Lock()


def replay(plan: KernelPlan, A: Any, engine_of: Callable[[KernelPlan], Any], algorithm: Callable[..., object]) -> None:
    """Run ``algorithm(engine, A)``, from the second run of a kind on by one launch of a graph.

    The graph works on its own matrix, because addresses are part of it. This takes O(n²) more memory, and two copies.
    """
    key = (id(plan.memo), algorithm, cupy.cuda.runtime.getDevice(), A.shape, A.dtype)  # plans of a kind share a memo
    with _recordings_lock:
        recording = _recordings.get(key)
        if recording is None:
            recording = _recordings[key] = _Recording(plan.memo)
        _recordings.move_to_end(key)
        while len(_recordings) > _MAX_RECORDINGS:
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
            plan.status.word[...] = recording.status_word
        stream.record(recording.end)


def _record(
    recording: _Recording,
    plan: KernelPlan,
    A: Any,
    engine_of: Callable[[KernelPlan], Any],
    algorithm: Callable[..., object],
) -> None:
    """Capture one run of the algorithm.

    Its memory comes from its own pool, which no other work uses, and its streams are its own. The graph may therefore
    run while other work of this thread is running.
    """
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc), _own_streams() as lanes, stream, recorded_words() as words:
        recording.matrix, recording.status_word = cupy.empty(A.shape, A.dtype), cupy.empty(1, np.int32)
        recording.engine = engine_of(replace(plan, status=Status(word=recording.status_word)))
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
        try:
            recording.status_word.fill(-1)
            algorithm(recording.engine, recording.matrix)
        finally:
            graph = stream.end_capture()
        recording.end = mark()
    recording.graph, recording.pool, recording.streams, recording.barrier_words = graph, pool, (stream, lanes), words


@contextmanager
def _own_streams() -> Iterator[dict[int, dict[int, Any]]]:
    """Return a context in which `CudaStreams` of this thread are new ones."""
    outer_streams = _thread_local.__dict__.get("streams", {})
    _thread_local.streams = {}
    try:
        yield _thread_local.streams
    finally:
        _thread_local.streams = outer_streams
