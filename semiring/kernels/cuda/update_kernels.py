"""Implement `semiring.kernels.contract.UpdateKernels` on a GPU, by the kernels of updates.cu.

D and P are C-contiguous, and the adjacency is on the device. The edges that change are arrays of the host. Every
function waits for the device, to read a number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from semiring.kernels.contract import NO_PREDECESSOR, Adjacency, KernelPlan
from semiring.kernels.cuda.closing.kernel_text import arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel, multiprocessors

_DEFINES = (f"NONE ({NO_PREDECESSOR})",)
_BLOCKS = 16  # of a multiprocessor, which mark vertices at the same time


def _launcher(
    plan: KernelPlan, name: str, blocks: int, threads: int, shared_bytes: int = 0
) -> Callable[[tuple[Any, ...]], None]:
    """Return a function that enqueues a kernel."""
    kernel = compile_kernel("updates.cu", name, arithmetic_of(plan), _DEFINES, shared_bytes)
    return lambda arguments: kernel((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def _or_null(array: Any) -> Any:
    """Return an array, or a null array for one without elements."""
    return array if array.size else np.uint64(0)


def _matrices(D: Any, P: Any) -> tuple[Any, ...]:
    return D, _or_null(P), np.int32(len(D))


def _edges(tails: Any, heads: Any, weights: Any) -> tuple[Any, ...]:
    """Copy edges to the device in one transfer."""
    parts = tails.astype(np.int32), heads.astype(np.int32), np.ascontiguousarray(weights)
    data, size = cupy.asarray(np.concatenate([part.view(np.uint8) for part in parts])), 4 * tails.size
    ends = data[: 2 * size].view(np.int32)
    return ends[: tails.size], ends[tails.size :], data[2 * size :].view(weights.dtype)


def list_edges(plan: KernelPlan, A: Any) -> Adjacency:
    """Compute `UpdateKernels.list_edges` of the contract. It needs a bit for each entry of A."""
    n, words = len(A), -(-len(A) // 32)
    size, bits, counts = np.int32(n), cupy.empty((n, words), np.uint32), cupy.empty(2 * n + 1, np.int64)
    _launcher(plan, "find_edges", n, 32)((A, size, bits, counts))
    _launcher(plan, "count_columns", words, 1024)((bits, size, counts))
    offsets = cupy.cumsum(counts)  # of the rows, and then of the columns
    starts, first = offsets[: n + 1], offsets[n:] - offsets[n]
    m = int(offsets[n])
    heads, tails = (cupy.empty(m, np.int32) for _ in range(2))
    weights, weights_in = (cupy.empty(m, A.dtype) for _ in range(2))
    if m:
        _launcher(plan, "list_rows", n, 32)((A, bits, size, starts, heads, weights))
        _launcher(plan, "list_columns", words, 1024)((A, bits, size, first, tails, weights_in))
    return Adjacency(starts, heads, weights, first, tails, weights_in)


def improve(plan: KernelPlan, D: Any, P: Any, tails: Any, heads: Any, weights: Any, touched: Any) -> int:
    """Compute `UpdateKernels.improve` of the contract. Two launches for each edge."""
    n, count, size = len(D), cupy.zeros(1, np.uint64), cupy.empty(1, np.int32)
    (vertices, parents, positions), values = cupy.empty((3, n), np.int32), cupy.empty(n, D.dtype)
    list_improved, improve_rows = _launcher(plan, "list_improved", 1, 1024), _launcher(plan, "improve", n, 128, n)
    operands, pairs = (*_matrices(D, P), *_edges(tails, heads, weights)), (_or_null(touched), count)
    for edge in map(np.int32, range(tails.size)):
        list_improved((*operands, edge, vertices, parents, positions, values, size))
        improve_rows((*operands, edge, vertices, parents, values, size, *pairs))
    return int(count[0])


def _marking(
    D: Any, P: Any, adjacency: Adjacency, tails: Any, heads: Any, weights: Any, tolerance: tuple[float, float]
) -> tuple[Any, ...]:
    """Return the parameters of the kernels that mark vertices."""
    edges = np.int32(tails.size), *_edges(tails, heads, weights), *map(np.float64, tolerance)
    degree = adjacency.heads.size // max(1, len(D))
    lanes = np.int32(min(32, 1 << degree.bit_length()))  # for each vertex of a breadth-first search
    return *_matrices(D, P), adjacency.starts, adjacency.heads, adjacency.weights, lanes, *edges


def _words(n: int) -> int:
    """Return the bytes of a bit for each vertex."""
    return 4 * -(-n // 32)


def count_users(
    plan: KernelPlan,
    D: Any,
    P: Any,
    adjacency: Adjacency,
    tails: Any,
    heads: Any,
    weights: Any,
    tolerance: tuple[float, float],
) -> Any:
    """Compute `UpdateKernels.count_users` of the contract."""
    n = len(D)
    blocks, counts = min(n, _BLOCKS * multiprocessors()), cupy.empty(n, np.int64)
    marking = _marking(D, P, adjacency, tails, heads, weights, tolerance)
    launch = _launcher(plan, "count_users", blocks, 128, _words(n))
    launch((*marking, cupy.empty((blocks, n), np.int32), counts))
    return counts


def repair(
    plan: KernelPlan,
    D: Any,
    P: Any,
    adjacency: Adjacency,
    tails: Any,
    heads: Any,
    weights: Any,
    tolerance: tuple[float, float],
    counts: Any,
    touched: Any,
) -> tuple[Any, Any] | None:
    """Compute `UpdateKernels.repair` of the contract. The pairs are all that may use the edges."""
    n, offsets = len(D), cupy.zeros(len(D) + 1, np.int64)
    offsets[1:] = cupy.cumsum(counts)
    total = int(offsets[n])
    pairs, values, offers = cupy.empty(total, np.int64), cupy.empty(total, D.dtype), cupy.empty(total, D.dtype)
    vertices, tails_of_offers, lists = (cupy.empty(size, np.int32) for size in (total, total, 2 * total))
    if total:
        marking = _marking(D, P, adjacency, tails, heads, weights, tolerance)
        edges_in = adjacency.first, adjacency.tails, adjacency.weights_in
        is_endless = cupy.zeros(1, np.int32)
        results = offsets, pairs, values, vertices, lists, offers, tails_of_offers, _or_null(touched), is_endless
        _launcher(plan, "repair", n, 128, 2 * _words(n))((*marking, *edges_in, *results))
        if int(is_endless[0]):
            return None
    return pairs, values


def count_changed(plan: KernelPlan, D: Any, pairs: Any, values: Any) -> int:
    """Compute `UpdateKernels.count_changed` of the contract."""
    if not pairs.size:
        return 0
    count, blocks = cupy.zeros(1, np.uint64), min(-(-pairs.size // 128), _BLOCKS * multiprocessors())
    _launcher(plan, "count_changed", blocks, 128)((D, pairs, values, np.int64(pairs.size), count))
    return int(count[0])
