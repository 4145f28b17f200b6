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
from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring
from semiring.kernels.cpu.elimination import numbers as kernels
from semiring.kernels.cpu.elimination.panels import folds_for
from semiring.kernels.cpu.threads.pool import run_tasks
from semiring.kernels.engine import Engine
from semiring.sparse.symbolic import Analysis, FactorLayout

__all__ = ["FactorNumbers", "NoStar", "eliminate", "eliminate_again", "reduce_large"]

Array = NDArray[Any]

_PANELS = 6  # in which the update of a large symmetric front is computed: 7/12 of the square


class NoStar(Exception):  # noqa: N818  (it is caught by those who can say more)
    """The pivot at a place of the elimination has no star."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True)
class FactorNumbers:
    """The memory of a factor, and where in it everything is."""

    analysis: Analysis
    layout: FactorLayout
    plan: KernelPlan
    memory: Array
    updates: dict[int, Array] | None = None  # what fronts above all subtrees get from below them, where it was kept

    @property
    def nbytes(self) -> int:
        """How many bytes all numbers take."""
        return int(self.memory.nbytes + sum(update.nbytes for update in (self.updates or {}).values()))


def eliminate(
    analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array, *, keep: bool = False
) -> FactorNumbers:
    """The factor of the matrix with the analysed pattern and these values, of the plan's dtype, as kernels hold them.

    ``keep``: what `eliminate_again` needs. Raises `NoStar` with the first place, of those that were reached, whose
    pivot has no star.
    """
    memory = np.full(layout.size, plan.zero, plan.dtype)
    kernels.scatter_values(values, layout.slots, memory)
    numbers = FactorNumbers(analysis, layout, plan, memory, {} if keep else None)
    with profiling.span("method", "elimination", shape=(analysis.n, analysis.n)):
        _Elimination(numbers).run()
    return numbers


def eliminate_again(numbers: FactorNumbers, plan: KernelPlan, values: Array, changed: Array) -> FactorNumbers:
    """The factor of other values, which differ from those of ``numbers`` in the ``changed`` entries: the same bits.

    ``numbers`` were kept, and stay as they are. Only subtrees with a changed entry are eliminated again, and the fronts
    above them; all, where these are most of the work. Raises `NoStar`.
    """
    a, layout = numbers.analysis, numbers.layout
    assert numbers.updates is not None
    stale = np.zeros(a.count, np.bool_)
    stale[a.owners[changed]] = True
    above = a.ancestors(a.firsts[:-1][stale])
    roots, rest, _ = a.tasks
    again = np.zeros(a.count, np.bool_)
    again[rest] = above[rest]
    for root in roots:
        again[a.lows[root] : root + 1] = above[root]
    work = a.pairs(layout.symmetric)
    if 2 * work[again].sum() > work.sum():
        return eliminate(a, layout, plan, values, keep=True)
    memory = numbers.memory.copy()
    k, m = a.pivots, a.depths
    edges = np.flatnonzero(np.diff(again, prepend=False, append=False))
    for first, last in zip(
        edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True
    ):  # runs of supernodes lie together
        memory[layout.blocks[first] : layout.blocks[last] + k[last] ** 2] = plan.zero
        for begins in (layout.right, layout.below):
            memory[begins[first] : begins[last] + k[last] * m[last]] = plan.zero
    entries = np.flatnonzero(again[a.owners])
    kernels.scatter_values(values[entries], layout.slots[entries], memory)
    found = FactorNumbers(a, layout, plan, memory, dict(numbers.updates))
    with profiling.span("method", "elimination", shape=(a.n, a.n), fronts=int(again.sum())):
        _Elimination(found, again).run()
    return found


class _Elimination:
    def __init__(self, numbers: FactorNumbers, again: Array | None = None) -> None:
        """``again``: which supernodes there are to eliminate, (count,) bool; by default all."""
        self.numbers, self.memory, self.plan = numbers, numbers.memory, numbers.plan
        a, layout = numbers.analysis, numbers.layout
        self.sr = ScalarSemiring(self.plan, closing=True)
        self.folds = folds_for(self.plan, int(a.pivots.max(initial=0)))
        self.where = (a.tree, layout.fronts)
        self.again = np.ones(a.count, np.bool_) if again is None else again
        self.updates: dict[int, Array] = {} if numbers.updates is None else numbers.updates
        self.failed: list[int] = []
        self.place = np.empty(a.n, np.int32)

    def run(self) -> None:
        a = self.numbers.analysis
        roots, rest, need = a.tasks
        large = a.is_large()
        # The long ones first: whoever comes late finds short ones.
        stale = [root for root in roots if self.again[root]]
        tasks = [(root, int(need[root])) for root in sorted(stale, key=lambda s: (a.lows[s] - s, s))]
        run_tasks(self.subtree, _in_groups(tasks, self.plan.threads), self.plan.threads)
        self.check()
        backend = backend_for(None, self.plan.semiring, self.plan.dtype)
        engine = Engine(backend, self.plan)
        kids: dict[int, list[int]] = {}
        for s in (*sorted(roots), *rest):
            kids.setdefault(int(a.above[s]), []).append(s)
        for s in rest:
            if not self.again[s]:
                continue
            m = int(a.depths[s])
            update = np.full(m * m, self.plan.zero, self.plan.dtype)
            for kid in sorted(kids.get(s, [])):
                self.extend(s, update, kid)
            if large[s]:
                if not reduce_large(engine, self.numbers, s, update):
                    self.failed.append(self.plan.status.diverged)
            else:
                end = (self.plan.zero, update)
                place = kernels.reduce_front(self.sr, self.folds.addresses, self.memory, s, *self.where, *end)
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
            space = (self.plan.zero, place, stack, work, update)
            failed = kernels.reduce_subtree(
                self.sr, self.folds.addresses, self.memory, low, root + 1, *self.where, *space
            )
            if failed >= 0:
                self.failed.append(failed)
            self.updates[root] = update

    def extend(self, s: int, update: Array, kid: int) -> None:
        child = self.updates.pop(kid) if self.numbers.updates is None else self.updates[kid]
        kernels.extend(self.sr, self.memory, s, *self.where, update, kid, child, self.place)


def reduce_large(engine: Engine, numbers: FactorNumbers, s: int, update: Any) -> bool:
    """Eliminate the pivots of a large front by products, where its memory lies; whether every one had a star.

    (On a GPU the word of the plan's status tells.)
    """
    a, layout, memory, plan = numbers.analysis, numbers.layout, numbers.memory, numbers.plan
    k, m, first = int(a.pivots[s]), int(a.depths[s]), int(a.firsts[s])
    S = memory[layout.blocks[s] :][: k * k].reshape(k, k)
    if not rkleene(engine, S, start=first):
        return False
    if not m:
        return True
    R = memory[layout.right[s] :][: k * m].reshape(k, m)
    open_right = R.copy()
    engine.multiply(R, S, open_right)
    open_below = open_right
    if not layout.symmetric:
        T = memory[layout.below[s] :][: k * m].reshape(k, m)
        open_below = T.copy()
        if plan.semiring.commutative:
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
    return True


def _in_groups(tasks: list[tuple[int, int]], threads: int) -> list[tuple[list[tuple[int, int]]]]:
    """Some tasks at a time: a thread asks for work some dozen times."""
    groups: list[list[tuple[int, int]]] = [[] for _ in range(min(len(tasks), 8 * threads))]
    for at, task in enumerate(tasks):
        groups[at % len(groups)].append(task)
    return [(group,) for group in groups]
