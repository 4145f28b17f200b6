"""Test the script that prints machine code: the instructions of products, for CPUs and GPUs that need not be here."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import full

from semiring.kernels.cpu.codegen.target import host
from tools import machine_code
from tools.machine_code import CPUS, main, steady_loop

ROOT = str(Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("name", "dtype", "cpu", "expected"),
    [
        ("min_plus", "float32", "znver4", {r"vfmadd\w+ps\s.*zmm": 24, r"vminps\s.*zmm": 24}),
        ("min_plus", "float32", "haswell", {r"vfmadd\w+ps\s.*ymm": 8, r"vminps\s.*ymm": 8}),
        ("max_times", "float32", "neoverse-n1", {r"fmul\s": 24, r"fmaxnm\s": 24}),
    ],
)
def test_products_on_a_cpu(name, dtype, cpu, expected, capsys):
    main([name, dtype, "--target", cpu])
    text = capsys.readouterr().out
    assert {pattern: len(re.findall(pattern, text)) for pattern in expected} == expected


def test_this_machine_is_the_default(capsys):
    main(["min_plus", "float32", "--whole"])
    whole = capsys.readouterr().out
    assert "inspected:" in whole
    main(["min_plus", "float32"])
    assert capsys.readouterr().out in whole
    assert host().triple
    with pytest.raises(SystemExit):
        main(["min_plus", "--target", "zen4"])
    assert "no target is named 'zen4': give sm_… or one of x86-64, " in capsys.readouterr().err


@pytest.mark.full
def test_every_cpu_of_the_table_is_known_to_llvm(capfd):
    for cpu in CPUS:
        main(["min_plus", "float32", "--target", cpu])
    assert "not a recognized" not in capfd.readouterr().err, "LLVM says so of a CPU or feature that it does not know"


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    full(
        lambda words, expected: "max_times" in words,
        [
            (("min_plus", "float32", "--target", "sm_90a"), {"FADD": 1024, "FMNMX": 1024, "VIMNMX3": 0}),
            (
                ("min_plus", "float32", "--target", "sm_90a", "--nonnegative"),
                {"FADD": 1024, "FMNMX": 0, "VIMNMX3": 512},
            ),
            (("max_times", "float32", "--target", "sm_80"), {"FMUL": 1024, "FMNMX": 1024}),
        ],
    ),
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_products_on_a_gpu(words, expected):
    """The script runs in a process of its own, because the DSL reads the environment when it is loaded."""
    if machine_code.find_disassembler() is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    command = [sys.executable, "-m", "tools.machine_code", *words]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {pattern: len(re.findall(pattern, done.stdout)) for pattern in expected} == expected


def test_the_longest_loop_that_holds_no_other():
    text = """
start:
outer:
    mov a, b
first:
    add a, b
    jne first
second:
    add a, b
    mul a, b
    mul a, b
    jne second
    mov a, b
    jne outer
    jmp end
end:
"""
    assert [line.strip() for line in steady_loop(text).splitlines()] == [
        *("second:", "add a, b", "mul a, b", "mul a, b", "jne second")
    ]
    assert steady_loop("add a, b\nret") == "add a, b\nret"
