"""Test matrices in files: strips against the closure in memory, bit by bit, in every memory, and invalid calls."""

from __future__ import annotations

import itertools
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import matrices
import numpy as np
import pytest
from strips import METHOD, least_memory, make_small, rounding_matrix, same_bits
from tiers import each_value, full

import semiring as sr
from semiring.algorithms import stars
from semiring.errors import (
    AlgebraError,
    DivergenceError,
    DomainError,
    DTypeError,
    FormatError,
    IntegerOverflowError,
    NegativeCycleError,
    ShapeError,
)
from semiring.out_of_core import strip_layout
from semiring.out_of_core.disk import PAGE, File, FileRows, Memory, System

SIZES = (2, 3, 31, 32, 33, 63, 64, 65, 97, 150)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "A.npy"


CASES = [(name, dtype) for name, dtypes in matrices.DTYPES.items() for dtype in dtypes]


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), each_value(CASES))
def test_strips_have_the_bits_of_the_closure_in_memory(rng, path, name, dtype):
    for n in (33, 65, 97):
        A = rounding_matrix(rng, n, name, dtype)
        expected = sr.closure(A, name, method=METHOD)
        np.save(path, A)
        found, why = sr.closure(path, name, out=path.with_name("D.npy"), memory=least_memory(path, name), explain=True)
        assert "read and written in" in str(why)
        assert same_bits(found, expected)
        assert same_bits(np.load(path), A)


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: name != "log_plus", ["min_plus", "plus_times", "log_plus"]))
def test_neither_the_size_nor_the_memory_changes_a_bit(rng, path, name):
    for n in SIZES:
        A = rounding_matrix(rng, n, name, "float64")
        expected = sr.closure(A, name, method=METHOD)
        np.save(path, A)
        fewest = least_memory(path, name)
        for memory in (fewest, fewest * 5 // 4, fewest * 3 // 2, fewest * 4, "1 GiB"):
            np.save(path, A)
            assert same_bits(sr.closure(path, name, out=path, memory=memory), expected), (n, memory)


@pytest.mark.full
def test_a_single_row_is_summed_as_it_is_in_memory(rng, path):
    """The last block has one row, which in memory is alone only for the pivots of the block before."""
    A = rng.random((97, 97)) / 200
    expected = sr.closure(A, "plus_times", method=METHOD)
    np.save(path, A)
    for rows in [rows for rows in range(2, 97) if 97 % rows < 2 or rows % 10 == 0]:
        run = strip_layout.StripLayout(97, 8, (((0, 32), (32, 64)), ((64, 96), (96, 97))), rows, 8 * 97 * 97)
        assert same_bits(_closed_by(run, path, "plus_times"), expected), rows


def _closed_by(run, path, name):
    from semiring.kernels import backend_for
    from semiring.kernels.engine import Engine, make_plan
    from semiring.out_of_core.buffer_pools import HostBufferPool
    from semiring.out_of_core.rounds import StripClosure

    A = np.load(path)
    n, semiring = len(A), sr.as_semiring(name)
    target = path.with_name("rows")
    target.write_bytes(A.tobytes())
    file = File(System(), str(target), os.O_RDWR)
    place = FileRows(file, 0, n * A.itemsize, n)
    engine = Engine(backend_for(A, semiring, A.dtype), make_plan(semiring, A.dtype), 64)
    nothing = lambda first, rows: None  # noqa: E731
    places = [place] * (len(run.rounds) + 1)
    StripClosure(engine, run, HostBufferPool(n, A.dtype), places, [False, True], nothing, nothing).run()
    file.close()
    return np.frombuffer(target.read_bytes(), A.dtype).reshape(n, n)


IDEMPOTENT = [(name, dtype) for name, dtype in CASES if sr.as_semiring(name).idempotent]


@pytest.mark.full
@pytest.mark.parametrize(("name", "dtype"), each_value(IDEMPOTENT))
def test_cycles_have_the_bits_of_the_closure_in_memory(rng, path, name, dtype):
    for n in (2, 33, 97):
        A = rounding_matrix(rng, n, name, dtype)
        expected = sr.closure(A, name, method=METHOD, reflexive=False)
        for share in (1, 2):
            np.save(path, A)
            memory = int(least_memory(path, name) * share)
            assert same_bits(sr.closure(path, name, out=path, memory=memory, reflexive=False), expected)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda *case: case in (("min_plus", "float64"), ("max_plus", "int32")),
        itertools.product(["min_plus", "max_plus"], ["float64", "int32"]),
    ),
)
def test_cycles_of_weights_of_both_signs(rng, path, name, dtype):
    A = heights(rng, 97, dtype) * np.dtype(dtype).type(1 if name == "min_plus" else -1)
    A[rng.random(A.shape) < 0.7] = sr.as_semiring(name).zero_for(A.dtype)
    if dtype == "float64":
        A *= 0.37
    expected = sr.closure(A, name, method=METHOD, reflexive=False)
    for journal in (None, path.with_name("run")):
        np.save(path, A)
        found = sr.closure(path, name, out=path, memory=least_memory(path, name), reflexive=False, journal=journal)
        assert same_bits(found, expected)


