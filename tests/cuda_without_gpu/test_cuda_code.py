"""Test the machine code of a named subset of the GPU kernels, compiled for sm_90a, sm_80 and sm_100a without a GPU.

The tests check the instructions on which the speed of a kernel depends, the local memory in its steady loop, and its
registers. Needs nvidia-cutlass-dsl and nvdisasm (nvidia-cuda-nvdisasm), both installed by pip.
"""

from __future__ import annotations

import collections
import functools
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiers
from tiers import full

from tools.machine_code import disassemble, find_disassembler, steady_loop

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None,
    reason="nvidia-cutlass-dsl is not installed: pip install '.[cuda]'",
)

ROOT = str(Path(__file__).parents[2])
#: name: the product, and the tile by its name in the table.
KERNELS = {
    "float32 non-negative": "Product('min(x, y)', 'x + y', inf, W('float32'), True, *rows, True), '_LARGE'",
    "float32 any sign": "Product('min(x, y)', 'x + y', inf, W('float32'), True, *rows), '_LARGE'",
    "float32 strided": "Product('min(x, y)', 'x + y', inf, W('float32'), False, 'any', 'any', 'word'), '_LARGE'",
    "int32": "Product('min(x, y)', 'x + y', 2**30 - 1, W('int32'), True, *rows), '_LARGE'",
    "int16": "Product('min(x, y)', 'x + y', 2**14 - 1, W('int16', 2), True, *pieces), '_PACKED'",
    "float16": "Product('min(x, y)', 'x + y', inf, W('float16', 2), True, *pieces), '_LARGE'",
    "bits": "Product('x | y', 'x & y', 0, W('int32', 32), True, *splat), '_PACKED'",
    "float64": "Product('min(x, y)', 'x + y', inf, W('float64'), True, *rows), '_WIDE'",
    "max_times": "Product('max(x, y)', 'x * y', 0, W('float32'), True, *rows), '_LARGE'",
    "lukasiewicz": "Product('max(x, y)', 'x + y - 1', 0, W('float32'), True, *rows), '_LONG'",
    "max_min": "Product('max(x, y)', 'min(x, y)', -(2**31), W('int32'), True, *rows), '_LARGE'",
    "plus_times contracted": "Product('x + y', 'x * y', 0, W('float32'), True, *rows, contract=True), '_LARGE'",
    "plus_times as written": "Product('x + y', 'x * y', 0, W('float32'), True, *rows), '_LARGE'",
    "float32 few tiles": "Product('min(x, y)', 'x + y', inf, W('float32'), True, *rows, True), '_SMALL'",
    "bfloat16": "Product('min(x, y)', 'x + y', inf, W('bfloat16', 2), True, *pieces), '_LARGE'",
    "fold of parts": "Fold('min(x, y)', W('float32'), True), None",
    "search": "Search('x + y', W('float32'), 16, False), None",
    "runs": "Product('min(x, y)', 'x + y', inf, W('float32'), True, *rows, record=True), '_RECORDING'",
}

#: Kernels without tiles.
SMALL = ("fold of parts", "search")
#: Instructions in the loop that spill, where the tile is the fastest all the same (H200, 2026-11-20).
SPILLED = {"float16": 8, "bfloat16": 8, "bits": 90, "runs": 4}

#: The kernels of the full tier: every class of kernel, and of products one each of those that differ most.
FULL = ("float32 non-negative", "bits", "plus_times as written", "runs", "search", "fold of parts")

#: The kernels of each architecture. The speeds were measured on the first architecture.
TARGETS = {
    "sm_90a": list(KERNELS),
    "sm_80": ["float32 any sign", "float16"],
    "sm_100a": ["float32 non-negative", "float32 any sign", "int32"],
}


def by_tier(rows):
    """Return the rows of a table by architecture and kernel. Few kernels of the measured architecture are full."""
    return full(lambda target, name, *_: target == "sm_90a" and name in FULL, rows)


CODES = by_tier([(target, name) for target, names in TARGETS.items() for name in names])

COMPILE = """
import pathlib, sys
from semiring.kernels.cuda.product import tiles
from semiring.kernels.cuda.product.cubins import cubin
from semiring.kernels.cuda.product.specification import Fold, Product, Search
from semiring.kernels.cuda.product.specification import WordFormat as W
inf = float("inf")
rows, pieces, splat = (("word", "vector", "vector"), ("pieces", "vector", "vector"), ("splat", "vector", "vector"))
folder, target = pathlib.Path(sys.argv[1]), sys.argv[2]
for index, text in enumerate(sys.argv[3:]):
    product, tile = eval(text)
    name, code = cubin(product, getattr(tiles, tile) if tile else None, target)
    (folder / f"{index}.cubin").write_bytes(code)
"""


