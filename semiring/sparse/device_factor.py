"""Factor and solve on a GPU, level by level of the elimination tree.

The analysis stays on the host. All supernodes at one depth of the tree are one launch. In the elimination, a block of
threads reduces each front, and R-Kleene and the kernels of products reduce the large fronts one after the other. In a
sweep, a block of threads computes one supernode for some hundred vectors, whose values are adjacent in memory. So a row
of A* costs one write for every vertex, and one read for every row below a supernode. The kernels are in
``elimination.cu``. Their order of operations is that of the host's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semiring import profiling
from semiring.arrays.folds import fold_rows
from semiring.kernels.contract import KernelPlan
from semiring.kernels.engine import engine_of
from semiring.namespaces import is_device_array
from semiring.sparse.numeric_factor import FactorNumbers, PivotError, reduce_large
from semiring.sparse.symbolic_factor import Analysis, FactorLayout

__all__ = ["DevicePlacement"]

Array = NDArray[Any]
DeviceArray = Any  # a CuPy array

_FILE = "elimination.cu"
_VECTORS_PER_BLOCK = 512  # vectors for which a block of threads computes a supernode
_MAX_ROW_ENTRIES = 1 << 30  # the most entries of temporary rows that are computed together


class DevicePlacement:
    """The operations of factors in the memory of a GPU, as `placement.HostPlacement` has them for the host."""

    def __init__(self, number: int | None) -> None:
        """Select a GPU by ``number``, by default the current one. Raise `DeviceError` if there is none."""
        from semiring.arrays.device import load_cupy

        self.xp = load_cupy("a factor on a GPU")
        self.number = int(self.xp.cuda.runtime.getDevice()) if number is None else number

    def context(self) -> AbstractContextManager[Any]:
        """Return a context in which this GPU is the current one."""
        result: AbstractContextManager[Any] = self.xp.cuda.Device(self.number)
        return result

    def empty_rows(self, count: int, n: int, dtype: Any) -> DeviceArray:
        """Return uninitialized rows (count, n), into which a sweep writes without another copy."""
        return self.xp.empty((n, count), dtype).T

    def demand(self, required_bytes: int, subject: str, remedy: str) -> None:
        """Raise `TooLargeError` if ``required_bytes`` bytes are not free on the GPU."""
        from semiring.arrays.device import free_device_memory
        from semiring.arrays.memory import demand_free_bytes

        demand_free_bytes(required_bytes, free_device_memory, subject, remedy)

    def eliminate(
        self, analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array, *, keeps_updates: bool = False
    ) -> FactorNumbers:
        """Return the factor, as `numeric.eliminate` does, but without the data for updates."""
        memory = self.xp.full(layout.size, plan.zero, plan.dtype)
        tree = self._tree(analysis)
        slots, entries = tree.places(layout)
        memory[slots] = self.xp.asarray(values)[entries]
        numbers = FactorNumbers(analysis, layout, plan, memory)
        with profiling.span("method", "elimination", shape=(analysis.n, analysis.n)):
            _eliminate(tree, numbers)
        return numbers

    def sweeps(self, numbers: FactorNumbers, plan: KernelPlan, *, columns: bool = False) -> _DeviceSolves:
        """Return the solver of x ⊗ A*; with ``columns``, of A* ⊗ x."""
        return _DeviceSolves(self._tree(numbers.analysis), numbers, plan, columns)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Copy the structure that an elimination needs to the memory of the GPU."""
        tree = self._tree(analysis)
        tree.places(layout)
        _ = tree.fronts

    def all_rows(self, numbers: FactorNumbers, plan: KernelPlan, out: DeviceArray) -> None:
        """Write A* to ``out`` (n, n) by columns, because a sweep writes the values of some hundred vectors adjacently.

        The columns are in the order of elimination, so that neighbouring columns share supernodes of the tree.
        """
        analysis, graphs = numbers.analysis, engine_of(plan, out).capabilities.graphs
        self.sweeps(numbers, plan, columns=True).rows_into(analysis.order, out.T)
        if graphs is None:
            out[...] = out[:, self.xp.asarray(analysis.place)]
        else:
            graphs.permute_columns(out, analysis.place)

    def table(self, sweeps: Callable[..., _DeviceSolves], sources: Array, targets: Array, out: DeviceArray) -> None:
        """Write the entries of A* from p sources to q targets to ``out`` (p, q).

        The sweeps down the tree only visit the supernodes above the targets.
        """
        rows = sweeps()
        a = rows.tree.analysis
        needed = a.ancestors(a.place[targets])
        chosen = self.xp.asarray(targets)
        for part in rows.parts(sources.size):
            X = self.xp.empty((a.n, part.stop - part.start), out.dtype)
            rows.sweep(sources[part], X, needed)
            out[part] = X[chosen].T

    def pairs(self, sweeps: Callable[..., _DeviceSolves], sources: Array, targets: Array, out: DeviceArray) -> None:
        """Write the entries of A* from p sources to p targets to ``out`` (p,), pair by pair.

        Each distinct source needs one sweep, which only descends to the targets of the sources in its batch.
        """
        rows = sweeps()
        a = rows.tree.analysis
        places, positions = np.unique(a.place[sources], return_inverse=True)
        for part in rows.parts(places.size):
            some = np.flatnonzero((positions >= part.start) & (positions < part.stop))
            X = self.xp.empty((a.n, part.stop - part.start), out.dtype)
            rows.sweep(a.order[places[part]], X, a.ancestors(a.place[targets[some]]))
            out[self.xp.asarray(some)] = X[
                self.xp.asarray(targets[some]), self.xp.asarray(positions[some] - part.start)
            ]

    def _tree(self, analysis: Analysis) -> _Tree:
        """Return the copy of the analysis on this GPU, which is made once."""
        copies = analysis.device_copies
        if self.number not in copies:
            copies[self.number] = _Tree(analysis, self.xp)
        result: _Tree = copies[self.number]
        return result


