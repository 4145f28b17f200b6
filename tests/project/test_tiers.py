"""Test the tiers of tests, the pairs of parameter values that they cover, and the line about tests that need a GPU."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pairs import covering_cases
from tiers import full

from tests import conftest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
@pytest.mark.parametrize(
    "processes", full(lambda processes: not processes, [((),), (("-n", "2"),)]), ids=["one process", "two processes"]
)
def test_skipped_gpu_tests_are_one_line(processes):
    if processes:
        pytest.importorskip("xdist")
    words = ["-q", "-p", "no:cacheprovider", *processes, "tests/gpu/test_gpu_narrow.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    said = [line for line in done.stdout.splitlines() if "skipped" in line.lower()]
    assert len(said) == 1
    assert re.fullmatch(r"[1-9]\d* GPU tests skipped: (no NVIDIA driver|the NVIDIA driver finds no GPU).*", said[0])


CASES = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("name", "sign"), [("min_plus", 1), ("max_plus", 1), ("max_plus", -1)])
@pytest.mark.parametrize("dtype", ["int16", "float32", "int32"])
def test_many(n, name, sign, dtype): ...

@pytest.mark.parametrize("n", [1, 2, pytest.param(3, marks=pytest.mark.full)])
def test_few(n): ...

@pytest.mark.full
def test_full(): ...

@pytest.mark.exhaustive
def test_exhaustive(): ...
"""


def collect(tmp_path, *words):
    """Return the tests of a project of CASES that a command line selects."""
    (tmp_path / "test_cases.py").write_text(CASES)
    command = ["-q", "--collect-only", "-p", "tests.conftest", "-c", "pyproject.toml", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *command, *words, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests" / "support")},
    )
    return re.findall(r"::(\S+)", done.stdout)


@pytest.mark.full
def test_markers_are_tiers(tmp_path):
    quick = collect(tmp_path, "-m", "quick")
    full = collect(tmp_path)
    everything = collect(tmp_path, "-m", "quick or full or exhaustive")
    assert set(quick) < set(full) < set(everything)
    few = {"test_few[1]", "test_few[2]"}
    assert {name for name in quick if "many" not in name} == few
    assert {name for name in full if "many" not in name} == {*few, "test_few[3]", "test_full"}
    assert len(everything) == 27 + 3 + 2


@pytest.mark.full
def test_many_cases_become_all_pairs(tmp_path):
    cases = [re.fullmatch(r"test_many\[(\w+)-(\w+?)-(-?1)-(\d)\]", name) for name in collect(tmp_path)]
    rows = [found.groups() for found in cases if found]
    assert 9 <= len(rows) < 20
    every = list(
        itertools.product(
            ["int16", "float32", "int32"], [("min_plus", "1"), ("max_plus", "1"), ("max_plus", "-1")], "123"
        )
    )
    every = [(dtype, *row, n) for dtype, row, n in every]
    for one, other in itertools.combinations(range(4), 2):
        assert {(row[one], row[other]) for row in rows} == {(row[one], row[other]) for row in every}


def test_pairs_are_covered_by_cases_that_exist():
    every = list(itertools.product(range(4), range(3), range(5), range(2)))
    for step in (1, 2, 3, 7):
        rows = every[::step]
        chosen = covering_cases([dict(zip("abcd", row, strict=True)) for row in rows])
        for one, other in itertools.combinations(range(4), 2):
            assert {(rows[c][one], rows[c][other]) for c in chosen} == {(row[one], row[other]) for row in rows}
        assert len(chosen) < len(rows) or step > 1


def test_cases_of_two_parameters_all_run():
    assert covering_cases([{"a": a, "b": b} for a in range(9) for b in range(9)]) == set(range(81))
    assert covering_cases([]) == set()


def test_the_tier_of_a_file_is_read_without_its_import(tmp_path):
    file = tmp_path / "test_file.py"
    for text, expected in [
        ("import pytest\npytestmark = pytest.mark.full\nraise ValueError\n", {"full"}),
        ("pytestmark = [pytest.mark.full, pytest.mark.gpu]", {"full", "gpu"}),
        ("import missing_package", set()),
    ]:
        file.write_text(text)
        conftest.module_markers.cache_clear()
        assert conftest.module_markers(file) == expected
