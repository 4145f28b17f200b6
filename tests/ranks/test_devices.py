"""Test several GPUs of a host, played by threads whose "GPUs" are memory of the host: scatter, gather and results."""

from __future__ import annotations

import _thread
import random
import signal
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import matrices
import numpy as np
import pytest
from in_ranks import METHOD, make_small
from scipy.sparse.csgraph import floyd_warshall
from strips import rounding_matrix, same_bits

import semiring as sr
from semiring.algorithms import schedule
from semiring.arrays.device import device_numbers, single_device
from semiring.distributed import closing, several_gpus
from semiring.distributed import gpu_transports as device
from semiring.distributed.grid import Grid
from semiring.distributed.transports import HostTransport, run_ranks
from semiring.errors import AlgebraError, DivergenceError, TooLargeError
from semiring.kernels import get_backend
from semiring.kernels.engine import make_plan
from semiring.out_of_core.buffer_pools import HostBufferPool

TWO = ("cuda:0", "cuda:1")


@pytest.fixture(autouse=True)
def gpus(monkeypatch):
    """Return two GPUs, with the schedule of one with small blocks."""
    done, device = types.SimpleNamespace(synchronize=lambda: None), types.SimpleNamespace(use=lambda: None)
    stream = types.SimpleNamespace(synchronize=lambda: None, record=lambda event: event)
    cuda = types.SimpleNamespace(
        Device=lambda number: device,
        Event=lambda disable_timing: done,
        get_current_stream=lambda: stream,
    )
    cupy = types.SimpleNamespace(cuda=cuda, empty=np.empty)
    monkeypatch.setattr(several_gpus, "available_device_memory", lambda: 1 << 40)
    monkeypatch.setattr(several_gpus, "load_cupy", lambda: cupy)
    monkeypatch.setattr(several_gpus, "DeviceBufferPool", lambda n, dtype, *_, **options: HostBufferPool(n, dtype))
    monkeypatch.setattr(several_gpus, "DeviceTransport", lambda groups, carry: HostTransport(groups))
    monkeypatch.setattr(several_gpus, "get_backend", lambda name: get_backend("cpu"))
    make_small(monkeypatch)
    for name in ("cuda", "cuda, 8 bytes", "cuda, 2 bytes", "cuda, 1 bytes", "cuda, bits"):
        table = replace(schedule._TABLE[name], pivots=((0, 32),), first_widths=((0, 32),))
        monkeypatch.setitem(schedule._TABLE, name, table)


def test_gpus_are_dealt_out_and_a_rank_alone_has_its_current_one(monkeypatch):
    runtime = types.SimpleNamespace(getDevice=lambda: 1, getDeviceCount=lambda: 2)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(device, "load_cupy", lambda what="": cupy)
    for size, expected in ((1, [(1, True)]), (2, [(0, True), (1, True)]), (3, [(0, False), (1, False), (0, False)])):
        found = run_ranks(size, device.rank_device)
        assert [(each.number, each.is_exclusive) for each in found] == expected


