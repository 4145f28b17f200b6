"""Define the elements of a product in the registers of a kernel: words of one, two or 32 elements.

The module has plain data. `registers` has the operations of kernels on words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["WordFormat", "numpy_dtype"]


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
