"""A factor on a GPU: its numbers, and what is asked of it, level by level of the elimination tree.

The analysis stays on the host. Supernodes at one depth of the tree are one launch: of fronts a block of threads each,
and large ones one after the other by R-Kleene and the kernels of products; of sweeps a block for each supernode and
some hundred vectors, whose values lie side by side. So a row of A* costs one write for every vertex, and one read for
every row below a supernode. The kernels are those of ``elimination.cu``; their order is that of the host's.
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
from semiring.sparse.numeric import FactorNumbers, NoStar, reduce_large
from semiring.sparse.symbolic import Analysis, FactorLayout

__all__ = ["Device"]

Array = NDArray[Any]
DeviceArray = Any  # a CuPy array

_FILE = "elimination.cu"
_COLUMNS = 512  # that a block of threads sweeps
_ENTRIES = 1 << 30  # of rows that are made at a time where they do not stay


class Device:
    """A GPU as the place of factors: `semiring.sparse.placement.Host` says what a place can do."""

    def __init__(self, number: int | None) -> None:
        """``number``: by default that of the current GPU. Raises `DeviceError` where there is none."""
        from semiring.arrays.device import load_cupy

        self.xp = load_cupy("a factor on a GPU")
        self.number = int(self.xp.cuda.runtime.getDevice()) if number is None else number

    def current(self) -> AbstractContextManager[Any]:
        """The GPU as the current one."""
        found: AbstractContextManager[Any] = self.xp.cuda.Device(self.number)
        return found

    def empty_rows(self, count: int, n: int, dtype: Any) -> DeviceArray:
        """Room for rows (count, n), where a sweep writes them without another copy."""
        return self.xp.empty((n, count), dtype).T

    def demand(self, needed: int, what: str, instead: str) -> None:
        """Raise `TooLargeError` where so many bytes are not free on the GPU."""
        from semiring.arrays.device import free_on_device
        from semiring.arrays.memory import refuse_beyond

        refuse_beyond(needed, free_on_device, what, instead)

    def eliminate(
        self, analysis: Analysis, layout: FactorLayout, plan: KernelPlan, values: Array, *, keep: bool = False
    ) -> FactorNumbers:
        """As `numbers.eliminate`; nothing is kept for updates."""
        memory = self.xp.full(layout.size, plan.zero, plan.dtype)
        tree = self._tree(analysis)
        slots, entries = tree.places(layout)
        memory[slots] = self.xp.asarray(values)[entries]
        numbers = FactorNumbers(analysis, layout, plan, memory)
        with profiling.span("method", "elimination", shape=(analysis.n, analysis.n)):
            _eliminate(tree, numbers)
        return numbers

    def sweeps(self, numbers: FactorNumbers, plan: KernelPlan, *, columns: bool = False) -> _DeviceSolves:
        """The sweeps of x ⊗ A*; of the ``columns``, A* ⊗ x."""
        return _DeviceSolves(self._tree(numbers.analysis), numbers, plan, columns)

    def prepare(self, analysis: Analysis, layout: FactorLayout) -> None:
        """Whatever an elimination needs to know before it sees a number, in the memory of the GPU."""
        tree = self._tree(analysis)
        tree.places(layout)
        _ = tree.fronts

    def all_rows(self, numbers: FactorNumbers, plan: KernelPlan, out: DeviceArray) -> None:
        """Out (n, n) ← A*, by its columns: a sweep writes values of some hundred vectors side by side.

        They come in the order of elimination, so that those side by side go up the tree together.
        """
        analysis, graphs = numbers.analysis, engine_of(plan, out).capabilities.graphs
        self.sweeps(numbers, plan, columns=True).rows_into(analysis.order, out.T)
        if graphs is None:
            out[...] = out[:, self.xp.asarray(analysis.place)]
        else:
            graphs.permute_columns(out, analysis.place)

    def table(self, sweeps: Callable[..., _DeviceSolves], sources: Array, targets: Array, out: DeviceArray) -> None:
        """Out (p, q) ← the entries of A* from p sources to q targets, by what leads down to the targets alone."""
        rows = sweeps()
        a = rows.tree.analysis
        wanted = a.ancestors(a.place[targets])
        chosen = self.xp.asarray(targets)
        for part in rows.parts(sources.size):
            X = self.xp.empty((a.n, part.stop - part.start), out.dtype)
            rows.sweep(sources[part], X, wanted)
            out[part] = X[chosen].T

    def pairs(self, sweeps: Callable[..., _DeviceSolves], sources: Array, targets: Array, out: DeviceArray) -> None:
        """Out (p,) ← the entries of A* from p sources to p targets, pair by pair.

        A sweep for each distinct source goes down to the targets of the sources beside it alone.
        """
        rows = sweeps()
        a = rows.tree.analysis
        places, which = np.unique(a.place[sources], return_inverse=True)
        for part in rows.parts(places.size):
            some = np.flatnonzero((which >= part.start) & (which < part.stop))
            X = self.xp.empty((a.n, part.stop - part.start), out.dtype)
            rows.sweep(a.order[places[part]], X, a.ancestors(a.place[targets[some]]))
            out[self.xp.asarray(some)] = X[self.xp.asarray(targets[some]), self.xp.asarray(which[some] - part.start)]

    def _tree(self, analysis: Analysis) -> _Tree:
        kept = analysis.on_devices
        if self.number not in kept:
            kept[self.number] = _Tree(analysis, self.xp)
        found: _Tree = kept[self.number]
        return found


class _Tree:
    """An analysis in the memory of a GPU."""

    def __init__(self, a: Analysis, xp: Any) -> None:
        self.analysis, self.xp = a, xp
        self.depths = _depths(a.above)
        self.levels = [np.flatnonzero(self.depths == depth) for depth in range(int(self.depths.max(initial=-1)) + 1)]
        narrow = (x.astype(np.int32) for x in (a.firsts, a.of, a.above, self.depths, a.firsts[a.lows], *self.levels))
        self.firsts, self.of, self.above, self.depth, self.lows, *self.nodes = self._kept(*narrow)
        rows = a.order[a.rows] if a.rows.size else a.rows  # as vertices
        self.begins, self.order, self.rows = self._kept(a.begins, a.order, rows)
        self._layouts: dict[bool, tuple[Any, ...]] = {}

    def _kept(self, *arrays: Array) -> tuple[DeviceArray, ...]:
        """The arrays in the memory of the GPU, for calls on any stream: a copy is done there when its own has come so
        far, so it is waited for.
        """
        found = tuple(map(self.xp.asarray, arrays))
        self.xp.cuda.get_current_stream().synchronize()
        return found

    def places(self, layout: FactorLayout) -> tuple[DeviceArray, DeviceArray]:
        """Where entries of the matrix go, and which."""
        return self._layout(layout)[0], self._layout(layout)[1]

    def offsets(self, layout: FactorLayout) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Where the blocks S, R and Tᵀ of each supernode begin."""
        blocks, right, below = self._layout(layout)[2:]
        return blocks, right, below

    def _layout(self, layout: FactorLayout) -> tuple[Any, ...]:
        if layout.symmetric not in self._layouts:
            entries = np.flatnonzero(layout.slots >= 0)
            given = layout.slots[entries], entries, layout.blocks, layout.right, layout.below
            self._layouts[layout.symmetric] = self._kept(*(x.astype(np.int64) for x in given))
        return self._layouts[layout.symmetric]

    @cached_property
    def fronts(self) -> tuple[Any, ...]:
        """The children of each supernode, where in the front of its parent each row lies, which supernodes are large,
        and where in the memory of its level the update and the panel of each lie; on the host how large these are.
        """
        a = self.analysis
        kids = np.argsort(a.above, kind="stable")[int((a.above < 0).sum()) :].astype(np.int32)
        starts = np.searchsorted(a.above[kids], np.arange(a.count + 1)).astype(np.int32)
        owner = np.repeat(np.arange(a.count), a.depths)
        up = a.above[owner].astype(np.int64)
        keys = owner * np.int64(a.n) + a.rows
        inside = a.rows < a.firsts[up + 1]
        behind = a.pivots[up] + np.searchsorted(keys, up * a.n + a.rows) - a.begins[up]
        spots = np.where(inside, a.rows - a.firsts[up], behind).astype(np.int32)
        k, m = a.pivots, a.depths
        at, spare = np.zeros(a.count, np.int64), np.zeros(a.count, np.int64)
        sizes = []
        for level in self.levels:
            square, panel = m[level] ** 2, k[level] * m[level]
            at[level], spare[level] = np.cumsum(square) - square, np.cumsum(panel) - panel
            sizes.append((int(square.sum()), int(panel.sum())))
        given = starts, kids, spots, a.is_large(), at, spare
        return (*self._kept(*given), at, sizes)

    @cached_property
    def lists(self) -> tuple[DeviceArray, ...]:
        """Where the supernodes begin that have each place among their rows, which these are, and as which of them."""
        a = self.analysis
        order = np.argsort(a.rows, kind="stable")
        ends = np.searchsorted(a.rows[order], np.arange(a.n + 1)).astype(np.int64)
        owner = np.repeat(np.arange(a.count), a.depths)
        positions = np.arange(a.rows.size) - a.begins[owner]
        return self._kept(ends, owner[order].astype(np.int32), positions[order].astype(np.int32))


