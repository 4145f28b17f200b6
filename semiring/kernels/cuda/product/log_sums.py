"""Compute products of log_plus on a GPU, c = log Σₖ exp(a + b), by float64 products on tensor cores.

Small products, and products of a few rows or columns, compute an exponential for each pair (`log_sums.cu`). Other
products use the algorithm of `semiring.kernels.cpu.product.log_products`. cuBLAS multiplies exponentials as float64,
relative to whole powers of two: u for each row of A, v for each k, w for each column of B. The results are the
logarithms of the sums. A sum is left open, as NaN, if a dropped term might be significant, or if fewer than two paths
may exist. Rows and columns with entries above `_HIGH` are open too. `log_splits.cu` (for float32) and then
`log_sums.cu` recompute open sums tile by tile. They do nothing if no sum is open, so the host never waits for the
number of open sums. If only a single path exists, the result is its ⊗, bitwise.

The same input gives bitwise identical results. The order in which cuBLAS adds depends on the shapes, including the
number of rows of A. Workspace in float64: a panel of B of at most `_DEPTH` by `_COLUMNS`, and panels of A and of sums
with `_ROWS` rows and as many columns. It takes 0.8 GB if n and k exceed 8192. In float32 the exponents and mantissas of
panels of the same size are stored separately, and take 1 GB.

H200, float32, n = 8192: 27 T pairs/s on ordinary data, and 3.2 T if all sums are open. With an exponential for each
pair, the rate is 1.4 to 2 T from n = 400 on, and for stacks of 64 and more. A product with a vector reads the matrix at
1.6 TB/s.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.algebra.catalogue import adds_exponentials, log_plus, plus_times
from semiring.algebra.expressions.tree import is_floating
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import text_of
from semiring.kernels.cuda.closing.modules import current_device
from semiring.kernels.cuda.entries.prepared_launch import PreparedLaunch
from semiring.kernels.cuda.product import classical
from semiring.kernels.cuda.product.launches import enter_device
from semiring.logs import CACHED_SECONDS, Compilation

#: Up to so many pairs, or rows or columns, an exponential for each pair is faster than cuBLAS.
_PAIRS, _LINES = {"f": 1 << 29, "d": 1 << 27}, 32
#: Of small products: k is split until there are so many blocks; and the least steps of k of a block.
_BLOCKS, _PART = 528, 128
_ROWS, _COLUMNS, _DEPTH = 2048, 8192, 8192  # the sizes of panels
_RUN = {"f": _DEPTH, "d": 256}  # the steps of k that one product adds; with more steps, float64 loses more bits
# As in log_sums.cu and log_splits.cu:
_TILE, _STEPS = (128, 64), 16
_OPEN_ROWS = {"f": _TILE[0], "d": 64}  # the rows of a tile of log_sums
#: The threads of a block, the rows and columns of a tile of log_tiles, and the columns of a block of log_lines.
_THREADS, _SMALL, _LINE = 256, 32, 256
_TEAM, _LOWEST = 128, -125  # the threads of a block of add_splits, and the exponent that stands for all lower exponents
_SHARED = 8 * _TILE[0] * _TILE[1] + 2 * 8 * _STEPS * sum(_TILE)  # sums, and two stages of mantissas and exponents
_SPLIT = _ROWS * _DEPTH, _DEPTH * _COLUMNS  # the entries of A and of B that are split at a time
_NUMBERS = KernelPlan(plus_times, np.dtype(np.float64), 0.0, 1.0)
#: The plan by which float16 and bfloat16 are multiplied.
_WIDE = KernelPlan(log_plus, np.dtype(np.float32), np.float32(-np.inf), np.float32(0))

_LOW, _HIGH = -float(1 << 20), float(1 << 19)  # the range of the entries whose exponentials are computed
_LEAST = -510  # lower exponents count as 0, so that products of two exponentials are normal numbers
_SPARE = {"f": 26, "d": 54}  # the bits by which a sum must exceed the sum of all dropped terms
_FEW = (_LOW + _HIGH) + 139  # a lower result might depend on a finite entry below `_LOW`, which counts as no path

_LIBRARY = """
#define LOG2_E 1.4426950408889634
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define NO_PATH __longlong_as_double(0xfff0000000000000ll)
"""


@cache
def _kernels() -> dict[str, Any]:
    """Return the kernels of the passes by name.

    They compute greatest exponents and numbers of paths along a line, exponentials, and logarithms of sums.
    """
    # It selects the same entries as `scale`, so that no exponential exceeds 2.
    greatest = cupy.ReductionKernel(
        "T x, float64 shift",
        "float64 y",
        f"x >= {_LOW} && x <= {_HIGH} ? double(x) * LOG2_E + shift : NO_PATH",
        "fmax(a, b)",
        "y = isinf(a) ? 0.0 : rint(a)",
        "NO_PATH",
        "semiring_greatest_exponent",
        preamble=_LIBRARY,
    )
    paths = cupy.ReductionKernel(
        "T x",
        "float64 y",
        f"double(x) > {_HIGH} ? -1e18 : double(x) > NO_PATH ? 1.0 : 0.0",
        "a + b",
        "y = a",
        "0",
        "semiring_paths",
        preamble=_LIBRARY,
    )
    scale = cupy.ElementwiseKernel(
        "T x, float64 row, float64 column",
        "float64 y",
        f"""
        const bool inside = x >= {_LOW} && x <= {_HIGH};
        const double z = inside ? double(x) : 0.0, n = rint(z * LOG2_E);
        const double r = fma(-n, LN2_LOW, fma(-n, LN2_HIGH, z));
        const double exponent = n - (row + column);
        const long long bits = __double_as_longlong(exp(r)) + ((long long)(exponent) << 52);
        y = inside && exponent >= {_LEAST} ? __longlong_as_double(bits) : 0.0;
        """,
        "semiring_scale",
        preamble=_LIBRARY,
    )
    finish = cupy.ElementwiseKernel(
        "float64 row, float64 column, float64 paths, float64 others, float64 tiny, float64 fewest, bool reads",
        "float64 s, T c, raw int32 open",
        f"""
        const double n = row + column;
        double value = n * LN2_HIGH + (n * LN2_LOW + log(s));
        if (!(s >= tiny) || !(paths + others >= fewest) || value < {_FEW}) {{
            s = __longlong_as_double(0x7ff8000000000000ll);
            open[0] = 1;
        }} else {{
            if (reads && double(c) > NO_PATH) {{
                const double high = fmax(value, double(c)), low = fmin(value, double(c));
                value = isinf(high) ? high : high + log1p(exp(low - high));
            }}
            c = value;
        }}
        """,
        "semiring_log_sums",
        preamble=_LIBRARY,
    )
    return {"greatest": greatest, "paths": paths, "scale": scale, "finish": finish}


def supports(plan: KernelPlan) -> bool:
    """Return whether this module computes all products under this plan."""
    fits = plan.storage == "elements" and is_floating(plan.dtype) and plan.zero == -np.inf
    return fits and adds_exponentials(plan.semiring)


def may_use_cublas(plan: KernelPlan, n: int = 1 << 20) -> bool:
    """Return whether cuBLAS computes part of some products of n rows and columns under this plan."""
    pairs = _PAIRS["d" if plan.dtype.itemsize == 8 else "f"]
    return supports(plan) and n**3 > pairs and n > _LINES and classical.supports(_NUMBERS)


def multiply(plan: KernelPlan, C: Any, A: Any, B: Any, *, accumulate: bool) -> bool:
    """Compute C ← A ⊗ B or C ⊕ A ⊗ B on the current stream, or return False if it is not applicable."""
    if not C.size or not supports(plan):
        return False
    if plan.dtype.itemsize == 2:
        result = _widen(C) if accumulate else cupy.empty(C.shape, np.float32)
        multiply(_WIDE, result, _widen(A), _widen(B), accumulate=accumulate)
        _round(result, C)
        return True
    (m, n), k = C.shape[-2:], A.shape[-1]
    if m * n * k <= _PAIRS[plan.dtype.char] or min(m, n) <= _LINES or not may_use_cublas(plan):
        _add_terms(C, A, B, accumulate)
        return True
    stacks = zip(C, A, B, strict=True) if C.ndim == 3 else ((C, A, B),)
    for matrices in stacks:
        _multiply(plan, *matrices, accumulate)
    return True


def _widen(X: Any) -> Any:
    """Return float16 and bfloat16 in float32. bfloat16 is converted by its bits, because CuPy may lack the dtype."""
    return X.astype(np.float32) if X.dtype.char == "e" else (X.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _round(X: Any, out: Any) -> None:
    """Write X into out, each entry rounded once to the nearest float16 or bfloat16."""
    if out.dtype.char == "e":
        out[...] = X
    else:
        bits = X.view(np.uint32)
        rounded = (bits + ((bits >> 16 & 1) + np.uint32(0x7FFF))) >> 16
        # The carry may turn a NaN into a number.
        out.view(np.uint16)[...] = cupy.where(cupy.isnan(X), np.uint32(0x7FC0), rounded)


def _add_terms(C: Any, A: Any, B: Any, accumulate: bool) -> None:
    """Multiply by an exponential for each pair, which is faster than the passes for small products and vectors."""
    enter_device(C.data.device_id)
    if C.shape[-2] > C.shape[-1]:  # ⊗ commutes
        C, A, B = C.swapaxes(-1, -2), B.swapaxes(-1, -2), A.swapaxes(-1, -2)
    launches, size, parts = _launches(
        C.dtype.char, C.shape, A.shape[-1], C.strides, A.strides, B.strides, accumulate, C.data.device_id
    )
    if parts == 1:
        launches[0](A.data.ptr, B.data.ptr, C.data.ptr, 0, 0)
        return
    sums, tops = cupy.cuda.alloc(8 * size), cupy.cuda.alloc(C.itemsize * size)  # of the stream's memory
    launches[0](A.data.ptr, B.data.ptr, C.data.ptr, sums.ptr, tops.ptr)
    launches[1](C.data.ptr, sums.ptr, tops.ptr)


@lru_cache(maxsize=512)
def _launches(
    char: str,
    shape: tuple[int, ...],
    inner: int,
    c: tuple[int, ...],
    a: tuple[int, ...],
    b: tuple[int, ...],
    accumulate: bool,
    device: int,
) -> tuple[tuple[PreparedLaunch, ...], int, int]:
    """Return the launches of a product for these layouts, the entries of their workspace, and the number of parts of k.

    ``c``, ``a`` and ``b`` are the strides in bytes.
    """
    (m, n), count = shape[-2:], shape[0] if len(shape) == 3 else 1
    rows, columns, name = (1, _LINE, "log_lines") if m == 1 else (_SMALL, _SMALL, "log_tiles")
    tiles = -(-m // rows) * -(-n // columns) * count
    part = max(_PART, -(-inner // max(1, _BLOCKS // tiles)))
    part = -(-part // _STEPS) * _STEPS
    parts = max(1, -(-inner // part))

    def strides(byte_strides: tuple[int, ...]) -> tuple[np.int64, ...]:
        return tuple(
            np.int64(stride // np.dtype(char).itemsize) for stride in (*(0,) * (3 - len(byte_strides)), *byte_strides)
        )

    matrices, sizes = (None, *strides(a), None, *strides(b), None, *strides(c)), (np.int64(m), np.int64(n))
    reads, kernel = np.int32(accumulate), _kernel(name, char, device).kernel
    arguments = (*matrices, *sizes, np.int64(inner), np.int64(part), reads, None, None)
    launches = [PreparedLaunch(kernel, (tiles * parts,), (_THREADS,), arguments)]
    if parts > 1:
        arguments = (None, *strides(c), *sizes, np.int64(count), np.int64(parts), reads, None, None)
        blocks = -(-m * n * count // _THREADS)
        launches.append(PreparedLaunch(_kernel("log_parts", char, device).kernel, (blocks,), (_THREADS,), arguments))
    return tuple(launches), m * n * count * parts, parts


def _multiply(plan: KernelPlan, C: Any, A: Any, B: Any, accumulate: bool) -> None:
    """Multiply matrices by cuBLAS, panel by panel, and recompute the open sums of each panel."""
    kernels, (m, n), inner = _kernels(), C.shape, B.shape[0]
    greatest, spare = kernels["greatest"], _SPARE[plan.dtype.char]
    columns = greatest(B, 0.0, axis=0)
    v = -greatest(B, -columns[None, :], axis=1)
    w = greatest(B, v[:, None], axis=0)
    u = greatest(A, -v[None, :], axis=1)
    paths, others = kernels["paths"](A, axis=1), kernels["paths"](B, axis=0)
    tiny, fewest = 2.0 ** (_LEAST + 3 + spare) * inner, inner + 2.0
    for left in range(0, n, _COLUMNS):
        across = slice(left, min(n, left + _COLUMNS))
        right: Any = None
        for top in range(0, m, _ROWS):
            down = slice(top, min(m, top + _ROWS))
            sums = cupy.empty((down.stop - top, across.stop - left))
            for start in range(0, inner, _DEPTH):
                steps = slice(start, min(inner, start + _DEPTH))
                if right is None or inner > _DEPTH:
                    right = kernels["scale"](B[steps, across], -v[steps, None], w[None, across])
                scaled = kernels["scale"](A[down, steps], u[down, None], v[None, steps])
                _add_product(sums, scaled, right, _RUN[plan.dtype.char], start > 0)
            c = C[down, across]
            arguments = u[down, None], w[None, across], paths[down, None], others[None, across], tiny, fewest
            marks = cupy.zeros(1, np.int32)
            kernels["finish"](*arguments, accumulate, sums, c, marks)
            _compute_open_sums(sums, A[down], B[:, across], c, marks, accumulate)


def _add_product(sums: Any, left: Any, right: Any, run_length: int, accumulate: bool) -> None:
    """Compute sums ← [sums +] left · right, by one product for each run of ``run_length`` steps of k, in order."""
    partial = None
    for start in range(0, right.shape[0], run_length):
        steps = slice(start, start + run_length)
        if not accumulate and start == 0:
            classical.multiply(_NUMBERS, sums, left[:, steps], right[steps], accumulate=False)
            continue
        partial = cupy.empty_like(sums) if partial is None else partial
        classical.multiply(_NUMBERS, partial, left[:, steps], right[steps], accumulate=False)
        sums += partial


def _compute_open_sums(sums: Any, A: Any, B: Any, C: Any, open_: Any, accumulate: bool) -> None:
    """Recompute the entries of C whose sums are NaN, if the word ``open_`` is set."""
    if C.dtype.char == "f":
        _add_splits(sums, A, B, C, open_, accumulate)
    m, n = C.shape
    grid = -(-n // _TILE[1]), -(-m // _OPEN_ROWS[C.dtype.char])
    sizes = np.int64(m), np.int64(n), np.int64(A.shape[1])
    matrices = sums, np.int64(n), A, *_strides(A), B, *_strides(B), C, *_strides(C)
    kernel = _kernel("log_sums", C.dtype.char, current_device())
    kernel(grid, (_THREADS,), (open_, *matrices, *sizes, np.int32(accumulate)))


def _add_splits(sums: Any, A: Any, B: Any, C: Any, open_: Any, accumulate: bool) -> None:
    """Recompute open sums by separate exponents and mantissas. Sums stay NaN in tiles whose entries are too large."""
    (m, n), deep = C.shape, -(-A.shape[1] // _STEPS)
    tall, wide = (max(1, most // deep // tile // _STEPS) * tile for most, tile in zip(_SPLIT, _TILE, strict=True))
    add = _kernel("add_splits", "f", current_device())
    for top in range(0, m, tall):
        down = slice(top, min(m, top + tall))
        left, odd_rows = _split(A[down], _TILE[0], 0, open_)
        for first in range(0, n, wide):
            across = slice(first, min(n, first + wide))
            right, odd_columns = _split(B[:, across].T, _TILE[1], _LOWEST, open_)
            s, c = sums[down, across], C[down, across]
            sizes = *_strides(c), np.int64(c.shape[0]), np.int64(c.shape[1]), np.int32(accumulate), np.int32(1 << 23)
            arguments = open_, odd_rows, odd_columns, s, np.int64(n), left, right, np.int32(deep), c, *sizes
            add((odd_columns.size, odd_rows.size), (_TEAM,), arguments, shared_mem=_SHARED)


def _split(X: Any, tile: int, lowest: int, open_: Any) -> tuple[Any, Any]:
    """Split the lines of X in whole tiles, and return the result and the flags (tiles,) of tiles that are left out.

    The result holds the entries, the mantissas times 2^``lowest``, and the exponents.
    """
    lines, inner = X.shape
    tiles, deep = -(-lines // tile), -(-inner // _STEPS)
    splits, odd = cupy.empty(3 * tiles * tile * deep * _STEPS, np.float32), cupy.zeros(tiles, np.int32)
    sizes = np.int64(lines), np.int64(inner), np.int32(tile), np.int32(lowest)
    arguments = open_, X, *_strides(X), *sizes, splits, odd
    _kernel("split", "f", current_device())((deep, tiles), (256,), arguments)
    return splits, odd


def _strides(X: Any) -> tuple[np.int64, ...]:
    """Return the strides of an array in elements."""
    return tuple(np.int64(stride // X.itemsize) for stride in X.strides)


def source(char: str) -> str:
    """Return the text of the kernels for elements of float ("f") or double ("d")."""
    element, file = ("float", "log_splits.cu") if char == "f" else ("double", "log_sums.cu")
    return f"typedef {element} T;\n{text_of(file)}"


@lru_cache(maxsize=64)
def _module(char: str, device: int) -> Any:
    return cupy.RawModule(code=source(char), options=("-std=c++17",))


@lru_cache(maxsize=64)
def _kernel(name: str, char: str, device: int) -> Any:
    under_way = Compilation("log_plus product", "this GPU")
    function = _module(char, device).get_function(name)
    under_way.finish(CACHED_SECONDS)
    if name == "add_splits":
        function.max_dynamic_shared_size_bytes = _SHARED
    return function
