"""The factor of one matrix: its numbers, by fronts of supernodes (`semiring.kernels.cpu.elimination.numbers`).

Subtrees of small fronts are shared out to threads, each one compiled loop. The fronts above them come one after the
other: the large ones by R-Kleene and the kernels of products, on all threads. Which front goes which way depends on the
pattern alone, so that the bits do not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.algorithms.rkleene import rkleene
from semiring.elimination.analysis import Analysis, Layout
from semiring.kernels import backend_for
from semiring.kernels.contract import Plan
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring
from semiring.kernels.cpu.elimination import numbers as kernels
from semiring.kernels.cpu.elimination.panels import folds_for
from semiring.kernels.cpu.threads.pool import run_tasks
from semiring.kernels.engine import Engine

__all__ = ["NoStar", "Numbers", "eliminate"]

Array = NDArray[Any]

_PANELS = 6  # in which the update of a large symmetric front is computed: 7/12 of the square


class NoStar(Exception):  # noqa: N818  (it is caught by those who can say more)
    """The pivot at a place of the elimination has no star."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True)
class Numbers:
    """The memory of a factor, and where in it everything is."""

    analysis: Analysis
    layout: Layout
    plan: Plan
    memory: Array


def eliminate(analysis: Analysis, layout: Layout, plan: Plan, values: Array) -> Numbers:
    """The factor of the matrix with the analysed pattern and these values, of the plan's dtype, as kernels hold them.

    Raises `NoStar` with the first place, of those that were reached, whose pivot has no star.
    """
    memory = np.full(layout.size, plan.zero, plan.dtype)
    kernels.scatter_values(values, layout.slots, memory)
    with profiling.span("method", "elimination", shape=(analysis.n, analysis.n)):
        _Elimination(Numbers(analysis, layout, plan, memory)).run()
    return Numbers(analysis, layout, plan, memory)


class _Elimination:
    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.memory, self.plan = numbers, numbers.memory, numbers.plan
        a, layout = numbers.analysis, numbers.layout
        self.sr = ScalarSemiring(self.plan, closing=True)
        self.folds = folds_for(self.plan, int(a.pivots.max(initial=0)))
        self.tree = (a.firsts, a.begins)
        self.where = (layout.blocks, layout.right, layout.below, layout.symmetric)
        self.updates: dict[int, Array] = {}
        self.failed: list[int] = []
        self.place = np.empty(a.n, np.int32)

    def run(self) -> None:
        a = self.numbers.analysis
        roots, rest, need = a.tasks
        large = a.is_large()
        # The long ones first: whoever comes late finds short ones.
        tasks = [(root, int(need[root])) for root in sorted(roots, key=lambda s: (a.lows[s] - s, s))]
        run_tasks(self.subtree, _in_groups(tasks, self.plan.threads), self.plan.threads)
        self.check()
        backend = backend_for(None, self.plan.semiring, self.plan.dtype)
        engine = Engine(backend, self.plan)
        kids: dict[int, list[int]] = {}
        for s in (*sorted(roots), *rest):
            kids.setdefault(int(a.above[s]), []).append(s)
        for s in rest:
            m = int(a.depths[s])
            update = np.full(m * m, self.plan.zero, self.plan.dtype)
            for kid in sorted(kids.get(s, [])):
                self.extend(s, update, kid)
            if large[s]:
                self.large_front(engine, s, update)
            else:
                end = (self.plan.zero, update)
                place = kernels.reduce_front(
                    self.sr, self.folds.addresses, self.memory, s, *self.tree, *self.where, *end
                )
                if place >= 0:
                    self.failed.append(place)
            self.check()
            self.updates[s] = update

    def check(self) -> None:
        if self.failed:
            raise NoStar(min(self.failed))

    def subtree(self, group: list[tuple[int, int]]) -> None:
        """Eliminate some subtrees, one after the other."""
        a, dtype = self.numbers.analysis, self.plan.dtype
        place, stack = np.empty(a.n, np.int32), np.empty(max(need for _, need in group), dtype)
        for root, _ in group:
            low, m = int(a.lows[root]), int(a.depths[root])
            fronts = slice(low, root + 1)
            widest = int(np.maximum(a.pivots[fronts], a.pivots[fronts] * a.depths[fronts]).max())
            work, update = np.empty(widest, dtype), np.empty(m * m, dtype)
            failed = kernels.reduce_subtree(
                self.sr,
                self.folds.addresses,
                self.memory,
                low,
                root + 1,
                *self.tree,
                a.rows,
                a.above,
                *self.where,
                self.plan.zero,
                place,
                stack,
                work,
                update,
            )
            if failed >= 0:
                self.failed.append(failed)
            self.updates[root] = update

    def extend(self, s: int, update: Array, kid: int) -> None:
        a = self.numbers.analysis
        child = self.updates.pop(kid)
        kernels.extend(self.sr, self.memory, s, *self.tree, a.rows, *self.where, update, kid, child, self.place)

    def large_front(self, engine: Engine, s: int, update: Array) -> None:
        a, layout = self.numbers.analysis, self.numbers.layout
        k, m, first = int(a.pivots[s]), int(a.depths[s]), int(a.firsts[s])
        S = self.memory[layout.blocks[s] :][: k * k].reshape(k, k)
        if not rkleene(engine, S, start=first):
            self.failed.append(self.plan.status.diverged)
            return
        if not m:
            return
        R = self.memory[layout.right[s] :][: k * m].reshape(k, m)
        open_right = R.copy()
        engine.multiply(R, S, open_right)
        open_below = open_right
        if not layout.symmetric:
            T = self.memory[layout.below[s] :][: k * m].reshape(k, m)
            open_below = T.copy()
            if self.plan.semiring.commutative:
                engine.multiply(T, S.T, open_below)
            else:
                engine.multiply(T.T, open_below.T, S)
        U = update.reshape(m, m)
        step = -(-m // _PANELS) if layout.symmetric else m
        for start in range(0, m, step):
            rows = slice(start, start + step)
            engine.multiply_add(
                U[rows, start if layout.symmetric else 0 :],
                open_below[:, rows].T,
                R[:, start if layout.symmetric else 0 :],
            )


def _in_groups(tasks: list[tuple[int, int]], threads: int) -> list[tuple[list[tuple[int, int]]]]:
    """Some tasks at a time: a thread asks for work some dozen times."""
    groups: list[list[tuple[int, int]]] = [[] for _ in range(min(len(tasks), 8 * threads))]
    for at, task in enumerate(tasks):
        groups[at % len(groups)].append(task)
    return [(group,) for group in groups]
