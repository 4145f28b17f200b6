"""Closures of boolean matrices packed 32 entries to a word.

The algorithms are those of the dense matrices: a recursion that splits at multiples of 32 works on the words in place.
Here is what is particular to bits, the diagonal of A⁺. Cost: n³ bit pairs, and O(n²) for the diagonal.
"""

from __future__ import annotations

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.execution import Execution
from semiring.algorithms.irreflexive import cycles_from_closure, diagonal, irreflexive_product
from semiring.algorithms.views import WORD, Array
from semiring.bits import BitMatrix, pack
from semiring.kernels.engine import Engine, make_plan
from semiring.namespaces import array_namespace, is_device_array

__all__ = ["close_truths", "close_words"]


def close_words(execution: Execution, semiring: Semiring, packed: BitMatrix, reflexive: bool) -> None:
    """Close a packed matrix in place: A*, or A⁺ where not ``reflexive``."""
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
    n = packed.shape[0]
    dual = bool(semiring.zero_for(np.bool_))
    reached = ~packed if dual else packed
    vertices = np.arange(n)
    word, bit = vertices // 32, np.left_shift(np.uint32(1), (vertices % 32).astype(np.uint32))
    reached.words[vertices, word] &= ~bit
    cycles = (loops != dual) | np.bitwise_and(reached.words, reached.T.words).any(axis=1)
    packed.words[vertices, word] &= ~bit
    packed.words[vertices, word] |= np.where(cycles != dual, bit, np.uint32(0))


def close_truths(execution: Execution, semiring: Semiring, A: Array, reflexive: bool) -> None:
    """Close a bool matrix in place, through packed words."""
    if not is_device_array(A):
        packed = pack(A)
        close_words(execution, semiring, packed, reflexive)
        A[...] = packed.unpack()
        return
    original = A.copy() if not reflexive and not semiring.idempotent else None
    loops = diagonal(A) if not reflexive and original is None else None
    words = _pack(A)
    engine = execution.close(semiring, words, storage="bits")
    _unpack(words, A)
    elements = Engine(engine.backend, make_plan(semiring, A.dtype), engine.panel)
    if original is not None:
        irreflexive_product(elements, original, A)
    elif loops is not None:
        cycles_from_closure(elements, loops, A)


def _pack(A: Array) -> Array:
    """The words of a bool matrix, on its device; tail bits are zero."""
    xp, (m, n) = array_namespace(A), A.shape
    padded = xp.zeros((m, -(-n // WORD) * WORD), np.uint8)
    padded[:, :n] = A
    return xp.packbits(padded.reshape(-1), bitorder="little").view(np.uint32).reshape(m, -1)


def _unpack(words: Array, out: Array) -> None:
    xp = array_namespace(words)
    octets = xp.unpackbits(words.view(np.uint8).reshape(-1), bitorder="little")
    out[...] = octets.reshape(out.shape[0], -1)[:, : out.shape[1]].astype(np.bool_)
