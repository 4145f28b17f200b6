"""Test that runs resume with identical bits after they are killed, refused by the disk or lose unsynced writes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tiers
from strips import METHOD, least_memory, make_small, rounding_matrix, same_bits

import semiring as sr
from semiring.closures.distributed_closures import close_file
from semiring.closures.problem import Options
from semiring.closures.request import Request
from semiring.distributed.transports import StoppedError, run_ranks
from semiring.errors import DivergenceError, DomainError, NegativeCycleError, SemiringError, StorageError
from semiring.out_of_core import journal as journals
from semiring.out_of_core import strip_layout as layouts
from semiring.out_of_core.disk import System

SECTOR = 512  # bytes that a disk writes as one
N = 97
#: How many times the least memory a run has that is stopped. The least, with strips of two rows, is exhaustive.
SHARE = 1.0 if tiers.selected_tier == "exhaustive" else 1.6


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    """Return a folder in memory if the system has one, because each of thousands of syncs waits for a disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as name:
        yield Path(name)


class Work:
    """A closure of a file with a journal, as often as it takes."""

    def __init__(self, folder, rng, name, dtype, in_place, share=SHARE):
        self.path, self.journal, self.options = folder / "A.npy", folder / "run", {}
        self.out = self.path if in_place else folder / "D.npy"
        self.name, self.A = name, weights(rng, name, dtype)
        self.expected = sr.closure(self.A, name, method=METHOD)
        np.save(self.path, self.A)
        self.memory = int(least_memory(self.path, name) * share)

    def reset(self):
        """Remove every file of the run and write the matrix again."""
        for path in (self.out, self.journal, Path(f"{self.journal}.new")):
            path.unlink(missing_ok=True)
        np.save(self.path, self.A)

    def run(self, **options):
        options = {"memory": self.memory, "journal": self.journal, **self.options, **options}
        return sr.closure(self.path, self.name, out=self.out, **options)

    def check(self):
        """Check that a resumed run ends with the bits of an undisturbed run, and that one more run changes nothing."""
        assert same_bits(self.run(), self.expected)
        assert same_bits(np.load(self.out), self.expected)
        assert same_bits(self.run(), self.expected)


def weights(rng, name, dtype):
    if name == "max_plus":  # under potentials, with the value for "no path" of integers
        h = rng.integers(0, 500, N)
        A = (-rng.integers(0, 1000, (N, N)) + h[:, None] - h).astype(dtype)
        A[rng.random((N, N)) < 0.3] = sr.as_semiring(name).zero_for(np.dtype(dtype))
        return A
    return rounding_matrix(rng, N, name, dtype)


KINDS = [("min_plus", "float64"), ("plus_times", "float64"), ("max_plus", "int32")]


#: Kinds of matrices, closed in place or not. A sum in another file is in the full tier.
WORKS = [(*kind, in_place) for kind in KINDS for in_place in (True, False)]


@pytest.fixture(
    params=[work if at == 3 else pytest.param(work, marks=pytest.mark.exhaustive) for at, work in enumerate(WORKS)],
    ids=str,
)
def work(request, rng, folder):
    return Work(folder, rng, *request.param)


def use(monkeypatch, system):
    monkeypatch.setattr(import_module("semiring.closures.files"), "SYSTEM", system)
    return system


# ---------------------------------------------------------------------------------------------------------- undisturbed


@pytest.mark.full
@pytest.mark.parametrize("share", tiers.full(lambda share: share in (1.3, 100), [1, 1.3, 2, 100]))
def test_a_run_with_a_journal_has_the_same_bits(rng, tmp_path, share):
    for name, dtype in KINDS:
        for in_place in (True, False):
            work = Work(tmp_path, rng, name, dtype, in_place, share)
            work.reset()
            work.check()


