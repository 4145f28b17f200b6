"""Define the inputs of a compiled kernel and of its launches, as plain data: words, operations and parameters.

A word is what a register of a kernel holds: one, two or 32 elements. `lower` has the operations of kernels on words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from semiring.algebra.expressions import Expression, parse

#: The threads of a block in kernels with one thread for each entry.
THREADS = 256

#: The numbers of 8-byte and of 4-byte parameters of a product. The 8-byte parameters are the addresses of A, B, C and
#: P, the (row, column, batch) strides of A, B and C, and the (row, column) strides of P. The 4-byte parameters are m,
#: n, k, the inner size of one batch and its step, and the tiles of a run.
PARAMETERS = 15, 6
#: The same of the fold of partial results: the addresses of C and the parts, and the (row, column) strides of C; then
#: m, n and the number of parts.
FOLD_PARAMETERS = 4, 3
#: The same of the search for witnesses: the addresses of A, B, C, R and W, their (row, column) strides, and k0; then m,
#: n and k.
SEARCH_PARAMETERS = 16, 3


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of a name. The package ml_dtypes registers bfloat16."""
    if name == "bfloat16":
        import_module("ml_dtypes")
    return np.dtype(name)


@dataclass(frozen=True)
class WordFormat:
    """The format of a word: one element, two elements (int16, float16, bfloat16), or 32 truth values.

    A word runs along the columns of B and C. An element of A is combined with whole words. So with two or 32 lanes it
    is *splatted*: repeated in every lane while it is staged. A single element narrower than a word is *wide*: memory
    holds it as a float32 or an int32, and the expressions compute on its own type.
    """

    dtype: str  # the dtype of the expressions; int32 for packed truth values, on which all operations are bitwise
    lanes: int = 1

    @property
    def element_dtype(self) -> np.dtype[Any]:
        """Return the dtype on which the expressions compute."""
        return numpy_dtype(self.dtype)

    @property
    def is_floating(self) -> bool:
        return "float" in self.dtype

    @property
    def has_bits(self) -> bool:
        """Return whether a word holds 32 truth values."""
        return self.lanes == 32

    @property
    def is_wide(self) -> bool:
        """Return whether a word holds a single element that is narrower than the word."""
        return self.lanes == 1 and self.element_dtype.itemsize < 4

    @property
    def numpy_word(self) -> np.dtype[Any]:
        """Return the dtype of a word in memory."""
        if self.is_wide:
            return np.dtype(np.float32 if self.is_floating else np.int32)
        return np.dtype(np.int32 if self.lanes > 1 else self.dtype)

    @property
    def word_bytes(self) -> int:
        return self.numpy_word.itemsize

    def constant(self, value: Any) -> int | float:
        """Return a word with ``value`` in every lane, as a Python number."""
        if self.has_bits:
            return -1 if value else 0
        if self.lanes == 2:
            pattern = int(np.asarray(value, self.element_dtype).view(np.uint16))
            return int(np.asarray(pattern << 16 | pattern, np.uint32).view(np.int32))
        number: int | float = self.numpy_word.type(self.element_dtype.type(value)).item()
        return number


@dataclass(frozen=True)
class Product:
    """The specification of a compiled product besides its tile, which is the cache key.

    ``copy_a`` and ``copy_b`` name the copy of an operand. ``copy_c`` is ``"vector"`` or ``"word"``.

    - ``"vector"``: rows (columns) run fastest in memory, and are copied 16 bytes at a time.
    - ``"word"``: single words are copied, and k runs fastest.
    - ``"any"``: single words of any strides are copied.
    - ``"splat"``, for A only: elements of any strides are widened in registers.
    - ``"pieces"``, for A only: as ``"splat"``, but elements are read by 16 bytes along k.
    """

    add: str
    mul: str
    zero: int | float
    words: WordFormat
    accumulate: bool  # whether the kernel computes C ← C ⊕ A ⊗ B, not C ← A ⊗ B
    copy_a: str
    copy_b: str
    copy_c: str
    #: Whether float32 has no sign bits, and is compared as integers: one 3-input minimum for two pairs.
    ordered_bits: bool = False
    contract: bool = False  # whether x·y + z may round once
    record: bool = False  # whether P receives the last run of k in which an entry of C improved
    upper: bool = False  # whether the kernel skips the tiles of C below its diagonal

    @property
    def expressions(self) -> tuple[Expression, Expression]:
        """Return the expressions of ⊕ and ⊗."""
        return parse(self.add, ("x", "y")), parse(self.mul, ("x", "y"))


@dataclass(frozen=True)
class Fold:
    """The fold C ← (C ⊕) W₀ ⊕ W₁ ⊕ … of the partial results of a product whose k was split."""

    add: str
    words: WordFormat
    accumulate: bool


@dataclass(frozen=True)
class Search:
    """The search for witnesses: ⊗, the words, the length of a run, the size of a witness."""

    mul: str
    words: WordFormat
    run_length: int
    wide_witness: bool  # whether witnesses are int64, not int32
