"""Words of 32 bits, one bit after the other."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.graphs.compiled import kernel

__all__ = ["lowest"]

_NUMBERS = np.zeros(32, np.int64)  # of the bit that a product with a de Bruijn sequence has shifted to the top
for _bit in range(32):
    _NUMBERS[(0x077CB531 << _bit & 0xFFFFFFFF) >> 27] = _bit


@kernel
def lowest(word):
    """The number of the lowest bit of a word, uint32, that is not 0."""
    bit = word & (~word + np.uint32(1))
    return _NUMBERS[np.uint32(bit * np.uint32(0x077CB531)) >> np.uint32(27)]
