"""`Semiring` and `Domain`: definitions, claims, dtypes, and the operations on arrays and scalars."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import semiring as sr
from semiring.algebra import Domain, Operation, Semiring
from semiring.algebra.expressions import Expression, parse
from semiring.errors import AlgebraError, DivergenceError, DTypeError, ExpressionError, IntegerOverflowError, ShapeError

INF = math.inf


def reliability(**options):
    return Semiring("reliability", "max(x, y)", "x * y", 0, 1, **{"domain": (0, 1), **options})


# ------------------------------------------------------------------------------------------------------ definitions


def test_text_callables_and_trees_define_the_same_semiring():
    by_text = Semiring("a", "min(x, y)", "x + y", "inf", "0")
    by_callable = Semiring("b", sr.extend.minimum, lambda x, y: x + y, INF, 0)
    by_tree = Semiring("c", parse("min(x, y)", ("x", "y")), parse("x + y", ("x", "y")), np.float64(INF), np.int64(0))
    assert by_text == by_callable == by_tree
    assert len({by_text, by_callable, by_tree}) == 1
    assert by_text.name != by_callable.name


def test_numbers_of_other_libraries_and_signs_of_infinity_are_read():
    expected = Semiring("t", "max(x, y)", "x + y", -math.inf, 0, domain=(-math.inf, 9))
    for zero in (-sympy.oo, "-∞", "−∞", "-inf", np.float32(-np.inf)):
        for one in (sympy.Integer(0), Fraction(0), 0):
            assert Semiring("t", "max(x, y)", "x + y", zero, one, domain=(zero, sympy.Integer(9))) == expected
    assert Semiring("t", "max(x, y)", "x + y", "-∞", 0, domain="[-∞, 9]") == expected
    halved = Semiring("h", "min(x, y)", lambda x, y: x * sympy.Rational(1, 2) + y, "∞", 0)
    assert halved.mul(4.0, 1.0) == 3.0
    assert Semiring("t", "max(x, y)", "x * y", Decimal(0), Decimal("0.5")).one_for(float) == 0.5
    assert parse("min(x, ∞)", ("x",)) == parse("min(x, inf)", ("x",))
    with pytest.raises(ExpressionError, match=r"pi of type Pi .*: elements are numbers of Python .*write float\(pi\)"):
        Semiring("t", "max(x, y)", "x + y", -math.inf, sympy.pi)
    with pytest.raises(AlgebraError, match="the end 1/3 of a domain is not a number"):
        Domain.of((sympy.Rational(1, 3), 1))


def test_equality_looks_at_the_definition_alone():
    base = reliability()
    assert base == reliability(idempotent=True, description="something else")
    assert base == reliability(domain="[0, 1]")
    for other in (
        reliability(domain=(0, 2)),
        reliability(domain="[0, 1)"),
        reliability(star=lambda x: 1),
        reliability(contract=True),
        reliability(dtypes=("float32",)),
        Semiring("reliability", "max(y, x)", "x * y", 0, 1, domain=(0, 1)),
        Semiring("reliability", "max(x, y)", "x * y", 0.0, 1, domain=(0, 1)),
        Semiring("reliability", "max(x, y)", "x * y", -0.0, 1, domain=(0, 1)),
    ):
        assert base != other
    assert base != "reliability"
    assert reliability(dtypes=("float32", "float64")) == reliability(dtypes=("float64", "float32", "float64"))


@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_repr_evaluates_to_an_equal_semiring(name):
    semiring = sr.CATALOGUE[name]
    again = eval(repr(semiring), {"Semiring": Semiring})  # the repr of our own object
    assert again == semiring
    assert again.name == name


def test_pickles_and_copies_are_equal_and_keep_their_claims():
    semiring = reliability(idempotent=True, absorptive=True, description="of a path", star="1")
    for again in (pickle.loads(pickle.dumps(semiring)), copy.copy(semiring), copy.deepcopy(semiring)):
        assert again == semiring
        assert (again.name, again.description) == ("reliability", "of a path")
        assert again.idempotent
        assert again.absorptive
        assert again.mul(0.5, 0.5) == 0.25


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("max(x, y)", "x", 0, 1), ExpressionError, None),  # ignores an operand
        (("x + 1", "x * y", 0, 1), ExpressionError, None),
        (("max(x, z)", "x * y", 0, 1), ExpressionError, None),
        (("x < y", "x * y", 0, 1), ExpressionError, None),
        (("max(x, y)", "x * y", "x", 1), ExpressionError, None),
        (("max(x, y)", "x * y", "none", 1), ExpressionError, r"zero: 'none': unknown name; an element is a number"),
        (("max(x, y)", "x * y", "-1e999", 1), ExpressionError, "beyond the range of float64"),
        (("max(x, y)", "x * y", math.nan, 1), ExpressionError, None),
        (("max(x, y)", "x * y", None, 1), ExpressionError, None),
        (("max(x, y)", "x * y", [0], 1), ExpressionError, None),
        (("max(x, y)", "x * y", 1 + 2j, 1), ExpressionError, None),
        (("max(x, y)", 3, 0, 1), ExpressionError, None),
        ((Expression("var", (), "q"), "x * y", 0, 1), ExpressionError, None),
        ((parse("where(x < y, x, nan)", ("x", "y"), allow_nan=True), "x * y", 0, 1), ExpressionError, None),
        (("max(x, y)", "x * y", 0, 1, "y"), ExpressionError, None),  # the star
        (("max(x, y)", "x * y", 0, 1, "x < 1"), ExpressionError, None),
        (("max(x, y)", "x * y", 1, 1), DTypeError, "on float64: its zero 1 and its one 1 coincide there"),
        (("max(x, y)", "x * y", 0, -0.0), DTypeError, None),
        (("exp(x) & y", "x * y", 0, 1), DTypeError, None),  # on no dtype at all
    ],
)
def test_what_is_no_definition_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Semiring("wrong", *arguments)
    assert reliability(star="where(x < 1, 1, nan)").given_star.text == "where(x < 1, 1, nan)"


# ---------------------------------------------------------------------------------------------------------- domains


@pytest.mark.parametrize(
    ("text_or_pair", "members", "non_members", "text"),
    [
        (None, [-INF, 0, INF], [math.nan], "[-inf, inf]"),
        ((0, 1), [0, 0.5, 1], [-1e-9, 1.1, INF, math.nan], "[0, 1]"),
        ("[0, inf)", [0, 1e308], [INF, -1], "[0, inf)"),
        ("(0, inf]", [1e-300, INF], [0, -0.0, -1], "(0, inf]"),
        (" ( -inf ,inf ) ", [0], [INF, -INF], "(-inf, inf)"),
        ("[-1e-3, 0.123456789123]", [0.123456789123], [0.1234567892], "[-0.001, 0.123456789123]"),
        ([np.int64(0), np.float32(2)], [1], [3], "[0, 2]"),
        (Domain(0, 1, True, True), [0.5], [0, 1], "(0, 1)"),
    ],
)
def test_a_domain_is_read_tested_and_printed(text_or_pair, members, non_members, text):
    domain = Domain.of(text_or_pair)
    assert str(domain) == text
    assert Domain.of(str(domain)) == domain
    assert np.asarray(domain.contains(np.array(members, float))).all()
    assert not np.asarray(domain.contains(np.array(non_members, float))).any()
    assert domain.everything == (text_or_pair is None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((1, 0), "empty"),
        ((1, 1), "empty"),
        ("[2, -2]", "empty"),
        ((math.nan, 1), "empty"),
        ("[nan, 1]", "empty"),
        (("0", "one"), "pair"),
        ((0, 1j), "not a number"),
        ((0, 10**400), "not a number"),
        ((0, None), "not a number"),
        ("0, 1", "interval"),
        ("[0; 1]", "interval"),
        ("[zero, 1]", "interval"),
        ("[0, 1, 2]", "interval"),
        ("[" * 10**5, "interval"),
        ((0, 1, 2), "pair"),
        (7, "pair"),
    ],
)
def test_what_is_no_domain_is_refused(wrong, message):
    with pytest.raises(AlgebraError, match=message) as caught:
        Domain.of(wrong)
    assert len(str(caught.value)) < 1_000


def test_integers_and_truths_are_tested_against_a_domain():
    domain = Domain.of("(0, 200]")
    assert domain.contains(np.array([0, 1, 200, 255], np.uint8)).tolist() == [False, True, True, False]
    assert Domain().contains(np.array([True, False])).all()
    assert Domain(0, 1).contains(np.array([True, False])).all()


# ----------------------------------------------------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"absorptive": True}, "1̄ ⊕ x is 2, but 1̄ is 1, at x = 2"),
        ({"idempotent": False}, "was claimed to be not idempotent, but x ⊕ x = x holds"),
        ({"selective": False}, "selective"),
        ({"commutative": False}, "commutative"),
    ],
)
def test_a_wrong_claim_is_an_error_with_the_reason(claim, message):
    with pytest.raises(AlgebraError, match="claimed") as caught:
        Semiring("wrong", "max(x, y)", "x * y", 0, 1, domain="[0, inf)", **claim)
    assert message in str(caught.value)
    with pytest.raises(AlgebraError, match="absorptive"):  # about a definition of the catalogue
        Semiring("mine", "min(x, y)", "x + y", INF, 0, "where(x >= 0, 0, nan)", absorptive=True)


def test_tropical_is_recognised_however_it_is_written():
    for add in ("min(x, y)", "min(y, x)"):
        for mul in ("x + y", "y + x"):
            assert Semiring("t", add, mul, INF, 0).tropical == "min"
    assert sr.max_plus.tropical == "max"
    for arguments in (("min(x, y)", "x + y", -INF, 0), ("min(x, y)", "x + y", INF, 1), ("min(x, y)", "x * y", INF, 1)):
        assert Semiring("t", *arguments).tropical is None
    assert sr.max_min.tropical is None


# ----------------------------------------------------------------------------------------------------------- dtypes


def test_naming_integer_dtypes_accepts_wrapping_arithmetic():
    semiring = Semiring("wrapping", "max(x, y)", "x * y", 0, 1, dtypes=("int32",))
    assert semiring.dtypes == ("int32",)
    assert semiring.mul(np.int32(2**30), np.int32(4)) == 0


@pytest.mark.parametrize("wrong", ["float32", ("banana",), (3,), ("complex64",)])
def test_dtypes_must_be_a_list_of_known_names(wrong):
    with pytest.raises(DTypeError):
        reliability(dtypes=wrong)


@pytest.mark.parametrize(
    ("name", "operands", "dtype"),
    [
        ("min_plus", (1, 2), "float64"),
        ("min_plus", ([1, 2], 3), "float64"),
        ("min_plus", (True, 2), "float64"),
        ("min_plus", ([], []), "float64"),
        ("min_plus", (np.float32(1), 2), "float32"),
        ("min_plus", (np.float32(1), 2.5), "float32"),
        ("min_plus", (np.int32(1), 2), "int32"),
        ("min_plus", (np.int32(1), 2.5), "float64"),
        ("min_plus", (np.int32(1), np.float32(2)), "float64"),
        ("min_plus", (np.int16(1), np.int64(2)), "int64"),
        ("min_plus", (np.float32([1]), [2, 3]), "float64"),  # as NumPy: a list of integers is int64
        ("min_plus", (np.int32([1]), INF), "float64"),
        ("boolean", ([0, 1], [1, 1]), "bool"),
        ("boolean", (True, False), "bool"),
        ("max_min", (True, False), "bool"),
        ("max_min", (1, 0), "float64"),
        ("xor_and", ([1, 2], 3), "int64"),
        ("xor_and", (np.uint8(1), 3), "uint8"),
    ],
)
def test_operands_meet_in_a_common_dtype(name, operands, dtype):
    semiring = sr.CATALOGUE[name]
    assert semiring.common_dtype(*operands) == np.dtype(dtype)
    assert semiring.add(*operands).dtype == np.dtype(dtype)


def test_no_path_stays_no_path_where_dtypes_meet():
    none = np.array([2**15 - 1], np.int16)
    assert sr.min_plus.mul(none, np.int32(5)) == 2**31 - 1
    assert sr.min_plus.add(none, np.array([1e6])) == 1e6
    assert sr.max_plus.mul(np.array([-(2**15)], np.int16), np.array([-1.0])) == -math.inf
    assert sr.max_min.add(np.array([0, 255], np.uint8), np.array([-7.0, 300.0])).tolist() == [-7, math.inf]
    assert sr.plus_times.add(none, np.int32(1)) == 2**15, "an ordinary number in plus_times"


def test_operands_that_do_not_fit_are_refused():
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        sr.max_min.add(np.array([1], np.uint8), 300)
    with pytest.raises(DTypeError, match="does not fit int32"):
        sr.min_plus.mul(np.array([1], np.int32), 2**40)
    narrow = Semiring("narrow", "x ^ y", "x & y", 0, "~0", dtypes=("int16",))
    with pytest.raises(DTypeError, match="does not fit int16"):
        narrow.add([70_000], [1])
    for wrong in ("a", [None], [10**30], [1j], [[1], [2, 3]]):
        with pytest.raises((DTypeError, ValueError)):
            sr.min_plus.add(wrong, 1)
    with pytest.raises(DTypeError, match="complex128"):
        sr.min_plus.add(np.array([1j]), 1)


def test_ends_of_a_domain_may_be_texts_as_zero_and_one_may():
    own = Semiring("e", "min(x, y)", "max(x, y)", "inf", 0, domain=("0", "inf"))
    assert own.domain == Domain(0, math.inf)
    with pytest.raises(AlgebraError, match=r"the domain \(0, 'x'\) is not a pair"):
        own.on_domain((0, "x"))


def test_a_constant_beyond_a_dtype_removes_the_dtype():
    assert Semiring("h", "min(x, y)", "min(x + y, 1e300)", 1e300, 0, domain=(0, 1e300)).dtypes == ("float64",)


# ------------------------------------------------------------------------------------------------------- operations


@given(st.floats(allow_nan=False), st.sampled_from(sorted(sr.CATALOGUE)))
def test_the_zero_absorbs_everything(x, name):
    semiring = sr.CATALOGUE[name]
    if semiring.supports(np.float64):
        zero = semiring.zero_for(np.float64)
        for left, right in ((zero, x), (x, zero)):
            assert semiring.mul(left, right) == zero
            assert (semiring.mul(np.full(3, left), right) == zero).all()


def test_infinity_times_zero_and_infinity_minus_infinity():
    assert sr.max_times.mul(0.0, INF) == 0
    assert sr.max_times.mul(-INF, 0.0) == 0
    assert sr.min_times.mul(INF, 0.0) == INF
    assert sr.min_plus.mul(INF, -INF) == INF
    assert sr.max_plus.mul(-INF, INF) == -INF
    assert sr.log_plus.add(-INF, -INF) == -INF
    assert sr.log_plus.add(-INF, 1.5) == 1.5
    assert sr.log_plus.add(1000.0, 1000.0) == pytest.approx(1000 + math.log(2), rel=1e-15)


def test_shapes_broadcast_or_say_why_not():
    assert sr.min_plus.add(np.ones((3, 1)), np.zeros(4)).shape == (3, 4)
    assert sr.min_plus.mul(np.ones((0, 2)), 1).shape == (0, 2)
    assert sr.min_plus.mul(2, 3).shape == ()
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4,\)"):
        sr.min_plus.add(np.ones((2, 3)), np.ones(4))


def test_operations_leave_their_operands_alone_and_take_any_memory_order():
    A = np.arange(12.0).reshape(3, 4)
    A.flags.writeable = False
    for view in (A, A.T, A[::-1, ::2], np.asfortranarray(A), A[1:1]):
        before = view.copy()
        np.testing.assert_array_equal(sr.max_plus.mul(view, view), before + before)
        np.testing.assert_array_equal(view, before)


def test_the_number_of_operands_is_checked():
    for wrong in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match="operands were given"):
            sr.min_plus.add(*wrong)
    assert repr(sr.min_plus.add) == "Operation('min(x, y)')"
    assert str(sr.min_plus.mul) == "x + y"
    assert isinstance(sr.min_plus.add, Operation)


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_a_sum_that_does_not_fit_is_an_error(dtype):
    top, bottom = np.iinfo(dtype).max, np.iinfo(dtype).min
    good = [(top - 5, 4, top - 1), (bottom, 5, bottom + 5), (bottom + 3, -3, bottom), (top, -7, top), (top, top, top)]
    for x, y, total in good:  # top is "no path"
        assert sr.min_plus.mul(np.array([x], dtype), np.array([y], dtype)).tolist() == [total]
    for x, y in ((top - 5, 5), (top - 1, top - 1), (bottom, -1), (bottom, bottom), (top - 5, 6)):
        with pytest.raises(IntegerOverflowError, match=f"does not fit {dtype}"):
            sr.min_plus.mul(np.array([x], dtype), np.array([y], dtype))
    assert sr.max_plus.mul(np.array([bottom, top - 1], dtype), np.array([-9, 1], dtype)).tolist() == [bottom, top]
    for x, y in ((bottom + 4, -4), (bottom + 1, bottom + 1), (top, 1)):
        with pytest.raises(IntegerOverflowError):
            sr.max_plus.mul(np.array([x], dtype), np.array([y], dtype))


def test_one_bad_sum_among_many_is_found_and_absorbed_ones_are_not():
    x = np.full(1000, 2**31 - 1, np.int32)
    assert (sr.min_plus.mul(x, np.int32(-1)) == 2**31 - 1).all()
    x[777] = 2**31 - 2
    with pytest.raises(IntegerOverflowError):
        sr.min_plus.mul(x, np.int32(1))


def test_bytes_and_truths():
    assert sr.max_min.add(np.array([3, 200], np.uint8), np.array([7, 100], np.uint8)).tolist() == [7, 200]
    assert sr.boolean.mul(np.array([True, True]), np.array([True, False])).tolist() == [True, False]
    assert sr.xor_and.add(np.uint8(0b1100), np.uint8(0b1010)) == 0b0110
    assert sr.boolean.add([0, 1, 0], [0, 0, 1]).tolist() == [False, True, True]


# ------------------------------------------------------------------------------------------------------------ stars


def test_a_star_keeps_the_shape_and_the_dtype():
    for x in (0.5, [0.5, 0.25], np.zeros((2, 0, 3)), np.full((2, 2), 0.5, np.float32)):
        for semiring in (sr.lukasiewicz, sr.max_times, sr.plus_times):
            found = semiring.star(x)
            assert np.shape(found) == np.shape(x)
            assert found.dtype == (np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64)
    assert sr.min_plus.star(np.array([1, -1], np.int32)).tolist() == [0, 2**31 - 1]
    assert sr.boolean.star([True, False]).tolist() == [True, True]


def test_arguments_of_a_definition_are_named():
    with pytest.raises(TypeError, match=r"misses name: .* the first is the name of the semiring, such as Semiring\("):
        Semiring(add="max(x, y)", mul="x * y", zero=0, one=1)
    with pytest.raises(TypeError, match="misses one: "):
        Semiring("max(x, y)", "x * y", 0, 1)
    with pytest.raises(TypeError, match="add= and mul="):
        Semiring("safest", plus="max(x, y)", times="x * y", zero=0, one=1)
    with pytest.raises(TypeError, match="domian"):
        Semiring("safest", "max(x, y)", "x * y", 0, 1, domian=(0, 1))


def test_the_operation_that_leaves_a_dtype_is_named():
    with pytest.raises(DTypeError, match=r"uint8: ⊗, x \+ y, can leave its range"):
        sr.min_plus.check_dtype(np.dtype(np.uint8))


def test_a_star_that_is_missing_is_an_error():
    lonely = Semiring("lonely", "max(x, y)", "x * y", 0, 1, domain="[0, inf)")
    assert lonely.star_expression is None
    assert lonely.divergence is None
    with pytest.raises(AlgebraError, match="lonely has no star"):
        lonely.star(0.5)
    with pytest.raises(DTypeError):
        sr.plus_times.star(np.array([1, 2], np.int32))


def test_the_same_semiring_on_another_domain():
    options = {"add": "max(x, y)", "mul": "x * y", "zero": 0, "one": 1, "contract": True, "dtypes": ["float64"]}
    wide = Semiring("r", **options, star="nan if x > 1 else 1")
    narrow = wide.on_domain((0, 1))
    assert narrow == Semiring("r", **options, star="nan if x > 1 else 1", domain="[0, 1]")
    assert (wide.absorptive, narrow.absorptive) == (False, True)
    assert narrow.on_domain(None) == wide
    with pytest.raises(AlgebraError, match="domain"):
        wide.on_domain("nowhere")


@pytest.mark.full
@pytest.mark.parametrize("name", ["first", "second"])
def test_errors_name_the_semiring_that_was_given(name):
    """Objects that equal semirings share do not name the first of them."""
    walks = Semiring(name, "x + y", "x * y", 0, 1, "where(x == 1, nan, 1 / (1 - x))", "(-inf, inf)", contract=True)
    for _ in range(2):
        with pytest.raises(DivergenceError, match=f"does not exist in {name}:"):
            sr.closure(np.diag([1.0, 0.5]), walks)
    mean = Semiring(name, "max(x, y)", "(x + y) / 2", 0, 1, domain=(0, 1))
    with pytest.raises(AlgebraError, match=rf"^{name} is no semiring on .* See {name}\.check_axioms"):
        sr.closure(np.eye(2), mean)
    difference = Semiring(name, "x - y", "x * y", 0, 1)
    with pytest.raises(AlgebraError, match=rf"^{name} is no semiring on .* See {name}\.check_axioms"):
        sr.matmul(np.eye(2), np.eye(2), difference)
