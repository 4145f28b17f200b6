"""Validate the index arrays of SciPy sparse matrices, and read their stored entries.

SciPy checks the index arrays of a new matrix, but not after a change. The compiled routines of SciPy and of this
package use these numbers as addresses. So every public function calls `check_sparse` before it reads an entry of a
sparse operand. Cost: O(n + m) for n rows and m stored entries, 1 ns for an entry of csr.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.arrays.zero_conventions import stacklevel_of_caller
from semiring.errors import ShapeError, SuspiciousWeightsWarning

__all__ = ["check_sparse", "is_ascending", "is_sparse", "stored_entries", "warn_of_duplicates"]

Array: TypeAlias = NDArray[Any]


def is_sparse(x: Any) -> bool:
    """Return whether x is a SciPy sparse matrix, without importing SciPy.

    If the module ``scipy.sparse`` is not loaded, no sparse matrix exists.
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(x))


def check_sparse(x: Any, name: str = "A") -> None:
    """Validate the shape and the index arrays of a SciPy sparse matrix.

    Parameters
    ----------
    x
        A sparse matrix or array in any format of SciPy. It is not changed.
    name
        The name of the matrix in error messages.

    Raises
    ------
    ShapeError
        x has not two dimensions, its arrays do not fit each other, or an index lies outside the matrix. The message
        names the array and the entry.
    """
    if x.ndim != 2:
        raise ShapeError(f"{name} is a sparse array of {x.ndim} dimensions: only matrices are accepted")
    check = _CHECKS.get(x.format)
    if check is not None:
        check(x, name)


def is_ascending(starts: Array, indices: Array) -> bool:
    """Return whether the indices of each compressed row are strictly ascending, so that no entry is stored twice.

    SciPy caches this property as a flag, which a change of the arrays does not reset.
    """
    if indices.size < 2:
        return True
    above = indices[1:] > indices[:-1]
    first, last = np.searchsorted(starts, (1, indices.size))
    above[starts[first:last] - 1] = True
    return bool(above.all())


def stored_entries(x: Any) -> tuple[Array, Array, Array]:
    """Return the rows, the columns and the values of the stored entries of a checked sparse matrix, in its order.

    An entry that is stored twice is listed twice. The values may share the memory of x.
    """
    if x.format in ("csr", "csc"):  # SciPy's conversion would read unused memory behind the entries
        count = int(x.indptr[-1])
        major, minor = np.repeat(np.arange(x.indptr.size - 1), np.diff(x.indptr)), x.indices[:count]
        rows, columns = (major, minor) if x.format == "csr" else (minor, major)
        return rows, columns, x.data[:count]
    if x.format == "bsr":
        x = x.copy()
        x.prune()
    entries = x.tocoo()
    return entries.row, entries.col, np.asarray(entries.data)


def warn_of_duplicates(semiring: Semiring, name: str = "A") -> None:
    """Warn that ⊕ has added entries that a sparse matrix stores more than once, although SciPy adds them by +."""
    if semiring.dtypes == ("bool",) or semiring.add.expression.op == "add":
        return  # SciPy's sum is the same
    warnings.warn(
        f"{name} stores some entries more than once. They are added by the ⊕ of {semiring.name}, but by + in SciPy's "
        f"conversions, such as {name}.tocsr(). If the sum is meant, call {name}.sum_duplicates() first, else ignore "
        "this "
        "SuspiciousWeightsWarning",
        SuspiciousWeightsWarning,
        stacklevel=stacklevel_of_caller(),
    )


# ------------------------------------------------------------------------------------------------- formats


def _check_compressed(x: Any, name: str) -> None:
    """Validate the arrays of a matrix in csr, csc or bsr format."""
    data, (rows, columns) = _get_array(x, "data", name, 3 if x.format == "bsr" else 1), x.shape
    if x.format == "bsr":
        height, width = data.shape[1:]
        if height < 1 or width < 1 or rows % height or columns % width:
            raise ShapeError(f"{name}.data has blocks of {height} × {width}, which do not divide {rows} × {columns}")
        major, minor, what = rows // height, columns // width, "columns of blocks"
    else:
        major, minor = (columns, rows) if x.format == "csc" else (rows, columns)
        what = "rows" if x.format == "csc" else "columns"
    starts, indices = _get_indices(x, "indptr", name), _get_indices(x, "indices", name)
    if starts.size != major + 1:
        raise ShapeError(f"{name}.indptr has {starts.size} entries, and a matrix of shape {x.shape} has {major + 1}")
    if starts[0] != 0:
        raise ShapeError(f"{name}.indptr[0] is {starts[0]}, and 0 is expected")
    if indices.size != data.shape[0]:
        raise ShapeError(f"{name}.indices has {indices.size} entries, and {name}.data has {data.shape[0]}")
    if starts.max() > indices.size:
        place = int((starts > indices.size).argmax())
        raise ShapeError(
            f"{name}.indptr[{place}] is {starts[place]}, beyond the {indices.size} entries of {name}.indices"
        )
    if (falling := starts[1:] < starts[:-1]).any():
        place = int(falling.argmax()) + 1
        raise ShapeError(f"{name}.indptr[{place}] is {starts[place]}, less than the entry before, {starts[place - 1]}")
    _raise_for_outside(indices[: int(starts[-1])], minor, f"{name}.indices[{{}}]", what, x.shape)


def _check_coordinates(x: Any, name: str) -> None:
    """Validate the arrays of a matrix in coo format."""
    data, ends = _get_array(x, "data", name, 1), [_get_indices(x, "row", name), _get_indices(x, "col", name)]
    for indices, size, array, what in zip(ends, x.shape, ("row", "col"), ("rows", "columns"), strict=True):
        if indices.size != data.size:
            raise ShapeError(f"{name}.{array} has {indices.size} entries, and {name}.data has {data.size}")
        _raise_for_outside(indices, size, f"{name}.{array}[{{}}]", what, x.shape)


