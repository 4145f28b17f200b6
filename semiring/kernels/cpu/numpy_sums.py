"""Compute products and closures of floats with + and × in NumPy, rounded as the compiled kernels round them.

The kernels add one term after the other by fused multiply-adds, which round once. NumPy's ``@`` rounds in other places,
and in an order that depends on the shape, the strides and the number of threads. So each step here is a fused
multiply-add that is computed from exact sums and products. A pair takes some 10 ns, hundreds of times as long as by
``@``, and small products still take less time than to compile a kernel.

Sources: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to
odd", IEEE Trans. Comput. 57 (2008), for float64; T. J. Dekker, Numer. Math. 18 (1971), for exact products. In float32
the product is exact in float64, and the sum is rounded to odd there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semiring.kernels.contract import Array, KernelPlan
from semiring.kernels.cpu.order import PIVOTS
from semiring.kernels.definition import define

_PARTIAL = 4  # vectors of partial sums of a row in products by a column: see `semiring.kernels.cpu.product.matvec`
_LEAST_PAIRS = 1 << 12  # of products by a column that are added in partial sums
_BLOCK = 1 << 13  # entries of C, so that all arrays of a step stay in the cache
_SPLITTER = 2.0**27 + 1
_LARGEST = 2.0**400  # magnitudes whose products have exact halves; their inverse is the least magnitude


def is_fused(plan: KernelPlan) -> bool:
    """Return whether the compiled products of a plan are sums of fused multiply-adds of float32 or float64."""
    if plan.storage != "elements" or plan.dtype.char not in "fd":
        return False
    definition = define(plan)
    return definition.contract and (definition.add.text, definition.mul.text) == ("x + y", "x * y")


def is_exact(*operands: Array) -> bool:
    """Return whether the steps are exact: all entries are finite, and those of float64 neither huge nor tiny."""
    for operand in operands:
        sizes = np.abs(operand)
        if not np.isfinite(sizes).all():
            return False
        if operand.dtype.char == "d" and ((sizes > _LARGEST) | ((sizes < 1 / _LARGEST) & (sizes > 0))).any():
            return False
    return True


def multiply(C: Array, A: Array, B: Array, accumulate: bool) -> None:
    """Compute C ← [C +] A · B of matrices or stacks, in the order of k. C shares no memory with A or B."""
    if C.ndim == 3:
        for matrices in zip(C, A, B, strict=True):
            multiply(*matrices, accumulate)
        return
    if not accumulate:
        C[...] = 0
    step, (m, n) = _step_of_single if C.dtype.char == "f" else _step_of_double, C.shape
    width = min(n, _BLOCK)
    height = max(1, _BLOCK // width)
    with np.errstate(all="ignore"):
        for top in range(0, m, height):
            for left in range(0, n, width):
                c = C[top : top + height, left : left + width].astype(np.float64)
                a, b = A[top : top + height].astype(np.float64), B[:, left : left + width].astype(np.float64)
                for k in range(A.shape[1]):
                    c = step(a[:, k : k + 1], b[k : k + 1], c)
                C[top : top + height, left : left + width] = c


def multiply_column(C: Array, A: Array, B: Array, accumulate: bool, lanes: int) -> None:
    """Compute C ← [C +] A · B for a column C (m, 1) and A of adjacent rows, in partial sums of vectors of ``lanes``."""
    if A.size < _LEAST_PAIRS or max(A.shape) < 2 * lanes:
        multiply(C, A, B, accumulate)
        return
    step, x = _step_of_single if C.dtype.char == "f" else _step_of_double, B[:, 0].astype(np.float64)
    k, entries = A.shape[1], A.astype(np.float64)
    whole, group = k // lanes * lanes, _PARTIAL * lanes
    if whole < k:  # the end of a row is padded
        entries = np.pad(entries, ((0, 0), (0, lanes - k % lanes)))
        x = np.pad(x, (0, lanes - k % lanes))
    total = C[:, 0] if accumulate else np.zeros(len(C), C.dtype)
    with np.errstate(all="ignore"):
        for first, last in ((0, whole), (whole, x.size)):
            if first == last:
                continue
            sums, end = np.zeros((len(C), group)), first + (last - first) // group * group
            for start in range(first, end, group):
                sums = step(entries[:, start : start + group], x[start : start + group], sums)
            for start in range(end, last, lanes):
                part = slice(start, start + lanes)
                sums[:, :lanes] = step(entries[:, part], x[part], sums[:, :lanes])
            vectors = sums.astype(C.dtype).reshape(len(C), _PARTIAL, lanes)
            joined = vectors[:, 0]
            for place in range(1, _PARTIAL):
                joined = joined + vectors[:, place]
            while joined.shape[1] > 1:
                half = joined.shape[1] // 2
                joined = joined[:, :half] + joined[:, half:]
            total = total + joined[:, 0]
    C[:, 0] = total


def close(plan: KernelPlan, A: Array, pivotwise_rows: int) -> bool:
    """Compute A ← A* of each matrix of a stack (count, n, n) in place, in the order of the compiled kernels.

    The first pivot without a star is written to the plan's status. Return False, and leave A unchanged, if a step might
    not be exact.
    """
    n, found = A.shape[-1], []
    for number, matrix in enumerate(A):
        D = matrix.astype(np.float64)
        with np.errstate(all="ignore"):
            pivot = _close_matrix(plan, D, n if n <= pivotwise_rows else PIVOTS)
        if pivot is None or not np.isfinite(D).all():
            return False
        found.append(D)
        if pivot >= 0:
            plan.status.diverged = number * n + pivot
            break
    for matrix, D in zip(A, found, strict=False):
        matrix[...] = D
    return True


def _close_matrix(plan: KernelPlan, D: Array, width: int) -> int | None:
    """Close D (n, n) in place by blocks of pivots. Return the first pivot without a star, -1, or None if inexact.

    D is float64, and its entries are numbers of the plan's dtype.
    """
    n, step = len(D), _step_of_single if plan.dtype.char == "f" else _step_of_double
    for start in range(0, n, width):
        K = slice(start, start + width)
        pivot = _eliminate(plan, D[K, K], step)
        if pivot is None or pivot >= 0:
            return None if pivot is None else start + pivot
        if width >= n:
            break
        block, old = D[K, K].copy(), D[K].copy()
        if not may_multiply(plan, block, old):
            return None
        rows = np.zeros_like(old)
        for k in range(len(block)):
            rows = step(block[:, k : k + 1], old[k : k + 1], rows)
        rows[:, K] = block
        D[K] = rows
        if not may_multiply(plan, rows, D[:, K]):
            return None
        height = max(1, _BLOCK // n)
        for others in (slice(0, start), slice(K.stop, n)):
            for top in range(*others.indices(n)[:2], height):
                part = slice(top, min(others.stop, top + height))
                factors = D[part, K].copy()
                D[part, K] = 0
                for k in range(len(block)):
                    D[part] = step(factors[:, k : k + 1], rows[k : k + 1], D[part])
    return -1


def _eliminate(plan: KernelPlan, D: Array, step: Any) -> int | None:
    """Close D (n, n) pivot by pivot. Return the first pivot without a star, -1, or None if a step may be inexact."""
    definition, dtype = define(plan, closing=True), plan.dtype
    assert definition.star is not None
    for k in range(len(D)):
        pivot = D[k, k : k + 1].astype(dtype)
        if definition.divergence is not None and np.any(definition.divergence.evaluate({"x": pivot}, dtype)):
            return k
        star = np.asarray(definition.star.evaluate({"x": pivot}, dtype), dtype)
        row, factors = (star * D[k].astype(dtype)).astype(np.float64), D[:, k].copy()
        row[k] = star[0]
        if not may_multiply(plan, row, factors):
            return None
        D[:, k] = 0
        D[...] = step(factors[:, None], row, D)
        D[k] = row
    return -1


def may_multiply(plan: KernelPlan, *operands: Array) -> bool:
    """Return whether products of the operands are exact, and no entry is -0.0."""
    return is_exact(*(x.astype(plan.dtype) for x in operands)) and not any(
        np.signbit(x[x == 0]).any() for x in operands
    )


def walk(plan: KernelPlan, A: Array, x: Array) -> Array:
    """Return x ⊗ A (m, n) of rows x (m, n) and A (m or 1, n, n), in the order of k."""
    step, y = _step_of_single if plan.dtype.char == "f" else _step_of_double, np.zeros(x.shape)
    values, matrices = x.astype(np.float64), A.astype(np.float64)
    for k in range(x.shape[1]):
        y = step(values[:, k : k + 1], matrices[:, k], y)
    return y.astype(plan.dtype)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error."""
    total = x + y
    rest = total - x
    return total, (x - (total - rest)) + (y - rest)


def _sum_to_odd(x: Array, y: Array) -> Array:
    """Return a sum, rounded to the neighbour whose last bit is set if it is not exact."""
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    is_even = (error != 0) & ((bits & 1) == 0)
    bits += np.where((error > 0) == (total > 0), 1, -1) * is_even
    return total


def _step_of_single(a: Array, b: Array, c: Array) -> Array:
    """Return a · b + c, rounded once to float32, of float64 that are float32."""
    return _sum_to_odd(a * b, c).astype(np.float32).astype(np.float64)


def _split(x: Array) -> tuple[Array, Array]:
    """Return two halves of a number, each of at most 26 bits."""
    large = x * _SPLITTER
    high = large - (large - x)
    return high, x - high


def _step_of_double(a: Array, b: Array, c: Array) -> Array:
    """Return a · b + c, rounded once."""
    (high_a, low_a), (high_b, low_b) = _split(a), _split(b)
    product = a * b
    error = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    upper, lower = _two_sum(c, error)
    total, rest = _two_sum(product, upper)
    return total + _sum_to_odd(lower, rest)
