"""The maps that rules add to a matrix: what is done to every entry, and how it is undone."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from threading import local
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times
from semiring.algorithms.ordered import in_order
from semiring.arrays.parts import clear_zeros, negate
from semiring.closures.matrix import At, EntryMap
from semiring.kernels.contract import PassKernels
from semiring.namespaces import array_namespace

__all__ = ["NEGATED", "UNSIGNED", "WITHOUT", "MapOfCall", "OfVertices", "Ordered", "Scaled", "Shifted", "Watched"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array

_ALL = slice(None)


class _Negated(EntryMap):
    """-w: max-plus is min-plus of the negatives. No -0.0 comes of 0 - w."""

    name = "negated"
    is_negation = True
    is_one_pass = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        negate(rows, out)
        return out

    decode = encode


class _Unsigned(EntryMap):
    """0.0 for -0.0: kernels that may compare floats as integers look at sign bits."""

    name = "unsigned"
    is_one_pass = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        clear_zeros(rows, out)
        return out


class _Without(EntryMap):
    """No edge for an edge of unbounded gain, which is inserted when the others are closed."""

    name = "without"
    may_change_numbers = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        return array_namespace(rows).where(rows == -np.inf, rows.dtype.type(np.inf), rows)


class OfVertices(EntryMap):
    """A change by a number of each vertex, (n,), or of a stack (count, n): of the row's and of the column's.

    ``heads``: those of the columns, where these are other vertices than the rows.
    """

    may_change_numbers = True

    def __init__(self, tails: Array, heads: Array | None = None) -> None:
        self.tails, self._heads = tails, tails if heads is None else heads

    def beside(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> EntryMap:
        there, other = array_namespace(array).asarray, copy(self)
        OfVertices.__init__(other, there(self.tails[rows]), there(self._heads[columns]))
        return other

    def _numbers(self, at: At) -> tuple[Array, Array]:
        return self.tails[at][..., None], self._heads[at[:-1]][..., None, :]


class Shifted(OfVertices):
    """w[i, j] + h[i] - h[j] ≥ 0 for potentials h, in the dtype of h and rounded once."""

    name = "shifted"

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        xp = array_namespace(rows)
        xp.add(rows, self._shift(at), out=out)
        xp.maximum(out, 0, out=out)
        if out.dtype.kind == "f":
            out += 0.0  # no sign bit: -0.0 becomes 0.0, and ∞ stays
        return out

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        return array_namespace(rows).subtract(rows, self._shift(at), out=out)

    def _shift(self, at: At | None) -> Any:
        if at is None:
            return 0
        tails, heads = self._numbers(at)
        return tails - heads


class Scaled(OfVertices):
    """w[i, j] · p[i] / p[j], on the side of 1 that does not gain, for factors p in float64; rounded once."""

    name = "scaled"

    def __init__(self, p: Array, semiring: Semiring) -> None:
        super().__init__(p)
        self._most = semiring == max_times

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        if at is not None:
            tails, heads = self._numbers(at)
            rows = rows * tails / heads
        xp = array_namespace(rows)
        return (xp.minimum if self._most else xp.maximum)(rows, 1, out=out)

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        tails, heads = self._numbers(at)
        return rows * heads / tails


class MapOfCall(EntryMap):
    """A map that every call has of its own: by potentials or factors that a scan of its entries has found."""

    may_change_numbers = True

    def __init__(self, made: Callable[[Any], EntryMap]) -> None:
        self._made = made

    def of_call(self, call: Any) -> EntryMap:
        return self._made(call)


class Watched(EntryMap):
    """Weights that nobody may wait to see: where one of them is below 0, the result is NaN."""

    is_one_pass = True

    def __init__(self, passes: PassKernels) -> None:
        self._passes = passes
        self._seen = local()  # one map serves all calls of a kind, in all threads

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        self._seen.word = self._passes.copy_nonnegative(rows, out)
        return out

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        self._passes.spoil(rows, self._seen.word)
        return rows


class Ordered(EntryMap):
    """Floats as integers in the same order, for a semiring that does nothing but select."""

    may_change_numbers = True
    is_one_pass = True

    def __init__(self, semiring: Semiring) -> None:
        self._semiring = semiring

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        in_order(rows, self._semiring, out)
        return out

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        in_order(rows, self._semiring, out, back=True)
        return out


NEGATED, UNSIGNED, WITHOUT = _Negated(), _Unsigned(), _Without()
