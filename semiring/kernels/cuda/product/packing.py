"""Truth values on the device: packed 32 to a word along the rows as in `semiring.arrays.bits`, and back."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

__all__ = ["empty_words", "pack", "unpack"]


def empty_words(shape: tuple[int, ...]) -> Any:
    """Uninitialised words (int32) for a matrix of truth values, or a stack of them."""
    return cupy.empty((*shape[:-1], -(-shape[-1] // 32)), np.int32)


def pack(array: Any) -> Any:
    """The words (..., m, ⌈n/32⌉) int32 of bool matrices (..., m, n) of any strides; tail bits are zero."""
    *leading, n = array.shape
    width = -(-n // 32)
    padded = cupy.zeros((*leading, width * 32), np.uint8)
    padded[..., :n] = array
    return cupy.packbits(padded.reshape(-1), bitorder="little").view(np.int32).reshape(*leading, width)


def unpack(words: Any, out: Any = None, *, columns: int | None = None) -> Any:
    """The bool matrices (..., m, ``columns``) of words of any strides; or as many as ``out`` has, in it."""
    count = out.shape[-1] if columns is None else columns
    contiguous = cupy.ascontiguousarray(words)
    bits = cupy.unpackbits(contiguous.view(np.uint8).reshape(-1), bitorder="little")
    values = bits.reshape(*words.shape[:-1], -1)[..., :count].astype(np.bool_)
    if out is not None:
        out[...] = values
    return values
