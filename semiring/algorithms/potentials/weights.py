"""A min-plus or max-plus matrix as shortest-path algorithms see it: weights of one sign convention in a wide dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from semiring.algebra.expressions.tree import float_limits, is_half
from semiring.algorithms.views import Array
from semiring.arrays.parts import any_true, on_host, pieces
from semiring.errors import DomainError, IntegerOverflowError
from semiring.namespaces import array_namespace

__all__ = [
    "Weights",
    "check_range",
    "finite_range",
    "negligible",
    "relative_rounding",
    "roundings",
    "weight_rounding",
]

# A potential is at least -n |w|, w being the most negative weight, and at most some ten times that before a negative
# cycle closes the tree: with these limits no sum is rounded in float64, and none wraps in int64.
_EXACT_FLOAT = 2.0**49
_EXACT_INTEGER = 2**58
_LARGEST_INTEGER = 2**61


@dataclass(frozen=True)
class Weights:
    """A matrix as the sweeps of Bellman-Ford see it: weights of min-plus in the dtype ``work``.

    Where there is no edge they are `no_edge`. A max-plus matrix is the min-plus matrix of its negatives. An edge of
    unbounded gain (-∞ in min-plus) counts as no edge, because it is inserted later (`unbounded`).
    """

    A: Array
    sign: int  # +1 for min-plus, -1 for max-plus
    none: Any  # "no edge" in A
    work: np.dtype[Any]  # float64 or int64
    epsilon: float  # relative rounding of an entry; 0 where every entry is exact
    unbounded: bool = False  # whether A has edges of unbounded gain
    range: tuple[Any, Any] = (0, 0)  # the least and the greatest weight, but for edges of unbounded gain
    vertices: Any = None  # (n,) where A lives: which rows and columns these are; None is all of A, in order
    turned: bool = False  # whether the edges of A are the caller's, reversed

    @classmethod
    def of(
        cls,
        A: Array,
        sign: int,
        none: Any,
        low: Any,
        high: Any,
        unbounded: bool = False,
        turned: bool = False,
        rounded_to: Any = None,
    ) -> Weights:
        """The weights of a matrix, of which the finite ones lie in [low, high] as min-plus sees them.

        ``rounded_to``: the dtype whose rounding the entries bring, by default that of A.
        """
        n, exact_in_float = A.shape[0], max(-low, high) * (A.shape[0] + 1) < _EXACT_FLOAT
        work: np.dtype[Any] = np.dtype(np.float64)
        epsilon = 0.0
        if A.dtype.kind != "i":
            if not (exact_in_float and _whole_numbers(A)):
                epsilon = weight_rounding(A.dtype, rounded_to)
        elif not exact_in_float:
            work = np.dtype(np.int64)
            if -low * n >= _EXACT_INTEGER or high >= _LARGEST_INTEGER:
                least, greatest = sorted((sign * low, sign * high))
                raise IntegerOverflowError(
                    f"paths of {n} edges of weights from {least} to {greatest} leave the range of int64: use float64"
                )
        return cls(A, sign, none, work, epsilon, unbounded, (low, high), turned=turned)

    @property
    def plain(self) -> bool:
        """Whether they are A itself."""
        return self.vertices is None and self.sign > 0

    @property
    def n(self) -> int:
        """How many vertices there are."""
        return int(self.A.shape[0] if self.vertices is None else self.vertices.shape[0])

    @property
    def no_edge(self) -> Any:
        return np.inf if self.work.kind == "f" else np.iinfo(np.int64).max

    def pieces(self) -> Iterator[slice]:
        """Ranges of rows that cover the weights, a piece at a time."""
        for rows in pieces(self.A):
            if rows.start < self.n:
                yield slice(rows.start, min(rows.stop, self.n))

    def part(self, index: slice | Array) -> Array:
        """Some rows as they are in A."""
        return self.A[index] if self.vertices is None else self.A[self.vertices[index]][:, self.vertices]

    def diagonal(self) -> Array:
        """The loops as they are in A."""
        return self.A.diagonal() if self.vertices is None else self.A[self.vertices, self.vertices]

    def named(self, vertices: list[int]) -> list[int]:
        """Vertices as A counts them."""
        return vertices if self.vertices is None else [int(self.vertices[vertex]) for vertex in vertices]

    def rows(self, index: slice | Array, out: Array | None = None) -> Array:
        """The weights of some rows, in a new array or in the first rows of ``out``."""
        part = self.part(index)
        xp = array_namespace(part)
        rows = xp.empty(part.shape, self.work) if out is None else out[: part.shape[0]]
        if self.A.dtype.kind == "i":
            rows[...] = part
            if self.sign < 0:
                xp.subtract(0, rows, out=rows)  # no -0.0; the least int64 stays itself: "no edge", or `of` refused it
            rows[part == self.none] = self.no_edge
            return rows
        if self.sign > 0:
            rows[...] = part
        else:
            xp.subtract(0, part, out=rows)  # of 0 not -0.0, which first calls leave to compiled kernels
        if self.unbounded:
            rows[rows == -np.inf] = np.inf
        return rows

    def raised(self, index: slice | Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """`rows`, each weight w raised to w + ε |w|."""
        rows = self.rows(index, out)
        if self.epsilon:
            xp = array_namespace(rows)
            other = xp.multiply(rows, 1 + self.epsilon, out=None if scratch is None else scratch[: rows.shape[0]])
            rows *= 1 - self.epsilon
            xp.maximum(rows, other, out=rows)
        return rows

    def exact(self, tails: list[int], heads: list[int]) -> list[int | Fraction]:
        """Some weights, exactly; of vertices as A counts them."""
        xp = array_namespace(self.A)
        values = on_host(self.A[xp.asarray(tails), xp.asarray(heads)]).tolist()
        # `Fraction` takes no long doubles, which `tolist` leaves as they are.
        return [
            self.sign * (value if isinstance(value, int) else Fraction(*value.as_integer_ratio())) for value in values
        ]


def _whole_numbers(A: Array) -> bool:
    """Whether every finite entry is a whole number; the host stops at the first piece where one is not."""
    rint = array_namespace(A).rint
    return not any_true((A[rows] != rint(A[rows])).any() for rows in pieces(A))


def relative_rounding(dtype: Any) -> float:
    """The distance from 1 to the next float of the dtype."""
    return float(float_limits(np.dtype(dtype)).eps)


def weight_rounding(dtype: np.dtype[Any], rounded_to: Any = None) -> float:
    """ε of a weight w of a dtype: in float64 w + ε |w| is no less than what was rounded to w.

    ``rounded_to``: the dtype whose rounding the weights bring, by default their own. Long doubles are rounded to
    float64.
    """
    units = 2 if dtype.itemsize >= 8 else 1  # the second covers the rounding of w + ε |w| itself
    return units * max(relative_rounding(rounded_to or dtype), relative_rounding(np.float64))


def roundings(epsilon: float) -> tuple[float, ...]:
    """The ε by which one search after the other raises weights, until no cycle gains; ``epsilon`` is the last.

    Halves are raised by the ε of float32 first, in which they are computed: what is raised by their own may be off by
    as much.
    """
    computed = min(epsilon, relative_rounding(np.float32))
    return (computed, epsilon) if computed < epsilon else (epsilon,)


def finite_range(A: Array, sign: int) -> tuple[float, float]:
    """The least and the greatest finite weight as min-plus sees them, (0, 0) without one."""
    xp = array_namespace(A)
    ends = xp.asarray([np.inf, -np.inf])
    for rows in pieces(A):
        least, greatest = _ends(A[rows])
        ends[0], ends[1] = xp.minimum(ends[0], least), xp.maximum(ends[1], greatest)
    low, high = on_host(ends).tolist()  # one wait for all pieces
    if low > high:
        return 0.0, 0.0
    return (low, high) if sign > 0 else (-high, -low)


def _ends(part: Array) -> tuple[Any, Any]:
    """The least and the greatest finite entry; ∞ and -∞ without one. A device is not waited for."""
    xp = array_namespace(part)
    if xp is np:
        least, greatest = part.min(), part.max()
        if np.isfinite(least) and np.isfinite(greatest):  # a quarter of the time
            return least, greatest
    finite = xp.isfinite(part)
    return xp.where(finite, part, np.inf).min(), xp.where(finite, part, -np.inf).max()


@cache
def negligible(dtype: np.dtype[Any]) -> float:
    """What may be added to any finite float of the dtype without leaving its range."""
    limits = np.finfo(dtype)
    return float(limits.max) * float(limits.eps) / 8


def check_range(h: Array, low: float, high: float, dtype: np.dtype[Any]) -> None:
    """Raise `DomainError` where weights from ``low`` to ``high`` under potentials h ≤ 0 might leave a float's range.

    Halves are computed in float32, and what is beyond their own range is ∞ at the end.
    """
    dtype = np.dtype(np.float32) if is_half(dtype) else dtype
    least = float(h.min()) if h.size else 0.0  # at most 0
    if least >= -negligible(dtype) or max(high, 0.0) / 2 - least / 2 < float(np.finfo(dtype).max) / 2:
        return
    raise DomainError(
        f"weights of both signs up to {max(-low, high):.4g} in size: their sums leave the range of {dtype}. "
        "Scale them down" + ("" if dtype == np.float64 else ", or use float64")
    )