class _Tree:
    """A copy of an analysis in the memory of a GPU."""

    def __init__(self, a: Analysis, xp: Any) -> None:
        self.analysis, self.xp = a, xp
        self.depths = _tree_depths(a.parents)
        self.levels = [np.flatnonzero(self.depths == depth) for depth in range(int(self.depths.max(initial=-1)) + 1)]
        first_places = a.pivot_starts[a.lows]
        arrays = a.pivot_starts, a.supernode_of, a.parents, self.depths, first_places, *self.levels
        narrow = (x.astype(np.int32) for x in arrays)
        self.pivot_starts, self.supernode_of, self.parents, *rest = self._upload(*narrow)
        self.depth, self.lows, *self.nodes = rest
        rows = a.order[a.rows] if a.rows.size else a.rows  # the vertices of the rows
        self.row_starts, self.order, self.rows = self._upload(a.row_starts, a.order, rows)
        self._layouts: dict[bool, tuple[Any, ...]] = {}

    def _upload(self, *arrays: Array) -> tuple[DeviceArray, ...]:
        """Return copies of the arrays in the memory of the GPU, for calls on any stream.

        Another stream may read a copy only after it is complete, so the host waits here.
        """
        result = tuple(map(self.xp.asarray, arrays))
        self.xp.cuda.get_current_stream().synchronize()
        return result

    def places(self, layout: FactorLayout) -> tuple[DeviceArray, DeviceArray]:
        """Return the places in the factor of the entries of the matrix, and the indices of these entries."""
        return self._layout(layout)[0], self._layout(layout)[1]

    def offsets(self, layout: FactorLayout) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Return the offsets of the blocks S, R and Tᵀ of each supernode."""
        blocks, right, below = self._layout(layout)[2:]
        return blocks, right, below

    def _layout(self, layout: FactorLayout) -> tuple[Any, ...]:
        """Return the arrays of `places` and `offsets` in the memory of the GPU."""
        if layout.symmetric not in self._layouts:
            entries = np.flatnonzero(layout.slots >= 0)
            arrays = layout.slots[entries], entries, layout.blocks, layout.row_panels, layout.column_panels
            self._layouts[layout.symmetric] = self._upload(*(x.astype(np.int64) for x in arrays))
        return self._layouts[layout.symmetric]

    @cached_property
    def fronts(self) -> tuple[Any, ...]:
        """The structure of the fronts, in the order in which the kernel that reduces them takes it.

        It holds the children of each supernode, the place of each row in the front of the parent, and whether the
        supernode is large. The offsets of its update and its panel in the memory of its level follow. The last two
        items are on the host: the offsets of the updates, and the sizes of the updates and the panels of each level.
        """
        a = self.analysis
        kids = np.argsort(a.parents, kind="stable")[int((a.parents < 0).sum()) :].astype(np.int32)
        starts = np.searchsorted(a.parents[kids], np.arange(a.count + 1)).astype(np.int32)
        owner = np.repeat(np.arange(a.count), a.depths)
        parents = a.parents[owner].astype(np.int64)
        keys = owner * np.int64(a.n) + a.rows
        inside = a.rows < a.pivot_starts[parents + 1]
        behind = a.pivots[parents] + np.searchsorted(keys, parents * a.n + a.rows) - a.row_starts[parents]
        spots = np.where(inside, a.rows - a.pivot_starts[parents], behind).astype(np.int32)
        k, m = a.pivots, a.depths
        update_starts, spare = np.zeros(a.count, np.int64), np.zeros(a.count, np.int64)
        sizes = []
        for level in self.levels:
            square, panel = m[level] ** 2, k[level] * m[level]
            update_starts[level], spare[level] = np.cumsum(square) - square, np.cumsum(panel) - panel
            sizes.append((int(square.sum()), int(panel.sum())))
        arrays = starts, kids, spots, a.is_large(), update_starts, spare
        return (*self._upload(*arrays), update_starts, sizes)

    @cached_property
    def lists(self) -> tuple[DeviceArray, ...]:
        """The lists of the supernodes that have each place as a row: starts, supernodes, and indices of the rows."""
        a = self.analysis
        order = np.argsort(a.rows, kind="stable")
        ends = np.searchsorted(a.rows[order], np.arange(a.n + 1)).astype(np.int64)
        owner = np.repeat(np.arange(a.count), a.depths)
        positions = np.arange(a.rows.size) - a.row_starts[owner]
        return self._upload(ends, owner[order].astype(np.int32), positions[order].astype(np.int32))


def _tree_depths(parents: Array) -> Array:
    """Return the distance of each supernode from its root."""
    depths = [0] * parents.size
    parent_list = parents.tolist()
    for s in range(parents.size - 1, -1, -1):  # parents come after their children
        if parent_list[s] >= 0:
            depths[s] = depths[parent_list[s]] + 1
    return np.array(depths, np.int64)


def _kernel(plan: KernelPlan, name: str, *defines: str) -> Any:
    """Return a kernel of ``elimination.cu`` for the arithmetic of a plan."""
    from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
    from semiring.kernels.cuda.closing.modules import compile_kernel

    return compile_kernel(_FILE, name, arithmetic_of(plan), defines)


def _eliminate(tree: _Tree, numbers: FactorNumbers) -> None:
    """Eliminate all fronts, level by level. Raises `PivotError`."""
    plan, memory, xp, a = numbers.plan, numbers.memory, tree.xp, tree.analysis
    starts, kids, spots, large, update_starts, spare, host_at, sizes = tree.fronts
    offsets = tree.offsets(numbers.layout)
    plan.status.word = xp.full(1, -1, np.int32)
    reduce, engine, is_large = _kernel(plan, "reduce"), engine_of(plan, memory), a.is_large()
    children = xp.empty(0, plan.dtype)
    for depth in range(len(tree.levels) - 1, -1, -1):
        level, (squares, panels) = tree.levels[depth], sizes[depth]
        updates, work = xp.empty(squares, plan.dtype), xp.empty(panels, plan.dtype)
        structure = (tree.pivot_starts, tree.row_starts, starts, kids, spots)
        blocks = (*offsets, np.int32(numbers.layout.symmetric), large)
        workspace = (children, updates, update_starts, work, spare, plan.status.word)
        reduce((level.size,), (256,), (memory, tree.nodes[depth], *structure, *blocks, *workspace))
        for s in level[is_large[level]].tolist():
            m = int(a.depths[s])
            reduce_large(engine, numbers, s, updates[host_at[s] : host_at[s] + m * m])
        children = updates
    if (place := plan.status.read()) >= 0:
        raise PivotError(place)


class _DeviceSolves:
    """The counterpart of `TriangularSolves` on a GPU: x ⊗ A* for a factor of A; with ``columns``, A* ⊗ x."""

    def __init__(self, tree: _Tree, numbers: FactorNumbers, plan: KernelPlan, columns: bool) -> None:
        self.tree, self.numbers, self.plan = tree, numbers, plan
        blocks, right, below = tree.offsets(numbers.layout)
        self.blocks, self.by_columns = blocks, np.int32(columns)
        self.up_panels, self.down_panels = (below, right) if columns else (right, below)
        self.defines = ("OPPOSITE",) if columns and not plan.semiring.commutative else ()

    def parts(self, count: int) -> list[slice]:
        """Return slices of ``count`` vectors, of which each fits a quarter of the free memory."""
        from semiring.arrays.device import free_device_memory

        n, size = max(1, self.tree.analysis.n), self.plan.dtype.itemsize
        step = max(1, min(_MAX_ROW_ENTRIES, free_device_memory() // (4 * size)) // n)
        return [slice(start, min(count, start + step)) for start in range(0, count, step)]

    def sweep(self, vertices: Array, X: DeviceArray, active: Array | None = None) -> None:
        """Write rows of A* to the columns of X (n, r), which is contiguous; its rows are in the order of vertices.

        ``active``: a mask of the supernodes to compute. It includes all supernodes above each of them. None: all.
        """
        tree, a, r = self.tree, self.tree.analysis, vertices.size
        if not X.size:
            return
        places = tree.xp.asarray(a.place[vertices].astype(np.int32))
        work = tree.xp.empty((int(a.pivots.max()), r), self.plan.dtype)
        shape = X, np.int64(r), np.int32(r)
        where = (
            tree.supernode_of,
            tree.parents,
            tree.depth,
            np.int32(len(tree.levels)),
            tree.pivot_starts,
            tree.row_starts,
            tree.rows,
            tree.order,
        )
        numbers = self.numbers.memory, self.blocks, self.up_panels, self.by_columns, work
        self._kernel("ascend")((-(-r // 128),), (128,), (*shape, places, *where, *numbers))
        self._descend(X, places, active)

    def _descend(self, X: DeviceArray, places: DeviceArray | int, active: Array | None = None) -> None:
        """Run the sweep from the roots down to the leaves."""
        tree, r = self.tree, X.shape[1]
        groups, descend = -(-r // _VECTORS_PER_BLOCK), self._kernel("descend")
        for level, nodes in zip(tree.levels, tree.nodes, strict=True):
            chosen = nodes if active is None else tree.xp.asarray(level[active[level]].astype(np.int32))
            if not chosen.size:
                continue
            shape = X, np.int64(r), np.int32(r), chosen, np.int32(groups)
            where = tree.pivot_starts, tree.row_starts, tree.rows, tree.order, self.numbers.memory, self.down_panels
            descend((chosen.size * groups,), (128,), (*shape, *where, places, tree.lows))

    def rows(self, vertices: Array, receive: Callable[[Array, DeviceArray], None]) -> None:
        """Call ``receive(positions, Y)`` with rows (len(positions), n) in the order of vertices, some at a time."""
        for part in self.parts(vertices.size):
            X = self.tree.xp.empty((self.tree.analysis.n, part.stop - part.start), self.plan.dtype)
            self.sweep(vertices[part], X)
            receive(np.arange(part.start, part.stop), X.T)

    def rows_into(self, vertices: Array, out: Any) -> None:
        """Write rows of A* to ``out`` (r, n), an array that `DevicePlacement.empty_rows` made, or one of the host."""
        from semiring.arrays.device import to_host

        if is_device_array(out) and out.T.flags.c_contiguous:
            self.sweep(vertices, out.T)
            return

        def receive(positions: Array, block: DeviceArray) -> None:
            if is_device_array(out):
                out[positions[0] : positions[-1] + 1] = block
            else:
                out[positions] = to_host(block)

        self.rows(vertices, receive)

    def worst(self, vertices: Array, out: Array) -> None:
        """Write the worst entry of each row of A* to ``out`` (r,) of the host, for a selective ⊕."""
        from semiring.arrays.device import to_host

        def receive(positions: Array, block: DeviceArray) -> None:
            out[positions] = to_host(fold_rows(block, self.plan.semiring, worst=True))

        self.rows(vertices, receive)

    def solve(self, B: DeviceArray, out: DeviceArray) -> None:
        """Write A* ⊗ B, or (Bᵀ ⊗ A*)ᵀ, to ``out``: both (n, r), contiguous, rows by vertex. B is overwritten."""
        tree, r = self.tree, B.shape[1]
        if not B.size:
            return
        groups, memory = np.int32(-(-r // _VECTORS_PER_BLOCK)), self.numbers.memory
        shape, gather, spread = (np.int64(r), np.int32(r)), self._kernel("gather"), self._kernel("spread")
        for nodes in reversed(tree.nodes):
            where = nodes, groups, tree.pivot_starts, tree.row_starts, tree.order, *tree.lists
            gather((nodes.size * int(groups),), (128,), (B, *shape, *where, memory, self.up_panels))
        for nodes in tree.nodes:
            stars = nodes, groups, tree.pivot_starts, tree.order, memory, self.blocks, self.by_columns
            spread((nodes.size * int(groups),), (128,), (B, out, *shape, *stars))
        self._descend(out, 0)

    def _kernel(self, name: str) -> Any:
        return _kernel(self.plan, name, *self.defines)
