"""Solve with a factor: x = A ⊗ x ⊕ b and x = x ⊗ A ⊕ b, rows and columns of A*, and tables of entries.

A* is a product of three parts: the panels that lead up the tree, the stars of the pivot blocks, and the panels that
lead down. So a solve is one sweep from the leaves to the roots, and one sweep back. Some dozen vectors of a call are
solved together, and threads share the vectors. The bits of each vector do not depend on the other vectors. A table
needs only the first sweep, from the sources and from the targets, and joins their labels at the pivots above both.

The factorization has computed every star, so no function here raises `PivotError`.

Sources: those of `numeric`; the tables follow S. Knopp, P. Sanders, D. Schultes, F. Schulz, D. Wagner, "Computing
many-to-many shortest paths using highway hierarchies", ALENEX 2007, and V. T. Chakaravarthy and others for matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from semiring.kernels import backend_for
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cpu.first_calls import factor_loops
from semiring.kernels.cpu.thread_pool import run_tasks
from semiring.kernels.engine import Engine
from semiring.sparse.numeric_factor import FactorNumbers, address_of

__all__ = ["VECTORS_PER_SWEEP", "TriangularSolves", "table"]

Array = NDArray[Any]

VECTORS_PER_SWEEP = 32  # with 64 vectors, the entries of a subtree would not fit the second-level cache
_VERTICES_PER_LABELS = 256  # the most sources or targets of one `_HubLabels`
_MIN_KERNEL_PAIRS = 1 << 18  # with at least this number of pairs, the kernels of products join labels


class SolveLoops(NamedTuple):
    """The loops of triangular solves, and what they take in the place of a semiring and of native functions."""

    kernels: Any  # a module: see `semiring.kernels.cpu.first_calls.factor_loops`
    sr: Any
    fold_across: Any
    fold_along: Any
    ordinals: Any  # an address of indices, int32
    indices: Any  # the array of the indices


class TriangularSolves:
    """The triangular solves of x ⊗ A* for a factor of A; with ``columns``, of A* ⊗ x.

    The plan has the semiring and dtype of the numbers. Its facts may differ from those of their plan, because vectors
    may have entries below 0 even if the matrix has none.
    """

    def __init__(self, numbers: FactorNumbers, plan: KernelPlan, *, columns: bool = False) -> None:
        a, layout = numbers.analysis, numbers.layout
        self.numbers, self.plan, self.analysis, self.columns = numbers, plan, a, columns
        self.tree = (a.pivot_starts, a.row_starts, a.rows)
        self.up_panels, self.down_panels = (
            (layout.column_panels, layout.row_panels) if columns else (layout.row_panels, layout.column_panels)
        )

        self.depth, self.width = int(a.depths.max(initial=0)), int(a.pivots.max(initial=0))
        self._loops: dict[Any, SolveLoops] = {}

    def loops(self, nodes: int, pairs: int, *vectors: Array) -> SolveLoops:
        """Return the loops for a query that visits so many supernodes, and takes so many pairs of ⊗ and ⊕.

        ``vectors`` are the operands of the caller.
        """
        kernels = factor_loops(self.plan, nodes, pairs, *vectors)
        if kernels not in self._loops:
            opposite = self.columns and not self.plan.semiring.commutative
            sr, left, right, ordinals = kernels.operands(self.plan, self.width, opposite=opposite)
            # The products are x ⊗ R, or Tᵀ ⊗ x for columns. The vector is one row, with the factors along it or across.
            across, along = (left, right) if self.columns else (right, left)
            self._loops[kernels] = SolveLoops(kernels, sr, across, along, address_of(ordinals), ordinals)
        return self._loops[kernels]

    @cached_property
    def size(self) -> int:
        """The number of entries of the blocks and panels of the factor."""
        return int((self.analysis.pivots * (self.analysis.pivots + 2 * self.analysis.depths)).sum())

    def solve_vector(self, x: Array, source: int = -1) -> None:
        """Replace x (n,), in the order of elimination, by x ⊗ A*; ``source`` is its only place with an entry, or -1."""
        a, plan, memory = self.analysis, self.plan, self.numbers.memory
        arguments = (x, source, a.supernode_of, a.parents, *self.tree, memory, self.up_panels, plan.zero, self.depth)
        height = a.count if source < 0 else 0  # a single source visits few supernodes on the way up
        loops = self.loops(a.count + height, self.size, x)
        loops.kernels.ascend(loops.fold_along, loops.ordinals, *arguments)

        def descend(nodes: Array) -> None:
            blocks, zero = self.numbers.layout.blocks, plan.zero
            factor = memory, blocks, self.down_panels, self.columns
            loops.kernels.descend(loops.sr, x, nodes, *self.tree, *factor, zero, self.depth, self.width)

        first, *branches = a.top_down_order(plan.threads)
        descend(first)
        run_tasks(descend, [(nodes,) for nodes in branches], plan.threads)

    def solve_vectors(self, loops: SolveLoops, X: Array, active: Array) -> None:
        """Replace the columns of X (n, r) by their solutions, on this thread; ``active``: see `set_unit_vectors`."""
        memory, blocks, zero = self.numbers.memory, self.numbers.layout.blocks, self.plan.zero
        arguments = (*self.tree, memory, blocks, self.up_panels, self.down_panels, self.columns, zero, self.width)
        loops.kernels.solve_vectors(loops.fold_across, loops.ordinals, X, active, *arguments)

    def solve(self, B: Array, out: Array) -> None:
        """Write A* ⊗ B, or (Bᵀ ⊗ A*)ᵀ, to ``out``: both (n, r), rows by vertex."""
        a = self.analysis
        if B.shape[1] == 1:
            x = B[a.order, 0]
            self.solve_vector(x)
            out[a.order, 0] = x
            return
        active = np.ones(a.count, np.bool_)
        parts = split_vectors(B.shape[1], self.plan.threads)
        loops = self.loops(2 * a.count * len(parts), self.size * B.shape[1], B)

        def solve_part(columns: slice) -> None:
            X = np.empty((a.n, columns.stop - columns.start), self.plan.dtype)
            loops.kernels.gather_columns(B[:, columns], a.order, X)
            self.solve_vectors(loops, X, active)
            loops.kernels.gather_columns(X, a.place, out[:, columns])

        run_tasks(
            solve_part,
            [(part,) for part in parts],
            self.plan.threads,
            reports=True,
        )

    def solve_unit_vectors(self, vertices: Array, receive: Callable[[Array, Array], None]) -> None:
        """Call ``receive(positions, X)`` with rows of A*, or its columns, some at a time and on several threads.

        ``positions``: indices into ``vertices`` (r,). X (n, len(positions)) is workspace: each of its columns is a row
        of A* in the order of elimination. Raises an exception of ``receive`` after the calls that have begun on other
        threads have ended.
        """
        a, plan = self.analysis, self.plan
        if vertices.size == 1:
            x = np.full(a.n, plan.zero, plan.dtype)
            source = int(a.place[vertices[0]])
            x[source] = plan.one
            self.solve_vector(x, source)
            receive(np.zeros(1, np.int64), x[:, np.newaxis])
            return
        by_place = np.argsort(a.place[vertices], kind="stable")  # neighbouring vertices share the supernodes above them
        parts = split_vectors(vertices.size, plan.threads)
        loops = self.loops(2 * a.count * len(parts), self.size * vertices.size)
        workspaces: list[Array] = []  # memory for later parts; append and pop are atomic

        def solve_part(part: slice) -> None:
            positions = by_place[part]
            places, active = a.place[vertices[positions]], np.zeros(a.count, np.bool_)
            workspace = workspaces.pop() if workspaces else np.empty(a.n * VECTORS_PER_SWEEP, plan.dtype)
            X = workspace[: a.n * positions.size].reshape(a.n, positions.size)
            tree = a.supernode_of, a.parents, a.pivot_starts
            loops.kernels.set_unit_vectors(X, places, active, *tree, plan.zero, plan.one)
            self.solve_vectors(loops, X, active)
            receive(positions, X)
            workspaces.append(workspace)

        run_tasks(solve_part, [(part,) for part in parts], plan.threads, reports=True)

    def rows(self, vertices: Array, receive: Callable[[Array, Array], None]) -> None:
        """Call ``receive(positions, Y)``, as `solve_unit_vectors` does. It may overwrite Y (len(positions), n).

        Row c of Y is the row of A* of ``vertices[positions[c]]``, or its column, by vertex. Raises the exceptions of
        ``receive``.
        """
        loops = self.loops(0, self.analysis.n * vertices.size)

        def transpose(positions: Array, X: Array) -> None:
            Y = np.empty((positions.size, self.analysis.n), self.plan.dtype)
            loops.kernels.scatter_rows(X, self.analysis.place, np.arange(positions.size), Y)
            receive(positions, Y)

        self.solve_unit_vectors(vertices, transpose)

    def rows_into(self, vertices: Array, out: Array) -> None:
        """Write the rows of A* of the vertices (r,) to ``out`` (r, n)."""
        scatter_rows = self.loops(0, out.size).kernels.scatter_rows
        self.solve_unit_vectors(vertices, lambda positions, X: scatter_rows(X, self.analysis.place, positions, out))

    def worst(self, vertices: Array, out: Array) -> None:
        """Write the worst entry of each row of A* to ``out`` (r,), for a selective ⊕, without reordering a row."""
        loops = self.loops(0, self.analysis.n * vertices.size)

        def receive(positions: Array, X: Array) -> None:
            result = np.empty(positions.size, self.plan.dtype)
            loops.kernels.worst_of_rows(loops.sr, X, result)
            out[positions] = result

        self.solve_unit_vectors(vertices, receive)


def split_vectors(count: int, threads: int) -> list[slice]:
    """Return slices of at most `VECTORS_PER_SWEEP` vectors, whose number threads can share evenly."""
    rounds = -(-count // (VECTORS_PER_SWEEP * threads)) * threads
    step = max(1, -(-count // max(1, rounds)))
    return [slice(start, min(count, start + step)) for start in range(0, count, step)]


@dataclass
class _HubLabels:
    """The labels of some vertices: for each vertex an entry at every pivot above it in the tree.

    An entry is the ⊕ of the paths from the vertex to the pivot, or, for sweeps by columns, of the paths from the pivot
    to the vertex. The inner vertices of these paths were eliminated before the supernode of the pivot. The label of
    supernode s is a matrix with a row for each of its pivots, and a column for each vertex in the subtree of s.
    """

    vertices: Array  # indices into the array of sources or targets, sorted by place
    low: Array  # (count,): the index in ``vertices`` of the first vertex in the subtree of each supernode
    counts: Array  # (count,): how many of these vertices that subtree has; they are adjacent in ``vertices``
    begin: Array  # (count + 1,): the offset in ``label`` of the label of each supernode
    label: Array

    def label_of(self, s: int, pivots: int) -> Array:
        """Return the label of one supernode, (pivots, counts[s])."""
        counts = int(self.counts[s])
        result: Array = self.label[self.begin[s] : self.begin[s] + pivots * counts].reshape(pivots, counts)
        return result


def _compute_labels(sweeps: TriangularSolves, vertices: Array, positions: Array) -> _HubLabels:
    """Return the labels of ``vertices[positions]``, which must be sorted by place, by one upward sweep.

    With ``sweeps`` for rows, the labels are of paths from the vertices; for columns, of paths to the vertices.
    """
    a, plan = sweeps.analysis, sweeps.plan
    places = a.place[vertices[positions]]
    low = np.searchsorted(places, a.pivot_starts[a.lows])
    counts = np.searchsorted(places, a.pivot_starts[1:]) - low
    begin = np.concatenate([[0], np.cumsum(a.pivots * counts)])
    label = np.empty(int(begin[-1]), plan.dtype)
    loops = sweeps.loops(int((counts > 0).sum()), int((a.pivots * a.depths * counts).sum()))
    loops.kernels.compute_labels(
        loops.fold_across,
        loops.ordinals,
        places,
        low,
        a.supernode_of,
        *sweeps.tree,
        sweeps.numbers.memory,
        sweeps.up_panels,
        begin,
        counts,
        plan.zero,
        plan.one,
        label,
    )
    return _HubLabels(positions, low, counts, begin, label)


def table(rows: TriangularSolves, columns: TriangularSolves, sources: Array, targets: Array, out: Array) -> None:
    """Write the entries of A* from p sources to q targets, both int arrays of vertices, to ``out`` (p, q).

    ``rows`` and ``columns`` are the solves of one factor by rows and by columns. Workspace: the labels of all sources
    and all targets.
    """
    a, plan = rows.analysis, rows.plan
    result = {}
    for name, sweeps, vertices in (("p", rows, sources), ("q", columns, targets)):
        by_place = np.argsort(a.place[vertices], kind="stable")
        side_labels: list[_HubLabels] = []
        result[name] = side_labels

        def label_part(
            positions: Array,
            sweeps: TriangularSolves = sweeps,
            vertices: Array = vertices,
            side_labels: list[_HubLabels] = side_labels,
        ) -> None:
            side_labels.append(_compute_labels(sweeps, vertices, positions))

        step = max(1, min(_VERTICES_PER_LABELS, -(-vertices.size // plan.threads)))
        run_tasks(label_part, [(by_place[i : i + step],) for i in range(0, vertices.size, step)], plan.threads)
    # The squares may be compiled. A helper would hold their lock and wait for the caller, and the caller for the lock.
    tasks = [(rows, p, q, a.squares, out) for p in result["p"] for q in result["q"]]
    run_tasks(_join_labels, tasks, plan.threads)


def _join_labels(sweeps: TriangularSolves, p: _HubLabels, q: _HubLabels, squares: Array, out: Array) -> None:
    """Write the entries between the sources of p and the targets of q: ⊕ of X ⊗ S ⊗ Y over the supernodes above both.

    X and Y are the labels of a supernode, and S is the star of its pivot block.
    """
    a, plan = sweeps.analysis, replace(sweeps.plan, threads=1)
    memory, blocks = sweeps.numbers.memory, sweeps.numbers.layout.blocks
    engine = Engine(backend_for(None, plan.semiring, plan.dtype), plan)
    block = np.full((p.vertices.size, q.vertices.size), plan.zero, plan.dtype)
    common = np.flatnonzero((p.counts > 0) & (q.counts > 0))
    loops = sweeps.loops(common.size, int(squares[common[:1]].sum()))
    for s in common.tolist():
        k, high, wide = int(a.pivots[s]), int(p.counts[s]), int(q.counts[s])
        S = memory[blocks[s] : blocks[s] + k * k].reshape(k, k)
        X, Y = p.label_of(s, k), q.label_of(s, k)
        part = block[p.low[s] : p.low[s] + high, q.low[s] : q.low[s] + wide]
        if k * (k + high) * wide >= _MIN_KERNEL_PAIRS:
            Z = np.empty((k, wide), plan.dtype)
            engine.multiply(Z, S, Y)
            engine.multiply_add(part, X.T, Z)
        else:
            loops.kernels.add_joined_labels(loops.sr, X, S, Y, plan.zero, np.empty((k, wide), plan.dtype), part)
    out[np.ix_(p.vertices, q.vertices)] = block