@pytest.mark.full
def heights(rng, n, dtype=np.float32):
    """Return whole weights of both signs without a negative cycle."""
    h = rng.integers(0, 500, n)
    return (rng.integers(0, 1000, (n, n)) + h[:, None] - h).astype(dtype)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda *case: case in (("min_plus", "float32"), ("min_plus", "int32"), ("max_plus", "int16")),
        itertools.product(["min_plus", "max_plus"], ["float32", "float64", "int16", "int32", "int64"]),
    ),
)
def test_weights_of_both_signs_are_closed_under_potentials(rng, path, name, dtype):
    A = heights(rng, 97, dtype) * np.dtype(dtype).type(1 if name == "min_plus" else -1)
    A[rng.random(A.shape) < 0.4] = sr.as_semiring(name).zero_for(A.dtype)
    np.save(path, A)
    found, why = sr.closure(path, name, out=path.with_name("D.npy"), memory=least_memory(path, name), explain=True)
    assert "potentials" in str(why)
    assert same_bits(found, sr.closure(A, name, method=METHOD))


def test_weights_that_round_have_the_potentials_of_the_closure_in_memory(rng, path):
    n = 300  # larger than what is eliminated in memory at once
    h = rng.random(n)
    A = (rng.random((n, n)) + h[:, None] - h).astype(np.float32)
    np.save(path, A)
    found = sr.closure(path, out=path.with_name("D.npy"), memory=least_memory(path))
    assert same_bits(found, sr.closure(A, method=METHOD))


def test_products_that_gain_are_closed_under_factors(rng, path):
    p = 2.0 ** rng.integers(-3, 4, 97)
    A = rng.random((97, 97)) * 0.5 * p[:, None] / p
    np.save(path, A)
    found = sr.closure(path, "max_times", out=path.with_name("D.npy"), memory=least_memory(path, "max_times"))
    assert same_bits(found, sr.closure(A, "max_times", method=METHOD))


@pytest.mark.full
def test_a_semiring_of_ones_own(rng, path):
    capped = sr.Semiring("capped", add="min(x, y)", mul="min(9, x + y)", zero=9.0, one=0.0, domain="[0, 9]")
    A = rng.random((70, 70)) * 5
    np.save(path, A)
    found = sr.closure(path, capped, out=path, memory=least_memory(path, capped))
    assert same_bits(found, sr.closure(A, capped, method=METHOD))


@pytest.mark.parametrize("start", [0, 64, 100, 3])
def test_maps_of_any_start(rng, tmp_path, start):
    """Maps begin at any byte, even if no entry is aligned in the file."""
    A, name = rng.random((97, 97)), tmp_path / "raw"
    name.write_bytes(bytes(start) + A.tobytes() + b"end")
    mapped = np.memmap(name, A.dtype, "r+", start, A.shape)
    result = sr.closure(mapped, out=mapped, memory=200_000)
    assert result is mapped
    assert same_bits(mapped, sr.closure(A, method=METHOD))
    assert name.read_bytes()[:start] == bytes(start)
    assert name.read_bytes().endswith(b"end")


def test_a_part_of_the_rows_of_a_map(rng, tmp_path):
    A = rng.random((200, 60))
    np.save(tmp_path / "tall.npy", A)
    whole = np.load(tmp_path / "tall.npy", mmap_mode="r+")
    part = whole[70:130]
    sr.closure(part, out=part, memory=80_000)
    after = np.load(tmp_path / "tall.npy")
    assert same_bits(after[70:130], sr.closure(A[70:130], method=METHOD))
    assert same_bits(after[:70], A[:70])
    assert same_bits(after[130:], A[130:])