def test_several_devices_are_named():
    assert device_numbers(TWO) == (0, 1)
    assert device_numbers(["cuda:3", "cuda:1", "cuda:0"]) == (3, 1, 0)
    assert [device_numbers(one) for one in (None, "cuda", "cuda:1", ("cuda:1",))] == [()] * 4
    assert [single_device(one) for one in (None, "cuda", ("cuda:1",), TWO)] == [None, "cuda", "cuda:1", None]
    for wrong in [("cuda:0", "cuda:0"), ("cuda:0", "cuda"), (), ("cuda:0", "host")]:
        with pytest.raises(ValueError, match="device is"):
            sr.closure(np.zeros((2, 2)), device=wrong)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("min_plus", "float32"),
        ("max_plus", "int32"),
        ("plus_times", "float64"),
        ("boolean", "bool"),
        ("max_min", "int16"),
    ],
)
@pytest.mark.parametrize("layout", ["C", "F", "cut"])
def test_the_closure_is_that_of_one(rng, name, dtype, layout):
    A = rounding_matrix(rng, 97, name, dtype)
    given = {"C": A, "F": np.asfortranarray(A), "cut": np.pad(A, 3)[3:-3, 3:-3]}[layout]
    expected = sr.closure(A, name, method=METHOD)
    assert same_bits(sr.closure(given, name, device=TWO), expected)
    out = np.empty_like(given)
    assert sr.closure(given, name, device=TWO, out=out) is out
    one = sr.closure(given, name, method=METHOD, out=np.empty_like(given))  # turned where columns are adjacent
    assert same_bits(np.ascontiguousarray(out), np.ascontiguousarray(one))


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 3])
def test_rows_travel_while_pivots_are_eliminated(monkeypatch, rng, count, rounds):
    monkeypatch.setattr(several_gpus, "_PIVOTS_PER_READ", {"elements": 32 * (rounds - 1), "bits": 32 * (rounds - 1)})
    devices = tuple(f"cuda:{number}" for number in range(count))
    for name, dtype in (("min_plus", "float32"), ("max_min", "int16"), ("plus_times", "float64")):
        for n in (1, 31, 33, 64, 65, 129, 193, 300):
            A = rounding_matrix(rng, n, name, dtype)
            expected = sr.closure(A, name, method=METHOD)
            assert same_bits(sr.closure(A, name, device=devices, out=A), expected)
    T = matrices.matrix(rng, 300, "boolean", "bool", density=0.01)
    assert same_bits(sr.closure(sr.pack(T), "boolean", device=devices).unpack(), sr.closure(T, "boolean"))


@pytest.mark.parametrize("direction", ["read", "write"])
def test_rows_that_cannot_travel_are_an_error(monkeypatch, rng, direction):
    class Broken(HostBufferPool):
        def __init__(self, n, dtype, *_, **options):
            super().__init__(n, dtype)

        def fail(self, *_):
            raise OSError("the matrix is gone")

    setattr(Broken, direction, Broken.fail)
    monkeypatch.setattr(several_gpus, "DeviceBufferPool", Broken)
    with pytest.raises(OSError, match="the matrix is gone"):
        sr.closure(rounding_matrix(rng, 300, "min_plus", "float32"), device=TWO)


@pytest.mark.parametrize("lanes", ["threads", "one order", "streams"])
def test_random_matrices_devices_and_rounds(monkeypatch, rng, lanes):
    """Whatever was not read or received is filled with a wrong number, and reads take a random time."""

    class SlowPool(HostBufferPool):
        def __init__(self, n, dtype, *_, **options):
            super().__init__(n, dtype)

        def read(self, store, first_row, rows):
            time.sleep(random.random() / 2000)
            super().read(store, first_row, rows)

    def transport(groups, carry):
        if lanes == "one order":
            return device.DeviceTransport(groups, lambda array, root, ranks: ranks.broadcast(array, root))
        return HostTransport(groups)

    monkeypatch.setattr(several_gpus, "DeviceBufferPool", SlowPool)
    monkeypatch.setattr(several_gpus, "DeviceTransport", transport)
    monkeypatch.setattr(several_gpus.load_cupy(), "empty", lambda shape, dtype: np.full(shape, 1, dtype))
    if lanes != "threads":  # a device enqueues, so it never tests whether a pivot has no star
        monkeypatch.setattr(closing._DivergenceWord, "is_set", lambda word, arrival: False)
    if lanes == "streams":
        monkeypatch.setattr(HostTransport, "lanes", lambda self, engine, **_: StreamsOfThreads(engine))
        allocate = closing._Tiles.allocate

        def allocate_and_keep(tiles, *arguments):
            if not isinstance(tiles._panels, KeptPanels):
                tiles._panels = KeptPanels()
            return allocate(tiles, *arguments)

        monkeypatch.setattr(closing._Tiles, "allocate", allocate_and_keep)
    cases = [("min_plus", "float32"), ("min_plus", "int32"), ("plus_times", "float64"), ("max_min", "uint8")]
    for _ in range(20):
        name, dtype = cases[rng.integers(len(cases))]
        n, count, rounds = int(rng.integers(1, 400)), int(rng.integers(2, 6)), int(rng.integers(1, 7))
        monkeypatch.setattr(several_gpus, "_rounds_in_memory", lambda *_, rounds=rounds: rounds)
        A = rounding_matrix(rng, n, name, dtype)
        expected, before = sr.closure(A, name, method=METHOD), A.copy()
        devices, reported = tuple(f"cuda:{number}" for number in range(count)), []
        A.flags.writeable = False
        found = sr.closure(A, name, device=devices, progress=lambda *done, to=reported: to.append(done))
        assert same_bits(found, expected), (name, dtype, n, count, rounds)
        assert same_bits(A, before)
        assert reported == sorted(reported)
        assert reported[-1][0] == reported[-1][1]
        in_place = sr.closure(before, name, device=devices, out=before)
        assert same_bits(in_place, expected), (name, dtype, n, count, rounds)
        if (name, dtype) == ("min_plus", "float32"):
            weights = np.ma.masked_invalid(A.astype(np.float64))  # in a dense array SciPy takes 1e-8 for no edge
            np.testing.assert_allclose(expected, floyd_warshall(weights), rtol=1e-5)


