"""Test the process that compiles kernels beside a caller: what starts it, what prevents it, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import tiers

import semiring as sr
from semiring.cli import main
from semiring.kernels import code_store
from semiring.kernels.cpu import (  # with Numba loaded, loading takes no time
    compiler_process,
    first_calls,
    kernels,  # noqa: F401
)
from semiring.kernels.cpu.compiler_process import PRODUCT
from semiring.kernels.cpu.first_calls import FirstCalls
from semiring.kernels.engine import make_plan

PLAN = make_plan(sr.max_min, np.dtype("float32"), nonnegative=True)


class Started:
    """A process that runs until it is told to end."""

    pid = 1

    def __init__(self):
        self.status = None

    def poll(self):
        return self.status


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Record the processes that are started, and start none."""
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(first_calls, "SECONDS", None)
    monkeypatch.delenv("SEMIRING_NUMPY_SECONDS", raising=False)
    monkeypatch.setattr(compiler_process, "_requests", compiler_process._Requests())
    processes = []

    def start(plan, group):
        processes.append(Started())
        return processes[-1]

    monkeypatch.setattr(compiler_process, "_start", start)
    return processes


def _finish(process, group):
    """End a process as `main` ends it."""
    code_store.save(compiler_process._version(), compiler_process._key(PLAN, group), True)
    code_store.release(compiler_process._version(), compiler_process._key(PLAN, group))
    compiler_process._requests.polled.clear()
    process.status = 0


def test_numpy_computes_until_the_process_has_compiled(rng, started):
    first, A, C = FirstCalls(PLAN), rng.random((300, 300), np.float32), np.empty((300, 300), np.float32)
    answers = []
    for _ in range(20):
        answers.append(first.product(PLAN, C, A, A, 0))
        if len(answers) == 12:
            _finish(started[0], PRODUCT)
    assert answers == [True] * 12 + [False] * 8
    assert len(started) == 1
    assert PRODUCT not in first.pending
    assert np.array_equal(C, np.minimum(A[:, :, None], A).max(1))
    again = FirstCalls(PLAN)
    assert not again.product(PLAN, C, A, A, 0), "the marker is on disk"


def test_one_process_at_a_time_and_one_for_each_group(started):
    assert compiler_process.ensure_compiling(PLAN, PRODUCT)
    assert compiler_process.ensure_compiling(PLAN, "closure")
    assert len(started) == 1
    _finish(started[0], PRODUCT)
    assert compiler_process.ensure_compiling(PLAN, "closure")
    assert len(started) == 2
    started[1].status = 1
    assert not compiler_process.ensure_compiling(PLAN, "closure"), "it failed, so the caller compiles"
    compiler_process._renew()  # as another process finds the cache
    assert compiler_process.ensure_compiling(PLAN, "closure"), "the reservation of the process that failed"
    assert len(started) == 2


@pytest.mark.parametrize("reason", ["no cache", "read-only", "a folder of everybody", "embedded", "frozen", "no fork"])
def test_where_no_process_can_help_the_caller_compiles(started, tmp_path, monkeypatch, reason):
    """The caller computes a second in NumPy, and then compiles."""
    folder = tmp_path / "cache"
    if reason == "no cache":
        monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    elif reason == "read-only":
        folder.write_text("a file in the place of the folder")  # root may write to every folder
    elif reason == "a folder of everybody":
        folder.mkdir()
        folder.chmod(0o777)
    elif reason == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    elif reason == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:

        def refuse(*_):
            raise BlockingIOError(11, "no more processes")

        monkeypatch.setattr(compiler_process, "_start", refuse)
    first, A = FirstCalls(PLAN), np.ones((300, 300), np.float32)
    answers = [first.product(PLAN, np.empty_like(A), A, A, 0) for _ in range(40)]
    assert answers[:30] == [True] * 30
    assert not answers[-1]
    assert started == []


