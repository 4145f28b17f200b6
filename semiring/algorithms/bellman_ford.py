"""Bellman-Ford: labels of vertices that edges improve until none does, or until the improvements go round a cycle.

Sources: R. Bellman, "On a routing problem", Quart. Appl. Math. 16 (1958); a cycle is looked for in the tree of
predecessors after every sweep, as B. V. Cherkassky and A. V. Goldberg, "Negative-cycle detection algorithms", Math.
Program. 85 (1999), call it. Cost: what a sweep costs, at most n times, plus O(n log n) a sweep.

`bellman_ford` drives any `Sweeps`. What differs is how a sweep reads the edges: `Labels` has a function relax the edges
out of the vertices that improved last, on the host; `swept` relaxes all edges of a dense matrix, where the matrix is;
`potentials` picks rows, a chunk at a time.
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
    """Labels of n vertices, and a way to improve them."""

    @property
    def settled(self) -> bool:
        """Whether no edge improves a label any more."""
        ...

    @property
    def previous(self) -> Array:
        """(n,) on the host: the vertex whose edge improved each label last, -1 for none."""
        ...

    def sweep(self) -> None:
        """Relax, at least, all edges out of the vertices that improved since they were relaxed last."""
        ...


def bellman_ford(sweeps: Sweeps) -> list[int]:
    """Sweep until the labels are settled, []; or until a cycle improves itself: its vertices in the order of its edges.

    After a cycle the sweeps may go on, if what made it one is changed and their tree forgotten.
    """
    while not sweeps.settled:
        sweeps.sweep()
        if cycle := find_cycle(sweeps.previous):
            return cycle
    return []


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


class Labels:
    """Labels (n,) on the host, improved in place by a function that relaxes edges."""

    def __init__(self, labels: Array, relax: Callable[[Array], tuple[Array, Array]], better: Any = np.less) -> None:
        """``relax(tails)`` takes the vertices that improved last, at first all of them.

        It returns for every vertex the best label that their edges offer (n,), and the vertex that offers it (n,).
        ``better(x, y)`` says, label by label, whether x is better than y.
        """
        self.labels, self._relax, self._better = labels, relax, better
        self.previous = np.full(len(labels), -1)
        self._tails = np.arange(len(labels))

    @property
    def settled(self) -> bool:
        """Whether the last sweep improved nothing."""
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
    """One sweep over a dense matrix, where it lives: the lengths min(h[j], min over i of h[i] + w[i, j]), (n,), new.

    h (n,) are the lengths before it, each of which counts as larger by ``margin`` times its size; weights are raised as
    `Weights.raised` says. ``passes`` do all of it by one kernel, in the wide dtype of h; without them a piece
    of rows at a time is relaxed, each with the lengths as the one before left them. ``previous`` (n,), of the same
    home, receives the vertex that improved each length; the kernel does not find it.
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
    """Lengths ≤ 0 raised by what a sum with each may lose: by its own size, for other parts may be far smaller."""
    return h * (1 - margin) if margin else h
