"""Verify laws on an interval of the extended reals, by corner values, case splits and samples."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from semiring.algebra.verify.case_splits import Cases, Effort
from semiring.algebra.verify.extended_reals import DecimalNumbers, Numbers, Value, format_value, is_nan, numbers_for
from semiring.algebra.verify.polynomials import UndecidedError
from semiring.algebra.verify.report import Counterexample, Verdict
from semiring.algebra.verify.statements import Law

if TYPE_CHECKING:
    from semiring.algebra import Domain, Semiring
    from semiring.algebra.expressions import Expression

__all__ = ["ScalarAlgebra", "prove", "real_verdict"]

#: A statement that fails, the value of its left side, and the values that the left side may have.
Violation = tuple[str, Value, tuple[Value, ...]]
_SIMPLE = ("0", "1", "-1", "2", "1/2", "-2", "3", "1/4", "3/4", "-1/2", "5/2", "-3", "10", "1/8")
_MAX_CORNERS = 800  # tuples of corner values that are tried on one law
_MIN_TUPLES = 40  # tuples that are tried after the budget is spent, too
_FIRST_CORNERS = 20  # tuples that are tried before a proof, which takes as long as some 50 tuples


def expressions_of(semiring: Semiring, law: Law) -> tuple[Expression, ...]:
    """Return the expressions of the semiring that occur in a law."""
    expressions = (semiring.add.expression, semiring.mul.expression, semiring.zero, semiring.one)
    star = star_of(semiring) if law.starred else None
    return expressions if star is None else (*expressions, star)


def star_of(semiring: Semiring) -> Expression | None:
    """Return the star, which is NaN where it does not exist, or None if the semiring has no star."""
    return semiring.star_expression if semiring.given_star is None else semiring.given_star


class ScalarAlgebra:
    """The operations of a semiring on single numbers."""

    def __init__(self, semiring: Semiring, numbers: Numbers) -> None:
        self.semiring, self.numbers = semiring, numbers
        self.zero = numbers.evaluate(semiring.zero, {})
        self.one = numbers.evaluate(semiring.one, {})

    def add(self, x: Value, y: Value) -> Value:
        return self.numbers.evaluate(self.semiring.add.expression, {"x": x, "y": y})

    def raw_mul(self, x: Value, y: Value) -> Value:
        return self.numbers.evaluate(self.semiring.mul.expression, {"x": x, "y": y})

    def mul(self, x: Value, y: Value) -> Value:
        if self.semiring.annihilates and (self.numbers.is_equal(x, self.zero) or self.numbers.is_equal(y, self.zero)):
            return self.zero
        return self.raw_mul(x, y)

    def star(self, x: Value) -> Value:
        expression = star_of(self.semiring)
        assert expression is not None
        return self.numbers.evaluate(expression, {"x": x})

    def contains(self, x: Value) -> bool:
        """Return whether x lies in the domain, up to the tolerance of decimals at the ends."""
        domain, numbers = self.semiring.domain, self.numbers
        lower, upper = numbers.constant(domain.lower), numbers.constant(domain.upper)
        if isinstance(numbers, DecimalNumbers) and not isinstance(x, float):
            closed = (
                not domain.lower_open and numbers.is_same_outcome(lower, x),
                not domain.upper_open and numbers.is_same_outcome(x, upper),
            )
        else:
            closed = (False, False)
        above = closed[0] or (numbers.is_less(lower, x) if domain.lower_open else numbers.is_less_or_equal(lower, x))
        return above and (
            closed[1] or (numbers.is_less(x, upper) if domain.upper_open else numbers.is_less_or_equal(x, upper))
        )

    def find_violation(self, law: Law, values: Sequence[Value]) -> Violation | None:
        """Return the first statement of the law that fails for the values, with its sides, or None."""
        for statement, left, right in law.demands(self, *values):
            if law.starred and is_nan(left):
                continue
            if any(self.numbers.is_same_outcome(left, side) for side in right) if right else self.contains(left):
                continue
            return statement, left, right
        return None


def real_verdict(
    semiring: Semiring, law: Law, samples: int, seed: int, *, integral: bool = False, deadline: float = math.inf
) -> Verdict:
    """Return the verdict on a law over the rational (``integral``: integer) elements of the domain and ±∞.

    After the ``deadline``, by `time.monotonic`, the law is tried on a few samples alone.
    """
    numbers = numbers_for(*expressions_of(semiring, law))
    algebra = ScalarAlgebra(semiring, numbers)
    precision = "60 digits" if isinstance(numbers, DecimalNumbers) else "exact"
    corners = _corner_tuples(_corner_values(semiring, law, integral), law.arity)
    refuted, _ = _find_counterexample(law, algebra, corners[:_FIRST_CORNERS], deadline)
    verdict, why = None, ""
    if refuted is None:
        try:
            verdict = prove(semiring, law, integral=integral, deadline=deadline)
        except UndecidedError as reason:
            why = str(reason)
        if verdict is not None and verdict.proved:
            return verdict
        refuted, _ = _find_counterexample(law, algebra, corners, deadline)
    if refuted is not None:
        return Verdict(law, "refuted", f"corner values ({precision})", refuted)
    if verdict is not None:
        return verdict
    generator = random.Random(f"{seed} {law.key}")
    draws = (tuple(_draw_element(semiring.domain, generator, integral) for _ in law.variables) for _ in range(samples))
    refuted, tried = _find_counterexample(law, algebra, itertools.chain(corners, draws), deadline)
    if refuted is not None:
        return Verdict(law, "refuted", f"samples ({precision})", refuted)
    return Verdict(law, "sampled", f"{tried} samples ({precision}): {why}")


def _find_counterexample(
    law: Law, algebra: ScalarAlgebra, tuples: Iterable[tuple[float | Fraction, ...]], deadline: float = math.inf
) -> tuple[Counterexample | None, int]:
    """Return the first counterexample among the tuples, or None, and the number of tuples that were evaluated.

    After the deadline, only the first `_MIN_TUPLES` are evaluated.
    """
    tried = 0
    for values in tuples:
        if tried >= _MIN_TUPLES and time.monotonic() > deadline:
            break
        try:
            clash = algebra.find_violation(law, [algebra.numbers.constant(value) for value in values])
        except UndecidedError:
            continue
        tried += 1
        if clash is not None:
            return make_counterexample(law, values, clash), tried
    return None, tried


def make_counterexample(law: Law, values: Sequence[Any], violation: Violation) -> Counterexample:
    """Return the counterexample with the text of its values, from the sides of the violated statement."""
    statement, left, right = violation
    named = dict(zip(law.variables, values, strict=True))
    text = ", ".join(f"{name} = {format_value(value)}" for name, value in named.items())
    return Counterexample(named, statement, format_value(left), tuple(format_value(side) for side in right), text)


# ------------------------------------------------------------------------------------------------------------ elements


def _corner_values(semiring: Semiring, law: Law, integral: bool) -> list[float | Fraction]:
    """Return elements to try, simple elements first: small numbers, ends of the domain, constants of the operations."""
    domain = semiring.domain
    candidates: list[float | Fraction] = [Fraction(text) for text in _SIMPLE]
    ends = [Fraction(end) for end in (domain.lower, domain.upper) if math.isfinite(end)]
    candidates[3:3] = ends
    candidates[6:6] = [math.inf, -math.inf]
    if len(ends) == 2:
        candidates += [ends[0] + (ends[1] - ends[0]) * Fraction(i, 8) for i in (4, 2, 6, 1, 3)]
    else:
        candidates += [end + step for end in ends for step in (1, Fraction(1, 2), -1)]
    for expression in expressions_of(semiring, law):
        for node in expression.walk():
            if node.op == "const" and math.isfinite(node.leaf):  # type: ignore[arg-type]  # a Constant
                constant = Fraction(node.leaf)  # type: ignore[arg-type]
                candidates += [constant, constant + 1, constant - 1, constant / 2, -constant]
    corners = dict.fromkeys(c for c in candidates if _in_domain(domain, c))
    return [c for c in corners if not integral or isinstance(c, float) or c.denominator == 1]


def _in_domain(domain: Domain, value: float | Fraction) -> bool:
    above = domain.lower < value if domain.lower_open else domain.lower <= value
    return above and (value < domain.upper if domain.upper_open else value <= domain.upper)


def _corner_tuples(corners: list[float | Fraction], arity: int) -> list[tuple[float | Fraction, ...]]:
    """Return tuples of corner values, simple tuples first, so that the first counterexample is simple."""
    count = len(corners)
    while count > 1 and count**arity > _MAX_CORNERS:
        count -= 1
    indices = sorted(
        itertools.product(range(count), repeat=arity), key=lambda tuple_: (sum(tuple_), max(tuple_, default=0))
    )
    return [tuple(corners[i] for i in tuple_) for tuple_ in indices]


def _draw_element(domain: Domain, generator: random.Random, integral: bool) -> float | Fraction:
    """Return a random element of the domain, or raise `UndecidedError` if a hundred draws find none."""
    infinities = [end for end in (-math.inf, math.inf) if _in_domain(domain, end)]
    if infinities and generator.random() < 0.06:
        return generator.choice(infinities)
    lower, upper = (Fraction(end) if math.isfinite(end) else None for end in (domain.lower, domain.upper))
    for _ in range(100):
        size = generator.choice((3, 10, 100, 10**6))
        value = Fraction(generator.randint(-size, size), 1 if integral else generator.choice((1, 2, 7, 64, 10**4)))
        if lower is not None and upper is not None and not integral:
            value = lower + (upper - lower) * Fraction(generator.randint(0, 840), 840)
        elif lower is not None and upper is None:
            value = lower + abs(value)
        elif upper is not None and lower is None:
            value = upper - abs(value)
        elif lower is not None and upper is not None:
            value = Fraction(generator.randint(math.ceil(lower), max(math.ceil(lower), math.floor(upper))))
        if _in_domain(domain, value):
            return value
    raise UndecidedError(f"no element was found in {domain}")


# -------------------------------------------------------------------------------------------------------------- proofs


@dataclass
class _Proof:
    """The number of branches of a proof, the constants that it read as logarithms, and its effort."""

    branches: int = 0
    readings: set[str] = field(default_factory=set)
    effort: Effort = field(default_factory=Effort)


def prove(semiring: Semiring, law: Law, *, integral: bool = False, deadline: float = math.inf) -> Verdict:
    """Prove or refute a law by case splits, and raise `UndecidedError` if neither succeeds before the deadline."""
    operations = frozenset[str]().union(*(e.operations for e in expressions_of(semiring, law)))
    logarithmic = bool(operations & {"exp", "expm1", "log", "log1p"})
    proof = _Proof(effort=Effort(deadline))
    domain = semiring.domain
    kinds = [math.nan, *(end for end in (math.inf, -math.inf) if _in_domain(domain, end))]  # NaN marks a finite unknown
    for ends in itertools.product(kinds, repeat=law.arity):
        refutation = _refute_by_cases(semiring, law, ends, logarithmic, integral, proof)
        if refutation is not None:
            return Verdict(law, "refuted", "case splits", refutation)
    how = "case splits (1 case)" if proof.branches == 1 else f"case splits ({proof.branches} cases)"
    if logarithmic:
        how += " with x = log u"
    note = f"{', '.join(sorted(proof.readings))}" if proof.readings else ""
    return Verdict(law, "proved", how, note=note)


def _refute_by_cases(
    semiring: Semiring, law: Law, ends: tuple[float, ...], logarithmic: bool, integral: bool, proof: _Proof
) -> Counterexample | None:
    """Return a counterexample of the cases that ``ends`` describes, or None if the law holds in all of them.

    A variable is the infinity in ``ends``, or any finite element if its entry is NaN.
    """
    finite = [i for i, end in enumerate(ends) if end != end]
    cases = Cases(len(finite), logarithmic, proof.readings, proof.effort)
    algebra = ScalarAlgebra(semiring, cases)
    domain = semiring.domain

    def evaluate_law() -> Violation | None:
        values: list[Value] = list(ends)
        for position, i in enumerate(finite):
            values[i] = unknown = cases.unknown(position)
            if math.isfinite(domain.lower):
                cases.assume(cases.add(unknown, cases.neg(cases.constant(domain.lower))), strict=domain.lower_open)
            if math.isfinite(domain.upper):
                cases.assume(cases.add(cases.constant(domain.upper), cases.neg(unknown)), strict=domain.upper_open)
        return algebra.find_violation(law, values)

    for refutation in cases.explore(evaluate_law):
        if refutation is None:
            continue
        if cases.point is None:
            raise UndecidedError("the method can neither prove that a case is impossible nor find an element of it")
        values: list[Any] = list(ends)
        for position, i in enumerate(finite):
            coordinate = cases.point[position]
            values[i] = _logarithm(coordinate) if logarithmic else coordinate
        if integral and any(isinstance(value, Fraction) and value.denominator != 1 for value in values):
            raise UndecidedError("the counterexample is not integral")
        return _confirm_counterexample(semiring, law, values)
    proof.branches += cases.branches
    return None


def _logarithm(value: Fraction) -> Fraction:
    context = DecimalNumbers.context
    return Fraction(context.ln(context.divide(Decimal(value.numerator), Decimal(value.denominator))))


def _confirm_counterexample(semiring: Semiring, law: Law, values: list[float | Fraction]) -> Counterexample:
    """Return the counterexample that these values are, after the law was evaluated on them as numbers."""
    algebra = ScalarAlgebra(semiring, numbers_for(*expressions_of(semiring, law)))
    refutation, _ = _find_counterexample(law, algebra, [tuple(values)])
    if refutation is None:
        raise UndecidedError("a counterexample could not be confirmed")
    return refutation
