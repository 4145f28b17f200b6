"""Validate, sort and measure the index arrays of sparse matrices on a GPU, by the kernels of index_arrays.cu."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, text_of
from semiring.kernels.cuda.closing.modules import current_device
from semiring.logs import CACHED_SECONDS, Compilation

_THREADS = 256
_MAX_BLOCKS = 2112  # of a scan, 16 for each multiprocessor of an H200
_TEAM = 8  # threads that read a row; LANES of the kernels
CLASSES = 7  # of rows by their number of pairs: up to 32, 64, …, 1,024, and more


def scan_indices(starts: Any, indices: Any, width: int, result: Any, wide: Any = None) -> None:
    """Enqueue the validation of compressed rows, starts (m + 1,) and indices, whose ``result`` is (3,) uint64.

    It becomes: 0 if all indices are valid; 0 if those of each row ascend strictly; the number of entries. ``result`` is
    0 before. ``wide`` (m + 1,) int64, if it is given, receives the starts.
    """
    m = starts.size - 1
    blocks = max(1, min(_MAX_BLOCKS, -(-max(m, indices.size) // (4 * _THREADS))))
    sizes = np.int64(m), np.int64(indices.size), np.int64(width)
    _kernel("scan_indices", starts.dtype.name, indices.dtype.name, current_device())(
        (blocks,), (_THREADS,), (*sizes, starts, indices, result, np.uint64(0) if wide is None else wide)
    )


def survey_places(rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[bool, bool, bool, bool]:
    """Return whether an index is negative, one is outside the shape, a place descends, and neighbours are equal.

    ``rows`` and ``columns`` (nnz,) are int32 or int64, the same. The call waits for the device.
    """
    result, count = cupy.zeros(1, np.uint32), rows.size
    if count:
        blocks = min(_MAX_BLOCKS, -(-count // (4 * _THREADS)))
        arguments = np.int64(count), np.int64(shape[0]), np.int64(shape[1]), rows, columns, result
        _kernel("survey_places", "int64", rows.dtype.name, current_device())((blocks,), (_THREADS,), arguments)
    flags = int(result[0])
    return bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8)


def row_numbers(starts: Any, size: int, dtype: Any = np.int64) -> Any:
    """Return the row of each of ``size`` entries (size,), from starts (m + 1,) int64."""
    rows, m = cupy.empty(size, dtype), starts.size - 1
    if m:
        _launch_on_rows("write_rows", rows.dtype.name, m, np.int64(m), starts, rows)
    return rows


def starts_of_rows(rows: Any, m: int) -> Any:
    """Return the starts (m + 1,) int64 of compressed rows, from the row of each entry, in ascending order."""
    return cupy.searchsorted(rows, cupy.arange(m + 1, dtype=rows.dtype)).astype(np.int64, copy=False)


def sort_order(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the stable order that sorts entries by row and then by column."""
    if shape[0] * shape[1] < 1 << 62:
        return cupy.argsort(rows.astype(np.int64) * shape[1] + columns)
    order = cupy.argsort(columns)
    return order[cupy.argsort(rows[order])]


def measure_rows(a_starts: Any, a_columns: Any, b_starts: Any) -> tuple[Any, Any, list[int]]:
    """Return the number of pairs of each row of A ⊗ B (m,) int64, the rows of each class, and their numbers.

    Class c of the rows is (CLASSES, m) int64, of which the first so many are set. The call waits for the device.
    """
    m = a_starts.size - 1
    pairs, lists = cupy.empty(m, np.int64), cupy.empty((CLASSES, m), np.int64)
    if not m:
        return pairs, lists, [0] * CLASSES
    sizes = cupy.zeros(CLASSES, np.uint64)
    _launch_on_rows(
        "measure_rows", a_columns.dtype.name, m, np.int64(m), a_starts, a_columns, b_starts, pairs, lists, sizes
    )
    return pairs, lists, sizes.get().tolist()


def are_included(rows: Any, columns: Any, starts: Any, excluded: Any) -> Any:
    """Return which positions, rows and columns of int64, are none of compressed rows with ascending columns."""
    result = cupy.empty(rows.size, np.bool_)
    if rows.size:
        kernel = _kernel("are_included", "int64", excluded.dtype.name, current_device())
        arguments = np.int64(rows.size), rows, columns, starts, excluded, result
        kernel((-(-rows.size // _THREADS),), (_THREADS,), arguments)
    return result


def _launch_on_rows(name: str, index: str, m: int, *arguments: Any) -> None:
    """Launch a kernel with a team of threads for each row."""
    _kernel(name, "int64", index, current_device())((-(-m * _TEAM // _THREADS),), (_THREADS,), arguments)


@lru_cache(maxsize=64)
def _kernel(name: str, start: str, index: str, device: int) -> Any:
    under_way = Compilation("validation of sparse matrices", "this GPU")
    function = _module(start, index).get_function(name)
    under_way.finish(CACHED_SECONDS)
    return function


@lru_cache(maxsize=8)
def _module(start: str, index: str) -> Any:
    return cupy.RawModule(code=source(start, index), options=("-std=c++17",), backend="nvrtc")


def source(start: str, index: str) -> str:
    """Return the text of the kernels for starts and indices of these dtypes."""
    return f"typedef {ELEMENTS[start]} start_t;\ntypedef {ELEMENTS[index]} index_t;\n{text_of('index_arrays.cu')}"
