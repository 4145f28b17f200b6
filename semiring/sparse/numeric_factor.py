"""Compute the numbers of the factor of one matrix, by the fronts of its supernodes.

Threads share the subtrees of small fronts. Each subtree is one compiled loop
(`semiring.kernels.cpu.elimination.fronts`). The fronts above the subtrees come one after the other. R-Kleene and the
kernels of products reduce large fronts on all threads. The pattern alone decides the method of a front, so the bits do
not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.algorithms.reporting_engine import ReportingEngine
from semiring.algorithms.rkleene import rkleene
from semiring.errors import AlgebraError
from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.compiler_process import WALKS
from semiring.kernels.cpu.elimination import elimination_trees, factor_walks
from semiring.kernels.cpu.first_calls import factor_loops, first_calls_of
from semiring.kernels.cpu.scalar_semiring import ScalarSemiring
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import Engine
from semiring.progress import current_listener, portion
from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["FactorNumbers", "OpenFactor", "PivotError", "eliminate", "reduce_large", "update_factor_numbers"]


Array = NDArray[Any]

_UPDATE_PANELS = 6  # row panels of the update of a large symmetric front, which compute 7/12 of the square


class PivotError(Exception):
    """The error for a place whose pivot has no star. Callers convert it to an error that names the vertex."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True)
class FactorNumbers:
    """The entries of a factor, with the layout of their memory and the plan of the kernels."""

    analysis: Analysis
    layout: FactorLayout
    plan: KernelPlan
    memory: Array
    updates: dict[int, Array] | None = (
        None  # stored updates to the fronts above the subtrees, for `update_factor_numbers`
    )

    @property
    def nbytes(self) -> int:
        """The number of bytes of the entries and of the stored updates."""
        return int(self.memory.nbytes + sum(update.nbytes for update in (self.updates or {}).values()))


def eliminate(
    analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array, *, keeps_updates: bool = False
) -> FactorNumbers:
    """Return the factor of the matrix with the analysed pattern and ``values``, encoded in the plan's dtype.

    ``keeps_updates``: whether to store the updates that `update_factor_numbers` needs. Raises `PivotError` with the
    first place, among the places that were reached, whose pivot has no star.
    """
    memory = np.full(layout.size, plan.zero, plan.dtype)
    kernels = factor_loops(plan, analysis.count, int(analysis.pairs(layout.symmetric).sum()), values)
    kernels.scatter_values(values, layout.slots, memory)
    numbers = FactorNumbers(analysis, layout, plan, memory, {} if keeps_updates else None)
    with profiling.span("method", "elimination", shape=(analysis.n, analysis.n)):
        _SupernodalElimination(numbers, kernels).run()
    return numbers


def update_factor_numbers(
    numbers: FactorNumbers, plan: KernelPlan, values: Array, changed_entries: Array
) -> FactorNumbers:
    """Return the factor of values that differ in some entries, bitwise identical to that of `eliminate`.

    ``numbers``, the factor of the earlier values, must have stored updates, and does not change. ``changed_entries``:
    the indices of the entries that differ. Only subtrees with a changed entry and the fronts above them are eliminated
    again; all fronts are, if these are most of the work. Raises `PivotError`.
    """
    a, layout = numbers.analysis, numbers.layout
    assert numbers.updates is not None
    stale = np.zeros(a.count, np.bool_)
    stale[a.owners[changed_entries]] = True
    above = a.ancestors(a.pivot_starts[:-1][stale])
    roots, rest, _ = a.tasks
    is_stale = np.zeros(a.count, np.bool_)
    is_stale[rest] = above[rest]
    for root in roots:
        is_stale[a.lows[root] : root + 1] = above[root]
    work = a.pairs(layout.symmetric)
    if 2 * work[is_stale].sum() > work.sum():
        return eliminate(a, layout, plan, values, keeps_updates=True)
    memory = numbers.memory.copy()
    k, m = a.pivots, a.depths
    edges = np.flatnonzero(np.diff(is_stale, prepend=False, append=False))
    # The numbers of a run of supernodes are contiguous.
    for first, last in zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True):
        memory[layout.blocks[first] : layout.blocks[last] + k[last] ** 2] = plan.zero
        for begins in (layout.row_panels, layout.column_panels):
            memory[begins[first] : begins[last] + k[last] * m[last]] = plan.zero
    entries = np.flatnonzero(is_stale[a.owners])
    kernels = factor_loops(plan, int(is_stale.sum()), int(work[is_stale].sum()), values)
    kernels.scatter_values(values[entries], layout.slots[entries], memory)
    result = FactorNumbers(a, layout, plan, memory, dict(numbers.updates))
    with profiling.span("method", "elimination", shape=(a.n, a.n), fronts=int(is_stale.sum())):
        _SupernodalElimination(result, kernels, is_stale).run()
    return result


