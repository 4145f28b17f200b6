"""Test the machinery of the benchmarks: files of tables, and comparisons of two libraries. No test checks a time."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import common
from benchmarks.tables import Origin, Table, read, save

ROOT = Path(__file__).resolve().parents[2]
ORIGIN = Origin("A machine, 2 cores", "2026-11-22", "0123abc and changes", "python -m benchmarks.gemm")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Restore the environment variable that `common.run` sets, which later tests of this process would read."""
    monkeypatch.setenv("SEMIRING_NUMPY_SECONDS", "0")


def test_tables_come_back_from_a_file_as_a_reader_saw_them(tmp_path):
    table = Table("A title: with a colon", ["who, or what", "ms"], [["a, “b” # c", 1.23456], ["", 2]], ORIGIN)
    save(tmp_path / "t.csv", {"first": table, "empty": Table("None", ["x"], [], ORIGIN)})
    found = read(tmp_path / "t.csv")
    assert list(found) == ["first", "empty"]
    assert found["first"].origin == ORIGIN
    assert found["first"].title == "A title: with a colon"
    assert found["first"].rows == [["a, “b” # c", "1.23"], ["", "2"]]
    assert (found["empty"].columns, found["empty"].rows) == (["x"], [])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(4840, "4,840 s"), (999.6, "1,000 s"), (11_049, "11,000 s"), (123_456, "123,000 s"), (999, "999 s")],
        *[(1.2345, "1.23 s"), (0.9996, "1,000 ms"), (0.0123, "12.3 ms"), (12e-6, "12 µs"), (2e-8, "0.02 µs")],
    ],
)
def test_times_have_three_digits_and_no_exponent(seconds, text):
    assert common.format_seconds(seconds) == text


def test_numbers_of_a_table_have_no_exponent_below_a_billion():
    assert common.milliseconds(12.345) == "12,300"
    assert Table("", ["s", "×"], [[4840.2, 448_123.0], [2.24e11, -2000.4]]).cells == [
        ["4840", "448000"],
        ["2.24e+11", "-2000"],
    ]


def test_saving_replaces_tables_by_name_and_leaves_the_others(tmp_path):
    path, other = tmp_path / "t.csv", Origin("Another", "2026-11-23", "unknown", "python -m benchmarks.gemm b")
    save(path, {"a": Table("A", ["x"], [["1"]], ORIGIN), "b": Table("B", ["x"], [["2"]], ORIGIN)})
    before = path.read_bytes()
    save(path, {"b": Table("B", ["y"], [["3"]], other)})
    found = read(path)
    assert (found["a"].rows, found["a"].origin) == ([["1"]], ORIGIN)
    assert (found["b"].columns, found["b"].rows, found["b"].origin) == (["y"], [["3"]], other)
    save(path, {"b": Table("B", ["x"], [["2"]], ORIGIN)})
    assert path.read_bytes() == before


def test_a_script_prints_and_keeps_the_tables_that_are_named(tmp_path, capsys):
    def first(options):
        return Table("The first", ["n"], [[options.n]])

    def second(options):
        raise AssertionError

    words = ["first", "--n", "7", "--save", str(tmp_path / "t.csv"), "--commit", "mine"]
    tables = {"first": first, "second": second}
    assert common.run("benchmarks.any", "", tables, words, lambda parser: parser.add_argument("--n")) == 0
    assert "| 7 |" in capsys.readouterr().out
    (kept,) = read(tmp_path / "t.csv").values()
    assert (kept.rows, kept.origin.commit) == ([["7"]], "mine")
    assert kept.origin.command == f"python -m benchmarks.any first --n 7 --save {tmp_path / 't.csv'} --commit mine"
    with pytest.raises(SystemExit):
        common.run("benchmarks.any", "", {"first": first}, ["third"])
    assert "no table is named third: there are first" in capsys.readouterr().err


def run_regression(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the regression benchmark on plain NumPy, which compiles nothing."""
    command = [sys.executable, "-m", "benchmarks.regression", "products", "--sizes", "4", "--seconds", "0", *words]
    environment = {**os.environ, "SEMIRING_BACKEND": "reference"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.full
def test_two_libraries_are_compared_call_by_call(tmp_path):
    done = run_regression("--compare", str(ROOT), "--save", str(tmp_path / "t.csv"))
    assert done.returncode in (0, 1), done.stderr  # 1: one was slower
    (kept,) = read(tmp_path / "t.csv").values()
    assert len(kept.rows) == 14
    table, label, earlier, now, ratio, low, high, bound = kept.rows[0]
    assert table == "products"
    assert label == "matmul, min_plus, float32, n = 4"
    assert "s" in earlier
    assert "s" in now
    assert 0 < float(low) <= float(ratio) <= float(high)
    assert bound.startswith("1.25: ")


@pytest.mark.full
def test_a_call_that_one_library_refuses_is_a_row_that_says_so(tmp_path):
    package = tmp_path / "semiring"
    package.mkdir()
    source = "def get_threads(): return 1\ndef set_threads(n): pass\ndef matmul(*_, **__): raise ValueError('no')\n"
    (package / "__init__.py").write_text(source)
    done = run_regression("--compare", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"the library of {tmp_path}: ValueError: no" in done.stdout


@pytest.mark.full
def test_a_revision_that_is_not_there_is_named():
    done = run_regression("--compare", "no-such-revision")
    assert "no-such-revision: no tree of the library is there" in done.stderr


def test_a_time_holds_no_compilation(monkeypatch):
    """The first call takes longer than the warm-up; the median is that of the calls after it."""
    monkeypatch.setattr(common, "longest", None)
    seconds = itertools.chain([2.0], itertools.repeat(0.01))

    def clock(_):
        time.sleep(0.02)
        return next(seconds)

    assert common.theirs(lambda: None, clock=clock, repeats=2) == 0.01