@pytest.mark.full
def test_float16_stays_float16_where_nothing_is_rounded_or_the_caller_asks(rng, path):
    out = path.with_name("D.npy")
    A = rounding_matrix(rng, 97, "max_min", "float16")
    np.save(path, A)
    assert same_bits(
        sr.closure(path, "max_min", out=out, memory=least_memory(path, "max_min")), sr.closure(A, "max_min")
    )
    A = rounding_matrix(rng, 97, "min_plus", "float16")
    np.save(path, A)
    memory = least_memory(path)
    with pytest.raises(AlgebraError, match=r"cannot hold float32: .* or round .* compute_dtype='float16'"):
        sr.closure(path, out=path, memory=memory)
    assert same_bits(np.load(path), A)
    found = sr.closure(path, out=out, memory=memory, compute_dtype="float16")
    np.testing.assert_allclose(found, sr.closure(A), rtol=97 * 2.0**-11)


@pytest.mark.full
def test_columns_for_rows_where_the_product_commutes(rng, path, monkeypatch):
    A = np.asfortranarray(rng.random((97, 97)))
    np.save(path, A)
    assert sr.closure(path, out=path.with_name("D.npy"), memory=200_000).flags.f_contiguous
    # No ⊗ of numbers is associative and does not commute.
    monkeypatch.setattr(stars, "_check_laws", lambda semiring: None)
    left = sr.Semiring("left", add="min(x, y)", mul="x + 2 * y", zero=np.inf, one=0.0, star="0")
    with pytest.raises(AlgebraError, match="does not commute"):
        sr.closure(path, left, out=path.with_name("E.npy"), memory=200_000)
    assert not path.with_name("E.npy").exists()


@pytest.mark.parametrize("name", ["min_plus", "plus_times"])
def test_columns_in_a_file_are_closed_as_the_transpose_whatever_the_memory(monkeypatch, rng, path, name):
    """Rounding depends on the order of the entries in the result, and on nothing else."""
    A, out, run = rounding_matrix(rng, 97, name, "float32"), path.with_name("D.npy"), path.with_name("run")
    expected = np.asfortranarray(sr.closure(A.T.copy(), name, method=METHOD).T)
    np.save(path, np.asfortranarray(A))
    memory = least_memory(path, name)
    routes = [{"out": out, "memory": memory}, {"out": out, "memory": 2 * memory}, {}]
    routes += [{"out": np.empty_like(expected)}, {"out": path, "memory": memory, "journal": run}]
    for options in routes:
        found = sr.closure(path, name, **options)
        assert found.flags.f_contiguous
        assert np.array_equal(found, expected)
    np.save(path, np.asfortranarray(A))
    monkeypatch.setattr(import_module("semiring.closures.files"), "_WORKSPACE", 0)
    for options in ({"out": out}, {"out": path, "memory": "1 GiB"}):
        assert np.array_equal(sr.closure(path, name, **options), expected)
    assert np.array_equal(sr.closure(A, name, method=METHOD, out=np.empty_like(expected)), expected)
    assert (expected != sr.closure(A, name, method=METHOD)).any()  # else this has shown nothing


def test_an_error_names_the_entry_of_a_file_in_columns(rng, path):
    A = rounding_matrix(rng, 97, "min_plus", "float64")
    A[3, 70] = np.nan
    np.save(path, np.asfortranarray(A))
    for options in ({}, {"out": path, "memory": least_memory(path)}):
        with pytest.raises(DomainError, match=r"A\[3, 70\] is nan") as caught:
            sr.closure(path, **options)
        assert caught.value.position == (3, 70)


def test_what_fits_is_closed_in_memory(monkeypatch, rng, path):
    monkeypatch.undo()
    A = rng.random((97, 97))
    np.save(path, A)
    found, why = sr.closure(path, out=path.with_name("D.npy"), memory="1 GiB", explain=True)
    assert "closed in memory" in str(why)
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert same_bits(found, sr.closure(A, method=METHOD))
    assert type(sr.closure(path)) is np.ndarray
    assert same_bits(sr.closure(path), found)
    assert same_bits(sr.closure(str(path), memory="1 GiB"), found)


