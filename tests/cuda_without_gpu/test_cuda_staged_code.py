"""Test the staged kernels compiled for sm_90a without a GPU: registers, spills, and instructions that set the speed."""

from __future__ import annotations

import collections
import re
from pathlib import Path

import numpy as np
import pytest
from machine_code import compile_by_cuda_12, compile_for, needs_nvrtc, nvrtc_12, resources
from tiers import full
from variants import ALL_STEPS, VARIANTS, kernel_with

from semiring import CATALOGUE
from semiring.kernels.cuda.closing import staged_stacks
from semiring.kernels.cuda.closing.blocks import block_kernel
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, source
from semiring.kernels.cuda.closing.look_ahead import FILE, look_ahead_shape
from semiring.kernels.cuda.closing.paper_kernels import KERNELS
from semiring.kernels.cuda.entries import entry_passes, entry_scan
from semiring.kernels.engine import make_plan
from tools.machine_code import disassemble, find_disassembler

pytestmark = needs_nvrtc
OTHERS = ("sm_80", "sm_100a")  # beside sm_90a, which the others of these tests are about


def arithmetic(name, dtype, **facts):
    return arithmetic_of(make_plan(CATALOGUE[name], dtype, nonnegative=name == "min_plus", **facts))


def compile_kernels(file, arithmetic, defines=(), target="sm_90a"):
    """Return the machine code, and (registers, bytes of spills) of each kernel."""
    cubin, log = compile_for(target, source(file, arithmetic, defines), arithmetic.options)
    return cubin, resources(log)


def instructions(cubin):
    tool = find_disassembler()
    if tool is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    text = disassemble(cubin, tool)
    return collections.Counter(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)", text, re.MULTILINE))


#: The kernels of papers by what is compiled: the file and its macros.
PAPERS = [
    *dict.fromkeys((kernel.file, kernel.defines) for kernel in map(kernel_with, VARIANTS)),
    *(("unit_diagonal.cu", ()), ("plain_product.cu", ())),
]


@pytest.mark.full
@pytest.mark.parametrize(("file", "defines"), PAPERS)
def test_the_kernels_of_the_papers(file, defines):
    _, kernels = compile_kernels(file, arithmetic("min_plus", "float32"), defines)
    assert all(spills == 0 for _, spills in kernels.values())
    most = {"lund_smith.cu": 128, "lund_smith_unrolled.cu": 128}.get(file, 64)
    assert all(registers <= most for registers, _ in kernels.values())


def instructions_of(cubin, kernel):
    """Return the instructions of one kernel, with their widths."""
    tool = find_disassembler()
    if tool is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    text = disassemble(cubin, tool)
    start = text.index(f".text.{kernel}:")
    body = text[start : text.find(".section", start)]
    return collections.Counter(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)", body, re.MULTILINE))


def test_the_first_phases_are_the_same_in_both_orders_of_the_data():
    """In phases 1 and 2 staged load runs the arithmetic and the shared-memory instructions of the unrolled kernel, at
    most 15 % more instructions in all, and no branch in which the threads of a warp part."""
    ours = arithmetic("min_plus", "float32")
    tiled, rows = (
        compile_kernels(KERNELS[name].file, ours, KERNELS[name].defines)[0]
        for name in ("lund_smith", "lund_smith_unrolled")
    )
    for phase in ("independent", "singly_dependent"):
        found, expected = instructions_of(tiled, phase), instructions_of(rows, phase)
        assert expected["FADD"] == 4 * 32  # one for each entry of a thread and each pivot
        for instruction in ("FADD", "VIMNMX", "LDS", "STS", "BAR.SYNC.DEFER_BLOCKING"):
            assert found[instruction] == expected[instruction] > 0, (phase, instruction)
        assert found.total() <= 1.15 * expected.total()
        assert not [each for each in found if each.startswith(("BSSY", "WARPSYNC"))]  # threads part and meet there


