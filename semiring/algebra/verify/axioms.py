"""Functions `derive_property` and `check_axioms`, which select a method for each law and make the report.

`Semiring` derives its properties with this module, so the module does not import `Semiring`.

`_prove_bits` proves laws of bit operations for every width at once, because each bit of a result depends on one
position. Each variable is the eight-row column of a truth table, and a constant contributes one of its bits at every
position. A law that holds for each combination of constant bits that occurs holds for every word of every width.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.advice import quote
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.nan_conditions import is_nan
from semiring.algebra.verify.dtype_laws import dtype_verdict, measure_rounding
from semiring.algebra.verify.extended_reals import format_value
from semiring.algebra.verify.intervals import expressions_of, real_verdict, star_of
from semiring.algebra.verify.polynomials import UndecidedError
from semiring.algebra.verify.report import AxiomReport, Verdict
from semiring.algebra.verify.statements import ANNIHILATION, AXIOMS, PROPERTIES, STAR_LAWS, SUM_LAWS, Law
from semiring.errors import AlgebraError, DTypeError, ExpressionError, UnknownNameError

if TYPE_CHECKING:
    from semiring.algebra import Semiring

__all__ = ["check_axioms", "check_sums", "common_star", "derive_property"]


_SAMPLES, _SEED = 500, 0
_SECONDS = 10.0  # the default budget of `check_axioms`: the proof of any semiring of the catalogue takes under one
_MAX_POLES = 4  # points at which a star may be infinite, and a hint still suggests a star that is NaN there

#: Domains on which a refuted definition without a domain is verified again, for a hint where its laws would hold.
_FINITE_DOMAIN = "(-inf, inf)"
_SUGGESTED_DOMAINS = ("[0, inf]", "[0, inf)", "(0, inf]", _FINITE_DOMAIN, "[-inf, inf)", "(-inf, inf]", "[0, 1]")

#: Stars of ⊕ = + and ⊗ = ·, suggested for definitions without a star: on all finite, and on non-negative numbers.
_COMMON_STARS = ("where(x == 1, nan, 1 / (1 - x))", "where(x < 1, 1 / (1 - x), nan)")


@lru_cache(maxsize=1024)
def derive_property(semiring: Semiring, key: str) -> Verdict:
    """Return whether a semiring has a property.

    The function ignores the claims of the semiring.

    Parameters
    ----------
    semiring : Semiring
        The semiring.
    key : {"idempotent", "selective", "commutative", "absorptive"}
        The property. The first two are properties of ⊕, the third of ⊗, and the last of both operations.

    Returns
    -------
    Verdict
        A verdict that is true in a condition if the property holds. Its text states the method, and a counterexample if
        the property fails.

    Raises
    ------
    UnknownNameError
        If ``key`` is no property.

    Notes
    -----
    The cost is some milliseconds for min, max, sums and products, and bounded for any definition. Results are cached.

    Examples
    --------
    >>> import semiring as sr
    >>> bool(derive_property(sr.min_plus, "idempotent")), bool(derive_property(sr.plus_times, "idempotent"))
    (True, False)
    """
    if key not in PROPERTIES:
        raise UnknownNameError("property", key, PROPERTIES)
    return _decide_law(semiring, PROPERTIES[key], semiring.dtypes, _SAMPLES, _SEED)


@lru_cache(maxsize=1024)
def check_sums(semiring: Semiring) -> AxiomReport:
    """Return the report on the laws that a product needs: ⊕ is associative and commutative, with neutral 0̄.

    Kernels add the terms of a product in any order, and zeros may be among the terms.
    """
    deadline = time.monotonic() + _SECONDS
    verdicts = [_decide_law(semiring, law, semiring.dtypes, _SAMPLES, _SEED, deadline) for law in SUM_LAWS]
    return _make_report(semiring, semiring.dtypes, _widest_dtype(semiring), verdicts)


@lru_cache(maxsize=1024)
def refute_annihilation(semiring: Semiring) -> Verdict | None:
    """Return the verdict that refutes 0̄ ⊗ x = x ⊗ 0̄ = 0̄ by elements on which ⊗ is defined, or None."""
    verdict = _decide_law(semiring, ANNIHILATION, semiring.dtypes, _SAMPLES, _SEED)
    domain = semiring.domain
    if verdict.counterexample is not None and verdict.counterexample.left == format_value(math.nan):
        finite = replace(
            domain,
            lower_open=domain.lower_open or math.isinf(domain.lower),
            upper_open=domain.upper_open or math.isinf(domain.upper),
        )
        verdict = _decide_law(semiring.on_domain(finite), ANNIHILATION, semiring.dtypes, _SAMPLES, _SEED)
    failure = verdict.counterexample
    return None if failure is None or failure.left == format_value(math.nan) else verdict


def check_axioms(
    semiring: Semiring,
    dtype: Any = None,
    samples: int = _SAMPLES,
    seed: int = _SEED,
    *,
    suggest: bool = True,
    seconds: float = _SECONDS,
) -> AxiomReport:
    """Prove or refute each law of a semiring on its domain.

    Parameters
    ----------
    semiring : Semiring
        The semiring. Its elements are the rational numbers and the infinities in its domain, or integers alone if it is
        defined on no other dtype.
    dtype : dtype, str or None
        The dtype whose rounding is measured, by default the widest float of the semiring. An integer dtype restricts
        the elements to integers, bool to its two values.
    samples, seed : int
        The number of random tuples of elements for laws that are not proved and for the rounding, and their seed.
    suggest : bool
        Whether a refuted definition without a domain of its own is verified on the usual domains, for the hint of the
        report.
    seconds : float
        The budget of time. When it is spent, the remaining laws are tried on a few samples and not proved. Their
        verdicts say so, and no domain is suggested. `math.inf` sets no limit.

    Returns
    -------
    AxiomReport
        One verdict for each law. ⊕ is associative and commutative with neutral 0̄, and ⊗ is associative with neutral 1̄.
        Both distributive laws hold, and 0̄ annihilates. Both elements are in the domain, which is closed under ⊕ and ⊗.
        If the star exists, x* = 1̄ ⊕ x ⊗ x*. The report prints as a table, and `AxiomReport.raise_if_refuted` raises
        `AlgebraError` for a failure.

    Raises
    ------
    DTypeError
        The semiring is not defined on ``dtype``.
    UnknownNameError
        There is no such dtype.
    ValueError
        ``seconds`` is not a number from 0 up.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"seconds is {quote(seconds)}: it must be a number from 0 up, or math.inf")
    deadline = time.monotonic() + seconds
    try:
        chosen = np.dtype(dtype if dtype is not None else _widest_dtype(semiring))
    except (TypeError, ValueError):
        raise UnknownNameError("dtype", dtype, semiring.dtypes) from None
    semiring.check_dtype(chosen)
    names = semiring.dtypes if dtype is None or chosen.kind == "f" else (chosen.name,)
    verdicts = []
    for law in (*AXIOMS, *(STAR_LAWS if star_of(semiring) is not None else ())):
        verdict = _decide_law(semiring, law, names, samples, seed, deadline)
        if law.key == "annihilation" and semiring.annihilates:
            verdict = _annihilation_verdict(verdict)
        if verdict and law.arity:
            verdict = replace(verdict, rounding=_measure_rounding(semiring, law, chosen, samples, seed))
        verdicts.append(verdict)
    return _make_report(
        semiring, names, chosen.name, verdicts, suggest=suggest and time.monotonic() < deadline, deadline=deadline
    )


