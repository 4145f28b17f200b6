"""Compute products of sparse matrices in NumPy, for first calls.

All pairs of some rows are listed, sorted by the position of their terms, and added, in the order of k where ⊕ rounds.
So the results are bitwise identical to those of `semiring.kernels.cpu.sparse_loops`, if no operation is rounded
differently and no entry is -0.0. `semiring.kernels.cpu.first_calls` checks this. A pair takes some 50 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from semiring.kernels.contract import Array, CompressedRows, KernelPlan, Steps
from semiring.kernels.cpu.numpy_kernels import compile_expression
from semiring.kernels.definition import absorbing_product, define

_PAIRS = 1 << 18  # that are listed at a time


class _Terms(NamedTuple):
    """The terms of some entries: those of an entry are adjacent, in the order of k."""

    values: Array  # (terms, …): an entry may be a whole row
    starts: Array  # (entries + 1,)
    numbers: Array  # (terms,): the witness of each term


def _fold(plan: KernelPlan, terms: _Terms, witness_dtype: Any) -> tuple[Array, Array | None]:
    """Return 0̄ ⊕ the terms of each entry, and their witnesses."""
    values, starts, numbers = terms
    lengths = np.diff(starts)
    shape = (lengths.size, *values.shape[1:])
    total, found = np.full(shape, plan.zero, plan.dtype), np.flatnonzero(lengths)
    add = compile_expression(define(plan).add, plan.dtype)
    if found.size and isinstance(add, np.ufunc) and (plan.semiring.selective or plan.dtype.kind in "iub"):
        total[found] = add(total[found], add.reduceat(values, starts[found], axis=0))
    elif found.size:
        for rank in range(int(lengths.max())):
            at = np.flatnonzero(lengths > rank)
            total[at] = add(total[at], values[starts[at] + rank], out=np.empty_like(total[at]))
    if witness_dtype is None:
        return total, None
    witness = np.full(shape, -1, witness_dtype)
    if found.size:
        attains = values == np.repeat(total, lengths, 0)
        places = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
        first = np.minimum.reduceat(np.where(attains, places, len(values)), starts[found], axis=0)
        chosen = numbers[np.minimum(first, len(values) - 1)]
        witness[found] = np.where((total[found] == plan.zero) | (first == len(values)), -1, chosen)
    return total, witness


def _multiply(plan: KernelPlan, x: Array, y: Array) -> Array:
    shape = np.broadcast_shapes(x.shape, y.shape)
    mul, out = compile_expression(define(plan).mul, plan.dtype), np.empty(shape, plan.dtype)
    product: Array = mul(x, y, out=out)
    return product


def spread(starts: Array, lengths: Array) -> Array:
    """Return the numbers starts[i] … starts[i] + lengths[i] - 1 of all i, one range after the other."""
    ends = np.cumsum(lengths)
    numbers: Array = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)
    return numbers


def _parts(work: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of about `_PAIRS` pairs, from the pairs of each row."""
    total = np.cumsum(work)
    first = 0
    while first < work.size:
        before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, before + _PAIRS, side="right")))
        yield first, last
        first = last


def _pairs_of_rows(A: CompressedRows, B: CompressedRows) -> Array:
    """Return the number of pairs of each row of A ⊗ B, and one more for the row itself."""
    sums = np.append(0, np.cumsum(np.diff(B.starts)[A.columns]))[A.starts]
    work: Array = np.diff(sums) + 1
    return work


def _row_numbers(starts: Array, first: int, last: int) -> Array:
    """Return for each entry of the rows first … last - 1 the number of its row, counted from ``first``."""
    return np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))


def _keys(rows: CompressedRows, first: int, last: int) -> Array:
    """Return the positions of the entries of some rows, in the order of rows and columns."""
    columns = rows.columns[rows.starts[first] : rows.starts[last]]
    keys: Array = _row_numbers(rows.starts, first, last) * rows.width + columns
    return keys


def _is_among(keys: Array, others: Array) -> Array:
    """Return which keys are among the ascending others."""
    if not others.size:
        return np.zeros(keys.size, np.bool_)
    found: Array = others[np.minimum(np.searchsorted(others, keys), others.size - 1)] == keys
    return found


