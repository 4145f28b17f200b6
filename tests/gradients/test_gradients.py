"""Test the parts of gradients: derivatives of expressions, products with exponents, sums along trees, rules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy

import semiring as sr
from semiring.algebra.expressions import parse
from semiring.autodiff.path_trees import sum_by_doubling, sums_down, sums_up
from semiring.autodiff.primitives import PRIMITIVES
from semiring.autodiff.rules import derivative, factors, key_of, rule_of, semiring_of
from semiring.autodiff.scaled_products import scaled_product
from semiring.errors import AlgebraError

SMOOTH = [
    *("x + y", "x - y", "y - x", "x * y", "x / y", "y / x", "-x", "x * x * y", "exp(x * y)", "expm1(x) * y"),
    *("log(x + y)", "log1p(x * y)", "sqrt(x * y)", "(x * y) / (x * y + (1 - x) * (1 - y))", "3 * x - 1 / (2 + y)"),
]


@pytest.mark.parametrize("text", SMOOTH)
def test_derivatives_of_smooth_expressions_are_those_of_sympy(text, rng):
    names = {"expm1": lambda x: sympy.exp(x) - 1, "log1p": lambda x: sympy.log(1 + x)}
    x, y = sympy.symbols("x y", positive=True)
    expected = sympy.sympify(text, {"x": x, "y": y, **names})
    expression = parse(text, ("x", "y"))
    for variable in (x, y):
        exact = sympy.lambdify((x, y), sympy.diff(expected, variable), "math")
        found = derivative(expression, variable.name)
        for a, b in rng.random((5, 2)) + 0.1:
            assert found.evaluate({"x": a, "y": b}, np.dtype(float)) == pytest.approx(exact(a, b), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "x", "y", "by_x", "by_y"),
    [
        ("min(x, y)", 1, 2, 1, 0),
        ("min(x, y)", 2, 1, 0, 1),
        ("min(x, y)", 2, 2, 1, 0),
        ("max(x, y)", 2, 2, 1, 0),
        ("max(0, x + y - 1)", 0.25, 0.5, 0, 0),
        ("max(0, x + y - 1)", 0.5, 0.5, 0, 0),
        ("max(0, x + y - 1)", 0.5, 0.75, 1, 1),
        ("where(x < y, 3 * x, y * y)", 1, 2, 3, 0),
        ("where(x < y, 3 * x, y * y)", 2, 2, 0, 4),
        ("abs(x) + y", -2, 0, -1, 1),
        ("abs(x) + y", 0, 0, 0, 1),
        ("floor(x) * y", 2.5, 3, 0, 2),
        ("x + 0 * y", 1, 1, 1, 0),
    ],
)
def test_derivatives_where_expressions_select(text, x, y, by_x, by_y):
    expression = parse(text, ("x", "y"))
    values = {"x": np.float64(x), "y": np.float64(y)}
    found = [derivative(expression, name).evaluate(values, np.dtype(float)) for name in "xy"]
    assert found == [by_x, by_y]


def test_a_derivative_that_is_a_number_is_a_constant():
    assert [factor.text for factor in factors(sr.min_plus)] == ["1", "1"]
    assert [factor.text for factor in factors(sr.max_times)] == ["y", "x"]
    assert derivative(parse("exp(x) * 2", ("x", "y")), "y").text == "0"


def test_bit_operations_have_no_derivative():
    with pytest.raises(AlgebraError, match="acts on bits"):
        derivative(parse("~x", ("x",)), "x")
    with pytest.raises(AlgebraError, match="acts on bits"):
        derivative(parse("x ^ y", ("x", "y")), "y")


@pytest.mark.parametrize("semiring", sr.CATALOGUE.values(), ids=str)
def test_each_semiring_of_the_catalogue_has_a_rule_or_says_why_not(semiring):
    if semiring.name in ("boolean", "xor_and"):
        with pytest.raises(AlgebraError, match="is defined on"):
            rule_of(semiring)
    else:
        assert rule_of(semiring) == (semiring.name if not semiring.selective else "selective")


def test_a_sum_that_neither_selects_nor_is_known_has_no_gradient():
    either = sr.Semiring("either", add="x + y - x * y", mul="x * y", zero=0, one=1, domain=(0, 1))
    with pytest.raises(AlgebraError, match="either has no gradient"):
        rule_of(either)
    assert rule_of(sr.Semiring("sums", add="x + y", mul="x * y", zero=0, one=1)) == "plus_times"


@pytest.mark.parametrize("semiring", sr.CATALOGUE.values(), ids=str)
def test_a_key_names_a_semiring_of_the_catalogue(semiring):
    assert key_of(semiring) == semiring.name
    assert semiring_of(semiring.name) is semiring
    assert key_of("tropical") == "min_plus"


def test_a_key_holds_the_definition_of_another_semiring(monkeypatch):
    own = sr.Semiring("min_plus", add="max(x, y)", mul="x * y", zero=0, one=1, domain="[0, 1)", dtypes=("float32",))
    starry = sr.Semiring("starry", "min(x, y)", "x + y + 0", np.inf, 0, "where(x >= 0, 0, nan)", contract=True)
    keys = [key_of(own), key_of(starry)]
    assert [semiring_of(key) for key in keys] == [own, starry]
    monkeypatch.setattr("semiring.autodiff.rules._custom_semirings", {})  # another process
    assert [semiring_of(key) for key in keys] == [own, starry]


def expected_product(X, alpha, Y, beta, gamma):
    """Multiply term by term, in exact sums."""
    m, k, n = *X.shape, Y.shape[1]
    terms = [
        [[X[p, r] * Y[r, q] * math.exp(alpha[p, r] + beta[r, q] + gamma[p, q]) for r in range(k)] for q in range(n)]
        for p in range(m)
    ]
    return np.array([[math.fsum(entry) for entry in row] for row in terms]).reshape(m, n)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 2), (5, 1, 4), (9, 6, 17)])
@pytest.mark.parametrize("scale", [1, 100, 1500])
def test_a_scaled_product_is_the_sum_of_its_terms(m, k, n, scale, rng):
    """Exponents may have any size if their sum is at most 0, and none of them spoils the others."""
    X, Y = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    rows, middle, columns = (scale * rng.normal(size=size) for size in (m, k, n))
    alpha = rows[:, None] - middle - rng.random((m, k)) * scale
    beta = middle[:, None] + columns - rng.random((k, n)) * scale
    gamma = -rows[:, None] - columns
    alpha[rng.random((m, k)) < 0.2] = -np.inf
    gamma[rng.random((m, n)) < 0.2] = -np.inf
    found = scaled_product(X, alpha, Y, beta, gamma)
    np.testing.assert_allclose(found, expected_product(X, alpha, Y, beta, gamma), rtol=1e-11, atol=1e-13)


def test_entries_far_apart_are_added_term_by_term():
    """The row's largest exponent is 2000 above the one that counts, where a product of matrices would see 0."""
    alpha, beta = np.array([[1000.0, -1000.0]]), np.array([[-np.inf], [0.0]])
    ones = np.ones_like
    found = scaled_product(ones(alpha), alpha, ones(beta), beta, np.array([[999.5]]))
    np.testing.assert_allclose(found, [[math.exp(-0.5)]], rtol=1e-14)


