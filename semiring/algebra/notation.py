r"""SymPy and LaTeX forms of expressions and semirings, for display and for symbolic computations.

SymPy simplifies while it builds an expression (min(x, x) becomes x), and has no order of evaluation. So no code is
generated from these forms, and no law is decided by them. `to_sympy` imports SymPy, and LaTeX does not need it.

>>> from semiring.algebra.catalogue import lukasiewicz
>>> print(to_latex(lukasiewicz.mul.expression))
\max\left(0, x + y - 1\right)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from semiring.algebra.expressions import Constant, Expression
from semiring.algebra.expressions.nan_conditions import is_nan

if TYPE_CHECKING:
    from semiring.algebra import Semiring

__all__ = ["semiring_latex", "to_latex", "to_sympy"]


def to_sympy(expression: Expression) -> Any:
    """Return the expression as a SymPy object over real symbols with the names of its variables.

    Floats become exact rational numbers, and `where` becomes ``Piecewise``. SymPy has no bit operations on values, so
    they become undefined functions ``BitAnd``, ``BitOr``, ``BitXor``, ``BitNot``.

    >>> from semiring.algebra.expressions import parse
    >>> to_sympy(parse("max(x + y, y + x)", ("x", "y")))
    x + y
    """
    import sympy

    functions: dict[str, Any] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "neg": lambda x: -x,
        "abs": sympy.Abs,
        "min": sympy.Min,
        "max": sympy.Max,
        "exp": sympy.exp,
        "expm1": lambda x: sympy.exp(x) - 1,
        "log": sympy.log,
        "log1p": lambda x: sympy.log(1 + x),
        "sqrt": sympy.sqrt,
        "floor": sympy.floor,
        "lt": sympy.Lt,
        "le": sympy.Le,
        "gt": sympy.Gt,
        "ge": sympy.Ge,
        "eq": sympy.Eq,
        "ne": sympy.Ne,
        "where": lambda truth, x, y: sympy.Piecewise((x, truth), (y, True)),
    }
    on_truths = {"and": sympy.And, "or": sympy.Or, "xor": sympy.Xor, "invert": sympy.Not}
    on_bits = {"and": "BitAnd", "or": "BitOr", "xor": "BitXor", "invert": "BitNot"}

    def leaf(node: Expression) -> Any:
        return sympy.Symbol(node.leaf, real=True) if node.op == "var" else _sympy_number(node.leaf)

    def operation(node: Expression, args: list[Any]) -> Any:
        if node.op in on_bits:
            return on_truths[node.op](*args) if node.kind == "truth" else sympy.Function(on_bits[node.op])(*args)
        return functions[node.op](*args)

    return expression.fold(leaf, operation)


def _sympy_number(value: Any) -> Any:
    """Return a constant as an exact SymPy number."""
    import sympy

    if isinstance(value, float) and not math.isfinite(value):
        return sympy.nan if value != value else sympy.oo if value > 0 else -sympy.oo
    exact = Fraction(value)
    return sympy.Rational(exact.numerator, exact.denominator)


_INFIX_FORMS = {
    "add": (r"{} + {}", 60),
    "sub": (r"{} - {}", 60),
    "mul": (r"{} \, {}", 70),
    "and": (r"{} \mathbin{{\&}} {}", 50),
    "xor": (r"{} \oplus_2 {}", 45),
    "or": (r"{} \mathbin{{|}} {}", 40),
    "lt": (r"{} < {}", 30),
    "le": (r"{} \le {}", 30),
    "gt": (r"{} > {}", 30),
    "ge": (r"{} \ge {}", 30),
    "eq": (r"{} = {}", 30),
    "ne": (r"{} \ne {}", 30),
}
_LOGICAL_FORMS = {"and": (r"{} \land {}", 20), "xor": (r"{} \mathbin{{\veebar}} {}", 15), "or": (r"{} \lor {}", 10)}
_ENCLOSING_FORMS = {
    "div": r"\frac{{{}}}{{{}}}",
    "abs": r"\left|{}\right|",
    "min": r"\min\left({}, {}\right)",
    "max": r"\max\left({}, {}\right)",
    "exp": r"e^{{{}}}",
    "expm1": r"\left(e^{{{}}} - 1\right)",
    "log": r"\log\left({}\right)",
    "log1p": r"\log\left(1 + {}\right)",
    "sqrt": r"\sqrt{{{}}}",
    "floor": r"\left\lfloor {} \right\rfloor",
}
_ATOM_PRECEDENCE = 100


def to_latex(expression: Expression) -> str:
    """Return the expression as LaTeX, in the order in which it is written. The function does not need SymPy."""
    text: str = expression.fold(lambda leaf: _leaf_latex(leaf.leaf), _operation_latex)[0]
    return text


def _leaf_latex(leaf: Constant | str | None) -> tuple[str, int]:
    """Return the LaTeX and the precedence of a variable or a constant."""
    if isinstance(leaf, bool):
        return (r"\mathrm{true}" if leaf else r"\mathrm{false}"), _ATOM_PRECEDENCE
    if isinstance(leaf, int | float):
        if abs(leaf) == math.log(2):
            return (r"\log 2", 75) if leaf > 0 else (r"-\log 2", 35)
        # Precedence 35 puts a negative number in parentheses, except beside a comparison.
        return _number_latex(leaf), 35 if leaf < 0 else _ATOM_PRECEDENCE
    return str(leaf), _ATOM_PRECEDENCE


def _number_latex(value: Constant) -> str:
    if value != value:
        return r"\text{undefined}"
    if math.isinf(value):
        return r"\infty" if value > 0 else r"-\infty"
    mantissa, _, exponent = f"{value:.12g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _operation_latex(node: Expression, args: list[tuple[str, int]]) -> tuple[str, int]:
    """Return the LaTeX and the precedence of an operation, from those of its arguments, ``args``."""
    texts = [text for text, _ in args]
    if node.op == "where":
        truth, chosen, other = texts
        return rf"\begin{{cases}} {chosen} & {truth} \\ {other} & \text{{otherwise}} \end{{cases}}", 65
    if node.op == "log1p" and texts[0].startswith("-"):
        return rf"\log\left(1 {texts[0]}\right)", _ATOM_PRECEDENCE
    if node.op in _ENCLOSING_FORMS:
        return _ENCLOSING_FORMS[node.op].format(*texts), _ATOM_PRECEDENCE
    if node.op in ("neg", "invert"):
        sign = "-" if node.op == "neg" else r"\lnot " if node.kind == "truth" else r"{\sim}"
        return f"{sign}{_parenthesize(args[0], 80)}", 62 if node.op == "neg" else 80
    form, precedence = (
        _LOGICAL_FORMS[node.op] if node.kind == "truth" and node.op in _LOGICAL_FORMS else _INFIX_FORMS[node.op]
    )
    return form.format(_parenthesize(args[0], precedence), _parenthesize(args[1], precedence + 1)), precedence


def _parenthesize(arg: tuple[str, int], precedence: int) -> str:
    """Return the text of an argument, in parentheses if its own precedence is below ``precedence``."""
    text, inner_precedence = arg
    return rf"\left({text}\right)" if inner_precedence < precedence else text


def semiring_latex(semiring: Semiring) -> str:
    r"""Return the definition of a semiring: domain, ⊕, ⊗, zero, one and star, without the dollars."""
    parts = [
        rf"x, y \in {_domain_latex(semiring)}",
        rf"x \oplus y = {to_latex(semiring.add.expression)}",
        rf"x \otimes y = {to_latex(semiring.mul.expression)}",
        rf"\bar{{0}} = {to_latex(semiring.zero)}",
        rf"\bar{{1}} = {to_latex(semiring.one)}",
    ]
    star = semiring.given_star
    if star is not None and not is_nan(star):
        parts.append(rf"x^* = {to_latex(star)}")
    return r",\quad ".join(parts)


def _domain_latex(semiring: Semiring) -> str:
    domain = semiring.domain
    if semiring.dtypes == ("bool",):
        return r"\left\{\mathrm{false}, \mathrm{true}\right\}"
    integral = not any(name.startswith("float") for name in semiring.dtypes)
    if integral and domain.everything:
        return r"\mathbb{Z}"
    left, right = "(" if domain.lower_open else "[", ")" if domain.upper_open else "]"
    return rf"\left{left}{_number_latex(domain.lower)}, {_number_latex(domain.upper)}\right{right}" + (
        r" \cap \mathbb{Z}" if integral else ""
    )
