"""The loops of a closure of one block: pivots a few at a time, around the native elimination and the micro-kernel.

Compiled once for each size of an element, as `semiring.kernels.cpu.macro`, whose packing it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from semiring.kernels.config import LANE_BYTES
from semiring.kernels.cpu.macro import move_tile, pack_columns, pack_rows
from semiring.kernels.cpu.memory import address, call9, close3, close7, put

__all__ = ["close", "close_pivots"]

Array = Any  # inside a kernel: Numba's own types

_inner: Callable[[Callable[..., Any]], Any] = numba.njit(nogil=True, error_model="numpy")


@_inner
def close(
    A: Array,
    eliminate: int,
    tile: int,
    rows: int,
    width: int,
    padded: int,
    pivots: int,
    zero: Any,
    one: Any,
    idempotent: int,
    workspace: int,
) -> int:
    """A ← A* in place, A (n, n) with contiguous rows: ``pivots`` pivots at a time. The first without a star, or -1.

    The pivot block is closed by ``eliminate``. Then its rows become D* ⊗ (its rows), and every other row i becomes
    A[i, :] ⊕ A[i, K] ⊗ (the new rows K), where A[i, K] itself starts from 0̄ unless ⊕ is idempotent: block elimination,
    for every semiring with a star.
    """
    n, size = A.shape[0], A.itemsize
    unit = max(size, LANE_BYTES)
    a, row = address(A), A.strides[0]
    block_row = padded * size
    block = workspace
    panel = block + pivots * block_row
    packed = panel + pivots * ((n + width - 1) // width * width) * size
    corner = packed + (pivots + rows) * pivots * unit
    for start in range(0, n, pivots):
        count = min(pivots, n - start)
        diagonal = a + start * row + start * size
        for i in range(count):
            for j in range(count, padded):
                put(zero, block + i * block_row + j * size)
        move_tile(zero, count, count, diagonal, row, size, block, block_row, size)
        failed = close3(eliminate, (count, block, block_row))
        if failed >= 0:
            return start + int(failed)
        move_tile(zero, count, count, block, block_row, size, diagonal, row, size)
        if count == n:
            break
        # The pivot rows: the columns of the block itself are multiplied as the identity, so they become D*.
        pack_columns(a + start * row, row, size, count, n, width, size, zero, panel)
        for j in range(start, start + count):
            target = panel + j // width * width * count * size + j % width * size
            for i in range(count):
                put(one if j - start == i else zero, target + i * width * size)
        pack_rows(block, block_row, size, count, count, rows, size, 1, zero, packed)
        multiply_rows(
            a + start * row,
            row,
            count,
            n,
            packed,
            panel,
            count,
            tile,
            rows,
            width,
            size,
            unit,
            zero,
            idempotent,
            corner,
        )
        pack_columns(a + start * row, row, size, count, n, width, size, zero, panel)
        for part in range(2):
            first, last = (0, start) if part == 0 else (start + count, n)
            for i in range(first, last, rows):
                m = min(rows, last - i)
                pack_rows(a + i * row + start * size, row, size, m, count, rows, size, 1, zero, packed)
                if not idempotent:
                    for q in range(m):
                        for j in range(start, start + count):
                            put(zero, a + (i + q) * row + j * size)
                multiply_rows(
                    a + i * row, row, m, n, packed, panel, count, tile, rows, width, size, unit, zero, 1, corner
                )
    return -1


@_inner
def multiply_rows(
    c: int,
    row: int,
    m: int,
    n: int,
    packed: int,
    panel: int,
    steps: int,
    tile: int,
    rows: int,
    width: int,
    size: int,
    unit: int,
    zero: Any,
    load: int,
    corner: int,
) -> None:
    """The m rows of C from packed rows of A and packed columns of B."""
    for i in range(0, m, rows):
        x = packed + i * steps * unit
        for j in range(0, n, width):
            target, y = c + i * row + j * size, panel + j * steps * size
            inside_m, inside_n = min(rows, m - i), min(width, n - j)
            if inside_m == rows and inside_n == width:
                call9(tile, (steps, x, steps * unit, unit, y, target, row, load, target))
            else:
                if load:
                    move_tile(zero, inside_m, inside_n, target, row, size, corner, width * size, size)
                call9(tile, (steps, x, steps * unit, unit, y, corner, width * size, load, corner))
                move_tile(zero, inside_m, inside_n, corner, width * size, size, target, row, size)


@_inner
def close_pivots(
    A: Array, P: Array, eliminate: int, padded: int, groups: int, zero: Any, k0: int, workspace: int
) -> int:
    """A ← A* in place, A (n, n), pivot by pivot through all of it; P becomes k0 + k where pivot k changes an entry."""
    n, size, marked = A.shape[0], A.itemsize, numba.int32(0)
    block, row, marks, marks_row = workspace, padded * size, workspace + n * padded * size, padded * 4
    for i in range(n):
        for j in range(n, padded):
            put(zero, block + i * row + j * size)
    move_tile(zero, n, n, address(A), A.strides[0], A.strides[1], block, row, size)
    move_tile(marked, n, n, address(P), P.strides[0], P.strides[1], marks, marks_row, 4)
    failed = close7(eliminate, (n, block, row, marks, marks_row, k0, groups))
    move_tile(zero, n, n, block, row, size, address(A), A.strides[0], A.strides[1])
    move_tile(marked, n, n, marks, marks_row, 4, address(P), P.strides[0], P.strides[1])
    return int(failed)
