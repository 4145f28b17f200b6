"""Test strips on a stand-in for a GPU, whose copies happen when a caller waits for them, and not before.

The same calls run on a device in `test_gpu_strips`.
"""

from __future__ import annotations

import os
import tracemalloc
from importlib import import_module

import fake_cupy
import numpy as np
import pytest
from strips import METHOD, least_memory, make_small, rounding_matrix, same_bits
from tiers import full

import semiring as sr
from semiring.errors import AlgebraError, DivergenceError, DomainError, NegativeCycleError, ShapeError, StorageError
from semiring.out_of_core import strip_layout
from semiring.out_of_core.disk import System

pytestmark = pytest.mark.full

CASES = full(
    lambda name, dtype: (name, dtype) in (("min_plus", "float32"), ("max_min", "int16"), ("plus_times", "float64")),
    [
        ("min_plus", "float32"),
        ("min_plus", "int32"),
        ("max_plus", "float64"),
        ("max_min", "int16"),
        ("plus_times", "float64"),
        ("log_plus", "float32"),
        ("boolean", "bool"),
    ],
)


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Use one backend, with one size of blocks of pivots, for the host and the device."""
    monkeypatch.setenv("SEMIRING_BACKEND", "reference")
    make_small(monkeypatch)
    files = import_module("semiring.closures.files")
    monkeypatch.setattr(files, "_STAGE", 7 * 97 * 4)  # a strip takes several
    return fake_cupy.install(monkeypatch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "A.npy"


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_an_array_of_the_host_has_the_bits_of_the_closure_in_memory(rng, name, dtype):
    A = rounding_matrix(rng, 97, name, dtype)
    kept, expected = A.copy(), sr.closure(A, name, method=METHOD)
    fewest = least_memory(A, name)
    for memory in (fewest, fewest * 5 // 4, fewest * 2):
        found, why = sr.closure(A, name, device="cuda", memory=memory, explain=True)
        assert "of the GPU's memory" in why.reasons[0]
        assert why.backend == "fake"
        assert same_bits(found, expected)
        assert same_bits(A, kept)
    assert sr.closure(A, name, out=A, device="cuda", memory=fewest) is A
    assert same_bits(A, expected)


@pytest.mark.full
@pytest.mark.parametrize("n", full(lambda n: n in (33, 64), [33, 64, 65, 150]))
def test_arrays_of_any_size(rng, n):
    for name in ("min_plus", "plus_times"):
        A = rounding_matrix(rng, n, name, "float64")
        expected = sr.closure(A, name, method=METHOD)
        fewest = least_memory(A, name)
        for memory in (fewest, fewest * 3 // 2, fewest * 3):
            assert same_bits(sr.closure(A, name, device="cuda", memory=memory), expected)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_file_has_the_bits_of_the_closure_in_memory(rng, path, name, dtype):
    A = rounding_matrix(rng, 97, name, dtype)
    np.save(path, A)
    expected, memory = sr.closure(A, name, method=METHOD), least_memory(A, name)
    out = path.with_name("D.npy")
    assert same_bits(sr.closure(path, name, out=out, device="cuda", memory=memory), expected)
    assert same_bits(sr.closure(path, name, out=path, device="cuda", memory={"device": memory}), expected)


@pytest.mark.parametrize("dtype", full(lambda dtype: dtype != "int64", ["float32", "int32", "int64"]))
@pytest.mark.parametrize("name", full(lambda name: name == "max_plus", ["min_plus", "max_plus"]))
def test_weights_of_both_signs(rng, name, dtype):
    h = rng.integers(0, 500, 97)
    A = ((rng.integers(0, 1000, (97, 97)) + h[:, None] - h) * (1 if name == "min_plus" else -1)).astype(dtype)
    A[rng.random(A.shape) < 0.4] = sr.as_semiring(name).zero_for(A.dtype)
    found, why = sr.closure(A, name, device="cuda", memory=least_memory(A, name), explain=True)
    assert "potentials" in str(why)
    assert same_bits(found, sr.closure(A, name, method=METHOD))


@pytest.mark.parametrize(
    ("name", "dtype"),
    full(lambda name, _: name == "min_plus", [("min_plus", "float32"), ("max_plus", "int32"), ("max_min", "int16")]),
)
def test_cycles(rng, path, name, dtype):
    A = rounding_matrix(rng, 97, name, dtype)
    expected, memory = sr.closure(A, name, method=METHOD, reflexive=False), least_memory(A, name)
    assert same_bits(sr.closure(A, name, device="cuda", memory=memory, reflexive=False), expected)
    np.save(path, A)
    options = {"device": "cuda", "memory": memory, "reflexive": False, "journal": path.with_name("run")}
    assert same_bits(sr.closure(path, name, out=path, **options), expected)


def test_products_that_gain(rng):
    p = 2.0 ** rng.integers(-3, 4, 97)
    A = rng.random((97, 97)) * 0.5 * p[:, None] / p
    found = sr.closure(A, "max_times", device="cuda", memory=least_memory(A, "max_times"))
    assert same_bits(found, sr.closure(A, "max_times", method=METHOD))


def test_arrays_that_lie_in_any_way(rng):
    A = rng.random((97, 97))
    expected, memory = sr.closure(A, method=METHOD), least_memory(A)
    out = np.empty((97, 200))[:, 3:100]
    for given in (np.asfortranarray(A), A[::-1].copy()[::-1], A.astype(">f8")):
        assert same_bits(sr.closure(given, device="cuda", memory=memory), expected)
        assert sr.closure(given, out=out, device="cuda", memory=memory) is out
        assert np.array_equal(out, expected)


def test_what_has_room_is_closed_as_a_whole(monkeypatch, rng):
    monkeypatch.setattr(import_module("semiring.closures.files"), "_WORKSPACE", 0)
    A = rng.random((97, 97))
    found, why = sr.closure(A, "max_times", device="cuda", memory="1 MiB", explain=True)
    assert "read and written in" not in str(why)
    assert why.method == METHOD
    assert same_bits(found, sr.closure(A, "max_times", method=METHOD))


def test_an_array_that_is_larger_than_the_gpu(monkeypatch, rng, device):
    files = import_module("semiring.closures.files")
    A = rng.random((200, 200))
    monkeypatch.setattr(files, "_LARGE", 0)
    monkeypatch.setattr(files, "_WORKSPACE", 1000)
    free = least_memory(A)
    monkeypatch.setattr(device[0].cuda.runtime, "memGetInfo", lambda: (free * 8 // 7 + 8, 1 << 30))
    found, why = sr.closure(A, device="cuda", explain=True)
    assert "read and written in" in str(why)
    assert same_bits(found, sr.closure(A, method=METHOD))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda name, dtype: name == "min_plus",
        [("min_plus", "float32"), ("max_plus", "int32"), ("plus_times", "float64")],
    ),
)
def test_the_memory_is_kept_to(monkeypatch, rng, path, name, dtype):
    """The limit bounds the memory of the device and of the host together, which are one in this test."""
    n = 500
    A = rounding_matrix(rng, n, name, dtype)
    np.save(path, A)
    monkeypatch.setattr(strip_layout, "DEVICE", strip_layout.Costs((16, 64, 256), 16, 3 << 20, 30, 30))
    monkeypatch.setattr(import_module("semiring.closures.files"), "_STAGE", 1 << 18)
    memory, host = least_memory(A, name) * 3 // 2, 4 << 20
    out = path.with_name("D.npy")
    tracemalloc.start()
    try:
        found, why = sr.closure(
            path, name, out=out, device="cuda", memory={"device": memory, "host": host}, explain=True
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "read and written in" in str(why)
    assert peak <= memory + host
    assert same_bits(found, sr.closure(A, name, method=METHOD))


def test_the_pool_has_the_limit_that_was_given(monkeypatch, rng):
    limits = []
    monkeypatch.setattr(fake_cupy.MemoryPool, "set_limit", lambda pool, size: limits.append(size))
    A = rng.random((97, 97))
    memory = least_memory(A) + 5
    sr.closure(A, device="cuda", memory=memory)
    assert limits == [memory]


def test_refused(rng, path):
    A = rng.random((97, 97))
    kept, memory = A.copy(), least_memory(A)

    def check_refused(error, match, matrix=A, name="min_plus", **options):
        with pytest.raises(error, match=match):
            sr.closure(matrix, name, **{"out": A, "device": "cuda", "memory": memory, **options})
        assert same_bits(A, kept)

    check_refused(StorageError, "'disk'", memory={"device": memory, "disk": 1})
    check_refused(StorageError, "4 rows of 97", memory={"device": memory, "host": 1000})
    check_refused(StorageError, "matrix in an .npy file", journal=path.with_name("run"))
    check_refused(StorageError, "overlap", matrix=A[:96, :96], out=A[1:, 1:])
    check_refused(StorageError, "save A", out=path)
    check_refused(ShapeError, "square", matrix=A[:50])
    check_refused(AlgebraError, "rkleene closes a matrix in memory", method="rkleene")
    check_refused(NegativeCycleError, "below 0", matrix=A - 0.5)
    check_refused(ValueError, "read-only", out=np.broadcast_to(A[0], (97, 97)))
    wrong = A.copy()
    wrong[40, 7] = np.nan
    check_refused(DomainError, r"A\[40, 7\] is nan", matrix=wrong)
    np.save(path, A)
    with pytest.raises(StorageError, match="'device'"):
        sr.closure(path, out=path, memory={"device": memory})
    assert same_bits(np.load(path), kept)


def test_a_pivot_without_a_star(rng):
    A = rng.random((97, 97))
    A[50, 50], A[:50, 50] = 1, 0
    with pytest.raises(DivergenceError) as in_memory:
        sr.closure(A, "plus_times", method=METHOD)
    with pytest.raises(DivergenceError) as by_strips:
        sr.closure(A, "plus_times", device="cuda", memory=least_memory(A, "plus_times"))
    assert by_strips.value.vertex == in_memory.value.vertex == 50
    assert "has no star" in str(by_strips.value)


# ------------------------------------------------------------------------------------------------------------- journals


class CrashError(BaseException):
    """The process is no more."""


class Dying(System):
    """A system that dies at a write."""

    def __init__(self, writes):
        super().__init__()
        self.remaining_writes = writes

    def write(self, file, memory, position):
        self.remaining_writes -= 1
        if self.remaining_writes == 0:
            os.pwrite(file, bytes(memory[: len(memory) // 2]), position)
        if self.remaining_writes <= 0:
            raise CrashError
        return super().write(file, memory, position)


@pytest.mark.parametrize(
    ("name", "dtype", "in_place"),
    full(
        lambda name, dtype, in_place: (name, in_place) in (("plus_times", True), ("max_plus", False)),
        [
            (name, dtype, in_place)
            for name, dtype in (("min_plus", "float64"), ("plus_times", "float64"), ("max_plus", "int32"))
            for in_place in (True, False)
        ],
    ),
)
def test_a_run_that_was_killed_goes_on(monkeypatch, rng, tmp_path, name, dtype, in_place):
    files = import_module("semiring.closures.files")
    A, path, journal = rounding_matrix(rng, 97, name, dtype), tmp_path / "A.npy", tmp_path / "run"
    if name == "max_plus":
        h = rng.integers(0, 500, 97)
        A = (-rng.integers(0, 1000, (97, 97)) + h[:, None] - h).astype(dtype)
    np.save(path, A)
    out = path if in_place else tmp_path / "D.npy"
    expected, memory = sr.closure(A, name, method=METHOD), least_memory(A, name)

    def run():
        return sr.closure(path, name, out=out, device="cuda", memory=memory, journal=journal)

    died = 0
    for at in (3, 40, 5, 70, 90, 7, 300):
        monkeypatch.setattr(files, "SYSTEM", Dying(at))
        try:
            run()
        except CrashError:
            died += 1
    monkeypatch.setattr(files, "SYSTEM", System())
    assert died >= 5
    assert same_bits(run(), expected)
    assert same_bits(np.load(out), expected)
    monkeypatch.setattr(files, "SYSTEM", Dying(1))
    assert same_bits(run(), expected)  # it has finished, and writes nothing


def test_a_journal_of_the_host_is_refused(rng, tmp_path):
    A, path, journal = rng.random((97, 97)), tmp_path / "A.npy", tmp_path / "run"
    np.save(path, A)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    memory = least_memory(A)
    with pytest.raises(KeyboardInterrupt):
        sr.closure(path, out=path, device="cuda", memory=memory, journal=journal, progress=stop)
    with pytest.raises(StorageError, match="the backend was fake, and is reference"):
        sr.closure(path, out=path, memory=memory, journal=journal)
