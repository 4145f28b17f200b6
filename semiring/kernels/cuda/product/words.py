"""How the elements of a product lie in the registers of a kernel: as words of one, two or thirty-two elements.

Plain data; what a kernel does with words is in `registers`.
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
    """NumPy's dtype of a name; bfloat16 is registered by the package ml_dtypes."""
    if name == "bfloat16":
        import_module("ml_dtypes")
    return np.dtype(name)


@dataclass(frozen=True)
class WordFormat:
    """One element a word, two (int16, float16, bfloat16), or 32 truth values.

    A word runs along the columns of B and C. An element of A meets whole words, so where there are two or 32 it is
    *splatted*: repeated in every lane while it is staged. One element narrower than a word is *wide*: it lies in memory
    as a float32 or an int32, and is computed on in its own type.
    """

    dtype: str  # what the expressions compute on; int32 for packed truth values, all of whose operations are bitwise
    lanes: int = 1

    @property
    def element_dtype(self) -> np.dtype[Any]:
        """The dtype that the expressions compute on."""
        return numpy_dtype(self.dtype)

    @property
    def floating(self) -> bool:
        return "float" in self.dtype

    @property
    def bits(self) -> bool:
        """Return whether a word holds 32 truth values."""
        return self.lanes == 32

    @property
    def wide(self) -> bool:
        """Whether a word holds one element narrower than itself."""
        return self.lanes == 1 and self.element_dtype.itemsize < 4

    @property
    def numpy_word(self) -> np.dtype[Any]:
        """The dtype of a word in memory."""
        if self.wide:
            return np.dtype(np.float32 if self.floating else np.int32)
        return np.dtype(np.int32 if self.lanes > 1 else self.dtype)

    @property
    def word_bytes(self) -> int:
        return self.numpy_word.itemsize

    def constant(self, value: Any) -> int | float:
        """A word all of whose lanes are ``value``, as a Python number."""
        if self.bits:
            return -1 if value else 0
        if self.lanes == 2:
            pattern = int(np.asarray(value, self.element_dtype).view(np.uint16))
            return int(np.asarray(pattern << 16 | pattern, np.uint32).view(np.int32))
        number: int | float = self.numpy_word.type(self.element_dtype.type(value)).item()
        return number
