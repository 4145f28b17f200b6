"""Define the computation that a plan requests from a kernel, and its words, without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.arrays.bits import to_bitwise
from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.product.layouts import Placement, drop_neutral, is_nonnegative, selects_bits
from semiring.kernels.cuda.product.specification import Product
from semiring.kernels.cuda.product.tiles import Tile, parts_for, tile_for
from semiring.kernels.cuda.product.words import WordFormat
from semiring.kernels.definition import define

__all__ = ["ProductCall", "call_for", "format_of"]

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})


@dataclass(frozen=True)
class ProductCall:
    """The operations ⊕ and ⊗ as the kernel computes them, and their words."""

    add: Expression
    mul: Expression
    zero: Any
    words: WordFormat
    accumulate: bool
    nonnegative: bool  # whether no entry of the operands is negative
    contract: bool  # whether x·y + z may round once
    record: bool = False  # whether the kernel records runs
    upper: bool = False  # whether tiles below the diagonal of C may be skipped

    @property
    def transposed(self) -> ProductCall:
        """Return the call for Cᵀ ← Bᵀ ⊗' Aᵀ, with the operands of ⊗ exchanged unless ⊗ commutes."""
        if self.mul.op in _COMMUTATIVE and set(self.mul.args) == {_X, _Y}:
            return self
        return replace(self, mul=self.mul.substitute({"x": _Y, "y": _X}))

    @property
    def nodes(self) -> int:
        """Return the number of nodes of the expressions of ⊕ and ⊗ together."""
        return self.add.size + self.mul.size

    def tile(self, C: Placement) -> Tile:
        """Return the tile for C, in words."""
        return tile_for(self.words, self.nodes, *C.shape, matrices=C.count, record=self.record)

    def parts(self, C: Placement, inner: int) -> tuple[int, int]:
        """Return the number of parts of k, and the size of each but the last."""
        if self.record or C.count > 1:
            return 1, inner
        return parts_for(self.words, self.nodes, *C.shape, inner)

    def product(self, A: Placement, B: Placement, C: Placement) -> Product:
        """Return the kernel for B and C in words, and A in elements."""
        return Product(
            self.add.text,
            self.mul.text,
            self.zero.item() if isinstance(self.zero, np.generic) else self.zero,
            self.words,
            self.accumulate,
            copy_a=A.transposed.copy if self.words.lanes == 1 else A.splat,
            copy_b=B.copy,
            copy_c="vector" if C.copy == "vector" else "word",
            ordered_bits=self.nonnegative and self.words.dtype == "float32" and is_nonnegative(self.mul, self.add),
            contract=self.contract,
            record=self.record,
            upper=self.upper,
        )


def format_of(plan: KernelPlan) -> WordFormat:
    """Return the words of a product without records of runs."""
    dtype = plan.dtype
    if plan.storage == "bits":
        return WordFormat("int32", 32)
    if dtype == np.uint8:
        semiring = plan.semiring
        selects = selects_bits(semiring.add.expression, semiring.mul.expression)
        return WordFormat("int16", 2) if selects else WordFormat("uint8")
    return WordFormat(dtype.name, 2 if dtype.itemsize == 2 else 1)


def call_for(plan: KernelPlan, words: WordFormat, *, accumulate: bool, record: bool = False) -> ProductCall:
    """Return the computation of a kernel for a plan on words of that format."""
    definition = define(plan)
    if not plan.semiring.annihilates and not definition.may_pad:
        raise AlgebraError(
            f"on a GPU, a product needs 0̄ ⊗ 0̄ = 0̄, which fails for {plan.semiring.name} and its zero "
            f"{plan.semiring.zero}: multiply arrays in the memory of the host, as by A.get()"
        )
    add, mul = definition.add, definition.mul
    if words.has_bits:
        add, mul = to_bitwise(add), to_bitwise(mul)
    else:
        mul = drop_neutral(add, mul, plan.zero)
    return ProductCall(add, mul, plan.zero, words, accumulate, plan.facts.nonnegative, definition.contract, record)
