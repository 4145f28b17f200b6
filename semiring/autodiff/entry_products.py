"""Multiply a sparse matrix, given by its entries, by dense matrices, for `semiring.torch` and `semiring.jax`.

The entries are values (..., nnz) at ``rows`` and ``columns`` (..., nnz), in any order. Positions beyond the shape, with
which JAX fills the arrays of BCOO, are no entries. An entry that is stored twice counts twice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.arrays.compressed import Rows, sort_order
from semiring.errors import ShapeError
from semiring.linalg.sparse_products import multiply_rows

__all__ = ["entry_product", "entry_product_with_places"]

Array: TypeAlias = NDArray[Any]


def entry_product(
    values: Array, rows: Array, columns: Array, B: Array, size: int, semiring: Semiring, check: bool
) -> Array:
    """Return A ⊗ B (..., size, n) for a sparse A of ``size`` rows and B (..., k, n); leading dimensions broadcast."""
    return _multiply(values, rows, columns, B, size, semiring, check, has_places=False)[0]


def entry_product_with_places(
    values: Array, rows: Array, columns: Array, B: Array, size: int, semiring: Semiring, check: bool
) -> tuple[Array, Array]:
    """Return `entry_product`, and int32 (..., size, n): the place of the entry of A that attains each entry, or -1.

    Of several such entries it is the one with the smallest column.
    """
    C, places = _multiply(values, rows, columns, B, size, semiring, check, has_places=True)
    assert places is not None
    return C, places


def _multiply(
    values: Array, rows: Array, columns: Array, B: Array, size: int, semiring: Semiring, check: bool, has_places: bool
) -> tuple[Array, Array | None]:
    """Return the products of all matrices of the batch, and the places."""
    options: Any = {"size": size, "semiring": semiring, "check": check, "has_places": has_places}
    batch = np.broadcast_shapes(values.shape[:-1], B.shape[:-2])
    shape = (*batch, size, B.shape[-1])
    if values.size == values.shape[-1]:  # one matrix
        product, places = _multiply_one(values.reshape(-1), rows.reshape(-1), columns.reshape(-1), B, **options)
        return product.reshape(shape), None if places is None else places.reshape(shape)
    C, found = np.empty(shape, values.dtype), np.empty(shape, np.int32) if has_places else None
    values, rows, columns = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (values, rows, columns))
    B = np.broadcast_to(B, (*batch, *B.shape[-2:]))
    for index in np.ndindex(batch):
        C[index], places = _multiply_one(values[index], rows[index], columns[index], B[index], **options)
        if found is not None:
            found[index] = places
    return C, found


def _multiply_one(
    values: Array, rows: Array, columns: Array, B: Array, size: int, semiring: Semiring, check: bool, has_places: bool
) -> tuple[Array, Array | None]:
    """Return the product of one sparse matrix with B (..., k, n), and the places."""
    width = B.shape[-2]
    if rows.size and (rows.min() < 0 or columns.min() < 0):
        raise ShapeError("an index of A is negative")
    order = np.flatnonzero((rows < size) & (columns < width))
    i, k = rows[order], columns[order]
    if not ((i[1:] > i[:-1]) | ((i[1:] == i[:-1]) & (k[1:] >= k[:-1]))).all():
        order = order[sort_order(i, k, (size, width))]
    starts = np.append(0, np.cumsum(np.bincount(rows[order], minlength=size)))
    A = Rows(starts, columns[order].astype(np.int32), np.ascontiguousarray(values[order]), (size, width))
    C: Any
    C, found = multiply_rows(A, B, semiring, check=check, has_entries=has_places)
    places: Array | None = None
    if found is not None:
        places = np.append(order, -1)[np.asarray(found)].astype(np.int32)  # -1 stays -1
    return C, places
