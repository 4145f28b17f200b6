"""Return the code of products and closures on a GPU as text, for any architecture, without a GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.errors import DeviceError, DTypeError, MissingExtraError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.blocks import block_kernel
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of, operations_source, source
from semiring.kernels.cuda.closing.printer import ELEMENTS
from semiring.kernels.cuda.compile.cubins import cubin
from semiring.kernels.cuda.product.calls import call_for, format_of
from semiring.kernels.cuda.product.layouts import Placement
from semiring.kernels.cuda.product.specification import Product
from semiring.kernels.cuda.product.tiles import Tile
from semiring.kernels.cuda.product.words import WordFormat
from semiring.kernels.loops import steady_loop

__all__ = ["ARCHITECTURES", "closure_source", "disassemble", "find_disassembler", "product_code"]

_N = 8192  # the rows of the operands, enough that `tile_for` chooses the tile for large matrices
_ROWS = 64  # the rows of the block whose closure is shown
_TARGET = "sm_90a"  # the default without a GPU

#: The architectures on which the backend runs. Their code can be shown without a GPU.
ARCHITECTURES = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103", "sm_103a"),
    *("sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)


def closure_source(plan: KernelPlan, is_whole: bool) -> str:
    """Return ⊕, ⊗ and the star in CUDA C++, or the whole source of the kernel that closes a block if ``is_whole``.

    Raises `DTypeError` on bfloat16, which is closed in float32. Raises `AlgebraError` if ``is_whole`` and the semiring
    has no star.
    """
    if plan.dtype.name not in ELEMENTS:
        raise DTypeError(f"no kernel in CUDA C++ takes {plan.dtype}: closures of it are those of float32")
    if not is_whole:
        return operations_source(plan)
    arithmetic = arithmetic_of(plan)
    chosen = block_kernel(_ROWS, arithmetic)
    return source(chosen.file, arithmetic, chosen.defines)


def product_code(plan: KernelPlan, language: str, target: str | None, is_whole: bool) -> str:
    """Return C ← A ⊗ B of large row-major matrices as ``"ptx"`` or ``"sass"``, with a line that describes the tile.

    ``is_whole``: whether the result is the whole kernel, not only its loop over k. Raises `MissingExtraError` without
    the CUTLASS DSL, and for SASS without nvdisasm. Raises `UnknownNameError` for a target that is not in
    `ARCHITECTURES`.
    """
    if target is not None and target not in ARCHITECTURES:
        raise UnknownNameError("architecture", target, ARCHITECTURES)
    if find_spec("cutlass") is None:
        raise MissingExtraError("nvidia-cutlass-dsl", "code", f"showing a product as {language}")
    target = _default_architecture() if target is None else target
    product, tile = kernel_of(plan)
    if language == "sass":
        tool = find_disassembler()
        if tool is None:
            raise MissingExtraError("nvidia-cuda-nvdisasm", "code", "showing a product as sass")
        text = disassemble(cubin(product, tile, target)[1], tool)
    else:
        from semiring.kernels.cuda.compile.compilation import translate

        text = translate(product, tile, target)[2]
    config = f"a tile of {tile.tile_m} × {tile.tile_n} words, {tile.thread_m} × {tile.thread_n} a thread"
    part = "the whole" if is_whole else f"the loop over k, {tile.tile_k} at a time"
    words = f"{product.words.lanes} elements to a word, " if product.words.lanes > 1 else ""
    heading = f"// a product in {plan.semiring.name} on {plan.dtype} for {target}: {config}, {words}{part}"
    return f"{heading}\n{text if is_whole else steady_loop(text)}"


def kernel_of(plan: KernelPlan) -> tuple[Product, Tile]:
    """Return the kernel that multiplies large row-major matrices under a plan, and its tile."""
    words = WordFormat("int32", 32) if plan.dtype == np.bool_ else format_of(plan)
    call = call_for(plan, words, accumulate=False)
    C = Placement(0, (_N, _N), (_N, 1), words.word_bytes)
    A = Placement(0, (_N, _N), (_N, 1), plan.dtype.itemsize if words.lanes == 2 else words.word_bytes)
    return call.product(A, C, C), call.tile(C)


def _default_architecture() -> str:
    """Return the architecture of the current GPU, or that of an H200."""
    try:
        load_cupy()
    except DeviceError:
        return _TARGET
    from semiring.kernels.cuda.compile.loading import architecture

    cupy: Any = sys.modules["cupy"]
    return architecture(cupy.cuda.runtime.getDevice())


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
