"""Closures of boolean matrices packed 32 entries to a word.

The algorithms are those of the dense matrices: a recursion that splits at multiples of 32 works on the words in place.
Here is what is particular to bits, the diagonal of A⁺. Cost: n³ bit pairs, and O(n²) for the diagonal; where ⊕ is not
idempotent, A⁺ is one more product, and a copy of A.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.execution import Execution
from semiring.algorithms.irreflexive import diagonal, irreflexive_product
from semiring.algorithms.views import WORD, Array, pieces
from semiring.arrays.bits import BitMatrix, pack
from semiring.namespaces import array_namespace

__all__ = ["close_truths", "close_words"]

_ENTRIES = 1 << 20  # that are unpacked at a time
_AT_A_TIME = 1024  # vertices by way of which cycles lead: a multiple of 32


def close_words(execution: Execution, semiring: Semiring, packed: BitMatrix, reflexive: bool) -> None:
    """Close a packed matrix (n, n) in place: A*, or A⁺ where not ``reflexive``. Errors as `Execution.close`."""
    words = packed.words
    original = words.copy() if not reflexive and not semiring.idempotent else None
    loops = None if reflexive or original is not None else diagonal(words, "bits")
    engine = execution.close(semiring, words, storage="bits")
    if original is not None:
        irreflexive_product(engine, original, words)
    elif loops is not None:
        _set_cycles(semiring, packed, loops)
    if words.size and semiring.zero_for(np.bool_):  # where 0̄ is True, products of words set tail bits
        words[:, -1] &= packed.tail


def _set_cycles(semiring: Semiring, packed: BitMatrix, loops: Array) -> None:
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


def close_truths(execution: Execution, semiring: Semiring, A: Array, reflexive: bool) -> None:
    """Close a bool matrix (n, n) in place, through packed words: n² / 8 bytes more. Errors as `Execution.close`."""
    packed = pack(A)
    close_words(execution, semiring, packed, reflexive)
    if A.size <= _ENTRIES:
        A[...] = packed.unpack()
        return
    for rows in pieces(A, _ENTRIES):
        A[rows] = packed[rows].unpack()
