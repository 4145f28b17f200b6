"""Add, multiply and reduce sparse matrices entry by entry. The operands are sorted rows, so the cost is linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.compressed import Rows, row_numbers, sort_order
from semiring.arrays.encoding import round_to_dtype, to_compute_dtype
from semiring.arrays.folds import add_duplicates
from semiring.errors import ShapeError
from semiring.linalg.dispatch import demand_range, magnitudes, may_wrap, scanned_magnitude
from semiring.linalg.sparse_products import (
    make_sparse,
    read_sparse_operands,
    rows_of_entries,
)
from semiring.namespaces import array_namespace, shape_of

__all__ = ["add_sparse", "multiply_entries", "reduce_sparse"]

Array: TypeAlias = NDArray[Any]

#: ⊕ or ⊗ of two arrays of one dtype, entry by entry, with the checks of the dense functions.
Entrywise = Callable[[Any, Any], Any]


def add_sparse(A: Any, B: Any, semiring: Semiring, check: bool, device: Any, add: Entrywise) -> Any:
    """Return A ⊕ B of two sparse matrices, whose entries are those of both."""
    (left, right), _, dtype = read_sparse_operands(semiring, check, device, may_use_gpu=True, A=A, B=B)
    starts, columns, a, b = _align(left, right)
    both, values = (a >= 0) & (b >= 0), array_namespace(columns).empty(columns.size, dtype)
    values[a >= 0] = left.values[a[a >= 0]]
    values[b >= 0] = right.values[b[b >= 0]]
    values[both] = add(left.values[a[both]], right.values[b[both]])
    return make_sparse(Rows(starts, columns, values, left.shape), A, B)


def multiply_entries(A: Any, B: Any, semiring: Semiring, check: bool, device: Any, multiply: Entrywise) -> Any:
    """Return A ⊗ B entry by entry, for at least one sparse operand: the entries that every sparse operand stores.

    A dense operand broadcasts to the shape of the sparse one.
    """
    (left, right), _, _ = read_sparse_operands(semiring, check, device, may_use_gpu=True, A=A, B=B)
    if isinstance(left, Rows) and isinstance(right, Rows):
        starts, columns, a, b = _align(left, right)
        both = (a >= 0) & (b >= 0)
        xp = array_namespace(both)
        sums = xp.zeros(both.size + 1, np.int64)
        sums[1:] = xp.cumsum(both)
        starts, columns = sums[starts], columns[both]
        values = multiply(left.values[a[both]], right.values[b[both]])
        return make_sparse(Rows(starts, columns, values, left.shape), A, B)
    rows, dense = (left, right) if isinstance(left, Rows) else (right, left)
    try:
        factors: Any = dense
        if shape_of(dense):
            xp = array_namespace(dense)
            factors = xp.broadcast_to(dense, rows.shape)[rows_of_entries(rows), rows.columns]
    except ValueError:
        raise ShapeError(
            f"A is {left.shape}, B is {right.shape}: a dense operand broadcasts to the shape of the sparse one"
        ) from None
    values = multiply(rows.values, factors) if rows is left else multiply(factors, rows.values)
    return make_sparse(rows._replace(values=values), A, B)


def _align(A: Rows, B: Rows) -> tuple[Array, Array, Array, Array]:
    """Return the starts and columns of the entries of either matrix, and their places in A and in B, or -1."""
    if A.shape != B.shape:
        raise ShapeError(f"A is {A.shape}, B is {B.shape}: sparse matrices of two shapes are not added or multiplied")
    xp = array_namespace(A.columns)
    rows = xp.concatenate([rows_of_entries(A), rows_of_entries(B)])
    columns = xp.concatenate([A.columns, B.columns])
    if xp is np:
        order = sort_order(rows, columns, A.shape)
    else:
        from semiring.kernels.cuda.product import index_arrays

        order = index_arrays.sort_order(rows, columns, A.shape)
    rows, columns = rows[order], columns[order]
    heads = xp.ones(columns.size, bool)
    heads[1:] = (columns[1:] != columns[:-1]) | (rows[1:] != rows[:-1])
    numbers = xp.cumsum(heads) - 1
    is_left = order < A.columns.size
    places = xp.full((2, int(heads.sum())), -1)
    places[0, numbers[is_left]] = order[is_left]
    places[1, numbers[~is_left]] = order[~is_left] - A.columns.size
    starts = xp.searchsorted(rows[heads], xp.arange(A.starts.size))
    return starts, columns[heads], places[0], places[1]


def reduce_sparse(
    A: Any,
    semiring: Semiring,
    axes: tuple[int, ...],
    keepdims: bool,
    check: bool,
    device: Any,
    ufunc: np.ufunc | None,
) -> Any:
    """Return the ⊕ of the stored entries of a sparse matrix along axes, as an array or a number.

    ``ufunc`` is NumPy's function for ⊕, or None.
    """
    (rows,), (scan,), dtype = read_sparse_operands(semiring, check, device, A=A)
    m, n = rows.shape
    values = to_compute_dtype(rows.values, semiring)
    starts, size = rows.starts, m
    if axes == (0, 1):
        starts, size = np.array([0, values.size]), 1
    elif axes == (0,):
        order = sort_order(rows.columns, row_numbers(rows.starts), (n, m))
        starts, size, values = np.append(0, np.cumsum(np.bincount(rows.columns, minlength=n))), n, values[order]
    result = np.full(size, semiring.zero_for(values.dtype), values.dtype)
    filled = starts[1:] > starts[:-1]
    if may_wrap(semiring, dtype):
        most = scanned_magnitude(scan) * int(np.diff(starts).max(initial=0))
        sums: Callable[[], Any] = lambda: np.add.reduceat(magnitudes(values), starts[:-1][filled])  # noqa: E731
        demand_range(dtype, most, sums, "a sum of entries of A")
    if ufunc is not None and filled.any():
        result[filled] = ufunc.reduceat(values, starts[:-1][filled], dtype=values.dtype)
    elif filled.any():
        cells = np.repeat(np.arange(size), np.diff(starts))
        result[filled] = add_duplicates(cells, values.copy(), semiring)[1]
    result = np.asarray(round_to_dtype(result, dtype))
    if keepdims:
        return result.reshape([1 if axis in axes else length for axis, length in enumerate(rows.shape)])
    return result[0] if axes == (0, 1) else result
