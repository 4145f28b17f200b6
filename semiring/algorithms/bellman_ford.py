"""Improve labels of vertices over edges until none improves, or until the improvements form a cycle (Bellman-Ford).

Sources: R. Bellman, "On a routing problem", Quart. Appl. Math. 16 (1958). After every sweep, the tree of predecessors
is searched for a cycle, after B. V. Cherkassky and A. V. Goldberg, "Negative-cycle detection algorithms", Math.
Program. 85 (1999). Cost: that of a sweep, at most n times, plus O(n log n) a sweep.

`bellman_ford` drives any `Sweeps`, which read the edges in different ways. `Labels` relaxes the edges out of the
vertices that improved last, by a function on the host. `swept` relaxes all edges of a dense matrix, on its device.
`potentials` relaxes chunks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from semiring.algorithms.potentials.weights import Weights
from semiring.algorithms.views import Array
from semiring.kernels.contract import PassKernels
from semiring.namespaces import array_namespace

__all__ = ["Labels", "Sweeps", "bellman_ford", "find_cycle", "rounded_up", "swept"]


class Sweeps(Protocol):
    """The labels of n vertices, and an operation that improves them."""

    @property
    def settled(self) -> bool:
        """Return whether no edge can improve a label."""
        ...

    @property
    def previous(self) -> Array:
        """Return (n,) on the host: the vertex whose edge improved each label last, -1 for none."""
        ...

    def sweep(self) -> None:
        """Relax at least all edges out of the vertices that improved since their edges were last relaxed."""
        ...


def bellman_ford(sweeps: Sweeps) -> list[int]:
    """Sweep until the labels are settled, and return []; or return the vertices of a cycle that improves itself.

    The vertices are in the order of the edges. The caller may continue after a cycle, if it changes the weights and
    resets the tree of predecessors.
    """
    while not sweeps.settled:
        sweeps.sweep()
        if cycle := find_cycle(sweeps.previous):
            return cycle
    return []


def find_cycle(previous: Array) -> list[int]:
    """Return the vertices of one cycle of the graph v ← previous[v] (-1: none), or [] without a cycle.

    The vertices are in the order of the edges.
    """
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


class Labels:
    """Labels (n,) on the host, which a function that relaxes edges improves in place."""

    def __init__(self, labels: Array, relax: Callable[[Array], tuple[Array, Array]], better: Any = np.less) -> None:
        """Store the labels, and the function that relaxes edges.

        ``relax(tails)`` receives the vertices that improved last, at first all of them. It returns for every vertex the
        best label that their edges offer (n,), and the vertex that offers it (n,). ``better(x, y)`` returns, label by
        label, whether x is better than y.
        """
        self.labels, self._relax, self._better = labels, relax, better
        self.previous = np.full(len(labels), -1)
        self._tails = np.arange(len(labels))

    @property
    def settled(self) -> bool:
        """Return whether the last sweep improved no label."""
        return not self._tails.size

    def sweep(self) -> None:
        """Relax the edges out of the vertices that improved last."""
        best, offered_by = self._relax(self._tails)
        self._tails = tails = np.flatnonzero(self._better(best, self.labels))
        self.labels[tails], self.previous[tails] = best[tails], offered_by[tails]


def swept(
    h: Array,
    weights: Weights,
    passes: PassKernels | None = None,
    margin: float = 0.0,
    previous: Array | None = None,
) -> Array:
    """Return the lengths min(h[j], min over i of h[i] + w[i, j]), (n,), after one sweep over a dense matrix.

    The result is a new array on the device of the matrix. h (n,) are the lengths before the sweep. Each counts as
    larger by ``margin`` times its size, and weights are raised as in `Weights.raised`. ``passes`` compute the sweep by
    one kernel, in the wide dtype of h. Without them, pieces of rows are relaxed in turn, each with the lengths that its
    predecessor left. ``previous`` (n,), on the same device, receives the vertex that improved each length; the kernel
    does not compute it.
    """
    xp = array_namespace(h)
    if passes is not None and previous is None:
        best = passes.relax(weights.A, rounded_up(h, margin), weights.sign, weights.epsilon)
        return xp.minimum(h, best)
    for rows in weights.pieces():
        candidates = weights.raised(rows)
        candidates += rounded_up(h[rows], margin)[:, None]
        best = candidates.min(axis=0)
        if previous is not None:
            previous[:] = xp.where(best < h, candidates.argmin(axis=0) + rows.start, previous)
        h = xp.minimum(h, best)
    return h


def rounded_up(h: Array, margin: float) -> Array:
    """Return lengths ≤ 0 raised by the possible rounding error of a sum with each.

    The error is relative to the length itself, because other terms of the sum may be far smaller.
    """
    return h * (1 - margin) if margin else h
