"""Define the computation that a plan requests from a kernel, its words, and the layouts of operands.

All are plain numbers that need no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from semiring.algebra.expressions import Expression
from semiring.arrays.bits import to_bitwise
from semiring.arrays.device import alignment_error
from semiring.errors import AlgebraError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.product.specification import Product, WordFormat
from semiring.kernels.cuda.product.tiles import Tile, parts_for, tile_for
from semiring.kernels.definition import define

_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_SELECTIONS = frozenset({"min", "max", "and", "or", "xor"})

#: The most rows, columns and inner size of one launch, because kernels count each of them, and a little beyond, in 32
#: bits. Matrices may hold any number of elements.
LARGEST = 1 << 30


@dataclass(frozen=True)
class Placement:
    """A matrix or a stack of matrices in memory. Strides (of either sign) are in elements of ``itemsize`` bytes."""

    address: int  # modulo 16, on which the choice of copies depends
    shape: tuple[int, int]
    strides: tuple[int, int]
    itemsize: int
    count: int = 1  # the number of matrices
    step: int = 0  # the elements from one matrix to the next

    @classmethod
    def of(cls, array: Any) -> Placement:
        """Return the layout of a 2-D or 3-D CuPy array, or raise `DeviceError` if an element is not aligned."""
        size = array.itemsize
        if array.data.ptr % size or any(stride % size for stride in array.strides if stride):
            raise alignment_error("an operand", array.dtype)
        *leading, rows, columns = array.shape
        *steps, row, column = (stride // size for stride in array.strides)
        return cls(array.data.ptr % 16, (rows, columns), (row, column), size, *leading, *steps)

    @property
    def transposed(self) -> Placement:
        return replace(self, shape=self.shape[::-1], strides=self.strides[::-1])

    @property
    def as_pairs(self) -> Placement:
        """Return the layout in words of two elements: see `holds_pairs`."""
        row, _ = self.strides
        return replace(
            self,
            shape=(self.shape[0], self.shape[1] // 2),
            strides=(row // 2, 1),
            itemsize=2 * self.itemsize,
            step=self.step // 2,
        )

    @property
    def copy(self) -> str:
        """The copy of an operand (k, columns) into shared memory, by a name of `specification.Product`.

        ``"vector"``: columns run fastest, in whole and aligned 16 bytes. ``"word"``: k runs fastest. ``"any"``: any
        other layout.
        """
        width = 16 // self.itemsize
        slow, fast = self.strides
        aligned = slow % width == 0 and self.step % width == 0 and self.address % 16 == 0
        if fast == 1 and aligned and self.shape[1] % width == 0:
            return "vector"
        return "word" if slow == 1 else "any"

    @property
    def splat(self) -> str:
        """The copy of an operand (rows, k) of 16-bit elements or of packed truth values, which widens them.

        ``"pieces"``: k runs fastest, in whole and aligned 16 bytes. ``"splat"``: any other layout.
        """
        aligned = self.strides[0] % 8 == 0 and self.step % 8 == 0 and self.address % 16 == 0
        return (
            "pieces" if self.itemsize == 2 and self.strides[1] == 1 and aligned and self.shape[1] % 8 == 0 else "splat"
        )

    @property
    def holds_pairs(self) -> bool:
        """Return whether the rows are whole, aligned words of two elements."""
        slow, fast = self.strides
        even = slow % 2 == 0 and self.step % 2 == 0 and self.shape[1] % 2 == 0
        return fast == 1 and even and self.address % (2 * self.itemsize) == 0

    @property
    def is_column_major(self) -> bool:
        """Return whether C is better computed as its transpose, Cᵀ ← Bᵀ ⊗' Aᵀ, where x ⊗' y is y ⊗ x."""
        return self.shape[0] > 1 and abs(self.strides[1]) > abs(self.strides[0])


def pieces(rows: int, columns: int, inner: int, largest: int = LARGEST) -> Iterator[tuple[slice, slice, slice]]:
    """Yield ranges of rows, columns and k that cover a product, each at most ``largest``. k is in increasing order."""
    ranges = ([slice(start, start + largest) for start in range(0, size, largest)] for size in (rows, columns, inner))
    return product(*ranges)


# ------------------------------------------------------------------------------------------ operations


def is_nonnegative(mul: Any, add: Any) -> bool:
    """Return whether ⊗ of operands without a sign bit has no sign bit, so that ⊕ may compare floats as integers.

    A NaN sorts last as an integer, and ``min`` drops it. So with ``min`` ⊗ may be a product, although 0 · ∞ is NaN.
    With ``max`` it may not.
    """
    products = {"mul"} if add.op == "min" else set()

    def leaf(node: Any) -> bool:
        return node.op == "var" or (node.leaf == node.leaf and str(node.leaf)[0] != "-")

    def node(expression: Any, clear: list[bool]) -> bool:
        if expression.op == "max":
            return any(clear)
        return expression.op in {"add", "min", *products} and all(clear)

    return bool(add.op in ("min", "max") and all(arg.op == "var" for arg in add.args) and mul.fold(leaf, node))


def drop_neutral(add: Any, mul: Any, zero: Any) -> Any:
    """Return ⊗ without an operand 0̄ of its outer ⊕, which changes no sum: c ⊕ (0̄ ⊕ t) = c ⊕ t.

    Łukasiewicz's max(0, x + y - 1) becomes x + y - 1.
    """
    if add.op in ("min", "max") and mul.op == add.op and all(arg.op == "var" for arg in add.args):
        for neutral, rest in (mul.args, mul.args[::-1]):
            if neutral.op == "const" and neutral.leaf == zero and rest.args:
                return rest
    return mul


def selects_bits(*expressions: Any) -> bool:
    """Return whether expressions only select bits, and so are equal on bytes and on 16-bit integers."""
    nodes = [node for expression in expressions for node in expression.walk()]
    return all(node.op in _SELECTIONS or node.op == "var" for node in nodes)


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
