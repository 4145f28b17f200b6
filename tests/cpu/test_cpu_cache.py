"""Test compiled kernels on disk: their folder, their owner, and what happens if the folder is unusable."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import platformdirs.macos
import platformdirs.unix
import pytest

import semiring as sr
from semiring.kernels import code_store
from semiring.kernels.cpu.codegen import jit, native
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan

MODULES = ("semiring.kernels.cpu.product.macro_kernel",)

COUNT = """
import semiring as sr
from semiring.kernels.cpu import kernels
from semiring.kernels.cpu.codegen import native
from semiring.kernels.engine import make_plan

compiled = []


class Counted(native.Compilation):
    def __init__(self, what, *rest):
        compiled.append(what)
        super().__init__(what, *rest)


native.Compilation = Counted
"""
PRODUCT = """
import numpy as np
from semiring.kernels.cpu import CpuBackend, first_calls

first_calls.SECONDS = 0
A = np.array([[0, 5], [1, 2]], np.float32)
C = np.empty_like(A)
CpuBackend().multiply(make_plan(sr.min_plus, "float32"), C, A, A)
assert C.tolist() == [[0, 5], [1, 4]], C
"""
#: Much less to compile than a product.
TILE = 'assert kernels.kernels_for(make_plan(sr.min_plus, "float32")).compile_tile()'


def compile_count(folder, program=PRODUCT, **environment):
    """Return the number of native functions that a new process compiles. The tile is one."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{COUNT}{program}\nprint(len(compiled))"],
        env={**os.environ, "SEMIRING_CACHE_DIR": str(folder), "NUMBA_OPT": "0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


@pytest.mark.full
def test_a_second_process_compiles_nothing_and_damage_is_a_miss(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert compile_count(folder) == 1
    entries = sorted(folder.glob("*.kernel"))
    assert entries
    assert not list(folder.glob("*.part"))
    for entry in entries:  # cut short, overwritten, emptied, one bit flipped
        content = entry.read_bytes()
        damaged = [
            content[: len(content) // 2],
            b"nonsense",
            b"",
            content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        ]
        entry.write_bytes(damaged[entries.index(entry) % 4])
    assert compile_count(folder) == 1
    assert compile_count(folder) == 0


@pytest.mark.full
def test_a_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert compile_count(blocked / "below", TILE) == 1


def test_a_folder_that_may_not_be_read_counts_as_no_cache(monkeypatch, caplog):
    monkeypatch.setattr(code_store, "_warned_folders", set())
    monkeypatch.setenv("SEMIRING_CACHE_DIR", f"/tmp/{'x' * 300}")  # as a folder that may not be entered, also for root
    for _ in range(2):
        assert not code_store.has_entry("code", "key")
        assert code_store.load("code", "key", list) is None
        code_store.save("code", "key", [1])
    assert len([record for record in caplog.records if "are not cached" in record.message]) == 1


def test_an_entry_under_the_name_of_another_is_a_miss(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path / "own"))
    code_store.save("code", "first", ["first"])
    (first,) = (tmp_path / "own").iterdir()
    code_store.save("code", "second", ["second"])
    (second,) = set((tmp_path / "own").iterdir()) - {first}
    assert code_store.load("code", "second", list) == ["second"]
    second.write_bytes(first.read_bytes())
    assert code_store.load("code", "second", list) is None


@pytest.mark.full
def test_no_cache_at_all(tmp_path):
    assert compile_count("", TILE, HOME=str(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [PermissionError, OSError(28, "No space left on device")])
def test_errors_of_the_file_system_are_misses(error, tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    jit.save_entry(MODULES, "key", {"a": 1})
    assert jit.load_entry(MODULES, "key", lambda state: state) == {"a": 1}

    def fail(*args, **options):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", fail)
        jit.save_entry(MODULES, "other", {"b": 2})
    assert jit.load_entry(MODULES, "other", lambda state: state) is None
    assert not list(tmp_path.glob("*.part"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", fail)
        broken.setattr(Path, "read_bytes", fail)
        assert jit.load_entry(MODULES, "key", lambda state: state) is None


def test_a_state_that_cannot_be_rebuilt_is_a_miss(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    jit.save_entry(MODULES, "key", 1)

    def fail(state):
        raise RuntimeError("another version of Numba")

    assert jit.load_entry(MODULES, "key", fail) is None


def test_the_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("SEMIRING_CACHE_DIR", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert code_store.cache_folder() == tmp_path / "numba" / "semiring"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path / "own"))
    assert code_store.cache_folder() == tmp_path / "own"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    assert code_store.cache_folder() is None
    monkeypatch.delenv("SEMIRING_CACHE_DIR")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr("platformdirs.PlatformDirs", platformdirs.unix.Unix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert code_store.cache_folder() == tmp_path / "xdg" / "semiring"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert code_store.cache_folder() == Path("/home/me/.cache/semiring")
    monkeypatch.setattr("platformdirs.PlatformDirs", platformdirs.macos.MacOS)
    assert code_store.cache_folder() == Path("/home/me/Library/Caches/semiring")


def test_without_a_home_folder_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("SEMIRING_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    class Homeless(platformdirs.unix.Unix):
        user_cache_path = Path("~/.cache/semiring")

    monkeypatch.setattr("platformdirs.PlatformDirs", Homeless)
    with pytest.raises(RuntimeError, match="no home folder"):
        code_store.cache_folder()
    assert not code_store.is_enabled()


def test_what_differs_in_code_differs_in_its_key():
    def key(semiring, dtype="float32", **options):
        return define(make_plan(semiring, dtype, **options)).key

    def reliability(name="r", **options):
        return sr.Semiring(
            name, **{"add": "max(x, y)", "mul": "x * y", "zero": 0, "one": 1, "domain": (0, 1), **options}
        )

    base = key(reliability())
    assert key(reliability("another name")) == base
    others = [
        key(reliability(), "float64"),
        key(reliability(mul="y * x")),
        key(reliability(add="max(y, x)")),
        key(reliability(contract=True)),
        key(sr.min_plus, "int32"),
        key(sr.min_plus, "int32", nonnegative=True),
        key(sr.min_plus, "int16"),
    ]
    assert len({base, *others}) == 1 + len(others)


built = []


def build(module, name, *arguments):
    import llvmlite.ir as ir

    built.append(arguments)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), name)
    ir.IRBuilder(function.append_basic_block()).ret_void()


def test_one_key_is_compiled_once(monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    built.clear()
    addresses = {native.compile_native(build, 1) for _ in range(3)}
    assert built == [(1,)]
    assert len(addresses) == 1
    assert native.compile_native(build, "1") not in addresses
    assert native.compile_native(build, len) not in addresses
    assert built == [(1,), ("1",), (len,)]


# ------------------------------------------------------------------------------------------------- permission to write

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="owner and mode do not tell on Windows who may write")
REFUSED = [0o777, 0o775, 0o707, 0o720, 0o702, 0o1777, 0o2770]


@pytest.fixture
def folder(tmp_path, monkeypatch, caplog):
    """Return a cache with one entry, and record warnings."""
    place = tmp_path / "cache"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(place))
    code_store.save("f", "key", "state")
    assert code_store.load("f", "key", str) == "state"
    caplog.set_level("WARNING", "semiring")
    return place


def is_refused(folder, caplog, reason):
    """Whether nothing is read from the folder or kept in it, and one line says so."""
    caplog.clear()
    unpickled = []
    for key in ("key", "key", "other"):
        assert code_store.load("f", key, unpickled.append) is None
        code_store.save("f", "other", "state")
    said = f"compiled kernels are not cached in {folder}: {reason}"
    return unpickled == [] and [record.getMessage() for record in caplog.records] == [said]


def belongs_to_another(path, monkeypatch):
    """Make another user the owner of the file if this process may do so, else the user of the process."""
    if os.geteuid() == 0:
        os.chown(path, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


@POSIX
@pytest.mark.parametrize("mode", REFUSED)
def test_a_folder_that_others_can_write_to_is_refused(folder, caplog, mode):
    folder.chmod(mode)
    assert is_refused(folder, caplog, "users other than its owner may write to it")
    assert len(entries_of(folder)) == 1
    folder.chmod(0o700)
    assert code_store.load("f", "key", str) == "state", "a remedy is noticed"
    code_store.save("f", "other", "state")
    assert len(entries_of(folder)) == 2


@POSIX
def test_a_folder_of_another_user_is_refused(folder, caplog, monkeypatch):
    belongs_to_another(folder, monkeypatch)
    assert is_refused(folder, caplog, f"it belongs to another user ({folder.stat().st_uid})")


@POSIX
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500, 0o1755])
def test_a_folder_that_others_can_only_read_is_used(folder, mode):
    folder.chmod(mode)
    assert code_store.load("f", "key", str) == "state"


@POSIX
def test_a_folder_is_made_for_its_owner_alone_in_one_that_is_everybodys(tmp_path, monkeypatch):
    (tmp_path / "everybody").mkdir()
    (tmp_path / "everybody").chmod(0o1777)  # as /tmp is
    place = tmp_path / "everybody" / "cache"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(place))
    before = os.umask(0)
    try:
        code_store.save("f", "key", "state")
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert all(entry.stat().st_mode & 0o777 == 0o600 for entry in place.glob("*.kernel"))
    assert code_store.load("f", "key", str) == "state"


@POSIX
@pytest.mark.parametrize("wrong", ["group", "everybody", "owner", "link"])
def test_an_entry_that_others_could_have_written_is_a_miss(folder, monkeypatch, wrong):
    entry = next(folder.glob("*.kernel"))
    if wrong == "owner":
        belongs_to_another(entry, monkeypatch)
    elif wrong == "link":
        entry.rename(folder.parent / "elsewhere")
        entry.symlink_to(folder.parent / "elsewhere")
    else:
        entry.chmod({"group": 0o660, "everybody": 0o602}[wrong])
    assert code_store.load("f", "key", pytest.fail) is None
    monkeypatch.undo()
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(folder))
    code_store.save("f", "key", "again")
    assert code_store.load("f", "key", str) == "again"


@POSIX
def test_a_link_to_a_folder_is_followed_where_it_is_of_this_user(folder, caplog, monkeypatch):
    link = folder.parent / "link"
    link.symlink_to(folder)
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(link))
    assert code_store.load("f", "key", str) == "state"
    code_store.save("f", "other", "state")
    assert len(entries_of(folder)) == 2
    if os.geteuid() == 0:
        os.chown(link, 54321, -1, follow_symlinks=False)
        assert is_refused(link, caplog, "it belongs to another user (54321)")
        os.chown(link, 0, -1, follow_symlinks=False)
    folder.chmod(0o777)
    code_store._warned_folders.clear()
    assert is_refused(link, caplog, "users other than its owner may write to it")


@POSIX
def test_what_root_keeps_is_read_by_all(monkeypatch):
    """An image may bring kernels along. Reading files of root is safe, because root can run any code anyway."""

    def status(owner, mode):
        return os.stat_result((0o040000 | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert code_store._refusal_of(status(0, 0o755), status(1000, 0o700)) == ""
    assert code_store._refusal_of(status(0, 0o755), status(1001, 0o700)) == "it belongs to another user (1001)"
    assert code_store._refusal_of(status(0, 0o775)) == "users other than its owner may write to it"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert code_store._refusal_of(status(1000, 0o700)) == "it belongs to another user (1000)", "root, too"


@pytest.mark.full
@POSIX
def test_a_process_compiles_where_the_folder_is_refused(tmp_path):
    folder = tmp_path / "cache"
    assert compile_count(folder, TILE) == 1
    assert compile_count(folder, TILE) == 0
    folder.chmod(0o777)
    assert compile_count(folder, TILE) == 1


@POSIX
def test_info_says_that_the_folder_is_refused(folder, capsys):
    from semiring import cli

    assert cli.main(["info"]) == 0
    assert f"{folder} (1 kernels" in capsys.readouterr().out
    folder.chmod(0o777)
    assert cli.main(["info"]) == 0
    assert f"{folder} (refused: users other than its owner may write to it)" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------- the size


def entries_of(folder):
    return {path.name for path in folder.glob("*.kernel")}


def set_age(path, hours):
    os.utime(path, (time.time() - 3600 * hours,) * 2)


def test_the_oldest_entries_go_when_the_folder_is_full(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_store, "LIMIT", 10_000)
    monkeypatch.setattr(code_store, "_save_count", 1)
    for number in range(9):
        code_store.save("f", str(number), b"x" * 1000)
        set_age(
            next(path for path in tmp_path.glob("*.kernel") if time.time() - path.stat().st_mtime < 100), 20 - number
        )
    (tmp_path / ".crashed.part").write_bytes(b"x" * 1000)
    set_age(tmp_path / ".crashed.part", 99)
    (tmp_path / ".begun.part").write_bytes(b"x" * 1000)
    (tmp_path / "of-someone-else").write_bytes(b"x" * 50_000)
    assert code_store.load("f", "0", bytes) == b"x" * 1000  # the oldest, used again
    code_store.prune(tmp_path)
    left = [number for number in range(9) if code_store.load("f", str(number), bytes)]
    assert left == [0, 4, 5, 6, 7, 8]
    assert {path.name for path in tmp_path.iterdir()} - entries_of(tmp_path) == {".begun.part", "of-someone-else"}
    code_store.prune(tmp_path)
    assert len(entries_of(tmp_path)) == 6, "nothing is removed below the limit"


def test_a_process_looks_at_the_size_as_it_saves(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_store, "LIMIT", 40_000)
    for number in range(200):
        code_store.save("f", str(number), b"x" * 1000)
    assert 20 < len(entries_of(tmp_path)) < 60
    assert code_store.load("f", "199", bytes) == b"x" * 1000


def test_processes_that_prune_at_the_same_time(tmp_path):
    program = (
        "import sys; from semiring.kernels import code_store\n"
        "code_store.LIMIT, code_store._SAVES_PER_PRUNING = 20_000, 1\n"
        "for number in range(150):\n"
        "    code_store.save(sys.argv[1], str(number), b'x' * 1000)\n"
        "    found = code_store.load(sys.argv[1], str(number), bytes)\n"
        "    assert found in (None, b'x' * 1000)\n"
    )
    environment = {**os.environ, "SEMIRING_CACHE_DIR": str(tmp_path)}
    children = [subprocess.Popen([sys.executable, "-c", program, name], env=environment) for name in "ab"]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    assert len(entries_of(tmp_path)) <= 22
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.full
def test_a_function_keeps_its_cache():
    """If two threads request one entry at once, the first saves into the cache in which it looked."""
    import numba

    from semiring.kernels.cpu.closing import pivot_loops
    from semiring.kernels.cpu.codegen.jit import KernelCache, cache_on_disk
    from semiring.kernels.cpu.codegen.numba_internals import get_cache

    function = numba.njit(pivot_loops.close_each.py_func)
    first = get_cache(cache_on_disk(function))
    assert isinstance(first, KernelCache)
    assert get_cache(cache_on_disk(function)) is first
