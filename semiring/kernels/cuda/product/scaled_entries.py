"""Add Σ X · Y · exp(alpha + beta + gamma) over the entries of sparse matrices on a GPU, by scaled_entries.cu.

These are the gradients of products of a sparse and a dense matrix in log_plus. No call waits for the device, except to
sort places, and no two threads add into one entry. An index outside of a matrix has no term.

Where an entry of the operands occurs in many terms, its exponential is computed once, and terms are products. A kernel
finds on the device whether they stay within the range of the dtype. Otherwise each term takes the exponential of its
own exponent, so that no scale can overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, text_of
from semiring.kernels.cuda.closing.modules import current_device
from semiring.kernels.cuda.product.index_arrays import starts_of_rows
from semiring.logs import CACHED_SECONDS, Compilation

_THREADS = 256
_MAX_GRID = 65535  # blocks of the second and the third axis of a grid
_MAX_INT32 = 2**31 - 1
_MAX_BLOCKS = 2112  # of fold_exponents, 16 for each multiprocessor of an H200
_FOLDED = 4  # terms for each exponent of the operands from which on exponents are folded into factors
_AHEAD = 4  # entries of a team of add_scaled_entries; AHEAD of the kernels
_PACK_BYTES = 16  # of the most adjacent columns that a thread loads together
_LONG = 1024  # entries of the longest row that one team adds


def add_scaled_rows(X: Any, alpha: Any, places: Any, Y: Any, beta: Any, gamma: Any, shape: tuple[int, int]) -> Any:
    """Return R[b, p, q] = Σᵣ X[p, r] · Y[b, r, q] · exp(alpha[p, r] + beta[b, r, q] + gamma[b, p, q]).

    X and alpha (nnz,) are the entries of a sparse matrix of the ``shape`` (m, k) at places (2, nnz), in any order. Y
    and beta (b, k, n), and gamma (b, m, n), are dense, and b is 1 where they are the same for the whole stack.
    """
    (m, inner), n = shape, gamma.shape[-1]
    stack = max(len(beta), len(gamma))
    result = cupy.empty((stack, m, n), alpha.dtype)
    if not result.size:
        return result
    if not inner:
        result.fill(0)
        return result
    order = cupy.argsort(places[0])  # stable
    starts, columns = starts_of_rows(places[0][order], m), places[1][order]
    if inner < _MAX_INT32:
        columns = cupy.minimum(columns, inner).astype(np.int32)  # inner is outside too
    (X, x_step), (Y, y_step) = map(_read_factor, (X, Y))
    X, alpha, beta, gamma = X[order] if x_step else X, alpha[order], *map(cupy.ascontiguousarray, (beta, gamma))
    width = _pack_width(n, beta, gamma, *([Y] if y_step else []))
    lanes = min(32, 1 << (-(-n // width) - 1).bit_length())
    blocks = -(-m * lanes // _THREADS), min(_MAX_GRID, -(-n // (lanes * width)))
    number, index = alpha.dtype.name, columns.dtype.name
    terms = stack * alpha.size * n

    def launch(X: Any, Y: Any, steps: tuple[int, int], is_folded: bool, is_far: Any) -> None:
        kernel = _kernel("add_scaled_rows", number, index, (lanes, width, *steps, int(is_folded)), current_device())
        for part in _parts(stack):
            own_Y, own_beta, own_gamma = Y if not steps[1] else _take(Y, part), _take(beta, part), _take(gamma, part)
            own = result[part]
            arrays = starts, columns, X, alpha, own_Y, own_beta, own_gamma, own
            numbers = *map(_stride, (beta, gamma)), is_far
            kernel((*blocks, len(own)), (_THREADS,), (*map(np.int64, (m, inner, n)), *arrays, *numbers))

    _fold_and_launch(launch, ((X, alpha, x_step), (Y, beta, y_step)), terms)
    return result


def add_scaled_entries(X: Any, alpha: Any, Y: Any, beta: Any, gamma: Any, places: Any) -> Any:
    """Return R[b, e] = Σᵣ X[b, p, r] · Y[b, q, r] · exp(alpha[b, p, r] + beta[b, q, r] + gamma[b, e]).

    (p, q) are the places (2, nnz) of the entries e. X and alpha (b, m, k), Y and beta (b, n, k) are dense, and gamma is
    (b, nnz). b is 1 where they are the same for the whole stack.
    """
    (m, inner), n, count = alpha.shape[1:], beta.shape[1], gamma.shape[-1]
    stack = max(map(len, (alpha, beta, gamma)))
    result = cupy.empty((stack, count), alpha.dtype)
    if not result.size:
        return result
    if not (m and n):
        result.fill(0)
        return result
    rows, columns = map(cupy.ascontiguousarray, places)
    (X, x_step), (Y, y_step) = map(_read_factor, (X, Y))
    alpha, beta, gamma = map(cupy.ascontiguousarray, (alpha, beta, gamma))
    factors = [x for x, step in ((X, x_step), (Y, y_step)) if step]
    width = _pack_width(inner, alpha, beta, *factors)
    lanes = min(32, 1 << (max(1, -(-inner // width)) - 1).bit_length())
    number, index = alpha.dtype.name, columns.dtype.name
    blocks = -(-count * lanes // (_THREADS * _AHEAD)), 1

    def launch(X: Any, Y: Any, steps: tuple[int, int], is_folded: bool, is_far: Any) -> None:
        kernel = _kernel("add_scaled_entries", number, index, (lanes, width, *steps, int(is_folded)), current_device())
        for part in _parts(stack):
            own_X, own_Y = (x if not step else _take(x, part) for x, step in zip((X, Y), steps, strict=True))
            own = result[part]
            arrays = rows, columns, own_X, _take(alpha, part), own_Y, _take(beta, part), _take(gamma, part), own
            numbers = *map(_stride, (alpha, beta, gamma)), is_far
            kernel((*blocks, len(own)), (_THREADS,), (*map(np.int64, (count, m, inner, n)), *arrays, *numbers))

    _fold_and_launch(launch, ((X, alpha, x_step), (Y, beta, y_step)), stack * count * inner)
    return result


def _fold_and_launch(launch: Callable[..., None], pairs: tuple[tuple[Any, Any, int], ...], terms: int) -> None:
    """Launch a kernel for factors with exponents and steps; if there are many terms, with the exponents folded.

    Then two kernels are enqueued, and one of them does nothing: see FOLDED in scaled_entries.cu.
    """
    (X, alpha, x_step), (Y, beta, y_step) = pairs
    if terms < _FOLDED * (alpha.size + beta.size):
        launch(X, Y, (x_step, y_step), False, np.uint64(0))
        return
    is_far, folded = cupy.zeros(1, np.uint32), []
    for factors, exponents, step in pairs:
        result = cupy.empty(exponents.shape, exponents.dtype)
        blocks = max(1, min(_MAX_BLOCKS, -(-exponents.size // (4 * _THREADS))))
        kernel = _kernel("fold_exponents", exponents.dtype.name, "int32", (1, 1, 1, 1, 0), current_device())
        given = np.int64(exponents.size), factors, exponents, result, np.int32(step), is_far
        kernel((blocks,), (_THREADS,), given)
        folded.append(result)
    launch(*folded, (1, 1), True, is_far)
    launch(X, Y, (x_step, y_step), False, is_far)


def _read_factor(x: Any) -> tuple[Any, int]:
    """Return an array and 1, or of an array that repeats one number this number and 0, the step to the next one."""
    if x.size and not any(stride for stride, size in zip(x.strides, x.shape, strict=True) if size > 1):
        return x.reshape(-1)[:1] if x.size == 1 else x[(0,) * x.ndim].reshape(1), 0
    return cupy.ascontiguousarray(x), 1


def _pack_width(size: int, *arrays: Any) -> int:
    """Return how many adjacent columns, of ``size``, a thread loads together from each of the arrays."""
    itemsize = int(arrays[0].itemsize)
    width = _PACK_BYTES // itemsize
    while width > 1 and (size % width or any(x.data.ptr % (width * itemsize) for x in arrays)):
        width //= 2
    return width


def _parts(stack: int) -> list[slice]:
    return [slice(first, first + _MAX_GRID) for first in range(0, stack, _MAX_GRID)]


def _take(x: Any, part: slice) -> Any:
    """Return a part of a stack, or the only matrix that stands for all."""
    return x if len(x) == 1 else x[part]


def _stride(x: Any) -> Any:
    """Return the elements from one matrix of a stack to the next one, 0 for an only matrix."""
    return np.int64(0 if len(x) == 1 else x[0].size)


@lru_cache(maxsize=64)
def _kernel(name: str, number: str, index: str, sizes: tuple[int, ...], device: int) -> Any:
    under_way = Compilation("gradients of sparse products", "this GPU")
    function = _module(number, index, sizes).get_function(name)
    under_way.finish(CACHED_SECONDS)
    return function


@lru_cache(maxsize=32)
def _module(number: str, index: str, sizes: tuple[int, ...]) -> Any:
    return cupy.RawModule(code=source(number, index, sizes), options=("-std=c++17",), backend="nvrtc")


def source(number: str, index: str, sizes: tuple[int, ...]) -> str:
    """Return the text of the kernels for entries and indices of these dtypes.

    The sizes are the threads of a team, the adjacent columns that a thread loads together, the steps of X and of Y, and
    whether exponents are folded.
    """
    types = f"typedef {ELEMENTS[number]} number;\ntypedef {ELEMENTS[index]} index_t;\n#define LONG {_LONG}\n"
    names = "LANES", "VECTOR", "X_STEP", "Y_STEP", "FOLDED"
    defines = "".join(f"#define {name} {size}\n" for name, size in zip(names, sizes, strict=True))
    return f"{types}{defines}{text_of('scaled_entries.cu')}"
