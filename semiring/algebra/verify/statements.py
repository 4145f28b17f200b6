"""Laws and properties of a semiring as functions of elements, in which `+` is ⊕ and `*` is ⊗.

The `Algebra` of an `Element` defines its values: columns of a truth table, intervals, or arrays of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["ANNIHILATION", "AXIOMS", "PROPERTIES", "STAR_LAWS", "SUM_LAWS", "Algebra", "Element", "Law"]


class Algebra(Protocol):
    """The operations ⊕, ⊗ and star, and the elements 0̄ and 1̄, on any type of values.

    ⊗ includes the rule 0̄ ⊗ x = 0̄ if the semiring annihilates.
    """

    zero: Any
    one: Any

    def add(self, x: Any, y: Any) -> Any: ...

    def mul(self, x: Any, y: Any) -> Any: ...

    def raw_mul(self, x: Any, y: Any) -> Any:
        """Return x ⊗ y by the expression alone, without the rule that 0̄ annihilates."""
        ...

    def star(self, x: Any) -> Any: ...


@dataclass(frozen=True)
class Element:
    """A value of an algebra, with the operators + and * of that algebra."""

    algebra: Algebra
    value: Any

    def __add__(self, other: Element) -> Element:
        return Element(self.algebra, self.algebra.add(self.value, other.value))

    def __mul__(self, other: Element) -> Element:
        return Element(self.algebra, self.algebra.mul(self.value, other.value))

    def __matmul__(self, other: Element) -> Element:
        """Return the product by the expression of ⊗ alone, without the rule that 0̄ annihilates."""
        return Element(self.algebra, self.algebra.raw_mul(self.value, other.value))

    @property
    def star(self) -> Element:
        return Element(self.algebra, self.algebra.star(self.value))

    @property
    def zero(self) -> Element:
        return Element(self.algebra, self.algebra.zero)

    @property
    def one(self) -> Element:
        return Element(self.algebra, self.algebra.one)


#: The arguments of a definition on which a law depends, by the key of the law; ``add`` and ``mul`` by default.
_ARGUMENTS = {
    "add_associative": ("add",),
    "add_commutative": ("add",),
    "add_neutral": ("add", "zero"),
    "mul_associative": ("mul",),
    "mul_neutral": ("mul", "one"),
    "annihilation": ("mul", "zero"),
    "elements": ("zero", "one", "domain"),
    "add_closed": ("add", "domain"),
    "mul_closed": ("mul", "domain"),
    "star": ("star",),
    "star_closed": ("star", "domain"),
}


@dataclass(frozen=True)
class Law:
    """A law: statements about elements, each with a left side and the values that it may have.

    Parameters
    ----------
    key : str
        The name of the law, such as ``"add_associative"``.
    statements : tuple of str
        The equations of the law as text.
    arity : int
        The number of elements that the law is about, 0 to 3.
    sides : callable
        A function of the elements that returns for each statement the left side and the values that it may have.
        Without such values the left side must be in the domain.
    starred : bool
        Whether the law has a star on its left side. Such a law holds wherever this star does not exist.
    """

    key: str
    statements: tuple[str, ...]
    arity: int
    sides: Callable[..., Sequence[tuple[Element, ...]]]
    starred: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _law, (self.key,)  # ``sides`` is a function without a name, which cannot be pickled

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the elements in the statements, of x, y and z."""
        return ("x", "y", "z")[: self.arity]

    @property
    def text(self) -> str:
        """The statements of the law, separated by commas."""
        return ", ".join(self.statements)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of a definition that decide whether the law holds."""
        return _ARGUMENTS.get(self.key, ("add", "mul"))

    def demands(self, algebra: Algebra, *values: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        """Yield the sides of each statement for given elements.

        Parameters
        ----------
        algebra : Algebra
            The operations ⊕, ⊗ and star, and the elements 0̄ and 1̄.
        *values : object
            The elements x, y and z of the algebra, as many as the law has.

        Yields
        ------
        statement : str
            The text of the statement.
        left : object
            The value of its left side.
        right : tuple
            The values that the left side may have.
        """
        elements = [Element(algebra, value) for value in values] or [Element(algebra, None)]
        for statement, (left, *right) in zip(self.statements, self.sides(*elements), strict=True):
            yield statement, left.value, tuple(side.value for side in right)


SUM_LAWS = (
    Law("add_associative", ("(x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)",), 3, lambda x, y, z: [((x + y) + z, x + (y + z))]),
    Law("add_commutative", ("x ⊕ y = y ⊕ x",), 2, lambda x, y: [(x + y, y + x)]),
    Law("add_neutral", ("x ⊕ 0̄ = x", "0̄ ⊕ x = x"), 1, lambda x: [(x + x.zero, x), (x.zero + x, x)]),
)

ANNIHILATION = Law(
    "annihilation", ("0̄ ⊗ x = 0̄", "x ⊗ 0̄ = 0̄"), 1, lambda x: [(x.zero @ x, x.zero), (x @ x.zero, x.zero)]
)

AXIOMS = (
    *SUM_LAWS,
    Law("mul_associative", ("(x ⊗ y) ⊗ z = x ⊗ (y ⊗ z)",), 3, lambda x, y, z: [((x * y) * z, x * (y * z))]),
    Law("mul_neutral", ("x ⊗ 1̄ = x", "1̄ ⊗ x = x"), 1, lambda x: [(x * x.one, x), (x.one * x, x)]),
    Law("left_distributive", ("x ⊗ (y ⊕ z) = x ⊗ y ⊕ x ⊗ z",), 3, lambda x, y, z: [(x * (y + z), (x * y) + (x * z))]),
    Law("right_distributive", ("(x ⊕ y) ⊗ z = x ⊗ z ⊕ y ⊗ z",), 3, lambda x, y, z: [((x + y) * z, (x * z) + (y * z))]),
    ANNIHILATION,
    Law("elements", ("0̄ in the domain", "1̄ in the domain"), 0, lambda s: [(s.zero,), (s.one,)]),
    Law("add_closed", ("x ⊕ y in the domain",), 2, lambda x, y: [(x + y,)]),
    Law("mul_closed", ("x ⊗ y in the domain",), 2, lambda x, y: [(x * y,)]),
)

STAR_LAWS = (
    Law(
        "star",
        ("x* = 1̄ ⊕ x ⊗ x*", "x* = 1̄ ⊕ x* ⊗ x"),
        1,
        lambda x: [(x.star, x.one + (x * x.star)), (x.star, x.one + (x.star * x))],
        starred=True,
    ),
    Law("star_closed", ("x* in the domain",), 1, lambda x: [(x.star,)], starred=True),
)

PROPERTIES = {
    law.key: law
    for law in (
        Law("idempotent", ("x ⊕ x = x",), 1, lambda x: [(x + x, x)]),
        Law("selective", ("x ⊕ y = x or x ⊕ y = y",), 2, lambda x, y: [(x + y, x, y)]),
        Law("commutative", ("x ⊗ y = y ⊗ x",), 2, lambda x, y: [(x * y, y * x)]),
        Law("absorptive", ("1̄ ⊕ x = 1̄",), 1, lambda x: [(x.one + x, x.one)]),
    )
}


def _law(key: str) -> Law:
    return next(law for law in (*AXIOMS, *STAR_LAWS, *PROPERTIES.values()) if law.key == key)
