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
from semiring.algorithms.views import Array
from semiring.bits import BitMatrix, pack
from semiring.namespaces import array_namespace

__all__ = ["close_truths", "close_words"]


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
    n, xp = packed.shape[0], array_namespace(packed.words)
    dual = bool(semiring.zero_for(np.bool_))
    reached = ~packed if dual else packed
    vertices = xp.arange(n)
    word, bit = vertices // 32, xp.left_shift(np.uint32(1), (vertices % 32).astype(np.uint32))
    reached.words[vertices, word] &= ~bit
    cycles = (loops != dual) | (reached.words & reached.T.words).any(axis=1)
    packed.words[vertices, word] &= ~bit
    packed.words[vertices, word] |= xp.where(cycles != dual, bit, np.uint32(0))


def close_truths(execution: Execution, semiring: Semiring, A: Array, reflexive: bool) -> None:
    """Close a bool matrix (n, n) in place, through packed words: n² / 8 bytes more. Errors as `Execution.close`."""
    packed = pack(A)
    close_words(execution, semiring, packed, reflexive)
    A[...] = packed.unpack()
