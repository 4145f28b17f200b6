"""Test threads: identical bits for any number of them, forks, simultaneous callers, errors."""

from __future__ import annotations

import ctypes
import dis
import os
import subprocess
import sys
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

import semiring as sr
from semiring.kernels.cpu import CpuBackend, thread_pool, thread_team
from semiring.kernels.cpu import kernels as cpu_kernels
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import make_plan

BACKEND = CpuBackend()
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def product(A, B, semiring=sr.plus_times, threads=1):
    C = np.empty((A.shape[0], B.shape[1]), A.dtype)
    BACKEND.multiply(make_plan(semiring, A.dtype, threads=threads), C, A, B)
    return C


@pytest.mark.parametrize("shape", [(400, 400, 400), (7, 900, 1000), (1000, 900, 7), (1, 2100, 2100), (333, 1025, 129)])
def test_the_number_of_threads_changes_no_bit(shape, rng):
    m, k, n = shape
    A, B = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    expected = product(A, B)
    np.testing.assert_allclose(expected, A @ B, atol=1e-9)
    for threads in (2, 3, 5, 16):
        np.testing.assert_array_equal(product(A, B, threads=threads), expected)


def test_witnesses_do_not_depend_on_threads(rng):
    A, B = (rng.integers(0, 50, (300, 300)).astype(np.float32) for _ in range(2))
    results = []
    for threads in (1, 2, 7):
        C, W = np.full((300, 300), np.inf, np.float32), np.full((300, 300), -1, np.int32)
        BACKEND.multiply_add_witness(make_plan(sr.min_plus, "float32", threads=threads), C, W, A, B, 0)
        results.append((C, W))
    for found in results[1:]:
        for one, other in zip(found, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (6, 64), (7, 65), (100, 1000), (1000, 10), (997, 991)])
@pytest.mark.parametrize("tasks", [1, 2, 3, 8, 50])
def test_blocks_cover_a_matrix_once(shape, tasks):
    m, n = shape
    kernels = kernels_for(make_plan(sr.min_plus, "float32"))
    covered = np.zeros(shape, int)
    for top, bottom, left, right in kernels.product_blocks(m, n, tasks):
        assert top % kernels.tile.rows == 0
        assert left % kernels.width == 0
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 300, 1000, 2047])
@pytest.mark.parametrize("tasks", [1, 4, 50])
def test_blocks_cover_a_triangle_once(n, tasks):
    """Blocks cover each entry of the triangle exactly once, and few entries below the diagonal."""
    kernels = kernels_for(make_plan(sr.min_plus, "float32"))
    covered = np.zeros((n, n), int)
    for top, bottom, left, right in kernels.upper_product_blocks(n, tasks):
        assert 0 <= top < bottom <= n
        assert 0 <= left < right <= n
        covered[top:bottom, left:right] += 1
    assert covered.max() == 1
    assert covered[np.triu_indices(n)].all()
    assert covered.sum() <= n * (n + 1) // 2 + n * (kernels.width + kernels.tile.rows)


def test_callers_at_the_same_time(rng):
    A, B = rng.standard_normal((300, 300)), rng.standard_normal((300, 300))
    expected = product(A, B)
    right = []

    def call():
        right.extend(np.array_equal(product(A, B, threads=3), expected) for _ in range(10))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert right == [True] * 40


def test_a_team_that_went_to_sleep_wakes_up(rng):
    A, B = rng.standard_normal((300, 300)), rng.standard_normal((300, 300))
    expected = product(A, B)
    for _ in range(3):
        np.testing.assert_array_equal(product(A, B, threads=2), expected)
        time.sleep(0.05)  # much longer than the team waits


def test_a_compilation_is_no_time_that_helpers_lost(monkeypatch):
    monkeypatch.setattr(thread_pool, "_PAUSE", 1e6)
    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool())
    caller, both = threading.current_thread(), threading.Barrier(2, timeout=30)

    def task(_: int) -> None:
        both.wait()
        if threading.current_thread() is not caller:
            thread_pool.call_in_caller(time.sleep, 0.05)

    run_tasks(task, [(1,), (2,)], 2)
    assert not thread_pool._pool.regulator._alone_until
    monkeypatch.setattr(thread_pool, "call_in_caller", lambda function, *arguments: function(*arguments))
    run_tasks(task, [(1,), (2,)], 2)  # the helper itself takes as long
    assert thread_pool._pool.regulator._alone_until


