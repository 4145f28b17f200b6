"""Test Ctrl-C in long calls, and a lock of Numba's compiler that an interrupt left locked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from strips import least_memory, make_small

import semiring as sr
from semiring.distributed import transports
from semiring.kernels.cpu import bit_matrices
from semiring.kernels.cpu import kernels as cpu_kernels
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.cpu.thread_pool import TASK_SECONDS, _Ranges
from semiring.kernels.engine import make_plan
from semiring.out_of_core.disk import File

_HELD = """
import numpy as np, scipy.sparse
import semiring as sr
from numba.core.compiler_lock import global_compiler_lock
rng = np.random.default_rng(0)
A, sparse = rng.random((700, 700)) + 1, scipy.sparse.random(3000, 3000, 2e-3, "csr", random_state=0)
global_compiler_lock.acquire()  # as an interrupted compilation leaves it
sr.set_threads(4)
sr.matmul(A, A), sr.matmul(A, A, "log_plus"), sr.matmul(A, A[:, :1])
sr.matmul(A[:60, :30][None].repeat(400, 0), A[:30])
sr.matmul(A, A, return_witness=True)
sr.closure(A), sr.closure(A + A.T), sr.closure(A[:20, :20][None].repeat(400, 0)), sr.closure(-A, "max_plus")
sr.shortest_paths(A), sr.transitive_closure(A > 1.5), sr.scan(A[:50, :50], A[:50, :50], "log_plus", steps=50)
F = sr.factor(sparse)
F.solve(rng.random((3000, 40))), next(iter(F.rows()))
F.table(range(90), range(80)), F.distances(range(900), range(900))
sr.shortest_paths(sparse, sources=range(300))
print("ended")
"""


def test_a_lock_that_an_interrupt_left_locked_stops_no_call():
    """No helper waits for the lock of Numba's compiler, because the thread that waits for the helper may hold it."""
    environment = os.environ | {"SEMIRING_CACHE_DIR": "", "SEMIRING_NUMPY_SECONDS": "0", "NUMBA_OPT": "0"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HELD], capture_output=True, text=True, timeout=300, env=environment
    )
    assert result.stdout == "ended\n", result.stderr


def _long_calls():
    rng = np.random.default_rng(0)
    A = rng.random((9000, 9000), np.float32)
    sparse = scipy.sparse.csr_array(
        (rng.random(200_000), rng.integers(0, 40_000, (2, 200_000))), shape=(40_000, 40_000)
    )
    packed = sr.BitMatrix(rng.integers(0, 1 << 32, (40_000, 1250), np.uint32))
    return {
        "product": lambda: sr.matmul(A, A),
        "product on one thread": lambda: sr.matmul(A, A, threads=1),
        "witness": lambda: sr.matmul(A, A, return_witness=True),
        "log_plus": lambda: sr.matmul(A, A, "log_plus"),
        "sequence": lambda: sr.multi_dot(A[:300, :300], A[0, :300], "max_plus", steps=10**7),
        "power": lambda: sr.power(A, 9),
        "closure": lambda: sr.closure(A),
        "paths": lambda: sr.shortest_paths(A[:6000, :6000]),
        "bits": lambda: sr.matmul(packed, packed, "boolean"),
        "searches": lambda: sr.shortest_paths(sparse, sources=range(4000)),
        "betweenness": lambda: sr.centrality.betweenness(sparse),
        "factor": lambda: sr.factor(sparse[:20_000, :20_000]),
    }


