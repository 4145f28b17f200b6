"""Test the code of a semiring in each language, for the catalogue and a user's own semirings, and the errors."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import full

import semiring as sr
from semiring import cli
from semiring.cli.parser import LANGUAGES as OFFERED
from semiring.errors import AlgebraError, DTypeError, MissingExtraError, UnknownNameError
from semiring.kernels.cpu.codegen.target import CPUS, host
from semiring.kernels.cuda import listing
from semiring.kernels.listing import LANGUAGES
from semiring.kernels.loops import steady_loop

ROOT = str(Path(__file__).parents[2])
OWN = sr.Semiring("own", add="max(x, y)", mul="x * y", zero=0, one=1, domain="[0, 1]")
OWN_WORDS = ("--add", "max(x, y)", "--mul", "x * y", "--zero", "0", "--one", "1", "--domain", "[0, 1]")
NO_STAR = sr.Semiring("no_star", add="x + y", mul="x * y", zero=0, one=1, domain="[0, inf)")


@pytest.fixture
def run(capsys):
    def command(*words):
        code = cli.main(["code", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


def count(text, pattern):
    return len(re.findall(pattern, text))


# ------------------------------------------------------------------------------------------------------ expressions


def test_the_operations_as_kernels_compute_them():
    assert sr.code(OWN, "float32").splitlines() == [
        *("x ⊕ y = max(x, y)", "x ⊗ y = x * y", "0̄ = 0.0", "1̄ = 1.0", "x* = 1"),
    ]
    assert "0̄ = 1073741823, which callers write as 2147483647" in sr.code("min_plus", "int32")
    assert "x ⊕ y ⊗ z rounds once" in sr.code("plus_times")
    assert "x*" not in sr.code(NO_STAR)


# ------------------------------------------------------------------------------------------------------------- CPUs


@pytest.mark.parametrize(
    ("semiring", "dtype", "cpu", "expected"),
    [
        ("min_plus", "float32", "znver4", {r"vfmadd\w+ps\s.*zmm": 24, r"vminps\s.*zmm": 24}),
        ("min_plus", "float32", "haswell", {r"vfmadd\w+ps\s.*ymm": 8, r"vminps\s.*ymm": 8}),
        ("max_times", "float32", "neoverse-n1", {r"fmul\s": 24, r"fmaxnm\s": 24}),
        (OWN, "float64", "znver4", {r"vmulpd\s.*zmm": 24, r"vmaxpd\s.*zmm": 24}),
    ],
)
def test_machine_code_for_any_cpu(semiring, dtype, cpu, expected):
    text = sr.code(semiring, dtype, "asm", target=cpu)
    heading, *_ = text.splitlines()
    assert f"on {dtype} for {cpu}: a tile of " in heading
    assert heading.endswith("the loop over k")
    assert {pattern: count(text, pattern) for pattern in expected} == expected


def test_intermediate_code():
    loop = sr.code(OWN, "float32", "llvm", target="znver4")
    assert count(loop, r"fmul <16 x float>") == 24
    assert count(loop, r"fcmp \w+ <16 x float>|maxnum") >= 24
    whole = sr.code(OWN, "float32", "llvm", target="znver4", whole=True)
    assert loop.split("\n", 1)[1] in whole
    assert 'target triple = "x86_64-unknown-linux-gnu"' in whole


def test_this_machine_is_the_default():
    whole = sr.code("min_plus", "float32", "asm", whole=True)
    assert f"for {host().cpu or host().triple}:" in whole
    assert "inspected:" in whole
    assert sr.code("min_plus", "float32", "asm").split("\n", 1)[1] in whole


@pytest.mark.full
def test_every_cpu_of_the_table_is_known_to_llvm(capfd):
    for cpu in CPUS:
        assert len(sr.code("min_plus", "float32", "asm", target=cpu).splitlines()) > 10
    assert "not a recognized" not in capfd.readouterr().err, "LLVM says so of a CPU or feature that it does not know"


# ------------------------------------------------------------------------------------------------------------- GPUs


def test_functions_in_cuda():
    text = sr.code(OWN, "float32", "cuda")
    assert "typedef float element;" in text
    assert re.search(r"INLINE float plus\(float x, float y\) \{\n +const float t0 = max_\(x, y\);", text)
    assert re.search(r"INLINE float times\(float x, float y\) \{\n +const float t0 = mul\(x, y\);", text)
    assert "INLINE element star(element) { return ONE; }" in text
    assert "min_ordered(x, y)" in sr.code("min_plus", "float32", "cuda", nonnegative=True)
    assert "star" not in sr.code(NO_STAR, "float32", "cuda")


@pytest.mark.full
def test_the_whole_source_of_a_closure_compiles():
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed: pip install cuda-bindings")
    from machine_code import compile_for

    for semiring in (OWN, "plus_times", "log_plus"):
        text = sr.code(semiring, "float32", "cuda", whole=True)
        assert sr.code(semiring, "float32", "cuda") in text
        assert len(compile_for("sm_80", text, ("--std=c++17",))[0]) > 1000


@pytest.mark.full
@pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None,
    reason="nvidia-cutlass-dsl is not installed: pip install '.[code]'",
)
@pytest.mark.parametrize(
    ("words", "expected"),
    full(
        lambda words, expected: "own" in words,
        [
            (("min_plus", "float32", "--as", "ptx"), {r"add\.f32": 1024, r"min\.f32": 1024}),
            (("own", "float32", "--as", "ptx", *OWN_WORDS), {r"mul(?:\.rn)?\.f32": 1024, r"max\.f32": 1024}),
            (("min_plus", "float32", "--as", "sass"), {"FADD": 1024, "FMNMX": 1024, "VIMNMX3": 0}),
            (("min_plus", "float32", "--as", "sass", "--nonnegative"), {"FADD": 1024, "FMNMX": 0, "VIMNMX3": 512}),
            (("own", "float32", "--as", "sass", "--target", "sm_80", *OWN_WORDS), {"FMUL": 1024, "FMNMX": 1024}),
        ],
    ),
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_products_on_a_gpu(words, expected):
    """The command runs in a process of its own, because the DSL reads the environment when it is loaded."""
    if "sass" in words and listing.find_disassembler() is None:
        pytest.skip("nvdisasm is not installed: pip install '.[code]'")
    if "--target" not in words:
        words = (*words, "--target", "sm_90a")
    command = [sys.executable, "-m", "semiring", "code", *words]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heading, loop = done.stdout.split("\n", 1)
    assert re.match(rf"// a product in {words[0]} on float32 for sm_\w+: a tile of 64 × 128 words, ", heading)
    assert {pattern: count(loop, pattern) for pattern in expected} == expected


# ----------------------------------------------------------------------------------------------------------- errors


def test_what_is_not_known_is_named_with_what_is():
    with pytest.raises(UnknownNameError, match=r"no language of code is named 'c'.* asm, cuda, expression"):
        sr.code("min_plus", "float32", "c")
    with pytest.raises(UnknownNameError, match=r"no CPU is named 'zen4'.* znver4"):
        sr.code("min_plus", "float32", "asm", target="zen4")
    with pytest.raises(UnknownNameError, match=r"no architecture is named 'sm_12'.* sm_80"):
        sr.code("min_plus", "float32", "sass", target="sm_12")
    for language in ("expression", "cuda"):
        with pytest.raises(ValueError, match=f"what is shown as {language} depends on no target"):
            sr.code("min_plus", "float32", language, target="sm_80")
    with pytest.raises(DTypeError, match="of int8 are not compiled for a CPU: show them as ptx or sass"):
        sr.code("min_plus", "int8", "asm")
    with pytest.raises(AlgebraError, match="no_star has no star"):
        sr.code(NO_STAR, "float32", "cuda", whole=True)
    with pytest.raises(DTypeError):
        sr.code("boolean", "float32")


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    pytest.importorskip("ml_dtypes")
    with pytest.raises(DTypeError, match="closures of it are those of float32"):
        sr.code("min_plus", "bfloat16", "cuda")
    monkeypatch.setattr(listing, "find_spec", lambda name: None)
    for language in ("ptx", "sass"):
        with pytest.raises(MissingExtraError, match=rf"as {language} needs nvidia-cutlass-dsl.*'\.\[code\]'"):
            sr.code("min_plus", "float32", language, target="sm_90a")
    monkeypatch.setattr(listing, "find_spec", lambda name: name)
    monkeypatch.setattr(listing, "find_disassembler", lambda: None)
    with pytest.raises(MissingExtraError, match=r"needs nvidia-cuda-nvdisasm.*'\.\[code\]'"):
        sr.code("min_plus", "float32", "sass", target="sm_90a")


def test_the_command(run):
    assert tuple(LANGUAGES) == OFFERED
    assert run("min_plus", "float32")[:2] == (0, sr.code("min_plus", "float32") + "\n")
    assert run()[:2] == (0, sr.code("min_plus", "float64") + "\n")
    assert run("own", "float32", *OWN_WORDS, "--as", "asm", "--target", "znver4", "--whole") == (
        *(0, sr.code(OWN, "float32", "asm", target="znver4", whole=True) + "\n", ""),
    )
    assert run("min_plus", "--target", "znver4") == (
        *(2, "", "semiring: error: target is 'znver4', and what is shown as expression depends on no target\n"),
    )
    code, _, error = run("min_plus", "float32", "--as", "asn")
    assert code == 2
    assert error.startswith("semiring: error: no language of code is named 'asn'. Valid names: asm, ")


# ------------------------------------------------------------------------------------------------------------ loops


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
    mov a, b
    jne outer
    jmp end
end:
"""
    assert [line.strip() for line in steady_loop(text).splitlines()] == [
        *("second:", "add a, b", "mul a, b", "mul a, b", "jne second"),
    ]
    assert steady_loop("add a, b\nret") == "add a, b\nret"
