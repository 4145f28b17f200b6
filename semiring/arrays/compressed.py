"""Read SciPy sparse matrices as compressed rows, and make SciPy sparse matrices of results."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arguments import as_numbers
from semiring.arrays.folds import add_duplicates
from semiring.arrays.memory import demand_memory
from semiring.arrays.sparse import check_sparse, is_ascending, is_sparse, stored_entries, warn_of_duplicates
from semiring.arrays.tensors import as_sparse_array, is_sparse_tensor, sparse_like
from semiring.errors import DTypeError, ShapeError
from semiring.namespaces import array_namespace, is_device_array

__all__ = [
    "Rows",
    "as_rows",
    "as_sparse",
    "every_entry",
    "mask_rows",
    "narrow_rows",
    "read_mask",
    "row_numbers",
    "sort_order",
]

Array: TypeAlias = NDArray[Any]

_MAX_INT32 = 2**31 - 1


class Rows(NamedTuple):
    """A sparse matrix by rows, with ascending columns that occur once in each row.

    The entries of row i are starts[i] … starts[i + 1] - 1. ``starts`` (m + 1,) is int64. ``columns`` (nnz,) is int32 if
    the width permits it, else int64.
    """

    starts: Array
    columns: Array
    values: Any
    shape: tuple[int, int]

    @property
    def ndim(self) -> int:
        """The number of dimensions, as of an array."""
        return 2


def row_numbers(starts: Array) -> Array:
    """Return the row of each entry."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def as_rows(x: Any, semiring: Semiring, name: str = "A") -> Rows:
    """Return the stored entries of a SciPy sparse matrix by rows, where ⊕ has added duplicates, with a warning.

    The values keep their dtype, and may share the memory of x, which is not changed. Raises `ShapeError` for invalid
    index arrays, and `TooLargeError` if an array of all rows does not fit. The cost is linear.
    """
    starts, columns, values, heads = _sort_rows(x, name)
    if heads is not None:
        _, values = add_duplicates(np.cumsum(heads), values, semiring)
        starts, columns = np.append(0, np.cumsum(heads))[starts], columns[heads]
        warn_of_duplicates(semiring, name)
    return Rows(starts, columns, np.ascontiguousarray(values), x.shape)


def mask_rows(mask: Any, shape: tuple[int, int]) -> Rows:
    """Return the pattern of a mask: the stored entries of a sparse matrix, or the True entries of a bool array.

    The values are None. Raises `DTypeError` and `ShapeError` as `read_mask`.
    """
    array = read_mask(mask, shape)
    if not is_sparse(array):
        rows, columns = np.nonzero(array)
        starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(np.int64)
        return Rows(starts, _narrow(columns, shape[1]), None, shape)
    starts, columns, _, heads = _sort_rows(array, "mask")
    if heads is not None:
        starts, columns = np.append(0, np.cumsum(heads))[starts], columns[heads]
    return Rows(starts, columns, None, shape)


def read_mask(mask: Any, shape: tuple[int, ...]) -> Any:
    """Return a sparse mask as it is, and any other one as an array of bool.

    Raises `DTypeError` for a dense mask that is not bool, and `ShapeError` for a shape that is not that of the product.
    """
    mask = as_sparse_array(mask, "mask") if is_sparse_tensor(mask) else mask
    array = mask if is_sparse(mask) else as_numbers(mask, "mask")
    if not is_sparse(mask) and array.dtype != np.bool_:
        raise DTypeError(
            f"mask has dtype {array.dtype}: pass truth values, such as mask != 0, or a sparse matrix, whose stored "
            "entries are the mask"
        )
    if array.shape != shape:
        raise ShapeError(
            f"mask is {array.shape}, the product is {shape}: pass a mask of the shape of the product"
            + (", an array of bool" if is_sparse(mask) and len(shape) == 1 else "")
        )
    return array