def test_integers_of_a_file_begin_again_in_a_wider_dtype(monkeypatch, path):
    monkeypatch.undo()
    none = np.iinfo(np.int16).max
    np.save(path, np.array([[none, 10_000, none], [none, none, 10_000], [none, none, none]], np.int16))
    assert sr.closure(path, out=path.with_name("D.npy"))[0, 2] == 20_000
    assert sr.closure(path, out=path)[0, 2] == 20_000


def test_the_closure_of_a_file_goes_to_an_array(monkeypatch, rng, path):
    """The closure of a .npy file is written to ``out``, which used to stay as it was."""
    monkeypatch.undo()
    A = rng.random((40, 40))
    np.save(path, A)
    D = np.zeros_like(A)
    for memory in (None, "1 GiB"):
        D[:] = 0
        assert sr.closure(path, out=D, memory=memory) is D
        assert same_bits(D, sr.closure(A, method=METHOD))
    with pytest.raises(ShapeError, match=r"out is \(3, 3\)"):
        sr.closure(path, out=np.zeros((3, 3)))
    for out in ("D.csv", path.with_name("D.npz")):
        with pytest.raises(TypeError, match=r"out is a .*: pass an array, or .* an \.npy file"):
            sr.closure(path, out=out)
        with pytest.raises(ValueError, match=r"goes to an \.npy file: give its name, out='closed\.npy'"):
            sr.closure(path, out=out, memory=10_000)


def test_no_vertices(path):
    np.save(path, np.empty((0, 0)))
    assert sr.closure(path).shape == (0, 0)
    assert sr.closure(path, out=path, memory=1).shape == (0, 0)


def test_the_closure_of_an_array_goes_to_a_new_file(rng, path):
    A = rng.random((40, 40))
    found = sr.closure(A, out=path)
    assert same_bits(np.load(path), sr.closure(A))
    assert isinstance(found, np.memmap)


def test_truth_values_that_fit(monkeypatch, rng, path):
    monkeypatch.undo()
    A = rng.random((200, 200)) < 0.01
    np.save(path, A)
    assert same_bits(sr.closure(path, "boolean", out=path, memory="20 MiB"), sr.closure(A, "boolean"))


@pytest.mark.parametrize("name", ["boolean", "xor_and"])
@pytest.mark.parametrize("reflexive", [True, False])
def test_truth_values_that_fit_packed(monkeypatch, rng, path, name, reflexive):
    monkeypatch.setattr(import_module("semiring.closures.files"), "_WORKSPACE", 0)
    for module in ("semiring.out_of_core.disk", "semiring.closures.files"):
        monkeypatch.setattr(import_module(module), "TRUTHS", 1 << 15)
    A = np.triu(rng.random((1001, 1001)) < 0.01, 1) if name == "xor_and" else rng.random((1001, 1001)) < 0.002
    expected = sr.closure(A, name, reflexive=reflexive)
    for given in (A, np.asfortranarray(A)):
        np.save(path, given)
        tracemalloc.start()
        try:
            found, why = sr.closure(path, name, out=path, memory=700_000, reflexive=reflexive, explain=True)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "32 truth values to a word" in str(why)
        assert np.array_equal(found, expected)
        assert peak < 700_000


# --------------------------------------------------------------------------------------------------------------- memory


KEPT = [("min_plus", "float32"), ("max_plus", "int32"), ("plus_times", "float64")]


