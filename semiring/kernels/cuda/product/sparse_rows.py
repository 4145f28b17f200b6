"""Implement `semiring.kernels.contract.SparseKernels` on a GPU: CUDA C++ that is compiled for each semiring and dtype.

The kernels are in ``sparse_dense.cu``, ``sparse_sample.cu``, ``sparse_sort.cu`` and ``sparse_pairs.cu``. The
operands are validated (`semiring.linalg.device_rows`), so that indices are addresses. The exception is
`multiply_unvalidated`, whose kernel reads on the device whether they are.

* Sparse ⊗ dense: a team of threads computes a row of the result, with vector loads of the rows of B. Dense ⊗ sparse is
  the product of the transposes.
* Masked products: a team computes one entry, from a row of A and a row of Bᵀ. So no position outside the mask costs
  anything, and no two threads add into one entry. If a product has few pairs, its rows are sorted as below instead,
  and searched in the mask, without Bᵀ.
* Sparse ⊗ sparse: a symbolic pass counts the entries of each row, and a numeric pass computes them. Rows are binned by
  their number of pairs. A warp sorts up to 1,024 pairs by column in registers, so that rows are sorted, and adds
  neighbours in the order of k. The pairs of longer rows are sorted in global memory, some rows at a time.

Results are bitwise identical from run to run: see ``sparse_sums.cuh``. Sources: Y. Nagasaka and others, ICPP 2017, and
M. Parger and others, PPoPP 2020, for bins of rows; S. Dalton and others, ACM TOMS 41 (2015), for sorted pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from semiring.algebra.catalogue import adds_exponentials
from semiring.kernels.contract import CompressedRows, KernelPlan
from semiring.kernels.cuda.closing.kernel_text import ELEMENTS, product_arithmetic_of
from semiring.kernels.cuda.closing.modules import compile_kernel
from semiring.kernels.cuda.entries.entry_scan import finds_fault, scan_bounds
from semiring.kernels.cuda.product.index_arrays import (
    CLASSES,
    are_included,
    measure_rows,
    row_numbers,
    scan_indices,
    starts_of_rows,
)

_THREADS = 256
_LONG = (
    1024  # entries of the longest row of A that one team multiplies by a dense matrix; the teams of a block share more
)
_PACK_BYTES, _PACK_WIDTH = 16, 8  # of the most adjacent columns that a thread loads together
_MAX_GRID = 65535  # blocks of the second axis of a grid
_SORTED = CLASSES - 1  # classes of rows that a warp sorts
_SORT_WARPS = 4  # of a block
#: By how many pairs, sorted by a warp, a masked product may exceed the entries of B, which would be transposed, and the
#: entries of the mask, each a search in a row of A: 12 ps a pair, 480 ps and 130 ps (H200, 2026-11-28).
_TRANSPOSED, _SAMPLED = 40, 10
_CHUNK = 1 << 25  # pairs that are sorted in global memory at a time, at 60 bytes each


def multiply_mixed(
    plan: KernelPlan, C: Any, A: CompressedRows | Any, B: CompressedRows | Any, witness: Any, of_entries: bool = False
) -> None:
    """Compute `SparseKernels.multiply_mixed` of the contract."""
    if not C.size:
        return
    if isinstance(A, CompressedRows):
        _multiply_rows(plan, C, A, B, witness, of_entries, ())
        return
    rows = _transpose(B, A.shape[1], np.int32 if A.shape[1] < 1 << 31 else np.int64)
    if C.shape[0] == 1:
        columns = None if witness is None else witness.reshape(-1, 1)
        _multiply_rows(plan, C.reshape(-1, 1), rows, A.reshape(-1, 1), columns, False, ("SWAPPED",))
        return
    transposed: Any = cupy.empty(C.shape[::-1], C.dtype)
    places: Any = None if witness is None else cupy.empty(C.shape[::-1], witness.dtype)
    _multiply_rows(plan, transposed, rows, cupy.ascontiguousarray(A.T), places, False, ("SWAPPED",))
    C[...] = transposed.T
    if witness is not None:
        witness[...] = places.T


def multiply_unvalidated(plan: KernelPlan, C: Any, A: CompressedRows, B: Any, bounds: Any) -> bool:
    """Compute `SparseKernels.multiply_unvalidated` of the contract, and wait for the device once.

    The product is enqueued behind the scan of the indices, and the scan of the entries behind the product. So the GPU
    computes while the host enqueues.
    """
    words = cupy.zeros(9, np.uint64)  # three for the indices, and three for each array of entries
    wide = A.starts if A.starts.dtype == np.int64 else cupy.empty(A.starts.size, np.int64)
    scan_indices(A.starts, A.columns, A.width, words, None if wide is A.starts else wide)
    _multiply_rows(plan, C, A._replace(starts=wide), B, None, False, (), words)
    if bounds is not None:
        scan_bounds(A.values, bounds, words.data.ptr + 24)
        scan_bounds(B, bounds, words.data.ptr + 48)
    flags, descents, count, of_values, _, _, of_operand, *_ = words.get().tolist()
    if finds_fault(of_values) and count < A.values.size:  # entries behind the last row are none
        again = cupy.zeros(3, np.uint64)
        if count:
            scan_bounds(A.values[:count], bounds, again.data.ptr)
        of_values = int(again[0])
    return not (flags or descents or finds_fault(of_values) or finds_fault(of_operand))


def _multiply_rows(
    plan: KernelPlan,
    C: Any,
    A: CompressedRows,
    B: Any,
    witness: Any,
    of_entries: bool,
    macros: tuple[str, ...],
    scan: Any = None,
) -> None:
    """Compute C ← A ⊗ B for a dense B (k, n), or with ``SWAPPED`` among the macros the sums of B ⊗ A.

    B (b, k, n), C and witness (b, m, n) may be stacks. ``scan`` holds the words of `scan_indices` for indices that the
    host has not validated.
    """
    if C.ndim == 3 and len(C) > _MAX_GRID:
        for part in (slice(first, first + _MAX_GRID) for first in range(0, len(C), _MAX_GRID)):
            places = None if witness is None else witness[part]
            _multiply_rows(plan, C[part], A, B[part], places, of_entries, macros, scan)
        return
    m, n = C.shape[-2:]
    stack, stride = C.size // (m * n), np.int64(B.shape[-2] * n)
    given = A.starts, A.columns, A.values, B, C, witness, np.int32(of_entries), stride, scan
    macros = *macros, f"LONG {_LONG}"
    if plan.dtype.name in ("float32", "float64") and plan.zero == -np.inf and adds_exponentials(plan.semiring):
        macros = *macros, "LOG_SUMS"
    if n == 1:
        team = _team_size(A.columns.size / m)
        vectors = np.int64(m), *given
        _launch(plan, "sparse_dense.cu", "multiply_vector", m, team, vectors, A, C, witness, macros, (1, stack))
        return
    width = min(_PACK_BYTES // C.itemsize, _PACK_WIDTH if witness is None else _PACK_WIDTH // 2)
    while width > 1 and (n % width or (B.data.ptr | C.data.ptr) % (width * C.itemsize)):
        width //= 2
    team = min(32, _power_of_two(-(-n // width)))
    strips = min(_MAX_GRID, -(-n // (team * width)))
    arguments = np.int64(m), np.int64(n), *given
    macros = *macros, f"VECTOR {width}"
    _launch(plan, "sparse_dense.cu", "multiply_rows", m, team, arguments, A, C, witness, macros, (strips, stack))


def multiply_masked(
    plan: KernelPlan, A: CompressedRows, B: CompressedRows | Any, mask: CompressedRows, witness_dtype: Any
) -> tuple[CompressedRows, Any, dict[str, int]]:
    """Compute `SparseKernels.multiply_masked` of the contract."""
    m, count = mask.starts.size - 1, mask.columns.size
    values, reached = cupy.empty(count, plan.dtype), cupy.zeros(count, np.bool_)
    witness = None if witness_dtype is None else cupy.empty(count, witness_dtype)
    used = {}
    if count and isinstance(B, CompressedRows):
        _, lists, classes = measure_rows(A.starts, A.columns, B.starts)
        sorted_pairs = sum(size << which + 5 for which, size in enumerate(classes))
        if not classes[_SORTED] and sorted_pairs < _TRANSPOSED * B.columns.size + _SAMPLED * count:
            outputs = None, None, None, values, witness, reached
            for which, size in enumerate(classes):
                _sort_rows(plan, A, B, mask, lists[which, :size], which, outputs, ("FILL", "MASKED"))
            used["register"] = sum(classes)
    if count and not used:
        length, is_dense = A.columns.size / m, not isinstance(B, CompressedRows)
        if isinstance(B, CompressedRows):
            right = _transpose(B, A.width, A.columns.dtype)
            length = min(length, right.columns.size / B.width)
        else:
            right = CompressedRows(None, None, cupy.ascontiguousarray(B.T), A.width)
        sizes = np.int64(m), np.int64(A.width), np.int64(count)
        rows = mask.starts, mask.columns, A.starts, A.columns, A.values, right.starts, right.columns, right.values
        arguments = *sizes, *rows, values, witness, reached
        team, macros = max(4, _team_size(length)), ("DENSE",) if is_dense else ()
        _launch(plan, "sparse_sample.cu", "sample_rows", count, team, arguments, A, mask, witness, macros)
        used["team"] = m
    places = cupy.flatnonzero(reached)
    starts = mask.starts
    columns = mask.columns
    if places.size < count:
        sums = cupy.zeros(count + 1, np.int64)
        sums[1:] = cupy.cumsum(reached, dtype=np.int64)
        starts, columns, values = sums[mask.starts], columns[places], values[places]
        witness = None if witness is None else witness[places]
    return CompressedRows(starts, columns, values, mask.width), witness, used


def multiply_sparse(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    excluded: CompressedRows | None,
    demand: Callable[[int], None],
    witness_dtype: Any,
) -> tuple[CompressedRows, Any, dict[str, int]]:
    """Compute `SparseKernels.multiply_sparse` of the contract."""
    pairs, lists, classes = measure_rows(A.starts, A.columns, B.starts)
    counts = cupy.zeros(A.starts.size, np.int64)
    short = [lists[which, :size] for which, size in enumerate(classes[:_SORTED])]
    for which, rows in enumerate(short):
        _sort_rows(plan, A, B, excluded, rows, which, (counts[1:], None, None, None, None, None), ())
    parts = []
    if classes[_SORTED]:
        rows = lists[_SORTED, : classes[_SORTED]]
        for part in _sort_pairs(plan, A, B, excluded, rows, pairs, demand, witness_dtype):
            parts.append(part)
            counts[1:] += cupy.diff(starts_of_rows(part[0], pairs.size))
    starts = cupy.cumsum(counts)
    size = int(starts[-1])
    demand(size)
    columns, values = cupy.empty(size, B.columns.dtype), cupy.empty(size, plan.dtype)
    witness = None if witness_dtype is None else cupy.empty(size, witness_dtype)
    for which, rows in enumerate(short):
        _sort_rows(plan, A, B, excluded, rows, which, (None, starts, columns, values, witness, None), ("FILL",))
    while parts:
        rows, *found = parts.pop()
        places = starts[rows] + cupy.arange(rows.size) - cupy.searchsorted(rows, rows)
        for target, source in zip((columns, values, witness), found, strict=True):
            if target is not None:
                target[places] = source
    used = {"register": sum(classes[:_SORTED]), "sort": classes[_SORTED]}
    entries = CompressedRows(starts, columns, values, B.width)
    return entries, witness, {name: rows for name, rows in used.items() if rows}


def _sort_rows(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    positions: CompressedRows | None,
    rows: Any,
    which: int,
    outputs: tuple[Any, ...],
    macros: tuple[str, ...],
) -> None:
    """Launch the kernel of sparse_sort.cu for the rows of a class, by the macros ``FILL`` and ``MASKED``."""
    if not rows.size:
        return
    bits, is_numeric, witness = which + 5, "FILL" in macros, outputs[4]
    has_narrow_keys = (B.width << bits if is_numeric else B.width) < 1 << 32
    size = (33 << which) * (4 if has_narrow_keys else 8)
    if is_numeric:
        size += (32 << which) * (plan.dtype.itemsize + (0 if witness is None else A.columns.itemsize))
    places = (None, None) if positions is None else positions[:2]
    arguments = np.int64(rows.size), rows, *A[:3], *B[:3], *places, *outputs
    key = f"sort_key_t unsigned{'' if has_narrow_keys else ' long long'}"
    macros = f"ITEMS {1 << which}", f"BITS {bits}", key, *macros
    _launch(
        *(plan, "sparse_sort.cu", "sort_rows", rows.size, 32, arguments, A, B, witness, macros),
        threads=32 * _SORT_WARPS,
        shared_bytes=size * _SORT_WARPS,
    )


def _sort_pairs(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    excluded: CompressedRows | None,
    rows: Any,
    pairs: Any,
    demand: Callable[[int], None],
    witness_dtype: Any,
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield rows, columns, values and witnesses of the entries in some rows of A ⊗ B, sorted, some rows at a time."""
    rows = cupy.sort(rows)
    ends, shift = np.cumsum(pairs[rows].get()), max(1, (B.width - 1).bit_length())
    first, found = 0, 0
    while first < rows.size:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _CHUNK, side="right")))
        chunk, count = rows[first:last], int(ends[last - 1]) - before
        first = last
        lengths = A.starts[chunk + 1] - A.starts[chunk]
        entry_ends = cupy.cumsum(lengths)
        numbers = cupy.arange(int(entry_ends[-1]))
        local = cupy.searchsorted(entry_ends, numbers, side="right")
        places = numbers - (entry_ends - lengths)[local] + A.starts[chunk][local]
        inner = A.columns[places]
        pair_ends = cupy.cumsum(B.starts[inner + 1] - B.starts[inner])
        keys, terms = cupy.empty(count, np.int64), cupy.empty(count, plan.dtype)
        ks = None if witness_dtype is None else cupy.empty(count, witness_dtype)
        operands = local, places, pair_ends, A.columns, A.values, *B[:3]
        expanded = np.int64(numbers.size), np.int64(count), *operands, np.int32(shift), keys, terms, ks
        _launch(plan, "sparse_pairs.cu", "expand_pairs", count, 1, expanded, A, B, ks)
        order = cupy.argsort(keys)  # stable, so equal keys stay in the order of k
        keys = keys[order]
        is_first = cupy.ones(count, np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        heads = cupy.flatnonzero(is_first)
        values = cupy.empty(heads.size, plan.dtype)
        witness = None if ks is None else cupy.empty(heads.size, ks.dtype)
        folded = np.int64(heads.size), np.int64(count), heads, order, terms, ks, values, witness
        _launch(plan, "sparse_pairs.cu", "fold_runs", heads.size, 1, folded, A, B, ks)
        keys = keys[heads]
        result: Any = chunk[keys >> shift], keys & ((1 << shift) - 1), values, witness
        if excluded is not None:
            is_included = are_included(result[0], result[1], excluded.starts, excluded.columns)
            result = tuple(None if x is None else x[is_included] for x in result)
        found += result[0].size
        demand(found)
        yield result


def _transpose(B: CompressedRows, height: int, index: Any) -> CompressedRows:
    """Return the transpose of a matrix of ``height`` rows, with columns of the dtype ``index``, in the order of k."""
    order = cupy.argsort(B.columns)  # stable
    rows = row_numbers(B.starts, B.columns.size, index)
    return CompressedRows(starts_of_rows(B.columns[order], B.width), rows[order], B.values[order], height)


def add_runs(plan: KernelPlan, heads: Any, order: Any, values: Any) -> Any:
    """Return the sums of runs of values: of run u, values[order[heads[u]]] … values[order[heads[u + 1] - 1]]."""
    sums, index = cupy.empty(heads.size, values.dtype), CompressedRows(None, heads, None, 0)
    arguments = np.int64(heads.size), np.int64(order.size), heads, order, values, None, sums, None
    _launch(plan, "sparse_pairs.cu", "fold_runs", heads.size, 1, arguments, index, index, None)
    return sums


def _team_size(length: float) -> int:
    """Return the threads of a team for rows of this mean length, at least two entries each."""
    return min(32, _power_of_two(max(1, round(length / 2))))


def _power_of_two(number: int) -> int:
    """Return the least power of two that is at least ``number``."""
    return 1 << (number - 1).bit_length()


def _c_type(array: Any) -> str:
    return ELEMENTS[array.dtype.name]


def _launch(
    plan: KernelPlan,
    file: str,
    name: str,
    rows: int,
    team: int,
    arguments: tuple[Any, ...],
    inner: CompressedRows,
    outer: Any,
    witness: Any,
    macros: tuple[str, ...] = (),
    grid: tuple[int, int] = (1, 1),
    *,
    threads: int = 0,
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel with a team of threads for each row. None is a null array.

    The columns of ``inner`` and ``outer`` have the types ``inner_t`` and ``column_t`` of the kernels. A block has
    ``threads``, 0 for the default. ``grid`` has the blocks of the second and the third axis.
    """
    columns = outer.columns if isinstance(outer, CompressedRows) else inner.columns
    defines = [f"inner_t {_c_type(inner.columns)}", f"column_t {_c_type(columns)}", f"LANES {team}", *macros]
    if witness is not None:
        defines.append(f"WITNESS {_c_type(witness)}")
    kernel = compile_kernel(
        file, name, product_arithmetic_of(plan), tuple(defines), shared_bytes, purpose="sparse product"
    )
    threads = threads or _THREADS
    blocks = -(-rows * team // threads), *grid
    kernel(blocks, (threads,), [np.uint64(0) if x is None else x for x in arguments], shared_mem=shared_bytes)
