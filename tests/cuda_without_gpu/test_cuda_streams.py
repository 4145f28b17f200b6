"""Test which work is enqueued on which stream, with streams that only record their work. Needs no GPU."""

from __future__ import annotations

import importlib
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from semiring import CATALOGUE
from semiring.algorithms.staged import staged
from semiring.errors import DeviceError
from semiring.kernels.cuda import CudaBackend
from semiring.kernels.cuda.closing import look_ahead as kernels
from semiring.kernels.cuda.closing import modules
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.engine import Engine, make_plan


class Stream:
    """A stream that records its work in order: names of tasks, and the streams for whose end it waits."""

    current: ClassVar[list[Stream]] = []

    def __init__(self, **_):
        self.work = []

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *_):
        Stream.current.pop()

    def record(self, event):
        event.position = self, len(self.work)
        return event

    def wait_event(self, event):
        self.work.append(event.position)


@pytest.fixture
def main(monkeypatch):
    """Return the current stream of a caller."""
    stream = Stream()
    cuda = SimpleNamespace(
        Stream=Stream,
        Event=lambda **_: SimpleNamespace(),
        Device=lambda: SimpleNamespace(id=0),
        get_current_stream=lambda: Stream.current[-1],
    )
    monkeypatch.setattr(Stream, "current", [stream])
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "semiring.kernels.cuda.streams", raising=False)
    return stream


@pytest.fixture
def streams(main):
    return importlib.import_module("semiring.kernels.cuda.streams")


@pytest.fixture
def backend(streams):
    """Return the backend without kernels, where cuBLAS takes plus_times."""
    backend = object.__new__(CudaBackend)
    backend._classical = SimpleNamespace(supports=lambda plan: plan.semiring.name == "plus_times")
    backend._closing = importlib.import_module("semiring.kernels.cuda.closing")
    backend._log_sums = SimpleNamespace(may_use_cublas=lambda *_: False)
    backend._relations = SimpleNamespace(can_square=lambda plan, n: n > 128)  # as on a GPU with tensor cores for bits
    return backend


def enqueue(name):
    Stream.current[-1].work.append(name)


def test_streams_side_by_side(streams, main):
    """Lanes begin after earlier work, keep their order, wait for the named tasks, and end before later work begins."""
    main.work.append("before")
    used = {}

    def task(number, name):
        used[number] = Stream.current[-1]
        enqueue(name)

    with streams.CudaStreams() as lanes:
        first = lanes.run(0, lambda: task(0, "first"), ())
        lanes.run(3, lambda: task(3, "other"), (first, None))
        lanes.run(0, lambda: task(0, "second"), ())
        assert main.work == ["before"]
    assert used[0].work == [(main, 1), "first", "second"]
    assert used[3].work == [(used[0], 2), (main, 1), "other"]
    assert main.work == ["before", (used[0], 3), (used[3], 3)]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_was_begun_is_waited_for_where_a_task_raises(failing, streams, main):
    begun = []

    def task(i):
        begun.append(Stream.current[-1])
        enqueue(i)
        if i == failing:
            raise KeyboardInterrupt

    def all_tasks():
        with streams.CudaStreams() as lanes:
            for i in range(3):
                lanes.run(i, lambda i=i: task(i), ())

    with pytest.raises(KeyboardInterrupt):
        all_tasks()
    assert Stream.current == [main]
    assert main.work == [(stream, 2) for stream in begun]


def test_a_workspace_belongs_to_one_stream(backend, main):
    """The workspace of the engine belongs to the caller's stream, and each lane's workspace to the stream of the
    lane."""
    engine = Engine(backend, make_plan(CATALOGUE["min_plus"], "float32"))
    users = {}

    def task(lane):
        users.setdefault(id(lane), set()).add(id(Stream.current[-1]))

    for _ in range(3):
        task(engine)
        with engine.lanes() as lanes:
            for number in (0, 4, 2, 0):
                lanes.run(number, task)
    assert all(len(used) == 1 for used in users.values())
    assert users[id(engine)] == {id(main)}
    assert len(users) == 4