class KeptPanels(dict):
    """Panels that tasks look up later than on a device, where their kernels have been enqueued with the panels."""

    def __len__(self):
        return 0


class StreamsOfThreads:
    """Lanes that run at the same time, each in a thread, some of them slowly: only marks order their tasks."""

    def __init__(self, engine):
        self.engines = [engine.lane(number) for number in range(5)]
        self.threads = [ThreadPoolExecutor(1) for _ in self.engines]
        self.pauses = [random.choice((0, 0, 0.01)) for _ in self.engines]  # some lanes are much slower
        self.marks = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for thread in self.threads:
            thread.shutdown()
        for mark in self.marks:
            mark.synchronize()

    def reserve(self, number, entries):
        self.engines[number].reserve(entries)

    def run(self, number, task, *marks):
        def run():
            for mark in marks:
                self.wait(mark)
            time.sleep(self.pauses[number] * random.random())
            task(self.engines[number])

        self.marks.append(types.SimpleNamespace(synchronize=self.threads[number].submit(run).result))
        return self.marks[-1]

    def wait(self, mark):
        if mark is not None:
            mark.synchronize()


def test_an_interrupt_while_rows_are_copied(monkeypatch, rng):
    """The call waits for its threads, and the next call has the right result."""

    class Interrupted(HostBufferPool):
        def __init__(self, n, dtype, *_, **options):
            super().__init__(n, dtype)

        def read(self, store, first_row, rows):
            if first_row == 192:
                _thread.interrupt_main()
            super().read(store, first_row, rows)

    A = rounding_matrix(rng, 300, "min_plus", "float32")
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(several_gpus, "DeviceBufferPool", Interrupted)
            sr.closure(A, device=TWO)
            time.sleep(10)  # the closure ended before the interrupt arrived
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rows")]
    assert same_bits(sr.closure(A, device=TWO), sr.closure(A, method=METHOD))


@pytest.mark.parametrize("vertex", [0, 40, 150, 298, 299])
@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_a_pivot_without_a_star_in_each_group(monkeypatch, vertex, rounds):
    monkeypatch.setattr(several_gpus, "_rounds_in_memory", lambda *_: rounds)
    A = np.zeros((300, 300))
    A[vertex, vertex] = A[299, 299] = 1.0
    before = A.copy()
    with pytest.raises(DivergenceError, match=f"vertex {vertex}\\b"):
        sr.closure(A, "plus_times", device=("cuda:0", "cuda:1", "cuda:2"))
    assert same_bits(A, before)