def test_much_work_is_compiled_at_once_and_says_so(started, caplog, monkeypatch):
    """A huge product, and many small ones while the process gets no core."""
    caplog.set_level("INFO", logger="semiring")
    first, A = FirstCalls(PLAN), np.broadcast_to(np.float32(1), (20_000, 20_000))
    assert not first.product(PLAN, A, A, A, 0)
    assert "max_min float32: NumPy would have taken about 8000 s, so the call compiles its kernels now" in caplog.text
    monkeypatch.setattr(first_calls, "_PATIENCE", 0.3)
    first, A = FirstCalls(PLAN), np.ones((300, 300), np.float32)
    answers = [first.product(PLAN, np.empty_like(A), A, A, 0) for _ in range(40)]
    assert answers == sorted(answers, reverse=True)
    assert 5 < sum(answers) < 20


@pytest.mark.parametrize("switch", [{"SEMIRING_NUMPY_SECONDS": "5"}, {}], ids=["off", "on"])
def test_a_program_without_a_main_guard(tmp_path, switch):
    """It forks, is interrupted, and ends before its compiler. The results of both processes are the same."""
    program = """
import os, signal, sys
import numpy as np, semiring as sr
from semiring.kernels.cpu import compiler_process
A = np.random.default_rng(0).random((300, 300))
results = {sr.matmul(A, A, sr.max_plus).tobytes() for _ in range(8)}
process = compiler_process._requests.process
child = os.fork()
if child == 0:
    ok = sr.matmul(A, A, sr.max_plus).tobytes() in results and compiler_process._requests.process is None
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
try:
    os.killpg(os.getpgid(0), signal.SIGINT)  # as Ctrl-C of a terminal
    sum(range(10**8))
except KeyboardInterrupt:
    pass
assert len(results) == 1
print(0 if process is None else process.pid, "numba" in sys.modules, process is None or process.poll() is None)
"""
    environment = {name: value for name, value in os.environ.items() if name != "SEMIRING_NUMPY_SECONDS"}
    environment |= {"SEMIRING_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0", **switch}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        start_new_session=True,
    )
    pid, has_numba, is_running = done.stdout.split()
    assert done.stderr == ""
    assert (has_numba, is_running) == ("False", "True")
    assert (pid == "0") == bool(switch)
    if pid != "0":
        os.kill(int(pid), 9)