@pytest.mark.full
@pytest.mark.parametrize(
    ("share", "threads", "name", "dtype"),
    full(
        lambda share, threads, name, dtype: (share, threads) == (1, 2) and name != "plus_times",
        [
            *((share, 2, *of) for share in (1, 1.4, 3) for of in KEPT),
            *((share, 64, *of) for share in (1, 3) for of in KEPT),  # each thread copies what it multiplies by
            (1, 2, "boolean", "bool"),
            (1.4, 64, "boolean", "bool"),
        ],
    ),
)
def test_the_memory_is_kept_to(monkeypatch, rng, path, share, threads, name, dtype):
    monkeypatch.undo()  # the constants count
    n = 1500 if dtype != "bool" else 8000
    A = rounding_matrix(rng, n, name, dtype)
    out, small = path.with_name("D.npy"), path.with_name("small.npy")
    np.save(path, A)
    np.save(small, A[: n // 3, : n // 3])
    memory = int(least_memory(path, name, threads=threads) * share)
    sr.closure(
        small, name, out=out, memory=int(least_memory(small, name, threads=threads) * share), threads=threads
    )  # compiles
    out.unlink()
    tracemalloc.start()
    try:
        found, why = sr.closure(path, name, out=out, memory=memory, explain=True, threads=threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "read and written in" in str(why) or share == 3
    assert peak <= memory
    assert same_bits(found, sr.closure(A, name, method=METHOD))


@pytest.mark.full
def test_layouts_keep_to_the_memory_and_use_it():
    for n, itemsize, width in itertools.product((100, 1000, 5000, 32768), (1, 4, 8), (32, 768)):
        blocks = [(start, min(n, start + width)) for start in range(0, n, width)]
        fewest = strip_layout.layout_for(n, itemsize, blocks, lambda rows: 0, 0, strip_layout.HOST)
        before = None
        for factor in (1, 1.5, 2, 4, 8, 100):
            found = strip_layout.layout_for(
                n, itemsize, blocks, lambda rows: 0, int(fewest * factor), strip_layout.HOST
            )
            assert found.memory <= fewest * factor
            assert [block for blocks_of_round in found.rounds for block in blocks_of_round] == blocks
            assert found.traffic == 2 * n * n * itemsize * len(found.rounds)
            assert before is None or found.loss(strip_layout.HOST) <= before
            before = found.loss(strip_layout.HOST)
        large = 8 * n * n * itemsize + (9 << 20)
        assert len(strip_layout.layout_for(n, itemsize, blocks, lambda rows: 0, large, strip_layout.HOST).rounds) == 1


def test_memory_in_words():
    assert strip_layout.parse_bytes("8 GiB") == 8 << 30
    assert strip_layout.parse_bytes("512MiB") == 512 << 20
    assert strip_layout.parse_bytes("1.5 kB") == strip_layout.parse_bytes("1.5k") == 1500
    assert strip_layout.parse_bytes(12) == strip_layout.parse_bytes("12") == strip_layout.parse_bytes("12 B") == 12
    for wrong in ("8 GiX", "", "-1", -1, 1.5, True, None, "1 iB"):
        with pytest.raises(ValueError, match="memory is"):
            strip_layout.parse_bytes(wrong)
    assert strip_layout.free_memory() > 0


def test_no_memory_is_for_what_is_in_memory_already(rng):
    with pytest.raises(ValueError, match="in memory"):
        sr.closure(rng.random((4, 4)), memory="1 GiB")


# -------------------------------------------------------------------------------------------------------------- refused


def test_refused_before_anything_is_written(rng, path):
    out = path.with_name("D.npy")

    def check_refused(A, error, match, name="min_plus", **options):
        np.save(path, A)
        before = path.read_bytes()
        for target in (out, path):
            with pytest.raises(error, match=match):
                sr.closure(path, name, out=target, **{"memory": 200_000, **options})
            assert not out.exists()
            assert path.read_bytes() == before

    A = rng.random((97, 97))
    check_refused(A.astype(A.dtype.newbyteorder()), DTypeError, "byte order")
    check_refused(A[:50], ShapeError, "square")
    check_refused(A[None, :5, :5], ShapeError, "square")
    check_refused(A.astype(complex), DTypeError, "complex")
    check_refused(A, AlgebraError, "rkleene", method="rkleene")
    check_refused(A, AlgebraError, "read it and close it in memory", "plus_times", reflexive=False)
    check_refused(A, ValueError, "too small for 32 rows", memory=1000)
    check_refused(A - 0.5, NegativeCycleError, "below 0")
    check_refused(np.where(A < 0.001, -np.inf, A), DomainError, "is -inf, an edge of unbounded gain")
    A[40, 7] = np.nan
    check_refused(A, DomainError, r"A\[40, 7\] is nan")
    check_refused(np.full((97, 97), 20_000, np.int16), IntegerOverflowError, "no room for wider ones")
    spread = rng.random((97, 97)) * 1e-9
    spread[0, 1:], spread[1:, 0] = -1e9, 1e9
    check_refused(spread, DomainError, "differ too much in size")


def test_sweeps_that_do_not_settle_are_given_up(rng, path):
    n = 1200
    order = rng.permutation(n)
    A = np.full((n, n), np.inf, np.float32)
    A[order[:-1], order[1:]] = -1
    A[order[-1], order[0]] = n
    np.save(path, A)
    with pytest.raises(DomainError, match="8 passes"):
        sr.closure(path, out=path, memory=least_of(n))
    assert same_bits(np.load(path), A)


def least_of(n):
    return 60 * n * 4 + (1 << 20)


def test_files_and_maps_that_cannot_be_served(rng, path):
    A = rng.random((97, 97))
    np.save(path, A)
    with pytest.raises(ValueError, match="mode 'c'"):
        sr.closure(np.load(path, mmap_mode="c"), out=path, memory=200_000)
    with pytest.raises(ValueError, match="read-only"):
        sr.closure(path, out=np.load(path, mmap_mode="r"), memory=200_000)
    with pytest.raises(ValueError, match="some columns"):
        sr.closure(np.load(path, mmap_mode="r")[:50, :50], out=path.with_name("D.npy"), memory=200_000)
    with pytest.raises(ValueError, match="give its name"):
        sr.closure(path, memory=100_000)
    other = path.with_name("B.npy")
    np.save(other, A.astype(np.float32))
    with pytest.raises(DTypeError, match="holds 97 × 97 float32"):
        sr.closure(path, out=np.load(other, mmap_mode="r+"), memory=200_000)
    np.save(other, A.T)
    with pytest.raises(ValueError, match="C and Fortran"):
        sr.closure(path, out=np.load(other, mmap_mode="r+"), memory=200_000)
    other.write_bytes(b"1,2\n3,4\n")
    with pytest.raises(FormatError, match=r"not a .npy file"):
        sr.closure(other, memory=200_000)
    with pytest.raises(FileNotFoundError):
        sr.closure(path.with_name("nothing.npy"), memory=200_000)
    short = path.with_name("short.npy")
    short.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FormatError, match="is shorter than"):
        sr.closure(short, memory=200_000)
    assert same_bits(np.load(path), A)


def test_maps_that_nobody_wants_by_strips_are_arrays(rng, path):
    A = rng.random((2, 50, 50))
    np.save(path, A)
    expected = sr.closure(A)
    assert same_bits(sr.closure(np.load(path, mmap_mode="r")), expected)
    copied = np.load(path, mmap_mode="c")
    copied[0, 0, 1] = 0.0
    assert sr.closure(copied[0])[0, 1] == 0
    assert same_bits(sr.closure(np.load(path, mmap_mode="r")[1, :20, :20]), sr.closure(A[1, :20, :20]))
    written = np.load(path, mmap_mode="r+")
    assert sr.closure(written, out=written) is written
    assert same_bits(np.load(path), expected)
    np.save(path, A[0].astype(A.dtype.newbyteorder()))
    assert np.array_equal(sr.closure(np.load(path, mmap_mode="r")), expected[0])


def test_a_map_that_is_larger_than_what_is_free(monkeypatch, rng, path):
    monkeypatch.setattr(strip_layout, "free_memory", lambda: 170_000)
    A = rng.random((150, 150)) ** 3
    np.save(path, A)
    mapped = np.load(path, mmap_mode="r+")
    result, why = sr.closure(mapped, out=mapped, explain=True)
    assert "read and written in" in str(why)
    assert result is mapped
    assert same_bits(mapped, sr.closure(A, method=METHOD))


def test_a_pivot_without_a_star_leaves_no_file(rng, path):
    A = rng.random((97, 97))
    A[50, 50] = 1 - (A[50, :0] @ A[:0, 50])
    A[:50, 50] = 0
    np.save(path, A)
    out = path.with_name("D.npy")
    with pytest.raises(DivergenceError) as in_memory:
        sr.closure(A, "plus_times", method=METHOD)
    with pytest.raises(DivergenceError) as by_strips:
        sr.closure(path, "plus_times", out=out, memory=200_000)
    assert by_strips.value.vertex == in_memory.value.vertex == 50
    assert not out.exists()


def test_distances_near_no_path(rng, path):
    A = np.full((97, 97), np.iinfo(np.int16).max, np.int16)
    A[np.arange(96), np.arange(1, 97)] = 1000
    np.save(path, A)
    with pytest.raises(IntegerOverflowError, match="convert the file to int32"):
        sr.closure(path, out=path.with_name("D.npy"), memory=60_000)
    assert not path.with_name("D.npy").exists()


def test_progress_grows_to_the_end(rng, path):
    np.save(path, rng.random((97, 97)))
    seen = []
    sr.closure(path, out=path, memory=200_000, progress=lambda done, total: seen.append((done, total)))
    done = [now for now, _ in seen]
    assert done == sorted(done)
    assert seen[-1] == (97**3, 97**3)
    assert len(seen) > 10


class StoppedError(Exception):
    pass


def test_whoever_watches_may_stop_it(rng, path):
    np.save(path, rng.random((97, 97)))

    def stop(done, total):
        if done > total // 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        sr.closure(path, out=path.with_name("D.npy"), memory=200_000, progress=stop)
    assert not path.with_name("D.npy").exists()


# ----------------------------------------------------------------------------------------------------------------- rows


class Short(System):
    """A system that transfers a few bytes at a time."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng

    def read(self, file, memory, position):
        return super().read(file, memory[: int(self.rng.integers(1, 2 * PAGE))], position)

    def write(self, file, memory, position):
        return super().write(file, memory[: int(self.rng.integers(1, 2 * PAGE))], position)


@pytest.mark.parametrize("system", [lambda rng: System(), Short], ids=["plain", "short"])
def test_rows_go_there_and_back(rng, tmp_path, system):
    """Rows are read and written at every alignment, in strips that share pages."""
    for start, n in ((0, 1024), (128, 1024), (128, 1000), (5, 333)):
        A, path = rng.random((70, n)), tmp_path / f"{start}-{n}"
        path.write_bytes(bytes(start + A.nbytes))
        file = File(system(rng), str(path), os.O_RDWR)
        place = FileRows(file, start, n * 8, n)
        memory = Memory(40, n, A.dtype)
        for first, stop in ((0, 33), (33, 34), (34, 70)):
            rows = memory.rows_at(place.page_offset(first), stop - first)
            rows[...] = A[first:stop]
            place.write(first, rows)
        for first, stop in ((0, 20), (20, 60), (60, 70), (33, 34)):
            rows = memory.rows_at(place.page_offset(first), stop - first)
            rows[...] = 0
            place.read(first, rows)
            assert same_bits(rows, A[first:stop])
        file.sync()
        file.close()
        assert path.read_bytes() == bytes(start) + A.tobytes()


def test_a_file_that_ends_too_soon(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(100))
    file = File(System(), str(path), os.O_RDONLY)
    with pytest.raises(OSError, match="ends at byte 100, 60 too soon"):
        FileRows(file, 0, 80, 10).read(0, np.empty((2, 10)))
    file.close()


def test_rows_without_any_way_past_the_cache(rng, tmp_path):
    """A file system that accepts the flag and refuses transfers, as some do, is read and written through the cache.

    The refusals come to a reader and a writer at the same time.
    """
    both, closed = threading.Barrier(2), []

    class Refusing(System):
        def _refuse(self, file):
            if file == direct:
                both.wait(10)
                raise OSError(22, "Invalid argument")

        def read(self, file, memory, position):
            self._refuse(file)
            return super().read(file, memory, position)

        def write(self, file, memory, position):
            self._refuse(file)
            return super().write(file, memory, position)

        def close(self, file):
            closed.append(file)
            super().close(file)

    A, path = rng.random((70, 1024)), tmp_path / "rows"
    path.write_bytes(A.tobytes() + bytes(A.nbytes))
    with File(Refusing(), str(path), os.O_RDWR) as file:
        direct = file._direct_descriptor
        if direct < 0:
            pytest.skip("this file system has no way past the cache")
        rows, read = (Memory(70, 1024, A.dtype).rows_at(0, 70) for _ in range(2))
        rows[...] = A
        place = FileRows(file, 0, 8192, 1024)
        with ThreadPoolExecutor(2) as pool:
            for transfer in [pool.submit(place.read, 0, read), pool.submit(place.write, 70, rows)]:
                transfer.result()
        assert not closed
        assert file.descriptor >= 0
    assert len(set(closed)) == len(closed) == 2
    assert same_bits(read, A)
    assert path.read_bytes() == 2 * A.tobytes()
