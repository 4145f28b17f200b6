"""Define the maps that encodings add to the reading of a matrix: changes of all entries, and their inverses."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cache
from threading import local
from typing import Any

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times
from semiring.algorithms.ordered_integers import map_in_order
from semiring.arrays.parts import clear_zeros, negate
from semiring.closures.matrix import EntryMap, Index
from semiring.kernels.contract import PassKernels
from semiring.namespaces import Array, array_namespace

__all__ = [
    "NEGATION",
    "POSITIVE_ZEROS",
    "FactorScaling",
    "NegativeWeightGuard",
    "OrderedIntegers",
    "PotentialShift",
    "VertexMap",
    "guard_against_negative_weights",
]


_ALL = slice(None)


class _Negation(EntryMap):
    """The map w → 0 - w, which turns max-plus into min-plus. It makes no -0.0."""

    name = "negated"
    is_negation = True
    is_one_pass = True

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        negate(rows, out)
        return out

    decode = encode


class _PositiveZeros(EntryMap):
    """The map that replaces -0.0 by 0.0, for kernels that compare floats as integers and read sign bits."""

    name = "unsigned"
    is_one_pass = True

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        clear_zeros(rows, out)
        return out


class VertexMap(EntryMap):
    """A map that changes an entry by numbers of its two vertices.

    Parameters
    ----------
    tails
        (n,), or (count, n) for a stack: the number of the vertex of each row.
    heads
        The number of the vertex of each column, if the columns are other vertices than the rows.
    """

    may_change_numbers = True

    def __init__(self, tails: Array, heads: Array | None = None) -> None:
        self.tails, self._heads = tails, tails if heads is None else heads

    def restrict(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EntryMap:
        move, other = array_namespace(array).asarray, copy(self)
        VertexMap.__init__(other, move(self.tails[rows]), move(self._heads[columns]))
        return other

    def _vertex_numbers(self, index: Index) -> tuple[Array, Array]:
        return self.tails[index][..., None], self._heads[index[:-1]][..., None, :]


class PotentialShift(VertexMap):
    """The map to w[i, j] + h[i] - h[j] ≥ 0 for potentials h, in the dtype of h and rounded once."""

    name = "shifted"

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        xp = array_namespace(rows)
        xp.add(rows, self._compute_shift(index), out=out)
        xp.maximum(out, 0, out=out)
        if out.dtype.kind == "f":
            out += 0.0  # no sign bit: -0.0 becomes 0.0, and ∞ stays
        return out

    def decode(self, rows: Array, index: Index, out: Array) -> Any:
        return array_namespace(rows).subtract(rows, self._compute_shift(index), out=out)

    def _compute_shift(self, index: Index | None) -> Any:
        if index is None:
            return 0
        tails, heads = self._vertex_numbers(index)
        return tails - heads


class FactorScaling(VertexMap):
    """The map to w[i, j] · p[i] / p[j] for factors p in float64, rounded once, on the side of 1 that does not gain."""

    name = "scaled"

    def __init__(self, p: Array, semiring: Semiring) -> None:
        super().__init__(p)
        self._is_max_times = semiring == max_times

    def encode(self, rows: Array, index: Index | None, out: Array) -> Any:
        if index is not None:
            tails, heads = self._vertex_numbers(index)
            rows = rows * tails / heads
        xp = array_namespace(rows)
        return (xp.minimum if self._is_max_times else xp.maximum)(rows, 1, out=out)

    def decode(self, rows: Array, index: Index, out: Array) -> Array:
        tails, heads = self._vertex_numbers(index)
        return rows * heads / tails


class NegativeWeightGuard(EntryMap):
    """The map that makes the result NaN if a weight is below 0, for calls that must not wait for the GPU."""

    is_one_pass = True

    def __init__(self, passes: PassKernels) -> None:
        self._passes = passes
        self._flag = local()  # one map serves all calls, in all threads

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        self._flag.word = self._passes.copy_nonnegative(rows, out)
        return out

    def decode(self, rows: Array, index: Index, out: Array) -> Array:
        self._passes.spoil(rows, self._flag.word)
        return rows


@dataclass(frozen=True)
class OrderedIntegers(EntryMap):
    """The map from floats to integers in the same order, for a semiring whose operations only select."""

    semiring: Semiring

    may_change_numbers = True
    is_one_pass = True

    def encode(self, rows: Array, index: Index | None, out: Array) -> Array:
        map_in_order(rows, self.semiring, out)
        return out

    def decode(self, rows: Array, index: Index, out: Array) -> Array:
        map_in_order(rows, self.semiring, out, inverse=True)
        return out


NEGATION, POSITIVE_ZEROS = _Negation(), _PositiveZeros()


@cache
def guard_against_negative_weights(passes: PassKernels) -> NegativeWeightGuard:
    """Return the `NegativeWeightGuard` of a backend."""
    return NegativeWeightGuard(passes)
