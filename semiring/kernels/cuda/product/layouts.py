"""Describe the layout of an operand, and how a kernel can stage it, in plain numbers that need no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from semiring.arrays.device import alignment_error

__all__ = ["LARGEST", "Placement", "drop_neutral", "is_nonnegative", "pieces", "selects_bits"]

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


_SELECTIONS = frozenset({"min", "max", "and", "or", "xor"})


def selects_bits(*expressions: Any) -> bool:
    """Return whether expressions only select bits, and so are equal on bytes and on 16-bit integers."""
    return all(expression.operations <= _SELECTIONS and not _constants(expression) for expression in expressions)


def _constants(expression: Any) -> bool:
    return any(node.op == "const" for node in expression.walk())
