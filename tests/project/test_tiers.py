"""Which tests are left out of the quick tier, and what is said of those that need a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "two processes"])
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
def test_one(n, name, sign, dtype): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_every_usual_value_of_a_parameter_is_in_a_quick_case(tmp_path, quick):
    (tmp_path / "test_cases.py").write_text(CASES)
    words = ["-q", "--collect-only", "-p", "tests.conftest", "-c", "pyproject.toml", "--rootdir", str(tmp_path)]
    words += ["-m", "not slow"] if quick else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    cases = re.findall(r"test_one\[(\w+)-(\w+-+1)-(\d)\]", done.stdout)
    dtypes, names, sizes = (set(values) for values in zip(*cases, strict=True))
    assert dtypes == ({"float32", "int32"} if quick else {"int16", "float32", "int32"})
    assert names == {"min_plus-1", "max_plus-1", "max_plus--1"}
    assert sizes == {"1", "2", "3"}
    assert len(cases) < 9 if quick else len(cases) == 27
