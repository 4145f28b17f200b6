"""Proofs and refutations of the laws, and the exact machinery below them."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tiers import full, quick

import semiring as sr
from semiring.algebra.expressions import parse
from semiring.algebra.verify import AXIOMS, PROPERTIES, AxiomReport, Verdict, check_axioms, derive_property
from semiring.algebra.verify.case_splits import Cases, find_point, is_infeasible, simplest_between
from semiring.algebra.verify.extended_reals import DecimalNumbers, ExactNumbers
from semiring.algebra.verify.intervals import ScalarAlgebra, prove
from semiring.algebra.verify.polynomials import Polynomial, UndecidedError
from semiring.errors import AlgebraError, DTypeError, SemiringError, UnknownNameError
from semiring.testing.strategies import EXAMPLES

INF = math.inf
XYZ = ("x", "y", "z")


def define(add, mul, zero, one, domain=None, star=None, **options):
    return sr.Semiring("mine", add, mul, zero, one, star, domain, **options)


# ------------------------------------------------------------------------------------------------------- catalogue


@pytest.mark.parametrize("name", quick(lambda name: name in ("min_plus", "boolean", "max_min"), sr.CATALOGUE))
def test_every_law_of_the_catalogue_is_proved(name):
    report = sr.CATALOGUE[name].check_axioms()
    assert report.proved, report
    assert report.unrefuted
    assert report
    assert report.counterexample is None
    report.raise_if_refuted()
    assert [verdict.law.key for verdict in report][: len(AXIOMS)] == [law.key for law in AXIOMS]
    assert {"star", "star_closed"} <= set(report.laws)  # each member has a star, given or 1̄


@pytest.mark.full
def test_log_plus_says_what_it_read_as_a_logarithm():
    verdict = sr.log_plus.check_axioms()["add_associative"]
    assert verdict.proved
    assert "x = log u" in verdict.how
    assert verdict.note == "0.6931471805599453 is read as log 2"


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_for_testing_are_semirings(name):
    report = EXAMPLES[name].check_axioms()
    assert report.unrefuted, report
    for key in PROPERTIES:
        assert bool(derive_property(EXAMPLES[name], key)) == EXAMPLES[name]._claims[key]


# ------------------------------------------------------------------------------------------------ right definitions

RIGHT = {
    "min_plus without ∞ - ∞": define("min(x, y)", "x + y", INF, 0, "[0, inf]"),
    "arctic": define("max(x, y)", "x + y", -INF, 0, "[-inf, inf)"),
    "written with where": define("where(x < y, x, y)", "x + y", INF, 0),
    "truncated": define("min(x, y)", "min(x + y, 10)", 10, 0, "[0, 10]"),
    "fuzzy": define("max(x, y)", "min(x, y)", 0, 1, "[0, 1]"),
    "Viterbi": define("max(x, y)", "x * y", 0, 1, "[0, 1]"),
    "drastic t-norm": define("max(x, y)", "where(x == 1, y, where(y == 1, x, 0))", 0, 1, "[0, 1]"),
    "nilpotent minimum": define("max(x, y)", "where(x + y > 1, min(x, y), 0)", 0, 1, "[0, 1]"),
    "Hamacher t-norm": define("max(x, y)", "x * y / (x + y - x * y)", 0, 1, "[0, 1]"),
    "Einstein t-norm": define("max(x, y)", "x * y / (1 + (1 - x) * (1 - y))", 0, 1, "[0, 1]"),
    "shifted product": define("max(x, y)", "x + y + x * y", -1, 0, "[-1, inf)"),
    "soft minimum": define("-log(exp(-x) + exp(-y))", "x + y", INF, 0, "(-inf, inf]"),
    "naive log-sum-exp": define("log(exp(x) + exp(y))", "x + y", -INF, 0, "[-inf, inf)"),
    "counting": define("x + y", "x * y", 0, 1, "[0, inf)"),
    "right operand first": define("max(x, y)", "min(y, x)", 0, 1, "[0, 1]"),
    "bits": define("x | y", "x & y", 0, "~0"),
    "bits upside down": define("x & y", "x | y", "~0", 0),
    "plus-times on bits": define("(x | y) & ~(x & y)", "x & y", 0, "~0"),
    "integers": define("max(x, y)", "x + y", -INF, 0, dtypes=("int32",)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: list(RIGHT).index(name) % 3 == 0, RIGHT))
def test_other_semirings_are_proved_too(name):
    report = RIGHT[name].check_axioms(samples=100)
    assert report.proved, report


@pytest.mark.full
@pytest.mark.parametrize(
    "semiring",
    [
        define("sqrt(x * x + y * y)", "x * y", 0, 1, "[0, inf)"),
        define("max(x, y)", "exp(-sqrt(log(x) * log(x)) - sqrt(log(y) * log(y)))", 0, 1, "[0, 1]"),
    ],
)
def test_what_cannot_be_proved_is_sampled_and_says_so(semiring):
    report = check_axioms(semiring, samples=60)
    assert report.unrefuted
    assert not report.proved
    sampled = [verdict for verdict in report if verdict.outcome == "sampled"]
    assert sampled
    for verdict in sampled:
        assert "samples (60 digits)" in verdict.how
        assert re.search(r"is not proved; no counterexample among \d{2,} samples", str(verdict))
    assert "contradicts no law" in report.summary


# ------------------------------------------------------------------------------------------------ wrong definitions

# What the checks must find: a definition, and laws that fail.
WRONG = {
    "(min, ×) on all reals": (define("min(x, y)", "x * y", INF, 1), {"left_distributive", "right_distributive"}),
    "(max, ×) on all reals": (define("max(x, y)", "x * y", -INF, 1), {"left_distributive", "right_distributive"}),
    "(max, ×) with 0 on all reals": (define("max(x, y)", "x * y", 0, 1), {"add_neutral", "left_distributive"}),
    "(max, -)": (define("max(x, y)", "x - y", -INF, 0), {"mul_associative", "mul_neutral", "left_distributive"}),
    "(+, min)": (define("x + y", "min(x, y)", 0, INF, "[0, inf]"), {"left_distributive", "right_distributive"}),
    "(min, average)": (define("min(x, y)", "(x + y) / 2", INF, 0), {"mul_associative", "mul_neutral"}),
    "Łukasiewicz without max": (define("max(x, y)", "x + y - 1", 0, 1, "[0, 1]"), {"mul_closed", "annihilation"}),
    "the smallest float as zero": (
        define("max(x, y)", "x * y", 1.1754943508222875e-38, 1, "[0, inf)"),
        {"add_neutral", "annihilation"},
    ),
    "(min, +) with zero 0": (define("min(x, y)", "x + y", 0, 1), {"add_neutral", "mul_neutral"}),
    "(or, xor)": (define("x | y", "x ^ y", 0, "~0"), {"left_distributive", "mul_neutral"}),
    "(xor, or)": (define("x ^ y", "x | y", 0, "~0"), {"mul_neutral", "left_distributive"}),
    "(max, &)": (define("max(x, y)", "x & y", 0, "~0", dtypes=("uint8",)), {"left_distributive"}),
    "absolute difference": (define("abs(x - y)", "x * y", 0, 1, "[0, inf)"), {"add_associative"}),
    "probability of either": (define("x + y - x * y", "x * y", 0, 1, "[0, 1]"), {"left_distributive"}),
    "plus_times with infinities": (define("x + y", "x * y", 0, 1), {"add_closed", "left_distributive"}),
    "average": (define("(x + y) / 2", "x * y", 0, 1, "[0, 1]"), {"add_associative", "add_neutral"}),
    "left operand": (
        define("where(x < y, x, y)", "where(y == 0, x, where(x < 5, x, y))", INF, 0, "[0, inf]"),
        {"mul_neutral"},
    ),
    "wrong at one point": (define("where(x == 77.25, y, min(x, y))", "x + y", INF, 0), {"add_commutative"}),
    "wrong in a sliver": (
        define("min(x, y)", "where((x > 3.141) & (x < 3.142), x + y + 1, x + y)", INF, 0),
        {"mul_neutral", "mul_associative"},
    ),
    "wrong far away": (define("min(x, y)", "where(x + y > 123456789, x, x + y)", INF, 0), {"mul_associative"}),
    "domain without zero": (define("max(x, y)", "x * y", 0, 1, "(0, 1]"), {"elements"}),
    "domain without one": (define("max(x, y)", "x * y", 0, 1, "[0, 1)"), {"elements"}),
    "not closed": (define("x + y", "x * y", 0, 1, "[0, 1]"), {"add_closed"}),
    "log with a shift": (define("log(exp(x) + exp(y))", "x + y + 1", -INF, 0, "[-inf, inf)"), {"mul_neutral"}),
    "log with the wrong constant": (
        define("where(x == y, x + 0.69, max(x, y) + log1p(exp(-abs(x - y))))", "x + y", -INF, 0, "[-inf, inf)"),
        {"add_associative"},
    ),
    "wrong star": (define("min(x, y)", "x + y", INF, 0, star="where(x >= -1, 0, nan)"), {"star"}),
    "wrong star of a sum": (define("x + y", "x * y", 0, 1, "(-inf, inf)", star="1 / (1 + x)"), {"star"}),
    "star outside": (define("max(x, y)", "x * y", 0, 1, "[0, 1]", star="x + 1"), {"star", "star_closed"}),
    "star of bits": (define("x ^ y", "x & y", 0, "~0", star="~0"), {"star"}),
}

NUMBERS = {
    "INF": INF,
    "min": min,
    "max": max,
    "abs": abs,
    "exp": math.exp,
    "log": lambda x: -INF if x == 0 else math.log(x),
    "log1p": math.log1p,
    "where": lambda c, x, y: x if c else y,
}


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: list(WRONG).index(name) % 4 == 0, WRONG))
def test_plausible_but_wrong_semirings_are_refuted(name):
    semiring, failing = WRONG[name]
    report = semiring.check_axioms(samples=100)
    assert not report
    assert failing <= {verdict.law.key for verdict in report.refuted}, report
    for verdict in report.refuted:
        assert verdict.counterexample is not None
        assert str(verdict.counterexample) in str(verdict)
    with pytest.raises(AlgebraError, match="mine is no semiring"):
        report.raise_if_refuted()


def remedy(semiring, name):
    """The text that the hint of a refuted semiring gives for an argument."""
    return re.search(rf"{name}='([^']*)'", semiring.check_axioms().hint)[1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("domain", "star", "remedied", "points"),
    full(
        lambda domain, star, remedied, points: len(points) == 2 or domain == "[0, inf)",
        [
            ("(-inf, inf)", "1/(1-x)", "where(x == 1.*", [1]),
            ("(-inf, inf)", "1/(1-x) + 0/(2*x-1)", "where(x == 1.*", [1, 0.5]),
            ("[0, inf)", "1/(1-x)", "where(x < 1, 1 / (1 - x), nan)", [1, 2]),
            ("[0, inf)", "where(x == 1, nan, 1/(1-x))", "where(x < 1, 1 / (1 - x), nan)", [1, 2]),
        ],
    ),
)
def test_a_star_that_is_infinite_or_leaves_the_domain_is_refused_with_the_remedy(domain, star, remedied, points):
    given = define("x + y", "x * y", 0, 1, domain, star=star)
    pattern = re.escape(remedied).replace(r"\.\*", ".*")
    with pytest.raises(AlgebraError, match=rf"x\* is .*give star='{pattern}'"):
        sr.closure([[0.25]], given)
    mended = given.with_star(remedy(given, "star"))
    assert mended.domain == given.domain
    assert mended.check_axioms().proved
    assert np.isnan(mended.star(np.array(points, float))).all()
    np.testing.assert_allclose(sr.closure([[0.25]], mended), [[4 / 3]])


@pytest.mark.parametrize("star", [None, pytest.param("1/(1-x)", marks=pytest.mark.full)])
def test_the_hint_of_sums_of_any_sign_gives_a_domain_and_a_star(star):
    given = define("x + y", "x * y", 0, 1, star=star)
    mended = given.on_domain(remedy(given, "domain")).with_star(remedy(given, "star"))
    assert mended.check_axioms().proved
    np.testing.assert_allclose(sr.closure([[0.25]], mended), [[4 / 3]])


@pytest.mark.parametrize(
    ("add", "mul", "zero", "one", "domain", "star"),
    [
        ("x + y", "x * y", 0, 1, "[0, inf)", "where(x < 1, 1 / (1 - x), nan)"),
        ("x + y", "x * y", 0, 1, "(-inf, inf)", "where(x == 1, nan, 1 / (1 - x))"),
        ("min(x, y)", "x + y", INF, 0, None, "where(min(0, x) == 0, 0, nan)"),
    ],
)
def test_a_missing_star_is_named_by_text_that_is_proved(add, mul, zero, one, domain, star):
    given = define(add, mul, zero, one, domain)
    with pytest.raises(AlgebraError, match=re.escape(f"such as star='{star}'")):
        sr.closure([[0.25]], given)
    assert given.with_star(star).check_axioms().proved


def test_a_star_that_is_wrong_elsewhere_gets_no_remedy():
    assert not WRONG["star outside"][0].check_axioms().hint
    assert not WRONG["wrong star of a sum"][0].check_axioms().hint


#: Both sides of the laws, once more: p is ⊕, t is ⊗, o is 0̄, i is 1̄.
SIDES = {
    "(x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)": lambda p, t, o, i, x, y, z: (p(p(x, y), z), p(x, p(y, z))),
    "x ⊕ y = y ⊕ x": lambda p, t, o, i, x, y: (p(x, y), p(y, x)),
    "x ⊕ 0̄ = x": lambda p, t, o, i, x: (p(x, o), x),
    "0̄ ⊕ x = x": lambda p, t, o, i, x: (p(o, x), x),
    "(x ⊗ y) ⊗ z = x ⊗ (y ⊗ z)": lambda p, t, o, i, x, y, z: (t(t(x, y), z), t(x, t(y, z))),
    "x ⊗ 1̄ = x": lambda p, t, o, i, x: (t(x, i), x),
    "1̄ ⊗ x = x": lambda p, t, o, i, x: (t(i, x), x),
    "x ⊗ (y ⊕ z) = x ⊗ y ⊕ x ⊗ z": lambda p, t, o, i, x, y, z: (t(x, p(y, z)), p(t(x, y), t(x, z))),
    "(x ⊕ y) ⊗ z = x ⊗ z ⊕ y ⊗ z": lambda p, t, o, i, x, y, z: (t(p(x, y), z), p(t(x, z), t(y, z))),
}


@pytest.mark.full
@pytest.mark.parametrize("name", full(lambda name: list(WRONG).index(name) % 4 == 2, WRONG))
def test_counterexamples_are_true(name):
    """Plain Python evaluates each counterexample again, from its readable form and the text of the operations."""
    semiring, _ = WRONG[name]
    bits = not semiring.supports(float)
    mask = 0xFF if semiring.dtypes == ("uint8",) else -1

    def number(text):
        text = text.replace("∞", "inf").replace("NaN", "nan")
        if "inf" in text or "nan" in text or "e" in text or "." in text:
            return float(text)
        return int(text) if bits else Fraction(text)

    def plain(text, **values):
        value = eval(text, {"__builtins__": {}, **NUMBERS, "inf": INF, "nan": math.nan}, values)  # our own text
        return value & mask if isinstance(value, int) and bits else value

    def times(x, y):
        return zero if zero in (x, y) and semiring.annihilates else plain(semiring.mul.expression.text, x=x, y=y)

    def plus(x, y):
        return plain(semiring.add.expression.text, x=x, y=y)

    zero, one = plain(semiring.zero.text), plain(semiring.one.text)
    for verdict in semiring.check_axioms(samples=100, suggest=False).refuted:
        example = verdict.counterexample
        values = [number(part.split(" = ")[1]) for part in example.text.split(", ")] if example.text else []
        if any(isinstance(value, float) and math.isfinite(value) for value in values):
            continue  # rounded for the eye
        law = example.statement
        if law not in SIDES:
            continue
        left, right = SIDES[law](plus, times, zero, one, *values)
        assert not math.isclose(left, right, rel_tol=1e-12) or (left != left) != (right != right)


@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "semiring", "text"),
    [
        ("left_distributive", "(min, ×) on all reals",
         "x ⊗ (y ⊕ z) is 0, but x ⊗ y ⊕ x ⊗ z is -1, at x = -1, y = 0, z = 1"),
        ("add_neutral", "(max, ×) with 0 on all reals", "x ⊕ 0̄ is 0, not x, at x = -1"),
        ("mul_closed", "Łukasiewicz without max", "x ⊗ y is -1, outside the domain, at x = 0, y = 0"),
        ("add_associative", "absolute difference", "(x ⊕ y) ⊕ z is 2, but x ⊕ (y ⊕ z) is 0, at x = 1, y = 1, z = 2"),
        ("elements", "domain without zero", "0̄ is 0, outside the domain"),
        ("add_closed", "plus_times with infinities", "x ⊕ y is NaN, outside the domain, at x = ∞, y = -∞"),
    ],
)  # fmt: skip
def test_counterexamples_are_simple_and_readable(key, semiring, text):
    assert str(WRONG[semiring][0].check_axioms(suggest=False)[key].counterexample) == text


@pytest.mark.full
def test_a_domain_is_suggested_where_one_helps():
    report = define("max(x, y)", "x * y", 0, 1).check_axioms()
    star = "star='where(max(1, x) == 1, 1, nan)'"
    assert report.hint == f"On [0, inf] every law is proved: give domain='[0, inf]', and for closures {star}."
    assert define("max(x, y)", "x * y", 0, 1, "[0, inf]").check_axioms().proved
    assert report.hint in str(report)
    with pytest.raises(AlgebraError, match=r"give domain='\[0, inf\]'"):
        report.raise_if_refuted()
    assert check_axioms(define("max(x, y)", "x * y", 0, 1), suggest=False).hint == ""
    assert define("max(x, y)", "x - y", -INF, 0).check_axioms().hint == ""


# ------------------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize(
    ("add", "mul", "zero", "one", "domain", "expected"),
    [
        ("min(x, y)", "x + y", INF, 0, None, "idempotent selective commutative"),
        ("min(x, y)", "x + y", INF, 0, "[0, inf]", "idempotent selective commutative absorptive"),
        ("max(x, y)", "x + 2 * y", -INF, 0, None, "idempotent selective"),
        ("x + y", "x * y", 0, 1, "(-inf, inf)", "commutative"),
        ("(x + y) / 2", "x * y", 0, 1, None, "idempotent commutative"),
        ("(x + y + abs(x - y)) / 2", "x + y", 0, 1, "[0, 1]", "idempotent selective commutative absorptive"),
        ("where(x < y, y, x)", "x * y", 0, 1, "[0, 1]", "idempotent selective commutative absorptive"),
        ("where(x == 5, y, max(x, y))", "x + y", 0, 1, "[0, 9]", "idempotent selective commutative"),
        ("max(x, y) + 0.001", "x * y", 0, 1, None, "commutative"),
        ("x | y", "x & y", 0, "~0", None, "idempotent commutative absorptive"),
        ("x ^ y", "x & ~y", 0, "~0", None, ""),
        ("log(exp(x) + exp(y))", "x + y", -INF, 0, "[-inf, inf)", "commutative"),
        ("min(x, y)", "x * y / (x + y - x * y)", INF, 1, "[0, 1]", "idempotent selective commutative"),
        ("max(x, y)", "x * y", 0, 1, "[0, 1]", "idempotent selective commutative absorptive"),
        ("max(x, y)", "x * y", 0, 1, "[0, inf)", "idempotent selective commutative"),
    ],
)
def test_properties_are_derived(add, mul, zero, one, domain, expected):
    semiring = define(add, mul, zero, one, domain)
    for key in PROPERTIES:
        verdict = derive_property(semiring, key)
        assert isinstance(verdict, Verdict)
        assert bool(verdict) == (key in expected.split()), verdict
        assert verdict.outcome in ("proved", "refuted"), verdict
        assert bool(verdict) == getattr(semiring, key)


def test_the_or_of_truths_is_selective_and_of_words_is_not():
    on_bool = define("x | y", "x & y", False, True, dtypes=("bool",))
    assert derive_property(on_bool, "selective").proved
    on_words = derive_property(define("x | y", "x & y", 0, "~0"), "selective")
    assert not on_words
    assert "x ⊕ y is 3 at x = 1, y = 2" in str(on_words)


def test_an_unknown_property_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"absorptive.*commutative.*idempotent.*selective"):
        derive_property(sr.min_plus, "associative")


def test_a_verdict_tells_how():
    assert str(derive_property(sr.min_plus, "idempotent")) == "x ⊕ x = x holds, proved by case splits (3 cases)"
    assert str(derive_property(sr.min_plus, "absorptive")) == ("1̄ ⊕ x = 1̄ fails: 1̄ ⊕ x is -1, but 1̄ is 0, at x = -1")


# ------------------------------------------------------------------------------------------------ dtypes and rounding


def test_rounding_is_reported_apart_from_falsehood():
    report = sr.min_plus.check_axioms("float32")
    assert report.proved
    associative = report["mul_associative"]
    assert associative.rounding.dtype == "float32"
    assert 0 < associative.rounding.ulp <= 2
    assert "in float32 rounding breaks it by up to" in str(associative)
    assert report["left_distributive"].rounding.ulp == 0  # x + min(y, z): one rounding on either side
    assert str(report["left_distributive"].rounding) == "exact"
    assert "in float32" in str(report)


@pytest.mark.full
def test_numbers_whose_exponentials_leave_the_range_are_told():
    """A number that becomes infinite is reported as overflow, not as a rounding error of 1,650 units in the last
    place."""
    own = define("-log(exp(-x) + exp(-y))", "x + y", "inf", 0)
    for dtype in ("float32", "float64"):
        found = own.check_axioms(dtype=dtype)["add_neutral"]
        assert found.rounding.overflow.startswith("x ⊕ 0̄ = x leaves the range at x = ")
        assert "where the left side is -inf" in str(found)
    assert not own.check_axioms()["mul_associative"].rounding.overflow


@pytest.mark.full
@pytest.mark.parametrize("heat", full(lambda heat: heat == 0.1, [0.1, 0.001]))
def test_large_exponents_refute_no_law_that_holds(heat):
    """The exponential of -242,917 / 0.1 leaves the range of sixty digits, and refutes no law."""
    text = f"-log(exp(-x / {heat}) + exp(-y / {heat})) * {heat}"
    report = define(text, "x + y", "inf", 0).check_axioms()
    assert report.unrefuted, report


@pytest.mark.full
def test_exact_dtypes_show_no_rounding():
    for name, dtype in (("min_plus", "int32"), ("plus_times", "int32"), ("xor_and", "uint8"), ("max_min", "uint8")):
        report = sr.CATALOGUE[name].check_axioms(dtype)
        assert report.proved
        assert all(verdict.rounding is None or str(verdict.rounding) == "exact" for verdict in report), report


def test_overflow_is_reported_apart_from_falsehood():
    semiring = define("max(x, y)", "x * y", 0, 1, "[0, inf)", dtypes=("int16",))
    report = semiring.check_axioms()
    assert report.proved
    assert report["left_distributive"].rounding.overflow
    assert "int16 breaks it by overflow" in str(report["left_distributive"])


@pytest.mark.full
def test_a_dtype_restricts_the_elements():
    halves = ("max(x, y)", "where((x > 0) & (x < 1), 0, x + y)", -INF, 0)
    assert not define(*halves).check_axioms()["mul_associative"]
    report = define(*halves, dtypes=("int32",)).check_axioms()
    assert report.unrefuted
    assert report["mul_associative"].outcome == "sampled"
    assert "the counterexample is not integral" in str(report["mul_associative"])
    assert "the integers" in report.summary
    with pytest.raises(DTypeError):
        sr.min_plus.check_axioms("uint8")
    report = sr.boolean.check_axioms(dtype=bool)
    assert report.proved
    assert "{False, True}" in report.summary


@pytest.mark.full
def test_the_same_seed_gives_the_same_report():
    semiring = define("sqrt(x * x + y * y)", "x * y", 0, 1, "[0, inf)")
    first, second = (str(check_axioms(semiring, samples=40, seed=3)) for _ in range(2))
    assert first == second


# ------------------------------------------------------------------------------------------------------- the report


def test_the_report_prints_as_an_aligned_table():
    report = sr.min_plus.check_axioms()
    lines = str(report).splitlines()
    assert lines[0] == "min_plus is a semiring on [-inf, inf]: every law is proved"
    assert lines[1] == repr(sr.min_plus)
    column = lines[3].index("verdict")
    for line in lines[5 : 5 + len(report.verdicts)]:
        assert line.replace("\u0304", "")[column:].startswith("proved")
    assert (
        "a note, no error: 0̄ ⊗ x is defined as 0̄. Without this definition, 0̄ ⊗ x is NaN, but 0̄ is ∞, at x = -∞"
        in lines[-1]
    )
    assert repr(report) == str(report)
    html = report._repr_html_()
    assert html.count("<tr>") == 1 + len(report.verdicts)
    assert "<td>proved</td>" in html
    refuted = define("max(x, y)", "where(x < y, x, 0)", 0, 1, (0, 1)).check_axioms()
    assert "<td>refuted</td>" in refuted._repr_html_()
    assert "&lt;" not in refuted.summary


def test_a_report_is_read_by_key():
    report = sr.max_min.check_axioms()
    assert isinstance(report, AxiomReport)
    assert report["star"] is report.laws["star"]
    with pytest.raises(UnknownNameError, match="add_associative"):
        report["associative"]
    assert len(list(report)) == len(report.verdicts) == 13


def test_annihilation_holds_by_definition_for_an_infinite_zero_and_what_breaks_it_is_noted():
    verdict = define("max(x, y)", "abs(x + y)", "-inf", 1).check_axioms()["annihilation"]
    assert verdict.proved
    assert verdict.how == "definition"
    assert (
        verdict.note
        == "a note, no error: 0̄ ⊗ x is defined as 0̄. Without this definition, 0̄ ⊗ x is ∞, but 0̄ is -∞, at x = 0"
    )
    assert not define("max(x, y)", "x + y - 1", 0, 1, "[0, 1]").check_axioms()["annihilation"]
    assert sr.max_min.check_axioms()["annihilation"].note == ""


@pytest.mark.full
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("add", "mul", "domain"),
    [
        (" + ".join(["min(x, y)"] * 40), "x * y", None),
        ("min(x, y)", "*".join(["x", "y"] * 40), None),
        ("max(x, y)", "exp(exp(exp(x))) * exp(exp(y))", None),
        ("max(x, y)", "x * y * 1e-300 * 1e300 * 5e-324", None),
        ("+".join(f"max(x, {i} * y)" for i in range(40)), "x + y", None),
        ("/".join(["(x * x + y)", "(y * y + x)"] * 10), "x * y", None),
        ("max(x, y)", "where(x * x * x + y * y * y < x * y, x * x, y * y)", "[0, inf)"),
        ("floor(x / y) + floor(y / x)", "x - floor(x) + y", None),
        ("sqrt(sqrt(x * y) + log(x + y))", "log(log(x)) + log1p(y)", None),
        ("min(x, y)", "where((-1 / (x * y) <= min(abs(y), x)) & (0 / x > where(0 < y, 0.5, x)), x, 0.5)", None),
    ],
)
def test_definitions_made_to_hang_do_not(add, mul, domain):
    semiring = define(add, mul, -INF, 1, domain)
    for key in PROPERTIES:
        derive_property(semiring, key)
    check_axioms(semiring, samples=20, suggest=False)


FORMS = (
    *("min({}, {})", "max({}, {})", "({} + {})", "({} - {})", "({} * {})", "({} / {})", "abs({})"),
    *("where({} < {}, {}, {})", "where({} == {}, {}, {})", "where(({} <= {}) & ({} > {}), {}, {})"),
)
OPERATIONS = st.recursive(
    st.sampled_from(["x", "y", "x", "y", "0", "1", "2", "0.5", "-1", "inf"]),
    lambda children: st.sampled_from(FORMS).flatmap(
        lambda form: st.tuples(*[children] * form.count("{}")).map(lambda args: form.format(*args))
    ),
    max_leaves=7,
).filter(lambda text: "x" in text and "y" in text)
ALL_LAWS = (*AXIOMS, *PROPERTIES.values())


@pytest.mark.full
@given(
    st.one_of(OPERATIONS, st.sampled_from(["min(x, y)", "max(x, y)", "x + y", "x * y"])),
    st.one_of(OPERATIONS, st.sampled_from(["min(x, y)", "max(x, y)", "x + y", "x * y"])),
    st.sampled_from([(INF, 0), (-INF, 0), (0, 1), (INF, 1), (1, 0), (-INF, INF)]),
    st.sampled_from([None, "[0, 1]", "[0, inf)", "(-inf, inf)", "[-1, 2)", "(0, inf]"]),
    st.randoms(use_true_random=False),
)
def test_what_is_proved_has_no_counterexample_among_random_numbers(add, mul, elements, domain, generator):
    try:
        semiring = define(add, mul, *elements, domain)
    except SemiringError:
        return
    if not semiring.supports(float):
        return
    values = [Fraction(generator.randint(-12, 12), generator.choice([1, 2, 3, 4, 8])) for _ in range(30)]
    values = [v for v in (*values, INF, -INF, Fraction(0), Fraction(1)) if semiring.domain.contains(float(v))]
    algebra = ScalarAlgebra(semiring, ExactNumbers())
    for law in generator.sample(ALL_LAWS, 5):
        try:
            verdict = prove(semiring, law)
        except UndecidedError:
            continue
        for _ in range(60):
            chosen = [generator.choice(values) for _ in law.variables]
            if verdict.proved:
                assert algebra.find_violation(law, chosen) is None, (semiring, law.text, chosen)
        if not verdict.proved:
            found = list(verdict.counterexample.values.values())
            assert algebra.find_violation(law, found) is not None, (semiring, law.text, found)


# ------------------------------------------------------------------------------------------- exact numbers underneath

SMALL = st.integers(-3, 3)


def linear(coefficients, constant):
    polynomial = Polynomial.constant(constant, len(coefficients))
    for i, coefficient in enumerate(coefficients):
        polynomial = polynomial + Polynomial.variable(i, len(coefficients)).scale(coefficient)
    return polynomial


@given(st.lists(st.tuples(st.tuples(SMALL, SMALL, SMALL), SMALL, st.booleans()), max_size=8))
def test_feasibility_agrees_with_a_linear_program(rows):
    constraints = [(linear(coefficients, constant), strict) for coefficients, constant, strict in rows]
    point = find_point(constraints, 3)
    if point is not None:
        for coefficients, constant, strict in rows:
            value = sum(c * v for c, v in zip(coefficients, point, strict=True)) + constant
            assert value > 0 if strict else value >= 0
    # max s with a·x + c ≥ s on the strict rows and ≥ 0 on the others, s ≤ 1: feasible iff s > 0
    A = [[-c for c in coefficients] + [int(strict)] for coefficients, _, strict in rows] + [[0, 0, 0, 1]]
    b = [constant for _, constant, _ in rows] + [1]
    program = linprog([0, 0, 0, -1], A, b, bounds=[(None, None)] * 4)
    feasible = program.status == 3 or (program.status == 0 and -program.fun > 1e-9)
    if not any(strict for *_, strict in rows):
        feasible = linprog([0, 0, 0], [row[:3] for row in A], b, bounds=[(None, None)] * 3).status == 0
    assert feasible == (point is not None)


@given(st.fractions(-20, 20, max_denominator=50), st.fractions(0, 3, max_denominator=50), st.booleans(), st.booleans())
def test_the_simplest_number_between(low, width, low_open, high_open):
    high = low + width
    if width == 0 and (low_open or high_open):
        return
    found = simplest_between(low, high, low_open=low_open, high_open=high_open)

    def is_between(value):
        return (low < value if low_open else low <= value) and (value < high if high_open else value <= high)

    assert is_between(found)
    for denominator in range(1, found.denominator):
        first = math.floor(low * denominator)
        assert not any(is_between(Fraction(n, denominator)) for n in range(first, math.ceil(high * denominator) + 1))


def test_the_simplest_number_without_a_bound():
    assert simplest_between(None, None) == 0
    assert simplest_between(Fraction(5, 2), None) == 3
    assert simplest_between(None, Fraction(-5, 2), high_open=True) == -3
    assert simplest_between(Fraction(0), None, low_open=True) == 1
    assert simplest_between(Fraction(0), Fraction(1), low_open=True, high_open=True) == Fraction(1, 2)


TERMS = st.dictionaries(st.tuples(*[st.integers(0, 2)] * 3), st.fractions(-3, 3, max_denominator=4), max_size=4)


def to_sympy(polynomial):
    sympy = import_module("sympy")  # here: it takes a second
    x = sympy.symbols("x:3")
    return sum(
        (
            sympy.Rational(c.numerator, c.denominator) * sympy.prod(v**e for v, e in zip(x, exponents, strict=True))
            for exponents, c in polynomial.terms.items()
        ),
        sympy.Integer(0),
    )


@given(TERMS, TERMS)
def test_polynomials_agree_with_sympy(a, b):
    sympy = import_module("sympy")
    p, q = Polynomial(a, 3), Polynomial(b, 3)
    for ours, theirs in (
        (p + q, to_sympy(p) + to_sympy(q)),
        (p - q, to_sympy(p) - to_sympy(q)),
        (p * q, to_sympy(p) * to_sympy(q)),
    ):
        assert sympy.expand(to_sympy(ours) - theirs) == 0
    if q:
        assert (p * q).divide(q) == p
        quotient = p.divide(q)
        assert (quotient is not None) == (sympy.reduced(to_sympy(p), [to_sympy(q)], *sympy.symbols("x:3"))[1] == 0)


@given(TERMS, TERMS)
def test_factors_multiply_to_the_polynomial_and_are_irreducible(a, b):
    sympy = import_module("sympy")
    product = Polynomial(a, 3) * Polynomial(b, 3)
    if not product:
        return
    constant, factors = product.factors
    again = Polynomial.constant(constant, 3)
    for factor, power in factors:
        for _ in range(power):
            again = again * factor
        assert sympy.Poly(to_sympy(factor), *sympy.symbols("x:3"), domain="QQ").is_irreducible
    assert again == product


def test_growth_is_refused():
    x = Polynomial.variable(0, 1)
    for _ in range(4):
        x = x * x
    with pytest.raises(UndecidedError):
        x * x
    with pytest.raises(UndecidedError):
        Polynomial.constant(Fraction(1, 3) ** 2000, 1) * Polynomial.constant(Fraction(1, 3) ** 2000, 1)
    with pytest.raises(UndecidedError):
        ExactNumbers().mul(Fraction(3**9000), Fraction(3**9000))


@given(st.lists(st.tuples(TERMS, st.booleans()), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_contradiction_is_never_claimed_of_a_system_with_a_solution(rows, generator):
    point = [Fraction(generator.randint(-4, 4), generator.randint(1, 3)) for _ in range(3)]
    constraints = []
    for terms, strict in rows:
        polynomial = Polynomial(terms, 3)
        value = polynomial.evaluate_at(point)
        if value < 0:
            polynomial = -polynomial
        constraints.append((polynomial, strict and value != 0))
    assert not is_infeasible(constraints)


def test_contradictions_that_need_products_are_found():
    x, y = Polynomial.variable(0, 2), Polynomial.variable(1, 2)
    one = Polynomial.constant(1, 2)
    unit = [(x, True), (one - x, False), (y, True), (one - y, False)]
    assert is_infeasible([*unit, (x * y - x - y, False)])  # x + y - xy > 0 on (0, 1]²
    assert not is_infeasible([*unit, (x * y - Polynomial.constant(Fraction(1, 2), 2), False)])


@pytest.mark.parametrize(
    "text",
    [
        "max(0, min(x * y, x - y) - 1) * abs(x + y) - where(x < y, y / 2, x)",
        "where(x * x < y, 1, where(x * x * x < x, 2, 3)) + where(x * x * y < 0, 10, 20)",
    ],
)
def test_cases_cover_every_number_and_come_with_a_point(text):
    tree, exact, forms, seen = parse(text, ("x", "y")), ExactNumbers(), [], 0
    cases = Cases(2)
    for form in cases.explore(lambda: cases.evaluate(tree, {"x": cases.unknown(0), "y": cases.unknown(1)})):
        forms.append(form)
        if cases.point is not None:
            seen += 1
            x, y = cases.point
            assert form.evaluate_at(cases.point) == exact.evaluate(tree, {"x": x, "y": y})
    assert seen >= 6
    generator = random.Random(5)
    for _ in range(200):
        x, y = (Fraction(generator.randint(-9, 9), generator.randint(1, 4)) for _ in range(2))
        assert exact.evaluate(tree, {"x": x, "y": y}) in {form.evaluate_at((x, y)) for form in forms}


EXTENDED = [-INF, INF, math.nan, 0.0, 1.0, -1.0, 0.5, 2.0, -3.0]


RATIONAL = [
    *("x + y", "x - y", "x * y", "x / (y + 3)", "min(x, y)", "max(x, y)", "abs(x) - y", "where(x < y, x, y)"),
    *("where(x <= y, 1, 0)", "where(x == y, 1, 0)", "where(x != y, 1, 0)", "where(~(x >= y) | (x > 1), 1, 0)"),
    *("where((x > y) & (y > 0) ^ (x < 1), 1, 0)", "floor(x / 2) + y", "-x * -y"),
]
TRANSCENDENT = ["exp(x) - y", "log(abs(x)) + y", "log1p(x)", "expm1(x) * y", "sqrt(x) - y", "log(x)"]


@pytest.mark.parametrize("text", [*RATIONAL, *TRANSCENDENT])
def test_extended_numbers_follow_ieee_and_drop_nan_in_min_and_max(text):
    tree = parse(text, ("x", "y"))
    for numbers in (ExactNumbers(), DecimalNumbers()) if text in RATIONAL else (DecimalNumbers(),):
        for x, y in itertools.product(EXTENDED, repeat=2):
            if tree.text.startswith("x / ") and y == -3:
                continue  # 1 / 0 is ∞ here: zero has no sign
            with np.errstate(all="ignore"):
                expected = float(tree.evaluate({"x": np.float64(x), "y": np.float64(y)}, np.dtype(float)))
            found = float(numbers.evaluate(tree, {"x": numbers.constant(x), "y": numbers.constant(y)}))
            assert found == pytest.approx(expected, nan_ok=True), (x, y)


@pytest.mark.full
def test_a_budget_ends_the_proofs_and_the_report_says_what_was_proved():
    rational = define("max(x, y)", "x * y / (x * y + (1 - x) * (1 - y))", 0, 1, "[0, 1]")
    start = time.perf_counter()
    report = rational.check_axioms(seconds=0)
    assert time.perf_counter() - start < 0.5 * measure(rational.check_axioms)
    assert report["add_commutative"].outcome == "sampled"
    assert "the budget of time is spent" in str(report)
    refuted = define("max(x, y)", "x * y - x", 0, 1, "[0, 1]").check_axioms(seconds=0).refuted
    assert {verdict.law.key for verdict in refuted} >= {"mul_neutral", "mul_associative"}, "simple elements are tried"
    with pytest.raises(ValueError, match="seconds is -1: it must be a number from 0 up"):
        rational.check_axioms(seconds=-1)


def measure(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
