"""Improve labels of vertices over edges until no label improves, or improvements form a cycle (Bellman-Ford).

Sources: R. Bellman, "On a routing problem", Quart. Appl. Math. 16 (1958). After every sweep, the tree of predecessors
is searched for a cycle, after B. V. Cherkassky and A. V. Goldberg, "Negative-cycle detection algorithms", Math.
Program. 85 (1999). Cost: at most n sweeps, plus O(n log n) for each sweep.

`bellman_ford` drives any `Sweeps`, which read the edges in different ways. `Labels` relaxes the edges out of the
vertices that improved last, by a function on the host. `sweep_lengths` relaxes all edges of a dense matrix, on its
device. `potentials` relaxes chunks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from semiring.algorithms.potentials.tropical_weights import Weights
from semiring.kernels.contract import PassKernels
from semiring.namespaces import Array, array_namespace

__all__ = ["Labels", "Sweeps", "bellman_ford", "find_cycle", "raise_by_margin", "sweep_lengths"]


class Sweeps(Protocol):
    """The labels of n vertices, and an operation that improves them."""

    @property
    def is_settled(self) -> bool:
        """Return whether no edge can improve a label."""
        ...

    @property
    def predecessors(self) -> Array:
        """Return the vertex whose edge improved each label last, or -1, as an array (n,) on the host."""
        ...

    def sweep(self) -> None:
        """Relax at least all edges out of the vertices that improved since their edges were last relaxed."""
        ...


def bellman_ford(sweeps: Sweeps) -> list[int]:
    """Sweep until no label improves and return [], or return the vertices of a cycle that improves itself.

    The vertices are in the order of the edges. The caller may continue after a cycle, if the caller changes the weights
    and resets the tree of predecessors.
    """
    while not sweeps.is_settled:
        sweeps.sweep()
        if cycle := find_cycle(sweeps.predecessors):
            return cycle
    return []


def find_cycle(predecessors: Array) -> list[int]:
    """Return the vertices of one cycle of the graph v ← predecessors[v], or [] without a cycle.

    The vertices are in the order of the edges. A vertex without a predecessor has -1.
    """
    n = len(predecessors)
    jump = np.append(np.where(predecessors < 0, n, predecessors), n)
    for _ in range(max(1, n.bit_length())):
        jump = jump[jump]
    on_cycle = np.flatnonzero(jump[:n] < n)
    if not on_cycle.size:
        return []
    start = int(jump[on_cycle[0]])
    cycle, vertex = [start], int(predecessors[start])
    while vertex != start:
        cycle.append(vertex)
        vertex = int(predecessors[vertex])
    return cycle[::-1]


class Labels:
    """Labels (n,) on the host, which a function that relaxes edges improves in place."""

    def __init__(self, labels: Array, relax: Callable[[Any], tuple[Array, Array]], is_better: Any = np.less) -> None:
        """Store the labels, and the function that relaxes edges.

        ``relax(tails)`` receives the vertices that improved last, at first all of them. It returns for every vertex the
        best label that their edges offer (n,), and the vertex that offers it (n,). ``is_better(x, y)`` returns, label
        by label, whether x is better than y.
        """
        self.labels, self._relax, self._is_better = labels, relax, is_better
        self.predecessors = np.full(len(labels), -1)
        self._tails = np.arange(len(labels))

    @property
    def is_settled(self) -> bool:
        """Return whether the last sweep improved no label."""
        return not self._tails.size

    def sweep(self) -> None:
        """Relax the edges out of the vertices that improved last."""
        best, offered_by = self._relax(self._tails)
        self._tails = tails = np.flatnonzero(self._is_better(best, self.labels))
        self.labels[tails], self.predecessors[tails] = best[tails], offered_by[tails]


def sweep_lengths(
    h: Array,
    weights: Weights,
    passes: PassKernels | None = None,
    margin: float = 0.0,
    predecessors: Array | None = None,
) -> Any:
    """Return the lengths min(h[j], min over i of h[i] + w[i, j]), (n,), after one sweep over a dense matrix.

    The result is a new array on the device of the matrix. h (n,) are the lengths before the sweep. Each counts as
    larger by ``margin`` times its size, and weights are raised as in `Weights.raised_rows`. ``passes`` compute the
    sweep by one kernel, in the wide dtype of h. Without ``passes``, pieces of rows are relaxed in turn, and each piece
    reads the lengths after the earlier pieces. ``predecessors`` (n,), on the same device, receives the vertex that
    improved each length. The kernel does not compute predecessors.
    """
    xp = array_namespace(h)
    if passes is not None and predecessors is None:
        best = passes.relax(weights.A, raise_by_margin(h, margin), weights.sign, weights.epsilon)
        return xp.minimum(h, best)
    for rows in weights.pieces():
        candidates = weights.raised_rows(rows)
        candidates += raise_by_margin(h[rows], margin)[:, None]
        best = candidates.min(axis=0)
        if predecessors is not None:
            predecessors[:] = xp.where(best < h, candidates.argmin(axis=0) + rows.start, predecessors)
        h = xp.minimum(h, best)
    return h


def raise_by_margin(h: Array, margin: float) -> Array:
    """Return lengths ≤ 0 raised by the possible rounding error of a sum with each.

    The error is relative to the length itself, because other terms of the sum may be far smaller.
    """
    return h * (1 - margin) if margin else h
