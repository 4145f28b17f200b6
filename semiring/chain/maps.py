"""The maps that steps add to a matrix: what is done to every entry, and how it is undone."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from semiring.algebra import Semiring
from semiring.algebra.catalogue import max_times
from semiring.algorithms.ordered import as_integers, from_integers
from semiring.arrays.parts import clear_zeros, negate
from semiring.chain.matrix import At, Map
from semiring.kernels.contract import Passes
from semiring.namespaces import array_namespace

__all__ = [
    "NEGATED",
    "UNSIGNED",
    "WITHOUT",
    "Negated",
    "Ordered",
    "Scaled",
    "Shifted",
    "Unsigned",
    "Watched",
    "Without",
]

Array: TypeAlias = Any  # a NumPy array, on a GPU a CuPy array


class Negated(Map):
    """-w: max-plus is min-plus of the negatives. No -0.0 comes of 0 - w."""

    negates = True
    whole = True

    def encode(self, rows: Array, at: At) -> Array:
        return rows.dtype.type(0) - rows

    def decode(self, rows: Array, at: At) -> Array:
        return rows.dtype.type(0) - rows

    def encode_all(self, source: Array, out: Array) -> None:
        negate(source, out)

    def decode_all(self, D: Array, out: Array, mark: Any) -> None:
        negate(D, out)


class Unsigned(Map):
    """0.0 for -0.0: kernels that may compare floats as integers look at sign bits."""

    whole = True
    undone = False

    def encode(self, rows: Array, at: At) -> Array:
        return rows + rows.dtype.type(0)

    def encode_all(self, source: Array, out: Array) -> None:
        if type(source) is np.ndarray:  # half a microsecond counts in small calls
            np.add(source, 0.0, out)
        else:
            clear_zeros(source, out)


class Without(Map):
    """No edge for an edge of unbounded gain, which is inserted when the others are closed."""

    moves = True
    undone = False

    def encode(self, rows: Array, at: At) -> Array:
        return array_namespace(rows).where(rows == -np.inf, rows.dtype.type(np.inf), rows)


class Shifted(Map):
    """w[i, j] + h[i] - h[j] ≥ 0 for potentials h, (n,) or of a stack (count, n), in the dtype of h and rounded once."""

    moves = True

    def __init__(self, h: Array, tails: Array | None = None) -> None:
        self.h, self._tails = h, h if tails is None else tails

    def of_rows(self, rows: slice) -> Shifted:
        return Shifted(self.h, self._tails[rows])

    def encode(self, rows: Array, at: At) -> Array:
        tails, heads = self._ends(at)
        shifted = rows + (tails - heads)
        array_namespace(shifted).maximum(shifted, 0, out=shifted)
        if shifted.dtype.kind == "f":
            shifted += 0.0  # no sign bit: -0.0 becomes 0.0, and ∞ stays
        return shifted

    def decode(self, rows: Array, at: At) -> Array:
        tails, heads = self._ends(at)
        return rows + (heads - tails)

    def encode_loops(self, loops: Array) -> Array:
        return array_namespace(loops).maximum(loops, 0) + loops.dtype.type(0)

    def _ends(self, at: At) -> tuple[Array, Array]:
        return self._tails[at][..., None], self.h[at[:-1]][..., None, :]


class Scaled(Map):
    """w[i, j] · p[i] / p[j], on the side of 1 that does not gain, for factors p (n,) in float64; rounded once."""

    moves = True

    def __init__(self, p: Array, semiring: Semiring, tails: Array | None = None) -> None:
        self.p, self._semiring, self._most = p, semiring, semiring == max_times
        self._tails = p if tails is None else tails

    def of_rows(self, rows: slice) -> Scaled:
        return Scaled(self.p, self._semiring, self._tails[rows])

    def encode(self, rows: Array, at: At) -> Array:
        scaled = rows * self._tails[at][..., None]
        scaled /= self.p[at[:-1]][..., None, :]
        return self._cut(scaled)

    def decode(self, rows: Array, at: At) -> Array:
        scaled = rows * self.p[at[:-1]][..., None, :]
        scaled /= self._tails[at][..., None]
        return scaled

    def encode_loops(self, loops: Array) -> Array:
        return self._cut(loops)

    def _cut(self, values: Array) -> Array:
        xp = array_namespace(values)
        return (xp.minimum if self._most else xp.maximum)(values, values.dtype.type(1))


class Watched(Map):
    """Weights that nobody may wait to see: where one of them is below 0, the result is NaN."""

    whole = True

    def __init__(self, passes: Passes) -> None:
        self._passes = passes

    def encode_loops(self, loops: Array) -> Array:
        return loops + loops.dtype.type(0)

    def encode_all(self, source: Array, out: Array) -> Any:
        return self._passes.copy_nonnegative(source, out)

    def decode_all(self, D: Array, out: Array, mark: Any) -> None:
        self._passes.spoil(D, mark)
        if D is not out:
            out[...] = D


class Ordered(Map):
    """Floats as integers in the same order, for a semiring that does nothing but select."""

    moves = True
    whole = True

    def __init__(self, semiring: Semiring) -> None:
        self._semiring = semiring

    def encode_loops(self, loops: Array) -> Array:
        bits = array_namespace(loops).empty(loops.shape, np.int32)
        as_integers(loops[None], self._semiring, bits[None])
        return bits

    def encode_all(self, source: Array, out: Array) -> None:
        as_integers(source, self._semiring, out)

    def decode_all(self, D: Array, out: Array, mark: Any) -> None:
        from_integers(D, self._semiring, out)


NEGATED, UNSIGNED, WITHOUT = Negated(), Unsigned(), Without()