def test_calls_that_lost_time_with_helpers_run_alone_for_a_while(rng, monkeypatch):
    """A helper that lost its core: the caller waits, and then computes alone for thirty times as long."""
    clock, regulator = [0.0], thread_pool.Regulator()
    monkeypatch.setattr(thread_pool, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(thread_pool, "_PAUSE", 30.0)
    regulator.record("small", 2.0, 1.0)
    regulator.record("large", 100.0, 96.0)
    regulator.record("fast", 1.0, 2.0)
    assert [regulator.allows(kind) for kind in ("small", "large", "fast", "new")] == [False, True, True, True]
    clock[0] = 30.0
    assert regulator.allows("small")
    regulator.record("fast", 2.0, 1.5)  # less than it has saved
    assert regulator.allows("fast")
    for kind in ("fast", "small"):
        regulator.record(kind, 2.0, 1.0)
    for until, allowed in ((59.0, []), (61.0, ["fast"]), (91.0, ["fast", "small"])):  # one trial after the other
        clock[0] = until
        assert [kind for kind in ("fast", "small") if regulator.allows(kind)] == allowed
    clock[0] = 200.0
    regulator.record("stopped", 3600.0, 1.0)
    clock[0] = 230.0
    assert regulator.allows("stopped")
    A = rng.random((300, 300))
    expected = product(A, A, threads=2)
    monkeypatch.setattr(thread_pool.Regulator, "allows", lambda *_: False)
    monkeypatch.delattr(thread_team._ThreadTeam, "wake")
    monkeypatch.delattr(thread_pool._TaskQueue, "help")
    np.testing.assert_array_equal(product(A, A, threads=2), expected)
    first, second = (partial(function, 1) for function in (abs, min))
    assert thread_pool._kind(first, 5) != thread_pool._kind(second, 5)
    assert thread_pool._kind(first, 5) == thread_pool._kind(partial(abs), 5) == thread_pool._kind(abs, 4)
    callers = []
    run_tasks(lambda _: callers.append(threading.current_thread()), [(1,), (2,)], 2)
    assert callers == 2 * [threading.current_thread()]


def _raise_interrupt(*_):
    raise KeyboardInterrupt


def _publish_rows(A, job, copy, is_copied, blocks, mailbox, members, *_):
    """Publish the rows of the first pivot, and return before they are updated."""
    thread_team._team.publish(mailbox, job, blocks, members)
    return 0


def _interrupted_product(patch, A):
    patch.setattr(thread_team._team, "finish", _raise_interrupt)
    product(A, A, threads=2)


def _interrupted_rows(patch, A):
    patch.setattr(cpu_kernels, "compile_entry_point", lambda *_: lambda *a: (_publish_rows(*a), _raise_interrupt()))
    kernels_for(make_plan(sr.min_plus, A.dtype)).close_by_rows(A.copy(), 2, dynamic=False)


def _interrupted_wait(patch, A):
    patch.setattr(cpu_kernels, "compile_entry_point", lambda *_: _publish_rows)
    patch.setattr(thread_team._team, "finish", _raise_interrupt)
    kernels_for(make_plan(sr.min_plus, A.dtype)).close_by_rows(A.copy(), 2, dynamic=False)


def _is_at_rest():
    """Return whether every block that was taken is finished, and no more can be taken."""
    address = thread_team._team.mailbox
    word, finished = (ctypes.c_int64.from_address(address + offset).value for offset in (0, thread_team._FINISHED))
    return finished == word & 0xFFFF == (word >> 16) & 0xFFFF


@pytest.mark.parametrize("call", [_interrupted_product, _interrupted_rows, _interrupted_wait])
def test_every_further_interrupt_leaves_no_thread_at_work(call, rng, monkeypatch):
    """Ctrl-C at each wait for the blocks that have begun: threads write to memory that the caller frees."""
    A = rng.random((1500, 1500))
    expected = product(A, A, threads=2)
    kernels_for(make_plan(sr.min_plus, A.dtype)).close_by_rows(A.copy(), 2, dynamic=False)
    for _ in range(5):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            call(patch, A)
        assert _is_at_rest()
    np.testing.assert_array_equal(product(A, A, threads=2), expected)


def _interrupt_at(place, module):
    """Raise Ctrl-C at one of the places where Python tests for it: as a function begins, after a call, in a loop."""
    places, previous = 0, {}

    def trace(frame, event, _):
        nonlocal places
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = previous.get(frame, "")
            previous[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "call" or (event == "opcode" and before.startswith(("CALL", "JUMP_BACKWARD"))):
            places += 1
            if places > place:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)


def _interrupt_everywhere(call, module):
    """Yield after each call that was interrupted, at each place of a module."""
    for place in range(10_000):
        _interrupt_at(place, module)
        try:
            call()
        except KeyboardInterrupt:
            yield
        else:
            break
        finally:
            sys.settrace(None)
    assert place > 10


def test_an_interrupt_at_any_instruction_leaves_the_team_free(rng, monkeypatch):
    A, members = rng.random((200, 200)), []
    expected = product(A, A, threads=3)
    team = thread_team._team
    publish = team.publish

    def call():
        time.sleep(0.002)  # the threads of the team fall asleep
        product(A, A, threads=3)

    for _ in _interrupt_everywhere(call, thread_team):
        assert _is_at_rest()
        with monkeypatch.context() as patch:
            patch.setattr(team, "publish", lambda *job: (members.append(job[-1]), publish(*job)))
            np.testing.assert_array_equal(product(A, A, threads=3), expected)
        assert members.pop() == 3
    time.sleep(0.2)
    assert len(set(team.sleepers)) == len(team.sleepers) == team.members - 1


def test_an_interrupt_at_any_instruction_leaves_no_helper_at_work(monkeypatch):
    begun, running, caller = threading.Event(), [], threading.get_ident()
    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool())

    def work(number):
        running.append(number)
        if threading.get_ident() == caller:
            assert begun.wait(10)
        else:
            begun.set()
            time.sleep(0.005)
        running.remove(number)

    for _ in _interrupt_everywhere(lambda: run_tasks(work, [(0,), (1,)], 2), thread_pool):
        assert not running
        begun.clear()


