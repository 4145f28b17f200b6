"""Exact polynomials in a few variables over the rational numbers, for the case splits of proofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

__all__ = ["Polynomial", "UndecidedError"]

Monomial = tuple[int, ...]

MAX_TERMS = 400
MAX_DEGREE = 24
MAX_BITS = 4_000


class UndecidedError(Exception):
    """Raised where the exact methods do not apply, or exceed their limits. The law is then sampled instead."""


class Polynomial:
    """A polynomial as {exponents: coefficient}, immutable, hashable, and without zero coefficients.

    Products beyond 400 terms, degree 24 or 4,000-bit coefficients raise `UndecidedError`, which bounds the time of
    every operation.
    """

    __slots__ = ("__dict__", "terms", "width")

    def __init__(self, terms: Mapping[Monomial, Fraction], width: int) -> None:
        self.terms = {exponents: coefficient for exponents, coefficient in terms.items() if coefficient}
        self.width = width

    @classmethod
    def constant(cls, value: Fraction | int, width: int) -> Polynomial:
        return cls({(0,) * width: Fraction(value)}, width)

    @classmethod
    def variable(cls, index: int, width: int) -> Polynomial:
        return cls({tuple(int(i == index) for i in range(width)): Fraction(1)}, width)

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, Polynomial) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for exponents, coefficient in other.terms.items():
            terms[exponents] = terms.get(exponents, Fraction(0)) + coefficient
        return Polynomial(terms, self.width)

    def __neg__(self) -> Polynomial:
        return Polynomial({exponents: -coefficient for exponents, coefficient in self.terms.items()}, self.width)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        if len(self.terms) * len(other.terms) > MAX_TERMS or self.degree + other.degree > MAX_DEGREE:
            raise UndecidedError("the polynomials of the law grow too large")
        terms: dict[Monomial, Fraction] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                exponents = tuple(i + j for i, j in zip(left, right, strict=True))
                product = a * b
                if product.numerator.bit_length() + product.denominator.bit_length() > MAX_BITS:
                    raise UndecidedError("the numbers of the law grow too large")
                terms[exponents] = terms.get(exponents, Fraction(0)) + product
        return Polynomial(terms, self.width)

    def scale(self, factor: Fraction | int) -> Polynomial:
        return Polynomial(
            {exponents: coefficient * factor for exponents, coefficient in self.terms.items()}, self.width
        )

    @cached_property
    def degree(self) -> int:
        return max((sum(exponents) for exponents in self.terms), default=0)

    @property
    def value(self) -> Fraction | None:
        """The value of a constant polynomial, and None for any other polynomial."""
        if not self.terms:
            return Fraction(0)
        return self.terms[(0,) * self.width] if self.degree == 0 else None

    def evaluate_at(self, point: Sequence[Fraction]) -> Fraction:
        total = Fraction(0)
        for exponents, coefficient in self.terms.items():
            for value, exponent in zip(point, exponents, strict=True):
                if exponent:
                    coefficient *= value**exponent
            total += coefficient
        return total

    @cached_property
    def row(self) -> tuple[tuple[int, ...], Fraction]:
        """The coprime integer coefficients and the constant of a linear polynomial that is not constant."""
        coefficients = [Fraction(0)] * self.width
        constant = Fraction(0)
        for exponents, coefficient in self.terms.items():
            if any(exponents):
                coefficients[exponents.index(1)] = coefficient
            else:
                constant = coefficient
        common = lcm(*(coefficient.denominator for coefficient in coefficients))
        integers = [each.numerator * (common // each.denominator) for each in coefficients]
        divisor = gcd(*integers)
        return tuple(i // divisor for i in integers), constant * common / divisor

    def divide(self, divisor: Polynomial) -> Polynomial | None:
        """Return the quotient if it is a polynomial, else None."""
        if not divisor:
            return None
        lead = max(divisor.terms)
        rest, quotient = self, Polynomial({}, self.width)
        while rest:
            top = max(rest.terms)
            if any(i < j for i, j in zip(top, lead, strict=True)) or len(quotient.terms) > MAX_TERMS:
                return None
            exponents = tuple(i - j for i, j in zip(top, lead, strict=True))
            term = Polynomial({exponents: rest.terms[top] / divisor.terms[lead]}, self.width)
            quotient, rest = quotient + term, rest - term * divisor
        return quotient

    @cached_property
    def factors(self) -> tuple[Fraction, list[tuple[Polynomial, int]]]:
        """A constant and the irreducible factors with their multiplicities, whose product is the polynomial.

        This property factors monomials and polynomials that are linear in a variable. SymPy factors all others.
        """
        shared = tuple(min(exponents[i] for exponents in self.terms) for i in range(self.width))
        powers = [(Polynomial.variable(i, self.width), power) for i, power in enumerate(shared) if power]
        rest = Polynomial(
            {tuple(i - j for i, j in zip(exponents, shared, strict=True)): c for exponents, c in self.terms.items()},
            self.width,
        )
        if rest.degree == 0:
            return rest.terms[(0,) * self.width], powers
        constant, others = rest._linear_factors() or _sympy_factors(rest)
        return constant, powers + others

    def _linear_factors(self) -> tuple[Fraction, list[tuple[Polynomial, int]]] | None:
        """Return the factors of a·v + b for a variable v, or None if no variable occurs to the first power alone.

        Such a polynomial is irreducible unless a factor of a divides b.
        """
        for i in range(self.width):
            if max(exponents[i] for exponents in self.terms) != 1:
                continue
            a, b = self._coefficients(i)
            for factor, _ in a.factors[1] if a.degree else ():
                if b.divide(factor) is not None:
                    rest = self.divide(factor)
                    assert rest is not None
                    constant, others = rest.factors
                    return constant, [(factor, 1), *others]
            return Fraction(1), [(self, 1)]
        return None

    def _coefficients(self, index: int) -> tuple[Polynomial, Polynomial]:
        """Return a and b of a polynomial a·v + b that is linear in the variable with that index."""
        linear = {
            (*exponents[:index], 0, *exponents[index + 1 :]): coefficient
            for exponents, coefficient in self.terms.items()
            if exponents[index]
        }
        constant = {exponents: coefficient for exponents, coefficient in self.terms.items() if not exponents[index]}
        return Polynomial(linear, self.width), Polynomial(constant, self.width)


def _sympy_factors(polynomial: Polynomial) -> tuple[Fraction, list[tuple[Polynomial, int]]]:
    import sympy

    symbols = sympy.symbols(f"v:{polynomial.width}")
    terms = {
        exponents: sympy.Rational(coefficient.numerator, coefficient.denominator)
        for exponents, coefficient in polynomial.terms.items()
    }
    constant, factors = sympy.factor_list(sympy.Poly.from_dict(terms, *symbols, domain="QQ"))
    return Fraction(int(constant.p), int(constant.q)), [
        (
            Polynomial({tuple(e): Fraction(int(c.p), int(c.q)) for e, c in factor.terms()}, polynomial.width),
            int(power),
        )
        for factor, power in factors
    ]
