"""Floats as integers in the same order: where ⊕ and ⊗ only select, nothing else about them matters.

A closure that maps its matrix once saves every product the map, and integers have a 3-input minimum and maximum.
Cost: two passes over the matrix; workspace none where the floats may be overwritten, as here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.algebra import Semiring
from semiring.algorithms.views import Array, pieces
from semiring.namespaces import array_namespace

__all__ = ["as_integers", "from_integers", "has_order"]

_NOT_THE_SIGN = np.int32(0x7FFFFFFF)


def has_order(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Whether all that a closure does on float32 is to select by order, and its star is 1̄."""
    selections = {semiring.add.expression.op, semiring.mul.expression.op}
    plain = all(
        len(operation.args) == 2 and all(arg.op == "var" for arg in operation.args)
        for operation in (semiring.add.expression, semiring.mul.expression)
    )
    return bool(
        dtype == np.float32
        and plain
        and selections == {"min", "max"}
        and semiring.absorptive
        and semiring.supports(np.dtype(np.int32))
    )


def as_integers(A: Array) -> Array:
    """A view of A (m, n) float32 as int32, whose bits become integers in the order of the floats."""
    bits = A.view(np.int32)
    _flip(bits)
    return bits


def from_integers(bits: Array, out: Array, semiring: Semiring) -> None:
    """Undo `as_integers` in place; ``out`` is the matrix it was given.

    The zero and the one of the integers, which a closure may have put in, become those of the floats.
    """
    xp = array_namespace(bits)
    zero, one = (element(np.dtype(np.int32)) for element in (semiring.zero_for, semiring.one_for))
    for rows in pieces(bits):
        part = bits[rows]
        lost, best = part == zero, part == one
        _flip(part)
        out[rows] = xp.where(lost, semiring.zero_for(out.dtype), xp.where(best, semiring.one_for(out.dtype), out[rows]))


def _flip(bits: Array) -> None:
    """Of a negative number all bits but the sign are inverted: its own inverse."""
    for rows in pieces(bits):
        bits[rows] ^= (bits[rows] >> 31) & _NOT_THE_SIGN