def _listed_terms(
    plan: KernelPlan, A: CompressedRows, B: CompressedRows, first: int, last: int, known: Array, *, is_excluded: bool
) -> tuple[Array, _Terms]:
    """Return the positions of A ⊗ B in some rows that are among the known ones, or not, and their terms."""
    entries = slice(A.starts[first], A.starts[last])
    middle = A.columns[entries]
    lengths = B.starts[middle + 1] - B.starts[middle]
    b = spread(B.starts[middle], lengths)
    keys = np.repeat(_row_numbers(A.starts, first, last), lengths) * B.width + B.columns[b]
    chosen = np.flatnonzero(_is_among(keys, known) != is_excluded)
    chosen = chosen[np.argsort(keys[chosen], kind="stable")]
    a, keys = np.repeat(np.arange(middle.size), lengths)[chosen], keys[chosen]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    values = _multiply(plan, A.values[entries][a], B.values[b[chosen]])
    return keys[begins], _Terms(values, np.append(begins, keys.size), middle[a])


def _collect(
    parts: list[tuple[Array, Array, Array, Array | None]], plan: KernelPlan, columns: Any, width: int, witness: Any
) -> tuple[CompressedRows, Array | None, dict[str, int]]:
    """Return the result of some rows after the other: the numbers of their entries, columns, values, and witnesses."""
    empty = np.empty(0, np.int64), np.empty(0, columns), np.empty(0, plan.dtype), np.empty(0, witness or np.int32)
    arrays = [
        np.concatenate([start, *(part[i] for part in parts if part[i] is not None)]) for i, start in enumerate(empty)
    ]
    counts, heads, values, witnesses = arrays
    starts = np.append(0, np.cumsum(counts)).astype(np.int64)
    found = CompressedRows(starts, heads.astype(columns, copy=False), values, width)
    return found, None if witness is None else witnesses, {"sort": counts.size}


