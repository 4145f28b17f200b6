"""The compiled kernels of one definition, and the workspaces they run in."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.kernels.config import LANE_BYTES, CpuConfig, cpu_config
from semiring.kernels.contract import Plan
from semiring.kernels.cpu.definition import KernelDefinition, define
from semiring.kernels.cpu.eliminate import build_eliminate
from semiring.kernels.cpu.jit import entry
from semiring.kernels.cpu.lower import instructions
from semiring.kernels.cpu.native import compile_native
from semiring.kernels.cpu.target import host
from semiring.kernels.cpu.tile import build_tile

__all__ = ["Kernels", "config_for", "kernels_for"]

Array: TypeAlias = NDArray[Any]

_ALIGNMENT = 64


def config_for(definition: KernelDefinition, vector_bytes: int, registers: int) -> CpuConfig:
    """How products of a definition are cut on such a machine."""
    return cpu_config(vector_bytes, registers, instructions(definition.add, definition.mul))


class Workspace:
    """Aligned memory that is used again: a stack of free pieces, of which every call takes one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[tuple[Array, int]] = []  # append and pop are atomic under the GIL

    def take(self) -> tuple[Array, int]:
        try:
            return self.free.pop()
        except IndexError:
            memory = np.empty(self.size + _ALIGNMENT, np.uint8)
            return memory, (memory.ctypes.data + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


class Kernels:
    """Products and closures of one definition on this machine, compiled when first called."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.definition = define(plan)
        self.config = config_for(self.definition, host().vector_bytes, host().registers)
        self.size = plan.dtype.itemsize
        self.lanes = self.config.vector_bytes // self.size
        self.width = self.config.vectors * self.lanes
        self.zero = self.definition.zero_bits
        tile = self.config.rows * self.width
        panels = self.config.depth * self.config.panels * self.width * self.size
        rows = self.config.blocks * self.config.rows * self.config.depth * max(self.size, LANE_BYTES)
        self.workspace = Workspace(panels + rows + tile * (self.size + 4))

    # --------------------------------------------------------------------------------------------------- products

    def product(
        self, C: Array, A: Array, B: Array, P: Array, accumulate: int, chunk: int, k0: int, *block: int
    ) -> None:
        """C ← [C ⊕] A ⊗ B on a block (top, bottom, left, right) of C."""
        c = self.config
        self._run(C, A, B, P, self._tile, c.depth, accumulate, 0, k0, block)

    def marked_product(
        self, C: Array, A: Array, B: Array, P: Array, accumulate: int, chunk: int, k0: int, *block: int
    ) -> None:
        """C ← C ⊕ A ⊗ B, and P marked, in runs of ``chunk``."""
        depth = self.config.depth
        if chunk <= depth:
            depth = depth // chunk * chunk
        self._run(C, A, B, P, self._marking_tile, depth, accumulate, chunk, k0, block)

    def _run(
        self,
        C: Array,
        A: Array,
        B: Array,
        P: Array,
        tile: int,
        depth: int,
        accumulate: int,
        chunk: int,
        k0: int,
        block: tuple[int, ...],
    ) -> None:
        c, width = self.config, self.width
        workspace = self.workspace.take()
        self._product(
            *(C, A, B, P, tile, c.rows, width, depth, c.panels * width, c.blocks * c.rows, self.zero),
            *(accumulate, chunk, k0, *block, workspace[1]),
        )
        self.workspace.free.append(workspace)

    def blocks(self, m: int, n: int, tasks: int) -> list[tuple[int, int, int, int]]:
        """C cut into about ``tasks`` blocks at the borders of tiles: columns first, since each task packs its own of B."""
        column_tiles, row_tiles = -(-n // self.width), -(-m // self.config.rows)
        across = min(column_tiles, tasks)
        down = min(row_tiles, -(-tasks // across))
        lefts = [min(n, column_tiles * t // across * self.width) for t in range(across + 1)]
        tops = [min(m, row_tiles * t // down * self.config.rows) for t in range(down + 1)]
        return [(tops[i], tops[i + 1], lefts[j], lefts[j + 1]) for j in range(across) for i in range(down)]

    @cached_property
    def _product(self) -> Any:
        return entry("product", self.size)

    @cached_property
    def _tile(self) -> int:
        return self._compile_tile(False)

    @cached_property
    def _marking_tile(self) -> int:
        return self._compile_tile(True)

    def _compile_tile(self, pivots: bool) -> int:
        definition, config = self.definition, self.config
        return compile_native(
            f"tile {pivots} {config} {definition.key}",
            lambda module, name: build_tile(module, name, definition, host(), config, pivots=pivots),
        )

    # --------------------------------------------------------------------------------------------------- closures

    def close(self, A: Array) -> int:
        """A ← A*, A with contiguous rows; the first pivot without a star, or -1."""
        c, n = self.config, A.shape[0]
        padded = -(-c.pivots // self.lanes) * self.lanes
        panel_width = -(-n // self.width) * self.width
        unit = max(self.size, LANE_BYTES)
        block = c.pivots * (padded + panel_width) * self.size
        memory, start = Workspace(
            block + (c.pivots + c.rows) * c.pivots * unit + c.rows * self.width * self.size
        ).take()
        closing = self._closing
        failed: int = entry("close", self.size)(
            *(A, self._eliminate, self._tile, c.rows, self.width, padded, c.pivots, self.zero),
            *(closing.one_bits, int(closing.idempotent), padded // self.lanes, start),
        )
        del memory
        return failed

    def close_pivots(self, A: Array, P: Array, k0: int) -> int:
        """A ← A*, any strides, P marked; the first pivot without a star, or -1."""
        n = A.shape[0]
        padded = -(-n // self.lanes) * self.lanes
        memory, start = Workspace(n * padded * (self.size + 4)).take()
        failed: int = entry("close_pivots", self.size)(
            *(A, P, self._marking_eliminate, padded, padded // self.lanes, self.zero, k0, start)
        )
        del memory
        return failed

    @cached_property
    def _closing(self) -> KernelDefinition:
        return define(self.plan, closing=True)

    @cached_property
    def _eliminate(self) -> int:
        return self._compile_eliminate(False)

    @cached_property
    def _marking_eliminate(self) -> int:
        return self._compile_eliminate(True)

    def _compile_eliminate(self, pivots: bool) -> int:
        definition = self._closing
        return compile_native(
            f"eliminate {pivots} {definition.key}",
            lambda module, name: build_eliminate(module, name, definition, host(), pivots=pivots),
        )


_kernels: dict[tuple[int, Any, bool], tuple[Plan, Kernels]] = {}
_LIMIT = 256


def kernels_for(plan: Plan) -> Kernels:
    """The kernels of a plan. Semirings are told apart by identity first: hashing a definition takes microseconds."""
    key = (id(plan.semiring), plan.dtype, plan.facts.nonnegative)
    found = _kernels.get(key)
    if found is not None and found[0].zero == plan.zero:
        return found[1]
    kernels = Kernels(plan)
    if len(_kernels) >= _LIMIT:
        _kernels.clear()
    _kernels[key] = plan, kernels  # the plan keeps its semiring, and so the identity, alive
    return kernels
