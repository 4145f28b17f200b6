"""Print the machine code of a product: ``python -m tools.machine_code SEMIRING [DTYPE] [--target NAME]``.

The target is a CPU by LLVM's name, such as ``znver4``, or an architecture of GPUs, such as ``sm_90a``. Neither need be
present. A GPU needs the CUTLASS DSL and nvdisasm, of the extra ``dev``. Tests read the same code.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from semiring.algebra.catalogue import as_semiring
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.native import Build
from semiring.kernels.cpu.codegen.target import Target, host
from semiring.kernels.cpu.kernels import tile_shape
from semiring.kernels.cpu.product.micro_kernel import build_tile
from semiring.kernels.definition import define
from semiring.kernels.engine import make_plan
from semiring.kernels.machines import cpu_speed, table_for
from semiring.kernels.machines.speed_data import TileShape

__all__ = ["CPUS", "assembly", "disassemble", "find_disassembler", "steady_loop", "tile_code"]

_X86, _ARM, _APPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx"
_AVX2 = "+avx2,+fma"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512vl,+avx512dq"
_KINDS = (
    (_X86, "", ("x86-64",)),
    (_X86, _AVX2, ("x86-64-v3", "haswell", "skylake", "alderlake", "znver2", "znver3")),
    (_X86, _AVX512, ("x86-64-v4", "skylake-avx512", "icelake-server", "sapphirerapids", "graniterapids")),
    (_X86, _AVX512, ("znver4", "znver5")),
    (_ARM, "+neon", ("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2")),
    (_APPLE, "+neon", ("apple-m1", "apple-m2", "apple-m3", "apple-m4")),
)

#: The CPUs whose code can be read on any machine, by LLVM's names, with the features that decide the code.
CPUS = {cpu: Target(triple, cpu, features) for triple, features, cpus in _KINDS for cpu in cpus}


# ------------------------------------------------------------------------------------------------------------- CPUs


def assembly(build: Build, target: Target) -> str:
    """Return the optimised assembly of the function that ``build`` makes, for any CPU that LLVM supports."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
    module = ir.Module("inspection")
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    build(module, "inspected")
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(parsed, builder)
    return str(machine.emit_assembly(parsed))


def tile_code(plan: KernelPlan, target: Target, *, has_marks: bool = False) -> tuple[str, TileShape]:
    """Return the assembly of the tile of a product, and its shape. On this machine it is the tile that products use."""
    definition = define(plan)
    shape = tile_shape(definition, target, cpu_speed() if target == host() else table_for(target).speed)
    build = partial(build_tile, definition=definition, target=target, shape=shape, has_marks=has_marks)
    return assembly(build, target), shape


# ------------------------------------------------------------------------------------------------------------- GPUs


def product_code(plan: KernelPlan, architecture: str) -> str:
    """Return the SASS of C ← A ⊗ B of large row-major matrices."""
    from semiring.kernels.cuda.product.calls import Placement, call_for, format_of
    from semiring.kernels.cuda.product.cubins import cubin
    from semiring.kernels.cuda.product.specification import WordFormat

    n = 8192  # enough rows that `tile_for` chooses the tile for large matrices
    words = WordFormat("int32", 32) if plan.dtype == np.bool_ else format_of(plan)
    call = call_for(plan, words, accumulate=False)
    C = Placement(0, (n, n), (n, 1), words.word_bytes)
    A = Placement(0, (n, n), (n, 1), plan.dtype.itemsize if words.lanes == 2 else words.word_bytes)
    tool = find_disassembler()
    if tool is None:
        raise SystemExit("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    return disassemble(cubin(call.product(A, C, C), call.tile(C), architecture)[1], tool)


def find_disassembler() -> str | None:
    """Return the path of nvdisasm, from the package nvidia-cuda-nvdisasm or the search path, or None."""
    for base in map(Path, sys.path):
        for path in (base / "nvidia").glob("*/bin/nvdisasm"):
            return str(path)
    return shutil.which("nvdisasm")


def disassemble(machine_code: bytes, tool: str) -> str:
    """Return the SASS of a cubin."""
    with tempfile.TemporaryDirectory(prefix="semiring-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(machine_code)
        process = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=True)
    return process.stdout


# ------------------------------------------------------------------------------------------------------------ loops

_LABEL = re.compile(r'\s*"?([.$\w]+)"?:')
_BRANCH = re.compile(  # an address and a condition come before the instruction in the listings of GPUs
    r"\s*(?:/\*\w+\*/\s*)?(?:@\S+\s+)?(?:BRA[.\w]*|j\w+|b|b\.\w+|cbn?z|tbn?z)\s"
)


def steady_loop(text: str) -> str:
    """Return the lines in which a kernel spends its time: the longest loop that contains no other, or all lines."""
    lines = text.splitlines()
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    loops = []
    for end, line in enumerate(lines):
        if _BRANCH.match(line):
            starts = [labels[word] for word in re.findall(r"[.$\w]+", line) if labels.get(word, end) < end]
            loops += [(start, end) for start in starts]
    inner = [(a, b) for a, b in loops if not any(a <= c and d < b for c, d in loops if (c, d) != (a, b))]
    start, end = max(inner, key=lambda loop: loop[1] - loop[0], default=(0, len(lines)))
    return "\n".join(lines[start : end + 1])


def main(arguments: list[str] | None = None) -> None:
    """Print the loop over k of a product, or its whole kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("semiring", help="a name of the catalogue")
    parser.add_argument("dtype", nargs="?", default="float64")
    parser.add_argument("--target", metavar="NAME", help="a CPU or an architecture sm_… (default: this CPU)")
    parser.add_argument("--nonnegative", action="store_true", help="assume that no weight is negative")
    parser.add_argument("--whole", action="store_true", help="print the whole kernel, not only the loop over k")
    asked: Any = parser.parse_args(arguments)
    plan = make_plan(as_semiring(asked.semiring), np.dtype(asked.dtype), nonnegative=asked.nonnegative, separate=True)
    if (asked.target or "").startswith("sm_"):
        text = product_code(plan, asked.target)
    elif asked.target is None or asked.target in CPUS:
        text, _ = tile_code(plan, CPUS[asked.target] if asked.target else host())
    else:
        parser.error(f"no target is named {asked.target!r}: give sm_… or one of {', '.join(CPUS)}")
    print(text if asked.whole else steady_loop(text))


if __name__ == "__main__":
    main()
