"""The loops around the micro-kernel: cutting, packing, edges.

B is packed in panels of the tile's width, `CpuConfig.panels` of them by `CpuConfig.depth` steps of k, which stay in the
second-level cache. A is read in place where its rows are contiguous and its elements at least four bytes, else it is
packed. What sticks out of a matrix is filled with 0̄. Tiles that do not lie wholly inside C, or whose rows are not
contiguous, are computed in a corner of the workspace.

All of it is compiled once for each size of an element: the addresses of the native functions are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from semiring.kernels.config import LANE_BYTES
from semiring.kernels.cpu.codegen.memory import (
    WIDENED,
    address,
    call9,
    call13,
    call28,
    copy_bytes,
    fetch,
    put,
    put_repeated,
    widen,
)

__all__ = ["block_product", "describe", "move_tile", "pack_columns", "pack_rows", "product", "products", "tiles_in_row"]

Array = Any  # inside a kernel: Numba's own types

_inner: Callable[[Callable[..., Any]], Any] = numba.njit(nogil=True, error_model="numpy")


@_inner
def pack_columns(b: int, row: int, column: int, steps: int, n: int, width: int, size: int, zero: Any, to: int) -> None:
    """B's n columns from address ``b`` on, in panels of ``width`` columns, the last one filled up with zeros."""
    panel = steps * width * size
    whole = n // width if column == size else 0
    for k in range(steps):
        for i in range(whole):
            copy_bytes(to + i * panel + k * width * size, b + k * row + i * width * size, width * size)
    for i in range(whole, (n + width - 1) // width):
        inside = min(width, n - i * width)
        for k in range(steps):
            source, target = b + k * row + i * width * column, to + i * panel + k * width * size
            for j in range(inside):
                put(fetch(zero, source + j * column), target + j * size)
            for j in range(inside, width):
                put(zero, target + j * size)


@_inner
def pack_rows(
    a: int, row: int, column: int, m: int, steps: int, rows: int, size: int, by_rows: int, zero: Any, to: int
) -> None:
    """A's m rows from address ``a`` on, in tiles of ``rows`` rows, the last one filled up with zeros.

    Inside a tile the elements of a row lie side by side, or (``by_rows`` 0) those of a column.
    """
    unit = max(size, LANE_BYTES)
    x_row, x_step = (steps * unit, unit) if by_rows else (unit, rows * unit)
    for start in range(0, m, rows):
        inside = min(rows, m - start)
        source = a + start * row
        if by_rows:
            for i in range(inside):
                done = 0
                if column == size:
                    while done + WIDENED <= steps:
                        widen(zero, to + i * x_row + done * unit, source + i * row + done * size)
                        done += WIDENED
                for k in range(done, steps):
                    put_repeated(fetch(zero, source + i * row + k * column), to + i * x_row + k * unit)
        else:
            for k in range(steps):
                for i in range(inside):
                    put_repeated(fetch(zero, source + i * row + k * column), to + i * unit + k * x_step)
        for i in range(inside, rows):
            for k in range(steps):
                put_repeated(zero, to + i * x_row + k * x_step)
        to += steps * rows * unit


@_inner
def move_tile(
    like: Any, m: int, n: int, source: int, row: int, column: int, to: int, to_row: int, to_column: int
) -> None:
    """Copy an m × n block of elements of the type of ``like``."""
    for i in range(m):
        for j in range(n):
            put(fetch(like, source + i * row + j * column), to + i * to_row + j * to_column)


@_inner
def call_tile(tile: int, operands: tuple[int, ...], mark: int, mark_row: int, chunk: int, pivot: int) -> None:
    """Run a native tile on its nine ``operands``; with ``chunk`` > 0 it marks what it improves, from ``pivot`` on."""
    if chunk == 0:
        call9(tile, operands)
    else:
        call13(tile, (*operands, mark, mark_row, chunk, pivot))


@_inner
def tiles_in_row(
    tile: int,
    steps: int,
    x: int,
    x_row: int,
    x_step: int,
    y: int,
    c: int,
    c_row: int,
    c_column: int,
    p: int,
    p_row: int,
    p_column: int,
    m: int,
    n: int,
    rows: int,
    width: int,
    zero: Any,
    size: int,
    load: int,
    chunk: int,
    pivot: int,
    corner: int,
) -> None:
    """A row of tiles: m ≤ ``rows`` rows of C, n columns, from rows of A at ``x`` and packed columns of B at ``y``.

    ``x_row`` and ``x_step`` are the bytes from a row of A to the next and from a k to the next. What does not fill a
    tile, or is not contiguous, goes through the ``corner``: a tile of C, behind it one of P.
    """
    marked, corner_row, corner_p = numba.int32(0), width * size, corner + rows * width * size
    contiguous = c_column == size and (chunk == 0 or p_column == 4)
    for j in range(0, n, width):
        inside = min(width, n - j)
        if m == rows and inside == width and contiguous:
            ahead = c + width * size if j + width < n else c + rows * c_row - j * size
            call_tile(tile, (steps, x, x_row, x_step, y, c, c_row, load, ahead), p, p_row, chunk, pivot)
        else:
            if load:
                move_tile(zero, m, inside, c, c_row, c_column, corner, corner_row, size)
            if chunk:
                move_tile(marked, m, inside, p, p_row, p_column, corner_p, width * 4, 4)
            operands = (steps, x, x_row, x_step, y, corner, corner_row, load, corner)
            call_tile(tile, operands, corner_p, width * 4, chunk, pivot)
            if chunk:
                move_tile(marked, m, inside, corner_p, width * 4, 4, p, p_row, p_column)
            move_tile(zero, m, inside, corner, corner_row, size, c, c_row, c_column)
        y, c, p = y + width * steps * size, c + width * c_column, p + width * p_column


def block_product(element: Any) -> Callable[..., None]:
    """The function behind every product, on a block of C, for elements of one unsigned integer type.

    C interface, 64-bit integers, strides in bytes; ``zero`` holds the bits of 0̄. ``tile`` is a native tile of ``rows``
    × ``width`` elements; with ``chunk`` > 0 it is one that marks P.
    """
    size = element.bitwidth // 8

    def compute(
        c: int,
        c_row: int,
        c_column: int,
        a: int,
        a_row: int,
        a_column: int,
        b: int,
        b_row: int,
        b_column: int,
        p: int,
        p_row: int,
        p_column: int,
        inner: int,
        tile: int,
        rows: int,
        width: int,
        depth: int,
        columns: int,
        block: int,
        zero_bits: int,
        accumulate: int,
        chunk: int,
        k0: int,
        top: int,
        bottom: int,
        left: int,
        right: int,
        workspace: int,
    ) -> None:
        zero = element(zero_bits)
        unit = max(size, LANE_BYTES)
        packed_b = workspace
        packed_a = packed_b + depth * columns * size
        corner = packed_a + block * depth * unit
        in_place = size >= LANE_BYTES and a_column == size
        by_rows = abs(a_row) >= abs(a_column)
        start = 0
        while start < inner:
            steps, first = min(depth, inner - start), start
            if chunk > depth:  # a run longer than a panel: every piece of it is marked with its beginning
                first = start - start % chunk
                steps = min(steps, first + chunk - start)
            load = 1 if accumulate or start > 0 else 0
            for j0 in range(left, right, columns):
                n = min(columns, right - j0)
                pack_columns(b + start * b_row + j0 * b_column, b_row, b_column, steps, n, width, size, zero, packed_b)
                for i0 in range(top, bottom, block):
                    m = min(block, bottom - i0)
                    whole = m // rows * rows if in_place else 0
                    source = a + i0 * a_row + start * a_column
                    pack_rows(
                        source + whole * a_row, a_row, a_column, m - whole, steps, rows, size, by_rows, zero, packed_a
                    )
                    for i in range(0, m, rows):
                        if i < whole:
                            x, x_row, x_step = source + i * a_row, a_row, a_column
                        else:
                            x = packed_a + (i - whole) * steps * unit
                            x_row, x_step = (steps * unit, unit) if by_rows else (unit, rows * unit)
                        target = c + (i0 + i) * c_row + j0 * c_column
                        mark = p + (i0 + i) * p_row + j0 * p_column
                        tiles_in_row(
                            *(tile, steps, x, x_row, x_step, packed_b),
                            *(target, c_row, c_column, mark, p_row, p_column),
                            *(min(rows, m - i), n, rows, width, zero, size, load, chunk, k0 + first, corner),
                        )
            start += steps

    return compute


@_inner
def product(
    C: Array,
    A: Array,
    B: Array,
    P: Array,
    compute: int,
    tile: int,
    rows: int,
    width: int,
    depth: int,
    columns: int,
    block: int,
    zero_bits: int,
    accumulate: int,
    chunk: int,
    k0: int,
    workspace: int,
) -> None:
    """C ← [C ⊕] A ⊗ B on the calling thread. ``compute``: the address of a `block_product`."""
    c, a, b, p = C.strides, A.strides, B.strides, P.strides
    call28(
        compute,
        (
            *(address(C), c[0], c[1], address(A), a[0], a[1], address(B), b[0], b[1], address(P), p[0], p[1]),
            *(A.shape[1], tile, rows, width, depth, columns, block, zero_bits, accumulate, chunk, k0),
            *(0, C.shape[0], 0, C.shape[1], workspace),
        ),
    )


@_inner
def products(
    Cs: Array,
    As: Array,
    Bs: Array,
    compute: int,
    tile: int,
    rows: int,
    width: int,
    depth: int,
    columns: int,
    block: int,
    zero_bits: int,
    accumulate: int,
    workspace: int,
) -> None:
    """C ← [C ⊕] A ⊗ B for every matrix of three stacks, on the calling thread."""
    c, a, b = Cs.strides, As.strides, Bs.strides
    for i in range(Cs.shape[0]):
        at_c, at_a, at_b = address(Cs) + i * c[0], address(As) + i * a[0], address(Bs) + i * b[0]
        call28(
            compute,
            (
                *(at_c, c[1], c[2], at_a, a[1], a[2], at_b, b[1], b[2], 0, 0, 0),
                *(As.shape[2], tile, rows, width, depth, columns, block, zero_bits, accumulate, 0, 0),
                *(0, Cs.shape[1], 0, Cs.shape[2], workspace),
            ),
        )


@_inner
def describe(
    C: Array,
    A: Array,
    B: Array,
    P: Array,
    compute: int,
    tile: int,
    rows: int,
    width: int,
    depth: int,
    columns: int,
    block: int,
    zero_bits: int,
    accumulate: int,
    chunk: int,
    k0: int,
    job: int,
) -> None:
    """The same product as 24 integers at address ``job``, for `semiring.kernels.cpu.threads.team`."""
    c, a, b, p = C.strides, A.strides, B.strides, P.strides
    values = (
        *(compute, address(C), c[0], c[1], address(A), a[0], a[1], address(B), b[0], b[1], address(P), p[0], p[1]),
        *(A.shape[1], tile, rows, width, depth, columns, block, zero_bits, accumulate, chunk, k0),
    )
    for i in range(len(values)):
        put(values[i], job + 8 * i)
