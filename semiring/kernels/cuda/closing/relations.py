"""Analyse and close packed truth values on a GPU: `GraphKernels` by relations.cu, and closures of blocks by squaring.

Squaring on the tensor cores computes A* = (1̄ ⊕ A)^(2^t), 2^t ≥ n - 1. It takes ⌈log₂ n⌉ products, and elimination takes
one. But the tensor cores are 16 times as fast as LOP3, and squares have no chain of n pivots. The squares are in place.
If another thread block has set an entry already, that entry only appears earlier. After t squares all entries are set,
so the result is the closure in any order. If a square changes nothing, its input was already closed, and the squares
enqueued after it do nothing.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import current_device, max_shared_memory
from semiring.kernels.cuda.entries.entry_passes import reduction
from semiring.kernels.cuda.product import bit_kernels, bit_products
from semiring.kernels.cuda.product.calls import call_for, format_of
from semiring.kernels.cuda.product.launches import architecture
from semiring.logs import CACHED_SECONDS, Compilation

_THREADS = 256
_TOGETHER = 16  # the words of a set of vertices whose rows one block sweeps along
_ROWS = 8  # the most rows whose columns one block permutes together
_STRIP = 64  # the strips of columns in which the rows are permuted
_U32 = np.dtype(np.uint32)
_LEAST, _MOST = 129, bit_kernels.DEPTH  # the least and the most rows that are closed by squares


def has_bit_kernels(plan: KernelPlan, n: int) -> bool:
    """Return whether ⊕ is or and ⊗ is and, and a row of n bits fits the shared memory of a block."""
    call = call_for(plan, format_of(plan), accumulate=True)
    return bit_kernels.is_reachability(call) and 0 < n <= 8 * max_shared_memory()


def count_edges(words: Any) -> tuple[int, bool]:
    """Return the number of edges, and whether one of them leads to an earlier vertex, in one pass."""
    degrees, backward = _degrees(words)
    edges, has_backward = cupy.stack([degrees.sum(dtype=np.int64), backward[0].astype(np.int64)]).get().tolist()
    return edges, bool(has_backward)


def peel(words: Any, edges: int, rounds: int) -> tuple[Any, Any, Any]:
    """Return the vertices that no cycle reaches, in topological order, and all edges, in two passes and a wait."""
    n = len(words)
    degrees, _ = _degrees(words)
    starts = cupy.zeros(n + 1, _U32)
    cupy.cumsum(degrees, dtype=_U32, out=starts[1:])
    heads, entering = cupy.empty(edges, np.int32), cupy.zeros(n, _U32)
    _launch("list_edges", (n,), *_matrix_arguments(words), starts[:-1].copy(), heads, entering)
    order, count = cupy.empty(n, np.int32), cupy.zeros(1, _U32)
    _kernel("peel", 1, current_device())((1,), (1024,), (starts, heads, entering, order, count, *_as_int32(n, rounds)))
    size = int(count[0])
    return order[:size].get().astype(np.int64), starts.get().astype(np.int64), heads.get()


def sweep_along(words: Any, vertices: Any) -> Any:
    """Return the heads of the edges from some vertices, whose rows are read once."""
    target, width = cupy.zeros(words.shape[1], _U32), words.shape[1]
    grid = -(-width // _THREADS), -(-width // _TOGETHER)
    _launch("sweep_along", grid, *_matrix_arguments(words), cupy.asarray(vertices), target, np.int32(_TOGETHER))
    return target.get()


def sweep_against(words: Any, vertices: Any, candidates: Any) -> Any:
    """Return the candidates from which an edge leads to the vertices. Their rows are read once."""
    target, sets = cupy.zeros(words.shape[1], _U32), (cupy.asarray(vertices), cupy.asarray(candidates))
    _launch("sweep_against", (len(words),), *_matrix_arguments(words), *sets, target)
    return target.get()


def permute_bits(words: Any, order: Any) -> None:
    """Permute rows and columns: first each row by itself, then the rows in strips of columns."""
    n, width = words.shape
    places = np.full(32 * width, n, np.int32)  # bit n, after the last column, is 0
    places[:n] = order
    columns = cupy.asarray(places)
    rows = _ROWS
    while rows > 1 and 4 * rows * width > max_shared_memory():
        rows //= 2
    kernel = _kernel("move_columns", rows, current_device())
    shared = 4 * rows * width
    if shared > 48 << 10:
        kernel.max_dynamic_shared_size_bytes = max(shared, kernel.max_dynamic_shared_size_bytes)
    stride = np.int64(words.strides[0] // 4)
    kernel((-(-n // rows),), (512,), (words, stride, *_as_int32(n, width), columns), shared_mem=shared)
    step = max(32, width // _STRIP)
    for start in range(0, width, step):
        part = words[:, start : start + step]
        part[...] = part[columns[:n]]


def fill_component(words: Any, start: int, stop: int) -> None:
    """Replace the rows of a strong component by their union, and set all its columns where one bit is set."""
    row = reduction("or", _U32)(words[start:stop], axis=0)
    own = np.zeros(32 * words.shape[1], np.bool_)
    own[start:stop] = True
    row |= cupy.asarray(np.packbits(own, bitorder="little").view(_U32))
    words[start:stop] = row
    if start:
        _launch("fill_columns", (start,), words, np.int64(words.strides[0] // 4), *_as_int32(start, stop))


def _degrees(words: Any) -> tuple[Any, Any]:
    """Return the out-degree of each vertex, and whether an edge leads to an earlier vertex."""
    degrees, backward = cupy.zeros(len(words), _U32), cupy.zeros(1, _U32)
    _launch("out_degrees", (len(words),), *_matrix_arguments(words), degrees, backward)
    return degrees, backward


def _matrix_arguments(words: Any) -> tuple[Any, Any, Any]:
    return words, np.int64(words.strides[0] // 4), np.int32(words.shape[1])


def _as_int32(*values: int) -> tuple[Any, ...]:
    return tuple(map(np.int32, values))


def _launch(name: str, grid: tuple[int, ...], *parameters: Any) -> None:
    _kernel(name, 1, current_device())(grid, (_THREADS,), parameters)


@lru_cache(maxsize=64)
def _kernel(name: str, rows: int, device: int) -> Any:
    under_way = Compilation("closure of packed bits", "this GPU")
    function = _module(rows).get_function(name)
    under_way.finish(CACHED_SECONDS)
    return function


@lru_cache(maxsize=8)
def _module(rows: int) -> Any:
    text = Path(__file__).with_name("relations.cu").read_text("utf-8")
    return cupy.RawModule(code=text, options=("-std=c++17", f"-DROWS={rows}"), backend="nvrtc")


# -------------------------------------------------------------------------------------- closures by squares


def can_square(plan: KernelPlan, n: int) -> bool:
    """Return whether `close_by_squares` takes packed matrices of n rows: ⊕ is or, ⊗ is and, and every star is true."""
    if not _LEAST <= n <= _MOST or architecture(current_device()) != bit_kernels.TARGET:
        return False
    arithmetic = arithmetic_of(plan)
    call = call_for(plan, format_of(plan), accumulate=True)
    return bit_kernels.is_reachability(call) and arithmetic.star is None and arithmetic.divergence is None


def close_by_squares(plan: KernelPlan, A: Any) -> None:
    """Compute A ← A* in place for words (n, ⌈n/32⌉) of any row stride, enqueued on the current stream."""
    n = A.shape[0]
    changes = cupy.empty((n - 1).bit_length() + 1, np.uint32)
    _set_diagonal()(np.int64(A.strides[0] // 4), len(changes), cupy.ndarray((1,), np.uint32, A.data), changes, size=n)
    bit_products.square(A, changes)


@cache
def _set_diagonal() -> Any:
    return cupy.ElementwiseKernel(
        "int64 stride, int32 rounds",
        "raw uint32 A, raw uint32 changes",
        "A[i * stride + i / 32] |= 1u << i % 32; if (i < rounds) changes[i] = i == 0",
        "set_diagonal",
    )