def multiply_sparse(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows,
    excluded: CompressedRows | None,
    demand: Callable[[int], None],
    witness_dtype: Any,
) -> tuple[CompressedRows, Array | None, dict[str, int]]:
    """Compute `SparseKernels.multiply_sparse` of the contract."""
    parts: list[tuple[Array, Array, Array, Array | None]] = []
    count = 0

    with np.errstate(all="ignore"):
        for first, last in _parts(_pairs_of_rows(A, B)):
            others = np.empty(0, np.int64) if excluded is None else _keys(excluded, first, last)
            keys, terms = _listed_terms(plan, A, B, first, last, others, is_excluded=True)
            count += keys.size
            demand(count)
            values, witness = _fold(plan, terms, witness_dtype)
            counts = np.bincount(keys // max(1, B.width), minlength=last - first)
            parts.append((counts, keys % max(1, B.width), values, witness))
    return _collect(parts, plan, B.columns.dtype, B.width, witness_dtype)


def multiply_masked(
    plan: KernelPlan,
    A: CompressedRows,
    B: CompressedRows | Array,
    mask: CompressedRows,
    witness_dtype: Any,
) -> tuple[CompressedRows, Array | None, dict[str, int]]:
    """Compute `SparseKernels.multiply_masked` of the contract."""
    parts: list[tuple[Array, Array, Array, Array | None]] = []
    is_sparse = isinstance(B, CompressedRows)
    work = _pairs_of_rows(A, B) if is_sparse else np.diff(A.starts) * np.diff(mask.starts) + 1  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        for first, last in _parts(work):
            wanted = _keys(mask, first, last)
            if isinstance(B, CompressedRows):
                keys, terms = _listed_terms(plan, A, B, first, last, wanted, is_excluded=False)
            else:
                keys, terms = _sampled_terms(plan, A, B, wanted, mask.width, first, last)
            values, witness = _fold(plan, terms, witness_dtype)
            counts = np.bincount(keys // max(1, mask.width), minlength=last - first)
            parts.append((counts, keys % max(1, mask.width), values, witness))
    return _collect(parts, plan, mask.columns.dtype, mask.width, witness_dtype)


def _sampled_terms(
    plan: KernelPlan, A: CompressedRows, B: Array, wanted: Array, width: int, first: int, last: int
) -> tuple[Array, _Terms]:
    """Return the wanted positions of A ⊗ B, for a dense B, in rows in which A has entries, and their terms."""
    rows = wanted // max(1, width)
    lengths = np.diff(A.starts[first : last + 1])[rows]
    keys, rows, lengths = wanted[lengths > 0], rows[lengths > 0], lengths[lengths > 0]
    a = spread(A.starts[first:last][rows], lengths)
    middle = A.columns[a]
    values = _multiply(plan, A.values[a], B[middle, np.repeat(keys % max(1, width), lengths)])
    return keys, _Terms(values, np.append(0, np.cumsum(lengths)), middle)


def multiply_mixed(
    plan: KernelPlan,
    C: Array,
    A: CompressedRows | Array,
    B: CompressedRows | Array,
    witness: Array | None,
    of_entries: bool = False,
) -> None:
    """Compute `SparseKernels.multiply_mixed` of the contract."""
    dtype = None if witness is None else witness.dtype
    with np.errstate(all="ignore"):
        if isinstance(A, CompressedRows):
            assert isinstance(B, np.ndarray)
            for first, last in _parts(np.diff(A.starts) * C.shape[1] + 1):
                own = slice(A.starts[first], A.starts[last])
                middle = A.columns[own]
                values = _multiply(plan, A.values[own][:, None], B[middle])
                numbers = np.arange(own.start, own.stop) if of_entries else middle
                terms = _Terms(values, A.starts[first : last + 1] - own.start, numbers)
                C[first:last], found = _fold(plan, terms, dtype)
                if witness is not None:
                    witness[first:last] = found
            return
        assert isinstance(B, CompressedRows)
        order = np.argsort(B.columns, kind="stable")
        middle, starts = _row_numbers(B.starts, 0, B.starts.size - 1)[order], np.zeros(C.shape[1] + 1, np.int64)
        np.cumsum(np.bincount(B.columns, minlength=C.shape[1]), out=starts[1:])
        for first, last in _parts(np.full(C.shape[0], order.size + 1)):
            a = A[first:last].T[middle]
            values = _multiply(plan, a, B.values[order][:, None])
            values[a == plan.zero] = plan.zero  # 0̄ is no entry
            total, found = _fold(plan, _Terms(values, starts, middle), dtype)
            C[first:last] = total.T
            if witness is not None:
                witness[first:last] = found.T  # type: ignore[union-attr]


def scan_rows(plan: KernelPlan, A: CompressedRows, bounds: tuple[Any, Any] | None) -> tuple[bool, bool]:
    """Compute `SparseKernels.scan_rows` of the contract."""
    starts, columns, values, width = A
    lengths = np.diff(starts)
    if starts[0] or (lengths < 0).any() or starts[-1] > columns.size:
        return False, False
    columns, values = columns[: starts[-1]], values[: starts[-1]]
    ascends = np.append(True, columns[1:] > columns[:-1])[: columns.size]
    ascends[starts[:-1][lengths > 0]] = True
    if not ascends.all() or (columns < 0).any() or (columns >= width).any():
        return False, False
    is_inside = bounds is None or bool(((values >= bounds[0]) & (values <= bounds[1])).all())
    return is_inside, not (values.view(f"i{values.itemsize}") < 0).any()


def multiply_unvalidated(
    plan: KernelPlan, C: Array, A: CompressedRows, B: Array, bounds: tuple[Any, Any] | None
) -> bool:
    """Compute `SparseKernels.multiply_unvalidated` of the contract."""
    is_valid = bounds is None or bool(((bounds[0] <= B) & (bounds[1] >= B)).all())
    if not (is_valid and scan_rows(plan, A, bounds)[0]):
        return False
    end = int(A.starts[-1])
    rows = A._replace(starts=A.starts.astype(np.int64), columns=A.columns[:end], values=A.values[:end])
    multiply_mixed(plan, C, rows, B, None)
    return True


class SparseStepMatrices:
    """Sparse matrices (n, n) of steps, one or one for each, that NumPy multiplies until their kernels are compiled.

    ``compiled`` is the preparation of the compiled kernels.
    """

    def __init__(self, matrices: tuple[CompressedRows, ...]) -> None:
        self.matrices = matrices
        self.compiled: Any = None

    def walk(self, plan: KernelPlan, x: Array, steps: Steps) -> None:
        """Compute `SequenceKernels.walk` of the contract."""
        walk_by_products(plan, self.matrices, x, steps, multiply_mixed)


def walk_by_products(
    plan: KernelPlan, matrices: tuple[CompressedRows, ...], x: Array, steps: Steps, multiply: Callable[..., None]
) -> None:
    """Compute `SequenceKernels.walk` of the contract by sparse matrices, one or one for each step.

    ``multiply`` is `SparseKernels.multiply_mixed` of compiled kernels or of this module.
    """
    y, going = np.empty_like(x), np.True_
    weigh = absorbing_product(define(plan)) if plan.semiring.annihilates else plan.semiring.mul.expression
    for t in range(steps.number):
        A = matrices[steps.first + t if len(matrices) > 1 else 0]
        W = None if steps.witness is None else np.full(x.shape, -1, np.int32)
        multiply(plan, y, x, A, W)
        if steps.lengths is not None:
            going = (steps.lengths > t)[:, None]
        with np.errstate(all="ignore"):
            weights = None if steps.weights is None else steps.weights[:, t]
            result = y if weights is None else weigh.evaluate({"x": y, "y": weights}, plan.dtype)
        np.copyto(x, result, where=going)
        if steps.states is not None:
            steps.states[:, t] = x
        if W is not None:
            steps.witness[:, t] = np.where(going, W, -1)
