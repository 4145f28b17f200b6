"""What the tests say of those that they leave out."""

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