AGAIN = 10  # seconds after which a dropped interrupt is sent again
HANG = 30  # seconds: a call that goes on so long after Ctrl-C does not answer it; a loaded machine needs less


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="the test sends a signal")
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_every_long_call_answers_an_interrupt():
    """A call raises `KeyboardInterrupt` and nothing else, and the next call is right.

    Python drops an interrupt that arrives in the callback of a weak reference. A user then presses Ctrl-C again.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    small = np.random.default_rng(1).random((300, 300))
    expected = sr.closure(small)
    try:
        for name, call in _long_calls().items():
            for delay in (0.05, 0.6):
                signal.setitimer(signal.ITIMER_REAL, delay, AGAIN)
                begun = time.monotonic()
                with pytest.raises(KeyboardInterrupt):
                    call()
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert time.monotonic() - begun - delay < HANG, name
                np.testing.assert_array_equal(sr.closure(small), expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, handler)


def _close_file(patch, folder, running):
    """Ctrl-C in the callback, and at each shutdown of a thread that reads or writes."""
    source = folder / "A.npy"
    np.save(source, np.random.default_rng(0).random((300, 300)))
    write = File.write

    def write_slowly(*arguments):
        running.append(1)
        time.sleep(0.02)
        write(*arguments)
        running.pop()

    make_small(patch)
    memory = least_memory(source)
    patch.setattr(File, "write", write_slowly)
    sr.closure(str(source), out=str(folder / "D.npy"), memory=2 * memory, progress=_interrupt)


def _run_ranks(patch, folder, running):
    """Ctrl-C at each wait for the ranks."""

    def work(ranks):
        running.append(1)
        time.sleep(0.02)
        running.pop()

    transports.run_ranks(2, work)


def _interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", [_close_file, _run_ranks])
def test_every_further_interrupt_waits_for_threads_that_write(call, monkeypatch, tmp_path):
    """What runs when the call raises would write to a file that is closed, or to memory that is freed."""
    running, presses = [], 3 * [_interrupt]

    def interrupt_first(function):
        return lambda *arguments, **options: (presses or [function]).pop()(*arguments, **options)

    monkeypatch.setattr(futures, "wait", interrupt_first(futures.wait))
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupt_first(ThreadPoolExecutor.shutdown))
    with pytest.raises(KeyboardInterrupt):
        call(monkeypatch, tmp_path, running)
    assert not running
    assert not presses
    assert not [each for each in threading.enumerate() if each.name.startswith(("reader", "writer", "rank"))]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "k", "n"), [(9000, 9000, 9000), (40, 200_000, 20_000), (100_000, 9000, 30)])
@pytest.mark.parametrize("operation", ["product", "upper_product"])
def test_a_product_returns_to_python_after_bounded_work(operation, m, k, n, threads, monkeypatch):
    """Between two tests for Ctrl-C, the caller computes blocks of at most twice `block_pairs`, a fifth of a second."""
    if operation == "upper_product":
        m = n
    kernels, computed = kernels_for(make_plan(sr.min_plus, "float32")), []

    def record(shape, matrices, options, blocks, threads, kind):
        def run(job, count, members, kind, most, reports):
            areas = (blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])
            computed.append((int(areas.sum()), matrices[1].shape[1], int(areas.max()) * matrices[1].shape[1] * most))

        with monkeypatch.context() as patch:
            patch.setattr(cpu_kernels, "run_blocks", run)
            run_on_threads(shape, matrices, options, blocks, threads, kind)

    run_on_threads = kernels._run_on_threads
    monkeypatch.setattr(kernels, "_product_entry", lambda *_: None)
    monkeypatch.setattr(kernels, "_run_on_threads", record)
    A, B, C = (np.broadcast_to(np.float32(0), shape) for shape in ((m, k), (k, n), (m, n)))
    A, B, C = (np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), X.shape, (0, 4)) for X in (A, B, C))
    if operation == "product":
        kernels.product(C, A, B, np.empty((0, 0), np.int32), 0, 0, 0, threads)
    else:
        kernels.upper_product(C, A, B, threads)
    assert sum(steps for _, steps, _ in computed) == k
    assert max(most for *_, most in computed) <= 2 * kernels.block_pairs
    assert computed[0][0] >= m * n // 2


def test_a_product_of_packed_bits_returns_to_python_after_bounded_work(monkeypatch):
    tasks, n = [], 1 << 17
    monkeypatch.setattr(bit_matrices, "run_tasks", lambda function, parts, threads, reports: tasks.extend(parts))
    words = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint32), (n, n // 32), (0, 4))
    bit_matrices.multiply(make_plan(sr.boolean, bool, storage="bits"), words, words, words)
    assert sum((bottom - top) * (right - left) for top, bottom, left, right in tasks) == n * n // 32
    most = max((bottom - top) * (right - left) * 32 * n for top, bottom, left, right in tasks)
    assert most <= 2 * bit_matrices._MAX_TASK_PAIRS


@pytest.mark.parametrize(("size", "step", "unit"), [(1, 1, 1), (1000, 1000, 1), (1000, 300, 16), (37, 5, 8)])
@pytest.mark.parametrize("seconds", [0.0, 0.01, 10.0])
def test_ranges_are_cut_by_the_time_that_ranges_take(size, step, unit, seconds):
    """``seconds`` is the time of a number: a range takes at most a tenth of a second, or has ``unit`` numbers."""
    ranges, found = _Ranges(size, -(-step // unit) * unit, unit), []
    for start, stop in ranges:
        found.append((start, stop))
        ranges.adapt(stop - start, seconds * (stop - start))
    assert [i for part in found for i in range(*part)] == list(range(size))
    for start, stop in found:
        assert start % unit == 0
        assert stop - start <= max(unit, -(-step // unit) * unit)
        assert stop - start <= unit or (stop - start) * seconds <= TASK_SECONDS
