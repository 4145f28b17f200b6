"""The maps that steps add to a matrix: what is done to every entry, and how it is undone."""

from __future__ import annotations

from threading import local
from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times
from semiring.algorithms.ordered import as_integers, from_integers
from semiring.arrays.parts import clear_zeros, negate
from semiring.chain.matrix import At, Map
from semiring.kernels.contract import Passes
from semiring.namespaces import array_namespace

__all__ = ["NEGATED", "UNSIGNED", "WITHOUT", "Ordered", "Scaled", "Shifted", "Watched"]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array

_ALL = slice(None)


class _Negated(Map):
    """-w: max-plus is min-plus of the negatives. No -0.0 comes of 0 - w."""

    negates = True
    whole = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        negate(rows, out)
        return out

    decode = encode


class _Unsigned(Map):
    """0.0 for -0.0: kernels that may compare floats as integers look at sign bits."""

    whole = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        if type(rows) is np.ndarray:  # half a microsecond counts in small calls
            np.add(rows, 0.0, out)
        else:
            clear_zeros(rows, out)
        return out


class _Without(Map):
    """No edge for an edge of unbounded gain, which is inserted when the others are closed."""

    moves = True

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        return array_namespace(rows).where(rows == -np.inf, rows.dtype.type(np.inf), rows)


class Shifted(Map):
    """w[i, j] + h[i] - h[j] ≥ 0 for potentials h, (n,) or of a stack (count, n), in the dtype of h and rounded once.

    ``heads``: the potentials of the columns, where these are other vertices than the rows.
    """

    moves = True

    def __init__(self, h: Array, heads: Array | None = None) -> None:
        self.h, self._heads, self._whole_shift = h, h if heads is None else heads, None

    def beside(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> Shifted:
        there = array_namespace(array).asarray
        return Shifted(there(self.h[rows]), there(self._heads[columns]))

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
        if at:
            return self.h[at][..., None] - self._heads[at[:-1]][..., None, :]
        if self._whole_shift is None:
            self._whole_shift = self.h[:, np.newaxis] - self._heads
        return self._whole_shift


class Scaled(Map):
    """w[i, j] · p[i] / p[j], on the side of 1 that does not gain, for factors p (n,) in float64; rounded once.

    ``heads``: the factors of the columns, where these are other vertices than the rows.
    """

    moves = True

    def __init__(self, p: Array, semiring: Semiring, heads: Array | None = None) -> None:
        self.p, self._heads, self._semiring = p, p if heads is None else heads, semiring
        self._most = semiring == max_times

    def beside(self, array: Array, rows: Any = _ALL, columns: Any = _ALL) -> Scaled:
        there = array_namespace(array).asarray
        return Scaled(there(self.p[rows]), self._semiring, there(self._heads[columns]))

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        xp = array_namespace(rows)
        scaled = rows if at is None else rows * self.p[at][..., None] / self._heads[at[:-1]][..., None, :]
        return (xp.minimum if self._most else xp.maximum)(scaled, 1, out=out)

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        return rows * self._heads[at[:-1]][..., None, :] / self.p[at][..., None]


class Watched(Map):
    """Weights that nobody may wait to see: where one of them is below 0, the result is NaN."""

    whole = True

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._seen = local()  # one map serves all calls of a kind, in all threads

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        self._seen.word = self._passes.copy_nonnegative(rows, out)
        return out

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        self._passes.spoil(rows, self._seen.word)
        return rows


class Ordered(Map):
    """Floats as integers in the same order, for a semiring that does nothing but select."""

    moves = True
    whole = True

    def __init__(self, semiring: Semiring) -> None:
        self._semiring = semiring

    def encode(self, rows: Array, at: At | None, out: Array) -> Array:
        as_integers(rows, self._semiring, out)
        return out

    def decode(self, rows: Array, at: At, out: Array) -> Array:
        from_integers(rows, self._semiring, out)
        return out


NEGATED, UNSIGNED, WITHOUT = _Negated(), _Unsigned(), _Without()
