"""Proofs by case splits, which evaluate an expression on unknowns branch by branch.

A value is a rational function of the unknowns, or the logarithm of one. In log-plus an element is x = log u, so that
exp and log cancel. If the evaluation depends on a comparison, both outcomes are explored, unless the earlier
comparisons exclude one. Linear feasibility decides that exactly for linear forms. For polynomial forms the signs of
their factors decide it, with a certificate of infeasibility for a factor that is not linear. Every remaining branch
satisfies the law identically or yields a counterexample. If neither can be shown, `UndecidedError` is raised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from semiring.algebra.verify.extended_reals import Numbers, Value
from semiring.algebra.verify.feasibility import Constraint, contradicts, find_point
from semiring.algebra.verify.polynomials import Polynomial, UndecidedError

__all__ = ["Cases", "Effort", "LogRatio", "Ratio"]

Point = tuple[Fraction, ...]
MAX_DECISIONS = 4_000
MAX_CERTIFICATES = 100


@dataclass(frozen=True)
class Ratio:
    """A quotient of polynomials, whose denominator is positive in the current branch."""

    numerator: Polynomial
    denominator: Polynomial

    def evaluate_at(self, point: Point) -> Fraction:
        return self.numerator.evaluate_at(point) / self.denominator.evaluate_at(point)


@dataclass(frozen=True)
class LogRatio:
    """The logarithm of a ratio that is positive in the current branch."""

    of: Ratio


@dataclass
class _Decision:
    """One comparison on the way to a branch: its outcome, and a point of the branch if one is known."""

    outcome: bool
    constraint: Constraint | None  # None if the earlier comparisons imply the outcome
    point: Point | None
    other: tuple[Constraint, Point | None] | None  # the opposite branch if it is not explored yet


@dataclass
class Effort:
    """The number of steps of a proof over all the cases of a law; the proof stops beyond fixed limits."""

    decisions: int = 0
    certificates: int = 0


class _EmptyBranchError(Exception):
    """Raised when the comparisons of a branch exclude each other, which only a later comparison shows."""


@dataclass
class Cases(Numbers):
    """Explores the branches of a computation on ``width`` unknowns.

    ``logarithmic``: an unknown stands for x = log u with u > 0, and constants that are the float of log 2, log 3, ...
    are read as these logarithms (``readings`` lists them). ``effort`` may be shared by several explorations.
    """

    width: int
    logarithmic: bool = False
    readings: set[str] = field(default_factory=set)
    effort: Effort = field(default_factory=Effort)
    branches: int = 0

    def __post_init__(self) -> None:
        self._script: list[_Decision] = []
        self._position = 0
        self._constraints: list[Constraint] = []
        self._domains: dict[tuple[Constraint, ...], tuple[bool, Point | None]] = {}
        self._grid_values: dict[Polynomial, Any] = {}
        self.point: Point | None = None

    # --------------------------------------------------------------------------------------------------- branching

    def explore(self, run: Callable[[], Any]) -> Iterator[Any]:
        """Yield the outcome of ``run`` on every branch; ``point`` then lies in that branch.

        ``run`` is repeated from its start for each branch, so it must depend on nothing but the decisions.
        """
        self._script = []
        while True:
            self._position, self._constraints = 0, []
            self.point = (Fraction(0),) * self.width
            try:
                outcome = run()
            except _EmptyBranchError:
                pass
            else:
                self.branches += 1
                yield outcome
            while self._script and self._script[-1].other is None:
                self._script.pop()
            if not self._script:
                return
            last = self._script.pop()
            assert last.other is not None
            self._script.append(_Decision(not last.outcome, *last.other, None))

    def assume(self, x: Value, *, strict: bool) -> None:
        """Restrict the branch to x > 0 (or x ≥ 0)."""
        polynomial = self._polynomial(x)
        if polynomial.value is None:
            self._constraints.append((polynomial, strict))
            key = tuple(self._constraints)
            if key not in self._domains:
                self._domains[key] = self._search(key)
            possible, self.point = self._domains[key]
            if not possible:
                raise UndecidedError("the domain has no element")

    def positive(self, x: Value) -> bool:
        return self._decide(self._polynomial(x), True)

    def nonnegative(self, x: Value) -> bool:
        return self._decide(self._polynomial(x), False)

    def _polynomial(self, x: Value) -> Polynomial:
        """Return the polynomial that has the sign of x."""
        if isinstance(x, LogRatio):
            return x.of.numerator - x.of.denominator
        numerator: Polynomial = x.numerator
        return numerator

    def _decide(self, polynomial: Polynomial, strict: bool) -> bool:
        constant = polynomial.value
        if constant is not None:
            return constant > 0 if strict else constant >= 0
        if polynomial.degree > 1:
            factor, factors = polynomial.factors
            if len(factors) > 1 or factors[0][1] > 1:
                return self._decide_product(factor, factors, strict)
        if self._position == len(self._script):
            self._script.append(self._branch(polynomial, strict))
        decision = self._script[self._position]
        self._position += 1
        if decision.constraint is not None:
            self._constraints.append(decision.constraint)
            self.point = decision.point
        return decision.outcome

    def _decide_product(self, constant: Fraction, factors: list[tuple[Polynomial, int]], strict: bool) -> bool:
        sign = 1 if constant > 0 else -1
        for polynomial, power in factors:
            if not self._decide(polynomial, True):
                if self._decide(polynomial, False):
                    return not strict
                sign *= (-1) ** power
        return sign > 0

    def _branch(self, polynomial: Polynomial, strict: bool) -> _Decision:
        self.effort.decisions += 1
        if self.effort.decisions > MAX_DECISIONS:
            raise UndecidedError(f"it takes more than {MAX_DECISIONS} comparisons")
        sides: list[tuple[bool, Constraint, Point | None]] = []
        value = None if self.point is None else polynomial.evaluate_at(self.point)
        for outcome, constraint in ((True, (polynomial, strict)), (False, (-polynomial, not strict))):
            if value is not None and self.point is not None and (value > 0 if strict else value >= 0) == outcome:
                sides.append((outcome, constraint, self.point))
                continue
            possible, point = self._search([*self._constraints, constraint])
            if possible:
                sides.append((outcome, constraint, point))
        if not sides:
            raise _EmptyBranchError
        outcome, constraint, point = sides[0]
        if len(sides) == 1:
            return _Decision(outcome, None, point, None)
        return _Decision(outcome, constraint, point, sides[1][1:])

    def _search(self, constraints: Sequence[Constraint]) -> tuple[bool, Point | None]:
        """Return whether the constraints may have a common solution (False is proved), and a solution or None."""
        linear = [constraint for constraint in constraints if constraint[0].degree <= 1]
        point = find_point(linear, self.width)
        if point is None:
            return False, None
        if len(linear) == len(constraints) or _satisfies(point, constraints):
            return True, point
        candidates = np.flatnonzero(np.logical_and.reduce([self._on_grid(*constraint) for constraint in constraints]))
        if candidates.size:
            return True, _grid_point(int(candidates[0]), self.width)
        for candidate in _on_surfaces(constraints, self.width):
            if _satisfies(candidate, constraints):
                return True, candidate
        self.effort.certificates += 1
        if self.effort.certificates > MAX_CERTIFICATES:
            raise UndecidedError(f"it takes more than {MAX_CERTIFICATES} systems of polynomial inequalities")
        return not contradicts(constraints), None

    def _on_grid(self, polynomial: Polynomial, strict: bool) -> Any:
        """Return at which points of the grid of `_CANDIDATES` a constraint holds."""
        if polynomial not in self._grid_values:
            self._grid_values[polynomial] = _values_on_grid(polynomial)
        values = self._grid_values[polynomial]
        return np.asarray(values > 0 if strict else values >= 0, dtype=bool)

    # ----------------------------------------------------------------------------------------------------- numbers

    def unknown(self, index: int) -> Value:
        """Return the unknown with that index, which is any finite number; only ``run`` may call it."""
        ratio = Ratio(Polynomial.variable(index, self.width), self._one())
        if self.logarithmic:
            self.assume(ratio, strict=True)
            return LogRatio(ratio)
        return ratio

    def _one(self) -> Polynomial:
        return Polynomial.constant(1, self.width)

    def finite(self, value: int | Fraction) -> Ratio:
        return Ratio(Polynomial.constant(value, self.width), self._one())

    def finite_add(self, x: Value, y: Value) -> Value:
        if isinstance(x, LogRatio) or isinstance(y, LogRatio):
            return LogRatio(self._times(self._as_log(x).of, self._as_log(y).of))
        if x.denominator == y.denominator:
            return _reduced(x.numerator + y.numerator, x.denominator)
        numerator = x.numerator * y.denominator + y.numerator * x.denominator
        return _reduced(numerator, x.denominator * y.denominator)

    def finite_neg(self, x: Value) -> Value:
        if isinstance(x, LogRatio):
            return LogRatio(Ratio(x.of.denominator, x.of.numerator))
        return Ratio(-x.numerator, x.denominator)

    def finite_mul(self, x: Value, y: Value) -> Value:
        if isinstance(x, LogRatio) or isinstance(y, LogRatio):
            power, logarithm = (_rational(y), x) if isinstance(x, LogRatio) else (_rational(x), y)
            if power is None or power.denominator != 1 or abs(power) > 8:
                raise UndecidedError("a logarithm is multiplied by what is no small integer")
            result = self.finite(0)
            for _ in range(abs(int(power))):
                result = self.finite_add(result, logarithm if power > 0 else self.finite_neg(logarithm))
            return result
        return self._times(x, y)

    def _times(self, x: Ratio, y: Ratio) -> Ratio:
        left, right = _reduced(x.numerator, y.denominator), _reduced(y.numerator, x.denominator)
        return Ratio(left.numerator * right.numerator, left.denominator * right.denominator)

    def finite_div(self, x: Value, y: Value) -> Value:
        if isinstance(y, LogRatio):
            raise UndecidedError("a division by a logarithm")
        inverse = Ratio(y.denominator, y.numerator)
        if not self.positive(y):  # its sign is known: only the denominator has to become positive
            inverse = Ratio(-y.denominator, -y.numerator)
        return self.finite_mul(x, inverse)

    def finite_function(self, op: str, x: Value) -> Value:
        if op in ("exp", "expm1"):
            ratio = self._as_log(x).of
            return ratio if op == "exp" else self.finite_add(ratio, self.finite(-1))
        if op in ("log", "log1p") and not isinstance(x, LogRatio):
            return LogRatio(x if op == "log" else self.finite_add(x, self.finite(1)))
        value = _rational(x)
        if value is not None and op == "floor":
            return self.finite(math.floor(value))
        raise UndecidedError(f"{op} of an unknown")

    def _as_log(self, x: Value) -> LogRatio:
        """Return a value as a logarithm: 0 is log 1, and 0.6931471805599453 is read as log 2."""
        if isinstance(x, LogRatio):
            return x
        value = _rational(x)
        if value == 0:
            return LogRatio(self.finite(1))
        for k in range(2, 17):
            for sign in (1, -1):
                if value == sign * Fraction(math.log(k)):
                    self.readings.add(f"{math.log(k)} is read as log {k}")
                    return LogRatio(self.finite(Fraction(k) ** sign))
        raise UndecidedError("a logarithm meets a number that is none")


def _reduced(numerator: Polynomial, denominator: Polynomial) -> Ratio:
    constant = denominator.value
    if constant is not None:
        scaled = numerator if constant == 1 else numerator.scaled(1 / constant)
        return Ratio(scaled, denominator.scaled(1 / constant))
    quotient = numerator.divided(denominator)
    if quotient is not None:
        return Ratio(quotient, Polynomial.constant(1, denominator.width))
    return Ratio(numerator, denominator)


def _rational(x: Ratio | LogRatio) -> Fraction | None:
    """Return the value of a constant that is no logarithm, or None."""
    if isinstance(x, LogRatio):
        return None
    numerator, denominator = x.numerator.value, x.denominator.value
    return None if numerator is None or denominator is None else numerator / denominator


def _satisfies(point: Point, constraints: Sequence[Constraint]) -> bool:
    values = ((polynomial.evaluate_at(point), strict) for polynomial, strict in constraints)
    return all(value > 0 or (value == 0 and not strict) for value, strict in values)


def _on_surfaces(constraints: Sequence[Constraint], width: int) -> Iterator[Point]:
    """Yield points on the surfaces p = 0 among the constraints, if p is linear in one of the unknowns."""
    weak = [polynomial for polynomial, strict in constraints if not strict and polynomial.degree > 1]
    for polynomial in weak:
        if -polynomial not in weak:
            continue
        for i in range(width):
            if max(exponents[i] for exponents in polynomial.terms) != 1:
                continue
            for others in itertools.product(_CANDIDATES, repeat=width - 1):
                values = [polynomial.evaluate_at((*others[:i], Fraction(value), *others[i:])) for value in (0, 1)]
                if values[0] != values[1]:
                    yield (*others[:i], values[0] / (values[0] - values[1]), *others[i:])


def _values_on_grid(polynomial: Polynomial) -> Any:
    """Return the exact values of a polynomial at all tuples of candidates, scaled to Python integers."""
    degree, scale = polynomial.degree, lcm(*(c.denominator for c in polynomial.terms.values()))
    quarters = np.array([int(4 * value) for value in _CANDIDATES], dtype=object)
    total = np.zeros((len(_CANDIDATES),) * polynomial.width, dtype=object)
    for exponents, coefficient in polynomial.terms.items():
        term = np.array(int(coefficient * scale) * 4 ** (degree - sum(exponents)), dtype=object)
        for axis, exponent in enumerate(exponents):
            shape = [1] * polynomial.width
            shape[axis] = len(_CANDIDATES)
            term = term * (quarters**exponent).reshape(shape)
        total = total + term
    return total.ravel()


def _grid_point(index: int, width: int) -> Point:
    return tuple(_CANDIDATES[int(i)] for i in np.unravel_index(index, (len(_CANDIDATES),) * width))


#: Numbers that are tried where no linear method finds a point; multiples of 1/4.
_CANDIDATES = tuple(
    Fraction(n, d) for n, d in ((0, 1), (1, 1), (1, 2), (2, 1), (-1, 1), (3, 1), (1, 4), (3, 4), (-2, 1))
)