def _make_report(
    semiring: Semiring,
    names: tuple[str, ...],
    dtype: str,
    verdicts: list[Verdict],
    *,
    suggest: bool = True,
    deadline: float = math.inf,
) -> AxiomReport:
    report = AxiomReport(semiring.name, repr(semiring), _describe_elements(semiring, names), dtype, tuple(verdicts))
    if not (suggest and report.refuted):
        return report
    laws = [verdict.law for verdict in verdicts]
    if semiring.domain.everything:
        return replace(
            report,
            **_suggest_domain(
                semiring, laws, _stars_undefined_at_poles(semiring) if laws[-1].starred else (), deadline
            ),
        )
    refuted = {verdict.law.key for verdict in report.refuted}
    if refuted <= {law.key for law in STAR_LAWS}:
        stars = _stars_undefined_at_poles(semiring)
        if not stars and refuted == {"star_closed"}:  # 1 / (1 - x) above 1, and NaN at 1
            stars = tuple(filter(None, (common_star(semiring.with_star(None)),)))
        for star in stars:
            mended = semiring.with_star(star)
            if all(_decide_law(mended, law, names, _SAMPLES, _SEED) for law in STAR_LAWS):
                return replace(report, star=star)
    return report


def _describe_elements(semiring: Semiring, names: tuple[str, ...]) -> str:
    """Return the description of the elements in the report."""
    kinds = {np.dtype(name).kind for name in names}
    if kinds == {"b"}:
        return "{False, True}"
    if "f" in kinds:
        return str(semiring.domain)
    return "the integers" if semiring.domain.everything else f"the integers in {semiring.domain}"