_FORK = """
import os, sys
import numpy as np
import semiring as sr
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import make_plan

def product():
    C = np.empty_like(A)
    CpuBackend().multiply(make_plan(sr.plus_times, A.dtype, threads=2), C, A, A)
    return C

A = np.random.default_rng(0).standard_normal((300, 300))
expected = product()
run_tasks(print, [(), ()], 2)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        done = []
        run_tasks(done.append, [(1,), (2,)], 2)
        os._exit(0 if np.array_equal(product(), expected) and sorted(done) == [1, 2] else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
assert np.array_equal(product(), expected)
sys.exit(max(statuses))
"""


@pytest.mark.full
@FORKS
def test_children_of_a_fork_start_threads_of_their_own():
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK], capture_output=True, timeout=120, text=True
    )
    assert result.returncode == 0, result.stderr


def test_every_task_runs_once():
    for threads in (1, 2, 5):
        done = []
        run_tasks(done.append, [(i,) for i in range(100)], threads)
        assert sorted(done) == list(range(100))
    run_tasks(done.append, [], 4)
    assert len(done) == 100


def test_an_error_of_a_task_reaches_the_caller():
    def fail(i):
        if i == 3:
            raise ValueError("the third")

    for threads in (1, 2, 4):
        with pytest.raises(ValueError, match="the third"):
            run_tasks(fail, [(i,) for i in range(8)], threads)
    run_tasks(fail, [(0,), (1,)], 2)


def test_an_interrupted_call_waits_for_its_helpers():
    """Ctrl-C in the caller's own task waits for a helper in the middle of another task."""
    begun, ended, caller = threading.Event(), [], threading.get_ident()

    def task(i):
        if threading.get_ident() == caller:
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.05)
        ended.append(i)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(task, [(i,) for i in range(50)], 2)
    assert len(ended) == 1, "what had begun has ended, and nothing more began"
    time.sleep(0.1)
    assert len(ended) == 1


def test_an_interrupted_wait_goes_on(monkeypatch):
    """Ctrl-C while the caller waits for the last helper is raised after that helper ends."""
    ended, wait, calls = [], threading.Condition.wait, []

    def interrupt(condition, timeout=None):
        calls.append(condition)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(condition, timeout)

    begun, caller = threading.Event(), threading.get_ident()

    def task(i):
        if threading.get_ident() == caller:
            begun.wait(10)
            monkeypatch.setattr(thread_pool.threading.Condition, "wait", interrupt)
            return
        begun.set()
        time.sleep(0.1)
        ended.append(i)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(task, [(0,), (1,)], 2)
    assert len(ended) == 1


def test_a_call_that_no_helper_has_taken_keeps_no_array_alive(monkeypatch):
    pool = thread_pool._Pool()
    pool.size = 1  # a helper that does not wake up
    monkeypatch.setattr(thread_pool, "_pool", pool)
    array = np.zeros(4)
    kept = weakref.ref(array)
    run_tasks(lambda place, array=array: array.__setitem__(place, 1), [(0,), (1,), (2,), (3,)], 2)
    np.testing.assert_array_equal(array, 1)
    assert pool.queue.qsize() == 1
    del array
    assert kept() is None
    pool.queue.get().help()  # and a helper that wakes up later runs nothing


def test_tasks_of_tasks():
    done = []

    def outer(i):
        run_tasks(lambda j: done.append((i, j)), [(j,) for j in range(4)], 3)

    run_tasks(outer, [(i,) for i in range(6)], 3)
    assert sorted(done) == [(i, j) for i in range(6) for j in range(4)]