def random_trees(rng, rows, n, deepest=False):
    """Return trees: row i is a tree with root i mod n, over some of the vertices."""
    pred = np.full((rows, n), -9999, np.int32)
    for row in range(rows):
        known = [row % n]
        for vertex in rng.permutation([v for v in range(n) if v != row % n])[: n if deepest else 2 * n // 3 + 1]:
            pred[row, vertex] = known[-1] if deepest else rng.choice(known)
            known.append(vertex)
    return pred


def matrix_of(c, pred, root):
    """Return M with (M y)[j] = c[j]·y[pred[j]]."""
    M = np.zeros((c.size, c.size))
    for j, p in enumerate(pred):
        if p >= 0 and p != root:
            M[j, p] = c[j]
    return M


@pytest.mark.parametrize("n", [1, 2, 3, 17, 40])
@pytest.mark.parametrize("deepest", [False, True])
def test_sums_along_trees_solve_their_linear_systems(n, deepest, rng):
    pred, c, values = random_trees(rng, n, n, deepest), rng.normal(size=(n, n)), rng.normal(size=(n, n))
    up, down = sums_up(c, values, pred), sums_down(c, values, pred)
    for i in range(n):
        system = np.eye(n) - matrix_of(c[i], pred[i], i)
        np.testing.assert_allclose(down[i], np.linalg.solve(system, values[i]), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(up[i], np.linalg.solve(system.T, values[i]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sum_by_doubling(c, values, pred, n, is_upward=True), up, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sum_by_doubling(c, values, pred, n, is_upward=False), down, rtol=1e-9, atol=1e-9)


def test_sums_of_stacks_in_any_order_of_memory_and_on_threads(rng):
    n = 70
    pred = random_trees(rng, 8 * n, n).reshape(2, 4, n, n)
    c, values = rng.normal(size=(2, 4, n, n)), rng.integers(-9, 9, (2, 4, n, n)).astype(np.float64)
    before = values.copy()
    found = sums_up(c, values, pred)
    np.testing.assert_array_equal(values, before)
    for index in np.ndindex(2, 4):
        np.testing.assert_array_equal(sums_up(c[index], values[index], pred[index]), found[index])
    swapped = [x.swapaxes(-1, -2).copy().swapaxes(-1, -2) for x in (c, values, pred)]
    np.testing.assert_array_equal(sums_up(*swapped), found)
    with sr.threads(5):
        np.testing.assert_array_equal(sums_up(c, values, pred), found)
    assert sums_down(*(np.empty((3, 0, 0), dtype) for dtype in (float, float, np.int32))).shape == (3, 0, 0)


def test_a_selective_semiring_records_what_it_selects():
    matmul = PRIMITIVES["matmul"]
    assert matmul.gradient_form((sr.log_plus, True)) == (matmul, (sr.log_plus, True))
    assert matmul.gradient_form((sr.min_plus, False)) == (PRIMITIVES["matmul_witness"], (sr.min_plus, False))
    trees = PRIMITIVES["closure"].gradient_form((sr.max_min, True, False, "float16"))
    assert trees == (PRIMITIVES["closure_trees"], (sr.max_min, False, "float16"))
    with pytest.raises(AlgebraError, match="no gradient"):
        matmul.gradient_form((sr.boolean, True))
