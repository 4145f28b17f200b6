"""Prove laws of bit operations for every width at once, because each bit of a result depends on one position.

Each variable is the eight-row column of a truth table, and a constant contributes one of its bits at every position. A
law that holds for each combination of constant bits that occurs holds for every word of every width.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from semiring.algebra.expressions import Expression
from semiring.algebra.expressions.nan_conditions import is_nan
from semiring.algebra.verify.polynomials import UndecidedError
from semiring.algebra.verify.report import Verdict
from semiring.algebra.verify.statements import Law

if TYPE_CHECKING:
    from semiring.algebra import Semiring

__all__ = ["acts_on_bits", "prove_bits"]

_COLUMNS = (0b10101010, 0b11001100, 0b11110000)
_FULL = 0xFF
_BIT_OPERATIONS = frozenset({"and", "or", "xor", "invert"})


def acts_on_bits(*expressions: Expression) -> bool:
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


def prove_bits(semiring: Semiring, law: Law, star: Expression | None) -> Verdict:
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