def test_panels_leave_memory_for_kernels(monkeypatch):
    """Rounds are fewer where memory is scarce, and panels are allocated for no more blocks than a group has."""
    plan, grid = make_plan(sr.min_plus, "float32"), Grid(((0, 1024), (1024, 2048)), (2, 1))
    tiles = np.empty((1024, 2048), np.float32)
    panels = (1024 * 2048 + 2 * 1024**2) * tiles.itemsize
    for free, rounds in ((0, 1), (3, 1), (4, 2), (9, 7), (100, 13)):
        monkeypatch.setattr(several_gpus, "available_device_memory", lambda free=free: free * panels)
        assert several_gpus._rounds_in_memory(plan, grid, tiles) == rounds
    monkeypatch.setattr(several_gpus, "_rounds_in_memory", lambda *_: 100)
    counts, initialize = [], closing._Tiles.__init__

    def recorded(tiles, *arguments):
        counts.append(arguments[-1])
        initialize(tiles, *arguments)

    monkeypatch.setattr(closing._Tiles, "__init__", recorded)
    sr.closure(np.zeros((300, 300), np.float32), device=TWO)
    assert counts == [5, 5]


def test_signs_words_paths_files_and_stacks(rng, tmp_path):
    h = rng.integers(0, 500, 97)
    A = (rng.integers(0, 1000, (97, 97)) + h[:, None] - h).astype(np.float32)
    assert same_bits(sr.closure(A, device=TWO), sr.closure(A, method=METHOD))
    T = matrices.matrix(rng, 97, "boolean", "bool", density=0.1)
    words = sr.closure(sr.pack(T), "boolean", device=TWO)
    assert same_bits(words.unpack(), sr.closure(T, "boolean"))
    B = np.where(rng.random((97, 97)) < 0.2, rng.integers(1, 9, (97, 97)), np.inf)
    found, expected = sr.shortest_paths(B, device=TWO), sr.shortest_paths(B)
    assert same_bits(found.matrix, expected.matrix)
    assert same_bits(found.predecessors, expected.predecessors)
    np.save(tmp_path / "B.npy", B)
    assert same_bits(sr.closure(tmp_path / "B.npy", device=TWO), sr.closure(B))


def test_explain_names_the_gpus(rng, tmp_path):
    np.save(tmp_path / "A.npy", rounding_matrix(rng, 97, "min_plus", "float32"))
    A = np.load(tmp_path / "A.npy")
    for given, method in ((A, "auto"), (A, METHOD), (tmp_path / "A.npy", "auto")):
        _, why = sr.closure(given, device=TWO[::-1], method=method, explain=True)
        assert (why.backend, why.devices) == ("cuda", (1, 0))
        assert "on the GPUs cuda:1, cuda:0\n" in str(why)
        assert " ".join(why.answers[-1][1:3]) == "blocked_floyd_warshall closes 97 × 97 float32, cuda:1, cuda:0"
        assert "cpu" not in str(why)


def test_a_named_method_runs_on_the_gpus(monkeypatch, rng):
    closed, close = [], several_gpus._close
    monkeypatch.setattr(several_gpus, "_close", lambda devices, *more: (closed.append(devices), close(devices, *more)))
    A = rounding_matrix(rng, 97, "min_plus", "float32")
    for method in ("auto", METHOD):
        sr.closure(A, device=TWO, method=method)
        sr.shortest_paths(A, device=TWO, method=method)
    assert closed == [(0, 1)] * 4


def test_progress_is_reported_and_may_stop_it(rng):
    told = []
    A = rounding_matrix(rng, 97, "min_plus", "float32")
    sr.closure(A, device=TWO, progress=lambda done, total: told.append((done, total)))
    assert len(told) > 2
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sr.closure(A, device=TWO, progress=stop)


def test_what_is_wrong_is_told(monkeypatch, rng):
    A = np.zeros((97, 97))
    A[70, 70] = 1.0
    with pytest.raises(DivergenceError, match="vertex 70"):
        sr.closure(A, "plus_times", device=TWO)
    with monkeypatch.context() as full:
        full.setattr(several_gpus.load_cupy(), "empty", lambda shape, dtype: np.empty(1 << 55, np.uint8))
        with pytest.raises(
            TooLargeError, match="too little free memory for its share, 37 KiB and two panels of 32 rows"
        ):
            sr.closure(A, device=TWO)
    with pytest.raises(AlgebraError, match="squaring does not run on several GPUs"):
        sr.closure(A, device=TWO, method="squaring")
    assert same_bits(sr.closure(rng.random((0, 0)), device=TWO), np.empty((0, 0)))
