"""Bellman-Ford: labels of vertices that edges improve until none does, or until the improvements go round a cycle.

Sources: R. Bellman, "On a routing problem", Quart. Appl. Math. 16 (1958); a cycle is looked for in the tree of
predecessors after every sweep, as B. V. Cherkassky and A. V. Goldberg, "Negative-cycle detection algorithms", Math.
Program. 85 (1999), call it. Cost: what a sweep costs, at most n times, plus O(n log n) a sweep. Those who have their
own sweeps (`potentials` and `whole_sweeps`, on large dense matrices) share the look for a cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semiring.algorithms.views import Array

__all__ = ["bellman_ford", "find_cycle"]


def bellman_ford(labels: Array, relax: Callable[[Array], tuple[Array, Array]], better: Any = np.less) -> list[int]:
    """Improve labels (n,) on the host, in place; [], or the vertices of a cycle that improves itself, in their order.

    ``relax(tails)`` takes the vertices that improved last, at first all of them. It returns for every vertex the best
    label that their edges offer (n,), and which of them offers it; ``better(x, y)`` says which labels are.
    """
    previous = np.full(len(labels), -1)
    tails = np.arange(len(labels))
    while tails.size:
        best, offered_by = relax(tails)
        tails = np.flatnonzero(better(best, labels))
        labels[tails], previous[tails] = best[tails], offered_by[tails]
        if cycle := find_cycle(previous):
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