@pytest.mark.full
def test_what_the_variants_of_staged_load_remove():
    """Variants change the last phase's minima and its narrow and wide reads of shared memory for each pair, and
    registers."""
    ours = arithmetic("min_plus", "float32")

    def counts_a_pair(name, **options):
        chosen = kernel_with((name, options))
        cubin, kernels = compile_kernels(chosen.file, ours, chosen.defines)
        code = instructions_of(cubin, "doubly_dependent")
        minima = code["VIMNMX"] + code["VIMNMX3"]
        parts = (minima, code["LDS"], code["LDS.128"])
        return (*(round(part / code["FADD"], 1) for part in parts), kernels["doubly_dependent"][0])

    assert counts_a_pair("lund_smith_unrolled")[:3] == (0.5, 0.3, 0.2)
    assert counts_a_pair("lund_smith")[:3] == (1, 0.6, 0)
    assert counts_a_pair("lund_smith", cyclic=False)[:3] == (1, 0.1, 0.1)  # the compiler joins four reads of a row
    assert counts_a_pair("lund_smith", reread=True)[:3] == (1, 1.1, 0)
    assert counts_a_pair("lund_smith", reread=True)[3] == 128  # a quarter of the threads of a multiprocessor
    assert counts_a_pair("lund_smith", paired=True)[:3] == (0.5, 0.6, 0)
    assert counts_a_pair("lund_smith", wide=True)[:3] == (1, 0, 0.1)
    assert counts_a_pair("lund_smith", wide=True, paired=True)[:3] == (0.5, 0, 0.1)
    assert counts_a_pair("lund_smith", **ALL_STEPS)[:3] == (0.5, 0, 0.1)
    for options in ({}, {"wide": True, "paired": True}, ALL_STEPS):
        assert counts_a_pair("lund_smith", **options)[3] <= 64


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", OTHERS)
def test_other_architectures(target):
    ours = arithmetic("min_plus", "float32")
    for file, defines in (*PAPERS, (FILE, look_ahead_shape(1024, ours).defines)):
        for registers, spills in compile_kernels(file, ours, defines, target)[1].values():
            assert registers <= 255
            assert spills == 0
    _, kernels = compile_kernels(staged_stacks.FILE, ours, staged_stacks.defines(ours), target)
    assert all(spills <= 16 for _, spills in kernels.values())
    for n in (64, 128):
        chosen = block_kernel(n, ours)
        _, kernels = compile_kernels(chosen.file, ours, chosen.defines, target)
        assert kernels["close_block"][1] <= (16 if n == 64 else 160)


@pytest.mark.full
@pytest.mark.parametrize(
    "operation",
    full(
        lambda which: which.name == "copy",
        [x for x in vars(entry_passes).values() if isinstance(x, entry_passes.Pass)],
    ),
    ids=lambda x: x.name,
)
def test_passes(operation):
    """Four loads of 16 bytes are under way before the first is waited for."""
    for target, size in (*((target, 4) for target in OTHERS), *(("sm_90a", size) for size in (1, 2, 8, 4))):
        cubin, log = compile_for(
            target, entry_passes.source(operation, np.dtype(f"{operation.kind}{size}")), ("-std=c++17",)
        )
        assert "0 bytes spill stores" in log
    tool = find_disassembler()
    if tool is not None:
        memory = re.findall(r"(?:LDG|STG)\.E\.128", disassemble(cubin, tool))
        assert memory[:4] == ["LDG.E.128"] * 4


@pytest.mark.full
@pytest.mark.parametrize("defines", [(), ("OPPOSITE",)])
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(
        lambda name, dtype: name == "plus_times",
        [("min_plus", "float32"), ("min_plus", "float64"), ("boolean", "bool"), ("plus_times", "float64")],
    ),
)
def test_the_fronts_and_sweeps_of_a_factor(name, dtype, defines):
    _, kernels = compile_kernels("elimination.cu", arithmetic(name, dtype), defines)
    assert set(kernels) == {"reduce", "ascend", "gather", "spread", "descend"}
    assert all(spills == 0 and registers <= 80 for registers, spills in kernels.values())


