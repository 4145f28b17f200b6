"""Implement `semiring.kernels.contract.GraphKernels` on a GPU, by the kernels of graphs.cu.

The elements of a row are contiguous, and rows may be at any distance. Structures and trees are copied to the host,
entries are not.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from semiring.kernels.cuda.closing.modules import current_device, max_shared_memory
from semiring.kernels.cuda.entries.packing import set_bits
from semiring.logs import CACHED_SECONDS, Compilation

_THREADS = 256
_PANEL = 512  # the rows or columns that are copied at a time
_GROUP = 256  # the words of target vertices that one block processes
_LEVELS_PER_TEST = 8  # the levels between two tests for new vertices, each of which waits


def scan_structure(A: Any, none: Any) -> tuple[bool, bool, int, Any]:
    """Return whether A = Aᵀ bitwise, whether an edge lies below the diagonal, the number of edges, and their weight.

    ``none`` is the entry of no edge. The weight is None unless all edges between two vertices have it. Cost: one pass,
    and a wait.
    """
    tiles, result = -(-len(A) // 32), cupy.zeros(4, np.uint64)
    _launch(A, "look", (tiles, tiles), *_matrix_arguments(A), _bits(none, A), result)
    flags, edges, least, greatest = result.get().tolist()
    low, between = 2**64 - 1 - least, least or greatest
    weight = np.asarray(greatest, f"u{A.itemsize}").view(A.dtype)[()] if between and low == greatest else None
    return not flags & 1, bool(flags & 2), edges, weight


def edge_words(A: Any, none: Any) -> Any:
    """Return the entries of A (n, n) that differ from ``none`` as bits: words (n, ⌈n/32⌉) uint32."""
    n = len(A)
    words = cupy.empty((n, -(-n // 32)), np.uint32)
    _launch(A, "edge_words", (n,), *_matrix_arguments(A), np.int32(words.shape[1]), _bits(none, A), words)
    return words


def permute(D: Any, order: Any, source: Any = None) -> None:
    """Permute rows and columns, D[i, j] ← D[order[i], order[j]], in place.

    The entries come from ``source`` if it is given, which must not overlap D. Workspace: a panel.
    """
    places = cupy.asarray(order.astype(np.int32))
    if source is not None:
        _gather(source, D, places, places)
        return
    permute_columns(D, order)
    for start in range(0, len(D), _PANEL):
        columns = D[:, start : start + _PANEL]
        columns[...] = _gather(columns, cupy.empty(columns.shape, D.dtype), places, None)


def permute_columns(D: Any, order: Any) -> None:
    """Permute columns, D[i, j] ← D[i, order[j]], in place.

    Workspace: none, or a panel of rows where a row does not fit shared memory.
    """
    places = cupy.asarray(order.astype(np.int32))
    if _fits_shared_memory(D):
        _gather(D, D, None, places)
        return
    for start in range(0, len(D), _PANEL):
        rows = D[start : start + _PANEL]
        rows[...] = _gather(rows, cupy.empty(rows.shape, D.dtype), None, places)


def _fits_shared_memory(A: Any) -> bool:
    """Return whether a row fits the shared memory of a block."""
    return int(A.shape[1] * A.itemsize) <= max_shared_memory()


def _gather(A: Any, out: Any, rows: Any, columns: Any) -> Any:
    staged = columns is not None and _fits_shared_memory(A)
    arguments = A, _stride(A), out, _stride(out), np.int32(out.shape[1]), rows, columns, np.int32(staged)
    _launch(A, "gather", (len(out),), *arguments, shared_bytes=A.shape[1] * A.itemsize if staged else 0)
    return out


def transpose(A: Any, out: Any) -> None:
    """Write the transpose of A (n, m) into out (m, n), which must not overlap A."""
    _transpose(A, out, 0)


def mirror(A: Any) -> None:
    """Copy the entries of A (n, n) above the diagonal to their mirror images below it."""
    _transpose(A, A, 1)


def _transpose(A: Any, out: Any, only_below: int) -> None:
    m, n = out.shape
    if m and n:
        sizes = np.int32(m), np.int32(n), np.int32(only_below)
        _launch(A, "transpose", (-(-n // 32), -(-m // 32)), A, _stride(A), out, _stride(out), *sizes)


def count_hops(D: Any, starts: Any, heads: Any, words: Any, weight: Any, none: Any) -> None:
    """Write into D (n, n) the weight times the fewest edges of a path: 0 on the diagonal, ``none`` without a path.

    Edges are lists on the host, (n + 1,) int64 and (m,) int32, or without lists bits in words (n, ⌈n/32⌉) on the GPU.
    Cost: a pass over the edges and n bits for every level. Workspace: 3 n² bits. The function waits every few levels.
    """
    n, width = len(D), -(-len(D) // 32)
    groups = -(-width // _GROUP)
    vertices = cupy.arange(n)
    D[...] = none
    D[vertices, vertices] = 0
    last, following, reached = cupy.zeros((n, width), np.uint32), cupy.empty((n, width), np.uint32), None
    set_bits(last, vertices, vertices)
    reached = last.copy()
    if n % 32:
        reached[:, -1] |= np.uint32(2**32 - 2 ** (n % 32))
    active, fresh = cupy.zeros((n, groups), np.uint8), cupy.empty((n, groups), np.uint8)
    active[vertices, vertices // (32 * _GROUP)] = 1
    latest = cupy.zeros(1, np.int32)
    lists = (None, None) if words is not None else (cupy.asarray(starts), cupy.asarray(heads))
    sizes = np.int32(n), np.int32(width)
    for level in range(1, n):
        value = _bits(level * weight, D)
        levels = last, active, following, fresh, reached, D, _stride(D), value, *sizes, np.int32(level), latest
        _launch(D, "hop_level", (n, groups), *lists, words, *levels)
        last, active, following, fresh = following, fresh, last, active
        if level % _LEVELS_PER_TEST == 0 and int(latest[0]) < level:
            break


def spanning_edges(A: Any, none: Any, largest: bool) -> tuple[Any, Any, Any]:
    """Return a spanning forest of a symmetric matrix (n, n): tails, heads and weights of its edges, on the host.

    The forest has the greatest or the least weights. ``none`` is the entry of no edge. Source: O. Borůvka, Práce
    Moravské přírodovědecké společnosti 3 (1926). Cost: at most log n passes, and as many waits.
    """
    n, side = len(A), np.int32(largest)
    tree, above = cupy.arange(n, dtype=np.int32), cupy.empty(n, np.int32)
    place, head = cupy.empty(n, f"u{A.itemsize}"), cupy.empty(n, np.int32)
    best, edge = cupy.empty(n, np.uint64), cupy.empty(n, np.uint64)
    edges, places, count = cupy.empty(n, np.uint64), cupy.empty(n, np.uint64), cupy.zeros(1, np.uint32)
    edge_count, threads, size = 0, (-(-n // _THREADS),), np.int32(n)
    while True:
        best.fill(2**64 - 1)
        edge.fill(2**64 - 1)
        _launch(A, "best_edges", (n,), *_matrix_arguments(A), _bits(none, A), side, tree, place, head, best)
        _launch(A, "first_edges", threads, size, tree, place, head, best, edge)
        _launch(A, "hook", threads, size, tree, edge, above)
        _launch(A, "keep_edges", threads, size, tree, edge, best, above, edges, places, count)
        _launch(A, "follow", threads, size, above, tree)
        before, edge_count = edge_count, int(count[0])
        if edge_count in (before, n - 1):
            break
    low, high = np.divmod(edges[:edge_count].get().astype(np.int64), n)
    return low, high, _entries_of_ranks(places[:edge_count].get(), A.dtype, largest)


def fill_bottlenecks(D: Any, order: Any, edges: Any, one: Any, largest: bool) -> None:
    """Write into D (n, n) the bottleneck between i and j.

    ``order`` (n,) and ``edges`` (n,) are on the host. The bottleneck between two vertices is the worst of the edges
    after the first vertex, up to the second, in that order. Cost: one pass that writes D. Workspace: n log n.
    """
    n = len(D)
    position = np.empty(n, np.int32)
    position[order] = np.arange(n)
    worst = [_ranks_of(edges, largest)]
    while 2 ** len(worst) <= n:
        half, table = 2 ** (len(worst) - 1), worst[-1].copy()
        table[:-half] = np.maximum(table[:-half], worst[-1][half:])
        worst.append(table)
    arguments = cupy.asarray(np.stack(worst)), cupy.asarray(position), _bits(one, D), np.int32(largest)
    _launch(D, "fill_bottlenecks", (n,), *_matrix_arguments(D), *arguments)


def _ranks_of(entries: Any, largest: bool) -> Any:
    """Return the ranks of entries in their order, as `rank_of` in graphs.cu; `_entries_of_ranks` is the inverse."""
    bits = entries.view(f"u{entries.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    kind = _kind(entries.dtype)
    places = bits if kind == 0 else np.where((bits & sign != 0) & (kind == 2), ~bits, bits ^ sign)
    return ~places if largest else places


def _entries_of_ranks(places: Any, dtype: Any, largest: bool) -> Any:
    places = places.astype(f"u{dtype.itemsize}")
    places = ~places if largest else places
    sign, kind = places.dtype.type(1 << (8 * places.itemsize - 1)), _kind(dtype)
    bits = places if kind == 0 else np.where((places & sign == 0) & (kind == 2), ~places, places ^ sign)
    return bits.astype(places.dtype).view(dtype)


def _kind(dtype: Any) -> int:
    return {"i": 1, "f": 2}.get(dtype.kind, 0)


def _bits(value: Any, A: Any) -> Any:
    """Return the bits of a value, as an entry of A."""
    return np.asarray(value, A.dtype).view(f"u{A.itemsize}")[()]


def _stride(A: Any) -> Any:
    return np.int64(A.strides[0] // A.itemsize)


def _matrix_arguments(A: Any) -> tuple[Any, ...]:
    return A, _stride(A), np.int32(len(A))


def _launch(A: Any, name: str, grid: tuple[int, ...], *parameters: Any, shared_bytes: int = 0) -> None:
    """Enqueue a kernel for the entry type of A. None is a null array."""
    arguments = [np.uint64(0) if x is None else x for x in parameters]
    kernel = _kernel(name, A.itemsize, _kind(A.dtype), current_device())
    if shared_bytes > 48 << 10:
        kernel.max_dynamic_shared_size_bytes = max(shared_bytes, kernel.max_dynamic_shared_size_bytes)
    kernel(grid, (_THREADS,), arguments, shared_mem=shared_bytes)


@lru_cache(maxsize=128)
def _kernel(name: str, itemsize: int, kind: int, device: int) -> Any:
    under_way = Compilation("graph analysis", "this GPU")
    function = _module(itemsize, kind).get_function(name)
    under_way.finish(CACHED_SECONDS)
    return function


@lru_cache(maxsize=16)
def _module(itemsize: int, kind: int) -> Any:
    text = Path(__file__).with_name("graphs.cu").read_text("utf-8")
    entry = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[itemsize]
    options = ("-std=c++17", f"-DKIND={kind}")
    return cupy.RawModule(code=f"typedef {entry} U;\n{text}", options=options, backend="nvrtc")
