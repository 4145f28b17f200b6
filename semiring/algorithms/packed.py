"""What is particular to matrices packed 32 entries to a word: the diagonal of A⁺, and the bits beyond the last column.

The algorithms are those of the dense matrices: a recursion that splits at multiples of 32 works on the words in place.
Cost: O(n²).
"""

from __future__ import annotations

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.views import WORD, Array
from semiring.arrays.bits import BitMatrix
from semiring.namespaces import array_namespace

__all__ = ["clear_tail", "loops", "set_cycles"]

_AT_A_TIME = 1024  # vertices by way of which cycles lead: a multiple of 32


def clear_tail(semiring: Semiring, packed: BitMatrix) -> None:
    """Clear the tail bits, which products of words set where 0̄ is True."""
    if packed.words.size and semiring.zero_for(np.bool_):
        packed.words[:, -1] &= packed.tail


def loops(packed: BitMatrix) -> Array:
    """The diagonal (n,), as bool."""
    vertices = array_namespace(packed.words).arange(packed.shape[0])
    bits = packed.words[vertices, vertices // WORD] >> (vertices % WORD).astype(np.uint32)
    return (bits & 1).astype(np.bool_)


def set_cycles(semiring: Semiring, packed: BitMatrix, loops: Array) -> None:
    """The diagonal of A⁺, as in `cycles_from_closure`; an idempotent ⊕ is "or", or "and" where 0̄ is True."""
    n, words, xp = packed.shape[0], packed.words, array_namespace(packed.words)
    dual = bool(semiring.zero_for(np.bool_))
    vertices = xp.arange(n)
    word, bit = vertices // WORD, xp.left_shift(np.uint32(1), (vertices % WORD).astype(np.uint32))
    words[vertices, word] = words[vertices, word] | bit if dual else words[vertices, word] & ~bit  # no empty path
    cycles = loops != dual
    for start in range(0, n, _AT_A_TIME):
        others = slice(start, min(n, start + _AT_A_TIME))
        there, back = (packed, packed.T) if n <= _AT_A_TIME else (packed[:, others], packed[others].T)
        both = (~there).words & (~back).words if dual else there.words & back.words
        cycles |= both.any(axis=1)
    words[vertices, word] &= ~bit
    words[vertices, word] |= xp.where(cycles != dual, bit, np.uint32(0))
