"""Operations on words of 32 bits."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compilation import kernel

__all__ = ["lowest_bit"]

_NUMBERS = np.zeros(32, np.int64)  # bit numbers, by the top bits of a product with a de Bruijn sequence
for _bit in range(32):
    _NUMBERS[(0x077CB531 << _bit & 0xFFFFFFFF) >> 27] = _bit


@kernel
def lowest_bit(word):
    """Return the number of the lowest bit that is set in a word, uint32, which is not 0."""
    bit = word & (~word + np.uint32(1))
    return _NUMBERS[np.uint32(bit * np.uint32(0x077CB531)) >> np.uint32(27)]
