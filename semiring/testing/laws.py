"""The laws of semirings, of matrices over them and of closures, as checks that run on any data.

A law is an equation between two sides. `check_law` evaluates both on the elements given, `check_matrix_law` and
`check_closure_law` on matrices, with this library's functions or the caller's own. `laws_of`, `matrix_laws_of`,
`closure_laws_of` name those that must hold for a semiring: a commutative ⊗ has more of them.

A failure raises `AssertionError` with the operands and both sides. Equality is exact unless the dtype is floating
and ``rtol`` is given: then the sides may differ by ``rtol`` times the largest magnitude among them and the operands.
Give exact data (small whole numbers held in floats) and no tolerance where that is possible: a tolerance hides bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.algebra import Semiring
from semiring.catalogue import as_semiring
from semiring.errors import UnknownNameError
from semiring.testing.arithmetic import close

__all__ = ["check_closure_law", "check_law", "check_matrix_law", "closure_laws_of", "laws_of", "matrix_laws_of"]

Array: TypeAlias = NDArray[Any]
Product: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Law:
    """One equation: how it reads, the property of the semiring it supposes, and its two sides."""

    statement: str
    sides: Callable[..., tuple[Any, Any]]
    requires: str | None = None

    def holds_for(self, semiring: Semiring) -> bool:
        return self.requires is None or bool(getattr(semiring, self.requires))


# --------------------------------------------------------------------------------------------------------- elements


def _with(constant: str, x: Array, semiring: Semiring) -> Array:
    return np.full_like(x, getattr(semiring, f"{constant}_for")(x.dtype))


_LAWS: Mapping[str, Law] = {
    "additive_associativity": Law(
        "(x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)", lambda s, x, y, z: (s.add(s.add(x, y), z), s.add(x, s.add(y, z)))
    ),
    "additive_commutativity": Law("x ⊕ y = y ⊕ x", lambda s, x, y, z: (s.add(x, y), s.add(y, x))),
    "additive_identity": Law("x ⊕ 0̄ = x", lambda s, x, y, z: (s.add(x, _with("zero", x, s)), x)),
    "associativity": Law(
        "(x ⊗ y) ⊗ z = x ⊗ (y ⊗ z)", lambda s, x, y, z: (s.mul(s.mul(x, y), z), s.mul(x, s.mul(y, z)))
    ),
    "left_identity": Law("1̄ ⊗ x = x", lambda s, x, y, z: (s.mul(_with("one", x, s), x), x)),
    "right_identity": Law("x ⊗ 1̄ = x", lambda s, x, y, z: (s.mul(x, _with("one", x, s)), x)),
    "left_annihilation": Law("0̄ ⊗ x = 0̄", lambda s, x, y, z: (s.mul(_with("zero", x, s), x), _with("zero", x, s))),
    "right_annihilation": Law("x ⊗ 0̄ = 0̄", lambda s, x, y, z: (s.mul(x, _with("zero", x, s)), _with("zero", x, s))),
    "left_distributivity": Law(
        "x ⊗ (y ⊕ z) = x ⊗ y ⊕ x ⊗ z",
        lambda s, x, y, z: (s.mul(x, s.add(y, z)), s.add(s.mul(x, y), s.mul(x, z))),
    ),
    "right_distributivity": Law(
        "(x ⊕ y) ⊗ z = x ⊗ z ⊕ y ⊗ z",
        lambda s, x, y, z: (s.mul(s.add(x, y), z), s.add(s.mul(x, z), s.mul(y, z))),
    ),
    "idempotence": Law("x ⊕ x = x", lambda s, x, y, z: (s.add(x, x), x), "idempotent"),
    "selectivity": Law("x ⊕ y is x or y", lambda s, x, y, z: (s.add(x, y), _nearer(s.add(x, y), x, y)), "selective"),
    "commutativity": Law("x ⊗ y = y ⊗ x", lambda s, x, y, z: (s.mul(x, y), s.mul(y, x)), "commutative"),
    "star": Law("x* = 1̄ ⊕ x ⊗ x*", lambda s, x, y, z: _star_sides(x, s), "star_expression"),
    "absorption": Law("1̄ ⊕ x = 1̄", lambda s, x, y, z: (s.add(_with("one", x, s), x), _with("one", x, s)), "absorptive"),
}


def _star_sides(x: Array, semiring: Semiring) -> tuple[Array, Array]:
    """x* and 1̄ ⊕ x ⊗ x*; twice x where x has no star."""
    exists = np.full(x.shape, True)
    if semiring.divergence is not None:
        exists = ~np.asarray(semiring.divergence.evaluate({"x": x}, x.dtype))
    star = np.where(exists, semiring.star(x), x)
    return star, np.where(exists, semiring.add(_with("one", x, semiring), semiring.mul(x, star)), x)


def _nearer(total: Array, x: Array, y: Array) -> Array:
    """Whichever of x and y the sum is; y where it is neither, so that the two sides then differ."""
    x, y = np.broadcast_arrays(x, y)
    return np.where(total == x, x, y)


def laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """The names of the laws of elements that must hold, those that follow from its properties included."""
    return _valid(_LAWS, semiring)


def check_law(name: str, semiring: Semiring | str, x: Any, y: Any = None, z: Any = None, *, rtol: float = 0.0) -> None:
    """One law on elements: scalars, or arrays that are taken entry by entry. Missing operands are x again.

    Raises `UnknownNameError` with the valid names for a law that does not exist.
    """
    semiring, law = as_semiring(semiring), _named(_LAWS, name)
    given = (x, x if y is None else y, x if z is None else z)
    dtype = semiring.common_dtype(*given)
    operands = np.broadcast_arrays(*(np.asarray(operand, dtype) for operand in given))
    left, right = law.sides(semiring, *operands)
    _compare(law, semiring, left, right, operands, rtol, by_entry=True)


# --------------------------------------------------------------------------------------------------------- matrices

_MATRIX_LAWS: Mapping[str, Law] = {
    "associativity": Law("(A ⊗ B) ⊗ C = A ⊗ (B ⊗ C)", lambda s, p, A, B, C: (p(p(A, B, s), C, s), p(A, p(B, C, s), s))),
    "left_distributivity": Law(
        "A ⊗ (B ⊕ C) = A ⊗ B ⊕ A ⊗ C", lambda s, p, A, B, C: (p(A, s.add(B, C), s), s.add(p(A, B, s), p(A, C, s)))
    ),
    "right_distributivity": Law(
        "(A ⊕ B) ⊗ C = A ⊗ C ⊕ B ⊗ C", lambda s, p, A, B, C: (p(s.add(A, B), C, s), s.add(p(A, C, s), p(B, C, s)))
    ),
    "left_identity": Law("I ⊗ A = A", lambda s, p, A, B, C: (p(_identity(A.shape[0], A, s), A, s), A)),
    "right_identity": Law("A ⊗ I = A", lambda s, p, A, B, C: (p(A, _identity(A.shape[1], A, s), s), A)),
    "annihilation": Law("O ⊗ A = O", lambda s, p, A, B, C: (p(_with("zero", A.T, s), A, s), _zeros(A.shape[1], A, s))),
    "transposition": Law(
        "(A ⊗ B)ᵀ = Bᵀ ⊗ Aᵀ", lambda s, p, A, B, C: (np.asarray(p(A, B, s)).T, p(B.T, A.T, s)), "commutative"
    ),
}


def matrix_laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """The names of the laws of the matrix product that must hold."""
    return _valid(_MATRIX_LAWS, semiring)


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
    """One law of the product of square matrices of one size and dtype; missing operands are A again.

    ``matmul(A, B, semiring)`` is the product to check, by default this library's. The laws with one ⊕ of matrices need
    only equal sizes of what they add.
    """
    semiring, law = as_semiring(semiring), _named(_MATRIX_LAWS, name)
    if matmul is None:
        from semiring.linalg import matmul as own

        matmul = own
    operands = [np.asarray(A if operand is None else operand) for operand in (A, B, C)]
    left, right = law.sides(semiring, matmul, *operands)
    _compare(law, semiring, left, right, operands, rtol)


# --------------------------------------------------------------------------------------------------------- closures

_CLOSURE_LAWS: Mapping[str, Law] = {
    "left_fixed_point": Law(
        "A* = I ⊕ A ⊗ A*",
        lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), p(A, c(A, s), s))),
    ),
    "right_fixed_point": Law(
        "A* = I ⊕ A* ⊗ A",
        lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), p(c(A, s), A, s))),
    ),
    "irreflexive": Law("A⁺ = A ⊗ A*", lambda s, p, c, A: (c(A, s, reflexive=False), p(A, c(A, s), s))),
    "reflexive": Law(
        "A* = I ⊕ A⁺", lambda s, p, c, A: (c(A, s), s.add(_identity(len(A), A, s), c(A, s, reflexive=False)))
    ),
    "square": Law("A* ⊗ A* = A*", lambda s, p, c, A: (p(c(A, s), c(A, s), s), c(A, s)), "idempotent"),
    "closed": Law("(A*)* = A*", lambda s, p, c, A: (c(c(A, s), s), c(A, s)), "idempotent"),
    "transposition": Law("(Aᵀ)* = (A*)ᵀ", lambda s, p, c, A: (c(A.T, s), np.asarray(c(A, s)).T), "commutative"),
}


def closure_laws_of(semiring: Semiring | str) -> tuple[str, ...]:
    """The names of the laws of the closure that must hold."""
    return _valid(_CLOSURE_LAWS, semiring)


def check_closure_law(
    name: str,
    semiring: Semiring | str,
    A: Any,
    *,
    closure: Product | None = None,
    matmul: Product | None = None,
    rtol: float = 0.0,
) -> None:
    """One law of the closure of a square matrix whose closure exists.

    ``closure(A, semiring)`` and ``closure(A, semiring, reflexive=False)`` are A* and A⁺, by default this library's;
    ``matmul`` as in `check_matrix_law`.
    """
    semiring, law = as_semiring(semiring), _named(_CLOSURE_LAWS, name)
    if closure is None:
        from semiring.closures import closure as own_closure

        closure = own_closure
    if matmul is None:
        from semiring.linalg import matmul as own

        matmul = own
    A = np.asarray(A)
    left, right = law.sides(semiring, matmul, closure, A)
    _compare(law, semiring, left, right, [A], rtol)


# ----------------------------------------------------------------------------------------------------------- shared


def _identity(n: int, like: Array, semiring: Semiring) -> Array:
    return np.asarray(np.where(np.eye(n, dtype=bool), semiring.one_for(like.dtype), semiring.zero_for(like.dtype)))


def _zeros(n: int, like: Array, semiring: Semiring) -> Array:
    return np.full((n, n), semiring.zero_for(like.dtype))


def _valid(table: Mapping[str, Law], semiring: Semiring | str) -> tuple[str, ...]:
    semiring = as_semiring(semiring)
    return tuple(name for name, law in table.items() if law.holds_for(semiring))


def _named(table: Mapping[str, Law], name: str) -> Law:
    if name not in table:
        raise UnknownNameError("law", name, table)
    return table[name]


def _compare(
    law: Law, semiring: Semiring, left: Any, right: Any, operands: Any, rtol: float, *, by_entry: bool = False
) -> None:
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise AssertionError(f"{law.statement} fails in {semiring.name}: the sides are {left.shape} and {right.shape}")
    allowed = np.zeros(left.shape)
    if rtol and left.dtype.kind == "f":
        values = (left, right, *operands)
        magnitudes = [np.where(np.isfinite(value), np.abs(value), 0) for value in values]
        largest = np.maximum.reduce(magnitudes) if by_entry else max(x.max(initial=0) for x in magnitudes)
        allowed = rtol * np.broadcast_to(largest, left.shape)
    off = ~close(left, right, allowed)
    if off.any():
        at = tuple(int(index) for index in np.argwhere(off)[0])
        named = zip("xyz", operands, strict=False)
        where = ", ".join(f"{symbol} = {operand[at]}" for symbol, operand in named) if by_entry else f"at {at}"
        raise AssertionError(
            f"{law.statement} fails in {semiring.name} {'for' if by_entry else ''} {where}: {left[at]} and {right[at]}"
        )
