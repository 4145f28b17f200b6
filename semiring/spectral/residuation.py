"""Residuation: the best solution of an inequality A ⊗ X ≤ B, as a product of the dual semiring.

In max-plus the greatest X with A ⊗ X ≤ B is X[k, j] = minᵢ (B[i, j] - A[i, k]), a product of -Aᵀ and B in min-plus. In
min-plus the order is reversed: the least X with A ⊗ X ≥ B is a product in max-plus.

Source: R. A. Cuninghame-Green, "Minimax Algebra", 1979; T. S. Blyth, M. F. Janowitz, "Residuation Theory", 1972.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.advice import quote
from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, max_plus, min_plus
from semiring.algebra.expressions.tree import float_limits
from semiring.arguments import check_flags, is_one_of
from semiring.arrays.encoding import product_encoding
from semiring.arrays.entries import check_entries
from semiring.arrays.labels import is_labelled, labelled_product
from semiring.arrays.operands import as_host_operand, operands
from semiring.arrays.scans import PIECE, Scan, limits_of
from semiring.errors import AlgebraError, DomainError, IntegerOverflowError, ShapeError
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.linalg import matmul
from semiring.linalg.dispatch import multiply_into
from semiring.thread_counts import check_threads, get_threads

__all__ = ["Solution", "residuate", "solve_inequality"]

Array = NDArray[Any]


class Solution(NamedTuple):
    """The best solution of an inequality, and whether it solves the equation too."""

    x: NDArray[Any]
    is_equal: bool


def residuate(
    A: Any,
    B: Any,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Any:
    """Return the greatest X with A ⊗ X ≤ B in max-plus, or the least X with A ⊗ X ≥ B in min-plus.

    Parameters
    ----------
    A : array_like, shape (m, k)
        A dense matrix or a frame in the memory of the host.
    B : array_like, shape (m, n) or (m,)
        The bounds. The rows of frames and series are matched by label.
    semiring : Semiring or str, optional
        max_plus or min_plus (the default).
    check : bool, default True
        Validate the entries.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : None or "cpu"
        Where the computation runs.

    Returns
    -------
    array, shape (k, n) or (k,)
        The residual, in the common dtype; of frames, with the labels of A's columns and B's columns. An unknown that no
        bound restricts, because its column of A is empty, is +∞ in max-plus and -∞ in min-plus (in integers: the number
        farthest from the zero of the semiring). An unknown that no edge may reach is the zero of the semiring.

    Raises
    ------
    AlgebraError
        For another semiring.
    IntegerOverflowError
        If an entry of the residual does not fit the dtype of integers.
    ShapeError, DTypeError, DomainError
        If the numbers of rows differ, and as in `matmul`.

    Notes
    -----
    One rounded difference is the entry, so for floats A ⊗ X may exceed B by the rounding of one sum. Costs m · k · n
    pairs, as the product A ⊗ X.

    Examples
    --------
    >>> import semiring as sr
    >>> sr.spectral.residuate([[3, 1], [2, 4]], [5, 5], "max_plus")
    array([2., 1.])
    """
    algebra = _find_semiring(semiring)
    check_flags({"check": check})
    count = get_threads() if threads is None else check_threads(threads)
    if device is not None and not is_one_of(device, ("cpu",)):
        raise ValueError(f"device={quote(device)} is not supported: pass arrays of the host, device='cpu'")
    A, B, restore = _read_operands(A, B, algebra, check)
    return restore(_residuate_arrays(A, B, algebra, check, count))


def _find_semiring(semiring: Semiring | str | None) -> Semiring:
    algebra = as_semiring(semiring)
    if algebra not in (min_plus, max_plus):
        raise AlgebraError(
            f"residuation is a product of differences, in max_plus and min_plus, not in {algebra.name}: for max_times "
            "and min_times pass the logarithms of A and B in max_plus and min_plus"
        )
    return algebra


def _read_operands(A: Any, B: Any, semiring: Semiring, check: bool) -> tuple[Array, Array, Callable[[Array], Any]]:
    """Return A and B as arrays of one dtype, and a function that labels the residual if they have labels."""
    restore: Callable[[Array], Any] = np.asarray
    if is_labelled(A) or is_labelled(B):
        transposed, B, restore = labelled_product(A.T if is_labelled(A) else np.transpose(as_host_operand(A)), B)
        A = transposed.T
    A, B = operands(semiring, A=as_host_operand(A), B=as_host_operand(B, "B"), check=check)
    if A.ndim != 2 or B.ndim not in (1, 2) or len(A) != len(B):
        raise ShapeError(f"A is {A.shape} and B is {B.shape}: (m, k) and (m, n) or (m,) are needed")
    return A, B, restore


def _residuate_arrays(A: Array, B: Array, semiring: Semiring, check: bool, threads: int) -> Array:
    dual = min_plus if semiring is max_plus else max_plus
    if A.dtype.kind == "i":
        return _multiply_integers(A, B, semiring, dual, threads)
    # An empty entry of A becomes the zero of the dual semiring. It annihilates, so no bound restricts such an unknown.
    differences = np.empty_like(A)
    if check:
        _scan(A, semiring, "A", threads, lambda rows, out: np.negative(rows, out=out), differences)
        _scan(B, semiring, "B", threads)
    else:
        _map_rows(np.negative, A, differences, threads)
    return np.asarray(matmul(differences.T, B, dual, check=False, threads=threads))


def _map_rows(function: Callable[..., Any], X: Array, out: Array, threads: int) -> Array:
    """Call ``function(rows, out=...)`` for all rows of an array, some at a time, and return ``out``."""
    step = max(1, PIECE * len(X) // max(1, X.nbytes))
    starts = [(first,) for first in range(0, len(X), step)]
    run_tasks(lambda first: function(X[first : first + step], out=out[first : first + step]), starts, threads)
    return out


def _scan(
    X: Array,
    semiring: Semiring,
    name: str,
    threads: int,
    function: Callable[..., Any] | None = None,
    out: Array | None = None,
) -> Scan:
    """Scan an array by threads, and call ``function(rows, out=...)`` while rows are in the cache."""
    scans = [Scan(nonnegative=True)]

    def visit(rows: Array, out: Array) -> None:
        scans.append(check_entries(rows, semiring, name))
        if function is not None:
            function(rows, out=out)

    try:
        _map_rows(visit, X, X if out is None else out, threads)
    except DomainError:
        check_entries(X, semiring, name)  # this call raises the error with the position in the whole array
        raise
    return reduce(or_, scans)


def _multiply_integers(A: Array, B: Array, semiring: Semiring, dual: Semiring, threads: int) -> Array:
    """Return the residual of integers, exactly.

    Numbers beyond all differences stand for the entries that are empty and for the bounds that no edge may reach. Then
    one product of numbers suffices, and the range of an entry says what it is.
    """
    dtype, limits, is_max = A.dtype, limits_of(A.dtype), semiring is max_plus
    X_shape = A.shape[1], *B.shape[1:]
    if not A.size or not B.size:
        return np.full(X_shape, dual.zero_for(dtype))
    a, b = _scan(A, semiring, "A", threads), _scan(B, semiring, "B", threads)
    (a_low, a_high), (b_low, b_high) = ((int(scan.low or 0), int(scan.high or 0)) for scan in (a, b))
    low, high = b_low - a_high, b_high - a_low
    if is_max:
        forbidden = low + a_low - 1  # less any number, it is below all differences
        empty = high + 1 - forbidden  # with any bound, it is above them
    else:
        forbidden = high + a_high + 1
        empty = low - 1 - forbidden
    factors = Scan(-a_high, -a_low) | (Scan(empty, empty) if a.has_zero else Scan())
    bounds = Scan(b_low, b_high) | (Scan(forbidden, forbidden) if b.has_zero else Scan())
    try:
        work = product_encoding(dual, dtype, factors, bounds).dtype
    except IntegerOverflowError:
        raise IntegerOverflowError(
            f"differences of bounds from {b_low} to {b_high} and entries from {a_low} to {a_high} need more than "
            "int64: use float64, which rounds them"
        ) from None
    zero, extremum = semiring.zero_for(dtype), np.maximum if is_max else np.minimum
    has_above, has_below = (a.has_zero, b.has_zero) if is_max else (b.has_zero, a.has_zero)

    def replace_zeros(X: Array, number: int, out: Array) -> None:
        if work == dtype:  # the zero is beyond all numbers
            extremum(X, work.type(number), out=out)
        else:
            np.copyto(out, X)
            np.copyto(out, number, where=zero == X)

    def negate(X: Array, out: Array) -> None:
        if a.has_zero:
            replace_zeros(X, -empty, out)
            X = out
        np.negative(X, out=out, dtype=work)

    def restore_zeros(X: Array, out: Array) -> None:
        if out.dtype != X.dtype:
            np.copyto(out, X, casting="unsafe")
        if has_above:
            np.copyto(out, limits.max, where=high < X)
        if has_below:
            np.copyto(out, limits.min, where=low > X)

    left, right = _map_rows(negate, A, np.empty_like(A, work), threads), B.astype(work, copy=False)
    if b.has_zero:
        right = _map_rows(partial(replace_zeros, number=forbidden), B, np.empty_like(B, work), threads)
    X = np.empty(X_shape, work)
    columns = X.reshape(len(X), -1)
    multiply_into(dual, columns, left.T, right.reshape(len(B), -1), factors, bounds, threads)
    if low <= limits.min or high >= limits.max:
        numbers = X[(low <= X) & (high >= X)]
        ends = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
        if ends[0] <= limits.min or ends[1] >= limits.max:
            raise IntegerOverflowError(
                f"the residual has numbers from {ends[0]} to {ends[1]}, which do not fit {dtype}: pass {work} operands"
            )
    if has_above or has_below or work != dtype:
        return _map_rows(restore_zeros, X, X if work == dtype else np.empty(X_shape, dtype), threads)
    return X


def solve_inequality(
    A: Any,
    b: Any,
    semiring: Semiring | str | None = None,
    *,
    check: bool = True,
    threads: int | None = None,
    device: Any = None,
) -> Solution:
    """Return the best solution of A ⊗ x ≤ b (in min-plus: ≥), and whether A ⊗ x = b has a solution.

    A ⊗ x = b has a solution if and only if the residual solves it. In floats the equation holds up to the rounding of
    sums.

    Parameters
    ----------
    A : array_like, shape (m, k)
        A dense matrix or a frame in the memory of the host.
    b : array_like, shape (m,) or (m, n)
        The bounds, as in `residuate`.
    semiring : Semiring or str, optional
        max_plus or min_plus (the default).
    check : bool, default True
        Validate the entries.
    threads : int, optional
        The number of threads, by default `semiring.get_threads()`.
    device : None or "cpu", optional
        Where the computation runs.

    Returns
    -------
    Solution
        ``x`` is `residuate` of A and b, and ``is_equal`` says whether A ⊗ x equals b.

    Raises
    ------
    AlgebraError, IntegerOverflowError, ShapeError, DTypeError, DomainError
        As in `residuate`.

    Examples
    --------
    >>> import semiring as sr
    >>> sr.spectral.solve_inequality([[3, 1], [2, 4]], [5, 5], "max_plus")
    Solution(x=array([2., 1.]), is_equal=True)
    """
    algebra = _find_semiring(semiring)
    x = residuate(A, b, algebra, check=check, threads=threads, device=device)
    count = get_threads() if threads is None else threads
    left, right, _ = _read_operands(A, b, algebra, check)
    residual = np.asarray(x)
    columns = residual.reshape(len(residual), -1), right.reshape(len(right), -1)
    return Solution(x, _is_product(left, *columns, algebra, count))


def _is_product(A: Array, X: Array, B: Array, semiring: Semiring, threads: int) -> bool:
    """Return whether A ⊗ X is B for the residual X, in floats up to the rounding of sums that may have made B."""
    if A.dtype.kind == "i":  # an unknown that no bound restricts has no edge, and its value may be any number
        top = (min_plus if semiring is max_plus else max_plus).zero_for(X.dtype)
        return bool(np.array_equal(matmul(A, np.where(top == X, X.dtype.type(0), X), semiring, threads=threads), B))
    product = matmul(A, X, semiring, check=False, threads=threads)
    if np.array_equal(product, B) or not A.size:
        return bool(np.array_equal(product, B))
    product, K = matmul(A, X, semiring, return_witness=True, check=False, threads=threads)
    epsilon = float_limits(A.dtype).eps
    with np.errstate(invalid="ignore"):
        sizes = np.abs(X) + np.where(np.isfinite(A), np.abs(A), 0).max(0)[:, np.newaxis]
        is_met = (product == B) | (np.abs(product - B) <= epsilon * (np.take_along_axis(sizes, K, 0) + np.abs(B)))
        for i, j in np.argwhere(~is_met):  # perhaps another edge attains the bound, and its sum is rounded more
            errors, bounds = np.abs(B[i, j] - A[i] - X[:, j]), epsilon * (sizes[:, j] + np.abs(B[i, j]))
            if not (errors <= bounds).any():
                return False
    return True