class _SupernodalElimination:
    """The elimination of supernodes, by threads for subtrees and then front by front above them."""

    def __init__(self, numbers: FactorNumbers, kernels: Any, is_stale: Array | None = None) -> None:
        """Prepare the elimination of the supernodes in the mask ``is_stale``, (count,) bool; by default all."""
        self.numbers, self.memory, self.plan, self.kernels = numbers, numbers.memory, numbers.plan, kernels
        a, layout = numbers.analysis, numbers.layout
        self.sr, *folds, self.ordinals = kernels.operands(self.plan, int(a.pivots.max(initial=0)), closing=True)
        self.folds = *folds, address_of(self.ordinals)
        self.structure = (a.tree, layout.fronts)
        self.is_stale = np.ones(a.count, np.bool_) if is_stale is None else is_stale
        self.updates: dict[int, Array] = {} if numbers.updates is None else numbers.updates
        self.failed_places: list[int] = []
        self.place = np.empty(a.n, np.int32)

    def run(self) -> None:
        """Eliminate all supernodes in the mask."""
        a = self.numbers.analysis
        roots, rest, need = a.tasks
        large = a.is_large()
        # Long subtrees come first, so that the last tasks are short and threads finish at about the same time.
        stale = [root for root in roots if self.is_stale[root]]
        tasks = [(root, int(need[root])) for root in sorted(stale, key=lambda s: (a.lows[s] - s, s))]
        work = np.where(self.is_stale, a.pairs(self.numbers.layout.symmetric), 0).tolist()
        total = sum(work)
        done = total - sum(work[s] for s in rest)
        with portion(0, done, total):
            groups = _group_tasks(tasks, self.plan.threads)
            run_tasks(self.eliminate_subtrees, groups, self.plan.threads, reports=True)
        self.raise_if_failed()
        backend = backend_for(None, self.plan.semiring, self.plan.dtype)
        engine = Engine(backend, self.plan)
        kids: dict[int, list[int]] = {}
        for s in (*sorted(roots), *rest):
            kids.setdefault(int(a.parents[s]), []).append(s)
        for s in rest:
            if not self.is_stale[s]:
                continue
            done += work[s]
            m = int(a.depths[s])
            update = np.full(m * m, self.plan.zero, self.plan.dtype)
            for kid in sorted(kids.get(s, [])):
                self.extend_add(s, update, kid)
            with portion(done - work[s], done, total):
                if large[s]:
                    self.reduce_large(engine, s, update, work[s])
                else:
                    end = (self.plan.zero, update)
                    place = self.kernels.reduce_front(self.sr, self.folds, self.memory, s, *self.structure, *end)
                    if place >= 0:
                        self.failed_places.append(place)
            self.raise_if_failed()
            self.updates[s] = update

    def reduce_large(self, engine: Engine, s: int, update: Array, pairs: int) -> None:
        """Eliminate the pivots of a large front, and report the pairs of its products."""
        listener = current_listener()
        if listener is not None:
            engine = ReportingEngine(engine.backend, self.plan, listener, pairs, engine.panel)
        if not reduce_large(engine, self.numbers, s, update):
            self.failed_places.append(self.plan.status.diverged)

    def raise_if_failed(self) -> None:
        """Raise `PivotError` with the first place whose pivot has no star."""
        if self.failed_places:
            raise PivotError(min(self.failed_places))

    def eliminate_subtrees(self, group: list[tuple[int, int]]) -> None:
        """Eliminate a group of subtrees, one after the other."""
        a, dtype = self.numbers.analysis, self.plan.dtype
        place, stack = np.empty(a.n, np.int32), np.empty(max(need for _, need in group), dtype)
        for root, _ in group:
            low, m = int(a.lows[root]), int(a.depths[root])
            fronts = slice(low, root + 1)
            widest = int(np.maximum(a.pivots[fronts], a.pivots[fronts] * a.depths[fronts]).max())
            work, update = np.empty(widest, dtype), np.empty(m * m, dtype)
            space = (self.plan.zero, place, stack, work, update)
            failed = self.kernels.reduce_subtree(
                self.sr, self.folds, self.memory, low, root + 1, *self.structure, *space
            )
            if failed >= 0:
                self.failed_places.append(failed)
            self.updates[root] = update

    def extend_add(self, s: int, update: Array, kid: int) -> None:
        """Add the update of a child to the front of supernode s."""
        child = self.updates.pop(kid) if self.numbers.updates is None else self.updates[kid]
        self.kernels.extend(self.sr, self.memory, s, *self.structure, update, kid, child, self.place)


def address_of(ordinals: Array | None) -> Any:
    """Return the address of the indices that native functions take, or None where NumPy takes no indices."""
    return None if ordinals is None else ordinals.ctypes.data


