"""Potentials: a number for every vertex that makes all weights non-negative, or a negative cycle that forbids it.

Sources: D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", JACM 24 (1977); R. Bellman, "On
a routing problem" (1958); the order of a sweep after J. Y. Yen, "An algorithm for finding shortest routes from all
source nodes to a given destination", Quarterly of Applied Mathematics 27 (1970).

With h[j] = min over i of (h[i] + w[i, j]) for all j, every w[i, j] + h[i] - h[j] is ≥ 0, every path from i to j
becomes longer by the same h[i] - h[j], and every cycle keeps its weight. Without them, zero-weight cycles and
rounding make false negative pivots, and the distances of an elimination run away exponentially.

**Rounding.** A float is a rounded number: weights that are differences of heights sum to ±a few ulp around a cycle, not
to 0. So the sweeps see w + ε |w| in place of w, ε being that of the dtype that came in (float64 gets a margin for the
rounding of its own sums as well; with halves that of float32 is tried first, see `roundings`). A cycle counts as
negative exactly if its sum is below what the rounding of its own weights explains, -ε Σ |w|; that is decided again by
an exact sum before it is reported. Where every weight is a whole number nothing is rounded, and nothing is ignored.

Cost: O(n²) a sweep in float64 (int64 where sums of integers leave its 53 bits), a handful of sweeps on most dense
matrices; rows are relaxed again only while their vertex improves, upstream vertices first; workspace O(n). Small
matrices, and those that do not settle within some sweeps (a shortest path through most vertices, met in an unlucky
order), are closed once by elimination in float64, with a copy of the matrix, and the sweeps only put its rounding
right.

Hazards: a negative cycle of very many edges in a dense matrix is found only after about as many sweeps. One whose
weight is below the rounding of the potentials of its own vertices, 10⁻¹⁶ of a path that leads there, is not found: so
closures take each strong component alone (`components`), and `exact` where that rounding could drown a weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.bellman_ford import bellman_ford, rounded_up, swept
from semiring.algorithms.potentials.weights import Weights, relative_rounding, roundings
from semiring.algorithms.views import Array
from semiring.arrays.parts import on_host
from semiring.arrays.zero_conventions import minus_one_hint
from semiring.errors import NO_CLOSURE, DomainError, NegativeCycleError, PositiveCycleError, shown_cycle
from semiring.kernels import backend_for
from semiring.kernels.contract import PassKernels
from semiring.namespaces import array_namespace

__all__ = ["cycle_error", "potentials", "verified"]

_CHUNK = 1 << 15  # entries relaxed at a time: the temporary stays in the second-level cache
_ROUNDS = 8  # of improvements among the rows of a chunk
_SWEEPS_BEFORE_TREE = 2  # sweeps without the tree of predecessors: it costs an argmin, and most matrices settle first
_SMALL = 256  # up to this size an elimination costs less than the sweeps
_TOGETHER = 4  # sweeps between two questions to a device that has a kernel for them
_PATIENCE = 6  # sweeps' worth of relaxed rows, after which an elimination begins


def potentials(weights: Weights, close: Callable[[Array], bool] | None = None, most: int | None = None) -> Array:
    """Potentials h (n,) in the ``work`` dtype, all ≤ 0, with w[i, j] + h[i] - h[j] ≥ -ε |w[i, j]| for every edge.

    ``close(D)`` closes a min-plus float64 matrix in place and says whether every pivot was ≥ 0; without it there are
    only sweeps, and as many as it takes or what ``most`` readings of the matrix cost. Raises `NegativeCycleError` with
    the vertices of a negative cycle, as A counts them, and `DomainError` after ``most``. A is not changed.
    """
    loops = np.flatnonzero(_diagonal(weights) < 0)
    if loops.size and (error := verified(weights, weights.named([int(loops[0])]))):
        raise error
    *finer, _ = roundings(weights.epsilon)
    for epsilon in finer:
        sweeps = _sweeps(replace(weights, epsilon=epsilon), close, most)
        if not bellman_ford(sweeps):
            return sweeps.h
    sweeps = _sweeps(weights, close, most)
    while cycle := bellman_ford(sweeps):
        error = verified(weights, weights.named(cycle))
        if error is not None:
            raise error
        sweeps.widen_margin()  # rounding alone closed this cycle
    return sweeps.h


def _sweeps(weights: Weights, *asked: Any) -> _Potentials:
    capabilities = backend_for(weights.A, min_plus, weights.work).capabilities
    if capabilities.streams is not None:  # a sweep costs little there, compared with an elimination on the host
        return _WholeSweeps(weights, capabilities.passes, *asked)
    return _RowSweeps(weights, *asked)


def _diagonal(weights: Weights) -> Array:
    """The loops; 0 where there is none, or one of unbounded gain."""
    diagonal = on_host(weights.diagonal())
    loops = np.where(diagonal == weights.none, 0, diagonal.astype(weights.work) * weights.sign)
    return np.where(np.isneginf(loops), 0, loops) if weights.work.kind == "f" else loops


class _Potentials(ABC):
    """Potentials h (n,) while sweeps lower them, where the matrix lives; see `bellman_ford.Sweeps`.

    An elimination gives the start when more than ``budget`` rows have been relaxed; which vertex improved each is
    remembered from the sweep ``before_tree`` on.
    """

    def __init__(
        self, weights: Weights, budget: int, before_tree: int, close: Callable[[Array], bool] | None, most: int | None
    ) -> None:
        self.weights = weights
        self.h: Array = array_namespace(weights.A).zeros(weights.n, weights.work)
        # A product and a sum, each rounded once.
        self.margin = 2 * relative_rounding(np.float64) if weights.epsilon else 0.0
        self._close, self._most, self._budget, self._before_tree = close, most, budget, before_tree
        self._relaxed = self._sweeps = 0
        self._tree: Array | None = None

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether no edge improves anything any more."""

    @property
    def previous(self) -> Array:
        """The vertex from which each was improved last, -1 for none; (n,) on the host."""
        return np.full(len(self.h), -1) if self._tree is None else on_host(self._tree)

    def sweep(self) -> None:
        """Relax the rows that improved, or begin with an elimination where that has taken long enough."""
        if self._close is not None and self._relaxed > self._budget:
            self._start_from_closure(self._close)
            self._close = None
        if self._most is not None and self._relaxed > self._most * self.weights.n:
            raise DomainError(
                f"no potentials for the weights below 0 were found in {self._most} passes over the matrix: close it "
                "in the memory of one process"
            )
        if self._tree is None and self._sweeps >= self._before_tree:
            self._tree = array_namespace(self.h).full(len(self.h), -1, np.int64)
        self._relaxed += self._sweep(self._tree)
        self._sweeps += 1

    def widen_margin(self) -> None:
        """Ignore more of the rounding of sums, and begin a new tree."""
        self.margin *= 16
        self._tree = None

    @abstractmethod
    def _sweep(self, tree: Array | None) -> int:
        """Lower h; ``tree`` (n,), if there is one, is told which vertex improved each. Returns the work in rows."""

    @abstractmethod
    def _restart(self) -> None:
        """All rows count as improved."""

    def _start_from_closure(self, close: Callable[[Array], bool]) -> None:
        """Lower the potentials to what elimination finds, if it comes through."""
        xp, weights = array_namespace(self.h), self.weights
        integers = weights.work.kind == "i"
        D = xp.empty((weights.n, weights.n), np.float64)
        for rows in weights.pieces():
            part = weights.raised(rows, None if integers else D[rows])
            if integers:
                D[rows] = xp.where(part == weights.no_edge, np.inf, part)
        if self.margin:  # of the pivots' own rounding
            D -= 4 * self.margin * xp.minimum(D.min(), 0.0)
        vertices = xp.arange(weights.n)
        D[vertices, vertices] = 0.0
        if close(D):
            found = D.min(axis=0)
            self.h = xp.minimum(self.h, xp.rint(found).astype(np.int64) if integers else found)
            self._tree = None
            self._restart()