def every_entry(matrix: Array) -> Rows:
    """Return a dense matrix by rows, every entry stored. It takes 1.5 times the memory of the matrix in float64."""
    (m, n), xp = matrix.shape, array_namespace(matrix)
    size, subject = m * n * (4 + matrix.itemsize), f"a dense operand {matrix.shape} by rows"
    demand_memory(size, subject, "store it sparse", is_on_device=is_device_array(matrix))
    columns = xp.tile(xp.arange(n, dtype=np.int32 if n <= _MAX_INT32 else np.int64), m)
    return Rows(xp.arange(m + 1, dtype=np.int64) * n, columns, matrix.reshape(-1), (m, n))


def as_sparse(rows: Rows, *like: Any) -> Any:
    """Return a sparse matrix of the class of the first one among ``like``, by default a `csr_array`.

    csr, csc and coo keep their format, and the other formats become csr. Indices are int32 where they fit, else int64.
    For a sparse tensor the result is one of its library and layout.
    """
    from scipy.sparse import csr_array, csr_matrix, sparray

    first = next((x for x in like if is_sparse(x) or is_sparse_tensor(x)), None)
    if is_sparse_tensor(first):
        return sparse_like(rows.starts, rows.columns, rows.values, rows.shape, first)
    small = max(rows.columns.size, *rows.shape) <= _MAX_INT32
    index = np.int32 if small else np.int64
    kind: Any = csr_array if first is None or isinstance(first, sparray) else csr_matrix
    indices, starts = rows.columns.astype(index, copy=False), rows.starts.astype(index)
    result = kind((rows.values, indices, starts), shape=rows.shape)
    result.has_sorted_indices = result.has_canonical_format = True
    if first is None or first.format not in ("csc", "coo"):
        return result
    return result.asformat(first.format, copy=False)


def narrow_rows(starts: Array, columns: Array, values: Any, shape: tuple[int, int]) -> Rows:
    """Return arrays of sorted rows as `Rows`, in the dtypes of their indices."""
    return Rows(starts.astype(np.int64, copy=False), _narrow(columns, shape[1]), values, shape)


def _narrow(columns: Array, width: int) -> Array:
    """Return columns of a matrix in the dtype of `Rows`."""
    return np.ascontiguousarray(columns, np.int32 if width <= _MAX_INT32 else np.int64)


def _sort_rows(x: Any, name: str) -> tuple[Array, Array, Array, Array | None]:
    """Return the starts, columns and values of a sparse matrix by row and column; duplicates stay in their order.

    The last result tells whether each entry is the first at its position. It is None if no position occurs twice.
    """
    check_sparse(x, name)
    m, n = x.shape
    demand_memory(8 * (m + 1), f"{name}, a sparse matrix of {m:,} rows, by rows", "remove the empty rows")
    if x.format == "csr":
        starts, count = x.indptr.astype(np.int64, copy=False), int(x.indptr[-1])
        columns, values = _narrow(x.indices[:count], n), x.data[:count]
        if is_ascending(starts, columns):
            return starts, columns, values, None
        rows = row_numbers(starts)
    else:
        rows, columns, values = stored_entries(x)
        starts = np.zeros(m + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=m), out=starts[1:])
    order = sort_order(rows, columns, (m, n))
    columns = _narrow(columns[order], n)
    return starts, columns, values[order], _first_entries(starts, columns)


def sort_order(rows: Array, columns: Array, shape: tuple[int, int]) -> Array:
    """Return the stable order that sorts entries by row and then by column: two transpositions."""
    order = _bucket_order(columns, shape[1])
    return order[_bucket_order(rows[order], shape[0])]


def _bucket_order(keys: Array, size: int) -> Array:
    """Return the stable order that sorts keys below ``size``, in linear time if there are not many more keys."""
    if size > 8 * keys.size:
        return np.argsort(keys, kind="stable")
    from scipy.sparse import coo_array

    places = np.arange(keys.size)
    order: Array = coo_array((places, (keys, places)), shape=(size, keys.size)).tocsr().data
    return order


def _first_entries(starts: Array, columns: Array) -> Array | None:
    """Return whether each entry of sorted rows is the first at its position, or None if rows ascend strictly."""
    if is_ascending(starts, columns):
        return None
    heads = np.ones(columns.size, bool)
    heads[1:] = columns[1:] != columns[:-1]
    heads[starts[:-1][starts[:-1] < columns.size]] = True
    return heads
