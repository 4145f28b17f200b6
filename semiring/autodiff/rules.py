"""Select the gradient rule of a semiring, differentiate its expressions, and convert semirings to texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache, wraps
from typing import Any, Literal, TypeAlias, TypeVar, cast

from semiring.algebra import Semiring
from semiring.algebra.catalogue import CATALOGUE, as_semiring, log_plus, plus_times
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.tree import constant
from semiring.errors import AlgebraError

__all__ = ["Rule", "derivative", "factors", "key_of", "refuse_explain", "rule_of", "semiring_of"]

Rule: TypeAlias = Literal["selective", "log_plus", "plus_times"]
Function = TypeVar("Function", bound=Callable[..., Any])


def refuse_explain(function: Function) -> Function:
    """Decorate a differentiable function so that ``explain=`` raises `TypeError`, which names the call that explains.

    Compilers trace these functions, and a trace has no measured choices to explain.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if "explain" in options:
            name = function.__name__
            raise TypeError(
                f"{function.__module__}.{name} has no explain=, because compilers trace it: leave explain= out, and "
                f"call semiring.{name}(..., explain=True) for arrays without gradients"
            )
        return function(*arguments, **options)

    return cast("Function", call)


@lru_cache(maxsize=256)
def rule_of(semiring: Semiring) -> Rule:
    """Return the rule by which products and closures are differentiated.

    Raises `AlgebraError` if there is none: ⊕ is neither selective nor that of log_plus or plus_times, or ⊗ acts on
    bits.
    """
    if "float64" not in semiring.dtypes and "float32" not in semiring.dtypes:
        raise AlgebraError(f"{semiring.name} has no gradient: it is defined on {', '.join(semiring.dtypes)} only")
    for rule, example in (("log_plus", log_plus), ("plus_times", plus_times)):
        operations = (example.add.expression, example.mul.expression, example.zero)
        if (semiring.add.expression, semiring.mul.expression, semiring.zero) == operations:
            return rule  # type: ignore[return-value]  # the loop is over the names of rules
    if not semiring.selective:
        raise AlgebraError(
            f"{semiring.name} has no gradient: its ⊕ is neither selective nor that of log_plus or plus_times "
            "(detach the operands to compute without one)"
        )
    factors(semiring)
    return "selective"


@lru_cache(maxsize=256)
def factors(semiring: Semiring) -> tuple[Expression, Expression]:
    """Return the derivatives of x ⊗ y by x and by y."""
    product = semiring.mul.expression
    return derivative(product, "x"), derivative(product, "y")


_custom_semirings: dict[str, Semiring] = {}


def key_of(semiring: Semiring | str | None) -> str:
    """Return a text for the semiring, valid in every process: its name in the catalogue, or its definition.

    Raises `UnknownNameError` as `as_semiring`.
    """
    semiring = as_semiring(semiring)
    if CATALOGUE.get(semiring.name) == semiring:
        return semiring.name
    add, mul, zero, one, star, domain, contract, dtypes = semiring.definition
    key = json.dumps([semiring.name, add, mul, zero, one, star, str(domain), contract, dtypes])
    _custom_semirings.setdefault(key, semiring)
    return key


def semiring_of(key: str) -> Semiring:
    """Return the semiring of a text that `key_of` returned."""
    if key in CATALOGUE:
        return CATALOGUE[key]
    if key not in _custom_semirings:
        name, add, mul, zero, one, star, domain, contract, dtypes = json.loads(key)
        _custom_semirings[key] = Semiring(name, add, mul, zero, one, star, domain, contract=contract, dtypes=dtypes)
    return _custom_semirings[key]


_ZERO, _ONE = constant(0), constant(1)


@cache
def derivative(expression: Expression, variable: str) -> Expression:
    """Return the derivative ∂expression/∂variable as an expression.

    If a min or a max ties, the derivative is that of its first argument. The derivative of ``where`` is that of the
    selected side. It is 0 for abs at 0, and for floor everywhere. Raises `AlgebraError` for bit operations, which have
    no derivative.

    >>> from semiring.algebra.expressions import parse
    >>> derivative(parse("max(x, y) * y", ("x", "y")), "x").text
    'where(y > x, 0, 1) * y'
    """
    if expression.op == "var":
        return _ONE if expression.leaf == variable else _ZERO
    if variable not in expression.variables:
        return _ZERO
    args = expression.args
    if expression.op == "where":
        return _select(args[0], *(derivative(arg, variable) for arg in args[1:]))
    inner = [derivative(arg, variable) for arg in args]
    if expression.op in ("min", "max"):
        other = Expression("lt" if expression.op == "min" else "gt", (args[1], args[0]))
        return _select(other, inner[1], inner[0])
    if len(args) == 2:
        return _differentiate_binary(expression, *args, *inner)
    return _multiply(_differentiate_unary(expression, args[0]), inner[0])


def _differentiate_binary(
    expression: Expression, u: Expression, v: Expression, du: Expression, dv: Expression
) -> Expression:
    """Return the derivative of an operation of u and v, whose derivatives are du and dv. Raises `AlgebraError`."""
    op = expression.op
    if op == "add":
        return _add(du, dv)
    if op == "sub":
        return _add(du, _negate(dv))
    if op == "mul":
        return _add(_multiply(du, v), _multiply(u, dv))
    if op == "div":
        rest = _ZERO if dv == _ZERO else Expression("div", (_multiply(expression, dv), v))
        return _add(_ZERO if du == _ZERO else Expression("div", (du, v)), _negate(rest))
    raise AlgebraError(f"{expression} has no derivative: {op} acts on bits")


def _differentiate_unary(expression: Expression, u: Expression) -> Expression:
    """Return the derivative of a function of one argument by its argument."""
    op = expression.op
    if op == "neg":
        return constant(-1)
    if op == "abs":
        return _select(Expression("lt", (u, _ZERO)), constant(-1), _select(Expression("gt", (u, _ZERO)), _ONE, _ZERO))
    if op == "exp":
        return expression
    if op == "expm1":
        return Expression("exp", (u,))
    if op == "log":
        return Expression("div", (_ONE, u))
    if op == "log1p":
        return Expression("div", (_ONE, Expression("add", (_ONE, u))))
    if op == "sqrt":
        return Expression("div", (constant(0.5), expression))
    if op == "floor":
        return _ZERO
    raise AlgebraError(f"{expression} has no derivative: {op} acts on bits")


# Sums and products with 0 and 1 are simplified, because the evaluation of a constant expression is free.


def _add(u: Expression, v: Expression) -> Expression:
    if _ZERO in (u, v):
        return v if u == _ZERO else u
    return Expression("add", (u, v))


def _multiply(u: Expression, v: Expression) -> Expression:
    """Return the product u · v, simplified if a factor is 0 or 1."""
    if _ZERO in (u, v):
        return _ZERO
    if _ONE in (u, v):
        return v if u == _ONE else u
    return Expression("mul", (u, v))


def _negate(u: Expression) -> Expression:
    return u if u == _ZERO else Expression("neg", (u,))


def _select(truth: Expression, u: Expression, v: Expression) -> Expression:
    return u if u == v else Expression("where", (truth, u, v))
