"""Bellman-Ford by whole matrices: what `potentials` does where kernels only enqueue, and rows are not worth picking.

A sweep is a min-plus product of a vector and the matrix, h ← min(h, h ⊗ W): by one kernel where the backend has one
(`Relaxation`), else a piece of rows at a time, each piece with the potentials as the one before left them. Whether
anything improved the device is asked after each sweep, or after four by that kernel.

Source: as `potentials`. Cost: a sweep reads the matrix once; one that remembers a tree, for negative cycles, forms some
float64 temporaries of a piece. A path of h edges settles within h sweeps, most within a few.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semiring.algorithms.views import Array
from semiring.algorithms.weights import Weights, relative_rounding
from semiring.arrays.parts import on_host, pieces
from semiring.kernels.contract import Relaxation
from semiring.namespaces import array_namespace

__all__ = ["WholeSweeps"]

_TOGETHER = 4  # sweeps between two questions to the device, where it has a kernel for them


class WholeSweeps:
    """The potentials h (n,) while they are found; all on the device of the matrix."""

    def __init__(self, weights: Weights, relaxation: Relaxation | None) -> None:
        self._xp = xp = array_namespace(weights.A)
        n = weights.n
        self.weights = weights
        self.h: Array = xp.zeros(n, weights.work)
        self.settled = n == 0
        self.relaxed = 0  # rows relaxed so far
        self._previous: Array | None = None
        floating = weights.vertices is None and weights.A.dtype.kind == "f" and weights.A.dtype.itemsize >= 4
        self._relaxation = relaxation if floating else None
        self._margin = 2 * relative_rounding(np.float64) if weights.epsilon else 0.0  # as in `potentials`

    @property
    def previous(self) -> Array:
        """On the host: the vertex from which each was improved last, -1 for none."""
        return np.full(self.h.size, -1) if self._previous is None else on_host(self._previous)

    def widen_margin(self) -> None:
        """Ignore more of the rounding of sums, and begin a new tree."""
        self._margin *= 16
        self._previous = None

    def start_from_closure(self, close: Callable[[Array], bool]) -> None:
        """Lower the potentials to what elimination finds, if it comes through."""
        xp, weights = self._xp, self.weights
        n = self.h.size
        D = xp.empty((n, n), np.float64)
        for rows in pieces(D):
            D[rows] = weights.raised(rows)
            if weights.work.kind == "i":
                D[rows][D[rows] >= float(weights.no_edge)] = np.inf
        if self._margin:  # of the pivots' own rounding
            D += -4 * self._margin * xp.minimum(D.min(), 0.0)
        vertices = xp.arange(n)
        D[vertices, vertices] = 0.0
        if close(D):
            found = D.min(axis=0)
            self.h = xp.minimum(self.h, xp.rint(found).astype(np.int64) if weights.work.kind == "i" else found)
            self.settled = False
            self._previous = None

    def sweep(self, remember: bool) -> None:
        """Relax every row once, or `_TOGETHER` times where one kernel does it; then ask whether anything improved."""
        before = self.h
        self.relaxed += before.size
        if not remember and self._relaxation is not None:
            weights = self.weights
            for _ in range(_TOGETHER):
                best = self._relaxation.relax(weights.A, self._rounded_up(self.h), weights.sign, weights.epsilon)
                self.h = self._xp.minimum(self.h, best)
        else:
            self._sweep(remember)
        self.settled = not bool((self.h < before).any())

    def _sweep(self, remember: bool) -> None:
        xp, h = self._xp, self.h
        for rows in self.weights.pieces():
            candidates = self.weights.raised(rows)
            candidates += self._rounded_up(h[rows])[:, None]
            best = candidates.min(axis=0)
            if remember:
                if self._previous is None:
                    self._previous = xp.full(h.size, -1, np.int64)
                where = candidates.argmin(axis=0) + rows.start
                self._previous = xp.where(best < h, where, self._previous)
            h = xp.minimum(h, best)
        self.h = h

    def _rounded_up(self, h: Array) -> Array:
        return h * (1 - self._margin) if self._margin else h
