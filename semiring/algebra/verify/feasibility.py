"""Decide whether inequalities have a solution over the rationals, by Fourier–Motzkin elimination.

`find_point` decides systems in a few variables, with strict and non-strict inequalities, exactly. `is_infeasible` is a
sufficient test for polynomial inequalities. It searches for non-negative multipliers under which products of the
constraints add up to a contradiction (Handelman 1988, Motzkin's transposition theorem), by an exact simplex method.

Source: Fourier 1827, Motzkin 1936; Schrijver, Theory of Linear and Integer Programming, 1986, chapters 7 and 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from semiring.algebra.verify.polynomials import Polynomial, UndecidedError

__all__ = ["Constraint", "find_point", "is_infeasible", "simplest_between"]

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
        coefficients, offset = polynomial.row()
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