#: Stands in for a driver that supports CUDA 12.8, by which the DSL and the library choose packages.
DRIVER_OF_CUDA_12 = """
import ctypes
load = ctypes.CDLL
class Driver:
    def cuDriverGetVersion(self, number):
        number._obj.value = 12080
        return 0
ctypes.CDLL = lambda name, *rest, **options: Driver() if name == "libcuda.so.1" else load(name, *rest, **options)
"""


@dataclass
class Code:
    """Counts of the instructions of a kernel's steady loop and of its whole machine code, and its registers."""

    loop: collections.Counter
    all_instructions: collections.Counter
    registers: int


def read(sass: str) -> Code:
    registers = max(int(number) for number in re.findall(r"\bR(\d+)\b", sass)) + 1
    return Code(_names(steady_loop(sass)), _names(sass), registers)


def _names(sass: str) -> collections.Counter:
    """Return how often each instruction stands in a listing, without its variant."""
    return collections.Counter(re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\w+)", sass, re.MULTILINE))


@pytest.fixture(scope="module")
def codes(tmp_path_factory) -> Callable[[str], dict[str, Code]]:
    """Return the kernels of an architecture by name, compiled at the first request."""
    tool = find_disassembler()
    if tool is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")

    @functools.cache
    def code_of(target: str) -> dict[str, Code]:
        folder = tmp_path_factory.mktemp("cubin")
        names = FULL if target == "sm_90a" and tiers.selected_tier != "exhaustive" else TARGETS[target]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, *filter(None, sys.path)])}
        command = [sys.executable, "-c", COMPILE, str(folder), target, *(KERNELS[name] for name in names)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        listings = (disassemble((folder / f"{index}.cubin").read_bytes(), tool) for index in range(len(names)))
        return dict(zip(names, map(read, listings), strict=True))

    return code_of


@pytest.mark.full
def test_products_are_compiled_with_the_packages_of_cuda_12(tmp_path):
    program = (
        f"{DRIVER_OF_CUDA_12}{COMPILE}\nfrom cutlass._mlir._mlir_libs import _cutlass_ir\nprint(_cutlass_ir.__file__)"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([ROOT, *filter(None, sys.path)]),
        "SEMIRING_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", program, str(tmp_path), "sm_90a", *(KERNELS[name] for name in FULL)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "_cutlass_ir.cu12." in done.stdout
    assert len(list(tmp_path.glob("*.cubin"))) == len(FULL)


def test_the_advice_names_the_extra_for_the_driver():
    code = "from semiring.advice import install_advice\nfrom semiring.arrays.device import load_cupy\n"
    code += "import sys\nsys.modules['cupy'] = None\nprint(install_advice('cuda'))\n"
    code += "try:\n    load_cupy()\nexcept Exception as error:\n    print(error)"
    environment = os.environ | {"PYTHONPATH": ROOT}
    command = [sys.executable, "-c", DRIVER_OF_CUDA_12 + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    advice, error = done.stdout.splitlines()
    assert advice == "pip install '.[cuda12]' in a clone of the repository"
    assert advice in error
    assert "the driver supports CUDA 12.8" in error


@pytest.fixture
def code(codes) -> dict[str, Code]:
    """Return the code of each kernel by name, for the architecture on which the speeds were measured."""
    return codes("sm_90a")


@pytest.mark.full
@pytest.mark.parametrize(("target", "name"), CODES)
def test_nothing_is_spilled(codes, target, name):
    """Registers fit what the tile's blocks leave, and the steady loop uses no local memory."""
    from semiring.kernels.cuda.product import tiles

    if name in SMALL:
        assert codes(target)[name].registers <= 64
        assert not codes(target)[name].all_instructions["LDL"]
        return
    tile = getattr(tiles, re.search(r"'(_\w+)'$", KERNELS[name])[1])
    assert codes(target)[name].registers <= min(255, 65_536 // (tile.min_blocks * tile.threads) // 8 * 8)
    spilled = codes(target)[name].loop["LDL"] + codes(target)[name].loop["STL"]
    assert spilled <= SPILLED.get(name, 0)
    assert sum(codes(target)[name].loop.values()) > 400  # it is the steady loop


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "name", "expected"),
    by_tier(
        [  # per thread and tile: thread_m · thread_n · tile_k = 1024 pairs of words, 2048 of the packed tile
            ("sm_90a", "float32 non-negative", {"FADD": 1024, "VIMNMX3": 512}),
            ("sm_90a", "float32 any sign", {"FADD": 1024, "FMNMX": 1024}),
            ("sm_90a", "float32 few tiles", {"FADD": 512, "VIMNMX3": 256}),
            ("sm_90a", "float32 strided", {"FADD": 1024, "FMNMX": 1024}),
            ("sm_90a", "int32", {"VIADDMNMX": 336, "VIMNMX3": 344}),  # a third, and two thirds with IMAD as additions
            ("sm_90a", "int16", {"VIADDMNMX": 2048}),
            ("sm_90a", "float16", {"VHMNMX": 512}),
            ("sm_90a", "bfloat16", {"HADD2": 512, "HFMA2": 512, "VHMNMX": 512}),  # x + y as fma(x, 1, y): two pipes
            ("sm_90a", "float64", {"DADD": 256, "DSETP": 256, "FSEL": 512}),  # nothing more drops a NaN
            ("sm_90a", "max_times", {"FMUL": 1024, "FMNMX": 1024}),
            ("sm_90a", "lukasiewicz", {"FADD": 1024, "FMNMX": 512}),  # half the k of a tile
            ("sm_90a", "max_min", {"VIMNMX": 1024, "VIMNMX3": 512}),  # floats too, as integers in their order
            ("sm_90a", "plus_times contracted", {"FFMA": 1024}),
            ("sm_90a", "plus_times as written", {"FMUL": 1024, "FADD": 1024}),
            ("sm_80", "float32 any sign", {"FADD": 1024, "FMNMX": 1024}),
            ("sm_80", "float16", {"HADD2": 512, "HFMA2": 512, "HMNMX2": 1024}),
            ("sm_100a", "float32 non-negative", {"FADD": 1024, "VIMNMX3": 512}),
            ("sm_100a", "float32 any sign", {"FADD": 1024, "FMNMX3": 512}),
            ("sm_100a", "int32", {"VIADDMNMX": 336, "VIMNMX3": 344}),
        ]
    ),
)
def test_the_instructions_that_the_speed_rests_on(codes, target, name, expected):
    assert {instruction: codes(target)[name].loop[instruction] for instruction in expected} == expected


@pytest.mark.full
def test_truth_values_take_one_instruction_for_32_pairs(code):
    assert 2048 <= code["bits"].loop["LOP3"] <= 2048 + 100


@pytest.mark.full
def test_recorded_runs_cost_a_compare_and_a_select_a_tile(code):
    loop = code["runs"].loop
    assert loop["FADD"] == loop["FMNMX"] == 512
    assert loop["FSETP"] == 32
    assert 32 <= loop["SEL"] + loop["FSEL"] <= 40


@pytest.mark.full
def test_only_a_contraction_that_is_asked_for(code):
    assert not [
        name for name, kernel in code.items() if kernel.all_instructions["FFMA"] and name != "plus_times contracted"
    ]


@pytest.mark.full
def test_the_copies_are_asynchronous_and_wide(code):
    kernel = code["float32 non-negative"]
    assert kernel.all_instructions["LDGSTS"] == 4 * (
        8 + 4
    )  # a stage: A by words, on the way to its transpose, B by 16 bytes
    assert kernel.loop["LDS"] == 16 * (8 + 8) // 4


MATRIX = """
import sys
from semiring import CATALOGUE
from semiring.kernels.cuda.product.calls import call_for, format_of
from semiring.kernels.cuda.product.cubins import build
from semiring.kernels.cuda.product.calls import Placement
from semiring.kernels.cuda.product.specification import WordFormat, numpy_dtype
from semiring.kernels.engine import make_plan

count = 0
for name, semiring in CATALOGUE.items():
    for dtype in map(numpy_dtype, (*semiring.dtypes, "float16", "bfloat16")):
        if not semiring.supports(dtype):
            continue
        for record in (False, True) if semiring.selective else (False,):
            for n in (4096, 256, 33):
                plan = make_plan(semiring, dtype, storage="bits" if dtype == bool and not record else "elements")
                words = WordFormat(dtype.name) if record else format_of(plan)
                call = call_for(plan, words, accumulate=True, record=record)
                C = Placement(0, (n, n), (n, 1), words.word_bytes)
                A = Placement(0, (n, n), (n, 1), dtype.itemsize if words.lanes == 2 else words.word_bytes)
                build(call.product(A, C, C), call.tile(C), sys.argv[1])
                count += 1
print(count)
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_matrix_compiles(target):
    """Every semiring and dtype compiles with and without recorded runs, in each tile, aligned or not. It takes some
    minutes a target."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", MATRIX, target], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout) > 150
