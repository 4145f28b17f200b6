"""Test the machine code of the micro-kernel for CPUs that need not be here: expected instructions, nothing spilled."""

from __future__ import annotations

import re

import pytest
from tiers import each_value

import semiring as sr
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.engine import make_plan
from tools.machine_code import CPUS, steady_loop, tile_code

ZEN4, SKYLAKE, HASWELL = CPUS["znver4"], CPUS["skylake-avx512"], CPUS["haswell"]
ARM, APPLE, BASELINE = CPUS["neoverse-n1"], CPUS["apple-m1"], CPUS["x86-64"]


def inner_loop(target, semiring, dtype, *, has_marks=False):
    """Return the instructions of the innermost loop of a tile, and how it is cut."""
    text, shape = tile_code(make_plan(semiring, dtype, nonnegative=True), target, has_marks=has_marks)
    lines = (line.strip() for line in steady_loop(text).splitlines()[1:])
    return [line for line in lines if line and not line.startswith(("#", "."))], shape


def count(body, pattern):
    return sum(bool(re.search(pattern, line)) for line in body)


@pytest.mark.parametrize("target", [ZEN4, SKYLAKE])
@pytest.mark.parametrize(
    ("semiring", "dtype", "instructions"),
    [
        (sr.min_plus, "float32", {r"vfmadd\w+ps .*zmm": 24, r"vminps .*zmm": 24, r"vpbroadcastd": 6}),
        (sr.min_plus, "float64", {r"vfmadd\w+pd .*zmm": 24, r"vminpd .*zmm": 24, r"vpbroadcastq": 6}),
        (sr.min_plus, "int32", {r"vpaddd .*zmm": 24, r"vpminsd .*zmm": 24, r"vpbroadcastd": 6}),
        (sr.min_plus, "int16", {r"vpaddw .*zmm": 24, r"vpminsw .*zmm": 24, r"vpbroadcastd": 6}),
        (sr.max_times, "float32", {r"vmulps .*zmm": 24, r"vmaxps .*zmm": 24}),
        (sr.max_min, "uint8", {r"vpminub .*zmm": 24, r"vpmaxub .*zmm": 24}),
        (sr.plus_times, "float32", {r"vfmadd\w+ps .*zmm": 24}),
        (sr.boolean, "bool", {r"vpternlog[dq] .*zmm": 24}),
        (sr.lukasiewicz, "float32", {r"vfmadd\w+ps .*zmm": 48, r"vmaxps .*zmm": 48}),
    ],
)
def test_avx512(target, semiring, dtype, instructions):
    body, config = inner_loop(target, semiring, dtype)
    assert (config.rows, config.vectors) == (6, 4)
    for pattern, expected in instructions.items():
        assert count(body, pattern.replace(" ", r"\s+")) == expected, pattern
    constants = 2 if semiring == sr.lukasiewicz else 0  # 1 twice, and 0: they and the tile are more than 32 registers
    assert count(body, r"\(%r[sb]p") <= constants, "an accumulator is spilled"
    arithmetic = sum(instructions.values()) - instructions.get("vpbroadcastd", 0)
    assert len(body) <= arithmetic * 1.5 + 20


def test_the_tile_that_marks_runs_has_the_same_inner_loop():
    plain, marking = (inner_loop(ZEN4, sr.min_plus, "float32", has_marks=has_marks)[0] for has_marks in (False, True))
    for pattern in (r"vfmadd\w+ps\s.*zmm", r"vminps\s.*zmm", r"vpbroadcastd"):
        assert count(plain, pattern) == count(marking, pattern) > 0
    assert count(marking, r"\(%r[sb]p") == 0


def test_avx2():
    body, config = inner_loop(HASWELL, sr.min_plus, "float32")
    pairs = config.rows * config.vectors
    assert count(body, r"vfmadd\w+ps\s.*ymm") == count(body, r"vminps\s.*ymm") == pairs
    assert count(body, r"vbroadcastss\s.*\(") == config.rows
    assert count(body, r"zmm|\(%r[sb]p") == 0
    body, _ = inner_loop(HASWELL, sr.min_plus, "int32")
    assert count(body, r"vpaddd\s.*ymm") == count(body, r"vpminsd\s.*ymm") == pairs


@pytest.mark.parametrize("target", [ARM, APPLE])
def test_arm64(target):
    body, config = inner_loop(target, sr.min_plus, "float32")
    assert (config.rows, config.vectors) == (6, 4)
    assert count(body, r"fadd(\.4s)?\s+v") == count(body, r"fminnm(\.4s)?\s+v") == 24
    assert count(body, r"ld1r") == 6
    assert count(body, r"\[sp") == 0
    body, _ = inner_loop(target, sr.min_plus, "int32")
    assert count(body, r"^add(\.4s)?\s+v") == count(body, r"smin(\.4s)?\s+v") == 24
    body, _ = inner_loop(target, sr.plus_times, "float32")
    assert count(body, r"fmla(\.4s)?\s+v") == 24


def test_a_cpu_without_vector_extensions():
    body, _ = inner_loop(BASELINE, sr.min_plus, "float32")
    assert count(body, r"\bminps\s.*xmm") == count(body, r"\baddps\s.*xmm") > 0
    assert count(body, r"ymm|zmm|vfmadd") == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "semiring", "dtype"),
    each_value(
        (target, *case)
        for target in (SKYLAKE, HASWELL, ARM, BASELINE)
        for case in ((sr.log_plus, "float32"), (sr.xor_and, "int64"), (sr.max_min, "bool"), (sr.min_plus, "int16"))
    ),
)
def test_every_semiring_compiles_for_every_cpu(target, semiring, dtype):
    for has_marks in (False, semiring.selective):
        text, _ = tile_code(make_plan(semiring, dtype), target, has_marks=has_marks)
        assert "inspected:" in text
        called = target != BASELINE and re.search(r"^\s*(call|callq|bl)\s", text, re.MULTILINE)
        assert not called, "a vector operation became a call"


def test_the_host_is_recognised():
    target = host()
    assert target.vector_bytes in (16, 32, 64)
    assert target.registers in (16, 32)
