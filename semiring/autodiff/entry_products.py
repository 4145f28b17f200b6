"""Multiply sparse matrices, given by their entries, for `semiring.torch` and `semiring.jax`.

Each of A (m, k), B (k, n) and the result (m, n) is a dense matrix (..., rows, columns), or the values (..., nnz) of
entries at places (..., 2, nnz): their rows, and their columns, in any order. Positions beyond the shape, with which JAX
fills the arrays of BCOO, are no entries. ⊕ adds entries of an operand that are stored twice. Every listed place of the
result gets its value. The arrays are those of NumPy or CuPy. Leading dimensions broadcast.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import log_plus, plus_times
from semiring.arrays.compressed import Rows, sort_order
from semiring.arrays.folds import add_duplicates
from semiring.autodiff.scaled_products import MAX_SCALE_EXPONENT
from semiring.errors import ShapeError
from semiring.linalg.sparse_products import multiply_rows
from semiring.namespaces import Array, array_namespace, is_device_array

__all__ = ["entry_product", "entry_product_with_places", "entry_scaled_product"]


def entry_product(
    A: Array,
    B: Array,
    A_places: Array | None,
    B_places: Array | None,
    C_places: Array | None,
    rows: int,
    inner: int,
    columns: int,
    semiring: Semiring,
    check: bool,
    is_padded: bool,
) -> Array:
    """Return A ⊗ B, (..., rows, columns) or its values at ``C_places``, the zero where no pair of entries meets.

    ``rows``, ``inner`` and ``columns`` are m, k and n. Raises `ShapeError` for negative positions, and for positions
    beyond the shape unless ``is_padded``.
    """
    forms = _Forms((A, B), (A_places, B_places, C_places), (rows, inner, columns), is_padded)
    return forms.multiply((A, B), semiring, check, has_places=False)[0]


def entry_product_with_places(
    A: Array,
    B: Array,
    A_places: Array | None,
    B_places: Array | None,
    C_places: Array | None,
    rows: int,
    inner: int,
    columns: int,
    semiring: Semiring,
    check: bool,
    is_padded: bool,
) -> tuple[Array, Array, Array]:
    """Return `entry_product`, and int32 of its shape: the entry of A and the entry of B that attain each value, or -1.

    For a dense A the second result is k. The third result is empty, (..., 0), for a dense B. Of several pairs that
    attain a value it is the one with the smallest k, and of entries that are stored twice the first.
    """
    forms = _Forms((A, B), (A_places, B_places, C_places), (rows, inner, columns), is_padded)
    C, from_A, from_B = forms.multiply((A, B), semiring, check, has_places=True)
    return C, from_A, from_B


def entry_scaled_product(
    X: Array,
    alpha: Array,
    Y: Array,
    beta: Array,
    gamma: Array,
    A_places: Array | None,
    B_places: Array | None,
    C_places: Array | None,
    rows: int,
    inner: int,
    columns: int,
) -> Any:
    """Return R[p, q] = Σᵣ X[p, r] · Y[r, q] · exp(alpha[p, r] + beta[r, q] + gamma[p, q]) at the places of the result.

    X and alpha have the form of A, Y and beta that of B, and gamma that of the result. Exponents are below ∞.
    Entries that are stored twice are added. The result has the dtype of X, and the computation is in float64.

    It is a product in plus_times of mantissas that are scaled by the largest exponent of each row and column, as
    `semiring.autodiff.scaled_products`. Where exponents spread further than the range of float64, products in log_plus
    of the positive and of the negative parts give the values. On a GPU one kernel adds the terms of a sparse and a
    dense operand, and those of dense operands at places, each with its own exponent, which is in the dtype of X.
    """
    if is_device_array(X):
        found = _add_terms_on_device((X, alpha, Y, beta, gamma), (A_places, B_places, C_places), (rows, inner, columns))
        if found is not None:
            return found
    xp, places, shapes = array_namespace(X), (A_places, B_places, C_places), ((rows, inner), (inner, columns))
    forms = _Forms((X, Y), places, (rows, inner, columns), True)
    left, right = ([xp.asarray(x, dtype=np.float64) for x in pair] for pair in ((X, alpha), (Y, beta)))
    gamma, shifts, mantissas = xp.asarray(gamma, dtype=np.float64), [], []
    for axis, ((mantissa, exponents), place, shape) in enumerate(zip((left, right), places, shapes, strict=False)):
        shift = _largest_exponents(xp, exponents, place, shape, axis)
        scaled = exponents - _along(xp, shift, place, axis)
        mantissas.append(xp.where(scaled == -np.inf, 0.0, mantissa * xp.exp(scaled)))
        shifts.append(_along(xp, shift, C_places, axis))
    product = forms.multiply((mantissas[0], mantissas[1]), plus_times, False, has_places=False)[0]
    exponents = gamma + shifts[0] + shifts[1]
    is_far = exponents > MAX_SCALE_EXPONENT
    result = xp.where(product == 0, 0.0, product * xp.exp(xp.where(is_far, 0.0, exponents)))
    if is_far.any():
        result = xp.where(is_far, _multiply_logarithms(xp, forms, left, right, gamma), result)
    return result.astype(X.dtype)


def _add_terms_on_device(
    arrays: tuple[Array, ...], places: tuple[Array | None, ...], sizes: tuple[int, int, int]
) -> Any | None:
    """Return `entry_scaled_product` for one list of places, that of A, of B or of the result, or None."""
    from semiring.kernels.cuda.product.scaled_entries import add_scaled_entries, add_scaled_rows

    (X, alpha, Y, beta, gamma), (m, k, n), xp = arrays, sizes, array_namespace(arrays[0])
    given = [place for place in places if place is not None]
    dtypes = {x.dtype for x in arrays}
    if len(given) != 1 or prod(given[0].shape[:-2]) != 1 or len(dtypes) > 1 or X.dtype not in (np.float32, np.float64):
        return None
    place = given[0].reshape(2, -1)
    place = place if place.dtype in (np.int32, np.int64) else place.astype(np.int64)
    if places[1] is not None:  # the transpose of the result is Bᵀ ⊗ Aᵀ
        swapped = tuple(x if x.ndim == 1 else x.swapaxes(-1, -2) for x in (X, alpha, gamma))
        turned = Y, beta, swapped[0], swapped[1], swapped[2]
        found = _add_terms_on_device(turned, (places[1][..., [1, 0], :], None, None), (n, k, m))
        return None if found is None else found.swapaxes(-1, -2)
    ranks = (1, 1, 2, 2, 2) if places[2] is None else (2, 2, 2, 2, 1)  # the dimensions beside those of the batch
    leads = [x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)]
    batch = np.broadcast_shapes(*leads)
    if not prod(batch) or (places[2] is None and prod(leads[0]) * prod(leads[1]) != 1):
        return None  # no matrix, or a sparse matrix of other values for each one of the stack
    stacks = []
    for x, rank, group in zip(arrays, ranks, (leads[:2], leads[:2], leads[2:4], leads[2:4], leads[4:]), strict=True):
        tail = x.shape[x.ndim - rank :]
        is_one = prod(prod(lead) for lead in group) == 1
        stacks.append(x.reshape(1, *tail) if is_one else xp.broadcast_to(x, (*batch, *tail)).reshape(-1, *tail))
    X, alpha, Y, beta, gamma = stacks
    if places[2] is None:
        result = add_scaled_rows(X[0], alpha[0], place, Y, beta, gamma, (m, k))
    else:
        result = add_scaled_entries(X, alpha, Y.swapaxes(-1, -2), beta.swapaxes(-1, -2), gamma, place)
    return result.reshape(*batch, *result.shape[1:])


def _largest_exponents(xp: Any, exponents: Array, places: Array | None, shape: tuple[int, int], axis: int) -> Any:
    """Return the largest exponents of the rows (axis 0) or columns (axis 1) of an operand, with 0 in place of -∞."""
    if places is None:
        if not exponents.shape[-1 if axis == 0 else -2]:
            return xp.zeros((*exponents.shape[:-2], shape[axis]))
        largest = exponents.max(axis=-1 if axis == 0 else -2)
    else:
        m, n = shape
        is_entry = (places[..., 0, :] < m) & (places[..., 1, :] < n)
        ends = xp.where(is_entry, places[..., axis, :], shape[axis])
        lead = np.broadcast_shapes(exponents.shape[:-1], ends.shape[:-1])
        count, size = prod(lead), shape[axis] + 1
        flat, ends = (xp.broadcast_to(x, (*lead, x.shape[-1])).reshape(count, -1) for x in (exponents, ends))
        largest = xp.full((count, size), -np.inf)
        xp.maximum.at(largest, (xp.arange(count)[:, None], ends), flat)
        largest = largest[:, :-1].reshape(*lead, size - 1)
    return xp.where(largest == -np.inf, 0.0, largest)


def _along(xp: Any, shift: Array, places: Array | None, axis: int) -> Any:
    """Return a number of each row or column for each entry of a matrix or for each place."""
    if places is None:
        return shift[..., :, None] if axis == 0 else shift[..., None, :]
    ends = xp.minimum(places[..., axis, :], max(0, shift.shape[-1] - 1))
    lead = np.broadcast_shapes(shift.shape[:-1], ends.shape[:-1])
    whole, ends = (xp.broadcast_to(x, (*lead, x.shape[-1])) for x in (shift, ends))
    return xp.take_along_axis(whole, ends, -1)


def _multiply_logarithms(xp: Any, forms: _Forms, left: list[Array], right: list[Array], gamma: Array) -> Any:
    """Return a scaled product as a sum of exponentials of products in log_plus."""
    result: Any = 0.0
    for x_sign, x in _logarithms(xp, *left):
        for y_sign, y in _logarithms(xp, *right):
            logarithms = forms.multiply((x, y), log_plus, False, has_places=False)[0]
            result = result + x_sign * y_sign * xp.exp(xp.where(logarithms == -np.inf, -np.inf, logarithms + gamma))
    return result


def _logarithms(xp: Any, mantissas: Array, exponents: Array) -> list[tuple[int, Array]]:
    """Return the signs and the logarithms of the positive and of the negative mantissas, each if there are any."""
    parts = []
    with np.errstate(divide="ignore"):
        for sign in (1, -1):
            part = xp.maximum(sign * mantissas, 0.0)
            if not (part == 0).all():  # a NaN counts
                parts.append((sign, xp.where(part == 0, -np.inf, xp.log(part) + exponents)))
    return parts


class _SortedEntries:
    """The entries of one sparse matrix by rows, with ascending columns, and unless they may repeat each one once."""

    def __init__(self, places: Array, shape: tuple[int, int], name: str, is_padded: bool, may_repeat: bool) -> None:
        if places.dtype not in (np.int32, np.int64):
            places = places.astype(np.int64)
        xp, (m, n), (i, k) = array_namespace(places), shape, places
        self.count = i.size
        is_negative, is_outside, descends, repeats = _survey_places(i, k, shape)
        if is_negative:
            raise ShapeError(f"an index of {name} is negative: indices are positions from 0 on")
        if is_outside and not is_padded:
            raise ShapeError(f"an index of {name} is outside its shape {shape}: rows are below {m}, columns below {n}")
        #: The places in their order, without those beyond the shape, or None if that is all places as they are.
        self.order: Any = None
        if is_outside:
            self.order = xp.flatnonzero((i < m) & (k < n))
            i, k = i[self.order], k[self.order]
            _, _, descends, repeats = _survey_places(i, k, shape)
        if descends:
            order = _sort_order(i, k, shape)
            self.order = order if self.order is None else self.order[order]
            i, k = i[order], k[order]
        #: The position of each sorted entry among the distinct ones, or None if each one counts as distinct.
        self.groups: Any = None
        if (descends or repeats) and not may_repeat:
            is_first = xp.ones(i.size, np.bool_)
            is_first[1:] = (i[1:] != i[:-1]) | (k[1:] != k[:-1])
            if not is_first.all():
                self.groups = xp.cumsum(is_first) - 1
                i, k = i[is_first], k[is_first]
        self.rows, self.columns = i, k
        k = xp.ascontiguousarray(k.astype(np.int32 if n < 2**31 else np.int64, copy=False))
        self.pattern = Rows(_starts_of_rows(i, m), k, None, shape)

    def distinct(self, values: Array, semiring: Semiring) -> Array:
        """Return the values of the distinct positions, where ⊕ has added."""
        kept: Any = values if self.order is None else values[self.order]
        if self.groups is not None:  # the copy is overwritten
            kept = add_duplicates(self.groups, kept.copy() if self.order is None else kept, semiring)[1]
        result: Array = kept
        return result

    def attaining(self, values: Array, sums: Array) -> Any:
        """Return for each distinct position the first of its entries whose value is the sum.

        The result is None if each position is that of its entry.
        """
        if self.groups is None:
            return self.order
        xp = array_namespace(values)
        order = xp.arange(self.count) if self.order is None else self.order
        attained = xp.flatnonzero(values[order] == sums[self.groups])
        groups = self.groups[attained]
        is_first = xp.ones(groups.size, np.bool_)
        is_first[1:] = groups[1:] != groups[:-1]
        result = xp.full(sums.size, -1, np.int64)
        result[groups[is_first]] = order[attained[is_first]]
        return result

    def find(self, rows: Array, columns: Array) -> Array:
        """Return the distinct position of each pair of a row and a column that is stored."""
        xp, width = array_namespace(rows), self.pattern.shape[1]
        keys = self.rows.astype(np.int64) * width + self.columns
        found: Array = xp.searchsorted(keys, rows.astype(np.int64) * width + columns)
        return found

    def spread(self, values: Array, missing: Any) -> Any:
        """Return the values of distinct positions for every listed place, ``missing`` for places beyond the shape."""
        spread: Any = values if self.groups is None else values[self.groups]
        if self.order is None:
            return spread
        result = array_namespace(values).full(self.count, missing, values.dtype)
        result[self.order] = spread
        return result


def _survey_places(i: Array, k: Array, shape: tuple[int, int]) -> tuple[bool, bool, bool, bool]:
    """Return whether an index is negative, one is outside the shape, a place descends, and neighbours are equal."""
    if is_device_array(i):
        from semiring.kernels.cuda.product.index_arrays import survey_places

        xp = array_namespace(i)
        return survey_places(xp.ascontiguousarray(i), xp.ascontiguousarray(k), shape)
    if not i.size:
        return False, False, False, False
    is_equal = i[1:] == i[:-1]
    descends = (i[1:] < i[:-1]) | (is_equal & (k[1:] < k[:-1]))
    repeats = is_equal & (k[1:] == k[:-1])
    is_outside = i.max() >= shape[0] or k.max() >= shape[1]
    return bool(i.min() < 0 or k.min() < 0), bool(is_outside), bool(descends.any()), bool(repeats.any())


def _sort_order(i: Array, k: Array, shape: tuple[int, int]) -> Any:
    """Return the stable order that sorts places by row and then by column."""
    if not is_device_array(i):
        return sort_order(i, k, shape)  # type: ignore[arg-type]  # arrays of NumPy
    from semiring.kernels.cuda.product import index_arrays

    return index_arrays.sort_order(i, k, shape)


def _starts_of_rows(i: Array, m: int) -> Any:
    """Return the starts (m + 1,) int64 of rows, from the ascending row of each entry."""
    xp: Any = array_namespace(i)
    if xp is not np:
        from semiring.kernels.cuda.product import index_arrays

        return index_arrays.starts_of_rows(i, m)
    starts = np.zeros(m + 1, np.int64)
    starts[1:] = np.cumsum(np.bincount(np.asarray(i), minlength=m))
    return starts


class _Forms:
    """The places of the operands and of the result of a stack of products, each sorted once."""

    def __init__(
        self,
        operands: tuple[Array, Array],
        places: tuple[Array | None, ...],
        sizes: tuple[int, int, int],
        is_padded: bool,
    ) -> None:
        m, k, n = sizes
        self.places, self.is_padded = places, is_padded
        self.shapes = (m, k), (k, n), (m, n)
        self.batch = np.broadcast_shapes(
            *(x.shape[: -1 - (place is None)] for x, place in zip(operands, places, strict=False)),
            *(place.shape[:-2] for place in places if place is not None),
        )
        self.tail: tuple[int, ...] = (m, n) if places[2] is None else places[2].shape[-1:]
        self._read: dict[Any, _SortedEntries] = {}

    def multiply(
        self, operands: tuple[Array, Array], semiring: Semiring, check: bool, *, has_places: bool
    ) -> list[Array]:
        """Return the product of each pair of matrices, and with ``has_places`` the entries that attain its values."""
        xp, batch, options = array_namespace(operands[0]), self.batch, (semiring, check, has_places)
        (A, B), (A_places, B_places, C_places) = operands, self.places
        kinds: list[Any] = [
            (self.tail, A.dtype),
            (self.tail, np.int32),
            (self.tail if B_places is not None else (0,), np.int32),
        ]
        kinds = kinds if has_places else kinds[:1]
        is_one = A_places is not None and prod(A.shape[:-1]) == prod(A_places.shape[:-2]) == 1
        if is_one and B_places is None and C_places is None:  # all matrices B are multiplied by one A
            parts = self._multiply_one((A.reshape(-1), B), (self._entries(0, (0,) * len(batch)), None, None), *options)
            return [part.reshape(*batch, *tail) for part, (tail, _) in zip(parts, kinds, strict=True)]
        results = [xp.empty((*batch, *tail), dtype) for tail, dtype in kinds]
        A, B = (
            xp.broadcast_to(x, (*batch, *x.shape[-1 - (place is None) :]))
            for x, place in zip(operands, self.places, strict=False)
        )
        for index in np.ndindex(batch):
            entries = tuple(self._entries(place, index) for place in range(3))
            parts = self._multiply_one((A[index], B[index]), entries, *options)
            for result, part in zip(results, parts, strict=True):
                result[index] = part
        return results

    def _entries(self, operand: int, index: tuple[int, ...]) -> _SortedEntries | None:
        """Return the entries of one matrix of the batch."""
        places = self.places[operand]
        if places is None:
            return None
        lead = places.shape[:-2]
        padded = index[len(index) - len(lead) :] if lead else ()
        index = tuple(
            0 if size == 1 or stride == 0 else place
            for place, size, stride in zip(padded, lead, places.strides, strict=False)
        )
        key = operand, index
        if key not in self._read:
            name = ("A", "B", "mask")[operand]
            # Each entry of A meets the rows of a dense B by itself, because ⊗ distributes over ⊕.
            may_repeat = operand == 0 and self.places[1] is None and self.places[2] is None
            form = self.shapes[operand], name, self.is_padded, may_repeat
            self._read[key] = _SortedEntries(places[index], *form)
        return self._read[key]

    def _multiply_one(
        self,
        operands: Any,
        entries: tuple[_SortedEntries | None, ...],
        semiring: Semiring,
        check: bool,
        has_places: bool,
    ) -> list[Array]:
        """Return one product, and the entries that attain its values."""
        xp, zero, mask = array_namespace(operands[0]), semiring.zero_for(operands[0].dtype), entries[2]
        parts: list[Any] = []
        for x, own in zip(operands, entries, strict=False):
            values = x if own is None else xp.ascontiguousarray(own.distinct(x, semiring))
            parts.append(values if own is None else own.pattern._replace(values=values))
        left, right = parts
        pattern = None if mask is None else mask.pattern
        C, W = multiply_rows(left, right, pattern, semiring, check=check, has_witness=has_places)
        if isinstance(C, Rows):
            C, W = _fill(C, W, mask, zero, has_places)
        results = [C] if W is None else [C, *self._attaining_entries(operands, entries, parts, W)]
        if mask is None:
            return results
        missing = (zero, -1) if entries[1] is None else (zero, -1, -1)  # without entries of B their array is empty
        return [mask.spread(*each) for each in zip(results, missing, strict=False)] + results[len(missing) :]

    def _attaining_entries(
        self, operands: Any, entries: tuple[_SortedEntries | None, ...], parts: list[Any], W: Array
    ) -> list[Array]:
        """Return the entries of both operands that attain each value, from the witness of the product."""
        xp, mask = array_namespace(W), entries[2]
        if entries[0] is not None and entries[1] is None and mask is None:  # W are entries of A: see `multiply_rows`
            table: Any = entries[0].attaining(operands[0], parts[0].values)
            if table is not None and table.size:
                W = xp.where(W >= 0, table[xp.maximum(W, 0)], -1)
            return [W.astype(np.int32, copy=False), xp.empty(0, np.int32)]
        reached = xp.nonzero(W >= 0)
        k = W[reached]
        i, j = (reached[-2], reached[-1]) if mask is None else (mask.rows[reached], mask.columns[reached])
        results = [W.astype(np.int32, copy=False), xp.empty(0, np.int32)]
        for side, (own, ends) in enumerate(zip(entries[:2], ((i, k), (k, j)), strict=True)):
            if own is not None:
                found, table = own.find(*ends), own.attaining(operands[side], parts[side].values)
                results[side] = xp.full(W.shape, -1, np.int32)
                results[side][reached] = found if table is None else table[found]
        return results


def _fill(C: Rows, W: Any, mask: _SortedEntries | None, zero: Any, has_places: bool) -> tuple[Array, Array | None]:
    """Return a sparse product and its witness at all distinct places of the mask, or without one as dense matrices."""
    xp = array_namespace(C.values)
    rows = xp.searchsorted(C.starts, xp.arange(C.columns.size), side="right") - 1
    if mask is not None:
        shape: tuple[int, ...] = mask.columns.shape
        places: Any = slice(None) if C.columns.size == mask.columns.size else mask.find(rows, C.columns)
    else:
        shape, places = C.shape, (rows, C.columns)
    values, witness = xp.full(shape, zero, C.values.dtype), xp.full(shape, -1, np.int32) if has_places else None
    values[places] = C.values
    if witness is not None:
        witness[places] = W.values
    return values, witness