def test_a_lane_closes_beside_other_work(backend, main):
    """A lane takes half of the multiprocessors if elements have 4 bytes and there is one tile for each."""
    engine, asked = Engine(backend, make_plan(CATALOGUE["min_plus"], "float32")), []
    backend._closing = SimpleNamespace(close=lambda plan, A, *, has_concurrent_work: asked.append(has_concurrent_work))
    engine.close(None)
    with engine.lanes() as lanes:
        lanes.run(0, lambda lane: lane.close(None))
    assert asked == [False, True]
    cases = [("float32", 512, True), ("int32", 65, True), ("float64", 512, False), ("int32", 2048, False)]
    for dtype, n, narrow in cases:
        arithmetic = arithmetic_of(make_plan(CATALOGUE["min_plus"], dtype))
        assert kernels.look_ahead_shape(n, arithmetic, has_concurrent_work=True).is_narrow is narrow
        assert not kernels.look_ahead_shape(n, arithmetic).is_narrow


def test_products_of_cublas_keep_to_one_stream_and_are_not_recorded(backend, main):
    plan = make_plan(CATALOGUE["plus_times"], "float32")
    assert Engine(backend, plan).lanes() is None
    for _ in range(3):
        backend.replay(plan, None, lambda plan: plan, lambda engine, A: enqueue(engine))
    assert main.work == [plan] * 3


@pytest.mark.parametrize(
    ("dtype", "has_look_ahead"), [("float32", True), ("float64", False), ("int64", False), ("int16", True)]
)
def test_a_device_that_grants_little_shared_memory(backend, monkeypatch, dtype, has_look_ahead):
    """A device with 48 KiB cannot hold elements of 8 bytes. Few rows are closed in the registers of one block anywhere.

    The 99 KiB of consumer cards are too few for the look-ahead kernel on elements of 8 bytes, and enough for two
    launches a stage.
    """
    plan = make_plan(CATALOGUE["min_plus"], dtype)
    for beside in (False, True):
        assert kernels.is_closed_in_stages(arithmetic_of(plan), 99 << 10, beside) is (plan.dtype.itemsize == 8)
    for granted, expected in ((48 << 10, has_look_ahead), (99 << 10, True), (163 << 10, True)):
        monkeypatch.setattr(backend._closing, "max_shared_memory", lambda granted=granted: granted)
        for n, found in ((0, False), (1, True), (104, True), (129, expected), (1024, expected), (5000, expected)):
            assert backend.can_close(plan, n) is found, (granted, n)
    assert not backend.can_close(make_plan(CATALOGUE["plus_times"], "float32"), 100)
    packed = make_plan(CATALOGUE["boolean"], "bool", storage="bits")
    assert [backend.can_close(packed, n) for n in (100, 1000)] == [False, True]


def test_staged_says_what_it_lacks(backend, monkeypatch):
    monkeypatch.setattr(backend._closing, "max_shared_memory", lambda: 48 << 10)
    engine = Engine(backend, make_plan(CATALOGUE["min_plus"], "float64"))
    with pytest.raises(DeviceError, match="too little shared memory to close float64: use rkleene"):
        staged(engine, np.zeros((300, 300)))


def test_shared_memory_is_granted_on_every_device(monkeypatch):
    """A kernel that needs more than 48 KiB requests it on each device on which it is loaded."""
    granted, current = [], SimpleNamespace(getDevice=lambda: device)

    class Kernel:
        max_dynamic_shared_size_bytes = 48 << 10

        def __setattr__(self, name, value):
            granted.append((device, name, value))
            super().__setattr__(name, value)

    cuda = SimpleNamespace(runtime=current)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    functions = [Kernel(), Kernel()]  # the driver has one function of a name and device, for every request
    monkeypatch.setattr(modules, "_module", lambda *_: SimpleNamespace(get_function=lambda name: functions[device]))
    modules._kernel.cache_clear()
    ours = arithmetic_of(make_plan(CATALOGUE["min_plus"], "float32"))
    for number in (0, 1, 0, 1):
        device = number
        modules.compile_kernel("no file", "a kernel", ours, (), 60 << 10)
    assert granted == [(device, "max_dynamic_shared_size_bytes", 60 << 10) for device in (0, 1)]
    for shared in (100 << 10, 50 << 10):  # a launch that needs less takes nothing from one that needs more
        modules.compile_kernel("no file", "a kernel", ours, (), shared)
    modules._kernel.cache_clear()
    assert functions[1].max_dynamic_shared_size_bytes == 100 << 10


