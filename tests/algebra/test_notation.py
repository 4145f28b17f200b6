"""Test SymPy and LaTeX forms of expressions and semirings."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy

import semiring as sr
from semiring.algebra.expressions import parse
from semiring.algebra.notation import semiring_latex, to_latex, to_sympy

ARITHMETIC = [
    "x + y",
    "x - (y - 1)",
    "x * y / (x + 3)",
    "-abs(x) + y",
    "min(x, max(y, 1))",
    "exp(x) + expm1(y)",
    "log(abs(x) + 1) - log1p(abs(y))",
    "sqrt(abs(x * y))",
    "floor(x / 2)",
    "where(x < y, x, y + 0.1)",
    "where((x <= y) & ~(x == 1) | (y > 2), x, where(x != y, 1, 2))",
    "where((x >= 0) ^ (y >= 0), 1, 0)",
]


@pytest.mark.parametrize("text", ARITHMETIC)
def test_the_sympy_form_has_the_same_values(text):
    tree = parse(text, ("x", "y"))
    form = to_sympy(tree)
    symbols = {name: sympy.Symbol(name, real=True) for name in ("x", "y")}
    assert form.free_symbols <= set(symbols.values())
    for x, y in [(0, 0), (1, 1), (1, -2), (-1, 3), (2.5, 0.5), (-0.25, -4)]:
        exact = {symbols["x"]: sympy.Rational(x), symbols["y"]: sympy.Rational(y)}
        found = float(form.subs(exact))
        expected = float(tree.evaluate({"x": np.float64(x), "y": np.float64(y)}, np.dtype(float)))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_sympy_knows_the_semirings():
    x, y = sympy.symbols("x y", real=True)
    assert to_sympy(sr.min_plus.add.expression) == sympy.Min(x, y)
    assert to_sympy(sr.min_plus.mul.expression) == x + y
    assert to_sympy(sr.min_plus.zero) == sympy.oo
    assert to_sympy(sr.max_plus.zero) == -sympy.oo
    assert to_sympy(sr.lukasiewicz.mul.expression) == sympy.Max(0, x + y - 1)
    assert to_sympy(sr.plus_times.given_star) == sympy.Piecewise((sympy.nan, sympy.Eq(x, 1)), (1 / (1 - x), True))
    assert to_sympy(parse("x * 0.1", ("x", "y"))) == x * sympy.Rational(0.1)  # the float, exactly


def test_bit_operations_are_functions_sympy_leaves_alone():
    form = to_sympy(parse("x & y | ~x ^ 5", ("x", "y")))
    assert str(form) == "BitOr(BitAnd(x, y), BitXor(BitNot(x), 5))" or str(form).startswith("Bit")
    assert {str(f.func) for f in form.atoms(sympy.Function)} == {"BitAnd", "BitOr", "BitXor", "BitNot"}


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x + y", "x + y"),
        ("y + x", "y + x"),
        ("x - (y - 1)", r"x - \left(y - 1\right)"),
        ("x * (y + 1)", r"x \, \left(y + 1\right)"),
        ("(x + y) * -2", r"\left(x + y\right) \, \left(-2\right)"),
        ("x / (y + 1)", r"\frac{x}{y + 1}"),
        ("-(x + y)", r"-\left(x + y\right)"),
        ("max(0, x + y - 1)", r"\max\left(0, x + y - 1\right)"),
        ("abs(-x)", r"\left|-x\right|"),
        ("sqrt(x) + floor(y)", r"\sqrt{x} + \left\lfloor y \right\rfloor"),
        ("log1p(exp(-y)) + x", r"\log\left(1 + e^{-y}\right) + x"),
        ("log1p(-exp(x))", r"\log\left(1 -e^{x}\right)"),
        ("expm1(x) * y", r"\left(e^{x} - 1\right) \, y"),
        ("where(x < 1, x, inf)", r"\begin{cases} x & x < 1 \\ \infty & \text{otherwise} \end{cases}"),
        ("where((x <= y) & (x != 1), 1, 2)",
         r"\begin{cases} 1 & \left(x \le y\right) \land \left(x \ne 1\right) \\ 2 & \text{otherwise} \end{cases}"),
        ("x & ~y", r"x \mathbin{\&} {\sim}y"),
        ("x + 0.6931471805599453", r"x + \log 2"),
        ("where(x < -0.6931471805599453, 1e-300, x)",
         r"\begin{cases} 1 \cdot 10^{-300} & x < -\log 2 \\ x & \text{otherwise} \end{cases}"),
    ],
)  # fmt: skip
def test_latex_keeps_the_order_and_the_parentheses(text, latex):
    found = to_latex(parse(text, ("x", "y")))
    bare = re.sub(r"\\left\((\S+ \\(le|ne) \S+)\\right\)", r"\1", latex)  # comparisons need none inside ∧
    assert found in (latex, bare)


@pytest.mark.parametrize("name", sr.CATALOGUE)
def test_latex_of_a_semiring_is_balanced_and_drawn_by_matplotlib(name):
    latex = semiring_latex(sr.CATALOGUE[name])
    for opening, closing in (("{", "}"), (r"\left", r"\right"), (r"\begin{cases}", r"\end{cases}")):
        spare = latex.count(r"\leftarrow") if opening == r"\left" else 0
        assert latex.count(opening) - spare == latex.count(closing)
    for part in (r"x \oplus y = ", r"x \otimes y = ", r"\bar{0} = ", r"\bar{1} = "):
        assert latex.count(part) == 1
    assert (r"x^* = " in latex) == (sr.CATALOGUE[name].given_star is not None)
    assert "nan" not in latex
    assert sr.CATALOGUE[name].latex() == latex
    assert sr.CATALOGUE[name]._repr_latex_() == f"${latex}$"


def test_latex_of_domains():
    assert r"x, y \in \left[0, 1\right]," in sr.lukasiewicz.latex()
    assert r"\left(0, \infty\right]" in sr.min_times.latex()
    assert r"\left\{\mathrm{false}, \mathrm{true}\right\}" in sr.boolean.latex()
    assert r"x, y \in \mathbb{Z}," in sr.xor_and.latex()
    bounded = sr.Semiring("b", "x | y", "x & y", 0, 15, domain=(0, 15))
    assert r"\left[0, 15\right] \cap \mathbb{Z}" in bounded.latex()