class _WholeSweeps(_Potentials):
    """Sweeps over whole matrices: where kernels only enqueue, picking rows is not worth a question to the device.

    Whether anything improved it is asked after each sweep, or after `_TOGETHER` where one kernel does a sweep. A sweep
    reads the matrix once; one that remembers a tree forms some float64 temporaries of a piece. A path of h edges
    settles within h sweeps, most within a few.
    """

    def __init__(self, weights: Weights, passes: PassKernels | None, *asked: Any) -> None:
        n = weights.n
        super().__init__(weights, max(_PATIENCE, n // 100) * n, max(_PATIENCE, n // 400), *asked)
        self._unsettled = n > 0
        floating = weights.vertices is None and weights.A.dtype.kind == "f" and weights.A.dtype.itemsize >= 4
        self._passes = passes if floating else None

    @property
    def settled(self) -> bool:
        """Whether the last sweeps improved nothing."""
        return not self._unsettled

    def _restart(self) -> None:
        self._unsettled = True

    def _sweep(self, tree: Array | None) -> int:
        before = self.h
        for _ in range(1 if self._passes is None or tree is not None else _TOGETHER):
            self.h = swept(self.h, self.weights, self._passes, self.margin, tree)
        self._unsettled = bool((self.h < before).any())
        return len(before)


class _RowSweeps(_Potentials):
    """Sweeps over the rows that improved since they were last relaxed, a chunk of rows at a time, on the host."""

    def __init__(self, weights: Weights, *asked: Any) -> None:
        n = weights.n
        super().__init__(weights, -1 if n <= _SMALL else _PATIENCE * n, _SWEEPS_BEFORE_TREE, *asked)
        self._dirty = np.ones(n, bool)
        self._step = min(n, max(1, _CHUNK // max(1, n)))
        self._rows, self._scratch = np.empty((2, self._step, n), weights.work)

    @property
    def settled(self) -> bool:
        """Whether all rows have been relaxed since they improved."""
        return not self._dirty.any()

    def _restart(self) -> None:
        self._dirty[:] = True

    def _sweep(self, tree: Array | None) -> int:
        """Every dirty row once, high potentials first: along a path they mostly fall."""
        order = np.flatnonzero(self._dirty)
        order = order[np.argsort(-self.h[order], kind="stable")]
        for start in range(0, order.size, self._step):
            index = order[start : start + self._step]
            first, last = int(index[0]), int(index[-1])
            contiguous = last - first == index.size - 1 and bool((np.diff(index) == 1).all())
            self._relax(slice(first, last + 1) if contiguous else index, index, tree)
        return order.size + len(self.h) // 64  # something for every sweep

    def _relax(self, rows: slice | Array, index: Array, tree: Array | None) -> None:
        h = self.h
        candidates = self.weights.raised(rows, self._rows, self._scratch)
        self._dirty[index] = False
        if index.size > 1:
            self._settle(candidates[:, rows], index, tree)
        candidates += rounded_up(h[index], self.margin)[:, np.newaxis]
        best = candidates.min(axis=0)
        improved = np.flatnonzero(best < h)
        if improved.size:
            h[improved] = best[improved]
            self._dirty[improved] = True
            if tree is not None:
                tree[improved] = index[candidates[:, improved].argmin(axis=0)]

    def _settle(self, inner: Array, index: Array, tree: Array | None) -> None:
        """Let the rows of a chunk improve each other first: a path that stays inside needs no second sweep."""
        local = self.h[index]
        for _ in range(min(_ROUNDS, index.size)):
            candidates = inner + rounded_up(local, self.margin)[:, np.newaxis]
            best = candidates.min(axis=0)
            improved = np.flatnonzero(best < local)
            if not improved.size:
                break
            local[improved] = best[improved]
            if tree is not None:
                tree[index[improved]] = index[candidates[:, improved].argmin(axis=0)]
        self.h[index] = local


def verified(weights: Weights, cycle: list[int]) -> NegativeCycleError | None:
    """The error for a cycle whose exact sum is below what rounding explains; None for any other.

    The cycle is one of vertices of A; the error names it as the caller walks it.
    """
    if weights.turned:
        weights, cycle = replace(weights, A=weights.A.T), cycle[::-1]
    heads = [*cycle[1:], cycle[0]]
    exact = dict(zip(zip(cycle, heads, strict=True), weights.exact(cycle, heads), strict=True))
    A, hint = weights.A, ""
    if weights.sign > 0 and isinstance(A, np.ndarray) and not (A.diagonal() < 0).any():
        hint = minus_one_hint(A, integers=A.dtype.kind == "i")
    return cycle_error(cycle, lambda i, j: exact[i, j], weights.sign, weights.epsilon, hint)


def cycle_error(
    cycle: list[int], weight: Callable[[int, int], int | Fraction], sign: int, epsilon: float, hint: str = ""
) -> NegativeCycleError | None:
    """Return `NegativeCycleError` if Σ w < -ε Σ |w| around ``cycle``, exactly; the first vertex is the smallest.

    The message ends with the ``hint``.
    """
    first = cycle.index(min(cycle))
    cycle = [*cycle[first:], *cycle[:first]]
    terms = [Fraction(weight(i, j)) for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    total = sum(terms, Fraction(0))
    allowance = Fraction(epsilon) * sum(map(abs, terms), Fraction(0))
    if total >= -allowance:
        return None
    amount = total * sign
    weight_shown = str(amount) if amount.denominator == 1 else f"{float(amount):.6g}"
    return (NegativeCycleError if sign > 0 else PositiveCycleError)(
        f"the cycle {shown_cycle(cycle)} of {len(cycle)} edge{'s' if len(cycle) > 1 else ''} has the weight "
        f"{weight_shown}, {'below' if sign > 0 else 'above'} 0: going round it improves without end, so {NO_CLOSURE}"
        f"{hint}",
        cycle,
    )