def _check_diagonals(x: Any, name: str) -> None:
    """Validate the arrays of a matrix in dia format."""
    data, offsets = _get_array(x, "data", name, 2), _get_indices(x, "offsets", name)
    if data.shape[0] != offsets.size:
        raise ShapeError(f"{name}.data has {data.shape[0]} diagonals, and {name}.offsets has {offsets.size} entries")
    if offsets.size and max(-int(offsets.min()), int(offsets.max())) >= 1 << 31:  # SciPy reduces them modulo 2^32
        wrong = int(np.argmax((offsets < -(1 << 31)) | (offsets >= 1 << 31)))
        raise ShapeError(f"{name}.offsets[{wrong}] is {offsets[wrong]}, outside a matrix of shape {x.shape}")
    unique, counts = np.unique(offsets, return_counts=True)
    if unique.size < offsets.size:
        raise ShapeError(f"{name}.offsets holds {unique[counts.argmax()]} twice: each diagonal is stored once")


def _check_lists(x: Any, name: str) -> None:
    """Validate the lists of a matrix in lil format."""
    rows, data = _get_array(x, "rows", name, 1), _get_array(x, "data", name, 1)
    if rows.size != x.shape[0] or data.size != x.shape[0]:
        raise ShapeError(f"{name} has {x.shape[0]} rows, {name}.rows has {rows.size} and {name}.data has {data.size}")
    for number, (columns, values) in enumerate(zip(rows, data, strict=True)):
        if not isinstance(columns, list) or not isinstance(values, list) or len(columns) != len(values):
            raise ShapeError(f"{name}.rows[{number}] and {name}.data[{number}] are not lists of one length")
    columns = _as_indices(list(chain.from_iterable(rows)), f"{name}.rows")
    wrong = np.flatnonzero((columns < 0) | (columns >= x.shape[1]))
    if wrong.size:
        counts = np.cumsum([len(row) for row in rows])
        number = int(np.searchsorted(counts, wrong[0], side="right"))
        place = int(wrong[0] - (counts[number] - len(rows[number])))
        _raise_for_index(f"{name}.rows[{number}][{place}]", columns[wrong[0]], x.shape[1], "columns", x.shape)


def _check_keys(x: Any, name: str) -> None:
    """Validate the keys of a matrix in dok format."""
    keys = list(x.keys())
    for key in keys:
        if not isinstance(key, tuple) or len(key) != 2:
            raise ShapeError(f"{name} has the key {quote(key)}, and a pair of numbers (row, column) is expected")
    ends = _as_indices(list(chain.from_iterable(keys)), f"the keys of {name}").reshape(-1, 2)
    for indices, size, what in zip(ends.T, x.shape, ("rows", "columns"), strict=True):
        wrong = np.flatnonzero((indices < 0) | (indices >= size))
        if wrong.size:
            _raise_for_index(f"the key {keys[wrong[0]]} of {name} has", indices[wrong[0]], size, what, x.shape, verb="")


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "csr": _check_compressed,
    "csc": _check_compressed,
    "bsr": _check_compressed,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
    "dok": _check_keys,
}


def _get_array(x: Any, array: str, name: str, dimensions: int) -> Array:
    """Return one of the arrays of x, after a check of its number of dimensions."""
    values = getattr(x, array)
    if not isinstance(values, np.ndarray) or values.ndim != dimensions:
        shape = values.shape if isinstance(values, np.ndarray) else type(values).__name__
        raise ShapeError(f"{name}.{array} is {shape}, and an array of {dimensions} dimensions is expected")
    return values


def _get_indices(x: Any, array: str, name: str) -> Array:
    """Return one of the arrays of x that hold indices, after a check that it holds integers."""
    indices = _get_array(x, array, name, 1)
    if indices.dtype not in (np.int32, np.int64):  # SciPy's routines accept only these
        raise ShapeError(f"{name}.{array} has dtype {indices.dtype}, and int32 or int64 is expected")
    return indices


def _as_indices(numbers: list[Any], subject: str) -> Array:
    """Return indices that SciPy stores as Python objects, as an int64 array. Raises `ShapeError` for other objects."""
    for number in numbers:
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise ShapeError(f"{subject} holds {quote(number)}, and integers are expected")
    try:
        return np.fromiter(numbers, np.int64, len(numbers))
    except OverflowError:
        raise ShapeError(f"{subject} holds {max(numbers, key=abs)}, which is no index of a matrix") from None


def _raise_for_outside(indices: Array, size: int, place: str, axis: str, shape: tuple[int, ...]) -> None:
    """Raise `ShapeError` for the first index below 0 or beyond ``size``."""
    # One pass suffices, because an index below 0 is beyond every size if it is read as an unsigned number.
    if indices.size and int(indices.view(f"u{indices.itemsize}").max()) >= size:
        first = int(np.argmax((indices < 0) | (indices >= size)))
        _raise_for_index(place.format(first), indices[first], size, axis, shape)


def _raise_for_index(
    place: str, index: Any, size: int, axis: str, shape: tuple[int, ...], verb: str = " is"
) -> NoReturn:
    """Raise `ShapeError` for an index of rows or columns (``axis``), of which a matrix has ``size``."""
    raise ShapeError(
        f"{place}{verb} {index}, outside a matrix of shape {shape}, whose {axis} are 0 … {size - 1}"
        if size
        else f"{place}{verb} {index}, and a matrix of shape {shape} has no {axis}"
    )
