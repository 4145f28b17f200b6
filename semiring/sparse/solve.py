"""What is asked of a factor: x = A ⊗ x ⊕ b and x = x ⊗ A ⊕ b, rows and columns of A*, and tables of entries.

A* is the product of what leads up the tree, the stars of the pivot blocks, and what leads down: one sweep from the
leaves to the roots, one back. Vectors that are asked together are swept some dozen at a time, shared out over threads;
the bits of each depend on nothing but itself. A table needs the first sweep alone, from the sources and from the
targets, and joins the two at the pivots above both.

Sources: as for `numbers`; the tables after S. Knopp, P. Sanders, D. Schultes, F. Schulz, D. Wagner, "Computing
many-to-many shortest paths using highway hierarchies", ALENEX 2007, and V. T. Chakaravarthy and others for matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.codegen.scalars import ScalarSemiring
from semiring.kernels.cpu.elimination import sweeps as kernels
from semiring.kernels.cpu.elimination.panels import folds_for
from semiring.kernels.cpu.threads.pool import run_tasks
from semiring.kernels.engine import Engine
from semiring.sparse.numeric import FactorNumbers

__all__ = ["ABREAST", "TriangularSolves", "table"]

Array = NDArray[Any]

ABREAST = 32  # vectors that are swept together: of 64 those of a subtree would not stay in the second-level cache
_SIDES = 256  # sources, and targets, whose labels are held together
_KERNEL_PAIRS = 1 << 18  # from so many on, labels are joined by the kernels of products


class TriangularSolves:
    """x ⊗ A* for the factor of A under a plan; of the ``columns``, A* ⊗ x.

    The plan is of the numbers' semiring and dtype; it may be another, for vectors may have entries below 0 where the
    matrix has none.
    """

    def __init__(self, numbers: FactorNumbers, plan: KernelPlan, *, columns: bool = False) -> None:
        a, layout = numbers.analysis, numbers.layout
        self.numbers, self.plan, self.analysis, self.columns = numbers, plan, a, columns
        opposite = columns and not plan.semiring.commutative
        self.sr = ScalarSemiring(plan, opposite=opposite)
        folds = folds_for(plan, int(a.pivots.max(initial=0)))
        # x ⊗ R, or of the columns Tᵀ ⊗ x, where the vector lies in one row and the factors go along it: or across.
        self.across, self.along = (folds.left, folds.right) if columns else (folds.right, folds.left)
        self.ordinals = folds.ordinals
        self.tree = (a.firsts, a.begins, a.rows)
        self.towards, self.back = (layout.below, layout.right) if columns else (layout.right, layout.below)

        self.depth, self.width = int(a.depths.max(initial=0)), int(a.pivots.max(initial=0))

    def vector(self, x: Array, source: int = -1) -> None:
        """The vector x ← x ⊗ A*, (n,) in the order of elimination; ``source``: the only place where it is not 0̄."""
        a, plan, memory = self.analysis, self.plan, self.numbers.memory
        up = (x, source, a.of, a.above, *self.tree, memory, self.towards, plan.zero, self.depth)
        kernels.ascend(self.along, self.ordinals.ctypes.data, *up)

        def descend(nodes: Array) -> None:
            blocks, zero = self.numbers.layout.blocks, plan.zero
            kernels.descend(
                self.sr, x, nodes, *self.tree, memory, blocks, self.back, self.columns, zero, self.depth, self.width
            )

        first, *branches = a.descent(plan.threads)
        descend(first)
        run_tasks(descend, [(nodes,) for nodes in branches], plan.threads)

    def several(self, X: Array, active: Array) -> None:
        """The same of X (n, r), a vector a column, on this thread; ``active``: see `rows_at_once`."""
        memory, blocks, zero = self.numbers.memory, self.numbers.layout.blocks, self.plan.zero
        through = (*self.tree, memory, blocks, self.towards, self.back, self.columns, zero, self.width)
        kernels.rows_at_once(self.across, self.ordinals.ctypes.data, X, active, *through)

    def solve(self, B: Array, out: Array) -> None:
        """Out ← A* ⊗ B (or (Bᵀ ⊗ A*)ᵀ), both (n, r), rows by vertex."""
        a = self.analysis
        if B.shape[1] == 1:
            x = B[a.order, 0]
            self.vector(x)
            out[a.order, 0] = x
            return
        active = np.ones(a.count, np.bool_)

        def some(columns: slice) -> None:
            X = np.empty((a.n, columns.stop - columns.start), self.plan.dtype)
            kernels.gather_columns(B[:, columns], a.order, X)
            self.several(X, active)
            kernels.gather_columns(X, a.place, out[:, columns])

        run_tasks(some, [(part,) for part in parts(B.shape[1], self.plan.threads)], self.plan.threads)

    def unit_vectors(self, vertices: Array, take: Callable[[Array, Array], None]) -> None:
        """``take(which, X)`` with rows of A* (columns, where this is for them), some at a time and on several threads.

        ``which``: indices into ``vertices`` (r,); X (n, len(which)) is workspace: a row of A* a column, in the order of
        elimination.
        """
        a, plan = self.analysis, self.plan
        if vertices.size == 1:
            x = np.full(a.n, plan.zero, plan.dtype)
            source = int(a.place[vertices[0]])
            x[source] = plan.one
            self.vector(x, source)
            take(np.zeros(1, np.int64), x[:, np.newaxis])
            return
        nearby = np.argsort(a.place[vertices], kind="stable")  # neighbours share what lies above them
        free: list[Array] = []  # memory that is used again: append and pop are atomic

        def some(part: slice) -> None:
            which = nearby[part]
            places, active = a.place[vertices[which]], np.zeros(a.count, np.bool_)
            kept = free.pop() if free else np.empty(a.n * ABREAST, plan.dtype)
            X = kept[: a.n * which.size].reshape(a.n, which.size)
            kernels.begin_rows(X, places, active, a.of, a.above, a.firsts, plan.zero, plan.one)
            self.several(X, active)
            take(which, X)
            free.append(kept)

        run_tasks(some, [(part,) for part in parts(vertices.size, plan.threads)], plan.threads)

    def rows(self, vertices: Array, give: Callable[[Array, Array], None]) -> None:
        """``give(which, Y)``, as `unit_vectors`, with Y (len(which), n) by vertex, which may be overwritten."""

        def take(which: Array, X: Array) -> None:
            Y = np.empty((which.size, self.analysis.n), self.plan.dtype)
            kernels.scatter_rows(X, self.analysis.place, np.arange(which.size), Y)
            give(which, Y)

        self.unit_vectors(vertices, take)

    def rows_into(self, vertices: Array, out: Array) -> None:
        """Out (r, n) ← the rows of A* of the vertices (r,)."""
        self.unit_vectors(vertices, lambda which, X: kernels.scatter_rows(X, self.analysis.place, which, out))

    def worst(self, vertices: Array, out: Array) -> None:
        """Out (r,) ← the worst entry of each row of A*, for a ⊕ that selects: no row is put into order."""

        def take(which: Array, X: Array) -> None:
            found = np.empty(which.size, self.plan.dtype)
            kernels.worst_of_rows(self.sr, X, found)
            out[which] = found

        self.unit_vectors(vertices, take)


def parts(count: int, threads: int) -> list[slice]:
    """Ranges of at most `ABREAST`, as many as threads can share evenly."""
    rounds = -(-count // (ABREAST * threads)) * threads
    step = max(1, -(-count // max(1, rounds)))
    return [slice(start, min(count, start + step)) for start in range(0, count, step)]


@dataclass
class _Labels:
    """What leads from some vertices to all pivots above them."""

    vertices: Array  # indices into what was asked, in the order of places
    low: Array  # (count,): the number of the first vertex in the subtree of each supernode
    held: Array  # (count,): how many there are
    begin: Array  # (count,): where the label of each supernode begins
    label: Array

    def of(self, s: int, pivots: int) -> Array:
        """The label of one supernode, (pivots, held[s])."""
        held = int(self.held[s])
        found: Array = self.label[self.begin[s] : self.begin[s] + pivots * held].reshape(pivots, held)
        return found


def _labels(sweeps: TriangularSolves, vertices: Array, which: Array) -> _Labels:
    a, plan = sweeps.analysis, sweeps.plan
    places = a.place[vertices[which]]
    low = np.searchsorted(places, a.firsts[a.lows])
    held = np.searchsorted(places, a.firsts[1:]) - low
    begin = np.concatenate([[0], np.cumsum(a.pivots * held)])
    label = np.empty(int(begin[-1]), plan.dtype)
    kernels.labels(
        sweeps.across,
        sweeps.ordinals.ctypes.data,
        places,
        low,
        a.of,
        *sweeps.tree,
        sweeps.numbers.memory,
        sweeps.towards,
        begin,
        held,
        plan.zero,
        plan.one,
        label,
    )
    return _Labels(which, low, held, begin, label)


def table(rows: TriangularSolves, columns: TriangularSolves, sources: Array, targets: Array, out: Array) -> None:
    """Out (p, q) ← the entries of A* from p sources to q targets, both int arrays of vertices."""
    a, plan = rows.analysis, rows.plan
    found = {}
    for name, sweeps, vertices in (("p", rows, sources), ("q", columns, targets)):
        nearby = np.argsort(a.place[vertices], kind="stable")
        sides: list[_Labels] = []
        found[name] = sides

        def label(
            which: Array, sweeps: TriangularSolves = sweeps, vertices: Array = vertices, sides: list[_Labels] = sides
        ) -> None:
            sides.append(_labels(sweeps, vertices, which))

        step = max(1, min(_SIDES, -(-vertices.size // plan.threads)))
        run_tasks(label, [(nearby[i : i + step],) for i in range(0, vertices.size, step)], plan.threads)
    run_tasks(_joined, [(rows, p, q, out) for p in found["p"] for q in found["q"]], plan.threads)


def _joined(sweeps: TriangularSolves, p: _Labels, q: _Labels, out: Array) -> None:
    a, plan = sweeps.analysis, replace(sweeps.plan, threads=1)
    memory, blocks = sweeps.numbers.memory, sweeps.numbers.layout.blocks
    engine = Engine(backend_for(None, plan.semiring, plan.dtype), plan)
    block = np.full((p.vertices.size, q.vertices.size), plan.zero, plan.dtype)
    for s in np.flatnonzero((p.held > 0) & (q.held > 0)).tolist():
        k, high, wide = int(a.pivots[s]), int(p.held[s]), int(q.held[s])
        S = memory[blocks[s] : blocks[s] + k * k].reshape(k, k)
        X, Y = p.of(s, k), q.of(s, k)
        part = block[p.low[s] : p.low[s] + high, q.low[s] : q.low[s] + wide]
        if k * (k + high) * wide >= _KERNEL_PAIRS:
            Z = np.empty((k, wide), plan.dtype)
            engine.multiply(Z, S, Y)
            engine.multiply_add(part, X.T, Z)
        else:
            kernels.join(sweeps.sr, X, S, Y, plan.zero, np.empty((k, wide), plan.dtype), part)
    out[np.ix_(p.vertices, q.vertices)] = block