def reduce_large(engine: Engine, numbers: FactorNumbers, s: int, update: Any) -> bool:
    """Eliminate the pivots of a large front in place by products, and return whether every pivot had a star.

    On a GPU the status word of the plan holds the result instead.
    """
    a, layout, memory, plan = numbers.analysis, numbers.layout, numbers.memory, numbers.plan
    k, m, first = int(a.pivots[s]), int(a.depths[s]), int(a.pivot_starts[s])
    S = memory[layout.blocks[s] :][: k * k].reshape(k, k)
    if not rkleene(engine, S, start=first):
        return False
    if not m:
        return True
    R = memory[layout.row_panels[s] :][: k * m].reshape(k, m)
    open_right = R.copy()
    engine.multiply(R, S, open_right)
    open_below = open_right
    if not layout.symmetric:
        T = memory[layout.column_panels[s] :][: k * m].reshape(k, m)
        open_below = T.copy()
        if plan.semiring.commutative:
            engine.multiply(T, S.T, open_below)
        else:
            engine.multiply(T.T, open_below.T, S)
    U = update.reshape(m, m)
    step = -(-m // _UPDATE_PANELS) if layout.symmetric else m
    for start in range(0, m, step):
        rows = slice(start, start + step)
        engine.multiply_add(
            U[rows, start if layout.symmetric else 0 :],
            open_below[:, rows].T,
            R[:, start if layout.symmetric else 0 :],
        )
    return True


def _group_tasks(tasks: list[tuple[int, int]], threads: int) -> list[tuple[list[tuple[int, int]]]]:
    """Return groups of tasks, at most eight for each thread, so that threads fetch work rarely."""
    groups: list[list[tuple[int, int]]] = [[] for _ in range(min(len(tasks), 8 * threads))]
    for number, task in enumerate(tasks):
        groups[number % len(groups)].append(task)
    return [(group,) for group in groups]


class OpenFactor:
    """The entries of a factor over earlier pivots, for a selective ⊕ whose stars are 1̄.

    It takes as much memory as the factor.
    """

    def __init__(self, analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array) -> None:
        """Eliminate the matrix with the analysed pattern and ``values``, which are encoded as the kernels hold them."""
        a = self.analysis = analysis
        self.layout, self.plan, self.values = layout, plan, values
        kernels = factor_loops(plan, a.count, int(a.pairs(layout.symmetric).sum()), values)
        self.sr = ScalarSemiring(plan, closing=True)
        self.memory = np.full(layout.size, plan.zero, plan.dtype)
        kernels.scatter_values(values, layout.slots, self.memory)
        # `lists` holds, for each place, the supernodes whose rows include the place; `ends` delimits them.
        supernodes = elimination_trees.rows_of(a.row_starts, a.rows.size)
        self.ends: Array
        self.ends, order = (
            elimination_trees.compress_rows(a.n, a.rows, supernodes) if a.n else (np.zeros(1, np.int64), supernodes)
        )
        self.lists = supernodes[order]
        *_, need = a.tasks
        stack = np.empty(int(need.max(initial=0)) + int((a.depths[a.parents < 0] ** 2).sum()), plan.dtype)
        space = (plan.zero, np.empty(a.n, np.int32), stack)
        failed = kernels.reduce_open(
            kernels.operands(plan, 0, closing=True)[0], self.memory, a.tree, layout.fronts, *space
        )
        if failed >= 0:
            raise PivotError(int(failed))
        pivots = [self.memory[block : block + k * k : k + 1] for block, k in zip(layout.blocks, a.pivots, strict=True)]
        stars = plan.semiring.star(np.concatenate([*pivots, np.empty(0, plan.dtype)]))
        if not (stars == plan.one).all():
            raise AlgebraError(
                f"{plan.semiring.name} has loops whose star is not its one, so entries of the closure are not weights "
                "of paths"
            )

    def path(self, source: int, target: int) -> list[int]:
        """Return the vertices of a best path, both ends included, or [] if no path exists."""
        a, plan = self.analysis, self.plan
        visits = int(a.climbs[a.supernode_of[a.place[[source, target]]]].sum())
        with first_calls_of(plan).loops(plan, WALKS, visits, self.values):
            walk = self._find_walk(source, target)
        if walk.size == 1 and walk[0] < 0:
            raise ValueError(
                "the entries of the factor do not belong to its edges, which were changed: call factor again"
            )
        return [int(vertex) for vertex in walk]

    def _find_walk(self, source: int, target: int) -> Array:
        """Return the vertices of a best path, or -1 alone if an entry of the factor is not the weight of a path."""
        a, layout, plan = self.analysis, self.layout, self.plan
        walk: Array = factor_walks.find_walk(
            self.sr,
            a.place[source],
            a.place[target],
            a.order,
            a.pattern.starts,
            a.pattern.indices,
            self.values,
            a.supernode_of,
            a.parents,
            a.pivot_starts,
            a.row_starts,
            a.rows,
            self.memory,
            layout.blocks,
            layout.row_panels,
            layout.column_panels,
            layout.symmetric,
            self.ends,
            self.lists,
            plan.zero,
            plan.one,
        )
        return walk
