"""Implement `semiring.kernels.contract.CentralityKernels` on a GPU, by the kernels of centrality.cu.

The sources are searched in groups of 32, and several groups in one batch. The number of groups of a batch depends on
the graph and on the free memory, and no sum depends on it. The functions wait for the device every few sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from semiring.errors import DomainError
from semiring.kernels.contract import KernelPlan
from semiring.kernels.cuda.closing.modules import current_device
from semiring.logs import CACHED_SECONDS, Compilation
from semiring.progress import in_parts

_LANES = 32  # the sources of a group
_VERTICES = 8  # that a block of threads processes
_BATCH = 1 << 19  # vertices of all groups of a batch: fewer leave an H200 waiting between two steps
_MEMORY = 1 << 32  # bytes of the arrays of a batch
_STEPS_PER_TEST = 4  # the steps between two tests for changes, each of which waits
_TYPES = {
    "float64": ("double", "__longlong_as_double(0x7ff0000000000000ll)"),
    "int64": ("long long", "(long long)(~0ull >> 1)"),
}
_HOPS = "int", "0x7fffffff"


@dataclass(frozen=True, eq=False)
class _Graph:
    """A graph on the device, by the tails and by the heads of its edges."""

    starts: Any  # (n + 1,) int64
    heads: Any  # (m,) int32
    weights: Any  # (m,), or None if every edge counts 1

    @property
    def n(self) -> int:
        return int(self.starts.size - 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int32 if self.weights is None else self.weights.dtype)

    @property
    def no_path(self) -> Any:
        return np.inf if self.dtype.kind == "f" else np.iinfo(self.dtype).max

    @cached_property
    def rows(self) -> Any:
        """The tails (m,) int32 of the edges."""
        places = cupy.arange(self.heads.size, dtype=np.int64)
        return (cupy.searchsorted(self.starts, places, side="right") - 1).astype(np.int32)

    @cached_property
    def columns(self) -> tuple[Any, Any, Any]:
        """The edges by their heads: starts (n + 1,) int64, tails and weights."""
        order = cupy.argsort(self.heads, kind="stable")
        vertices = cupy.arange(self.n + 1, dtype=np.int32)
        first = cupy.searchsorted(self.heads[order], vertices).astype(np.int64)
        return first, self.rows[order], None if self.weights is None else self.weights[order]

    @property
    def by_tails(self) -> tuple[Any, ...]:
        return np.int32(self.n), self.starts, self.heads


class _Batch:
    """The searches from some sources, up to 32 for each group."""

    def __init__(self, graph: _Graph, sources: np.ndarray, *, options: tuple[str, ...] = ()) -> None:
        self.graph, self.options = graph, options
        self.groups = -(-sources.size // _LANES)
        padded = np.full(self.groups * _LANES, -1, np.int32)
        padded[: sources.size] = sources
        self.sources = cupy.asarray(padded)
        shape = self.groups, graph.n, _LANES
        self.lengths = cupy.empty(shape, graph.dtype)
        self.lengths.fill(graph.no_path)
        counts = "ONLY_LENGTHS" not in options
        self.counts = cupy.zeros(shape, np.float64) if counts else None
        self.exponents = cupy.zeros(shape, np.int32) if "EXPONENTS" in options else None
        self.levels = cupy.zeros(shape, np.int32) if counts and graph.weights is not None else None

    def launch(self, name: str, grid: tuple[int, ...], *parameters: Any, threads: int = _LANES * _VERTICES) -> None:
        """Enqueue a kernel. None is a null array."""
        arguments = [np.uint64(0) if x is None else x for x in parameters]
        _kernel(name, "int32" if self.graph.weights is None else self.graph.dtype.name, self.options, current_device())(
            grid, (threads,), arguments
        )

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.graph.n // _VERTICES), self.groups

    def search(self) -> None:
        """Find the lengths, the counts and the levels of all vertices."""
        graph = self.graph
        steps, latest = cupy.zeros((self.groups, graph.n), np.int32), cupy.zeros(1, np.int32)
        values = steps, self.lengths, self.counts, self.exponents
        self.launch("begin", (self.groups,), *graph.by_tails, self.sources, *values, threads=_LANES)
        step = 0
        while int(latest[0]) > step - _STEPS_PER_TEST or not step:
            for _ in range(_STEPS_PER_TEST):
                step += 1
                of_step = self.sources, *values, self.levels, np.int32(step), latest
                self.launch("relax", self.grid, *graph.by_tails, *graph.columns, *of_step)

    def add_dependencies(self, has_endpoints: bool, vertex_sums: Any, edge_sums: Any) -> tuple[bool, bool]:
        """Add the dependencies to the sums (n, 32) and (m, 32), unless a flag of `add_level` is set. Return the flags.

        ``edge_sums`` is None if it was not requested.
        """
        graph, lengths = self.graph, self.lengths
        flags, dependencies = cupy.zeros(2, np.int32), cupy.empty(lengths.shape, np.float64)
        reached = lengths != graph.no_path
        levels = cupy.where(reached, lengths, 0) if self.levels is None else self.levels
        counted = self.counts, self.exponents
        for level in range(int(levels.max()), -1, -1):
            of_level = lengths, *counted, self.levels, np.int32(level), dependencies, flags
            self.launch("add_level", self.grid, *graph.by_tails, graph.weights, *of_level)
        is_large, is_absorbed = (bool(flag) for flag in flags.get())
        if is_large or is_absorbed:
            return is_large, is_absorbed
        sizes = np.int32(graph.n), np.int32(self.groups)
        totals = reached.sum(axis=1, dtype=np.int64)
        ends = self.sources, lengths, dependencies, totals, np.int32(has_endpoints), vertex_sums
        self.launch("add_vertices", (-(-vertex_sums.size // 256),), *sizes, *ends)
        if edge_sums is not None and edge_sums.size:
            edges = np.int64(graph.heads.size), graph.rows, graph.heads, graph.weights
            grid = (-(-edge_sums.size // 256),)
            self.launch("add_edges", grid, *sizes, *edges, lengths, *counted, dependencies, edge_sums)
        return False, False


def _batches(n: int, sources: np.ndarray, itemsize: int) -> list[np.ndarray]:
    """Return the sources of each batch; ``itemsize``: the bytes of the arrays for one vertex and source."""
    memory = min(_MEMORY, cupy.cuda.Device().mem_info[0] // 2)
    groups = max(1, min(_BATCH // max(1, n), memory // max(1, _LANES * n * itemsize)))
    step = groups * _LANES
    return [sources[start : start + step] for start in range(0, sources.size, step)]


def add_dependencies(
    plan: KernelPlan, graph: Any, sources: np.ndarray, has_endpoints: bool, vertex_sums: Any, edge_sums: Any
) -> None:
    """Compute `CentralityKernels.add_dependencies` of the contract."""
    starts, heads, weights, _ = graph
    on_device = _Graph(starts, heads, weights if weights.size else None)
    sums = cupy.zeros((on_device.n, _LANES)), cupy.zeros((heads.size, _LANES)) if edge_sums.size else None
    for part in in_parts(_batches(on_device.n, sources, 36)):
        for options in ((), ("EXPONENTS",)):
            batch = _Batch(on_device, part, options=options)
            batch.search()
            is_large, is_absorbed = batch.add_dependencies(has_endpoints, *sums)
            if is_absorbed:
                raise DomainError(
                    "some weights are so small that longer paths absorb them: scale the weights to whole numbers, or "
                    "compute on the CPU with device='cpu'"
                )
            if not is_large:
                break
    for total, lanes in ((vertex_sums, sums[0]), (edge_sums, sums[1])):
        if lanes is not None:
            total += lanes.sum(axis=1)


def find_distances(plan: KernelPlan, graph: Any, sources: np.ndarray, out: Any) -> None:
    """Compute `CentralityKernels.find_distances` of the contract."""
    starts, heads, weights, _ = graph
    on_device, row = _Graph(starts, heads, weights), 0
    for part in _batches(on_device.n, sources, 12):
        batch = _Batch(on_device, part, options=("ONLY_LENGTHS",))
        batch.search()
        rows = out[row : row + part.size]
        rows[...] = batch.lengths.swapaxes(1, 2).reshape(-1, on_device.n)[: part.size]
        row += part.size


@lru_cache(maxsize=64)
def _kernel(name: str, dtype: str, options: tuple[str, ...], device: int) -> Any:
    under_way = Compilation("centrality", "this GPU")
    function = _module(dtype, options).get_function(name)
    under_way.finish(CACHED_SECONDS)
    return function


@lru_cache(maxsize=16)
def _module(dtype: str, options: tuple[str, ...]) -> Any:
    return cupy.RawModule(code=source(dtype, options), options=("--std=c++17", "--fmad=false"), backend="nvrtc")


def source(dtype: str, options: tuple[str, ...] = ()) -> str:
    """Return the text of the kernels for lengths of float64, int64, or int32, which counts edges."""
    length, no_path = _TYPES.get(dtype, _HOPS)
    macros = {f"NO_PATH {no_path}", *options} | ({"HOPS"} if dtype == "int32" else set())
    text = Path(__file__).with_name("centrality.cu").read_text("utf-8")
    return "".join(f"#define {macro}\n" for macro in sorted(macros)) + f"typedef {length} Length;\n{text}"
