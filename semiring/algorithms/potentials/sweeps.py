"""Compute potentials by sweeps of Bellman-Ford, or find a negative cycle, which forbids potentials.

Sources: D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", JACM 24 (1977); R. Bellman, "On
a routing problem" (1958); the order of a sweep after J. Y. Yen, "An algorithm for finding shortest routes from all
source nodes to a given destination", Quarterly of Applied Mathematics 27 (1970).

With h[j] = min over i of (h[i] + w[i, j]) for all j, every w[i, j] + h[i] - h[j] is ≥ 0. Every path from i to j becomes
longer by the same h[i] - h[j], and every cycle keeps its weight. Without potentials, zero-weight cycles and rounding
make false negative pivots, and the distances of an elimination diverge exponentially.

**Rounding.** A float is a rounded number: weights that are differences of heights sum to ±a few ulp around a cycle, not
to 0. The sweeps therefore use w + ε |w| in place of w, with the ε of the original dtype. float64 has an additional
margin for the rounding of its own sums. float16 and bfloat16 try the ε of float32 first, see `roundings`. A cycle is
negative if and only if its sum is below -ε Σ |w|, the rounding of its own weights. An exact sum confirms this before
the cycle is reported. If every weight is a whole number, nothing is rounded, and nothing is ignored.

Cost: O(n²) a sweep in float64 (int64 where sums of integers exceed its 53 bits), a handful of sweeps on most dense
matrices; workspace O(n). Rows are relaxed again only while their vertex improves, upstream vertices first. Some
matrices do not settle within some sweeps, for example if a shortest path visits most vertices in an unfavourable order.
These and small matrices are closed once by elimination in float64, with a copy of the matrix. The sweeps then only
correct the rounding of the elimination.

Hazards: a negative cycle of very many edges in a dense matrix is found only after about one sweep for each edge. A
cycle is not found if its weight is below the rounding of the potentials of its own vertices, which is 10⁻¹⁶ times the
length of a path to the cycle.
Closures therefore treat each strong component separately (`components`), and use `exact_arithmetic` where that rounding
could drown a weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from semiring.algebra.catalogue import min_plus
from semiring.algorithms.bellman_ford import bellman_ford, raise_by_margin, sweep_lengths
from semiring.algorithms.potentials.tropical_weights import Weights, relative_rounding, roundings
from semiring.arrays.parts import to_host_array
from semiring.errors import NO_CLOSURE, DomainError, NegativeCycleError, PositiveCycleError, cycle_text
from semiring.kernels import backend_for
from semiring.kernels.contract import PassKernels
from semiring.namespaces import Array, array_namespace

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["cycle_error", "exact_cycle_error", "potentials"]

_CHUNK = 1 << 15  # entries of a chunk of rows, whose temporary stays in the second-level cache
_ROUNDS = 8  # rounds of improvements among the rows of a chunk
_SWEEPS_BEFORE_TREE = 2  # sweeps without the tree of predecessors, whose argmin most matrices avoid, as they settle
_SMALL = 256  # up to this size an elimination costs less than the sweeps
_SWEEPS_PER_READ = 4  # sweeps between two reads of the result, on a device with a kernel for sweeps
_PATIENCE = 6  # an elimination begins after this number of relaxed rows, in multiples of n


def potentials(weights: Weights, close: Callable[[Array], bool] | None = None, max_passes: int | None = None) -> Array:
    """Return potentials h (n,) in the ``work`` dtype, with h ≤ 0 and w[i, j] + h[i] - h[j] ≥ -ε |w[i, j]|.

    Parameters
    ----------
    weights
        The weights; the matrix is not changed.
    close
        ``close(D)`` closes a min-plus float64 matrix in place, and returns whether every pivot was ≥ 0. Without it,
        only sweeps are used.
    max_passes
        The limit of the passes over the matrix, by default none.

    Raises
    ------
    NegativeCycleError
        With the vertices of a negative cycle, in the numbering of A.
    DomainError
        After ``max_passes`` passes.
    """
    loops = np.flatnonzero(_diagonal(weights) < 0)
    if loops.size and (error := exact_cycle_error(weights, weights.original_vertices([int(loops[0])]))):
        raise error
    *finer, _ = roundings(weights.epsilon)
    for epsilon in finer:
        sweeps = _make_sweeps(replace(weights, epsilon=epsilon), close, max_passes)
        if not bellman_ford(sweeps):
            return sweeps.h
    sweeps = _make_sweeps(weights, close, max_passes)
    while cycle := bellman_ford(sweeps):
        error = exact_cycle_error(weights, weights.original_vertices(cycle))
        if error is not None:
            raise error
        sweeps.widen_margin()  # only rounding makes this cycle negative
    return sweeps.h


def _make_sweeps(weights: Weights, close: Callable[[Array], bool] | None, max_passes: int | None) -> _Potentials:
    capabilities = backend_for(weights.A, min_plus, weights.work).capabilities
    if capabilities.streams is not None:  # on a GPU a sweep costs little, compared with an elimination on the host
        return _FullMatrixSweeps(weights, capabilities.passes, close, max_passes)
    return _RowSweeps(weights, close, max_passes)


def _diagonal(weights: Weights) -> Array:
    """Return the weights of the loops, with 0 for an absent loop and for a loop of unbounded gain."""
    diagonal = to_host_array(weights.diagonal())
    loops = np.where(diagonal == weights.no_edge_entry, 0, diagonal.astype(weights.work) * weights.sign)
    return np.where(np.isneginf(loops), 0, loops) if weights.work.kind == "f" else loops


class _Potentials(ABC):
    """The potentials h (n,) on the device of the matrix, lowered by sweeps; see `bellman_ford.Sweeps`.

    An elimination provides new labels when more than ``budget`` rows have been relaxed. After ``sweeps_before_tree``
    sweeps, each sweep records the vertex that improved each potential.
    """

    def __init__(
        self,
        weights: Weights,
        budget: int,
        sweeps_before_tree: int,
        close: Callable[[Array], bool] | None,
        max_passes: int | None,
    ) -> None:
        self.weights = weights
        self.h: Array = array_namespace(weights.A).zeros(weights.n, weights.work)
        # The margin covers a product and a sum, each rounded once.
        self.margin = 2 * relative_rounding(np.float64) if weights.epsilon else 0.0
        self._close, self._max_passes = close, max_passes
        self._budget, self._sweeps_before_tree = budget, sweeps_before_tree
        self._relaxed_rows = self._sweeps = 0
        self._tree: Array | None = None

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Return whether no edge can improve a potential."""

    @property
    def predecessors(self) -> Array:
        """Return the vertex that improved each potential last, or -1, as an array (n,) on the host."""
        return np.full(len(self.h), -1) if self._tree is None else to_host_array(self._tree)

    def sweep(self) -> None:
        """Relax the rows that improved, after an elimination where the budget of rows is spent."""
        if self._close is not None and self._relaxed_rows > self._budget:
            self._start_from_closure(self._close)
            self._close = None
        if self._max_passes is not None and self._relaxed_rows > self._max_passes * self.weights.n:
            raise DomainError(
                f"no potentials for the weights below 0 were found in {self._max_passes} passes over the matrix: "
                "close it in the memory of one process"
            )
        if self._tree is None and self._sweeps >= self._sweeps_before_tree:
            self._tree = array_namespace(self.h).full(len(self.h), -1, np.int64)
        self._relaxed_rows += self._sweep(self._tree)
        self._sweeps += 1

    def widen_margin(self) -> None:
        """Widen the margin for the rounding of sums, and begin a new tree."""
        self.margin *= 16
        self._tree = None

    @abstractmethod
    def _sweep(self, tree: Array | None) -> int:
        """Lower h, and return the work in rows.

        ``tree`` (n,), if given, receives the vertex that improved each potential.
        """

    @abstractmethod
    def _restart(self) -> None:
        """Mark all rows as improved."""

    def _start_from_closure(self, close: Callable[[Array], bool]) -> None:
        """Lower the potentials to those of an elimination, if all its pivots are ≥ 0."""
        xp, weights = array_namespace(self.h), self.weights
        integers = weights.work.kind == "i"
        D = xp.empty((weights.n, weights.n), np.float64)
        for rows in weights.pieces():
            part = weights.raised_rows(rows, None if integers else D[rows])
            if integers:
                D[rows] = xp.where(part == weights.no_edge, np.inf, part)
        if self.margin:  # a tolerance for the rounding of the pivots
            D -= 4 * self.margin * xp.minimum(D.min(), 0.0)
        vertices = xp.arange(weights.n)
        D[vertices, vertices] = 0.0
        if close(D):
            minima = D.min(axis=0)
            self.h = xp.minimum(self.h, xp.rint(minima).astype(np.int64) if integers else minima)
            self._tree = None
            self._restart()


