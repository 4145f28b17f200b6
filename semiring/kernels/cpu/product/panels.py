"""Products of plus_times inside compiled loops, by the tile of the micro-kernel and panels as wide as the tile."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (some functions below are compiled: their types are Numba's)

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from semiring.algebra.catalogue import plus_times
from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.codegen.memory_intrinsics import address, call9
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.cpu.kernels import kernels_for
from semiring.kernels.cpu.product.log_lines import kernel
from semiring.kernels.machines import cpu_speed
from semiring.kernels.machines.speed_data import TileShape

PAD = 16  # columns between rows of a left operand, which would otherwise share cache sets
_ROWS, _VECTORS = 8, (3, 2)  # the shape of a tile, if registers hold it: numbers of rows are often powers of two
_UNUSED = 16  # a product may leave at most one in 16 columns of its tiles unused
_DEPTH = 512  # steps of k at a time


class PackedPanels:
    """A right operand of plus_times (k, n) in panels as wide as a tile: ``packed`` (panels, k, width)."""

    def __init__(self, k: int, n: int, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.tile = tile_for(self.dtype, n)
        _, self.rows, self.width = self.tile
        panels = -(-n // self.width)
        self.columns = panels * self.width
        self.packed = aligned_zeros((panels, k, self.width), self.dtype)
        self.address = self.packed.ctypes.data

    @classmethod
    def from_matrix(cls, B: Array) -> PackedPanels:
        """Return the panels that hold B."""
        k, n = B.shape
        panels = cls(k, n, B.dtype)
        padded = np.zeros((k, panels.columns), B.dtype)
        padded[:, :n] = B
        panels.packed[...] = padded.reshape(k, -1, panels.width).swapaxes(0, 1)
        return panels

    def allocate_operands(self, m: int) -> tuple[Array, Array]:
        """Return memory for a left operand of m rows and for its product, in whole tiles, with zeros from row m on."""
        rows, k = -(-m // self.rows) * self.rows, self.packed.shape[1]
        left = np.empty((rows, k + PAD), self.dtype)
        left[m:] = 0
        return left, np.empty((rows, self.columns), self.dtype)


@lru_cache(maxsize=256)
def tile_for(dtype: np.dtype[Any], n: int) -> tuple[int, int, int]:
    """Return the address of a tile for products with n columns, its rows and its columns."""
    machine = host()
    vectors = -(-n * dtype.itemsize // machine.vector_bytes)
    kernels = kernels_for(KernelPlan(plus_times, dtype, dtype.type(0), dtype.type(1)))
    shapes = [TileShape(_ROWS, count, machine.vector_bytes) for count in _VECTORS]
    fitting = [shape for shape in shapes if shape.is_valid(machine.registers)]
    wasteful = {shape: _UNUSED * (-vectors % shape.vectors) > vectors for shape in fitting}
    shape = min(fitting, key=wasteful.__getitem__, default=cpu_speed().light(machine.vector_bytes))
    return kernels.compile_tile(shape=shape), shape.rows, shape.vectors * machine.vector_bytes // dtype.itemsize


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return zeros whose first element is aligned to vectors."""
    size = prod(shape) * dtype.itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


@kernel
def add_steps(tile, A, packed, C, first, steps, accumulate):
    """Compute C ← [C +] A · B, as `multiply`, for some of the columns of A."""
    native, rows, width = tile
    inner, size = A.shape[1] - PAD, A.itemsize
    across, down = A.shape[1] * size, C.shape[1] * size
    for column in range(0, C.shape[1], width):
        b = packed + (column * inner + first * width) * size
        for top in range(0, A.shape[0], rows):
            a, c = address(A) + top * across + first * size, address(C) + top * down + column * size
            call9(native, (steps, a, across, size, b, c, down, accumulate, c))


@kernel
def multiply(tile, A, packed, C):
    """Compute C ← A · B, for rows in whole tiles, and B in panels at the address ``packed``.

    ``tile``: its address, rows and columns. A (m, k + `PAD`), C (m, n), n a multiple of the columns.
    """
    inner = A.shape[1] - PAD
    for first in range(0, inner, _DEPTH):
        add_steps(tile, A, packed, C, first, min(_DEPTH, inner - first), min(first, 1))
