"""Set the diagonal of A⁺ and clear the tail bits of matrices that are packed 32 entries to a word.

The tail bits of a row are the bits beyond the last column. The closure algorithms are those of dense matrices, because
a recursion that splits at multiples of 32 works on the words in place. Cost: O(n²).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.views import WORD
from semiring.arrays.bits import BitMatrix
from semiring.namespaces import Array, array_namespace

__all__ = ["clear_tail", "diagonal_bits", "set_cycles"]

_CHUNK = 1024  # intermediate vertices of cycles in one step; a multiple of 32


def clear_tail(semiring: Semiring, packed: BitMatrix) -> None:
    """Clear the tail bits. Products of words set them only if 0̄ is True."""
    if packed.words.size and semiring.zero_for(np.bool_):
        packed.words[:, -1] &= packed.tail


def diagonal_bits(packed: BitMatrix) -> Any:
    """Return the diagonal (n,) of a packed matrix, as bool."""
    vertices = array_namespace(packed.words).arange(packed.shape[0])
    bits = packed.words[vertices, vertices // WORD] >> (vertices % WORD).astype(np.uint32)
    return (bits & 1).astype(np.bool_)


def set_cycles(semiring: Semiring, packed: BitMatrix, loops: Array) -> None:
    """Turn A* into A⁺ in place for packed bits, as `make_irreflexive` does.

    ``loops`` (n,) bool is the diagonal of A before it was closed. An idempotent ⊕ of truth
    values is "or", or "and" where 0̄ is True.
    """
    n, words, xp = packed.shape[0], packed.words, array_namespace(packed.words)
    dual = bool(semiring.zero_for(np.bool_))
    vertices = xp.arange(n)
    word, bit = vertices // WORD, xp.left_shift(np.uint32(1), (vertices % WORD).astype(np.uint32))
    # A⁺ excludes the empty path, so the diagonal begins without edges.
    words[vertices, word] = words[vertices, word] | bit if dual else words[vertices, word] & ~bit
    cycles = loops != dual
    for start in range(0, n, _CHUNK):
        others = slice(start, min(n, start + _CHUNK))
        forward, backward = (packed, packed.T) if n <= _CHUNK else (packed[:, others], packed[others].T)
        two_way = (~forward).words & (~backward).words if dual else forward.words & backward.words
        cycles |= two_way.any(axis=1)
    words[vertices, word] &= ~bit
    words[vertices, word] |= xp.where(cycles != dual, bit, np.uint32(0))