@pytest.mark.full
@pytest.mark.parametrize("n", tiers.full(lambda n: n in (1, 2, 32, 33, 65), [1, 2, 3, 31, 32, 33, 64, 65, 129]))
def test_matrices_of_any_size(rng, tmp_path, n):
    """Matrices of any size are closed, also if no row begins a page, or if there is only one round."""
    path = tmp_path / "A.npy"
    for dtype in ("float32", "bool"):
        name = "boolean" if dtype == "bool" else "min_plus"
        A = rounding_matrix(rng, n, name, dtype)
        np.save(path, A)
        for memory in (least_memory(path, name), "1 GiB"):
            np.save(path, A)
            (tmp_path / "run").unlink(missing_ok=True)
            found = sr.closure(path, name, out=path, memory=memory, journal=tmp_path / "run")
            assert same_bits(found, sr.closure(A, name, method=METHOD))


@pytest.mark.full
def test_rows_of_whole_pages(rng, tmp_path):
    """Strips of rows of whole pages bypass the page cache, in both files."""
    n, path = 512, tmp_path / "A.npy"
    A = rng.random((n, n))
    np.save(path, A)
    found = sr.closure(path, out=path, memory=4 * least_memory(path), journal=tmp_path / "run")
    assert same_bits(found, sr.closure(A, method=METHOD))


@pytest.mark.full
def test_a_finished_run_reads_no_strip(monkeypatch, work):
    work.run()
    size = work.journal.stat().st_size
    assert size < 50_000

    class RecordingSystem(System):
        longest = 0

        def read(self, file, memory, position):
            done = super().read(file, memory, position)
            RecordingSystem.longest = max(RecordingSystem.longest, done)
            return done

    use(monkeypatch, RecordingSystem())
    _, why = work.run(explain=True)
    assert "a run that has finished" in str(why)
    assert f"{N} × {N}" in str(why)
    assert RecordingSystem.longest < 4096


def test_the_layout_of_a_run():
    layout = journals.add_journal
    for rounds in (((0, 32),),), (((0, 32), (32, 64)),), (((0, 32),), ((32, 64),), ((64, 96), (96, 97))):
        for in_place in (True, False):
            given = sr.out_of_core.strip_layout.StripLayout(97, 8, rounds, 8, 0)
            found = layout(given, in_place)
            assert [block for blocks in found.rounds for block in blocks] == [
                block for blocks in rounds for block in blocks
            ]
            moved = journals.row_shifts(found, in_place)
            assert len(moved) == len(found.rounds) + 1
            assert moved[-1] == 0
            assert all(abs(after - before) == found.shift for before, after in pairwise(moved))
            assert not in_place or moved[0] == 0
            assert found.shift >= 2 * 8 or found.shift == 97


# --------------------------------------------------------------------------------------------------------------- killed


class CrashError(BaseException):
    """The process is no more."""


class Dying(System):
    """A system that dies at a call and does nothing afterwards. A write may have been done in part."""

    calls = ("open", "read", "write", "sync", "allocate", "truncate", "lock", "replace", "sync_folder", "remove")

    def __init__(self, call_number, rng=None):
        super().__init__()
        self.call_number, self.rng, self.count, self.dead = call_number, rng, 0, False
        self.kinds, self.counting = [], threading.Lock()  # of calls by several ranks

    def step(self, kind):
        if self.dead:
            raise CrashError
        with self.counting:
            self.count += 1
            now = self.count
            self.kinds.append(kind)
        if now == self.call_number:
            self.die()

    def die(self):
        self.dead = True
        raise CrashError

    def write(self, file, memory, position):
        if self.count + 1 == self.call_number and not self.dead:
            torn = int(self.rng.integers(0, len(memory) + 1))
            os.pwrite(os.open(f"/proc/self/fd/{file}", os.O_WRONLY), bytes(memory[:torn]), position)
        self.step("write")
        return super().write(file, memory, position)


def _stepping(name):
    def call(self, *arguments):
        self.step(name)
        return getattr(System, name)(self, *arguments)

    return call


for _name in Dying.calls:
    if _name != "write":
        setattr(Dying, _name, _stepping(_name))


def calls_of(monkeypatch, work, kind=Dying):
    """Return the kinds of the calls of an undisturbed run."""
    system = use(monkeypatch, kind(-1))
    work.run()
    return system.kinds


