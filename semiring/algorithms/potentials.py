"""Potentials: a number for every vertex that makes all weights non-negative, or a negative cycle that forbids it.

Sources: D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", JACM 24 (1977); R. Bellman, "On
a routing problem" (1958); the order of a sweep after J. Y. Yen, "An algorithm for finding shortest routes from all
source nodes to a given destination", Quarterly of Applied Mathematics 27 (1970).

With h[j] = min over i of (h[i] + w[i, j]) for all j, every w[i, j] + h[i] - h[j] is ≥ 0, every path from i to j
becomes longer by the same h[i] - h[j], and every cycle keeps its weight. Without them, zero-weight cycles and
rounding make false negative pivots, and the distances of an elimination run away exponentially.

**Rounding.** A float is a rounded number: weights that are differences of heights sum to ±a few ulp around a cycle, not
to 0. So the sweeps see w + ε |w| in place of w, ε being that of the dtype that came in (float64 gets a margin for the
rounding of its own sums as well). A cycle counts as negative exactly if its sum is below what the rounding of its own
weights explains, -ε Σ |w|; that is decided again by an exact sum before it is reported. Where every weight is a whole
number nothing is rounded, and nothing is ignored.

Cost: O(n²) a sweep in float64 (int64 where sums of integers leave its 53 bits), a handful of sweeps on most dense
matrices; rows are relaxed again only while their vertex improves, upstream vertices first; workspace O(n). Small
matrices, and those that do not settle within some sweeps (a shortest path through most vertices, met in an unlucky
order), are closed once by elimination in float64, with a copy of the matrix, and the sweeps only put its rounding
right.

Hazards: a negative cycle of very many edges in a dense matrix is found only after about as many sweeps. One whose
weight is below the rounding of the potentials of its own vertices, 10⁻¹⁶ of a path that leads there, is not found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from semiring.errors import IntegerOverflowError, NegativeCycleError

__all__ = ["Weights", "cycle_error", "find_cycle", "potentials"]

Array: TypeAlias = NDArray[Any]

_CHUNK = 1 << 15  # entries relaxed at a time: the temporary stays in the second-level cache
_ROUNDS = 8  # of improvements among the rows of a chunk
_SWEEPS_BEFORE_TREE = 2  # sweeps without the tree of predecessors: it costs an argmin, and most matrices settle first
_SMALL = 256  # up to this size an elimination costs less than the sweeps
_PATIENCE = 6  # sweeps' worth of relaxed rows, after which an elimination begins

# A potential is at least -n |w|, w being the most negative weight, and at most some ten times that before a negative
# cycle closes the tree: with these limits no sum is rounded in float64, and none wraps in int64.
_EXACT_FLOAT = 2.0**49
_EXACT_INTEGER = 2**58
_LARGEST_INTEGER = 2**61


@dataclass(frozen=True)
class Weights:
    """A matrix as the sweeps see it: min-plus weights in ``work`` dtype, `no_edge` where there is none.

    A max-plus matrix is the min-plus matrix of its negatives. An edge of unbounded gain (-∞ in min-plus) counts as
    none: it is treated on its own (see `unbounded`).
    """

    A: Array
    sign: int  # +1 for min-plus, -1 for max-plus
    none: Any  # "no edge" in A
    work: np.dtype[Any]  # float64 or int64
    epsilon: float  # relative rounding of an entry; 0 where every entry is exact
    unbounded: bool = False  # whether A has edges of unbounded gain

    @classmethod
    def of(cls, A: Array, sign: int, none: Any, low: Any, high: Any, unbounded: bool = False) -> Weights:
        """For a matrix whose finite entries lie in [low, high]."""
        n, lowest, highest = A.shape[0], *((low, high) if sign > 0 else (-high, -low))
        exact_in_float = max(-lowest, highest) * (n + 1) < _EXACT_FLOAT
        if A.dtype.kind == "i":
            if not exact_in_float and (-lowest * n >= _EXACT_INTEGER or highest >= _LARGEST_INTEGER):
                raise IntegerOverflowError(
                    f"paths of {n} edges of weights from {low} to {high} leave the range of int64: use float64"
                )
            return cls(A, sign, none, np.dtype(np.float64 if exact_in_float else np.int64), 0.0)
        whole = exact_in_float and _whole_numbers(A)
        units = 2 if A.dtype == np.float64 else 1  # the second covers the rounding of w + ε |w| itself
        return cls(A, sign, none, np.dtype(np.float64), 0.0 if whole else units * _epsilon(A.dtype), unbounded)

    @property
    def no_edge(self) -> Any:
        return np.inf if self.work.kind == "f" else np.iinfo(np.int64).max

    def rows(self, index: slice | Array, out: Array | None = None) -> Array:
        """The weights of some rows, in a new array or in the first rows of ``out``."""
        part = self.A[index]
        rows = np.empty(part.shape, self.work) if out is None else out[: part.shape[0]]
        if self.A.dtype.kind == "i":
            rows[...] = part
            rows *= self.sign  # the least int64 stays itself: it is "no edge", or `of` has refused it
            rows[part == self.none] = self.no_edge
            return rows
        if self.sign > 0:
            rows[...] = part
        else:
            np.negative(part, out=rows)
        if self.unbounded:
            rows[rows == -np.inf] = np.inf
        return rows

    def raised(self, index: slice | Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """`rows`, each weight w raised to w + ε |w|."""
        rows = self.rows(index, out)
        if self.epsilon:
            other = np.multiply(rows, 1 + self.epsilon, out=None if scratch is None else scratch[: rows.shape[0]])
            rows *= 1 - self.epsilon
            np.maximum(rows, other, out=rows)
        return rows

    def exact(self, i: int, j: int) -> int | Fraction:
        """One weight, exactly."""
        value = self.A[i, j].item()
        return self.sign * (value if isinstance(value, int) else Fraction(value))


def _whole_numbers(A: Array) -> bool:
    """Whether every finite entry is a whole number; stops at the first piece where one is not."""
    step = max(1, _CHUNK // max(1, A.shape[1]))
    for start in range(0, A.shape[0], step):
        piece = A[start : start + step]
        if not (piece == np.rint(piece)).all():
            return False
    return True


def _epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def potentials(weights: Weights, close: Callable[[Array], bool] | None = None) -> Array:
    """Potentials h (n,) in the ``work`` dtype, all ≤ 0, with w[i, j] + h[i] - h[j] ≥ -ε |w[i, j]| for every edge.

    ``close(D)`` closes a min-plus float64 matrix in place and says whether every pivot was ≥ 0; without it there are
    only sweeps. Raises `NegativeCycleError` with the vertices of a negative cycle. A is not changed.
    """
    n = weights.A.shape[0]
    loops = np.flatnonzero(_diagonal(weights) < 0)
    if loops.size and (error := _verified(weights, [int(loops[0])])):
        raise error
    solver = _Sweeps(weights)
    sweeps, budget = 0, 0 if n <= _SMALL else _PATIENCE * n
    while solver.dirty.any():
        if close is not None and solver.relaxed > budget:
            solver.start_from_closure(close)
            close = None
        solver.sweep(remember=sweeps >= _SWEEPS_BEFORE_TREE)
        sweeps += 1
        cycle = find_cycle(solver.previous)
        if cycle:
            error = _verified(weights, cycle)
            if error is not None:
                raise error
            solver.widen_margin()  # rounding alone closed this cycle
    return solver.h


def _diagonal(weights: Weights) -> Array:
    """The loops; 0 where there is none, or one of unbounded gain."""
    diagonal = weights.A.diagonal()
    loops = np.where(diagonal == weights.none, 0, diagonal.astype(weights.work) * weights.sign)
    return np.where(np.isneginf(loops), 0, loops) if weights.work.kind == "f" else loops


class _Sweeps:
    """Bellman-Ford on all rows that improved since they were last relaxed, a chunk of rows at a time."""

    def __init__(self, weights: Weights) -> None:
        n = weights.A.shape[0]
        self.weights = weights
        self.h: Array = np.zeros(n, weights.work)
        self.dirty = np.ones(n, bool)
        self.previous = np.full(n, -1)
        self.relaxed = 1 if n <= _SMALL else 0  # rows relaxed so far, and something for every sweep
        self._margin = 2 * _epsilon(np.float64) if weights.epsilon else 0.0  # a product and a sum, each rounded once
        self._step = min(n, max(1, _CHUNK // max(1, n)))
        self._rows, self._scratch = np.empty((2, self._step, n), weights.work)

    def widen_margin(self) -> None:
        """Ignore more of the rounding of sums, and begin a new tree."""
        self._margin *= 16
        self.previous[:] = -1

    def start_from_closure(self, close: Callable[[Array], bool]) -> None:
        """Lower the potentials to what elimination finds, if it comes through."""
        n = len(self.h)
        D = np.empty((n, n))
        low = 0.0
        for start in range(0, n, self._step):
            rows = slice(start, start + self._step)
            D[rows] = self.weights.raised(rows, self._rows, self._scratch)
            low = min(low, float(D[rows].min()))
            if self.weights.work.kind == "i":
                D[rows][D[rows] >= float(self.weights.no_edge)] = np.inf
        if self._margin:  # of the pivots' own rounding
            D += 4 * self._margin * -low
        np.fill_diagonal(D, 0.0)
        if close(D):
            np.minimum(
                self.h,
                np.rint(D.min(axis=0)) if self.weights.work.kind == "i" else D.min(axis=0),
                out=self.h,
                casting="unsafe",
            )
            self.dirty[:] = True
            self.previous[:] = -1

    def sweep(self, remember: bool) -> None:
        """Relax every dirty row once, high potentials first: along a path they mostly fall."""
        order = np.flatnonzero(self.dirty)
        order = order[np.argsort(-self.h[order], kind="stable")]
        self.relaxed += order.size + self.h.size // 64
        for start in range(0, order.size, self._step):
            index = order[start : start + self._step]
            first, last = int(index[0]), int(index[-1])
            contiguous = last - first == index.size - 1 and bool((np.diff(index) == 1).all())
            self._relax(slice(first, last + 1) if contiguous else index, index, remember)

    def _rounded_up(self, h: Array) -> Array:
        """Potentials raised by what a sum with them may lose: each by its own, for other parts may be far smaller."""
        return h * (1 - self._margin) if self._margin else h

    def _relax(self, rows: slice | Array, index: Array, remember: bool) -> None:
        h = self.h
        candidates = self.weights.raised(rows, self._rows, self._scratch)
        self.dirty[index] = False
        if index.size > 1:
            self._settle(candidates[:, rows], index, remember)
        candidates += self._rounded_up(h[index])[:, np.newaxis]
        best = candidates.min(axis=0)
        improved = np.flatnonzero(best < h)
        if improved.size:
            h[improved] = best[improved]
            self.dirty[improved] = True
            if remember:
                self.previous[improved] = index[candidates[:, improved].argmin(axis=0)]

    def _settle(self, inner: Array, index: Array, remember: bool) -> None:
        """Let the rows of a chunk improve each other first: a path that stays inside needs no second sweep."""
        local = self.h[index]
        for _ in range(min(_ROUNDS, index.size)):
            candidates = inner + self._rounded_up(local)[:, np.newaxis]
            best = candidates.min(axis=0)
            improved = np.flatnonzero(best < local)
            if not improved.size:
                break
            local[improved] = best[improved]
            if remember:
                self.previous[index[improved]] = index[candidates[:, improved].argmin(axis=0)]
        self.h[index] = local


def find_cycle(previous: Array) -> list[int]:
    """The vertices of one cycle of the graph v ← previous[v] (-1: none), in the order of the edges; [] without one."""
    n = len(previous)
    jump = np.append(np.where(previous < 0, n, previous), n)
    for _ in range(max(1, n.bit_length())):
        jump = jump[jump]
    on_cycle = np.flatnonzero(jump[:n] < n)
    if not on_cycle.size:
        return []
    start = int(jump[on_cycle[0]])
    cycle, vertex = [start], int(previous[start])
    while vertex != start:
        cycle.append(vertex)
        vertex = int(previous[vertex])
    return cycle[::-1]


def _verified(weights: Weights, cycle: list[int]) -> NegativeCycleError | None:
    """The error for a cycle whose exact sum is below what rounding explains; None for any other cycle."""
    return cycle_error(cycle, weights.exact, weights.sign, weights.epsilon)


def cycle_error(
    cycle: list[int], weight: Callable[[int, int], int | Fraction], sign: int, epsilon: float
) -> NegativeCycleError | None:
    """`NegativeCycleError` if Σ w < -ε Σ |w| around ``cycle``, exactly; the first vertex is the smallest."""
    first = cycle.index(min(cycle))
    cycle = [*cycle[first:], *cycle[:first]]
    terms = [Fraction(weight(i, j)) for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    total = sum(terms, Fraction(0))
    allowance = Fraction(epsilon) * sum(map(abs, terms), Fraction(0))
    if total >= -allowance:
        return None
    shown = " → ".join(str(vertex) for vertex in (*cycle[:12], *(["…"] if len(cycle) > 12 else []), cycle[0]))
    amount = total * sign
    weight_shown = str(amount) if amount.denominator == 1 else f"{float(amount):.6g}"
    return NegativeCycleError(
        f"the cycle {shown} of {len(cycle)} edge{'s' if len(cycle) > 1 else ''} has the weight {weight_shown}, "
        f"{'below' if sign > 0 else 'above'} 0: going round it improves without end, so no closure exists",
        cycle,
    )
