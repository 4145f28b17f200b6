"""Residuation: the best solution of an inequality A ⊗ X ≤ B, as a product of the dual semiring.

In max-plus the greatest X with A ⊗ X ≤ B is X[k, j] = minᵢ (B[i, j] - A[i, k]), a product of -Aᵀ and B in min-plus. In
min-plus the order is reversed: the least X with A ⊗ X ≥ B is a product in max-plus.

Source: R. A. Cuninghame-Green, "Minimax Algebra", 1979; T. S. Blyth, M. F. Janowitz, "Residuation Theory", 1972.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring, boolean, max_plus, min_plus
from semiring.arrays.entries import check_entries
from semiring.arrays.operands import as_host_operand, check_flags, operands
from semiring.errors import AlgebraError, IntegerOverflowError, ShapeError
from semiring.linalg import matmul
from semiring.threads import check_threads

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
) -> Array:
    """Return the greatest X with A ⊗ X ≤ B in max-plus, or the least X with A ⊗ X ≥ B in min-plus.

    Parameters
    ----------
    A : array_like, shape (m, k)
        A dense matrix in the memory of the host.
    B : array_like, shape (m, n) or (m,)
        The bounds.
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
        The residual, in the common dtype. An unknown that no bound restricts, because its column of A is empty, is
        +∞ in max-plus and -∞ in min-plus (in integers: the number farthest from the zero of the semiring). An unknown
        that no edge may reach is the zero of the semiring.

    Raises
    ------
    AlgebraError
        For another semiring.
    IntegerOverflowError
        If a difference of integers does not fit the dtype.
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
    algebra = as_semiring(semiring)
    if algebra not in (min_plus, max_plus):
        raise AlgebraError(f"residuation is a product of differences, in max_plus and min_plus, not in {algebra.name}")
    check_flags({"check": check})
    if threads is not None:
        check_threads(threads)
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r} is not supported: pass arrays of the host, device='cpu'")
    A, B = operands(algebra, A=as_host_operand(A), B=as_host_operand(B, "B"), check=check)
    if A.ndim != 2 or B.ndim not in (1, 2) or len(A) != len(B):
        raise ShapeError(f"A is {A.shape} and B is {B.shape}: (m, k) and (m, n) or (m,) are needed")
    has_zeros = [_has_zero(X, algebra, name, check) for name, X in (("A", A), ("B", B))]
    dual = min_plus if algebra is max_plus else max_plus
    X = _multiply_differences(A, B.reshape(len(B), -1), algebra, dual, has_zeros, threads)
    return X.reshape(A.shape[1], *B.shape[1:])


def _has_zero(X: Array, semiring: Semiring, name: str, check: bool) -> bool:
    """Return whether an entry is the zero of the semiring, which is the end of its range, by one pass.

    With ``check`` raises `DomainError` for NaN.
    """
    if not X.size:
        return False
    end = X.max() if semiring is min_plus else X.min()
    if check and end != end:
        check_entries(X, semiring, name)  # raises, and names the entry
    return bool(end == semiring.zero_for(X.dtype))


def _multiply_differences(
    A: Array, B: Array, semiring: Semiring, dual: Semiring, has_zeros: list[bool], threads: int | None
) -> Array:
    """Return ⊕ over i of B[i, j] - A[i, k] in the dual semiring, with the conventions of `residuate` for the zeros."""
    dtype = A.dtype
    zero, top = semiring.zero_for(dtype), dual.zero_for(dtype)
    has_empty, has_forbidden = has_zeros
    is_empty = zero == A if has_empty or has_forbidden else np.zeros((), bool)
    is_forbidden = zero == B if has_forbidden else np.zeros((), bool)
    if dtype.kind == "i":
        numbers = [int(end) for X in (A[zero != A], B[zero != B]) if X.size for end in (X.min(), X.max())]
        if numbers and max(numbers) - min(numbers) >= np.iinfo(dtype).max:
            raise IntegerOverflowError(
                f"differences of these entries do not fit {dtype}: use wider integers or float64"
            )
    differences = np.where(is_empty, top, -np.where(is_empty, 0, A)).astype(dtype) if has_empty else -A
    bounds = np.where(is_forbidden, top, B) if has_forbidden else B
    X = np.asarray(matmul(differences.T, bounds, dual, check=False, threads=threads))
    if has_forbidden:  # an unknown with an edge into such a bound must be the zero too
        X[np.asarray(matmul(~is_empty.T, is_forbidden, boolean, threads=threads))] = zero
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

    A ⊗ x = b has a solution if and only if the residual solves it.

    Parameters
    ----------
    A : array_like, shape (m, k)
        A dense matrix in the memory of the host.
    b : array_like, shape (m,) or (m, n)
        The bounds.
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
    algebra = as_semiring(semiring)
    x = residuate(A, b, algebra, check=check, threads=threads, device=device)
    product = matmul(as_host_operand(A), x, algebra, check=False, threads=threads)
    return Solution(x, bool(np.array_equal(product, as_host_operand(b, "b"))))