def sample(kinds, count):
    """Return some of these calls, evenly, and the first of each row of rare ones.

    The exhaustive tier has 200, and all rare ones.
    """
    everything = tiers.selected_tier == "exhaustive"
    count = 200 if everything else count
    rare = {
        at
        for at, (before, kind) in enumerate(pairwise(["", *kinds]), 1)
        if kind not in ("read", "write", "sync", "close") and (everything or kind != before)
    }
    return sorted(rare | {round(1 + k * (len(kinds) - 1) / (count - 1)) for k in range(count)})


@pytest.mark.full
def test_killed_at_any_call(monkeypatch, rng, work):
    kinds = calls_of(monkeypatch, work)
    for at in sample(kinds, 12):
        work.reset()
        use(monkeypatch, Dying(at, rng))
        with pytest.raises(CrashError):
            work.run()
        use(monkeypatch, System())
        work.check()


@pytest.mark.full
@pytest.mark.parametrize("in_place", tiers.full(bool, [True, False]))
@pytest.mark.parametrize(("name", "dtype"), [("max_plus", "int32"), ("min_plus", "float64")])
def test_killed_while_it_puts_in_what_comes_last(monkeypatch, rng, folder, name, dtype, in_place):
    """A run that is killed resumes with cycles."""
    work = Work(folder, rng, name, dtype, in_place)
    work.options = {"reflexive": False}
    work.expected = sr.closure(work.A, work.name, method=METHOD, reflexive=False)
    work.reset()
    kinds = calls_of(monkeypatch, work)
    for at in sample(kinds, 12):
        work.reset()
        use(monkeypatch, Dying(at, rng))
        with pytest.raises(CrashError):
            work.run()
        use(monkeypatch, System())
        work.check()


@pytest.mark.full
def test_killed_again_and_again(monkeypatch, rng, work):
    """Every run advances by some calls, enough that a panel is logged."""
    work.reset()
    for _ in range(300):
        use(monkeypatch, Dying(int(rng.integers(1, 120)), rng))
        try:
            work.run()
        except CrashError:
            continue
        break
    else:
        pytest.fail("no progress in 300 runs")
    use(monkeypatch, System())
    work.check()


# -------------------------------------------------------------------------------------------------------------- refused


class Failing(Dying):
    """A system of which one call fails, while the process lives on."""

    code = errno.EIO

    def die(self):
        raise OSError(self.code, os.strerror(self.code))

    def write(self, file, memory, position):
        if self.count + 1 == self.call_number:
            super(Dying, self).write(file, memory[: int(self.rng.integers(0, len(memory) + 1))], position)
        self.step("write")
        return System.write(self, file, memory, position)


@pytest.mark.full
@pytest.mark.parametrize("code", tiers.full(lambda code: code == errno.ENOSPC, [errno.EIO, errno.ENOSPC]))
def test_any_call_may_fail(monkeypatch, rng, work, code):
    kinds = calls_of(monkeypatch, work)
    for at in sample(kinds, 8):
        work.reset()
        system = use(monkeypatch, Failing(at, rng))
        system.code = code
        try:
            found = work.run()
        except OSError as error:
            assert error.errno == code  # noqa: PT017
            assert kinds[at - 1] == "lock" or not Path(f"{work.journal}.new").exists()  # its owner is unknown
        else:
            assert same_bits(found, work.expected)  # a second way past the cache that did not open
        use(monkeypatch, System())
        work.check()


