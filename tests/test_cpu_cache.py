"""Compiled kernels on disk: where, for whom, and what happens when the folder is unusable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import semiring as sr
from semiring.kernels.cpu import cache, native
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan

COUNT = """
import semiring as sr
from semiring.kernels.cpu import kernels
from semiring.kernels.engine import make_plan

compiled = []
original = kernels.build_tile
kernels.build_tile = lambda *args, **options: (compiled.append(args[1]), original(*args, **options))
"""
PRODUCT = """
import numpy as np
from semiring.kernels.cpu import CpuBackend

A = np.array([[0, 5], [1, 2]], np.float32)
C = np.empty_like(A)
CpuBackend().multiply(make_plan(sr.min_plus, "float32"), C, A, A)
assert C.tolist() == [[0, 5], [1, 4]], C
"""
TILE = 'assert kernels.kernels_for(make_plan(sr.min_plus, "float32"))._tile'  # much less to compile than a product


def compile_count(folder, program=PRODUCT, **environment):
    """How many tiles a fresh process compiles."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{COUNT}{program}\nprint(len(compiled))"],
        env={**os.environ, "SEMIRING_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


def test_a_second_process_compiles_nothing_and_damage_is_a_miss(tmp_path):
    folder = tmp_path / "new" / "cache"
    assert compile_count(folder) == 1
    entries = sorted(folder.glob("*.kernel"))
    assert entries
    assert not list(folder.glob("*.part"))
    assert compile_count(folder) == 0
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


def test_a_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert compile_count(blocked / "below", TILE) == 1


def test_no_cache_at_all(tmp_path):
    assert compile_count("", TILE, HOME=str(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [PermissionError, OSError(28, "No space left on device")])
def test_errors_of_the_file_system_are_misses(error, tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    cache.save("key", {"a": 1})
    assert cache.load("key", lambda state: state) == {"a": 1}

    def fail(*args, **options):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", fail)
        cache.save("other", {"b": 2})
    assert cache.load("other", lambda state: state) is None
    assert not list(tmp_path.glob("*.part"))
    with monkeypatch.context() as broken:
        broken.setattr(Path, "read_bytes", fail)
        assert cache.load("key", lambda state: state) is None


def test_a_state_that_cannot_be_rebuilt_is_a_miss(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path))
    cache.save("key", 1)

    def fail(state):
        raise RuntimeError("another version of Numba")

    assert cache.load("key", fail) is None


def test_the_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("SEMIRING_CACHE_DIR", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert cache.cache_folder() == tmp_path / "numba" / "semiring"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", str(tmp_path / "own"))
    assert cache.cache_folder() == tmp_path / "own"
    monkeypatch.setenv("SEMIRING_CACHE_DIR", "")
    assert cache.cache_folder() is None
    monkeypatch.delenv("SEMIRING_CACHE_DIR")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "semiring"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.cache_folder() == tmp_path / "local" / "semiring" / "Cache"


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


def test_a_changed_source_changes_every_key(monkeypatch):
    before = cache.fingerprint()
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: original(self) + (b"#" if self.name == "tile.py" else b""))
    cache.fingerprint.cache_clear()
    try:
        assert cache.fingerprint() != before
    finally:
        monkeypatch.undo()
        cache.fingerprint.cache_clear()


def test_one_key_is_compiled_once():
    import llvmlite.ir as ir

    calls = []

    def build(module, name):
        calls.append(name)
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), name)
        ir.IRBuilder(function.append_basic_block()).ret_void()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEMIRING_CACHE_DIR", "")
        addresses = {native.compile_native("a test of one key", build) for _ in range(3)}
    assert len(calls) == len(addresses) == 1