@pytest.mark.full
def test_the_look_at_the_entries():
    """The kernels of the scan work on the bits of elements, and do not depend on the semiring."""
    text = Path(entry_scan.__file__).with_name("scan.cu").read_text("utf-8")
    _, log = compile_for("sm_90a", text, ("-std=c++17",))
    assert [spills for _, spills in resources(log).values()] == [0] * 8
    assert set(re.findall(r"(\d+) bytes spill", log)) == {"0"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "n", "expected", "spills"),
    full(
        lambda name, dtype, n, *_: dtype in ("int32", "float16") or (name, dtype, n) == ("min_plus", "float32", 1408),
        [  # a thread: 4 · UNROLL k for each accumulator of the remainder, and the pairs of panels and pivot blocks
            ("min_plus", "float32", 4096, {"FADD": 256, "VIMNMX3": 128}, 64),
            ("min_plus", "float32", 2048, {"FADD": 1024, "VIMNMX3": 512}, 128),  # none of them where pairs are computed
            ("min_plus", "float32", 1408, {"FADD": 512, "VIMNMX3": 256}, 0),
            ("min_plus", "float32", 1024, {"FADD": 256, "VIMNMX3": 128}, 0),
            ("min_plus", "int32", 2048, {"VIADDMNMX": 341, "IMAD": 682, "VIMNMX3": 341}, 128),
            ("max_times", "float32", 2048, {"FMUL": 1024, "FMNMX": 1024}, 128),
            ("min_plus", "float64", 4096, {"DADD": 128}, 64),
            ("min_plus", "float16", 4096, {"HADD2": 128}, 0),
        ],
    ),
)
def test_look_ahead(name, dtype, n, expected, spills):
    ours = arithmetic(name, dtype)
    shape = look_ahead_shape(n, ours)
    cubin, kernels = compile_kernels(FILE, ours, shape.defines)
    ((registers, spilled),) = kernels.values()
    assert registers <= 128  # 512 threads on a multiprocessor
    assert spilled <= spills
    assert shape.shared_bytes(make_plan(CATALOGUE[name], dtype).dtype.itemsize) <= (227 << 10) // shape.blocks
    code = instructions(cubin)
    assert all(code[instruction] >= count for instruction, count in expected.items())
    assert code["DSETP"] <= code["DADD"] + 64  # one comparison drops a NaN too, and the diagonal meets 1
    assert code["LDGSTS"] >= 4  # the copies are asynchronous
    assert not code["FFMA"]  # nothing is contracted


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "n"),
    full(
        lambda name, dtype, n: (name, n) in (("min_plus", 64), ("min_plus", 100)),
        [
            *(("min_plus", "float32", n) for n in (32, 64, 100, 128)),
            ("max_times", "float32", 104),
            ("max_plus", "int32", 128),
            ("min_plus", "int64", 128),
            ("log_plus", "float64", 64),
            ("max_min", "float16", 104),
            ("plus_times", "float32", 64),
            ("boolean", "bool", 200),
        ],
    ),
)
def test_close_block(name, dtype, n):
    ours = arithmetic(name, dtype)
    chosen = block_kernel(n, ours)
    cubin, kernels = compile_kernels(chosen.file, ours, chosen.defines)
    ((registers, spilled),) = kernels.values()
    in_pairs = chosen.file == "close_pairs.cu"
    warps = -(-chosen.threads[0] * chosen.threads[1] // 32)
    together = int(chosen.defines[-1].removeprefix("BLOCKS ")) if in_pairs else 1
    a_quarter = -(-together * warps // 4)  # of a multiprocessor, which has 16,384 registers
    assert -(-registers // 8) * 8 * 32 * a_quarter <= 16_384
    assert spilled <= (260 if in_pairs and n > 64 else 0)
    if in_pairs and name == "min_plus":
        code = instructions(cubin)
        assert code["VIMNMX3"] >= 2 * 16 * (1 if n <= 64 else 2)  # two candidates meet an entry at once
    if name == "plus_times":
        assert instructions(cubin)["FFMA"] > 16  # as its definition requires


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dtype", "expected", "spills"),
    full(
        lambda name, dtype, *_: dtype in ("int32", "bool"),
        [  # a thread: 4 k for each of 16 entries, in panels or in remainders
            ("min_plus", "float32", {"FADD": 128, "VIMNMX3": 64}, 16),
            ("min_plus", "int32", {"VIADDMNMX": 32, "VIMNMX3": 32}, 16),
            ("max_times", "float64", {"DMUL": 128}, 0),
            ("max_min", "int16", {}, 64),
            ("boolean", "bool", {}, 0),
            ("lukasiewicz", "float32", {}, 0),
        ],
    ),
)
def test_stacks(name, dtype, expected, spills):
    ours = arithmetic(name, dtype)
    cubin, kernels = compile_kernels(staged_stacks.FILE, ours, staged_stacks.defines(ours))
    blocks = 2 if dtype == "float64" else 4
    assert all(registers <= 65_536 // 256 // blocks for registers, _ in kernels.values())
    assert all(spilled <= spills for _, spilled in kernels.values())
    assert staged_stacks.shared_bytes(make_plan(CATALOGUE[name], dtype).dtype.itemsize) <= (227 << 10) // blocks
    code = instructions(cubin)
    assert all(code[instruction] >= count for instruction, count in expected.items())
    assert code["LDGSTS"] >= 4  # the copies are asynchronous
    assert not code["FFMA"]  # nothing is contracted


def test_packed_bits():
    ours = arithmetic_of(make_plan(CATALOGUE["boolean"], "bool", storage="bits"))
    chosen = block_kernel(200, ours)
    _, kernels = compile_kernels(chosen.file, ours, chosen.defines)
    assert kernels["close_block"][1] == 0


@pytest.mark.full
def test_nvrtc_of_cuda_12_compiles_each_source():
    """`compile_for` compiles every source of these tests by both versions."""
    if nvrtc_12() is None:
        pytest.skip("NVRTC of CUDA 12 is not installed: pip install nvidia-cuda-nvrtc-cu12")
    ours = arithmetic("min_plus", "float32")
    text = source(FILE, ours, look_ahead_shape(1024, ours).defines)
    assert all(compile_by_cuda_12(target, text, ours.options) > 1000 for target in ("sm_90a", *OTHERS))
    with pytest.raises(ValueError, match="CUDA 12: kernel"):
        compile_by_cuda_12("sm_90a", "nonsense", ())


def test_an_error_of_the_compiler_is_shown():
    with pytest.raises(ValueError, match="error: this declaration"):
        compile_for("sm_90a", "nonsense", ())