class _FullMatrixSweeps(_Potentials):
    """Sweeps over whole matrices, for devices whose kernels are enqueued, where a selection of rows would need a wait.

    The host reads whether h has improved after each sweep, or after `_SWEEPS_PER_READ` sweeps if one kernel computes a
    sweep. A sweep reads the matrix once. A sweep that records a tree forms some float64 temporaries of a piece. A path
    of h edges settles within h sweeps, and most paths settle within a few.
    """

    def __init__(
        self,
        weights: Weights,
        passes: PassKernels | None,
        close: Callable[[Array], bool] | None,
        max_passes: int | None,
    ) -> None:
        n = weights.n
        super().__init__(weights, max(_PATIENCE, n // 100) * n, max(_PATIENCE, n // 400), close, max_passes)
        self._may_improve = n > 0
        floating = weights.vertices is None and weights.A.dtype.kind == "f" and weights.A.dtype.itemsize >= 4
        self._passes = passes if floating else None

    @property
    def is_settled(self) -> bool:
        """Return whether the last sweeps improved no potential."""
        return not self._may_improve

    def _restart(self) -> None:
        self._may_improve = True

    def _sweep(self, tree: Array | None) -> int:
        before = self.h
        for _ in range(1 if self._passes is None or tree is not None else _SWEEPS_PER_READ):
            self.h = sweep_lengths(self.h, self.weights, self._passes, self.margin, tree)
        self._may_improve = bool((self.h < before).any())
        return len(before)


class _RowSweeps(_Potentials):
    """Sweeps over the rows that improved since they were last relaxed, on the host, in chunks of rows."""

    def __init__(self, weights: Weights, close: Callable[[Array], bool] | None, max_passes: int | None) -> None:
        n = weights.n
        super().__init__(weights, -1 if n <= _SMALL else _PATIENCE * n, _SWEEPS_BEFORE_TREE, close, max_passes)
        self._dirty = np.ones(n, bool)
        self._step = min(n, max(1, _CHUNK // max(1, n)))
        self._rows, self._scratch = np.empty((2, self._step, n), weights.work)

    @property
    def is_settled(self) -> bool:
        """Return whether all rows have been relaxed since they last improved."""
        return not self._dirty.any()

    def _restart(self) -> None:
        self._dirty[:] = True

    def _sweep(self, tree: Array | None) -> int:
        """Relax every dirty row once, in descending order of potential, because potentials fall along most paths."""
        order = np.flatnonzero(self._dirty)
        order = order[np.argsort(-self.h[order], kind="stable")]
        for start in range(0, order.size, self._step):
            index = order[start : start + self._step]
            first, last = int(index[0]), int(index[-1])
            contiguous = last - first == index.size - 1 and bool((np.diff(index) == 1).all())
            self._relax(slice(first, last + 1) if contiguous else index, index, tree)
        return order.size + len(self.h) // 64  # a constant cost for every sweep

    def _relax(self, rows: slice | Array, index: Array, tree: Array | None) -> None:
        h = self.h
        candidates = self.weights.raised_rows(rows, self._rows, self._scratch)
        self._dirty[index] = False
        if index.size > 1:
            self._settle(candidates[:, rows], index, tree)
        candidates += raise_by_margin(h[index], self.margin)[:, np.newaxis]
        best = candidates.min(axis=0)
        improved = np.flatnonzero(best < h)
        if improved.size:
            h[improved] = best[improved]
            self._dirty[improved] = True
            if tree is not None:
                tree[improved] = index[candidates[:, improved].argmin(axis=0)]

    def _settle(self, inner: Array, index: Array, tree: Array | None) -> None:
        """Relax the edges within a chunk of rows first, so that a path inside the chunk needs no second sweep."""
        local = self.h[index]
        for _ in range(min(_ROUNDS, index.size)):
            candidates = inner + raise_by_margin(local, self.margin)[:, np.newaxis]
            best = candidates.min(axis=0)
            improved = np.flatnonzero(best < local)
            if not improved.size:
                break
            local[improved] = best[improved]
            if tree is not None:
                tree[index[improved]] = index[candidates[:, improved].argmin(axis=0)]
        self.h[index] = local


def exact_cycle_error(weights: Weights, cycle: list[int]) -> NegativeCycleError | None:
    """Return the error for a cycle whose exact sum is below its rounding, or None.

    The cycle consists of vertices of A; the error lists them in the direction of the caller's edges.
    """
    if weights.is_reversed:
        weights, cycle = replace(weights, A=weights.A.T), cycle[::-1]
    heads = [*cycle[1:], cycle[0]]
    exact = dict(zip(zip(cycle, heads, strict=True), weights.exact_weights(cycle, heads), strict=True))
    return cycle_error(cycle, lambda i, j: exact[i, j], weights.sign, weights.epsilon)


def cycle_error(
    cycle: list[int], weight: Callable[[int, int], int | Fraction], sign: int, epsilon: float
) -> NegativeCycleError | None:
    """Return `NegativeCycleError` if Σ w < -ε Σ |w| around ``cycle``, exactly; otherwise None.

    The cycle of the error begins with its smallest vertex.
    """
    from fractions import Fraction

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
        f"the cycle {cycle_text(cycle)} of {len(cycle)} edge{'s' if len(cycle) > 1 else ''} has the weight "
        f"{weight_shown}, {'below' if sign > 0 else 'above'} 0: going round it improves without end, so {NO_CLOSURE}",
        cycle,
    )
