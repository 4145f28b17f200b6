"""Map floats to integers in the same order, which suffices for semirings whose ⊕ and ⊗ only select."""

from __future__ import annotations

from typing import Any

__all__ = ["MAGNITUDE_BITS", "flip_negative_bits"]

MAGNITUDE_BITS = 0x7FFFFFFF


def flip_negative_bits(bits: Any) -> Any:
    """Return the bits (int32) of float32 as integers in the same order, or back: a number, or an array of any library.

    In a negative number, all bits but the sign are inverted. The function is its own inverse.
    """
    return bits ^ ((bits >> 31) & MAGNITUDE_BITS)
