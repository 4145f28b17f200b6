"""The macro-kernel of products: the loops around the micro-kernel that cut and pack the operands and compute the edges.

B is packed in panels as wide as a tile and `CpuSpeed.depth` steps of k deep. Several panels stay in the second-level
cache. A is read in place if its rows are contiguous and its elements have at least four bytes. Otherwise it is packed,
again for each of these sets of panels. So `Kernels.product` copies large operands whose rows are not contiguous first.
Tiles that reach beyond a matrix are filled with 0̄. A tile that does not lie wholly inside C, or whose rows are not
contiguous, is computed in a corner of the workspace.

A product is described by a *job* of `WORDS` 64-bit integers. Strides are in bytes. The constants below name the places
of the words:

    FUNCTION … ZERO         the shape, as in `ProductShape`
    C_ADDRESS … P_COLUMN    for C, A, B and P the address, the stride from row to row, and from column to column
    INNER                   the inner size
    ACCUMULATE              1 to add to C, 0 to overwrite it
    CHUNK, FIRST_K          the length of the runs of k that P marks, or 0, and the number of the first k
    A_SUBDIAGONALS          A[i, k] is 0̄ for k < i - A_SUBDIAGONALS and is not read; `FULL` for no such entry
    B_SUBDIAGONALS          B[k, j] is 0̄ for k > j + B_SUBDIAGONALS and is not read; one of the two is `FULL`

The loops are compiled once for each size of an element, because they call the native functions by address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import (
    LANE_BYTES,
    WIDENED,
    address,
    call3,
    call9,
    call13,
    copy_bytes,
    fetch,
    put,
    put_repeated,
    widen,
)

Array = Any  # inside a kernel: Numba's own types

# The places of the words of a job.
FUNCTION, TILE, ROWS, WIDTH, DEPTH, PACKED_COLUMNS, PACKED_ROWS, ZERO = range(8)
SHAPE_WORDS = 8
C_ADDRESS, C_ROW, C_COLUMN, A_ADDRESS, A_ROW, A_COLUMN = range(SHAPE_WORDS, SHAPE_WORDS + 6)
B_ADDRESS, B_ROW, B_COLUMN, P_ADDRESS, P_ROW, P_COLUMN = range(SHAPE_WORDS + 6, SHAPE_WORDS + 12)
INNER, ACCUMULATE, CHUNK, FIRST_K, A_SUBDIAGONALS, B_SUBDIAGONALS = range(SHAPE_WORDS + 12, SHAPE_WORDS + 18)
WORDS = SHAPE_WORDS + 18
FULL = 1 << 40  # a number of diagonals that no matrix has, so that no entry is skipped
_COPIED = (32, 8)  # rows and columns of the tiles that `straighten_block` copies: they stay in the first-level cache
HEAD = 256  # aligned bytes before a workspace, for the job and the block of a product on one thread


class ProductShape(NamedTuple):
    """The first `SHAPE_WORDS` words of a job, which all products of one kind share."""

    function: int  # the address of `block_product`
    tile: int  # the address of the micro-kernel
    rows: int  # rows of a tile
    width: int  # columns of a tile
    depth: int  # steps of k that are packed at a time
    packed_columns: int  # columns of B that are packed at a time
    packed_rows: int  # rows of A that are packed at a time
    zero: int  # the bits of 0̄, as a signed 64-bit integer


@inner
def word(job: int, place: int) -> int:
    """Read the word of a job at a place."""
    return int(fetch(job, job + 8 * place))


@inner
def pack_columns(
    b: int, row: int, column: int, steps: int, n: int, width: int, size: int, zero: Any, packed: int
) -> None:
    """Pack n columns of B, from address ``b`` on, in panels of ``width`` columns. Pad the last panel with 0̄."""
    panel = steps * width * size
    whole_panels = n // width if column == size else 0
    for k in range(steps):
        for i in range(whole_panels):
            copy_bytes(packed + i * panel + k * width * size, b + k * row + i * width * size, width * size)
    for i in range(whole_panels, (n + width - 1) // width):
        columns = min(width, n - i * width)
        for k in range(steps):
            source, target = b + k * row + i * width * column, packed + i * panel + k * width * size
            for j in range(columns):
                put(fetch(zero, source + j * column), target + j * size)
            for j in range(columns, width):
                put(zero, target + j * size)


@inner
def pack_rows(
    a: int, row: int, column: int, m: int, steps: int, rows: int, size: int, by_rows: int, zero: Any, packed: int
) -> None:
    """Pack m rows of A, from address ``a`` on, in tiles of ``rows`` rows.

    Pad the last tile with 0̄. If ``by_rows`` is 1, the elements of a row of a tile are adjacent. If it is 0, those of a
    column are adjacent.
    """
    unit = max(size, LANE_BYTES)
    x_row, x_step = (steps * unit, unit) if by_rows else (unit, rows * unit)
    for start in range(0, m, rows):
        height = min(rows, m - start)
        source = a + start * row
        if by_rows:
            for i in range(height):
                done = 0
                if column == size:
                    while done + WIDENED <= steps:
                        widen(zero, packed + i * x_row + done * unit, source + i * row + done * size)
                        done += WIDENED
                for k in range(done, steps):
                    put_repeated(fetch(zero, source + i * row + k * column), packed + i * x_row + k * unit)
        else:
            for k in range(steps):
                for i in range(height):
                    put_repeated(fetch(zero, source + i * row + k * column), packed + i * unit + k * x_step)
        for i in range(height, rows):
            for k in range(steps):
                put_repeated(zero, packed + i * x_row + k * x_step)
        packed += steps * rows * unit


@inner
def move_tile(
    like: Any, m: int, n: int, source: int, row: int, column: int, target: int, to_row: int, to_column: int
) -> None:
    """Copy an m × n block of elements of the type of ``like``."""
    for i in range(m):
        for j in range(n):
            put(fetch(like, source + i * row + j * column), target + i * to_row + j * to_column)


@inner
def call_tile(tile: int, operands: tuple[int, ...], mark: int, mark_row: int, chunk: int, first: int) -> None:
    """Run a native tile on its nine ``operands``; with ``chunk`` > 0 it marks improved entries, from ``first`` on."""
    if chunk == 0:
        call9(tile, operands)
    else:
        call13(tile, (*operands, mark, mark_row, chunk, first))


@inner
def tiles_in_row(
    job: int,
    steps: int,
    x: int,
    x_row: int,
    x_step: int,
    y: int,
    c: int,
    p: int,
    m: int,
    n: int,
    zero: Any,
    size: int,
    load: int,
    first: int,
    corner: int,
    skip: int,
    last: int,
) -> None:
    """Compute a row of tiles of C from rows of A at ``x`` and packed columns of B at ``y``.

    The row has m rows of C, at most as many as a tile, and n columns. ``x_row`` and ``x_step`` are the bytes from a row
    of A to the next and from a k to the next. An incomplete or non-contiguous tile is computed in the ``corner``, which
    holds a tile of C and then a tile of P. Steps of k before ``skip`` are skipped. In column j the steps from
    ``last`` + j on are skipped too, but only if the whole tile may skip them.
    """
    tile, rows, width, chunk = word(job, TILE), word(job, ROWS), word(job, WIDTH), word(job, CHUNK)
    c_row, c_column = word(job, C_ROW), word(job, C_COLUMN)
    p_row, p_column = word(job, P_ROW), word(job, P_COLUMN)
    marked, corner_row, corner_p = numba.int32(0), width * size, corner + rows * width * size
    contiguous = c_column == size and (chunk == 0 or p_column == 4)
    x, whole = x + skip * x_step, steps * width * size
    for j in range(0, n, width):
        columns = min(width, n - j)
        count, panel = min(steps, last + j + width) - skip, y + skip * width * size
        if count <= 0:
            pass
        elif m == rows and columns == width and contiguous:
            ahead = c + width * size if j + width < n else c + rows * c_row - j * size
            call_tile(tile, (count, x, x_row, x_step, panel, c, c_row, load, ahead), p, p_row, chunk, first)
        else:
            if load:
                move_tile(zero, m, columns, c, c_row, c_column, corner, corner_row, size)
            if chunk:
                move_tile(marked, m, columns, p, p_row, p_column, corner_p, width * 4, 4)
            operands = (count, x, x_row, x_step, panel, corner, corner_row, load, corner)
            call_tile(tile, operands, corner_p, width * 4, chunk, first)
            if chunk:
                move_tile(marked, m, columns, corner_p, width * 4, 4, p, p_row, p_column)
            move_tile(zero, m, columns, corner, corner_row, size, c, c_row, c_column)
        y, c, p = y + whole, c + width * c_column, p + width * p_column


def block_product(element: Any) -> Callable[..., None]:
    """Return the function that computes a block of a product, for elements of one unsigned integer type.

    The function has a C interface. Its arguments are the addresses of a job, of the block, and of a workspace. A block
    is four words: its first row, the row after its last, its first column, the column after its last. All columns of B
    that are packed at a time are read before a column of C is written. So C may be B if the depth is at least the inner
    size and every block has all rows of C.
    """
    size = element.bitwidth // 8

    def compute(job: int, block_address: int, workspace: int) -> None:
        zero = fetch(element(0), job + 8 * ZERO)
        unit = max(size, LANE_BYTES)
        rows, width, depth = word(job, ROWS), word(job, WIDTH), word(job, DEPTH)
        columns, block = word(job, PACKED_COLUMNS), word(job, PACKED_ROWS)
        c, c_row, c_column = word(job, C_ADDRESS), word(job, C_ROW), word(job, C_COLUMN)
        a, a_row, a_column = word(job, A_ADDRESS), word(job, A_ROW), word(job, A_COLUMN)
        b, b_row, b_column = word(job, B_ADDRESS), word(job, B_ROW), word(job, B_COLUMN)
        p, p_row, p_column = word(job, P_ADDRESS), word(job, P_ROW), word(job, P_COLUMN)
        inner, accumulate, chunk, k0 = word(job, INNER), word(job, ACCUMULATE), word(job, CHUNK), word(job, FIRST_K)
        a_subdiagonals, b_subdiagonals = word(job, A_SUBDIAGONALS), word(job, B_SUBDIAGONALS)
        top, bottom = word(block_address, 0), word(block_address, 1)
        left, right = word(block_address, 2), word(block_address, 3)
        packed_b = workspace
        packed_a = packed_b + depth * columns * size
        corner = packed_a + block * depth * unit
        in_place = size >= LANE_BYTES and a_column == size
        by_rows = abs(a_row) >= abs(a_column)
        start = 0
        while start < inner:
            steps, first = min(depth, inner - start), start
            if chunk > depth:  # a run is longer than a panel: each of its pieces is marked with the first k of the run
                first = start - start % chunk
                steps = min(steps, first + chunk - start)
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
                        begin = i0 + i - a_subdiagonals  # the first k of these rows of A
                        if begin >= start + steps:
                            continue
                        load = 1 if accumulate or (start > 0 and begin < start) else 0
                        if i < whole:
                            x, x_row, x_step = source + i * a_row, a_row, a_column
                        else:
                            x = packed_a + (i - whole) * steps * unit
                            x_row, x_step = (steps * unit, unit) if by_rows else (unit, rows * unit)
                        target = c + (i0 + i) * c_row + j0 * c_column
                        mark = p + (i0 + i) * p_row + j0 * p_column
                        tiles_in_row(
                            *(job, steps, x, x_row, x_step, packed_b, target, mark, min(rows, m - i), n),
                            *(zero, size, load, k0 + first, corner, max(0, begin - start), j0 + b_subdiagonals - start),
                        )
            start += steps

    return compute


@kernel
def product(
    C: Array,
    A: Array,
    B: Array,
    P: Array,
    shape: int,
    accumulate: int,
    chunk: int,
    k0: int,
    a_subdiagonals: int,
    b_subdiagonals: int,
    job: int,
    is_alone: int,
) -> None:
    """Write the job C ← [C ⊕] A ⊗ B to the address ``job``.

    ``shape`` is the address of a `ProductShape`. If ``is_alone`` is 1, the calling thread computes all of C as well.
    The job then lies in the head of a workspace, and its block follows it.
    """
    for i in range(SHAPE_WORDS):
        put(word(shape, i), job + 8 * i)
    c, a, b, p = C.strides, A.strides, B.strides, P.strides
    values = (
        *(address(C), c[0], c[1], address(A), a[0], a[1], address(B), b[0], b[1], address(P), p[0], p[1]),
        *(A.shape[1], accumulate, chunk, k0, a_subdiagonals, b_subdiagonals),
    )
    for i in range(len(values)):
        put(values[i], job + 8 * (C_ADDRESS + i))
    if is_alone:
        _compute_all(job, C.shape[0], C.shape[1], job)


@kernel
def products(Cs: Array, As: Array, Bs: Array, shape: int, accumulate: int, workspace: int) -> None:
    """Compute C ← [C ⊕] A ⊗ B for every matrix of three stacks, on the calling thread."""
    for i in range(SHAPE_WORDS):
        put(word(shape, i), workspace + 8 * i)
    c, a, b = Cs.strides, As.strides, Bs.strides
    for i in range(Cs.shape[0]):
        at_c, at_a, at_b = address(Cs) + i * c[0], address(As) + i * a[0], address(Bs) + i * b[0]
        values = (
            *(at_c, c[1], c[2], at_a, a[1], a[2], at_b, b[1], b[2], 0, 0, 0),
            *(As.shape[2], accumulate, 0, 0, FULL, FULL),
        )
        for place in range(len(values)):
            put(values[place], workspace + 8 * (C_ADDRESS + place))
        _compute_all(workspace, Cs.shape[1], Cs.shape[2], workspace)


@inner
def _compute_all(job: int, m: int, n: int, workspace: int) -> None:
    """Compute all of C as one block."""
    cut, values = workspace + 8 * WORDS, (0, m, 0, n)
    for i in range(len(values)):
        put(values[i], cut + 8 * i)
    call3(word(job, FUNCTION), (job, cut, workspace + HEAD))


def copy_block(job: int, block_address: int, workspace: int) -> None:
    """Copy a block of a matrix; C interface as `block_product`, columns counted in bytes.

    After the address of this function the job has four words: the target and its row stride, the source and its row
    stride, in bytes.
    """
    target, target_row, source, source_row = word(job, 1), word(job, 2), word(job, 3), word(job, 4)
    top, bottom = word(block_address, 0), word(block_address, 1)
    left, right = word(block_address, 2), word(block_address, 3)
    whole = (right - left) // 32 * 32
    for i in range(top, bottom):
        target_line, source_line = target + i * target_row + left, source + i * source_row + left
        if whole:
            copy_bytes(target_line, source_line, whole)
        for byte in range(whole, right - left):
            put(fetch(numba.uint8(0), source_line + byte), target_line + byte)


def straighten_block(element: Any) -> Callable[..., None]:
    """Return the function that copies a block of a matrix of any strides to one whose rows are contiguous.

    C interface as `block_product`, for elements of one unsigned integer type. After the address of the function the job
    has five words: the target and its row stride, the source, its row stride and its column stride, in bytes.
    """
    size, (rows, columns) = element.bitwidth // 8, _COPIED

    def copy(job: int, block_address: int, workspace: int) -> None:
        like, target, target_row = element(0), word(job, 1), word(job, 2)
        source, row, column = word(job, 3), word(job, 4), word(job, 5)
        top, bottom = word(block_address, 0), word(block_address, 1)
        left, right = word(block_address, 2), word(block_address, 3)
        for j0 in range(left, right, columns):
            for i0 in range(top, bottom, rows):
                for j in range(j0, min(right, j0 + columns)):
                    for i in range(i0, min(bottom, i0 + rows)):
                        put(fetch(like, source + i * row + j * column), target + i * target_row + j * size)

    return copy