def test_a_size_is_cut_for_each_device_once(monkeypatch):
    """Each device gets as many tiles as it has multiprocessors, as large as its shared memory allows."""
    devices, compiled = {0: (132, 227 << 10), 1: (20, 99 << 10)}, []
    monkeypatch.setattr(kernels, "multiprocessors", lambda: devices[current][0])
    monkeypatch.setattr(kernels, "max_shared_memory", lambda: devices[current][1])
    monkeypatch.setattr(kernels, "resident_blocks", lambda *_: devices[current][0])
    monkeypatch.setattr(kernels, "compile_kernel", lambda *given, **_: compiled.append((current, given[3])) or current)
    arithmetic = arithmetic_of(make_plan(CATALOGUE["min_plus"], "float32"))
    kernels.launch_configuration.cache_clear()
    cuts = []
    for number in (0, 1, 0, 1):
        current = number
        cuts.append(kernels.launch_configuration(arithmetic, 1000, current))
    kernels.launch_configuration.cache_clear()
    assert cuts[:2] == cuts[2:]
    assert [device for device, _ in compiled] == [cut.kernel for cut in cuts[:2]] == [0, 1]
    assert compiled[0][1] != compiled[1][1], "tiles are held where there is one for each multiprocessor"
    for cut, (processors, granted) in zip(cuts, devices.values(), strict=False):
        assert cut.blocks <= processors
        assert cut.shared_bytes <= granted
        assert cut.sizes[0] % cut.tile == 0
        assert cut.sizes[0] >= 1000


def test_a_recording_has_streams_of_its_own(streams, main, monkeypatch):
    """A recorded graph may run beside other closures of the recording thread, and kernels keep words for each
    stream."""
    plan = make_plan(CATALOGUE["min_plus"], "float32")
    usual = []

    def use(used_streams):
        with streams.CudaStreams() as lanes:
            lanes.run(1, lambda: used_streams.append(Stream.current[-1]), ())

    use(usual)
    used = []

    def algorithm(engine, A):
        used.append(Stream.current[-1])
        use(used)

    for name in ("is_capturing", "begin_capture"):
        monkeypatch.setattr(Stream, name, lambda *_: False, raising=False)
    graph = SimpleNamespace(launch=lambda stream: stream.work.append("graph"))
    monkeypatch.setattr(Stream, "end_capture", lambda *_: graph, raising=False)
    fake = sys.modules["cupy"]
    fake.cuda.MemoryPool, fake.cuda.using_allocator = lambda: SimpleNamespace(malloc=None), lambda _: nullcontext()
    fake.cuda.runtime = SimpleNamespace(streamCaptureModeRelaxed=0, getDevice=lambda: 0)
    fake.empty = fake.zeros = lambda shape, dtype: np.zeros(shape, dtype)
    A = np.zeros((3, 3), np.float32)
    for _ in range(3):
        streams.replay(plan, A, lambda plan: plan, algorithm)
    assert main.work.count("graph") == 2
    assert used[:2] == [main, usual[0]]
    assert len(used) == 4, "run once, recorded once"
    assert not {id(stream) for stream in used[2:]} & {id(main), id(usual[0])}
    (recording,) = streams._recordings.values()
    assert recording.streams == (used[2], {0: {1: used[3]}})
    use(usual)
    assert usual[0] is usual[1]


def test_captured_kernels_meet_by_words_of_their_own(monkeypatch):
    """A recording has words that are zero before it begins, so that no node of the graph has to zero them."""
    capturing, made = False, []

    def zeros(shape, dtype):
        made.append(shape)
        return np.zeros(shape, dtype)

    cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, zeros=zeros))
    monkeypatch.setattr(kernels, "_words", {})
    one, two = (SimpleNamespace(ptr=ptr, is_capturing=lambda: capturing) for ptr in (16, 32))
    usual = kernels.words_of(one)
    assert kernels.words_of(one) is usual
    assert kernels.words_of(two) is not usual
    with kernels.recorded_words() as recorded:
        made.clear()
        capturing = True
        first, second = kernels.words_of(one), kernels.words_of(two)
        assert np.shares_memory(first, kernels.words_of(one))
        assert not made
    assert first.base is second.base is recorded._all
    assert not np.shares_memory(first, second)
    assert kernels.words_of(one) is not kernels.words_of(one), "a capture by the caller: new ones for every launch"
    capturing = False
    assert kernels.words_of(one) is usual


def test_default_streams_of_threads_have_words_of_their_own(monkeypatch):
    """CUDA has one address for all of them, and their kernels run side by side."""
    cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, zeros=np.zeros))
    monkeypatch.setattr(kernels, "_words", {})
    default = SimpleNamespace(ptr=2, is_capturing=lambda: False)
    here, there = kernels.words_of(default), []
    thread = threading.Thread(target=lambda: there.append(kernels.words_of(default)))
    thread.start()
    thread.join()
    assert kernels.words_of(default) is here
    assert there[0] is not here
