"""The definition of a compiled kernel: a semiring on a dtype under a plan, reduced to expressions and constants."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.nan_conditions import is_nan
from semiring.algebra.expressions.tree import float_limits, is_floating
from semiring.kernels.contract import KernelPlan

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")


@dataclass(frozen=True)
class KernelDefinition:
    """The expressions and constants that the code of a kernel depends on, besides the machine.

    ``key`` identifies the definition across processes.
    """

    dtype: np.dtype[Any]
    add: Expression
    mul: Expression  # 0̄ ⊗ x is neutral under ⊕ here, by nature or by an explicit `where`, if the semiring annihilates
    zero: Expression  # constants of the dtype
    one: Expression
    star: Expression | None
    divergence: Expression | None
    contract: bool
    idempotent: bool

    @cached_property
    def key(self) -> str:
        expressions = (self.add, self.mul, self.zero, self.one, self.star, self.divergence)
        texts = [None if expression is None else expression.text for expression in expressions]
        return json.dumps([self.dtype.name, *texts, self.contract, self.idempotent])

    @cached_property
    def may_pad(self) -> bool:
        """Whether 0̄ ⊗ 0̄ = 0̄, so that both operands of a product may be padded with 0̄ along k."""
        zero = self.dtype.type(self.zero.leaf)
        with np.errstate(all="ignore"):
            return bool(self.mul.evaluate({"x": zero, "y": zero}, self.dtype) == zero)

    @property
    def zero_bits(self) -> int:
        """The bits of 0̄ as an unsigned integer of the same size."""
        return _bits(self.zero, self.dtype)

    @property
    def one_bits(self) -> int:
        """The bits of 1̄ as an unsigned integer of the same size."""
        return _bits(self.one, self.dtype)


def _bits(element: Expression, dtype: np.dtype[Any]) -> int:
    value = np.asarray(element.leaf, dtype)
    return int(value.view(f"u{dtype.itemsize}"))


def define(plan: KernelPlan, *, closing: bool = False) -> KernelDefinition:
    """Return the definition of a plan for products, or for closures, which add a star and whether ⊕ is idempotent."""
    separate = plan.facts.separate or (plan.facts.nonnegative and plan.semiring.tropical == "min")
    return _define(plan.semiring, plan.dtype, _Scalar(plan.zero), _Scalar(plan.one), separate, closing)


class _Scalar:
    """A NumPy scalar hashed by its bits: 0.0 and -0.0 differ."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.identity = (np.asarray(value).dtype.str, np.asarray(value).tobytes())

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Scalar) and self.identity == other.identity


@lru_cache(maxsize=1024)
def _define(
    semiring: Semiring, dtype: np.dtype[Any], zero: _Scalar, one: _Scalar, separate: bool, closing: bool
) -> KernelDefinition:
    zero_value, one_value = dtype.type(zero.value), dtype.type(one.value)
    zero_constant = Expression("const", (), zero_value.item())
    mul = semiring.mul.expression
    if semiring.annihilates and not _annihilates(semiring, dtype, zero_value, separate):
        absorbed = Expression("or", (Expression("eq", (_X, zero_constant)), Expression("eq", (_Y, zero_constant))))
        mul = Expression("where", (absorbed, zero_constant, mul))
    return KernelDefinition(
        dtype,
        semiring.add.expression,
        mul,
        zero_constant,
        Expression("const", (), one_value.item()),
        semiring.star_expression if closing else None,
        semiring.divergence if closing else None,
        semiring.contract,
        semiring.idempotent if closing else False,
    )


def _annihilates(semiring: Semiring, dtype: np.dtype[Any], zero: Any, separate: bool) -> bool:
    """Return whether c ⊕ (0̄ ⊗ x) = c for every c and x that occur, without a `where` in ⊗.

    Integers of min-plus have a sentinel for 0̄. For x ≥ 0, sentinel + x loses every minimum against C ≤ sentinel. For x
    < 0 the sum could be mistaken for a path, unless the caller separates the two (``separate``). All other cases are
    tested on corner values of the domain.
    """
    if semiring.tropical and dtype.kind == "i":
        return separate
    x = _corner_values(semiring, dtype, zero)
    with np.errstate(all="ignore"):
        for left, right in ((zero, x), (x, zero)):
            product = semiring.mul.expression.evaluate({"x": left, "y": right}, dtype)
            c = np.repeat(x, x.size)
            total = semiring.add.expression.evaluate(
                {"x": c, "y": np.tile(np.broadcast_to(product, x.shape), x.size)}, dtype
            )
            if not bool(np.all(np.broadcast_to(total, c.shape) == c)):
                return False
    return True


def _neighbouring_constants(*expressions: Expression) -> list[float]:
    """Return the constants of expressions, these ± 1, and the values half-way between them."""
    leaves = {node.leaf for expression in expressions for node in expression.walk() if node.op == "const"}
    constants = sorted(float(leaf) for leaf in leaves if isinstance(leaf, int | float) and np.isfinite(leaf))
    between = [(low + high) / 2 for low, high in pairwise(constants)]
    return [*constants, *between, *(value + step for value in constants for step in (-1, 1))]


def _corner_values(semiring: Semiring, dtype: np.dtype[Any], zero: Any) -> Any:
    """Return the ends, the special values and some ordinary values of the domain that the dtype holds.

    If ⊕ or ⊗ is defined piece by piece, its constants and the values around and between them are added.
    """
    if dtype.kind == "b":
        return np.array([False, True])
    constants = _neighbouring_constants(semiring.add.expression, semiring.mul.expression)
    ordinary = [*(0, 1, -1, 2, -2, 3, 7, -11, 100, -100), *constants]
    domain = semiring.domain
    ends = [end for end in (domain.lower, domain.upper) if np.isfinite(end)]
    if is_floating(dtype):
        limits = float_limits(dtype)
        special = [limits.max, limits.min, limits.tiny, -limits.tiny, limits.eps, 1 - limits.eps, np.inf, -np.inf]
        values = [*ordinary, *special, *ends, 0.5, -0.5, 0.1, 0.7, 1e-3, 3.14159, 1e6, -1e6]
        with np.errstate(over="ignore"):
            candidates = np.array(values, dtype)
    else:
        bounds = np.iinfo(dtype)
        special = [bounds.max, bounds.min, bounds.max - 1, bounds.min + 1, bounds.max // 2]
        candidates = np.array(
            [value for value in (*ordinary, *special, *ends) if bounds.min <= value <= bounds.max], dtype
        )
    corners = candidates[domain.contains(candidates)]
    return np.append(corners, dtype.type(zero))


@lru_cache(maxsize=256)
def has_unit_star(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether every star is 1̄ and 1̄ has one, so that rows and columns of pivots need no product."""
    star, divergence, one = semiring.given_star, semiring.divergence, semiring.one_for(dtype)
    if divergence is not None and divergence.evaluate({"x": one}, dtype):
        return False
    if star is None:  # here 1 ⊕ a = 1
        return True
    if star.op == "where":
        defined = [branch for branch in star.args[1:] if not is_nan(branch)]
        star = defined[0] if len(defined) == 1 else star
    return not star.variables and bool(star.evaluate({}, dtype) == one)


def absorbing_product(definition: KernelDefinition) -> Expression:
    """Return ⊗ whose result is 0̄ if a factor is 0̄."""
    is_zero = Expression("or", (Expression("eq", (_X, definition.zero)), Expression("eq", (_Y, definition.zero))))
    return Expression("where", (is_zero, definition.zero, definition.mul))
