"""Define the arithmetic of the checkers: ⊕ and ⊗ of entries, in a wider dtype if that is more exact, and comparisons.

It applies the definition of the semiring to NumPy arrays, and calls no backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.arrays.labels import is_graph
from semiring.arrays.operands import require_real_numbers
from semiring.arrays.sparse import check_sparse, is_sparse, stored_entries
from semiring.errors import ShapeError
from semiring.io import as_network
from semiring.paths import Paths

__all__ = [
    "check_equal",
    "epsilon",
    "is_close",
    "keeps_relative_error",
    "lift",
    "multiply",
    "reject_entries",
    "times",
    "to_dense",
    "tolerance",
]

Array: TypeAlias = NDArray[Any]


def to_dense(x: Any, semiring: Semiring) -> Array:
    """Return lists, packed bits, or a SciPy sparse matrix as a NumPy array; missing entries become the zero.

    For `Paths` it is their matrix, and for a `Network` or another graph the matrix of its edges in this semiring.
    """
    if isinstance(x, Paths):
        x = x.matrix
    elif is_graph(x):
        x = as_network(x, semiring).matrix
    if hasattr(x, "unpack"):
        return np.asarray(x.unpack())
    if is_sparse(x):
        check_sparse(x)
        rows, columns, stored = stored_entries(x)
        result = np.full(x.shape, semiring.zero_for(stored.dtype), stored.dtype)
        result[rows, columns] = stored
        return result
    if not hasattr(x, "dtype"):
        require_real_numbers(x)
        x = np.asarray(x, semiring.common_dtype(x))
    result = np.asarray(x)
    if not result.ndim:
        raise ShapeError(f"{quote(x)} is no matrix: give an array with rows and columns")
    return result


def epsilon(dtype: np.dtype[Any]) -> float:
    """Return the relative spacing of a floating dtype, and 0 for any other dtype, which does not round."""
    return float(float_limits(dtype).eps) if is_floating(dtype) else 0.0


def lift(x: Array, semiring: Semiring) -> Array:
    """Return ``x`` in float64, or in int64 with its "no path" for the integers of min-plus and max-plus."""
    if is_floating(x.dtype) and x.dtype.itemsize < 8 and semiring.supports(np.float64):
        return x.astype(np.float64)
    if x.dtype.kind == "i" and semiring.tropical:
        return np.where(x == semiring.zero_for(x.dtype), semiring.zero_for(np.int64), x.astype(np.int64))
    return x


def times(x: Array, y: Array, semiring: Semiring) -> Array:
    """Return x ⊗ y, where a sum of integers beyond the range (too large in min-plus) becomes "no path"."""
    if not (semiring.tropical and x.dtype.kind == "i"):
        return np.asarray(semiring.mul(x, y))
    x, y = np.broadcast_arrays(x, y)
    none = semiring.zero_for(x.dtype)
    with np.errstate(over="ignore"):
        total = x + y
    absent = (x == none) | (y == none)
    wrapped = (((x ^ total) & (y ^ total)) < 0) & ~absent
    if bool((wrapped & ((x > 0) != (none > 0))).any()):
        raise AssertionError(f"a sum leaves {x.dtype} on the good side: no correct result of this dtype exists")
    return np.where(absent | wrapped, none, total)


def multiply(A: Array, B: Array, semiring: Semiring, start: Array | None = None) -> tuple[Array, Array]:
    """Return ``start`` ⊕ A ⊗ B by its definition, and for each entry the magnitude to which rounding is relative.

    The magnitude is 0 if ⊕ does not round, as for integers, booleans and a selective ⊕.
    """
    if A.shape[-1] != B.shape[-2]:
        raise AssertionError(f"A is {A.shape}, B is {B.shape}: inner sizes {A.shape[-1]} and {B.shape[-2]} differ")
    dtype = np.result_type(A, B)
    shape = (*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1])
    rounds = is_floating(dtype) and not semiring.selective
    if rounds:
        A, B = lift(A, semiring), lift(B, semiring)
        dtype = np.result_type(A, B)
    A, B = A.astype(dtype, copy=False), B.astype(dtype, copy=False)
    value = np.full(shape, semiring.zero_for(dtype), dtype) if start is None else np.broadcast_to(start, shape)
    value = value.astype(dtype)
    scale = _magnitude(value) if rounds else np.zeros(shape)
    largest = scale
    for k in range(A.shape[-1]):
        candidate = times(A[..., :, k, None], B[..., None, k, :], semiring)
        value = np.asarray(semiring.add(value, candidate))
        if rounds:
            scale, largest = scale + _magnitude(candidate), np.maximum(largest, _magnitude(value))
    return value, scale + largest


def _magnitude(x: Array) -> Array:
    return np.where(np.isfinite(x), np.abs(x), 0)


def tolerance(rtol: float, D: Array, A: Array, semiring: Semiring) -> Array:
    """Return the tolerance of each entry of D.

    It is ``rtol`` times the entry if ⊗ only adds up relative errors, as sums and products of values ≥ 0 do. Otherwise
    it is ``rtol`` times the largest finite magnitude in A and D. Integers are exact.
    """
    if not is_floating(D.dtype):
        return np.zeros(D.shape, np.int64)
    if keeps_relative_error(semiring, A) and keeps_relative_error(semiring, D):
        return rtol * _magnitude(D)
    return np.full(D.shape, rtol * max(float(_magnitude(x).max(initial=0)) for x in (A, D)))


def keeps_relative_error(semiring: Semiring, x: Array) -> bool:
    """Return whether ⊗ on values like those of ``x`` keeps relative errors small: no subtraction, no negative value."""
    nodes = list(semiring.mul.expression.walk())
    operations = {node.op for node in nodes if node.args}
    constants = [node.leaf for node in nodes if node.op == "const"]
    harmless = operations <= {"add", "mul", "min", "max"} and not constants
    return harmless and bool((x[np.isfinite(x)] >= 0).all())


def is_close(x: Array, y: Array, max_error: Array) -> Array:
    """Return for each entry whether x and y are equal (NaN equals NaN), or finite and at most ``max_error`` apart."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (x == y) | ((x != x) & (y != y))  # only NaN differs from itself, in every dtype
        if not is_floating(x.dtype) or not np.any(max_error):
            return np.asarray(same)
        return np.asarray(same | (np.abs(x - y) <= max_error) & np.isfinite(x) & np.isfinite(y))


def check_equal(actual: Array, reference: Array, max_error: Array, formula: str, name: str) -> None:
    """Raise `AssertionError` if an entry of ``actual`` differs from that of ``reference`` by more than ``max_error``.

    The error names the first such entry, and their number.
    """
    if actual.shape != reference.shape:
        raise AssertionError(f"{name} is {actual.shape}, but {formula} is {reference.shape}")
    off = ~is_close(actual, reference, max_error)
    reject_entries(off, actual, lambda *index: f"but {formula} is {reference[index]} there", name=name)


def reject_entries(
    bad: Array, values: Array, reason: str | Callable[..., str], *, name: str = "D", row: int | None = None
) -> None:
    """Raise `AssertionError` with the place and the value of the first entry in the mask ``bad``, and the reason."""
    if not bad.any():
        return
    position = tuple(int(index) for index in np.argwhere(bad)[0])
    place = ", ".join(str(index) for index in (position if row is None else (row, *position)))
    text = reason if isinstance(reason, str) else reason(*position)
    count = int(bad.sum())
    more = f" ({count} entries are wrong)" if count > 1 else ""
    raise AssertionError(f"{name}[{place}] = {values[position]} {text}{more}")
