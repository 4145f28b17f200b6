"""Check the laws of semirings, of matrices over them, and of closures on any data.

A law is an equation between two sides. `check_law` evaluates both sides on elements. `check_matrix_law` and
`check_closure_law` evaluate them on matrices, by the functions of this library or of the caller. `laws_of`,
`matrix_laws_of` and `closure_laws_of` return the names of the laws that must hold for a semiring. If ⊗ is commutative,
there are more of these laws.

A failed law raises `AssertionError` with the operands and both sides. Equality is exact unless the dtype is floating
and ``rtol`` is given. Then the sides may differ by ``rtol`` times the largest magnitude among them and the operands.
Pass exact data (small whole numbers in floats) and no tolerance where possible, because a tolerance hides bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.algebra.catalogue import as_semiring
from semiring.algebra.expressions.tree import is_floating
from semiring.algebra.verify import statements as axioms
from semiring.algebra.verify.dtype_laws import ArrayAlgebra
from semiring.errors import UnknownNameError
from semiring.testing.arithmetic import is_close

__all__ = ["check_closure_law", "check_law", "check_matrix_law", "closure_laws_of", "laws_of", "matrix_laws_of"]

AnyLaw = TypeVar("AnyLaw")
Array: TypeAlias = NDArray[Any]
Product: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class MatrixLaw:
    """An equation of matrices: its statement, its two sides, and the property of the semiring that it requires."""

    statement: str
    sides: Callable[..., tuple[Any, Any]]
    requires: str | None = None

    def holds_for(self, semiring: Semiring) -> bool:
        return self.requires is None or bool(getattr(semiring, self.requires))


# --------------------------------------------------------------------------------------------------------- elements


def _constant_like(constant: str, x: Array, semiring: Semiring) -> Array:
    return np.full_like(x, getattr(semiring, f"{constant}_for")(x.dtype))


class _NumPyOperations(ArrayAlgebra):
    """The elementwise functions of the library, in which 0̄ annihilates by definition."""

    raw_mul = ArrayAlgebra.mul


#: The equations among the axioms and the properties of `semiring.algebra.verify`, under the same names.
_LAWS: Mapping[str, axioms.Law] = {
    law.key: law
    for law in (*axioms.AXIOMS, *axioms.STAR_LAWS, *axioms.PROPERTIES.values())
    if law.key != "elements" and not law.key.endswith("_closed")
}


def _holds_for(law: axioms.Law, semiring: Semiring) -> bool:
    if law.starred:
        return semiring.star_expression is not None
    return law.key not in axioms.PROPERTIES or bool(getattr(semiring, law.key))


def _has_no_star(x: Array, semiring: Semiring) -> Array:
    """Return a mask of the elements without a star, to which a law of the star does not apply."""
    if semiring.divergence is None:
        return np.zeros(x.shape, bool)
    return np.asarray(semiring.divergence.evaluate({"x": x}, x.dtype))


def _choose_equal(total: Array, x: Array, y: Array) -> Array:
    """Return that of x and y which equals the sum. If neither equals it, return y, so that the two sides differ."""
    x, y = np.broadcast_arrays(x, y)
    return np.where(total == x, x, y)


def laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """Return the names of the laws of elements that must hold for a semiring.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.

    Returns
    -------
    tuple of str
        The names. A law that follows from a property is among them if the semiring has the property.
    """
    semiring = as_semiring(semiring)
    return tuple(name for name, law in _LAWS.items() if _holds_for(law, semiring))


def check_law(name: str, semiring: Semiring | str, x: Any, y: Any = None, z: Any = None, *, rtol: float = 0.0) -> None:
    """Check one law on elements: scalars, or arrays entry by entry.

    Parameters
    ----------
    name : str
        The name of the law, one of `laws_of`.
    semiring : Semiring or str
        The semiring, or its name.
    x, y, z : array or scalar
        The elements, whose shapes broadcast. The default of y and z is x.
    rtol : float
        The tolerance for a floating dtype, relative to the largest magnitude among the operands and both sides. The
        default is equality.

    Raises
    ------
    UnknownNameError
        If there is no law of that name, with the valid names.
    AssertionError
        If the law fails. The message has the operands and both sides.
    """
    semiring, law = as_semiring(semiring), _find_law(_LAWS, name)
    elements = (x, x if y is None else y, x if z is None else z)
    dtype = semiring.common_dtype(*elements)
    operands = np.broadcast_arrays(*(np.asarray(operand, dtype) for operand in elements))
    used = operands[: law.arity]
    with np.errstate(all="ignore"):  # some elements have no star
        demands = list(law.demands(_NumPyOperations(semiring, dtype), *used))
    for statement, left, right in demands:
        first, *others = (np.broadcast_to(np.asarray(side, dtype), operands[0].shape) for side in right)
        for other in others:
            first = _choose_equal(left, first, other)
        if law.starred:
            left = np.where(_has_no_star(used[0], semiring), first, left)
        _compare(statement, semiring, left, first, operands, rtol, by_entry=True)


# --------------------------------------------------------------------------------------------------------- matrices

_MATRIX_LAWS: Mapping[str, MatrixLaw] = {
    "mul_associative": MatrixLaw(
        "(A ⊗ B) ⊗ C = A ⊗ (B ⊗ C)", lambda s, p, A, B, C: (p(p(A, B, s), C, s), p(A, p(B, C, s), s))
    ),
    "left_distributive": MatrixLaw(
        "A ⊗ (B ⊕ C) = A ⊗ B ⊕ A ⊗ C", lambda s, p, A, B, C: (p(A, s.add(B, C), s), s.add(p(A, B, s), p(A, C, s)))
    ),
    "right_distributive": MatrixLaw(
        "(A ⊕ B) ⊗ C = A ⊗ C ⊕ B ⊗ C", lambda s, p, A, B, C: (p(s.add(A, B), C, s), s.add(p(A, C, s), p(B, C, s)))
    ),
    "left_neutral": MatrixLaw("I ⊗ A = A", lambda s, p, A, B, C: (p(_identity(A.shape[0], A, s), A, s), A)),
    "right_neutral": MatrixLaw("A ⊗ I = A", lambda s, p, A, B, C: (p(A, _identity(A.shape[1], A, s), s), A)),
    "annihilation": MatrixLaw(
        "O ⊗ A = O", lambda s, p, A, B, C: (p(_constant_like("zero", A.T, s), A, s), _zeros(A.shape[1], A, s))
    ),
    "transposition": MatrixLaw(
        "(A ⊗ B)ᵀ = Bᵀ ⊗ Aᵀ", lambda s, p, A, B, C: (np.asarray(p(A, B, s)).T, p(B.T, A.T, s)), "commutative"
    ),
}


def matrix_laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """Return the names of the laws of the matrix product that must hold for a semiring.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.

    Returns
    -------
    tuple of str
        The names. A law that follows from a property is among them if the semiring has the property.
    """
    return _valid_laws(_MATRIX_LAWS, semiring)


def check_matrix_law(
    name: str,
    semiring: Semiring | str,
    A: Any,
    B: Any = None,
    C: Any = None,
    *,
    matmul: Product | None = None,
    rtol: float = 0.0,
) -> None:
    """Check one law of the matrix product.

    Parameters
    ----------
    name : str
        The name of the law, one of `matrix_laws_of`.
    semiring : Semiring or str
        The semiring, or its name.
    A, B, C : array, shape (n, n)
        Square matrices of one size and dtype. The default of B and C is A. The laws with one ⊕ of matrices need only
        operands of ⊕ of equal size.
    matmul : callable or None
        ``matmul(A, B, semiring)``, the product to check. The default is that of this library.
    rtol : float
        The tolerance for a floating dtype, relative to the largest magnitude among the operands and both sides. The
        default is equality.

    Raises
    ------
    UnknownNameError
        If there is no law of that name, with the valid names.
    AssertionError
        If the law fails. The message has the operands and both sides.
    """
    semiring, law = as_semiring(semiring), _find_law(_MATRIX_LAWS, name)
    if matmul is None:
        from semiring.linalg import matmul as own

        matmul = own
    operands = [np.asarray(A if operand is None else operand) for operand in (A, B, C)]
    left, right = law.sides(semiring, matmul, *operands)
    _compare(law.statement, semiring, left, right, operands, rtol)


# --------------------------------------------------------------------------------------------------------- closures

_CLOSURE_LAWS: Mapping[str, MatrixLaw] = {
    "left_fixed_point": MatrixLaw(
        "A* = I ⊕ A ⊗ A*",
        lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), p(A, c(A, s), s))),
    ),
    "right_fixed_point": MatrixLaw(
        "A* = I ⊕ A* ⊗ A",
        lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), p(c(A, s), A, s))),
    ),
    "irreflexive": MatrixLaw("A⁺ = A ⊗ A*", lambda s, p, c, A: (c(A, s, reflexive=False), p(A, c(A, s), s))),
    "reflexive": MatrixLaw(
        "A* = I ⊕ A⁺", lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), c(A, s, reflexive=False)))
    ),
    "square": MatrixLaw("A* ⊗ A* = A*", lambda s, p, c, A: (p(c(A, s), c(A, s), s), c(A, s)), "idempotent"),
    "closed": MatrixLaw("(A*)* = A*", lambda s, p, c, A: (c(c(A, s), s), c(A, s)), "idempotent"),
    "transposition": MatrixLaw("(Aᵀ)* = (A*)ᵀ", lambda s, p, c, A: (c(A.T, s), np.asarray(c(A, s)).T), "commutative"),
}


def closure_laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """Return the names of the laws of the closure that must hold for a semiring.

    Parameters
    ----------
    semiring : Semiring or str
        The semiring, or its name.

    Returns
    -------
    tuple of str
        The names. A law that follows from a property is among them if the semiring has the property.
    """
    return _valid_laws(_CLOSURE_LAWS, semiring)


def check_closure_law(
    name: str,
    semiring: Semiring | str,
    A: Any,
    *,
    closure: Product | None = None,
    matmul: Product | None = None,
    rtol: float = 0.0,
) -> None:
    """Check one law of the closure.

    Parameters
    ----------
    name : str
        The name of the law, one of `closure_laws_of`.
    semiring : Semiring or str
        The semiring, or its name.
    A : array, shape (n, n)
        A square matrix whose closure exists.
    closure : callable or None
        ``closure(A, semiring)`` and ``closure(A, semiring, reflexive=False)``, the closures A* and A⁺ to check. The
        default is that of this library.
    matmul : callable or None
        ``matmul(A, B, semiring)``, the product. The default is that of this library.
    rtol : float
        The tolerance for a floating dtype, relative to the largest magnitude among the operands and both sides. The
        default is equality.

    Raises
    ------
    UnknownNameError
        If there is no law of that name, with the valid names.
    AssertionError
        If the law fails. The message has the operands and both sides.
    """
    semiring, law = as_semiring(semiring), _find_law(_CLOSURE_LAWS, name)
    if closure is None:
        from semiring.closures import closure as own_closure

        closure = own_closure
    if matmul is None:
        from semiring.linalg import matmul as own

        matmul = own
    A = np.asarray(A)
    left, right = law.sides(semiring, matmul, closure, A)
    _compare(law.statement, semiring, left, right, [A], rtol)


# ----------------------------------------------------------------------------------------------------------- shared


def _identity(n: int, like: Array, semiring: Semiring) -> Array:
    return np.asarray(np.where(np.eye(n, dtype=bool), semiring.one_for(like.dtype), semiring.zero_for(like.dtype)))


def _zeros(n: int, like: Array, semiring: Semiring) -> Array:
    return np.full((n, n), semiring.zero_for(like.dtype))


def _valid_laws(table: Mapping[str, MatrixLaw], semiring: Semiring | str) -> tuple[str, ...]:
    semiring = as_semiring(semiring)
    return tuple(name for name, law in table.items() if law.holds_for(semiring))


def _find_law(table: Mapping[str, AnyLaw], name: str) -> AnyLaw:
    if name not in table:
        raise UnknownNameError("law", name, table)
    return table[name]


def _compare(
    statement: str, semiring: Semiring, left: Any, right: Any, operands: Any, rtol: float, *, by_entry: bool = False
) -> None:
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise AssertionError(f"{statement} fails in {semiring.name}: the sides are {left.shape} and {right.shape}")
    max_error = np.zeros(left.shape)
    if rtol and is_floating(left.dtype):
        values = (left, right, *operands)
        magnitudes = [np.where(np.isfinite(value), np.abs(value), 0) for value in values]
        largest = np.maximum.reduce(magnitudes) if by_entry else max(x.max(initial=0) for x in magnitudes)
        max_error = rtol * np.broadcast_to(largest, left.shape)
    off = ~is_close(left, right, max_error)
    if off.any():
        cell = tuple(int(index) for index in np.argwhere(off)[0])
        named = zip("xyz", operands, strict=False)
        where = ", ".join(f"{symbol} = {operand[cell]}" for symbol, operand in named) if by_entry else f"at {cell}"
        raise AssertionError(
            f"{statement} fails in {semiring.name} {'for' if by_entry else ''} {where}: {left[cell]} and {right[cell]}"
        )