@pytest.mark.skipif(os.name != "posix", reason="processes have other handles")
@pytest.mark.parametrize("flag", ["-P", "-E"])
def test_the_process_leaves_nothing_with_the_caller(tmp_path, flag):
    """It imports from the caller's path alone, keeps none of its folders, and is no zombie when it has ended."""
    program = """
import os, pickle, sys, time
import semiring as sr
from semiring.kernels.cpu import compiler_process
from semiring.kernels.engine import make_plan
compiler_process._START = (
    "import os, pickle, sys; seen = os.getcwd(), pickle.load(sys.stdin.buffer)[0], pickle.__file__; "
    "open(os.environ['SEMIRING_CACHE_DIR'] + '/seen', 'wb').write(pickle.dumps(seen))"
)
os.makedirs("cache", exist_ok=True)
pid = compiler_process._start(make_plan(sr.max_min, "float32"), "product").pid
for _ in range(1000):
    time.sleep(0.01)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        break
else:
    sys.exit("a zombie")
folder, path, pickle_file = pickle.load(open("cache/seen", "rb"))
assert folder == "/", folder
assert path == [os.path.abspath(name) for name in sys.path], path
assert pickle_file == pickle.__file__, pickle_file
"""
    (tmp_path / "pickle.py").write_text("raise SystemExit")
    environment = {**os.environ, "SEMIRING_CACHE_DIR": "cache"}
    if flag == "-E":
        environment["PYTHONPATH"] = str(tmp_path)
    program = f"import sys; sys.path[:] = {sys.path!r} + ['.', '']\n" + program
    command = [sys.executable, "-P", flag, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("error", [FileNotFoundError, ModuleNotFoundError, ValueError])
def test_sources_that_vanish_during_an_upgrade_cost_time_only(started, monkeypatch, error):
    def fail(name):
        raise error(name)

    monkeypatch.setattr("importlib.util.find_spec", fail)
    compiler_process._version.cache_clear()
    try:
        assert not compiler_process.is_ready(PLAN, PRODUCT)
        assert not compiler_process.ensure_compiling(PLAN, PRODUCT)
        compiler_process.mark_ready(PLAN, PRODUCT)
    finally:
        compiler_process._version.cache_clear()


def test_what_cannot_be_compiled_is_refused(monkeypatch, capsys):
    for error, semiring, options in (
        (sr.errors.UnknownNameError, "minplus", {}),
        (sr.errors.UnknownNameError, "min_plus", {"calls": "einsum"}),
        (sr.errors.DTypeError, "boolean", {"dtype": "float64"}),
    ):
        with pytest.raises(error):
            sr.precompile(semiring, **options)
    monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    assert main(["precompile", "min_plus"]) == 2
    assert "set SEMIRING_CACHE_DIR to another folder" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "by"),
    tiers.full(
        lambda name, dtype, by: by == "process",
        [
            ("min_plus", "float64", "process"),
            ("boolean", "bool", "process"),
            ("min_plus", "float64", "command"),
            ("boolean", "bool", "command"),
            ("log_plus", "float32", "command"),
        ],
    ),
)
def test_later_processes_compile_nothing(tmp_path, monkeypatch, name, dtype, by):
    """What the process beside a caller compiles, and what is compiled on request, is all that calls need."""
    environment = {**os.environ, "SEMIRING_CACHE_DIR": str(tmp_path / "cache"), "SEMIRING_NUMPY_SECONDS": "0"}
    for key in ("SEMIRING_CACHE_DIR", "SEMIRING_NUMPY_SECONDS"):
        monkeypatch.setenv(key, environment[key])
    storage = "bits" if dtype == "bool" else "elements"
    plan = make_plan(sr.as_semiring(name), dtype, nonnegative=storage == "elements", storage=storage)
    if by == "command":
        command = [sys.executable, "-m", "semiring", "precompile", name, "--dtype", dtype]
        default = {key: value for key, value in environment.items() if key != "SEMIRING_NUMPY_SECONDS"}
        subprocess.run(command, check=True, env=default, capture_output=True)
    for group in FirstCalls(plan).pending if by == "process" else ():
        assert compiler_process._start(plan, group).wait() == 0
        compiler_process._requests.polled.clear()
        assert compiler_process.is_ready(plan, group)
    assert not list((tmp_path / "cache").rglob("*.part")), "reservations"
    program = f"""
import logging, numpy as np, semiring as sr
from semiring.centrality import betweenness
logging.basicConfig(level=logging.INFO)
rng, s = np.random.default_rng(0), sr.as_semiring({name!r})
for n in (100 if {dtype!r} == "bool" else 50, 400):
    A = (rng.random((n, n)) < 0.1) if {dtype!r} == "bool" else rng.random((n, n)).astype({dtype!r})
    A = A - 2000 if {name!r} == "log_plus" else A
    sr.closure(A, s)
    if {by!r} == "command" or {dtype!r} != "bool":
        sr.matmul(A, A, s), sr.matmul(A, A.T, s), sr.matmul(A[0], A, s), sr.matmul(A, A[0], s)
    if s.selective and {dtype!r} != "bool":
        sr.matmul(A, A, s, return_witness=True), sr.best_paths(A, s)
        sr.multi_dot(np.stack([A[:20, :20]] * 4), A[0, :20], semiring=s, return_witness=True)
        gaining = np.where(np.triu(np.ones((20, 20), bool), 1), -1 - A[:20, :20], np.inf)
        assert sr.closure(gaining, s).tobytes() == sr.closure(gaining, s).tobytes()
if s.selective and {by!r} == "process" and {dtype!r} != "bool":
    from scipy.sparse import csr_array
    S = csr_array(np.where(A < 0.02, A, 0))
    sr.best_paths(S, s, sources=[0, 1]), sr.best_paths(S, s, sources=[0], limit=0.01), sr.best_paths(S, s, targets=[1])
    sr.k_shortest_paths(S, 0, 1, 3, semiring=s), list(sr.k_shortest_paths(S, 0, 1, 3, semiring=s, simple=True))
    paths = sr.best_paths(A[:50, :50], s)
    paths.counts(), paths.update([0], [1], [0.001]), paths.update([0, 1], [1, 2], [3, 3])
    betweenness(S), betweenness(A)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr == ""
