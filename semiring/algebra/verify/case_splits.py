"""Prove laws by case splits, which evaluate an expression on unknowns branch by branch.

A value is a rational function of the unknowns, or the logarithm of one. In log-plus an element is x = log u, so that
exp and log cancel. If the evaluation depends on a comparison, both outcomes are explored, unless the earlier
comparisons exclude one. Linear feasibility decides exactly whether an outcome is possible for linear forms. For
polynomial forms the signs of their factors decide, with a certificate of infeasibility for a factor that is not linear.
Every remaining branch satisfies the law identically or yields a counterexample. If neither can be proved,
`UndecidedError` is raised.

`find_point` decides systems in a few variables, with strict and non-strict inequalities, exactly over the rationals, by
Fourier–Motzkin elimination. `is_infeasible` is a
sufficient test for polynomial inequalities. It searches for non-negative multipliers under which products of the
constraints add up to a contradiction (Handelman 1988, Motzkin's transposition theorem), by an exact simplex method.

Source: Fourier 1827, Motzkin 1936; Schrijver, Theory of Linear and Integer Programming, 1986, chapters 7 and 12.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from semiring.algebra.verify.extended_reals import Numbers, Value
from semiring.algebra.verify.polynomials import Polynomial, UndecidedError

__all__ = ["Cases", "Constraint", "Effort", "LogRatio", "Ratio", "find_point", "is_infeasible", "simplest_between"]


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

    ratio: Ratio


@dataclass
class _Decision:
    """A comparison on the way to a branch, with its outcome, and with a point of the branch if one is known."""

    outcome: bool
    constraint: Constraint | None  # None if the earlier comparisons imply the outcome
    point: Point | None
    opposite: tuple[Constraint, Point | None] | None  # the opposite branch, or None if it is impossible or explored


@dataclass
class Effort:
    """The number of steps of a proof over all cases of a law. It stops beyond fixed limits, and at a deadline."""

    deadline: float = math.inf  # by `time.monotonic`
    decisions: int = 0
    certificates: int = 0

    def check_deadline(self) -> None:
        """Raise `UndecidedError` after the deadline."""
        if time.monotonic() > self.deadline:
            raise UndecidedError("the budget of time is spent")


class _EmptyBranchError(Exception):
    """Raised when the comparisons of a branch exclude each other, which only a later comparison shows."""


@dataclass
class Cases(Numbers):
    """Numbers that depend on ``width`` unknowns, with a record of the comparisons that lead to the current branch.

    If ``logarithmic``, an unknown stands for x = log u with u > 0. Constants that are the float of log 2, log 3, ...
    are then read as these logarithms, and ``readings`` lists them. Several explorations may share one ``effort``.
    """

    width: int
    logarithmic: bool = False
    readings: set[str] = field(default_factory=set)
    effort: Effort = field(default_factory=Effort)
    branches: int = 0

    def __post_init__(self) -> None:
        self._decisions: list[_Decision] = []
        self._position = 0
        self._constraints: list[Constraint] = []
        self._domains: dict[tuple[Constraint, ...], tuple[bool, Point | None]] = {}
        self._grid_values: dict[Polynomial, Any] = {}
        self.point: Point | None = None

    # --------------------------------------------------------------------------------------------------- branching

    def explore(self, compute: Callable[[], Any]) -> Iterator[Any]:
        """Yield the outcome of ``compute`` on every branch, while ``point`` lies in that branch.

        ``compute`` starts again for each branch, so its course must depend on the decisions alone.
        """
        self._decisions = []
        while True:
            self.effort.check_deadline()
            self._position, self._constraints = 0, []
            self.point = (Fraction(0),) * self.width
            try:
                outcome = compute()
            except _EmptyBranchError:
                pass
            else:
                self.branches += 1
                yield outcome
            while self._decisions and self._decisions[-1].opposite is None:
                self._decisions.pop()
            if not self._decisions:
                return
            last = self._decisions.pop()
            assert last.opposite is not None
            self._decisions.append(_Decision(not last.outcome, *last.opposite, None))

    def assume(self, x: Value, *, strict: bool) -> None:
        """Restrict the branch to x > 0, or to x ≥ 0 if not ``strict``."""
        polynomial = self._polynomial(x)
        if polynomial.value is None:
            self._constraints.append((polynomial, strict))
            key = tuple(self._constraints)
            if key not in self._domains:
                self._domains[key] = self._find_solution(key)
            possible, self.point = self._domains[key]
            if not possible:
                raise UndecidedError("the domain has no element")

    def is_positive(self, x: Value) -> bool:
        return self._decide(self._polynomial(x), True)

    def is_nonnegative(self, x: Value) -> bool:
        return self._decide(self._polynomial(x), False)

    def _polynomial(self, x: Value) -> Polynomial:
        """Return the polynomial that has the sign of x."""
        if isinstance(x, LogRatio):
            return x.ratio.numerator - x.ratio.denominator
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
        if self._position == len(self._decisions):
            self._decisions.append(self._new_decision(polynomial, strict))
        decision = self._decisions[self._position]
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

    def _new_decision(self, polynomial: Polynomial, strict: bool) -> _Decision:
        self.effort.check_deadline()
        self.effort.decisions += 1
        if self.effort.decisions > MAX_DECISIONS:
            raise UndecidedError(f"it takes more than {MAX_DECISIONS} comparisons")
        sides: list[tuple[bool, Constraint, Point | None]] = []
        value = None if self.point is None else polynomial.evaluate_at(self.point)
        for outcome, constraint in ((True, (polynomial, strict)), (False, (-polynomial, not strict))):
            if value is not None and self.point is not None and (value > 0 if strict else value >= 0) == outcome:
                sides.append((outcome, constraint, self.point))
                continue
            possible, point = self._find_solution([*self._constraints, constraint])
            if possible:
                sides.append((outcome, constraint, point))
        if not sides:
            raise _EmptyBranchError
        outcome, constraint, point = sides[0]
        if len(sides) == 1:
            return _Decision(outcome, None, point, None)
        return _Decision(outcome, constraint, point, sides[1][1:])

    def _find_solution(self, constraints: Sequence[Constraint]) -> tuple[bool, Point | None]:
        """Return whether the constraints may have a common solution (False is proved), and a solution or None."""
        linear = [constraint for constraint in constraints if constraint[0].degree <= 1]
        point = find_point(linear, self.width)
        if point is None:
            return False, None
        if len(linear) == len(constraints) or _satisfies(point, constraints):
            return True, point
        candidates = np.flatnonzero(
            np.logical_and.reduce([self._holds_on_grid(*constraint) for constraint in constraints])
        )
        if candidates.size:
            return True, _grid_point(int(candidates[0]), self.width)
        for candidate in _points_on_surfaces(constraints, self.width):
            if _satisfies(candidate, constraints):
                return True, candidate
        self.effort.certificates += 1
        if self.effort.certificates > MAX_CERTIFICATES:
            raise UndecidedError(f"it takes more than {MAX_CERTIFICATES} systems of polynomial inequalities")
        return not is_infeasible(constraints), None

    def _holds_on_grid(self, polynomial: Polynomial, strict: bool) -> Any:
        """Return for each point of the grid of `_CANDIDATES` whether a constraint holds."""
        if polynomial not in self._grid_values:
            self._grid_values[polynomial] = _evaluate_on_grid(polynomial)
        values = self._grid_values[polynomial]
        return np.asarray(values > 0 if strict else values >= 0, dtype=bool)

    # ----------------------------------------------------------------------------------------------------- numbers

    def unknown(self, index: int) -> Value:
        """Return the unknown with that index, which is any finite number. Only the explored computation may call it."""
        ratio = Ratio(Polynomial.variable(index, self.width), self._constant_one())
        if self.logarithmic:
            self.assume(ratio, strict=True)
            return LogRatio(ratio)
        return ratio

    def _constant_one(self) -> Polynomial:
        return Polynomial.constant(1, self.width)

    def from_rational(self, value: int | Fraction) -> Ratio:
        return Ratio(Polynomial.constant(value, self.width), self._constant_one())

    def finite_add(self, x: Value, y: Value) -> Value:
        if isinstance(x, LogRatio) or isinstance(y, LogRatio):
            return LogRatio(self._multiply(self._as_log(x).ratio, self._as_log(y).ratio))
        if x.denominator == y.denominator:
            return _cancel_factors(x.numerator + y.numerator, x.denominator)
        numerator = x.numerator * y.denominator + y.numerator * x.denominator
        return _cancel_factors(numerator, x.denominator * y.denominator)

    def finite_neg(self, x: Value) -> Value:
        if isinstance(x, LogRatio):
            return LogRatio(Ratio(x.ratio.denominator, x.ratio.numerator))
        return Ratio(-x.numerator, x.denominator)

    def finite_mul(self, x: Value, y: Value) -> Value:
        if isinstance(x, LogRatio) or isinstance(y, LogRatio):
            power, logarithm = (_constant_value(y), x) if isinstance(x, LogRatio) else (_constant_value(x), y)
            if power is None or power.denominator != 1 or abs(power) > 8:
                raise UndecidedError("a logarithm is multiplied by a number that is not a small integer")
            result = self.from_rational(0)
            for _ in range(abs(int(power))):
                result = self.finite_add(result, logarithm if power > 0 else self.finite_neg(logarithm))
            return result
        return self._multiply(x, y)

    def _multiply(self, x: Ratio, y: Ratio) -> Ratio:
        left, right = _cancel_factors(x.numerator, y.denominator), _cancel_factors(y.numerator, x.denominator)
        return Ratio(left.numerator * right.numerator, left.denominator * right.denominator)

    def finite_div(self, x: Value, y: Value) -> Value:
        if isinstance(y, LogRatio):
            raise UndecidedError("a division by a logarithm")
        inverse = Ratio(y.denominator, y.numerator)
        if not self.is_positive(y):  # y is not 0 here, and the denominator of a ratio must be positive
            inverse = Ratio(-y.denominator, -y.numerator)
        return self.finite_mul(x, inverse)

    def finite_function(self, op: str, x: Value) -> Value:
        if op in ("exp", "expm1"):
            ratio = self._as_log(x).ratio
            return ratio if op == "exp" else self.finite_add(ratio, self.from_rational(-1))
        if op in ("log", "log1p") and not isinstance(x, LogRatio):
            return LogRatio(x if op == "log" else self.finite_add(x, self.from_rational(1)))
        value = _constant_value(x)
        if value is not None and op == "floor":
            return self.from_rational(math.floor(value))
        raise UndecidedError(f"{op} of an unknown")

    def _as_log(self, x: Value) -> LogRatio:
        """Return a value as a logarithm: 0 is log 1, and 0.6931471805599453 is read as log 2."""
        if isinstance(x, LogRatio):
            return x
        value = _constant_value(x)
        if value == 0:
            return LogRatio(self.from_rational(1))
        for k in range(2, 17):
            for sign in (1, -1):
                if value == sign * Fraction(math.log(k)):
                    self.readings.add(f"{math.log(k)} is read as log {k}")
                    return LogRatio(self.from_rational(Fraction(k) ** sign))
        raise UndecidedError("a logarithm is combined with a number that is not the logarithm of a small integer")


def _cancel_factors(numerator: Polynomial, denominator: Polynomial) -> Ratio:
    """Return the ratio with denominator 1 if the division has a polynomial quotient, else the unchanged ratio."""
    constant = denominator.value
    if constant is not None:
        scaled = numerator if constant == 1 else numerator.scale(1 / constant)
        return Ratio(scaled, denominator.scale(1 / constant))
    quotient = numerator.divide(denominator)
    if quotient is not None:
        return Ratio(quotient, Polynomial.constant(1, denominator.width))
    return Ratio(numerator, denominator)


def _constant_value(x: Ratio | LogRatio) -> Fraction | None:
    """Return the value of a constant ratio, or None for a logarithm and for a ratio that depends on unknowns."""
    if isinstance(x, LogRatio):
        return None
    numerator, denominator = x.numerator.value, x.denominator.value
    return None if numerator is None or denominator is None else numerator / denominator


def _satisfies(point: Point, constraints: Sequence[Constraint]) -> bool:
    values = ((polynomial.evaluate_at(point), strict) for polynomial, strict in constraints)
    return all(value > 0 or (value == 0 and not strict) for value, strict in values)


def _points_on_surfaces(constraints: Sequence[Constraint], width: int) -> Iterator[Point]:
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


def _evaluate_on_grid(polynomial: Polynomial) -> Any:
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


#: Coordinates of the points that are tried if the solution of the linear constraints violates another constraint. All
#: are multiples of 1/4.
_CANDIDATES = tuple(
    Fraction(n, d) for n, d in ((0, 1), (1, 1), (1, 2), (2, 1), (-1, 1), (3, 1), (1, 4), (3, 4), (-2, 1))
)


#: A polynomial, and whether it is > 0 (True) or ≥ 0 (False).
Constraint = tuple[Polynomial, bool]
#: The coefficients of each inequality, with the constant and the strictness of the tightest one.
System = dict[tuple[int, ...], tuple[Fraction, bool]]
Row = tuple[tuple[int, ...], Fraction, bool]  # an inequality of a system: its coefficients, constant and strictness

MAX_ROWS = 2_000
MAX_PRODUCTS = 90


def find_point(constraints: Iterable[Constraint], width: int) -> tuple[Fraction, ...] | None:
    """Return a solution of linear constraints in ``width`` variables, with simple numbers, or None."""
    system: System = {}
    for polynomial, strict in constraints:
        constant = polynomial.value
        if constant is not None:
            if constant < 0 or (strict and constant == 0):
                return None
            continue
        coefficients, offset = polynomial.row
        _tighten(system, coefficients, offset, strict)
    values = _solve(system, width)
    return None if values is None else tuple(values)


def _tighten(system: System, coefficients: tuple[int, ...], constant: Fraction, strict: bool) -> None:
    current = system.get(coefficients)
    if current is None or (constant, not strict) < (current[0], not current[1]):
        system[coefficients] = (constant, strict)


def _solve(system: System, width: int) -> list[Fraction] | None:
    """Return values of the variables that satisfy the system, or None, by elimination of one variable at a time."""
    chosen = _cheapest_variable(system, width)
    if chosen is None:
        return [Fraction(0)] * width
    lower = [(c, *rest) for c, rest in system.items() if c[chosen] > 0]
    upper = [(c, *rest) for c, rest in system.items() if c[chosen] < 0]
    reduced = {c: rest for c, rest in system.items() if c[chosen] == 0}
    if not _combine(reduced, lower, upper, chosen):
        return None
    if len(reduced) > MAX_ROWS:
        raise UndecidedError("the elimination grows too large")
    values = _solve(reduced, width)
    if values is None:
        return None

    def evaluate_bound(coefficients: tuple[int, ...], constant: Fraction) -> Fraction:
        known_terms = sum(
            (c * v for i, (c, v) in enumerate(zip(coefficients, values, strict=True)) if i != chosen), constant
        )
        return -known_terms / coefficients[chosen]

    low = max(((evaluate_bound(c, constant), strict) for c, constant, strict in lower), default=None)
    high = min(((evaluate_bound(c, constant), not strict) for c, constant, strict in upper), default=None)
    values[chosen] = simplest_between(
        None if low is None else low[0],
        None if high is None else high[0],
        low_open=low is not None and low[1],
        high_open=high is not None and not high[1],
    )
    return values


def _cheapest_variable(system: System, width: int) -> int | None:
    """Return the variable whose elimination adds the fewest rows, or None if no row has a variable."""
    counts = [[0, 0] for _ in range(width)]
    for coefficients in system:
        for i, coefficient in enumerate(coefficients):
            if coefficient:
                counts[i][coefficient < 0] += 1
    present = [i for i in range(width) if counts[i] != [0, 0]]
    return min(present, key=lambda i: counts[i][0] * counts[i][1] - sum(counts[i]), default=None)


def _combine(system: System, lower: list[Row], upper: list[Row], variable: int) -> bool:
    """Add to a system the sum of each lower and each upper bound of a variable, in which the variable cancels.

    Returns False if two bounds contradict each other.
    """
    for below, below_constant, below_strict in lower:
        for above, above_constant, above_strict in upper:
            p, q = -above[variable], below[variable]
            combined = [p * a + q * b for a, b in zip(below, above, strict=True)]
            constant, strict = p * below_constant + q * above_constant, below_strict or above_strict
            divisor = math.gcd(*combined)
            if divisor == 0:
                if constant < 0 or (strict and constant == 0):
                    return False
            else:
                _tighten(system, tuple(c // divisor for c in combined), constant / divisor, strict)
    return True


def simplest_between(
    low: Fraction | None, high: Fraction | None, *, low_open: bool = False, high_open: bool = False
) -> Fraction:
    """Return the number with the smallest denominator, then the smallest size, in a non-empty interval.

    A bound of None stands for an unbounded interval.
    """
    if (low is None or low < 0 or (low == 0 and not low_open)) and (
        high is None or high > 0 or (high == 0 and not high_open)
    ):
        return Fraction(0)
    if high is not None and high <= 0:
        return -simplest_between(-high, None if low is None else -low, low_open=high_open, high_open=low_open)
    assert low is not None
    # The interval is positive from here on. The recursion follows the continued fractions of its ends (Stern–Brocot).
    whole = math.floor(low)
    least = Fraction(whole if low == whole and not low_open else whole + 1)
    if high is None or least < high or (least == high and not high_open):
        return least
    rest = simplest_between(
        None if high == whole else 1 / (high - whole),
        None if low == whole else 1 / (low - whole),
        low_open=high_open,
        high_open=low_open,
    )
    return whole + 1 / rest


def is_infeasible(constraints: Sequence[Constraint]) -> bool:
    """Return whether polynomial constraints are *proved* to have no common solution, where False proves nothing.

    Each monomial counts as a variable of its own. The linear system has the constraints and the products of pairs of
    constraints, which they imply. This relaxed system is infeasible exactly if there are non-negative multipliers with
    Σ λᵢ gᵢ = 0, of which at least one belongs to a strict inequality (1 > 0 is one).
    """
    width = constraints[0][0].width
    columns: list[Constraint] = [(Polynomial.constant(1, width), True), *constraints]
    try:
        for i, (left, left_strict) in enumerate(constraints):
            for right, right_strict in constraints[i:]:
                if len(columns) < MAX_PRODUCTS and left.degree + right.degree <= 6:
                    columns.append((left * right, left_strict and right_strict))
    except UndecidedError:
        return False
    monomials = sorted({exponents for polynomial, _ in columns for exponents in polynomial.terms})
    rows = [[polynomial.terms.get(exponents, Fraction(0)) for polynomial, _ in columns] for exponents in monomials]
    rows.append([Fraction(int(strict)) for _, strict in columns])
    return _has_nonnegative_solution(rows, [Fraction(0)] * len(monomials) + [Fraction(1)])


def _has_nonnegative_solution(rows: list[list[Fraction]], right: list[Fraction]) -> bool:
    """Return whether rows · λ = right has a solution λ ≥ 0, for right ≥ 0.

    The function runs phase one of the simplex method with Bland's rule.
    """
    n = len(rows[0])
    # The table has no artificial columns: they never enter the basis again, so ``basis`` holds only their numbers.
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    basis = [n + i for i in range(len(table))]
    cost = [sum((row[j] for row in table), Fraction(0)) for j in range(n + 1)]
    for _ in range(500):
        entering = next((j for j in range(n) if cost[j] > 0), None)
        if entering is None:
            return cost[n] == 0
        ratios = [(row[n] / row[entering], basis[i], i) for i, row in enumerate(table) if row[entering] > 0]
        if not ratios:
            return cost[n] == 0
        pivot_row = min(ratios)[2]
        pivot = table[pivot_row][entering]
        table[pivot_row] = [value / pivot for value in table[pivot_row]]
        for i, row in enumerate(table):
            if i != pivot_row and row[entering]:
                factor = row[entering]
                table[i] = [a - factor * b if b else a for a, b in zip(row, table[pivot_row], strict=True)]
        factor = cost[entering]
        cost = [a - factor * b if b else a for a, b in zip(cost, table[pivot_row], strict=True)]
        basis[pivot_row] = entering
    return False