def _widest_dtype(semiring: Semiring) -> str:
    return "float64" if "float64" in semiring.dtypes else semiring.dtypes[0]


def _decide_law(
    semiring: Semiring, law: Law, names: tuple[str, ...], samples: int, seed: int, deadline: float = math.inf
) -> Verdict:
    """Return the verdict of the strongest method that applies before the deadline, on the dtypes with these names."""
    expressions = expressions_of(semiring, law)
    if _acts_on_bits(*expressions):
        try:
            return _prove_bits(semiring, law, star_of(semiring) if law.starred else None)
        except UndecidedError:
            return dtype_verdict(semiring, law, names, samples, seed)
    kinds = {np.dtype(name).kind for name in names}
    if kinds == {"b"}:
        return dtype_verdict(semiring, law, names, samples, seed)
    return real_verdict(semiring, law, samples, seed, integral="f" not in kinds, deadline=deadline)


def _annihilation_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict that 0̄ annihilates by definition, with a note if the expression alone violates that law."""
    if verdict:
        return replace(verdict, outcome="proved", how=f"definition, and {verdict.how}")
    note = f"a note, no error: 0̄ ⊗ x is defined as 0̄. Without this definition, {verdict.counterexample}"
    return Verdict(verdict.law, "proved", "definition", note=note)


def _measure_rounding(semiring: Semiring, law: Law, dtype: np.dtype[Any], samples: int, seed: int) -> Any:
    try:
        return measure_rounding(semiring, law, dtype, samples, seed)
    except DTypeError:  # the star does not exist on integers
        return None


def _suggest_domain(semiring: Semiring, laws: list[Law], stars: tuple[str, ...], deadline: float) -> dict[str, Any]:
    """Return the fields of a report that suggest a domain on which the laws of a refuted definition are proved, or {}.

    ``stars`` is the result of `_stars_undefined_at_poles`, and one of them is suggested if the laws need it. If the
    semiring has no star on that domain, the suggestion includes a common star.
    """
    for star in ("", *stars):
        for text in _SUGGESTED_DOMAINS:
            try:
                candidate = semiring.on_domain(text)
                candidate = candidate.with_star(star) if star else candidate
            except (AlgebraError, DTypeError, ExpressionError):  # for example where zero and one are swapped
                continue
            unproved = [law for law in laws if law.key != "annihilation" or not candidate.annihilates]
            if all(real_verdict(candidate, law, 0, _SEED, deadline=deadline).proved for law in unproved):
                if len(laws) > len(SUM_LAWS) and candidate.star_expression is None:
                    return {"suggested": text, "star": common_star(candidate), "is_starless": True}
                return {"suggested": text, "star": star}
    return {}


@lru_cache(maxsize=256)
def common_star(semiring: Semiring) -> str:
    """Return the text of a common star that is proved to be a star of the semiring, or "".

    The candidates are the star of sums and products, and for a selective ⊕ the star that is 1̄ where 1̄ ⊕ x = 1̄.
    """
    one, stars = semiring.one, list(_COMMON_STARS)
    if semiring.selective:
        absorbed = semiring.add.expression.substitute({"x": one, "y": Expression("var", (), "x")})
        stars.append(f"where({absorbed} == {one}, {one}, nan)")
    for star in stars if semiring.given_star is None else ():
        try:
            candidate = semiring.with_star(star)
            if all(real_verdict(candidate, law, 0, _SEED).proved for law in STAR_LAWS):
                return star
        except (AlgebraError, DTypeError, ExpressionError):
            continue
    return ""


def _stars_undefined_at_poles(semiring: Semiring) -> tuple[str, ...]:
    """Return texts of the semiring's star with NaN at, or beyond, the points where it is infinite.

    1 / (1 - x) is infinite at 1, where the sum of all powers of 1 diverges, so a star must be NaN there. Above 1 it is
    negative, which is outside the domain of non-negative numbers.
    """
    if semiring.given_star is None:
        return ()
    law = next(law for law in STAR_LAWS if law.key == "star_closed")
    star_text = text = semiring.given_star.text
    points: list[Any] = []
    try:
        finite = semiring.on_domain(_FINITE_DOMAIN)  # a domain without ∞
        while len(points) <= _MAX_POLES:
            failure = _decide_law(finite, law, semiring.dtypes, _SAMPLES, _SEED).counterexample
            if failure is None:
                break
            if failure.left.lstrip("-") != "∞":
                return ()
            points.append(failure.values["x"])
            text = f"where(x == {points[-1]}, nan, {text})"
            finite = finite.with_star(text)
        else:
            return ()
    except (AlgebraError, DTypeError, ExpressionError):
        return ()
    inside = [point for point in points if semiring.domain.contains(point)]
    if not inside:
        return ()
    return text, f"where(x < {min(inside)}, {star_text}, nan)", f"where(x > {max(inside)}, {star_text}, nan)"


_COLUMNS = (0b10101010, 0b11001100, 0b11110000)
_FULL = 0xFF
_BIT_OPERATIONS = frozenset({"and", "or", "xor", "invert"})


def _acts_on_bits(*expressions: Expression) -> bool:
    """Return whether one of the expressions applies a bit operation to values (not to truths)."""
    return any(
        node.op in _BIT_OPERATIONS and node.kind == "value" for expression in expressions for node in expression.walk()
    )


class _TableAlgebra:
    """The operations on columns of a truth table, at one position of the constants."""

    def __init__(self, semiring: Semiring, position: int, star: Expression | None) -> None:
        self.semiring, self.position, self.star_expression = semiring, position, star
        self.zero, self.one = self.evaluate(semiring.zero, {}), self.evaluate(semiring.one, {})

    def evaluate(self, expression: Expression, values: dict[str, int]) -> int:
        def leaf(node: Expression) -> int:
            if node.op == "var":
                return values[str(node.leaf)]
            return _FULL * (_integer_constant(node) >> self.position & 1)

        def operation(node: Expression, args: list[int]) -> int:
            if node.op == "invert":
                return _FULL ^ args[0]
            x, y = args
            return x & y if node.op == "and" else x | y if node.op == "or" else x ^ y

        result: int = expression.fold(leaf, operation)
        return result

    def add(self, x: int, y: int) -> int:
        return self.evaluate(self.semiring.add.expression, {"x": x, "y": y})

    def raw_mul(self, x: int, y: int) -> int:
        return self.evaluate(self.semiring.mul.expression, {"x": x, "y": y})

    def mul(self, x: int, y: int) -> int:
        zero = self.zero
        pairs = [pair for column in _COLUMNS for pair in ((zero, column), (column, zero))]
        if self.semiring.annihilates and any(self.raw_mul(*pair) != zero for pair in pairs):
            raise UndecidedError("0̄ does not annihilate bit by bit, so that 0̄ ⊗ x = 0̄ compares whole words")
        return self.raw_mul(x, y)

    def star(self, x: int) -> int:
        assert self.star_expression is not None
        return self.evaluate(self.star_expression, {"x": x})


def _prove_bits(semiring: Semiring, law: Law, star: Expression | None) -> Verdict:
    """Return a proof for words of every width, or raise `UndecidedError` if the law fails or mixes bit positions."""
    expressions = [semiring.add.expression, semiring.mul.expression, semiring.zero, semiring.one]
    if any(not expression.operations <= _BIT_OPERATIONS for expression in expressions):
        raise UndecidedError("the operations are not bit operations alone")
    if not semiring.domain.everything:
        raise UndecidedError("the domain is not every word")
    branches: list[tuple[Expression | None, int | None]] = [(None, None)]
    if law.starred and star is not None:
        branches = _star_branches(star)
        expressions += [branch for branch, _ in branches if branch is not None]
    constants = {
        _integer_constant(node) for expression in expressions for node in expression.walk() if node.op == "const"
    }
    constants |= {point for _, point in branches if point is not None}
    positions = _distinct_positions(constants)
    for position, (branch, point) in itertools.product(positions, branches):
        algebra = _TableAlgebra(semiring, position, branch)
        columns = [_FULL * (point >> position & 1)] if point is not None else list(_COLUMNS[: law.arity])
        demands = list(law.demands(algebra, *columns))
        if any(right and not any(left == side for side in right) for _, left, right in demands):
            raise UndecidedError("the law does not hold bit by bit")
    return Verdict(law, "proved", "truth tables, for every width")


def _integer_constant(node: Expression) -> int:
    if not isinstance(node.leaf, int):
        raise UndecidedError(f"{node} has no bits")
    return int(node.leaf)


def _distinct_positions(constants: set[int]) -> list[int]:
    """Return bit positions that cover every combination of the constants' bits, including that of the sign bits."""
    width = max((constant.bit_length() for constant in constants), default=0) + 1
    patterns: dict[tuple[int, ...], int] = {}
    for position in range(width):
        patterns.setdefault(tuple(constant >> position & 1 for constant in constants), position)
    return list(patterns.values())


def _star_branches(star: Expression) -> list[tuple[Expression | None, int | None]]:
    """Return the branches of a star such as ``where(x == 0, ~0, nan)``, without branches that are NaN.

    Each branch is a bit expression and the value of x at which it applies, or None for all other values.
    """
    x = Expression("var", (), "x")
    branches: list[tuple[Expression | None, int | None]] = []
    while star.op == "where":
        condition, chosen, other = star.args
        if condition.op == "ne":
            chosen, other = other, chosen
        sides = set(condition.args)
        constants = [side for side in sides if side.op == "const"]
        if condition.op not in ("eq", "ne") or x not in sides or len(constants) != 1:
            raise UndecidedError("the star is not decided by equality with constants")
        branches.append((chosen, _integer_constant(constants[0])))
        star = other
    branches.append((star, None))
    defined_branches = [
        (expression, point) for expression, point in branches if expression is None or not is_nan(expression)
    ]
    if any(
        expression is not None and not expression.operations <= _BIT_OPERATIONS for expression, _ in defined_branches
    ):
        raise UndecidedError("the star is not made of bit operations alone")
    return defined_branches