def _depths(above: Array) -> Array:
    """How far each supernode is from its root."""
    depths = [0] * above.size
    up = above.tolist()
    for s in range(above.size - 1, -1, -1):  # parents come after their children
        if up[s] >= 0:
            depths[s] = depths[up[s]] + 1
    return np.array(depths, np.int64)


def _kernel(plan: KernelPlan, name: str, *defines: str) -> Any:
    from semiring.kernels.cuda.closing.modules import kernel
    from semiring.kernels.cuda.closing.sources import arithmetic_of

    return kernel(_FILE, name, arithmetic_of(plan), defines)


def _eliminate(tree: _Tree, numbers: FactorNumbers) -> None:
    plan, memory, xp, a = numbers.plan, numbers.memory, tree.xp, tree.analysis
    starts, kids, spots, large, at, spare, host_at, sizes = tree.fronts
    offsets = tree.offsets(numbers.layout)
    plan.status.word = xp.full(1, -1, np.int32)
    reduce, engine, is_large = _kernel(plan, "reduce"), engine_of(plan, memory), a.is_large()
    children = xp.empty(0, plan.dtype)
    for depth in range(len(tree.levels) - 1, -1, -1):
        level, (squares, panels) = tree.levels[depth], sizes[depth]
        updates, work = xp.empty(squares, plan.dtype), xp.empty(panels, plan.dtype)
        where = (tree.firsts, tree.begins, starts, kids, spots, *offsets, np.int32(numbers.layout.symmetric), large)
        kept = (children, updates, at, work, spare, plan.status.word)
        reduce((level.size,), (256,), (memory, tree.nodes[depth], *where, *kept))
        for s in level[is_large[level]].tolist():
            m = int(a.depths[s])
            reduce_large(engine, numbers, s, updates[host_at[s] : host_at[s] + m * m])
        children = updates
    if (place := plan.status.read()) >= 0:
        raise NoStar(place)


