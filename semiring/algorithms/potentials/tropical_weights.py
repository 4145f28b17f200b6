"""Represent a min-plus or max-plus matrix for shortest-path algorithms: one sign convention, in a wide dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from semiring.algebra.expressions.tree import float_limits, is_half
from semiring.arrays.parts import any_true, pieces, to_host_array
from semiring.errors import DomainError, IntegerOverflowError
from semiring.namespaces import Array, array_namespace

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "Weights",
    "check_range",
    "finite_range",
    "negligible_amount",
    "relative_rounding",
    "roundings",
    "weight_rounding",
]

# A potential is at least -n |w|, where w is the most negative weight. Before a negative cycle shows in the tree, it may
# be some ten times that. With these limits no sum is rounded in float64, and no sum wraps in int64.
_EXACT_FLOAT = 2.0**49
_EXACT_INTEGER = 2**58
_LARGEST_INTEGER = 2**61


@dataclass(frozen=True)
class Weights:
    """The min-plus weights of a matrix in the dtype ``work``, for the sweeps of Bellman-Ford.

    A missing edge has the weight `no_edge`. A max-plus matrix is represented by its negated entries.
    """

    A: Array
    sign: int  # +1 for min-plus, -1 for max-plus
    no_edge_entry: Any  # the entry of A that means "no edge"
    work: np.dtype[Any]  # float64 or int64
    epsilon: float  # relative rounding of an entry, or 0 if every entry is exact
    range: tuple[Any, Any] = (0, 0)  # the least and the greatest weight
    vertices: Any = None  # (n,) on the device of A: the rows and columns of the graph, or None for all in order
    is_reversed: bool = False  # whether the edges of A are the reversed edges of the caller

    @classmethod
    def from_matrix(
        cls,
        A: Array,
        sign: int,
        no_edge_entry: Any,
        low: Any,
        high: Any,
        is_reversed: bool = False,
        rounded_to: Any = None,
    ) -> Weights:
        """Return the weights of a matrix whose finite weights lie in [low, high] in min-plus.

        ``rounded_to`` is the dtype to which the entries were rounded, by default that of A.
        """
        n, exact_in_float = A.shape[0], max(-low, high) * (A.shape[0] + 1) < _EXACT_FLOAT
        work: np.dtype[Any] = np.dtype(np.float64)
        epsilon = 0.0
        if A.dtype.kind != "i":
            if not (exact_in_float and _has_whole_numbers(A)):
                epsilon = weight_rounding(A.dtype, rounded_to)
        elif not exact_in_float:
            work = np.dtype(np.int64)
            if -low * n >= _EXACT_INTEGER or high >= _LARGEST_INTEGER:
                least, greatest = sorted((sign * low, sign * high))
                raise IntegerOverflowError(
                    f"paths of {n} edges of weights from {least} to {greatest} leave the range of int64: use float64"
                )
        return cls(A, sign, no_edge_entry, work, epsilon, (low, high), is_reversed=is_reversed)

    @property
    def is_plain(self) -> bool:
        """Return whether the weights equal the entries of A."""
        return self.vertices is None and self.sign > 0

    @property
    def n(self) -> int:
        """Return the number of vertices."""
        return int(self.A.shape[0] if self.vertices is None else self.vertices.shape[0])

    @property
    def no_edge(self) -> Any:
        return np.inf if self.work.kind == "f" else np.iinfo(np.int64).max

    def pieces(self) -> Iterator[slice]:
        """Yield ranges of rows that cover the weights, one piece at a time."""
        for rows in pieces(self.A):
            if rows.start < self.n:
                yield slice(rows.start, min(rows.stop, self.n))

    def entries(self, index: slice | Array) -> Array:
        """Return the entries of some rows of the graph, as A stores them."""
        return self.A[index] if self.vertices is None else self.A[self.vertices[index]][:, self.vertices]

    def diagonal(self) -> Array:
        """Return the entries of the loops, as A stores them."""
        return self.A.diagonal() if self.vertices is None else self.A[self.vertices, self.vertices]

    def original_vertices(self, vertices: list[int]) -> list[int]:
        """Return vertices in the numbering of A."""
        return vertices if self.vertices is None else [int(self.vertices[vertex]) for vertex in vertices]

    def rows(self, index: slice | Array, out: Array | None = None) -> Array:
        """Return the weights of some rows, in a new array or in the first rows of ``out``."""
        part = self.entries(index)
        xp = array_namespace(part)
        rows = xp.empty(part.shape, self.work) if out is None else out[: part.shape[0]]
        if self.A.dtype.kind == "i":
            rows[...] = part
            if self.sign < 0:
                # The least int64 stays the same. It means "no edge", or `from_matrix` refused it.
                xp.subtract(0, rows, out=rows)
            rows[part == self.no_edge_entry] = self.no_edge
            return rows
        if self.sign > 0:
            rows[...] = part
        else:
            xp.subtract(0, part, out=rows)  # gives 0.0 for 0, because first calls leave -0.0 to compiled kernels
        return rows

    def raised_rows(self, index: slice | Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """Return some rows as `rows` does, with each weight w raised to w + ε |w|."""
        rows = self.rows(index, out)
        if self.epsilon:
            xp = array_namespace(rows)
            other = xp.multiply(rows, 1 + self.epsilon, out=None if scratch is None else scratch[: rows.shape[0]])
            rows *= 1 - self.epsilon
            xp.maximum(rows, other, out=rows)
        return rows

    def exact_weights(self, tails: list[int], heads: list[int]) -> list[int | Fraction]:
        """Return the exact weights of some edges, whose vertices are in the numbering of A."""
        from fractions import Fraction

        xp = array_namespace(self.A)
        values = to_host_array(self.A[xp.asarray(tails), xp.asarray(heads)]).tolist()
        # `Fraction` does not accept long doubles, which `tolist` does not convert.
        return [
            self.sign * (value if isinstance(value, int) else Fraction(*value.as_integer_ratio())) for value in values
        ]


def _has_whole_numbers(A: Array) -> bool:
    """Return whether every finite entry is a whole number, by a scan that stops early on the host."""
    rint = array_namespace(A).rint
    return not any_true((A[rows] != rint(A[rows])).any() for rows in pieces(A))


def relative_rounding(dtype: Any) -> float:
    """Return the distance from 1 to the next float of the dtype."""
    return float(float_limits(np.dtype(dtype)).eps)


def weight_rounding(dtype: np.dtype[Any], rounded_to: Any = None) -> float:
    """Return the ε for which w + ε |w|, in float64, is at least any number that rounds to the weight w.

    ``rounded_to`` is the dtype to which the weights were rounded, by default ``dtype``. Long doubles are rounded to
    float64.
    """
    units = 2 if dtype.itemsize >= 8 else 1  # the second unit covers the rounding of w + ε |w| itself
    return units * max(relative_rounding(rounded_to or dtype), relative_rounding(np.float64))


def roundings(epsilon: float) -> tuple[float, ...]:
    """Return each ε by which successive searches raise weights until no cycle gains, of which ``epsilon`` is the last.

    float16 and bfloat16 try the ε of float32 first, because they are computed in float32. Results under the ε of
    float16 or bfloat16 may have a relative error of that size.
    """
    computed = min(epsilon, relative_rounding(np.float32))
    return (computed, epsilon) if computed < epsilon else (epsilon,)


def finite_range(A: Array, sign: int) -> tuple[float, float]:
    """Return the least and the greatest finite weight in min-plus; (0, 0) without a finite weight."""
    xp = array_namespace(A)
    ends = xp.asarray([np.inf, -np.inf])
    for rows in pieces(A):
        least, greatest = _finite_ends(A[rows])
        ends[0], ends[1] = xp.minimum(ends[0], least), xp.maximum(ends[1], greatest)
    low, high = to_host_array(ends).tolist()  # the only wait for a device
    if low > high:
        return 0.0, 0.0
    return (low, high) if sign > 0 else (-high, -low)


def _finite_ends(part: Array) -> tuple[Any, Any]:
    """Return the least and the greatest finite entry, or ∞ and -∞, without a wait for a device."""
    xp = array_namespace(part)
    if xp is np:
        least, greatest = part.min(), part.max()
        if np.isfinite(least) and np.isfinite(greatest):  # finite entries take a quarter of the time
            return least, greatest
    finite = xp.isfinite(part)
    return xp.where(finite, part, np.inf).min(), xp.where(finite, part, -np.inf).max()


@cache
def negligible_amount(dtype: np.dtype[Any]) -> float:
    """Return a bound on the amount that can be added to any finite float of the dtype within its range."""
    limits = np.finfo(dtype)
    return float(limits.max) * float(limits.eps) / 8


def check_range(h: Array, low: float, high: float, dtype: np.dtype[Any]) -> None:
    """Raise `DomainError` if weights from ``low`` to ``high`` under potentials h ≤ 0 may leave the range of a float.

    float16 and bfloat16 are computed in float32; results beyond their own range become ∞ at the end.
    """
    dtype = np.dtype(np.float32) if is_half(dtype) else dtype
    least = float(h.min()) if h.size else 0.0  # at most 0
    if least >= -negligible_amount(dtype) or max(high, 0.0) / 2 - least / 2 < float(np.finfo(dtype).max) / 2:
        return
    raise DomainError(
        f"weights of both signs up to {max(-low, high):.4g} in size: their sums leave the range of {dtype}. "
        "Scale them down" + ("" if dtype == np.float64 else ", or use float64")
    )
