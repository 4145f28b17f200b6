"""Floats as integers in the same order: all that matters about them where ⊕ and ⊗ only select."""

from __future__ import annotations

from typing import Any

__all__ = ["NOT_THE_SIGN", "flipped"]

NOT_THE_SIGN = 0x7FFFFFFF


def flipped(bits: Any) -> Any:
    """The bits (int32) of float32 as integers in the same order, or back: a number, or an array of any library.

    Of a negative number all bits but the sign are inverted. That is its own inverse.
    """
    return bits ^ ((bits >> 31) & NOT_THE_SIGN)
