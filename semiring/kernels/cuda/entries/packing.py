"""Pack truth values on a GPU 32 to a word along the rows, as `semiring.arrays.bits` does, and unpack them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from semiring.arrays.device import load_cupy
from semiring.namespaces import Array

_TRANSFERRED = 1 << 26  # the truth values that are unpacked on the GPU at a time, in transfers from or to the host

_PACK = """
const long long row = i / width, first = i % width * 32;
const int bits = columns - first < 32 ? int(columns - first) : 32;
unsigned packed = 0;
for (int bit = 0; bit < bits; ++bit) packed |= unsigned(truths[row * columns + first + bit]) << bit;
word = packed;
"""


@cache
def _pack_kernel() -> Any:
    return load_cupy().ElementwiseKernel(
        "raw bool truths, int64 columns, int64 width", "uint32 word", _PACK, "semiring_pack"
    )


@cache
def _unpack_kernel() -> Any:
    text = "truth = words[i / columns * width + i % columns / 32] >> i % columns % 32 & 1"
    return load_cupy().ElementwiseKernel(
        "raw uint32 words, int64 columns, int64 width", "bool truth", text, "semiring_unpack"
    )


@cache
def _count_kernel() -> Any:
    return load_cupy().ReductionKernel(
        "uint32 word", "int64 y", "__popc(word)", "a + b", "y = a", "0", "semiring_count"
    )


@cache
def _set_bits_kernel() -> Any:
    text = "atomicOr(&words[row * width + column / 32], 1u << column % 32)"
    return load_cupy().ElementwiseKernel(
        "int64 row, int64 column, int64 width", "raw uint32 words", text, "semiring_set_bits"
    )


def set_bits(words: Array, rows: Array, columns: Array) -> None:
    """Set the bits of contiguous words (m, ⌈n/32⌉) at some rows and columns, int64 (count,) both."""
    _set_bits_kernel()(rows, columns, words.shape[1], words)


def empty_words(shape: tuple[int, ...]) -> Any:
    """Return uninitialized words uint32 for truth values of a shape (..., m, n)."""
    return load_cupy().empty((*shape[:-1], -(-shape[-1] // 32)), np.uint32)


def pack(truths: Array) -> Any:
    """Return the words (..., m, ⌈n/32⌉) of a bool array (..., m, n) of any strides. Tail bits are zero."""
    words = empty_words(truths.shape)
    _pack_kernel()(truths, truths.shape[-1], words.shape[-1], words)
    return words


def unpack(words: Array, columns: int, out: Array | None = None) -> Any:
    """Return the bool array (..., m, columns) of words (..., m, ⌈columns/32⌉) of any strides, or write ``out``."""
    truths = load_cupy().empty((*words.shape[:-1], columns), np.bool_) if out is None else out
    _unpack_kernel()(words, columns, words.shape[-1], truths)
    return truths


def pack_from_host(truths: np.ndarray[Any, Any]) -> Any:
    """Return the words (m, ⌈n/32⌉) on the current GPU of a bool array (m, n) of the host, copied in strips."""
    words = empty_words(truths.shape)
    for rows in _strips(truths):
        words[rows] = pack(load_cupy().asarray(truths[rows]))
    return words


def unpack_to_host(words: Any, out: np.ndarray[Any, Any]) -> None:
    """Write the truth values of words (m, ⌈n/32⌉) into out (m, n) on the host, in strips."""
    for rows in _strips(out):
        out[rows] = unpack(words[rows], out.shape[1]).get()


def _strips(truths: np.ndarray[Any, Any]) -> Iterator[slice]:
    step = max(1, _TRANSFERRED // max(1, truths.shape[1]))
    return (slice(start, start + step) for start in range(0, truths.shape[0], step))


def count(words: Array) -> Any:
    """Return the number of bits set in words of any shape, as a 0-d int64 array. The function does not wait."""
    return _count_kernel()(words)