def test_a_journal_that_has_no_room_leaves_nothing_behind(monkeypatch, rng, tmp_path):
    class Full(System):
        def allocate(self, file, size):
            if os.readlink(f"/proc/self/fd/{file}").endswith("run.new"):
                System.allocate(self, file, size // 2)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            System.allocate(self, file, size)

    work = Work(tmp_path, rng, "min_plus", "float64", False)
    use(monkeypatch, Full())
    with pytest.raises(OSError, match="No space left"):
        work.run()
    assert [path.name for path in tmp_path.iterdir()] == ["A.npy"]
    use(monkeypatch, System())
    work.check()


@pytest.mark.full
def test_short_writes_and_reads(monkeypatch, rng, work):
    class Short(System):
        def read(self, file, memory, position):
            return super().read(file, memory[: int(rng.integers(1, 5000))], position)

        def write(self, file, memory, position):
            return super().write(file, memory[: int(rng.integers(1, 5000))], position)

    use(monkeypatch, Short())
    work.check()


# ---------------------------------------------------------------------------------------------------------- a power cut


class Volatile(Dying):
    """A disk that forgets: of what was not synced, any sectors may be there when the power is back, or not.

    Names that were given are there only when their folder was synced, and so is the size of a file when it was.
    """

    def __init__(self, call_number, rng=None):
        super().__init__(call_number, rng)
        self.written_sectors = {}  # what the disk has, sector by sector, of files that were written since
        self.sizes, self.names = {}, []

    @staticmethod
    def identity(file):
        about = os.fstat(file)
        return about.st_dev, about.st_ino

    def path_of(self, file):
        return os.readlink(f"/proc/self/fd/{file}")

    def write(self, file, memory, position):
        self.step("write")
        known = self.written_sectors.setdefault(self.identity(file), {})
        with open(self.path_of(file), "rb") as stream:
            for sector in range(position // SECTOR, -(-(position + len(memory)) // SECTOR)):
                if sector not in known:
                    stream.seek(sector * SECTOR)
                    known[sector] = stream.read(SECTOR)
        return System.write(self, file, memory, position)

    def sync(self, file):
        self.step("sync")
        self.written_sectors.pop(self.identity(file), None)
        System.sync(self, file)

    def open(self, path, flags):
        self.step("open")
        if flags & os.O_CREAT and not os.path.exists(path):
            self.names.append((path, None))
        return System.open(self, path, flags)

    def replace(self, old, new):
        self.step("replace")
        self.names.append((new, old))
        System.replace(self, old, new)

    def sync_folder(self, path):
        self.step("sync_folder")
        self.names.clear()
        System.sync_folder(self, path)

    def cut(self):
        """Cut the power: lose what was not synced."""
        for path, old in self.names[::-1]:
            if not os.path.exists(path) or self.rng.random() < 0.5:
                continue
            if old is None:
                os.unlink(path)
            else:
                os.replace(path, old)
        for folder in {Path(path).parent for path, _ in self.names} | {self.folder}:
            for path in folder.iterdir():
                about = path.stat()
                kept = self.rng.random()
                with path.open("r+b") as stream:
                    for sector, data in self.written_sectors.get((about.st_dev, about.st_ino), {}).items():
                        if self.rng.random() < kept:
                            stream.seek(sector * SECTOR)
                            stream.write(data)


def cut_off(monkeypatch, rng, work, call_number):
    system = use(monkeypatch, Volatile(call_number, rng))
    system.folder = work.path.parent
    try:
        work.run()
    except CrashError:
        system.cut()
        return True
    return False


@pytest.mark.full
def test_what_was_not_synced_is_lost(monkeypatch, rng, work):
    kinds = calls_of(monkeypatch, work, Volatile)
    for at in sample(kinds, 12):
        work.reset()
        assert cut_off(monkeypatch, rng, work, at)
        use(monkeypatch, System())
        work.check()


@pytest.mark.full
def test_the_power_goes_again_and_again(monkeypatch, rng, work):
    work.reset()
    for _ in range(300):
        if not cut_off(monkeypatch, rng, work, int(rng.integers(1, 120))):
            break
    else:
        pytest.fail("no progress in 300 runs")
    use(monkeypatch, System())
    work.check()


@pytest.mark.full
def test_the_stand_in_does_lose_what_was_not_synced(monkeypatch, rng, work):
    """Runs without a sync of the strips are lost, which shows that the tests above detect it."""

    class Careless(Volatile):
        def sync(self, file):
            if "run" in self.path_of(file):
                super().sync(file)

    calls = len(calls_of(monkeypatch, work))
    for at in range(calls // 4, calls * 3 // 4, calls // 30):
        work.reset()
        system = use(monkeypatch, Careless(at, rng))
        system.folder = work.path.parent
        try:
            work.run()
        except CrashError:
            system.cut()
        use(monkeypatch, System())
        try:
            if not same_bits(work.run(), work.expected):
                return
        except StorageError:
            return
    pytest.fail("nothing was lost")


# ------------------------------------------------------------------------------------------------------------- kill -9


SCRIPT = """
import sys
sys.path.insert(0, "tests/support")
import pytest
from strips import make_small
import semiring as sr
make_small(pytest.MonkeyPatch())
path, name, out, memory, journal = sys.argv[1:]
print("ready", flush=True)
sr.closure(path, name, out=out, memory=int(memory), journal=journal, progress=lambda *done: print(*done, flush=True))
print("end", flush=True)
"""


def kill_at_random(work, rng, times):
    """Return how often a process was killed before one finished."""
    root, killed = Path(__file__).parents[2], 0
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        str(work.path),
        work.name,
        str(work.out),
        str(work.memory),
        str(work.journal),
    ]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    while killed < times:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(int(rng.integers(1, 60))):
            line = process.stdout.readline()
            if line in ("end\n", ""):
                break
        time.sleep(float(rng.random()) * 0.003)
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        killed += process.wait() == -signal.SIGKILL
        if line == "end\n":
            work.check()
            work.reset()
    return killed


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 on Windows")
def test_killed_from_outside(rng, tmp_path):
    work = Work(tmp_path, rng, "min_plus", "float64", True)
    assert kill_at_random(work, rng, 2) == 2
    work.check()


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 on Windows")
def test_killed_from_outside_many_times(rng, tmp_path):
    done = 0
    for name, dtype in KINDS:
        work = Work(tmp_path, rng, name, dtype, True)
        work.reset()
        done += kill_at_random(work, rng, -(-200 // len(KINDS)))
        work.check()
    assert done >= 200


# ------------------------------------------------------------------------------------------------------- several ranks


class OnRanks(Work):
    """The work of a run by ranks that are threads, with another number of ranks each time."""

    sizes = (2,)

    def run(self, **options):
        if not self.sizes:
            return super().run(**options)
        size, self.sizes = self.sizes[0], (*self.sizes[1:], self.sizes[0])
        progress = options.pop("progress", None)
        asked = {"out": self.out, "memory": self.memory, "journal": self.journal, **options}
        request = Request(self.path, Options(sr.as_semiring(self.name)), progress=progress, **asked)
        return run_ranks(size, lambda ranks: close_file(request, ranks))[0]


RANKED = [("min_plus", "float64", True), ("max_plus", "int32", False)]
in_place = pytest.mark.parametrize(
    "work_on_ranks", tiers.full(lambda work: work[2], [pytest.param(each) for each in RANKED]), indirect=True, ids=str
)
in_another_file = pytest.mark.parametrize(
    "work_on_ranks",
    tiers.full(lambda work: not work[2], [pytest.param(each) for each in RANKED]),
    indirect=True,
    ids=str,
)


@pytest.fixture(params=RANKED, ids=str)
def work_on_ranks(request, rng, folder):
    return OnRanks(folder, rng, *request.param)


@pytest.mark.full
@pytest.mark.parametrize("size", tiers.full(lambda size: size > 2, [1, 2, 3, 5]))
def test_ranks_share_the_strips_of_a_file(work_on_ranks, size):
    work_on_ranks.sizes = (size,)
    work_on_ranks.check()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    tiers.full(lambda name, _: name == "boolean", [("boolean", "bool"), ("max_min", "int16"), ("log_plus", "float32")]),
)
def test_ranks_share_the_strips_of_other_matrices(rng, tmp_path, name, dtype):
    for n in (1, 2, 33, 65, 129):
        A, path = rounding_matrix(rng, n, name, dtype), tmp_path / "A.npy"
        np.save(path, A)
        asked = {"out": path, "memory": "1 GiB", "journal": tmp_path / f"run{n}"}
        request = Request(path, Options(sr.as_semiring(name)), **asked)
        found = run_ranks(3, lambda ranks, request=request: close_file(request, ranks))
        assert all(same_bits(each, sr.closure(A, name, method=METHOD)) for each in found)


@pytest.mark.full
@in_another_file
def test_ranks_that_are_killed_are_followed_by_any_number(monkeypatch, rng, work_on_ranks):
    """Any number of ranks resumes a run whose ranks were all killed at a call of one of them."""
    work_on_ranks.sizes = (1,)
    kinds = calls_of(monkeypatch, work_on_ranks)
    for at in sample(kinds, 12):
        work_on_ranks.reset()
        use(monkeypatch, Dying(at, rng))
        work_on_ranks.sizes = (int(rng.integers(2, 5)),)
        with pytest.raises((CrashError, StoppedError)):
            work_on_ranks.run()
        use(monkeypatch, System())
        work_on_ranks.sizes = tuple(rng.permutation(5)[:2]) if rng.random() < 0.7 else ()  # 0: by none, as a plain call
        work_on_ranks.sizes = tuple(int(size) for size in work_on_ranks.sizes if size)
        work_on_ranks.check()


@pytest.mark.full
@in_place
def test_a_call_of_one_rank_may_fail(monkeypatch, rng, work_on_ranks):
    work_on_ranks.sizes = (1,)
    kinds = calls_of(monkeypatch, work_on_ranks)
    for at in sample(kinds, 12):
        work_on_ranks.reset()
        use(monkeypatch, Failing(at, rng))
        work_on_ranks.sizes = (3,)
        try:
            found = work_on_ranks.run()
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017
        except StoppedError:
            pass
        else:
            assert same_bits(found, work_on_ranks.expected)
        use(monkeypatch, System())
        work_on_ranks.sizes = (int(rng.integers(1, 5)),)
        work_on_ranks.check()


@pytest.mark.full
@in_place
def test_ranks_that_lose_what_was_not_synced(monkeypatch, rng, work_on_ranks):
    work_on_ranks.sizes = (1,)
    kinds = calls_of(monkeypatch, work_on_ranks, Volatile)
    for at in sample(kinds, 12):
        work_on_ranks.reset()
        work_on_ranks.sizes = (int(rng.integers(2, 5)),)
        assert cut_off(monkeypatch, rng, work_on_ranks, at)
        use(monkeypatch, System())
        work_on_ranks.sizes = (int(rng.integers(1, 5)),)
        work_on_ranks.check()


@pytest.mark.full
def test_ranks_raise_alike_what_is_wrong_with_the_entries(rng, tmp_path):
    path = tmp_path / "A.npy"

    def errors_of(A, name, **options):
        np.save(path, A)
        asked = {"out": path, "memory": 200_000, "journal": tmp_path / "run", **options}
        request, errors = Request(path, Options(sr.as_semiring(name)), **asked), []

        def run(ranks):
            try:
                close_file(request, ranks)
            except SemiringError as error:
                errors.append(error)

        run_ranks(3, run)
        (kind,) = {type(error) for error in errors}
        assert len(errors) == 3
        return kind

    A = rng.random((N, N))
    assert errors_of(A, "min_plus", memory=1) is StorageError
    A[70, 5] = -3.0
    assert errors_of(A, "min_plus") is NegativeCycleError
    A[50, 60] = np.nan
    assert errors_of(A, "min_plus") is DomainError
    assert not (tmp_path / "run").exists()
    A = rng.random((N, N))
    A[50, 50], A[:50, 50] = 1, 0
    assert errors_of(A, "plus_times") is DivergenceError


# ---------------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.full
def test_an_interrupt_leaves_a_journal_that_goes_on(work):
    def interrupt(done, total):
        if done > total * 2 // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.run(progress=interrupt)
    seen = []
    found = work.run(progress=lambda done, total: seen.append(done))
    assert seen[0] > N**3 // 3
    assert seen == sorted(seen)
    assert seen[-1] == N**3
    assert same_bits(found, work.expected)


def test_a_new_file_is_no_npy_file_before_the_end(rng, tmp_path):
    work = Work(tmp_path, rng, "min_plus", "float64", False)

    def stop(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.run(progress=stop)
    with pytest.raises(ValueError):  # noqa: PT011
        np.load(work.out)
    work.check()


# -------------------------------------------------------------------------------------------------------------- refused


def _interrupt(done, total):
    raise KeyboardInterrupt


def stop_halfway(work):
    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.run(progress=interrupt)


def test_another_run_is_refused_and_said_to_differ(monkeypatch, rng, tmp_path):
    work = Work(tmp_path, rng, "min_plus", "float64", True)
    stop_halfway(work)
    before = work.path.read_bytes(), work.journal.read_bytes()
    other = tmp_path / "B.npy"
    np.save(other, work.A)

    def check_refused(match, *arguments, **options):
        given = {"out": work.path, "memory": work.memory, "journal": work.journal, **options}
        with pytest.raises(StorageError, match=match):
            sr.closure(*(arguments or (work.path,)), **given)
        assert (work.path.read_bytes(), work.journal.read_bytes()) == before

    check_refused("the semiring was min_plus, and is max_min. Give", work.path, "max_min")
    check_refused("the file of A was", other)
    check_refused("the file of out was", out=tmp_path / "D.npy")
    check_refused("goes on in as much", memory=work.memory // 2)
    with monkeypatch.context() as patch:  # what is free is not asked for
        patch.setattr(layouts, "free_memory", lambda: 1000)
        with pytest.raises(KeyboardInterrupt):
            work.run(memory=None, progress=_interrupt)
    before = work.path.read_bytes(), work.journal.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(sr, "__version__", "0.0")
        check_refused("the version of semiring was")
    np.save(other, work.A.astype(np.float32))
    check_refused("the dtype was", other, out=other)
    np.save(other, work.A[:50, :50])
    check_refused("the number of vertices was", other, out=other)
    held = journals.open_journal(System(), str(work.journal))
    check_refused("another process")
    held.close()
    (tmp_path / "notes").write_text("not a journal " * 100)
    check_refused("not a journal", journal=tmp_path / "notes")
    work.check()


@pytest.mark.full
def test_a_file_that_others_have_changed_is_refused(rng, work):
    stop_halfway(work)
    whole = work.out.read_bytes()
    for position in rng.integers(len(whole) // 2, len(whole), 4):
        work.out.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            found = work.run()
        except StorageError as error:
            assert "changed since" in str(error)  # noqa: PT017
            work.out.write_bytes(whole)
        else:  # a place that was to be written anyway
            assert same_bits(found, work.expected)
            return
    work.check()


@pytest.mark.full
def test_a_finished_run_knows_its_files(work):
    work.run()
    os.utime(work.out)  # the same bytes
    assert same_bits(work.run(), work.expected)
    whole = work.out.read_bytes()
    work.out.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StorageError, match="changed since"):
        work.run()
    if work.out != work.path:
        work.out.unlink()
        with pytest.raises(StorageError, match=r"D.npy is gone since the run of this journal finished"):
            work.run()
    work.out.write_bytes(whole)
    if work.out != work.path:
        np.save(work.path, work.A * 2)
        with pytest.raises(StorageError, match=r"A.npy has been changed since"):
            work.run()
        np.save(work.path, work.A)
    work.check()


@pytest.mark.full
def test_a_damaged_journal_is_refused(rng, tmp_path):
    work = Work(tmp_path, rng, "max_plus", "int32", True)
    stop_halfway(work)
    whole = work.journal.read_bytes()
    for position in (25, 100, whole.index(b"vectors") + 300):
        work.journal.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(StorageError, match=r"damaged|not a journal"):
            work.run()
    work.journal.write_bytes(whole[:10])
    with pytest.raises(StorageError, match="not a journal"):
        work.run()
    work.journal.write_bytes(whole)
    work.check()


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_journal_truncated_anywhere_is_refused(has_ended, rng, folder):
    work = Work(folder, rng, "max_plus", "int32", True)
    if has_ended:
        work.run()
    else:
        stop_halfway(work)
    whole, system = work.journal.read_bytes(), System()
    head = whole.index(b"vectors") + 2000
    # With all lengths of the first part, in which the numbers stand by which the rest is read.
    for length in (*range(head), *range(head, len(whole), 97), len(whole) - 1):
        work.journal.write_bytes(whole[:length])
        with pytest.raises(StorageError, match=r"truncated: it has .* are needed|not a journal"):
            journals.open_journal(system, str(work.journal))
    with pytest.raises(StorageError, match="truncated"):
        work.run()
    work.journal.write_bytes(whole)
    if not has_ended:
        work.check()


def test_journals_are_for_files(rng, tmp_path):
    for name in ("edges.csv", "matrix.npz"):
        with pytest.raises(FileNotFoundError, match="no such file"):
            sr.closure(tmp_path / name, memory="1GiB")
        (tmp_path / name).touch()
        with pytest.raises(StorageError, match=r"an \.npy file, and A is in another kind of file\. .* save A as \.npy"):
            sr.closure(tmp_path / name, memory="1GiB")
    with pytest.raises(StorageError, match=r"memory= and journal= are for .* \.npy file"):
        sr.closure(rng.random((4, 4)), journal=tmp_path / "run")
    np.save(tmp_path / "A.npy", rng.random((4, 4)))
    with pytest.raises(StorageError, match="give its name"):
        sr.closure(tmp_path / "A.npy", journal=tmp_path / "run")


def test_a_journal_is_a_file_of_its_own(rng, tmp_path):
    np.save(tmp_path / "A.npy", rng.random((4, 4)))
    for name in ("A.npy", "D.npy"):
        with pytest.raises(StorageError, match="another name for the journal"):
            sr.closure(tmp_path / "A.npy", out=tmp_path / "D.npy", journal=tmp_path / name)
    assert not (tmp_path / "D.npy").exists()


def test_a_result_that_is_gone(rng, tmp_path):
    work = Work(tmp_path, rng, "min_plus", "float64", False)
    stop_halfway(work)
    work.out.unlink()
    with pytest.raises(StorageError, match=r"D\.npy is gone since the run of this journal stopped"):
        work.run()


@pytest.mark.full
def test_the_memory_is_kept_to_with_a_journal(monkeypatch, rng, tmp_path):
    monkeypatch.undo()
    A, path = rng.random((1500, 1500), np.float32), tmp_path / "A.npy"
    np.save(path, A)
    memory, expected = least_memory(path), sr.closure(A, method=METHOD)
    tracemalloc.start()
    try:
        found = sr.closure(path, out=path, memory=memory, journal=tmp_path / "run")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= memory
    assert same_bits(found, expected)


def test_an_error_of_the_entries_is_said_again(rng, tmp_path):
    A = rng.random((N, N))
    A[50, 50], A[:50, 50] = 1, 0
    np.save(tmp_path / "A.npy", A)
    for _ in range(2):
        with pytest.raises(DivergenceError, match="vertex 50"):
            sr.closure(
                tmp_path / "A.npy", "plus_times", out=tmp_path / "A.npy", memory=200_000, journal=tmp_path / "run"
            )


def test_to_do_a_round_again_over_torn_strips_would_change_bits(rng):
    """Rows are never written over the only copy of their operands, because ⊗ of floats rounds."""
    A = rng.random((64, 64)) ** 3
    panel = sr.closure(A[:32, :32])
    panel = sr.matmul(panel, A[:32])
    panel[:, :32] = sr.closure(A[:32, :32])
    old = A[32:]

    def eliminate(rows):
        return np.minimum(rows, sr.matmul(rows[:, :32].copy(), panel))

    new = eliminate(old)
    torn = old.copy()
    torn[:, :32] = new[:, :32]
    assert not same_bits(eliminate(torn), new)
