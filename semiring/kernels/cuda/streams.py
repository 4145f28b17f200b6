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

from semiring.kernels.contract import Plan, Status
from semiring.kernels.cuda.staged.barriers import recorded_words

__all__ = ["mark", "replay", "side_by_side"]

_KEPT = 4  # recorded closures that are kept, each with a matrix of its own and its panels: up to 200 MiB in float32
_URGENT = -5  # the greatest priority; a GPU that has fewer takes its greatest

_local = threading.local()


def mark() -> Any:
    """An event behind all work of the current stream: ``done`` says whether it has ended, ``synchronize()`` waits."""
    return cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))


def side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    """Enqueue each task on a stream of its own, behind the current stream, which then waits for all of them.

    The first goes to a stream of high priority: its blocks are scheduled before those of the others that wait. The
    second stays on the current stream. It waits for the others even where a task raises: what they write may be freed
    then, and given to work that knows only the current stream.
    """
    main = cupy.cuda.get_current_stream()
    start = mark()
    ends = []
    try:
        for task, stream in zip((tasks[0], *tasks[2:]), _streams(len(tasks) - 1), strict=True):
            with stream:
                stream.wait_event(start)
                try:
                    task()
                finally:
                    ends.append(mark())
        if len(tasks) > 1:
            tasks[1]()
    finally:
        for end in ends:
            main.wait_event(end)


def _streams(count: int) -> list[Any]:
    """The streams of this thread on the current device, the first of high priority."""
    devices: dict[int, list[Any]] = _local.__dict__.setdefault("streams", {})
    streams = devices.setdefault(cupy.cuda.Device().id, [])
    while len(streams) < max(1, count):
        streams.append(cupy.cuda.Stream(non_blocking=True, priority=0 if streams else _URGENT))
    return streams[: max(1, count)]


@dataclass
class _Recording:
    """A closure of one kind on a matrix of its own: the launches of one run, and what they use."""

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


def replay(plan: Plan, A: Any, name: str, engine_of: Callable[[Plan], Any], algorithm: Callable[..., None]) -> None:
    """``algorithm(engine, A)``; from the second run of a kind on by one launch of a graph.

    The graph works on a matrix of its own, since the addresses are part of it: O(n²) more, and two copies.
    """
    device = cupy.cuda.Device().id
    key = (name, device, A.shape, A.dtype.str, plan.semiring, plan.dtype, plan.facts, plan.storage, str(plan.zero))
    with _guard:
        recording = _recordings.setdefault(key, _Recording())
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
        recording.end = mark()


def _record(
    recording: _Recording,
    plan: Plan,
    A: Any,
    engine_of: Callable[[Plan], Any],
    algorithm: Callable[..., None],
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
def _own_streams() -> Iterator[dict[int, list[Any]]]:
    """For a while `side_by_side` takes new streams in this thread."""
    kept = _local.__dict__.get("streams", {})
    _local.streams = {}
    try:
        yield _local.streams
    finally:
        _local.streams = kept