class _DeviceSolves:
    """Solve x ⊗ A* on a GPU for the factor of A under a plan; with ``columns``, A* ⊗ x: as `TriangularSolves`."""

    def __init__(self, tree: _Tree, numbers: FactorNumbers, plan: KernelPlan, columns: bool) -> None:
        self.tree, self.numbers, self.plan = tree, numbers, plan
        blocks, right, below = tree.offsets(numbers.layout)
        self.blocks, self.turned = blocks, np.int32(columns)
        self.towards, self.back = (below, right) if columns else (right, below)
        self.defines = ("OPPOSITE",) if columns and not plan.semiring.commutative else ()

    def parts(self, count: int) -> list[slice]:
        """As many vectors at a time as a quarter of the free memory holds."""
        from semiring.arrays.device import free_on_device

        n, size = max(1, self.tree.analysis.n), self.plan.dtype.itemsize
        step = max(1, min(_ENTRIES, free_on_device() // (4 * size)) // n)
        return [slice(start, min(count, start + step)) for start in range(0, count, step)]

    def sweep(self, vertices: Array, X: DeviceArray, wanted: Array | None = None) -> None:
        """X (n, r), contiguous ← rows of A*, a column each, by vertex.

        ``wanted``: for which supernodes alone, all that lie above these included.
        """
        tree, a, r = self.tree, self.tree.analysis, vertices.size
        if not X.size:
            return
        places = tree.xp.asarray(a.place[vertices].astype(np.int32))
        work = tree.xp.empty((int(a.pivots.max()), r), self.plan.dtype)
        shape = X, np.int64(r), np.int32(r)
        where = (
            tree.of,
            tree.above,
            tree.depth,
            np.int32(len(tree.levels)),
            tree.firsts,
            tree.begins,
            tree.rows,
            tree.order,
        )
        numbers = self.numbers.memory, self.blocks, self.towards, self.turned, work
        self._kernel("ascend")((-(-r // 128),), (128,), (*shape, places, *where, *numbers))
        self._descend(X, places, wanted)

    def _descend(self, X: DeviceArray, places: DeviceArray | int, wanted: Array | None = None) -> None:
        tree, r = self.tree, X.shape[1]
        groups, descend = -(-r // _COLUMNS), self._kernel("descend")
        for level, nodes in zip(tree.levels, tree.nodes, strict=True):
            chosen = nodes if wanted is None else tree.xp.asarray(level[wanted[level]].astype(np.int32))
            if not chosen.size:
                continue
            shape = X, np.int64(r), np.int32(r), chosen, np.int32(groups)
            where = tree.firsts, tree.begins, tree.rows, tree.order, self.numbers.memory, self.back
            descend((chosen.size * groups,), (128,), (*shape, *where, places, tree.lows))

    def rows(self, vertices: Array, give: Callable[[Array, DeviceArray], None]) -> None:
        """``give(which, Y)`` with rows (len(which), n) by vertex, some at a time."""
        for part in self.parts(vertices.size):
            X = self.tree.xp.empty((self.tree.analysis.n, part.stop - part.start), self.plan.dtype)
            self.sweep(vertices[part], X)
            give(np.arange(part.start, part.stop), X.T)

    def rows_into(self, vertices: Array, out: Any) -> None:
        """Out (r, n) ← rows of A*: in an array as `Device.empty_rows` makes it, or of the host."""
        from semiring.arrays.device import to_host

        if is_device_array(out) and out.T.flags.c_contiguous:
            self.sweep(vertices, out.T)
            return

        def give(which: Array, block: DeviceArray) -> None:
            if is_device_array(out):
                out[which[0] : which[-1] + 1] = block
            else:
                out[which] = to_host(block)

        self.rows(vertices, give)

    def worst(self, vertices: Array, out: Array) -> None:
        """Out (r,), of the host ← the worst entry of each row of A*, for a ⊕ that selects."""
        from semiring.arrays.device import to_host

        def give(which: Array, block: DeviceArray) -> None:
            out[which] = to_host(fold_rows(block, self.plan.semiring, worst=True))

        self.rows(vertices, give)

    def solve(self, B: DeviceArray, out: DeviceArray) -> None:
        """Out ← A* ⊗ B (or (Bᵀ ⊗ A*)ᵀ), both (n, r), rows by vertex and contiguous; B is overwritten."""
        tree, r = self.tree, B.shape[1]
        if not B.size:
            return
        groups, memory = np.int32(-(-r // _COLUMNS)), self.numbers.memory
        shape, gather, spread = (np.int64(r), np.int32(r)), self._kernel("gather"), self._kernel("spread")
        for nodes in reversed(tree.nodes):
            where = nodes, groups, tree.firsts, tree.begins, tree.order, *tree.lists
            gather((nodes.size * int(groups),), (128,), (B, *shape, *where, memory, self.towards))
        for nodes in tree.nodes:
            stars = nodes, groups, tree.firsts, tree.order, memory, self.blocks, self.turned
            spread((nodes.size * int(groups),), (128,), (B, out, *shape, *stars))
        self._descend(out, 0)

    def _kernel(self, name: str) -> Any:
        return _kernel(self.plan, name, *self.defines)
