"""Show the code of a product on a CPU as text, for this machine or any CPU that LLVM supports."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from semiring.algebra.expressions.tree import is_half
from semiring.errors import DTypeError, UnknownNameError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu import CpuBackend
from semiring.kernels.cpu.codegen.native import assembly, intermediate
from semiring.kernels.cpu.codegen.target import CPUS, Target, host
from semiring.kernels.cpu.kernels import tile_shape
from semiring.kernels.cpu.product.micro_kernel import build_tile
from semiring.kernels.definition import define
from semiring.kernels.loops import steady_loop
from semiring.kernels.machines import cpu_speed, table_for
from semiring.kernels.machines.speed_data import TileShape

__all__ = ["tile_code", "tile_text"]


def tile_code(plan: KernelPlan, language: str, cpu: str | None, is_whole: bool) -> str:
    """Return the tile of a product as `semiring.code` shows it, after a line with the shape of the tile.

    float16 and bfloat16 show the tile of float32. Raises `UnknownNameError` for a CPU that is not in `CPUS`, and
    `DTypeError` for a dtype without a CPU kernel.
    """
    if cpu is not None and cpu not in CPUS:
        raise UnknownNameError("CPU", cpu, CPUS)
    dtype, rounded = plan.dtype, ""
    if is_half(dtype):
        zero, one = plan.semiring.zero_for(np.float32), plan.semiring.one_for(np.float32)
        plan = replace(plan, dtype=np.dtype(np.float32), zero=zero, one=one)
        rounded = f", in which {dtype} is computed, and rounded once,"
    if not CpuBackend().supports(plan.semiring, plan.dtype):
        raise DTypeError(f"products of {dtype} are not compiled for a CPU: show them as ptx or sass")
    target = host() if cpu is None else CPUS[cpu]
    text, shape = tile_text(plan, language, target)
    listing = text if is_whole else steady_loop(text)
    mark = ";" if language == "llvm" else "//" if target.is_arm64 else "#"
    return (
        f"{mark} a product in {plan.semiring.name} on {plan.dtype}{rounded} for {target.cpu or target.triple}: "
        f"a tile of {shape.rows} rows of {shape.vectors} vectors of {target.vector_bytes} bytes, "
        f"{'the whole' if is_whole else 'the loop over k'}\n{listing}"
    )


def tile_text(plan: KernelPlan, language: str, target: Target, *, has_marks: bool = False) -> tuple[str, TileShape]:
    """Return the whole tile for a CPU as ``"llvm"`` or ``"asm"``, and its shape.

    For this machine it is the tile of `cpu_speed`, which products use.
    """
    definition = define(plan)
    shape = tile_shape(definition, target, cpu_speed() if target == host() else table_for(target).speed)
    show = intermediate if language == "llvm" else assembly
    build = partial(build_tile, definition=definition, target=target, shape=shape, has_marks=has_marks)
    return show(build, target), shape
