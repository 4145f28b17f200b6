"""The expression tree: text and callables become it, it becomes text and arrays, and strangers' text does no harm."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import semiring as sr
from semiring.algebra.expressions import OPERATIONS, Expression, Traced, parse, trace, typed_constant
from semiring.algebra.expressions.nan_conditions import nan_condition, replace_nan
from semiring.errors import DTypeError, ExpressionError

XY = ("x", "y")
X, Y = Expression("var", (), "x"), Expression("var", (), "y")


def const(value):
    return Expression("const", (), value)


def p(text, **options):
    return parse(text, XY, **options)


# ------------------------------------------------------------------------------------------------- random trees

CONSTANTS = st.one_of(
    st.sampled_from([0, 1, -1, 0.0, -0.0, True, False, math.inf, -math.inf, 0.1, 1e-300, 2**70, -(2**70)]),
    st.integers(-1000, 1000),
    st.floats(allow_nan=False),
)
LEAVES = st.one_of(st.sampled_from([X, Y]), CONSTANTS.map(const))
TRUTH_BITS = ("and", "or", "xor")


def _grow(children):
    def node(op):
        arity = OPERATIONS[op].arity
        return st.tuples(*[children] * arity).map(lambda args: Expression(op, args))

    values = [op for op, operation in OPERATIONS.items() if operation.result in ("value", None) and op != "where"]
    comparisons = st.one_of([node(op) for op, operation in OPERATIONS.items() if operation.result == "truth"])
    truths = st.one_of(
        comparisons,
        comparisons.map(lambda truth: Expression("invert", (truth,))),
        st.tuples(st.sampled_from(TRUTH_BITS), comparisons, comparisons).map(lambda t: Expression(t[0], (t[1], t[2]))),
    )
    where = st.tuples(truths, children, children).map(lambda args: Expression("where", args))
    return st.one_of([*map(node, values), where])


TREES = st.recursive(LEAVES, _grow, max_leaves=12)


@given(TREES)
def test_text_and_tree_determine_each_other(tree):
    again = p(tree.text)
    assert again == tree
    assert again.text == tree.text
    assert _shape(again) == _shape(tree)


def _shape(tree):
    """Return everything about a tree, without the equality under test."""
    leaf = (type(tree.leaf).__name__, repr(tree.leaf))
    return (tree.op, leaf, tuple(_shape(arg) for arg in tree.args))


@given(TREES)
def test_a_tree_survives_pickling_copying_and_hashing(tree):
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert _shape(again) == _shape(tree)
        assert again == tree
        assert hash(again) == hash(tree)
    assert repr(tree) == f"Expression({tree.text!r})"


@given(TREES)
def test_size_and_depth_count_what_is_there(tree):
    def size(node):
        return 1 + sum(map(size, node.args))

    def depth(node):
        return 1 + max(map(depth, node.args), default=0)

    assert (tree.size, tree.depth) == (size(tree), depth(tree))
    assert len(list(tree.walk())) == size(tree)


# The meaning of each operation in plain Python, on numbers for which it exists.
PLAIN = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "min": min,
    "max": max,
    "floor": math.floor,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "where": lambda c, x, y: x if c else y,
}


def _small(children):
    def node(op):
        return st.tuples(*[children] * OPERATIONS[op].arity).map(lambda args: Expression(op, args))

    comparison = st.one_of([node(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")])
    where = st.tuples(comparison, children, children).map(lambda args: Expression("where", args))
    return st.one_of([*map(node, ("add", "sub", "mul", "neg", "abs", "min", "max", "floor")), where])


WHOLE = st.recursive(st.one_of(st.sampled_from([X, Y]), st.integers(-3, 3).map(const)), _small, max_leaves=8)


def _plain(tree, values):
    if tree.op == "var":
        return values[tree.leaf]
    if tree.op == "const":
        return tree.leaf
    return PLAIN[tree.op](*(_plain(arg, values) for arg in tree.args))


@given(WHOLE, st.integers(-3, 3), st.integers(-3, 3))
def test_arrays_scalars_and_python_agree(tree, x, y):
    expected = _plain(tree, {"x": x, "y": y})
    if abs(expected) < 2**50:
        arrays = {"x": np.full((2, 1), x, float), "y": np.full((1, 3), y, float)}
        found = np.broadcast_to(tree.evaluate(arrays, np.dtype(float)), (2, 3))
        assert (found == expected).all()
        assert float(tree.evaluate({"x": np.float64(x), "y": np.float64(y)}, np.dtype(float))) == expected


# -------------------------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y * 2", "x + y * 2"),
        ("(x + y) * 2", "(x + y) * 2"),
        ("x - (y - 1)", "x - (y - 1)"),
        ("x - y - 1", "x - y - 1"),
        ("x / (y * 2)", "x / (y * 2)"),
        ("-x * y", "-x * y"),
        ("-(x * y)", "-(x * y)"),
        ("min(x, y, 3)", "min(min(x, y), 3)"),
        ("maximum(x, y)", "max(x, y)"),
        ("x if x < y else y", "where(x < y, x, y)"),
        ("where(0 < x <= y, x, y)", "where((0 < x) & (x <= y), x, y)"),
        ("where(x < y and not y < 1 or x == 2, x, y)", "where((x < y) & ~(y < 1) | (x == 2), x, y)"),
        ("x & y | ~x ^ 1", "x & y | ~x ^ 1"),
        ("-inf", "-inf"),
        ("-(-2)", "-(+-2)"),
        ("+x", "x"),
        ("1_000 * x", "1000 * x"),
        ("  x  ", "x"),
        ("1e3", "1000.0"),
        ("True", "True"),
    ],
)
def test_text_is_read_with_pythons_precedences(text, expected):
    assert str(p(text)) == expected


HARMFUL = [
    # names, attributes and calls
    *("__import__('os')", "__import__('os').system('true')", "().__class__.__bases__[0].__subclasses__()"),
    *(
        "x.real",
        "x.__class__",
        "x[0]",
        "x(y)",
        "eval('x')",
        "exec('x')",
        "open('x')",
        "print(x)",
        "z",
        "nan",
        "x + nan",
    ),
    # what is no expression, or none of numbers
    *("lambda: x", "(lambda: x)()", "[x for x in y]", "{x: y}", "{x, y}", "[x, y]", "(x, y)", "(x := 1)", "f'{x}'"),
    *("'x'", "b'x'", "x if y else 1", "await x", "yield x", "*x", "1j * x", "None", "...", "x; y", "x\ny", "x = y"),
    *("import os", "", "   ", "#", "x +", "x\0y", "\ud800", "x\u200by", "０x", "√x", "x·y"),
    # operators and functions that are absent, or take something else
    *("min(*x)", "min(x, y, key=abs)", "min(**x)", "9**9**9**9", "x**2", "x // y", "x % y", "x @ y", "x << 10**9"),
    *("1 << 10**10", "x >> 1", "x is y", "x in y", "min(x)", "abs(x, y)", "where(x, y, 1)", "where(x < y, x)"),
    *("x < y", "x and y", "not x", "x & (x < y)", "(x < y) + 1"),
    # what is long or deep
    *("9" * 1_000, "0x" + "f" * 1_500, "1e" + "9" * 100 + "j", "x" * 10**6, "(" * 10**6),
    *("(" * 900 + "x" + ")" * 900, "-" * 1_990 + "x", "~" * 1_990 + "x", "x" + "+x" * 900),
    *("min(" * 300 + "x" + ",y)" * 300, "x" + " if x < y else x" * 110, "x" + "<x" * 900, "not " * 400 + "x<y"),
    *("[" * 900, "x." * 900),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", HARMFUL, ids=lambda text: repr(text[:24]).replace("\\", "/"))
def test_text_from_a_stranger_neither_runs_nor_hangs(text):
    with pytest.raises(ExpressionError) as caught:
        p(text)
    assert len(str(caught.value)) < 3_000
    str(caught.value).encode()  # printable, whatever the text held


@given(st.one_of(st.text(max_size=40), st.text(alphabet="xy01.()+-*/&|^~<>=, minabswheref", max_size=60)))
def test_any_text_is_an_expression_or_an_expression_error(text):
    try:
        tree = p(text)
    except ExpressionError:
        return
    assert p(tree.text) == tree


def test_wide_letters_are_the_ascii_ones_as_in_python():
    assert p("ｘ + y") == p("x + y")


def test_nan_only_where_it_is_allowed():
    tree = p("where(x < 1, 0, nan)", allow_nan=True)
    assert tree.text == "where(x < 1, 0, nan)"
    with pytest.raises(ExpressionError, match="no element of any semiring"):
        p("where(x < 1, 0, nan)")


def test_messages_name_the_mistake_and_the_remedy():
    with pytest.raises(ExpressionError, match=r"^'hypot\(x, y\)': the functions are min, .*floor"):
        p("hypot(x, y)")
    for text in ("Max(x, y)", "mx(x, y)", "maxi(x, y)"):
        with pytest.raises(ExpressionError, match="did you mean max"):
            p(text)
    with pytest.raises(ExpressionError, match=r"a text such as 'max.*', or a callable of x and y, not 3 of type int"):
        sr.Semiring("own", 3, "x + y", 0, 0)
    with pytest.raises(ExpressionError, match="the names are x, y"):
        p("x + w")
    with pytest.raises(ExpressionError, match=r"x \* x for a square"):
        p("x ** 2")
    with pytest.raises(ExpressionError, match=r"comparison.* where\(x < y, a, b\)"):
        p("x < y")


# -------------------------------------------------------------------------------------------------------- tracing


def t(function, **options):
    return trace(function, XY, **options)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x, y: sr.extend.minimum(x, y), "min(x, y)"),
        (lambda x, y: sr.extend.maximum(0, x + y - 1), "max(0, x + y - 1)"),
        (lambda x, y: sr.extend.where((x < y) & ~(y == 2), x, y), "where((x < y) & ~(y == 2), x, y)"),
        (lambda x, y: abs(-x) / (2 - y), "abs(-x) / (2 - y)"),
        (lambda x, y: sr.extend.log1p(sr.extend.exp(-sr.extend.absolute(x - y))), "log1p(exp(-abs(x - y)))"),
        (
            lambda x, y: sr.extend.sqrt(x) + sr.extend.floor(y) + sr.extend.expm1(x) + sr.extend.log(y),
            "sqrt(x) + floor(y) + expm1(x) + log(y)",
        ),
        (lambda x, y: (x & 3) | (1 ^ y), "x & 3 | 1 ^ y"),
        (lambda x, y: np.minimum(x, y), "min(x, y)"),
        (lambda x, y: np.fmax(x, np.float32(2)), "max(x, 2.0)"),
        (lambda x, y: np.add(np.exp(x), np.negative(y)), "exp(x) + -y"),
        (lambda x, y: np.bitwise_and(x, y) ^ np.int64(5), "x & y ^ 5"),
        (lambda x, y: np.float64(2) * x + y * np.int8(3), "2.0 * x + y * 3"),
        (lambda x, y: sr.extend.where(np.less_equal(x, y), +x, np.multiply(y, True)), "where(x <= y, x, y * True)"),
        (lambda x, y: sum([x, y]), "0 + x + y"),
        (lambda x, y: 7, "7"),
    ],
)
def test_a_callable_is_traced_in_the_order_it_is_written(function, text):
    tree = t(function)
    assert str(tree) == text
    assert p(text) == tree


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x if x < y else y,
        lambda x, y: min(x, y),
        lambda x, y: max(x, 0),
        lambda x, y: x and y,
        lambda x, y: x < y < 2,
        lambda x, y: not x,
        lambda x, y: x in (y,),
        lambda x, y: np.where(x < y, x, y),
        lambda x, y: np.maximum.reduce([x, y]),
    ],
)
def test_what_python_decides_itself_names_where_and_minimum(function):
    with pytest.raises(
        ExpressionError, match=r"\.extend\.where\(c, a, b\).*\.extend\.minimum, semiring\.extend\.maximum"
    ):
        t(function)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: x**2, r"x \* x for a square"),
        (lambda x, y: 2**x, "an operation may use"),
        (lambda x, y: x % y, "an operation may use"),
        (lambda x, y: x // y, "an operation may use"),
        (lambda x, y: x @ y, "an operation may use"),
        (lambda x, y: x << 1, "an operation may use"),
        (lambda x, y: round(x), "an operation may use"),
        (lambda x, y: int(x), "an operation may use"),
        (lambda x, y: x[0], "an operation may use"),
        (lambda x, y: x(y), "an operation may use"),
        (lambda x, y: [1, 2][x], "an operation may use"),
        (lambda x, y: list(x), "an operation may use"),
        (lambda x, y: {x: y}, "an operation may use"),
        (lambda x, y: x.real, "an operation may use"),
        (lambda x, y: math.exp(x), "of semiring, not of math"),
        (lambda x, y: math.floor(x), "of semiring, not of math"),
        (lambda x, y: np.logaddexp(x, y), r"numpy.logaddexp cannot be used in an operation.*exp"),
        (lambda x, y: np.add(x, y, where=True), "cannot be used in an operation"),
        (lambda x, y: x + "1", "cannot be a constant"),
        (lambda x, y: x + 1j, "cannot be a constant"),
        (lambda x, y: x + np.ones(3), "cannot be a constant"),
        (lambda x, y: x + Fraction(1, 3), r"cannot be a constant.* write float\(1/3\)"),
        (lambda x, y: x + Fraction(10**400, 3), "cannot be a constant"),
        (lambda x, y: x + sympy.Rational(1, 3), r"cannot be a constant.* write float\(1/3\)"),
        (lambda x, y: x + sympy.zoo, "cannot be a constant"),
        (lambda x, y: x == None, "cannot be a constant"),  # noqa: E711  # the comparison itself is under test
        (lambda x, y: x + 10**5000, "beyond every dtype"),
        (lambda x, y: None, "returned None"),
        (lambda x, y: x < y, "is a comparison"),
        (lambda x, y: x + math.nan, "no element of any semiring"),
        (lambda x, y: x & (x < y), "and was given"),
    ],
)
def test_what_cannot_be_traced_says_so(function, message):
    with pytest.raises(ExpressionError, match=message):
        t(function)


def test_recursion_and_errors_of_the_callable_itself():
    def endless(x, y):
        return endless(x, y) + 1

    with pytest.raises(ExpressionError, match="does not end"):
        t(endless)
    with pytest.raises(TypeError, match="positional argument"):
        t(lambda x: x)
    with pytest.raises(ZeroDivisionError):
        t(lambda x, y: x + 1 / 0)


@pytest.mark.parametrize(
    ("step", "times", "message"), [(lambda f, y: f + f, 50, "nodes"), (lambda f, y: f + y, 200, "deep")]
)
def test_trees_of_many_nodes_or_levels_fail_at_once(step, times, message):
    def long(x, y):
        for _ in range(times):
            x = step(x, y)
        return x

    with pytest.raises(ExpressionError, match=message):
        t(long)


def test_shared_subtrees_are_evaluated_once():
    calls = []

    def node(expression, args):
        calls.append(expression.text)
        return 0

    shared = t(lambda x, y: (s := x + y) * s + s)
    shared.fold(lambda leaf: 0, node)
    assert sorted(calls) == ["(x + y) * (x + y)", "(x + y) * (x + y) + (x + y)", "x + y"]


# ------------------------------------------------------------------------------------------------- identity of trees


def test_equality_tells_apart_what_computes_differently():
    assert const(0.0) != const(-0.0)
    assert const(1) != const(True)
    assert const(1) != const(1.0)
    assert t(lambda x, y: x + y) != t(lambda x, y: y + x)
    assert p("(x + y) + 1") != p("x + (y + 1)")
    assert p("-2 * x") != Expression("mul", (Expression("neg", (const(2),)), X))
    assert p("x + y") == t(lambda x, y: x + y)
    assert p("x") != "x"
    assert len({p("x + y"), p("x+y"), t(lambda x, y: x + y)}) == 1


def test_a_node_that_is_none_is_refused():
    for make in (
        lambda: Expression("power", (X, Y)),
        lambda: Expression("add", (X,)),
        lambda: Expression("where", (X, X, Y)),
        lambda: Expression("var", (), "x + y"),
        lambda: Expression("var", (), 3),
        lambda: Expression("var", (X,), "x"),
        lambda: Expression("const", (), np.float32(1)),
        lambda: Expression("const", (), "1"),
        lambda: Expression("const", (), 2**2000),
        lambda: Expression("add", (X, Y), "leaf"),
    ):
        with pytest.raises(ExpressionError):
            make()


def test_traced_values_print_and_have_no_hash():
    value = Traced(X)
    assert repr(value + 1) == "Traced(x + 1)"
    with pytest.raises(TypeError):
        hash(value)


def test_substitute_replaces_all_at_once():
    assert p("x + y * x").substitute({"x": Y, "y": X}) == p("y + x * y")
    assert p("-x").substitute({"x": const(2)}).text == "-(+2)"


# ------------------------------------------------------------------------------------------------- values and dtypes


def test_min_and_max_drop_a_nan_whichever_side_it_is_on():
    nan, values = np.array([np.nan, 1.0, np.nan]), np.array([2.0, np.nan, np.nan])
    for tree, name in ((p("min(x, y)"), sr.extend.minimum), (p("max(x, y)"), sr.extend.maximum)):
        expected = np.array([2.0, 1.0, np.nan])
        np.testing.assert_array_equal(tree.evaluate({"x": nan, "y": values}, nan.dtype), expected)
        np.testing.assert_array_equal(tree.evaluate({"x": values, "y": nan}, nan.dtype), expected)
        np.testing.assert_array_equal(name(nan, values), expected)


def test_the_public_functions_work_on_arrays_and_check_their_number_of_arguments():
    assert sr.extend.where(np.array([True, False]), 1, 2).tolist() == [1, 2]
    assert sr.extend.exp(0.0) == 1
    assert sr.extend.absolute([-1, 2]).tolist() == [1, 2]
    with pytest.raises(TypeError, match="2 arguments, 3 given"):
        sr.extend.minimum(1, 2, 3)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (math.inf, "int32", 2**31 - 1),
        (-math.inf, "int32", -(2**31)),
        (math.inf, "uint8", 255),
        (-math.inf, "uint8", 0),
        (math.inf, "bool", True),
        (-math.inf, "bool", False),
        (math.inf, "float32", math.inf),
        (True, "int16", 1),
        (1.0, "int64", 1),
        (0, "bool", False),
        (0.1, "float32", np.float32(0.1)),
        (2**63 - 1, "int64", 2**63 - 1),
    ],
)
def test_a_constant_has_a_value_in_a_dtype(value, dtype, expected):
    found = typed_constant(value, np.dtype(dtype))
    assert found == expected
    assert found.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.5, "int32"),
        (300, "uint8"),
        (-1, "uint8"),
        (2, "bool"),
        (2**63, "int64"),
        (math.nan, "int32"),
        (math.nan, "bool"),
        (1e300, "float32"),
        (1e-300, "float32"),
        (-1e5, "float16"),
        (2**200, "float32"),
    ],
)
def test_a_constant_that_a_dtype_lacks_is_an_error(value, dtype):
    with pytest.raises(DTypeError):
        typed_constant(value, np.dtype(dtype))


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("min(x, y)", "float32 int16 uint8 bool", ""),
        ("x + y", "float64 int64 uint8", "bool"),
        ("x / y", "float32", "int32 bool"),
        ("exp(x) + y", "float64", "int64"),
        ("x & y", "int32 uint8 bool", "float32"),
        ("where((x < y) & (y < 3), x, y)", "float32 int32 uint8", ""),
        ("x ^ 256", "int16", "uint8 bool float64"),
        ("x * 0.5", "float32", "int32"),
        ("-x", "int32", "bool"),
    ],
)
def test_dtypes_on_which_an_operation_means_something(text, good, bad):
    for name in good.split():
        p(text).check_dtype(np.dtype(name))
    for name in bad.split():
        with pytest.raises(DTypeError):
            p(text).check_dtype(np.dtype(name))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e308, -1e308, 5e-324, math.inf, -math.inf]


@given(TREES)
def test_what_is_said_never_to_be_nan_never_is(tree):
    if tree.may_be_nan():
        return
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    try:
        tree.check_dtype(x.dtype)
    except DTypeError:
        return
    assert not np.isnan(tree.evaluate({"x": x, "y": y}, x.dtype)).any()


def test_what_may_be_nan_says_so():
    for text in ("x + y", "x * y", "log(x)", "sqrt(x)", "x / y", "where(x < 0, nan, 1)", "exp(x - y)"):
        assert p(text, allow_nan=True).may_be_nan()
    for text in ("min(x, y)", "min(x + y, x)", "abs(-x)", "exp(x)", "where(x < y, x, y)"):
        assert not p(text).may_be_nan()
    assert p("min(x, y)").may_be_nan("xy")
    assert not p("min(x, y)").may_be_nan("x")
    assert p("max(x, -y)").never_nan_argument() == 0


@given(TREES, st.sampled_from(["", "x", "y", "xy"]))
def test_the_argument_that_is_kept_is_no_nan(tree, nan_names):
    """If the argument that is kept is no NaN, a comparison and a selection drop the NaN of the other, as fmin and fmax
    do."""
    values = {name: np.array([*SPECIAL, math.nan] if name in nan_names else SPECIAL) for name in "xy"}
    x, y = (grid.ravel() for grid in np.meshgrid(*values.values()))
    try:
        tree.check_dtype(x.dtype)
    except DTypeError:
        return
    for node in tree.walk():
        if node.op not in ("min", "max"):
            continue
        first, second = (np.broadcast_to(arg.evaluate({"x": x, "y": y}, x.dtype), x.shape) for arg in node.args)
        kept = node.never_nan_argument(nan_names)
        if kept is None:
            continue
        one, other = (first, second) if kept == 0 else (second, first)
        assert not np.isnan(one).any()
        better = other < one if node.op == "min" else other > one
        expected = (np.fmin if node.op == "min" else np.fmax)(first, second)
        np.testing.assert_array_equal(np.where(better, other, one), expected)


# ------------------------------------------------------------------------------------------------- NaN constants


@pytest.mark.parametrize(
    "text",
    [
        "where(x < 1, 0, nan)",
        "where(x == 1, nan, 1 / (1 - x))",
        "where(x < 0, where(x < -2, 1, nan), where(x > 5, 3, nan))",
        "where(x < 0, nan, 1) + where(x > 3, nan, 2)",
        "min(where(x < 0, nan, 1), 2)",
        "max(where(x < 0, nan, 1), where(x < 1, nan, 2))",
        "where(x < 0, nan, nan)",
        "where((x > 0) & (x < 2), nan, x)",
    ],
)
def test_the_condition_for_nan_is_where_it_is_nan(text):
    tree = parse(text, ("x",), allow_nan=True)
    x = np.linspace(-6, 6, 97)
    condition = nan_condition(tree)
    found = condition.evaluate({"x": x}, x.dtype) if isinstance(condition, Expression) else condition
    np.testing.assert_array_equal(np.broadcast_to(found, x.shape), np.isnan(tree.evaluate({"x": x}, x.dtype)))
    assert nan_condition(replace_nan(tree, const(7))) is False
